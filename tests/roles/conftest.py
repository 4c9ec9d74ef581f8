"""Small sites, and a way to let any of them talk."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from fedcsa.core.overlap import overlap
from fedcsa.core.risk import RiskMoments
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.protocol.codec import digest, encode
from fedcsa.protocol.messages import ModelRequest
from fedcsa.protocol.policy import Policy
from fedcsa.roles.plan import Plan
from fedcsa.roles.source import Source
from fedcsa.roles.target import Target
from fedcsa.transport.base import run
from fedcsa.transport.inprocess import InProcessTransport

FEATURES = ("x0", "x1")


def rows(n=30, seed=0, shift=0.0):
    """X and a noisy linear outcome."""
    rng = np.random.default_rng(seed)
    X = rng.normal(shift, 1.0, size=(n, 2))
    return X, X @ [1.0, -0.5] + 0.5 * rng.normal(size=n)


def labelled(n=60, seed=0, classes=("no", "yes")):
    """X and labels that depend on it, every class present."""
    X, y = rows(n, seed)
    cuts = np.quantile(y, np.linspace(0.0, 1.0, len(classes) + 1)[1:-1])
    return X, np.asarray(classes)[np.digitize(y, cuts)]


def plan(model="ridge", candidates=(0.0, 0.1, 1.0), **options):
    description = model_description(model)
    if not isinstance(candidates, dict) and candidates is not None:
        candidates = list(candidates)
    return Plan(
        features=FEATURES,
        model=description,
        candidates=expand_candidates(description["name"], candidates),
        **{"method": "feddae", **options},
    )


def target(design=None, n=40, seed=99, X=None, **options):
    table = rows(n, seed)[0] if X is None else X
    return Target(table, design or plan(), **{"policy": Policy.open(), **options})


def source(name="a", data=None, **options):
    X, y = rows(30, sum(map(ord, name))) if data is None else data
    return Source(name, X, y, **{"policy": Policy.open(), **options})


def study(design=None, sources=None, **options):
    """Run a whole study; options are the target's."""
    sites = [source("a"), source("b")] if sources is None else sources
    return run(target(design, **options), InProcessTransport(sites))


def request_for(brief, candidate=0):
    return ModelRequest(brief.study, digest(encode(brief)), candidate)


def crafted(report, ratios, losses, after=(0.0, 0.0)):
    """The same source's report, had it found these ratios and losses (one column a candidate).

    The constant prediction, the last column of a report, loses 1 on every row.
    """
    ratios = np.asarray(ratios, dtype=float)
    losses = np.column_stack([losses, np.ones(len(ratios))])
    moments = RiskMoments.of(ratios, losses)
    numbers = overlap(ratios, np.zeros((len(ratios), 2)), 1.0)
    names = ("ratio_mean", "ratio_m2", "loss_mean", "loss_m2", "product_mean", "product_m2")
    return dataclasses.replace(
        report,
        n_rows=3 * len(ratios),
        n_validation=len(ratios),
        effective_rows=numbers.effective_rows,
        largest_share=numbers.largest_share,
        co_moment=moments.co_moment,
        difference_after=np.asarray(after, dtype=float),
        findings=(),
        **{name: getattr(moments, name) for name in names},
    )


@pytest.fixture(scope="session")
def make():
    return SimpleNamespace(
        rows=rows,
        labelled=labelled,
        plan=plan,
        target=target,
        source=source,
        study=study,
        request_for=request_for,
        crafted=crafted,
        features=FEATURES,
    )

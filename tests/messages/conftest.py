"""One real exchange, from which the tests here make messages of every kind."""

import dataclasses
import functools
import json
import struct
from types import SimpleNamespace

import numpy as np
import pytest

from fedcsa.core.losses import RiskMoments
from fedcsa.messages.codec import PROTOCOL_VERSION, digest, encode
from fedcsa.messages.messages import MESSAGES, Conclusion, MoreCandidates, Refusal
from fedcsa.messages.policy import Policy
from fedcsa.plan import Plan
from fedcsa.source.source import Source
from fedcsa.target.target import Target

PREFIX = struct.Struct("<4sHI")


@functools.cache
def exchange(n_candidates=2, n_features=2, kind="table", n_target=200, moments=True):
    """Every message of a small study of two sources; those of the source "a"."""
    rng = np.random.default_rng(5)
    rows = {"method": "feddae", "exchange": "rows", "ratio": {"regularizations": [0.1]}}
    table = {"compare": ("feddae",)} if moments else {}
    plan = Plan(
        features=tuple(f"x{i}" for i in range(n_features)),
        model={"name": "ridge"},
        candidates=tuple({"penalty": float(k)} for k in range(n_candidates)),
        **(rows if kind == "rows" else table),
    )
    target = Target(rng.normal(size=(n_target, n_features)), plan, policy=Policy.open())
    sources = {}
    for name in ("a", "b"):
        X = rng.normal(size=(60, n_features))
        y = X.sum(axis=1) + 0.3 * rng.normal(size=60)
        sources[name] = Source(name, X, y, policy=Policy.open())
    brief = target.brief([*sources])
    reports = {name: source.answer(brief) for name, source in sources.items()}
    request = target.choose(reports)
    models = {name: source.answer(request) for name, source in sources.items()}
    examination = target.mix(models).get("a")  # none where a method of the paper is asked for
    return SimpleNamespace(
        brief=brief,
        report=reports["a"],
        request=request,
        model=models["a"],
        examination=examination,
        found=examination and sources["a"].answer(examination),
        refusal=Refusal("study", "a", digest(encode(brief)), "min_fold_rows"),
    )


def crafted(ratios, losses):
    """The report of an honest source with these ratios (rows,) and losses (rows, candidates)."""
    ratios, losses = np.asarray(ratios, dtype=float), np.asarray(losses, dtype=float)
    moments = RiskMoments.of(ratios, losses)
    total = ratios.sum()
    shares = ratios / total if total > 0.0 else ratios
    weights = shares if total > 0.0 else np.full(len(ratios), 1.0 / len(ratios))
    names = ("ratio_mean", "ratio_m2", "loss_mean", "loss_m2", "product_mean", "product_m2")
    return dataclasses.replace(
        exchange().report,
        n_rows=3 * len(ratios),
        n_judged=len(ratios),
        effective_rows=1.0 / float(shares @ shares) if total > 0.0 else 0.0,
        largest_share=float(shares.max()),
        risk=weights @ losses,
        variance=np.square(weights) @ np.square(losses - weights @ losses),
        co_moment=moments.co_moment,
        **{name: getattr(moments, name) for name in names},
    )


TREES = {"kind": "trees", "link": "identity", "combine": "mean"}
#: Values for messages that are nothing but a few single values.
SIMPLE = {"text": "Ulm", "whole": 7, "number": 0.123456, "flag": True}


def all_messages():
    """One message of every kind, every sort of brief, report and model among them."""
    small = exchange()
    tree = {"feature": np.array([1, -1, -1], np.int32), "value": np.array([0.0, 1.23456, -2.5])}
    made = {
        "brief": small.brief,
        "brief-rows": exchange(kind="rows").brief,
        "risk-report": small.report,
        "risk-report-bare": exchange(moments=False).report,
        "more-candidates": MoreCandidates("study", "", 2, [{"penalty": 0.25}]),
        "model-request": small.request,
        "model-report": small.model,
        "model-report-trees": dataclasses.replace(small.model, form=TREES, arrays=tree),
        "examination": small.examination,
        "examination-trees": dataclasses.replace(
            small.examination,
            weights=np.array([0.75, 0.25]),
            forms=[TREES, TREES],
            arrays={f"{k}.{name}": array for k in (0, 1) for name, array in tree.items()},
        ),
        "examination-report": small.found,
        "examination-report-empty": dataclasses.replace(
            small.found,
            reason="outcomes_alike",
            level=np.empty(0),
            level_variance=np.empty(0),
            scores=np.empty((0, 7)),
            score_sums=np.empty((0, 0)),
            measure_variance=np.empty((0, 0)),
            residuals=np.empty((0, 0)),
        ),
        "refusal": small.refusal,
        "conclusion": Conclusion("study", "done", {"a": "answered"}, "", np.arange(9, dtype="u1")),
    }
    for name, cls in MESSAGES.items():
        if name not in made:
            needed = [
                f for f in dataclasses.fields(cls) if f.default_factory is dataclasses.MISSING
            ]
            made[name] = cls(**{item.name: SIMPLE[item.metadata["kind"]] for item in needed})
    return made


KINDS = [*all_messages()]


def split(wire):
    """Header as a dictionary, and the bytes of the arrays."""
    _, _, length = PREFIX.unpack_from(wire)
    body = PREFIX.size + length
    return json.loads(wire[PREFIX.size : body]), wire[body:]


def join(header, payload, *, magic=b"FCSA", version=PROTOCOL_VERSION, length=None):
    """Bytes of a message from any header, a dictionary or bytes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return PREFIX.pack(magic, version, len(text) if length is None else length) + text + payload


@pytest.fixture(scope="session")
def tools():
    return SimpleNamespace(
        exchange=exchange, crafted=crafted, split=split, join=join, prefix=PREFIX
    )


@pytest.fixture(scope="session")
def messages():
    return all_messages()


@pytest.fixture(params=KINDS)
def message(request, messages):
    return messages[request.param]

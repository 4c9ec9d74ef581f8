"""What all tests share: one thread for small matrices, and hypothesis's files out of the way."""

import atexit
import gc
import getpass
import math
import os
import shutil
import tempfile
from pathlib import Path

# Before numpy is loaded. Threads only cost on matrices this small, and most where tests run
# beside something else.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault(
    "HYPOTHESIS_STORAGE_DIRECTORY",
    str(Path(tempfile.gettempdir()) / f"fedcsa-hypothesis-{getpass.getuser()}"),
)

# Where there is a disk of memory the tests write there: a site replaces its files a hundred times
# a study, and a real disk takes milliseconds for each. All that is kept of some runs is 0.7 GB.
MEMORY = Path("/dev/shm")  # noqa: S108 - below it, pytest makes folders of this user alone
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4 * 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

import dataclasses
from types import SimpleNamespace

import hypothesis
import numpy as np
import pytest

from fedcsa.core.losses import RiskMoments
from fedcsa.messages.codec import digest, encode
from fedcsa.messages.messages import ModelRequest
from fedcsa.messages.policy import Policy
from fedcsa.models.correction import Correction
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.plan import Plan
from fedcsa.run import InProcess, run_study
from fedcsa.source import processes
from fedcsa.source.source import Source
from fedcsa.target.target import Target
from fedcsa.target.verdict import Verdict
from fedcsa.target.with_outcomes import MeasureUpdate
from fedcsa.update import Update, UpdateLook

# No test pulls the plug, and waiting for a disk takes longer than most of what is written. Whether
# a full disk is noticed is tested where a function of the test's own stands in its place.
os.fsync = os.fstat

# Tests run side by side already, and a process that has collected them all is dear to fork. Whether
# forks are worth their start is a matter of the clock besides; where they are tested, they are.
processes.WORTH_STARTING = math.inf

# No test fails because the machine is slow.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

#: Files that take longest, each 15 seconds of a processor or more, the engine's by far: the
#: processes begin with them.
LONG = (
    "tests/federation/test_engine.py",
    "tests/benchmarks/test_scripts.py",
    "tests/site/test_desks.py",
    "tests/test_tutorials.py",
    "tests/cli/test_commands.py",
    "tests/test_estimator.py",
    "tests/test_invariance.py",
    "tests/oracles/test_rule.py",
    "tests/test_console.py",
    "tests/answer/test_browser.py",
    "tests/cli/test_output.py",
    "tests/experiments/test_reproduction.py",
    "tests/attacks/test_a03_one_source_ends_the_study.py",
    "tests/test_backtest.py",
    "tests/site/test_lies.py",
    "tests/attacks/test_fuzz.py",
    "tests/properties/test_core_properties.py",
    "tests/properties/test_protocol_properties.py",
    "tests/source/test_processes.py",
    "tests/site/test_kits.py",
)


def pytest_collection_modifyitems(items):
    """Begin with the long files, so that none is left to one process at the end."""
    first = {path: place for place, path in enumerate(LONG)}
    items.sort(key=lambda item: first.get(item.nodeid.split("::")[0], len(LONG)))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """All that is loaded stays: do not look through it for what can be freed, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        atexit.register(gc.unfreeze)  # libraries complain of what is left at the end


# One browser a file ---------------------------------------------------------------------------

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")  # its event loop must not outlive the tests that need it
def browser():
    """Chromium, or a skip that names it."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed here")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed here")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


# Small sites, and a way to let any of them talk ----------------------------------------------

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
        **options,
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
    return run_study(target(design, **options), InProcess(sites))


def request_for(brief, candidate=0):
    return ModelRequest(brief.study, digest(encode(brief)), candidate)


def crafted(report, ratios, losses, after=(0.0, 0.0)):
    """The same source's report, had it found these ratios and losses (one column a candidate).

    With moments for the paper's methods if the report has them.
    """
    ratios, losses = np.asarray(ratios, dtype=float), np.asarray(losses, dtype=float)
    n, total = len(ratios), float(np.sum(ratios))
    w = ratios / total if total else np.full(n, 1.0 / n)
    risk = w @ losses
    squares = float(w @ w)
    changed = {
        "n_rows": n,
        "n_judged": n,
        "effective_rows": 1.0 / squares if total else 0.0,
        "largest_share": float(w.max()) if total else 0.0,
        "risk": risk,
        "variance": (w * w) @ (losses - risk) ** 2,
        "difference_after": np.asarray(after, dtype=float),
        "findings": (),
    }
    if len(report.loss_mean):
        moments = RiskMoments.of(ratios, losses)
        names = ("ratio_mean", "ratio_m2", "loss_mean", "loss_m2", "product_mean", "product_m2")
        changed |= {name: getattr(moments, name) for name in (*names, "co_moment")}
    return dataclasses.replace(report, **changed)


def without_tables(message):
    """An examination that tells no score table, which could contradict a made-up report."""
    if not hasattr(message, "scores"):
        return message
    none = np.empty((0, 0))
    cells = message.scores[:0]
    return dataclasses.replace(message, scores=cells, score_sums=none, measure_variance=none)


def finish(target, sources, request, reports=None):
    """The models, of as many rows as the `reports` say, and the examinations without tables."""
    models = {name: sources[name].answer(request) for name in target.asked}
    for name, report in (reports or {}).items():
        if name in models:
            models[name] = dataclasses.replace(models[name], n_rows=report.n_rows)
    found = {name: sources[name].answer(item) for name, item in target.mix(models).items()}
    return target.conclude({name: without_tables(answer) for name, answer in found.items()})


def examined(target, sources, asked):
    return target.conclude({name: sources[name].answer(item) for name, item in asked.items()})


def updated(n_rows=30, before=(1.0, 0.8, 1.25), alone=(1.1, 0.9, 1.3), measures=(), **fields):
    """What outcomes could have changed, without computing anything."""
    after = alone or before or (1.0, 0.5, 2.0)
    risk = MeasureUpdate(
        "risk", "", None, None, before, alone, after, after[1:], 2.0 * n_rows, 0.4, 0.7
    )
    made = Update(
        n_rows=n_rows, effective_rows=float(n_rows), level=0.95, measures=(risk, *measures),
        against=0.7, unlike=0.8, row_variance=1.0, correction=Correction(0.1, 0.9),
        why_same_model="", gain=0.95, expected_gain=0.9,
        before=Verdict("use", "the sources agree"), verdict=Verdict("use", "outcomes agree"),
        changed="the verdict stays: outcomes agree",
        path=(UpdateLook(n_rows, *after, after[1:], 0.7),),
    )  # fmt: skip
    return dataclasses.replace(made, **fields)


@pytest.fixture(scope="session")
def make():
    return SimpleNamespace(
        updated=updated,
        rows=rows,
        labelled=labelled,
        plan=plan,
        target=target,
        source=source,
        study=study,
        request_for=request_for,
        crafted=crafted,
        without_tables=without_tables,
        finish=finish,
        examined=examined,
        features=FEATURES,
    )

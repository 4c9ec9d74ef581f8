"""Results of every shape, made of the real classes, and one browser for all tests."""

import functools
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from fedcsa import FedCSA
from fedcsa.core.ensemble import EnsembleRisk
from fedcsa.core.overlap import overlap
from fedcsa.core.risk import RiskMoments
from fedcsa.findings import CATALOGUE, Finding
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.protocol.ledger import Ledger
from fedcsa.protocol.messages import RiskReport
from fedcsa.report.page import write_report
from fedcsa.result import save_result
from fedcsa.roles.adaptation import Adaptation
from fedcsa.roles.backtest import Backtest, BacktestRow
from fedcsa.roles.ending import Ending
from fedcsa.roles.estimation import constant_risks, estimates
from fedcsa.roles.plan import Plan

NASTY = (
    "<script>alert(1)</script>",
    "</title><img src=x onerror=alert(1)>",
    "quote \" and ' and &amp;",
    "$\\alpha$ 年齢 🏥 עברית",
    "tab\tbell\x07null\x00",
)
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


def plan_of(features, candidates=(0.0, 0.1, 1.0), **options):
    description = model_description("ridge")
    if not isinstance(candidates, dict):
        candidates = list(candidates)
    listed = expand_candidates(description["name"], candidates)
    return Plan(features=tuple(features), model=description, candidates=listed, **options)


def report_of(name, plan, seed, shift=0.0):
    """A report that an honest source could have sent."""
    rng = np.random.default_rng(seed)
    n, count, d = 40, len(plan.candidates) + 1, len(plan.features)
    ratios, losses = rng.gamma(4.0, 0.25, n), rng.gamma(2.0, 0.5, (n, count))
    moments, numbers = RiskMoments.of(ratios, losses), overlap(ratios, np.zeros((n, d)), 1.0)
    spread = np.full(count, 0.5)
    before = rng.normal(shift, 0.4, d)
    return RiskReport(
        study=plan.study, source=name, in_reply_to="0" * 64, n_rows=n, n_validation=n,
        ratio_mean=moments.ratio_mean, ratio_m2=moments.ratio_m2, loss_mean=moments.loss_mean,
        loss_m2=moments.loss_m2, product_mean=moments.product_mean,
        product_m2=moments.product_m2, co_moment=moments.co_moment, spread=spread,
        variance=spread / numbers.effective_rows * 1.02, explained=0.1 * spread,
        kernel_imbalance=0.01, effective_rows=numbers.effective_rows,
        largest_share=numbers.largest_share, target_mean_ratio=1.0,
        difference_before=before, difference_after=before * (0.9 if shift else 0.1), failed={},
        findings=(),
    )  # fmt: skip


def ledgers_of(reports):
    ledgers = {}
    for name, report in reports.items():
        ledger = Ledger(name)
        ledger.record(report, "target")
        ledgers[name] = tuple(ledger.entries)
    return ledgers


def adaptation_of(
    names, features, *, far=(), findings=(), status="ok", kind="exact", backtest=None,
    candidates=(0.0, 0.1, 1.0), ledgers=True, **options,
):  # fmt: skip
    """A finished study; the sources in `far` lie far off and have no weight."""
    plan = plan_of(features, candidates, **options)
    reports = {
        name: report_of(name, plan, index, 3.0 if name in far else 0.0)
        for index, name in enumerate(sorted(names))
    }
    near = [name for name in sorted(names) if name not in far] or sorted(names)
    shares = np.arange(len(near), 0, -1) / np.arange(len(near), 0, -1).sum()
    weights = dict.fromkeys(sorted(names), 0.0) | dict(zip(near, shares.tolist(), strict=True))
    kept = tuple(range(len(plan.candidates)))
    inside = kind != "none"
    risk = EnsembleRisk(
        weights=np.array(list(weights.values())), risk=0.9123, average=0.95, ambiguity=0.05,
        standard_error=0.1, lower=0.7456 if inside else None, upper=1.1789 if inside else None,
        level=0.95, kind=kind, status=status, worst=1.4, target_rows=40.0,
        kernel_imbalance=0.02, mean_imbalance=0.03, site=0.01, if_shared=0.9,
    )  # fmt: skip
    d = len(plan.features)
    return Adaptation(
        plan=plan, kept=kept, estimates=estimates(plan, reports, kept), reports=reports,
        model_reports={}, models={}, source_weights=weights, mean=np.zeros(d), sd=np.ones(d),
        n_target_rows=40, constant_risks=constant_risks(plan, reports), risk=risk, by_rows=risk,
        backtest=backtest, findings=tuple(findings),
        ledgers=ledgers_of(reports) if ledgers else {},
    )  # fmt: skip


def every_finding(source):
    evidence = {"imbalance": 10.25, "<b>age</b>": -6.18}
    rule = {"rule": "min_fold_rows"}
    return [
        Finding(code, source if index % 2 else "", rule if code == "source-refused" else evidence)
        for index, code in enumerate(CATALOGUE)
    ]


@functools.cache
def small_study():
    """A real study of three hospitals, with a back-test."""
    rng = np.random.default_rng(3)

    def hospital(mean, rows):
        X = rng.normal(mean, 1.0, (rows, 3))
        return X, X.sum(axis=1) + rng.normal(size=rows)

    sources = {"north": hospital(0.0, 60), "south": hospital(0.3, 50), "west": hospital(0.1, 70)}
    fedcsa = FedCSA(candidates=[0.0, 0.01, 0.1, 1.0, 10.0], random_state=1)
    fedcsa.fit(sources, rng.normal(0.1, 1.0, (40, 3)))
    fedcsa.backtest(sources)
    return fedcsa


def made(kind):
    """What a study of this kind leaves."""
    if kind == "small":
        return small_study().adaptation_
    if kind == "one source":
        return adaptation_of(["only"], ["x"], candidates=(0.5,))
    if kind == "100 sources":
        names = [f"hospital {index:03}" for index in range(100)]
        rows = [BacktestRow(n, 40, "ok", 1.0, 0.8, 1.3, 1.1, 0.1, 1.0) for n in names]
        return adaptation_of(
            names, ["age", "bmi"], far=names[90:], backtest=Backtest(tuple(rows), 0.95)
        )
    if kind == "300 features":
        return adaptation_of(["a", "b", "c"], [f"gene {index}" for index in range(300)])
    if kind == "every finding":
        rows = (BacktestRow("a", 40, "ok", 1.0, 0.8, 1.3, 9.0, 0.1, 1.0),)
        return adaptation_of(
            ["a", "b"], ["age"], far=["b"], findings=every_finding("b"),
            status="sources disagree", backtest=Backtest(rows, 0.95),
        )  # fmt: skip
    if kind == "nasty names":
        options = {"findings": [Finding("imbalance", NASTY[0], {NASTY[1][:40]: 2.5})]}
        return adaptation_of(NASTY, [f"{name} column" for name in NASTY], study=NASTY[1], **options)
    plan = plan_of(["age", "bmi"])
    refusals = [Finding("source-refused", name, {"rule": "min_fold_rows"}) for name in "abc"]
    text = "At least one source must report; 3 were asked and all refused."
    return Ending(plan, "min_sources", text, 40, {}, tuple(refusals))


KINDS = (
    "small", "one source", "100 sources", "300 features", "every finding", "nasty names",
    "all refused",
)  # fmt: skip


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """A function that gives the folder of a result with its report, made once."""

    @functools.cache
    def folder(kind):
        path = tmp_path_factory.mktemp("result") / "r"
        save_result(made(kind), path)
        write_report(path)
        return path

    return folder


@pytest.fixture(scope="session")
def making():
    return SimpleNamespace(
        KINDS=KINDS, NASTY=NASTY, adaptation_of=adaptation_of, plan_of=plan_of, made=made,
        small_study=small_study,
    )  # fmt: skip


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

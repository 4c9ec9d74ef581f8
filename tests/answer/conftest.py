"""Results of every shape, made of the real classes."""

import functools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fedcsa import FedCSA
from fedcsa.answer.page import write_report
from fedcsa.answer.store import save_result
from fedcsa.core.losses import RiskMoments
from fedcsa.core.table import Table1
from fedcsa.findings import CATALOGUE, Finding
from fedcsa.messages.messages import ExaminationReport, RiskReport
from fedcsa.messages.policy import entries_of
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.plan import Plan
from fedcsa.target.adaptation import Adaptation, Concluded, Stopped
from fedcsa.target.backtest_result import Backtest, BacktestRow
from fedcsa.target.estimate import Reported, estimates
from fedcsa.target.promised_measures import (
    Calibration,
    DecisionCurve,
    MeasurePromise,
    Recalibration,
    RiskDistribution,
)

MOMENTS = ("loss_mean", "loss_m2", "product_mean", "product_m2", "co_moment")
NASTY = (
    "<script>alert(1)</script>",
    "</title><img src=x onerror=alert(1)>",
    "quote \" and ' and &amp;",
    "$\\alpha$ 年齢 🏥 עברית",
    "tab\tbell\x07null\x00",
)


def plan_of(features, candidates=(0.0, 0.1, 1.0), **options):
    description = model_description("ridge")
    if not isinstance(candidates, dict):
        candidates = list(candidates)
    listed = expand_candidates(description["name"], candidates)
    return Plan(features=tuple(features), model=description, candidates=listed, **options)


def report_of(name, plan, seed, shift=0.0):
    """A report that an honest source could have sent."""
    rng = np.random.default_rng(seed)
    n, d, count = 40, len(plan.features), len(plan.candidates)
    ratios, losses = rng.gamma(4.0, 0.25, n), rng.gamma(2.0, 0.5, (n, count))
    weights = ratios / ratios.sum()
    before = rng.normal(shift, 0.4, d)
    m = RiskMoments.of(ratios, losses) if plan.compared else None
    told = {key: getattr(m, key) if m else np.empty(0) for key in MOMENTS}
    return RiskReport(
        study=plan.study, source=name, in_reply_to="0" * 64, n_rows=n, n_judged=n, n_folds=5,
        effective_rows=1.0 / (weights @ weights), largest_share=weights.max(),
        difference_before=before, difference_after=before * (0.9 if shift else 0.1),
        outcome_mean=np.array([0.4, 0.6] if plan.classes else [1.0]), correlations=np.empty(0),
        risk=weights @ losses, variance=np.full(count, 0.01),
        ratio_mean=m.ratio_mean if m else 0.0, ratio_m2=m.ratio_m2 if m else 0.0, **told,
        failed={}, findings=(),
    )  # fmt: skip


def found_by(name, plan, seed, reason=""):
    """What an honest source could have found of the others' mixture."""
    rng = np.random.default_rng(1000 + seed)
    none = np.empty(0)
    if reason:
        return ExaminationReport(
            study=plan.study, source=name, in_reply_to="0" * 64, reason=reason, risk=0.0,
            risk_variance=0.0, explained=0.0, constant_risk=0.0, ratio_variance=0.0, level=none,
            level_variance=none, member_risk=none, member_variance=none,
        )  # fmt: skip
    return ExaminationReport(
        study=plan.study, source=name, in_reply_to="0" * 64, reason="",
        risk=0.3 * rng.lognormal(0.0, 0.1), risk_variance=0.02, explained=0.5,
        constant_risk=0.7, ratio_variance=0.02, level=rng.normal(0.0, 0.1, 1),
        level_variance=np.array([0.01]), member_risk=none, member_variance=none,
    )  # fmt: skip


def promised(name, estimate, half, **options):
    """What is promised of a measure, and what sources a and b found."""
    ends = (estimate - half, estimate + half)
    by_source = {"a": (estimate - half / 2, *ends), "b": (estimate + half / 2, *ends)}
    given = {"by_source": {} if "subgroup" in options else by_source, **options}
    return MeasurePromise(name, estimate=estimate, lower=ends[0], upper=ends[1], between_sites=0.1,
                          **given)  # fmt: skip


def measured():
    """Fields of a view of two classes, by hand: rare events, worse for the old."""
    few = {"subgroup": "diabetes", "why_not": "not enough events"}
    recalibrated = Recalibration(
        None, -0.2, 0.9, (promised("calibration_slope", 0.9, 0.2),),
        (promised("calibration_slope", 1.0, 0.2),),
    )  # fmt: skip
    return {
        "measures": (
            promised("auroc", 0.8, 0.05), promised("event_rate", 0.07, 0.02),
            promised("observed_expected", 0.95, 0.2), promised("brier", 0.06, 0.02),
            promised("net_benefit", 0.02, 0.01, threshold=0.1),
            promised("auroc", 0.6, 0.1, subgroup="over 80"), MeasurePromise("auroc", **few),
        ),
        "differences": (promised("auroc", -0.2, 0.1, subgroup="over 80"),),
        "calibration": (Calibration(None, (0.1, 0.3), (0.1, 0.2), (0.05, 0.1), (0.2, 0.4),
                                    (0.8, 0.2)),),
        "risk_distributions": (RiskDistribution(None, (0.0, 0.5, 1.0), (0.4, 0.6), (0.9, 0.1)),),
        "recalibration": recalibrated,
        "decision_curve": DecisionCurve((0.1, 0.2), (0.03, 0.02), (0.01, 0.0), (0.05, 0.04),
                                        (0.01, -0.1)),
    }  # fmt: skip


def ledgers_of(reports):
    return {name: tuple(entries_of(report, name, ["target"])) for name, report in reports.items()}


def adaptation_of(
    names, features, *, far=(), silent=(), findings=(), backtest=None, weights=None,
    candidates=(0.0, 0.1, 1.0), ledgers=True, n_target_rows=60, kept=None, **options,
):  # fmt: skip
    """A finished study; the sources in `far` lie far off, those in `silent` cannot examine."""
    plan = plan_of(features, candidates, **options)
    names = sorted(names)
    reports = {
        name: report_of(name, plan, index, 3.0 if name in far else 0.0)
        for index, name in enumerate(names)
    }
    near = [name for name in names if name not in far] or names
    shares = np.arange(len(near), 0, -1) / np.arange(len(near), 0, -1).sum()
    given = dict.fromkeys(names, 0.0) | dict(zip(near, shares.tolist(), strict=True))
    kept = tuple(range(len(plan.candidates))) if kept is None else kept
    d = len(plan.features)
    validated = plan.method == "validated"
    examined = {
        name: found_by(name, plan, index, "outcomes_alike" if name in silent else "")
        for index, name in enumerate(names)
        if validated
    }
    silence = [Finding("not-examined", name, {"reason": "outcomes_alike"}) for name in silent]
    a = Adaptation(
        plan=plan, table=Table1(n_target_rows, plan.features, plan.flags, np.zeros(d), np.ones(d)),
        kept=kept, estimates=estimates(plan, Reported.of(reports), kept), reports=reports,
        model_reports={}, models={}, source_weights=weights or given, examinations=examined,
        backtest=backtest, ledgers=ledgers_of(reports) if ledgers else {},
        rounds=(len(plan.candidates),),
    )  # fmt: skip
    return replace(a, concluded=Concluded(a.promise, (*findings, *silence)))


def without_model(plan, text="Nobody is near.", reports=(), findings=(), rule="no_overlap"):
    """What is left of a study that stopped."""
    d = len(plan.features)
    table = Table1(40, plan.features, plan.flags, np.zeros(d), np.ones(d))
    stopped = Stopped(rule, text)
    rounds = (len(plan.candidates),)
    concluded = Concluded(findings=tuple(findings))
    return Adaptation(plan, table, dict(reports), rounds, concluded=concluded, stopped=stopped)


def every_finding(source):
    evidence = {"imbalance": 10.25, "<b>age</b>": -6.18}
    rule = {"rule": "min_fold_rows"}
    return [
        Finding(code, source if index % 2 else "", rule if code == "source-refused" else evidence)
        for index, code in enumerate(CATALOGUE)
    ]


@functools.cache
def small_study():
    """A real study of three hospitals, with a back-test and two methods of the paper."""
    rng = np.random.default_rng(3)

    def hospital(mean, rows):
        X = rng.normal(mean, 1.0, (rows, 3))
        return X, X.sum(axis=1) + rng.normal(size=rows)

    sources = {"north": hospital(0.0, 160), "south": hospital(0.3, 150), "west": hospital(0.1, 170)}
    grid = {"penalty": [0.0, 0.01, 0.1, 1.0, 10.0], "ratio_power": [0.0, 0.5, 1.0]}
    fedcsa = FedCSA(candidates=grid, compare=["naive", "feddae"], random_state=1)
    fedcsa.fit(sources, rng.normal(0.1, 1.0, (60, 3)))
    fedcsa.backtest(sources)
    return fedcsa


def two_classes():
    """A real study of two classes: thresholds, a subgroup, and one of too few patients."""
    rng = np.random.default_rng(5)

    def hospital(rows):
        X = rng.normal(0.0, 1.0, (rows, 2))
        return X, (rng.uniform(size=rows) < 1.0 / (1.0 + np.exp(2.0 - 1.5 * X[:, 0]))).astype(int)

    groups = [
        {"name": "over 0", "feature": "x0", "cut": 0.0},
        {"name": "far <b>out</b>", "feature": "x1", "cut": 4.0},
    ]
    model = LogisticRegression()
    fedcsa = FedCSA(
        model, candidates={"C": [1.0]}, thresholds=[0.1, 0.3], subgroups=groups, random_state=1
    )
    sources = {name: hospital(250) for name in ("north", "south", "west")}
    return fedcsa.fit(sources, hospital(100)[0]).adaptation_


@functools.cache
def made(kind):
    """What a study of this kind leaves."""
    if kind == "two classes":
        return two_classes()
    if kind == "small":
        return small_study().adaptation_
    if kind == "one source":
        return adaptation_of(["only"], ["x"], candidates=(0.5,))
    if kind == "two sources":
        return adaptation_of(["east", "west"], ["x"], weights={"east": 0.5, "west": 0.5})
    if kind == "paper":
        return adaptation_of(
            ["a", "b"], ["x"], method="feddae", exchange="rows", compare=("naive",)
        )
    if kind == "no overlap":
        return adaptation_of(["a", "b"], ["x"], far=["a", "b"], on_no_overlap="predict")
    if kind == "100 sources":
        names = [f"hospital {index:03}" for index in range(100)]
        rows = [BacktestRow(n, 40, "use it", 1.0, 0.8, 1.3, 1.1, 0.1, 1.0) for n in names]
        return adaptation_of(
            names, ["age", "bmi"], far=names[90:], backtest=Backtest(tuple(rows), 0.95, "root")
        )
    if kind == "300 features":
        return adaptation_of(["a", "b", "c"], [f"gene {index}" for index in range(300)])
    if kind == "every finding":
        rows = (BacktestRow("a", 40, "use it", 1.0, 0.8, 1.3, 9.0, 0.1, 1.0),)
        return adaptation_of(
            ["a", "b"], ["age"], far=["b"], findings=every_finding("b"),
            backtest=Backtest(rows, 0.95, "root"),
        )  # fmt: skip
    if kind == "nasty names":
        options = {"findings": [Finding("imbalance", NASTY[0], {NASTY[1][:40]: 2.5})]}
        return adaptation_of(NASTY, [f"{name} column" for name in NASTY], study=NASTY[1], **options)
    plan = plan_of(["age", "bmi"])
    refusals = [Finding("source-refused", name, {"rule": "min_fold_rows"}) for name in "abc"]
    text = "At least one source must report; 3 were asked and all refused."
    return without_model(plan, text, findings=refusals)


KINDS = (
    "small", "one source", "two sources", "paper", "no overlap", "100 sources", "300 features",
    "every finding", "nasty names", "all refused", "two classes",
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
        small_study=small_study, without_model=without_model, measured=measured,
        promised=promised,
    )  # fmt: skip

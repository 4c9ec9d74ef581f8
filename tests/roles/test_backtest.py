"""A source that plays the target tells three numbers, and the study draws the conclusion."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LassoCV, LogisticRegression

from fedcsa.core.folds import generator_for, split_evenly
from fedcsa.core.losses import zero_one
from fedcsa.errors import DataError, ParameterError
from fedcsa.protocol.codec import digest, encode
from fedcsa.protocol.policy import Policy
from fedcsa.roles.backtest import Backtest, BacktestRow
from fedcsa.roles.rehearsal import Rehearsal, backtest_row
from fedcsa.transport.base import run
from fedcsa.transport.inprocess import InProcessTransport


def row(realised=1.0, lower=0.5, upper=2.0, **changes):
    values = {
        "source": "a",
        "n_rows": 30,
        "status": "ok",
        "promised": 1.0,
        "lower": lower,
        "upper": upper,
        "realised": realised,
        "standard_error": 0.1,
        "reference": 0.8,
        **changes,
    }
    return BacktestRow(**values)


# Arithmetic ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("realised", "covered"), [(0.49, False), (0.5, True), (1.0, True), (2.0, True), (2.01, False)]
)
def test_a_realised_risk_is_covered_within_the_interval(realised, covered):
    assert row(realised).covered is covered


@pytest.mark.parametrize("missing", ["lower", "upper", "realised"])
def test_nothing_is_covered_where_something_is_missing(missing):
    assert row(**{missing: None}).covered is None
    assert row(**{missing: None}).kept(0.95) is None


def test_a_promise_is_kept_within_the_sampling_error_of_the_outcome():
    slack = 1.959963984540054 * 0.1
    assert row(2.0 + slack - 1e-9).kept(0.95) is True
    assert row(2.0 + slack + 1e-9).kept(0.95) is False
    assert row(0.5 - slack - 1e-9).kept(0.95) is False
    assert row(2.0 + 1e-9, standard_error=None).kept(0.95) is False
    assert row(2.0, standard_error=None).kept(0.95) is True


def test_regret_is_the_realised_risk_over_that_of_a_model_of_ones_own():
    assert row(1.0).regret == pytest.approx(1.25)
    assert row(None).regret is None
    assert row(reference=0.0).regret is None
    assert row(reference=None).regret is None


def binomial_tail(broken, n, p):
    return math.fsum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(broken, n + 1))


@pytest.mark.parametrize(("broken", "n"), [(0, 4), (1, 4), (2, 4), (2, 12), (3, 12), (4, 4)])
def test_the_chance_of_broken_promises_is_binomial(broken, n):
    rows = [row(9.0)] * broken + [row(1.0)] * (n - broken)
    found = Backtest(tuple(rows), 0.95)
    assert found.broken == broken
    assert len(found.judged) == n
    assert found.chance == pytest.approx(binomial_tail(broken, n, 0.05), rel=1e-12)
    assert found.far_off == broken  # nine times what was promised
    lost = found.chance < 0.05 or 2 * broken > n
    assert found.verdict == ("failed" if lost else "passed")
    assert found.coverage == pytest.approx((n - broken) / n)


@pytest.mark.parametrize(
    ("realised", "off"), [(0.49, True), (0.51, False), (1.0, False), (1.99, False), (2.01, True)]
)
def test_an_estimate_is_far_off_beyond_a_factor_of_two(realised, off):
    assert row(realised, standard_error=0.0).far_off(0.95) is off
    assert row(realised, standard_error=None).far_off(0.95) is off
    assert row(realised, standard_error=10.0).far_off(0.95) is False
    assert row(realised, promised=None).far_off(0.95) is None
    assert row(None).far_off(0.95) is None


@pytest.mark.parametrize(("off", "n", "failed"), [(1, 2, False), (2, 3, True), (0, 3, False)])
def test_estimates_far_off_at_more_than_half_of_the_sites_fail_the_back_test(off, n, failed):
    wide = {"lower": 0.01, "upper": 100.0}  # every promise is kept
    rows = [row(9.0, **wide)] * off + [row(1.0, **wide)] * (n - off)
    found = Backtest(tuple(rows), 0.95)
    assert (found.broken, found.far_off) == (0, off)
    assert found.verdict == ("failed" if failed else "passed")


def test_a_back_test_with_too_few_promises_is_no_test():
    refused = row(None, None, None, promised=None, status="no overlap")
    assert Backtest((row(), refused, refused), 0.95).verdict == "untested"
    assert Backtest((row(), refused), 0.95).verdict == "passed"
    nothing = Backtest((refused, refused), 0.95)
    assert (nothing.coverage, nothing.calibration, nothing.regret) == (None, None, None)
    assert nothing.chance == 1.0


def test_calibration_and_regret_are_geometric_means():
    found = Backtest((row(2.0, promised=1.0), row(0.5, promised=1.0), row(1.0, promised=8.0)), 0.9)
    assert found.calibration == pytest.approx((0.5 * 2.0 * 8.0) ** (1 / 3))
    assert found.regret == pytest.approx((2.5 * 0.625 * 1.25) ** (1 / 3))


def test_every_broken_promise_is_named_with_its_factor():
    rows = (row(1.0), row(25.0, source="far"), row(0.2, source="low", standard_error=0.0))
    high, low = Backtest(rows, 0.95).findings
    assert (high.code, high.severity, high.source) == ("promise-broken", "warning", "far")
    assert high.evidence == {
        "promised": 1.0, "lower": 0.5, "upper": 2.0, "realised": 25.0, "factor": 25.0,
    }  # fmt: skip
    assert (low.source, low.evidence["factor"]) == ("low", 0.2)
    refused = row(None, None, None, promised=None, status="no overlap")
    assert Backtest((row(1.0), refused), 0.95).findings == ()


@pytest.mark.parametrize("promised", [0.0, 1e-300, 1e-299])
def test_nothing_is_a_multiple_of_no_risk(promised):
    [finding] = Backtest((row(1e10, promised=promised),), 0.95).findings
    assert "factor" not in finding.evidence
    assert "a" in Backtest((row(1e10, promised=promised),) + (row(),) * 5, 0.95).sentence


def test_a_back_test_that_passes_says_which_promises_were_broken():
    assert Backtest((row(),) * 6, 0.95).sentence == (
        "passed — the promises held as often as they should"
    )
    broken = Backtest((row(25.0, source="far"), *(row(),) * 5), 0.95)
    assert (broken.verdict, broken.sentence) == (
        "passed",
        "passed, but 1 of 6 promises was broken: far (realised 25 times the promised risk)",
    )
    five = tuple(row(9.0, source=name) for name in "abcde")
    many = Backtest(five + (row(),) * 50, 0.95)
    assert many.sentence.startswith("passed, but 5 of 55 promises were broken: a (realised 9 ")
    assert many.sentence.endswith("c (realised 9 times the promised risk) and 2 more")
    refused = row(None, None, None, promised=None, status="no overlap")
    untested = Backtest((row(1.9, standard_error=0.0, upper=1.5), refused, refused), 0.95)
    assert untested.sentence == (
        "untested — too few sources could play the target to tell; "
        "1 of 1 promise was broken: a (realised 1.9 times the promised risk)"
    )
    assert Backtest((row(9.0),) * 6, 0.95).sentence == (
        "failed — promises were broken too often: p(y|x) is probably not shared"
    )


def test_the_naive_promise_is_compared_too():
    found = Backtest((row(2.0, naive=1.0), row(0.5, naive=1.0), row(1.0, naive=8.0)), 0.9)
    assert found.naive_calibration == pytest.approx((0.5 * 2.0 * 8.0) ** (1 / 3))
    assert Backtest((row(),), 0.9).naive_calibration is None


# A rehearsal ---------------------------------------------------------------------------------


def rehearse(make, plan, data, **options):
    rehearsal = Rehearsal("c", *data, plan, **{"policy": Policy.open(), **options})
    return rehearsal, run(
        rehearsal.target, InProcessTransport([make.source("a"), make.source("b")])
    )


def test_the_realised_risk_is_the_mean_loss_on_the_sites_own_rows(make):
    X, y = make.rows(25, 7)
    rehearsal, adaptation = rehearse(make, make.plan(study="stroke"), (X, y))
    report = rehearsal.report(adaptation)
    losses = (adaptation.predict(X) - y) ** 2
    assert report.realised == pytest.approx(losses.mean(), rel=1e-12)
    assert report.standard_error == pytest.approx(losses.std(ddof=1) / 5.0, rel=1e-12)
    assert report.source == "c"
    assert report.study == "stroke: back-test at c"


@pytest.mark.parametrize("scale", [True, False])
def test_the_reference_is_the_best_cross_validated_risk_of_the_sites_own(make, scale):
    X, y = make.rows(25, 7)
    penalties = (0.01, 0.5, 2.0)
    plan = make.plan(candidates=penalties, scale=scale, seed=3)
    rehearsal, adaptation = rehearse(make, plan, (X, y))
    seen = (X - X.mean(axis=0)) / X.std(axis=0) if scale else X
    folds = split_evenly(25, 5, generator_for(3, "c", "reference"))
    risks = []
    for penalty in penalties:
        total = 0.0
        for fold in folds:
            train = [i for i in range(25) if i not in fold]
            A, b = seen[train] - seen[train].mean(axis=0), y[train] - y[train].mean()
            beta = np.linalg.solve(A.T @ A / len(b) + penalty * np.eye(2), A.T @ b / len(b))
            for i in fold:
                total += (y[train].mean() + (seen[i] - seen[train].mean(axis=0)) @ beta - y[i]) ** 2
        risks.append(total / 25)
    assert rehearsal.report(adaptation).reference == pytest.approx(min(risks), rel=1e-10)


def test_a_candidate_that_cannot_be_fitted_is_no_reference(make):
    design = make.plan(LassoCV(), {"cv": [3, 21]})
    rehearsal, adaptation = rehearse_big(make, design, make.rows(25, 7))
    assert rehearsal.report(adaptation).reference > 0.0


def rehearse_big(make, plan, data):
    rehearsal = Rehearsal("c", *data, plan, policy=Policy.open())
    sources = [make.source(name, make.rows(90, i)) for i, name in enumerate("ab")]
    return rehearsal, run(rehearsal.target, InProcessTransport(sources))


def test_what_a_rehearsal_tells_is_in_its_ledger(make):
    rehearsal, adaptation = rehearse(make, make.plan(), make.rows(25, 7))
    report = rehearsal.report(adaptation)
    [entry] = rehearsal.ledger.entries
    assert (entry.site, entry.message) == ("c", "backtest-report")
    assert entry.sha256 == digest(encode(report))


def test_a_rehearsal_of_classes_counts_them_by_the_agreed_labels(make):
    classes = ("no", "yes")
    X, y = make.labelled(40, 7)
    design = make.plan(LogisticRegression(), None, classes=classes, loss="zero-one")
    rehearsal = Rehearsal("c", X, y, design, policy=Policy.open())
    sources = [make.source(name, make.labelled(60, i)) for i, name in enumerate("ab")]
    adaptation = run(rehearsal.target, InProcessTransport(sources))
    wrong = (adaptation.predict(X) != y).mean()
    assert rehearsal.report(adaptation).realised == pytest.approx(wrong)


@pytest.mark.parametrize("own", [False, True])
def test_a_rehearsal_without_an_error_says_that_one_was_possible(make, own):
    classes = ("no", "yes")
    X, y = make.labelled(40, 7)
    X[:, 0] += np.where(y == "yes", 50.0, -50.0)
    losses = {"zero-one": zero_one} if own else None  # of a function of one's own nothing is known
    design = make.plan(LogisticRegression(), None, classes=classes, loss="zero-one")
    rehearsal = Rehearsal("c", X, y, design, policy=Policy.open(), losses=losses)
    sources = []
    for seed, name in enumerate("ab"):
        rows, labels = make.labelled(60, seed)
        rows[:, 0] += np.where(labels == "yes", 50.0, -50.0)
        sources.append(make.source(name, (rows, labels)))
    report = rehearsal.report(run(rehearsal.target, InProcessTransport(sources)))
    p = 2.0 / 44.0
    expected = 0.0 if own else np.sqrt(p * (1.0 - p) / 44.0)
    assert (report.realised, report.standard_error) == (0.0, pytest.approx(expected, rel=1e-12))


def test_a_rehearsal_with_a_loss_of_ones_own_uses_it(make):
    def tripled(prediction, y):
        return 3.0 * (prediction - y) ** 2

    losses = {"tripled": tripled}
    X, y = make.rows(25, 7)
    rehearsal = Rehearsal("c", X, y, make.plan(loss="tripled"), policy=Policy.open(), losses=losses)
    transport = InProcessTransport([make.source("a", losses=losses)])
    adaptation = run(rehearsal.target, transport)
    expected = 3.0 * ((adaptation.predict(X) - y) ** 2).mean()
    assert rehearsal.report(adaptation).realised == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_rehearsal_needs_outcomes_that_are_numbers(make, bad):
    X, y = make.rows(25, 7)
    y[3] = bad
    with pytest.raises(DataError, match="The outcome of source 'c' must be finite"):
        Rehearsal("c", X, y, make.plan())


def test_the_row_of_a_back_test_holds_promise_and_outcome(make):
    sources = [make.source(name, make.rows(120, i)) for i, name in enumerate("ab")]
    rehearsal = Rehearsal("c", *make.rows(60, 7), make.plan(method="guarded"), policy=Policy.open())
    adaptation = run(rehearsal.target, InProcessTransport(sources))
    report = rehearsal.report(adaptation)
    found = backtest_row(adaptation, report)
    assert (found.promised, found.realised) == (adaptation.target_risk, report.realised)
    assert (found.lower, found.upper) == adaptation.interval
    assert (found.source, found.n_rows, found.status) == ("c", 60, adaptation.status)
    assert found.naive == adaptation.estimates["naive"].risk.min()
    paper, _ = rehearse(make, make.plan(), make.rows(25, 7))
    assert backtest_row(make.study(), report).lower is None
    assert paper.target.n_rows == 25


# What follows for the study ------------------------------------------------------------------


def guarded(make):
    sources = [make.source(name, make.rows(120, i)) for i, name in enumerate("ab")]
    return make.study(make.plan(method="guarded"), sources, n=60)


def test_a_failed_back_test_lowers_the_verdict(make):
    adaptation = guarded(make)
    failed = Backtest((row(9.0), row(9.0), row(1.0)), 0.95)
    lowered = adaptation.with_backtest(failed)
    assert lowered.status == "back-test failed"
    [finding] = [f for f in lowered.findings if f.code == "backtest-failed"]
    assert dict(finding.evidence) == {"judged": 3.0, "of": 3.0, "broken": 2.0}
    again = lowered.with_backtest(Backtest((row(1.0),), 0.95))
    assert again.status == adaptation.status
    assert again.findings == adaptation.findings


def test_a_back_test_that_tested_nothing_is_a_finding(make):
    adaptation = guarded(make)
    untested = Backtest((row(None, None, None),), 0.95)
    found = adaptation.with_backtest(untested)
    assert [f.code for f in found.findings if f.code.startswith("backtest")] == [
        "backtest-untested"
    ]
    assert found.status == adaptation.status


def test_the_other_reading_weights_the_models_by_rows(make):
    sources = [make.source("a", make.rows(30, 1)), make.source("b", make.rows(90, 2))]
    adaptation = make.study(make.plan(method="feddae"), sources)
    X, _ = make.rows(5, 3)
    seen = (X - adaptation.mean) / adaptation.sd
    expected = 0.25 * adaptation.models["a"].predict(seen) + 0.75 * adaptation.models["b"].predict(
        seen
    )
    np.testing.assert_allclose(adaptation.output(X, by_rows=True), expected, rtol=1e-12)
    np.testing.assert_array_equal(
        adaptation.predict(X, by_rows=True), adaptation.output(X, by_rows=True)
    )


def test_the_median_wants_four_sources(make):
    sources = [make.source(name) for name in "abc"]
    with pytest.raises(
        ParameterError, match="'combine' parameter must be 'mean' with fewer than 4"
    ):
        make.study(make.plan(combine="median"), sources)

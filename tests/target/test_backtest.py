"""A source that plays the target tells three numbers, and the study draws the conclusion."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import LassoCV, LogisticRegression

from fedcsa.backtest import Player
from fedcsa.core.folds import fold_key, fold_labels, generator_for
from fedcsa.core.losses import zero_one
from fedcsa.errors import DataError
from fedcsa.messages.codec import digest, encode
from fedcsa.messages.policy import Policy
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.plan import Plan
from fedcsa.run import InProcess, run_study
from fedcsa.source.source import Source
from fedcsa.target.backtest_result import Backtest, BacktestRow

FEATURES = ("x0", "x1")
SLACK = 1.959963984540054  # standard errors at a level of 0.95


def row(realised=1.0, lower=0.5, upper=2.0, **changes):
    values = {
        "source": "a",
        "n_rows": 30,
        "status": "use it",
        "promised": 1.0,
        "lower": lower,
        "upper": upper,
        "realised": realised,
        "standard_error": 0.1,
        "reference": 0.8,
        **changes,
    }
    return BacktestRow(**values)


REFUSED = row(None, None, None, promised=None, status="not reached")
#: Realised risk without error against a promise of 0.5 to 2: broken, and not far off.
BROKEN = row(3.0, standard_error=0.0)


# One promise ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("realised", "covered"), [(0.49, False), (0.5, True), (1.0, True), (2.0, True), (2.01, False)]
)
def test_a_realised_risk_is_covered_within_the_interval(realised, covered):
    assert row(realised).covered is covered


@pytest.mark.parametrize("missing", ["lower", "upper", "realised"])
def test_nothing_is_judged_where_something_is_missing(missing):
    found = row(**{missing: None})
    assert (found.covered, found.place(0.95), found.kept(0.95)) == (None, None, None)
    assert found.far_off(0.95) is False
    assert found.finding(0.95) is None


@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.parametrize(
    ("end", "out", "inner", "outer"),
    [
        (2.0, 1.0, "inside", "above"),
        (4.0, 1.0, "above", "far above"),
        (0.5, -1.0, "inside", "below"),
        (0.25, -1.0, "below", "far below"),
    ],
)
def test_a_promise_is_judged_within_the_sampling_error_of_the_outcome(
    level, end, out, inner, outer
):
    error = 0.05
    slack = error * float(stats.norm.ppf(0.5 + level / 2))
    for step, place in ((-1e-9, inner), (1e-9, outer)):
        found = row(end + out * (slack + step), standard_error=error)
        assert found.place(level) == place
        assert found.kept(level) is (place == "inside")
        assert found.far_off(level) is place.startswith("far")


def test_without_a_standard_error_there_is_no_slack():
    assert row(2.0, standard_error=None).kept(0.95) is True
    assert row(2.0 + 1e-9, standard_error=None).kept(0.95) is False


def test_regret_is_the_realised_risk_over_that_of_a_model_of_ones_own():
    assert row(1.0).regret == pytest.approx(1.25)
    assert row(None).regret is None
    assert row(reference=0.0).regret is None
    assert row(reference=None).regret is None


# All promises --------------------------------------------------------------------------------


def binomial_tail(broken, n, p):
    return math.fsum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(broken, n + 1))


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 25), st.integers(0, 25), st.integers(0, 5), st.sampled_from([0.5, 0.9, 0.95]))
def test_promises_broken_by_little_fail_only_where_chance_would_break_fewer(
    broken, kept, unjudged, level
):
    found = Backtest((BROKEN,) * broken + (row(),) * kept + (REFUSED,) * unjudged, level)
    n = broken + kept
    expected = binomial_tail(broken, n, 1.0 - level)
    assert found.chance == pytest.approx(expected, rel=1e-9)
    assert (found.broken, len(found.judged), found.far_off) == (broken, n, ())
    if expected < 0.05:
        assert found.verdict == "failed"
    else:
        assert found.verdict == ("passed" if n >= unjudged else "untested")
    assert found.coverage == (pytest.approx(kept / n) if n else None)


@pytest.mark.parametrize("kept", [0, 5, 500])
@pytest.mark.parametrize("realised", [675.0, 4.2, 0.2])
def test_one_promise_broken_by_more_than_twice_fails_whatever_the_count(kept, realised):
    far = row(realised, source="x", standard_error=0.01)
    found = Backtest((far, *(row(),) * kept), 0.95)
    assert (found.broken, found.far_off, found.verdict) == (1, ("x",), "failed")
    assert found.reason == f"the risk at 'x' was {realised:.3g} times what was promised"
    assert found.sentence == f"failed: {found.reason}"


def test_a_factor_of_two_that_chance_may_explain_does_not_fail():
    unsure = row(4.2, standard_error=0.2 / SLACK + 1e-6)
    assert Backtest((unsure, *(row(),) * 9), 0.95).verdict == "passed"
    sure = row(4.2, standard_error=0.2 / SLACK - 1e-6)
    assert Backtest((sure, *(row(),) * 9), 0.95).verdict == "failed"


def test_the_reason_of_a_count_is_the_count():
    found = Backtest((BROKEN,) * 3 + (row(),) * 5, 0.95)
    assert found.verdict == "failed"
    assert found.reason == "3 of 8 promises were broken, where chance would break fewer"


def test_the_worst_of_many_are_named():
    rows = tuple(row(5.0 * k, source=f"s{k}") for k in range(1, 6))
    found = Backtest(rows, 0.95)
    assert found.far_off == ("s1", "s2", "s3", "s4", "s5")
    assert found.reason == (
        "the risk at 's5' was 25 times what was promised, "
        "the risk at 's4' was 20 times what was promised, "
        "the risk at 's3' was 15 times what was promised, and so at 2 more"
    )


def test_a_back_test_with_too_few_promises_is_no_test():
    assert Backtest((row(), REFUSED, REFUSED), 0.95).verdict == "untested"
    assert Backtest((row(), REFUSED), 0.95).verdict == "passed"
    nothing = Backtest((REFUSED, REFUSED), 0.95)
    assert (nothing.coverage, nothing.calibration, nothing.regret) == (None, None, None)
    assert (nothing.chance, nothing.broken) == (1.0, 0)
    far = row(99.0, source="x")
    assert Backtest((far, REFUSED, REFUSED), 0.95).verdict == "failed"


def test_calibration_and_regret_are_geometric_means():
    found = Backtest((row(2.0, promised=1.0), row(0.5, promised=1.0), row(1.0, promised=8.0)), 0.9)
    assert found.calibration == pytest.approx((0.5 * 2.0 * 8.0) ** (1 / 3))
    assert found.regret == pytest.approx((2.5 * 0.625 * 1.25) ** (1 / 3))
    zero = Backtest((row(realised=0.0, reference=0.0, lower=0.0),), 0.95)
    assert (zero.calibration, zero.regret) == (None, None)


def test_every_broken_promise_is_named_with_its_factor():
    rows = (row(1.0), row(25.0, source="far"), row(0.2, source="low", standard_error=0.0))
    high, low = Backtest((*rows, REFUSED), 0.95).findings
    assert (high.code, high.severity, high.source) == ("promise-broken", "warning", "far")
    assert high.evidence == {
        "promised": 1.0, "lower": 0.5, "upper": 2.0, "realised": 25.0, "factor": 25.0,
    }  # fmt: skip
    assert (low.source, low.evidence["factor"]) == ("low", 0.2)


@pytest.mark.parametrize("promised", [0.0, 1e-310, None])
def test_nothing_is_a_multiple_of_no_risk(promised):
    found = Backtest((row(1e10, promised=promised),), 0.95)
    assert "factor" not in found.findings[0].evidence
    assert found.reason == "the risk at 'a' was far from what was promised"


def test_the_sentence_gives_the_verdict_and_names_what_was_broken():
    assert Backtest((row(),) * 6, 0.95).sentence == (
        "passed: the promises held as often as they should"
    )
    assert Backtest((BROKEN, *(row(),) * 5), 0.95).sentence == (
        "passed, but 1 of 6 promises was broken: the risk at 'a' was 3 times what was promised"
    )
    many = Backtest((BROKEN,) * 5 + (row(),) * 50, 0.95)
    assert many.sentence.startswith("passed, but 5 of 55 promises were broken: the risk at 'a' ")
    assert many.sentence.endswith(", and so at 2 more")
    assert Backtest((BROKEN, REFUSED, REFUSED), 0.5).sentence == (
        "untested: too few sources could play the target to tell; "
        "1 of 1 promise was broken: the risk at 'a' was 3 times what was promised"
    )


# A source that plays the target --------------------------------------------------------------


def rows(n=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, X @ [1.0, -0.5] + 0.5 * rng.normal(size=n)


def labelled(n=60, seed=0):
    X, y = rows(n, seed)
    return X, np.where(y > np.median(y), "yes", "no")


def plan(model="ridge", candidates=(0.0, 0.1, 1.0), **options):
    description = model_description(model)
    listed = candidates if isinstance(candidates, dict | None) else list(candidates)
    grid = expand_candidates(description["name"], listed)
    return Plan(features=FEATURES, model=description, candidates=grid, **options)


def player_of(data, design=None, **options):
    return Player("c", *data, design or plan(), policy=Policy.open(), **options)


def sources_of(design, others, losses=None):
    given = others or {"a": rows(90, 1), "b": rows(80, 2)}
    columns = (*FEATURES, design.group) if design.group else FEATURES
    return [
        Source(name, *pair, features=columns, policy=Policy.open(), losses=losses)
        for name, pair in given.items()
    ]


def play(design, data, others=None, losses=None):
    """Site c as the target, and the study of sites a and b for it."""
    player = player_of(data, design, losses=losses)
    return player, run_study(player.target(), InProcess(sources_of(design, others, losses)))


def test_the_realised_risk_is_the_mean_loss_on_the_sites_own_rows():
    X, y = rows(25, 7)
    player, adaptation = play(plan(study="stroke"), (X, y))
    report = player.report(adaptation)
    losses = (adaptation.predict(X) - y) ** 2
    assert report.realised == pytest.approx(losses.mean(), rel=1e-12)
    assert report.standard_error == pytest.approx(losses.std(ddof=1) / 5.0, rel=1e-12)
    assert report.source == "c"
    assert report.study == "stroke: back-test at c"


def reference(X, y, penalties, labels):
    """Smallest cross-validated risk, by the normal equations."""
    risks = []
    for penalty in penalties:
        total = 0.0
        for fold in set(labels):
            train = np.flatnonzero(labels != fold)
            A, b = X[train] - X[train].mean(axis=0), y[train] - y[train].mean()
            beta = np.linalg.solve(A.T @ A / len(b) + penalty * np.eye(2), A.T @ b / len(b))
            for i in np.flatnonzero(labels == fold):
                total += (y[train].mean() + (X[i] - X[train].mean(axis=0)) @ beta - y[i]) ** 2
        risks.append(total / len(y))
    return min(risks)


@pytest.mark.parametrize("scale", [True, False])
def test_the_reference_is_the_best_cross_validated_risk_of_the_sites_own(scale):
    X, y = rows(25, 7)
    penalties = (0.01, 0.5, 2.0)
    player, adaptation = play(plan(candidates=penalties, scale=scale, seed=3), (X, y))
    seen = (X - X.mean(axis=0)) / X.std(axis=0) if scale else X
    labels = fold_labels(0, 25, 5, fold_key(generator_for(3, "c", "reference")))
    expected = reference(seen, y, penalties, labels)
    assert player.report(adaptation).reference == pytest.approx(expected, rel=1e-10)


def grouped(n, seed, patients):
    """Rows with the patient behind the features; what a patient has in common is in y."""
    X, y = rows(n, seed)
    patient = np.repeat(np.arange(patients), -(-n // patients))[:n].astype(float)
    y = y + 3.0 * np.random.default_rng(seed).normal(size=patients)[patient.astype(int)]
    return np.column_stack([X, patient]), y


def test_a_playing_site_tells_its_table_without_its_group():
    data = grouped(60, 7, 12)
    others = {"a": grouped(90, 1, 30), "b": grouped(80, 2, 20)}
    player, adaptation = play(plan(group="patient"), data, others)
    assert player.target().table.features == FEATURES
    plain, alone = play(
        plan(), (data[0][:, :2], data[1]), {n: (X[:, :2], y) for n, (X, y) in others.items()}
    )
    assert plain.target().table == player.target().table
    assert adaptation.plan.group == "patient"
    assert adaptation.output(data[0][:, :2]).shape == alone.output(data[0][:, :2]).shape == (60,)


def test_rows_of_one_patient_stay_in_one_fold_and_count_together():
    X, y = grouped(60, 7, 12)
    others = {"a": grouped(90, 1, 30), "b": grouped(80, 2, 20)}
    penalties = (0.01, 0.5)
    design = plan(candidates=penalties, group="patient", seed=3)
    player, adaptation = play(design, (X, y), others)
    report = player.report(adaptation)
    losses = (adaptation.predict(X[:, :2]) - y) ** 2
    sums = [(losses - losses.mean())[X[:, 2] == g].sum() for g in range(12)]
    clustered = np.sqrt(np.sum(np.square(sums)) * 12 / 11) / 60
    assert report.standard_error == pytest.approx(clustered, rel=1e-12)
    assert clustered > 1.5 * stats.sem(losses)
    seen = (X[:, :2] - X[:, :2].mean(axis=0)) / X[:, :2].std(axis=0)
    key = fold_key(generator_for(3, "c", "reference"))
    labels = fold_labels(0, len(X), 5, key, X[:, 2])
    expected = reference(seen, y, penalties, labels)
    assert report.reference == pytest.approx(expected, rel=1e-10)


def test_one_patient_alone_has_no_reference():
    X, y = rows(40, 7)
    data = (np.column_stack([X, np.zeros(40)]), y)
    others = {"a": grouped(90, 1, 30), "b": grouped(80, 2, 20)}
    design = plan(group="patient")
    player, adaptation = play(design, data, others)
    found = player.play(sources_of(design, others))
    assert (found.reference, found.regret) == (None, None)
    losses = (adaptation.predict(X) - y) ** 2
    assert found.standard_error == pytest.approx(stats.sem(losses), rel=1e-12)


def test_a_candidate_that_cannot_be_fitted_is_no_reference():
    player, adaptation = play(plan(LassoCV(alphas=[0.1]), {"cv": [3, 21]}), rows(25, 7))
    losses = (adaptation.predict(rows(25, 7)[0]) - rows(25, 7)[1]) ** 2
    assert 0.0 < player.report(adaptation).reference < 10.0 * losses.mean()


def test_what_a_player_tells_is_in_its_ledger():
    player, adaptation = play(plan(), rows(25, 7))
    report = player.report(adaptation)
    [entry] = player.ledger.entries
    assert (entry.site, entry.message) == ("c", "backtest-report")
    assert entry.sha256 == digest(encode(report))


CLASSES = ("no", "yes")


def test_a_player_of_classes_counts_them_by_the_agreed_labels():
    X, y = labelled(40, 7)
    design = plan(LogisticRegression(), None, classes=CLASSES, loss="zero-one")
    player, adaptation = play(design, (X, y), {"a": labelled(60, 0), "b": labelled(60, 1)})
    wrong = (adaptation.predict(X) != y).mean()
    assert player.report(adaptation).realised == pytest.approx(wrong)


@pytest.mark.parametrize("own", [False, True])
def test_a_player_without_an_error_says_that_one_was_possible(own):
    def apart(n, seed):
        X, y = labelled(n, seed)
        X[:, 0] += np.where(y == "yes", 50.0, -50.0)
        return X, y

    losses = {"zero-one": zero_one} if own else None  # of a function of one's own nothing is known
    design = plan(LogisticRegression(), None, classes=CLASSES, loss="zero-one")
    others = {"a": apart(60, 0), "b": apart(60, 1)}
    player, adaptation = play(design, apart(40, 7), others, losses=losses)
    report = player.report(adaptation)
    p = 2.0 / 44.0
    expected = 0.0 if own else np.sqrt(p * (1.0 - p) / 44.0)
    assert (report.realised, report.standard_error) == (0.0, pytest.approx(expected, rel=1e-12))


def test_a_player_with_a_loss_of_ones_own_uses_it():
    def tripled(prediction, y):
        return 3.0 * (prediction - y) ** 2

    X, y = rows(25, 7)
    player, adaptation = play(plan(loss="tripled"), (X, y), losses={"tripled": tripled})
    expected = 3.0 * ((adaptation.predict(X) - y) ** 2).mean()
    assert player.report(adaptation).realised == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_player_needs_outcomes_that_are_numbers(bad):
    X, y = rows(25, 7)
    y[3] = bad
    with pytest.raises(DataError, match="The outcome of source 'c' must be finite"):
        player_of((X, y))


def test_a_player_needs_the_columns_of_the_study():
    X, y = rows(25, 7)
    with pytest.raises(DataError, match=r"X of source 'c' must have 3 column\(s\)"):
        player_of((X, y), plan(group="patient"))


def test_the_row_of_a_back_test_holds_promise_and_outcome():
    player, adaptation = play(plan(), rows(67, 7))
    found, report = player.play(sources_of(plan(), None)), player.report(adaptation)
    promise = adaptation.promise
    assert dataclasses.replace(found, measures=()) == BacktestRow(
        "c", 67, adaptation.verdict.words, promise.risk, promise.lower, promise.upper,
        report.realised, report.standard_error, report.reference,
        tuple(report.held_for.tolist()),
    )  # fmt: skip
    assert len(found.measures) == len(report.measures) == 5
    assert len(found.held_for) == 4


def test_a_site_that_nobody_reaches_is_a_row_without_a_promise():
    X, y = rows(60, 7)
    design = plan(on_no_overlap="predict")
    found = player_of((X + 40.0, y), design).play(sources_of(design, None))
    assert found.status == "not reached"
    assert (found.promised, found.lower, found.upper, found.covered) == (None,) * 4
    assert found.realised > 0.0


def test_a_study_that_ended_is_a_row_with_its_reason():
    strict = dataclasses.replace(Policy.open(), min_fold_rows=500)
    refusing = [Source("a", *rows(90, 1), policy=strict)]
    found = player_of(rows(25, 7)).play(refusing)
    assert found == BacktestRow("c", 25, "NoSourcesError")
    assert found.kept(0.95) is None


# What follows for the study ------------------------------------------------------------------


@pytest.fixture(scope="module")
def usable():
    sources = {name: rows(300, seed) for seed, name in enumerate("abcd", start=1)}
    _, adaptation = play(plan(), rows(200, 7), sources)
    assert adaptation.verdict.advice == "use"
    return adaptation


def test_a_failed_back_test_ends_in_do_not_use_it_and_says_why(usable):
    failed = Backtest((row(9.0, source="x"), row(1.0), row(1.0)), 0.95)
    lowered = usable.with_backtest(failed)
    assert lowered.verdict.advice == "no"
    assert lowered.verdict.sentence == (
        "the back-test failed: the risk at 'x' was 9 times what was promised"
    )
    assert lowered.verdict.legs == usable.verdict.legs
    [finding] = [f for f in lowered.findings if f.code == "backtest-failed"]
    assert dict(finding.evidence) == {"judged": 3.0, "of": 3.0, "broken": 1.0}
    again = lowered.with_backtest(Backtest((row(1.0),), 0.95))
    assert (again.verdict, again.findings) == (usable.verdict, usable.findings)


def test_a_back_test_that_tested_nothing_is_a_finding(usable):
    found = usable.with_backtest(Backtest((REFUSED,), 0.95))
    codes = [f.code for f in found.findings if f.code.startswith("backtest")]
    assert codes == ["backtest-untested"]
    assert found.verdict == usable.verdict


def test_a_broken_promise_is_named_although_the_back_test_passes(usable):
    passed = Backtest((BROKEN, *(row(),) * 5), 0.95)
    found = usable.with_backtest(passed)
    assert found.verdict == usable.verdict
    assert [f for f in found.findings if f not in usable.findings] == list(passed.findings)
    twice = found.with_backtest(passed)
    assert twice.findings == found.findings


def test_no_overlap_is_graver_than_a_failed_back_test():
    X, y = rows(60, 7)
    _, adaptation = play(plan(on_no_overlap="predict"), (X + 40.0, y))
    failed = adaptation.with_backtest(Backtest((row(9.0),), 0.95))
    assert failed.verdict.sentence == "no source resembles the target"

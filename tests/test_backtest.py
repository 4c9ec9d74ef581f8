"""The back-test: every source plays the target, and its outcomes stay out of the promise."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression, Ridge

from fedcsa import FedCSA, MessageError, ParameterError, Policy
from fedcsa.backtest import run_backtest
from fedcsa.core.folds import fold_key, fold_labels, generator_for
from fedcsa.messages.messages import BacktestReport
from fedcsa.target.backtest_result import Backtest

PENALTIES = [0.0, 0.1, 1.0]


def consortium(K=4, seed=0, step=0.15, rows=60, rule=lambda _: 1.0):
    rng = np.random.default_rng(seed)
    sources = {}
    for j in range(K):
        X = rng.normal(step * j, 1.0, (rows + 10 * j, 2))
        y = rule(j) * X.sum(axis=1) + rng.normal(size=len(X))
        sources[f"site-{j}"] = (X, y)
    return sources


def estimator(**options):
    return FedCSA(**{"candidates": PENALTIES, "random_state": 0, **options})


HONEST = consortium()


@pytest.fixture(scope="module")
def honest():
    return estimator().backtest(HONEST)


# Every source plays -------------------------------------------------------------------------


def test_every_source_plays_the_target_once(honest):
    assert [row.source for row in honest.rows] == sorted(HONEST)
    assert [row.n_rows for row in honest.rows] == [60, 70, 80, 90]
    assert honest.level == 0.95


@pytest.mark.parametrize("site", sorted(HONEST))
def test_a_promise_is_that_of_a_study_of_the_others_for_that_site(site, honest):
    X, y = HONEST[site]
    study = estimator().fit({n: pair for n, pair in HONEST.items() if n != site}, X)
    row = next(row for row in honest.rows if row.source == site)
    assert (row.promised, (row.lower, row.upper)) == (study.target_risk_, study.interval_)
    assert row.status == study.verdict_
    losses = (study.predict(X) - y) ** 2
    assert row.realised == pytest.approx(losses.mean(), rel=1e-12)
    assert row.standard_error == pytest.approx(stats.sem(losses), rel=1e-12)


def test_a_site_tells_its_columns_as_the_study_describes_them():
    """A flag, a public sd and a group: promise and outcome are those of a study for that site."""
    rng = np.random.default_rng(5)
    columns = {"age": {"kind": "number", "sd": 12.0}, "smokes": "flag", "patient": "group"}

    def site(n):
        age, smokes = rng.normal(60.0, 3.0, n), rng.integers(0, 2, n)
        frame = pd.DataFrame({"patient": np.arange(n) // 3, "age": age, "smokes": smokes})
        return frame, age / 3.0 + smokes + rng.normal(size=n)

    sources = {name: site(n) for name, n in (("a", 120), ("b", 150), ("c", 90), ("d", 130))}
    found = estimator(columns=columns).backtest(sources)
    for row in found.rows:
        frame, y = sources[row.source]
        others = {name: pair for name, pair in sources.items() if name != row.source}
        study = estimator(columns=columns).fit(others, frame.drop(columns="patient"))
        assert study.adaptation_.table.sd.tolist() == [3.6, 0.5]  # 0.3 of the public sd; a flag's
        assert (row.promised, (row.lower, row.upper)) == (study.target_risk_, study.interval_)
        losses = (study.predict(frame.drop(columns="patient")) - y) ** 2
        assert row.realised == pytest.approx(losses.mean(), rel=1e-12)


def test_the_reference_is_cross_validated_on_the_sites_own_rows(honest):
    site = "site-2"
    X, y = HONEST[site]
    seen = (X - X.mean(axis=0)) / X.std(axis=0)
    labels = fold_labels(0, len(y), 5, fold_key(generator_for(0, site, "reference")))
    risks = []
    for penalty in PENALTIES:
        squares = []
        for part in range(5):
            fold, train = np.flatnonzero(labels == part), np.flatnonzero(labels != part)
            line = Ridge(alpha=penalty * len(train), solver="cholesky").fit(seen[train], y[train])
            squares += ((line.predict(seen[fold]) - y[fold]) ** 2).tolist()
        risks.append(np.mean(squares))
    row = next(row for row in honest.rows if row.source == site)
    assert row.reference == pytest.approx(min(risks), rel=1e-9)
    assert row.regret == pytest.approx(row.realised / row.reference, rel=1e-12)


def test_an_honest_consortium_passes(honest):
    assert honest.verdict == "passed"
    assert honest.broken == 0
    assert len(honest.judged) == 4
    inside = [row.lower <= row.realised <= row.upper for row in honest.rows]
    assert honest.coverage == sum(inside) / 4 >= 0.75
    assert 0.5 < honest.calibration < 2.0
    assert 0.8 < honest.regret < 1.3


def outlier(K=6):
    """Sites of which one has the opposite rule."""
    return consortium(K=K, rows=100, step=0.05, rule=lambda j: -1.0 if j == 2 else 1.0)


def test_one_site_with_another_rule_fails_the_back_test_and_is_named():
    sources = outlier()
    fitted = estimator().fit(sources, HONEST["site-0"][0])
    before = fitted.target_risk_, fitted.interval_
    assert fitted.verdict_ != "do not use it"
    found = fitted.backtest(sources)
    assert (found.verdict, found.broken, found.far_off) == ("failed", 1, ("site-2",))
    [row] = [row for row in found.rows if row.source == "site-2"]
    assert found.reason == f"the RMSE at 'site-2' was {row.factor**0.5:.3g} times what was promised"
    assert row.factor > 3.0
    assert fitted.verdict_ == "do not use it"
    assert fitted.adaptation_.verdict.sentence == f"the back-test failed: {found.reason}"
    assert fitted.adaptation_.backtest is found
    assert (fitted.target_risk_, fitted.interval_) == before
    codes = [(f.code, f.source) for f in fitted.findings_]
    assert ("backtest-failed", "") in codes
    assert ("promise-broken", "site-2") in codes


def test_promises_that_allow_for_what_sites_differ_by_hold():
    """Half of the sites have the opposite rule: an interval knows, and the verdict says so."""
    sources = consortium(K=4, rule=lambda j: 1.0 if j % 2 else -1.0, rows=130)
    fitted = estimator().fit(sources, HONEST["site-1"][0])
    found = fitted.backtest(sources)
    assert found.verdict == "passed"
    assert found.regret > 3.0
    assert {row.status for row in found.rows} <= {"use it with care", "do not use it"}
    assert fitted.legs_["skill"].passed is False


def test_a_later_back_test_takes_an_older_one_back():
    fitted = estimator().fit(HONEST, HONEST["site-0"][0])
    findings, verdict = fitted.findings_, fitted.verdict_
    fitted.backtest(outlier())
    assert (fitted.findings_, fitted.verdict_) != (findings, verdict)
    fitted.backtest(HONEST)
    assert (fitted.findings_, fitted.verdict_) == (findings, verdict)


def test_sites_that_nobody_resembles_leave_the_promise_untested():
    sources = consortium(K=3, step=20.0)
    fitted = estimator().fit(sources, sources["site-0"][0] + 0.1)
    found = fitted.backtest(sources)
    assert {row.status for row in found.rows} == {"not reached"}
    assert [(row.lower, row.upper, row.covered, row.kept(0.95)) for row in found.rows] == [
        (None, None, None, None)
    ] * 3
    assert all(np.isfinite(row.realised) for row in found.rows)
    assert (found.verdict, found.coverage, found.chance) == ("untested", None, 1.0)
    assert "backtest-untested" in [f.code for f in fitted.findings_]
    assert "back-test" not in fitted.adaptation_.verdict.sentence


def test_an_estimator_need_not_be_fitted_to_be_back_tested():
    plain = estimator()
    assert plain.backtest(HONEST).verdict == "passed"
    assert not hasattr(plain, "adaptation_")


def test_classifiers_and_lists_of_sources_are_back_tested():
    pairs = [(X, np.where(y > 0, "ill", "well")) for X, y in HONEST.values()]
    found = FedCSA(LogisticRegression(), [{"ratio_power": 0.0}], random_state=0).backtest(pairs[:3])
    assert [row.source for row in found.rows] == ["source-1", "source-2", "source-3"]
    assert all(0.0 <= row.realised <= 1.0 for row in found.rows)
    assert all(row.covered is not None for row in found.rows)


def test_identical_sources_that_are_never_wrong_pass():
    rng = np.random.default_rng(0)

    def site(rows):
        y = rng.integers(0, 2, rows)
        X = rng.normal(0.0, 0.3, (rows, 2))
        X[:, 0] += np.where(y, 3.0, -3.0)
        return X, y

    sources = {name: site(80) for name in "abcd"}
    fitted = FedCSA(LogisticRegression(), [{"C": 1.0}], loss="zero-one", random_state=0)
    found = fitted.backtest(sources)
    assert {row.realised for row in found.rows} == {0.0}
    assert (found.verdict, found.broken, found.far_off) == ("passed", 0, ())


def test_nearly_separable_sources_pass_though_some_are_never_wrong():
    rng = np.random.default_rng(0)

    def site(rows):
        X = rng.normal(size=(rows, 2))
        return X, (X[:, 0] + rng.normal(0.0, 0.05, rows) > 0.0).astype(int)

    sources = {name: site(40) for name in "abcdef"}
    model = LogisticRegression(C=100.0)
    found = FedCSA(model, [{"ratio_power": 0.0}], loss="zero-one", random_state=0).backtest(sources)
    assert sum(row.realised == 0.0 for row in found.rows) >= 2
    assert found.verdict == "passed"


def test_a_positive_loss_of_ones_own_is_tested_like_any():
    found = estimator(loss=lambda p, y: np.abs(p - y) ** 1.5).backtest(HONEST)
    assert (found.verdict, len(found.judged)) == ("passed", 4)


def test_a_loss_below_zero_is_promised_nothing():
    found = estimator(loss=lambda p, y: np.abs(p - y) - 5.0).backtest(HONEST)
    assert found.verdict == "untested"
    assert {(row.promised, row.lower) for row in found.rows} == {(None, None)}
    assert all(row.realised < 0.0 for row in found.rows)


def test_progress_is_told_of_every_play():
    calls = []
    estimator().backtest(HONEST, progress=lambda *call: calls.append(call))
    done = [call for call in calls if call[2] == "done"]
    assert len(done) == 3 * 4 * 3
    assert {call[0] for call in done} == {"risk", "model", "examine"}


def test_a_back_test_repeats_to_the_bit(honest):
    assert estimator().backtest(dict(reversed(HONEST.items()))) == honest


# Outcomes of the player ---------------------------------------------------------------------


@pytest.mark.parametrize("site", ["site-0", "site-3"])
def test_the_outcome_of_the_site_that_plays_does_not_reach_the_promise(site, honest):
    X, y = HONEST[site]
    poisoned = estimator().backtest({**HONEST, site: (X, 1e6 - 1e3 * y[::-1])})
    before = next(row for row in honest.rows if row.source == site)
    after = next(row for row in poisoned.rows if row.source == site)
    for name in ("source", "n_rows", "status", "promised", "lower", "upper"):
        assert getattr(before, name) == getattr(after, name)
    assert after.realised > 1e6 * before.realised
    assert after.reference != before.reference
    others = [(a, b) for a, b in zip(honest.rows, poisoned.rows, strict=True) if a.source != site]
    assert all(a.promised != b.promised for a, b in others)


def test_a_report_is_a_few_numbers_and_two_names():
    kinds = {item.name: item.metadata["kind"] for item in dataclasses.fields(BacktestReport)}
    assert kinds == {
        "study": "text", "source": "text",
        "realised": "number", "standard_error": "number", "reference": "number",
        "held_for": "vector", "measures": "matrix",
    }  # fmt: skip
    with pytest.raises(MessageError, match="a standard error that is not negative"):
        BacktestReport("s", "a", 1.0, -0.1, 1.0)
    for share in (-0.1, 1.1):
        with pytest.raises(MessageError, match="shares of rows between 0 and 1"):
            BacktestReport("s", "a", 1.0, 0.1, 1.0, np.array([0.9, share]))
    none = np.empty(0)
    with pytest.raises(MessageError, match="five numbers per measure"):
        BacktestReport("s", "a", 1.0, 0.1, 1.0, none, np.zeros((1, 4)))
    with pytest.raises(MessageError, match="the lower end first"):
        BacktestReport("s", "a", 1.0, 0.1, 1.0, none, np.array([[0.0, 0.0, 1.0, 2.0, 1.5]]))


def test_every_measure_is_tried_at_every_site(honest):
    names = ["rmse", "mae", "r2", "calibration_slope", "calibration_intercept"]
    assert [record.name for record in honest.measures] == names
    for record in honest.measures:
        assert record.judged == len(honest.judged)
        assert record.covered <= record.kept <= record.judged
    for row in honest.judged:
        rmse = row.measures[0]
        assert rmse.promised == pytest.approx(row.promised**0.5)
        assert (rmse.lower, rmse.upper) == pytest.approx((row.lower**0.5, row.upper**0.5))
        assert rmse.realised == pytest.approx(row.realised**0.5)
        assert rmse.covered == row.covered


def test_a_patients_interval_is_tried_at_every_site_by_distance(honest):
    for row in honest.rows:
        assert len(row.held_for) == 4
    rows = np.array([row.n_rows for row in honest.rows])
    shares = np.array([row.held_for for row in honest.rows])
    np.testing.assert_allclose(honest.held_for, rows @ shares / rows.sum())
    assert 0.85 < np.mean(honest.held_for) < 0.97
    silent = Backtest(tuple(dataclasses.replace(row, held_for=()) for row in honest.rows), 0.95)
    assert silent.held_for == ()


# Errors -------------------------------------------------------------------------------------


def plan_of(**options):
    return estimator(**options).fit(HONEST, HONEST["site-0"][0]).adaptation_.plan


def test_one_source_cannot_play_with_itself():
    alone = {"site-0": HONEST["site-0"]}
    with pytest.raises(ParameterError, match=r"'sources' parameter must be at least two.* Got 1"):
        run_backtest(alone, plan_of())
    with pytest.raises(ParameterError, match=r"'sources' parameter must be at least two"):
        estimator().backtest(alone)


@pytest.mark.parametrize("method", ["naive", "fediwe", "feddae"])
def test_a_method_that_promises_no_interval_is_not_back_tested(method):
    with pytest.raises(ParameterError, match=r"'validated' for a back-test.* Got '" + method):
        estimator(method=method, exchange="rows").backtest(HONEST)


def test_a_play_that_is_refused_is_a_row_with_its_reason():
    strict = dataclasses.replace(Policy.open(), min_fold_rows=13)
    found = run_backtest(HONEST, plan_of(), policy=strict)
    assert len(found.judged) == 4  # 60/5 = 12: site-0 refuses and plays; the others go on
    stricter = dataclasses.replace(strict, min_fold_rows=500)
    refused = run_backtest(HONEST, plan_of(), policy=stricter)
    for row in refused.rows:
        assert row.status == "NoSourcesError"
        assert (row.promised, row.realised, row.reference, row.regret) == (None,) * 4
    assert refused.verdict == "untested"


def test_a_site_of_one_row_does_not_end_the_back_test_of_the_others():
    X, y = HONEST["site-0"]
    found = estimator().backtest({**HONEST, "tiny": (X[:1], y[:1])})
    last = found.rows[-1]
    assert (last.source, last.n_rows, last.status) == ("tiny", 1, "DataError")
    assert len(found.judged) == 4
    assert found.verdict == "passed"


def test_a_policy_rounds_the_three_numbers_too():
    found = run_backtest(
        HONEST, plan_of(), policy=dataclasses.replace(Policy.open(), significant_digits=3)
    )
    for row in found.rows:
        for value in (row.realised, row.standard_error, row.reference):
            assert value == float(f"{value:.2e}")

"""Outcomes arrive: every conclusion can be reached, and the interval is Student's."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import LogisticRegression

from fedcsa import DataError, FedCSA, ParameterError, Reconciliation
from fedcsa.reconcile import reconcile

PLANTED = 424242.125


def hospital(rng, rows):
    X = rng.normal(0.2, 1.0, (rows, 2))
    return X, X.sum(axis=1) + rng.normal(size=rows)


RNG = np.random.default_rng(0)
SOURCES = {name: hospital(RNG, rows) for name, rows in {"a": 90, "b": 70, "c": 80}.items()}
X_TARGET, _ = hospital(RNG, 60)
X_LATER, Y_LATER = hospital(RNG, 120)


def fit(**options):
    return FedCSA(**{"candidates": [0.0, 0.1], "random_state": 0, **options}).fit(SOURCES, X_TARGET)


@pytest.fixture(scope="module")
def fitted():
    return fit()


def test_an_outcome_that_follows_the_rule_keeps_the_promise(fitted):
    found = fitted.reconcile(X_LATER, Y_LATER)
    assert (found.conclusion, found.moved) == ("kept", False)
    assert (found.promised, (found.promised_lower, found.promised_upper)) == (
        fitted.target_risk_,
        fitted.interval_,
    )
    assert (found.n_rows, found.level, found.status) == (120, 0.95, fitted.status_)


def test_an_outcome_of_another_rule_is_worse_than_promised(fitted):
    found = fitted.reconcile(X_LATER, -Y_LATER)
    assert (found.conclusion, found.moved) == ("worse than promised", True)
    assert found.lower > found.promised_upper


def test_an_outcome_without_noise_is_better_than_promised(fitted):
    found = fitted.reconcile(X_LATER, fitted.predict(X_LATER) + 0.01)
    assert (found.conclusion, found.moved) == ("better than promised", True)
    assert found.upper < found.promised_lower


def test_a_method_of_the_paper_promised_nothing():
    found = fit(method="naive").reconcile(X_LATER, Y_LATER)
    assert (found.conclusion, found.moved) == ("no interval", None)
    assert found.status == "not judged"


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("rows", [2, 7, 120])
def test_the_realised_risk_has_students_interval(level, rows):
    estimator = fit(level=level)
    X, y = X_LATER[:rows], Y_LATER[:rows]
    found = estimator.reconcile(X, y)
    losses = (estimator.predict(X) - y) ** 2
    low, high = stats.t.interval(level, rows - 1, loc=losses.mean(), scale=stats.sem(losses))
    assert found.realised == pytest.approx(losses.mean(), rel=1e-12)
    assert found.upper == pytest.approx(high, rel=1e-9)
    assert found.lower == pytest.approx(max(low, 0.0), rel=1e-9, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(*[st.floats(0.0, 10.0)] * 4)
def test_the_conclusion_asks_whether_the_two_intervals_meet(a, b, c, d):
    (lower, upper), (promised_lower, promised_upper) = sorted((a, b)), sorted((c, d))
    middle = (lower + upper) / 2
    found = Reconciliation(middle, lower, upper, 9, c, promised_lower, promised_upper, 0.95, "ok")
    meet = max(lower, promised_lower) <= min(upper, promised_upper)
    assert found.moved is not meet
    assert (found.conclusion == "kept") is meet
    if not meet:
        worse = lower > promised_upper
        assert found.conclusion == ("worse than promised" if worse else "better than promised")


@pytest.mark.parametrize("missing", ["promised_lower", "promised_upper"])
def test_half_an_interval_is_none(missing):
    whole = Reconciliation(1.0, 0.9, 1.1, 9, 1.0, 0.9, 1.1, 0.95, "ok")
    assert dataclasses.replace(whole, **{missing: None}).conclusion == "no interval"


def test_a_classifier_is_reconciled_by_its_own_loss():
    labelled = {name: (X, np.where(y > 0.4, "ill", "well")) for name, (X, y) in SOURCES.items()}
    model = FedCSA(LogisticRegression(), [{"ratio_power": 0.0}], random_state=0)
    model.fit(labelled, X_TARGET)
    labels = np.where(Y_LATER > 0.4, "ill", "well")
    found = model.reconcile(X_LATER, labels)
    p = model.predict_proba(X_LATER)[:, 0]
    assert found.realised == pytest.approx(np.mean((p - (labels == "ill")) ** 2), rel=1e-12)
    assert found.conclusion == "kept"
    with pytest.raises(DataError, match=r"must hold only the 2 agreed classes; 1 of its 120") as e:
        model.reconcile(X_LATER, np.r_[labels[:-1], ["424242"]])
    assert "424242" not in str(e.value)


def own_loss(prediction, y):
    return np.abs(prediction - y) - 5.0


def test_a_loss_of_ones_own_is_used_again():
    estimator = fit(loss=own_loss)
    found = estimator.reconcile(X_LATER, Y_LATER)
    losses = own_loss(estimator.predict(X_LATER), Y_LATER)
    assert found.realised == pytest.approx(losses.mean(), rel=1e-12)
    assert found.conclusion == "no interval"
    with pytest.raises(ParameterError, match="'loss' parameter must be one of"):
        reconcile(estimator.adaptation_, X_LATER, Y_LATER)


def test_the_interval_of_a_loss_below_zero_holds_its_mean():
    found = fit(loss=own_loss).reconcile(X_LATER, Y_LATER)
    assert found.realised < 0.0
    assert found.lower <= found.realised <= found.upper


def planted():
    X = X_LATER.copy()
    X[0, 0] = PLANTED
    return X


@pytest.mark.parametrize(
    ("X", "y", "match"),
    [
        (X_LATER[:1], Y_LATER[:1], "At least 2 rows with outcomes"),
        (X_LATER, Y_LATER[:-1], r"must have 120 rows like X; it has 119"),
        (X_LATER, np.full(119, PLANTED), r"must have 120 rows like X"),
        (X_LATER, np.r_[np.nan, np.full(119, PLANTED)], "outcome must be finite"),
        (X_LATER, ["424242.125"] * 120, "outcome must hold numbers"),
        (planted()[:, :1], Y_LATER, r"X must have 2 column\(s\)"),
        (
            np.where(np.arange(240).reshape(120, 2) == 7, np.nan, planted()),
            Y_LATER,
            "X must be finite",
        ),
        (X_LATER[:0], Y_LATER[:0], "must have rows"),
    ],
    ids=["one row", "short", "short planted", "NaN", "text", "columns", "NaN in X", "empty"],
)
def test_rows_that_cannot_be_compared_are_refused(X, y, match, fitted):
    with pytest.raises(DataError, match=match) as caught:
        fitted.reconcile(X, y)
    assert "424242" not in str(caught.value)


def test_a_frame_is_matched_by_name():
    import pandas as pd

    estimator = FedCSA(candidates=[0.0], random_state=0)
    frame = pd.DataFrame(X_TARGET, columns=["age", "bmi"])
    estimator.fit(SOURCES, frame)
    later = pd.DataFrame(X_LATER, columns=["age", "bmi"])
    assert estimator.reconcile(later[["bmi", "age"]], pd.Series(Y_LATER)) == estimator.reconcile(
        X_LATER, Y_LATER
    )

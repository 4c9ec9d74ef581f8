"""Outcomes arrive: every conclusion can be reached, and the interval is that of its loss."""

import dataclasses
import json
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import LogisticRegression

from fedcsa import DataError, FedCSA, ParameterError, Reconciliation
from fedcsa.reconcile import Comparison, reconcile

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
    assert (found.conclusion, found.kept) == ("as promised", True)
    assert (found.promised, (found.promised_lower, found.promised_upper)) == (
        fitted.target_risk_,
        fitted.interval_,
    )
    assert (found.n_rows, found.level) == (120, 0.95)
    assert found.advice == fitted.adaptation_.verdict.advice == found.verdict.advice


def test_an_outcome_of_another_rule_is_far_worse_than_promised(fitted):
    found = fitted.reconcile(X_LATER, -Y_LATER)
    assert (found.conclusion, found.kept) == ("far worse than promised", False)
    assert found.lower > 2.0 * found.promised_upper
    assert found.verdict.words == "do not use it"


def test_an_outcome_without_noise_is_far_better_than_promised(fitted):
    found = fitted.reconcile(X_LATER, fitted.predict(X_LATER) + np.linspace(0.01, 0.02, 120))
    assert (found.conclusion, found.kept) == ("far better than promised", False)
    assert found.upper < found.promised_lower / 2.0
    assert (found.advice, found.verdict.advice) == ("use", "care")


def test_a_method_of_the_paper_promised_nothing():
    found = fit(method="naive", exchange="rows").reconcile(X_LATER, Y_LATER)
    assert (found.conclusion, found.kept) == ("not judged", None)
    assert found.reason == "nothing was promised"
    assert "promised:" not in found.sentence
    assert found.verdict.advice == found.advice == "care"


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


def came(lower=0.9, upper=1.1, promised=(0.8, 1.25), advice="use"):
    middle = None if lower is None else (lower + upper) / 2
    return Reconciliation(middle or 1.0, lower, upper, 9, 1.0, *promised, 0.95, advice)


@settings(max_examples=100, deadline=None)
@given(*[st.floats(0.0, 10.0)] * 4)
def test_the_conclusion_asks_whether_the_two_intervals_meet_and_how_far_they_are_apart(a, b, c, d):
    (lower, upper), (promised_lower, promised_upper) = sorted((a, b)), sorted((c, d))
    found = came(lower, upper, (promised_lower, promised_upper))
    meet = max(lower, promised_lower) <= min(upper, promised_upper)
    assert found.kept is meet
    assert (found.conclusion == "as promised") is meet
    if not meet:
        worse = lower > promised_upper
        far = lower > 2 * promised_upper if worse else 2 * upper < promised_lower
        expected = f"{'far ' if far else ''}{'worse' if worse else 'better'} than promised"
        assert found.conclusion == expected


#: Ends of the realised risk against a promise of 0.8 to 1.25, and what is left of "use it".
PLACES = {
    "far worse than promised": ((2.6, 2.8), "no"),
    "worse than promised": ((1.3, 2.4), "care"),
    "as promised": ((1.2, 1.4), "use"),
    "better than promised": ((0.41, 0.79), "care"),
    "far better than promised": ((0.2, 0.39), "care"),
    "not judged": ((None, None), "use"),
}


@pytest.mark.parametrize("advice", ["use", "care", "no"])
@pytest.mark.parametrize("conclusion", PLACES)
def test_a_broken_promise_lowers_the_advice_and_none_raises_it(conclusion, advice):
    (lower, upper), left = PLACES[conclusion]
    found = came(lower, upper, advice=advice)
    assert found.conclusion == conclusion
    order = ["use", "care", "no"]
    assert found.verdict.advice == order[max(order.index(advice), order.index(left))]
    assert found.verdict.sentence == found.sentence


def test_every_conclusion_is_tried():
    assert set(PLACES) == set(get_args(Comparison))


def test_the_sentence_leads_with_what_was_realised():
    assert came(1.3, 2.4).sentence == (
        "realised on 9 rows: 1.85 (1.3 to 2.4); promised: 1 (0.8 to 1.25); worse than promised: "
        "the target differs from the sources by more than they differ from each other"
    )
    assert came().sentence.endswith(
        "as promised: no sign that the target differs from the sources by more than they differ "
        "from each other"
    )


@pytest.mark.parametrize("missing", ["promised_lower", "promised_upper", "lower", "upper"])
def test_half_an_interval_is_none(missing):
    assert dataclasses.replace(came(), **{missing: None}).conclusion == "not judged"


@pytest.mark.parametrize("conclusion", PLACES)
def test_plain_values_bring_it_back(conclusion):
    found = came(*PLACES[conclusion][0])
    content = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert Reconciliation.from_json(content) == found
    assert (content["conclusion"], content["kept"]) == (conclusion, found.kept)
    assert content["sentence"] == found.sentence
    assert content["verdict"] == {
        "advice": found.verdict.advice,
        "words": found.verdict.words,
    }


def test_a_classifier_is_reconciled_by_its_own_loss():
    labelled = {name: (X, np.where(y > 0.4, "ill", "well")) for name, (X, y) in SOURCES.items()}
    model = FedCSA(LogisticRegression(), [{"ratio_power": 0.0}], random_state=0)
    model.fit(labelled, X_TARGET)
    labels = np.where(Y_LATER > 0.4, "ill", "well")
    found = model.reconcile(X_LATER, labels)
    p = model.predict_proba(X_LATER)[:, 0]
    assert found.realised == pytest.approx(np.mean((p - (labels == "ill")) ** 2), rel=1e-12)
    assert found.conclusion == "as promised"
    with pytest.raises(DataError, match=r"must hold only the 2 agreed classes; 1 of its 120") as e:
        model.reconcile(X_LATER, np.r_[labels[:-1], ["424242"]])
    assert "424242" not in str(e.value)


# Losses that may all be equal ----------------------------------------------------------------


@pytest.fixture(scope="module")
def zero_one():
    rng = np.random.default_rng(1)
    labelled = {
        name: (X, np.where(y + rng.normal(0.0, 0.5, len(y)) > 0.4, "ill", "well"))
        for name, (X, y) in SOURCES.items()
    }
    model = FedCSA(LogisticRegression(), [{"ratio_power": 0.0}], loss="zero-one", random_state=0)
    fitted = model.fit(labelled, X_TARGET)
    assert fitted.interval_[0] > 0.06  # Clopper and Pearson's end for no error in 60 rows
    return fitted


@pytest.mark.parametrize("rows", [2, 3, 5, 10])
def test_a_few_correct_predictions_contradict_nothing(zero_one, rows):
    found = zero_one.reconcile(X_LATER[:rows], zero_one.predict(X_LATER[:rows]))
    assert (found.realised, found.lower) == (0.0, 0.0)
    assert found.upper == pytest.approx(1.0 - 0.025 ** (1.0 / rows), rel=1e-9)
    assert (found.conclusion, found.kept) == ("as promised", True)


def test_many_correct_predictions_are_better_than_promised(zero_one):
    found = zero_one.reconcile(X_LATER[:60], zero_one.predict(X_LATER[:60]))
    assert found.conclusion.endswith("better than promised")


@pytest.mark.parametrize("rows", [5, 60])
def test_predictions_that_are_all_wrong_are_worse_than_promised(zero_one, rows):
    flipped = np.where(zero_one.predict(X_LATER[:rows]) == "ill", "well", "ill")
    found = zero_one.reconcile(X_LATER[:rows], flipped)
    assert (found.realised, found.upper) == (1.0, 1.0)
    assert found.conclusion.endswith("worse than promised")


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize(("errors", "rows"), [(0, 7), (1, 7), (3, 40), (40, 40)])
def test_an_error_rate_has_the_exact_interval(zero_one, errors, rows, level):
    adaptation = zero_one.adaptation_
    plan = dataclasses.replace(adaptation.plan, level=level)
    labels = zero_one.predict(X_LATER[:rows])
    labels[:errors] = np.where(labels[:errors] == "ill", "well", "ill")
    found = reconcile(dataclasses.replace(adaptation, plan=plan), X_LATER[:rows], labels)
    low, high = stats.binomtest(errors, rows).proportion_ci(level, method="exact")
    assert (found.lower, found.upper) == pytest.approx((low, high), rel=1e-9)


def test_equal_brier_scores_contradict_little(zero_one):
    plan = dataclasses.replace(zero_one.adaptation_.plan, loss="brier")
    brier = dataclasses.replace(zero_one.adaptation_, plan=plan)
    found = reconcile(brier, X_LATER[[0, 0, 0]], zero_one.predict(X_LATER[[0, 0, 0]]))
    assert found.lower <= found.realised < 0.25 < found.upper <= 1.0
    assert found.conclusion == "as promised"


def test_equal_losses_of_any_size_say_nothing_of_how_they_vary(fitted):
    y = fitted.predict(X_LATER[:5])
    found = fitted.reconcile(X_LATER[:5], y)
    assert (found.realised, found.lower, found.upper) == (0.0, None, None)
    assert (found.conclusion, found.kept) == ("not judged", None)
    assert found.reason.startswith("the losses of all 5 rows are equal")


# A loss of one's own -------------------------------------------------------------------------


def own_loss(prediction, y):
    return np.abs(prediction - y) - 5.0


def test_a_loss_of_ones_own_is_used_again():
    estimator = fit(loss=own_loss)
    found = estimator.reconcile(X_LATER, Y_LATER)
    losses = own_loss(estimator.predict(X_LATER), Y_LATER)
    assert found.realised == pytest.approx(losses.mean(), rel=1e-12)
    assert found.conclusion == "not judged"
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

"""Outcomes of some of the target's rows: number, model, verdict, and what is refused."""

import copy
import dataclasses
import functools
import json
import operator
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from fedcsa import DataError, FedCSA, ModelError
from fedcsa.core.realised import mean_interval
from fedcsa.findings import Finding
from fedcsa.models.correction import Correction
from fedcsa.target.per_patient import IntervalCheck
from fedcsa.target.verdict import Leg, Verdict
from fedcsa.target.with_outcomes import ONE_NUMBER
from fedcsa.update import Update, UpdateLook, _what_changed, expected_interval, update

PLANTED = 424242.125
RNG = np.random.default_rng(0)


def hospital(rows, classes=False, off=0.0):
    X = RNG.normal(0.2, 1.0, (rows, 2))
    line = off + X.sum(axis=1)
    if classes:
        return X, (RNG.random(rows) < expit(1.5 * line)).astype(int)
    return X, line + RNG.normal(size=rows)


def fitted(classes=False, **options):
    sources = {name: hospital(150, classes) for name in "abcd"}
    given = {"candidates": [{"C": 1.0}] if classes else [0.01], "random_state": 0, **options}
    made = FedCSA(LogisticRegression(), **given) if classes else FedCSA(**given)
    return made.fit(sources, hospital(80, classes)[0]).adaptation_


@pytest.fixture(scope="module")
def numbers():
    return fitted()


@pytest.fixture(scope="module")
def classes():
    return fitted(classes=True, loss="brier", thresholds=(0.3,))


def codes(found):
    return [item.code for item in found.findings]


def test_outcomes_that_agree_narrow_every_interval(numbers):
    found = update(numbers, *hospital(60))
    for item in found.measures:
        assert not item.why_not
        assert item.after[2] - item.after[1] < item.before[2] - item.before[1]
        assert item.after[2] - item.after[1] < item.alone[2] - item.alone[1]
        assert item.anytime[0] <= item.after[1] <= item.after[0] <= item.after[2] <= item.anytime[1]
        assert item.worth_rows > 60
    assert found.against < 20
    assert (found.kept, found.conclusion) == (True, "as promised")
    assert codes(found) == []
    assert [item.name for item in found.measures][:2] == ["risk", "rmse"]
    assert found.measures[1].after == pytest.approx(np.sqrt(found.risk.after))


def test_the_outcomes_alone_are_judged_classically(numbers):
    X, y = hospital(25)
    found = update(numbers, X, y)
    losses = (y - numbers.output(X)) ** 2
    assert found.risk.alone[0] == pytest.approx(losses.mean())
    assert found.risk.alone[1:] == pytest.approx(mean_interval(losses, "squared", 0.95))
    assert found.risk.before == (numbers.target_risk, *numbers.interval)


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_an_unlike_site_is_found_and_the_model_repaired(kind, request):
    adaptation = request.getfixturevalue(kind)
    X, y = hospital(60, kind == "classes", off=-2.5)
    found = update(adaptation, X, y)
    assert found.against >= 20
    assert "unlike-sources" in codes(found)
    assert not found.verdict.legs[1].passed
    assert found.verdict.advice != "use"
    assert found.gain < 0.9
    updated = dataclasses.replace(adaptation, correction=found.correction)
    fresh = hospital(2000, kind == "classes", off=-2.5)
    risks = []
    for each in (adaptation, updated):
        output = each.output(fresh[0])
        risks.append(np.mean(((output[:, 1] if kind == "classes" else output) - fresh[1]) ** 2))
    assert risks[1] < 0.9 * risks[0]
    assert np.array_equal(updated.output(X, corrected=False), adaptation.output(X))


def test_a_drop_is_a_finding(numbers):
    found = update(numbers, *hospital(60, off=3.0))
    assert {"unlike-sources", "outcomes-worse"} <= set(codes(found))
    assert found.conclusion == "far worse than promised"
    assert found.verdict.advice == "no" or not found.verdict.legs[1].passed


@pytest.mark.parametrize(
    ("spread", "conclusion", "why"),
    [
        (0.5, "probably better than promised", "the risk here probably differs"),
        (0.3, "better than promised", "outcomes here are unlike those of the sources"),
        (0.1, "far better than promised", "outcomes here are unlike those of the sources"),
    ],
)
def test_outcomes_better_than_promised_lower_the_advice_too(numbers, spread, conclusion, why):
    rng = np.random.default_rng(1)
    X = rng.normal(0.2, 1.0, (30, 2))
    found = update(numbers, X, numbers.output(X) + spread * rng.normal(size=30))
    assert found.conclusion == conclusion
    assert (numbers.verdict.advice, found.verdict.advice) == ("use", "care")
    assert [leg.passed for leg in found.verdict.legs] == [True, False, True]
    assert found.verdict.legs[1].sentence.startswith(why)


def test_one_outcome_changes_little_and_says_so(classes):
    X, y = hospital(1, True)
    found = update(classes, X, y)
    assert codes(found) == ["few-outcomes"]
    assert found.risk.alone is None
    told = {item.name: item for item in found.measures}
    assert told["auroc"].why_not
    assert told["auroc"].after == told["auroc"].before
    assert not told["brier"].why_not
    assert np.isfinite(found.risk.after).all()


def test_outcomes_that_are_all_the_same_are_a_finding(classes):
    X = hospital(20, True)[0]
    found = update(classes, X, np.ones(20, int))
    assert "outcomes-same" in codes(found)
    assert np.isfinite(found.risk.after).all()
    assert {item.name: item.why_not for item in found.measures}["auroc"]


def test_one_number_again_and_again_shows_no_slope_and_corrects_nothing(numbers):
    found = update(numbers, hospital(20)[0], np.full(20, 1.5))
    assert "outcomes-same" in codes(found)
    assert found.correction is None
    assert found.why_same_model == ONE_NUMBER
    told = {item.name: item for item in found.measures}
    assert told["calibration_slope"].why_not
    assert not told["rmse"].why_not


def test_every_look_is_remembered_and_the_strongest_evidence_counts(numbers):
    X, y = hospital(60)
    y[:20] += 4.0
    looks = ()
    for n in (10, 20, 60):
        found = update(numbers, X[:n], y[:n], earlier=looks)
        assert found.path[:-1] == looks
        last = found.path[-1]
        assert (last.estimate, last.lower, last.upper) == found.risk.after
        assert last.anytime == found.risk.anytime
        looks = found.path
    assert [look.n_rows for look in looks] == [10, 20, 60]
    assert found.against == max(look.against for look in looks) > looks[-1].against


def test_what_a_look_said_stays_though_weights_change(numbers):
    X, y = hospital(40)
    first = update(numbers, X[:20], y[:20], row_weights=np.arange(1.0, 21.0))
    found = update(numbers, X, y, earlier=first.path)
    assert found.path[0] == first.path[0]


@pytest.mark.parametrize("arrived", [(0,), (30,), (10, 10), (20, 10)])
def test_earlier_looks_must_rise(numbers, arrived):
    looks = [UpdateLook(n, 1.0, 0.5, 2.0, (0.4, 3.0), 1.0) for n in arrived]
    with pytest.raises(DataError, match="must rise"):
        update(numbers, *hospital(30), earlier=looks)


def test_weights_count_as_rows(numbers):
    X, y = hospital(40)
    found = update(numbers, X, y, row_weights=np.full(40, 3.0))
    assert found.effective_rows == pytest.approx(40.0)
    assert found.risk.after == pytest.approx(update(numbers, X, y).risk.after)
    half = np.where(np.arange(40) < 20, 1.0, 0.0)
    assert update(numbers, X, y, row_weights=half).effective_rows == pytest.approx(20.0)


@pytest.mark.parametrize("weights", [np.ones(3), -np.ones(30), np.zeros(30), np.full(30, np.nan)])
def test_bad_weights_are_refused(numbers, weights):
    with pytest.raises(DataError, match="Weights of rows"):
        update(numbers, *hospital(30), row_weights=weights)


def test_no_outcome_and_too_few_outcomes_are_refused_without_quoting_a_cell(numbers):
    X, y = hospital(5)
    with pytest.raises(DataError) as caught:
        update(numbers, X, np.full(4, PLANTED))
    assert "must have 5 rows like X" in str(caught.value)
    assert str(PLANTED) not in str(caught.value)
    with pytest.raises(DataError):
        update(numbers, X[:0], y[:0])


def test_the_update_survives_json(numbers, classes):
    for adaptation in (numbers, classes):
        two = bool(adaptation.plan.classes)
        for rows in (1, 30):
            earlier = (UpdateLook(10, 1.0, 0.5, 2.0, (0.4, 3.0), 1.0),) if rows > 10 else ()
            found = update(adaptation, *hospital(rows, two), earlier=earlier)
            assert (
                Update.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False))) == found
            )


def leaves(node, path=()):
    """Every place in plain values."""
    if isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield (*path, key), value
            yield from leaves(value, (*path, key))


@pytest.mark.parametrize("bad", ["x", 10**400, [1.0], {"x": 1.0}])
def test_of_an_edited_update_every_type_is_checked(make, bad):
    found = make.updated(
        findings=(Finding("few-outcomes", evidence={"outcomes": 3.0}), Finding("intervals-narrow")),
        intervals=(IntervalCheck(None, 30, 12, True, 0.5),),
    )
    content = json.loads(json.dumps(found.to_json()))
    assert Update.from_json(content) == found
    free = {"kept", "conclusion", "evidence", "coefficients"}  # told again, or any content will do
    refused = (ArithmeticError, AttributeError, LookupError, ModelError, TypeError, ValueError)
    for path, value in leaves(content):
        text = isinstance(value, str | None) and isinstance(bad, str)
        if free & {*path} or text:
            continue
        edited = copy.deepcopy(content)
        node = functools.reduce(operator.getitem, path[:-1], edited)
        node[path[-1]] = bad
        with pytest.raises(refused):
            pytest.fail(f"{path}: {Update.from_json(edited)}")


def test_an_edited_update_that_contradicts_itself_is_refused(make):
    narrow, fine = IntervalCheck("a", 20, 5, True, 0.5), IntervalCheck("b", 10, 9, False, 0.0)
    said, other = Finding("intervals-narrow"), Finding("few-outcomes")
    for checks, findings, agrees in (
        ((narrow, fine), (other, said), True),
        ((fine, replace(fine, n_rows=20)), (other,), True),
        ((), (other,), True),
        ((narrow, fine), (other,), False),
        ((narrow, fine), (said, said), False),
        ((fine, replace(fine, n_rows=20)), (said,), False),
        ((), (said,), False),
        ((narrow,), (said,), False),
        ((narrow, replace(fine, n_rows=11)), (said,), False),
    ):
        content = make.updated(intervals=checks, findings=findings).to_json()
        with nullcontext() if agrees else pytest.raises(ValueError, match=r"^$"):
            Update.from_json(json.loads(json.dumps(content)))


def test_the_update_holds_no_row(numbers):
    X, y = hospital(30)
    y[3] = PLANTED
    found = update(numbers, X, y)
    assert str(PLANTED) not in json.dumps(found.to_json())
    assert str(PLANTED) not in repr(found)


def test_the_expected_interval_narrows_with_outcomes(numbers):
    widths = []
    for n in (1, 20, 50, 100, 1e6):
        middle, lower, upper = expected_interval(numbers, n)
        assert lower < middle < upper
        widths.append(upper - lower)
    assert widths == sorted(widths, reverse=True)
    assert middle == pytest.approx(numbers.target_risk, rel=0.01)


@pytest.mark.parametrize("kind", ["numbers", "classes"])
@pytest.mark.parametrize("rows", [12, 200])
def test_outcomes_are_worth_more_than_alone_where_both_are_narrower(kind, rows, request):
    found = update(request.getfixturevalue(kind), *hospital(rows, kind == "classes"))
    judged = [item for item in found.measures if item.alone and item.worth_rows is not None]
    assert len(judged) >= (4 if kind == "numbers" else 5)
    for item in judged:
        narrower = item.after[2] - item.after[1] < item.alone[2] - item.alone[1]
        assert (item.worth_rows > rows) == narrower, item.name


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_a_list_promises_the_widths_that_an_update_shows(kind, request):
    adaptation = request.getfixturevalue(kind)
    found = update(adaptation, *hospital(40, kind == "classes"))
    told = expected_interval(adaptation, 40.0, found)
    assert told == pytest.approx(found.risk.after, rel=0.02)
    widths = [
        np.ptp(expected_interval(adaptation, n, found)[1:]) / np.ptp(found.risk.after[1:])
        for n in (60.0, 200.0)
    ]
    assert 1.0 > widths[0] > widths[1]


def test_the_expected_gain_of_squared_errors_is_the_mean_square_of_the_change(numbers):
    X, y = hospital(40, off=1.0)
    found = update(numbers, X, y)
    changed = dataclasses.replace(numbers, correction=found.correction).output(X)
    square = np.mean((changed - numbers.output(X)) ** 2)
    assert found.expected_gain == pytest.approx(1.0 - square / found.risk.after[0])


def test_the_expected_gain_of_the_brier_score_is_its_divergence(classes):
    X, y = hospital(40, True, off=-1.0)
    found = update(classes, X, y)
    changed = dataclasses.replace(classes, correction=found.correction).output(X)
    square = np.mean((changed[:, 1] - classes.output(X)[:, 1]) ** 2)
    assert found.expected_gain == pytest.approx(1.0 - square / found.risk.after[0], abs=1e-9)
    assert found.expected_gain < 1.0


def test_the_corrected_model_is_exported(numbers, classes):
    X, y = hospital(40, off=1.0)
    made = update(numbers, X, y).correction
    updated = dataclasses.replace(numbers, correction=made)
    assert not np.allclose(updated.output(X), numbers.output(X))
    assert updated.formula().model(numbers.plan.features, 0).predict(X) == pytest.approx(
        updated.output(X)
    )
    made_of = updated.estimator()
    assert X @ made_of.coef_ + made_of.intercept_ == pytest.approx(updated.output(X))
    corrected = dataclasses.replace(classes, correction=made)
    with pytest.raises(ModelError, match="not a linear model"):
        corrected.estimator()


def test_a_correction_survives_json_and_must_be_finite():
    made = Correction(0.5, 1.5, (0.1, -0.2))
    assert Correction.from_json(json.loads(json.dumps(dataclasses.asdict(made)))) == made
    for bad in ({"intercept": float("nan")}, {"slope": "x"}, {"coefficients": 3}):
        with pytest.raises(ModelError, match="finite numbers"):
            Correction.from_json({**dataclasses.asdict(made), **bad})


@pytest.mark.parametrize("moved", [[0], [1], [2], [0, 2], []])
def test_a_changed_verdict_names_the_legs_that_moved(moved):
    names = ("reach", "agreement", "skill")
    before = [Leg(name, True, 1.0, 0.5, f"{name} before") for name in names]
    after = [Leg(name, k not in moved, 1.0, 0.5, f"{name} after") for k, name in enumerate(names)]
    said = _what_changed(Verdict("use", "good", before), Verdict("care", "so so", after))
    legs = "; ".join(f"{names[k]}: {names[k]} after" for k in moved)
    assert said == f"'use it' becomes 'use it with care': {legs or 'so so'}"
    assert _what_changed(Verdict("use", "", before), Verdict("use", "good", after)) == (
        "the verdict stays: good"
    )

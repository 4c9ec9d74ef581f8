"""Outcomes at the target: whom to follow up, who answered, what came before, and what leaves."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from fedcsa import DataError, FedCSA, ParameterError, Update, outcomes
from fedcsa.core.selective import balanced_weights
from fedcsa.core.strata import design_weights
from fedcsa.data.coding import Columns
from fedcsa.data.columns import Feature, Outcome
from fedcsa.outcomes import (
    FAR_OUTCOMES,
    FEWEST_TO_CORRECT,
    OTHER_UNIT,
    TOO_FEW_TO_CORRECT,
    History,
    ListDesign,
    bring_in,
    check_once,
    id_keys,
    pick_rows,
)
from fedcsa.target.own_outcomes import Labelled, OwnOutcomes
from fedcsa.target.per_patient import IntervalCheck, check_of
from fedcsa.target.with_outcomes import correction_of, line_prior
from fedcsa.update import UpdateLook, labelled_rows, with_intervals

PLANTED = 424242.125


def hospital(rng, rows):
    X = rng.normal(0.2, 1.0, (rows, 2))
    return X, X.sum(axis=1) + rng.normal(size=rows)


RNG = np.random.default_rng(0)
SOURCES = {name: hospital(RNG, rows) for name, rows in {"a": 90, "b": 70, "c": 80}.items()}
X, Y = hospital(RNG, 120)
KEYS = np.arange(120.0)


def fit(**options):
    return FedCSA(**{"candidates": [0.0, 0.1], "random_state": 0, **options}).fit(SOURCES, X)


@pytest.fixture(scope="module")
def fitted():
    return fit()


@pytest.fixture(scope="module")
def answer(fitted):
    return fitted.adaptation_


@pytest.fixture
def cheap(make, monkeypatch):
    """What an update was asked for; it computes nothing but its looks."""
    asked = SimpleNamespace()

    def update(adaptation, X, y, *, earlier=(), **options):
        asked.__dict__.update(options, of=adaptation, X=X, y=y, earlier=tuple(earlier))
        looks = (*earlier, UpdateLook(len(X), 1.0, 0.5, 2.0, (0.4, 3.0), 1.0))
        weights = options["row_weights"]
        effective = float(len(X)) if weights is None else 1.0 / float(weights @ weights)
        return make.updated(len(X), path=looks, effective_rows=effective)

    monkeypatch.setattr(outcomes, "update", update)
    return asked


# Whom to follow up --------------------------------------------------------------------------


def test_a_list_is_drawn_in_strata_of_the_prediction(answer):
    places, stands_for, history = pick_rows(answer, X, KEYS, 30)
    assert len(set(places.tolist())) == 30
    assert history.design.sizes == (24,) * 5
    strata = [*history.design.picked.values()]
    assert [strata.count(h) for h in range(5)] == [6] * 5
    assert stands_for.tolist() == [4.0] * 30  # 24 rows of a stratum, six of them drawn
    predicted = answer.predict(X[places])
    lowest, highest = (predicted[np.array(strata) == h] for h in (0, 4))
    assert lowest.max() < highest.min()


def test_a_list_knows_no_outcome_and_another_seed_draws_others(answer):
    first, again, other = (pick_rows(answer, X, KEYS, 20, seed=s)[0].tolist() for s in (1, 1, 2))
    assert first == again != other


def test_a_second_list_goes_on_with_the_first(answer):
    first, _, history = pick_rows(answer, X, KEYS, 20, seed=3)
    second, stands_for, longer = pick_rows(answer, X, KEYS, 10, seed=99, history=history)
    assert not set(first.tolist()) & set(second.tolist())
    assert [*longer.design.picked][:20] == [*history.design.picked]
    assert len(longer.design.picked) == 30
    assert stands_for.tolist() == [40 / 10] * 10  # three strata of 40, ten of each drawn by now


def test_a_second_list_of_other_rows_is_refused(answer):
    _, _, history = pick_rows(answer, X, KEYS, 20)
    with pytest.raises(DataError, match="same rows as the first"):
        pick_rows(answer, X[::-1], KEYS, 20, history=history)
    with pytest.raises(DataError, match="same rows as the first"):
        pick_rows(answer, X[:119], KEYS[:119], 20, history=history)


@pytest.mark.parametrize("n", [0, 121])
def test_a_list_cannot_be_empty_or_longer_than_the_rows(answer, n):
    with pytest.raises(ParameterError, match="from 1 to 120"):
        pick_rows(answer, X, KEYS, n)


@pytest.mark.parametrize("wrong", [{"n": 2.5}, {"n": "3"}, {"seed": -1}, {"seed": "x"}])
def test_a_list_wants_whole_numbers(answer, wrong):
    with pytest.raises(ParameterError, match="a whole number from"):
        pick_rows(answer, X, KEYS, **{"n": 3, **wrong})


# Ids ----------------------------------------------------------------------------------------


def test_an_id_is_its_text():
    keys = id_keys(["007", "7", " 8 "], "The ids")
    assert len(set(keys.tolist())) == 3
    assert id_keys([7, 8], "The ids").tolist() == id_keys(["7", "8"], "The ids").tolist()
    assert id_keys([7.0, 8.0], "The ids").tolist() == keys[1:].tolist()


@pytest.mark.parametrize(
    ("ids", "match"),
    [
        (["a", "b", "a"], r"1 id\(s\) come twice or more. See row 3"),
        (["a", None, "b"], r"must name every row; 1 of its 3 cells is missing. See row 2"),
        ([{"x": "secret"}], "must"),
    ],
)
def test_ids_that_name_no_row_or_two_are_refused(ids, match):
    with pytest.raises(DataError, match=match) as caught:
        id_keys(ids, "The ids")
    assert "secret" not in str(caught.value)


def test_an_id_of_two_tables_is_noticed():
    with pytest.raises(DataError, match="Two tables"):
        check_once(np.array([1.0, 2.0, 1.0]), "The outcomes", "Two tables name one row.")


# History ------------------------------------------------------------------------------------


def test_a_history_holds_no_id_and_no_outcome_and_comes_back_from_plain_values(answer):
    _, _, history = pick_rows(answer, X, KEYS + 70000000, 30)
    y = Y.copy()
    y[:5] = 3.140625
    history = bring_in(answer, X[:40], y[:40], keys=KEYS[:40] + 70000000, history=history)
    text = json.dumps(history.to_json())
    assert "7000000" not in text
    assert "3.140625" not in text
    again = History.from_json(json.loads(text))
    assert again == history
    assert isinstance(again.last, Update)


@pytest.mark.parametrize("stratum", [-1, 5])
def test_a_stratum_that_is_none_is_refused(stratum):
    content = History().to_json()
    content["design"] = {"seed": 0, "sizes": [1] * 5, "picked": {"a": stratum}, "files": []}
    with pytest.raises(ValueError, match=r"^$"):
        History.from_json(content)


def test_two_results_have_digests_of_their_own():
    assert History().digest("a") != History().digest("a")


@pytest.mark.usefixtures("cheap")
def test_outcomes_keep_the_order_in_which_they_came(answer):
    """However the second table is sorted, the first look is as it was."""
    first = bring_in(answer, X[:20], Y[:20], keys=KEYS[:20])
    sorted_otherwise = np.argsort(-KEYS[:50], kind="stable")
    second = bring_in(
        answer, X[sorted_otherwise], Y[sorted_otherwise],
        keys=KEYS[sorted_otherwise], history=first,
    )  # fmt: skip
    assert [look.n_rows for look in second.last.path] == [20, 50]
    assert second.last.path[0] == first.last.path[0]
    assert [*second.seen][:20] == [*first.seen]


@pytest.mark.usefixtures("cheap")
def test_the_same_outcomes_again_are_no_further_look(answer):
    first = bring_in(answer, X[:20], Y[:20], keys=KEYS[:20])
    again = bring_in(answer, X[:20], Y[:20], keys=KEYS[:20], history=first)
    assert again == first


@pytest.mark.usefixtures("cheap")
def test_an_outcome_that_contradicts_an_earlier_one_is_refused(answer):
    first = bring_in(answer, X[:20], Y[:20], keys=KEYS[:20])
    other = Y[:25].copy()
    other[[3, 7]] = PLANTED
    with pytest.raises(DataError, match=r"2 outcome\(s\) contradict .* See rows 4 and 8") as caught:
        bring_in(answer, X[:25], other, keys=KEYS[:25], history=first)
    assert "424242" not in str(caught.value)


@pytest.mark.usefixtures("cheap")
def test_a_whole_number_and_its_float_are_one_outcome(answer):
    y = np.arange(12) % 3
    history = bring_in(answer, X[:12], y, keys=KEYS[:12])
    again = bring_in(answer, X[:12], y.astype(float), keys=KEYS[:12], history=history)
    assert again.seen == history.seen


@pytest.mark.usefixtures("cheap")
def test_outcomes_that_were_there_before_must_be_there_again(answer):
    first = bring_in(answer, X[:20], Y[:20], keys=KEYS[:20])
    with pytest.raises(DataError, match=r"10 outcome\(s\) of an earlier update are missing"):
        bring_in(answer, X[10:40], Y[10:40], keys=KEYS[10:40], history=first)
    nameless = bring_in(answer, X[:20], Y[:20])
    with pytest.raises(DataError, match=r"5 outcome\(s\) of an earlier update are missing"):
        bring_in(answer, X[:15], Y[:15], history=nameless)


@pytest.mark.parametrize(("y", "keys"), [(Y[:9], KEYS[:10]), (Y[:10], KEYS[:11])])
def test_outcomes_and_ids_must_be_as_many_as_rows(answer, y, keys):
    with pytest.raises(DataError, match="for each of the 10 rows"):
        bring_in(answer, X[:10], y, keys=keys)


# Weights ------------------------------------------------------------------------------------


def codes(history):
    return {item.code: item.evidence for item in history.last.findings}


def test_answers_of_a_list_keep_its_weights(answer, cheap):
    places, _, history = pick_rows(answer, X, KEYS, 30)
    came = places[[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 17, 19, 20, 22]]
    found = bring_in(answer, X[came], Y[came], keys=KEYS[came], history=history)
    labels = np.array([history.design.picked[history.digest(int(key))] for key in KEYS[came]])
    expected = design_weights(labels, np.array(history.design.sizes))
    np.testing.assert_allclose(cheap.row_weights, expected)
    assert codes(found)["answers-missing"] == {"outcomes": 18.0, "of": 30.0}
    whole = bring_in(answer, X[places], Y[places], keys=KEYS[places], history=history)
    assert cheap.row_weights is None  # six of each stratum of 24: all alike
    assert "answers-missing" not in codes(whole)


@pytest.mark.usefixtures("cheap")
def test_outcomes_of_rows_that_the_list_did_not_draw_are_said(answer):
    places, _, history = pick_rows(answer, X, KEYS, 20)
    others = np.setdiff1d(np.arange(120), places)[:5]
    came = np.concatenate([places, others])
    found = bring_in(answer, X[came], Y[came], keys=KEYS[came], history=history)
    assert codes(found)["beyond-list"] == {"not on the list": 5.0, "of": 25.0}


@pytest.mark.usefixtures("cheap")
def test_selective_outcomes_are_weighted_and_said(answer):
    """Mostly patients with a high first feature; the others are there, so weights can repair it."""
    high, low = np.argsort(-X[:, 0])[:60], np.argsort(X[:, 0])[:20]
    came = np.concatenate([high, low[:10]])
    found = bring_in(answer, X[came], Y[came], keys=KEYS[came])
    evidence = codes(found)["outcomes-selective"]
    assert evidence["x0"] > 0.3
    assert evidence["of"] == 70.0
    assert 10.0 < evidence["effective rows"] < 65.0
    assert found.last.effective_rows == pytest.approx(evidence["effective rows"])


def test_outcomes_that_do_not_reach_the_target_are_refused(answer):
    came = np.argsort(-X[:, 0])[:20]
    with pytest.raises(DataError, match=r"20 rows with outcomes cannot stand .* differ in x0"):
        bring_in(answer, X[came], Y[came])


@pytest.mark.usefixtures("cheap")
def test_a_random_part_is_called_nothing(answer):
    came = np.random.default_rng(5).choice(120, 40, replace=False)
    assert not {"outcomes-selective", "beyond-list", "outcome-unit"} & set(
        codes(bring_in(answer, X[came], Y[came]))
    )


@pytest.mark.usefixtures("cheap")
def test_outcomes_in_another_unit_are_noticed():
    rng = np.random.default_rng(1)

    def weights(rows):
        Z, y = hospital(rng, rows)
        return Z, 70.0 + 6.0 * y

    model = FedCSA(candidates=[0.0], random_state=0)
    target, y = weights(100)
    model.fit({name: weights(90) for name in "abc"}, target)
    right = bring_in(model.adaptation_, target, y)
    grams = bring_in(model.adaptation_, target, 1000.0 * y)
    assert "outcome-unit" not in codes(right)
    assert codes(grams)["outcome-unit"] == {"looks": "1,000 times the sources': divide by 1000"}


@pytest.mark.parametrize(
    ("name", "times", "looks"),
    [
        ("los", 24.0, "like hours where the sources' is days: divide by 24"),
        ("mark", 28.35, "28.35 times the sources': divide by 28.35"),
    ],
)
def test_the_unit_of_outcomes_is_told_by_their_name_and_their_model_stays(name, times, looks):
    rng = np.random.default_rng(1)

    def stays(rows):
        Z, y = hospital(rng, rows)
        return pd.DataFrame(Z, columns=["x0", "x1"]), 20.0 + y

    columns = Columns((Feature("x0"), Feature("x1")), Outcome(name))
    model = FedCSA(candidates=[0.0], columns=columns, random_state=0)
    target, y = stays(100)
    model.fit({site: stays(90) for site in "abc"}, target)
    found = model.update(target, times * y)
    evidence = {finding.code: finding.evidence for finding in found.findings}
    assert evidence["outcome-unit"] == {"looks": looks}
    assert (found.correction, found.why_same_model) == (None, OTHER_UNIT)
    assert all(check.wider == 0.0 for check in found.intervals)


def test_a_code_among_outcomes_is_noticed(answer):
    assert "outcomes-far" not in codes(bring_in(answer, X, Y))
    y = Y[:30].copy()
    y[3] = -999.0
    found = bring_in(answer, X[:30], y)
    assert codes(found)["outcomes-far"] == {"outcomes": 1.0, "of": 30.0}
    assert found.last.correction is None  # it would move all predictions by eight units
    assert "absurdly far" in found.last.why_same_model


@pytest.mark.parametrize("slip", [3.0, 8.0, 400.0])
@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_one_slip_among_few_outcomes_moves_no_prediction(answer, n_rows, slip):
    y = Y[:n_rows].copy()
    y[-1] += slip
    found = bring_in(answer, X[:n_rows], y).last
    few, far = n_rows < FEWEST_TO_CORRECT, slip == 400.0
    assert (found.correction is None) == (few or far)
    assert (found.gain, found.expected_gain) == (None, None) or not (few or far)
    if few or far:
        assert found.why_same_model == (FAR_OUTCOMES if far else TOO_FEW_TO_CORRECT)


# In Python ----------------------------------------------------------------------------------


def test_one_outcome_is_enough(fitted):
    found = fitted.update(X[:1], Y[:1], anew=True)
    assert found.n_rows == 1
    assert found.risk.alone is None
    assert found.conclusion == "not judged"


def test_an_update_changes_predictions_and_verdict_but_not_what_left(answer):
    model = fit()
    before, ledgers = model.predict(X), model.adaptation_.ledgers
    found = model.update(X[:60], -Y[:60], ids=range(60))
    assert model.update_ is found
    assert found.conclusion.endswith("worse than promised")
    assert found.kept is False
    assert found.before == answer.verdict
    assert model.verdict_ == found.verdict.words != answer.verdict.words
    assert model.legs_ == {leg.name: leg for leg in found.verdict.legs}
    assert model.findings_[: len(found.findings)] == found.findings != ()
    assert np.mean((model.predict(X[60:]) + Y[60:]) ** 2) < np.mean((before[60:] + Y[60:]) ** 2)
    # Everything happens at the target: the ledgers are those of the study.
    assert model.adaptation_.ledgers is ledgers
    assert replace(model.adaptation_, correction=None).ledgers == ledgers


def test_an_update_starts_from_the_model_as_it_was_however_often():
    model = fit()
    model.update(X[:30], Y[:30] + 1.0)
    twice = model.update(X[:60], Y[:60] + 1.0)
    [*once] = fit().update(X[:60], Y[:60] + 1.0).measures
    assert [item.after for item in twice.measures] == [item.after for item in once]


@pytest.mark.usefixtures("cheap")
def test_a_new_fit_forgets_outcomes():
    model = fit()
    model.update(X[:30], Y[:30])
    model.fit(SOURCES, X)
    assert model.update_ is None
    assert model.adaptation_.correction is None


@pytest.mark.usefixtures("cheap")
def test_a_back_test_after_outcomes_keeps_them():
    model = fit()
    found = model.update(X[:30], Y[:30])
    model.backtest(SOURCES)
    assert model.update_ is found
    assert model.adaptation_.correction == found.correction


@pytest.mark.usefixtures("cheap")
def test_ids_are_compared_between_calls():
    model = fit()
    model.update(X[:10], Y[:10], ids=[f"p{i}" for i in range(10)])
    with pytest.raises(DataError, match="contradict"):
        model.update(X[:10], Y[:10] + 1.0, ids=[f"p{i}" for i in range(10)])
    assert model.update(X[:10], Y[:10] + 1.0, anew=True).n_rows == 10


def test_a_frame_is_matched_by_name(cheap):
    import pandas as pd

    frame = pd.DataFrame(X, columns=["age", "bmi"])
    columns = Columns({"age": "number", "bmi": "number"})
    named = {k: (pd.DataFrame(A, columns=["age", "bmi"]), y) for k, (A, y) in SOURCES.items()}
    model = FedCSA(candidates=[0.0], random_state=0, columns=columns).fit(named, frame)
    model.update(frame[["bmi", "age"]].head(30), pd.Series(Y[:30]))
    assert cheap.X.tolist() == X[:30].tolist()
    assert cheap.y.tolist() == Y[:30].tolist()


# Intervals per patient -----------------------------------------------------------------------


def noisy(rows, times, seed=5):
    """Patients whose outcomes vary so many times as much."""
    rng = np.random.default_rng(seed)
    seen = rng.normal(0.2, 1.0, (rows, 2))
    return seen, seen.sum(axis=1) + times * rng.normal(size=rows)


def held_for(fedcsa, level=0.9, times=3.0):
    seen, y = noisy(4000, times, seed=6)
    lower, upper = fedcsa.predict_interval(seen, level).T
    return np.mean((lower <= y) & (y <= upper))


def test_outcomes_that_contradict_the_intervals_are_a_finding_and_widen_them():
    fedcsa = fit()
    assert held_for(fedcsa) < 0.55
    found = fedcsa.update(*noisy(60, 3.0))
    assert held_for(fedcsa) > 0.84
    assert held_for(fedcsa, 0.8) > 0.74
    (check,) = found.intervals
    assert (check.n_rows, check.contradicted) == (60, True)
    assert check.inside < 40
    (told,) = (item for item in fedcsa.findings_ if item.code == "intervals-narrow")
    assert told.evidence == {
        "inside": check.inside, "of": 60, "promised": 0.9, "times as wide": np.exp(check.wider),
    }  # fmt: skip
    assert told.severity == "warning"


def test_intervals_that_outcomes_do_not_contradict_keep_their_bits():
    fedcsa = fit()
    before = fedcsa.adaptation_
    found = fedcsa.update(*noisy(60, 1.0))
    assert "intervals-narrow" not in {item.code for item in found.findings}
    (check,) = found.intervals
    assert (check.n_rows, check.contradicted, check.wider) == (60, False, 0.0)
    for level in (0.5, 0.9):
        after = fedcsa.adaptation_.limits(level)
        np.testing.assert_array_equal(after.values, before.limits(level).values)


def checked(answer, rows, *, coefficients=True):
    """The check of intervals, every row predicted by a correction that has not seen it."""
    prior, z = line_prior(OwnOutcomes(answer, rows)), answer.standardised(rows.X)
    unseen, places = rows.output.copy(), np.arange(len(rows.y))
    for k in places:  # the 11th and 12th row share the folds of the first two
        rest = places % 10 != k % 10
        weights = rows.weights[rest] / rows.weights[rest].sum()
        others = Labelled(rows.X[rest], rows.y[rest], rows.output[rest], weights)
        made = correction_of(answer, others, prior, coefficients=coefficients)
        unseen[k] = made.corrected(rows.output, z)[k]
    beyond = answer.patient_limits.beyond(unseen, z, rows.y)
    return check_of(None, beyond, rows.weights, 0.9, 0.01, widen=True)


def test_every_outcome_is_held_against_an_interval_that_has_not_seen_it(answer):
    seen, y = noisy(12, 6.0)
    found, rows = bring_in(answer, seen, y).last, labelled_rows(answer, seen, y, None, None)
    assert found.intervals == (checked(answer, rows),)
    assert found.intervals[0].contradicted
    # A correction without coefficients is tried out without them.
    plain = replace(found, correction=replace(found.correction, coefficients=()), findings=())
    expected = checked(answer, rows, coefficients=False)
    assert with_intervals(plain, answer, rows, widen=True).intervals == (expected,)
    assert expected != checked(answer, rows)


def test_a_column_of_predictions_is_held_against_outcomes_as_it_is():
    named = {name: (seen, y, 0.5 * seen.sum(axis=1)) for name, (seen, y) in SOURCES.items()}
    judged = FedCSA(random_state=0).evaluate(None, named, X, predictions=0.5 * X.sum(axis=1))
    seen, y = noisy(40, 4.0)
    column = 0.5 * seen.sum(axis=1) + 0.1
    last = bring_in(judged, seen, y, predicted=column).last
    rows = Labelled(seen, y, column, np.full(40, 1.0 / 40))
    assert last.correction.coefficients == ()
    assert last.intervals == (checked(judged, rows, coefficients=False),)
    assert last.intervals[0].contradicted


def test_outcomes_that_weights_repair_count_as_effective_rows(answer):
    seen, y = noisy(80, 2.0, seed=8)
    seen, y = seen + 0.5, y + 1.0
    y += 2.0 * (seen[:, 0] - 0.7)  # those with much weight lie off on one side
    last = bring_in(answer, seen, y).last
    assert "outcomes-selective" in {item.code for item in last.findings}
    weights = balanced_weights(answer.standardised(seen), np.full(80, 1.0 / 80))
    rows = labelled_rows(answer, seen, y, weights, None)
    assert last.intervals == (checked(answer, rows),)
    assert last.intervals != (checked(answer, labelled_rows(answer, seen, y, None, None)),)
    (told,) = (item for item in last.findings if item.code == "intervals-narrow")
    assert told.evidence["effective rows"] == pytest.approx(last.effective_rows)
    assert last.effective_rows < 70


def test_outcomes_of_one_fold_alone_are_held_against_the_model_as_it_was(answer):
    seen, y = noisy(12, 6.0)
    found, weights = bring_in(answer, seen, y).last, np.where(np.arange(12) % 10 == 1, 1.0, 0.0)
    rows = labelled_rows(answer, seen, y, weights, None)
    again = with_intervals(replace(found, findings=()), answer, rows, widen=True)
    inside = answer.patient_limits.holds(rows.output, answer.standardised(seen), y).sum()
    assert [(check.n_rows, check.inside) for check in again.intervals] == [(12, inside)]


def test_a_second_update_begins_with_the_sources_intervals():
    fedcsa, (seen, y) = fit(), noisy(60, 3.0)
    fedcsa.update(seen[:30], y[:30])
    twice, once = fedcsa.update(seen, y), fit().update(seen, y)
    assert twice.intervals == once.intervals
    anew = fedcsa.update(*noisy(60, 1.0), anew=True)
    assert anew.intervals[0].wider == 0.0
    assert held_for(fedcsa, times=1.0) < 0.95


def test_outcomes_that_may_be_slips_widen_nothing(answer):
    off, far = answer.output(X[:2]) + 8.0, answer.output(X[:30])
    far[:10] -= 999.0
    for y in (off, far, np.full(30, 7.0)):
        last = bring_in(answer, X[: len(y)], y).last
        assert last.correction is None
        assert last.intervals[0].contradicted
        assert last.intervals[0].wider == 0.0
        (told,) = (item for item in last.findings if item.code == "intervals-narrow")
        assert set(told.evidence) == {"inside", "of", "promised"}


def test_the_sets_of_every_class_are_held_against_its_own_outcomes(monkeypatch):
    def ill(rows, seed, sign=1.0):
        rng = np.random.default_rng(seed)
        seen = rng.normal(0.2, 1.0, (rows, 2))
        return seen, np.where(rng.random(rows) < expit(sign * 2 * seen.sum(axis=1)), "ill", "well")

    sources = {name: ill(200, seed) for seed, name in enumerate("abcd")}
    fedcsa = FedCSA(LogisticRegression(), loss="brier", random_state=0).fit(sources, ill(90, 7)[0])
    same = fedcsa.update(*ill(60, 8)).intervals
    assert [check.of_class for check in same] == ["ill", "well"]
    assert sum(check.n_rows for check in same) == 60
    assert not any(check.contradicted for check in same)
    # The answer without a correction, which would turn the predictions round.
    answer, (seen, y) = replace(fedcsa.adaptation_, correction=None), ill(60, 9, -1.0)
    turned = with_intervals(
        replace(fedcsa.update_, correction=None, findings=()), answer,
        labelled_rows(answer, seen, y, None, None), widen=True,
    )  # fmt: skip
    assert [check.n_rows for check in turned.intervals] == [(y == c).sum() for c in ("ill", "well")]
    assert all(check.contradicted and check.wider > 0.0 for check in turned.intervals)
    told = [(item.code, item.evidence["class"]) for item in turned.findings]
    assert told == [("intervals-narrow", "ill"), ("intervals-narrow", "well")]
    assert [item.evidence["log-odds wider"] for item in turned.findings] == [
        check.wider for check in turned.intervals
    ]
    fresh, later = ill(3000, 10, -1.0)
    wide = replace(answer, intervals=turned.intervals)
    column = (later == "well").astype(int)
    for each, bounds in ((answer, (0.2, 0.8)), (wide, (0.82, 1.0))):
        held = each.predict_set(fresh)[np.arange(3000), column]
        assert all(bounds[0] < held[column == c].mean() <= bounds[1] for c in (0, 1))
    # 18 of 25 have a chance of 0.95 %: that contradicts one interval, but neither of two classes.
    inside = answer.predict_set(fresh)[:, 0]
    some = np.concatenate([np.flatnonzero(inside)[:18], np.flatnonzero(~inside)[:7]])
    rows = labelled_rows(answer, fresh[some], np.full(25, "ill"), None, None)
    last = replace(fedcsa.update_, correction=None)
    check, _ = with_intervals(last, answer, rows, widen=True).intervals
    assert check == IntervalCheck("ill", 25, 18, False, 0.0)
    # Outcomes of one class alone are no slip.
    asked = []
    monkeypatch.setattr(
        outcomes, "with_intervals", lambda found, *_, widen: asked.append(widen) or found
    )
    assert "outcomes-same" in {
        f.code for f in fedcsa.update(fresh[:3], ["ill"] * 3, anew=True).findings
    }
    assert asked == [True]


def test_a_loss_of_your_own_has_its_intervals_checked():
    def far(y, predicted):
        return np.abs(y - predicted) ** 1.5

    fedcsa = fit(loss=far)
    assert fedcsa.update(*noisy(40, 3.0)).intervals[0].contradicted


def test_a_study_without_intervals_has_none_checked(answer):
    nobody = replace(answer, examinations={}, concluded=None)
    last = bring_in(nobody, *noisy(30, 3.0)).last
    assert last.intervals == ()


def test_a_saved_update_comes_back_and_is_shown(tmp_path, monkeypatch):
    from fedcsa import load_result
    from fedcsa.answer import page
    from fedcsa.answer.store import load_history
    from fedcsa.answer.view import view_of

    model = fit()
    found = model.update(X[:30], Y[:30], ids=range(30))
    monkeypatch.setattr(page, "write_report", lambda folder: folder)  # tested elsewhere
    model.save(tmp_path / "r")
    again = load_result(tmp_path / "r")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert load_history(tmp_path / "r", again) == model.history_
    assert view_of(tmp_path / "r").update == found
    assert "with 30 outcomes" in model._repr_html_inner()


def test_a_design_is_kept_apart_from_its_ids():
    assert "picked" not in repr(ListDesign(0, (1,), {"secret": 0}))


@pytest.mark.usefixtures("cheap")
def test_outcomes_and_ids_are_one_per_row():
    model = fit()
    with pytest.raises(DataError, match=r"one of ids for each of the \d+ rows; there are 2\."):
        model.followup(X, 5, ids=["a", "b"])
    with pytest.raises(DataError, match=r"one of y for each of the 9 rows; there are 9 by 2\."):
        model.update(X[:9], np.column_stack([Y[:9], Y[:9]]))


@pytest.mark.usefixtures("cheap")
def test_a_list_in_python_is_the_lists_of_the_command_line():
    model = fit()
    first = model.followup(X, 20)
    assert first.tolist() == pick_rows(model.adaptation_, X, KEYS, 20)[0].tolist()
    second = model.followup(X, 10)
    assert not set(first.tolist()) & set(second.tolist())
    model.update(X[first], Y[first], ids=first)
    assert codes(model.history_)["answers-missing"] == {"outcomes": 20.0, "of": 30.0}
    both = np.concatenate([first, second])
    found = model.update(X[both], Y[both], ids=both)
    assert [look.n_rows for look in found.path] == [20, 30]
    again = model.update(X[first], Y[first], ids=first, anew=True)
    assert [look.n_rows for look in again.path] == [20]
    assert model.history_.design is not None

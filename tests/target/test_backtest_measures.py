"""Measures on rows whose outcomes are known, beside what was promised."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import log_loss, r2_score, roc_auc_score

from fedcsa.core.measures import measure_columns
from fedcsa.core.scores import ScoreDesign
from fedcsa.plan import Plan
from fedcsa.target.backtest_result import (
    MeasureOutcome,
    measure_records,
    outcomes_of,
    realised_rows,
)
from fedcsa.target.promised_measures import MeasurePromise


def plan(**options):
    return Plan(("x0", "x1"), {"name": "ridge"}, ({"penalty": 1.0},), **options)


def labelled(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    p = 1.0 / (1.0 + np.exp(-X @ [1.0, -0.5]))
    return X, (rng.random(n) < p).astype(float), np.column_stack([1.0 - p, p])


def by_name(design, realised, s=0):
    names = [(column.measure.name, column.threshold) for column in measure_columns(design)]
    return {names[int(k)]: (v, lo, hi) for t, k, v, lo, hi in realised.tolist() if t == s}


def test_they_are_scikit_learns_on_the_same_rows():
    X, y, p = labelled()
    design = ScoreDesign(2, (0.4,), 1)
    study = plan(classes=(0, 1), thresholds=(0.4,), subgroups=({"feature": "x0", "cut": 0.0},))
    realised = realised_rows(study, design, (X, y, p))
    for s, here in enumerate([np.ones(len(y), bool), X[:, 0] >= 0.0]):
        found = by_name(design, realised, s)
        assert found["auroc", None][0] == pytest.approx(
            roc_auc_score(y[here], p[here, 1]), abs=5e-3
        )
        assert found["log_loss", None][0] == pytest.approx(log_loss(y[here], p[here]), rel=1e-9)
        act = p[here, 1] >= 0.4
        assert found["sensitivity", 0.4][0] == pytest.approx(act[y[here] == 1].mean())
        for value, lower, upper in found.values():
            assert lower <= value <= upper


def test_numbers_are_in_the_outcomes_units():
    X, _, _ = labelled()
    p = 50.0 + 10.0 * X[:, 0]
    y = p + np.random.default_rng(1).normal(0.0, 4.0, len(p))
    design = ScoreDesign(0, (), 0, 50.0, 11.0)
    found = by_name(design, realised_rows(plan(), design, (X, y, p)))
    assert found["rmse", None][0] == pytest.approx(np.sqrt(np.mean((y - p) ** 2)))
    assert found["r2", None][0] == pytest.approx(r2_score(y, p))
    assert found["calibration_intercept", None][0] == pytest.approx(np.mean(y - p))


def test_what_rows_do_not_let_estimate_is_not_there():
    X, _, p = labelled(60)
    design = ScoreDesign(2)
    found = by_name(design, realised_rows(plan(classes=(0, 1)), design, (X, np.zeros(60), p)))
    assert ("auroc", None) not in found
    assert ("brier", None) in found


def test_rows_of_one_patient_leave_together():
    X, y, p = (np.repeat(array, 4, axis=0) for array in labelled(80))
    design, study = ScoreDesign(2), plan(classes=(0, 1))
    patients = np.repeat(np.arange(80.0), 4)
    apart = by_name(design, realised_rows(study, design, (X, y, p)))["brier", None]
    together = by_name(design, realised_rows(study, design, (X, y, p), patients=patients))
    wide = together["brier", None]
    assert wide[0] == pytest.approx(apart[0])
    assert wide[2] - wide[1] > 1.3 * (apart[2] - apart[1])


def outcome(lower, upper, realised, slack, name="auroc"):
    middle = (lower + upper) / 2.0
    ends = realised - slack, realised + slack
    return MeasureOutcome(name, "", None, None, middle, lower, upper, realised, *ends)


def test_a_promise_is_kept_if_the_intervals_meet():
    inside, near = outcome(0.6, 0.8, 0.7, 0.01), outcome(0.6, 0.8, 0.85, 0.06)
    below, broken = outcome(0.6, 0.8, 0.55, 0.06), outcome(0.6, 0.8, 0.9, 0.05)
    assert [item.covered for item in (inside, near, below, broken)] == [True, False, False, False]
    assert [item.kept for item in (inside, near, below, broken)] == [True, True, True, False]
    [record, other] = measure_records([inside, near, broken, outcome(0, 1, 0.5, 0.1, "brier")])
    assert (record.name, record.judged, record.covered, record.kept) == ("auroc", 3, 1, 2)
    assert (other.name, other.judged) == ("brier", 1)


def test_a_measure_without_a_promise_has_no_outcome():
    design = ScoreDesign(0)
    promises = [
        MeasurePromise(column.measure.name, estimate=1.0, lower=0.0, upper=2.0)
        for column in measure_columns(design)
    ]
    promises[1] = replace(promises[1], why_not="no source has enough rows or events")
    realised = np.array([[0.0, k, 1.0, 0.5, 1.5] for k in range(len(promises))])
    names = [item.name for item in outcomes_of(promises, realised, design)]
    assert names == [p.name for k, p in enumerate(promises) if k != 1]
    assert outcomes_of((), realised, design) == ()

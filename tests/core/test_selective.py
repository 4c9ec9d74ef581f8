"""Are rows with outcomes like the target's at random? Chance, closed forms, an optimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binom, norm

from fedcsa.core.selective import FALSE_ALARMS, Selection, balanced_weights, selection_of
from fedcsa.core.table import Table1

NAMES, FLAGS = ("age", "score", "sex=M", "rare"), (False, False, True, True)


def population(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [rng.normal(60, 10, n), rng.exponential(2, n), rng.random(n) < 0.4, rng.random(n) < 0.01]
    )
    return X.astype(float)


def units(X, table):
    return (X - table.mean) / table.sd


def equal(n):
    return np.full(n, 1.0 / n)


def test_random_rows_are_called_selective_as_seldom_as_promised():
    X = population()
    table, rng, alarms = Table1.of(X, NAMES, FLAGS), np.random.default_rng(1), 0
    z = units(X, table)
    for n in (2, 5, 10, 40):
        for _ in range(300):
            part = rng.choice(len(X), n, replace=False)
            alarms += selection_of(z[part], equal(n), table).differs.any()
    assert alarms <= 1200 * FALSE_ALARMS


def test_one_patient_with_a_rare_flag_is_no_selection_but_six_of_thirty_are():
    table = Table1.typed(1000, ["rare"], [True], [0.01], [0.1])
    rows = units(np.eye(30)[:, :1], table)
    for n in (1, 5, 30):
        assert not selection_of(rows[:n], equal(n), table).differs.any()
    assert selection_of(units(np.repeat([[1.0], [0.0]], [6, 24], axis=0), table), equal(30),
                        table).differs.all()  # fmt: skip


def test_an_error_of_a_flag_is_as_rare_as_the_binomial_distribution_says():
    table = Table1.typed(10**9, ["rare"], [True], [0.02], [0.14])
    seen = units(np.repeat([[1.0], [0.0]], [3, 17], axis=0), table)
    found = selection_of(seen, equal(20), table)
    chance = 2.0 * binom.sf(2, 20, 0.02)
    np.testing.assert_allclose(norm.isf(chance / 2.0), found.differences / found.errors)


def test_the_error_is_that_of_other_patients_drawn_from_the_same():
    rng, population_of = np.random.default_rng(2), population(40000, seed=3)
    draws = []
    for _ in range(1500):
        rows = population_of[rng.integers(0, 40000, 500)]
        draws.append(rows[:100].mean(axis=0) - rows[100:].mean(axis=0))
    table = Table1.of(population_of[:400], NAMES, FLAGS)
    found = selection_of(units(population_of[:100], table), equal(100), table).errors
    np.testing.assert_allclose(found[:3], np.std(draws, axis=0)[:3] / table.sd[:3], rtol=0.12)


def test_unequal_weights_have_the_larger_error():
    table = Table1.typed(1000, ["age"], [False], [60.0], [10.0])
    z, weights = np.zeros((4, 1)), np.array([0.7, 0.1, 0.1, 0.1])
    error = selection_of(z, weights, table).errors[0]
    assert error == pytest.approx(np.sqrt(0.49 + 0.03 + 0.001))


def test_only_the_old_are_selective():
    X = population()
    table = Table1.of(X, NAMES, FLAGS)
    old = X[X[:, 0] > 65][:30]
    assert selection_of(units(old, table), equal(30), table).differs.tolist()[0]


def test_a_difference_that_is_sure_but_small_is_nobodys_concern():
    found = Selection(np.array([0.09, 0.11]), np.array([0.001, 0.001]))
    assert found.differs.tolist() == [False, True]
    assert found.imbalance == pytest.approx((0.09**2 + 0.11**2) / 2)


def test_a_flag_that_nobody_was_told_to_have_divides_by_no_zero():
    table = Table1.typed(100, ["rare"], [True], [0.0], [0.5])
    found = selection_of(np.zeros((10, 1)), equal(10), table)
    assert np.isfinite(found.errors).all()
    assert found.errors[0] > 0.0


def test_many_outcomes_are_as_sure_as_the_table_is():
    table = Table1.typed(100, ["age"], [False], [60.0], [10.0])
    found = selection_of(np.zeros((9999, 1)), equal(9999), table)
    assert found.errors[0] == pytest.approx(0.1, rel=0.01)


def test_balanced_weights_stay_as_near_as_they_can():
    """An optimiser that knows nothing of ours: least relative entropy with means of zero."""
    rng = np.random.default_rng(3)
    z, base = rng.normal(0.4, 1.0, (12, 2)), rng.dirichlet(np.full(12, 5.0))
    found = balanced_weights(z, base)
    assert found.sum() == pytest.approx(1.0)

    def dual(at):
        return np.log(base @ np.exp(z @ at)) + 1e-3 * at @ at

    at = minimize(dual, np.zeros(2), tol=1e-12).x
    expected = base * np.exp(z @ at)
    np.testing.assert_allclose(found, expected / expected.sum(), rtol=1e-5)
    np.testing.assert_allclose(found @ z, 0.0, atol=5e-3)

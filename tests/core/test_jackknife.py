"""The sampling variance of a model's predictions, beside closed forms and brute force."""

import numpy as np
import pytest

from fedcsa.core.jackknife import jackknife_variance


def without_each_fold(y, n_folds):
    """A model that predicts the mean: its predictions on every row, fitted without each fold."""
    folds = np.array_split(np.arange(len(y)), n_folds)
    means = [np.delete(y, fold).mean() for fold in folds]
    return np.repeat(np.array(means)[:, None], len(y), axis=1)


@pytest.mark.parametrize(("n", "n_folds"), [(20, 5), (60, 5), (30, 2)])
def test_the_variance_of_a_mean_is_that_of_its_rows_over_their_number(n, n_folds):
    rng = np.random.default_rng([n, n_folds])
    weights = np.full(n, 1.0 / n)
    found = [
        jackknife_variance(without_each_fold(rng.normal(0.0, 3.0, n), n_folds), weights)
        for _ in range(6000)
    ]
    error = np.std(found) / np.sqrt(len(found))
    assert np.mean(found) == pytest.approx(9.0 / n, abs=4.0 * error)
    assert error < 0.02 * 9.0 / n


def test_it_estimates_how_the_line_fitted_on_all_rows_varies_over_the_weighted_rows():
    rng = np.random.default_rng(0)
    n, X = 50, np.column_stack([np.ones(50), np.random.default_rng(1).normal(size=(50, 2))])
    weights = np.random.default_rng(2).dirichlet(np.ones(n))
    known = 4.0 * weights @ np.einsum("ij,jk,ik->i", X, np.linalg.inv(X.T @ X), X)
    found = []
    for _ in range(1500):
        y = rng.normal(0.0, 2.0, n)
        order = np.array_split(rng.permutation(n), 5)
        lines = [np.linalg.lstsq(np.delete(X, f, 0), np.delete(y, f), rcond=None)[0] for f in order]
        found.append(jackknife_variance(np.array([X @ line for line in lines]), weights))
    # Leaving out a fifth of the rows exaggerates a little, never the other way round.
    assert known < np.mean(found) < 1.2 * known


def test_every_row_counts_as_much_as_it_weighs():
    rng = np.random.default_rng(3)
    predictions, weights = rng.normal(size=(5, 9)), rng.dirichlet(np.ones(9))
    slow = 0.0
    for i in range(9):
        column = predictions[:, i]
        slow += weights[i] * 4.0 / 5.0 * sum((value - column.mean()) ** 2 for value in column)
    assert jackknife_variance(predictions, weights) == pytest.approx(slow, rel=1e-12)


def test_of_two_classes_it_is_that_of_the_probability():
    rng = np.random.default_rng(4)
    p, weights = rng.random((5, 7)), np.full(7, 1.0 / 7.0)
    both = jackknife_variance(np.stack([1.0 - p, p], axis=2), weights)
    assert both == pytest.approx(jackknife_variance(p, weights), rel=1e-12)


def test_models_that_agree_have_none():
    assert jackknife_variance(np.ones((5, 3)), np.full(3, 1.0 / 3.0)) == 0.0

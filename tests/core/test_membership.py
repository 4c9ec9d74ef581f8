"""The attacks on membership: against other writings, closed forms and refits."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LinearRegression
from sklearn.metrics import roc_auc_score

from fedcsa.core.membership import jackknife_variance, loss_attack, reference_attack


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("digits", [0, 1, 9])
def test_the_auc_of_losses_is_that_of_scikit_learn_ties_included(seed, digits):
    rng = np.random.default_rng(seed)
    inside, outside = rng.gamma(1.0, size=40).round(digits), rng.gamma(1.3, size=40).round(digits)
    truth, score = np.repeat([1, 0], 40), -np.concatenate([inside, outside])
    assert loss_attack(inside, outside).auc == pytest.approx(roc_auc_score(truth, score), abs=1e-12)


def test_equal_losses_tell_nothing_and_smaller_ones_everything():
    same = np.arange(10.0)
    assert loss_attack(same, same).auc == 0.5
    assert loss_attack(same, same).error == 0.0
    assert loss_attack(same, same + 100.0).auc == 1.0
    assert loss_attack(same + 100.0, same).auc == 0.0


def test_the_error_of_the_loss_attack_is_what_it_varies_by():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(400):
        noise = rng.normal(size=200)
        found.append(loss_attack(np.abs(0.9 * noise), np.abs(noise + 0.3 * rng.normal(size=200))))
    spread = np.std([attack.auc for attack in found])
    assert np.mean([attack.error for attack in found]) == pytest.approx(spread, rel=0.15)


def test_the_reference_attack_is_the_auc_of_two_normal_distributions():
    moved, variance = np.full(5, 0.7), np.full(5, 2.0)
    expected = norm.cdf(0.7 / 2.0)
    assert reference_attack(moved, variance).auc == pytest.approx(expected, abs=1e-12)
    assert reference_attack(moved, variance).error == pytest.approx(0.0, abs=1e-12)


def test_predictions_that_never_vary_but_move_give_a_row_away():
    assert reference_attack(np.array([1.0, 0.0, -1.0]), np.zeros(3)).auc == 0.5
    assert reference_attack(np.ones(3), np.zeros(3)).auc == 1.0


def folds_of(n, folds=5):
    return np.arange(n) % folds


@pytest.mark.parametrize("folds", [3, 5, 10])
def test_the_jackknife_finds_the_variance_of_a_mean(folds):
    """Of a mean of n outcomes with variance 1 it is 1/n."""
    rng = np.random.default_rng(1)
    n, found = 60, []
    for _ in range(500):
        y, label = rng.normal(size=n), folds_of(n, folds)
        means = np.array([y[label != k].mean() for k in range(folds)])
        predictions = np.repeat(means[:, None], n, axis=1)
        found.append(jackknife_variance(predictions, label).mean())
    assert np.mean(found) == pytest.approx(1.0 / n, rel=0.15)


def test_the_jackknife_leaves_out_the_model_that_has_not_seen_the_row():
    predictions = np.array([[100.0, 1.0], [2.0, 100.0], [4.0, 5.0], [3.0, 3.0]])
    expected = [np.var([2.0, 4.0, 3.0], ddof=1), np.var([1.0, 5.0, 3.0], ddof=1)]
    found = jackknife_variance(predictions, np.array([0, 1]))
    assert found == pytest.approx(np.array(expected) * 9 / 4)


def attacked(X, y, folds=5):
    """The reference attack on least squares, by models without each fold."""
    label = folds_of(len(y), folds)
    fits = [LinearRegression().fit(X[label != k], y[label != k]) for k in range(folds)]
    predictions = np.array([fit.predict(X) for fit in fits])
    outside = predictions[label, np.arange(len(y))]
    moved = (LinearRegression().fit(X, y).predict(X) - outside) * np.sign(y - outside)
    return reference_attack(moved, jackknife_variance(predictions, label)).auc


def left_out_one_by_one(X, y):
    """The same from refits without every single row, and the true variance of a prediction.

    The closed form needs no fold: a row moves its own prediction by h e/(1 − h), which varies by
    σ² h, with h its leverage (Dorseuil, Atif and Cappé 2026: it decides what any attack reaches).
    """
    moved, variance = [], []
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        without = LinearRegression().fit(X[rest], y[rest]).predict(X[i : i + 1])[0]
        design = np.column_stack([np.ones(len(y)), X])
        h = design[i] @ np.linalg.solve(design.T @ design, design[i])
        error = y[i] - without
        assert LinearRegression().fit(X, y).predict(X[i : i + 1])[0] - without == pytest.approx(
            h * error
        )
        moved.append(h * abs(error))
        variance.append(h)  # the outcome's own variance is 1 below
    return reference_attack(np.array(moved), np.array(variance)).auc


@pytest.mark.no_cover
@pytest.mark.parametrize(("n", "d"), [(100, 4), (100, 15)])
def test_folds_find_what_leaving_out_every_row_by_itself_finds(n, d):
    rng = np.random.default_rng(n + d)
    by_folds, by_rows = [], []
    for _ in range(12):
        X = rng.normal(size=(n, d))
        y = X.sum(axis=1) + rng.normal(size=n)
        by_folds.append(attacked(X, y))
    for _ in range(2):
        X = rng.normal(size=(n, d))
        by_rows.append(left_out_one_by_one(X, X.sum(axis=1) + rng.normal(size=n)))
    # A model of four fifths of the rows is moved a little more by one of them.
    assert -0.01 < np.mean(by_folds) - np.mean(by_rows) < 0.04

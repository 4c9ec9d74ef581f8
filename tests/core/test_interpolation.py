"""Losses of a path from a few pivots: exact to rounding, however hard the path."""

import numpy as np
import pytest

from fedcsa.core.interpolation import loss_pivots
from fedcsa.core.ridge import ridge_path


def path_losses(n, d, penalties, noise=1.0, scales=None, seed=0):
    """Losses of every candidate on rows, and β in coordinates in which rows are orthonormal."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    X = X if scales is None else X * scales
    y = X @ rng.normal(size=d) + noise * rng.normal(size=n)
    design = np.column_stack([np.ones(n), X, y])
    betas = []
    for half in (slice(0, n // 2), slice(n // 2, n)):
        B, b0 = ridge_path(X[half], y[half], penalties)
        betas.append(np.vstack([b0, B, -np.ones(len(penalties))]))
    R = np.linalg.qr(design, mode="r") / np.sqrt(n)
    losses = [(design @ beta) ** 2 for beta in betas]
    return losses, np.stack([R @ beta for beta in betas])


@pytest.mark.parametrize(
    ("d", "penalties", "noise"),
    [
        (1, np.linspace(0, 1, 50), 1.0),
        (6, np.linspace(0, 1, 101), 1.0),
        (6, np.append(0.0, np.logspace(-6, 4, 200)), 1.0),
        (6, np.append(0.0, np.logspace(-8, 2, 60)), 1e-6),
        (4, np.array([0.3]), 1.0),
        (4, np.array([0.3, 0.3, 0.3]), 1.0),
    ],
)
def test_every_candidates_losses_are_the_same_combination_on_every_row(d, penalties, noise):
    losses, residuals = path_losses(400, d, penalties, noise)
    pivots, combinations = loss_pivots(residuals)
    assert combinations.shape == (len(pivots), len(penalties))
    for L in losses:  # one set of pivots for all folds
        np.testing.assert_allclose(L[:, pivots] @ combinations, L, atol=1e-9 * L.mean(), rtol=1e-9)
        means = (L[:, pivots] @ combinations).mean(axis=0)
        np.testing.assert_allclose(means, L.mean(axis=0), rtol=1e-11)


def test_a_fine_grid_needs_no_more_pivots_than_a_coarse_one():
    few = len(loss_pivots(path_losses(300, 5, np.linspace(0, 1, 100))[1])[0])
    many = len(loss_pivots(path_losses(300, 5, np.linspace(0, 1, 2000))[1])[0])
    assert few < 25
    assert many <= few + 3


def test_candidates_that_have_nothing_in_common_are_all_pivots():
    residuals = np.random.default_rng(0).normal(size=(1, 8, 5))
    pivots, combinations = loss_pivots(residuals)
    assert sorted(pivots) == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(combinations[:, pivots], np.eye(5), atol=1e-12)


def test_a_candidate_without_any_loss_stays_without():
    residuals = np.random.default_rng(0).normal(size=(2, 3, 4))
    residuals[:, :, 2] = 0.0
    _, combinations = loss_pivots(residuals)
    assert (combinations[:, 2] == 0.0).all()
    assert (loss_pivots(np.zeros((2, 3, 4)))[1] == 0.0).all()

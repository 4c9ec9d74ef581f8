"""How much a model's predictions owe to chance: the delete-group jackknife."""

from __future__ import annotations

from fedcsa.core.arrays import Array


def jackknife_variance(predictions: Array, weights: Array) -> float:
    """s² = Σ_i w_i (K − 1)/K Σ_k |h_−k(x_i) − mean_k h_−k(x_i)|².

    It estimates the sampling variance of the predictions of a model fitted on all rows, averaged
    over the population for which the weighted rows stand.

    Parameters
    ----------
    predictions : array of shape (folds, rows) or (folds, rows, classes)
        Of K ≥ 2 models, each fitted without one fold, on all rows. For probabilities |·|² is half
        the squared norm, as in the Brier loss.
    weights : array of shape (rows,)
        w, summing to one.

    >>> import numpy as np
    >>> jackknife_variance(np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([0.5, 0.5]))
    0.5
    """
    n_folds = len(predictions)
    deviation = predictions - predictions.mean(axis=0)
    squares = deviation**2 if deviation.ndim == 2 else 0.5 * (deviation**2).sum(axis=2)
    return float((n_folds - 1.0) / n_folds * (squares.sum(axis=0) @ weights))

"""How well an attacker who holds a model and a patient's row can tell whether the row trained it.

Two attacks, from models that have and models that have not seen the row. Neither needs a row that
is kept back: the models of the folds stand in for a model without the row.

=================  ==========================================================================
`loss_attack`      a row that the model fits well was in it (Yeom and others 2018)
`reference_attack` a row towards whose outcome the prediction moved, by more than predictions
                   move by chance, was in it (Carlini and others 2022, with the models of the
                   folds as shadow models). The attacker has models of other rows to compare
                   with, as a target has those of the other sources
=================  ==========================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.core.normal import normal_below

#: The share of a row's own variance beside that of all rows: its own is estimated from a few
#: models, and each alone is too noisy to divide by.
OWN_VARIANCE = 0.5


@dataclass(frozen=True)
class Attack:
    """What an attack reaches.

    Attributes
    ----------
    auc : float
        How often a row that was in the model ranks before one that was not; ½ is chance.
    error : float
        Its standard error over rows.
    """

    auc: float
    error: float


def loss_attack(inside: Array, outside: Array) -> Attack:
    """The attack by the loss: P(inside < outside) over all pairs of rows, ties count half.

    Parameters
    ----------
    inside : array of shape (rows,)
        Loss of every row under the model that has seen it.
    outside : array of shape (rows,)
        Loss of the same rows under a model of the same recipe that has not.

    Examples
    --------
    >>> loss_attack(np.array([0.0, 1.0]), np.array([1.0, 2.0])).auc
    0.875
    """
    ahead = _share_above(inside, outside)  # per inside row: how many outside rows lose more
    behind = 1.0 - _share_above(outside, inside)
    # The same rows are on both sides, so their parts are added before their variance is taken.
    spread = np.std(ahead + behind) / np.sqrt(len(inside))
    return Attack(float(ahead.mean()), float(spread))


def _share_above(values: Array, others: Array) -> Array:
    """The share of `others` above every value, ties counted half.

    Parameters
    ----------
    values : array of shape (rows,)
    others : array of shape (others,)
    """
    ordered = np.sort(others)
    above = len(ordered) - np.searchsorted(ordered, values, side="right")
    not_below = len(ordered) - np.searchsorted(ordered, values, side="left")
    share: Array = 0.5 * (above + not_below) / len(ordered)
    return share


def reference_attack(moved: Array, variance: Array) -> Attack:
    """The attack with reference models: the mean over rows of Φ(moved / √(2 variance)).

    Predictions of a row by models that have not seen it vary by `variance`; having seen it moves
    them by `moved`. That is the AUC between two normal distributions, which is what the
    likelihood ratio of the two reaches for this row.

    Parameters
    ----------
    moved : array of shape (rows,)
        Prediction of the model with the row less that of one without, towards the outcome.
    variance : array of shape (rows,)
        Of predictions of the row by models of as many other rows.

    Examples
    --------
    >>> reference_attack(np.zeros(3), np.ones(3)).auc
    0.5
    """
    pooled = OWN_VARIANCE * variance + (1.0 - OWN_VARIANCE) * variance.mean()
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = moved / np.sqrt(2.0 * pooled)
    reached: Array = normal_below(np.where(moved == 0.0, 0.0, ratio))
    return Attack(float(reached.mean()), float(reached.std() / np.sqrt(len(reached))))


def jackknife_variance(predictions: Array, left_out: NDArray[np.intp]) -> Array:
    """How much predictions of every row vary, from models that each lack one of K folds.

    The sample variance over the K − 1 models that have seen the row, times (K − 1)²/K: a model
    without a fold differs from the next by two folds only (delete-a-group jackknife).

    Parameters
    ----------
    predictions : array of shape (folds, rows)
        Of the model without each fold.
    left_out : array of int of shape (rows,)
        Fold of every row.

    Returns
    -------
    array of shape (rows,)
    """
    folds = len(predictions)
    seen = np.arange(folds)[:, None] != left_out
    mean = predictions.mean(axis=0, where=seen)
    squares = np.where(seen, (predictions - mean) ** 2, 0.0).sum(axis=0)
    variance: Array = squares / (folds - 2) * (folds - 1) ** 2 / folds
    return variance

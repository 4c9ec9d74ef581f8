"""Weighted medians: what one source says cannot move them far, whatever it says."""

from __future__ import annotations

import numpy as np

from fedcsa.core.arrays import Array

#: With fewer sources a median says little; of one of them the model may fail to come.
MIN_SOURCES, MIN_MODELS = 4, 3
#: No source may hold half of the weight, or it would be the median.
MAX_WEIGHT = 1.0 / 3.0


def limited(weights: Array, combine: str) -> Array:
    """The weights, under a median with none above `MAX_WEIGHT`."""
    return capped(weights, MAX_WEIGHT) if combine == "median" else weights


def capped(weights: Array, largest: float) -> Array:
    """The nearest weights in proportion of which none exceeds `largest` (≥ 1/K).

    >>> capped(np.array([0.97, 0.01, 0.01, 0.01]), 0.4)
    array([0.4, 0.2, 0.2, 0.2])
    """
    result: Array = weights / weights.sum()
    fixed = np.zeros(len(result), dtype=bool)
    while (result > largest * (1.0 + 1e-12)).any():
        fixed |= result > largest
        free = np.where(fixed, 0.0, weights)
        left = 1.0 - largest * fixed.sum()
        equal = np.where(fixed, 0.0, 1.0) / max((~fixed).sum(), 1)
        spread = free / free.sum() if free.sum() > 0.0 else equal
        result = np.where(fixed, largest, left * spread)
    return result


def median_mixture(outputs: Array, weights: Array) -> Array:
    """Weighted median of the models' predictions, row by row.

    Parameters
    ----------
    outputs : array of shape (rows, sources) or (rows, sources, classes)
        Probabilities are rescaled to sum to one afterwards.
    """
    order = np.argsort(outputs, axis=1, kind="stable")
    ranked = np.take_along_axis(outputs, order, axis=1)
    reached = np.cumsum(weights[order], axis=1)
    middle = (reached < 0.5 * weights.sum() * (1.0 - 1e-12)).sum(axis=1)
    middle = np.minimum(middle, outputs.shape[1] - 1)
    picked: Array = np.take_along_axis(ranked, middle[:, None], axis=1)[:, 0]
    if outputs.ndim == 3:
        total = picked.sum(axis=1, keepdims=True)
        picked = np.where(
            total > 0.0, picked / np.where(total > 0.0, total, 1.0), 1.0 / outputs.shape[2]
        )
    return picked


def weighted_median(values: Array, weights: Array) -> float:
    """The first value, in order, at which half of the weight is reached."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    middle = min(int(np.searchsorted(reached, 0.5)), len(values) - 1)
    return float(values[order][middle])

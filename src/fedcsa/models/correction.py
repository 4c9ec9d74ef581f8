"""A correction of what a model predicts: intercept, slope, and further coefficients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fedcsa.core.arrays import Array, expit, logit
from fedcsa.core.losses import LOG_FLOOR
from fedcsa.errors import ModelError


@dataclass(frozen=True)
class Correction:
    """Numbers: p becomes intercept + slope · p + coefficients · z. Two classes: so do log-odds.

    Attributes
    ----------
    intercept, slope : float
    coefficients : tuple of float
        Of the features in units of the target's means and sds; empty if none changes.

    Examples
    --------
    >>> Correction(1.0, 2.0).corrected(np.array([0.5]), np.zeros((1, 3)))
    array([2.])
    """

    intercept: float = 0.0
    slope: float = 1.0
    coefficients: tuple[float, ...] = ()

    def corrected(self, output: Array, z: Array) -> Array:
        """What the corrected model predicts, of the shape of `output`.

        Parameters
        ----------
        output : array of shape (rows,) or (rows, 2)
            What the model predicts: numbers, or probabilities.
        z : array of shape (rows, features)
            The rows in units of the target's means and sds.
        """
        classes = output.ndim == 2
        line = log_odds(output) if classes else output
        moved: Array = self.intercept + self.slope * line
        if self.coefficients:
            moved = moved + z @ np.array(self.coefficients)
        if not classes:
            return moved
        p = expit(moved)
        return np.column_stack([1.0 - p, p])

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """A correction out of plain values."""
        try:
            intercept, slope = float(content["intercept"]), float(content["slope"])
            coefficients = tuple(map(float, content["coefficients"]))
        except (KeyError, TypeError, ValueError):
            intercept = slope = np.nan
            coefficients = ()
        if not np.isfinite([intercept, slope, *coefficients]).all():
            raise ModelError("A correction must hold finite numbers. Run fedcsa update again.")
        return cls(intercept, slope, coefficients)


def log_odds(output: Array) -> Array:
    """Log-odds of the second of two classes, (rows,); probabilities of 0 and 1 are moved off."""
    found: Array = logit(np.clip(output[:, 1], LOG_FLOOR, 1.0 - LOG_FLOOR))
    return found

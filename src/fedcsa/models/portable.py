"""Fitted models as plain values and arrays: the only formats in which a model travels.

=========  ===================================================  ============================
kind       prediction                                           arrays
=========  ===================================================  ============================
"linear"   link(b₀ + xᵀb)                                       coefficients, intercept
"design"   link(b₀ + B s(x)), s the agreed steps                coefficients (outputs,
           (polynomials, splines, codes of levels)              columns), intercept, step…
"points"   link(b₀ + Σ points of the bin of every feature)      step, first, cut, points
"trees"    link(base + sum or mean of the leaves' values)       step, feature, threshold,
                                                                value, base
=========  ===================================================  ============================

`form` holds the words, `arrays` every number; both are plain, and `open_model` makes the model
again after it has checked every length, index and value. Cuts and thresholds are whole multiples
of `step`, the agreed grid. Who makes them: `fedcsa.models.convert.to_portable`; which may:
`fedcsa.models.allowed`; what is checked before one leaves: `fedcsa.models.leaving`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from fedcsa.core.arrays import Array
from fedcsa.errors import ModelError

#: The words of a model: plain JSON values.
Form: TypeAlias = Mapping[str, Any]
#: Its numbers: float64 or int32 arrays by name.
Arrays: TypeAlias = Mapping[str, NDArray[Any]]


class PortableModel(Protocol):
    """A fitted model that may travel."""

    @property
    def form(self) -> Form:
        """Its words: kind, link, steps."""
        ...

    @property
    def arrays(self) -> Arrays:
        """Its numbers, read-only."""
        ...

    def predict(self, X: Array) -> Array:
        """Predict every row: numbers (rows,), or probabilities (rows, classes)."""
        ...


@dataclass(frozen=True)
class LinearModel:
    """b₀ + xᵀb, or for two classes the probability with that log-odds."""

    coefficients: Array
    intercept: float
    link: str = "identity"

    def __post_init__(self) -> None:
        if self.link not in ("identity", "logistic"):
            raise ModelError(
                f"A linear model's link must be 'identity' or 'logistic', not {self.link[:20]!r}. "
                "Ask the source which version of fedcsa it runs."
            )

    def __repr__(self) -> str:
        return f"LinearModel({len(self.coefficients)} coefficients, link={self.link!r})"

    @property
    def form(self) -> Form:
        """Its words."""
        return {"kind": "linear", "link": self.link}

    @property
    def arrays(self) -> Arrays:
        """Its numbers."""
        return {"coefficients": self.coefficients, "intercept": np.array([self.intercept])}

    def predict(self, X: Array) -> Array:
        """Predict every row."""
        score: Array = X @ self.coefficients + self.intercept
        if self.link == "identity":
            return score
        return np.column_stack([expit(-score), expit(score)])


def open_model(form: Form, arrays: Arrays, n_features: int, n_classes: int) -> PortableModel:
    """The model of a message, after every index, length, type and value has been checked.

    Parameters
    ----------
    form : mapping
        Words, as `PortableModel.form` gives them.
    arrays : mapping of str to array
        Numbers, as `PortableModel.arrays` gives them.
    n_features : int
        Of the study.
    n_classes : int
        Of the study's outcome; 0 for numbers.

    Raises
    ------
    ModelError
        Whatever is wrong with them; no value is quoted.
    """
    raise NotImplementedError

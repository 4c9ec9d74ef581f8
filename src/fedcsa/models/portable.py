"""Fitted models as plain values and arrays: the only formats in which a model travels.

=========  ===================================================  ============================
kind       prediction                                           arrays
=========  ===================================================  ============================
"linear"   link(b₀ + xᵀb)                                       coefficients, intercept
"design"   link(b₀ + B s(x)), s the agreed steps                coefficients (outputs,
           (polynomials, splines, levels, bands, logarithms)    columns), intercept, step…
"trees"    link(base + sum or mean of the leaves' values)       step, or cuts and cut;
           of x, or of s(x)                                     feature, threshold, value, base;
                                                                step…; missing_left
=========  ===================================================  ============================

`form` holds the words, `arrays` every number; both are plain, and `open_model` makes the model
again after it has checked every length, index and value. Thresholds of trees that a source fits are
whole multiples of `step`, the agreed grid; those of a given model stand in `cut` as they are. Who
makes them: `fedcsa.models.convert.to_portable`, `fedcsa.models.given`; which may leave:
`fedcsa.models.allowed`; what is checked before one leaves: `fedcsa.models.leaving`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array, expit, softmax

#: Whoever predicts looks for what is not finite; numpy need not warn of it besides.
QUIET = np.errstate(all="ignore")
#: TreeCells of a design matrix at a time: 32 MB.
MAX_CELLS = 1 << 22
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


def in_parts(
    scores: Callable[[Array], Array], X: Array, widest: int, most_rows: int = MAX_CELLS
) -> Array:
    """Scores of all rows, so many at a time that no step makes more than `MAX_CELLS` cells.

    Parameters
    ----------
    scores : function of rows
        Of shape (rows, outputs).
    X : array of shape (rows, features)
    widest : int
        Columns that a step makes at most.
    most_rows : int
        At a time.
    """
    rows = max(1, min(most_rows, MAX_CELLS // widest))
    starts = range(0, max(len(X), 1), rows)
    return np.concatenate([scores(X[start : start + rows]) for start in starts])


def linked(scores: Array, link: str, classes: Sequence[int], n_classes: int) -> Array:
    """Predictions from scores: (rows,) or (rows, classes).

    Parameters
    ----------
    scores : array of shape (rows, outputs)
    link : str
    classes : sequence of int
        Codes of the classes that the scores are about.
    n_classes : int
        Of the study's outcome; 0 for numbers.

    Examples
    --------
    >>> linked(np.array([[0.0]]), "logistic", (0, 2), 3)
    array([[0.5, 0. , 0.5]])
    """
    if link == "identity":
        return scores[:, 0]
    if link == "log":
        return np.asarray(np.exp(scores[:, 0]))
    if link == "probabilities":  # of leaves that were rounded before they left
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))
    full = np.zeros((len(scores), n_classes))
    if link == "logistic":
        full[:, list(classes)] = np.column_stack([expit(-scores[:, 0]), expit(scores[:, 0])])
    else:
        full[:, list(classes)] = softmax(scores, axis=1)
    return full


#: Steps of the grid in a target's sd: far too coarse for a threshold to stand between two patients,
#: and fine enough to cost 1 to 4 % of the squared error on Friedman's functions, 300 to 1,000 rows.
STEPS_PER_SD = 8


def agreed_grid(sd: Array, *, scale: bool) -> Array:
    """The step of thresholds per feature, in the units in which models see the features.

    Follows from the brief alone (`brief.sd`, `brief.scale`).

    Parameters
    ----------
    sd : array of shape (features,)
        The target's standard deviations.
    scale : bool
        Whether models see features in units of the target's sds.

    Returns
    -------
    array of shape (features,)

    Examples
    --------
    >>> agreed_grid(np.array([4.0, 0.5]), scale=False)
    array([0.5   , 0.0625])
    >>> agreed_grid(np.array([4.0, 0.5]), scale=True)
    array([0.125, 0.125])
    """
    return np.asarray((np.ones(len(sd)) if scale else sd) / STEPS_PER_SD)

"""Losses, one value per row.

A regressor predicts a vector (rows,); a classifier predicts probabilities (rows, classes), and
the outcome is then the index of the class.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.errors import DataError, ModelError, one_of

Loss: TypeAlias = Callable[[Array, Array], Array]

#: Probabilities are kept this far from 0 in the log loss, so that one row cannot make it infinite.
LOG_FLOOR = 1e-15


def squared(prediction: Array, y: Array) -> Array:
    """(ŷ − y)².

    Parameters
    ----------
    prediction : array of shape (rows,)
        ŷ; or (rows, candidates) with `y` as a column.
    y : array of shape (rows,)
    """
    error = prediction - y
    return np.multiply(error, error, out=error)


def absolute(prediction: Array, y: Array) -> Array:
    """|ŷ − y|.

    Parameters
    ----------
    prediction : array of shape (rows,)
        ŷ; or (rows, candidates) with `y` as a column.
    y : array of shape (rows,)
    """
    return np.abs(prediction - y)


def log(prediction: Array, y: Array) -> Array:
    """−log p̂(y).

    Parameters
    ----------
    prediction : array of shape (rows, classes)
        p̂, probabilities.
    y : array of shape (rows,)
        Codes of classes.
    """
    told = prediction[np.arange(len(y)), y.astype(np.intp)]
    values: Array = -np.log(np.maximum(told, LOG_FLOOR))
    return values


def brier(prediction: Array, y: Array) -> Array:
    """½ Σ_k (p̂_k − 1{y = k})², which is (p̂ − y)² for two classes and lies in [0, 1].

    Parameters
    ----------
    prediction : array of shape (rows, classes)
        p̂, probabilities.
    y : array of shape (rows,)
        Codes of classes.
    """
    error = prediction.copy()
    error[np.arange(len(y)), y.astype(np.intp)] -= 1.0
    halved: Array = 0.5 * np.einsum("ij,ij->i", error, error)
    return halved


def zero_one(prediction: Array, y: Array) -> Array:
    """1 where the most probable class is not y, else 0.

    Parameters
    ----------
    prediction : array of shape (rows, classes)
        p̂, probabilities.
    y : array of shape (rows,)
        Codes of classes.
    """
    wrong: Array = (prediction.argmax(axis=1) != y).astype(np.float64)
    return wrong


REGRESSION: dict[str, Loss] = {"squared": squared, "absolute": absolute}
CLASSIFICATION: dict[str, Loss] = {"log": log, "brier": brier, "zero-one": zero_one}
#: Losses in [0, 1].
BOUNDED = ("brier", "zero-one")


def loss_named(name: str) -> Loss:
    """Return the loss called `name`.

    >>> loss_named("squared")(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    array([0., 4.])
    """
    for table in (REGRESSION, CLASSIFICATION):
        if name in table:
            return table[name]
    raise one_of("loss", sorted([*REGRESSION, *CLASSIFICATION]), name, " or a function")


def check_loss(loss: str, n_classes: int, own: Collection[str] = ()) -> None:
    """Raise unless `loss` judges the kind of outcome at hand.

    Parameters
    ----------
    loss : str
    n_classes : int
        0 for an outcome of numbers.
    own : collection of str
        Names of losses that every source has been given; they judge what they like.
    """
    if loss in own:
        return
    loss_named(loss)
    fitting = CLASSIFICATION if n_classes else REGRESSION
    if loss not in fitting:
        kind = "classes" if n_classes else "numbers"
        raise one_of("loss", sorted(fitting), loss, f" for an outcome of {kind}")


def evaluate(loss: Loss, prediction: Array, y: Array) -> Array:
    """Losses of every row, checked: a user's own function must return one finite number a row.

    Parameters
    ----------
    loss : Loss
    prediction : array of shape (rows,) or (rows, classes)
    y : array of shape (rows,)
    """
    values: NDArray[Any] = np.asarray(loss(prediction, y))
    if values.shape != y.shape or values.dtype.kind not in "fiub":
        raise ModelError(
            f"The loss must return one number per row, shape {y.shape}; "
            f"it returned shape {values.shape} of type {values.dtype}. "
            "Let it return an array of numbers like y."
        )
    values = values.astype(np.float64, copy=False)
    if not np.isfinite(values).all():
        raise DataError(
            "The loss must be finite on every row; it is NaN or infinite on some. "
            "Check it where predictions are extreme."
        )
    return values

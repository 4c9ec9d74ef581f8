"""Checks that every format shares: one named error for whatever is wrong with what came."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.special import expit, softmax
from fedcsa.errors import ModelError

if TYPE_CHECKING:
    from fedcsa.core.arrays import Array

#: Of one model in all: 2²³ numbers are 64 MB, far more than a model that keeps its rows' secrets.
MAX_NUMBERS = 1 << 23
#: Links that turn scores into an outcome of numbers, and of classes.
NUMBER_LINKS = ("identity", "log")
CLASS_LINKS = ("logistic", "softmax", "probabilities")


def damaged(rule: str) -> ModelError:
    """The error for a model that does not obey `rule`."""
    return ModelError(
        f"A received model must have {rule}. "
        "Ask the source which version of fedcsa it runs, or leave it out."
    )


def take(
    arrays: Mapping[str, Any], name: str, dtype: type, shape: Sequence[int | None]
) -> NDArray[Any]:
    """One array of a model, if its type, shape and values are what they must be.

    Parameters
    ----------
    arrays : mapping of str to array
    name : str
    dtype : type
        ``np.float64`` or ``np.int32``.
    shape : sequence of int or None
        None for any length.
    """
    array = arrays.get(name)
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != len(shape):
        raise damaged(f"an array {name!r} of {len(shape)} dimension(s) of {dtype.__name__}")
    fits = all(want in (None, have) for want, have in zip(shape, array.shape, strict=True))
    if not fits or array.size > MAX_NUMBERS:
        raise damaged(f"an array {name!r} of the agreed shape")
    if dtype is np.float64 and not np.isfinite(array).all():
        raise damaged(f"finite numbers in {name!r}")
    return array


def exactly(form: Mapping[str, Any], names: Collection[str], what: str) -> None:
    """Refuse words or arrays that are missing, and those that nobody asked for.

    Parameters
    ----------
    form : mapping
        Words or arrays by name.
    names : collection of str
        All that must be there.
    what : str
        How to call them.
    """
    if not isinstance(form, Mapping) or set(form) != set(names):
        raise damaged(f"the {what} of its format, no others")


def whole_numbers(values: Any, below: int, rule: str) -> tuple[int, ...]:
    """The values as whole numbers from 0 up, below a bound.

    Parameters
    ----------
    values : sequence of int
        As it came.
    below : int
    rule : str
        What they must be, in words.
    """
    listed = isinstance(values, list | tuple)
    if not listed or not all(type(v) is int and 0 <= v < below for v in values):
        raise damaged(rule)
    return tuple(values)


def thawed(value: Any) -> Any:
    """Lists and dictionaries of what a message holds as tuples and read-only mappings."""
    if isinstance(value, Mapping):
        return {key: thawed(item) for key, item in value.items()}
    return [thawed(item) for item in value] if isinstance(value, list | tuple) else value


def check_link(form: Mapping[str, Any], n_classes: int) -> tuple[str, tuple[int, ...]]:
    """Link and classes of a form, if they suit the study's outcome.

    Parameters
    ----------
    form : mapping
        With a link and, for scores of classes, the codes of the classes that the source knows.
    n_classes : int
        Of the study's outcome; 0 for numbers.
    """
    link, known = form.get("link"), CLASS_LINKS if n_classes else NUMBER_LINKS
    if not isinstance(link, str) or link not in known:
        raise damaged("a link of the study's outcome")
    classes = whole_numbers(form.get("classes"), max(n_classes, 1), "classes of the study")
    enough = {"logistic": len(classes) == 2, "softmax": len(classes) >= 3}
    if classes != tuple(sorted(set(classes))) or not enough.get(link, not classes):
        raise damaged("as many distinct classes as its link needs")
    return link, classes


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

"""Checks that every format shares: one named error for whatever is wrong with what came."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcsa.errors import ModelError

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


def count_parameters(arrays: Mapping[str, NDArray[Any]]) -> int:
    """How many numbers a model holds that were fitted: all but what the study's words fix.

    Examples
    --------
    >>> count_parameters({"coefficients": np.ones(3), "intercept": np.ones(1), "step": np.ones(3)})
    4
    """
    return sum(array.size for name, array in arrays.items() if not is_agreed_array(name))


def is_agreed_array(name: str) -> bool:
    """Whether the array of this name follows from the study's words alone.

    >>> is_agreed_array("step"), is_agreed_array("step0.0.knots"), is_agreed_array("step0.0.shift")
    (True, True, False)
    """
    return name.rpartition(".")[2] in _AGREED


#: Arrays that follow from the study's words, and those of indices, hold nothing of the rows.
_AGREED = ("step", "feature", "powers", "levels", "sizes", "dropped", "knots", "constant")

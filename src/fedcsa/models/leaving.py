"""What a source checks on the very model that is about to leave."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.models.description import is_agreed_array
from fedcsa.models.formats import FORMATS
from fedcsa.models.portable import Arrays, Form, PortableModel
from fedcsa.models.steps import Steps, apply_steps

#: Numbers closer than that, as a share of their size, are the same: rounding while it is fitted.
SAME = 1e-12
#: Cells with no more are written by hand, and a mean of ten is often equal to one of them.
DECIMALS = 6
#: Kinds of steps whose numbers are means of the cells that are not empty.
_OF_CELLS = ("fill", "affine")


def rows_behind(model: PortableModel, X: Array, y: Array) -> Array:
    """How many of a source's rows every leaf, or other mean of its format, is of; stays there.

    Parameters
    ----------
    model : PortableModel
    X : array of shape (rows, features)
        As models see it.
    y : array of shape (rows,)

    Returns
    -------
    array of shape (means,)
        Empty for a model without any.
    """
    own = FORMATS[model.form["kind"]].rows_behind
    return np.empty(0) if own is None else own(model, X, y)


def rows_per_mean(model: PortableModel, X: Array) -> Array:
    """How many of a source's cells lie behind every mean that travels; stays at the site.

    Means fill empty cells, or are a scaler's that was not taken into the coefficients.

    Parameters
    ----------
    model : PortableModel
    X : array of shape (rows, features)
        As models see it.

    Returns
    -------
    array of shape (means,)
        Empty for a model without any.
    """
    found = [np.empty(0)]
    steps: Steps = getattr(model, "steps", ())
    for k, parts in enumerate(steps):
        seen = apply_steps(steps[:k], X)
        own = [seen[:, list(part.columns)] for part in parts if part.kind in _OF_CELLS]
        found += [np.count_nonzero(~np.isnan(cells), axis=0) for cells in own]
    return np.concatenate(found)


def long_arrays(form: Form, arrays: Arrays, n_rows: int) -> list[str]:
    """Names of the arrays whose length follows the rows; leaves are counted otherwise.

    Parameters
    ----------
    form : mapping
    arrays : mapping of str to array
    n_rows : int
        Of the source.
    """
    return [
        name
        for name, array in arrays.items()
        if n_rows in array.shape and not is_agreed_array(name) and not _is_of_leaves(form, name)
    ]


def _is_of_leaves(form: Form, name: str) -> bool:
    """Whether an array holds a number for every split or leaf.

    Parameters
    ----------
    form : mapping
    name : str
    """
    return name in [*FORMATS[form["kind"]].of_leaves]


def own_values(form: Form, arrays: Arrays, X: Array, y: Array, agreed: Array) -> list[str]:
    """Names of the arrays that hold a cell of X or an outcome.

    0, 1, whole multiples of the grid and `agreed` do not count. Neither do, in leaves, cells with
    few decimals: means of many rows meet them by chance, and say nothing of one.

    Parameters
    ----------
    form : mapping
    arrays : mapping of str to array
        Before they are rounded: afterwards they meet cells by chance.
    X : array of shape (rows, features)
        The source's rows, as models see them.
    y : array of shape (rows,)
    agreed : array
        Constants of the study: levels of flags as models see them, knots.

    Returns
    -------
    list of str
        Empty if it may leave.
    """
    secret = np.unique(np.concatenate([X.ravel(), y]))
    secret = secret[~_found(secret, np.unique(np.concatenate([[0.0, 1.0], np.ravel(agreed)])))]
    long_ones = secret[np.round(secret, DECIMALS) != secret]
    return [
        name
        for name, array in arrays.items()
        if array.dtype == np.float64
        and not is_agreed_array(name)
        and _found(np.ravel(array), long_ones if _is_of_leaves(form, name) else secret).any()
    ]


def _found(numbers: Array, among: Array) -> NDArray[np.bool_]:
    """Which of `numbers` are among others, up to rounding.

    Parameters
    ----------
    numbers : array of shape (numbers,)
    among : array
        Rising.
    """
    if not len(among):
        return np.zeros(len(numbers), dtype=bool)
    at = np.searchsorted(among, numbers)
    near = np.stack([among[np.maximum(at - 1, 0)], among[np.minimum(at, len(among) - 1)]])
    return np.asarray((np.abs(near - numbers) <= SAME * np.abs(numbers)).any(axis=0))

"""What a source checks on the very model that is about to leave."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.models.portable import Arrays, Form, PortableModel


def count_parameters(arrays: Arrays) -> int:
    """How many numbers a model holds that were fitted: all but the agreed steps and structure."""
    raise NotImplementedError


def rows_per_leaf(model: PortableModel, X: Array) -> NDArray[np.intp]:
    """How many of a source's rows every leaf holds; stays at the site.

    Parameters
    ----------
    model : PortableModel
    X : array of shape (rows, features)
        As models see it.

    Returns
    -------
    array of shape (leaves,)
        Empty for a model without leaves or bins.
    """
    raise NotImplementedError


def own_values(form: Form, arrays: Arrays, X: Array, y: Array, agreed: Array) -> list[str]:
    """Names of the arrays that hold a cell of X or an outcome, or whose length follows the rows.

    0, 1, whole multiples of the grid and `agreed` do not count.

    Parameters
    ----------
    form : mapping
    arrays : mapping of str to array
        Of the very message.
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
    raise NotImplementedError

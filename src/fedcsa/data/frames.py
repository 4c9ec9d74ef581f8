"""Arrays, pandas and Polars frames as one matrix with named columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedcsa.core.arrays import Array, as_matrix
from fedcsa.errors import DataError


def column_names(X: Any) -> tuple[str, ...] | None:
    """Names of a frame's columns; None for an array, which has none."""
    if not hasattr(X, "columns") or not hasattr(X, "to_numpy"):
        return None
    names = tuple(str(name) for name in X.columns)
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise DataError(
            f"Columns must have distinct names; {doubled[0]!r} stands twice. Rename one."
        )
    return names


def as_named_matrix(
    X: Any, where: str, features: Sequence[str] | None
) -> tuple[Array, tuple[str, ...]]:
    """The rows of an array or frame, its columns in the order of `features`.

    Parameters
    ----------
    X : array or frame of shape (rows, columns)
    where : str
        What to call it in an error.
    features : sequence of str, optional
        The columns that must be there, no more and no fewer; None takes them as they come and
        names an array's columns x0, x1, …

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [50, 60], "bmi": [20.5, 30.0]})
    >>> as_named_matrix(frame, "X", ["bmi", "age"])
    (array([[20.5, 50. ],
           [30. , 60. ]]), ('bmi', 'age'))
    """
    names = column_names(X)
    if names is None:
        matrix = as_matrix(X, where, n_columns=None if features is None else len(features))
        if features is None:
            features = [f"x{index}" for index in range(matrix.shape[1])]
        return matrix, tuple(features)
    wanted = names if features is None else tuple(features)
    missing = [name for name in wanted if name not in names]
    extra = [name for name in names if name not in wanted]
    if missing or extra:
        raise DataError(
            f"{where} must have the columns of the target, in any order; "
            f"missing: {_some(missing)}; not at the target: {_some(extra)}. "
            "Rename or drop columns first."
        )
    originals = {str(name): name for name in X.columns}
    columns = []
    for name in wanted:
        column = as_matrix(np.asarray(X[originals[name]])[:, None], f"Column {name!r} of {where}")
        columns.append(column[:, 0])
    return np.column_stack(columns), wanted


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    return (shown or "none") + (f" and {len(names) - 5} more" if len(names) > 5 else "")

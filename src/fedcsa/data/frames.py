"""Arrays, pandas and Polars frames as one matrix with named columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedcsa.core.arrays import Array, as_matrix
from fedcsa.data.coding import Columns
from fedcsa.data.columns import first_few, require_columns
from fedcsa.errors import DataError


def column_names(X: Any) -> tuple[str, ...] | None:
    """Names of a frame's columns; None for an array, which has none."""
    if not hasattr(X, "columns") or not hasattr(X, "to_numpy"):
        return None
    return tuple(str(name) for name in X.columns)


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
    require_columns(names, names, where)  # every one once
    wanted = names if features is None else tuple(features)
    missing = [repr(name) for name in wanted if name not in names]
    extra = [repr(name) for name in names if name not in wanted]
    if missing or extra:
        raise DataError(
            f"{where} must have the columns of the target, in any order; "
            f"missing: {first_few(missing)}; not at the target: {first_few(extra)}. "
            "Rename or drop columns first."
        )
    columns = [
        as_matrix(np.asarray(cells)[:, None], f"{where}: column {name!r}")
        for name, cells in _by_name(X, wanted).items()
    ]
    return np.hstack(columns), wanted


def as_described_matrix(
    X: Any, where: str, coding: Columns, *, with_group: bool = False
) -> tuple[Array, tuple[str, ...]]:
    """The rows of an array or frame as their description encodes them, and the columns' names.

    Parameters
    ----------
    X : array or frame of shape (rows, columns)
        A frame's columns are found by name; further ones are ignored. An array has the described
        columns in their order, the group among them or not.
    where : str
        What to call it in an error.
    coding : Columns
    with_group : bool
        Whether the group, if one is described, becomes the last column. Without it, X need not
        have it.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedcsa.data.coding import Columns
    >>> coding = Columns({"sex": ["F", "M"], "age": "number"})
    >>> frame = pd.DataFrame({"age": [50, 60], "sex": ["M", "F"]})
    >>> as_described_matrix(frame, "X", coding)
    (array([[ 1., 50.],
           [ 0., 60.]]), ('sex=M', 'age'))
    """
    names = column_names(X)
    if names is None:
        table = _named_columns(X, where, coding, with_group)
    else:
        needed = coding.needed(with_outcome=False, with_group=with_group)
        require_columns(names, needed, where)
        table = {name: _cells(column) for name, column in _by_name(X, needed).items()}
    matrix, _ = coding.encode(table, where, with_outcome=False, with_group=with_group)
    return matrix, coding.matrix_columns if with_group else coding.columns


def _named_columns(X: Any, where: str, coding: Columns, with_group: bool) -> dict[str, Any]:
    """The columns of an array by name: all that are described, or all but the group."""
    cells = np.asarray(X)
    names = [feature.name for feature in coding.features]
    if not with_group and cells.ndim == 2 and cells.shape[1] == len(names) - bool(coding.group):
        names = [name for name in names if name != coding.group]
    if cells.ndim != 2 or cells.shape[1] != len(names):
        shape = "x".join(map(str, cells.shape))
        raise DataError(
            f"{where} must have the {len(names)} described columns in their order; "
            f"its shape is {shape}. Use a frame to give columns by name."
        )
    return {name: _cells(cells[:, index]) for index, name in enumerate(names)}


def _cells(column: Any) -> Any:
    """A column as pyarrow takes it: Polars has its own way, and objects are seldom texts only."""
    if hasattr(column, "to_arrow"):
        return column.to_arrow()
    if isinstance(column, np.ndarray) and column.dtype.kind == "O":
        return column.tolist()
    return column


def _by_name(X: Any, names: Sequence[str]) -> dict[str, Any]:
    """Columns of a frame, whose own names need not be texts."""
    originals = {str(name): name for name in X.columns}
    return {name: X[originals[name]] for name in names}

"""Predictions for a table of any length, a batch at a time, beside ids, groups and others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.data.coding import Columns, no_rows
from fedcsa.data.columns import require_columns
from fedcsa.data.streams import dealt, prefetched
from fedcsa.data.table_file import AnyTable
from fedcsa.data.tables import Where, open_table, words_of
from fedcsa.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

    from fedcsa.core.table import Table1
    from fedcsa.target.adaptation import Adaptation
    from fedcsa.target.per_patient import Limits

#: Instead of names of columns to keep.
ALL = "all"
#: A number farther from the target's mean, in its sds, may be a mistake or in another unit: one of
#: 5·10⁸ patients of a normal population lies there, and at most one of 36 of any.
FAR_SDS = 6.0
#: Rows that are looked at as one: enough for long loops inside numpy.
_AT_ONCE = 64


def predicted_batches(
    coding: Columns,
    adaptation: Adaptation,
    where: Where,
    *,
    keep: Sequence[str] = (),
    level: float | None = None,
    far: Counter[str] | None = None,
) -> Generator[dict[str, Any]]:
    """The columns of predictions for a table, batch by batch, in the order of its rows.

    Parameters
    ----------
    coding : Columns
        How the table is read.
    adaptation : Adaptation
        Whose model predicts.
    where : str, Path or mapping
        The table, as for `open_table`; its path is taken as it is.
    keep : sequence of str
        Columns of the table that stand beside the predictions, after its id and its group;
        ``["all"]`` for every one.
    level : float, optional
        Of an interval, or of a set of classes.
    far : Counter, optional
        Counts, by feature, the rows so far that lie more than `FAR_SDS` sds from the target's mean.
    """
    table, words = open_table(where), words_of(where)
    carried = _carried(table, coding, keep)
    needed = coding.needed(with_outcome=False)
    few = [name for name in coding.with_few_texts if name not in carried]
    limits = None if level is None else adaptation.limits(level)

    def read() -> Generator[tuple[Array, pa.Table]]:
        first_row = 1
        with closing(table.pieces(list(dict.fromkeys([*needed, *carried])), few)) as pieces:
            for rows in dealt(pieces):
                X, _ = coding.encode(rows, words, with_outcome=False, first_row=first_row)
                yield X, rows.select(carried)
                first_row += rows.num_rows
        if first_row == 1:
            raise no_rows(words)

    ids = {coding.id, coding.group}
    for X, beside in prefetched(read):
        told = _told(adaptation, X, limits)
        if far is not None:
            far.update(_far_rows(adaptation.table, X))
        yield {**_beside(beside, told, words, ids), **told}


def _far_rows(table: Table1, X: Array) -> dict[str, int]:
    """How many rows lie far from the target's mean, of every feature of which some do.

    Parameters
    ----------
    table : Table1
        The target's. Zeros and ones are never far.
    X : array of shape (rows, features)
    """
    reach = np.where(table.flags, np.inf, FAR_SDS * table.sd)
    low, high = table.mean - reach, table.mean + reach
    # False where there is no number.
    inside = (_of_columns(np.minimum, X) >= low) & (_of_columns(np.maximum, X) <= high)
    cells = {k: X[:, k] for k in np.flatnonzero(~inside).tolist()}
    counts = {k: int(((x < low[k]) | (x > high[k])).sum()) for k, x in cells.items()}
    return {table.features[k]: n_rows for k, n_rows in counts.items() if n_rows}


def _of_columns(which: np.ufunc, X: Array) -> Array:
    """The smallest or largest number of every column.

    Parameters
    ----------
    which : ufunc
        ``np.minimum`` or ``np.maximum``.
    X : array of shape (rows, features)
        Rows are taken many at once, as one long row: numpy is five times as fast over these.
    """
    d, n_rows = X.shape[1], len(X) // _AT_ONCE * _AT_ONCE
    if not n_rows:
        return np.asarray(which.reduce(X))
    long = which.reduce(X[:n_rows].reshape(-1, _AT_ONCE * d)).reshape(_AT_ONCE, d)
    return np.asarray(which.reduce(np.concatenate([long, X[n_rows:]])))


def _carried(table: AnyTable, coding: Columns, keep: Sequence[str]) -> list[str]:
    """Columns of the table that stand beside the predictions: its id, its group, those to keep."""
    kept_all = list(keep) == [ALL]
    present = table.columns() if kept_all or coding.group else ()
    # Only sources need the group; a table without one is predicted all the same.
    group = coding.group if coding.group in present else ""
    names = [coding.id, group, *(present if kept_all else keep)]
    return list(dict.fromkeys(filter(None, names)))


def _beside(
    rows: pa.Table, told: Mapping[str, Any], words: str, ids: Collection[str]
) -> dict[str, Any]:
    """The columns of the table that stand beside the predictions."""
    twice = [name for name in rows.column_names if name in told]
    if twice:
        raise DataError(
            f"Columns that are kept must have other names than the predictions; {words} has "
            f"{twice[0]!r}, too. Name those to keep, or rename it."
        )
    require_columns(rows.column_names, rows.column_names, words)
    strange = [field.name for field in rows.schema if not _can_be_written(field.type)]
    if strange:
        raise DataError(
            "Columns that are kept must hold numbers, texts, dates, or true and false; "
            f"{strange[0]!r} of {words} holds something else. Name those to keep."
        )
    columns = zip(rows.column_names, rows.columns, strict=True)
    return {name: _whole_numbers(cells) if name in ids else cells for name, cells in columns}


def _can_be_written(kind: pa.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    some = (types.is_nested, types.is_duration, types.is_interval, types.is_fixed_size_binary)
    no = (*some, types.is_binary, types.is_large_binary, types.is_binary_view)
    return not any(is_one(kind) for is_one in no)


def _whole_numbers(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """Ids that were stored as decimal numbers, as Excel does, as the whole numbers that they are.

    Written as they are stored, 17057012345 would become 1.7057012345e+10.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_floating(ids.type):
        return ids
    known = pc.if_else(pc.is_nan(ids), pa.scalar(None, ids.type), ids)
    try:
        return known.cast(pa.int64())
    except pa.ArrowInvalid:  # a fraction; its text quotes the cell
        return ids


def _told(adaptation: Adaptation, X: Array, limits: Limits | None) -> dict[str, Any]:
    """The columns that a model predicts for rows.

    Parameters
    ----------
    adaptation : Adaptation
    X : array of shape (rows, features)
    limits : Limits, optional
        Adds ``lower`` and ``upper``, missing where an end is not finite; or for classes a column
        a class, whether it is possible.
    """
    import pyarrow as pa

    output, classes = adaptation.output(X), adaptation.plan.classes
    if classes:
        labels = pa.array(np.asarray(classes)).take(pa.array(output.argmax(axis=1)))
        columns = {"prediction": labels, **_by_class("probability", classes, output)}
        sets = {} if limits is None else _by_class("possible", classes, limits.sets(output))
        return columns | sets
    columns = {"prediction": output}
    if limits is not None:
        interval = limits.interval(output, adaptation.standardised(X))
        for name, ends in zip(("lower", "upper"), interval.T, strict=True):
            columns[name] = pa.array(ends, mask=~np.isfinite(ends))
    return columns


def _by_class(what: str, classes: Sequence[Any], values: NDArray[Any]) -> dict[str, Any]:
    """One column a class."""
    pairs = zip(classes, values.T, strict=True)
    return {f"{what}={label}": np.ascontiguousarray(column) for label, column in pairs}

"""Tables with outcomes of some of the target's rows: read, and joined with the rows by id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.data.cells import Cells, numbered_rows
from fedcsa.data.coding import Columns, no_rows, numbers_of
from fedcsa.data.columns import Outcome, require_columns, sentence_start
from fedcsa.data.tables import Where, open_table, words_of
from fedcsa.errors import DataError, raise_all
from fedcsa.outcomes import check_once, id_keys

if TYPE_CHECKING:
    import pyarrow as pa

#: Names a row in a list of a study without an id.
ROW_NUMBER = "row number"


@dataclass(frozen=True)
class LabelledRows:
    """Rows whose outcomes are known.

    Attributes
    ----------
    X : array of shape (rows, features)
    y : array of shape (rows,)
        Numbers, or labels of classes.
    keys : array of shape (rows,) or None
        Whole numbers that stand for ids; None if the tables have none.
    predicted : array of shape (rows,) or None
        The column of predictions, if the study judged one.
    n_empty : int
        Rows of the tables whose outcome is not there yet.
    """

    X: Array = field(repr=False)
    y: NDArray[Any] = field(repr=False)
    keys: Array | None = field(repr=False)
    predicted: Array | None = field(repr=False)
    n_empty: int


@dataclass(frozen=True)
class NamedRows:
    """Rows of the target, with or without outcomes.

    Attributes
    ----------
    table : pyarrow.Table
        As they stand in their file: the id or the number of the row first, the group if there is
        one, then what is read.
    X : array of shape (rows, features)
    keys : array of shape (rows,)
        Whole numbers that stand for ids, or the numbers of the rows, from 1 without the header.
    predicted : array of shape (rows,) or None
    key : str
        Name of the id, or `ROW_NUMBER`.
    group : str
        Name of the group, such as a patient's id that repeats; ``""`` if the table has none.
    """

    table: pa.Table = field(repr=False)
    X: Array = field(repr=False)
    keys: Array = field(repr=False)
    predicted: Array | None = field(repr=False)
    key: str
    group: str = ""


def read_target_rows(columns: Columns, where: Where) -> NamedRows:
    """The rows that a list is made of, or that outcomes are joined with.

    Parameters
    ----------
    columns : Columns
        How the table is read.
    where : str, Path or mapping
        As for `open_table`.
    """
    words, opened, key = words_of(where), open_table(where), columns.id or ROW_NUMBER
    present, names = opened.columns(), _features(columns)
    held = [key] if key in present else []
    require_columns(present, [*filter(None, [columns.id]), *names], words)
    group = columns.group if columns.group in present else ""
    table = opened.read([*dict.fromkeys([*held, *filter(None, [group]), *names])])
    if not table.num_rows:
        raise no_rows(words)
    if not held:
        table = table.add_column(0, ROW_NUMBER, [np.arange(1, table.num_rows + 1)])
    X, predicted = _encoded(table, words, columns)
    return NamedRows(table, X, _keys(table, words, columns), predicted, key, group)


def read_labelled(
    columns: Columns, places: Sequence[Where], rows: NamedRows | None = None
) -> LabelledRows:
    """All rows with an outcome of some tables.

    Parameters
    ----------
    columns : Columns
    places : sequence of str, Path or mapping
        Tables with outcomes, as for `open_table`. An empty cell is an outcome that is still to
        come. A table without the features has the ids instead.
    rows : NamedRows, optional
        The target's rows: every id must be one of theirs, and the features are taken from them.
    """
    parts = [_labelled(columns, where, rows) for where in places]
    known = [part.keys for part in parts if part.keys is not None]
    keys = np.concatenate(known) if len(known) == len(parts) else None
    if keys is not None:
        check_once(keys, "The outcomes", "Two tables name one row; give every outcome once.")
    predicted = [part.predicted for part in parts if part.predicted is not None]
    return LabelledRows(
        np.concatenate([part.X for part in parts]),
        np.concatenate([part.y for part in parts]),
        keys,
        np.concatenate(predicted) if predicted else None,
        sum(part.n_empty for part in parts),
    )


def _labelled(columns: Columns, where: Where, rows: NamedRows | None) -> LabelledRows:
    """Those of one table.

    Parameters
    ----------
    columns : Columns
    where : str, Path or mapping
    rows : NamedRows or None
    """
    words, opened, key = words_of(where), open_table(where), columns.id or ROW_NUMBER
    present, features = opened.columns(), _features(columns)
    named = key in present
    if rows is not None and not named:
        raise DataError(
            f"{sentence_start(words)} must have the column {key!r} to be joined with the target's "
            "rows. Add it, or leave out --rows and give the features beside the outcomes."
        )
    if rows is None and named and not set(features) & set(present):
        raise DataError(
            f"{sentence_start(words)} names rows, but has none of the study's features. "
            "Name the table of the target's rows: --rows ROWS."
        )
    own, outcome = features if rows is None else [], outcome_of(columns)
    require_columns(present, [*own, outcome.name], words)
    table = opened.read([*([key] if named else []), *dict.fromkeys(own), outcome.name])
    if not table.num_rows:
        raise no_rows(words)
    y = _outcomes(table, words, columns)
    come = ~np.isnan(y)
    if not come.any():
        raise DataError(
            f"{sentence_start(words)} must hold at least one outcome; column "
            f"{outcome.name!r} is empty. Fill in what is known."
        )
    keys = _keys(table, words, columns) if named else None
    if rows is not None and keys is not None:
        at = _places(keys, rows.keys, words, come)
        X, predicted = rows.X[at], None if rows.predicted is None else rows.predicted[at]
    else:
        X, predicted = _encoded(table, words, columns)
    return LabelledRows(
        X[come],
        outcome.labelled(y[come]),
        None if keys is None else keys[come],
        None if predicted is None else predicted[come],
        int((~come).sum()),
    )


def _features(columns: Columns) -> list[str]:
    """The table's columns of features and of predictions; a target need not have a group."""
    return [*columns.needed(with_outcome=False), *filter(None, [columns.predictions])]


def _encoded(table: pa.Table, words: str, columns: Columns) -> tuple[Array, Array | None]:
    """The matrix of the features, and the predictions if the columns have some.

    Parameters
    ----------
    table : pyarrow.Table
    words : str
        Whose table it is.
    columns : Columns
    """
    X, _ = columns.encode(table, words, with_outcome=False)
    column, spellings = columns.predictions, columns.missing_values
    return X, numbers_of(table, column, words, spellings) if column else None


def _keys(table: pa.Table, words: str, columns: Columns) -> Array:
    """Hashes of the ids, or of the numbers of the rows."""
    key = columns.id or ROW_NUMBER
    return id_keys(table.column(key), f"Column {key!r} of {words}", columns.missing_values)


def outcome_of(columns: Columns) -> Outcome:
    """The column of outcomes; an error where none was described."""
    if columns.outcome is None:
        raise DataError(
            "The columns do not say which one holds the outcomes. In Python: "
            'Columns.infer(frames, outcome="…").'
        )
    return columns.outcome


def _outcomes(table: pa.Table, words: str, columns: Columns) -> Array:
    """Outcomes, NaN where one is still to come.

    Parameters
    ----------
    table : pyarrow.Table
    words : str
    columns : Columns
    """
    outcome = outcome_of(columns)
    what, problems = f"Outcome {outcome.name!r} of {words}", list[str]()
    cells = Cells(table.column(outcome.name), what, problems, columns.missing_values)
    y = outcome.read(cells)
    raise_all(problems, DataError)
    return y


def _places(keys: Array, of: Array, words: str, come: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Where the target's rows have these ids; 0 for a row without an outcome that they lack.

    Parameters
    ----------
    keys : array of shape (rows,)
    of : array of shape (target rows,)
    words : str
    come : array of bool of shape (rows,)
        Which rows have an outcome.
    """
    order = np.argsort(of)
    at = order[np.minimum(np.searchsorted(of, keys, sorter=order), len(of) - 1)]
    strange = (of[at] != keys) & come
    if strange.any():
        raise DataError(
            f"Outcomes must be of rows of the target; {int(strange.sum())} id(s) of {words} are "
            f"not among its rows. See {numbered_rows(strange)}. Check how the ids are written "
            "(leading zeros?), or leave those rows out."
        )
    return at

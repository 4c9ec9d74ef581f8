"""Answers of SQLite as columns: every cell exact, of one type from the first row to the last."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from fedcsa.core.batches import BATCH_ROWS
from fedcsa.errors import DataError

if TYPE_CHECKING:
    import sqlite3

    import pyarrow as pa

#: What SQLite calls the types of cells that are not NULL.
_TYPES = ("integer", "real", "text", "blob")
#: The semicolon behind a query, and comments behind it.
_END = re.compile(r";(\s|--[^\n]*|/\*.*?\*/)*$", re.S)


def sqlite_reader(connection: sqlite3.Connection, query: str) -> pa.RecordBatchReader:
    """The answer to a query, a batch of rows at a time.

    In SQLite every cell has a type of its own. So the database is asked first which types each
    column holds in all rows: whole numbers, numbers, or texts, if one cell is a text. In a column
    of texts a number is its shortest text that is read as the same number.

    Parameters
    ----------
    connection : sqlite3.Connection
        Open for reading only, without transactions of its own.
    query : str
        One SELECT.
    """
    import pyarrow as pa

    connection.execute("BEGIN")  # both questions see the same rows
    cursor = connection.execute(query)
    names = [column[0] for column in cursor.description]
    kinds = [
        _arrow_type(found, name)
        for name, found in zip(names, _types(connection, query, len(names)), strict=True)
    ]
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    return pa.RecordBatchReader.from_batches(schema, _batches(cursor, schema))


def _types(connection: sqlite3.Connection, query: str, n_columns: int) -> list[set[str]]:
    """The types of cells in every column, over all rows."""
    columns = ", ".join(f"c{k}" for k in range(n_columns))
    asked = ", ".join(f"max(typeof(c{k}) = '{kind}')" for k in range(n_columns) for kind in _TYPES)
    inner = _END.sub("", query)
    # Only `query` was not written here, and it runs by itself, too. The line ends its comment.
    rows = connection.execute(
        f"WITH asked ({columns}) AS ({inner}\n) SELECT {asked} FROM asked"  # noqa: S608
    )
    answer = list(rows.fetchone())
    width = len(_TYPES)
    parts = [answer[k * width : (k + 1) * width] for k in range(n_columns)]
    return [{kind for kind, there in zip(_TYPES, part, strict=True) if there} for part in parts]


def _arrow_type(found: set[str], name: str) -> pa.DataType:
    import pyarrow as pa

    if "blob" in found and len(found) > 1:
        raise DataError(
            f"A column of a query must hold numbers or texts; {name!r} mixes them with bytes. "
            "Cast it in the query."
        )
    if "text" in found:
        return pa.large_string()
    if "real" in found:
        return pa.float64()
    if "integer" in found:
        return pa.int64()
    return pa.binary() if found else pa.null()


def _batches(cursor: sqlite3.Cursor, schema: pa.Schema) -> Generator[pa.RecordBatch]:
    import pyarrow as pa

    while rows := cursor.fetchmany(BATCH_ROWS):
        cells = zip(*rows, strict=True)
        columns = [_column(part, kind) for part, kind in zip(cells, schema.types, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(cells: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Cells of one type; a whole number that no float64 holds is refused among others."""
    import pyarrow as pa

    if pa.types.is_large_string(kind):
        cells = [cell if cell is None or isinstance(cell, str) else repr(cell) for cell in cells]
    return pa.array(cells, kind)

"""Columns of databases whose types only the database knows, as numbers and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedcsa.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

#: Where a UUID's text has its hyphens.
_HYPHENS = (8, 13, 18, 23)


def plain_piece(piece: pa.RecordBatch, words: str) -> pa.RecordBatch:
    """The piece of a table with the columns that only a database has brought to plain types.

    A ``numeric`` becomes its text, which is read as a number to the bit; a ``uuid`` its text; a
    ``char(n)`` loses the blanks that the database added. Other types stay: whoever reads the
    column refuses them by name.

    Parameters
    ----------
    piece : pyarrow.RecordBatch
    words : str
        What it is, for a sentence.
    """
    import pyarrow as pa

    columns = [
        _plain(piece.schema.field(k), piece.column(k), words) for k in range(len(piece.columns))
    ]
    return pa.RecordBatch.from_arrays(columns, names=piece.schema.names)


def _plain(field: pa.Field, column: pa.Array, words: str) -> pa.Array:
    import pyarrow.compute as pc

    kind = (field.metadata or {}).get(b"POSTGRESQL:type", b"").decode("ascii", "replace")
    if kind == "money":  # it arrives in cents, and its sign depends on the server
        raise DataError(
            f"{words} must have no column of the type money; {field.name!r} is one. Cast it to "
            "numeric in the query."
        )
    if kind == "numeric":
        return getattr(column, "storage", column)
    if kind == "bpchar":
        return pc.utf8_rtrim(column, characters=" ")
    return _uuid_texts(column) if str(field.type) == "extension<arrow.uuid>" else column


def _uuid_texts(column: pa.ExtensionArray) -> pa.StringArray:
    import pyarrow as pa

    missing = column.is_null()
    storage = column.storage.fill_null(bytes(16))
    digits = np.frombuffer(b"".join(storage.to_pylist()).hex().encode(), np.uint8).reshape(-1, 32)
    texts = np.full((len(column), 36), ord("-"), np.uint8)
    texts[:, [place for place in range(36) if place not in _HYPHENS]] = digits
    ends = pa.array(np.arange(0, 36 * (len(column) + 1), 36), pa.int32())
    found = pa.StringArray.from_buffers(
        len(column), ends.buffers()[1], pa.py_buffer(texts.tobytes())
    )
    return pa.compute.if_else(missing, pa.scalar(None, pa.string()), found)

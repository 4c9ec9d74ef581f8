"""One file as a pyarrow table or in pieces, or a `TableError` that quotes none of its cells."""

from __future__ import annotations

import operator
import os
import re
import sys
import time
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcsa.core.batches import BATCH_ROWS
from fedcsa.data.columns import require_columns
from fedcsa.data.text_file import TextFile, empty
from fedcsa.errors import DataError, TableError

if TYPE_CHECKING:
    import pyarrow as pa

#: A line longer than a block could not be read. In pieces, pyarrow reads some 32 blocks ahead.
_BLOCK_BYTES, _PIECE_BYTES = 1 << 24, 1 << 20
_BUFFER_BYTES = 1 << 17  # of every column of a Parquet file that is read in pieces
_END = "fedcsa-end-of-table"
_BROKEN = (OSError, ValueError, EOFError, MemoryError, OverflowError, zlib.error)
_NUMBER_LIKE = re.compile(r"\s*[+-]?[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?\s*")


def check_file(path: Path, what: str = "table") -> None:
    """Refuse early what a parser would refuse in its own words."""
    try:
        if path.is_dir():
            raise TableError(
                f"The {what} {str(path)!r} must be one file; it is a folder. Name a file in it."
            )
        size = path.stat().st_size
        if not os.access(path, os.R_OK):
            raise PermissionError
    except FileNotFoundError:
        raise TableError(
            f"The {what} {str(path)!r} must be there; no such file. Check the path: in a study "
            "it is relative to the study file."
        ) from None
    except OSError as error:
        raise TableError(
            f"The {what} {str(path)!r} must be open to reading; it is not "
            f"({type(error).__name__}). Ask for the right to read it."
        ) from None
    if not size:
        raise empty(path, what)


# Parquet --------------------------------------------------------------------------------------


def read_parquet(path: Path, kind: str, columns: Sequence[str] | None) -> pa.Table:
    """A Parquet file, its columns typed as they are."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read(columns=_parquet_columns(path, file, columns))
            table.validate(full=True)  # texts that are not UTF-8, lengths that do not fit
    except (pa.ArrowException, *_BROKEN) as error:
        raise _parquet_error(path, kind, error) from None
    return table


def parquet_pieces(path: Path, kind: str, columns: Sequence[str]) -> Generator[pa.RecordBatch]:
    """The rows of `read_parquet` in order, a piece at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # With a buffer, a column is read as it is needed, and not a whole row group at once.
        with pq.ParquetFile(
            path, page_checksum_verification=True, pre_buffer=False, buffer_size=_BUFFER_BYTES
        ) as file:
            names = _parquet_columns(path, file, columns)
            for piece in file.iter_batches(BATCH_ROWS, columns=names):
                piece.validate(full=True)
                yield piece
    except (pa.ArrowException, *_BROKEN) as error:
        raise _parquet_error(path, kind, error) from None


def _parquet_columns(path: Path, file: Any, columns: Sequence[str] | None) -> list[str] | None:
    if columns is None:
        return None
    require_columns(file.schema_arrow.names, columns, f"the table {str(path)!r}")
    return list(columns)


def _parquet_error(path: Path, kind: str, error: Exception) -> DataError:
    if isinstance(error, DataError):
        return error
    return TableError(
        f"The table {str(path)!r} must be a whole Parquet file; it is cut off, damaged or of "
        f"another kind than its ending ({kind}) says. Copy or export it again."
    )


# Text -----------------------------------------------------------------------------------------


def read_text(path: Path, kind: str, columns: Sequence[str] | None) -> pa.Table:
    """A file of separated texts, every cell as a text."""
    import pyarrow as pa

    return pa.Table.from_batches(list(text_pieces(path, kind, columns, _BLOCK_BYTES)))


def text_pieces(
    path: Path, kind: str, columns: Sequence[str] | None, block_bytes: int = _PIECE_BYTES
) -> Generator[pa.RecordBatch]:
    """The rows of `read_text` in order, a piece at a time, and at least one piece."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    ragged = _Ragged()
    note = ragged.note
    separator = "\t" if kind.startswith(".tsv") else ","
    options = {
        "read_options": pa_csv.ReadOptions(use_threads=False, block_size=block_bytes),
        "parse_options": pa_csv.ParseOptions(
            delimiter=separator, newlines_in_values=True, invalid_row_handler=note
        ),
    }
    file = None
    try:
        with TextFile(path) as file:
            start = pa.BufferReader(file.read(block_bytes))
        with _let_go(note):
            names = _header(start, options)
        _check_header(path, names, columns)
        wanted = list(names if columns is None else columns)
        ragged.clear()
        convert = pa_csv.ConvertOptions(
            column_types=dict.fromkeys(wanted, pa.string()),
            include_columns=[] if columns is None else wanted,
            strings_can_be_null=False,
        )
        end = separator.join([_END] * len(names)) + "\n"
        with TextFile(path, end) as file, _let_go(file, note):
            last = None  # the piece that may be the one with the end mark
            for piece in _parsed(file, {"convert_options": convert, **options}):
                if not piece.num_rows:
                    continue
                # After a row that does not fit, the others are only counted.
                if last is not None and not ragged.count:
                    yield last
                last = piece
    except (pa.ArrowException, *_BROKEN) as error:
        raise _text_error(path, kind, (file and file.problem) or error) from None
    if ragged.count:
        raise ragged.error(path)
    if last is None or any(column[-1].as_py() != _END for column in last.columns):
        raise _open_quotation(path)
    yield last.slice(0, last.num_rows - 1)


def _header(start: pa.BufferReader, options: dict[str, Any]) -> list[str]:
    import pyarrow.csv as pa_csv

    with pa_csv.open_csv(start, **options) as reader:
        names: list[str] = reader.schema.names
        return names


def _parsed(file: TextFile, options: dict[str, Any]) -> Generator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    with pa_csv.open_csv(pa.PythonFile(file, "r"), **options) as reader:
        yield from reader


@contextmanager
def _let_go(*lent: object) -> Iterator[None]:
    """Wait, at the end, until no thread of the parser's holds what it was `lent`.

    One that still asks for the interpreter's lock when Python ends aborts the process.
    """
    before = _references(lent)
    patience = 50  # an error on its way may hold them, too
    try:
        yield
        patience = 5_000
    except GeneratorExit:
        patience = 5_000
        raise
    finally:
        for _ in range(patience):
            if all(map(operator.le, _references(lent), before)):
                break
            time.sleep(0.001)


def _references(lent: tuple[object, ...]) -> list[int]:
    return [sys.getrefcount(item) for item in lent]


class _Ragged:
    """Rows that have more or fewer cells than the header."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.count, self._first = 0, (0, 0, 0)

    def note(self, row: Any) -> str:
        """Take down a row, and let the parser go on."""
        if not self.count:
            self._first = (row.number or 0, row.actual_columns, row.expected_columns)
        self.count += 1
        return "skip"

    def error(self, path: Path) -> TableError:
        number, cells, expected = self._first
        return TableError(
            f"The table {str(path)!r} must have {expected} cells in every row, like its header; "
            f"{self.count} row(s) have more or fewer, the first is row {number} with {cells}, the "
            "header being row 1. Put texts with separators in quotation marks; if it is the last "
            "row, the file is cut off."
        )


def _text_error(path: Path, kind: str, error: Exception) -> DataError:
    if isinstance(error, DataError):
        return error
    if "straddl" in str(error):  # one row fills a block and more
        return _open_quotation(path)
    return TableError(
        f"The table {str(path)!r} must be a whole table, as its ending ({kind}) says; it is "
        "cut off, damaged or of another kind. Export it again."
    )


def _open_quotation(path: Path) -> TableError:
    return TableError(
        f"The table {str(path)!r} must close every quotation mark that it opens; one is left "
        'open. Inside a quoted text a mark is doubled (""). Perhaps the file is cut off.'
    )


def _check_header(path: Path, names: Sequence[str], columns: Sequence[str] | None) -> None:
    if columns is not None:
        if not set(names) & set(columns):
            number_like = sum(_NUMBER_LIKE.fullmatch(name) is not None for name in names)
            if number_like:
                raise _headless(path, len(names), number_like)
        require_columns(names, columns, f"the table {str(path)!r}")
    elif all(_NUMBER_LIKE.fullmatch(name) for name in names):
        raise _headless(path, len(names), len(names))


def _headless(path: Path, cells: int, number_like: int) -> TableError:
    return TableError(
        f"The table {str(path)!r} must begin with a line of column names; {number_like} of the "
        f"{cells} cells in its first line are numbers. Add a header."
    )

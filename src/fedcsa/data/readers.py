"""One file as a pyarrow table, or a `TableError` that quotes none of its cells."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcsa.data.columns import require_columns
from fedcsa.errors import DataError, TableError

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK_BYTES = 1 << 24  # a line longer than a block could not be read
_END = "fedcsa-end-of-table"
_BROKEN = (OSError, ValueError, EOFError, MemoryError, OverflowError, zlib.error)
_NUMBER_LIKE = re.compile(r"\s*[+-]?[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?\s*")


def check_file(path: Path) -> None:
    """Refuse early what a parser would refuse in its own words."""
    try:
        if path.is_dir():
            raise TableError(
                f"The table {str(path)!r} must be one file; it is a folder. Name a file in it."
            )
        size = path.stat().st_size
        if not os.access(path, os.R_OK):
            raise PermissionError
    except FileNotFoundError:
        raise TableError(
            f"The table {str(path)!r} must be there; no such file. Check the path: in a study "
            "it is relative to the study file."
        ) from None
    except OSError as error:
        raise TableError(
            f"The table {str(path)!r} must be open to reading; it is not ({type(error).__name__})."
        ) from None
    if not size:
        raise _empty(path)


def read_parquet(path: Path, kind: str, columns: Sequence[str] | None) -> pa.Table:
    """A Parquet file, its columns typed as they are."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            names = file.schema_arrow.names
            if columns is not None:
                require_columns(names, columns, f"the table {str(path)!r}")
            table = file.read(columns=None if columns is None else list(columns))
            table.validate(full=True)  # texts that are not UTF-8, lengths that do not fit
    except (pa.ArrowException, *_BROKEN) as error:
        if isinstance(error, DataError):
            raise
        raise TableError(
            f"The table {str(path)!r} must be a whole Parquet file; it is cut off, damaged or of "
            f"another kind than its ending ({kind}) says. Copy or export it again."
        ) from None
    return table


def read_text(path: Path, kind: str, columns: Sequence[str] | None) -> pa.Table:
    """A file of separated texts, every cell as a text."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    ragged: list[tuple[int, int, int]] = []

    def note(row: Any) -> str:
        ragged.append((row.number or 0, row.actual_columns, row.expected_columns))
        return "skip"

    options = {
        "read_options": pa_csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
        "parse_options": pa_csv.ParseOptions(
            delimiter="\t" if kind.startswith(".tsv") else ",",
            newlines_in_values=True,
            invalid_row_handler=note,
        ),
    }
    try:
        content = _content(path)
        with pa_csv.open_csv(pa.BufferReader(content), **options) as file:
            names = file.schema.names
        _check_header(path, names, columns)
        wanted = list(names if columns is None else columns)
        ragged.clear()
        # A cell whose closing mark is missing swallows all rows after it without a word: it
        # would swallow the end mark too.
        end = options["parse_options"].delimiter.join([_END] * len(names)) + "\n"
        table = pa_csv.read_csv(
            pa.BufferReader(content + end.encode()),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, pa.string()),
                include_columns=[] if columns is None else wanted,
                strings_can_be_null=False,
            ),
            **options,
        )
    except (pa.ArrowException, *_BROKEN) as error:
        if isinstance(error, DataError):
            raise
        raise TableError(
            f"The table {str(path)!r} must be a whole table, as its ending ({kind}) says; it is "
            "cut off, damaged or of another kind. Export it again."
        ) from None
    if ragged:
        number, cells, expected = ragged[0]
        raise TableError(
            f"The table {str(path)!r} must have {expected} cells in every row, like its header; "
            f"{len(ragged)} row(s) have more or fewer, the first is row {number} with {cells}, the "
            "header being row 1. Put texts with separators in quotation marks; if it is the last "
            "row, the file is cut off."
        )
    if not table.num_rows or any(column[-1].as_py() != _END for column in table.columns):
        raise TableError(
            f"The table {str(path)!r} must close every quotation mark that it opens; one is left "
            'open. Inside a quoted text a mark is doubled (""). Perhaps the file is cut off.'
        )
    return table.slice(0, table.num_rows - 1)


def _content(path: Path) -> bytes:
    """The bytes of a text file, decompressed, ending with the end of a line."""
    content = path.read_bytes()
    if path.name.lower().endswith(".gz"):
        content = gzip.decompress(content)
    if not content.strip():
        raise _empty(path)
    try:
        content.decode()
    except UnicodeDecodeError:
        raise TableError(
            f"The table {str(path)!r} must be text in UTF-8; it is in another encoding, or not "
            "text. Export it again, as UTF-8."
        ) from None
    return content if content.endswith((b"\n", b"\r")) else content + b"\n"


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


def _empty(path: Path) -> TableError:
    return TableError(
        f"The table {str(path)!r} must have a header and rows; the file is empty. Export it again."
    )

"""Tables on disk: CSV and Parquet, through pyarrow.

Whatever is wrong with a file becomes a `TableError` that names its path; pyarrow's own texts
quote cells, and an error text may cross from one site to another.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcsa.data.cells import arrow, is_text, plain_column
from fedcsa.data.columns import require_columns
from fedcsa.errors import DataError, TableError
from fedcsa.models.registry import unknown

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
#: Texts that stand for a missing cell, blanks around them aside.
MISSING_VALUES = (
    "", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null",
)  # fmt: skip
_BLOCK_BYTES = 1 << 24  # a line longer than a block could not be read
_END = "fedcsa-end-of-table"
_BROKEN = (OSError, ValueError, EOFError, MemoryError, OverflowError, zlib.error)
_NUMBER_LIKE = re.compile(r"\s*[+-]?[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?\s*")


def read_table(
    path: str | Path,
    *,
    columns: Sequence[str] | None = None,
    missing_values: Collection[str] = (),
    levels: Mapping[str, Collection[str]] | None = None,
) -> pa.Table:
    """Read a table.

    The cells of a CSV file stay texts, so that "01" remains what it is;
    `fedcsa.data.encoding.Coding.encode` makes numbers of them.

    Parameters
    ----------
    path : str or Path
        Its ending tells its kind: .csv, .csv.gz, .tsv, .tsv.gz or .parquet.
    columns : sequence of str, optional
        The columns to read; by default all.
    missing_values : collection of str
        Texts that stand for a missing cell, beside `MISSING_VALUES`.
    levels : mapping of str to collection of str, optional
        Of some columns, texts that are values there even if they also stand for a missing cell,
        such as ``"NA"`` for North America.

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    TableError
        If the file is not there, or not a whole table.
    DataError
        If a column is missing.
    """
    path = Path(path)
    kind = _kind_of(path)
    arrow("Reading a table")
    _check_file(path)
    read = _read_parquet if kind == ".parquet" else _read_text
    table = read(path, kind, columns)
    return _mark_missing(table, {*MISSING_VALUES, *missing_values}, levels or {})


def write_table(path: str | Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write a table that `read_table` reads again, numbers to the bit.

    Parameters
    ----------
    path : str or Path
        Its ending tells its kind, as for `read_table`. An existing file is replaced, but only
        once the new one is whole.
    columns : mapping of str to sequence
        Of one length.
    """
    path = Path(path)
    kind = _kind_of(path)
    cells = {
        str(name): values.tolist() if hasattr(values, "tolist") else list(values)
        for name, values in columns.items()
    }
    if len({len(values) for values in cells.values()}) != 1:
        raise DataError(
            f"The table {str(path)!r} must have columns of one length; "
            f"it has {len(cells)} of lengths {sorted({len(values) for values in cells.values()})}."
        )
    part = path.with_name(f".{path.name}.part")
    try:
        if kind == ".parquet":
            _write_parquet(part, cells, path)
        else:
            _write_text(part, cells, kind)
        part.replace(path)
    except OSError as error:
        raise TableError(
            f"The table {str(path)!r} must be written to a folder that is there and open to "
            f"writing; this failed ({type(error).__name__})."
        ) from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _kind_of(path: Path) -> str:
    name = path.name.lower()
    for kind in KINDS:
        if name.endswith(kind):
            return kind
    ending = "".join(path.suffixes[-2:] if name.endswith(".gz") else path.suffixes[-1:])
    raise TableError(f"{unknown('kind of table', ending, KINDS)} The path is {str(path)!r}.")


def _check_file(path: Path) -> None:
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


def _read_parquet(path: Path, kind: str, columns: Sequence[str] | None) -> pa.Table:
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


def _read_text(path: Path, kind: str, columns: Sequence[str] | None) -> pa.Table:
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
            f"{len(ragged)} row(s) have more or fewer, the first in line {number} with {cells}. "
            "Put texts with separators in quotation marks; if it is the last row, the file is "
            "cut off."
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


def _mark_missing(
    table: pa.Table, spellings: Collection[str], levels: Mapping[str, Collection[str]]
) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    marked = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        column = plain_column(column)
        if is_text(column.type):
            kept = pa.array(sorted(levels.get(name, ())), pa.large_string())
            missing = pc.and_not(
                pc.is_in(
                    pc.utf8_trim_whitespace(column),
                    value_set=pa.array(sorted(spellings), pa.large_string()),
                ),
                pc.is_in(column, value_set=kept),
            )
            column = pc.if_else(missing, pa.scalar(None, pa.large_string()), column)
        marked.append(column)
    return pa.table(marked, names=table.column_names)


def _write_parquet(part: Path, cells: Mapping[str, list[Any]], path: Path) -> None:
    pa = arrow("Writing a Parquet file")
    import pyarrow.parquet as pq

    try:
        table = pa.table(dict(cells))
    except (pa.ArrowException, TypeError, ValueError):  # its text quotes a cell
        raise DataError(
            f"The table {str(path)!r} must have columns of one type each, of numbers, texts or "
            "true and false."
        ) from None
    pq.write_table(table, part, write_page_checksum=True)


def _write_text(part: Path, cells: Mapping[str, list[Any]], kind: str) -> None:
    text = io.StringIO(newline="")
    separator = "\t" if kind.startswith(".tsv") else ","
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    writer.writerow(cells)
    writer.writerows(zip(*cells.values(), strict=True))
    content = text.getvalue().encode()
    part.write_bytes(gzip.compress(content, mtime=0) if kind.endswith(".gz") else content)

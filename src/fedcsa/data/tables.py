"""Tables on disk: CSV and Parquet, through pyarrow.

Whatever is wrong with a file becomes a `TableError` that names its path; pyarrow's own texts
quote cells, and an error text may cross from one site to another.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcsa.data.cells import arrow, is_text, plain_column
from fedcsa.data.readers import check_file, read_parquet, read_text
from fedcsa.errors import DataError, TableError, unknown

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
#: Texts that stand for a missing cell, blanks around them aside.
MISSING_VALUES = (
    "", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null",
)  # fmt: skip


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
    kind = kind_of(path)
    arrow("Reading a table")
    check_file(path)
    read = read_parquet if kind == ".parquet" else read_text
    table = read(path, kind, columns)
    return mark_all_missing(table, missing_values, levels or {})


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
    kind = kind_of(path)
    cells = {
        str(name): values.tolist() if hasattr(values, "tolist") else list(values)
        for name, values in columns.items()
    }
    if len({len(values) for values in cells.values()}) != 1:
        raise DataError(
            f"The table {str(path)!r} must have columns of one length; "
            f"it has {len(cells)} of lengths {sorted({len(values) for values in cells.values()})}. "
            "Give every row a cell in each."
        )
    part = path.with_name(f".{path.name}.part")
    try:
        if kind == ".parquet":
            _write_parquet(part, cells, path)
        else:
            _write_text(part, cells, kind)
        part.replace(path)
    except UnicodeEncodeError:
        raise DataError(
            f"The table {str(path)!r} must hold valid Unicode; a text is not. Clean it first."
        ) from None
    except OSError as error:
        raise TableError(
            f"The table {str(path)!r} must be written to a folder that is there and open to "
            f"writing; this failed ({type(error).__name__}). "
            "Make the folder first, or choose another."
        ) from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def kind_of(path: Path) -> str:
    """The kind of table that the ending of `path` tells, one of `KINDS`."""
    name = path.name.lower()
    for kind in KINDS:
        if name.endswith(kind):
            return kind
    ending = "".join(path.suffixes[-2:] if name.endswith(".gz") else path.suffixes[-1:])
    raise TableError(f"{unknown('kind of table', ending, KINDS)} The path is {str(path)!r}.")


def mark_all_missing(
    table: pa.Table, missing_values: Collection[str], levels: Mapping[str, Collection[str]]
) -> pa.Table:
    """`table` with nulls for all cells that stand for a missing one, as `read_table` gives it."""
    import pyarrow as pa

    spellings = all_spellings(missing_values)
    marked = [
        mark_missing(column, spellings, levels.get(name, ()))
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.table(marked, names=table.column_names)


def mark_missing(
    column: pa.ChunkedArray, spellings: Collection[str], kept: Collection[str]
) -> pa.ChunkedArray:
    """`column` with nulls in place of `spellings`, except those that are exactly in `kept`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = plain_column(column)
    if not is_text(column.type):
        return column
    missing = pc.and_not(
        pc.is_in(
            pc.utf8_trim_whitespace(column),
            value_set=pa.array(sorted(spellings), pa.large_string()),
        ),
        pc.is_in(column, value_set=pa.array(sorted(kept), pa.large_string())),
    )
    return pc.if_else(missing, pa.scalar(None, pa.large_string()), column)


def all_spellings(missing_values: Collection[str]) -> frozenset[str]:
    """Every text that stands for a missing cell."""
    return frozenset((*MISSING_VALUES, *missing_values))


def names_a_number(text: str) -> bool:
    """Whether a cell with this text could be read as a finite number.

    >>> [names_a_number(text) for text in ("NA", "-999", "nan")]
    [False, True, False]
    """
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _write_parquet(part: Path, cells: Mapping[str, list[Any]], path: Path) -> None:
    pa = arrow("Writing a Parquet file")
    import pyarrow.parquet as pq

    try:
        table = pa.table(dict(cells))
    except UnicodeEncodeError:
        raise
    except (pa.ArrowException, TypeError, ValueError):  # its text quotes a cell
        raise DataError(
            f"The table {str(path)!r} must have columns of one type each, of numbers, texts or "
            "true and false. Convert those that mix them."
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

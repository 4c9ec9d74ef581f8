"""Open any table, file or query, in one way; and write one."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from fedcsa.data.csv_text import separator_of
from fedcsa.data.databases import Query, open_database
from fedcsa.data.table_file import (
    AnyTable,
    ExcelSheet,
    TableFile,
    check_file,
    kind_of_table,
    refuse_folder,
)
from fedcsa.errors import DataError, ParameterError, TableError

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows of a row group of a Parquet file that is written: small ones cost time and space.
_GROUP_ROWS = 1 << 17
#: The path of a table; or its ``table`` and ``sheet``; or its ``database`` and ``query``.
Where = str | Path | Mapping[str, str]


def open_table(where: Where, *, folder: Path = Path(), whose: str = "the table") -> AnyTable:
    """A table by its path, or by its database and query.

    Parameters
    ----------
    where : str, Path or mapping
        Path of a CSV, TSV, Parquet or Excel file; or a mapping with ``table`` and, for a workbook
        of several sheets, ``sheet``; or with ``database`` (a DuckDB or SQLite file, or the
        address of a PostgreSQL server) and ``query``.
    folder : Path
        What relative paths start from.
    whose : str
        Whose table it is, for the sentences about a query: ``"source 'a'"``.

    Raises
    ------
    TableError
        If it is not there; later, if it is damaged.
    """
    asked = dict(where) if isinstance(where, Mapping) else {"table": str(where)}
    if "database" in asked:
        return Query(open_database(asked["database"], folder), asked.get("query", ""), whose)
    path, sheet = folder / asked["table"], asked.get("sheet", "")
    refuse_folder(path)
    kind = kind_of_table(path)
    check_file(path, folder=folder)
    if kind == ".xlsx":
        return ExcelSheet(path, sheet)
    if sheet:
        raise ParameterError(f"Only an Excel workbook has sheets; {str(path)!r} is not one.")
    return TableFile(path)


def words_of(where: Where) -> str:
    """What to call a table in a sentence: by its path, never by an address."""
    if not isinstance(where, Mapping):
        return f"the table {str(where)!r}"
    return f"the table {where['table']!r}" if "table" in where else "the query's answer"


# Writing --------------------------------------------------------------------------------------


@contextmanager
def writing_table(path: str | Path) -> Iterator[TableWriter]:
    """A table to write in pieces; an existing file is replaced once the new one is whole.

    Parameters
    ----------
    path : str or Path
        Its ending tells its kind: .csv, .csv.gz, .tsv, .tsv.gz or .parquet.
    """
    path = Path(path)
    kind = kind_of_table(path)
    if kind == ".xlsx":
        raise TableError("A table must be written as CSV or Parquet; .xlsx is only read.")
    part = path.with_name(f".{path.name}.part")
    try:
        with closing(TableWriter(part, kind)) as writer:
            yield writer
        part.replace(path)
    except UnicodeEncodeError:
        raise DataError(
            f"The table {str(path)!r} must hold valid Unicode; a text is not. Clean it first."
        ) from None
    except OSError as error:
        raise TableError(
            f"The table {str(path)!r} must be written to a folder that exists and is writable; "
            f"this failed ({type(error).__name__}). "
            "Make the folder first, or choose another."
        ) from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


class TableWriter:
    """Writes a table piece by piece to a file, or as CSV to an open stream of bytes.

    Parameters
    ----------
    sink : Path or file of bytes
    kind : str
        One of `FILE_KINDS` that can be written.
    """

    def __init__(self, sink: Path | BinaryIO, kind: str) -> None:
        self._sink = sink
        self._kind = kind
        self._schema: pa.Schema | None = None
        self._stack = ExitStack()
        self._write: Callable[[pa.Table], None] | None = None

    def write(self, columns: Mapping[str, Any]) -> None:
        """Append rows.

        Parameters
        ----------
        columns : mapping of str to sequence
            Of one length; the same names and types in every piece.
        """
        import pyarrow as pa

        lengths = sorted({len(values) for values in columns.values()})
        if len(lengths) != 1:
            raise DataError(
                f"A table must have columns of one length; it has {len(columns)} of lengths "
                f"{lengths}. Give every row a cell in each."
            )
        try:
            mixed = self._kind != ".parquet"  # texts hold anything
            table = pa.table({str(name): _column(cells, mixed) for name, cells in columns.items()})
            table = table.cast(self._schema or table.schema)
        except UnicodeEncodeError:
            raise
        except (pa.ArrowException, TypeError, ValueError):  # its text quotes a cell
            raise DataError(
                "A table must have columns of one type each, of numbers, texts or true and false. "
                "Convert those that mix them."
            ) from None
        if self._write is None:
            self._schema = table.schema
            begin = self._begin_parquet if self._kind == ".parquet" else self._begin_text
            self._write = begin(table.schema)
        self._write(table)

    def close(self) -> None:
        """Write what is left, and close what this writer opened."""
        self._stack.close()

    def _begin_parquet(self, schema: pa.Schema) -> Callable[[pa.Table], None]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        # A dictionary of numbers, most of which come once, costs nine times as much as these.
        texts = [field.name for field in schema if not pa.types.is_primitive(field.type)]
        writer = self._stack.enter_context(
            pq.ParquetWriter(
                self._sink, schema, compression="zstd", use_dictionary=texts,
                write_page_checksum=True,
            )
        )  # fmt: skip
        held: list[pa.Table] = []

        def flush() -> None:
            if held:
                writer.write_table(pa.concat_tables(held))
                held.clear()

        def write(table: pa.Table) -> None:
            held.append(table)
            if sum(piece.num_rows for piece in held) >= _GROUP_ROWS:
                flush()

        self._stack.callback(flush)  # before the file is closed
        return write

    def _begin_text(self, schema: pa.Schema) -> Callable[[pa.Table], None]:
        """Write the header; a function that writes rows, in quotation marks where they must be."""
        import pyarrow as pa
        import pyarrow.csv as pa_csv

        separator, sink = separator_of(self._kind), self._sink
        if isinstance(sink, Path):
            sink = self._stack.enter_context(sink.open("wb"))
        if self._kind.endswith(".gz"):
            sink = self._stack.enter_context(pa.CompressedOutputStream(sink, "gzip"))
        header = io.StringIO(newline="")
        # A semicolon without a mark in the only name would be taken for a separator.
        alone = len(schema) == 1 and ";" in schema.names[0]
        writer = csv.writer(
            header, delimiter=separator, lineterminator="\n",
            quoting=csv.QUOTE_ALL if alone else csv.QUOTE_MINIMAL,
        )  # fmt: skip
        writer.writerow(schema.names)
        sink.write(header.getvalue().encode())

        def write(table: pa.Table) -> None:
            table = _without_blank_lines(table)
            style = "none" if _is_plain(table, separator) else "needed"
            options = pa_csv.WriteOptions(
                include_header=False, delimiter=separator, quoting_style=style
            )
            # Not to `sink`: a pipe that nobody reads must be Python's error.
            text = pa.BufferOutputStream()
            pa_csv.write_csv(table, text, options)
            sink.write(text.getvalue())

        return write


def write_table(path: str | Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write a table that `open_table` reads again, numbers to the bit.

    Parameters
    ----------
    path : str or Path
        As for `writing_table`.
    columns : mapping of str to sequence
        Of one length.
    """
    with writing_table(path) as writer:
        writer.write(columns)


def _column(cells: Any, mixed: bool) -> Any:
    """A column as pyarrow takes it; one of several types as texts, if it may be `mixed`."""
    import pyarrow as pa

    if isinstance(cells, pa.Array | pa.ChunkedArray):
        return cells
    if isinstance(cells, np.ndarray) and cells.dtype == np.float64:
        # Not `pa.array`, with which pyarrow first loads pandas, if that is installed.
        numbers = pa.py_buffer(np.ascontiguousarray(cells))
        return pa.Array.from_buffers(pa.float64(), len(cells), [None, numbers])
    if getattr(getattr(cells, "dtype", None), "kind", "O") in "fiubU":  # no need to make objects
        return pa.array(cells)
    listed = cells.tolist() if hasattr(cells, "tolist") else list(cells)
    try:
        return pa.array(listed)
    except (pa.ArrowException, TypeError, ValueError):
        if not mixed:
            raise
    return pa.array([None if cell is None else str(cell) for cell in listed])


def _is_plain(table: pa.Table, separator: str) -> bool:
    """Whether no text holds what would end a cell, and none is empty."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for column in table.columns:
        texts = column
        if pa.types.is_dictionary(column.type):
            texts = column.cast(column.type.value_type)
        if pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type):
            odd = pc.match_substring_regex(texts, f'^$|["\r\n{separator}]')
            if pc.any(odd).as_py():
                return False
    return True


def _without_blank_lines(table: pa.Table) -> pa.Table:
    """A missing cell of the only column would be a blank line, which nobody reads as a row."""
    import pyarrow as pa

    if table.num_columns != 1 or not table.column(0).null_count:
        return table
    texts = table.column(0).cast(pa.string()).fill_null("")
    return pa.table({table.schema.names[0]: texts})

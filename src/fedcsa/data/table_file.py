"""What a table is, and tables on disk: CSV and Parquet through pyarrow, Excel through fastexcel.

Whatever is wrong with a file becomes a `TableError` that names its path; pyarrow's own texts
quote cells, and an error text may cross from one site to another.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcsa.core.batches import BATCH_ROWS
from fedcsa.data.cells import is_text, number_of
from fedcsa.data.columns import require_columns
from fedcsa.data.csv_text import BROKEN, LongRowError, empty, header_of, text_pieces
from fedcsa.errors import DataError, MissingExtraError, TableError, hint, unknown

if TYPE_CHECKING:
    import pyarrow as pa

#: Endings of tables; an Excel workbook is only read, never written.
FILE_KINDS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".xlsx")
#: Endings of databases, for the advice to give a query.
_DATABASES = (".duckdb", ".ddb", ".sqlite", ".sqlite3", ".db")
#: Text is parsed a block at a time, of which pyarrow reads some 32 ahead. A row that does not fit
#: into one is read again in large blocks; one that does not fit into these is refused.
_BLOCK_BYTES, _LARGE_BLOCK_BYTES = 1 << 20, 1 << 24
_BUFFER_BYTES = 1 << 17  # of every column of a Parquet file that is read in pieces


class AnyTable(ABC):
    """A table that is read in pieces or at once, wherever it is."""

    words: str

    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in their order."""

    @abstractmethod
    def pieces(
        self, columns: Sequence[str] | None = None, few: Sequence[str] = ()
    ) -> Generator[pa.RecordBatch]:
        """The rows in their order, a piece at a time, of all columns or of `columns`.

        Columns with `few` different texts may come by a dictionary.
        """

    @abstractmethod
    def state(self) -> object:
        """Changes if the rows do; None if nobody can say."""

    def n_rows(self) -> int | None:
        """How many rows it has, if it says so before it is read: Parquet does."""
        return None

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows at once, of all columns or of `columns`."""
        import pyarrow as pa

        pieces = list(self.pieces(columns))
        if pieces:
            return pa.Table.from_batches(pieces)
        names = self.columns() if columns is None else columns
        return pa.table({name: pa.array([], pa.float64()) for name in names})


class _OnDisk(AnyTable):
    """A file, which has a size and a time."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.words = f"The table {str(self.path)!r}"
        check_file(self.path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def state(self) -> tuple[int, int]:
        """Size and time of the file: while they are the same, so are its rows."""
        return file_state(self.path)


class TableFile(_OnDisk):
    """A table as text or Parquet.

    The cells of a CSV file stay texts, so that "01" remains what it is;
    `fedcsa.data.coding.Columns` makes numbers of them.

    Parameters
    ----------
    path : str or Path
        Its ending tells its kind: .csv, .csv.gz, .tsv, .tsv.gz or .parquet.

    Raises
    ------
    TableError
        If the file is not there; later, if it is not a whole table.
    DataError
        If a column is missing.
    """

    def __init__(self, path: str | Path) -> None:
        self.kind = kind_of_table(Path(path))
        super().__init__(path)

    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in their order."""
        if self.kind != ".parquet":
            return header_of(self.path, self.kind, _LARGE_BLOCK_BYTES)[0]
        with self._parquet(None) as (_, names):
            return tuple(names)

    def pieces(
        self, columns: Sequence[str] | None = None, few: Sequence[str] = ()
    ) -> Generator[pa.RecordBatch]:
        """The rows in their order, a piece at a time, of all columns or of `columns`.

        A Parquet file stores `few` different texts by a dictionary, and gives them so.
        """
        if self.kind != ".parquet":
            yield from self._text(columns)
            return
        with self._parquet(columns, few) as (file, names):
            for piece in file.iter_batches(BATCH_ROWS, columns=names):
                piece.validate(full=True)  # texts that are not UTF-8, lengths that do not fit
                yield piece

    def _text(self, columns: Sequence[str] | None) -> Generator[pa.RecordBatch]:
        given = 0
        try:
            for piece in text_pieces(self.path, self.kind, columns, _BLOCK_BYTES):
                yield piece
                given += piece.num_rows
            return
        except LongRowError:
            again = text_pieces(self.path, self.kind, columns, _LARGE_BLOCK_BYTES)
        for piece in again:
            known = min(given, piece.num_rows)
            given -= known
            yield piece.slice(known)

    def n_rows(self) -> int | None:
        """How many rows it has, if the file says so."""
        if self.kind != ".parquet":
            return None
        with self._parquet([]) as (file, _):
            return int(file.metadata.num_rows)

    @contextmanager
    def _parquet(
        self, columns: Sequence[str] | None, few: Sequence[str] = ()
    ) -> Iterator[tuple[Any, list[str]]]:
        """The open Parquet file and the columns to read of it."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        # With a buffer, a column is read as it is needed, and not a whole row group at once.
        options: dict[str, Any] = {"pre_buffer": False, "buffer_size": _BUFFER_BYTES}
        try:
            texts = [field.name for field in pq.read_schema(self.path) if is_text(field.type)]
            options["read_dictionary"] = [name for name in few if name in texts]
            with pq.ParquetFile(self.path, page_checksum_verification=True, **options) as file:
                names = file.schema_arrow.names
                wanted = list(names if columns is None else columns)
                require_columns(names, wanted, f"the table {str(self.path)!r}")
                yield file, wanted
        except DataError:
            raise
        except (pa.ArrowException, *BROKEN):
            raise TableError(
                f"{self.words} must be a whole Parquet file; it is cut off, damaged or of "
                f"another kind than its ending ({self.kind}) says. Copy or export it again."
            ) from None


def file_state(path: Path) -> tuple[int, int]:
    """Size and time of a file: while they are the same, so is its content."""
    check_file(path)
    state = path.stat()
    return state.st_size, state.st_mtime_ns


def refuse_folder(path: Path, what: str = "table") -> None:
    """Say what to name in place of a folder."""
    if os.path.isdir(path):  # noqa: PTH112 - a folder that may not be read is no error here
        named = f"Name the tables in it, such as {(path / '*.csv').as_posix()}."
        raise TableError(
            f"The {what} {str(path)!r} must be one file; it is a folder. "
            f"{named if what == 'table' else 'Name a file in it.'}"
        )


def check_file(path: Path, what: str = "table", folder: Path = Path()) -> None:
    """Refuse early what a parser would refuse in its own words.

    Parameters
    ----------
    path : Path
    what : str
        For the sentence: ``"table"``, or ``"database"``.
    folder : Path
        Of the file that names `path`, if it is not the folder of the command.
    """
    refuse_folder(path, what)
    try:
        size = path.stat().st_size
        if not os.access(path, os.R_OK):
            raise PermissionError
    except FileNotFoundError:
        start = "" if folder == Path() else ": it starts from the folder of the file that names it"
        raise TableError(
            f"The {what} {str(path)!r} does not exist. Check the path{start}."
        ) from None
    except OSError as error:
        raise TableError(
            f"The {what} {str(path)!r} cannot be read ({type(error).__name__}). "
            "Ask for the right to read it."
        ) from None
    if not size:
        raise empty(path, what)


def is_database(path: Path) -> bool:
    """Whether the ending of `path` is one that DuckDB and SQLite files have."""
    return path.name.lower().endswith(_DATABASES)


def kind_of_table(path: Path) -> str:
    """The kind of table that the ending of `path` tells, one of `FILE_KINDS`."""
    name = path.name.lower()
    for kind in FILE_KINDS:
        if name.endswith(kind):
            return kind
    if is_database(path):
        raise TableError(
            f"A database must come with a query; {str(path)!r} has none. Say database and query "
            "in the study file, or --query."
        )
    ending = "".join(path.suffixes[-2:] if name.endswith(".gz") else path.suffixes[-1:])
    raise TableError(f"{unknown('kind of table', ending, FILE_KINDS)} The path is {str(path)!r}.")


class ExcelSheet(_OnDisk):
    """A sheet whose first row has the names of its columns.

    A sheet has at most 1,048,576 rows and is held while it is read. Numbers stay numbers, texts
    texts, dates dates; a column that mixes them becomes texts.

    Parameters
    ----------
    path : str or Path
        Ends with .xlsx.
    sheet : str
        Its name; may be left out if the workbook has only one.
    """

    def __init__(self, path: str | Path, sheet: str = "") -> None:
        super().__init__(path)
        self._sheet = sheet

    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in their order."""
        return self._header

    def pieces(
        self,
        columns: Sequence[str] | None = None,
        few: Sequence[str] = (),  # noqa: ARG002
    ) -> Generator[pa.RecordBatch]:
        """The rows in their order, a piece at a time."""
        names = list(self._header if columns is None else columns)
        require_columns(self._header, names, f"the table {str(self.path)!r}")
        places = sorted(self._header.index(name) for name in names)
        # All rows tell the type of a column: a text in the last row makes it a column of texts.
        rows = self._load(schema_sample_rows=None, use_columns=places)
        rows = self._exact(rows, places)
        rows = rows.rename_columns([self._header[place] for place in places]).select(names)
        for start in range(0, rows.num_rows, BATCH_ROWS):
            yield rows.slice(start, BATCH_ROWS)

    def _exact(self, rows: pa.RecordBatch, places: Sequence[int]) -> pa.RecordBatch:
        """The same rows; numbers among texts, which fastexcel rounds to nine decimals, are exact.

        Parameters
        ----------
        rows : pyarrow.RecordBatch
        places : sequence of int
            Which columns of the sheet these are.
        """
        import pyarrow as pa

        mixed = [k for k in range(rows.num_columns) if is_text(rows.schema.field(k).type)]
        if not mixed:
            return rows
        wanted = {places[k]: "float" for k in mixed}
        numbers = self._load(use_columns=[places[k] for k in mixed], dtypes=wanted)
        for k, column in zip(mixed, numbers.columns, strict=True):
            exact = list(map(_exact_text, rows.column(k).to_pylist(), column.to_pylist()))
            rows = rows.set_column(k, rows.schema.field(k), pa.array(exact, rows.column(k).type))
        return rows

    @cached_property
    def _header(self) -> tuple[str, ...]:
        """The cells of the first row; fastexcel itself would rename one that is there twice."""
        first = self._load(header_row=None, n_rows=1, dtypes="string")
        cells = [column[0].as_py() if first.num_rows else None for column in first.columns]
        return tuple("" if cell is None else cell for cell in cells)

    def _load(self, **options: Any) -> pa.RecordBatch:
        try:
            import fastexcel
        except ImportError:
            raise MissingExtraError("fastexcel", "excel", "Reading an Excel workbook") from None
        try:
            book = fastexcel.read_excel(self.path)
            return book.load_sheet(self._chosen(book.sheet_names), eager=True, **options)
        except DataError:
            raise
        except Exception:  # its text may quote a cell
            raise TableError(
                f"{self.words} must be a whole Excel workbook (.xlsx) with a row of names; it is "
                "cut off, damaged, locked by a password or of another kind. Save it again."
            ) from None

    def _chosen(self, sheets: Sequence[str]) -> str:
        if self._sheet in sheets:
            return self._sheet
        if self._sheet:
            raise TableError(
                f"{self.words} must have the sheet {self._sheet!r}. {hint(self._sheet, sheets)}"
            )
        if len(sheets) != 1:
            raise TableError(
                f"{self.words} has {len(sheets)} sheets; one must be named. "
                f'Say sheet = "{sheets[0] if sheets else "…"}" beside it, or --sheet.'
            )
        return sheets[0]


def _exact_text(text: str | None, number: float | None) -> str | None:
    """The text of a cell, or that of its number if the text is another number: a rounded one."""
    if text is None or number is None or number_of(text) in (None, number):
        return text
    return repr(number).removesuffix(".0")

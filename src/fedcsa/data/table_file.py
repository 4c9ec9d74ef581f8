"""CSV and Parquet files as tables, through pyarrow.

Whatever is wrong with a file becomes a `TableError` that names its path; pyarrow's own texts
quote cells, and an error text may cross from one site to another.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcsa.core.batches import BATCH_ROWS
from fedcsa.data.cells import is_text
from fedcsa.data.columns import require_columns
from fedcsa.data.csv_text import BROKEN, LongRowError, empty, header_of, text_pieces
from fedcsa.errors import DataError, TableError, unknown

if TYPE_CHECKING:
    import pyarrow as pa

#: Endings of tables; an Excel workbook is read by `fedcsa.data.excel` and never written.
FILE_KINDS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".xlsx")
#: Endings of databases, for the advice to give a query.
_DATABASES = (".duckdb", ".ddb", ".sqlite", ".sqlite3", ".db")
#: Text is parsed a block at a time, of which pyarrow reads some 32 ahead. A row that does not fit
#: into one is read again in large blocks; one that does not fit into these is refused.
_BLOCK_BYTES, _LARGE_BLOCK_BYTES = 1 << 20, 1 << 24
_BUFFER_BYTES = 1 << 17  # of every column of a Parquet file that is read in pieces


class InPieces:
    """What gives its rows in pieces gives them at once, too."""

    if TYPE_CHECKING:

        def pieces(
            self, columns: Sequence[str] | None = None, few: Sequence[str] = ()
        ) -> Generator[pa.RecordBatch]:
            """The rows in their order, a piece at a time, of all columns or of `columns`."""

        def columns(self) -> tuple[str, ...]:
            """Names of the columns, in their order."""

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows at once, of all columns or of `columns`."""
        import pyarrow as pa

        pieces = list(self.pieces(columns))
        if pieces:
            return pa.Table.from_batches(pieces)
        names = self.columns() if columns is None else columns
        return pa.table({name: pa.array([], pa.float64()) for name in names})


class TableFile(InPieces):
    """A table on disk.

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
        self.path = Path(path)
        self.kind = kind_of_table(self.path)
        self.words = f"The table {str(self.path)!r}"
        check_file(self.path)

    def __repr__(self) -> str:
        return f"TableFile({str(self.path)!r})"

    def state(self) -> tuple[int, int]:
        """Size and time of the file: while they are the same, so are its rows."""
        return file_state(self.path)

    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in their order."""
        if self.kind != ".parquet":
            return header_of(self.path, self.kind, _LARGE_BLOCK_BYTES)
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
            f"The {what} {str(path)!r} does not exist. Check the path: in a study "
            "it is relative to the study file."
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

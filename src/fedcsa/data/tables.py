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
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcsa.core.batches import BATCH_ROWS
from fedcsa.data.columns import require_columns
from fedcsa.data.csv_text import BROKEN, empty, text_pieces
from fedcsa.errors import DataError, TableError, unknown

if TYPE_CHECKING:
    import pyarrow as pa

FILE_KINDS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
#: A line longer than a block could not be read. In pieces, pyarrow reads some 32 blocks ahead.
_BLOCK_BYTES, _PIECE_BYTES = 1 << 24, 1 << 20
_BUFFER_BYTES = 1 << 17  # of every column of a Parquet file that is read in pieces


class TableFile:
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
        check_file(self.path)
        state = self.path.stat()
        return state.st_size, state.st_mtime_ns

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows at once, of all columns or of `columns`."""
        import pyarrow as pa

        if self.kind != ".parquet":
            pieces = text_pieces(self.path, self.kind, columns, _BLOCK_BYTES)
            return pa.Table.from_batches(list(pieces))
        with self._parquet(columns, {}) as (file, names):
            table = file.read(columns=names)
            table.validate(full=True)  # texts that are not UTF-8, lengths that do not fit
            return table

    def pieces(self, columns: Sequence[str]) -> Generator[pa.RecordBatch]:
        """The rows in their order, a piece at a time."""
        if self.kind != ".parquet":
            yield from text_pieces(self.path, self.kind, columns, _PIECE_BYTES)
            return
        # With a buffer, a column is read as it is needed, and not a whole row group at once.
        options = {"pre_buffer": False, "buffer_size": _BUFFER_BYTES}
        with self._parquet(columns, options) as (file, names):
            for piece in file.iter_batches(BATCH_ROWS, columns=names):
                piece.validate(full=True)
                yield piece

    @contextmanager
    def _parquet(
        self, columns: Sequence[str] | None, options: Mapping[str, Any]
    ) -> Iterator[tuple[Any, list[str] | None]]:
        """The open Parquet file and the columns to read of it."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(self.path, page_checksum_verification=True, **options) as file:
                if columns is not None:
                    where = f"the table {str(self.path)!r}"
                    require_columns(file.schema_arrow.names, columns, where)
                yield file, None if columns is None else list(columns)
        except DataError:
            raise
        except (pa.ArrowException, *BROKEN):
            raise TableError(
                f"{self.words} must be a whole Parquet file; it is cut off, damaged or of "
                f"another kind than its ending ({self.kind}) says. Copy or export it again."
            ) from None


def read_table(path: str | Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a table at once.

    Parameters
    ----------
    path : str or Path
        As for `TableFile`.
    columns : sequence of str, optional
        The columns to read; by default all.

    Returns
    -------
    pyarrow.Table
    """
    return TableFile(path).read(columns)


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


def kind_of_table(path: Path) -> str:
    """The kind of table that the ending of `path` tells, one of `FILE_KINDS`."""
    name = path.name.lower()
    for kind in FILE_KINDS:
        if name.endswith(kind):
            return kind
    ending = "".join(path.suffixes[-2:] if name.endswith(".gz") else path.suffixes[-1:])
    raise TableError(f"{unknown('kind of table', ending, FILE_KINDS)} The path is {str(path)!r}.")


def write_table(path: str | Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write a table that `read_table` reads again, numbers to the bit.

    Parameters
    ----------
    path : str or Path
        Its ending tells its kind, as for `TableFile`. An existing file is replaced, but only
        once the new one is whole.
    columns : mapping of str to sequence
        Of one length.
    """
    path = Path(path)
    kind = kind_of_table(path)
    cells = {
        str(name): values.tolist() if hasattr(values, "tolist") else list(values)
        for name, values in columns.items()
    }
    lengths = sorted({len(values) for values in cells.values()})
    if len(lengths) != 1:
        raise DataError(
            f"The table {str(path)!r} must have columns of one length; it has {len(cells)} of "
            f"lengths {lengths}. Give every row a cell in each."
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


def _write_parquet(part: Path, cells: Mapping[str, list[Any]], path: Path) -> None:
    import pyarrow as pa
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

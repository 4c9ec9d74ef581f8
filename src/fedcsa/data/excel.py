"""A sheet of an Excel workbook (.xlsx) as a table, through fastexcel."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcsa.core.batches import BATCH_ROWS
from fedcsa.data.cells import is_text, number_of
from fedcsa.data.columns import require_columns
from fedcsa.data.table_file import InPieces, check_file, file_state
from fedcsa.errors import DataError, MissingExtraError, TableError, hint

if TYPE_CHECKING:
    import pyarrow as pa


class ExcelSheet(InPieces):
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
        self.path = Path(path)
        self._sheet = sheet
        self.words = f"The table {str(self.path)!r}"
        check_file(self.path)

    def __repr__(self) -> str:
        return f"ExcelSheet({str(self.path)!r})"

    def state(self) -> tuple[int, int]:
        """Size and time of the file: while they are the same, so are its rows."""
        return file_state(self.path)

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

"""The text of a CSV file in pieces of a table, or a `TableError` that quotes none of its cells."""

from __future__ import annotations

import codecs
import gzip
import io
import operator
import re
import sys
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcsa.data.columns import require_columns
from fedcsa.errors import DataError, TableError

if TYPE_CHECKING:
    import pyarrow as pa

#: What a parser may raise at a damaged file, besides pyarrow's own errors.
BROKEN = (OSError, ValueError, EOFError, MemoryError, OverflowError, zlib.error)
#: A last row that is appended to every table, to see whether a quotation is left open.
_END = "fedcsa-end-of-table"
#: Numbers with a decimal sign, for pyarrow.
_COMMA = r"^(\s*[+-]?\d+),(\d+(?:[eE][+-]?\d+)?\s*)$"
_POINT = r"^\s*[+-]?\d*\.\d+(?:[eE][+-]?\d+)?\s*$"
#: Numbers whose sign may separate thousands.
_THOUSANDS = r"^\s*[+-]?[1-9]\d{0,2}[.,]\d{3}\s*$"
_NUMBER_LIKE = re.compile(r"\s*[+-]?[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?\s*")


class LongRowError(TableError):
    """A row does not fit into a block: it is long, or a quotation mark is left open."""


def text_pieces(
    path: Path, kind: str, columns: Sequence[str] | None, block_bytes: int
) -> Generator[pa.RecordBatch]:
    """The rows in their order, every cell as a text, a piece at a time and at least one piece.

    Parameters
    ----------
    path : Path
    kind : str
        Its ending, which tells the separator.
    columns : sequence of str or None
        The columns to read, None for all.
    block_bytes : int
        How much is parsed at a time; a row must fit into it.
    """
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    names, separator = header_of(path, kind, block_bytes, columns)
    wanted = list(names if columns is None else columns)
    ragged = _Ragged()
    commas = _DecimalCommas(path) if separator == ";" else None
    note = ragged.note
    options = _options(separator, block_bytes, note)
    file = last = None  # the last piece may be the one with the end mark
    try:
        convert = pa_csv.ConvertOptions(
            column_types=dict.fromkeys(wanted, pa.string()),
            include_columns=[] if columns is None else wanted,
            strings_can_be_null=False,
        )
        end = separator.join([_END] * len(names)) + "\n"
        with TextFile(path, end) as file, _let_go(file, note):
            for piece in _parsed(pa.PythonFile(file, "r"), {"convert_options": convert, **options}):
                if not piece.num_rows:
                    continue
                # After a row that does not fit, the others are only counted.
                if last is not None and not ragged.count:
                    yield commas.replaced(last) if commas else last
                last = piece
    except (pa.ArrowException, *BROKEN) as error:
        raise _text_error(path, kind, (file and file.problem) or error) from None
    if ragged.count:
        raise ragged.error(path)
    if last is None or any(column[-1].as_py() != _END for column in last.columns):
        raise _open_quotation(path)
    last = last.slice(0, last.num_rows - 1)
    if commas:
        last = commas.replaced(last)
        commas.check_sure()
    yield last


def header_of(
    path: Path, kind: str, block_bytes: int, columns: Sequence[str] | None = None
) -> tuple[tuple[str, ...], str]:
    """The names in the first line of a file, and what separates them.

    Parameters
    ----------
    path, kind
        As for `text_pieces`.
    block_bytes : int
        The line must fit into it.
    columns : sequence of str, optional
        Must be among the names.
    """
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    note = _Ragged().note  # of a row that the end of the block cuts off
    file = None
    try:
        with TextFile(path) as file:
            start = file.read(block_bytes)
        separator = _separator_in(start, kind)
        options = _options(separator, block_bytes, note)
        with _let_go(note), pa_csv.open_csv(pa.BufferReader(start), **options) as reader:
            names = tuple(reader.schema.names)
    except (pa.ArrowException, *BROKEN) as error:
        raise _text_error(path, kind, (file and file.problem) or error) from None
    _check_header(path, names, columns)
    return names, separator


def _separator_in(start: bytes, kind: str) -> str:
    """A comma or a tab, as the ending says; a semicolon if the first lines rather have these.

    Where a comma is the decimal sign, spreadsheet programs write CSV files with semicolons. If the
    header has both, that is taken which the second line has as often; of two, the more frequent.
    """
    usual = separator_of(kind)
    lines = re.sub(rb'"[^"]*"', b"", start.lstrip()).splitlines()[:2]
    counts = {mark: [line.count(mark.encode()) for line in lines] for mark in (usual, ";")}
    in_header = {mark: found[0] for mark, found in counts.items() if found and found[0]}
    if len(in_header) < 2:
        return next(iter(in_header), usual)
    fitting = [mark for mark, n in in_header.items() if counts[mark] == [n, n]]
    return max(fitting, key=in_header.__getitem__, default=usual)


def _options(separator: str, block_bytes: int, note: Callable[[Any], str]) -> dict[str, Any]:
    """How a text is parsed; `note` is told of every row with too many or too few cells."""
    import pyarrow.csv as pa_csv

    return {
        "read_options": pa_csv.ReadOptions(use_threads=False, block_size=block_bytes),
        "parse_options": pa_csv.ParseOptions(
            delimiter=separator, newlines_in_values=True, invalid_row_handler=note
        ),
    }


def separator_of(kind: str) -> str:
    """What stands between cells in a file of this ending, unless it is a semicolon."""
    return "\t" if kind.startswith(".tsv") else ","


def _parsed(source: Any, options: dict[str, Any]) -> Generator[pa.RecordBatch]:
    import pyarrow.csv as pa_csv

    with pa_csv.open_csv(source, **options) as reader:
        yield from reader


@contextmanager
def _let_go(*lent: object) -> Iterator[None]:
    """Wait, at the end, until no thread of the parser's holds what it was `lent`.

    One that still asks for the interpreter's lock when Python ends aborts the process.
    """
    before = _references(lent)
    patience = 5_000  # milliseconds
    try:
        yield
    except Exception:
        patience = 50  # an error on its way may hold them, too
        raise
    finally:
        for _ in range(patience):
            if all(map(operator.le, _references(lent), before)):
                break
            time.sleep(0.001)


def _references(lent: tuple[object, ...]) -> list[int]:
    return [sys.getrefcount(item) for item in lent]


class _DecimalCommas:
    """Decimal commas become points, in a file whose cells semicolons separate.

    A sign before three digits may separate thousands, or both signs may stand in one column: what
    the numbers are is then not known, and they are refused.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._commas: set[str] = set()  # columns with such numbers so far
        self._points: set[str] = set()
        self._sure: set[str] = set()  # columns in which some sign cannot separate thousands

    def replaced(self, piece: pa.RecordBatch) -> pa.RecordBatch:
        """The piece with every number written by a point."""
        import pyarrow as pa
        import pyarrow.compute as pc

        columns = []
        for name, column in zip(piece.schema.names, piece.columns, strict=True):
            self._look_at(name, column)
            if name in self._commas:
                column = pc.replace_substring_regex(column, _COMMA, r"\1.\2")
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=piece.schema)

    def check_sure(self) -> None:
        """At the end of the file, raise a `TableError` if signs may separate thousands."""
        doubtful = self._commas | (self._points if self._commas else set())
        for name in sorted(doubtful - self._sure):
            sign = "comma" if name in self._commas else "point"
            raise self._error(name, f"its {sign}s may be decimal signs or separate thousands")

    def _look_at(self, name: str, column: pa.Array) -> None:
        import pyarrow.compute as pc

        for seen, pattern in ((self._commas, _COMMA), (self._points, _POINT)):
            if name in seen and name in self._sure:
                continue
            found = pc.match_substring_regex(column, pattern)
            if pc.any(found).as_py():
                seen.add(name)
                thousands = pc.match_substring_regex(column, _THOUSANDS)
                if pc.any(pc.and_not(found, thousands)).as_py():
                    self._sure.add(name)
        if name in self._commas and name in self._points:
            raise self._error(name, "it has decimal commas and points")

    def _error(self, name: str, why: str) -> TableError:
        return TableError(
            f"Column {name!r} of the table {str(self._path)!r} must write its numbers with one "
            f"decimal sign; {why}. Export it with points, and thousands without a sign."
        )


class _Ragged:
    """Rows that have more or fewer cells than the header."""

    count = 0
    _first = (0, 0, 0)

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
        return LongRowError(str(_open_quotation(path)))
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
    number_like = sum(_NUMBER_LIKE.fullmatch(name) is not None for name in names)
    none_wanted = columns is not None and not set(names) & set(columns)
    if (number_like == len(names) and columns is None) or (number_like and none_wanted):
        raise TableError(
            f"The table {str(path)!r} must begin with a line of column names; {number_like} of the "
            f"{len(names)} cells in its first line are numbers. Add a header."
        )
    if columns is not None:
        require_columns(names, columns, f"the table {str(path)!r}")


class TextFile(io.RawIOBase):
    """A file of text that a parser reads piece by piece.

    Parameters
    ----------
    path : Path
        If it ends with .gz, the content is decompressed.
    end : str
        A last line to append. A cell whose closing mark is missing swallows all rows after it
        without a word: it would swallow this line too.

    Attributes
    ----------
    problem : Exception or None
        What went wrong while reading. A parser in between may not hand it on as it is.
    """

    def __init__(self, path: Path, end: str = "") -> None:
        self._path = path
        self._end = end.encode()
        self._file = gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb")  # noqa: SIM115
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._tail: bytes | None = None  # what is left to give after the end of the file
        self._held = b""  # what was read and is not given yet
        self._last = b""
        self._blank = True
        self.problem: Exception | None = None

    def readable(self) -> bool:
        """A parser asks before it reads."""
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

    def read(self, size: int = -1) -> bytes:
        """The next `size` bytes, one fewer, or all that are left."""
        content, self._held = self._held, b""
        try:
            while len(content) < size and (piece := self._next(size - len(content))):
                content = content + piece if content else piece
        except Exception as error:
            self.problem = error
            raise
        # pyarrow loses the line feed of a quoted text if a block ends between it and its return.
        if len(content) > 1 and content.endswith(b"\r"):
            content, self._held = content[:-1], b"\r"
        return content

    def _next(self, size: int) -> bytes:
        if self._tail is None:
            content = self._file.read(size)
            self._check(content)
            if content:
                return content
            self._tail = (b"" if self._last in (b"\n", b"\r") else b"\n") + self._end
        content, self._tail = self._tail[:size], self._tail[size:]
        return content

    def _check(self, content: bytes) -> None:
        try:
            self._decoder.decode(content, final=not content)
        except UnicodeDecodeError:
            raise TableError(
                f"The table {str(self._path)!r} must be text in UTF-8; it is in another encoding, "
                "or not text. Export it again, as UTF-8."
            ) from None
        self._blank = self._blank and not content.strip()
        self._last = content[-1:] or self._last
        if not content and self._blank:
            raise empty(self._path)


def empty(path: Path, what: str = "table") -> TableError:
    """The refusal of a file with nothing in it."""
    return TableError(
        f"The {what} {str(path)!r} must have rows; the file is empty. Export it again."
    )

"""A table that is read anew for every pass, batch by batch, and never held."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.batches import BATCH_ROWS
from fedcsa.data.cells import arrow, quick_numbers
from fedcsa.data.columns import sentence_start
from fedcsa.data.encoding import Coding, Feature
from fedcsa.data.prefetch import prefetched
from fedcsa.data.readers import check_file, parquet_pieces, text_pieces
from fedcsa.data.tables import all_spellings, kind_of, mark_missing, names_a_number
from fedcsa.errors import DataError, TableError

if TYPE_CHECKING:
    import pyarrow as pa

Batch = tuple[Array, Array]


class TableStream:
    """The rows of a table on disk, in batches: a `fedcsa.core.batches.Batches`.

    They are, to the bit, the rows that `fedcsa.data.tables.read_table` and `Coding.encode` give
    with outcomes and group, save that classes are given by their positions in the agreed order.
    The memory taken does not depend on the number of rows. The next batch is decoded in the
    background.

    Parameters
    ----------
    path : str or Path
        As for `fedcsa.data.tables.read_table`. The file must stay as it is between passes.
    coding : Coding
        With an outcome.
    missing_values : collection of str
        Spellings of a missing cell, beside the usual ones.
    where : str
        Whose table it is, for the sentences: ``"source 'a'"``.

    Raises
    ------
    TableError, DataError
        As `read_table` and `Coding.encode` do; also at a later batch, for what is wrong there.
    """

    def __init__(
        self, path: str | Path, coding: Coding, *, missing_values: Collection[str] = (), where: str
    ) -> None:
        self.path = Path(path)
        self._kind = kind_of(self.path)
        arrow("Reading a table")
        check_file(self.path)
        self._state = self._state_now()
        self._encoder = RowEncoder(coding, missing_values, where)
        self._count = RowCount(f"The table {str(self.path)!r}")

    def __repr__(self) -> str:
        return f"TableStream({str(self.path)!r}, {len(self.columns)} columns)"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the features in the order of the matrix, and of the group behind them."""
        return self._encoder.columns

    def __iter__(self) -> Iterator[Batch]:
        """Start a pass."""
        return prefetched(self._pass)

    def _pass(self) -> Generator[Batch]:
        self._require_same_file()
        read = parquet_pieces if self._kind == ".parquet" else text_pieces
        problem: DataError | None = None
        try:
            # Left to itself, the file would stay open for as long as somebody keeps an error.
            with closing(read(self.path, self._kind, self._encoder.needed)) as pieces:
                yield from self._count.checked(self._encoder.batches(pieces))
        except DataError as error:
            problem = error
        self._require_same_file()  # if it is another one, nothing else is worth saying
        if problem is not None:
            raise problem

    def _require_same_file(self) -> None:
        check_file(self.path)
        if self._state_now() != self._state:
            raise changed(f"The table {str(self.path)!r}", "its size or its time is another")

    def _state_now(self) -> tuple[int, int]:
        state = self.path.stat()
        return state.st_size, state.st_mtime_ns


class RowEncoder:
    """Pieces of a table as batches of features and outcomes.

    Parameters
    ----------
    coding, missing_values, where
        As for `TableStream`.
    """

    def __init__(self, coding: Coding, missing_values: Collection[str], where: str) -> None:
        self.needed = coding.needed(with_outcome=True, with_group=True)
        self.columns = coding.matrix_columns
        self._coding = coding
        self._where = where
        self._levels = coding.level_texts
        self._spellings = all_spellings(missing_values)
        self._quick_texts = not any(map(names_a_number, self._spellings))

    def batches(self, pieces: Iterable[pa.RecordBatch]) -> Generator[Batch]:
        """All rows of `pieces`, `BATCH_ROWS` at a time."""
        first_row = 1
        for table in _dealt(pieces):
            yield self._encode(table, first_row)
            first_row += table.num_rows
        if first_row == 1:
            raise DataError(
                f"{sentence_start(self._where)} must have rows; its table has none. "
                "Check which file it names."
            )

    def _encode(self, table: pa.Table, first_row: int) -> Batch:
        """A matrix and outcomes of their own: the caller may keep them."""
        X = np.empty((table.num_rows, len(self.columns)))
        problems: list[str] = []
        start = 0
        for feature in self._coding.in_order(with_group=True):
            stop = start + max(1, len(feature.columns))  # a group has one of its own
            self._fill(X[:, start:stop], feature, table, first_row, problems)
            start = stop
        y = self._outcomes(table, first_row, problems)
        if problems:
            raise DataError("\n".join(problems))
        return X, y

    def _fill(
        self, out: Array, feature: Feature, table: pa.Table, first_row: int, problems: list[str]
    ) -> None:
        column = table.column(feature.name)
        values = None
        if feature.kind == "number":
            values = quick_numbers(column, texts=self._quick_texts)
        if values is not None:
            out[:, 0] = values
            out[:, 1:] = 0.0  # nothing is missing
            return
        what = f"Column {feature.name!r} of {self._where}"
        out[:] = feature.encode(self._marked(feature.name, column), what, problems, first_row)

    def _outcomes(self, table: pa.Table, first_row: int, problems: list[str]) -> Array:
        outcome = self._coding.outcome
        assert outcome is not None  # noqa: S101 - `needed` has asked for it
        column = table.column(outcome.name)
        if not outcome.levels:
            values = quick_numbers(column, texts=self._quick_texts)
            if values is not None:
                return values.copy()
        what = f"Outcome {outcome.name!r} of {self._where}"
        marked = self._marked(outcome.name, column)
        return outcome.encode_numbers(marked, what, problems, first_row)

    def _marked(self, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
        return mark_missing(column, self._spellings, self._levels.get(name, ()))


class RowCount:
    """The number of rows of a pass, which must be that of the pass before.

    Parameters
    ----------
    what : str
        What the rows are, for the sentence.
    contents : bool
        Whether a checksum of the rows in their order must be the same, too.
    """

    def __init__(self, what: str, *, contents: bool = False) -> None:
        self._what = what
        self._contents = contents
        self._last: tuple[int, int] | None = None

    def checked(self, batches: Iterable[Batch]) -> Generator[Batch]:
        """`batches`, and an error if they were other ones the last time.

        A pass that is left early is not compared.
        """
        rows = checksum = 0
        for X, y in batches:
            rows += len(y)
            if self._contents:  # before the caller has them, who may write into them
                for part in (y, X):
                    checksum = zlib.crc32(np.ascontiguousarray(part).data, checksum)
            yield X, y
        last = self._last or (rows, checksum)
        if last[0] != rows:
            raise changed(self._what, f"it had {last[0]} rows and now has {rows}")
        if last[1] != checksum:
            raise changed(self._what, "its rows are others than at the last pass")
        self._last = rows, checksum


def changed(what: str, how: str) -> TableError:
    """The refusal of a table that is not the same at every pass."""
    return TableError(
        f"{what} must stay as it is while a study runs; {how}. "
        "Run the study on a copy that nobody writes to."
    )


def _dealt(pieces: Iterable[pa.RecordBatch]) -> Generator[pa.Table]:
    """The rows of `pieces` in tables of `BATCH_ROWS` rows, the last one aside."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    n_held = 0
    for piece in pieces:
        while n_held + piece.num_rows >= BATCH_ROWS:
            cut = BATCH_ROWS - n_held
            yield pa.Table.from_batches([*held, piece.slice(0, cut)])
            piece, held, n_held = piece.slice(cut), [], 0
        if piece.num_rows:
            held.append(piece)
            n_held += piece.num_rows
    if held:
        yield pa.Table.from_batches(held)

"""A table that is read anew for every pass, batch by batch, and never held."""

from __future__ import annotations

import queue
import threading
import weakref
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.batches import BATCH_ROWS, RowBatches
from fedcsa.data.coding import Columns, no_rows
from fedcsa.data.table_file import AnyTable
from fedcsa.data.tables import open_table
from fedcsa.errors import DataError, TableError

if TYPE_CHECKING:
    import pyarrow as pa

_Batch = tuple[Array, Array]
_Item = TypeVar("_Item")
#: Batches that are made before they are asked for: one to hand over, one in the making.
AHEAD = 2
#: Bytes of decoded rows that are kept in a process, by all tables together. A million rows of
#: twenty numbers fit in, and are decoded once instead of at each of eight passes.
KEPT_BYTES = 176 << 20
#: Rows that are held make room for an eighth more, so that they move a few dozen times at most.
_SPARE = 8


class TableStream:
    """The rows of a file or a query, in batches: a `fedcsa.core.batches.Batches`.

    They are, to the bit, the rows that `read_rows` gives with outcomes and group. The memory
    taken does not depend on the number of rows. The next batch is decoded in the background.

    Parameters
    ----------
    table : str, Path or AnyTable
        Its rows must stay as they are between passes.
    coding : Columns
        With an outcome.
    where : str
        Whose table it is, for the sentences: ``"source 'a'"``.
    with_outcome : bool
        Without, as for a target: outcomes and group are not read, and outcomes are told as zeros.
    columns : tuple of str, optional
        The study's names of the columns, if the table has others.

    Raises
    ------
    TableError, DataError
        As `read_rows` does; also at a later batch, for what is wrong there.
    """

    def __init__(
        self,
        table: str | Path | AnyTable,
        coding: Columns,
        *,
        where: str,
        with_outcome: bool = True,
        columns: tuple[str, ...] = (),
    ) -> None:
        self._table = open_table(table) if isinstance(table, str | Path) else table
        self._coding = coding
        self._where = where
        self._with_outcome = with_outcome
        #: Names of the features in the order of the matrix, and of the group behind them.
        self.columns = columns or (coding.matrix_columns if with_outcome else coding.columns)
        coding.needed(with_outcome=with_outcome)  # a description without an outcome is refused here
        self._state = self._table.state()
        self._last: tuple[int, int] | None = None  # rows and checksum of the pass before

    def __repr__(self) -> str:
        return f"TableStream({self._table!r}, {len(self.columns)} columns)"

    def __iter__(self) -> Generator[_Batch]:
        """Start a pass."""
        return prefetched(self._pass)

    def _pass(self) -> Generator[_Batch]:
        self.require_same_file()
        problem: DataError | None = None
        try:
            batches = encoded_batches(
                self._table, self._coding, self._where, with_outcome=self._with_outcome
            )
            # Left to itself, the table would stay open for as long as somebody keeps an error.
            with closing(batches):
                yield from self._compared(batches)
        except DataError as error:
            problem = error
        self.require_same_file()  # if it is another one, nothing else is worth saying
        if problem is not None:
            raise problem

    def _compared(self, batches: Iterable[_Batch]) -> Generator[_Batch]:
        """`batches`, and an error if they were other ones at the last pass that was not left early.

        A file has a time; of a query the rows themselves are compared.
        """
        rows = checksum = 0
        for X, y in batches:
            rows += len(y)
            if self._state is None:  # before the caller, who may write, has them
                for part in (y, X):
                    checksum = zlib.crc32(np.ascontiguousarray(part).data, checksum)
            yield X, y
        last = self._last or (rows, checksum)
        if last[0] != rows:
            raise self._changed(f"it had {last[0]} rows and now has {rows}")
        if last[1] != checksum:
            raise self._changed("its rows are others than at the last pass")
        self._last = rows, checksum

    @property
    def is_file(self) -> bool:
        """Whether it tells by itself that it has changed; of a query only its rows do."""
        return self._state is not None

    def require_same_file(self) -> None:
        """Refuse a file that is another one than at the start."""
        if self._table.state() != self._state:
            raise self._changed("its size or its time is another")

    def _changed(self, how: str) -> TableError:
        return TableError(
            f"{self._table.words} must stay as it is while a study runs; {how}. "
            "Run the study on a copy that nobody writes to."
        )


class DecodedOnce:
    """The batches of a `TableStream`; a file that fits into `KEPT_BYTES` is decoded only once.

    A larger one is decoded anew at every pass, and nothing of it is kept. So is a query: only its
    rows tell whether they have changed. Batches that are kept cannot be written to.

    Parameters
    ----------
    stream : TableStream
    """

    def __init__(self, stream: TableStream) -> None:
        self._stream = stream
        self.columns = stream.columns
        self._kept: list[_Batch] = []
        self._bytes = 0

    def __iter__(self) -> Iterator[_Batch]:
        """Start a pass."""
        if not self._kept:
            return self._first() if self._stream.is_file else iter(self._stream)
        self._stream.require_same_file()
        return iter(self._kept)

    def _first(self) -> Generator[_Batch]:
        room = KEPT_BYTES - sum(other._bytes for other in _KEEPING)
        kept: list[_Batch] = []
        size = 0
        with closing(iter(self._stream)) as batches:
            for X, y in batches:
                size += X.nbytes + y.nbytes
                if size <= room:
                    X.flags.writeable = y.flags.writeable = False
                    kept.append((X, y))
                else:
                    kept.clear()
                yield X, y
        if kept:
            self._kept, self._bytes = kept, size
            _KEEPING.add(self)
            import pyarrow as pa

            # Give the system back what decoding took: pyarrow keeps it, a third of the rows' size.
            pa.default_memory_pool().release_unused()


#: Tables that are kept. One that nobody uses any more makes room for others.
_KEEPING: weakref.WeakSet[DecodedOnce] = weakref.WeakSet()


@dataclass(frozen=True)
class RowStream(RowBatches):
    """The rows of a target in batches: a `fedcsa.core.batches.RowBatches`.

    Attributes
    ----------
    stream : TableStream
        Without outcomes.
    """

    stream: TableStream

    def __iter__(self) -> Iterator[Array]:
        """Start a pass."""
        return (X for X, _ in self.stream)


def encoded_batches(
    table: AnyTable, coding: Columns, where: str, *, with_outcome: bool
) -> Generator[_Batch]:
    """Rows and outcomes as numbers, in batches; the group behind the features, beside outcomes.

    Parameters
    ----------
    table : AnyTable
    coding : Columns
    where : str
        Whose table it is, for the sentences.
    with_outcome : bool
        Without it, outcomes and group are not read, and zeros stand for the outcomes.
    """
    asked = {"with_outcome": with_outcome, "with_group": with_outcome}
    first_row = 1
    with closing(table.pieces(coding.needed(**asked), coding.with_few_texts)) as pieces:
        for rows in dealt(pieces):
            X, y = coding.encode(rows, where, **asked, first_row=first_row)
            yield X, np.zeros(len(X)) if y is None else y
            first_row += rows.num_rows
    if first_row == 1:
        raise no_rows(where)


def read_rows(
    table: AnyTable, coding: Columns, where: str, *, with_outcome: bool
) -> tuple[Array, Array]:
    """All rows and outcomes as numbers, held in memory.

    Batch by batch, into a matrix that grows in its place: a table of texts takes several times
    the memory of its numbers, and numbers that are joined at the end take it twice.

    Parameters
    ----------
    table, coding, where, with_outcome
        As for `encoded_batches`.

    Raises
    ------
    DataError
        With one line for everything that is wrong, counted over all rows.
    """
    X, y = _Held(), _Held()
    try:
        with closing(encoded_batches(table, coding, where, with_outcome=with_outcome)) as batches:
            for X_batch, y_batch in batches:
                X.append(X_batch)
                y.append(y_batch)
    except TableError:
        raise
    except DataError:  # the same over all rows, for the counts
        asked = {"with_outcome": with_outcome, "with_group": with_outcome}
        coding.encode(table.read(coding.needed(**asked)), where, **asked)
        raise
    return X.rows(), y.rows()


class _Held:
    """Rows that become more."""

    def __init__(self) -> None:
        self._rows: Array = np.empty(0)
        self._n_rows = 0

    def append(self, rows: Array) -> None:
        """Put `rows` behind those that are held."""
        n_rows = self._n_rows + len(rows)
        if n_rows > len(self._rows):
            # The system moves large blocks without a copy, so that they need little room to spare.
            self._rows.resize((n_rows + n_rows // _SPARE, *rows.shape[1:]), refcheck=False)
        self._rows[self._n_rows : n_rows] = rows
        self._n_rows = n_rows

    def rows(self) -> Array:
        """All of them."""
        self._rows.resize((self._n_rows, *self._rows.shape[1:]), refcheck=False)
        return self._rows


def dealt(pieces: Iterable[pa.RecordBatch]) -> Generator[pa.Table]:
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


def prefetched(make: Callable[[], Generator[_Item]]) -> Generator[_Item]:
    """The items of ``make()``, of which at most `AHEAD` are made before they are asked for.

    They are made in one thread, which ends with the last item, with an error, which is raised
    here, and when nobody wants any more. It always closes ``make()``, which must close what it
    opens itself.

    >>> list(prefetched(lambda: (number**2 for number in range(4))))
    [0, 1, 4, 9]
    """
    made: queue.SimpleQueue[tuple[_Item] | BaseException | None] = queue.SimpleQueue()
    room = threading.Semaphore(AHEAD)
    unwanted = threading.Event()

    def work() -> None:
        outcome: BaseException | None = None
        try:
            with closing(make()) as items:
                while room.acquire() and not unwanted.is_set():
                    made.put((next(items),))
        except StopIteration:
            pass
        except BaseException as error:  # whatever it is, the caller must hear of it
            outcome = error
        made.put(outcome)

    # A daemon: a pass that was left open does not keep the interpreter from ending.
    thread = threading.Thread(target=work, name="fedcsa-prefetch", daemon=True)
    thread.start()
    try:
        while isinstance(item := made.get(), tuple):
            room.release()
            yield item[0]
        if item is not None:
            raise item
    finally:
        unwanted.set()
        room.release()
        thread.join()

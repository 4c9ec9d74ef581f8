"""Rows that come in batches, held in memory or read anew for every pass; passes on all cores."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial, reduce
from itertools import chain, islice
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from fedcsa.core.arrays import LARGEST, Array, as_matrix, as_vector, in_bands

#: Rows a batch, the last one aside. Sums are made batch by batch in their order, so that one
#: who reads a table in pieces gets the numbers of one who holds it, to the bit.
BATCH_ROWS = 16_384
#: Rows of a batch that are worked on together: what is made of them stays in the processor's cache.
CACHED_ROWS = 4096


Item = TypeVar("Item")
Found = TypeVar("Found")


class Batches(Protocol):
    """A table of features and outcomes that can be gone through again and again.

    Every pass gives the same rows in the same order, as pairs of a finite matrix (rows, features)
    and finite outcomes (rows,), both float64, with `BATCH_ROWS` rows in all batches but the last.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the features, in the order of the matrix."""
        ...

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        """Start a pass."""
        ...


class RowBatches:
    """Rows of features, without outcomes, that can be gone through again and again.

    Every pass gives the same rows in the same order, as matrices (rows, features) of float64 with
    `BATCH_ROWS` rows in all batches but the last.
    """

    def __iter__(self) -> Iterator[Array]:
        """Start a pass."""
        raise NotImplementedError


@dataclass(frozen=True)
class HeldRows(RowBatches):
    """Rows in memory, in batches.

    >>> [len(X) for X in HeldRows(np.zeros((20_000, 1)))]
    [16384, 3616]
    """

    X: Array = field(repr=False)

    def __iter__(self) -> Iterator[Array]:
        """Start a pass."""
        for start in range(0, len(self.X), BATCH_ROWS):
            yield self.X[start : start + BATCH_ROWS]


@dataclass(frozen=True)
class HeldBatches:
    """Rows in memory, in batches.

    >>> held = HeldBatches(("age",), np.zeros((20_000, 1)), np.zeros(20_000))
    >>> [len(y) for _, y in held]
    [16384, 3616]
    """

    columns: tuple[str, ...]
    X: Array = field(repr=False)
    y: NDArray[np.float64] = field(repr=False)

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        """Start a pass."""
        return zip(HeldRows(self.X), HeldRows(self.y), strict=True)


@dataclass(frozen=True)
class BandedBatches:
    """The rows of a table without the last few, so that a multiple of `band` is left.

    >>> held = HeldBatches(("age",), np.zeros((16_387, 1)), np.zeros(16_387))
    >>> [len(y) for _, y in BandedBatches(held, 10)]
    [16380]
    """

    rows: Batches
    band: int

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the features."""
        return self.rows.columns

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        """Start a pass; the last two batches are held back until the end is known."""
        held: deque[tuple[Array, Array]] = deque()
        n_rows = passed = 0
        for batch in self.rows:
            held.append(batch)
            n_rows += len(batch[1])
            if len(held) > 2:
                passed += len(held[0][1])
                yield held.popleft()
        left = in_bands(n_rows, self.band) - passed
        for X, y in held:
            kept = min(left, len(y))
            if kept:
                yield X[:kept], y[:kept]
            left -= kept


def in_blocks(rows: Array) -> Iterator[Array]:
    """The rows of a batch, `CACHED_ROWS` at a time.

    >>> [len(block) for block in in_blocks(np.zeros((10_000, 1)))]
    [4096, 4096, 1808]
    """
    for start in range(0, len(rows), CACHED_ROWS):
        yield rows[start : start + CACHED_ROWS]


#: Rows, the first of them, the mean from there, squares around the mean.
ColumnSums: TypeAlias = tuple[int, Array, Array, Array]


def column_sums(batch: tuple[Array, Array]) -> ColumnSums:
    """What means and sds of columns follow from, of one batch; every cell is checked."""
    X, y = batch
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = X - X[0]
        mean = np.full(len(X), 1.0 / len(X)) @ deviation
        deviation -= mean
        squares = np.einsum("ij,ij->j", deviation, deviation)
        size = np.abs(X[0]).max(initial=0.0) + squares.max(initial=0.0) + abs(y.sum())
    if not size < LARGEST:  # what is no number is seen in the sums; then every cell is looked at
        as_matrix(X, "A batch of rows")
        as_vector(y, "A batch of outcomes")
    return len(y), X[0], mean, squares


def joined_sums(a: ColumnSums, b: ColumnSums) -> ColumnSums:
    """Of the rows of both; means are told from the first row of all.

    Parameters
    ----------
    a, b : ColumnSums

    Examples
    --------
    >>> two = column_sums((np.array([[1.0], [3.0]]), np.zeros(2)))
    >>> joined_sums(two, column_sums((np.array([[5.0]]), np.zeros(1))))
    (3, array([1.]), array([2.]), array([8.]))
    """
    (n, origin, mean, squares), (size, first, from_first, own_squares) = a, b
    own = (first - origin) + from_first
    share = size / (n + size)
    squares = squares + (own_squares + n * share * (own - mean) ** 2)
    return n + size, origin, mean + share * (own - mean), squares


def known_moments(
    rows: Iterable[tuple[Array, Array]], pairs: Sequence[tuple[int, int]]
) -> tuple[Array, Array]:
    """Means and sds of columns over the rows in which another column is 0, by one pass.

    Parameters
    ----------
    rows : iterable of (X, y)
        Batches of shapes (rows, columns) and (rows,).
    pairs : sequence of (int, int)
        Positions of a column, and of the one that is 1 where its cell is missing.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [3.0, 0.0], [99.0, 1.0]])
    >>> known_moments([(X, np.zeros(3))], [(0, 1)])
    (array([2.]), array([1.]))
    """
    n, mean, m2 = np.zeros((3, len(pairs)))
    for X, _ in rows:
        for k, (column, mark) in enumerate(pairs):
            known = X[X[:, mark] == 0.0, column]
            if len(known):
                apart = known.mean() - mean[k]
                m2[k] += len(known) * (known.var() + apart**2 * n[k] / (n[k] + len(known)))
                n[k] += len(known)
                mean[k] += apart * len(known) / n[k]
    return mean, np.sqrt(m2 / np.maximum(n, 1.0))


# On several cores ---------------------------------------------------------------------------


def available_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """While it lasts, BLAS works on one thread: two levels of threads would fight for cores.

    The first to enter limits it and the last to leave lets it go, in whatever threads they are.
    """
    with _held.lock:
        _held.users += 1
        if _held.users == 1:
            # Looking for the libraries takes longer than a small problem.
            _held.libraries = _held.libraries or ThreadpoolController()
            _held.limits = _held.libraries.limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _held.lock:
            _held.users -= 1
            if _held.users == 0 and _held.limits is not None:
                _held.limits.restore_original_limits()
                _held.limits = None


class _Held:
    """How many hold BLAS to one thread, what it had before, and the BLAS libraries here."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.limits: Any = None
        self.libraries: ThreadpoolController | None = None


_held = _Held()


def over_blocks(
    batches: Iterable[Iterable[Item]],
    of_block: Callable[[Item], Found],
    merge: Callable[[Found, Found], Found],
) -> Found:
    """One pass: what `of_block` makes of all rows, merged block by block, batches on all cores.

    Parameters
    ----------
    batches : iterable of iterables
        Blocks of every batch, a few rows each. The thread that works on a batch asks for them.
    of_block : function of a block
    merge : function
        Of two of its results.

    Examples
    --------
    >>> over_blocks([[1, 2], [3]], lambda block: [block * block], lambda a, b: a + b)
    [1, 4, 9]
    """
    of_batch: Callable[[Iterable[Found]], Found] = partial(reduce, merge)
    coming = map(partial(map, of_block), batches)
    first = list(islice(coming, 2))
    if len(first) == 1:  # threads would take longer than they save
        return of_batch(first[0])
    return reduce(merge, in_order(of_batch, chain(first, coming)))


def in_order(
    function: Callable[[Item], Found], items: Iterable[Item], workers: int | None = None
) -> Iterator[Found]:
    """``map(function, items)`` on threads; numpy lets go of the interpreter while it works.

    At most `workers` + 1 items are on their way at a time, so that a long table is never held.
    What comes out does not depend on the number of workers.

    Parameters
    ----------
    function : function of one item
        It must not call `in_order` itself: all calls share their threads.
    items : iterable
    workers : int, optional
        Threads; by default as many as there are cores.

    Examples
    --------
    >>> list(in_order(lambda x: x * x, range(5), workers=2))
    [0, 1, 4, 9, 16]
    """
    workers = workers or available_cores()
    if workers == 1:
        yield from map(function, items)
        return
    waiting: deque[Future[Found]] = deque()
    pool, interrupted = _threads(workers), False
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except KeyboardInterrupt:  # whoever presses Ctrl-C does not wait for the batches on their way
        interrupted = True
        raise
    finally:
        for future in waiting:
            future.cancel()
        if not interrupted:
            wait(waiting)  # nobody works on after the caller has left


@cache
def _threads(workers: int) -> ThreadPoolExecutor:
    """The threads of this process: to start them takes longer than to sum a small batch."""
    return ThreadPoolExecutor(workers, thread_name_prefix="fedcsa")


if hasattr(os, "register_at_fork"):  # a forked child has none of its parent's threads
    os.register_at_fork(after_in_child=_threads.cache_clear)

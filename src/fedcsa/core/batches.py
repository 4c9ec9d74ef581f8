"""Rows that come in batches: held in memory, or read anew for every pass over a table."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array, as_matrix, as_vector
from fedcsa.core.parallel import in_order

#: Rows a batch, the last one aside. Sums are made batch by batch in their order, so that one
#: who reads a table in pieces gets the numbers of one who holds it, to the bit.
BATCH_ROWS = 16_384


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
        for start in range(0, len(self.y), BATCH_ROWS):
            stop = start + BATCH_ROWS
            yield self.X[start:stop], self.y[start:stop]


def in_bands(n_rows: int, band: int) -> int:
    """The largest multiple of `band` up to `n_rows`; fewer rows than one band stay as they are.

    >>> in_bands(347, 10), in_bands(7, 10)
    (340, 7)
    """
    return n_rows - n_rows % band if n_rows >= band else n_rows


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


class HashedBatches:
    """Rows that are hashed while somebody goes through them, once.

    >>> held = HeldBatches(("age",), np.zeros((2, 1)), np.zeros(2))
    >>> HashedBatches(held).see_all()[:8]
    '66687aad'
    """

    def __init__(self, rows: Batches) -> None:
        self.columns = rows.columns
        self.sha256 = hashlib.sha256()
        self._rows = rows

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        """Start the pass."""
        for X, y in self._rows:
            self.sha256.update(np.ascontiguousarray(X).data)
            self.sha256.update(np.ascontiguousarray(y).data)
            yield X, y

    def see_all(self) -> str:
        """Go through all rows; their hash."""
        for _ in self:
            pass
        return self.sha256.hexdigest()


@dataclass(frozen=True)
class RowsSummary:
    """What one pass finds out before anything is computed."""

    n_rows: int
    sd: Array = field(repr=False)
    outcome_varies: bool


def summarise(rows: Batches) -> RowsSummary:
    """Go through `rows` once; whatever is wrong with them comes to light here.

    >>> rows = HeldBatches(("age", "sex"), np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([4.0, 4.0]))
    >>> summarise(rows)
    RowsSummary(n_rows=2, outcome_varies=False)
    """
    n, mean, m2 = 0, np.zeros(len(rows.columns)), np.zeros(len(rows.columns))
    lowest, highest = np.inf, -np.inf
    origin: Array | None = None  # the first row: means are told apart from there
    for first, size, from_first, squares, low, high in in_order(_of_batch, rows):
        origin = first if origin is None else origin
        own = (first - origin) + from_first
        share = size / (n + size)
        m2 += squares + n * share * (own - mean) ** 2
        mean += share * (own - mean)
        n += size
        lowest, highest = min(lowest, low), max(highest, high)
    return RowsSummary(n, np.sqrt(m2 / max(n, 1)), highest > lowest)


def _of_batch(batch: tuple[Array, Array]) -> tuple[Array, int, Array, Array, float, float]:
    X, y = as_matrix(batch[0], "A batch of rows"), as_vector(batch[1], "A batch of outcomes")
    deviation = X - X[0]
    mean = deviation.mean(axis=0)
    deviation -= mean
    squares = np.einsum("ij,ij->j", deviation, deviation)
    return X[0], len(y), mean, squares, float(y.min()), float(y.max())

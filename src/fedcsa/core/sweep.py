"""A source with linear models in a few passes over its rows, which need not fit into memory.

==========  ==========================================  ==================================
pass        on every batch                              gives
==========  ==========================================  ==================================
`density`   ψ; Σψψᵀ and the triangle of (1, x, y)       α of every fold, models with γ = 0
`weigh`     ψ; the mean of every fold's ratio           where ratios are floored
`train`     triangles of r^γ-weighted rows              models with γ > 0
`judge`     ψ; losses of a few candidates, products     risk moments, guard terms, overlap
==========  ==========================================  ==================================

`weigh` and `train` are left out where no candidate has γ > 0. The largest array is ψ of one batch.
Sums are made in the order of the batches, so that nothing depends on the number of cores, or on
whether the rows are held or read. `judge` is in `fedcsa.core.judging`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.core.batches import Batches, HeldBatches
from fedcsa.core.embedding import FoldGrams, MeanEmbedding
from fedcsa.core.folds import fold_labels
from fedcsa.core.guard import RATIO_FLOOR, RatioFit
from fedcsa.core.parallel import in_order
from fedcsa.core.ridge import merge_triangles, triangle

Sums = tuple[Array, ...]
Batch = tuple[int, Array, Array]


@dataclass(frozen=True)
class Piece:
    """The rows of one fold in one batch."""

    fold: int
    psi: Array
    design: Array  # (1, x, y) less the shift


@dataclass(frozen=True)
class Frame:
    """How a study sees a source's rows.

    Attributes
    ----------
    rows : Batches
    columns : array of int
        The study's features among those of `rows`.
    embedding : MeanEmbedding
    scale : bool
        Whether models see features in the target's units.
    n_folds, key : int
        Of `fold_labels`.
    shift : array of shape (features + 1,)
        Taken off x and y before they are multiplied, so that no digits cancel.
    """

    rows: Batches
    columns: Sequence[int]
    embedding: MeanEmbedding
    scale: bool
    n_folds: int
    key: int
    shift: Array = field(repr=False)

    def seen(self, X: Array) -> tuple[Array, Array]:
        """Rows in the target's units, and as the models see them."""
        picked = X[:, self.columns]
        z = self.embedding.basis.standardise(picked)
        return z, (z if self.scale else picked)

    def pieces(self, start: int, X: Array, y: Array) -> Iterator[Piece]:
        """A batch, fold by fold."""
        labels = fold_labels(start, start + len(y), self.n_folds, self.key)
        for fold in range(self.n_folds):
            rows = np.flatnonzero(labels == fold)
            z, seen = self.seen(X[rows])
            design = np.column_stack([np.ones(len(rows)), seen, y[rows]])
            design[:, 1:] -= self.shift
            yield Piece(fold, self.embedding.basis.of_standardised(z), design)

    def batches(self) -> Iterator[Batch]:
        """The rows with the position of every batch's first one."""
        start = 0
        for X, y in self.rows:
            yield start, X, y
            start += len(y)


def pilot_shift(X: Array, y: Array, *, intercept: bool) -> Array:
    """What to take off x and y: about their means; nothing if the line goes through the origin.

    A constant column is shifted to exact zeros.
    """
    columns = np.column_stack([X, y])
    if not intercept:
        return np.zeros(columns.shape[1])
    constant = np.ptp(columns, axis=0) == 0.0
    shift: Array = np.where(constant, columns[0], columns.mean(axis=0))
    return shift


# Passes -------------------------------------------------------------------------------------


def density(frame: Frame) -> tuple[FoldGrams, Array]:
    """Σψψᵀ of every fold, and the triangle of its rows (1, x, y), shape (folds, size, size)."""

    def of_batch(batch: Batch) -> tuple[Sums, Array]:
        pieces = list(frame.pieces(*batch))
        grams = np.stack([piece.psi.T @ piece.psi for piece in pieces])
        sizes = np.array([float(len(piece.psi)) for piece in pieces])
        return (sizes, grams), np.stack([triangle(piece.design) for piece in pieces])

    (sizes, grams), triangles = total_of(in_order(of_batch, frame.batches()))
    return FoldGrams(sizes, grams), triangles


def weigh(frame: Frame, fit: RatioFit) -> tuple[Array, list[Array] | None]:
    """Mean ratio of every fit over the rows it has seen, and the ratios if rows are held anyway."""
    kept: list[Array] | None = [] if isinstance(frame.rows, HeldBatches) else None

    def of_batch(batch: Batch) -> tuple[Array, Array, Array]:
        ratios, labels = all_ratios(frame, fit, batch)
        outside = labels[:, None] != np.arange(frame.n_folds)
        return ratios, (ratios * outside).sum(axis=0), outside.sum(axis=0)

    total, count = np.zeros(frame.n_folds), np.zeros(frame.n_folds)
    for ratios, summed, outside in in_order(of_batch, frame.batches()):
        total += summed
        count += outside
        if kept is not None:
            kept.append(ratios)
    return total / count, kept


def train(
    frame: Frame, fit: RatioFit, means: Array, kept: list[Array] | None, powers: Sequence[float]
) -> tuple[Array, Array]:
    """Triangles of the rows without each fold, weighted by r^γ, and Σ r^γ.

    Shapes (powers, folds, size, size) and (powers, folds).
    """
    floors = floor_of(means)
    size = len(frame.shift) + 1

    def of_batch(item: tuple[Batch, Array | None]) -> tuple[Sums, Array]:
        batch, ratios = item
        if ratios is None:
            ratios, _ = all_ratios(frame, fit, batch)
        start, X, y = batch
        labels = fold_labels(start, start + len(y), frame.n_folds, frame.key)
        design = np.column_stack([np.ones(len(y)), frame.seen(X)[1], y])
        design[:, 1:] -= frame.shift
        totals = np.zeros((len(powers), frame.n_folds))
        triangles = np.zeros((len(powers), frame.n_folds, size, size))
        for k in range(frame.n_folds):
            others = labels != k
            lifted = np.maximum(ratios[others, k], floors[k])
            rows = design[others]
            for p, power in enumerate(powers):
                root = lifted ** (0.5 * power)
                totals[p, k] = root @ root
                triangles[p, k] = _tall_triangle(rows, root)
        return (totals,), triangles

    together = zip(frame.batches(), kept or _nothing(), strict=False)
    (totals,), triangles = total_of(in_order(of_batch, together))
    return triangles, totals


def refit(frame: Frame, fit: RatioFit, mean: float, power: float) -> tuple[Array, float]:
    """The triangle of all rows, weighted by r^γ of the fit that has not seen them, and Σ r^γ."""
    floor = float(floor_of(np.array(mean)))

    def of_batch(batch: Batch) -> tuple[Sums, Array]:
        pieces, total = [], 0.0
        for piece in frame.pieces(*batch):
            root = np.maximum(fit.ratios(piece.psi, piece.fold), floor) ** (0.5 * power)
            total += float(root @ root)
            pieces.append(triangle(piece.design * root[:, None]))
        return (np.array(total),), merge_triangles(*pieces)

    (total,), R = total_of(in_order(of_batch, frame.batches()))
    return R, float(total)


# Pieces -------------------------------------------------------------------------------------


def floor_of(means: Array) -> Array:
    """The smallest ratio used in training weights, see `fedcsa.core.guard.floored`."""
    floors: Array = RATIO_FLOOR * np.maximum(means, 1e-12)
    return floors


def all_ratios(frame: Frame, fit: RatioFit, batch: Batch) -> tuple[Array, NDArray[np.int16]]:
    """Ratios of a batch's rows under every fit, shape (rows, folds), and the rows' folds."""
    start, X, y = batch
    psi = frame.embedding.basis.of_standardised(frame.seen(X)[0])
    ratios: Array = np.maximum(psi @ fit.coefficients.T, 0.0)
    return ratios, fold_labels(start, start + len(y), frame.n_folds, frame.key)


def _tall_triangle(rows: Array, root: Array, chunk: int = 2048) -> Array:
    """`triangle` of weighted rows, in chunks that stay in the cache."""
    parts = [
        triangle(rows[start : start + chunk] * root[start : start + chunk, None])
        for start in range(0, max(len(rows), 1), chunk)  # none at all have a triangle of zeros
    ]
    return merge_triangles(*parts)


def total_of(parts: Iterable[tuple[Sums, Array]]) -> tuple[Sums, Array]:
    """Sums added up and triangles merged, in order."""

    def join(left: tuple[Sums, Array], right: tuple[Sums, Array]) -> tuple[Sums, Array]:
        sums = tuple(a + b for a, b in zip(left[0], right[0], strict=True))
        return sums, merge_triangles(left[1], right[1])

    return reduce(join, parts)


def _nothing() -> Iterator[None]:
    while True:
        yield None

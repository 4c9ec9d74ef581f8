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
Sums are made in the order of the batches, so that nothing depends on the number of
cores, or on whether the rows are held or read.
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
from fedcsa.core.losses import Loss
from fedcsa.core.parallel import in_order
from fedcsa.core.ridge import merge_triangles, triangle

Sums = tuple[Array, ...]
Batch = tuple[int, Array, Array]

#: Squares of ratios below this might be lost.
TINY_RATIO = 1e-60


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

    (sizes, grams), triangles = _total(in_order(of_batch, frame.batches()))
    return FoldGrams(sizes, grams), triangles


def weigh(frame: Frame, fit: RatioFit) -> tuple[Array, list[Array] | None]:
    """Mean ratio of every fit over the rows it has seen, and the ratios if rows are held anyway."""
    kept: list[Array] | None = [] if isinstance(frame.rows, HeldBatches) else None

    def of_batch(batch: Batch) -> tuple[Array, Array, Array]:
        ratios, labels = _all_ratios(frame, fit, batch)
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
            ratios, _ = _all_ratios(frame, fit, batch)
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
    (totals,), triangles = _total(in_order(of_batch, together))
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

    (total,), R = _total(in_order(of_batch, frame.batches()))
    return R, float(total)


@dataclass(frozen=True)
class Pilot:
    """What the first batch says: about where ratios and losses lie, so that no digits cancel.

    Attributes
    ----------
    scale : float
        A power of two; ratios are multiplied with it, lest the squares of tiny ones be zero.
    ratio : float
        About the mean of (scaled) ratios.
    plain, weighted : array of shape (columns,)
        About the mean of losses, over the rows and over the rows weighted by r.
    """

    scale: float
    ratio: float
    plain: Array
    weighted: Array


@dataclass(frozen=True)
class Judged:
    """Sums over all rows of what their losses, ratios and features have to say.

    With r' = r − pilot.ratio, L° = L − pilot.plain, w = r (L − pilot.weighted).

    Attributes
    ----------
    pilot : Pilot
    plain_grams : tuple of array
        Of every block of columns, Σuuᵀ with u = (1, L°).
    ratio_grams : tuple of array
        The same with u = (1, r', w).
    weighted_grams : tuple of array
        The same with u = √r (L − pilot.weighted).
    plain : array of shape (folds, 1 + features, 1 + columns)
        Σ (1, ψ)(1, L°)ᵀ by fold.
    mixed : array of shape (folds, 1 + features, columns)
        Σ (1, ψ) wᵀ.
    features : array of shape (folds, 1 + features, 1 + features)
        Σ r (1, ψ)(1, ψ)ᵀ.
    triangle : array of shape (size, size)
        Of the rows √r (1, x, y), less their shift.
    largest_ratio : float
    """

    pilot: Pilot
    plain_grams: tuple[Array, ...]
    ratio_grams: tuple[Array, ...]
    weighted_grams: tuple[Array, ...]
    plain: Array
    mixed: Array
    features: Array
    triangle: Array
    largest_ratio: float


def judge(
    frame: Frame,
    fit: RatioFit,
    residuals: Array,
    blocks: Sequence[slice],
    loss: Loss,
) -> Judged:
    """Losses of the columns of `residuals`, shape (folds, size, columns), on the rows held out.

    A column's prediction error on a row is aᵀ residual.
    """
    pilot = _pilot(frame, fit, residuals, loss)

    def of_piece(piece: Piece) -> tuple[tuple[Array, ...], Sums, Array, float]:
        ratios = pilot.scale * fit.ratios(piece.psi, piece.fold)
        ones, root = np.ones(len(ratios)), np.sqrt(ratios)[:, None]
        losses = loss(piece.design @ residuals[piece.fold], np.zeros((1, 1)))
        centred = losses - pilot.weighted
        products = ratios[:, None] * centred
        losses -= pilot.plain
        lifted = np.column_stack([ones, piece.psi])
        by_fold = [lifted.T @ np.column_stack([ones, losses]), lifted.T @ products]
        lifted *= root
        by_fold.append(lifted.T @ lifted)
        centred *= root
        grams = []
        for block in blocks:
            plain = np.column_stack([ones, losses[:, block]])
            ratio = np.column_stack([ones, ratios - pilot.ratio, products[:, block]])
            own = centred[:, block]
            grams += [plain.T @ plain, ratio.T @ ratio, own.T @ own]
        largest = float(ratios.max(initial=0.0))
        return tuple(by_fold), tuple(grams), triangle(piece.design * root), largest

    def of_batch(batch: Batch) -> tuple[Sums, Array, float]:
        found = [of_piece(piece) for piece in frame.pieces(*batch)]
        by_fold = [np.stack(parts) for parts in zip(*(f[0] for f in found), strict=True)]
        grams = [sum(parts[1:], parts[0]) for parts in zip(*(f[1] for f in found), strict=True)]
        return (
            (*by_fold, *grams),
            merge_triangles(*(f[2] for f in found)),
            max(f[3] for f in found),
        )

    largest = 0.0

    def noted(parts: Iterable[tuple[Sums, Array, float]]) -> Iterator[tuple[Sums, Array]]:
        nonlocal largest
        for sums, part, top in parts:
            largest = max(largest, top)
            yield sums, part

    sums, R = _total(noted(in_order(of_batch, frame.batches())))
    plain, mixed, features, *grams = sums
    return Judged(
        pilot,
        tuple(grams[::3]),
        tuple(grams[1::3]),
        tuple(grams[2::3]),
        plain,
        mixed,
        features,
        R,
        largest,
    )


def weighted_pilot_triangle(frame: Frame, fit: RatioFit) -> Array:
    """The triangle of the first batch's rows (1, x, y), weighted by r: rows that count."""
    parts = []
    for piece in frame.pieces(*next(iter(frame.batches()))):
        ratios = fit.ratios(piece.psi, piece.fold)
        largest = float(ratios.max(initial=0.0))
        parts.append(triangle(piece.design * np.sqrt(ratios / (largest or 1.0))[:, None]))
    return merge_triangles(*parts)


# Pieces -------------------------------------------------------------------------------------


def floor_of(means: Array) -> Array:
    """The smallest ratio used in training weights, see `fedcsa.core.guard.floored`."""
    floors: Array = RATIO_FLOOR * np.maximum(means, 1e-12)
    return floors


def _all_ratios(frame: Frame, fit: RatioFit, batch: Batch) -> tuple[Array, NDArray[np.int16]]:
    """Ratios of a batch's rows under every fit, shape (rows, folds), and the rows' folds."""
    start, X, y = batch
    psi = frame.embedding.basis.of_standardised(frame.seen(X)[0])
    ratios: Array = np.maximum(psi @ fit.coefficients.T, 0.0)
    return ratios, fold_labels(start, start + len(y), frame.n_folds, frame.key)


def _largest(frame: Frame, fit: RatioFit, batch: Batch) -> float:
    return float(_all_ratios(frame, fit, batch)[0].max())


def _pilot(frame: Frame, fit: RatioFit, residuals: Array, loss: Loss) -> Pilot:
    pieces = list(frame.pieces(*next(iter(frame.batches()))))
    ratios = np.concatenate([fit.ratios(piece.psi, piece.fold) for piece in pieces])
    losses = np.vstack(
        [loss(piece.design @ residuals[piece.fold], np.zeros((1, 1))) for piece in pieces]
    )
    scale, largest = 1.0, float(ratios.max())
    if largest < TINY_RATIO:  # rare: a source so far away that a look at all rows is worth it
        largest = max(
            in_order(lambda b: float(_all_ratios(frame, fit, b)[0].max()), frame.batches())
        )
        if 0.0 < largest < TINY_RATIO:
            scale = float(2.0 ** min(-np.floor(np.log2(largest)), 1000.0))
    ratios = ratios * scale
    total = float(ratios.sum())
    weighted = ratios @ losses / total if total > 0.0 else np.median(losses, axis=0)
    return Pilot(scale, float(ratios.mean()), losses.mean(axis=0), weighted)


def _tall_triangle(rows: Array, root: Array, chunk: int = 2048) -> Array:
    """`triangle` of weighted rows, in chunks that stay in the cache."""
    parts = [
        triangle(rows[start : start + chunk] * root[start : start + chunk, None])
        for start in range(0, max(len(rows), 1), chunk)  # none at all have a triangle of zeros
    ]
    return merge_triangles(*parts)


def _total(parts: Iterable[tuple[Sums, Array]]) -> tuple[Sums, Array]:
    """Sums added up and triangles merged, in order."""

    def join(left: tuple[Sums, Array], right: tuple[Sums, Array]) -> tuple[Sums, Array]:
        sums = tuple(a + b for a, b in zip(left[0], right[0], strict=True))
        return sums, merge_triangles(left[1], right[1])

    return reduce(join, parts)


def _nothing() -> Iterator[None]:
    while True:
        yield None

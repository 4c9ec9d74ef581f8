"""The pass in which a source with linear models judges them on rows that they have not seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.guard import RatioFit
from fedcsa.core.losses import Loss
from fedcsa.core.parallel import in_order
from fedcsa.core.ridge import merge_triangles, triangle
from fedcsa.core.sweep import Batch, Frame, Piece, Sums, all_ratios, total_of

#: Squares of ratios below this might be lost.
TINY_RATIO = 1e-60


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

    sums, R = total_of(noted(in_order(of_batch, frame.batches())))
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


def _largest(frame: Frame, fit: RatioFit, batch: Batch) -> float:
    return float(all_ratios(frame, fit, batch)[0].max())


def _pilot(frame: Frame, fit: RatioFit, residuals: Array, loss: Loss) -> Pilot:
    pieces = list(frame.pieces(*next(iter(frame.batches()))))
    ratios = np.concatenate([fit.ratios(piece.psi, piece.fold) for piece in pieces])
    losses = np.vstack(
        [loss(piece.design @ residuals[piece.fold], np.zeros((1, 1))) for piece in pieces]
    )
    scale, largest = 1.0, float(ratios.max())
    if largest < TINY_RATIO:  # rare: a source so far away that a look at all rows is worth it
        largest = max(
            in_order(lambda b: float(all_ratios(frame, fit, b)[0].max()), frame.batches())
        )
        if 0.0 < largest < TINY_RATIO:
            scale = float(2.0 ** min(-np.floor(np.log2(largest)), 1000.0))
    ratios = ratios * scale
    total = float(ratios.sum())
    weighted = ratios @ losses / total if total > 0.0 else np.median(losses, axis=0)
    return Pilot(scale, float(ratios.mean()), losses.mean(axis=0), weighted)

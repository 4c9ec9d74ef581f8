"""From the sums of a sweep to what a source reports: moments, guard terms and overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.embedding import FoldGrams, MeanEmbedding
from fedcsa.core.guard import GuardTerms, RatioFit
from fedcsa.core.overlap import Overlap
from fedcsa.core.risk import RiskMoments
from fedcsa.core.sweep import Judged


@dataclass(frozen=True)
class Block:
    """Candidates whose losses are combinations of the losses of some evaluated columns."""

    columns: slice
    candidates: Sequence[int]
    combinations: Array = field(repr=False)  # (columns, candidates)


def swept_moments(judged: Judged, blocks: Sequence[Block], n_candidates: int) -> RiskMoments:
    """Moments of ratios and of every candidate's losses over all rows."""
    arrays = {name: np.zeros(n_candidates) for name in _PER_CANDIDATE}
    n, mean, m2 = 0.0, 0.0, 0.0
    for block, gram in zip(blocks, judged.block_grams, strict=True):
        p = _Products(judged, block, gram)
        n, mean, m2 = p.n, p.shift + p.sum_r / p.n, max(0.0, p.r_r - p.sum_r**2 / p.n)
        # rL less a constant is S r' + s L' + v
        r_l, r_v = p.r_l - p.sum_r * p.sum_l / n, p.r_v - p.sum_r * p.sum_v / n
        l_l, v_v = p.l_l - p.sum_l**2 / n, p.v_v - p.sum_v**2 / n
        l_v = p.l_v - p.sum_l * p.sum_v / n
        S, s = p.losses, p.shift
        product_m2 = S**2 * m2 + s**2 * l_l + v_v + 2.0 * (S * s * r_l + S * r_v + s * l_v)
        found = {
            "loss_mean": S + p.sum_l / n,
            "loss_m2": np.maximum(0.0, l_l),
            "product_mean": s * S + (S * p.sum_r + s * p.sum_l + p.sum_v) / n,
            "product_m2": np.maximum(0.0, product_m2),
            "co_moment": S * m2 + s * r_l + r_v,
        }
        for name, values in found.items():
            arrays[name][list(block.candidates)] = values
    return RiskMoments(n_rows=round(n), ratio_mean=mean, ratio_m2=m2, **arrays)


def swept_guard(
    judged: Judged, blocks: Sequence[Block], fit: RatioFit, grams: FoldGrams, n_candidates: int
) -> GuardTerms:
    """`fedcsa.core.guard.guard_terms` for weights r/Σr, or equal ones where r ≡ 0."""
    terms = {name: np.zeros(n_candidates) for name in _PER_GUARD}
    if judged.largest_ratio == 0.0:
        judged = replace(judged, ratio_shift=1.0, features=_unweighted(judged, grams))
    expected = _expected(judged, fit)
    for block, gram in zip(blocks, judged.block_grams, strict=True):
        p = _Products(judged, block, gram)
        total, squares = p.n * p.shift + p.sum_r, p.n * p.shift**2 + 2 * p.shift * p.sum_r + p.r_r
        effective = total**2 / squares
        f = (p.shift * p.sum_l + p.sum_v) / total  # less S
        second = (p.shift * p.l_l + p.l_v) / total  # Σ w L'²
        spread = np.maximum(0.0, second - f**2)
        r2_l = p.shift**2 * p.sum_l + 2.0 * p.shift * p.sum_v + p.r_v
        r2_l2 = p.shift**2 * p.l_l + 2.0 * p.shift * p.l_v + p.v_v
        squared_weights = (r2_l2 - 2.0 * f * r2_l + f**2 * squares) / total**2
        variance = np.maximum(squared_weights, spread / effective)
        variance *= effective / max(effective - 1.0, 0.5)
        # Σ w (L − μ)², with Σ w L'² in it
        residual = block.combinations.T @ _explained(judged, expected, block.columns)
        unexplained = second + np.einsum("cq,qc->c", residual, block.combinations) / total
        own = list(block.candidates)
        terms["risk"][own], terms["spread"][own] = p.losses + f, spread
        terms["variance"][own] = variance
        terms["explained"][own] = np.clip(spread - unexplained, 0.0, spread)
    return GuardTerms(**terms)


def swept_overlap(
    judged: Judged, before: Array, shift: Array, scale: tuple[Array, Array], target_mean: float
) -> Overlap:
    """Overlap numbers; `before` are the plain means of the rows in the target's units.

    Parameters
    ----------
    shift : array of shape (features,)
        Taken off the features in `judged`.
    scale : pair of arrays of shape (features,)
        Mean and sd that lead from the models' features to the target's units.
    """
    total, n = float(judged.design[0, 0]), float(judged.plain[:, 0, 0].sum())
    if judged.largest_ratio == 0.0:
        return Overlap(0.0, 0.0, 0.0, target_mean, before, before)
    gram = judged.block_grams[0]
    squares = n * judged.ratio_shift**2 + 2 * judged.ratio_shift * gram[0, 1] + gram[1, 1]
    after = judged.design[0, 1:-1] / total + shift
    return Overlap(
        mean_ratio=total / n,
        effective_rows=float(total**2 / squares),
        largest_share=judged.largest_ratio / total,
        target_mean_ratio=target_mean,
        difference_before=before,
        difference_after=(after - scale[0]) / scale[1],
    )


def swept_kernel_imbalance(judged: Judged, embedding: MeanEmbedding, effective: float) -> float:
    """δ², see `fedcsa.core.guard.kernel_imbalance`."""
    if embedding.trace <= 0.0:
        return 0.0
    sums = judged.features.sum(axis=0)[0]
    if judged.largest_ratio == 0.0:
        sums = judged.plain[:, :, 0].sum(axis=0)
        effective = float(sums[0])
    distance = sums[1:] / sums[0] - embedding.mean_features
    sampling = 1.0 / effective + 1.0 / embedding.n_rows
    return max(0.0, float(distance @ distance) / embedding.trace - sampling)


# Pieces -------------------------------------------------------------------------------------

_PER_CANDIDATE = ("loss_mean", "loss_m2", "product_mean", "product_m2", "co_moment")
_PER_GUARD = ("risk", "spread", "variance", "explained")


class _Products:
    """Sums of products over rows, of r', and of L' and v = r'L' of every candidate of a block."""

    def __init__(self, judged: Judged, block: Block, gram: Array) -> None:
        W, q = block.combinations, block.combinations.shape[0]
        L, V = slice(2, 2 + q), slice(2 + q, 2 + 2 * q)
        self.shift = judged.ratio_shift
        self.losses: Array = judged.loss_shift[block.columns] @ W  # S, the losses' shift
        self.n, self.sum_r, self.r_r = (float(gram[0, 0]), float(gram[0, 1]), float(gram[1, 1]))
        self.sum_l: Array = gram[0, L] @ W
        self.sum_v: Array = gram[0, V] @ W
        self.r_l: Array = gram[1, L] @ W
        self.r_v: Array = gram[1, V] @ W
        self.l_l: Array = np.einsum("qc,qc->c", W, gram[L, L] @ W)
        self.l_v: Array = np.einsum("qc,qc->c", W, gram[L, V] @ W)
        self.v_v: Array = np.einsum("qc,qc->c", W, gram[V, V] @ W)


def _expected(judged: Judged, fit: RatioFit) -> Array:
    """Cross-fitted μ(x) = (1, ψ)ᵀB of every evaluated column, shape (folds, 1 + features, …)."""
    everyone = judged.plain.sum(axis=0)
    found = []
    for fold, own in enumerate(judged.plain):
        others = everyone - own  # Σ (1, ψ)(1, L')ᵀ
        n = others[0, 0]
        mean = others[0, 1:] / n
        moment = (others[1:, 1:] - np.outer(others[1:, 0], mean)) / n
        found.append(np.vstack([mean, fit.loss_coefficients(moment, fold)]))
    return np.stack(found)


def _explained(judged: Judged, expected: Array, columns: slice) -> Array:
    """Σ r (μμᵀ − L'μᵀ − μL'ᵀ), so that with Σ r L'L'ᵀ it is that of the residuals L' − μ."""
    size = columns.stop - columns.start
    total = np.zeros((size, size))
    for fold, B in enumerate(expected):
        own = B[:, columns]
        # Σ r (1, ψ) L'ᵀ
        weighted = judged.ratio_shift * judged.plain[fold, :, 1:] + judged.mixed[fold]
        cross = own.T @ weighted[:, columns]
        total += own.T @ judged.features[fold] @ own - cross - cross.T
    return total


def _unweighted(judged: Judged, grams: FoldGrams) -> Array:
    """Σ (1, ψ)(1, ψ)ᵀ by fold."""
    features = np.zeros_like(judged.features)
    features[:, 1:, 1:] = grams.grams
    features[:, :, 0] = features[:, 0, :] = judged.plain[:, :, 0]
    return features

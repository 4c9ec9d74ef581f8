"""From the sums of the judging pass to what a source reports: moments, guard terms, overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.embedding import FoldGrams, MeanEmbedding
from fedcsa.core.guard import GuardTerms, RatioFit
from fedcsa.core.judging import Judged
from fedcsa.core.overlap import Overlap
from fedcsa.core.risk import RiskMoments


@dataclass(frozen=True)
class Block:
    """Candidates whose losses are combinations of the losses of some evaluated columns."""

    columns: slice
    candidates: Sequence[int]
    combinations: Array = field(repr=False)  # (columns, candidates)


def swept_moments(judged: Judged, blocks: Sequence[Block], n_candidates: int) -> RiskMoments:
    """Moments of ratios and of every candidate's losses over all rows."""
    arrays = {name: np.zeros(n_candidates) for name in _PER_CANDIDATE}
    n, mean, m2, scale = 1.0, 0.0, 0.0, judged.pilot.scale
    for index, block in enumerate(blocks):
        p = _Products(judged, block, index)
        n, mean, m2 = p.n, p.ratio + p.sum_r / p.n, max(0.0, p.r_r - p.sum_r**2 / p.n)
        # rL = S r + w, with S the shift of losses in w
        r_w, w_w = p.r_w - p.sum_r * p.sum_w / n, p.w_w - p.sum_w**2 / n
        product_m2 = p.weighted**2 * m2 + 2.0 * p.weighted * r_w + w_w
        found = {
            "loss_mean": p.plain + p.sum_l / n,
            "loss_m2": np.maximum(0.0, p.l_l - p.sum_l**2 / n),
            "product_mean": (p.weighted * mean + p.sum_w / n) / scale,
            "product_m2": np.maximum(0.0, product_m2) / scale / scale,  # scale² might overflow
            "co_moment": (p.weighted * m2 + r_w) / scale / scale,
        }
        for name, values in found.items():
            arrays[name][list(block.candidates)] = values
    return RiskMoments(
        n_rows=round(n), ratio_mean=mean / scale, ratio_m2=m2 / scale / scale, **arrays
    )


def swept_guard(
    judged: Judged, blocks: Sequence[Block], fit: RatioFit, grams: FoldGrams, n_candidates: int
) -> GuardTerms:
    """`fedcsa.core.guard.guard_terms` for weights r/Σr, or equal ones where r ≡ 0."""
    terms = {name: np.zeros(n_candidates) for name in _PER_GUARD}
    if judged.largest_ratio == 0.0:
        judged = _with_equal_ratios(judged, grams)
    expected = _expected(judged, fit)
    for index, block in enumerate(blocks):
        p = _Products(judged, block, index)
        total, squares = p.total, p.squares
        effective = total**2 / squares
        f = p.sum_w / total  # less S
        second = p.r_l_l / total  # Σ w (L − S)²
        spread = np.maximum(0.0, second - f**2)
        r_times_w = p.ratio * p.sum_w + p.r_w  # Σ r² (L − S)
        squared_weights = (p.w_w - 2.0 * f * r_times_w + f**2 * squares) / total**2
        variance = np.maximum(squared_weights, spread / effective)
        variance *= effective / max(effective - 1.0, 0.5)
        # Σ w (L − μ)², with Σ w (L − S)² in it
        residual = block.combinations.T @ _explained(judged, expected, block.columns)
        unexplained = second + np.einsum("cq,qc->c", residual, block.combinations) / total
        own = list(block.candidates)
        terms["risk"][own], terms["spread"][own] = p.weighted + f, spread
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
    if judged.largest_ratio == 0.0:
        return Overlap(0.0, 0.0, 0.0, target_mean, before, before)
    n, total, squares = _ratio_sums(judged)
    after = judged.triangle[0, 1:-1] / judged.triangle[0, 0] + shift
    return Overlap(
        mean_ratio=total / n / judged.pilot.scale,
        effective_rows=total**2 / squares,
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


def _ratio_sums(judged: Judged) -> tuple[float, float, float]:
    """n, Σr and Σr²."""
    gram, shift = judged.ratio_grams[0], judged.pilot.ratio
    n, sum_r, r_r = float(gram[0, 0]), float(gram[0, 1]), float(gram[1, 1])
    return n, n * shift + sum_r, n * shift**2 + 2.0 * shift * sum_r + r_r


class _Products:
    """Sums of products over rows, of r', and of L° and w of every candidate of a block."""

    def __init__(self, judged: Judged, block: Block, index: int) -> None:
        W = block.combinations
        plain, ratio = judged.plain_grams[index], judged.ratio_grams[index]
        self.n, self.total, self.squares = _ratio_sums(judged)
        self.ratio = judged.pilot.ratio
        self.plain: Array = judged.pilot.plain[block.columns] @ W
        self.weighted: Array = judged.pilot.weighted[block.columns] @ W
        self.sum_r, self.r_r = float(ratio[0, 1]), float(ratio[1, 1])
        self.sum_l: Array = plain[0, 1:] @ W
        self.l_l: Array = np.einsum("qc,qc->c", W, plain[1:, 1:] @ W)
        self.sum_w: Array = ratio[0, 2:] @ W
        self.r_w: Array = ratio[1, 2:] @ W
        self.w_w: Array = np.einsum("qc,qc->c", W, ratio[2:, 2:] @ W)
        self.r_l_l: Array = np.einsum("qc,qc->c", W, judged.weighted_grams[index] @ W)


def _expected(judged: Judged, fit: RatioFit) -> Array:
    """Cross-fitted μ(x) = (1, ψ)ᵀB of every evaluated column, shape (folds, 1 + features, …).

    Less the shift of the losses in w.
    """
    everyone = judged.plain.sum(axis=0)
    found = []
    for fold, own in enumerate(judged.plain):
        others = everyone - own  # Σ (1, ψ)(1, L°)ᵀ
        n = others[0, 0]
        mean = others[0, 1:] / n
        moment = (others[1:, 1:] - np.outer(others[1:, 0], mean)) / n
        level = mean + (judged.pilot.plain - judged.pilot.weighted)
        found.append(np.vstack([level, fit.loss_coefficients(moment, fold)]))
    return np.stack(found)


def _explained(judged: Judged, expected: Array, columns: slice) -> Array:
    """Σ r (μμᵀ − Lμᵀ − μLᵀ), so that with Σ r LLᵀ it is that of the residuals L − μ."""
    size = columns.stop - columns.start
    total = np.zeros((size, size))
    for fold, B in enumerate(expected):
        own = B[:, columns]
        cross = own.T @ judged.mixed[fold][:, columns]
        total += own.T @ judged.features[fold] @ own - cross - cross.T
    return total


def _with_equal_ratios(judged: Judged, grams: FoldGrams) -> Judged:
    """What would have been summed up had all ratios been 1."""
    features = np.zeros_like(judged.features)
    features[:, 1:, 1:] = grams.grams
    features[:, :, 0] = features[:, 0, :] = judged.plain[:, :, 0]
    ratio_grams = []
    for plain in judged.plain_grams:  # r' = 0 and w = L°
        gram = np.insert(np.insert(plain, 1, 0.0, axis=0), 1, 0.0, axis=1)
        ratio_grams.append(gram)
    return replace(
        judged,
        pilot=replace(judged.pilot, ratio=1.0, weighted=judged.pilot.plain),
        ratio_grams=tuple(ratio_grams),
        weighted_grams=tuple(plain[1:, 1:] for plain in judged.plain_grams),
        mixed=judged.plain[:, :, 1:],
        features=features,
        largest_ratio=1.0,
    )

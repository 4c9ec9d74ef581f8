"""The guarded rule at a source: cross-fitted ratio, and what the risk estimate is worth.

As printed, FedDAE gives most weight to the source that knows least about the target: where the
ratio vanishes, so does its variance. The guarded rule judges a source by how well its *weighted
rows match the target*, which no vanishing ratio can feign.

Everything here is computed on rows that the fold's ratio and models have not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.embedding import (
    REGULARIZATIONS,
    FoldGrams,
    MeanEmbedding,
    Spectrum,
    embedding_scores,
    spectra,
)
from fedcsa.core.folds import Rows

#: Training weights r^γ use ratios of at least this share of their mean.
RATIO_FLOOR = 1e-3
#: The kernel ridge of the loss on ψ is penalised at least this much.
MIN_LOSS_PENALTY = 1e-2


@dataclass(frozen=True)
class RatioFit:
    """The ratio fitted without each fold in turn, with one regularisation for the whole source."""

    coefficients: Array = field(repr=False)  # (folds, features)
    spectra: Sequence[Spectrum] = field(repr=False)
    regularization: float
    at_edge: bool

    def ratios(self, psi: Array, fold: int) -> Array:
        """r̂ = max(0, ψᵀα) by the fit that has not seen `fold`."""
        ratios: Array = np.maximum(psi @ self.coefficients[fold], 0.0)
        return ratios

    def target_mean(self, embedding: MeanEmbedding) -> float:
        """hᵀα averaged over folds: E_T[r] from the target's side."""
        return float((self.coefficients @ embedding.mean_features).mean())

    def loss_coefficients(self, moment: Array, fold: int) -> Array:
        """Kernel ridge of the loss on ψ without `fold`, from mean ψ(L − mean L) of the others."""
        penalty = max(self.regularization, MIN_LOSS_PENALTY)
        e, V = self.spectra[fold].eigenvalues, self.spectra[fold].vectors
        solved: Array = V @ ((V.T @ moment) / (e[:, None] + penalty))
        return solved


def fit_ratio(
    grams: FoldGrams, embedding: MeanEmbedding, regularizations: Array = REGULARIZATIONS
) -> RatioFit:
    """Fit the ratio without each fold in turn, λ by the score of `embedding_scores`."""
    parts = spectra(grams)
    best = int(embedding_scores(grams, embedding, parts, regularizations).argmin())
    lam = float(regularizations[best])
    coefficients = [part.coefficients(embedding.mean_features, lam) for part in parts]
    edge = len(regularizations) > 1 and best in (0, len(regularizations) - 1)
    return RatioFit(np.stack(coefficients), parts, lam, edge)


@dataclass(frozen=True)
class CrossFit:
    """A cross-fitted ratio on rows in memory."""

    ratio: RatioFit
    folds: Sequence[Rows] = field(repr=False)  # held out
    others: Sequence[Rows] = field(repr=False)

    def held_out_ratios(self, psi: Array) -> Array:
        """r̂ of every row, by the fit that has not seen it."""
        ratios = np.empty(len(psi))
        for k, rows in enumerate(self.folds):
            ratios[rows] = self.ratio.ratios(psi[rows], k)
        return ratios


def cross_fit_ratio(
    psi: Array,
    embedding: MeanEmbedding,
    folds: Sequence[Rows],
    regularizations: Array = REGULARIZATIONS,
) -> CrossFit:
    """`fit_ratio` from rows in memory."""
    outside = []
    for fold in folds:
        mask = np.ones(len(psi), dtype=bool)
        mask[fold] = False
        outside.append(np.flatnonzero(mask))
    fit = fit_ratio(FoldGrams.of(psi, folds), embedding, regularizations)
    return CrossFit(fit, folds, outside)


def floored(ratios: Array) -> Array:
    """Ratios for training weights: never below a thousandth of their mean, so no row is lost."""
    return np.maximum(ratios, RATIO_FLOOR * max(float(ratios.mean()), 1e-12))


@dataclass(frozen=True)
class GuardTerms:
    """What a source's weighted risk is worth; arrays have one entry a candidate.

    Attributes
    ----------
    risk : array
        f = Σ w L.
    spread : array
        Σ w (L − f)²: the variance of the loss over the target's population.
    variance : array
        Sampling variance of f.
    explained : array
        The part of `spread` that depends on x, and so on which rows the target has.
    """

    risk: Array = field(repr=False)
    spread: Array = field(repr=False)
    variance: Array = field(repr=False)
    explained: Array = field(repr=False)


def guard_terms(psi: Array, losses: Array, weights: Array, fit: CrossFit) -> GuardTerms:
    """Risk terms from `losses` (rows, candidates) under normalised `weights` (rows,)."""
    effective = 1.0 / float(weights @ weights)
    f = weights @ losses
    deviation = losses - f
    deviation *= deviation
    spread = weights @ deviation
    variance = np.maximum((weights**2) @ deviation, spread / effective)
    variance *= effective / max(effective - 1.0, 0.5)
    unexplained = np.zeros_like(f)
    for k, rows in enumerate(fit.folds):  # μ(x), a kernel ridge of the loss on ψ, without the fold
        residual = losses[rows] - _expected_losses(psi, losses, fit, k)
        unexplained += weights[rows] @ residual**2
    return GuardTerms(f, spread, variance, np.maximum(0.0, spread - unexplained))


def _expected_losses(psi: Array, losses: Array, fit: CrossFit, fold: int) -> Array:
    others = fit.others[fold]
    mean = losses[others].mean(axis=0)
    moment = psi[others].T @ (losses[others] - mean) / len(others)  # (features, candidates)
    coefficients = fit.ratio.loss_coefficients(moment, fold)
    expected: Array = mean + psi[fit.folds[fold]] @ coefficients
    return expected


def kernel_imbalance(psi: Array, weights: Array, embedding: MeanEmbedding) -> float:
    """δ²: squared distance of the weighted source from the target in the kernel's mean.

    In units of the target's own spread, less what sampling alone would give.
    """
    if embedding.trace <= 0.0:
        return 0.0
    distance = weights @ psi - embedding.mean_features
    sampling = float(weights @ weights) + 1.0 / embedding.n_rows
    return max(0.0, float(distance @ distance) / embedding.trace - sampling)


def target_rows_worth(effective_rows: Array, kernel: Array, imbalance: Array) -> Array:
    """m_j: the weighted source is worth about m_j rows of the target.

    1/m = 1/ESS + min(δ², 1)² + ι²/2, an inverse mean squared error. 0 where ESS is 0.

    >>> target_rows_worth(np.array([50.0, 20.0]), np.array([0.0, 9.0]), np.array([0.0, 25.0]))
    array([5.00000000e+01, 3.18928401e-03])
    """
    with np.errstate(divide="ignore"):
        inverse = 1.0 / effective_rows + np.minimum(kernel, 1.0) ** 2 + imbalance**2 / 2.0
    worth: Array = 1.0 / inverse
    return worth

r"""The density ratio from a mean embedding: the target announces averages, never a row.

uLSIF needs from the target only :math:`h = \frac{1}{n_T} \sum_i \psi(x^T_i)` for features ψ that
every site can build by itself (`Basis`). The target sends h, its noise level and n_T; the source
does the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from fedcsa.core.arrays import Array, as_matrix, as_vector, is_whole, read_only
from fedcsa.core.density_ratio import positive_grid
from fedcsa.core.folds import Rows, split_evenly
from fedcsa.core.kernels import BANDWIDTH_FACTOR, Basis
from fedcsa.errors import DataError, must, one_of
from fedcsa.findings import Finding

#: An embedding costs (features, rows) at the source; more than 100 bumps bought nothing.
MAX_FEATURES, MIN_FEATURES = 100, 10
#: Numbers announced per cell of the target's table; above it, rows were reconstructed.
RELEASE_SHARE = 1.0 / 3.0
#: The target's sd is floored at this share of the agreed public sd, so that a target of
#: near-copies of one patient cannot point the kernel at that patient's row in a source.
SD_FLOOR = 0.2
REGULARIZATIONS = np.logspace(-4.0, 0.5, 10)


@dataclass(frozen=True)
class MeanEmbedding:
    """What the target announces of its rows: means, sds, h and its trace, 2d + D + 1 numbers.

    Attributes
    ----------
    basis : Basis
        The features ψ; holds the target's means and standard deviations.
    mean_features : array of shape (n_features,)
        h, the mean of ψ over the target's rows.
    trace : float
        Σ_l Var ψ_l over the target's rows: how noisy h is.
    n_rows : int
        n_T.
    """

    basis: Basis
    mean_features: Array = field(repr=False)
    trace: float
    n_rows: int

    @classmethod
    def of(
        cls,
        X_target: ArrayLike,
        *,
        kind: Literal["bumps", "fourier"] = "bumps",
        seed: int = 0,
        n_features: int | None = None,
        bandwidth: float | None = None,
        public_sd: ArrayLike | None = None,
    ) -> Self:
        """Embed the target's rows.

        Parameters
        ----------
        X_target : array of shape (rows, features)
            At least two rows.
        kind : {"bumps", "fourier"}, default "bumps"
            The basis; Fourier features lose accuracy when the target is narrow.
        seed : int, default 0
            Draws the centres or frequencies; all sites must use the same.
        n_features : int, optional
            By default as many, up to 100 and at least 10, as a third of the target's cells allows.
        bandwidth : float, optional
            σ in target standard deviations; by default 0.7√d (bumps) or √(2d) (Fourier).
        public_sd : array of shape (features,), optional
            An agreed scale of every column; the target's sd is floored at a fifth of it.
        """
        X = as_matrix(X_target, "X_target")
        n, d = X.shape
        if n < 2:
            raise DataError(
                "X_target must have at least 2 rows to say how it varies; it has 1. "
                "Collect more rows."
            )
        if kind not in BANDWIDTH_FACTOR:
            raise one_of("kind", sorted(BANDWIDTH_FACTOR), kind)
        sd = X.std(axis=0)
        if public_sd is None:
            # Not sd > 0: the sd of a constant column is often a rounding error away from 0.
            sd = np.where(np.ptp(X, axis=0) > 0.0, sd, 1.0)
        else:
            floor = SD_FLOOR * as_vector(public_sd, "public_sd", n_rows=d)
            if (floor <= 0.0).any():
                raise must("public_sd", "positive in every column", "a value of zero or below")
            sd = np.maximum(sd, floor)
        if n_features is None:
            allowed = n * d // 3 - 2 * d - 1  # all in all at most RELEASE_SHARE of the cells
            n_features = int(np.clip(allowed, MIN_FEATURES, MAX_FEATURES))
        if not is_whole(n_features, 2):
            raise must("n_features", "a whole number of at least 2", n_features)
        n_features -= n_features % 2 if kind == "fourier" else 0
        if bandwidth is None:
            bandwidth = BANDWIDTH_FACTOR[kind] * float(np.sqrt(d))
        if not (np.isfinite(bandwidth) and bandwidth > 0.0):
            raise must("bandwidth", "a positive number", bandwidth)
        basis = Basis(kind, read_only(X.mean(axis=0)), read_only(sd), n_features, bandwidth, seed)
        psi = basis(X)
        # Equal rows have equal features but for rounding, which is not a spread.
        trace = float(psi.var(axis=0, ddof=1).sum()) if np.ptp(X, axis=0).any() else 0.0
        return cls(basis, read_only(psi.mean(axis=0)), trace, n)

    @property
    def n_released(self) -> int:
        """How many numbers about the target's rows this announces."""
        return 2 * len(self.basis.mean) + self.basis.n_features + 1

    @property
    def release_share(self) -> float:
        """Announced numbers per cell of the target's table; above ⅓ rows may be reconstructed."""
        return self.n_released / (self.n_rows * len(self.basis.mean))


class EmbeddingRatio:
    r"""Density ratio p_T/p_S at a source that sees only the target's mean embedding.

    .. math:: \alpha = (H + \lambda I)^{-1} h, \qquad \hat r(x) = \max(0, \psi(x)^\top \alpha)

    with H = mean ψψᵀ over the source's rows. λ minimises, over folds of the source's rows,

    .. math:: \tfrac12 \operatorname{mean}_{val} (\psi^\top \alpha)^2 - h^\top \alpha
              + \operatorname{tr}\big((H + \lambda I)^{-1} C\big), \quad
              C = \tfrac{H}{\operatorname{tr} H} \cdot \tfrac{trace}{n_T},

    whose last term corrects for the fact that the same noisy h is used to fit and to judge.

    Parameters
    ----------
    regularizations : sequence of float, optional
        Values of λ; by default ten from 10⁻⁴ to 10^½.
    n_folds : int, default 5
        Folds of the source's rows for choosing λ.
    random_state : int or numpy.random.Generator, optional
        Draws the folds.

    Attributes
    ----------
    coefficients_ : array of shape (n_features,)
    regularization_ : float
    cv_scores_ : array of shape (regularizations,)
    target_mean_ : float
        hᵀα, an estimate of E_T[r] = E_S[r²] from the target's side.
    findings_ : tuple of Finding

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> source, target = rng.normal(0, 1, (1000, 1)), rng.normal(1, 1, (800, 1))
    >>> ratio = EmbeddingRatio(random_state=0).fit(source, MeanEmbedding.of(target))
    >>> ratio.predict([[-1.0], [0.5], [1.5]]).round(1)
    array([0.2, 1. , 2.9])
    """

    coefficients_: Array
    regularization_: float
    cv_scores_: Array
    regularizations_: Array
    target_mean_: float
    embedding_: MeanEmbedding
    findings_: tuple[Finding, ...]

    def __init__(
        self,
        regularizations: Sequence[float] | Array | None = None,
        n_folds: int = 5,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.regularizations = regularizations
        self.n_folds = n_folds
        self.random_state = random_state

    def fit(self, X_source: ArrayLike, embedding: MeanEmbedding) -> Self:
        """Choose λ on the source's rows and fit the ratio."""
        X = as_matrix(X_source, "X_source", n_columns=len(embedding.basis.mean))
        if len(X) < 2:
            raise DataError(
                "X_source must have at least 2 rows to choose λ; it has 1. "
                "Collect more rows, or leave the source out."
            )
        grid = REGULARIZATIONS if self.regularizations is None else self.regularizations
        self.regularizations_ = positive_grid("regularizations", grid)
        if not is_whole(self.n_folds, 2):
            raise must("n_folds", "a whole number of at least 2", self.n_folds)
        rng = np.random.default_rng(self.random_state)
        psi = embedding.basis(X)
        folds = split_evenly(len(X), min(self.n_folds, len(X)), rng)
        grams = FoldGrams.of(psi, folds)
        self.cv_scores_ = embedding_scores(grams, embedding, spectra(grams), self.regularizations_)
        best = int(self.cv_scores_.argmin())
        self.regularization_ = float(self.regularizations_[best])
        self.coefficients_ = embedding_coefficients(psi, embedding, self.regularization_)
        self.target_mean_ = float(embedding.mean_features @ self.coefficients_)
        self.embedding_ = embedding
        edge = len(self.regularizations_) > 1 and best in (0, len(self.regularizations_) - 1)
        self.findings_ = (
            (
                Finding(
                    "grid-edge",
                    evidence={"parameter": "regularization", "value": self.regularization_},
                ),
            )
            if edge
            else ()
        )
        return self

    def predict(self, X: ArrayLike) -> Array:
        """r̂(x) = p_T(x)/p_S(x) for every row, never negative."""
        if not hasattr(self, "coefficients_"):
            raise must("ratio", "fitted before it predicts; call fit(X_source, embedding)", self)
        rows = as_matrix(X, "X", n_columns=len(self.embedding_.basis.mean))
        return np.maximum(self.embedding_.basis(rows) @ self.coefficients_, 0.0)


def embedding_coefficients(psi: Array, embedding: MeanEmbedding, regularization: float) -> Array:
    """(H + λI)⁻¹ h on the source's features `psi`."""
    H = psi.T @ psi / len(psi)
    H[np.diag_indices_from(H)] += regularization
    return np.asarray(np.linalg.solve(H, embedding.mean_features), dtype=np.float64)


@dataclass(frozen=True)
class FoldGrams:
    """Σ ψψᵀ over every fold: all that choosing λ and fitting the ratio need of the rows."""

    sizes: Array  # (folds,)
    grams: Array = field(repr=False)  # (folds, features, features)

    @classmethod
    def of(cls, psi: Array, folds: Sequence[Rows]) -> Self:
        """From rows in memory."""
        sizes = np.array([len(fold) for fold in folds], dtype=np.float64)
        return cls(sizes, np.stack([psi[fold].T @ psi[fold] for fold in folds]))


@dataclass(frozen=True)
class Spectrum:
    """H of all rows but one fold, as V diag(e) Vᵀ: what every λ is fitted from."""

    eigenvalues: Array
    vectors: Array

    def coefficients(self, h: Array, regularization: float) -> Array:
        """(H + λI)⁻¹ h."""
        solved: Array = self.vectors @ ((self.vectors.T @ h) / (self.eigenvalues + regularization))
        return solved


def spectra(folds: FoldGrams) -> list[Spectrum]:
    """One eigendecomposition for every fold left out; it serves all λ."""
    total, n = folds.grams.sum(axis=0), folds.sizes.sum()
    found = []
    for gram, size in zip(folds.grams, folds.sizes, strict=True):
        eigenvalues, V = np.linalg.eigh((total - gram) / (n - size))
        found.append(Spectrum(np.maximum(eigenvalues, 0.0), V))
    return found


def embedding_scores(
    folds: FoldGrams,
    embedding: MeanEmbedding,
    left_out: Sequence[Spectrum],
    regularizations: Array,
) -> Array:
    """Score of every λ: fitted without each fold, judged on it, corrected for the noise in h."""
    noise = embedding.trace / embedding.n_rows
    scores = np.zeros(len(regularizations))
    for gram, size, part in zip(folds.grams, folds.sizes, left_out, strict=True):
        e, V = part.eigenvalues, part.vectors
        h_v = V.T @ embedding.mean_features
        shrink = 1.0 / (e[:, None] + regularizations)  # (features, λ)
        in_basis = h_v[:, None] * shrink
        squares = np.einsum("fl,fl->l", in_basis, (V.T @ gram @ V) @ in_basis)  # Σ (ψᵀα)²
        covariance = e / max(float(e.sum()), np.finfo(float).tiny) * noise
        score = 0.5 * squares / size - h_v @ in_basis + covariance @ shrink
        scores += size / folds.sizes.sum() * score
    return scores

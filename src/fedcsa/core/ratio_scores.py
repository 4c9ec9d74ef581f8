"""The least-squares ratio from sums over rows, and its leave-one-out score for all λ at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.folds import Rows

#: Rows scored together, so that the arrays of a block stay in the processor's cache.
BLOCK_ROWS = 1024


@dataclass(frozen=True)
class RatioSums:
    """All that a ratio is fitted from; the rows themselves are needed only to score it.

    Attributes
    ----------
    n_source, n_target : int
    gram_source : array of shape (centres, centres)
        Σ φφᵀ over the source.
    gram_target : array of shape (centres, centres) or None
        The same over the target, if the ratio is relative.
    total_target : array of shape (centres,)
        Σ ψ over the target.
    """

    n_source: int
    n_target: int
    gram_source: Array
    gram_target: Array | None
    total_target: Array

    @classmethod
    def of(cls, phi_source: Array, phi_target: Array, alpha: float) -> RatioSums:
        """Sums over the rows of both sides."""
        return cls(
            len(phi_source),
            len(phi_target),
            phi_source.T @ phi_source,
            phi_target.T @ phi_target if alpha > 0.0 else None,
            phi_target.sum(axis=0),
        )

    def coefficients(
        self, regularization: float, *, alpha: float = 0.0, clip_coefficients: bool = True
    ) -> Array:
        """(H + λI)⁻¹ h, with H = (1 − alpha) H_S + alpha H_T, clipped at zero on request."""
        H = (1.0 - alpha) / self.n_source * self.gram_source
        if self.gram_target is not None:
            H += alpha / self.n_target * self.gram_target
        H[np.diag_indices_from(H)] += regularization
        coefficients = np.asarray(np.linalg.solve(H, self.total_target / self.n_target), np.float64)
        return np.maximum(coefficients, 0.0) if clip_coefficients else coefficients


def ratio_coefficients(
    phi_source: Array,
    phi_target: Array,
    regularization: float,
    *,
    alpha: float = 0.0,
    clip_coefficients: bool = True,
) -> Array:
    """α of the ratio, from the basis on each side's rows, shape (rows, centres)."""
    sums = RatioSums.of(phi_source, phi_target, alpha)
    return sums.coefficients(regularization, alpha=alpha, clip_coefficients=clip_coefficients)


def leave_one_out_scores(
    phi_source: Array,
    phi_target: Array,
    regularizations: Array,
    *,
    alpha: float = 0.0,
    clip_coefficients: bool = True,
    sums: RatioSums | None = None,
    pairs: Rows | None = None,
) -> Array:
    """Leave-one-out score of every λ in closed form.

    Row i of the source is left out together with row i of the target, i < n = min(n_S, n_T), and

        score(λ) = mean_i [ (1 − alpha)/2 r_i(x^S_i)² + alpha/2 r_i(x^T_i)² − r_i(x^T_i) ],

    where r_i is the ratio fitted without the pair, non-negativity included. With `pairs`, only
    those are left out, and the score is the mean over all n of the same terms with nothing left
    out, plus the mean over `pairs` of what leaving them out changes. That change is of order 1/n,
    and so is the error of its mean: far less than that of the mean of the terms themselves.

    Parameters
    ----------
    phi_source, phi_target : array of shape (rows, centres)
        The basis on each side's rows.
    sums : RatioSums, optional
        Of these rows, if known.
    pairs : array of int, optional
        The rows to leave out; by default all n of them, the exact score.
    """
    n = min(len(phi_source), len(phi_target))
    sums = RatioSums.of(phi_source, phi_target, alpha) if sums is None else sums
    spectrum = _Spectrum.of(sums, regularizations, alpha)
    phi, psi = phi_source[:n], phi_target[:n]
    if pairs is None:
        exact: Array = _left_out_terms(spectrum, phi, psi, clip_coefficients).mean(axis=0)
        return exact
    coefficients = spectrum.vectors @ (spectrum.inverse * (spectrum.total / spectrum.n_target))
    if clip_coefficients:
        np.maximum(coefficients, 0.0, out=coefficients)  # (centres, λ)
    plain = _terms(phi @ coefficients, psi @ coefficients, alpha)
    change = _left_out_terms(spectrum, phi[pairs], psi[pairs], clip_coefficients) - plain[pairs]
    scores: Array = plain.mean(axis=0) + change.mean(axis=0)
    return scores


@dataclass(frozen=True)
class _Spectrum:
    """The eigendecomposition of B that serves all λ.

    Leaving pair i out changes H + λI by two rank-one terms,

        H_i + λI = B + λI − c_S φφᵀ − c_T ψψᵀ,  c_S = (1 − alpha)/(n_S − 1), c_T = alpha/(n_T − 1),
        B = (1 − alpha) n_S/(n_S − 1) H_S + alpha n_T/(n_T − 1) H_T = V diag(e) Vᵀ.
    """

    alpha: float
    c_source: float
    c_target: float
    n_target: int
    vectors: Array  # V
    inverse: Array  # 1/(e + λ), (centres, λ)
    total: Array  # Vᵀ Σψ, a column

    @classmethod
    def of(cls, sums: RatioSums, regularizations: Array, alpha: float) -> _Spectrum:
        c_source = (1.0 - alpha) / (sums.n_source - 1)
        c_target = alpha / (sums.n_target - 1)
        B = c_source * sums.gram_source
        if sums.gram_target is not None:
            B += c_target * sums.gram_target
        eigenvalues, V = np.linalg.eigh(B)
        inverse = 1.0 / (np.maximum(eigenvalues, 0.0)[:, None] + regularizations)
        total = (V.T @ sums.total_target)[:, None]
        return cls(alpha, c_source, c_target, sums.n_target, V, inverse, total)


def _left_out_terms(b: _Spectrum, phi: Array, psi: Array, clip_coefficients: bool) -> Array:
    """The terms of the score, (pairs, λ): every α_i by Woodbury with a 2 × 2 inner matrix."""
    terms = np.empty((len(phi), b.inverse.shape[1]))
    to_coefficients = b.inverse.T[:, :, None] * b.vectors.T  # diag(1/(e + λ)) Vᵀ, one a λ
    for start in range(0, len(phi), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        f, p = phi[block], psi[block]
        f_v, p_v = f @ b.vectors, p @ b.vectors
        g_v = (b.total.T - p_v) / (b.n_target - 1)  # h without row i
        # u'B⁻¹w for u, w among φ, ψ, g, all λ at once: what the 2 × 2 system needs.
        ff, fp, pp = (f_v * f_v) @ b.inverse, (f_v * p_v) @ b.inverse, (p_v * p_v) @ b.inverse
        fg, pg = (f_v * g_v) @ b.inverse, (p_v * g_v) @ b.inverse
        # (I − C U'B⁻¹U) t = U'B⁻¹g, with C = diag(c_S, c_T) and U = [φ ψ].
        a11, a12 = 1.0 - b.c_source * ff, -b.c_target * fp
        a21, a22 = -b.c_source * fp, 1.0 - b.c_target * pp
        determinant = a11 * a22 - a12 * a21
        t_phi = (a22 * fg - a12 * pg) / determinant  # φ'α_i, (rows, λ)
        t_psi = (a11 * pg - a21 * fg) / determinant  # ψ'α_i
        if clip_coefficients:
            at_source, at_target = np.empty_like(t_phi), np.empty_like(t_psi)
            together = max(1, BLOCK_ROWS // len(f))  # few rows: several λ at once
            for k in range(0, len(to_coefficients), together):
                some = slice(k, k + together)
                in_basis = f_v * (b.c_source * t_phi[:, some]).T[:, :, None]  # (λ, rows, centres)
                in_basis += g_v
                if b.c_target:
                    in_basis += p_v * (b.c_target * t_psi[:, some]).T[:, :, None]
                coefficients = in_basis @ to_coefficients[some]  # α_i, one a row
                np.maximum(coefficients, 0.0, out=coefficients)
                at_source[:, some] = np.einsum("kij,ij->ik", coefficients, f)
                at_target[:, some] = np.einsum("kij,ij->ik", coefficients, p)
        else:
            at_source, at_target = t_phi, t_psi
        terms[block] = _terms(at_source, at_target, b.alpha)
    return terms


def _terms(at_source: Array, at_target: Array, alpha: float) -> Array:
    """½ (1 − alpha) r_S² + ½ alpha r_T² − r_T, of ratios that are not negative."""
    r_source, r_target = np.maximum(at_source, 0.0), np.maximum(at_target, 0.0)
    terms: Array = 0.5 * (1.0 - alpha) * r_source**2 + 0.5 * alpha * r_target**2 - r_target
    return terms

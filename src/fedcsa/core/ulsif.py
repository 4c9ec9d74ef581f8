"""uLSIF: the density ratio r(x) = p_T(x) / p_S(x) by least squares, from rows of both sides.

Kanamori, Hido, Sugiyama (2009), "A least-squares approach to direct importance estimation",
Journal of Machine Learning Research 10; the relative version is Yamada et al. (2013), "Relative
density-ratio estimation for robust distribution comparison", Neural Computation 25.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from fedcsa.core.arrays import Array, as_matrix, as_vector, is_whole
from fedcsa.core.folds import Rows
from fedcsa.errors import DataError, must, one_of
from fedcsa.findings import Finding

#: Multiples of the median distance. Nothing below a quarter: a narrower kernel reads every
#: source row as unlike the target, and the ratio collapses to zero.
BANDWIDTH_MULTIPLES = 2.0 ** np.arange(-2.0, 2.25, 0.5)
#: λ beside H, whose entries are at most 1: from hardly any shrinkage to a flat ratio.
REGULARIZATIONS = np.logspace(-3.0, 1.0, 9)
#: Rows nearer than this share of the largest distance are one and the same: a centre is at
#: distance 0 from itself only up to rounding.
COINCIDENT = 1e-7
#: Rows that are left out in turn, at most: they choose two numbers and do nothing else.
SCORE_ROWS = 1_000
#: Rows scored together, so that the arrays of a block stay in the processor's cache.
BLOCK_ROWS = 1024


class ULSIF:
    r"""Density ratio between a target and a source, by unconstrained least-squares fitting.

    The ratio is modelled as :math:`\hat r(x) = \sum_l \alpha_l \exp(-\|x - c_l\|^2 / 2\sigma^2)`
    with centres :math:`c_l` at target rows, and

    .. math:: \alpha = \max(0, (H + \lambda I)^{-1} h), \quad
              H = \tfrac{1}{n_S} \sum_i \phi(x^S_i) \phi(x^S_i)^\top, \quad
              h = \tfrac{1}{n_T} \sum_i \phi(x^T_i).

    Parameters
    ----------
    bandwidths : sequence of float, optional
        Values of σ to choose from. By default nine multiples, from ¼ to 4, of the median
        distance between the centres and all rows.
    regularizations : sequence of float, optional
        Values of λ to choose from. By default nine, from 10⁻³ to 10.
    n_centres : int, default 100
        Centres, drawn without replacement from the target's rows; all of them if there are fewer.
    nonnegative : {"coefficients", "ratio"}, default "coefficients"
        What is clipped at zero: every α, as in the original, or only the ratio itself. The
        second is far more accurate in ten dimensions; the first is the preset ``"paper"``.
    alpha : float, default 0
        Above zero, estimate the relative ratio p_T / (alpha p_T + (1 − alpha) p_S) instead,
        which is bounded by 1/alpha.
    score_rows : int or None, default 1,000
        Where there are more rows, so many are drawn and left out in turn to choose σ and λ; the
        others enter the score as fitted, see `leave_one_out_scores`. The ratio is always fitted
        on all rows. None: every row is left out, the exact score.
    random_state : int or numpy.random.Generator, optional
        Draws the centres, then the rows to leave out.

    Attributes
    ----------
    bandwidth_, regularization_ : float
        The chosen σ and λ.
    centres_ : array of shape (n_centres, features)
    coefficients_ : array of shape (n_centres,)
    cv_scores_ : array of shape (bandwidths, regularizations)
        Leave-one-out score of every pair; the smallest was chosen.
    bandwidths_, regularizations_ : array
        The grids.
    findings_ : tuple of Finding
        A choice at the edge of its grid.

    Examples
    --------
    A source around 0 and a target around 1; the true ratio is exp(x − ½): 0.22, 1 and 2.72.

    >>> rng = np.random.default_rng(0)
    >>> source, target = rng.normal(0, 1, (1000, 1)), rng.normal(1, 1, (800, 1))
    >>> ratio = ULSIF(random_state=0).fit(source, target)
    >>> ratio.predict([[-1.0], [0.5], [1.5]]).round(1)
    array([0.2, 1. , 3.2])
    """

    def __init__(
        self,
        bandwidths: Sequence[float] | Array | None = None,
        regularizations: Sequence[float] | Array | None = None,
        n_centres: int = 100,
        nonnegative: Literal["coefficients", "ratio"] = "coefficients",
        alpha: float = 0.0,
        score_rows: int | None = SCORE_ROWS,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.bandwidths = bandwidths
        self.regularizations = regularizations
        self.n_centres = n_centres
        self.nonnegative = nonnegative
        self.alpha = alpha
        self.score_rows = score_rows
        self.random_state = random_state

    def __repr__(self) -> str:
        return (
            f"ULSIF(n_centres={self.n_centres}, nonnegative={self.nonnegative!r}, "
            f"alpha={self.alpha})"
        )

    def fit(self, X_source: ArrayLike, X_target: ArrayLike) -> Self:
        """Choose σ and λ by leave-one-out and fit the ratio.

        Parameters
        ----------
        X_source, X_target : array of shape (rows, features)
            The two sides may differ in their numbers of rows; each needs at least two.
        """
        source = as_matrix(X_source, "X_source")
        target = as_matrix(X_target, "X_target", n_columns=source.shape[1])
        self._check_parameters()
        for name, rows in (("X_source", source), ("X_target", target)):
            if len(rows) < 2:
                raise DataError(
                    f"{name} must have at least 2 rows to leave one out; it has 1. "
                    "Collect more rows."
                )
        rng = np.random.default_rng(self.random_state)
        n_centres = min(self.n_centres, len(target))
        self.centres_ = target[rng.choice(len(target), size=n_centres, replace=False)]
        distances = [squared_distances(rows, self.centres_) for rows in (source, target)]
        self.bandwidths_ = (
            _default_bandwidths(distances)
            if self.bandwidths is None
            else _positive_grid("bandwidths", self.bandwidths)
        )
        given = REGULARIZATIONS if self.regularizations is None else self.regularizations
        self.regularizations_ = _positive_grid("regularizations", given)
        n, pairs = min(len(source), len(target)), None
        if self.score_rows is not None and self.score_rows < n:
            pairs = np.sort(rng.choice(n, size=self.score_rows, replace=False))
        return self._choose(distances, pairs)

    def _choose(self, distances: Sequence[Array], pairs: Rows | None) -> Self:
        """Score every σ and λ, and fit the ratio with the best.

        Parameters
        ----------
        distances : two arrays of shape (rows, centres)
            Squared, of the source's and the target's rows.
        pairs : array of int, optional
            Rows to leave out in turn; by default all.
        """
        source, target = distances
        rule = self.alpha, self.nonnegative == "coefficients"
        scores = [
            leave_one_out_scores(
                gaussian(source, sigma),
                gaussian(target, sigma),
                self.regularizations_,
                *rule,
                pairs,
            )
            for sigma in self.bandwidths_
        ]
        self.cv_scores_ = np.stack(scores)
        s, k = np.unravel_index(int(self.cv_scores_.argmin()), self.cv_scores_.shape)
        self.bandwidth_ = float(self.bandwidths_[s])
        self.regularization_ = float(self.regularizations_[k])
        phi, psi = gaussian(source, self.bandwidth_), gaussian(target, self.bandwidth_)
        self.coefficients_ = ratio_coefficients(phi, psi, self.regularization_, *rule)
        grids = ("bandwidth", self.bandwidths_, s), ("regularization", self.regularizations_, k)
        self.findings_ = tuple(
            Finding("grid-edge", evidence={"parameter": name, "value": float(grid[index])})
            for name, grid, index in grids
            if len(grid) > 1 and index in (0, len(grid) - 1)
        )
        return self

    def predict(self, X: ArrayLike) -> Array:
        """r̂(x) = p_T(x)/p_S(x) for every row, never negative."""
        if not hasattr(self, "coefficients_"):
            raise must("ratio", "fitted before it predicts; call fit(X_source, X_target)", self)
        rows = as_matrix(X, "X", n_columns=self.centres_.shape[1])
        basis = gaussian(squared_distances(rows, self.centres_), self.bandwidth_)
        return np.maximum(basis @ self.coefficients_, 0.0)

    def _check_parameters(self) -> None:
        if self.nonnegative not in ("coefficients", "ratio"):
            raise one_of("nonnegative", ("coefficients", "ratio"), self.nonnegative)
        if not 0.0 <= self.alpha < 1.0:
            raise must("alpha", "at least 0 and below 1", self.alpha)
        if not is_whole(self.n_centres, 1):
            raise must("n_centres", "a whole number of at least 1", self.n_centres)
        if self.score_rows is not None and not is_whole(self.score_rows, 1):
            raise must("score_rows", "a whole number of at least 1, or None", self.score_rows)


def squared_distances(X: Array, centres: Array) -> Array:
    """‖x − c‖² for every row x and every centre c, shape (rows, centres).

    Both are moved to the centres' mean first: the expansion ‖x‖² + ‖c‖² − 2xᵀc cancels
    badly when the data lie far from the origin.

    Parameters
    ----------
    X : array of shape (rows, features)
    centres : array of shape (centres, features)
    """
    origin = centres.mean(axis=0)
    x, c = X - origin, centres - origin
    distances: Array = np.einsum("ij,ij->i", x, x)[:, None] + np.einsum("ij,ij->i", c, c)
    distances -= 2.0 * (x @ c.T)
    return np.maximum(distances, 0.0, out=distances)


def gaussian(distances: Array, bandwidth: float) -> Array:
    """exp(−‖x − c‖²/2σ²).

    Parameters
    ----------
    distances : array of shape (rows, centres)
        ‖x − c‖².
    bandwidth : float
        σ.
    """
    scaled = distances * (-0.5 / bandwidth**2)
    return np.exp(scaled, out=scaled)


def ratio_coefficients(
    phi_source: Array,
    phi_target: Array,
    regularization: float,
    alpha: float = 0.0,
    clip_coefficients: bool = True,
) -> Array:
    """(H + λI)⁻¹ h, with H = (1 − alpha) H_S + alpha H_T, shape (centres,).

    Parameters
    ----------
    phi_source, phi_target : array of shape (rows, centres)
        The basis φ on each side's rows.
    regularization : float
        λ.
    alpha : float, default 0
        Above 0 for the relative ratio.
    clip_coefficients : bool, default True
        Whether negative coefficients become 0.
    """
    H = (1.0 - alpha) / len(phi_source) * (phi_source.T @ phi_source)
    if alpha:
        H += alpha / len(phi_target) * (phi_target.T @ phi_target)
    H[np.diag_indices_from(H)] += regularization
    h = phi_target.sum(axis=0) / len(phi_target)
    coefficients = np.asarray(np.linalg.solve(H, h), np.float64)
    return np.maximum(coefficients, 0.0) if clip_coefficients else coefficients


def leave_one_out_scores(
    phi_source: Array,
    phi_target: Array,
    regularizations: Array,
    alpha: float = 0.0,
    clip_coefficients: bool = True,
    pairs: Rows | None = None,
) -> Array:
    """Leave-one-out score of every λ in closed form, shape (λ,).

    Row i of the source is left out together with row i of the target, i < n = min(n_S, n_T), and

        score(λ) = mean_i [ (1 − alpha)/2 r_i(x^S_i)² + alpha/2 r_i(x^T_i)² − r_i(x^T_i) ],

    where r_i is the ratio fitted without the pair, non-negativity included. Leaving it out
    changes H + λI by two rank-one terms,

        H_i + λI = B + λI − c_S φφᵀ − c_T ψψᵀ,  c_S = (1 − alpha)/(n_S − 1), c_T = alpha/(n_T − 1),
        B = (1 − alpha) n_S/(n_S − 1) H_S + alpha n_T/(n_T − 1) H_T = V diag(e) Vᵀ,

    so that one eigendecomposition serves all λ and all rows.

    With `pairs`, only those are left out, and the score is the mean over all n of the same terms
    with nothing left out, plus the mean over `pairs` of what leaving them out changes. That change
    is of order 1/n, and so is the error of its mean: far less than that of the terms themselves.

    Parameters
    ----------
    phi_source, phi_target : array of shape (rows, centres)
        The basis on each side's rows, φ and ψ.
    regularizations : array of shape (λ,)
    alpha : float, default 0
        Above 0 for the relative ratio.
    clip_coefficients : bool, default True
        Whether negative coefficients become 0.
    pairs : array of int, optional
        The rows to leave out; by default all n of them, the exact score.
    """
    n, n_target = min(len(phi_source), len(phi_target)), len(phi_target)
    c_source, c_target = (1.0 - alpha) / (len(phi_source) - 1), alpha / (n_target - 1)
    B = c_source * (phi_source.T @ phi_source)
    if alpha:
        B += c_target * (phi_target.T @ phi_target)
    eigenvalues, V = np.linalg.eigh(B)
    inverse = 1.0 / (np.maximum(eigenvalues, 0.0)[:, None] + regularizations)  # (centres, λ)
    total = V.T @ phi_target.sum(axis=0)  # Vᵀ Σψ

    def left_out(phi: Array, psi: Array) -> Array:
        """The terms of pairs of rows, (pairs, λ).

        Parameters
        ----------
        phi, psi : array of shape (pairs, centres)
            Basis functions at the pairs' source rows and target rows.
        """
        f, p = phi @ V, psi @ V
        g = (total - p) / (n_target - 1)  # h without row i
        t_source, t_target = _woodbury(f, p, g, inverse, c_source, c_target)
        if clip_coefficients:
            for k in range(len(regularizations)):
                changed = f * (c_source * t_source[:, k])[:, None]
                changed += g
                if alpha:
                    changed += p * (c_target * t_target[:, k])[:, None]
                coefficients = changed @ (inverse[:, k, None] * V.T)  # α_i, one a row
                np.maximum(coefficients, 0.0, out=coefficients)
                t_source[:, k] = np.einsum("ij,ij->i", coefficients, phi)
                t_target[:, k] = np.einsum("ij,ij->i", coefficients, psi)
        return _terms(t_source, t_target, alpha)

    phi, psi = phi_source[:n], phi_target[:n]
    chosen = slice(0, n) if pairs is None else pairs
    out_phi, out_psi = phi[chosen], psi[chosen]
    blocks = [slice(start, start + BLOCK_ROWS) for start in range(0, len(out_phi), BLOCK_ROWS)]
    terms = np.concatenate([left_out(out_phi[block], out_psi[block]) for block in blocks])
    if pairs is None:
        return np.asarray(terms.mean(axis=0))
    coefficients = V @ (inverse * (total / n_target)[:, None])  # (centres, λ)
    coefficients = np.maximum(coefficients, 0.0) if clip_coefficients else coefficients
    plain = _terms(phi @ coefficients, psi @ coefficients, alpha)
    scores: Array = plain.mean(axis=0) + (terms - plain[pairs]).mean(axis=0)
    return scores


def _woodbury(
    f: Array, p: Array, g: Array, inverse: Array, c_source: float, c_target: float
) -> tuple[Array, Array]:
    """φᵀα_i and ψᵀα_i for every row i and every λ, each of shape (rows, λ).

    They solve (I − C UᵀB⁻¹U) t = UᵀB⁻¹g, with C = diag(c_S, c_T) and U = [φ ψ].

    Parameters
    ----------
    f, p, g : array of shape (rows, centres)
        φ, ψ, and h without the row, in B's eigenvectors.
    inverse : array of shape (centres, λ)
        1/(e + λ).
    c_source, c_target : float
    """
    ff, fp, pp = (f * f) @ inverse, (f * p) @ inverse, (p * p) @ inverse
    fg, pg = (f * g) @ inverse, (p * g) @ inverse
    a11, a12 = 1.0 - c_source * ff, -c_target * fp
    a21, a22 = -c_source * fp, 1.0 - c_target * pp
    determinant = a11 * a22 - a12 * a21
    return (a22 * fg - a12 * pg) / determinant, (a11 * pg - a21 * fg) / determinant


def _terms(at_source: Array, at_target: Array, alpha: float) -> Array:
    """½ (1 − alpha) r_S² + ½ alpha r_T² − r_T, of ratios that are not negative.

    Parameters
    ----------
    at_source, at_target : array of shape (rows, λ)
        Fitted values at the rows of each side, before they are clipped.
    alpha : float
    """
    r_source, r_target = np.maximum(at_source, 0.0), np.maximum(at_target, 0.0)
    terms: Array = 0.5 * (1.0 - alpha) * r_source**2 + 0.5 * alpha * r_target**2 - r_target
    return terms


def _default_bandwidths(distances: Sequence[Array]) -> Array:
    """Multiples of the median distance between rows and centres that are not the same point."""
    every = np.concatenate([side.ravel() for side in distances])
    apart = every[every > COINCIDENT**2 * every.max()]
    if not apart.size:  # all rows the same
        return BANDWIDTH_MULTIPLES.copy()
    return float(np.median(np.sqrt(apart))) * BANDWIDTH_MULTIPLES


def _positive_grid(name: str, values: Sequence[float] | Array) -> Array:
    """The values to choose from, in ascending order.

    Parameters
    ----------
    name : str
        Of the parameter, for a complaint.
    values : sequence of float
    """
    grid = as_vector(values, name)
    if not grid.size or (grid <= 0.0).any():
        raise must(name, "a non-empty sequence of positive numbers", len(grid))
    return np.sort(grid)

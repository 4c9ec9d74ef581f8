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
from fedcsa.core.kernels import gaussian, squared_distances
from fedcsa.errors import DataError, must
from fedcsa.findings import Finding

#: Multiples of the median distance. Nothing below a quarter: a narrower kernel reads every
#: source row as unlike the target, and the ratio collapses to zero.
BANDWIDTH_MULTIPLES = 2.0 ** np.arange(-2.0, 2.25, 0.5)
REGULARIZATIONS = np.logspace(-3.0, 1.0, 9)
#: Rows nearer than this share of the largest distance are one and the same.
COINCIDENT = 1e-7


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
        second is far more accurate in ten dimensions; the first is what the paper uses.
    alpha : float, default 0
        Above zero, estimate the relative ratio p_T / (alpha p_T + (1 − alpha) p_S) instead,
        which is bounded by 1/alpha.
    random_state : int or numpy.random.Generator, optional
        Draws the centres.

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
    A source around 0 and a target around 1: rows above ½ are more likely at the target.
    The true ratio is exp(x − ½): 0.22, 1 and 2.72.

    >>> rng = np.random.default_rng(0)
    >>> source, target = rng.normal(0, 1, (1000, 1)), rng.normal(1, 1, (800, 1))
    >>> ratio = ULSIF(random_state=0).fit(source, target)
    >>> ratio.predict([[-1.0], [0.5], [1.5]]).round(1)
    array([0.2, 1. , 3.2])
    """

    bandwidth_: float
    regularization_: float
    centres_: Array
    coefficients_: Array
    cv_scores_: Array
    bandwidths_: Array
    regularizations_: Array
    findings_: tuple[Finding, ...]

    def __init__(
        self,
        bandwidths: Sequence[float] | Array | None = None,
        regularizations: Sequence[float] | Array | None = None,
        n_centres: int = 100,
        nonnegative: Literal["coefficients", "ratio"] = "coefficients",
        alpha: float = 0.0,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.bandwidths = bandwidths
        self.regularizations = regularizations
        self.n_centres = n_centres
        self.nonnegative = nonnegative
        self.alpha = alpha
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
        for name, rows in (("X_source", len(source)), ("X_target", len(target))):
            if rows < 2:
                raise DataError(f"{name} must have at least 2 rows to leave one out; it has 1.")

        rng = np.random.default_rng(self.random_state)
        n_centres = min(self.n_centres, len(target))
        self.centres_ = target[rng.choice(len(target), size=n_centres, replace=False)]
        to_source = squared_distances(source, self.centres_)  # (n_S, centres)
        to_target = squared_distances(target, self.centres_)  # (n_T, centres)
        self.bandwidths_ = self._bandwidth_grid(to_source, to_target)
        self.regularizations_ = positive_grid(
            "regularizations",
            REGULARIZATIONS if self.regularizations is None else self.regularizations,
        )

        clip = self.nonnegative == "coefficients"
        self.cv_scores_ = np.stack(
            [
                leave_one_out_scores(
                    gaussian(to_source, sigma),
                    gaussian(to_target, sigma),
                    self.regularizations_,
                    alpha=self.alpha,
                    clip_coefficients=clip,
                )
                for sigma in self.bandwidths_
            ]
        )
        best = np.unravel_index(int(self.cv_scores_.argmin()), self.cv_scores_.shape)
        self.bandwidth_ = float(self.bandwidths_[best[0]])
        self.regularization_ = float(self.regularizations_[best[1]])
        self.coefficients_ = ratio_coefficients(
            gaussian(to_source, self.bandwidth_),
            gaussian(to_target, self.bandwidth_),
            self.regularization_,
            alpha=self.alpha,
            clip_coefficients=clip,
        )
        self.findings_ = tuple(
            Finding("grid-edge", evidence={"parameter": name, "value": float(grid[index])})
            for name, grid, index in (
                ("bandwidth", self.bandwidths_, best[0]),
                ("regularization", self.regularizations_, best[1]),
            )
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
            raise must("nonnegative", "'coefficients' or 'ratio'", self.nonnegative)
        if not 0.0 <= self.alpha < 1.0:
            raise must("alpha", "at least 0 and below 1", self.alpha)
        if not is_whole(self.n_centres, 1):
            raise must("n_centres", "a whole number of at least 1", self.n_centres)

    def _bandwidth_grid(self, to_source: Array, to_target: Array) -> Array:
        if self.bandwidths is not None:
            return positive_grid("bandwidths", self.bandwidths)
        distances = np.sqrt(np.concatenate([to_source, to_target]).ravel())
        # A centre is at distance 0 from itself, up to rounding.
        distances = distances[distances > COINCIDENT * distances.max(initial=0.0)]
        median = float(np.median(distances)) if distances.size else 1.0  # all rows the same
        return median * BANDWIDTH_MULTIPLES


def ratio_coefficients(
    phi_source: Array,
    phi_target: Array,
    regularization: float,
    *,
    alpha: float = 0.0,
    clip_coefficients: bool = True,
) -> Array:
    """(H + λI)⁻¹ h, with H = (1 − alpha) H_S + alpha H_T, clipped at zero on request.

    Parameters
    ----------
    phi_source, phi_target : array of shape (rows, centres)
        The basis on each side's rows.
    """
    H = (1.0 - alpha) / len(phi_source) * (phi_source.T @ phi_source)
    if alpha > 0.0:
        H += alpha / len(phi_target) * (phi_target.T @ phi_target)
    H[np.diag_indices_from(H)] += regularization
    coefficients: Array = np.linalg.solve(H, phi_target.mean(axis=0))
    return np.maximum(coefficients, 0.0) if clip_coefficients else coefficients


def leave_one_out_scores(
    phi_source: Array,
    phi_target: Array,
    regularizations: Array,
    *,
    alpha: float = 0.0,
    clip_coefficients: bool = True,
) -> Array:
    """Leave-one-out score of every λ in closed form.

    Row i of the source is left out together with row i of the target, i < n = min(n_S, n_T), and

        score(λ) = mean_i [ (1 − alpha)/2 r_i(x^S_i)² + alpha/2 r_i(x^T_i)² − r_i(x^T_i) ],

    where r_i is the ratio fitted without the pair, non-negativity included. Leaving the pair out
    changes H + λI by two rank-one terms,

        H_i + λI = B − c_S φφᵀ − c_T ψψᵀ,   c_S = (1 − alpha)/(n_S − 1),  c_T = alpha/(n_T − 1),
        B = (1 − alpha) n_S/(n_S − 1) H_S + alpha n_T/(n_T − 1) H_T + λI,

    so that the Woodbury identity with a 2 × 2 inner matrix gives every α_i. One
    eigendecomposition of B serves all λ. Largest arrays: a few of shape (n, centres).
    """
    n_source, n_target = len(phi_source), len(phi_target)
    n = min(n_source, n_target)
    c_source, c_target = (1.0 - alpha) / (n_source - 1), alpha / (n_target - 1)
    B = c_source * (phi_source.T @ phi_source)
    if alpha > 0.0:
        B += c_target * (phi_target.T @ phi_target)
    eigenvalues, V = np.linalg.eigh(B)
    eigenvalues = np.maximum(eigenvalues, 0.0)

    phi, psi = phi_source[:n], phi_target[:n]
    g = (phi_target.sum(axis=0) - psi) / (n_target - 1)  # h without row i, (n, centres)
    phi_v, psi_v, g_v = phi @ V, psi @ V, g @ V

    scores = np.empty(len(regularizations))
    for index, lam in enumerate(regularizations):
        inverse = 1.0 / (eigenvalues + lam)
        # u'B⁻¹w for u, w among φ, ψ, g: everything that the 2 × 2 system needs.
        phi_b, psi_b = phi_v * inverse, psi_v * inverse
        ff, fp, pp = _dots(phi_b, phi_v), _dots(phi_b, psi_v), _dots(psi_b, psi_v)
        fg, pg = _dots(phi_b, g_v), _dots(psi_b, g_v)
        # (I − C U'B⁻¹U) t = U'B⁻¹g, with C = diag(c_S, c_T) and U = [φ ψ].
        a11, a12 = 1.0 - c_source * ff, -c_target * fp
        a21, a22 = -c_source * fp, 1.0 - c_target * pp
        determinant = a11 * a22 - a12 * a21
        t_phi = (a22 * fg - a12 * pg) / determinant  # φ'α_i
        t_psi = (a11 * pg - a21 * fg) / determinant  # ψ'α_i
        if clip_coefficients:
            in_basis = g_v * inverse
            in_basis += (c_source * t_phi)[:, None] * phi_b
            in_basis += (c_target * t_psi)[:, None] * psi_b
            coefficients = np.maximum(in_basis @ V.T, 0.0)  # α_i, one a row
            at_source, at_target = _dots(coefficients, phi), _dots(coefficients, psi)
        else:
            at_source, at_target = np.maximum(t_phi, 0.0), np.maximum(t_psi, 0.0)
        scores[index] = np.mean(
            0.5 * (1.0 - alpha) * at_source**2 + 0.5 * alpha * at_target**2 - at_target
        )
    return scores


def _dots(left: Array, right: Array) -> Array:
    products: Array = np.einsum("ij,ij->i", left, right)
    return products


def positive_grid(name: str, values: Sequence[float] | Array) -> Array:
    """The values to choose from, in ascending order."""
    grid = as_vector(values, name)
    if not grid.size or (grid <= 0.0).any():
        raise must(name, "a non-empty sequence of positive numbers", len(grid))
    return np.sort(grid)

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
from fedcsa.core.kernels import gaussian, squared_distances
from fedcsa.core.ratio_scores import RatioSums, leave_one_out_scores, ratio_coefficients
from fedcsa.errors import DataError, must, one_of
from fedcsa.findings import Finding

#: Multiples of the median distance. Nothing below a quarter: a narrower kernel reads every
#: source row as unlike the target, and the ratio collapses to zero.
BANDWIDTH_MULTIPLES = 2.0 ** np.arange(-2.0, 2.25, 0.5)
REGULARIZATIONS = np.logspace(-3.0, 1.0, 9)
#: Rows nearer than this share of the largest distance are one and the same.
COINCIDENT = 1e-7
#: Rows that are left out in turn, at most: they choose two numbers and do nothing else.
SCORE_ROWS = 1_000

__all__ = ["ULSIF", "leave_one_out_scores", "positive_grid", "ratio_coefficients"]


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
    score_rows : int or None, default 1,000
        Where there are more rows, so many are drawn and left out in turn to choose σ and λ; the
        others enter the score as fitted, see `leave_one_out_scores`. The ratio is always fitted
        on all rows. None: every row is left out, the exact score.
    random_state : int or numpy.random.Generator, optional
        Draws the centres, then the rows to leave out if there are too many.

    Notes
    -----
    The largest arrays are the distances from every row to every centre and the kernel of one
    bandwidth: two of shape (n_S + n_T, centres), 32 MB for 10,000 rows a side and 100 centres.

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
        for name, rows in (("X_source", len(source)), ("X_target", len(target))):
            if rows < 2:
                raise DataError(
                    f"{name} must have at least 2 rows to leave one out; it has 1. "
                    "Collect more rows."
                )

        rng = np.random.default_rng(self.random_state)
        n_centres = min(self.n_centres, len(target))
        self.centres_ = target[rng.choice(len(target), size=n_centres, replace=False)]
        distances = np.empty((len(source) + len(target), n_centres))  # once for all bandwidths
        distances[: len(source)] = squared_distances(source, self.centres_)
        distances[len(source) :] = squared_distances(target, self.centres_)
        self.bandwidths_ = self._bandwidth_grid(distances)
        self.regularizations_ = positive_grid(
            "regularizations",
            REGULARIZATIONS if self.regularizations is None else self.regularizations,
        )
        pairs = self._left_out(min(len(source), len(target)), rng)
        self.cv_scores_, sums = self._scores(distances, len(source), pairs)

        best = np.unravel_index(int(self.cv_scores_.argmin()), self.cv_scores_.shape)
        self.bandwidth_ = float(self.bandwidths_[best[0]])
        self.regularization_ = float(self.regularizations_[best[1]])
        self.coefficients_ = sums[best[0]].coefficients(
            self.regularization_,
            alpha=self.alpha,
            clip_coefficients=self.nonnegative == "coefficients",
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
            raise one_of("nonnegative", ("coefficients", "ratio"), self.nonnegative)
        if not 0.0 <= self.alpha < 1.0:
            raise must("alpha", "at least 0 and below 1", self.alpha)
        if not is_whole(self.n_centres, 1):
            raise must("n_centres", "a whole number of at least 1", self.n_centres)
        if self.score_rows is not None and not is_whole(self.score_rows, 1):
            raise must("score_rows", "a whole number of at least 1, or None", self.score_rows)

    def _bandwidth_grid(self, distances: Array) -> Array:
        if self.bandwidths is not None:
            return positive_grid("bandwidths", self.bandwidths)
        # A centre is at distance 0 from itself, up to rounding.
        apart = distances[distances > COINCIDENT**2 * distances.max(initial=0.0)]
        if not apart.size:  # all rows the same
            return BANDWIDTH_MULTIPLES.copy()
        middle = (apart.size - 1) // 2, apart.size // 2  # one and the same if the size is odd
        apart.partition(middle)
        median = float(np.sqrt(apart[list(middle)]).mean())
        return median * BANDWIDTH_MULTIPLES

    def _left_out(self, n_pairs: int, rng: np.random.Generator) -> Rows | None:
        """Which pairs of rows are left out in turn; None: all of them."""
        if self.score_rows is None or self.score_rows >= n_pairs:
            return None
        return np.sort(rng.choice(n_pairs, size=self.score_rows, replace=False))

    def _scores(
        self, distances: Array, n_source: int, pairs: Rows | None
    ) -> tuple[Array, list[RatioSums]]:
        """Score of every σ and λ, and the sums from which each σ is fitted."""
        scores, sums = [], []
        kernel = np.empty_like(distances)
        for sigma in self.bandwidths_:
            gaussian(distances, sigma, out=kernel)
            phi, psi = kernel[:n_source], kernel[n_source:]
            sums.append(RatioSums.of(phi, psi, self.alpha))
            scores.append(
                leave_one_out_scores(
                    phi,
                    psi,
                    self.regularizations_,
                    alpha=self.alpha,
                    clip_coefficients=self.nonnegative == "coefficients",
                    sums=sums[-1],
                    pairs=pairs,
                )
            )
        return np.stack(scores), sums


def positive_grid(name: str, values: Sequence[float] | Array) -> Array:
    """The values to choose from, in ascending order."""
    grid = as_vector(values, name)
    if not grid.size or (grid <= 0.0).any():
        raise must(name, "a non-empty sequence of positive numbers", len(grid))
    return np.sort(grid)

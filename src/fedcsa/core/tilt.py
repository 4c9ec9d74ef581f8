"""Weights that bring a source's rows onto the target's Table 1: entropy balancing.

z = (x − mean)/sd in the target's units, and C(x) = (z; z² − 1 for numbers; z_k z_l − R_kl where
the target tells its correlations). The weights w ∝ exp(λᵀC), Σw = 1, minimise

    log mean exp(λᵀC) + 10⁻³|λ|²,

which is convex. At the minimum the weighted mean of C, what is left of the imbalance, is −2·10⁻³λ.

Hainmueller (2012), "Entropy balancing for causal effects", Political Analysis 20; doubly robust by
Zhao and Percival (2017), Journal of Causal Inference 5; to health economists matching-adjusted
indirect comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.core.batches import in_blocks, over_blocks

#: Weight of |λ|²: it keeps λ finite where no weights reach the target.
TILT_PENALTY = 1e-3
#: Balanced functions are cut off here: a single outlier must not decide, and no square overflows.
FARTHEST_ROW = 30.0
#: Newton ends where a step can lower the objective by no more: λ is then exact to about 1e-11.
SMALLEST_GAIN = 1e-22
#: Newton converges in about ten steps; two hundred are needed only where it cannot.
MOST_STEPS = 200
#: A step shorter than this share of Newton's gains nothing but rounding.
SHORTEST_STEP = 1e-10
#: From so many batches on, λ of the first is the start: it costs less than the passes it saves.
BATCHES_TO_START = 8
#: Sets of weights that differ by a smaller share are one: reports are rounded far sooner.
SAME_WEIGHTS = 1e-6
#: A column whose variance is a smaller share of its mean square is constant but for rounding.
_CONSTANT = 1e-12

_Flags: TypeAlias = NDArray[np.bool_]


def balanced(z: Array, flags: _Flags, correlations: Array | None = None) -> Array:
    """(1, C(x)): functions of x whose weighted means shall be the target's, less the target's.

    Parameters
    ----------
    z : array of shape (rows, features)
        In the target's units.
    flags : array of bool of shape (features,)
        Columns of zeros and ones: their mean says all, so they have no square.
    correlations : array of shape (features, features), optional
        Mean products of the target's z, where it tells them.

    Returns
    -------
    array of shape (1 + functions, rows)
        A function lies in one piece.

    Examples
    --------
    >>> balanced(np.array([[2.0, 0.5]]), np.array([False, True]))[:, 0]
    array([1. , 2. , 0.5, 3. ])
    """
    d = len(flags)
    end = 1 + d + d - int(flags.sum())
    pairs = 0 if correlations is None else d * (d - 1) // 2
    functions = np.empty((end + pairs, len(z)))
    functions[0] = 1.0
    values = functions[1 : d + 1]
    values[...] = z.T
    numbers = values if end == 1 + 2 * d else values[~flags]
    np.multiply(numbers, numbers, out=functions[d + 1 : end])
    functions[d + 1 : end] -= 1.0
    if correlations is not None:
        first, second = np.triu_indices(d, 1)
        np.multiply(values[first], values[second], out=functions[end:])
        functions[end:] -= correlations[first, second][:, None]
    # Of a number, the square is the first to be too large.
    single = np.abs(values[flags]) if flags.any() else values[:0]
    lowest = functions[end:].min(initial=0.0)
    if max(functions[d + 1 :].max(initial=0.0), single.max(initial=0.0), -lowest) > FARTHEST_ROW:
        np.clip(functions, -FARTHEST_ROW, FARTHEST_ROW, out=functions)
    return functions


@dataclass(frozen=True)
class Tilt:
    """Weights of a source's rows, as a function of the row.

    Attributes
    ----------
    flags : array of bool of shape (features,)
    correlations : array of shape (features, features) or None
    coefficients : array
        λ.
    log_total : float
        log Σ exp(λᵀC) over the source's rows.
    n_rows : int
    moments : array of shape (functions + 1, functions + 1)
        Σ w (1, C)(1, C)ᵀ over the source's rows.
    """

    flags: _Flags = field(repr=False)
    correlations: Array | None = field(repr=False)
    coefficients: Array = field(repr=False)
    log_total: float
    n_rows: int
    moments: Array = field(repr=False)

    def weights(self, z: Array, functions: Array | None = None) -> Array:
        """The weight of every row; the weights sum to one over the source's rows.

        Parameters
        ----------
        z : array of shape (rows, features)
            In the target's units.
        functions : array of shape (rows, functions), optional
            Their C, where it is known already.
        """
        if functions is None:
            functions = balanced(z, self.flags, self.correlations)[1:].T
        exponent: Array = functions @ self.coefficients
        exponent -= self.log_total
        return np.exp(exponent, out=exponent)

    @property
    def difference(self) -> Array:
        """Σ w z: what is left of the difference in means, in the target's units."""
        d = len(self.flags)
        left: Array = self.moments[0, 1 : d + 1]
        return left

    @property
    def own_correlations(self) -> Array:
        """Correlations of z under the weights, shape (features, features); 0 of a constant."""
        d = len(self.flags)
        mean, second = self.difference, self.moments[1 : d + 1, 1 : d + 1]
        covariance = second - np.outer(mean, mean)
        variance = np.diag(covariance)
        constant = variance <= _CONSTANT * np.diag(second)  # of one only rounding is left
        spread = np.where(constant, 0.0, np.sqrt(np.maximum(variance, 0.0)))
        product = np.outer(spread, spread)
        found: Array = np.divide(covariance, product, out=np.zeros_like(product), where=product > 0)
        return np.clip(found, -1.0, 1.0)


#: Number of rows, the largest exponent, and Σ exp(λᵀC − largest) (1, C)(1, C)ᵀ.
_Sums: TypeAlias = tuple[int, float, Array]


def fit_tilt(
    rows: Iterable[Any],
    flags: Sequence[bool] | _Flags,
    correlations: Array | None = None,
    blocks: Callable[[Any], Iterable[Array]] = in_blocks,
) -> Tilt:
    """The weights of `rows`, by Newton's method with steps that are halved until they help.

    The largest array is C of a block, on every core.

    Parameters
    ----------
    rows : iterable of arrays of shape (rows, features)
        Batches of z. It is gone through once a step, so it must start anew every time. A last
        column beyond the features is the logarithm of weights that the rows have already: w ∝
        these times exp(λᵀC) then, and `Tilt.weights` gives the second factor alone.
    flags : array of bool of shape (features,)
    correlations : array of shape (features, features), optional
    blocks : function of a batch, optional
        Its z, some rows at a time, where `rows` holds something else than z.

    Examples
    --------
    >>> z = np.random.default_rng(0).normal(0.5, 1.0, (400, 2))
    >>> tilt = fit_tilt([z], np.array([False, False]))
    >>> np.allclose(tilt.weights(z) @ z, -2e-3 * tilt.coefficients[:2])
    True
    """
    marks = np.asarray(flags, dtype=np.bool_)
    size = len(marks) + int((~marks).sum())
    if correlations is not None:
        size += len(marks) * (len(marks) - 1) // 2
    at, slope, step = np.zeros(size), np.zeros(size), np.zeros(size)
    coming = iter(rows)
    first = next(coming)
    if next(islice(coming, BATCHES_TO_START - 2, None), None) is not None:
        at = fit_tilt([[*blocks(first)]], marks, correlations, iter).coefficients
    value = gain = 0.0
    for _ in range(MOST_STEPS + 1):
        length = 1.0
        while True:
            trial = at - length * step
            of_block = partial(_sums, trial, marks, correlations)
            n_rows, highest, total = over_blocks(map(blocks, rows), of_block, _added)
            moments, log_total = total / total[0, 0], float(highest + np.log(total[0, 0]))
            lower = log_total - float(np.log(n_rows)) + TILT_PENALTY * float(trial @ trial)
            flatter = moments[0, 1:] + 2.0 * TILT_PENALTY * trial
            at_start = not gain
            if at_start or lower <= value - 1e-4 * length * gain or length < SHORTEST_STEP:
                break
            # Where only rounding is left to gain, the value cannot tell; the slope can.
            if gain < 1e-10 and np.abs(flatter).max() <= np.abs(slope).max():
                break
            length /= 2.0
        if length < SHORTEST_STEP:
            break
        found = Tilt(marks, correlations, trial, log_total, n_rows, moments)
        at, value, slope = trial, lower, flatter
        curvature = moments[1:, 1:] - np.outer(moments[0, 1:], moments[0, 1:])
        curvature[np.diag_indices_from(curvature)] += 2.0 * TILT_PENALTY
        step = np.linalg.solve(curvature, slope)
        gain = float(slope @ step)
        if not gain > SMALLEST_GAIN:
            break
    return found


def _sums(coefficients: Array, flags: _Flags, correlations: Array | None, z: Array) -> _Sums:
    """What the weights at one λ, the objective there and its slope follow from, of a block.

    Parameters
    ----------
    coefficients : array of shape (functions,)
        λ.
    flags, correlations
        As for `fit_tilt`.
    z : array of shape (rows, features), or with one column more
    """
    d = len(flags)
    functions = balanced(z[:, :d], flags, correlations)
    root = coefficients @ functions[1:]
    if z.shape[1] > d:
        root += z[:, d]
    top = float(root.max())
    root -= top
    root *= 0.5
    functions *= np.exp(root, out=root)
    return len(z), top, functions @ functions.T


def _added(a: _Sums, b: _Sums) -> _Sums:
    """The sums of both sets of rows.

    Parameters
    ----------
    a, b : _Sums
    """
    top = max(a[1], b[1])
    return a[0] + b[0], top, a[2] * np.exp(a[1] - top) + b[2] * np.exp(b[1] - top)


def largest_leverage(weights: Array) -> float:
    r"""How much of the variance of weighted sums is a single row's, at most.

    Sums Σ_i w_ki y_i, k = 1, 2, …, of outcomes that vary alike around what is known of them:
    with V an orthonormal basis of the weights, the share of row i is h_i = Σ_k V_ki². Whoever
    solves the sums for y_i errs by sqrt((1 − h_i)/h_i) sds, even with all else known: at ½ no
    less than by predicting it. Of one sum, h_i = w_i²/Σw².

    Parameters
    ----------
    weights : array of shape (sums, rows)

    Examples
    --------
    >>> largest_leverage(np.array([[0.5, 0.25, 0.25]]))  # of the first row
    0.6666666666666666
    >>> round(largest_leverage(np.array([[0.2, 0.4, 0.4], [0.0, 0.5, 0.5]])), 3)  # subtract them
    1.0
    """
    _, size, basis = np.linalg.svd(np.asarray(weights), full_matrices=False)
    told = basis[size > SAME_WEIGHTS * size.max()]
    return float(np.square(told).sum(axis=0).max())


def target_equivalent_rows(effective_rows: Array, imbalance: Array) -> Array:
    """m: about how many rows of the target a weighted source is worth.

    1/m = 1/ESS + ι + ι²/2, an inverse mean squared error.

    Parameters
    ----------
    effective_rows : array of shape (sources,)
        ESS = 1/Σw².
    imbalance : array of shape (sources,)
        ι, the mean over features of (Σ w z)².

    Examples
    --------
    >>> target_equivalent_rows(np.array([50.0, 20.0]), np.array([0.0, 0.1])).round(1)
    array([50. ,  6.5])
    """
    with np.errstate(divide="ignore"):
        inverse = 1.0 / np.asarray(effective_rows) + imbalance + np.square(imbalance) / 2.0
    rows: Array = 1.0 / inverse
    return rows

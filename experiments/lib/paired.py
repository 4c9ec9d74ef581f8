"""Intervals of what was measured: paired differences of methods, spreads, rates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from lib.common import Array
from scipy.stats import t

LEVEL = 0.95
N_BOOT = 2_000


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % confidence interval."""

    value: float
    lower: float
    upper: float

    def side(self, null: float = 0.0) -> str:
        """Whether it lies "below" or "above" the null, or holds it: "unclear"."""
        if self.upper < null:
            return "below"
        return "above" if self.lower > null else "unclear"

    def columns(self, name: str) -> dict[str, float]:
        """As three columns of a table."""
        return {name: self.value, f"{name}_lower": self.lower, f"{name}_upper": self.upper}


def mean_interval(values: Sequence[float] | Array) -> Interval:
    """Student's interval of a mean; without two values it is unbounded."""
    x = np.asarray(values, dtype=np.float64)
    centre = float(x.mean())
    if len(x) < 2:
        return Interval(centre, -np.inf, np.inf)
    half = float(t.ppf(0.5 + LEVEL / 2.0, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x)))
    return Interval(centre, centre - half, centre + half)


def mean_upper(values: Array, axis: int) -> Array:
    """Upper ends of Student's intervals of the means along an axis."""
    n = values.shape[axis]
    half = t.ppf(0.5 + LEVEL / 2.0, n - 1) * values.std(axis=axis, ddof=1) / np.sqrt(n)
    upper: Array = values.mean(axis=axis) + half
    return upper


def difference(left: Array, right: Array) -> Interval:
    """Mean of left − right over pairs."""
    return mean_interval(np.asarray(left) - np.asarray(right))


def spread_ratio(left: Array, right: Array) -> Interval:
    """Standard deviation of left over that of right, by a bootstrap of pairs."""
    return _bootstrap(left, right, lambda a, b: a.std(axis=1, ddof=1) / b.std(axis=1, ddof=1))


def mean_ratio(left: Array, right: Array) -> Interval:
    """Mean of left over mean of right, by a bootstrap of pairs."""
    return _bootstrap(left, right, lambda a, b: a.mean(axis=1) / b.mean(axis=1))


def variance_interval(values: Array, scale: float = 1.0) -> Interval:
    """`scale` times the variance, by a bootstrap: χ² holds for normal values only.

    Parameters
    ----------
    values : array of shape (runs,)
    scale : float
    """
    drawn = values[_picks(len(values))].var(axis=1, ddof=1)
    low, high = _percentiles(scale * drawn)
    return Interval(scale * float(values.var(ddof=1)), low, high)


def rate(errors: Mapping[float, Array]) -> Interval | None:
    """β in mean error ∝ n^β: slope of log |mean| over log n, by a bootstrap of the runs at each n.

    A mean counts by the square of its distance from 0 in standard errors. None where fewer than two
    are further than two of them: there is nothing whose rate could be told.

    Parameters
    ----------
    errors : mapping
        n -> error of every run.
    """
    x = np.log(np.array(list(errors), dtype=np.float64))
    found = [np.asarray(each, dtype=np.float64) for each in errors.values()]
    with np.errstate(invalid="ignore"):
        z = np.array([e.mean() / (e.std(ddof=1) / np.sqrt(len(e))) for e in found])
    z = np.where(np.isfinite(z), z, 0.0)  # all runs alike
    if (np.abs(z) > 2.0).sum() < 2:
        return None
    centred = x - np.average(x, weights=z**2)
    share = z**2 * centred / (z**2 @ centred**2)
    with np.errstate(divide="ignore"):  # a drawn mean of 0 has no logarithm
        drawn = np.log(np.abs([e[_picks(len(e), k)].mean(axis=1) for k, e in enumerate(found)]))
        value = float(share @ np.log(np.abs([e.mean() for e in found])))
    return Interval(value, *_percentiles(share @ drawn))


def slope_over(values: Array, positions: Sequence[float]) -> Interval:
    """Slope of every row of `values` (runs, positions) over the positions, averaged over runs."""
    x = np.asarray(positions, dtype=np.float64)
    x = x - x.mean()
    return mean_interval(values @ x / (x @ x))


def ratio_slope(left: Array, right: Array, positions: Sequence[float]) -> Interval:
    """Slope over the positions of mean left / mean right (both (runs, positions)); bootstrap."""
    x = np.asarray(positions, dtype=np.float64)
    x = (x - x.mean()) / ((x - x.mean()) @ (x - x.mean()))
    picks = _picks(len(left))
    drawn = (left[picks].mean(axis=1) / right[picks].mean(axis=1)) @ x
    value = float((left.mean(axis=0) / right.mean(axis=0)) @ x)
    return Interval(value, *_percentiles(drawn))


def _bootstrap(left: Array, right: Array, statistic: Callable[[Array, Array], Array]) -> Interval:
    left, right = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    picks = _picks(len(left))
    with np.errstate(divide="ignore", invalid="ignore"):  # a draw of one pair has no spread
        value = float(statistic(left[None], right[None])[0])
        drawn = statistic(left[picks], right[picks])
    return Interval(value, *_percentiles(drawn))


def _picks(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, n, (N_BOOT, n))


def _percentiles(drawn: Array) -> tuple[float, float]:
    tail = 50.0 * (1.0 - LEVEL)
    finite = drawn[np.isfinite(drawn)]
    if not finite.size:
        return -np.inf, np.inf
    low, high = np.percentile(finite, [tail, 100.0 - tail])
    return float(low), float(high)

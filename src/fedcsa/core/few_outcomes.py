"""What a measure is at *this* site, from what the other sites found and a few outcomes.

Two hypotheses about this site: it differs from the others as they differ from each other (its
measure θ has the density p of `NewSite`), or it is unlike them (a wide density u with heavy tails).
The prior is mostly the first:

    π(θ) = (1 − UNLIKE) p(θ) + UNLIKE u(θ)

A rule that differs makes a loss larger, seldom smaller: of a loss, u reaches farther above than
below. Few outcomes may be lucky ones, and then only u says how large the loss may yet be.

The outcomes alone give an estimate x with a variance v, so the likelihood of θ is that of Student's
t at (x − θ)/√v. Prior times likelihood, on a grid, is the posterior. Where outcomes contradict p,
the part of u takes over, and the interval becomes that of the outcomes alone.

*Looking often.* If θ has the prior, u(θ)/π_t(θ) is a martingale that begins with u(θ)/π(θ), whose
mean is 1. So (Ville 1939) the probability that it ever reaches 1/α is at most α, and the points
with π_t(θ) > α u(θ) hold the true θ at all looks together with probability 1 − α. Likewise the
ratio of what u and what p predict for the outcomes is a martingale if this site is like the
others: it ever reaches 20 with a probability of one in twenty at most.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fedcsa.core.arrays import Array, gammaln, stdtr, stdtrit
from fedcsa.core.random_effects import NewSite

#: Prior probability that this site is unlike the others: one in four. Developed on simulated
#: studies: as rare as lets twenty outcomes halve an interval, as common as lets them overrule it.
UNLIKE = 0.25
#: Scale of the wide density, in standard deviations of what the others predict …
WIDE = 3.0
#: … of a loss below and above its middle. Developed likewise: with one scale for both sides,
#: intervals that missed at an unlike site lay below the truth, and a larger one costs more width …
LOSS_BELOW, LOSS_ABOVE = 1.0, 3.5
#: … and its degrees of freedom: with three it has a variance, and heavy tails.
WIDE_DF = 3.0
#: Points of every part of the grid: with more, no interval changes by a thousandth of its width.
GRID = 301
#: A part of the grid reaches so many standard deviations.
GRID_REACH = 12.0
#: Rows that the sources' variance of one row counts for, beside that of the outcomes themselves.
VARIANCE_ROWS = 10.0
#: Rows of a loss that tell of its variance what one normal row would: the square of a normal
#: residual has a kurtosis of 15, so its variance from n rows has 2n/(15 − 1) degrees of freedom.
#: Lucky rows lack large losses: their mean is too low, and so is their variance.
LOSS_ROWS = 7.0
#: The evidence at which this site is called unlike the others, at all looks together at the level
#: of one in twenty.
TOO_UNLIKE = 20.0


@dataclass(frozen=True)
class Alone:
    """What outcomes alone say of a measure, on its unbounded scale.

    Attributes
    ----------
    estimate, variance : float
    df : float
        Degrees of freedom of the variance.
    """

    estimate: float
    variance: float
    df: float

    def interval(self, level: float) -> tuple[float, float]:
        """Student's interval."""
        slack = float(stdtrit(self.df, 0.5 + level / 2.0)) * self.variance**0.5
        return self.estimate - slack, self.estimate + slack

    def likelihood(self, points: Array) -> Array:
        """Likelihood of every point, up to a factor; 1 at the estimate."""
        far = (points - self.estimate) ** 2 / self.variance
        found: Array = (1.0 + far / self.df) ** (-0.5 * (self.df + 1.0))
        return found


def pooled_variance(
    rows: float, own: float, one_row: float, *, loss: bool = False
) -> tuple[float, float]:
    """Variance of an estimate from few rows, and its degrees of freedom.

    That of the rows themselves is unsure; the sources know what one row's is, and count as
    `VARIANCE_ROWS` rows.

    Parameters
    ----------
    rows : float
        Effective rows n.
    own : float
        Variance of the estimate as the rows show it; NaN if they do not.
    one_row : float
        n times the variance at the sources; NaN if they do not say.
    loss : bool
        Whether it is the logarithm of a loss; then a row tells of the variance less, `LOSS_ROWS`.

    Examples
    --------
    >>> pooled_variance(21.0, 0.1, float("nan")), pooled_variance(21.0, 0.1, 2.1)
    ((0.1, 20.0), (0.1, 30.0))
    >>> pooled_variance(4.0, float("nan"), 2.0)
    (0.5, 10.0)
    """
    free = (rows - 1.0) / (LOSS_ROWS if loss else 1.0)
    if np.isnan(one_row):
        return own, max(free, 1.0)
    if np.isnan(own) or rows <= 1.0:
        return one_row / rows, VARIANCE_ROWS
    df = VARIANCE_ROWS + free
    return (VARIANCE_ROWS * one_row / rows + free * own) / df, df


@dataclass(frozen=True)
class ThisSite:
    """The distribution of a measure at this site, on a grid.

    Attributes
    ----------
    points : array of shape (points,)
        Rising.
    density : array of shape (points,)
        π_t, the posterior.
    wide : array of shape (points,)
        u.
    against : float
        How many times as probable the outcomes are if this site is unlike the others.
    """

    points: Array = field(repr=False)
    density: Array = field(repr=False)
    wide: Array = field(repr=False)
    against: float

    def below(self, value: float) -> float:
        """Probability that the measure is below `value`."""
        return float(np.interp(value, self.points, self._cumulated))

    def farther_than(self, middle: float, size: float) -> float:
        """Probability that the measure lies off `middle` by more than `size`.

        Parameters
        ----------
        middle, size : float
        """
        return 1.0 - self.below(middle + size) + self.below(middle - size)

    def quantile(self, probability: float) -> float:
        """The value below which the measure lies with `probability`."""
        return float(np.interp(probability, self._cumulated, self.points))

    def interval(self, level: float) -> tuple[float, float]:
        """The interval for one look; it leaves out as much on either side."""
        return self.quantile(0.5 - level / 2.0), self.quantile(0.5 + level / 2.0)

    def anytime(self, level: float) -> tuple[float, float]:
        """The interval that is right at all looks together."""
        kept = self.points[self.density > (1.0 - level) * self.wide]
        return float(kept[0]), float(kept[-1])

    @cached_property
    def _cumulated(self) -> Array:
        between = 0.5 * (self.density[1:] + self.density[:-1]) * np.diff(self.points)
        found = np.concatenate([[0.0], np.cumsum(between)])
        cumulated: Array = found / found[-1]
        return cumulated


def this_site(
    site: NewSite, found: Alone | None, unlike: float | None = None, *, loss: bool = False
) -> ThisSite:
    """The distribution at this site, given what outcomes alone say.

    Parameters
    ----------
    site : NewSite
        What the other sites predict.
    found : Alone or None
        None before any outcome came.
    unlike : float, optional
        Evidence that this site is unlike the others, if other measures tell as well; by default
        that of this measure alone.
    loss : bool
        Whether it is the logarithm of a loss.
    """
    middle, sd = _moments(site)
    points = _grid(middle, sd, found)
    p, u = _density(site, points), _wide(points, middle, sd, loss=loss)
    likelihood = np.ones_like(points) if found is None else found.likelihood(points)
    like, other = p * likelihood, u * likelihood
    expected, wide = (float(np.trapezoid(each, points)) for each in (like, other))
    against = 1.0 if found is None else wide / max(expected, np.finfo(float).tiny)
    odds = UNLIKE * (against if unlike is None else unlike)
    density = (1.0 - UNLIKE) * like / max(expected, np.finfo(float).tiny) + odds * other / wide
    return ThisSite(points, density / (1.0 - UNLIKE + odds), u, float(against))


def _grid(middle: float, sd: float, found: Alone | None) -> Array:
    """Points that are dense where a prior, the wide density or the likelihood is large.

    Parameters
    ----------
    middle, sd : float
        Of what the other sites predict.
    found : Alone or None
    """
    parts = [(middle, sd), (middle, WIDE * sd * GRID_REACH)]
    if found is not None:
        parts += [(found.estimate, found.variance**0.5), (found.estimate, GRID_REACH * sd)]
    ends = [np.linspace(at - GRID_REACH * by, at + GRID_REACH * by, GRID) for at, by in parts]
    dense, farthest = WIDE * sd * GRID_REACH**2, float(np.abs(np.array(ends) - middle).max())
    if farthest > dense:  # outcomes that are absurdly far off: no gap in which u still counts
        tail = np.geomspace(dense, farthest, GRID)
        ends += [middle - tail, middle + tail]
    return np.unique(np.concatenate(ends))


def chance(site: NewSite, found: Alone) -> float:
    """How often a site like the others shows outcomes as far off, or farther: a p-value.

    Parameters
    ----------
    site : NewSite
    found : Alone
    """
    middle, sd = _moments(site)
    points = np.linspace(middle - GRID_REACH * sd, middle + GRID_REACH * sd, GRID)
    p = _density(site, points)
    lower = float(p @ stdtr(found.df, (found.estimate - points) / found.variance**0.5) / p.sum())
    return min(2.0 * min(lower, 1.0 - lower), 1.0)


def worth_rows(width: float, one_row: float, level: float) -> float:
    """Outcomes alone whose interval is as narrow.

    Parameters
    ----------
    width : float
        Of an interval, on the unbounded scale.
    one_row : float
        n times the variance of the estimate from n rows.
    level : float

    Examples
    --------
    >>> round(worth_rows(2 * 2.0930 * (1.0 / 20.0) ** 0.5, 1.0, 0.95), 2)
    20.0
    """

    def wider(rows: float) -> float:
        times = float(stdtrit(rows - 1.0, 0.5 + level / 2.0))
        return float(2.0 * times * (one_row / rows) ** 0.5 - width)

    from scipy.optimize import brentq  # slow to load

    if not width > 0.0 or wider(MOST_OUTCOMES) > 0.0:
        return MOST_OUTCOMES
    return float(brentq(wider, FEWEST_ALONE, MOST_OUTCOMES)) if wider(FEWEST_ALONE) > 0.0 else 0.0


#: Fewer outcomes alone have no interval worth the name, and more than this nobody counts.
FEWEST_ALONE, MOST_OUTCOMES = 1.1, 1e6


def _wide(points: Array, middle: float, sd: float, *, loss: bool) -> Array:
    """The density u at every point: two halves of Student's with `WIDE_DF` degrees of freedom.

    Parameters
    ----------
    points : array of shape (points,)
    middle, sd : float
        Of what the other sites predict. The halves meet in the middle.
    loss : bool
        Whether it is the logarithm of a loss.
    """
    below, above = (LOSS_BELOW * sd, LOSS_ABOVE * sd) if loss else (WIDE * sd, WIDE * sd)
    half = 0.5 * (WIDE_DF + 1.0)
    log = gammaln(half) - gammaln(0.5 * WIDE_DF) - 0.5 * np.log(np.pi * WIDE_DF)
    log -= np.log(0.5 * (below + above))
    z = (points - middle) / np.where(points < middle, below, above)
    found: Array = np.exp(log - half * np.log1p(z * z / WIDE_DF))
    return found


def _density(site: NewSite, points: Array) -> Array:
    """The density p at every point.

    Parameters
    ----------
    site : NewSite
    points : array of shape (points,)
    """
    some = slice(None, None, max(len(site.taus) // MOST_TAUS, 1))
    share = site.probabilities[some] / site.probabilities[some].sum()
    means, sds = site.means[some, None], site.sds[some, None]
    z = (points - means) / sds
    found: Array = share @ (np.exp(-0.5 * z * z) / (sds * np.sqrt(2.0 * np.pi)))
    return found


#: A density needs no more τ than this: with all of them no interval changes by a thousandth.
MOST_TAUS = 100


def _moments(site: NewSite) -> tuple[float, float]:
    """Mean and standard deviation of what the other sites predict."""
    mean = float(site.probabilities @ site.means)
    return mean, float(np.sqrt(site.probabilities @ (site.sds**2 + (site.means - mean) ** 2)))

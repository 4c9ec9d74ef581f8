"""What a new site may expect, from what the others found: a random-effects prediction.

    y_j ~ N(μ + u_j, v_j),  u_j ~ N(0, τ²),  τ half-normal(scale),  μ flat

With τ given, everything is normal; τ is integrated out by the trapezoid rule. The distribution at
a *new* site has its own u: it is wider than that of the mean μ, and does not shrink to nothing
however many rows the sites have. Higgins, Thompson and Spiegelhalter (2009), "A re-evaluation of
random-effects meta-analysis", Journal of the Royal Statistical Society A 172.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.normal import normal_below, normal_quantile

#: The half-normal prior is integrated up to so many of its scales: beyond lies 2e-9 of it.
FARTHEST_TAU = 6.0
#: Points of the trapezoid rule.
POINTS = 2001
#: A site's estimate counts up to so many standard deviations from what the others predict.
#: Beyond, it has no more influence: as if site effects were normal in the middle and had
#: exponential tails (Huber 1964, "Robust estimation of a location parameter"). Of honest sites with
#: normal effects one in 370 lies farther; a smaller bound costs coverage where sites differ much.
FARTHEST_SITE = 3.0
#: Farther off is all the same: probabilities are not told from 0 and 1 any more.
FARTHEST_SD = 8.2
#: Of fewer sites, one that differs may as well be of another kind: the promise counts it whole.
FEWEST_SITES = 5
#: No variance on a log or logit scale is smaller: nothing is known better than to a millionth. An
#: exact zero would outweigh every other source. Sources keep to it, and the target asks for it.
SMALLEST_VARIANCE = 1e-12
#: A quantile is sought until a step is so small, by at most so many steps; halving alone takes 60.
_SMALLEST_STEP, _MOST_TRIES = 1e-13, 100
#: Points of the trapezoid rule for `power`, which tells a share of simulated sets only.
POWER_POINTS = 201
#: Simulated sets of sites for `power`: its standard error is then 2.5 % at most.
POWER_DRAWS = 400


@dataclass(frozen=True)
class NewSite:
    """The distribution of a measure at a new site.

    Attributes
    ----------
    taus : array of shape (points,)
        Between-site standard deviations.
    probabilities : array of shape (points,)
        Of every τ, given the estimates; they sum to one.
    means, sds : array of shape (points,)
        Of the measure at a new site, given τ.
    """

    taus: Array = field(repr=False)
    probabilities: Array = field(repr=False)
    means: Array = field(repr=False)
    sds: Array = field(repr=False)

    def below(self, value: float) -> float:
        """Probability that the measure at a new site is below `value`."""
        return float(self.probabilities @ normal_below((value - self.means) / self.sds))

    def density(self, value: float) -> float:
        """Density of the measure at a new site."""
        z = (value - self.means) / self.sds
        return float(self.probabilities @ (np.exp(-0.5 * z**2) / self.sds)) / math.sqrt(math.tau)

    def quantile(self, probability: float, near: float | None = None) -> float:
        """The value below which the measure at a new site lies with `probability`.

        By Newton's method, and by halving where that would leave what is known to hold it.

        Parameters
        ----------
        probability : float
        near : float, optional
            Where to begin; by default at the mean.
        """
        low, high = (self.means - 12.0 * self.sds).min(), (self.means + 12.0 * self.sds).max()
        value = float(self.probabilities @ self.means) if near is None else near
        for _ in range(_MOST_TRIES):
            beyond, slope = self.below(value) - probability, self.density(value)
            step = beyond / slope if slope > 0.0 else value - low
            if abs(step) <= _SMALLEST_STEP * max(1.0, abs(value)):
                return value - step
            low, high = (low, value) if beyond > 0.0 else (value, high)
            following = value - step
            value = float(following if low < following < high else 0.5 * (low + high))
        return value

    def interval(self, level: float) -> tuple[float, float]:
        """The prediction interval that leaves out as much on either side."""
        return self.quantile(0.5 - level / 2.0), self.quantile(0.5 + level / 2.0)

    @property
    def between_sites(self) -> float:
        """Mean of τ given the estimates."""
        return float(self.probabilities @ self.taus)

    def differs_by_more(self, size: float) -> float:
        """Probability that τ exceeds `size`."""
        return float(self.probabilities @ _above(self.taus, size))


def new_site(
    estimates: Array, variances: Array, scale: float, extra: float = 0.0, points: int = POINTS
) -> NewSite:
    """The distribution at a new site.

    Parameters
    ----------
    estimates : array of shape (sites,)
        y, on an unbounded scale (log, logit).
    variances : array of shape (sites,)
        v, the sampling variance of every estimate.
    scale : float
        Of τ's half-normal prior.
    extra : float, default 0
        Further variance at the new site, such as that of its own rows.
    points : int
        Of the grid over τ; fewer do for the many points of a curve.

    Examples
    --------
    >>> site = new_site(np.array([0.1, 0.0, -0.1]), np.full(3, 0.01), 0.2)
    >>> round(site.quantile(0.5), 6) + 0.0, [round(end, 2) for end in site.interval(0.95)]
    (0.0, [-0.35, 0.35])
    """
    taus = np.linspace(0.0, FARTHEST_TAU * scale, points)
    W = 1.0 / (variances + taus[:, None] ** 2)
    total = W.sum(axis=1)
    means = (W * estimates).sum(axis=1) / total
    misfit = (W * (estimates - means[:, None]) ** 2).sum(axis=1)
    log = _log_density(taus, scale, total, misfit, np.log(W).sum(axis=1))
    return _at_new_site(taus, log, means, total, extra)


def standing_out(estimates: Array, variances: Array, scale: float) -> Array:
    """How far every site lies from what the others predict for it, in standard deviations.

    Parameters
    ----------
    estimates, variances, scale
        As for `new_site`.

    Examples
    --------
    >>> standing_out(np.array([0.1, 0.0, 0.0, -0.1, 3.0]), np.full(5, 0.01), 0.2).round(1)
    array([-0.4, -0.6, -0.6, -0.9,  5.8])
    """
    found = np.zeros(len(estimates))
    for j, expected in enumerate(_expected(estimates, variances, scale)):
        found[j] = _far(expected, estimates[j])
    return found


def held_in(estimates: Array, variances: Array, scale: float) -> Array:
    """The estimates, of sites that stand out those at `FARTHEST_SITE` standard deviations.

    Where no site stands out, they are the same to the bit.

    Parameters
    ----------
    estimates, variances, scale
        As for `new_site`.

    Examples
    --------
    >>> held_in(np.array([0.1, 0.0, 0.0, -0.1, 3.0]), np.full(5, 0.01), 0.2).round(2)
    array([ 0.1 ,  0.  ,  0.  , -0.1 ,  0.68])
    """
    kept = estimates.copy()
    for j, expected in enumerate(_expected(estimates, variances, scale)):
        far = _far(expected, estimates[j])
        if abs(far) > FARTHEST_SITE:
            kept[j] = expected.quantile(float(normal_below(np.sign(far) * FARTHEST_SITE)))
    return kept


def _far(expected: NewSite, estimate: float) -> float:
    """How far an estimate lies from what is expected, in standard deviations.

    Parameters
    ----------
    expected : NewSite
    estimate : float
    """
    far = normal_quantile(min(expected.below(estimate), 1.0))  # which rounding may exceed
    return min(max(far, -FARTHEST_SD), FARTHEST_SD)


def _expected(estimates: Array, variances: Array, scale: float) -> Iterator[NewSite]:
    """What the others predict for the estimate at every site; nothing for fewer than five sites.

    Others farther from the median of all than the largest τ count as if they lay there: one that
    claims anything must not make the rest stand out. Sites before and after each are pooled as
    one goes along, so that a thousand sites take a thousand steps, not a million.

    Parameters
    ----------
    estimates, variances, scale
        As for `new_site`.
    """
    if len(estimates) < FEWEST_SITES:
        return
    middle, largest = np.median(estimates), FARTHEST_TAU * scale
    near = np.clip(estimates, middle - largest, middle + largest)
    taus = np.linspace(0.0, largest, POINTS)
    sites = [_Pooled.one(y, 1.0 / (v + taus**2)) for y, v in zip(near, variances, strict=True)]
    nobody = _Pooled(*np.zeros((4, len(taus))))
    after = [nobody]
    for site in reversed(sites[1:]):
        after.append(after[-1].merge(site))
    before = nobody
    for site, v in zip(sites, variances, strict=True):
        others = before.merge(after.pop())
        before = before.merge(site)
        log = _log_density(taus, scale, others.total, others.misfit, others.logs)
        yield _at_new_site(taus, log, others.mean, others.total, float(v))


@dataclass(frozen=True)
class _Pooled:
    """Some sites as one, at every τ, with W = 1/(v + τ²): Chan, Golub and LeVeque (1983)."""

    total: Array  # Σ W
    mean: Array  # Σ W y / Σ W
    misfit: Array  # Σ W (y − mean)²
    logs: Array  # Σ log W

    @classmethod
    def one(cls, estimate: float, weights: Array) -> _Pooled:
        """One site.

        Parameters
        ----------
        estimate : float
        weights : array of shape (points,)
            W at every τ.
        """
        return cls(
            weights, np.full(len(weights), estimate), np.zeros_like(weights), np.log(weights)
        )

    def merge(self, other: _Pooled) -> _Pooled:
        """The sites of both, of whom one has some."""
        total, gap = self.total + other.total, other.mean - self.mean
        share = other.total / total
        misfit = self.misfit + other.misfit + self.total * share * gap**2
        return _Pooled(total, self.mean + share * gap, misfit, self.logs + other.logs)


def power(variances: Array, scale: float, size: float) -> float:
    """How often sites that differ by `size` would be found to: P(τ > size) ≥ ½.

    Parameters
    ----------
    variances : array of shape (sites,)
        Sampling variances of the estimates.
    scale : float
        Of τ's prior.
    size : float
        The true between-site standard deviation.

    Examples
    --------
    >>> power(np.full(12, 1e-4), 0.2, 0.2) > 0.3, power(np.full(2, 0.04), 0.2, 0.2) < 0.2
    (True, True)
    """
    draws = np.random.default_rng(0).standard_normal((POWER_DRAWS, len(variances)))
    estimates = draws * np.sqrt(variances + size**2)
    taus = np.linspace(0.0, FARTHEST_TAU * scale, POWER_POINTS)
    W = 1.0 / (variances[:, None] + taus**2)
    total = W.sum(axis=0)
    misfit = estimates**2 @ W - (estimates @ W) ** 2 / total  # about 0, where they were drawn
    log = _log_density(taus, scale, total, misfit, np.log(W).sum(axis=0))
    p = np.exp(log - log.max(axis=1, keepdims=True))
    p[:, [0, -1]] /= 2.0
    above = p @ _above(taus, size) / p.sum(axis=1)
    return float((above >= 0.5).mean())


def _above(taus: Array, size: float) -> Array:
    """1 for every τ above `size`, ½ for one that equals it but for rounding.

    Parameters
    ----------
    taus : array of shape (points,)
    size : float
    """
    beyond: Array = np.where(np.isclose(taus, size, rtol=1e-9, atol=0.0), 0.5, taus > size)
    return beyond


def _log_density(taus: Array, scale: float, total: Array, misfit: Array, logs: Array) -> Array:
    """The log density of τ given the estimates, but for a constant.

    Parameters
    ----------
    taus : array of shape (points,)
    scale : float
        Of τ's half-normal prior.
    total, misfit, logs : array of shape (…, points)
        Σ W, Σ W (y − mean)² and Σ log W, with W = 1/(v + τ²).
    """
    found: Array = 0.5 * (logs - np.log(total) - misfit - (taus / scale) ** 2)
    return found


def _at_new_site(taus: Array, log: Array, means: Array, total: Array, extra: float) -> NewSite:
    """The distribution at a new site, with τ integrated out by the trapezoid rule.

    Parameters
    ----------
    taus, log, means, total : array of shape (points,)
        τ, its log density, and the mean of μ and Σ 1/(v + τ²) given τ.
    extra : float
        Further variance at the new site.
    """
    p = np.exp(log - log.max())
    p[[0, -1]] /= 2.0
    p /= p.sum()
    return NewSite(taus, p, means, np.sqrt(1.0 / total + taus**2 + extra))

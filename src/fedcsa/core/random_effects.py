"""What a new site may expect, from what the others found: a random-effects prediction.

    y_j ~ N(μ + u_j, v_j),  u_j ~ N(0, τ²),  τ half-normal(scale),  μ flat

With τ given, everything is normal; τ is integrated out by the trapezoid rule. The distribution at
a *new* site has its own u: it is wider than that of the mean μ, and does not shrink to nothing
however many rows the sites have. Higgins, Thompson and Spiegelhalter (2009), "A re-evaluation of
random-effects meta-analysis", Journal of the Royal Statistical Society A 172.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.special import ndtr, ndtri

#: The half-normal prior is integrated up to so many of its scales: beyond lies 2e-9 of it.
FARTHEST_TAU = 6.0
#: Points of the trapezoid rule.
POINTS = 2001
#: A site's estimate counts up to so many standard deviations from what the others let expect.
#: Beyond, it has no more influence: as if site effects were normal in the middle and had
#: exponential tails (Huber 1964, "Robust estimation of a location parameter"). Of honest sites with
#: normal effects one in 370 lies farther; a smaller bound costs coverage where sites differ much.
FARTHEST_SITE = 3.0
#: Farther off is all the same: probabilities are not told from 0 and 1 any more.
FARTHEST_SD = 8.2
#: Of fewer sites, one that differs may as well be of another kind: the promise counts it whole.
FEWEST_SITES = 5
#: A quantile is sought until a step is so small, by at most so many steps; halving alone takes 60.
_SMALLEST_STEP, _MOST_TRIES = 1e-13, 100
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
        return float(self.probabilities @ ndtr((value - self.means) / self.sds))

    def density(self, value: float) -> float:
        """Density of the measure at a new site."""
        z = (value - self.means) / self.sds
        return float(self.probabilities @ (np.exp(-0.5 * z**2) / self.sds)) / math.sqrt(math.tau)

    def quantile(self, probability: float) -> float:
        """The value below which the measure at a new site lies with `probability`.

        By Newton's method, and by halving where that would leave what is known to hold it.
        """
        low, high = (self.means - 12.0 * self.sds).min(), (self.means + 12.0 * self.sds).max()
        value = float(self.probabilities @ self.means)
        for _ in range(_MOST_TRIES):
            beyond = self.below(value) - probability
            low, high = (low, value) if beyond > 0.0 else (value, high)
            slope = self.density(value)
            following = value - beyond / slope if slope > 0.0 else low
            if not low < following < high:
                following = 0.5 * (low + high)
            value, before = float(following), value
            if abs(value - before) <= _SMALLEST_STEP * max(1.0, abs(value)):
                break
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
        y, on a scale without walls (log, logit).
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
    taus, weights, means, log = _given_tau(estimates, variances, scale, points)
    p = np.exp(log - log.max())
    p[[0, -1]] /= 2.0
    p /= p.sum()
    sds = np.sqrt(1.0 / weights.sum(axis=-1) + taus**2 + extra)
    return NewSite(taus, p, means, sds)


def standing_out(estimates: Array, variances: Array, scale: float) -> Array:
    """How far every site lies from what the others let expect, in standard deviations.

    Parameters
    ----------
    estimates, variances, scale
        As for `new_site`.

    Examples
    --------
    >>> standing_out(np.array([0.1, 0.0, 0.0, -0.1, 3.0]), np.full(5, 0.01), 0.2).round(1)
    array([-0.4, -0.6, -0.6, -0.9,  5.8])
    """
    sites = range(len(estimates) if len(estimates) >= FEWEST_SITES else 0)
    found = np.zeros(len(estimates))
    for j in sites:
        found[j] = ndtri(_expected(estimates, variances, scale, j).below(estimates[j]))
    return np.clip(found, -FARTHEST_SD, FARTHEST_SD)


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
    for j, far in enumerate(standing_out(estimates, variances, scale)):
        if abs(far) > FARTHEST_SITE:
            end = float(ndtr(np.sign(far) * FARTHEST_SITE))
            kept[j] = _expected(estimates, variances, scale, j).quantile(end)
    return kept


def _expected(estimates: Array, variances: Array, scale: float, j: int) -> NewSite:
    """What the other sites let expect of the estimate at site `j`.

    Others farther from the median of all than the largest τ count as if they lay there: one that
    claims anything must not make the rest stand out.

    Parameters
    ----------
    estimates, variances, scale
        As for `new_site`.
    j : int
        The site.
    """
    others, middle = np.arange(len(estimates)) != j, np.median(estimates)
    near = np.clip(estimates, middle - FARTHEST_TAU * scale, middle + FARTHEST_TAU * scale)
    return new_site(near[others], variances[others], scale, extra=float(variances[j]))


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
    taus, _, _, log = _given_tau(estimates[:, None, :], variances, scale, points=201)
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


def _given_tau(
    estimates: Array, variances: Array, scale: float, points: int = POINTS
) -> tuple[Array, Array, Array, Array]:
    """τ; 1/(v + τ²); the mean of μ given τ; the log density of τ. Sites are the last axis.

    Parameters
    ----------
    estimates : array of shape (…, sites)
    variances : array of shape (sites,)
    scale : float
        Of τ's half-normal prior.
    points : int
        Of the grid over τ.
    """
    taus = np.linspace(0.0, FARTHEST_TAU * scale, points)
    W = 1.0 / (variances + taus[:, None] ** 2)
    total = W.sum(axis=-1)
    means = (W * estimates).sum(axis=-1) / total
    misfit = (W * (estimates - means[..., None]) ** 2).sum(axis=-1)
    log = 0.5 * (np.log(W).sum(axis=-1) - np.log(total) - misfit - (taus / scale) ** 2)
    return taus, W, means, log

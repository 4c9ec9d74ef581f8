"""An interval or a set of classes per patient: weighted split conformal prediction from histograms.

Every source tells how far outcomes lie from predictions on its weighted rows, as a histogram of
*scores*: |outcome − prediction| for a number, −logit of the probability of the class that came for
classes. With the scores s_i of weight p_i, and with the weight p_0 of the new row itself, whose
score nobody knows and which counts as infinite,

    limit = the smallest s with Σ p_i 1{s_i ≤ s} ≥ level,   Σ p_i + p_0 = 1,

and what is predicted holds with probability `level` if the new row is exchangeable with the
weighted ones (Tibshirani, Barber, Candès and Ramdas 2019, "Conformal prediction under covariate
shift"). n effective rows leave the new one the weight 1/(n + 1).

A new *site* is no such row: its scores as a whole may be larger. So the histograms are brought to
one location, pooled, and moved to where a new site's location may lie (`random_effects`). Where
sites agree that changes little; where they do not, limits grow. Residuals are also brought to one
scale over bands of distance from the target's centre, so that rows far out are not promised what
holds in the middle.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedcsa.core.arrays import Array, logit
from fedcsa.core.random_effects import held_in, new_site
from fedcsa.core.scores import BANDS, BEYOND, FAR_END, RESIDUAL_ENDS, Told

#: Prior scale of the between-site sd of the log residual: where noise differs by a third between
#: sites, half of it leaves intervals too narrow; where noise is alike, both give the same.
RESIDUAL_LOG_SCALE = 0.2
#: … of the mean logit of the probability that the class that came was given.
LOGIT_SCALE = 0.2
#: Prior sd of the log scale of residuals between bands: a third larger or smaller.
BAND_SCALE = 0.3
#: Variance of scores within a source, at least: bins are too wide to know them any better.
SMALLEST_SPREAD = 0.01
#: A new site's location is taken at so many equally probable places: limits change by 0.1 % with
#: more.
PLACES = 39
#: Sums of shares are exact to this much.
_ROUNDING = 1e-9
#: Takes the place of a share of 0 where one divides by it.
_TINY = 1e-300


def split_limit(values: Array, shares: Array, rows: float, level: float) -> float:
    """The smallest value below which `level` of all weight lies, the new row's own counted.

    Parameters
    ----------
    values : array of shape (points,)
        Scores.
    shares : array of shape (points,)
        Their weights, up to a factor.
    rows : float
        Effective rows behind them: the new row's own weight is 1/(rows + 1).
    level : float

    Returns
    -------
    float
        Infinite if too few rows stand behind it.

    Examples
    --------
    >>> split_limit(np.arange(1.0, 20.0), np.ones(19), 19.0, 0.9)
    18.0
    >>> split_limit(np.arange(1.0, 9.0), np.ones(8), 8.0, 0.9)
    inf
    """
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(shares[order]) / shares.sum() * rows / (rows + 1.0)
    position = int(np.searchsorted(reached, level - _ROUNDING))
    return float(values[order[position]]) if position < len(values) else float("inf")


def new_site_limit(
    ends: Array,
    shares: Array,
    rows: Array,
    weights: Array,
    level: float,
    locations: tuple[Array, Array],
    scale: float,
) -> float:
    """The limit of a score at a new site.

    Parameters
    ----------
    ends : array of shape (points,)
        Upper ends of the cells that scores were counted in, on an unbounded scale.
    shares : array of shape (sources, points)
        Weight of every cell; each source's sum to one.
    rows : array of shape (sources,)
        Effective rows.
    weights : array of shape (sources,)
        Of the sources: positive, sum one.
    level : float
    locations : pair of array of shape (sources,)
        Where every source's scores lie on that scale, and the variance of single scores.
    scale : float
        Prior scale of the locations' between-site sd.
    """
    values, spreads = locations
    variances = np.maximum(spreads, SMALLEST_SPREAD) / np.maximum(rows - 1.0, 0.5)
    site = new_site(held_in(values, variances, scale), variances, scale)
    places: list[float] = []  # equally probable locations of a new site
    for k in range(PLACES):
        places.append(site.quantile((k + 0.5) / PLACES, *places[-1:]))
    mass = weights[:, None] * shares
    source, cell = np.nonzero(mass)  # most cells hold nobody
    points = ends[cell] + (np.array(places)[:, None] - values[source])  # (places, cells)
    shared = np.broadcast_to(mass[source, cell], points.shape)
    effective = 1.0 / float(weights**2 @ (1.0 / rows))
    return split_limit(points.ravel(), shared.ravel(), effective, level)


def half_widths(residuals: Array, rows: Array, weights: Array, level: float) -> Array:
    """Half the width of the interval of a number in every band, shape (bands,), in told units.

    Infinite where too few effective rows stand behind it, or where it lies beyond the last bin. A
    source's residuals there count as twice as large as that bin's end, so that one alone, who may
    lie, makes no interval infinite.

    Parameters
    ----------
    residuals : array of shape (sources, bands, bins)
        Told histograms; each source's shares sum to one.
    rows : array of shape (sources,)
        Effective rows.
    weights : array of shape (sources,)
        Of the sources: positive, sum one.
    level : float

    Examples
    --------
    >>> from fedcsa.core.scores import residual_sums, told_residuals
    >>> z = np.random.default_rng(0).normal(size=(2000, 3))
    >>> noise = np.random.default_rng(1).normal(size=2000)
    >>> told = told_residuals(*residual_sums(z, noise, np.full(2000, 1 / 2000)), 5)
    >>> half_widths(told[None], np.array([2000.0]), np.ones(1), 0.9).round(1)
    array([1.7, 1.9, 1.7, 1.8])
    """
    ends = np.append(RESIDUAL_ENDS[:-1], BEYOND)
    factors = _band_factors(residuals, rows, weights, ends)
    scaled = (ends / factors[:, None]).ravel()
    shares = residuals.reshape(len(residuals), -1)
    means = shares @ scaled
    locations = np.log(means), shares @ scaled**2 / means**2 - 1.0
    limit = new_site_limit(
        np.log(scaled), shares, rows, weights, level, locations, RESIDUAL_LOG_SCALE
    )
    half = factors * np.exp(limit)
    found: Array = np.where(half <= RESIDUAL_ENDS[-2], half, np.inf)
    return found


def _band_factors(residuals: Array, rows: Array, weights: Array, ends: Array) -> Array:
    """How much larger residuals are in a band than over all, drawn towards 1, shape (bands,).

    A band that nobody told of has its rows in the next one inwards, or else outwards.

    Parameters
    ----------
    residuals : array of shape (sources, bands, bins)
    rows, weights : array of shape (sources,)
    ends : array of shape (bins,)
        Finite upper ends.
    """
    own = weights / np.einsum("jqb,b->j", residuals, ends)  # by each source's own mean
    in_band = residuals.sum(axis=2)
    told = np.flatnonzero(in_band.any(axis=0))
    share = (weights @ in_band)[told]
    mean = np.einsum("j,jqb,b->q", own, residuals, ends)[told] / share
    square = np.einsum("j,jqb,b->q", own**2 / weights, residuals, ends**2)[told] / share
    effective = share**2 / (weights**2 / rows @ in_band)[told]
    variance = np.maximum(square / mean**2 - 1.0, SMALLEST_SPREAD) / effective
    factors = mean ** (BAND_SCALE**2 / (BAND_SCALE**2 + variance))
    nearest = np.searchsorted(told, np.arange(BANDS), side="right") - 1
    found: Array = factors[np.maximum(nearest, 0)]
    return found


def class_limit(sources: Sequence[Told], weights: Array, of_class: int, level: float) -> float:
    """The largest −logit of its probability with which a class is in the set.

    Of patients of that class, as many as `level` have it in their set.

    Parameters
    ----------
    sources : sequence of Told
        Score tables of every source.
    weights : array of shape (sources,)
        Of the sources: positive, sum one.
    of_class : int
    level : float

    Returns
    -------
    float
        Infinite if too few rows are of that class, or if it lies beyond the last edge of scores:
        then the class is in every set.
    """
    told = [_of_class(source, of_class) for source in sources]
    shares, rows = np.array([share for share, _ in told]), np.array([n for _, n in told])
    total = shares.sum(axis=1)
    known = (total > 0.0) & (rows > 0.0)
    if not known.any():
        return float("inf")
    weights = (weights * total)[known]
    shares, rows, weights = shares[known] / total[known, None], rows[known], weights / weights.sum()
    # The outermost bin is open, and its rows count as if they lay at its inner edge: one source
    # alone, who may lie, puts no class into every set.
    edges = logit(sources[0].design.edges)
    has_table = of_class in sources[0].design.classes
    ends = np.concatenate([[FAR_END], -edges]) if has_table else np.append(edges, FAR_END)
    means = shares @ ends
    locations = means, shares @ ends**2 - means**2
    limit = new_site_limit(ends, shares, rows, weights, level, locations, LOGIT_SCALE)
    return limit if limit < FAR_END else float("inf")


def _of_class(told: Told, of_class: int) -> tuple[Array, float]:
    """Weight of the rows of a class in every bin of scores, (bins,), and how many they are worth.

    A told cell of several bins has its weight in the bin of its mean score.

    Parameters
    ----------
    told : Told
    of_class : int
    """
    table = max(of_class, told.design.classes[0])  # of two classes the second has the table
    weight, events, predicted = told.table_of(table)
    effective = told.effective_events(table)
    if table != of_class:
        events, effective = np.maximum(weight - events, 0.0), effective[::-1]
    bins = told.design.bins(predicted / np.maximum(weight, _TINY))
    shares = np.bincount(bins, events, told.design.n_bins).astype(np.float64)
    return shares, float(effective[0])

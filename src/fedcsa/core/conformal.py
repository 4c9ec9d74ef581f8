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
from numpy.typing import NDArray

from fedcsa.core.arrays import Array, erf, logit
from fedcsa.core.random_effects import held_in, new_site
from fedcsa.core.scores import FAR_END, Told

#: Bands of distance: a fourth of normal rows lies in each.
BANDS = 4
#: Smallest and largest residual that are told apart, in units of the outcome's sd: models that
#: err by less than a hundredth of it, or by more than thirty times, need no finer interval.
NEAREST, FARTHEST_RESIDUAL = 0.01, 30.0
#: Each bin of residuals ends so many times farther out than the one before: a limit at its upper
#: end is too wide by 2.5 % on average, and covers half a percent of rows too many.
BIN_RATIO = 1.05
_N_ENDS = int(np.ceil(np.log(FARTHEST_RESIDUAL / NEAREST) / np.log(BIN_RATIO)))
#: Upper ends of the bins; the last is open.
RESIDUAL_ENDS: Array = np.append(NEAREST * BIN_RATIO ** np.arange(_N_ENDS + 1), np.inf)
#: Residuals beyond the last end count as twice as large, so that one alone moves no mean far.
_BEYOND = 2.0 * RESIDUAL_ENDS[-2]
#: Of the told histogram: bands and bins.
RESIDUAL_SHAPE = (BANDS, len(RESIDUAL_ENDS))

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


# At a source ----------------------------------------------------------------------------------


def distance_band(z: Array) -> NDArray[np.intp]:
    """Band of every row, 0 nearest the target's centre; bands end at quarters of normal rows.

    The distance is the mean of z² over features.

    Parameters
    ----------
    z : array of shape (rows, features)
        In the target's units.

    Examples
    --------
    >>> distance_band(np.array([[0.1, 0.0], [0.7, 0.7], [1.0, 1.0], [2.0, 1.0]]))
    array([0, 1, 2, 3])
    """
    from scipy.special import chdtri  # slow to load

    n_features = z.shape[1]
    ends = chdtri(n_features, 1.0 - np.arange(1, BANDS) / BANDS) / n_features
    distance: Array = np.einsum("ij,ij->i", z, z) / n_features
    return np.searchsorted(ends, distance)


def residual_sums(z: Array, residual: Array, w: Array) -> tuple[Array, Array]:
    """Residuals by band and bin; sums of batches are added, and the larger of the largest taken.

    Parameters
    ----------
    z : array of shape (rows, features)
        In the target's units.
    residual : array of shape (rows,)
        Outcome less prediction, in units of the outcome's sd.
    w : array of shape (rows,)
        Weights of the rows.

    Returns
    -------
    sums : array of shape (3, bands, bins)
        Number of rows, Σw and Σw|r|.
    heaviest : array of shape (bands, bins)
        The largest w.
    """
    size = np.minimum(np.abs(residual), _BEYOND)
    cell = distance_band(z) * RESIDUAL_SHAPE[1] + np.searchsorted(RESIDUAL_ENDS, size)
    n_cells = RESIDUAL_SHAPE[0] * RESIDUAL_SHAPE[1]
    heaviest = np.zeros(n_cells)
    np.maximum.at(heaviest, cell, w)
    sums = [np.bincount(cell, x, n_cells) for x in (np.ones(len(w)), w, w * size)]
    return np.reshape(sums, (3, *RESIDUAL_SHAPE)), heaviest.reshape(RESIDUAL_SHAPE)


def told_residuals(sums: Array, heaviest: Array, min_rows: int) -> Array:
    """Shares of the weight by band and bin, shape (bands, bins), that tell of no single row.

    A band too small to be told joins its neighbour. Neighbouring bins are joined until they
    hold enough rows, and share their weight as if residuals were normal: nothing else of how
    residuals lie within them is told, and not where the largest lies.

    Parameters
    ----------
    sums, heaviest : array
        As `residual_sums` gives them.
    min_rows : int
        Fewest rows of a cell; no row has more than half of its weight either. 1 joins nothing.
    """
    if min_rows < 2:
        unjoined: Array = sums[1] / sums[1].sum()
        return unjoined
    shares: Array = np.zeros(RESIDUAL_SHAPE)
    inwards = np.arange(BANDS)[::-1]
    n_rows, weight, _ = sums[:, inwards].sum(axis=2)
    for bands, band in _joined(n_rows, weight, heaviest[inwards].max(axis=1), min_rows):
        counts, weights, sizes = sums[:, inwards[bands]].sum(axis=1)
        top = heaviest[inwards[bands]].max(axis=0)
        # Share of every bin if residuals were normal with the same mean size.
        mean = max(sizes.sum() / max(weights.sum(), _TINY), NEAREST)
        below = erf(RESIDUAL_ENDS / (mean * np.sqrt(np.pi)))  # E|r| = sd sqrt(2/pi)
        expected = np.maximum(np.diff(below, prepend=0.0), _TINY)
        for cell, _ in _joined(counts, weights, top, min_rows):
            told = weights[cell].sum() * expected[cell]
            shares[inwards[band], cell] = told / expected[cell].sum()
    shares /= shares.sum()
    return shares


def _joined(
    n_rows: Array, weight: Array, heaviest: Array, min_rows: int
) -> list[tuple[slice, int]]:
    """Neighbours that are told together, and the one with which they were enough.

    That is: enough rows, none of them with most of the weight. What is left joins the last ones.

    Parameters
    ----------
    n_rows, weight, heaviest : array of shape (places,)
        Rows, Σw and the largest w at every place.
    min_rows : int

    Examples
    --------
    >>> _joined(np.array([3.0, 4.0, 5.0, 1.0]), np.full(4, 1.0), np.full(4, 0.1), 5)
    [(slice(0, 2, None), 1), (slice(2, 4, None), 2)]
    """
    found, start, held = list[tuple[slice, int]](), 0, [0.0, 0.0, 0.0]
    told = [array.tolist() for array in (n_rows, weight, heaviest)]
    for place, (n, w, top) in enumerate(zip(*told, strict=True)):
        held = [held[0] + n, held[1] + w, max(held[2], top)]
        if held[0] >= min_rows and 2.0 * held[2] <= held[1]:
            found.append((slice(start, place + 1), place))
            start, held = place + 1, [0.0, 0.0, 0.0]
    last, enough = found.pop() if found else (slice(0, 0), len(n_rows) - 1)
    return [*found, (slice(last.start, len(n_rows)), enough)]


# At the target --------------------------------------------------------------------------------


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
    >>> z = np.random.default_rng(0).normal(size=(2000, 3))
    >>> noise = np.random.default_rng(1).normal(size=2000)
    >>> told = told_residuals(*residual_sums(z, noise, np.full(2000, 1 / 2000)), 5)
    >>> half_widths(told[None], np.array([2000.0]), np.ones(1), 0.9).round(1)
    array([1.7, 1.9, 1.7, 1.8])
    """
    ends = np.append(RESIDUAL_ENDS[:-1], _BEYOND)
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

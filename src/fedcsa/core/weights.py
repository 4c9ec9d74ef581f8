"""From the sources' risk terms to one estimate of the target's risk, a choice and weights.

The formulas of the paper stand in one table, `WEIGHT_RULES`. The default, ``validated``, has
weights of its own, see `validated_estimate`.

n_j counts validation rows. The paper writes α_j = λ_j n_j; a source cannot compute λ_j, which
sums over all sources, so it sends Div_j and the weights are made here.

With ``combine="median"`` a weighted median takes the place of the sum over sources, and no weight
exceeds a third: no single source decides which candidate is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array, as_vector
from fedcsa.core.losses import RiskTerms
from fedcsa.errors import must, one_of

#: A candidate with training weights r^γ must be better by this times γ standard errors.
CAUTION = 0.5
#: Training weights are chosen only if the sources are worth so many rows of the target.
MIN_WORTH = 10.0
#: A risk that is more times another is told as so many: nobody reads more, and it stays finite.
MOST_TIMES = 1e6
#: Huber's constant, in medians: a model farther off than this loses weight.
HUBER = 1.5
#: With fewer sources a median says little; of one of them the model may fail to come.
MEDIAN_SOURCES, MEDIAN_MODELS = 4, 3
#: Under a median no source may hold half of the weight, or it would be the median. The same bound
#: holds where one source's claim of many rows must not decide.
MAX_WEIGHT = 1.0 / 3.0


@dataclass(frozen=True)
class Estimate:
    """The target's risk under every candidate.

    Attributes
    ----------
    method : str
    risk : array of shape (candidates,)
    weights : array of shape (candidates, sources)
        α_j(θ); every row sums to one.
    chosen : int
        Index of the candidate with the smallest risk, the first among equals; the default
        adds a handicap for importance-weighted training.
    standard_errors : array of shape (candidates,)
        Of the risk, as if the weights were known.
    """

    method: str
    risk: Array = field(repr=False)
    weights: Array = field(repr=False)
    chosen: int
    standard_errors: Array = field(repr=False)

    @property
    def source_weights(self) -> Array:
        """Weight of every source's model at the chosen candidate."""
        chosen: Array = self.weights[self.chosen]
        return chosen


#: (sources, given) -> term, variance of the term, weight; each of shape (candidates, sources).
WeightRule = Callable[[Sequence[RiskTerms], Sequence[float] | None], tuple[Array, Array, Array]]


def estimate(
    method: str,
    sources: Sequence[RiskTerms],
    fedle_weights: Sequence[float] | None = None,
    combine: str = "mean",
    fitted: NDArray[np.bool_] | None = None,
) -> Estimate:
    """Estimate the target's risk under every candidate and choose one: Σ α_j(θ) f_j(θ).

    Parameters
    ----------
    method : str
        A key of `WEIGHT_RULES`: "naive", "fediwe", "feddae" or "fedle".
    sources : sequence of RiskTerms
        One per source, all for the same candidates.
    fedle_weights : sequence of float, optional
        α_j for ``"fedle"``, one per source, scaled to sum to one.
    combine : {"mean", "median"}
        Over sources.
    fitted : array of shape (candidates, sources), optional
        False where a source failed to fit a candidate, and so has no weight; at least one must
        have fitted it.
    """
    if not sources:
        raise must("sources", "at least one source", 0)
    if method not in WEIGHT_RULES:
        raise one_of("method", list(WEIGHT_RULES), method, " here")
    terms, variances, weights = WEIGHT_RULES[method](sources, fedle_weights)
    risk, weights, errors = _over_sources(terms, variances, weights, combine, fitted)
    return Estimate(method, risk, weights, int(risk.argmin()), errors)


def naive(sources: Sequence[RiskTerms], _given: object = None) -> tuple[Array, Array, Array]:
    """Mean losses as if there were no shift, each row alike: α_j = n_j/Σn.

    Parameters
    ----------
    sources : sequence of RiskTerms
    _given : object
        Not used.
    """
    terms = np.column_stack([source.plain for source in sources])
    variances = np.column_stack([source.plain_variance for source in sources])
    return terms, variances, _by_rows(sources)


def fediwe(sources: Sequence[RiskTerms], _given: object = None) -> tuple[Array, Array, Array]:
    """Importance-weighted means, eq. (04), each row alike: α_j = n_j/Σn.

    Parameters
    ----------
    sources, _given
        As for `naive`.
    """
    terms = np.column_stack([source.importance_weighted for source in sources])
    variances = np.column_stack([source.importance_variance for source in sources])
    return terms, variances, _by_rows(sources)


def feddae(sources: Sequence[RiskTerms], _given: object = None) -> tuple[Array, Array, Array]:
    """Control variates, eq. (09), each source by its divergence: α_j(θ) ∝ n_j/Div_j(θ), eq. (10).

    Parameters
    ----------
    sources, _given
        As for `naive`.
    """
    n_rows = np.array([source.n_rows for source in sources], dtype=np.float64)
    divergence = np.column_stack([source.divergence for source in sources])
    return *_control_variates(sources), divergence_weights(n_rows, divergence)


def fedle(
    sources: Sequence[RiskTerms], given: Sequence[float] | None
) -> tuple[Array, Array, Array]:
    """Control variates, with weights that the study gives.

    Parameters
    ----------
    sources : sequence of RiskTerms
    given : sequence of float
        α_j ≥ 0 up to a factor, not all zero.
    """
    alpha = as_vector([] if given is None else list(given), "fedle_weights")
    if len(alpha) != len(sources) or (alpha < 0.0).any() or not alpha.any():
        raise must("fedle_weights", "one weight ≥ 0 per source, not all zero", len(alpha))
    alpha = alpha / alpha.max()  # their sum may overflow
    weights = np.tile(alpha / alpha.sum(), (len(sources[0].plain), 1))
    return *_control_variates(sources), weights


#: What `estimate` knows: a rule of one's own is one function, and one entry here.
WEIGHT_RULES: dict[str, WeightRule] = {
    "naive": naive, "fediwe": fediwe, "feddae": feddae, "fedle": fedle,
}  # fmt: skip


def _by_rows(sources: Sequence[RiskTerms]) -> Array:
    """n_j/Σn for every candidate."""
    n_rows = np.array([source.n_rows for source in sources], dtype=np.float64)
    return np.tile(n_rows / n_rows.sum(), (len(sources[0].plain), 1))


def _control_variates(sources: Sequence[RiskTerms]) -> tuple[Array, Array]:
    """f_CV and its variance Div/n."""
    terms = np.column_stack([source.control_variate for source in sources])
    return terms, np.column_stack([source.divergence / source.n_rows for source in sources])


def validated_estimate(
    risks: Array,
    worth: Array,
    powers: Array,
    variances: Array,
    combine: str = "mean",
    fitted: NDArray[np.bool_] | None = None,
) -> Estimate:
    """Σ μ_j f_j with μ = m/Σm: the same weights for every candidate.

    The choice is that of the smallest risk + ½·γ·standard error. Few effective rows make
    importance-weighted training look better than it is as easily as they make it look worse, and
    where it is needed the gain is many standard errors. Under `MIN_WORTH` rows it is not chosen.

    Parameters
    ----------
    risks : array of shape (candidates, sources)
        f_j of every candidate.
    worth : array of shape (sources,)
        m_j, see `fedcsa.core.tilt.target_equivalent_rows`.
    powers : array of shape (candidates,)
        γ of every candidate.
    variances : array of shape (candidates, sources)
        v_j, squared standard errors of f_j.
    combine, fitted
        As for `estimate`.
    """
    share = worth / worth.sum()
    alike = np.tile(share, (len(risks), 1))
    risk, weights, errors = _over_sources(risks, variances, alike, combine, fitted)
    score = risk + CAUTION * powers * errors
    if worth.sum() < MIN_WORTH and (powers == 0.0).any():
        score = np.where(powers > 0.0, np.inf, score)
    return Estimate("validated", risk, weights, int(score.argmin()), errors)


def times_worse(taken: Array, best: Array) -> float:
    """How many times larger sources find the risk of one candidate than of another, in the middle.

    Two or more must be asked, or it is 1; where only two are, both must find it worse.

    Parameters
    ----------
    taken, best : array of shape (sources,)
        Risk of either candidate, as every source that is asked finds it.

    Examples
    --------
    >>> times_worse(np.array([2.0, 3.0, 9.0]), np.array([1.0, 1.0, 1.0]))
    3.0
    """
    if len(taken) < 2:
        return 1.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        times = np.where(best > 0.0, taken / best, np.where(taken > 0.0, np.inf, 1.0))
    times = np.minimum(times, MOST_TIMES)
    return float(np.median(times) if len(times) > 2 else times.min())


def model_weights(worth: Array, outputs: Array) -> Array:
    """Weights a_j of the models: their worth, less for one far from the others (three or more).

    The distance is judged by the *unweighted* median of distances: with the weighted one, a
    source with more than half of the worth took all.

    Parameters
    ----------
    worth : array of shape (sources,)
        m_j, not all zero.
    outputs : array of shape (rows, sources) or (rows, sources, classes)
        Predictions of every model on the target's rows.

    Examples
    --------
    >>> outputs = np.array([[0.0, 0.1, -0.1, 5.0]] * 3)
    >>> model_weights(np.ones(4), outputs).round(2)
    array([0.33, 0.33, 0.33, 0.01])
    """
    a: Array = worth / worth.sum()
    if len(worth) < 3:
        return a
    rounding = 1e-12 * max(float(np.abs(outputs).max()), 1e-288)  # models as near agree
    for _ in range(30):  # it has converged long before
        difference = outputs - np.einsum("nk...,k->n...", outputs, a)[:, None]
        squares = difference**2 if difference.ndim == 2 else (difference**2).sum(axis=2)
        distance = np.sqrt(squares.mean(axis=0))
        allowed = max(HUBER * float(np.median(distance)), rounding)
        b = worth * np.minimum(1.0, allowed / np.maximum(distance, rounding))
        a = 0.5 * a + 0.5 * b / b.sum()
    return a


def _over_sources(
    terms: Array,
    variances: Array,
    weights: Array,
    combine: str,
    fitted: NDArray[np.bool_] | None = None,
) -> tuple[Array, Array, Array]:
    """Mean or median over sources, their weights, and √Σ α_j² v_j, of every candidate.

    Who failed to fit a candidate has no weight there. The sources are independent; under a median
    no weight exceeds `MAX_WEIGHT`, and all v_j count alike.

    Parameters
    ----------
    terms, variances, weights : array of shape (candidates, sources)
        f_j, v_j and α_j.
    combine, fitted
        As for `estimate`.
    """
    weights, median = np.array(weights, order="C"), combine == "median"
    if fitted is not None and not fitted.all():
        for index, mine in enumerate(fitted):
            given = weights[index, mine]
            given = given if given.any() else np.ones(int(mine.sum()))
            given = given / given.sum()
            weights[index] = 0.0
            weights[index, mine] = capped(given, MAX_WEIGHT) if median else given
    elif median:
        weights = np.array([capped(row, MAX_WEIGHT) for row in weights])
    if median:
        squares = weighted_median(variances, weights) * (weights**2).sum(axis=1)
        return weighted_median(terms, weights), weights, np.sqrt(squares)
    squares = np.einsum("ck,ck->c", weights**2, variances)
    return np.einsum("ck,ck->c", weights, terms), weights, np.asarray(np.sqrt(squares))


def divergence_weights(n_rows: Array, divergence: Array) -> Array:
    """α_j(θ) = (n_j/Div_j(θ)) / Σ_k n_k/Div_k(θ), eq. (10), shape (candidates, sources).

    Where some Div_j(θ) = 0, the limit: those sources share all the weight in proportion to n_j.

    Parameters
    ----------
    n_rows : array of shape (sources,)
    divergence : array of shape (candidates, sources)
        Div, not negative.

    Examples
    --------
    >>> divergence_weights(np.array([10.0, 30.0]), np.array([[1.0, 1.0], [1.0, 0.0]]))
    array([[0.25, 0.75],
           [0.  , 1.  ]])
    """
    zero = divergence == 0.0
    smallest = np.where(zero, np.inf, divergence).min(axis=1, keepdims=True)
    # Relative to the smallest, so that neither a tiny nor a huge Div overflows.
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(zero, 0.0, n_rows * (smallest / divergence))
    limit = np.where(zero, n_rows, 0.0)
    precision = np.where(zero.any(axis=1, keepdims=True), limit, precision)
    weights: Array = precision / precision.sum(axis=1, keepdims=True)
    return weights


def capped(weights: Array, largest: float) -> Array:
    """The nearest weights in proportion of which none exceeds `largest`.

    Parameters
    ----------
    weights : array of shape (sources,)
        Not negative, not all zero.
    largest : float
        At least 1/sources.

    Examples
    --------
    >>> capped(np.array([0.97, 0.01, 0.01, 0.01]), 0.4)
    array([0.4, 0.2, 0.2, 0.2])
    """
    result: Array = weights / weights.sum()
    fixed = np.zeros(len(result), dtype=bool)
    while (result > largest * (1.0 + 1e-12)).any():  # but for rounding
        fixed |= result > largest
        free = np.where(fixed, 0.0, weights)
        left = 1.0 - largest * fixed.sum()
        equal = np.where(fixed, 0.0, 1.0) / max((~fixed).sum(), 1)
        spread = free / free.sum() if free.sum() > 0.0 else equal
        result = np.where(fixed, largest, left * spread)
    return result


def weighted_median(values: Array, weights: Array) -> Array:
    """The first value over sources, in order, at which half of the weight is reached.

    Parameters
    ----------
    values : array of shape (rows, sources) or (rows, sources, classes)
    weights : array of shape (sources,), or (rows, sources) where they differ by row

    Examples
    --------
    >>> weighted_median(np.array([[3.0, 1.0, 2.0]]), np.array([0.2, 0.4, 0.4]))
    array([2.])
    """
    order = np.argsort(values, axis=1, kind="stable")
    own = weights[order] if weights.ndim == 1 else np.take_along_axis(weights, order, axis=1)
    half = 0.5 * weights.sum(axis=-1, keepdims=True) * (1.0 - 1e-12)  # but for rounding
    middle = (np.cumsum(own, axis=1) < half).sum(axis=1)
    middle = np.minimum(middle, values.shape[1] - 1)
    ranked = np.take_along_axis(values, order, axis=1)
    picked: Array = np.take_along_axis(ranked, middle[:, None], axis=1)[:, 0]
    return picked


def median_mixture(outputs: Array, weights: Array) -> Array:
    """Weighted median of the models' predictions, row by row; probabilities sum to one again.

    Parameters
    ----------
    outputs : array of shape (rows, sources) or (rows, sources, classes)
    weights : array of shape (sources,)
    """
    picked = weighted_median(outputs, weights)
    if outputs.ndim == 2:
        return picked
    total = picked.sum(axis=1, keepdims=True)
    known = total > 0.0
    return np.where(known, picked / np.where(known, total, 1.0), 1.0 / outputs.shape[2])


# Models that are of no use --------------------------------------------------------------------

#: Stands for a risk of 0, whose logarithm is taken.
SMALLEST_RISK = 1e-300
#: A model with less weight need not be better than a constant: an honest source that is far from
#: the target sends one that is not, and has next to none.
LEAST_WEIGHT = 0.01
#: The most by which one model may spoil the mixture, in the risk that examiners find.
MOST_SPOILED = 0.1
#: A model with more than half of the weight has it for being learnt from many rows; whoever claims
#: them and has none is found out by a model that is worse than the others' by so much.
MOST_WORSE = 0.05
#: An examiner calls a model useless if its log ratio to the constant lies so many standard errors
#: above 0: of honest models without any use one in forty then is.
USELESS_ERRORS = 2.0


def useless_votes(
    risk: Array, variance: Array, constant_risk: float, weights: Array
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Log ratio of every model's risk to the constant's, how it spoils, and whether it is useless.

    It is if the log ratio lies `USELESS_ERRORS` standard errors above 0, and its weight a is at
    least `LEAST_WEIGHT`; or if it spoils the mixture by more than may be: a²(r − 1) beside
    `MOST_SPOILED`, with r its risk over the median of the other models'; of a above one half also
    r − 1 beside `MOST_WORSE`. What is told is the larger of these parts.

    Parameters
    ----------
    risk, variance : array of shape (models,)
        Risk of every model, and the variance of its log ratio to the constant's.
    constant_risk : float
    weights : array of shape (models,)
        a, in the mixture.

    Examples
    --------
    >>> useless_votes(np.array([0.5, 2.0]), np.full(2, 0.01), 1.0, np.full(2, 0.5))[2]
    array([False,  True])
    >>> risks, weights = np.array([0.5, 0.5, 0.54]), np.array([0.2, 0.2, 0.6])
    >>> useless_votes(risks, np.ones(3), 1.0, weights)[1].round(2)
    array([-0.02, -0.02,  1.6 ])
    """
    risks = np.maximum(risk, SMALLEST_RISK)
    ratios = np.log(risks / max(constant_risk, SMALLEST_RISK))
    useless = ratios > USELESS_ERRORS * np.sqrt(variance)
    useless &= weights >= LEAST_WEIGHT
    spoiled = np.zeros(len(risks))
    if len(risks) > 1:
        # The median of the others, for each, by one sorting: who comes after it moves up.
        ordered, others = np.sort(risks), len(risks) - 1
        rank = np.argsort(np.argsort(risks, kind="stable"), kind="stable")
        low, high = (others - 1) // 2, others // 2
        median = (ordered[low + (rank <= low)] + ordered[high + (rank <= high)]) / 2.0
        worse = risks / median - 1.0
        spoiled = weights**2 * worse / MOST_SPOILED
        most = np.maximum(spoiled, worse / MOST_WORSE)
        spoiled = np.where(weights > 0.5, most, spoiled)
    return ratios, spoiled, useless | (spoiled > 1.0)

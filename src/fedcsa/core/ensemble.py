"""The guarded rule at the target: weights of the models, the risk of their mixture, a verdict.

The reports give F = Σ a_j f_j, the average risk of *single* models. What the target uses is their
mixture h̄ = Σ a_j h_j. How far its risk R lies below F can be read off the models' disagreement on
the target's own rows, without labels:

=========  ==========================================================  ============
loss       relation, with the mean over the target's rows             kind
=========  ==========================================================  ============
squared    R = F − Σ a_j (h_j − h̄)²   (Krogh and Vedelsby 1995)        exact
brier      R = F − Σ a_j ½‖p_j − p̄‖²                                   exact
absolute   F − Σ a_j |h_j − h̄| ≤ R ≤ F                                 bound
log        F − max_y Σ a_j log(p̄_y/p_jy) ≤ R ≤ F                       bound
zero-one   |R − F| ≤ Σ a_j 1{class of h_j ≠ class of h̄}                bound
=========  ==========================================================  ============

For any other loss nothing is known about R, and no interval is given.

That holds if f_j is the risk of model j *at the target*. It was judged on the source's own
outcomes, though, and where p(y|x) = g + b_j differs by site, b_j is in h_j but not in f_j. With
site effects of variance τ² the models disagree by τ²(1 − A) beyond chance, A = Σ a_j², and at a
new site the mixture misses by τ²(1 + A) beyond it. Chance makes Σ a_j (1 − a_j) s_j² of the
disagreement, where s_j² is the sampling variance of model j's predictions, which a source can
estimate (`fedcsa.core.jackknife`). So, for the two exact losses,

    R = F − (chance) + (the rest) · (1 + A)/(1 − A).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from fedcsa.core.arrays import Array
from fedcsa.core.losses import LOG_FLOOR
from fedcsa.core.medians import weighted_median

Status = Literal["ok", "weak overlap", "sources disagree", "no overlap"]
Kind = Literal["exact", "bound", "none"]

HUBER = 1.5
MAX_IMBALANCE, MAX_DISAGREEMENT, MAX_KERNEL, MIN_ROWS = 1.0, 0.15, 0.10, 10.0
#: q·se is at most this many units on the log scale, so that a hopeless interval stays finite.
MAX_LOG_WIDTH = 6.0
#: (1 + A)/(1 − A) is at most this.
MAX_SITE_FACTOR = 3.0
#: Risks are positive: the interval lives on the log scale.
SMALLEST = 1e-300


@dataclass(frozen=True)
class SourceNumbers:
    """What the target knows of K sources at one candidate; arrays of shape (sources,)."""

    effective_rows: Array = field(repr=False)
    kernel: Array = field(repr=False)  # δ²
    imbalance: Array = field(repr=False)  # ι
    risk: Array = field(repr=False)  # f
    variance: Array = field(repr=False)  # v
    spread: Array = field(
        repr=False
    )  # V, the smaller of the plain and the weighted variance of the loss
    explained: Array = field(repr=False)  # Vx


@dataclass(frozen=True)
class EnsembleRisk:
    """Risk of the mixture, with interval and verdict.

    Attributes
    ----------
    weights : array of shape (sources,)
        a_j.
    risk : float
        R; for a loss of kind ``"bound"`` the largest value that the bound allows.
    average : float
        F, the average risk of the single models.
    ambiguity : float
        Disagreement of the models on the target's rows, in units of the loss.
    standard_error : float
    lower, upper : float or None
        The interval; None where there is none: another loss, a median, no overlap.
    level : float
    kind : {"exact", "bound", "none"}
        How R follows from F.
    status : str
        The verdict: ``"ok"``, ``"weak overlap"``, ``"sources disagree"`` or ``"no overlap"``.
    worst : float
        The other reading of the disagreement: risk if all of it is a difference in p(y|x).
    if_shared : float or None
        R if none of it is; None for a loss of another kind than ``"exact"``.
    site : float or None
        The part of the ambiguity that chance does not explain; None where that is not known.
    target_rows : float
        How many rows of the target the estimate is worth.
    kernel_imbalance, mean_imbalance : float
        Σ a δ² and Σ a ι.
    """

    weights: Array = field(repr=False)
    risk: float
    average: float
    ambiguity: float
    standard_error: float
    lower: float | None
    upper: float | None
    level: float
    kind: Kind
    status: Status
    worst: float
    target_rows: float
    kernel_imbalance: float
    mean_imbalance: float
    site: float | None = None
    if_shared: float | None = None


def model_weights(worth: Array, outputs: Array, iterations: int = 30) -> Array:
    """Weights a_j of the models: their worth, less for one far from the others (K ≥ 3).

    Parameters
    ----------
    worth : array of shape (sources,)
        m_j, not all zero.
    outputs : array of shape (rows, sources) or (rows, sources, classes)
        Predictions of every model on the target's rows.
    """
    a: Array = worth / worth.sum()
    if len(worth) < 3:
        return a
    rounding = 1e-12 * max(float(np.abs(outputs).max()), 1e-288)  # models as near agree
    for _ in range(iterations):
        distance = np.sqrt(_squared_distances(outputs, a).mean(axis=0))
        allowed = max(HUBER * weighted_median(distance, worth), rounding)
        b = worth * np.minimum(1.0, allowed / np.maximum(distance, rounding))
        a = 0.5 * a + 0.5 * b / b.sum()
    return a


def ensemble_risk(
    numbers: SourceNumbers,
    weights: Array,
    outputs: Array,
    loss: str,
    level: float = 0.95,
    noise: Array | None = None,
    combine: str = "mean",
) -> EnsembleRisk:
    """Risk of the mixture of K models with `weights`, whose predictions are `outputs`.

    Parameters
    ----------
    loss : str
        For one that is not in the table above the models' disagreement has another unit than the
        risk, and the two are not compared.
    noise : array of shape (sources,), optional
        s_j², the sampling variance of every model's predictions. With it the disagreement is split
        into chance and a difference between sites, if the loss is an exact one; without it all of
        it is chance at the lower end of the interval and in R, and none of it at the upper end.
    combine : {"mean", "median"}
        How the models are mixed. Of a median's risk nothing is known but the median of the risks.
    """
    a, n = weights, len(outputs)
    measure, kind, above, largest = _RULES.get(loss, (_squared_ambiguity, "none", 0.0, np.inf))
    per_row = measure(outputs, a)
    ambiguity = float(per_row.mean())
    average = float(a @ numbers.risk)
    if combine == "median":
        kind, above, average = "none", 0.0, weighted_median(numbers.risk, a)
    below = max(average - ambiguity, average / 4.0, SMALLEST)
    risk = below if kind == "exact" else min(average + above * ambiguity, largest)
    concentration = float(a @ a)
    factor = min((1.0 + concentration) / max(1.0 - concentration, 0.1), MAX_SITE_FACTOR)
    worst = max(average + ambiguity * factor, below)
    site = None
    if noise is None or kind != "exact":
        # At the upper end all disagreement is a difference in p(y|x): it does not average out.
        centre, lift = worst, 0.0
        sampling = (a**2) @ (numbers.variance + numbers.spread * (numbers.kernel + 1.0 / n))
        rows = (a @ numbers.explained + per_row.var()) / n
    else:
        site = max(0.0, ambiguity - float((a * (1.0 - a)) @ noise))
        lift = site * factor  # one new site: its squared effect varies like χ² with 1 df
        centre = risk = min(max(average - (ambiguity - site) + lift, below), largest)
        sampling = (a**2) @ (numbers.variance + numbers.spread * numbers.kernel)
        rows = (a @ _explained_at_most(numbers) + per_row.var()) / n
    se = float(np.sqrt(sampling + rows))
    above_se = float(np.hypot(se, np.sqrt(2.0) * lift))
    q = float(stdtrit(_degrees_of_freedom(numbers, a), 0.5 + level / 2.0))
    with np.errstate(divide="ignore"):
        target_rows = float(
            1.0 / ((a**2) @ (1.0 / np.maximum(numbers.effective_rows, 1e-12) + numbers.kernel))
        )
    kernel, imbalance = float(a @ numbers.kernel), float(a @ numbers.imbalance)
    comparable = ambiguity if loss in _RULES else 0.0
    status = _status(imbalance, comparable, average, kernel, target_rows)
    lower = upper = None
    if kind != "none" and status != "no overlap":
        lower = below * float(np.exp(-min(q * se / below, MAX_LOG_WIDTH)))
        if below <= SMALLEST:  # a risk of 0, which the log scale does not have
            lower = 0.0
        upper = centre * float(np.exp(min(q * above_se / centre, MAX_LOG_WIDTH)))
        if loss == "zero-one":  # no error in n rows does not mean that none is possible
            upper = max(upper, 1.0 - (0.5 - level / 2.0) ** (1.0 / target_rows))
        upper = min(upper, largest)
    return EnsembleRisk(
        weights=a,
        risk=risk,
        average=average,
        ambiguity=ambiguity,
        standard_error=se,
        lower=lower,
        upper=upper,
        level=level,
        kind=kind,
        status=status,
        worst=min(worst, largest),
        target_rows=target_rows,
        kernel_imbalance=kernel,
        mean_imbalance=imbalance,
        site=site,
        if_shared=below if kind == "exact" else None,
    )


def _explained_at_most(numbers: SourceNumbers) -> Array:
    """Vx and a standard error: which rows the target has moves all sources' risks together."""
    error = numbers.spread / np.sqrt(np.maximum(numbers.effective_rows, 1.0))
    most: Array = np.minimum(numbers.explained + error, numbers.spread)
    return most


def _degrees_of_freedom(numbers: SourceNumbers, a: Array) -> float:
    """Satterthwaite's, for a sum of K variances."""
    v = numbers.variance / max(float(numbers.variance.max()), SMALLEST)  # squares may overflow
    parts = a**4 * v**2 / np.maximum(numbers.effective_rows - 1.0, 1.0)
    return max(2.0, float(((a**2) @ v) ** 2 / (parts.sum() + SMALLEST)))


def _status(
    imbalance: float, ambiguity: float, average: float, kernel: float, target_rows: float
) -> Status:
    if imbalance > MAX_IMBALANCE:
        return "no overlap"
    if ambiguity > MAX_DISAGREEMENT * average:
        return "sources disagree"
    if kernel > MAX_KERNEL or target_rows < MIN_ROWS:
        return "weak overlap"
    return "ok"


def mixture(outputs: Array, weights: Array) -> Array:
    """h̄ = Σ a_j h_j, shape (rows,) or (rows, classes)."""
    mixed: Array = np.einsum("nk...,k->n...", outputs, weights)
    return mixed


def _squared_distances(outputs: Array, a: Array) -> Array:
    """(h_j − h̄)² or ½‖p_j − p̄‖², shape (rows, sources)."""
    difference = outputs - mixture(outputs, a)[:, None]
    if difference.ndim == 3:
        halved: Array = 0.5 * np.einsum("nkc,nkc->nk", difference, difference)
        return halved
    squares: Array = difference**2
    return squares


def _squared_ambiguity(outputs: Array, a: Array) -> Array:
    return _squared_distances(outputs, a) @ a


def _absolute_ambiguity(outputs: Array, a: Array) -> Array:
    return np.asarray(np.abs(outputs - mixture(outputs, a)[:, None]) @ a)


def _log_ambiguity(outputs: Array, a: Array) -> Array:
    logs = np.log(np.maximum(outputs, LOG_FLOOR))
    mixed = np.log(np.maximum(mixture(outputs, a), LOG_FLOOR))
    gap: Array = (mixed - mixture(logs, a)).max(axis=1)  # the label that disagreement costs most
    return gap


def _zero_one_ambiguity(outputs: Array, a: Array) -> Array:
    chosen = mixture(outputs, a).argmax(axis=1)
    return np.asarray((outputs.argmax(axis=2) != chosen[:, None]) @ a)


#: Losses whose ambiguity is exact.
EXACT = ("squared", "brier")
#: loss -> (disagreement per row, kind, how much of it R may lie above F, largest value of the loss)
_RULES: Mapping[str, tuple[Callable[[Array, Array], Array], Kind, float, float]] = {
    "squared": (_squared_ambiguity, "exact", 0.0, np.inf),
    "brier": (_squared_ambiguity, "exact", 0.0, 1.0),
    "absolute": (_absolute_ambiguity, "bound", 0.0, np.inf),
    "log": (_log_ambiguity, "bound", 0.0, np.inf),
    "zero-one": (_zero_one_ambiguity, "bound", 1.0, 1.0),
}

"""The measures of a model, their scales, and how sure a site is of each.

A measure is one entry of `MEASURES`; its formula stands in `fedcsa.core.formulas`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Literal

import numpy as np

from fedcsa.core import formulas
from fedcsa.core.arrays import Array, expit, logit
from fedcsa.core.formulas import Valued
from fedcsa.core.scores import ScoreDesign, Told, complement

OutcomeKind = Literal["two classes", "classes", "number"]
Link = Literal["identity", "log", "logit", "rest"]

#: AUROC and slope need so many effective events of each kind: with fewer, one patient decides.
FEWEST_EVENTS = 5.0
#: No measure is told of fewer effective rows.
FEWEST_ROWS = 10.0
#: No variance on an unbounded scale is smaller: an exact zero would outweigh every other site.
SMALLEST = 1e-12
#: Stands for "not estimable": numbers on the wire are finite.
NOT_ESTIMABLE = -1.0
#: Prior scales of the between-site sd, developed on simulated studies: of log risks, and of
#: log-odds of an AUROC …
RISK_SPREAD = 0.2
#: … of the log loss, as logarithm, which varies less than a Brier score …
LOG_LOSS_SPREAD = 0.15
#: … of a Brier score over the constant's, as logarithm: the event rate is taken out …
SCALED_SPREAD = 0.1
#: … of log-odds of rates, which differ more …
RATE_SPREAD = 0.5
#: … of observed over expected, as logarithm …
LEVEL_SPREAD = 0.35
#: … of the calibration slope …
SLOPE_SPREAD = 0.15
#: … of the mean residual, in residual sds …
RESIDUAL_SPREAD = 0.2
#: … and of the net benefit, in event rates.
BENEFIT_SPREAD = 0.2


@dataclass(frozen=True)
class Measure:
    """One measure.

    Attributes
    ----------
    name : str
    kind : str
        Of outcome.
    link : str
        The unbounded scale on which sites are compared; ``"rest"`` is log(1 − value).
    spread : float
        Scale of the half-normal prior of the between-site sd, on that scale.
    better : int
        1 if more is better, −1 if less is, 0 if a certain value is.
    compute : function
        One of `fedcsa.core.formulas`: of what is told, of a class and at a threshold if it has one.
    at_threshold, of_class : bool
        Whether there is one for every declared threshold, then of classes too, and for every class.
    fewest_events : float
        Effective rows of either kind below which it is not estimable.
    imbalance : int
        The power of ι, what is left of the imbalance, that is added to the variance.
    binomial : float
        Share of a binomial variance that the variance is at least, if it is a rate.
    spread_in : str
        What spread and ι are multiples of, if not of 1: ``"events"``, the event rate, or
        ``"residuals"``, their root mean square.
    plug_in : bool
        Whether the target's own distribution of scores corrects it, see `fedcsa.core.plug_in`.
    in_units : bool
        Whether the value is in the outcome's units.
    """

    name: str
    kind: OutcomeKind
    link: Link
    spread: float
    better: int
    compute: Callable[..., Valued]
    at_threshold: bool = False
    of_class: bool = False
    fewest_events: float = 0.0
    imbalance: int = 1
    binomial: float = 0.0
    spread_in: Literal["", "events", "residuals"] = ""
    plug_in: bool = False
    in_units: bool = False


@dataclass(frozen=True)
class MeasureColumn:
    """One column of the matrix of variances: a measure, of a class, at a threshold.

    No variance is below `smallest`, and none of a difference of two values below `smallest_gap`.
    """

    measure: Measure
    of_class: int | None
    threshold: float | None
    smallest: float
    smallest_gap: float


def _rate(name: str) -> Measure:
    """A rate at a threshold."""
    return Measure(
        name, "two classes", "logit", RATE_SPREAD, 1, partial(formulas.rate_at, name),
        at_threshold=True, of_class=True, binomial=1.0, plug_in=True,
    )  # fmt: skip


#: All measures, in the order of reports. The name of one may stand for two kinds of outcome.
MEASURES: tuple[Measure, ...] = (
    # A third of the binomial variance is less than any AUROC's: each row meets all of the others.
    Measure(
        "auroc", "classes", "logit", RISK_SPREAD, 1, formulas.auroc,
        of_class=True, fewest_events=FEWEST_EVENTS, binomial=1.0 / 3.0, plug_in=True,
    ),
    Measure(
        "event_rate", "classes", "logit", RATE_SPREAD, 0, formulas.event_rate,
        of_class=True, binomial=1.0, plug_in=True,
    ),
    Measure(
        "observed_expected", "classes", "log", LEVEL_SPREAD, 0, formulas.observed_expected,
        of_class=True, binomial=0.5, plug_in=True,
    ),
    Measure(
        "calibration_slope", "classes", "identity", SLOPE_SPREAD, 0, formulas.calibration_slope,
        of_class=True, fewest_events=FEWEST_EVENTS,
    ),
    Measure(
        "brier", "classes", "log", RISK_SPREAD, -1, formulas.brier_score,
        imbalance=2, plug_in=True,
    ),
    Measure(
        "scaled_brier", "classes", "rest", SCALED_SPREAD, 1, formulas.scaled_brier,
        imbalance=2, plug_in=True,
    ),
    Measure(
        "log_loss", "classes", "log", LOG_LOSS_SPREAD, -1, formulas.log_loss,
        imbalance=2, plug_in=True,
    ),
    *map(_rate, ("sensitivity", "specificity", "ppv", "npv")),
    Measure(
        "net_benefit", "two classes", "identity", BENEFIT_SPREAD, 1, formulas.net_benefit,
        at_threshold=True, of_class=True, spread_in="events", plug_in=True,
    ),
    Measure(
        "rmse", "number", "log", RISK_SPREAD / 2.0, -1, formulas.rmse, imbalance=2, in_units=True,
    ),
    Measure(
        "mae", "number", "log", RISK_SPREAD / 2.0, -1, formulas.mae, imbalance=2, in_units=True,
    ),
    Measure("r2", "number", "rest", RISK_SPREAD, 1, formulas.r2, imbalance=2),
    Measure("calibration_slope", "number", "identity", SLOPE_SPREAD, 0, formulas.number_slope),
    Measure(
        "calibration_intercept", "number", "identity", RESIDUAL_SPREAD, 0, formulas.mean_residual,
        spread_in="residuals", in_units=True,
    ),
)  # fmt: skip


# Columns, scales, variances -------------------------------------------------------------------


def measure_columns(design: ScoreDesign) -> tuple[MeasureColumn, ...]:
    """The columns of every matrix of measures in a study.

    Variances are at least `SMALLEST`, but of a number in the outcome's units in proportion to small
    units: outcomes of 1e-5, such as mol/l, have variances below it.

    Examples
    --------
    >>> [column.measure.name for column in measure_columns(ScoreDesign(0))]
    ['rmse', 'mae', 'r2', 'calibration_slope', 'calibration_intercept']
    """
    kinds = {0: ("number",), 2: ("two classes", "classes")}.get(design.n_classes, ("classes",))
    in_units = max(SMALLEST * min(design.unit, 1.0) ** 2, np.finfo(np.float64).tiny)
    found = []
    for measure in MEASURES:
        if measure.kind in kinds:
            # A difference always is on the scale of the value itself.
            gap = in_units if measure.in_units else SMALLEST
            own = gap if measure.link == "identity" else SMALLEST
            thresholds = design.thresholds if measure.at_threshold else (None,)
            classes = design.classes if measure.of_class else (None,)
            for threshold, of_class in product(thresholds, classes):
                found.append(MeasureColumn(measure, of_class, threshold, own, gap))
    return tuple(found)


def measure_values(
    told: Told, columns: Sequence[MeasureColumn] | None = None
) -> tuple[Array, Array, Array]:
    """Measures of a subgroup, effective rows of each, and the same on its scale; NaN if none.

    Parameters
    ----------
    told : Told
    columns : sequence of MeasureColumn, optional
        By default all of the study.

    Returns
    -------
    three arrays of shape (…, columns)
    """
    found = []
    for column in measure_columns(told.design) if columns is None else columns:
        measure = column.measure
        of = (column.of_class, column.threshold)[: measure.of_class + measure.at_threshold]
        value, rows = measure.compute(told, *of)
        found.append([value, rows, on_link(measure, value, rows)])
    values, effective, x = np.moveaxis(np.array(found), 0, -1)
    return values, effective, x


def on_link(measure: Measure, value: Array, rows: Array) -> Array:
    """A value on the unbounded scale. Rates are moved off 0 and 1 by half a row.

    An AUROC is only kept off them: half a row would pull it by more than its own error.

    Parameters
    ----------
    measure : Measure
    value, rows : array
        As `Measure.compute` gives them.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        if measure.fewest_events and measure.link == "logit":  # a mean over pairs, not over rows
            least = 0.5 / (rows + 1.0)
            return np.asarray(logit(np.clip(value, least, 1.0 - least)))
        if measure.link == "logit":
            return np.asarray(logit((rows * value + 0.5) / (rows + 1.0)))
        if measure.link == "log" and measure.binomial:
            return np.asarray(np.log((rows * value + 0.5) / (rows + 0.5)))
        if measure.link == "log":
            return np.asarray(np.log(value))
        return np.asarray(np.log(1.0 - value)) if measure.link == "rest" else value


def from_link(measure: Measure, x: Array) -> Array:
    """The value at a point of the unbounded scale.

    Parameters
    ----------
    measure : Measure
    x : array
    """
    if measure.link == "logit":
        return np.asarray(expit(x))
    if measure.link == "identity":  # a net benefit is at most the event rate, and that at most 1
        return np.minimum(x, 1.0) if measure.spread_in == "events" else x
    return np.asarray(np.exp(x) if measure.link == "log" else 1.0 - np.exp(x))


def link_slope(measure: Measure, x: Array) -> Array:
    """How much the value changes with the unbounded scale, in size.

    Parameters
    ----------
    measure : Measure
    x : array
        On that scale.
    """
    if measure.link == "logit":
        return np.asarray(expit(x) * expit(-x))
    return np.asarray(np.ones_like(x) if measure.link == "identity" else np.exp(x))


def spread_unit(column: MeasureColumn, told: Told) -> float:
    """What spread and ι of a column are multiples of.

    Parameters
    ----------
    column : MeasureColumn
    told : Told
    """
    measure = column.measure
    if not measure.spread_in:
        return 1.0
    least = SMALLEST * (min(told.design.unit, 1.0) if measure.in_units else 1.0)
    if measure.spread_in == "events":
        return max(float(formulas.event_rate(told, column.of_class or 0)[0]), least)
    return max(float(formulas.rmse(told)[0]), least)


def left_out_variance(left_out: Array) -> Array:
    """(G − 1)/G Σ (θ_−g − mean)² over the first axis; 0 of fewer than two."""
    n = max(len(left_out), 1)
    deviation = left_out - left_out.sum(axis=0) / n
    found: Array = (n - 1.0) / n * (deviation**2).sum(axis=0)
    return found


def measure_variances(
    parts: Mapping[int, tuple[Told, Told]], design: ScoreDesign, imbalance: float = 0.0
) -> Array:
    """Sampling variance of every measure on its own scale, (1 + 2·subgroups, columns).

    First everybody, then every subgroup, then every difference of a subgroup and the rest (on the
    scale of the value itself). −1 where not estimable.

    Parameters
    ----------
    parts : mapping of int to pair of Told
        Of every subgroup: whole, and without every jackknife group, as `ScoreSums.told` has them.
    design : ScoreDesign
    imbalance : float
        ι: mean over features of the squared standardised difference that is left.
    """
    columns, S = measure_columns(design), design.n_subgroups
    found = np.full((1 + 2 * S, len(columns)), NOT_ESTIMABLE)
    for s, (told, left_out) in parts.items():
        (_, rows, x), each = measure_values(told, columns), measure_values(left_out, columns)[2]
        known = np.isfinite(x) & np.isfinite(each).all(axis=0)
        known &= told.effective_rows >= FEWEST_ROWS
        for k, column in enumerate(columns):
            measure = column.measure
            if known[k] and rows[k] >= measure.fewest_events:
                chance = float(left_out_variance(each[:, k]))
                if measure.binomial:
                    chance = max(chance, least_variance(measure, x[k], rows[k]))
                left = imbalance**measure.imbalance * spread_unit(column, told) ** 2
                found[s, k] = max(chance + left, column.smallest)
        if s:
            found[S + s] = _difference_variances(parts[0], parts[s], columns, imbalance)
    return found


def least_variance(measure: Measure, x: Array, rows: Array) -> float:
    """The least variance of a rate on its scale: that of a binomial, or Poisson, count.

    Parameters
    ----------
    measure : Measure
        With a share of a binomial variance.
    x, rows : array of shape ()
        Value on its scale, and effective rows.
    """
    share = float(expit(x) * expit(-x)) if measure.link == "logit" else float(np.exp(x))
    return measure.binomial / ((float(rows) + 1.0) * share)


def _difference_variances(
    everybody: tuple[Told, Told],
    inside: tuple[Told, Told],
    columns: Sequence[MeasureColumn],
    imbalance: float,
) -> Array:
    """Variance of the difference of a subgroup and the rest, by column, on the value's own scale.

    Parameters
    ----------
    everybody, inside : pair of Told
        Whole, and without every jackknife group.
    columns : sequence of MeasureColumn
    imbalance : float
        ι.
    """
    outside = tuple(map(complement, everybody, inside))
    found, sides = np.full(len(columns), NOT_ESTIMABLE), (inside[0], outside[0])
    (a, n_a, x_a), (b, n_b, x_b) = (measure_values(side, columns) for side in sides)
    apart = measure_values(inside[1], columns)[0] - measure_values(outside[1], columns)[0]
    known = np.isfinite(a - b) & np.isfinite(apart).all(axis=0)
    known &= min(side.effective_rows for side in sides) >= FEWEST_ROWS
    for k, column in enumerate(columns):
        measure, chance, left = column.measure, 0.0, 0.0
        if not (known[k] and min(n_a[k], n_b[k]) >= measure.fewest_events):
            continue
        for told, x, rows in zip(sides, (x_a[k], x_b[k]), (n_a[k], n_b[k]), strict=True):
            slope = float(link_slope(measure, x)) ** 2
            if measure.binomial:
                chance += slope * least_variance(measure, x, rows)
            left += slope * imbalance**measure.imbalance * spread_unit(column, told) ** 2
        chance = max(float(left_out_variance(apart[:, k])), chance)
        found[k] = chance + max(left, column.smallest_gap)
    return found

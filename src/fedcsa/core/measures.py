"""The measures of a model, their scales, and how sure a site is of each.

A measure is one entry of `MEASURES`; its formula stands in `fedcsa.core.formulas`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedcsa.core.arrays import Array, expit, logit
from fedcsa.core.formulas import (
    Aspect,
    Valued,
    auroc,
    brier_score,
    calibration_slope,
    event_rate,
    log_loss,
    mae,
    mean_residual,
    net_benefit,
    npv,
    number_slope,
    observed_expected,
    ppv,
    r2,
    rmse,
    scaled_brier,
    sensitivity,
    specificity,
)
from fedcsa.core.scores import MIN_CELL_ROWS, ScoreDesign, ScoreSums, Told, complement

OutcomeKind = Literal["two classes", "classes", "number"]
Link = Literal["identity", "log", "logit", "rest"]

#: AUROC and slope need so many effective events of each kind: with fewer, one patient decides.
FEWEST_EVENTS = 5.0
#: No measure is told of fewer effective rows.
FEWEST_ROWS = 10.0
#: No variance on a scale without walls is smaller: an exact zero would outweigh every other site.
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
        The scale without walls on which sites are compared; ``"rest"`` is log(1 − value).
    spread : float
        Scale of the half-normal prior of the between-site sd, on that scale.
    better : int
        1 if more is better, −1 if less is, 0 if a certain value is.
    compute : function
        One of `fedcsa.core.formulas`.
    at_threshold, of_class : bool
        Whether there is one for every declared threshold, and for every class.
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
    compute: Callable[[Aspect], Valued]
    at_threshold: bool = False
    of_class: bool = False
    fewest_events: float = 0.0
    imbalance: int = 1
    binomial: float = 0.0
    spread_in: Literal["", "events", "residuals"] = ""
    plug_in: bool = False
    in_units: bool = False

    @property
    def widest_gap(self) -> float:
        """How far apart two values can lie: rates and other shares at most 1."""
        return 1.0 if self.link == "logit" else float("inf")


@dataclass(frozen=True)
class MeasureColumn:
    """One column of the matrix of variances: a measure, of a class, at a threshold."""

    measure: Measure
    of_class: int | None = None
    threshold: float | None = None

    def aspect(self, told: Told) -> Aspect:
        """What the measure's formula looks at."""
        threshold = 0.0 if self.threshold is None else self.threshold
        return Aspect(told, self.of_class or 0, threshold)


def _rate(name: str, compute: Callable[[Aspect], Valued]) -> Measure:
    """A rate at a threshold.

    Parameters
    ----------
    name : str
    compute : function
    """
    return Measure(
        name, "two classes", "logit", RATE_SPREAD, 1, compute,
        at_threshold=True, of_class=True, binomial=1.0, plug_in=True,
    )  # fmt: skip


#: All measures, in the order of reports. The name of one may stand for two kinds of outcome.
MEASURES: tuple[Measure, ...] = (
    # A third of the binomial variance is less than any AUROC's: each row meets all of the others.
    Measure(
        "auroc", "classes", "logit", RISK_SPREAD, 1, auroc,
        of_class=True, fewest_events=FEWEST_EVENTS, binomial=1.0 / 3.0, plug_in=True,
    ),
    Measure(
        "event_rate", "classes", "logit", RATE_SPREAD, 0, event_rate,
        of_class=True, binomial=1.0, plug_in=True,
    ),
    Measure(
        "observed_expected", "classes", "log", LEVEL_SPREAD, 0, observed_expected,
        of_class=True, binomial=0.5, plug_in=True,
    ),
    Measure(
        "calibration_slope", "classes", "identity", SLOPE_SPREAD, 0, calibration_slope,
        of_class=True, fewest_events=FEWEST_EVENTS,
    ),
    Measure("brier", "classes", "log", RISK_SPREAD, -1, brier_score, imbalance=2, plug_in=True),
    Measure(
        "scaled_brier", "classes", "rest", SCALED_SPREAD, 1, scaled_brier, imbalance=2, plug_in=True
    ),
    Measure("log_loss", "classes", "log", LOG_LOSS_SPREAD, -1, log_loss, imbalance=2, plug_in=True),
    _rate("sensitivity", sensitivity),
    _rate("specificity", specificity),
    _rate("ppv", ppv),
    _rate("npv", npv),
    Measure(
        "net_benefit", "two classes", "identity", BENEFIT_SPREAD, 1, net_benefit,
        at_threshold=True, of_class=True, spread_in="events", plug_in=True,
    ),
    Measure("rmse", "number", "log", RISK_SPREAD / 2.0, -1, rmse, imbalance=2, in_units=True),
    Measure("mae", "number", "log", RISK_SPREAD / 2.0, -1, mae, imbalance=2, in_units=True),
    Measure("r2", "number", "rest", RISK_SPREAD, 1, r2, imbalance=2),
    Measure("calibration_slope", "number", "identity", SLOPE_SPREAD, 0, number_slope),
    Measure(
        "calibration_intercept", "number", "identity", RESIDUAL_SPREAD, 0, mean_residual,
        spread_in="residuals", in_units=True,
    ),
)  # fmt: skip


# Columns, scales, variances -------------------------------------------------------------------


def measure_columns(design: ScoreDesign) -> tuple[MeasureColumn, ...]:
    """The columns of every matrix of measures in a study.

    Examples
    --------
    >>> [column.measure.name for column in measure_columns(ScoreDesign(0))]
    ['rmse', 'mae', 'r2', 'calibration_slope', 'calibration_intercept']
    """
    kinds = {0: ("number",), 2: ("two classes", "classes")}.get(design.n_classes, ("classes",))
    return tuple(
        MeasureColumn(measure, of_class, threshold)
        for measure in MEASURES
        if measure.kind in kinds
        for threshold in (design.thresholds if measure.at_threshold else (None,))
        for of_class in (design.classes if measure.of_class else (None,))
    )


def measure_values(told: Told) -> Valued:
    """Every measure of a subgroup, and the effective rows of each, (…, columns); NaN if none."""
    found = [c.measure.compute(c.aspect(told)) for c in measure_columns(told.design)]
    empty = np.empty((*told.exact.shape[:-1], 0))
    values, rows = ([part[..., None] for part in parts] for parts in zip(*found, strict=True))
    return np.concatenate([empty, *values], axis=-1), np.concatenate([empty, *rows], axis=-1)


def on_link(measure: Measure, value: Array, rows: Array) -> Array:
    """A value on the scale without walls. Rates are moved off 0 and 1 by half a row.

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
    """The value at a point of the scale without walls.

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
    """How much the value changes with the scale without walls, in size.

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
    units = {"events": event_rate, "residuals": rmse}
    if not column.measure.spread_in:
        return 1.0
    least = SMALLEST * (min(told.design.unit, 1.0) if column.measure.in_units else 1.0)
    return max(float(units[column.measure.spread_in](column.aspect(told))[0]), least)


def smallest_variances(design: ScoreDesign) -> Array:
    """The floor of every variance, (1 + 2·subgroups, columns), as `measure_variances` has them.

    `SMALLEST`, but of a number in the outcome's units in proportion to small units: outcomes of
    1e-5, such as mol/l, have variances below it.
    """
    S, columns = design.n_subgroups, measure_columns(design)
    found = np.full((1 + 2 * S, len(columns)), SMALLEST)
    scaled = max(SMALLEST * min(design.unit, 1.0) ** 2, np.finfo(np.float64).tiny)
    for k, column in enumerate(columns):
        if column.measure.in_units:  # a difference always is on the scale of the value itself
            found[S + 1 :, k] = scaled
            found[: S + 1, k] = scaled if column.measure.link == "identity" else SMALLEST
    return found


def left_out_variance(left_out: Array) -> Array:
    """(G − 1)/G Σ (θ_−g − mean)² over the first axis; 0 of fewer than two."""
    n = max(len(left_out), 1)
    deviation = left_out - left_out.sum(axis=0) / n
    found: Array = (n - 1.0) / n * (deviation**2).sum(axis=0)
    return found


def measure_variances(
    sums: ScoreSums, min_rows: int = MIN_CELL_ROWS, imbalance: float = 0.0
) -> Array:
    """Sampling variance of every measure on its own scale, (1 + 2·subgroups, columns).

    First everybody, then every subgroup, then every difference of a subgroup and the rest (on the
    scale of the value itself). −1 where not estimable.

    Parameters
    ----------
    sums : ScoreSums
        Of all rows.
    min_rows : int
        As for `ScoreSums.table`.
    imbalance : float
        ι: mean over features of the squared standardised difference that is left.
    """
    design, S = sums.design, sums.design.n_subgroups
    columns = measure_columns(design)
    found = np.full((1 + 2 * S, len(columns)), NOT_ESTIMABLE)
    ends = sums.ends(min_rows)
    if not len(ends[0][0]):
        return found
    everybody = sums.left_out(0, ends[0])
    found[0] = _variances(*everybody, imbalance)
    for s in range(1, S + 1):
        if len(ends[s][0]):
            inside = sums.left_out(s, ends[s])
            outside = complement(everybody[0], inside[0]), complement(everybody[1], inside[1])
            found[s] = _variances(*inside, imbalance)
            found[S + s] = _difference_variances(inside, outside, imbalance)
    return found


def _variances(told: Told, left_out: Told, imbalance: float) -> Array:
    """Of every column, on its scale.

    Parameters
    ----------
    told, left_out : Told
        Whole, and without every jackknife group.
    imbalance : float
        ι.
    """
    columns = measure_columns(told.design)
    (values, rows), (rest, rest_rows) = measure_values(told), measure_values(left_out)
    floors = smallest_variances(told.design)[0]
    found = np.full(len(columns), NOT_ESTIMABLE)
    for k, column in enumerate(columns):
        measure = column.measure
        x = on_link(measure, values[k], rows[k])
        each = on_link(measure, rest[:, k], rest_rows[:, k])
        if _estimable(column, told) and np.isfinite(x) and np.isfinite(each).all():
            chance = max(float(left_out_variance(each)), least_variance(measure, x, rows[k]))
            left = imbalance**measure.imbalance * spread_unit(column, told) ** 2
            found[k] = max(chance + left, floors[k])
    return found


def _estimable(column: MeasureColumn, told: Told) -> bool:
    """Whether there are enough effective rows, and events of each kind.

    Parameters
    ----------
    column : MeasureColumn
    told : Told
    """
    enough = bool(told.effective_rows >= FEWEST_ROWS)
    if column.measure.fewest_events and told.design.n_classes:
        with_event, without = told.effective_events(column.of_class or 0)
        enough &= bool(np.minimum(with_event, without) >= column.measure.fewest_events)
    return enough


def least_variance(measure: Measure, x: Array, rows: Array) -> float:
    """The least variance of a rate on its scale: that of a binomial, or Poisson, count.

    Parameters
    ----------
    measure : Measure
    x, rows : array of shape ()
        Value on its scale, and effective rows.
    """
    if not measure.binomial:
        return 0.0
    share = float(expit(x) * expit(-x)) if measure.link == "logit" else float(np.exp(x))
    return measure.binomial / ((float(rows) + 1.0) * share)


def _difference_variances(
    inside: tuple[Told, Told], outside: tuple[Told, Told], imbalance: float
) -> Array:
    """Of the difference of a subgroup and the rest, in every column, on the value's own scale.

    Parameters
    ----------
    inside, outside : pair of Told
        Whole, and without every jackknife group.
    imbalance : float
        ι.
    """
    columns = measure_columns(inside[0].design)
    found = np.full(len(columns), NOT_ESTIMABLE)
    (a, n_a), (b, n_b) = (measure_values(side[0]) for side in (inside, outside))
    apart = measure_values(inside[1])[0] - measure_values(outside[1])[0]
    floors = smallest_variances(inside[0].design)[-1]
    for k, column in enumerate(columns):
        enough = all(_estimable(column, side[0]) for side in (inside, outside))
        if not (enough and np.isfinite(a[k] - b[k]) and np.isfinite(apart[:, k]).all()):
            continue
        chance, left = 0.0, 0.0
        for value, rows, side in ((a[k], n_a[k], inside), (b[k], n_b[k], outside)):
            x = on_link(column.measure, value, rows)
            slope = float(link_slope(column.measure, x)) ** 2
            chance += slope * least_variance(column.measure, x, rows)
            left += slope * imbalance**column.measure.imbalance * spread_unit(column, side[0]) ** 2
        found[k] = max(float(left_out_variance(apart[:, k])), chance) + max(left, floors[k])
    return found

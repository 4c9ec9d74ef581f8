"""Pictures of a validation at the target, from the sources' tables, and a recalibration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TypeAlias, TypeVar

import numpy as np

from fedcsa.core.arrays import Array, expit, logit
from fedcsa.core.formulas import calibration_level, calibration_of, cell_log_odds, rmse
from fedcsa.core.measures import (
    BENEFIT_SPREAD,
    LEVEL_SPREAD,
    RESIDUAL_SPREAD,
    SLOPE_SPREAD,
    SMALLEST,
    measure_values,
)
from fedcsa.core.plug_in import lines_of, sums_of_cells
from fedcsa.core.random_effects import new_site
from fedcsa.core.scores import Told
from fedcsa.target.promised_measures import (
    Calibration,
    DecisionCurve,
    Evidence,
    Recalibration,
    RiskDistribution,
    promise_of_measure,
    site_estimates,
)

#: Points of a calibration plot at most, and at least; one for so many effective events.
MOST_POINTS, FEWEST_POINTS, EVENTS_A_POINT = 10, 3, 10.0
#: Effective rows that a source must have at a point to be heard there.
FEWEST_AT_POINT = 2.0
#: Thresholds of a decision curve besides the declared ones.
CURVE_POINTS = 50
#: Bars of a distribution of risks.
BARS = 25
#: Curves and distributions are drawn between these shares of the scores: beyond lie single rows.
SHOWN = (0.005, 0.995)
#: Points of the grid over τ, of which a curve needs fewer than one promise.
CURVE_TAUS = 201

Score = TypeVar("Score", float, Array)


def _told(evidence: Evidence) -> list[tuple[int, Told]]:
    """What the sources told of everybody."""
    return [(j, told[0]) for j, told in enumerate(evidence.told) if 0 in told]


def _cells(told: Told, of_class: int) -> tuple[Array, Array, Array]:
    """Σw and Σwy of every cell that is not empty, in shares, and its mean score.

    Parameters
    ----------
    told : Told
    of_class : int
    """
    w, events, predicted = told.table_of(of_class)
    some = w > 0.0
    w, events, predicted = w[some], events[some], predicted[some]
    return w / w.sum(), events / w.sum(), predicted / w


def _spread_of_scores(evidence: Evidence, of_class: int) -> tuple[Array, Array]:
    """Scores, ascending, and the share of the target's rows at each.

    Its own if they are known, else those of the sources' weighted rows.

    Parameters
    ----------
    evidence : Evidence
    of_class : int
    """
    if evidence.own is not None and evidence.own.n_rows[0]:
        share, predicted = evidence.own.shares[0, evidence.design.classes.index(of_class)].T
        some = share > 0.0
        return predicted[some] / share[some], share[some]
    parts = [(evidence.shares[j], *_cells(told, of_class)) for j, told in _told(evidence)]
    scores = np.concatenate([score for *_, score in parts])
    shares = np.concatenate([a * w for a, w, *_ in parts])
    order = np.argsort(scores, kind="stable")
    return scores[order], shares[order] / max(shares.sum(), 1e-300)


# Calibration plot ---------------------------------------------------------------------------------


def calibration_curves(evidence: Evidence) -> tuple[Calibration, ...]:
    """A calibration plot of every class that has a table, or of numbers."""
    if not _told(evidence):
        return ()
    return tuple(_calibration(evidence, c) for c in evidence.design.classes)


def _calibration(evidence: Evidence, of_class: int) -> Calibration:
    """Groups of about as many of the target's rows each; in each, what sources observe.

    Parameters
    ----------
    evidence : Evidence
    of_class : int
    """
    scores, shares = _spread_of_scores(evidence, of_class)
    middles = np.cumsum(shares) - 0.5 * shares
    group = np.minimum((middles * _n_points(evidence, of_class)).astype(int), MOST_POINTS - 1)
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    walls = 0.5 * (scores[starts[1:]] + scores[starts[1:] - 1])  # between two groups
    points = []
    for lowest, highest in pairwise([-np.inf, *walls.tolist(), np.inf]):
        here = (scores >= lowest) & (scores < highest)
        share = float(shares[here].sum())
        if not share > 0.0:  # scores of several sources that are the same lie in one group
            continue
        predicted = float(shares[here] @ scores[here] / share)
        found = _observed(evidence, of_class, (lowest, highest), predicted)
        if found is not None:
            points.append((_in_units(evidence, predicted), *found, share))
    return Calibration(evidence.label(of_class), *_columns(points, 5))


def _columns(rows: Sequence[tuple[float, ...]], n: int) -> tuple[tuple[float, ...], ...]:
    """The columns of some rows, as tuples.

    Parameters
    ----------
    rows : sequence of tuple of float
    n : int
        Columns, should there be no row.
    """
    return tuple(tuple(map(float, column)) for column in zip(*rows, strict=True)) or ((),) * n


def _n_points(evidence: Evidence, of_class: int) -> int:
    """How many points of a plot the rows, or events, suffice for.

    Parameters
    ----------
    evidence : Evidence
    of_class : int
    """
    classes = evidence.design.n_classes > 0
    rows = (
        t.effective_events(of_class) if classes else [t.effective_rows] for _, t in _told(evidence)
    )
    total = sum(float(min(each)) for each in rows)
    return int(np.clip(total / EVENTS_A_POINT, FEWEST_POINTS, MOST_POINTS))


def _in_units(evidence: Evidence, score: Score) -> Score:
    """Scores in the outcome's units.

    Parameters
    ----------
    evidence : Evidence
    score : float or array
    """
    design = evidence.design
    return score if design.n_classes else design.centre + design.unit * score


def _observed(
    evidence: Evidence, of_class: int, between: tuple[float, float], predicted: float
) -> tuple[float, float, float] | None:
    """What a new site observes of rows with scores in a range: median and ends; None if unknown.

    Sources are compared by how far outcomes lie from scores, as log-odds for classes.

    Parameters
    ----------
    evidence : Evidence
    of_class : int
    between : pair of float
        Lowest score, and the next range's.
    predicted : float
        Mean score of the target's rows there.
    """
    classes, gaps, v, units = evidence.design.n_classes > 0, [], [], []
    for _, told in _told(evidence):
        w, events, score = _cells(told, of_class)
        here = (score >= between[0]) & (score < between[1])
        rows = float(told.effective_rows * w[here].sum())
        if rows < FEWEST_AT_POINT:
            continue
        mean, seen = (float(x[here].sum() / w[here].sum()) for x in (w * score, events))
        if classes:  # as if half a row of the rarer kind had been seen besides, as predicted
            mean = float(np.clip(mean, 1e-6, 1.0 - 1e-6))
            more = 0.5 / min(mean, 1.0 - mean)
            rate = (rows * min(max(seen, 0.0), 1.0) + more * mean) / (rows + more)
            gaps.append(float(logit(rate) - logit(mean)))
            v.append(1.0 / ((rows + more) * rate * (1.0 - rate)))
            units.append(1.0)
        else:
            units.append(float(rmse(told)[0]) / evidence.design.unit)
            gaps.append(seen - mean)
            v.append(units[-1] ** 2 / rows + 1e-12)
    if not gaps:
        return None
    scale = float(np.mean(units)) * (LEVEL_SPREAD if classes else RESIDUAL_SPREAD)
    site = new_site(np.array(gaps), np.array(v), max(scale, 1e-9), points=CURVE_TAUS)
    ends = np.array([site.quantile(0.5), *site.interval(evidence.level)])
    if classes:
        ends = expit(logit(np.clip(predicted, 1e-9, 1.0 - 1e-9)) + ends)
    else:
        ends = _in_units(evidence, predicted + ends)
    return float(ends[0]), float(ends[1]), float(ends[2])


# Decision curve -----------------------------------------------------------------------------------


def decision_curve(evidence: Evidence) -> DecisionCurve | None:
    """Net benefit over thresholds within the range of the scores.

    None unless of two classes, and where predictions are all alike and no threshold is declared.
    """
    rates = [k for k, c in enumerate(evidence.columns) if c.measure.name == "event_rate"]
    if evidence.design.n_classes != 2 or not _told(evidence):
        return None
    rate = promise_of_measure(evidence, 0, rates[0]).estimate
    thresholds = _curve_thresholds(evidence)
    if not thresholds:
        return None
    points = [(t, *_benefit(evidence, t), rate - (1.0 - rate) * t / (1.0 - t)) for t in thresholds]
    return DecisionCurve(*_columns(points, 5))


def _curve_thresholds(evidence: Evidence) -> list[float]:
    """Agreed edges where scores lie, thinned out, and all declared thresholds.

    Parameters
    ----------
    evidence : Evidence
    """
    scores, shares = _spread_of_scores(evidence, 1)
    lowest, highest = np.interp(SHOWN, np.cumsum(shares), scores)
    edges = evidence.design.edges
    inner = edges[(edges >= lowest) & (edges <= highest)]
    step = max(-(-len(inner) // CURVE_POINTS), 1)
    return sorted({*inner[::step].tolist(), *evidence.design.thresholds})


def _benefit(evidence: Evidence, threshold: float) -> tuple[float, float, float]:
    """Net benefit at a new site: median and ends.

    A declared threshold has the promise of its measure. Elsewhere a cell counts by its mean score.

    Parameters
    ----------
    evidence : Evidence
    threshold : float
    """
    for k, column in enumerate(evidence.columns):
        if column.measure.name == "net_benefit" and column.threshold == threshold:
            found = promise_of_measure(evidence, 0, k)
            if not found.why_not:
                return found.estimate, found.lower, found.upper
    odds, benefits, v, rates = threshold / (1.0 - threshold), [], [], []
    for _, told in _told(evidence):
        w, events, score = _cells(told, 1)
        above = score >= threshold
        tp, fp = events[above].sum(), (w - events)[above].sum()
        benefit = tp - odds * fp + _benefit_shift(evidence, told, threshold)
        benefits.append(benefit)
        v.append((tp + odds**2 * fp - (tp - odds * fp) ** 2) / told.effective_rows + 1e-9)
        rates.append(events.sum())
    scale = BENEFIT_SPREAD * max(float(np.mean(rates)), 1e-6)
    site = new_site(np.array(benefits), np.array(v), scale, points=CURVE_TAUS)
    lower, upper = site.interval(evidence.level)
    return site.quantile(0.5), lower, upper


def _benefit_shift(evidence: Evidence, told: Told, threshold: float) -> float:
    """What the target's own scores change in a source's net benefit.

    Parameters
    ----------
    evidence : Evidence
    told : Told
    threshold : float
    """
    lines = lines_of(told)
    if evidence.own is None or not evidence.own.n_rows[0] or lines is None:
        return 0.0
    [(intercept, slope)], odds = lines, threshold / (1.0 - threshold)
    scores, shares = _spread_of_scores(evidence, 1)
    w, _, score = _cells(told, 1)
    found = []
    for share, at in ((shares, scores), (w, score)):
        q = expit(intercept + slope * cell_log_odds(np.ones_like(at), at))
        found.append(float((share * (q - odds * (1.0 - q)))[at >= threshold].sum()))
    return found[0] - found[1]


# Distributions of risk ----------------------------------------------------------------------------


def risk_distributions(evidence: Evidence) -> tuple[RiskDistribution, ...]:
    """Predicted risks of rows with and without the event, of every class that has a table."""
    if not evidence.design.n_classes or not _told(evidence):
        return ()
    return tuple(_distribution(evidence, c) for c in evidence.design.classes)


def _distribution(evidence: Evidence, of_class: int) -> RiskDistribution:
    """Shares of bars that are equally wide in log-odds.

    Parameters
    ----------
    evidence : Evidence
    of_class : int
    """
    scores, shares = _spread_of_scores(evidence, of_class)
    events = _events_at(evidence, of_class, scores, shares)
    x = cell_log_odds(np.ones_like(scores), scores)
    lowest, highest = np.interp(SHOWN, np.cumsum(shares), x).tolist()
    edges = np.linspace(lowest - 0.05, highest + 0.05, BARS + 1)  # wider than nothing
    bars = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, BARS - 1)
    sides = [np.bincount(bars, part, BARS) for part in (events, np.maximum(shares - events, 0.0))]
    told = [tuple((side / max(side.sum(), 1e-300)).tolist()) for side in sides]
    return RiskDistribution(evidence.label(of_class), tuple(expit(edges).tolist()), *told)


def _events_at(evidence: Evidence, of_class: int, scores: Array, shares: Array) -> Array:
    """Share of the target's rows with the event at every score, by the sources' calibration.

    Parameters
    ----------
    evidence : Evidence
    of_class : int
    scores, shares : array of shape (points,)
    """
    x, total, rate = cell_log_odds(np.ones_like(scores), scores), 0.0, np.zeros_like(scores)
    for j, told in _told(evidence):
        intercept, slope = calibration_of(told, of_class)
        if np.isfinite(slope):
            rate += evidence.shares[j] * expit(intercept + slope * x)
            total += float(evidence.shares[j])
    # Where nobody can say, scores are taken at their word.
    return shares * (rate / total if total > 0.0 else expit(x))


# Recalibration ------------------------------------------------------------------------------------


#: What is shown before and after a recalibration.
RECALIBRATED = (
    "observed_expected", "calibration_slope", "brier", "log_loss", "rmse", "calibration_intercept",
)  # fmt: skip


def recalibration(evidence: Evidence) -> Recalibration | None:
    """Intercept and slope that would correct the predictions at a new site.

    None for three classes or more, where one line per class gives no probabilities, and with fewer
    than two sources: nobody could judge the correction.
    """
    names = [column.measure.name for column in evidence.columns]
    if evidence.design.n_classes > 2:
        return None
    found = site_estimates(evidence, 0, names.index("calibration_slope"))
    if len(found.sources) < 2:
        return None
    told = [evidence.told[j][0] for j in found.sources]
    levels = [_level(item) for item in told]
    moved = []
    for j, item in enumerate(told):
        rest = np.arange(len(told)) != j
        others = [*levels[:j], *levels[j + 1 :]]
        line = _pooled_line(others, found.estimates[rest], found.variances[rest])
        moved.append(measure_values(recalibrated(item, line))[0])
    shown = [k for k, name in enumerate(names) if name in RECALIBRATED]
    only = replace(
        evidence,
        names=tuple(evidence.names[j] for j in found.sources),
        told=tuple(evidence.told[j] for j in found.sources),
        variances=tuple(evidence.variances[j] for j in found.sources),
        shares=evidence.shares[list(found.sources)],
    )
    before = tuple(promise_of_measure(evidence, 0, k) for k in shown)
    after = tuple(promise_of_measure(only, 0, k, np.array(moved)[:, k]) for k in shown)
    intercept, slope = _pooled_line(levels, found.estimates, found.variances)
    if not evidence.design.n_classes:  # from agreed units to the outcome's
        centre, unit = evidence.design.centre, evidence.design.unit
        intercept = centre * (1.0 - slope) + unit * intercept
    return Recalibration(None, intercept, slope, before, after)


#: The intercept that goes with a slope, its sampling variance, prior scale of its sd between sites.
_Level: TypeAlias = "tuple[Callable[[float], float], float, float]"


def _level(told: Told) -> _Level:
    """The level of outcomes at a source of two classes or numbers, summed up once."""
    w, events, predicted = told.table_of(told.design.classes[0])
    rows, total = float(told.effective_rows), float(w.sum())
    if told.design.n_classes:
        rate = float(np.clip(events.sum() / total, 1e-6, 1.0 - 1e-6))
        level = partial(calibration_level, w, events, cell_log_odds(w, predicted))
        return level, 1.0 / (rows * rate * (1.0 - rate)), LEVEL_SPREAD
    unit = float(rmse(told)[0]) / told.design.unit
    above, below = events.sum(), predicted.sum()
    return (
        lambda slope: float(above - slope * below) / total,
        max(unit**2 / rows, SMALLEST),
        max(RESIDUAL_SPREAD * unit, SMALLEST),
    )


def _pooled_line(levels: Sequence[_Level], slopes: Array, variances: Array) -> tuple[float, float]:
    """Intercept and slope at a new site: first the slope, then the intercept that goes with it.

    Parameters
    ----------
    levels : sequence of _Level
        Of every source.
    slopes, variances : array of shape (sources,)
        Calibration slopes, and their sampling variances.
    """
    slope = new_site(slopes, variances, SLOPE_SPREAD, points=CURVE_TAUS).quantile(0.5)
    intercepts = np.array([level(slope) for level, _, _ in levels])
    v, scales = (np.array(part) for part in list(zip(*levels, strict=True))[1:])
    site = new_site(intercepts, v, float(np.mean(scales)), points=CURVE_TAUS)
    return site.quantile(0.5), slope


def recalibrated(told: Told, line: tuple[float, float]) -> Told:
    """What a site would have told of corrected predictions, as far as its table says.

    Parameters
    ----------
    told : Told
        Of two classes or numbers.
    line : pair of float
        Intercept and slope; of log-odds, or of numbers in agreed units.
    """
    w, events, predicted = told.table_of(told.design.classes[0])
    intercept, slope = line
    names, exact = told.design.sum_names, told.exact.copy()
    if told.design.n_classes:
        moved = w * expit(intercept + slope * cell_log_odds(w, predicted))
        cells = [np.stack([w, events, p], axis=-1) for p in (predicted, moved)]
        was, becomes = (sums_of_cells([x], told.design, float(told.effective_rows)) for x in cells)
        for name in ("brier", "log_loss", "expected_1"):
            k = names.index(name)
            exact[k] = max(exact[k] + becomes[k] - was[k], 0.0)
        return Told(told.design, (cells[1],), told.ends, exact)
    weight, y, p, p2, py = (told.sums[n] for n in ("weight", "y", "p", "p_squares", "products"))
    apart = intercept * weight + (slope - 1.0) * p  # Σ w (p' − p)
    with_p = intercept * p + (slope - 1.0) * p2  # Σ w (p' − p) p
    with_y = intercept * y + (slope - 1.0) * py
    squares = intercept * apart + (slope - 1.0) * with_p  # Σ w (p' − p)²
    squared = max(float(told.sums["squared"] + 2.0 * (with_p - with_y) + squares), 0.0)
    ratio = np.sqrt(squared / max(float(told.sums["squared"]), SMALLEST))
    changed = {
        "p": p + apart,
        "p_squares": p2 + 2.0 * with_p + squares,
        "products": py + with_y,
        "squared": squared,
        "absolute": told.sums["absolute"] * ratio,
    }
    for name, value in changed.items():
        exact[names.index(name)] = value
    moved = intercept * w + slope * predicted
    return Told(told.design, (np.stack([w, events, moved], axis=-1),), told.ends, exact)

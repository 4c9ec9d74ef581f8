"""Formulas of measures: discrimination, calibration, loss and use, from what a site tells.

Every formula takes arrays with leading axes, so that a jackknife is one call. It gives a value,
NaN where there is none, and the effective rows that the value rests on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcsa.core.arrays import Array, expit, logit
from fedcsa.core.scores import FAR_END, Told

#: Newton steps of the calibration slope: ten are plenty where there is a maximum.
NEWTON_STEPS = 30
#: A shorter Newton step changes nothing that anybody reports.
CONVERGED = 1e-11
#: A slope beyond this means that predictions separate the outcomes.
STEEPEST = 50.0
#: So does a fit that is as good as certain of every outcome: its mean p(1 − p) is below this.
CERTAIN = 1e-7

#: A value, and the effective rows that it rests on.
Valued = tuple[Array, Array]


@dataclass(frozen=True)
class Aspect:
    """What a formula looks at: a told subgroup, a class, a declared threshold.

    A formula that is of no class, or at no threshold, leaves those out.
    """

    told: Told
    of_class: int = 0
    threshold: float = 0.0


def _over(top: Array, bottom: Array) -> Array:
    """A ratio, NaN where the denominator is not positive.

    Parameters
    ----------
    top, bottom : array
    """
    some = bottom > 0.0
    found: Array = np.where(some, top / np.where(some, bottom, 1.0), np.nan)
    return found


def auroc(at: Aspect) -> Valued:
    """Probability that a row with the event has the higher score; ties count half."""
    w, events, _ = at.told.table_of(at.of_class)
    others = np.maximum(w - events, 0.0)
    below = np.cumsum(others, axis=-1) - 0.5 * others
    pairs = events.sum(axis=-1) * others.sum(axis=-1)
    with_event, without = at.told.effective_events(at.of_class)
    return _over((events * below).sum(axis=-1), pairs), np.minimum(with_event, without)


def event_rate(at: Aspect) -> Valued:
    """Weighted share of rows with the event."""
    rate = _over(at.told.sum_of("events", at.of_class), at.told.sum_of("weight"))
    return rate, at.told.effective_rows


def observed_expected(at: Aspect) -> Valued:
    """Share of rows with the event over its mean predicted probability.

    The effective rows are expected events.
    """
    events, expected = (at.told.sum_of(name, at.of_class) for name in ("events", "expected"))
    share = _over(expected, at.told.sum_of("weight"))
    return _over(events, expected), at.told.effective_rows * share


def calibration_slope(at: Aspect) -> Valued:
    """Slope of a weighted logistic regression of the event on the log-odds of the score.

    The score of a cell is its mean. NaN if scores are all alike, or separate the outcomes.
    """
    w, events, predicted = at.told.table_of(at.of_class)
    _, slope = calibration_line(w, events, cell_log_odds(w, predicted))
    with_event, without = at.told.effective_events(at.of_class)
    return slope, np.minimum(with_event, without)


def cell_log_odds(weight: Array, predicted: Array) -> Array:
    """Log-odds of the mean score of every cell, at most `FAR_END` in size; 0 of an empty cell.

    Parameters
    ----------
    weight, predicted : array of shape (…, cells)
        Σw and Σwp.
    """
    mean = np.where(weight > 0.0, predicted / np.where(weight > 0.0, weight, 1.0), 0.5)
    ends = expit(np.array([-FAR_END, FAR_END]))
    found: Array = logit(np.clip(mean, *ends))
    return found


def calibration_line(weight: Array, events: Array, x: Array) -> tuple[Array, Array]:
    """Intercept and slope of a weighted logistic regression, by Newton's method.

    Parameters
    ----------
    weight, events : array of shape (…, cells)
        Σw and Σwy.
    x : array of shape (…, cells)
        Log-odds of the score.
    """
    weight = np.maximum(weight, 0.0)
    total = weight.sum(axis=-1, keepdims=True)
    centre = (weight * x).sum(axis=-1, keepdims=True) / np.maximum(total, 1e-300)
    z = x - centre
    rate = events.sum(axis=-1, keepdims=True) / np.maximum(total, 1e-300)
    a, b = logit(np.clip(rate, 1e-9, 1.0 - 1e-9)), np.zeros_like(rate)
    for _ in range(NEWTON_STEPS):
        mean = expit(a + b * z)
        gap, curve = events - weight * mean, weight * mean * (1.0 - mean)
        g = [(gap * v).sum(axis=-1, keepdims=True) for v in (1.0, z)]
        h = [(curve * v).sum(axis=-1, keepdims=True) for v in (1.0, z, z * z)]
        det = np.maximum(h[0] * h[2] - h[1] ** 2, 1e-300)
        # A longer step would leave the region where the quadratic approximation holds.
        steps = (h[2] * g[0] - h[1] * g[1]) / det, (h[0] * g[1] - h[1] * g[0]) / det
        a, b = (v + np.clip(step, -2.0, 2.0) for v, step in zip((a, b), steps, strict=True))
        if max(np.abs(step).max() for step in steps) < CONVERGED:
            break
    spread = (weight * z * z).sum(axis=-1, keepdims=True)
    known = (spread > 1e-9 * total) & (np.abs(b) < STEEPEST) & (h[0] > CERTAIN * total)
    known &= (rate > 0.0) & (rate < 1.0)
    slope = np.where(known, b, np.nan)
    return (a - slope * centre)[..., 0], slope[..., 0]


def calibration_level(weight: Array, events: Array, x: Array, slope: float) -> float:
    """Intercept of a weighted logistic regression whose slope is given.

    Parameters
    ----------
    weight, events, x : array of shape (cells,)
        As for `calibration_line`.
    slope : float
    """
    a, total = 0.0, max(float(weight.sum()), 1e-300)
    rate = float(np.clip(events.sum() / total, 1e-9, 1.0 - 1e-9))
    for _ in range(NEWTON_STEPS):
        mean = expit(a + slope * x)
        curve = max(float((weight * mean * (1.0 - mean)).sum()), 1e-12 * total)
        a += float(np.clip((rate * total - (weight * mean).sum()) / curve, -2.0, 2.0))
    return a


def brier_score(at: Aspect) -> Valued:
    """Σ w (p − y)²; of three classes and more the sum over all of them, as in scikit-learn."""
    return _over(at.told.sum_of("brier"), at.told.sum_of("weight")), at.told.effective_rows


def scaled_brier(at: Aspect) -> Valued:
    """1 − Brier score over that of the event rate as everybody's prediction."""
    total = at.told.sum_of("weight")
    rates = [_over(at.told.sum_of("events", c), total) for c in at.told.design.classes]
    constant = sum((rate * (1.0 - rate) for rate in rates), np.zeros_like(total))
    return 1.0 - _over(_over(at.told.sum_of("brier"), total), constant), at.told.effective_rows


def log_loss(at: Aspect) -> Valued:
    """−Σ w log p(y), with p at least `LOG_FLOOR`."""
    return _over(at.told.sum_of("log_loss"), at.told.sum_of("weight")), at.told.effective_rows


def _at(at: Aspect) -> tuple[Array, ...]:
    """True and false positives, false and true negatives; NaN if a cell holds the threshold."""
    found = at.told.split(at.of_class, at.threshold)
    return found if found is not None else (np.full(at.told.exact.shape[:-1], np.nan),) * 4


def sensitivity(at: Aspect) -> Valued:
    """Share of the rows with the event whose score reaches the threshold."""
    tp, _, fn, _ = _at(at)
    return _over(tp, tp + fn), at.told.effective_events(at.of_class)[0]


def specificity(at: Aspect) -> Valued:
    """Share of the rows without the event whose score does not reach the threshold."""
    _, fp, _, tn = _at(at)
    return _over(tn, tn + fp), at.told.effective_events(at.of_class)[1]


def ppv(at: Aspect) -> Valued:
    """Event rate of the rows whose score reaches the threshold."""
    tp, fp, *_ = _at(at)
    share = _over(tp + fp, at.told.sum_of("weight"))
    return _over(tp, tp + fp), at.told.effective_rows * share


def npv(at: Aspect) -> Valued:
    """Share without the event of the rows whose score does not reach the threshold."""
    _, _, fn, tn = _at(at)
    share = _over(tn + fn, at.told.sum_of("weight"))
    return _over(tn, tn + fn), at.told.effective_rows * share


def net_benefit(at: Aspect) -> Valued:
    """True positives, less false positives at the threshold's odds, per row.

    Vickers and Elkin (2006), "Decision curve analysis", Medical Decision Making 26.
    """
    tp, fp, *_ = _at(at)
    odds = at.threshold / (1.0 - at.threshold)
    return _over(tp - odds * fp, at.told.sum_of("weight")), at.told.effective_rows


def rmse(at: Aspect) -> Valued:
    """Root of Σ w (y − p)², in the outcome's units."""
    mean = _over(at.told.sum_of("squared"), at.told.sum_of("weight"))
    return at.told.design.unit * np.sqrt(mean), at.told.effective_rows


def mae(at: Aspect) -> Valued:
    """Σ w |y − p|, in the outcome's units."""
    mean = _over(at.told.sum_of("absolute"), at.told.sum_of("weight"))
    return at.told.design.unit * mean, at.told.effective_rows


def r2(at: Aspect) -> Valued:
    """1 − Σ w (y − p)² over the weighted variance of y; NaN if outcomes are all alike."""
    total = at.told.sum_of("weight")
    spread = _spread(at.told.sum_of("y"), at.told.sum_of("y_squares"), total)
    return 1.0 - _over(at.told.sum_of("squared"), spread), at.told.effective_rows


def number_line(told: Told) -> tuple[Array, Array]:
    """Intercept and slope of the regression of outcomes on predictions, in agreed units."""
    total = told.sum_of("weight")
    y, p = (_over(told.sum_of(name), total) for name in "yp")
    spread = _spread(told.sum_of("p"), told.sum_of("p_squares"), total)
    slope = _over(told.sum_of("products") - total * y * p, spread)
    return y - slope * p, slope


def _spread(total: Array, squares: Array, weight: Array) -> Array:
    """Σ w (v − mean)², 0 where it is but rounding.

    Parameters
    ----------
    total, squares, weight : array
        Σwv, Σwv², Σw.
    """
    found = squares - _over(total**2, weight)
    return np.where(found > 1e-9 * squares, found, 0.0)


def number_slope(at: Aspect) -> Valued:
    """Slope of the regression of outcomes on predictions; NaN if predictions are all alike."""
    return number_line(at.told)[1], at.told.effective_rows


def mean_residual(at: Aspect) -> Valued:
    """Σ w (y − p), in the outcome's units: calibration in the large."""
    gap = _over(at.told.sum_of("y") - at.told.sum_of("p"), at.told.sum_of("weight"))
    return at.told.design.unit * gap, at.told.effective_rows

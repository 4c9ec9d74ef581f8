"""Formulas of measures: discrimination, calibration, loss and use, from what a site tells.

Every formula takes what a site told of a subgroup; then, if it is of one, a class and a declared
threshold. Arrays may have leading axes, so that a jackknife is one call. It gives a value, NaN
where there is none, and the effective rows that the value rests on.
"""

from __future__ import annotations

import numpy as np

from fedcsa.core.arrays import Array, expit, logit
from fedcsa.core.scores import FAR_END, Told, over

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


def auroc(told: Told, of_class: int) -> Valued:
    """Probability that a row with the event has the higher score; ties count half.

    Parameters
    ----------
    told : Told
    of_class : int
    """
    w, events, _ = told.table_of(of_class)
    others = np.maximum(w - events, 0.0)
    below = np.cumsum(others, axis=-1) - 0.5 * others
    pairs = events.sum(axis=-1) * others.sum(axis=-1)
    rows = np.minimum(*told.effective_events(of_class))
    return over((events * below).sum(axis=-1), pairs), rows


def event_rate(told: Told, of_class: int) -> Valued:
    """Weighted share of rows with the event.

    Parameters
    ----------
    told : Told
    of_class : int
    """
    rate = over(told.sums[f"events_{of_class}"], told.sums["weight"])
    return rate, told.effective_rows


def observed_expected(told: Told, of_class: int) -> Valued:
    """Share of rows with the event over its mean predicted probability.

    The effective rows are expected events.

    Parameters
    ----------
    told : Told
    of_class : int
    """
    events, expected = (told.sums[f"{name}_{of_class}"] for name in ("events", "expected"))
    share = over(expected, told.sums["weight"])
    return over(events, expected), told.effective_rows * share


def calibration_slope(told: Told, of_class: int) -> Valued:
    """Slope of a weighted logistic regression of the event on the log-odds of the score.

    The score of a cell is its mean. NaN if scores are all alike, or separate the outcomes.

    Parameters
    ----------
    told : Told
    of_class : int
    """
    return calibration_of(told, of_class)[1], np.minimum(*told.effective_events(of_class))


def calibration_of(told: Told, of_class: int) -> tuple[Array, Array]:
    """Intercept and slope of that regression.

    Parameters
    ----------
    told : Told
    of_class : int
    """
    w, events, predicted = told.table_of(of_class)
    return calibration_line(w, events, cell_log_odds(w, predicted))


def cell_log_odds(weight: Array, predicted: Array) -> Array:
    """Log-odds of the mean score of every cell, at most `FAR_END` in size; 0 of an empty cell.

    Parameters
    ----------
    weight, predicted : array of shape (…, cells)
        Σw and Σwp.
    """
    ends = expit(np.array([-FAR_END, FAR_END]))
    found: Array = logit(np.clip(over(predicted, weight, 0.5), *ends))
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


def brier_score(told: Told) -> Valued:
    """Σ w (p − y)²; of three classes and more the sum over all of them, as in scikit-learn."""
    return over(told.sums["brier"], told.sums["weight"]), told.effective_rows


def scaled_brier(told: Told) -> Valued:
    """1 − Brier score over that of the event rate as everybody's prediction."""
    total = told.sums["weight"]
    rates = [over(told.sums[f"events_{c}"], total) for c in told.design.classes]
    constant = sum((rate * (1.0 - rate) for rate in rates), np.zeros_like(total))
    return 1.0 - over(over(told.sums["brier"], total), constant), told.effective_rows


def log_loss(told: Told) -> Valued:
    """−Σ w log p(y), with p at least `LOG_FLOOR`."""
    return over(told.sums["log_loss"], told.sums["weight"]), told.effective_rows


def rate_at(kind: str, told: Told, of_class: int, threshold: float) -> Valued:
    """Share of rows that a threshold tells right, among those with some outcome or score.

    Parameters
    ----------
    kind : {"sensitivity", "specificity", "ppv", "npv"}
        Among rows with the event, without it, whose score reaches the threshold, or does not.
    told : Told
    of_class : int
    threshold : float
    """
    tp, fp, fn, tn = told.split(of_class, threshold)
    right, wrong = {
        "sensitivity": (tp, fn), "specificity": (tn, fp), "ppv": (tp, fp), "npv": (tn, fn),
    }[kind]  # fmt: skip
    if kind in ("ppv", "npv"):
        rows = told.effective_rows * over(right + wrong, told.sums["weight"])
    else:
        rows = told.effective_events(of_class)[kind == "specificity"]
    return over(right, right + wrong), rows


def net_benefit(told: Told, of_class: int, threshold: float) -> Valued:
    """True positives, less false positives at the threshold's odds, per row.

    Vickers and Elkin (2006), "Decision curve analysis", Medical Decision Making 26.

    Parameters
    ----------
    told : Told
    of_class : int
    threshold : float
    """
    tp, fp, *_ = told.split(of_class, threshold)
    odds = threshold / (1.0 - threshold)
    return over(tp - odds * fp, told.sums["weight"]), told.effective_rows


def rmse(told: Told) -> Valued:
    """Root of Σ w (y − p)², in the outcome's units."""
    mean = over(told.sums["squared"], told.sums["weight"])
    return told.design.unit * np.sqrt(mean), told.effective_rows


def mae(told: Told) -> Valued:
    """Σ w |y − p|, in the outcome's units."""
    mean = over(told.sums["absolute"], told.sums["weight"])
    return told.design.unit * mean, told.effective_rows


def r2(told: Told) -> Valued:
    """1 − Σ w (y − p)² over the weighted variance of y; NaN if outcomes are all alike."""
    squares = told.sums["y_squares"]
    spread = squares - over(told.sums["y"] ** 2, told.sums["weight"])
    spread = np.where(spread > 1e-9 * squares, spread, 0.0)  # less is rounding
    return 1.0 - over(told.sums["squared"], spread), told.effective_rows


def number_slope(told: Told) -> Valued:
    """Slope of the regression of outcomes on predictions; NaN if predictions are all alike."""
    total, squares = told.sums["weight"], told.sums["p_squares"]
    y, p = over(told.sums["y"], total), over(told.sums["p"], total)
    spread = squares - over(told.sums["p"] ** 2, total)
    spread = np.where(spread > 1e-9 * squares, spread, 0.0)  # less is rounding
    return over(told.sums["products"] - total * y * p, spread), told.effective_rows


def mean_residual(told: Told) -> Valued:
    """Σ w (y − p), in the outcome's units: calibration in the large."""
    gap = over(told.sums["y"] - told.sums["p"], told.sums["weight"])
    return told.design.unit * gap, told.effective_rows

"""What the validation study measures of one study: every promised measure beside what is true.

What is true is computed here with scikit-learn from rows and predictions alone, so that the package
is not judged by its own formulas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from lib.common import Array
from scipy.special import expit, logit
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import (
    brier_score_loss,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

#: A measure, and the threshold at which it is taken.
Key = tuple[str, float | None]
#: One candidate: what is asked is how well a model is judged, not how well it was chosen.
LOGISTIC: dict[str, Any] = {
    "model": LogisticRegression(max_iter=1_000),
    "candidates": {"C": [1.0], "ratio_power": [0.5]},
    "loss": "brier",
}
#: Groups of the jackknife by which the sampling error of what came true is judged.
GROUPS = 20
#: A probability of exactly 0 or 1 has no logit, and a ratio of 0 no logarithm.
SMALLEST_PROBABILITY = 1e-9

# What is true -----------------------------------------------------------------------------------


def realised(y: Array, prediction: Array, thresholds: Sequence[float] | None) -> dict[Key, float]:
    """Every measure on rows with outcomes; those that cannot be taken are absent.

    Parameters
    ----------
    y : array of shape (rows,)
        Numbers, or events as 0 and 1.
    prediction : array of shape (rows,)
        Numbers, or probabilities of the event.
    thresholds : sequence of float or None
        None for numbers.
    """
    if thresholds is None:
        return _of_numbers(y, prediction)
    if not 0.0 < y.mean() < 1.0:
        return {}
    found = _of_events(y, prediction)
    for threshold in thresholds:
        at = _at_threshold(y, prediction >= threshold, threshold)
        found |= {(name, threshold): value for name, value in at.items()}
    return {key: float(value) for key, value in found.items() if np.isfinite(value)}


def _of_numbers(y: Array, prediction: Array) -> dict[Key, float]:
    line = LinearRegression().fit(prediction[:, None], y)
    return {
        ("rmse", None): float(root_mean_squared_error(y, prediction)),
        ("mae", None): float(mean_absolute_error(y, prediction)),
        ("r2", None): float(r2_score(y, prediction)),
        ("calibration_slope", None): float(line.coef_[0]),
        ("calibration_intercept", None): float(np.mean(y - prediction)),
    }


def _of_events(y: Array, p: Array) -> dict[Key, float]:
    rate, brier = y.mean(), brier_score_loss(y, p)
    odds = logit(np.clip(p, SMALLEST_PROBABILITY, 1.0 - SMALLEST_PROBABILITY))
    slope = LogisticRegression(C=np.inf).fit(odds[:, None], y).coef_[0, 0]
    return {
        ("auroc", None): roc_auc_score(y, p),
        ("event_rate", None): rate,
        ("observed_expected", None): rate / p.mean(),
        ("calibration_slope", None): slope,
        ("brier", None): brier,
        ("scaled_brier", None): 1.0 - brier / (rate * (1.0 - rate)),
        ("log_loss", None): log_loss(y, p),
    }


def _at_threshold(y: Array, called: Array, threshold: float) -> dict[str, float]:
    """Sensitivity, specificity, predictive values and net benefit of those `called` at risk."""
    tp, fp = np.mean(called * y), np.mean(called * (1.0 - y))
    fn, tn = y.mean() - tp, 1.0 - y.mean() - fp
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "sensitivity": tp / (tp + fn),
            "specificity": tn / (tn + fp),
            "ppv": tp / (tp + fp),
            "npv": tn / (tn + fn),
            "net_benefit": tp - fp * threshold / (1.0 - threshold),
        }


# Scales without walls ---------------------------------------------------------------------------


def stretched(name: str, value: float) -> float:
    """A measure on a scale without walls, where errors and sampling errors are compared."""
    if name in LOGS:
        return float(np.log(max(value, SMALLEST_PROBABILITY)))
    if name in LOGITS:
        return float(logit(np.clip(value, SMALLEST_PROBABILITY, 1.0 - SMALLEST_PROBABILITY)))
    return float(np.log(max(1.0 - value, SMALLEST_PROBABILITY))) if name in RESTS else value


def squeezed(name: str, value: float) -> float:
    """The way back."""
    if name in LOGS:
        return float(np.exp(value))
    if name in LOGITS:
        return float(expit(value))
    return float(1.0 - np.exp(value)) if name in RESTS else value


LOGS = ("observed_expected", "brier", "log_loss", "rmse", "mae")
LOGITS = ("auroc", "event_rate", "sensitivity", "specificity", "ppv", "npv")
#: log(1 − value), for a value of at most 1.
RESTS = ("scaled_brier", "r2")


def sampling_errors(
    y: Array, prediction: Array, thresholds: Sequence[float] | None, seed: int
) -> dict[Key, float]:
    """Standard errors of `realised` on scales without walls, by a jackknife over groups of rows.

    Parameters
    ----------
    y, prediction, thresholds
        As for `realised`.
    seed : int
        Deals rows to groups.
    """
    group = np.random.default_rng(seed).permutation(len(y)) % GROUPS
    without = [realised(y[group != g], prediction[group != g], thresholds) for g in range(GROUPS)]
    found = {}
    for key in without[0]:
        told = [stretched(key[0], each[key]) for each in without if key in each]
        if len(told) == GROUPS:
            found[key] = float(np.sqrt((GROUPS - 1.0) * np.var(told)))
    return found


# One study --------------------------------------------------------------------------------------


def unweighted(
    fitted: Any,
    sources: Mapping[str, tuple[Array, Array]],
    thresholds: Sequence[float] | None,
) -> dict[Key, float]:
    """Every measure as the sources' rows show it without weights: what one would do without us.

    Each source judges the others' mixture, and counts by its rows.

    Parameters
    ----------
    fitted : FedCSA
    sources : mapping of str to (X, y)
    thresholds : sequence of float or None
    """
    adaptation, total = fitted.adaptation_, sum(len(y) for _, y in sources.values())
    sums: dict[Key, list[tuple[float, float]]] = {}
    for name, (X, y) in sources.items():
        others = {n: a for n, a in adaptation.source_weights.items() if n != name and a > 0.0}
        mixture = replace(
            adaptation,
            models={n: adaptation.models[n] for n in others},
            source_weights={n: a / sum(others.values()) for n, a in others.items()},
        )
        output = mixture.output(X)
        told = realised(y, output[:, 1] if thresholds is not None else output, thresholds)
        for key, value in told.items():
            sums.setdefault(key, []).append((len(y) / total, stretched(key[0], value)))
    means = {
        key: sum(a * v for a, v in rows) / sum(a for a, _ in rows) for key, rows in sums.items()
    }
    return {key: squeezed(key[0], value) for key, value in means.items()}


def measure_lines(
    fitted: Any, true: Mapping[Key, float], plain: Mapping[Key, float]
) -> list[dict[str, Any]]:
    """One line a promised measure of everybody: the promise, what is true, the unweighted estimate.

    Parameters
    ----------
    fitted : FedCSA
    true : mapping of (name, threshold) to float
    plain : mapping of (name, threshold) to float
        Without weights.
    """
    lines = []
    for promise in fitted.adaptation_.measures:
        key = promise.name, promise.threshold
        if promise.subgroup or promise.of_class is not None or key not in true:
            continue
        lines.append(
            {
                "measure": promise.name,
                "threshold": promise.threshold,
                "why_not": promise.why_not,
                "estimate": promise.estimate,
                "lower": promise.lower,
                "upper": promise.upper,
                "between": promise.between_sites,
                "true": true[key],
                "unweighted": plain.get(key),
            }
        )
    return lines


def patient_lines(fitted: Any, X: Array, y: Array, level: float) -> list[dict[str, Any]]:
    """Whether intervals, or sets of classes, hold the outcome: all rows, and quarters by distance.

    Nothing where no source reaches the target.

    Parameters
    ----------
    fitted : FedCSA
    X : array of shape (rows, features)
        Rows of the target's population.
    y : array of shape (rows,)
    level : float
    """
    if fitted.adaptation_.promise is None:  # nobody examined, so nothing is said of patients
        return []
    if hasattr(fitted, "classes_"):
        inside = fitted.predict_set(X, level)
        holds = inside[np.arange(len(y)), np.searchsorted(fitted.classes_, y)]
        width = inside.sum(axis=1).astype(np.float64)
    else:
        lower, upper = fitted.predict_interval(X, level).T
        holds, width = (lower <= y) & (y <= upper), (upper - lower) / 2.0
    table = fitted.adaptation_.table
    far = np.mean(((X - table.mean) / table.sd) ** 2, axis=1)
    quarter = np.searchsorted(np.quantile(far, (0.25, 0.5, 0.75)), far)
    return [
        {
            "part_of_rows": name,
            "rows": int(which.sum()),
            "covered": float(holds[which].mean()),
            "half_width": float(width[which].mean()),
        }
        for name, which in (
            ("all", np.ones(len(y), dtype=bool)),
            *((f"quarter {k + 1}", quarter == k) for k in range(4)),
        )
    ]


def exploded(runs: Sequence[Mapping[str, Any]], inner: str) -> list[dict[str, Any]]:
    """One line for every entry of a list that runs hold; a run without one gives one line.

    Parameters
    ----------
    runs : sequence of mappings
    inner : {"measures", "patients"}
        The list.
    """
    lists = ("measures", "patients")
    return [
        {**{key: value for key, value in run.items() if key not in lists}, **each}
        for run in runs
        for each in run.get(inner) or [{}]
    ]

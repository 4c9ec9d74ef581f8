"""The paper's simulated cases: what every method answers, and how far off it is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from common import PAPER_METHODS, Array
from families import Drawn
from paper_engine import Ridge, conclude, own_ridge, prepare

import fedcsa

METHODS = (*PAPER_METHODS, "reference", "guarded")
#: Four of Table 1's rows, from the smallest to the largest.
SOME_SIZES = ((20, 30, 20), (30, 60, 50), (40, 70, 60), (50, 100, 90))


def answers(
    sources: Mapping[str, tuple[Array, Array]],
    X_target: Array,
    X: Array,
    seed: int,
    penalties: Array,
) -> tuple[dict[str, Array], str]:
    """Predictions for X of every method that may be used, and the default's verdict.

    No outcome of the target comes in.
    """
    mixtures = conclude(prepare(sources, X_target, seed), Ridge(penalties))
    found = {method: mixture.predict(X) for method, mixture in mixtures.items()}
    guarded = default(sources, X_target, seed, penalties)
    return {**found, "guarded": guarded.predict(X)}, guarded.status_


#: What the package calls a penalty beside a mean or a sum of squared errors.
PENALTY_SCALES = {"mean": "mean", "sum": "sklearn"}


def default(
    sources: Mapping[str, tuple[Array, Array]],
    X_target: Array,
    seed: int,
    penalties: Array,
    penalty_scale: str = "mean",
) -> fedcsa.FedCSA:
    """The default method with the paper's penalties; it predicts even where it would refuse."""
    return fedcsa.FedCSA(
        {"name": "ridge", "penalty_scale": PENALTY_SCALES[penalty_scale]},
        candidates=penalties.tolist(),
        scale=False,
        random_state=seed,
        on_no_overlap="predict",
    ).fit(sources, X_target)


def errors(drawn: Drawn, seed: int, penalties: Array) -> tuple[dict[str, float], str]:
    """Mean absolute error of every method, Reference included, on fresh rows of the target."""
    X, y = drawn.X_truth, drawn.y_truth
    found, status = answers(drawn.sources, drawn.X_target, X, seed, penalties)
    b, b0 = own_ridge(drawn.X_target, drawn.y_target, penalties)
    found["reference"] = X @ b + b0
    return {method: float(np.abs(found[method] - y).mean()) for method in METHODS}, status

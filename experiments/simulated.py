"""The paper's simulated cases: what every method answers, and how far off it is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from common import PAPER_METHODS, Array
from families import Drawn
from paper_engine import Ridge, conclude, own_ridge, prepare

import fedcsa
from fedcsa.models.registry import POWERS

Sources = Mapping[str, tuple[Array, Array]]
PRINTED_METHODS = (*PAPER_METHODS, "reference")
METHODS = (*PRINTED_METHODS, "default")
#: Four of Table 1's rows, from the smallest to the largest.
SOME_SIZES = ((20, 30, 20), (30, 60, 50), (40, 70, 60), (50, 100, 90))


def answers(
    sources: Sources, X_target: Array, X: Array, seed: int, penalties: Array
) -> dict[str, Array]:
    """Predictions for X of the paper's three methods; no outcome of the target comes in.

    Parameters
    ----------
    sources : mapping of str to (X, y)
    X_target, X : array of shape (rows, features)
        The target's rows, and those to predict.
    seed : int
    penalties : array
    """
    mixtures = conclude(prepare(sources, X_target, seed), Ridge(penalties))
    return {method: mixture.predict(X) for method, mixture in mixtures.items()}


def default(sources: Sources, X_target: Array, seed: int, penalties: Array) -> fedcsa.FedCSA:
    """The default method with the paper's penalties; it predicts even where it would refuse.

    Parameters
    ----------
    sources : mapping of str to (X, y)
    X_target : array of shape (rows, features)
    seed : int
    penalties : array
        Beside the mean squared error; each with training weights r^0, r^½ and r.
    """
    return fedcsa.FedCSA(
        candidates={"penalty": penalties.tolist(), "ratio_power": list(POWERS)},
        scale=False,
        random_state=seed,
        on_no_overlap="predict",
    ).fit(sources, X_target)


def default_answer(
    sources: Sources, X_target: Array, X: Array, seed: int, penalties: Array
) -> tuple[Array, bool]:
    """The default's prediction for X, and whether it would refuse.

    Parameters
    ----------
    sources, X_target, X, seed, penalties
        As for `answers`.
    """
    fitted = default(sources, X_target, seed, penalties)
    return fitted.predict(X), fitted.adaptation_.refused


def errors(drawn: Drawn, seed: int, penalties: Array) -> dict[str, float]:
    """Mean absolute error of the paper's four methods on fresh rows of the target.

    Parameters
    ----------
    drawn : Drawn
    seed : int
    penalties : array
    """
    X, y = drawn.X_truth, drawn.y_truth
    found = answers(drawn.sources, drawn.X_target, X, seed, penalties)
    b, b0 = own_ridge(drawn.X_target, drawn.y_target, penalties)
    found["reference"] = X @ b + b0
    return {method: float(np.abs(found[method] - y).mean()) for method in PRINTED_METHODS}

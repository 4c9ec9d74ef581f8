"""The paper's simulated cases: what every method answers, and how far off it is."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from lib.common import PAPER_METHODS, Array
from lib.families import Drawn
from lib.paper_arrays import Ridge, conclude, own_ridge, prepare

import fedcsa
from fedcsa.models.registry import POWERS

Sources = Mapping[str, tuple[Array, Array]]
PRINTED_METHODS = (*PAPER_METHODS, "reference")
METHODS = (*PRINTED_METHODS, "default")
#: Four of Table 1's rows, from the smallest to the largest.
SOME_SIZES = ((20, 30, 20), (30, 60, 50), (40, 70, 60), (50, 100, 90))
#: Mean absolute value of a standard normal error: what even the truth does not undercut.
FLOOR = float(np.sqrt(2.0 / np.pi))
Sizes = tuple[int, int, int]


def printed(table: str = "table1") -> list[dict[str, Any]]:
    """The rows of one of the paper's tables."""
    text = Path(__file__).with_name("paper_values.toml").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = tomllib.loads(text)[table]["rows"]
    return rows


def printed_sizes() -> list[Sizes]:
    """(n_target, n_1, n_2) of every row of the paper's Table 1."""
    return [(row["n_target"], row["n_1"], row["n_2"]) for row in printed()]


def cut(n_rows: int, seed: int, split: int, share: float) -> tuple[Array, Array]:
    """The target's rows for training and for the test."""
    order = np.random.default_rng([seed, split, 1]).permutation(n_rows)
    train, test = np.split(order, [round(share * n_rows)])
    return train, test


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

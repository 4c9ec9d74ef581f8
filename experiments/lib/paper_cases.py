"""The paper's simulated cases: what every method answers, and how far off it is."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from lib.common import PAPER_METHODS, Array
from lib.paper_readings import mean_absolute_error

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


def default_error(
    sources: Sources, X_target: Array, seed: int, penalties: Array
) -> tuple[float, bool]:
    """The default's expected absolute error on fresh rows, and whether it would refuse.

    Parameters
    ----------
    sources, X_target, seed, penalties
        As for `default`.
    """
    fitted = default(sources, X_target, seed, penalties)
    d = X_target.shape[1]
    told = fitted.predict(np.vstack([np.zeros(d), np.eye(d)]))  # a line: d + 1 points tell it all
    error = mean_absolute_error(told[1:] - told[0], float(told[0]))
    return error, fitted.adaptation_.refused

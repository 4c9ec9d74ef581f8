"""A built-in consortium: five hospitals with outcomes and a new one without.

The outcome is days in hospital. Its true dependence on age is bent, and the linear model of the
demo is wrong on purpose, so that the best line depends on who the patients are: that is when
covariate shift matters. One hospital treats children and lies far from the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcsa.core.arrays import Array

FEATURES = ("age", "bmi", "blood_pressure", "glucose")
RESIDUAL_SD = 1.0
_SD = np.array([9.0, 4.0, 14.0, 1.1])
#: Mean age of the patients of every hospital, how many there are, and how much they vary.
_HOSPITALS = {
    "Abbey": (52.0, 420, 1.2),
    "Birch": (58.0, 260, 1.1),
    "Castle": (63.0, 340, 1.0),
    "Dunes": (69.0, 180, 1.0),
    "Elm (children)": (9.0, 300, 0.45),
}
_TARGET = (66.0, 150, 0.9)


@dataclass(frozen=True)
class Consortium:
    """Tables of all hospitals, and the truth that only a simulation knows.

    Attributes
    ----------
    sources : dict of str to (X, y)
    target : array of shape (rows, features)
    judge_rows, judge_outcomes : array
        Many more patients of the new hospital, with outcomes: for judging only.
    """

    sources: dict[str, tuple[Array, Array]]
    target: Array
    judge_rows: Array
    judge_outcomes: Array


def consortium(seed: int = 0, n_judged: int = 200_000) -> Consortium:
    """Draw the consortium.

    >>> drawn = consortium(n_judged=10)
    >>> list(drawn.sources)
    ['Abbey', 'Birch', 'Castle', 'Dunes', 'Elm (children)']
    >>> drawn.target.shape
    (150, 4)
    """
    streams = iter(np.random.SeedSequence(seed).spawn(len(_HOSPITALS) + 2))
    sources = {}
    for name, (age, rows, spread) in _HOSPITALS.items():
        rng = np.random.default_rng(next(streams))
        X = _patients(age, rows, spread, rng)
        sources[name] = (X, _days(X, rng))
    age, rows, spread = _TARGET
    target = _patients(age, rows, spread, np.random.default_rng(next(streams)))
    rng = np.random.default_rng(next(streams))
    judge_rows = _patients(age, n_judged, spread, rng)
    return Consortium(sources, target, judge_rows, _days(judge_rows, rng))


def _patients(age: float, rows: int, spread: float, rng: np.random.Generator) -> Array:
    """Older patients are somewhat heavier, with higher pressure and glucose."""
    years = age + spread * _SD[0] * rng.standard_normal(rows)
    lift = (years - 60.0) / 10.0
    means = np.column_stack(
        [years, 26.0 + 0.8 * lift, 132.0 + 4.0 * lift, 6.0 + 0.25 * lift]
    )  # fmt: skip
    deviations = rng.standard_normal((rows, 3)) * _SD[1:]
    return np.column_stack([years, means[:, 1:] + deviations])


def _days(X: Array, rng: np.random.Generator) -> Array:
    """Days in hospital: flat until sixty, then rising ever faster; the same rule everywhere."""
    old = np.maximum(X[:, 0] - 60.0, 0.0) / 10.0
    smooth = 0.08 * (X[:, 1] - 26.0) + 0.3 * (X[:, 3] - 6.0)
    days: Array = 4.0 + 1.6 * old**2 + smooth + RESIDUAL_SD * rng.standard_normal(len(X))
    return days

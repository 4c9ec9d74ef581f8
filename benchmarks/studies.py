"""The simulated studies that several benchmarks run, by the public roles alone."""

from __future__ import annotations

import numpy as np

from fedcsa import Plan, Policy, Source, Target

POWERS = (0.0, 0.5, 1.0)


def rows_of(n_rows: int, features: int, seed: int, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(shift, 1.0, (n_rows, features))


def outcomes(X: np.ndarray, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(0.0, 0.5, len(X))
    return np.asarray(X.mean(axis=1) + 0.2 * X[:, 0] ** 2 + noise)


def plan(features: int, penalties: int, powers: tuple[float, ...] = (0.0,)) -> Plan:
    """Ridge regression, `penalties` times the training weights r^γ of `powers`."""
    candidates = tuple(
        {"penalty": float(theta), "ratio_power": power}
        for power in powers
        for theta in np.linspace(0.0, 1.0, penalties)
    )
    names = tuple(f"x{i}" for i in range(features))
    return Plan(names, {"name": "ridge"}, candidates, seed=1, on_no_overlap="predict")


def target(
    features: int, penalties: int, powers: tuple[float, ...] = (0.0,), rows: int = 2_000
) -> Target:
    X = rows_of(rows, features, seed=0, shift=0.2)
    return Target(X, plan(features, penalties, powers), policy=Policy.open())


def source(name: str, X: np.ndarray, y: np.ndarray) -> Source:
    return Source(name, X, y, policy=Policy.open())

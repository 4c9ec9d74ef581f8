"""Scikit-learn's models in a study against the same fits by GridSearchCV; two cores against one.

Both sides fit every candidate with every power of the training weights without each fold in turn,
and judge it on that fold. Ours is the whole default study: weights, models, mixture, examination
and promise are included. Work is seconds of this process and of those that it started; libraries
have one thread a process on both sides, and are loaded before. What two cores of this machine can
give is told by processes that share nothing: one for every source's fits by GridSearchCV, all at
once, against the same on one core.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from threadpoolctl import threadpool_limits

from benchmarks.harness import options, write_provenance, write_table
from benchmarks.studies import POWERS, rows_of
from fedcsa import FedCSA
from fedcsa.core.tilt import fit_tilt

FOLDS = 5
#: Twenty settings of every model.
MODELS: dict[str, tuple[Any, dict[str, list[Any]]]] = {
    "logistic regression": (LogisticRegression(), {"C": np.geomspace(1e-3, 1e2, 20).tolist()}),
    "random forest, 10 trees": (
        RandomForestClassifier(10, random_state=0),
        {"max_depth": [2, 4, 6, 8], "min_samples_leaf": [1, 2, 5, 10, 20]},
    ),
    "histogram boosting, 5 rounds": (
        HistGradientBoostingClassifier(max_iter=5, random_state=0),
        {"max_leaf_nodes": [3, 7, 15, 31], "learning_rate": [0.03, 0.1, 0.2, 0.3, 0.5]},
    ),
}


@dataclass(frozen=True)
class Settings:
    """Sizes; `values` of every parameter at most."""

    models: tuple[str, ...] = tuple(MODELS)
    sources: int = 2
    rows: int = 300
    features: int = 20
    repeats: int = 1
    values: int = 20


QUICK = Settings(models=("logistic regression",), sources=2, rows=60, features=3, values=2)


def work_so_far() -> float:
    """Seconds of work of this process and of its children that have ended."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def taken(function: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and of work."""
    wall, cpu = time.perf_counter(), work_so_far()
    function()
    return time.perf_counter() - wall, work_so_far() - cpu


@contextmanager
def _one_core() -> Iterator[None]:
    """While it lasts, this process and those that it starts may use one core."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _site(settings: Settings, seed: int) -> tuple[np.ndarray, np.ndarray]:
    X = rows_of(settings.rows, settings.features, seed)
    noise = np.random.default_rng(seed).logistic(size=len(X))
    return X, (X[:, 0] + 0.5 * X[:, 1] + noise > 0.0).astype(int)


def _by_grid_search(
    model: Any, grid: dict[str, list[Any]], sites: Sequence[tuple[Any, Any]], X: np.ndarray
) -> None:
    """The same fits: rows in the target's units, weights that match its means and sds."""
    for rows, y in sites:
        z = (rows - X.mean(axis=0)) / X.std(axis=0)
        ratios = len(z) * fit_tilt([z], np.zeros(z.shape[1], dtype=bool)).weights(z)
        for power in POWERS:
            weights = {"sample_weight": np.maximum(ratios, 1e-3) ** power} if power else {}
            cv = KFold(FOLDS, shuffle=True, random_state=0)
            search = GridSearchCV(model, grid, cv=cv, scoring="neg_brier_score", refit=False)
            search.fit(z, y, **weights)


def _side_by_side(
    model: Any, grid: dict[str, list[Any]], sites: Sequence[tuple[Any, Any]], X: np.ndarray
) -> None:
    """The same, a process for every source."""
    fork = multiprocessing.get_context("fork")
    work = [fork.Process(target=_by_grid_search, args=(model, grid, [one], X)) for one in sites]
    for process in work:
        process.start()
    for process in work:
        process.join()


def measured(settings: Settings, name: str, repeats: int) -> dict[str, Any]:
    model, whole_grid = MODELS[name]
    grid = {parameter: values[: settings.values] for parameter, values in whole_grid.items()}
    sites = [_site(settings, 1 + index) for index in range(settings.sources)]
    X = rows_of(settings.rows, settings.features, seed=0, shift=0.1)
    candidates = {**grid, "ratio_power": list(POWERS)}
    study = FedCSA(model, candidates=candidates, random_state=0)
    sources = {f"s{index}": site for index, site in enumerate(sites)}
    rounds = []
    for _ in range(repeats):
        whole, work = taken(lambda: study.fit(sources, X))
        apart, _ = taken(lambda: _side_by_side(model, grid, sites, X))
        with _one_core():
            alone, _ = taken(lambda: study.fit(sources, X))
            in_turn, peer = taken(lambda: _by_grid_search(model, grid, sites, X))
        rounds.append((work, peer, work / peer, alone, whole, whole / alone, apart / in_turn))
    work, peer, ratio, alone, whole, gain, least = map(
        statistics.median, zip(*rounds, strict=True)
    )  # fmt: skip
    n_candidates = len(study.adaptation_.plan.candidates)
    return {
        "model": name,
        "sources": settings.sources,
        "rows": settings.rows,
        "candidates": n_candidates,
        "fits": n_candidates * FOLDS * settings.sources,
        "repeats": repeats,
        "cpu_seconds": work,
        "peer_cpu_seconds": peer,
        "cpu_ratio": ratio,
        "one_core_seconds": alone,
        "all_cores_seconds": whole,
        "cores": len(os.sched_getaffinity(0)),
        "wall_ratio": gain,
        "peer_wall_ratio": least,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else Settings()
    with threadpool_limits(1):  # OpenMP too: its threads would wait for each other on one core
        lines = [measured(settings, n, given.repeats or settings.repeats) for n in settings.models]
    write_table(given.out, "fits", lines)
    write_provenance(given.out, "fits", asdict(settings), quick=given.quick)


if __name__ == "__main__":
    main()

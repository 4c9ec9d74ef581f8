"""Figure 2 of the paper: both sources move away from the target, c from 1 to 5.

Fresh data for every seed and c; mean absolute error on fresh rows of the target. (a) the mean of
every method with its 95 % interval, (b) mean FedIW over mean FedDA. Beside the paper's four stands
the default method, which refuses to answer where no source resembles the target; what it would
predict if one insisted is shown, and how often it refused.

Tables: ``figure2`` (one line a value of c), ``figure2_trend`` (slopes over c).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

import numpy as np
from lib.common import Array, options, run_all, write_provenance, write_table
from lib.families import case2
from lib.paired import difference, mean_interval, mean_ratio, ratio_slope, slope_over
from lib.paper_arrays import FIRST_SEED
from lib.paper_cases import METHODS, default_answer, errors


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    distances: tuple[float, ...] = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)
    first_seed: int = FIRST_SEED
    seeds: int = 100
    n_penalties: int = 51
    n_truth: int = 2_000

    @property
    def penalties(self) -> Array:
        """Θ = [0, 1]."""
        return np.linspace(0.0, 1.0, self.n_penalties)


FULL = Settings()
QUICK = Settings(distances=(1.0, 3.0, 5.0), first_seed=0, seeds=4, n_penalties=11, n_truth=500)


def run_one(task: tuple[float, int, Settings]) -> dict[str, Any]:
    """Mean absolute error of every method on one draw."""
    c, seed, settings = task
    drawn = case2(c).draw(seed, n_truth=settings.n_truth)
    found = errors(drawn, seed, settings.penalties)
    sites = drawn.sources, drawn.X_target, drawn.X_truth
    prediction, refused = default_answer(*sites, seed, settings.penalties)
    error = float(np.abs(prediction - drawn.y_truth).mean())
    return {**found, "default": error, "refused": refused}


def line(c: float, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All that the figures show at one c, and the paired differences."""
    mine = {method: np.array([run[method] for run in runs]) for method in METHODS}
    told: dict[str, Any] = {"c": c, "seeds": len(runs)}
    for method in METHODS:
        told |= mean_interval(mine[method]).columns(f"{method}_mean")
    told |= mean_ratio(mine["fediwe"], mine["feddae"]).columns("ratio")
    for rival in ("naive", "fediwe", "reference"):
        told |= difference(mine["feddae"], mine[rival]).columns(f"feddae_minus_{rival}")
        told |= difference(mine["default"], mine[rival]).columns(f"default_minus_{rival}")
    told["refused"] = np.mean([run["refused"] for run in runs])
    return told


def trends(by_c: Sequence[Sequence[dict[str, Any]]], at: Sequence[float]) -> list[dict[str, Any]]:
    """Slopes over c: above 0 the advantage of FedDA grows."""
    mine = {m: np.array([[run[m] for run in runs] for runs in by_c]).T for m in METHODS}
    slopes = {
        "naive - feddae": slope_over(mine["naive"] - mine["feddae"], at),
        "fediwe - feddae": slope_over(mine["fediwe"] - mine["feddae"], at),
        "fediwe / feddae": ratio_slope(mine["fediwe"], mine["feddae"], at),
    }
    return [{"advantage": name, **slope.columns("slope")} for name, slope in slopes.items()]


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else FULL
    seeds = range(settings.first_seed, settings.first_seed + settings.seeds)
    tasks = [(c, seed, settings) for c in settings.distances for seed in seeds]
    runs = run_all(run_one, tasks, given.workers, "figure 2")
    n = settings.seeds
    by_c = [runs[i * n : (i + 1) * n] for i in range(len(settings.distances))]
    lines = [line(c, own) for c, own in zip(settings.distances, by_c, strict=True)]
    write_table(given.out, "figure2", lines)
    write_table(given.out, "figure2_trend", trends(by_c, settings.distances))
    write_provenance(given.out, __file__, settings, quick=given.quick)


if __name__ == "__main__":
    main()

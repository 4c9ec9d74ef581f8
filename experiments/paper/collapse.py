"""Who gets the weight? How often the source that knows least about the target takes most of it.

FedDA weights a source by n/Div. Far from the target the ratio is near zero on every row, so are
the weighted losses, and so is Div: the far source takes nearly all the weight. Counted here for
rows of Table 1 (the source around 5) and values of c of Figure 2 (the source at c + 1), for every
bandwidth grid and clip; beside it what the default method does with the same data.
Naive and FedIW weight by rows and cannot collapse, whatever the ratio says.

Table: ``collapse`` (one line a setting and way of weighting).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

import numpy as np
from lib.common import Array, options, run_all, write_provenance, write_table
from lib.families import case1, case2
from lib.paper_arrays import FIRST_SEED, GRIDS, RatioReading, Ridge, conclude, prepare
from lib.paper_cases import SOME_SIZES, default

READINGS = {
    f"feddae, {grid} grid, clipped {clip}": RatioReading(grid=grid, clip=clip)
    for grid in GRIDS
    for clip in ("coefficients", "ratio")
}
AS_PRINTED = "feddae, median grid, clipped coefficients"


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    sizes: tuple[tuple[int, int, int], ...] = SOME_SIZES
    distances: tuple[float, ...] = (1.0, 3.0, 5.0)
    first_seed: int = FIRST_SEED
    seeds: int = 50
    n_penalties: int = 31
    n_truth: int = 1_000
    most: float = 0.5

    @property
    def names(self) -> dict[str, Any]:
        """What is drawn, by name."""
        sizes = {f"case 1 ({a}, {b}, {c})": case1(a, b, c) for a, b, c in self.sizes}
        return sizes | {f"case 2, c = {c:g}": case2(c) for c in self.distances}


FULL = Settings()
QUICK = Settings(
    sizes=((20, 30, 20),), distances=(3.0,), first_seed=0, seeds=3, n_penalties=7, n_truth=200
)


@dataclass(frozen=True)
class Weighted:
    """The far source's weight, the mixture's prediction, and whether the method refused."""

    far_weight: float
    prediction: Array
    silent: bool  # the ratio is zero on every judged row of the far source
    refused: bool = False


def answers(
    sources: Mapping[str, tuple[Array, Array]],
    X_target: Array,
    X: Array,
    seed: int,
    n_penalties: int,
) -> dict[str, Weighted]:
    """Weight of the far source under every way of weighting; no outcome of the target comes in."""
    penalties = np.linspace(0.0, 1.0, n_penalties)
    found = {}
    for name, reading in READINGS.items():
        prepared = prepare(sources, X_target, seed, reading)
        silent = not prepared[-1].ratios_validation.any()
        mixtures = conclude(prepared, Ridge(penalties))
        mixture = mixtures["feddae"]
        found[name] = Weighted(float(mixture.source_weights[-1]), mixture.predict(X), silent)
        if name == AS_PRINTED:
            rows = mixtures["naive"]
            found["naive"] = Weighted(float(rows.source_weights[-1]), rows.predict(X), False)
    ours = default(sources, X_target, seed, penalties)
    weight = ours.source_weights_[list(sources)[-1]]
    found["default"] = Weighted(weight, ours.predict(X), False, ours.adaptation_.refused)
    return found


def run_one(task: tuple[str, int, Settings]) -> dict[str, dict[str, float]]:
    """Weight of the far source and error, for every way of weighting."""
    name, seed, settings = task
    drawn = settings.names[name].draw(seed, n_truth=settings.n_truth)
    found = answers(drawn.sources, drawn.X_target, drawn.X_truth, seed, settings.n_penalties)
    return {
        kind: {
            "weight": each.far_weight,
            "error": float(np.abs(each.prediction - drawn.y_truth).mean()),
            "silent": float(each.silent),
            "refused": float(each.refused),
        }
        for kind, each in found.items()
    }


def line(name: str, kind: str, runs: Sequence[Mapping[str, float]], most: float) -> dict[str, Any]:
    """How often the far source dominates, and what that costs."""
    weight = np.array([run["weight"] for run in runs])
    error = np.array([run["error"] for run in runs])
    fallen = weight > most
    return {
        "setting": name,
        "weighting": kind,
        "seeds": len(runs),
        "far_weight": weight.mean(),
        "collapsed": fallen.mean(),
        "above_90": (weight > 0.9).mean(),
        "silent": np.mean([run["silent"] for run in runs]),
        "refused": np.mean([run["refused"] for run in runs]),
        "error": error.mean(),
        "error_collapsed": error[fallen].mean() if fallen.any() else None,
        "error_otherwise": error[~fallen].mean() if (~fallen).any() else None,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else FULL
    seeds = range(settings.first_seed, settings.first_seed + settings.seeds)
    tasks = [(name, seed, settings) for name in settings.names for seed in seeds]
    runs = run_all(run_one, tasks, given.workers, "collapse")
    lines = []
    for index, name in enumerate(settings.names):
        own = runs[index * settings.seeds : (index + 1) * settings.seeds]
        lines += [line(name, kind, [run[kind] for run in own], settings.most) for kind in own[0]]
    write_table(given.out, "collapse", lines)
    write_provenance(given.out, __file__, settings, quick=given.quick)


if __name__ == "__main__":
    main()

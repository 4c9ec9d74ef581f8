"""What any choice of a penalty could reach in Table 1, on the draws of ``guard_table1``.

The guarded method gives the near source all but a hundredth of the weight, so that what is left to
choose is its penalty. Here somebody who knows the target's outcomes, all of them, takes the best
penalty in [0, 1] for every draw, the model being fitted on all rows of the near source. No rule
without outcomes can be expected to do better. Beside it, the two References on the same draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from common import Array, options, run_all, write_provenance, write_table
from families import case1
from guard_table1 import FULL, QUICK, Settings, printed, reference
from paper_engine import own_ridge

from fedcsa.core.ridge import ridge_path

METHODS = ("best-penalty", "reference-tuned", "reference")


def run_one(task: tuple[tuple[int, int, int], int, Settings]) -> dict[str, float]:
    """Mean absolute errors on one draw."""
    sizes, seed, settings = task
    drawn = case1(*sizes).draw(seed, n_truth=settings.n_truth)
    penalties = np.linspace(0.0, 1.0, settings.n_penalties)
    X, y = drawn.X_truth, drawn.y_truth
    slopes, intercepts = ridge_path(*drawn.sources["s01"], np.maximum(penalties, 1e-9))
    b, b0 = own_ridge(drawn.X_target, drawn.y_target, penalties)

    def error(prediction: Array) -> float:
        return float(np.abs(prediction - y).mean())

    return {
        "best-penalty": float(np.abs(X @ slopes + intercepts - y[:, None]).mean(axis=0).min()),
        "reference-tuned": error(X @ b + b0),
        "reference": error(reference(drawn, penalties, seed, X)),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else FULL
    table = printed()[: settings.rows]
    sizes = [(row["n_target"], row["n_1"], row["n_2"]) for row in table]
    seeds = range(settings.first_seed, settings.first_seed + settings.seeds)
    tasks = [(size, seed, settings) for size in sizes for seed in seeds]
    runs = run_all(run_one, tasks, given.workers, "reach")
    lines: list[dict[str, Any]] = []
    for index, row in enumerate(table):
        mine = runs[index * settings.seeds : (index + 1) * settings.seeds]
        told: dict[str, Any] = {key: row[key] for key in ("n_target", "n_1", "n_2")}
        for method in METHODS:
            errors = np.array([run[method] for run in mine])
            told[f"{method}_mean"], told[f"{method}_sd"] = errors.mean(), errors.std(ddof=1)
        lines.append(told)
    write_table(given.out, "guard_reach", lines)
    write_provenance(given.out, "guard_reach", settings, quick=given.quick)


if __name__ == "__main__":
    main()

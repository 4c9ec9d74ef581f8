"""What any choice of a penalty could reach in Table 1, on the draws of ``guard_table1``.

The guarded method gives the near source all but a hundredth of the weight, so that what is left to
choose is its penalty. Here somebody who knows the target's outcomes, all of them, takes the best
penalty in [0, 1] for every draw, the model being fitted on all rows of the near source. No rule
without outcomes can be expected to do better. Beside it, the two References on the same draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from common import Array, options, write_provenance, write_table
from families import case1
from guard_table1 import FULL, QUICK, REFERENCES, Settings, reference
from paper_engine import own_ridge
from table1 import Sizes
from table1_rows import run_rows, show

from fedcsa.core.ridge import ridge_path

METHODS = ("best-penalty", *REFERENCES)


def run_one(task: tuple[str, Sizes, int, Settings]) -> dict[str, float]:
    """Mean absolute errors on one draw."""
    penalty_scale, sizes, seed, settings = task
    drawn = case1(*sizes).draw(seed, n_truth=settings.n_truth)
    ridge = settings.ridge(penalty_scale)
    X, y = drawn.X_truth, drawn.y_truth
    near_X, near_y = drawn.sources["s01"]
    slopes, intercepts = ridge_path(near_X, near_y, np.maximum(ridge.scaled(len(near_y)), 1e-9))
    b, b0 = own_ridge(drawn.X_target, drawn.y_target, ridge.scaled(len(drawn.y_target)))

    def error(prediction: Array) -> float:
        return float(np.abs(prediction - y).mean())

    return {
        "best-penalty": float(np.abs(X @ slopes + intercepts - y[:, None]).mean(axis=0).min()),
        "reference-tuned": error(X @ b + b0),
        "reference": error(reference(drawn, ridge, seed, X)),
    }


def line(head: Mapping[str, Any], runs: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Mean and spread of the three."""
    told = dict(head)
    for method in METHODS:
        errors = np.array([run[method] for run in runs])
        told[f"{method}_mean"], told[f"{method}_sd"] = errors.mean(), errors.std(ddof=1)
    return told


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else FULL
    rows = run_rows(run_one, settings, given.workers, "reach")
    lines = [line(*row) for row in rows]
    write_table(given.out, "guard_reach", lines)
    write_provenance(given.out, "guard_reach", settings, quick=given.quick)
    show(lines, METHODS, 3)


if __name__ == "__main__":
    main()

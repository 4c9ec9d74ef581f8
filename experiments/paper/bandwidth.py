"""How much weight Algorithm 1 gives to a source that is far off, by the bandwidth of its ratio.

FedDA weights a source by n/Div, and Div is a variance of ratios times losses. What the ratio says
far from the target follows from its bandwidth σ, for which the paper names no values. The preset's
own choice stands beside three others: one σ, the median distance; nine σ from 10⁻³ to 10 whatever
the data; no ratio of rows at all but the weights of the target's table. All runs go through
`fedcsa.FedCSA`.

Table: ``bandwidth`` (one line a setting and way of weighting).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

import numpy as np
from lib.common import Array, options, run_all, write_provenance, write_table
from lib.families import case1
from lib.paper_arrays import FIRST_SEED
from scipy.spatial.distance import cdist

import fedcsa
from fedcsa.data.synthetic import consortium
from fedcsa.option_rules import PRESETS, THETA

DEMO, CASE = "the demo", "Case 1 (30, 60, 50)"
PRESET = "preset paper"


class MedianRatio:
    """The preset's uLSIF with one bandwidth: the median distance between rows and centres."""

    def fit(self, X_source: Array, X_target: Array) -> Self:
        """Fit the ratio; λ is chosen as ever."""
        apart = cdist(np.vstack([X_source, X_target]), X_target)
        median = float(np.median(apart[apart > 0.0]))
        same = PRESETS["paper"]["ratio"]
        self.ratio_ = fedcsa.ULSIF(bandwidths=[median], random_state=0, **same)
        self.ratio_.fit(X_source, X_target)
        return self

    def predict(self, X: Array) -> Array:
        """The ratio of every row."""
        return self.ratio_.predict(X)


def readings() -> dict[str, dict[str, Any]]:
    """Options of `fedcsa.FedCSA` by the name of the reading."""
    rows = {"method": "feddae", "exchange": "rows", "scale": False}
    wide = {**PRESETS["paper"]["ratio"], "bandwidths": np.logspace(-3.0, 1.0, 9).tolist()}
    return {
        PRESET: {"preset": "paper"},
        "one σ, the median distance": {**rows, "ratio": MedianRatio()},
        "nine σ from 0.001 to 10": {**rows, "ratio": wide},
        "no σ: the table's weights": {"method": "feddae"},
    }


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    demo_seeds: int = 10
    case_seeds: int = 50
    first_seed: int = FIRST_SEED
    n_truth: int = 2_000


FULL = Settings()
QUICK = Settings(demo_seeds=1, case_seeds=2, first_seed=0, n_truth=200)


def draw(setting: str, seed: int, n_truth: int) -> tuple[Any, Array, str, Array, Array]:
    """Sources, the target's rows, the name of the far source, and rows with outcomes to judge."""
    if setting == DEMO:
        drawn = consortium(seed, n_truth)
        far = "Elm (children)"
        return drawn.sources, drawn.target, far, drawn.judge_rows, drawn.judge_outcomes
    case = case1(30, 60, 50).draw(seed, n_truth=n_truth)
    return case.sources, case.X_target, list(case.sources)[-1], case.X_truth, case.y_truth


def run_one(task: tuple[str, int, Settings]) -> dict[str, tuple[float, float]]:
    """Weight of the far source and root mean squared error of the mixture, by reading."""
    setting, seed, settings = task
    sources, X_target, far, X, y = draw(setting, seed, settings.n_truth)
    found = {}
    for name, own in readings().items():
        fitted = fedcsa.FedCSA(candidates=list(THETA), random_state=seed, **own)
        fitted.fit(sources, X_target)
        error = float(np.sqrt(np.mean((fitted.predict(X) - y) ** 2)))
        found[name] = (fitted.source_weights_[far], error)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else FULL
    tasks = [(DEMO, seed, settings) for seed in range(1, settings.demo_seeds + 1)]
    first = settings.first_seed
    tasks += [(CASE, seed, settings) for seed in range(first, first + settings.case_seeds)]
    found = run_all(run_one, tasks, given.workers, "bandwidth")
    lines = []
    for setting in (DEMO, CASE):
        runs = [run for task, run in zip(tasks, found, strict=True) if task[0] == setting]
        for name in readings():
            weight, error = np.array([run[name] for run in runs]).T
            lines.append(
                {
                    "setting": setting,
                    "ratio": name,
                    "seeds": len(runs),
                    "median_weight": float(np.median(weight)),
                    "largest_weight": float(weight.max()),
                    "above_half": float((weight > 0.5).mean()),
                    "rmse": float(error.mean()),
                }
            )
    write_table(given.out, "bandwidth", lines)
    write_provenance(given.out, __file__, settings, quick=given.quick)


if __name__ == "__main__":
    main()

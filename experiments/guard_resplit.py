"""Table 1 under the paper's own protocol: one data set, its target cut 7:3 again and again.

Seven tenths of the target are what a method may see (without outcomes, but for Reference), the
error is that on the other three. The printed means can only have come about so (see ``table1``).
A data set gives every method a mean and a standard deviation over its splits, as a row of the
paper's table does; their averages over many data sets are what a row can be expected to be.
"Reference" is a ridge regression on the seven tenths with their outcomes, its penalty by
leave-one-out; "target-mean" predicts their mean outcome.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import Array, options, run_all, write_provenance, write_table
from families import case1
from paired import difference
from simulated import METHODS, default
from table1 import Settings as Protocol
from table1 import Sizes, cut, one_split, printed

SHOWN = (*METHODS, "target-mean")


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    rows: int = 20
    first_seed: int = 40_000
    data_sets: int = 60
    splits: int = 15
    n_penalties: int = 51

    @property
    def protocol(self) -> Protocol:
        """How a target is cut, and which penalties there are."""
        return Protocol(n_penalties=self.n_penalties)


FULL = Settings()
QUICK = Settings(rows=2, first_seed=0, data_sets=3, splits=3, n_penalties=11)


def run_one(task: tuple[Sizes, int, Settings]) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation of every method's error over the splits of one data set."""
    sizes, seed, settings = task
    drawn = case1(*sizes).draw(seed, n_truth=1)
    errors: dict[str, list[float]] = {method: [] for method in SHOWN}
    for split in range(settings.splits):
        found = one_split(drawn, "kept", seed, split, settings.protocol)
        train, test = cut(len(drawn.X_target), seed, split, settings.protocol.target_share)
        fitted = default(drawn.sources, drawn.X_target[train], seed, settings.protocol.penalties)
        y_test = drawn.y_target[test]
        guarded = fitted.predict(drawn.X_target[test])
        found["guarded"] = float(np.abs(guarded - y_test).mean())
        found["target-mean"] = float(np.abs(drawn.y_target[train].mean() - y_test).mean())
        for method in SHOWN:
            errors[method].append(found[method])
    return {m: (float(np.mean(e)), float(np.std(e, ddof=1))) for m, e in errors.items()}


def line(
    paper: Mapping[str, Any], sets: Sequence[Mapping[str, tuple[float, float]]]
) -> dict[str, Any]:
    """Averages over the data sets, and by how much Reference differs from the default."""
    told: dict[str, Any] = {key: paper[key] for key in ("n_target", "n_1", "n_2")}
    told["data_sets"] = len(sets)
    means: dict[str, Array] = {m: np.array([each[m][0] for each in sets]) for m in SHOWN}
    spreads: dict[str, Array] = {m: np.array([each[m][1] for each in sets]) for m in SHOWN}
    for method in SHOWN:
        told[f"{method}_mean"] = means[method].mean()
        told[f"{method}_sd"] = spreads[method].mean()
    for what, found in (("mean", means), ("sd", spreads)):
        told |= difference(found["guarded"], found["reference"]).columns(f"{what}_difference")
    return told


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else FULL
    table = printed()[: settings.rows]
    sizes = [(row["n_target"], row["n_1"], row["n_2"]) for row in table]
    seeds = range(settings.first_seed, settings.first_seed + settings.data_sets)
    tasks = [(size, seed, settings) for size in sizes for seed in seeds]
    runs = run_all(run_one, tasks, given.workers, "table 1, re-split")
    grouped = np.array(runs, dtype=object).reshape(len(table), settings.data_sets)
    lines = [line(row, list(sets)) for row, sets in zip(table, grouped, strict=True)]
    write_table(given.out, "guard_resplit", lines)
    write_provenance(given.out, "guard_resplit", settings, quick=given.quick)
    for told in lines:
        errors = ", ".join(f"{m} {told[f'{m}_mean']:.2f} ± {told[f'{m}_sd']:.3f}" for m in SHOWN)
        print(f"({told['n_target']}, {told['n_1']}, {told['n_2']}): {errors}")


if __name__ == "__main__":
    main()

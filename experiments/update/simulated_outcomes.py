"""A few outcomes at simulated sites: coverage, width, and the corrected model, beside the truth.

Six families, numbers and classes, 10 to 100 outcomes. One answer serves all of them.

Tables: ``update_simulated.csv``, ``update_measures.csv`` and ``update_often.csv``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

from lib.common import ROOT, options, write_provenance, write_table
from lib.promise_runs import Lines
from lib.update_families import FAMILIES, TIMES, world
from lib.update_runs import fitted, study_of
from lib.update_tables import measure_table, often_table, simulated_table

import fedcsa


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    first_seed: int = 94_000
    seeds: int = 200
    n_rows: tuple[int, ...] = (10, 20, 50, 100)
    often: int = 10  # one seed in so many looks after every outcome


FULL = Settings()
QUICK = Settings(first_seed=0, seeds=1, n_rows=(10, 20), often=1)


def run_one(kind: str, family: str, seed: int, settings: Settings) -> dict[str, Any]:
    """One study.

    Parameters
    ----------
    kind : {"numbers", "classes"}
    family : str
    seed : int
    settings : Settings
    """
    sources, target, truth = world(FAMILIES[family], kind, seed)
    found: dict[str, Any] = {"kind": kind, "family": family, "seed": seed}
    try:
        adaptation = fitted(kind, sources, target[0], seed, {})
    except fedcsa.FedCSAError as error:
        return {**found, "error": type(error).__name__}
    if adaptation.promise is None:
        return {**found, "error": "no promise"}
    every = seed % settings.often == 0
    return {**found, **study_of(adaptation, target, truth, settings.n_rows, every=every)}


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(
        __doc__,
        arguments,
        lines={"type": Path, "help": "file of one line a study"},
        kinds={"nargs": "+", "default": list(TIMES), "help": "numbers, classes"},
    )
    settings, name = QUICK if given.quick else FULL, "update"
    folder = given.out if given.quick else ROOT / "results"
    lines = Lines(given.lines or folder / f"{name}.jsonl", ("kind", "family", "seed"))
    tasks = (
        (kind, family, seed)
        for seed in range(settings.first_seed, settings.first_seed + settings.seeds)
        for family in FAMILIES
        for kind in given.kinds
    )
    lines.run(lambda task: run_one(*task, settings), ((task, task) for task in tasks))
    runs = lines.read()
    write_table(given.out, f"{name}_simulated", simulated_table(runs))
    write_table(given.out, f"{name}_measures", measure_table(runs))
    write_table(given.out, f"{name}_often", often_table(runs))
    write_provenance(given.out, __file__, settings, quick=given.quick, name=name)


if __name__ == "__main__":
    main()

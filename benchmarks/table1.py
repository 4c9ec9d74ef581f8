"""The default on every row and seed of the paper's Table 1: how long it takes, and where it goes.

A sample of the runs is timed on one core; the time of all on two follows from it.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, blas_threads, options, write_provenance, write_table

EXPERIMENTS = ROOT / "experiments"
WORKERS = 2
#: Functions whose own and inner time is told, by what they are.
PARTS = {
    "weights that match the table": ("tilt.py", "fit_tilt"),
    "models": ("fit.py", "paths"),
    "judging on held-out rows": ("measure.py", "_judge"),
    "examination": ("examine.py", "examine"),
    "what a source computes": ("source.py", "answer"),
    "encode": ("codec.py", "encode"),
    "decode": ("codec.py", "decode"),
    "ledger": ("ledger.py", "release"),
    "target: brief": ("target.py", "brief"),
    "target: choose": ("target.py", "choose"),
    "target: mix": ("target.py", "mix"),
    "target: conclude": ("target.py", "conclude"),
    "all": ("paper_cases.py", "default"),
}


def sample(seeds: int, rows: int) -> tuple[Callable[[], None], int, int]:
    """Some of the runs, how many these are, and how many there are in all."""
    sys.path.insert(0, str(EXPERIMENTS))
    try:
        from lib import paper_cases
        from lib.families import case1
        from paper import table1
    finally:
        sys.path.remove(str(EXPERIMENTS))
    printed = paper_cases.printed_sizes()
    full, sizes = table1.FULL, printed[:: max(1, len(printed) // rows)][:rows]
    first = full.first_seed
    drawn = [
        (case1(*size).draw(seed, n_truth=1), seed)
        for size in sizes
        for seed in range(first, first + seeds)
    ]

    def work() -> None:
        for study, seed in drawn:
            paper_cases.default(study.sources, study.X_target, seed, full.penalties)

    return work, len(drawn), full.rows * full.seeds


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    work, runs, total = sample(*((1, 1) if given.quick else (3, 5)))
    with blas_threads(1):
        if not given.quick:
            work()  # all imports and caches
        start, cpu = time.perf_counter(), time.process_time()
        work()
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        profile = cProfile.Profile()
        profile.runcall(work)
    line = {"runs": runs, "seconds": wall, "cpu_seconds": cpu, "all_runs": total}
    line["all_runs_on_two_cores"] = cpu / runs * total / WORKERS
    write_table(given.out, "table1", [line])
    write_table(given.out, "table1_profile", _shares(pstats.Stats(profile)))
    write_provenance(given.out, "table1", {"workers": WORKERS}, quick=given.quick)


def _shares(stats: Any) -> list[dict[str, object]]:
    spent: dict[str, float] = {}
    for (path, _, name), numbers in stats.stats.items():
        for part, where in PARTS.items():
            if (Path(path).name, name) == where:
                spent[part] = spent.get(part, 0.0) + numbers[3]
    whole = spent["all"]
    return [
        {"part": part, "share": spent.get(part, 0.0) / whole}
        for part in sorted(PARTS, key=lambda part: -spent.get(part, 0.0))
    ]


if __name__ == "__main__":
    main()

"""Table 1 in full, all methods, on two processes: how long it takes, and where the time goes.

Without ``--full`` a sample of its runs, and the time that all of them would take.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.harness import ROOT, blas_threads, options, write_provenance, write_table

EXPERIMENTS = ROOT / "experiments"
WORKERS = 2
#: Functions whose own and inner time is told, by what they are.
PARTS = {
    "density ratio (uLSIF)": ("density_ratio.py", "fit"),
    "models": ("linear.py", "fit"),
    "cross-fitted ratio": ("local.py", "_cross_fitted"),
    "what a source computes": ("source.py", "answer"),
    "encode": ("codec.py", "encode"),
    "decode": ("codec.py", "decode"),
    "ledger": ("ledger.py", "release"),
    "target: choose": ("target.py", "choose"),
    "target: conclude": ("target.py", "conclude"),
    "target: brief": ("target.py", "brief"),
    "reference": ("guard_table1.py", "reference"),
    "all": ("guard_table1.py", "run_one"),
}


def full_seconds() -> tuple[float, int]:
    with tempfile.TemporaryDirectory() as folder:
        command = ["guard_table1.py", "--full", "--penalty", "mean"]
        command += ["--workers", str(WORKERS), "--out", folder]
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, *command], check=True, cwd=EXPERIMENTS, stdout=subprocess.DEVNULL
        )
        taken = time.perf_counter() - start
    table1 = _experiment()
    return taken, table1.FULL.rows * table1.FULL.seeds


def _experiment() -> object:
    sys.path.insert(0, str(EXPERIMENTS))
    try:
        import guard_table1
    finally:
        sys.path.remove(str(EXPERIMENTS))
    return guard_table1


def _tasks(table1: object, seeds: int, rows: int) -> Callable[[], None]:
    printed = table1.printed()[:: max(1, 20 // rows)][:rows]
    sizes = [(row["n_target"], row["n_1"], row["n_2"]) for row in printed]
    first = table1.FULL.first_seed

    def work() -> None:
        for size in sizes:
            for seed in range(first, first + seeds):
                table1.run_one(("mean", size, seed, table1.FULL))

    work.count = len(sizes) * seeds
    return work


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments, full={"action": "store_true", "help": "all runs"})
    table1 = _experiment()
    work = _tasks(table1, 1 if given.quick else 3, 1 if given.quick else 5)
    total = table1.FULL.rows * table1.FULL.seeds
    with blas_threads(1):
        if not given.quick:
            work()  # all imports and caches
        start, cpu = time.perf_counter(), time.process_time()
        work()
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        profile = cProfile.Profile()
        profile.runcall(work)
    lines = [
        {
            "what": "sample",
            "runs": work.count,
            "workers": 1,
            "seconds": wall,
            "cpu_seconds": cpu,
            "all_runs_on_two_cores": cpu / work.count * total / WORKERS,
        }
    ]
    if given.full and not given.quick:
        before = os.times()
        taken, runs = full_seconds()
        after = os.times()
        used = after.children_user - before.children_user
        used += after.children_system - before.children_system
        lines.append(
            {
                "what": "full",
                "runs": runs,
                "workers": WORKERS,
                "seconds": taken,
                "cpu_seconds": used,
                "all_runs_on_two_cores": used / WORKERS,
            }
        )
    write_table(given.out, "table1", lines)
    write_table(given.out, "table1_profile", _shares(pstats.Stats(profile)))
    write_provenance(given.out, "table1", {"workers": WORKERS}, quick=given.quick)


def _shares(stats: pstats.Stats) -> list[dict[str, object]]:
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

"""What all benchmarks share: options, interleaved timing, the machine, tables of results."""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = ("fedcsa", "numpy", "scipy", "scikit-learn")
LOAD_BEFORE = os.getloadavg()[0]  # before a script itself adds to it

# The command line ---------------------------------------------------------------------------


def options(description: str | None, arguments: Sequence[str] | None, **more: Any) -> Any:
    """Read the options that every benchmark has; `more` adds its own, name -> keywords."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds: does it run at all?")
    parser.add_argument("--out", type=Path, help="folder for the tables")
    parser.add_argument("--repeats", type=int, help="how often everything is timed")
    for name, keywords in more.items():
        parser.add_argument(f"--{name}", **keywords)
    given = parser.parse_args(arguments)
    if given.out is None:  # only full runs are kept beside the scripts
        given.out = ROOT / "results" / "bench" if given.quick else RESULTS
    return given


# Timing -------------------------------------------------------------------------------------


class Taken(NamedTuple):
    """Seconds by the clock, and seconds of this process's work on all cores."""

    wall: float
    cpu: float


Times = dict[str, list[Taken]]


def timed(function: Callable[[], object]) -> Taken:
    """How long one call takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    function()
    return Taken(time.perf_counter() - wall, time.process_time() - cpu)


def interleaved(functions: Mapping[str, Callable[[], object]], repeats: int) -> Times:
    """Times of every function in every round; each round runs all of them in turn.

    Whatever else the machine does then slows all of them alike.
    """
    times: Times = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            times[name].append(timed(function))
    return times


def compared(times: Times, base: str) -> dict[str, dict[str, float | None]]:
    """Of every function: median seconds, and its ratio to `base`, the median over rounds.

    `cpu_ratio` is the same of the process's own work: with one thread it does not depend on what
    else the machine does.
    """
    floor = times[base]
    return {
        name: {
            "repeats": len(taken),
            "seconds": statistics.median(one.wall for one in taken),
            "cpu_seconds": statistics.median(one.cpu for one in taken),
            "ratio": statistics.median(a.wall / b.wall for a, b in zip(taken, floor, strict=True)),
            "cpu_ratio": statistics.median(a.cpu / b.cpu for a, b in zip(taken, floor, strict=True))
            if min(one.cpu for one in floor) > 0.0
            else None,
        }
        for name, taken in times.items()
    }


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Slope of log(values) against log(sizes): 1 is linear.

    >>> round(exponent([1, 10, 100], [3, 300, 30000]), 6)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def last_decade(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """The exponent over the largest tenfold of sizes; smaller ones show what is constant.

    >>> round(last_decade([1, 10, 100], [300, 300, 3000]), 6)
    1.0
    """
    kept = [pair for pair in zip(sizes, values, strict=True) if 10 * pair[0] >= max(sizes)]
    return exponent(*zip(*kept, strict=True)) if len(kept) > 1 else None


def on_one_core(function: Callable[[], object]) -> Callable[[], object]:
    """The same work on one core: two threads of one core would count its seconds twice."""

    def pinned() -> object:
        if not hasattr(os, "sched_setaffinity"):
            return function()
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(before)})
        try:
            return function()
        finally:
            os.sched_setaffinity(0, before)

    return pinned


def blas_threads(count: int | None) -> AbstractContextManager[Any]:
    """Limit numpy's linear algebra to so many threads; None: as it comes."""
    return threadpool_limits(count, user_api="blas")


def peak_mb() -> float:
    """The most memory that this process ever had, in MB.

    Linux counts it by program in /proc; what `getrusage` tells may be that of the parent.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3
    scale = 1e6 if sys.platform == "darwin" else 1e3  # bytes there, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


# Results ------------------------------------------------------------------------------------


def write_table(folder: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write `rows` as a table, numbers to five significant digits, and show it."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [{key: _text(value) for key, value in row.items()} for row in rows]
    with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    for line in lines:
        print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in line.items() if value))


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a table, as text."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_provenance(
    folder: Path,
    name: str,
    settings: Mapping[str, Any],
    *,
    quick: bool,
    packages: Sequence[str] = PACKAGES,
) -> None:
    """Beside the tables: the commit, the machine, the versions, the sizes."""
    told = {
        "script": f"benchmarks/{name}.py",
        "commit": commit(),
        "mode": "quick" if quick else "full",
        "settings": dict(settings),
        "machine": machine(),
        "packages": {package: version(package) for package in packages},
    }
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(told, indent=2, ensure_ascii=False, default=list)
    (folder / f"{name}.provenance.json").write_text(text + "\n", encoding="utf-8")


def commit() -> str:
    """The commit that was measured, marked if code differs from it; "" outside a checkout."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        return ""

    def ask(*arguments: str) -> str:
        asked = [git, "-C", str(ROOT), *arguments]
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()

    changed = ask("status", "--porcelain", "--", "src", "benchmarks", ":!benchmarks/results")
    return ask("rev-parse", "HEAD") + ("-changed" if changed else "")


def machine() -> dict[str, Any]:
    """What the figures were measured on, and how busy it was."""
    blas = [
        {key: pool[key] for key in ("internal_api", "version", "num_threads", "architecture")}
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
        "blas": blas[:1],
        "load_before": round(LOAD_BEFORE, 2),
        "load_average": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float | np.floating) else str(value)

"""What all experiments share: options, workers, comparisons of methods, tables of results."""

from __future__ import annotations

import argparse
import csv
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

Array = NDArray[np.float64]
Task = TypeVar("Task")
Found = TypeVar("Found")

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "experiments" / "results"
PACKAGES = ("fedcsa", "numpy", "scipy", "scikit-learn")
PAPER_METHODS = ("naive", "fediwe", "feddae")

# The command line ---------------------------------------------------------------------------


def options(description: str | None, arguments: Sequence[str] | None, **more: Any) -> Any:
    """Read the options that every script has; `more` adds its own, name -> keyword arguments."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n\n")[0])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a few seconds: does it run at all?")
    size.add_argument("--full", action="store_true", help="the study as reported (the default)")
    parser.add_argument("--out", type=Path, help="folder for the tables")
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    for name, keywords in more.items():
        parser.add_argument(f"--{name}", **keywords)
    given = parser.parse_args(arguments)
    if given.out is None:  # only the full study is kept beside the scripts
        given.out = ROOT / "results" / "quick" if given.quick else RESULTS
    return given


# Workers ------------------------------------------------------------------------------------


def run_all(
    function: Callable[[Task], Found], tasks: Sequence[Task], workers: int, label: str
) -> list[Found]:
    """``[function(task) for task in tasks]`` over processes with one BLAS thread each."""
    found: list[Found] = []
    if workers <= 1:
        with threadpool_limits(1):
            _collect(map(function, tasks), found, len(tasks), label)
    else:
        with ProcessPoolExecutor(workers, get_context("spawn"), one_blas_thread) as pool:
            chunk = max(1, min(16, len(tasks) // (8 * workers)))
            _collect(pool.map(function, tasks, chunksize=chunk), found, len(tasks), label)
    return found


def one_blas_thread() -> None:
    """Limit this process; by now it has loaded all that could start threads."""
    threadpool_limits(1)


def _collect(results: Iterable[Found], into: list[Found], total: int, label: str) -> None:
    shown = sys.stderr.isatty()
    for result in results:
        into.append(result)
        if shown:
            print(f"\r{label}: {len(into)}/{total}", end="", file=sys.stderr, flush=True)
    if shown:
        print(file=sys.stderr)


# Tables -------------------------------------------------------------------------------------


def write_table(folder: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write `rows` as a table, numbers to five significant digits."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _text(value) for key, value in row.items()} for row in rows)
    return path


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.5g}"
    return str(value)


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a table, as text."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def commit() -> dict[str, str]:
    """The commit, marked if code differs from it; nothing outside a checkout."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        return {}

    def ask(*arguments: str) -> str:
        asked = [git, "-C", str(ROOT), *arguments]
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603

    code = ("src", "experiments", ":!experiments/results")
    mark = "-dirty" if ask("status", "--porcelain", "--", *code) else ""
    head = ask("rev-parse", "HEAD")
    return {"commit": head + mark} if head else {}


def write_provenance(
    folder: Path, script: str, settings: Any, *, quick: bool, name: str = ""
) -> None:
    """Beside the tables: what the script of that path (`__file__`) made them with."""
    path = Path(script).resolve()
    told = {
        "script": path.relative_to(ROOT).as_posix(),
        **commit(),
        "mode": "quick" if quick else "full",
        "settings": asdict(settings),
        "python": ".".join(platform.python_version_tuple()[:2]),
        "packages": {package: version(package) for package in PACKAGES},
    }
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(told, indent=2, ensure_ascii=False, default=list)
    (folder / f"{name or path.stem}.provenance.json").write_text(text + "\n", encoding="utf-8")


# Comparisons --------------------------------------------------------------------------------


def risk(prediction: Array, y: Array) -> float:
    """Mean squared error."""
    return float(np.mean((prediction - y) ** 2))


def geometric_mean(values: Iterable[float]) -> float:
    """Of positive numbers."""
    return float(np.exp(np.mean(np.log(list(values)))))

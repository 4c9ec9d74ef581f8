"""What a user waits for at the command line: CPU seconds of commands on the default study.

Every command is a fresh process with compiled files in place, as those of users are, and files in
the system's cache: CPU seconds, user and system, of all its threads. `above_pass` is what it takes
above an empty interpreter, `times_floor` its ratio to importing scikit-learn and pyarrow's reader
of CSV files, in the same round. A report is timed inside a process that has loaded the result:
reading it once more, card, checklists, tables, page, and the imports that only these need.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import options, write_provenance, write_table
from benchmarks.studies import outcomes, rows_of

PASS, FLOOR = "python -c pass", "import sklearn, pyarrow.csv"
#: Libraries that compute or read: `--help` needs none, and `check` of plain CSV tables neither.
COMPUTING = ("numpy", "scipy", "sklearn", "pandas", "pyarrow", "matplotlib")
_LOADED = f"""
import sys
sys.argv = ["fedcsa", *sys.argv[1:]]
from fedcsa.cli.app import main
try:
    main()
except SystemExit:
    print("\\nloaded:", *[name for name in {COMPUTING!r} if name in sys.modules])
"""
_REPORT = """
import sys, time
from fedcsa.answer.store import load_result
load_result(sys.argv[1])
before = time.process_time()
from fedcsa.answer.page import write_report
write_report(sys.argv[1])
print(time.process_time() - before)
"""


@dataclass(frozen=True)
class Settings:
    """Sizes of the study, and how many sources a report tells of."""

    sources: int = 5
    rows: int = 300
    features: int = 20
    reports: tuple[int, ...] = (10, 100)
    repeats: int = 5


QUICK = Settings(sources=3, rows=80, features=4, reports=(3,), repeats=1)


def environment() -> Mapping[str, str]:
    """As users have it: Python keeps what it has compiled."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def python(*arguments: str, folder: Path) -> str:
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=folder, env=environment()
    ).stdout


def cpu_of(*arguments: str, folder: Path) -> float:
    """CPU seconds of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    python(*arguments, folder=folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_study(folder: Path, settings: Settings) -> None:
    """Tables of CSV, and the study file that `fedcsa study init` proposes for them."""
    names = [f"x{index}" for index in range(settings.features)]
    tables = [f"s{index}.csv" for index in range(settings.sources)]
    for index, table in enumerate([*tables, "new.csv"]):
        X = rows_of(settings.rows, settings.features, seed=index)
        y = outcomes(X, seed=index)[:, None]
        rows, header = (X, names) if table == "new.csv" else (np.hstack([X, y]), [*names, "y"])
        np.savetxt(folder / table, rows, "%.5g", ",", header=",".join(header), comments="")
    python("-m", "fedcsa", "study", "init", *tables, "--target", "new.csv", folder=folder)


def write_result(folder: Path, n_sources: int, settings: Settings) -> None:
    """A result of so many sources."""
    from fedcsa import FedCSA
    from fedcsa.answer.store import save_result

    sources = {}
    for index in range(n_sources):
        X = rows_of(settings.rows, settings.features, seed=1 + index)
        sources[f"source {index:03d}"] = (X, outcomes(X, seed=index))
    fedcsa = FedCSA(random_state=1).fit(sources, rows_of(settings.rows, settings.features, seed=0))
    save_result(fedcsa.adaptation_, folder)


def commands(folder: Path, settings: Settings) -> list[dict[str, Any]]:
    """One line a command."""
    called = {
        PASS: ("-c", "pass"),
        FLOOR: ("-c", FLOOR),
        "fedcsa --help": ("-m", "fedcsa", "--help"),
        "fedcsa check": ("-m", "fedcsa", "check", "study.toml"),
        "fedcsa run": ("-m", "fedcsa", "run", "study.toml"),
        "fedcsa run --no-report": ("-m", "fedcsa", "run", "study.toml", "--no-report"),
    }
    if settings != QUICK:  # that measures nothing
        for arguments in called.values():
            python(*arguments, folder=folder)  # compiled files, all files in the system's cache
    rounds = [
        {what: cpu_of(*arguments, folder=folder) for what, arguments in called.items()}
        for _ in range(settings.repeats)
    ]
    lines = []
    for what, (_, *words) in called.items():
        # A quick run asks this of no study once more: tests of the imports do.
        ours = words[0] == "fedcsa" and (settings != QUICK or words[1] != "run")
        loaded = python("-c", _LOADED, *words[1:], folder=folder) if ours else ""
        line = {
            "what": what,
            "repeats": settings.repeats,
            "cpu_seconds": statistics.median(taken[what] for taken in rounds),
            "above_pass": statistics.median(taken[what] - taken[PASS] for taken in rounds),
            "times_floor": statistics.median(taken[what] / taken[FLOOR] for taken in rounds),
            "loads": loaded.rpartition("loaded:")[2].strip(),
        }
        lines.append(line)
    return lines


def reports(folder: Path, settings: Settings) -> list[dict[str, Any]]:
    """One line a number of sources."""
    lines = []
    for n_sources in settings.reports:
        place = folder / f"result-{n_sources}"
        write_result(place, n_sources, settings)
        taken = [
            float(python("-c", _REPORT, str(place), folder=folder)) for _ in range(settings.repeats)
        ]
        lines.append(
            {
                "what": f"report, {n_sources} sources",
                "repeats": settings.repeats,
                "cpu_seconds": statistics.median(taken),
                "above_pass": None,
                "times_floor": None,
                "loads": "",
            }
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else Settings(repeats=given.repeats or Settings.repeats)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_study(folder, settings)
        lines = [*commands(folder, settings), *reports(folder, settings)]
    write_table(given.out, "commands", lines)
    write_provenance(given.out, "commands", asdict(settings), quick=given.quick)


if __name__ == "__main__":
    main()

"""Where the time of a command goes: own time of every function, called libraries included.

Each command runs once in a process of its own under Python's profiler, cold: imports are part of
it. Time inside a library is told at the function of ours that called it, and time of imports at
the word *import*. The profiler slows Python more than it slows libraries, so these are shares.
"""

from __future__ import annotations

import pstats
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import options, write_provenance, write_table
from benchmarks.studies import write_study

Function = tuple[str, int, str]
#: Functions that are told of each command: fewer hide the reason, more hide it as well.
SHOWN = 6
#: Calls from library to library that are followed; deeper ones recur and take next to nothing.
DEEPEST = 60
#: A command that was not understood ends so; other codes tell a verdict.
USAGE = 2
IMPORT, OTHER = "import", "elsewhere"


@dataclass(frozen=True)
class Settings:
    """Sizes: sources, rows of each and features of every study; rows to predict."""

    names: tuple[str, ...] = ("small", "long", "wide", "many")
    small: tuple[int, int, int] = (5, 300, 20)
    long: tuple[int, int, int] = (1, 300_000, 20)
    wide: tuple[int, int, int] = (1, 20_000, 200)
    many: tuple[int, int, int] = (24, 300, 10)
    predicted: int = 1_000_000


QUICK = Settings(("many",), many=(3, 60, 3))


def commands(folder: Path, settings: Settings) -> Iterator[tuple[str, list[str]]]:
    """What is profiled, by its name on the page; studies are written before."""
    for name in settings.names:
        (folder / name).mkdir()
        sources, rows, features = getattr(settings, name)
        new_rows = settings.predicted if name == "long" else min(rows, 2_000)
        study = write_study(folder / name, sources, rows, features, new_rows)
        shown = f"{sources} × {rows:,} rows, {features} features"
        words = ["backtest"] if name == "many" else ["run"]
        words += ["--stream"] if name == "long" else []
        told = " ".join(words)
        result = folder / name / "result"
        words += [str(study), "--quiet"]
        words += [] if name == "many" else ["--out", str(result)]
        yield f"`fedcsa {told}`, {shown}", words
        if name == "long":
            rows_of_target, out = folder / name / "new.parquet", folder / name / "p.parquet"
            words = ["predict", str(result), str(rows_of_target), "--out", str(out), "--quiet"]
            yield f"`fedcsa predict`, {new_rows:,} rows, {features} features", words


def own_times(stats: Any) -> Counter[str]:
    """Seconds by function of ours; what others took is told at whom they worked for.

    A function that is not ours hands its own time to its callers, in proportion to the time that
    it spent for each, as often as libraries call libraries.
    """
    table: dict[Function, tuple[int, int, float, float, dict[Function, Any]]] = stats.stats
    found: Counter[str] = Counter()
    waiting = {function: told[2] for function, told in table.items()}
    for _ in range(DEEPEST):
        above: Counter[Function] = Counter()
        for function, seconds in waiting.items():
            who = _whose(function)
            callers = {caller: told[3] for caller, told in table[function][4].items()}
            total = sum(callers.values())
            if who or not total > 0.0:
                found[who or OTHER] += seconds
                continue
            for caller, spent in callers.items():
                above[caller] += seconds * spent / total
        waiting = above
    found[OTHER] += sum(waiting.values())
    return found


def _whose(function: Function) -> str:
    """The name of a function of ours, or of imports; "" of anybody else's."""
    path, _, name = function
    if "importlib" in path:
        return IMPORT
    parts = Path(path).parts
    if "fedcsa" not in parts or name == "<module>":
        return ""
    last = len(parts) - 1 - parts[::-1].index("fedcsa")
    return ".".join([*parts[last + 1 : -1], Path(path).stem, name])


def profiled(words: Sequence[str], folder: Path) -> Counter[str]:
    out = folder / "profile"
    command = [sys.executable, "-m", "cProfile", "-o", str(out), "-m", "fedcsa", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode == USAGE or not out.exists():
        raise SystemExit(f"{words[0]} was not profiled: {done.stderr[-400:]}")
    found = own_times(pstats.Stats(str(out)))
    out.unlink()
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else Settings()
    lines = []
    with tempfile.TemporaryDirectory() as scratch:
        for shown, words in commands(Path(scratch), settings):
            print(f"profiles: {shown}", flush=True)
            found = profiled(words, Path(scratch))
            whole = found.total()
            lines += [
                {"command": shown, "seconds": whole, "function": who, "share": seconds / whole}
                for who, seconds in found.most_common(SHOWN)
            ]
    write_table(given.out, "profiles", lines)
    write_provenance(given.out, "profiles", asdict(settings), quick=given.quick)


if __name__ == "__main__":
    main()

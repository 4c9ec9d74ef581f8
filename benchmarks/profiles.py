"""Where the time goes: own time of every function, called libraries included.

Commands run once, cold, in a process of their own under Python's profiler: imports are part of it.
Beside the commands of the page, the work behind every bar is profiled that the tables in the same
folder show to be missed; work that is not a command is warm and on one core. Time inside a library
is told at the function of ours that called it, and time of an import at the package. The profiler
slows Python more than it slows libraries, so these are shares.
"""

from __future__ import annotations

import cProfile
import pstats
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import backtest, commands, fits, many_sources, source, stream
from benchmarks.bars import BARS, Results
from benchmarks.harness import blas_threads, on_one_core, options, write_provenance, write_table
from benchmarks.studies import outcomes, rows_of, write_study
from fedcsa import Policy, Source, Study

Function = tuple[str, int, str]
Work = Callable[[], object]
#: Functions that are told of each work: fewer hide the reason, more hide it as well.
SHOWN = 6
#: Calls from library to library that are followed; deeper ones recur and take next to nothing.
DEEPEST = 60
#: A command that was not understood ends so; other codes tell a verdict.
USAGE = 2
OTHER = "elsewhere"
#: The program itself ends its process without a word to the profiler.
_CALLED = """
import cProfile, sys
def called():
    from fedcsa.cli.app import main
    main()
_, out, *sys.argv[1:] = sys.argv
profiler = cProfile.Profile()
try:
    profiler.runcall(called)
finally:
    profiler.dump_stats(out)
"""


@dataclass(frozen=True)
class Settings:
    """Sizes: sources, rows of each and features of every study; rows to predict."""

    small: tuple[int, int, int] = (5, 300, 20)
    long: tuple[int, int, int] = (1, 300_000, 20)
    many: tuple[int, int, int] = (24, 300, 10)
    predicted: int = 1_000_000
    rows: int = 1_000_000
    wide_rows: int = 20_000
    quick: bool = False


QUICK = Settings(
    (2, 60, 3), (1, 80, 3), (3, 60, 3), predicted=80, rows=500, wide_rows=60, quick=True
)

# Commands, cold -----------------------------------------------------------------------------


def called(folder: Path, settings: Settings) -> dict[str, tuple[str, list[str]]]:
    """What is called, by its name: its words on the page, and the command."""

    def study(name: str, new_rows: int) -> tuple[str, str]:
        sources, rows, features = getattr(settings, name)
        (folder / name).mkdir()
        told = f"{sources} × {rows:,} rows, {features} features"
        if not new_rows:  # the very study whose commands are timed
            commands.write_study(folder / name, commands.Settings(sources, rows, features))
            return str(folder / name / "study.toml"), told
        return str(write_study(folder / name, sources, rows, features, new_rows)), told

    small, told = study("small", 0)
    long, long_told = study("long", settings.predicted)
    many, many_told = study("many", settings.many[1])
    result, new = str(folder / "result"), str(folder / "long" / "new.parquet")
    stream = ["run", long, "--stream", "--out", result, "--quiet"]
    predict = ["predict", result, new, "--out", str(folder / "p.parquet"), "--quiet"]
    return {
        "fedcsa --help": ("`fedcsa --help`", ["--help"]),
        "fedcsa check": (f"`fedcsa check`, {told}", ["check", small]),
        "fedcsa run": (
            f"`fedcsa run`, {told}", ["run", small, "--out", str(folder / "small-result")],
        ),
        "fedcsa run --stream": (f"`fedcsa run --stream`, {long_told}", stream),
        "fedcsa predict": (f"`fedcsa predict`, {settings.predicted:,} rows", predict),
        "fedcsa backtest": (f"`fedcsa backtest`, {many_told}", ["backtest", many, "--quiet"]),
    }  # fmt: skip


def profiled(command: Sequence[str], out: Path) -> Counter[str]:
    """Own times of a command that writes its profile to `out`."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode == USAGE or not out.exists():
        raise SystemExit(f"{command[-1]} was not profiled: {done.stderr[-400:]}")
    found = own_times(pstats.Stats(str(out)))
    out.unlink()
    return found


# Work, warm ---------------------------------------------------------------------------------


def one_source(features: int, rows: int, candidates: int = 0) -> Work:
    """All that a source does, or its report on so many candidates."""
    asked = source.many_penalties(candidates) if candidates else None
    brief, X = source.brief_of(features, asked), rows_of(rows, features, seed=1)
    y = outcomes(X, seed=2)
    if candidates:
        return lambda: source.source("north", X, y).answer(brief)
    return lambda: source.answer(source.source("north", X, y), brief)


def streamed(folder: Path, rows: int) -> Work:
    path, brief = stream.write_study(folder, rows, 20), source.brief_of(20)

    def work() -> None:
        rows = Study.load(path).stream_source("north")
        source.answer(Source.streaming("north", rows, policy=Policy.open()), brief)

    return work


def report(folder: Path, sources: int, quick: bool) -> Work:
    settings = commands.QUICK if quick else commands.Settings()
    commands.write_result(folder / "result", sources, settings)

    def work() -> None:
        from fedcsa.answer.page import write_report

        write_report(folder / "result")

    return work


def fitted(quick: bool) -> Work:
    settings = fits.QUICK if quick else fits.Settings()
    return lambda: [fits.measured(settings, name, 1) for name in settings.models[:1]]


def warm(folder: Path, settings: Settings) -> dict[str, Callable[[], Work]]:
    """Work by the name that bars give it; made when it is asked for."""
    q = settings.quick
    sizes = backtest.QUICK if q else backtest.Settings()
    crowd = many_sources.QUICK if q else many_sources.Settings()
    return {
        "one source": lambda: one_source(20, settings.rows),
        "6,000 candidates": lambda: one_source(20, settings.wide_rows, 60 if q else 6_000),
        "200 features": lambda: one_source(200 // (10 if q else 1), settings.wide_rows),
        "1,000 features": lambda: one_source(1_000 // (50 if q else 1), settings.wide_rows),
        "streamed source": lambda: streamed(folder, settings.rows),
        "report, 10 sources": lambda: report(folder, 3 if q else 10, q),
        "report, 100 sources": lambda: report(folder, 3 if q else 100, q),
        "fits": lambda: fitted(q),
        "back-test": lambda: lambda: backtest.measured(sizes, "ridge", "ridge", None),
        "1,000 sources": lambda: lambda: many_sources.seconds(crowd, crowd.sources[-1]),
    }


def profiled_here(name: str, settings: Settings) -> Counter[str]:
    """Own times of a piece of work in this process."""
    with tempfile.TemporaryDirectory() as scratch, blas_threads(1):
        work = on_one_core(warm(Path(scratch), settings)[name]())
        profiler = cProfile.Profile()
        profiler.runcall(work)
    return own_times(pstats.Stats(profiler))


# Own times ----------------------------------------------------------------------------------


def own_times(stats: Any) -> Counter[str]:
    """Seconds by function of ours; what others took is told at whom they worked for.

    A function that is not ours hands its own time to its callers, in proportion to the time that
    it spent for each, as often as libraries call libraries.
    """
    table: dict[Function, tuple[int, int, float, float, dict[Function, Any]]] = stats.stats
    whose = {function: _whose(function) for function in table}
    spent = {
        function: {caller: told[3] for caller, told in table[function][4].items()}
        for function, who in whose.items()
        if not who
    }
    totals = {function: sum(callers.values()) for function, callers in spent.items()}
    found: Counter[str] = Counter()
    waiting = {function: told[2] for function, told in table.items()}
    for _ in range(DEEPEST):
        above: Counter[Function] = Counter()
        for function, seconds in waiting.items():
            total = totals.get(function, 0.0)
            if not total > 0.0:
                found[whose[function] or OTHER] += seconds
                continue
            for caller, part in spent[function].items():
                above[caller] += seconds * part / total
        waiting = above
    found[OTHER] += sum(waiting.values())
    return found


def _whose(function: Function) -> str:
    """The name of a function of ours, or of a package's import; "" of anybody else's."""
    path, _, name = function
    parts = Path(path).parts
    if name == "<module>":
        return f"import of {_package(parts)}"
    if "fedcsa" not in parts:
        return ""
    last = len(parts) - 1 - parts[::-1].index("fedcsa")
    return ".".join([*parts[last + 1 : -1], Path(path).stem, name])


def _package(parts: Sequence[str]) -> str:
    for folder in ("site-packages", "src"):
        if folder in parts[:-1]:
            return Path(parts[parts.index(folder) + 1]).stem
    return "Python's library"


def lines_of(shown: str, found: Mapping[str, float]) -> list[dict[str, Any]]:
    whole = sum(found.values())
    told = Counter(found).most_common(SHOWN)
    return [
        {"work": shown, "seconds": whole, "function": who, "share": seconds / whole}
        for who, seconds in told
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else Settings()
    missed = {bar.profile for bar in BARS if bar.is_missed(Results(given.out))}
    lines = []
    with tempfile.TemporaryDirectory() as scratch:
        folder, out = Path(scratch), Path(scratch) / "profile"
        for name, (shown, words) in called(folder, settings).items():
            print(f"profiles: {name}", flush=True)
            found = profiled([sys.executable, "-c", _CALLED, str(out), *words], out)
            lines += [{"name": name, **line} for line in lines_of(shown, found)]
        for name in warm(folder, settings):
            if name in missed or given.quick:
                print(f"profiles: {name}", flush=True)
                found = profiled_here(name, settings)
                lines += [{"name": name, **line} for line in lines_of(name, found)]
    write_table(given.out, "profiles", lines)
    write_provenance(given.out, "profiles", asdict(settings), quick=given.quick)


if __name__ == "__main__":
    main()

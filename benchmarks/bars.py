"""What was asked for, beside what was measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import read_table

Line = dict[str, str]


@dataclass(frozen=True)
class Results:
    """The tables, read when asked for; one that is not there is empty."""

    folder: Path

    def __call__(self, name: str, **wanted: str) -> list[Line]:
        """Lines of a table, those with the `wanted` values."""
        path = self.folder / f"{name}.csv"
        lines = read_table(path) if path.exists() else []
        return [line for line in lines if all(line[k] == v for k, v in wanted.items())]

    def largest(self, name: str, column: str = "rows", **wanted: str) -> Line | None:
        """The line with the wanted values that is largest in `column`."""
        return max(self(name, **wanted), key=lambda line: float(line[column]), default=None)

    def provenances(self) -> list[str]:
        """Names of the scripts that have been run."""
        return sorted(path.name.split(".")[0] for path in self.folder.glob("*.provenance.json"))

    def provenance(self, name: str) -> dict[str, Any]:
        """What a script's tables were made with."""
        text = (self.folder / f"{name}.provenance.json").read_text(encoding="utf-8")
        told: dict[str, Any] = json.loads(text)
        return told


@dataclass(frozen=True)
class Bar:
    """One promise: what, how much, what came of it."""

    what: str
    bar: str
    measured: str
    verdict: str


def at_most(what: str, limit: float, value: str | None, unit: str = " ×") -> Bar:
    return _bar(what, f"≤ {limit:g}{unit}", value, unit, lambda x: x <= limit)


def at_least(what: str, limit: float, value: str | None, unit: str = " ×") -> Bar:
    return _bar(what, f"≥ {limit:g}{unit}", value, unit, lambda x: x >= limit)


def _bar(what: str, bar: str, value: str | None, unit: str, holds: Any) -> Bar:
    if not value:
        return Bar(what, bar, "–", "not measured")
    reached = holds(float(value))
    return Bar(what, bar, f"{float(value):.3g}{unit}", "met" if reached else "**missed**")


def _of(line: Line | None, column: str) -> str | None:
    return None if line is None else line[column]


def bars(results: Results) -> Iterator[Bar]:
    """Every bar, in the order of the page."""
    one = {"blas_threads": "1"}
    for what, name, limit in (
        ("`ULSIF`, 9 × 9, against its floor", "ulsif", 3.0),
        ("the same with the exact score", "ulsif-exact", 12.0),
    ):
        line = results.largest("ratio", what=name, **one)
        size = f", {line['rows']} rows a side" if line else ""
        yield at_most(f"{what}{size}", limit, _of(line, "cpu_ratio"))
    for peer, least in (("densratio", 100.0), ("adapt", 30.0)):
        line = results.largest("peers", what=peer)
        yield at_least(f"faster than `{peer}`", least, _of(line, "times_ours"))
    many = [line for line in results("ridge") if line["what"] == "models"]
    line = max(many, key=lambda x: (float(x["rows"]), float(x["candidates"])), default=None)
    told = f"{line['candidates']} candidates against 1" if line else "many candidates against 1"
    yield at_most(f"ridge, {told}", 1.5, _of(line, "cpu_ratio"))
    counts = sorted({int(x["candidates"]) for x in results("source")})
    for count in counts[:1] or [0]:
        line = results.largest("source", candidates=str(count), what="source", **one)
        told = f"{line['rows']} rows, {count} candidates" if line else "in memory"
        yield at_most(f"a source against its floor, {told}", 4.0, _of(line, "cpu_ratio"))
    yield from _stream(results)
    lines = results("trees", what="walk")
    line = max(lines, key=lambda x: float(x["cpu_ratio"] or x["ratio"]), default=None)
    told = f"`{line['estimator']}`, {line['rows']} rows" if line else "trees"
    yield at_most(f"{told}, against scikit-learn's own prediction", 5.0, _of(line, "cpu_ratio"))
    line = results.largest("many_sources", "sources")
    told = f"{line['sources']} sources in one process" if line else "many sources in one process"
    yield at_most(f"{told} against the sum of their own times", 1.3, _of(line, "ratio"))
    for varied in ("sources", "candidates"):
        line = results.largest("target", varied, varied=varied)
        yield at_most(f"the target, exponent in {varied}", 1.05, _of(line, "exponent"), "")
    line = results.largest("table1", "runs")
    told = f"the default, {line['all_runs']} studies" if line else "the default on Table 1's rows"
    yield at_most(f"{told} on two cores", 180.0, _of(line, "all_runs_on_two_cores"), " s")
    line = next(iter(results("imports", statement="import fedcsa")), None)
    yield at_most("`import fedcsa` against numpy and scipy.linalg", 1.5, _of(line, "ratio"))
    line = results.largest("messages", "candidates")
    yield at_most("bytes for each candidate", 16.0, _of(line, "bytes_per_candidate"), "")


def _stream(results: Results) -> Iterator[Bar]:
    line = results.largest("stream", kind="stream")
    told = f"a source that reads {line['rows']} rows in batches" if line else "a source in batches"
    yield at_most(f"{told}, peak memory", 700.0, _of(line, "peak_mb"), " MB")
    yield at_most(f"{told}, against in memory, a row", 1.5, _of(line, "times_memory_per_row"))
    yield at_most(f"{told}, exponent in rows", 1.05, _of(line, "exponent"), "")

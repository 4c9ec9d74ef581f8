"""What was asked for, beside what was measured: one list of bars, one figure for each.

A bar names the table of its script, the column that is judged and the line that it is in. A script
that writes these columns is judged; whatever else a table holds is its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
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
        return [line for line in lines if all(line.get(k) == v for k, v in wanted.items())]

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
    """One promise: what, how much at most, where its figure is, and what is in that figure."""

    what: str
    limit: float
    unit: str
    table: str
    column: str
    how: str
    where: dict[str, str] = field(default_factory=dict)

    def measured(self, results: Results) -> float | None:
        """The figure in the one line that the bar is about; None where there is none."""
        found = [line.get(self.column) for line in results(self.table, **self.where)]
        values = [float(text) for text in found if text]
        return max(values, default=None)

    def verdict(self, results: Results) -> str:
        """Whether the bar is met."""
        value = self.measured(results)
        if value is None:
            return "not measured"
        return "met" if value <= self.limit else "**missed**"


TIMES, SECONDS, MEGABYTES, NONE = " ×", " s", " MB", ""
COLD = "cold: a new process, imports included"
WARM = "warm: imported, rows in memory"
READING = "warm; reading is included on both sides"

BARS = (
    Bar(
        "`fedcsa run` with its report, 5 × 300 rows, 20 features, "
        "against importing scikit-learn and the table reader",
        1.3,
        TIMES,
        "commands",
        "cpu_ratio",
        COLD,
        {"what": "run"},
    ),
    Bar(
        "`fedcsa --help`, CPU above `python -c pass`",
        0.25,
        SECONDS,
        "commands",
        "above_pass",
        COLD,
        {"what": "help"},
    ),
    Bar(
        "`fedcsa check`, the same", 0.25, SECONDS, "commands", "above_pass", COLD, {"what": "check"}
    ),
    Bar(
        "the report of 10 sources",
        0.5,
        SECONDS,
        "commands",
        "cpu_seconds",
        WARM,
        {"what": "report-10"},
    ),
    Bar(
        "the report of 100 sources",
        2.0,
        SECONDS,
        "commands",
        "cpu_seconds",
        WARM,
        {"what": "report-100"},
    ),
    Bar(
        "one source, 10⁶ × 20, weights + candidates + examination, against the least arithmetic",
        4.0,
        TIMES,
        "source",
        "cpu_ratio",
        WARM,
        {"what": "source"},
    ),
    Bar(
        "its weights, in passes of weighted moments",
        12.0,
        TIMES,
        "source",
        "cpu_ratio",
        WARM,
        {"what": "tilt"},
    ),
    Bar(
        "the candidates of a source, 60 to 6,000, exponent",
        1.05,
        NONE,
        "source",
        "exponent",
        WARM,
        {"what": "candidates"},
    ),
    Bar(
        "the same, exponent of its memory",
        1.05,
        NONE,
        "source",
        "memory_exponent",
        WARM,
        {"what": "candidates"},
    ),
    Bar(
        "one source streamed from Parquet, 10⁶ × 20, against in memory",
        1.3,
        TIMES,
        "stream",
        "cpu_ratio",
        READING,
        {"rows": "1000000"},
    ),
    Bar(
        "its memory",
        400.0,
        MEGABYTES,
        "stream",
        "peak_mb",
        COLD,
        {"what": "stream", "rows": "1000000"},
    ),
    Bar(
        "its memory with 10⁷ rows",
        700.0,
        MEGABYTES,
        "stream",
        "peak_mb",
        COLD,
        {"what": "stream", "rows": "10000000"},
    ),
    Bar(
        "200 features, 2·10⁴ rows, against one XᵀX a fold and power",
        25.0,
        TIMES,
        "wide",
        "cpu_ratio",
        WARM,
        {"features": "200"},
    ),
    Bar("1,000 features, the same", 40.0, TIMES, "wide", "cpu_ratio", WARM, {"features": "1000"}),
    Bar(
        "scikit-learn's models, CPU of a fit against that of `GridSearchCV`",
        1.1,
        TIMES,
        "fits",
        "cpu_ratio",
        WARM,
    ),
    Bar("the same, seconds on two cores against one", 0.65, TIMES, "fits", "wall_ratio", WARM),
    Bar(
        "back-test of 24 sources against the sum of its studies",
        1.3,
        TIMES,
        "backtest",
        "cpu_ratio",
        WARM,
    ),
    Bar(
        "a source among 1,000 in one process against one among 10",
        1.5,
        TIMES,
        "many_sources",
        "per_source_ratio",
        WARM,
    ),
    Bar(
        "`fedcsa predict`, 10⁷ rows of Parquet, against Polars reading, multiplying and writing",
        2.0,
        TIMES,
        "predict",
        "cpu_ratio",
        COLD,
    ),
    Bar("its memory", 700.0, MEGABYTES, "predict", "peak_mb", COLD),
    Bar(
        "a federated study, 4 sources, from submission to result",
        10.0,
        SECONDS,
        "federation",
        "study",
        COLD,
        {"sources": "4"},
    ),
    Bar(
        "its examination, the third round",
        1.0,
        SECONDS,
        "federation",
        "examine",
        "warm: sites are connected",
        {"sources": "4"},
    ),
)


def missed(results: Results) -> Iterator[Bar]:
    """Bars that were measured and are not met."""
    for bar in BARS:
        if bar.verdict(results) == "**missed**":
            yield bar

"""What was asked for, beside what was measured: one list of bars, one figure for each.

A line of bars.csv names a table, which lines and which column of it are judged, what is in the
figure, and which work is profiled if it is missed. Whatever else a table holds is its script's own.
"""

from __future__ import annotations

import csv
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

    def __call__(self, name: str, /, **wanted: str) -> list[Line]:
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
    """One promise: what, how much at most, where its figure is, and what is in that figure.

    `profile` names the work whose profile says why, if the bar is missed.
    """

    what: str
    limit: float
    unit: str
    table: str
    where: dict[str, str]
    column: str
    how: str
    profile: str = ""

    @classmethod
    def of(cls, line: Line) -> Bar:
        """A bar from its line of bars.csv."""
        where = dict(part.split("=") for part in line["where"].split("&") if part)
        unit = line["unit"] and f" {line['unit']}"
        return cls(**{**line, "limit": float(line["limit"]), "unit": unit, "where": where})  # type: ignore[arg-type]

    def measured(self, results: Results) -> float | None:
        """The largest figure in the lines that the bar is about; None where there is none."""
        found = [line.get(self.column) for line in results(self.table, **self.where)]
        return max((float(text) for text in found if text), default=None)

    def is_missed(self, results: Results) -> bool:
        """Whether it was measured, and more was needed than is allowed."""
        value = self.measured(results)
        return value is not None and value > self.limit

    def verdict(self, results: Results) -> str:
        """Whether the bar is met."""
        if self.measured(results) is None:
            return "not measured"
        return "**missed**" if self.is_missed(results) else "met"


def _read() -> Iterator[Bar]:
    with Path(__file__).with_suffix(".csv").open(newline="", encoding="utf-8") as file:
        yield from map(Bar.of, csv.DictReader(file, delimiter=";"))


#: Every bar, in the order of the page.
BARS = tuple(_read())

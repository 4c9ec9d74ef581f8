"""Every bar of the validation study beside what was measured.

Reads the packed runs. Tables: ``validation_bars`` (what was asked, the bar, what was found, whether
it is met), ``validation_seeds``, ``validation_by_measure``, ``validation_by_distance``,
``validation_stroke`` and
``validation_stroke_by_distance``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

from lib.common import RESULTS, write_table
from lib.promise_runs import read_packed
from lib.validation_tables import (
    OVERALL,
    measure_table,
    patient_summary,
    patient_table,
    stroke_table,
)

# What was asked before the study was run
COVERAGE = (0.90, 0.99)
AUROC_ERROR = 0.5
PATIENTS = (0.88, 0.93)
FARTHEST_QUARTER = 0.82
STROKE = 0.88

Line = Mapping[str, Any]


def bar(asked: str, bounds: str, found: str, *, good: bool) -> dict[str, str]:
    """One thing that must be shown."""
    return {"asked": asked, "bar": bounds, "found": found, "met": "yes" if good else "no"}


def every(asked: str, found: Mapping[str, float], low: float, high: float) -> dict[str, str]:
    """A bar that every one of several measures must meet; those that do not are named.

    Parameters
    ----------
    asked : str
    found : mapping of str to float
        By measure.
    low, high : float
        The bar.
    """
    bounds = f"{low:.2f}–{high:.2f}" if high < 1.0 else f"≥ {low:.2f}"
    least, most = (pick(found, key=lambda name: found[name]) for pick in (min, max))
    text = f"{found[least]:.3f} (`{least}`) to {found[most]:.3f} (`{most}`)"
    outside = [f"`{name}`" for name, value in found.items() if not low <= value <= high]
    if outside:
        text += f"; outside: {', '.join(outside)}"
    return bar(asked, bounds, text, good=not outside)


def measure_bars(table: Sequence[Line]) -> list[dict[str, str]]:
    """Coverage of every measure over the families, and the error of AUROC under shift."""
    lines = []
    for part in dict.fromkeys(line["part"] for line in table):
        those = [line for line in table if (line["part"], line["family"]) == (part, OVERALL)]
        found = {line["measure"]: line["coverage"] for line in those}
        lines.append(every(f"coverage of every measure, {part}", found, *COVERAGE))
    [shift] = [
        line for line in table if (line["measure"], line["family"]) == ("auroc", "covariate shift")
    ]
    ratio = shift["error_ratio"]
    asked = "error of AUROC over that without weights, covariate shift"
    return [*lines, bar(asked, f"≤ {AUROC_ERROR}", f"{ratio:.2f}", good=ratio <= AUROC_ERROR)]


def patient_bars(table: Sequence[Line]) -> list[dict[str, str]]:
    """Coverage of the intervals for patients at a nominal 0.9, for all and far from the centre."""
    low, high = PATIENTS
    names = {"events": "set of classes", "numbers": "interval"}
    lines = []
    for line in table:
        if line["family"] != OVERALL:
            continue
        what, found = f"coverage of a patient's {names[line['part']]}", line["coverage"]
        told = f"{found:.3f}"
        if line["part_of_rows"] == "all":
            bounds = f"{low:.2f}–{high:.2f}"
            lines.append(bar(f"{what}, nominal 0.9", bounds, told, good=low <= found <= high))
        elif line["part_of_rows"] == "quarter 4":
            good = found >= FARTHEST_QUARTER
            lines.append(bar(f"{what}, farthest quarter", f"≥ {FARTHEST_QUARTER}", told, good=good))
    return lines


def stroke_bars(table: Sequence[Line]) -> list[dict[str, str]]:
    """Coverage of every measure over the countries of the stroke trial."""
    found = {line["measure"]: line["coverage"] for line in table}
    return [every("stroke trial: coverage of every measure", found, STROKE, 1.0)] if found else []


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--name", default="validation", help="beginning of the tables' names")
    given = parser.parse_args(arguments)
    name = given.name

    def read(ending: str) -> list[dict[str, str]]:
        path = given.results / f"{name}_{ending}.csv.gz"
        return read_packed(path) if path.is_file() else []

    patients = read("patients")
    by_measure, by_distance = measure_table(read("measures")), patient_table(patients)
    stroke = stroke_table(read("stroke_measures"))
    tables: dict[str, list[dict[str, Any]]] = {
        "seeds": seeds(patients),
        "by_measure": by_measure,
        "by_distance": by_distance,
        "stroke": stroke,
        "stroke_by_distance": stroke_by_distance(read("stroke_patients")),
        "bars": [*measure_bars(by_measure), *patient_bars(by_distance), *stroke_bars(stroke)],
    }
    for ending, lines in tables.items():
        if lines:
            write_table(given.results, f"{name}_{ending}", lines)


def seeds(lines: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """How many studies of how many seeds there are, and how many ended without a model."""
    studies = {(line["part"], line["family"], line["seed"]) for line in lines}
    known = sorted({int(seed) for _, _, seed in studies})
    failed = sum(not line["part_of_rows"] for line in lines)
    ends = {"first": known[0], "last": known[-1], "seeds": len(known)}
    return [{**ends, "studies": len(studies), "failed": failed}]


def stroke_by_distance(lines: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Sets of classes at the countries, by quarter of distance."""
    known = [line for line in lines if line["part_of_rows"]]
    return [
        patient_summary([line for line in known if line["part_of_rows"] == rows])
        for rows in dict.fromkeys(line["part_of_rows"] for line in known)
    ]


if __name__ == "__main__":
    main()

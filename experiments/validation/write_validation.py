"""Write the tables of docs/validation.md from the results: no number in them is typed by hand."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

from lib.page import Block, Line, Results, number, run, table
from lib.validation_tables import OVERALL

#: Seeds of the confirmation, all families each.
PLANNED = 50
MET = {"yes": "met", "no": "**missed**"}
#: Parts of the rows, as the page names them.
QUARTERS = {
    "all": "all",
    "quarter 1": "nearest quarter",
    "quarter 2": "second",
    "quarter 3": "third",
    "quarter 4": "farthest quarter",
}


def seeds(results: Results) -> str:
    """What was run once."""
    [x] = results("validation_seeds")
    first, last = (f"{int(x[key]):,}" for key in ("first", "last"))
    return (
        f"Confirmed once: {x['studies']} studies on {x['seeds']} of {PLANNED} fresh seeds, "
        f"{first} to {last}; "
        f"{x['failed']} ended without a model."
    )


def bars(results: Results) -> str:
    """Every bar beside what was measured."""
    rows = [(x["asked"], x["bar"], x["found"], MET[x["met"]]) for x in results("validation_bars")]
    return table(("must show", "bar", "found", ""), rows)


def events(results: Results) -> str:
    """Measures of a model of events, by family."""
    return _measures(results, "events")


def numbers(results: Results) -> str:
    """Measures of a model of numbers, by family."""
    return _measures(results, "numbers")


def _measures(results: Results, part: str) -> str:
    """A row a measure, a column a family: coverage; half-width; error ratio."""
    lines = results("validation_by_measure", part=part)
    families = [x for x in dict.fromkeys(line["family"] for line in lines) if x != OVERALL]
    rows = []
    for measure in dict.fromkeys(line["measure"] for line in lines):
        of = {line["family"]: line for line in lines if line["measure"] == measure}
        rows.append((f"`{measure}`", *(_cell(of[x]) for x in (OVERALL, *families))))
    return table(("measure", OVERALL, *families), rows)


def _cell(line: Line) -> str:
    """Coverage; half-width; error over the unweighted estimate's."""
    cell = f"{number(line['coverage'])}; ± {float(line['half_width']):.2g}"
    if line["answered"] != line["promises"]:
        cell += f" ({line['answered']} of {line['promises']})"
    return cell + (f"; {number(line['error_ratio'])}" if line["error_ratio"] else "")


def patients(results: Results) -> str:
    """How often a patient's interval, or set of classes, holds the outcome."""
    lines = results("validation_by_distance")
    rows = []
    for part, family in dict.fromkeys((line["part"], line["family"]) for line in lines):
        of = {
            line["part_of_rows"]: line
            for line in lines
            if (line["part"], line["family"]) == (part, family)
        }
        rows.append((part, family, *_by_distance(of)))
    stroke = {line["part_of_rows"]: line for line in results("validation_stroke_by_distance")}
    rows.append(("events", "stroke trial", *_by_distance(stroke)))
    return table(("outcome", "family", *QUARTERS.values(), "half-width or size"), rows)


def _by_distance(lines: dict[str, Line]) -> list[str]:
    return [*(number(lines[x]["coverage"]) for x in QUARTERS), number(lines["all"]["half_width"])]


def stroke(results: Results) -> str:
    """Every measure at the countries of the stroke trial."""
    rows = [
        (
            f"`{line['measure']}`",
            number(line["coverage"]),
            f"± {float(line['half_width']):.2g}",
            number(line["error_ratio"]),
            f"{line['answered']} of {line['promises']}",
        )
        for line in results("validation_stroke")
    ]
    return table(("measure", "coverage", "half-width", "error ratio", "promises"), rows)


BLOCKS: dict[str, Block] = {
    block.__name__: block for block in (seeds, bars, events, numbers, patients, stroke)
}


def main(arguments: Sequence[str] | None = None) -> None:
    run(__doc__, BLOCKS, "validation.md", arguments)


if __name__ == "__main__":
    main()

"""Write the tables of docs/few-outcomes.md from the results: no number in them is typed by hand."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

from lib.page import Block, Results, number, run, table
from lib.update_tables import PLANNED, bars_of

MET = {True: "met", False: "**missed**"}
#: Numbers of outcomes, as the columns of a table.
COLUMNS = ("10", "20", "50", "100")


def seeds(results: Results) -> str:
    """What was run once."""
    lines = results("update_simulated", outcomes="10")
    each = {
        kind: sorted({int(x["studies"]) for x in lines if x["kind"] == kind})
        for kind in ("numbers", "classes")
    }
    told = {kind: str(n[0]) if len(n) == 1 else f"{n[0]} to {n[-1]}" for kind, n in each.items()}
    fewest = min(n[0] for n in each.values())
    return (
        f"The rule was chosen on seeds of its own, frozen, and confirmed once on fresh ones: "
        f"{told['numbers']} studies a family for numbers and {told['classes']} for classes, of "
        f"{PLANNED} that were planned. A coverage of 0.95 then has a standard error of up to "
        f"{number((0.95 * 0.05 / fewest) ** 0.5, 3)}."
    )


def bars(results: Results) -> str:
    """Every bar beside what was measured."""
    found = bars_of(results("update_simulated"), results("update_often"), results("update_stroke"))
    return table(("must show", "bar", "found", ""), [(*x[:3], MET[x[3]]) for x in found])


def coverage(results: Results) -> str:
    """Coverage of the risk, by family and number of outcomes."""
    return _by_family(results, "coverage")


def widths(results: Results) -> str:
    """Width over that of the outcomes alone."""
    return _by_family(results, "width_ratio")


def models(results: Results) -> str:
    """Risk of the corrected model over that of the model as it was, and the best that can be."""
    return _by_family(results, "gain", best="all")


def _by_family(results: Results, key: str, **single: str) -> str:
    """A row a family and kind, a column a number of outcomes, then what does not depend on it."""
    lines = results("update_simulated")
    rows = []
    for family in dict.fromkeys(x["family"] for x in lines):
        for kind in ("numbers", "classes"):
            some = [x for x in lines if (x["family"], x["kind"]) == (family, kind)]
            of = {x["outcomes"]: x[key] for x in some}
            if of:
                told = [*(of.get(n, "") for n in COLUMNS), *(some[0][each] for each in single)]
                rows.append((family, kind, *map(number, told)))
    return table(("family", "outcome", *COLUMNS, *single.values()), rows)


def often(results: Results) -> str:
    """Whoever looks after every outcome."""
    rows = [
        (
            x["family"],
            x["studies"],
            number(x["anytime_missed"]),
            number(x["one_look_missed"]),
            number(x["called_unlike"]),
        )
        for x in results("update_often")
    ]
    head = (
        "family",
        "studies",
        "for all looks: ever missed",
        "one look: ever missed",
        "called unlike",
    )
    return table(head, rows)


def stroke(results: Results) -> str:
    """The countries of the stroke trial."""
    rows = [
        (
            x["quantity"],
            x["outcomes"],
            number(x["coverage"]),
            number(x["as_good_as"], 0),
            number(x["worth_by_width"], 0),
        )
        for x in results("update_stroke")
    ]
    head = ("", "outcomes", "coverage", "err as little as … alone", "as narrow as … alone")
    return table(head, rows)


BLOCKS: dict[str, Block] = {
    "seeds": seeds,
    "bars": bars,
    "coverage": coverage,
    "widths": widths,
    "models": models,
    "often": often,
    "stroke": stroke,
}


def main(arguments: Sequence[str] | None = None) -> None:
    run(__doc__, BLOCKS, "few-outcomes.md", arguments)


if __name__ == "__main__":
    main()

"""Write the tables of docs/membership.md from the results: no number in them is typed by hand."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

from lib.page import Block, Results, percent, run, table


def leaves(results: Results) -> str:
    """One line a recipe and number of features: what leaves at every number of rows."""
    lines = results("membership")
    sizes = sorted({int(line["rows"]) for line in lines})
    rows = []
    for recipe, features in dict.fromkeys((x["recipe"], x["features"]) for x in lines):
        cells = []
        for n in sizes:
            [x] = results("membership", recipe=recipe, features=features, rows=str(n))
            found = f"{float(x['found']):.2f} ± {float(x['sd']):.2f}"
            cells.append(f"{percent(x['leaves'])}; {found}; {float(x['real']):.2f}")
        rows.append((recipe, features, *cells))
    headings = [f"{n:,} rows: leaves; found; real" for n in sizes]
    return table(("model", "features", *headings), rows)


def sacro(results: Results) -> str:
    """What SACRO-ML finds beside the certificate."""
    rows = [
        (
            x["recipe"], x["rows"], x["features"], f"{float(x['found']):.2f}",
            f"{float(x['lira']):.2f}", f"{float(x['worst_case']):.2f}",
        )
        for x in results("membership_sacro")
    ]  # fmt: skip
    headings = ("model", "rows", "features", "certificate", "its LiRA", "its worst case")
    return table(headings, rows)


BLOCKS: dict[str, Block] = {"leaves": leaves, "sacro": sacro}


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite the page."""
    run(__doc__, BLOCKS, "membership.md", arguments)


if __name__ == "__main__":
    main()

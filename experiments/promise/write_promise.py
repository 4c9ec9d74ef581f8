"""Write the tables of docs/promise.md from the results: no number on that page is typed by hand.

Only what stands between ``<!-- begin:NAME -->`` and ``<!-- end:NAME -->`` is rewritten. The page is
short on purpose; what is behind it are the tables beside the results.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

from lib.page import Block, Line, Results, number, percent, run, table

MET = {"yes": "met", "no": "**missed**", "reported": "reported"}
#: Sets that the page shows, in its order.
SHOWN = (
    "sites exchangeable",
    "random effects",
    "shared rule, K ≥ 5",
    "shared rule",
    "heavy tails",
    "violates something",
    "label shift, drift",
)
#: Below this coverage a family is named.
NAMED_BELOW = 0.90


def bars(results: Results) -> str:
    """Every bar beside what was measured under both defaults."""
    rows = [
        (line["asked"], line["bar"], line["old"] or "–", line["new"], MET[line["met"]])
        for line in results("promise_bars")
    ]
    return table(("must show", "bar", "before", "now", ""), rows)


def sets(results: Results) -> str:
    """Coverage, width and score by set of families, before and now."""
    rows = []
    for name in SHOWN:
        both = [
            results.one("promise_sets", set=name, outcome="both", code=code, verdict="all")
            for code in ("old", "new")
        ]
        rows.append((name, *(_cell(line) for line in both)))
    return table(("families", "before", "now"), rows)


def _cell(line: Line, suffix: str = "") -> str:
    """Coverage; half-width; score; runs with a promise."""
    coverage = number(line[f"coverage{suffix}"], 3)
    width, score = (number(line[f"{key}{suffix}"]) for key in ("half_width", "score"))
    told, runs = (line[f"{key}{suffix}"] for key in ("answered", "runs"))
    return f"{coverage}; × {width}; {score} ({told} of {runs})"


def misses(results: Results) -> str:
    """Families in which the promise holds too rarely, worst first."""
    told = [line for line in results("promise_families") if line["coverage_new"] != ""]
    low = sorted(
        (line for line in told if float(line["coverage_new"]) < NAMED_BELOW),
        key=lambda line: float(line["coverage_new"]),
    )
    rows = [
        (
            f"`{line['family']}`, {line['outcome']}",
            line["violates"] or "nothing",
            _cell(line, "_old"),
            _cell(line, "_new"),
            percent(line["use_it"]),
        )
        for line in low
    ]
    return table(("family", "violates", "before", "now", "“use it”"), rows)


def sources(results: Results) -> str:
    """Interval score by number of sources where nothing is violated."""
    rows = [
        (
            line["n_sources"],
            line["pairs"],
            f"{number(line['score_old'])} (× {number(line['half_width_old'])})",
            f"{number(line['score_new'])} (× {number(line['half_width_new'])})",
            number(line["ratio"]),
        )
        for line in results("promise_sources")
        if line["pairs"] != "0"
    ]
    return table(("sources", "pairs", "before (half-width)", "now (half-width)", "ratio"), rows)


def sites(results: Results) -> str:
    """Real data, leave one site out."""
    rows = [
        (
            line["data_set"],
            f"{number(line['gap_old'])} / {number(line['gap_new'])}",
            _cell(line, "_old"),
            _cell(line, "_new"),
        )
        for line in results("promise_sites")
    ]
    return table(("data", "distance over naive's: before / now", "before", "now"), rows)


BLOCKS: dict[str, Block] = {block.__name__: block for block in (bars, sets, sources, sites, misses)}


def main(arguments: Sequence[str] | None = None) -> None:
    run(__doc__, BLOCKS, "promise.md", arguments)


if __name__ == "__main__":
    main()

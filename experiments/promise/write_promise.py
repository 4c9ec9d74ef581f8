"""Write docs/promise.md and docs/promise-tables.md: no number there is typed by hand.

Of both pages only what stands between ``<!-- begin:NAME -->`` and ``<!-- end:NAME -->`` is
rewritten. The first has a row a claim; the second has the tables that the claims rest on.
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
TABLES = "promise-tables.md"
#: Bars of this beginning are one claim: a line each for the number of sources.
BY_SOURCES = "interval score, nothing violated, "


# The claims ---------------------------------------------------------------------------------


def claims(results: Results) -> str:
    """One row a claim: what was asked, verdict, figure, and a link to its table."""
    lines = results("promise_bars")
    rows = [_claim(line) for line in lines if not line["asked"].startswith(BY_SOURCES)]
    by_sources = [line for line in lines if line["asked"].startswith(BY_SOURCES)]
    if by_sources:
        rows.append(_claim_by_sources(by_sources))
    rows.append(_claim_of_families(results))
    return table(("claim", "asked", "verdict", "figure", ""), rows)


def _link(heading: str) -> str:
    return f"[table]({TABLES}#{heading})"


def _claim(line: Line) -> tuple[str, ...]:
    new, old = (line[code].split(", ×")[0] for code in ("new", "old"))
    told = f"{new}; before {old}" if old else new
    data = "real sites" in line["asked"] or "stroke" in line["asked"]
    return (
        line["asked"],
        line["bar"],
        MET[line["met"]],
        told,
        _link("real-sites" if data else "bars"),
    )


def _claim_by_sources(lines: Sequence[Line]) -> tuple[str, ...]:
    missed = [line["asked"].removeprefix(BY_SOURCES) for line in lines if line["met"] == "no"]
    ratios = [float(line["new"].partition("× ")[2].partition(",")[0]) for line in lines]
    told = f"{min(ratios):.2f} to {max(ratios):.2f} times the score before"
    verdict = f"{MET['no']} at {len(missed)} of {len(lines)}" if missed else MET["yes"]
    asked = "interval score where nothing is violated, by number of sources"
    return asked, lines[0]["bar"], verdict, told, _link("by-number-of-sources")


def _claim_of_families(results: Results) -> tuple[str, ...]:
    told = [line for line in results("promise_families") if line["coverage_new"] != ""]
    low = _failing(results)
    worst = ", ".join(f"`{line['family']}` {number(line['coverage_new'])}" for line in low[:3])
    figure = (
        f"{len(low)} of {len(told)} fall below, the lowest {worst}" if low else "none falls below"
    )
    asked = "coverage, every family by itself"
    return asked, f"≥ {NAMED_BELOW:.2f}", "reported", figure, _link("where-it-fails")


def _failing(results: Results) -> list[Line]:
    """Families in which the promise holds too rarely, worst first."""
    told = [line for line in results("promise_families") if line["coverage_new"] != ""]
    low = [line for line in told if float(line["coverage_new"]) < NAMED_BELOW]
    return sorted(low, key=lambda line: float(line["coverage_new"]))


# The tables ---------------------------------------------------------------------------------


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
    rows = [
        (
            f"`{line['family']}`, {line['outcome']}",
            line["violates"] or "nothing",
            _cell(line, "_old"),
            _cell(line, "_new"),
            percent(line["use_it"]),
        )
        for line in _failing(results)
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


PAGES: dict[str, dict[str, Block]] = {
    "promise.md": {"claims": claims},
    TABLES: {block.__name__: block for block in (bars, sets, sources, sites, misses)},
}
BLOCKS = {name: block for blocks in PAGES.values() for name, block in blocks.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    for page, blocks in PAGES.items():
        run(__doc__, blocks, page, arguments)


if __name__ == "__main__":
    main()

"""Write the tables of docs/search-evidence.md: no number there is typed by hand.

Only what stands between ``<!-- begin:NAME -->`` and ``<!-- end:NAME -->`` is rewritten.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

import numpy as np
from lib.page import Block, Line, Results, percent, run, table

SEARCHES = {"random": "random", "tpe": "Optuna (`tpe`)", "gp": "Gaussian process"}
SPACES = {
    "logistic": "stroke trial, logistic regression",
    "tree": "stroke trial, decision tree",
    "ridge": "Parkinson's, ridge regression",
}
#: What was asked: at a third of the grid's budget, within 1 % of its best risk, in the median.
THIRD, CLOSE = 1 / 3, 0.01


def _mean(lines: Sequence[Line], key: str) -> float:
    return float(np.mean([float(line[key]) for line in lines]))


def _part(share: str) -> str:
    """A budget over the grid's, in words."""
    words = {6: "a sixth of the grid", 3: "a third", 1: "as many"}
    found = words.get(round(1.0 / float(share)), f"{float(share):.0%}")
    return "two thirds" if abs(float(share) - 2 / 3) < 0.02 else found


def _spaces(results: Results) -> list[str]:
    return list(dict.fromkeys(line["space"] for line in results("search_spaces")))


def criterion(results: Results) -> str:
    """The search at a third of the grid's budget, target by target."""
    rows = []
    for space in _spaces(results):
        for line in results("search_spaces", space=space):
            cells = []
            for how in SEARCHES:
                own = results("search_gaps", space=space, target=line["target"], search=how)
                third = min(own, key=lambda x: abs(float(x["share"]) - THIRD))
                mark = "" if float(third["gap_median"]) <= CLOSE else " **missed**"
                cells.append(
                    f"{percent(third['gap_median'], 2)} ({percent(third['within'])}){mark}"
                )
            where = f"{SPACES[space]}, {line['target']}"
            rows.append(
                (
                    where,
                    f"{third['budget']} of {line['grid']}",
                    *cells,
                    percent(line["share_within"]),
                )
            )
    head = ("space, target", "candidates", *SEARCHES.values(), "space within 1 %")
    return table(head, rows)


def budgets(results: Results) -> str:
    """The median gap at every budget, mean over targets."""
    rows = []
    for space in _spaces(results):
        shares = sorted({line["share"] for line in results("search_gaps", space=space)}, key=float)
        for how, name in SEARCHES.items():
            cells = [
                percent(
                    _mean(results("search_gaps", space=space, search=how, share=x), "gap_median"), 2
                )
                for x in shares
            ]
            rows.append((SPACES[space], name, *cells))
    return table(("space", "search", *map(_part, shares)), rows)


def optimism(results: Results) -> str:
    """What choosing adds to the promise, and how far the promise is off anyway."""
    rows = []
    for space in _spaces(results):
        lines = results("search_optimism", space=space)
        for how, budget in dict.fromkeys((x["search"], x["budget"]) for x in lines):
            own = [x for x in lines if (x["search"], x["budget"]) == (how, budget)]
            worst = max(float(x["optimism_worst"]) for x in own)
            off = np.mean([abs(np.log1p(float(x["promise_over_truth"]))) for x in own])
            name = {"all": "whole lattice", **SEARCHES}[how]
            rows.append(
                (
                    SPACES[space], name, budget, percent(_mean(own, "optimism"), 2),
                    percent(worst, 2), f"× {np.exp(off):.2f}",
                )
            )  # fmt: skip
    head = ("space", "search", "candidates", "optimism, mean", "largest")
    return table((*head, "promise off the truth"), rows)


def verdict(results: Results) -> str:
    """Whether the search passed its bar, in a sentence."""
    own = [x for x in results("search_gaps", search="tpe") if abs(float(x["share"]) - THIRD) < 0.01]
    stroke = [x for x in own if x["space"] != "ridge"]
    met = [x for x in stroke if float(x["gap_median"]) <= CLOSE]
    worst = max(float(x["gap_median"]) for x in stroke)
    return (
        f"Optuna's search, at a third of the grid's budget, came within 1 % of the grid's best "
        f"risk in {len(met)} of {len(stroke)} studies of the stroke trial (median of "
        f"{own[0]['seeds']} seeds); the largest median gap is {percent(worst, 2)}."
    )


def truth(results: Results) -> str:
    """Whether a smaller estimated risk was a smaller loss at the target, in a sentence."""
    own = [x for x in results("search_gaps", search="tpe") if float(x["share"]) == 1.0]
    gain, loss = _mean(own, "gap_median"), _mean(own, "true_over_grid")
    return (
        f"With as many candidates as the grid Optuna's search found an estimated risk that is "
        f"{_beside(gain)} than the grid's best, in the mean over all targets; the loss that "
        f"came true at the target was {_beside(loss)}."
    )


def _beside(share: float) -> str:
    return f"{abs(share):.2%} {'smaller' if share < 0.0 else 'larger'}".replace("%", " %")


BLOCKS: dict[str, Block] = {
    block.__name__: block for block in (verdict, criterion, budgets, truth, optimism)
}


def main(arguments: Sequence[str] | None = None) -> None:
    run(__doc__, BLOCKS, "search-evidence.md", arguments)


if __name__ == "__main__":
    main()

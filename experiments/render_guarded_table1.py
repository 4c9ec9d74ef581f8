"""The blocks of the page on the guarded method that are about Table 1."""

from __future__ import annotations

from collections.abc import Sequence

from guard_table1 import REFERENCES
from guarded_bars import NAMES, below, met, table1_claims
from page import Block, Line, Results, number, table
from table1 import printed as paper_table
from table1_rows import sizes_of


def table1_bars(results: Results) -> str:
    """The bars of Table 1, under every reading."""
    rows = [
        (
            words,
            rival,
            *(f"{count}, {met(count >= need)}" for count, need, _ in counts),
        )
        for words, rival, counts in table1_claims(results)
    ]
    needs = [f"{need} of {n}" for _, need, n in table1_claims(results)[0][2]]
    asked = ("smaller mean than naive", "than FedIW", "than Reference", "smallest spread of all")
    head = [f"{what} (asked: {need})" for what, need in zip(asked, needs, strict=True)]
    return table(("table", "Reference", *head), rows)


def table1(results: Results) -> str:
    """Fresh data, penalty beside a sum."""
    return _fresh(results("guard_table1", penalty="sum"))


def table1_mean(results: Results) -> str:
    """Fresh data, penalty beside a mean."""
    return _fresh(results("guard_table1", penalty="mean"))


def _fresh(lines: Sequence[Line]) -> str:
    methods = ("naive", "fediwe", "feddae", "guarded", "guarded-first", "guarded-plain")
    rows = []
    for line in lines:
        row = [str(sizes_of(line))]
        for method in (*methods, *REFERENCES, "target-mean"):
            told = f"{number(line[f'{method}_mean'])} ± {number(line[f'{method}_sd'])}"
            printed = line.get(f"printed_{method}")
            row.append(f"{told} ({number(printed)})" if printed else told)
        rows.append(row)
    names = (*(NAMES[m] for m in methods), *REFERENCES.values())
    return table(("(n_T, n_1, n_2)", *names, "mean of target's y"), rows)


def resplit(results: Results) -> str:
    """The paper's own protocol and penalty."""
    return _resplit(results("guard_resplit", penalty="sum"))


def resplit_mean(results: Results) -> str:
    """The paper's own protocol, penalty beside a mean."""
    return _resplit(results("guard_resplit", penalty="mean"))


def _resplit(lines: Sequence[Line]) -> str:
    """Averages over data sets of the mean and spread over splits."""
    methods = ("naive", "fediwe", "feddae", "guarded")
    rows = []
    for line in lines:
        row = [str(sizes_of(line))]
        for method in (*methods, *REFERENCES, "target-mean"):
            row.append(f"{number(line[f'{method}_mean'])} ± {number(line[f'{method}_sd'], 3)}")
        for what in ("mean", "sd"):
            value, low, high = (
                float(line[f"{what}_difference{end}"]) for end in ("", "_lower", "_upper")
            )
            row.append(f"{value:+.3f} ({low:+.3f} to {high:+.3f})")
        rows.append(row)
    names = (*(NAMES[m] for m in methods), *REFERENCES.values(), "mean of target's y")
    head = ("(n_T, n_1, n_2)", *names, "guarded − Reference, cross-validated: mean", "spread")
    return table(head, rows)


def resplit_single(results: Results) -> str:
    """What one data set a row can be expected to show."""
    rows = []
    for penalty in ("sum", "mean"):
        lines = results("guard_resplit", penalty=penalty)
        told = [f"beside a {penalty}"]
        for column in SINGLE:
            shares = [float(line[column]) for line in lines]
            told.append(f"{sum(shares):.1f} of {len(lines)}")
        rows.append(told)
    return table(("penalty", *SINGLE.values()), rows)


SINGLE = {
    **{f"mean_below_{m}": f"smaller mean than {NAMES[m]}" for m in ("naive", "fediwe")},
    **{f"mean_below_{m}": f"smaller mean than {name}" for m, name in REFERENCES.items()},
    **{f"sd_smallest_{m}": f"smallest spread, {name} among them" for m, name in REFERENCES.items()},
}


def reach(results: Results) -> str:
    """What the best penalty in hindsight has, under either scale."""
    rows = []
    for penalty in ("sum", "mean"):
        lines = results("guard_reach", penalty=penalty)
        counts = [
            f"{below(lines, 'best-penalty', (rival,), what)} of {len(lines)}"
            for what in ("mean", "sd")
            for rival in REFERENCES
        ]
        rows.append((f"beside a {penalty}", *counts))
    head = [f"{what} than {name}" for what in WHAT for name in REFERENCES.values()]
    return table(("penalty", *head), rows)


WHAT = ("a smaller mean error", "a smaller spread")


def printed_spread(results: Results) -> str:  # noqa: ARG001 - the paper's own numbers
    """How often the paper's method has the smallest spread in the paper's own table."""
    printed = paper_table()
    rivals = ("naive", "fediwe", "reference")
    steady = sum(row["feddae"][1] < min(row[rival][1] for rival in rivals) for row in printed)
    return f"In the printed table itself FedDA has the smallest spread in {steady} of its rows."


TABLE1_BLOCKS: tuple[Block, ...] = (
    table1_bars, table1, table1_mean, reach, resplit, resplit_mean, resplit_single, printed_spread,
)  # fmt: skip

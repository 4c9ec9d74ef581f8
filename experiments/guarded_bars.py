"""The bars of the guarded study beside what was measured, under either rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from common import PAPER_METHODS
from guard_table1 import REFERENCES
from page import Line, Results, number, percent

Claim = tuple[str, str, str, str]


@dataclass(frozen=True)
class Bars:
    """What was asked for before the study was run."""

    worst: float = 1.10
    geometric_mean: float = 0.97
    far_weight: float = 0.05
    refusals: float = 0.95
    refusals_from: float = 2.0
    false_refusals: float = 0.02
    coverage: tuple[float, float] = (0.93, 0.98)
    gap_ratio: float = 0.75


BARS = Bars()
#: Ending of a table's name -> the method's name in tables that hold both rules.
RULES = {"": "guarded", "_first": "guarded-first"}
NAMES = {
    "guarded": "**guarded**",
    "guarded-first": "guarded, first rule",
    "guarded-plain": "guarded, plain training only",
    "naive": "naive",
    "fediwe": "FedIW",
    "feddae": "FedDA",
    "single": "best single source by overlap",
    "naive-split": "naive, the paper's split",
    "fediwe-split": "FedIW, the paper's split",
    "feddae-split": "FedDA, the paper's split",
}


def met(condition: bool) -> str:
    return "met" if condition else "**missed**"


def claims(results: Results, rule: str) -> list[Claim]:
    """What was asked, the bar, what was measured under a rule, and whether that is enough."""
    rows: list[Claim] = []
    for kind, words in (
        ("all", "all {} families"),
        ("not violating", "all {} families that violate no assumption"),
        ("answered", "the {} of them where an answer is given"),
    ):
        line = results.one("guard_sets", set=kind, method=RULES[rule])
        for footing, note in (("_split", "; rivals as printed"), ("", "; equal footing")):
            label = words.format(line["families"]) + note
            worst = float(line[f"worst{footing}"])
            mean = float(line[f"geometric_mean{footing}"])
            rows.append(
                (
                    f"risk over the best of the four, worst family: {label}",
                    f"≤ {BARS.worst:.2f}",
                    f"{worst:.3f} (`{line[f'worst_family{footing}']}`)",
                    met(worst <= BARS.worst),
                )
            )
            rows.append(
                (
                    f"the same, geometric mean: {label}",
                    f"≤ {BARS.geometric_mean:.2f}",
                    f"{mean:.3f}",
                    met(mean <= BARS.geometric_mean),
                )
            )
    # Neither these weights nor these refusals depend on the candidate or on noise numbers.
    rows += [_far_weight(results), _refusals(results), _false_refusals(results, rule)]
    rows += [_coverage(results, rule), _real_gap(results, rule)]
    return rows


def _far_weight(results: Results) -> Claim:
    lines = results("guard_case1")
    largest = max(float(line["far_weight_max"]) for line in lines)
    return (
        f"weight of Case 1's far source, largest of all runs in {len(lines)} rows of sizes",
        f"< {percent(BARS.far_weight)}",
        percent(largest, 1),
        met(largest < BARS.far_weight),
    )


def _refusals(results: Results) -> Claim:
    away = [x for x in results("guard_case2") if float(x["c"]) >= BARS.refusals_from]
    least = min(float(line["no_overlap"]) for line in away)
    return (
        f"refusals in Case 2, c ≥ {BARS.refusals_from:g}, least of {len(away)} values of c",
        f"≥ {percent(BARS.refusals)}",
        percent(least),
        met(least >= BARS.refusals),
    )


def _false_refusals(results: Results, rule: str) -> Claim:
    line = results.one(f"guard_coverage{rule}", set="friendly", status="no overlap")
    share = float(line["share"])
    return (
        "refusals in friendly families",
        f"≤ {percent(BARS.false_refusals)}",
        percent(share, 1),
        met(share <= BARS.false_refusals),
    )


def _coverage(results: Results, rule: str) -> Claim:
    line = results.one(f"guard_coverage{rule}", set="not violating", status="ok")
    low, high = BARS.coverage
    return (
        "coverage of the 95 % interval under `ok`",
        f"{low:.2f} to {high:.2f}",
        f"{number(line['coverage'], 3)} ({line['runs']} runs)",
        met(low <= float(line["coverage"]) <= high),
    )


#: Penalty and protocol -> how they are called, in the order in which they were asked.
TABLE1 = {
    ("mean", "guard_table1"): "as first asked: fresh data, penalty beside a mean",
    ("mean", "guard_resplit"): "one data set cut again and again, penalty beside a mean",
    ("sum", "guard_table1"): "fresh data, penalty beside a sum",
    ("sum", "guard_resplit"): "one data set cut again and again, penalty beside a sum",
}
PLAIN = ("naive", "fediwe")


def table1_claims(results: Results) -> list[tuple[str, str, list[tuple[int, int, int]]]]:
    """Of every reading and Reference, the rows that are ahead, those asked for, and all.

    Ahead by a smaller mean than naive's, FedIW's and Reference's, and by the smallest spread.
    """
    told = []
    for (penalty, name), words in TABLE1.items():
        lines = results(name, penalty=penalty)
        n = len(lines)
        for reference, rival in REFERENCES.items():
            counts = [(below(lines, "guarded", (m,), "mean"), n, n) for m in PLAIN]
            counts.append((below(lines, "guarded", (reference,), "mean"), n // 2 + 1, n))
            counts.append((below(lines, "guarded", (*PAPER_METHODS, reference), "sd"), n, n))
            told.append((words, rival, counts))
    return told


def below(lines: Sequence[Line], ours: str, rivals: Sequence[str], what: str) -> int:
    """Rows in which a method has less than all rivals."""
    return sum(
        float(x[f"{ours}_{what}"]) < min(float(x[f"{rival}_{what}"]) for rival in rivals)
        for x in lines
    )


def _real_gap(results: Results, rule: str) -> Claim:
    line = results.one(f"guard_real{rule}", data_set="stroke")
    what = "mean distance of promised from realised Brier loss, over naive's"
    return (
        f"stroke trial, {line['sites']} countries: {what}",
        f"< {BARS.gap_ratio:.2f}",
        number(line["gap_ratio"]),
        met(float(line["gap_ratio"]) < BARS.gap_ratio),
    )

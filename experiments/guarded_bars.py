"""The bars of the guarded study beside what was measured, under either rule."""

from __future__ import annotations

from dataclasses import dataclass

from page import Results, number, percent

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
    rows += [_coverage(results, rule), *_table1_claims(results, rule), _real_gap(results, rule)]
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


#: The first is the yardstick that was asked for; the second was added after it had been lost to.
REFERENCES = {
    "reference-tuned": "Reference, cross-validated",
    "reference": "Reference by a 7:3 hold-out (added after the line above was known)",
}


def _table1_claims(results: Results, rule: str) -> list[Claim]:
    lines, ours = results("guard_table1"), RULES[rule]
    rows: list[Claim] = []
    for method in ("naive", "fediwe", "reference-tuned", "reference"):
        wins = sum(float(x[f"{ours}_mean"]) < float(x[f"{method}_mean"]) for x in lines)
        need = len(lines) // 2 + 1 if method in REFERENCES else len(lines)
        name = REFERENCES.get(method) or NAMES[method]
        rows.append(
            (
                f"rows of Table 1 with a smaller mean error than {name}",
                f"≥ {need} of {len(lines)}",
                f"{wins} of {len(lines)}",
                met(wins >= need),
            )
        )
    rivals = ("naive", "fediwe", "feddae", "reference-tuned")
    steady = sum(
        float(x[f"{ours}_sd"]) < min(float(x[f"{rival}_sd"]) for rival in rivals) for x in lines
    )
    among = sum(
        float(x[f"{ours}_sd"]) < min(float(x[f"{rival}_sd"]) for rival in rivals[:-1])
        for x in lines
    )
    told = f"{steady} of {len(lines)} ({among} without Reference)"
    name = "rows of Table 1 with the smallest spread of all"
    rows.append((name, f"{len(lines)} of {len(lines)}", told, met(steady == len(lines))))
    return rows


def resplit_claims(results: Results) -> list[Claim]:
    """The bars of Table 1 under the paper's own protocol; of the present rule alone."""
    lines = results("guard_resplit")
    n = len(lines)

    def wins(rivals: tuple[str, ...], what: str) -> int:
        mine = f"guarded_{what}"
        return sum(float(x[mine]) < min(float(x[f"{r}_{what}"]) for r in rivals) for x in lines)

    rows: list[Claim] = []
    for method, need in (("naive", n), ("fediwe", n), ("reference", n // 2 + 1)):
        count = wins((method,), "mean")
        name = NAMES.get(method) or REFERENCES["reference-tuned"]
        what = f"rows of Table 1, re-split, with a smaller mean error than {name}"
        rows.append((what, f"≥ {need} of {n}", f"{count} of {n}", met(count >= need)))
    steady = wins(("naive", "fediwe", "feddae", "reference"), "sd")
    what = "rows of Table 1, re-split, with the smallest spread of all"
    rows.append((what, f"{n} of {n}", f"{steady} of {n}", met(steady == n)))
    return rows


def _real_gap(results: Results, rule: str) -> Claim:
    line = results.one(f"guard_real{rule}", data_set="stroke")
    what = "mean distance of promised from realised Brier loss, over naive's"
    return (
        f"stroke trial, {line['sites']} countries: {what}",
        f"< {BARS.gap_ratio:.2f}",
        number(line["gap_ratio"]),
        met(float(line["gap_ratio"]) < BARS.gap_ratio),
    )

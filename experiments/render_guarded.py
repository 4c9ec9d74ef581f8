"""Write the tables of docs/guarded.md from the results: no number on that page is typed by hand.

Only what stands between ``<!-- begin:NAME -->`` and ``<!-- end:NAME -->`` is rewritten.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from guarded_bars import NAMES, RULES, claims
from page import Block, Line, Results, number, percent, run, table
from render_guarded_table1 import TABLE1_BLOCKS


def criteria(results: Results) -> str:
    """Every bar beside what was measured, and what the first rule had on the same seeds."""
    both = [claims(results, rule) for rule in RULES]
    rows = []
    for now, first in zip(*both, strict=True):
        rows.append((*now, ", ".join(filter(None, first[2:]))))
    return table(("promise", "bar", "measured", "", "first rule, same seeds"), rows)


def sets(results: Results) -> str:
    """Worst and average ratio of every method, by set."""
    shown = ("answered", "not violating", "violates")
    rows = []
    for method, name in NAMES.items():
        row = [name]
        for kind in shown:
            line = results.one("guard_sets", set=kind, method=method)
            row += [number(line["worst"]), number(line["geometric_mean"], 3)]
        rows.append(row)
    rows.append(["oracle, which knows the outcomes", *_oracle(results, shown)])
    counts = [results.one("guard_sets", set=kind, method="guarded")["families"] for kind in shown]
    names = ("an answer is given", "no assumption violated", "violated")
    head = [""]
    for count, name in zip(counts, names, strict=True):
        head += [f"{name} ({count}): worst", "mean"]
    return table(head, rows)


#: As in the study: tags of the families in every set that is shown.
TAGS = {
    "answered": ("friendly", "shift", "wrong-model", "far"),
    "not violating": ("friendly", "shift", "wrong-model", "far", "no-overlap"),
    "violates": ("violates",),
}


def _oracle(results: Results, shown: Sequence[str]) -> list[str]:
    """Worst and average ratio of the best mixture of all models sent to the best of the four."""
    row = []
    for kind in shown:
        lines = [line for line in results("guard_families") if line["tag"] in TAGS[kind]]
        ratios = [float(over_best(line, "oracle")) for line in lines]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        row += [f"{max(ratios):.2f}", f"{mean:.3f}"]
    return row


def families(results: Results) -> str:
    """One line a family."""
    rows = [
        (
            f"`{line['family']}`",
            line["tag"],
            NAMES[line["best"]],
            f"{number(line['ratio'], 3)} ± {number(line['ratio_se'], 3)}",
            number(over_best(line, "guarded-first"), 3),
            number(line["ratio_plain"], 3),
            number(line["over_oracle"], 2),
            *(line[k] for k in ("ok", "sources_disagree", "weak_overlap", "no_overlap")),
            number(line["covered"]),
        )
        for line in results("guard_families")
    ]
    head = ("family", "tag", "best of the four", "guarded / best ± se", "first rule / best")
    head = (*head, "plain / best")
    verdicts = ("ok", "disagree", "weak", "none", "covered")
    return table((*head, "guarded / oracle", *verdicts), rows)


def over_best(line: Line, method: str) -> str:
    return str(float(line[f"mse_{method}"]) / float(line[f"mse_{line['best']}"]))


def promises(results: Results) -> str:
    """By tag, and for every violating family: how far promises are off under either rule."""
    lines = results("guard_promises")
    groups = {tag: [x for x in lines if x["tag"] == tag] for tag in dict.fromkeys(_tags(lines))}
    groups.pop("no-overlap", None)
    groups |= {f"`{x['family']}`": [x] for x in groups.get("violates", [])}
    rows = []
    for name, members in groups.items():
        row = [name]
        for key in ("promised_over_true", "off_by_factor", "covered"):
            for rule in RULES:
                row.append(number(_average(members, f"{key}{rule}", f"answers{rule}"), 2))
        rows.append(row)
    head = ["families"]
    for what in ("promised / true", "off by a factor", "covered"):
        head += [what, "first rule"]
    return table(head, rows)


def _tags(lines: Iterable[Line]) -> list[str]:
    return [line["tag"] for line in lines]


def _average(lines: Sequence[Line], key: str, count: str) -> str:
    """Over answers; of logarithms, but for shares."""
    told = [(float(x[key]), float(x[count])) for x in lines if x[key]]
    if not told:
        return ""
    total = sum(weight for _, weight in told)
    if key.startswith("covered"):
        return str(sum(value * weight for value, weight in told) / total)
    return str(math.exp(sum(math.log(value) * weight for value, weight in told) / total))


def coverage(results: Results) -> str:
    """The interval by verdict, under the rule and under the first one."""
    rows = []
    for rule, kind in itertools.product(RULES, ("not violating", "violates")):
        for line in results(f"guard_coverage{rule}", set=kind):
            rows.append(
                (
                    NAMES[RULES[rule]],
                    kind,
                    f"`{line['status']}`",
                    f"{line['runs']} ({percent(line['share'])})",
                    number(line["coverage"], 3),
                    line["too_low"] if line["coverage"] else "–",
                    line["too_high"] if line["coverage"] else "–",
                    number(line["half_width_factor"]),
                    f"{number(line['over_oracle_median'])} ({number(line['over_oracle_p90'])})",
                )
            )
    head = ("rule", "families", "verdict", "runs", "coverage", "risk above", "risk below")
    head = (*head, "half-width ×")
    return table((*head, "over oracle: median (90 %)"), rows)


def case1(results: Results) -> str:
    rows = [
        (
            f"({line['n_target']}, {line['n_1']}, {line['n_2']})",
            percent(line["far_weight_mean"], 2),
            percent(line["far_weight_max"], 2),
        )
        for line in results("guard_case1")
    ]
    return table(("(n_T, n_1, n_2)", "mean weight of the far source", "largest"), rows)


def case2(results: Results) -> str:
    keys = ("no_overlap", "weak_overlap", "sources_disagree", "ok")
    rows = [
        (f"{float(line['c']):g}", *(percent(line[key]) for key in keys))
        for line in results("guard_case2")
    ]
    return table(("c", *(f"`{key.replace('_', ' ')}`" for key in keys)), rows)


def losses(results: Results) -> str:
    rows = [
        (
            line["loss"] + (", first rule" if rule else ""),
            line["kind"],
            line["model"],
            line["set"],
            f"`{line['status']}`" if line["status"] != "all" else "all",
            line["runs"],
            number(line["coverage"], 3),
            number(line["below_upper"], 3),
            number(line["promised_over_true"]),
            number(line["half_width_factor"]),
        )
        for rule in RULES
        for line in results(f"guard_losses{rule}")
        if not rule or (line["kind"] == "exact" and line["status"] == "all")
    ]
    head = ("loss", "kind", "model", "families", "verdict", "runs", "coverage", "below upper end")
    return table((*head, "promised / true", "half-width ×"), rows)


def real(results: Results) -> str:
    rows = [
        (
            line["data_set"],
            NAMES[RULES[rule]],
            f"{line['sites']} ({line['rows']})",
            f"{float(line['gap_guarded']):.3g} / {float(line['gap_naive']):.3g}",
            number(line["gap_ratio"]),
            " / ".join(f"{float(line[f'gap_{name}']):.3g}" for name in ("average", "middle")),
            " / ".join(
                f"{float(line[f'realised_{name}']):.3g}"
                for name in ("guarded", "naive", "own_model", "constant")
            ),
            number(line["regret"]),
            f"{number(line['coverage'])} / {number(line['kept'])}",
            " / ".join(
                line[key] for key in ("ok", "sources_disagree", "weak_overlap", "no_overlap")
            ),
            line["backtest"],
        )
        for rule in RULES
        for line in results(f"guard_real{rule}")
    ]
    return table(
        (
            "data",
            "rule",
            "sites (rows)",
            "promise off by: guarded / naive",
            "ratio",
            "had F / the interval's middle been promised",
            "realised: guarded / naive / own model / constant",
            "regret",
            "covered / kept",
            "ok / disagree / weak / none",
            "back-test",
        ),
        rows,
    )


def backtest(results: Results) -> str:
    rows = []
    first = [{**line, "rule": ", first rule"} for line in results("guard_backtest_sets_first")]
    for line in (*results("guard_backtest"), *results("guard_backtest_sets"), *first):
        name = f"`{line['family']}`" if "family" in line else f"**all {line['set']}**"
        name += line.get("rule", "")
        rows.append(
            (
                name,
                line["set"],
                *(percent(line[verdict]) for verdict in ("passed", "failed", "untested")),
                f"{percent(line['ok'])} ({number(line['ok_coverage'])})",
                f"{percent(line['ok_and_passed'])} ({number(line['ok_and_passed_coverage'])})",
            )
        )
    head = ("family", "set", "passed", "failed", "untested", "`ok` (coverage)")
    return table((*head, "`ok` and passed (coverage)"), rows)


BLOCKS: dict[str, Block] = {
    block.__name__: block
    for block in (
        criteria, sets, families, coverage, promises, case1, case2, losses, *TABLE1_BLOCKS, real,
        backtest,
    )
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    run(__doc__, BLOCKS, "guarded.md", arguments)


if __name__ == "__main__":
    main()

"""Write docs/reproduction.md from the results: no number on that page is typed by hand.

Only what stands between ``<!-- begin:NAME -->`` and ``<!-- end:NAME -->`` is rewritten.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from math import prod
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

import numpy as np
from lib.page import NAMES, Block, Line, Results, interval, number, percent, run, short, table
from lib.paper_cases import FLOOR, METHODS, PRINTED_METHODS
from lib.paper_claims import all_claims, printed_below_floor
from lib.paper_page_real import real, real_sites, real_verdicts, real_words

SCRIPTS = (
    "table1",
    "table1_reading",
    "figure2",
    "parkinsons_tables",
    "theorems",
    "readings",
    "collapse",
    "real_studies",
)


def claims(results: Results) -> str:
    rows = [(c.where, c.text, f"**{c.verdict}**", c.figure, c.reason) for c in all_claims(results)]
    return table(("where", "claim", "verdict", "figure (95 % interval)", "reason"), rows)


def floor(results: Results) -> str:
    return printed_below_floor(results, FLOOR)


# Table 1 ------------------------------------------------------------------------------------


def table1(results: Results) -> str:
    rows = []
    for line in results("table1"):
        row = [f"({line['n_target']}, {line['n_1']}, {line['n_2']})"]
        for method in PRINTED_METHODS:
            told = f"{number(line[f'{method}_mean'])} ± {number(line[f'{method}_sd'])}"
            row.append(f"{told} ({number(line[f'{method}_printed'])})")
        rows.append(row)
    return table(("(n_T, n_1, n_2)", *(NAMES[m] for m in PRINTED_METHODS)), rows)


def table1_paired(results: Results) -> str:
    rows = []
    for line in results("table1_paired", row="all"):
        own = [x for x in results("table1_paired", rival=line["rival"]) if x["row"] != "all"]
        below, above = (_count(own, "difference", 0.0, way) for way in ("below", "above"))
        narrow, wide = (_count(own, "spread_ratio", 1.0, way) for way in ("below", "above"))
        rows.append(
            (
                f"FedDA − {NAMES[line['rival']]}",
                interval(line, "difference"),
                f"{below} / {above} / {len(own) - below - above}",
                f"{narrow} / {wide} / {len(own) - narrow - wide}",
            )
        )
    head = ("", "difference, mean of all rows", "rows clearly better / worse / open")
    return table((*head, "spread clearly smaller / larger / open"), rows)


def _count(lines: Sequence[Line], key: str, null: float, way: str) -> int:
    if way == "below":
        return sum(float(x[f"{key}_upper"]) < null for x in lines)
    return sum(float(x[f"{key}_lower"]) > null for x in lines)


def _kinds(results: Results) -> list[str]:
    return list(dict.fromkeys(line["folds"] for line in results("table1_resplit")))


def resplit(results: Results) -> str:
    rows = []
    for method in PRINTED_METHODS:
        for folds in _kinds(results):
            own = results("table1_resplit", method=method, folds=folds)
            quantiles = np.array([float(x["quantile"]) for x in own])
            spreads = [float(x["sd_median"]) for x in own]
            rows.append(
                (
                    NAMES[method],
                    folds,
                    f"{(quantiles == 0).sum()} / {(quantiles == 1).sum()}",
                    number(float(np.median(quantiles))),
                    number(float(np.median(spreads))),
                    number(float(np.median([float(x["printed_sd"]) for x in own]))),
                    percent(float(np.mean([float(x["share_best"]) for x in own]))),
                )
            )
    head = ("method", "sources' folds", "printed mean below / above all data sets")
    middle = ("median quantile of the printed mean", "spread over splits: ours, median")
    last = ("printed, median", "data sets in which it has the best mean")
    return table((*head, *middle, *last), rows)


def resplit_words(results: Results) -> str:
    told = []
    for folds in _kinds(results):
        own = results("table1_resplit", method="feddae", folds=folds)
        n = int(own[0]["data_sets"])
        # half a data set added, so that none in n is not taken for never
        chance = prod((float(x["share_best"]) * n + 0.5) / (n + 1.0) for x in own)
        told.append(f"{short(chance)} ({folds}, {n} data sets a row)")
    return (
        f"Were every row of the table one data set, FedDA would have the best mean in all "
        f"{len(own)} rows with a chance of {', '.join(told)}."
    )


def penalty(results: Results) -> str:
    """How the ridge regression is written, judged by the printed table."""
    rows = []
    for line in results("table1_penalty"):
        below = float(line["log10_below_best"])
        told = "below $10^{-100}$" if below > 100.0 else f"$10^{{-{below:.0f}}}$" if below else "1"
        known = f"{percent(line['recognised'])} of {line['tables']}"
        rows.append((line["intercept"], line["penalty"], told, known))
    head = ("intercept", "penalty beside a", "likelihood, the largest being 1")
    return table((*head, "such tables that are recognised"), rows)


def penalty_evidence(results: Results) -> str:
    """How far the preference for a sum can be trusted."""
    lines = results("table1_evidence")
    settings = list(dict.fromkeys((x["width"], x["left_out"]) for x in lines))
    rows = []
    for choice in dict.fromkeys(x["reference"] for x in lines):
        mine = {
            (x["width"], x["left_out"]): x["decades"] for x in lines if x["reference"] == choice
        }
        rows.append((choice, *(f"{float(mine[setting]):.1f}" for setting in settings)))
    words = []
    for width, left_out in settings:
        kernel = "" if float(width) == 1.0 else f"kernels × {float(width):g}"
        without = f"without the loudest {left_out} of the rows" if int(left_out) else ""
        words.append(kernel or without or "as above")
    return table(("penalty of Reference chosen by", *words), rows)


def penalty_columns(results: Results) -> str:
    """The same column by column, with what else is open."""
    rows = [
        (
            NAMES[line["column"]],
            line["intercept"],
            line["penalty"],
            line["choice"],
            number(line["log_likelihood"], 1),
            line["outside"],
            f"{number(line['mean'])} ({number(line['printed_mean'])})",
            f"{number(line['spread'])} ({number(line['printed_spread'])})",
        )
        for line in results("table1_reading")
    ]
    head = ("column", "intercept", "penalty", "folds, or choice of the penalty", "log likelihood")
    return table((*head, "rows outside all data sets", "mean (printed)", "spread (printed)"), rows)


# Figure 2 and Parkinson's -------------------------------------------------------------------


def figure2(results: Results) -> str:
    rows = [
        (
            number(line["c"], 1),
            *(interval(line, f"{method}_mean") for method in METHODS),
            interval(line, "ratio"),
            percent(line["refused"]),
        )
        for line in results("figure2")
    ]
    return table(("c", *(NAMES[m] for m in METHODS), "FedIW / FedDA", "default refuses"), rows)


def parkinsons(results: Results) -> str:
    rows = []
    for line in results("parkinsons_one"):
        every = results.one(
            "parkinsons_all", **{key: line[key] for key in ("table", "scaling", "method")}
        )
        comparable = line["scaling"] == "patient" and line["printed_mean"]
        printed = " / ".join(line[f"printed_{key}"] for key in ("mean", "sd", "worst"))
        rows.append(
            (
                line["table"].replace("table", "Table "),
                line["scaling"],
                NAMES[line["method"]],
                " / ".join(number(line[key], 3) for key in ("mean", "sd", "worst")),
                printed if comparable else "",
                interval(every, "mean", 3),
                f"{every['best']} of {every['patients']}",
            )
        )
    head = ("table", "scaling", "method", "one patient: mean / sd / worst", "printed")
    return table((*head, "all patients: mean", "best for"), rows)


# Theorems -----------------------------------------------------------------------------------


def theorems(results: Results) -> str:
    shown = {"fediwe": "FedIWE", "equal": "FedLE, equal", "feddae": "FedDAE"}
    rows = [
        (
            line["ratios"],
            line["n"],
            shown[line["estimate"]],
            interval(line, "bias", 3),
            interval(line, "n_variance"),
            number(line["limit"]),
            number(line["bias_over_sd"]),
        )
        for line in results("theorems_runs")
        if line["estimate"] in shown
        and int(line["n"]) in _ends(results("theorems_runs", ratios=line["ratios"]))
    ]
    head = ("ratios", "n", "estimate", "bias", "n · variance", "its limit", "bias / sd")
    return table(head, rows)


def _ends(lines: Sequence[Line]) -> tuple[int, int]:
    sizes = [int(line["n"]) for line in lines]
    return min(sizes), max(sizes)


def theorem_models(results: Results) -> str:
    rows = [(x["model"], number(x["target_risk"])) for x in results("theorems_models")]
    return table(("line", "target risk"), rows)


# Readings, collapse -------------------------------------------------------------------------


def readings(results: Results) -> str:
    rows = [
        (x["claim"], x["readings"], *(percent(x[key]) for key in ("holds", "clearly", "refuted")))
        for x in results("readings_claims")
    ]
    return table(("claim", "readings", "holds in the means", "clearly", "refuted"), rows)


def reading_choices(results: Results) -> str:
    """Mean error of the methods by every choice, over all other choices."""
    lines = results("readings")
    rows = []
    for choice in ("intercept", "penalty", "folds", "grid", "clip"):
        for value in dict.fromkeys(line[choice] for line in lines if line[choice]):
            own = [line for line in lines if line[choice] == value]
            means = [
                number(float(np.mean([float(x[f"mean_{m}"]) for x in own])))
                for m in PRINTED_METHODS
            ]
            rows.append((choice, value, str(len(own)), *means))
    return table(("choice", "", "readings", *(NAMES[m] for m in PRINTED_METHODS)), rows)


def collapse(results: Results) -> str:
    rows = []
    for line in results("collapse"):
        rows.append(
            (
                line["setting"],
                line["weighting"].replace("feddae", "FedDA").replace("naive", "Naive, FedIW"),
                percent(line["far_weight"]),
                percent(line["collapsed"]),
                number(line["error_collapsed"]),
                number(line["error_otherwise"]),
                percent(line["refused"]) if line["weighting"] == "default" else "",
            )
        )
    head = ("setting", "weighting", "mean weight of the far source", "it has most of the weight")
    return table((*head, "error then", "error otherwise", "refused"), rows)


def provenance(results: Results) -> str:
    rows = []
    for script in SCRIPTS:
        text = (results.folder / f"{script}.provenance.json").read_text(encoding="utf-8")
        told = json.loads(text)
        settings = told["settings"]
        seed = settings.get("first_seed", settings.get("seed"))
        versions = ", ".join(f"{name} {v}" for name, v in told["packages"].items())
        chosen = ", ".join(
            f"{key} {value}"
            for key, value in settings.items()
            if value is not None and key not in ("first_seed", "seed")
        )
        commit, _, mark = told.get("commit", "–").partition("-")
        commit = f"{commit[:10]} {mark}".strip()
        rows.append((f"`{script}.py`", commit, str(seed), f"`{chosen}`", versions))
    return table(("script", "commit", "first seed", "settings", "versions"), rows)


BLOCKS: dict[str, Block] = {
    block.__name__: block
    for block in (
        claims, floor, table1, table1_paired, resplit, resplit_words, penalty, penalty_evidence,
        penalty_columns, figure2, parkinsons, theorems, theorem_models, readings, reading_choices,
        collapse, real, real_words, real_verdicts, real_sites, provenance,
    )
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    run(__doc__, BLOCKS, "reproduction.md", arguments)


if __name__ == "__main__":
    main()

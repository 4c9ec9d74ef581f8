"""The long tables behind the claims: docs/reproduction-tables.md, every section from one result."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from lib.page import NAMES, Block, Line, Results, interval, number, percent, short, table
from lib.paper_cases import METHODS, PRINTED_METHODS
from lib.paper_readings import FACTORS, NAMED


@dataclass(frozen=True)
class Section:
    """A table of the page: its heading, what it tells in a sentence, its figures."""

    title: str
    words: str
    block: Block
    figures: Mapping[str, str] | None = None  # file -> what it shows

    @property
    def anchor(self) -> str:
        """As GitHub and MyST make it from the heading."""
        return re.sub(r"[^\w\- ]", "", self.title.lower()).replace(" ", "-")


def page(sections: Mapping[str, Section], results: Results) -> str:
    """The whole page.

    Parameters
    ----------
    sections : mapping of str to Section
        By the name of the result table.
    results : Results
    """
    parts = [
        "<!-- Written by experiments/paper/write_reproduction.py; edit that script's library. -->",
        "# Tables of the reproduction",
        "What the [claims](reproduction.md) rest on. Every number is in `experiments/results`.",
    ]
    for name, section in sections.items():
        parts += [f"## {section.title}", f"{section.words} (`{name}.csv`)"]
        figures = section.figures or {}
        parts += [f"![{shown}](generated/figures/{file}.svg)" for file, shown in figures.items()]
        parts.append(section.block(results))
    return "\n\n".join(parts) + "\n"


# Table 1 ------------------------------------------------------------------------------------


def readings_claims(results: Results) -> str:
    """A line a claim."""
    keys = ("readings", "in_every_row", "in_three_quarters", "most_rows", "as_printed", "kindest")
    rows = [
        (x["claim"], *(x[key] for key in (*keys, "kindest_hold_out")), x["all_with"])
        for x in results("readings_claims")
    ]
    head = ("claim", "readings", "come out in all rows", "in three quarters", "most rows")
    last = ("rows as printed", "kindest", "kindest, hold-out", "readings with most rows share")
    return table((*head, *last), rows)


def readings(results: Results) -> str:
    """Means over all readings with one choice."""
    lines = results("readings")
    rows = []
    for factor, values in FACTORS.items():
        for value in values:
            own = [line for line in lines if line[factor] == value]
            rows.append((factor.replace("_", " "), value, *_averages(own)))
    for name, reading in NAMED.items():
        own = [x for x in lines if all(x[factor] == value for factor, value in reading.items())]
        rows.append((f"**{name}**", "", *_averages(own)))
    head = ("choice", "", "readings", *(NAMES[m] for m in PRINTED_METHODS))
    return table((*head, "rows with FedDA best", "far source leads"), rows)


def _averages(lines: Sequence[Line]) -> list[str]:
    means = [float(np.mean([float(x[m]) for x in lines])) for m in PRINTED_METHODS]
    best = float(np.mean([float(x["best"]) for x in lines]))
    leads = float(np.mean([float(x["far_leads"]) for x in lines]))
    return [str(len(lines)), *(number(m) for m in means), number(best, 1), percent(leads)]


def table1(results: Results) -> str:
    """The two named readings beside the printed values."""
    by = {name: results("table1", reading=name) for name in ("as printed", "kindest")}
    rows = []
    for first, second in zip(by["as printed"], by["kindest"], strict=True):
        row = [f"({first['n_target']}, {first['n_1']}, {first['n_2']})"]
        for method in PRINTED_METHODS:
            told = [
                f"{number(x[f'{method}_mean'])} ± {number(x[f'{method}_sd'])}"
                for x in (first, second)
            ]
            row.append(" / ".join([*told, f"**{number(first[f'{method}_printed'])}**"]))
        rows.append(row)
    return table(("(n_T, n_1, n_2)", *(NAMES[m] for m in PRINTED_METHODS)), rows)


def recut(results: Results) -> str:
    """Where the printed means stand."""
    rows = []
    for reading in ("as printed", "kindest"):
        for method in PRINTED_METHODS:
            own = results("recut", reading=reading, method=method)
            quantiles = np.array([float(x["quantile"]) for x in own])
            rows.append(
                (
                    reading,
                    NAMES[method],
                    number(float(np.mean([float(x["mean"]) for x in own]))),
                    number(float(np.mean([float(x["printed"]) for x in own]))),
                    f"{(quantiles == 0).sum()} / {(quantiles == 1).sum()}",
                    number(float(np.median(quantiles))),
                    percent(float(np.mean([float(x["share_best"]) for x in own]))),
                )
            )
    head = ("reading", "method", "mean of all rows", "printed", "printed below / above all sets")
    return table((*head, "median quantile", "data sets in which it is best"), rows)


def level(results: Results) -> str:
    """FedDA's printed column."""
    rows = [
        (
            x["rule"],
            f"{number(x['mean_z'])} ± {number(x['standard_error'])}",
            short(x["kolmogorov_smirnov_p"]),
        )
        for x in results("level")
    ]
    return table(("rule", "mean z of the printed rows", "Kolmogorov–Smirnov p"), rows)


# The rest -----------------------------------------------------------------------------------


def assumption(results: Results) -> str:
    """A line a source."""
    rows = [
        (
            x["source"],
            x["rows"],
            *(_power(x[f"log10_{key}"]) for key in ("sup", "second_moment", "integrated")),
            short(x["effective_rows"]),
        )
        for x in results("assumption")
    ]
    head = ("source", "rows", "sup r", "E[r²]", "E[r²], integrated", "effective rows")
    return table(head, rows)


def _power(text: str) -> str:
    value = float(text)
    if np.isinf(value):
        return "∞"
    return f"10^{value:.1f}"


def figure2(results: Results) -> str:
    """A line a value of c."""
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


def figure2_claims(results: Results) -> str:
    """A line a claim."""
    keys = ("claim", "readings", "come_out", "as_printed", "all_with")
    rows = [[x[key] for key in keys] for x in results("figure2_claims")]
    head = ("claim", "readings", "comes out under", "as printed", "those readings share")
    return table(head, rows)


def parkinsons_one(results: Results) -> str:
    """One patient, many cuts."""
    rows = []
    for line in results("parkinsons_one"):
        told = " / ".join(line[f"printed_{key}"] for key in ("mean", "sd", "worst"))
        rows.append(
            (
                line["table"].replace("table", "Table "),
                f"{line['scaling']}, {line['reading']}",
                NAMES[line["method"]],
                " / ".join(number(line[key], 3) for key in ("mean", "sd", "worst")),
                told if line["scaling"] == "patient" and line["printed_mean"] else "",
            )
        )
    return table(("table", "scaling, reading", "method", "mean / sd / worst", "printed"), rows)


def parkinsons_all(results: Results) -> str:
    """Every patient the target in turn."""
    rows = [
        (
            line["table"].replace("table", "Table "),
            f"{line['scaling']}, {line['reading']}",
            NAMES[line["method"]],
            interval(line, "mean", 3),
            f"{line['best']} of {line['patients']}",
        )
        for line in results("parkinsons_all")
    ]
    return table(("table", "scaling, reading", "method", "mean over patients", "best for"), rows)


def parkinsons_paired(results: Results) -> str:
    """FedDA minus every other method."""
    rows = [
        (
            line["table"].replace("table", "Table "),
            f"{line['reading']}, {line['design']}",
            f"FedDA − {NAMES[line['rival']]}",
            interval(line, "difference", 3),
            interval(line, "spread_ratio"),
        )
        for line in results("parkinsons_paired", scaling="patient")
    ]
    return table(("table", "reading, design", "", "difference", "ratio of spreads"), rows)


def provenance(scripts: Sequence[str], folder: Path) -> str:
    """Where the numbers come from, a line a script.

    Parameters
    ----------
    scripts : sequence of str
    folder : Path
        Of the results.
    """
    rows = []
    for script in scripts:
        told = json.loads((folder / f"{script}.provenance.json").read_text(encoding="utf-8"))
        settings = told["settings"]
        chosen = ", ".join(f"{key} {value}" for key, value in settings.items() if value is not None)
        commit, _, mark = told.get("commit", "–").partition("-")
        rows.append((f"`{script}.py`", f"{commit[:10]} {mark}".strip(), f"`{chosen}`"))
    return table(("script", "commit", "settings"), rows)


SECTIONS: dict[str, Section] = {
    "assumption": Section(
        "The ratio's bound",
        "Both sides are normal, so sup r and E[r²] are known; n rows weighted by the true ratio "
        "are worth about n / E[r²].",
        assumption,
    ),
    "readings_claims": Section(
        "Claims about Table 1 under all readings",
        "In how many of the 20 rows FedDA has the better mean (or spread), 100 draws a row.",
        readings_claims,
    ),
    "table1": Section(
        "Table 1",
        "Mean ± standard deviation over 100 draws: as printed / kindest reading / **in the "
        "paper**. As printed is `preset=\"paper\"`. Kindest: penalty beside a sum, folds 21/49/30, "
        "one bandwidth (the median distance), Reference on 70 % of the target.",
        table1,
        {"table1": "Printed entries beside re-cut and fresh data under the kindest reading"},
    ),
    "readings": Section(
        "Every choice that the paper leaves open",
        "Mean error over all rows of Table 1, averaged over all readings with that choice. "
        "*Far source leads*: FedDA gives it more than half of the weight.",
        readings,
    ),
    "recut": Section(
        "One data set cut again and again",
        "20 data sets a row of Table 1, each cut 7:3 twenty times: where the printed means stand.",
        recut,
    ),
    "level": Section(
        "Level of the printed column of FedDA",
        "The true rule's error is the mean |noise| of the target's rows.",
        level,
    ),
    "figure2": Section(
        "Figure 2",
        "Mean error with its 95 % interval, 40 draws, as printed; the default would refuse.",
        figure2,
        {"figure2a": "Error as the sources move away", "figure2b": "FedIW over FedDA"},
    ),
    "figure2_claims": Section(
        "Claims about Figure 2 under all readings",
        "Significantly: the 95 % interval of every paired difference.",
        figure2_claims,
    ),
    "parkinsons_one": Section(
        "Tables 2 and 3, one patient",
        "40 cuts of the patient with the most rows; errors in standard deviations.",
        parkinsons_one,
    ),
    "parkinsons_all": Section(
        "Tables 2 and 3, all patients",
        "Every patient in turn is the target; *constant* predicts the others' mean.",
        parkinsons_all,
    ),
    "parkinsons_paired": Section(
        "Tables 2 and 3, differences",
        "Per-patient scaling, the only one that reaches the printed level.",
        parkinsons_paired,
        {"parkinsons": "FedDA minus each rival"},
    ),
}  # fmt: skip

"""The figures of the reproduction page, drawn from the tables of results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from lib.page import Results
from lib.paper_cases import FLOOR, METHODS
from lib.plotting import STYLES, panels, save
from matplotlib.figure import Figure

Line = Mapping[str, Any]


def draw_all(results: Path, out: Path) -> None:
    """Draw every figure from the tables in `results` and save it as SVG in `out`."""
    tables = Results(results)
    for name, draw in FIGURES.items():
        save(draw(tables), out, name)


def _numbers(lines: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """The lines of a table with numbers instead of text wherever the text is a number."""
    return [{key: _number(text) for key, text in line.items()} for line in lines]


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


# Table 1 --------------------------------------------------------------------------------------


def draw_table1(results: Results) -> Figure:
    """Printed entries against the re-cut distribution and against fresh data, kindest reading."""
    lines = _numbers(results("recut", reading="kindest"))
    means = _numbers(results("table1", reading="kindest"))
    shown = ("naive", "feddae", "reference")
    figure, axes = panels(len(shown), 3.4, 3.0)
    for axis, method in zip(axes, shown, strict=True):
        mine = [x for x in lines if x["method"] == method]
        at = np.arange(len(mine))
        low, high = ([x[end] for x in mine] for end in ("p05", "p95"))
        axis.vlines(at, low, high, color="#BBBBBB", lw=4, label="re-cut, 5–95 %")
        fresh_means = [line[f"{method}_mean"] for line in means]
        axis.plot(at, fresh_means, ".", color="#0072B2", label="fresh data, mean")
        axis.plot(at, [x["printed"] for x in mine], "x", color="#D55E00", label="printed")
        axis.axhline(FLOOR, color="black", lw=0.8, ls=":", label="true rule, 0.798")
        axis.set_title(STYLES[method]["label"])
        axis.set_xlabel("row of Table 1")
        axis.set_xticks(at[::3], [str(i + 1) for i in at[::3]])
    axes[0].set_ylabel("mean absolute error")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure


# Figure 2 -------------------------------------------------------------------------------------


def draw_means(results: Results) -> Figure:
    """Figure 2a: mean error of every method against c."""
    lines = _numbers(results("figure2"))
    figure, [axis] = panels(1, 5.0, 3.4)
    at = np.array([x["c"] for x in lines])
    for shift, method in enumerate(METHODS):
        mean = np.array([x[f"{method}_mean"] for x in lines])
        low = np.array([x[f"{method}_mean_lower"] for x in lines])
        style = dict(STYLES[method])
        if method == "default":
            style["label"] = "default, if one insists"
        axis.errorbar(at + 0.03 * (shift - 2), mean, mean - low, lw=1.0, capsize=2, **style)
    axis.set_xlabel("distance c of the sources")
    axis.set_ylabel("mean absolute error, 95 % interval")
    axis.set_title("Error as the sources move away")
    axis.legend(loc="upper left")
    return figure


def draw_ratio(results: Results) -> Figure:
    """Figure 2b: mean FedIW over mean FedDA against c."""
    lines = _numbers(results("figure2"))
    figure, [axis] = panels(1, 5.0, 3.0)
    at = np.array([x["c"] for x in lines])
    ratio = np.array([x["ratio"] for x in lines])
    low = np.array([x["ratio_lower"] for x in lines])
    high = np.array([x["ratio_upper"] for x in lines])
    axis.errorbar(at, ratio, (ratio - low, high - ratio), color="#D55E00", marker="o", capsize=2)
    axis.axhline(1.0, color="black", lw=0.8, ls=":")
    axis.set_xlabel("distance c of the sources")
    axis.set_ylabel("mean FedIW / mean FedDA")
    axis.set_title("Above 1 FedDA is better")
    return figure


# Tables 2 and 3 -------------------------------------------------------------------------------


def draw_parkinsons(results: Results) -> Figure:
    """FedDA minus each rival, one patient and all patients, per-patient scaling."""
    lines = _numbers(results("parkinsons_paired", scaling="patient", reading="as printed"))
    models = {"table2": "Weighted least squares", "table3": "Ridge regression"}
    figure, axes = panels(2, 3.9, 2.8, sharey=True)
    rivals = list(dict.fromkeys(x["rival"] for x in lines))
    for axis, (table, model) in zip(axes, models.items(), strict=True):
        for shift, design in ((0.13, "splits of one patient"), (-0.13, "all patients")):
            mine = [
                next(
                    x
                    for x in lines
                    if (x["table"], x["design"], x["rival"]) == (table, design, rival)
                )
                for rival in rivals
            ]
            at = np.arange(len(rivals)) + shift
            mean = np.array([x["difference"] for x in mine])
            half = mean - np.array([x["difference_lower"] for x in mine])
            filled = design.startswith("all")
            axis.errorbar(
                mean, at, xerr=half, fmt="o", capsize=2, label=design,
                color="#D55E00" if filled else "#0072B2",
            )  # fmt: skip
        axis.axvline(0.0, color="black", lw=0.8, ls=":")
        axis.set_yticks(range(len(rivals)), [STYLES[r]["label"] for r in rivals])
        axis.locator_params(axis="x", nbins=5)
        axis.set_xlabel("FedDA minus rival, MAE in sds")
        axis.set_title(model)
    axes[0].legend(loc="best", fontsize=7.5)
    return figure


# Theorems -------------------------------------------------------------------------------------

SHOWN = {
    "fediwe": STYLES["fediwe"] | {"label": "FedIWE"},
    "equal": {"color": "#56B4E9", "marker": "v", "label": "FedLE, equal weights"},
    "feddae": STYLES["feddae"] | {"label": "FedDAE"},
}


def draw_known_ratios(results: Results) -> Figure:
    """Bias and n times variance with known ratios."""
    return _draw_pairs({"known": "Known ratios"}, results)


def draw_estimated_ratios(results: Results) -> Figure:
    """Bias and n times variance with estimated ratios: the proof's, and practical ones."""
    titles = {"consistent": "The proof's uLSIF", "practical": "Practical uLSIF"}
    return _draw_pairs(titles, results)


def _draw_pairs(kinds: Mapping[str, str], results: Results) -> Figure:
    """Bias and n times variance against n, a pair of panels a kind of ratios."""
    lines = _numbers(results("theorems_runs", validation="grows"))
    figure, axes = panels(2 * len(kinds), 3.6, 2.9)
    for index, (kind, name) in enumerate(kinds.items()):
        _draw_pair(axes[2 * index], axes[2 * index + 1], kind, name, lines)
    axes[0].legend(loc="best")
    return figure


def _draw_pair(left: Any, right: Any, kind: str, title: str, lines: Sequence[Line]) -> None:
    for name, style in SHOWN.items():
        mine = [x for x in lines if x["ratios"] == kind and x["estimate"] == name]
        n = np.array([x["n"] for x in mine])
        bias = np.array([x["bias"] for x in mine])
        half = bias - np.array([x["bias_lower"] for x in mine])
        left.errorbar(n, bias, half, capsize=2, lw=1.0, **style)
        scaled = np.array([x["n_variance"] for x in mine])
        low = scaled - np.array([x["n_variance_lower"] for x in mine])
        high = np.array([x["n_variance_upper"] for x in mine]) - scaled
        right.errorbar(n, scaled, (low, high), capsize=2, lw=1.0, **style)
        right.axhline(mine[0]["limit"], color=style["color"], lw=0.8, ls=":")
    left.axhline(0.0, color="black", lw=0.8, ls=":")
    left.set_title(f"{title}: bias")
    right.set_title("n · variance; dotted: theory")
    if kind == "practical":  # FedIWE is far above the others
        right.set_yscale("log")
    ticks = sorted({x["n"] for x in lines if x["ratios"] == kind})
    for axis in (left, right):
        axis.set_xscale("log")
        axis.set_xlabel("n")
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.set_xticks([], minor=True)


FIGURES: dict[str, Callable[[Results], Figure]] = {
    "table1": draw_table1,
    "figure2a": draw_means,
    "figure2b": draw_ratio,
    "parkinsons": draw_parkinsons,
    "theorems_known": draw_known_ratios,
    "theorems_estimated": draw_estimated_ratios,
}

"""What was promised to every source that played the target, and what came true."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from fedcsa.report import words
from fedcsa.report.charts.base import (
    ACCENT,
    DANGER,
    FAINT,
    INK,
    MUTED,
    STYLE,
    Chart,
    height_of,
    names_down,
)

MOST_ROWS = 30


def ordered(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The sources as targets: broken promises first, then by name."""
    rows = content["backtest"]["rows"]
    return sorted(rows, key=lambda row: (outcome(row) != "broken", row["source"]))


def outcome(row: Mapping[str, Any]) -> str:
    """``kept``, ``broken`` or ``not judged``, as the back-test found it."""
    kept = row.get("kept")
    return "not judged" if kept is None else "kept" if kept else "broken"


def text_of(row: Mapping[str, Any]) -> str:
    """A row in words."""
    return (
        f"{words.clean(row['source'])}: promised {words.number(row['promised'])} "
        f"({words.interval(row['lower'], row['upper'])}), realised "
        f"{realised(row)} — {outcome(row)}"
    )


def realised(row: Mapping[str, Any]) -> str:
    """The realised risk, and how far chance may have moved it."""
    if row["realised"] is None or not row["slack"]:
        return words.number(row["realised"])
    return f"{words.number(row['realised'])} ± {words.number(row['slack'])}"


@mpl.rc_context(STYLE)
def draw(content: Mapping[str, Any]) -> Chart:
    """One line a source: the promised interval, and the realised risk."""
    shown = ordered(content)[:MOST_ROWS]
    chart = Chart("Promised and realised risk, each source as the target", height_of(len(shown)))
    axes = chart.panels[0]
    values: list[float] = []
    tones = []
    for y, row in enumerate(shown):
        broken = outcome(row) == "broken"
        tones.append(DANGER if broken else INK if outcome(row) == "kept" else MUTED)
        if row["lower"] is not None and row["upper"] is not None:
            axes.plot([row["lower"], row["upper"]], [y, y], color=ACCENT, linewidth=1.8)
            values += [row["lower"], row["upper"]]
        if row["realised"] is not None:
            ends = [row["realised"] - row["slack"], row["realised"] + row["slack"]]
            axes.plot(ends, [y, y], color=DANGER if broken else INK, linewidth=0.8)
        for key, look in (
            ("promised", {"color": ACCENT}),
            ("realised", {"color": DANGER if broken else INK, "marker": "D"}),
        ):
            if row[key] is not None:
                chart.dot(axes, row[key], y, text_of(row), **look)
                values.append(row[key])
    names_down(axes, [f"{words.short(row['source'])}{_mark(row)}" for row in shown], tones)
    positive = [value for value in values if value > 0.0]
    if len(positive) == len(values) > 0 and max(values) > 20.0 * min(values):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(10.0, (1.0, 3.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.set_xlim(left=min([0.0, *values]))
    axes.grid(axis="x", color=FAINT, linewidth=0.5)
    axes.set_xlabel("risk: ● promised, with its interval; ◆ realised, ± chance")
    return chart


def _mark(row: Mapping[str, Any]) -> str:
    return "" if outcome(row) == "kept" else f" ({outcome(row)})"

"""The Love plot: how far the means lie apart, before and after weighting."""

from __future__ import annotations

import math
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes

from fedcsa.answer.charts.drawing import ACCENT, FAINT, INK, MUTED, STYLE, Chart
from fedcsa.answer.view import View
from fedcsa.words import number, printable, short

#: Panels beside each other: more are too narrow to read.
_COLUMNS = 3
#: The usual bound for balance, in the target's standard deviations.
BOUND = 0.25
#: Differences beyond these are drawn at the edge, as an arrow.
_FARTHEST = 2.0
_OPEN: Any = {"color": MUTED, "markerfacecolor": "none", "markeredgewidth": 1.2}


@mpl.rc_context(STYLE)
def draw_love_plot(view: View) -> Chart:
    """One panel a source, one line a feature."""
    shown, order, features = view.in_panels, view.most_different, view.features
    columns = min(_COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)
    height = rows * Chart.height_of(len(order), 0.65) + 0.35
    chart = Chart("Standardised mean differences before and after weighting", height, rows, columns)
    largest = max(abs(side[i]) for x in shown for side in (x.before, x.after) for i in order)
    limit = min(max(1.15 * largest, 2.0 * BOUND), _FARTHEST)
    for axes, line in zip(chart.panels, shown, strict=False):
        for bound in (-BOUND, BOUND):
            axes.axvline(bound, color=FAINT, linewidth=0.8, linestyle="--", zorder=0.5)
        axes.axvline(0.0, color=MUTED, linewidth=0.8, zorder=0.5)
        for y, i in enumerate(order):
            where = f"{printable(features[i])} at {printable(line.name)}"
            _pair(chart, axes, y, (line.before[i], line.after[i]), where, limit)
        axes.set_xlim(-limit * 1.05, limit * 1.05)
        axes.set_title(short(line.name, 24 if columns < _COLUMNS else 18), loc="left")
    for axes in chart.panels[::columns]:
        chart.names_down(axes, [(short(features[i], 22), INK) for i in order])
    for axes in chart.panels[len(shown) :]:
        axes.set_visible(False)
    chart.figure.supxlabel(
        "difference of means, in the target's standard deviations: ○ before, ● after weighting",
        fontsize=8.5, color=MUTED,
    )  # fmt: skip
    return chart


def _pair(
    chart: Chart, axes: Axes, y: int, values: tuple[float, float], where: str, limit: float
) -> None:
    """A feature before and after weighting; what lies beyond the limit is an arrow."""
    text = f"{where}: {number(values[0])} before, {number(values[1])} after weighting"
    ends = [max(-limit, min(limit, value)) for value in values]
    axes.plot(ends, [y, y], color=FAINT, linewidth=1.2, zorder=1.0)
    for value, end, look in zip(values, ends, (_OPEN, {"color": ACCENT}), strict=True):
        marker = "o" if value == end else ("<" if value < 0.0 else ">")
        chart.dot(axes, end, y, text, marker=marker, markersize=5.0, **look)

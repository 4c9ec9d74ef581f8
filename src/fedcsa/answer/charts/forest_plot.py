"""The forest plot of any measure: what every line found, and what a new site may expect."""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fedcsa.answer.charts.drawing import ACCENT, DANGER, FAINT, INK, MUTED, STYLE, Chart
from fedcsa.answer.forests import ForestLine, ForestPlot
from fedcsa.words import number, short

#: Panels beside each other: more are too narrow to read.
_COLUMNS = 2
#: An interval that reaches farther than so many of the promise's half-widths ends in an arrow.
_FARTHEST = 4.0
_COLOURS = {"source": INK, "far": DANGER, "new": ACCENT, "came": INK, "group": ACCENT}


@mpl.rc_context(STYLE)
def draw_forest_plots(
    forests: Sequence[ForestPlot], *, small: bool = False, axes: Axes | None = None
) -> Chart:
    """ForestPlot plots beside each other, whose lines have the same names.

    Parameters
    ----------
    forests : sequence of ForestPlot
    small : bool, default False
        As wide as a phone, for the first screen.
    axes : Axes, optional
        To draw one forest in, instead of a figure of its own.
    """
    columns = min(_COLUMNS, len(forests))
    rows = math.ceil(len(forests) / columns)
    names = [
        (short(line.name, 16 if small else 28), _COLOURS[line.kind]) for line in forests[0].lines
    ]
    height = rows * Chart.height_of(len(names), 0.8 if small else 0.95)
    what = ", ".join(forest.title for forest in forests)
    chart = Chart(
        f"{what}: every line and a new site", height, rows, columns, small=small, axes=axes
    )
    for panel, forest in zip(chart.panels, forests, strict=False):
        _draw(chart, panel, forest)
    for panel in chart.panels[::columns]:
        chart.names_down(panel, names)
    for panel in chart.panels[len(forests) :]:
        panel.set_visible(False)
    return chart


def _draw(chart: Chart, axes: Axes, forest: ForestPlot) -> None:
    """One measure."""
    times, near = forest.words.times, _window(forest)
    drawn: list[float] = []
    for y, line in enumerate(forest.lines):
        drawn += _line(chart, axes, y, line, near, times)
    beside, kinds = forest.beside, [line.kind for line in forest.lines]
    if beside is not None:
        axes.axvline(times * beside, color=MUTED, linewidth=0.8, zorder=0.5)
        drawn.append(times * beside)
    if "new" in kinds:
        y = kinds.index("new")
        new = forest.lines[y].value
        if new is not None:
            axes.axvline(times * new, color=ACCENT, linewidth=0.8, linestyle=":", zorder=0.5)
        if y > 0:
            axes.axhline(y - 0.5, color=MUTED, linewidth=0.6)
    if forest.words.logarithmic and 20.0 * min(drawn, default=0.0) < max(drawn, default=0.0):
        chart.risk_axis(axes, drawn)
    else:
        axes.margins(x=0.06)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
        axes.grid(axis="x", color=FAINT, linewidth=0.5)
    axes.set_title(short(forest.title, 40), loc="left")
    axes.set_xlabel(forest.label)


def _window(forest: ForestPlot) -> tuple[float, float]:
    """Between which values lines are drawn: some half-widths around what a new site may expect."""
    [new] = [line for line in forest.lines if line.kind == "new"]
    if new.value is None or new.lower is None or new.upper is None:
        return -math.inf, math.inf
    if forest.words.logarithmic and new.lower > 0.0:
        low, high = ((end / new.value) ** _FARTHEST for end in (new.lower, new.upper))
        return new.value * low, new.value * high
    low, high = (_FARTHEST * (end - new.value) for end in (new.lower, new.upper))
    return new.value + low, new.value + high


def _line(
    chart: Chart, axes: Axes, y: int, line: ForestLine, near: tuple[float, float], times: float
) -> list[float]:
    """One line, as far as it lies in the window; what must be seen of it."""
    colour, low, high = _COLOURS[line.kind], times * near[0], times * near[1]
    for value in line.others:
        x = min(max(times * value, low), high)
        chart.dot(axes, x, y, line.said, markersize=4.5, color=MUTED, markerfacecolor="none")
    if line.value is None:
        if not line.others:
            chart.say(axes, y, line.said)
        return [min(max(times * value, low), high) for value in line.others]
    seen = [min(max(times * line.value, low), high)]
    if line.lower is not None and line.upper is not None:
        told = (times * line.lower, times * line.upper)
        ends = [max(told[0], low), min(told[1], high)]
        width = 4.0 if line.kind == "new" else 1.8 if line.kind == "group" else 1.0
        axes.plot(ends, [y, y], color=colour, linewidth=width, zorder=1.5)
        for end, there, marker in zip(ends, told, "<>", strict=True):
            if end != there:
                axes.plot([end], [y], marker=marker, markersize=4.0, color=colour)
        seen += ends
    size = 4.0 + 8.0 * math.sqrt(line.weight)  # its area follows the weight
    look = {"marker": "s", "markersize": size} if line.kind == "source" else {"marker": "D"}
    chart.dot(axes, seen[0], y, line.said, color=colour, **look)
    return seen

"""The forest plot: what every source found, and what a new site may expect."""

from __future__ import annotations

import math

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from fedcsa.answer.charts.drawing import ACCENT, DANGER, INK, MUTED, STYLE, Chart
from fedcsa.answer.view import SourceLine, View
from fedcsa.reconcile import Reconciliation
from fedcsa.target.adaptation import Promise
from fedcsa.words import count, number, percent, printable, short, with_interval

#: An interval that reaches farther than this from the promise's is cut off at an arrow.
_FARTHEST = 5.0


def text_of(line: SourceLine) -> str:
    """Name and numbers of a source in words."""
    return printable(
        f"{line.name}: weight {line.weight_text}, effective rows {number(line.effective_rows)} of "
        f"{count(line.n_rows)}, imbalance {number(line.imbalance)}, "
        f"risk found: {line.found_text}"
    )


@mpl.rc_context(STYLE)
def draw_forest_plot(view: View) -> Chart:
    """One line a source, its risk found and its weight; then a new site, then what came true."""
    shown, promise, came = view.in_chart, view.promise, view.reconciliation
    names = [(short(line.name), INK if line.reaches else DANGER) for line in shown]
    if promise is None:
        chart = Chart("Weight of every source", Chart.height_of(len(shown)))
        _weights(chart, chart.panels[0], shown)
        chart.names_down(chart.panels[0], names)
        return chart
    names += [("a new site", ACCENT), ("realised here", INK)][: 1 if came is None else 2]
    chart = Chart(
        "Risk that every source found, and that a new site may expect",
        Chart.height_of(len(names)),
        columns=2,
        widths=(3.0, 1.0),
    )
    forest, weights = chart.panels
    drawn = [x for y, line in enumerate(shown) for x in _found(chart, forest, y, line, promise)]
    drawn += _expected(chart, forest, len(shown), promise, came)
    chart.risk_axis(forest, drawn)
    _weights(chart, weights, shown)
    chart.names_down(forest, names)
    forest.axhline(len(shown) - 0.5, color=MUTED, linewidth=0.6)
    forest.set_xlabel(
        f"risk found, {percent(promise.level)} interval; between sites: "
        f"sd {number(promise.between_sites)} of the log risk"
    )
    return chart


def _found(chart: Chart, axes: Axes, y: int, line: SourceLine, promise: Promise) -> list[float]:
    """One source: its risk with an interval, or why there is none; what must be seen of it."""
    if line.found is None or line.lower is None or line.upper is None:
        axes.annotate(
            short(line.why_not, 40), (promise.risk, y), xytext=(6, 0),
            textcoords="offset points", va="center", color=DANGER, fontsize=8.5,
        )  # fmt: skip
        return []
    low, high = promise.lower / _FARTHEST, promise.upper * _FARTHEST
    ends = [max(line.lower, low), min(line.upper, high)]
    axes.plot(ends, [y, y], color=INK, linewidth=1.0, zorder=1.5)
    for end, told, marker in zip(ends, (line.lower, line.upper), "<>", strict=True):
        if end != told:
            axes.plot([end], [y], marker=marker, markersize=4.0, color=INK)
    x = min(max(line.found, low), high)
    size = 4.0 + 8.0 * math.sqrt(line.weight or 0.0)  # its area follows the weight
    chart.dot(axes, x, y, text_of(line), marker="s", markersize=size, color=INK)
    return [x, *ends]


def _expected(
    chart: Chart, axes: Axes, y: int, promise: Promise, came: Reconciliation | None
) -> list[float]:
    """What a new site may expect, and below it what was realised; what must be seen of both."""
    axes.axvline(promise.risk, color=ACCENT, linewidth=0.8, linestyle=":", zorder=0.5)
    axes.plot([promise.lower, promise.upper], [y, y], color=ACCENT, linewidth=4.0)
    text = f"a new site: {with_interval(promise.risk, promise.lower, promise.upper)}"
    chart.dot(axes, promise.risk, y, text, marker="D", markersize=8.0, color=ACCENT)
    values = [promise.lower, promise.upper]
    if came is not None:
        if came.lower is not None and came.upper is not None:
            axes.plot([came.lower, came.upper], [y + 1, y + 1], color=INK, linewidth=1.8)
            values += [came.lower, came.upper]
        text = f"realised: {with_interval(came.realised, came.lower, came.upper)}"
        chart.dot(axes, came.realised, y + 1, text, marker="D", color=INK)
        values.append(came.realised)
    return values


def _weights(chart: Chart, axes: Axes, shown: tuple[SourceLine, ...]) -> None:
    for y, line in enumerate(shown):
        [bar] = axes.barh([y], [line.weight or 0.0], height=0.55, color=ACCENT)
        chart.mark(bar, text_of(line))
    axes.set_xlim(left=0.0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100.0 * value:g}%"))
    axes.set_xlabel("weight")

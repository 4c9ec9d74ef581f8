"""The forest plot: what every source found, and what a new site may expect."""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from fedcsa import words
from fedcsa.answer.charts.drawing import (
    ACCENT,
    DANGER,
    INK,
    MUTED,
    STYLE,
    Chart,
    height_of,
    names_down,
    risk_axis,
)
from fedcsa.answer.view import SourceLine, source_lines
from fedcsa.reconcile import Reconciliation
from fedcsa.target.adaptation import Adaptation
from fedcsa.target.promise import Promise
from fedcsa.words import interval, number, percent

MOST_SOURCES = 24
#: An interval that reaches farther than this from the promise's is cut off at an arrow.
FARTHEST = 5.0


def text_of(line: SourceLine) -> str:
    """Name and numbers of a source in words."""
    return words.printable(
        f"{line.name}: weight {line.weight_text}, effective rows {number(line.effective_rows)} of "
        f"{words.count(line.n_rows)}, imbalance {number(line.imbalance)}, "
        f"risk found: {line.found_text}"
    )


def those_that_matter(found: Sequence[SourceLine], most: int = MOST_SOURCES) -> list[SourceLine]:
    """The heaviest, and the farthest: the middle is left out.

    Parameters
    ----------
    found : sequence of SourceLine
        The heaviest first.
    most : int
    """
    if len(found) <= most:
        return list(found)
    tail = most // 4
    far = sorted(found[most - tail :], key=lambda line: -line.imbalance)[:tail]
    return [*found[: most - tail], *(line for line in found[most - tail :] if line in far)]


@mpl.rc_context(STYLE)
def draw(a: Adaptation, reconciliation: Reconciliation | None = None) -> Chart:
    """One line a source, its risk found and its weight; then a new site, then what came true.

    Parameters
    ----------
    a : Adaptation
        Without a promise there are weights alone.
    reconciliation : Reconciliation, optional
    """
    shown = those_that_matter(source_lines(a))
    names = [words.short(line.name) for line in shown]
    tones = [INK if line.reaches else DANGER for line in shown]
    if a.promise is None:
        chart = Chart("Weight of every source", height_of(len(shown)))
        _weights(chart, chart.panels[0], shown)
        names_down(chart.panels[0], names, tones)
        return chart
    further = ["a new site"] if reconciliation is None else ["a new site", "realised here"]
    chart = Chart(
        "Risk that every source found, and that a new site may expect",
        height_of(len(shown) + len(further)),
        columns=2,
        widths=(3.0, 1.0),
    )
    forest = chart.panels[0]
    _forest(chart, forest, shown, a.promise, reconciliation)
    _weights(chart, chart.panels[1], shown)
    names_down(forest, [*names, *further], [*tones, ACCENT, INK][: len(names) + len(further)])
    forest.axhline(len(shown) - 0.5, color=MUTED, linewidth=0.6)
    forest.set_xlabel(
        f"risk found, {percent(a.promise.level)} interval; between sites: "
        f"sd {number(a.promise.between_sites)} of the log risk"
    )
    return chart


def _forest(
    chart: Chart,
    axes: Axes,
    shown: Sequence[SourceLine],
    promise: Promise,
    reconciliation: Reconciliation | None,
) -> None:
    low, high = promise.lower / FARTHEST, promise.upper * FARTHEST
    axes.axvline(promise.risk, color=ACCENT, linewidth=0.8, linestyle=":", zorder=0.5)
    values = [promise.lower, promise.upper]
    for y, line in enumerate(shown):
        if line.found is None or line.lower is None or line.upper is None:
            axes.annotate(
                words.short(line.why_not, 40), (promise.risk, y), xytext=(6, 0),
                textcoords="offset points", va="center", color=DANGER, fontsize=8.5,
            )  # fmt: skip
            continue
        ends = [max(line.lower, low), min(line.upper, high)]
        axes.plot(ends, [y, y], color=INK, linewidth=1.0, zorder=1.5)
        for end, told, marker in zip(ends, (line.lower, line.upper), "<>", strict=True):
            if end != told:
                axes.plot([end], [y], marker=marker, markersize=4.0, color=INK)
        x = min(max(line.found, low), high)
        size = 4.0 + 8.0 * math.sqrt(line.weight or 0.0)  # its area follows the weight
        chart.dot(axes, x, y, text_of(line), marker="s", markersize=size, color=INK)
        values += [x, *ends]
    y = len(shown)
    axes.plot([promise.lower, promise.upper], [y, y], color=ACCENT, linewidth=4.0)
    between = interval(promise.lower, promise.upper)
    text = f"a new site: {number(promise.risk)} ({between})"
    chart.dot(axes, promise.risk, y, text, marker="D", markersize=8.0, color=ACCENT)
    if reconciliation is not None:
        r = reconciliation
        if r.lower is not None and r.upper is not None:
            axes.plot([r.lower, r.upper], [y + 1, y + 1], color=INK, linewidth=1.8)
            values += [r.lower, r.upper]
        text = f"realised: {number(r.realised)} ({interval(r.lower, r.upper)})"
        chart.dot(axes, r.realised, y + 1, text, marker="D", color=INK)
        values.append(r.realised)
    risk_axis(axes, values)


def _weights(chart: Chart, axes: Axes, shown: Sequence[SourceLine]) -> None:
    for y, line in enumerate(shown):
        [bar] = axes.barh([y], [line.weight or 0.0], height=0.55, color=ACCENT)
        chart.mark(bar, text_of(line))
    axes.set_xlim(left=0.0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100.0 * value:g}%"))
    axes.set_xlabel("weight")

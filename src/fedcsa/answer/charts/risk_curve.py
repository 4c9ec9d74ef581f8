"""Risk against the candidates, and the chosen one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from fedcsa.answer.charts.drawing import ACCENT, DANGER, FAINT, INK, MUTED, STYLE, Chart
from fedcsa.answer.sentences import MOST_MARKS
from fedcsa.answer.view import Point, View
from fedcsa.words import candidate_text, number, short

#: More lines than these are told apart by nobody.
MOST_LINES = 6
_DASHES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))


def _text(point: Point) -> str:
    """Candidate and risk in words."""
    mark = " — chosen" if point.chosen else ""
    told = f"risk {number(point.risk)}, standard error {number(point.error)}{mark}"
    return f"{candidate_text(point.candidate)}: {told}"


def axis_of(shown: Sequence[Point]) -> str | None:
    """The parameter for the horizontal axis; None if the candidates can only be numbered."""
    names = sorted({name for point in shown for name in point.candidate})
    values = {name: [point.candidate.get(name) for point in shown] for name in names}
    varying = {name: v for name, v in values.items() if len({repr(item) for item in v}) > 1}
    numeric = {name: len(set(v)) for name, v in varying.items() if all(map(_is_number, v))}
    if not numeric:
        return None
    axis = max(numeric, key=lambda name: numeric[name])
    lines = {_others(point, axis) for point in shown}
    return axis if len(lines) <= MOST_LINES else None


@mpl.rc_context(STYLE)
def draw_risk_curve(view: View) -> Chart:
    """Risk over the candidates with a band of one standard error."""
    shown: Sequence[Point] = view.told_points
    axis = axis_of(shown)
    chart = Chart("Estimated risk at the target for every candidate", 3.1)
    axes = chart.panels[0]
    if axis is None:
        shown = sorted(shown, key=lambda point: point.risk)
        _line(chart, axes, list(range(1, len(shown) + 1)), shown, "-", joined=False)
        axes.set_xlim(0.5, len(shown) + 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.set_xlabel("candidates, the smallest risk first")
    else:
        groups: dict[str, list[Point]] = {}
        for point in sorted(shown, key=lambda point: float(point.candidate[axis])):
            groups.setdefault(_others(point, axis), []).append(point)
        _scale(axes, [float(point.candidate[axis]) for point in shown])
        order = sorted(groups, key=lambda name: not any(point.chosen for point in groups[name]))
        for dash, name in zip(_DASHES, order, strict=False):
            x = [float(point.candidate[axis]) for point in groups[name]]
            _line(chart, axes, x, groups[name], dash, label=short(name, 40))
        axes.set_xlabel(short(axis))
        if len(order) > 1:
            axes.legend(loc="best")
    axes.set_ylabel(view.risk_name)
    axes.grid(axis="y", color=FAINT, linewidth=0.5)
    axes.tick_params(axis="y", labelcolor=MUTED)
    if axis is not None:
        axes.margins(x=0.03)
    if view.at_edge:
        _say_edge(axes, shown, axis)
    return chart


def _line(
    chart: Chart, axes: Axes, x: Sequence[float], shown: Sequence[Point], dash: Any,
    *, label: str = "", joined: bool = True,
) -> None:  # fmt: skip
    colour = ACCENT if any(point.chosen for point in shown) else MUTED
    risks = [point.risk for point in shown]
    low, high = ([p.risk + sign * p.error for p in shown] for sign in (-1.0, 1.0))
    if joined and len(x) > 1:
        axes.fill_between(x, low, high, color=colour, alpha=0.10, linewidth=0.0)
    else:
        axes.vlines(x, low, high, color=colour, alpha=0.35, linewidth=1.0)
    if joined or len(x) > MOST_MARKS:
        axes.plot(x, risks, color=colour, linestyle=dash, linewidth=1.3, label=label or None)
    # On a dense line a mark shows only when it is pointed at.
    look: dict[str, Any] = {"markersize": 4.0, "alpha": 1.0 if len(x) <= 40 else 0.0}
    ring = {"markersize": 9.0, "markerfacecolor": "none", "markeredgewidth": 2.0, "color": INK}
    for position, point in sorted(zip(x, shown, strict=True), key=lambda pair: pair[1].chosen):
        if point.chosen or len(x) <= MOST_MARKS:
            how = ring if point.chosen else {**look, "color": colour}
            chart.dot(axes, position, point.risk, _text(point), **how)


def _scale(axes: Axes, x: Sequence[float]) -> None:
    """A logarithmic axis where the values ask for one; zero keeps its place."""
    positive = sorted({value for value in x if value > 0.0})
    if min(x) < 0.0 or len(positive) < 3 or positive[-1] < 50.0 * positive[0]:
        return
    if positive[len(positive) // 2] > 0.2 * positive[-1]:
        return  # evenly spaced
    if min(x) > 0.0:
        axes.set_xscale("log")
    else:
        axes.set_xscale("symlog", linthresh=positive[0], linscale=0.5)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _say_edge(axes: Axes, shown: Sequence[Point], axis: str | None) -> None:
    [(index, point)] = [(i, p) for i, p in enumerate(shown) if p.chosen]
    x = index + 1.0 if axis is None else float(point.candidate[axis])
    axes.annotate(
        "at the edge of the grid", (x, point.risk), xytext=(0, 14), textcoords="offset points",
        color=DANGER, ha="center", fontsize=8.5, annotation_clip=False,
    )  # fmt: skip


def _others(point: Point, axis: str) -> str:
    """The other parameters of a candidate: points that share them are one line."""
    others = {key: value for key, value in point.candidate.items() if key != axis}
    return candidate_text(others) if others else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

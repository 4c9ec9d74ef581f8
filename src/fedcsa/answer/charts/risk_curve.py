"""Risk against the candidates, the chosen one, and how a search came to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedcsa.answer.charts.axis import Axis
from fedcsa.answer.charts.drawing import (
    ACCENT,
    DASHED,
    DOTTED,
    FAINT,
    MUTED,
    RING,
    RISE,
    Chart,
    Panel,
)
from fedcsa.answer.sentences import MOST_MARKS
from fedcsa.answer.view import Point, View
from fedcsa.words import candidate_text, number, short

#: More lines than these are told apart by nobody.
MOST_LINES = 6
_DASHES = ((), DASHED, DOTTED, (6.4, 1.6, 1.0, 1.6), (5.0, 1.0, 1.0, 1.0, 1.0, 1.0), (1.0, 3.0))


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


def draw_risk_curve(view: View) -> Chart:
    """Risk over the candidates with a band of one standard error."""
    shown: Sequence[Point] = view.told_points
    axis = axis_of(shown)
    chart = Chart("Estimated risk at the target for every candidate", 225.0)
    panel = chart.add()
    if axis is None:
        shown = sorted(shown, key=lambda point: point.risk)
        _line(panel, list(range(1, len(shown) + 1)), shown, (), joined=False)
        panel.x.low, panel.x.high, panel.x.whole = 0.5, len(shown) + 0.5, True
        panel.x.label = "candidates, the smallest risk first"
    else:
        groups: dict[str, list[Point]] = {}
        for point in sorted(shown, key=lambda point: float(point.candidate[axis])):
            groups.setdefault(_others(point, axis), []).append(point)
        _scale(panel.x, [float(point.candidate[axis]) for point in shown])
        order = sorted(groups, key=lambda name: not any(point.chosen for point in groups[name]))
        for dash, name in zip(_DASHES, order, strict=False):
            x = [float(point.candidate[axis]) for point in groups[name]]
            label = short(name, 40) if len(order) > 1 else ""
            _line(panel, x, groups[name], dash, label=label)
        panel.x.label, panel.x.margin = short(axis), 0.03
    panel.y.label, panel.y.grid = view.risk_name, True
    if view.at_edge:
        _say_edge(panel, shown, axis)
    return chart


def _line(
    panel: Panel, x: Sequence[float], shown: Sequence[Point], dash: tuple[float, ...],
    *, label: str = "", joined: bool = True,
) -> None:  # fmt: skip
    colour = ACCENT if any(point.chosen for point in shown) else MUTED
    risks = [point.risk for point in shown]
    low, high = ([p.risk + sign * p.error for p in shown] for sign in (-1.0, 1.0))
    if joined and len(x) > 1:
        panel.band(x, low, high, colour=colour, opacity=0.10)
    else:
        for place, *ends in zip(x, low, high, strict=True):
            panel.line([place, place], ends, colour=colour, opacity=0.35, width=1.0)
    if joined or len(x) > MOST_MARKS:
        panel.line(x, risks, colour=colour, dash=dash, label=label)
    # On a dense line a mark shows only when it is pointed at.
    look: Any = {"size": 4.0, "opacity": 1.0 if len(x) <= 40 else 0.0, "colour": colour}
    for position, point in sorted(zip(x, shown, strict=True), key=lambda pair: pair[1].chosen):
        if point.chosen or len(x) <= MOST_MARKS:
            panel.dot(position, point.risk, _text(point), **(RING if point.chosen else look))


def _scale(axis: Axis, x: Sequence[float]) -> None:
    """A logarithmic axis where the values ask for one; zero keeps its place."""
    positive = sorted({value for value in x if value > 0.0})
    if min(x) < 0.0 or len(positive) < 3 or positive[-1] < 50.0 * positive[0]:
        return
    if positive[len(positive) // 2] > 0.2 * positive[-1]:
        return  # evenly spaced
    axis.scale, axis.threshold = ("log" if min(x) > 0.0 else "symlog"), positive[0]


def _say_edge(panel: Panel, shown: Sequence[Point], axis: str | None) -> None:
    [(index, point)] = [(i, p) for i, p in enumerate(shown) if p.chosen]
    x = index + 1.0 if axis is None else float(point.candidate[axis])
    panel.note("at the edge of the grid", x, point.risk, anchor="middle", rise=RISE)


def _others(point: Point, axis: str) -> str:
    """The other parameters of a candidate: points that share them are one line."""
    others = {key: value for key, value in point.candidate.items() if key != axis}
    return candidate_text(others) if others else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def draw_search(view: View) -> Chart:
    """A dot a candidate, a step where the smallest risk so far became smaller."""
    chart = Chart("Risk of every candidate in the order in which it was asked for", 187.0)
    panel, shown = chart.add(), view.told_points
    for end in view.round_ends[:-1]:
        panel.rule(end + 0.5, colour=FAINT)
    so_far, x = view.smallest_so_far, [point.place for point in shown]
    ends = [*x[1:], x[-1] + 0.5]
    steps = [end for pair in zip(x, ends, strict=True) for end in pair]
    panel.line(steps, [risk for risk in so_far for _ in range(2)], width=1.6)
    for point in shown:
        text = f"{point.place}, {candidate_text(point.candidate)}: risk {number(point.risk)}"
        look = RING if point.chosen else {"size": 4.0, "colour": MUTED}
        panel.dot(point.place, point.risk, text, **look)
    panel.x.low, panel.x.high, panel.x.whole = 0.5, x[-1] + 0.5, True
    panel.x.label = "candidate, with a line between two rounds; blue: the smallest so far"
    panel.y.label, panel.y.grid = view.risk_name, True
    return chart

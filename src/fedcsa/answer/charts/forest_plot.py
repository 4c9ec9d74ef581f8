"""The forest plot of any measure: what every line found, and what a new site may expect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fedcsa.answer.charts.drawing import (
    ACCENT,
    DANGER,
    DOTTED,
    INK,
    MUTED,
    Chart,
    Panel,
    names_down,
    risk_axis,
)
from fedcsa.answer.forests import ForestLine, ForestPlot
from fedcsa.words import number, short

#: Panels beside each other: more are too narrow to read.
_COLUMNS = 2
#: An interval that reaches farther than so many of the promise's half-widths ends in an arrow.
_FARTHEST = 4.0
_COLOURS = {"source": INK, "far": DANGER, "new": ACCENT, "came": INK, "group": ACCENT}
#: Of names; others may have lines of two colours, because outcomes say something of one measure.
_TONES = {"far": DANGER, "new": ACCENT}
#: Once outcomes came.
_COLOURS_SAY = "◆ blue: promised, ◆ black: with outcomes from here"


def draw_forest_plots(forests: Sequence[ForestPlot], *, small: bool = False) -> Chart:
    """ForestPlot plots beside each other, whose lines have the same names.

    Parameters
    ----------
    forests : sequence of ForestPlot
    small : bool, default False
        As wide as a phone, for the first screen.
    """
    columns = min(_COLUMNS, len(forests))
    rows = math.ceil(len(forests) / columns)
    lines = forests[0].lines
    names = [(short(x.name, 16 if small else 28), _TONES.get(x.kind, INK)) for x in lines]
    below = _COLOURS_SAY if any(line.kind == "came" for line in lines) else ""
    height = rows * Chart.height_of(len(names), 58.0 if small else 68.0) + (16.0 if below else 0.0)
    what = ", ".join(forest.title for forest in forests)
    label = f"{what}: every line and a new site"
    chart = Chart(label, height, columns, small=small, below=below)
    for forest in forests:
        panel = chart.add(short(forest.title, 40))
        _draw(panel, forest)
        names_down(panel.y, names)
    return chart


def _draw(panel: Panel, forest: ForestPlot) -> None:
    """One measure."""
    times, near = forest.words.times, _window(forest)
    for y, line in enumerate(forest.lines):
        _line(panel, y, line, near, times)
    beside, kinds = forest.beside, [line.kind for line in forest.lines]
    if beside is not None:
        panel.rule(times * beside)
    drawn = panel.x.values or [0.0]
    logarithmic = forest.words.logarithmic and 20.0 * min(drawn) < max(drawn)
    if "new" in kinds:
        y = kinds.index("new")
        new = forest.lines[y].value
        if new is not None:
            panel.rule(times * new, colour=ACCENT, dash=DOTTED)
        if y > 0:
            panel.rule(y - 0.5, across=True, width=0.6)
    if logarithmic:
        risk_axis(panel.x)
    else:
        panel.x.margin, panel.x.text = 0.06, number
    panel.x.grid = True
    panel.x.label = forest.label


def _window(forest: ForestPlot) -> tuple[float, float]:
    """Between which values lines are drawn: some half-widths around what a new site may expect.

    What outcomes here say lies in it with its interval, wherever that is: it is the answer.
    """
    [new] = [line for line in forest.lines if line.kind == "new"]
    here = [(x.value, x.lower, x.upper) for x in forest.lines if x.kind == "came"]
    came = [value for line in here for value in line if value is not None]
    if new.value is None or new.lower is None or new.upper is None:
        return -math.inf, math.inf
    if forest.words.logarithmic and new.lower > 0.0:
        low, high = (new.value * (end / new.value) ** _FARTHEST for end in (new.lower, new.upper))
    else:
        low, high = (new.value + _FARTHEST * (end - new.value) for end in (new.lower, new.upper))
    values = (low, high, *came)
    return min(values), max(values)


def _line(panel: Panel, y: int, line: ForestLine, near: tuple[float, float], times: float) -> None:
    """One line, as far as it lies in the window; an arrow where it goes on."""
    colour = _COLOURS[line.kind]

    def drawn(value: float) -> tuple[float, dict[str, Any]]:
        """Where a value is drawn, and as what if it lies farther off."""
        at = min(max(value, near[0]), near[1])
        return times * at, {} if at == value else {"shape": "<" if value < at else ">"}

    for value in line.others:
        at, arrow = drawn(value)
        panel.dot(at, y, line.said, size=4.5, colour=MUTED, hollow=1.0, **arrow)
    if line.value is None:
        if not line.others:
            panel.say(y, line.said)
        return
    if line.lower is not None and line.upper is not None:
        ends = [drawn(end) for end in (line.lower, line.upper)]
        width = 4.0 if line.kind == "new" else 1.8 if line.kind == "group" else 1.0
        panel.line([at for at, _ in ends], [y, y], colour=colour, width=width)
        for at, arrow in ends:
            if arrow:
                panel.dot(at, y, size=4.0, colour=colour, **arrow)
    look: dict[str, Any] = {"shape": "D"}
    if line.kind == "source":  # its area follows the weight
        look = {"shape": "s", "size": 4.0 + 8.0 * math.sqrt(line.weight)}
    at, arrow = drawn(line.value)
    panel.dot(at, y, line.said, colour=colour, **(look | arrow))

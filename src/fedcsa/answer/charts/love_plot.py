"""The Love plot: how far the means lie apart, before and after weighting."""

from __future__ import annotations

import math
from typing import Any

from fedcsa.answer.charts.drawing import DASHED, FAINT, INK, MUTED, Chart, Panel, names_down
from fedcsa.answer.view import View
from fedcsa.words import number, printable, short

#: Panels beside each other: more are too narrow to read.
_COLUMNS = 3
#: The usual bound for balance, in the target's standard deviations.
BOUND = 0.25
#: Differences beyond these are drawn at the edge, as an arrow.
_FARTHEST = 2.0
_OPEN: Any = {"colour": MUTED, "hollow": 1.2}


def draw_love_plot(view: View) -> Chart:
    """One panel per source, one line per feature."""
    shown, order, features = view.in_panels, view.most_different, view.features
    columns = min(_COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)
    height = rows * Chart.height_of(len(order), 47.0) + 25.0
    label = "Standardised mean differences before and after weighting"
    below = "difference of means, in the target's standard deviations: ○ before, ● after weighting"
    chart = Chart(label, height, columns, below=below)
    largest = max(abs(side[i]) for x in shown for side in (x.before, x.after) for i in order)
    limit = min(max(1.15 * largest, 2.0 * BOUND), _FARTHEST)
    for line in shown:
        panel = chart.add(short(line.name, 24 if columns < _COLUMNS else 18))
        for bound in (-BOUND, BOUND):
            panel.rule(bound, colour=FAINT, dash=DASHED)
        panel.rule(0.0)
        for y, i in enumerate(order):
            where = f"{printable(features[i])} at {printable(line.name)}"
            _pair(panel, y, (line.before[i], line.after[i]), where, limit)
        panel.x.low, panel.x.high = -limit * 1.05, limit * 1.05
        names_down(panel.y, [(short(features[i], 22), INK) for i in order])
    return chart


def _pair(panel: Panel, y: int, values: tuple[float, float], where: str, limit: float) -> None:
    """A feature before and after weighting; what lies beyond the limit is an arrow."""
    text = f"{where}: {number(values[0])} before, {number(values[1])} after weighting"
    ends = [max(-limit, min(limit, value)) for value in values]
    panel.line(ends, [y, y], colour=FAINT, width=1.2)
    for value, end, look in zip(values, ends, (_OPEN, {}), strict=True):
        shape = "o" if value == end else ("<" if value < 0.0 else ">")
        panel.dot(end, y, text, shape=shape, size=5.0, **look)

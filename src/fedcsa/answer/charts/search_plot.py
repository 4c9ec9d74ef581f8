"""How a search went: the risk of every candidate in the order asked, and the smallest so far."""

from __future__ import annotations

from fedcsa.answer.charts.drawing import FAINT, MUTED, RING, Chart
from fedcsa.answer.view import View
from fedcsa.words import candidate_text, number


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
    panel.x.label = "candidate, a line between two rounds; blue: the smallest so far"
    panel.y.label, panel.y.grid = view.risk_name, True
    return chart

"""How the study's loss became known as outcomes came in: the promise, then every look."""

from __future__ import annotations

from fedcsa.answer.charts.drawing import ACCENT, INK, Chart
from fedcsa.answer.updated import ShownUpdate
from fedcsa.words import counted


def draw_over_time(came: ShownUpdate) -> Chart:
    """The estimate after every update: thick its interval, thin that for all looks.

    As in the forest plots, the promise is blue, and what outcomes say is black.
    """
    words, shown, often = came.words, came.looks, came.often
    chart = Chart(f"{words.title} as outcomes came in", 187.0)
    panel = chart.add()
    n = [outcomes for outcomes, _ in shown]
    estimates, lower, upper, *_ = (
        list(column) for column in zip(*(x for _, x in shown), strict=True)
    )
    panel.band(n, lower, upper, colour=INK, opacity=0.10)
    panel.line(n, estimates, colour=INK)
    for outcomes, (estimate, low, high, *ends) in shown:
        told = words.with_interval(estimate, low, high)
        told += f", for all looks {words.between(*ends)}" if outcomes and often else ""
        text = f"with {counted(outcomes, 'outcome')}: {told}" if outcomes else f"promised: {told}"
        tone = INK if outcomes else ACCENT
        if often:
            panel.line([outcomes, outcomes], ends, colour=tone, width=0.7)
        panel.line([outcomes, outcomes], [low, high], colour=tone, width=2.2)
        panel.dot(outcomes, estimate, text, colour=tone, shape="o" if outcomes else "D")
    thin = "; thin: the interval for all looks" if often else ""
    panel.x.label = f"outcomes so far; ◆ blue: promised, ● black: with them{thin}"
    panel.y.label = words.title
    panel.x.whole, panel.x.margin, panel.y.grid = True, 0.04, True
    return chart

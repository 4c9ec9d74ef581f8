"""How a search went: the risk of every candidate in the order asked, and the smallest so far."""

from __future__ import annotations

import matplotlib as mpl
from matplotlib.ticker import MaxNLocator

from fedcsa.answer.charts.drawing import ACCENT, FAINT, INK, MUTED, STYLE, Chart
from fedcsa.answer.view import View
from fedcsa.words import candidate_text, number


@mpl.rc_context(STYLE)
def draw_search(view: View) -> Chart:
    """A dot a candidate, a step where the smallest risk so far became smaller."""
    chart = Chart("Risk of every candidate in the order in which it was asked for", 2.6)
    axes, shown = chart.panels[0], view.told_points
    for end in view.round_ends[:-1]:
        axes.axvline(end + 0.5, color=FAINT, linewidth=0.8)
    so_far = view.smallest_so_far
    x = [point.place for point in shown]
    axes.step([*x, x[-1] + 0.5], [*so_far, so_far[-1]], where="post", color=ACCENT, linewidth=1.6)
    ring = {"markersize": 9.0, "markerfacecolor": "none", "markeredgewidth": 2.0, "color": INK}
    for point in shown:
        text = f"{point.place}, {candidate_text(point.candidate)}: risk {number(point.risk)}"
        how = ring if point.chosen else {"markersize": 4.0, "color": MUTED}
        chart.dot(axes, point.place, point.risk, text, **how)
    axes.set_xlim(0.5, x[-1] + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlabel("candidate, a line between two rounds; blue: the smallest so far")
    axes.set_ylabel(view.risk_name)
    axes.grid(axis="y", color=FAINT, linewidth=0.5)
    axes.tick_params(axis="y", labelcolor=MUTED)
    return chart

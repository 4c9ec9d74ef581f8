"""The decision curve: what acting on the predictions is worth, at every threshold."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from fedcsa.answer.charts.drawing import ACCENT, FAINT, INK, MUTED, STYLE, Chart
from fedcsa.target.promised_measures import DecisionCurve
from fedcsa.words import interval, number, percent

#: Thresholds with a mark that says its number.
_MOST_MARKS = 25


@mpl.rc_context(STYLE)
def draw_decision_curve(
    curve: DecisionCurve, declared: Sequence[float] = (), *, axes: Axes | None = None
) -> Chart:
    """Net benefit of the model with its band, of treating everybody, of treating nobody.

    Parameters
    ----------
    curve : DecisionCurve
    declared : sequence of float
        The study's own thresholds: their marks are larger.
    axes : Axes, optional
        To draw in, instead of a figure of its own.
    """
    chart = Chart("Net benefit at every threshold", 3.2, axes=axes)
    [panel] = chart.panels
    model, low, high, everybody = (
        100.0 * np.array(values)
        for values in (curve.model, curve.lower, curve.upper, curve.treat_all)
    )
    panel.fill_between(curve.thresholds, low, high, color=ACCENT, alpha=0.15, linewidth=0.0)
    panel.plot(curve.thresholds, model, color=ACCENT, linewidth=1.5, label="the model")
    panel.plot(curve.thresholds, everybody, color=INK, linestyle="--", label="treat everybody")
    panel.axhline(0.0, color=MUTED, linestyle=":", label="treat nobody")
    most = max(high.max(), everybody.max(), 0.1)
    panel.set_ylim(-0.25 * most, 1.05 * most)  # below, everybody's line falls without end
    step = max(1, -(-len(curve.thresholds) // _MOST_MARKS))
    for k, threshold in enumerate(curve.thresholds):
        told = threshold in declared
        if not told and (k % step or model[k] < -0.25 * most):
            continue
        text = (
            f"threshold {percent(threshold)}: net benefit {number(model[k])} "
            f"({interval(low[k], high[k])}) per 100 patients; treating everybody "
            f"{number(everybody[k])}"
        )
        chart.dot(panel, threshold, model[k], text, markersize=6.0 if told else 3.0)
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: percent(value)))
    panel.set_xlabel("threshold: the predicted risk from which one treats")
    panel.set_ylabel("net benefit per 100 patients")
    panel.tick_params(axis="y", labelcolor=MUTED)
    panel.grid(axis="y", color=FAINT, linewidth=0.5)
    panel.legend(loc="upper right")
    return chart

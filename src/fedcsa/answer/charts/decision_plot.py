"""The decision curve: what acting on the predictions is worth, at every threshold."""

from __future__ import annotations

from collections.abc import Sequence

from fedcsa.answer.charts.drawing import DASHED, DOTTED, INK, Chart
from fedcsa.target.promised_measures import DecisionCurve
from fedcsa.words import interval, number, percent

#: Thresholds with a mark that says its number.
_MOST_MARKS = 25


def draw_decision_curve(curve: DecisionCurve, declared: Sequence[float] = ()) -> Chart:
    """Net benefit of the model with its band, of treating everybody, of treating nobody.

    Parameters
    ----------
    curve : DecisionCurve
    declared : sequence of float
        The study's own thresholds: their marks are larger.
    """
    chart = Chart("Net benefit at every threshold", 235.0)
    panel = chart.add()
    model, low, high, everybody = (
        [100.0 * value for value in values]
        for values in (curve.model, curve.lower, curve.upper, curve.treat_all)
    )
    panel.band(curve.thresholds, low, high)
    panel.line(curve.thresholds, model, width=1.5, label="the model")
    panel.line(curve.thresholds, everybody, colour=INK, dash=DASHED, label="treat everybody")
    panel.rule(0.0, across=True, width=1.3, dash=DOTTED, label="treat nobody")
    most = max(*high, *everybody, 0.1)
    panel.y.low, panel.y.high = -0.25 * most, 1.05 * most  # below, everybody's falls without end
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
        panel.dot(threshold, model[k], text, size=6.0 if told else 3.0)
    panel.x.text = percent
    panel.x.label = "threshold: the predicted risk at which one treats"
    panel.y.label = "net benefit per 100 patients"
    panel.y.grid = True
    return chart

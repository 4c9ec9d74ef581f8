"""The calibration plot: what happens to patients with a prediction, and who gets which."""

from __future__ import annotations

from fedcsa.answer.charts.drawing import INK, MUTED, Chart, Panel
from fedcsa.answer.sentences import MOST_CLASSES
from fedcsa.answer.view import View
from fedcsa.target.promised_measures import Calibration, RiskDistribution
from fedcsa.words import interval, number, percent, short


def draw_calibration(view: View, *, alone: bool = False) -> Chart:
    """One curve with its band a class; below it the predictions with and without the event.

    Parameters
    ----------
    view : View
        With a calibration.
    alone : bool, default False
        Whether only the first curve is wanted.
    """
    curves = view.calibration[: 1 if alone else MOST_CLASSES]
    below = () if alone else view.risk_distributions[: len(curves)]
    chart = Chart("Predicted and observed outcomes", 317.0 if below else 245.0, len(curves))
    for curve in curves:
        _curve(chart.add(), curve, shared=bool(view.classes))
    chart.panels[0].y.label = "observed"
    if below:
        chart.heights = (3.0, 1.0)
    for above, shares in zip(tuple(chart.panels), below, strict=False):
        panel = chart.add()
        panel.x.low, panel.x.high = above.x.ends
        _shares(panel, shares)
    for panel in chart.rows[-1]:
        panel.x.label = "predicted"
    return chart


def _curve(panel: Panel, curve: Calibration, *, shared: bool) -> None:
    """What is observed at every prediction; the diagonal is right."""
    most = min(1.0, 1.1 * max((*curve.predicted, *curve.upper)))  # rare events lie at the left
    ends = (0.0, most) if shared else (min(curve.predicted), max(curve.predicted))
    panel.line(ends, ends, colour=MUTED, width=0.8)
    panel.band(curve.predicted, curve.lower, curve.upper)
    panel.line(curve.predicted, curve.observed)
    points = zip(
        curve.predicted, curve.observed, curve.lower, curve.upper, curve.share, strict=True
    )
    for predicted, observed, lower, upper, share in points:
        text = (
            f"predicted {number(predicted)}: observed {number(observed)} "
            f"({interval(lower, upper)}), {percent(share)} of patients"
        )
        panel.dot(predicted, observed, text, size=2.0 + 8.0 * share**0.5)
    if shared:
        panel.x.low, panel.x.high = 0.0, most
        panel.y.low, panel.y.high = 0.0, max(most, panel.y.high or 0.0)
    if curve.of_class is not None:
        panel.title = short(curve.of_class, 18)
    panel.x.grid = panel.y.grid = True


def _shares(panel: Panel, told: RiskDistribution) -> None:
    """Predictions of those with the event upwards, of those without downwards."""
    left = told.edges[:-1]
    widths = [b - a for a, b in zip(left, told.edges[1:], strict=True)]
    sides = (("with", 1.0, told.with_event, INK), ("without", -1.0, told.without_event, MUTED))
    for word, sign, shares, colour in sides:
        for x, width, share in zip(left, widths, shares, strict=True):
            if share > 0.0:
                between = interval(x, x + width)
                text = f"{percent(share)} of those {word} the event: {between}"
                panel.bar(x, width, sign * share, colour, text)
    panel.rule(0.0, across=True)
    panel.y.bare = True
    for y, word in ((1.0, "with the event"), (0.0, "without")):
        panel.note(word, 0.99, y, inside=(True, True), anchor="end", colour=MUTED)

"""The calibration plot: what happens to patients with a prediction, and who gets which."""

from __future__ import annotations

import matplotlib as mpl
from matplotlib.axes import Axes

from fedcsa.answer.charts.drawing import ACCENT, FAINT, INK, MUTED, STYLE, Chart
from fedcsa.answer.sentences import MOST_CLASSES
from fedcsa.answer.view import View
from fedcsa.target.promised_measures import Calibration, RiskDistribution
from fedcsa.words import interval, number, percent, short


@mpl.rc_context(STYLE)
def draw_calibration(view: View, *, axes: Axes | None = None) -> Chart:
    """One curve with its band a class; below it the predictions with and without the event.

    Parameters
    ----------
    view : View
        With a calibration.
    axes : Axes, optional
        To draw the first curve in, alone, instead of a figure of its own.
    """
    curves = view.calibration[: 1 if axes is not None else MOST_CLASSES]
    below = view.risk_distributions[: len(curves)] if axes is None else ()
    label = "Predicted and observed outcomes"
    rows, heights = (2, (3.0, 1.0)) if below else (1, None)
    chart = Chart(label, 4.4 if below else 3.4, rows, len(curves), heights=heights, axes=axes)
    for panel, curve in zip(chart.panels, curves, strict=False):
        _curve(chart, panel, curve, shared=bool(view.plan and view.plan.classes))
    for panel, shares in zip(chart.panels[len(curves) :], below, strict=True):
        panel.set_xlim(chart.panels[0].get_xlim())
        _shares(chart, panel, shares)
        panel.set_xlabel("predicted")
    if not below:
        for panel in chart.panels:
            panel.set_xlabel("predicted")
    chart.panels[0].set_ylabel("observed")
    return chart


def _curve(chart: Chart, axes: Axes, curve: Calibration, *, shared: bool) -> None:
    """What is observed at every prediction; the diagonal is right."""
    most = min(1.0, 1.1 * max((*curve.predicted, *curve.upper)))  # rare events lie at the left
    ends = (0.0, most) if shared else (min(curve.predicted), max(curve.predicted))
    axes.plot(ends, ends, color=MUTED, linewidth=0.8, zorder=0.5)
    axes.fill_between(
        curve.predicted, curve.lower, curve.upper, color=ACCENT, alpha=0.15, linewidth=0.0
    )
    axes.plot(curve.predicted, curve.observed, color=ACCENT, linewidth=1.3)
    points = zip(
        curve.predicted, curve.observed, curve.lower, curve.upper, curve.share, strict=True
    )
    for predicted, observed, lower, upper, share in points:
        text = (
            f"predicted {number(predicted)}: observed {number(observed)} "
            f"({interval(lower, upper)}), {percent(share)} of patients"
        )
        chart.dot(axes, predicted, observed, text, markersize=2.0 + 8.0 * share**0.5)
    if shared:
        axes.set_xlim(0.0, most)
        axes.set_ylim(0.0, most)
    if curve.of_class is not None:
        axes.set_title(short(curve.of_class, 18), loc="left")
    axes.grid(color=FAINT, linewidth=0.5)
    axes.tick_params(axis="y", labelcolor=MUTED)


def _shares(chart: Chart, axes: Axes, told: RiskDistribution) -> None:
    """Predictions of those with the event upwards, of those without downwards."""
    left = told.edges[:-1]
    widths = [b - a for a, b in zip(left, told.edges[1:], strict=True)]
    sides = (("with", 1.0, told.with_event, INK), ("without", -1.0, told.without_event, MUTED))
    for word, sign, shares, colour in sides:
        for x, width, share in zip(left, widths, shares, strict=True):
            if share > 0.0:
                [bar] = axes.bar([x], [sign * share], width, align="edge", color=colour)
                between = interval(x, x + width)
                chart.mark(bar, f"{percent(share)} of those {word} the event: {between}")
    axes.axhline(0.0, color=MUTED, linewidth=0.8)
    axes.set_yticks([])
    for y, word in ((0.97, "with the event"), (0.03, "without")):
        axes.annotate(
            word, (0.99, y), xycoords="axes fraction", ha="right", color=MUTED, fontsize=8.5,
            va="top" if y > 0.5 else "bottom",
        )  # fmt: skip

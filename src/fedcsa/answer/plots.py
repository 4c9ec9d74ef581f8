"""The charts of the report, for a notebook: each takes a result and returns a display."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedcsa.answer.charts.calibration_plot import draw_calibration
from fedcsa.answer.charts.decision_plot import draw_decision_curve
from fedcsa.answer.charts.forest_plot import draw_forest_plots
from fedcsa.answer.charts.kept_promises import draw_kept_promises
from fedcsa.answer.charts.love_plot import draw_love_plot
from fedcsa.answer.charts.over_time import draw_over_time
from fedcsa.answer.charts.risk_curve import draw_risk_curve
from fedcsa.answer.forests import is_known, source_forest
from fedcsa.answer.view import View, view_of
from fedcsa.errors import must
from fedcsa.target.adaptation import Adaptation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fedcsa.answer.charts.drawing import Chart


@dataclass(frozen=True, repr=False)
class ChartDisplay:
    """A chart that was drawn, as scikit-learn's displays are; a notebook shows it.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
        The first panel.
    axes_ : tuple of matplotlib Axes
        All panels.
    """

    figure_: Figure
    axes_: tuple[Axes, ...]

    @property
    def ax_(self) -> Axes:
        """The first panel."""
        return self.axes_[0]

    def _repr_svg_(self) -> str:
        from fedcsa.answer.charts.figure import svg

        return svg(self.figure_)


def plot_risk(result: Any) -> ChartDisplay:
    """Draw the estimated risk of every candidate, a standard error to either side.

    Parameters
    ----------
    result : Adaptation or fitted FedCSA
    """
    view = _view(result)
    if not view.points:
        raise must("result", "one with candidates", "one without")
    return _display(draw_risk_curve(view))


def plot_forest(result: Any, measure: str | None = None, *, ax: Axes | None = None) -> ChartDisplay:
    """Draw what every source found, and what a new site may expect.

    Parameters
    ----------
    result : Adaptation or fitted FedCSA
        With a promise.
    measure : str, optional
        For example ``"auroc"``, ``"rmse"``, ``"calibration_slope"``; by default the study's loss,
        in units that people use. A measure at several thresholds, or of several classes, has a
        panel each.
    ax : matplotlib Axes, optional
        To draw in, instead of a figure of its own; then only the first panel is drawn.
    """
    view = _view(result)
    found = [m for m in view.everybody if measure in (m.name, None) and is_known(m)]
    if not found or view.loss is None:
        known = ", ".join(dict.fromkeys(m.name for m in view.everybody)) or "none"
        raise must("measure", f"one that is promised ({known})", repr(measure))
    shown = [view.loss] if measure is None else found
    forests = [source_forest(view, item) for item in shown[: 1 if ax is not None else None]]
    return _display(draw_forest_plots(forests), ax)


def plot_calibration(result: Any, *, ax: Axes | None = None) -> ChartDisplay:
    """Draw what happens to patients with a prediction, with its band for a new site.

    Parameters
    ----------
    result : Adaptation or fitted FedCSA
        With a calibration curve.
    ax : matplotlib Axes, optional
        To draw in, instead of a figure of its own; then only the first curve is drawn.
    """
    view = _view(result)
    if not view.calibration:
        raise must("result", "one with a calibration curve", "one without")
    return _display(draw_calibration(view, alone=ax is not None), ax)


def plot_decision_curve(result: Any, *, ax: Axes | None = None) -> ChartDisplay:
    """Draw the net benefit at every threshold, beside treating everybody and nobody.

    Parameters
    ----------
    result : Adaptation or fitted FedCSA
        Of a study with two classes.
    ax : matplotlib Axes, optional
        To draw in, instead of a figure of its own.
    """
    view = _view(result)
    curve = view.decision_curve
    if curve is None or view.plan is None:
        raise must("result", "one with a decision curve", "one without")
    return _display(draw_decision_curve(curve, view.plan.thresholds), ax)


def plot_balance(result: Any) -> ChartDisplay:
    """Draw the standardised differences of means before and after weighting (a Love plot).

    Parameters
    ----------
    result : Adaptation or fitted FedCSA
    """
    return _display(draw_love_plot(_view(result)))


def plot_backtest(result: Any) -> ChartDisplay:
    """Draw what was promised to every source that played the target, and what came true.

    Parameters
    ----------
    result : Adaptation or fitted FedCSA
        With a back-test.
    """
    backtest = _view(result).backtest
    if backtest is None:
        raise must("result", "one with a back-test", "one without")
    return _display(draw_kept_promises(backtest))


def plot_outcomes(result: Any) -> ChartDisplay:
    """Draw how the loss became known as outcomes came in: the promise, then every update.

    Parameters
    ----------
    result : fitted FedCSA
        After `FedCSA.update`.
    """
    view = _view(result)
    if view.came is None:
        raise must("result", "a fitted FedCSA after an update", "one without outcomes")
    return _display(draw_over_time(view.came))


def _display(chart: Chart, ax: Axes | None = None) -> ChartDisplay:
    from fedcsa.answer.charts.figure import figure_of

    return ChartDisplay(*figure_of(chart, ax))


def _view(result: Any) -> View:
    adaptation = getattr(result, "adaptation_", result)
    if not isinstance(adaptation, Adaptation):
        raise must("result", "an Adaptation or a fitted FedCSA", type(result).__name__)
    return view_of(adaptation, getattr(result, "update_", None))

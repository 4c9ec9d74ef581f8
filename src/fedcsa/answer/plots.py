"""The charts of the report, for a notebook: each takes a result and returns a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedcsa.answer.view import View, view_of
from fedcsa.errors import MissingExtraError, must
from fedcsa.target.adaptation import Adaptation

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_risk(result: Any) -> Figure:
    """Draw the estimated risk of every candidate, a standard error to either side.

    Parameters
    ----------
    result : Adaptation or fitted FedCSA
    """
    view = _view(result)
    from fedcsa.answer.charts.risk_curve import draw

    return draw(view).figure


def plot_sources(result: Any) -> Figure:
    """Draw what every source found and its weight, and what a new site may expect (a forest plot).

    Parameters
    ----------
    result : Adaptation or fitted FedCSA
    """
    view = _view(result)
    from fedcsa.answer.charts.forest_plot import draw

    return draw(view).figure


def plot_balance(result: Any) -> Figure:
    """Draw the standardised differences of means before and after weighting (a Love plot).

    Parameters
    ----------
    result : Adaptation or fitted FedCSA
    """
    view = _view(result)
    from fedcsa.answer.charts.love_plot import draw

    return draw(view, () if view.plan is None else view.plan.features).figure


def plot_backtest(result: Any) -> Figure:
    """Draw what was promised to every source that played the target, and what came true.

    Parameters
    ----------
    result : Adaptation or fitted FedCSA
        With a back-test.
    """
    backtest = _view(result).backtest
    if backtest is None:
        raise must("result", "one with a back-test", "one without")
    from fedcsa.answer.charts.kept_promises import draw

    return draw(backtest).figure


def _view(result: Any) -> View:
    try:
        import matplotlib  # noqa: F401 - only whether it is there
    except ImportError:
        raise MissingExtraError("matplotlib", "report", "A chart") from None
    adaptation = getattr(result, "adaptation_", result)
    if not isinstance(adaptation, Adaptation):
        raise must("result", "an Adaptation or a fitted FedCSA", type(result).__name__)
    return view_of(adaptation)

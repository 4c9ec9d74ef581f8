"""The charts of the report, for a notebook: each takes a result and returns a figure."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fedcsa.answer.view import View, view_of
from fedcsa.errors import MissingExtraError, must
from fedcsa.target.adaptation import Adaptation

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def require_report(*packages: str, what: str) -> None:
    """Raise a `MissingExtraError` unless the packages that `what` needs are here."""
    for package in packages:
        if find_spec(package) is None:
            raise MissingExtraError(package, "report", what)


def plot_risk(result: Any) -> Figure:
    """Draw the estimated risk of every candidate, a standard error to either side.

    Parameters
    ----------
    result : Adaptation or fitted FedCSA
    """
    view = _view(result)
    from fedcsa.answer.charts import risk_curve

    return risk_curve.draw_risk_curve(view).figure


def plot_sources(result: Any) -> Figure:
    """Draw what every source found and its weight, and what a new site may expect (a forest plot).

    Parameters
    ----------
    result : Adaptation or fitted FedCSA
    """
    view = _view(result)
    from fedcsa.answer.charts import forest_plot

    return forest_plot.draw_forest_plot(view).figure


def plot_balance(result: Any) -> Figure:
    """Draw the standardised differences of means before and after weighting (a Love plot).

    Parameters
    ----------
    result : Adaptation or fitted FedCSA
    """
    view = _view(result)
    from fedcsa.answer.charts import love_plot

    return love_plot.draw_love_plot(view).figure


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
    from fedcsa.answer.charts import kept_promises

    return kept_promises.draw_kept_promises(backtest).figure


def _view(result: Any) -> View:
    require_report("matplotlib", what="A chart")
    adaptation = getattr(result, "adaptation_", result)
    if not isinstance(adaptation, Adaptation):
        raise must("result", "an Adaptation or a fitted FedCSA", type(result).__name__)
    return view_of(adaptation)

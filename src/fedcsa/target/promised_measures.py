"""What every measure will be at the target, as the sources' examination lets expect it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class MeasurePromise:
    """One measure at the target.

    Attributes
    ----------
    name : str
        As in `fedcsa.core.measures.MEASURES`.
    subgroup : str
        Its name; ``""`` for everybody.
    threshold : float or None
    of_class : str or None
        The class's label, where there are three or more.
    estimate, lower, upper : float
        Median and ends of the prediction interval; NaN if there is none.
    between_sites : float
        Standard deviation between sites, on the measure's own scale.
    by_source : mapping of str to (value, lower, upper)
        What the sources found; those that cannot tell are absent.
    why_not : str
        ``""``, or why there is no estimate.
    """

    name: str
    subgroup: str = ""
    threshold: float | None = None
    of_class: str | None = None
    estimate: float = float("nan")
    lower: float = float("nan")
    upper: float = float("nan")
    between_sites: float = float("nan")
    by_source: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    why_not: str = ""


@dataclass(frozen=True)
class Calibration:
    """A calibration plot: points, the band for a new site, and the share of rows at each.

    Attributes
    ----------
    of_class : str or None
        The class's label, where there are three or more.
    predicted, observed, lower, upper, share : tuple of float
        For numbers in the outcome's units.
    """

    of_class: str | None
    predicted: tuple[float, ...]
    observed: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    share: tuple[float, ...]


@dataclass(frozen=True)
class DecisionCurve:
    """Net benefit over thresholds, of the model and of treating all; treating none has 0.

    Attributes
    ----------
    thresholds, model, lower, upper, treat_all : tuple of float
    """

    thresholds: tuple[float, ...]
    model: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    treat_all: tuple[float, ...]


@dataclass(frozen=True)
class RiskDistribution:
    """Predicted risks of rows with and without the event.

    Attributes
    ----------
    of_class : str or None
    edges : tuple of float
        One more than bins, probabilities.
    with_event, without_event : tuple of float
        Shares of the bins; each sums to one.
    """

    of_class: str | None
    edges: tuple[float, ...]
    with_event: tuple[float, ...]
    without_event: tuple[float, ...]


@dataclass(frozen=True)
class Recalibration:
    """A correction of the predictions, offered and never applied.

    Classes: log-odds become intercept + slope · log-odds. Numbers: intercept + slope · prediction.

    Attributes
    ----------
    of_class : str or None
    intercept, slope : float
    before, after : tuple of MeasurePromise
        Of the predictions as they are, and corrected; every source is judged by the correction
        that the others give.
    """

    of_class: str | None
    intercept: float
    slope: float
    before: tuple[MeasurePromise, ...]
    after: tuple[MeasurePromise, ...]

"""Every measure in words: its title, its unit, what it means, and what it is compared with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from fedcsa.target.risk_units import OF_LOSS
from fedcsa.words import number, percent

if TYPE_CHECKING:
    from fedcsa.plan import Plan


@dataclass(frozen=True)
class MeasureWords:
    """How a measure is told.

    Attributes
    ----------
    title : str
    meaning : str
        One clause, with its unit.
    times : float
        100 for what people count per hundred.
    unit : str
        Behind the number; ``""`` for none.
    beside : float or None
        The value to compare with; a loss is compared with a constant's, which differs by study.
    beside_is : str
        What has that value.
    logarithmic : bool
        Whether it is a positive number of which ratios matter.
    """

    title: str
    meaning: str
    times: float = 1.0
    unit: str = ""
    beside: float | None = None
    beside_is: str = ""
    logarithmic: bool = False

    def text(self, value: float | None) -> str:
        """The value as people write it.

        >>> WORDS["sensitivity"].text(0.8125), WORDS["auroc"].text(float("nan"))
        ('81.2 %', '—')
        """
        if value is None or math.isnan(value):
            return "—"
        return f"{number(self.times * value)}{self.unit}"

    def between(self, lower: float | None, upper: float | None) -> str:
        """An interval; the unit stands once.

        >>> WORDS["sensitivity"].between(0.7, 0.9)
        '70 to 90 %'
        """
        if lower is None or upper is None or math.isnan(lower):
            return "—"
        return f"{number(self.times * lower)} to {number(self.times * upper)}{self.unit}"


def _share(title: str, meaning: str) -> MeasureWords:
    return MeasureWords(title, meaning, 100.0, " %")


def _positive(title: str, meaning: str) -> MeasureWords:
    return MeasureWords(title, meaning, logarithmic=True)


#: In the order in which they are shown.
WORDS: Mapping[str, MeasureWords] = {
    "auroc": MeasureWords(
        "AUROC",
        "chance that the prediction is higher for a patient with the event than for one without; "
        "0.5 is guessing, 1 is perfect",
        beside=0.5,
        beside_is="guessing",
    ),
    "event_rate": MeasureWords(
        "events per 100 patients", "how many of 100 patients have the event", 100.0
    ),
    "observed_expected": MeasureWords(
        "events for 100 predicted",
        "observed over expected events: 100 is right, more means that predictions are too low",
        100.0,
        beside=1.0,
        beside_is="right",
        logarithmic=True,
    ),
    "rmse": _positive("RMSE", "root mean squared error, in units of the outcome"),
    "mae": _positive("MAE", "mean absolute error, in units of the outcome"),
    "r2": MeasureWords(
        "R²",
        "share of the outcome's variance that is explained; 0 is no better than a constant",
        beside=0.0,
        beside_is="a constant",
    ),
    "calibration_slope": MeasureWords(
        "calibration slope",
        "1 is right, less means that predictions are too extreme",
        beside=1.0,
        beside_is="right",
    ),
    "calibration_intercept": MeasureWords(
        "calibration intercept",
        "outcome less prediction, in units of the outcome; for classes on the logit scale; 0 is "
        "right",
        beside=0.0,
        beside_is="right",
    ),
    "log_loss": _positive("log loss", "mean of −log of the probability given to what happened"),
    "brier": _positive(
        "Brier score",
        "mean squared error of the probabilities: of the event for two classes, summed over the "
        "classes for more",
    ),
    "scaled_brier": MeasureWords(
        "scaled Brier score",
        "share of a constant's Brier score that is avoided: 0 is no better, 100 % is perfect",
        100.0,
        " %",
        beside=0.0,
        beside_is="a constant",
    ),
    "sensitivity": _share("sensitivity", "share of those with the event above the threshold"),
    "specificity": _share("specificity", "share of those without the event below the threshold"),
    "ppv": _share(
        "positive predictive value", "share of those above the threshold who have the event"
    ),
    "npv": _share(
        "negative predictive value", "share of those below the threshold who do not have the event"
    ),
    "net_benefit": MeasureWords(
        "net benefit per 100 patients",
        "true positives per 100 patients, less the false ones at the threshold's exchange rate",
        100.0,
        beside=0.0,
        beside_is="treat nobody",
    ),
    "error_rate": _share("misclassified", "share of patients with the wrong class"),
    "loss": _positive("risk", "mean of the study's own loss"),
}
#: The loss itself.
LOSS_NAMES: Mapping[str, str] = {
    "squared": "mean squared error",
    "absolute": "mean absolute error",
    "log": "log loss",
    "brier": "Brier score",
    "zero-one": "misclassification rate",
}


class NamedMeasure(Protocol):
    """Whatever is said of one measure: promised, realised, or updated."""

    @property
    def name(self) -> str:
        """A key of `WORDS`."""
        ...

    @property
    def threshold(self) -> float | None:
        """Of the prediction, if it has one."""
        ...

    @property
    def of_class(self) -> str | None:
        """Of several classes, if it is of one."""
        ...


def title_of(measure: NamedMeasure) -> str:
    """Its title, with the class and the threshold."""
    title = WORDS[measure.name].title
    if measure.of_class is not None:
        title += f" of {measure.of_class}"
    return title if measure.threshold is None else f"{title} at {percent(measure.threshold)}"


def loss_words_of(plan: Plan) -> MeasureWords:
    """How a study's loss is told, `in_units`."""
    return WORDS[loss_measure(plan)]


def risk_name(plan: Plan) -> str:
    """What a risk is called that is told `in_units`."""
    return WORDS["rmse"].title if plan.loss == "squared" else LOSS_NAMES.get(plan.loss, "loss")


def loss_measure(plan: Plan) -> str:
    """The measure that the study's loss is."""
    return OF_LOSS.get(plan.loss, "loss")

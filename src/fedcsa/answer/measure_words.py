"""Every measure in words: its title, its unit, what it means, and what it is compared with."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedcsa.answer.templates import page_asset
from fedcsa.core.measures import MEASURES
from fedcsa.target.risk_units import OF_LOSS
from fedcsa.words import number, percent

if TYPE_CHECKING:
    from fedcsa.plan import Plan
    from fedcsa.target.backtest_result import MeasureRecord
    from fedcsa.target.promised_measures import MeasurePromise
    from fedcsa.target.with_outcomes import MeasureUpdate


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
    times: float
    unit: str
    beside: float | None
    beside_is: str
    logarithmic: bool

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

    def with_interval(self, value: float, lower: float, upper: float) -> str:
        """An estimate, and its interval in brackets.

        >>> WORDS["sensitivity"].with_interval(0.8125, 0.7, 0.9)
        '81.2 % (70 to 90 %)'
        """
        return f"{self.text(value)} ({self.between(lower, upper)})"


#: In the order in which they are shown, which is that of the lines of ``measures.csv``.
WORDS: Mapping[str, MeasureWords] = {
    row["name"]: MeasureWords(
        row["title"],
        row["meaning"],
        float(row["times"] or 1.0),
        row["unit"],
        float(row["beside"]) if row["beside"] else None,
        row["beside_is"],
        row["logarithmic"] == "yes",
    )
    for row in csv.DictReader(page_asset("fedcsa.answer", "measures.csv").splitlines())
}
#: On which scale sites are compared, by the measure's link; the measure's own unit needs no word.
_LINKS = {"identity": "", "log": "log scale", "logit": "log-odds", "rest": "log of 1−x"}
_SCALES = {measure.name: _LINKS[measure.link] for measure in MEASURES}
#: The loss itself.
LOSS_NAMES: Mapping[str, str] = {
    "squared": "mean squared error",
    "absolute": "mean absolute error",
    "log": "log loss",
    "brier": "Brier score",
    "zero-one": "misclassification rate",
}


def title_of(measure: MeasurePromise | MeasureRecord | MeasureUpdate) -> str:
    """Its title, with the class and the threshold."""
    title = WORDS[measure.name].title
    if measure.of_class is not None:
        title += f" of {measure.of_class}"
    return title if measure.threshold is None else f"{title} at {percent(measure.threshold)}"


def title_and_subgroup(measure: MeasureRecord | MeasureUpdate) -> str:
    """Its title, and in which subgroup."""
    title = title_of(measure)
    return f"{title}, {measure.subgroup}" if measure.subgroup else title


def found_ends(measure: MeasurePromise) -> tuple[float, float] | None:
    """The smallest and the largest value that a source found; None if none found any."""
    values = [value for value, _, _ in measure.by_source.values()]
    return (min(values), max(values)) if values else None


def spread_text(measure: MeasurePromise) -> str:
    """The sd between sites, with the scale on which sites are compared.

    One source cannot tell how sites differ: then it is what was assumed before.

    >>> from fedcsa.target.promised_measures import MeasurePromise
    >>> spread_text(MeasurePromise("auroc", between_sites=0.3))
    '0.3 log-odds'
    >>> spread_text(MeasurePromise("net_benefit", between_sites=0.02))
    '2'
    """
    scale = _SCALES.get(measure.name, "log scale")  # of the loss itself its logarithm is compared
    told = f"{number(measure.between_sites)} {scale}"
    if not scale:
        told = WORDS[measure.name].text(measure.between_sites)
    return f"{told}, assumed" if len(measure.by_source) == 1 else told


def loss_words_of(plan: Plan) -> MeasureWords:
    """How a study's loss is told, `in_units`."""
    return WORDS[loss_measure(plan)]


def risk_name(plan: Plan) -> str:
    """What a risk is called that is told `in_units`."""
    return WORDS["rmse"].title if plan.loss == "squared" else LOSS_NAMES.get(plan.loss, "loss")


def loss_measure(plan: Plan) -> str:
    """The measure that the study's loss is."""
    return OF_LOSS.get(plan.loss, "loss")

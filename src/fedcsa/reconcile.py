"""When outcomes arrive: what was realised, and whether the promise was kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from fedcsa.core.arrays import Array, as_matrix, as_outcome
from fedcsa.core.losses import Loss, loss_named, row_losses
from fedcsa.core.realised import Place, mean_interval, place
from fedcsa.errors import DataError
from fedcsa.findings import ADVICE, Advice
from fedcsa.plan import Plan
from fedcsa.target.adaptation import Adaptation
from fedcsa.target.estimate import score_design
from fedcsa.target.judge_given import check_target_has, predictions_of
from fedcsa.target.realised_measures import (
    OF_LOSS,
    MeasureOutcome,
    in_units,
    outcomes_of,
    realised_rows,
)
from fedcsa.target.verdict import Verdict
from fedcsa.words import with_interval

Comparison = Literal[
    "as promised",
    "worse than promised",
    "far worse than promised",
    "better than promised",
    "far better than promised",
    "not judged",
]
#: Where the realised risk lies -> the conclusion, and what it leaves of "use it". Better outcomes
#: than promised cost trust as well: outcomes follow another rule here than at the sources.
_CONCLUSIONS: Mapping[Place | None, tuple[Comparison, Advice]] = {
    "inside": ("as promised", "use"),
    "above": ("worse than promised", "care"),
    "far above": ("far worse than promised", "no"),
    "below": ("better than promised", "care"),
    "far below": ("far better than promised", "care"),
    None: ("not judged", "use"),
}
_DIFFERS = "the target differs from the sources by more than they differ from each other"


@dataclass(frozen=True)
class Reconciliation:
    """What was realised at the target, beside what was promised.

    Attributes
    ----------
    realised : float
        Risk on the rows whose outcomes arrived.
    lower, upper : float or None
        Its own interval: Clopper and Pearson's for the zero-one loss, Student's for others, with
        an allowance for what was not seen if it is the Brier loss. None if all other losses are
        equal, which says nothing of how they vary.
    n_rows : int
    promised : float
        The promised risk; the method's estimate where nothing was promised.
    promised_lower, promised_upper : float or None
        The prediction interval for a new site.
    level : float
        Of both intervals.
    advice : {"use", "care", "no"}
        Of the study, before outcomes arrived.
    measures : tuple of MeasureOutcome
        Every measure, promised and realised.
    """

    realised: float
    lower: float | None
    upper: float | None
    n_rows: int
    promised: float
    promised_lower: float | None
    promised_upper: float | None
    level: float
    advice: Advice
    measures: tuple[MeasureOutcome, ...] = ()

    @property
    def _place(self) -> Place | None:
        """Where the realised risk lies; None if one of the two intervals is missing."""
        if self.promised_lower is None or self.promised_upper is None:
            return None
        if self.lower is None or self.upper is None:
            return None
        return place(self.lower, self.upper, self.promised_lower, self.promised_upper)

    @property
    def conclusion(self) -> Comparison:
        """Where the realised risk lies, its own sampling error allowed for.

        ``"as promised"`` if the two intervals meet; ``"far …"`` if even the nearer end of the
        realised one lies beyond twice the nearer end of the promised one; ``"not judged"`` if
        one of the two is missing.
        """
        return _CONCLUSIONS[self._place][0]

    @property
    def kept(self) -> bool | None:
        """Whether the promise was kept; None if that cannot be told."""
        return None if self._place is None else self._place == "inside"

    @property
    def reason(self) -> str:
        """What the conclusion means."""
        if self.kept is not None:
            return f"no sign that {_DIFFERS}" if self.kept else _DIFFERS
        if self.promised_lower is None:
            return "nothing was promised"
        return (
            f"the losses of all {self.n_rows} rows are equal, which says nothing of how they "
            "vary; wait for more outcomes"
        )

    def lines(self, units: Callable[[float], float] = float) -> tuple[str, ...]:
        """What was realised, what was promised if anything, and what follows.

        Parameters
        ----------
        units : function, optional
            From a risk to the number that is shown; it must not decrease.
        """

        def told(risk: float, *ends: float | None) -> str:
            lower, upper = (None if end is None else units(end) for end in ends)
            return with_interval(units(risk), lower, upper)

        realised = told(self.realised, self.lower, self.upper)
        promised = told(self.promised, self.promised_lower, self.promised_upper)
        return (
            f"realised on {self.n_rows} rows: {realised}",
            *([] if self.promised_lower is None else [f"promised: {promised}"]),
            f"{self.conclusion}: {self.reason}",
        )

    @property
    def sentence(self) -> str:
        """The same in one sentence."""
        return "; ".join(self.lines())

    @property
    def verdict(self) -> Verdict:
        """What to do with the model now: a broken promise lowers the advice, nothing raises it."""
        left = _CONCLUSIONS[self._place][1]
        return Verdict(max(self.advice, left, key=list(ADVICE).index), self.sentence)

    def to_json(self) -> dict[str, Any]:
        """All numbers, and what follows from them."""
        return {
            **asdict(self),
            "conclusion": self.conclusion,
            "kept": self.kept,
            "sentence": self.sentence,
            "verdict": {"advice": self.verdict.advice, "words": self.verdict.words},
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The same out of what `to_json` gave."""
        values = {item.name: content[item.name] for item in fields(cls)}
        measures = tuple(MeasureOutcome(**item) for item in values.pop("measures"))
        return cls(**values, measures=measures)


def reconcile(
    adaptation: Adaptation,
    X: ArrayLike,
    y: Any,
    loss: Loss | None = None,
    predicted: ArrayLike | None = None,
) -> Reconciliation:
    """Compare the promised risk with the outcomes of some of the target's rows.

    Parameters
    ----------
    adaptation : Adaptation
    X : array of shape (rows, features)
        Rows of the target; at least two.
    y : array of shape (rows,)
        Their outcomes.
    loss : function, optional
        Needed only if the study used a loss of its own.
    predicted : array of shape (rows,), optional
        Needed only if the study judged a column of predictions: that column of these rows.
    """
    plan = adaptation.plan
    rows = as_matrix(X, "X", n_columns=len(plan.features))
    if len(rows) < 2:
        raise DataError(
            "At least 2 rows with outcomes are needed to say how sure they are; there is 1. "
            "Wait for more outcomes."
        )
    where = "The outcome"
    outcome = as_outcome(y, plan.classes, where)
    if len(outcome) != len(rows):
        raise DataError(
            f"{where} must have {len(rows)} rows like X; it has {len(outcome)}. "
            "Give one outcome a row, in the same order."
        )
    output = adaptation.output(rows) if predicted is None else _given(predicted, plan, rows)
    losses = row_losses(loss or loss_named(plan.loss), output, outcome)
    lower, upper = mean_interval(losses, "" if loss else plan.loss, plan.level) or (None, None)
    if lower is not None and loss is None:  # a built-in loss is never negative
        lower = max(lower, 0.0)
    promised, (low, high) = adaptation.target_risk, adaptation.interval or (None, None)
    mean, advice = float(losses.mean()), adaptation.verdict.advice
    design = score_design(plan, adaptation.reports)
    measures = outcomes_of(
        adaptation.measures, realised_rows(plan, design, (rows, outcome, output)), design
    )
    if lower is not None and upper is not None:
        measures = _with_ends(measures, plan, lower, upper)
    return Reconciliation(
        mean, lower, upper, len(rows), promised, low, high, plan.level, advice, measures
    )


def _with_ends(
    measures: tuple[MeasureOutcome, ...], plan: Plan, lower: float, upper: float
) -> tuple[MeasureOutcome, ...]:
    """The measures, where that which is the study's loss has the interval of the realised risk.

    Parameters
    ----------
    measures : tuple of MeasureOutcome
    plan : Plan
    lower, upper : float
        Of the realised risk.
    """
    low, high = in_units(plan, lower), in_units(plan, upper)
    own = OF_LOSS.get(plan.loss), "", None, None
    return tuple(
        replace(m, realised_lower=low, realised_upper=high)
        if (m.name, m.subgroup, m.threshold, m.of_class) == own
        else m
        for m in measures
    )


def _given(predicted: ArrayLike, plan: Plan, rows: Array) -> Array:
    """Predictions as a model would give them, (rows,) or (rows, classes).

    Parameters
    ----------
    predicted : array of shape (rows,)
        Numbers, or probabilities of the second class.
    plan : Plan
    rows : array of shape (rows, features)
    """
    column = np.asarray(predicted, dtype=np.float64)
    check_target_has(column, plan, rows)
    output = predictions_of(column, rows, len(plan.classes))
    assert output is not None  # noqa: S101 - there is a column
    return output

"""A few outcomes at the target: they change the promise, the model and the verdict.

The sources' examinations let expect a distribution of every measure at a new site. Outcomes of some
of the target's rows turn it into that of *this* site. Everything happens at the target, and nothing
more leaves it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from numpy.typing import ArrayLike

from fedcsa.core.losses import Loss
from fedcsa.findings import Finding
from fedcsa.models.correction import Correction
from fedcsa.target.adaptation import Adaptation
from fedcsa.target.verdict import Verdict

#: Estimate, lower and upper end.
Three = tuple[float, float, float]


@dataclass(frozen=True)
class MeasureUpdate:
    """One measure of the model as it was: promised, on the outcomes alone, and with both.

    Attributes
    ----------
    name, subgroup, threshold, of_class
        As in `MeasurePromise`. The study's own loss is called ``"risk"`` and stands first, in the
        units of the loss.
    before : (estimate, lower, upper) or None
        The promise for a new site; None if there is none.
    alone : (estimate, lower, upper) or None
        From the outcomes alone; None if they are too few for that.
    after : (estimate, lower, upper)
        From both, for this one look.
    anytime : (lower, upper)
        From both, and right however often one looks, see `fedcsa.core.few_outcomes`.
    worth_rows : float
        Outcomes alone that would give an interval as narrow as `after`; NaN if that is not known.
    p_value : float
        Of what the outcomes show, if this site differed from the sources as they differ from each
        other; for one look.
    against : float
        How many times as probable the outcomes are if this site is unlike the sources. As likely as
        20 in 1 of 20 sites that are like them at most, however often one looks.
    why_not : str
        ``""``, or why the outcomes change nothing here: then `after` is `before`.
    """

    name: str
    subgroup: str
    threshold: float | None
    of_class: str | None
    before: Three | None
    alone: Three | None
    after: Three
    anytime: tuple[float, float]
    worth_rows: float
    p_value: float
    against: float
    why_not: str = ""


@dataclass(frozen=True)
class UpdateLook:
    """The study's loss as it was known after some of the outcomes, in the units of the loss.

    Attributes
    ----------
    n_rows : int
        Outcomes until then.
    estimate : float
    lower, upper : float
        Of the interval that is right however often one looks.
    against : float
        Likewise, see `MeasureUpdate`; over all measures that are tested.
    """

    n_rows: int
    estimate: float
    lower: float
    upper: float
    against: float


@dataclass(frozen=True)
class Update:
    """What some outcomes change at the target. It holds no row.

    Attributes
    ----------
    n_rows : int
        Outcomes.
    effective_rows : float
        1/Σw² of their weights.
    level : float
        Of all intervals.
    measures : tuple of MeasureUpdate
        The risk first.
    against : float
        Evidence that this site is unlike the sources: the mean of that of risk, level and slope,
        the largest of all looks. At 20 or more, it is.
    correction : Correction or None
        What changes in the model; None if it cannot be changed, see `why_same_model`.
        ``replace(adaptation, correction=update.correction)`` predicts with it.
    why_same_model : str
    gain : float
        Risk of the corrected model over that of the model as it was, on the labelled rows, each
        predicted by a correction that has not seen it; NaN if there is no correction.
    before, verdict : Verdict
        Before and after.
    changed : str
        One sentence: what changed, and why.
    findings : tuple of Finding
    path : tuple of UpdateLook
        One a look, the last is this one.
    """

    n_rows: int
    effective_rows: float
    level: float
    measures: tuple[MeasureUpdate, ...]
    against: float
    correction: Correction | None
    why_same_model: str
    gain: float
    before: Verdict
    verdict: Verdict
    changed: str
    findings: tuple[Finding, ...] = ()
    path: tuple[UpdateLook, ...] = field(default=())

    @property
    def risk(self) -> MeasureUpdate:
        """The study's own loss."""
        return self.measures[0]

    def to_json(self) -> dict[str, Any]:
        """All numbers, and what follows from them."""
        raise NotImplementedError

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The same out of what `to_json` gave."""
        raise NotImplementedError


def update(
    adaptation: Adaptation,
    X: ArrayLike,
    y: Any,
    *,
    row_weights: ArrayLike | None = None,
    arrived: Sequence[int] = (),
    loss: Loss | None = None,
    predicted: ArrayLike | None = None,
) -> Update:
    """Bring the outcomes of some of the target's rows into the answer.

    Parameters
    ----------
    adaptation : Adaptation
        The answer before. A correction that it already has is not looked at: give all outcomes.
    X : array of shape (rows, features)
        Rows of the target, at least one, in the order in which their outcomes came.
    y : array of shape (rows,)
        Their outcomes.
    row_weights : array of shape (rows,), optional
        Not negative, up to a factor: those of the design by which the rows were chosen.
    arrived : sequence of int
        How many outcomes there were at every earlier look, rising.
    loss : function, optional
        Needed only if the study used a loss of its own.
    predicted : array of shape (rows,), optional
        Needed only if the study judged a column of predictions: that column of these rows.
    """
    raise NotImplementedError


def expected_interval(adaptation: Adaptation, n_rows: float) -> Three:
    """The risk with its interval, if so many outcomes came and were as the promise says.

    Parameters
    ----------
    adaptation : Adaptation
    n_rows : float
        Effective outcomes.
    """
    raise NotImplementedError

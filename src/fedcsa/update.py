"""A few outcomes at the target: they change the promise, the model and the verdict.

The sources' examinations let expect a distribution of every measure at a new site. Outcomes of some
of the target's rows turn it into that of *this* site. Everything happens at the target, and nothing
more leaves it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from fedcsa.core.arrays import as_matrix, as_outcome
from fedcsa.core.few_outcomes import TOO_UNLIKE, Alone, chance, worth_rows
from fedcsa.core.losses import BOUNDED, Loss
from fedcsa.core.measures import FEWEST_ROWS, Measure, from_link
from fedcsa.core.plain_record import plain_value, record_of
from fedcsa.core.realised import Place, mean_interval, place
from fedcsa.errors import DataError, ModelError
from fedcsa.findings import ADVICE, Finding
from fedcsa.models.correction import Correction
from fedcsa.target.adaptation import Adaptation
from fedcsa.target.judge_given import check_target_has, predictions_of
from fedcsa.target.own_model import (
    MANY_CLASSES,
    NO_SLOPE,
    correction_of,
    gain_of,
    line_prior,
)
from fedcsa.target.own_outcomes import Labelled, OwnOutcomes, Quantity
from fedcsa.target.own_verdict import verdict_after
from fedcsa.target.realised_measures import OF_LOSS, in_units
from fedcsa.target.verdict import Leg, Verdict

#: Why outcomes change nothing.
NOT_ENOUGH = "too few of the labelled rows, or of their events"
NO_PROMISE = "nothing was promised"
PromiseKept = Literal[
    "as promised",
    "worse than promised",
    "far worse than promised",
    "better than promised",
    "far better than promised",
    "not judged",
]
#: Where the risk lies against the promise, in words.
CONCLUSIONS: Mapping[Place | None, PromiseKept] = {
    "inside": "as promised",
    "above": "worse than promised",
    "far above": "far worse than promised",
    "below": "better than promised",
    "far below": "far better than promised",
    None: "not judged",
}
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
    worth_rows : float or None
        Outcomes alone that would give an interval as narrow as `after`; None if nobody can tell.
    p_value : float or None
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
    worth_rows: float | None = None
    p_value: float | None = None
    against: float = 1.0
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
    gain : float or None
        Risk of the corrected model over that of the model as it was, on the labelled rows, each
        predicted by a correction that has not seen it; None if there is none.
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
    gain: float | None
    before: Verdict
    verdict: Verdict
    changed: str
    findings: tuple[Finding, ...] = ()
    path: tuple[UpdateLook, ...] = field(default=())

    @property
    def risk(self) -> MeasureUpdate:
        """The study's own loss."""
        return self.measures[0]

    @property
    def conclusion(self) -> PromiseKept:
        """Where the risk lies against the promise, however often one looks."""
        return CONCLUSIONS[self._place]

    @property
    def kept(self) -> bool | None:
        """Whether the promise was kept; None if that cannot be told."""
        return None if self._place is None else self._place == "inside"

    @property
    def _place(self) -> Place | None:
        risk = self.risk
        if risk.before is None or risk.alone is None:
            return None
        return place(*risk.anytime, *risk.before[1:])

    def to_json(self) -> dict[str, Any]:
        """All numbers, and what follows from them."""
        found = asdict(self)
        found["findings"] = [asdict(item) for item in self.findings]
        found["correction"] = None if self.correction is None else self.correction.to_json()
        return {**found, "conclusion": self.conclusion, "kept": self.kept}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The same out of what `to_json` gave."""
        made = content["correction"]
        values: dict[str, Any] = {
            "measures": tuple(record_of(MeasureUpdate, item) for item in content["measures"]),
            "path": tuple(record_of(UpdateLook, item) for item in content["path"]),
            "findings": tuple(_finding(item) for item in content["findings"]),
            "before": _verdict(content["before"]),
            "verdict": _verdict(content["verdict"]),
            "correction": None if made is None else Correction.from_json(made),
        }
        if not values["measures"] or not values["path"]:
            raise ValueError
        rest = {x.name: str(x.type) for x in fields(cls) if x.name not in values}
        return cls(**values, **{k: plain_value(how, content[k]) for k, how in rest.items()})


def _verdict(content: Mapping[str, Any]) -> Verdict:
    """A verdict out of plain values."""
    if content["advice"] not in ADVICE:
        raise ValueError
    legs = tuple(record_of(Leg, leg) for leg in content["legs"])
    return Verdict(content["advice"], plain_value("str", content["sentence"]), legs)


def _finding(content: Mapping[str, Any]) -> Finding:
    """A finding out of plain values."""
    told = {
        key: value if isinstance(value, str) else plain_value("float", value)
        for key, value in content["evidence"].items()
    }
    return Finding(content["code"], plain_value("str", content["source"]), told)


def update(
    adaptation: Adaptation,
    X: ArrayLike,
    y: Any,
    *,
    row_weights: ArrayLike | None = None,
    earlier: Sequence[UpdateLook] = (),
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
    earlier : sequence of UpdateLook
        What was known at earlier looks, with ever more outcomes. It stays as it was told then.
    loss : function, optional
        Needed only if the study used a loss of its own.
    predicted : array of shape (rows,), optional
        Needed only if the study judged a column of predictions: that column of these rows.
    """
    rows = labelled_rows(adaptation, X, y, row_weights, predicted)
    _check_that_they_rise([look.n_rows for look in earlier], len(rows.y))
    if adaptation.promise is None:
        return _without_promise(adaptation, rows, loss)
    own = OwnOutcomes(adaptation, rows, loss)
    looks = [*earlier, _look(own)]
    against = max(look.against for look in looks)
    made = line_prior(own)
    few = len(adaptation.plan.classes) > 2
    correction, gain = None, None
    if made is not None and not few:
        how = {"coefficients": predicted is None}
        correction = correction_of(adaptation, rows, made, **how)
        gain = gain_of(adaptation, rows, made, loss, **how)
    why = MANY_CLASSES if few else "" if made is not None else NO_SLOPE
    measures = (_risk_update(own), *_measure_updates(own))
    verdict = verdict_after(own, against)
    return Update(
        len(rows.y),
        rows.effective_rows,
        adaptation.plan.level,
        measures,
        against,
        correction,
        why,
        gain,
        adaptation.verdict,
        verdict,
        _what_changed(adaptation.verdict, verdict),
        _findings(own, measures[0], against),
        tuple(looks),
    )


def expected_interval(adaptation: Adaptation, n_rows: float) -> Three:
    """The risk with its interval, if so many outcomes came and were as the promise says.

    Parameters
    ----------
    adaptation : Adaptation
    n_rows : float
        Effective outcomes.
    """
    if adaptation.promise is None:
        raise ModelError("Nothing was promised, so outcomes have nothing to narrow.")
    own, middle = OwnOutcomes(adaptation, Labelled(*(np.empty(0),) * 4)), adaptation.target_risk
    one_row = own.risk_with(float(np.log(middle)), 1.0, float("nan")).one_row
    risk = own.risk_with(float(np.log(middle)), n_rows, one_row / n_rows)
    after = risk.after(risk.against)
    return _three(after.quantile(0.5), *after.interval(adaptation.plan.level), np.exp)


# Rows --------------------------------------------------------------------------------------------


def labelled_rows(
    adaptation: Adaptation,
    X: ArrayLike,
    y: Any,
    row_weights: ArrayLike | None,
    predicted: ArrayLike | None,
) -> Labelled:
    """The rows, checked, with what the model as it was predicts.

    Parameters
    ----------
    adaptation, X, y, row_weights, predicted
        As for `update`.
    """
    plan = adaptation.plan
    rows = as_matrix(X, "X", n_columns=len(plan.features))
    outcome = as_outcome(y, plan.classes, "The outcome")
    if len(outcome) != len(rows):
        raise DataError(
            f"The outcome must have {len(rows)} rows like X; it has {len(outcome)}. "
            "Give one outcome a row, in the same order."
        )
    w = np.ones(len(rows)) if row_weights is None else np.asarray(row_weights, dtype=np.float64)
    if w.shape != (len(rows),) or not np.isfinite(w).all() or (w < 0.0).any() or not w.sum() > 0.0:
        raise DataError(
            "Weights of rows must be one finite number a row, not negative, and not all zero. "
            "Leave them out if all rows count alike."
        )
    if predicted is None:
        output = adaptation.output_before(rows)
    else:
        column = np.asarray(predicted, dtype=np.float64)
        check_target_has(column, plan, rows)
        told = predictions_of(column, rows, len(plan.classes))
        assert told is not None  # noqa: S101 - there is a column
        output = told
    return Labelled(rows, outcome, output, w / w.sum())


def _check_that_they_rise(earlier: list[int], n_rows: int) -> None:
    """Raise unless there were ever more outcomes.

    Parameters
    ----------
    earlier : list of int
        Outcomes at earlier looks.
    n_rows : int
        Outcomes now.
    """
    if any(a >= b for a, b in itertools.pairwise([0, *earlier, n_rows])):
        raise DataError(
            "The numbers of outcomes at earlier looks must rise, and be fewer than there are now. "
            "Give all outcomes, also those of earlier looks."
        )


# The number --------------------------------------------------------------------------------------


def _three(middle: float, lower: float, upper: float, told: Callable[[float], Any]) -> Three:
    """Estimate and ends, whichever way the scale runs.

    Parameters
    ----------
    middle, lower, upper : float
        On the scale without walls.
    told : function
        To the value.
    """
    low, high = sorted((float(told(lower)), float(told(upper))))
    return float(told(middle)), low, high


def _with_both(
    item: MeasureUpdate, found: Quantity, own: OwnOutcomes, told: Callable[[float], Any]
) -> MeasureUpdate:
    """The measure with what outcomes make of it.

    Parameters
    ----------
    item : MeasureUpdate
        As if outcomes changed nothing.
    found : Quantity
    own : OwnOutcomes
        That it is of.
    told : function
        From the scale without walls to the value.
    """
    if found.alone is None:
        return replace(item, why_not=NOT_ENOUGH)
    level, after = own.plan.level, found.after(own.unlike)
    ends = after.interval(level)
    low, high = sorted(float(told(end)) for end in after.anytime(level))
    return replace(
        item,
        after=_three(after.quantile(0.5), *ends, told),
        anytime=(low, high),
        worth_rows=worth_rows(ends[1] - ends[0], found.one_row, level),
        p_value=chance(found.before, found.alone),
        against=after.against,
    )


def _risk_update(own: OwnOutcomes) -> MeasureUpdate:
    """The study's own loss."""
    promise = own.adaptation.promise
    assert promise is not None  # noqa: S101 - it is asked before
    largest = 1.0 if own.plan.loss in BOUNDED else np.inf
    before = promise.risk, promise.lower, promise.upper
    same = MeasureUpdate("risk", "", None, None, before, _risk_alone(own), before, before[1:])
    return _with_both(same, own.risk, own, lambda x: min(float(np.exp(x)), largest))


def _risk_alone(own: OwnOutcomes) -> Three | None:
    """Mean loss with its classical interval; None if the rows say nothing of how losses vary.

    Parameters
    ----------
    own : OwnOutcomes
    """
    rows, losses, level = own.labelled, own.losses, own.plan.level
    if len(losses) < 2:
        return None
    mean, variance = rows.mean(losses)
    name = "" if own.loss else own.plan.loss
    if np.ptp(rows.weights) == 0.0:
        ends = mean_interval(losses, name, level)
    elif losses.min() == losses.max():
        ends = None
    else:
        ends = Alone(mean, variance, max(rows.effective_rows - 1.0, 1.0)).interval(level)
    if ends is None:
        return None
    return mean, ends[0] if own.loss else max(ends[0], 0.0), ends[1]


def _measure_updates(own: OwnOutcomes) -> tuple[MeasureUpdate, ...]:
    """Every promised measure."""
    evidence, found = own.adaptation.evidence, []
    if evidence is None:
        return ()
    width = len(evidence.columns)
    for index, promise in enumerate(own.adaptation.measures):
        s, k = divmod(index, width)
        if promise.why_not:
            continue
        before = promise.estimate, promise.lower, promise.upper
        is_loss = s == 0 and promise.name == OF_LOSS.get(own.plan.loss)
        item = own.risk if is_loss else own.measures[s, k]
        told = _units(own, evidence.columns[k].measure, is_loss=is_loss)
        alone = None
        if is_loss:
            risk = _risk_alone(own)
            alone = None if risk is None else _three(*risk, lambda x: in_units(own.plan, x))
        elif item.own is not None:
            ends = item.own.interval(own.plan.level)
            alone = own.shown[s, k][0], *_three(item.own.estimate, *ends, told)[1:]
        same = MeasureUpdate(
            promise.name, promise.subgroup, promise.threshold, promise.of_class,
            before, alone, before, before[1:],
        )  # fmt: skip
        found.append(_with_both(same, item, own, told))
    return tuple(found)


def _units(own: OwnOutcomes, measure: Measure, *, is_loss: bool) -> Callable[[float], float]:
    """From the scale without walls to a measure's value.

    Parameters
    ----------
    own : OwnOutcomes
    measure : Measure
    is_loss : bool
        Whether it is the study's loss, whose scale is the logarithm of the risk.
    """
    if is_loss:
        largest = 1.0 if own.plan.loss in BOUNDED else np.inf
        return lambda x: in_units(own.plan, min(float(np.exp(x)), largest))
    return lambda x: float(from_link(measure, np.array(x)))


def _look(own: OwnOutcomes) -> UpdateLook:
    """The risk as these outcomes let it be known, and the evidence that this site is unlike."""
    after = own.risk.after(own.unlike)
    lower, upper = np.exp(after.anytime(own.plan.level)).tolist()
    middle = float(np.exp(after.quantile(0.5)))
    return UpdateLook(len(own.labelled.y), middle, lower, upper, own.against)


def _without_promise(adaptation: Adaptation, rows: Labelled, loss: Loss | None) -> Update:
    """Where nothing was promised: the outcomes alone.

    Parameters
    ----------
    adaptation : Adaptation
    rows : Labelled
    loss : function or None
    """
    own, nan = OwnOutcomes(adaptation, rows, loss), float("nan")
    alone = _risk_alone(own)
    after = alone or (rows.mean(own.losses)[0], nan, nan)
    risk = MeasureUpdate(
        "risk", "", None, None, None, alone, after, after[1:], None, None, 1.0, NO_PROMISE
    )
    verdict = adaptation.verdict
    return Update(
        len(rows.y), rows.effective_rows, adaptation.plan.level, (risk,), 1.0, None, NO_PROMISE,
        None, verdict, verdict, _what_changed(verdict, verdict),
        _findings(own, risk, 1.0), (UpdateLook(len(rows.y), *after, 1.0),),
    )  # fmt: skip


# What changed -----------------------------------------------------------------------------------


def _what_changed(before: Verdict, after: Verdict) -> str:
    """One sentence.

    Parameters
    ----------
    before, after : Verdict
    """
    if before.advice == after.advice:
        return f"the verdict stays: {after.sentence}"
    return f"'{before.words}' becomes '{after.words}': {after.sentence}"


def _findings(own: OwnOutcomes, risk: MeasureUpdate, against: float) -> tuple[Finding, ...]:
    """What is dangerous about these outcomes.

    Parameters
    ----------
    own : OwnOutcomes
    risk : MeasureUpdate
    against : float
    """
    y, found = own.labelled.y, []
    if against >= TOO_UNLIKE:
        found.append(Finding("unlike-sources", evidence={"times as probable": against}))
    if risk.before is not None and risk.anytime[0] > risk.before[0]:
        times = {"times the promised risk": risk.after[0] / risk.before[0]}
        found.append(Finding("outcomes-worse", evidence=times))
    if len(y) > 1 and y.min() == y.max():
        found.append(Finding("outcomes-same", evidence={"outcomes": float(len(y))}))
    if len(y) < FEWEST_ROWS:
        found.append(Finding("few-outcomes", evidence={"outcomes": float(len(y))}))
    return tuple(found)

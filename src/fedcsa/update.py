"""A few outcomes at the target: they change the promise, the model and the verdict.

The sources' examinations give a distribution of every measure at a new site. Outcomes of some
of the target's rows turn it into that of *this* site. Everything happens at the target, and nothing
more leaves it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcsa.core.arrays import Array, as_matrix, as_outcome
from fedcsa.core.few_outcomes import TOO_UNLIKE, Alone, pooled_variance
from fedcsa.core.losses import Loss
from fedcsa.core.measures import FEWEST_ROWS
from fedcsa.core.plain_record import plain_value, record_of
from fedcsa.core.realised import Place, place
from fedcsa.errors import DataError, ModelError
from fedcsa.findings import ADVICE, Finding
from fedcsa.models.correction import Correction
from fedcsa.target.adaptation import Adaptation
from fedcsa.target.judge_given import check_target_has, predictions_of
from fedcsa.target.own_outcomes import LEAST_RISK, Labelled, OwnOutcomes
from fedcsa.target.per_patient import (
    CONTRADICTED,
    PATIENT_LEVEL,
    IntervalCheck,
    check_of,
    effective_rows,
    whole_rows,
)
from fedcsa.target.verdict import Leg, Verdict
from fedcsa.target.with_outcomes import (
    MANY_CLASSES,
    NO_SLOPE,
    ONE_NUMBER,
    MeasureUpdate,
    Three,
    correction_of,
    expected_gain,
    gain_of,
    line_prior,
    measure_updates,
    risk_alone,
    risk_update,
    unseen_output,
    verdict_after,
    with_ends,
)

#: Why outcomes change nothing.
NO_PROMISE = "nothing was promised"
PromiseKept = Literal[
    "as promised",
    "probably worse than promised",
    "probably better than promised",
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


@dataclass(frozen=True)
class UpdateLook:
    """The study's loss as it was known after some of the outcomes, in the units of the loss.

    Attributes
    ----------
    n_rows : int
        Outcomes until then.
    estimate, lower, upper : float
        As `MeasureUpdate.after` was then.
    anytime : (lower, upper)
        Likewise, right at all looks together.
    against : float
        Likewise, over all measures that are tested.
    """

    n_rows: int
    estimate: float
    lower: float
    upper: float
    anytime: tuple[float, float]
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
    unlike : float
        The strongest evidence of any of them now: how much the promise still counts follows.
    row_variance : float or None
        n times the variance of the logarithm of the risk from n outcomes; None if not known.
    correction : Correction or None
        What changes in the model; None if it cannot be changed, see `why_same_model`.
        ``adaptation.with_correction(update.correction, update.intervals)`` predicts with it.
    why_same_model : str
    gain : float or None
        Risk of the corrected model over that of the model as it was, on the labelled rows, each
        predicted by a correction that has not seen it; None if there is none.
    expected_gain : float or None
        What is to be expected of it at this site, see `fedcsa.target.with_outcomes`.
    before, verdict : Verdict
        Before and after.
    changed : str
        One sentence: what changed, and why.
    findings : tuple of Finding
    path : tuple of UpdateLook
        One per look, each as it was then; the last is this one.
    intervals : tuple of IntervalCheck
        Whether outcomes lay in their intervals per patient: one, or one a class; empty if there
        are no such intervals.
    """

    n_rows: int
    effective_rows: float
    level: float
    measures: tuple[MeasureUpdate, ...]
    against: float
    unlike: float
    row_variance: float | None
    correction: Correction | None
    why_same_model: str
    gain: float | None
    expected_gain: float | None
    before: Verdict
    verdict: Verdict
    changed: str
    findings: tuple[Finding, ...] = ()
    path: tuple[UpdateLook, ...] = field(default=())
    intervals: tuple[IntervalCheck, ...] = ()

    @property
    def risk(self) -> MeasureUpdate:
        """The study's own loss."""
        return self.measures[0]

    @property
    def conclusion(self) -> PromiseKept:
        """Where the risk lies against the promise, repeated looks allowed for."""
        risk = self.risk
        if self._place == "inside" and risk.before is not None:  # not broken so far
            if risk.after[0] > risk.before[2]:
                return "probably worse than promised"
            if risk.after[0] < risk.before[1]:
                return "probably better than promised"
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
        return {**asdict(self), "conclusion": self.conclusion, "kept": self.kept}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The same out of what `to_json` gave."""
        made = content["correction"]
        values: dict[str, Any] = {
            "measures": tuple(record_of(MeasureUpdate, item) for item in content["measures"]),
            "path": tuple(record_of(UpdateLook, item) for item in content["path"]),
            "intervals": tuple(record_of(IntervalCheck, item) for item in content["intervals"]),
            "findings": tuple(_finding(item) for item in content["findings"]),
            "before": _verdict(content["before"]),
            "verdict": _verdict(content["verdict"]),
            "correction": None if made is None else Correction.from_json(made),
        }
        if not values["measures"] or not values["path"]:
            raise ValueError
        rest = {x.name: str(x.type) for x in fields(cls) if x.name not in values}
        found = cls(**values, **{k: plain_value(how, content[k]) for k, how in rest.items()})
        narrow = sum(item.code == "intervals-narrow" for item in found.findings)
        checked = sum(check.n_rows for check in found.intervals)
        if narrow != sum(check.contradicted for check in found.intervals) or (
            found.intervals and checked != found.n_rows
        ):
            raise ValueError
        return found


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
    _check_rising(earlier, len(rows.y))
    if adaptation.promise is None:
        return _without_promise(adaptation, rows, loss, earlier)
    own = OwnOutcomes(adaptation, rows, loss)
    measures = (risk_update(own), *measure_updates(own))
    look = UpdateLook(len(rows.y), *measures[0].after, measures[0].anytime, own.against)
    path = (*earlier, look)
    against = max(look.against for look in path)
    correction, why, gain, expected = _corrected(own, measures[0], coefficients=predicted is None)
    verdict = verdict_after(own, against)
    return Update(
        len(rows.y),
        rows.effective_rows,
        adaptation.plan.level,
        measures,
        against,
        own.unlike,
        own.risk.one_row if np.isfinite(own.risk.one_row) else None,
        correction,
        why,
        gain,
        expected,
        adaptation.verdict,
        verdict,
        _what_changed(adaptation.verdict, verdict),
        _findings(own, measures[0], against),
        path,
    )


def _corrected(
    own: OwnOutcomes, risk: MeasureUpdate, *, coefficients: bool
) -> tuple[Correction | None, str, float | None, float | None]:
    """What changes in the model or why nothing does, what that gained, and what is expected.

    Parameters
    ----------
    own : OwnOutcomes
    risk : MeasureUpdate
    coefficients : bool
        Whether the model's coefficients may change.
    """
    adaptation, rows, made = own.adaptation, own.labelled, line_prior(own)
    if len(adaptation.plan.classes) > 2:
        return None, MANY_CLASSES, None, None
    if not adaptation.plan.classes and len(rows.y) > 1 and rows.y.min() == rows.y.max():
        return None, ONE_NUMBER, None, None
    if made is None:
        return None, NO_SLOPE, None, None
    correction = correction_of(adaptation, rows, made, coefficients=coefficients)
    gain = gain_of(adaptation, rows, made, own.loss, coefficients=coefficients)
    return correction, "", gain, expected_gain(own, correction, risk.after[0])


def with_intervals(found: Update, adaptation: Adaptation, rows: Labelled, *, widen: bool) -> Update:
    """The update with the intervals per patient held against the same outcomes.

    These corrected the model, too. So every row is predicted by a correction that has not seen it;
    if rows of one fold have all the weight, there is none, and the model as it was predicts.

    Parameters
    ----------
    found : Update
        Whose correction predicts from now on.
    adaptation : Adaptation
    rows : Labelled
    widen : bool
        Whether outcomes may widen intervals that they contradict.
    """
    limits, output = adaptation.patient_limits, rows.output
    if limits is None:
        return found
    if found.correction is not None:
        prior = line_prior(OwnOutcomes(adaptation, rows))
        assert prior is not None  # noqa: S101 - there is a correction
        moved = bool(found.correction.coefficients)
        unseen = unseen_output(adaptation, rows, prior, coefficients=moved)
        output = rows.output if unseen is None else unseen
    beyond = limits.beyond(output, adaptation.standardised(rows.X), rows.y)
    classes, everybody = adaptation.plan.classes, np.ones(len(beyond), np.bool_)
    # A set promises something to the patients of every class.
    parts: Mapping[str | None, NDArray[np.bool_]] = (
        {str(c): rows.y == k for k, c in enumerate(classes)} if classes else {None: everybody}
    )
    chance = CONTRADICTED / len(parts)
    checks = tuple(
        check_of(c, beyond[here], rows.weights[here], limits.level, chance, widen=widen)
        for c, here in parts.items()
    )
    narrow = tuple(
        _narrow(check, effective_rows(rows.weights[here]))
        for check, here in zip(checks, parts.values(), strict=True)
        if check.contradicted
    )
    return replace(found, intervals=checks, findings=(*found.findings, *narrow))


def _narrow(check: IntervalCheck, effective: float) -> Finding:
    """That outcomes contradict the intervals per patient.

    Parameters
    ----------
    check : IntervalCheck
    effective : float
        Effective rows, which are told if weights make them fewer than the outcomes.
    """
    told: dict[str, float | str] = {} if check.of_class is None else {"class": check.of_class}
    told |= {"inside": float(check.inside), "of": float(check.n_rows), "promised": PATIENT_LEVEL}
    if whole_rows(effective) < check.n_rows:
        told["effective rows"] = effective
    if check.wider and check.of_class is None:
        told["times as wide"] = float(np.exp(check.wider))
    elif check.wider:
        told["log-odds wider"] = check.wider
    return Finding("intervals-narrow", evidence=told)


def expected_interval(adaptation: Adaptation, n_rows: float, last: Update | None = None) -> Three:
    """The risk with its interval at so many outcomes, if those to come are as is expected now.

    Parameters
    ----------
    adaptation : Adaptation
    n_rows : float
        Effective outcomes, those that are in counted.
    last : Update, optional
        What is known with the outcomes that are in.
    """
    if adaptation.promise is None:
        raise ModelError("Nothing was promised, so outcomes have nothing to narrow.")
    risk = OwnOutcomes(adaptation, Labelled(*(np.empty(0),) * 4)).risk_with(0.0, n_rows, np.nan)
    mean, one_row, unlike = adaptation.target_risk, risk.one_row, 0.0
    if last is not None and last.row_variance is not None:
        now, share = last.risk.after[0], min(last.effective_rows / n_rows, 1.0)
        alone = now if last.risk.alone is None else last.risk.alone[0]
        mean = share * max(alone, LEAST_RISK * adaptation.target_risk) + (1.0 - share) * now
        one_row, unlike = last.row_variance, last.unlike
    found = Alone(
        float(np.log(mean)), *pooled_variance(n_rows, one_row / n_rows, one_row, loss=True)
    )
    risk = replace(risk, alone=found if one_row > 0.0 else None)
    after = risk.after(max(unlike, risk.against))
    return with_ends(after.quantile(0.5), *after.interval(adaptation.plan.level), np.exp)


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
            "Give one outcome per row, in the same order."
        )
    w = np.ones(len(rows)) if row_weights is None else np.asarray(row_weights, dtype=np.float64)
    if w.shape != (len(rows),) or not np.isfinite(w).all() or (w < 0.0).any() or not w.sum() > 0.0:
        raise DataError(
            "Weights of rows must be one finite number per row, not negative, and not all zero. "
            "Leave them out if all rows count alike."
        )
    if predicted is not None:
        predicted = np.asarray(predicted, dtype=np.float64)
        check_target_has(predicted, plan, rows)
    return Labelled(rows, outcome, output_before(adaptation, rows, predicted), w / w.sum())


def output_before(adaptation: Adaptation, X: Array, predicted: Array | None) -> Array:
    """What was predicted before any outcome came.

    Parameters
    ----------
    adaptation : Adaptation
    X : array of shape (rows, features)
    predicted : array of shape (rows,) or None
        The column of predictions, if the study judged one.
    """
    output = predictions_of(predicted, X, len(adaptation.plan.classes))
    return adaptation.output(X, corrected=False) if output is None else output


def _check_rising(earlier: Sequence[UpdateLook], n_rows: int) -> None:
    """Raise unless there were ever more outcomes.

    Parameters
    ----------
    earlier : sequence of UpdateLook
        The earlier ones.
    n_rows : int
        Outcomes now.
    """
    if any(a >= b for a, b in itertools.pairwise([0, *(look.n_rows for look in earlier), n_rows])):
        raise DataError(
            "The numbers of outcomes at earlier looks must rise, and be fewer than there are now. "
            "Give all outcomes, also those of earlier looks."
        )


# What is known now --------------------------------------------------------------------------------


def _without_promise(
    adaptation: Adaptation, rows: Labelled, loss: Loss | None, earlier: Sequence[UpdateLook]
) -> Update:
    """Where nothing was promised: the outcomes alone.

    Parameters
    ----------
    adaptation : Adaptation
    rows : Labelled
    loss : function or None
    earlier : sequence of UpdateLook
        The earlier ones.
    """
    own, nan = OwnOutcomes(adaptation, rows, loss), float("nan")
    alone = risk_alone(own)
    after = alone or (rows.mean(own.losses)[0], nan, nan)
    risk = MeasureUpdate(
        "risk", "", None, None, None, alone, after, after[1:], None, None, 1.0, NO_PROMISE
    )
    verdict = adaptation.verdict
    return Update(
        len(rows.y), rows.effective_rows, adaptation.plan.level, (risk,), 1.0, 1.0, None, None,
        NO_PROMISE, None, None, verdict, verdict, _what_changed(verdict, verdict),
        _findings(own, risk, 1.0), (*earlier, UpdateLook(len(rows.y), *after, after[1:], 1.0)),
    )  # fmt: skip


# What changed -----------------------------------------------------------------------------------


def _what_changed(before: Verdict, after: Verdict) -> str:
    """One sentence: the verdicts, and the legs that stand or fall now.

    Parameters
    ----------
    before, after : Verdict
    """
    if before.advice == after.advice:
        return f"the verdict stays: {after.sentence}"
    pairs = zip(before.legs, after.legs, strict=False)
    moved = [f"{leg.name}: {leg.sentence}" for was, leg in pairs if leg.passed != was.passed]
    why = "; ".join(moved) or after.sentence
    return f"'{before.words}' becomes '{after.words}': {why}"


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

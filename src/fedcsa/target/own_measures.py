"""Every measure of the model as it was: promised, on the outcomes alone, and with both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedcsa.core.arrays import stdtrit
from fedcsa.core.few_outcomes import FEWEST_ALONE, Alone, chance, worth_rows
from fedcsa.core.losses import BOUNDED
from fedcsa.core.measures import Measure, from_link
from fedcsa.core.realised import mean_interval
from fedcsa.target.own_outcomes import OwnOutcomes, Quantity
from fedcsa.target.realised_measures import in_units
from fedcsa.target.risk_units import OF_LOSS

#: Why outcomes change nothing.
NOT_ENOUGH = "too few of the labelled rows, or of their events"
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
        From both. Right whenever one stops: it holds given the outcomes so far.
    anytime : (lower, upper)
        From both, and right at all looks together, see `fedcsa.core.few_outcomes`.
    worth_rows : float or None
        Outcomes alone that would give an interval as narrow as `after`: more than there are if
        `after` is narrower than `alone`. None if nobody can tell.
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


def with_ends(middle: float, lower: float, upper: float, told: Callable[[float], Any]) -> Three:
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
    both = with_ends(after.quantile(0.5), *ends, told)
    if item.alone is None:  # on the scale without walls, as the sources let rows vary
        width, one_row = ends[1] - ends[0], found.alone.variance * own.labelled.effective_rows
    else:
        width, one_row = both[2] - both[1], _one_outcome(item.alone, own)
    return replace(
        item,
        after=both,
        anytime=(low, high),
        worth_rows=worth_rows(width, one_row, level) if np.isfinite(one_row) else None,
        p_value=chance(found.before, found.alone),
        against=after.against,
    )


def _one_outcome(alone: Three, own: OwnOutcomes) -> float:
    """N times the variance, of outcomes and not of events or pairs, that an interval shows.

    Parameters
    ----------
    alone : (estimate, lower, upper)
        From the outcomes alone, on the scale on which it is told.
    own : OwnOutcomes
    """
    n = max(own.labelled.effective_rows, FEWEST_ALONE)
    slack = float(stdtrit(n - 1.0, 0.5 + own.plan.level / 2.0))
    return n * ((alone[2] - alone[1]) / (2.0 * slack)) ** 2


def risk_update(own: OwnOutcomes) -> MeasureUpdate:
    """The study's own loss."""
    promise = own.adaptation.promise
    assert promise is not None  # noqa: S101 - it is asked before
    largest = 1.0 if own.plan.loss in BOUNDED else np.inf
    before = promise.risk, promise.lower, promise.upper
    same = MeasureUpdate("risk", "", None, None, before, risk_alone(own), before, before[1:])
    return _with_both(same, own.risk, own, lambda x: min(float(np.exp(x)), largest))


def risk_alone(own: OwnOutcomes) -> Three | None:
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


def measure_updates(own: OwnOutcomes) -> tuple[MeasureUpdate, ...]:
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
            risk = risk_alone(own)
            alone = None if risk is None else with_ends(*risk, lambda x: in_units(own.plan, x))
        elif item.own is not None:
            ends = item.own.interval(own.plan.level)
            alone = own.shown[s, k][0], *with_ends(item.own.estimate, *ends, told)[1:]
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

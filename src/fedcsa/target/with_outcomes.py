"""What outcomes of the target make of every measure, of the model, and of the verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcsa.core.arrays import Array, stdtrit
from fedcsa.core.few_outcomes import (
    FEWEST_ALONE,
    TOO_UNLIKE,
    Alone,
    ThisSite,
    chance,
    worth_rows,
)
from fedcsa.core.losses import BOUNDED, Loss, loss_named, row_losses
from fedcsa.core.measures import Measure, from_link
from fedcsa.core.random_effects import NewSite
from fedcsa.core.realised import mean_interval
from fedcsa.core.shrunk_line import LinePrior, shrunk_line
from fedcsa.models.correction import Correction, log_odds
from fedcsa.models.linear_format import LinearModel
from fedcsa.target.own_outcomes import Labelled, OwnOutcomes, Quantity
from fedcsa.target.risk_units import OF_LOSS, RiskScale, beside_constant, in_units, risk_scale
from fedcsa.target.verdict import (
    MIN_SKILL,
    PROBABLY,
    RATE_SIZE,
    RESIDUAL_SIZE,
    RISK_SIZE,
    Leg,
    Verdict,
    verdict_on,
)
from fedcsa.words import number, shown_probability

if TYPE_CHECKING:
    from fedcsa.target.adaptation import Adaptation

#: Why outcomes change nothing.
NOT_ENOUGH = "too few of the labelled rows, or of their events"
#: Estimate, lower and upper end.
Three = tuple[float, float, float]
#: Why the model stays as it was.
MANY_CLASSES = "a model of three or more classes is not corrected"
ONE_NUMBER = "all outcomes are the same number, so they cannot be compared with the predictions"
NO_SLOPE = "the sources could not tell how its calibration differs between sites"
#: Folds in which a correction is judged on rows that it has not seen.
FOLDS = 10


# Every measure of the model as it was -----------------------------------------------------------


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
        On the unbounded scale.
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
        From the unbounded scale to the value.
    """
    if found.alone is None:
        return replace(item, why_not=NOT_ENOUGH)
    level, after = own.plan.level, found.after(own.unlike)
    ends = after.interval(level)
    low, high = sorted(float(told(end)) for end in after.anytime(level))
    both = with_ends(after.quantile(0.5), *ends, told)
    if item.alone is None:  # on the unbounded scale, as the sources let rows vary
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
    """From the unbounded scale to a measure's value.

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


# The model, corrected, and what that gains ------------------------------------------------------


def line_prior(own: OwnOutcomes) -> LinePrior | None:
    """How sites differ, as the examinations saw it; None if they could not tell.

    Parameters
    ----------
    own : OwnOutcomes
    """
    if own.slope is None or not own.levels:
        return None
    noise = 1.0 if own.plan.classes else own.residual**2
    intercept, slope = between(own.levels[0].before) * noise, between(own.slope.before)
    return LinePrior(intercept, slope, coefficient_variances(own.adaptation, noise), noise)


def between(site: NewSite) -> float:
    """Mean of τ² given the estimates."""
    return float(site.probabilities @ site.taus**2)


def coefficient_variances(adaptation: Adaptation, noise: float) -> Array:
    """Variance of the models' coefficients between sites, sampling taken off, (features,).

    Features are in units of the target's sds. Of shape (0,) unless two or more models are linear.

    Parameters
    ----------
    adaptation : Adaptation
    noise : float
        Mean squared error; for classes 1.
    """
    lines = {n: m for n, m in adaptation.models.items() if isinstance(m, LinearModel)}
    rows = {n: adaptation.reports[n].effective_rows for n in lines if n in adaptation.reports}
    if len(lines) < len(adaptation.models) or len(rows) < 2:
        return np.empty(0)
    unit = np.ones(len(adaptation.plan.features)) if adaptation.plan.scale else adaptation.table.sd
    B = np.array([lines[n].coefficients * unit for n in rows])
    share = noise
    if adaptation.plan.classes:  # a row tells p(1 − p) of a log-odds
        rate = np.mean([adaptation.reports[n].outcome_mean[1] for n in rows])
        share = 1.0 / max(float(rate * (1.0 - rate)), 0.01)
    chance = share * float(np.mean([1.0 / max(n, 1.0) for n in rows.values()]))
    found: Array = np.maximum(B.var(axis=0, ddof=1) - chance, 0.0)
    return found


def correction_of(
    adaptation: Adaptation, rows: Labelled, prior: LinePrior, *, coefficients: bool = True
) -> Correction:
    """The correction from some labelled rows.

    Parameters
    ----------
    adaptation : Adaptation
    rows : Labelled
    prior : LinePrior
    coefficients : bool
        Whether the model's coefficients may change: not if only its predictions are known.
    """
    classes = bool(adaptation.plan.classes)
    line = log_odds(rows.output) if classes else rows.output
    if not coefficients:
        prior = LinePrior(prior.intercept, prior.slope, np.empty(0), prior.noise)
    z = adaptation.standardised(rows.X)
    weights = rows.weights * rows.effective_rows
    intercept, slope, delta = shrunk_line(rows.y, line, z, weights, prior, classes=classes)
    return Correction(intercept, slope, tuple(delta.tolist()))


def expected_gain(own: OwnOutcomes, correction: Correction, risk: float) -> float | None:
    """The corrected model's risk over that of the model as it was, as is to be expected here.

    The corrected prediction is what is expected of an outcome given all that is known. So the
    squared loss falls by the mean square of the change; a loss of classes by its mean difference
    if outcomes come as the corrected model says. None for other losses of numbers.

    Parameters
    ----------
    own : OwnOutcomes
    correction : Correction
    risk : float
        Of the model as it was, as outcomes and promise predict it.
    """
    rows, loss = own.labelled, own.loss or loss_named(own.plan.loss)
    after = correction.corrected(rows.output, own.adaptation.standardised(rows.X))
    if own.plan.classes:
        saved = np.zeros(len(rows.y))
        for k in range(after.shape[1]):
            y = np.full(len(rows.y), float(k))
            before, now = (row_losses(loss, each, y) for each in (rows.output, after))
            saved += after[:, k] * (before - now)
    elif own.plan.loss == "squared" and own.loss is None:
        saved = (after - rows.output) ** 2
    else:
        return None
    return max(1.0 - float(rows.weights @ saved) / risk, 0.0) if risk > 0.0 else None


def gain_of(
    adaptation: Adaptation,
    rows: Labelled,
    prior: LinePrior,
    loss: Loss | None,
    *,
    coefficients: bool = True,
) -> float | None:
    """Risk of the corrected model over that of the model as it was, on rows it has not seen.

    Parameters
    ----------
    adaptation, rows, prior, coefficients
        As for `correction_of`.
    loss : function or None
        The study's own, if it is none of ours.
    """
    function = loss or loss_named(adaptation.plan.loss)
    output = unseen_output(adaptation, rows, prior, coefficients=coefficients)
    if output is None:
        return None
    before, after = (
        float(rows.weights @ row_losses(function, each, rows.y)) for each in (rows.output, output)
    )
    return after / before if before > 0.0 else None


def unseen_output(
    adaptation: Adaptation, rows: Labelled, prior: LinePrior, *, coefficients: bool = True
) -> Array | None:
    """Corrected predictions of labelled rows, each by a correction that has not seen its outcome.

    None if the other rows have no weight.

    Parameters
    ----------
    adaptation, rows, prior, coefficients
        As for `correction_of`.
    """
    n = len(rows.y)
    fold, z = np.arange(n) % FOLDS, adaptation.standardised(rows.X)
    output = rows.output.copy()
    for k in range(min(FOLDS, n)):
        here, rest = fold == k, fold != k
        w = rows.weights[rest]
        if not w.sum() > 0.0:
            return None
        seen = Labelled(rows.X[rest], rows.y[rest], rows.output[rest], w / w.sum())
        made = correction_of(adaptation, seen, prior, coefficients=coefficients)
        output[here] = made.corrected(rows.output[here], z[here])
    return output


# The verdict ------------------------------------------------------------------------------------


def verdict_after(own: OwnOutcomes, against: float) -> Verdict:
    """The verdict with outcomes: reach as before, agreement and skill of this very site.

    Parameters
    ----------
    own : OwnOutcomes
    against : float
        Evidence that this site is unlike the sources.
    """
    before = own.adaptation.verdict
    if not before.legs:  # refused, or no examination: outcomes make no model of it
        return before
    ratio, scale = own.ratio.after(own.unlike), risk_scale(own.adaptation.plan)
    legs = (before.legs[0], _agreement_here(own, against), _skill_here(ratio, scale))
    backtest = own.adaptation.backtest
    if backtest is not None and backtest.verdict == "failed":
        return Verdict("no", before.sentence, legs)
    if ratio.quantile(0.5) >= 0.0:
        return Verdict("no", "it is no better than a constant prediction here", legs)
    return verdict_on(legs, "the sources reach the target, and its outcomes agree")


def _agreement_here(own: OwnOutcomes, against: float) -> Leg:
    """Whether this site's outcomes are as the sources predict.

    Parameters
    ----------
    own : OwnOutcomes
    against : float
    """
    size = RATE_SIZE if own.plan.classes else RESIDUAL_SIZE
    level = max(item.after(own.unlike).farther_than(0.0, size) for item in own.levels)
    middle = own.risk.before.quantile(0.5)
    risk = own.risk.after(own.unlike).farther_than(middle, RISK_SIZE)
    value, what = max((risk, "risk"), (level, "level of outcomes"))
    if against >= TOO_UNLIKE:
        sentence = (
            "outcomes here are unlike those of the sources "
            f"({number(against)} times as probable if this site differs)"
        )
        advice = "go by the numbers with outcomes, not by the promise"
    elif value >= PROBABLY:
        sentence = (
            f"the {what} here probably differs from what was promised "
            f"(probability {shown_probability(value)})"
        )
        advice = "go by the numbers with outcomes; follow up more patients"
    else:
        sentence = (
            "outcomes here agree with the promise "
            f"(probability that they do not: {shown_probability(value)})"
        )
        return Leg("agreement", True, value, PROBABLY, sentence)
    return Leg("agreement", False, value, PROBABLY, sentence, advice)


def _skill_here(ratio: ThisSite, scale: RiskScale) -> Leg:
    """Whether the model beats a constant here.

    Parameters
    ----------
    ratio : ThisSite
        Logarithm of the risk over the constant's.
    scale : RiskScale
        On which the risk is told.
    """
    skill = ratio.below(0.0)
    sentence = (
        f"better than a constant here with probability {shown_probability(skill)} "
        f"({beside_constant(scale, float(np.exp(ratio.quantile(0.5))))})"
    )
    advice = "" if skill >= MIN_SKILL else "follow up more patients, or use the sources' average"
    return Leg("skill", skill >= MIN_SKILL, skill, MIN_SKILL, sentence, advice)

"""The promise of the risk at a new site, and the verdict that stands on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedcsa.core.losses import BOUNDED
from fedcsa.core.random_effects import (
    FARTHEST_SITE,
    FEWEST_SITES,
    NewSite,
    held_in,
    new_site,
    power,
    standing_out,
)
from fedcsa.core.weights import MAX_WEIGHT, capped
from fedcsa.findings import ADVICE, Advice, Finding
from fedcsa.messages.messages import ExaminationReport
from fedcsa.target.estimate import FEWEST_FOR_MIDDLE, MOSTLY_OWN
from fedcsa.target.risk_units import RiskScale, beside_constant
from fedcsa.words import percent, shown_probability

if TYPE_CHECKING:
    from fedcsa.plan import Plan

#: Prior scale of the between-site sd of log risks and log ratios: sites' risks differ by a fifth.
RISK_SCALE = 0.2
#: … of mean residuals, in residual sds.
RESIDUAL_SCALE = 0.2
#: … of log-odds of event rates, which differ more: 0.36 between countries of a stroke trial. With
#: a scale of 0.5 the prior alone would call sites different (0.55 of it lies above `RATE_SIZE`).
RATE_SCALE = 0.4
#: The agreement leg fails where sites probably differ by more: in log risk …
RISK_SIZE = 0.2
#: … in mean residuals, in residual sds …
RESIDUAL_SIZE = 0.2
#: … or in log-odds of event rates.
RATE_SIZE = 0.3
#: "Probably": at least this.
PROBABLY = 0.5
#: Sources that must reach the target: of fewer nobody can say how sites differ.
MIN_REACHING = 3
#: Rows below which the target's own table is too rough.
MIN_TARGET_ROWS = 50
#: Probability of a smaller risk than the constant's that the skill leg asks for.
MIN_SKILL = 0.9
#: A source's claim of how much of the loss's variance x explains counts up to this many times the
#: median one: honest ones differ by a factor of a few.
MOST_EXPLAINED = 10.0
#: Below this chance to see sites that differ, the agreement leg says so.
LOW_POWER = 0.5
_NOT_EXAMINED = "nobody could examine the model"
_ASK = "see the findings for why, and ask those sources"


@dataclass(frozen=True)
class Promise:
    """The risk at a new site, as the other sites' examinations predict it.

    Attributes
    ----------
    risk, lower, upper : float
        Median and ends of the prediction interval.
    level : float
        Of the interval.
    between_sites : float
        Standard deviation of the log risk between sites.
    ratio : float
        Median of the risk over that of a constant prediction.
    skill : float
        Probability that the risk at a new site is below the constant's.
    differs_risk, differs_level : float
        Probabilities that sites differ by more than the agreement leg allows, in log risk, and in
        the level of outcomes given predictions.
    power : float
        Chance that sites which differ by as much would be found to.
    examined_by : tuple of str
        The sources on which all this rests.
    """

    risk: float
    lower: float
    upper: float
    level: float
    between_sites: float
    ratio: float
    skill: float
    differs_risk: float
    differs_level: float
    power: float
    examined_by: tuple[str, ...]

    @property
    def differs(self) -> float:
        """Probability that sites differ by more than the agreement leg allows."""
        return max(self.differs_risk, self.differs_level)


def promise_of(
    found: Mapping[str, ExaminationReport],
    weights: Mapping[str, float],
    plan: Plan,
    n_target_rows: int,
) -> Promise | None:
    """The promise from the examinations of sources that reach the target; None without any.

    Parameters
    ----------
    found : mapping of str to ExaminationReport
    weights : mapping of str to float
        a_j of the mixture; 0 for a source that examined and sent no model.
    plan : Plan
        Its loss, its classes and the level of its interval.
    n_target_rows : int
    """
    names = [name for name in sorted(found) if not found[name].reason]
    if not names:
        return None
    reports = [found[name] for name in names]
    risks = np.array([report.risk for report in reports])
    v = np.array([report.risk_variance for report in reports])
    at_risk = new_site(np.log(risks), v, RISK_SCALE)
    site, against = risk_sites(reports, [weights.get(name, 0.0) for name in names], n_target_rows)
    scale, size = (RATE_SCALE, RATE_SIZE) if plan.classes else (RESIDUAL_SCALE, RESIDUAL_SIZE)
    levels = np.array([report.level for report in reports])
    level_v = np.array([report.level_variance for report in reports])
    by_class = zip(levels.T, level_v.T, strict=True)
    apart = [new_site(y, w, scale).differs_by_more(size) for y, w in by_class]
    lower, upper = site.interval(plan.level)
    largest = 1.0 if plan.loss in BOUNDED else np.inf
    return Promise(
        risk=min(float(np.exp(site.quantile(0.5))), largest),
        lower=min(float(np.exp(lower)), largest),
        upper=min(float(np.exp(upper)), largest),
        level=plan.level,
        between_sites=site.between_sites,
        ratio=float(np.exp(against.quantile(0.5))),
        skill=against.below(0.0),
        differs_risk=at_risk.differs_by_more(RISK_SIZE),
        differs_level=max(apart),
        power=power(level_v.max(axis=1), scale, size),
        examined_by=tuple(names),
    )


def held_down(
    weights: Mapping[str, float],
    found: Mapping[str, ExaminationReport],
    examined: Mapping[str, float],
    plan: Plan,
    n_target_rows: int,
) -> tuple[dict[str, float], list[Finding]]:
    """The weights, bounded where sites differ, and whose was too large.

    Parameters
    ----------
    weights : mapping of str to float
        a_j of every model.
    found, examined, plan, n_target_rows
        As for `promise_of`: what was found of the mixture with the weights `examined`.
    """
    bounded = bounded_weights(weights)
    heavy = [name for name, a in weights.items() if a > MOSTLY_OWN > bounded[name]]
    promise = promise_of(found, examined, plan, n_target_rows) if heavy else None
    if promise is None or promise.differs < PROBABLY:
        return dict(weights), []
    told = [Finding("weight-bounded", name, {"weight": weights[name]}) for name in heavy]
    return bounded, told


def bounded_weights(weights: Mapping[str, float]) -> dict[str, float]:
    """The weights where sites differ: a model with more than half of the weight has a third.

    Rows make up for chance, not for a difference between sites. With fewer than four models they
    stay as they are.
    """
    names = [name for name, a in weights.items() if a > 0.0]
    a = np.array([weights[name] for name in names])
    if len(names) < FEWEST_FOR_MIDDLE or a.max() <= MOSTLY_OWN:
        return dict(weights)
    return {**weights, **dict(zip(names, capped(a, MAX_WEIGHT).tolist(), strict=True))}


def risk_sites(
    reports: Sequence[ExaminationReport], weights: Sequence[float], n_target_rows: int
) -> tuple[NewSite, NewSite]:
    """Log risk at a new site, and the logarithm of its ratio to the constant's.

    Parameters
    ----------
    reports : sequence of ExaminationReport
        At least one, of sources that reach the target and could examine.
    weights : sequence of float
        a_j of their models in the mixture.
    n_target_rows : int
    """
    a = np.array(weights)
    a = a / a.sum() if a.sum() > 0.0 else np.full(len(a), 1.0 / len(a))
    risks = np.array([report.risk for report in reports])
    v = np.array([report.risk_variance for report in reports])
    explained = np.array([report.explained for report in reports])
    if len(reports) >= FEWEST_SITES:
        explained = np.minimum(explained, MOST_EXPLAINED * np.median(explained))
    own = float(a @ explained) / n_target_rows
    site = new_site(held_in(np.log(risks), v, RISK_SCALE), v, RISK_SCALE, extra=own)
    ratios = np.log(risks / np.array([report.constant_risk for report in reports]))
    ratio_v = np.array([report.ratio_variance for report in reports])
    return site, new_site(held_in(ratios, ratio_v, RISK_SCALE), ratio_v, RISK_SCALE)


def far_examiners(found: Mapping[str, ExaminationReport]) -> dict[str, tuple[float, float]]:
    """Sources whose risk stands out, with how far in standard deviations, and how many times.

    Parameters
    ----------
    found : mapping of str to ExaminationReport
        Of sources that reach the target.
    """
    names = [name for name in sorted(found) if not found[name].reason]
    logs = np.log([found[name].risk for name in names])
    far = standing_out(logs, np.array([found[n].risk_variance for n in names]), RISK_SCALE)
    return {
        name: (float(z), float(np.exp(y - np.median(logs))))
        for name, y, z in zip(names, logs, far, strict=True)
        if abs(z) > FARTHEST_SITE
    }


# The verdict --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leg:
    """One leg of the verdict.

    Attributes
    ----------
    name : {"reach", "agreement", "skill"}
    passed : bool
    value, bar : float
        Its number, None if there is none, and what it must reach (reach, skill) or stay below
        (agreement).
    sentence : str
    advice : str
        What to do; ``""`` where it passed.
    """

    name: Literal["reach", "agreement", "skill"]
    passed: bool
    value: float | None
    bar: float
    sentence: str
    advice: str = ""


@dataclass(frozen=True)
class Verdict:
    """What to do with the model, and why.

    Attributes
    ----------
    advice : {"use", "care", "none", "no"}
    sentence : str
        Why, in one line.
    legs : tuple of Leg
        None where nothing is examined, as with the paper's formulas, and where a study was refused.
    """

    advice: Advice
    sentence: str
    legs: tuple[Leg, ...] = ()

    @property
    def words(self) -> str:
        """``"use it"``, ``"use it with care"``, ``"not judged"`` or ``"do not use it"``."""
        return ADVICE[self.advice][0].lower()


def verdict_of(
    promise: Promise | None, n_reaching: int, n_target_rows: int, scale: RiskScale = "loss"
) -> Verdict:
    """What follows from the legs: all three for "use it"; no better than a constant is no use.

    Parameters
    ----------
    promise : Promise or None
        None if nobody could examine the model: then only reach can hold.
    n_reaching : int
        Sources that reach the target.
    n_target_rows : int
    scale : {"loss", "root", "sum"}
        How people are told risks.
    """
    legs = (_reach(n_reaching, n_target_rows), _agreement(promise), _skill(promise, scale))
    if promise is not None and promise.ratio >= 1.0:
        return Verdict("no", "it is no better than a constant prediction", legs)
    return verdict_on(legs, "the sources reach the target, agree, and beat a constant")


def verdict_on(legs: tuple[Leg, ...], sentence: str) -> Verdict:
    """Use it, as `sentence` says, if every leg holds; else with care, for those that do not.

    Parameters
    ----------
    legs : tuple of Leg
    sentence : str
    """
    failed = [leg.sentence for leg in legs if not leg.passed]
    return Verdict("care", "; ".join(failed), legs) if failed else Verdict("use", sentence, legs)


def _reach(n_reaching: int, n_target_rows: int) -> Leg:
    """Whether enough sources reach a target of enough rows.

    Parameters
    ----------
    n_reaching : int
        Sources that reach the target.
    n_target_rows : int
    """
    few = n_target_rows < MIN_TARGET_ROWS
    sources = "1 source reaches" if n_reaching == 1 else f"{n_reaching} sources reach"
    sentence, advice = f"{sources} the target", ""
    if n_reaching < MIN_REACHING:
        sentence += f"; it takes {MIN_REACHING} to see how sites differ"
        advice = "look for further sources whose patients resemble the target's"
    if few:
        sentence += f"; the target has {n_target_rows} rows, fewer than {MIN_TARGET_ROWS}"
        advice = advice or "gather more rows at the target"
    passed = n_reaching >= MIN_REACHING and not few
    return Leg("reach", passed, float(n_reaching), float(MIN_REACHING), sentence, advice)


def _agreement(promise: Promise | None) -> Leg:
    if promise is None:
        return Leg("agreement", False, None, PROBABLY, _NOT_EXAMINED, _ASK)
    value = promise.differs
    if value >= PROBABLY:
        what = "risk" if promise.differs_risk >= promise.differs_level else "level of outcomes"
        sentence = (
            f"sites probably differ in their {what}, given the same measurements "
            f"(probability {shown_probability(value)})"
        )
        advice = (
            "find out what differs between the sites; follow up some patients before relying on it"
        )
        return Leg("agreement", False, value, PROBABLY, sentence, advice)
    if len(promise.examined_by) < 2:  # the prior alone would speak
        sentence = "one site cannot show whether sites differ"
        advice = "look for further sources that can examine the mixture"
        return Leg("agreement", False, value, PROBABLY, sentence, advice)
    sentence = f"sites agree (probability that they differ much: {shown_probability(value)})"
    if promise.power < LOW_POWER:
        seen = percent(round(promise.power, 2))
        sentence += f"; with so few rows, a difference would show in only {seen} of studies"
    return Leg("agreement", True, value, PROBABLY, sentence)


def _skill(promise: Promise | None, scale: RiskScale) -> Leg:
    """Whether the model beats a constant at a new site.

    Parameters
    ----------
    promise : Promise or None
    scale : RiskScale
        On which the risk is told.
    """
    if promise is None:
        return Leg("skill", False, None, MIN_SKILL, _NOT_EXAMINED, _ASK)
    sentence = (
        f"better than a constant at a new site with probability {shown_probability(promise.skill)} "
        f"({beside_constant(scale, promise.ratio)})"
    )
    passed = promise.skill >= MIN_SKILL
    advice = "" if passed else "look for better features, or use the sources' average instead"
    return Leg("skill", passed, promise.skill, MIN_SKILL, sentence, advice)

"""The promise: how well the mixture will do at the target, and whether to trust that.

Every source has judged a mixture of the *others'* models on its own weighted rows. What a new site
may expect follows from these by a random-effects prediction, see `fedcsa.core.random_effects`: in
words, "95 % for a new site, if it differs from these as they differ from each other".

The verdict stands on three legs, each with its number: *reach*, *agreement* and *skill*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.losses import BOUNDED
from fedcsa.core.random_effects import NewSite, new_site, power
from fedcsa.findings import Advice
from fedcsa.messages.messages import ExaminationReport
from fedcsa.words import number, percent

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
MIN_SOURCES = 3
#: Rows below which the target's own table is too rough.
MIN_TARGET_ROWS = 50
#: Probability of a smaller risk than the constant's that the skill leg asks for.
MIN_SKILL = 0.9
#: Below this chance to see sites that differ, the agreement leg says so.
LOW_POWER = 0.5

LegName = Literal["reach", "agreement", "skill"]
WORDS: Mapping[Advice, str] = {
    "use": "use it",
    "care": "use it with care",
    "no": "do not use it",
}


@dataclass(frozen=True)
class Promise:
    """The risk at a new site, as the other sites' examination lets expect it.

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
    between_levels : float
        Standard deviation of that level between sites, in residual sds or log-odds.
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
    between_levels: float
    power: float
    examined_by: tuple[str, ...]


def promise_of(
    found: Mapping[str, ExaminationReport],
    weights: Mapping[str, float],
    *,
    n_target_rows: int,
    loss: str,
    n_classes: int,
    level: float,
) -> Promise | None:
    """The promise from the examinations of sources that reach the target; None without any.

    Parameters
    ----------
    found : mapping of str to ExaminationReport
    weights : mapping of str to float
        a_j of the mixture; 0 for a source that examined and sent no model.
    n_target_rows : int
    loss : str
    n_classes : int
        0 for numbers.
    level : float
        Of the interval.
    """
    names = [name for name in sorted(found) if not found[name].reason]
    if not names:
        return None
    reports = [found[name] for name in names]
    a = np.array([weights.get(name, 0.0) for name in names])
    a = a / a.sum() if a.sum() > 0.0 else np.full(len(a), 1.0 / len(a))
    risks = np.array([report.risk for report in reports])
    v = np.array([report.risk_variance for report in reports])
    own = float(a @ np.array([report.explained for report in reports])) / n_target_rows
    at_risk = new_site(np.log(risks), v, RISK_SCALE)
    site = new_site(np.log(risks), v, RISK_SCALE, extra=own)
    ratios = np.log(risks / np.array([report.constant_risk for report in reports]))
    against = new_site(ratios, np.array([r.ratio_variance for r in reports]), RISK_SCALE)
    scale, size = (RATE_SCALE, RATE_SIZE) if n_classes else (RESIDUAL_SCALE, RESIDUAL_SIZE)
    levels = _levels(reports, scale)
    widest = max(levels, key=lambda item: item.differs_by_more(size))
    lower, upper = site.interval(level)
    largest = 1.0 if loss in BOUNDED else np.inf
    level_v = np.max([report.level_variance for report in reports], axis=1)
    return Promise(
        risk=min(float(np.exp(site.quantile(0.5))), largest),
        lower=min(float(np.exp(lower)), largest),
        upper=min(float(np.exp(upper)), largest),
        level=level,
        between_sites=at_risk.between_sites,
        ratio=float(np.exp(against.quantile(0.5))),
        skill=against.below(0.0),
        differs_risk=at_risk.differs_by_more(RISK_SIZE),
        differs_level=widest.differs_by_more(size),
        between_levels=widest.between_sites,
        power=power(level_v, scale, size),
        examined_by=tuple(names),
    )


def _levels(reports: Sequence[ExaminationReport], scale: float) -> list[NewSite]:
    """The level of outcomes given predictions at a new site, one for every class looked at."""
    y = np.array([report.level for report in reports])
    v: Array = np.array([report.level_variance for report in reports])
    return [new_site(y[:, k], v[:, k], scale) for k in range(y.shape[1])]


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

    name: LegName
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
    advice : {"use", "care", "no"}
    sentence : str
        Why, in one line.
    legs : tuple of Leg
        None for the paper's methods and where the study was refused.
    """

    advice: Advice
    sentence: str
    legs: tuple[Leg, ...] = ()

    @property
    def words(self) -> str:
        """``"use it"``, ``"use it with care"`` or ``"do not use it"``."""
        return WORDS[self.advice]


def legs_of(promise: Promise | None, n_reaching: int, n_target_rows: int) -> tuple[Leg, ...]:
    """The three legs.

    Parameters
    ----------
    promise : Promise or None
    n_reaching : int
        Sources that reach the target.
    n_target_rows : int
    """
    reach = _reach(n_reaching, n_target_rows)
    if promise is None:
        nothing = "nobody could examine the mixture"
        ask = "see the findings for why, and ask those sources"
        return (
            reach,
            Leg("agreement", False, None, PROBABLY, nothing, ask),
            Leg("skill", False, None, MIN_SKILL, nothing, ask),
        )
    return reach, _agreement(promise), _skill(promise)


def _reach(n_reaching: int, n_target_rows: int) -> Leg:
    few = n_target_rows < MIN_TARGET_ROWS
    sources = "1 source reaches" if n_reaching == 1 else f"{n_reaching} sources reach"
    sentence = f"{sources} the target"
    advice = ""
    if n_reaching < MIN_SOURCES:
        sentence += f"; it takes {MIN_SOURCES} to see how sites differ"
        advice = "look for further sources whose patients resemble the target's"
    if few:
        sentence += f"; the target has {n_target_rows} rows, fewer than {MIN_TARGET_ROWS}"
        advice = advice or "gather more rows at the target"
    passed = n_reaching >= MIN_SOURCES and not few
    return Leg("reach", passed, float(n_reaching), float(MIN_SOURCES), sentence, advice)


def _agreement(promise: Promise) -> Leg:
    value = max(promise.differs_risk, promise.differs_level)
    if value >= PROBABLY:
        what = "risk" if promise.differs_risk >= promise.differs_level else "level of outcomes"
        return Leg(
            "agreement", False, value, PROBABLY,
            f"sites probably differ in their {what}, given the same measurements "
            f"(probability {number(value)})",
            "find out what differs between the sites; follow up some patients before relying on it",
        )  # fmt: skip
    if len(promise.examined_by) < 2:  # the prior alone would speak
        return Leg(
            "agreement", False, value, PROBABLY, "one site cannot show whether sites differ",
            "look for further sources that can examine the mixture",
        )  # fmt: skip
    sentence = f"sites agree (probability that they differ much: {number(value)})"
    if promise.power < LOW_POWER:
        seen = percent(round(promise.power, 2))
        sentence += f"; so few rows would show a difference in {seen} of studies only"
    return Leg("agreement", True, value, PROBABLY, sentence)


def _skill(promise: Promise) -> Leg:
    value = promise.skill
    sentence = (
        f"better than a constant at a new site with probability {number(value)} "
        f"(risk {number(promise.ratio)} of the constant's)"
    )
    passed = value >= MIN_SKILL
    advice = "" if passed else "look for better features, or use the sources' average instead"
    return Leg("skill", passed, value, MIN_SKILL, sentence, advice)


def verdict_of(legs: Sequence[Leg], promise: Promise | None) -> Verdict:
    """What follows from the legs: all three for "use it"; no better than a constant is no use.

    Parameters
    ----------
    legs : sequence of Leg
    promise : Promise or None
    """
    failed = [leg for leg in legs if not leg.passed]
    if promise is not None and promise.ratio >= 1.0:
        return Verdict("no", "it is no better than a constant prediction", tuple(legs))
    if failed:
        return Verdict("care", "; ".join(leg.sentence for leg in failed), tuple(legs))
    return Verdict("use", "the sources reach the target, agree, and beat a constant", tuple(legs))

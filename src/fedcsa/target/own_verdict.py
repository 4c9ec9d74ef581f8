"""The verdict once outcomes of the target are known."""

from __future__ import annotations

import numpy as np

from fedcsa.core.few_outcomes import TOO_UNLIKE, ThisSite
from fedcsa.target.own_outcomes import OwnOutcomes
from fedcsa.target.risk_units import RiskScale, beside_constant, risk_scale
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
    """Whether this site's outcomes are as the sources let expect.

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
        advice = "use the corrected model, and the numbers with outcomes"
    elif value >= PROBABLY:
        sentence = (
            f"the {what} here probably lies off what was promised "
            f"(probability {shown_probability(value)})"
        )
        advice = "use the corrected model; follow up more patients"
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

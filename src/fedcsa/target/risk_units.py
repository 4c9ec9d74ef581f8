"""Risks in the units in which people are told them: one scale for sentences, tables and charts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from fedcsa.words import number

if TYPE_CHECKING:
    from fedcsa.plan import Plan

#: How people are told a risk: as it is, its root, or summed over classes.
RiskScale = Literal["loss", "root", "sum"]
#: The measure that a loss is, in units that people use.
OF_LOSS: Mapping[str, str] = {
    "squared": "rmse",
    "absolute": "mae",
    "log": "log_loss",
    "brier": "brier",
    "zero-one": "error_rate",
}


def risk_scale(plan: Plan) -> RiskScale:
    """How people are told the risk of a study.

    Of a squared loss its root; a Brier score of more than two classes is told as the sum over
    classes, as scikit-learn does: the loss is half of it.
    """
    if plan.loss == "squared":
        return "root"
    return "sum" if plan.loss == "brier" and len(plan.classes) > 2 else "loss"


def on_scale(scale: RiskScale, risk: float) -> float:
    """A risk as people are told it.

    A negative estimate, which the paper's formulas can give, has no root and becomes 0.

    Parameters
    ----------
    scale : {"loss", "root", "sum"}
    risk : float
        In the units of the loss.

    Examples
    --------
    >>> on_scale("loss", 4.0), on_scale("root", 4.0), on_scale("sum", 0.25)
    (4.0, 2.0, 0.5)
    """
    if scale == "root":
        return math.sqrt(max(risk, 0.0))
    return 2.0 * risk if scale == "sum" else risk


def in_units(plan: Plan, risk: float) -> float:
    """A risk in units that people use.

    Parameters
    ----------
    plan : Plan
    risk : float
        In the units of the loss.
    """
    return on_scale(risk_scale(plan), risk)


def ratio_on(scale: RiskScale, ratio: float) -> float:
    """A ratio of two risks as people are told them.

    Parameters
    ----------
    scale : {"loss", "root", "sum"}
    ratio : float
        Of two risks in the units of the loss.
    """
    return math.sqrt(max(ratio, 0.0)) if scale == "root" else ratio


def risk_word(scale: RiskScale) -> str:
    """What a risk is called in a sentence."""
    return "RMSE" if scale == "root" else "risk"


def beside_constant(scale: RiskScale, ratio: float) -> str:
    """A risk beside that of a constant prediction, in words.

    Parameters
    ----------
    scale : {"loss", "root", "sum"}
    ratio : float
        Of the two in the units of the loss.

    Examples
    --------
    >>> beside_constant("loss", 0.25), beside_constant("root", 0.25)
    ("risk 0.25 of the constant's", "RMSE 0.5 of the constant's")
    """
    return f"{risk_word(scale)} {number(ratio_on(scale, ratio))} of the constant's"

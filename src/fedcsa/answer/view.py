"""What is said of an answer: the same words and digits on a terminal, in a notebook, on a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scipy.special import ndtri

from fedcsa.core.losses import BOUNDED
from fedcsa.messages.messages import ExaminationReport
from fedcsa.target.estimate import MOSTLY_OWN, reaches
from fedcsa.words import interval, listed, number, percent, printable

if TYPE_CHECKING:
    from fedcsa.target.adaptation import Adaptation

#: What every prediction interval assumes.
NEW_SITE = "if it differs from these as they differ from each other"
#: Why a source found nothing, in words; a rule of its policy is shown as it is.
_REASONS: Mapping[str, str] = {
    "outcomes_alike": "not estimable: its outcomes are all alike",
    "no_loss": "not estimable: no loss on any of its rows",
    "loss_not_positive": "not estimable: a loss is negative",
    "missing": "no answer came",
}


# Numbers ------------------------------------------------------------------------------------


def candidate_text(candidate: Mapping[str, Any]) -> str:
    """A candidate as people write it.

    >>> candidate_text({"penalty": 0.1, "ratio_power": 1.0})
    'penalty 0.1, ratio_power 1'
    """
    parts = [
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in candidate.items()
    ]
    return ", ".join(parts) or "as given"


_LOSSES = {
    "squared": ("mean squared error", "in squared units of the outcome"),
    "absolute": ("mean absolute error", "in units of the outcome"),
    "log": ("log loss", "the mean of −log of the probability given to what happened"),
    "brier": ("Brier score", "the mean squared error of the probabilities, between 0 and 1"),
    "zero-one": ("misclassification rate", "the share of rows with the wrong class"),
}


def loss_in_words(name: str) -> tuple[str, str]:
    """The loss in words, and its unit."""
    return _LOSSES.get(name, (f"loss {printable(name)}", "in units of the study's own loss"))


def about_left_out(names: Sequence[str]) -> str:
    """A title for findings about sources on which the answer does not rest.

    >>> about_left_out(["far", "far"])
    'About one source that was left out, with less than 1 % of the weight: far'
    """
    which = sorted(set(names))
    who = "one source that was" if len(which) == 1 else f"{len(which)} sources that were"
    return f"About {who} left out, with less than 1 % of the weight: {listed(which)}"


# Sentences ----------------------------------------------------------------------------------


def risk_sentence(adaptation: Adaptation) -> str:
    """The promise; or the estimate of a method that promises nothing."""
    promise = adaptation.promise
    if promise is None:
        if adaptation.refused:
            return "no risk is promised: no source resembles the target"
        return f"risk {number(adaptation.target_risk)}, an estimate without an interval"
    level = f"{100.0 * promise.level:.6g} %"
    between = f"{interval(promise.lower, promise.upper)} for a new site ({level})"
    return f"risk {number(promise.risk)}, {between}, {NEW_SITE}"


def ratio_sentence(adaptation: Adaptation) -> str:
    """The risk beside that of a constant; nothing where it is not known."""
    if adaptation.promise is None:
        return ""
    return f"the risk is {number(adaptation.promise.ratio)} of that of a constant prediction"


def examined_sentence(adaptation: Adaptation) -> str:
    """Who examined what; nothing where nobody could."""
    promise, weights = adaptation.promise, adaptation.source_weights
    if promise is None:
        return ""
    if len(weights) == 1:
        [name] = weights
        own = f"the promise rests on rows that the model of {name} has not seen"
        return f"nothing was examined: there was one model, and {own}"
    who, all_sources = len(promise.examined_by), len(adaptation.reports)
    told = f"{who} of {all_sources} sources examined the others' models on their weighted rows"
    if len(weights) == 2 and who == all_sources == 2:
        told = "each examined the other's model"
    [*most] = (name for name, weight in weights.items() if weight > MOSTLY_OWN)
    if not most:
        return told
    return (
        f"{told}; {most[0]}, with more than half of the weight, examined the whole mixture, its "
        "own part by held-out predictions"
    )


@dataclass(frozen=True)
class SourceLine:
    """What is said of one source.

    Attributes
    ----------
    name : str
    weight : float or None
        Of its model; None if the study ended without one.
    n_rows : int
    effective_rows, imbalance : float
        After weighting to the target's table.
    reaches : bool
        Whether its weighted rows stand for the target's population.
    found, lower, upper : float or None
        Risk of the others' mixture on its rows, with its own interval; None if it found none, or
        does not reach the target.
    why_not : str
        Why it found none.
    """

    name: str
    weight: float | None
    n_rows: int
    effective_rows: float
    imbalance: float
    reaches: bool
    found: float | None = None
    lower: float | None = None
    upper: float | None = None
    why_not: str = ""

    @property
    def found_text(self) -> str:
        """What it found, in words."""
        if self.found is None:
            return self.why_not or "—"
        return f"{number(self.found)} ({interval(self.lower, self.upper)})"

    @property
    def weight_text(self) -> str:
        """Its weight, in words."""
        return "—" if self.weight is None else percent(self.weight)


def source_lines(answer: Adaptation) -> list[SourceLine]:
    """Every source that reported, the heaviest first."""
    weights = None if answer.stopped else answer.source_weights
    examinations = answer.examinations
    reasons: dict[str, str] = {}
    for finding in answer.findings:
        if finding.code == "not-examined":
            reason = str(finding.evidence.get("reason", ""))
            reasons[finding.source] = _REASONS.get(reason, reason)
    found = []
    for name, report in answer.reports.items():
        near = reaches(report)
        seen = examinations.get(name) if near else None
        risk, lower, upper = _found(seen, answer.plan.level, answer.plan.loss)
        found.append(
            SourceLine(
                name=name,
                weight=None if weights is None else weights.get(name, 0.0),
                n_rows=report.n_rows,
                effective_rows=report.effective_rows,
                imbalance=report.imbalance,
                reaches=near,
                found=risk,
                lower=lower,
                upper=upper,
                why_not=reasons.get(name, "") if near else "does not reach the target",
            )
        )
    return sorted(found, key=lambda line: (-(line.weight or 0.0), line.imbalance, line.name))


def _found(
    examined: ExaminationReport | None, level: float, loss: str
) -> tuple[float, float, float] | tuple[None, None, None]:
    """Risk f and exp(log f ± z √v), with z = 1.96 at 95 %."""
    if examined is None or examined.reason:
        return None, None, None
    step = float(ndtri(0.5 + level / 2.0)) * math.sqrt(examined.risk_variance)
    step = math.exp(min(step, 300.0))  # a few rows may have a variance that overflows
    largest = 1.0 if loss in BOUNDED else math.inf
    return examined.risk, examined.risk / step, min(examined.risk * step, largest)

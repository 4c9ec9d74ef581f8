"""What is said of an answer: the same words and digits on a terminal, in a notebook, on a page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy.special import ndtri

from fedcsa.findings import number
from fedcsa.protocol.messages import ExaminationReport
from fedcsa.roles.estimation import reaches
from fedcsa.roles.promise import BOUNDED

if TYPE_CHECKING:
    from fedcsa.roles.adaptation import Adaptation
    from fedcsa.roles.ending import Ending

#: What every prediction interval assumes.
NEW_SITE = "if it differs from these as they differ from each other"
#: Why a source found nothing, in words; a rule of its policy is shown as it is.
_REASONS: Mapping[str, str] = {
    "outcomes_alike": "not estimable: its outcomes are all alike",
    "no_loss": "not estimable: no loss on any of its rows",
    "loss_not_positive": "not estimable: a loss is negative",
    "missing": "no answer came",
}


def percent(share: float) -> str:
    """A share in words.

    >>> percent(0.95), percent(0.403444)
    ('95 %', '40.3 %')
    """
    return f"{100.0 * share:.3g} %"


def interval(lower: float | None, upper: float | None) -> str:
    """An interval, or a dash.

    Parameters
    ----------
    lower, upper : float or None

    >>> interval(0.8412, 2.049), interval(None, None)
    ('0.841 to 2.05', '—')
    """
    return "—" if lower is None or upper is None else f"{number(lower)} to {number(upper)}"


def risk_sentence(adaptation: Adaptation) -> str:
    """The promise; or the estimate of a method that promises nothing."""
    promise = adaptation.promise
    if promise is None:
        return f"risk {number(adaptation.target_risk)}, without an interval"
    between = f"{interval(promise.lower, promise.upper)} for a new site ({percent(promise.level)})"
    return f"risk {number(promise.risk)}, {between}, {NEW_SITE}"


def ratio_sentence(adaptation: Adaptation) -> str:
    """The risk beside that of a constant; nothing where it is not known."""
    if adaptation.promise is None:
        return ""
    return f"{number(adaptation.promise.ratio)} of the risk of a constant prediction"


def examined_sentence(adaptation: Adaptation) -> str:
    """Who examined what."""
    promise = adaptation.promise
    if promise is None:
        return "nothing was examined"
    if len(adaptation.source_weights) == 1:
        return "nothing was examined: the promise rests on held-out rows of the one source"
    if len(adaptation.source_weights) == 2:
        return "each examined the other's model"
    return "each source examined the others' mixture on its own weighted rows"


@dataclass(frozen=True)
class SourceLine:
    """What is said of one source.

    Attributes
    ----------
    weight : float or None
        Of its model; None if the study ended without one.
    reaches : bool
        Whether its weighted rows stand for the target's population.
    found, lower, upper : float or None
        Risk of the others' mixture on its rows, with its own interval; None if it found none.
    why_not : str
        Why it found none.
    findings : tuple of str
        Codes of what was found about it.
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
    findings: tuple[str, ...] = ()

    @property
    def found_text(self) -> str:
        """What it found, in words."""
        if self.found is None:
            return self.why_not or "—"
        return f"{number(self.found)} ({interval(self.lower, self.upper)})"


def source_lines(answer: Adaptation | Ending) -> list[SourceLine]:
    """Every source that reported, the heaviest first."""
    weights = getattr(answer, "source_weights", None)
    examinations = getattr(answer, "examinations", {})
    codes: dict[str, list[str]] = {}
    reasons: dict[str, str] = {}
    for finding in answer.findings:
        codes.setdefault(finding.source, []).append(finding.code)
        if finding.code == "not-examined":
            reason = str(finding.evidence.get("reason", ""))
            reasons[finding.source] = _REASONS.get(reason, reason)
    found = []
    for name, report in answer.reports.items():
        risk, lower, upper = _found(examinations.get(name), answer.plan.level, answer.plan.loss)
        found.append(
            SourceLine(
                name=name,
                weight=None if weights is None else weights.get(name, 0.0),
                n_rows=report.n_rows,
                effective_rows=report.effective_rows,
                imbalance=report.imbalance,
                reaches=reaches(report),
                found=risk,
                lower=lower,
                upper=upper,
                why_not=reasons.get(name, ""),
                findings=tuple(dict.fromkeys(codes.get(name, ()))),
            )
        )
    return sorted(found, key=lambda line: (-(line.weight or 0.0), line.imbalance, line.name))


def _found(
    examined: ExaminationReport | None, level: float, loss: str
) -> tuple[float, float, float] | tuple[None, None, None]:
    """f and exp(log f ± z √v), z = 1.96 at 95 %."""
    if examined is None or examined.reason:
        return None, None, None
    step = math.exp(float(ndtri(0.5 + level / 2.0)) * math.sqrt(examined.risk_variance))
    largest = 1.0 if loss in BOUNDED else math.inf
    return examined.risk, examined.risk / step, min(examined.risk * step, largest)

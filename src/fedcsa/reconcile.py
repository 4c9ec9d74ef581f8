"""When outcomes arrive: whether the promise was kept, and whether p(y|x) moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import ArrayLike

from fedcsa.core.arrays import as_matrix, as_vector
from fedcsa.core.losses import Loss, evaluate, loss_named
from fedcsa.core.realised import mean_interval
from fedcsa.errors import DataError
from fedcsa.roles.adaptation import Adaptation
from fedcsa.roles.plan import encode_classes

Conclusion = Literal["kept", "better than promised", "worse than promised", "no interval"]
_MOVED = "p(y|x) moved at the target, or the overlap was bad"
_REASONS: Mapping[Conclusion, str] = {
    "kept": "nothing speaks against a shared p(y|x)",
    "worse than promised": _MOVED,
    "better than promised": _MOVED,
    "no interval": "there was no promise to keep",
}


@dataclass(frozen=True)
class Reconciliation:
    """Promised against realised risk.

    Attributes
    ----------
    realised : float
        Risk on the rows whose outcomes arrived.
    lower, upper : float or None
        Its own interval: Clopper and Pearson's for the zero-one loss, Student's for others, with
        an allowance for what was not seen if it is the Brier loss. None if all other losses are
        equal, which says nothing of how they vary.
    promised : float
    promised_lower, promised_upper : float or None
    n_rows : int
    naive : float or None
        What the naive method would have promised.
    conclusion : str
        ``"kept"`` if the two intervals meet; then nothing speaks for a p(y|x) of the target's
        own. ``"worse than promised"`` or ``"better than promised"`` if they do not: the
        estimate already allows for the shift in x, so p(y|x) moved, or the overlap was bad.
        ``"no interval"`` if one of the two is missing.
    reason : str
        What that means, in one sentence.
    """

    realised: float
    lower: float | None
    upper: float | None
    n_rows: int
    promised: float
    promised_lower: float | None
    promised_upper: float | None
    level: float
    status: str
    naive: float | None = None

    @property
    def conclusion(self) -> Conclusion:
        """Whether promise and outcome are compatible."""
        if self.promised_lower is None or self.promised_upper is None:
            return "no interval"
        if self.lower is None or self.upper is None:
            return "no interval"
        if self.lower > self.promised_upper:
            return "worse than promised"
        if self.upper < self.promised_lower:
            return "better than promised"
        return "kept"

    @property
    def reason(self) -> str:
        """What the conclusion means."""
        promised = self.promised_lower is not None and self.promised_upper is not None
        if promised and self.conclusion == "no interval":
            return (
                f"the losses of all {self.n_rows} rows are equal, which says nothing of how they "
                "vary: wait for more outcomes"
            )
        return _REASONS[self.conclusion]

    @property
    def moved(self) -> bool | None:
        """Whether p(y|x) at the target seems to differ from the sources'; None if unknown."""
        return None if self.conclusion == "no interval" else self.conclusion != "kept"


def reconcile(
    adaptation: Adaptation, X: ArrayLike, y: Any, loss: Loss | None = None
) -> Reconciliation:
    """Compare the promised risk with the outcomes of some of the target's rows.

    Parameters
    ----------
    X, y : array
        Rows of the target and their outcomes; at least two.
    loss : function, optional
        Needed only if the study used a loss of its own.
    """
    plan = adaptation.plan
    rows = as_matrix(X, "X", n_columns=len(plan.features))
    if len(rows) < 2:
        raise DataError(
            "At least 2 rows with outcomes are needed to say how sure they are; there is 1. "
            "Wait for more outcomes."
        )
    where = "The outcome"
    outcome = encode_classes(y, plan.classes, where) if plan.classes else as_vector(y, where)
    if len(outcome) != len(rows):
        raise DataError(
            f"{where} must have {len(rows)} rows like X; it has {len(outcome)}. "
            "Give one outcome a row, in the same order."
        )
    losses = evaluate(loss or loss_named(plan.loss), adaptation.output(rows), outcome)
    lower, upper = mean_interval(losses, "" if loss else plan.loss, plan.level) or (None, None)
    if lower is not None and loss is None:  # a built-in loss is never negative
        lower = max(lower, 0.0)
    promised = adaptation.interval or (None, None)
    return Reconciliation(
        realised=float(losses.mean()),
        lower=lower,
        upper=upper,
        n_rows=len(rows),
        promised=adaptation.target_risk,
        promised_lower=promised[0],
        promised_upper=promised[1],
        level=plan.level,
        status=adaptation.status,
        naive=adaptation.naive_risk,
    )

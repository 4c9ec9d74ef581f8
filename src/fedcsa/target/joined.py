"""The reports of a source over the rounds of a search, as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcsa.errors import MessageError
from fedcsa.messages.messages import RiskReport

if TYPE_CHECKING:
    from fedcsa.plan import Plan

#: Fields with a number a candidate; empty where they are not asked for.
PER_CANDIDATE = (
    "risk", "variance", "loss_mean", "loss_m2", "product_mean", "product_m2", "co_moment",
)  # fmt: skip
#: Fields about a source's rows: they are the same in every round.
ABOUT_ROWS = (
    "n_rows", "n_judged", "n_folds", "effective_rows", "largest_share", "difference_before",
    "difference_after", "outcome_mean", "outcome_sd", "ratio_mean", "ratio_m2",
)  # fmt: skip


def check_same_rows(later: RiskReport, first: RiskReport) -> None:
    """Raise a `MessageError` unless a report of a later round is on the rows of the first.

    Parameters
    ----------
    later, first : RiskReport
        Of one source.
    """
    for name in ABOUT_ROWS:
        if not np.array_equal(getattr(later, name), getattr(first, name)):
            raise MessageError(
                f"Source {later.source!r} must say the same of its rows in every round of a "
                f"search; its {name} differs. Ask the site what has changed."
            )
    if len(later.correlations):
        raise MessageError(f"Source {later.source!r} must tell correlations once.")


def joined(first: RiskReport, later: RiskReport) -> RiskReport:
    """Both reports as one, candidates numbered through.

    Parameters
    ----------
    first, later : RiskReport
        Of one source, on the same rows.
    """
    before = len(first.risk)
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(first, name), getattr(later, name)]) for name in PER_CANDIDATE
    }
    moved = {str(int(index) + before): reason for index, reason in later.failed.items()}
    return replace(
        first,
        **arrays,
        failed={**first.failed, **moved},
        findings=_added_up([*first.findings, *later.findings]),
    )


def _added_up(findings: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Findings once each; how often a library warned is added up."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for item in findings:
        evidence = dict(item["evidence"])
        count = evidence.pop("count", None)
        known = found.setdefault((item["code"], *evidence.items()), evidence)
        if count is not None:
            known["count"] = known.get("count", 0.0) + count
    return tuple({"code": key[0], "evidence": evidence} for key, evidence in found.items())


def numbers_of_rounds(plan: Plan, sizes: Sequence[int]) -> int:
    """How many numbers the reports of a source hold at most, over all rounds of a search.

    Parameters
    ----------
    plan : Plan
    sizes : sequence of int
        Candidates of every round.
    """
    d, moments = len(plan.features), bool(plan.compared)
    each = (numbers_told(size, d, len(plan.classes), moments=moments) for size in sizes)
    return d * (d - 1) // 2 + sum(each)  # correlations leave with the first, if the target has none


def numbers_told(n_candidates: int, n_features: int, n_classes: int, *, moments: bool) -> int:
    """How many numbers a report holds at most, correlations aside, which leave once.

    Parameters
    ----------
    n_candidates, n_features, n_classes : int
    moments : bool
        Whether the paper's formulas are compared.

    Examples
    --------
    >>> numbers_told(10, 4, 0, moments=False)
    37
    """
    single = 8  # rows, judged rows, folds, effective rows, largest share, two of the ratio, an sd
    each = 7 if moments else 2
    return single + 2 * n_features + max(n_classes, 1) + each * n_candidates

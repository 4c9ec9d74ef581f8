"""From the sources' reports to an estimate by every method: what the target does between phases."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedcsa.core.risk import RiskMoments, RiskTerms, risk_terms
from fedcsa.core.weights import Estimate, estimate
from fedcsa.errors import CandidatesError, must
from fedcsa.protocol.messages import RiskReport
from fedcsa.roles.plan import Plan

#: Estimated in every study from the same messages, whatever its own method.
COMPARED = ("naive", "fediwe", "feddae")


def fitted_everywhere(plan: Plan, reports: Mapping[str, RiskReport]) -> tuple[int, ...]:
    """Indices of the candidates that no source failed to fit."""
    failures = {
        (name, int(key)): reason
        for name, report in reports.items()
        for key, reason in report.failed.items()
    }
    dropped = {index for _, index in failures}
    kept = tuple(index for index in range(len(plan.candidates)) if index not in dropped)
    if not kept:
        sources = ", ".join(sorted({repr(name) for name, _ in failures}))
        reasons = ", ".join(sorted({reason[:60] for reason in failures.values()}))
        raise CandidatesError(
            f"At least one candidate must be fitted at every source; all {len(dropped)} failed "
            f"at {sources} ({reasons}). Check the candidates' names and values."
        )
    return kept


def estimates(
    plan: Plan, reports: Mapping[str, RiskReport], kept: tuple[int, ...]
) -> dict[str, Estimate]:
    """Every method's estimate over the `kept` candidates, sources in alphabetical order."""
    names = sorted(reports)
    terms = [_terms(reports[name], kept) for name in names]
    return {
        method: estimate(method, terms, _given(plan, names) if method == "fedle" else None)
        for method in sorted({*COMPARED, plan.method})
    }


def _terms(report: RiskReport, kept: tuple[int, ...]) -> RiskTerms:
    m, columns = report.moments, np.array(kept)
    return risk_terms(
        RiskMoments(
            m.n_rows,
            m.ratio_mean,
            m.ratio_m2,
            m.loss_mean[columns],
            m.loss_m2[columns],
            m.product_mean[columns],
            m.product_m2[columns],
            m.co_moment[columns],
        )
    )


def _given(plan: Plan, names: list[str]) -> list[float]:
    given = plan.fedle_weights or {}
    missing = [name for name in names if name not in given]
    if missing:
        raise must("fedle_weights", "one weight for every source", f"none for {missing[0]!r}")
    return [float(given[name]) for name in names]

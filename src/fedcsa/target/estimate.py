"""From the sources' reports to an estimate by every method: what the target does between phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.core.medians import MIN_MODELS
from fedcsa.core.risk import RiskMoments, RiskTerms, risk_terms
from fedcsa.core.tilt import target_equivalent_rows
from fedcsa.core.weights import Estimate, estimate, validated_estimate
from fedcsa.errors import CandidatesError
from fedcsa.messages.messages import RiskReport
from fedcsa.models.model import RATIO_POWER
from fedcsa.plan import Plan, check_weights_of

#: A source reaches the target if so many effective rows are left …
MIN_EFFECTIVE_ROWS = 10.0
#: … and the weighted means are off by no more: a quarter of an sd throughout.
MAX_IMBALANCE = 0.06


def reaches(report: RiskReport) -> bool:
    """Whether a source's weighted rows stand for the target's population."""
    return report.effective_rows >= MIN_EFFECTIVE_ROWS and report.imbalance <= MAX_IMBALANCE


def worth(reports: Mapping[str, RiskReport]) -> Array:
    """m_j of every source: how many rows of the target its weighted rows are worth."""
    ordered = [reports[name] for name in sorted(reports)]
    return target_equivalent_rows(
        np.array([report.effective_rows for report in ordered]),
        np.array([report.imbalance for report in ordered]),
    )


def fitted_by(plan: Plan, reports: Mapping[str, RiskReport]) -> NDArray[np.bool_]:
    """Which source fitted which candidate, shape (candidates, sources)."""
    ordered = [reports[name] for name in sorted(reports)]
    return np.array(
        [[str(k) not in report.failed for report in ordered] for k in range(len(plan.candidates))]
    )


def eligible(plan: Plan, reports: Mapping[str, RiskReport]) -> tuple[int, ...]:
    """Indices of the candidates to choose from.

    A candidate that failed at one source is left out there. It stays in the choice if the
    sources that fitted it are worth at least half of those that fitted the most common one; under
    a median, if enough sources fitted it.

    Parameters
    ----------
    plan : Plan
    reports : mapping of str to RiskReport
    """
    fitted = fitted_by(plan, reports)
    value = worth(reports) if plan.method == "validated" else np.ones(len(reports))
    weight = fitted @ value
    enough = fitted.sum(axis=1) >= (MIN_MODELS if plan.combine == "median" else 1)
    kept = np.flatnonzero(enough & (weight > 0.0) & (weight >= 0.5 * weight.max(initial=0.0)))
    if not len(kept):
        names = [name for name in sorted(reports) if reports[name].failed]
        reasons = sorted({r for name in names for r in reports[name].failed.values()})
        raise CandidatesError(
            f"At least one candidate must be fitted; all {len(plan.candidates)} failed at "
            f"{', '.join(map(repr, names))} ({', '.join(reasons)}). "
            "Check the candidates' names and values."
        )
    return tuple(int(index) for index in kept)


def estimates(
    plan: Plan, reports: Mapping[str, RiskReport], kept: Sequence[int]
) -> dict[str, Estimate]:
    """Every method's estimate over the `kept` candidates, sources in alphabetical order.

    Parameters
    ----------
    plan : Plan
    reports : mapping of str to RiskReport
    kept : sequence of int
        Indices of candidates.
    """
    names, columns = sorted(reports), list(kept)
    fitted = fitted_by(plan, reports)[columns]
    who = None if fitted.all() else fitted
    found = {}
    if plan.method == "validated":
        risks = np.column_stack([reports[name].risk[columns] for name in names])
        variances = np.column_stack([reports[name].variance[columns] for name in names])
        powers = np.array([float(plan.candidates[k].get(RATIO_POWER, 0.0)) for k in kept])
        found["validated"] = validated_estimate(
            risks, worth(reports), powers, variances, plan.combine, who
        )
    terms = [_terms(reports[name], kept) for name in names] if plan.compared else []
    for method in plan.compared:
        given = _given(plan, names) if method == "fedle" else None
        if given is not None and not sum(given) and method != plan.method:
            continue  # what is only compared must not stop a study of which some refused
        errors = np.column_stack([_variances(method, reports[name], kept) for name in names])
        how = plan.combine if method == plan.method else "mean"
        found[method] = estimate(method, terms, given, errors, how, who)
    return found


def _variances(method: str, report: RiskReport, kept: Sequence[int]) -> Array:
    """Squared standard error of a source's term for every candidate: variance over rows."""
    n, columns = report.n_judged, list(kept)
    if method == "naive":
        return report.loss_m2[columns] / n**2
    if method == "fediwe":
        return report.product_m2[columns] / n**2
    return _terms(report, kept).divergence / n


def _terms(report: RiskReport, kept: Sequence[int]) -> RiskTerms:
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
    """FedLE's weights of the sources that reported."""
    weights = plan.fedle_weights or {}
    check_weights_of(plan.fedle_weights, names)
    return [float(weights[name]) for name in names]

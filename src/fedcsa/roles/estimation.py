"""From the sources' reports to an estimate by every method: what the target does between phases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.ensemble import SourceNumbers
from fedcsa.core.guard import target_rows_worth
from fedcsa.core.risk import RiskMoments, RiskTerms, risk_terms
from fedcsa.core.weights import CAUTION, Estimate, estimate, guarded_estimate
from fedcsa.errors import CandidatesError
from fedcsa.models.base import RATIO_POWER
from fedcsa.protocol.messages import ModelReport, RiskReport
from fedcsa.roles.plan import Plan, check_weights_of

#: Estimated in every study from the same messages, whatever its own method.
COMPARED = ("naive", "fediwe", "feddae")


def eligible(plan: Plan, reports: Mapping[str, RiskReport]) -> tuple[int, ...]:
    """Indices of the candidates to choose from: those that no source failed to fit.

    Under a median one source must not decide: a candidate goes if two failed, and a source that
    failed one has no say about it.
    """
    n, names = len(plan.candidates), sorted(reports)
    counts = Counter(int(key) for name in names for key in reports[name].failed)
    tolerated = 1 if plan.combine == "median" else 0
    kept = tuple(index for index in range(n) if counts[index] <= tolerated)
    if not kept:
        sources = ", ".join(repr(name) for name in names if reports[name].failed)
        reasons = ", ".join(sorted({r for name in names for r in reports[name].failed.values()}))
        raise CandidatesError(
            f"At least one candidate must be fitted at every source; all {n} failed "
            f"at {sources} ({reasons}). Check the candidates' names and values."
        )
    return kept


def estimates(
    plan: Plan, reports: Mapping[str, RiskReport], kept: Sequence[int]
) -> dict[str, Estimate]:
    """Every method's estimate over the `kept` candidates, sources in alphabetical order."""
    names = sorted(reports)
    terms = [_terms(reports[name], kept) for name in names]
    methods = {*COMPARED, plan.method}
    given = _given(plan, names)
    if sum(given) > 0.0:  # what is only compared must not stop a study of which some refused
        methods.add("fedle")
    if all(len(reports[name].spread) for name in names):
        methods.add("guarded")
    failed = np.array([[str(index) in reports[name].failed for name in names] for index in kept])
    fitted = ~failed if failed.any() else None
    found = {}
    for method in sorted(methods):
        variances = np.column_stack([_variances(method, reports[name], kept) for name in names])
        how = plan.combine if method == plan.method else "mean"
        if method == "guarded":
            found[method] = guarded_estimate(
                terms, worth(reports), _powers(plan, kept), variances, CAUTION, how, fitted
            )
        else:
            found[method] = estimate(method, terms, given, variances, how, fitted)
    return found


def constant_risks(plan: Plan, reports: Mapping[str, RiskReport]) -> dict[str, float]:
    """The target's risk under a constant prediction, by every method."""
    found = estimates(plan, reports, [len(plan.candidates)])
    return {method: float(item.risk[0]) for method, item in found.items()}


def worth(reports: Mapping[str, RiskReport]) -> Array:
    """m_j of every source: how many rows of the target its weighted rows are worth."""
    ordered = [reports[name] for name in sorted(reports)]
    return target_rows_worth(
        np.array([report.effective_rows for report in ordered]),
        np.array([report.kernel_imbalance for report in ordered]),
        np.array([report.imbalance for report in ordered]),
    )


def source_numbers(reports: Mapping[str, RiskReport], candidate: int) -> SourceNumbers:
    """What the sources say of one candidate, as the ensemble's risk needs it."""
    ordered = [reports[name] for name in sorted(reports)]

    def column(pick: Callable[[RiskReport], float]) -> Array:
        return np.array([pick(report) for report in ordered], dtype=np.float64)

    terms = [_terms(report, [candidate]) for report in ordered]
    return SourceNumbers(
        effective_rows=column(lambda r: r.effective_rows),
        kernel=column(lambda r: r.kernel_imbalance),
        imbalance=column(lambda r: r.imbalance),
        risk=np.array([float(term.self_normalised[0]) for term in terms]),
        variance=column(lambda r: r.variance[candidate]),
        spread=column(lambda r: float(_spread(r)[candidate])),
        explained=column(lambda r: r.explained[candidate]),
    )


def prediction_variances(reports: Mapping[str, ModelReport]) -> Array:
    """s² of every source's model, sources in alphabetical order."""
    return np.array([reports[name].prediction_variance for name in sorted(reports)])


def _spread(report: RiskReport) -> Array:
    """V of every candidate, the smaller of the plain and the weighted variance of the loss."""
    return np.minimum(report.loss_m2 / report.n_validation, report.spread)


def _variances(method: str, report: RiskReport, kept: Sequence[int]) -> Array:
    """Squared standard error of a source's term for every candidate.

    For the guarded method v + V δ²; for the paper's, whose terms are means, variance over rows.
    """
    n, columns = report.n_validation, list(kept)
    if method == "guarded":
        errors: Array = report.variance + _spread(report) * report.kernel_imbalance
        return errors[columns]
    if method == "naive":
        return report.loss_m2[columns] / n**2
    if method == "fediwe":
        return report.product_m2[columns] / n**2
    return _terms(report, kept).divergence / n


def _powers(plan: Plan, kept: Sequence[int]) -> Array:
    """γ of every candidate; that of the constant prediction, which comes last, is 0."""
    given = [float(candidate.get(RATIO_POWER, 0.0)) for candidate in plan.candidates]
    return np.array([*given, 0.0])[list(kept)]


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
    """FedLE's weights of the sources that reported; none if the study has none."""
    weights = plan.fedle_weights
    if weights is None:
        return []
    check_weights_of(weights, names)
    return [float(weights[name]) for name in names]

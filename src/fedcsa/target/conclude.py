"""Named dangers in a finished adaptation. It computes no estimate and changes none."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from fedcsa.core.risk import risk_terms
from fedcsa.errors import NoOverlapError
from fedcsa.findings import Finding
from fedcsa.messages.messages import RiskReport
from fedcsa.models.linear import PENALTY
from fedcsa.models.model import RATIO_POWER
from fedcsa.target.adaptation import Adaptation
from fedcsa.target.estimate import MAX_IMBALANCE, MIN_EFFECTIVE_ROWS

#: The mean ratio must be 1; outside these bounds it is called off.
RATIO_MEAN = (0.5, 2.0)
DOMINANT = 0.9
#: A source whose weighted means lie a whole sd off throughout tells nothing of the target.
FARTHEST_IMBALANCE = 1.0
#: A row with a larger share of the weight is named.
HEAVY_ROW = 0.2
#: Correlations of two sources that differ by more, and by more than chance, are named.
CORRELATION_GAP, CORRELATION_ERRORS = 0.4, 4.0
#: Bounds that no wider grid could pass.
NATURAL_BOUNDS = {PENALTY: (0.0,), RATIO_POWER: (0.0, 1.0)}


def refuse_without_overlap(adaptation: Adaptation) -> None:
    """Raise a `NoOverlapError` if the verdict is that there is no answer."""
    if not adaptation.refused or adaptation.plan.on_no_overlap == "predict":
        return
    far = sorted(adaptation.sources, key=lambda name: adaptation.reports[name].imbalance)
    nearest = adaptation.reports[far[0]]
    worst = int(np.argmax(np.abs(nearest.difference_after)))
    off = (
        f"still lies {abs(nearest.difference_after[worst]):.1f} standard deviations off in "
        f"{adaptation.plan.features[worst]!r} after weighting"
    )
    if nearest.imbalance <= MAX_IMBALANCE:
        off = (
            f"has {nearest.effective_rows:.1f} effective rows, fewer than {MIN_EFFECTIVE_ROWS:.0f}"
        )
    raise NoOverlapError(
        f"At least one source must resemble the target; the nearest, {far[0]!r}, {off}. Look for "
        "another source, or insist with on_no_overlap='predict' and get a model without an "
        "interval."
    )


def judge(adaptation: Adaptation) -> tuple[Finding, ...]:
    """All findings that the messages support, by source and then about the choice."""
    findings: list[Finding] = []
    for name in adaptation.sources:
        findings += _of_source(adaptation, name, adaptation.reports[name])
    findings += _of_examination(adaptation)
    findings += _correlations(adaptation)
    if len(adaptation.source_weights) > 1:
        for name, weight in adaptation.source_weights.items():
            if weight > DOMINANT:
                findings.append(Finding("dominant-source", name, {"weight": weight}))
    findings += _edges(adaptation)
    return tuple(findings)


def _of_examination(adaptation: Adaptation) -> Iterator[Finding]:
    for name, report in adaptation.model_reports.items():
        if not report.show and adaptation.plan.method == "validated":
            yield Finding("model-not-shown", name)
    for name, examined in adaptation.examinations.items():
        if examined.reason:
            yield Finding("not-examined", name, {"reason": examined.reason})
    if adaptation.plan.method == "validated" and not adaptation.refused:
        if adaptation.promise is None:
            yield Finding("no-promise")
        elif len(adaptation.models) == 1:
            yield Finding("nothing-examined")


def _correlations(adaptation: Adaptation) -> Iterator[Finding]:
    """Pairs of features whose correlation at one source is far from that at another."""
    told = {
        name: report
        for name, report in adaptation.reports.items()
        if len(report.correlations) and report.effective_rows > MIN_EFFECTIVE_ROWS
    }
    features = adaptation.plan.features
    pairs = list(combinations(range(len(features)), 2))
    for first, second in combinations(sorted(told), 2):
        a, b = told[first].correlations, told[second].correlations
        z = np.arctanh(np.clip(a, -0.99, 0.99)) - np.arctanh(np.clip(b, -0.99, 0.99))
        error = np.sqrt(sum(1.0 / (told[name].effective_rows - 3.0) for name in (first, second)))
        far = (np.abs(a - b) > CORRELATION_GAP) & (np.abs(z) > CORRELATION_ERRORS * error)
        if far.any():
            worst = int(np.argmax(np.where(far, np.abs(a - b), 0.0)))
            one, other = (features[k] for k in pairs[worst])
            evidence = {"other source": second, "features": f"{one}, {other}"}
            numbers = {"here": float(a[worst]), "there": float(b[worst])}
            yield Finding("correlations-differ", first, {**evidence, **numbers})


def _of_source(adaptation: Adaptation, name: str, report: RiskReport) -> Iterator[Finding]:
    for item in report.findings:
        yield Finding(str(item["code"]), name, item["evidence"])

    if report.failed:
        reasons = ", ".join(sorted(set(report.failed.values())))
        evidence = {"candidates": float(len(report.failed)), "of": float(len(report.risk))}
        yield Finding("candidate-failed", name, {**evidence, "reason": reasons})

    if len(report.loss_mean) and adaptation.plan.exchange == "rows":
        terms = risk_terms(report.moments)
        if terms.outcome != "ok":
            yield Finding(terms.outcome, name)
        chosen = adaptation.kept[adaptation.estimate.chosen]
        if terms.divergence[chosen] == 0.0 and adaptation.plan.method == "feddae":
            yield Finding("zero-divergence", name)
        if not RATIO_MEAN[0] <= report.ratio_mean <= RATIO_MEAN[1]:
            yield Finding("ratio-mean-off", name, {"mean ratio": report.ratio_mean})
    if report.effective_rows < MIN_EFFECTIVE_ROWS:
        evidence = {"effective rows": report.effective_rows, "of": float(report.n_judged)}
        yield Finding("few-effective-rows", name, evidence)
    elif report.largest_share > HEAVY_ROW:
        yield Finding("heavy-row", name, {"share": report.largest_share})

    after = report.difference_after
    imbalance = report.imbalance
    if imbalance > MAX_IMBALANCE:
        worst = np.argsort(-np.abs(after), kind="stable")[:3]
        off = {adaptation.plan.features[i]: float(after[i]) for i in worst}
        code = "no-overlap" if imbalance > FARTHEST_IMBALANCE else "imbalance"
        yield Finding(code, name, {"imbalance": imbalance, **off})


def _edges(adaptation: Adaptation) -> Iterator[Finding]:
    """The chosen value of a parameter lies at the edge of the values tried."""
    for parameter, value in adaptation.candidate.items():
        tried = sorted(
            {
                other[parameter]
                for other in adaptation.plan.candidates
                if isinstance(other.get(parameter), int | float)
                and not isinstance(other.get(parameter), bool)
            }
        )
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or len(tried) < 3 or value not in (tried[0], tried[-1]):
            continue
        if value not in NATURAL_BOUNDS.get(parameter, ()):
            yield Finding("grid-edge", evidence={"parameter": parameter, "value": float(value)})

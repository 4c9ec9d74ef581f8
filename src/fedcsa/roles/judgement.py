"""Named dangers in a finished adaptation. It computes no estimate and changes none."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedcsa.core.risk import risk_terms
from fedcsa.errors import MessageError
from fedcsa.findings import CATALOGUE, Finding
from fedcsa.models.base import RATIO_POWER
from fedcsa.models.linear import PENALTY
from fedcsa.protocol.messages import RiskReport
from fedcsa.roles.adaptation import Adaptation

#: The mean ratio must be 1; outside these bounds it is called off.
RATIO_MEAN = (0.5, 2.0)
MIN_EFFECTIVE_ROWS = 10.0
#: Mean squared standardised difference after weighting: 0.0625 is a quarter of an sd throughout,
#: the usual bound for balance; 1 is a whole sd throughout, where nothing overlaps.
MAX_IMBALANCE, NO_OVERLAP = 0.0625, 1.0
DOMINANT = 0.9
#: Bounds that no wider grid could pass.
NATURAL_BOUNDS = {PENALTY: (0.0,), RATIO_POWER: (0.0, 1.0)}


def judge(adaptation: Adaptation) -> tuple[Finding, ...]:
    """All findings that the messages support, by source and then about the choice."""
    findings: list[Finding] = []
    for name in adaptation.sources:
        findings += _of_source(adaptation, name, adaptation.reports[name])
    if len(adaptation.source_weights) > 1:
        for name, weight in adaptation.source_weights.items():
            if weight > DOMINANT:
                findings.append(Finding("dominant-source", name, {"weight": weight}))
    findings += _edges(adaptation)
    return tuple(findings)


def _of_source(adaptation: Adaptation, name: str, report: RiskReport) -> Iterator[Finding]:
    for item in report.findings:
        code = str(item["code"])
        if code not in CATALOGUE:
            raise MessageError(f"The report of source {name!r} must use known finding codes.")
        evidence: dict[str, float | str] = {
            str(key)[:40]: float(value) if isinstance(value, int | float) else str(value)[:60]
            for key, value in item["evidence"].items()
        }
        yield Finding(code, name, evidence)

    for key, reason in report.failed.items():
        evidence = {"candidate": float(key), "reason": reason[:60]}
        yield Finding("candidate-failed", name, evidence)

    terms = risk_terms(report.moments)
    chosen = adaptation.kept[adaptation.estimate.chosen]
    if terms.outcome != "ok":
        yield Finding(terms.outcome, name)
    if terms.zero_divergence[chosen] and adaptation.plan.method == "feddae":
        yield Finding("zero-divergence", name)
    if not RATIO_MEAN[0] <= report.ratio_mean <= RATIO_MEAN[1]:
        yield Finding("ratio-mean-off", name, {"mean ratio": report.ratio_mean})
    if report.effective_rows < MIN_EFFECTIVE_ROWS:
        evidence = {"effective rows": report.effective_rows, "of": float(report.n_validation)}
        yield Finding("few-effective-rows", name, evidence)

    after = report.difference_after
    imbalance = float(np.mean(after**2))
    if imbalance > MAX_IMBALANCE:
        worst = np.argsort(-np.abs(after), kind="stable")[:3]
        off = {adaptation.plan.features[i]: float(after[i]) for i in worst}
        code = "no-overlap" if imbalance > NO_OVERLAP else "imbalance"
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

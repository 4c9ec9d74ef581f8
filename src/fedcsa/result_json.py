"""The parts of a result as plain values, and back; what cannot be true raises a `ValueError`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from fedcsa.core.arrays import Array, read_only
from fedcsa.core.ensemble import EnsembleRisk, Kind, Status
from fedcsa.core.weights import Estimate
from fedcsa.findings import Finding
from fedcsa.protocol.fields import thaw
from fedcsa.protocol.messages import RiskReport
from fedcsa.roles.adaptation import Adaptation
from fedcsa.roles.backtest import Backtest, BacktestRow
from fedcsa.roles.estimation import estimates
from fedcsa.roles.plan import Plan

_WORDS = ("weights", "kind", "status")


def findings_to_json(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Findings as plain values, each with its sentence."""
    return [
        {
            "code": finding.code,
            "severity": finding.severity,
            "source": finding.source,
            "evidence": dict(finding.evidence),
            "text": str(finding),
        }
        for finding in findings
    ]


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """A plan as plain values."""
    content = {item.name: thaw(getattr(plan, item.name)) for item in dataclasses.fields(plan)}
    if plan.public_sd is not None:
        content["public_sd"] = plan.public_sd.tolist()
    return content


def plan_from_json(content: Mapping[str, Any]) -> Plan:
    """A plan out of plain values; it checks itself."""
    values = dict(content)
    for name in ("features", "classes", "candidates", "folds"):
        if isinstance(values[name], list):
            values[name] = tuple(values[name])
    if values["public_sd"] is not None:
        values["public_sd"] = np.array(values["public_sd"], dtype=np.float64)
    return Plan(**values)


def report_to_json(report: RiskReport) -> dict[str, Any]:
    """A report as plain values."""
    return {
        item.name: value.tolist() if isinstance(value, np.ndarray) else thaw(value)
        for item in dataclasses.fields(report)
        for value in [getattr(report, item.name)]
    }


def report_from_json(content: Mapping[str, Any]) -> RiskReport:
    """A report out of plain values; it checks itself."""
    kinds = {item.name: item.metadata["kind"] for item in dataclasses.fields(RiskReport)}
    values: dict[str, Any] = {
        name: np.array(value, dtype=np.float64) if kinds[name] == "vector" else value
        for name, value in content.items()
    }
    return RiskReport(**values)


def risk_to_json(risk: EnsembleRisk | None) -> dict[str, Any] | None:
    """The risk of a mixture as plain values."""
    if risk is None:
        return None
    return {**vars(risk), "weights": risk.weights.tolist()}


def risk_from_json(content: dict[str, Any] | None, n_models: int) -> EnsembleRisk | None:
    """The risk of a mixture of `n_models` out of plain values."""
    if content is None:
        return None
    weights = np.array(content["weights"], dtype=np.float64)
    risk = EnsembleRisk(**{**content, "weights": read_only(weights)})
    numbers = [value for name, value in content.items() if name not in _WORDS and value is not None]
    if weights.shape != (n_models,) or not all(math.isfinite(number) for number in numbers):
        raise ValueError
    if risk.status not in get_args(Status) or risk.kind not in get_args(Kind):
        raise ValueError
    return risk


def estimates_to_json(a: Adaptation) -> dict[str, Any]:
    """Every method's estimate as plain values."""
    return {
        method: {
            "candidate": thaw(a.plan.candidates[a.kept[found.chosen]]),
            "target_risk": float(found.risk[found.chosen]),
            "source_weights": dict(zip(a.sources, found.source_weights.tolist(), strict=True)),
            "risk": found.risk.tolist(),
            "standard_errors": (
                None if found.standard_errors is None else found.standard_errors.tolist()
            ),
        }
        for method, found in a.estimates.items()
    }


def estimates_from_json(
    content: Mapping[str, Any],
    plan: Plan,
    reports: Mapping[str, RiskReport],
    kept: tuple[int, ...],
) -> dict[str, Estimate]:
    """What was estimated then, also where another version of the package would say otherwise."""
    found = {}
    candidates = [thaw(plan.candidates[index]) for index in kept]
    for method, fresh in estimates(plan, reports, kept).items():
        if method not in content and method != plan.method:
            continue  # an older version did not compare it
        told = content[method]
        chosen, weights = candidates.index(told["candidate"]), fresh.weights.copy()
        weights[chosen] = [told["source_weights"][name] for name in sorted(reports)]
        risk, errors = _numbers(told["risk"], len(kept)), told["standard_errors"]
        if not (np.isfinite(weights).all() and (weights >= 0.0).all()):
            raise ValueError
        errors = None if errors is None else _numbers(errors, len(kept))
        found[method] = replace(
            fresh, risk=risk, weights=weights, chosen=chosen, standard_errors=errors
        )
    return found


def _numbers(values: Any, size: int) -> Array:
    found = np.array(values, dtype=np.float64)
    if found.shape != (size,) or not np.isfinite(found).all():
        raise ValueError
    return found


def backtest_to_json(backtest: Backtest | None) -> dict[str, Any] | None:
    """A back-test as plain values."""
    if backtest is None:
        return None
    return {
        "level": backtest.level,
        "verdict": backtest.verdict,
        "sentence": backtest.sentence,
        "coverage": backtest.coverage,
        "calibration": backtest.calibration,
        "regret": backtest.regret,
        "findings": findings_to_json(backtest.findings),
        "rows": [dataclasses.asdict(row) for row in backtest.rows],
    }


def backtest_from_json(content: dict[str, Any] | None) -> Backtest | None:
    """A back-test out of plain values."""
    if content is None:
        return None
    rows = tuple(BacktestRow(**row) for row in content["rows"])
    found = Backtest(rows, float(content["level"]))
    return found if found.verdict else None  # computed once, so that a strange value shows here

"""The parts of a result as plain values, and back; what cannot be true raises a `ValueError`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.weights import Estimate
from fedcsa.findings import Finding
from fedcsa.messages.fields import Message, thaw
from fedcsa.messages.messages import RiskReport
from fedcsa.plan import Plan
from fedcsa.target.adaptation import Adaptation
from fedcsa.target.backtest_result import Backtest, BacktestRow
from fedcsa.target.estimate import estimates
from fedcsa.target.promise import Promise

Kind = TypeVar("Kind", bound=Message)


def plain(value: Any) -> Any:
    """Records, arrays and mappings as plain values; NaN, which JSON has not, as None."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def findings_to_json(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Findings as plain values, each with its sentence."""
    return [
        {**plain(finding), "severity": finding.severity, "text": str(finding)}
        for finding in findings
    ]


def plan_from_json(content: Mapping[str, Any]) -> Plan:
    """A plan out of plain values; it checks itself."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in content.items()
    }
    if values["public_sd"] is not None:  # None is NaN: no sd was agreed
        values["public_sd"] = np.array(values["public_sd"], dtype=np.float64)
    return Plan(**values)


def message_from_json(kind: type[Kind], content: Mapping[str, Any]) -> Kind:
    """A message of `kind` out of plain values; it checks itself.

    Parameters
    ----------
    kind : type of Message
        One without matrices or bytes.
    content : mapping
    """
    kinds = {item.name: item.metadata["kind"] for item in dataclasses.fields(kind)}
    values: dict[str, Any] = {
        name: np.array(value, dtype=np.float64) if kinds[name] == "vector" else value
        for name, value in content.items()
    }
    return kind(**values)


def promise_from_json(
    content: Mapping[str, Any] | None, examined: Mapping[str, Any]
) -> Promise | None:
    """A promise out of plain values.

    Parameters
    ----------
    content : mapping or None
    examined : mapping
        What the sources found; the promise can rest on these alone.
    """
    if content is None:
        return None
    promise = Promise(**{**content, "examined_by": tuple(content["examined_by"])})
    numbers = [value for name, value in vars(promise).items() if name != "examined_by"]
    if not all(math.isfinite(number) and number >= 0.0 for number in numbers):
        raise ValueError
    if not promise.lower <= promise.risk <= promise.upper:
        raise ValueError
    if not promise.examined_by or not set(promise.examined_by) <= set(examined):
        raise ValueError
    return promise


def estimates_to_json(a: Adaptation) -> dict[str, Any]:
    """Every method's estimate as plain values."""
    return {
        method: {
            "candidate": thaw(a.plan.candidates[a.kept[found.chosen]]),
            "target_risk": float(found.risk[found.chosen]),
            "source_weights": dict(zip(a.sources, found.source_weights.tolist(), strict=True)),
            "risk": found.risk.tolist(),
            "standard_errors": plain(found.standard_errors),
        }
        for method, found in a.estimates.items()
    }


def estimates_from_json(
    content: Mapping[str, Any],
    plan: Plan,
    reports: Mapping[str, RiskReport],
    kept: tuple[int, ...],
) -> dict[str, Estimate]:
    """What was estimated then, also where another version of the package would say otherwise.

    Parameters
    ----------
    content : mapping
    plan : Plan
    reports : mapping of str to RiskReport
    kept : tuple of int
        Candidates that were chosen from.
    """
    found = {}
    candidates = [thaw(plan.candidates[index]) for index in kept]
    for method, fresh in estimates(plan, reports, kept).items():
        told = content[method]
        chosen, weights = candidates.index(told["candidate"]), fresh.weights.copy()
        weights[chosen] = [told["source_weights"][name] for name in sorted(reports)]
        risk, errors = (_numbers(told[key], len(kept)) for key in ("risk", "standard_errors"))
        if not (np.isfinite(weights).all() and (weights >= 0.0).all()):
            raise ValueError
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
        "rows": plain(backtest.rows),
    }


def backtest_from_json(content: dict[str, Any] | None) -> Backtest | None:
    """A back-test out of plain values."""
    if content is None:
        return None
    rows = tuple(BacktestRow(**row) for row in content["rows"])
    found = Backtest(rows, float(content["level"]))
    return found if found.verdict else None  # computed once, so that a strange value shows here

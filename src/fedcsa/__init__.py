"""Federated covariate shift adaptation.

A site without outcomes learns which model to use and how well it will do there, from sites that
have outcomes and never share a row. Start with `FedCSA`; every name below is public.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedcsa.core.density_ratio import ULSIF
    from fedcsa.core.risk import RiskMoments, RiskTerms, risk_terms
    from fedcsa.core.table import Table1
    from fedcsa.core.weights import Estimate, estimate
    from fedcsa.errors import (
        BindingError,
        CandidatesError,
        DataError,
        FedCSAError,
        LedgerError,
        MessageError,
        MissingExtraError,
        ModelError,
        NoOverlapError,
        NoSourcesError,
        ParameterError,
        PolicyError,
        ProtocolError,
        ResultError,
        StudyError,
        TableError,
        UntrustedError,
    )
    from fedcsa.estimator import FedCSA
    from fedcsa.findings import Finding
    from fedcsa.protocol.policy import Policy
    from fedcsa.reconcile import Reconciliation
    from fedcsa.report.plots import plot_backtest, plot_balance, plot_risk, plot_sources
    from fedcsa.result import load_result, save_result
    from fedcsa.roles.adaptation import Adaptation
    from fedcsa.roles.backtest import Backtest, BacktestRow
    from fedcsa.roles.plan import Plan
    from fedcsa.roles.promise import Leg, Promise, Verdict
    from fedcsa.roles.source import Source
    from fedcsa.roles.target import Target
    from fedcsa.study import Study
    from fedcsa.transport.base import run
    from fedcsa.transport.inprocess import InProcessTransport

__version__ = "0.1.0"

# Loaded when first used, so that `import fedcsa` costs little more than nothing.
_HOMES = {
    "Adaptation": "roles.adaptation",
    "Backtest": "roles.backtest",
    "BacktestRow": "roles.backtest",
    "BindingError": "errors",
    "CandidatesError": "errors",
    "DataError": "errors",
    "Estimate": "core.weights",
    "FedCSA": "estimator",
    "FedCSAError": "errors",
    "Finding": "findings",
    "InProcessTransport": "transport.inprocess",
    "LedgerError": "errors",
    "Leg": "roles.promise",
    "MessageError": "errors",
    "MissingExtraError": "errors",
    "ModelError": "errors",
    "NoOverlapError": "errors",
    "NoSourcesError": "errors",
    "ParameterError": "errors",
    "Plan": "roles.plan",
    "Policy": "protocol.policy",
    "PolicyError": "errors",
    "Promise": "roles.promise",
    "ProtocolError": "errors",
    "Reconciliation": "reconcile",
    "ResultError": "errors",
    "RiskMoments": "core.risk",
    "RiskTerms": "core.risk",
    "Source": "roles.source",
    "Study": "study",
    "StudyError": "errors",
    "Table1": "core.table",
    "TableError": "errors",
    "Target": "roles.target",
    "ULSIF": "core.density_ratio",
    "UntrustedError": "errors",
    "Verdict": "roles.promise",
    "estimate": "core.weights",
    "load_result": "result",
    "plot_backtest": "report.plots",
    "plot_balance": "report.plots",
    "plot_risk": "report.plots",
    "plot_sources": "report.plots",
    "risk_terms": "core.risk",
    "run": "transport.base",
    "save_result": "result",
}

__all__ = [
    "ULSIF",
    "Adaptation",
    "Backtest",
    "BacktestRow",
    "BindingError",
    "CandidatesError",
    "DataError",
    "Estimate",
    "FedCSA",
    "FedCSAError",
    "Finding",
    "InProcessTransport",
    "LedgerError",
    "Leg",
    "MessageError",
    "MissingExtraError",
    "ModelError",
    "NoOverlapError",
    "NoSourcesError",
    "ParameterError",
    "Plan",
    "Policy",
    "PolicyError",
    "Promise",
    "ProtocolError",
    "Reconciliation",
    "ResultError",
    "RiskMoments",
    "RiskTerms",
    "Source",
    "Study",
    "StudyError",
    "Table1",
    "TableError",
    "Target",
    "UntrustedError",
    "Verdict",
    "__version__",
    "estimate",
    "load_result",
    "plot_backtest",
    "plot_balance",
    "plot_risk",
    "plot_sources",
    "risk_terms",
    "run",
    "save_result",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'fedcsa' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"fedcsa.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""Federated covariate shift adaptation.

A site without outcomes learns which model to use and how well it will do there, from sites that
have outcomes and never share a row. Start with `FedCSA`; every name below is public.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedcsa.answer.plots import (
        plot_backtest,
        plot_balance,
        plot_calibration,
        plot_decision_curve,
        plot_forest,
        plot_outcomes,
        plot_risk,
    )
    from fedcsa.answer.store import load_result, save_result
    from fedcsa.core.losses import RiskMoments, RiskTerms, risk_terms
    from fedcsa.core.table import Table1
    from fedcsa.core.ulsif import ULSIF
    from fedcsa.core.weights import Estimate, estimate
    from fedcsa.data.coding import Columns
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
        OpeningError,
        ParameterError,
        PolicyError,
        ProtocolError,
        ResultError,
        StudyError,
        TableError,
        UntrustedError,
    )
    from fedcsa.estimator import FedCSA
    from fedcsa.evaluation import convert, evaluate
    from fedcsa.findings import Finding
    from fedcsa.messages.policy import Policy
    from fedcsa.models.given import Formula, Term
    from fedcsa.plan import Plan
    from fedcsa.run import InProcess, run_study
    from fedcsa.source.source import Source
    from fedcsa.study import Study
    from fedcsa.study.formula_file import load_formula
    from fedcsa.target.adaptation import Adaptation
    from fedcsa.target.backtest_result import Backtest, BacktestRow
    from fedcsa.target.target import Target
    from fedcsa.target.verdict import Leg, Promise, Verdict
    from fedcsa.update import Update

__version__ = "0.1.0"

# Loaded when first used, so that `import fedcsa` costs little more than nothing.
_HOMES = {
    "Adaptation": "target.adaptation",
    "Backtest": "target.backtest_result",
    "BacktestRow": "target.backtest_result",
    "BindingError": "errors",
    "CandidatesError": "errors",
    "Columns": "data.coding",
    "DataError": "errors",
    "Estimate": "core.weights",
    "FedCSA": "estimator",
    "FedCSAError": "errors",
    "Finding": "findings",
    "Formula": "models.given",
    "InProcess": "run",
    "LedgerError": "errors",
    "Leg": "target.verdict",
    "MessageError": "errors",
    "MissingExtraError": "errors",
    "ModelError": "errors",
    "NoOverlapError": "errors",
    "NoSourcesError": "errors",
    "OpeningError": "errors",
    "ParameterError": "errors",
    "Plan": "plan",
    "Policy": "messages.policy",
    "PolicyError": "errors",
    "Promise": "target.verdict",
    "ProtocolError": "errors",
    "ResultError": "errors",
    "RiskMoments": "core.losses",
    "RiskTerms": "core.losses",
    "Source": "source.source",
    "Study": "study",
    "StudyError": "errors",
    "Table1": "core.table",
    "TableError": "errors",
    "Target": "target.target",
    "Term": "models.given",
    "ULSIF": "core.ulsif",
    "UntrustedError": "errors",
    "Update": "update",
    "Verdict": "target.verdict",
    "convert": "evaluation",
    "estimate": "core.weights",
    "evaluate": "evaluation",
    "load_formula": "study.formula_file",
    "load_result": "answer.store",
    "plot_backtest": "answer.plots",
    "plot_balance": "answer.plots",
    "plot_calibration": "answer.plots",
    "plot_decision_curve": "answer.plots",
    "plot_forest": "answer.plots",
    "plot_outcomes": "answer.plots",
    "plot_risk": "answer.plots",
    "risk_terms": "core.losses",
    "run_study": "run",
    "save_result": "answer.store",
}

__all__ = [
    "ULSIF",
    "Adaptation",
    "Backtest",
    "BacktestRow",
    "BindingError",
    "CandidatesError",
    "Columns",
    "DataError",
    "Estimate",
    "FedCSA",
    "FedCSAError",
    "Finding",
    "Formula",
    "InProcess",
    "LedgerError",
    "Leg",
    "MessageError",
    "MissingExtraError",
    "ModelError",
    "NoOverlapError",
    "NoSourcesError",
    "OpeningError",
    "ParameterError",
    "Plan",
    "Policy",
    "PolicyError",
    "Promise",
    "ProtocolError",
    "ResultError",
    "RiskMoments",
    "RiskTerms",
    "Source",
    "Study",
    "StudyError",
    "Table1",
    "TableError",
    "Target",
    "Term",
    "UntrustedError",
    "Update",
    "Verdict",
    "__version__",
    "convert",
    "estimate",
    "evaluate",
    "load_formula",
    "load_result",
    "plot_backtest",
    "plot_balance",
    "plot_calibration",
    "plot_decision_curve",
    "plot_forest",
    "plot_outcomes",
    "plot_risk",
    "risk_terms",
    "run_study",
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

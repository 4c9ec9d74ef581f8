"""Carry out a back-test in one process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedcsa.core.arrays import Array
from fedcsa.errors import FedCSAError, must
from fedcsa.messages.policy import Policy
from fedcsa.plan import LossFunctions, Plan
from fedcsa.play_target import Rehearsal
from fedcsa.run import InProcess, Progress, run_study
from fedcsa.source.source import Source
from fedcsa.target.backtest_result import Backtest, BacktestRow


def run_backtest(
    sources: Mapping[str, tuple[Array, Any]],
    plan: Plan,
    *,
    policy: Policy | None = None,
    losses: LossFunctions | None = None,
    trusted_types: Collection[str] = (),
    progress: Progress | None = None,
) -> Backtest:
    """Let every source play the target for the others.

    Parameters
    ----------
    sources : mapping of str to (X, y)
        At least two; columns in the order of ``plan.features``, the group behind them if
        ``plan.group`` names one.
    plan : Plan
        Of the study that is tested. It must use the default method: the others promise nothing.
    policy : Policy, optional
        Rules of every site; by default none, since one process sees everything anyway.
    losses : mapping of str to function, optional
        Losses of the study that are not built in.
    trusted_types : collection of str, optional
        Types outside scikit-learn that a model may hold.
    progress : function, optional
        Called with the phase, the source and "started" or "done".
    """
    if len(sources) < 2:
        raise must("sources", "at least two, so that one can play the target", len(sources))
    if plan.method != "validated":
        rule = "'validated' for a back-test: only it promises an interval"
        raise must("method", rule, plan.method)
    # A far site is an ordinary outcome here, not an error: a row without a promise.
    plan = replace(plan, on_no_overlap="predict")
    columns = (*plan.features, *([plan.group] if plan.group else []))
    common: dict[str, Any] = {
        "policy": policy or Policy.open(),
        "losses": losses,
        "trusted_types": trusted_types,
    }
    rows: list[BacktestRow] = []
    for name in sorted(sources):
        X, y = sources[name]
        others = [
            Source(other, *sources[other], features=columns, **common)
            for other in sorted(sources)
            if other != name
        ]
        rows.append(_play(Rehearsal(name, X, y, plan, **common), others, progress))
    return Backtest(tuple(rows), plan.level)


def _play(rehearsal: Rehearsal, others: Sequence[Source], progress: Progress | None) -> BacktestRow:
    try:
        adaptation = run_study(rehearsal.target, InProcess(others, progress))
    except FedCSAError as error:
        return rehearsal.refused(type(error).__name__)
    return rehearsal.row(adaptation)

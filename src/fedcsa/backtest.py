"""Carry out a back-test in one process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedcsa.core.arrays import Array
from fedcsa.errors import FedCSAError, must
from fedcsa.protocol.policy import Policy
from fedcsa.roles.backtest import Backtest, BacktestRow
from fedcsa.roles.plan import LossFunctions, Plan
from fedcsa.roles.rehearsal import Rehearsal, backtest_row
from fedcsa.roles.source import Source
from fedcsa.transport.base import Progress, run
from fedcsa.transport.inprocess import InProcessTransport


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
        At least two; columns in the order of ``plan.features``.
    plan : Plan
        Of the study that is tested. It must use the guarded method: the others promise no
        interval.
    """
    if len(sources) < 2:
        raise must("sources", "at least two, so that one can play the target", len(sources))
    if plan.method != "guarded":
        raise must("method", "'guarded' for a back-test: only it promises an interval", plan.method)
    # A far site is an ordinary outcome here, not an error: it has no interval, and is not judged.
    plan = replace(plan, on_no_overlap="predict")
    common: dict[str, Any] = {
        "policy": policy or Policy.open(),
        "losses": losses,
        "trusted_types": trusted_types,
    }
    rows: list[BacktestRow] = []
    for name in sorted(sources):
        X, y = sources[name]
        others = [
            Source(other, *sources[other], features=plan.features, **common)
            for other in sorted(sources)
            if other != name
        ]
        rows.append(_play(Rehearsal(name, X, y, plan, **common), others, progress))
    return Backtest(tuple(rows), plan.level)


def _play(rehearsal: Rehearsal, others: Sequence[Source], progress: Progress | None) -> BacktestRow:
    try:
        adaptation = run(rehearsal.target, InProcessTransport(others, progress))
    except FedCSAError as error:
        return BacktestRow(rehearsal.name, rehearsal.target.n_rows, type(error).__name__)
    return backtest_row(adaptation, rehearsal.report(adaptation))

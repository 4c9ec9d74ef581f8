"""A source that plays the target in a back-test, and alone knows how the promise turned out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedcsa.core.arrays import Array, as_matrix, as_vector
from fedcsa.core.folds import generator_for, split_evenly
from fedcsa.core.losses import Loss, evaluate, loss_named
from fedcsa.core.realised import standard_error
from fedcsa.models.base import path_losses
from fedcsa.protocol.ledger import Gate, Ledger
from fedcsa.protocol.messages import BacktestReport
from fedcsa.protocol.policy import Policy
from fedcsa.roles.adaptation import Adaptation
from fedcsa.roles.backtest import BacktestRow
from fedcsa.roles.plan import LossFunctions, Plan, encode_classes, instantiate
from fedcsa.roles.target import Target

REFERENCE_FOLDS = 5


class Rehearsal:
    """A source that plays the target: it announces itself, and keeps its outcomes to itself.

    Parameters
    ----------
    name : str
    X, y : array
    plan : Plan
        The study's; it is carried out under a name of its own.
    """

    def __init__(
        self,
        name: str,
        X: ArrayLike,
        y: Any,
        plan: Plan,
        *,
        policy: Policy | None = None,
        losses: LossFunctions | None = None,
        trusted_types: Collection[str] = (),
    ) -> None:
        self.name = name
        self.plan = replace(plan, study=f"{plan.study}: back-test at {name}"[:200])
        self._policy = policy or Policy()
        self.target = Target(X, self.plan, policy=self._policy, trusted_types=trusted_types)
        self._X = as_matrix(X, f"X of source {name!r}")
        where = f"The outcome of source {name!r}"
        self._y = encode_classes(y, plan.classes, where) if plan.classes else as_vector(y, where)
        own = (losses or {}).get(plan.loss)
        self._loss: Loss = loss_named(plan.loss) if own is None else own
        self._loss_name = plan.loss if own is None else ""
        self._trusted = trusted_types
        self.ledger = Ledger(name)

    def report(self, adaptation: Adaptation) -> BacktestReport:
        """Three numbers: the realised risk, its standard error, the risk of a model of its own."""
        losses = evaluate(self._loss, adaptation.output(self._X), self._y)
        message = BacktestReport(
            study=self.plan.study,
            source=self.name,
            realised=float(losses.mean()),
            standard_error=standard_error(losses, self._loss_name),
            reference=self._reference(),
        )
        return Gate(self._policy, self.ledger).release(message, ["study"])

    def _reference(self) -> float:
        """Smallest cross-validated risk over the candidates, on this site's rows alone."""
        plan = self.plan
        model, candidates = instantiate(
            plan.model, plan.candidates, len(plan.classes), self._trusted
        )
        X, ones = self._seen(), np.ones(len(self._X))
        rng = generator_for(plan.seed, self.name, "reference")
        total = np.zeros(len(candidates))
        for fold in split_evenly(len(X), min(REFERENCE_FOLDS, len(X)), rng):
            train = np.setdiff1d(np.arange(len(X)), fold)
            path = model.fit(X[train], self._y[train], ones[train], candidates, rng)
            losses, failures = path_losses(path, X[fold], self._y[fold], self._loss)
            total += losses.sum(axis=0)
            total[list({*failures, *path.failures})] = np.inf
        smallest = float(total.min() / len(X))
        return smallest if np.isfinite(smallest) else 0.0

    def _seen(self) -> Array:
        if not self.plan.scale:
            return self._X
        sd = self._X.std(axis=0)
        seen: Array = (self._X - self._X.mean(axis=0)) / np.where(sd > 0.0, sd, 1.0)
        return seen


def backtest_row(adaptation: Adaptation, report: BacktestReport) -> BacktestRow:
    """What was promised beside what came of it."""
    interval = adaptation.interval or (None, None)
    return BacktestRow(
        source=report.source,
        n_rows=adaptation.n_target_rows,
        status=adaptation.status,
        promised=adaptation.target_risk,
        lower=interval[0],
        upper=interval[1],
        realised=report.realised,
        standard_error=report.standard_error,
        reference=report.reference,
    )

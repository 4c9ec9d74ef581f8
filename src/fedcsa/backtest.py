"""The back-test in one process: every source plays the target for the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedcsa.core.arrays import Array, as_matrix, as_outcome
from fedcsa.core.folds import fold_key, fold_labels, generator_for
from fedcsa.core.losses import Loss, loss_named, row_losses
from fedcsa.core.realised import standard_error
from fedcsa.errors import FedCSAError, must
from fedcsa.messages.fields import to_json
from fedcsa.messages.messages import BacktestReport
from fedcsa.messages.policy import Ledger, Policy
from fedcsa.models.description import RATIO_POWER, given_column
from fedcsa.models.model import path_losses
from fedcsa.models.registry import instantiate
from fedcsa.models.space import SpaceFunction
from fedcsa.plan import LossFunctions, Plan
from fedcsa.run import InProcess, Progress, run_study
from fedcsa.source.source import Source
from fedcsa.target.adaptation import Adaptation
from fedcsa.target.backtest_result import Backtest, BacktestRow, outcomes_of, realised_rows
from fedcsa.target.judge_given import Given, predictions_of
from fedcsa.target.risk_units import risk_scale
from fedcsa.target.target import Target

#: As many folds as sources use by default.
REFERENCE_FOLDS = 5


def run_backtest(
    sources: Mapping[str, tuple[Array, Any]],
    plan: Plan,
    *,
    policy: Policy | None = None,
    losses: LossFunctions | None = None,
    trusted_types: Collection[str] = (),
    given: Given = None,
    space: SpaceFunction | None = None,
    progress: Progress | None = None,
) -> Backtest:
    """Let every source play the target for the others.

    Parameters
    ----------
    sources : mapping of str to (X, y)
        At least two; columns in the order of ``plan.features``, behind them the group if
        ``plan.group`` names one, and the column of predictions if one is judged.
    plan : Plan
        Of the study that is tested. The paper's formulas promise nothing.
    policy : Policy, optional
        Rules of every site; by default none, since one process sees everything anyway.
    losses : mapping of str to function, optional
        Losses of the study that are not built in.
    trusted_types : collection of str, optional
        Types outside scikit-learn that a model may hold.
    given : FittedModel, optional
        The given model, if the study judges one. Nothing is fitted then.
    space : function, optional
        The plan's space, if that is a function.
    progress : function, optional
        Called with the phase, the source and "started" or "done": see `fedcsa.run.Progress`.
    """
    if len(sources) < 2:
        raise must("sources", "at least two, so that one can play the target", len(sources))
    if not plan.examined:
        rule = "'validated' for a back-test: only it promises an interval"
        raise must("method", rule, plan.method)
    # A far site is an ordinary outcome here, not an error: a row without a promise.
    plan = replace(plan, on_no_overlap="predict")
    columns = (*plan.features, *filter(None, (plan.group, given_column(plan.model))))
    common: dict[str, Any] = {
        "policy": policy or Policy.open(),
        "losses": losses,
        "trusted_types": trusted_types,
    }
    sites = [Source(name, *sources[name], features=columns, **common) for name in sorted(sources)]
    rows = []
    for name in sorted(sources):
        others = [site.anew() for site in sites if site.name != name]
        player = Player(name, *sources[name], plan, given=given, space=space, **common)
        rows.append(player.play(others, progress))
    return Backtest(tuple(rows), plan.level, risk_scale(plan))


class Player:
    """A source that plays the target: it tells its Table 1, and keeps its outcomes to itself.

    Parameters
    ----------
    name : str
    X : array of shape (rows, columns)
        The features, behind them the group if ``plan.group`` names one, and the column of
        predictions if one is judged.
    y : array of shape (rows,)
    plan : Plan
        The study's; it is carried out under a name of its own.
    policy : Policy
        The site's own rules.
    losses : mapping of str to function, optional
        Losses of the study that are not built in.
    trusted_types : collection of str, optional
        Types outside scikit-learn that a received model may hold.
    given : FittedModel, optional
        The given model, if the study judges one.
    space : function, optional
        The plan's space, if that is a function.
    """

    def __init__(
        self,
        name: str,
        X: ArrayLike,
        y: Any,
        plan: Plan,
        *,
        policy: Policy,
        losses: LossFunctions | None = None,
        trusted_types: Collection[str] = (),
        given: Given = None,
        space: SpaceFunction | None = None,
    ) -> None:
        self.name, self._space = name, space
        self.plan = replace(plan, study=f"{plan.study}: back-test at {name}"[:200])
        self._policy = policy
        d, column = len(plan.features), bool(given_column(plan.model))
        width = d + bool(plan.group) + column
        rows = as_matrix(X, f"X of source {name!r}", n_columns=width)
        self._X = rows[:, :d]
        self._given = rows[:, -1] if column else given
        self._groups = rows[:, d] if plan.group else None
        self._y = as_outcome(y, plan.classes, f"The outcome of source {name!r}")
        self._loss: Loss = loss_named(plan.loss, own=losses)
        self._loss_name = "" if plan.loss in (losses or {}) else plan.loss
        self._trusted = trusted_types
        self.ledger = Ledger(name, policy)

    def target(self) -> Target:
        """The site as the target, without its outcomes."""
        return Target(
            self._X, self.plan, policy=self._policy, trusted_types=self._trusted,
            given=self._given, space=self._space,
        )  # fmt: skip

    def play(self, others: Sequence[Source], progress: Progress | None = None) -> BacktestRow:
        """What the study of the others promises to this site, and what came of it.

        Parameters
        ----------
        others : sequence of Source
        progress : function, optional
        """
        try:
            adaptation = run_study(self.target(), InProcess(others, progress))
        except FedCSAError as error:
            return BacktestRow(self.name, len(self._X), type(error).__name__)
        self.plan = adaptation.plan  # with the candidates that were asked for
        report = self.report(adaptation)
        lower, upper = adaptation.interval or (None, None)
        return BacktestRow(
            source=self.name,
            n_rows=len(self._X),
            status="not reached" if adaptation.refused else adaptation.verdict.words,
            promised=None if adaptation.promise is None else adaptation.promise.risk,
            lower=lower,
            upper=upper,
            realised=report.realised,
            standard_error=report.standard_error,
            reference=report.reference or None,
            held_for=tuple(report.held_for.tolist()),
            measures=outcomes_of(adaptation.measures, report.measures, adaptation.score_design),
        )

    def report(self, adaptation: Adaptation) -> BacktestReport:
        """The realised risk, its standard error, the risk of a model of its own; who was covered.

        Patients count as covered if their outcome lies in their interval or set. At last every
        measure.
        """
        output = predictions_of(self._given, self._X, len(self.plan.classes))
        if output is None:
            output = adaptation.output(self._X)
        losses = row_losses(self._loss, output, self._y)
        message = BacktestReport(
            study=self.plan.study,
            source=self.name,
            realised=float(losses.mean()),
            standard_error=standard_error(losses, self._loss_name, self._groups),
            reference=self._reference(),
            held_for=adaptation.coverage(self._X, output, self._y),
            measures=realised_rows(
                self.plan,
                adaptation.score_design,
                (self._X, self._y, output),
                source=self.name,
                patients=self._groups,
                min_rows=self._policy.min_cell_rows,
            ),
        )
        return self.ledger.release(message, ["study"])

    def _reference(self) -> float:
        """Smallest cross-validated risk over the candidates, on its own rows alone; 0 for none."""
        plan = self.plan
        if not plan.candidates:  # the model is given
            return 0.0
        # Its rows have no weights: candidates that differ in the power alone are the same.
        plain = [{k: v for k, v in one.items() if k != RATIO_POWER} for one in plan.candidates]
        different = list({to_json(one): one for one in plain}.values())
        model, candidates = instantiate(plan.model, different, len(plan.classes), self._trusted)
        X, ones = self._X, np.ones(len(self._X))
        if plan.scale:  # in units of their own means and sds
            sd = X.std(axis=0)
            X = (X - X.mean(axis=0)) / np.where(sd > 0.0, sd, 1.0)
        rng = generator_for(plan.seed, self.name, "reference")
        n_folds = min(REFERENCE_FOLDS, len(X))
        labels = fold_labels(0, len(X), n_folds, fold_key(rng), self._groups)
        folds = np.unique(labels)
        if len(folds) < 2:  # rows of one patient
            return 0.0
        total = np.zeros(len(candidates))
        for fold in folds:
            here = labels == fold
            path = model.fit(X[~here], self._y[~here], ones[~here], candidates, rng)
            losses, failures = path_losses(path, X[here], self._y[here], self._loss)
            total += losses.sum(axis=0)
            total[list({*failures, *path.failures})] = np.inf
        smallest = float(total.min() / len(X))
        return smallest if np.isfinite(smallest) else 0.0

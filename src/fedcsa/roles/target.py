"""The site without outcomes: it announces, chooses, and combines."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from fedcsa.core.arrays import Array, as_matrix, read_only
from fedcsa.core.embedding import RELEASE_SHARE, MeanEmbedding
from fedcsa.core.ensemble import EnsembleRisk, ensemble_risk, model_weights
from fedcsa.core.medians import MIN_MODELS, MIN_SOURCES, limited
from fedcsa.core.weights import Estimate
from fedcsa.errors import DataError, MessageError, NoSourcesError, must
from fedcsa.findings import Finding
from fedcsa.models.fitted import FittedModel
from fedcsa.protocol.codec import digest, encode
from fedcsa.protocol.fields import Message
from fedcsa.protocol.ledger import Clock, Gate, Ledger, utc_now
from fedcsa.protocol.messages import (
    TARGET,
    Brief,
    ModelReport,
    ModelRequest,
    Refusal,
    RiskReport,
)
from fedcsa.protocol.policy import Policy
from fedcsa.roles.adaptation import Adaptation, unpack, weights_by_rows
from fedcsa.roles.ending import Ending
from fedcsa.roles.estimation import (
    constant_risks,
    eligible,
    estimates,
    prediction_variances,
    source_numbers,
    worth,
)
from fedcsa.roles.judgement import check_model, check_report, judge, refuse_without_overlap
from fedcsa.roles.plan import Plan, instantiate


class Target:
    """The site that wants a model.

    Parameters
    ----------
    X : array of shape (rows, features)
        Columns in the order of ``plan.features``.
    plan : Plan
    policy : Policy, optional
        The site's own rules; by default the strict ones.
    trusted_types : collection of str, optional
        Types outside scikit-learn that a received model may hold.
    clock : function, optional
        Gives the time for the ledger.
    """

    def __init__(
        self,
        X: ArrayLike,
        plan: Plan,
        *,
        policy: Policy | None = None,
        trusted_types: Collection[str] = (),
        clock: Clock = utc_now,
    ) -> None:
        self._X = read_only(as_matrix(X, "X of the target", n_columns=len(plan.features)))
        if (self._X[:1] == self._X).all():
            raise DataError(
                "The target must have at least 2 rows that differ, to say how it varies; it has 1. "
                "Collect more rows."
            )
        # Fails here, before anything is announced, if the model cannot be built.
        instantiate(plan.model, plan.candidates, len(plan.classes), trusted_types)
        self.plan = plan
        self._trusted = tuple(trusted_types)
        self._policy = policy or Policy()
        self.ledger = Ledger(TARGET, clock)
        self._gate = Gate(self._policy, self.ledger)
        self._findings: list[Finding] = []
        self._reports: dict[str, RiskReport] = {}
        self._kept: tuple[int, ...] = ()
        #: The sources that are asked for a model.
        self.asked: list[str] = []
        self._estimates: dict[str, Estimate] = {}

    @property
    def n_rows(self) -> int:
        """n_T."""
        return len(self._X)

    def __repr__(self) -> str:
        return f"Target({len(self._X)} rows, {self._X.shape[1]} features)"

    def brief(self, recipients: Collection[str]) -> Brief:
        """What this site announces to every source."""
        if recipients:  # too few for a median: say so before anyone has computed anything
            self._limit(np.ones(len(recipients)))
        plan, rows = self.plan, self._X
        by_rows = plan.exchange == "rows"
        embedding = MeanEmbedding.of(
            rows,
            kind=plan.ratio.get("basis", "bumps"),
            seed=plan.seed,
            n_features=plan.ratio.get("n_features"),
            bandwidth=plan.ratio.get("bandwidth"),
            public_sd=plan.public_sd,
        )
        basis = embedding.basis
        source_options = {
            key: value
            for key, value in plan.ratio.items()
            if key not in ("basis", "n_features", "bandwidth")
        }
        brief = Brief(
            study=plan.study,
            features=list(plan.features),
            classes=list(plan.classes),
            model=plan.model,
            candidates=list(plan.candidates),
            loss=plan.loss,
            scheme=str(plan.scheme),
            n_folds=plan.n_folds,
            shares=np.array(plan.shares),
            refit=bool(plan.refit),
            scale=plan.scale,
            seed=plan.seed,
            exchange=plan.exchange,
            ratio=source_options,
            n_rows=len(rows),
            mean=basis.mean,
            sd=basis.sd,
            basis="" if by_rows else basis.kind,
            basis_seed=0 if by_rows else basis.seed,
            bandwidth=0.0 if by_rows else basis.bandwidth,
            trace=0.0 if by_rows else embedding.trace,
            embedding=np.empty(0) if by_rows else embedding.mean_features,
            rows=rows if by_rows else np.empty((0, rows.shape[1])),
        )
        self._policy.announce(brief, embedding.n_released)
        if not by_rows and embedding.release_share > RELEASE_SHARE:
            evidence = {"numbers": float(embedding.n_released), "cells": float(rows.size)}
            self._findings.append(Finding("release-budget", evidence=evidence))
        self._brief = self._gate.release(brief, recipients)
        self._brief_digest = digest(encode(self._brief))
        return self._brief

    def choose(self, reports: Mapping[str, Message]) -> ModelRequest:
        """Estimate the risk of every candidate and ask for the best one's models."""
        for name in sorted(reports):
            report = self._expect(name, reports[name], RiskReport, self._brief_digest)
            if isinstance(report, RiskReport):
                check_report(report, self._brief)
                self._reports[name] = report
        if not self._reports:
            raise NoSourcesError(
                f"At least one source must report; {len(reports)} were asked and all refused. "
                "Their policies must allow the study: fedcsa check tells what they would refuse."
            )
        self._limit(np.ones(len(self._reports)))  # too few for a median: before anyone sends more
        self._kept = eligible(self.plan, self._reports)
        self._estimates = estimates(self.plan, self._reports, self._kept)
        chosen = self._kept[self._estimates[self.plan.method].chosen]
        request = ModelRequest(self.plan.study, self._brief_digest, chosen)
        # Where it failed there is no model to ask for.
        self.asked = [
            n for n in sorted(self._reports) if str(chosen) not in self._reports[n].failed
        ]
        self._request = self._gate.release(request, self.asked)
        return self._request

    def conclude(self, models: Mapping[str, Message]) -> Adaptation:
        """Combine the sources' models into the target's own."""
        expected = digest(encode(self._request))
        sent: dict[str, ModelReport] = {}
        for name in self.asked:
            report = self._expect(name, models.get(name), ModelReport, expected)
            if isinstance(report, ModelReport):
                if report.candidate != self._request.candidate:
                    raise MessageError(f"Source {name!r} must send the candidate asked for.")
                check_model(report, self._brief, self._reports[name])
                sent[name] = report
        if not sent:
            raise NoSourcesError(
                "At least one source must send its model; all refused. Ask their stewards why."
            )
        fitted = {name: unpack(sent[name], self.plan, self._trusted) for name in sent}
        weights, risk, by_rows = self._weigh(fitted, prediction_variances(sent))
        adaptation = Adaptation(
            plan=self.plan,
            kept=self._kept,
            estimates=self._estimates,
            reports=dict(self._reports),
            model_reports=sent,
            models=fitted,
            source_weights=dict(zip(sorted(fitted), weights.tolist(), strict=True)),
            mean=self._brief.mean,
            sd=self._brief.sd,
            n_target_rows=len(self._X),
            constant_risks=constant_risks(self.plan, self._reports),
            risk=risk,
            by_rows=by_rows,
            ledgers={TARGET: tuple(self.ledger.entries)},
        )
        judged = replace(adaptation, findings=(*self._findings, *judge(adaptation)))
        self._findings = list(judged.findings)
        refuse_without_overlap(judged)
        return judged

    def ending(self, rule: str, text: str) -> Ending:
        """What this site knows of a study that ended without a model, and why."""
        return Ending(
            plan=self.plan,
            rule=rule,
            text=text,
            n_target_rows=len(self._X),
            reports=dict(self._reports),
            findings=tuple(self._findings),
            ledgers={TARGET: tuple(self.ledger.entries)},
        )

    def _weigh(
        self, models: Mapping[str, FittedModel], noise: Array | None
    ) -> tuple[Array, EnsembleRisk | None, EnsembleRisk | None]:
        """Weights of the models in alphabetical order; under the guarded method, their risk."""
        plan, names = self.plan, sorted(models)
        if plan.method != "guarded":
            position = {name: index for index, name in enumerate(sorted(self._reports))}
            given = self._estimates[plan.method].source_weights[[position[n] for n in names]]
            if given.sum() <= 0.0:
                raise NoSourcesError(
                    "The sources that sent a model have no weight at all; one must. "
                    "Look for a source whose rows resemble the target's."
                )
            return self._limit(given / given.sum(), MIN_MODELS), None, None
        reports = {name: self._reports[name] for name in names}
        by_rows = weights_by_rows([reports[name] for name in names], plan.combine)
        value = worth(reports)
        if value.sum() <= 0.0:
            value = by_rows
        seen = (self._X - self._brief.mean) / self._brief.sd if plan.scale else self._X
        outputs = np.stack([models[name].predict(seen) for name in names], axis=1)
        numbers = source_numbers(reports, self._request.candidate)
        weights = self._limit(model_weights(value, outputs), MIN_MODELS)

        def risk_of(a: Array) -> EnsembleRisk:
            return ensemble_risk(numbers, a, outputs, plan.loss, plan.level, noise, plan.combine)

        return weights, risk_of(weights), risk_of(by_rows)

    def _limit(self, weights: Array, fewest: int = MIN_SOURCES) -> Array:
        if self.plan.combine == "median" and len(weights) < fewest:
            raise must("combine", f"'mean' with fewer than {fewest} sources", "median")
        return limited(weights, self.plan.combine)

    # The pieces -----------------------------------------------------------------------------

    def _expect(
        self, name: str, message: Message | None, kind: type[Message], in_reply_to: str
    ) -> Message:
        if isinstance(message, Refusal):
            self._check_reply(name, message.source, message.in_reply_to, in_reply_to)
            evidence = {"rule": message.rule[:60]}
            self._findings.append(Finding("source-refused", name, evidence))
            return message
        if not isinstance(message, kind):
            got = "nothing" if message is None else f"a {message.name}"
            raise MessageError(f"Source {name!r} must answer with a {kind.name}; {got} came.")
        assert isinstance(message, RiskReport | ModelReport)  # noqa: S101 - for the type checker
        self._check_reply(name, message.source, message.in_reply_to, in_reply_to)
        return message

    def _check_reply(self, name: str, source: str, replied: str, asked: str) -> None:
        if source != name or replied != asked:
            raise MessageError(
                f"The answer of source {name!r} must be its own, and to this very question."
            )

"""The site without outcomes: it announces, chooses, mixes, and lets the others examine."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fedcsa.core.arrays import Array, as_matrix, read_only
from fedcsa.core.table import Table1
from fedcsa.core.weights import MEDIAN_MODELS, MEDIAN_SOURCES, Estimate, limited, model_weights
from fedcsa.errors import DataError, MessageError, NoSourcesError, PolicyError, must
from fedcsa.findings import Finding
from fedcsa.messages.codec import digest, encode
from fedcsa.messages.fields import Message
from fedcsa.messages.ledger import Clock, Ledger, utc_now
from fedcsa.messages.messages import (
    TARGET,
    Brief,
    Examination,
    ExaminationReport,
    ModelReport,
    ModelRequest,
    Refusal,
    RiskReport,
)
from fedcsa.messages.policy import Policy
from fedcsa.models.fitted import FittedModel
from fedcsa.plan import Plan, instantiate
from fedcsa.target.accept import accept_examination, accept_model, accept_report
from fedcsa.target.adaptation import Adaptation, Stopped
from fedcsa.target.conclude import findings_of, refuse_without_overlap
from fedcsa.target.estimate import (
    eligible,
    estimates,
    examination_for,
    fitted_model,
    reaches,
    worth,
)
from fedcsa.target.promise import promise_of

#: Fewer patients with a flag or a level are named.
SMALL_LEVEL = 5


Answer = TypeVar("Answer", RiskReport, ModelReport, ExaminationReport)


class Target:
    """The site that wants a model.

    Parameters
    ----------
    X : array of shape (rows, features), or Table1
        Its rows, columns in the order of ``plan.features``; or only their Table 1.
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
        X: ArrayLike | Table1,
        plan: Plan,
        *,
        policy: Policy | None = None,
        trusted_types: Collection[str] = (),
        clock: Clock = utc_now,
    ) -> None:
        self.plan = plan
        self._trusted = tuple(trusted_types)
        self._policy = policy or Policy()
        self._X: Array | None = None
        if isinstance(X, Table1):
            self.table = _fitting(X, plan)
        else:
            rows: Array = read_only(as_matrix(X, "X of the target", n_columns=len(plan.features)))
            if (rows[:1] == rows).all():
                raise DataError(
                    "The target must have at least 2 rows that differ, to say how it varies; it "
                    "has 1. Collect more rows."
                )
            self._X = rows
            self.table = Table1.of(rows, plan.features, plan.flags, plan.public_sd)
            if plan.exchange == "rows":
                self.table = _exact(rows, plan)
        # Fails here, before anything is announced, if the model cannot be built.
        instantiate(plan.model, plan.candidates, len(plan.classes), trusted_types)
        self.ledger = Ledger(TARGET, self._policy, clock)
        self._findings: list[Finding] = []
        self._reports: dict[str, RiskReport] = {}
        self._sent: dict[str, ModelReport] = {}
        self._models: dict[str, FittedModel] = {}
        self._weights: dict[str, float] = {}
        #: The sources that are asked for a model.
        self.asked: list[str] = []
        self._examinations: dict[str, Examination] = {}

    @property
    def n_rows(self) -> int:
        """n_T, as it is told."""
        return self.table.n_rows

    def __repr__(self) -> str:
        return f"Target({self.n_rows} rows, {len(self.plan.features)} features)"

    # What it announces --------------------------------------------------------------------

    def brief(self, recipients: Collection[str]) -> Brief:
        """What this site announces to every source."""
        if recipients:  # say so before anyone has computed anything
            self._require_enough(len(recipients), MEDIAN_SOURCES)
        plan, table, none = self.plan, self.table, np.empty((0, 0))
        by_rows = plan.exchange == "rows"
        brief = Brief(
            **plan.design(),
            n_rows=table.n_rows,
            mean=table.mean,
            sd=table.sd,
            correlations=none if table.correlations is None else table.correlations,
            rows=self._X if by_rows and self._X is not None else np.empty((0, len(table.mean))),
        )
        fewest = self.fewest
        for refusal in self._policy.announcement_refusals(brief, fewest):
            raise refusal
        if not by_rows and fewest is not None and fewest < SMALL_LEVEL:
            self._findings.append(Finding("small-level", evidence={"patients": float(fewest)}))
        self._brief = self.ledger.release(brief, recipients)
        self._brief_digest = digest(encode(self._brief))
        return self._brief

    @property
    def fewest(self) -> int | None:
        """How many patients have, or lack, the rarest flag or level that some have.

        None if there is no flag and no level, or only a table.
        """
        if self._X is None:
            return None
        n, flags = len(self._X), dict[str, float]()
        first = dict[str, float]()  # of a column of levels, those who have none of the others
        counts = self._X.sum(axis=0)
        for name, flag, count in zip(self.plan.features, self.plan.flags, counts, strict=True):
            if flag:
                column = name.partition("=")[0]
                flags[name], first[column] = count, first.get(column, float(n)) - count
        each = (min(count, n - count) for count in (*flags.values(), *first.values()))
        return min((int(count) for count in each if count > 0), default=None)

    # What it chooses ------------------------------------------------------------------------

    def choose(self, reports: Mapping[str, Message]) -> ModelRequest:
        """Estimate the risk of every candidate and ask for the best one's models."""
        for name in sorted(reports):
            report = self._expect(name, reports[name], RiskReport, self._brief_digest)
            if report is not None:
                accept_report(report, self._brief)
                self._reports[name] = report
        if not self._reports:
            raise NoSourcesError(
                f"At least one source must report; {len(reports)} were asked and all refused. "
                "Their policies must allow the study: fedcsa check tells what they would refuse."
            )
        self._require_enough(len(self._reports), MEDIAN_SOURCES)  # before anyone sends more
        self._kept = eligible(self.plan, self._reports)
        self._estimates = estimates(self.plan, self._reports, self._kept)
        chosen = self._kept[self._estimates[self.plan.method].chosen]
        request = ModelRequest(self.plan.study, self._brief_digest, chosen)
        # Where it failed there is no model to ask for.
        self.asked = [
            n for n in sorted(self._reports) if str(chosen) not in self._reports[n].failed
        ]
        self._request = self.ledger.release(request, self.asked)
        return self._request

    # What it mixes --------------------------------------------------------------------------

    def mix(self, models: Mapping[str, Message]) -> dict[str, Examination]:
        """Weigh the models; what every source that reported is asked to examine."""
        expected = digest(encode(self._request))
        for name in self.asked:
            report = self._expect(name, models.get(name), ModelReport, expected)
            if report is not None:
                accept_model(report, self._brief, self._reports[name], self._request.candidate)
                self._sent[name] = report
        if not self._sent:
            raise NoSourcesError(
                "At least one source must send its model; all refused. Ask their stewards why."
            )
        self._models = {
            name: fitted_model(self._sent[name], self.plan, self._trusted) for name in self._sent
        }
        self._leave_out_unable()
        self._weights = self._weigh()
        if self.plan.method != "validated":
            return {}
        asked = {}
        for name in sorted(self._reports):
            examination = examination_for(
                name, self._request, self.plan, self._weights, self._models, self._reports
            )
            try:
                asked[name] = self.ledger.release(examination, [name])
            except PolicyError as error:
                self._findings.append(Finding("not-examined", name, {"reason": error.rule}))
        self._examinations = asked
        return asked

    @property
    def _seen(self) -> Array | None:
        """The target's rows as the models see them."""
        if self._X is None or not self.plan.scale:
            return self._X
        return (self._X - self.table.mean) / self.table.sd

    def _leave_out_unable(self) -> None:
        """A model may know nothing of a level that the target has: then it has no part."""
        seen = self._seen
        if seen is None:
            return
        for name in sorted(self._models):
            try:
                able = bool(np.isfinite(self._models[name].predict(seen)).all())
                reason = "NonFinitePrediction"
            except Exception as error:  # its text may quote a cell
                able, reason = False, type(error).__name__
            if not able:
                evidence = {"candidates": 1.0, "of": float(len(self.plan.candidates))}
                self._findings.append(
                    Finding("candidate-failed", name, {**evidence, "reason": reason})
                )
                del self._models[name], self._sent[name]
        if not self._models:
            raise NoSourcesError(
                "At least one model must be able to predict the target's rows; all fail on them. "
                "Check that the sources have every level that the target has."
            )

    def _weigh(self) -> dict[str, float]:
        """Weight a_j of every model: the paper's, or by worth and by how far it is from others."""
        names = sorted(self._models)
        if self.plan.method != "validated":
            position = {name: index for index, name in enumerate(sorted(self._reports))}
            given = self._estimates[self.plan.method].source_weights
            a = given[[position[name] for name in names]]
            if a.sum() <= 0.0:
                raise NoSourcesError(
                    "Every source that sent a model has weight zero, so the models cannot be "
                    "combined. Look for a source whose rows resemble the target's."
                )
            return self._shares(names, a / a.sum())
        shown = [name for name in names if self._sent[name].show]
        if not shown:
            raise NoSourcesError(
                "At least one model must be shown to the other sources, so that they can examine "
                "it; no site allows that. Ask their stewards."
            )
        value = worth({name: self._reports[name] for name in shown})
        a = value / value.sum()
        seen = self._seen
        if seen is not None:
            outputs = np.stack([self._models[name].predict(seen) for name in shown], axis=1)
            a = model_weights(value, outputs)
        return {**dict.fromkeys(names, 0.0), **self._shares(shown, a)}

    def _shares(self, names: Sequence[str], weights: Array) -> dict[str, float]:
        """The weights by name, none too large for a median."""
        self._require_enough(len(names), MEDIAN_MODELS)
        return dict(zip(names, limited(weights, self.plan.combine).tolist(), strict=True))

    def _require_enough(self, n_sources: int, fewest: int) -> None:
        """Raise if there are too few sources for a median."""
        if self.plan.combine == "median" and n_sources < fewest:
            raise must("combine", f"'mean' with fewer than {fewest} sources", "median")

    # What it concludes ----------------------------------------------------------------------

    def conclude(self, found: Mapping[str, Message]) -> Adaptation:
        """The promise and the verdict, from what the sources found of the others' mixture."""
        examined: dict[str, ExaminationReport] = {}
        for name, asked in self._examinations.items():
            if found.get(name) is None:  # it died or was late: the others' word stands
                self._findings.append(Finding("not-examined", name, {"reason": "missing"}))
                continue
            report = self._expect(name, found[name], ExaminationReport, digest(encode(asked)))
            if report is not None:
                accept_examination(report, self._brief)
                examined[name] = report
        promise = promise_of(
            {name: item for name, item in examined.items() if reaches(self._reports[name])},
            self._weights,
            self.plan,
            self.n_rows,
        )
        adaptation = self._answer(
            kept=self._kept,
            estimates=self._estimates,
            model_reports=dict(self._sent),
            models=dict(self._models),
            source_weights=dict(self._weights),
            examinations=examined,
            promise=promise,
        )
        if adaptation.refused:  # a number would be believed
            adaptation = replace(adaptation, promise=None)
        self._findings += findings_of(adaptation)
        refuse_without_overlap(adaptation)
        return replace(adaptation, findings=tuple(self._findings))

    def without_model(self, rule: str, text: str) -> Adaptation:
        """What this site knows of a study that stopped before it had a model.

        Parameters
        ----------
        rule : str
            The word for why it stopped.
        text : str
            The same as a sentence.
        """
        return self._answer(stopped=Stopped(rule, text), findings=tuple(self._findings))

    def _answer(self, **known: Any) -> Adaptation:
        return Adaptation(
            plan=self.plan,
            table=self.table,
            reports=dict(self._reports),
            ledgers={TARGET: tuple(self.ledger.entries)},
            **known,
        )

    # The pieces -----------------------------------------------------------------------------

    def _expect(
        self, name: str, message: Message | None, kind: type[Answer], in_reply_to: str
    ) -> Answer | None:
        """The answer of a source, if it is one to this question; None if it refused.

        Parameters
        ----------
        name : str
            Of the source.
        message : Message or None
            What came.
        kind : type
            What was asked for.
        in_reply_to : str
            Digest of the question.
        """
        if not isinstance(message, Refusal | kind):
            got = "nothing" if message is None else f"a {message.name}"
            raise MessageError(f"Source {name!r} must answer with a {kind.name}; {got} came.")
        if message.source != name or message.in_reply_to != in_reply_to:
            raise MessageError(
                f"The answer of source {name!r} must be its own, and to this very question."
            )
        if not isinstance(message, Refusal):
            return message
        rule = message.rule[:60]
        if kind is ExaminationReport:
            self._findings.append(Finding("not-examined", name, {"reason": rule}))
        else:
            self._findings.append(Finding("source-refused", name, {"rule": rule}))
        return None

    _brief: Brief
    _brief_digest: str
    _request: ModelRequest
    _kept: tuple[int, ...]
    _estimates: dict[str, Estimate]


def _fitting(table: Table1, plan: Plan) -> Table1:
    """The table with the columns of `plan` in its order."""
    if plan.exchange == "rows":
        raise must("X_target", "rows with exchange='rows'", "a table")
    missing = [name for name in plan.features if name not in table.features]
    if missing or len(table.features) != len(plan.features):
        raise DataError(
            f"The target's table must have the study's {len(plan.features)} features, and no "
            f"others; missing: {', '.join(map(repr, missing[:5])) or 'none'}."
        )
    order = [table.features.index(name) for name in plan.features]
    flags = tuple(table.flags[k] for k in order)
    if flags != plan.flags:
        raise DataError("The target's table must call the same features flags as the study does.")
    told = table.correlations
    return Table1(
        table.n_rows,
        plan.features,
        flags,
        table.mean[order],
        table.sd[order],
        None if told is None else told[np.ix_(order, order)],
    )


def _exact(rows: Array, plan: Plan) -> Table1:
    """Means and sds as they are, where the target tells its rows anyway."""
    sd = rows.std(axis=0)
    sd = np.where((np.ptp(rows, axis=0) > 0.0) & (sd > 0.0), sd, 1.0)
    return Table1(len(rows), plan.features, (False,) * len(plan.features), rows.mean(axis=0), sd)

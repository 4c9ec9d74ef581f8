"""The site without outcomes: it announces, chooses, mixes, and lets the others examine."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, compress
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from fedcsa.core.arrays import Array
from fedcsa.core.batches import RowBatches
from fedcsa.core.scores import OwnScores
from fedcsa.core.subgroups import members_of_subgroups
from fedcsa.core.table import Table1
from fedcsa.core.weights import (
    MAX_WEIGHT,
    MEDIAN_MODELS,
    MEDIAN_SOURCES,
    Estimate,
    capped,
    model_weights,
)
from fedcsa.errors import MessageError, NoSourcesError, ParameterError, ProtocolError
from fedcsa.findings import Finding, rules_named
from fedcsa.messages.codec import digest_of
from fedcsa.messages.fields import Message
from fedcsa.messages.messages import (
    TARGET,
    Brief,
    Examination,
    ExaminationReport,
    ModelReport,
    ModelRequest,
    MoreCandidates,
    Refusal,
)
from fedcsa.messages.policy import Clock, Ledger, Policy, utc_now
from fedcsa.models.description import GIVEN, Candidate
from fedcsa.models.fitted import FittedModel
from fedcsa.models.registry import instantiate
from fedcsa.models.space import SpaceFunction
from fedcsa.plan import Plan
from fedcsa.target.accept import Refuse, accept, open_models, raise_refusal
from fedcsa.target.adaptation import Adaptation, Concluded, Stopped
from fedcsa.target.conclude import no_overlap
from fedcsa.target.estimate import (
    MOSTLY_OWN,
    Reported,
    among,
    combine,
    eligible,
    estimates,
    examinations,
    outcome_means,
    require_median,
    score_design,
    useless_models,
    with_weight,
)
from fedcsa.target.judge_given import (
    Given,
    check_target_has,
    evidence_shares,
    examinations_of_given,
    predictions_of,
    report_of_given,
)
from fedcsa.target.search import RULE, CandidateRounds, joined
from fedcsa.target.target_rows import (
    SMALL_LEVEL,
    joined_scores,
    merged_bins,
    rows_and_table,
    small_levels,
)
from fedcsa.target.verdict import held_down

#: The rule that is named where nothing came.
NOTHING_CAME = "no_answer"
#: And where an answer came that no honest source sends.
NOT_ACCEPTED = MessageError.rule
#: What is found where a source refuses a question, and what its rule is called; a round of a search
#: has words of its own.
REFUSED: Mapping[type[Message], tuple[str, str]] = {
    Brief: ("source-refused", "rule"), ModelRequest: ("model-withheld", "rule"),
    Examination: ("not-examined", "reason"),
}  # fmt: skip


class Target:
    """The site that wants a model.

    Parameters
    ----------
    X : array of shape (rows, features), RowBatches or Table1
        Its rows, columns in the order of ``plan.features``, held or in batches; or only their
        Table 1.
    plan : Plan
    policy : Policy, optional
        The site's own rules; by default the strict ones.
    told : Table1, optional
        A table of nearly these rows that was told before, in the order of ``plan.features``: it
        is told again in place of a new one.
    trusted_types : collection of str, optional
        Classes outside scikit-learn that the study's model may use, in one process.
    clock : function, optional
        Gives the time for the ledger.
    given : FittedModel or array of shape (rows,), optional
        The given model that is judged; or, where that is a column of predictions, this site's own.
    min_sources : int
        With fewer reports or models there is no answer.
    space : function, optional
        The plan's space, if that is a function.
    earlier : sequence of lists of candidates
        What was asked for in the rounds of a search before it was interrupted.
    refuse : function, optional
        Called with the name of a source whose answer is not accepted, and the error; then the
        study goes on without that answer. By default the error is raised.
    """

    def __init__(
        self,
        X: ArrayLike | RowBatches | Table1,
        plan: Plan,
        *,
        policy: Policy | None = None,
        told: Table1 | None = None,
        trusted_types: Collection[str] = (),
        clock: Clock = utc_now,
        given: Given = None,
        min_sources: int = 1,
        space: SpaceFunction | None = None,
        earlier: Sequence[list[Candidate]] = (),
        refuse: Refuse = raise_refusal,
    ) -> None:
        self.plan = plan
        self._min_sources = min_sources
        self._refuse = refuse
        self._policy = policy or Policy()
        self._rows, table = rows_and_table(X, plan, self._policy.min_level_rows)
        self.table = table if told is None else told
        # Fails here, before anything is announced, if the model cannot be built.
        if plan.candidates:
            instantiate(plan.model, plan.candidates, len(plan.classes), trusted_types)
        #: Of a search; None if candidates are listed.
        self._rounds = CandidateRounds(plan, self._policy, space, earlier) if plan.space else None
        self._given = given
        self.ledger = Ledger(TARGET, self._policy, clock)
        self._findings: list[Finding] = []
        self._reported = Reported.of({})
        self._sent: dict[str, ModelReport] = {}
        #: Answers to the examination that were accepted.
        self._honest: dict[str, ExaminationReport] = {}
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
        if problems := self.plan.source_problems(recipients):  # before anyone has computed anything
            raise ParameterError("\n".join(problems))
        if recipients and (self._given is not None or self.plan.method == GIVEN):
            self.check_given()
        if self._rounds is not None:
            self.plan = self._rounds.begin()
        plan, table, none = self.plan, self.table, np.empty((0, 0))
        by_rows = plan.exchange == "rows"
        brief = Brief(
            **plan.design(),
            n_rows=table.n_rows,
            mean=table.mean,
            sd=table.sd,
            correlations=none if table.correlations is None else table.correlations,
            rows=self._rows.sample if by_rows and self._rows else np.empty((0, len(table.mean))),
        )
        for refusal in self._policy.announcement_refusals(brief):
            raise refusal
        tells_few = not by_rows and self._policy.min_level_rows < SMALL_LEVEL
        if tells_few and self._rows and any(plan.flags):
            self._findings += small_levels(self._rows.moments, plan)
        self._brief = self.ledger.release(brief, recipients)
        self._more = None
        return self._brief

    def check_given(self) -> None:
        """Raise unless this site has the given model that was agreed, and it can predict here."""
        if self._rows is None:
            check_target_has(self._given, self.plan, None)
            return
        if isinstance(self._given, np.ndarray) and len(self._given) != self._rows.moments.n_rows:
            check_target_has(self._given, self.plan, np.empty((0, 0)))  # one a row, it says
        for X, given in self._with_given():
            check_target_has(given, self.plan, X)

    def _with_given(self) -> Iterator[tuple[Array, Given]]:
        """The rows in batches, and what is given for them: a model, or their own predictions."""
        first, given = 0, self._given
        for X in self._rows.batches if self._rows else ():
            own = given[first : first + len(X)] if isinstance(given, np.ndarray) else given
            yield X, own
            first += len(X)

    # What it chooses ------------------------------------------------------------------------

    def choose(self, reports: Mapping[str, Message]) -> ModelRequest | MoreCandidates:
        """Estimate the risk of every candidate; ask for more, or for the best one's models."""
        if self._more is None:
            self._reported = Reported.of(self._accepted(self._brief, reports)[0])
        else:
            self._take_round(self._more, reports)
        names = self._reported.names
        if len(names) < self._min_sources:
            raise NoSourcesError(
                f"{len(names)} of {len(reports)} answers were reports; the study needs at "
                f"least {self._min_sources}. {rules_named(self._findings)}"
            )
        if self.plan.method == GIVEN:  # there is nothing to choose, and nobody is asked
            self._kept, self._estimates, self.asked = (), {}, []
            self._request = ModelRequest(self.plan.study, digest_of(self._brief), 0)
            return self._request
        if self.plan.combine == "median":  # before anyone sends more
            require_median(len(names), MEDIAN_SOURCES)
        if self._rounds is not None:
            candidates = self._rounds.more(self._reported)
            self.plan = self._rounds.plan
            if candidates:
                told = (self.plan.study, digest_of(self._brief), self.n_rounds, candidates)
                self._more, self.asked = MoreCandidates(*told), list(names)
                return self.ledger.release(self._more, self.asked)
            self._findings += self._rounds.findings()
        self._kept = eligible(self.plan, self._reported)
        self._estimates = estimates(self.plan, self._reported, self._kept)
        chosen = self._kept[self._estimates[self.plan.method].chosen]
        request = ModelRequest(self.plan.study, digest_of(self._brief), chosen)
        # Where it failed there is no model to ask for.
        self.asked = list(compress(names, self._reported.fitted[chosen]))
        self._request = self.ledger.release(request, self.asked)
        return self._request

    def _take_round(self, question: MoreCandidates, answers: Mapping[str, Message]) -> None:
        """Take the reports of a later round of a search; who sends none leaves the study.

        Parameters
        ----------
        question : MoreCandidates
        answers : mapping of str to Message
        """
        before = self._reported.reports
        came = {name: answer for name, answer in answers.items() if name in before}
        reports, refusals = self._accepted(question, came)
        taken = {name: joined(before[name], report) for name, report in reports.items()}
        rules = dict.fromkeys(sorted(came.keys() - taken), NOT_ACCEPTED) | refusals
        refused = [name for name, rule in rules.items() if rule == RULE]
        fewest = max(self._min_sources, MEDIAN_SOURCES if self.plan.combine == "median" else 1)
        assert self._rounds is not None  # noqa: S101 - there was a round before
        if refused and len(taken) < fewest:  # what was told before stands; that was all
            self._rounds.undo(refused)
            self.plan, taken = self._rounds.plan, dict(before)
        for name in sorted(before.keys() - taken):
            rule = rules.get(name, NOTHING_CAME)
            evidence: dict[str, float | str] = {"round": float(self.n_rounds), "rule": rule}
            self._findings.append(Finding("left-search", name, evidence))
        self._reported = Reported.of(taken)

    @property
    def n_rounds(self) -> int:
        """How many rounds of candidates were asked for."""
        return 1 if self._rounds is None else len(self._rounds.sizes)

    @property
    def progress(self) -> str:
        """How far a search has come, in words; empty if candidates are listed."""
        return "" if self._rounds is None else self._rounds.words(self._reported)

    # What it mixes --------------------------------------------------------------------------

    def mix(self, models: Mapping[str, Message]) -> dict[str, Examination]:
        """Weigh the models; what every source that reported is asked to examine.

        Parameters
        ----------
        models : mapping of str to Message
            By source; whoever is not among them sent nothing.
        """
        if self.plan.method == GIVEN:
            return self._ask_to_examine(self._reported.names)
        told = {name: models[name] for name in self.asked if name in models}
        sent, withheld = self._accepted(self._request, told)
        rows: Iterable[Array] = [self.table.mean[None]]
        if self._rows is not None:
            rows = [self._rows.sample]
            if len(self._rows.sample) < self._rows.moments.n_rows:
                rows = chain(rows, self._rows.batches)
        seen = map(self._in_units, rows)
        opened = open_models(sent, self._reported, self.plan, seen, self.table.sd)
        self._models, unable, refused = opened
        self._sent = {name: sent[name] for name in self._models}
        for name, error in refused.items():
            self._refuse(name, error)
        for name, reason in unable.items():
            evidence = {"candidates": 1.0, "of": float(len(self.plan.candidates))}
            self._findings.append(Finding("candidate-failed", name, {**evidence, "reason": reason}))
        came = len(sent) - len(refused)
        if came < self._min_sources:
            raise NoSourcesError(
                f"{came} of {len(self.asked)} sources sent a model; the study needs at least "
                f"{self._min_sources}. {rules_named(self._findings)}"
            )
        if not self._models:
            raise NoSourcesError(
                "At least one model must be able to predict the target's rows; all fail on them. "
                "Check that the sources have every level that the target has."
            )
        missing = set(self.asked) - (sent.keys() - refused) - withheld.keys()
        if missing:
            self._go_on_without(missing)
        self._weights = self._weigh()
        if not self.plan.examined:
            return {}
        return self._ask_to_examine(set(self._reported.names) - missing)

    def _ask_to_examine(
        self, names: Collection[str], *, again: bool = False
    ) -> dict[str, Examination]:
        """The mixture as every source in `names` is asked to examine it.

        Parameters
        ----------
        names : collection of str
        again : bool
            Whether they examined another one before.
        """
        outcomes = outcome_means(self._reported, self.plan.loss)
        design = score_design(self.plan, self._reported)
        if self.plan.method == GIVEN:
            self._weights = evidence_shares(self._reported)
            report = report_of_given(self._given, self.plan)
            if report is not None:
                self._sent, self._models = {GIVEN: report}, {GIVEN: self._given}  # type: ignore[dict-item]
            questions = examinations_of_given(
                names, self._request, self.plan, self._weights, self._models.get(GIVEN),
                outcomes, design,
            )  # fmt: skip
        else:
            questions = examinations(
                names, self._request, self.plan, self._weights, self._models, outcomes, design,
                again=again,
            )  # fmt: skip
        self._examinations, self._honest = {}, {}
        for name, asked in questions:
            if isinstance(asked, MessageError):
                self._findings.append(Finding("not-examined", name, {"reason": "too_large"}))
            else:
                self._examinations[name] = self.ledger.release(asked, [name])
        return dict(self._examinations)

    def _go_on_without(self, missing: Collection[str]) -> None:
        """As if sources that sent neither model nor refusal had never been there.

        Only if without them another candidate would have been chosen, their reports count.
        """
        reports = self._reported.reports
        kept = Reported.of({name: reports[name] for name in reports.keys() - missing})
        if len(kept.names) >= MEDIAN_SOURCES or self.plan.combine == "mean":
            candidates = eligible(self.plan, kept)
            found = estimates(self.plan, kept, candidates)
            if candidates[found[self.plan.method].chosen] == self._request.candidate:
                self._reported, self._kept, self._estimates = kept, candidates, found
                return
        for name in sorted(missing):
            self._findings.append(Finding("model-withheld", name, {"rule": NOTHING_CAME}))

    def _in_units(self, rows: Array) -> Array:
        """Rows as the models see them."""
        return (rows - self.table.mean) / self.table.sd if self.plan.scale else rows

    def _weigh(self, without: Collection[str] = ()) -> dict[str, float]:
        """a_j of every model: the method's weights α_j; by default its worth m_j, and see below.

        By default no model has weight that the other sources may not examine, and one far from
        the others has less, see `model_weights`. Under a median no weight exceeds a third.

        Parameters
        ----------
        without : collection of str
            Sources whose model gets no weight.
        """
        by_worth, median = self.plan.method == "validated", self.plan.combine == "median"
        names = every = sorted(self._models)
        if by_worth:
            names = [name for name in every if self._sent[name].show and name not in without]
        if median:
            require_median(len(names), MEDIAN_MODELS)
        if not names:
            raise NoSourcesError(
                "At least one model must be shown to the other sources, so that they can examine "
                "it; no site allows that. Ask their stewards."
            )
        found = self._estimates[self.plan.method]
        claimed = self._reported.worth if by_worth else found.source_weights
        value = claimed[among(self._reported.names, names)]
        if value.sum() <= 0.0:
            raise NoSourcesError(
                "Every source that sent a model has weight zero, so the models cannot be "
                "combined. Look for a source whose rows resemble the target's."
            )
        a = value / value.sum()
        if by_worth and self._rows is not None:
            seen = self._in_units(self._rows.sample)
            outputs = np.stack([self._models[name].predict(seen) for name in names], axis=1)
            a = model_weights(value, outputs)
        a = capped(a, MAX_WEIGHT) if median else a
        return dict.fromkeys(every, 0.0) | dict(zip(names, a.tolist(), strict=True))

    # What it concludes ----------------------------------------------------------------------

    def examine_again(self, found: Mapping[str, Message]) -> dict[str, Examination]:
        """What the sources are asked to examine instead, if they found models useless; once.

        A model that the others find useless gets no weight, whatever its owner says; where sites
        differ, one with more than half gets less, whatever rows its owner claims. Where there is
        neither, nothing is asked, and `conclude` takes what was found.

        Parameters
        ----------
        found : mapping of str to Message
            Answers to the first examination, by source.
        """
        if not self._kept:  # the model is given
            return {}
        near: dict[str, ExaminationReport] = {}
        for name, asked in self._examinations.items():
            if asked.again:
                return {}
            if isinstance(report := found.get(name), ExaminationReport):
                # `conclude` says what cannot be honest, if nobody is asked again.
                honest = self._accepted(asked, {name: report}, quietly=True)[0]
                self._honest |= honest
                near |= honest if name in self._reported.reaching else {}
        useless = useless_models(near, self._weights)
        if self.plan.combine == "median":
            shown = sum(self._sent[name].show for name in self._models)
            if shown - len(useless) < MEDIAN_MODELS:
                return {}
        weights = self._weigh(useless) if useless else self._weights
        told: list[Finding] = []
        if max(weights.values()) > MOSTLY_OWN:
            weights, told = held_down(weights, near, self._weights, self.plan, self.n_rows)
        if weights == self._weights:
            return {}
        self._findings += [Finding("useless-model", name, why) for name, why in useless.items()]
        self._findings += told
        self._weights = weights
        return self._ask_to_examine(self._honest, again=True)

    def conclude(self, found: Mapping[str, Message]) -> Adaptation:
        """The promise and the verdict, from what the sources found of the others' mixture."""
        examined: dict[str, ExaminationReport] = {}
        for name, asked in self._examinations.items():
            if found.get(name) is None:  # it died or was late: the others' word stands
                self._findings.append(Finding("not-examined", name, {"reason": "missing"}))
                continue
            examined |= self._accepted(asked, {name: found[name]})[0]
        adaptation = Adaptation(
            plan=self.plan,
            table=self.table,
            reports=dict(self._reported.reports),
            rounds=tuple(self._rounds.sizes) if self._rounds else (len(self.plan.candidates),),
            ledgers={TARGET: tuple(self.ledger.entries)},
            kept=self._kept,
            estimates=self._estimates,
            model_reports=dict(self._sent),
            models=dict(self._models),
            source_weights=dict(self._weights),
            examinations=examined,
            own_scores=self._own_scores(),
            noted=tuple(self._findings),
        )
        if adaptation.refused and self.plan.on_no_overlap != "predict":
            self._findings = list(adaptation.findings)
            raise no_overlap(adaptation)
        return adaptation

    def _own_scores(self) -> OwnScores | None:
        """How this site's own rows spread over the model's scores, if it has rows."""
        plan, table, given = self.plan, self.table, self.plan.method == GIVEN
        known = self._given is not None if given else bool(self._models)
        if self._rows is None or not known or not plan.examined:
            return None
        design, parts, inside = score_design(plan, self._reported), [], None
        _, members, a = with_weight(self._models, self._weights)
        for X, own in self._with_given():
            if given:
                p = cast(Array, predictions_of(own, X, len(plan.classes)))
            else:
                p = combine(members, a, self._in_units(X), plan.combine)
            if plan.subgroups:
                z = (X - table.mean) / table.sd
                told = plan.subgroups, plan.features, z, table.mean, table.sd
                inside = members_of_subgroups(*told)
            parts.append(OwnScores.of_rows(design, p, inside))
        found, fewest = parts[0], self._policy.min_cell_rows
        if len(parts) > 1:
            found = joined_scores(parts)
        return found if fewest < 2 else merged_bins(found, fewest)

    def without_model(self, rule: str, text: str) -> Adaptation:
        """What this site knows of a study that stopped before it had a model.

        Parameters
        ----------
        rule : str
            The word for why it stopped.
        text : str
            The same as a sentence.
        """
        sizes = self._rounds.sizes if self._rounds else ()
        return Adaptation(
            plan=self.plan,
            table=self.table,
            reports=dict(self._reported.reports),
            rounds=tuple(sizes) or (len(self.plan.candidates),),
            ledgers={TARGET: tuple(self.ledger.entries)},
            stopped=Stopped(rule, text),
            concluded=Concluded(findings=tuple(self._findings)),
        )

    # The pieces -----------------------------------------------------------------------------

    def _accepted(
        self, question: Message, answers: Mapping[str, Message], *, quietly: bool = False
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """The reports that can be honest, by source; and the rules of those that refuse.

        Parameters
        ----------
        question : Message
        answers : mapping of str to Message
        quietly : bool
            Say nothing of the others.
        """
        brief, taken, refusals = self._brief, dict[str, Any](), dict[str, str]()
        if self._more is not None and question is not brief:
            of = question if isinstance(question, MoreCandidates) else self.plan
            brief = replace(brief, candidates=of.candidates)
        for name, answer in sorted(answers.items()):
            said = None if question is self._brief else self._reported.reports.get(name)
            try:
                if self._honest.get(name) is not answer:  # it was accepted before
                    accept(answer, name, question, brief, said)
            except ProtocolError as error:
                if not quietly:
                    self._refuse(name, error)
                continue
            if not isinstance(answer, Refusal):
                taken[name] = answer
                continue
            refusals[name] = answer.rule[:60]
            if type(question) in REFUSED:
                code, key = REFUSED[type(question)]
                self._findings.append(Finding(code, name, {key: refusals[name]}))
        return taken, refusals

    _brief: Brief
    #: What was asked last in a search; None after the brief.
    _more: MoreCandidates | None
    _request: ModelRequest
    _kept: tuple[int, ...]
    _estimates: dict[str, Estimate]

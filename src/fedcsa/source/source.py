"""A site with outcomes: it reports risks, sends one model, and examines the others' mixture."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from fedcsa.core.arrays import Array
from fedcsa.core.batches import BandedBatches, Batches, one_blas_thread
from fedcsa.core.tilt import fit_tilt
from fedcsa.errors import FedCSAError, MessageError, PolicyError, ProtocolError
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
    RiskReport,
)
from fedcsa.messages.policy import (
    ROW_FLOORS,
    Clock,
    Ledger,
    Policy,
    narrow_features,
    told_rule,
    utc_now,
)
from fedcsa.models.fitted import EstimatorModel
from fedcsa.models.model import Path
from fedcsa.plan import LossFunctions
from fedcsa.source.certificate import Certificate, certify
from fedcsa.source.examine import NO_TABLE, check_second, examine, finds_useless, members_of
from fedcsa.source.exposure import fit_unexposed, largest_column_share, largest_losses
from fedcsa.source.measure import Work, measure, prepare
from fedcsa.source.weigh import SiteRows, StudyRows, folds_of, z_of_blocks

_Reply = RiskReport | ModelReport | ExaminationReport | Refusal


@dataclass
class Remembered:
    """One study.

    Attributes
    ----------
    brief : Brief
    design : Brief
        The brief with the candidates of all rounds.
    rounds : list of MoreCandidates
        What came after the brief in a search, in order.
    work : Work or None
        Of the brief's candidates, or after a restart or a search of the chosen one.
    asked : dict of (str, bool) to Message
        Its name, and whether it examines again -> the question that was taken up; another is
        refused.
    sent : dict of str to (Message, Message)
        Hash of a question -> question and answer.
    """

    brief: Brief
    design: Brief
    rounds: list[MoreCandidates] = field(default_factory=list)
    work: Work | None = field(default=None, repr=False)
    asked: dict[tuple[str, bool], Message] = field(default_factory=dict)
    sent: dict[str, tuple[Message, Message]] = field(default_factory=dict)

    def with_round(self, more: MoreCandidates) -> Remembered:
        """The same after the next round, or a `PolicyError` if another is due."""
        before = self.rounds[: more.round - 2]
        over = bool(self.asked)  # a model was asked for, or a mixture shown
        if len(before) != more.round - 2 or not self.brief.candidates or over:
            raise PolicyError("phase_order", "The rounds of a search must come one by one.")
        if self.rounds[len(before) :] not in ([], [more]):
            raise PolicyError(
                "one_round",
                "This site answers one question per round; give another study another name.",
            )
        later = [candidate for asked in (*before, more) for candidate in asked.candidates]
        design = replace(self.brief, candidates=(*self.brief.candidates, *later))
        # Of the chosen candidate, work is made again.
        return replace(self, design=design, rounds=[*before, more], work=None)


class Source:
    """One site that has outcomes.

    Parameters
    ----------
    name : str
    X : array of shape (rows, columns)
    y : array of shape (rows,)
        Numbers, or labels when the study is about classes.
    features : sequence of str, optional
        Names of the columns of X, a group's among them; by default x0, x1, …
    policy : Policy, optional
        The site's own rules; by default the strict ones.
    losses : mapping of str to function, optional
        Losses of the study that are not built in.
    ratio : object with fit(X_source, X_target) and predict(X), optional
        Takes the place of uLSIF in the exchange of rows.
    trusted_types : collection of str, optional
        Classes outside scikit-learn that a study's model may use.
    tell_errors : bool, default False
        Let errors of the study's own functions and models show their text, which may quote a
        cell: only where one person holds all the data.
    clock : function, optional
        Gives the time for the ledger.
    """

    def __init__(
        self,
        name: str,
        X: ArrayLike | SiteRows,
        y: ArrayLike,
        *,
        features: Sequence[str] | None = None,
        policy: Policy | None = None,
        losses: LossFunctions | None = None,
        ratio: Any = None,
        trusted_types: Collection[str] = (),
        tell_errors: bool = False,
        clock: Clock = utc_now,
    ) -> None:
        self.name = name
        self._policy = policy or Policy()
        if isinstance(X, SiteRows):  # read in batches, or those of another source
            self._rows = X
        else:
            self._rows = SiteRows.in_memory(name, X, y, features, self._policy.count_band)
        self._tell_errors = tell_errors
        # What a study may ask for that is not built in.
        self._own: dict[str, Any] = {
            "losses": dict(losses or {}), "ratio": ratio, "trusted_types": tuple(trusted_types),
        }  # fmt: skip
        self.ledger = Ledger(name, self._policy, clock)
        self._studies: dict[str, Remembered] = {}
        #: Why this site last refused; only the name of a rule leaves, of some not even that.
        self.refusal: PolicyError | None = None
        #: Why candidates failed here, in the words of whatever failed; they never leave.
        self.failures: dict[int, str] = {}
        #: What attacks on the last model reached; it never leaves.
        self.certificate: Certificate | None = None

    @classmethod
    def streaming(
        cls,
        name: str,
        rows: Batches,
        *,
        policy: Policy | None = None,
        trusted_types: Collection[str] = (),
        clock: Clock = utc_now,
    ) -> Source:
        """A source whose rows are read batch by batch, anew for every pass, and never held.

        Ridge and least squares with the exchange of a table can be carried out so; any other
        study is told how much memory it needs.

        Parameters
        ----------
        name : str
        rows : Batches
            A table that can be gone through again and again.
        policy, trusted_types, clock
            As for the class.
        """
        policy = policy or Policy()
        if policy.count_band > 1:
            rows = BandedBatches(rows, policy.count_band)
        read = SiteRows(name, rows)
        return cls(name, read, (), policy=policy, trusted_types=trusted_types, clock=clock)

    def anew(self) -> Source:
        """The same rows and rules, of which nobody has asked anything yet."""
        return Source(
            self.name,
            self._rows,
            (),
            policy=self._policy,
            tell_errors=self._tell_errors,
            clock=self.ledger.clock,
            **self._own,
        )

    def __repr__(self) -> str:
        return f"Source({self.name!r}, {self._rows!r}, {len(self._rows.rows.columns)} columns)"

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the rows and outcomes that take part; it never leaves."""
        return self._rows.fingerprint

    def answer(self, message: Message) -> _Reply:
        """Answer a brief, more candidates, a model request or an examination; or refuse."""
        in_reply_to = digest_of(message)
        steps: dict[type[Message], Callable[[Any, str], _Reply]] = {
            Brief: self._report, MoreCandidates: self._report_more, ModelRequest: self._model,
            Examination: self._examine,
        }  # fmt: skip
        make = steps.get(type(message))
        if make is None:
            raise MessageError(
                "A source answers a brief, more candidates, a model request or an examination, "
                f"not a {message.name}."
            )
        study = self._studies.get(message.study)
        asked, sent = study.sent.get(in_reply_to, (None, None)) if study else (None, None)
        try:
            answer = sent if asked == message else None
            if answer is None:
                with one_blas_thread():  # threads go through batches; those of BLAS would fight
                    answer = make(message, in_reply_to)
            released = cast(_Reply, self.ledger.release(answer, [TARGET]))
            self._studies[message.study].sent[in_reply_to] = message, released
            return released
        except PolicyError as error:
            self.refusal = self._explained(error, message)
            refusal = Refusal(message.study, self.name, in_reply_to, told_rule(error.rule))
            return self.ledger.release(refusal, [TARGET])
        except FedCSAError:
            raise
        except Exception as error:  # its text may quote a cell, so only its kind is told
            what = f"{type(error).__name__}: {error}" if self._tell_errors else type(error).__name__
            raise ProtocolError(
                f"Source {self.name!r} could not carry out a {message.name} message: "
                f"{what} came inside. Check the study's options and functions."
            ) from (error if self._tell_errors else None)

    def recall(
        self,
        brief: Brief,
        report: RiskReport,
        rounds: Sequence[tuple[MoreCandidates, RiskReport]] = (),
        others: Sequence[ModelRequest | Examination] = (),
    ) -> None:
        """Take up a study again whose brief this site answered before it was restarted.

        What it still knows stays as it is.

        Parameters
        ----------
        brief : Brief
        report : RiskReport
            The answer that it gave.
        rounds : sequence of (MoreCandidates, RiskReport)
            Of a search: what else it was asked and answered, in order.
        others : sequence of ModelRequest or Examination
            What it was asked besides.
        """
        known = self._studies.get(brief.study)
        if known is not None and known.brief == brief:
            return
        self.remember(brief, report)
        for question, answer in rounds:
            self.remember(question, answer)
        for other in others:
            again = isinstance(other, Examination) and other.again
            self._studies[brief.study].asked[other.name, again] = other

    def remember(self, question: Brief | MoreCandidates, report: RiskReport) -> None:
        """Know again what this site answered before it was restarted, and so answer the same.

        Parameters
        ----------
        question : Brief or MoreCandidates
            The next that was answered.
        report : RiskReport
            The answer.
        """
        if isinstance(question, Brief):
            if refused := self._refusals(self._rows.of(question)):
                raise refused[0]
            study = self._studies.setdefault(question.study, Remembered(question, question))
        else:
            study = self._reported(question).with_round(question)
            self._studies[question.study] = study
        study.sent[digest_of(question)] = question, report

    def answer_key(self, question: Message) -> str:
        """The key of a kept answer: it changes only with rows, rules or question."""
        about = (self.name, self.fingerprint, repr(self._policy), digest_of(question))
        return hashlib.sha256("\n".join(about).encode()).hexdigest()

    # Phase 1: numbers for every candidate -------------------------------------------------

    def _report(
        self, brief: Brief, in_reply_to: str, searched: Remembered | None = None
    ) -> RiskReport:
        """Weigh, fit and judge.

        Parameters
        ----------
        brief : Brief
        in_reply_to : str
            Hash of the question.
        searched : Remembered, optional
            The study after another round of its search, whose candidates `brief` holds.
        """
        study = searched or self._studies.get(brief.study) or Remembered(brief, brief)
        if searched is None and study.brief != brief:
            raise PolicyError(
                "one_brief",
                "This site answers one brief per study; give another study another name.",
            )
        rows = self._rows.of(brief)
        if refused := self._refusals(replace(rows, brief=study.design)):
            raise refused[0]
        self._studies.setdefault(brief.study, study)
        work = prepare(rows, **self._own)
        self.failures = {}
        for path in work.paths:
            self.failures.update(path.texts)
        most = self._policy.max_row_share
        alike = math.ceil(1.0 / most) if most > 0.0 else 1  # a rule of 0 refuses the report
        caps = largest_losses(work, alike) if alike > 1 else None
        n_narrow = narrow_features(brief, rows.sd, Policy.min_sd_share)
        report = measure(work, in_reply_to, n_narrow, caps)
        if most < 1.0 and len(report.correlations) and largest_column_share(work) > most:
            report = replace(report, correlations=np.empty(0))
        if searched is None:
            study.work = work
        return report

    def _report_more(self, more: MoreCandidates, in_reply_to: str) -> RiskReport:
        """Fit and judge the next candidates of a search, as those of the brief.

        Parameters
        ----------
        more : MoreCandidates
        in_reply_to : str
            Its hash.
        """
        study = self._reported(more)
        extended = study.with_round(more)
        before, failed = len(study.design.candidates), self.failures
        brief = replace(study.brief, candidates=more.candidates)
        report = self._report(brief, in_reply_to, extended)
        self.failures = {**failed, **{before + k: text for k, text in self.failures.items()}}
        self._studies[more.study] = extended
        return replace(report, correlations=np.empty(0))  # they were told with the first

    # Phase 2: one model at the chosen candidate -------------------------------------------

    def _model(self, request: ModelRequest, in_reply_to: str) -> ModelReport:
        """Fit the chosen candidate.

        Parameters
        ----------
        request : ModelRequest
        in_reply_to : str
            Hash of the request.
        """
        study, policy = self._reported(request), self._policy
        if not study.brief.candidates:
            raise MessageError("A study of a given model must ask for no other.")
        if study.asked.setdefault((request.name, False), request) != request:
            raise PolicyError(
                "one_model", "This site sends one model per study; give another study another name."
            )
        if policy.models == "never":
            raise PolicyError("models", "This site examines models and sends none.")
        work = self._chosen(study, request.candidate)
        path, fits = Path((None,)), work.fits
        if fits is not None:
            [path] = fits.paths([fits.sent], [work.chosen])
        if policy.max_row_leverage < 1.0:
            path, work = fit_unexposed(path, work, policy.max_row_leverage)
        [fitted] = path.models
        if fitted is None:
            raise PolicyError(
                "fit_failed",
                "The chosen candidate could not be fitted here; leave it out of the study.",
            )
        report = ModelReport(
            study=request.study,
            source=self.name,
            in_reply_to=in_reply_to,
            candidate=request.candidate,
            n_rows=path.n_rows,
            show=policy.show_model,
            form=fitted.form,
            arrays=fitted.arrays,
            held=fitted if isinstance(fitted, EstimatorModel) else None,
        )
        report = policy.release(report)  # rounded: the very message that leaves is looked at
        if policy.looks_at_models:
            self.certificate = certify(report, fitted, work)
            self.certificate.check(policy)
        return report

    # Phase 3: the others' mixture on its own rows ------------------------------------------

    def _examine(self, asked: Examination, in_reply_to: str) -> ExaminationReport:
        """Judge the others' mixture.

        Parameters
        ----------
        asked : Examination
        in_reply_to : str
            Hash of the examination.
        """
        study, policy = self._reported(asked), self._policy
        members = members_of(asked, study.design)  # refuses what is not of the study
        if asked.again:
            first = study.asked.get((asked.name, False)) if study.brief.candidates else None
            check_second(asked, first)
        if study.asked.setdefault((asked.name, asked.again), asked) != asked:
            raise PolicyError(
                "one_examination",
                "This site examines one mixture per study; give another study another name.",
            )
        work = self._chosen(study, asked.candidate)
        report = examine(asked, members, work, policy, in_reply_to)
        if policy.min_cell_rows > 1 and self._tells_no_table(asked, report, study, work):
            report = replace(report, **NO_TABLE)
        return report

    def _tells_no_table(
        self, asked: Examination, found: ExaminationReport, study: Remembered, work: Work
    ) -> bool:
        """Whether the study's one score table leaves with the other examination.

        Two tables of nearly the same predictions could be subtracted. It leaves with the second if
        this site found a model useless in the first, so that a second may come.

        Parameters
        ----------
        asked : Examination
        found : ExaminationReport
            What was found of it.
        study : Remembered
        work : Work
        """
        if not asked.again:
            return bool(study.brief.candidates) and finds_useless(found, asked.weights)
        first = study.asked[Examination.name, False]
        assert isinstance(first, Examination)  # noqa: S101 - checked
        before = examine(first, members_of(first, study.design), work, self._policy, "")
        return not before.reason and not finds_useless(before, first.weights)

    # The pieces -----------------------------------------------------------------------------

    def _reported(self, asked: MoreCandidates | ModelRequest | Examination) -> Remembered:
        """The study, if this site has reported on that very brief and its candidate."""
        study = self._studies.get(asked.study)
        reported = study is not None and asked.brief in study.sent
        if study is None or not reported or digest_of(study.brief) != asked.brief:
            raise PolicyError(
                "phase_order", "A site goes on only with a study on whose brief it has reported."
            )
        index = 0 if isinstance(asked, MoreCandidates) else asked.candidate
        if index >= max(len(study.design.candidates), 1):
            raise MessageError("A message must name a candidate of the brief.")
        return study

    def _chosen(self, study: Remembered, candidate: int) -> Work:
        """What the report rests on, of one candidate; made again after a search or a restart.

        Parameters
        ----------
        study : Remembered
        candidate : int
            Its number.
        """
        if study.work is None or candidate not in study.work.candidates:
            study.work = prepare(self._rows.of(study.design), candidate, **self._own)
        work = study.work
        place = list(work.candidates).index(candidate)
        one = slice(place, place + 1)
        return replace(
            work,
            chosen=work.candidates[candidate],
            paths=[replace(path, models=path.models[one]) for path in work.paths],
            outputs=None if work.outputs is None else work.outputs[one],
        )

    def row_weights(self, brief: Brief) -> Array:
        """Weights of the rows for the table in `brief`, shape (rows,); they sum to one."""
        rows = self._rows.of(brief)
        tilt = fit_tilt(rows, brief.table.flags, brief.table.correlations, z_of_blocks)
        return np.concatenate([tilt.weights(batch.z) for [batch] in rows.by_batch])

    def refusals(self, brief: Brief) -> list[PolicyError]:
        """Every rule of this site that refuses `brief`; `answer` stops at the first."""
        return [self._explained(e, brief) for e in self._refusals(self._rows.of(brief))]

    def _explained(self, error: PolicyError, brief: Message) -> PolicyError:
        """A refusal with the likely reason, where rows here look unlike the target's by a unit.

        Parameters
        ----------
        error : PolicyError
            Its text stays at this site.
        brief : Message
            What was asked.
        """
        if not isinstance(brief, Brief) or told_rule(error.rule) != ROW_FLOORS:
            return error
        return PolicyError(error.rule, " ".join([str(error), *self.unit_warnings(brief)]))

    def can_fit(self, brief: Brief) -> bool:
        """Whether its rows suffice for folds; else it only examines the others' models."""
        return folds_of(self._rows.of(brief)) is not None

    def unit_warnings(self, brief: Brief) -> list[str]:
        """A sentence for every column that looks as if it were in another unit than the target's.

        It stays at this site.
        """
        return [
            f"Column {brief.features[unit.column]!r} here {unit.words}."
            for unit in self._rows.of(brief).other_units()
        ]

    def _refusals(self, rows: StudyRows) -> list[PolicyError]:
        """What the site's policy says to a brief, before anything is computed."""
        brief, n_rows = rows.brief, rows.n_rows
        smallest = n_rows // (brief.n_folds if brief.candidates else 1)
        if brief.scheme != "cross-fit":
            smallest = int(n_rows * min(brief.shares))
        train_rows = n_rows if brief.refit else int(n_rows * brief.shares[1])
        counts = rows.class_rows() if brief.classes else np.empty(0)
        return list(self._policy.refusals(brief, smallest, train_rows, rows.sd, counts))

"""A site with outcomes: brief in, risk report out; request in, model out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from fedcsa.core.batches import Batches
from fedcsa.core.losses import Loss, loss_named
from fedcsa.errors import DataError, FedCSAError, MessageError, PolicyError, ProtocolError
from fedcsa.findings import Finding
from fedcsa.models.base import Model
from fedcsa.models.fitted import FittedModel, LinearModel
from fedcsa.protocol.codec import digest, encode
from fedcsa.protocol.fields import Message, thaw
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
from fedcsa.roles.local import Measurement
from fedcsa.roles.plan import LossFunctions, check_loss, instantiate
from fedcsa.roles.rows import LocalFit, RowsInBatches, RowsInMemory, SiteRows

Report = TypeVar("Report", RiskReport, ModelReport)


class Source:
    """One site that has outcomes.

    Parameters
    ----------
    name : str
    X : array of shape (rows, features)
    y : array of shape (rows,)
        Numbers, or labels when the study is about classes.
    features : sequence of str, optional
        Names of the columns of X; by default x0, x1, …
    policy : Policy, optional
        The site's own rules; by default the strict ones.
    losses : mapping of str to function, optional
        Losses of the study that are not built in.
    trusted_types : collection of str, optional
        Classes outside scikit-learn that a study's model may use.
    clock : function, optional
        Gives the time for the ledger.
    """

    def __init__(
        self,
        name: str,
        X: ArrayLike,
        y: ArrayLike,
        *,
        features: Sequence[str] | None = None,
        policy: Policy | None = None,
        losses: LossFunctions | None = None,
        trusted_types: Collection[str] = (),
        clock: Clock = utc_now,
    ) -> None:
        policy = policy or Policy()
        rows = RowsInMemory(name, X, y, features, policy.count_band)
        self._start(name, rows, policy, losses, trusted_types, clock)

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

        Only ridge and least squares with the squared or absolute loss, cross-fitting and the
        embedding can be carried out so; any other study is told how much memory it needs.

        Parameters
        ----------
        rows : Batches
            A table that can be gone through again and again.
        """
        source = cls.__new__(cls)
        policy = policy or Policy()
        held = RowsInBatches(name, rows, policy.count_band)
        source._start(name, held, policy, None, trusted_types, clock)
        return source

    def _start(
        self,
        name: str,
        rows: SiteRows,
        policy: Policy,
        losses: LossFunctions | None,
        trusted_types: Collection[str],
        clock: Clock,
    ) -> None:
        self.name = name
        self._rows = rows
        self._policy = policy
        self._losses = dict(losses or {})
        self._trusted = tuple(trusted_types)
        self.ledger = Ledger(name, clock)
        self._gate = Gate(self._policy, self.ledger)
        self._briefs: dict[str, Brief] = {}
        self._requests: dict[str, ModelRequest] = {}
        self._sent: dict[tuple[str, str], tuple[Message, RiskReport | ModelReport]] = {}

    def __repr__(self) -> str:
        return f"Source({self.name!r}, {self._rows!r}, {len(self._rows.columns)} features)"

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the rows and outcomes that take part; it never leaves."""
        return self._rows.fingerprint

    def answer(self, message: Message) -> RiskReport | ModelReport | Refusal:
        """Answer a brief with a risk report and a model request with a model, or refuse."""
        in_reply_to = digest(encode(message))
        try:
            if isinstance(message, Brief):
                return self._send(message, partial(self._report, message, in_reply_to))
            if isinstance(message, ModelRequest):
                return self._send(message, partial(self._model, message, in_reply_to))
        except PolicyError as error:
            refusal = Refusal(message.study, self.name, in_reply_to, error.rule)
            return self._gate.release(refusal, [TARGET])
        except FedCSAError:
            raise
        except Exception as error:  # its text may quote a cell, so only its kind is told
            raise ProtocolError(
                f"Source {self.name!r} could not carry out a {message.name} message: "
                f"{type(error).__name__} came inside. Check the study's options and functions."
            ) from None
        raise MessageError(f"A source answers a brief or a model request, not a {message.name}.")

    def _send(self, message: Brief | ModelRequest, make: Callable[[], Report]) -> Report:
        """What `make` makes, once: whoever asks the same again gets the same again.

        On rows that have changed in between, the difference would be about those that did.
        """
        key = message.name, message.study
        asked, sent = self._sent.get(key, (None, None))
        report = sent if sent is not None and asked == message else make()
        released = self._gate.release(report, [TARGET])
        self._sent[key] = message, released
        return cast(Report, released)

    def recall(self, brief: Brief, report: RiskReport) -> None:
        """Take up a study again whose brief this site answered before it was restarted."""
        self._admit(brief)
        self._briefs[brief.study] = brief
        self._sent[brief.name, brief.study] = brief, report

    # Phase 1: numbers for every candidate -------------------------------------------------

    def _report(self, brief: Brief, in_reply_to: str) -> RiskReport:
        if self._briefs.get(brief.study, brief) != brief:
            raise PolicyError(
                "one_brief",
                "This site answers one brief per study; give another study another name.",
            )
        self._admit(brief)
        self._briefs[brief.study] = brief
        model, candidates = self._model_of(brief)
        found = self._rows.measure(brief, model, candidates, self._loss_of(brief))
        return self._risk_report(brief, in_reply_to, found)

    def _risk_report(self, brief: Brief, in_reply_to: str, found: Measurement) -> RiskReport:
        moments, numbers, guard, none = found.moments, found.overlap, found.guard, np.empty(0)
        return RiskReport(
            study=brief.study,
            source=self.name,
            in_reply_to=in_reply_to,
            n_rows=self._rows.n_rows,
            n_validation=moments.n_rows,
            ratio_mean=moments.ratio_mean,
            ratio_m2=moments.ratio_m2,
            loss_mean=moments.loss_mean,
            loss_m2=moments.loss_m2,
            product_mean=moments.product_mean,
            product_m2=moments.product_m2,
            co_moment=moments.co_moment,
            spread=guard.spread if guard else none,
            variance=guard.variance if guard else none,
            explained=guard.explained if guard else none,
            kernel_imbalance=found.kernel_imbalance,
            effective_rows=numbers.effective_rows,
            largest_share=numbers.largest_share,
            target_mean_ratio=numbers.target_mean_ratio,
            difference_before=numbers.difference_before,
            difference_after=numbers.difference_after,
            failed={str(index): reason for index, reason in sorted(found.failed.items())},
            findings=_plain(found.findings),
        )

    # Phase 2: one model at the chosen candidate -------------------------------------------

    def _model(self, request: ModelRequest, in_reply_to: str) -> ModelReport:
        brief = self._briefs.get(request.study)
        reported = (Brief.name, request.study) in self._sent  # a refused report allows no model
        if brief is None or not reported or digest(encode(brief)) != request.brief:
            raise PolicyError("phase_order", "A model is sent only after a report on that brief.")
        if self._requests.get(request.study, request) != request:
            raise PolicyError(
                "one_model", "This site sends one model per study; give another study another name."
            )
        if request.candidate >= len(brief.candidates):
            raise MessageError("A model-request message must have a candidate of the brief.")
        self._requests[request.study] = request
        model, candidates = self._model_of(brief)
        chosen = candidates[request.candidate]
        fit = self._rows.fit(brief, model, chosen, self._loss_of(brief))
        if fit.model is None:
            raise PolicyError(
                "fit_failed",
                "The chosen candidate could not be fitted here; leave it out of the study.",
            )
        return self._model_report(request, in_reply_to, fit, fit.model)

    def _model_report(
        self, request: ModelRequest, in_reply_to: str, fit: LocalFit, fitted: FittedModel
    ) -> ModelReport:
        if isinstance(fitted, LinearModel):
            form, linear, packed = "linear", fitted, np.empty(0, np.uint8)
        else:
            form, linear, packed = "skops", LinearModel(np.empty(0), 0.0), fitted.pack()
        return ModelReport(
            study=request.study,
            source=self.name,
            in_reply_to=in_reply_to,
            candidate=request.candidate,
            n_rows=fit.n_rows,
            prediction_variance=fit.prediction_variance,
            format=form,
            link=linear.link,
            intercept=linear.intercept,
            coefficients=linear.coefficients,
            packed=packed,
        )

    # The pieces -----------------------------------------------------------------------------

    def refusals(self, brief: Brief) -> list[PolicyError]:
        """Every rule of this site that refuses `brief`; `answer` stops at the first."""
        missing = [name for name in brief.features if name not in self._rows.columns]
        if missing:
            raise DataError(
                f"Source {self.name!r} must have the study's {len(brief.features)} features; "
                f"missing: {', '.join(map(repr, missing[:5]))}."
            )
        asked = self._rows.admission(brief)
        return list(self._policy.refusals(brief, asked.fold_rows, asked.train_rows, asked.sd))

    def _admit(self, brief: Brief) -> None:
        """Ask the site's policy whether to take part, before anything is computed."""
        for refusal in self.refusals(brief):
            raise refusal

    def _model_of(self, brief: Brief) -> tuple[Model, list[dict[str, Any]]]:
        return instantiate(
            thaw(brief.model), thaw(brief.candidates), len(brief.classes), self._trusted
        )

    def _loss_of(self, brief: Brief) -> Loss:
        check_loss(brief.loss, len(brief.classes), self._losses)
        own = self._losses.get(brief.loss)
        return loss_named(brief.loss) if own is None else own


def _plain(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    distinct = {(f.code, tuple(f.evidence.items())): f for f in findings}
    return [{"code": f.code, "evidence": dict(f.evidence)} for f in distinct.values()]

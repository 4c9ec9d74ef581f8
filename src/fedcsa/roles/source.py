"""A site with outcomes: brief in, risk report out; request in, model out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedcsa.core.arrays import Array, as_matrix, as_vector, read_only
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
from fedcsa.roles.local import (
    LocalRows,
    Measurement,
    fit_chosen,
    local_ratio,
    local_rotations,
    measure,
)
from fedcsa.roles.plan import LossFunctions, check_loss, encode_classes, instantiate


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
        self.name = name
        self._X = read_only(as_matrix(X, f"X of source {name!r}"))
        self._y = np.asarray(y)
        if self._y.shape[:1] != self._X.shape[:1]:
            raise DataError(
                f"The outcome of source {name!r} must have {len(self._X)} rows like its features; "
                f"it has {self._y.shape[0] if self._y.ndim else 0}."
            )
        self._columns = tuple(features or (f"x{i}" for i in range(self._X.shape[1])))
        if len(set(self._columns)) != self._X.shape[1] or len(self._columns) != self._X.shape[1]:
            raise DataError(
                f"Source {name!r} must have one distinct name for each of its "
                f"{self._X.shape[1]} columns; it has {len(self._columns)} names."
            )
        self._policy = policy or Policy()
        self._losses = dict(losses or {})
        self._trusted = tuple(trusted_types)
        self.ledger = Ledger(name, clock)
        self._gate = Gate(self._policy, self.ledger)
        self._briefs: dict[str, Brief] = {}
        self._requests: dict[str, ModelRequest] = {}

    def __repr__(self) -> str:
        return f"Source({self.name!r}, {len(self._X)} rows, {self._X.shape[1]} features)"

    def answer(self, message: Message) -> RiskReport | ModelReport | Refusal:
        """Answer a brief with a risk report and a model request with a model, or refuse."""
        in_reply_to = digest(encode(message))
        try:
            if isinstance(message, Brief):
                return self._gate.release(self._report(message, in_reply_to), [TARGET])
            if isinstance(message, ModelRequest):
                return self._gate.release(self._model(message, in_reply_to), [TARGET])
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

    # Phase 1: numbers for every candidate -------------------------------------------------

    def _report(self, brief: Brief, in_reply_to: str) -> RiskReport:
        if self._briefs.get(brief.study, brief) != brief:
            raise PolicyError("one_brief", "This site answers one brief per study.")
        self._admit(brief)
        self._briefs[brief.study] = brief
        rows = self._rows(brief)
        model, candidates = self._model_of(brief)
        ratio = local_ratio(brief, rows)
        found = measure(brief, rows, ratio, model, candidates, self._loss_of(brief))
        return self._risk_report(brief, in_reply_to, found)

    def _risk_report(self, brief: Brief, in_reply_to: str, found: Measurement) -> RiskReport:
        moments, numbers, guard, none = found.moments, found.overlap, found.guard, np.empty(0)
        return RiskReport(
            study=brief.study,
            source=self.name,
            in_reply_to=in_reply_to,
            n_rows=len(self._X),
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
        if brief is None or digest(encode(brief)) != request.brief:
            raise PolicyError("phase_order", "A model is sent only after a report on that brief.")
        if self._requests.get(request.study, request) != request:
            raise PolicyError("one_model", "This site sends one model per study.")
        if request.candidate >= len(brief.candidates):
            raise MessageError("A model-request message must have a candidate of the brief.")
        self._requests[request.study] = request
        rows = self._rows(brief)
        model, candidates = self._model_of(brief)
        fitted, n_rows = fit_chosen(
            brief, rows, local_ratio(brief, rows), model, candidates[request.candidate]
        )
        if fitted is None:
            raise PolicyError("fit_failed", "The chosen candidate could not be fitted here.")
        return self._model_report(request, in_reply_to, fitted, n_rows)

    def _model_report(
        self, request: ModelRequest, in_reply_to: str, fitted: FittedModel, n_rows: int
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
            n_rows=n_rows,
            format=form,
            link=linear.link,
            intercept=linear.intercept,
            coefficients=linear.coefficients,
            packed=packed,
        )

    # The pieces -----------------------------------------------------------------------------

    def _admit(self, brief: Brief) -> None:
        """Ask the site's policy whether to take part, before anything is computed."""
        plan = self._named(local_rotations, brief, self.name, len(self._X))
        self._policy.admit(
            brief,
            fold_rows=[len(part) for r in plan for part in (r.density, r.train, r.validation)],
            train_rows=len(self._X) if brief.refit else len(plan[0].train),
            sd=self._features(brief).std(axis=0),
        )

    def _features(self, brief: Brief) -> Array:
        """The site's rows with the brief's columns in the brief's order."""
        missing = [name for name in brief.features if name not in self._columns]
        if missing:
            raise DataError(
                f"Source {self.name!r} must have the study's {len(brief.features)} features; "
                f"missing: {', '.join(map(repr, missing[:5]))}."
            )
        return self._X[:, [self._columns.index(name) for name in brief.features]]

    def _rows(self, brief: Brief) -> LocalRows:
        X = self._features(brief)
        standardised = (X - brief.mean) / brief.sd
        where = f"The outcome of source {self.name!r}"
        if brief.classes:
            outcome = encode_classes(self._y, thaw(brief.classes), where)
        else:
            outcome = as_vector(self._y, where, n_rows=len(X))
        if (outcome == outcome[0]).all():
            raise DataError(f"{where} must vary; it is the same in all {len(outcome)} rows.")
        return LocalRows(self.name, X, standardised if brief.scale else X, standardised, outcome)

    def _model_of(self, brief: Brief) -> tuple[Model, list[dict[str, Any]]]:
        return instantiate(
            thaw(brief.model), thaw(brief.candidates), len(brief.classes), self._trusted
        )

    def _loss_of(self, brief: Brief) -> Loss:
        check_loss(brief.loss, len(brief.classes), self._losses)
        own = self._losses.get(brief.loss)
        return loss_named(brief.loss) if own is None else own

    def _named(self, function: Any, *args: Any) -> Any:
        """Call `function`, naming this source if its rows do not suffice."""
        try:
            return function(*args)
        except DataError as error:
            raise DataError(f"Source {self.name!r}: {error}") from None


def _plain(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    distinct = {(f.code, tuple(f.evidence.items())): f for f in findings}
    return [{"code": f.code, "evidence": dict(f.evidence)} for f in distinct.values()]

"""A site with outcomes: brief in, risk report out; request in, model out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from fedcsa.core.arrays import Array, as_matrix, as_vector, read_only
from fedcsa.core.density_ratio import ULSIF
from fedcsa.core.embedding import EmbeddingRatio, MeanEmbedding
from fedcsa.core.folds import Rotation, generator_for, rotations
from fedcsa.core.kernels import Basis
from fedcsa.core.losses import Loss, loss_named
from fedcsa.core.overlap import overlap
from fedcsa.core.risk import RiskMoments
from fedcsa.errors import DataError, MessageError, PolicyError
from fedcsa.findings import Finding
from fedcsa.models.base import Model, path_losses
from fedcsa.models.fitted import FittedModel, LinearModel
from fedcsa.protocol.codec import digest, encode
from fedcsa.protocol.ledger import Clock, Gate, Ledger, utc_now
from fedcsa.protocol.messages import (
    Brief,
    Message,
    ModelReport,
    ModelRequest,
    Refusal,
    RiskReport,
    thaw,
)
from fedcsa.protocol.policy import Policy
from fedcsa.roles.plan import LossFunctions, check_loss, encode_classes, instantiate

#: Losses of a batch of validation rows under all candidates take at most this many numbers.
BATCH_NUMBERS = 4_000_000
TARGET = "target"


class Ratio(Protocol):
    """A fitted density ratio."""

    findings_: tuple[Finding, ...]

    def predict(self, X: ArrayLike) -> Array:
        """r̂ of every row."""
        ...


@dataclass(frozen=True)
class _Rows:
    """The site's rows as a brief wants to see them."""

    features: Array  # what the models see
    standardised: Array  # in the target's units
    outcome: Array  # numbers, or codes of classes


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
        count = self._X.shape[1]
        self._columns = tuple(features or (f"x{index}" for index in range(count)))
        self._policy = policy or Policy()
        self._losses = dict(losses or {})
        self._trusted = tuple(trusted_types)
        self.ledger = Ledger(name, clock)
        self._gate = Gate(self._policy, self.ledger)
        self._brief: Brief | None = None
        self._requested: ModelRequest | None = None

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
        raise MessageError(f"A source answers a brief or a model request, not a {message.name}.")

    # Phase 1: scalars for every candidate -------------------------------------------------

    def _report(self, brief: Brief, in_reply_to: str) -> RiskReport:
        if self._brief is not None and self._brief.study == brief.study and self._brief != brief:
            raise PolicyError("one_brief", "This site answers one brief per study.")
        rows = self._rows_for(brief)
        plan = self._rotations(brief)
        self._policy.admit(
            brief,
            fold_rows=[len(part) for r in plan for part in (r.density, r.train, r.validation)],
            train_rows=len(self._X) if brief.refit else len(plan[0].train),
            sd=self._columns_of(brief).std(axis=0),
        )
        self._brief = brief

        model, candidates = self._model_of(brief)
        loss = self._loss_of(brief)
        moments: list[RiskMoments] = []
        ratios: list[Array] = []
        target_means: list[float] = []
        failed: dict[int, str] = {}
        findings: list[Finding] = []
        for turn, rotation in enumerate(plan):
            ratio, target_mean = self._ratio(brief, rotation, turn)
            findings += ratio.findings_
            target_means.append(target_mean)
            X_ratio = self._ratio_rows(brief)
            train, validation = rotation.train, rotation.validation
            path = model.fit(
                rows.features[train],
                rows.outcome[train],
                ratio.predict(X_ratio[train]),
                candidates,
                generator_for(brief.seed, self.name, f"model-{turn}"),
            )
            findings += [
                Finding("fit-warning", evidence={"warning": name, "count": float(count)})
                for name, count in path.warned.items()
            ]
            failed.update(path.failures)
            ratios.append(ratio.predict(X_ratio[validation]))
            batch = max(1, BATCH_NUMBERS // len(candidates))
            for start in range(0, len(validation), batch):
                part = validation[start : start + batch]
                losses, failures = path_losses(path, rows.features[part], rows.outcome[part], loss)
                failed.update(failures)
                moments.append(RiskMoments.of(ratios[-1][start : start + batch], losses))

        merged = RiskMoments.merge_all(moments)
        judged = np.concatenate([rotation.validation for rotation in plan])
        numbers = overlap(
            np.concatenate(ratios), rows.standardised[judged], float(np.mean(target_means))
        )
        return RiskReport(
            study=brief.study,
            source=self.name,
            in_reply_to=in_reply_to,
            n_rows=len(self._X),
            n_validation=merged.n_rows,
            ratio_mean=merged.ratio_mean,
            ratio_m2=merged.ratio_m2,
            loss_mean=merged.loss_mean,
            loss_m2=merged.loss_m2,
            product_mean=merged.product_mean,
            product_m2=merged.product_m2,
            co_moment=merged.co_moment,
            effective_rows=numbers.effective_rows,
            largest_share=numbers.largest_share,
            target_mean_ratio=numbers.target_mean_ratio,
            difference_before=numbers.difference_before,
            difference_after=numbers.difference_after,
            failed={str(index): reason for index, reason in sorted(failed.items())},
            findings=_plain(findings),
        )

    # Phase 2: one model at the chosen candidate -------------------------------------------

    def _model(self, request: ModelRequest, in_reply_to: str) -> ModelReport:
        brief = self._brief
        if brief is None or digest(encode(brief)) != request.brief:
            raise PolicyError("phase_order", "A model is sent only after a report on that brief.")
        if self._requested is not None and self._requested != request:
            raise PolicyError("one_model", "This site sends one model per study.")
        if request.candidate >= len(brief.candidates):
            raise MessageError("A model-request message must have a candidate of the brief.")
        self._requested = request

        rows = self._rows_for(brief)
        plan = self._rotations(brief)
        model, candidates = self._model_of(brief)
        X_ratio = self._ratio_rows(brief)
        if brief.refit:
            train = np.arange(len(self._X))
            ratios = np.zeros(len(train))
            for turn, rotation in enumerate(plan):
                ratio, _ = self._ratio(brief, rotation, turn)
                part = rotation.validation if brief.cross_fit else train
                ratios[part] = ratio.predict(X_ratio[part])
            purpose = "model-refit"
        else:
            train = plan[0].train
            ratio, _ = self._ratio(brief, plan[0], 0)
            ratios, purpose = ratio.predict(X_ratio[train]), "model-0"
        path = model.fit(
            rows.features[train],
            rows.outcome[train],
            ratios,
            [candidates[request.candidate]],
            generator_for(brief.seed, self.name, purpose),
        )
        fitted = path.models[0]
        if fitted is None:
            raise PolicyError("fit_failed", "The chosen candidate could not be fitted here.")
        return self._model_report(request, in_reply_to, fitted, len(train))

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

    def _columns_of(self, brief: Brief) -> Array:
        """The site's rows with the brief's columns in the brief's order."""
        missing = [name for name in brief.features if name not in self._columns]
        if missing:
            raise DataError(
                f"Source {self.name!r} must have the study's {len(brief.features)} features; "
                f"missing: {', '.join(map(repr, missing[:5]))}."
            )
        order = [self._columns.index(name) for name in brief.features]
        return self._X[:, order]

    def _rows_for(self, brief: Brief) -> _Rows:
        X = self._columns_of(brief)
        standardised = (X - brief.mean) / brief.sd
        where = f"The outcome of source {self.name!r}"
        if brief.classes:
            outcome = encode_classes(self._y, thaw(brief.classes), where)
        else:
            outcome = as_vector(self._y, where, n_rows=len(X))
        if (outcome == outcome[0]).all():
            raise DataError(f"{where} must vary; it is the same in all {len(outcome)} rows.")
        return _Rows(standardised if brief.scale else X, standardised, outcome)

    def _rotations(self, brief: Brief) -> list[Rotation]:
        rng = generator_for(brief.seed, self.name, "folds")
        try:
            return rotations(
                len(self._X), brief.shares.tolist(), cross_fit=brief.cross_fit, rng=rng
            )
        except DataError as error:
            raise DataError(f"Source {self.name!r}: {error}") from None

    def _model_of(self, brief: Brief) -> tuple[Model, list[dict[str, Any]]]:
        return instantiate(
            thaw(brief.model), thaw(brief.candidates), len(brief.classes), self._trusted
        )

    def _loss_of(self, brief: Brief) -> Loss:
        check_loss(brief.loss, len(brief.classes), self._losses)
        own = self._losses.get(brief.loss)
        return loss_named(brief.loss) if own is None else own

    def _ratio_rows(self, brief: Brief) -> Array:
        """What the density ratio sees: an embedding standardises by itself."""
        X = self._columns_of(brief)
        return (X - brief.mean) / brief.sd if brief.exchange == "rows" and brief.scale else X

    def _ratio(self, brief: Brief, rotation: Rotation, turn: int) -> tuple[Ratio, float]:
        """The density ratio fitted on the density fold, and its mean over the target."""
        rng = generator_for(brief.seed, self.name, f"ratio-{turn}")
        density = self._ratio_rows(brief)[rotation.density]
        options: Mapping[str, Any] = thaw(brief.ratio)
        if brief.exchange == "rows":
            target = (brief.rows - brief.mean) / brief.sd if brief.scale else brief.rows
            ulsif = ULSIF(**options, random_state=rng).fit(density, target)
            return ulsif, float(ulsif.predict(target).mean())
        ratio = EmbeddingRatio(options.get("regularizations"), random_state=rng)
        ratio.fit(density, embedding_of(brief))
        return ratio, ratio.target_mean_


def embedding_of(brief: Brief) -> MeanEmbedding:
    """The mean embedding that a brief announces."""
    kind: Literal["bumps", "fourier"] = "fourier" if brief.basis == "fourier" else "bumps"
    basis = Basis(
        kind, brief.mean, brief.sd, len(brief.embedding), brief.bandwidth, brief.basis_seed
    )  # fmt: skip
    return MeanEmbedding(basis, brief.embedding, brief.trace, brief.n_rows)


def _plain(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    distinct = {(f.code, tuple(f.evidence.items())): f for f in findings}
    return [{"code": f.code, "evidence": dict(f.evidence)} for f in distinct.values()]

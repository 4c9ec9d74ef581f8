"""What a source computes on its own rows, in the order in which it happens.

rows → density ratio → models of every candidate → risk moments, overlap, guard terms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.density_ratio import ULSIF, positive_grid
from fedcsa.core.embedding import REGULARIZATIONS, EmbeddingRatio, MeanEmbedding
from fedcsa.core.folds import Rotation, generator_for, rotations
from fedcsa.core.guard import (
    CrossFit,
    GuardTerms,
    cross_fit_ratio,
    floored,
    guard_terms,
    kernel_imbalance,
)
from fedcsa.core.kernels import Basis
from fedcsa.core.losses import Loss, evaluate
from fedcsa.core.overlap import Overlap, normalised, overlap
from fedcsa.core.risk import RiskMoments
from fedcsa.findings import Finding
from fedcsa.models.base import Candidate, Model, path_losses
from fedcsa.models.constant import ConstantModel
from fedcsa.models.fitted import FittedModel
from fedcsa.protocol.fields import thaw
from fedcsa.protocol.messages import Brief


@dataclass(frozen=True)
class LocalRows:
    """A source's rows as a brief wants to see them."""

    source: str
    raw: Array
    seen: Array  # what the models see
    standardised: Array  # in the target's units
    outcome: Array  # numbers, or codes of classes


@dataclass(frozen=True)
class LocalRatio:
    """The density ratio where it is needed, and how it was found."""

    plan: Sequence[Rotation]
    train: Sequence[Array]  # one array a rotation, for training weights
    validation: Sequence[Array]  # one array a rotation, for judging
    everywhere: Array  # every row, for a model refitted on all
    target_mean: float
    findings: tuple[Finding, ...]
    psi: Array | None = None  # of every row, if cross-fitted from an embedding
    cross_fit: CrossFit | None = None


@dataclass(frozen=True)
class Measurement:
    """Everything that a risk report says."""

    moments: RiskMoments
    overlap: Overlap
    guard: GuardTerms | None
    kernel_imbalance: float
    failed: Mapping[int, str]
    findings: tuple[Finding, ...]


def local_rotations(brief: Brief, source: str, n_rows: int) -> list[Rotation]:
    """The folds of this source."""
    return rotations(
        n_rows,
        brief.scheme,
        generator_for(brief.seed, source, "folds"),
        shares=brief.shares.tolist(),
        n_folds=brief.n_folds,
    )


def local_ratio(brief: Brief, rows: LocalRows) -> LocalRatio:
    """Fit the density ratio on every rotation's density fold."""
    plan = local_rotations(brief, rows.source, len(rows.raw))
    if brief.scheme == "cross-fit" and brief.exchange == "embedding":
        return _cross_fitted(brief, rows, plan)
    seen = rows.standardised if brief.exchange == "rows" and brief.scale else rows.raw
    train, validation, target_means = [], [], []
    findings: list[Finding] = []
    everywhere = np.zeros(len(seen))
    for turn, rotation in enumerate(plan):
        rng = generator_for(brief.seed, rows.source, f"ratio-{turn}")
        ratio, target_mean = _fit_ratio(brief, seen[rotation.density], rng)
        target_means.append(target_mean)
        findings += ratio.findings_
        ratios = ratio.predict(seen)
        train.append(ratios[rotation.train])
        validation.append(ratios[rotation.validation])
        judged = slice(None) if brief.scheme == "split" else rotation.validation
        everywhere[judged] = ratios[judged]
    return LocalRatio(
        plan, train, validation, everywhere, float(np.mean(target_means)), tuple(findings)
    )


def measure(
    brief: Brief,
    rows: LocalRows,
    ratio: LocalRatio,
    model: Model,
    candidates: Sequence[Candidate],
    loss: Loss,
) -> Measurement:
    """Fit every candidate without the rows it is judged on, and judge it."""
    failed: dict[int, str] = {}
    findings = list(ratio.findings)
    moments: list[RiskMoments] = []
    losses = np.zeros((len(rows.seen), len(candidates) + 1))  # the last: a constant prediction
    for turn, rotation in enumerate(ratio.plan):
        rng = generator_for(brief.seed, rows.source, f"model-{turn}")
        X, y = rows.seen[rotation.train], rows.outcome[rotation.train]
        path = model.fit(X, y, ratio.train[turn], candidates, rng)
        held_X, held_y = rows.seen[rotation.validation], rows.outcome[rotation.validation]
        judged, failures = path_losses(path, held_X, held_y, loss)
        constant = ConstantModel.fit(y, model.n_classes, brief.loss)
        judged = np.column_stack([judged, evaluate(loss, constant.predict(held_X), held_y)])
        moments.append(RiskMoments.of(ratio.validation[turn], judged))
        losses[rotation.validation] = judged
        failed.update(path.failures)
        failed.update(failures)
        findings += [
            Finding("fit-warning", evidence={"warning": name, "count": float(count)})
            for name, count in path.warned.items()
        ]
    order = np.concatenate([rotation.validation for rotation in ratio.plan])
    ratios = np.concatenate(ratio.validation)
    numbers = overlap(ratios, rows.standardised[order], ratio.target_mean)
    guard, imbalance = None, 0.0
    if ratio.cross_fit is not None and ratio.psi is not None:
        weights = np.empty(len(order))
        weights[order] = normalised(ratios)
        guard = guard_terms(ratio.psi, losses, weights, ratio.cross_fit)
        imbalance = kernel_imbalance(ratio.psi, weights, embedding_of(brief))
    return Measurement(
        RiskMoments.merge_all(moments), numbers, guard, imbalance, failed, tuple(findings)
    )


def fit_chosen(
    brief: Brief, rows: LocalRows, ratio: LocalRatio, model: Model, candidate: Candidate
) -> tuple[FittedModel | None, int]:
    """The model that is sent, and on how many rows it was fitted."""
    if brief.refit:
        train, ratios, purpose = np.arange(len(rows.seen)), ratio.everywhere, "model-refit"
    else:
        train, ratios, purpose = ratio.plan[0].train, ratio.train[0], "model-0"
    rng = generator_for(brief.seed, rows.source, purpose)
    path = model.fit(rows.seen[train], rows.outcome[train], ratios, [candidate], rng)
    return path.models[0], len(train)


def embedding_of(brief: Brief) -> MeanEmbedding:
    """The mean embedding that a brief announces."""
    kind: Literal["bumps", "fourier"] = "fourier" if brief.basis == "fourier" else "bumps"
    size = len(brief.embedding)
    basis = Basis(kind, brief.mean, brief.sd, size, brief.bandwidth, brief.basis_seed)
    return MeanEmbedding(basis, brief.embedding, brief.trace, brief.n_rows)


def _cross_fitted(brief: Brief, rows: LocalRows, plan: Sequence[Rotation]) -> LocalRatio:
    embedding = embedding_of(brief)
    psi = embedding.basis(rows.raw)
    options: Mapping[str, Any] = thaw(brief.ratio)
    given = options.get("regularizations")
    grid = positive_grid("regularizations", REGULARIZATIONS if given is None else given)
    fit = cross_fit_ratio(psi, embedding, [rotation.validation for rotation in plan], grid)
    found = fit.ratio
    held_out = fit.held_out_ratios(psi)
    edge = Finding(
        "grid-edge", evidence={"parameter": "regularization", "value": found.regularization}
    )
    return LocalRatio(
        plan,
        train=[floored(found.ratios(psi[rows], k)) for k, rows in enumerate(fit.others)],
        validation=[held_out[rows] for rows in fit.folds],
        everywhere=floored(held_out),
        target_mean=found.target_mean(embedding),
        # The rule's own grid ends where a site's policy does: nobody could widen it.
        findings=(edge,) if found.at_edge and given is not None else (),
        psi=psi,
        cross_fit=fit,
    )


def _fit_ratio(
    brief: Brief, density: Array, rng: np.random.Generator
) -> tuple[ULSIF | EmbeddingRatio, float]:
    options: Mapping[str, Any] = thaw(brief.ratio)
    if brief.exchange == "rows":
        target = (brief.rows - brief.mean) / brief.sd if brief.scale else brief.rows
        ulsif = ULSIF(**options, random_state=rng).fit(density, target)
        return ulsif, float(ulsif.predict(target).mean())
    ratio = EmbeddingRatio(options.get("regularizations"), random_state=rng)
    ratio.fit(density, embedding_of(brief))
    return ratio, ratio.target_mean_

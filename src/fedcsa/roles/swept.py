"""A source with linear models, batch by batch: the same numbers as `fedcsa.roles.local`.

Rows are gone through a few times and never held; see `fedcsa.core.sweep`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.batches import Batches
from fedcsa.core.density_ratio import positive_grid
from fedcsa.core.embedding import REGULARIZATIONS
from fedcsa.core.folds import fold_key, fold_labels, generator_for
from fedcsa.core.guard import RatioFit, fit_ratio
from fedcsa.core.interpolation import loss_pivots
from fedcsa.core.judged import (
    Block,
    swept_guard,
    swept_kernel_imbalance,
    swept_moments,
    swept_overlap,
)
from fedcsa.core.judging import judge, weighted_pilot_triangle
from fedcsa.core.losses import REGRESSION, Loss, squared
from fedcsa.core.parallel import one_blas_thread
from fedcsa.core.ridge import merge_triangles, triangle_path
from fedcsa.core.sweep import Frame, density, pilot_shift, refit, train, weigh
from fedcsa.core.weights import check_power
from fedcsa.findings import Finding
from fedcsa.models.base import RATIO_POWER, Candidate, Model
from fedcsa.models.fitted import LinearModel
from fedcsa.models.linear import PENALTY, LinearRegression
from fedcsa.protocol.fields import thaw
from fedcsa.protocol.messages import Brief
from fedcsa.roles.local import Measurement, embedding_of

#: From this many rows on, rows in memory are swept too: before, one look at all of them is faster.
SWEEP_ROWS = 1000
#: Columns of losses that are not combined are multiplied with one another in blocks of this many.
BLOCK_COLUMNS = 32


def can_sweep(model: Model, brief: Brief, loss: Loss) -> TypeGuard[LinearRegression]:
    """Whether a study can be answered batch by batch."""
    return (
        isinstance(model, LinearRegression)
        and brief.scheme == "cross-fit"
        and brief.refit
        and brief.exchange == "embedding"
        and loss in REGRESSION.values()
    )


@dataclass(frozen=True)
class Swept:
    """What a source remembers of its sweep when it is asked for a model."""

    model: LinearRegression
    frame: Frame = field(repr=False)
    fit: RatioFit = field(repr=False)
    triangles: Array = field(repr=False)  # of every fold
    n_rows: int
    mean_ratio: float
    candidates: Sequence[Candidate] = field(repr=False)
    residuals: Array = field(repr=False)  # of every fold's models, by candidate
    weighted: Array = field(repr=False)  # R with RᵀR the mean of aaᵀ under r/Σr, a = (1, x, y)


def sweep(
    brief: Brief,
    source: str,
    rows: Batches,
    model: LinearRegression,
    candidates: Sequence[Candidate],
    loss: Loss,
) -> tuple[Measurement, Swept]:
    """Fit every candidate without the rows it is judged on, and judge it."""
    with one_blas_thread():
        frame = _frame(brief, source, rows, intercept=model.intercept)
        grams, triangles = density(frame)
        options: Mapping[str, Any] = thaw(brief.ratio)
        given = options.get("regularizations")
        grid = positive_grid("regularizations", REGULARIZATIONS if given is None else given)
        fit = fit_ratio(grams, frame.embedding, grid)
        residuals = _residuals(frame, fit, triangles, grams.sizes, model, candidates)
        whole = merge_triangles(*triangles)
        failed = np.flatnonzero(~np.isfinite(residuals).all(axis=(0, 1)))
        residuals[:, :, failed] = 0.0
        constant = _constant(frame, triangles, loss)
        heavy = weighted_pilot_triangle(frame, fit)
        blocks = _blocks(residuals, candidates, [whole, heavy], loss)
        picked = [residuals[:, :, block.candidates][:, :, pivots] for block, pivots in blocks]
        columns = np.concatenate([*picked, constant], axis=2)
        last = Block(slice(columns.shape[2] - 1, columns.shape[2]), [len(candidates)], np.eye(1))
        kept = [*(block for block, _ in blocks), last]
        judged = judge(frame, fit, columns, [block.columns for block in kept], loss)
    size = len(candidates) + 1
    moments = swept_moments(judged, kept, size)
    guard = swept_guard(judged, kept, fit, grams, size)
    x_shift = frame.shift[:-1]
    own = (np.zeros_like(brief.mean), np.ones_like(brief.sd))
    scale = own if brief.scale else (brief.mean, brief.sd)
    before = (whole[0, 1:-1] / whole[0, 0] + x_shift - scale[0]) / scale[1]
    target_mean = fit.target_mean(frame.embedding)
    numbers = swept_overlap(judged, before, x_shift, scale, target_mean)
    imbalance = swept_kernel_imbalance(judged, frame.embedding, numbers.effective_rows)
    edge = Finding(
        "grid-edge", evidence={"parameter": "regularization", "value": fit.regularization}
    )
    measured = Measurement(
        moments,
        numbers,
        guard,
        imbalance,
        dict.fromkeys(failed.tolist(), "NonFinitePrediction"),
        (edge,) if fit.at_edge and given is not None else (),  # as in `fedcsa.roles.local`
    )
    weighted = judged.triangle if judged.largest_ratio > 0.0 else whole
    return measured, Swept(
        model,
        frame,
        fit,
        triangles,
        moments.n_rows,
        moments.ratio_mean,
        candidates,
        residuals,
        weighted / weighted[0, 0],
    )


def refit_chosen(swept: Swept, candidate: Candidate) -> LinearModel:
    """The model of all rows at one candidate."""
    model = swept.model
    power = check_power(float(candidate.get(RATIO_POWER, 0.0)))
    with one_blas_thread():
        if power:
            R, total = refit(swept.frame, swept.fit, swept.mean_ratio, power)
        else:
            R, total = merge_triangles(*swept.triangles), float(swept.n_rows)
    penalties = _penalties([candidate], model, total)
    slopes, intercepts = triangle_path(R, penalties, total, swept.n_rows, intercept=model.intercept)
    x_shift, y_shift = swept.frame.shift[:-1], swept.frame.shift[-1]
    b = slopes[:, 0].copy()
    return LinearModel(b, float(intercepts[0] + y_shift - x_shift @ b))


def swept_variance(swept: Swept, candidate: Candidate) -> float:
    """`fedcsa.core.jackknife.jackknife_variance` of the folds' models on the weighted rows."""
    errors = swept.residuals[:, :, list(swept.candidates).index(candidate)]
    deviation = errors - errors.mean(axis=0)
    squares = (deviation @ swept.weighted.T) ** 2
    return float((len(errors) - 1.0) / len(errors) * squares.sum())


# Pieces -------------------------------------------------------------------------------------


def _frame(brief: Brief, source: str, rows: Batches, *, intercept: bool) -> Frame:
    columns = [rows.columns.index(name) for name in brief.features]
    key = fold_key(generator_for(brief.seed, source, "folds"))
    none = np.zeros(len(columns) + 1)
    frame = Frame(rows, columns, embedding_of(brief), brief.scale, brief.n_folds, key, none)
    X, y = next(iter(rows))
    shift = pilot_shift(frame.seen(X)[1], y, intercept=intercept)
    return Frame(rows, columns, frame.embedding, brief.scale, brief.n_folds, key, shift)


def _penalties(candidates: Sequence[Candidate], model: LinearRegression, total: float) -> Array:
    penalties = np.array([float(candidate.get(PENALTY, 0.0)) for candidate in candidates])
    return penalties / total if model.penalty_scale == "sklearn" else penalties


def _residuals(
    frame: Frame,
    fit: RatioFit,
    triangles: Array,
    sizes: Array,
    model: LinearRegression,
    candidates: Sequence[Candidate],
) -> Array:
    """Prediction less outcome as coefficients of (1, x, y), shape (folds, size, candidates)."""
    groups = _by_power(candidates)
    powers = [power for power in groups if power]
    weighted = totals = np.empty(0)
    if powers:
        means, ratios = weigh(frame, fit)
        weighted, totals = train(frame, fit, means, ratios, powers)
    K, size = len(triangles), triangles.shape[1]
    residuals = np.zeros((K, size, len(candidates)))
    residuals[:, -1] = -1.0
    for power, members in groups.items():
        for k in range(K):
            n = int(sizes.sum() - sizes[k])
            if power:
                R, total = weighted[powers.index(power), k], float(totals[powers.index(power), k])
            else:
                R, total = merge_triangles(*np.delete(triangles, k, axis=0)), float(n)
            penalties = _penalties([candidates[i] for i in members], model, total)
            slopes, intercepts = triangle_path(R, penalties, total, n, intercept=model.intercept)
            residuals[k, 1:-1, members] = slopes.T
            residuals[k, 0, members] = intercepts
    return residuals


def _constant(frame: Frame, triangles: Array, loss: Loss) -> Array:
    """The same for the constant predictor: the others' mean, or their median."""
    K, size = len(triangles), triangles.shape[1]
    residuals = np.zeros((K, size, 1))
    residuals[:, -1] = -1.0
    if loss is squared:
        for k in range(K):
            R = merge_triangles(*np.delete(triangles, k, axis=0))
            residuals[k, 0] = R[0, -1] / R[0, 0]
        return residuals
    y = np.concatenate([outcomes for _, outcomes in frame.rows])  # a median needs them all
    labels = fold_labels(0, len(y), frame.n_folds, frame.key)
    for k in range(K):
        residuals[k, 0] = np.median(y[labels != k]) - frame.shift[-1]
    return residuals


def _blocks(
    residuals: Array, candidates: Sequence[Candidate], views: Sequence[Array], loss: Loss
) -> list[tuple[Block, list[int]]]:
    """Which candidates are evaluated, and how the others follow from them."""
    found: list[tuple[Block, list[int]]] = []
    start = 0
    for members in _by_power(candidates).values():
        if loss is squared:
            seen = [view @ residuals[:, :, members] for view in views]
            pivots, combinations = loss_pivots(np.concatenate(seen))
            parts = [(members, pivots, combinations)]
        else:
            cuts = range(0, len(members), BLOCK_COLUMNS)
            chunks = [members[cut : cut + BLOCK_COLUMNS] for cut in cuts]
            parts = [(chunk, list(range(len(chunk))), np.eye(len(chunk))) for chunk in chunks]
        for own, pivots, combinations in parts:
            columns = slice(start, start + len(pivots))
            found.append((Block(columns, own, combinations), pivots))
            start += len(pivots)
    return found


def _by_power(candidates: Sequence[Candidate]) -> dict[float, list[int]]:
    """Indices of the candidates with each γ."""
    groups: dict[float, list[int]] = {}
    for index, candidate in enumerate(candidates):
        power = check_power(float(candidate.get(RATIO_POWER, 0.0)))
        groups.setdefault(power, []).append(index)
    return dict(sorted(groups.items()))

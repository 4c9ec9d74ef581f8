"""What a source computes on its own rows: weights, models of every candidate, their risks.

Rows are gone through in batches, so that they need not fit into memory; only models that cannot be
fitted from sums hold them all. Sums are made in the order of the batches: nothing depends on the
number of cores, or on whether the rows are held or read.

==================  ==================================================================
`TableWeighing`     a pass for every step of Newton's method, see `fedcsa.core.tilt`
`fit_folds`         linear models: one pass for the triangles of every part and power
`judge`             one pass: losses of every candidate on rows that it has not seen
==================  ==================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.batches import in_order, one_blas_thread
from fedcsa.core.folds import generator_for
from fedcsa.core.losses import Loss
from fedcsa.core.risk import RiskMoments, sampling_variance
from fedcsa.errors import DataError
from fedcsa.findings import Finding
from fedcsa.messages.messages import Brief
from fedcsa.models.fitted import FittedModel
from fedcsa.models.linear import LinearRegression
from fedcsa.models.model import Candidate, Model, Path, path_losses
from fedcsa.source.linear_sums import LinearSums, power_of
from fedcsa.source.site_rows import Batch, StudyRows
from fedcsa.source.weigh import Folds, RatioWeighing, TableWeighing, Weighing, folds_of

#: Correlations are sent for at most so many features: 435 numbers.
MOST_CORRELATED = 30


@dataclass(frozen=True)
class Measurement:
    """Everything that a risk report says; arrays over candidates have one entry each."""

    n_judged: int
    n_folds: int
    effective_rows: float
    largest_share: float
    difference_before: Array
    difference_after: Array
    outcome_mean: Array
    correlations: Array
    risk: Array
    variance: Array
    moments: RiskMoments | None
    failed: Mapping[int, str]
    texts: Mapping[int, str]  # of the failures, in their own words: they never leave
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Work:
    """What a source remembers of a study between its messages.

    Attributes
    ----------
    rows : StudyRows
    weighing : Weighing
    folds : Folds or None
        None where outcomes are too few to judge a model.
    paths : sequence of Path
        Models of every turn.
    sums : LinearSums or None
        From which linear models are fitted.
    """

    rows: StudyRows = field(repr=False)
    weighing: Weighing = field(repr=False)
    folds: Folds | None = field(repr=False)
    paths: Sequence[Path] = field(repr=False)
    sums: LinearSums | None = field(repr=False)

    @property
    def effective_rows(self) -> float:
        """1/Σw², by a pass over the rows."""
        total = 0.0
        for batch in self.rows:
            w = self.weighing.judging(batch)
            total += float(w @ w)
        return 1.0 / total


def prepare(
    brief: Brief, rows: StudyRows, model: Model, candidates: Sequence[Candidate], own: Any = None
) -> Work:
    """Weight the rows and fit every candidate without each part in turn.

    Parameters
    ----------
    brief : Brief
    rows : StudyRows
    model : Model
    candidates : sequence of Candidate
    own : object with fit and predict, optional
        A density ratio in place of uLSIF, for ``exchange="rows"``.
    """
    if not isinstance(model, LinearRegression) and not rows.held:
        raise _too_large(rows, len(candidates))
    if brief.exchange == "rows" and not rows.held:
        raise _too_large(rows, len(candidates))
    with one_blas_thread():  # threads go through batches; those of BLAS would fight them
        folds = folds_of(brief, rows)
        weighing: Weighing
        if brief.exchange == "rows":
            if folds is None:
                raise DataError(
                    f"Source {rows.source!r} must have two rows or more a fold and every class in "
                    "all but one; its rows do not suffice. Leave it out or use fewer folds."
                )
            weighing = RatioWeighing.fit(brief, rows, folds, own)
        else:
            weighing = TableWeighing.fit(brief, rows)
        if folds is None:
            return Work(rows, weighing, None, (), None)
        if isinstance(model, LinearRegression):
            powers = sorted({power_of(candidate) for candidate in candidates})
            sums = LinearSums.of(rows, weighing, folds, powers, intercept=model.intercept)
            paths = [
                sums.path(turn.train, _column(weighing, k), model, candidates)
                for k, turn in enumerate(folds.turns)
            ]
            return Work(rows, weighing, folds, paths, sums)
        return Work(
            rows, weighing, folds, _fit_held(brief, rows, weighing, folds, model, candidates), None
        )


def measure(brief: Brief, work: Work, n_candidates: int, loss: Loss) -> Measurement:
    """Judge every candidate on rows that its models have not seen.

    Parameters
    ----------
    brief : Brief
    work : Work
    n_candidates : int
    loss : Loss
    """
    with one_blas_thread():
        sums = _judge(brief, work, n_candidates, loss)
    total = sums.total  # of the rows that are judged: 1, but for a split
    ess = total**2 / sums.squares if total > 0.0 else 0.0
    variance = np.zeros(n_candidates)
    if work.folds is not None and total > 0.0:
        variance = sampling_variance(sums.spread / total, sums.squared_spread / total**2, ess)
    failed, texts, findings = _failures(work, n_candidates, sums.failed)
    risk = sums.mean.copy()
    gone = list(failed)
    risk[gone], variance[gone] = 0.0, 0.0
    return Measurement(
        n_judged=sums.n_judged,
        n_folds=0 if work.folds is None else work.folds.n_folds,
        effective_rows=ess if work.weighing.total > 0.0 else 0.0,
        largest_share=sums.largest / total if ess and work.weighing.total > 0.0 else 0.0,
        difference_before=sums.before / sums.n_rows,
        difference_after=sums.after / total if ess else sums.before / sums.n_rows,
        outcome_mean=sums.outcome / total if ess else sums.outcome,
        correlations=_correlations(brief, work),
        risk=risk,
        variance=variance,
        moments=sums.moments,
        failed=failed,
        texts=texts,
        findings=(*work.weighing.findings, *findings),
    )


def fit_chosen(
    brief: Brief, work: Work, model: Model, candidate: Candidate
) -> tuple[FittedModel | None, int]:
    """The model that is sent, None if it could not be fitted, and on how many rows it was fitted.

    Parameters
    ----------
    brief : Brief
    work : Work
    model : Model
    candidate : Candidate
    """
    rows, weighing, folds = work.rows, work.weighing, work.folds
    if folds is None:
        return None, 0
    every = tuple(range(folds.n_folds))
    parts = every if brief.refit else folds.turns[0].train
    column = weighing.n_columns - 1 if brief.refit else 0
    with one_blas_thread():
        if work.sums is not None and isinstance(model, LinearRegression):
            path = work.sums.path(parts, column, model, [candidate])
            return path.models[0], work.sums.n_rows(parts)
        whole = rows.whole()
        train = np.isin(folds.labels(whole), parts)
        rng = generator_for(brief.seed, rows.source, "model-refit" if brief.refit else "model-0")
        ratios = weighing.training(whole)[train, column]
        path = model.fit(whole.seen[train], whole.y[train], ratios, [candidate], rng)
        return path.models[0], int(train.sum())


# Models that need their rows ------------------------------------------------------------------


def _fit_held(
    brief: Brief,
    rows: StudyRows,
    weighing: Weighing,
    folds: Folds,
    model: Model,
    candidates: Sequence[Candidate],
) -> list[Path]:
    whole = rows.whole()
    labels, ratios = folds.labels(whole), weighing.training(whole)
    paths = []
    for k, turn in enumerate(folds.turns):
        rng = generator_for(brief.seed, rows.source, f"model-{k}")
        train = np.isin(labels, turn.train)
        own = ratios[train, _column(weighing, k)]
        paths.append(model.fit(whole.seen[train], whole.y[train], own, candidates, rng))
    return paths


def _column(weighing: Weighing, turn: int) -> int:
    """Which training weights a turn has: its own, or those that all share."""
    return turn if weighing.n_columns > 1 else 0


def _too_large(rows: StudyRows, n_candidates: int) -> DataError:
    gib = 8.0 * rows.n_rows * (4 * len(rows.columns) + 3 * n_candidates) / 2**30
    return DataError(
        f"Source {rows.source!r} is read in batches, which suits ridge and least squares and the "
        f"exchange of a table; this study needs its {rows.n_rows} rows in memory, about "
        f"{gib:.1f} GiB. Read them whole, or choose a linear model."
    )


# Judging ------------------------------------------------------------------------------------


@dataclass
class _Judged:
    """Sums over judged rows; they merge batch by batch without cancelling."""

    n_rows: int
    n_judged: int
    before: Array  # Σ z
    after: Array  # Σ w z
    outcome: Array  # Σ w y, or of every class
    total: float  # Σ w
    squares: float  # Σ w²
    largest: float  # max w
    mean: Array  # Σ w L / Σ w
    spread: Array  # Σ w (L − mean)²
    squared_mean: Array  # Σ w² L / Σ w²
    own_squared_spread: Array  # Σ w² (L − squared_mean)²
    moments: RiskMoments | None
    failed: dict[int, str]

    def merge(self, other: _Judged) -> _Judged:
        total, squares = self.total + other.total, self.squares + other.squares
        share = other.total / total if total > 0.0 else 0.0
        share2 = other.squares / squares if squares > 0.0 else 0.0
        gap, gap2 = other.mean - self.mean, other.squared_mean - self.squared_mean
        moments = self.moments
        if moments is not None and other.moments is not None:
            moments = moments.merge(other.moments)
        return _Judged(
            n_rows=self.n_rows + other.n_rows,
            n_judged=self.n_judged + other.n_judged,
            before=self.before + other.before,
            after=self.after + other.after,
            outcome=self.outcome + other.outcome,
            total=total,
            squares=squares,
            largest=max(self.largest, other.largest),
            mean=self.mean + share * gap,
            spread=self.spread + other.spread + self.total * share * gap**2,
            squared_mean=self.squared_mean + share2 * gap2,
            own_squared_spread=(
                self.own_squared_spread + other.own_squared_spread + self.squares * share2 * gap2**2
            ),
            moments=moments if self.moments is not None else other.moments,
            failed={**other.failed, **self.failed},
        )

    @property
    def squared_spread(self) -> Array:
        """Σ w² (L − f)²."""
        found: Array = self.own_squared_spread + self.squares * (self.squared_mean - self.mean) ** 2
        return found


def _judge(brief: Brief, work: Work, n_candidates: int, loss: Loss) -> _Judged:
    """One pass: losses of every candidate under the weights."""
    folds, weighing, n_classes = work.folds, work.weighing, len(brief.classes)

    def of_batch(batch: Batch) -> _Judged:
        w = weighing.judging(batch)
        losses = np.zeros((len(w), n_candidates))
        failed: dict[int, str] = {}
        judged = np.arange(len(w))
        if folds is not None:
            labels = folds.labels(batch)
            seen = np.zeros(len(w), dtype=bool)
            for turn, path in zip(folds.turns, work.paths, strict=True):
                here = np.flatnonzero(labels == turn.judge)
                if len(here):
                    losses[here], fresh = path_losses(path, batch.seen[here], batch.y[here], loss)
                    failed.update(fresh)
                    seen[here] = True
            judged = np.flatnonzero(seen)
        w, L, y, z = w[judged], losses[judged], batch.y[judged], batch.z[judged]
        total, squared = float(w.sum()), w * w
        squares = float(squared.sum())
        mean = w @ L / total if total > 0.0 else np.zeros(n_candidates)
        mean2 = squared @ L / squares if squares > 0.0 else np.zeros(n_candidates)
        moments = None
        if brief.moments and len(judged):
            moments = RiskMoments.of(weighing.total * w, L)
        return _Judged(
            n_rows=len(batch.y),
            n_judged=len(judged),
            before=batch.z.sum(axis=0),
            after=w @ z,
            outcome=class_sums(y, w, n_classes),
            total=total,
            squares=squares,
            largest=float(w.max(initial=0.0)),
            mean=mean,
            spread=w @ (L - mean) ** 2,
            squared_mean=mean2,
            own_squared_spread=squared @ (L - mean2) ** 2,
            moments=moments,
            failed=failed,
        )

    found: _Judged | None = None
    for item in in_order(of_batch, work.rows):
        found = item if found is None else found.merge(item)
    assert found is not None  # noqa: S101 - there is a row
    return found


def class_sums(y: Array, weights: Array, n_classes: int) -> Array:
    """Σ w y as one number, or the summed weight of every class.

    Parameters
    ----------
    y : array of shape (rows,)
    weights : array of shape (rows,)
    n_classes : int
        0 for numbers.
    """
    if not n_classes:
        return np.array([float(weights @ y)])
    sums = np.bincount(y.astype(np.intp), weights=weights, minlength=n_classes)
    return sums.astype(np.float64, copy=False)


def _failures(
    work: Work, n_candidates: int, while_judging: Mapping[int, str]
) -> tuple[dict[int, str], dict[int, str], list[Finding]]:
    """Failed candidates by kind and in their own words, and warnings of the model library."""
    if work.folds is None:
        return dict.fromkeys(range(n_candidates), "TooFewOutcomes"), {}, []
    failed, texts, warned = dict(while_judging), dict[int, str](), dict[str, int]()
    for path in work.paths:
        failed.update(path.failures)
        texts.update(path.texts)
        for name, count in path.warned.items():
            warned[name] = warned.get(name, 0) + count
    findings = [
        Finding("fit-warning", evidence={"warning": name, "count": float(count)})
        for name, count in warned.items()
    ]
    return failed, texts, findings


def _correlations(brief: Brief, work: Work) -> Array:
    """Weighted correlations of every pair, where the target tells none of its own."""
    d = len(brief.features)
    told = brief.exchange == "rows" or len(brief.correlations) > 0
    if told or not 2 <= d <= MOST_CORRELATED or not isinstance(work.weighing, TableWeighing):
        return np.empty(0)
    own: Array = work.weighing.tilt.own_correlations[np.triu_indices(d, 1)]
    return np.round(own, 2)

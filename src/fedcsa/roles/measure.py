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
from fedcsa.core.folds import generator_for
from fedcsa.core.losses import Loss
from fedcsa.core.parallel import in_order, one_blas_thread
from fedcsa.core.ridge import merge_triangles, triangle, triangle_path
from fedcsa.core.risk import RiskMoments
from fedcsa.core.weights import check_power
from fedcsa.errors import DataError
from fedcsa.findings import Finding
from fedcsa.models.base import RATIO_POWER, Candidate, Model, Path, path_losses
from fedcsa.models.fitted import FittedModel, LinearModel
from fedcsa.models.linear import LinearRegression
from fedcsa.protocol.messages import Brief
from fedcsa.roles.rows import Batch, StudyRows
from fedcsa.roles.weighing import Folds, RatioWeighing, TableWeighing, Weighing, folds_of

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


def sampling_variance(spread: Array, squared_spread: Array, effective_rows: float) -> Array:
    """V = max(Σ w²(L − f)², V/ESS) · ESS/max(ESS − 1, ½).

    Parameters
    ----------
    spread : array
        V = Σ w (L − f)².
    squared_spread : array
        Σ w² (L − f)².
    effective_rows : float
        ESS.
    """
    ess = effective_rows
    variance: Array = np.maximum(squared_spread, spread / ess) * (ess / max(ess - 1.0, 0.5))
    return variance


def power_of(candidate: Candidate) -> float:
    """γ of a candidate, 0 unless it names one."""
    return check_power(float(candidate.get(RATIO_POWER, 0.0)))


# Linear models from sums --------------------------------------------------------------------


@dataclass(frozen=True)
class LinearSums:
    """Triangles of the rows (1, x, y) of every part, for every kind and power of training weights.

    Attributes
    ----------
    triangles : array of shape (columns, powers, parts, size, size)
        R with RᵀR = Σ t^γ aaᵀ over a part's rows, a = (1, x, y) less the shift.
    totals : array of shape (columns, powers, parts)
        Σ t^γ.
    counts : array of shape (parts,)
        Rows.
    powers : sequence of float
    shift : array of shape (features + 1,)
        Taken off x and y before they are multiplied, so that no digits cancel.
    """

    triangles: Array
    totals: Array
    counts: Array
    powers: Sequence[float]
    shift: Array

    @classmethod
    def of(
        cls,
        rows: StudyRows,
        weighing: Weighing,
        folds: Folds,
        powers: Sequence[float],
        *,
        intercept: bool,
    ) -> LinearSums:
        """One pass over the rows.

        Parameters
        ----------
        rows : StudyRows
        weighing : Weighing
        folds : Folds
        powers : sequence of float
        intercept : bool
        """
        first = next(iter(rows))
        shift = _pilot_shift(first.seen, first.y, intercept=intercept)
        n_columns, n_parts = weighing.n_columns, folds.n_folds
        # Without a power the training weights are all one, whatever the column.
        kinds = [
            (c, p) for c in range(n_columns) for p, power in enumerate(powers) if power or not c
        ]

        def of_batch(batch: Batch) -> tuple[Array, Array, Array]:
            labels = folds.labels(batch)
            design = np.column_stack([np.ones(len(batch.y)), batch.seen, batch.y])
            design[:, 1:] -= shift
            ratios = weighing.training(batch) if any(powers) else np.ones((len(labels), 1))
            size = design.shape[1]
            triangles = np.zeros((n_columns, len(powers), n_parts, size, size))
            totals = np.zeros((n_columns, len(powers), n_parts))
            counts = np.bincount(labels, minlength=n_parts).astype(np.float64)
            for part in range(n_parts):
                here = np.flatnonzero(labels == part)
                own, weights = design[here], ratios[here]
                for column, p in kinds:
                    if powers[p]:
                        root = weights[:, column] ** (0.5 * powers[p])
                        totals[column, p, part] = root @ root
                        triangles[column, p, part] = triangle(own * root[:, None])
                    else:
                        totals[column, p, part] = len(here)
                        triangles[column, p, part] = triangle(own)
            return triangles, totals, counts

        found: tuple[Array, Array, Array] | None = None
        for item in in_order(of_batch, rows):
            found = item if found is None else (
                merge_triangles(found[0], item[0]), found[1] + item[1], found[2] + item[2]
            )  # fmt: skip
        assert found is not None  # noqa: S101 - there is a row
        triangles, totals, counts = found
        for p, power in enumerate(powers):
            if not power:
                triangles[1:, p], totals[1:, p] = triangles[0, p], totals[0, p]
        return cls(triangles, totals, counts, powers, shift)

    def n_rows(self, parts: Sequence[int]) -> int:
        """Rows of some parts together."""
        return int(self.counts[list(parts)].sum())

    def path(
        self,
        parts: Sequence[int],
        column: int,
        model: LinearRegression,
        candidates: Sequence[Candidate],
    ) -> Path:
        """Every candidate, fitted on some parts with one kind of training weights.

        Parameters
        ----------
        parts : sequence of int
        column : int
        model : LinearRegression
        candidates : sequence of Candidate
        """
        models: list[FittedModel | None] = [None] * len(candidates)
        failures: dict[int, str] = {}
        x_shift, y_shift = self.shift[:-1], self.shift[-1]
        for p, power in enumerate(self.powers):
            members = [i for i, candidate in enumerate(candidates) if power_of(candidate) == power]
            if not members:
                continue
            total = float(self.totals[column, p, list(parts)].sum())
            if not total > 0.0:
                failures.update(dict.fromkeys(members, "ZeroWeights"))
                continue
            R = merge_triangles(*self.triangles[column, p, list(parts)])
            penalties = model.penalties([candidates[i] for i in members], total)
            slopes, intercepts = triangle_path(
                R, penalties, total, self.n_rows(parts), intercept=model.intercept
            )
            intercepts = intercepts + y_shift - x_shift @ slopes
            for k, index in enumerate(members):
                models[index] = LinearModel(slopes[:, k].copy(), float(intercepts[k]))
        return Path(tuple(models), failures)


def _pilot_shift(X: Array, y: Array, *, intercept: bool) -> Array:
    """What to take off x and y: about their means; nothing if the line goes through the origin.

    A constant column is shifted to exact zeros.
    """
    columns = np.column_stack([X, y])
    if not intercept:
        return np.zeros(columns.shape[1])
    constant = np.ptp(columns, axis=0) == 0.0
    shift: Array = np.where(constant, columns[0], columns.mean(axis=0))
    return shift


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

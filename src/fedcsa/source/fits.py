"""Fits of a source's models on parts of its rows, from sums where that can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.batches import in_order
from fedcsa.core.folds import generator_for
from fedcsa.core.ridge import merge_triangles, triangle, triangle_path
from fedcsa.errors import PolicyError
from fedcsa.messages.messages import Brief, ModelReport, ModelRequest
from fedcsa.models.description import Candidate
from fedcsa.models.fitted import EstimatorModel, FittedModel
from fedcsa.models.model import LinearRegression, Model, Path, power_of
from fedcsa.models.portable import LinearModel
from fedcsa.source.weigh import Batch, Folds, StudyRows, Weighing


@dataclass(frozen=True)
class Job:
    """One fit: on which parts, with which training weights, by which random numbers.

    Attributes
    ----------
    parts : sequence of int
        Of the folds.
    column : int
        Of `Weighing.training`.
    purpose : str
        Names the random numbers.
    """

    parts: Sequence[int]
    column: int
    purpose: str


@dataclass(frozen=True)
class RowFits:
    """Fits of a model that needs its rows in memory."""

    seed: int
    rows: StudyRows = field(repr=False)
    weighing: Weighing = field(repr=False)
    folds: Folds = field(repr=False)
    model: Model

    def paths(self, jobs: Sequence[Job], candidates: Sequence[Candidate]) -> list[Path]:
        """Every candidate, once for every job.

        Parameters
        ----------
        jobs : sequence of Job
        candidates : sequence of Candidate
        """
        whole = self.rows.whole()
        labels, ratios = self.folds.labels(whole), self.weighing.training(whole)
        found = []
        for job in jobs:
            rng = generator_for(self.seed, self.rows.source, job.purpose)
            train = np.isin(labels, job.parts)
            own = ratios[train, job.column]
            found.append(self.model.fit(whole.seen[train], whole.y[train], own, candidates, rng))
        return found


#: Triangles, sums of training weights and numbers of rows of some batches.
_Sums = tuple[Array, Array, Array]


@dataclass(frozen=True)
class LinearFits:
    """Fits of linear models from triangles of the rows (1, x, y) of every part.

    Attributes
    ----------
    model : LinearRegression
    kinds : sequence of (int, float)
        Column and power γ of the training weights t^γ; without a power the column is 0.
    triangles : array of shape (kinds, parts, size, size)
        R with RᵀR = Σ t^γ aaᵀ over a part's rows, a = (1, x, y) less the shift.
    totals : array of shape (kinds, parts)
        Σ t^γ.
    counts : array of shape (parts,)
        Rows.
    shift : array of shape (features + 1,)
        Taken off x and y before they are multiplied, so that no digits cancel.
    """

    model: LinearRegression
    kinds: Sequence[tuple[int, float]]
    triangles: Array = field(repr=False)
    totals: Array = field(repr=False)
    counts: Array = field(repr=False)
    shift: Array = field(repr=False)

    @classmethod
    def of(
        cls,
        model: LinearRegression,
        rows: StudyRows,
        weighing: Weighing,
        folds: Folds,
        candidates: Sequence[Candidate],
    ) -> LinearFits:
        """One pass over the rows.

        Parameters
        ----------
        model : LinearRegression
        rows : StudyRows
        weighing : Weighing
        folds : Folds
        candidates : sequence of Candidate
            Whose powers of the training weights are needed.
        """
        first = next(iter(rows))
        shift = _pilot_shift(first.seen, first.y, intercept=model.intercept)
        powers = sorted({power_of(candidate) for candidate in candidates})
        kinds = [(c, p) for c in range(weighing.n_columns) for p in powers if p or not c]

        def of_batch(batch: Batch) -> _Sums:
            labels = folds.labels(batch)
            design = np.column_stack([np.ones(len(batch.y)), batch.seen, batch.y])
            design[:, 1:] -= shift
            ratios = weighing.training(batch) if any(powers) else np.ones((len(labels), 1))
            size = design.shape[1]
            triangles = np.zeros((len(kinds), folds.n_folds, size, size))
            totals = np.zeros((len(kinds), folds.n_folds))
            for part in range(folds.n_folds):
                here = np.flatnonzero(labels == part)
                own, weights = design[here], ratios[here]
                for k, (column, power) in enumerate(kinds):
                    root = weights[:, column] ** (0.5 * power) if power else None
                    totals[k, part] = len(here) if root is None else root @ root
                    triangles[k, part] = triangle(own if root is None else own * root[:, None])
            return triangles, totals, np.bincount(labels, minlength=folds.n_folds).astype(float)

        def merged(a: _Sums, b: _Sums) -> _Sums:
            """The sums of two batches.

            Parameters
            ----------
            a, b : _Sums
            """
            return merge_triangles(a[0], b[0]), a[1] + b[1], a[2] + b[2]

        return cls(model, kinds, *reduce(merged, in_order(of_batch, rows)), shift)

    def paths(self, jobs: Sequence[Job], candidates: Sequence[Candidate]) -> list[Path]:
        """Every candidate, once for every job.

        Parameters
        ----------
        jobs : sequence of Job
        candidates : sequence of Candidate
        """
        return [self._path(job, candidates) for job in jobs]

    def _path(self, job: Job, candidates: Sequence[Candidate]) -> Path:
        """Every candidate by one job.

        Parameters
        ----------
        job : Job
        candidates : sequence of Candidate
        """
        models: list[FittedModel | None] = [None] * len(candidates)
        failures: dict[int, str] = {}
        parts, n_rows = list(job.parts), int(self.counts[list(job.parts)].sum())
        x_shift, y_shift = self.shift[:-1], self.shift[-1]
        powers = [power_of(candidate) for candidate in candidates]
        for power in sorted(set(powers)):
            members = [index for index, own in enumerate(powers) if own == power]
            kind = self.kinds.index((job.column if power else 0, power))
            total = float(self.totals[kind, parts].sum())
            if not total > 0.0:
                failures.update(dict.fromkeys(members, "ZeroWeights"))
                continue
            R = merge_triangles(*self.triangles[kind, parts])
            penalties = self.model.penalties([candidates[i] for i in members], total)
            slopes, intercepts = triangle_path(
                R, penalties, total, n_rows, intercept=self.model.intercept
            )
            intercepts = intercepts + y_shift - x_shift @ slopes
            for k, index in enumerate(members):
                models[index] = LinearModel(slopes[:, k].copy(), float(intercepts[k]))
        return Path(tuple(models), failures, n_rows=n_rows)


#: Whatever fits the models of a source.
Fits = LinearFits | RowFits


def _pilot_shift(X: Array, y: Array, *, intercept: bool) -> Array:
    """What to take off x and y: about their means, a constant column as a whole.

    Parameters
    ----------
    X : array of shape (rows, features)
    y : array of shape (rows,)
    intercept : bool
        Without one the line goes through the origin, and nothing is taken off.

    Returns
    -------
    array of shape (features + 1,)
    """
    columns = np.column_stack([X, y])
    if not intercept:
        return np.zeros(columns.shape[1])
    constant = np.ptp(columns, axis=0) == 0.0
    shift: Array = np.where(constant, columns[0], columns.mean(axis=0))
    return shift


def fits_of(
    brief: Brief,
    rows: StudyRows,
    weighing: Weighing,
    folds: Folds,
    model: Model,
    candidates: Sequence[Candidate],
) -> Fits:
    """Whatever fits `model` on parts of the rows.

    Parameters
    ----------
    brief : Brief
    rows : StudyRows
    weighing : Weighing
    folds : Folds
    model : Model
    candidates : sequence of Candidate
    """
    if isinstance(model, LinearRegression):
        return LinearFits.of(model, rows, weighing, folds, candidates)
    return RowFits(brief.seed, rows, weighing, folds, model)


def model_report(
    request: ModelRequest, in_reply_to: str, source: str, path: Path, *, show: bool
) -> ModelReport:
    """The message that carries the one model of a path.

    Parameters
    ----------
    request : ModelRequest
    in_reply_to : str
        Hash of the request.
    source : str
    path : Path
    show : bool
        Whether the target may show the model.
    """
    [fitted] = path.models
    if fitted is None:
        raise PolicyError(
            "fit_failed",
            "The chosen candidate could not be fitted here; leave it out of the study.",
        )
    return ModelReport(
        study=request.study,
        source=source,
        in_reply_to=in_reply_to,
        candidate=request.candidate,
        n_rows=path.n_rows,
        show=show,
        form=fitted.form,
        arrays=fitted.arrays,
        held=fitted if isinstance(fitted, EstimatorModel) else None,
    )

"""Fits of a source's models on parts of its rows, from sums where that can be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.core.batches import over_blocks
from fedcsa.core.folds import generator_for
from fedcsa.core.ridge import merge_triangles, product_triangle, triangle, triangle_path
from fedcsa.core.tilt import Tilt
from fedcsa.messages.fields import to_json
from fedcsa.models.description import RATIO_POWER, Candidate
from fedcsa.models.model import (
    LinearRegression,
    Model,
    Path,
    path_of_lines,
    predicted_or_why_not,
)
from fedcsa.source.processes import on_all_cores, shared_zeros
from fedcsa.source.weigh import Batch, Folds, StudyRows, Weighing, weights_of


@dataclass(frozen=True)
class Job:
    """One fit: on which parts, with which training weights, by which random numbers.

    Attributes
    ----------
    parts : sequence of int
        Of the folds.
    column : int
        Of the training weights, see `fedcsa.source.weigh.weights_of`.
    purpose : str
        Names the random numbers.
    """

    parts: Sequence[int]
    column: int
    purpose: str


@dataclass(frozen=True)
class _Fits:
    """What fits of every kind rest on.

    Attributes
    ----------
    rows : StudyRows
    weighing : Weighing
    folds : Folds
    model : Model
    turns : sequence of Job
        The fits whose models are judged: one without each turn's part.
    sent : Job
        That of the model that is sent.
    """

    rows: StudyRows = field(repr=False)
    weighing: Weighing = field(repr=False)
    folds: Folds = field(repr=False)
    model: Model
    turns: Sequence[Job] = field(repr=False)
    sent: Job = field(repr=False)


class RowFits(_Fits):
    """Fits of a model that needs its rows in memory."""

    def paths(self, jobs: Sequence[Job], candidates: Sequence[Candidate]) -> list[Path]:
        """Every candidate, once for every job.

        Parameters
        ----------
        jobs : sequence of Job
        candidates : sequence of Candidate
        """
        whole = self.rows.whole()
        labels, (_, ratios) = self.folds.labels(whole), weights_of(self.weighing, whole)
        return [self._path(job, candidates, whole, labels, ratios) for job in jobs]

    def _path(
        self,
        job: Job,
        candidates: Sequence[Candidate],
        whole: Batch,
        labels: NDArray[np.int16],
        ratios: Array,
    ) -> Path:
        """Every candidate by one job.

        Parameters
        ----------
        job : Job
        candidates : sequence of Candidate
        whole : Batch
            All rows.
        labels : array of shape (rows,)
            Their parts.
        ratios : array of shape (rows, columns)
            Their training weights.
        """
        rng = generator_for(self.rows.brief.seed, self.rows.source, job.purpose)
        train = np.isin(labels, job.parts)
        own = ratios[train, job.column]
        return self.model.fit(whole.seen[train], whole.y[train], own, candidates, rng)

    def held_out(self, candidates: Sequence[Candidate]) -> tuple[Array, list[Path]]:
        """What every candidate predicts for rows that it has not seen, by fits on all cores.

        Returns
        -------
        outputs : array of shape (candidates, rows) or (candidates, rows, classes)
            0 where no model predicts.
        paths : list of Path
            Of every turn, without the models: whoever needs one fits it again.
        """
        # Here: scikit-learn takes a second to load, and linear models do without it.
        from fedcsa.models.estimators import can_be_forked, one_openmp_thread

        keys, known = [self._key(candidate) for candidate in candidates], self.rows.judged
        fresh = [index for index, key in enumerate(keys) if key not in known]

        jobs, whole = self.turns, self.rows.whole()
        labels, (_, ratios) = self.folds.labels(whole), weights_of(self.weighing, whole)
        judged = [np.flatnonzero(labels == turn.judge) for turn in self.folds.turns]
        classes = [self.model.n_classes] if self.model.n_classes else []
        outputs = shared_zeros([len(candidates), len(labels), *classes])

        def task(number: int) -> str:
            index, k = fresh[number // len(jobs)], number % len(jobs)
            path = self._path(jobs[k], [candidates[index]], whole, labels, ratios)
            [model], failure = path.models, path.failures.get(0, "")
            if model is not None and len(judged[k]):
                with one_openmp_thread():
                    output, failure = predicted_or_why_not(model, whole.seen[judged[k]])
                if output is not None:
                    outputs[index, judged[k]] = output
            return json.dumps([failure, path.texts.get(0, ""), path.warned, path.n_rows])

        workers = None if can_be_forked(self.model, candidates) else 1
        said = [*map(json.loads, on_all_cores(task, len(fresh) * len(jobs), workers))]
        told: dict[int, list[Any]] = {}
        for place, index in enumerate(fresh):
            told[index] = said[place * len(jobs) : (place + 1) * len(jobs)]
            if keys[index]:
                known[keys[index]] = outputs[index], told[index]
        for index in sorted({*range(len(candidates))} - {*fresh}):
            outputs[index], told[index] = known[keys[index]]
        of_turns = zip(*(told[index] for index in range(len(candidates))), strict=True)
        return outputs, [_without_models(turn) for turn in of_turns]

    def _key(self, candidate: Candidate) -> str:
        """Under which the fits of a candidate are kept; empty if they depend on the target.

        They do by its units, by weights that match its table, and by the grid of trees.
        """
        from fedcsa.models.estimators import needs_grid

        brief, folds = self.rows.brief, self.folds
        weighted = bool(candidate.get(RATIO_POWER))
        if brief.scale or weighted or folds.dealt is not None or needs_grid(self.model):
            return ""
        about = (brief.model, brief.features, brief.group, brief.classes, brief.seed)
        try:
            return to_json([*about, folds.n_folds, folds.key, dict(candidate)])
        except (TypeError, ValueError):  # it brings an estimator, or a number that is none
            return ""


def _without_models(told: Sequence[tuple[str, str, dict[str, int], int]]) -> Path:
    """A turn's path without its models, from the failure, its text, the warnings and the rows."""
    return Path(
        (),
        {index: failure for index, (failure, *_) in enumerate(told) if failure},
        dict(sum((Counter(warned) for *_, warned, _ in told), Counter[str]())),
        {index: text for index, (_, text, *_) in enumerate(told) if text},
        told[0][-1],
    )


@dataclass(frozen=True)
class LinearFits(_Fits):
    """Fits of linear models from sums over the rows (1, x, y) of every part.

    Products serve where they keep enough digits. Where columns are nearly collinear in some part,
    triangles take their place, which cost another pass. The largest array is (1, x, y) of a block,
    on every core.

    Attributes
    ----------
    kinds : sequence of (int, float)
        Column and power γ of the training weights t^γ; first without a power, where the column
        is 0.
    shift : array of shape (features + 1,)
        Taken off x and y before they are multiplied, so that no digits cancel.
    """

    model: LinearRegression
    kinds: Sequence[tuple[int, float]]
    shift: Array = field(repr=False)

    @cached_property
    def products(self) -> Array:
        """Σ t^γ aaᵀ of a part, a = (1, x, y) less the shift, shape (kinds, parts, size, size)."""
        return over_blocks(self.rows, self._sums, np.add)

    @cached_property
    def triangles(self) -> Array:
        """R with RᵀR = Σ t^γ aaᵀ, of the same shape."""
        return over_blocks(self.rows, partial(self._sums, exact=True), merge_triangles)

    def _sums(self, batch: Batch, *, exact: bool = False) -> Array:
        """Products over a few rows, of every part with every kind of weights.

        Parameters
        ----------
        batch : Batch
        exact : bool
            Whether to make triangles instead.
        """
        labels = self.folds.labels(batch)
        order = labels.argsort(kind="stable")
        ends = np.searchsorted(labels[order], np.arange(self.folds.n_folds + 1))
        design = np.empty((batch.seen.shape[1] + 2, len(order)))
        design[0] = 1.0
        np.take(batch.seen.T, order, axis=1, out=design[1:-1], mode="clip")
        design[-1] = batch.y[order]
        design[1:] -= self.shift[:, None]
        rooted, ratios = design, np.empty((0, 0))
        if len(self.kinds) > 1:
            ratios = weights_of(self.weighing, batch)[1][order]
        found = np.zeros((len(self.kinds), self.folds.n_folds, len(design), len(design)))
        for kind, (column, power) in enumerate(self.kinds):
            if power:
                rooted = design * ratios[:, column] ** (0.5 * power)
            for part, (start, stop) in enumerate(pairwise(ends)):
                a = rooted[:, start:stop]
                found[kind, part] = triangle(a.T) if exact else a @ a.T
        return found

    def paths(self, jobs: Sequence[Job], candidates: Sequence[Candidate]) -> list[Path]:
        """Every candidate, once for every job.

        Parameters
        ----------
        jobs : sequence of Job
        candidates : sequence of Candidate
        """
        by_power, found = dict[float, dict[int, Candidate]](), []
        for index, candidate in enumerate(candidates):
            by_power.setdefault(candidate.get(RATIO_POWER, 0.0), {})[index] = candidate
        for job in jobs:
            lines = np.zeros((len(self.shift), len(candidates)))  # slopes, and the intercept last
            failures, parts = dict[int, str](), list(job.parts)
            n_rows = int(self.products[0, parts, 0, 0].sum())
            for power, members in by_power.items():
                kind = self.kinds.index((job.column if power else 0, power))
                total = float(self.products[kind, parts, 0, 0].sum())
                if not total > 0.0:
                    failures.update(dict.fromkeys(members, "ZeroWeights"))
                    continue
                penalties = self.model.penalties([*members.values()], total)
                R = product_triangle(self.products[kind, parts].sum(axis=0))
                if R is None:  # products have lost their digits
                    R = merge_triangles(*self.triangles[kind, parts])
                slopes, intercepts = triangle_path(
                    R, penalties, total, n_rows, intercept=self.model.intercept
                )
                lines[:-1, [*members]] = slopes
                lines[-1, [*members]] = intercepts + self.shift[-1] - self.shift[:-1] @ slopes
            found.append(path_of_lines(lines[:-1], lines[-1], failures, n_rows))
        return found


#: Whatever fits the models of a source.
Fits = LinearFits | RowFits


def fits_of(
    rows: StudyRows,
    weighing: Weighing,
    folds: Folds,
    model: Model,
    candidates: Sequence[Candidate],
) -> Fits:
    """Whatever fits `model` on parts of the rows.

    Parameters
    ----------
    rows : StudyRows
    weighing : Weighing
    folds : Folds
    model : Model
    candidates : sequence of Candidate
        Whose powers of the training weights are needed.
    """
    # All turns share one column of training weights, or each has its own and all rows the last.
    last = 0 if isinstance(weighing, Tilt) else len(folds.turns)
    turns = [Job(t.train, min(k, last), f"model-{k}") for k, t in enumerate(folds.turns)]
    sent = Job(range(folds.n_folds), last, "model-refit") if rows.brief.refit else turns[0]
    if not isinstance(model, LinearRegression):
        return RowFits(rows, weighing, folds, model, turns, sent)
    [first] = next(iter(rows.by_batch))
    columns = np.column_stack([first.seen, first.y])
    # About the means; a constant column as a whole. A line through the origin stays there.
    shift = np.zeros(columns.shape[1])
    if model.intercept:
        constant = np.ptp(columns, axis=0) == 0.0
        shift = np.where(constant, columns[0], columns.mean(axis=0))
    powers = {float(candidate.get(RATIO_POWER, 0.0)) for candidate in candidates} - {0.0}
    # Without a power, sums are counts.
    kinds = [(0, 0.0), *product(range(last + 1), sorted(powers))]
    return LinearFits(rows, weighing, folds, model, turns, sent, kinds, shift)

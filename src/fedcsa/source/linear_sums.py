"""Linear models of every candidate from sums over the rows, which need not fit into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.batches import in_order
from fedcsa.core.ridge import merge_triangles, triangle, triangle_path
from fedcsa.core.weights import check_power
from fedcsa.models.fitted import FittedModel, LinearModel
from fedcsa.models.linear import LinearRegression
from fedcsa.models.model import RATIO_POWER, Candidate, Path
from fedcsa.source.site_rows import Batch, StudyRows
from fedcsa.source.weigh import Folds, Weighing


def power_of(candidate: Candidate) -> float:
    """γ of a candidate, 0 unless it names one."""
    return check_power(float(candidate.get(RATIO_POWER, 0.0)))


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

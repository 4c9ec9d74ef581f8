"""The target's rows: the table that they tell, and how the mixture scores them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fedcsa.core.arrays import Array, as_matrix, read_only
from fedcsa.core.batches import HeldRows, RowBatches
from fedcsa.core.scores import OwnScores
from fedcsa.core.table import Moments, Table1, moments_of
from fedcsa.errors import DataError, must
from fedcsa.findings import Finding

if TYPE_CHECKING:
    from fedcsa.plan import Plan

#: A flag or a level of fewer patients is named: statistical offices ask for as many.
SMALL_LEVEL = 5
#: Models are compared on as many of the target's rows: a mean over them is off by a three hundredth
#: of its sd, and they are held.
COMPARED_ROWS = 100_000


@dataclass(frozen=True)
class TargetRows:
    """The target's rows, held or read in batches.

    Attributes
    ----------
    batches : RowBatches
    moments : Moments
        Of all of them.
    """

    batches: RowBatches
    moments: Moments

    @cached_property
    def sample(self) -> Array:
        """Every k-th row, `COMPARED_ROWS` at most: all rows of a target that has no more.

        Models are compared on them: what that gives are means and medians over rows.
        """
        every = math.ceil(self.moments.n_rows / COMPARED_ROWS)
        if every == 1 and isinstance(self.batches, HeldRows):
            return self.batches.X
        kept, first = [], 0
        for X in self.batches:
            kept.append(X[-first % every :: every].copy())  # a view would hold the whole batch
            first += len(X)
        return np.concatenate(kept)


def rows_and_table(
    X: ArrayLike | RowBatches | Table1, plan: Plan, fewest: int = 0
) -> tuple[TargetRows | None, Table1]:
    """The target's rows, None if it gives only a table, and the table that it tells.

    Parameters
    ----------
    X : array of shape (rows, features), RowBatches or Table1
        Columns in the order of ``plan.features``; those of a table are brought into it.
    plan : Plan
    fewest : int
        A flag or level of fewer patients counts as having none.
    """
    if isinstance(X, Table1):
        return None, _in_order(X, plan)
    d = len(plan.features)
    if not isinstance(X, RowBatches):
        X = HeldRows(read_only(as_matrix(X, "X of the target", n_columns=d)))
    elif plan.exchange == "rows":  # they are sent as one matrix
        X = HeldRows(read_only(np.concatenate(list(X))))
    rows = TargetRows(X, moments_of(X, d))
    if (rows.moments.low == rows.moments.high).all():
        raise DataError(
            "The target must have at least 2 rows that differ, to say how it varies; it has 1. "
            "Collect more rows."
        )
    if plan.exchange == "rows":  # it tells its rows: means and sds as they are
        found, none = rows.sample, (False,) * d
        sd = found.std(axis=0)
        sd = np.where((np.ptp(found, axis=0) > 0.0) & (sd > 0.0), sd, 1.0)
        return rows, Table1(len(found), plan.features, none, found.mean(axis=0), sd)
    return rows, Table1.of(rows.moments, plan.features, plan.flags, plan.public_sd, fewest)


def small_levels(rows: Moments, plan: Plan) -> list[Finding]:
    """A finding if the table tells a flag or level that few patients have.

    Parameters
    ----------
    rows : Moments
    plan : Plan
    """
    rarest = rarest_level(rows, plan)
    if rarest is None or rarest[1] >= SMALL_LEVEL:
        return []
    column, patients = rarest
    return [Finding("small-level", evidence={"column": column, "patients": float(patients)})]


def rarest_level(rows: Moments, plan: Plan) -> tuple[str, int] | None:
    """The flag or level that fewest patients have, or lack, and how many; None without any.

    Parameters
    ----------
    rows : Moments
    plan : Plan
        Which features are flags; those called ``column=level`` are the levels of one column.
    """
    n, counts = rows.n_rows, dict[str, float]()
    first = dict[str, float]()  # of a column of levels, those who have none of the others
    for name, flag, count in zip(plan.features, plan.flags, rows.total, strict=True):
        if flag:
            column = name.partition("=")[0]
            counts[name] = count
            first[column] = first.get(column, float(n)) - count
    others = {f"{column}, first level": left for column, left in first.items()}
    few = ((name, int(min(count, n - count))) for name, count in {**counts, **others}.items())
    return min((item for item in few if item[1] > 0), key=lambda item: item[1], default=None)


def _in_order(table: Table1, plan: Plan) -> Table1:
    """The table with the columns of `plan` in its order.

    Parameters
    ----------
    table : Table1
    plan : Plan
    """
    if plan.exchange == "rows":
        raise must("X_target", "rows with exchange='rows'", "a table")
    missing = [name for name in plan.features if name not in table.features]
    if missing or len(table.features) != len(plan.features):
        raise DataError(
            f"The target's table must have the study's {len(plan.features)} features, and no "
            f"others; missing: {', '.join(map(repr, missing[:5])) or 'none'}."
        )
    order = [table.features.index(name) for name in plan.features]
    flags = tuple(table.flags[k] for k in order)
    if flags != plan.flags:
        raise DataError("The target's table must call the same features flags as the study does.")
    told = table.correlations
    if told is not None:
        told = told[np.ix_(order, order)]
    mean, sd = table.mean[order], table.sd[order]
    return Table1(table.n_rows, plan.features, flags, mean, sd, told)


def joined_scores(parts: Sequence[OwnScores]) -> OwnScores:
    """How all rows spread over the scores, from how those of every batch do."""
    counts = np.sum([part.shares * part.n_rows[:, None, None, None] for part in parts], axis=0)
    n = np.sum([part.n_rows for part in parts], axis=0)
    shares = counts / np.maximum(n, 1.0)[:, None, None, None]
    return OwnScores(parts[0].design, shares, n)


def merged_bins(own: OwnScores, min_rows: int) -> OwnScores:
    """The same with bins merged until each has enough rows; they stand at their mean score.

    A result may be told to whoever submitted the study.

    Parameters
    ----------
    own : OwnScores
    min_rows : int
    """
    shares = np.zeros_like(own.shares)
    n_rows = np.where(own.n_rows >= min_rows, own.n_rows, 0.0)
    for s, n in enumerate(n_rows):
        for c in range(shares.shape[1] if n else 0):
            for cell in _cells(own.shares[s, c] * n, min_rows):
                place = int(own.design.bins(np.array(cell[1] / cell[0])))
                shares[s, c, place] += cell / n
    return replace(own, shares=shares, n_rows=n_rows)


def _cells(bins: Array, min_rows: int) -> list[Array]:
    """Rows and their summed scores in every cell; what is left at the end joins the last.

    Parameters
    ----------
    bins : array of shape (bins, 2)
        Rows and summed scores of every bin.
    min_rows : int
    """
    cells: list[Array] = []
    held = np.zeros(2)
    for one in bins:
        held = held + one
        if held[0] >= min_rows - 1e-9:  # counts from shares, but for rounding
            cells.append(held)
            held = np.zeros(2)
    if cells:
        cells[-1] = cells[-1] + held
    return cells

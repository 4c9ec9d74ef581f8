"""How the target's own rows spread over the scores of the model that is judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.scores import OwnScores, ScoreDesign
from fedcsa.core.subgroups import members_of_subgroups
from fedcsa.core.table import Table1

if TYPE_CHECKING:
    from fedcsa.plan import Plan


def own_scores_of(
    design: ScoreDesign,
    plan: Plan,
    table: Table1,
    predicted: Iterable[tuple[Array, Array]],
    min_rows: int,
) -> OwnScores:
    """Of the target's rows, with no bin of few rows.

    Parameters
    ----------
    design : ScoreDesign
    plan : Plan
        Which subgroups there are.
    table : Table1
        The target's, for its means and sds.
    predicted : iterable of (X, p)
        Batches of rows, of shape (rows, features), and what is predicted for them, of shape
        (rows,) or (rows, classes).
    min_rows : int
        Fewest rows of a bin; 1 merges none. A result may be told to whoever submitted the study.
    """
    parts = []
    for rows, p in predicted:
        z = (rows - table.mean) / table.sd
        inside = members_of_subgroups(plan.subgroups, plan.features, z, table.mean, table.sd)
        parts.append(OwnScores.of_rows(design, p, inside))
    found = _joined(parts)
    return found if min_rows < 2 else merged_bins(found, min_rows)


def _joined(parts: Sequence[OwnScores]) -> OwnScores:
    """Of all rows of which `parts`, at least one, are."""
    if len(parts) == 1:
        return parts[0]
    counts = np.sum([part.shares * part.n_rows[:, None, None, None] for part in parts], axis=0)
    n = np.sum([part.n_rows for part in parts], axis=0)
    return OwnScores(parts[0].design, counts / np.maximum(n, 1.0)[:, None, None, None], n)


def merged_bins(own: OwnScores, min_rows: int) -> OwnScores:
    """The same with bins merged until each has enough rows; they stand at their mean score.

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

"""Neighbouring bins that are told as one cell: enough rows, and none of them stands out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fedcsa.core.arrays import Array

#: A row that has more of its cell's squared weights is hardly hidden by the others.
HEAVIEST = 0.5

Whole = NDArray[np.intp]


def score_cells(
    atoms: Whole, walls: Whole, sides: Array, heaviest: Array, min_rows: int, *, classes: bool
) -> Whole:
    """Last bin of every cell of scores; none if not even all bins together may be told.

    A declared threshold lies between two cells unless that would leave one too small.

    Parameters
    ----------
    atoms : array of int
        Last bins of what may be merged, ascending.
    walls : array of int
        Those of them before a threshold, and the very last bin.
    sides : array of shape (2, bins, 3)
        Rows, events and Σw² inside a subgroup, and outside.
    heaviest : array of shape (2, bins)
        max w, likewise.
    min_rows : int
        Fewest rows of a cell.
    classes : bool
        Whether there are events: then not all rows of a cell may be of the rarer kind.
    """
    rows, events, _ = sides.sum(axis=(0, 1))
    rare = 2.0 * events <= rows
    # Sums over a range are differences of these.
    cumulated = np.cumsum(np.pad(sides, ((0, 0), (1, 0), (0, 0))), axis=1).tolist()

    def may_tell(first: int, last: int) -> bool | None:
        """Whether these bins, both included, may be one cell; None if nobody is in them.

        Parameters
        ----------
        first, last : int
        """
        found = None
        for side, sums in enumerate(cumulated):
            n, happened, squares = (b - a for a, b in zip(sums[first], sums[last + 1], strict=True))
            if not n:
                continue
            if n < min_rows or (classes and (happened if rare else n - happened) == n):
                return False
            top = float(heaviest[side, first : last + 1].max())
            if top**2 > HEAVIEST * squares * (1.0 + 1e-9):
                return False
            found = True if side == 0 else found
        return found

    return _merged(atoms, walls, may_tell)


def _merged(atoms: Whole, walls: Whole, may_tell: Callable[[int, int], bool | None]) -> Whole:
    """Last bins of cells that may all be told; none if not even all bins together may.

    Parameters
    ----------
    atoms : array of int
        Last bins of what may be merged, ascending.
    walls : array of int
        Last bins before a threshold, and the very last bin: cells end there if they can.
    may_tell : function
        Of the first and the last bin of a cell.
    """
    ends: list[int] = []
    start, last = 0, int(atoms[-1])
    for wall in walls.tolist():
        here, first = [], start
        for end in atoms[(atoms >= start) & (atoms <= wall)].tolist():
            if may_tell(first, end):
                here.append(end)
                first = end + 1
        if not here and may_tell(start, wall) is None:
            here = [wall]  # nobody is there, and that is known
        elif here and here[-1] != wall:
            here = _ended(here, start, wall, may_tell)
        if here:
            ends, start = ends + here, wall + 1
        elif wall < last and may_tell(wall + 1, last) is None:  # nobody is left to merge with
            ends, start = _ended(ends, 0, wall, may_tell), wall + 1
            if not ends:
                break
    return np.array(ends if start > last else _ended(ends, 0, last, may_tell), dtype=np.intp)


def _ended(
    ends: list[int], start: int, last: int, may_tell: Callable[[int, int], bool | None]
) -> list[int]:
    """The same cells, the last few of them merged with what follows up to `last`; maybe none.

    Parameters
    ----------
    ends : list of int
        Last bin of every cell.
    start : int
        First bin of the first.
    last : int
        Where the last one must end.
    may_tell : function
        Of the first and the last bin of a cell.
    """
    for kept in range(len(ends) - 1, -1, -1):
        first = ends[kept - 1] + 1 if kept else start
        if may_tell(first, last):
            return [*ends[:kept], last]
    return []


def joined_cells(
    n_rows: Array, weight: Array, heaviest: Array, min_rows: int
) -> list[tuple[slice, int]]:
    """Neighbours that are told together, and the one with which they were enough.

    That is: enough rows, none of them with most of the weight. What is left joins the last ones.

    Parameters
    ----------
    n_rows, weight, heaviest : array of shape (places,)
        Rows, Σw and the largest w at every place.
    min_rows : int

    Examples
    --------
    >>> joined_cells(np.array([3.0, 4.0, 5.0, 1.0]), np.full(4, 1.0), np.full(4, 0.1), 5)
    [(slice(0, 2, None), 1), (slice(2, 4, None), 2)]
    """
    found, start, held = list[tuple[slice, int]](), 0, [0.0, 0.0, 0.0]
    told = [array.tolist() for array in (n_rows, weight, heaviest)]
    for place, (n, w, top) in enumerate(zip(*told, strict=True)):
        held = [held[0] + n, held[1] + w, max(held[2], top)]
        if held[0] >= min_rows and 2.0 * held[2] <= held[1]:
            found.append((slice(start, place + 1), place))
            start, held = place + 1, [0.0, 0.0, 0.0]
    last, enough = found.pop() if found else (slice(0, 0), len(n_rows) - 1)
    return [*found, (slice(last.start, len(n_rows)), enough)]

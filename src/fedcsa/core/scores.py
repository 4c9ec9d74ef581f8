"""What a site tells of predictions and outcomes: a weighted table of scores, and exact sums.

A score is a predicted probability, or a predicted number in agreed units. Scores are counted in
agreed bins; declared thresholds are edges of bins, so that the rates at a threshold are exact. A
score that equals a threshold lies above it. Bins with few rows are merged before they are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array, expit
from fedcsa.core.losses import log

#: Groups of the jackknife: as many as give a stable variance, few enough to hold events each.
JACKKNIFE_GROUPS = 20
#: Cells with fewer rows are merged with a neighbour before a table is told.
MIN_CELL_ROWS = 5
#: The edges of bins, as log-odds: a twentieth apart, where most scores lie. Rows of one bin count
#: as ties, which changes an AUROC by less than 0.005 if log-odds spread by 0.3 or more.
LOGIT_STEP, LOGIT_END = 0.05, 6.0
#: Farther out, up to a probability of one in 22,000, wider bins do: few rows lie there.
FAR_STEP, FAR_END = 0.5, 10.0
#: The edges of bins of numbers, in units of the outcome's sd from the agreed centre. Predictions
#: spread less than outcomes.
NUMBER_STEP, NUMBER_END = 0.1, 5.0
#: A row that has more of its cell's squared weights is hardly hidden by the others.
HEAVIEST = 0.5

#: Columns of a told table. For numbers, `events` is Σ w t(y) and `predicted` Σ w t(p), with
#: t(v) = (v − centre)/unit.
TABLE_COLUMNS = ("subgroup", "class", "last_bin", "rows", "weight", "events", "predicted")
#: Sums of every subgroup, of classes: Brier score and log loss, weighted; then those of a class.
CLASS_SUMS = ("weight", "weight_squares", "brier", "log_loss")
#: Sums of one class: Σwy, Σw²y, Σwp.
EACH_CLASS = ("events", "event_squares", "expected")
#: Sums of numbers, weighted, all in agreed units: y, y², p, p², py, |y − p|, (y − p)².
NUMBER_SUMS = (
    "weight", "weight_squares", "y", "y_squares", "p", "p_squares", "products", "absolute",
    "squared",
)  # fmt: skip

Whole = NDArray[np.intp]


@dataclass(frozen=True)
class ScoreDesign:
    """What all sites agree on: bins, classes, subgroups and units.

    Attributes
    ----------
    n_classes : int
        0 for an outcome of numbers.
    thresholds : tuple of float
        Declared probabilities, strictly between 0 and 1.
    n_subgroups : int
        Declared ones; everybody is subgroup 0 and not counted.
    centre, unit : float
        Of numbers: tables and sums hold (v − centre)/unit.

    Examples
    --------
    >>> design = ScoreDesign(2, thresholds=(0.2,))
    >>> design.n_bins, design.classes, design.sum_names[-1]
    (259, (1,), 'expected_1')
    """

    n_classes: int
    thresholds: tuple[float, ...] = ()
    n_subgroups: int = 0
    centre: float = 0.0
    unit: float = 1.0

    @cached_property
    def edges(self) -> Array:
        """Inner edges of the bins, ascending: probabilities, or numbers in agreed units."""
        if not self.n_classes:
            return _steps(-NUMBER_END, NUMBER_END, NUMBER_STEP)
        far = _steps(LOGIT_END, FAR_END, FAR_STEP)[1:]
        grid = expit(np.concatenate([-far[::-1], _steps(-LOGIT_END, LOGIT_END, LOGIT_STEP), far]))
        declared = np.array(sorted(set(self.thresholds)))
        if len(declared):  # an edge that a threshold equals but for rounding would be one twice
            grid = grid[np.abs(grid[:, None] - declared).min(axis=1) > 1e-9]
        return np.sort(np.concatenate([grid, declared]))

    @property
    def n_bins(self) -> int:
        """One more than edges: the outer bins are open."""
        return len(self.edges) + 1

    @property
    def classes(self) -> tuple[int, ...]:
        """Classes that have a table: of two the second; of numbers one table, called 0."""
        if self.n_classes == 2:
            return (1,)
        return tuple(range(max(self.n_classes, 1)))

    @cached_property
    def threshold_bins(self) -> Whole:
        """First bin above every threshold, in the order of `thresholds`."""
        found: Whole = np.searchsorted(self.edges, np.array(self.thresholds), side="right")
        return found

    @cached_property
    def sum_names(self) -> tuple[str, ...]:
        """Columns of the sums."""
        if not self.n_classes:
            return NUMBER_SUMS
        return CLASS_SUMS + tuple(f"{name}_{c}" for c in self.classes for name in EACH_CLASS)

    def units(self, values: Array) -> Array:
        """Numbers in agreed units."""
        found: Array = (values - self.centre) / self.unit
        return found

    def scores(self, p: Array) -> Array:
        """Scores of every class that has a table, (rows, classes), from what a model predicts."""
        found: Array = p[:, self.classes] if self.n_classes else self.units(p)[:, None]
        return found

    def outcomes(self, y: Array) -> Array:
        """Outcomes as tables hold them, (rows, classes): 0 and 1, or numbers in agreed units."""
        return (
            (y[:, None] == self.classes).astype(float) if self.n_classes else self.units(y)[:, None]
        )

    def bins(self, scores: Array) -> Whole:
        """Bin of every score."""
        found: Whole = np.searchsorted(self.edges, scores, side="right")
        return found


def _steps(start: float, stop: float, step: float) -> Array:
    """From `start` to `stop`, both included.

    Parameters
    ----------
    start, stop, step : float
    """
    return start + step * np.arange(round((stop - start) / step) + 1.0)


@dataclass(frozen=True)
class ScoreSums:
    """Sums over rows, of every jackknife group and subgroup; those of batches are merged.

    Attributes
    ----------
    design : ScoreDesign
    cells : array of shape (groups, subgroups, classes, bins, 4)
        Rows, Σw, Σwy, Σwp.
    exact : array of shape (groups, subgroups, sums)
        In the order of `design.sum_names`.
    hidden : array of shape (subgroups, classes, bins, 2)
        Events (rows) and Σw². They decide what may be told, and are not told themselves.
    heaviest : array of shape (2, subgroups, classes, bins)
        max w inside and outside every subgroup; likewise.
    """

    design: ScoreDesign
    cells: Array = field(repr=False)
    exact: Array = field(repr=False)
    hidden: Array = field(repr=False)
    heaviest: Array = field(repr=False)

    @classmethod
    def of_rows(
        cls,
        design: ScoreDesign,
        y: Array,
        p: Array,
        w: Array,
        labels: NDArray[np.integer],
        inside: NDArray[np.bool_],
    ) -> ScoreSums:
        """Sums of some rows.

        Parameters
        ----------
        design : ScoreDesign
        y : array of shape (rows,)
            Codes of classes, or numbers.
        p : array of shape (rows,) or (rows, classes)
            Predictions.
        w : array of shape (rows,)
            Weights; they sum to one over all batches.
        labels : array of int of shape (rows,)
            Jackknife group of every row.
        inside : array of bool of shape (rows, 1 + subgroups)
            Who belongs to which subgroup; everybody to the first.
        """
        G, S, C, B = JACKKNIFE_GROUPS, inside.shape[1], len(design.classes), design.n_bins
        cells, exact = np.zeros((G, S, C, B, 4)), np.zeros((G, S, len(design.sum_names)))
        hidden, heaviest = np.zeros((S, C, B, 2)), np.zeros((2, S, C, B))
        scores, outcomes, each = design.scores(p), design.outcomes(y), _each_row(design, y, p, w)
        bins, groups = design.bins(scores), labels.astype(np.intp)
        for s in range(S):
            everybody = s == 0
            here = slice(None) if everybody else np.flatnonzero(inside[:, s])
            group, u = groups[here], w[here]
            exact[:, s] = _summed(group, each[:, here], G)
            for c in range(C):
                b, t, score = bins[here, c], outcomes[here, c], scores[here, c]
                counts = [None, u, u * t, u * score]
                cells[:, s, c] = _summed(group * B + b, counts, G * B).reshape(G, B, 4)
                hidden[s, c] = _summed(b, [t, u * u], B)
                np.maximum.at(heaviest[0, s, c], b, u)
                if not everybody:
                    there = ~inside[:, s]
                    np.maximum.at(heaviest[1, s, c], bins[there, c], w[there])
        return cls(design, cells, exact, hidden, heaviest)

    def merge(self, other: ScoreSums) -> ScoreSums:
        """Of both sets of rows."""
        return ScoreSums(
            self.design,
            self.cells + other.cells,
            self.exact + other.exact,
            self.hidden + other.hidden,
            np.maximum(self.heaviest, other.heaviest),
        )

    def ends(self, min_rows: int = MIN_CELL_ROWS) -> list[list[Whole]]:
        """Last bin of every cell, by subgroup and class; none of a subgroup that is not told.

        A subgroup's cells are unions of everybody's, and both it and the rest may be told in each.
        A declared threshold lies between two cells unless that would leave one too small.
        """
        design, classes = self.design, range(len(self.design.classes))
        walls = np.unique(np.append(design.threshold_bins, design.n_bins) - 1)
        bins: list[Whole] = [np.arange(design.n_bins)] * len(classes)
        rows = self.cells[:, :, 0, :, 0].sum(axis=(0, 2))
        found: list[list[Whole]] = []
        for s in range(design.n_subgroups + 1):
            some = rows[s] >= max(min_rows, 1) and (s == 0 or len(found[0][0]) > 0)
            told = [
                _merged(found[0][c] if s else bins[c], walls, self._may_tell(s, c, min_rows))
                for c in classes
                if some
            ]
            whole = len(told) == len(classes) and all(map(len, told))
            found.append(told if whole else [np.empty(0, np.intp) for _ in classes])
        return found

    def _may_tell(self, s: int, c: int, min_rows: int) -> Callable[[int, int], bool | None]:
        """Whether a range of bins, both ends included, may be one cell; None if nobody is in it.

        Parameters
        ----------
        s, c : int
            Subgroup, and place of the class in `design.classes`.
        min_rows : int
            1 switches every rule off.
        """
        counts = np.concatenate(
            [self.cells[:, :, c, :, :1].sum(axis=0), self.hidden[:, c]], axis=-1
        )  # rows, events, squares
        sides = [counts[s], counts[0] - counts[s]] if s else [counts[0]]
        total, happened, _ = counts[0].sum(axis=0)
        rare, classes, checked = 2.0 * happened <= total, self.design.n_classes > 0, min_rows > 1
        # Sums over a range are differences of these.
        cumulated = [np.cumsum(np.pad(side, ((1, 0), (0, 0))), axis=0).tolist() for side in sides]

        def may_tell(first: int, last: int) -> bool | None:
            """One range of bins.

            Parameters
            ----------
            first, last : int
            """
            some = None
            for side, sums in enumerate(cumulated):
                n, events, squares = (
                    b - a for a, b in zip(sums[first], sums[last + 1], strict=True)
                )
                if side == 0 and n:
                    some = True
                if not (n and checked):
                    continue
                if n < min_rows or (classes and (events if rare else n - events) == n):
                    return False
                top = float(self.heaviest[side, s, c, first : last + 1].max())
                if top**2 > HEAVIEST * squares * (1.0 + 1e-9):
                    return False
            return some

        return may_tell

    def table(self, min_rows: int = MIN_CELL_ROWS) -> Array:
        """The told table, (cells, 7), see `TABLE_COLUMNS`."""
        total, rows = self.cells.sum(axis=0), [np.empty((0, len(TABLE_COLUMNS)))]
        for s, of_classes in enumerate(self.ends(min_rows)):
            for c, ends in enumerate(of_classes):
                place = np.tile([float(s), float(self.design.classes[c])], (len(ends), 1))
                cells = _in_cells(total[s, c], ends)
                rows.append(np.column_stack([place, ends.astype(np.float64), cells]))
        return np.concatenate(rows)

    def sums(self, min_rows: int = MIN_CELL_ROWS) -> Array:
        """The told sums, (1 + subgroups, sums); zeros of a subgroup that is not told."""
        told = np.array([len(ends[0]) > 0 for ends in self.ends(min_rows)])
        found: Array = self.exact.sum(axis=0) * told[:, None]
        return found

    def left_out(self, s: int, ends: list[Whole]) -> tuple[Told, Told]:
        """A subgroup whole, and without every jackknife group in turn.

        Parameters
        ----------
        s : int
        ends : list of array of int
            Last bin of every cell, by class.
        """
        cells = [_in_cells(self.cells[:, s, c, :, 1:], e) for c, e in enumerate(ends)]
        exact, some = self.exact[:, s], self.exact[:, 0, 0] > 0.0
        whole = Told(
            self.design, tuple(x.sum(axis=0) for x in cells), tuple(ends), exact.sum(axis=0)
        )
        rest = tuple(x.sum(axis=0) - x[some] for x in cells)
        return whole, Told(self.design, rest, tuple(ends), exact.sum(axis=0) - exact[some])


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
    for wall in walls[np.isin(walls, atoms)].tolist():
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


def _in_cells(bins: Array, ends: Whole) -> Array:
    """Sums over the bins of every cell, (…, cells, columns).

    Parameters
    ----------
    bins : array of shape (…, bins, columns)
    ends : array of int of shape (cells,)
        Last bin of every cell.
    """
    if not len(ends):
        return bins[..., :0, :]
    found: Array = np.add.reduceat(bins, np.append(0, ends[:-1] + 1), axis=-2)
    return found


def _summed(index: Whole, columns: Iterable[Array | None], size: int) -> Array:
    """Sum of every column by index, (size, columns).

    Parameters
    ----------
    index : array of int of shape (rows,)
    columns : iterable of array of shape (rows,)
        None for ones.
    size : int
    """
    return np.column_stack([np.bincount(index, column, size) for column in columns])


def _each_row(design: ScoreDesign, y: Array, p: Array, w: Array) -> Array:
    """What the exact sums add up, (sums, rows).

    Parameters
    ----------
    design : ScoreDesign
    y : array of shape (rows,)
    p : array of shape (rows,) or (rows, classes)
    w : array of shape (rows,)
    """
    if not design.n_classes:
        t, q = design.units(y), design.units(p)
        r = t - q
        columns = [np.ones_like(w), w, t, t * t, q, q * q, t * q, np.abs(r), r * r]
        return np.stack([w * column for column in columns])
    outcomes, scores = design.outcomes(y), design.scores(p)
    squares = ((scores - outcomes) ** 2).sum(axis=1)
    columns = [np.ones_like(w), w, squares, log(p, y)]
    for event, score in zip(outcomes.T, scores.T, strict=True):
        columns += [event, w * event, score]
    return np.stack([w * column for column in columns])


@dataclass(frozen=True)
class Told:
    """What a site tells of one subgroup. Leading axes, if any, are those of a jackknife.

    Attributes
    ----------
    design : ScoreDesign
    cells : tuple of array of shape (…, cells, 3)
        Of every class that has a table: Σw, Σwy, Σwp.
    ends : tuple of array of int of shape (cells,)
        Last bin of every cell, by class.
    exact : array of shape (…, sums)
        In the order of `design.sum_names`.
    """

    design: ScoreDesign
    cells: tuple[Array, ...] = field(repr=False)
    ends: tuple[Whole, ...] = field(repr=False)
    exact: Array = field(repr=False)

    def sum_of(self, name: str, of_class: int | None = None) -> Array:
        """One of the exact sums.

        Parameters
        ----------
        name : str
            As in `sum_names`, without the class.
        of_class : int, optional
        """
        full = name if of_class is None else f"{name}_{of_class}"
        found: Array = self.exact[..., self.design.sum_names.index(full)]
        return found

    def table_of(self, of_class: int) -> tuple[Array, Array, Array]:
        """Σw, Σwy and Σwp of every cell of a class."""
        w, wy, wp = np.moveaxis(self.cells[self.design.classes.index(of_class)], -1, 0)
        return w, wy, wp

    @property
    def effective_rows(self) -> Array:
        """(Σw)²/Σw²."""
        return _effective(self.sum_of("weight"), self.sum_of("weight_squares"))

    def effective_events(self, of_class: int) -> tuple[Array, Array]:
        """Effective rows with, and without, the event."""
        events, squares = self.sum_of("events", of_class), self.sum_of("event_squares", of_class)
        rest, others = self.sum_of("weight") - events, self.sum_of("weight_squares") - squares
        others = np.where(others > 1e-9 * squares, others, 0.0)  # less is rounding
        return _effective(events, squares), _effective(rest, others)

    def split(self, of_class: int, threshold: float) -> tuple[Array, Array, Array, Array] | None:
        """Weights above a threshold: with and without the event; then those below.

        None where a cell lies on both sides, so that nobody can say.

        Parameters
        ----------
        of_class : int
        threshold : float
            A declared one.
        """
        wall = self.design.threshold_bins[self.design.thresholds.index(threshold)] - 1
        place = self.design.classes.index(of_class)
        if wall >= 0 and wall not in self.ends[place]:
            return None
        above = self.ends[place] > wall
        w, wy, _ = self.table_of(of_class)
        events, others = wy, np.maximum(w - wy, 0.0)
        return (
            events[..., above].sum(axis=-1),
            others[..., above].sum(axis=-1),
            events[..., ~above].sum(axis=-1),
            others[..., ~above].sum(axis=-1),
        )


def _effective(total: Array, squares: Array) -> Array:
    """(Σw)²/Σw², 0 where there is nobody.

    Parameters
    ----------
    total, squares : array
    """
    some = squares > 0.0
    found: Array = np.where(some, total**2 / np.where(some, squares, 1.0), 0.0)
    return found


def told_by(design: ScoreDesign, table: Array, sums: Array) -> Mapping[int, Told]:
    """What a site told, by subgroup; a subgroup that it did not tell is absent.

    Parameters
    ----------
    design : ScoreDesign
    table : array of shape (cells, 7)
    sums : array of shape (1 + subgroups, sums)
    """
    found = {}
    for s in range(design.n_subgroups + 1):
        rows = [table[(table[:, 0] == s) & (table[:, 1] == c)] for c in design.classes]
        if all(map(len, rows)):
            cells = tuple(part[:, 4:7] for part in rows)
            ends = tuple(part[:, 2].astype(np.intp) for part in rows)
            found[s] = Told(design, cells, ends, sums[s])
    return found


def complement(everybody: Told, subgroup: Told) -> Told:
    """Everybody outside a subgroup, in the subgroup's cells.

    Parameters
    ----------
    everybody, subgroup : Told
    """
    cells = []
    for whole, part, finer, ends in zip(
        everybody.cells, subgroup.cells, everybody.ends, subgroup.ends, strict=True
    ):
        places = np.searchsorted(finer, ends)  # of every end among everybody's
        cells.append(_in_cells(whole, places) - part)
    rest = everybody.exact - subgroup.exact
    return Told(everybody.design, tuple(cells), subgroup.ends, rest)


@dataclass(frozen=True)
class OwnScores:
    """How the target's own rows spread over the bins of a model's scores.

    Attributes
    ----------
    design : ScoreDesign
    shares : array of shape (1 + subgroups, classes, bins, 2)
        Share of the rows, and share times mean score; zeros of a subgroup without rows.
    n_rows : array of shape (1 + subgroups,)
    """

    design: ScoreDesign
    shares: Array = field(repr=False)
    n_rows: Array

    @classmethod
    def of_rows(cls, design: ScoreDesign, p: Array, inside: NDArray[np.bool_]) -> OwnScores:
        """Of rows without outcomes.

        Parameters
        ----------
        design : ScoreDesign
        p : array of shape (rows,) or (rows, classes)
            Predictions.
        inside : array of bool of shape (rows, 1 + subgroups)
        """
        scores = design.scores(p)
        bins, n = design.bins(scores), inside.sum(axis=0).astype(np.float64)
        shares = np.zeros((inside.shape[1], scores.shape[1], design.n_bins, 2))
        for s, here in enumerate(inside.T):
            for c, (b, score) in enumerate(zip(bins.T, scores.T, strict=True)):
                shares[s, c] = _summed(b[here], [None, score[here]], design.n_bins) / max(n[s], 1.0)
        return cls(design, shares, n)

"""What a site tells of predictions and outcomes: a weighted table of scores, and exact sums.

A score is a predicted probability, or a predicted number in agreed units. Scores are counted in
agreed bins; declared thresholds are edges of bins, so that the rates at a threshold are exact. A
score that equals a threshold lies above it. Bins with few rows are merged before they are told.

Of numbers a site also tells how far outcomes lie from predictions, as a histogram of residuals by
distance from the target's centre, from which `fedcsa.core.conformal` makes prediction intervals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array, erf, expit
from fedcsa.core.losses import log
from fedcsa.core.told_cells import Whole, joined_cells, score_cells

#: Groups of the jackknife: as many as give a stable variance, few enough to hold events each.
JACKKNIFE_GROUPS = 20
#: Cells with fewer rows are merged with a neighbour before a table is told.
MIN_CELL_ROWS = 5
#: The edges of bins, as log-odds: a twentieth apart, where most scores lie. Rows of one bin count
#: as ties, which changes an AUROC by less than 0.005 if log-odds spread by 0.3 or more.
LOGIT_END, LOGIT_EDGES = 6.0, 241
#: Farther out, up to a probability of one in 22,000, bins half a unit wide do: few rows lie there.
FAR_END, FAR_EDGES = 10.0, 9
#: The edges of bins of numbers, a tenth apart, in units of the outcome's sd from the agreed centre.
#: Predictions spread less than outcomes.
NUMBER_END, NUMBER_EDGES = 5.0, 101

#: Bands of distance: a fourth of normal rows lies in each.
BANDS = 4
#: Smallest and largest residual that are told apart, in units of the outcome's sd: models that
#: err by less than a hundredth of it, or by more than thirty times, need no finer interval.
NEAREST, FARTHEST_RESIDUAL = 0.01, 30.0
#: Each bin of residuals ends so many times farther out than the one before: a limit at its upper
#: end is too wide by 2.5 % on average, and covers half a percent of rows too many.
BIN_RATIO = 1.05
_N_ENDS = int(np.ceil(np.log(FARTHEST_RESIDUAL / NEAREST) / np.log(BIN_RATIO)))
#: Upper ends of the bins; the last is open.
RESIDUAL_ENDS: Array = np.append(NEAREST * BIN_RATIO ** np.arange(_N_ENDS + 1), np.inf)
#: Residuals beyond the last end count as twice as large, so that one alone moves no mean far.
BEYOND = 2.0 * RESIDUAL_ENDS[-2]
#: Of the told histogram: bands and bins.
RESIDUAL_SHAPE = (BANDS, len(RESIDUAL_ENDS))
#: Takes the place of a share of 0 where one divides by it.
_TINY = 1e-300

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


def over(top: Array, bottom: Array, none: float = np.nan) -> Array:
    """A ratio, `none` where the denominator is not positive.

    Parameters
    ----------
    top, bottom : array
    none : float
    """
    some = bottom > 0.0
    found: Array = np.where(some, top / np.where(some, bottom, 1.0), none)
    return found


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
    classes : tuple of int
        Those that have a table: of two the second; of numbers one table, called 0.
    edges : array of shape (bins − 1,)
        Inner edges of the bins, ascending: probabilities, or numbers in agreed units. The outer
        bins are open.
    n_bins : int
    sum_names : tuple of str
        Columns of the sums.

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
    classes: tuple[int, ...] = field(init=False, repr=False, compare=False)
    edges: Array = field(init=False, repr=False, compare=False)
    n_bins: int = field(init=False, repr=False, compare=False)
    sum_names: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Derive classes, bins and sums."""
        classes: tuple[int, ...] = (0,)
        names: tuple[str, ...] = NUMBER_SUMS
        edges = np.linspace(-NUMBER_END, NUMBER_END, NUMBER_EDGES)
        if self.n_classes:
            classes = (1,) if self.n_classes == 2 else tuple(range(self.n_classes))
            names = CLASS_SUMS + tuple(f"{name}_{c}" for c in classes for name in EACH_CLASS)
            far = np.linspace(LOGIT_END, FAR_END, FAR_EDGES)[1:]
            near = np.linspace(-LOGIT_END, LOGIT_END, LOGIT_EDGES)
            grid = expit(np.concatenate([-far[::-1], near, far]))
            declared = np.array(sorted(set(self.thresholds)))
            if len(declared):  # an edge that a threshold equals but for rounding would be one twice
                grid = grid[np.abs(grid[:, None] - declared).min(axis=1) > 1e-9]
            edges = np.sort(np.concatenate([grid, declared]))
        vars(self).update(classes=classes, edges=edges, n_bins=len(edges) + 1, sum_names=names)

    def bins(self, scores: Array) -> Whole:
        """Bin of every score."""
        found: Whole = np.searchsorted(self.edges, scores, side="right")
        return found


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
    residuals, largest : array of shape (3, bands, residual bins), (bands, residual bins)
        As `residual_sums` gives them; empty without the rows' distance from the target.
    """

    design: ScoreDesign
    cells: Array = field(repr=False)
    exact: Array = field(repr=False)
    hidden: Array = field(repr=False)
    heaviest: Array = field(repr=False)
    residuals: Array = field(repr=False)
    largest: Array = field(repr=False)

    @classmethod
    def of_rows(
        cls,
        design: ScoreDesign,
        y: Array,
        p: Array,
        w: Array,
        labels: NDArray[np.integer],
        inside: NDArray[np.bool_] | None = None,
        z: Array | None = None,
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
        inside : array of bool of shape (rows, 1 + subgroups), optional
            Who belongs to which subgroup; everybody to the first.
        z : array of shape (rows, features), optional
            In the target's units: of numbers, residuals are summed by distance.
        """
        G, S, C, B = JACKKNIFE_GROUPS, 1 + design.n_subgroups, len(design.classes), design.n_bins
        cells, exact = np.zeros((G, S, C, B, 4)), np.zeros((G, S, len(design.sum_names)))
        hidden, heaviest = np.zeros((S, C, B, 2)), np.zeros((2, S, C, B))
        groups, each = labels.astype(np.intp), [np.ones_like(w), w]
        if design.n_classes:
            scores, outcomes = p[:, design.classes], (y[:, None] == design.classes).astype(float)
            each += [((scores - outcomes) ** 2).sum(axis=1), log(p, y)]
            for event, score in zip(outcomes.T, scores.T, strict=True):
                each += [event, w * event, score]
        else:
            t, q = (y - design.centre) / design.unit, (p - design.centre) / design.unit
            scores, outcomes = q[:, None], t[:, None]
            each += [t, t * t, q, q * q, t * q, np.abs(t - q), (t - q) * (t - q)]
        weighted, bins = w * np.stack(each), design.bins(scores)
        for s in range(S):
            here = slice(None) if inside is None or not s else np.flatnonzero(inside[:, s])
            group, u = groups[here], w[here]
            for k, v in enumerate(weighted[:, here]):
                exact[:, s, k] = np.bincount(group, v, G)
            for c in range(C):
                b, t, score = bins[here, c], outcomes[here, c], scores[here, c]
                for k, v in enumerate([None, u, u * t, u * score]):
                    cells[:, s, c, :, k] = np.bincount(group * B + b, v, G * B).reshape(G, B)
                for k, v in enumerate([t, u * u]):
                    hidden[s, c, :, k] = np.bincount(b, v, B)
                np.maximum.at(heaviest[0, s, c], b, u)
                if inside is not None and s:
                    there = ~inside[:, s]
                    np.maximum.at(heaviest[1, s, c], bins[there, c], w[there])
        residuals = np.empty((3, 0, 0)), np.empty((0, 0))
        if z is not None and not design.n_classes:
            residuals = residual_sums(z, (y - p) / design.unit, w)
        return cls(design, cells, exact, hidden, heaviest, *residuals)

    def merge(self, other: ScoreSums) -> ScoreSums:
        """Sums of both sets of rows."""
        return ScoreSums(
            self.design,
            self.cells + other.cells,
            self.exact + other.exact,
            self.hidden + other.hidden,
            np.maximum(self.heaviest, other.heaviest),
            self.residuals + other.residuals,
            np.maximum(self.largest, other.largest),
        )

    def told(
        self, min_rows: int = MIN_CELL_ROWS
    ) -> tuple[Array, Array, dict[int, tuple[Told, Told]]]:
        """The told table, (cells, 7), and sums, (1 + subgroups, sums); then what they tell.

        That is, by subgroup: whole, and without every jackknife group in turn. A subgroup's cells
        are unions of everybody's, and both it and the rest may be told in each. Nothing is told of
        a subgroup where that cannot be: its sums are zeros.

        Parameters
        ----------
        min_rows : int
            Fewest rows of a cell. 1 switches every rule off.
        """
        design, total, sums = self.design, self.cells.sum(axis=0), self.exact.sum(axis=0)
        walls = np.append(design.bins(np.array(design.thresholds)), design.n_bins) - 1
        atoms = [np.arange(design.n_bins)] * len(design.classes)
        table, parts = [np.empty((0, len(TABLE_COLUMNS)))], {}
        for s, rows in enumerate(total[:, 0, :, 0].sum(axis=1)):
            some = rows >= max(min_rows, 1) and (s == 0 or 0 in parts)
            ends = list(atoms) if some else []
            for c, e in enumerate(ends):
                if s == 0 or min_rows < 2:
                    # Bins without rows join the next one with some, or the last before a wall.
                    here = np.intersect1d(walls, e)
                    held = e[np.add.reduceat(total[s, c, :, 0], np.append(0, e[:-1] + 1)) > 0.0]
                    wall = np.searchsorted(here, held)
                    ends[c] = np.union1d(held[:-1][wall[:-1] == wall[1:]], here)
                if min_rows > 1:
                    counts = np.concatenate([total[:, c, :, :1], self.hidden[:, c]], axis=-1)
                    sides, top = (
                        np.stack([counts[s], counts[0] - counts[s]]),
                        self.heaviest[:, s, c],
                    )
                    here, classes = np.intersect1d(walls, e), bool(design.n_classes)
                    ends[c] = score_cells(ends[c], here, sides, top, min_rows, classes=classes)
            if not (some and all(map(len, ends))):
                sums[s] *= 0.0
                continue
            exact, known = self.exact[:, s], self.exact[:, 0, 0] > 0.0
            atoms, whole, rest = atoms if s else ends, list[Array](), list[Array]()
            for c, e in enumerate(ends):
                starts = np.append(0, e[:-1] + 1)
                place = np.tile([float(s), float(design.classes[c])], (len(e), 1))
                of_all = np.add.reduceat(total[s, c], starts, axis=0)
                table.append(np.column_stack([place, e, of_all]))
                cells = np.add.reduceat(self.cells[:, s, c, :, 1:], starts, axis=1)
                whole.append(cells.sum(axis=0))
                rest.append(whole[c] - cells[known])
            parts[s] = (
                Told(design, tuple(whole), tuple(ends), sums[s]),
                Told(design, tuple(rest), tuple(ends), sums[s] - exact[known]),
            )
        return np.concatenate(table), sums, parts


def distance_band(z: Array) -> NDArray[np.intp]:
    """Band of every row, 0 nearest the target's centre; bands end at quarters of normal rows.

    The distance is the mean of z² over features.

    Parameters
    ----------
    z : array of shape (rows, features)
        In the target's units.

    Examples
    --------
    >>> distance_band(np.array([[0.1, 0.0], [0.7, 0.7], [1.0, 1.0], [2.0, 1.0]]))
    array([0, 1, 2, 3])
    """
    from scipy.special import chdtri  # slow to load

    n_features = z.shape[1]
    ends = chdtri(n_features, 1.0 - np.arange(1, BANDS) / BANDS) / n_features
    distance: Array = np.einsum("ij,ij->i", z, z) / n_features
    return np.searchsorted(ends, distance)


def residual_sums(z: Array, residual: Array, w: Array) -> tuple[Array, Array]:
    """Residuals by band and bin; sums of batches are added, and the larger of the largest taken.

    Parameters
    ----------
    z : array of shape (rows, features)
        In the target's units.
    residual : array of shape (rows,)
        Outcome less prediction, in units of the outcome's sd.
    w : array of shape (rows,)
        Weights of the rows.

    Returns
    -------
    sums : array of shape (3, bands, bins)
        Number of rows, Σw and Σw|r|.
    heaviest : array of shape (bands, bins)
        The largest w.
    """
    size = np.minimum(np.abs(residual), BEYOND)
    cell = distance_band(z) * RESIDUAL_SHAPE[1] + np.searchsorted(RESIDUAL_ENDS, size)
    n_cells = RESIDUAL_SHAPE[0] * RESIDUAL_SHAPE[1]
    heaviest = np.zeros(n_cells)
    np.maximum.at(heaviest, cell, w)
    sums = np.empty((3, n_cells))
    for k, x in enumerate([None, w, w * size]):
        sums[k] = np.bincount(cell, x, n_cells)
    return sums.reshape(3, *RESIDUAL_SHAPE), heaviest.reshape(RESIDUAL_SHAPE)


def told_residuals(sums: Array, heaviest: Array, min_rows: int) -> Array:
    """Shares of the weight by band and bin, shape (bands, bins), that tell of no single row.

    A band too small to be told joins its neighbour. Neighbouring bins are joined until they
    hold enough rows, and share their weight as if residuals were normal: nothing else of how
    residuals lie within them is told, and not where the largest lies.

    Parameters
    ----------
    sums, heaviest : array
        As `residual_sums` gives them.
    min_rows : int
        Fewest rows of a cell; no row has more than half of its weight either. 1 joins nothing.
    """
    if min_rows < 2:
        unjoined: Array = sums[1] / sums[1].sum()
        return unjoined
    shares: Array = np.zeros(RESIDUAL_SHAPE)
    inwards = np.arange(BANDS)[::-1]
    n_rows, weight, _ = sums[:, inwards].sum(axis=2)
    for bands, band in joined_cells(n_rows, weight, heaviest[inwards].max(axis=1), min_rows):
        counts, weights, sizes = sums[:, inwards[bands]].sum(axis=1)
        top = heaviest[inwards[bands]].max(axis=0)
        # Share of every bin if residuals were normal with the same mean size.
        mean = max(sizes.sum() / max(weights.sum(), _TINY), NEAREST)
        below = erf(RESIDUAL_ENDS / (mean * np.sqrt(np.pi)))  # E|r| = sd sqrt(2/pi)
        expected = np.maximum(np.diff(below, prepend=0.0), _TINY)
        for cell, _ in joined_cells(counts, weights, top, min_rows):
            told = weights[cell].sum() * expected[cell]
            shares[inwards[band], cell] = told / expected[cell].sum()
    shares /= shares.sum()
    return shares


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
    sums : mapping of str to array of shape (…)
        The same by their names.
    effective_rows : array of shape (…)
        (Σw)²/Σw².
    """

    design: ScoreDesign
    cells: tuple[Array, ...] = field(repr=False)
    ends: tuple[Whole, ...] = field(repr=False)
    exact: Array = field(repr=False)
    sums: Mapping[str, Array] = field(init=False, repr=False, compare=False)
    effective_rows: Array = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Name the sums, and count what their rows are worth."""
        sums = dict(zip(self.design.sum_names, np.moveaxis(self.exact, -1, 0), strict=True))
        rows = over(sums["weight"] ** 2, sums["weight_squares"], 0.0)
        vars(self).update(sums=sums, effective_rows=rows)

    def table_of(self, of_class: int) -> tuple[Array, Array, Array]:
        """Σw, Σwy and Σwp of every cell of a class."""
        w, wy, wp = np.moveaxis(self.cells[self.design.classes.index(of_class)], -1, 0)
        return w, wy, wp

    def effective_events(self, of_class: int) -> tuple[Array, Array]:
        """Effective rows with, and without, the event."""
        events, squares = self.sums[f"events_{of_class}"], self.sums[f"event_squares_{of_class}"]
        rest, others = self.sums["weight"] - events, self.sums["weight_squares"] - squares
        others = np.where(others > 1e-9 * squares, others, 0.0)  # less is rounding
        return over(events**2, squares, 0.0), over(rest**2, others, 0.0)

    def split(self, of_class: int, threshold: float) -> tuple[Array, ...]:
        """Weights above a threshold: with and without the event; then those below.

        These are true and false positives, false and true negatives. NaN where a cell lies on both
        sides, so that nobody can say.

        Parameters
        ----------
        of_class : int
        threshold : float
            A declared one.
        """
        wall = self.design.bins(np.array(threshold)) - 1
        place = self.design.classes.index(of_class)
        if wall >= 0 and wall not in self.ends[place]:
            return (np.full(self.exact.shape[:-1], np.nan),) * 4
        above = self.ends[place] > wall
        w, events, _ = self.table_of(of_class)
        kinds = events, np.maximum(w - events, 0.0)
        return tuple(kind[..., side].sum(axis=-1) for side in (above, ~above) for kind in kinds)


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
        cells, ends = [], []
        for c in design.classes:
            rows = table[(table[:, 0] == s) & (table[:, 1] == c)]
            cells.append(rows[:, 4:7])
            ends.append(rows[:, 2].astype(np.intp))
        if all(map(len, ends)):
            found[s] = Told(design, tuple(cells), tuple(ends), sums[s])
    return found


def complement(everybody: Told, subgroup: Told) -> Told:
    """Everybody outside a subgroup, in the subgroup's cells.

    Parameters
    ----------
    everybody, subgroup : Told
    """
    cells = []
    for c, (whole, part) in enumerate(zip(everybody.cells, subgroup.cells, strict=True)):
        last = np.searchsorted(everybody.ends[c], subgroup.ends[c])  # of everybody's in each
        starts = np.append(0, last[:-1] + 1)
        cells.append(np.add.reduceat(whole, starts, axis=-2) - part)
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
    def of_rows(
        cls, design: ScoreDesign, p: Array, inside: NDArray[np.bool_] | None = None
    ) -> OwnScores:
        """The spread of rows without outcomes.

        Parameters
        ----------
        design : ScoreDesign
        p : array of shape (rows,) or (rows, classes)
            Predictions.
        inside : array of bool of shape (rows, 1 + subgroups), optional
            As for `ScoreSums.of_rows`.
        """
        inside = np.ones((len(p), 1), dtype=bool) if inside is None else inside
        scores: Array = p[:, design.classes] if design.n_classes else p[:, None]
        if not design.n_classes:
            scores = (scores - design.centre) / design.unit
        bins, n = design.bins(scores), inside.sum(axis=0).astype(np.float64)
        shares = np.zeros((len(n), *scores.shape[1:], design.n_bins, 2))
        for s, here in enumerate(inside.T):
            for c, (b, score) in enumerate(zip(bins[here].T, scores[here].T, strict=True)):
                for k, v in enumerate([None, score]):
                    shares[s, c, :, k] = np.bincount(b, v, design.n_bins) / max(n[s], 1.0)
        return cls(design, shares, n)

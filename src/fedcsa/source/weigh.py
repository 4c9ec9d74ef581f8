"""How a source weights its rows: to the target's Table 1, or by a ratio fitted on its rows.

Whoever goes through the rows in batches asks for the weights of a batch, so that they need not
be held: those of a table follow from the row alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcsa.core.arrays import Array, as_matrix, as_outcome, in_bands
from fedcsa.core.batches import (
    CACHED_ROWS,
    Batches,
    HeldBatches,
    column_sums,
    joined_sums,
    known_moments,
    over_blocks,
)
from fedcsa.core.folds import Turn, dealt_labels, fold_key, fold_labels, generator_for, turns
from fedcsa.core.table import MISSING_MARK
from fedcsa.core.tilt import Tilt
from fedcsa.core.ulsif import ULSIF
from fedcsa.core.units import OtherUnit, of_known_cells, other_units
from fedcsa.errors import DataError
from fedcsa.findings import Finding
from fedcsa.models.description import given_column, thaw

if TYPE_CHECKING:
    from fedcsa.messages.messages import Brief


@dataclass(frozen=True)
class Batch:
    """Some rows of a source as a study sees them.

    Attributes
    ----------
    place : slice
        Where they stand in the table.
    z : array of shape (rows, features)
        In the target's units; a column in one piece.
    seen : array of shape (rows, features)
        As the models see them: z, or as they are.
    y : array of shape (rows,)
        Numbers, or codes of classes.
    groups : array of shape (rows,) or None
        Whole numbers that stand for patients with several rows.
    given : array of shape (rows,) or None
        The column of predictions that is judged: numbers, or probabilities of the second class.
    """

    place: slice
    z: Array
    seen: Array
    y: Array
    groups: Array | None
    given: Array | None


@dataclass(frozen=True)
class StudyRows:
    """All rows of a source as a study sees them; every pass over them starts anew.

    Attributes
    ----------
    source : str
        Its name, from which its random numbers follow.
    rows : Batches
    columns : slice or list of int
        The study's features among the columns of `rows`; a slice of these needs no copy.
    group : int or None
        The column that says which rows are of one patient.
    brief : Brief
        With the target's means and sds, and whether models see features in these units.
    n_rows : int
    mean, sd : array of shape (features,)
        The source's own.
    held : bool
        Whether the rows are in memory.
    given : int or None
        The column of predictions that is judged.
    judged : dict of str to (array, list)
        What fits that do not depend on the target gave in other studies of these rows.
    block_rows : int
        Rows that are worked on together.
    """

    source: str
    rows: Batches = field(repr=False)
    columns: slice | list[int] = field(repr=False)
    group: int | None = field(repr=False)
    brief: Brief = field(repr=False)
    n_rows: int
    mean: Array = field(repr=False)
    sd: Array = field(repr=False)
    held: bool
    given: int | None = field(default=None, repr=False)
    judged: dict[str, tuple[Array, list[Any]]] = field(default_factory=dict, repr=False)

    block_rows: int = CACHED_ROWS

    def __iter__(self) -> Iterator[Iterator[Batch]]:
        """Start a pass: of every batch its blocks, each made when it is asked for."""
        start = 0
        for X, y in self.rows:
            yield map(partial(self._block, start, X, y), range(0, len(y), self.block_rows))
            start += len(y)

    def _block(self, start: int, X: Array, y: Array, first: int) -> Batch:
        """The rows of a batch from `first` on.

        Parameters
        ----------
        start : int
            Where the batch stands in the table.
        X : array of shape (rows, columns)
            Of the batch.
        y : array of shape (rows,)
        first : int
        """
        X, y = X[first : first + self.block_rows], y[first : first + self.block_rows]
        # Laid out alike, rows give the same bits wherever they come from.
        raw = np.ascontiguousarray(X[:, self.columns])
        columns = np.empty(raw.shape[::-1])
        np.subtract(raw.T, self.brief.mean[:, None], out=columns)
        columns /= self.brief.sd[:, None]
        place = slice(start + first, start + first + len(y))
        seen = columns.T if self.brief.scale else raw
        groups = None if self.group is None else X[:, self.group]
        given = None if self.given is None else X[:, self.given]
        return Batch(place, columns.T, seen, y, groups, given)

    @property
    def by_batch(self) -> StudyRows:
        """The same, every batch in one block."""
        return replace(self, block_rows=self.n_rows)

    def class_rows(self) -> Array:
        """Rows of every class of the outcome, shape (classes,)."""
        counts = np.zeros(len(self.brief.classes))
        for _, y in self.rows:
            counts += np.bincount(y.astype(np.intp), minlength=len(counts))
        return counts

    def check_given(self) -> None:
        """Raise a `DataError` unless a column of predictions of classes holds probabilities."""
        for [batch] in self.by_batch if self.brief.classes else ():
            if batch.given is not None and ((batch.given < 0.0) | (batch.given > 1.0)).any():
                raise DataError(
                    f"The column of predictions of source {self.source!r} must hold probabilities "
                    "between 0 and 1. Divide percentages by 100."
                )

    def other_units(self) -> list[OtherUnit]:
        """Columns that look as if they were in another unit than the target's.

        Of a column with gaps only those cells count that are no agreed value.
        """
        brief, names = self.brief, self.rows.columns
        mean, sd, target = self.mean.copy(), self.sd.copy(), (brief.mean, brief.sd)
        pairs, told = dict[int, tuple[int, int]](), dict[int, int]()
        for k, name in enumerate(brief.features):
            mark = f"{name}{MISSING_MARK}"
            if mark in names:
                pairs[k] = names.index(name), names.index(mark)
                if mark in brief.features:
                    told[k] = brief.features.index(mark)
        if pairs:
            mean[[*pairs]], sd[[*pairs]] = known_moments(self.rows, [*pairs.values()])
            target = of_known_cells(told, target, self.mean, mean)
        return other_units(brief.features, brief.flags, self.n_rows, (mean, sd), target)

    def whole(self) -> Batch:
        """All rows at once: for models that need them in memory."""
        assert isinstance(self.rows, HeldBatches)  # noqa: S101 - they are held
        return self.by_batch._block(0, self.rows.X, self.rows.y, 0)


@dataclass(frozen=True)
class SiteRows:
    """The rows of one source.

    Attributes
    ----------
    source : str
    rows : Batches
        All columns, the group among them; with codes of classes as outcomes.
    y : array of shape (rows,), or None
        Of rows in memory the outcomes as they came, which may be labels.
    judged : dict of str to (array, list)
        See `StudyRows`.
    """

    source: str
    rows: Batches
    y: NDArray[Any] | None = None
    judged: dict[str, tuple[Array, list[Any]]] = field(default_factory=dict)

    @classmethod
    def in_memory(
        cls, source: str, X: ArrayLike, y: ArrayLike, names: Sequence[str] | None, band: int
    ) -> SiteRows:
        """Rows as arrays, in a multiple of `band`.

        Parameters
        ----------
        source : str
        X : array of shape (rows, columns)
        y : array of shape (rows,)
        names : sequence of str, optional
            Of the columns; by default x0, x1, …
        band : int
            The last few rows beyond a multiple of it are left out.
        """
        matrix, outcome = as_matrix(X, f"X of source {source!r}"), np.asarray(y)
        n, d = matrix.shape
        if outcome.shape[:1] != (n,):
            raise DataError(
                f"The outcome of source {source!r} must have {n} rows like its features; "
                f"it has {outcome.shape[0] if outcome.ndim else 0}."
            )
        columns = tuple(names or (f"x{i}" for i in range(d)))
        if len(set(columns)) != d or len(columns) != d:
            raise DataError(
                f"Source {source!r} must have one distinct name for each of its "
                f"{d} columns; it has {len(columns)} names."
            )
        kept = in_bands(n, band)
        return cls(source, HeldBatches(columns, matrix[:kept], np.zeros(kept)), outcome[:kept])

    def __repr__(self) -> str:
        return "rows in batches" if self.y is None else f"{len(self.y)} rows"

    @cached_property
    def summary(self) -> tuple[int, Array, Array]:
        """Number of rows, means and sds of all columns, by one pass."""
        coming = iter(self.rows)
        first = next(coming, None)
        if first is None:
            raise DataError(f"Source {self.source!r} must have rows; its table has none.")
        batches = zip(chain([first], coming))  # each in one block
        n, origin, mean, squares = over_blocks(batches, column_sums, joined_sums)
        return n, origin + mean, np.sqrt(squares / n)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the rows and outcomes, by one pass."""
        sha256 = hashlib.sha256()
        for X, y in self.rows:
            sha256.update(np.ascontiguousarray(X).data)
            sha256.update(np.ascontiguousarray(y).data)
        if self.y is not None:
            y = self.y.astype(str) if self.y.dtype == object else self.y
            sha256.update(np.ascontiguousarray(y).tobytes())
        return sha256.hexdigest()

    def of(self, brief: Brief) -> StudyRows:
        """The rows as `brief` wants to see them."""
        column, names = given_column(brief.model), self.rows.columns
        needed = [*brief.features, *filter(None, (brief.group, column))]
        missing = sorted(set(needed).difference(names), key=needed.index)
        if missing:
            raise DataError(
                f"Source {self.source!r} must have the study's {len(needed)} columns; "
                f"missing: {', '.join(map(repr, missing[:5]))}."
            )
        rows = self.rows
        if isinstance(rows, HeldBatches) and self.y is not None:
            where = f"The outcome of source {self.source!r}"
            rows = replace(rows, y=as_outcome(self.y, brief.classes, where))
        columns: slice | list[int] = list(map(names.index, brief.features))
        if columns == [*range(len(brief.features))]:
            columns = slice(len(brief.features))
        n_rows, mean, sd = self.summary
        return StudyRows(
            source=self.source,
            rows=rows,
            columns=columns,
            group=names.index(brief.group) if brief.group else None,
            brief=brief,
            n_rows=n_rows,
            mean=mean[columns],
            sd=sd[columns],
            held=self.y is not None,
            given=names.index(column) if column else None,
            judged=self.judged,
        )


#: Training weights are never below this share of their mean, so that no row is lost.
RATIO_FLOOR = 1e-3


# Who sees which rows ------------------------------------------------------------------------


@dataclass(frozen=True)
class Folds:
    """Which rows train and which are judged.

    Attributes
    ----------
    turns : sequence of Turn
    n_folds : int
    key : int
        Of the hash that deals rows to folds.
    dealt : array of int or None
        Part of every row where rows are shuffled and cut instead.
    """

    turns: Sequence[Turn]
    n_folds: int
    key: int = 0
    dealt: NDArray[np.int16] | None = field(default=None, repr=False)

    def labels(self, batch: Batch) -> NDArray[np.int16]:
        """Part of every row of a batch."""
        if self.dealt is not None:
            return self.dealt[batch.place]
        place = batch.place
        return fold_labels(place.start, place.stop, self.n_folds, self.key, batch.groups)


def folds_of(rows: StudyRows) -> Folds | None:
    """The folds of this source; fewer where outcomes are rare, none where they do not suffice.

    Every model must be fitted on rows of every class that the source has. A source for which no
    number of folds gives that can still examine the others' models.
    """
    brief = rows.brief
    rng = generator_for(brief.seed, rows.source, "folds")
    if brief.scheme != "cross-fit":
        dealt = dealt_labels(rows.n_rows, rng, brief.shares.tolist())
        return Folds(turns(brief.scheme, 3), 3, 0, dealt)
    key = fold_key(rng)
    # Rows that are dealt one by one fill every part, and a streamed table is long.
    sure = not rows.held or not (brief.classes or brief.group)
    for n_folds in range(min(brief.n_folds, rows.n_rows // 2), 1, -1):
        found = Folds(turns("cross-fit", n_folds), n_folds, key)
        if sure or _suffice(found, rows):
            return found
    return None


def _suffice(folds: Folds, rows: StudyRows) -> bool:
    """Whether every part has rows, and every model sees every class.

    Parameters
    ----------
    folds : Folds
    rows : StudyRows
    """
    n_classes = len(rows.brief.classes)
    counts = np.zeros((folds.n_folds, max(n_classes, 1)))
    for [batch] in rows.by_batch:
        labels = folds.labels(batch)
        codes = batch.y.astype(np.intp) if n_classes else np.zeros(len(labels), dtype=np.intp)
        flat = labels.astype(np.intp) * counts.shape[1] + codes
        counts += np.bincount(flat, minlength=counts.size).reshape(counts.shape)
    if (counts.sum(axis=1) == 0).any():
        return False
    present = counts.sum(axis=0) > 0
    trained = [counts[list(turn.train)].sum(axis=0) for turn in folds.turns]
    return all((count[present] > 0).all() for count in trained)


# Weights ------------------------------------------------------------------------------------


#: Of the blocks of a batch what weights that match the target's Table 1 are made from.
z_of_blocks = partial(map, attrgetter("z"))


@dataclass(frozen=True)
class RatioWeighing:
    """A density ratio fitted on rows of both sides; they are in memory.

    Attributes
    ----------
    ratios : array of shape (rows, turns + 1)
        One column for every turn, the last for a model of all rows.
    judged : array of shape (rows,)
        Weights of the rows that are judged, 0 elsewhere.
    total : float
        Sum of the judged rows' ratios.
    """

    ratios: Array = field(repr=False)
    judged: Array = field(repr=False)
    total: float
    findings: tuple[Finding, ...] = ()

    @classmethod
    def fit(cls, rows: StudyRows, folds: Folds, own: Any = None) -> RatioWeighing:
        """Fit the ratio on every turn's density part.

        Parameters
        ----------
        rows : StudyRows
            Their brief holds the target's.
        folds : Folds
        own : object with fit and predict, optional
            Takes the place of uLSIF.
        """
        brief, whole = rows.brief, rows.whole()
        target = (brief.rows - brief.mean) / brief.sd if brief.scale else brief.rows
        labels = folds.labels(whole)
        columns, findings = [], list[Finding]()
        everywhere, judged = np.zeros(rows.n_rows), np.zeros(rows.n_rows)
        for k, turn in enumerate(folds.turns):
            rng = generator_for(brief.seed, rows.source, f"ratio-{k}")
            density = whole.seen[np.isin(labels, turn.density)]
            ratio = ULSIF(**thaw(brief.ratio), random_state=rng) if own is None else deepcopy(own)
            ratio.fit(density, target)
            findings += [f for f in getattr(ratio, "findings_", ()) if f not in findings]
            ratios = _checked(ratio.predict(whole.seen), rows)
            columns.append(ratios)
            here = labels == turn.judge
            judged[here] = ratios[here]
            everywhere = ratios if brief.scheme == "split" else np.where(here, ratios, everywhere)
        total = float(judged.sum())
        share = np.isin(labels, [turn.judge for turn in folds.turns])
        weights = judged / total if total > 0.0 else share / share.sum()
        return cls(np.column_stack([*columns, everywhere]), weights, total, tuple(findings))


#: Weights that match the target's Table 1, one set for training and for judging, or a ratio's.
Weighing = Tilt | RatioWeighing


def weights_of(weighing: Weighing, batch: Batch) -> tuple[Array, Array]:
    """Weights of a batch's rows for judging, and ratios for training.

    Parameters
    ----------
    weighing : Weighing
    batch : Batch

    Returns
    -------
    judging : array of shape (rows,)
        Over all rows that are judged they sum to one; where all ratios are 0 they are equal.
    training : array of shape (rows, columns)
        One column for all turns; or one for every turn, and the last for all rows.
    """
    if isinstance(weighing, RatioWeighing):
        return weighing.judged[batch.place], weighing.ratios[batch.place]
    w = weighing.weights(batch.z)
    return w, np.maximum(weighing.n_rows * w, RATIO_FLOOR)[:, None]


def _checked(ratios: Any, rows: StudyRows) -> Array:
    """The ratios of all rows: a user's own must be one finite number ≥ 0 a row.

    Parameters
    ----------
    ratios : array of shape (rows,)
    rows : StudyRows
    """
    found = np.asarray(ratios, dtype=np.float64)
    if found.shape != (rows.n_rows,) or not np.isfinite(found).all() or (found < 0.0).any():
        raise DataError(
            f"The density ratio must be one finite number ≥ 0 for each of the {rows.n_rows} rows "
            f"of source {rows.source!r}. Check what its predict returns."
        )
    return found

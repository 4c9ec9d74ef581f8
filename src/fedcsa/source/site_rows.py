"""A source's rows, held in memory or read batch by batch, as a study sees them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcsa.core.arrays import Array, as_matrix, as_outcome
from fedcsa.core.batches import BandedBatches, Batches, HeldBatches, in_bands, summarise
from fedcsa.errors import DataError
from fedcsa.messages.fields import thaw
from fedcsa.messages.messages import Brief


@dataclass(frozen=True)
class Batch:
    """Some rows of a source as a study sees them.

    Attributes
    ----------
    start : int
        Position of the first row in the table.
    z : array of shape (rows, features)
        In the target's units.
    seen : array of shape (rows, features)
        As the models see them.
    y : array of shape (rows,)
        Numbers, or codes of classes.
    groups : array of shape (rows,) or None
        Whole numbers that stand for patients with several rows.
    """

    start: int
    z: Array
    seen: Array
    y: Array
    groups: Array | None

    @property
    def stop(self) -> int:
        """Position after the last row."""
        return self.start + len(self.y)

    def cut(self, size: int) -> Iterator[Batch]:
        """The same rows, `size` at a time."""
        for first in range(0, len(self.y), size):
            rows = slice(first, first + size)
            groups = None if self.groups is None else self.groups[rows]
            yield Batch(self.start + first, self.z[rows], self.seen[rows], self.y[rows], groups)


@dataclass(frozen=True)
class StudyRows:
    """All rows of a source as a study sees them; every pass over them starts anew.

    Attributes
    ----------
    source : str
        Its name, from which its random numbers follow.
    rows : Batches
    columns : sequence of int
        The study's features among the columns of `rows`.
    group : int or None
        The column that says which rows are of one patient.
    brief : Brief
        With the target's means and sds, and whether models see features in these units.
    n_rows : int
    """

    source: str
    rows: Batches = field(repr=False)
    columns: Sequence[int] = field(repr=False)
    group: int | None = field(repr=False)
    brief: Brief = field(repr=False)
    n_rows: int

    @property
    def held(self) -> bool:
        """Whether the rows are in memory."""
        return isinstance(self.rows, HeldBatches)

    def __iter__(self) -> Iterator[Batch]:
        """Start a pass."""
        start = 0
        in_place = list(self.columns) == list(range(len(self.columns)))
        picked = slice(0, len(self.columns)) if in_place else list(self.columns)
        for X, y in self.rows:
            # Laid out alike, rows give the same bits wherever they come from.
            raw = np.ascontiguousarray(X[:, picked])
            z = raw - self.brief.mean
            z /= self.brief.sd
            groups = None if self.group is None else X[:, self.group]
            yield Batch(start, z, z if self.brief.scale else raw, y, groups)
            start += len(y)

    def whole(self) -> Batch:
        """All rows at once: for models that need them in memory."""
        parts = list(self)
        if len(parts) == 1:
            return parts[0]
        z = np.concatenate([part.z for part in parts])
        seen = z if self.brief.scale else np.concatenate([part.seen for part in parts])
        y = np.concatenate([part.y for part in parts])
        told = [part.groups for part in parts if part.groups is not None]
        return Batch(0, z, seen, y, np.concatenate(told) if told else None)


class SiteRows:
    """The rows of one source.

    Parameters
    ----------
    source : str
    rows : Batches
        With classes in memory, `y` may be given as labels; batches hold codes of classes.
    y : array, optional
        Outcomes of rows in memory, as they came.
    """

    def __init__(self, source: str, rows: Batches, y: NDArray[Any] | None = None) -> None:
        self.source = source
        self._rows = rows
        self._y = y

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

    @classmethod
    def in_batches(cls, source: str, rows: Batches, band: int) -> SiteRows:
        """Rows that are read anew for every pass and never held, in a multiple of `band`.

        Parameters
        ----------
        source : str
        rows : Batches
        band : int
            The last few rows beyond a multiple of it are left out.
        """
        return cls(source, rows if band == 1 else BandedBatches(rows, band))

    def __repr__(self) -> str:
        return "rows in batches" if self._y is None else f"{self.n_rows} rows"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self._rows.columns

    @cached_property
    def _looked(self) -> tuple[int, Array, str]:
        """Number of rows, sds and hash, by one pass."""
        sha256 = hashlib.sha256()

        def hashed() -> Iterator[tuple[Array, Array]]:
            for X, y in self._rows:
                sha256.update(np.ascontiguousarray(X).data)
                sha256.update(np.ascontiguousarray(y).data)
                yield X, y

        n_rows, sd = summarise(hashed(), len(self.columns))
        if not n_rows:
            raise DataError(f"Source {self.source!r} must have rows; its table has none.")
        if self._y is not None:
            y = self._y.astype(str) if self._y.dtype == object else self._y
            sha256.update(np.ascontiguousarray(y).tobytes())
        return n_rows, sd, sha256.hexdigest()

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self._looked[0] if self._y is None else len(self._y)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the rows and outcomes."""
        return self._looked[2]

    def sd(self, features: Sequence[str]) -> Array:
        """The source's own standard deviations of `features`."""
        order = [self.columns.index(name) for name in features]
        own: Array = self._looked[1][order]
        return own

    def of(self, brief: Brief) -> StudyRows:
        """The rows as `brief` wants to see them."""
        needed = [*brief.features, *([brief.group] if brief.group else [])]
        missing = [name for name in needed if name not in self.columns]
        if missing:
            raise DataError(
                f"Source {self.source!r} must have the study's {len(needed)} columns; "
                f"missing: {', '.join(map(repr, missing[:5]))}."
            )
        rows = self._rows
        if self._y is not None:
            rows = HeldBatches(self.columns, rows.X, self._outcome(brief, self._y))  # type: ignore[attr-defined]
        columns = [self.columns.index(name) for name in brief.features]
        group = self.columns.index(brief.group) if brief.group else None
        return StudyRows(self.source, rows, columns, group, brief, self.n_rows)

    def _outcome(self, brief: Brief, y: NDArray[Any]) -> Array:
        """Outcomes as numbers, or as codes of the study's classes.

        Parameters
        ----------
        brief : Brief
        y : array of shape (rows,)
            As it came.
        """
        where = f"The outcome of source {self.source!r}"
        return as_outcome(y, thaw(brief.classes), where)

"""A source's rows, held in memory or read batch by batch, and what is computed on them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from fedcsa.core.arrays import Array, as_matrix, as_vector, read_only
from fedcsa.core.batches import (
    BandedBatches,
    Batches,
    HashedBatches,
    HeldBatches,
    RowsSummary,
    in_bands,
    summarise,
)
from fedcsa.core.folds import Rotation
from fedcsa.core.losses import Loss
from fedcsa.core.parallel import one_blas_thread
from fedcsa.errors import DataError
from fedcsa.models.base import Candidate, Model
from fedcsa.models.fitted import FittedModel
from fedcsa.protocol.fields import thaw
from fedcsa.protocol.messages import Brief
from fedcsa.roles.local import (
    LocalRatio,
    LocalRows,
    Measurement,
    fit_chosen,
    local_ratio,
    local_rotations,
    measure,
)
from fedcsa.roles.noise import asks_for_noise, prediction_variance
from fedcsa.roles.plan import encode_classes
from fedcsa.roles.swept import (
    SWEEP_ROWS,
    Swept,
    can_sweep,
    refit_chosen,
    sweep,
    swept_variance,
)

#: Fewer rows than this are not worth a second BLAS thread.
THREADS_ROWS = 20_000


@dataclass(frozen=True)
class Admission:
    """What a site's policy looks at before it lets a study in."""

    fold_rows: Sequence[int]
    train_rows: int
    sd: Array


@dataclass(frozen=True)
class LocalFit:
    """The model that is sent, and what is said of it.

    Attributes
    ----------
    model : FittedModel or None
        None if it could not be fitted.
    n_rows : int
        On how many rows.
    prediction_variance : float
        How much its predictions owe to chance; 0 where nobody asks.
    """

    model: FittedModel | None
    n_rows: int
    prediction_variance: float


class SiteRows(Protocol):
    """What a source can do with its rows."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the features."""
        ...

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        ...

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the rows and outcomes."""
        ...

    def admission(self, brief: Brief) -> Admission:
        """Sizes of folds and spread of columns, before anything is computed."""
        ...

    def measure(
        self, brief: Brief, model: Model, candidates: Sequence[Candidate], loss: Loss
    ) -> Measurement:
        """Phase 1: everything that a risk report says."""
        ...

    def fit(self, brief: Brief, model: Model, candidate: Candidate, loss: Loss) -> LocalFit:
        """Phase 2: the model that is sent."""
        ...


class RowsInMemory:
    """Rows as arrays, in a multiple of `band`."""

    def __init__(
        self,
        source: str,
        X: ArrayLike,
        y: ArrayLike,
        features: Sequence[str] | None,
        band: int = 1,
    ) -> None:
        self._source = source
        self._X = read_only(as_matrix(X, f"X of source {source!r}"))
        self._y = np.asarray(y)
        n, d = self._X.shape
        if self._y.shape[:1] != (n,):
            raise DataError(
                f"The outcome of source {source!r} must have {n} rows like its features; "
                f"it has {self._y.shape[0] if self._y.ndim else 0}."
            )
        kept = in_bands(n, band)
        self._X, self._y = self._X[:kept], self._y[:kept]
        self.columns = tuple(features or (f"x{i}" for i in range(d)))
        if len(set(self.columns)) != d or len(self.columns) != d:
            raise DataError(
                f"Source {source!r} must have one distinct name for each of its "
                f"{d} columns; it has {len(self.columns)} names."
            )
        self._done: tuple[Brief, LocalRatio | Swept] | None = None

    def __repr__(self) -> str:
        return f"{self.n_rows} rows"

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self._X)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the rows and outcomes."""
        y = self._y.astype(str) if self._y.dtype == object else self._y
        return HashedBatches(HeldBatches(self.columns, self._X, y)).see_all()

    def admission(self, brief: Brief) -> Admission:
        """Sizes of folds and spread of columns, before anything is computed."""
        plan = _named(self._source, brief, self.n_rows)
        folds = [len(part) for r in plan for part in (r.density, r.train, r.validation)]
        train_rows = self.n_rows if brief.refit else len(plan[0].train)
        if self.n_rows < SWEEP_ROWS:
            return Admission(folds, train_rows, self._features(brief).std(axis=0))
        sd = summarise(HeldBatches(self.columns, self._X, np.zeros(self.n_rows))).sd
        return Admission(folds, train_rows, sd[_order(self.columns, brief)])

    def measure(
        self, brief: Brief, model: Model, candidates: Sequence[Candidate], loss: Loss
    ) -> Measurement:
        """Phase 1: everything that a risk report says."""
        found, work = self._compute(brief, model, candidates, loss)
        self._done = brief, work
        return found

    def fit(self, brief: Brief, model: Model, candidate: Candidate, loss: Loss) -> LocalFit:
        """Phase 2: the model that is sent."""
        if self._done is not None and self._done[0] == brief:
            work = self._done[1]
        else:
            _, work = self._compute(brief, model, [candidate], loss)
        if isinstance(work, Swept):
            return _swept_fit(brief, work, candidate)
        rows = self._rows(brief)
        fitted, n_rows = fit_chosen(brief, rows, work, model, candidate)
        if fitted is None:
            return LocalFit(None, n_rows, 0.0)
        variance = prediction_variance(brief, rows, work, model, candidate)
        return LocalFit(fitted, n_rows, variance)

    def _compute(
        self, brief: Brief, model: Model, candidates: Sequence[Candidate], loss: Loss
    ) -> tuple[Measurement, LocalRatio | Swept]:
        if self.n_rows >= SWEEP_ROWS and can_sweep(model, brief, loss):
            held = HeldBatches(self.columns, self._X, self._outcome(brief))
            return sweep(brief, self._source, held, model, candidates, loss)
        rows = self._rows(brief)
        # Small matrices take longer on two threads than on one, and far longer on a busy machine.
        with one_blas_thread() if self.n_rows < THREADS_ROWS else nullcontext():
            ratio = local_ratio(brief, rows)
            found = measure(brief, rows, ratio, model, candidates, loss)
        return found, replace(ratio, psi=None, cross_fit=None)  # the largest arrays go

    def _features(self, brief: Brief) -> Array:
        """The rows with the brief's columns in the brief's order."""
        order = _order(self.columns, brief)
        if order == list(range(self._X.shape[1])):
            return self._X
        return np.ascontiguousarray(self._X[:, order])  # laid out alike, it gives the same bits

    def _outcome(self, brief: Brief) -> Array:
        where = f"The outcome of source {self._source!r}"
        if brief.classes:
            outcome = encode_classes(self._y, thaw(brief.classes), where)
        else:
            outcome = as_vector(self._y, where, n_rows=self.n_rows)
        if (outcome == outcome[0]).all():
            raise _same(where, self.n_rows)
        return outcome

    def _rows(self, brief: Brief) -> LocalRows:
        X = self._features(brief)
        outcome = self._outcome(brief)
        standardised = (X - brief.mean) / brief.sd
        seen = standardised if brief.scale else X
        return LocalRows(self._source, X, seen, standardised, outcome)


class RowsInBatches:
    """Rows that are read anew for every pass and never held, in a multiple of `band`."""

    def __init__(self, source: str, rows: Batches, band: int = 1) -> None:
        self._source = source
        self._rows = rows if band == 1 else BandedBatches(rows, band)
        self._done: tuple[Brief, Swept] | None = None

    def __repr__(self) -> str:
        return "rows in batches"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the features."""
        return self._rows.columns

    @cached_property
    def _looked(self) -> tuple[RowsSummary, str]:
        seen = HashedBatches(self._rows)
        found = summarise(seen)
        if not found.n_rows:
            raise DataError(f"Source {self._source!r} must have rows; its table has none.")
        return found, seen.sha256.hexdigest()

    @property
    def _summary(self) -> RowsSummary:
        return self._looked[0]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the rows and outcomes."""
        return self._looked[1]

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self._summary.n_rows

    def admission(self, brief: Brief) -> Admission:
        """Sizes of folds and spread of columns, before anything is computed."""
        n = self.n_rows
        _named(self._source, brief, min(n, 10 * brief.n_folds))  # are they enough?
        smallest = n // brief.n_folds
        sd = self._summary.sd[_order(self.columns, brief)]
        return Admission([smallest, n - smallest], n, sd)

    def measure(
        self, brief: Brief, model: Model, candidates: Sequence[Candidate], loss: Loss
    ) -> Measurement:
        """Phase 1: everything that a risk report says."""
        found, swept = self._compute(brief, model, candidates, loss)
        self._done = brief, swept
        return found

    def fit(self, brief: Brief, model: Model, candidate: Candidate, loss: Loss) -> LocalFit:
        """Phase 2: the model that is sent."""
        if self._done is not None and self._done[0] == brief:
            swept = self._done[1]
        else:
            _, swept = self._compute(brief, model, [candidate], loss)
        return _swept_fit(brief, swept, candidate)

    def _compute(
        self, brief: Brief, model: Model, candidates: Sequence[Candidate], loss: Loss
    ) -> tuple[Measurement, Swept]:
        if not can_sweep(model, brief, loss):
            raise self._too_large(brief, len(candidates))
        if not self._summary.outcome_varies:
            raise _same(f"The outcome of source {self._source!r}", self.n_rows)
        return sweep(brief, self._source, self._rows, model, candidates, loss)

    def _too_large(self, brief: Brief, n_candidates: int) -> DataError:
        columns = 4 * len(brief.features) + len(brief.embedding) + 3 * (n_candidates + 1)
        gib = 8.0 * self.n_rows * columns / 2**30
        return DataError(
            f"Source {self._source!r} is read in batches, which allows ridge and least squares "
            "with the squared or absolute loss, cross-fitting and the embedding; this study needs "
            f"its {self.n_rows} rows in memory, about {gib:.1f} GiB. Read them whole, or choose a "
            "linear model."
        )


def _swept_fit(brief: Brief, swept: Swept, candidate: Candidate) -> LocalFit:
    variance = swept_variance(swept, candidate) if asks_for_noise(brief) else 0.0
    return LocalFit(refit_chosen(swept, candidate), swept.n_rows, variance)


def _order(columns: tuple[str, ...], brief: Brief) -> list[int]:
    """Where the brief's features are among `columns`."""
    return [columns.index(name) for name in brief.features]


def _named(source: str, brief: Brief, n_rows: int) -> list[Rotation]:
    """The folds, naming the source if its rows do not suffice."""
    try:
        return local_rotations(brief, source, n_rows)
    except DataError as error:
        raise DataError(f"Source {source!r}: {error}") from None


def _same(where: str, n_rows: int) -> DataError:
    return DataError(f"{where} must vary; it is the same in all {n_rows} rows.")

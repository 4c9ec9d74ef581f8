"""How a source weights its rows: to the target's Table 1, or by a ratio fitted on its rows.

Whoever goes through the rows in batches asks for the weights of a batch, so that they need not
be held: those of a table follow from the row alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.core.folds import (
    Turn,
    dealt_labels,
    fold_key,
    fold_labels,
    generator_for,
    group_labels,
    turns,
)
from fedcsa.core.tilt import Tilt, fit_tilt
from fedcsa.core.ulsif import ULSIF
from fedcsa.errors import DataError
from fedcsa.findings import Finding
from fedcsa.messages.fields import thaw
from fedcsa.messages.messages import Brief
from fedcsa.source.site_rows import Batch, StudyRows

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
            return self.dealt[batch.start : batch.stop]
        if batch.groups is not None:
            return group_labels(batch.groups, self.n_folds, self.key)
        return fold_labels(batch.start, batch.stop, self.n_folds, self.key)


def folds_of(brief: Brief, rows: StudyRows) -> Folds | None:
    """The folds of this source; fewer where outcomes are rare, none where they do not suffice.

    Every model must be fitted on rows of every class that the source has. A source for which no
    number of folds gives that can still examine the others' models.

    Parameters
    ----------
    brief : Brief
    rows : StudyRows
    """
    rng = generator_for(brief.seed, rows.source, "folds")
    if brief.scheme != "cross-fit":
        dealt = dealt_labels(rows.n_rows, brief.scheme, rng, brief.shares.tolist())
        return Folds(turns(brief.scheme, 3), 3, 0, dealt)
    key = fold_key(rng)
    for n_folds in range(min(brief.n_folds, rows.n_rows // 2), 1, -1):
        found = Folds(turns("cross-fit", n_folds), n_folds, key)
        if not rows.held or _suffice(found, rows, brief):
            return found
    return None


def _suffice(folds: Folds, rows: StudyRows, brief: Brief) -> bool:
    """Whether every part has rows, and every model sees every class.

    Parameters
    ----------
    folds : Folds
    rows : StudyRows
        In memory: a streamed table is long.
    brief : Brief
    """
    n_classes = len(brief.classes)
    counts = np.zeros((folds.n_folds, max(n_classes, 1)))
    for batch in rows:
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


@dataclass(frozen=True)
class TableWeighing:
    """Weights that match the target's Table 1: one set for training and for judging.

    Attributes
    ----------
    tilt : Tilt
    findings : tuple of Finding
        What is dangerous about the weights.
    n_columns : int
        Kinds of training weights: one for all turns.
    """

    tilt: Tilt
    findings: tuple[Finding, ...] = ()
    n_columns: int = 1

    @classmethod
    def fit(cls, brief: Brief, rows: StudyRows) -> TableWeighing:
        """Weight `rows` to the table in `brief`.

        Parameters
        ----------
        brief : Brief
        rows : StudyRows
        """
        table = brief.table
        flags = np.array(table.flags, dtype=bool)
        return cls(fit_tilt(_OnlyZ(rows), flags, table.correlations))

    @property
    def total(self) -> float:
        """What weights that sum to one are multiplied with to be ratios: the number of rows."""
        return float(self.tilt.n_rows)

    def training(self, batch: Batch) -> Array:
        """Ratios n·w, at least a thousandth, shape (rows, 1)."""
        return np.maximum(self.total * self.judging(batch), RATIO_FLOOR)[:, None]

    def judging(self, batch: Batch) -> Array:
        """W of every row."""
        return self.tilt.weights(batch.z)


@dataclass(frozen=True)
class _OnlyZ:
    """Passes over the rows in the target's units."""

    rows: StudyRows

    def __iter__(self) -> Any:
        return (batch.z for batch in self.rows)


@dataclass(frozen=True)
class RatioWeighing:
    """A density ratio fitted on rows of both sides, as in the paper; rows are in memory.

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
    def fit(cls, brief: Brief, rows: StudyRows, folds: Folds, own: Any = None) -> RatioWeighing:
        """Fit the ratio on every turn's density part.

        Parameters
        ----------
        brief : Brief
            With the target's rows.
        rows : StudyRows
        folds : Folds
        own : object with fit and predict, optional
            Takes the place of uLSIF.
        """
        whole = rows.whole()
        target = (brief.rows - brief.mean) / brief.sd if brief.scale else brief.rows
        labels = folds.labels(whole)
        columns, findings = [], list[Finding]()
        everywhere, judged = np.zeros(rows.n_rows), np.zeros(rows.n_rows)
        for k, turn in enumerate(folds.turns):
            rng = generator_for(brief.seed, rows.source, f"ratio-{k}")
            density = whole.seen[np.isin(labels, turn.density)]
            ratio = ULSIF(**thaw(brief.ratio), random_state=rng) if own is None else deepcopy(own)
            ratio.fit(density, target)
            findings += getattr(ratio, "findings_", ())
            ratios = _checked(ratio.predict(whole.seen), rows)
            columns.append(ratios)
            here = labels == turn.judge
            judged[here] = ratios[here]
            everywhere = ratios if brief.scheme == "split" else np.where(here, ratios, everywhere)
        total = float(judged.sum())
        share = np.isin(labels, [turn.judge for turn in folds.turns])
        weights = judged / total if total > 0.0 else share / share.sum()
        return cls(np.column_stack([*columns, everywhere]), weights, total, tuple(findings))

    @property
    def n_columns(self) -> int:
        """One a turn, and one for all rows."""
        return int(self.ratios.shape[1])

    def training(self, batch: Batch) -> Array:
        """Ratios of a batch's rows, shape (rows, turns + 1)."""
        rows: Array = self.ratios[batch.start : batch.stop]
        return rows

    def judging(self, batch: Batch) -> Array:
        """Weights of a batch's rows; where all ratios are 0, equal ones."""
        rows: Array = self.judged[batch.start : batch.stop]
        return rows


Weighing = TableWeighing | RatioWeighing


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
            f"of source {rows.source!r}; it is not. Check what its predict returns."
        )
    return found

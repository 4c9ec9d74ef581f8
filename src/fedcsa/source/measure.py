"""What a source computes on its own rows: weights, models of every candidate, their risks.

Rows are gone through in batches, so that they need not fit into memory; only models that cannot be
fitted from sums hold them all. Sums are made in the order of the batches: nothing depends on the
number of cores, or on whether the rows are held or read.

=================  ==================================================================
`fit_tilt`         a pass for every step of Newton's method, see `fedcsa.core.tilt`
`fits_of`          linear models: one pass for the products of every part and power
`measure`          one pass: losses of every candidate on rows that it has not seen
=================  ==================================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.core.batches import CACHED_ROWS, over_blocks
from fedcsa.core.losses import Loss, RiskMoments, loss_named, row_losses, sampling_variance
from fedcsa.core.tilt import Tilt, fit_tilt
from fedcsa.errors import DataError
from fedcsa.messages.messages import RiskReport
from fedcsa.models.description import LINEAR, Candidate
from fedcsa.models.model import LinearRegression, Model, Path, path_losses
from fedcsa.models.portable import agreed_grid
from fedcsa.models.registry import instantiate
from fedcsa.source.fits import Fits, LinearFits, fits_of
from fedcsa.source.weigh import (
    Batch,
    RatioWeighing,
    StudyRows,
    Weighing,
    folds_of,
    weights_of,
    z_of_blocks,
)

#: Correlations are sent for at most so many features: 435 numbers.
MOST_CORRELATED = 30
#: Losses that are made at a time, rows times candidates: 8 MB, however many candidates there are.
MOST_LOSSES = 1 << 20
#: In GiB: every machine has less than this to spare, and it would be told as 0.0.
_WORTH_TELLING = 0.05
#: The moments of a report that was not asked for any.
_NO_MOMENTS = RiskMoments(0, 0.0, 0.0, *[np.empty(0)] * 5)


@dataclass(frozen=True)
class Work:
    """What a source remembers of a study between its messages.

    Attributes
    ----------
    rows : StudyRows
        In blocks that are judged together.
    candidates : mapping of int to Candidate
        By their numbers in the study; a given model is one without values.
    loss : Loss
    weighing : Weighing
    fits : Fits or None
        None if the study's model is given, or where outcomes are too few to judge one.
    paths : sequence of Path
        Of every turn; none without fits. They hold models only if these are linear.
    outputs : array of shape (candidates, rows) or (candidates, rows, classes), or None
        What other models predict for rows that they have not seen.
    left_out : array of bool of shape (rows,), or None
        Rows that take no part in the model that is sent.
    chosen : Candidate
        The one that a model is sent of; `paths` and `outputs` are then of it alone.
    """

    rows: StudyRows = field(repr=False)
    candidates: Mapping[int, Candidate]
    loss: Loss = field(repr=False)
    weighing: Weighing = field(repr=False)
    fits: Fits | None = field(default=None, repr=False)
    paths: Sequence[Path] = field(default=(), repr=False)
    outputs: Array | None = field(default=None, repr=False)
    left_out: NDArray[np.bool_] | None = field(default=None, repr=False)
    chosen: Candidate = field(default_factory=dict)

    def turn_paths(self) -> Sequence[Path]:
        """Models of the one candidate, one without each part: kept, or fitted again."""
        if self.outputs is None or self.fits is None:
            return self.paths
        return self.fits.paths(self.fits.turns, [self.chosen])


def prepare(
    rows: StudyRows,
    at: int | None = None,
    *,
    losses: Mapping[str, Loss] | None = None,
    ratio: Any = None,
    trusted_types: Collection[str] = (),
) -> Work:
    """Weight the rows; unless the model is given, fit every candidate without each part in turn.

    Parameters
    ----------
    rows : StudyRows
    at : int, optional
        Number of the one candidate that is fitted and chosen; by default all are fitted.
    losses, ratio, trusted_types
        As for `fedcsa.source.source.Source`.
    """
    brief, n_classes = rows.brief, len(rows.brief.classes)
    by_table = not brief.candidates or brief.exchange == "table"
    model: Model | None = None
    numbers, every = range(1), list[dict[str, Any]]([{}])  # a given model has no values
    if brief.candidates:
        numbers = range(len(brief.candidates)) if at is None else range(at, at + 1)
        told = brief.candidates[numbers.start : numbers.stop]
        linear = brief.model.get("name") in LINEAR
        grid = None if linear else agreed_grid(brief.sd, scale=brief.scale)
        model, every = instantiate(brief.model, told, n_classes, trusted_types, grid)
    loss = loss_named(brief.loss, n_classes, losses)
    if model is None:
        rows.check_given()
    elif not rows.held and not (isinstance(model, LinearRegression) and by_table):
        raise _too_large(rows, len(every))
    folds = None if model is None else folds_of(rows)
    if by_table:
        table = brief.table
        weighing: Weighing = fit_tilt(rows, table.flags, table.correlations, z_of_blocks)
    elif folds is not None:
        weighing = RatioWeighing.fit(rows, folds, ratio)
    else:
        raise DataError(
            f"Source {rows.source!r} must have two rows or more per fold and every class in "
            "all but one; its rows do not suffice. Leave it out or use fewer folds."
        )
    candidates = dict(zip(numbers, every, strict=True))
    most = max(MOST_LOSSES // max(len(brief.candidates), 1), 1)
    judged = replace(rows, block_rows=min(CACHED_ROWS, most))
    if model is None or folds is None:
        return Work(judged, candidates, loss, weighing)
    fits, outputs = fits_of(rows, weighing, folds, model, every), None
    if isinstance(fits, LinearFits):
        paths = fits.paths(fits.turns, every)
    else:
        outputs, paths = fits.held_out(every)
    chosen = {} if at is None else every[0]
    return Work(judged, candidates, loss, weighing, fits, paths, outputs, chosen=chosen)


def _too_large(rows: StudyRows, n_candidates: int) -> DataError:
    """The complaint that streamed rows are needed in memory, with about how much of it.

    Parameters
    ----------
    rows : StudyRows
    n_candidates : int
    """
    # Eight bytes a cell: the rows as they are and as models see them, with copies of a fold.
    gib = 8.0 * rows.n_rows * (4 * len(rows.mean) + 3 * n_candidates) / 2**30
    much = f", about {gib:.1f} GiB" if gib >= _WORTH_TELLING else ""
    return DataError(
        f"Source {rows.source!r} is read in batches, which suits ridge and weighted least squares "
        f"and the exchange of a table; this study needs its {rows.n_rows} rows in memory{much}. "
        "Read them whole, or choose ridge or weighted least squares."
    )


# Judging ------------------------------------------------------------------------------------


def measure(
    work: Work, in_reply_to: str, n_narrow: int = 0, most: Array | None = None
) -> RiskReport:
    """Judge every candidate on rows that its models have not seen.

    Parameters
    ----------
    work : Work
    in_reply_to : str
        Hash of the question.
    n_narrow : int
        Features of the target's table that vary too little beside the source's own.
    most : array of shape (candidates,), optional
        What the loss of a row counts at most, times its weight.
    """
    brief = work.rows.brief
    n_candidates, of_block = len(brief.candidates), partial(_sums_of_block, work, most)
    sums = over_blocks(work.rows, of_block, _Measured.merge)
    total = sums.total  # of the rows that are judged: 1, but for a split
    ess = total**2 / sums.squares if total > 0.0 else 0.0
    risk, variance = sums.mean.copy(), np.zeros(n_candidates)
    if work.fits is not None and total > 0.0:
        variance = sampling_variance(sums.spread / total, sums.squared_spread / total**2, ess)
    failed = dict(sums.failed)
    for path in work.paths:
        failed.update(path.failures)
    if work.fits is None:
        failed = dict.fromkeys(range(n_candidates), "TooFewOutcomes")
    risk[[*failed]], variance[[*failed]] = 0.0, 0.0
    before = sums.before / work.rows.n_rows
    weighted = isinstance(work.weighing, Tilt) or work.weighing.total > 0.0
    moments, d, own = {**vars(sums.moments or _NO_MOMENTS)}, len(brief.features), np.empty(0)
    del moments["n_rows"]  # it is told with every report
    asked = not len(brief.correlations) and 2 <= d <= MOST_CORRELATED  # the target tells none
    if asked and isinstance(work.weighing, Tilt):
        own = np.round(work.weighing.own_correlations[np.triu_indices(d, 1)], 2)
    return RiskReport(
        study=brief.study,
        source=work.rows.source,
        in_reply_to=in_reply_to,
        n_rows=work.rows.n_rows,
        n_judged=sums.n_judged,
        n_folds=0 if work.fits is None else work.fits.folds.n_folds,
        effective_rows=ess if weighted else 0.0,
        largest_share=sums.largest / total if ess and weighted else 0.0,
        difference_before=before,
        difference_after=sums.after / total if ess else before,
        outcome_mean=sums.outcome / (total or 1.0),
        outcome_sd=0.0 if brief.classes or not ess else float((sums.outcome_spread / total) ** 0.5),
        correlations=own,
        risk=risk,
        variance=variance,
        failed={str(index): reason for index, reason in sorted(failed.items())},
        findings=_findings(work, n_narrow),
        **moments,
    )


@dataclass(frozen=True)
class _Measured:
    """Sums over judged rows; they merge block by block without cancelling.

    Moments of the losses L are about `mean`: Chan, Golub and LeVeque (1983).
    """

    n_judged: int
    before: Array  # Σ z, of all rows
    after: Array  # Σ w z
    outcome: Array  # Σ w y, or of every class
    outcome_spread: float  # Σ w (y − its mean)² of numbers
    total: float  # Σ w
    squares: float  # Σ w²
    largest: float  # max w
    mean: Array  # Σ w L / Σ w
    spread: Array  # Σ w (L − mean)²
    squared_sum: Array  # Σ w² (L − mean)
    squared_spread: Array  # Σ w² (L − mean)²
    moments: RiskMoments | None
    failed: Mapping[int, str]

    def about(self, mean: Array) -> tuple[Array, Array]:
        """Σ w² (L − mean) and Σ w² (L − mean)² about another mean."""
        gap = self.mean - mean
        squares = self.squared_spread + gap * (2.0 * self.squared_sum + self.squares * gap)
        return self.squared_sum + self.squares * gap, squares

    def merge(self, other: _Measured) -> _Measured:
        """Sums over the rows of both."""
        added: dict[str, Any] = {
            name: getattr(self, name) + getattr(other, name) for name in _ADDED
        }
        share = other.total / added["total"] if added["total"] > 0.0 else 0.0
        gap, between = other.mean - self.mean, self.total * share
        own, others = (part.outcome[0] / (part.total or 1.0) for part in (self, other))
        added["outcome_spread"] += between * float(others - own) ** 2
        added["spread"] += between * gap**2
        mean = self.mean + share * gap
        (first, first_spread), (second, second_spread) = self.about(mean), other.about(mean)
        moments = self.moments or other.moments
        if self.moments and other.moments:
            moments = self.moments.merge(other.moments)
        return _Measured(
            **added,
            largest=max(self.largest, other.largest),
            mean=mean,
            squared_sum=first + second,
            squared_spread=first_spread + second_spread,
            moments=moments,
            failed={**other.failed, **self.failed},
        )


#: Sums that are added; where a mean has moved, more is added to the last two.
_ADDED = ("n_judged", "before", "after", "outcome", "total", "squares", "outcome_spread", "spread")


def _sums_of_block(work: Work, most: Array | None, batch: Batch) -> _Measured:
    """Losses of every candidate under the weights, on a few rows.

    Parameters
    ----------
    work : Work
    most : array of shape (candidates,) or None
        What the loss of a row counts at most, times its weight.
    batch : Batch
    """
    brief = work.rows.brief
    n_candidates, n_classes = len(brief.candidates), len(brief.classes)
    losses, rows, failed = held_out_losses(work, batch)
    weights, _ = weights_of(work.weighing, batch)
    w, y = weights[rows], batch.y[rows]
    judged = weights if len(rows) == len(weights) else np.bincount(rows, w, len(weights))
    if most is not None:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            np.fmin(losses, most / w[:, None], out=losses)  # of no weight: as they are
    moments = None
    if brief.moments and len(y):
        total = work.weighing.n_rows if isinstance(work.weighing, Tilt) else work.weighing.total
        moments = RiskMoments.of(total * w, losses)
    outcome, total, squared = np.array([float(w @ y)]), float(w.sum()), w * w
    both = np.stack([w, squared])
    spread = float(w @ (y - outcome[0] / (total or 1.0)) ** 2)
    if n_classes:
        outcome = np.bincount(y.astype(np.intp), weights=w, minlength=n_classes)
    mean = w @ losses / total if total > 0.0 else np.zeros(n_candidates)
    losses -= mean  # in place from here on: these arrays are the largest of all
    squared_sum = squared @ losses
    losses *= losses
    spread_of_losses, squared_spread = both @ losses
    return _Measured(
        n_judged=len(y),
        before=batch.z.sum(axis=0),
        after=judged @ batch.z,
        outcome=outcome,
        outcome_spread=spread,
        total=total,
        squares=float(squared.sum()),
        largest=float(w.max(initial=0.0)),
        mean=mean,
        spread=spread_of_losses,
        squared_sum=squared_sum,
        squared_spread=squared_spread,
        moments=moments,
        failed=failed,
    )


def held_out_losses(work: Work, batch: Batch) -> tuple[Array, NDArray[np.intp], dict[int, str]]:
    """Losses (judged rows, candidates), which rows these are, and candidates that cannot predict.

    Rows come fold by fold.

    Parameters
    ----------
    work : Work
        Of all candidates. Without fits, all losses are 0.
    batch : Batch
    """
    n_candidates, failed = len(work.rows.brief.candidates), dict[int, str]()
    if work.fits is None:
        return np.zeros((len(batch.y), n_candidates)), np.arange(len(batch.y)), failed
    folds = work.fits.folds
    labels = folds.labels(batch)
    parts = [np.flatnonzero(labels == turn.judge) for turn in folds.turns]
    rows = np.concatenate(parts)
    X, y = np.take(batch.seen.T, rows, axis=1).T, batch.y[rows]
    losses = np.empty((len(rows), n_candidates))
    start = 0
    for part, path in zip(parts, work.paths, strict=True):
        here = slice(start, start := start + len(part))
        if len(part) and work.outputs is None:
            losses[here], fresh = path_losses(path, X[here], y[here], work.loss)
            failed.update(fresh)
        for index, output in enumerate(() if work.outputs is None else work.outputs):
            losses[here, index] = 0.0
            if len(part) and index not in path.failures:
                losses[here, index] = row_losses(work.loss, output[batch.place][part], y[here])
    return losses, rows, failed


def _findings(work: Work, n_narrow: int) -> list[dict[str, Any]]:
    """All dangers as a message holds them, each once.

    Parameters
    ----------
    work : Work
    n_narrow : int
        As for `measure`.
    """
    warned, ratio = (
        Counter[str](),
        () if isinstance(work.weighing, Tilt) else work.weighing.findings,
    )
    for path in work.paths:
        warned.update(path.warned)
    found: list[dict[str, Any]] = []
    for finding in ratio:
        found.append({"code": finding.code, "evidence": dict(finding.evidence)})
    for name, count in warned.items():  # by the model library
        evidence = {"warning": name, "count": float(count)}
        found.append({"code": "fit-warning", "evidence": evidence})
    if n_narrow:  # the strict rule refuses such a table; where it is off, the danger is named
        found.append({"code": "narrow-table", "evidence": {"features": float(n_narrow)}})
    for unit in work.rows.other_units():
        evidence = {"column": float(unit.column), "conversion": unit.conversion}
        found.append({"code": "other-unit", "evidence": {**evidence, "direction": unit.direction}})
    return found

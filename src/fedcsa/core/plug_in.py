"""What the target's own distribution of scores changes in a measure.

A source's weighted rows resemble the target's as far as its Table 1 tells; the target knows how its
own scores spread. With a source's calibration, outcomes are expected at any score. So a measure can
be computed of expected outcomes twice, on the target's scores and on the source's own weighted
ones. The difference is what the source's estimate lacks:

    direct + plug(target's scores) − plug(source's scores)

If the two distributions are alike, it is zero; if the calibration is off, that mostly cancels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedcsa.core.arrays import Array, expit
from fedcsa.core.formulas import calibration_of, cell_log_odds
from fedcsa.core.losses import LOG_FLOOR
from fedcsa.core.measures import measure_columns, measure_values
from fedcsa.core.scores import OwnScores, ScoreDesign, Told, over
from fedcsa.core.told_cells import Whole

#: Scores as they are: no recalibration.
AS_PREDICTED = (0.0, 1.0)
#: Intercept and slope of a class.
Line = tuple[float, float]


def lines_of(told: Told) -> list[Line] | None:
    """Calibration of every class that has a table; None if one cannot be estimated."""
    lines = [calibration_of(told, c) for c in told.design.classes]
    found = [(float(intercept), float(slope)) for intercept, slope in lines]
    return found if np.isfinite(found).all() else None


def shifts(told: Told, own: OwnScores, s: int) -> Array:
    """What to add to every column's direct estimate, on its scale, (columns,); 0 if unknown.

    Parameters
    ----------
    told : Told
        By a source, of subgroup `s`.
    own : OwnScores
        The target's.
    s : int
    """
    columns = measure_columns(told.design)
    lines = lines_of(told) if told.design.n_classes and own.n_rows[s] else None
    if lines is None:
        return np.zeros(len(columns))
    rows = float(told.effective_rows)
    there = expected_outcomes(list(own.shares[s]), _all_bins(own), lines, told.design, rows)
    cells = [np.stack(told.table_of(c)[::2], axis=-1) for c in told.design.classes]
    here = expected_outcomes(cells, told.ends, lines, told.design, rows)
    found = _linked(there) - _linked(here)
    return np.where(np.isfinite(found), found, 0.0)


def own_sampling(own: OwnScores, s: int) -> Array:
    """Variance of every column that the target's own rows add, on its scale; 0 if none.

    The jackknife that leaves out one row in turn, from counts: rows in one bin are alike.

    Parameters
    ----------
    own : OwnScores
    s : int
        The subgroup.
    """
    columns, n = measure_columns(own.design), float(own.n_rows[s])
    found = np.zeros(len(columns))
    if not own.design.n_classes or n < 2.0:
        return found
    cells, lines = list(own.shares[s]), [AS_PREDICTED] * len(own.design.classes)
    for c, whole in enumerate(cells):
        some = np.flatnonzero(whole[:, 0] > 0.0)
        share = whole[some, 0]
        rest = np.tile(whole, (len(some), 1, 1))
        rest[np.arange(len(some)), some] *= (1.0 - 1.0 / (n * share))[:, None]
        others = [np.broadcast_to(x, rest.shape) for x in cells]
        others[c] = rest
        x = _linked(expected_outcomes(others, _all_bins(own), lines, own.design, n))
        gap = x - share @ x
        found += (n - 1.0) * (share @ gap**2)
    return np.where(np.isfinite(found), found, 0.0)


def expected_outcomes(
    cells: Sequence[Array],
    ends: Sequence[Whole],
    lines: Sequence[Line],
    design: ScoreDesign,
    rows: float,
) -> Told:
    """Scores with the outcomes that a calibration predicts.

    Parameters
    ----------
    cells : sequence of array of shape (…, cells, 2)
        Of every class: Σw, Σwp.
    ends : sequence of array of int of shape (cells,)
        Last bin of every cell.
    lines : sequence of Line
        Intercept and slope of every class.
    design : ScoreDesign
    rows : float
        Effective rows that the result shall have.
    """
    whole = []
    for pair, (intercept, slope) in zip(cells, lines, strict=True):
        w, predicted = np.moveaxis(pair, -1, 0)
        events = w * expit(intercept + slope * cell_log_odds(w, predicted))
        whole.append(np.stack([w, events, predicted], axis=-1))
    return Told(design, tuple(whole), tuple(ends), sums_of_cells(whole, design, rows))


def sums_of_cells(cells: Sequence[Array], design: ScoreDesign, rows: float) -> Array:
    """The exact sums as if every row had the mean score of its cell, (…, sums).

    Parameters
    ----------
    cells : sequence of array of shape (…, cells, 3)
        Of every class: Σw, Σwy, Σwp.
    design : ScoreDesign
    rows : float
        Effective rows.
    """
    total = cells[0][..., 0].sum(axis=-1)
    brier, loss, each = np.zeros_like(total), np.zeros_like(total), []
    for x in cells:
        w, events, predicted = np.moveaxis(x, -1, 0)
        p = over(predicted, w, 0.5)
        brier += (w * p * p - 2.0 * p * events + events).sum(axis=-1)
        loss -= (events * np.log(np.maximum(p, LOG_FLOOR))).sum(axis=-1)
        if design.n_classes == 2:
            loss -= ((w - events) * np.log(np.maximum(1.0 - p, LOG_FLOOR))).sum(axis=-1)
        happened = events.sum(axis=-1)
        each += [happened, happened * total / rows, predicted.sum(axis=-1)]
    return np.stack([total, total**2 / rows, brier, loss, *each], axis=-1)


def _linked(told: Told) -> Array:
    """Every column that is corrected on its scale, (…, columns); 0 for the others."""
    columns = measure_columns(told.design)
    corrected = [k for k, column in enumerate(columns) if column.measure.plug_in]
    found = np.zeros((*told.exact.shape[:-1], len(columns)))
    found[..., corrected] = measure_values(told, [columns[k] for k in corrected])[2]
    return found


def _all_bins(own: OwnScores) -> list[Whole]:
    """Every bin is a cell of its own."""
    return [np.arange(own.design.n_bins)] * len(own.design.classes)

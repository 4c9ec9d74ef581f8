"""Whether an honest source could tell such a score table, such sums, variances and residuals.

Every number is held against an inequality that all data satisfy. Numbers may be rounded to a few
digits, so each inequality has a little slack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.conformal import RESIDUAL_SHAPE
from fedcsa.core.losses import LOG_FLOOR
from fedcsa.core.measures import NOT_ESTIMABLE, least_variance, measure_columns, measure_values
from fedcsa.core.scores import (
    NUMBER_SUMS,
    TABLE_COLUMNS,
    ScoreDesign,
    Told,
    complement,
    over,
    told_by,
)
from fedcsa.messages.messages import SLACK, ExaminationReport, RiskReport

#: Sums of rounded numbers of either sign differ by this share of their size at most.
ROUNDED_SUMS = 0.01
#: Products of smaller weights may have underflowed.
_TINY = 1e-150
#: Rows far from the target may weigh so little that a sum of their weights has one digit left.
_LAST_DIGIT = float(np.finfo(np.float64).smallest_subnormal)


def score_problem(
    report: ExaminationReport, design: ScoreDesign, said: RiskReport | None
) -> str | None:
    """What is impossible in what a source tells of scores, in a few words; None if nothing is.

    Parameters
    ----------
    report : ExaminationReport
    design : ScoreDesign
        Of the study, in the units of the examination.
    said : RiskReport or None
        What the source reported before: its rows, and how heavy one can be.
    """
    residuals = report.residuals
    if residuals.size and (design.n_classes or residuals.shape != RESIDUAL_SHAPE):
        return "residuals of another study"
    whole = 1.0 / SLACK <= residuals.sum() <= SLACK and (residuals >= 0.0).all()
    if residuals.size and not whole:
        return "residuals that are no shares"
    table, sums, variances = report.scores, report.score_sums, report.measure_variance
    if not len(table):
        return None
    n, columns = 1 + design.n_subgroups, len(measure_columns(design))
    shapes = (n, len(design.sum_names)), (n + design.n_subgroups, columns)
    if (sums.shape, variances.shape) != shapes:
        return "sums or variances of another study"
    if wrong := next(_table_problems(table, design), None):
        return wrong
    told = told_by(design, table, sums)
    untold = [s for s in range(n) if s not in told]
    silent = [*untold, *(s + design.n_subgroups for s in untold)]
    if sums[untold].any() or (variances[silent] != NOT_ESTIMABLE).any():
        return "numbers of a subgroup without a table"
    of_sums = _class_problems if design.n_classes else _number_problems
    for s, part in told.items():
        rows = table[table[:, 0] == s]
        wrong = (
            next(_weight_problems(rows, part, said, whole=s == 0), None)
            or next(of_sums(part), None)
            or (next(_part_problems(told[0], part), None) if s else None)
        )
        if wrong:
            return wrong
    return _variance_problem(variances, told, design)


def _table_problems(table: Array, design: ScoreDesign) -> Iterator[str]:
    """What cannot be of the cells of a table: their places, then the numbers in them.

    Parameters
    ----------
    table : array of shape (cells, 7)
    design : ScoreDesign
    """
    if table.shape[1] != len(TABLE_COLUMNS) or (table[:, :4] != np.floor(table[:, :4])).any():
        yield "cells that are not whole numbers"
    places = [tuple(place) for place in table[:, :3]]
    if places != sorted(set(places)):
        yield "cells out of order"
    told = {place[0] for place in places}
    if 0.0 not in told or not told <= set(range(design.n_subgroups + 1)):
        yield "cells of unknown subgroups"
    if {place[1] for place in places} != set(design.classes):
        yield "cells of unknown classes"
    for s in told:
        for c in design.classes:
            ends = table[(table[:, 0] == s) & (table[:, 1] == c), 2]
            if not len(ends) or ends[0] < 0 or ends[-1] != design.n_bins - 1:
                yield "cells that leave bins out"
    previous = np.concatenate([[-1.0], table[:-1, 2]])
    fresh = np.concatenate([[True], (table[1:, :2] != table[:-1, :2]).any(axis=1)])
    first, last = np.where(fresh, 0, previous + 1).astype(np.intp), table[:, 2].astype(int)
    rows, w, wy, wp = table[:, 3:].T
    if (rows < 0.0).any() or (w < 0.0).any() or (table[rows == 0.0, 4:] != 0.0).any():
        yield "cells with impossible counts"
    floor, ceiling = (0.0, 1.0) if design.n_classes else (-np.inf, np.inf)
    edges = np.concatenate([[floor], design.edges, [ceiling]])
    lower, upper = edges[first], edges[last + 1]
    some, mean = w > 0.0, over(wp, w, 0.0)
    slack = ROUNDED_SUMS * np.maximum(np.abs(mean), np.minimum(np.abs(lower), np.abs(upper)))
    slack += rows * _LAST_DIGIT * (1.0 + np.abs(mean)) / np.where(some, w, 1.0)
    if (some & ((mean < lower - slack) | (mean > upper + slack))).any():
        yield "predictions outside their cell"
    if design.n_classes and ((wy < 0.0) | (wy > SLACK * w)).any():
        yield "more events than rows"


def _part_problems(everybody: Told, part: Told) -> Iterator[str]:
    """Cells of a subgroup are unions of everybody's, and have no more weight.

    Parameters
    ----------
    everybody, part : Told
    """
    for of_all, ends in zip(everybody.ends, part.ends, strict=True):
        if not np.isin(ends, of_all).all():
            yield "cells of a subgroup that are not everybody's"
            return
    rest = complement(everybody, part)
    for cells, whole in zip(rest.cells, everybody.cells, strict=True):
        if (cells[:, 0] < -ROUNDED_SUMS * whole[:, 0].max()).any():
            yield "a subgroup heavier than everybody"


def _weight_problems(
    rows: Array, told: Told, said: RiskReport | None, *, whole: bool
) -> Iterator[str]:
    """No more rows than the source has, and no more weight than they can carry.

    Parameters
    ----------
    rows : array of shape (cells, 7)
        Of one subgroup.
    told : Told
        The same, with its sums.
    said : RiskReport or None
        Rows of the source, and the largest weight of one.
    whole : bool
        Whether it is everybody: then weights sum to one.
    """
    most_rows = np.inf if said is None else float(said.n_rows)
    heaviest = 1.0 if said is None else said.largest_share
    total, squares = float(told.sum_of("weight")), float(told.sum_of("weight_squares"))
    if not (0.0 < total <= SLACK) or (whole and total < 1.0 / SLACK):
        yield "weights that do not sum to one"
    if (rows[:, 4] > SLACK**2 * heaviest * rows[:, 3] + _TINY).any():
        yield "cells heavier than their rows"
    for c in told.design.classes:
        here = rows[rows[:, 1] == c]
        if here[:, 3].sum() > SLACK * most_rows:
            yield "more rows than the source has"
        if not total / SLACK <= here[:, 4].sum() <= SLACK * total:
            yield "cells that do not sum to their total"
    # (Σw)²/n ≤ Σw² ≤ max w · Σw
    counted = float(rows[rows[:, 1] == told.design.classes[0], 3].sum())
    if not total**2 / SLACK**3 <= squares * counted or squares > SLACK**2 * heaviest * total:
        yield "impossible squares of weights"


def _class_problems(told: Told) -> Iterator[str]:
    """Sums agree with the cells, and with each other by Cauchy and Schwarz."""
    w = float(told.sum_of("weight"))
    brier, log_loss = float(told.sum_of("brier")), float(told.sum_of("log_loss"))
    most = w if told.design.n_classes == 2 else 2.0 * w
    if not 0.0 <= brier <= SLACK * most or not 0.0 <= log_loss <= -SLACK * np.log(LOG_FLOOR) * w:
        yield "impossible losses"
    for c in told.design.classes:
        events, squares = float(told.sum_of("events", c)), float(told.sum_of("event_squares", c))
        _, wy, wp = told.table_of(c)
        for total, cells in ((events, wy), (float(told.sum_of("expected", c)), wp)):
            if not total / SLACK - _TINY <= cells.sum() <= SLACK * total + _TINY:
                yield "cells that do not sum to their total"
        if not 0.0 <= squares <= SLACK * float(told.sum_of("weight_squares")) or (
            squares > SLACK * events
        ):
            yield "impossible squares of weights"


def _number_problems(told: Told) -> Iterator[str]:
    """The same for an outcome of numbers."""
    w, y, yy, p, pp, py, absolute, squared = (
        float(told.sum_of(name)) for name in NUMBER_SUMS if name != "weight_squares"
    )
    size = yy + pp + 2.0 * abs(py)
    for first, second in ((y, yy), (p, pp), (absolute, squared)):
        if first**2 > SLACK**2 * w * second + _TINY:
            yield "sums that contradict Cauchy and Schwarz"
    if py**2 > SLACK**2 * yy * pp + _TINY or min(yy, pp, absolute, squared) < 0.0:
        yield "sums that contradict Cauchy and Schwarz"
    if abs(yy + pp - 2.0 * py - squared) > ROUNDED_SUMS * size + _TINY:
        yield "residuals that do not follow from outcomes and predictions"
    cell_w, cell_y, cell_p = told.cells[0].T
    for total, cells, squares in ((y, cell_y, yy), (p, cell_p, pp)):
        if (cells**2 > SLACK**2 * cell_w * squares + _TINY).any():
            yield "cells that contradict Cauchy and Schwarz"
        if abs(total - cells.sum()) > ROUNDED_SUMS * np.sqrt(w * squares) + _TINY:
            yield "cells that do not sum to their total"


def _variance_problem(
    variances: Array, told: Mapping[int, Told], design: ScoreDesign
) -> str | None:
    """A variance is not below that of a binomial count, where the measure is a rate.

    Parameters
    ----------
    variances : array of shape (1 + 2 × subgroups, measures)
    told : mapping of int to Told
    design : ScoreDesign
    """
    columns, known = measure_columns(design), variances != NOT_ESTIMABLE
    floors = [[c.smallest for c in columns]] * (design.n_subgroups + 1)
    floors += [[c.smallest_gap for c in columns]] * design.n_subgroups
    if (known & (variances < np.array(floors) / SLACK)).any():
        return "a variance below its floor"
    for s, part in told.items():
        _, rows, x = measure_values(part, columns)
        for k in np.flatnonzero(known[s]):
            measure = columns[k].measure
            if not np.isfinite(x[k]):
                return "a variance of a measure that has no value"
            if measure.binomial and (
                variances[s, k] * SLACK**3 < least_variance(measure, x[k], rows[k])
            ):
                return "a variance below its floor"
    return None

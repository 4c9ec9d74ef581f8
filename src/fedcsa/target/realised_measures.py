"""Every measure on rows whose outcomes are known, beside what was promised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.folds import fold_key, fold_labels, generator_for, group_labels
from fedcsa.core.measures import (
    NOT_ESTIMABLE,
    from_link,
    measure_columns,
    measure_values,
    measure_variances,
)
from fedcsa.core.normal import normal_quantile
from fedcsa.core.scores import JACKKNIFE_GROUPS, ScoreDesign, ScoreSums, told_by
from fedcsa.core.subgroups import members_of_subgroups
from fedcsa.target.risk_units import on_scale, risk_scale

if TYPE_CHECKING:
    from fedcsa.plan import Plan
    from fedcsa.target.promised_measures import MeasurePromise


@dataclass(frozen=True)
class MeasureOutcome:
    """One measure: what was promised, and what came of it.

    Attributes
    ----------
    name, subgroup, threshold, of_class
        As in `MeasurePromise`.
    promised, lower, upper : float
        The promise and its prediction interval.
    realised, realised_lower, realised_upper : float
        The measure on rows whose outcomes are known, and its own interval at the same level.
    """

    name: str
    subgroup: str
    threshold: float | None
    of_class: str | None
    promised: float
    lower: float
    upper: float
    realised: float
    realised_lower: float
    realised_upper: float

    @property
    def covered(self) -> bool:
        """Whether the realised value lies in the promised interval."""
        return self.lower <= self.realised <= self.upper

    @property
    def kept(self) -> bool:
        """Whether the two intervals meet: the rows' own sampling error is allowed for."""
        return self.realised_lower <= self.upper and self.lower <= self.realised_upper


def realised_rows(
    plan: Plan,
    design: ScoreDesign,
    rows: tuple[Array, Array, Array],
    *,
    source: str = "",
    patients: Array | None = None,
    min_rows: int = 1,
) -> Array:
    """Every measure that the rows let estimate, (measures, 5).

    Its columns are the subgroup, the place among `measure_columns`, the value, and the ends of
    its interval at the study's level.

    Parameters
    ----------
    plan : Plan
    design : ScoreDesign
        Of the study whose promises they are held against.
    rows : (X, y, p)
        Features (rows, features), outcomes (rows,), predictions (rows,) or (rows, classes).
    source : str
        Name of the site, from which its jackknife groups follow.
    patients : array of shape (rows,), optional
        Which rows are of one patient.
    min_rows : int
        As for `ScoreSums.told`.
    """
    sums = score_sums(plan, design, rows, source=source, patients=patients)
    table, exact, parts = sums.told(min_rows)
    variances = measure_variances(parts, design)
    z, found = normal_quantile(0.5 + plan.level / 2.0), []
    for s, part in told_by(design, table, exact).items():
        values, _, x = measure_values(part)
        for k, column in enumerate(measure_columns(design)):
            if variances[s, k] != NOT_ESTIMABLE:
                slack = z * np.sqrt(variances[s, k])
                ends = np.sort(from_link(column.measure, x[k] + slack * np.array([-1.0, 1.0])))
                found.append([s, k, values[k], *ends.tolist()])
    return np.array(found, dtype=np.float64).reshape(-1, 5)


def score_sums(
    plan: Plan,
    design: ScoreDesign,
    rows: tuple[Array, Array, Array],
    row_weights: Array | None = None,
    *,
    source: str = "",
    patients: Array | None = None,
) -> ScoreSums:
    """What the rows tell of outcomes by score.

    Parameters
    ----------
    plan : Plan
    design : ScoreDesign
    rows : (X, y, p)
        As for `realised_rows`.
    row_weights : array of shape (rows,), optional
        They sum to one; by default all are alike.
    source : str
        As for `realised_rows`.
    patients : array of shape (rows,), optional
        Likewise.
    """
    X, y, p = rows
    n, d = X.shape
    key = fold_key(generator_for(plan.seed, source, "jackknife"))
    labels = fold_labels(0, n, JACKKNIFE_GROUPS, key)
    if patients is not None:
        labels = group_labels(patients, JACKKNIFE_GROUPS, key)
    inside = None
    if plan.subgroups:
        inside = members_of_subgroups(plan.subgroups, plan.features, X, np.zeros(d), np.ones(d))
    w = np.full(n, 1.0 / n) if row_weights is None else row_weights
    return ScoreSums.of_rows(design, y, p, w, labels, inside)


def outcomes_of(
    promises: Sequence[MeasurePromise], realised: Array, design: ScoreDesign
) -> tuple[MeasureOutcome, ...]:
    """Promised against realised, for every measure that has both.

    Parameters
    ----------
    promises : sequence of MeasurePromise
        For everybody, then for every subgroup; within each in the order of `measure_columns`.
    realised : array of shape (measures, 5)
        As `realised_rows` gives them.
    design : ScoreDesign
    """
    columns = len(measure_columns(design))
    found = []
    for s, k, value, lower, upper in realised.tolist():
        place = int(s) * columns + int(k)
        if place < len(promises) and not promises[place].why_not:  # else none was made
            told = promises[place]
            what = told.name, told.subgroup, told.threshold, told.of_class
            promised = told.estimate, told.lower, told.upper
            found.append(MeasureOutcome(*what, *promised, value, lower, upper))
    return tuple(found)


def in_units(plan: Plan, risk: float) -> float:
    """A risk in units that people use.

    Parameters
    ----------
    plan : Plan
    risk : float
        In the units of the loss.
    """
    return on_scale(risk_scale(plan), risk)


@dataclass(frozen=True)
class MeasureRecord:
    """How often the promises of one measure held, over sites that played the target.

    Attributes
    ----------
    name, subgroup, threshold, of_class
        As in `MeasurePromise`.
    judged : int
        Sites with a promise and an outcome.
    covered, kept : int
        Of these, how many realised values lie in the interval; and how many do not contradict it,
        the sampling error of the site's own rows allowed for.
    """

    name: str
    subgroup: str
    threshold: float | None
    of_class: str | None
    judged: int
    covered: int
    kept: int


def measure_records(outcomes: Sequence[MeasureOutcome]) -> tuple[MeasureRecord, ...]:
    """One record a measure, in the order in which they come."""
    by_place: dict[tuple[str, str, float | None, str | None], list[MeasureOutcome]] = {}
    for item in outcomes:
        place = item.name, item.subgroup, item.threshold, item.of_class
        by_place.setdefault(place, []).append(item)
    return tuple(
        MeasureRecord(*place, len(each), sum(x.covered for x in each), sum(x.kept for x in each))
        for place, each in by_place.items()
    )

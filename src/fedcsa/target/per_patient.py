"""What holds for a single patient: an interval for a number, a set for a class."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Context

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array, bdtrc, logit
from fedcsa.core.conformal import class_limit, half_widths, split_limit
from fedcsa.core.scores import BANDS, FAR_END, ScoreDesign, distance_band, told_by
from fedcsa.messages.messages import ExaminationReport
from fedcsa.target.estimate import Reported, among

#: What part of patients their interval or set holds for, unless another is asked for: usual where
#: one patient is meant, not a study.
PATIENT_LEVEL = 0.9
#: Outcomes contradict intervals if so few inside are less probable than this where the intervals
#: hold: at five looks together, one such site in twenty is called contradicted at most.
CONTRADICTED = 0.01
#: Limits grow by no more: an interval e⁵⁰ times as wide, and log-odds of 50, exclude nothing.
MOST_WIDER = 50.0
#: The factor of half widths, or of odds, has two digits: an exact one would tell one outcome.
FACTOR = Context(prec=2, rounding=ROUND_CEILING)


@dataclass(frozen=True)
class IntervalCheck:
    """How many outcomes of the target lay in their interval or set, and what follows.

    Attributes
    ----------
    of_class : str or None
        Of the outcomes of this class; None for numbers.
    n_rows, inside : int
        These outcomes, and those of them in an interval for `PATIENT_LEVEL` of patients.
    contradicted : bool
        Whether so few are inside by chance with a probability below `CONTRADICTED`, divided by
        the number of classes; weighted outcomes count as effective rows.
    wider : float
        Added to the logarithm of half widths, or to the limit of the class; 0 leaves them.
    """

    of_class: str | None
    n_rows: int
    inside: int
    contradicted: bool
    wider: float

    def __post_init__(self) -> None:
        most = MOST_WIDER if self.contradicted else 0.0
        if self.inside > self.n_rows - self.contradicted or not 0.0 <= self.wider <= most:
            raise ValueError


@dataclass(frozen=True)
class Limits:
    """How far outcomes lie from predictions at a new site, for a part of its patients.

    Attributes
    ----------
    level : float
        That part.
    values : array of shape (bands,) or (classes,)
        Half widths by distance from the target's centre, in the outcome's unit; for classes the
        largest −logit of its probability with which each is in the set.
    classes : bool
    """

    level: float
    values: Array = field(repr=False)
    classes: bool

    def interval(self, output: Array, z: Array) -> Array:
        """Lower and upper ends, shape (rows, 2).

        Parameters
        ----------
        output : array of shape (rows,)
            Predictions.
        z : array of shape (rows, features)
            In the target's units.
        """
        half = self.values[distance_band(z)]
        return np.column_stack([output - half, output + half])

    def sets(self, output: Array) -> NDArray[np.bool_]:
        """Which classes are in the set, shape (rows, classes); the most probable one always is.

        Parameters
        ----------
        output : array of shape (rows, classes)
            Probabilities.
        """
        inside: NDArray[np.bool_] = -logit(output) <= self.values
        inside[np.arange(len(output)), output.argmax(axis=1)] = True
        return inside

    def holds(self, output: Array, z: Array, y: Array) -> NDArray[np.bool_]:
        """Whether outcomes lie in their interval or set, shape (rows,).

        Parameters
        ----------
        output : array of shape (rows,) or (rows, classes)
        z : array of shape (rows, features)
        y : array of shape (rows,)
            Numbers, or codes of classes.
        """
        if self.classes:
            return self.sets(output)[np.arange(len(y)), y.astype(np.intp)]
        lower, upper = self.interval(output, z).T
        inside: NDArray[np.bool_] = (lower <= y) & (y <= upper)
        return inside

    def widened(self, checks: Sequence[IntervalCheck]) -> Limits:
        """The same after outcomes at the target: wider where these contradicted the sources'."""
        more = np.array([check.wider for check in checks])
        if not more.any():
            return self
        if not self.classes:
            return replace(self, values=self.values * np.exp(more))
        values = self.values + more
        return replace(self, values=np.where(values < FAR_END, values, np.inf))

    def beyond(self, output: Array, z: Array, y: Array) -> Array:
        """How far outcomes lie outside, shape (rows,), as `IntervalCheck.wider` counts; 0 inside.

        Parameters
        ----------
        output : array of shape (rows,) or (rows, classes)
        z : array of shape (rows, features)
        y : array of shape (rows,)
            Numbers, or codes of classes.
        """
        with np.errstate(divide="ignore", invalid="ignore"):  # no distance, or a probability of 0
            if self.classes:
                code = y.astype(np.intp)
                far = -logit(output[np.arange(len(y)), code]) - self.values[code]
            else:
                far = np.log(np.abs(y - output) / self.values[distance_band(z)])
        # Rounding puts no row inside that `holds` has outside.
        outside = np.clip(far, np.finfo(np.float64).eps, MOST_WIDER)
        found: Array = np.where(self.holds(output, z, y), 0.0, outside)
        return found


def effective_rows(weights: Array) -> float:
    """(Σw)²/Σw²: so many rows of equal weight tell as much; 0 if no row has weight."""
    squares = weights @ weights
    return float(weights.sum() ** 2 / squares) if squares > 0.0 else 0.0


def whole_rows(effective: float) -> int:
    """Effective rows as a count, rounded down; an error of rounding takes none away."""
    return math.floor(round(effective, 9))


def check_of(
    of_class: str | None, beyond: Array, weights: Array, level: float, chance: float, *, widen: bool
) -> IntervalCheck:
    """Hold the limits of an interval, or of a class, against outcomes.

    Where these contradict them, limits grow to the split conformal ones of the outcomes
    themselves; if too few came for that level, until they hold the farthest. The factor by which
    they grow is rounded up, see `FACTOR`.

    Parameters
    ----------
    of_class : str or None
    beyond : array of shape (rows,)
        As `Limits.beyond` gives it, of predictions that have not seen these outcomes.
    weights : array of shape (rows,)
        Up to a factor. If they differ, so many effective rows are counted, and of these the share
        of weight that lies outside.
    level : float
        Of the limits.
    chance : float
        Outcomes that are less probable if the limits hold contradict them.
    widen : bool
        Whether limits may grow.

    Examples
    --------
    >>> far = np.array([0.0] * 5 + [0.1, 0.2, 0.3, 0.4, 0.5])
    >>> check_of(None, far, np.ones(10), 0.9, 0.01, widen=True)
    IntervalCheck(of_class=None, n_rows=10, inside=5, contradicted=True, wider=0.5306282510621704)
    """
    outside, effective = beyond > 0.0, effective_rows(weights)
    counted, missed, wider = whole_rows(effective), 0, 0.0
    if counted:
        missed = whole_rows(counted * float(weights @ outside / weights.sum()))
    contradicted = missed > 0 and bool(bdtrc(missed - 1, counted, 1.0 - level) < chance)
    if contradicted and widen:
        exact = min(split_limit(beyond, weights, effective, level), float(beyond.max()))
        factor = FACTOR.create_decimal_from_float(math.exp(exact))
        wider = min(math.log(factor), MOST_WIDER)
    return IntervalCheck(of_class, len(beyond), int((~outside).sum()), contradicted, wider)


def limits_of(
    found: Mapping[str, ExaminationReport],
    reported: Reported,
    design: ScoreDesign,
    level: float,
) -> Limits | None:
    """The limits from the examinations of sources that reach the target; None without any.

    Parameters
    ----------
    found : mapping of str to ExaminationReport
    reported : Reported
    design : ScoreDesign
        Of the score tables, with the unit of the residuals.
    level : float
    """
    names = [n for n in reported.reaching if n in found and not found[n].reason]
    if design.n_classes:
        told = {n: told_by(design, found[n].scores, found[n].score_sums) for n in names}
        names = [n for n in names if 0 in told[n]]
    else:
        names = [n for n in names if found[n].residuals.size]
    if not names:
        return None
    weights = reported.worth[among(reported.names, names)]
    weights /= weights.sum()
    if design.n_classes:
        everybody = [told[n][0] for n in names]
        limits = [class_limit(everybody, weights, c, level) for c in range(design.n_classes)]
        return Limits(level, np.array(limits), classes=True)
    rows = np.array([reported.reports[n].effective_rows for n in names])
    residuals = np.array([found[n].residuals for n in names])
    half = design.unit * half_widths(residuals, rows, weights, level)
    return Limits(level, half, classes=False)


def coverage_by_distance(inside: NDArray[np.bool_], z: Array) -> Array:
    """Share of rows whose interval holds, in every quarter of the rows by distance, (quarters,).

    Empty of fewer rows than quarters.

    Parameters
    ----------
    inside : array of bool of shape (rows,)
    z : array of shape (rows, features)
        In the target's units; the first quarter is nearest to its centre.
    """
    if len(inside) < BANDS:
        return np.empty(0)
    order = np.argsort(np.einsum("ij,ij->i", z, z) / z.shape[1], kind="stable")
    return np.array([part.mean() for part in np.array_split(inside[order], BANDS)])

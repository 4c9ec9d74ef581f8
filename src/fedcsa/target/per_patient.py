"""What holds for a single patient: an interval for a number, a set for a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array, logit
from fedcsa.core.conformal import BANDS, class_limit, distance_band, half_widths
from fedcsa.core.scores import ScoreDesign, told_by
from fedcsa.messages.messages import ExaminationReport, RiskReport
from fedcsa.target.estimate import worth

#: What part of patients their interval or set holds for, unless another is asked for: usual where
#: one patient is meant, not a study.
PATIENT_LEVEL = 0.9


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


def limits_of(
    found: Mapping[str, ExaminationReport],
    reports: Mapping[str, RiskReport],
    reaching: Sequence[str],
    design: ScoreDesign,
    level: float,
) -> Limits | None:
    """The limits from the examinations of sources that reach the target; None without any.

    Parameters
    ----------
    found : mapping of str to ExaminationReport
    reports : mapping of str to RiskReport
    reaching : sequence of str
    design : ScoreDesign
        Of the score tables, with the unit of the residuals.
    level : float
    """
    value = dict(zip(sorted(reports), worth(reports).tolist(), strict=True))
    names = [n for n in reaching if n in found and not found[n].reason]
    if design.n_classes:
        told = {n: told_by(design, found[n].scores, found[n].score_sums) for n in names}
        names = [n for n in names if 0 in told[n]]
    else:
        names = [n for n in names if found[n].residuals.size]
    if not names:
        return None
    weights = np.array([value[n] for n in names])
    weights /= weights.sum()
    if design.n_classes:
        everybody = [told[n][0] for n in names]
        limits = [class_limit(everybody, weights, c, level) for c in range(design.n_classes)]
        return Limits(level, np.array(limits), classes=True)
    rows = np.array([reports[n].effective_rows for n in names])
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

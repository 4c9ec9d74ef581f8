"""Measures of a model from what a site tells: discrimination, calibration, loss, use.

A measure is one entry of `MEASURES`. Every formula takes arrays with leading axes, so that a
jackknife is one call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fedcsa.core.arrays import Array
from fedcsa.core.scores import MIN_CELL_ROWS, ScoreDesign, ScoreSums, Told

OutcomeKind = Literal["two classes", "classes", "number"]
Link = Literal["identity", "log", "logit", "rest"]
#: A value and the effective rows that it rests on; NaN where there is none.
Valued = tuple[Array, Array]

#: AUROC and slope need so many effective events of each kind: with fewer, one patient decides.
FEWEST_EVENTS = 5.0
#: No measure is told of fewer effective rows.
FEWEST_ROWS = 10.0
#: No variance on a scale without walls is smaller: an exact zero would outweigh every other site.
SMALLEST = 1e-12
#: Stands for "not estimable": numbers on the wire are finite.
NOT_ESTIMABLE = -1.0
#: Prior scales of the between-site sd: of log risks, and of log-odds of an AUROC …
RISK_SPREAD = 0.2
#: … of log-odds of rates, which differ more …
RATE_SPREAD = 0.5
#: … of observed over expected, as logarithm …
LEVEL_SPREAD = 0.4
#: … of the calibration slope …
SLOPE_SPREAD = 0.15
#: … and of the mean residual, in outcome sds.
RESIDUAL_SPREAD = 0.2
#: Newton steps of the calibration slope: ten are plenty where there is a maximum.
NEWTON_STEPS = 30
#: A slope beyond this means that predictions separate the outcomes.
STEEPEST = 50.0


@dataclass(frozen=True)
class Measure:
    """One measure.

    Attributes
    ----------
    name : str
    kind : str
        Of outcome.
    link : str
        The scale without walls on which sites are compared; ``"rest"`` is log(1 − value).
    spread : float
        Scale of the half-normal prior of the between-site sd, on that scale.
    better : int
        1 if more is better, −1 if less is, 0 if a certain value is.
    compute : function
        From what a site told, a class and a threshold to the value and its effective rows.
    at_threshold, of_class : bool
        Whether there is one for every declared threshold, and for every class.
    fewest_events : float
        Effective rows of either kind below which it is not estimable.
    imbalance : int
        The power of ι, what is left of the imbalance, that is added to the variance.
    binomial : float
        Share of a binomial variance that the variance is at least, if it is a rate.
    per_event : bool
        Whether spread and ι are meant in units of π(1 − π), with the event rate π.
    unit : bool
        Whether the value is in the outcome's units.
    """

    name: str
    kind: OutcomeKind
    link: Link
    spread: float
    better: int
    compute: Callable[[Told, int, float], Valued]
    at_threshold: bool = False
    of_class: bool = False
    fewest_events: float = 0.0
    imbalance: int = 1
    binomial: float = 0.0
    per_event: bool = False
    unit: bool = False


@dataclass(frozen=True)
class MeasureColumn:
    """One column of the matrix of variances: a measure, of a class, at a threshold."""

    measure: Measure
    of_class: int | None = None
    threshold: float | None = None


def measure_columns(design: ScoreDesign) -> tuple[MeasureColumn, ...]:
    """The columns of every matrix of measures in a study."""
    raise NotImplementedError


def measure_values(told: Told) -> tuple[Array, Array]:
    """Every measure of a subgroup, and the effective rows of each, (…, columns); NaN if none."""
    raise NotImplementedError


def measure_variances(
    sums: ScoreSums, min_rows: int = MIN_CELL_ROWS, imbalance: float = 0.0
) -> Array:
    """Sampling variance of every measure on its own scale, (1 + 2·subgroups, columns).

    First everybody, then every subgroup, then every difference of a subgroup and the rest (on the
    scale of the value itself). −1 where not estimable.

    Parameters
    ----------
    sums : ScoreSums
        Of all rows.
    min_rows : int
        As for `ScoreSums.table`.
    imbalance : float
        ι: mean over features of the squared standardised difference that is left.
    """
    raise NotImplementedError

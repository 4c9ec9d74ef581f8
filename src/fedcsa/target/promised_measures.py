"""What every measure will be at the target, as the sources' examinations predict it.

As for the risk, every source's estimate enters a random-effects model on an unbounded scale, and
the prediction interval is that of a new site. Where the target has rows, its own distribution of
scores corrects every estimate first (`fedcsa.core.plug_in`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.measures import (
    MeasureColumn,
    from_link,
    link_slope,
    measure_columns,
    measure_values,
    on_link,
    spread_unit,
)
from fedcsa.core.normal import normal_quantile
from fedcsa.core.plug_in import own_sampling, shifts
from fedcsa.core.random_effects import NewSite, held_in, new_site
from fedcsa.core.scores import OwnScores, ScoreDesign, Told, complement, told_by
from fedcsa.messages.messages import ExaminationReport
from fedcsa.target.risk_units import OF_LOSS

if TYPE_CHECKING:
    from fedcsa.plan import Plan


@dataclass(frozen=True)
class MeasurePromise:
    """One measure at the target.

    Attributes
    ----------
    name : str
        As in `fedcsa.core.measures.MEASURES`.
    subgroup : str
        Its name; ``""`` for everybody.
    threshold : float or None
    of_class : str or None
        The class's label, where there are three or more.
    estimate, lower, upper : float
        Median and ends of the prediction interval; NaN if there is none.
    between_sites : float
        Standard deviation between sites, on the measure's own scale.
    by_source : mapping of str to (value, lower, upper)
        What the sources found; those that cannot tell are absent.
    why_not : str
        ``""``, or why there is no estimate.
    """

    name: str
    subgroup: str = ""
    threshold: float | None = None
    of_class: str | None = None
    estimate: float = float("nan")
    lower: float = float("nan")
    upper: float = float("nan")
    between_sites: float = float("nan")
    by_source: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    why_not: str = ""


@dataclass(frozen=True)
class Calibration:
    """A calibration plot: points, the band for a new site, and the share of rows at each.

    Attributes
    ----------
    of_class : str or None
        The class's label, where there are three or more.
    predicted, observed, lower, upper, share : tuple of float
        For numbers in the outcome's units.
    """

    of_class: str | None
    predicted: tuple[float, ...]
    observed: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    share: tuple[float, ...]


@dataclass(frozen=True)
class DecisionCurve:
    """Net benefit over thresholds, of the model and of treating all; treating none has 0.

    Attributes
    ----------
    thresholds, model, lower, upper, treat_all : tuple of float
    """

    thresholds: tuple[float, ...]
    model: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    treat_all: tuple[float, ...]


@dataclass(frozen=True)
class RiskDistribution:
    """Predicted risks of rows with and without the event.

    Attributes
    ----------
    of_class : str or None
    edges : tuple of float
        One more than bins, probabilities.
    with_event, without_event : tuple of float
        Shares of the bins; each sums to one.
    """

    of_class: str | None
    edges: tuple[float, ...]
    with_event: tuple[float, ...]
    without_event: tuple[float, ...]


@dataclass(frozen=True)
class Recalibration:
    """A correction of the predictions, offered and never applied.

    Classes: log-odds become intercept + slope · log-odds. Numbers: intercept + slope · prediction.

    Attributes
    ----------
    of_class : str or None
    intercept, slope : float
    before, after : tuple of MeasurePromise
        Of the predictions as they are, and corrected; every source is judged by the correction
        that the others give.
    """

    of_class: str | None
    intercept: float
    slope: float
    before: tuple[MeasurePromise, ...]
    after: tuple[MeasurePromise, ...]


# Evidence ---------------------------------------------------------------------------------------

#: Points of the grid over τ: with more of them no interval changes by a thousandth of its width.
MEASURE_TAUS = 401
#: A variance that is so many times the square of what sites usually differ by tells nothing.
SAYS_NOTHING = 1e6
#: Why a measure cannot be promised.
MERGED = "every source has too few rows on one side of the threshold"
NOBODY = "no row at any source lies on that side of the threshold"
ALIKE = "at every source the predictions are all alike, or separate the outcomes"
TOO_FEW = "no source has enough rows or events"
NOT_TOLD = "no source has enough rows in this subgroup"


@dataclass(frozen=True)
class Evidence:
    """All that promises of measures rest on.

    Attributes
    ----------
    names : tuple of str
        Sources that reach the target and could examine.
    told : tuple of mapping
        What each of them told, by subgroup.
    variances : tuple of array of shape (1 + 2·subgroups, columns)
        Sampling variances, as `fedcsa.core.measures.measure_variances` gives them.
    shares : array of shape (sources,)
        Weights of the sources in a pooled distribution; they sum to one.
    design : ScoreDesign
    subgroups : tuple of str
        Names of all, with ``""`` for everybody first.
    labels : tuple of str
        Of the classes.
    level : float
        Of prediction intervals.
    own : OwnScores or None
        How the target's own scores spread; None if it only told a table.
    loss : str
        The measure that is the study's loss; ``""`` if none is.
    risk : tuple of four floats, or None
        Promised risk, ends of its interval, and sd of its logarithm between sites.
    """

    names: tuple[str, ...]
    told: tuple[Mapping[int, Told], ...] = field(repr=False)
    variances: tuple[Array, ...] = field(repr=False)
    shares: Array = field(repr=False)
    design: ScoreDesign
    subgroups: tuple[str, ...]
    labels: tuple[str, ...]
    level: float
    own: OwnScores | None = field(default=None, repr=False)
    loss: str = ""
    risk: tuple[float, float, float, float] | None = None

    @classmethod
    def of(
        cls,
        found: Mapping[str, ExaminationReport],
        weights: Mapping[str, float],
        plan: Plan,
        design: ScoreDesign,
        own: OwnScores | None = None,
        risk: tuple[float, float, float, float] | None = None,
    ) -> Evidence:
        """From the examinations of sources that reach the target.

        Parameters
        ----------
        found : mapping of str to ExaminationReport
        weights : mapping of str to float
            a_j of the mixture; 0 for a source that examined and sent no model.
        plan : Plan
        design : ScoreDesign
        own : OwnScores, optional
        risk : tuple of four floats, optional
            Promised risk, ends of its interval, and sd of its logarithm between sites.
        """
        names = tuple(name for name in sorted(found) if not found[name].reason)
        reports = [found[name] for name in names]
        a = np.array([weights.get(name, 0.0) for name in names])
        a = a / a.sum() if a.sum() > 0.0 else np.full(len(a), 1.0 / max(len(a), 1))
        return cls(
            names,
            tuple(told_by(design, report.scores, report.score_sums) for report in reports),
            tuple(report.measure_variance for report in reports),
            a,
            design,
            ("", *(str(item["name"]) for item in plan.subgroups)),
            tuple(map(str, plan.classes)),
            plan.level,
            own,
            OF_LOSS.get(plan.loss, ""),  # its promise is that of the risk, transformed
            risk,
        )

    @cached_property
    def columns(self) -> tuple[MeasureColumn, ...]:
        """All measures of the study."""
        return measure_columns(self.design)

    def place(self, s: int, k: int) -> tuple[str, str, float | None, str | None]:
        """What a promise is of: name, subgroup, threshold, class.

        Parameters
        ----------
        s, k : int
            Subgroup and column.
        """
        column = self.columns[k]
        name, label = column.measure.name, self.label(column.of_class)
        return name, self.subgroups[s], column.threshold, label

    def label(self, of_class: int | None) -> str | None:
        """How a class is called; None where there are two: then it is the second."""
        return self.labels[of_class] if of_class is not None and len(self.labels) > 2 else None

    @cached_property
    def values(self) -> Mapping[tuple[int, int], tuple[Array, Array, Array]]:
        """Every column by source and subgroup, as `measure_values` gives it."""
        return {
            (j, s): measure_values(told)
            for j, by_subgroup in enumerate(self.told)
            for s, told in by_subgroup.items()
        }

    @cached_property
    def rests(self) -> Mapping[tuple[int, int], Array]:
        """Values of every column outside a subgroup, by source and subgroup."""
        return {
            (j, s): measure_values(complement(by_subgroup[0], told))[0]
            for j, by_subgroup in enumerate(self.told)
            for s, told in by_subgroup.items()
            if s and 0 in by_subgroup
        }

    @cached_property
    def corrections(self) -> Mapping[tuple[int, int], Array]:
        """What the target's own scores add to every column, by source and subgroup, if known."""
        return {
            (j, s): shifts(told, self.own, s)
            for j, by_subgroup in enumerate(self.told)
            for s, told in by_subgroup.items()
            if self.own is not None
        }

    @cached_property
    def found(self) -> Mapping[tuple[int, int], SiteEstimates]:
        """Direct estimates of every measure, by subgroup and column."""
        return {
            (s, k): site_estimates(self, s, k)
            for s in range(len(self.subgroups))
            for k in range(len(self.columns))
        }

    @cached_property
    def sites(self) -> Mapping[tuple[int, int], NewSite]:
        """Every measure at a new site, on its own scale; absent where nobody can tell."""
        return {
            place: new_site_of(self, *place, found, found.estimates)
            for place, found in self.found.items()
            if found.sources
        }

    @cached_property
    def sampling(self) -> Array:
        """Variance that the target's own rows add, (1 + subgroups, columns); zeros if unknown."""
        found = np.zeros((len(self.subgroups), len(self.columns)))
        if self.own is not None:
            found[:] = [own_sampling(self.own, s) for s in range(len(found))]
        return found


@dataclass(frozen=True)
class SiteEstimates:
    """One column at all sources that could estimate it, on the measure's own scale."""

    sources: tuple[int, ...]
    estimates: Array
    variances: Array
    spread: float  # scale of τ's prior


def site_estimates(evidence: Evidence, s: int, k: int) -> SiteEstimates:
    """Direct estimates of a column, before any correction.

    Parameters
    ----------
    evidence : Evidence
    s, k : int
        Subgroup and column.
    """
    column = evidence.columns[k]
    x = {j: float(found[2][k]) for (j, at), found in evidence.values.items() if at == s}
    v = {j: float(evidence.variances[j][s, k]) for j in x}
    known = [j for j in x if np.isfinite(x[j]) and v[j] >= 0.0]
    units = [spread_unit(column, evidence.told[j][s]) for j in known]
    spread = column.measure.spread * (float(np.mean(units)) if units else 1.0)
    kept = tuple(j for j in known if v[j] <= SAYS_NOTHING * spread**2)
    estimates, variances = (np.array([each[j] for j in kept]) for each in (x, v))
    return SiteEstimates(kept, estimates, variances, spread)


# Promises -----------------------------------------------------------------------------------------


def measure_promises(evidence: Evidence) -> tuple[MeasurePromise, ...]:
    """Every measure for everybody, then for every subgroup."""
    return tuple(promise_of_measure(evidence, s, k) for s, k in evidence.found)


def promise_of_measure(
    evidence: Evidence, s: int, k: int, moved: Array | None = None
) -> MeasurePromise:
    """One measure of one subgroup.

    Parameters
    ----------
    evidence : Evidence
    s, k : int
        Subgroup and column.
    moved : array of shape (sources,), optional
        Values that take the place of the sources' own, such as those after a correction; then the
        promise of the risk is not used.
    """
    measure, found = evidence.columns[k].measure, evidence.found[s, k]
    if not found.sources:
        return MeasurePromise(*evidence.place(s, k), why_not=_why_not(evidence, s, k))
    if moved is None:
        site, by_source = evidence.sites[s, k], _by_source(evidence, s, k, found)
    else:
        rows = np.array([evidence.values[j, s][1][k] for j in found.sources])
        x = on_link(measure, moved[list(found.sources)], rows)
        site, by_source = new_site_of(evidence, s, k, found, x), {}
    numbers = _numbers(site, from_link(measure, _three(site, evidence.level)))
    if s == 0 and moved is None and measure.name == evidence.loss and evidence.risk is not None:
        numbers = _of_risk(evidence, evidence.risk)
    return MeasurePromise(*evidence.place(s, k), *numbers, by_source)


def new_site_of(evidence: Evidence, s: int, k: int, found: SiteEstimates, x: Array) -> NewSite:
    """A measure at a new site from estimates, which the target's own scores correct.

    Parameters
    ----------
    evidence : Evidence
    s, k : int
        Subgroup and column.
    found : SiteEstimates
    x : array of shape (sources,)
        Estimates on the measure's own scale.
    """
    if evidence.own is not None:
        x = x + np.array([evidence.corrections[j, s][k] for j in found.sources])
    kept, own = held_in(x, found.variances, found.spread), float(evidence.sampling[s, k])
    return new_site(kept, found.variances, found.spread, own, MEASURE_TAUS)


def _by_source(
    evidence: Evidence, s: int, k: int, found: SiteEstimates
) -> dict[str, tuple[float, float, float]]:
    """Value and interval of every source.

    Parameters
    ----------
    evidence : Evidence
    s, k : int
        Subgroup and column.
    found : SiteEstimates
    """
    times, by_source = normal_quantile(0.5 + evidence.level / 2.0), {}
    for j, x, v in zip(found.sources, found.estimates, found.variances, strict=True):
        ends = x + times * np.sqrt(v) * np.array([-1.0, 1.0])
        value = float(evidence.values[j, s][0][k])
        lower, upper = sorted(from_link(evidence.columns[k].measure, ends).tolist())
        by_source[evidence.names[j]] = (value, min(lower, value), max(upper, value))
    return by_source


def _three(site: NewSite, level: float) -> Array:
    """Median and ends of the interval.

    Parameters
    ----------
    site : NewSite
    level : float
    """
    return np.array([site.quantile(0.5), *site.interval(level)])


def _numbers(site: NewSite, told: Array) -> tuple[float, float, float, float]:
    """Middle, lower and upper end, whichever way the scale runs; then the sd between sites.

    Parameters
    ----------
    site : NewSite
    told : array of shape (3,)
        Its median and ends as they are told.
    """
    middle, *ends = told.tolist()
    return middle, min(ends), max(ends), site.between_sites


def _of_risk(
    evidence: Evidence, risk: tuple[float, float, float, float]
) -> tuple[float, float, float, float]:
    """The promise of the risk as that of the measure which is the loss.

    Parameters
    ----------
    evidence : Evidence
    risk : tuple of four floats
    """
    middle, lower, upper, between = risk
    if evidence.loss == "rmse":  # the loss is its square
        return middle**0.5, lower**0.5, upper**0.5, between / 2.0
    # The loss is half of the sum over classes, so that it is the same for two as for more.
    times = 2.0 if evidence.loss == "brier" and len(evidence.labels) > 2 else 1.0
    return times * middle, times * lower, times * upper, between


def _why_not(evidence: Evidence, s: int, k: int) -> str:
    """Why no source could estimate a column.

    Parameters
    ----------
    evidence : Evidence
    s, k : int
        Subgroup and column.
    """
    column = evidence.columns[k]
    told = [by_subgroup[s] for by_subgroup in evidence.told if s in by_subgroup]
    if not told:
        return NOT_TOLD if s else TOO_FEW
    values = [found[0][k] for (_, at), found in evidence.values.items() if at == s]
    if not np.isnan(values).all():
        return TOO_FEW
    if column.threshold is not None:
        splits = [item.split(column.of_class or 0, column.threshold) for item in told]
        return MERGED if np.isnan(splits).all() else NOBODY
    return ALIKE if column.measure.name == "calibration_slope" else TOO_FEW


def subgroup_differences(evidence: Evidence) -> tuple[MeasurePromise, ...]:
    """Every measure of a subgroup less that of the rest, on the scale of the value itself."""
    return tuple(_difference(evidence, s, k) for s, k in evidence.found if s)


def _difference(evidence: Evidence, s: int, k: int) -> MeasurePromise:
    """One measure of a subgroup less that of the rest.

    Parameters
    ----------
    evidence : Evidence
    s, k : int
        Subgroup and column.
    """
    column, S = evidence.columns[k], len(evidence.subgroups) - 1
    most = 1.0 if column.measure.link == "logit" else np.inf  # rates are at most 1 apart
    apart, v, scales, by_source = [], [], [], {}
    for j, by_subgroup in enumerate(evidence.told):
        variance = float(evidence.variances[j][S + s, k])
        if (j, s) not in evidence.rests or variance < 0.0:
            continue
        value, _, x = (part[k] for part in evidence.values[j, s])
        gap = float(value - evidence.rests[j, s][k])
        if not np.isfinite(gap):
            continue
        slack = normal_quantile(0.5 + evidence.level / 2.0) * variance**0.5
        by_source[evidence.names[j]] = (gap, max(gap - slack, -most), min(gap + slack, most))
        slope = float(link_slope(column.measure, x))
        scales.append(slope * column.measure.spread * spread_unit(column, by_subgroup[0]))
        apart.append(gap)
        v.append(variance)
    if not apart:
        return MeasurePromise(*evidence.place(s, k), why_not=_why_not(evidence, s, k))
    spread = float(np.mean(scales))
    kept = held_in(np.array(apart), np.array(v), spread)
    site = new_site(kept, np.array(v), spread, points=MEASURE_TAUS)
    numbers = _numbers(site, np.clip(_three(site, evidence.level), -most, most))
    return MeasurePromise(*evidence.place(s, k), *numbers, by_source)

"""What outcomes of some of the target's rows say of the model, beside what was promised.

Every quantity has an unbounded scale, a distribution at a new site (`before`), and what the
labelled rows alone say on the same scale (`alone`). Both together: `fedcsa.core.few_outcomes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fedcsa.core.arrays import Array, logit
from fedcsa.core.few_outcomes import Alone, ThisSite, pooled_variance, this_site
from fedcsa.core.losses import Loss, loss_named, row_losses
from fedcsa.core.measures import (
    NOT_ESTIMABLE,
    Measure,
    measure_columns,
    measure_values,
    measure_variances,
    spread_unit,
)
from fedcsa.core.random_effects import NewSite, new_site
from fedcsa.core.scores import told_by
from fedcsa.messages.messages import ExaminationReport
from fedcsa.target.backtest_result import score_sums
from fedcsa.target.estimate import outcome_means
from fedcsa.target.verdict import RATE_SCALE, RESIDUAL_SCALE, risk_sites

if TYPE_CHECKING:
    from fedcsa.plan import Plan
    from fedcsa.target.adaptation import Adaptation
    from fedcsa.target.promised_measures import Evidence

#: No mean loss counts as less than this share of the promised one: a zero has no logarithm.
LEAST_RISK = 1e-3
#: No variance on an unbounded scale is smaller.
LEAST_VARIANCE = 1e-12
#: Value, estimate, rows and variance of a measure of which the labelled rows show nothing.
NOTHING = (float("nan"), float("nan"), 0.0, float("nan"))


@dataclass(frozen=True)
class Labelled:
    """Rows of the target whose outcomes are known.

    Attributes
    ----------
    X : array of shape (rows, features)
    y : array of shape (rows,)
        Numbers, or codes of classes.
    output : array of shape (rows,) or (rows, classes)
        What the model, as it was, predicts.
    weights : array of shape (rows,)
        They sum to one.
    """

    X: Array = field(repr=False)
    y: Array = field(repr=False)
    output: Array = field(repr=False)
    weights: Array = field(repr=False)

    @property
    def effective_rows(self) -> float:
        """1/Σw²."""
        return float(1.0 / (self.weights @ self.weights))

    def mean(self, influence: Array) -> tuple[float, float]:
        """Weighted mean of something, and its variance; NaN of a single row.

        Parameters
        ----------
        influence : array of shape (rows,)
        """
        n, mean = self.effective_rows, float(self.weights @ influence)
        if len(influence) < 2 or n <= 1.0:
            return mean, float("nan")
        return mean, float(self.weights**2 @ (influence - mean) ** 2 * n / (n - 1.0))


@dataclass(frozen=True)
class Quantity:
    """One quantity at the target, on its unbounded scale.

    Attributes
    ----------
    before : NewSite
        What the sources predict.
    alone : Alone or None
        What the outcomes say, with a variance that the sources support; None if nothing.
    own : Alone or None
        The same from the outcomes themselves; None if they are too few.
    one_row : float
        n times the variance of the estimate from n rows.
    loss : bool
        Whether it is the logarithm of a loss.
    """

    before: NewSite = field(repr=False)
    alone: Alone | None
    own: Alone | None
    one_row: float
    loss: bool = False

    @cached_property
    def against(self) -> float:
        """Evidence of this quantity alone that this site is unlike the others."""
        return this_site(self.before, self.alone, loss=self.loss).against

    def after(self, unlike: float) -> ThisSite:
        """The quantity, given the promise and the outcomes.

        Parameters
        ----------
        unlike : float
            Evidence of all quantities that are tested.
        """
        return this_site(self.before, self.alone, unlike, loss=self.loss)


def quantity(
    before: NewSite, estimate: float, rows: float, own: float, one_row: float, *, loss: bool = False
) -> Quantity:
    """A quantity from what the labelled rows show.

    Parameters
    ----------
    before : NewSite
    estimate : float
        NaN if they show nothing.
    rows : float
        Effective rows.
    own : float
        Variance of the estimate as the rows show it; NaN if they do not.
    one_row : float
        n times the variance at the sources; NaN if they do not say.
    loss : bool
        Whether it is the logarithm of a loss.
    """
    nothing = not np.isfinite(estimate) or not rows > 0.0 or (np.isnan(own) and np.isnan(one_row))
    if nothing:
        return Quantity(before, None, None, one_row, loss)
    variance, df = pooled_variance(rows, own, one_row, loss=loss)
    both = Alone(estimate, max(variance, LEAST_VARIANCE), df)
    shown = np.isfinite(own) and own > 0.0
    classical = Alone(estimate, own, max(rows - 1.0, 1.0)) if shown else None
    return Quantity(before, both, classical, variance * rows, loss)


@dataclass(frozen=True)
class OwnOutcomes:
    """All quantities at the target, given some labelled rows.

    Attributes
    ----------
    adaptation : Adaptation
        With a promise.
    labelled : Labelled
    loss : function or None
        The study's own, if it is none of ours.
    """

    adaptation: Adaptation
    labelled: Labelled = field(repr=False)
    loss: Loss | None = None

    @property
    def plan(self) -> Plan:
        """The study's plan."""
        return self.adaptation.plan

    @cached_property
    def losses(self) -> Array:
        """Loss of every labelled row."""
        return self._losses(self.labelled.output)

    def _losses(self, output: Array) -> Array:
        function = self.loss or loss_named(self.plan.loss)
        return row_losses(function, output, self.labelled.y)

    @cached_property
    def reports(self) -> Mapping[str, ExaminationReport]:
        """Examinations on which the promise rests."""
        examined = () if self.adaptation.promise is None else self.adaptation.promise.examined_by
        return {name: self.adaptation.examinations[name] for name in examined}

    @cached_property
    def _sites(self) -> tuple[NewSite, NewSite]:
        a = [self.adaptation.source_weights.get(name, 0.0) for name in self.reports]
        return risk_sites(list(self.reports.values()), a, self.adaptation.n_target_rows)

    def _one_row(self, variances: Iterable[float], power: int) -> float:
        """The median source's n times variance, the part of its imbalance taken off.

        Parameters
        ----------
        variances : iterable of float
            Of every report.
        power : int
            Of the imbalance in it.
        """
        said = [self.adaptation.reports[name] for name in self.reports]
        pairs = zip(said, variances, strict=True)
        each = [max(v - r.imbalance**power, 0.0) * r.effective_rows for r, v in pairs]
        return float(np.median(each))

    @cached_property
    def risk(self) -> Quantity:
        """Logarithm of the risk."""
        n, (mean, variance) = self.labelled.effective_rows, self.labelled.mean(self.losses)
        if self.plan.loss == "zero-one":
            mean = (n * mean + 0.5) / (n + 1.0)
        mean = max(mean, LEAST_RISK * self.adaptation.target_risk)
        return self.risk_with(float(np.log(mean)), n, variance / mean**2)

    def risk_with(self, estimate: float, rows: float, own: float) -> Quantity:
        """The same, if the labelled rows showed this.

        Parameters
        ----------
        estimate, own : float
            Logarithm of the mean loss, and its variance; NaN if that is not known.
        rows : float
            Effective rows.
        """
        one_row = self._one_row((r.risk_variance for r in self.reports.values()), 2)
        return quantity(self._sites[0], estimate, rows, own, one_row, loss=True)

    @cached_property
    def _tested(self) -> list[float]:
        """Evidence that this site is unlike the sources, by risk, level and slope."""
        tested = [self.risk, *self.levels, *([] if self.slope is None else [self.slope])]
        return [item.against for item in tested]

    @property
    def against(self) -> float:
        """Mean evidence of them: a mean of martingales is one, however they depend."""
        return float(np.mean(self._tested))

    @property
    def unlike(self) -> float:
        """The strongest of them: it says how much the promise still counts for every measure."""
        return max(self._tested)

    @cached_property
    def ratio(self) -> Quantity:
        """Logarithm of the risk over that of the sources' constant."""
        means = outcome_means(self.adaptation.reported, self.plan.loss)
        weights = self.adaptation.source_weights
        constant = np.atleast_1d(sum(a * means[name] for name, a in weights.items()))
        y = self.labelled.y
        shape = (len(y), len(constant)) if self.plan.classes else y.shape
        others = self._losses(np.broadcast_to(constant, shape).copy())
        mean, its = (max(self.labelled.mean(x)[0], LEAST_VARIANCE) for x in (self.losses, others))
        variance = self.labelled.mean(self.losses / mean - others / its)[1]
        one_row = self._one_row((r.ratio_variance for r in self.reports.values()), 2)
        rows, log = self.labelled.effective_rows, float(np.log(mean / its))
        return quantity(self._sites[1], log, rows, variance, one_row, loss=True)

    @cached_property
    def levels(self) -> tuple[Quantity, ...]:
        """Level of outcomes given predictions: in residual sds, or log-odds of every class."""
        scale = RATE_SCALE if self.plan.classes else RESIDUAL_SCALE
        rows, found = self.labelled.effective_rows, []
        for k, (estimate, variance) in enumerate(self._own_levels()):
            y = np.array([report.level[k] for report in self.reports.values()])
            v = np.array([report.level_variance[k] for report in self.reports.values()])
            site, one_row = new_site(y, v, scale), self._one_row(v.tolist(), 1)
            found.append(quantity(site, estimate, rows, variance, one_row))
        return tuple(found)

    def _own_levels(self) -> list[tuple[float, float]]:
        """Level and its variance as the labelled rows show it."""
        rows, y, p = self.labelled, self.labelled.y, self.labelled.output
        if not self.plan.classes:
            unit = max(float(rows.weights @ (y - p) ** 2) ** 0.5, LEAST_VARIANCE)
            if len(y) < 2:  # one residual is no unit of itself
                unit = max(self.residual, LEAST_VARIANCE)
            mean, variance = rows.mean((y - p) / unit)
            return [(mean, variance)]
        found, n = [], rows.effective_rows
        for c in [1] if len(self.plan.classes) == 2 else range(len(self.plan.classes)):
            event = (y == c).astype(np.float64)
            seen, expected = ((n * rows.mean(x)[0] + 0.5) / (n + 1.0) for x in (event, p[:, c]))
            influence = event / (seen * (1.0 - seen)) - p[:, c] / (expected * (1.0 - expected))
            found.append((float(logit(seen) - logit(expected)), rows.mean(influence)[1]))
        return found

    @property
    def residual(self) -> float:
        """The promised root mean square of the residuals."""
        told = [m.estimate for m in self.adaptation.measures if m.name == "rmse"]
        return float(told[0]) if told else float(self.adaptation.target_risk) ** 0.5

    @cached_property
    def measures(self) -> Mapping[tuple[int, int], Quantity]:
        """Every promised measure, by subgroup and column."""
        evidence = self.adaptation.evidence
        if evidence is None:
            return {}
        found = {}
        for (s, k), before in evidence.sites.items():
            shown, one_row = self.shown.get((s, k), NOTHING)[1:], self._measure_row(evidence, s, k)
            loss = is_loss(evidence.columns[k].measure)
            found[s, k] = quantity(before, *shown, one_row, loss=loss)
        return found

    @cached_property
    def slope(self) -> Quantity | None:
        """The calibration slope; None if it was not promised, or there are three classes."""
        if len(self.plan.classes) > 2:
            return None
        columns = measure_columns(self.adaptation.score_design)
        names = [column.measure.name for column in columns]
        return self.measures.get((0, names.index("calibration_slope")))

    @cached_property
    def shown(self) -> Mapping[tuple[int, int], tuple[float, float, float, float]]:
        """Every measure as the labelled rows show it, by subgroup and column.

        Its value, the same on its scale, effective rows, and the variance on that scale.
        """
        rows, design = self.labelled, self.adaptation.score_design
        sums = score_sums(self.plan, design, (rows.X, rows.y, rows.output), rows.weights)
        table, exact, parts = sums.told(1)
        variances, found = measure_variances(parts, design), {}
        all_same = rows.y.min() == rows.y.max()  # then no slope and no ranking can be seen
        for s, part in told_by(design, table, exact).items():
            values, effective, x = measure_values(part)
            for k, column in enumerate(measure_columns(design)):
                own = float(variances[s, k])
                if (own == NOT_ESTIMABLE or all_same) and not is_mean(column.measure):
                    continue
                known = np.nan if own == NOT_ESTIMABLE else own
                found[s, k] = (float(values[k]), float(x[k]), float(effective[k]), known)
        return found

    def _measure_row(self, evidence: Evidence, s: int, k: int) -> float:
        """Variance times n of a measure at the median source.

        Parameters
        ----------
        evidence : Evidence
        s, k : int
            Subgroup and column.
        """
        column, found = evidence.columns[k], evidence.found[s, k]
        each = []
        for j, v in zip(found.sources, found.variances, strict=True):
            said = self.adaptation.reports[evidence.names[j]]
            left = said.imbalance**column.measure.imbalance
            left *= spread_unit(column, evidence.told[j][s]) ** 2
            each.append(max(float(v) - left, 0.0) * float(evidence.values[j, s][1][k]))
        return float(np.median(each)) if each else float("nan")


def is_mean(measure: Measure) -> bool:
    """Whether a single row can say something of it: it is a mean over rows."""
    shape = measure.link == "rest" or measure.name == "calibration_slope"
    return not measure.fewest_events and not shape


def is_loss(measure: Measure) -> bool:
    """Whether it is the logarithm of a loss, or of a loss over another."""
    return measure.better != 0 and measure.link in ("log", "rest")

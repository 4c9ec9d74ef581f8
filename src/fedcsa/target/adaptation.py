"""The target's answer: a model, the promise of its risk, the weight of every source, dangers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcsa.core.arrays import Array, as_matrix
from fedcsa.core.scores import OwnScores, ScoreDesign
from fedcsa.core.table import Table1
from fedcsa.core.weights import Estimate
from fedcsa.data.coding import Columns
from fedcsa.data.columns import Outcome
from fedcsa.data.frames import as_described_matrix, column_names
from fedcsa.errors import (
    CandidatesError,
    ModelError,
    NoOverlapError,
    NoSourcesError,
    must,
)
from fedcsa.findings import Finding
from fedcsa.messages.messages import ExaminationReport, ModelReport, RiskReport
from fedcsa.messages.policy import LedgerEntry
from fedcsa.models.correction import Correction
from fedcsa.models.description import GIVEN, given_column
from fedcsa.models.export import corrected_lines, estimator_of_lines, formula_of_lines
from fedcsa.models.fitted import FittedModel
from fedcsa.models.given import Formula
from fedcsa.models.linear_format import LinearModel, Lines
from fedcsa.target.conclude import findings_of
from fedcsa.target.estimate import NO_OVERLAP, Reported, combine, score_design, with_weight
from fedcsa.target.per_patient import (
    PATIENT_LEVEL,
    IntervalCheck,
    Limits,
    coverage_by_distance,
    limits_of,
)
from fedcsa.target.promised_curves import (
    calibration_curves,
    decision_curve,
    recalibration,
    risk_distributions,
)
from fedcsa.target.promised_measures import (
    Calibration,
    DecisionCurve,
    Evidence,
    MeasurePromise,
    Recalibration,
    RiskDistribution,
    measure_promises,
    subgroup_differences,
)
from fedcsa.target.risk_units import risk_scale
from fedcsa.target.verdict import Promise, Verdict, promise_of, verdict_of

if TYPE_CHECKING:
    from fedcsa.plan import Plan
    from fedcsa.target.backtest_result import Backtest

#: These stop a study before it has a model, and are no mistake of whoever runs it.
WITHOUT_MODEL = (NoOverlapError, NoSourcesError, CandidatesError)


@dataclass(frozen=True)
class Stopped:
    """Why a study has no model.

    Attributes
    ----------
    rule : str
        In one word, for example ``"no_overlap"``.
    text : str
        In a sentence.
    """

    rule: str
    text: str


def _estimate_only(plan: Plan) -> str:
    """Why a study without an examination has no verdict."""
    own = f"an estimate by {plan.titled(plan.method)}"
    if plan.preset == "paper":
        own = f"the paper's own estimate, {plan.method}"
    return f"{own}: no source examined the model, so there is no interval and no verdict"


@dataclass(frozen=True)
class Concluded:
    """What was concluded of a study before, and stands whatever would be concluded now.

    Attributes
    ----------
    promise : Promise or None
    findings : tuple of Finding
    """

    promise: Promise | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Adaptation:
    """Result of a study, as the target holds it.

    Attributes
    ----------
    plan : Plan
        The study's design.
    table : Table1
        What the target told; exact and without correlations if it told its rows.
    candidate : mapping
        The chosen one.
    target_risk : float
        Risk at the target: the promise's, else the estimate of the study's method.
    promise : Promise or None
        What a new site may expect; None for the paper's formulas, if nobody could examine, or if no
        source comes near the target.
    verdict : Verdict
        What to do with the model, on three legs.
    source_weights : mapping of str to float
        Weight of every source's model, by name; sums to one. For a given model, the share of every
        source in the target-equivalent rows that it was judged on.
    sources : tuple of str
        In alphabetical order, which is the order of every array over sources.
    kept : tuple of int
        Indices into ``plan.candidates`` of those that were chosen from: the order of every array
        over candidates.
    estimates : mapping of str to Estimate
        The method's own, and those of the formulas that the study compares.
    reports : mapping of str to RiskReport
        Each on the candidates of all rounds.
    rounds : tuple of int
        How many candidates were asked for in every round; one round unless there was a search.
    model_reports : mapping of str to ModelReport
    models : mapping of str to FittedModel
        What the reports hold, ready to predict. A given model alone is called ``"given"``.
    examinations : mapping of str to ExaminationReport
        What the sources found about the others' mixture.
    own_scores : OwnScores or None
        How the target's own rows spread over the model's scores; None if it only told a table.
    backtest : Backtest or None
        What happened when the sources played the target, if that was tried.
    noted : tuple of Finding
        What was found on the way: refusals, failures, models without use.
    findings : tuple of Finding
        These, and what all answers together show; sought when somebody asks.
    concluded : Concluded or None
        Promise and findings that stand: of an answer that was read from a file, back-tested or
        corrected, or of a study that stopped.
    ledgers : mapping of str to tuple of LedgerEntry
        What left each site, as far as this process can see.
    stopped : Stopped or None
        Why there is no model: then `kept`, `estimates`, `models` and `source_weights` are empty,
        and only `reports` and `findings` say what the sources told until then.
    correction : Correction or None
        What outcomes at the target changed in the model, see `fedcsa.update`. The promise and all
        measures are of the model without it.
    intervals : tuple of IntervalCheck
        What outcomes at the target changed in the intervals per patient.
    described : Columns or None
        How the tables of the study are described.
    by_name : bool
        Whether further tables may be read without a description, too: see `columns`.
    """

    plan: Plan
    table: Table1 = field(repr=False)
    reports: Mapping[str, RiskReport] = field(repr=False)
    rounds: tuple[int, ...]
    kept: tuple[int, ...] = ()
    estimates: Mapping[str, Estimate] = field(default_factory=dict, repr=False)
    model_reports: Mapping[str, ModelReport] = field(default_factory=dict, repr=False)
    models: Mapping[str, FittedModel] = field(default_factory=dict, repr=False)
    source_weights: Mapping[str, float] = field(default_factory=dict)
    examinations: Mapping[str, ExaminationReport] = field(default_factory=dict, repr=False)
    own_scores: OwnScores | None = field(default=None, repr=False)
    backtest: Backtest | None = field(default=None, repr=False)
    noted: tuple[Finding, ...] = field(default=(), repr=False)
    concluded: Concluded | None = field(default=None, repr=False)
    ledgers: Mapping[str, tuple[LedgerEntry, ...]] = field(default_factory=dict, repr=False)
    stopped: Stopped | None = None
    correction: Correction | None = None
    intervals: tuple[IntervalCheck, ...] = ()
    described: Columns | None = field(default=None, repr=False)
    by_name: bool = field(default=False, repr=False)

    # What the answers show, concluded when somebody asks ------------------------------------

    @cached_property
    def reported(self) -> Reported:
        """The reports, stacked."""
        return Reported.of(self.reports)

    @property
    def reaching(self) -> tuple[str, ...]:
        """The sources whose weighted rows stand for the target's population."""
        return self.reported.reaching

    @property
    def near_examinations(self) -> dict[str, ExaminationReport]:
        """What those sources found."""
        return {n: self.examinations[n] for n in self.reaching if n in self.examinations}

    @cached_property
    def score_design(self) -> ScoreDesign:
        """In which bins and units scores are counted."""
        return score_design(self.plan, self.reported)

    @cached_property
    def promise(self) -> Promise | None:
        """What a new site may expect, from what sources found that reach the target."""
        if self.concluded is not None:
            return self.concluded.promise
        if self.refused:  # a number would be believed
            return None
        weights, n_rows = self.source_weights, self.n_target_rows
        return promise_of(self.near_examinations, weights, self.plan, n_rows)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Every danger by name."""
        if self.concluded is not None:
            return self.concluded.findings
        return (*self.noted, *findings_of(self))

    # What the sources' score tables say of the model at the target ------------------------------

    @cached_property
    def evidence(self) -> Evidence | None:
        """What all measures rest on; None where no source that reaches the target told a table."""
        found = {n: item for n, item in self.near_examinations.items() if len(item.scores)}
        if self.promise is None or not found:
            return None
        promise, design = self.promise, self.score_design
        risk = (promise.risk, promise.lower, promise.upper, promise.between_sites)
        return Evidence.of(found, self.source_weights, self.plan, design, self.own_scores, risk)

    @cached_property
    def measures(self) -> tuple[MeasurePromise, ...]:
        """Every measure over everybody and over every subgroup."""
        return () if self.evidence is None else measure_promises(self.evidence)

    @cached_property
    def differences(self) -> tuple[MeasurePromise, ...]:
        """Every measure of a subgroup less that of all others."""
        return () if self.evidence is None else subgroup_differences(self.evidence)

    @cached_property
    def calibration(self) -> tuple[Calibration, ...]:
        """What happens to rows with a prediction, one curve per class."""
        return () if self.evidence is None else calibration_curves(self.evidence)

    @cached_property
    def risk_distributions(self) -> tuple[RiskDistribution, ...]:
        """Predictions of rows with and without the event."""
        return () if self.evidence is None else risk_distributions(self.evidence)

    @cached_property
    def recalibration(self) -> Recalibration | None:
        """A correction that is offered, and what it would change."""
        return None if self.evidence is None else recalibration(self.evidence)

    @cached_property
    def decision_curve(self) -> DecisionCurve | None:
        """Net benefit over thresholds; None unless there are two classes."""
        return None if self.evidence is None else decision_curve(self.evidence)

    @property
    def n_target_rows(self) -> int:
        """n_T, as it was told."""
        return self.table.n_rows

    @property
    def estimate(self) -> Estimate:
        """The estimate of the study's own method."""
        return self.estimates[self.plan.method]

    @property
    def candidate(self) -> Mapping[str, Any]:
        """The chosen candidate; empty if the model was given."""
        if not self.kept:
            return {}
        return self.plan.candidates[self.kept[self.estimate.chosen]]

    @property
    def target_risk(self) -> float:
        """Risk at the target."""
        if self.promise is not None:
            return self.promise.risk
        if not self.estimates:  # of a given model that nobody could examine
            return math.nan
        return float(self.estimate.risk[self.estimate.chosen])

    @property
    def interval(self) -> tuple[float, float] | None:
        """The prediction interval for a new site, where there is a promise."""
        return None if self.promise is None else (self.promise.lower, self.promise.upper)

    @property
    def refused(self) -> bool:
        """Whether there is no answer: no source comes near the target."""
        if not self.plan.examined:
            return False
        a = [self.source_weights.get(name, 0.0) for name in self.reported.names]
        return not self.reported.near.any() or float(self.reported.imbalance @ a) > NO_OVERLAP

    @cached_property
    def verdict(self) -> Verdict:
        """What to do with the model, and why."""
        if self.stopped is not None:
            return Verdict("no", f"there is no model. {self.stopped.text}")
        if not self.plan.examined:
            return Verdict("none", _estimate_only(self.plan))
        if self.refused:
            return Verdict("no", "no source resembles the target")
        reasons = {report.reason for report in self.examinations.values()}
        if self.plan.method == GIVEN and reasons == {"mixture_failed"}:
            return Verdict("no", "the given model cannot predict the rows of any source")
        reached = len(self.reaching), self.n_target_rows
        found = verdict_of(self.promise, *reached, risk_scale(self.plan))
        if self.plan.method == GIVEN and self.promise is None:
            return Verdict("none", "nobody could examine the given model", found.legs)
        if self.backtest is not None and self.backtest.verdict == "failed":
            return Verdict("no", f"the back-test failed: {self.backtest.reason}", found.legs)
        return found

    @property
    def status(self) -> str:
        """The verdict in words; ``"no overlap"`` or ``"no model"`` if there is no model."""
        if self.stopped is not None:
            return "no overlap" if self.stopped.rule == "no_overlap" else "no model"
        return self.verdict.words

    def with_backtest(self, backtest: Backtest) -> Adaptation:
        """The same answer with every broken promise; a back-test that failed lowers its verdict."""
        findings = tuple(
            f for f in self.findings if not f.code.startswith(("backtest-", "promise-broken"))
        )
        if backtest.verdict != "passed":
            evidence = {
                "judged": float(len(backtest.judged)),
                "of": float(len(backtest.rows)),
                "broken": float(backtest.broken),
            }
            findings += (Finding(f"backtest-{backtest.verdict}", evidence=evidence),)
        concluded = Concluded(self.promise, findings + backtest.findings)
        return replace(self, backtest=backtest, concluded=concluded)

    def with_correction(
        self, correction: Correction | None, intervals: tuple[IntervalCheck, ...] = ()
    ) -> Adaptation:
        """The same answer with predictions corrected; what was concluded of it stands.

        Parameters
        ----------
        correction : Correction or None
        intervals : tuple of IntervalCheck
        """
        concluded = Concluded(self.promise, self.findings)
        return replace(self, correction=correction, intervals=intervals, concluded=concluded)

    @cached_property
    def columns(self) -> Columns | None:
        """How further tables are read: as they are described, else as numbers by name.

        The outcome is called as the description says, else ``"outcome"``. None if nobody said.
        """
        if not self.by_name:
            return self.described
        plan = self.plan
        coding = self.described or Columns(dict.fromkeys(plan.features, "number"))
        name = "outcome" if coding.outcome is None else coding.outcome.name
        taken = {feature.name for feature in coding.features}
        levels = tuple(int(c) if isinstance(c, float) else c for c in plan.classes)
        # Of one class alone there is nothing to read.
        outcome = None if name in taken or len(levels) == 1 else Outcome(name, levels)
        told = coding.missing_values, given_column(plan.model)
        return Columns(coding.features, outcome, *told)

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources that reported, sorted."""
        return tuple(sorted(self.reports))

    def output(self, X: ArrayLike, *, corrected: bool = True) -> Array:
        """The combined prediction: numbers (rows,), or probabilities (rows, classes).

        Parameters
        ----------
        X : array of shape (rows, features), or frame
        corrected : bool
            False leaves out what outcomes at the target corrected: what the promise is of.
        """
        if given_column(self.plan.model):
            raise ModelError(
                "This study judged a column of predictions, so it has no model that could predict. "
                "Take the predictions from that column."
            )
        rows = self._matrix(X)
        if self._line is not None:
            found = self._line.predict(rows)
        else:
            seen = self._in_units(rows) if self.plan.scale else rows
            found = combine(*self._members, seen, self.plan.combine)
        if self.correction is None or not corrected:
            return found
        return self.correction.corrected(found, self._in_units(rows))

    @cached_property
    def _members(self) -> tuple[list[FittedModel], Array]:
        """The models with weight, and their weights; a given one is alone."""
        weights = {GIVEN: 1.0} if self.plan.method == GIVEN else self.source_weights
        return with_weight(self.models, weights)[1:]

    @cached_property
    def _line(self) -> LinearModel | None:
        """The whole mixture, before a correction, as one line in raw units; None if it is none."""
        try:
            weights, lines = self._lines()
        except ModelError:
            return None
        return lines.mean(weights)

    def _matrix(self, X: Any) -> Array:
        """Rows as numbers: a frame by its columns, an array as it is."""
        if column_names(X) is not None and self.columns is not None:
            return as_described_matrix(X, "X", self.columns)[0]
        return as_matrix(X, "X", n_columns=len(self.plan.features))

    def formula(self) -> Formula:
        """The final linear model as a formula in raw units, for use elsewhere."""
        return formula_of_lines(*self._corrected_lines(), self.plan.features)

    def estimator(self) -> Any:
        """The final linear model as a fitted scikit-learn estimator of raw columns."""
        return estimator_of_lines(*self._corrected_lines(), self.plan.features, self.plan.classes)

    def _corrected_lines(self) -> tuple[Array, Lines]:
        """Weights and models as lines in raw units, with the correction."""
        lines = self._lines()
        if self.correction is None:
            return lines
        return corrected_lines(*lines, self.correction, self.table.mean, self.table.sd)

    def _lines(self) -> tuple[Array, Lines]:
        """Weights and models as lines in raw units, before a correction; or a `ModelError`."""
        if self.plan.combine != "mean":
            raise ModelError("A median of models is not a linear model, so it cannot be exported.")
        members, weights = self._members
        if not members:
            raise ModelError("This result has no model that could be exported.")
        lines = Lines.of(members)
        if lines is None:
            raise ModelError(
                "Only linear models can be exported; this study's model is of another kind. The "
                "result folder predicts with it: fedcsa predict."
            )
        if not self.plan.scale:
            return weights, lines
        slopes = lines.coefficients / self.table.sd
        moved = np.array([slope @ self.table.mean for slope in slopes])
        return weights, Lines(slopes, lines.intercepts - moved, lines.link)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Numbers, or the most probable class, of every row of an array of numbers or a frame."""
        output = self.output(X)
        if not self.plan.classes:
            return output
        labels: NDArray[Any] = np.asarray(self.plan.classes)[output.argmax(axis=1)]
        return labels

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probability of every class, in the order of ``plan.classes``."""
        if not self.plan.classes:
            raise ModelError(
                "Only a classifier has probabilities; this study predicts numbers. "
                "Call predict instead."
            )
        return self.output(X)

    @cached_property
    def patient_limits(self) -> Limits | None:
        """How far outcomes lie from predictions for 90 % of patients, as the sources told it.

        None if nobody examined.
        """
        return self._limits(PATIENT_LEVEL)

    @property
    def half_widths(self) -> tuple[float, ...]:
        """Half widths of `predict_interval` at 90 %, by distance; empty if there are none."""
        found = self.patient_limits
        if found is None or found.classes or not np.isfinite(found.values).all():
            return ()
        return tuple(found.widened(self.intervals).values.tolist())

    def predict_interval(self, X: ArrayLike, level: float = PATIENT_LEVEL) -> Array:
        """Lower and upper end of the interval of every row, shape (rows, 2).

        Parameters
        ----------
        X : array of shape (rows, features), or frame
        level : float
            Part of the patients whose outcome lies in theirs. Ends are infinite where too few
            rows stand behind it.
        """
        if self.plan.classes:
            raise ModelError(
                "Only a number has an interval; this study predicts classes. "
                "Call predict_set instead."
            )
        return self.limits(level).interval(self.output(X), self.standardised(X))

    def predict_set(self, X: ArrayLike, level: float = PATIENT_LEVEL) -> NDArray[np.bool_]:
        """Which classes may come, shape (rows, classes), in the order of ``plan.classes``.

        Parameters
        ----------
        X : array of shape (rows, features), or frame
        level : float
            Of the patients of every class, the part that has it in its set.
        """
        if not self.plan.classes:
            raise ModelError(
                "Only a classifier has sets; this study predicts numbers. "
                "Call predict_interval instead."
            )
        return self.limits(level).sets(self.output(X))

    def coverage(self, X: ArrayLike, output: Array, y: Array) -> Array:
        """Share of rows whose interval or set holds, by quarter of distance; empty without any.

        Parameters
        ----------
        X : array of shape (rows, features)
        output : array of shape (rows,) or (rows, classes)
            What was predicted, as `output` gives it, or as a column of predictions says.
        y : array of shape (rows,)
            Outcomes: numbers, or codes of classes.
        """
        if self.patient_limits is None:
            return np.empty(0)
        z = self.standardised(X)
        return coverage_by_distance(self.patient_limits.holds(output, z, y), z)

    def standardised(self, X: ArrayLike) -> Array:
        """Rows in units of the target's means and sds."""
        return self._in_units(self._matrix(X))

    def _in_units(self, rows: Array) -> Array:
        z: Array = rows - self.table.mean
        z /= self.table.sd  # in place: a matrix more costs more than to divide
        return z

    def _limits(self, level: float) -> Limits | None:
        return limits_of(self.examinations, self.reported, self.score_design, level)

    def limits(self, level: float) -> Limits:
        """How far outcomes lie from predictions for this part of patients, or an error."""
        if not isinstance(level, int | float | np.floating) or not 0.0 < level < 1.0:
            raise must("level", "between 0 and 1, such as 0.9", level)
        found = self._limits(level)
        if found is None:
            raise ModelError(
                "No source that resembles the target told how far outcomes lie from predictions, "
                "so there is no interval per patient. The findings say why."
            )
        return found.widened(self.intervals)

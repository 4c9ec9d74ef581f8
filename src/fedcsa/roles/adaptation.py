"""The target's answer: a model, its risk, the weight of every source, and the dangers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcsa.core.arrays import Array, as_matrix
from fedcsa.core.ensemble import EnsembleRisk
from fedcsa.core.medians import limited, median_mixture
from fedcsa.core.weights import Estimate
from fedcsa.errors import MessageError, ModelError
from fedcsa.findings import Finding
from fedcsa.models.fitted import EstimatorModel, FittedModel, LinearModel
from fedcsa.protocol.ledger import LedgerEntry
from fedcsa.protocol.messages import ModelReport, RiskReport
from fedcsa.roles.backtest import Backtest
from fedcsa.roles.face import result_html
from fedcsa.roles.plan import Plan


@dataclass(frozen=True)
class Adaptation:
    """Result of a study, as the target holds it.

    Attributes
    ----------
    plan : Plan
        The study's design.
    candidate : mapping
        The chosen one.
    target_risk : float
        Estimated risk at the target: of the mixture under the guarded method, else the paper's.
    source_weights : mapping of str to float
        Weight of every source's model, by name; sums to one.
    sources : tuple of str
        In alphabetical order, which is the order of every array over sources.
    kept : tuple of int
        Indices into ``plan.candidates`` of those that could be fitted everywhere: the order of
        every array over candidates.
    estimates : mapping of str to Estimate
        Every method's estimate from the same messages, for comparison.
    reports : mapping of str to RiskReport
    model_reports : mapping of str to ModelReport
    models : mapping of str to FittedModel
        What the reports hold, ready to predict.
    mean, sd : array of shape (features,)
        The target's, by which features are scaled if ``plan.scale``.
    constant_risks : mapping of str to float
        Risk of a constant prediction at the target, by every method.
    risk : EnsembleRisk or None
        Risk of the mixture with interval and verdict; None for the paper's methods.
    by_rows : EnsembleRisk or None
        The same for models weighted by their numbers of rows alone.
    backtest : Backtest or None
        What happened when the sources played the target, if that was tried.
    findings : tuple of Finding
    ledgers : mapping of str to tuple of LedgerEntry
        What left each site, as far as this process can see.
    """

    plan: Plan
    kept: tuple[int, ...]
    estimates: Mapping[str, Estimate] = field(repr=False)
    reports: Mapping[str, RiskReport] = field(repr=False)
    model_reports: Mapping[str, ModelReport] = field(repr=False)
    models: Mapping[str, FittedModel] = field(repr=False)
    source_weights: Mapping[str, float]
    mean: Array = field(repr=False)
    sd: Array = field(repr=False)
    n_target_rows: int
    constant_risks: Mapping[str, float] = field(repr=False)
    risk: EnsembleRisk | None = None
    by_rows: EnsembleRisk | None = field(default=None, repr=False)
    backtest: Backtest | None = field(default=None, repr=False)
    findings: tuple[Finding, ...] = ()
    ledgers: Mapping[str, tuple[LedgerEntry, ...]] = field(default_factory=dict, repr=False)

    @property
    def estimate(self) -> Estimate:
        """The estimate of the study's own method."""
        return self.estimates[self.plan.method]

    @property
    def candidate(self) -> Mapping[str, Any]:
        """The chosen candidate."""
        return self.plan.candidates[self.kept[self.estimate.chosen]]

    @property
    def target_risk(self) -> float:
        """Estimated risk at the target."""
        if self.risk is not None:
            return self.risk.risk
        return float(self.estimate.risk[self.estimate.chosen])

    @property
    def naive_risk(self) -> float:
        """What the naive method would have promised, with the candidate that it would choose."""
        naive = self.estimates["naive"]
        return float(naive.risk[naive.chosen])

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the target's risk, where there is one."""
        if self.risk is None or self.risk.lower is None or self.risk.upper is None:
            return None
        return self.risk.lower, self.risk.upper

    @property
    def status(self) -> str:
        """The verdict on the study.

        ``"ok"``, ``"weak overlap"``, ``"sources disagree"``, ``"no overlap"``;
        ``"back-test failed"`` if one was run and failed; ``"not judged"`` for paper methods.
        """
        if self.risk is None:
            return "not judged"
        failed = self.backtest is not None and self.backtest.verdict == "failed"
        return (
            "back-test failed" if failed and self.risk.status != "no overlap" else self.risk.status
        )

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
        return replace(self, backtest=backtest, findings=findings + backtest.findings)

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources that reported, sorted."""
        return tuple(sorted(self.reports))

    def _repr_html_(self) -> str:
        return result_html(self)

    def output(self, X: ArrayLike, *, by_rows: bool = False) -> Array:
        """The combined prediction: numbers (rows,), or probabilities (rows, classes).

        Parameters
        ----------
        by_rows : bool, default False
            Weight the models by their sources' numbers of rows instead: the other reading when
            sources disagree.
        """
        rows = as_matrix(X, "X", n_columns=len(self.plan.features))
        seen = (rows - self.mean) / self.sd if self.plan.scale else rows
        weights = self.source_weights
        if by_rows:
            names = sorted(self.models)
            shares = weights_by_rows([self.reports[name] for name in names], self.plan.combine)
            weights = dict(zip(names, shares.tolist(), strict=True))
        return combine(self.models, weights, seen, self.plan.combine)

    def predict(self, X: ArrayLike, *, by_rows: bool = False) -> NDArray[Any]:
        """Numbers, or the most probable class of every row."""
        output = self.output(X, by_rows=by_rows)
        if not self.plan.classes:
            return output
        labels: NDArray[Any] = np.asarray(self.plan.classes)[output.argmax(axis=1)]
        return labels

    def predict_proba(self, X: ArrayLike, *, by_rows: bool = False) -> Array:
        """Probability of every class, in the order of ``plan.classes``."""
        if not self.plan.classes:
            raise ModelError(
                "Only a classifier has probabilities; this study predicts numbers. "
                "Call predict instead."
            )
        return self.output(X, by_rows=by_rows)


def weights_by_rows(reports: Sequence[RiskReport], how: str) -> Array:
    """n_j / Σ n, none too large for a median."""
    rows = np.array([report.n_rows for report in reports], dtype=np.float64)
    return limited(rows / rows.sum(), how)


def combine(
    models: Mapping[str, FittedModel], weights: Mapping[str, float], seen: Array, how: str
) -> Array:
    """Σ a_j h_j(x), or the weighted median of the predictions, rescaled for probabilities."""
    if not models:
        raise ModelError(
            "No source sent a model, so there is nothing to predict with. The findings say why."
        )
    names = sorted(models)
    if how == "median":
        outputs = np.stack([models[name].predict(seen) for name in names], axis=1)
        return median_mixture(outputs, np.array([weights[name] for name in names]))
    total: Array = weights[names[0]] * models[names[0]].predict(seen)
    for name in names[1:]:
        total = total + weights[name] * models[name].predict(seen)
    return total


def unpack(report: ModelReport, plan: Plan, trusted: Collection[str] = ()) -> FittedModel:
    """The fitted model in a source's report, if it fits the study and its types are trusted."""
    n_classes = len(plan.classes)
    if report.format == "skops":
        packed = EstimatorModel.unpack(report.packed, n_classes, trusted)
        try:
            packed.predict(np.zeros((1, len(plan.features))))
        except Exception:
            raise ModelError(
                f"The model of source {report.source!r} must predict from the study's "
                f"{len(plan.features)} features; it fails."
            ) from None
        return packed
    if len(report.coefficients) != len(plan.features):
        raise MessageError(f"Source {report.source!r} must send one coefficient per feature.")
    if n_classes > 2 or (report.link == "logistic") != (n_classes == 2):
        raise MessageError(f"Source {report.source!r} must send a model of the study's outcome.")
    return LinearModel(report.coefficients, report.intercept, report.link)

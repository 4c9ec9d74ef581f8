"""The messages, and nothing else crosses between sites.

::

    target ──  Brief         ──►  source     who I am: averages of my rows, and the study
    target ◄── RiskReport    ──   source     a few numbers per candidate
    target ──  ModelRequest  ──►  source     the chosen candidate
    target ◄── ModelReport   ──   source     one model
    target ◄── Refusal       ──   source     instead of a report: the rule that forbids it
    study  ◄── BacktestReport ─   source     three numbers, after it has played the target
    lead   ◄── Conclusion    ──   target     how the study ended, and no model

A message checks itself when it is made, on the sending and on the receiving side alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.core.risk import RiskMoments
from fedcsa.protocol.fields import Message, wire_field

#: How messages call the target, whatever its site is called.
TARGET = "target"
#: Rounding to a few digits may push a share or a count just over its bound.
SLACK = 1.05
#: Standardised differences beyond this are all equally hopeless; their squares must not overflow.
FARTHEST = 1e6


@dataclass(frozen=True, eq=False, repr=False)
class Brief(Message):
    """What the target announces: the study's design, and averages of its rows.

    With ``exchange="rows"``, the paper's own, `rows` holds the target's rows themselves.
    """

    name: ClassVar[str] = "brief"

    features: Sequence[str] = wire_field("plain")
    classes: Sequence[Any] = wire_field("plain")
    model: Mapping[str, Any] = wire_field("plain")
    candidates: Sequence[Mapping[str, Any]] = wire_field("plain")
    loss: str = wire_field("text")
    scheme: str = wire_field("text")
    n_folds: int = wire_field("whole")
    shares: Array = wire_field("vector")
    refit: bool = wire_field("flag")
    scale: bool = wire_field("flag")
    seed: int = wire_field("whole")
    exchange: str = wire_field("text")
    ratio: Mapping[str, Any] = wire_field("plain")
    n_rows: int = wire_field("whole")
    mean: Array = wire_field("vector")
    sd: Array = wire_field("vector")
    basis: str = wire_field("text")
    basis_seed: int = wire_field("whole")
    bandwidth: float = wire_field("number")
    trace: float = wire_field("number")
    embedding: Array = wire_field("vector")
    rows: Array = wire_field("matrix")

    def check(self) -> None:
        """Check that the parts fit together."""
        for name in ("features", "classes", "candidates"):
            self.must(isinstance(getattr(self, name), tuple), f"{name} as a list")
        self.must(all(isinstance(name, str) for name in self.features), "features that are texts")
        d = len(self.features)
        self.must(d >= 1 and len(set(self.features)) == d, "distinct features, at least one")
        self.must(len(set(map(repr, self.classes))) == len(self.classes), "distinct classes")
        self.must(isinstance(self.model, Mapping), "a model description")
        self.must(isinstance(self.ratio, Mapping), "options of the ratio by name")
        self.must(len(self.candidates) >= 1, "at least one candidate")
        self.must(all(isinstance(c, Mapping) for c in self.candidates), "candidates by name")
        self.must(self.exchange in ("embedding", "rows"), "exchange 'embedding' or 'rows'")
        self.must(self.n_rows >= 2, "at least 2 target rows")
        self.must(len(self.mean) == d == len(self.sd), "one mean and one sd per feature")
        self.must((self.sd > 0.0).all(), "positive standard deviations")
        self.must(len(self.shares) == 3, "three fold shares")
        if self.exchange == "rows":
            self.must(self.rows.shape == (self.n_rows, d), "as many rows as it declares")
            self.must(len(self.embedding) == 0, "either rows or an embedding")
        else:
            self.must(self.rows.shape == (0, d), "either rows or an embedding")
            self.must(self.basis in ("bumps", "fourier"), "basis 'bumps' or 'fourier'")
            self.must(len(self.embedding) >= 2, "an embedding of at least 2 numbers")
            self.must(self.bandwidth > 0.0 and self.trace >= 0.0, "a positive bandwidth")


@dataclass(frozen=True, eq=False, repr=False)
class RiskReport(Message):
    """A source's answer to the brief: moments per candidate and overlap numbers.

    Arrays over candidates have one more entry, the last, for a constant prediction. `spread`,
    `variance` and `explained` are empty unless the folds are cross-fitted.
    """

    name: ClassVar[str] = "risk-report"

    source: str = wire_field("text")
    in_reply_to: str = wire_field("text")
    n_rows: int = wire_field("whole")
    n_validation: int = wire_field("whole")
    ratio_mean: float = wire_field("number")
    ratio_m2: float = wire_field("number")
    loss_mean: Array = wire_field("vector")
    loss_m2: Array = wire_field("vector")
    product_mean: Array = wire_field("vector")
    product_m2: Array = wire_field("vector")
    co_moment: Array = wire_field("vector")
    spread: Array = wire_field("vector")
    variance: Array = wire_field("vector")
    explained: Array = wire_field("vector")
    kernel_imbalance: float = wire_field("number")
    effective_rows: float = wire_field("number")
    largest_share: float = wire_field("number")
    target_mean_ratio: float = wire_field("number")
    difference_before: Array = wire_field("vector")
    difference_after: Array = wire_field("vector")
    failed: Mapping[str, str] = wire_field("plain")
    findings: Sequence[Mapping[str, Any]] = wire_field("plain")

    def check(self) -> None:
        """Check that the numbers do not contradict each other."""
        count = len(self.loss_mean)
        self.must(count >= 2, "at least one candidate, and the constant prediction")
        for array in (self.loss_m2, self.product_mean, self.product_m2, self.co_moment):
            self.must(len(array) == count, "the same number of candidates throughout")
        for array in (self.spread, self.variance, self.explained):
            self.must(len(array) in (0, count), "the same number of candidates throughout")
        features = len(self.difference_before)
        self.must(len(self.difference_after) == features >= 1, "the same features throughout")
        self.must(1 <= self.n_validation <= self.n_rows, "1 ≤ n_validation ≤ n_rows")
        self.must(isinstance(self.failed, Mapping), "failures by candidate")
        for key, reason in self.failed.items():
            known = key.isdecimal() and len(key) < 12 and int(key) < count - 1
            self.must(known and isinstance(reason, str), "failures of known candidates")
        self.must(isinstance(self.findings, tuple), "findings as a list")
        for item in self.findings:
            plain = isinstance(item, Mapping) and set(item) == {"code", "evidence"}
            plain = (
                plain and isinstance(item["evidence"], Mapping) and isinstance(item["code"], str)
            )
            self.must(plain, "findings as code and evidence")
            told = all(isinstance(value, float | str) for value in item["evidence"].values())
            self.must(told, "numbers and names as evidence")
        self._check_ratio()
        self._check_terms()

    def _check_ratio(self) -> None:
        """What the ratio's numbers must satisfy, whatever the data are."""
        n, rows, share = self.n_validation, self.effective_rows, self.largest_share
        for number in (self.ratio_mean, self.ratio_m2, rows, share, self.kernel_imbalance):
            self.must(number >= 0.0, "ratio moments, shares and imbalance that are not negative")
        self.must(rows <= SLACK * n, "effective rows ≤ n_validation")
        self.must(
            (rows == 0.0) == (self.ratio_mean == 0.0) == (share == 0.0), "all or no zero ratios"
        )
        if rows > 0.0:
            # Σw² ≤ max w ≤ √Σw², with Σw² = 1/ESS
            self.must(SLACK * share * rows >= 1.0, "a largest share of at least 1 / effective rows")
            self.must(
                share**2 * rows <= SLACK**2, "a largest share of at most 1 / √(effective rows)"
            )
        if self.ratio_mean > 1e-100:  # below, second moments may underflow
            expected = n / (1.0 + self.ratio_m2 / self.ratio_mean / self.ratio_mean / n)
            close = expected / SLACK <= rows <= SLACK * expected
            self.must(close, "effective rows that follow from the ratio's moments")

    def _check_terms(self) -> None:
        """What the moments of every candidate must satisfy, whatever the data are."""
        tiny = 1e-300
        for array in (self.loss_m2, self.product_m2, self.spread, self.variance, self.explained):
            self.must((array >= 0.0).all(), "second moments that are not negative")
        bound = SLACK * np.sqrt(self.product_m2) * np.sqrt(self.ratio_m2)
        self.must(
            (np.abs(self.co_moment) <= bound + tiny).all(), "moments that obey Cauchy–Schwarz"
        )
        if len(self.spread):
            self.must((self.explained <= SLACK * self.spread + tiny).all(), "explained ≤ spread")
            rows = max(self.effective_rows, 1.0)
            inflation = rows / max(rows - 1.0, 0.5)
            smallest = self.spread / rows / SLACK
            largest = SLACK * max(self.largest_share, 1.0 / rows) * inflation * self.spread
            within = (smallest <= self.variance + tiny) & (self.variance <= largest + tiny)
            self.must(within.all() or self.effective_rows == 0.0, "variances that fit the spread")

    @property
    def imbalance(self) -> float:
        """ι: mean over features of the squared standardised difference after weighting."""
        return float(np.mean(np.minimum(np.abs(self.difference_after), FARTHEST) ** 2))

    @property
    def moments(self) -> RiskMoments:
        """The moments as the arithmetic takes them."""
        return RiskMoments(
            self.n_validation, self.ratio_mean, self.ratio_m2, self.loss_mean, self.loss_m2,
            self.product_mean, self.product_m2, self.co_moment,
        )  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class ModelRequest(Message):
    """The target's choice: which candidate's model it wants."""

    name: ClassVar[str] = "model-request"

    brief: str = wire_field("text")
    candidate: int = wire_field("whole")

    def check(self) -> None:
        """Nothing to contradict."""


@dataclass(frozen=True, eq=False, repr=False)
class ModelReport(Message):
    """One fitted model: arrays if it is linear, else a packed file that executes nothing.

    `prediction_variance` is the sampling variance of its predictions, averaged over the source's
    weighted rows; 0 unless the folds are cross-fitted and the loss is squared or Brier.
    """

    name: ClassVar[str] = "model-report"

    source: str = wire_field("text")
    in_reply_to: str = wire_field("text")
    candidate: int = wire_field("whole")
    n_rows: int = wire_field("whole")
    prediction_variance: float = wire_field("number")
    format: str = wire_field("text")
    link: str = wire_field("text")
    intercept: float = wire_field("number")
    coefficients: Array = wire_field("vector")
    packed: NDArray[np.uint8] = wire_field("blob")

    def check(self) -> None:
        """Check that it holds exactly one model."""
        linear = self.format == "linear"
        self.must(linear or self.format == "skops", "format 'linear' or 'skops'")
        self.must((len(self.coefficients) > 0) == linear, "coefficients if and only if linear")
        self.must((len(self.packed) > 0) != linear, "a packed model if and only if not linear")
        self.must(self.link in ("identity", "logistic"), "link 'identity' or 'logistic'")
        self.must(self.prediction_variance >= 0.0, "a prediction variance that is not negative")


@dataclass(frozen=True, eq=False, repr=False)
class Refusal(Message):
    """A source's refusal: the rule's name, never a value."""

    name: ClassVar[str] = "refusal"

    source: str = wire_field("text")
    in_reply_to: str = wire_field("text")
    rule: str = wire_field("text")


@dataclass(frozen=True, eq=False, repr=False)
class BacktestReport(Message):
    """What a source says after it has played the target: how the promise turned out."""

    name: ClassVar[str] = "backtest-report"

    source: str = wire_field("text")
    realised: float = wire_field("number")
    standard_error: float = wire_field("number")
    reference: float = wire_field("number")

    def check(self) -> None:
        """Check that the error is not negative."""
        self.must(self.standard_error >= 0.0, "a standard error that is not negative")


@dataclass(frozen=True, eq=False, repr=False)
class Conclusion(Message):
    """What the target tells whoever submitted the study: how it ended; its model stays there.

    `outcome` is ``"done"`` or the rule that ended the study, `sources` what became of each,
    `result` the hash of the target's own result, `summary` that result without its models, or
    nothing if the site keeps it to itself.
    """

    name: ClassVar[str] = "conclusion"

    outcome: str = wire_field("text")
    sources: Mapping[str, str] = wire_field("plain")
    result: str = wire_field("text")
    summary: NDArray[np.uint8] = wire_field("blob")

    def check(self) -> None:
        """Check that every source has a text."""
        plain = isinstance(self.sources, Mapping)
        self.must(plain and all(isinstance(v, str) for v in self.sources.values()), "fates by name")


MESSAGES: Mapping[str, type[Message]] = {
    cls.name: cls
    for cls in (
        Brief, RiskReport, ModelRequest, ModelReport, Refusal, BacktestReport, Conclusion,
    )
}  # fmt: skip

"""The messages, and nothing else crosses between sites.

::

    target ──  Brief         ──►  source     who I am: averages of my rows, and the study
    target ◄── RiskReport    ──   source     a few numbers per candidate
    target ──  ModelRequest  ──►  source     the chosen candidate
    target ◄── ModelReport   ──   source     one model
    target ◄── Refusal       ──   source     instead of a report: the rule that forbids it
    study  ◄── BacktestReport ─   source     three numbers, after it has played the target

Each field has one of seven kinds, which is all that the codec knows. A message checks itself
when it is made, on the sending and on the receiving side alike.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array, read_only
from fedcsa.core.risk import RiskMoments
from fedcsa.errors import MessageError

Kind: TypeAlias = Literal["text", "whole", "number", "flag", "plain", "vector", "matrix", "blob"]

MAX_TEXT = 200
MAX_DEPTH = 12
MAX_WHOLE = 2**63
#: Rounding to a few digits may push a share or a count just over its bound.
SLACK = 1.01


def _field(kind: Kind, **options: Any) -> Any:
    return field(metadata={"kind": kind, **options})


@dataclass(frozen=True, eq=False, repr=False)
class Message:
    """Base of all messages: checks every field's kind, compares by value, shows no data."""

    name: ClassVar[str]

    study: str = _field("text")

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            value = _checked(
                f"{self.name}.{item.name}", item.metadata["kind"], getattr(self, item.name)
            )
            object.__setattr__(self, item.name, value)
        self.check()

    def check(self) -> None:
        """Raise a `MessageError` if the fields contradict each other."""

    def must(self, condition: object, rule: str) -> None:
        """Raise a `MessageError` that names the rule unless `condition` holds."""
        if not condition:
            raise MessageError(f"A {self.name} message must have {rule}.")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(
            np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs
            for mine, theirs in (
                (getattr(self, item.name), getattr(other, item.name))
                for item in dataclasses.fields(self)
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shapes = ", ".join(
            f"{item.name}{getattr(self, item.name).shape}"
            for item in dataclasses.fields(self)
            if isinstance(getattr(self, item.name), np.ndarray)
        )
        return f"{type(self).__name__}(study={self.study!r}{', ' if shapes else ''}{shapes})"


@dataclass(frozen=True, eq=False, repr=False)
class Brief(Message):
    """What the target announces: the study's design, and averages of its rows.

    With ``exchange="rows"``, the paper's own, `rows` holds the target's rows themselves.
    """

    name: ClassVar[str] = "brief"

    features: Sequence[str] = _field("plain")
    classes: Sequence[Any] = _field("plain")
    model: Mapping[str, Any] = _field("plain")
    candidates: Sequence[Mapping[str, Any]] = _field("plain")
    loss: str = _field("text")
    scheme: str = _field("text")
    n_folds: int = _field("whole")
    shares: Array = _field("vector")
    refit: bool = _field("flag")
    scale: bool = _field("flag")
    seed: int = _field("whole")
    exchange: str = _field("text")
    ratio: Mapping[str, Any] = _field("plain")
    n_rows: int = _field("whole")
    mean: Array = _field("vector")
    sd: Array = _field("vector")
    basis: str = _field("text")
    basis_seed: int = _field("whole")
    bandwidth: float = _field("number")
    trace: float = _field("number")
    embedding: Array = _field("vector")
    rows: Array = _field("matrix")

    def check(self) -> None:
        """Check that the parts fit together."""
        d = len(self.features)
        self.must(d >= 1 and len(set(self.features)) == d, "distinct features, at least one")
        self.must(all(isinstance(name, str) for name in self.features), "features that are texts")
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

    source: str = _field("text")
    in_reply_to: str = _field("text")
    n_rows: int = _field("whole")
    n_validation: int = _field("whole")
    ratio_mean: float = _field("number")
    ratio_m2: float = _field("number")
    loss_mean: Array = _field("vector")
    loss_m2: Array = _field("vector")
    product_mean: Array = _field("vector")
    product_m2: Array = _field("vector")
    co_moment: Array = _field("vector")
    spread: Array = _field("vector")
    variance: Array = _field("vector")
    explained: Array = _field("vector")
    kernel_imbalance: float = _field("number")
    effective_rows: float = _field("number")
    largest_share: float = _field("number")
    target_mean_ratio: float = _field("number")
    difference_before: Array = _field("vector")
    difference_after: Array = _field("vector")
    failed: Mapping[str, str] = _field("plain")
    findings: Sequence[Mapping[str, Any]] = _field("plain")

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
        for item in self.findings:
            plain = isinstance(item, Mapping) and set(item) == {"code", "evidence"}
            self.must(
                plain and isinstance(item["evidence"], Mapping), "findings as code and evidence"
            )
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
        return float(np.mean(self.difference_after**2))

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

    brief: str = _field("text")
    candidate: int = _field("whole")

    def check(self) -> None:
        """Nothing to contradict."""


@dataclass(frozen=True, eq=False, repr=False)
class ModelReport(Message):
    """One fitted model: arrays if it is linear, else a packed file that executes nothing."""

    name: ClassVar[str] = "model-report"

    source: str = _field("text")
    in_reply_to: str = _field("text")
    candidate: int = _field("whole")
    n_rows: int = _field("whole")
    format: str = _field("text")
    link: str = _field("text")
    intercept: float = _field("number")
    coefficients: Array = _field("vector")
    packed: NDArray[np.uint8] = _field("blob")

    def check(self) -> None:
        """Check that it holds exactly one model."""
        linear = self.format == "linear"
        self.must(linear or self.format == "skops", "format 'linear' or 'skops'")
        self.must((len(self.coefficients) > 0) == linear, "coefficients if and only if linear")
        self.must((len(self.packed) > 0) != linear, "a packed model if and only if not linear")
        self.must(self.link in ("identity", "logistic"), "link 'identity' or 'logistic'")


@dataclass(frozen=True, eq=False, repr=False)
class Refusal(Message):
    """A source's refusal: the rule's name, never a value."""

    name: ClassVar[str] = "refusal"

    source: str = _field("text")
    in_reply_to: str = _field("text")
    rule: str = _field("text")


@dataclass(frozen=True, eq=False, repr=False)
class BacktestReport(Message):
    """What a source says after it has played the target: how the promise turned out."""

    name: ClassVar[str] = "backtest-report"

    source: str = _field("text")
    realised: float = _field("number")
    standard_error: float = _field("number")
    reference: float = _field("number")

    def check(self) -> None:
        """Check that the error is not negative."""
        self.must(self.standard_error >= 0.0, "a standard error that is not negative")


MESSAGES: Mapping[str, type[Message]] = {
    cls.name: cls for cls in (Brief, RiskReport, ModelRequest, ModelReport, Refusal, BacktestReport)
}


def thaw(value: Any) -> Any:
    """Dictionaries and lists from the read-only mappings and tuples inside a message."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [thaw(item) for item in value]
    return value


def _checked(where: str, kind: Kind, value: Any) -> Any:
    if kind == "text":
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            raise MessageError(f"{where} must be a text of at most {MAX_TEXT} characters.")
        return value
    if kind == "flag":
        if not isinstance(value, bool):
            raise MessageError(f"{where} must be true or false.")
        return value
    if kind == "whole":
        if (
            isinstance(value, bool)
            or not isinstance(value, int | np.integer)
            or not 0 <= value < MAX_WHOLE
        ):
            raise MessageError(f"{where} must be a whole number from 0 up.")
        return int(value)
    if kind == "number":
        real = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
        if not real or not math.isfinite(value):
            raise MessageError(f"{where} must be a finite number.")
        return float(value)
    if kind == "plain":
        return _frozen(where, value, MAX_DEPTH)
    return _checked_array(where, kind, value)


def _checked_array(where: str, kind: Kind, value: Any) -> NDArray[Any]:
    dtype, ndim = (np.uint8, 1) if kind == "blob" else (np.float64, 2 if kind == "matrix" else 1)
    if not isinstance(value, np.ndarray) or value.dtype != dtype or value.ndim != ndim:
        raise MessageError(f"{where} must be an array of {ndim} dimension(s) of {dtype.__name__}.")
    if dtype is np.float64 and not np.isfinite(value).all():
        raise MessageError(f"{where} must be finite.")
    return read_only(np.ascontiguousarray(value))


def _frozen(where: str, value: Any, depth: int) -> Any:
    if depth == 0:
        raise MessageError(f"{where} must not be nested more than {MAX_DEPTH} levels deep.")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        if len(value) > 10 * MAX_TEXT:
            raise MessageError(f"{where} must hold texts of at most {10 * MAX_TEXT} characters.")
        return value
    if isinstance(value, int | float):
        if not math.isfinite(value) or (abs(value) >= MAX_WHOLE and isinstance(value, int)):
            raise MessageError(f"{where} must hold finite numbers.")
        return value
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) and len(key) <= MAX_TEXT for key in value):
            raise MessageError(f"{where} must have short texts as keys.")
        return MappingProxyType({k: _frozen(where, v, depth - 1) for k, v in value.items()})
    if isinstance(value, list | tuple):
        return tuple(_frozen(where, item, depth - 1) for item in value)
    raise MessageError(f"{where} must hold plain values only.")

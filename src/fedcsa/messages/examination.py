"""The two messages of the examination: the others' mixture, and how it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.messages.fields import Message, wire_field


@dataclass(frozen=True, eq=False, repr=False)
class Examination(Message):
    """The others' mixture, for one source to examine on its own weighted rows.

    Attributes
    ----------
    brief : str
        Digest of the brief whose weights are meant.
    candidate : int
        The chosen one.
    combine : str
        ``"mean"`` or ``"median"`` of the members' predictions.
    own_weight : float
        0, or the weight of the source's own model, for which its held-out predictions stand in:
        where most of the mixture is its own.
    weights, intercepts : array of shape (members,)
        With `own_weight` the weights sum to one. A mean of linear members is sent as one.
    coefficients : array of shape (members, features)
        Empty if the members are packed.
    format, link : str
        As in a `ModelReport`, the same for all members.
    sizes : array of shape (members,)
        Bytes of every packed member.
    packed : bytes
        The packed members, one after the other.
    constant : array
        The others' mean outcome, or their share of every class: what the mixture must beat.
    """

    name: ClassVar[str] = "examination"

    brief: str = wire_field("text")
    candidate: int = wire_field("whole")
    combine: str = wire_field("text")
    own_weight: float = wire_field("number")
    weights: Array = wire_field("vector")
    format: str = wire_field("text")
    link: str = wire_field("text")
    intercepts: Array = wire_field("vector")
    coefficients: Array = wire_field("matrix")
    sizes: Array = wire_field("vector")
    packed: NDArray[np.uint8] = wire_field("blob")
    constant: Array = wire_field("vector")

    def check(self) -> None:
        """Check that the members are whole and the weights sum to one."""
        n, linear = len(self.weights), self.format == "linear"
        self.must(linear or self.format == "skops", "format 'linear' or 'skops'")
        self.must(self.link in ("identity", "logistic"), "link 'identity' or 'logistic'")
        self.must(self.combine in ("mean", "median"), "combine 'mean' or 'median'")
        self.must(0.0 <= self.own_weight <= 1.0, "an own weight between 0 and 1")
        self.must((self.weights >= 0.0).all(), "weights that are not negative")
        total = float(self.weights.sum()) + self.own_weight
        self.must(abs(total - 1.0) < 1e-6, "weights that sum to one")
        self.must(len(self.intercepts) == (n if linear else 0), "an intercept a linear member")
        self.must(len(self.coefficients) == (n if linear else 0), "coefficients a linear member")
        self.must(len(self.sizes) == (0 if linear else n), "a size a packed member")
        whole = (self.sizes >= 1.0).all() and (self.sizes == np.floor(self.sizes)).all()
        self.must(whole and self.sizes.sum() == len(self.packed), "packed members of those sizes")
        self.must(len(self.constant) >= 1, "a constant to compare with")


@dataclass(frozen=True, eq=False, repr=False)
class ExaminationReport(Message):
    """How a mixture does on a source's weighted rows, with sampling variances.

    Attributes
    ----------
    reason : str
        ``""``, or why nothing could be estimated: then all numbers are 0.
    risk, risk_variance : float
        f = Σ w L, and the variance of log f.
    explained : float
        The part of the loss's variance that the table's functions of x explain, over f².
    constant_risk, ratio_variance : float
        Risk of the constant prediction, and the variance of log(f / constant's).
    level, level_variance : array
        How far outcomes lie above predictions: the mean residual in residual sds; for classes the
        log-odds of the observed share less those of the expected one, for every class but the
        first, or for all of three and more.
    """

    name: ClassVar[str] = "examination-report"

    source: str = wire_field("text")
    in_reply_to: str = wire_field("text")
    reason: str = wire_field("text")
    risk: float = wire_field("number")
    risk_variance: float = wire_field("number")
    explained: float = wire_field("number")
    constant_risk: float = wire_field("number")
    ratio_variance: float = wire_field("number")
    level: Array = wire_field("vector")
    level_variance: Array = wire_field("vector")

    def check(self) -> None:
        """Check that there is a reason or an estimate."""
        for name in ("risk_variance", "explained", "ratio_variance"):
            self.must(getattr(self, name) >= 0.0, f"a {name} that is not negative")
        self.must((self.level_variance >= 0.0).all(), "variances that are not negative")
        self.must(len(self.level) == len(self.level_variance), "a variance for every level")
        self.must(self.reason in REASONS, "a known reason")
        self.must((len(self.level) == 0) == bool(self.reason), "a reason or an estimate")


#: Why a source could not examine a mixture.
REASONS = ("", "outcomes_alike", "no_loss", "loss_not_positive")

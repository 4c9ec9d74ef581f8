"""The messages, and nothing else crosses between sites.

::

    target ──  Brief              ──►  source     the study, and the target's Table 1
    target ◄── RiskReport         ──   source     overlap, and two numbers per candidate
    target ──  MoreCandidates     ──►  source     in a search: the next candidates
    target ◄── RiskReport         ──   source     two numbers per candidate, of these
    target ──  ModelRequest       ──►  source     the chosen candidate
    target ◄── ModelReport        ──   source     one model
    target ──  Examination        ──►  source     the others' mixture
    target ◄── ExaminationReport  ──   source     how it does on the source's weighted rows
    target ◄── Refusal            ──   source     instead of a report: the rule that forbids it
    study  ◄── BacktestReport     ──   source     a few numbers, after it has played the target
    lead   ◄── Conclusion         ──   target     how the study ended, and no model

A message checks itself when it is made, on the sending and on the receiving side alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.core.losses import RiskMoments
from fedcsa.core.scores import ScoreDesign
from fedcsa.core.subgroups import MOST_THRESHOLDS, subgroup_problems
from fedcsa.core.table import Table1
from fedcsa.errors import DataError
from fedcsa.messages.fields import Message, is_form, wire_field
from fedcsa.models.description import GIVEN

#: Of everything that a message must have: whether it has it, and what it is, in words.
Rules: TypeAlias = Iterator[tuple[object, str]]


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
        where most of the mixture is its own. 1 if the column of predictions is judged that every
        site has.
    weights : array of shape (members,)
        With `own_weight` they sum to one.
    forms : sequence of mapping
        Form of every member, as in a `ModelReport`; or one for all, if there are several lines.
    arrays : mapping of str to array
        Those of all members, with the member's number before the name: ``"0.coefficients"``. If
        one form is for all, those have a row a member.
    constant : array
        The others' mean outcome, or their share of every class: what the mixture must beat.
    again : bool
        Whether this is the second examination of a study: models that were found useless in the
        first have left, and none has come.
    centre, unit : float
        In which scores of numbers are counted: (value − centre)/unit; 0 and 1 for classes.
    held : tuple, optional
        In one process only: the members, if one has no format of ours.
    """

    name: ClassVar[str] = "examination"

    brief: str = wire_field("text")
    candidate: int = wire_field("whole")
    combine: str = wire_field("text")
    own_weight: float = wire_field("number")
    weights: Array = wire_field("vector")
    forms: Sequence[Mapping[str, Any]] = wire_field("plain")
    arrays: Mapping[str, NDArray[Any]] = wire_field("arrays")
    constant: Array = wire_field("vector")
    again: bool = wire_field("flag")
    centre: float = wire_field("number", float)
    unit: float = wire_field("number", lambda: 1.0)
    held: tuple[Any, ...] = ()

    def must_have(self) -> Rules:
        """Whether the members are whole and the weights sum to one."""
        n = len(self.weights)
        yield self.combine in ("mean", "median"), "combine 'mean' or 'median'"
        yield 0.0 <= self.own_weight <= 1.0, "an own weight between 0 and 1"
        yield (self.weights >= 0.0).all(), "weights that are not negative"
        total = float(self.weights.sum()) + self.own_weight
        yield abs(total - 1.0) < 1e-6, "weights that sum to one"
        forms = len(self.forms) if isinstance(self.forms, tuple) else -1
        yield forms == n or forms == 1 < n, "one form per member, or one for all"
        yield len(self.held) in (0, n), "no object, or one per member"
        held = self.held or (None,) * n
        rows, owners = set(), set()
        for name, array in self.arrays.items():
            rows.add(array.shape[:-1])
            owners.add(name.partition(".")[0])
        whole = forms == n or (rows == {(n,)} and not self.held)
        yield whole, "one row per member where one form is for all"
        yield all(map(is_form, self.forms, held)), "members by their form"
        told = {str(k) for k in range(forms) if held[k] is None}
        yield owners == told, "arrays of every member, and no others"
        yield len(self.constant) >= 1, "a constant to compare with"
        yield self.unit > 0.0, "a positive unit"

    @property
    def together(self) -> dict[str, NDArray[Any]]:
        """Arrays with a row a member, where one form is for several; else none."""
        if len(self.forms) == len(self.weights):
            return {}
        return {name.partition(".")[2]: array for name, array in self.arrays.items()}

    @property
    def members(self) -> list[tuple[Mapping[str, Any], dict[str, NDArray[Any]]]]:
        """Form and arrays of every member."""
        together = self.together
        if together:
            rows = zip(*together.values(), strict=True)
            return [(self.forms[0], dict(zip(together, row, strict=True))) for row in rows]
        arrays: list[dict[str, NDArray[Any]]] = [{} for _ in self.forms]
        for name, array in self.arrays.items():
            owner, _, rest = name.partition(".")
            arrays[int(owner)][rest] = array
        return list(zip(self.forms, arrays, strict=True))


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
    member_risk, member_variance : array of shape (members,)
        Risk of every single member, and the variance of its log ratio to the constant's. They are
        told too if a member cannot predict the rows, so that the mixture fails.
    scores : array of shape (cells, 7)
        Outcomes by predicted score in agreed bins, see `fedcsa.core.scores.TABLE_COLUMNS`; none
        where the source keeps its table to itself.
    score_sums : array of shape (1 + subgroups, sums)
        Weighted sums over everybody and over every subgroup, see `ScoreDesign.sum_names`.
    measure_variance : array of shape (1 + 2 × subgroups, measures)
        Sampling variance of every measure of everybody, of every subgroup, and of the difference
        of every subgroup from the rest; −1 where there is none.
    residuals : array
        Of numbers: weighted shares of |outcome − prediction| in agreed bins, see
        `fedcsa.core.conformal`.
    """

    name: ClassVar[str] = "examination-report"

    source: str = wire_field("text")
    in_reply_to: str = wire_field("text")
    reason: str = wire_field("text", str)
    risk: float = wire_field("number", float)
    risk_variance: float = wire_field("number", float)
    explained: float = wire_field("number", float)
    constant_risk: float = wire_field("number", float)
    ratio_variance: float = wire_field("number", float)
    level: Array = wire_field("vector", lambda: np.empty(0))
    level_variance: Array = wire_field("vector", lambda: np.empty(0))
    member_risk: Array = wire_field("vector", lambda: np.empty(0))
    member_variance: Array = wire_field("vector", lambda: np.empty(0))
    scores: Array = wire_field("matrix", lambda: np.empty((0, 7)))
    score_sums: Array = wire_field("matrix", lambda: np.empty((0, 0)))
    measure_variance: Array = wire_field("matrix", lambda: np.empty((0, 0)))
    residuals: Array = wire_field("matrix", lambda: np.empty((0, 0)))

    def must_have(self) -> Rules:
        """Whether there is a reason or an estimate."""
        for name in ("risk_variance", "explained", "ratio_variance"):
            yield getattr(self, name) >= 0.0, f"{name!r} that is not negative"
        yield (self.level_variance >= 0.0).all(), "variances that are not negative"
        yield len(self.level) == len(self.level_variance), "a variance for every level"
        counts = len(self.member_risk), len(self.member_variance)
        yield counts[0] == counts[1], "a variance for every member"
        yield (self.member_variance >= 0.0).all(), "variances that are not negative"
        yield self.reason in REASONS, "a known reason"
        yield (len(self.level) == 0) == bool(self.reason), "a reason or an estimate"
        yield self.scores.shape[1] == 7, "seven numbers per cell of the score table"
        told = len(self.scores) > 0
        yield not (told and self.reason), "a reason or a score table"
        sizes = {len(self.score_sums) > 0, len(self.measure_variance) > 0}
        yield sizes == {told}, "sums and variances with a score table"


#: Why a source could not examine a mixture.
REASONS = ("", "outcomes_alike", "no_loss", "loss_not_positive", "mixture_failed")


#: How messages call the target, whatever its site is called.
TARGET = "target"
#: Rounding to a few digits may push a share or a count just over its bound.
SLACK = 1.05
#: Standardised differences beyond this are all equally hopeless; their squares must not overflow.
FARTHEST = 1e6
#: Squares of smaller numbers underflow, so a second moment may lack as much, as its root.
TINY = 1e-150


@dataclass(frozen=True, eq=False, repr=False)
class Brief(Message):
    """What the target announces: the study's design, and its Table 1.

    With ``exchange="rows"``, `rows` holds the target's rows themselves. With
    `moments`, sources send what the paper's formulas need besides.
    """

    name: ClassVar[str] = "brief"

    features: Sequence[str] = wire_field("plain")
    flags: Sequence[bool] = wire_field("plain")
    group: str = wire_field("text")
    classes: Sequence[Any] = wire_field("plain")
    model: Mapping[str, Any] = wire_field("plain")
    candidates: Sequence[Mapping[str, Any]] = wire_field("plain")
    loss: str = wire_field("text")
    scheme: str = wire_field("text")
    n_folds: int = wire_field("whole")
    shares: Array = wire_field("vector")
    refit: bool = wire_field("flag")
    scale: bool = wire_field("flag")
    moments: bool = wire_field("flag")
    seed: int = wire_field("whole")
    exchange: str = wire_field("text")
    ratio: Mapping[str, Any] = wire_field("plain")
    thresholds: Array = wire_field("vector")
    subgroups: Sequence[Mapping[str, Any]] = wire_field("plain")
    n_rows: int = wire_field("whole")
    mean: Array = wire_field("vector")
    sd: Array = wire_field("vector")
    correlations: Array = wire_field("matrix")
    rows: Array = wire_field("matrix")

    def must_have(self) -> Rules:
        """Whether the parts fit together."""
        for name in ("features", "flags", "classes", "candidates", "subgroups"):
            yield isinstance(getattr(self, name), tuple), f"{name} as a list"
        yield set(map(type, self.features)) <= {str}, "features that are texts"
        d = len(self.features)
        yield d >= 1 and len(set(self.features)) == d, "distinct features, at least one"
        yield self.group not in self.features, "a group that is not a feature"
        told = len(self.flags) == d and set(map(type, self.flags)) <= {bool}
        yield told, "a flag, true or false, per feature"
        yield len(set(map(repr, self.classes))) == len(self.classes), "distinct classes"
        yield isinstance(self.model, Mapping), "a model description"
        yield isinstance(self.ratio, Mapping), "options of the ratio by name"
        given = self.model.get("name") == GIVEN
        yield bool(self.candidates) != given, "candidates, unless the model is given"
        yield not (given and self.scale), "raw units for a given model"
        yield set(map(type, self.candidates)) <= {MappingProxyType}, "candidates by name"
        yield self.exchange in ("table", "rows"), "exchange 'table' or 'rows'"
        yield self.n_rows >= 2, "at least 2 target rows"
        yield len(self.mean) == d == len(self.sd), "one mean and one sd per feature"
        yield (self.sd > 0.0).all(), "positive standard deviations"
        yield len(self.shares) == 3, "three fold shares"
        sound = not (self.subgroups and subgroup_problems(self.subgroups, self.features))
        yield sound, "subgroups by a name, a feature, and a level or a cut"
        within = (self.thresholds > 0.0) & (self.thresholds < 1.0)
        yield within.all() and len(within) <= MOST_THRESHOLDS, "few thresholds between 0 and 1"
        by_rows = self.exchange == "rows"
        size = self.n_rows if by_rows else 0
        yield self.rows.shape == (size, d), "rows if and only if they are exchanged"
        squares = ((0, 0),) if by_rows else ((0, 0), (d, d))
        yield self.correlations.shape in squares, "correlations of its features, or none"
        if not by_rows:
            try:
                self.table  # noqa: B018 - made, and so checked
            except DataError:
                yield False, "a table that does not contradict itself"

    def score_bins(self, centre: float, unit: float) -> ScoreDesign:
        """How scores are counted in this study, in the units of an examination.

        Parameters
        ----------
        centre, unit : float
        """
        thresholds = tuple(self.thresholds.tolist())
        return ScoreDesign(len(self.classes), thresholds, len(self.subgroups), centre, unit)

    @cached_property
    def table(self) -> Table1:
        """The target's Table 1; it checks itself when it is made."""
        told = self.correlations if len(self.correlations) else None
        return Table1(
            self.n_rows, tuple(self.features), tuple(self.flags), self.mean, self.sd, told
        )


@dataclass(frozen=True, eq=False, repr=False)
class RiskReport(Message):
    """A source's answer to the brief: overlap, and two numbers per candidate.

    Attributes
    ----------
    n_rows, n_judged : int
        Rows of the source, and those on which models were judged.
    n_folds : int
        As asked, or fewer where outcomes are rare; 0 if no model could be judged.
    effective_rows, largest_share : float
        1/Σw² and max w of the weights w, which sum to one.
    difference_before, difference_after : array of shape (features,)
        Mean of z, plain and weighted: the difference from the target in its own units.
    outcome_mean : array
        Σ w y, or the weighted share of every class.
    outcome_sd : float
        Weighted standard deviation of an outcome of numbers; 0 for classes.
    correlations : array
        Weighted correlations of every pair of features, where the target does not tell its own.
    risk, variance : array of shape (candidates,)
        f = Σ w L on rows that the model has not seen, and its sampling variance.
    ratio_mean, ratio_m2, loss_mean, … : float, array of shape (candidates,)
        Moments for the paper's formulas; empty unless the brief asks for them.
    failed : mapping
        Candidates that could not be fitted here, with the name of the reason.
    findings : list
    """

    name: ClassVar[str] = "risk-report"

    source: str = wire_field("text")
    in_reply_to: str = wire_field("text")
    n_rows: int = wire_field("whole")
    n_judged: int = wire_field("whole")
    n_folds: int = wire_field("whole")
    effective_rows: float = wire_field("number")
    largest_share: float = wire_field("number")
    difference_before: Array = wire_field("vector")
    difference_after: Array = wire_field("vector")
    outcome_mean: Array = wire_field("vector")
    correlations: Array = wire_field("vector")
    risk: Array = wire_field("vector")
    variance: Array = wire_field("vector")
    ratio_mean: float = wire_field("number")
    ratio_m2: float = wire_field("number")
    loss_mean: Array = wire_field("vector")
    loss_m2: Array = wire_field("vector")
    product_mean: Array = wire_field("vector")
    product_m2: Array = wire_field("vector")
    co_moment: Array = wire_field("vector")
    failed: Mapping[str, str] = wire_field("plain")
    findings: Sequence[Mapping[str, Any]] = wire_field("plain")
    outcome_sd: float = wire_field("number", float)

    def must_have(self) -> Rules:
        """Whether the numbers do not contradict each other."""
        count = len(self.risk)  # 0 of a given model
        yield len(self.variance) == count, "the same number of candidates throughout"
        told = {len(getattr(self, name)) for name in _MOMENTS}
        yield len(told) == 1, "all moments or none"
        yield told <= {0, count}, "the same number of candidates throughout"
        features = len(self.difference_before)
        yield len(self.difference_after) == features >= 1, "the same features throughout"
        pairs = features * (features - 1) // 2
        yield len(self.correlations) in (0, pairs), "a correlation for every pair, or none"
        yield (np.abs(self.correlations) <= SLACK).all(), "correlations between -1 and 1"
        yield len(self.outcome_mean) >= 1, "a mean outcome"
        yield self.outcome_sd >= 0.0, "an outcome's sd that is not negative"
        yield 1 <= self.n_judged <= self.n_rows, "1 ≤ n_judged ≤ n_rows"
        yield isinstance(self.failed, Mapping), "failures by candidate"
        for key, reason in self.failed.items():
            whole = key.isdecimal() and len(key) < 12
            known = whole and int(key) < count and str(int(key)) == key  # "1", and not "01"
            yield known and isinstance(reason, str), "failures of known candidates"
        none = len(self.failed) == count
        yield (self.n_folds == 0) <= none, "folds, unless every candidate failed"
        yield isinstance(self.findings, tuple), "findings as a list"
        for item in self.findings:
            named = isinstance(item, Mapping) and set(item) == {"code", "evidence"}
            yield named and isinstance(item["code"], str), "findings as code and evidence"
            evidence = item["evidence"]
            yield isinstance(evidence, Mapping), "findings as code and evidence"
            plain = set(map(type, evidence.values())) <= {float, str}
            yield plain, "numbers and names as evidence"
        rows, share = self.effective_rows, self.largest_share
        for number in (self.ratio_mean, self.ratio_m2, rows, share):
            yield number >= 0.0, "ratio moments, rows and shares that are not negative"
        yield rows <= SLACK * self.n_judged, "effective rows ≤ n_judged"
        yield (rows == 0.0) == (share == 0.0), "all or no zero weights"
        if rows > 0.0:
            # Σw² ≤ max w ≤ √Σw², with Σw² = 1/ESS
            yield SLACK * share * rows >= 1.0, "a largest share of at least 1 / effective rows"
            most = SLACK / rows**0.5
            yield share <= most, "a largest share of at most 1 / √(effective rows)"
        for array in (self.variance, self.loss_m2, self.product_m2):
            yield (array >= 0.0).all(), "second moments that are not negative"
        bound = SLACK * (np.sqrt(self.product_m2) + TINY) * (np.sqrt(self.ratio_m2) + TINY)
        yield (np.abs(self.co_moment) <= bound).all(), "moments that obey Cauchy–Schwarz"

    @property
    def leverage(self) -> float:
        """The heaviest row's part of the variance of a weighted mean: max w²/Σw²."""
        return self.largest_share**2 * self.effective_rows

    @property
    def imbalance(self) -> float:
        """ι: mean over features of the squared standardised difference after weighting."""
        return float(np.mean(np.minimum(np.abs(self.difference_after), FARTHEST) ** 2))

    @property
    def moments(self) -> RiskMoments:
        """The moments as the arithmetic takes them; only where the brief asked for them."""
        return RiskMoments(
            self.n_judged, self.ratio_mean, self.ratio_m2, self.loss_mean, self.loss_m2,
            self.product_mean, self.product_m2, self.co_moment,
        )  # fmt: skip


#: Fields of a report that leave only if a study compares the paper's formulas.
_MOMENTS = ("loss_mean", "loss_m2", "product_mean", "product_m2", "co_moment")


@dataclass(frozen=True, eq=False, repr=False)
class MoreCandidates(Message):
    """The next candidates of a search; a source answers with a `RiskReport` on them.

    Attributes
    ----------
    brief : str
        Digest of the brief, whose candidates are the first round.
    round : int
        2, 3, … Candidates are numbered through all rounds.
    candidates : sequence of mapping
    """

    name: ClassVar[str] = "more-candidates"

    brief: str = wire_field("text")
    round: int = wire_field("whole")
    candidates: Sequence[Mapping[str, Any]] = wire_field("plain")

    def must_have(self) -> Rules:
        """Whether there are candidates, and of which round."""
        yield self.round >= 2, "a round after the brief's"
        listed = isinstance(self.candidates, tuple) and len(self.candidates) > 0
        yield listed, "candidates as a list, at least one"
        yield set(map(type, self.candidates)) <= {MappingProxyType}, "candidates by name"


@dataclass(frozen=True, eq=False, repr=False)
class ModelRequest(Message):
    """The target's choice: which candidate's model it wants, counted through all rounds."""

    name: ClassVar[str] = "model-request"

    brief: str = wire_field("text")
    candidate: int = wire_field("whole")


@dataclass(frozen=True, eq=False, repr=False)
class ModelReport(Message):
    """One fitted model in a format of our own.

    Attributes
    ----------
    candidate : int
        The one that was asked for.
    n_rows : int
        Rows that the model was fitted on.
    show : bool
        Whether the other sources may see it, to examine it.
    form : mapping
        Everything of the model but its numbers.
    arrays : mapping of str to array
        All its numbers.
    held : FittedModel, optional
        In one process only: a model that has no format of ours, as an object. Its form names its
        class, and the message has no bytes that could leave.
    """

    name: ClassVar[str] = "model-report"

    source: str = wire_field("text")
    in_reply_to: str = wire_field("text")
    candidate: int = wire_field("whole")
    n_rows: int = wire_field("whole")
    show: bool = wire_field("flag")
    form: Mapping[str, Any] = wire_field("plain")
    arrays: Mapping[str, NDArray[Any]] = wire_field("arrays")
    held: Any = None

    def must_have(self) -> Rules:
        """Whether it holds exactly one model."""
        yield is_form(self.form, self.held), "one model, by its form"
        yield (len(self.arrays) > 0) == (self.held is None), "the model's arrays, or an object"


#: The rule under which a source answers while nobody there has decided on the study.
WAITING = "waiting"


@dataclass(frozen=True, eq=False, repr=False)
class Refusal(Message):
    """A source's refusal: the rule's name, never a value.

    Under the rule `WAITING` it is no refusal for good: nobody there has decided on the study yet.
    `reason` is what a person there wrote beside a refusal and wants to be told.
    """

    name: ClassVar[str] = "refusal"

    source: str = wire_field("text")
    in_reply_to: str = wire_field("text")
    rule: str = wire_field("text")
    reason: str = wire_field("text", str)

    def must_have(self) -> Rules:
        """Whether a reason is one line that does no harm where it is shown."""
        yield self.reason.isprintable(), "a reason of printable characters"

    @property
    def waits(self) -> bool:
        """Whether the source may still answer, because nobody there has decided yet."""
        return self.rule == WAITING


@dataclass(frozen=True, eq=False, repr=False)
class BacktestReport(Message):
    """What a source says after it has played the target: how the promise turned out.

    `held_for` is the share of its rows whose interval or set held, by quarter of their distance
    from its centre, nearest first; empty if there was none.
    """

    name: ClassVar[str] = "backtest-report"

    source: str = wire_field("text")
    realised: float = wire_field("number")
    standard_error: float = wire_field("number")
    reference: float = wire_field("number")
    held_for: Array = wire_field("vector", lambda: np.empty(0))
    measures: Array = wire_field("matrix", lambda: np.empty((0, 5)))

    def must_have(self) -> Rules:
        """Whether the error is not negative, shares are shares, and ends are in order."""
        yield self.standard_error >= 0.0, "a standard error that is not negative"
        shares = (self.held_for >= 0.0) & (self.held_for <= 1.0)
        yield bool(shares.all()), "shares of rows between 0 and 1"
        yield self.measures.shape[1] == 5, "five numbers per measure"
        ordered = self.measures[:, 3] <= self.measures[:, 4]
        yield ordered.all(), "intervals with the lower end first"


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

    def must_have(self) -> Rules:
        """Whether every source has a text."""
        plain = isinstance(self.sources, Mapping)
        yield plain and set(map(type, self.sources.values())) <= {str}, "fates by name"


MESSAGES: Mapping[str, type[Message]] = {
    cls.name: cls
    for cls in (
        Brief, RiskReport, MoreCandidates, ModelRequest, ModelReport, Examination,
        ExaminationReport, Refusal, BacktestReport, Conclusion,
    )
}  # fmt: skip

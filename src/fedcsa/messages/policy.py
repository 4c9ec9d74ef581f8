"""A site's own rules: what it takes part in, and what it lets out.

The defaults are the controls that the privacy study found to matter; `Policy.open` switches
them off for simulations in which one person holds all the data anyway.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, Self, TypeVar

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.errors import MessageError, PolicyError, must
from fedcsa.messages.codec import digest, digest_of, written
from fedcsa.messages.fields import HELD, Message
from fedcsa.messages.messages import (
    BacktestReport,
    Brief,
    Examination,
    ExaminationReport,
    ModelReport,
    RiskReport,
)
from fedcsa.models.allowed import agreed_columns, agreed_rows_per_leaf, refused_before_fitting
from fedcsa.models.description import count_parameters, is_agreed_array

#: Rules whose refusal tells something about a source's rows. It leaves under one name for all of
#: them, so that a target cannot find out a source's sds or overlap by asking where each begins.
ROW_RULES = (
    "min_class_rows",
    "min_sd_share",
    "min_effective_rows",
    "max_row_share",
    "max_row_leverage",
)
ROW_FLOORS = "row_floors"
#: About a hundred years: a date so far back can still be written.
LONGEST_PERIOD = 36_500
AnyMessage = TypeVar("AnyMessage", bound=Message)


def _rule(default: Any, off: Any, *messages: type[Message]) -> Any:
    """A rule: its value at a site, the value that switches it off, the messages it bears on."""
    names = frozenset(message.name for message in messages)
    return field(default=default, metadata={"off": off, "messages": names})


#: By the type of a rule's default: the types of its values, and how to say so.
_VALUES: Mapping[type, tuple[Any, str]] = {
    bool: (bool, "True or False"),
    int: (int | np.integer, "a whole number"),
    float: (int | float | np.floating, "a number"),
    tuple: (list | tuple, "a list of names"),
}
#: The least and the most that a rule may be, and how to say so; one that may be off may be None.
_RANGES: Mapping[str, tuple[float, float, str]] = {
    "max_membership_auc": (0.5, 1.0, "between 0.5 and 1"),
    "count_band": (1, 1000, "between 1 and 1000"),
    "min_cell_rows": (1, 1000, "between 1 and 1000"),
    "max_briefs": (1, math.inf, "1 or more, or none"),
    "max_candidates": (1, math.inf, "1 or more, or none"),
    "max_tables": (1, math.inf, "1 or more, or none"),
    "period_days": (0, LONGEST_PERIOD, f"between 0 and {LONGEST_PERIOD}"),
    "significant_digits": (3, 17, "between 3 and 17, or none"),
}


@dataclass(frozen=True)
class Policy:
    """Rules of one site.

    Attributes
    ----------
    exchanges : tuple of str
        Kinds of exchange the site takes part in; ``"rows"`` must be allowed by name.
    models : tuple of str, "never" or None
        Names of models it fits (``"ridge"``, ``"sklearn.linear_model.Lasso"`` …), None for any.
        With ``"never"`` it judges and examines models, and none leaves it.
    portable_models : bool
        Whether to fit only models that have our own format: they leave with nothing but what a
        prediction needs. All others may carry rows.
    min_target_rows : int
        A target with fewer rows is refused: it could single out one patient.
    min_fold_rows : int
        Rows in the smallest of a source's folds.
    min_class_rows : int
        Rows of every class of the outcome that a source has any of: a model of fewer points at
        these patients.
    max_parameters_per_row : float
        Numbers that were fitted, per training row; above it, rows leak through the model.
    min_rows_per_leaf : int
        Rows in the smallest leaf of a tree: its value is the mean of their outcomes. Known cells
        behind the means of an imputer or a scaler that leave with the model, too.
    no_own_values : bool
        Whether a model stays that holds a cell, an outcome, or an array as long as the rows.
    min_sd_share : float
        Smallest sd of a number in the target's table, in the *source's* own: a narrower table
        picks out single rows.
    min_level_rows : int
        Of a target: a flag or level that fewer of its patients have counts as having none; they are
        counted with another level, see `fedcsa.core.table.merged_counts`.
    min_penalty : float
        Floor of the model's ``penalty``, beside the mean loss; a candidate that names none has 0.
    min_effective_rows : float
        A report in which fewer rows carry the weight does not leave: it would be about them.
    max_row_share : float
        A report does not leave if a single row carries more of the weight. If a row makes up more
        of the variance of a column, no correlations are told. A candidate's largest losses count
        alike, five of them at a fifth, so that none makes up more of its risk.
    max_row_leverage : float
        A report does not leave if a row makes up more of the variance of a weighted mean, alone or
        together with what the same target was told before: its outcome could be solved for. A
        row whose own outcome makes up more of a model's prediction for it, or of the variance of
        all outcomes, takes no part in that model. Models that point at a row more strongly are
        not examined.
    max_briefs : int or None
        Briefs that a source answers to one target within `period_days`, whatever the studies are
        called; one that it refuses counts too.
    max_candidates : int or None
        Candidates whose risk a source tells in one study, over all rounds of a search; a target
        asks for no more either.
    max_tables : int or None
        Different tables that a target tells of one cohort within `period_days`; the same numbers
        told again do not count.
    period_days : int
        Length of the period of `max_briefs` and `max_tables`; 0 counts nothing.
    min_changed_rows : int
        Of a target: rows of a cohort that must have changed since its last table before a new
        one is told; until then the last one's numbers are told again.
    min_changed_share : float
        The same as a share of its rows; the larger of the two counts.
    min_cell_rows : int
        Rows in the smallest cell of a score table or of a histogram of residuals; smaller ones are
        merged before it leaves. From 2 on, no row has more than half of a cell's squared weights,
        no cell holds the rarer outcome alone, and one table leaves per study: two of nearly the
        same predictions could be subtracted.
    max_membership_auc : float
        A model does not leave if an attacker can tell with a higher AUC who was in it: the
        AUC is what the site's own attacks reach, ½ is chance.
    show_model : bool
        If it is off, other sources do not see its model, which then has no weight in the mixture.
    count_band : int
        A source takes part with a multiple of so many rows, and leaves out the last few of its
        table: no number tells how many there are exactly.
    significant_digits : int or None
        Digits to which the numbers of a report are rounded.
    features : tuple of str or None
        Features a study may use, None for any.
    """

    exchanges: tuple[str, ...] = _rule(("table",), ("table", "rows"), Brief, RiskReport)
    models: tuple[str, ...] | Literal["never"] | None = _rule(None, None, RiskReport, ModelReport)
    portable_models: bool = _rule(True, False, RiskReport, ModelReport)
    # A table of fewer rows tells as much about one patient as about all; a brief has two or more.
    min_target_rows: int = _rule(20, 2, RiskReport)
    # Fewer do not carry a model and its risk.
    min_fold_rows: int = _rule(30, 0, RiskReport)
    # As for levels: of five patients' mean features none is a fifth of what is told.
    min_class_rows: int = _rule(5, 0, RiskReport)
    # Three rows a coefficient: with fewer, rows leak through the model.
    max_parameters_per_row: float = _rule(0.33, float("inf"), RiskReport, ModelReport)
    # The mean of fewer outcomes is about single patients.
    min_rows_per_leaf: int = _rule(10, 0, RiskReport, ModelReport)
    no_own_values: bool = _rule(True, False, ModelReport)
    # With the table's own floor, a patient cannot be pointed at.
    min_sd_share: float = _rule(0.3, 0.0, RiskReport)
    # As statistical offices ask for.
    min_level_rows: int = _rule(5, 0, Brief)
    # Off: the rows a coefficient needs already bound what it tells.
    min_penalty: float = _rule(0.0, 0.0, RiskReport, ModelReport)
    # Fewer do not reach a target anyway.
    min_effective_rows: float = _rule(10.0, 0.0, RiskReport)
    # No patient is a fifth of a report.
    max_row_share: float = _rule(0.2, 1.0, RiskReport)
    # Solving for a row's outcome is then no better than predicting it: the rest of the sum varies
    # by as much.
    max_row_leverage: float = _rule(0.5, float("inf"), RiskReport, ModelReport)
    # About two studies a month; thirty that differ by a thousandth would tell every outcome.
    max_briefs: int | None = _rule(5, None, RiskReport)
    # Three grids of ridge's own length. Every candidate is an equation about the same rows: their
    # number is bounded, also where the later ones are chosen by the earlier ones' answers.
    max_candidates: int | None = _rule(120, None, RiskReport)
    # A cohort that is frozen has one table; another set of columns is another.
    max_tables: int | None = _rule(3, None, Brief)
    # A quarter: studies of one season count together.
    period_days: int = _rule(90, 0, Brief, RiskReport)
    # The difference of two tables is then about twenty patients or more, and never about one.
    min_changed_rows: int = _rule(20, 0, Brief)
    # In a large cohort twenty patients would be known from the difference to a few digits.
    min_changed_share: float = _rule(0.1, 0.0, Brief)
    # As statistical offices ask for; the difference of two cells is as large.
    min_cell_rows: int = _rule(5, 1, ExaminationReport)
    # A guess that is right 6 times of 10; least squares with five rows a coefficient reaches it.
    max_membership_auc: float = _rule(0.6, 1.0, ModelReport)
    show_model: bool = _rule(True, True, ModelReport)
    # One patient more or less is not seen in a count.
    count_band: int = _rule(10, 1, RiskReport, ModelReport)
    # Enough to choose a candidate; further digits only help to solve for rows.
    significant_digits: int | None = _rule(
        4, None, RiskReport, ModelReport, ExaminationReport, BacktestReport
    )
    features: tuple[str, ...] | None = _rule(None, None, Brief, RiskReport)

    def __post_init__(self) -> None:
        for rule in dataclasses.fields(self):
            value = getattr(self, rule.name)
            kind = tuple if rule.default is None else type(rule.default)
            types, words = _VALUES[kind]
            sound = isinstance(value, types) and isinstance(value, bool) == (kind is bool)
            if sound and kind is tuple:
                sound = all(isinstance(name, str) for name in value)
            elif sound and kind is float:
                sound = not math.isnan(value)
            untold = value is None and None in (rule.default, rule.metadata["off"])
            text = rule.name in ("models", "exchanges") and isinstance(value, str)  # see below
            if not (untold or text or sound):
                raise must(rule.name, words, type(value).__name__)
        if not set(self.exchanges) <= {"table", "rows"}:
            raise must("exchanges", "made of 'table' and 'rows'", list(self.exchanges))
        if isinstance(self.models, str) and self.models != "never":
            raise must("models", "a list of names, 'never', or none", self.models)
        for name, (least, most, words) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise must(name, words, value)

    @classmethod
    def open(cls) -> Self:
        """No rule at all: for simulations, where all sites are in one pair of hands."""
        return cls(**{item.name: item.metadata["off"] for item in dataclasses.fields(cls)})

    @property
    def looks_at_models(self) -> bool:
        """Whether attacks are tried on a model before it leaves; where no rule needs them, not."""
        of_rows = self.no_own_values or self.min_rows_per_leaf > 0
        return of_rows or self.max_membership_auc < 1.0 or self.max_row_leverage < 1.0

    def refusals(
        self, brief: Brief, fold_rows: int, train_rows: int, sd: Array, class_rows: Array
    ) -> Iterator[PolicyError]:
        """Every rule under which a source must not answer `brief`.

        Parameters
        ----------
        brief : Brief
        fold_rows : int
            Rows in the smallest of the source's folds.
        train_rows : int
            Rows that its model is fitted on.
        sd : array of shape (features,)
            The source's own standard deviations.
        class_rows : array of shape (classes,)
            Its rows of every class of the outcome; none for numbers.
        """
        yield from self.announcement_refusals(brief)
        # Without candidates nothing is fitted, and no model leaves.
        looked_at = self.portable_models or self.min_rows_per_leaf or self.models is not None
        if brief.candidates and looked_at:
            yield from self._model_refusals(brief)
        few = (class_rows > 0) & (class_rows < self.min_class_rows)
        most = self.max_parameters_per_row * train_rows if brief.candidates else math.inf
        floor = self.min_penalty if brief.candidates else 0.0
        listed = math.inf if self.max_candidates is None else self.max_candidates
        for rule, broken, why in (
            ("min_target_rows", brief.n_rows < self.min_target_rows,
             f"the target must have {self.min_target_rows} rows or more"),
            ("min_fold_rows", fold_rows < self.min_fold_rows,
             f"every fold here must have {self.min_fold_rows} rows or more"),
            ("min_class_rows", few.any(),
             f"every class of the outcome must have {self.min_class_rows} rows here, or none"),
            ("max_parameters_per_row", most < math.inf and self._columns(brief) + 1 > most,
             "the model has too many parameters for the rows here"),
            ("min_penalty", floor > 0.0 and _weakest(brief, train_rows) < floor,
             "every candidate must have a larger penalty"),
            ("max_candidates", len(brief.candidates) > listed,
             f"a study here has at most {listed} candidates"),
            ("min_sd_share", narrow_features(brief, sd, self.min_sd_share),
             "the target's table is too narrow for the rows here"),
        ):  # fmt: skip
            if broken:
                yield _refusal(rule, why)

    def announcement_refusals(self, brief: Brief) -> Iterator[PolicyError]:
        """Every rule under which neither target nor source goes on with `brief`."""
        if brief.exchange not in self.exchanges:
            yield _refusal("exchanges", f"exchange {brief.exchange!r} is not allowed here")
        if self.features is None:
            return
        for column, flag in zip(brief.features, brief.flags, strict=True):
            # A level or the mark of a missing cell is a flag, NAME=…
            names = tuple(f"{name}=" for name in self.features)
            if column not in self.features and not (flag and column.startswith(names)):
                yield _refusal("features", f"{column[:100]!r} is not on this site's list")

    def _model_refusals(self, brief: Brief) -> Iterator[PolicyError]:
        model, candidates = brief.model, brief.candidates
        if self.models is not None and self.models != "never":
            for name in model_names((model, candidates)):
                if name not in self.models:
                    yield _refusal("models", f"the model {name[:100]!r} is not on this site's list")
        why = refused_before_fitting(model, candidates) if self.portable_models else ""
        if why:
            text = f"This site's policy refuses (portable_models): {why}"
            yield PolicyError("portable_models", text)
            return
        fewest = agreed_rows_per_leaf(model, candidates) if self.min_rows_per_leaf else None
        if fewest is not None and fewest < self.min_rows_per_leaf:
            least = f"{self.min_rows_per_leaf} rows or more per leaf"
            why = f"the study must ask for {least}, by min_samples_leaf"
            yield _refusal("min_rows_per_leaf", why)

    def _columns(self, brief: Brief) -> int:
        """Columns that the study's model has at least: its features, or what its steps make."""
        told, n_features = (brief.model, brief.candidates), len(brief.features)
        if not self.portable_models or refused_before_fitting(*told):
            return n_features
        return max(n_features, agreed_columns(*told, n_features))

    def release(self, message: AnyMessage) -> AnyMessage:
        """The message as it may leave, a report's numbers rounded; or a `PolicyError`."""
        if isinstance(message, RiskReport):
            if message.effective_rows < self.min_effective_rows:
                raise _refusal("min_effective_rows", "too few rows here resemble the target")
            if message.largest_share > self.max_row_share:
                raise _refusal("max_row_share", "a single row here would carry too much weight")
            self.check_leverage(message.leverage)
        if isinstance(message, ModelReport):
            if self.portable_models and message.is_held:
                raise _refusal("portable_models", "its model has no format of ours")
            most = self.max_parameters_per_row * message.n_rows
            if most < math.inf and count_parameters(message.arrays) > most:
                raise _refusal("max_parameters_per_row", "too many numbers for the rows here")
        if self.significant_digits is None or message.name not in _ROUNDED:
            return message
        rounded = {
            name: _rounded(kind, getattr(message, name), self.significant_digits)
            for name, kind in message.kinds.items()
            if kind in ("number", "vector", "matrix", "arrays")
        }
        return dataclasses.replace(message, **rounded)

    def check_leverage(self, leverage: float) -> None:
        """Raise a `PolicyError` if a single row makes up too much of what is told."""
        if leverage > self.max_row_leverage:
            why = "a single row here would make up too much of what the target is told"
            raise _refusal("max_row_leverage", why)

    def rules(self, message: Message) -> str:
        """The rules that `message` has passed, with their values; those switched off are not named.

        >>> from fedcsa.messages.messages import BacktestReport
        >>> Policy().rules(BacktestReport("study", "a", 1.0, 0.1, 1.0))
        'significant_digits 4'
        """
        passed = []
        for item in dataclasses.fields(self):
            value, rule = getattr(self, item.name), item.metadata
            if message.name in rule["messages"] and value != rule["off"]:
                words = "/".join(value) if isinstance(value, tuple) else value
                passed.append(f"{item.name} {words}")
        return ", ".join(passed)


_ROUNDED = Policy.__dataclass_fields__["significant_digits"].metadata["messages"]


def told_rule(rule: str) -> str:
    """The name under which a refusal by `rule` leaves a source.

    >>> told_rule("min_sd_share"), told_rule("one_brief")
    ('row_floors', 'one_brief')
    """
    return ROW_FLOORS if rule in ROW_RULES else rule


def _refusal(rule: str, why: str) -> PolicyError:
    return PolicyError(rule, f"This site's policy refuses ({rule}): {why}.")


def narrow_features(brief: Brief, sd: Array, share: float) -> int:
    """How many numbers of the target's table vary too little beside the source's own.

    Parameters
    ----------
    brief : Brief
    sd : array of shape (features,)
        The source's own standard deviations.
    share : float
        A told sd below this share of them is narrow.
    """
    if brief.exchange != "table":
        return 0
    numbers = ~np.array(brief.flags, dtype=bool)
    return int((numbers & (brief.sd < share * sd)).sum())


def _weakest(brief: Brief, train_rows: int) -> float:
    """The weakest penalty that a brief asks for, beside the mean loss."""
    asked = [candidate.get("penalty", 0.0) for candidate in brief.candidates]
    weakest = min(float(x) if isinstance(x, int | float) else 0.0 for x in asked)
    return weakest / train_rows if brief.model.get("penalty_scale") == "sklearn" else weakest


def model_names(description: object) -> list[str]:
    """Names of the model and of every estimator inside it, outermost first."""
    names: list[str] = []
    if hasattr(description, "items"):
        for key, value in description.items():
            if key == "inputs":  # whose names are the table's
                continue
            if key in ("name", "class") and isinstance(value, str) and value != "sklearn":
                # Under its public name: sklearn.svm._classes.SVR is sklearn.svm.SVR.
                names.append(".".join(p for p in value.split(".") if not p.startswith("_")))
            else:
                names += model_names(value)
    elif isinstance(description, list | tuple):
        for item in description:
            names += model_names(item)
    return names


def _rounded(kind: str, value: Any, digits: int) -> Any:
    """A number, an array, or the fitted arrays of a model; agreed ones and indices stay."""
    if kind == "arrays":
        found = {
            name: round_significant(array, digits)
            if array.dtype == np.float64 and not is_agreed_array(name)
            else array
            for name, array in value.items()
        }
        for name in (name for name in found if name.endswith(".shift")):
            # A mean far from 0 needs its digits in sds, or the scaled column would be another.
            sd = found[name.replace(".shift", ".scale")]
            found[name] = np.round(value[name] / sd, digits) * sd
        return found
    rounded = round_significant(np.asarray(value), digits)
    return float(rounded) if kind == "number" else rounded


def round_significant(values: Array, digits: int) -> Array:
    """Round to significant digits.

    >>> round_significant(np.array([0.0, 123456.0, -0.0012345678]), 4)
    array([ 0.000e+00,  1.235e+05, -1.235e-03])
    """
    # In decimal, not by a power of ten: 1e-310 must neither overflow nor vanish.
    flat = [float(f"{value:.{digits - 1}e}") for value in np.ravel(values).tolist()]
    return np.array(flat).reshape(values.shape)


Clock = Callable[[], datetime]
#: The time, in UTC.
utc_now: Clock = partial(datetime.now, UTC)


@dataclass(frozen=True)
class FieldRecord:
    """One field of a message that left: its name, shape, size and hash, never its content."""

    name: str
    shape: tuple[int, ...]
    n_bytes: int
    sha256: str

    @property
    def numbers(self) -> str:
        """How many numbers it holds, for people: ``"3 × 2"``, or ``"1"`` for a single value."""
        return " × ".join(map(str, self.shape)) or "1"


@dataclass(frozen=True)
class LedgerEntry:
    """One message that left `site`; `rules` are those of the site's policy that it passed."""

    site: str
    recipient: str
    message: str
    study: str
    n_bytes: int
    sha256: str
    time: str
    fields: tuple[FieldRecord, ...]
    rules: str = ""

    @property
    def n_numbers(self) -> int:
        """How many array elements and single values the message holds."""
        return sum(int(np.prod(item.shape)) for item in self.fields)

    def to_json(self) -> str:
        """One line of a ledger file."""
        return json.dumps(dataclasses.asdict(self), separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, line: str) -> LedgerEntry:
        """Read one line of a ledger file."""
        try:
            return cls.from_plain(json.loads(line))
        except (ValueError, TypeError, KeyError, RecursionError):
            raise MessageError(
                "A line of this ledger is not as fedcsa wrote it. Restore it from a backup."
            ) from None

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> LedgerEntry:
        """Read the plain values of an entry."""
        fields = [{**item, "shape": tuple(item["shape"])} for item in content["fields"]]
        return cls(**{**content, "fields": tuple(FieldRecord(**item) for item in fields)})


def entries_of(
    message: Message, site: str, recipients: Iterable[str], rules: str = "", clock: Clock = utc_now
) -> list[LedgerEntry]:
    """One entry per recipient for a message that is about to leave `site`.

    Parameters
    ----------
    message : Message
    site : str
        Who sends.
    recipients : iterable of str
    rules : str
        The rules of the site's policy that the message passed.
    clock : function, optional
    """
    wire, parts = written(message)
    sha256 = digest_of(message, wire)
    records = [FieldRecord(name, shape, len(part), digest(part)) for name, shape, part in parts]
    if isinstance(message, ModelReport | Examination):  # objects that they hand over, by class
        for form in message.forms if isinstance(message, Examination) else (message.form,):
            if form["kind"] == HELD:
                records.append(FieldRecord(f"held.{form['class']}", (), 0, ""))
    fields = tuple(records)  # one for all recipients
    return [
        LedgerEntry(
            site=site,
            recipient=recipient,
            message=message.name,
            study=message.study,
            n_bytes=len(wire),
            sha256=sha256,
            time=clock().isoformat(timespec="milliseconds"),
            fields=fields,
            rules=rules,
        )
        for recipient in recipients
    ]


@dataclass
class Ledger:
    """The one way out of a role: policy first, then an entry, then the message leaves.

    Attributes
    ----------
    site : str
    policy : Policy
        What may leave, and how it is rounded.
    clock : function
    entries : list of LedgerEntry
        In the order in which messages left.
    """

    site: str
    policy: Policy
    clock: Clock = utc_now
    entries: list[LedgerEntry] = field(default_factory=list)

    def release(self, message: AnyMessage, recipients: Iterable[str]) -> AnyMessage:
        """The message as it may leave for each of `recipients`."""
        allowed = self.policy.release(message)
        rules = self.policy.rules(allowed)
        self.entries += entries_of(allowed, self.site, recipients, rules, self.clock)
        return allowed

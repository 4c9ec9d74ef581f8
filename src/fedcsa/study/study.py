"""A study as one file: study.toml ⇄ a frozen dataclass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.core.batches import Batches
from fedcsa.core.folds import dealt_labels, generator_for
from fedcsa.core.table import Table1
from fedcsa.core.weights import MEDIAN_SOURCES
from fedcsa.data.coding import Coding
from fedcsa.data.columns import Feature, Outcome
from fedcsa.data.databases import Query
from fedcsa.data.streams import TableStream
from fedcsa.data.table1 import read_table1
from fedcsa.data.tables import TableFile
from fedcsa.errors import FedCSAError, ParameterError, StudyError, must, unknown
from fedcsa.messages.fields import thaw
from fedcsa.messages.messages import TARGET, Brief
from fedcsa.messages.policy import Policy
from fedcsa.models.registry import default_candidates
from fedcsa.plan import Plan, check_loss, check_weights_of
from fedcsa.source.source import Source
from fedcsa.study.model_section import check_model, describe_model, list_candidates
from fedcsa.study.sections import build_policy
from fedcsa.study.source_section import SourceTable, check_sources, database_of
from fedcsa.study.study_file import check_options, read_study, write_study
from fedcsa.target.target import Target

Value = TypeVar("Value")
#: What a study says in its own words, or what follows from it; all else in a plan is an option.
_DERIVED = ("study", "features", "flags", "group", "public_sd", "classes", "model", "candidates")
_FIELDS = {item.name: item for item in fields(Plan) if item.name not in _DERIVED}
#: name -> annotation. These and the defaults are said once, in the plan.
_OPTIONS = {name: str(item.type) for name, item in _FIELDS.items()}
_LOSS_OF_CLASSES = "brier"


@dataclass(frozen=True)
class Study:
    """Everything that a study fixes, and where the tables of its simulation are.

    Attributes
    ----------
    name : str
    features : tuple of Feature
    outcome : Outcome
    model : mapping
        As in the section ``[model]``.
    target : str
        Path of the target's table; empty if `table1` stands for it.
    sources : mapping of str to str or mapping
        Path of every source's table; or its ``database`` and ``query``; or its ``adbc``, ``uri``
        and ``query``, as in the section ``[sources]``.
    candidates : mapping, list of mappings, or None
        As in the section ``[candidates]``; None for those of the model.
    options : mapping
        Of the plan, by the names of its fields: ``seed``, ``method``, ``loss``, ``ratio`` …
        What is left out is as in `Plan`, save that classes are judged by the Brier loss.
    missing_values : tuple of str
        Spellings of a missing cell, beside the usual ones.
    policy_rules : mapping
        As in the section ``[policy]``.
    table1 : str
        Path of a Table 1 of the target, if there are no rows of it here.
    folder : Path
        What relative paths start from.
    """

    name: str
    features: tuple[Feature, ...]
    outcome: Outcome
    model: Mapping[str, Any]
    target: str
    sources: Mapping[str, SourceTable]
    candidates: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    missing_values: tuple[str, ...] = ()
    policy_rules: Mapping[str, Any] = field(default_factory=dict)
    table1: str = ""
    folder: Path = field(default=Path(), compare=False)

    def __post_init__(self) -> None:
        # Plain values, so that a study equals the one that is read from what it writes.
        for name in ("model", "sources", "candidates", "options", "policy_rules"):
            object.__setattr__(self, name, thaw(getattr(self, name)))
        for name in ("features", "missing_values"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.name:
            raise must("name", "a text that is not empty", self.name)
        if not self.sources or TARGET in self.sources:
            raise must("sources", f"at least one, and none named {TARGET!r}", [*self.sources])
        if bool(self.target) == bool(self.table1):
            raise must("target", "the path of a table, or empty beside a 'table1'", "both or none")
        check_sources(self.sources)
        check_options(self.options, _OPTIONS)
        in_order = {name: self.options[name] for name in _OPTIONS if name in self.options}
        object.__setattr__(self, "options", in_order)
        object.__setattr__(self, "folder", Path(self.folder))
        Coding(self.features, self.outcome)

    # The file -------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a study file; the paths in it are relative to its folder."""
        path = Path(path)
        try:
            text = path.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise StudyError(
                f"{path.name}: a study file must be text in UTF-8; it is not. Save it as UTF-8."
            ) from None
        except OSError as error:
            raise StudyError(
                f"The study file {str(path)!r} must be there and open to reading; "
                f"it is not ({type(error).__name__}). Check the path; "
                "an example is written by: fedcsa demo --out DIR"
            ) from None
        return cls.parse(text, folder=path.parent, origin=path.name)

    @classmethod
    def parse(cls, text: str, *, folder: str | Path = "", origin: str = "study.toml") -> Self:
        """Read the text of a study file.

        Raises
        ------
        StudyError
            With one line for every unknown key and every value of the wrong type.
        """
        values = read_study(text, origin, _OPTIONS)
        try:
            return cls(**values, folder=Path(folder))
        except ParameterError as error:
            raise StudyError(f"{origin}: {error}") from None

    def to_toml(self) -> str:
        """The text of a study file that `parse` reads as this study."""
        return write_study({item.name: getattr(self, item.name) for item in fields(self)})

    # What it means --------------------------------------------------------------------------

    @property
    def coding(self) -> Coding:
        """How every site turns its table into a matrix and outcomes."""
        return Coding(self.features, self.outcome, self.missing_values)

    def plan(self) -> Plan:
        """The design that the target announces."""
        model = describe_model(self.model)
        options = self._plan_options()
        check_weights_of(options["fedle_weights"], self.sources)
        if self.candidates is None:
            candidates = default_candidates(model, options["method"])
        else:
            candidates = list_candidates(model["name"], self.candidates)
        return Plan(model=model, candidates=candidates, **options)

    def policy(self) -> Policy:
        """The rules of every site of this simulation."""
        return build_policy(self.policy_rules)

    def read_target(self) -> Array:
        """The target's rows; columns of outcomes or groups, if there are any, are not read."""
        if not self.target:
            raise StudyError(
                "The target of this study must be a table of rows for that; it is a Table 1. "
                'Name its rows in [target] with table = "…".'
            )
        return self._read(TableFile(self.folder / self.target), "the target", False)[0]

    def read_target_table(self) -> Table1:
        """The target's Table 1: of its rows, or as typed in."""
        coding = self.coding
        if self.table1:
            return read_table1(self.folder / self.table1, coding)
        return Table1.of(self.read_target(), coding.columns, coding.flags, coding.public_sd)

    def read_told(self) -> Array | Table1:
        """What the target takes part with: its rows, or its Table 1 where there are none."""
        return self.read_target_table() if self.table1 else self.read_target()

    def read_source(self, name: str) -> tuple[Array, NDArray[Any]]:
        """Rows and outcomes of the source `name`; the group, if any, is the rows' last column."""
        X, y = self._read(self._table_of(name), f"source {name!r}", True, with_group=True)
        return X, np.asarray(y)

    def stream_source(self, name: str) -> Batches:
        """Rows and outcomes of the source `name` in batches, read anew for every pass.

        Classes are given by their positions in the agreed order.
        """
        return TableStream(self._table_of(name), self.coding, where=f"source {name!r}")

    def read_rows(self, path: str | Path) -> Array:
        """Rows of any further table, for predictions; its path is taken as it is."""
        where = f"the table {str(path)!r}"
        return self._read(TableFile(Path(path).absolute()), where, False)[0]

    def read_outcomes(self, path: str | Path) -> tuple[Array, NDArray[Any]]:
        """Rows and outcomes of any further table; its path is taken as it is."""
        where = f"the table {str(path)!r}"
        X, y = self._read(TableFile(Path(path).absolute()), where, True)
        return X, np.asarray(y)

    def problems(self, trusted_types: Collection[str] = ()) -> list[str]:
        """Everything that would go wrong, found without fitting anything.

        Parameters
        ----------
        trusted_types : collection of str
            Classes outside scikit-learn that the model may use.
        """
        found: list[str] = []
        plan = _checked_plan(self, trusted_types, found)
        policy = _attempt(found, self.policy)
        told = _attempt(found, self.read_told)
        brief = None
        if plan is not None and policy is not None and told is not None:
            brief = _checked_brief(told, plan, policy, trusted_types, found)
        for name in self.sources:
            rows = _attempt(found, partial(self.read_source, name))
            if rows is not None:
                make = partial(Source, name, *rows, features=self.coding.matrix_columns)
                _check_source(name, rows[1], plan, brief, make, policy, found)
        return list(dict.fromkeys(found))

    def _plan_options(self) -> dict[str, Any]:
        """What a plan takes besides the model and its candidates."""
        options = {
            name: value
            for name, item in _FIELDS.items()
            if (value := self.options.get(name, item.default)) is not MISSING
        }
        if self.outcome.levels and "loss" not in self.options:
            options["loss"] = _LOSS_OF_CLASSES
        if isinstance(options["folds"], list):
            options["folds"] = tuple(options["folds"])
        coding = self.coding
        return {
            **options,
            "study": self.name,
            "features": coding.columns,
            "flags": coding.flags,
            "group": coding.group,
            "public_sd": coding.public_sd,
            "classes": self.outcome.levels,
        }

    def _table_of(self, name: str) -> TableFile | Query:
        if name not in self.sources:
            raise StudyError(unknown("source", name, self.sources))
        table = self.sources[name]
        if isinstance(table, str):
            return TableFile(self.folder / table)
        return Query(database_of(table, self.folder), table["query"], f"source {name!r}")

    def _read(
        self, table: TableFile | Query, where: str, with_outcome: bool, *, with_group: bool = False
    ) -> tuple[Array, NDArray[Any] | None]:
        coding, wanted = self.coding, {"with_outcome": with_outcome, "with_group": with_group}
        return coding.encode(table.read(coding.needed(**wanted)), where, **wanted)


# Looking ahead ------------------------------------------------------------------------------


def _attempt(found: list[str], action: Callable[[], Value], where: str = "") -> Value | None:
    """What `action` returns, or None and its complaints, a line each."""
    try:
        return action()
    except FedCSAError as error:
        found += [where + line for line in str(error).splitlines()]
        return None


def _checked_plan(study: Study, trusted: Collection[str], found: list[str]) -> Plan | None:
    before = len(found)
    options = study._plan_options()
    model = _attempt(found, partial(describe_model, study.model))
    name = str((model or {}).get("name"))
    candidates = _attempt(found, partial(list_candidates, name, study.candidates))
    n_classes = len(study.outcome.levels)
    found += _option_problems({**options, "model": {}, "candidates": ()})
    _attempt(found, partial(check_loss, options["loss"], n_classes))
    weights = options["fedle_weights"]
    if weights is not None and set(weights) != set(study.sources):
        found.append("[fedle_weights] must name every source of the study, and no other.")
    if options["combine"] == "median" and len(study.sources) < MEDIAN_SOURCES:
        few = f"'mean' with fewer than {MEDIAN_SOURCES} sources"
        found.append(str(must("combine", few, "median")))
    if model is not None:
        check = partial(check_model, model, candidates or (), n_classes, trusted)
        _attempt(found, check, "[model] ")
    return study.plan() if len(found) == before else None


def _option_problems(options: Mapping[str, Any]) -> list[str]:
    """All that a plan complains about, found by leaving out what it complained of before."""

    def complaint(kept: Mapping[str, Any]) -> str:
        found: list[str] = []
        _attempt(found, partial(Plan, **kept))
        return found[0] if found else ""

    # Later options depend on earlier ones; what a method or an exchange needs goes with it.
    together = {"method": ("method", "fedle_weights"), "exchange": ("exchange", "ratio")}
    droppable = [together.get(name, (name,)) for name in reversed(_OPTIONS)]
    found: list[str] = []
    kept = dict(options)
    while text := complaint(kept):
        found.append(text)
        fewer = ({n: v for n, v in kept.items() if n not in names} for names in droppable)
        kept = next((trial for trial in fewer if complaint(trial) != text), {})
        if not kept:
            break
    return found


def _checked_brief(
    told: Array | Table1, plan: Plan, policy: Policy, trusted: Collection[str], found: list[str]
) -> Brief | None:
    """What the target would announce; nobody is told."""

    def announce() -> Brief:
        return Target(told, plan, policy=policy, trusted_types=trusted).brief([])

    return _attempt(found, announce, "The target: ")


def _check_source(
    name: str,
    y: NDArray[Any],
    plan: Plan | None,
    brief: Brief | None,
    make: Callable[..., Source],
    policy: Policy | None,
    found: list[str],
) -> None:
    """Whether a source with outcomes `y`, as `make` makes it, would take part."""
    where = f"Source {name!r}: "
    by_rows = plan is not None and plan.exchange == "rows"
    if by_rows and (y == y[0]).all():
        found.append(f"{where}The outcome must vary; it is the same in all {len(y)} rows.")
    if plan is not None and plan.scheme != "cross-fit":
        rng = generator_for(plan.seed, name, "folds")
        deal = partial(dealt_labels, len(y), str(plan.scheme), rng, plan.shares)
        _attempt(found, deal, where)
    source = _attempt(found, partial(make, policy=policy))
    if source is not None and brief is not None:
        refused = _attempt(found, partial(source.refusals, brief))
        found += [f"{where}{refusal}" for refusal in refused or ()]

"""A study as one file: study.toml ⇄ a frozen dataclass."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.core.batches import Batches
from fedcsa.core.folds import dealt_labels, generator_for
from fedcsa.core.subgroups import unknown_levels
from fedcsa.core.table import Table1
from fedcsa.data.coding import Columns, numbers_of
from fedcsa.data.columns import Feature, Outcome, alone_with_classes
from fedcsa.data.streams import DecodedOnce, RowStream, TableStream, read_rows
from fedcsa.data.table1 import read_table1
from fedcsa.data.table_file import FILE_KINDS, AnyTable
from fedcsa.data.tables import Where, open_table, words_of
from fedcsa.errors import ParameterError, StudyError, gathered, must, raise_all, unknown
from fedcsa.messages.messages import TARGET, Brief
from fedcsa.messages.policy import Policy
from fedcsa.models.description import thaw
from fedcsa.models.fitted import FittedModel
from fedcsa.option_rules import is_value, preset_values
from fedcsa.plan import OPTIONS, Plan, make_plan
from fedcsa.run import InProcess, Progress, run_study
from fedcsa.source.source import Source
from fedcsa.study.kept_answers import KeptAnswers
from fedcsa.study.model_section import (
    describe_given,
    describe_model,
    is_given,
    model_of_section,
    with_files,
)
from fedcsa.study.study_file import (
    SourceTable,
    build_policy,
    check_sources,
    plain_table,
    read_study,
    write_study,
)
from fedcsa.study.toml import read_text

if TYPE_CHECKING:
    from fedcsa.target.adaptation import Adaptation


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
    target : str or mapping
        Path of the target's table, or what else a source's can be; empty if `table1` stands for
        it.
    sources : mapping of str to str or mapping
        Path of every source's table; or ``table`` and ``sheet``, or ``database`` and ``query``,
        as in the section ``[sources]``.
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
    target_predictions : str
        The target's own column of predictions, if such a column is judged and it has one.
    folder : Path
        What relative paths start from.
    """

    name: str
    features: tuple[Feature, ...]
    outcome: Outcome
    model: Mapping[str, Any]
    target: SourceTable
    sources: Mapping[str, SourceTable]
    candidates: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    missing_values: tuple[str, ...] = ()
    policy_rules: Mapping[str, Any] = field(default_factory=dict)
    table1: str = ""
    target_predictions: str = ""
    folder: Path = field(default=Path(), compare=False)

    def __post_init__(self) -> None:
        # Plain values, so that a study equals the one that is read from what it writes.
        for name in ("model", "target", "sources", "candidates", "options", "policy_rules"):
            object.__setattr__(self, name, thaw(getattr(self, name)))
        for name in ("features", "missing_values"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.name:
            raise must("name", "a text that is not empty", self.name)
        if not self.sources or TARGET in self.sources:
            raise must("sources", f"at least one, and none named {TARGET!r}", [*self.sources])
        if bool(self.target) == bool(self.table1):
            raise must("target", "the path of a table, or empty beside a 'table1'", "both or none")
        if self.table1 and self.target_predictions:
            wanted = "left out beside a 'table1', which has no rows to predict"
            raise must("target_predictions", wanted, self.target_predictions)
        check_sources(self.sources)
        paths = {name: plain_table(table) for name, table in self.sources.items()}
        object.__setattr__(self, "sources", paths)
        raise_all([unknown("option", n, OPTIONS) for n in self.options if n not in OPTIONS])
        raise_all(_written_out(self.options))
        in_order = {name: self.options[name] for name in OPTIONS if name in self.options}
        object.__setattr__(self, "options", in_order)
        object.__setattr__(self, "folder", Path(self.folder))
        Columns(self.features, self.outcome)

    # The file -------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a study file; the paths in it are relative to its folder."""
        path, advice = Path(path), "Write one with: fedcsa study init"
        try:
            text = read_text(path, "study file", f"Check the path. {advice}")
            return cls.parse(text, folder=path.parent, origin=path.name)
        except StudyError as error:
            if not path.is_file() or not path.name.lower().endswith(FILE_KINDS):
                raise
            told = f"{error} This looks like a table, not a study file. {advice}"
            raise StudyError(told) from None

    @classmethod
    def parse(cls, text: str, *, folder: str | Path = "", origin: str = "study.toml") -> Self:
        """Read the text of a study file.

        Raises
        ------
        StudyError
            With one line for every unknown key and every value of the wrong type.
        """
        values = read_study(text, origin)
        try:
            study = cls(**values, folder=Path(folder))
            if not is_given(study.model):
                return study
            return replace(study, model=with_files(study.model, study.folder, study.coding))
        except ParameterError as error:
            raise StudyError(f"{origin}: {error}") from None

    def to_toml(self) -> str:
        """The text of a study file that `parse` reads as this study."""
        return write_study({item.name: getattr(self, item.name) for item in fields(self)})

    # What it means --------------------------------------------------------------------------

    @property
    def coding(self) -> Columns:
        """How every site turns its table into a matrix and outcomes."""
        column = self.model.get("column", "") if is_given(self.model) else ""
        return Columns(self.features, self.outcome, self.missing_values, column)

    @property
    def target_columns(self) -> Columns:
        """The coding under the target's own name of the column of predictions."""
        return self._coding_under(self.target_predictions)

    def plan(self, trusted_types: Collection[str] = (), *, build: bool = False) -> Plan:
        """The design that the target announces, or one error with one line per problem.

        Parameters
        ----------
        trusted_types : collection of str
            Classes outside scikit-learn that the model may use.
        build : bool
            Build the model as well, to see whether this site can.
        """
        coding = self.coding
        model = describe_model(self.model)
        if is_given(self.model):
            model = describe_given(self.model, self.folder, coding)
        plan = make_plan(
            model,
            self.candidates,
            self.options,
            trusted=trusted_types,
            build=build,
            inputs=coding.inputs,
            study=self.name,
            features=coding.columns,
            flags=coding.flags,
            group=coding.group,
            public_sd=coding.public_sd,
            classes=self.outcome.levels,
        )
        strange = unknown_levels(plan.subgroups, coding.levels)
        raise_all([*plan.source_problems(self.sources), *strange])
        return plan

    def policy(self) -> Policy:
        """The rules of every site of this simulation."""
        return build_policy(self.policy_rules)

    def read_target(self) -> Array:
        """The target's rows; columns of outcomes or groups, if there are any, are not read."""
        return read_rows(self._target_table(), self.coding, "the target", with_outcome=False)[0]

    def stream_target(self) -> RowStream:
        """The target's rows in batches, read anew for every pass."""
        stream = TableStream(
            self._target_table(), self.coding, where="the target", with_outcome=False
        )
        return RowStream(stream)

    def read_target_table(self) -> Table1:
        """The target's Table 1: of its rows, or as typed in."""
        coding = self.coding
        if self.table1:
            return read_table1(self.folder / self.table1, coding)
        rows, fewest = self.read_target(), self.policy().min_level_rows
        return Table1.of(rows, coding.columns, coding.flags, coding.public_sd, fewest)

    def _target_table(self) -> AnyTable:
        if not self.target:
            raise StudyError(
                "The target of this study must be a table of rows for that; it is a Table 1. "
                'Name its rows in [target] with table = "…".'
            )
        return open_table(self.target, folder=self.folder, whose="the target")

    def read_told(self) -> Array | Table1:
        """What the target takes part with: its rows, or its Table 1 where there are none."""
        return self.read_target_table() if self.table1 else self.read_target()

    def read_source(self, name: str) -> tuple[Array, NDArray[Any]]:
        """Rows and outcomes of the source `name`; the group, if any, is the rows' last column."""
        coding, where = self._coding_of(name), f"source {name!r}"
        X, y = read_rows(self._table_of(name), coding, where, with_outcome=True)
        return X, self.outcome.labelled(y)

    def _coding_of(self, name: str) -> Columns:
        """The coding under the source's own name of the column of predictions."""
        return self._coding_under(self._predictions_of(name))

    def _predictions_of(self, name: str) -> str:
        table = self.sources.get(name)
        return table.get("predictions", "") if isinstance(table, Mapping) else ""

    def _coding_under(self, own: str) -> Columns:
        """The coding, where a site calls the column of predictions otherwise."""
        coding = self.coding
        return replace(coding, predictions=own) if own and coding.predictions else coding

    def given(self) -> FittedModel | Array | None:
        """The given model, or the target's own column of predictions; None without either."""
        if not is_given(self.model):
            return None
        if "column" not in self.model:
            return model_of_section(self.model, self.folder, self.coding)
        if not self.target or not self.target_predictions:
            return None
        column = self.target_predictions
        table = self._target_table().read([column])
        return numbers_of(table, column, "the target", self.missing_values)

    def stream_source(self, name: str) -> Batches:
        """Rows and outcomes of the source `name` in batches, read anew for every pass.

        Classes are given by their positions in the agreed order. A file that is not large is
        decoded only once.
        """
        table, coding, columns = self._table_of(name), self._coding_of(name), self.coding
        return DecodedOnce(
            TableStream(table, coding, where=f"source {name!r}", columns=columns.matrix_columns)
        )

    def read_rows(self, where: Where) -> Array:
        """Rows of any further table, for predictions; its path is taken as it is."""
        return read_rows(open_table(where), self.coding, words_of(where), with_outcome=False)[0]

    # What becomes of it ---------------------------------------------------------------------

    def run(
        self,
        *,
        trusted_types: Collection[str] = (),
        stream: bool = False,
        progress: Progress | None = None,
        kept: Path | None = None,
    ) -> Adaptation:
        """Run the study in this process; all its tables are on this machine.

        Parameters
        ----------
        trusted_types : collection of str
            Types outside scikit-learn that a model may hold.
        stream : bool
            Read all tables in batches and never hold them.
        progress : function, optional
            Called with the phase, the source and "started" or "done": see `fedcsa.run.Progress`.
        kept : Path, optional
            Folder for the answers of a search so far: if that is interrupted, it goes on there.

        Raises
        ------
        NoOverlapError, NoSourcesError, CandidatesError
            If there is no model; what is left of the study is the error's ``adaptation``.
        """
        from fedcsa.target.adaptation import WITHOUT_MODEL
        from fedcsa.target.target import Target  # a source reads a study without it

        plan, policy = self.plan(trusted_types), self.policy()
        sources = [
            self._source(name, policy, trusted_types, stream=stream) for name in self.sources
        ]
        told = self.stream_target() if stream and not self.table1 else self.read_told()
        given, columns = self.given(), self.target_columns
        target = Target(told, plan, policy=policy, trusted_types=trusted_types, given=given)
        ask = KeptAnswers(kept).answer if kept and plan.space else None
        courier = InProcess(sources, progress, ask)
        try:
            return replace(run_study(target, courier), described=columns)
        except WITHOUT_MODEL as error:
            left = target.without_model(error.rule, str(error))
            ledgers = {source.name: tuple(source.ledger.entries) for source in sources}
            error.adaptation = replace(left, ledgers={**left.ledgers, **ledgers}, described=columns)
            raise

    def problems(self, trusted_types: Collection[str] = ()) -> list[str]:
        """Everything that would go wrong, found without fitting anything.

        Parameters
        ----------
        trusted_types : collection of str
            Classes outside scikit-learn that the model may use.
        """
        return self.check(trusted_types)[0]

    def check(self, trusted_types: Collection[str] = ()) -> tuple[list[str], list[str]]:
        """The `problems`, and warnings: other units, other classes, too few sources.

        Parameters
        ----------
        trusted_types : collection of str
            Classes outside scikit-learn that the model may use.
        """
        from fedcsa.target.target import Target
        from fedcsa.target.verdict import MIN_REACHING

        found: list[str] = []
        warnings: list[str] = []
        plan = policy = told = brief = None
        with gathered(found):
            plan = self.plan(trusted_types, build=True)
        with gathered(found):
            policy = self.policy()
        with gathered(found):
            told = self.read_told()
        if not found and plan is not None and policy is not None and told is not None:
            with gathered(found, "The target: "):
                given = self.given()
                target = Target(told, plan, policy=policy, trusted_types=trusted_types, given=given)
                target.check_given()
                brief = target.brief([])
        fits, classes = False, dict[str, set[Any]]()
        for name in self.sources:
            with gathered(found):
                X, y = self.read_source(name)
                classes[name] = set(y.tolist()) if self.outcome.levels else set()
                problems, units, fit = self._check_source(name, (X, y), plan, brief, policy)
                found += problems
                warnings += units
                fits = fits or fit
        if brief is not None and brief.candidates and not found and not fits:
            found.append(
                "No source has enough rows to fit a model in folds: at least 4, and of every class "
                "at least 2. Name longer tables."
            )
        warnings += [
            f"Source {name!r}: No other source has a class that its outcome has. "
            "If that is another spelling, spell the classes alike in all tables."
            for name in alone_with_classes(classes)
        ]
        if plan is not None and plan.examined and len(self.sources) < MIN_REACHING:
            warnings.append(
                f"The verdict can be 'use it' only if {MIN_REACHING} sources or more reach the "
                f"target; this study has {len(self.sources)}."
            )
        return list(dict.fromkeys(found)), warnings

    def unused_columns(self) -> tuple[str, ...]:
        """Columns of the tables on this machine that the study does not use."""
        tables = [self._table_of(name) for name in self.sources]
        tables += [self._target_table()] if self.target else []
        own = map(self._predictions_of, self.sources)
        used = {*own, self.target_predictions, self.coding.predictions} - {""}  # "" is none of them
        used |= {self.outcome.name, *(feature.name for feature in self.features)}
        every = dict.fromkeys(column for table in tables for column in table.columns())
        return tuple(column for column in every if column not in used)

    def _check_source(
        self,
        name: str,
        rows: tuple[Array, NDArray[Any]],
        plan: Plan | None,
        brief: Brief | None,
        policy: Policy | None,
    ) -> tuple[list[str], list[str], bool]:
        """Why a source would not take part, its warnings, and whether it can fit models."""
        found: list[str] = []
        where, columns = f"Source {name!r}: ", self.coding.matrix_columns
        y = rows[1]
        source = Source(name, *rows, features=columns, policy=policy)
        if plan is not None and plan.exchange == "rows" and (y == y[0]).all():
            found.append(f"{where}The outcome must vary; it is the same in all {len(y)} rows.")
        if plan is not None and plan.scheme != "cross-fit":
            with gathered(found, where):
                rng = generator_for(plan.seed, name, "folds")
                dealt_labels(len(y), rng, plan.design()["shares"])
        if brief is not None:
            found += [f"{where}{refusal}" for refusal in source.refusals(brief)]
        # A source with a problem is mended first; its refusal names the unit already.
        told = [] if brief is None or found else source.unit_warnings(brief)
        fits = brief is not None and not found and source.can_fit(brief)
        return found, [f"{where}{text}" for text in told], fits

    def _source(
        self, name: str, policy: Policy | None, trusted: Collection[str], *, stream: bool = False
    ) -> Source:
        """The source `name`, which holds its table or reads it in batches."""
        if stream:
            rows = self.stream_source(name)
            return Source.streaming(name, rows, policy=policy, trusted_types=trusted)
        (X, y), columns = self.read_source(name), self.coding.matrix_columns
        return Source(name, X, y, features=columns, policy=policy, trusted_types=trusted)

    def _table_of(self, name: str) -> AnyTable:
        if name not in self.sources:
            raise StudyError(unknown("source", name, self.sources))
        whose = f"source {name!r}"
        return open_table(self.sources[name], folder=self.folder, whose=whose)


def _written_out(options: Mapping[str, Any]) -> list[str]:
    """Defaults that a file writes out beside a preset which sets them otherwise, a complaint each.

    A plan cannot tell them from what was left out: rows would leave where the file says "table".
    """
    preset = options.get("preset")
    return [
        str(must(name, f"left out with the preset {preset!r}, which sets it", options[name]))
        for name, value in preset_values(preset).items()
        if name in options
        and is_value(options[name], getattr(Plan, name))
        and not is_value(options[name], value)
    ]

"""site.toml: what a site says about itself. Nothing in a study can override it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.core.batches import Batches
from fedcsa.core.table import Table1
from fedcsa.data.coding import Columns, numbers_of
from fedcsa.data.databases import place_problems
from fedcsa.data.streams import DecodedOnce, TableStream, read_rows
from fedcsa.data.table1 import read_table1
from fedcsa.data.table_file import AnyTable
from fedcsa.data.tables import open_table
from fedcsa.errors import DataError, PolicyError, StudyError, TableError, gathered
from fedcsa.messages.codec import MAX_BYTES
from fedcsa.messages.policy import Policy
from fedcsa.models.fitted import FittedModel
from fedcsa.source.source import Source
from fedcsa.study import Study
from fedcsa.study.model_section import is_given, model_of_section
from fedcsa.study.study_file import build_policy
from fedcsa.study.toml import Section, parse_toml, read_text

#: Whose table it is, in errors about its columns.
_WHERE = "this site"


@dataclass(frozen=True)
class SiteFile:
    """A site's own settings.

    Attributes
    ----------
    table : str
        Path of its table; empty if `table1` or a database stands for it.
    sheet : str
        Which sheet, if the table is a workbook of several.
    database, query : str
        Instead of a table: a DuckDB or SQLite file, or the address of a PostgreSQL server, and
        what to ask.
    table1 : str
        As a target without rows here: path of its Table 1.
    cohort : str
        As a target: what its rows are called. Tables that it tells of them are counted together,
        whatever the studies are called.
    stream : bool
        As a source: whether to read the table in batches and never hold it.
    columns : mapping of str to str
        The table's name of a column, by the study's name of it; others are called alike.
    predictions : mapping of str to str
        The table's column of predictions, by what a study calls them. A study cannot judge any
        other column.
    model : str
        As a target: path of a given model that is not in the study file.
    missing_values : tuple of str
        Spellings of a missing cell, beside the study's.
    policy : Policy
        The strict one, with the changes of the section ``[policy]``.
    approve : bool
        As a source: whether studies wait for ``fedcsa site approve``; once said, it holds for
        all messages of a study.
    notify : tuple of str
        A command and its arguments that run when a study begins to wait.
    share_result : bool
        Whether, as the target, it tells the lead the result's numbers. Its model stays anyway.
    max_bytes : int
        Of a message, coming or going.
    state : str
        Folder of the log, the status and results.
    folder : Path
        What relative paths start from.
    """

    table: str = ""
    sheet: str = ""
    database: str = ""
    query: str = ""
    table1: str = ""
    cohort: str = "all rows"
    stream: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    predictions: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    missing_values: tuple[str, ...] = ()
    policy: Policy = field(default_factory=Policy)
    approve: bool = False
    notify: tuple[str, ...] = ()
    share_result: bool = True
    max_bytes: int = MAX_BYTES
    state: str = "state"
    folder: Path = Path()

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a site file; the paths in it are relative to its folder."""
        path = Path(path)
        text = read_text(path, "site file", "Write one with: fedcsa site init")
        return cls.parse(text, folder=path.absolute().parent, origin=path.name)

    @classmethod
    def parse(cls, text: str, *, folder: Path, origin: str = "site.toml") -> Self:
        """Read the text of a site file, or raise a `StudyError` with one line per problem.

        Parameters
        ----------
        text : str
        folder : Path
            What relative paths start from.
        origin : str
            Name of the file, for the sentences.
        """
        top = Section(parse_toml(text, origin), f"{origin}:")
        values = top.take_fields(cls, skip=("policy", "folder"))
        rules = top.take("policy", "Mapping[str, Any]", {})
        top.close()
        if values.get("max_bytes", 1) < 1:
            top.say("'max_bytes' must be 1 or more.")
        _check_place(top, values)
        with gathered(top.problems, f"{origin}: "):
            values["policy"] = build_policy({"preset": "site", **rules})
        top.end()
        return cls(**values, folder=folder)

    @property
    def state_folder(self) -> Path:
        """Where the log, the status and results are."""
        return self.folder / self.state

    def check_size(self, payload: bytes) -> None:
        """Raise a `PolicyError` if a message is larger than this file says."""
        most = self.max_bytes
        if len(payload) > most:
            raise PolicyError("max_bytes", f"A message here must have at most {most} bytes.")

    def open_rows(self) -> AnyTable:
        """The table of this site, file or query."""
        keys = ("database", "query") if self.database else ("table", "sheet")
        place = {key: getattr(self, key) for key in keys if getattr(self, key)}
        return open_table(place, folder=self.folder, whose=_WHERE)

    def read_target(self, study: Study) -> Array | Table1:
        """What this site has as a target: rows without outcomes, or a Table 1."""
        if self.table1:  # it is typed in under the study's own names
            return read_table1(self.folder / self.table1, study.coding)
        coding = self._coding(study)
        return read_rows(self.open_rows(), coding, _WHERE, with_outcome=False)[0]

    def read_outcomes(self, study: Study) -> tuple[Array, NDArray[Any]]:
        """Rows, with their group behind the features if the study has one, and outcomes."""
        coding = self._coding(study)
        self._require_predictions(study)
        X, y = read_rows(self.open_rows(), coding, _WHERE, with_outcome=True)
        return X, study.outcome.labelled(y)

    def batches(self, study: Study) -> Batches:
        """Rows and outcomes in batches, read anew for every pass; none of a large table is held."""
        self._require_predictions(study)
        names = study.coding.matrix_columns
        return DecodedOnce(
            TableStream(self.open_rows(), self._coding(study), where=_WHERE, columns=names)
        )

    def given(self, study: Study) -> FittedModel | Array | None:
        """As a target: the given model, or its own column of predictions; None without either."""
        if not is_given(study.model):
            return None
        column = study.coding.predictions
        if not column:
            section = dict(study.model)
            if "formula" not in section and not self.model:
                raise StudyError(
                    "The target must have the given model; this site's file names none. "
                    'Name what fedcsa convert wrote with model = "…".'
                )
            if "formula" not in section:
                section["file"] = self.model
            return model_of_section(section, self.folder, study.coding)
        if self.table1 or column not in self.predictions:
            return None
        own, spellings = self.predictions[column], (*study.missing_values, *self.missing_values)
        return numbers_of(self.open_rows().read([own]), own, "the target", spellings)

    def _require_predictions(self, study: Study) -> None:
        """Raise unless this site's own file names the column of predictions that is judged."""
        column = study.coding.predictions
        if column and column not in self.predictions:
            raise PolicyError(
                "predictions",
                f"This site's file must name its column of the predictions {column[:60]!r}; it "
                "does not. Add it to [predictions] if the study may judge it.",
            )

    def has_outcomes(self, study: Study) -> bool:
        """Whether the table has the study's column of outcomes: a source's has, a target's not."""
        if self.table1:
            return False
        try:
            outcome = self._coding(study).needed(with_outcome=True)[-1]
            self.open_rows().read([outcome])
        except TableError:
            raise
        except DataError:
            return False
        return True

    def source(self, name: str, study: Study) -> Source:
        """A source of `study` under this site's rules, which holds the table or reads batches.

        Parameters
        ----------
        name : str
            Of the site.
        study : Study
        """
        if self.table1:
            raise StudyError(
                "A source must have a table of rows; this site's file names a Table 1. "
                'Name its rows with table = "…".'
            )
        if self.stream:
            return Source.streaming(name, self.batches(study), policy=self.policy)
        (X, y), columns = self.read_outcomes(study), study.coding.matrix_columns
        return Source(name, X, y, features=columns, policy=self.policy)

    def _coding(self, study: Study) -> Columns:
        """The study's coding, under this table's names of the columns."""
        own = self.columns
        features = [replace(f, name=own.get(f.name, f.name)) for f in study.features]
        outcome = replace(study.outcome, name=own.get(study.outcome.name, study.outcome.name))
        spellings = (*study.missing_values, *self.missing_values)
        column = study.coding.predictions
        return Columns(tuple(features), outcome, spellings, self.predictions.get(column, column))


def _check_place(top: Section, values: Mapping[str, Any]) -> None:
    """Say what is wrong with where a site's rows are.

    Parameters
    ----------
    top : Section
        Which gathers the problems.
    values : mapping
        Of the file, as far as they are sound.
    """
    if sum(key in values for key in ("table", "table1", "database")) != 1:
        top.say(
            "Give one of 'table', 'database' with its 'query' and, as a target without rows, "
            "'table1'."
        )
    if ("database" in values) != ("query" in values):
        top.say("'database' and 'query' must come together.")
    for problem in place_problems(values.get("database"), values.get("query")):
        top.say(problem)


#: What ``fedcsa site init`` writes: every setting, those that have a default commented out.
SITE_TEMPLATE = """\
# A site's own file. Nothing in a study can override it.
table = "patients.csv"            # .csv, .tsv, .parquet, .xlsx
# sheet = "2024"                  # of a workbook with several
# database = "stays.duckdb"       # instead of a table: DuckDB, SQLite or postgresql://host/db
# query = "SELECT * FROM stays ORDER BY id"
# table1 = "table1.csv"           # instead, as a target without rows: its Table 1
# cohort = "2024"                 # as a target: what its rows are called; tables are counted by it
# stream = true                   # as a source: never hold the table, read it in batches
# missing_values = ["?"]          # further spellings of a missing cell
# approve = true                  # as a source: studies wait for fedcsa site approve STUDY
# notify = ["/usr/local/bin/tell", "me"]   # runs when a study begins to wait
# share_result = true             # as the target: tell the lead the numbers; the model stays here
# max_bytes = 268435456           # of a message, coming or going
# state = "state"                 # folder of the log and results

# model = "model.json"            # as a target: a given model that fedcsa convert wrote

# The study's name of a column = its name in the table, where they differ.
[columns]
# age = "AGE_YEARS"

# What a study calls predictions that it may judge = the column of this table that holds them.
[predictions]
# "sepsis score" = "EWS_RISK"

# The strict rules are in force; change only what you must.
[policy]
# features = ["age", "sex"]       # a study may use these and no others
# models = ["ridge"]              # a study may fit these and no others
# models = "never"                # only examine models, and send none
# max_membership_auc = 0.6        # a model stays if an attack tells better who was in it
# exchanges = ["table"]           # "rows" too: preset "paper", in which a target sends its rows
# portable_models = true          # only models that travel in a format of ours
# no_own_values = true            # a model that holds a cell or an outcome stays here
# min_target_rows = 20            # of a target
# min_class_rows = 5              # of every class of the outcome that this site has
# min_fold_rows = 30
# min_rows_per_leaf = 10          # of trees
# max_parameters_per_row = 0.33
# min_sd_share = 0.3              # a target's sd of a number, in this site's own
# min_effective_rows = 10         # rows that carry the weight of a report
# max_row_share = 0.2             # of the weight, on a single row
# max_row_leverage = 0.5          # of the variance of what is told, on a single row
# min_cell_rows = 5               # of a cell of a score table
# max_briefs = 5                  # from one target in a period, refused ones too
# max_candidates = 120            # whose risk is told in one study, in all rounds of a search
# period_days = 90
# max_tables = 3                  # as the target: different tables of a cohort in a period
# min_changed_rows = 20           # as the target: rows that must change before a new table
# min_changed_share = 0.1         # the same as a share of the rows; the larger counts
# min_level_rows = 5              # as the target: patients with a flag or level, or none
# min_penalty = 0.001             # beside the mean loss; 0 unless told
# show_model = false              # send a model, but not to other sources: it has no weight
# count_band = 10                 # rows take part in multiples of this
# significant_digits = 4
"""

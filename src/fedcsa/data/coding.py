"""The agreed columns of a table and which numbers they become, the same at every site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.data.cells import Cells
from fedcsa.data.columns import Feature, Outcome, describe_column, require_columns, sentence_start
from fedcsa.errors import DataError, gathered, must, raise_all

if TYPE_CHECKING:
    import pyarrow as pa

    from fedcsa.data.tables import TableFile


@dataclass(frozen=True)
class Columns:
    """How every site turns its table into a matrix and outcomes.

    Attributes
    ----------
    features : tuple of Feature
        In the agreed order; at most one of them a group.
    outcome : Outcome, optional
    missing_values : tuple of str
        Texts that stand for a missing cell, beside `fedcsa.data.cells.MISSING_VALUES`.
    predictions : str
        The column of predictions that is judged, if that is what a study does.

    Examples
    --------
    >>> sex, patient = Feature("sex", "levels", ("F", "M")), Feature("patient", "group")
    >>> coding = Columns((Feature("age", sd=10.0), sex, patient))
    >>> coding.columns, coding.flags, coding.matrix_columns
    (('age', 'sex=M'), (False, True), ('age', 'sex=M', 'patient'))
    """

    features: tuple[Feature, ...]
    outcome: Outcome | None = None
    missing_values: tuple[str, ...] = ()
    predictions: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        if not self.columns:
            raise must("features", "at least one feature", 0)
        groups = [feature.name for feature in self.features if feature.kind == "group"]
        if len(groups) > 1:
            raise must("features", "described with at most one group", len(groups))
        # Columns of the table, and columns of the matrix: one name, one thing, in either.
        needed = self.needed(with_outcome=self.outcome is not None, with_group=True)
        for names in (needed, self.matrix_columns):
            doubled = [name for name, count in Counter(names).items() if count > 1]
            if doubled:
                raise must("features", "columns and an outcome of distinct names", doubled[0])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the features' columns in the matrix; the group is none of them."""
        return tuple(column for feature in self.features for column in feature.columns)

    @property
    def group(self) -> str:
        """The column that says which rows belong together, or an empty text."""
        return next((f.name for f in self.features if f.kind == "group"), "")

    @property
    def matrix_columns(self) -> tuple[str, ...]:
        """Names of all columns of a source's matrix: behind the features group and predictions."""
        return (*self.columns, *filter(None, (self.group, self.predictions)))

    @property
    def flags(self) -> tuple[bool, ...]:
        """Which of `columns` hold zeros and ones."""
        return tuple(flag for feature in self.features for flag in feature.flags)

    @property
    def levels(self) -> dict[str, tuple[Any, ...]]:
        """The agreed levels of every feature that has some."""
        return {feature.name: feature.levels for feature in self.features if feature.levels}

    @property
    def public_sd(self) -> Array:
        """The agreed scale of every one of `columns`; NaN for a number without one."""
        return np.array([sd for feature in self.features for sd in feature.public_sd])

    def needed(self, *, with_outcome: bool, with_group: bool = False) -> tuple[str, ...]:
        """Names of the table's columns that are read, the outcome last.

        Parameters
        ----------
        with_outcome, with_group : bool
            As for `encode`.
        """
        names = tuple(feature.name for feature in self._in_order(with_group))
        if not with_outcome:
            return names
        if self.outcome is None:
            raise must("with_outcome", "False for a coding without an outcome", True)
        return (*names, self.outcome.name)

    def _in_order(self, with_group: bool) -> list[Feature]:
        """The features in the order of the matrix; group and predictions behind them if asked."""
        behind = [f for f in self.features if f.kind == "group"]
        behind += [Feature(self.predictions)] if self.predictions else []
        return [f for f in self.features if f.kind != "group"] + (behind if with_group else [])

    def encode(
        self,
        table: pa.Table | Mapping[str, Any],
        where: str,
        *,
        with_outcome: bool,
        with_group: bool = False,
        first_row: int | None = None,
    ) -> tuple[Array, Array | None]:
        """The matrix X and the outcomes y as numbers; None without outcomes.

        Parameters
        ----------
        table : pyarrow.Table or mapping of names to arrays
            Further columns are ignored.
        where : str
            Whose table it is, for the sentences: ``"the target"``, ``"source 'a'"``.
        with_outcome : bool
            Without it, a column of outcomes is not looked at. Classes are given by their
            positions in the agreed order; `Outcome.labelled` gives their labels.
        with_group : bool
            With it, the group and the predictions, if there are any, are the matrix's last columns.
            A target needs none.
        first_row : int, optional
            Number of the first row, if these are not all rows of the table.

        Raises
        ------
        DataError
            With one line for everything that is wrong.
        """
        table = _as_table(table, where)
        needed = self.needed(with_outcome=with_outcome, with_group=with_group)
        require_columns(table.column_names, needed, where)
        if not table.num_rows:
            raise no_rows(where)
        problems: list[str] = []

        def cells(what: str, name: str) -> Cells:
            words = f"{what} {name!r} of {where}"
            return Cells(table.column(name), words, problems, self.missing_values, first_row)

        features = self._in_order(with_group)
        blocks = [feature.encode(cells("Column", feature.name)) for feature in features]
        y = None
        if with_outcome and self.outcome is not None:
            y = self.outcome.encode(cells("Outcome", self.outcome.name))
        if problems:
            raise DataError("\n".join(problems))
        return np.hstack(blocks), y


def read_predictions(table: TableFile, column: str, missing_values: tuple[str, ...] = ()) -> Array:
    """A target's own column of predictions, shape (rows,).

    Parameters
    ----------
    table : TableFile
    column : str
    missing_values : tuple of str
        Spellings of a missing cell, beside the usual ones.
    """
    coding = Columns((Feature(column),), None, missing_values)
    X, _ = coding.encode(table.read([column]), "the target", with_outcome=False)
    return X[:, 0]


def no_rows(where: str) -> DataError:
    """The refusal of a table without rows."""
    return DataError(
        f"{sentence_start(where)} must have rows; its table has none. Check which file it names."
    )


def describe_columns(columns: Mapping[str, Any]) -> Columns:
    """The coding that a description of columns means.

    Parameters
    ----------
    columns : mapping of str to str, sequence or mapping
        By the name of a column what `fedcsa.data.columns.describe_column` takes.

    Raises
    ------
    ParameterError
        With one line for everything that is wrong.

    Examples
    --------
    >>> coding = describe_columns(
    ...     {
    ...         "age": {"kind": "number", "sd": 12.0},
    ...         "smoker": "flag",
    ...         "stage": ["I", "II", "III"],
    ...         "patient": "group",
    ...     }
    ... )
    >>> coding.columns, coding.group
    (('age', 'smoker', 'stage=II', 'stage=III'), 'patient')
    """
    if not isinstance(columns, Mapping):
        raise must("columns", "a mapping of names to descriptions", type(columns).__name__)
    features: list[Feature] = []
    problems: list[str] = []
    for name, value in columns.items():
        with gathered(problems, f"Column {name!r}: "):
            features.append(describe_column(name, value))
    raise_all(problems)
    return Columns(tuple(features))


def _as_table(table: Any, where: str) -> Any:
    import pyarrow as pa

    if isinstance(table, pa.Table):
        return table
    try:
        return pa.table(dict(table))
    except (pa.ArrowException, TypeError, ValueError):  # its text quotes a cell
        raise DataError(
            f"{sentence_start(where)} must be a table: columns of one length, each of one type. "
            "Make every column an array of one kind."
        ) from None

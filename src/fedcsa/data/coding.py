"""The agreed columns of a table and which numbers they become, the same at every site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.data.cells import Cells
from fedcsa.data.columns import Feature, Outcome, describe_column, require_columns, sentence_start
from fedcsa.errors import DataError, gathered, must, raise_all

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, init=False, repr=False)
class Columns:
    """What every column of a table is, and how every site makes numbers of it.

    Parameters
    ----------
    features : mapping of str to str, sequence or mapping; or sequence of Feature
        By the name of a column ``"number"``, ``"flag"``, ``"id"``, ``"group"``, its levels in the
        agreed order, or a mapping with ``kind`` and what else `fedcsa.data.columns.Feature` has:
        ``levels``, ``other``, ``since``, ``at``, ``missing``, ``fill``, ``sd``, ``unit``. Their
        order is the agreed order. At most one is an id and at most one a group.
    outcome : Outcome, optional
    missing_values : tuple of str
        Texts that stand for a missing cell, beside `fedcsa.data.cells.MISSING_VALUES`.
    predictions : str
        The column of predictions that is judged, if that is what a study does.
    notes : tuple of str
        What `infer` could not decide alone; it has no effect.

    Raises
    ------
    ParameterError
        With one line for everything that is wrong.

    Examples
    --------
    >>> Columns(
    ...     {
    ...         "age": {"kind": "number", "sd": 10.0},
    ...         "sex": ["F", "M"],
    ...         "patient": "group",
    ...     }
    ... )
    Columns({
        'age': {'sd': 10.0},
        'sex': ['F', 'M'],
        'patient': 'group',
    })
    >>> _.columns, _.flags, _.matrix_columns
    (('age', 'sex=M'), (False, True), ('age', 'sex=M', 'patient'))
    """

    features: tuple[Feature, ...]
    outcome: Outcome | None
    missing_values: tuple[str, ...]
    predictions: str
    notes: tuple[str, ...] = field(compare=False)

    def __init__(
        self,
        features: Mapping[str, Any] | Sequence[Feature],
        outcome: Outcome | None = None,
        missing_values: Sequence[str] = (),
        predictions: str = "",
        notes: Sequence[str] = (),
    ) -> None:
        given = _described(features) if isinstance(features, Mapping) else features
        if not isinstance(given, list | tuple) or not all(isinstance(f, Feature) for f in given):
            raise must("columns", "a mapping of names to descriptions", type(features).__name__)
        values = (tuple(given), outcome, tuple(missing_values), predictions, tuple(notes))
        for item, value in zip(fields(self), values, strict=True):
            object.__setattr__(self, item.name, value)
        self._check()

    def _check(self) -> None:
        if not self.columns:
            raise must("features", "at least one feature", 0)
        for kind in ("id", "group"):
            count = sum(feature.kind == kind for feature in self.features)
            if count > 1:
                raise must("features", f"described with at most one {kind}", count)
        # Columns of the table, and columns of the matrix: one name, one thing, in either.
        needed = self.needed(with_outcome=self.outcome is not None, with_group=True)
        for names in ((*needed, *filter(None, [self.id])), self.matrix_columns):
            doubled = [name for name, count in Counter(names).items() if count > 1]
            if doubled:
                raise must("features", "columns and an outcome of distinct names", doubled[0])

    @classmethod
    def infer(
        cls,
        frames: Mapping[str, Any],
        outcome: str | None = None,
        missing_values: Sequence[str] = (),
    ) -> Columns:
        """Propose what every column is, from the tables of one's own machine.

        Look at the proposal before you use it, and at its `notes`: sentences about what the
        tables do not agree on, or do not say. To change it, change its `described` and make
        `Columns` of that again.

        Parameters
        ----------
        frames : mapping of str to frame
            A frame of pandas, Polars, pyarrow or DuckDB by the name of its site.
        outcome : str, optional
            The column with outcomes; it need not be in every frame.
        missing_values : sequence of str
            Texts that stand for a missing cell, beside `fedcsa.data.cells.MISSING_VALUES`.

        Examples
        --------
        >>> import pandas as pd
        >>> north = pd.DataFrame({"age": [61.5, 50.0, 47.0], "sex": ["F", "M", "F"]})
        >>> south = pd.DataFrame({"age": [71.0, None, 39.0], "sex": ["F", "M", "M"]})
        >>> Columns.infer({"north": north, "south": south}).described
        {'age': {'missing': 'indicator', 'fill': 50.0}, 'sex': ['F', 'M']}
        """
        from fedcsa.data.infer import infer_columns

        return infer_columns(frames, outcome, missing_values)

    def __repr__(self) -> str:
        lines = [f"    {name!r}: {value!r}," for name, value in self.described.items()]
        outcome = "" if self.outcome is None else f", {self.outcome!r}"
        notes = [f"# {note}" for note in self.notes]
        return "\n".join(["Columns({", *lines, f"}}{outcome})", *notes])

    @property
    def described(self) -> dict[str, Any]:
        """The description as short as it can be: what `Columns` reads as these features."""
        return {feature.name: feature.described for feature in self.features}

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """How a model finds the table's own columns in the matrix.

        One mapping per column of the table that is a feature: ``name``, ``kind``, ``levels``,
        ``columns`` (positions in the matrix) and ``missing``: whether the last of these positions
        is 1 where the model shall see a gap. Of an agreed value with an indicator, the indicator
        is a flag of its own, or one more level, ``"missing"``.

        Examples
        --------
        >>> Columns({"sex": {"levels": ["F", "M"], "missing": "model"}}).inputs == [
        ...     {"name": "sex", "kind": "levels", "levels": ["F", "M"], "missing": True,
        ...      "columns": [0, 1]}
        ... ]
        True
        """
        found: list[dict[str, Any]] = []
        first = 0
        for feature in self.features:
            found += feature.inputs(first)
            first += len(feature.columns)
        return found

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the features' columns in the matrix; the group is none of them."""
        return tuple(column for feature in self.features for column in feature.columns)

    @property
    def group(self) -> str:
        """The column that says which rows belong together, or an empty text."""
        return next((f.name for f in self.features if f.kind == "group"), "")

    @property
    def id(self) -> str:
        """The column that names a row, or an empty text. It is never encoded and never leaves."""
        return next((f.name for f in self.features if f.kind == "id"), "")

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
        return {f.name: f.all_levels for f in self.features if f.levels}

    @property
    def n_classes(self) -> int:
        """Of the outcome; 0 for a number."""
        return 0 if self.outcome is None else len(self.outcome.levels)

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

    @property
    def with_few_texts(self) -> tuple[str, ...]:
        """Names of the table's columns whose cells are few different ones."""
        few = tuple(f.name for f in self.features if f.kind in ("flag", "levels"))
        outcome = self.outcome
        return (*few, outcome.name) if outcome is not None and outcome.levels else few

    def _in_order(self, with_group: bool) -> list[Feature]:
        """The features in the order of the matrix; group and predictions behind them if asked."""
        behind = [f for f in self.features if f.kind == "group"]
        behind += [Feature(self.predictions)] if self.predictions else []
        return [f for f in self.features if f.is_feature] + (behind if with_group else [])

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
            words = f"{what} {name!r} of {where[:1].lower()}{where[1:]}"  # inside a sentence
            return Cells(table.column(name), words, problems, self.missing_values, first_row)

        features = self._in_order(with_group)
        blocks = [feature.encode(cells("Column", feature.name)) for feature in features]
        y = None
        if with_outcome and self.outcome is not None:
            y = self.outcome.encode(cells("Outcome", self.outcome.name))
        raise_all(problems, DataError)
        return np.hstack(blocks), y


def numbers_of(table: pa.Table, column: str, where: str, missing_values: tuple[str, ...]) -> Array:
    """One column of numbers, such as a target's own predictions, shape (rows,).

    Parameters
    ----------
    table : pyarrow.Table
    column : str
    where : str
        Whose table it is.
    missing_values : tuple of str
        Spellings of a missing cell, beside the usual ones.
    """
    coding = Columns((Feature(column),), None, missing_values)
    return coding.encode(table, where, with_outcome=False)[0][:, 0]


def no_rows(where: str) -> DataError:
    """The refusal of a table without rows."""
    return DataError(
        f"{sentence_start(where)} must have rows; its table has none. Check which file it names."
    )


def _described(columns: Mapping[str, Any]) -> list[Feature]:
    """The features that a description means, or one line for everything that is wrong."""
    features: list[Feature] = []
    problems: list[str] = []
    for name, value in columns.items():
        with gathered(problems, f"Column {name!r}: "):
            features.append(describe_column(name, value))
    raise_all(problems)
    return features


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

"""The agreed coding of a table: which columns become which numbers, the same at every site."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.core.table import INDICATOR_SD
from fedcsa.data.cells import (
    MISSING,
    arrow,
    flag_codes,
    level_codes,
    level_text,
    numbers,
    of,
)
from fedcsa.data.columns import require_columns, sentence_start
from fedcsa.data.groups import group_numbers
from fedcsa.errors import DataError, must, one_of

if TYPE_CHECKING:
    import pyarrow as pa

Label = str | int | bool
KINDS = ("number", "flag", "levels", "group")


@dataclass(frozen=True)
class Feature:
    """One column of the table and what becomes of it.

    A number or a flag becomes the column ``name``. Levels become one column of zeros and ones,
    ``name=level``, for every level but the first, in the agreed order. With
    ``missing="indicator"`` there is one more, ``name=missing``, which is 1 where the cell is
    missing. A group is no feature: it says which rows belong together.

    Attributes
    ----------
    name : str
    kind : {"number", "flag", "levels", "group"}
        A flag holds 0 and 1, or true and false.
    levels : tuple of str
        Two or more. Whole numbers, true and false stand for their text.
    missing : {"error", "indicator"}
    fill : float, optional
        The agreed number in place of a missing one; 0 unless told.
    sd : float, optional
        An agreed, public scale, see `fedcsa.core.table.Table1`. Zeros and ones have the scale
        0.5 unless told.

    Examples
    --------
    >>> Feature("stage", "levels", ("I", "II", "III")).columns
    ('stage=II', 'stage=III')
    """

    name: str
    kind: Literal["number", "flag", "levels", "group"] = "number"
    levels: tuple[str, ...] = ()
    missing: Literal["error", "indicator"] = "error"
    fill: float | None = None
    sd: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise must("name", "a text that is not empty", self.name)
        if self.kind not in KINDS:
            raise one_of("kind", KINDS, self.kind)
        object.__setattr__(self, "levels", _distinct(self.levels))
        if len(self.levels) < 2 if self.kind == "levels" else self.levels:
            count = len(self.levels)
            raise must("levels", "two or more if the kind is 'levels', and none otherwise", count)
        if self.missing not in ("error", "indicator"):
            raise one_of("missing", ("error", "indicator"), self.missing)
        if self.kind == "group" and (self.missing != "error" or self.sd is not None):
            raise must("kind", "all that is said of a group", "'missing' or 'sd' beside it")
        if self.fill is not None:
            if self.kind != "number" or self.missing != "indicator":
                raise must("fill", "left out, except for a number with missing='indicator'", "one")
            object.__setattr__(self, "fill", _finite("fill", self.fill))
        if self.sd is not None:
            object.__setattr__(self, "sd", _finite("sd", self.sd, positive=True))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that this feature becomes."""
        if self.kind == "group":
            return ()
        own = tuple(f"{self.name}={level}" for level in self.levels[1:]) or (self.name,)
        return (*own, f"{self.name}=missing") if self.missing == "indicator" else own

    @property
    def flags(self) -> tuple[bool, ...]:
        """Which of `columns` hold zeros and ones."""
        own = len(self.columns)
        return (False, *[True] * (own - 1)) if self.kind == "number" else (True,) * own

    @property
    def public_sd(self) -> tuple[float, ...]:
        """The agreed scale of each of `columns`; NaN for a number without one."""
        coin = INDICATOR_SD
        if self.kind == "number":
            own = math.nan if self.sd is None else self.sd
            return (own, *[coin] * (len(self.columns) - 1))
        marks = 1 if self.missing == "indicator" else 0
        return (self.sd or coin,) * (len(self.columns) - marks) + (coin,) * marks

    def encode(
        self, column: pa.ChunkedArray, what: str, problems: list[str], first_row: int | None = None
    ) -> Array:
        """The columns that `column` becomes, shape (rows, columns); of a group one of hashes.

        Parameters
        ----------
        column, what, problems, first_row
            As for `fedcsa.data.cells.numbers`.
        """
        if self.kind == "group":
            return group_numbers(column, what, problems, first_row)[:, None]
        if self.kind == "number":
            values = numbers(column, what, problems, first_row)
            missing = np.isnan(values)
            blocks = [np.where(missing, self.fill or 0.0, values)]
        elif self.kind == "flag":
            codes = flag_codes(column, what, problems, first_row)
            missing, blocks = codes == MISSING, [codes == 1]
        else:
            codes = level_codes(column, self.levels, what, problems, first_row)
            missing = codes == MISSING
            blocks = [codes == index for index in range(1, len(self.levels))]
        if self.missing == "indicator":
            blocks.append(missing)
        elif missing.any():
            count = of(int(missing.sum()), len(missing), first_row)
            problems.append(
                f"{what} must be complete; {count} missing. "
                'Drop those rows, or agree on missing = "indicator" for this feature.'
            )
        return np.column_stack(blocks).astype(np.float64)


@dataclass(frozen=True)
class Outcome:
    """The column with outcomes.

    Attributes
    ----------
    name : str
    levels : tuple of str, int or bool
        Labels of the classes in the agreed order, all of one type; empty for a number.
    """

    name: str
    levels: tuple[Label, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise must("name", "a text that is not empty", self.name)
        object.__setattr__(self, "levels", tuple(self.levels))
        _distinct(self.levels)
        if len(self.levels) == 1:
            raise must("levels", "two or more, or left out for a number", 1)
        types = {type(level).__name__ for level in self.levels}
        if len(types) > 1:
            raise must("levels", "all of one type", sorted(types))

    def encode(self, column: pa.ChunkedArray, what: str, problems: list[str]) -> NDArray[Any]:
        """Numbers, or the labels as they are declared."""
        y = self.encode_numbers(column, what, problems)
        return np.array(self.levels)[y.astype(np.intp)] if self.levels else y

    def encode_numbers(
        self, column: pa.ChunkedArray, what: str, problems: list[str], first_row: int | None = None
    ) -> Array:
        """Numbers, or the positions of the labels in their agreed order, as float64."""
        if self.levels:
            texts = [level_text(level) for level in self.levels]
            codes = level_codes(column, texts, what, problems, first_row)
            missing, y = codes == MISSING, codes.astype(np.float64)
        else:
            y = numbers(column, what, problems, first_row)
            missing = np.isnan(y)
        if missing.any():
            problems.append(
                f"{what} must be complete; {of(int(missing.sum()), len(missing), first_row)} "
                "missing. Drop those rows: a row without its outcome teaches nothing."
            )
        return y


@dataclass(frozen=True)
class Coding:
    """How every site turns its table into a matrix and outcomes.

    Attributes
    ----------
    features : tuple of Feature
        In the agreed order; at most one of them a group.
    outcome : Outcome, optional

    Examples
    --------
    >>> sex, patient = Feature("sex", "levels", ("F", "M")), Feature("patient", "group")
    >>> coding = Coding((Feature("age", sd=10.0), sex, patient))
    >>> coding.columns, coding.flags, coding.matrix_columns
    (('age', 'sex=M'), (False, True), ('age', 'sex=M', 'patient'))
    """

    features: tuple[Feature, ...]
    outcome: Outcome | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        if not self.columns:
            raise must("features", "at least one feature", 0)
        groups = [feature.name for feature in self.features if feature.kind == "group"]
        if len(groups) > 1:
            raise must("features", "described with at most one group", len(groups))
        # Columns of the table, and columns of the matrix: one name, one thing, in either.
        with_outcome = self.outcome is not None
        needed = self.needed(with_outcome=with_outcome, with_group=True)
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
        """Names of all columns of the matrix with its group, which stands last."""
        return (*self.columns, self.group) if self.group else self.columns

    @property
    def flags(self) -> tuple[bool, ...]:
        """Which of `columns` hold zeros and ones."""
        return tuple(flag for feature in self.features for flag in feature.flags)

    @property
    def public_sd(self) -> Array:
        """The agreed scale of every one of `columns`; NaN for a number without one."""
        return np.array([sd for feature in self.features for sd in feature.public_sd])

    @property
    def level_texts(self) -> dict[str, tuple[str, ...]]:
        """Of every column of levels, the texts that stand for them."""
        texts = {feature.name: feature.levels for feature in self.features if feature.levels}
        if self.outcome is not None:
            texts[self.outcome.name] = tuple(level_text(level) for level in self.outcome.levels)
        return texts

    def needed(self, *, with_outcome: bool, with_group: bool = False) -> tuple[str, ...]:
        """Names of the table's columns that are read, the outcome last.

        Parameters
        ----------
        with_outcome, with_group : bool
            As for `encode`.
        """
        names = tuple(feature.name for feature in self.in_order(with_group=with_group))
        if not with_outcome:
            return names
        if self.outcome is None:
            raise must("with_outcome", "False for a coding without an outcome", True)
        return (*names, self.outcome.name)

    def in_order(self, *, with_group: bool) -> tuple[Feature, ...]:
        """The features in the order of the matrix, and the group behind them if asked for."""
        features = tuple(f for f in self.features if f.kind != "group")
        groups = tuple(f for f in self.features if f.kind == "group")
        return features + groups if with_group else features

    def encode(
        self,
        table: pa.Table | Mapping[str, Any],
        where: str,
        *,
        with_outcome: bool,
        with_group: bool = False,
    ) -> tuple[Array, NDArray[Any] | None]:
        """The matrix X and the outcomes y, or None without them.

        Parameters
        ----------
        table : pyarrow.Table or mapping of names to arrays
            Further columns are ignored.
        where : str
            Whose table it is, for the sentences: ``"the target"``, ``"source 'a'"``.
        with_outcome : bool
            Without it, a column of outcomes is not looked at.
        with_group : bool
            With it, the group, if there is one, is the matrix's last column. A target needs none.

        Raises
        ------
        DataError
            With one line for everything that is wrong.
        """
        table = _as_table(table, where)
        needed = self.needed(with_outcome=with_outcome, with_group=with_group)
        require_columns(table.column_names, needed, where)
        if not table.num_rows:
            raise DataError(
                f"{sentence_start(where)} must have rows; its table has none. "
                "Check which file it names."
            )
        problems: list[str] = []
        blocks = [
            feature.encode(
                table.column(feature.name), f"Column {feature.name!r} of {where}", problems
            )
            for feature in self.in_order(with_group=with_group)
        ]
        y = None
        if with_outcome and self.outcome is not None:
            name = self.outcome.name
            y = self.outcome.encode(table.column(name), f"Outcome {name!r} of {where}", problems)
        if problems:
            raise DataError("\n".join(problems))
        return np.hstack(blocks), y


def _as_table(table: Any, where: str) -> Any:
    pa = arrow("Reading a table")
    if isinstance(table, pa.Table):
        return table
    try:
        return pa.table(dict(table))
    except (pa.ArrowException, TypeError, ValueError):  # its text quotes a cell
        raise DataError(
            f"{sentence_start(where)} must be a table: columns of one length, each of one type. "
            "Make every column an array of one kind."
        ) from None


def _distinct(levels: Sequence[Label]) -> tuple[str, ...]:
    """Levels as texts, or the reason why they cannot be."""
    if isinstance(levels, str) or not all(isinstance(level, str | int) for level in levels):
        raise must("levels", "texts, whole numbers, or true and false", "something else")
    texts = tuple(level_text(level) for level in levels)
    doubled = [text for text, count in Counter(texts).items() if count > 1]
    if doubled:
        raise must("levels", "distinct", doubled[0])
    return texts


def _finite(name: str, value: object, *, positive: bool = False) -> float:
    rule = "a positive number" if positive else "a finite number"
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise must(name, rule, value)
    if positive and value <= 0:
        raise must(name, rule, value)
    return float(value)

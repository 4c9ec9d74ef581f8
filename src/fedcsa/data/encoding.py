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
from fedcsa.data.cells import MISSING, arrow, level_codes, level_text, numbers, of
from fedcsa.data.columns import require_columns, sentence_start
from fedcsa.errors import DataError, must, one_of

if TYPE_CHECKING:
    import pyarrow as pa

Label = str | int | bool
#: The sd of a fair coin: the largest that a column of zeros and ones can have.
INDICATOR_SD = 0.5


@dataclass(frozen=True)
class Feature:
    """One column of the table and what becomes of it.

    A number becomes the column ``name``. Levels become one column of zeros and ones per level,
    ``name=level``, in the agreed order. With ``missing="indicator"`` there is one more,
    ``name=missing``, which is 1 where the cell is missing.

    Attributes
    ----------
    name : str
    kind : {"number", "levels"}
    levels : tuple of str
        Whole numbers, true and false stand for their text.
    missing : {"error", "indicator"}
    fill : float, optional
        The agreed number in place of a missing one; 0 unless told.
    sd : float, optional
        An agreed, public scale, see `fedcsa.MeanEmbedding`.

    Examples
    --------
    >>> Feature("sex", "levels", ("F", "M")).columns
    ('sex=F', 'sex=M')
    """

    name: str
    kind: Literal["number", "levels"] = "number"
    levels: tuple[str, ...] = ()
    missing: Literal["error", "indicator"] = "error"
    fill: float | None = None
    sd: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise must("name", "a text that is not empty", self.name)
        if self.kind not in ("number", "levels"):
            raise one_of("kind", ("number", "levels"), self.kind)
        if (self.kind == "levels") != bool(self.levels):
            count = len(self.levels)
            raise must("levels", "one or more if the kind is 'levels', and none otherwise", count)
        object.__setattr__(self, "levels", _distinct(self.levels))
        if self.missing not in ("error", "indicator"):
            raise one_of("missing", ("error", "indicator"), self.missing)
        if self.fill is not None:
            if self.kind != "number" or self.missing != "indicator":
                raise must("fill", "left out, except for a number with missing='indicator'", "one")
            object.__setattr__(self, "fill", _finite("fill", self.fill))
        if self.sd is not None:
            object.__setattr__(self, "sd", _finite("sd", self.sd, positive=True))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that this feature becomes."""
        own = tuple(f"{self.name}={level}" for level in self.levels) or (self.name,)
        return (*own, f"{self.name}=missing") if self.missing == "indicator" else own

    def encode(
        self, column: pa.ChunkedArray, what: str, problems: list[str], first_row: int | None = None
    ) -> Array:
        """The columns that `column` becomes, shape (rows, columns)."""
        if self.kind == "number":
            values = numbers(column, what, problems, first_row)
            missing = np.isnan(values)
            blocks = [np.where(missing, self.fill or 0.0, values)]
        else:
            codes = level_codes(column, self.levels, what, problems, first_row)
            missing = codes == MISSING
            blocks = [codes == index for index in range(len(self.levels))]
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
        In the agreed order.
    outcome : Outcome, optional
    """

    features: tuple[Feature, ...]
    outcome: Outcome | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        if not self.features:
            raise must("features", "at least one feature", 0)
        # Columns of the table, and columns of the matrix: one name, one thing, in either.
        for names in (self.needed(with_outcome=self.outcome is not None), self.columns):
            doubled = [name for name, count in Counter(names).items() if count > 1]
            if doubled:
                raise must("features", "columns and an outcome of distinct names", doubled[0])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the matrix's columns."""
        return tuple(column for feature in self.features for column in feature.columns)

    @property
    def public_sd(self) -> Array | None:
        """The agreed scale of every column of the matrix, if every feature gives one."""
        scales: list[float] = []
        for feature in self.features:
            if feature.sd is None:
                return None
            own = [feature.sd] * max(1, len(feature.levels))
            scales += [*own, INDICATOR_SD] if feature.missing == "indicator" else own
        return np.array(scales)

    @property
    def level_texts(self) -> dict[str, tuple[str, ...]]:
        """Of every column of levels, the texts that stand for them."""
        texts = {feature.name: feature.levels for feature in self.features if feature.levels}
        if self.outcome is not None:
            texts[self.outcome.name] = tuple(level_text(level) for level in self.outcome.levels)
        return texts

    def needed(self, *, with_outcome: bool) -> tuple[str, ...]:
        """Names of the table's columns that are read."""
        names = tuple(feature.name for feature in self.features)
        if not with_outcome:
            return names
        if self.outcome is None:
            raise must("with_outcome", "False for a coding without an outcome", True)
        return (*names, self.outcome.name)

    def encode(
        self, table: pa.Table | Mapping[str, Any], where: str, *, with_outcome: bool
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

        Raises
        ------
        DataError
            With one line for everything that is wrong.
        """
        table = _as_table(table, where)
        require_columns(table.column_names, self.needed(with_outcome=with_outcome), where)
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
            for feature in self.features
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

"""What a model gets of a row: the table's own columns, or the study's numbers with empty cells.

A study's matrix is finite: texts are flags of levels, an empty cell is an agreed number beside a
flag. A pipeline that begins with a ColumnTransformer, an encoder or an imputer gets the table's own
columns as a pandas frame, in their own units: flags as bool and levels as whole numbers where the
sources' own frames have them so. Every other model gets the study's numbers; where a
column's empty cells were left to the model (``missing="model"``), it gets NaN for them.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.errors import MissingExtraError, ModelError
from fedcsa.models.chosen import WHOLE_STEP, Column
from fedcsa.models.steps import Part, Steps, apply_steps

#: Kinds of columns that a model may get.
INPUT_KINDS = ("number", "flag", "levels", "date")
#: What cells are in the sources' own frames: texts, whole numbers, true and false; "" if that is
#: not known, or does not matter: then levels are texts, and everything else is float64.
CELLS = ("", "text", "whole", "truth")
#: Whole numbers beyond are no levels but ids, and no threshold of a tree reaches them.
LARGEST_CODE = 10**6
_TRUTH = {"false": 0.0, "true": 1.0}
#: Of one study; its matrix has no more columns either.
MAX_INPUTS = 10_000
#: Transformers to which texts and empty cells mean something, besides scikit-learn's imputers.
_ENCODERS = ("ColumnTransformer", "OneHotEncoder", "OrdinalEncoder", "TargetEncoder")


@dataclass(frozen=True)
class Input:
    """One column of the table, and where the study's matrix has it.

    Attributes
    ----------
    name : str
    kind : {"number", "flag", "levels", "date"}
    columns : tuple of int
        Of the matrix; the last is the flag of empty cells if there is one.
    levels : tuple of str
        The first has no flag in the matrix.
    missing : bool
        Whether its empty cells were left to the model.
    cells : {"", "text", "whole", "truth"}
        See `CELLS`.
    """

    name: str
    kind: str
    columns: tuple[int, ...]
    levels: tuple[str, ...] = ()
    missing: bool = False
    cells: str = ""

    def __post_init__(self) -> None:
        flags = len(self.levels) - 1 if self.kind == "levels" else 1
        sound = (
            isinstance(self.name, str)
            and self.kind in INPUT_KINDS
            and all(type(column) is int and 0 <= column < MAX_INPUTS for column in self.columns)
            and all(isinstance(level, str) for level in self.levels)
            and type(self.missing) is bool
            and (self.kind == "levels") == bool(self.levels)
            and flags >= 1
            and len(set(self.levels)) == len(self.levels)
            and len(self.columns) == flags + self.missing
            and self.cells in CELLS
            and self._are_cells()
        )
        if not sound:
            raise ModelError(
                "A model's inputs must name columns of the study with their kinds and levels. "
                "Ask the lead which version of fedcsa wrote the study."
            )

    @property
    def own(self) -> tuple[int, ...]:
        """Columns of the matrix without the flag of empty cells."""
        return self.columns[:-1] if self.missing else self.columns

    def _are_cells(self) -> bool:
        """Whether levels can be what `cells` says."""
        if self.cells == "whole":
            return are_whole(self.levels)
        if self.cells == "truth" and self.levels:
            return sorted(level.lower() for level in self.levels) == sorted(_TRUTH)
        return self.cells != "truth" or self.kind in ("flag", "number")

    @property
    def numbers(self) -> tuple[float, ...]:
        """The only numbers that its cells may be, in the order of its levels; none for texts."""
        if self.cells == "whole":
            return tuple(float(level) for level in self.levels)
        if self.cells == "truth" and self.levels:
            return tuple(_TRUTH[level.lower()] for level in self.levels)
        return (0.0, 1.0) if self.kind == "flag" or self.cells == "truth" else ()

    def series(self, cells: Array) -> Any:
        """A column of the frame, as the sources' own frames have it.

        Parameters
        ----------
        cells : array of shape (rows,)
            Numbers, or places of levels that are texts; NaN where empty.
        """
        pd = pandas()
        empty = np.isnan(cells)
        if self.levels and not self.numbers:
            texts = np.array([*self.levels, np.nan], dtype=object)
            places = np.where(empty, len(self.levels), cells).astype(np.intp)
            # The type that pandas itself gives to a column of texts: "str" from version 3 on.
            return pd.Series(texts[places], dtype=pd.Series(["text"]).dtype)
        if self.cells == "whole" and not self.missing:
            return pd.Series(cells.astype(np.int64))
        if self.cells == "truth" and np.isin(cells[~empty], (0.0, 1.0)).all():
            truth = pd.Series(np.where(empty, 0.0, cells).astype(bool))
            return truth.astype(object).where(~empty, np.nan) if self.missing else truth
        return pd.Series(cells)

    def part(self, *, texts: bool) -> Part:
        """What makes the input of its columns: one column, or with `texts` off its numbers."""
        if texts and self.levels and self.numbers:
            levels = {"levels": np.array(self.numbers)}
            return Part("numbers", self.columns, {"marked": self.missing}, levels)
        if texts and self.levels:
            return Part("places", self.columns, {"marked": self.missing})
        return Part("gaps" if self.missing else "keep", self.columns)


@dataclass(frozen=True)
class Inputs:
    """All columns of the table that a model gets, in their order."""

    items: tuple[Input, ...]

    @classmethod
    def from_plain(cls, plain: Any) -> Inputs:
        """The inputs that a model's description lists, checked."""
        try:
            items = tuple(
                Input(
                    item["name"], item["kind"], tuple(item["columns"]), tuple(item["levels"]),
                    item["missing"], item.get("cells", ""),
                )
                for item in plain
            )  # fmt: skip
        except (AttributeError, KeyError, TypeError):
            raise ModelError(
                "A model's inputs must be a list of columns. "
                "Ask the lead which version of fedcsa wrote the study."
            ) from None
        names = [item.name for item in items]
        if not 1 <= len(items) <= MAX_INPUTS or len(set(names)) < len(names):
            raise ModelError(f"A model must have 1 to {MAX_INPUTS} inputs of different names.")
        return cls(items)

    @property
    def plain(self) -> list[dict[str, Any]]:
        """What `from_plain` takes."""
        return [
            {**asdict(item), "columns": list(item.columns), "levels": list(item.levels)}
            for item in self.items
        ]

    @property
    def n_features(self) -> int:
        """Columns of the study's matrix, as far as the inputs name them."""
        return 1 + max(max(item.columns) for item in self.items)

    @property
    def missing(self) -> bool:
        """Whether some cells are left empty for the model."""
        return any(item.missing for item in self.items)

    def steps(self, *, texts: bool) -> Steps:
        """From the study's matrix to what the model computes with.

        Parameters
        ----------
        texts : bool
            Whether it gets the table's own columns, else the study's numbers.
        """
        parts: list[Part] = []
        for item in self.items:
            part = item.part(texts=texts)
            if parts and parts[-1].kind == part.kind == "keep":  # side by side they are one
                part = Part("keep", (*parts.pop().columns, *part.columns))
            parts.append(part)
        return (tuple(parts),)

    def columns(self, grid: Array | None, *, texts: bool) -> tuple[Column, ...]:
        """Every column that the model gets.

        Parameters
        ----------
        grid : array of shape (features,), optional
            Of the study's matrix.
        texts : bool
            As for `steps`.
        """
        found = []
        for item in self.items:
            if texts and item.levels:
                own = () if item.numbers else item.levels
                column = Column(item.name, own, item.missing, WHOLE_STEP, item.numbers, item.cells)
                found.append(column)
                continue
            for position in item.own:
                step = 0.0 if grid is None else float(grid[position])
                column = Column(missing=item.missing, step=step)
                if texts:
                    column = replace(column, name=item.name, numbers=item.numbers, cells=item.cells)
                found.append(column)
        return tuple(found)

    def codes(self, X: Array) -> Array:
        """One column for each of the table's: numbers, or places of levels, NaN where empty.

        >>> sex = {"name": "sex", "kind": "levels", "columns": [0], "levels": ["F", "M"]}
        >>> Inputs.from_plain([{**sex, "missing": False}]).codes(np.array([[1.0], [0.0]]))
        array([[1.],
               [0.]])
        """
        return apply_steps(self.steps(texts=True), X)

    def numbers(self, X: Array) -> Array:
        """The study's numbers, NaN for cells that are left to the model, without their flags."""
        return apply_steps(self.steps(texts=False), X)

    def frame(self, X: Array) -> Any:
        """The table's own columns as a pandas frame.

        >>> sex = {"name": "sex", "kind": "levels", "columns": [0], "levels": ["F", "M"]}
        >>> Inputs.from_plain([{**sex, "missing": False}]).frame(np.array([[1.0], [0.0]]))
          sex
        0   M
        1   F
        """
        cells = self.codes(X).T
        own = {item.name: item.series(c) for item, c in zip(self.items, cells, strict=True)}
        return pandas().DataFrame(own)


def are_whole(levels: Sequence[str]) -> bool:
    """Whether levels are whole numbers, written as Python writes them.

    >>> are_whole(["1", "-2"]), are_whole(["01"]), are_whole(["1", "other"])
    (True, False, False)
    """
    digits = [level.removeprefix("-") for level in levels]
    return bool(levels) and all(
        own.isascii() and own.isdigit() and str(int(level)) == level and int(own) <= LARGEST_CODE
        for own, level in zip(digits, levels, strict=True)
    )


def pandas() -> Any:
    """The package, or a `MissingExtraError` that says what needs it."""
    try:
        return importlib.import_module("pandas")
    except ImportError:
        what = "A pipeline that begins with a ColumnTransformer, an encoder or an imputer"
        raise MissingExtraError("pandas", "pipelines", what) from None


def begins_with_columns(estimator: Any) -> bool:
    """Whether an estimator gets the table's own columns.

    >>> from sklearn.impute import SimpleImputer
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> begins_with_columns(make_pipeline(SimpleImputer(), Ridge())), begins_with_columns(Ridge())
    (True, False)
    """
    steps = getattr(estimator, "steps", None)  # of a pipeline
    if steps:
        real = [s for _, s in steps if s is not None and not isinstance(s, str)]
        return bool(real) and begins_with_columns(real[0])
    branches: Any = getattr(estimator, "transformer_list", None)
    branches = branches or getattr(estimator, "estimators", ())
    named = isinstance(branches, list) and all(isinstance(b, list | tuple) for b in branches)
    inner = [branch[-1] for branch in branches if branch] if named else []
    inner += [getattr(estimator, name, None) for name in ("regressor", "estimator")]
    if any(hasattr(one, "get_params") and begins_with_columns(one) for one in inner):
        return True
    kind = type(estimator)
    return kind.__name__ in _ENCODERS or kind.__module__.startswith("sklearn.impute")


def given_to(estimator: Any, inputs: Inputs | None, X: Array) -> Any:
    """What an estimator gets of the study's matrix: itself, a frame, or numbers with NaN.

    Parameters
    ----------
    estimator : scikit-learn estimator
    inputs : Inputs or None
    X : array of shape (rows, features)
    """
    if inputs is None:
        return X
    return inputs.frame(X) if begins_with_columns(estimator) else inputs.numbers(X)


def inputs_of(description: Mapping[str, Any]) -> Inputs | None:
    """The inputs in a model's description, if it has some."""
    listed = description.get("inputs")
    return None if listed is None else Inputs.from_plain(listed)


def no_empty_cells(names: Sequence[str]) -> str:
    """The sentence about a model that cannot take the empty cells that were left to it.

    >>> print(no_empty_cells(["sbp"]))
    The model takes no missing cells, but those of 'sbp' are left to it (missing = "model"). ...
    """
    shown = ", ".join(repr(name) for name in names[:3]) + (" and others" if names[3:] else "")
    return (
        f"The model takes no missing cells, but those of {shown} are left to it "
        '(missing = "model"). Put SimpleImputer before it, use a HistGradientBoosting model, or '
        'agree on missing = "indicator".'
    )


def plain_numbers(features: Sequence[str]) -> list[dict[str, Any]]:
    """The inputs of a table of which every column is a number of the study's matrix."""
    return [
        {"name": name, "kind": "number", "columns": [k], "levels": [], "missing": False}
        for k, name in enumerate(features)
    ]

"""Scikit-learn's transformers as steps of our formats.

The columns that steps make follow from the study's words alone, see `fedcsa.models.settling`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.errors import ModelError
from fedcsa.models.chosen import (
    WHOLE_STEP,
    Column,
    Seen,
    branches_of,
    is_drop,
    is_nothing,
    sklearn_name,
)
from fedcsa.models.description import function_name
from fedcsa.models.steps import MAX_COLUMNS, Part, Steps, steps_of_parts

#: Scalers that hold means and sds, and those that hold cells: the smallest, the largest, a median.
MEAN_SCALERS = frozenset({"StandardScaler"})
CELL_SCALERS = frozenset({"MaxAbsScaler", "MinMaxScaler", "RobustScaler"})


class NoFormatError(ModelError):
    """A transformer that no format of ours can hold, with the nearest that one can."""


# Steps ----------------------------------------------------------------------------------------


def in_sequence(transformers: Sequence[Any], columns: Seen, *, fitted: bool) -> tuple[Steps, Seen]:
    """Steps of transformers one after the other, and the columns that they give.

    Parameters
    ----------
    transformers : sequence of scikit-learn transformers
    columns : tuple of Column
        That come.
    fitted : bool
        Else scalers and imputers do nothing yet.
    """
    steps: Steps = ()
    for transformer in transformers:
        own, columns = _steps_of(transformer, columns, fitted=fitted)
        steps += own
    return steps, columns


def _steps_of(transformer: Any, columns: Seen, *, fitted: bool) -> tuple[Steps, Seen]:
    """Steps of one transformer, and the columns that it gives.

    Parameters
    ----------
    transformer : scikit-learn transformer
    columns : tuple of Column
        That come.
    fitted : bool
    """
    name = sklearn_name(transformer)
    if is_nothing(transformer):
        return (), columns
    if name == "Pipeline":
        return in_sequence([step for _, step in transformer.steps], columns, fitted=fitted)
    if name in ("ColumnTransformer", "FeatureUnion"):
        return _side_by_side(transformer, columns, fitted=fitted)
    return leaf(transformer, columns, fitted=fitted)


def _side_by_side(transformer: Any, columns: Seen, *, fitted: bool) -> tuple[Steps, Seen]:
    """Steps of branches: first a choice of columns, then what becomes of them.

    Parameters
    ----------
    transformer : ColumnTransformer or FeatureUnion
    columns : tuple of Column
        That come.
    fitted : bool
    """
    made: Mapping[str, Any] = {}
    if fitted and sklearn_name(transformer) == "ColumnTransformer":
        made = {name: branch for name, branch, _ in transformer.transformers_}
    used = [
        (branch if isinstance(branch, str) else made.get(name, branch), places)
        for name, branch, places in branches_of(transformer, columns)
        if places and not is_drop(branch)
    ]
    chosen = tuple(place for _, places in used for place in places)
    branches, given = [], list[Column]()
    for branch, places in used:
        own, after = _steps_of(branch, tuple(columns[k] for k in places), fitted=fitted)
        branches.append(own)
        given += after
    widths = [len(places) for _, places in used]
    return ((Part("keep", chosen),), *steps_of_parts(branches, widths)), tuple(given)


def leaf(transformer: Any, columns: Seen, *, fitted: bool) -> tuple[Steps, Seen]:
    """Steps of a transformer that holds no other, and the columns that it gives.

    Parameters
    ----------
    transformer : scikit-learn transformer
    columns : tuple of Column
        That come.
    fitted : bool
    """
    name = sklearn_name(transformer)
    if name == "SimpleImputer":
        return _imputed(transformer, columns, fitted=fitted)
    if name in ("OneHotEncoder", "OrdinalEncoder"):
        return _encoded(transformer, columns)
    everything, bare = tuple(range(len(columns))), tuple(replace(c, name="") for c in columns)
    if name == "MissingIndicator":
        flags = (Column(step=WHOLE_STEP),) * len(columns)
        return ((Part("missing", everything),),), flags
    if any(column.texts for column in columns):
        raise NoFormatError(
            f"{type(transformer).__name__} gets texts. Use OneHotEncoder before it instead"
        )
    truths = [column for column in columns if column.cells == "truth"]
    if name == "FunctionTransformer" and truths:  # whose result is a float16 in numpy
        raise NoFormatError(
            "FunctionTransformer gets true and false. Use 'passthrough' for them instead"
        )
    part = _numeric(transformer, name, everything, fitted=fitted)
    if part is None:
        return (), bare
    empty = any(column.missing for column in columns)
    return ((part,),), (Column(missing=empty),) * part.width


def _numeric(transformer: Any, name: str, columns: tuple[int, ...], *, fitted: bool) -> Part | None:
    """What a transformer makes of numbers; None if they stay as they are.

    Parameters
    ----------
    transformer : scikit-learn transformer
    name : str
        Of its class.
    columns : tuple of int
        All that come.
    fitted : bool
    """
    from sklearn.base import clone

    width = len(columns)
    if name in MEAN_SCALERS | CELL_SCALERS:
        shift, scale = _affine(transformer, width) if fitted else (np.zeros(width), np.ones(width))
        return Part("affine", columns, {}, {"shift": shift, "scale": scale})
    if name == "FunctionTransformer":
        function = function_name(transformer.func)
        return None if transformer.func is None else Part(function, columns)
    if name == "PolynomialFeatures":
        made = clone(transformer).fit(np.zeros((1, width)))
        if made.n_output_features_ > MAX_COLUMNS:  # before they are listed
            raise ModelError(
                f"PolynomialFeatures must give at most {MAX_COLUMNS} columns. Lower its degree."
            )
        return Part("powers", columns, {}, {"powers": made.powers_.astype(np.int32)})
    if name == "SplineTransformer":
        bases = clone(transformer).fit(np.zeros((2, width))).bsplines_
        words = {"degree": int(transformer.degree), "bias": bool(transformer.include_bias)}
        knots = np.array([base.t for base in bases], dtype=np.float64)
        return Part("spline", columns, words, {"knots": knots})
    raise NoFormatError(
        f"{type(transformer).__name__} has no format of ours. Use StandardScaler instead"
    )


def _affine(scaler: Any, width: int) -> tuple[Array, Array]:
    """What a fitted scaler takes off, and by what it divides.

    Parameters
    ----------
    scaler : fitted scikit-learn scaler
    width : int
    """
    scale = getattr(scaler, "scale_", None)
    scale = np.ones(width) if scale is None else np.asarray(scale, dtype=np.float64)
    if sklearn_name(scaler) == "MinMaxScaler":  # x · scale_ + min_
        return np.asarray(-scaler.min_ / scale), 1.0 / scale
    shift = getattr(scaler, "mean_" if sklearn_name(scaler) in MEAN_SCALERS else "center_", None)
    asked = getattr(scaler, "with_mean", True) and shift is not None
    return np.asarray(shift, dtype=np.float64) if asked else np.zeros(width), scale


# Imputers -------------------------------------------------------------------------------------


def _imputed(imputer: Any, columns: Seen, *, fitted: bool) -> tuple[Steps, Seen]:
    """An imputer: a part for every column whose cells may be empty; the others stay.

    Parameters
    ----------
    imputer : SimpleImputer
    columns : tuple of Column
    fitted : bool
    """
    # Columns of an array: they have no name, and true and false are numbers.
    given = [
        replace(c, name="", missing=False, cells="" if c.cells == "truth" else c.cells)
        for c in columns
    ]
    if not any(column.missing for column in columns):
        return (), tuple(given)
    if imputer.add_indicator:
        raise NoFormatError("SimpleImputer of texts gives flags. Use add_indicator=False instead")
    parts = [Part("keep", (place,)) for place in range(len(columns))]
    learnt = imputer.statistics_ if fitted else [None] * len(columns)
    for place, column in enumerate(columns):
        if column.missing:
            parts[place], changes = _filled(imputer, column, place, learnt[place])
            given[place] = replace(given[place], **changes)
    return (tuple(parts),), tuple(given)


def _filled(imputer: Any, column: Column, place: int, learnt: Any) -> tuple[Part, dict[str, Any]]:
    """What fills the empty cells of one column, and what changes of it.

    Parameters
    ----------
    imputer : SimpleImputer
    column : Column
    place : int
        Of the column.
    learnt : float, str or None
        What the imputer has learnt of it; None if it is not fitted.
    """
    texts, numbers, strategy = column.texts, column.numbers, imputer.strategy
    if strategy == "constant":
        value = imputer.fill_value
        if texts:
            text = "missing_value" if value is None else str(value)
            texts = texts if text in texts else (*texts, text)
            value = texts.index(text)
        elif value is None and column.cells == "truth":
            raise NoFormatError("SimpleImputer fills a text among flags. Use fill_value instead")
        constant = 0.0 if value is None else float(value)
        numbers = numbers and tuple(sorted({*numbers, constant}))
        part = Part("constant", (place,), {}, {"constant": np.array([constant])})
        return part, {"texts": texts, "numbers": numbers}
    levels: Sequence[Any] = texts or numbers
    if levels and strategy == "most_frequent":
        chosen = list(levels).index(learnt) if learnt in levels else 0
        values = np.arange(float(len(texts))) if texts else np.array(numbers)
        sizes = np.array([len(levels)], np.int32)
        arrays = {"chosen": np.array([chosen], np.int32), "sizes": sizes, "levels": values}
        return Part("mode", (place,), {}, arrays), {}
    if texts or strategy != "mean":
        raise NoFormatError(
            "SimpleImputer would carry a patient's value. Use strategy='mean' or 'constant', or "
            "of agreed levels 'most_frequent', instead"
        )
    value = 0.0 if learnt is None else float(learnt)
    return Part("fill", (place,), {}, {"fill": np.array([value])}), {"numbers": ()}


# Encoders -------------------------------------------------------------------------------------


def _encoded(encoder: Any, columns: Seen) -> tuple[Steps, Seen]:
    """An encoder of agreed levels: flags, or places in the encoder's own order.

    Parameters
    ----------
    encoder : OneHotEncoder or OrdinalEncoder
    columns : tuple of Column
    """
    ordinal, drop = sklearn_name(encoder) == "OrdinalEncoder", getattr(encoder, "drop", None)
    lists = [_places(own, column) for own, column in zip(encoder.categories, columns, strict=True)]
    first = [0 if drop == "first" or (drop and len(levels) == 2) else -1 for levels in lists]
    everything = tuple(range(len(columns)))
    empty = [column.missing and bool(column.texts or column.numbers) for column in columns]
    before: Steps = ()
    if any(empty) and not ordinal:  # an empty cell is a level of its own
        if any(column.missing and not own for column, own in zip(columns, empty, strict=True)):
            raise NoFormatError(
                "OneHotEncoder gets empty numbers beside levels. Use one for each instead"
            )
        fill = {"constant": np.array([_empty_place(column) for column in columns])}
        before = ((Part("constant", everything, {}, fill),),)
    if ordinal:
        lists = [levels[levels != _empty_place(column)] if own else levels
                 for levels, column, own in zip(lists, columns, empty, strict=True)]  # fmt: skip
    unknown = "ignore" if ordinal and any(empty) else _unknown(encoder, lists, columns)
    arrays: dict[str, NDArray[Any]] = {
        "levels": np.concatenate(lists),
        "sizes": np.array([len(levels) for levels in lists], np.int32),
        "dropped": np.array(first, np.int32),
    }
    part = Part("levels", everything, {"codes": ordinal, "unknown": unknown}, arrays)
    if not ordinal:
        return (*before, (part,)), (Column(step=WHOLE_STEP),) * part.width
    return _with_empty(encoder, part, empty)


def _with_empty(encoder: Any, part: Part, empty: Sequence[bool]) -> tuple[Steps, Seen]:
    """An OrdinalEncoder, with the number that it was told to give to an empty cell.

    Parameters
    ----------
    encoder : OrdinalEncoder
    part : Part
        Its places.
    empty : sequence of bool
        Of every column, whether its cells may be empty.
    """
    value = float(encoder.encoded_missing_value)
    given = tuple(Column(missing=own, step=WHOLE_STEP) for own in empty)
    if np.isnan(value) or not any(empty):
        return ((part,),), given
    fill = Part("constant", part.columns, {}, {"constant": np.full(len(given), value)})
    return ((part,), (fill,)), tuple(replace(column, missing=False) for column in given)


def _empty_place(column: Column) -> float:
    """The number that stands for an empty cell of agreed levels: none of theirs is a half."""
    return min(column.numbers, default=0.0) - 0.5


def _places(levels: Any, column: Column) -> Array:
    """Levels of an encoder as the numbers that it gets: themselves, or places among the agreed.

    Parameters
    ----------
    levels : sequence of number or str
        A level that is not agreed, and so never comes, gets a place of its own.
    column : Column
    """
    if not column.texts:
        found = np.asarray(levels, dtype=np.float64)
        if np.isnan(found).any() and not column.numbers:
            raise NoFormatError("An encoder lists nan of numbers. Use SimpleImputer before instead")
        return np.where(np.isnan(found), _empty_place(column), found)
    beyond = iter(range(len(column.texts), len(column.texts) + len(levels)))
    listed = [
        column.texts.index(level) if level in column.texts
        else _empty_place(column) if level is None or level != level
        else next(beyond)
        for level in levels
    ]  # fmt: skip
    return np.array(listed, dtype=np.float64)


def _unknown(encoder: Any, lists: Sequence[Array], columns: Seen) -> str:
    """Whether levels that an encoder does not list are refused or ignored; "error" if none can be.

    Parameters
    ----------
    encoder : OneHotEncoder or OrdinalEncoder
    lists : sequence of array
        Its levels as numbers.
    columns : tuple of Column
    """
    agreed = [column.numbers or tuple(range(len(column.texts))) for column in columns]
    complete = all(
        own and set(own) <= set(levels.tolist()) for levels, own in zip(lists, agreed, strict=True)
    )
    if complete and encoder.handle_unknown != "ignore":
        return "error"
    if encoder.handle_unknown not in ("error", "ignore"):
        raise NoFormatError(
            f"{sklearn_name(encoder)} may leave only with unknown levels an error or ignored. Use "
            "handle_unknown='error', or list all agreed levels, instead"
        )
    return str(encoder.handle_unknown)

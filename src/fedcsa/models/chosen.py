"""Which columns every part of a pipeline gets, by place or by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from fedcsa.errors import ModelError, unknown
from fedcsa.models.inputs import Column, pandas

#: Columns that stand side by side.
Seen: TypeAlias = tuple[Column, ...]


def sklearn_name(estimator: Any) -> str:
    """The class's name if it is scikit-learn's own, else ""."""
    cls = type(estimator)
    return cls.__name__ if cls.__module__.split(".")[0] == "sklearn" else ""


def split_pipeline(estimator: Any) -> tuple[list[Any], Any]:
    """The transformers of a pipeline, however nested, and its last estimator."""
    if sklearn_name(estimator) != "Pipeline":
        return [], estimator
    inner, final = split_pipeline(estimator.steps[-1][1])
    return [step for _, step in estimator.steps[:-1]] + inner, final


def is_nothing(step: Any) -> bool:
    """Whether a step passes on what it gets."""
    return step is None or (isinstance(step, str) and step == "passthrough")


def is_drop(branch: Any) -> bool:
    """Whether a branch of a ColumnTransformer drops its columns."""
    return isinstance(branch, str) and branch == "drop"


def positions(chosen: Any, columns: Seen) -> list[int]:
    """Columns of a ColumnTransformer as a list of their places.

    Parameters
    ----------
    chosen : str, int, slice, function, or sequence of str, int or bool
        A function gets an empty frame; names are those of the frame's columns.
    columns : tuple of Column
    """
    names = [column.name for column in columns]
    if callable(chosen):
        chosen = chosen(empty_frame(columns))
    if hasattr(chosen, "tolist"):
        chosen = chosen.tolist()
    if isinstance(chosen, slice) and isinstance(chosen.start or chosen.stop, str):
        start = None if chosen.start is None else names.index(chosen.start)
        stop = None if chosen.stop is None else names.index(chosen.stop) + 1
        chosen = slice(start, stop, chosen.step)
    if isinstance(chosen, str):
        chosen = [chosen]
    if isinstance(chosen, Sequence) and chosen and all(isinstance(name, str) for name in chosen):
        strange = [name for name in chosen if name not in names]
        if strange:
            raise ModelError(unknown("column of the table", strange[0], names))
        return [names.index(name) for name in chosen]
    return [int(place) for place in np.ravel(np.arange(len(columns))[chosen])]


def empty_frame(columns: Seen) -> Any:
    """A frame of these columns, with their types and no rows."""
    pd = pandas()
    texts = pd.Series(["text"])[:0]
    numbers = pd.Series([0.0])[:0]
    return pd.DataFrame({c.name: texts if c.texts else numbers for c in columns})


def branches_of(step: Any, columns: Seen) -> list[tuple[str, Any, list[int]]]:
    """Name, transformer and places of columns of every branch, the remainder last.

    Parameters
    ----------
    step : ColumnTransformer or FeatureUnion
    columns : tuple of Column
    """
    everything = list(range(len(columns)))
    if sklearn_name(step) == "FeatureUnion":
        return [(name, branch, everything) for name, branch in step.transformer_list]
    found = [(name, b, positions(chosen, columns)) for name, b, chosen in step.transformers]
    taken = {place for _, _, places in found for place in places}
    return [*found, ("remainder", step.remainder, sorted(set(everything) - taken))]


def check_named(estimator: Any, columns: Seen) -> None:
    """Raise a `ModelError` if columns of a frame are chosen by their places.

    Ids, groups and columns that the study leaves out are not in the frame, and its order is the
    study's: a place in it is another than in the user's own.

    Parameters
    ----------
    estimator : scikit-learn estimator
    columns : tuple of Column
        That it gets; those of an array are called x0, x1, … and may be chosen by place.
    """
    if [column.name for column in columns] == [f"x{k}" for k in range(len(columns))]:
        return
    for step in _first_steps(estimator):
        for name, _, chosen in step.transformers:
            if _is_by_place(chosen):
                raise ModelError(
                    f"ColumnTransformer must name the columns of {name!r}; it has their places, "
                    "and the study's table has others at these. Name the columns."
                )


def _first_steps(estimator: Any) -> list[Any]:
    """The ColumnTransformers that get the frame itself."""
    name = sklearn_name(estimator)
    if name == "ColumnTransformer":
        return [estimator]
    inner = [getattr(estimator, part, None) for part in ("regressor", "estimator")]
    if name == "FeatureUnion":
        inner = [branch for _, branch in estimator.transformer_list]
    if name == "Pipeline":
        inner = [step for _, step in estimator.steps if not is_nothing(step)][:1]
    return [step for one in inner if hasattr(one, "get_params") for step in _first_steps(one)]


def _is_by_place(chosen: Any) -> bool:
    """Whether columns are chosen by numbers, a slice of numbers or a mask."""
    if callable(chosen) or isinstance(chosen, str):
        return False
    if isinstance(chosen, slice):
        return any(isinstance(bound, int) for bound in (chosen.start, chosen.stop))
    return np.asarray(chosen).dtype.kind in "biu"


def chosen_by_name(estimator: Any, columns: Seen) -> Any:
    """A copy whose ColumnTransformers name their columns, where a function chose them.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Not fitted.
    columns : tuple of Column
        Of the frame that it gets.
    """
    from sklearn.base import clone

    copy = clone(estimator)
    _name_columns(copy, columns)
    return copy


def _chosen_by(function: Any, columns: Seen, branch: str) -> list[Column]:
    """The columns that a function chooses, if it would choose the same of the user's own frame.

    Parameters
    ----------
    function : function of a frame
    columns : tuple of Column
        Levels that are whole numbers come as texts; in the user's frame they may be numbers.
    branch : str
        Name of the branch.
    """
    numbers = tuple(
        replace(c, texts=()) if all(text.lstrip("-").isdigit() for text in c.texts) else c
        for c in columns
    )
    places = positions(function, columns)
    if places != positions(function, numbers):
        raise ModelError(
            f"ColumnTransformer must name the columns of {branch!r}: it chooses them by type, and "
            "levels that are whole numbers come as texts here. Name the columns."
        )
    if not places:
        raise ModelError(
            f"ColumnTransformer must choose a column for {branch!r}; its function finds none in "
            "the study's frame, in which flags are numbers. Name the columns, or leave it out."
        )
    return [columns[k] for k in places]


def _name_columns(estimator: Any, columns: Seen) -> None:
    """Let the ColumnTransformers that get the frame itself name their columns.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Is changed.
    columns : tuple of Column
    """
    if sklearn_name(estimator) == "Pipeline":
        real = [step for _, step in estimator.steps if not is_nothing(step)]
        _name_columns(real[0] if real else None, columns)
    if sklearn_name(estimator) == "ColumnTransformer":
        named = []
        for name, branch, chosen in estimator.transformers:
            own = _chosen_by(chosen, columns, name) if callable(chosen) else chosen
            if callable(chosen):
                _name_columns(branch, tuple(own))
                own = [column.name for column in own]
            named.append((name, branch, own))
        estimator.set_params(transformers=named)
    for part in ("regressor", "estimator"):
        inner = getattr(estimator, part, None)
        if hasattr(inner, "get_params"):
            _name_columns(inner, columns)

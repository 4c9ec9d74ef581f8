"""Which columns every part of a pipeline gets, by place or by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from fedcsa.errors import ModelError, unknown

#: Thresholds on flags and places of levels lie between whole numbers.
WHOLE_STEP = 1.0


@dataclass(frozen=True)
class Column:
    """One column on its way through a pipeline.

    Attributes
    ----------
    name : str
        Of a frame's column; "" once it is an array's.
    texts : tuple of str
        Its levels, if it holds texts; a cell is computed with as the level's place.
    missing : bool
        Whether cells may be empty.
    step : float
        Of the agreed grid for thresholds; 0 if there is none.
    numbers : tuple of float
        The only ones that it holds, if these were agreed: of a flag, of levels that are numbers.
    cells : {"", "text", "whole", "truth"}
        See `fedcsa.models.inputs.CELLS`.
    """

    name: str = ""
    texts: tuple[str, ...] = ()
    missing: bool = False
    step: float = 0.0
    numbers: tuple[float, ...] = ()
    cells: str = ""


#: Transformers that hold others.
HOLDERS = frozenset({"Pipeline", "ColumnTransformer", "FeatureUnion"})
#: Columns that stand side by side.
Seen: TypeAlias = tuple[Column, ...]
#: Gives the pandas frames of all sources by name, made when they are asked for.
Frames: TypeAlias = Callable[[], Mapping[str, Any]]


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


def codes_of(estimator: Any, n_classes: int) -> tuple[int, ...]:
    """Codes of the classes that a classifier was fitted on.

    Parameters
    ----------
    estimator : fitted scikit-learn estimator
    n_classes : int
        0 for a regressor.
    """
    return tuple(int(code) for code in estimator.classes_) if n_classes else ()


def is_nothing(step: Any) -> bool:
    """Whether a step passes on what it gets."""
    return step is None or (isinstance(step, str) and step == "passthrough")


def is_drop(branch: Any) -> bool:
    """Whether a branch of a ColumnTransformer drops its columns."""
    return isinstance(branch, str) and branch == "drop"


def positions(chosen: Any, names: Sequence[str]) -> list[int]:
    """Columns of a ColumnTransformer as a list of their places.

    Parameters
    ----------
    chosen : str, int, slice, or sequence of str, int or bool
    names : sequence of str
        Of the frame's columns.
    """
    if hasattr(chosen, "tolist"):
        chosen = chosen.tolist()
    if is_text_slice(chosen):
        start = None if chosen.start is None else _place(chosen.start, names)
        stop = None if chosen.stop is None else _place(chosen.stop, names) + 1
        chosen = slice(start, stop, chosen.step)
    if isinstance(chosen, str):
        chosen = [chosen]
    if isinstance(chosen, Sequence) and chosen and all(isinstance(name, str) for name in chosen):
        return [_place(name, names) for name in chosen]
    return [int(place) for place in np.ravel(np.arange(len(names))[chosen])]


def _place(name: str, names: Sequence[str]) -> int:
    """Place of a column.

    Parameters
    ----------
    name : str
    names : sequence of str
    """
    if name not in names:
        raise ModelError(unknown("column of the table", name, names))
    return list(names).index(name)


def is_text_slice(chosen: Any) -> bool:
    """Whether columns are chosen from one name to another."""
    return isinstance(chosen, slice) and any(
        isinstance(b, str) for b in (chosen.start, chosen.stop)
    )


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
    names = [column.name for column in columns]
    found = [(name, b, positions(chosen, names)) for name, b, chosen in step.transformers]
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
    _refuse_places(estimator)


def _refuse_places(estimator: Any) -> None:
    """Raise a `ModelError` if a ColumnTransformer that gets the frame itself chooses by place."""
    for step in _first_steps(estimator):
        for name, _, chosen in step.transformers:
            if _is_by_place(chosen):
                raise _by_place(name)


def _by_place(branch: str) -> ModelError:
    """The refusal of places in a frame."""
    return ModelError(
        f"ColumnTransformer must name the columns of {branch!r}; it gives their "
        "positions, and the study's table has another order. Name the columns."
    )


def _first_steps(estimator: Any) -> list[Any]:
    """The ColumnTransformers that get the frame itself."""
    if sklearn_name(estimator) == "ColumnTransformer":
        return [estimator]
    return [step for one in _given_all(estimator) for step in _first_steps(one)]


def _given_all(estimator: Any) -> list[Any]:
    """The estimators inside another that get all that it gets."""
    name = sklearn_name(estimator)
    inner = [getattr(estimator, part, None) for part in ("regressor", "estimator")]
    if name == "FeatureUnion":
        inner = [branch for _, branch in estimator.transformer_list]
    elif name == "Pipeline":
        inner = [step for _, step in estimator.steps if not is_nothing(step)][:1]
    elif name and isinstance(getattr(estimator, "estimators", None), list):  # votes, stacks
        inner = [pair[-1] for pair in estimator.estimators if isinstance(pair, tuple)]
    return [one for one in inner if hasattr(one, "get_params")]


def _is_by_place(chosen: Any) -> bool:
    """Whether columns are chosen by numbers, a slice of numbers or a mask."""
    if callable(chosen) or isinstance(chosen, str):
        return False
    if isinstance(chosen, slice):
        return any(isinstance(bound, int) for bound in (chosen.start, chosen.stop))
    return np.asarray(chosen).dtype.kind in "biu"


def chosen_by_name(estimator: Any, frames: Frames, *, by_place: bool = False) -> Any:
    """A copy whose ColumnTransformers name their columns, where functions or slices chose them.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Not fitted.
    frames : function without parameters
        Gives the pandas frame of every source, with the study's columns only, by its name.
    by_place : bool
        Whether columns may be chosen by their places: of arrays, or of frames that have the
        study's columns, no others, in one order.
    """
    from sklearn.base import clone

    copy = clone(estimator)
    _name_columns(copy, frames, None, by_place)
    if not by_place:
        _refuse_later_places(copy)
    return copy


def _refuse_later_places(estimator: Any) -> None:
    """Raise a `ModelError` if a later step chooses by place among columns in the frame's order."""
    for inner in _given_all(estimator):
        _refuse_later_places(inner)
    if sklearn_name(estimator) != "Pipeline":
        return
    first, *later = [step for _, step in estimator.steps if not is_nothing(step)] or [None]
    if sklearn_name(first) == "ColumnTransformer" and is_drop(first.remainder):
        return  # whose own order it is
    for step in later:
        _refuse_places(step)


def _name_columns(estimator: Any, frames: Frames, names: list[str] | None, by_place: bool) -> None:
    """Let the ColumnTransformers that get the frame itself name their columns.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Is changed.
    frames : function without parameters
    names : list of str or None
        The columns that it gets; None if it gets all.
    by_place : bool
    """
    for inner in _given_all(estimator):
        _name_columns(inner, frames, names, by_place)
    if sklearn_name(estimator) != "ColumnTransformer":
        return
    named = []
    for branch, inner, given in estimator.transformers:
        if _is_by_place(given) and not by_place:
            raise _by_place(branch)
        asked = callable(given) or is_text_slice(given) or (_is_by_place(given) and bool(frames()))
        chosen = _chosen_everywhere(given, frames, names, branch) if asked else given
        own = [chosen] if isinstance(chosen, str) else chosen
        if isinstance(own, list) and all(isinstance(name, str) for name in own):
            _name_columns(inner, frames, own, by_place)
        named.append((branch, inner, chosen))
    estimator.set_params(transformers=named)


def _chosen_everywhere(
    chosen: Any, frames: Frames, names: list[str] | None, branch: str
) -> list[str]:
    """The columns that a function or a slice chooses, if it chooses the same of every frame.

    Parameters
    ----------
    chosen : function of a frame, slice or places
    frames : function without parameters
    names : list of str or None
        As for `_name_columns`.
    branch : str
        Name of the branch.
    """
    found: dict[str, list[str]] = {}
    for site, frame in frames().items():
        own = frame if names is None else frame[names]
        try:
            places = positions(chosen(own) if callable(chosen) else chosen, list(own.columns))
        except ModelError:
            raise
        except Exception as error:  # its text may quote a cell
            raise ModelError(
                f"ColumnTransformer must be able to choose the columns of {branch!r}; its function "
                f"fails on the frame of {site!r} ({type(error).__name__}). Name the columns."
            ) from None
        found[site] = [str(own.columns[place]) for place in places]
    if not found:
        raise ModelError(
            f"ColumnTransformer must name the columns of {branch!r}: arrays have no types of "
            "columns to choose by. Use frames, or name the columns."
        )
    (first, own), *others = found.items()
    for site, other in others:
        if sorted(own) != sorted(other):
            raise ModelError(
                f"ColumnTransformer must choose the same columns for {branch!r} at every source; "
                f"the frame of {site!r} gives others than that of {first!r}. Name the columns, or "
                "give them the same types everywhere."
            )
    return own


def is_made_of(step: Any, names: Collection[str]) -> bool:
    """Whether a step holds nothing but transformers of these names, holders among them.

    Parameters
    ----------
    step : scikit-learn transformer
    names : collection of str
    """
    if step is None or isinstance(step, str):
        return True
    name = sklearn_name(step)
    return name in names and all(is_made_of(inner, names) for inner in held_by(step, name))


def held_by(step: Any, name: str) -> list[Any]:
    """The transformers that a step holds.

    Parameters
    ----------
    step : scikit-learn transformer
    name : str
        Of its class.
    """
    if name == "Pipeline":
        return [inner for _, inner in step.steps]
    if name == "ColumnTransformer":
        return [*(inner for _, inner, _ in step.transformers), step.remainder]
    return [inner for _, inner in step.transformer_list] if name == "FeatureUnion" else []


def only(name: str, rule: str, instead: str) -> str:
    """The objection to an estimator that may leave under a rule.

    Parameters
    ----------
    name : str
    rule : str
    instead : str
        What to do.
    """
    return f"{name} may leave only {rule}. {instead} instead"

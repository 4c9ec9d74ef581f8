"""What cells are in the sources' own frames, and those frames as a pipeline would get them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from fedcsa.core.table import MISSING_MARK
from fedcsa.data.cells import is_text, number_of
from fedcsa.data.columns import OTHER
from fedcsa.data.frames import column_names, frame_columns, pandas_frame
from fedcsa.errors import DataError
from fedcsa.models.chosen import chosen_by_name
from fedcsa.models.inputs import are_whole

if TYPE_CHECKING:
    import pyarrow as pa


def typed_inputs(
    inputs: Sequence[Mapping[str, Any]], sources: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Inputs that say what their cells are in the frames of all sources, see `Input.cells`.

    Parameters
    ----------
    inputs : sequence of mapping
        As `Columns.inputs` gives them.
    sources : mapping of str to array or frame
        An array says nothing of it.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedcsa import Columns
    >>> inputs = Columns({"smoker": "flag", "ward": ["1", "2"]}).inputs
    >>> frame = pd.DataFrame({"smoker": [True, False], "ward": [1, 2]})
    >>> [item["cells"] for item in typed_inputs(inputs, {"north": frame})]
    ['truth', 'whole']
    """
    seen: dict[str, set[str]] = {item["name"]: set() for item in inputs}
    for site, X in sources.items():
        present = column_names(X)
        if present is None:
            continue
        names = [name for name in seen if name in present]
        for name, column in frame_columns(X, names, f"Source {site!r}").items():
            seen[name] |= {_word(column.type)} - {""}
    return [{**item, "cells": _cells(item, seen[item["name"]])} for item in inputs]


def _word(kind: pa.DataType) -> str:
    """What cells of a type are; "" if there are none."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _word(kind.value_type)
    if pa.types.is_boolean(kind):
        return "truth"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "number"
    if pa.types.is_null(kind):
        return ""
    return "text" if is_text(kind) else "other"


def _cells(item: Mapping[str, Any], seen: set[str]) -> str:
    """What the cells of an input are, if that is the same at all sources.

    Parameters
    ----------
    item : mapping
        Of `inputs`.
    seen : set of str
        What they are at the sources.
    """
    levels = item["levels"]
    if seen == {"truth"}:
        return "" if item["kind"] == "date" or {*levels} & {OTHER, "missing"} else "truth"
    if not levels or seen not in ({"text"}, {"number"}):
        return ""
    if seen == {"text"}:
        return "text"
    if are_whole(levels):
        return "whole"
    codes = [level for level in levels if level not in (OTHER, "missing")]
    if are_whole(codes):  # among texts
        return ""
    if all(number_of(level) is not None for level in codes):
        raise DataError(
            f"Column {item['name']!r} must have texts or small whole numbers as levels for this "
            "pipeline; its levels are other numbers. Describe it as a number, or make texts of it."
        )
    return "text"


def chosen_of_frames(
    estimator: Any, inputs: Sequence[Mapping[str, Any]], sources: Mapping[str, Any]
) -> Any:
    """A pipeline that names the columns which it chooses of the sources' own frames.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Not fitted.
    inputs : sequence of mapping
    sources : mapping of str to array or frame
    """
    names = [item["name"] for item in inputs]
    orders = [column_names(X) for X in sources.values()]
    same = all(order is not None and list(order) == names for order in orders)
    by_place = same or all(order is None for order in orders)
    frames = cache(lambda: own_frames(inputs, sources))
    return chosen_by_name(estimator, frames, by_place=by_place)


def in_own_order(
    inputs: Sequence[dict[str, Any]], sources: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Inputs in the order of the first source's frame; flags of empty cells behind their columns.

    Parameters
    ----------
    inputs : sequence of mapping
    sources : mapping of str to array or frame
    """
    names = next(iter(map(column_names, sources.values())), None)
    if names is None:
        return list(inputs)

    def place(item: dict[str, Any]) -> tuple[int, bool]:
        name = item["name"]
        return names.index(name.removesuffix(MISSING_MARK)), name not in names

    return sorted(inputs, key=place)


def own_frames(inputs: Sequence[Mapping[str, Any]], sources: Mapping[str, Any]) -> dict[str, Any]:
    """The frames of all sources as pandas frames of the study's columns, in their own order.

    The flags of empty cells, which the study adds, stand beside their columns.

    Parameters
    ----------
    inputs : sequence of mapping
    sources : mapping of str to array or frame
        Arrays are left out.
    """
    wanted = {item["name"] for item in inputs}
    found = {}
    for site, X in sources.items():
        names = column_names(X)
        if names is None:
            continue
        frame = pandas_frame(X, [name for name in names if name in wanted], f"Source {site!r}")
        for mark in wanted - set(names):
            place = list(frame.columns).index(mark.removesuffix(MISSING_MARK)) + 1
            frame.insert(place, mark, 0.0)
        found[site] = frame
    return found

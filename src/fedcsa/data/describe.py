"""Columns described once, in Python or in a study file, as a coding for all sites."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from fedcsa.data.encoding import KINDS, Coding, Feature
from fedcsa.errors import ParameterError, must, unknown

#: What may be said of a column.
KEYS = tuple(item.name for item in dataclasses.fields(Feature) if item.name != "name")
#: Kinds that need nothing said beside them.
_WORDS = tuple(kind for kind in KINDS if kind != "levels")


def describe_columns(columns: Mapping[str, Any]) -> Coding:
    """The coding that a description of columns means.

    Parameters
    ----------
    columns : mapping of str to str, sequence or mapping
        By the name of a column: ``"number"``, ``"flag"`` or ``"group"``; or its levels in
        the agreed order; or a mapping with ``kind``, ``levels``, ``sd``, ``missing``, ``fill``,
        as in `Feature`.

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
        options = spelled_out(value)
        if options is None:
            got = value if isinstance(value, str) else type(value).__name__
            problems.append(str(must(f"columns[{name!r}]", WORDS_OF_A_COLUMN, got)))
            continue
        strange = [key for key in options if key not in KEYS]
        problems += [unknown(f"key of columns[{name!r}]", str(key), KEYS) for key in strange]
        if not strange:
            try:
                features.append(Feature(name, **options))
            except ParameterError as error:
                problems.append(f"columns[{name!r}]: {error}")
    if problems:
        raise ParameterError("\n".join(problems))
    return Coding(tuple(features))


WORDS_OF_A_COLUMN = '"number", "flag", "group", a list of levels, or a table with a kind'


def spelled_out(value: Any) -> dict[str, Any] | None:
    """The options of a feature that a short or full description gives; None if it is neither.

    >>> spelled_out("flag"), spelled_out(["F", "M"]), spelled_out(7)
    ({'kind': 'flag'}, {'kind': 'levels', 'levels': ['F', 'M']}, None)
    """
    if isinstance(value, str):
        return {"kind": value} if value in _WORDS else None
    if isinstance(value, list | tuple):
        return {"kind": "levels", "levels": [*value]}
    if isinstance(value, Mapping):
        own = dict(value)
        own.setdefault("kind", "levels" if "levels" in own else "number")
        return own
    return None

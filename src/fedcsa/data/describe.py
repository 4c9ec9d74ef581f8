"""Columns described once, in Python or in a study file, as a coding for all sites."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedcsa.data.cells import MISSING, flag_codes, numbers
from fedcsa.data.columns import sentence_start
from fedcsa.data.encoding import KINDS, Coding, Feature
from fedcsa.errors import DataError, ParameterError, must, unknown

if TYPE_CHECKING:
    import pyarrow as pa

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


def guess_columns(table: pa.Table, where: str) -> Coding:
    """A coding of all columns of a table: numbers, and flags where all cells are 0 and 1.

    Parameters
    ----------
    table : pyarrow.Table
    where : str
        Whose table it is, for the sentence.

    Raises
    ------
    DataError
        If a column holds something else: its levels must be agreed.
    """
    if not table.num_columns or not table.num_rows:
        raise DataError(f"{sentence_start(where)} must have rows and columns; it has none.")
    kinds = {name: _kind(table.column(place)) for place, name in enumerate(table.column_names)}
    texts = [repr(name) for name, kind in kinds.items() if kind is None and name.isprintable()]
    if None in kinds.values():
        raise DataError(
            f"{sentence_start(where)} must hold numbers to be read without a study file; other "
            f"columns: {', '.join(texts[:5])}{' …' if len(texts) > 5 else ''}. Describe them in a "
            "study file, with their levels."
        )
    if len(kinds) < table.num_columns:
        raise DataError(f"{sentence_start(where)} must have every column once; one stands twice.")
    return describe_columns(kinds)


def _kind(column: pa.ChunkedArray) -> str | None:
    problems: list[str] = []
    codes = flag_codes(column, "", problems)
    if not problems and (codes != MISSING).all():
        return "flag"
    problems.clear()
    numbers(column, "", problems)
    return None if problems else "number"

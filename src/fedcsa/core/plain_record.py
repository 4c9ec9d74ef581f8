"""Records out of plain values of a file that anybody may have edited: every type is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from fedcsa.core.arrays import is_whole

Held = TypeVar("Held")
#: What an annotation that may be None ends with.
OR_NONE = " | None"
#: No count is larger: up to here every whole number has a float of its own.
MOST = 2**53


def record_of(kind: type[Held], content: Mapping[str, Any]) -> Held:
    """A record whose fields are texts, truth values, numbers, or a few numbers.

    Parameters
    ----------
    kind : type
        A dataclass in a module with postponed annotations.
    content : mapping of str to object
        As JSON holds it: a number that is not known is None.

    Raises
    ------
    ValueError, TypeError, KeyError
        If a field is missing, or of another type.
    """
    told = {item.name: str(item.type) for item in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: plain_value(how, content[name]) for name, how in told.items()})


def plain_value(how: str, value: Any) -> Any:
    """One value, checked.

    Parameters
    ----------
    how : str
        The field's annotation.
    value : object

    Examples
    --------
    >>> plain_value("float", 2), plain_value("float", None), plain_value("str | None", None)
    (2.0, nan, None)
    """
    if how.endswith(OR_NONE) and value is None:
        return None
    return _READERS[how.removesuffix(OR_NONE).split("[")[0]](value)


def _exactly(kind: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError
        return value

    return read


def _whole(value: Any) -> int:
    if not is_whole(value, 0) or value > MOST:
        raise TypeError
    return int(value)


def _number(value: Any) -> float:
    found = float("nan") if value is None else float(value)
    if isinstance(value, str | bool) or np.isinf(found):
        raise TypeError
    return found


def _numbers(count: int) -> Callable[[Any], tuple[float, ...]]:
    def read(values: Any) -> tuple[float, ...]:
        if not isinstance(values, list | tuple) or len(values) != count:
            raise TypeError
        return tuple(_number(value) for value in values)

    return read


#: How every annotation is read, without what stands in its brackets.
_READERS: Mapping[str, Callable[[Any], Any]] = {
    "str": _exactly(str),
    "Literal": _exactly(str),
    "bool": _exactly(bool),
    "int": _whole,
    "float": _number,
    "tuple": _numbers(2),
    "Three": _numbers(3),
}

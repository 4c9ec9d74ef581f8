"""What a message is made of: nine kinds of field, checked when a message is made."""

from __future__ import annotations

import copyreg
import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import read_only
from fedcsa.errors import MessageError

Kind: TypeAlias = Literal[
    "text", "whole", "number", "flag", "plain", "vector", "matrix", "blob", "arrays"
]

MAX_TEXT = 200
MAX_DEPTH = 40
MAX_WHOLE = 2**63
#: Arrays by name, in one field: sixty trees' models of ten arrays each, with their steps.
MAX_ARRAYS = 1000
#: A forest of 500 trees with 1,000 leaves each has 28 MiB.
MAX_ARRAYS_BYTES = 64 << 20
#: What an array by name may be made of; anything else has no meaning in a model.
ARRAY_TYPES: Mapping[str, Any] = {"f8": np.float64, "i4": np.int32}
#: No array of a model has more dimensions than (nodes, classes).
MAX_DIMENSIONS = 2
#: Of every kind of array: its types, how many dimensions it may have, and how to say so.
ARRAY_KINDS: Mapping[str, tuple[Sequence[Any], Sequence[int], str]] = {
    "vector": ((np.float64,), (1,), "1 dimension(s) of float64"),
    "matrix": ((np.float64,), (2,), "2 dimension(s) of float64"),
    "blob": ((np.uint8,), (1,), "1 dimension(s) of uint8"),
    "arrays": (
        (*ARRAY_TYPES.values(),),
        range(MAX_DIMENSIONS + 1),
        f"at most {MAX_DIMENSIONS} dimensions of float64 or int32",
    ),
}
#: Short and plain, so that a name carries nothing.
_ARRAY_NAME = re.compile("[a-z0-9_.]{1,60}")

#: The kind of a model that is handed over as an object, in one process.
HELD = "held"


def wire_field(kind: Kind, make: Callable[[], Any] | None = None) -> Any:
    """A field of a message, of one of the kinds that the codec knows.

    Parameters
    ----------
    kind : str
    make : function, optional
        Makes the value of a message that is made without the field; one that came has every field.
    """
    if make is None:
        return field(metadata={"kind": kind})
    return field(default_factory=make, metadata={"kind": kind})


@dataclass(frozen=True, eq=False, repr=False)
class Message:
    """Base of all messages: checks every field's kind, compares by value, shows no data.

    `kinds` has the name and kind of every field that a message has on the wire, in their order.
    """

    name: ClassVar[str]
    kinds: ClassVar[Mapping[str, Kind]]

    study: str = wire_field("text")

    def __init_subclass__(cls) -> None:
        own = [item for item in vars(cls).items() if isinstance(item[1], dataclasses.Field)]
        found = [*cls.__dataclass_fields__.items(), *own]  # its parent's, until it has its own
        kinds = {n: item.metadata["kind"] for n, item in found if "kind" in item.metadata}
        cls.kinds = MappingProxyType(kinds)

    def __post_init__(self) -> None:
        for name, kind in self.kinds.items():
            where, value = f"{self.name}.{name}", getattr(self, name)
            if kind == "plain":
                value = _frozen(where, value, MAX_DEPTH)
            elif kind == "arrays":
                value = _named_arrays(where, value)
            elif kind in ARRAY_KINDS:
                value = _own_array(where, kind, value)
            else:
                types, become, words = _SINGLE[kind]
                sound = isinstance(value, types) and isinstance(value, bool) == (kind == "flag")
                if sound and kind == "text":
                    sound = len(value) <= MAX_TEXT
                elif sound and kind == "whole":
                    sound = 0 <= value < MAX_WHOLE
                elif sound and kind == "number":
                    whole = isinstance(value, int)
                    sound = abs(value) < MAX_WHOLE if whole else math.isfinite(value)
                if not sound:
                    raise MessageError(f"{where} must be {words}.")
                value = become(value)
            object.__setattr__(self, name, value)
        for holds, rule in self.must_have():
            if not holds:
                raise MessageError(f"{named(type(self))} message must have {rule}.")

    @property
    def is_held(self) -> bool:
        """Whether it hands over an object, and so cannot leave this process."""
        return bool(self.__dict__.get("held"))

    def buffers(self) -> list[tuple[str, NDArray[Any]]]:
        """Name and content of every array, as they follow each other; ``"arrays.value"``."""
        found = []
        for name, kind in self.kinds.items():
            value = getattr(self, name)
            if kind == "arrays":
                found += [(f"{name}.{key}", array) for key, array in value.items()]
            elif kind in ARRAY_KINDS:
                found.append((name, value))
        return found

    def must_have(self) -> Iterable[tuple[object, str]]:
        """Whether it has what its fields need to fit together, and what that is, in words."""
        return ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        if self is other:
            return True
        arrays = zip(self.buffers(), other.buffers(), strict=False)
        return _outline(self) == _outline(other) and all(
            np.array_equal(one, another) for (_, one), (_, another) in arrays
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shapes = "".join(f", {name}{array.shape}" for name, array in self.buffers())
        return f"{type(self).__name__}(study={self.study!r}{shapes})"


def _outline(message: Message) -> tuple[Any, ...]:
    """All of a message but the numbers in its arrays; objects are the same only if they are one."""
    held = message.__dict__.get("held")
    objects = [id(item) for item in (held if isinstance(held, tuple) else (held,))]
    arrays = [(name, array.dtype, array.shape) for name, array in message.buffers()]
    kinds = message.kinds.items()
    return objects, arrays, [getattr(message, n) for n, kind in kinds if kind not in ARRAY_KINDS]


#: The shortest JSON of a value inside a message.
to_json = json.JSONEncoder(
    allow_nan=False, ensure_ascii=True, separators=(",", ":"), default=dict
).encode


def parse_json(text: bytes) -> Any:
    """What `to_json` wrote: ASCII, every key once, finite numbers; else a `ValueError`."""
    try:
        return json.loads(text.decode("ascii"), object_pairs_hook=_distinct, parse_constant=_refuse)
    except RecursionError:
        raise ValueError from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) != len(pairs):
        raise ValueError
    return keys


def _refuse(_: str) -> Any:
    raise ValueError


#: Of every kind of a single value: its types, what it becomes, and how to say so.
_SINGLE: Mapping[str, tuple[Any, type, str]] = {
    "text": (str, str, f"a text of at most {MAX_TEXT} characters"),
    "flag": (bool, bool, "true or false"),
    "whole": (int | np.integer, int, "a whole number from 0 up"),
    "number": (int | float | np.floating, float, "a finite number"),
}


def _named_arrays(where: str, value: Any) -> Mapping[str, NDArray[Any]]:
    """Arrays by name, in the names' order, so that equal models are equal bytes."""
    if not isinstance(value, Mapping) or len(value) > MAX_ARRAYS:
        raise MessageError(f"{where} must be at most {MAX_ARRAYS} arrays by name.")
    n_bytes = 0
    for name, array in value.items():
        if not (isinstance(name, str) and _ARRAY_NAME.fullmatch(name)):
            raise MessageError(f"{where} must have short names of small letters and digits.")
        n_bytes += getattr(array, "nbytes", 0)
    if n_bytes > MAX_ARRAYS_BYTES:
        raise MessageError(f"{where} must have at most {MAX_ARRAYS_BYTES} bytes in all.")
    return MappingProxyType(
        {name: _own_array(f"{where}.{name}", "arrays", value[name]) for name in sorted(value)}
    )


def _own_array(where: str, kind: Kind, value: Any) -> NDArray[Any]:
    """An array of the right kind, read-only; a copy if anybody else could still change it."""
    types, dimensions, words = ARRAY_KINDS[kind]
    if not isinstance(value, np.ndarray) or not (value.dtype in types and value.ndim in dimensions):
        raise MessageError(f"{where} must be an array of {words}.")
    value = np.asarray(value)  # a masked array would hide what is not finite
    if not np.isfinite(value).all():
        raise MessageError(f"{where} must be finite.")
    base: Any = value
    while isinstance(base, np.ndarray) and not base.flags.writeable:
        base = base.base
    held = base.readonly if isinstance(base, memoryview) else not isinstance(base, bytearray)
    if isinstance(base, np.ndarray) or not held:
        # Over bytes, which nobody can make writable again.
        return np.ndarray(value.shape, value.dtype, value.tobytes())
    return read_only(np.asarray(value, order="C"))


def named(message: type[Message]) -> str:
    """How a sentence about a kind of message begins, such as "An examination"."""
    return f"{'An' if message.name[0] in 'aeiou' else 'A'} {message.name}"


def is_form(form: Any, held: Any) -> bool:
    """Whether `form` names the kind of a model; an object's is ``"held"``, and only an object's."""
    kind = form.get("kind") if isinstance(form, Mapping) else None
    return isinstance(kind, str) and (kind == HELD) == (held is not None)


def frozen_mapping(items: dict[str, Any]) -> MappingProxyType[str, Any]:
    """A mapping that nobody can change."""
    return MappingProxyType(items)


# A fitted estimator can be copied and kept as any other of scikit-learn's.
copyreg.pickle(MappingProxyType, lambda view: (frozen_mapping, (dict(view),)))


def _frozen(where: str, value: Any, depth: int) -> Any:
    """Plain values that nobody can change: each exactly a str, bool, int, float, tuple or mapping.

    Parameters
    ----------
    where : str
    value : object
    depth : int
        Levels that it may have.
    """
    if depth == 0:
        raise MessageError(f"{where} must not be nested more than {MAX_DEPTH} levels deep.")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):  # by far the most frequent
        if not (abs(value) < MAX_WHOLE if isinstance(value, int) else math.isfinite(value)):
            raise MessageError(f"{where} must hold finite numbers.")
        return float(value) if isinstance(value, float) else int(value)  # not one of numpy's
    if isinstance(value, str):
        if len(value) > 10 * MAX_TEXT:
            raise MessageError(f"{where} must hold texts of at most {10 * MAX_TEXT} characters.")
        return str(value)
    inner = partial(_frozen, where, depth=depth - 1)
    if type(value) is dict or isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or len(key) > MAX_TEXT:
                raise MessageError(f"{where} must have short texts as keys.")
        items = map(inner, value.values())
        return MappingProxyType(dict(zip(map(str, value), items, strict=True)))
    if isinstance(value, list | tuple):
        return tuple(map(inner, value))
    raise MessageError(f"{where} must hold plain values only.")

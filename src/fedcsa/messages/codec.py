"""Messages as bytes and back: a closed, versioned format of our own.

::

    4 bytes   "FCSA"
    2 bytes   version of the protocol, little-endian
    4 bytes   length of the header
    header    JSON: {"kind": …, "values": {…}, "shapes": {…}}
    arrays    little-endian float64, int32 or bytes, one after the other in the fields' order

The kind of message fixes the types of its arrays; only the arrays of a model have names, in
alphabetical order, and one of two types: ``{"value": ["f8", 3, 2]}``. Nothing is unpickled, no
type is looked up by name, nothing is allocated beyond the bytes that came.
"""

from __future__ import annotations

import hashlib
import math
import struct
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcsa.errors import MessageError
from fedcsa.messages.fields import (
    ARRAY_KINDS,
    ARRAY_TYPES,
    MAX_ARRAYS,
    MAX_DIMENSIONS,
    Message,
    named,
    parse_json,
    to_json,
)
from fedcsa.messages.messages import MESSAGES

PROTOCOL_VERSION = 9
MAGIC = b"FCSA"
#: A million target rows of 30 columns, in the exchange of rows, fit.
MAX_BYTES = 256 << 20
#: Ten thousand candidates fit. As plain values, JSON of this size unfolds to 80 MB at most.
MAX_HEADER_BYTES = 1 << 20

#: An array without elements may still have a long side, though not one that only a liar needs.
EMPTY_SIDE = 1 << 16

#: One field of a message, or one of a model's arrays: its name, shape and bytes.
WirePart: TypeAlias = tuple[str, tuple[int, ...], bytes]
_PREFIX = struct.Struct("<4sHI")
#: The word for a type in the header, by the array's own.
_TYPE_WORDS = {np.dtype(kind): word for word, kind in ARRAY_TYPES.items()}


def encode(message: Message) -> bytes:
    """Bytes of a message as it leaves; the same message always gives the same bytes.

    A message cannot change, so they are made once and kept with it.
    """
    if message.is_held:
        raise MessageError(
            f"{named(type(message))} message that hands over an object cannot leave this process. "
            "Choose a model that has a format of ours."
        )
    kept: bytes | None = message.__dict__.get("_wire")
    if kept is None:
        kept = written(message)[0]
        object.__setattr__(message, "_wire", kept)
    return kept


def written(message: Message) -> tuple[bytes, list[WirePart]]:
    """Every field of a message as bytes; of an object that it hands over, the class alone.

    Returns
    -------
    wire : bytes
        The whole message.
    parts : list of WirePart
        The same field by field, for the ledger.
    """
    values, shapes = dict[str, Any](), dict[str, Any]()
    parts, chunks = list[WirePart](), list[bytes]()
    for name, kind in message.kinds.items():
        value = getattr(message, name)
        if kind not in ARRAY_KINDS:
            values[name] = value
            single = isinstance(value, str) or not hasattr(value, "__len__")
            parts.append((name, () if single else (len(value),), to_json(value).encode()))
            continue
        by_name = kind == "arrays"
        shapes[name] = {} if by_name else list(value.shape)
        for key, array in value.items() if by_name else [(name, value)]:
            if by_name:
                shapes[name][key] = [_TYPE_WORDS[array.dtype], *array.shape]
            chunk = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
            chunks.append(chunk)
            parts.append((f"{name}.{key}" if by_name else name, array.shape, chunk))
    content = {"kind": message.name, "shapes": shapes, "values": values}
    header = to_json(content).encode("ascii")
    if len(header) > MAX_HEADER_BYTES:
        raise MessageError(
            f"{named(type(message))} message must have a header of at most {MAX_HEADER_BYTES} "
            f"bytes; it has {len(header)}. Use fewer candidates or features."
        )
    wire = _PREFIX.pack(MAGIC, PROTOCOL_VERSION, len(header)) + header + b"".join(chunks)
    if len(wire) > MAX_BYTES:
        raise MessageError(f"A message must have at most {MAX_BYTES} bytes; it has {len(wire)}.")
    return wire, parts


def decode(wire: bytes, max_bytes: int = MAX_BYTES) -> Message:
    """The message in `wire`, or a `MessageError`, whatever the bytes are."""
    if len(wire) > max_bytes:
        raise MessageError(f"A message must have at most {max_bytes} bytes; {len(wire)} came.")
    if len(wire) < _PREFIX.size:
        raise MessageError(f"A message must have at least {_PREFIX.size} bytes; {len(wire)} came.")
    magic, version, header_length = _PREFIX.unpack_from(wire)
    if magic != MAGIC:
        raise MessageError(
            "These bytes are not a fedcsa message. Let nothing change what a site sends."
        )
    if version != PROTOCOL_VERSION:
        raise MessageError(
            f"The message has protocol version {version}; this site has {PROTOCOL_VERSION}. "
            "Install the same version of fedcsa at every site."
        )
    body = _PREFIX.size + header_length
    if header_length > MAX_HEADER_BYTES or body > len(wire):
        raise MessageError("A message's header must fit into the message; this one is cut off.")
    try:
        header = parse_json(wire[_PREFIX.size : body])
    except ValueError:
        raise MessageError(
            "A message's header must be well-formed JSON; this one is not."
        ) from None
    if not isinstance(header, dict) or set(header) != {"kind", "shapes", "values"}:
        raise MessageError("A message's header must have a kind, shapes and values, no more.")
    kind = header["kind"]
    if not isinstance(kind, str) or kind not in MESSAGES:
        raise MessageError("A message must be of a known kind; this one is not.")
    return _assemble(MESSAGES[kind], header["shapes"], header["values"], memoryview(wire)[body:])


def decode_kept(wire: bytes) -> Message:
    """A message that this machine kept, whichever protocol version wrote it.

    Its fields must be those of now: otherwise there is a `MessageError`, as for any other bytes.
    """
    version = struct.pack("<H", PROTOCOL_VERSION)
    return decode(wire[: len(MAGIC)] + version + wire[len(MAGIC) + len(version) :])


def digest(wire: bytes) -> str:
    """SHA-256 of a message's bytes, by which a reply names what it replies to."""
    return hashlib.sha256(wire).hexdigest()


def digest_of(message: Message, wire: bytes | None = None) -> str:
    """The digest of a message, by which a reply names its question; kept with it.

    Parameters
    ----------
    message : Message
    wire : bytes, optional
        As `written` gives them, for whoever has them.
    """
    kept: str | None = message.__dict__.get("_digest")
    if kept is None:
        kept = digest(wire or message.__dict__.get("_wire") or written(message)[0])
        object.__setattr__(message, "_digest", kept)
    return kept


def _assemble(cls: type[Message], shapes: Any, values: Any, payload: memoryview) -> Message:
    fields = cls.kinds
    arrays = [name for name, kind in fields.items() if kind in ARRAY_KINDS]
    plain = fields.keys() - set(arrays)
    if not isinstance(shapes, dict) or set(shapes) != set(arrays):
        raise MessageError(f"{named(cls)} message must have the arrays {arrays}, no others.")
    if not isinstance(values, dict) or set(values) != plain:
        raise MessageError(f"{named(cls)} message must have the values {sorted(plain)}, no others.")
    content: dict[str, Any] = dict(values)
    offset = 0
    for name in arrays:
        where = f"{cls.name}.{name}"
        if fields[name] == "arrays":
            content[name], offset = _take_named(where, payload, offset, shapes[name])
            continue
        (dtype,), (ndim,), _ = ARRAY_KINDS[fields[name]]
        content[name], offset = _take(where, payload, offset, shapes[name], dtype, ndim)
    if offset != len(payload):
        raise MessageError(f"{named(cls)} message must end with its arrays; more bytes follow.")
    try:
        return cls(**content)
    except (MessageError, MemoryError):  # out of memory is for whoever set the limit to judge
        raise
    except Exception:
        raise MessageError(f"{named(cls)} message must be well-formed; this one is not.") from None


def _take_named(
    where: str, payload: memoryview, offset: int, shapes: Any
) -> tuple[dict[str, NDArray[Any]], int]:
    """Arrays by name; their names' order and types are as `encode` writes them."""
    if not isinstance(shapes, dict) or len(shapes) > MAX_ARRAYS or list(shapes) != sorted(shapes):
        raise MessageError(f"{where} must be at most {MAX_ARRAYS} arrays in alphabetical order.")
    found = {}
    for name, told in shapes.items():
        named = isinstance(told, list) and 0 < len(told) <= 1 + MAX_DIMENSIONS
        if not named or not isinstance(told[0], str) or told[0] not in ARRAY_TYPES:
            raise MessageError(f"{where} must have arrays of a known type and a shape.")
        word, *shape = told
        array, offset = _take(where, payload, offset, shape, ARRAY_TYPES[word], len(shape))
        found[name] = array
    return found, offset


def _take(
    where: str, payload: memoryview, offset: int, shape: Any, dtype: Any, ndim: int
) -> tuple[NDArray[Any], int]:
    whole = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    if not whole or len(shape) != ndim:
        raise MessageError(f"{where} must have {ndim} whole number(s) as its shape.")
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size > len(payload) - offset or max(shape, default=0) > max(len(payload), EMPTY_SIDE):
        raise MessageError(f"{where} must fit into the message; the message is cut off.")
    little = np.dtype(dtype).newbyteorder("<")
    array = np.frombuffer(payload[offset : offset + size], dtype=little).reshape(shape)
    return array.astype(dtype, copy=False), offset + size

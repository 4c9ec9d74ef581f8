"""Our bytes inside FLARE's container, and back: a closed set of keys, sizes checked first."""

from __future__ import annotations

from typing import Any

from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import ReservedHeaderKey, Shareable, make_reply

from fedcsa.errors import MessageError
from fedcsa.federation.flare.seal import BLOCK
from fedcsa.messages.codec import MAX_BYTES
from fedcsa.messages.envelope import MAX_ENVELOPE_BYTES

#: A site has no other way to say something.
LETTER_KEYS = {"envelope", "payload", "envelopes", "payloads", "phase", "conclusion", "replies"}
#: Under which a container holds a letter.
_LETTER = "fedcsa"
#: Bytes of a phase's name.
_LONGEST_PHASE = 20
#: A closed message is filled up to whole blocks, with a key and a tag before and after.
_AROUND = 2 * BLOCK


def pack(content: dict[str, Any]) -> Shareable:
    """A container with `content`."""
    shareable = make_reply(ReturnCode.OK)
    shareable[_LETTER] = content
    return shareable


def unpack(shareable: Shareable) -> dict[str, Any]:
    """The content of a container, or a `MessageError`, whatever is in it."""
    content = shareable.get(_LETTER)
    if not isinstance(content, dict) or not set(content) <= LETTER_KEYS:
        raise MessageError("A letter must have the agreed entries only.")
    _check("letter", content)
    return content


def is_bare(shareable: Shareable) -> bool:
    """Whether nothing but one letter and a return code is in a container.

    The engine adds headers of its own after the site's filter.
    """
    headers = shareable.get(ReservedHeaderKey.HEADERS) or {}
    known = {_LETTER, ReservedHeaderKey.HEADERS}
    return set(shareable) <= known and set(headers) <= {ReservedHeaderKey.RC}


def _check(key: str, value: Any, depth: int = 4) -> None:
    """Raise a `MessageError` unless a part of a letter holds short names and bytes only.

    Parameters
    ----------
    key : str
        Its name.
    value : object
    depth : int
        Of parts within it, at most.
    """
    if isinstance(value, dict) and depth:
        for name, item in value.items():
            if not isinstance(name, str) or len(name) > 200:
                raise MessageError("A letter must have short names.")
            _check(name if key != "envelopes" else "envelope", item, depth - 1)
    elif isinstance(value, bytes):
        small = {"envelope": MAX_ENVELOPE_BYTES, "phase": _LONGEST_PHASE}
        most = small.get(key, MAX_BYTES + _AROUND)
        if len(value) > most:
            raise MessageError(f"The {key[:20]!r} of a letter must have at most {most} bytes.")
    else:
        raise MessageError("A letter must hold bytes only.")

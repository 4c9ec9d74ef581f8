"""Ways in which messages and files are changed."""

import json
import struct

PREFIX = struct.Struct("<4sHI")

STRANGE = [
    None, True, False, 0, -1, 1, 2, 7, 2**31 - 1, 2**31, -(2**31), 2**53, 2**63 - 1, 2**63, 10**30,
    0.5, -0.0, 1e-300, 1e300, -1e300, "", "a", "é", "x" * 300, "\x00", "held", "trees", "linear",
    "design", "points", "sklearn.svm.SVR", "../../etc", [], [[]], {}, {"": 0}, [0, 1], ["f8", 3],
    ["i4", 2**40], {"kind": "held"}, [None] * 20, {"kind": "trees"},
]  # fmt: skip
CELLS = [
    b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80",
    b"\xfe\xff\xff\xff", b"\x02\x00\x00\x00", struct.pack("<d", float("nan")),
    struct.pack("<d", float("inf")), struct.pack("<d", 1e300), struct.pack("<d", -1e300),
    struct.pack("<d", 5e-324), struct.pack("<d", 1e6),
]  # fmt: skip


def any_of(rng, values):
    return values[int(rng.integers(len(values)))]


def change_bytes(rng, wire, other):
    """One of the ways in which bytes go wrong on their way, or are made to."""
    wire, how = bytearray(wire), int(rng.integers(6))
    at = int(rng.integers(max(len(wire), 1)))
    length = int(rng.integers(1, 40))
    if how == 0 or not wire:
        for _ in range(int(rng.integers(1, 8))):
            wire[int(rng.integers(len(wire)))] = int(rng.integers(256))
    elif how == 1:
        cell = any_of(rng, CELLS)
        wire[at : at + len(cell)] = cell
    elif how == 2:
        del wire[at : at + length]
    elif how == 3:
        wire[at:at] = wire[at : at + length] * int(rng.integers(1, 50))
    elif how == 4:
        wire = wire[:at]
    else:
        wire[at:] = other[int(rng.integers(len(other))) :]
    return bytes(wire)


def change_value(rng, value):
    """The same plain values with one of them, or one of their names, replaced."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = any_of(rng, sorted(value))
        changed = {**value, key: change_value(rng, value[key])}
        if rng.random() < 0.1:
            changed[f"{key}x"] = changed.pop(key)
        return changed
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = int(rng.integers(len(value)))
        if rng.random() < 0.1:
            return value[:at] + value[at + 1 :]
        return [*value[:at], change_value(rng, value[at]), *value[at + 1 :]]
    return any_of(rng, STRANGE)


def change_message(rng, wire, other):
    """A message whose header or one of whose arrays is changed, or whose bytes are."""
    body = PREFIX.size + PREFIX.unpack_from(wire)[2]
    chance = rng.random()
    if chance < 0.35:
        header = change_value(rng, json.loads(wire[PREFIX.size : body]))
        content = json.dumps(header, separators=(",", ":")).encode()
        return wire[:6] + struct.pack("<I", len(content)) + content + wire[body:]
    if chance < 0.7 and len(wire) > body + 8:
        payload = bytearray(wire[body:])
        for _ in range(int(rng.integers(1, 4))):
            cell = any_of(rng, CELLS)
            at = 4 * int(rng.integers((len(payload) - len(cell)) // 4 + 1))
            payload[at : at + len(cell)] = cell
        return wire[:body] + bytes(payload)
    return change_bytes(rng, wire, other)


def change_text(rng, text, other):
    """A file with one of its tokens replaced, or its bytes changed."""
    if rng.random() < 0.5 and text[:1] == b"{":
        try:
            return json.dumps(change_value(rng, json.loads(text))).encode()
        except ValueError:
            pass
    if rng.random() < 0.5:
        lines = text.split(b"\n")
        at = int(rng.integers(len(lines)))
        left, mark, _ = lines[at].partition(any_of(rng, [b"=", b",", b":"]))
        strange = any_of(rng, STRANGE)
        lines[at] = left + mark + json.dumps(strange).encode()
        return b"\n".join(lines)
    return change_bytes(rng, text, other)

"""Bytes become the message they came from, or a MessageError, and nothing is allocated for lies."""

import dataclasses
import hashlib
import json
import re
import tracemalloc

import numpy as np
import pytest

from fedcsa.errors import MessageError
from fedcsa.messages import codec
from fedcsa.messages.codec import (
    MAX_HEADER_BYTES,
    PROTOCOL_VERSION,
    decode,
    decode_kept,
    digest,
    encode,
)
from fedcsa.messages.fields import ARRAY_KINDS, Message, named
from fedcsa.messages.messages import MoreCandidates, Refusal


def decoded_or_refused(wire):
    """The message, or None after a MessageError; any other exception is a failure."""
    try:
        message = decode(wire)
    except MessageError:
        return None
    assert isinstance(message, Message)
    return message


def test_a_message_survives_its_bytes(message):
    assert decode(encode(message)) == message
    assert type(decode(encode(message))) is type(message)


def test_the_same_message_gives_the_same_bytes(message):
    assert (
        encode(message) == encode(dataclasses.replace(message)) == encode(decode(encode(message)))
    )


def test_kept_bytes_are_neither_compared_nor_copied(message):
    fresh, other = dataclasses.replace(message), dataclasses.replace(message)
    kept = encode(fresh)
    assert encode(fresh) is kept
    assert fresh == other
    changed = dataclasses.replace(fresh, study="another study")
    assert encode(changed) != kept
    assert decode(encode(changed)).study == "another study"


def test_decoded_arrays_are_read_only_native_and_bit_for_bit_the_same(message):
    other = decode(encode(message))
    for (name, value), (_, received) in zip(message.buffers(), other.buffers(), strict=True):
        assert received.dtype == value.dtype, name
        assert received.dtype.isnative
        assert received.tobytes() == value.tobytes()
        assert not received.flags.writeable


def test_values_have_the_same_types_before_and_after_their_way(message):
    other = decode(encode(message))
    for name, kind in message.kinds.items():
        if kind not in ARRAY_KINDS:
            assert repr(getattr(other, name)) == repr(getattr(message, name))


def test_plain_values_of_numpy_become_pythons_own_when_a_message_is_made():
    told = {np.str_("C"): np.float64(0.25), "kernel": np.str_("rbf"), "n": 3, "on": True}
    [candidate] = MoreCandidates("study", "", 2, [told]).candidates
    assert {type(key) for key in candidate} == {str}
    assert [type(value) for value in candidate.values()] == [float, str, int, bool]
    assert dict(candidate) == told


def test_digest_is_the_sha256_of_the_bytes(message):
    wire = encode(message)
    assert digest(wire) == hashlib.sha256(wire).hexdigest()


def test_the_format_is_the_documented_one(message, tools):
    wire = encode(message)
    assert wire[:4] == b"FCSA"
    assert int.from_bytes(wire[4:6], "little") == PROTOCOL_VERSION
    header, payload = tools.split(wire)
    assert set(header) == {"kind", "shapes", "values"}
    assert header["kind"] == message.name
    arrays = []
    for item in dataclasses.fields(message):
        value = getattr(message, item.name)
        arrays += [value] if isinstance(value, np.ndarray) else []
        if item.name == "arrays":
            arrays += [value[name] for name in sorted(value)]
    assert payload == b"".join(array.tobytes() for array in arrays)
    wire[10 : len(wire) - len(payload)].decode("ascii")


# Damage --------------------------------------------------------------------------------------


def header_and_ends(message, wire, prefix):
    """The size of the header, and the places of its bytes and of both ends of every array.

    Between its ends every number of an array takes the same way.
    """
    end = header = prefix.size + prefix.unpack_from(wire)[2]
    places = [*range(header)]
    for _, array in message.buffers():
        start, end = end, end + array.nbytes
        places += [i for i in range(start, end) if min(i - start, end - 1 - i) < 8]
    assert end == len(wire)
    return header, places


@pytest.mark.no_cover
def test_a_message_cut_off_anywhere_is_refused(message, tools):
    wire = encode(message)
    for length in header_and_ends(message, wire, tools.prefix)[1]:
        with pytest.raises(MessageError, match="message"):
            decode(wire[:length])


@pytest.mark.parametrize("tail", [b"\0", b"FCSA", bytes(8), bytes(1000)])
def test_a_message_with_bytes_appended_is_refused(message, tail):
    with pytest.raises(MessageError, match="more bytes follow"):
        decode(encode(message) + tail)


@pytest.mark.no_cover
def test_any_byte_may_flip_without_any_other_error(message, tools):
    wire = bytearray(encode(message))
    header, places = header_and_ends(message, wire, tools.prefix)
    for index in places:
        byte = wire[index]
        for mask in (0x01, 0x20, 0x80, 0xFF) if index < header else (0xFF,):
            wire[index] = byte ^ mask
            found = decoded_or_refused(bytes(wire))
            # The magic, the version and the length are fixed, and the header is ASCII.
            assert found is None or (
                tools.prefix.size <= index and (mask < 0x80 or index >= header)
            )
        wire[index] = byte


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_arrays_that_are_not_finite_are_refused(tools, value):
    header, payload = tools.split(encode(tools.exchange().report))
    spoilt = np.array([value]).tobytes() + payload[8:]
    with pytest.raises(MessageError, match="must be finite"):
        decode(tools.join(header, spoilt))


# The prefix ----------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", [b"", b"FCSA", b"FCSA\1\0\0\0\0"])
def test_fewer_bytes_than_a_prefix_are_refused(wire):
    with pytest.raises(MessageError, match="must have at least 10 bytes"):
        decode(wire)


@pytest.mark.parametrize("magic", [b"fcsa", b"PK\3\4", b"\x80\4\x95\0", b"\x93NUM"])
def test_other_magic_is_refused(message, tools, magic):
    header, payload = tools.split(encode(message))
    with pytest.raises(MessageError, match="not a fedcsa message"):
        decode(tools.join(header, payload, magic=magic))


@pytest.mark.parametrize("version", [0, PROTOCOL_VERSION + 1, 65535])
def test_another_version_is_refused_and_both_are_named(message, tools, version):
    header, payload = tools.split(encode(message))
    text = f"protocol version {version}; this site has {PROTOCOL_VERSION}.*same version of fedcsa"
    with pytest.raises(MessageError, match=text):
        decode(tools.join(header, payload, version=version))


@pytest.mark.parametrize("version", [0, PROTOCOL_VERSION - 1, PROTOCOL_VERSION + 1])
def test_a_message_that_was_kept_is_read_in_whichever_version(message, tools, version):
    header, payload = tools.split(encode(message))
    older = tools.join(header, payload, version=version)
    assert encode(decode_kept(older)) == encode(message)
    for broken in (b"", older[:5], b"fcsa" + older[4:], older + b"\0"):
        with pytest.raises(MessageError):
            decode_kept(broken)


@pytest.mark.parametrize("extra", [1, 1000, 2**31, 2**32 - 1])
def test_a_header_longer_than_the_message_is_refused(tools, extra):
    wire = encode(tools.exchange().refusal)
    _, _, length = tools.prefix.unpack_from(wire)
    forged = tools.prefix.pack(b"FCSA", PROTOCOL_VERSION, min(length + extra, 2**32 - 1))
    with pytest.raises(MessageError, match="cut off"):
        decode(forged + wire[tools.prefix.size :])


def test_a_header_over_its_cap_is_refused_before_it_is_parsed(tools, monkeypatch):
    monkeypatch.setattr(codec, "MAX_HEADER_BYTES", 20)
    with pytest.raises(MessageError, match="cut off"):
        decode(tools.join({"kind": "refusal", "shapes": {}, "values": {}}, b""))


def test_the_cap_on_bytes_comes_before_everything_else():
    with pytest.raises(MessageError, match="at most 5 bytes; 6 came"):
        decode(b"\xff" * 6, max_bytes=5)


def test_a_message_of_exactly_the_cap_passes(message):
    wire = encode(message)
    assert decode(wire, max_bytes=len(wire)) == message
    with pytest.raises(MessageError, match=f"at most {len(wire) - 1} bytes; {len(wire)} came"):
        decode(wire, max_bytes=len(wire) - 1)


def test_a_message_over_the_cap_is_not_encoded(tools, monkeypatch):
    monkeypatch.setattr(codec, "MAX_BYTES", 50)
    fresh = dataclasses.replace(tools.exchange().refusal)
    with pytest.raises(MessageError, match="must have at most 50 bytes; it has"):
        encode(fresh)


def test_a_header_over_its_cap_is_not_encoded(tools):
    many = [{"a": "x" * 2000}] * (MAX_HEADER_BYTES // 2000 + 1)
    brief = dataclasses.replace(tools.exchange().brief, candidates=many)
    with pytest.raises(MessageError, match="Use fewer candidates or features"):
        encode(brief)


# The header ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"5",
        b'"brief"',
        b"{}",
        b'{"kind":"refusal"}',
        b'{"kind":"refusal","shapes":{},"values":{},"more":{}}',
        b"\xff\xfe{}",
        '{"kind":"réfusal","shapes":{},"values":{}}'.encode(),
        b'{"kind":"refusal","kind":"refusal","shapes":{},"values":{}}',
        b'{"kind":NaN,"shapes":{},"values":{}}',
        b'{"kind":Infinity,"shapes":{},"values":{}}',
        b'{"kind":-Infinity,"shapes":{},"values":{}}',
        b'{"kind":' + b"9" * 5000 + b',"shapes":{},"values":{}}',
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"kind":"refusal","shapes":{},"values":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"kind":"refusal","shapes":{},"values":{}} trailing',
    ],
    ids=lambda header: repr(header[:40]),
)
def test_a_header_that_is_not_our_json_is_refused(tools, header):
    with pytest.raises(MessageError, match=r"A message's header must|A message must be of a known"):
        decode(tools.join(header, b""))


@pytest.mark.parametrize("kind", ["", "Brief", "pickle", "__class__", "message", None, 5, [], {}])
def test_an_unknown_kind_is_refused(tools, kind):
    with pytest.raises(MessageError, match="known kind"):
        decode(tools.join({"kind": kind, "shapes": {}, "values": {}}, b""))


def test_a_message_of_another_kind_is_refused(messages, tools):
    for name, message in messages.items():
        header, payload = tools.split(encode(message))
        for other in messages.values():
            if other.name != message.name:
                with pytest.raises(MessageError, match=f"An? {other.name} message must have"):
                    decode(tools.join({**header, "kind": other.name}, payload))
                break
        else:
            pytest.fail(f"no kind other than {name}")


def test_every_value_is_needed_and_no_other_is_taken(message, tools):
    header, payload = tools.split(encode(message))
    values = header["values"]
    text = f"An? {message.name} message must have the values .* no others"
    for name in values:
        fewer = {key: value for key, value in values.items() if key != name}
        with pytest.raises(MessageError, match=text):
            decode(tools.join({**header, "values": fewer}, payload))
    for more in ("extra", "__class__", "name", "check"):
        with pytest.raises(MessageError, match=text):
            decode(tools.join({**header, "values": {**values, more: 1}}, payload))


def test_every_array_is_needed_and_no_other_is_taken(message, tools):
    header, payload = tools.split(encode(message))
    shapes = header["shapes"]
    text = f"An? {message.name} message must have the arrays .* no others"
    for name in shapes:
        fewer = {key: value for key, value in shapes.items() if key != name}
        with pytest.raises(MessageError, match=text):
            decode(tools.join({**header, "shapes": fewer}, payload))
    with pytest.raises(MessageError, match=text):
        decode(tools.join({**header, "shapes": {**shapes, "extra": [0]}}, payload))


@pytest.mark.parametrize("wrong", [None, [], 5, "text", [["mean", [2]]]])
@pytest.mark.parametrize("part", ["values", "shapes"])
def test_values_and_shapes_are_objects(tools, part, wrong):
    header, payload = tools.split(encode(tools.exchange().brief))
    with pytest.raises(MessageError, match="A brief message must have the"):
        decode(tools.join({**header, part: wrong}, payload))


def test_a_key_given_twice_is_refused_at_any_depth(tools):
    wire = encode(tools.exchange().brief)
    header, payload = tools.split(wire)
    text = json.dumps(header)
    for once in ('"study":', '"penalty":', '"mean":', '"name":'):
        place = text.index(once)
        doubled = text[:place] + once + " 0.0, " + text[place:]
        with pytest.raises(MessageError, match="well-formed JSON"):
            decode(tools.join(doubled.encode(), payload))


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("field", ["ratio_mean", "effective_rows", "n_rows"])
def test_a_number_that_is_not_finite_is_refused(tools, field, number):
    header, payload = tools.split(encode(tools.exchange().report))
    text = json.dumps(header)
    forged = re.sub(rf'("{field}": )[-+.0-9e]+', rf"\g<1>{number}", text)
    assert forged != text
    with pytest.raises(MessageError, match=r"finite|whole|well-formed"):
        decode(tools.join(forged.encode(), payload))


@pytest.mark.parametrize("number", ["1e999", "NaN", "1" + "0" * 400, "9223372036854775808"])
def test_a_number_that_is_not_finite_is_refused_inside_plain_values(tools, number):
    header, payload = tools.split(encode(tools.exchange().brief))
    forged = json.dumps(header).replace('"penalty": 1.0', f'"penalty": {number}')
    assert number in forged
    with pytest.raises(MessageError, match=r"finite|well-formed"):
        decode(tools.join(forged.encode(), payload))


# Forged shapes -------------------------------------------------------------------------------

SHAPES = [
    [2**60],
    [2**62],
    [2**63],
    [2**64],
    [10**30],
    [-1],
    [-2],
    [1e9],
    [2.0],
    [True],
    [None],
    ["2"],
    [[2]],
    [],
    [2, 1],
    [1, 2],
    2,
    None,
    "2",
    {"0": 2},
]


@pytest.mark.parametrize("shape", SHAPES, ids=repr)
def test_a_forged_shape_of_a_vector_is_refused(tools, shape):
    header, payload = tools.split(encode(tools.exchange().brief))
    header["shapes"]["mean"] = shape
    with pytest.raises(MessageError, match=r"brief\.mean must"):
        decode(tools.join(header, payload))


@pytest.mark.parametrize(
    "shape",
    [
        *SHAPES[:14],
        [0, 2**62],
        [2**62, 0],
        [2**32, 2**32],
        [2**31, 2**33],
        [2**62, 2**62],
        [-1, -1],
        [-1, 2],
        [200, -2],
        [200.0, 2],
        [True, 2],
        [0, 10**9],
        [200, 2, 1],
    ],
    ids=repr,
)
def test_a_forged_shape_of_a_matrix_is_refused(tools, shape):
    header, payload = tools.split(encode(tools.exchange(kind="rows").brief))
    assert header["shapes"]["rows"] == [200, 2]
    header["shapes"]["rows"] = shape
    with pytest.raises(MessageError, match=r"brief\.rows must|brief message must"):
        decode(tools.join(header, payload))


@pytest.mark.parametrize("shape", [[2**30], [2**40], [2**60]])
def test_a_forged_shape_of_a_blob_is_refused(tools, messages, shape):
    header, payload = tools.split(encode(messages["conclusion"]))
    header["shapes"]["summary"] = shape
    with pytest.raises(MessageError, match=r"conclusion\.summary must fit into the message"):
        decode(tools.join(header, payload))


@pytest.mark.parametrize(
    "told",
    [
        None, 3, {}, [], ["f8"], ["f8", 2**61], ["f8", 2**32, 2**32], ["f8", -3], ["f8", 3.0],
        ["f8", True], ["f8", 1, 1, 3], ["f8", [3]], [3], ["f4", 6], ["u1", 24], ["O", 3],
        ["i4", 3], ["<f8", 3], ["f8", 0, 2**62], "f8", [["f8"], 3],
    ],
    ids=repr,
)  # fmt: skip
def test_a_forged_type_or_shape_of_an_array_by_name_is_refused(tools, messages, told):
    header, payload = tools.split(encode(messages["model-report-trees"]))
    assert header["shapes"]["arrays"] == {"feature": ["i4", 3], "value": ["f8", 3]}
    header["shapes"]["arrays"]["value"] = told
    with pytest.raises(MessageError, match=r"model-report"):
        decode(tools.join(header, payload))


@pytest.mark.parametrize(
    "arrays", [None, [], "feature", {"value": ["f8", 3], "feature": ["i4", 3]}], ids=repr
)
def test_arrays_by_name_come_in_alphabetical_order(tools, messages, arrays):
    header, payload = tools.split(encode(messages["model-report-trees"]))
    header["shapes"]["arrays"] = arrays
    with pytest.raises(MessageError, match="in alphabetical order"):
        decode(tools.join(header, payload))


def test_equal_models_are_equal_bytes_whatever_their_order(messages):
    report = messages["model-report-trees"]
    backwards = dict(reversed(report.arrays.items()))
    assert encode(dataclasses.replace(report, arrays=backwards)) == encode(report)


def test_an_array_by_name_may_be_a_single_number_and_a_matrix(messages):
    arrays = {"a": np.array(1.5), "b": np.ones((2, 3)), "c": np.zeros(0), "d": np.ones(1, np.int32)}
    report = dataclasses.replace(messages["model-report"], arrays=arrays)
    came = decode(encode(report))
    assert came == report
    assert [came.arrays[name].shape for name in "abcd"] == [(), (2, 3), (0,), (1,)]


@pytest.mark.parametrize("shape", [[2**27], [2**30], [2**60], [10**30]])
def test_a_forged_shape_allocates_nothing(tools, shape):
    header, payload = tools.split(encode(tools.exchange().brief))
    header["shapes"]["mean"] = shape
    wire = tools.join(header, payload)
    tracemalloc.start()
    try:
        with pytest.raises(MessageError, match=r"brief\.mean must fit into the message"):
            decode(wire)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 500_000


def test_a_large_message_is_decoded_without_copying_its_arrays(tools):
    rows = np.random.default_rng(0).normal(size=(50_000, 2))
    brief = dataclasses.replace(tools.exchange(kind="rows").brief, rows=rows, n_rows=len(rows))
    wire = encode(brief)
    tracemalloc.start()
    try:
        message = decode(wire)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert message == brief
    assert peak < rows.nbytes // 2  # a finiteness mask, no second table


def test_arrays_may_trade_places_in_shape_only_if_the_bytes_add_up(tools):
    header, payload = tools.split(encode(tools.exchange().brief))
    header["shapes"]["mean"], header["shapes"]["sd"] = [1], [3]
    with pytest.raises(MessageError, match="one mean and one sd per feature"):
        decode(tools.join(header, payload))


# Text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["", "Zürich", "東京", "\0", '"', "\\", "\U0001f3e5", "\ud800", "a\nb", "\x7f", "\u202e"],
)
def test_names_in_any_script_survive(name):
    refusal = Refusal(name, name, "digest", name)
    wire = encode(refusal)
    wire.decode("latin-1")
    assert all(byte < 128 for byte in wire[10:])
    assert decode(wire) == refusal


def test_sentences_about_messages_have_the_right_article(messages):
    found = {named(type(message)) for message in messages.values()}
    assert {"A brief", "An examination", "An examination-report", "A risk-report"} <= found

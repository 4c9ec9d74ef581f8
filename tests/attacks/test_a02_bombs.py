"""A2: a small message that unfolds to a large one. Nothing is built beyond what came.

Before, 11 kB of a packed model unfolded to 810 MB and were accepted, because a file named thirty
times was counted once; 31 kB made 1 GB, and a forest of 27 kB was not done after two minutes. Now
arrays follow each other in the message, so that none can be larger than the bytes that came; a
header has 1 MiB at most; and a model is refused by its counts before its trees are read.
"""

import dataclasses
import json
import struct
import tracemalloc

import numpy as np
import pytest

from fedcsa.errors import MessageError, ModelError
from fedcsa.messages.codec import MAGIC, MAX_HEADER_BYTES, PROTOCOL_VERSION, decode, encode
from fedcsa.messages.fields import MAX_ARRAYS, MAX_ARRAYS_BYTES, to_json
from fedcsa.messages.messages import ModelReport
from fedcsa.models.formats import open_model
from fedcsa.models.linear_format import LinearModel
from fedcsa.models.trees import MAX_NODES

#: Of Python's own objects, beside the bytes that came; a header of 1 MiB unfolds to less.
MOST_BYTES = 100 << 20
#: The same for messages whose header is small.
FEW_BYTES = 1 << 20
#: Memory is traced on a part of the largest header, since tracing takes its time.
PART = 32
PREFIX = struct.Struct("<4sHI")
LINE = LinearModel(np.ones(2), 0.0)
REPORT = ModelReport("study", "a", "0" * 64, 0, 200, True, LINE.form, LINE.arrays)


def framed(header, payload=b""):
    content = header if isinstance(header, bytes) else to_json(header).encode()
    return PREFIX.pack(MAGIC, PROTOCOL_VERSION, len(content)) + content + payload


def report_with(arrays=None, payload=None, **values):
    """Bytes of a model report whose header says something else."""
    wire = encode(REPORT)
    _, _, length = PREFIX.unpack_from(wire)
    header = json.loads(wire[PREFIX.size : PREFIX.size + length])
    header["values"] |= values
    if arrays is not None:
        header["shapes"]["arrays"] = arrays
    return framed(header, wire[PREFIX.size + length :] if payload is None else payload)


def peak(wire):
    """Bytes that Python takes to refuse a message, at most."""
    tracemalloc.start()
    try:
        with pytest.raises(MessageError, match=r"message|must"):
            decode(wire)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


KILOBYTES = bytes(11_000)
#: Shapes of 11 kB that claim far more.
CLAIMS = {
    "800 MB": {"value": ["f8", 10**8]},
    "800 MB in rows": {"value": ["f8", 10**4, 10**4]},
    "all that there is": {"value": ["f8", 2**62]},
    "more than there is": {"value": ["f8", 10**30]},
    "a product that overflows": {"value": ["f8", 2**32, 2**32]},
    "nothing, of great width": {"value": ["f8", 0, 2**62]},
    "nothing, of great height": {"value": ["f8", 2**62, 0]},
    "the same bytes thirty times": {f"v{k:02}": ["f8", 1375] for k in range(30)},
    "one array too many": {f"v{k:04}": ["f8", 1] for k in range(MAX_ARRAYS + 1)},
}


@pytest.mark.parametrize("arrays", CLAIMS.values(), ids=CLAIMS)
def test_a_claim_of_more_than_came_allocates_nothing(arrays):
    assert peak(report_with(arrays, KILOBYTES)) < FEW_BYTES


def test_an_array_named_twice_is_no_way_to_count_it_once():
    header = json.dumps({"kind": "model-report", "values": {}, "shapes": {"arrays": {}}})
    doubled = '{"value":["f8",1375],"value":["f8",1375]}'
    wire = framed(header.replace('{"arrays": {}}', f'{{"arrays": {doubled}}}').encode(), KILOBYTES)
    with pytest.raises(MessageError, match="well-formed JSON"):
        decode(wire)


#: Pieces of which a header of 1 MiB is made; as Python's objects they are 64 times as large.
PIECES = ['{"":0},', "[],", "1.5,", '{"a":[]},', '"a",', "{},", "null,", '{"a":{"b":{}}},']


@pytest.mark.parametrize("piece", PIECES)
def test_a_header_full_of_small_things_stays_small(piece):
    room = MAX_HEADER_BYTES // PART
    words = json.loads(f"[{piece * (room // len(piece))}0]")
    wire = report_with(form={"kind": "linear", "words": words})
    assert 0.9 * room < len(wire) < 1.1 * room
    tracemalloc.start()
    try:
        came = decode(wire)  # the words are plain; that no model has them is said when it is opened
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES // PART
    finally:
        tracemalloc.stop()
    with pytest.raises(ModelError, match="words"):
        open_model(came.form, came.arrays, 2, 0)


def test_a_larger_header_is_refused_unread():
    wire = framed(b"[" + b"0," * MAX_HEADER_BYTES + b"0]")
    assert peak(wire) < FEW_BYTES
    with pytest.raises(MessageError, match="header of at most"):
        encode(dataclasses.replace(REPORT, form={"kind": "linear", "more": ["x" * 999] * 2000}))


@pytest.mark.parametrize("piece", ["[", '{"":', '[{"a":', "[[],"])
def test_a_header_as_deep_as_it_is_long_is_refused(piece):
    for count in (1_000, 100_000):
        assert peak(framed((piece * count).encode()[:MAX_HEADER_BYTES])) < MOST_BYTES
    nested = value = []
    for _ in range(45):
        value.append([])
        value = value[0]
    with pytest.raises(MessageError, match="nested"):
        decode(report_with(form={"kind": "linear", "deep": nested}))


def test_digits_without_end_are_no_number():
    for digits in ("9" * 900_000, "0." + "9" * 900_000, "1e999999999", "-" * 900_000):
        assert peak(framed(f'{{"kind":"model-report","x":{digits}}}'.encode())) < MOST_BYTES


def test_arrays_beyond_the_budget_are_refused_before_they_are_looked_at():
    size = MAX_ARRAYS_BYTES // 8 + 1
    wire = report_with({"value": ["f8", size]}, bytes(8 * size))
    tracemalloc.start()
    try:
        with pytest.raises(MessageError, match="bytes in all"):
            decode(wire)
        assert tracemalloc.get_traced_memory()[1] < FEW_BYTES  # they are looked at where they lie
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("nodes", [MAX_NODES + 1, 4 * MAX_NODES])
def test_a_forest_beyond_the_budget_is_refused_by_its_count(nodes):
    feature = np.full(nodes, -1, np.int32)
    arrays = {
        "step": np.ones(2),
        "feature": feature,
        "threshold": np.zeros(0, np.int32),
        "value": np.broadcast_to(0.0, (nodes, 1)),
        "base": np.zeros(1),
    }
    form = {"kind": "trees", "combine": "mean", "link": "identity", "classes": []}
    tracemalloc.start()
    try:
        with pytest.raises(ModelError, match="nodes"):
            open_model(form, arrays, 2, 0)
        assert tracemalloc.get_traced_memory()[1] < FEW_BYTES
    finally:
        tracemalloc.stop()


LEVELS = {"kind": "numbers", "columns": [0, 1], "marked": False}
WIDE = {"kind": "spline", "columns": [0], "degree": 1, "bias": True}
KNOTS = np.linspace(-1.0, 1.0, 4_002)
#: kind -> words and arrays of a model of 4,000 columns, made of one
WIDE_MODELS = {
    "design": (
        {"link": "identity"},
        {"coefficients": np.ones((1, 4_000)), "intercept": np.zeros(1)},
    ),
    "trees": (
        {"link": "identity", "combine": "mean"},
        {
            "step": np.ones(4_000), "feature": np.array([-1], np.int32), "base": np.zeros(1),
            "threshold": np.zeros(0, np.int32), "value": np.zeros((1, 1)),
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", WIDE_MODELS)
def test_a_model_that_makes_many_columns_of_one_makes_them_of_few_rows_at_a_time(kind, monkeypatch):
    """A spline of 32 kB made 2.6 GB of the rows that walk through trees together."""
    monkeypatch.setattr("fedcsa.models.portable.MAX_CELLS", 1 << 17)
    words, arrays = WIDE_MODELS[kind]
    form = {"kind": kind, "classes": [], "steps": [[WIDE]], **words}
    model = open_model(form, {**arrays, "step0.0.knots": KNOTS[None]}, 1, 0)
    X = np.zeros((1_000, 1))  # 32 MB of cells
    tracemalloc.start()
    try:
        model.predict(X)
        assert tracemalloc.get_traced_memory()[1] < 10 * FEW_BYTES
    finally:
        tracemalloc.stop()


def test_a_level_stands_for_itself_where_several_flags_are_set():
    """Their places were added up, and one beyond the last level was looked for."""
    form = {"kind": "design", "link": "identity", "classes": [], "steps": [[LEVELS]]}
    arrays = {"coefficients": np.ones((1, 1)), "intercept": np.zeros(1)}
    model = open_model(form, {**arrays, "step0.0.levels": np.array([5.0, 7.0, 9.0])}, 2, 0)
    flags = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    assert model.predict(flags).tolist() == [5.0, 7.0, 9.0, 9.0]

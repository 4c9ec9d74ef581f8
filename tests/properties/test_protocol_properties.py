"""For any message: its bytes give it back. For any bytes: a message, or a MessageError."""

import dataclasses
import functools
import json
import math
import struct
from decimal import ROUND_HALF_EVEN, Context, Decimal
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedcsa.core.losses import RiskMoments
from fedcsa.errors import MessageError
from fedcsa.messages.codec import PROTOCOL_VERSION, decode, encode
from fedcsa.messages.fields import Message
from fedcsa.messages.messages import (
    MESSAGES,
    REASONS,
    BacktestReport,
    Brief,
    Conclusion,
    Examination,
    ExaminationReport,
    ModelReport,
    ModelRequest,
    MoreCandidates,
    Refusal,
    RiskReport,
)
from fedcsa.messages.policy import LedgerEntry, Policy, entries_of, round_significant
from fedcsa.models.description import thaw
from fedcsa.plan import Plan
from fedcsa.source.source import Source
from fedcsa.target.target import Target

quick = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@functools.cache
def real(n_candidates, kind="table"):
    """A brief and a report that were really exchanged, as patterns for others."""
    rng = np.random.default_rng(0)
    plan = Plan(
        features=("x0", "x1"),
        model={"name": "ridge"},
        candidates=tuple({"penalty": float(k)} for k in range(n_candidates)),
        method="feddae",
        exchange=kind,
    )
    target = Target(rng.normal(size=(12, 2)), plan, policy=Policy.open())
    X = rng.normal(size=(12, 2))
    source = Source("a", X, X.sum(axis=1), policy=Policy.open())
    brief = target.brief(["a"])
    return SimpleNamespace(brief=brief, report=source.answer(brief))


# Strategies ------------------------------------------------------------------------------------

texts = st.text(max_size=30)
names = st.text(min_size=1, max_size=12)
wholes = st.integers(0, 2**63 - 1)
numbers = st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def vectors(size, elements=numbers):
    return hnp.arrays(np.float64, size, elements=elements)


@st.composite
def tables(draw, d):
    """Shares and means, with correlations where a target may tell them."""
    flags = draw(st.lists(st.booleans(), min_size=d, max_size=d))
    mean = [draw(st.floats(0.0, 1.0) if flag else st.floats(-1e150, 1e150)) for flag in flags]
    told = not any(flags) and draw(st.booleans())
    return {
        "n_rows": draw(st.integers(10_000 if told else 2, 2**63 - 1)),
        "rows": np.empty((0, d)),
        "flags": flags,
        "mean": np.array(mean),
        "sd": draw(vectors(d, st.floats(1e-150, 1e150))),
        "correlations": np.eye(d) if told else np.empty((0, 0)),
    }


@st.composite
def briefs(draw):
    features = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    d = len(features)
    kind = draw(st.sampled_from(["table", "rows"]))
    changes = {
        "study": draw(texts),
        "features": features,
        "group": draw(texts.filter(lambda name: name not in features)),
        "classes": draw(st.lists(texts, max_size=3, unique=True)),
        "model": draw(st.dictionaries(texts, plain, max_size=2)),
        "candidates": draw(st.lists(st.dictionaries(texts, plain, max_size=2), min_size=1)),
        "loss": draw(texts),
        "shares": draw(vectors(3)),
        "refit": draw(st.booleans()),
        "scale": draw(st.booleans()),
        "moments": draw(st.booleans()),
        "seed": draw(wholes),
        "ratio": draw(st.dictionaries(texts, plain, max_size=2)),
    }
    if kind == "rows":
        n = draw(st.integers(2, 6))
        changes |= {
            "n_rows": n,
            "rows": draw(hnp.arrays(np.float64, (n, d), elements=numbers)),
            "flags": draw(st.lists(st.booleans(), min_size=d, max_size=d)),
            "mean": draw(vectors(d)),
            "sd": draw(vectors(d, st.floats(5e-324, 1.7e308))),
            "correlations": np.empty((0, 0)),
        }
    else:
        changes |= draw(tables(d))
    return dataclasses.replace(real(1, kind).brief, **changes)


def honest(ratios, losses, **changes):
    """The report of a source with these ratios (rows,) and losses (rows, candidates)."""
    moments = RiskMoments.of(ratios, losses)
    total = ratios.sum()
    shares = ratios / total if total > 0.0 else ratios
    weights = shares if total > 0.0 else np.full(len(ratios), 1.0 / len(ratios))
    copied = ("ratio_mean", "ratio_m2", "loss_mean", "loss_m2", "product_mean", "product_m2")
    return dataclasses.replace(
        real(losses.shape[1]).report,
        n_rows=3 * len(ratios),
        n_judged=len(ratios),
        effective_rows=1.0 / float(shares @ shares) if total > 0.0 else 0.0,
        largest_share=float(shares.max()),
        risk=weights @ losses,
        variance=np.square(weights) @ np.square(losses - weights @ losses),
        co_moment=moments.co_moment,
        **{name: getattr(moments, name) for name in copied},
        **changes,
    )


@st.composite
def ratios_and_losses(draw):
    n, count = draw(st.integers(1, 12)), draw(st.integers(2, 4))
    scale = 10.0 ** draw(st.integers(-60, 6))
    ratios = scale * draw(vectors(n, st.just(0.0) | st.floats(1e-3, 10.0)))
    size = 10.0 ** draw(st.integers(-20, 20))
    elements = st.just(0.0) | st.floats(1e-3, 10.0)
    losses = size * draw(hnp.arrays(np.float64, (n, count), elements=elements))
    return ratios, losses


@st.composite
def risk_reports(draw):
    ratios, losses = draw(ratios_and_losses())
    count, d = losses.shape[1], draw(st.integers(1, 4))
    return honest(
        ratios,
        losses,
        study=draw(texts),
        source=draw(texts),
        in_reply_to=draw(texts),
        outcome_mean=draw(vectors(draw(st.integers(1, 3)))),
        correlations=draw(vectors(d * (d - 1) // 2, st.floats(-1.0, 1.0))),
        difference_before=draw(vectors(d)),
        difference_after=draw(vectors(d, st.floats(-1e150, 1e150))),
        failed=draw(st.dictionaries(st.integers(0, count - 1).map(str), texts, max_size=2)),
        findings=[
            {"code": code, "evidence": evidence}
            for code, evidence in draw(
                st.lists(
                    st.tuples(texts, st.dictionaries(texts, numbers | texts, max_size=2)),
                    max_size=2,
                )
            )
        ],
    )


model_requests = st.builds(ModelRequest, texts, texts, wholes)
more_candidates = st.builds(
    MoreCandidates, texts, texts, st.integers(2, 2**40),
    st.lists(st.dictionaries(texts, plain, max_size=2), min_size=1),
)  # fmt: skip
refusals = st.builds(Refusal, texts, texts, texts, texts)


@st.composite
def named_arrays(draw):
    """Arrays by name, of both types and up to two dimensions."""
    shapes = hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=4)
    floats = hnp.arrays(np.float64, shapes, elements=numbers)
    wholes = hnp.arrays(np.int32, shapes)
    keys = st.text("abcdefghijklmnopqrstuvwxyz0123456789_.", min_size=1, max_size=20)
    return draw(st.dictionaries(keys, floats | wholes, min_size=1, max_size=4))


@st.composite
def forms(draw):
    form = draw(st.dictionaries(texts, plain, max_size=3))
    return {**form, "kind": draw(texts.filter(lambda kind: kind != "held"))}


@st.composite
def model_reports(draw):
    return ModelReport(
        study=draw(texts),
        source=draw(texts),
        in_reply_to=draw(texts),
        candidate=draw(wholes),
        n_rows=draw(wholes),
        show=draw(st.booleans()),
        form=draw(forms()),
        arrays=draw(named_arrays()),
    )


@st.composite
def examinations(draw):
    n = draw(st.integers(1, 4))
    parts = np.array(draw(st.lists(st.floats(0.01, 1.0), min_size=n + 1, max_size=n + 1)))
    weights = parts / parts.sum()
    members = [draw(named_arrays()) for _ in range(n)]
    return Examination(
        study=draw(texts),
        brief=draw(texts),
        candidate=draw(wholes),
        combine=draw(st.sampled_from(["mean", "median"])),
        own_weight=float(weights[n]),
        weights=weights[:n],
        forms=[draw(forms()) for _ in range(n)],
        arrays={f"{k}.{key}": a for k, arrays in enumerate(members) for key, a in arrays.items()},
        constant=draw(vectors(draw(st.integers(1, 3)))),
        again=draw(st.booleans()),
        centre=draw(numbers),
        unit=draw(st.floats(1e-300, 1e300)),
    )


@st.composite
def backtest_reports(draw):
    measures = draw(hnp.arrays(np.float64, (draw(st.integers(0, 3)), 5), elements=numbers))
    measures[:, 3:].sort(axis=1)
    return BacktestReport(
        study=draw(texts),
        source=draw(texts),
        realised=draw(numbers),
        standard_error=draw(st.floats(0.0, 1.7e308)),
        reference=draw(numbers),
        held_for=draw(vectors(draw(st.integers(0, 4)), st.floats(0.0, 1.0))),
        measures=measures,
    )


@st.composite
def score_tables(draw, told):
    """Outcomes by score, and what goes with them; nothing where nothing is told."""
    if not told:
        return {}
    size = lambda *sides: hnp.arrays(np.float64, sides, elements=numbers)  # noqa: E731
    return {
        "scores": draw(size(draw(st.integers(1, 3)), 7)),
        "score_sums": draw(size(draw(st.integers(1, 2)), 2)),
        "measure_variance": draw(size(draw(st.integers(1, 3)), 2)),
        "residuals": draw(size(2, draw(st.integers(0, 2)))),
    }


@st.composite
def examination_reports(draw):
    reason = draw(st.sampled_from(REASONS))
    size = 0 if reason else draw(st.integers(1, 3))
    spreads, members = st.floats(0.0, 1.7e308), draw(st.integers(0, 3))
    return ExaminationReport(
        study=draw(texts),
        source=draw(texts),
        in_reply_to=draw(texts),
        reason=reason,
        risk=draw(numbers),
        risk_variance=draw(spreads),
        explained=draw(spreads),
        constant_risk=draw(numbers),
        ratio_variance=draw(spreads),
        level=draw(vectors(size)),
        level_variance=draw(vectors(size, spreads)),
        member_risk=draw(vectors(members)),
        member_variance=draw(vectors(members, spreads)),
        **draw(score_tables(not reason and draw(st.booleans()))),
    )


conclusions = st.builds(
    Conclusion, texts, texts, st.dictionaries(texts, texts, max_size=3), texts,
    hnp.arrays(np.uint8, st.integers(0, 20)),
)  # fmt: skip
STRATEGIES = {
    Conclusion: conclusions,
    Brief: briefs(),
    RiskReport: risk_reports(),
    MoreCandidates: more_candidates,
    ModelRequest: model_requests,
    ModelReport: model_reports(),
    Examination: examinations(),
    ExaminationReport: examination_reports(),
    Refusal: refusals,
    BacktestReport: backtest_reports(),
}


ALL = sorted(MESSAGES)
any_message = st.one_of([STRATEGIES[MESSAGES[name]] for name in ALL])


# Messages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
@given(data=st.data())
@quick
def test_decode_undoes_encode_for_every_kind(kind, data):
    message = data.draw(STRATEGIES[MESSAGES[kind]])
    wire = encode(message)
    received = decode(wire)
    assert received == message
    assert type(received) is MESSAGES[kind]
    assert encode(received) == wire  # to the bit: −0.0 and 0.0 are equal but not the same
    assert decode(wire, max_bytes=len(wire)) == message


@given(message=any_message)
@quick
def test_repr_of_any_message_shows_shapes_and_no_values(message):
    text = repr(message)
    assert text.startswith(f"{type(message).__name__}(study=")
    for item in dataclasses.fields(message):
        value = getattr(message, item.name)
        if isinstance(value, np.ndarray):
            assert f"{item.name}{value.shape}" in text
        elif isinstance(value, float) and len(repr(value)) > 6:
            assert f"={value!r}" not in text


@given(message=any_message, site=texts, recipient=texts)
@quick
def test_the_entry_of_any_message_survives_json(message, site, recipient):
    [entry] = entries_of(message, site, [recipient])
    assert LedgerEntry.from_json(entry.to_json()) == entry
    assert entry.n_bytes == len(encode(message))


@given(value=plain)
@quick
def test_plain_values_survive_the_journey(value):
    brief = dataclasses.replace(real(1).brief, model={"value": value})
    received = thaw(decode(encode(brief)).model)["value"]
    assert json.dumps(received) == json.dumps(value)


# Bytes -------------------------------------------------------------------------------------------

PREFIX = struct.Struct("<4sHI")


def decoded_or_refused(wire):
    try:
        message = decode(wire)
    except MessageError as error:
        assert str(error)  # noqa: PT017 - both ends are allowed
        return
    assert isinstance(message, Message)
    assert decode(encode(message)) == message


@given(wire=st.binary(max_size=200))
@quick
def test_any_bytes_are_refused_by_a_message_error(wire):
    with pytest.raises(MessageError, match="message"):
        decode(wire)


def framed(header, payload=b""):
    return PREFIX.pack(b"FCSA", PROTOCOL_VERSION, len(header)) + header + payload


@given(header=st.binary(max_size=200), payload=st.binary(max_size=50))
@quick
def test_any_header_is_refused_by_a_message_error(header, payload):
    with pytest.raises(MessageError, match="message"):
        decode(framed(header, payload))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@given(header=json_values, payload=st.binary(max_size=50))
@quick
def test_any_json_header_is_refused_by_a_message_error(header, payload):
    with pytest.raises(MessageError, match="message"):
        decode(framed(json.dumps(header).encode(), payload))


@given(message=any_message, data=st.data())
@quick
def test_any_value_of_a_valid_header_may_be_forged(message, data):
    wire = encode(message)
    _, _, length = PREFIX.unpack_from(wire)
    header = json.loads(wire[PREFIX.size : PREFIX.size + length])
    part = data.draw(st.sampled_from(["values", "shapes"]))
    if header[part]:
        key = data.draw(st.sampled_from(sorted(header[part])))
        header[part][key] = data.draw(json_values)
    forged = framed(json.dumps(header).encode(), wire[PREFIX.size + length :])
    decoded_or_refused(forged)


@given(message=any_message, data=st.data())
@quick
def test_any_bytes_of_a_valid_message_may_be_overwritten(message, data):
    wire = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        index = data.draw(st.integers(0, len(wire) - 1))
        wire[index] = data.draw(st.integers(0, 255))
    decoded_or_refused(bytes(wire))


@given(message=any_message, data=st.data())
@quick
def test_a_valid_message_may_be_cut_or_lengthened_anywhere(message, data):
    wire = encode(message)
    cut = data.draw(st.integers(0, len(wire) - 1))
    tail = data.draw(st.binary(min_size=1, max_size=20))
    for forged in (wire[:cut], wire + tail):
        with pytest.raises(MessageError, match="message"):
            decode(forged)


@given(one=any_message, other=any_message)
@quick
def test_the_arrays_of_one_message_under_the_header_of_another_are_no_trap(one, other):
    first, second = encode(one), encode(other)
    body = PREFIX.size + PREFIX.unpack_from(first)[2]
    rest = PREFIX.size + PREFIX.unpack_from(second)[2]
    decoded_or_refused(first[:body] + second[rest:])


# Rounding ----------------------------------------------------------------------------------------


@given(value=st.floats(-1e300, 1e300), digits=st.integers(1, 17))
@quick
def test_rounding_agrees_with_decimal_arithmetic(value, digits):
    context = Context(prec=digits, rounding=ROUND_HALF_EVEN)
    [rounded] = round_significant(np.array([value]), digits).tolist()
    assert rounded == float(context.create_decimal(Decimal(value)))


@given(value=st.floats(-1e300, 1e300), digits=st.integers(1, 17))
@quick
def test_rounding_twice_is_rounding_once(value, digits):
    once = round_significant(np.array([value]), digits)
    assert round_significant(once, digits).tobytes() == once.tobytes()


@given(pair=ratios_and_losses(), digits=st.integers(3, 17))
@quick
def test_an_honest_report_survives_rounding(pair, digits):
    report = honest(*pair)
    policy = dataclasses.replace(Policy.open(), significant_digits=digits)
    released = policy.release(report)
    assert decode(encode(released)) == released
    assert released.n_rows == report.n_rows


@given(report=model_reports(), digits=st.integers(3, 17))
@quick
def test_a_model_survives_rounding(report, digits):
    tame = {
        name: np.asarray(np.clip(array, -1e300, 1e300)) if array.dtype == np.float64 else array
        for name, array in report.arrays.items()
    }
    report = dataclasses.replace(report, arrays=tame)
    policy = Policy(significant_digits=digits, max_parameters_per_row=math.inf)
    released = policy.release(report)
    assert decode(encode(released)) == released
    for name, array in released.arrays.items():
        assert array.shape == tame[name].shape
        if array.dtype == np.int32:
            assert np.array_equal(array, tame[name])

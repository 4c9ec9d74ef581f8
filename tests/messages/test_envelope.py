"""What binds a message, and every way in which it can be the wrong one."""

import dataclasses
import json

import pytest

from fedcsa.errors import BindingError, MessageError
from fedcsa.messages.codec import digest
from fedcsa.messages.envelope import (
    Envelope,
    ask,
    check_greeting,
    check_question,
    check_reply,
    check_start,
    close,
    greeting,
    reply,
    study_id,
)

STUDY = study_id("demo", "seed = 1")


@pytest.fixture
def question():
    return of(ask(STUDY, "risk", "new", "abbey"), b"brief")


def of(envelope, payload):
    """An envelope of a message that goes as it is."""
    return Envelope.from_bytes(close(envelope, payload, "", None)[0])


def accept(envelope, payload=b"brief", **changes):
    given = {"study": STUDY, "me": "abbey", "target": "new", **changes}
    check_question(envelope, payload, **given)


def test_an_envelope_survives_its_bytes(question):
    assert Envelope.from_bytes(question.to_bytes()) == question


def test_a_fresh_question_and_its_reply_are_accepted(question):
    accept(question)
    check_reply(of(reply(question), b"report"), b"report", question, used=())


def test_no_two_questions_share_a_nonce(question):
    assert ask(STUDY, "risk", "new", "abbey").nonce != question.nonce


def test_the_study_id_changes_with_what_was_agreed():
    assert study_id("demo", "seed = 2") != STUDY
    assert STUDY.startswith("demo@")


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"study": "demo@0"}, "other_study"),
        ({"phase": "tea"}, "phase_order"),
        ({"sender": "birch"}, "wrong_sender"),
        ({"recipient": "birch"}, "wrong_recipient"),
        ({"digest": "0" * 64}, "digest"),
        ({"in_reply_to": "0" * 32}, "unasked"),
    ],
)
def test_a_question_that_is_bound_to_something_else_is_refused_by_name(question, change, rule):
    with pytest.raises(BindingError, match=r"\.$") as caught:
        accept(dataclasses.replace(question, **change))
    assert caught.value.rule == rule


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"study": "demo@0"}, "other_study"),
        ({"phase": "model"}, "phase_order"),
        ({"sender": "birch"}, "wrong_sender"),
        ({"recipient": "birch"}, "wrong_recipient"),
        ({"digest": "0" * 64}, "digest"),
        ({"in_reply_to": "0" * 32}, "replayed"),
    ],
)
def test_a_reply_to_something_else_is_refused_by_name(question, change, rule):
    envelope = dataclasses.replace(of(reply(question), b"report"), **change)
    with pytest.raises(BindingError, match=r"\.$") as caught:
        check_reply(envelope, b"report", question, used=())
    assert caught.value.rule == rule


def test_a_second_reply_and_an_unasked_one_are_refused_by_name(question):
    envelope = of(reply(question), b"report")
    with pytest.raises(BindingError, match="answered before") as caught:
        check_reply(envelope, b"report", question, used={question.nonce})
    assert caught.value.rule == "duplicate"
    with pytest.raises(BindingError, match="was not asked") as caught:
        check_reply(envelope, b"report", None, used=())
    assert caught.value.rule == "unasked"


def test_a_changed_payload_is_refused(question):
    with pytest.raises(BindingError, match="digest differs"):
        accept(question, payload=b"another brief")


@pytest.mark.parametrize(
    "wire",
    [
        b"", b"\xff", b"[]", b"{}", b"[" * 8000, b" " * 9000,
        json.dumps({"study": 1}).encode(), b'{"study":"a","study":"b"}',
    ],
)  # fmt: skip
def test_garbage_is_a_message_error(wire):
    with pytest.raises(MessageError, match="An envelope must"):
        Envelope.from_bytes(wire)


@pytest.mark.parametrize(
    "change", [{"nonce": "x" * 32}, {"digest": "0"}, {"study": "s" * 400}, {"key": "0"}]
)
def test_an_envelope_with_a_strange_entry_is_a_message_error(question, change):
    with pytest.raises(MessageError, match="An envelope must"):
        Envelope.from_bytes(dataclasses.replace(question, **change).to_bytes())


def test_an_entry_that_is_not_a_text_is_a_message_error(question):
    content = {**dataclasses.asdict(question), "phase": 1}
    with pytest.raises(MessageError, match="short texts only"):
        Envelope.from_bytes(json.dumps(content).encode())


# Before the first phase ----------------------------------------------------------------------


@pytest.fixture
def start():
    return ask(STUDY, "start", "lead@demo.org", "new")


def test_a_lead_asks_one_target_for_one_study(start):
    assert check_start(start.to_bytes(), STUDY, "new", None) == start
    for study, target in (("demo@0", "new"), (STUDY, "abbey")):
        with pytest.raises(BindingError, match="has not asked this target"):
            check_start(start.to_bytes(), study, target, None)
    other = dataclasses.replace(start, phase="risk")
    with pytest.raises(BindingError, match="has not asked this target"):
        check_start(other.to_bytes(), STUDY, "new", None)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"study": "demo@0"}, "other_study"),
        ({"phase": "risk"}, "other_study"),
        ({"sender": "birch"}, "other_study"),
        ({"recipient": "birch"}, "other_study"),
        ({"key": ""}, "other_study"),
        ({"in_reply_to": "0" * 32}, "replayed"),
    ],
)
def test_a_source_tells_its_key_for_one_submission(start, change, rule):
    told = dataclasses.replace(greeting(start, "abbey", None), key="1" * 64)
    assert check_greeting(told.to_bytes(), start, "abbey", None) == "1" * 64
    with pytest.raises(BindingError, match="has not told its key") as caught:
        check_greeting(dataclasses.replace(told, **change).to_bytes(), start, "abbey", None)
    assert caught.value.rule == rule


def test_a_message_is_bound_to_every_field_of_its_envelope_and_to_the_version(
    question, monkeypatch
):
    bound = question.bound()
    for field in dataclasses.fields(Envelope):
        changed = dataclasses.replace(question, **{field.name: "another"}).bound()
        assert (changed == bound) == (field.name == "digest"), field.name
    monkeypatch.setattr("fedcsa.messages.envelope.PROTOCOL_VERSION", 0)
    assert question.bound() != bound


def test_an_envelope_names_the_closed_bytes_and_not_the_message(question):
    class Closing:
        def sign(self, _):
            return b""

        def close(self, payload, *_):
            return b"closed" + payload[::-1]

    wire, closed = close(question, b"brief", "", Closing())
    assert Envelope.from_bytes(wire).digest == digest(closed) != digest(b"brief")

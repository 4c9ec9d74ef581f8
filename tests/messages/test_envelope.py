"""What binds a message, and every way in which it can be the wrong one."""

import dataclasses
import json

import pytest

from fedcsa.errors import BindingError, MessageError
from fedcsa.messages.envelope import Envelope, ask, check_question, check_reply, reply, study_id

STUDY = study_id("demo", "seed = 1")


@pytest.fixture
def question():
    return ask(STUDY, "risk", "new", "abbey", b"brief")


def accept(envelope, payload=b"brief", **changes):
    given = {"study": STUDY, "me": "abbey", "target": "new", **changes}
    check_question(envelope, payload, **given)


def test_an_envelope_survives_its_bytes(question):
    assert Envelope.from_bytes(question.to_bytes()) == question


def test_a_fresh_question_and_its_reply_are_accepted(question):
    accept(question)
    check_reply(reply(question, b"report"), b"report", question, used=())


def test_no_two_questions_share_a_nonce(question):
    assert ask(STUDY, "risk", "new", "abbey", b"brief").nonce != question.nonce


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
    with pytest.raises(BindingError, match="must") as caught:
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
    envelope = dataclasses.replace(reply(question, b"report"), **change)
    with pytest.raises(BindingError, match="must") as caught:
        check_reply(envelope, b"report", question, used=())
    assert caught.value.rule == rule


def test_a_second_reply_and_an_unasked_one_are_refused_by_name(question):
    envelope = reply(question, b"report")
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


@pytest.mark.parametrize("change", [{"nonce": "x" * 32}, {"digest": "0"}, {"study": "s" * 400}])
def test_an_envelope_with_a_strange_entry_is_a_message_error(question, change):
    with pytest.raises(MessageError, match="An envelope must"):
        Envelope.from_bytes(dataclasses.replace(question, **change).to_bytes())


def test_an_entry_that_is_not_a_text_is_a_message_error(question):
    content = {**dataclasses.asdict(question), "phase": 1}
    with pytest.raises(MessageError, match="short texts only"):
        Envelope.from_bytes(json.dumps(content).encode())

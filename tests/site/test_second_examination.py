"""A model that the others find useless leaves the mixture between sites as in one process."""

import dataclasses
import json

import numpy as np
import pytest

from fedcsa.messages.codec import decode, digest, encode
from fedcsa.messages.envelope import Envelope, ask, close
from fedcsa.run import InProcess


def flipped(report):
    arrays = {**report.arrays, "coefficients": -report.arrays["coefficients"]}
    return dataclasses.replace(report, arrays=arrays)


@pytest.fixture
def lying(federation):
    """A federation in which the first source sends its model with the sign changed."""

    def tamper(task, name, letter):
        if (task, name) != ("model", "abbey"):
            return letter
        payload = encode(flipped(decode(letter["payload"])))
        envelope = Envelope.from_bytes(letter["envelope"])
        wire = dataclasses.replace(envelope, digest=digest(payload)).to_bytes()
        return {"envelope": wire, "payload": payload}

    federation.tamper = tamper
    return federation


def result(federation):
    return json.loads((federation.target.result_folder / "adaptation.json").read_text())


def in_process(federation, monkeypatch):
    ask_all = InProcess.ask

    def lying(courier, messages, phase):
        answers = ask_all(courier, messages, phase)
        if phase == "model":
            answers["abbey"] = flipped(answers["abbey"])
        return answers

    monkeypatch.setattr(InProcess, "ask", lying)
    return federation.study.run()


def test_between_sites_the_answer_is_that_of_one_process(lying, monkeypatch):
    told = decode(lying.attempt().conclusion)
    assert told.outcome == "done"
    assert set(told.sources.values()) == {"answered"}
    there, here = result(lying), in_process(lying, monkeypatch)
    assert here.source_weights["abbey"] == 0.0
    assert there["source_weights"] == here.source_weights
    assert there["promise"]["risk"] == here.promise.risk
    assert [f["source"] for f in there["findings"] if f["code"] == "useless-model"] == ["abbey"]


def test_every_examination_stands_once_in_its_sites_ledger(lying):
    lying.attempt()
    for name in lying.names:
        sent = [line["message"] for line in lying.log(name).events if line["event"] == "sent"]
        assert sent.count("examination-report") == 2
    assert len(lying.log("new").find("mixed again", study="small")["examinations"]) == 3


def test_a_study_cut_off_in_the_second_examination_goes_on_with_the_same_mixture(
    lying, monkeypatch
):
    lying.absent = {("again", "birch")}
    told = decode(lying.attempt().conclusion)
    assert told.sources["birch"] == "second examination missing"
    first = result(lying)
    lying.absent = set()
    lying.attempt()
    whole, here = result(lying), in_process(lying, monkeypatch)
    assert first["source_weights"] == whole["source_weights"] == here.source_weights
    assert whole["promise"]["risk"] == here.promise.risk != first["promise"]["risk"]


def test_nothing_is_examined_again_where_nobody_lies(federation):
    federation.attempt()
    assert federation.log("new").find("mixed again", study="small") is None
    assert "again" not in federation.board.seconds


def asked_again(federation, change):
    """What a source says to a second examination that was changed on its way."""
    line = federation.log("new").find("mixed again", study="small")
    message = decode(federation.log("new").payload(line["examinations"]["birch"]))
    payload = encode(change(message))
    question = ask(federation.agreed.id, "again", "new", "birch")
    envelope, _ = close(question, payload, "", None)
    return decode(federation.sources["birch"].answer(envelope, payload)[1])


def test_a_second_question_of_that_phase_is_refused(lying):
    lying.attempt()
    turned = asked_again(lying, lambda m: dataclasses.replace(m, constant=m.constant + 1.0))
    assert turned.rule == "one_examination"


def test_a_first_examination_does_not_pass_for_a_second(lying):
    lying.attempt()
    assert asked_again(lying, lambda m: dataclasses.replace(m, again=False)).rule == "phase_order"


def test_a_site_that_was_restarted_still_knows_what_it_examined(lying):
    """Between the two examinations the desk starts anew, and refuses models that it never saw."""
    lying.absent = {("again", name) for name in lying.names}
    lying.attempt()
    lying.attempt()  # desks anew, the second examination never came

    def foreign(message):
        arrays = {name: np.array(array) + 0.01 for name, array in message.arrays.items()}
        return dataclasses.replace(message, arrays=arrays)

    assert asked_again(lying, foreign).rule == "one_examination"

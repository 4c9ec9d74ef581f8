"""Lies of a target, a source, a lead and a coordinator that fit the format."""

import dataclasses
import re

import numpy as np
import pytest

from fedcsa.errors import NoSourcesError, PolicyError, StudyError
from fedcsa.protocol.codec import decode, digest, encode
from fedcsa.protocol.envelope import Envelope, ask
from fedcsa.protocol.messages import ModelReport
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.federation import RESERVED, Federation

# The target ----------------------------------------------------------------------------------


def with_public_sd(federation):
    path = federation.study_file
    path.write_text(path.read_text().replace('age = "number"', "age = { sd = 1.0 }"))
    path.write_text(path.read_text().replace('bmi = "number"', "bmi = { sd = 1.0 }"))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"bandwidth": 0.5}, "bandwidth"),
        ({"basis": "fourier"}, "basis"),
        ({"basis_seed": 4}, "basis_seed"),
        ({"embedding": np.full(101, 0.01)}, "embedding"),
        ({"shares": np.array([0.01, 0.01, 0.98])}, "shares"),
        ({"sd": np.full(2, 0.1)}, "sd"),
    ],
)
def test_a_brief_sharper_than_agreed_is_refused(federation, change, field):
    with_public_sd(federation)
    federation.attempt()
    brief = federation.target._brief
    federation.agreed.check(brief)
    with pytest.raises(PolicyError, match=f"as agreed; {field} is not") as caught:
        federation.agreed.check(dataclasses.replace(brief, **change))
    assert caught.value.rule == "not_as_agreed"


def test_another_brief_for_one_source_is_another_message_than_its_envelope_says(federation):
    """The coordinator carries one payload for all; whoever changes it for one breaks its digest."""
    kept = {}

    def deliver_another(task, letters, arrived, deliver=federation.deliver):
        if task == "risk":
            brief = decode(letters["abbey"]["payload"])
            forged = encode(dataclasses.replace(brief, mean=brief.mean + 0.01))
            letters = {**letters, "abbey": {**letters["abbey"], "payload": forged}}
        return kept.setdefault(task, deliver(task, letters, arrived))

    federation.deliver = deliver_another
    told = decode(federation.attempt().conclusion)
    assert dict(told.sources) == {
        "abbey": "rejected: replayed", "birch": "answered", "castle": "answered",
    }  # fmt: skip
    assert decode(kept["risk"]["abbey"]["payload"]).rule == "digest"


def test_a_brief_that_changes_between_two_attempts_gets_no_second_answer(federation):
    federation.absent = {("choose", "new")}
    with pytest.raises(Exception, match="must answer"):
        federation.attempt()
    brief = federation.target._brief
    payload = encode(dataclasses.replace(brief, mean=brief.mean + 0.01))
    envelope = ask(federation.agreed.id, "risk", "new", "abbey", payload).to_bytes()
    assert decode(federation.sources["abbey"].answer(envelope, payload)[1]).rule == "one_brief"


# A source ------------------------------------------------------------------------------------


def test_an_impossible_prediction_variance_costs_its_source_and_not_the_study(federation):
    def tamper(step, name, letter):
        if (step, name) != ("model", "abbey"):
            return letter
        report = decode(letter["payload"])
        assert isinstance(report, ModelReport)
        payload = encode(dataclasses.replace(report, prediction_variance=1e6))
        envelope = Envelope.from_bytes(letter["envelope"])
        wire = dataclasses.replace(envelope, digest=digest(payload)).to_bytes()
        return {"envelope": wire, "payload": payload}

    federation.tamper = tamper
    told = decode(federation.attempt(min_sources=2).conclusion)
    assert (told.outcome, told.sources["abbey"]) == ("done", "rejected: malformed")


# A coordinator -------------------------------------------------------------------------------


def test_a_reply_that_is_brought_twice_counts_once(federation):
    kept = {}
    federation.tamper = lambda task, name, letter: kept.setdefault((task, name), letter)
    federation.absent = {("risk", "birch")}
    assert decode(federation.attempt(min_sources=3).conclusion).outcome == "min_sources"
    assert federation.target.fates["abbey"] == "answered"
    again = kept["risk", "abbey"]
    with pytest.raises(NoSourcesError, match="0 did"):
        federation.target.choose({"abbey": (again["envelope"], again["payload"])})
    assert federation.target.fates["abbey"] == "rejected: duplicate"


# A lead --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/x", "a\\nb", "\\u001b[31mred", "demo@0123", "--refuse", "x; rm -rf y",
        "$(x)", "a" * 101, "\\u202etxt", " ",
    ],
)  # fmt: skip
def test_a_name_that_could_do_harm_where_it_is_printed_is_no_name(federation, name):
    text = federation.study_file.read_text()
    with pytest.raises(StudyError, match="must be named by") as caught:
        AgreedStudy(text.replace('name = "small"', f'name = "{name}"', 1))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["Schlaganfall-Übung 2", "卒中", "stroke_v1.2 (pilot)"])
def test_names_of_all_alphabets_work(federation, name):
    text = federation.study_file.read_text()
    federation.study_file.write_text(text.replace('name = "small"', f'name = "{name}"', 1))
    assert decode(federation.attempt().conclusion).outcome == "done"
    assert federation.target.result_folder.parent == federation.state("new") / "results"
    assert federation.target.result_folder.is_dir()


def test_the_id_of_a_study_is_too_long_for_two_studies_to_share(federation):
    """An id of 16 digits could be had twice by trying four thousand million files."""
    assert re.fullmatch(r"small@[0-9a-f]{40}", federation.agreed.id)


# An administrator ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*RESERVED, "fed"])
def test_a_site_does_not_take_the_name_of_something_else(name):
    """A site called 'authority' would get the folder with the authority's private key."""
    text = f"""name = "demo"
    [server]
    host = "fed"
    [sites.{name}]
    role = "source"
    [sites.new]
    role = "target"
    [users."a@b.org"]
    role = "lead"
    """
    with pytest.raises(StudyError, match=f"must not be called '{name}'"):
        Federation.parse(text)

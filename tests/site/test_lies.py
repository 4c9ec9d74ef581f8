"""Lies of a target, a source, a lead and a coordinator that fit the format."""

import dataclasses
import re

import numpy as np
import pytest

from fedcsa.errors import MessageError, NoSourcesError, PolicyError, StudyError
from fedcsa.federation.federation_file import RESERVED, Federation
from fedcsa.messages.codec import decode, digest, encode
from fedcsa.messages.envelope import Envelope, ask
from fedcsa.messages.messages import Brief, ModelReport
from fedcsa.site.agreed import AgreedStudy
from fedcsa.target.target import Target

# The target ----------------------------------------------------------------------------------


def with_public_sd(federation):
    path = federation.study_file
    path.write_text(path.read_text().replace('age = "number"', "age = { sd = 1.0 }"))
    path.write_text(path.read_text().replace('bmi = "number"', "bmi = { sd = 1.0 }"))


#: field of a brief -> what a target could say instead that is not as agreed
OTHERWISE = {
    "study": "another",
    "features": ["age", "weight"],
    "flags": [True, False],
    "group": "patient",
    "classes": ["ill", "well"],
    "model": {"name": "weighted-least-squares"},
    "candidates": [{"penalty": 0.5, "ratio_power": 0.0}],
    "loss": "absolute",
    "scheme": "rotate",
    "n_folds": 4,
    "shares": np.array([0.01, 0.01, 0.98]),
    "refit": False,
    "scale": False,
    "moments": True,
    "seed": 4,
    "exchange": "rows",
    "ratio": {"n_centres": 5},
    "n_rows": 101,  # not in tens
    "mean": np.array([0.12345, 0.1]),  # more digits than a table has
    "sd": np.full(2, 0.29),  # below 0.3 of the public one
    "correlations": np.array([[1.0, 0.123], [0.123, 1.0]]),
}


@pytest.mark.parametrize("field", [item.name for item in dataclasses.fields(Brief)])
def test_a_brief_that_is_not_as_agreed_in_any_one_field_is_refused(federation, field):
    with_public_sd(federation)
    rows = federation.site("new").read_target(federation.study)
    brief = Target(rows, federation.study.plan()).brief(["abbey"])
    federation.agreed.check(brief)
    if field == "rows":  # a message of its own kind has no room for them
        with pytest.raises(MessageError, match="rows if and only if they are exchanged"):
            dataclasses.replace(brief, rows=rows)
        return
    change = {field: OTHERWISE[field]}
    if field == "flags":  # a flag has a share, and then no correlations are told
        none = np.empty((0, 0))
        change |= {"mean": np.array([0.5, 0.1]), "sd": np.array([0.5, 1.0]), "correlations": none}
    if field == "exchange":
        change |= {"rows": rows, "correlations": np.empty((0, 0)), "n_rows": len(rows)}
    with pytest.raises(PolicyError, match=f"as agreed; {field} is not") as caught:
        federation.agreed.check(dataclasses.replace(brief, **change))
    assert caught.value.rule == "not_as_agreed"


def test_the_floor_of_a_told_sd_is_three_tenths_of_the_public_one(federation):
    with_public_sd(federation)
    rows = federation.site("new").read_target(federation.study)
    brief = Target(rows, federation.study.plan()).brief(["abbey"])
    federation.agreed.check(dataclasses.replace(brief, sd=np.full(2, 0.3), mean=np.zeros(2)))


def test_without_public_sds_there_is_no_floor(federation):
    rows = federation.site("new").read_target(federation.study)
    brief = Target(rows, federation.study.plan()).brief(["abbey"])
    federation.agreed.check(dataclasses.replace(brief, sd=np.full(2, 0.01), mean=np.zeros(2)))


def test_a_flag_is_told_in_its_agreed_unit(federation):
    """A smaller one would make the target's share count for more."""
    rows = federation.site("new").read_target(federation.study)
    rows = np.column_stack([rows[:, 0], rows[:, 1] > 0.0])
    text = federation.study_file.read_text()
    federation.study_file.write_text(text.replace('bmi = "number"', 'bmi = "flag"'))
    brief = Target(rows, federation.study.plan()).brief(["abbey"])
    federation.agreed.check(brief)
    with pytest.raises(PolicyError, match="as agreed; sd is not"):
        federation.agreed.check(dataclasses.replace(brief, sd=np.array([brief.sd[0], 0.1])))


def test_another_brief_for_one_source_is_another_message_than_its_envelope_says(federation):
    """An envelope names its payload; whoever changes one breaks its digest."""
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


@pytest.mark.parametrize("change", [{"candidate": 7}, {"n_rows": 10}, {"link": "logistic"}])
def test_an_impossible_model_costs_its_source_and_not_the_study(federation, change):
    def tamper(step, name, letter):
        if (step, name) != ("model", "abbey"):
            return letter
        report = decode(letter["payload"])
        assert isinstance(report, ModelReport)
        payload = encode(dataclasses.replace(report, **change))
        envelope = Envelope.from_bytes(letter["envelope"])
        wire = dataclasses.replace(envelope, digest=digest(payload)).to_bytes()
        return {"envelope": wire, "payload": payload}

    federation.tamper = tamper
    told = decode(federation.attempt(min_sources=2).conclusion)
    assert (told.outcome, told.sources["abbey"]) == ("done", "model rejected: malformed")


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

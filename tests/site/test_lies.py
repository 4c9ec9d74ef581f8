"""Lies of a target, a source, a lead and a coordinator that fit the format."""

import dataclasses
import functools
import re
import shutil
from collections import defaultdict

import numpy as np
import pytest

from fedcsa.errors import (
    MessageError,
    NoSourcesError,
    PolicyError,
    ProtocolError,
    StudyError,
)
from fedcsa.federation.federation_file import RESERVED, Federation
from fedcsa.messages.codec import decode, digest, encode
from fedcsa.messages.envelope import Envelope, ask, close
from fedcsa.messages.messages import BacktestReport, Brief
from fedcsa.run import InProcess
from fedcsa.site.agreed import AgreedStudy
from fedcsa.target.accept import MAX_ROWS
from fedcsa.target.target import Target

#: phase -> what comes before the word for what became of an answer
PREFIX = {"risk": "", "model": "model ", "examine": "examination "}

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
    "scheme": "split",
    "n_folds": 4,
    "shares": np.array([0.01, 0.01, 0.98]),
    "refit": False,
    "scale": False,
    "moments": True,
    "seed": 4,
    "exchange": "rows",
    "ratio": {"n_centres": 5},
    "thresholds": np.array([0.5]),
    "subgroups": [{"name": "old", "feature": "age", "cut": 1.0}],
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
    with pytest.raises(PolicyError, match=f"as agreed: {field} differs") as caught:
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
    with pytest.raises(PolicyError, match="as agreed: sd differs"):
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
    with pytest.raises(Exception, match="did not answer"):
        federation.attempt()
    brief = federation.target._brief
    payload = encode(dataclasses.replace(brief, mean=brief.mean + 0.01))
    envelope, _ = close(ask(federation.agreed.id, "risk", "new", "abbey"), payload, "", None)
    assert decode(federation.sources["abbey"].answer(envelope, payload)[1]).rule == "one_brief"


# A source ------------------------------------------------------------------------------------


def scaled(report, **factors):
    return {name: factor * getattr(report, name) for name, factor in factors.items()}


def none_of(_, *names):
    return dict.fromkeys(names, np.empty(0))


def line(m, **arrays):
    """A model with other arrays."""
    return {"arrays": {**m.arrays, **arrays}}


#: As if a tree were agreed.
STUMP = {
    "form": {"kind": "trees", "link": "identity", "combine": "sum"},
    "arrays": {"value": np.ones(1), "feature": np.zeros(1, np.int32)},
}
REFUSED = "is refused"
MOMENTS = ("loss_mean", "loss_m2", "product_mean", "product_m2", "co_moment")
BAD, RISK = "malformed", "an impossible risk"
OWN = "findings of a source's own"
#: study, phase, what the source changes, the rule under which it is refused, part of the text
LIES = [
    ("moments", "risk", lambda _: {"n_rows": MAX_ROWS + 1}, BAD, "at most 100000000 rows"),
    ("moments", "risk", lambda _: {
        "difference_before": np.zeros(3), "difference_after": np.zeros(3),
        "correlations": np.empty(0),
    }, BAD, "candidates and 2 features"),
    ("moments", "risk", lambda r: {"n_rows": r.n_rows + 1}, BAD, "must judge every row once"),
    ("moments", "risk", lambda _: {"n_folds": 6}, BAD, "must have the study's folds, or fewer"),
    ("moments", "risk", lambda r: none_of(r, *MOMENTS), BAD, "must have moments if the study asks"),
    ("moments", "risk", lambda _: {"outcome_mean": np.zeros(2)}, BAD, "on the study's outcome"),
    ("moments", "risk", lambda r: {"risk": -r.risk}, BAD, "has a negative risk"),
    ("moments", "risk", lambda r: scaled(r, loss_mean=-1.0), BAD, "has a negative risk"),
    ("moments", "risk", lambda r: scaled(r, product_mean=-1.0), BAD, "has a negative risk"),
    ("moments", "risk", lambda r: scaled(r, ratio_m2=30.0, co_moment=0.0), BAD, "from its ratio"),
    ("moments", "risk", lambda r: scaled(r, product_mean=1e6), BAD, "impossible weighted risk"),
    ("moments", "risk", lambda r: {"loss_m2": 2 * r.n_judged**2 * r.loss_mean**2}, BAD, "loss_m2"),
    ("moments", "risk", lambda r: {
        "product_m2": 2 * r.n_judged**2 * r.product_mean**2
    }, BAD, "product_m2"),
    ("moments", "risk", lambda _: {"failed": {"0": "row 7 of Ulm"}}, BAD, "by name, not in words"),
    ("moments", "risk", lambda _: {"failed": {"0": "U" * 61}}, BAD, "by name, not in words"),
    ("moments", "risk", lambda _: {
        "findings": [{"code": "no-overlap", "evidence": {"imbalance": 3.0}}]
    }, BAD, OWN),
    ("moments", "risk", lambda _: {
        "findings": [{"code": "fit-warning", "evidence": {"to": "Ulm"}}]
    }, BAD, OWN),
    ("classes", "risk", lambda _: {"outcome_mean": np.array([0.4, 0.4])}, BAD, "sum to 1"),
    ("classes", "risk", lambda _: {"outcome_mean": np.array([-0.5, 1.5])}, BAD, "sum to 1"),
    ("classes", "risk", lambda r: {"risk": r.risk + 1.5}, BAD, "a risk above 1"),
    ("classes", "risk", lambda r: {"loss_mean": r.loss_mean + 1.5}, BAD, "a risk above 1"),
    ("classes", "risk", lambda r: {"variance": np.full(len(r.risk), 0.5)}, BAD, "variance"),
    ("classes", "risk", lambda r: {"loss_m2": np.full(len(r.risk), 80.0)}, BAD, "loss_m2"),
    ("ridge", "model", lambda m: {"candidate": 1 - m.candidate}, BAD, "candidate asked for"),
    ("ridge", "model", lambda m: {"n_rows": m.n_rows - 1}, BAD, "rows that its report was on"),
    ("ridge", "model", lambda m: {"n_rows": m.n_rows + 1}, BAD, "rows that its report was on"),
    ("ridge", "model", lambda _: STUMP, BAD, REFUSED),
    ("pipeline", "model", lambda _: STUMP, BAD, REFUSED),
    ("ridge", "model", lambda m: line(m, coefficients=np.ones(3)), BAD, REFUSED),
    ("ridge", "model", lambda m: line(m, more=np.ones(3)), BAD, REFUSED),
    ("ridge", "model", lambda m: {"form": {**m.form, "link": "logistic"}}, BAD, REFUSED),
    ("classes", "model", lambda m: {"form": {**m.form, "link": "identity"}}, BAD, REFUSED),
    ("ridge", "model", lambda m: line(m, intercept=np.full(1, 1e6)), "wild_model", "no honest"),
    ("ridge", "model", lambda m: line(m, coefficients=np.full(2, 1e6)), "wild_model", "no honest"),
    ("ridge", "examine", lambda _: {
        "level": np.zeros(2), "level_variance": np.ones(2)
    }, BAD, "of the study's outcome"),
    ("ridge", "examine", lambda _: {"risk": -1.0}, BAD, RISK),
    *(
        ("ridge", "examine", lambda _, name=name: {name: 0.0}, BAD, RISK)
        for name in ("risk", "constant_risk", "risk_variance", "ratio_variance")
    ),
    ("ridge", "examine", lambda _: {"level_variance": np.zeros(1)}, BAD, RISK),
    *(  # an estimate that pretends to be exact would outweigh all others, or be no number
        ("ridge", "examine", lambda r, name=name, small=small: {
            name: np.full(np.shape(getattr(r, name)), small)[()]
        }, BAD, RISK)
        for name in ("risk_variance", "ratio_variance", "level_variance", "member_variance")
        for small in (5e-324, 9e-13)
    ),
    ("classes", "examine", lambda _: {"risk": 1.2}, BAD, RISK),
    ("classes", "examine", lambda _: {"constant_risk": 1.2}, BAD, RISK),
    *(
        ("ridge", phase, lambda _, change=change: change, rule, text)
        for phase in PREFIX
        for change, rule, text in (
            ({"source": "castle"}, "wrong_sender", "must be its own"),
            ({"study": "another"}, "wrong_sender", "must be its own"),
            ({"in_reply_to": "0" * 64}, "replayed", "must answer this very question"),
        )
    ),
    *(
        ("ridge", phase, lambda m: BacktestReport(m.study, m.source, 1.0, 1.0, 1.0), "phase_order",
         "a backtest-report came")
        for phase in PREFIX
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def answered(tmp_path_factory, federation_in, write_study):
    """Federations by kind of study, whose sources have answered and will do so again."""
    made = {}

    def get(kind):
        if kind not in made:
            model = {"moments": "ridge", "classes": "classifier"}.get(kind, kind)
            made[kind] = federation_in(tmp_path_factory.mktemp(kind), model)
            if kind in ("moments", "classes"):
                write_study(made[kind].folder, model, top='compare = ["fediwe"]')
            assert decode(made[kind].attempt().conclusion).outcome == "done"
        made[kind].tamper = lambda _task, _name, letter: letter
        return made[kind]

    return get


@pytest.fixture(scope="module")
def honest(answered):
    """What the sources of a study in one process answer in each phase, by its kind.

    They always answer the same, each to its very question, so they are asked once.
    """

    @functools.cache
    def get(kind):
        kept, ask_all = {}, InProcess.ask

        def ask(courier, messages, phase):
            kept[phase] = ask_all(courier, messages, phase)
            return kept[phase]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(InProcess, "ask", ask)
            answered(kind).study.run()
        return kept

    return get


def forged(message, change):
    changed = change(message)
    return dataclasses.replace(message, **changed) if isinstance(changed, dict) else changed


#: Who lies; the others carry the study on.
LIARS = ("abbey", "birch")


def told_together():
    """Lies of one study and phase, as many at a time as there are liars.

    A wild model is one beside the others', so it comes alone.
    """
    by_phase = defaultdict(list)
    for number, (kind, phase, *lie) in enumerate(LIES):
        by_phase[kind, phase, number if "wild_model" in lie else None].append(lie)
    for (kind, phase, _), lies in by_phase.items():
        for first in range(0, len(lies), len(LIARS)):
            yield kind, phase, dict(zip(LIARS, lies[first : first + len(LIARS)], strict=False))


@pytest.mark.parametrize(("kind", "phase", "lies"), list(told_together()))
def test_a_lie_is_an_error_in_one_process_and_costs_its_source_between_sites(
    answered, honest, monkeypatch, kind, phase, lies
):
    federation = answered(kind)

    def tamper(task, name, letter):
        if task != phase or name not in lies:
            return letter
        payload = encode(forged(decode(letter["payload"]), lies[name][0]))
        envelope = Envelope.from_bytes(letter["envelope"])
        wire = dataclasses.replace(envelope, digest=digest(payload)).to_bytes()
        return {"envelope": wire, "payload": payload}

    federation.tamper = tamper
    shutil.rmtree(federation.state("new"))
    told = decode(federation.attempt().conclusion)
    assert told.outcome == "done"
    fates = {name: told.sources[name].split("; ")[0] for name in lies}
    assert fates == {name: f"{PREFIX[phase]}rejected: {lies[name][1]}" for name in lies}

    told_before = honest(kind)
    for liar, (change, rule, text) in lies.items():

        def lying(_courier, _messages, of, liar=liar, change=change):
            answers = dict(told_before[of])
            if of == phase:
                answers[liar] = forged(answers[liar], change)
            return answers

        monkeypatch.setattr(InProcess, "ask", lying)
        with pytest.raises(ProtocolError, match=text) as caught:
            federation.study.run()
        assert caught.value.rule == rule
        assert f"'{liar}'" in str(caught.value)
        assert "Ulm" not in str(caught.value)


# A coordinator -------------------------------------------------------------------------------


def test_a_reply_that_is_brought_twice_counts_once(federation):
    kept = {}
    federation.tamper = lambda task, name, letter: kept.setdefault((task, name), letter)
    federation.absent = {("risk", "birch")}
    assert decode(federation.attempt(min_sources=3).conclusion).outcome == "min_sources"
    assert federation.target.fates["abbey"] == "answered"
    again = kept["risk", "abbey"]
    with pytest.raises(NoSourcesError, match="0 of 0 answers were reports"):
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

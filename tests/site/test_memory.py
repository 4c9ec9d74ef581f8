"""What a site remembers: over crashes, beside other jobs, and when somebody takes it away."""

import contextlib
import dataclasses
import json
import shutil

import pytest

from fedcsa.errors import LedgerError, ProtocolError
from fedcsa.messages.codec import decode, encode
from fedcsa.messages.envelope import ask, close
from fedcsa.messages.messages import RiskReport
from fedcsa.site.log import HEAD, LOG, SiteLog
from fedcsa.site.source_desk import SourceDesk
from fedcsa.site.state import Status
from fedcsa.target.target import Target

#: An honest study ends without the phase "again".
PHASES = ("risk", "model", "examine")
#: after which phase something happens to a source -> how its fate then begins
BETWEEN = {"risk": "model ", "model": "examination "}


# Crashes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", PHASES)
def test_a_full_disk_lets_nothing_out(federation, monkeypatch, phase):
    def full(*_):
        raise OSError(28, "No space left on device")

    federation.attempt()
    desk = federation.desk("abbey")
    asked = federation.asked_again(phase)
    monkeypatch.setattr("fedcsa.site.log.os.fsync", full)
    with pytest.raises(OSError, match="No space"):  # what the engine's side turns into a code
        desk.answer(*asked)


@pytest.mark.parametrize("step", ["announce", "choose", "mix"])
def test_a_full_disk_at_the_target_lets_nothing_out(federation, monkeypatch, step):
    def full(*_):
        raise OSError(28, "No space left on device")

    replies = {}

    def keep(task, name, letter):
        if name != "new":
            replies.setdefault(task, {})[name] = letter
        return letter

    federation.tamper = keep
    federation.absent = {(step, "new")}
    with pytest.raises(ProtocolError, match="did not answer"):
        federation.attempt()
    came = replies.get({"choose": "risk", "mix": "model"}.get(step), {})
    monkeypatch.setattr("fedcsa.site.log.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        federation.target.take(step, {"replies": came})


# Other jobs ----------------------------------------------------------------------------------


def announced(desk):
    """The brief to abbey once more, whether or not it was answered."""
    return desk._post("risk", {"abbey": desk._brief})


def only(post):
    [payload] = set(post["payloads"].values())
    return payload


def other_brief(federation, post):
    """A brief under the same study, as agreed in everything but the target's table."""
    brief = decode(only(post))
    payload = encode(dataclasses.replace(brief, n_rows=brief.n_rows + 10))
    return close(ask(federation.agreed.id, "risk", "new", "abbey"), payload, "", None)


@pytest.mark.parametrize("approve", [False, True])
def test_two_briefs_at_the_same_time_get_one_answer(federation, approve):
    """While one waits for approval another comes, in a job that must wait, too, or need not.

    Then the study is approved, and the first comes again.
    """
    federation.attempt()
    post = announced(federation.target)
    envelope, payload = other_brief(federation, post)
    site = dataclasses.replace(federation.site("abbey"), approve=True, state="other-state")
    another = dataclasses.replace(site, approve=approve)
    start = ask(federation.agreed.id, "start", "lead", "new")
    first, second = (SourceDesk("abbey", x, federation.agreed, start) for x in (site, another))
    answers = {}
    waits = decode(first.answer(post["envelopes"]["abbey"], only(post))[1])
    assert waits.rule == "waiting"
    SiteLog(site.state_folder).decide("small", "approved")
    answers["second"] = decode(second.answer(envelope, payload)[1])
    fresh = close(ask(federation.agreed.id, "risk", "new", "abbey"), only(post), "", None)
    answers["first"] = decode(first.answer(*fresh)[1])
    answered, refused = ("first", "second") if approve else ("second", "first")
    assert isinstance(answers[answered], RiskReport)  # the one that was looked at
    assert answers[refused].rule == "one_brief"
    left = [item.entry.message for item in SiteLog(site.state_folder).sent]
    assert sorted(left) == ["refusal", "refusal", "risk-report"]


def test_a_choice_that_another_job_made_meanwhile_is_not_made_again(federation, monkeypatch):
    choose = Target.choose

    def meanwhile(role, reports):
        log = federation.log("new")
        log.append("chosen", study="small", request=log.keep(b"another"), reports={})
        return choose(role, reports)

    monkeypatch.setattr(Target, "choose", meanwhile)
    assert decode(federation.attempt().conclusion).outcome == "one_choice"


def test_a_mixture_that_another_job_told_meanwhile_is_not_told_again(federation, monkeypatch):
    mix = Target.mix

    def meanwhile(role, models):
        log = federation.log("new")
        told = {"abbey": log.keep(b"another")}
        log.append("mixed", study="small", models={}, examinations=told)
        return mix(role, models)

    monkeypatch.setattr(Target, "mix", meanwhile)
    assert decode(federation.attempt().conclusion).outcome == "one_mixture"
    assert "examination" not in {item.entry.message for item in federation.log("new").sent}


# What is taken away --------------------------------------------------------------------------


def refusals(federation):
    return dict(decode(federation.attempt().conclusion).sources)


def take_out(folder, event, phase=None):
    """Remove one line of a site's log."""
    path = folder / LOG
    lines = path.read_text().splitlines(keepends=True)
    said = [(line["event"], line.get("phase")) for line in map(json.loads, lines)]
    del lines[said.index((event, phase))]
    path.write_text("".join(lines))


LOSSES = {
    "all": lambda folder: (folder / LOG).unlink(),
    "head": lambda folder: (folder / HEAD).unlink(),
    "end": lambda folder: (folder / LOG).write_text((folder / LOG).read_text()[:-10]),
    **{
        f"{event}-{phase}": lambda folder, line=(event, phase): take_out(folder, *line)
        for event in ("asked", "opening", "opened", "accepted", "answered")
        for phase in PHASES
    },
    "sent": lambda folder: take_out(folder, "sent"),
}
LOSSES_OF_THE_TARGET = {
    **{name: LOSSES[name] for name in ("all", "head", "end", "sent")},
    **{
        event: lambda folder, event=event: take_out(folder, event)
        for event in ("announced", "chosen", "mixed", "concluded")
    },
}


@pytest.fixture(scope="module")
def done(tmp_path_factory, federation_in):
    """The folder of a federation after a study."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedcsa.answer.page.write_report", lambda _: None)
        made = federation_in(tmp_path_factory.mktemp("done"))
        made.attempt()
        return made.folder


@pytest.fixture
def lost(done, federation):
    shutil.rmtree(federation.folder)
    shutil.copytree(done, federation.folder)
    return federation


@pytest.mark.parametrize("loss", LOSSES)
def test_a_source_that_lost_a_line_answers_nothing_more(lost, loss):
    LOSSES[loss](lost.state("abbey"))
    post = announced(lost.desk("new"))
    desk = lost.desk("abbey")
    with pytest.raises(LedgerError):
        desk.answer(post["envelopes"]["abbey"], only(post))
    said = [line["text"] for line in Status(lost.state("abbey")).lines()]
    assert "Restore the state folder from a backup" in said[-1]


@pytest.mark.parametrize("loss", LOSSES_OF_THE_TARGET)
def test_a_target_that_lost_a_line_announces_nothing_more(lost, loss):
    LOSSES_OF_THE_TARGET[loss](lost.state("new"))
    desk = lost.desk("new")
    with pytest.raises(LedgerError) as caught:
        desk.announce()
    with pytest.raises(LedgerError):
        desk.failed(caught.value)


@pytest.mark.parametrize("phase", PHASES)
def test_a_crash_between_answer_and_ledger_is_no_loss(federation, monkeypatch, phase):
    def die(*_, **__):
        raise OSError("the power went")

    # Nobody answers the phase, so that the target has asked and not gone on.
    federation.absent = {(phase, name) for name in ("abbey", "birch", "castle")}
    federation.absent |= {("conclude", "new")} if phase == "examine" else set()
    with contextlib.suppress(ProtocolError):
        federation.attempt()
    asked = federation.asked_again(phase)
    desk = federation.desk("abbey")
    with monkeypatch.context() as patch:
        patch.setattr(SiteLog, "record", die)
        with pytest.raises(OSError, match="power"):
            desk.answer(*asked)
    federation.absent = set()
    assert refusals(federation)["abbey"] == "answered"
    left = [item.entry.message for item in federation.log("abbey").sent if item.kind == "sent"]
    assert sorted(left) == ["examination-report", "model-report", "risk-report"]


@pytest.mark.parametrize("step", ["choose", "mix"])
def test_a_target_that_crashes_between_answer_and_ledger_tells_the_same(
    federation, monkeypatch, step
):
    record, dead = SiteLog.record, {"model-request": "choose", "examination": "mix"}

    def die(log, site, message, *args, **kwargs):
        if dead.get(message.name) == step:
            raise OSError("the power went")
        return record(log, site, message, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(SiteLog, "record", die)
        with pytest.raises(OSError, match="power"):
            federation.attempt()
    log = federation.log("new")
    told = log.find({"choose": "chosen", "mix": "mixed"}[step], study="small")
    federation.absent = {("risk", "birch"), ("model", "castle")}  # that changes nothing any more
    outcome = decode(federation.attempt().conclusion)
    assert log.find({"choose": "chosen", "mix": "mixed"}[step], study="small") == told
    castle = "answered" if step == "mix" else "model missing"
    assert outcome.sources == {"abbey": "answered", "birch": "answered", "castle": castle}


def test_the_state_of_another_site_is_not_used(federation):
    federation.absent = {("examine", "birch")}
    federation.attempt()
    federation.absent = set()
    shutil.rmtree(federation.state("birch"))
    shutil.copytree(federation.state("abbey"), federation.state("birch"))
    assert refusals(federation)["birch"] == "examination refused: other_site"


@pytest.mark.parametrize(("after", "fate"), BETWEEN.items())
def test_a_table_that_vanishes_between_the_phases_is_a_refusal_and_the_others_go_on(
    federation, after, fate
):
    def restart(task, name, letter):
        if (task, name) == (after, "abbey"):
            (federation.folder / "abbey" / "table.csv").unlink()
            federation.sources["abbey"] = federation.desk("abbey")
        return letter

    federation.tamper = restart
    told = refusals(federation)
    assert told["abbey"].split("; ")[0] == f"{fate}refused: failed"
    assert (told["birch"], told["castle"]) == ("answered", "answered")
    said = [line["text"] for line in Status(federation.state("abbey")).lines()]
    assert any("table.csv" in text for text in said)


@pytest.mark.parametrize(
    ("stream", "again"), [("", True), ("stream = true", True), ("stream = true", False)]
)
@pytest.mark.parametrize(("after", "fate"), BETWEEN.items())
def test_rows_that_change_between_the_phases_are_refused(federation, after, fate, stream, again):
    """Rows in memory cannot change without a restart; those that are read anew can."""
    federation.configure("abbey", stream)

    def restart(task, name, letter):
        if (task, name) == (after, "abbey"):
            path = federation.folder / "abbey" / "table.csv"
            header, first, *rest = path.read_text().splitlines(keepends=True)
            age, bmi, outcome = first.split(",")
            path.write_text("".join([header, f"{age},{bmi},{float(outcome) + 1e-9!r}\n", *rest]))
            if again:
                federation.sources["abbey"] = federation.desk("abbey")
        return letter

    federation.tamper = restart
    told = refusals(federation)
    assert told["abbey"].split("; ")[0] == f"{fate}refused: rows_changed"
    assert (told["birch"], told["castle"]) == ("answered", "answered")


def test_a_cell_is_quoted_nowhere_not_even_at_its_own_site(federation):
    path = federation.folder / "abbey" / "table.csv"
    path.write_text(path.read_text() + "MARKER-4711,1.0,1.0\n")
    assert refusals(federation)["abbey"] == "refused: failed"
    for file in federation.state("abbey").rglob("*"):
        assert not file.is_file() or b"MARKER" not in file.read_bytes()
    assert b"MARKER" not in federation.board.conclusion

"""What a site remembers: over crashes, beside other jobs, and when somebody takes it away."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime

import pytest

from fedcsa.errors import PolicyError, ProtocolError
from fedcsa.messages.codec import decode, encode
from fedcsa.messages.envelope import PHASES, ask
from fedcsa.messages.messages import MESSAGES, Refusal, RiskReport
from fedcsa.site.chain import HEAD, LEDGER, FileLedger, verify
from fedcsa.site.journal import Journal
from fedcsa.site.lines import locked
from fedcsa.site.memory import COUNTED, check_memory
from fedcsa.site.source_desk import SourceDesk
from fedcsa.site.state import Approvals, Status
from fedcsa.target.target import Target

#: after which phase something happens to a source -> how its fate then begins
BETWEEN = {"risk": "model ", "model": "examination "}
APPEND = """
import sys
from pathlib import Path
from fedcsa.site.chain import FileLedger
from fedcsa.site.journal import Journal
from fedcsa.site.lines import locked
from fedcsa.messages.messages import Refusal
folder = Path(sys.argv[1])
ledger, journal = FileLedger(folder, "abbey"), Journal(folder)
print("ready", flush=True)
for number in range(100_000):
    journal.note("asked", nonce=f"{number:032x}")
    ledger.record(Refusal("demo", "abbey", f"{number:064x}", "models"), "new", envelope_bytes=1)
"""


# Crashes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [1, 5, 12])
def test_kill_9_while_writing_leaves_a_ledger_that_is_whole_and_goes_on(tmp_path, lines):
    writer = subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", APPEND, str(tmp_path)], stdout=subprocess.PIPE
    )
    assert writer.stdout.readline() == b"ready\n"
    path = tmp_path / LEDGER
    while not path.exists() or path.read_bytes().count(b"\n") < lines:
        assert writer.poll() is None
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait(60)
    writer.stdout.close()
    before = len(verify(tmp_path))
    assert before >= lines
    assert len(Journal(tmp_path).nonces) in (before, before + 1)
    FileLedger(tmp_path, "abbey").record(
        Refusal("demo", "abbey", "", "models"), "new", envelope_bytes=1
    )
    assert len(verify(tmp_path)) == before + 1


def test_a_ledger_cut_off_in_the_middle_of_a_line_goes_on(tmp_path):
    ledger = FileLedger(tmp_path, "abbey")
    ledger.record(Refusal("demo", "abbey", "", "models"), "new", envelope_bytes=1)
    with (tmp_path / LEDGER).open("ab") as file:
        file.write(b'{"entry": {"si')
    assert len(verify(tmp_path)) == 1
    ledger.record(Refusal("demo", "abbey", "", "features"), "new", envelope_bytes=1)
    assert len(verify(tmp_path)) == 2


def question(federation, phase):
    """What comes to abbey in `phase`, in an envelope of its own."""
    target = federation.target
    message = {
        "risk": lambda: target._brief,
        "model": lambda: target._request,
        "examine": lambda: target._role._examinations["abbey"],
    }[phase]()
    post = target._post(phase, {"abbey": message})
    return post.envelopes["abbey"], encode(message)


@pytest.mark.parametrize("phase", PHASES)
def test_a_full_disk_lets_nothing_out(federation, monkeypatch, phase):
    def full(*_):
        raise OSError(28, "No space left on device")

    federation.attempt()
    desk = SourceDesk("abbey", federation.site("abbey"), federation.agreed, "new")
    asked = question(federation, phase)
    monkeypatch.setattr("fedcsa.site.chain.append_line", full)
    with pytest.raises(OSError, match="No space"):  # what the engine's side turns into a code
        desk.answer(*asked)


@pytest.mark.parametrize("step", ["brief", "choose", "mix"])
def test_a_full_disk_at_the_target_lets_nothing_out(federation, monkeypatch, step):
    def full(*_):
        raise OSError(28, "No space left on device")

    replies = {}

    def keep(task, name, letter):
        if name != "new":
            replies.setdefault(task, {})[name] = letter["envelope"], letter["payload"]
        return letter

    federation.tamper = keep
    federation.absent = {({"brief": "announce"}.get(step, step), "new")}
    with pytest.raises(ProtocolError, match="must answer"):
        federation.attempt()
    take = getattr(federation.target, step)
    came = {"choose": replies.get("risk"), "mix": replies.get("model")}.get(step)
    monkeypatch.setattr("fedcsa.site.chain.append_line", full)
    with pytest.raises(OSError, match="No space"):
        take(*([] if came is None else [came]))


def test_a_clock_that_goes_back_changes_nothing(tmp_path):
    times = iter([datetime(2030, 1, 1, tzinfo=UTC), datetime(1980, 1, 1, tzinfo=UTC)])
    ledger = FileLedger(tmp_path, "abbey", lambda: next(times))
    for rule in ("models", "features"):
        ledger.record(Refusal("demo", "abbey", "", rule), "new", envelope_bytes=1)
    assert [item.entry.time[:4] for item in verify(tmp_path)] == ["2030", "1980"]


# Other jobs ----------------------------------------------------------------------------------


def test_of_two_claims_at_the_same_time_one_stands_for_both(tmp_path):
    found, start = [], threading.Barrier(8)

    def claim(number):
        journal = Journal(tmp_path)
        start.wait()
        found.append(journal.claim("accepted", {"study": "demo"}, {"request": number})["request"])

    threads = [threading.Thread(target=claim, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(Journal(tmp_path).lines) == 1


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: Journal(folder).claim("accepted", {"study": "demo"}, {}),
        lambda folder: Journal(folder).note("asked", nonce="1"),
        lambda folder: FileLedger(folder, "abbey").record(
            Refusal("demo", "abbey", "", "models"), "new", envelope_bytes=1
        ),
    ],
    ids=["claim", "note", "record"],
)
def test_whoever_writes_waits_for_whoever_does_so_already(tmp_path, write):
    thread = threading.Thread(target=write, args=(tmp_path,))
    with locked(tmp_path):
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        assert not list(tmp_path.glob("*.jsonl"))
    thread.join()
    assert list(tmp_path.glob("*.jsonl"))


def only(post):
    [payload] = post.payloads.values()
    return payload


def other_brief(federation, post):
    """A brief under the same study, as agreed in everything but the target's table."""
    brief = decode(only(post))
    payload = encode(dataclasses.replace(brief, n_rows=brief.n_rows + 10))
    envelope = ask(federation.agreed.id, "risk", "new", "abbey", payload)
    return envelope.to_bytes(), payload


@pytest.mark.parametrize("approve", [False, True])
def test_two_briefs_at_the_same_time_get_one_answer(federation, approve):
    """While one waits for approval another comes, in a job that must wait, too, or need not."""
    federation.attempt()
    post = federation.target.brief()
    envelope, payload = other_brief(federation, post)
    site = dataclasses.replace(federation.site("abbey"), approve=True, state="other-state")
    another = dataclasses.replace(site, approve=approve)
    second = SourceDesk("abbey", another, federation.agreed, "new")
    answers = {}

    def meanwhile():
        Approvals(site.state_folder).decide("small", "approved")
        answers["second"] = decode(second.answer(envelope, payload)[1])
        return True

    first = SourceDesk("abbey", site, federation.agreed, "new", meanwhile)
    answers["first"] = decode(first.answer(post.envelopes["abbey"], only(post))[1])
    answered, refused = ("first", "second") if approve else ("second", "first")
    assert isinstance(answers[answered], RiskReport)  # the one that was looked at
    assert answers[refused].rule == "one_brief"
    left = [item.entry.message for item in verify(site.state_folder)]
    assert sorted(left) == ["refusal", "risk-report"]


def test_a_choice_that_another_job_made_meanwhile_is_not_made_again(federation, monkeypatch):
    choose = Target.choose

    def meanwhile(role, reports):
        journal = Journal(federation.state("new"))
        journal.note("chosen", study="small", request=journal.keep(b"another"), reports={})
        return choose(role, reports)

    monkeypatch.setattr(Target, "choose", meanwhile)
    assert decode(federation.attempt().conclusion).outcome == "one_choice"


def test_a_mixture_that_another_job_told_meanwhile_is_not_told_again(federation, monkeypatch):
    mix = Target.mix

    def meanwhile(role, models):
        journal = Journal(federation.state("new"))
        told = {"abbey": journal.keep(b"another")}
        journal.note("mixed", study="small", models={}, examinations=told)
        return mix(role, models)

    monkeypatch.setattr(Target, "mix", meanwhile)
    assert decode(federation.attempt().conclusion).outcome == "one_mixture"
    assert "examination" not in {item.entry.message for item in verify(federation.state("new"))}


# What is taken away --------------------------------------------------------------------------


def refusals(federation):
    return dict(decode(federation.attempt().conclusion).sources)


#: Of a source that lost its memory after it had answered all; what came before counts.
LOST = "examination refused: "


def test_a_lost_journal_is_noticed_by_the_ledger(federation):
    federation.attempt()
    (federation.state("abbey") / "journal.jsonl").unlink()
    assert refusals(federation)["abbey"] == f"{LOST}journal_lost"


@pytest.mark.parametrize("phase", PHASES)
def test_journal_lines_taken_out_are_noticed(federation, phase):
    federation.attempt()
    path = federation.state("abbey") / "journal.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [x for x in lines if (x["step"], x.get("phase")) != ("answered", phase)]
    assert len(kept) == len(lines) - 1
    path.write_text("".join(json.dumps(line) + "\n" for line in kept))
    assert refusals(federation)["abbey"] == f"{LOST}journal_lost"


@pytest.mark.parametrize("step", ["announced", "mixed"])
def test_a_target_that_lost_what_it_told_announces_nothing(federation, step):
    federation.attempt()
    path = federation.state("new") / "journal.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [line for line in lines if line["step"] != step]
    assert len(kept) == len(lines) - 1
    path.write_text("".join(json.dumps(line) + "\n" for line in kept))
    assert decode(federation.attempt().conclusion).outcome == "journal_lost"


def test_a_target_that_lost_its_journal_announces_nothing(federation):
    federation.attempt()
    (federation.state("new") / "journal.jsonl").unlink()
    assert decode(federation.attempt().conclusion).outcome == "journal_lost"


def test_a_lost_ledger_is_noticed_by_the_journal(federation):
    federation.attempt()
    for name in (LEDGER, HEAD):
        (federation.state("abbey") / name).unlink()
    assert refusals(federation)["abbey"] == f"{LOST}ledger_lost"


def test_whatever_tells_about_rows_is_counted():
    told_by_no_row = {"model-request", "refusal", "backtest-report", "conclusion"}
    assert set(COUNTED) == set(MESSAGES) - told_by_no_row


@pytest.mark.parametrize("phase", PHASES)
def test_a_crash_between_journal_and_ledger_is_no_loss(federation, monkeypatch, phase):
    def die(*_, **__):
        raise OSError("the power went")

    # Nobody answers the phase, so that the target has asked and not gone on.
    federation.absent = {(phase, name) for name in ("abbey", "birch", "castle")}
    federation.absent |= {("conclude", "new")} if phase == "examine" else set()
    with contextlib.suppress(ProtocolError):
        federation.attempt()
    asked = question(federation, phase)
    desk = SourceDesk("abbey", federation.site("abbey"), federation.agreed, "new")
    with monkeypatch.context() as patch:
        patch.setattr(FileLedger, "record", die)
        with pytest.raises(OSError, match="power"):
            desk.answer(*asked)
    federation.absent = set()
    assert refusals(federation)["abbey"] == "answered"
    left = [item.entry.message for item in verify(federation.state("abbey")) if item.kind == "sent"]
    assert sorted(left) == ["examination-report", "model-report", "risk-report"]


@pytest.mark.parametrize("step", ["choose", "mix"])
def test_a_target_that_crashes_between_journal_and_ledger_tells_the_same(
    federation, monkeypatch, step
):
    record, dead = FileLedger.record, {"model-request": "choose", "examination": "mix"}

    def die(ledger, message, *args, **kwargs):
        if dead.get(message.name) == step:
            raise OSError("the power went")
        return record(ledger, message, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(FileLedger, "record", die)
        with pytest.raises(OSError, match="power"):
            federation.attempt()
    journal = Journal(federation.state("new"))
    told = journal.find({"choose": "chosen", "mix": "mixed"}[step])
    federation.absent = {("risk", "birch"), ("model", "castle")}  # that changes nothing any more
    outcome = decode(federation.attempt().conclusion)
    assert journal.find({"choose": "chosen", "mix": "mixed"}[step]) == told
    castle = "answered" if step == "mix" else "model missing"
    assert outcome.sources == {"abbey": "answered", "birch": "answered", "castle": castle}


def test_the_state_of_another_site_is_not_used(federation):
    federation.attempt()
    check_memory(federation.state("abbey"), "abbey")
    with pytest.raises(PolicyError, match="must be that of 'birch'") as caught:
        check_memory(federation.state("abbey"), "birch")
    assert caught.value.rule == "other_site"


@pytest.mark.parametrize(("after", "fate"), BETWEEN.items())
def test_a_table_that_vanishes_between_the_phases_is_a_refusal_and_the_others_go_on(
    federation, after, fate
):
    def restart(task, name, letter):
        if (task, name) == (after, "abbey"):
            (federation.folder / "abbey" / "table.csv").unlink()
            fresh = SourceDesk("abbey", federation.site("abbey"), federation.agreed, "new")
            federation.sources["abbey"] = fresh
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
                fresh = SourceDesk("abbey", federation.site("abbey"), federation.agreed, "new")
                federation.sources["abbey"] = fresh
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

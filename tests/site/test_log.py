"""The one log of a site: what it holds is there for good, and whoever touches a line is noticed."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest

from fedcsa.errors import LedgerError, PolicyError, ResultError, StudyError
from fedcsa.messages.messages import Refusal
from fedcsa.site import log as log_module
from fedcsa.site.log import EVENT_KEYS, HEAD, LOG, SiteLog, _line, open_log
from fedcsa.site.state import locked

QUESTION = {"study": "demo", "target": "new", "phase": "risk"}


def refusal(rule="models"):
    return Refusal("demo", "abbey", "0" * 64, rule)


def send(log, rule="models", site="abbey"):
    return log.record(site, refusal(rule), "new", envelope_bytes=300)


@pytest.fixture
def log(tmp_path):
    """A log of three lines."""
    made = SiteLog(tmp_path / "state")
    made.append("asked", nonce="1", study="demo@1", phase="risk")
    made.claim("accepted", **QUESTION, request="a")
    send(made)
    return made


@pytest.fixture
def folder(log):
    return log._folder


def edit(folder, change):
    path = folder / LOG
    path.write_text("".join(change(path.read_text(encoding="utf-8").splitlines(keepends=True))))


# Views ---------------------------------------------------------------------------------------


def test_events_are_found_again_after_a_restart(folder):
    again = SiteLog(folder)
    assert [line["event"] for line in again.events] == ["asked", "accepted", "sent"]
    assert again.find("accepted", **QUESTION)["request"] == "a"
    assert again.find("accepted", **{**QUESTION, "study": "other"}) is None
    assert again.find("asked", nonce="1") is not None


@pytest.mark.parametrize("event", EVENT_KEYS)
def test_every_event_is_found_by_every_field_of_its_key(tmp_path, event):
    log, key = SiteLog(tmp_path), dict.fromkeys(EVENT_KEYS[event], "x")
    log.append(event, **key, more=1)
    assert log.find(event, **key)["more"] == 1
    for name in key:
        assert log.find(event, **{**key, name: "y"}) is None


def test_a_claim_stands_and_says_what_was_claimed_first(log, folder):
    assert log.claim("accepted", **QUESTION, request="b")["request"] == "a"
    assert SiteLog(folder).claim("accepted", **QUESTION, request="c")["request"] == "a"


def test_the_ledger_has_every_message_with_its_bytes(folder):
    [item] = SiteLog(folder).sent
    assert (item.kind, item.envelope_bytes, item.entry.message) == ("sent", 300, "refusal")
    assert (item.entry.site, item.to_plain()["recipient"]) == ("abbey", "new")


def test_what_is_sent_again_is_called_so_and_has_the_same_digest(log, folder):
    send(log)
    send(log, "features")
    first, second, third = SiteLog(folder).sent
    assert [first.kind, second.kind, third.kind] == ["sent", "resent", "sent"]
    assert first.entry.sha256 == second.entry.sha256 != third.entry.sha256


def test_a_message_to_another_site_is_not_sent_again(log):
    assert log.record("abbey", refusal(), "lead", envelope_bytes=1).kind == "sent"


ONE, TWO = (f"demo@{digit * 40}" for digit in "12")


def wait(log, study=ONE, **more):
    log.claim("waiting", **QUESTION, id=study, request="a", **more)


def ids(log):
    return [item["id"] for item in log.waiting()]


def test_a_decision_is_by_name_or_id_and_the_last_one_counts(log):
    wait(log)
    assert (ids(log), log.decision(ONE)) == ([ONE], "")
    assert log.decide("demo", "approved") == ONE
    assert log.decision(ONE) == "approved"
    log.decide(ONE, "refused")
    assert (ids(log), log.decision(ONE)) == ([], "refused")


def test_what_waits_says_since_when_who_asks_and_when_last(tmp_path):
    now = datetime(2026, 11, 17, tzinfo=UTC)
    log = SiteLog(tmp_path, lambda: now)
    wait(log, time=log.time, lead="ada", agreed="b")
    now += timedelta(days=2)
    log.append("asked", nonce="1", study=ONE, phase="risk", time=log.time)
    since, asked = "2026-11-17T00:00:00+00:00", "2026-11-19T00:00:00+00:00"
    expected = {"id": ONE, "phase": "risk", "target": "new", "lead": "ada", "time": since}
    [found] = log.waiting()
    assert found.items() >= {**expected, "asked": asked, "request": "a", "agreed": "b"}.items()
    log.claim("accepted", **QUESTION, id=ONE, request="a")  # its file asks no person any more
    assert log.waiting() == []


def test_a_decision_is_written_with_who_why_and_when(log):
    wait(log)
    log.decide("demo", "refused", "Ada", "not in our protocol", tell=True)
    line = log.events[-1]
    assert [line[k] for k in ("decision", "who", "reason", "tell")] == [
        "refused", "Ada", "not in our protocol", True,
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["x" * 201, "two\nlines", "\x1b[2J", "\u202egnorw"])
@pytest.mark.parametrize("field", ["who", "reason"])
def test_a_text_that_could_do_harm_where_it_is_shown_is_not_written(log, field, text):
    before = len(log.events)
    with pytest.raises(StudyError, match="at most 200 characters, all printable"):
        log.decide(ONE, "refused", **{field: text})
    assert len(log.events) == before


def test_of_two_people_who_decide_at_once_the_second_is_told_of_the_first(log):
    wait(log)
    log.decide("demo", "approved", "Ada", seen="")
    with pytest.raises(StudyError, match="was approved meanwhile by Ada, at 20"):
        log.decide("demo", "refused", "Bob", seen="")
    assert log.decision(ONE) == "approved"
    log.decide("demo", "refused", "Bob", seen=log.events[-1]["hash"])
    assert log.decision(ONE) == "refused"


def test_an_unknown_decision_is_not_written(log):
    with pytest.raises(StudyError, match="Did you mean 'approved'"):
        log.decide(ONE, "aproved")


def test_a_study_may_be_approved_beforehand_by_its_full_id_only(log, folder):
    log.decide(ONE, "approved")
    wait(log)
    assert (SiteLog(folder).decision(ONE), ids(log)) == ("approved", [])
    for short in (TWO[:-1], "other@9f2c", "@" + "1" * 40):
        with pytest.raises(StudyError, match="fedcsa study id STUDY"):
            log.decide(short, "approved")


def test_a_study_that_was_changed_waits_anew(log):
    wait(log)
    log.decide("demo", "approved")
    wait(log, TWO)
    assert ids(log) == [TWO]


def test_an_unknown_or_ambiguous_study_is_not_decided(log):
    wait(log)
    with pytest.raises(StudyError, match="Did you mean 'demo@1"):
        log.decide("demo@" + "1" * 39, "approved")
    wait(log, TWO)
    with pytest.raises(StudyError, match=f"say which: {ONE}, {TWO}"):
        log.decide("demo", "approved")


def test_payloads_come_back_to_the_bit(log, folder):
    name = log.keep(b"\x00\x01")
    assert log.keep(b"\x00\x01") == name
    assert SiteLog(folder).payload(name) == b"\x00\x01"


def test_a_changed_or_missing_payload_is_never_sent(log, folder):
    name = log.keep(b"report")
    path = folder / "payloads" / f"{name}.fcsa"
    path.write_bytes(b"another")
    with pytest.raises(ResultError, match="missing or was changed"):
        log.payload(name)
    path.unlink()
    with pytest.raises(ResultError, match="missing or was changed"):
        log.payload(name)


def test_the_log_of_another_site_is_not_used(log):
    log.check_site("abbey")
    with pytest.raises(PolicyError, match="to another site than 'birch'") as caught:
        log.check_site("birch")
    assert caught.value.rule == "other_site"


def test_an_empty_log_is_sound_and_reading_writes_nothing(tmp_path):
    assert (SiteLog(tmp_path / "state").events, list(tmp_path.iterdir())) == ([], [])


def test_a_log_that_another_process_has_just_begun_is_sound(tmp_path, monkeypatch):
    read_head = log_module._read_head

    def begun(path):
        monkeypatch.undo()
        send(SiteLog(tmp_path))  # between the look at the size and the look at the head
        return read_head(path)

    monkeypatch.setattr(log_module, "_read_head", begun)
    late = SiteLog(tmp_path)
    assert [item.kind for item in late.sent] == ["sent"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError, match="is not writable"):
        SiteLog(tmp_path / "file" / "state").append("asked", nonce="1")


# What is changed or taken away ---------------------------------------------------------------


def forged(line, previous):
    """The line, changed, with the hash that fits it."""
    body = {k: v for k, v in json.loads(line).items() if k != "hash"} | {"more": 1}
    return _line(previous, json.dumps(body).encode()).decode() + "\n"


@pytest.mark.parametrize(
    ("change", "number"),
    [
        (lambda x: [x[0].replace("risk", "mask"), *x[1:]], 1),
        (lambda x: [x[0], x[1].replace("accepted", "answered"), x[2]], 2),
        (lambda x: [x[0], x[2]], 2),
        (lambda x: x[1:], 1),
        (lambda x: [x[1], x[0], x[2]], 1),
        (lambda x: [x[0], x[0], *x[1:]], 2),
        (lambda x: [x[0], forged(x[1], json.loads(x[0])["hash"]), x[2]], 3),
        (lambda x: ["{broken\n", *x], 1),
        (lambda x: [*x, "[" * 100_000 + "\n"], 4),
        (lambda x: [*x, _line(json.loads(x[2])["hash"], b'{"event": "odd"}').decode() + "\n"], 4),
    ],
    ids=["first", "middle", "removed", "cut-in-front", "swapped", "twice", "forged", "no-json",
         "deep", "unknown-event"],
)  # fmt: skip
def test_a_changed_removed_or_inserted_line_is_named(folder, change, number):
    edit(folder, change)
    for act in (lambda log: log.events, send, lambda log: log.decide(ONE, "approved")):
        with pytest.raises(LedgerError, match=f"Line {number} of"):
            act(SiteLog(folder))


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_lines_removed_at_the_end_are_noticed(log, folder, kept):
    edit(folder, lambda lines: lines[:kept])
    for reader in (log, SiteLog(folder)):  # in the process that wrote them, too
        with pytest.raises(LedgerError, match="last lines of"):
            reader.append("asked", nonce="2")


def test_a_last_line_rewritten_with_its_own_hash_is_noticed(folder):
    edit(folder, lambda x: [*x[:2], forged(x[2], json.loads(x[1])["hash"])])
    with pytest.raises(LedgerError, match="last lines of"):
        SiteLog(folder).events  # noqa: B018 - the access is the test


@pytest.mark.parametrize("content", ["", "{", "[]", '{"hash": "", "lines": "x"}', None])
def test_a_missing_or_damaged_head_is_noticed(folder, content):
    (folder / HEAD).unlink() if content is None else (folder / HEAD).write_text(content)
    with pytest.raises(LedgerError, match="last lines of"):
        SiteLog(folder).events  # noqa: B018 - the access is the test


def test_a_log_that_was_deleted_is_noticed_by_its_head(folder):
    (folder / LOG).unlink()
    with pytest.raises(LedgerError, match="last lines of"):
        SiteLog(folder).append("asked", nonce="2")


def test_a_state_that_was_rolled_back_or_deleted_is_noticed_by_the_kit(log, folder, tmp_path):
    old = {path.name: path.read_bytes() for path in (folder / LOG, folder / HEAD)}
    log.check_kit(tmp_path)  # it remembers nothing yet
    log.append("asked", nonce="2")
    log.remember_in(tmp_path)
    log.append("asked", nonce="3")
    SiteLog(folder).check_kit(tmp_path)
    for content in (old, dict.fromkeys(old)):
        for name, kept in content.items():
            (folder / name).unlink() if kept is None else (folder / name).write_bytes(kept)
        with pytest.raises(PolicyError, match="this kit was used with") as caught:
            SiteLog(folder).check_kit(tmp_path)
        assert caught.value.rule == "state_lost"


# Crashes -------------------------------------------------------------------------------------


def test_a_crash_between_line_and_head_does_no_harm(log, folder):
    head = (folder / HEAD).read_bytes()
    send(log)
    (folder / HEAD).write_bytes(head)
    assert len(SiteLog(folder).events) == 4
    send(SiteLog(folder))
    assert len(SiteLog(folder).events) == 5


def test_a_line_that_a_crash_cut_off_anywhere_is_as_if_never_written(log, folder):
    before = [json.loads(line) for line in (folder / LOG).read_text().splitlines()]
    line = _line(before[-1]["hash"], b'{"event": "asked", "nonce": "2"}')
    for length in (1, 10, 80, len(line)):
        with (folder / LOG).open("ab") as file:
            file.write(line[:length])
        for writer in (SiteLog(folder), log):
            assert writer.events == before
        before.append(log.append("asked", nonce=f"after {length}"))
        assert SiteLog(folder).events == before


def test_a_line_and_its_head_are_on_the_disk_before_anyone_relies_on_them(log, folder, monkeypatch):
    synced = set()
    monkeypatch.setattr("os.fsync", lambda file: synced.add(os.fstat(file).st_ino))
    log.append("asked", nonce="2")
    assert {(folder / name).stat().st_ino for name in (LOG, HEAD)} <= synced


@pytest.mark.parametrize("where", ["line", "head"])
def test_a_full_disk_is_an_error_and_the_log_goes_on_when_there_is_room(log, folder, where):
    def full(*_):
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        if where == "line":
            patch.setattr("os.fsync", full)
        else:
            patch.setattr("fedcsa.site.log.write_whole", full)
        for _ in range(3):
            with pytest.raises(OSError, match="No space"):
                send(log)
    send(log)
    assert SiteLog(folder).events == log.events
    assert log.sent[-1].entry.sha256 == log.sent[0].entry.sha256


WRITE = """
import sys
from pathlib import Path
from fedcsa.site.log import SiteLog
from fedcsa.messages.messages import Refusal
log = SiteLog(Path(sys.argv[1]))
print("ready", flush=True)
for number in range(100_000):
    log.append("asked", nonce=f"{number:032x}")
    log.record("abbey", Refusal("demo", "abbey", f"{number:064x}", "models"), "new",
               envelope_bytes=1)
"""


@pytest.mark.parametrize("lines", [1, 6, 13])
def test_kill_9_while_writing_leaves_a_log_that_is_whole_and_goes_on(tmp_path, lines):
    writer = subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", WRITE, str(tmp_path)], stdout=subprocess.PIPE
    )
    assert writer.stdout.readline() == b"ready\n"
    path = tmp_path / LOG
    while not path.exists() or path.read_bytes().count(b"\n") < lines:
        assert writer.poll() is None
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait(600)
    writer.stdout.close()
    log = SiteLog(tmp_path)
    before = len(log.events)
    assert before >= lines
    assert [line["event"] for line in log.events] == (["asked", "sent"] * before)[:before]
    send(log)
    assert len(SiteLog(tmp_path).events) == before + 1


def test_a_clock_that_goes_back_changes_nothing(tmp_path):
    times = iter([datetime(2030, 1, 1, tzinfo=UTC), datetime(1980, 1, 1, tzinfo=UTC)])
    log = SiteLog(tmp_path, lambda: next(times))
    for rule in ("models", "features"):
        send(log, rule)
    assert [item.entry.time[:4] for item in SiteLog(tmp_path).sent] == ["2030", "1980"]


# Several writers -----------------------------------------------------------------------------


def _write_some(folder):
    log = SiteLog(folder)
    for number in range(5):
        log.append("asked", nonce=f"{os.getpid()} {number}")


def test_two_processes_do_not_break_the_chain(folder):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_write_some, args=(folder,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(600)
    assert len(SiteLog(folder).events) == 13


@pytest.mark.parametrize("shared", [False, True])
def test_of_several_claims_at_the_same_time_one_stands_for_all(tmp_path, shared):
    found, start, one = [], threading.Barrier(8), SiteLog(tmp_path)

    def claim(number):
        log = one if shared else SiteLog(tmp_path)
        start.wait()
        found.append(log.claim("accepted", **QUESTION, request=number)["request"])

    threads = [threading.Thread(target=claim, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), len(set(found)), len(SiteLog(tmp_path).events)) == (8, 1, 1)


@pytest.mark.parametrize(
    "write",
    [
        lambda log: log.claim("accepted", **QUESTION),
        lambda log: log.append("asked", nonce="1"),
        send,
        lambda log: log.decide(ONE, "approved"),
    ],
    ids=["claim", "append", "record", "decide"],
)
def test_whoever_writes_waits_for_whoever_does_so_already(tmp_path, write):
    thread = threading.Thread(target=write, args=(SiteLog(tmp_path),))
    with locked(tmp_path):
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        assert not (tmp_path / LOG).exists()
    thread.join()
    assert (tmp_path / LOG).exists()


# How much is read ----------------------------------------------------------------------------


class Reads:
    """How many lines were verified and how many files were read."""

    def __init__(self, patch):
        import fedcsa.site.log as module

        self.lines = self.files = 0
        opened, read_on, read_head = module._opened, SiteLog._read_on, module._read_head

        def count_line(*args):
            self.lines += 1
            return opened(*args)

        def count_file(function):
            def counted(*args):
                self.files += 1
                return function(*args)

            return counted

        patch.setattr(module, "_opened", count_line)
        patch.setattr(SiteLog, "_read_on", count_file(read_on))
        patch.setattr(module, "_read_head", count_file(read_head))


@pytest.fixture
def reads(monkeypatch):
    return Reads(monkeypatch)


def test_writing_and_finding_read_nothing_however_long_the_log_is(reads, log):
    for number in range(50):
        reads.lines = reads.files = 0
        log.append("asked", nonce=f"n{number}")
        log.claim("accepted", **{**QUESTION, "study": f"{number}"})
        send(log, f"rule {number}")
        assert log.find("asked", nonce=f"n{number}") is not None
        assert (reads.lines, reads.files) == (0, 0)


def test_only_the_lines_of_another_process_are_read_and_verified(reads, log, folder):
    other = SiteLog(folder)
    assert (len(other.events), reads.lines) == (3, 3)
    log.append("asked", nonce="2")
    log.append("asked", nonce="3")
    assert (len(other.events), reads.lines) == (5, 5)


def test_a_study_verifies_each_log_once_and_hardly_reads(reads, federation):
    """Before there was one log, a study with two sources read 70 times and verified seven times."""
    federation.attempt()
    assert reads.lines == 0  # every line was written by the process that needs it
    assert reads.files == 4  # is there a head?
    lines = sum(len(federation.log(name).events) for name in federation.names)
    shutil.rmtree(federation.state("new"))  # so that it asks again
    reads.lines = reads.files = 0
    federation.attempt()  # as after a restart
    assert reads.lines == lines
    assert reads.files == 2 * 3 + 1  # every source's log and head; is there a head at the target?
    lines = len(federation.log("new").events)
    reads.lines = reads.files = 0
    federation.attempt()  # now it need not ask
    assert (reads.lines, reads.files) == (lines, 2)


def test_a_process_has_one_log_of_a_folder(folder, tmp_path):
    assert open_log(folder) is open_log(folder)
    assert open_log(folder) is not open_log(tmp_path)


def test_of_two_that_claim_a_nonce_at_the_same_time_one_is_first(tmp_path, monkeypatch):
    """The second comes between the look and the line of the first: it must wait for the line."""
    asked = {"nonce": "1", "study": "demo@1", "phase": "risk"}
    first, second, found = SiteLog(tmp_path), SiteLog(tmp_path), {}
    find = first.find

    def claim(name, log):
        found[name] = log.claim_first("asked", **asked)

    other = threading.Thread(target=claim, args=("second", second))

    def look(event, **key):
        seen = find(event, **key)
        other.start()
        other.join(0.3)  # it ends here only if nothing keeps it out
        return seen

    monkeypatch.setattr(first, "find", look)
    claim("first", first)
    other.join(600)
    assert found == {"first": True, "second": False}
    assert len(SiteLog(tmp_path).events) == 1


def _claim_all(folder, gate, results):
    log = SiteLog(folder)
    gate.wait(600)
    results.put([log.claim_first("asked", nonce=str(number)) for number in range(20)])


def test_two_processes_never_accept_one_nonce_both(tmp_path):
    context = multiprocessing.get_context("fork")
    gate, results = context.Barrier(2), context.Queue()
    processes = [
        context.Process(target=_claim_all, args=(tmp_path, gate, results)) for _ in range(2)
    ]
    for process in processes:
        process.start()
    first, second = results.get(timeout=600), results.get(timeout=600)
    for process in processes:
        process.join(600)
    assert [a + b for a, b in zip(first, second, strict=True)] == [1] * 20

"""A study waits for people over days and restarts, tells nothing twice, and goes on by itself."""

import json
import sys
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from fedcsa.cli.app import app
from fedcsa.errors import PolicyError, ProtocolError, ResultError, StudyError
from fedcsa.federation.kept import Kept, Shelf, ask_until_ended, new_kept, seconds_of, with_patience
from fedcsa.federation.progress import progress_of
from fedcsa.messages.codec import decode
from fedcsa.messages.messages import Conclusion
from fedcsa.site import source_desk
from fedcsa.site.account import without_repeats
from fedcsa.site.source_desk import SourceDesk
from fedcsa.site.state import Status

SOURCES = ("abbey", "birch", "castle")
REPORTS = ["risk-report", "model-report", "examination-report"]
START = datetime(2026, 11, 17, 9, tzinfo=UTC)


class Lead:
    """A lead's machine: a shelf, a clock, and every question a submission with new desks."""

    def __init__(self, federation, monkeypatch):
        self.federation = federation
        self.kit = federation.folder / "lead"
        self.now = START
        self.asked = []  # when
        self.after = lambda _: None  # what happens after a question, by its number
        self.fails = {}  # number of a question -> error
        monkeypatch.setattr("fedcsa.federation.kept.utc_now", lambda: self.now)

    def kept(self, wait="14d", min_sources=1):
        agreed = self.federation.agreed
        out = self.kit / "result"
        return new_kept(Shelf(self.kit), agreed, "new", min_sources, 60, out, wait)

    def ask(self, kept, wait):
        number = len(self.asked) + 1
        self.asked.append(self.now)
        if number in self.fails:
            raise self.fails[number]
        board = self.federation.attempt(kept.min_sources, wait=wait)
        self.after(number)
        return board.to_plain(), decode(board.conclusion)

    def sleep(self, seconds):
        """A night of a test: to the next question at once."""
        self.now += timedelta(seconds=seconds)

    def follow(self, studies, **options):
        pauses = {"clock": lambda: self.now, "pause": self.sleep}
        shelf = Shelf(self.kit)
        return list(ask_until_ended(studies, shelf, self.ask, lambda _: None, **pauses, **options))

    def decide_after(self, days, name, decision, **more):
        """Let a steward decide once so many days have passed."""
        done = []

        def after(_):
            if not done and self.now >= START + timedelta(days=days):
                self.federation.log(name).decide("small", decision, **more)
                done.append(name)

        before = self.after
        self.after = lambda number: (before(number), after(number))


@pytest.fixture(autouse=True)
def long_looks(monkeypatch):
    """The pauses of days are passed in one step each."""
    monkeypatch.setattr("fedcsa.federation.kept._LOOK", 1e9)
    # Days of waiting in a few questions: what is tested does not depend on how many there are.
    monkeypatch.setattr("fedcsa.federation.kept._SHARE", 1.0)
    monkeypatch.setattr("fedcsa.federation.kept._LONGEST", 86400.0)


@pytest.fixture
def lead(federation, monkeypatch):
    for name in ("abbey", "birch"):
        federation.configure(name, "approve = true")
    return Lead(federation, monkeypatch)


def left(federation, name, kind="sent"):
    return [x.entry.message for x in federation.log(name).sent if x.kind == kind]


def test_a_study_waits_for_days_and_goes_on_by_itself_with_the_result_of_a_run(lead, federation):
    lead.decide_after(1, "abbey", "approved")
    lead.decide_after(4, "birch", "approved")
    [end] = lead.follow([lead.kept()])
    assert (end.told.outcome, set(end.told.sources.values())) == ("done", {"answered"})
    assert lead.now > START + timedelta(days=4)
    assert Shelf(lead.kit).all() == []
    # Over many questions each number left once, under its one question.
    for name in ("abbey", "birch", "castle"):
        sent = left(federation, name)
        assert [sent.count(report) for report in REPORTS] == [1, 1, 1]
        log = federation.log(name)
        nonces = [x["nonce"] for x in log.events if x["event"] == "asked"]
        assert len(nonces) == len(set(nonces))
        accepted = [x["phase"] for x in log.events if x["event"] == "accepted"]
        assert accepted == ["risk", "model", "examine"]
    # Who has answered is not asked again while others wait.
    assert left(federation, "castle", "resent") == []
    opened = [x for x in federation.log("birch").events if x["event"] == "opening"]
    assert len(opened) == 4, "the brief when it came first and when it was answered, and two more"
    numbers = federation.study.run()
    result = json.loads(bytes(end.told.summary))
    assert result["promise"]["risk"] == pytest.approx(numbers.promise.risk, abs=0.0)


def test_the_study_does_not_go_on_while_anybody_waits(lead, federation):
    [end] = lead.follow([lead.kept()], once=True)
    assert end.told is None
    assert dict(end.kept.sources) == {"abbey": "waiting", "birch": "waiting", "castle": "answered"}
    assert federation.log("new").find("chosen", study="small") is None
    assert not (federation.state("new") / "results").exists()
    [kept] = Shelf(lead.kit).all()
    assert kept == end.kept
    assert progress_of(kept).text == "It waits for approval at abbey, birch."
    assert {s.name: s.waits for s in progress_of(kept).sites} == {
        "abbey": True, "birch": True, "castle": False,
    }  # fmt: skip


def test_what_a_site_tells_while_it_waits_is_called_waiting_and_counted(lead, federation):
    for _ in range(3):
        lead.follow([lead.kept()], once=True)
    [(line, what)] = without_repeats(federation.log("abbey").sent)
    assert (line.kind, what) == ("waiting", "waiting, nothing about rows (3 times)")
    said = [x["text"] for x in Status(federation.state("abbey")).lines()]
    assert said.count("told new that the study waits here, and nothing about rows") == 1
    assert not any("refusal" in text for text in said)
    command = ["ledger", str(federation.state("abbey"))]
    shown = CliRunner().invoke(app, command, env={"COLUMNS": "140"}).stdout
    assert "waiting, nothing about rows (3 times)" in shown
    assert "refusal" not in shown


def test_whoever_takes_a_study_up_after_a_restart_goes_on_where_it_was(lead, federation):
    lead.follow([lead.kept()], once=True)
    lead.now += timedelta(days=2)
    for name in ("abbey", "birch"):
        federation.log(name).decide("small", "approved")
    [end] = lead.follow(Shelf(lead.kit).all())  # the lead's machine is a new one
    assert (end.told.outcome, len(lead.asked)) == ("done", 2)
    assert end.kept.since == "2026-11-17T09:00:00+00:00"


def test_since_when_a_source_waits_is_when_it_was_told_first(lead):
    [first] = lead.follow([lead.kept()], once=True)
    lead.now += timedelta(hours=5)
    [second] = lead.follow(Shelf(lead.kit).all(), once=True)
    assert second.kept.told == first.kept.told
    assert second.kept.asked > first.kept.asked


def test_a_lie_that_a_site_waits_ends_with_the_leads_patience(lead, federation):
    federation.log("abbey").decide(federation.agreed.id, "approved")
    [end] = lead.follow([lead.kept("3d")])
    assert end.told.outcome == "done"
    assert dict(end.told.sources) == {
        "abbey": "answered", "birch": "waiting", "castle": "answered",
    }  # fmt: skip
    assert lead.asked[-1] - START == timedelta(days=3), "not a second before, and not for ever"


def test_too_few_sources_when_patience_ends_give_no_model(lead):
    [end] = lead.follow([lead.kept("1h", min_sources=2)])
    assert (end.told.outcome, Shelf(lead.kit).all()) == ("min_sources", [])


def test_a_lead_may_go_on_at_once_without_who_waits(lead):
    [waiting] = lead.follow([lead.kept()], once=True)
    [end] = lead.follow([with_patience(waiting.kept, "0")])
    assert (end.told.outcome, end.told.sources["castle"]) == ("done", "answered")


@pytest.mark.parametrize(
    ("tell", "fate"),
    [(False, "refused: approval"), (True, "refused: approval (not in our protocol)")],
)
def test_a_refusal_after_two_days_is_heard_with_its_reason_if_it_may_be(
    lead, federation, tell, fate
):
    federation.log("birch").decide(federation.agreed.id, "approved")
    lead.decide_after(2, "abbey", "refused", reason="not in our protocol", tell=tell)
    [end] = lead.follow([lead.kept()])
    assert (end.told.outcome, end.told.sources["abbey"]) == ("done", fate)
    assert left(federation, "abbey") == ["refusal"]
    assert set(left(federation, "abbey", "waiting")) == {"refusal"}
    assert federation.log("abbey").all("decided", id=federation.agreed.id)[-1]["reason"]


def test_an_approval_that_is_taken_back_lets_nothing_more_out(lead, federation):
    federation.log("abbey").decide(federation.agreed.id, "approved")
    lead.follow([lead.kept()], once=True)
    assert "risk-report" in left(federation, "abbey")
    federation.log("abbey").decide("small", "refused")
    federation.log("birch").decide("small", "approved")
    [end] = lead.follow(Shelf(lead.kit).all())
    assert end.told.sources["abbey"] == ("model refused: approval; examination refused: approval")
    assert "model-report" not in left(federation, "abbey")


def test_a_refusal_keeps_back_what_was_computed_and_never_sent(federation, monkeypatch):
    federation.configure("abbey", "approve = true")
    federation.attempt()
    log, send = federation.log("abbey"), SourceDesk.send
    log.decide("small", "approved", "ann")

    def dies(desk, envelope, message, key):
        if (desk.name, message.name) == ("abbey", "risk-report"):
            raise KeyboardInterrupt
        return send(desk, envelope, message, key)

    monkeypatch.setattr(SourceDesk, "send", dies)
    with pytest.raises(KeyboardInterrupt):
        federation.attempt()
    monkeypatch.setattr(SourceDesk, "send", send)
    assert [line["phase"] for line in log.events if line["event"] == "answered"] == ["risk"]
    log.decide("small", "refused", "ann")
    federation.attempt()
    assert {line.entry.message for line in log.sent} == {"refusal"}


def test_a_refusal_while_it_is_computed_keeps_the_answer_back(federation, monkeypatch):
    federation.configure("abbey", "approve = true")
    federation.attempt()
    log, compute = federation.log("abbey"), SourceDesk._compute
    log.decide("small", "approved", "ann")

    def refused_meanwhile(desk, *question):
        answered = compute(desk, *question)
        if desk.name == "abbey":
            log.decide("small", "refused", "ann")
        return answered

    monkeypatch.setattr(SourceDesk, "_compute", refused_meanwhile)
    federation.attempt()
    assert {line.entry.message for line in log.sent} == {"refusal"}


def test_a_source_may_begin_to_wait_in_a_later_phase_and_the_choice_stands(lead, federation):
    for name in ("abbey", "birch"):
        federation.log(name).decide(federation.agreed.id, "approved")
    federation.tamper = lambda task, _name, letter: (
        task == "choose" and federation.sources.update(castle=strict(federation)),
        letter,
    )[1]
    [end] = lead.follow([lead.kept()], once=True)
    assert (end.kept.sources["castle"], end.kept.waiting) == ("model waiting", ["castle"])
    assert progress_of(end.kept).sites[2].what == "waits for approval there"
    chosen = federation.log("new").find("chosen", study="small")
    federation.log("castle").decide("small", "approved")
    [end] = lead.follow(Shelf(lead.kit).all())
    assert set(end.told.sources.values()) == {"answered"}
    assert federation.log("new").find("chosen", study="small") == chosen
    assert set(federation.log("new").find("mixed", study="small")["models"]) == set(SOURCES)


def strict(federation):
    """Castle's desk, once its file says that a person decides."""
    federation.configure("castle", "approve = true")
    return federation.desk("castle")


def test_an_approval_in_advance_by_id_lets_nobody_wait(lead, federation):
    for name in ("abbey", "birch"):
        federation.log(name).decide(federation.agreed.id, "approved")
    [end] = lead.follow([lead.kept()])
    assert (end.told.outcome, len(lead.asked)) == ("done", 1)


def test_a_source_that_waits_and_is_out_of_reach_is_waited_for(lead, federation):
    federation.log("birch").decide(federation.agreed.id, "approved")
    lead.follow([lead.kept()], once=True)
    federation.log("abbey").decide("small", "approved")
    federation.absent = {(phase, "abbey") for phase in ("greet", "risk")}  # it restarts
    [end] = lead.follow(Shelf(lead.kit).all(), once=True)
    assert end.kept.sources["abbey"] == "waiting"
    federation.absent = set()
    [end] = lead.follow(Shelf(lead.kit).all())
    assert set(end.told.sources.values()) == {"answered"}


def test_a_server_that_is_away_for_a_while_costs_a_question_and_nothing_else(lead, federation):
    lead.follow([lead.kept()], once=True)
    lead.fails = {2: ProtocolError("The server went away."), 3: ProtocolError("It is still away.")}
    for name in ("abbey", "birch"):
        federation.log(name).decide("small", "approved")
    [end] = lead.follow(Shelf(lead.kit).all(), once=True)
    assert progress_of(end.kept).text == "The server went away. It is tried again."
    assert dict(Shelf(lead.kit).all()[0].sources) == dict(end.kept.sources)
    [end] = lead.follow(Shelf(lead.kit).all())
    assert (end.told.outcome, end.kept.problem, len(lead.asked)) == ("done", "", 4)


@pytest.mark.parametrize(
    ("waited", "error"), [(False, ProtocolError("away")), (True, PolicyError("submit_right", "no"))]
)
def test_what_cannot_be_asked_for_is_an_error_at_once_and_stays_kept_if_it_waited(
    lead, waited, error
):
    studies = [lead.kept()]
    if waited:
        lead.follow(studies, once=True)
        studies = Shelf(lead.kit).all()
    lead.fails = {len(lead.asked) + 1: error}
    [end] = lead.follow(studies)
    assert (end.error, len(Shelf(lead.kit).all())) == (error, int(waited))


def test_rows_that_change_while_a_study_waits(lead, federation):
    """At a source that waits they are those of its answer; at one that has answered, none leave."""
    lead.follow([lead.kept()], once=True)
    for name in ("abbey", "castle"):
        path = federation.folder / name / "table.csv"
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(lines[:-1]), encoding="utf-8")
    for name in ("abbey", "birch"):
        federation.log(name).decide("small", "approved")
    [end] = lead.follow(Shelf(lead.kit).all())
    assert end.told.sources["abbey"] == "answered"
    assert end.told.sources["castle"].startswith("model refused: rows_changed")


def test_a_table_of_the_target_that_changes_while_a_study_waits_ends_it_by_name(lead, federation):
    lead.follow([lead.kept()], once=True)
    path = federation.folder / "new" / "table.csv"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:-30]), encoding="utf-8")
    [end] = lead.follow(Shelf(lead.kit).all())
    assert end.told.outcome == "one_brief"


def test_two_processes_do_not_ask_for_one_study_both(lead):
    kept, shelf = lead.kept(), Shelf(lead.kit)
    with (
        shelf.held(kept.study),
        pytest.raises(ResultError, match="in use by another running process"),
        shelf.held(kept.study),
    ):
        pass
    assert shelf.all() == []
    assert not shelf.folder(kept.study).exists(), "it never waited"


def test_a_study_that_is_submitted_again_is_the_same_one(lead):
    lead.follow([lead.kept()], once=True)
    lead.now += timedelta(days=1)
    again = lead.kept("2d", min_sources=3)
    [before] = Shelf(lead.kit).all()
    assert (again.since, again.told, again.min_sources) == (before.since, before.told, 3)
    assert again.until == "2026-11-20T09:00:00+00:00"


def test_several_studies_are_asked_for_in_turn_and_one_that_fails_stops_no_other(
    lead, federation, write_study
):
    studies = []
    for name in ("one", "two"):
        write_study(federation.folder, name=name)
        studies.append(lead.kept())
    for name in ("abbey", "birch"):
        federation.log(name).decide(studies[0].study, "approved")
    texts = {kept.study: kept.text for kept in studies}
    ask = lead.ask

    def asked(kept, wait):
        federation.study_file.write_text(texts[kept.study], encoding="utf-8")
        if kept.study == studies[1].study:
            raise StudyError("no")
        return ask(kept, wait)

    lead.ask = asked
    ends = {end.kept.study: end for end in lead.follow(studies)}
    assert ends[studies[0].study].told.outcome == "done"
    assert isinstance(ends[studies[1].study].error, StudyError)


# The pauses and the shelf ----------------------------------------------------------------------


def kept(**more):
    since = START.isoformat()
    text = 'name = "demo"\n'
    about = {"study": "demo@" + "0" * 40, "text": text, "target": "new", "out": "out"}
    until = (START + timedelta(days=14)).isoformat()
    return Kept(**about, min_sources=1, deadline=60, since=since, until=until, **more)


@pytest.mark.parametrize(
    ("waited", "pause"), [(0, 20), (100, 20), (3600, 360), (9000, 900), (10**6, 900)]
)
def test_pauses_grow_with_the_time_waited_up_to_a_quarter_of_an_hour(monkeypatch, waited, pause):
    monkeypatch.undo()
    asked = START + timedelta(seconds=waited)
    found = kept(asked=asked.isoformat())
    assert found.next - asked == timedelta(seconds=pause)


def test_the_last_question_comes_when_patience_ends():
    late = START + timedelta(days=13, hours=23, minutes=59)
    assert kept(asked=late.isoformat()).next == START + timedelta(days=14)
    over = START + timedelta(days=20)
    assert kept(asked=over.isoformat()).next == over


@pytest.mark.parametrize("text", ["", "14 days", "-1", "1w", "1.5d", "9" * 7])
def test_a_time_to_wait_that_is_none_is_named(text):
    with pytest.raises(StudyError, match="such as 14d"):
        seconds_of(text)


@pytest.mark.parametrize(
    "change",
    [lambda x: x[:-9], lambda x: x.replace('"text": "', '"text": "other'), lambda _: "{}",
     lambda x: x.replace('"since": "', '"since": "x')],
)  # fmt: skip
def test_a_damaged_file_of_a_kept_study_is_named_and_not_asked_for(lead, change):
    shelf, study = Shelf(lead.kit), lead.kept()
    shelf.put(study)
    path = shelf.folder(study.study) / "kept.json"
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(ResultError, match=r"is damaged\. Delete its folder"):
        shelf.all()


def test_a_study_is_named_by_its_name_or_id(lead):
    shelf, study = Shelf(lead.kit), lead.kept()
    shelf.put(study)
    assert shelf.named("small") == shelf.named(study.study) == study
    with pytest.raises(StudyError, match="Unknown study that waits here 'smal'"):
        shelf.named("smal")


# The site's own command ------------------------------------------------------------------------

TELLS = """import os, sys
names = ("STUDY_ID", "STUDY", "SITE", "TARGET", "LEAD")
with open(sys.argv[1], "a") as file:
    print(*(os.environ[f"FEDCSA_{name}"] for name in names), file=file)
"""


def test_the_sites_command_runs_once_when_a_study_begins_to_wait(lead, federation):
    command = json.dumps([sys.executable, "-c", TELLS, "told; touch x"])
    federation.configure("abbey", f"approve = true\nnotify = {command}")
    for _ in range(2):
        lead.follow([lead.kept()], once=True)
    told = (federation.folder / "abbey" / "told; touch x").read_text(encoding="utf-8")
    assert told == f"{federation.agreed.id} small abbey new lead\n"
    [line] = federation.log("abbey").all("notified", id=federation.agreed.id)
    assert line["ended"] == "done"


@pytest.mark.parametrize(
    ("command", "ended"),
    [
        (["no-such-command"], "could not be started (FileNotFoundError)"),
        ([sys.executable, "-c", "raise SystemExit(3)"], "ended with code 3"),
        ([sys.executable, "-c", "import time; time.sleep(60)"], "did not end within 0.2 seconds"),
        (["nul\0byte"], "could not be started (ValueError)"),
    ],
)
def test_a_command_that_fails_is_written_down_and_hinders_nothing(
    federation, monkeypatch, command, ended
):
    if "0.2 seconds" in ended:  # others may take as long as the machine is slow
        monkeypatch.setattr(source_desk, "NOTIFY_SECONDS", 0.2)
    federation.configure("abbey", f"approve = true\nnotify = {json.dumps(command)}")
    assert decode(federation.attempt().conclusion).sources["abbey"] == "waiting"
    [line] = federation.log("abbey").all("notified", id=federation.agreed.id)
    assert line["ended"] == ended
    status = (federation.state("abbey") / "status.jsonl").read_text(encoding="utf-8")
    assert f"the command 'notify' of this site's file {ended}" in status


@pytest.mark.usefixtures("lead")
def test_a_conclusion_that_waits_tells_nothing_but_fates(federation):
    told = decode(federation.attempt().conclusion)
    assert told == Conclusion("small", "waiting", told.sources, "", told.summary)
    assert len(told.summary) == 0

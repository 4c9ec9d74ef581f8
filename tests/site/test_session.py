"""The submitting side: it looks at the board, and submits again when the engine gives up."""

import json

import pytest

pytest.importorskip("nvflare", reason="the engine, nvflare, is not installed")

from nvflare.fuel.flare_api.api_spec import (
    AuthenticationError,
    AuthorizationError,
    JobNotRunning,
    NoConnection,
)

from fedcsa.errors import PolicyError, ProtocolError
from fedcsa.federation.flare import session as session_module
from fedcsa.federation.flare.session import ATTEMPTS, Submission, submit_study
from fedcsa.messages.envelope import ask

RUNNING = {
    "step": "risk", "conclusion": "", "problem": "", "sites": {"abbey": "risk: asked"},
    "seconds": {"risk": 1.5},
}  # fmt: skip
DONE = {**RUNNING, "step": "done", "conclusion": "bytes", "sites": {"abbey": "model: replied"}}
MISSING = {**DONE, "sites": {"abbey": "model: replied", "birch": "risk: missing"}}
FAILED = {**RUNNING, "step": "failed", "problem": "The target 'new' did not answer in time."}


class NoSeal:
    """Signs with nothing."""

    def sign(self, _):
        return b""


class Server:
    """Plays what a job does, one look at a time; an exception is raised instead."""

    def __init__(self, *jobs):
        self.jobs = list(jobs)
        self.submitted = []
        self.fetched = 0
        self.aborted = []
        self.open = 0

    def connect(self, username, folder, timeout):
        assert timeout > 0
        assert folder
        self.username = username
        self.open += 1
        return self

    def submit_job(self, folder):
        job = self.jobs.pop(0)
        if isinstance(job, Exception):
            raise job
        self.script = list(job)
        self.submitted.append(folder)
        return f"job-{len(self.submitted)}"

    def do_app_command(self, job, topic, data):
        assert topic == "fedcsa.progress"
        assert job
        self.fetched += bool(data["fetched"])
        step = self.script[0] if len(self.script) == 1 else self.script.pop(0)
        if isinstance(step, BaseException):
            raise step
        if isinstance(step, str):
            raise JobNotRunning(step)
        return step

    def get_job_meta(self, job):
        assert job
        return {"status": self.script[0] if isinstance(self.script[0], str) else "SUBMITTED"}

    def abort_job(self, job):
        self.aborted.append(job)

    def close(self):
        self.open -= 1


@pytest.fixture
def run(federation, tmp_path, monkeypatch):
    about = {
        "federation": "demo", "participant": "lead@demo.org", "role": "lead", "host": "localhost",
        "port": 1, "sites": {}, "fedcsa": "0",
    }  # fmt: skip
    (tmp_path / "kit.json").write_text(json.dumps(about))
    monkeypatch.setattr(session_module, "_POLL", 0.0)
    seen = []

    def start(server, deadline=60):
        monkeypatch.setattr(session_module, "new_secure_session", server.connect)
        start = ask(federation.agreed.id, "start", "lead@demo.org", "new")
        submission = Submission(federation.agreed, "new", 1, deadline, start, NoSeal())
        return submit_study(tmp_path, submission, seen.append)

    start.seen = seen
    return start


def test_a_study_is_watched_to_its_end(run):
    server = Server(["SUBMITTED", RUNNING, DONE])
    board = run(server)
    assert (board["conclusion"], board["attempts"]) == ("bytes", 1)
    assert list(board["seconds"]) == ["connect", "start", "risk"]
    assert [step["step"] for step in run.seen] == ["scheduling", "risk", "done"]
    assert (server.fetched, server.open, server.aborted) == (1, 0, [])


def test_a_job_that_would_wait_for_the_missing_is_ended(run):
    server = Server([MISSING])
    run(server)
    assert server.aborted == ["job-1"]


@pytest.mark.parametrize(
    "first",
    [
        [RUNNING, "FINISHED:EXECUTION_EXCEPTION"],
        [RUNNING, NoConnection("gone")],
        [FAILED],
        NoConnection("gone"),
    ],
)
def test_a_job_that_comes_to_nothing_is_submitted_again(run, first):
    server = Server(first, [DONE])
    assert run(server)["attempts"] == 2
    assert any(step["step"] == "again" for step in run.seen)
    assert server.open == 0


def test_there_is_an_end_to_trying(run):
    server = Server(*[["FINISHED:EXECUTION_EXCEPTION"]] * ATTEMPTS)
    with pytest.raises(ProtocolError, match=rf"in {ATTEMPTS} attempts: .*EXECUTION_EXCEPTION"):
        run(server)


def test_a_job_that_nobody_starts_is_given_up(run, monkeypatch):
    monkeypatch.setattr(session_module, "_START", -60.0)
    server = Server(*[["SUBMITTED"]] * ATTEMPTS)
    with pytest.raises(ProtocolError, match="too few sites are connected"):
        run(server)
    assert len(server.aborted) == ATTEMPTS


def test_who_may_not_submit_is_told_so_at_once(run):
    server = Server(AuthorizationError("no"))
    with pytest.raises(PolicyError, match=r"'lead@demo\.org' may not submit studies") as caught:
        run(server)
    assert caught.value.rule == "submit_right"
    assert server.open == 0


def test_a_server_out_of_reach_is_named_with_what_to_do(run, monkeypatch):
    server = Server()

    def refuse(*_, **__):
        raise NoConnection("no")

    monkeypatch.setattr(server, "connect", refuse)
    with pytest.raises(ProtocolError, match=r"localhost:1 cannot be reached.*doctor"):
        run(server, deadline=0)


def test_a_stranger_is_told_so(run, monkeypatch):
    server = Server()

    def refuse(*_, **__):
        raise AuthenticationError("who?")

    monkeypatch.setattr(server, "connect", refuse)
    with pytest.raises(PolicyError, match=r"does not know 'lead@demo\.org'"):
        run(server)


def test_a_study_that_is_interrupted_by_its_lead_is_ended_at_the_server(run):
    server = Server([RUNNING, KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        run(server)
    assert (server.aborted, server.open) == (["job-1"], 0)


def test_a_job_that_the_engine_does_not_take_is_an_error_without_its_text(run):
    with pytest.raises(ProtocolError, match=r"did not accept the study \(ValueError\)\.$"):
        run(Server(ValueError("MARKER")))

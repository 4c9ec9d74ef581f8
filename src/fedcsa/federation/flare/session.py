"""The submitting side: it sends a study as a job, looks where it is, and sends it again.

A job folder holds names of our classes and texts, no code.
"""

from __future__ import annotations

import base64
import contextlib
import io
import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nvflare.fuel.flare_api import api_spec as api
from nvflare.fuel.flare_api.flare_api import Session, new_secure_session

from fedcsa.errors import BindingError, MessageError, PolicyError, ProtocolError
from fedcsa.federation.flare.controller import PROGRESS
from fedcsa.federation.flare.hardening import CONTROLLER, EXECUTOR, write_json
from fedcsa.federation.flare.kits import Kit
from fedcsa.messages.codec import MAX_BYTES, decode, digest
from fedcsa.messages.envelope import (
    END,
    GREET,
    PHASES,
    Envelope,
    Seal,
    check_seal,
    open_closed,
    reply,
)
from fedcsa.messages.messages import Conclusion
from fedcsa.run import TARGET_STEPS
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.opening import opener, unsafe_message

#: Called with where the study is, whenever it is looked at.
Watch = Callable[[dict[str, Any]], None]
#: How often a study is submitted: a site or the server may be restarting once or twice.
ATTEMPTS = 4
#: Seconds between two looks at a job: soon enough for a person who watches.
_POLL = 0.3
#: Seconds between two questions of a site for its next task; the engine's own two would make a
#: round of half a second one of two.
ASK_EVERY = 0.1
#: Seconds that a job may take to be scheduled and started, beside the deadline.
_START = 120.0
#: What the engine raises if the server does not answer.
_GONE = (api.NoConnection, api.SessionClosed, ConnectionError, TimeoutError)


@dataclass(frozen=True)
class Submission:
    """What is submitted.

    Attributes
    ----------
    agreed : AgreedStudy
    target : str
        Name of the target's site.
    min_sources : int
        With fewer there is no model.
    deadline : int
        Seconds that a step may take.
    start : Envelope
        The lead's, which the target's conclusion must answer.
    seal : Seal
        The lead's: it signs for the study, and it alone opens the conclusion.
    wait : bool
        Whether the study waits for sources at which nobody has decided yet.
    """

    agreed: AgreedStudy
    target: str
    min_sources: int
    deadline: int
    start: Envelope
    seal: Seal
    wait: bool = True


def submit_study(folder: Path, submission: Submission, watch: Watch) -> dict[str, Any]:
    """Submit a study and wait for its end; where it was then, as `Coordinator.to_plain` tells it.

    Its seconds begin with those of the lead: to connect, and until the job runs.

    A job that the engine fails, or a server that dies, is answered by submitting again: every
    site sends the same bytes as before, and discloses nothing twice.

    Parameters
    ----------
    folder : Path
        Of the lead's kit.
    submission : Submission
    watch : function
    """
    kit, problem = Kit.load(folder), ""
    for attempt in range(1, ATTEMPTS + 1):
        if problem:
            watch({"step": "again", "problem": problem, "attempt": attempt})
        begun = time.monotonic()
        try:
            with _session(folder, kit, submission.deadline) as session:
                connected = time.monotonic()
                board = _attempt(session, submission, watch)
        except _GONE:
            problem = "The server went away."
            continue
        if board["conclusion"]:
            told = {"connect": connected - begun, "start": board["started"] - connected}
            lead = {step: round(seconds, 3) for step, seconds in told.items()}
            return {**board, "seconds": {**lead, **board["seconds"]}, "attempts": attempt}
        problem = board["problem"]
    raise ProtocolError(
        f"The study did not reach its end in {ATTEMPTS} attempts: {problem} "
        "Nothing was disclosed twice; submit it again when all is well."
    )


def open_conclusion(board: Mapping[str, Any], submission: Submission) -> Conclusion:
    """What the target itself said of this very submission, whatever carried it here.

    Parameters
    ----------
    board : mapping
        As `submit_study` gives it.
    submission : Submission
    """
    wire, closed = base64.b64decode(board["envelope"]), base64.b64decode(board["conclusion"])
    envelope, expected = Envelope.from_bytes(wire), reply(submission.start, END)
    check_seal(wire, submission.target, submission.seal)
    meant = replace(expected, nonce=envelope.nonce, digest=digest(closed))
    if replace(envelope, in_reply_to=expected.in_reply_to) != meant:
        raise BindingError(
            "other_study", "The target ended another study than this one. Submit it again."
        )
    if envelope.in_reply_to != submission.start.nonce:
        raise BindingError(
            "replayed",
            "The target answered an earlier submission. Submit the study again.",
        )
    payload = open_closed(envelope, closed, submission.seal)
    unsafe = opener().try_out(payload, MAX_BYTES)
    if unsafe:
        raise unsafe_message(unsafe, submission.target)
    told = decode(payload)
    if not isinstance(told, Conclusion):
        raise BindingError("phase_order", "A study must end with a conclusion. Submit it again.")
    summary = bytes(told.summary)
    if summary and digest(summary) != told.result:
        raise MessageError("The result was changed on its way. Ask the target for it.")
    return told


@contextlib.contextmanager
def _session(folder: Path, kit: Kit, patience: float) -> Iterator[Session]:
    """A session that is closed whatever happens: an open one keeps the interpreter alive.

    Parameters
    ----------
    folder : Path
    kit : Kit
    patience : float
        Seconds to wait for the server.
    """
    logging.getLogger("nvflare").setLevel(logging.CRITICAL)
    session, end = None, time.monotonic() + patience
    while session is None:
        try:
            # It greets, where we print JSON; and it walks the whole current folder in search of
            # settings, which takes seconds where that is large.
            here = str(folder.absolute())
            with contextlib.redirect_stdout(io.StringIO()), contextlib.chdir(folder):
                session = new_secure_session(kit.participant, here, timeout=10.0)
        except api.AuthenticationError:
            raise PolicyError(
                "authentication", f"The server does not know {kit.participant!r}."
            ) from None
        except _GONE as error:
            if time.monotonic() > end:
                raise ProtocolError(
                    f"The server {kit.host}:{kit.port} cannot be reached "
                    f"({type(error).__name__}). Check: fedcsa federation doctor {folder}"
                ) from None
            time.sleep(1.0)
    try:
        yield session
    finally:
        with contextlib.suppress(Exception):
            session.close()


def _attempt(session: Session, submission: Submission, watch: Watch) -> dict[str, Any]:
    """Submit once and look until the study ended, or came to nothing.

    Parameters
    ----------
    session : Session
    submission : Submission
    watch : function
    """
    with tempfile.TemporaryDirectory() as scratch:  # submitting signs the folder in place
        job = submit_folder(session, write_job(submission, Path(scratch) / "job"))
    end, started = time.monotonic() + _START + submission.deadline, 0.0
    try:
        while True:
            board = _look(session, job)
            if board is None:
                board = _without_board(session, job, late=time.monotonic() > end)
            elif not started:
                started = time.monotonic()
            watch(board)
            if board.get("conclusion") or board["step"] == "failed":
                _finish(session, job, board)
                return {**board, "started": started}
            time.sleep(_POLL)
    except KeyboardInterrupt:  # whoever submitted it does not want it any more
        _abort(session, job)
        raise


def _without_board(session: Session, job: str, *, late: bool) -> dict[str, Any]:
    """What there is to say of a job that does not run, or not any more.

    Parameters
    ----------
    session : Session
    job : str
    late : bool
        Whether it should run by now.
    """
    status, problem = _status(session, job), ""
    if status.startswith("FINISHED"):
        problem = f"The engine ended the job ({status.partition(':')[2]})."
    elif late:
        _abort(session, job)
        problem = "The job was not started: too few sites are connected."
    step = "failed" if problem else "scheduling"
    return {"step": step, "status": status, "problem": problem, "conclusion": "", "sites": {}}


def _finish(session: Session, job: str, board: dict[str, Any]) -> None:
    """Let the job end; it would wait for sites that are missing to come back.

    Parameters
    ----------
    session : Session
    job : str
    board : dict
    """
    if not board["sites"]:  # it does not run
        return
    _look(session, job, fetched=True)
    if any(text.endswith("missing") for text in board["sites"].values()):
        _abort(session, job)


def submit_folder(session: Session, folder: Path) -> str:
    """Submit a job folder, or raise a `PolicyError` if this user may not.

    Parameters
    ----------
    session : Session
    folder : Path
    """
    try:
        return str(session.submit_job(str(folder)))
    except api.AuthorizationError:
        raise PolicyError(
            "submit_right", f"{session.username!r} may not submit studies; a lead may."
        ) from None
    except _GONE:
        raise
    except Exception as error:  # the engine has many
        raise ProtocolError(
            f"The server did not accept the study ({type(error).__name__})."
        ) from None


def _look(session: Session, job: str, *, fetched: bool = False) -> dict[str, Any] | None:
    """Where a job is; None if it does not run.

    Parameters
    ----------
    session : Session
    job : str
    fetched : bool
        Whether its end was fetched.
    """
    try:
        board = session.do_app_command(job, PROGRESS, {"fetched": fetched})
    except (api.JobNotRunning, api.NoReply, api.InternalError, RuntimeError):
        return None
    return board if isinstance(board, dict) and "conclusion" in board else None


def _status(session: Session, job: str) -> str:
    """What the engine calls the state of a job; empty if it does not know it.

    Parameters
    ----------
    session : Session
    job : str
    """
    try:
        return str(session.get_job_meta(job).get("status", ""))
    except (api.JobNotFound, api.InternalError, api.NoReply):
        return ""


def _abort(session: Session, job: str) -> None:
    """End a job, if it runs.

    Parameters
    ----------
    session : Session
    job : str
    """
    with contextlib.suppress(Exception):
        session.abort_job(job)


def write_job(submission: Submission, folder: Path) -> Path:
    """Write the job folder that the engine takes.

    Parameters
    ----------
    submission : Submission
    folder : Path
    """
    agreed, target = submission.agreed, submission.target
    sources = list(agreed.sources)
    for app in ("app_server", "app_site"):
        (folder / app / "config").mkdir(parents=True, exist_ok=True)
    write_json(folder / "meta.json", {
        "name": "".join(c if c.isalnum() else "-" for c in agreed.name)[:60],
        "resource_spec": {},
        "min_clients": 1 + submission.min_sources,
        "mandatory_clients": [target],
        "deploy_map": {"app_server": ["server"], "app_site": [target, *sources]},
    })  # fmt: skip
    write_json(folder / "app_server" / "config" / "config_fed_server.json", {
        "format_version": 2,
        "server": {"heart_beat_timeout": 600, "task_request_interval": ASK_EVERY},
        "task_data_filters": [], "task_result_filters": [], "components": [],
        "workflows": [{
            "id": "study", "path": CONTROLLER,
            "args": {"target": target, "sources": sources, "deadline": submission.deadline},
        }],
    })  # fmt: skip
    write_json(folder / "app_site" / "config" / "config_fed_client.json", {
        "format_version": 2,
        "executors": [{
            "tasks": [GREET, *(step for step, _ in TARGET_STEPS), *PHASES],
            "executor": {
                "path": EXECUTOR,
                "args": {
                    "study": base64.b64encode(agreed.text.encode()).decode(), "target": target,
                    "min_sources": submission.min_sources, "wait": submission.wait,
                    "start": base64.b64encode(submission.start.sealed(submission.seal)).decode(),
                },
            },
        }],
        "task_data_filters": [], "task_result_filters": [], "components": [],
    })  # fmt: skip
    return folder

"""The submitting side: it sends a job, looks at the board, and sends it again if it must."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nvflare.fuel.flare_api.api_spec import (
    AuthenticationError,
    AuthorizationError,
    InternalError,
    JobNotFound,
    JobNotRunning,
    NoConnection,
    NoReply,
    SessionClosed,
)
from nvflare.fuel.flare_api.flare_api import Session, new_secure_session

from fedcsa.errors import PolicyError, ProtocolError
from fedcsa.federation.flare.controller import PROGRESS
from fedcsa.federation.flare.job import Submission, write_job
from fedcsa.federation.flare.kits import Kit

#: Called with what the board says, whenever it is looked at.
Watch = Callable[[dict[str, Any]], None]
ATTEMPTS = 4
_POLL = 0.3
#: Seconds that a job may take to be scheduled and started, beside the deadline.
_START = 120.0
_GONE = (NoConnection, SessionClosed, ConnectionError, TimeoutError)


class Interrupted(Exception):  # noqa: N818 - not an error: the study is submitted again
    """The job ended without an answer; the sites' logs make it cheap to try again."""


def submit_study(folder: Path, submission: Submission, watch: Watch) -> dict[str, Any]:
    """Submit a study and wait for its end; the board as it was then.

    A job that the engine fails, or a server that dies, is answered by submitting again: every
    site sends the same bytes as before, and discloses nothing twice.
    """
    kit = Kit.load(folder)
    problem = ""
    for attempt in range(1, ATTEMPTS + 1):
        if problem:
            watch({"step": "again", "problem": problem, "attempt": attempt})
        try:
            with _session(folder, kit, submission.deadline) as session:
                board = _attempt(session, submission, watch)
        except Interrupted as error:
            problem = str(error)
            continue
        except _GONE:
            problem = "The server went away."
            continue
        if board["conclusion"]:
            return {**board, "attempts": attempt}
        problem = board["problem"]
    raise ProtocolError(
        f"The study must reach its end; after {ATTEMPTS} attempts it has not: {problem} "
        "Nothing was disclosed twice; submit it again when all is well."
    )


@contextlib.contextmanager
def _session(folder: Path, kit: Kit, patience: float) -> Iterator[Session]:
    """A session that is closed whatever happens: an open one keeps the interpreter alive."""
    logging.getLogger("nvflare").setLevel(logging.CRITICAL)
    session = _connect(folder, kit, patience)
    try:
        yield session
    finally:
        with contextlib.suppress(Exception):
            session.close()


def _connect(folder: Path, kit: Kit, patience: float) -> Session:
    end = time.monotonic() + patience
    while True:
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # it greets, where we print JSON
                return new_secure_session(kit.participant, str(folder.absolute()), timeout=10.0)
        except AuthenticationError:
            raise PolicyError(
                "authentication", f"The server does not know {kit.participant!r}."
            ) from None
        except _GONE as error:
            if time.monotonic() > end:
                raise ProtocolError(
                    f"The server {kit.host}:{kit.port} must be within reach; it is not "
                    f"({type(error).__name__}). Check: fedcsa federation doctor {folder}"
                ) from None
            time.sleep(1.0)


def _attempt(session: Session, submission: Submission, watch: Watch) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:  # submitting signs the folder in place
        job = submit_folder(session, write_job(submission, Path(scratch) / "job"))
    try:
        return _watched(session, job, submission, watch)
    except KeyboardInterrupt:  # whoever submitted it does not want it any more
        _abort(session, job)
        raise


def _watched(session: Session, job: str, submission: Submission, watch: Watch) -> dict[str, Any]:
    started = time.monotonic()
    while True:
        board = _look(session, job)
        if board is None:
            status = _status(session, job)
            if status.startswith("FINISHED"):
                raise Interrupted(f"The engine ended the job ({status.partition(':')[2]}).")
            if time.monotonic() - started > _START + submission.deadline:
                _abort(session, job)
                raise Interrupted("The job was not started: too few sites are connected.")
            watch({"step": "scheduling", "status": status})
        else:
            watch(board)
            if board["conclusion"] or board["step"] == "failed":
                _look(session, job, fetched=True)
                if any(text.endswith("missing") for text in board["sites"].values()):
                    _abort(session, job)  # else it would wait for the missing to come back
                return board
        time.sleep(_POLL)


def submit_folder(session: Session, folder: Path) -> str:
    """Submit a job folder, or raise a `PolicyError` if this user may not."""
    try:
        return str(session.submit_job(str(folder)))
    except AuthorizationError:
        raise PolicyError(
            "submit_right", f"{session.username!r} may not submit studies; a lead may."
        ) from None
    except _GONE:
        raise
    except Exception as error:  # the engine has many
        raise ProtocolError(
            f"The server must take the study; it did not ({type(error).__name__})."
        ) from None


def _look(session: Session, job: str, *, fetched: bool = False) -> dict[str, Any] | None:
    try:
        board = session.do_app_command(job, PROGRESS, {"fetched": fetched})
    except (JobNotRunning, NoReply, InternalError, RuntimeError):
        return None
    return board if isinstance(board, dict) and "conclusion" in board else None


def _status(session: Session, job: str) -> str:
    try:
        return str(session.get_job_meta(job).get("status", ""))
    except (JobNotFound, InternalError, NoReply):
        return ""


def _abort(session: Session, job: str) -> None:
    with contextlib.suppress(Exception):
        session.abort_job(job)

"""A site's state folder: who may write there, and what the site is doing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from fedcsa.errors import ResultError
from fedcsa.messages.policy import utc_now

#: Seconds between two looks at a lock that another holds; it is held for milliseconds.
_LOOK = 0.01


def stamp(moment: datetime) -> str:
    """A moment as it stands in files, to the second.

    >>> stamp(datetime(2026, 11, 17, 9, 0, 0, 12))
    '2026-11-17T09:00:00'
    """
    return moment.isoformat(timespec="seconds")


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner can read."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ResultError(
            f"The folder {str(folder)!r} is not writable ({type(error).__name__}). "
            "Change its permissions or choose another."
        ) from None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait until no other process or thread writes to `folder`, and keep others out."""
    make_folder(folder)
    with FileLock(folder / ".lock", poll_interval=_LOOK):
        yield


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold `folder` as long as a process runs; a `ResultError` if another process holds it."""
    make_folder(folder)
    with ExitStack() as held:
        try:
            held.enter_context(FileLock(folder / ".running", timeout=0.0))
        except Timeout:
            raise ResultError(
                f"The folder {str(folder)!r} is in use by another running process. "
                "Stop that process first."
            ) from None
        yield


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all, also after a crash.

    Parameters
    ----------
    path : Path
    content : bytes
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


class Status:
    """What a site is doing, one line per step, for the person who runs it; nothing depends on it.

    Parameters
    ----------
    folder : Path
        The site's state folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def say(self, text: str, study: str = "") -> None:
        """Write a line.

        Parameters
        ----------
        text : str
        study : str
            An id; empty if the line is about the site itself.
        """
        line = json.dumps({"study": study, "text": text, "time": stamp(utc_now())})
        with locked(self._folder), (self._folder / "status.jsonl").open("ab") as file:
            file.write(line.encode() + b"\n")

    def lines(self, start: int = 0) -> list[dict[str, str]]:
        """The lines so far, after the first `start`; a line that a crash cut off is left out."""
        try:
            content = (self._folder / "status.jsonl").read_bytes()
        except FileNotFoundError:
            return []
        found = []
        for line in content.split(b"\n")[start:-1]:
            try:
                found.append(json.loads(line))
            except ValueError:
                found.append({"study": "", "text": "(this line is damaged)", "time": ""})
        return found

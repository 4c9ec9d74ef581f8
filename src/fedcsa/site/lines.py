"""Files that only grow: one line at a time, on the disk before anything else happens."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedcsa.errors import ResultError

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows, where one process at a time must do
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes of this site out; the lock goes with the process that holds it."""
    make_folder(folder)
    with (folder / ".lock").open("ab") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a folder for as long as a process runs; a `ResultError` if another one holds it."""
    make_folder(folder)
    with (folder / ".running").open("ab") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ResultError(
                    f"The folder {str(folder)!r} must belong to one running process; another one "
                    "holds it. Stop that one first."
                ) from None
        yield


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner can read."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ResultError(
            f"The folder {str(folder)!r} must be writable; {type(error).__name__} came instead."
        ) from None


def append_line(path: Path, line: str, *, lasting: bool = True) -> None:
    """Write a line and, if it must last, wait until it is on the disk.

    A line that a crash cut off is removed first: nothing was done on its strength.
    """
    with path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            if file.read(1) != b"\n":
                file.truncate(_last_end(path))
        file.write(line.encode() + b"\n")
        file.flush()
        if lasting:
            os.fsync(file.fileno())


def read_lines(path: Path) -> list[str]:
    """All whole lines."""
    if not path.exists():
        return []
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    return whole.decode("utf-8", errors="replace").split("\n")[:-1]


def read_records(path: Path, start: int = 0) -> list[dict[str, Any]]:
    """All whole lines of JSON after the first `start`; a `ResultError` if one was damaged."""
    try:
        return [json.loads(line) for line in read_lines(path)[start:]]
    except ValueError:
        raise ResultError(
            f"The file {str(path)!r} must be as fedcsa wrote it; it is damaged. "
            "Restore it from a backup."
        ) from None


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _last_end(path: Path) -> int:
    return path.read_bytes().rfind(b"\n") + 1

"""The engine's processes of one kit, in the foreground."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from fedcsa.federation.flare import require_engine
from fedcsa.federation.flare.hardening import settle
from fedcsa.federation.flare.kits import Kit

#: Of a kit: what the engine prints.
_LOG = "engine.log"
#: The engine leaves a folder a job, of some 100 kB. A study that waits for people is a job every
#: quarter of an hour; after two days nobody looks at what an ended job has left.
_OLD_SECONDS = 2 * 86400.0
#: Seconds between two looks for such folders.
_CLEAR_SECONDS = 3600.0
#: Folders of jobs are named by a UUID.
_JOB = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class EngineProcess:
    """The process of a server or of a site; its output goes into ``engine.log`` of the kit.

    Parameters
    ----------
    folder : Path
        Of the kit.
    kit : Kit
    """

    def __init__(self, folder: Path, kit: Kit) -> None:
        require_engine()
        self._folder = folder = folder.absolute()
        self._cleared = -math.inf
        settings = ["secure_train=true", "org=fedcsa", "config_folder=config"]
        side = "server" if kit.role == "server" else "client"
        if side == "server":
            settle(folder)
        else:
            settings.append(f"uid={kit.participant}")
        (folder / "transfer").mkdir(exist_ok=True)
        paths = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
        self._log = (folder / _LOG).open("ab")
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, "-u", "-m", f"nvflare.private.fed.app.{side}.{side}_train",
             "-m", str(folder), "-s", f"fed_{side}.json", "--set", *settings],
            stdout=self._log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=folder,
            env={**os.environ, "PATH": os.pathsep.join(paths), "PYTHONWARNINGS": "ignore",
                 "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")},
            start_new_session=True,
        )  # fmt: skip

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code, or None while it runs; what old jobs left is cleared meanwhile."""
        if time.monotonic() > self._cleared + _CLEAR_SECONDS:
            self._cleared = time.monotonic()
            clear_old_jobs(self._folder, time.time())
        return self._process.poll()

    def workers(self) -> list[int]:
        """Processes that it started: one per job."""
        try:
            return [child.pid for child in psutil.Process(self.pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def stop(self) -> None:
        """End the process and its workers: politely, and after ten seconds not."""
        workers = self.workers()
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10.0)
        self._process.kill()
        self._process.wait(10.0)
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._log.close()

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def clear_old_jobs(kit: Path, now: float) -> None:
    """Delete the engine's folders of jobs in which nothing was written for two days.

    Parameters
    ----------
    kit : Path
    now : float
        Seconds since 1970.
    """
    for place in (kit, kit / "stores" / "jobs"):
        folders = place.iterdir() if place.is_dir() else ()
        for folder in [path for path in folders if _JOB.fullmatch(path.name)]:
            with contextlib.suppress(OSError):  # it may end at this very moment
                newest = max(path.stat().st_mtime for path in (folder, *folder.rglob("*")))
                if now - newest > _OLD_SECONDS:
                    shutil.rmtree(folder)


@contextlib.contextmanager
def until_stopped() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, instead of cutting off what must be tidied up."""
    stopped = threading.Event()
    before = {
        sign: signal.signal(sign, lambda *_: stopped.set())
        for sign in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stopped
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)

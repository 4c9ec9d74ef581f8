"""What comes from another site is opened first in a child process, under limits.

A message that crashes, swells or hangs ends the child alone. This process then knows whose
message it was, goes on, and starts another child for the next.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import fedcsa
from fedcsa.errors import FedCSAError, OpeningError
from fedcsa.site.opening_child import LENGTHS

#: Beside three times the message: a forest of a million nodes, of 10 MB, takes 60 MB in all.
MEMORY_BYTES = 300 << 20
#: Of computing: a forest of a million nodes takes less than one.
CPU_SECONDS = 10
#: On the clock, for what waits and does not compute; a busy machine must not make a site a liar.
WALL_SECONDS = 60.0
#: An interpreter that cannot load numpy in this time never will.
_START_SECONDS = 120.0
#: A verdict is shorter.
_MOST_LINE = 100
#: Every way in which opening a message can end badly, in words; of the last, see `Desk`.
UNSAFE = {
    "opening_crashed": "ended the process that opened it",
    "opening_memory": f"took more than {MEMORY_BYTES >> 20} MB beside its own size to open",
    "opening_time": f"took more than {CPU_SECONDS} s of computing or {WALL_SECONDS:.0f} s to open",
    "opening_interrupted": "was being opened both times when this site was stopped before",
}  # fmt: skip
_DO = "It is not opened again in this study. Ask that site what it sent, or leave it out."


def unsafe_message(rule: str, sender: str) -> OpeningError:
    """The error that names the sender of a message that could not be opened safely.

    Parameters
    ----------
    rule : str
        One of `UNSAFE`.
    sender : str
    """
    return OpeningError(rule, f"The message of {sender!r} {UNSAFE[rule]}. {_DO}")


@dataclass(frozen=True)
class Bounds:
    """What a message must keep to.

    Attributes
    ----------
    max_bytes : int
        Of a message.
    features, classes : int
        Of the study; no classes if the outcome is a number.
    """

    max_bytes: int
    features: int = 0
    classes: int = 0


class Opener:
    """A child process that opens messages one after the other; another one if it dies."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._one_at_a_time = threading.RLock()

    def start(self) -> None:
        """See to it that a child is ready; a `FedCSAError` says that this site cannot start one."""
        with self._one_at_a_time:
            if self._child is not None and self._child.poll() is None:
                return
            self.end()
            # In our own folder: nothing that lies where this process runs can pose as a module.
            self._child = subprocess.Popen(
                [sys.executable, "-m", "fedcsa.site.opening_child"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                cwd=Path(fedcsa.__file__).parents[1], start_new_session=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )  # fmt: skip
            if self._answer(b"", _START_SECONDS) != "ready":
                self.end()
                raise FedCSAError(
                    "This site could not start the process that opens messages. Check that "
                    f"{sys.executable!r} can import fedcsa."
                )

    def try_out(self, payload: bytes, bounds: Bounds) -> str:
        """Let the child open a message: ``""`` if it came through, or one of `UNSAFE`.

        A child that dies may have been ended by somebody else, so another one tries once more.

        Parameters
        ----------
        payload : bytes
        bounds : Bounds
        """
        limits = {"memory": MEMORY_BYTES, "seconds": CPU_SECONDS}
        task = json.dumps({**vars(bounds), **limits}).encode()
        frame = LENGTHS.pack(len(task), len(payload)) + task + payload
        with self._one_at_a_time:
            ended = self._try(frame)
            return self._try(frame) if ended == "opening_crashed" else ended

    def _try(self, frame: bytes) -> str:
        """Let one child open the message in `frame`; see `try_out`."""
        self.start()
        said = self._answer(frame, WALL_SECONDS)
        if said in ("opened", "refused"):
            return ""
        code = self.end()
        if said == "memory":
            return "opening_memory"
        late = said == "late" or code == -getattr(signal, "SIGXCPU", 0)
        return "opening_time" if late else "opening_crashed"

    def _answer(self, frame: bytes, seconds: float) -> str:
        """What the child says to `frame`: the word of its answer, "late", or "dead"."""
        child, late = self._child, threading.Event()
        assert child is not None  # noqa: S101 - it was started
        assert child.stdin is not None and child.stdout is not None  # noqa: S101, PT018

        def kill() -> None:
            late.set()
            child.kill()

        timer = threading.Timer(seconds, kill)
        timer.start()
        try:
            child.stdin.write(frame)
            child.stdin.flush()
            line = child.stdout.readline(_MOST_LINE)
            said = json.loads(line)["ended"]
        except (OSError, ValueError, LookupError, TypeError):
            said = "dead"
        except BaseException:
            child.kill()  # somebody stops this process: the child must not answer the next one
            raise
        finally:
            timer.cancel()
            timer.join()
        return "late" if late.is_set() else str(said)

    def end(self) -> int:
        """End the child, if there is one; its exit code."""
        child, self._child = self._child, None
        if child is None:
            return 0
        assert child.stdin is not None and child.stdout is not None  # noqa: S101, PT018
        with contextlib.suppress(OSError):
            child.stdin.close()  # nothing more comes, so it ends
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(1.0)
        child.kill()
        child.stdout.close()
        return child.wait()


def opener() -> Opener:
    """The one opener of this process."""
    return _opener_of(os.getpid())


@functools.cache
def _opener_of(process: int) -> Opener:  # noqa: ARG001 - a fork must not share its parent's
    made = Opener()
    atexit.register(made.end)
    return made

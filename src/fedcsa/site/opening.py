"""What comes from another site is opened first in a child process, under limits.

A message that crashes, swells or hangs ends the child alone. This process then knows whose
message it was, goes on, and starts another child for the next. The child is this module, run by
``python -m fedcsa.site.opening``::

    in    8 bytes   length of the task, little-endian
          8 bytes   length of the message
          task      JSON: {"max_bytes": …, "features": …, "classes": …, "memory": …, "seconds": …}
          message   as it came from another site
    out   one line of JSON a message: {"ended": "opened"}, "refused" or "memory"

It begins with the line {"ended": "ready"} and ends when nothing more comes in. What it learns of
a message stays there: the process that asked opens it again, once it is known to be harmless.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import math
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

import fedcsa
from fedcsa.core.arrays import Array
from fedcsa.errors import FedCSAError, ModelError, OpeningError
from fedcsa.messages.codec import decode
from fedcsa.messages.messages import Examination, ModelReport
from fedcsa.models.formats import open_model
from fedcsa.models.portable import Arrays, Form

try:
    import resource
except ImportError:  # pragma: no cover - Windows, where only the time is limited, from outside
    resource = None  # type: ignore[assignment]

#: Lengths of the task and of the message, before both.
_LENGTHS = struct.Struct("<QQ")
#: A message is there as it came, as its arrays, and once more while these are checked.
_COPIES = 3
#: Predicted by every model that comes, in the units of models, where most rows lie within ±3.
_AGREED_ROWS = 64
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
#: What to do about such a message.
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


def start_child(
    command: Sequence[str], threads: Mapping[str, str], **streams: Any
) -> subprocess.Popen[bytes]:
    """One of our modules in a process of its own, which ends with nobody else.

    It runs in our own folder: nothing that lies where this process runs can pose as a module.

    Parameters
    ----------
    command : sequence of str
        Name of the module, and its arguments.
    threads : mapping
        What its environment says of threads.
    **streams
        Where it reads from and writes to.
    """
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", *command], cwd=Path(fedcsa.__file__).parents[1],
        env={**os.environ, **threads}, start_new_session=True, stderr=subprocess.DEVNULL,
        **streams,
    )  # fmt: skip


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
            threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self._child = start_child(["fedcsa.site.opening"], threads, **pipes)
            if self._answer(b"", _START_SECONDS) != "ready":
                self.end()
                raise FedCSAError(
                    "This site could not start the process that opens messages. Check that "
                    f"{sys.executable!r} can import fedcsa."
                )

    def try_out(self, payload: bytes, max_bytes: int, features: int = 0, classes: int = 0) -> str:
        """Let the child open a message: ``""`` if it came through, or one of `UNSAFE`.

        A child that dies may have been ended by somebody else, so another one tries once more.

        Parameters
        ----------
        payload : bytes
        max_bytes : int
            Of a message.
        features, classes : int
            Of the study; no classes if the outcome is a number.
        """
        bounds = {"max_bytes": max_bytes, "features": features, "classes": classes}
        limits = {"memory": MEMORY_BYTES, "seconds": CPU_SECONDS}
        task = json.dumps({**bounds, **limits}).encode()
        frame = _LENGTHS.pack(len(task), len(payload)) + task + payload
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
        """What the child says: the word of its answer, "late", or "dead".

        Parameters
        ----------
        frame : bytes
            What it gets.
        seconds : float
            Before it is ended.
        """
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


# In the child --------------------------------------------------------------------------------


def agreed_rows(n_features: int) -> Array:
    """Rows on which every received model is tried: the same at every site.

    Parameters
    ----------
    n_features : int

    Returns
    -------
    array of shape (rows, features)
    """
    grid = np.linspace(-3.0, 3.0, _AGREED_ROWS)
    shifts = np.arange(n_features)  # so that features do not move together
    return np.stack([np.roll(grid, shift) for shift in shifts], axis=1)


def open_wholly(payload: bytes, task: dict[str, Any]) -> None:
    """Decode a message, open the models in it, and let them predict the agreed rows.

    Parameters
    ----------
    payload : bytes
    task : dict
        As the parent wrote it.
    """
    message = decode(payload, task["max_bytes"])
    models: Sequence[tuple[Form, Arrays]] = ()
    if isinstance(message, ModelReport):
        models = [(message.form, message.arrays)]
    elif isinstance(message, Examination):
        models = message.members
    for form, arrays in models:
        model = open_model(form, arrays, task["features"], task["classes"])
        try:
            model.predict(agreed_rows(task["features"]))
        except (FedCSAError, MemoryError):
            raise
        except Exception as error:  # whether it can predict the rows of a site is seen there
            raise ModelError(type(error).__name__) from None


def limit(task: dict[str, Any], n_bytes: int, mapped: int) -> None:
    """Allow this process the memory and computing time of one more message.

    Parameters
    ----------
    task : dict
    n_bytes : int
        Of the message.
    mapped : int
        Bytes that this process had mapped before the first message; 0 if that is unknown.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = math.ceil(used.ru_utime + used.ru_stime + task["seconds"])
    _lower(resource.RLIMIT_CPU, seconds)
    _lower(resource.RLIMIT_CORE, 0)  # a core file would hold the message
    _lower(resource.RLIMIT_FSIZE, 0)  # there is nothing to write but the answer
    if mapped:
        _lower(resource.RLIMIT_AS, mapped + task["memory"] + _COPIES * n_bytes)


def _mapped() -> int:
    """Bytes that this process has mapped; 0 where the system does not tell."""
    pages = Path("/proc/self/statm")
    if resource is None or not pages.exists():
        return 0
    return int(pages.read_text("ascii").split()[0]) * resource.getpagesize()


def _lower(which: int, most: int) -> None:
    """Set the limit that this process may still change, at most to the one that it may not.

    Parameters
    ----------
    which : int
        One of the system's limits.
    most : int
    """
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(which, (most, hard))


def serve(taken: BinaryIO, told: BinaryIO) -> None:
    """Open one message after the other until no more come.

    Parameters
    ----------
    taken, told : BinaryIO
        Where tasks come from, and answers go to.
    """
    mapped = _mapped()
    _tell(told, "ready")
    while header := taken.read(_LENGTHS.size):
        n_task, n_bytes = _LENGTHS.unpack(header)
        task = json.loads(taken.read(n_task))
        if resource is not None:
            limit(task, n_bytes, mapped)
        ended = "opened"
        try:
            open_wholly(taken.read(n_bytes), task)
        except MemoryError:
            ended = "memory"
        except FedCSAError:
            ended = "refused"
        _tell(told, ended)


def _tell(told: BinaryIO, ended: str) -> None:
    """Write one line of the answer.

    Parameters
    ----------
    told : BinaryIO
    ended : str
    """
    told.write(json.dumps({"ended": ended}).encode() + b"\n")
    told.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)

"""Work on all cores by forked processes, for fits that do not let go of the interpreter.

Threads gain only where a fit lets go of the interpreter for long, as forests on long tables do, and
these gain as much from processes; ``benchmarks/fits.py`` measures two cores against one.

A child has everything by the fork, so nothing is pickled on the way there; what it finds it writes
into shared memory, beside a short text. No child outlives its parent by more than one task.
"""

from __future__ import annotations

import gc
import mmap
import os
import selectors
import signal
import struct
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import NoReturn

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.batches import available_cores

#: Seconds of work that are left before processes are started: to start two takes about 0.03.
WORTH_STARTING = 0.5
#: Tasks that wait for a free process, for each: no process idles while its answer is read.
TASKS_AHEAD = 2
#: Seconds after which processes that neither answer nor compute are given up, and their tasks done
#: here. A child has none of its parent's threads, so it waits for ever for a lock that one of them
#: held at the fork, such as a library's.
STALLED = 20.0
#: Seconds between two words about how many tasks are done: a user who waits for two sees one.
TOLD_EVERY = 1.0
#: A task's number, before an answer its length too.
_NUMBER, _HEAD = struct.Struct("<I"), struct.Struct("<II")

#: From the number of a task to a text about it; its numbers are written into shared memory.
Task = Callable[[int], str]
#: Called with how many tasks are done, and how many there are.
Watcher = Callable[[int, int], None]
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(tell: Watcher) -> Iterator[None]:
    """Let `tell` know now and then how far tasks are that take long, wherever they are done."""
    before = _watcher.set(tell)
    try:
        yield
    finally:
        _watcher.reset(before)


class _Count:
    """Tasks that are done, told to whoever watches."""

    def __init__(self, n_tasks: int) -> None:
        self._n_tasks, self._n_done = n_tasks, 0
        self._tell, self._told = _watcher.get(), time.perf_counter()

    def add(self) -> None:
        """One more is done."""
        self._n_done += 1
        now = time.perf_counter()
        if self._tell is not None and now - self._told >= TOLD_EVERY:
            self._told = now
            self._tell(self._n_done, self._n_tasks)


def shared_zeros(shape: Sequence[int]) -> Array:
    """Zeros that forked processes write into and this one reads; they go with the array."""
    size = int(np.prod(shape, dtype=np.int64))
    memory = mmap.mmap(-1, max(size, 1) * 8)
    return np.frombuffer(memory, dtype=np.float64, count=size).reshape(shape)


def on_all_cores(task: Task, n_tasks: int, workers: int | None = None) -> list[str]:
    """``[task(0), task(1), …]``, by processes where that is worth their start.

    What comes out does not depend on the number of workers. Tasks of a process that dies are done
    here, so that an error is raised as if there were no processes.

    Parameters
    ----------
    task : function of a number
        It must not need a thread that runs when this is called: a child has none of them.
    n_tasks : int
    workers : int, optional
        Processes; by default as many as there are cores, and 1 where forking is not safe.

    Examples
    --------
    >>> squares = shared_zeros([4])
    >>> def task(index):
    ...     squares[index] = index**2
    ...     return "even" if index % 2 == 0 else "odd"
    >>> on_all_cores(task, 4), squares.tolist()
    (['even', 'odd', 'even', 'odd'], [0.0, 1.0, 4.0, 9.0])
    """
    if workers is None:  # a fork of a process that has used Apple's libraries crashes
        workers = available_cores() if sys.platform == "linux" else 1
    found: dict[int, str] = {}
    count, start = _Count(n_tasks), time.perf_counter()
    for index in range(n_tasks):
        found[index] = task(index)
        count.add()
        left = (time.perf_counter() - start) / len(found) * (n_tasks - len(found))
        if workers > 1 and left > WORTH_STARTING:
            found |= _by_processes(task, range(len(found), n_tasks), workers, count)
            break
    return [found[index] if index in found else task(index) for index in range(n_tasks)]


def _by_processes(
    task: Task, numbers: Sequence[int], workers: int, count: _Count
) -> Mapping[int, str]:
    """Answers of the processes, without those of tasks at which one died.

    Parameters
    ----------
    task : function of a number
    numbers : sequence of int
        Of the tasks.
    workers : int
    count : _Count
        Of those that are done.
    """
    found: dict[int, str] = {}
    ask_from, ask = os.pipe()
    children: dict[int, int] = {}  # where its answers are read -> process
    try:
        for _ in range(min(workers, len(numbers))):
            answers, answer = os.pipe()
            child = _fork()
            if child == 0:
                _serve(task, ask_from, answer, (ask, answers, *children))
            os.close(answer)
            children[answers] = child
        os.close(ask_from)
        ask_from, waiting = -1, iter(numbers)
        ask = _ask(ask, waiting, TASKS_AHEAD * len(children))
        with selectors.DefaultSelector() as ready:
            for answers in children:
                ready.register(answers, selectors.EVENT_READ)
            worked = -1.0
            while ready.get_map():
                came = ready.select(STALLED)
                if not came:
                    before, worked = worked, _computed(children.values())
                    if worked == before:
                        break
                for key, _ in came:
                    head = _read(key.fd, _HEAD.size)
                    index, length = _HEAD.unpack(head) if head else (0, 0)
                    text = _read(key.fd, length) if head else None
                    if text is None:  # it has ended, or died
                        ready.unregister(key.fd)
                        continue
                    found[index] = text.decode()
                    count.add()
                    ask = _ask(ask, waiting, 1)
    finally:  # also of an interrupt: nobody works on
        for answers, child in children.items():
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(answers)
        for end in (ask_from, ask):
            if end >= 0:
                os.close(end)
    return found


def _computed(processes: Iterable[int]) -> float:
    """Ticks of CPU time that the processes have taken together."""
    taken = 0.0
    for process in processes:
        with suppress(OSError):
            told = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
            # The name, in parentheses, may hold spaces; user and system time are the 14th and 15th.
            taken += sum(map(float, told.rpartition(")")[2].split()[11:13]))
    return taken


def _fork() -> int:
    with warnings.catch_warnings():  # that other threads may hold a lock: no task takes one
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _ask(pipe: int, waiting: Iterable[int], most: int) -> int:
    """Ask for the next few tasks; after the last the pipe is closed, and -1 comes back.

    Parameters
    ----------
    pipe : int
        From which the processes read; -1 if it is closed.
    waiting : iterator of int
        The tasks that are left.
    most : int
    """
    for _ in range(most if pipe >= 0 else 0):
        index = next(iter(waiting), None)
        try:
            if index is not None:
                os.write(pipe, _NUMBER.pack(index))
                continue
        except BrokenPipeError:  # they all have died
            pass
        os.close(pipe)
        return -1
    return pipe


def _serve(task: Task, asked: int, answer: int, others: Iterable[int]) -> NoReturn:
    """What a child does: tasks, until there are no more.

    Parameters
    ----------
    task : function of a number
    asked, answer : int
        Pipes from and to the parent.
    others : iterable of int
        Pipes that are none of its business.
    """
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the parent says what an interrupt means
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        gc.freeze()  # what came with the fork stays shared
        for end in others:
            os.close(end)
        while number := _read(asked, _NUMBER.size):
            [index] = _NUMBER.unpack(number)
            text = task(index).encode()
            message = memoryview(_HEAD.pack(index, len(text)) + text)
            while message:
                message = message[os.write(answer, message) :]
        status = 0
    finally:
        os._exit(status)  # without what the parent would do at its end


def _read(pipe: int, size: int) -> bytes | None:
    """So many bytes; None if the other side has ended before.

    Parameters
    ----------
    pipe : int
    size : int
    """
    found = b""
    while len(found) < size:
        more = os.read(pipe, size - len(found))
        if not more:
            return None
        found += more
    return found

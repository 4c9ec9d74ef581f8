"""Batches on several cores: in order, few ahead, and without BLAS fighting for the same cores."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import chain, islice
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Found = TypeVar("Found")


def available_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """While it lasts, BLAS works on one thread: two levels of threads would fight for cores.

    The first to enter limits it and the last to leave lets it go, in whatever threads they are.
    """
    with _held.lock:
        _held.users += 1
        if _held.users == 1:
            _held.limits = _libraries().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _held.lock:
            _held.users -= 1
            if _held.users == 0 and _held.limits is not None:
                _held.limits.restore_original_limits()
                _held.limits = None


class _Held:
    """How many hold BLAS to one thread, and what it had before."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.limits: Any = None


_held = _Held()


@cache
def _libraries() -> ThreadpoolController:
    """The BLAS libraries in this process; looking for them takes longer than a small problem."""
    return ThreadpoolController()


def in_order(
    function: Callable[[Item], Found], items: Iterable[Item], workers: int | None = None
) -> Iterator[Found]:
    """``map(function, items)`` on threads; numpy lets go of the interpreter while it works.

    At most `workers` + 1 items are on their way at a time, so that a long table is never held.
    What comes out does not depend on the number of workers, by default all cores.

    >>> list(in_order(lambda x: x * x, range(5), workers=2))
    [0, 1, 4, 9, 16]
    """
    workers = workers or available_cores()
    coming = iter(items)
    first = list(islice(coming, 2))
    if workers == 1 or len(first) < 2:
        yield from map(function, chain(first, coming))
        return
    waiting: deque[Future[Found]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for item in chain(first, coming):
                waiting.append(pool.submit(function, item))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

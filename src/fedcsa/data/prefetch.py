"""The next items are made in the background while the caller works on this one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator
from contextlib import closing
from typing import TypeVar

Item = TypeVar("Item")
AHEAD = 2


def prefetched(make: Callable[[], Generator[Item]]) -> Generator[Item]:
    """The items of ``make()``, of which at most `AHEAD` are made before they are asked for.

    They are made in one thread, which ends with the last item, with an error, which is raised
    here, and when nobody wants any more. It always closes ``make()``, which must close what it
    opens itself.

    >>> list(prefetched(lambda: (number**2 for number in range(4))))
    [0, 1, 4, 9]
    """
    made: queue.SimpleQueue[tuple[Item] | BaseException | None] = queue.SimpleQueue()
    room = threading.Semaphore(AHEAD)
    unwanted = threading.Event()

    def work() -> None:
        outcome: BaseException | None = None
        try:
            with closing(make()) as items:
                while room.acquire() and not unwanted.is_set():
                    made.put((next(items),))
        except StopIteration:
            pass
        except BaseException as error:  # whatever it is, the caller must hear of it
            outcome = error
        made.put(outcome)

    # A daemon: a pass that was left open does not keep the interpreter from ending.
    thread = threading.Thread(target=work, name="fedcsa-prefetch", daemon=True)
    thread.start()
    try:
        while isinstance(item := made.get(), tuple):
            room.release()
            yield item[0]
        if item is not None:
            raise item
    finally:
        unwanted.set()
        room.release()
        thread.join()

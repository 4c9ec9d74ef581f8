"""Asks for studies again and again until they end: the lead's side of waiting for people."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from fedcsa.errors import FedCSAError, PolicyError, ProtocolError
from fedcsa.federation.kept import Kept, Shelf
from fedcsa.messages.messages import WAITING, Conclusion
from fedcsa.messages.policy import Clock, utc_now

#: Asks for a study once, given whether it waits for people: where the coordinator was at the end,
#: and what the target said. It raises a `ProtocolError` if the question came to nothing.
Ask = Callable[[Kept, bool], tuple[dict[str, Any], Conclusion]]
#: Called with a study that waits, after every question and every second of a pause.
Tell = Callable[[Kept], None]
#: Seconds between two looks at the clock in a pause.
_LOOK = 1.0


@dataclass(frozen=True)
class Ended:
    """A study that is no longer asked for.

    Attributes
    ----------
    kept : Kept
    board : dict
        Where the coordinator was at its end.
    told : Conclusion or None
        What the target said of it; none if it still waits, or cannot be asked for.
    error : FedCSAError or None
        Why it cannot be asked for; it stays kept if it ever waited.
    """

    kept: Kept
    board: dict[str, Any]
    told: Conclusion | None
    error: FedCSAError | None = None


def ask_until_ended(
    studies: Sequence[Kept],
    shelf: Shelf,
    ask: Ask,
    tell: Tell,
    *,
    once: bool = False,
    clock: Clock = utc_now,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[Ended]:
    """Ask for studies until each has ended; tell each one's end as it comes.

    A study is kept on the shelf from the first time that it waits until its end has come.

    Parameters
    ----------
    studies : sequence of Kept
        Each is asked for at once, and later as `Kept.next` says.
    shelf : Shelf
    ask, tell : function
    once : bool
        Whether to ask for each only once.
    clock, pause : function
    """
    due = {kept.study: (clock(), kept) for kept in studies}
    while due:
        study = min(due, key=lambda name: due[name][0])
        when, kept = due.pop(study)
        _wait_until(when, kept, tell, clock, pause)
        end = _ask_once(kept, shelf, ask, clock())
        ended = end.told is not None or end.error is not None
        if not ended:
            tell(end.kept)
        if ended or once:
            yield end
        else:
            due[study] = end.kept.next, end.kept


def _wait_until(
    when: datetime, kept: Kept, tell: Tell, clock: Clock, pause: Callable[[float], None]
) -> None:
    while (left := (when - clock()).total_seconds()) > 0.0:
        tell(kept)
        pause(min(left, _LOOK))


def _ask_once(kept: Kept, shelf: Shelf, ask: Ask, now: datetime) -> Ended:
    """Ask for a study, and keep it if it waits or, having waited before, was out of reach."""
    patient = kept.is_patient(now)
    try:
        board, told = ask(kept, patient)
    except ProtocolError as error:
        if not kept.sources or not patient or isinstance(error, PolicyError):
            return Ended(kept, {}, None, error)
        time_ = now.isoformat(timespec="seconds")
        kept, board = replace(kept, asked=time_, problem=str(error)), {}
    except FedCSAError as error:
        return Ended(kept, {}, None, error)
    else:
        kept = kept.after(told.sources, now)
        if told.outcome != WAITING or not patient:
            shelf.remove(kept.study)
            return Ended(kept, board, told)
    shelf.put(kept)
    return Ended(kept, board, None)

"""The studies that a lead has submitted and that have not ended: kept in its kit, and asked for.

::

    KIT/studies/NAME@DIGEST/kept.json    what was submitted, and what became of every source so far

A site cannot call the lead. So a study that waits for people is asked for again, with longer and
longer pauses, until everybody has decided or the lead's patience ends; whoever takes it up after
a restart asks at once. Sites answer again with the same bytes, and disclose nothing twice.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from fedcsa.errors import FedCSAError, PolicyError, ProtocolError, ResultError, StudyError
from fedcsa.messages.envelope import study_id
from fedcsa.messages.messages import WAITING, Conclusion
from fedcsa.messages.policy import Clock, utc_now
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.log import one_study
from fedcsa.site.state import alone, make_folder, stamp, write_whole

#: Where studies are kept in a kit.
_FOLDER, _FILE = "studies", "kept.json"
#: The next question comes after this share of the time waited so far: who has waited an hour hears
#: of an approval within six minutes.
_SHARE = 0.1
#: Seconds between two questions, at least and at most: a question starts a process at every site.
_SHORTEST, _LONGEST = 20.0, 900.0
#: Seconds of every unit; a number without one is in seconds.
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "": 1}
_DURATION = re.compile(r"(\d{1,6})([smhd]?)")
#: Asks for a study once, given whether it waits for people: where the coordinator was at the end,
#: and what the target said. It raises a `ProtocolError` if the question came to nothing.
Ask = Callable[["Kept", bool], tuple[dict[str, Any], Conclusion]]
#: Called with a study that waits, after every question and every second of a pause.
Tell = Callable[["Kept"], None]
#: Seconds between two looks at the clock in a pause.
_LOOK = 1.0


@dataclass(frozen=True)
class Kept:
    """A study that was submitted and has not ended.

    Attributes
    ----------
    study : str
        Its id.
    text : str
        What was agreed.
    target : str
        Name of the target's site.
    min_sources, deadline : int
        As they were submitted.
    out : str
        Folder for the result.
    since, until : str
        When it was submitted, and when the lead's patience ends: then the study goes on without
        the sources that still wait.
    asked : str
        When it was last asked for; empty before the first time.
    problem : str
        Why the last question came to nothing, if so.
    sources : mapping of str to str
        What became of every source, as the target told it last.
    told : mapping of str to str
        Since when it is so, by source.
    """

    study: str
    text: str
    target: str
    min_sources: int
    deadline: int
    out: str
    since: str
    until: str
    asked: str = ""
    problem: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    told: Mapping[str, str] = field(default_factory=dict)

    @property
    def waiting(self) -> list[str]:
        """The sources at which nobody has decided yet."""
        return [name for name, fate in sorted(self.sources.items()) if is_waiting(fate)]

    @property
    def next(self) -> datetime:
        """When to ask again; at once if it was never asked for."""
        since = datetime.fromisoformat(self.since)
        if not self.asked:
            return since
        asked = datetime.fromisoformat(self.asked)
        waited = (asked - since).total_seconds()
        pause = timedelta(seconds=min(max(_SHARE * waited, _SHORTEST), _LONGEST))
        return min(asked + pause, max(datetime.fromisoformat(self.until), asked))

    def after(self, sources: Mapping[str, str], now: datetime) -> Kept:
        """The same, once the target has told what became of the sources.

        Parameters
        ----------
        sources : mapping of str to str
            What became of each.
        now : datetime
        """
        told = {
            name: self.told[name] if self.sources.get(name) == fate else stamp(now)
            for name, fate in sources.items()
        }
        return replace(self, asked=stamp(now), problem="", sources=dict(sources), told=told)


def new_kept(
    shelf: Shelf,
    agreed: AgreedStudy,
    target: str,
    min_sources: int,
    deadline: int,
    out: Path,
    wait: str,
) -> Kept:
    """A study that is submitted now; what is known of it, if it waits already, stays known.

    Parameters
    ----------
    shelf : Shelf
    agreed : AgreedStudy
    target, min_sources, deadline, out
        As for `Kept`.
    wait : str
        How long to wait for people, as `seconds_of` reads it.
    """
    now = stamp(utc_now())
    where = str(out.absolute())
    kept = Kept(agreed.id, agreed.text, target, min_sources, deadline, where, now, now)
    before = next((item for item in shelf.all() if item.study == agreed.id), None)
    if before is not None and before.target == target:
        kept = replace(kept, since=before.since, sources=before.sources, told=before.told)
    return with_patience(kept, wait)


def with_patience(kept: Kept, wait: str) -> Kept:
    """The same study, which waits for so long from now.

    Parameters
    ----------
    kept : Kept
    wait : str
        As `seconds_of` reads it.
    """
    until = utc_now() + timedelta(seconds=seconds_of(wait))
    return replace(kept, until=stamp(until))


class Shelf:
    """The studies in a lead's kit that have not ended.

    Parameters
    ----------
    kit : Path
    """

    def __init__(self, kit: Path) -> None:
        self._folder = kit / _FOLDER

    def folder(self, study: str) -> Path:
        """Where a study is kept."""
        return self._folder / "".join(c if c.isalnum() or c in "-_.@" else "_" for c in study)

    @contextmanager
    def held(self, study: str) -> Iterator[None]:
        """Keep other processes from asking for a study; a `ResultError` if one does so already."""
        folder = self.folder(study)
        with alone(folder):
            try:
                yield
            finally:
                if not (folder / _FILE).exists():  # it never waited
                    self.remove(study)

    def put(self, kept: Kept) -> None:
        """Keep a study, in place of what was kept of it."""
        make_folder(self.folder(kept.study))
        text = json.dumps(asdict(kept), indent=1, ensure_ascii=False)
        write_whole(self.folder(kept.study) / _FILE, text.encode())

    def remove(self, study: str) -> None:
        """Keep a study no longer."""
        shutil.rmtree(self.folder(study), ignore_errors=True)

    def all(self) -> list[Kept]:
        """Every study that is kept, the oldest first."""
        files = self._folder.glob(f"*/{_FILE}") if self._folder.is_dir() else ()
        return sorted(map(_read, files), key=lambda kept: (kept.since, kept.study))

    def named(self, study: str) -> Kept:
        """The one study of this name or id, or a `StudyError`."""
        every = {kept.study: kept for kept in self.all()}
        return every[one_study(study, list(every))]


def _read(path: Path) -> Kept:
    try:
        kept = Kept(**json.loads(path.read_bytes()))
        sound = study_id(kept.study.rpartition("@")[0], kept.text) == kept.study
        for time in (kept.since, kept.until, *filter(None, [kept.asked])):
            datetime.fromisoformat(time)
        told = [kept.asked, kept.problem, *kept.sources.values(), *kept.told.values()]
        sound = sound and all(isinstance(text, str) for text in told)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        sound = False
    if not sound:
        raise ResultError(
            f"{str(path)!r} is damaged. Delete its folder, and submit the study again."
        )
    return kept


def is_waiting(fate: str) -> bool:
    """Whether a source of this fate, in whichever phase, waits for a person there.

    >>> is_waiting("waiting"), is_waiting("model waiting"), is_waiting("refused: waiting")
    (True, True, False)
    """
    last = fate.split("; ")[-1]
    return last.split(" ")[-1] == WAITING and ":" not in last


def seconds_of(text: str) -> float:
    """A duration such as ``14d``, ``12h``, ``30m``, ``90s`` or ``0``, in seconds.

    >>> seconds_of("14d"), seconds_of("90"), seconds_of("0")
    (1209600.0, 90.0, 0.0)
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise StudyError(
            f"A time to wait must be a whole number and s, m, h or d, such as 14d; it is "
            f"{text[:20]!r}."
        )
    return float(int(found[1]) * _UNITS[found[2]])


# Asked for until they end --------------------------------------------------------------------


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
        while (left := (when - clock()).total_seconds()) > 0.0:
            tell(kept)
            pause(min(left, _LOOK))
        end = _ask_once(kept, shelf, ask, clock())
        ended = end.told is not None or end.error is not None
        if not ended:
            tell(end.kept)
        if ended or once:
            yield end
        else:
            due[study] = end.kept.next, end.kept


def _ask_once(kept: Kept, shelf: Shelf, ask: Ask, now: datetime) -> Ended:
    """Ask for a study, and keep it if it waits or, having waited before, was out of reach.

    Parameters
    ----------
    kept : Kept
    shelf : Shelf
    ask : function
    now : datetime
    """
    patient = now < datetime.fromisoformat(kept.until)  # it still waits for people
    try:
        board, told = ask(kept, patient)
    except ProtocolError as error:
        if not kept.sources or not patient or isinstance(error, PolicyError):
            return Ended(kept, {}, None, error)
        kept, board = replace(kept, asked=stamp(now), problem=str(error)), {}
    except FedCSAError as error:
        return Ended(kept, {}, None, error)
    else:
        kept = kept.after(told.sources, now)
        if told.outcome != WAITING or not patient:
            shelf.remove(kept.study)
            return Ended(kept, board, told)
    shelf.put(kept)
    return Ended(kept, board, None)

"""Where a study is, in words: the same for the terminal, the lead's page and programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fedcsa.federation.kept import Kept, is_waiting
from fedcsa.loopback import require_page
from fedcsa.site.state import stamp
from fedcsa.words import listed

#: Step of the coordinator -> the phase it belongs to.
_PHASES = {
    "greet": "1 of 3", "announce": "1 of 3", "risk": "1 of 3", "search": "1 of 3",
    "choose": "1 of 3",
    "model": "2 of 3", "mix": "2 of 3",
    "examine": "3 of 3", "again": "3 of 3", "conclude": "3 of 3",
}  # fmt: skip
#: Other steps of the coordinator -> in words. It does not know whether the study is done: that the
#: target tells, closed for the lead.
_STEPS = {"scheduling": "waiting to be scheduled", "done": "all answers are in"}
#: The fate of a source whose steward refused.
_STEWARD = "refused: approval"


@dataclass(frozen=True)
class SiteProgress:
    """Where one site is.

    Attributes
    ----------
    name : str
    what : str
        In words.
    since : str
        When that was first told; empty for what changes by the second.
    waits : bool
        Whether somebody there has to decide.
    """

    name: str
    what: str
    since: str = ""
    waits: bool = False


@dataclass(frozen=True)
class StudyProgress:
    """Where one study is.

    Attributes
    ----------
    study, target : str
        Its id, and the name of the target's site.
    state : {"running", "waiting", "done", "failed"}
    text : str
        One sentence.
    sites : tuple of SiteProgress
    since, asked, next, until : str
        When it was submitted, last asked for, will be asked for again, and how long it waits.
    """

    study: str
    target: str
    state: str
    text: str
    sites: tuple[SiteProgress, ...]
    since: str
    asked: str = ""
    next: str = ""
    until: str = ""


def progress_of(kept: Kept) -> StudyProgress:
    """Where a study is between two questions."""
    return StudyProgress(
        kept.study, kept.target, "waiting", _waits(kept), _told(kept),
        kept.since, kept.asked, stamp(kept.next), kept.until,
    )  # fmt: skip


def running(kept: Kept, board: Mapping[str, Any]) -> StudyProgress:
    """Where a study is while the coordinator takes it through its steps.

    Parameters
    ----------
    kept : Kept
    board : mapping
        What the coordinator tells.
    """
    step = str(board.get("step", ""))
    text = f"phase {_PHASES[step]}, {step}" if step in _PHASES else step
    if step == "again" and "attempt" in board:
        text = f"{board['problem']} Submitting again, attempt {board['attempt']}."
    text = _STEPS.get(step, text)
    sites = tuple(
        SiteProgress(f"{name} (target)" if name == kept.target else name, str(what))
        for name, what in board.get("sites", {}).items()
    )
    return StudyProgress(kept.study, kept.target, "running", text, sites or _told(kept), kept.since)


def ended(kept: Kept, text: str, *, done: bool) -> StudyProgress:
    """Where a study is that has ended.

    Parameters
    ----------
    kept : Kept
    text : str
        What came of it.
    done : bool
        Whether there is a result.
    """
    state = "done" if done else "failed"
    return StudyProgress(kept.study, kept.target, state, text, _told(kept), kept.since, kept.asked)


def _waits(kept: Kept) -> str:
    if kept.problem:
        return f"{kept.problem} It is tried again."
    if not kept.sources:
        return "It is about to be asked for."
    return f"It waits for approval at {listed(kept.waiting)}."


def _told(kept: Kept) -> tuple[SiteProgress, ...]:
    """What became of the sources, as the target told it last."""
    return tuple(
        SiteProgress(name, fate_in_words(fate), kept.told.get(name, ""), is_waiting(fate))
        for name, fate in sorted(kept.sources.items())
    )


def fate_in_words(fate: str) -> str:
    """What became of a source, as a person says it.

    >>> fate_in_words("model waiting"), fate_in_words("refused: approval (not in our protocol)")
    ('waits for approval there', 'refused by its steward (not in our protocol)')
    >>> fate_in_words("answered"), fate_in_words("model missing")
    ('answered', 'model missing')
    """
    if is_waiting(fate):
        return "waits for approval there"
    if fate == _STEWARD or fate.startswith(f"{_STEWARD} ("):
        return f"refused by its steward{fate.removeprefix(_STEWARD)}"
    return "out of reach" if fate == "missing" else fate


@contextmanager
def page_of(studies: Callable[[], Mapping[str, StudyProgress]]) -> Iterator[str]:
    """Serve the page meanwhile; its one-time link.

    Parameters
    ----------
    studies : function
        Where the studies are now, by id.
    """
    require_page()
    from fedcsa.loopback.pages import Shown, Visit, served

    def overview(visit: Visit) -> Shown:  # noqa: ARG001 - a view gets its visit
        return Shown("fedcsa.federation:lead.html.jinja", {"studies": list(studies().values())})

    again = "For another link, stop the command and start it again: fedcsa study watch --page"
    with served({"GET /": overview}, again) as guard:
        yield guard.new_link()

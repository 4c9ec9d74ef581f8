"""The only loop: a courier takes messages to the sources and brings their answers back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from fedcsa.errors import must
from fedcsa.messages.codec import decode, encode
from fedcsa.messages.fields import Message
from fedcsa.messages.ledger import LedgerEntry
from fedcsa.messages.messages import TARGET
from fedcsa.source.source import Source
from fedcsa.target.adaptation import Adaptation
from fedcsa.target.target import Target

#: Called with the phase ("risk", "model" or "examine"), the source's name, and "started" or "done".
Progress = Callable[[str, str, str], None]


class Courier(Protocol):
    """Moves messages; an engine implements the one method that matters, `ask`."""

    @property
    def source_names(self) -> Sequence[str]:
        """The sources within reach."""
        ...

    def ask(self, messages: Mapping[str, Message], phase: str) -> dict[str, Message]:
        """Send every source its message and return their answers by name."""
        ...

    def ledgers(self) -> dict[str, tuple[LedgerEntry, ...]]:
        """What left the sources, where this courier can see it."""
        ...


class InProcess:
    """All sites in one process: the sources are asked one after the other.

    Every message is really encoded and decoded on its way, so that what works here also works
    between sites.
    """

    def __init__(self, sources: Sequence[Source], progress: Progress | None = None) -> None:
        names = [source.name for source in sources]
        if not names:
            raise must("sources", "at least one source", 0)
        doubled = sorted(name for name, times in Counter(names).items() if times > 1)
        if doubled:
            raise must("sources", "sources with distinct names", doubled[0])
        if TARGET in names:
            raise must("sources", "sources with other names than the target's", TARGET)
        self._sources = {source.name: source for source in sources}
        self._progress = progress

    @property
    def source_names(self) -> Sequence[str]:
        """The sources within reach."""
        return tuple(self._sources)

    def ask(self, messages: Mapping[str, Message], phase: str) -> dict[str, Message]:
        """Send every source its message and return their answers by name."""
        answers = {}
        for name, message in messages.items():
            if self._progress:
                self._progress(phase, name, "started")
            answers[name] = decode(encode(self._sources[name].answer(decode(encode(message)))))
            if self._progress:
                self._progress(phase, name, "done")
        return answers

    def ledgers(self) -> dict[str, tuple[LedgerEntry, ...]]:
        """What left every source."""
        return {name: tuple(source.ledger.entries) for name, source in self._sources.items()}


def run_study(target: Target, courier: Courier) -> Adaptation:
    """Carry a study through its three phases.

    Numbers for every candidate, one model at the chosen one, and what the sources find of the
    others' mixture.

    Parameters
    ----------
    target : Target
    courier : Courier
    """
    names = sorted(courier.source_names)
    brief = target.brief(names)
    reports = courier.ask(dict.fromkeys(names, brief), "risk")
    request = target.choose(reports)
    models = courier.ask(dict.fromkeys(target.asked, request), "model")
    found = courier.ask(target.mix(models), "examine")
    adaptation = target.conclude(found)
    return replace(adaptation, ledgers={**adaptation.ledgers, **courier.ledgers()})

"""The seam: a transport takes messages to sources and brings their answers back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from fedcsa.protocol.fields import Message
from fedcsa.protocol.ledger import LedgerEntry
from fedcsa.roles.adaptation import Adaptation
from fedcsa.roles.target import Target

#: Called with the phase ("risk" or "model"), the source's name, and "started" or "done".
Progress = Callable[[str, str, str], None]


class Transport(Protocol):
    """Moves messages; an engine implements the one method that matters, `ask`."""

    @property
    def source_names(self) -> Sequence[str]:
        """The sources within reach."""
        ...

    def ask(self, message: Message, sources: Sequence[str], phase: str) -> dict[str, Message]:
        """Send `message` to `sources` and return their answers by name."""
        ...

    def ledgers(self) -> dict[str, tuple[LedgerEntry, ...]]:
        """What left the sources, where this transport can see it."""
        ...


def run(target: Target, transport: Transport) -> Adaptation:
    """Carry a study through its two phases.

    First numbers for every candidate, then one model at the chosen one.
    """
    names = sorted(transport.source_names)
    brief = target.brief(names)
    reports = transport.ask(brief, names, "risk")
    request = target.choose(reports)
    models = transport.ask(request, target.asked, "model")
    adaptation = target.conclude(models)
    return replace(adaptation, ledgers={**adaptation.ledgers, **transport.ledgers()})

"""The seam: a transport takes messages to sources and brings their answers back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from fedcsa.protocol.fields import Message
from fedcsa.protocol.ledger import LedgerEntry
from fedcsa.roles.adaptation import Adaptation
from fedcsa.roles.target import Target

#: Called with the phase ("risk", "model" or "examine"), the source's name, and "started" or "done".
Progress = Callable[[str, str, str], None]


class Transport(Protocol):
    """Moves messages; an engine implements the one method that matters, `ask`."""

    @property
    def source_names(self) -> Sequence[str]:
        """The sources within reach."""
        ...

    def ask(self, messages: Mapping[str, Message], phase: str) -> dict[str, Message]:
        """Send every source its message and return their answers by name."""
        ...

    def ledgers(self) -> dict[str, tuple[LedgerEntry, ...]]:
        """What left the sources, where this transport can see it."""
        ...


def run(target: Target, transport: Transport) -> Adaptation:
    """Carry a study through its three phases.

    Numbers for every candidate, one model at the chosen one, and what the sources find of the
    others' mixture.

    Parameters
    ----------
    target : Target
    transport : Transport
    """
    names = sorted(transport.source_names)
    brief = target.brief(names)
    reports = transport.ask(dict.fromkeys(names, brief), "risk")
    request = target.choose(reports)
    models = transport.ask(dict.fromkeys(target.asked, request), "model")
    found = transport.ask(target.mix(models), "examine")
    adaptation = target.conclude(found)
    return replace(adaptation, ledgers={**adaptation.ledgers, **transport.ledgers()})

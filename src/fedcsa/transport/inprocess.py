"""All sites in one process: for tests, experiments and notebooks.

Every message is really encoded and decoded on its way, so that what works here also works
between sites.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from fedcsa.errors import must
from fedcsa.protocol.codec import decode, encode
from fedcsa.protocol.fields import Message
from fedcsa.protocol.ledger import LedgerEntry
from fedcsa.protocol.messages import TARGET
from fedcsa.roles.source import Source
from fedcsa.transport.base import Progress


class InProcessTransport:
    """Asks the sources one after the other."""

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

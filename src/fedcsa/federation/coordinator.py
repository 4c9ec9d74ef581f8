"""The coordinator: it carries sealed messages between the target and the sources.

::

    greet      sources ──►  the key for which their questions are closed
    announce   target  ──►  one brief, an envelope for every source
    risk       sources ◄──  brief          ──►  risk report or refusal
    search     sources ◄──  candidates     ──►  risk report or refusal; as often as a search asks
    choose     target  ◄──  all of them    ──►  one request, an envelope for every source left
    model      sources ◄──  request        ──►  model or refusal
    mix        target  ◄──  all of them    ──►  the others' mixture, for every source another
    examine    sources ◄──  mixture        ──►  examination report or refusal
    conclude   target  ◄──  all of them    ──►  conclusion; the model stays at the target

If sources find a model useless, the target does not conclude yet: in the phase ``again`` they
examine the mixture without it.

It holds no data, opens nothing, and decides nothing but who is late: every message is closed for
its one recipient.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from typing import Any

from fedcsa.errors import ProtocolError
from fedcsa.messages.envelope import GREET
from fedcsa.run import SEARCH, TargetTurn, carry_messages

#: Plain values: bytes, texts, and dictionaries of them.
Content = dict[str, Any]
#: Called with a site and its reply.
Arrived = Callable[[str, Content], None]
#: Delivers letters of a step to sites, tells when a reply arrives, and returns the replies by
#: site; whoever is late is not among them.
Deliver = Callable[[str, Mapping[str, Content], Arrived], dict[str, Content]]


class Coordinator:
    """Takes one study through its steps, and tells where it is.

    Parameters
    ----------
    target : str
        Name of the target's site.
    sources : list of str

    Attributes
    ----------
    step : str
        Of the study; ``"done"`` at its end.
    sites : dict of str to str
        What every site did last.
    conclusion, envelope : bytes
        What the target says at the end, closed for the lead; empty before.
    problem : str
        Why it went no farther, if so.
    """

    def __init__(self, target: str, sources: list[str]) -> None:
        self.target = target
        self.step = "starting"
        self.sites: dict[str, str] = dict.fromkeys([target, *sources], "waiting")
        self.seconds: dict[str, float] = {}
        self.n_bytes: dict[str, int] = {}
        self.conclusion = b""
        self.envelope = b""
        self.problem = ""

    def to_plain(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "step": self.step,
            "sites": dict(self.sites),
            "seconds": dict(self.seconds),
            "bytes": dict(self.n_bytes),
            "conclusion": base64.b64encode(self.conclusion).decode(),
            "envelope": base64.b64encode(self.envelope).decode(),
            "problem": self.problem,
        }

    def run(self, deliver: Deliver) -> None:
        """Take the study to its end."""
        self._deliver = deliver
        sources: dict[str, Content] = {name: {} for name in self.sites if name != self.target}
        self._greetings = self._ask_sources(sources, GREET)
        end = carry_messages(self._ask_target, self._ask_sources)
        self.conclusion, self.envelope = end["conclusion"], end["envelope"]
        self.step = "done"

    def _ask_target(
        self, step: str, answers: Mapping[str, Content]
    ) -> TargetTurn[Content, Content]:
        """The target's next letters by source, or its last one.

        Parameters
        ----------
        step : str
        answers : mapping of str to Content
            The sources' letters.
        """
        self.sites[self.target] = step
        replies = self._greetings if step == "announce" else answers
        letter: dict[str, Content] = {self.target: {"replies": dict(replies)}}
        reply = self._timed(step, letter, lambda *_: None).get(self.target)
        if reply is None:
            raise ProtocolError(f"The target {self.target!r} did not answer in time ({step}).")
        self.sites[self.target] = "answered"
        if "conclusion" in reply:
            return TargetTurn({}, reply)
        letters = {
            name: {"envelope": wire, "payload": reply["payloads"][name]}
            for name, wire in sorted(reply["envelopes"].items())
        }
        return TargetTurn(letters, more=reply.get("phase") == SEARCH.encode())

    def _ask_sources(self, letters: Mapping[str, Content], phase: str) -> dict[str, Content]:
        """The sources' replies, as far as they come in time.

        Parameters
        ----------
        letters : mapping of str to Content
            By source.
        phase : str
        """
        self.sites |= dict.fromkeys(letters, f"{phase}: asked")

        def arrived(name: str, reply: Content) -> None:
            """Note a reply: an answer or a refusal, the target alone can read which.

            Parameters
            ----------
            name : str
            reply : Content
            """
            self.sites[name] = f"{phase}: {'replied' if 'envelope' in reply else 'malformed'}"

        came = self._timed(phase, letters, arrived)
        self.sites |= {name: f"{phase}: missing" for name in letters if name not in came}
        return came

    def _timed(
        self, step: str, letters: Mapping[str, Content], arrived: Arrived
    ) -> dict[str, Content]:
        """Deliver letters, and add up how long that takes and how many bytes go.

        Parameters
        ----------
        step : str
        letters : mapping of str to Content
        arrived : function
        """
        self.step = step
        start = time.monotonic()
        came = self._deliver(step, letters, arrived)
        took = time.monotonic() - start
        self.seconds[step] = round(self.seconds.get(step, 0.0) + took, 3)
        self.n_bytes[step] = self.n_bytes.get(step, 0) + _size(letters) + _size(came)
        return came

    _deliver: Deliver
    _greetings: dict[str, Content]


def _size(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(_size(item) for item in value.values())
    return len(value) if isinstance(value, bytes | str) else 0

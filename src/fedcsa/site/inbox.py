"""The target's open questions, the replies to them, and what became of every source.

A reply is opened here if its envelope belongs to an open question. Whether an honest source could
have sent what is in it, the target itself decides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from fedcsa.errors import FedCSAError, ProtocolError
from fedcsa.messages.envelope import (
    Envelope,
    Seal,
    check_greeting,
    check_reply,
    check_seal,
    open_closed,
)
from fedcsa.messages.fields import Message
from fedcsa.messages.messages import WAITING, Refusal

#: Envelope and closed message, as they came.
Reply = tuple[bytes, bytes]
#: What became of an answer, if nobody refused or rejected it.
ANSWERED, MISSING = "answered", "missing"
#: What comes before the word for what became of an answer of this phase.
_PREFIX = {
    "risk": "", "search": "search ", "model": "model ", "examine": "examination ",
    "again": "second examination ",
}  # fmt: skip


class Inbox:
    """Opens the replies to the questions of one phase after the other.

    Parameters
    ----------
    sources : collection of str
    open_message : function
        Opens a payload under limits, given its envelope, and the digest of the question.
    say : function
        Tells the person beside this site whose answer was not accepted, and why.
    seal : Seal, optional
        Without one, envelopes are believed as they come.
    """

    def __init__(
        self,
        sources: Collection[str],
        open_message: Callable[[Envelope, bytes, str], Message],
        say: Callable[[str], None],
        seal: Seal | None = None,
    ) -> None:
        self._open_message = open_message
        self._say = say
        self._seal = seal
        #: Of the open questions.
        self.phase = "risk"
        self._questions: Mapping[str, Envelope] = {}
        self._known: Mapping[str, Message] = {}
        self._used: set[str] = set()
        #: source -> phase -> what became of its answer
        self._fates: dict[str, dict[str, str]] = {name: {"risk": MISSING} for name in sources}

    @property
    def fates(self) -> dict[str, str]:
        """What became of every source: answered, or what was missing, refused or rejected."""
        return {
            name: "; ".join(_PREFIX[p] + word for p, word in words.items() if word != ANSWERED)
            or ANSWERED
            for name, words in self._fates.items()
        }

    def greeted(self, replies: Mapping[str, Reply], start: Envelope) -> dict[str, str]:
        """The keys that the sources told for a submission; each other source's fate noted.

        Parameters
        ----------
        replies : mapping of str to Reply
        start : Envelope
            The lead's.
        """
        keys = {}
        for name in sorted(self._fates.keys() & replies.keys()):
            try:
                keys[name] = check_greeting(replies[name][0], start, name, self._seal)
            except ProtocolError as error:
                self.reject(name, error)
        return keys

    def expect(
        self, phase: str, questions: Mapping[str, Envelope], known: Mapping[str, Message]
    ) -> None:
        """Go on to `phase`.

        Parameters
        ----------
        phase : {"risk", "search", "model", "examine", "again"}
            Of a search, the next round.
        questions : mapping of str to Envelope
            By source.
        known : mapping of str to Message
            Answers of an earlier submission, by source.
        """
        self.phase, self._questions, self._known = phase, questions, known
        if phase == "search":  # what became of the answers of the round before does not count
            for name in (*questions, *known):
                self._fates[name].pop(phase, None)

    def open(self, replies: Mapping[str, Reply]) -> dict[str, Message]:
        """The answers of this phase, each source's fate noted."""
        came = dict(self._known)
        for name, message in came.items():
            self._note(name, message)
        for name in sorted(self._questions):
            if name not in replies:
                self.miss([name])
                continue
            try:
                message = self._opened(name, *replies[name])
            except ProtocolError as error:
                self.reject(name, error)
            else:
                came[name] = message
                self._note(name, message)
        return came

    def reject(self, name: str, error: FedCSAError) -> None:
        """Take the answer of a source for none.

        Parameters
        ----------
        name : str
        error : FedCSAError
            Why.
        """
        self._fates[name][self.phase] = f"rejected: {error.rule}"
        self._say(f"did not accept the answer of {name}: {error}")

    def without_rejected(self, answers: Mapping[str, Message]) -> dict[str, Message]:
        """The answers of this phase that were not taken for none."""
        return {
            name: message
            for name, message in answers.items()
            if not self._fates[name].get(self.phase, "").startswith("rejected: ")
        }

    @property
    def fates_now(self) -> dict[str, str]:
        """What became of the answers of this phase, by source."""
        words = {name: fates.get(self.phase, "") for name, fates in self._fates.items()}
        return {name: word for name, word in words.items() if word}

    def restore(self, fates: Mapping[str, str]) -> None:
        """Let the fates count with which an earlier submission left this phase."""
        for name, word in fates.items():
            self._fates[name][self.phase] = word

    def miss(self, names: Collection[str]) -> None:
        """Say of sources of which nothing is known that their answer is missing."""
        for name in names:
            self._fates[name].setdefault(self.phase, MISSING)

    def _note(self, name: str, message: Message) -> None:
        """Remember what became of a source that sent this.

        Parameters
        ----------
        name : str
        message : Message
        """
        fate = ANSWERED
        if isinstance(message, Refusal):
            reason = f" ({message.reason})" if message.reason else ""
            fate = WAITING if message.waits else f"refused: {message.rule[:60]}{reason}"
        self._fates[name][self.phase] = fate

    def _opened(self, name: str, wire: bytes, closed: bytes) -> Message:
        """The message in a reply, or a `ProtocolError`.

        Parameters
        ----------
        name : str
            Of the source.
        wire, closed : bytes
            The envelope, and what goes with it.
        """
        envelope, question = Envelope.from_bytes(wire), self._questions[name]
        check_seal(wire, name, self._seal)
        check_reply(envelope, closed, question, self._used)
        self._used.add(question.nonce)
        payload = open_closed(envelope, closed, self._seal)
        return self._open_message(envelope, payload, question.digest)

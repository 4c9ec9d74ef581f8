"""The target's open questions, the answers to them, and what became of every source."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from fedcsa.errors import BindingError, ProtocolError
from fedcsa.messages.codec import decode
from fedcsa.messages.envelope import Envelope, Seal, check_reply, check_seal
from fedcsa.messages.fields import Message
from fedcsa.messages.messages import ExaminationReport, ModelReport, Refusal, RiskReport
from fedcsa.site.rules import rule_of

#: Envelope and payload, as they came.
Reply = tuple[bytes, bytes]
#: Raises a `ProtocolError` unless an honest source could have sent this.
Accept = Callable[[Message], None]
ANSWERED, MISSING = "answered", "missing"
#: What a source answers a phase with, and how that is called when something was wrong with it.
_ANSWERS: Mapping[str, tuple[type[Message], str]] = {
    "risk": (RiskReport, ""),
    "model": (ModelReport, "model "),
    "examine": (ExaminationReport, "examination "),
}


class Inbox:
    """Opens the replies to the questions of one phase after the other.

    Parameters
    ----------
    study : str
        Its name.
    sources : collection of str
    max_bytes : int
        Of a message.
    say : function
        Tells the person beside this site whose answer was not accepted, and why.
    seal : Seal, optional
        Without one, envelopes are believed as they come.
    """

    def __init__(
        self,
        study: str,
        sources: Collection[str],
        max_bytes: int,
        say: Callable[[str], None],
        seal: Seal | None = None,
    ) -> None:
        self._study = study
        self._max_bytes = max_bytes
        self._say = say
        self._seal = seal
        self._phase = "risk"
        self._questions: Mapping[str, Envelope] = {}
        self._used: set[str] = set()
        #: source -> phase -> what became of its answer
        self._fates: dict[str, dict[str, str]] = {name: {"risk": MISSING} for name in sources}

    @property
    def fates(self) -> dict[str, str]:
        """What became of every source: answered, or what was missing, refused or rejected."""
        return {
            name: "; ".join(_ANSWERS[p][1] + word for p, word in words.items() if word != ANSWERED)
            or ANSWERED
            for name, words in self._fates.items()
        }

    def expect(self, phase: str, questions: Mapping[str, Envelope]) -> None:
        """Go on to `phase`.

        Parameters
        ----------
        phase : {"risk", "model", "examine"}
        questions : mapping of str to Envelope
            By source.
        """
        self._phase, self._questions = phase, questions

    def open(self, replies: Mapping[str, Reply], accept: Accept) -> dict[str, Message]:
        """The replies that answer the open questions, each source's fate noted.

        Parameters
        ----------
        replies : mapping of str to Reply
        accept : function
        """
        came: dict[str, Message] = {}
        for name in sorted(self._questions):
            if name not in replies:
                self._fates[name][self._phase] = MISSING
                continue
            try:
                message = self._opened(name, *replies[name])
                accept(message)
            except ProtocolError as error:
                self.reject(name, rule_of(error), str(error))
            else:
                came[name] = message
                self._note(name, message)
        return came

    def reject(self, name: str, rule: str, why: str) -> None:
        """Take the answer of a source for none.

        Parameters
        ----------
        name : str
        rule : str
            The word for what is wrong.
        why : str
            The same as a sentence.
        """
        self._fates[name][self._phase] = f"rejected: {rule}"
        self._say(f"did not accept the answer of {name}: {why}")

    def count_instead(self, stored: Mapping[str, Message]) -> None:
        """Let the answers of an earlier submission count in place of those that came now."""
        for name in self._questions:
            if name in stored:
                self._note(name, stored[name])
            elif self._fates[name][self._phase] == ANSWERED:  # it comes too late
                self._fates[name][self._phase] = MISSING

    def miss(self, names: Collection[str]) -> None:
        """Say of sources of which nothing is known that their answer is missing."""
        for name in names:
            self._fates[name].setdefault(self._phase, MISSING)

    def _note(self, name: str, message: Message) -> None:
        word = f"refused: {message.rule[:60]}" if isinstance(message, Refusal) else ANSWERED
        self._fates[name][self._phase] = word

    def _opened(self, name: str, wire: bytes, payload: bytes) -> Message:
        envelope, question = Envelope.from_bytes(wire), self._questions[name]
        check_seal(wire, name, self._seal)
        check_reply(envelope, payload, question, self._used)
        self._used.add(question.nonce)
        message, kind = decode(payload, self._max_bytes), _ANSWERS[self._phase][0]
        if not isinstance(message, kind | Refusal):
            raise BindingError("phase_order", f"Source {name!r} must answer with a {kind.name}.")
        if message.study != self._study or message.source != name:  # type: ignore[attr-defined]
            raise BindingError("wrong_sender", f"The answer of source {name!r} must be its own.")
        if message.in_reply_to != question.digest:  # type: ignore[attr-defined]
            raise BindingError("replayed", f"Source {name!r} must answer this very question.")
        return message

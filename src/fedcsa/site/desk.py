"""What the desks of a source and of a target share: they bind, budget and write down messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from fedcsa.errors import FedCSAError, PolicyError, ProtocolError
from fedcsa.messages.codec import decode, digest, encode
from fedcsa.messages.envelope import Envelope, Seal, close
from fedcsa.messages.fields import Message
from fedcsa.messages.messages import WAITING, Conclusion
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.log import Allow, Sent, open_log
from fedcsa.site.opening import UNSAFE, opener, unsafe_message
from fedcsa.site.site_file import SiteFile
from fedcsa.site.state import Status

#: What comes to a site or leaves it in one step: bytes by their names, see `Desk.take`.
SiteLetter = dict[str, Any]
#: A site may be stopped by anything while it opens a message; twice at the same one is no chance.
MOST_INTERRUPTED = 2


class Desk(ABC):
    """One site's place in one study, in one submission of it.

    Parameters
    ----------
    name : str
        Of the site, as in its certificate.
    site : SiteFile
    agreed : AgreedStudy
    start : Envelope
        The lead's: which target is asked for the study, and by whom.
    seal : Seal, optional
        Signs for this site and closes what it sends; without one, envelopes are believed as they
        come and messages go as they are.
    """

    def __init__(
        self,
        name: str,
        site: SiteFile,
        agreed: AgreedStudy,
        start: Envelope,
        seal: Seal | None = None,
    ) -> None:
        self.name = name
        self.site = site
        self.agreed = agreed
        self.start = start
        self.seal = seal
        self._log = open_log(site.state_folder)
        self._status = Status(site.state_folder)
        plan = agreed.plan
        self._bounds = site.max_bytes, len(plan.features), len(plan.classes)

    @abstractmethod
    def take(self, step: str, letter: SiteLetter) -> SiteLetter:
        """Take the next step of the study; the letter that leaves then.

        Parameters
        ----------
        step : str
            Of the target, or the phase in which a source answers.
        letter : SiteLetter
            What the coordinator brings.
        """

    def say(self, text: str) -> None:
        """Tell the person beside this site."""
        self._status.say(text, self.agreed.id)

    def of_sender(self, name: str, phase: str) -> dict[str, str]:
        """By which lines on opened messages of a sender are found.

        Parameters
        ----------
        name : str
        phase : str
        """
        return {"id": self.agreed.id, "sender": name, "phase": phase}

    def open_message(self, came: Envelope, payload: bytes, question: str = "") -> Message:
        """Open what came, first in a child process; a `ProtocolError` if it is no message.

        The log says whose message it is before it is opened, and how that ended after. One that
        ended a child is not opened again. Nor is a third one of its sender in a phase, if this
        site was stopped twice while it opened one.

        Parameters
        ----------
        came : Envelope
            Whose sender is known to be true.
        payload : bytes
        question : str
            Digest of this site's own question, if this answers one; then the answer is kept.
        """
        opener().start()  # what this site cannot do is not the sender's doing
        key = self.of_sender(came.sender, came.phase)
        this = {**key, "sha256": digest(payload)}
        self._check_openings(came.sender, key, this["sha256"])
        self._log.append("opening", **this)
        try:
            rule = opener().try_out(payload, *self._bounds)
            if rule:
                raise unsafe_message(rule, came.sender)
            message = decode(payload, self.site.max_bytes)
        except ProtocolError as error:
            self._log.append("opened", **this, message="", rule=error.rule, question=question)
            raise
        if question:
            self._log.keep(payload)
        self._log.append("opened", **this, message=message.name, rule="", question=question)
        return message

    def _check_openings(self, sender: str, key: Mapping[str, str], sha256: str) -> None:
        """Raise an `OpeningError` if this or an earlier message of its sender is too dangerous.

        Parameters
        ----------
        sender : str
        key : mapping
            As `of_sender` gives it.
        sha256 : str
            Of the message.
        """
        before = self._log.all("opened", **key)
        rules = {line["rule"] for line in before if line["sha256"] == sha256}
        if len(self._log.all("opening", **key)) - len(before) >= MOST_INTERRUPTED:
            rules = {"opening_interrupted"}
        for rule in rules & set(UNSAFE):
            raise unsafe_message(rule, sender)

    def claim_once(
        self,
        step: str,
        key: Mapping[str, str],
        told: Mapping[str, Any],
        rule: str,
        why: str,
        allow: Allow = lambda: None,
        **beside: Any,
    ) -> None:
        """Write down what is asked or told once; what was written first stands.

        Parameters
        ----------
        step : str
        key : mapping
            What there is one such line of.
        told : mapping
            What the line must say.
        rule, why : str
            Of the `PolicyError` if a line is there that says something else.
        allow : function, optional
            Raises an error if there is no such line and none may be written; returns what else
            to write.
        **beside
            Written with it, and not compared.
        """
        line = self._log.claim(step, allow, **key, **told, **beside)
        if any(line.get(name) != value for name, value in told.items()):
            raise PolicyError(rule, why)

    def send(self, envelope: Envelope, message: Message, key: str) -> tuple[bytes, bytes]:
        """Write down a message that is about to leave; its signed envelope and its closed bytes.

        Parameters
        ----------
        envelope : Envelope
        message : Message
        key : str
            The recipient's, for which it is closed.
        """
        wire, closed = close(envelope, encode(message), key, self.seal)
        recipient = envelope.recipient
        rules = self.site.policy.rules(message)
        line = self._log.record(
            self.name, message, recipient, envelope_bytes=len(wire), rules=rules
        )
        self._say_sent(line)
        return wire, closed

    def _say_sent(self, line: Sent) -> None:
        """Tell what left; of many answers that the study waits, the first."""
        entry = line.entry
        told = f"{line.numbers} numbers ({entry.message}) to {entry.recipient}"
        if entry.message == Conclusion.name:
            told = f"the answer without the model ({entry.message}), closed, to {entry.recipient}"
        if line.kind != WAITING:
            self.say(f"{line.kind} {told}")
        elif len(self._log.all("sent", sha256=entry.sha256)) == 1:
            self.say(f"told {entry.recipient} that the study waits here, and nothing about rows")


def tell_apart(error: Exception) -> tuple[str, str]:
    """The word for an error that another site may hear, and the text for this one.

    >>> tell_apart(PolicyError("one_brief", "This site answers one brief per study."))
    ('one_brief', 'This site answers one brief per study.')
    >>> tell_apart(ValueError("whose text may quote a cell"))
    ('failed', 'ValueError came inside')
    """
    if isinstance(error, FedCSAError):
        return error.rule, str(error)
    return FedCSAError.rule, f"{type(error).__name__} came inside"

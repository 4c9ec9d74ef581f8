"""What binds a message: the study, the phase, who sends, who receives, a nonce, and its digest.

The target asks and every source replies to exactly that question. A question's nonce is used
once, a reply names the nonce that it answers, and clocks play no part.
"""

from __future__ import annotations

import dataclasses
import json
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from fedcsa.errors import BindingError, MessageError
from fedcsa.messages.codec import digest
from fedcsa.messages.fields import parse_json

#: In the order in which a study goes through them.
PHASES = ("risk", "model", "examine", "again")
#: With the signature and the certificate that it can be checked with.
MAX_ENVELOPE_BYTES = 8192
_MAX_TEXT = 300
_NONCE, _DIGEST = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{64}")


class Seal(Protocol):
    """A site's signature, and its way to check the others'."""

    def sign(self, content: bytes) -> bytes:
        """What proves that `content` comes from this site."""
        ...

    def check(self, content: bytes, proof: bytes, signer: str) -> None:
        """Raise a `BindingError` unless `proof` shows that `content` comes from `signer`."""
        ...


@dataclass(frozen=True)
class Envelope:
    """The outside of one message.

    Attributes
    ----------
    study : str
        Name and digest of the study, as `study_id` writes them.
    phase : {"risk", "model", "examine", "again"}
    sender, recipient : str
        Names of the sites.
    nonce : str
        32 hexadecimal digits that no other message has.
    in_reply_to : str
        The nonce of the question; empty in a question.
    digest : str
        SHA-256 of the payload.
    """

    study: str
    phase: str
    sender: str
    recipient: str
    nonce: str
    in_reply_to: str
    digest: str

    def to_bytes(self) -> bytes:
        """The same envelope always gives the same bytes."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True, separators=(",", ":")).encode()

    def sealed(self, seal: Seal | None) -> bytes:
        """The bytes, and after a line's end the proof of who wrote them, if there is a seal."""
        content = self.to_bytes()
        return content if seal is None else content + b"\n" + seal.sign(content)

    @classmethod
    def from_bytes(cls, wire: bytes) -> Envelope:
        """The envelope in `wire`, or a `MessageError`, whatever the bytes are.

        Who wrote it is for `check_seal` to say.
        """
        if len(wire) > MAX_ENVELOPE_BYTES:
            raise MessageError(
                f"An envelope must have at most {MAX_ENVELOPE_BYTES} bytes; {len(wire)} came."
            )
        try:
            content = parse_json(wire.partition(b"\n")[0])
        except ValueError:
            raise MessageError("An envelope must be well-formed; this one is not.") from None
        names = {item.name for item in dataclasses.fields(cls)}
        if not isinstance(content, dict) or set(content) != names:
            raise MessageError(f"An envelope must have the entries {sorted(names)}, no others.")
        if not all(isinstance(v, str) and len(v) <= _MAX_TEXT for v in content.values()):
            raise MessageError("An envelope must hold short texts only.")
        envelope = cls(**content)
        if not _NONCE.fullmatch(envelope.nonce) or not _DIGEST.fullmatch(envelope.digest):
            raise MessageError("An envelope must have a nonce and a digest in hexadecimal.")
        return envelope


def study_id(name: str, text: str) -> str:
    """Name of a study, with the digest of what was agreed.

    It is long enough that nobody finds two studies of one id, to have one approved and run the
    other.

    >>> study_id("demo", "seed = 1")
    'demo@1d932908a5a1ea70...'
    """
    return f"{name}@{digest(text.encode())[:40]}"


def ask(study: str, phase: str, sender: str, recipient: str, payload: bytes) -> Envelope:
    """The envelope of a question, with a nonce of its own."""
    nonce = secrets.token_hex(16)
    return Envelope(study, phase, sender, recipient, nonce, "", digest(payload))


def reply(question: Envelope, payload: bytes) -> Envelope:
    """The envelope of the answer to `question`."""
    return dataclasses.replace(
        question,
        sender=question.recipient,
        recipient=question.sender,
        nonce=secrets.token_hex(16),
        in_reply_to=question.nonce,
        digest=digest(payload),
    )


def check_seal(wire: bytes, signer: str, seal: Seal | None) -> None:
    """Raise a `BindingError` unless `signer` wrote this envelope; without a seal, believe it."""
    if seal is not None:
        content, _, proof = wire.partition(b"\n")
        seal.check(content, proof, signer)


def check_question(envelope: Envelope, payload: bytes, *, study: str, me: str, target: str) -> None:
    """Raise a `BindingError` unless this is a question of the target to this site.

    Whether it is new, only the log can say: it counts a nonce once.

    Parameters
    ----------
    study : str
        Of the study that is being carried out here.
    me, target : str
        Names of this site and of the target's.
    """
    _check(envelope, payload, study=study, sender=target, recipient=me)
    if envelope.in_reply_to:
        raise BindingError("unasked", "A source must be asked, not answered; a reply came.")


def check_reply(
    envelope: Envelope, payload: bytes, question: Envelope | None, used: Collection[str]
) -> None:
    """Raise a `BindingError` unless this answers `question`, for the first time.

    Parameters
    ----------
    used : collection of str
        Nonces of the questions that have been answered.
    """
    if question is None:
        raise BindingError("unasked", "A reply must answer a question; this source was not asked.")
    _check(
        envelope, payload,
        study=question.study, sender=question.recipient, recipient=question.sender,
    )  # fmt: skip
    if envelope.phase != question.phase:
        raise BindingError("phase_order", f"A reply must be of the phase {question.phase!r}.")
    if envelope.in_reply_to != question.nonce:
        raise BindingError("replayed", "A reply must be to this very question; it is to another.")
    if question.nonce in used:
        raise BindingError("duplicate", "A question must be answered once; it was answered before.")


def _check(envelope: Envelope, payload: bytes, *, study: str, sender: str, recipient: str) -> None:
    for rule, holds, text in (
        ("other_study", envelope.study == study, "A message must be of this study."),
        ("phase_order", envelope.phase in PHASES, f"A message must be of a phase {list(PHASES)}."),
        ("wrong_sender", envelope.sender == sender, f"This message must come from {sender!r}."),
        ("wrong_recipient", envelope.recipient == recipient, f"It must be for {recipient!r}."),
        (
            "digest",
            envelope.digest == digest(payload),
            "It must be as sent; its digest differs.",
        ),
    ):
        if not holds:
            raise BindingError(rule, text)

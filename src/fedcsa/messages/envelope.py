"""What binds a message: the study, the phase, who sends, who receives, and a nonce.

The target asks and every source replies to exactly that question. A question's nonce is used
once, a reply names the nonce that it answers, and clocks play no part.

Between sites a message is closed for its one recipient, and opens only with the envelope that it
was closed for::

    start     lead    ──►  target    the study, and the key for the conclusion; nothing closed
    greet     source  ──►  target    the key for the questions; nothing closed
    risk …    target  ──►  source    a question, closed for that key, and the key for the answer
    risk …    source  ──►  target    the answer, closed for the target's key
    end       target  ──►  lead      the conclusion, closed for the lead's key

Every envelope is signed, so a key is as good as the certificate of the site that wrote it there.
Whoever carries an envelope sees the digest of the closed bytes, never of the message itself: of a
message that can be guessed, such as a refusal or a model request, its own digest would be proof.
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
from fedcsa.messages.codec import PROTOCOL_VERSION, digest
from fedcsa.messages.fields import parse_json

#: In the order in which a study goes through them.
PHASES = ("risk", "search", "model", "examine", "again")
#: Stand for a phase where a lead asks for a study, a source tells its key, the target concludes.
START, GREET, END = "start", "greet", "end"
#: With the signature and the certificate that it can be checked with.
MAX_ENVELOPE_BYTES = 8192
_MAX_TEXT = 300
_NONCE, _DIGEST = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{64}")
_KEY = re.compile("([0-9a-f]{64})?")
#: The digest of an envelope with which nothing goes.
_NOTHING = digest(b"")


class Seal(Protocol):
    """The keys of a site or a lead in one study, and the way to believe the others'."""

    @property
    def key(self) -> str:
        """The public key for which others close what they send here, in hexadecimal."""
        ...

    def sign(self, content: bytes) -> bytes:
        """What proves that `content` comes from this site."""
        ...

    def check(self, content: bytes, proof: bytes, signer: str, role: str = "") -> None:
        """Raise a `BindingError` unless `proof` shows that `content` comes from `signer`.

        Parameters
        ----------
        content, proof : bytes
        signer : str
        role : str
            That the signer's certificate must name; by default any.
        """
        ...

    def close(self, payload: bytes, key: str, bound: bytes) -> bytes:
        """`payload`, to be opened with the private half of `key` and the same `bound` only."""
        ...

    def open(self, closed: bytes, bound: bytes) -> bytes:
        """What was closed for this seal's key, or a `BindingError`."""
        ...


@dataclass(frozen=True)
class Envelope:
    """The outside of one message.

    Attributes
    ----------
    study : str
        Name and digest of the study, as `study_id` writes them.
    phase : {"start", "greet", "risk", "search", "model", "examine", "again", "end"}
    sender, recipient : str
        Names of the sites, or of the lead.
    nonce : str
        32 hexadecimal digits that no other message has.
    in_reply_to : str
        The nonce of the question; empty in a question.
    key : str
        The sender's public key, for which the answer must be closed; empty if there is none.
    digest : str
        SHA-256 of the bytes that go with it, closed as they are.
    """

    study: str
    phase: str
    sender: str
    recipient: str
    nonce: str
    in_reply_to: str = ""
    key: str = ""
    digest: str = _NOTHING

    def to_bytes(self) -> bytes:
        """The same envelope always gives the same bytes."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True, separators=(",", ":")).encode()

    def bound(self) -> bytes:
        """What a closed message opens with: all of the envelope but the digest, and the version."""
        fields = dataclasses.asdict(self)
        del fields["digest"]
        return json.dumps(["fedcsa", PROTOCOL_VERSION, fields], sort_keys=True).encode()

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
        if not _KEY.fullmatch(envelope.key):
            raise MessageError("An envelope must have a key in hexadecimal, or none.")
        return envelope


def study_id(name: str, text: str) -> str:
    """Name of a study, with the digest of what was agreed.

    It is long enough that nobody finds two studies of one id, to have one approved and run the
    other.

    >>> study_id("demo", "seed = 1")
    'demo@1d932908a5a1ea70...'
    """
    return f"{name}@{digest(text.encode())[:40]}"


def ask(study: str, phase: str, sender: str, recipient: str, seal: Seal | None = None) -> Envelope:
    """The envelope of a question, with a nonce of its own and the key for the answer."""
    key = seal.key if seal else ""
    return Envelope(study, phase, sender, recipient, secrets.token_hex(16), key=key)


def reply(question: Envelope, phase: str = "") -> Envelope:
    """The envelope of the answer to `question`, of its phase unless another is given."""
    return Envelope(
        question.study, phase or question.phase, question.recipient, question.sender,
        secrets.token_hex(16), question.nonce,
    )  # fmt: skip


def greeting(start: Envelope, source: str, seal: Seal | None) -> Envelope:
    """The envelope in which a source tells the target its key."""
    envelope = ask(start.study, GREET, source, start.recipient, seal)
    return dataclasses.replace(envelope, in_reply_to=start.nonce)


def close(envelope: Envelope, payload: bytes, key: str, seal: Seal | None) -> tuple[bytes, bytes]:
    """The signed envelope and the closed message; without a seal, the message as it is.

    Parameters
    ----------
    envelope : Envelope
    payload : bytes
        The message.
    key : str
        The recipient's.
    seal : Seal or None
        The sender's.
    """
    closed = seal.close(payload, key, envelope.bound()) if seal else payload
    return dataclasses.replace(envelope, digest=digest(closed)).sealed(seal), closed


def open_closed(envelope: Envelope, closed: bytes, seal: Seal | None) -> bytes:
    """The message that was closed for this envelope; without a seal, the bytes as they are."""
    return seal.open(closed, envelope.bound()) if seal else closed


def check_seal(wire: bytes, signer: str, seal: Seal | None, role: str = "") -> None:
    """Raise a `BindingError` unless `signer` wrote this envelope; without a seal, believe it."""
    if seal is not None:
        content, _, proof = wire.partition(b"\n")
        seal.check(content, proof, signer, role)


def check_start(wire: bytes, study: str, target: str, seal: Seal | None) -> Envelope:
    """The lead's envelope, if a lead of this federation asks this target for this very study."""
    envelope = Envelope.from_bytes(wire)
    check_seal(wire, envelope.sender, seal, "lead")
    if (envelope.phase, envelope.study, envelope.recipient) != (START, study, target):
        raise BindingError("other_study", "The lead has not asked this target for this study.")
    return envelope


def check_greeting(wire: bytes, start: Envelope, source: str, seal: Seal | None) -> str:
    """The key that `source` told for this very submission; a `BindingError` if it is another's."""
    envelope = Envelope.from_bytes(wire)
    check_seal(wire, source, seal)
    told = (envelope.study, envelope.phase, envelope.sender, envelope.recipient)
    if told != (start.study, GREET, source, start.recipient) or not envelope.key:
        raise BindingError("other_study", f"Source {source!r} has not told its key for this study.")
    if envelope.in_reply_to != start.nonce:
        raise BindingError(
            "replayed", f"Source {source!r} has not told its key for this submission."
        )
    return envelope.key


def check_question(envelope: Envelope, closed: bytes, *, study: str, me: str, target: str) -> None:
    """Raise a `BindingError` unless this is a question of the target to this site.

    Whether it is new, only the log can say: it counts a nonce once.

    Parameters
    ----------
    study : str
        Of the study that is being carried out here.
    me, target : str
        Names of this site and of the target's.
    """
    _check(envelope, closed, study=study, sender=target, recipient=me)
    if envelope.in_reply_to:
        raise BindingError("unasked", "A source expects a question, but a reply came.")


def check_reply(
    envelope: Envelope, closed: bytes, question: Envelope | None, used: Collection[str]
) -> None:
    """Raise a `BindingError` unless this answers `question`, for the first time.

    Parameters
    ----------
    used : collection of str
        Nonces of the questions that have been answered.
    """
    if question is None:
        raise BindingError("unasked", "This source was not asked, but a reply came.")
    _check(
        envelope, closed,
        study=question.study, sender=question.recipient, recipient=question.sender,
    )  # fmt: skip
    if envelope.phase != question.phase:
        raise BindingError("phase_order", f"A reply must be of the phase {question.phase!r}.")
    if envelope.in_reply_to != question.nonce:
        raise BindingError("replayed", "This reply answers another question.")
    if question.nonce in used:
        raise BindingError("duplicate", "This question was answered before.")


def _check(envelope: Envelope, closed: bytes, *, study: str, sender: str, recipient: str) -> None:
    for rule, holds, text in (
        ("other_study", envelope.study == study, "A message must be of this study."),
        ("phase_order", envelope.phase in PHASES, f"A message must be of a phase {list(PHASES)}."),
        ("wrong_sender", envelope.sender == sender, f"This message must come from {sender!r}."),
        ("wrong_recipient", envelope.recipient == recipient, f"It must be for {recipient!r}."),
        (
            "digest",
            envelope.digest == digest(closed),
            "It was changed on its way: its digest differs.",
        ),
    ):
        if not holds:
            raise BindingError(rule, text)

"""The answers of a search so far, in a folder: a run that was interrupted goes on with them."""

from __future__ import annotations

from pathlib import Path

from fedcsa.errors import MessageError, ResultError
from fedcsa.messages.codec import decode, digest, digest_of, encode
from fedcsa.messages.fields import Message
from fedcsa.messages.messages import Brief, MoreCandidates, RiskReport
from fedcsa.source.source import Source


class KeptAnswers:
    """A folder with the answers of a search.

    Parameters
    ----------
    folder : Path
        It is made with the first answer.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def answer(self, source: Source, message: Message) -> Message:
        """What a source answers now, or answered before this run was interrupted."""
        if not isinstance(message, Brief | MoreCandidates):
            return source.answer(message)
        known = self.find(source.answer_key(message))
        told = source.name, digest_of(message)
        if isinstance(known, RiskReport) and (known.source, known.in_reply_to) == told:
            source.remember(message, known)
        answer = source.answer(message)
        self.put(source.answer_key(message), answer)
        return answer

    def find(self, key: str) -> Message | None:
        """The answer that was kept under a key, if it is there and whole."""
        try:
            whole, _, payload = (self._folder / f"{key}.fcsa").read_bytes().partition(b"\n")
            return decode(payload) if whole == digest(payload).encode() else None
        except (OSError, MessageError):
            return None

    def put(self, key: str, answer: Message) -> None:
        """Keep an answer; it is there whole or not at all."""
        path = self._folder / f"{key}.fcsa"
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            part = path.with_suffix(".part")
            payload = encode(answer)
            part.write_bytes(digest(payload).encode() + b"\n" + payload)
            part.replace(path)
        except OSError as error:
            raise ResultError(
                f"The folder {str(self._folder)!r} cannot be written ({type(error).__name__}). "
                "Choose another."
            ) from None

"""A site's ledger on disk: append-only, and every line holds the hash of the one before.

::

    ledger.jsonl   {"entry": {…}, "envelope_bytes": 391, "kind": "sent", "previous": …, "hash": …}
    ledger.head    {"hash": …, "lines": 12}

A changed, removed or inserted line breaks the chain; the head tells when lines are missing at
the end.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcsa.errors import LedgerError
from fedcsa.messages.fields import Message
from fedcsa.messages.ledger import Clock, Ledger, LedgerEntry, utc_now
from fedcsa.site.lines import append_line, locked, read_lines, write_whole

LEDGER, HEAD = "ledger.jsonl", "ledger.head"
_START = "0" * 64
_KEYS = {"entry", "envelope_bytes", "hash", "kind", "previous"}


@dataclass(frozen=True)
class ChainedEntry:
    """One line.

    Attributes
    ----------
    entry : LedgerEntry
    kind : {"sent", "resent"}
        What was sent again is the same bytes: it tells nobody anything new.
    envelope_bytes : int
        Of the envelope around the message.
    """

    entry: LedgerEntry
    kind: str
    envelope_bytes: int


class FileLedger:
    """The ledger of a site, in its own folder.

    Parameters
    ----------
    folder : Path
    site : str
    clock : function, optional
    """

    def __init__(self, folder: Path, site: str, clock: Clock = utc_now) -> None:
        self._folder = folder
        self._site = site
        self._clock = clock

    def record(
        self, message: Message, recipient: str, *, envelope_bytes: int, rules: str = ""
    ) -> ChainedEntry:
        """Write down a message that is about to leave; it is on the disk when this returns."""
        entry = Ledger(self._site, self._clock).record(message, recipient, rules)
        content: dict[str, Any] = {
            "entry": json.loads(entry.to_json()),
            "envelope_bytes": envelope_bytes,
        }
        with locked(self._folder):
            lines = [json.loads(line) for line in read_lines(self._folder / LEDGER)]
            known = {(line["entry"]["sha256"], line["entry"]["recipient"]) for line in lines}
            content["kind"] = "resent" if (entry.sha256, recipient) in known else "sent"
            content["previous"] = lines[-1]["hash"] if lines else _START
            content["hash"] = _hash(content)
            append_line(self._folder / LEDGER, _canonical(content))
            head = {"hash": content["hash"], "lines": len(lines) + 1}
            write_whole(self._folder / HEAD, _canonical(head).encode() + b"\n")
        return ChainedEntry(entry, content["kind"], envelope_bytes)

    def digests(self) -> set[str]:
        """SHA-256 of every message that was written down."""
        return {item.entry.sha256 for item in verify(self._folder)}


def verify(folder: Path) -> tuple[ChainedEntry, ...]:
    """The entries of the ledger in `folder`.

    Raises
    ------
    LedgerError
        If a line was changed, added or removed; it says which.
    """
    lines = read_lines(folder / LEDGER)
    hashes, entries = [_START], []
    for number, line in enumerate(lines, 1):
        try:
            content = json.loads(line)
            sound = set(content) == _KEYS and content["hash"] == _hash(content)
            sound = sound and content["previous"] == hashes[-1]
            entry = LedgerEntry.from_json(json.dumps(content["entry"])) if sound else None
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            entry = None
        if entry is None:
            raise LedgerError(
                f"Every line of a ledger must follow from the one before; line {number} of "
                f"{str(folder / LEDGER)!r} does not: it was changed, or lines before it were. "
                "Restore it from a backup, and find out who wrote to it."
            )
        hashes.append(content["hash"])
        entries.append(ChainedEntry(entry, content["kind"], content["envelope_bytes"]))
    _check_head(folder, hashes)
    return tuple(entries)


def _check_head(folder: Path, hashes: list[str]) -> None:
    """A crash may leave the head one line behind, never ahead."""
    try:
        head = json.loads((folder / HEAD).read_text(encoding="utf-8"))
        known, count = head["hash"], head["lines"]
    except FileNotFoundError:
        known, count = _START, 0
    except (OSError, ValueError, LookupError, TypeError):
        known, count = "", -1
    present = len(hashes) - 1
    if count not in (present, present - 1) or hashes[max(count, 0)] != known:
        raise LedgerError(
            f"The ledger in {str(folder)!r} must end as it was written; its last lines were "
            f"changed or removed ({present} are there). Restore it from a backup, and find out who "
            "wrote to it."
        )


def _hash(content: dict[str, Any]) -> str:
    rest = {key: value for key, value in content.items() if key != "hash"}
    return hashlib.sha256(_canonical(rest).encode()).hexdigest()


def _canonical(content: dict[str, Any]) -> str:
    return json.dumps(content, separators=(",", ":"), sort_keys=True)


def to_plain(item: ChainedEntry) -> dict[str, Any]:
    """One line as plain values."""
    return {
        **dataclasses.asdict(item.entry),
        "kind": item.kind,
        "envelope_bytes": item.envelope_bytes,
    }

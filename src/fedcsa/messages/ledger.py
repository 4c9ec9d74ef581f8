"""What left a site: one entry per message, written before the message goes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from fedcsa.errors import MessageError
from fedcsa.messages.codec import digest, encode
from fedcsa.messages.fields import Message, to_json
from fedcsa.messages.policy import AnyMessage, Policy

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class FieldRecord:
    """One field of a message that left: its name, shape, size and hash, never its content."""

    name: str
    shape: tuple[int, ...]
    n_bytes: int
    sha256: str

    @property
    def numbers(self) -> str:
        """How many numbers it holds, for people: ``"3 × 2"``, or ``"1"`` for a single value."""
        return " × ".join(map(str, self.shape)) or "1"


@dataclass(frozen=True)
class LedgerEntry:
    """One message that left `site`; `rules` are those of the site's policy that it passed."""

    site: str
    recipient: str
    message: str
    study: str
    n_bytes: int
    sha256: str
    time: str
    fields: tuple[FieldRecord, ...]
    rules: str = ""

    @property
    def n_numbers(self) -> int:
        """How many array elements and single values the message holds."""
        return sum(int(np.prod(item.shape)) for item in self.fields)

    def to_json(self) -> str:
        """One line of a ledger file."""
        return json.dumps(dataclasses.asdict(self), separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, line: str) -> LedgerEntry:
        """Read one line of a ledger file."""
        try:
            return cls.from_plain(json.loads(line))
        except (ValueError, TypeError, KeyError, RecursionError):
            raise MessageError(
                "A line of this ledger is not as fedcsa wrote it. Restore it from a backup."
            ) from None

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> LedgerEntry:
        """Read the plain values of an entry."""
        fields = [{**item, "shape": tuple(item["shape"])} for item in content["fields"]]
        return cls(**{**content, "fields": tuple(FieldRecord(**item) for item in fields)})


def entries_of(
    message: Message, site: str, recipients: Iterable[str], rules: str = "", clock: Clock = utc_now
) -> list[LedgerEntry]:
    """One entry a recipient for a message that is about to leave `site`.

    Parameters
    ----------
    message : Message
    site : str
        Who sends.
    recipients : iterable of str
    rules : str
        The rules of the site's policy that the message passed.
    clock : function, optional
    """
    wire, fields = encode(message), records_of(message)
    return [
        LedgerEntry(
            site=site,
            recipient=recipient,
            message=message.name,
            study=message.study,
            n_bytes=len(wire),
            sha256=digest(wire),
            time=clock().isoformat(timespec="milliseconds"),
            fields=fields,
            rules=rules,
        )
        for recipient in recipients
    ]


def records_of(message: Message) -> tuple[FieldRecord, ...]:
    """What a ledger tells about every field of a message."""
    records = []
    for name, _, value in message.items():
        if isinstance(value, np.ndarray):
            content, shape = value.tobytes(), value.shape
        else:
            content = to_json(value).encode()
            shape = () if isinstance(value, str) or not hasattr(value, "__len__") else (len(value),)
        records.append(FieldRecord(name, shape, len(content), digest(content)))
    return tuple(records)


@dataclass
class Ledger:
    """The one way out of a role: policy first, then an entry, then the message leaves.

    Attributes
    ----------
    site : str
    policy : Policy
        What may leave, and how it is rounded.
    clock : function
    entries : list of LedgerEntry
        In the order in which messages left.
    """

    site: str
    policy: Policy
    clock: Clock = utc_now
    entries: list[LedgerEntry] = field(default_factory=list)

    def release(self, message: AnyMessage, recipients: Iterable[str]) -> AnyMessage:
        """The message as it may leave for each of `recipients`."""
        allowed = self.policy.release(message)
        rules = self.policy.rules(allowed)
        self.entries += entries_of(allowed, self.site, recipients, rules, self.clock)
        return allowed

"""What the report reads: a result folder, without its models."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedcsa.answer.store import load_ledgers, read_json, restore
from fedcsa.messages.ledger import LedgerEntry
from fedcsa.reconcile import Reconciliation
from fedcsa.target.adaptation import Adaptation

RESULT, FEDERATION, RECONCILIATION = "adaptation.json", "federation.json", "reconciliation.json"
_NAMES = (RESULT, "study.toml", RECONCILIATION)


@dataclass(frozen=True)
class Folder:
    """A result folder's content.

    Attributes
    ----------
    answer : Adaptation or None
        Without models; None if the target keeps it to itself.
    made_with : str
        The version of fedcsa that computed it.
    reconciliation : Reconciliation or None
    federation : mapping
        How a study over a federation went, in the folder of whoever submitted it.
    fates : mapping of str to str
        What became of every source, where sites are apart.
    ledgers : mapping of str to tuple of LedgerEntry
        What left each site, as far as this folder knows.
    hashes : mapping of str to str
        SHA-256 of the files, a ledger's under its site.
    """

    answer: Adaptation | None
    made_with: str = ""
    reconciliation: Reconciliation | None = None
    federation: Mapping[str, Any] = field(default_factory=dict)
    fates: Mapping[str, str] = field(default_factory=dict)
    ledgers: Mapping[str, tuple[LedgerEntry, ...]] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)

    @property
    def adaptation(self) -> Adaptation | None:
        """The answer, if there is a model."""
        a = self.answer
        return None if a is None or a.stopped is not None else a

    @property
    def study(self) -> str:
        """The study's name."""
        if self.answer is not None:
            return self.answer.plan.study
        return str(self.federation.get("study", ""))


def read_folder(folder: Path) -> Folder:
    """Read a result folder, or raise a `ResultError`."""
    if not (folder / RESULT).is_file() and not (folder / FEDERATION).is_file():
        read_json(folder / RESULT)  # says what is missing
    content = _optional(folder / RESULT) or {}
    federation = _optional(folder / FEDERATION) or {}
    fates = federation.get("sources") or _optional(folder / "sources.json") or {}
    told = _optional(folder / RECONCILIATION)
    has_ledgers = bool(content.get("sites")) and (folder / "ledgers").is_dir()
    ledgers = load_ledgers(folder) if has_ledgers else {}
    hashes = {name: _hash(folder / name) for name in _NAMES if (folder / name).is_file()}
    for position, site in enumerate(ledgers):
        hashes[f"ledger of {site}"] = _hash(folder / "ledgers" / f"{position}.jsonl")
    return Folder(
        answer=restore(content, folder) if content else None,
        made_with=str(content.get("fedcsa", "")),
        reconciliation=None if told is None else Reconciliation.from_json(told),
        federation=federation,
        fates={str(name): str(fate) for name, fate in fates.items()},
        ledgers=ledgers,
        hashes=hashes,
    )


def _optional(path: Path) -> dict[str, Any] | None:
    return read_json(path) if path.is_file() else None


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

"""What the report reads: a result folder, without its models."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedcsa.errors import FedCSAError, ResultError
from fedcsa.protocol.ledger import LedgerEntry
from fedcsa.protocol.messages import RiskReport
from fedcsa.result import FORMAT, load_ledgers, read_json
from fedcsa.result_json import findings_to_json, message_from_json
from fedcsa.roles.backtest import Backtest, BacktestRow

RESULT, FEDERATION = "adaptation.json", "federation.json"
_NAMES = (RESULT, "study.toml", "reconciliation.json")


@dataclass(frozen=True)
class Folder:
    """A result folder's content.

    Attributes
    ----------
    content : mapping
        Of ``adaptation.json``, see `view`; empty if the target keeps it to itself.
    reconciliation : mapping or None
    federation : mapping
        How a study over a federation went, in the folder of whoever submitted it.
    fates : mapping of str to str
        What became of every source, where sites are apart.
    ledgers : mapping of str to tuple of LedgerEntry
        What left each site, as far as this folder knows.
    hashes : mapping of str to str
        SHA-256 of the files, a ledger's under its site.
    """

    content: Mapping[str, Any]
    reconciliation: Mapping[str, Any] | None = None
    federation: Mapping[str, Any] = field(default_factory=dict)
    fates: Mapping[str, str] = field(default_factory=dict)
    ledgers: Mapping[str, tuple[LedgerEntry, ...]] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)


def read_folder(folder: Path) -> Folder:
    """Read a result folder, or raise a `ResultError`."""
    if not (folder / RESULT).is_file() and not (folder / FEDERATION).is_file():
        read_json(folder / RESULT)  # says what is missing
    content = read_json(folder / RESULT) if (folder / RESULT).is_file() else {}
    federation = _optional(folder / FEDERATION) or {}
    fates = federation.get("sources") or _optional(folder / "sources.json") or {}
    sites = content.get("sites", ())
    has_ledgers = bool(sites) and (folder / "ledgers").is_dir()
    ledgers = load_ledgers(folder) if has_ledgers else {}
    hashes = {name: _hash(folder / name) for name in _NAMES if (folder / name).is_file()}
    for position, site in enumerate(ledgers):
        hashes[f"ledger of {site}"] = _hash(folder / "ledgers" / f"{position}.jsonl")
    return Folder(
        content=view(content) if content else {},
        reconciliation=_optional(folder / "reconciliation.json"),
        federation=federation,
        fates={str(name): str(fate) for name, fate in fates.items()},
        ledgers=ledgers,
        hashes=hashes,
    )


def view(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of ``adaptation.json`` with what its own classes say of it.

    These are the imbalance of every source, and whether a promise of the back-test was kept, given
    how far chance may have moved its outcome, with a finding for every one that was not.
    """
    if content.get("format") != FORMAT:
        raise ResultError(
            f"A result must be of format {FORMAT}; this is of another. "
            "Read it with the version of fedcsa that wrote it."
        )
    try:
        reports = {name: message_from_json(RiskReport, item) for name, item in content["reports"].items()}
        backtest = content.get("backtest")
        if backtest is not None:
            backtest = _backtest(backtest)
    except (FedCSAError, LookupError, TypeError, ValueError, AttributeError):
        raise ResultError(
            "The result is damaged: its numbers contradict each other. "
            "Run the study again, or restore it from a backup."
        ) from None
    imbalances = {name: report.imbalance for name, report in reports.items()}
    return {**content, "imbalances": imbalances, "backtest": backtest}


def _backtest(content: Mapping[str, Any]) -> dict[str, Any]:
    rows = tuple(BacktestRow(**row) for row in content["rows"])
    found = Backtest(rows, float(content["level"]))
    judged = [
        {**told, "kept": row.kept(found.level), "slack": row.slack(found.level)}
        for told, row in zip(content["rows"], rows, strict=True)
    ]
    findings = findings_to_json(found.findings)
    return {**content, "rows": judged, "sentence": found.sentence, "findings": findings}


def _optional(path: Path) -> dict[str, Any] | None:
    return read_json(path) if path.is_file() else None


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

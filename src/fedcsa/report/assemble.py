"""The page: which sections a result has, in which order."""

from __future__ import annotations

from fedcsa.report import provenance, sections, words
from fedcsa.report.folder import Folder
from fedcsa.report.model import Page
from fedcsa.report.verdict import verdict


def assemble(folder: Folder, version: str) -> Page:
    """The page of a result folder."""
    content = folder.content
    study = words.clean(content.get("study") or folder.federation.get("study", ""))
    shown = []
    if content and "ended" not in content:
        shown += [sections.risk(folder), sections.candidates(content)]
    shown.append(sections.sources(folder))
    if content.get("reports"):
        shown.append(sections.balance(content))
    if content and "ended" not in content:
        shown.append(sections.backtest(content))
    shown += [provenance.ledger(folder), provenance.making(folder, version)]
    return Page(study, _subtitle(folder), verdict(folder), tuple(shown))


def _subtitle(folder: Folder) -> str:
    content = folder.content
    if not content:
        return "A study over a federation"
    target = words.counted(content["n_target_rows"], "row")
    answered = words.counted(len(content["reports"]), "source")
    return f"A target of {target} without outcomes; {answered} with outcomes answered."

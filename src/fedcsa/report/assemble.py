"""The page: which sections a result has, in which order."""

from __future__ import annotations

from fedcsa.report import provenance, sections, words
from fedcsa.report.folder import Folder
from fedcsa.report.model import Page
from fedcsa.report.verdict import findings, verdict


def assemble(folder: Folder, version: str) -> Page:
    """The page of a result folder.

    Parameters
    ----------
    folder : Folder
    version : str
        Of fedcsa.
    """
    answer, a = folder.answer, folder.adaptation
    shown = [sections.sources(folder)]
    if answer is not None and answer.findings:
        shown.append(findings(folder))
    if a is not None and len(a.estimates) > 1:
        shown.append(sections.compared(folder, a))
    if answer is not None and answer.reports:
        shown.append(sections.balance(folder, answer))
    if a is not None:
        shown += [sections.backtest(folder, a), sections.candidates(folder, a)]
    shown += [provenance.ledger(folder), provenance.making(folder, version)]
    return Page(words.clean(folder.study), _subtitle(folder), verdict(folder), tuple(shown))


def _subtitle(folder: Folder) -> str:
    answer = folder.answer
    if answer is None:
        return "A study over a federation"
    target = words.counted(answer.n_target_rows, "row")
    answered = words.counted(len(answer.reports), "source")
    return f"A target of {target} without outcomes; {answered} with outcomes answered."

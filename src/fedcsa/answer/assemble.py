"""The page: which sections a result has, in which order."""

from __future__ import annotations

from dataclasses import replace

from fedcsa import words
from fedcsa.answer import provenance, sections
from fedcsa.answer.first_screen import findings, verdict
from fedcsa.answer.folder import Folder
from fedcsa.answer.page_parts import Page, Section
from fedcsa.answer.sentences import SECTIONS, said


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
        shown.append(sections.compared(a))
    if answer is not None and answer.reports:
        shown.append(sections.balance(answer))
    if a is not None:
        shown += [sections.backtest(a), sections.candidates(a)]
    shown += [provenance.ledger(folder), provenance.making(folder, version)]
    told = tuple(_with_sentences(section, folder) for section in shown)
    return Page(words.printable(folder.study), _subtitle(folder), verdict(folder), told)


def _with_sentences(section: Section, folder: Folder) -> Section:
    if section.name not in SECTIONS:
        return section
    texts = tuple(text for _, text in said(section.name, folder))
    return replace(section, sentences=(*texts, *section.sentences))


def _subtitle(folder: Folder) -> str:
    answer = folder.answer
    if answer is None:
        return "A study over a federation"
    target = words.counted(answer.n_target_rows, "row")
    answered = words.counted(len(answer.reports), "source")
    return f"A target of {target} without outcomes; {answered} with outcomes answered."

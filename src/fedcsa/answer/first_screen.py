"""The first screen, and the findings."""

from __future__ import annotations

from collections.abc import Sequence

from fedcsa import words
from fedcsa.answer.folder import Folder
from fedcsa.answer.page_parts import Reason, Section, Verdict
from fedcsa.answer.sentences import said
from fedcsa.answer.view import about_left_out
from fedcsa.findings import ADVICE, CATALOGUE, Advice, Finding, left_out
from fedcsa.words import number

_ORDER = ("danger", "warning", "note")
#: Places named under one kind of finding.
MOST_PLACES = 6


def verdict(folder: Folder) -> Verdict:
    """What to do with the model, how well it will do, and why."""
    told = said("verdict", folder)
    if folder.answer is None and folder.federation.get("outcome") == "done":
        return Verdict("care", "Ask the target", "?", told)
    a = folder.adaptation
    advice: Advice = "no" if a is None else a.verdict.advice
    if folder.reconciliation is not None:
        advice = folder.reconciliation.verdict.advice
    word, sign = ADVICE[advice]
    measure = " ".join(text for _, text in said("measure", folder))
    return Verdict(advice, word, sign, told, () if a is None else a.verdict.legs, measure)


def findings(folder: Folder) -> Section:
    """Named dangers, gravest first; those about sources that were left out stand apart."""
    found = () if folder.answer is None else folder.answer.findings
    without = left_out({} if folder.adaptation is None else folder.adaptation.source_weights)
    about = [item for item in found if item.source in without and item.severity != "note"]
    return Section(
        "findings",
        "Findings",
        reasons=reasons([item for item in found if item not in about]),
        apart=about_left_out([item.source for item in about]) if about else "",
        reasons_apart=reasons(about),
    )


def reasons(found: Sequence[Finding]) -> tuple[Reason, ...]:
    """The findings by kind, gravest first."""
    kinds: dict[str, list[Finding]] = {}
    for item in found:
        kinds.setdefault(item.code, []).append(item)
    told = [_reason(code, items) for code, items in kinds.items()]
    return tuple(sorted(told, key=lambda reason: _ORDER.index(reason.severity)))


def _reason(code: str, items: Sequence[Finding]) -> Reason:
    shown = tuple(text for text in map(place, items[:MOST_PLACES]) if text)
    severity, meaning, advice = CATALOGUE[code]
    more = max(0, len(items) - MOST_PLACES)
    return Reason(severity, code, words.sentence(meaning), shown, more, words.sentence(advice))


def place(item: Finding) -> str:
    """The source concerned, and the evidence."""
    facts = ", ".join(
        f"{words.printable(key)} {number(value) if isinstance(value, float) else words.printable(value)}"
        for key, value in item.evidence.items()
    )
    return ": ".join(part for part in (words.printable(item.source), facts) if part)

"""The model card and the checklists: filled where the study knows the answer, named where not.

Their items are in ``checklists.csv``: numbers and topics as published, what is asked in our own
words, the function of `fedcsa.answer.checklist_answers` that answers it, what only the authors can
add, and ``D`` if it is about developing a model only. A list does not judge: whoever reports the
study fills in what is left, and appraises it.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from fedcsa.answer import checklist_answers
from fedcsa.answer.result_tables import (
    Table,
    escaped,
    markdown_table,
    measure_table,
    source_table,
)
from fedcsa.answer.templates import page_asset
from fedcsa.words import listed, printable, sentence

if TYPE_CHECKING:
    from fedcsa.answer.view import View

State = Literal["filled", "in part", "blank", "not applicable"]
STATES: tuple[State, ...] = ("filled", "in part", "blank", "not applicable")
_NOT_DEVELOPED = "not applicable: the model was given, nothing was developed here"
_INTRODUCTION = (
    "Made from the result. Item numbers and topics are those of the published lists, the sentences "
    "are ours; read the lists themselves before you report. Only you know what is *blank* or left "
    "to say."
)


@dataclass(frozen=True)
class ChecklistItem:
    """One item of a checklist: a line of ``checklists.csv``."""

    list: str
    number: str
    topic: str
    asks: str
    answer: str
    left: str
    part: str


@dataclass(frozen=True)
class FilledItem:
    """An item, what this study says to it, and how far that goes."""

    item: ChecklistItem
    text: str
    state: State


@dataclass(frozen=True)
class Checklist:
    """A published list of items, and where it was published."""

    name: str
    source: str
    doi: str

    @property
    def items(self) -> tuple[ChecklistItem, ...]:
        """Its items, in their order."""
        return tuple(item for item in _all_items() if item.list == self.name)

    def filled(self, view: View) -> tuple[FilledItem, ...]:
        """Every item with what a result says to it."""
        return tuple(fill(item, view) for item in self.items)


#: The numbers of its items are its sections.
CARD = Checklist(
    "Model card",
    "M. Mitchell and others: Model cards for model reporting. FAT* 2019",
    "10.1145/3287560.3287596",
)

CHECKLISTS = (
    Checklist(
        "TRIPOD+AI",
        "G. S. Collins and others: TRIPOD+AI statement. BMJ 2024;385:e078378 (27 items)",
        "10.1136/bmj-2023-078378",
    ),
    Checklist(
        "TRIPOD-Cluster",
        "T. P. A. Debray and others: TRIPOD-Cluster checklist. BMJ 2023;380:e071018 (19 items)",
        "10.1136/bmj-2022-071018",
    ),
    Checklist(
        "PROBAST+AI",
        "K. G. M. Moons and others: PROBAST+AI. BMJ 2025;388:e082505 (16 questions on "
        "development, D, and 18 on evaluation, E; it is a tool to judge with, and the judgement "
        "is not made here)",
        "10.1136/bmj-2024-082505",
    ),
)


@functools.cache
def _all_items() -> tuple[ChecklistItem, ...]:
    lines = page_asset("fedcsa.answer", "checklists.csv").splitlines()
    return tuple(ChecklistItem(**row) for row in csv.DictReader(lines))


def fill(item: ChecklistItem, view: View) -> FilledItem:
    """What a result says to an item.

    Parameters
    ----------
    item : ChecklistItem
    view : View
    """
    if item.part == "D" and view.is_given:
        return FilledItem(item, sentence(_NOT_DEVELOPED), "not applicable")
    # Where the target keeps its result to itself, nothing is known but the study file.
    known = view.plan is not None or item.answer == "protocol"
    said = getattr(checklist_answers, item.answer)(view) if item.answer and known else None
    if said is None:
        return FilledItem(item, "", "blank")
    return FilledItem(item, printable(sentence(said)), "in part" if item.left else "filled")


def _answer_text(found: FilledItem, blank: str = "To fill in.") -> str:
    """What is said, and what is left to say."""
    if found.state == "blank":
        return blank
    left = found.item.left if found.state == "in part" else ""
    return f"{found.text} Left to say: {left}." if left else found.text


# The checklists -----------------------------------------------------------------------------


def checklist_tables(view: View) -> Iterator[Table]:
    """Every checklist as a table."""
    headings = ("item", "what to report", "what this study says")
    for checklist in CHECKLISTS:
        rows = [
            (f"{f.item.number} {f.item.topic}", f.item.asks, _answer_text(f))
            for f in checklist.filled(view)
        ]
        yield Table(checklist.name, headings, rows, (0, 1, 2), (1, 2), printed=False)


def summary_table(view: View) -> Table:
    """How far every checklist is filled, and where it was published."""
    rows = []
    for checklist in CHECKLISTS:
        states = [f.state for f in checklist.filled(view)]
        rows.append((checklist.name, *(str(states.count(x)) for x in STATES), checklist.doi))
    headings = ("checklist", *STATES, "doi")
    return Table("How far the checklists are filled", headings, rows, (0, 5))


def checklist_lines(view: View) -> Iterator[str]:
    """One line a checklist: how much of it is filled, and what is left."""
    for checklist in CHECKLISTS:
        found = checklist.filled(view)
        states = [f.state for f in found]
        blank = [f"{f.item.number} {f.item.topic}" for f in found if f.state == "blank"]
        left = f" Left to you: {listed(blank, len(found))}." if blank else ""
        done = f"{states.count('filled')} of {len(found)} items are filled"
        yield f"{checklist.name}: {done}, {states.count('in part')} in part.{left}"


def checklists_markdown(view: View) -> str:
    """All checklists in one text."""
    parts = [f"# Checklists of the study {escaped(view.study)}", _INTRODUCTION]
    lines = checklist_lines(view)
    for checklist, line, table in zip(CHECKLISTS, lines, checklist_tables(view), strict=True):
        parts += [
            f"## {checklist.name}",
            f"{checklist.source}, doi {checklist.doi}.",
            escaped(line),
            markdown_table(table),
        ]
    return "\n\n".join(parts) + "\n"


# The model card -----------------------------------------------------------------------------


def card_lines(view: View) -> list[tuple[str, str, str]]:
    """Every line of the card: its section, its topic and what is said; of a blank one the ask."""
    return [
        (f.item.number, f.item.topic, _answer_text(f, f"To fill in: {f.item.asks}."))
        for f in CARD.filled(view)
    ]


def card_table(view: View) -> Table:
    """The card as a table."""
    return Table(CARD.name, ("section", "line", "this study"), card_lines(view), (0, 1, 2), (2,))


def card_markdown(view: View) -> str:
    """The card as a text."""
    parts = [f"# Model card: {escaped(view.study)}"]
    for section, lines in groupby(card_lines(view), key=lambda line: line[0]):
        told = "\n".join(f"- **{topic}.** {escaped(text)}" for _, topic, text in lines)
        parts += [f"## {section}", told]
    if view.measures:
        parts += ["## Every measure", markdown_table(measure_table(view))]
    if view.sources:
        parts += ["## Sources", markdown_table(source_table(view))]
    return "\n\n".join(parts) + "\n"

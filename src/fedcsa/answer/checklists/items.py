"""An item of a checklist: filled where the study knows the answer, named where not.

Numbers and topics of the items are those of the published lists; the sentences are ours. A list
does not judge: whoever reports the study fills in what is left, and appraises it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from fedcsa.answer.checklists import answers as know
from fedcsa.words import listed, printable, sentence

if TYPE_CHECKING:
    from fedcsa.answer.view import View

Answer: TypeAlias = "Callable[[View], str | None]"
State = Literal["filled", "in part", "blank", "not applicable"]
STATES: tuple[State, ...] = ("filled", "in part", "blank", "not applicable")
_NOT_DEVELOPED = "not applicable: the model was given, nothing was developed here"


@dataclass(frozen=True)
class ChecklistItem:
    """One item of a checklist.

    Attributes
    ----------
    number : str
        As in the published list.
    topic : str
    asks : str
        What is to be reported, in our own words.
    answer : function of a View, or None
        A text, or None where this result does not know; no function where none ever does.
    left : str
        What only the authors can add to the answer; ``""`` if nothing.
    part : {"", "D"}
        ``"D"`` if it is about developing a model only.
    """

    number: str
    topic: str
    asks: str
    answer: Answer | None = None
    left: str = ""
    part: Literal["", "D"] = ""


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
    items: tuple[ChecklistItem, ...]

    def filled(self, view: View) -> tuple[FilledItem, ...]:
        """Every item with what a result says to it."""
        return tuple(fill(item, view) for item in self.items)


def fill(item: ChecklistItem, view: View) -> FilledItem:
    """What a result says to an item.

    Parameters
    ----------
    item : ChecklistItem
    view : View
    """
    if item.part == "D" and know.was_given(view):
        return FilledItem(item, sentence(_NOT_DEVELOPED), "not applicable")
    said = item.answer(view) if item.answer is not None else None
    if said is None:
        return FilledItem(item, "", "blank")
    return FilledItem(item, printable(sentence(said)), "in part" if item.left else "filled")


def answer_text(filled: FilledItem) -> str:
    """What is said, and what is left to say."""
    if filled.state == "blank":
        return "To fill in."
    left = filled.item.left if filled.state == "in part" else ""
    return f"{filled.text} Left to say: {left}." if left else filled.text


def summary_line(name: str, filled: Sequence[FilledItem]) -> str:
    """How many items are filled, and which are left.

    Parameters
    ----------
    name : str
        Of the checklist.
    filled : sequence of FilledItem
    """
    many = {state: sum(f.state == state for f in filled) for state in ("filled", "in part")}
    blank = [f"{f.item.number} {f.item.topic}" for f in filled if f.state == "blank"]
    told = f"{name}: {many['filled']} of {len(filled)} items are filled, {many['in part']} in part"
    return f"{told}. Left to you: {listed(blank, len(filled))}." if blank else f"{told}."

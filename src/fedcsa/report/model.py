"""The parts of a page, every value already a text."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """Rows under headings.

    Attributes
    ----------
    text : tuple of int
        Columns that are words; the others are numbers, aligned to the right.
    wrap : tuple of int
        Columns of words that may take several lines.
    tones : tuple of str
        One word a row for the style sheet: "", ``"own"``, ``"far"``; or none at all.
    printed : bool
        Whether it is unfolded on paper; else it is left out there.
    """

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text: tuple[int, ...] = (0,)
    wrap: tuple[int, ...] = ()
    tones: tuple[str, ...] = ()
    printed: bool = True

    @property
    def long(self) -> bool:
        """Whether it is folded away until somebody asks."""
        return len(self.rows) > 20


@dataclass(frozen=True)
class Reason:
    """A kind of finding, where it was found, and what to do about it."""

    severity: str
    code: str
    meaning: str
    places: tuple[str, ...]
    more: int
    advice: str


@dataclass(frozen=True)
class Verdict:
    """The answer in one sentence; `advice` is ``"use"``, ``"care"`` or ``"no"``.

    Findings about sources that were left out stand apart, under a title of their own.
    """

    advice: str
    word: str
    sign: str
    sentence: str
    reasons: tuple[Reason, ...] = ()
    apart: str = ""
    reasons_apart: tuple[Reason, ...] = ()

    @property
    def grave(self) -> tuple[Reason, ...]:
        """Dangers and warnings."""
        return tuple(reason for reason in self.reasons if reason.severity != "note")

    @property
    def notes(self) -> tuple[Reason, ...]:
        """The others."""
        return tuple(reason for reason in self.reasons if reason.severity == "note")


@dataclass(frozen=True)
class Section:
    """A heading, some sentences, a chart, the same as a table, and more tables."""

    name: str
    title: str
    sentences: tuple[str, ...] = ()
    svg: str = ""
    table: Table | None = None
    folded: tuple[Table, ...] = ()
    formulas: tuple[str, ...] = ()


@dataclass(frozen=True)
class Page:
    """The whole report."""

    title: str
    subtitle: str
    verdict: Verdict
    sections: tuple[Section, ...] = field(default_factory=tuple)

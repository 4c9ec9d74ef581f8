"""The parts of a page, every value already a text."""

from __future__ import annotations

from dataclasses import dataclass

from fedcsa.target.promise import Leg


@dataclass(frozen=True)
class Table:
    """Rows under headings.

    Attributes
    ----------
    caption : str
    headings : tuple of str
    rows : tuple of tuple of str
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
    """The first screen: whether to use it, how well it will do, and why.

    Attributes
    ----------
    advice : {"use", "care", "no"}
        For the style sheet.
    word, sign : str
    sentences : tuple of (str, str)
        Each with its name, for the style sheet; the first says most.
    legs : tuple of Leg
    measure : str
        What the risk is.
    """

    advice: str
    word: str
    sign: str
    sentences: tuple[tuple[str, str], ...]
    legs: tuple[Leg, ...] = ()
    measure: str = ""


@dataclass(frozen=True)
class Section:
    """A heading, some sentences, a chart, the same as a table, and more tables.

    Attributes
    ----------
    name, title : str
    sentences : tuple of str
    svg : str
    table : Table or None
    folded : tuple of Table
    formulas : tuple of str
    reasons : tuple of Reason
    apart : str
        Title of findings about sources that were left out.
    reasons_apart : tuple of Reason
    """

    name: str
    title: str
    sentences: tuple[str, ...] = ()
    svg: str = ""
    table: Table | None = None
    folded: tuple[Table, ...] = ()
    formulas: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()
    apart: str = ""
    reasons_apart: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class Page:
    """The whole report."""

    title: str
    subtitle: str
    verdict: Verdict
    sections: tuple[Section, ...] = ()

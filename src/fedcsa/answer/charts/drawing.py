"""A chart as plain values: panels, their axes, and marks that can say a number.

Nothing is drawn here. `fedcsa.answer.svg` writes a chart into the page, and
`fedcsa.answer.charts.figure` draws the same one with matplotlib, for a notebook.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from fedcsa.answer.charts.axis import Axis
from fedcsa.words import LONGEST

#: In a report each of these is a variable of the page, so that they follow light and dark.
INK, MUTED, FAINT, ACCENT, DANGER = "#1f2430", "#626a77", "#d4d8de", "#1f5fa6", "#b3261e"
#: In points, of which an inch has 72: of a chart, and of one that a phone shows without scrolling.
WIDTH, SMALL_WIDTH = 475.0, 274.0
#: Of names and numbers; of words inside a panel and below it.
FONT, SMALL_FONT = 9.0, 8.5
#: Of the words at the edge of a grid: clear of the ring around the chosen candidate.
RISE = 14.0
#: Dash and gap, in widths of the line.
DASHED, DOTTED = (3.7, 1.6), (1.0, 1.65)
#: Around the chosen candidate.
RING: Any = {"size": 9.0, "hollow": 2.0, "colour": INK}


@dataclass(frozen=True)
class Rule:
    """A straight line through a whole panel, below everything else.

    Attributes
    ----------
    at : float
    across : bool
        From left to right; otherwise from the bottom to the top.
    colour : str
    width : float
        In points.
    dash : tuple of float
    label : str
        In the legend.
    """

    at: float
    across: bool = False
    colour: str = MUTED
    width: float = 0.8
    dash: tuple[float, ...] = ()
    label: str = ""


@dataclass(frozen=True)
class Band:
    """The area between two lines."""

    xs: Sequence[float]
    lower: Sequence[float]
    upper: Sequence[float]
    colour: str = ACCENT
    opacity: float = 0.15


@dataclass(frozen=True)
class Stroke:
    """A line through points, cut at the edges of its panel."""

    xs: Sequence[float]
    ys: Sequence[float]
    colour: str = ACCENT
    width: float = 1.3
    dash: tuple[float, ...] = ()
    opacity: float = 1.0
    label: str = ""


@dataclass(frozen=True)
class Bar:
    """A bar from zero; it says `text` when it is pointed at."""

    x: float
    width: float
    height: float
    colour: str
    text: str


@dataclass(frozen=True)
class Dot:
    """One mark; it says `text`, if it has one, when it is pointed at.

    Attributes
    ----------
    x, y : float
    text : str
    shape : {"o", "s", "D", "<", ">"}
        A circle, a square, a diamond, an arrow.
    size : float
        Across, in points.
    colour : str
    hollow : float
        Width of the ring, if it is one.
    opacity : float
        0: it shows only when it is pointed at.
    """

    x: float
    y: float
    text: str = ""
    shape: Literal["o", "s", "D", "<", ">"] = "o"
    size: float = 5.5
    colour: str = ACCENT
    hollow: float = 0.0
    opacity: float = 1.0


@dataclass(frozen=True)
class Note:
    """Words in a panel.

    Attributes
    ----------
    words : str
    x, y : float
        A value of its axis, or with `inside` a share of the panel.
    inside : tuple of bool
        For either axis.
    anchor : {"start", "middle", "end"}
        Which end of the words stands there.
    rise : float
        How far above it, in points.
    colour : str
    text : str
        What it says when it is pointed at, if anything.
    """

    words: str
    x: float
    y: float
    inside: tuple[bool, bool] = (False, False)
    anchor: Literal["start", "middle", "end"] = "start"
    rise: float = 0.0
    colour: str = DANGER
    text: str = ""


Mark = Rule | Band | Stroke | Bar | Dot | Note


@dataclass
class Panel:
    """Two axes and what lies between them.

    Attributes
    ----------
    x, y : Axis
    title : str
    rules : list of Rule
    marks : list of Mark
        In the order in which they are drawn.
    """

    x: Axis
    y: Axis
    title: str = ""
    rules: list[Rule] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def rule(self, at: float, *, across: bool = False, **look: Any) -> None:
        """A straight line through the whole panel, which it must show."""
        self.rules.append(Rule(at, across, **look))
        (self.y if across else self.x).show(at)

    def band(
        self, xs: Sequence[float], lower: Sequence[float], upper: Sequence[float], **look: Any
    ) -> None:
        """The area between two lines."""
        self.marks.append(Band(xs, lower, upper, **look))
        self.x.show(*xs)
        self.y.show(*lower, *upper)

    def line(self, xs: Sequence[float], ys: Sequence[float], **look: Any) -> None:
        """A line through points."""
        self.marks.append(Stroke(xs, ys, **look))
        self.x.show(*xs)
        self.y.show(*ys)

    def bar(self, x: float, width: float, height: float, colour: str, text: str) -> None:
        """A bar from zero."""
        self.marks.append(Bar(x, width, height, colour, text))
        self.x.show(x, x + width)
        self.y.show(0.0, height)

    def dot(self, x: float, y: float, text: str = "", **look: Any) -> None:
        """One mark."""
        self.marks.append(Dot(x, y, text, **look))
        self.x.show(x)
        self.y.show(y)

    def note(self, words: str, x: float, y: float, **look: Any) -> None:
        """Words, for which no axis makes room."""
        self.marks.append(Note(words, x, y, **look))

    def say(self, y: float, text: str) -> None:
        """Words in place of a mark, at the left end of a line."""
        why = text.rpartition(": ")[2]
        why = why if len(why) <= LONGEST else "not known"
        self.note(why, 0.02, y, inside=(True, False), text=text)

    @property
    def legend(self) -> list[Rule | Stroke]:
        """The lines that have a name."""
        return [x for x in (*self.marks, *self.rules) if isinstance(x, Rule | Stroke) and x.label]


@dataclass
class Chart:
    """Panels in rows, and what they show in one sentence.

    Attributes
    ----------
    label : str
        For those who do not see it.
    height : float
        In points; see `height_of`.
    columns : int
        Panels in a row; they share the vertical axis.
    panels : list of Panel
    small : bool, default False
        As wide as a phone.
    heights : tuple of float
        Of the rows of panels, relative to each other; by default they are alike.
    below : str
        Words under all panels.
    """

    label: str
    height: float
    columns: int = 1
    panels: list[Panel] = field(default_factory=list)
    small: bool = False
    heights: tuple[float, ...] = ()
    below: str = ""

    @property
    def rows(self) -> list[list[Panel]]:
        """The panels, row by row."""
        step = self.columns
        return [self.panels[i : i + step] for i in range(0, len(self.panels), step)]

    def add(self, title: str = "") -> Panel:
        """One more panel; along a row all have the first one's vertical axis."""
        first = len(self.panels) % self.columns == 0
        # Labels of an axis stand clear of each other if there are at most so many.
        x = Axis(most=(5 if self.small else 9) // self.columns + (self.columns > 1))
        y = Axis(most=8) if first else self.panels[-1].y
        self.panels.append(Panel(x, y, title))
        return self.panels[-1]

    @staticmethod
    def height_of(n_lines: int, around: float = 54.0) -> float:
        """Points for so many lines of names, and `around` them."""
        return around + 19.5 * max(n_lines, 1)


def names_down(axis: Axis, tones: Sequence[tuple[str, str]]) -> None:
    """Names on a vertical axis, the first on top, each with its colour."""
    axis.names = tuple(tones)
    axis.low, axis.high = len(tones) - 0.4, -0.6


def risk_axis(axis: Axis) -> None:
    """For risks: logarithmic where those that are shown span more than a plain axis tells."""
    low, high = min(axis.values, default=0.0), max(axis.values, default=0.0)
    if 1e-100 < 20.0 * low < high < 1e100:  # beyond, a logarithmic axis overflows
        axis.scale = "log"
    else:
        axis.low = min(0.0, low)
    axis.grid = True

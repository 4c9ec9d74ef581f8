"""What all charts share: colours, a figure without global state, marks that can say a number."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from fedcsa.words import LONGEST

#: In a report each of these is a variable of the page, so that they follow light and dark.
INK, MUTED, FAINT, ACCENT, DANGER = "#1f2430", "#626a77", "#d4d8de", "#1f5fa6", "#b3261e"
#: In inches: of a chart, and of one that a phone shows without scrolling.
WIDTH, SMALL_WIDTH = 6.6, 3.8
STYLE: Any = {
    "font.size": 9.0,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": MUTED,
    "axes.titlesize": 9.0,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.linewidth": 0.8,
    "axes.unicode_minus": True,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": INK,
    "xtick.major.size": 3.0,
    "ytick.major.size": 0.0,
    "xtick.minor.size": 0.0,
    "text.color": INK,
    "text.parse_math": False,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.labelcolor": MUTED,
    "svg.fonttype": "none",
    "svg.hashsalt": "fedcsa",
}
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


class Chart:
    """A figure, what it shows in one sentence, and a text for every mark.

    Parameters
    ----------
    label : str
        For those who do not see it.
    height : float
        In inches; see `height_of`.
    rows, columns : int
        Of panels; they share the vertical axis along a row.
    heights : sequence of float, optional
        Of the rows of panels, relative to each other.
    small : bool, default False
        As wide as a phone.
    axes : Axes, optional
        To draw in, instead of a figure of its own; then there is one panel.
    """

    def __init__(
        self,
        label: str,
        height: float,
        rows: int = 1,
        columns: int = 1,
        *,
        heights: Sequence[float] | None = None,
        small: bool = False,
        axes: Axes | None = None,
    ) -> None:
        self.label, self.small = label, small
        self.titles: dict[str, str] = {}
        self.panels: list[Axes] = [] if axes is None else [axes]
        if axes is None:
            size = (SMALL_WIDTH if small else WIDTH, height)
            self.figure: Any = Figure(figsize=size, layout="constrained")
            grid = self.figure.subplots(
                rows, columns, squeeze=False, sharey="row", height_ratios=heights
            )
            self.panels += list(grid.ravel())
        else:
            self.figure = axes.figure

    @staticmethod
    def height_of(n_lines: int, around: float = 0.75) -> float:
        """Inches for so many lines of names, and `around` them."""
        return around + 0.27 * max(n_lines, 1)

    def mark(self, artist: Artist, text: str) -> None:
        """Let `artist` say `text` when it is pointed at."""
        gid = f"mark-{len(self.titles)}"
        artist.set_gid(gid)
        self.titles[gid] = text

    def dot(self, axes: Axes, x: float, y: float, text: str, **look: Any) -> None:
        """One mark."""
        options = {"marker": "o", "markersize": 5.5, "color": ACCENT, "zorder": 3.0, **look}
        [line] = axes.plot([x], [y], linestyle="none", clip_on=False, **options)
        self.mark(line, text)

    def say(self, axes: Axes, y: float, text: str) -> None:
        """Words in place of a mark, at the left end of a line."""
        why = text.rpartition(": ")[2]
        why = why if len(why) <= LONGEST else "not known"
        told = axes.annotate(
            why, (0.02, y), xycoords=("axes fraction", "data"),
            va="center", color=DANGER, fontsize=8.5,
        )  # fmt: skip
        self.mark(told, text)

    @staticmethod
    def names_down(axes: Axes, tones: Sequence[tuple[str, str]]) -> None:
        """Names on the vertical axis, the first on top, each with its colour."""
        axes.set_yticks(range(len(tones)), [name for name, _ in tones])
        axes.set_ylim(len(tones) - 0.4, -0.6)
        for text, (_, tone) in zip(axes.get_yticklabels(), tones, strict=True):
            text.set_color(tone)

    @staticmethod
    def risk_axis(axes: Axes, values: Sequence[float]) -> None:
        """A horizontal axis for risks: logarithmic where they span more than a plain one shows."""
        low, high = min(values, default=0.0), max(values, default=0.0)
        if 1e-100 < 20.0 * low < high < 1e100:  # beyond, a logarithmic axis overflows
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(10.0, (1.0, 3.0)))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.xaxis.set_minor_locator(NullLocator())
        else:
            axes.set_xlim(left=min([0.0, *values]))
        axes.grid(axis="x", color=FAINT, linewidth=0.5)


def svg(figure: Figure, *, transparent: bool = True) -> str:
    """The drawing as text, the same at any time."""
    buffer = io.StringIO()
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the reader's font has it
        figure.savefig(buffer, format="svg", metadata=_NO_METADATA, transparent=transparent)
    return buffer.getvalue()

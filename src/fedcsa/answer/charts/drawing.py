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

#: In a report each of these is a variable of the page, so that they follow light and dark.
INK, MUTED, FAINT, ACCENT, DANGER = "#1f2430", "#626a77", "#d4d8de", "#1f5fa6", "#b3261e"
WIDTH = 6.6
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


class Drawing(Figure):
    """A figure that a notebook shows without pyplot."""

    def _repr_svg_(self) -> str:
        return svg(self, transparent=False)  # a dark notebook would swallow the ink


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
    widths : sequence of float, optional
        Of the columns, beside each other.
    """

    def __init__(
        self,
        label: str,
        height: float,
        rows: int = 1,
        columns: int = 1,
        widths: Sequence[float] | None = None,
    ) -> None:
        self.label = label
        self.titles: dict[str, str] = {}
        self.figure = Drawing(figsize=(WIDTH, height), layout="constrained")
        grid = self.figure.subplots(rows, columns, squeeze=False, sharey="row", width_ratios=widths)
        self.panels: list[Axes] = list(grid.ravel())

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

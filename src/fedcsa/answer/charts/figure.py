"""A chart drawn with matplotlib, for a notebook or a figure of one's own."""

from __future__ import annotations

import io
import warnings
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedcsa.answer.charts.axis import Axis
from fedcsa.answer.charts.drawing import (
    FAINT,
    FONT,
    INK,
    MUTED,
    SMALL_FONT,
    SMALL_WIDTH,
    WIDTH,
    Band,
    Bar,
    Chart,
    Dot,
    Note,
    Panel,
    Rule,
    Stroke,
)

STYLE: Any = {
    "font.size": FONT,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": MUTED,
    "axes.titlesize": FONT,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.linewidth": 0.8,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.major.size": 3.0,
    "ytick.major.size": 0.0,
    "xtick.minor.size": 0.0,
    "text.color": INK,
    "text.parse_math": False,
    "legend.frameon": False,
    "legend.fontsize": SMALL_FONT,
    "legend.labelcolor": MUTED,
    "svg.fonttype": "none",
    "svg.hashsalt": "fedcsa",
}
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_ANCHORS = {"start": "left", "middle": "center", "end": "right"}


@mpl.rc_context(STYLE)
def figure_of(chart: Chart, axes: Axes | None = None) -> tuple[Any, tuple[Axes, ...]]:
    """A figure, and its panels.

    Parameters
    ----------
    chart : Chart
    axes : Axes, optional
        To draw the chart's one panel in, instead of a figure of its own.
    """
    if axes is not None:
        _draw(chart.panels[0], axes, first=True)
        return axes.figure, (axes,)
    width = SMALL_WIDTH if chart.small else WIDTH
    figure = Figure(figsize=(width / 72.0, chart.height / 72.0), layout="constrained")
    ratios = chart.heights or None
    grid = figure.subplots(
        len(chart.rows), chart.columns, squeeze=False, sharey="row", height_ratios=ratios
    )
    found = tuple(grid.ravel())
    for number, (panel, place) in enumerate(zip(chart.panels, found, strict=False)):
        _draw(panel, place, first=number % chart.columns == 0)
    for place in found[len(chart.panels) :]:
        place.set_visible(False)
    if chart.below:
        figure.supxlabel(chart.below, fontsize=SMALL_FONT, color=MUTED)
    return figure, found[: len(chart.panels)]


def svg(figure: Figure) -> str:
    """The drawing as text, the same at any time."""
    buffer = io.StringIO()
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the reader's font has it
        # Not transparent: a dark notebook would swallow the ink.
        figure.savefig(buffer, format="svg", metadata=_NO_METADATA)
    return buffer.getvalue()


def _draw(panel: Panel, axes: Axes, *, first: bool) -> None:
    for rule in panel.rules:
        straight = axes.axhline if rule.across else axes.axvline
        straight(rule.at, zorder=0.5, **_look(rule))
    for mark in panel.marks:
        if isinstance(mark, Band):
            axes.fill_between(
                mark.xs, mark.lower, mark.upper, color=mark.colour, alpha=mark.opacity,
                linewidth=0.0,
            )  # fmt: skip
        elif isinstance(mark, Stroke):
            axes.plot(mark.xs, mark.ys, alpha=mark.opacity, **_look(mark))
        elif isinstance(mark, Bar):
            axes.bar([mark.x], [mark.height], mark.width, align="edge", color=mark.colour)
        elif isinstance(mark, Dot):
            ring: Any = {"markerfacecolor": "none", "markeredgewidth": mark.hollow}
            axes.plot(
                [mark.x], [mark.y], linestyle="none", marker=mark.shape, markersize=mark.size,
                color=mark.colour, alpha=mark.opacity, clip_on=False, zorder=3.0,
                **(ring if mark.hollow else {}),
            )  # fmt: skip
        elif isinstance(mark, Note):
            _note(mark, axes)
    axes.set_title(panel.title, loc="left")
    _axis(panel.x, axes, "x")
    _axis(panel.y, axes, "y", labelled=first)
    if panel.legend:
        axes.legend(loc="best")


def _look(line: Stroke | Rule) -> dict[str, Any]:
    dash = (0, line.dash) if line.dash else "-"
    label = {"label": line.label} if line.label else {}
    return {"color": line.colour, "linewidth": line.width, "linestyle": dash, **label}


def _note(note: Note, axes: Axes) -> None:
    inside_x, inside_y = ("axes fraction" if inside else "data" for inside in note.inside)
    corner = "top" if note.y > 0.5 else "bottom"
    axes.annotate(
        note.words, (note.x, note.y), xycoords=(inside_x, inside_y), xytext=(0.0, note.rise),
        textcoords="offset points", color=note.colour, fontsize=SMALL_FONT,
        ha=_ANCHORS[note.anchor], annotation_clip=False,
        va=corner if note.inside[1] else "bottom" if note.rise else "center",
    )  # fmt: skip


def _axis(axis: Axis, axes: Axes, name: Literal["x", "y"], *, labelled: bool = True) -> None:
    """The chart's own ends and numbers: the page has the same."""
    if axis.scale == "symlog":
        getattr(axes, f"set_{name}scale")("symlog", linthresh=axis.threshold, linscale=0.5)
    else:
        getattr(axes, f"set_{name}scale")(axis.scale)
    ticks = axis.ticks()
    getattr(axes, f"set_{name}ticks")([at for at, _ in ticks], [text for _, text in ticks])
    getattr(axes, f"set_{name}ticks")([], minor=True)
    getattr(axes, f"set_{name}lim")(*axis.ends)
    getattr(axes, f"set_{name}label")(axis.label if labelled else "")
    if axis.grid:
        axes.grid(axis=name, color=FAINT, linewidth=0.5)
    if axis.names and labelled:
        for text, (_, tone) in zip(axes.get_yticklabels(), axis.names, strict=True):
            text.set_color(tone)

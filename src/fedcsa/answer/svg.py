"""A chart as part of the page: colours that follow it, marks that can be read and reached."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from typing import Any, NamedTuple

from fedcsa.answer.charts.drawing import (
    ACCENT,
    DANGER,
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

_COLOURS = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    FAINT: "var(--faint)",
    ACCENT: "var(--accent)",
    DANGER: "var(--danger)",
}
#: In points: above a panel, or with a title; below it; of a label; between two; at the right.
_TOP, _TITLE, _BOTTOM, _LABEL, _BETWEEN, _RIGHT = 5.0, 16.0, 17.0, 13.0, 20.0, 12.0
#: Of the short line before a name in the legend, and of a line of names.
_SAMPLE, _LEGEND_LINE = 20.0, 13.0
#: From the middle of a letter down to the line it stands on, in sizes of the font.
_HALF_LETTER = 0.35
#: In sizes of a font that is rather wide: the reader's own is not known.
_NARROW, _USUAL, _WIDE, _FULL = 0.36, 0.62, 0.95, 1.1
#: A shape around (0, 0), one point to either side.
_SHAPES = {
    "s": "M-1-1H1V1H-1Z",
    "D": "M0-1.41L1.41 0L0 1.41L-1.41 0Z",
    "<": "M-1 0L1-1V1Z",
    ">": "M1 0L-1-1V1Z",
}


class Box(NamedTuple):
    """Where a panel lies, in points from the upper left corner."""

    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True)
class _Pen:
    """Where the values of a panel lie on the page, and what its marks are called."""

    box: Box
    across: Callable[[float], float]
    down: Callable[[float], float]
    names: Iterator[str]

    def x(self, value: float) -> float:
        return self.box.left + self.box.width * self.across(value)

    def y(self, value: float) -> float:
        return self.box.top + self.box.height * (1.0 - self.down(value))

    def points(self, xs: Sequence[float], ys: Sequence[float]) -> str:
        pairs = zip(map(self.x, xs), map(self.y, ys), strict=True)
        return " ".join(f"{x:.2f},{y:.2f}" for x, y in pairs)


def inline(chart: Chart, prefix: str) -> str:
    """The chart as an element of the page, its names starting with `prefix`."""
    width = SMALL_WIDTH if chart.small else WIDTH
    marks = (f"{prefix}-mark-{number}" for number in count())
    kind = "chart small" if chart.small else "chart"
    size = f'viewBox="0 0 {width:g} {chart.height:g}"'
    said = f'class="{kind}" role="group" aria-label="{escape(chart.label)}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {said}>']
    for number, (panel, box, first) in enumerate(_placed(chart, width)):
        parts += _panel(panel, box, marks, f"{prefix}-panel-{number}", first=first)
    if chart.below:
        middle = chart.height - 4.0
        parts.append(_text(chart.below, width / 2.0, middle, MUTED, "middle", SMALL_FONT))
    return "".join([*parts, "</svg>"])


# Where everything lies ----------------------------------------------------------------------


def _placed(chart: Chart, width: float) -> Iterator[tuple[Panel, Box, bool]]:
    """Every panel, where it lies, and whether it is the first of its row."""
    rows = chart.rows
    left = max(_left(row[0]) for row in rows)
    across = (width - left - _RIGHT - (chart.columns - 1) * _BETWEEN) / chart.columns
    above = [max(_above(panel, across) for panel in row) for row in rows]
    under = [max(_under(panel) for panel in row) for row in rows]
    free = chart.height - sum(above) - sum(under) - (_LABEL if chart.below else 0.0)
    shares = chart.heights or (1.0,) * len(rows)
    top = 0.0
    for row, over, below, share in zip(rows, above, under, shares, strict=True):
        height = free * share / sum(shares)
        for column, panel in enumerate(row):
            x = left + column * (across + _BETWEEN)
            yield panel, Box(x, top + over, across, height), column == 0
        top += over + height + below


def _left(panel: Panel) -> float:
    """Room for what stands before a panel."""
    texts = max((_width(text) for _, text in panel.y.ticks()), default=0.0)
    return 8.0 + texts + (_LABEL if panel.y.label else 0.0)


def _above(panel: Panel, width: float) -> float:
    lines = len(_legend_lines(panel, width))
    return (_TITLE if panel.title else _TOP) + _LEGEND_LINE * lines


def _under(panel: Panel) -> float:
    return (_TOP if panel.x.bare else _BOTTOM) + (_LABEL if panel.x.label else 0.0)


def _width(text: str, size: float = FONT) -> float:
    """About how long a text is; every reader has another font."""

    def of(letter: str) -> float:
        if unicodedata.east_asian_width(letter) in "WF":
            return _FULL
        if letter in "ijltfrI.,:;|!'()[] ":
            return _NARROW
        return _WIDE if letter in "mwMW@%<>+=" else _USUAL

    return size * sum(map(of, text))


def _legend_lines(panel: Panel, width: float) -> list[list[tuple[float, Rule | Stroke]]]:
    """The names above a panel, line by line, each with where it begins."""
    lines: list[list[tuple[float, Rule | Stroke]]] = []
    x = width
    for item in panel.legend:
        takes = _SAMPLE + 4.0 + _width(item.label, SMALL_FONT)
        if x + takes > width:
            lines.append([])
            x = 0.0
        lines[-1].append((x, item))
        x += takes + 14.0
    return lines


# What is drawn ------------------------------------------------------------------------------


def _panel(
    panel: Panel, box: Box, names: Iterator[str], name: str, *, first: bool
) -> Iterator[str]:
    pen = _Pen(box, panel.x.placing(), panel.y.placing(), names)
    yield from _axes(panel, pen, first=first)
    if panel.title:
        yield _text(panel.title, box.left, box.top - 5.0, INK)
    yield from _legend(panel, box)
    yield (
        f'<clipPath id="{name}"><rect x="{box.left:.2f}" y="{box.top:.2f}" '
        f'width="{box.width:.2f}" height="{box.height:.2f}"/></clipPath>'
    )
    yield f'<g clip-path="url(#{name})">'
    yield from (_rule(rule, pen) for rule in panel.rules)
    for kind, draw in _DRAWN.items():
        if kind is Dot:  # at the edge it is whole; words too
            yield "</g>"
        yield from (draw(mark, pen) for mark in panel.marks if isinstance(mark, kind))


def _legend(panel: Panel, box: Box) -> Iterator[str]:
    """The names of lines, above the panel."""
    for number, items in enumerate(reversed(_legend_lines(panel, box.width))):
        y = box.top - (_TITLE if panel.title else _TOP) - number * _LEGEND_LINE
        below = y + _HALF_LETTER * SMALL_FONT
        for start, item in items:
            x = box.left + start
            yield _path(f"M{x:.2f} {y:.2f}h{_SAMPLE:g}", item.colour, item.width, item.dash)
            yield _text(item.label, x + _SAMPLE + 4.0, below, MUTED, size=SMALL_FONT)


def _axes(panel: Panel, pen: _Pen, *, first: bool) -> Iterator[str]:
    """The grid, the numbers, and what is counted."""
    box, across, down = pen.box, panel.x.ticks(), panel.y.ticks()
    bottom, right = box.top + box.height, box.left + box.width
    if panel.x.grid:
        for value, _ in across:
            yield _path(f"M{pen.x(value):.2f} {bottom:.2f}V{box.top:.2f}", FAINT, 0.5)
    if panel.y.grid:
        for value, _ in down:
            yield _path(f"M{box.left:.2f} {pen.y(value):.2f}H{right:.2f}", FAINT, 0.5)
    yield _path(f"M{box.left:.2f} {bottom:.2f}H{right:.2f}", FAINT, 0.8)
    for value, text in across:
        x = pen.x(value)
        yield _path(f"M{x:.2f} {bottom:.2f}v3", FAINT, 0.8)
        yield _text(text, x, bottom + 13.0, MUTED, "middle")
    under = bottom + (_TOP if panel.x.bare else _BOTTOM)
    if panel.x.label:
        yield _text(panel.x.label, box.left + box.width / 2.0, under + 8.5, MUTED, "middle")
    if not first:
        return
    tones = [tone for _, tone in panel.y.names] or [MUTED] * len(down)
    for (value, text), tone in zip(down, tones, strict=True):
        yield _text(text, box.left - 6.0, pen.y(value) + _HALF_LETTER * FONT, tone, "end")
    if panel.y.label:
        x, y = FONT, box.top + box.height / 2.0
        turned = f' transform="rotate(-90 {x:.2f} {y:.2f})"'
        yield _text(panel.y.label, x, y, MUTED, "middle", more=turned)


def _rule(rule: Rule, pen: _Pen) -> str:
    box = pen.box
    where = f"M{pen.x(rule.at):.2f} {box.top + box.height:.2f}V{box.top:.2f}"
    if rule.across:
        where = f"M{box.left:.2f} {pen.y(rule.at):.2f}H{box.left + box.width:.2f}"
    return _path(where, rule.colour, rule.width, rule.dash)


def _band(band: Band, pen: _Pen) -> str:
    there, back = pen.points(band.xs, band.lower), pen.points(band.xs[::-1], band.upper[::-1])
    look = f'fill="{_COLOURS[band.colour]}" fill-opacity="{band.opacity:g}"'
    return f'<polygon points="{there} {back}" {look}/>'


def _line(line: Stroke, pen: _Pen) -> str:
    where = "M" + pen.points(line.xs, line.ys)
    return _path(where, line.colour, line.width, line.dash, line.opacity)


def _dot(dot: Dot, pen: _Pen) -> str:
    x, y = pen.x(dot.x), pen.y(dot.y)
    colour, half = _COLOURS[dot.colour], dot.size / 2.0 + (0.0 if dot.hollow else 0.5)
    look = f'fill="{colour}"'
    if dot.hollow:  # transparent and not none: its middle too can be pointed at
        scaled = dot.hollow if dot.shape == "o" else dot.hollow / half
        look = f'fill="transparent" stroke="{colour}" stroke-width="{scaled:.2f}"'
    look += "" if dot.opacity == 1.0 else f' opacity="{dot.opacity:g}"'
    if dot.shape == "o":
        place = f'cx="{x:.2f}" cy="{y:.2f}" r="{half:.2f}"'
        return _speaking("circle", f"{place} {look}", dot.text, pen)
    place = f'transform="translate({x:.2f} {y:.2f}) scale({half:.2f})"'
    return _speaking("path", f'd="{_SHAPES[dot.shape]}" {place} {look}', dot.text, pen)


def _bar(bar: Bar, pen: _Pen) -> str:
    left, right = pen.x(bar.x), pen.x(bar.x + bar.width)
    top, bottom = sorted((pen.y(0.0), pen.y(bar.height)))
    place = f'x="{left:.2f}" y="{top:.2f}" width="{right - left:.2f}" height="{bottom - top:.2f}"'
    return _speaking("rect", f'{place} fill="{_COLOURS[bar.colour]}"', bar.text, pen)


def _note(note: Note, pen: _Pen) -> str:
    box, (inside_x, inside_y) = pen.box, note.inside
    x = box.left + box.width * note.x if inside_x else pen.x(note.x)
    y = box.top + box.height * (1.0 - note.y) if inside_y else pen.y(note.y)
    # In a corner the words lie inside it; else their middle is where they belong, or above it.
    shift = (1.0 if note.y > 0.5 else -0.2) if inside_y else 0.0 if note.rise else _HALF_LETTER
    y += shift * SMALL_FONT - note.rise
    if not note.text:
        return _text(note.words, x, y, note.colour, note.anchor, SMALL_FONT)
    look = f'font-size="{SMALL_FONT:g}" text-anchor="{note.anchor}" fill="{_COLOURS[note.colour]}"'
    return _speaking("text", f'x="{x:.2f}" y="{y:.2f}" {look}', note.text, pen, note.words)


#: One above the other, in this order.
_DRAWN: dict[type, Callable[[Any, _Pen], str]] = {
    Band: _band, Stroke: _line, Bar: _bar, Dot: _dot, Note: _note,
}  # fmt: skip


def _speaking(tag: str, look: str, text: str, pen: _Pen, words: str = "") -> str:
    """An element that says a number: to the pointer, to the keyboard, to a screen reader."""
    if not text:
        return f"<{tag} {look}/>"
    name, told = next(pen.names), escape(text)
    reachable = "0" if name.endswith("-mark-0") else "-1"
    return (
        f'<{tag} id="{name}" class="mark" role="img" aria-label="{told}" tabindex="{reachable}" '
        f"{look}><title>{told}</title>{escape(words)}</{tag}>"
    )


def _path(
    where: str, colour: str, width: float, dash: tuple[float, ...] = (), opacity: float = 1.0
) -> str:
    look = f'fill="none" stroke="{_COLOURS[colour]}" stroke-width="{width:g}"'
    if dash:
        look += f' stroke-dasharray="{" ".join(f"{part * width:g}" for part in dash)}"'
    if opacity != 1.0:
        look += f' opacity="{opacity:g}"'
    return f'<path d="{where}" {look}/>'


def _text(
    words: str, x: float, y: float, colour: str, anchor: str = "start", size: float = FONT,
    more: str = "",
) -> str:  # fmt: skip
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return (
        f'<text x="{x:.2f}" y="{y:.2f}" font-size="{size:g}" fill="{_COLOURS[colour]}"{where}'
        f"{more}>{escape(words)}</text>"
    )

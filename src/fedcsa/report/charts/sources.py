"""Who carries the weight, and who lies how far off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from fedcsa.report import words
from fedcsa.report.charts.base import (
    ACCENT,
    DANGER,
    FAINT,
    INK,
    MUTED,
    STYLE,
    Chart,
    height_of,
    names_down,
)
from fedcsa.roles.judgement import FARTHEST_IMBALANCE as NO_OVERLAP

MOST_SOURCES = 24
#: Imbalance is drawn on a logarithmic axis from here on.
SMALLEST = 1e-3
_FAR = ("no-overlap", "zero-ratio")


@dataclass(frozen=True)
class SourceLine:
    """What a report says of one source."""

    name: str
    weight: float | None  # None where there is no model
    n_rows: int
    n_validation: int
    effective_rows: float
    mean_ratio: float
    imbalance: float
    codes: tuple[str, ...]

    @property
    def far(self) -> bool:
        """Whether it does not reach the target."""
        return self.imbalance > NO_OVERLAP or any(code in _FAR for code in self.codes)

    @property
    def text(self) -> str:
        """Name and numbers in words."""
        weight = "" if self.weight is None else f"weight {words.percent(self.weight)}, "
        return (
            f"{words.clean(self.name)}: {weight}effective rows "
            f"{words.count(self.effective_rows)} of {words.count(self.n_validation)}, "
            f"imbalance {words.number(self.imbalance)}"
        )


def lines(content: Mapping[str, Any]) -> list[SourceLine]:
    """Every source that reported, the heaviest first."""
    weights = content.get("source_weights")
    codes: dict[str, list[str]] = {}
    for item in content["findings"]:
        codes.setdefault(item["source"], []).append(item["code"])
    found = [
        SourceLine(
            name=name,
            weight=None if weights is None else weights.get(name, 0.0),
            n_rows=report["n_rows"],
            n_validation=report["n_validation"],
            effective_rows=report["effective_rows"],
            mean_ratio=report["ratio_mean"],
            imbalance=content["imbalances"][name],
            codes=tuple(dict.fromkeys(codes.get(name, ()))),
        )
        for name, report in content["reports"].items()
    ]
    return sorted(found, key=lambda line: (-(line.weight or 0.0), line.imbalance, line.name))


def those_that_matter(found: Sequence[SourceLine], most: int = MOST_SOURCES) -> list[SourceLine]:
    """The heaviest, and the farthest: the middle is left out."""
    if len(found) <= most:
        return list(found)
    tail = most // 4
    far = sorted(found[most - tail :], key=lambda line: -line.imbalance)[:tail]
    return [*found[: most - tail], *(line for line in found[most - tail :] if line in far)]


@mpl.rc_context(STYLE)
def draw(content: Mapping[str, Any]) -> Chart:
    """Weight and imbalance of every source, side by side; without a model, imbalance alone."""
    shown = those_that_matter(lines(content))
    weighted = shown[0].weight is not None
    label = "Weight and imbalance of every source" if weighted else "Imbalance of every source"
    chart = Chart(label, height_of(len(shown)), columns=2 if weighted else 1)
    if weighted:
        _weights(chart, chart.panels[0], shown)
    _imbalances(chart, chart.panels[-1], shown)
    names = [words.short(line.name) + (" (far)" if line.far else "") for line in shown]
    names_down(chart.panels[0], names, [DANGER if line.far else INK for line in shown])
    return chart


def _weights(chart: Chart, axes: Axes, shown: Sequence[SourceLine]) -> None:
    for y, line in enumerate(shown):
        [bar] = axes.barh([y], [line.weight or 0.0], height=0.55, color=_tone(line))
        chart.mark(bar, line.text)
    axes.set_xlim(left=0.0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100.0 * value:g}%"))
    axes.set_xlabel("weight")


def _imbalances(chart: Chart, axes: Axes, shown: Sequence[SourceLine]) -> None:
    for y, line in enumerate(shown):
        x = max(line.imbalance, SMALLEST)
        axes.plot([SMALLEST, x], [y, y], color=FAINT, linewidth=1.0, zorder=1.0)
        marker = "X" if line.far else "o"
        chart.dot(axes, x, y, line.text, color=_tone(line), marker=marker)
    axes.set_xscale("log")
    axes.set_xlim(SMALLEST * 0.8, max(2.0, *(2.0 * line.imbalance for line in shown)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("imbalance after weighting")
    axes.axvline(NO_OVERLAP, color=MUTED, linewidth=0.8, linestyle=":")


def _tone(line: SourceLine) -> str:
    return DANGER if line.far else ACCENT

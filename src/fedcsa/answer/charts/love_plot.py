"""The Love plot: how far the means lie apart, before and after weighting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl

from fedcsa import words
from fedcsa.answer.charts.drawing import (
    ACCENT,
    FAINT,
    INK,
    MUTED,
    STYLE,
    Chart,
    height_of,
    names_down,
)
from fedcsa.answer.view import SourceLine, source_lines
from fedcsa.target.adaptation import Adaptation
from fedcsa.words import number

MOST_FEATURES, MOST_SOURCES, COLUMNS = 20, 6, 3
#: The usual bound for balance, in the target's standard deviations.
BOUND = 0.25
#: Differences beyond these are drawn at the edge, as an arrow.
FARTHEST = 2.0


@dataclass(frozen=True)
class Balance:
    """What is shown, and how much is not."""

    features: tuple[str, ...]
    sources: tuple[SourceLine, ...]
    before: Mapping[str, tuple[float, ...]]  # by source, in the order of the features
    after: Mapping[str, tuple[float, ...]]
    hidden_features: int
    hidden_sources: int


def balance(answer: Adaptation) -> Balance:
    """The features that differ most before weighting, and the heaviest and farthest sources."""
    found = source_lines(answer)
    heavy = found[: MOST_SOURCES - 1]
    rest = sorted(found[MOST_SOURCES - 1 :], key=lambda line: -line.imbalance)
    sources = [*heavy, *rest[: MOST_SOURCES - len(heavy)]]
    reports, features = answer.reports, answer.plan.features
    largest = [
        max(abs(reports[line.name].difference_before[index]) for line in sources)
        for index in range(len(features))
    ]
    order = sorted(range(len(features)), key=lambda index: (-largest[index], index))
    order = order[:MOST_FEATURES]

    def of(key: str) -> dict[str, tuple[float, ...]]:
        return {
            line.name: tuple(float(getattr(reports[line.name], key)[i]) for i in order)
            for line in sources
        }

    return Balance(
        tuple(features[index] for index in order),
        tuple(sources),
        of("difference_before"),
        of("difference_after"),
        len(features) - len(order),
        len(found) - len(sources),
    )


@mpl.rc_context(STYLE)
def draw(answer: Adaptation) -> Chart:
    """One panel a source, one line a feature."""
    shown = balance(answer)
    columns = min(COLUMNS, len(shown.sources))
    rows = math.ceil(len(shown.sources) / columns)
    height = rows * height_of(len(shown.features), 0.65) + 0.35
    chart = Chart("Standardised mean differences before and after weighting", height, rows, columns)
    largest = max(abs(x) for side in (shown.before, shown.after) for v in side.values() for x in v)
    limit = min(max(1.15 * largest, 2.0 * BOUND), FARTHEST)
    names = [words.short(name, 22) for name in shown.features]
    for axes, line in zip(chart.panels, shown.sources, strict=False):
        for bound in (-BOUND, BOUND):
            axes.axvline(bound, color=FAINT, linewidth=0.8, linestyle="--", zorder=0.5)
        axes.axvline(0.0, color=MUTED, linewidth=0.8, zorder=0.5)
        _panel(chart, axes, line, shown, limit)
        axes.set_xlim(-limit * 1.05, limit * 1.05)
        axes.set_title(words.short(line.name, 24 if columns < COLUMNS else 18), loc="left")
    for axes in chart.panels[::columns]:
        names_down(axes, names, [INK] * len(names))
    for axes in chart.panels[len(shown.sources) :]:
        axes.set_visible(False)
    chart.figure.supxlabel(
        "difference of means, in the target's standard deviations: ○ before, ● after weighting",
        fontsize=8.5, color=MUTED,
    )  # fmt: skip
    return chart


def _panel(chart: Chart, axes: Any, line: SourceLine, shown: Balance, limit: float) -> None:
    numbers = zip(shown.features, shown.before[line.name], shown.after[line.name], strict=True)
    for y, (feature, before, after) in enumerate(numbers):
        text = (
            f"{words.printable(feature)} at {words.printable(line.name)}: {number(before)} before, "
            f"{number(after)} after weighting"
        )
        ends = [max(-limit, min(limit, value)) for value in (before, after)]
        axes.plot(ends, [y, y], color=FAINT, linewidth=1.2, zorder=1.0)
        _dot(chart, axes, before, y, text, limit, filled=False)
        _dot(chart, axes, after, y, text, limit, filled=True)


def _dot(
    chart: Chart, axes: Any, value: float, y: int, text: str, limit: float, *, filled: bool
) -> None:
    marker = "o" if abs(value) <= limit else ("<" if value < 0.0 else ">")
    look: dict[str, Any] = {"marker": marker, "markersize": 5.0}
    if not filled:
        look |= {"color": MUTED, "markerfacecolor": "none", "markeredgewidth": 1.2}
    chart.dot(axes, max(-limit, min(limit, value)), y, text, **{"color": ACCENT, **look})


def hidden(shown: Balance) -> str:
    """What the chart leaves out, in words."""
    parts: Sequence[str] = [
        words.counted(many, noun)
        for many, noun in ((shown.hidden_features, "feature"), (shown.hidden_sources, "source"))
        if many
    ]
    return f"{' and '.join(parts)} not shown" if parts else ""

"""What was promised to every source that played the target, and what came true."""

from __future__ import annotations

import matplotlib as mpl

from fedcsa import words
from fedcsa.answer.charts.drawing import (
    ACCENT,
    DANGER,
    INK,
    MUTED,
    STYLE,
    Chart,
    height_of,
    names_down,
    risk_axis,
)
from fedcsa.target.backtest_result import Backtest, BacktestRow
from fedcsa.words import interval, number

MOST_ROWS = 30


def ordered(backtest: Backtest) -> list[BacktestRow]:
    """The sources as targets: broken promises first, then by name."""
    return sorted(
        backtest.rows, key=lambda row: (row.kept(backtest.level) is not False, row.source)
    )


def outcome(row: BacktestRow, level: float) -> str:
    """``kept``, ``broken``, ``far off`` or ``not judged``.

    Parameters
    ----------
    row : BacktestRow
    level : float
        Of the interval.
    """
    if row.far_off(level):
        return "far off"
    return {True: "kept", False: "broken", None: "not judged"}[row.kept(level)]


def realised(row: BacktestRow, level: float) -> str:
    """The realised risk, and how far chance may have moved it.

    Parameters
    ----------
    row : BacktestRow
    level : float
        Of the interval.
    """
    slack = row.slack(level)
    if row.realised is None or not slack:
        return number(row.realised)
    return f"{number(row.realised)} ± {number(slack)}"


def _text(row: BacktestRow, level: float) -> str:
    return (
        f"{words.printable(row.source)}: promised {number(row.promised)} "
        f"({interval(row.lower, row.upper)}), realised {realised(row, level)} "
        f"— {outcome(row, level)}"
    )


@mpl.rc_context(STYLE)
def draw(backtest: Backtest) -> Chart:
    """One line a source: the promised interval, and the realised risk."""
    level, shown = backtest.level, ordered(backtest)[:MOST_ROWS]
    chart = Chart("Promised and realised risk, each source as the target", height_of(len(shown)))
    axes = chart.panels[0]
    values: list[float] = []
    names, tones = [], []
    for y, row in enumerate(shown):
        ended, text = outcome(row, level), _text(row, level)
        broken = ended in ("broken", "far off")
        tone = DANGER if broken else INK
        names.append(words.short(row.source) + ("" if ended == "kept" else f" ({ended})"))
        tones.append(MUTED if ended == "not judged" else tone)
        if row.lower is not None and row.upper is not None:
            axes.plot([row.lower, row.upper], [y, y], color=ACCENT, linewidth=1.8)
            values += [row.lower, row.upper]
        if row.promised is not None:
            chart.dot(axes, row.promised, y, text, color=ACCENT)
            values.append(row.promised)
        if row.realised is not None:
            slack = row.slack(level)
            axes.plot(
                [row.realised - slack, row.realised + slack], [y, y], color=tone, linewidth=0.8
            )
            chart.dot(axes, row.realised, y, text, color=tone, marker="D")
            values.append(row.realised)
    names_down(axes, names, tones)
    risk_axis(axes, values)
    axes.set_xlabel("risk: ● promised, with its interval for a new site; ◆ realised, ± chance")
    return chart

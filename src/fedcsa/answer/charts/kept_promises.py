"""What was promised to every source that played the target, and what came true."""

from __future__ import annotations

import matplotlib as mpl

from fedcsa.answer.charts.drawing import ACCENT, DANGER, INK, MUTED, STYLE, Chart
from fedcsa.answer.result_tables import broken_first, kept_text, realised_text
from fedcsa.answer.sentences import MOST_PLAYED
from fedcsa.target.backtest_result import Backtest, BacktestRow
from fedcsa.words import interval, number, printable, short

_TONES = {"kept": INK, "broken": DANGER, "far off": DANGER, "not judged": MUTED}


def _text(row: BacktestRow, level: float) -> str:
    return (
        f"{printable(row.source)}: promised {number(row.promised)} "
        f"({interval(row.lower, row.upper)}), realised {realised_text(row, level)} "
        f"— {kept_text(row, level)}"
    )


@mpl.rc_context(STYLE)
def draw_kept_promises(backtest: Backtest) -> Chart:
    """One line a source: the promised interval, and the realised risk."""
    level, shown = backtest.level, broken_first(backtest)[:MOST_PLAYED]
    label = "Promised and realised risk, each source as the target"
    chart = Chart(label, Chart.height_of(len(shown)))
    axes = chart.panels[0]
    values: list[float] = []
    names = []
    for y, row in enumerate(shown):
        kept, text = kept_text(row, level), _text(row, level)
        told = "" if kept == "kept" else f" ({kept})"
        names.append((f"{short(row.source)}{told}", _TONES[kept]))
        if row.lower is not None and row.upper is not None:
            axes.plot([row.lower, row.upper], [y, y], color=ACCENT, linewidth=1.8)
            values += [row.lower, row.upper]
        if row.promised is not None:
            chart.dot(axes, row.promised, y, text, color=ACCENT)
            values.append(row.promised)
        if row.realised is not None:
            slack, tone = row.slack(level), DANGER if _TONES[kept] == DANGER else INK
            ends = [row.realised - slack, row.realised + slack]
            axes.plot(ends, [y, y], color=tone, linewidth=0.8)
            chart.dot(axes, row.realised, y, text, color=tone, marker="D")
            values.append(row.realised)
    chart.names_down(axes, names)
    chart.risk_axis(axes, values)
    axes.set_xlabel("risk: ● promised, with its interval for a new site; ◆ realised, ± chance")
    return chart

"""What was promised to every source that played the target, and what came true."""

from __future__ import annotations

from fedcsa.answer.charts.drawing import (
    ACCENT,
    DANGER,
    INK,
    MUTED,
    Chart,
    names_down,
    risk_axis,
)
from fedcsa.answer.result_tables import PlayedRisks, broken_first, kept_text
from fedcsa.answer.sentences import MOST_PLAYED
from fedcsa.target.backtest_result import Backtest
from fedcsa.target.risk_units import risk_word
from fedcsa.words import interval, number, printable, short

_TONES = {"kept": INK, "broken": DANGER, "far off": DANGER, "not judged": MUTED}


def _text(source: str, risks: PlayedRisks, kept: str) -> str:
    return (
        f"{printable(source)}: promised {number(risks.promised)} "
        f"({interval(risks.lower, risks.upper)}), realised {risks.realised_text} — {kept}"
    )


def draw_kept_promises(backtest: Backtest) -> Chart:
    """One line per source: the promised interval, and the realised risk."""
    level, shown = backtest.level, broken_first(backtest)[:MOST_PLAYED]
    risk = risk_word(backtest.scale)
    label = f"Promised and realised {risk}, each source as the target"
    chart = Chart(label, Chart.height_of(len(shown)))
    panel = chart.add()
    names = []
    for y, row in enumerate(shown):
        kept, risks = kept_text(row, level), PlayedRisks.of(row, backtest)
        text = _text(row.source, risks, kept)
        told = "" if kept == "kept" else f" ({kept})"
        names.append((f"{short(row.source)}{told}", _TONES[kept]))
        if risks.lower is not None and risks.upper is not None:
            panel.line([risks.lower, risks.upper], [y, y], width=1.8)
        if risks.promised is not None:
            panel.dot(risks.promised, y, text, colour=ACCENT)
        if risks.realised is not None:
            tone = DANGER if _TONES[kept] == DANGER else INK
            panel.line(risks.realised_ends, [y, y], colour=tone, width=0.8)
            panel.dot(risks.realised, y, text, colour=tone, shape="D")
    names_down(panel.y, names)
    risk_axis(panel.x)
    panel.x.label = f"{risk}: ● promised, with its interval for a new site; ◆ realised, ± chance"
    return chart

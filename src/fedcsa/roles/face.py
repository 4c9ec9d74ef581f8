"""A result in a notebook: verdict, risk, sources. It needs no other library."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from fedcsa.findings import ADVICE, VERDICTS, number

if TYPE_CHECKING:
    from fedcsa.roles.adaptation import Adaptation

#: Sources beyond these are counted only.
MOST_SOURCES = 20


def result_html(adaptation: Adaptation) -> str:
    """The answer as a few lines of HTML."""
    a = adaptation
    advice, why = VERDICTS[a.status]
    word, sign = ADVICE[advice]
    heading = f"<p><strong>{sign} {word}</strong>: {escape(why)}</p>"
    names = sorted(a.reports, key=lambda name: (-a.source_weights.get(name, 0.0), name))
    rows = "".join(_row(a, name) for name in names[:MOST_SOURCES])
    headings = "".join(
        f'<th scope="col">{text}</th>'
        for text in ("source", "weight", "rows", "effective rows", "mean ratio", "imbalance")
    )
    more = len(names) - MOST_SOURCES
    rest = f"<p>and {more} more</p>" if more > 0 else ""
    table = f"<table><thead><tr>{headings}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="fedcsa">{heading}<p>{escape(_risk(a))}</p>{table}{rest}</div>'


def _risk(a: Adaptation) -> str:
    bound = "at most about " if a.risk is not None and a.risk.kind == "bound" else ""
    text = f"{a.plan.loss} risk at the target: {bound}{number(a.target_risk)}"
    if a.risk is not None and a.interval is not None:
        lower, upper = a.interval
        text += f" ({a.risk.level:.0%} interval {number(lower)} to {number(upper)})"
    return text


def _row(a: Adaptation, name: str) -> str:
    report = a.reports[name]
    numbers = (
        f"{a.source_weights.get(name, 0.0):.1%}",
        f"{report.n_rows}",
        number(report.effective_rows),
        number(report.ratio_mean),
        number(report.imbalance),
    )
    cells = "".join(f"<td>{text}</td>" for text in numbers)
    return f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'

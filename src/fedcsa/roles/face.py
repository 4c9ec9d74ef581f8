"""A result in a notebook: verdict, promise, sources. It needs no other library."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from fedcsa.findings import ADVICE, number

if TYPE_CHECKING:
    from fedcsa.roles.adaptation import Adaptation

#: Sources beyond these are counted only.
MOST_SOURCES = 20


def result_html(adaptation: Adaptation) -> str:
    """The answer as a few lines of HTML."""
    a = adaptation
    word, sign = ADVICE[a.verdict.advice]
    heading = f"<p><strong>{sign} {word}</strong>: {escape(a.verdict.sentence)}</p>"
    names = sorted(a.reports, key=lambda name: (-a.source_weights.get(name, 0.0), name))
    rows = "".join(_row(a, name) for name in names[:MOST_SOURCES])
    headings = "".join(
        f'<th scope="col">{text}</th>'
        for text in ("source", "weight", "rows", "effective rows", "imbalance", "found")
    )
    more = len(names) - MOST_SOURCES
    rest = f"<p>and {more} more</p>" if more > 0 else ""
    table = f"<table><thead><tr>{headings}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="fedcsa">{heading}<p>{escape(_risk(a))}</p>{table}{rest}</div>'


def _risk(a: Adaptation) -> str:
    text = f"{a.plan.loss} risk at the target: {number(a.target_risk)}"
    if a.promise is not None:
        lower, upper = number(a.promise.lower), number(a.promise.upper)
        text += f" ({a.promise.level:.0%} for a new site: {lower} to {upper})"
    return text


def _row(a: Adaptation, name: str) -> str:
    report, examined = a.reports[name], a.examinations.get(name)
    found = number(examined.risk) if examined is not None and not examined.reason else "—"
    numbers = (
        f"{a.source_weights.get(name, 0.0):.1%}",
        f"{report.n_rows}",
        number(report.effective_rows),
        number(report.imbalance),
        found,
    )
    cells = "".join(f"<td>{text}</td>" for text in numbers)
    return f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'

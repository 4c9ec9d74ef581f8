"""A result in a notebook: verdict, promise, legs, sources. It needs no other library."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from fedcsa.answer.view import (
    SourceLine,
    examined_sentence,
    ratio_sentence,
    risk_sentence,
    source_lines,
)
from fedcsa.findings import ADVICE
from fedcsa.words import number, percent

if TYPE_CHECKING:
    from fedcsa.target.adaptation import Adaptation
    from fedcsa.target.promise import Leg

#: Sources beyond these are counted only.
MOST_SOURCES = 20


def result_html(adaptation: Adaptation) -> str:
    """The answer as a few lines of HTML."""
    a = adaptation
    word, sign = ADVICE[a.verdict.advice]
    heading = f"<p><strong>{sign} {word}</strong>: {escape(a.verdict.sentence)}</p>"
    told = [text for text in (risk_sentence(a), ratio_sentence(a), examined_sentence(a)) if text]
    said = f"<p>{escape('; '.join(told))}</p>"
    legs = "".join(_leg(leg) for leg in a.verdict.legs)
    lines = source_lines(a)
    found = f"risk found ({percent(a.plan.level)})"
    headings = "".join(
        f'<th scope="col">{text}</th>'
        for text in ("source", found, "weight", "rows", "effective rows", "imbalance")
    )
    rows = "".join(_row(line) for line in lines[:MOST_SOURCES])
    table = f"<table><thead><tr>{headings}</tr></thead><tbody>{rows}</tbody></table>"
    more = len(lines) - MOST_SOURCES
    rest = f"<p>and {more} more</p>" if more > 0 else ""
    return f'<div class="fedcsa">{heading}{said}<ul>{legs}</ul>{table}{rest}</div>'


def _leg(leg: Leg) -> str:
    sign = "✓" if leg.passed else "✕"
    advice = f" What to do: {leg.advice}." if leg.advice else ""
    return f"<li>{sign} <strong>{leg.name}</strong>: {escape(leg.sentence)}.{escape(advice)}</li>"


def _row(line: SourceLine) -> str:
    numbers = (
        escape(line.found_text),
        line.weight_text,
        f"{line.n_rows:,}",
        number(line.effective_rows),
        number(line.imbalance),
    )
    cells = "".join(f"<td>{text}</td>" for text in numbers)
    return f'<tr><th scope="row">{escape(line.name)}</th>{cells}</tr>'

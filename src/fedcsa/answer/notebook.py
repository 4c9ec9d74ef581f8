"""The answer in a notebook: verdict, promise, legs, sources. It needs no other library."""

from __future__ import annotations

from dataclasses import replace
from html import escape

from fedcsa.answer.result_tables import Table, answer_tables
from fedcsa.answer.sentences import (
    Reason,
    by_kind,
    examined_sentence,
    level_sentence,
    outcomes_sentence,
    promise_sentence,
    ratio_sentence,
    whom_sentence,
)
from fedcsa.answer.view import View
from fedcsa.target.verdict import Leg

_TOLD = (
    outcomes_sentence,
    promise_sentence,
    level_sentence,
    ratio_sentence,
    whom_sentence,
    examined_sentence,
)
#: Sources beyond these are counted only.
_MOST_SOURCES = 20


def view_html(view: View) -> str:
    """The answer as a few lines of HTML."""
    _, word, sign = view.heading
    heading = f"<p><strong>{sign} {word}</strong>: {escape(view.why)}</p>"
    told = filter(None, (tell(view) for tell in _TOLD))
    said = f"<p>{escape('; '.join(told))}</p>" if view.has_model else ""
    legs = "".join(map(_leg, view.legs))
    few = replace(view, sources=view.sources[:_MOST_SOURCES], absent={})
    tables = "".join(map(_table, answer_tables(few)))
    more = len(view.sources) - _MOST_SOURCES
    rest = f"<p>and {more} more</p>" if more > 0 else ""
    found = "".join(map(_reason, by_kind(view.findings)))
    findings = f"<p>Findings</p><ul>{found}</ul>" if found else ""
    return f'<div class="fedcsa">{heading}{said}<ul>{legs}</ul>{tables}{rest}{findings}</div>'


def _reason(reason: Reason) -> str:
    where = f" ({escape('; '.join(reason.places))})" if reason.places else ""
    told = f"{escape(reason.meaning.removesuffix('.'))}{where}. {escape(reason.advice)}"
    return f"<li><strong>{reason.severity}</strong>: {told}</li>"


def _table(table: Table) -> str:
    headings = "".join(f'<th scope="col">{escape(text)}</th>' for text in table.headings)
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in table.rows
    )
    return f"<table><thead><tr>{headings}</tr></thead><tbody>{rows}</tbody></table>"


def _leg(leg: Leg) -> str:
    sign = "✓" if leg.passed else "✕"
    advice = f" What to do: {leg.advice}." if leg.advice else ""
    return f"<li>{sign} <strong>{leg.name}</strong>: {escape(leg.sentence)}.{escape(advice)}</li>"

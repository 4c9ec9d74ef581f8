"""The answer in a notebook: verdict, promise, legs, sources. It needs no other library."""

from __future__ import annotations

from dataclasses import replace
from html import escape

from fedcsa.answer.result_tables import source_table
from fedcsa.answer.sentences import examined_sentence, ratio_sentence, risk_sentence
from fedcsa.answer.view import View
from fedcsa.target.adaptation import Leg

#: Sources beyond these are counted only.
_MOST_SOURCES = 20


def view_html(view: View) -> str:
    """The answer as a few lines of HTML."""
    _, word, sign = view.heading
    heading = f"<p><strong>{sign} {word}</strong>: {escape(view.why)}</p>"
    told = filter(None, (risk_sentence(view), ratio_sentence(view), examined_sentence(view)))
    said = f"<p>{escape('; '.join(told))}</p>" if view.points else ""
    legs = "".join(map(_leg, view.legs))
    shown = source_table(replace(view, sources=view.sources[:_MOST_SOURCES], absent={}))
    headings = "".join(f'<th scope="col">{text}</th>' for text in shown.headings)
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in shown.rows
    )
    table = f"<table><thead><tr>{headings}</tr></thead><tbody>{rows}</tbody></table>"
    more = len(view.sources) - _MOST_SOURCES
    rest = f"<p>and {more} more</p>" if more > 0 else ""
    return f'<div class="fedcsa">{heading}{said}<ul>{legs}</ul>{table}{rest}</div>'


def _leg(leg: Leg) -> str:
    sign = "✓" if leg.passed else "✕"
    advice = f" What to do: {leg.advice}." if leg.advice else ""
    return f"<li>{sign} <strong>{leg.name}</strong>: {escape(leg.sentence)}.{escape(advice)}</li>"

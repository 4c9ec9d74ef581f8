"""The answer in a notebook: verdict, promise, legs, sources, from the same parts as the page."""

from __future__ import annotations

from dataclasses import replace

from fedcsa.answer.result_tables import answer_tables
from fedcsa.answer.sentences import (
    by_kind,
    examined_sentence,
    level_sentence,
    outcomes_sentence,
    promise_sentence,
    ratio_sentence,
    whom_sentence,
)
from fedcsa.answer.templates import templates
from fedcsa.answer.view import View

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
    few = replace(view, sources=view.sources[:_MOST_SOURCES], absent={})
    return (
        templates()
        .get_template("fedcsa.answer:notebook.html.jinja")
        .render(
            word=word,
            sign=sign,
            why=view.why,
            told=[text for tell in _TOLD if view.has_model and (text := tell(view))],
            legs=view.legs,
            tables=tuple(answer_tables(few)),
            more=len(view.sources) - _MOST_SOURCES,
            reasons=by_kind(view.findings),
        )
    )

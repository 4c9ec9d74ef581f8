"""All checklists of a result, as tables and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fedcsa.answer.checklists.items import STATES, answer_text, summary_line
from fedcsa.answer.checklists.probast_ai import PROBAST_AI
from fedcsa.answer.checklists.tripod_ai import TRIPOD_AI
from fedcsa.answer.checklists.tripod_cluster import TRIPOD_CLUSTER
from fedcsa.answer.markdown import escaped, markdown_table
from fedcsa.answer.result_tables import Table

if TYPE_CHECKING:
    from fedcsa.answer.view import View

CHECKLISTS = (TRIPOD_AI, TRIPOD_CLUSTER, PROBAST_AI)
_INTRODUCTION = (
    "Made from the result. Item numbers and topics are those of the published lists, the sentences "
    "are ours; read the lists themselves before you report. What is *blank*, or left to say, only "
    "you know."
)


def checklist_tables(view: View) -> Iterator[Table]:
    """Every checklist as a table."""
    for checklist in CHECKLISTS:
        rows = [
            (f"{f.item.number} {f.item.topic}", f.item.asks, answer_text(f))
            for f in checklist.filled(view)
        ]
        headings = ("item", "what to report", "what this study says")
        yield Table(checklist.name, headings, rows, (0, 1, 2), (1, 2), printed=False)


def summary_table(view: View) -> Table:
    """How far every checklist is filled, and where it was published."""
    rows = []
    for checklist in CHECKLISTS:
        states = [filled.state for filled in checklist.filled(view)]
        rows.append((checklist.name, *(str(states.count(x)) for x in STATES), checklist.doi))
    headings = ("checklist", *STATES, "doi")
    return Table("How far the checklists are filled", headings, rows, (0, 5))


def checklist_lines(view: View) -> Iterator[str]:
    """One line a checklist: how much of it is filled, and what is left."""
    for checklist in CHECKLISTS:
        yield summary_line(checklist.name, checklist.filled(view))


def checklists_markdown(view: View) -> str:
    """All checklists in one text."""
    parts = [f"# Checklists of the study {escaped(view.study)}", _INTRODUCTION]
    lines = checklist_lines(view)
    for checklist, line, table in zip(CHECKLISTS, lines, checklist_tables(view), strict=True):
        parts += [
            f"## {checklist.name}",
            f"{checklist.source}, doi {checklist.doi}.",
            escaped(line),
        ]
        parts.append(markdown_table(table))
    return "\n\n".join(parts) + "\n"

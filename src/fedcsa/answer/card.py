"""A model card: what the model is, for whom, how good, and what to mind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fedcsa.answer.checklists import answers as know
from fedcsa.answer.checklists.items import ChecklistItem, FilledItem, answer_text, fill
from fedcsa.answer.markdown import escaped, markdown_table
from fedcsa.answer.result_tables import Table, measure_table, source_table

if TYPE_CHECKING:
    from fedcsa.answer.view import View

#: Sections of the card. They follow M. Mitchell and others: Model cards for model reporting,
#: FAT* 2019, doi 10.1145/3287560.3287596.
CARD: tuple[ChecklistItem, ...] = (
    ChecklistItem("Verdict", "May it be used here", "May it be used?", know.interpretation),
    ChecklistItem(
        "Model", "What it is", "Name, version, owner", know.model_type, "version, owner, licence"
    ),
    ChecklistItem("Model", "What it puts out", "What a prediction is", know.model_output),
    ChecklistItem("Model", "How it predicts", "How predictions are computed", know.prediction_rule),
    ChecklistItem("Model", "Where it is", "Where the model can be had", know.specification),
    ChecklistItem("Use", "What it is for", "Who uses it, for whom, for which decision"),
    ChecklistItem("Use", "What it is not for", "Uses that are out of scope"),
    ChecklistItem("Population", "Target and sources", "Whose data these are", know.data_sources),
    ChecklistItem(
        "Population", "How they differ", "How the sources differ from the target", know.shift
    ),
    ChecklistItem(
        "Population", "Outcome", "What is predicted", know.outcome, "definition and horizon"
    ),
    ChecklistItem("Population", "Predictors", "What it needs", know.feature_columns),
    ChecklistItem("Population", "Missing data", "What becomes of missing cells", know.missing_data),
    ChecklistItem("Performance", "Measures", "How good it is", know.performance),
    ChecklistItem("Performance", "Between sites", "How that differs", know.performance_by_source),
    ChecklistItem(
        "Performance", "Subgroups", "For whom it is worse", know.performance_in_subgroups
    ),
    ChecklistItem("Performance", "Recalibration", "What would correct it", know.updated),
    ChecklistItem("Performance", "Back-test", "Whether promises held before", know.backtest_found),
    ChecklistItem(
        "Cautions", "Limitations", "What to mind", know.limitations, "what they mean here"
    ),
    ChecklistItem("Cautions", "Ethics", "Harms, and who was asked"),
    ChecklistItem("Cautions", "Next", "What to do next", know.next_steps),
    ChecklistItem("Making", "Program", "What computed it", know.code),
    ChecklistItem("Making", "Data", "What left the sites", know.data_sharing),
)


def card_lines(view: View) -> tuple[FilledItem, ...]:
    """Every line of the card with what a result says to it."""
    return tuple(fill(item, view) for item in CARD)


def card_table(view: View) -> Table:
    """The card as a table."""
    rows = [(f.item.number, f.item.topic, _text(f)) for f in card_lines(view)]
    return Table("Model card", ("section", "line", "this study"), rows, (0, 1, 2), (2,))


def card_markdown(view: View) -> str:
    """The card as a text."""
    return "\n\n".join((f"# Model card: {escaped(view.study)}", *_sections(view))) + "\n"


def _sections(view: View) -> Iterator[str]:
    section = ""
    lines: list[str] = []
    for filled in card_lines(view):
        if filled.item.number != section:
            if lines:
                yield "\n".join(lines)
            section, lines = filled.item.number, []
            yield f"## {section}"
        lines.append(f"- **{filled.item.topic}.** {escaped(_text(filled))}")
    yield "\n".join(lines)
    if view.measures:
        yield "## Every measure"
        yield markdown_table(measure_table(view))
    if view.sources:
        yield "## Sources"
        yield markdown_table(source_table(view))


def _text(filled: FilledItem) -> str:
    """What is said; of a blank line what is asked."""
    if filled.state == "blank":
        return f"To fill in: {filled.item.asks}."
    return answer_text(filled)

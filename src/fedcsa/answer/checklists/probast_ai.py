"""PROBAST+AI: numbers and domains of the questions as published, sentences of our own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from fedcsa.answer.checklists import answers as know
from fedcsa.answer.checklists.items import Answer, Checklist, ChecklistItem


def _probast(
    letter: Literal["D", "E"], rows: Sequence[tuple[str, str, str, Answer | None, str]]
) -> tuple[ChecklistItem, ...]:
    """Items of one part of PROBAST+AI, numbered with its letter."""
    part: Literal["", "D"] = "D" if letter == "D" else ""
    return tuple(
        ChecklistItem(f"{letter} {number}", topic, asks, answer, left, part)
        for number, topic, asks, answer, left in rows
    )


#: Domains 1 to 3 ask the same of development and of evaluation.
_DOMAINS: tuple[tuple[str, str, str, Answer | None, str], ...] = (
    (
        "1.1",
        "Participants and data",
        "Were the data sources suitable?",
        know.data_sources,
        "why they are suitable",
    ),
    ("1.2", "Participants and data", "Was the design of the study suitable?", None, ""),
    (
        "1.3",
        "Participants and data",
        "Do the data represent those for whom the model is meant?",
        know.shift,
        "what Table 1 does not show",
    ),
    (
        "2.1",
        "Predictors",
        "Were predictors defined and measured alike for all?",
        know.feature_columns,
        "whether they are measured alike",
    ),
    (
        "2.2",
        "Predictors",
        "Were they prepared alike for all?",
        know.preparation,
        "what sites do before",
    ),
    ("2.3", "Predictors", "Were they assessed without knowing the outcome?", None, ""),
    (
        "2.4",
        "Predictors",
        "Are all at hand when the model is to be used?",
        know.available,
        "when each is at hand",
    ),
    (
        "3.1",
        "Outcome",
        "Was the outcome defined and determined suitably?",
        know.outcome,
        "its definition",
    ),
    (
        "3.2",
        "Outcome",
        "Was it defined and determined alike for all?",
        know.preparation,
        "whether sites assess it alike",
    ),
    ("3.3", "Outcome", "Was it determined without knowing the predictors?", None, ""),
    ("3.4", "Outcome", "Was the time between predictors and outcome suitable?", None, ""),
)

PROBAST_AI = Checklist(
    "PROBAST+AI",
    "K. G. M. Moons and others: PROBAST+AI. BMJ 2025;388:e082505 (16 questions on development, D, "
    "and 18 on evaluation, E; it is a tool to judge with, and the judgement is not made here)",
    "10.1136/bmj-2024-082505",
    (
        *_probast(
            "D",
            (
                *_DOMAINS,
                ("4.1", "Analysis", "Was the sample large enough?", know.sample_size, "why it is"),
                (
                    "4.2",
                    "Analysis",
                    "Were numbers and levels handled suitably?",
                    know.predictor_handling,
                    "",
                ),
                (
                    "4.3",
                    "Analysis",
                    "Were missing and censored data handled suitably?",
                    know.missing_data,
                    "rows left out before",
                ),
                (
                    "4.4",
                    "Analysis",
                    "If classes were rebalanced, was the model recalibrated?",
                    know.imbalance,
                    "",
                ),
                ("4.5", "Analysis", "Was overfitting guarded against?", know.overfitting, ""),
            ),
        ),
        *_probast(
            "E",
            (
                *_DOMAINS,
                (
                    "4.1",
                    "Analysis",
                    "Is there more than performance on the rows that made the model?",
                    know.beyond_apparent,
                    "",
                ),
                (
                    "4.2",
                    "Analysis",
                    "Was the sample large enough?",
                    know.rows_and_events,
                    "why it is",
                ),
                (
                    "4.3",
                    "Analysis",
                    "Were missing and censored data handled suitably?",
                    know.missing_data,
                    "rows left out before",
                ),
                (
                    "4.4",
                    "Analysis",
                    "Was the model evaluated on classes in their own shares?",
                    know.evaluated_without_correction,
                    "",
                ),
                (
                    "4.5",
                    "Analysis",
                    "Were rows that made the model kept out of its evaluation?",
                    know.kept_apart,
                    "",
                ),
                (
                    "4.6",
                    "Analysis",
                    "Does resampling repeat every step that made the model?",
                    know.every_step,
                    "",
                ),
                (
                    "4.7",
                    "Analysis",
                    "Were the measures suitable: calibration, discrimination, usefulness?",
                    know.measures_used,
                    "why these",
                ),
            ),
        ),
    ),
)

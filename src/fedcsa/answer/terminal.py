"""The answer on a terminal: verdict, promise, legs, sources, findings; and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich import table as rich
from rich.console import Console
from rich.text import Text

from fedcsa.answer import result_tables
from fedcsa.answer.sentences import (
    NEW_SITE,
    about_left_out,
    backtest_numbers,
    by_kind,
    drawn_sentence,
    examined_sentence,
    level_sentence,
    promise_sentence,
    ratio_sentence,
    said,
    whom_sentence,
)
from fedcsa.answer.updated import ShownUpdate
from fedcsa.answer.view import View
from fedcsa.findings import ADVICE, Finding
from fedcsa.target.backtest_result import Backtest
from fedcsa.target.verdict import Leg
from fedcsa.words import candidate_text, percent, printable, sentence

_STYLES = {"note": "dim", "warning": "yellow", "danger": "bold red"}
_COLOURS = {"use": "green", "care": "yellow", "none": "yellow", "no": "red"}
_TONES = {"own": "bold", "far": "red", "": ""}
#: Characters of a label before a sentence: the longest is "loss, method".
_LABEL = 14
_PASSED = {"passed": "green", "failed": "red", "untested": "yellow"}


def print_view(screen: Console, view: View) -> None:
    """The answer: verdict, promise, legs, measures, sources, the formulas compared, findings."""
    _print_heading(screen, view.heading, view.why)
    if view.plan is not None and view.has_model:
        chosen = "" if view.chosen is None else candidate_text(view.chosen)
        lines = (
            ("estimated" if view.promise is None else "promised", promise_sentence(view)),
            ("", level_sentence(view)),
            ("", ratio_sentence(view)),
            ("for whom", whom_sentence(view)),
            ("examined", examined_sentence(view)),
            ("searched", drawn_sentence(view)),
            ("chosen", chosen),
            ("loss, method", f"{view.plan.loss}, {view.plan.titled(view.plan.method)}"),
        )
        screen.print(_labelled(lines))
    if view.legs:
        screen.print()
        screen.print(_legs(view.legs))
    for table in result_tables.answer_tables(view):
        screen.print()
        print_table(screen, table)
    if len(view.methods) > 1:
        screen.print()
        print_table(screen, result_tables.method_table(view))
        [(_, given)] = said("compared", view)
        screen.print(Text(given, style="dim"))
    if view.findings:
        print_findings(screen, view.findings, view.apart)


def _print_heading(screen: Console, heading: tuple[str, str, str], why: str) -> None:
    """What to do with the model, and the reason; of a `View` its heading."""
    advice, word, sign = heading
    colour = f"bold {_COLOURS[advice]}"
    screen.print(Text.assemble((f"{sign} {word}", colour), f" — {printable(why)}\n"))


def _labelled(lines: Sequence[tuple[str, str]]) -> rich.Table:
    """Sentences beside their labels, folded at the edge of the screen; an empty one is left out."""
    grid = rich.Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(justify="right", style="dim", width=_LABEL, no_wrap=True)
    for label, value in lines:
        if value:
            grid.add_row(Text(label), Text(printable(value)))
    return grid


def _legs(legs: Sequence[Leg]) -> rich.Table:
    """One line a leg; where it fails, what to do."""
    grid = rich.Table.grid(padding=(0, 2))
    for leg in legs:
        sign, colour = ("✓", "green") if leg.passed else ("✕", "red")
        grid.add_row(Text(sign, style=colour), Text(leg.name, style="bold"), Text(leg.sentence))
        if leg.advice:
            grid.add_row("", "", Text(f"What to do: {leg.advice}", style="dim"))
    return grid


def print_table(screen: Console, table: result_tables.Table) -> None:
    """A table of texts. Without lines between them, more columns fit a narrow terminal."""
    shown = rich.Table(title=table.caption, title_justify="left", title_style="bold", box=None)
    for index, heading in enumerate(table.headings):
        side: Literal["left", "right"] = "left" if index in table.text else "right"
        shown.add_column(heading, justify=side, overflow="fold")
    for index, row in enumerate(table.rows):
        style = _TONES[table.tones[index]] if table.tones else ""
        shown.add_row(*map(Text, row), style=style)
    screen.print(shown)


def print_findings(
    screen: Console, findings: Sequence[Finding], apart: Sequence[Finding] = ()
) -> None:
    """The findings by kind, the gravest first.

    Parameters
    ----------
    screen : Console
    findings : sequence of Finding
    apart : sequence of Finding
        Those among them about sources that were left out; they come last, under a title.
    """
    screen.print(Text("\nFindings", style="bold"))
    counted = [item for item in findings if item not in apart]
    if counted:
        screen.print(_kinds(counted))
    if apart:
        title = printable(about_left_out(apart))
        screen.print(Text(f"\n{title}" if counted else title))
        screen.print(_kinds(apart))


def _kinds(findings: Sequence[Finding]) -> rich.Table:
    grid = rich.Table.grid(padding=(0, 2))
    for reason in by_kind(findings):
        meaning = Text.assemble(reason.meaning, (f" ({reason.code})", "dim"))
        grid.add_row(Text(reason.severity, style=_STYLES[reason.severity]), meaning)
        for text in reason.places:
            grid.add_row("", Text(f"  {text}"))
        grid.add_row("", Text(f"What to do: {reason.advice}", style="dim"))
    return grid


def print_backtest(screen: Console, found: Backtest, risk: str) -> None:
    """What was promised to every source that played the target, and what came true.

    Parameters
    ----------
    screen : Console
    found : Backtest
    risk : str
        What the risk is called.
    """
    print_table(screen, result_tables.backtest_table(found, risk))
    if found.measures:
        screen.print()
        print_table(screen, result_tables.played_measures_table(found))
    colour = "yellow" if found.broken and found.verdict == "passed" else _PASSED[found.verdict]
    meaning = printable(found.sentence.removeprefix(found.verdict))
    screen.print(Text.assemble((f"\n{found.verdict}", f"bold {colour}"), meaning))
    for _, text in backtest_numbers(found, risk):
        screen.print(Text(sentence(text)))
    if found.judged:
        told = f"Intervals: {percent(found.level)} for a new site, {NEW_SITE}."
        screen.print(Text(told, style="dim"))
    if found.findings:
        print_findings(screen, found.findings)


def print_update(screen: Console, came: ShownUpdate) -> None:
    """What outcomes change: verdict, number, model, every measure, and how it came over time.

    Parameters
    ----------
    screen : Console
    came : ShownUpdate
    """
    found = came.update
    advice = found.verdict.advice
    _print_heading(screen, (advice, *ADVICE[advice]), found.verdict.sentence)
    lines = (
        ("now", came.sentence),
        ("", came.worth),
        ("changed", found.changed),
        ("model", came.model),
    )
    screen.print(_labelled(lines))
    screen.print()
    print_table(screen, result_tables.update_table(came))
    screen.print(Text(f"\n{sentence(came.intervals)}", style="dim"))
    if came.often:
        screen.print(Text(f"\n{came.words.title} as outcomes came in", style="bold"))
        for text in came.path_lines:
            screen.print(Text(text), soft_wrap=True)
    if found.findings:
        print_findings(screen, found.findings)

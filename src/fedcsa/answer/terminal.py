"""The shape of an answer on a terminal: verdict, promise, legs, sources, findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedcsa.answer.view import (
    about_left_out,
    candidate_text,
    examined_sentence,
    ratio_sentence,
    risk_sentence,
    source_lines,
)
from fedcsa.findings import ADVICE, left_out
from fedcsa.words import count, number, percent, printable

if TYPE_CHECKING:
    from fedcsa.findings import Finding
    from fedcsa.target.adaptation import Adaptation
    from fedcsa.target.promise import Verdict

_STYLES = {"note": "dim", "warning": "yellow", "danger": "bold red"}
_COLOURS = {"use": "green", "care": "yellow", "no": "red"}


def print_adaptation(screen: Console, adaptation: Adaptation) -> None:
    """The answer: verdict, promise, legs, sources, the paper's methods if asked, findings."""
    a, plan = adaptation, adaptation.plan
    print_verdict(screen, a.verdict)
    rows = [
        ("estimated" if a.promise is None else "promised", risk_sentence(a)),
        ("", ratio_sentence(a)),
        ("examined", examined_sentence(a)),
        ("chosen", candidate_text(a.candidate)),
        ("loss, method", f"{plan.loss}, {plan.method}"),
    ]
    for label, value in rows:
        if value:
            screen.print(Text.assemble((f"{label:>14}  ", "dim"), value), soft_wrap=True)
    print_legs(screen, a.verdict)
    screen.print()
    screen.print(source_table(a))
    if len(a.estimates) > 1:
        screen.print()
        screen.print(_compared(a))
    if a.findings:
        screen.print(Text("\nFindings", style="bold"))
        print_findings(screen, a.findings, a.source_weights)


def print_verdict(screen: Console, verdict: Verdict) -> None:
    """What to do with the model, and why."""
    words, sign = ADVICE[verdict.advice]
    colour = f"bold {_COLOURS[verdict.advice]}"
    screen.print(Text.assemble((f"{sign} {words}", colour), f" — {printable(verdict.sentence)}\n"))


def print_legs(screen: Console, verdict: Verdict) -> None:
    """One line a leg; where it fails, what to do."""
    if not verdict.legs:
        return
    screen.print()
    grid = Table.grid(padding=(0, 2))
    for leg in verdict.legs:
        sign, colour = ("✓", "green") if leg.passed else ("✕", "red")
        grid.add_row(Text(sign, style=colour), Text(leg.name, style="bold"), Text(leg.sentence))
        if leg.advice:
            grid.add_row("", "", Text(f"What to do: {leg.advice}", style="dim"))
    screen.print(grid)


def source_table(adaptation: Adaptation) -> Table:
    """Weight and overlap of every source and what it found, heaviest first."""
    table = Table(title="Sources", title_justify="left", title_style="bold")
    level = percent(adaptation.plan.level)
    for heading, justify in (
        ("source", "left"), (f"risk found ({level})", "left"), ("weight", "right"),
        ("rows", "right"), ("effective", "right"), ("imbalance", "right"),
    ):  # fmt: skip
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for line in source_lines(adaptation):
        table.add_row(
            Text(printable(line.name)),
            Text(printable(line.found_text)),
            line.weight_text,
            count(line.n_rows),
            number(line.effective_rows),
            number(line.imbalance),
        )
    return table


def _compared(adaptation: Adaptation) -> Table:
    """The paper's methods, from the same messages."""
    title = "On the table's weights" if adaptation.plan.exchange == "table" else "Compared"
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading in ("method", "chosen", "estimated risk"):
        table.add_column(heading, justify="right" if heading == "estimated risk" else "left")
    for method, found in adaptation.estimates.items():
        if method != adaptation.plan.method:
            chosen = adaptation.plan.candidates[adaptation.kept[found.chosen]]
            table.add_row(method, candidate_text(chosen), number(float(found.risk[found.chosen])))
    return table


def print_findings(
    screen: Console, findings: Sequence[Finding], weights: Mapping[str, float]
) -> None:
    """One line a finding, gravest first; those against a source without weight come last.

    Parameters
    ----------
    screen : Console
    findings : sequence of Finding
    weights : mapping of str to float
        Of the sources.
    """
    without = left_out(weights)
    apart = [item for item in findings if item.source in without and item.severity != "note"]
    others = [item for item in findings if item not in apart]
    if others:
        _print_grid(screen, others)
    if others and apart:
        screen.print()
    if apart:
        title = about_left_out([finding.source for finding in apart])
        screen.print(Text(title))
        _print_grid(screen, apart)


def _print_grid(screen: Console, findings: Sequence[Finding]) -> None:
    order = ("danger", "warning", "note")
    grid = Table.grid(padding=(0, 2))
    for finding in sorted(findings, key=lambda item: order.index(item.severity)):
        grid.add_row(
            Text(finding.severity, style=_STYLES[finding.severity]), Text(printable(str(finding)))
        )
    screen.print(grid)

"""``fedcsa reconcile RESULT OUTCOMES``."""

from __future__ import annotations

import dataclasses
import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from fedcsa.cli.common import (
    EXIT_BROKEN,
    Json,
    Output,
    Quiet,
    ResultFolder,
    Trust,
    named_errors,
    unbroken,
    working,
)
from fedcsa.cli.predict import result_study
from fedcsa.cli.report import report_line
from fedcsa.findings import number

if TYPE_CHECKING:
    from fedcsa.reconcile import Reconciliation

_COLOURS = {
    "kept": "green",
    "worse than promised": "red",
    "better than promised": "yellow",
    "no interval": "dim",
}


@named_errors
def reconcile(
    result: ResultFolder,
    outcomes: Annotated[
        Path,
        typer.Argument(
            metavar="OUTCOMES", help="A table of the target's rows with their outcomes."
        ),
    ],
    trust: Trust = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare the promised risk with outcomes that have arrived since.

    Reads the result folder and a table, and writes reconciliation.json into the folder. Exit
    code 7 if the promise was broken.

    Examples
    --------
    fedcsa reconcile result outcomes.csv
    fedcsa reconcile result outcomes.csv --quiet || echo "look closer"
    """
    from fedcsa.reconcile import reconcile as compare
    from fedcsa.result import load_result

    with working(f"reading {outcomes}", quiet=quiet):
        adaptation = load_result(result, trust or ())
        X, y = result_study(result, adaptation).read_outcomes(outcomes)
    found = compare(adaptation, X, y)
    content = {
        **dataclasses.asdict(found),
        "conclusion": found.conclusion,
        "reason": found.reason,
        "moved": found.moved,
    }
    path = result / "reconciliation.json"
    with unbroken():
        text = jsonlib.dumps(content, indent=1, allow_nan=False) + "\n"
        path.write_text(text, encoding="utf-8")
        line = report_line(result)

    def show(screen: Console) -> None:
        _print(screen, found)
        screen.print(Text(f"\n{line}"), soft_wrap=True)

    Output(json, quiet).answer(content, show, path)
    if found.moved:
        raise typer.Exit(EXIT_BROKEN)


def _print(screen: Console, found: Reconciliation) -> None:
    colour = _COLOURS[found.conclusion]
    screen.print(Text.assemble((found.conclusion, f"bold {colour}"), f" — {found.reason}\n"))
    lines = [
        ("promised", _with_interval(found.promised, found.promised_lower, found.promised_upper)),
        ("realised", _with_interval(found.realised, found.lower, found.upper)),
        ("rows", str(found.n_rows)),
    ]
    if found.naive is not None:
        lines.insert(1, ("naive", number(found.naive)))
    for label, value in lines:
        screen.print(Text.assemble((f"{label:>12}  ", "dim"), value))


def _with_interval(risk: float, lower: float | None, upper: float | None) -> str:
    if lower is None or upper is None:
        return number(risk)
    return f"{number(risk)}  ({number(lower)} to {number(upper)})"

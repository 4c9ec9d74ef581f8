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

_MEANING = {
    "kept": ("green", "nothing speaks against a shared p(y|x)"),
    "worse than promised": ("red", "p(y|x) moved at the target, or the overlap was bad"),
    "better than promised": ("yellow", "p(y|x) moved at the target, or the overlap was bad"),
    "no interval": ("dim", "there was no promise to keep"),
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
    content = {**dataclasses.asdict(found), "conclusion": found.conclusion, "moved": found.moved}
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
    colour, meaning = _MEANING[found.conclusion]
    screen.print(Text.assemble((found.conclusion, f"bold {colour}"), f" — {meaning}\n"))
    promised = number(found.promised)
    if found.promised_lower is not None and found.promised_upper is not None:
        promised += f"  ({number(found.promised_lower)} to {number(found.promised_upper)})"
    realised = f"{number(found.realised)}  ({number(found.lower)} to {number(found.upper)})"
    for label, value in (("promised", promised), ("realised", realised), ("rows", found.n_rows)):
        screen.print(Text.assemble((f"{label:>12}  ", "dim"), str(value)))

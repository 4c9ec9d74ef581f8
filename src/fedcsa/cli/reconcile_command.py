"""``fedcsa reconcile RESULT OUTCOMES``."""

from __future__ import annotations

import json as jsonlib
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
    RowsQuery,
    RowsSheet,
    named_errors,
    place_of,
    shown_place,
    unbroken,
    working,
)
from fedcsa.cli.predict_command import result_study
from fedcsa.cli.report_command import report_line

if TYPE_CHECKING:
    pass


@named_errors
def reconcile(
    result: ResultFolder,
    outcomes: Annotated[
        str,
        typer.Argument(
            metavar="OUTCOMES",
            help="A table of the target's rows with their outcomes, or with --query a database.",
        ),
    ],
    query: RowsQuery = "",
    sheet: RowsSheet = "",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare the promised risk with outcomes that have arrived since.

    Reads the result folder and a table, and writes reconciliation.json into the folder. Exit
    code 7 if the promise was broken: the realised risk lies outside the promised interval, its
    own sampling error allowed for.

    Examples
    --------
    fedcsa reconcile result outcomes.csv
    fedcsa reconcile result outcomes.csv --quiet || echo "look closer"
    """
    from fedcsa.answer.store import load_result
    from fedcsa.answer.terminal import print_reconciliation
    from fedcsa.reconcile import reconcile as compare

    where = place_of(outcomes, query, sheet)
    with working(f"reading {shown_place(outcomes)}", quiet=quiet):
        adaptation = load_result(result)
        study = result_study(result, adaptation)
        X, y = study.read_outcomes(where)
        predicted = study.read_given(where)
    found = compare(adaptation, X, y, predicted=predicted)
    content = found.to_json()
    path = result / "reconciliation.json"
    with unbroken():
        text = jsonlib.dumps(content, indent=1, allow_nan=False) + "\n"
        path.write_text(text, encoding="utf-8")
        line = report_line(result)

    def show(screen: Console) -> None:
        print_reconciliation(screen, found, adaptation.plan)
        screen.print(Text(f"\n{line}"), soft_wrap=True)

    Output(json, quiet).answer(content, show, path)
    if found.kept is False:
        raise typer.Exit(EXIT_BROKEN)

"""``fedcsa reconcile RESULT OUTCOMES``."""

from __future__ import annotations

import dataclasses
import json as json_module
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from fedcsa.cli.common import EXIT_BROKEN, Json, Trust, console, named_errors, print_json
from fedcsa.cli.predict import result_study
from fedcsa.cli.report import report_line
from fedcsa.reconcile import reconcile as compare
from fedcsa.result import load_result

_MEANING = {
    "kept": ("green", "nothing speaks against a shared p(y|x)"),
    "worse than promised": ("red", "p(y|x) moved at the target, or the overlap was bad"),
    "better than promised": ("yellow", "p(y|x) moved at the target, or the overlap was bad"),
    "no interval": ("dim", "there was no promise to keep"),
}


@named_errors
def reconcile(
    result: Annotated[Path, typer.Argument(help="A result folder.")],
    outcomes: Annotated[
        Path, typer.Argument(help="A table of the target's rows with their outcomes.")
    ],
    trust: Trust = None,
    json: Json = False,
) -> None:
    """Compare the promised risk with outcomes that have arrived since.

    Writes reconciliation.json into the result folder. Exit code 7 if the promise was broken.

    Example: [bold]fedcsa reconcile result outcomes.csv[/bold]
    """
    adaptation = load_result(result, trust or ())
    X, y = result_study(result, adaptation).read_outcomes(outcomes)
    found = compare(adaptation, X, y)
    content = {**dataclasses.asdict(found), "conclusion": found.conclusion, "moved": found.moved}
    text = json_module.dumps(content, indent=1, allow_nan=False) + "\n"
    (result / "reconciliation.json").write_text(text, encoding="utf-8")
    line = report_line(result)
    if json:
        print_json(content)
    else:
        screen = console()
        colour, meaning = _MEANING[found.conclusion]
        screen.print(Text.assemble((found.conclusion, f"bold {colour}"), f" — {meaning}\n"))
        promised = f"{found.promised:.3g}"
        if found.promised_lower is not None:
            promised += f"  ({found.promised_lower:.3g} to {found.promised_upper:.3g})"
        realised = f"{found.realised:.3g}  ({found.lower:.3g} to {found.upper:.3g})"
        screen.print(Text.assemble((f"{'promised':>12}  ", "dim"), promised))
        screen.print(Text.assemble((f"{'realised':>12}  ", "dim"), realised))
        screen.print(Text.assemble((f"{'rows':>12}  ", "dim"), f"{found.n_rows}"))
        screen.print(Text(f"\n{line}"), soft_wrap=True)
    if found.moved:
        raise typer.Exit(EXIT_BROKEN)

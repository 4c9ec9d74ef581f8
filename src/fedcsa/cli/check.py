"""``fedcsa check STUDY``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from fedcsa.cli.common import EXIT_INPUT, Json, console, named_errors, print_json
from fedcsa.study import Study


@named_errors
def check(
    study: Annotated[Path, typer.Argument(help="The study file, for example study.toml.")],
    json: Json = False,
) -> None:
    """Say everything that would go wrong, without computing anything.

    Example: [bold]fedcsa check study.toml[/bold]
    """
    problems = Study.load(study).problems()
    if json:
        print_json({"problems": problems})
    else:
        screen = console()
        for problem in problems:
            screen.print(Text.assemble(("problem: ", "bold red"), problem), soft_wrap=True)
        if not problems:
            screen.print(Text("Nothing stands in the way.", style="green"))
    if problems:
        raise typer.Exit(EXIT_INPUT)

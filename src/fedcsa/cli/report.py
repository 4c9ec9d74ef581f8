"""``fedcsa report RESULT``."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from fedcsa.cli.common import Json, console, named_errors, print_json
from fedcsa.errors import FedCSAError
from fedcsa.report.page import write_report


@named_errors
def report(
    result: Annotated[Path, typer.Argument(help="A result folder.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The file; by default report.html in the folder."),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    json: Json = False,
) -> None:
    """Write the report of a result: one HTML file that needs nothing else and asks no server.

    Example: [bold]fedcsa report result --open[/bold]
    """
    path = write_report(result, out)
    if json:
        print_json({"report": str(path)})
    else:
        console().print(Text(f"Report in {path}"), soft_wrap=True)
    if show:
        webbrowser.open(path.absolute().as_uri())


def report_line(folder: Path) -> str:
    """Write the report beside a result, and say where it is, or how to get one."""
    try:
        return f"Report in {write_report(folder)}"
    except (FedCSAError, OSError) as error:  # the result stands without it
        return f"No report: {error}"

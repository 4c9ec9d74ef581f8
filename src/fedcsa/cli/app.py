"""``fedcsa``: the commands and their common options."""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer
from rich.text import Text

from fedcsa import __version__
from fedcsa.cli.backtest_command import backtest
from fedcsa.cli.check_command import check
from fedcsa.cli.common import EXIT_INTERRUPTED, console, fail
from fedcsa.cli.convert_command import convert
from fedcsa.cli.demo_command import demo
from fedcsa.cli.evaluate_command import evaluate
from fedcsa.cli.explain_command import explain
from fedcsa.cli.federation_command import federation
from fedcsa.cli.followup_command import followup
from fedcsa.cli.ledger_command import ledger
from fedcsa.cli.predict_command import predict
from fedcsa.cli.program import Command, Program
from fedcsa.cli.report_command import report
from fedcsa.cli.run_command import run
from fedcsa.cli.site_command import site
from fedcsa.cli.study_command import study
from fedcsa.cli.table_command import table
from fedcsa.cli.update_command import update

app = typer.Typer(
    name="fedcsa",
    cls=Program,
    invoke_without_command=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=(
        "Exit codes: 0 done · 2 wrong usage · 3 the study, its data or a result cannot be used · "
        "4 a site refused or the exchange failed · 5 no model could be fitted or trusted · "
        "6 do not use it · 7 a promise was broken · 130 interrupted."
    ),
)
#: Where a reader may be, and the command to begin with there.
SITUATIONS = (
    ("See it work, on simulated hospitals.", "fedcsa demo --out demo"),
    (
        "The tables of several sites are on this machine.",
        "fedcsa study init tables/*.csv --target tables/new.csv",
    ),
    ("Every site keeps its table; this is one of them.", "fedcsa site init patients.csv"),
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedcsa {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    _: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Which model to use at a site without outcomes, and how well it will do there.

    Other sites have outcomes and never share a row. Start with [bold]fedcsa demo[/bold].
    """
    if context.invoked_subcommand is None:
        _teach()


def _teach() -> None:
    screen = console()
    screen.print("Which model to use at a site without outcomes, and how well it will do there.\n")
    screen.print(Text("Where to start", style="bold"))
    for situation, command in SITUATIONS:
        screen.print(Text.assemble(f"  {situation}\n", (f"    {command}", "bold")))
    screen.print("\nA finding or a refusal: fedcsa explain NAME. All commands: fedcsa --help.")


for _command in (
    demo, run, evaluate, check, table, predict, backtest, followup, update, report, explain,
    ledger, convert,
):  # fmt: skip
    app.command(cls=Command)(_command)
for _group in (federation, site, study):
    app.add_typer(_group)


def main() -> NoReturn:
    """Run the command line.

    After a Ctrl-C the process ends at once: Python itself would first wait for its threads, which
    may be at work on a long table.
    """
    try:
        app()
    except KeyboardInterrupt:  # before a command has begun
        fail("Interrupted.")
    except SystemExit as end:
        if end.code != EXIT_INTERRUPTED:
            raise
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(EXIT_INTERRUPTED)

"""``fedcsa``: the commands and their common options."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from fedcsa import __version__
from fedcsa.cli.backtest_command import backtest
from fedcsa.cli.check_command import check
from fedcsa.cli.common import console
from fedcsa.cli.convert_command import convert
from fedcsa.cli.demo_command import demo
from fedcsa.cli.evaluate_command import evaluate
from fedcsa.cli.federation_command import federation
from fedcsa.cli.ledger_command import ledger
from fedcsa.cli.predict_command import predict
from fedcsa.cli.program import Command, Program
from fedcsa.cli.reconcile_command import reconcile
from fedcsa.cli.report_command import report
from fedcsa.cli.run_command import run
from fedcsa.cli.site_command import site
from fedcsa.cli.study_command import study
from fedcsa.cli.table_command import table

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
FIRST_STEPS = (
    ("fedcsa demo --out demo", "see it work on simulated hospitals"),
    ("fedcsa check demo/study.toml", "what a study needs; write your own like it"),
    ("fedcsa run demo/study.toml", "run it; then put your own tables in its place"),
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
    screen.print(Text("First steps", style="bold"))
    for number, (command, reason) in enumerate(FIRST_STEPS, 1):
        screen.print(Text.assemble(f"  {number}. ", (f"{command:<30}", "bold"), reason))
    screen.print("\nAll commands: fedcsa --help. One of them: fedcsa run --help.")


for _command in (
    demo, run, evaluate, check, table, predict, backtest, reconcile, report, ledger, convert
):  # fmt: skip
    app.command(cls=Command)(_command)
for _group in (federation, site, study):
    app.add_typer(_group)


def main() -> None:
    """Run the command line."""
    app()

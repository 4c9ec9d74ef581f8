"""``fedcsa``: the commands and their common options."""

from __future__ import annotations

from typing import Annotated

import typer

from fedcsa import __version__
from fedcsa.cli.backtest import backtest
from fedcsa.cli.check import check
from fedcsa.cli.demo import demo
from fedcsa.cli.federation import federation
from fedcsa.cli.ledger import ledger
from fedcsa.cli.predict import predict
from fedcsa.cli.reconcile import reconcile
from fedcsa.cli.report import report
from fedcsa.cli.run import run
from fedcsa.cli.site import site
from fedcsa.cli.study import study

app = typer.Typer(
    name="fedcsa",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=(
        "Exit codes: 0 done · 2 wrong usage · 3 the study, its data or a result cannot be used · "
        "4 a site refused or the exchange failed · 5 no model could be fitted or trusted · "
        "6 no source resembles the target · 7 a promise was broken."
    ),
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedcsa {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Which model to use at a site without outcomes, and how well it will do there.

    Other sites have outcomes and never share a row. Start with [bold]fedcsa demo[/bold].
    """


for _command in (demo, run, check, predict, backtest, reconcile, report, ledger):
    app.command()(_command)
for _group in (federation, site, study):
    app.add_typer(_group)


def main() -> None:
    """Run the command line."""
    app()

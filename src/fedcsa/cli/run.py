"""``fedcsa run STUDY``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from fedcsa.cli.common import (
    Json,
    Quiet,
    Trust,
    console,
    named_errors,
    print_adaptation,
    print_json,
    site_progress,
)
from fedcsa.cli.report import report_line
from fedcsa.errors import ResultError
from fedcsa.protocol.policy import Policy
from fedcsa.result import save_result, summary
from fedcsa.roles.adaptation import Adaptation
from fedcsa.roles.ending import WITHOUT_MODEL, Ending
from fedcsa.roles.source import Source
from fedcsa.roles.target import Target
from fedcsa.site.rules import rule_of
from fedcsa.study import Study
from fedcsa.transport.base import run as run_study
from fedcsa.transport.inprocess import InProcessTransport


@named_errors
def run(
    study: Annotated[Path, typer.Argument(help="The study file, for example study.toml.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Folder for the result; by default STUDY-result, after the file."
        ),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Read the sources' tables in batches and never hold them, for tables larger than "
            "memory. Example: fedcsa run study.toml --stream",
        ),
    ] = False,
    trust: Trust = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a study whose tables are all on this machine, and write a result folder.

    Example: [bold]fedcsa run study.toml --out result[/bold]
    """
    loaded = Study.load(study)
    folder = out or Path(f"{study.stem}-result")

    def keep(ending: Ending) -> str:
        try:
            save_result(ending, folder, loaded.to_toml())
        except ResultError as error:  # the study's own end matters more
            return str(error)
        return f"{report_line(folder)}."

    adaptation = carry_out(
        loaded, quiet=quiet or json, trusted=trust or (), stream=stream, keep=keep
    )
    save_result(adaptation, folder, loaded.to_toml())
    line = report_line(folder)
    if json:
        print_json(summary(adaptation))
        return
    screen = console()
    print_adaptation(screen, adaptation)
    screen.print(Text.assemble("\nResult in ", (str(folder), "bold")))
    screen.print(Text(line), soft_wrap=True)


def carry_out(
    study: Study,
    *,
    quiet: bool,
    trusted: Sequence[str] = (),
    stream: bool = False,
    keep: Callable[[Ending], str] | None = None,
) -> Adaptation:
    """Run a study in this process.

    Parameters
    ----------
    keep : function, optional
        Is given what is left of a study without a model; what it says ends the error's text.
    """
    policy = study.policy()
    trusted = [*trusted, "sklearn.*"]  # every model is made in this very process
    sources = [source_of(study, name, policy, trusted, stream=stream) for name in study.sources]
    target = Target(study.read_target(), study.plan(), policy=policy, trusted_types=trusted)
    try:
        with site_progress(len(sources), quiet=quiet) as progress:
            return run_study(target, InProcessTransport(sources, progress))
    except WITHOUT_MODEL as error:
        if keep is None:
            raise
        ending = target.ending(rule_of(error), str(error))
        ledgers = {source.name: tuple(source.ledger.entries) for source in sources}
        told = keep(replace(ending, ledgers={**ending.ledgers, **ledgers}))
        raise type(error)(f"{error} {told}") from None


def source_of(
    study: Study, name: str, policy: Policy, trusted: Sequence[str], *, stream: bool
) -> Source:
    """The source `name` of a study, which holds its table or reads it in batches."""
    if stream:
        rows = study.stream_source(name)
        made: Source = Source.streaming(name, rows, policy=policy, trusted_types=trusted)
        return made
    X, y = study.read_source(name)
    columns = study.coding.columns
    return Source(name, X, y, features=columns, policy=policy, trusted_types=trusted)

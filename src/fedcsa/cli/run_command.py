"""``fedcsa run STUDY``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from fedcsa.cli.common import (
    Json,
    Output,
    Quiet,
    StudyFile,
    Trust,
    follow,
    named_errors,
    site_progress,
    unbroken,
    working,
)
from fedcsa.cli.report_command import report_line
from fedcsa.errors import ResultError

if TYPE_CHECKING:
    from fedcsa.messages.policy import Policy
    from fedcsa.source.source import Source
    from fedcsa.study import Study
    from fedcsa.target.adaptation import Adaptation


@named_errors
def run(
    study: StudyFile,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="Folder for the result; by default STUDY-result, after the file.",
        ),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Read the sources' tables in batches and never hold them, for tables larger than "
            "memory.",
        ),
    ] = False,
    trust: Trust = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a study whose tables are all on this machine, and write a result folder.

    Reads the study file and its tables. The folder then holds numbers, models and ledgers, and
    no row; an older result in it is replaced, anything else is left alone. Exit code 0 if the
    verdict is to use the model, with or without care, 6 if it is not to use it; 4 if sites
    refused, 5 if no candidate could be fitted.

    Examples
    --------
    fedcsa run study.toml --out result
    fedcsa run study.toml --stream             # tables larger than memory
    fedcsa run study.toml --json > answer.json # for a program
    """
    from fedcsa.answer.store import save_result, summary
    from fedcsa.answer.terminal import print_view
    from fedcsa.answer.view import view_of
    from fedcsa.study import Study

    loaded = Study.load(study)
    folder = out or Path(f"{study.stem}-result")

    def keep(left: Adaptation) -> str:
        try:
            with unbroken():
                save_result(left, folder, loaded.to_toml())
                return f"{report_line(folder)}."
        except ResultError as error:  # the study's own end matters more
            return str(error)

    adaptation = carry_out(loaded, quiet=quiet, trusted=trust or (), stream=stream, keep=keep)
    with unbroken():
        save_result(adaptation, folder, loaded.to_toml())
        line = report_line(folder)

    def show(screen: Console) -> None:
        print_view(screen, view_of(adaptation))
        screen.print(Text.assemble("\nResult in ", (str(folder), "bold")), soft_wrap=True)
        screen.print(Text(line), soft_wrap=True)

    Output(json, quiet).answer(summary(adaptation), show, folder)
    follow(adaptation.verdict)


def carry_out(
    study: Study,
    *,
    quiet: bool,
    trusted: Sequence[str] = (),
    stream: bool = False,
    keep: Callable[[Adaptation], str] | None = None,
) -> Adaptation:
    """Run a study in this process.

    Parameters
    ----------
    study : Study
    quiet : bool
        Show no progress.
    trusted : sequence of str
        Types outside scikit-learn that a model may hold.
    stream : bool
        Read the sources' tables in batches.
    keep : function, optional
        Is given what is left of a study without a model; what it says ends the error's text.
    """
    from fedcsa.run import InProcess, run_study
    from fedcsa.target.adaptation import WITHOUT_MODEL
    from fedcsa.target.target import Target

    policy = study.policy()
    trusted = [*trusted, "sklearn.*"]  # every model is made in this very process
    with working("reading the tables", quiet=quiet):
        sources = [source_of(study, name, policy, trusted, stream=stream) for name in study.sources]
        target = Target(study.read_told(), study.plan(), policy=policy, trusted_types=trusted)
    try:
        with site_progress(len(sources), quiet=quiet) as progress:
            return run_study(target, InProcess(sources, progress))
    except WITHOUT_MODEL as error:
        if keep is None:
            raise
        left = target.without_model(error.rule, str(error))
        ledgers = {source.name: tuple(source.ledger.entries) for source in sources}
        told = keep(replace(left, ledgers={**left.ledgers, **ledgers}))
        raise type(error)(f"{error} {told}") from None


def source_of(
    study: Study, name: str, policy: Policy, trusted: Sequence[str], *, stream: bool
) -> Source:
    """The source `name` of a study, which holds its table or reads it in batches.

    Parameters
    ----------
    study : Study
    name : str
    policy : Policy
    trusted : sequence of str
        Types outside scikit-learn that a model may hold.
    stream : bool
    """
    from fedcsa.source.source import Source

    if stream:
        rows = study.stream_source(name)
        made: Source = Source.streaming(name, rows, policy=policy, trusted_types=trusted)
        return made
    X, y = study.read_source(name)
    columns = study.coding.matrix_columns
    return Source(name, X, y, features=columns, policy=policy, trusted_types=trusted)

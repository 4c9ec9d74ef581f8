"""``fedcsa run STUDY``."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text

from fedcsa.cli.common import (
    Changes,
    NoReport,
    Output,
    Preset,
    ResultOut,
    Screen,
    StudyFile,
    Trust,
    follow,
    load_study,
    option,
    unbroken,
)
from fedcsa.cli.report_command import report_line
from fedcsa.errors import FedCSAError, ResultError

if TYPE_CHECKING:
    from fedcsa.study import Study
    from fedcsa.target.adaptation import Adaptation


def run(
    output: Output,
    study: StudyFile,
    out: ResultOut = None,
    stream: Annotated[
        bool,
        option(
            "--stream",
            help="Read the sources' tables in batches and never hold them, for tables larger than "
            "memory.",
        ),
    ] = False,
    preset: Preset = None,
    changes: Changes = None,
    trust: Trust = None,
    no_report: NoReport = False,
) -> None:
    """Run a study whose tables are all on this machine, and write a result folder.

    Reads the study file and its tables. The folder then holds numbers, models and ledgers, and
    no row; an older result in it is replaced unless it has outcomes, anything else is left
    alone. A search that was interrupted goes on where it stopped, if the folder is the same. Exit
    code 0 if the verdict is to use the model, with or without care, or if there is no verdict; 6
    if it is not to use it; 4 if sites refused; 5 if no candidate could be fitted.

    Examples
    --------
    fedcsa run study.toml --out result
    fedcsa run study.toml --stream             # tables larger than memory
    fedcsa run study.toml --set level=0.9      # another option than the file's
    fedcsa run study.toml --preset paper       # Algorithm 1 of the paper instead
    fedcsa run study.toml --json > answer.json # for a program
    """
    loaded, folder = load_study(study, changes, preset), out or Path(f"{study.stem}-result")
    run_and_show(output, loaded, folder, trust or (), stream, no_report=no_report)


def run_and_show(
    output: Output,
    loaded: Study,
    folder: Path,
    trusted: Collection[str],
    stream: bool,
    *,
    no_report: bool,
) -> None:
    """Run a study in this process, keep its result and show it.

    Parameters
    ----------
    output : Output
    loaded : Study
    folder : Path
        Of the result.
    trusted : collection of str
        Classes outside scikit-learn that the model may use.
    stream : bool
        Read tables in batches and never hold them.
    no_report : bool
        Write no report.
    """
    from fedcsa.answer.store import HISTORY, NO_MODELS, ROUNDS_FOLDER, keeps_models, save_result
    from fedcsa.answer.terminal import print_view
    from fedcsa.answer.view import view_of

    if (folder / HISTORY).exists():
        raise ResultError(
            f"The result in {str(folder)!r} holds follow-up lists or outcomes ({HISTORY}), which "
            "would be lost. Choose another folder with --out, or delete that file."
        )

    def keep(adaptation: Adaptation) -> str:
        with unbroken():
            save_result(adaptation, folder, loaded.to_toml())
            return report_line(folder, unwanted=no_report)

    try:
        n_sources, first = len(loaded.sources), "reading the tables"
        with output.progress(n_sources, first) as progress:
            adaptation = loaded.run(
                trusted_types=trusted,
                stream=stream,
                progress=progress,
                kept=folder / ROUNDS_FOLDER,
            )
    except FedCSAError as error:
        if error.adaptation is None:
            raise
        try:
            kept = f"{keep(error.adaptation)}."
        except ResultError as unkept:  # the study's own end matters more
            kept = str(unkept)
        raise type(error)(f"{error} {kept}") from None
    line, view = keep(adaptation), view_of(adaptation)

    def show(screen: Screen) -> None:
        print_view(screen, view)
        screen.print(Text.assemble("\nResult in ", (str(folder), "bold")), soft_wrap=True)
        screen.say(line)
        if not keeps_models(adaptation):
            screen.say(NO_MODELS)

    output.answer(view.to_json(), show, folder)
    follow(adaptation.verdict)

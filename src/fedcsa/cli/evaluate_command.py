"""``fedcsa evaluate STUDY``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fedcsa.cli.common import Changes, NoReport, Output, ResultOut, StudyFile, load_study, option
from fedcsa.cli.run_command import run_and_show
from fedcsa.errors import StudyError


def evaluate(
    output: Output,
    study: StudyFile,
    model: Annotated[
        Path | None,
        option(
            metavar="FILE",
            help="A model in place of the file's: a formula (.toml), or what fedcsa convert wrote.",
        ),
    ] = None,
    out: ResultOut = None,
    stream: Annotated[
        bool,
        option("--stream", help="Read the sources' tables in batches, never hold them in memory."),
    ] = False,
    changes: Changes = None,
    no_report: NoReport = False,
) -> None:
    """Judge a model that exists already, at a site without outcomes.

    The study's section on the model gives a formula, a converted model, or a column of predictions
    that every site has. Nothing is fitted, and no model leaves a source. The tables are all on
    this machine; between sites, fedcsa study submit does the same. Writes a result folder; exit
    codes as of fedcsa run.

    Examples
    --------
    fedcsa evaluate study.toml --out result
    fedcsa evaluate study.toml --model score.toml # another model
    """
    from fedcsa.study.model_section import is_given, with_model

    loaded = load_study(study, changes)
    if model is not None:
        loaded = with_model(loaded, model)
    if not is_given(loaded.model):
        raise StudyError(
            f"{study.name}: a study to evaluate must give its model; this one fits one. Write "
            'name = "given" in [model], name a file with --model, or use: fedcsa run'
        )
    folder = out or Path(f"{study.stem}-result")
    run_and_show(output, loaded, folder, (), stream, no_report=no_report)

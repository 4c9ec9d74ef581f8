"""``fedcsa report RESULT``."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

from fedcsa.cli.common import Output, ResultFolder, option, out_option, unbroken
from fedcsa.errors import FedCSAError


def report(
    output: Output,
    result: ResultFolder,
    out: Annotated[
        Path | None, out_option("FILE", "The file; by default report.html in the folder.")
    ] = None,
    show: Annotated[bool, option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write the report of a result: one HTML file that needs nothing else and asks no server.

    Reads the result folder alone, computes nothing and shows no row: the verdict with its reasons,
    the risk beside its yardsticks, the sources, what left each site. In the result folder it also
    writes a model card, the checklists of TRIPOD+AI, TRIPOD-Cluster and PROBAST+AI as far as the
    study can fill them, and every number as CSV files.

    Examples
    --------
    fedcsa report result --open
    fedcsa report result --out for-the-board.html
    """
    from fedcsa.answer.page import write_report
    from fedcsa.answer.store import CARD_FILE, CHECKLISTS_FILE, TABLES_FOLDER

    with output.working("writing the report"), unbroken():
        path = write_report(result, out)
    told = f"Report in {path}\nModel card, checklists and tables in {result}"
    parts = {"card": CARD_FILE, "checklists": CHECKLISTS_FILE, "tables": TABLES_FOLDER}
    content = {"report": str(path)} | {key: str(result / name) for key, name in parts.items()}
    output.tell(content, told, path)
    if show:
        webbrowser.open(path.absolute().as_uri())


def report_line(folder: Path, *, unwanted: bool = False) -> str:
    """Write the report beside a result, and say where it is, or how to get one.

    Parameters
    ----------
    folder : Path
        Of a result.
    unwanted : bool, default False
        Whether none shall be written.
    """
    if unwanted:
        return f"No report; write it with: fedcsa report {folder}"
    from fedcsa.answer.page import write_report

    try:
        return f"Report in {write_report(folder)}"
    except (FedCSAError, OSError) as error:  # the result stands without it
        return f"No report: {error}"

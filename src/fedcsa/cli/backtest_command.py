"""``fedcsa backtest STUDY``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedcsa.cli.common import (
    EXIT_BROKEN,
    Json,
    Output,
    Quiet,
    StudyFile,
    Trust,
    named_errors,
    site_progress,
    unbroken,
    working,
)
from fedcsa.cli.report_command import report_line
from fedcsa.errors import ResultError
from fedcsa.words import number, percent, printable

if TYPE_CHECKING:
    from fedcsa.target.backtest_result import Backtest, BacktestRow

_COLOURS = {"passed": "green", "failed": "red", "untested": "yellow"}


@named_errors
def backtest(
    study: StudyFile,
    result: Annotated[
        Path | None,
        typer.Option(
            metavar="RESULT",
            help="A result of this study, to keep the back-test with; a failing one lowers its "
            "verdict.",
        ),
    ] = None,
    trust: Trust = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Let every source play the target for the others, and see which promises hold.

    Only it compares promises with outcomes before the target has any. Reads the study file and
    the sources' tables; writes only into the result folder that --result names. Exit code 7 if
    promises were broken too often, or one by more than a factor of two.

    Examples
    --------
    fedcsa backtest study.toml
    fedcsa backtest study.toml --result result
    """
    from fedcsa.answer.plain import backtest_to_json, plain
    from fedcsa.answer.store import load_result, save_result
    from fedcsa.backtest import run_backtest
    from fedcsa.study import Study

    loaded = Study.load(study)
    plan = loaded.plan()
    tested = None if result is None else load_result(result, trust or ())
    if tested is not None and plain(tested.plan) != plain(plan):
        raise ResultError(
            f"The result in {str(result)!r} must be of this very study; it is not. "
            "Run the study again, or leave --result out."
        )
    with working("reading the tables", quiet=quiet):
        data = {name: loaded.read_source(name) for name in loaded.sources}
    steps = len(data) * (len(data) - 1)
    with site_progress(steps, quiet=quiet) as progress:
        found = run_backtest(
            data,
            plan,
            policy=loaded.policy(),
            trusted_types=[*(trust or ()), "sklearn.*"],
            progress=progress,
        )
    if result is not None and tested is not None:
        tested = tested.with_backtest(found)
        with unbroken():
            save_result(tested, result, loaded.to_toml(), keep_reconciliation=True)
            line = report_line(result)

    def show(screen: Console) -> None:
        _print(screen, found)
        if result is not None:
            screen.print(Text(f"\n{line}"), soft_wrap=True)

    Output(json, quiet).answer(backtest_to_json(found), show, result)
    if found.verdict == "failed":
        raise typer.Exit(EXIT_BROKEN)


def _print(screen: Console, found: Backtest) -> None:
    from fedcsa.answer.terminal import print_findings
    from fedcsa.answer.view import NEW_SITE

    # Without lines between them all columns fit a narrow terminal.
    table = Table(
        title="Each source as the target", title_justify="left", title_style="bold", box=None
    )
    for heading in ("source", "rows", "promised", "interval", "realised", "own model"):
        table.add_column(
            heading, justify="left" if heading == "source" else "right", no_wrap=heading != "source"
        )
    table.add_column("")
    table.add_column("verdict")
    for row in found.rows:
        interval = "—" if row.lower is None else f"{_number(row.lower)} to {_number(row.upper)}"
        table.add_row(
            Text(printable(row.source)), f"{row.n_rows}", _number(row.promised), interval,
            _number(row.realised), _number(row.reference), _mark(row, found.level), row.status,
        )  # fmt: skip
    screen.print(table)
    colour = "yellow" if found.broken and found.verdict == "passed" else _COLOURS[found.verdict]
    meaning = printable(found.sentence.removeprefix(found.verdict))
    screen.print(Text.assemble((f"\n{found.verdict}", f"bold {colour}"), meaning))
    if found.judged:
        told = f"Intervals: {percent(found.level)} for a new site, {NEW_SITE}.\n"
        screen.print(Text(told, style="dim"))
    share = 1.0 - found.broken / len(found.judged) if found.judged else None
    for label, value in (
        ("promises kept, sampling aside", share),
        ("coverage of the intervals", found.coverage),
        ("promised over realised risk", found.calibration),
        ("realised over own model's risk", found.regret),
    ):
        screen.print(Text.assemble((f"{label:>32}  ", "dim"), _number(value)))
    if found.findings:
        screen.print(Text("\nFindings", style="bold"))
        print_findings(screen, found.findings, {})


def _mark(row: BacktestRow, level: float) -> Text:
    """Whether the promise was kept, in a word."""
    if row.far_off(level):
        return Text("far off", "bold red")
    words = {True: ("kept", "green"), False: ("broken", "red"), None: ("not judged", "dim")}
    return Text(*words[row.kept(level)])


def _number(value: float | None) -> str:
    return "—" if value is None else number(value)

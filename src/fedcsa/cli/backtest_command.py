"""``fedcsa backtest STUDY``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from click.exceptions import Exit

from fedcsa.cli.common import (
    EXIT_BROKEN,
    Changes,
    NoReport,
    Output,
    Screen,
    StudyFile,
    Trust,
    load_study,
    option,
    unbroken,
)
from fedcsa.cli.report_command import report_line
from fedcsa.errors import ResultError


def backtest(
    output: Output,
    study: StudyFile,
    result: Annotated[
        Path | None,
        option(
            metavar="RESULT",
            help="A result of this study, in which to keep the back-test; a failed one lowers its "
            "verdict.",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        option(metavar="NAME", help="As for run; 'paper' is refused: it promises no interval."),
    ] = None,
    changes: Changes = None,
    trust: Trust = None,
    no_report: NoReport = False,
) -> None:
    """Let every source play the target for the others, and see which promises hold.

    Only a back-test compares promises with outcomes before the target has any. Reads the study file
    and the sources' tables; writes only into the result folder that --result names. Exit code 7 if
    promises were broken too often, or one by more than a factor of two.

    Examples
    --------
    fedcsa backtest study.toml
    fedcsa backtest study.toml --result result
    """
    from fedcsa.answer.measure_words import risk_name
    from fedcsa.answer.store import (
        backtest_to_json,
        load_history,
        load_result,
        plain,
        save_result,
    )
    from fedcsa.answer.terminal import print_backtest
    from fedcsa.backtest import run_backtest

    loaded = load_study(study, changes, preset)
    plan = loaded.plan()
    tested = None if result is None else load_result(result)
    if tested is not None and plain(tested.plan) != plain(plan):
        raise ResultError(
            f"The result in {str(result)!r} is of another study. "
            "Run the study again, or leave --result out."
        )
    with output.working("reading the tables"):
        data = {name: loaded.read_source(name) for name in loaded.sources}
    steps = len(data) * (len(data) - 1)
    with output.progress(steps) as progress:
        found = run_backtest(
            data,
            plan,
            policy=loaded.policy(),
            trusted_types=trust or (),
            given=loaded.given(),
            progress=progress,
        )
    if result is not None and tested is not None:
        tested = tested.with_backtest(found)
        history = load_history(result, tested)
        with unbroken():
            save_result(tested, result, loaded.to_toml(), history)
            line = report_line(result, unwanted=no_report)

    def show(screen: Screen) -> None:
        print_backtest(screen, found, risk_name(plan))
        if result is not None:
            screen.say(f"\n{line}")

    output.answer(backtest_to_json(found), show, result)
    if found.verdict == "failed":
        raise Exit(EXIT_BROKEN)

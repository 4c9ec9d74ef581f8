"""``fedcsa update RESULT OUTCOMES``."""

from __future__ import annotations

from typing import Annotated

from click.exceptions import Exit

from fedcsa.cli.common import (
    EXIT_BROKEN,
    Output,
    ResultFolder,
    Screen,
    argument,
    follow,
    open_result,
    option,
    place_of,
    shown_place,
    unbroken,
)
from fedcsa.cli.report_command import report_line
from fedcsa.words import counted


def update(
    output: Output,
    result: ResultFolder,
    outcomes: Annotated[
        list[str],
        argument(
            metavar="OUTCOMES",
            help="Tables with all outcomes so far, or with --query a database. An empty cell is "
            "an outcome that is still to come.",
        ),
    ],
    rows: Annotated[
        str,
        option(metavar="ROWS", help="The target's rows, if OUTCOMES has ids but not the features."),
    ] = "",
    anew: Annotated[
        bool,
        option("--anew", help="Forget earlier updates of this result, but not its lists."),
    ] = False,
    query: Annotated[
        str, option("--query", metavar="SQL", help="The query, if OUTCOMES is a database.")
    ] = "",
    sheet: Annotated[
        str, option("--sheet", metavar="NAME", help="The sheet, if OUTCOMES is a workbook.")
    ] = "",
) -> None:
    """Bring outcomes of some of the target's rows into the answer: number, model and verdict.

    One outcome is enough, and many are better. Reads the result folder and tables; writes
    updates.json and the report into the folder, and nothing leaves this machine. Every update
    takes all outcomes so far. Rows of a list that fedcsa followup drew keep its weights; other
    rows are compared with the target's Table 1, and weighted if they differ. From then on,
    fedcsa predict uses the corrected model, and wider intervals per patient if too few outcomes
    lie in theirs. Exit code 6 if the verdict is now not to use the model, corrected or not; else
    7 if the promise was broken: the risk on the outcomes lies outside the promised interval, its
    own sampling error allowed for.

    Examples
    --------
    fedcsa update result charts.csv
    fedcsa update result march.csv april.csv
    fedcsa update result outcomes.csv --rows new.csv     # ids and outcomes only
    fedcsa update result outcomes.csv --quiet || echo "look closer"
    """
    from fedcsa.answer.store import load_history, plain, save_history
    from fedcsa.answer.terminal import print_update
    from fedcsa.answer.updated import ShownUpdate
    from fedcsa.outcomes import bring_in
    from fedcsa.study.outcome_tables import read_labelled, read_target_rows

    places = [place_of(table, query, sheet) for table in outcomes]
    with output.working(f"reading {', '.join(map(shown_place, outcomes))}"):
        adaptation, columns = open_result(result)
        target = read_target_rows(columns, rows) if rows else None
        came = read_labelled(columns, places, target)
    with output.working(f"bringing in {counted(len(came.y), 'outcome')}"):
        history = bring_in(
            adaptation,
            came.X,
            came.y,
            keys=came.keys,
            history=load_history(result, adaptation),
            anew=anew,
            predicted=came.predicted,
        )
    found = history.last
    assert found is not None  # noqa: S101 - it was just made
    with unbroken():
        path = save_history(history, result, adaptation)
        line = report_line(result)
    told = {"words": found.verdict.words, "still_to_come": came.n_empty}
    content = plain(found.to_json()) | told

    def show(screen: Screen) -> None:
        print_update(screen, ShownUpdate(found, adaptation.plan))
        screen.say(f"\n{line}")

    output.answer(content, show, path)
    follow(found.verdict)  # first: who must not use a model need not know about its promise
    if found.kept is False:
        raise Exit(EXIT_BROKEN)

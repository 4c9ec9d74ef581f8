"""``fedcsa followup RESULT ROWS``."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fedcsa.cli.common import (
    Output,
    ResultFolder,
    RowsPlace,
    RowsQuery,
    RowsSheet,
    Screen,
    open_result,
    option,
    out_option,
    place_of,
    shown_place,
    unbroken,
)
from fedcsa.errors import ParameterError, TableError
from fedcsa.words import number

if TYPE_CHECKING:
    from fedcsa.core.arrays import Array
    from fedcsa.core.strata import Labels
    from fedcsa.outcomes import History
    from fedcsa.plan import Plan
    from fedcsa.study.outcome_tables import NamedRows
    from fedcsa.target.adaptation import Adaptation

#: Outcomes for which the width of the interval is told, as people plan them.
SIZES = (20, 50, 100)
#: How a function begins to refuse an argument.
_PARAMETER = re.compile(r"^The '(n|seed)' parameter")


def followup(
    output: Output,
    result: ResultFolder,
    rows: RowsPlace,
    n: Annotated[int, option("--n", metavar="N", min=1, help="How many rows to draw.")] = 30,
    out: Annotated[Path, out_option("FILE", "The list, CSV or Parquet.")] = Path("followup.csv"),
    seed: Annotated[int, option(metavar="SEED", help="Seed; another one draws other rows.")] = 0,
    anew: Annotated[
        bool, option("--anew", help="Forget earlier lists and updates of this result.")
    ] = False,
    query: RowsQuery = "",
    sheet: RowsSheet = "",
) -> None:
    """Draw rows of the target whose outcomes are worth finding out, and say what they will tell.

    Draws at random among rows with similar predictions, so that the rows stand for all. Reads the
    result folder and a table; writes a list with the id or the number of the row, the group
    (such as a patient_id that repeats), an empty column for the outcome, how many rows each
    stands for, and what the model sees. The folder keeps digests of the ids. A second call draws
    further rows. Work down the list: its beginning is a random sample as well.

    Examples
    --------
    fedcsa followup result new.csv --n 30 --out charts.csv
    """
    from fedcsa.answer.store import load_history, save_history
    from fedcsa.data.tables import write_table
    from fedcsa.outcomes import History, expected_intervals
    from fedcsa.study.outcome_tables import ROW_NUMBER, outcome_of, read_target_rows

    if out.exists():
        raise TableError(f"{str(out)!r} already exists. Delete it or choose another name: --out")
    with output.working(f"reading {shown_place(rows)}"):
        adaptation, columns = open_result(result)
        outcome = outcome_of(columns).name
        found = read_target_rows(columns, place_of(rows, query, sheet))
    history = History() if anew else load_history(result, adaptation)
    last = history.last
    places, stands_for, history = _picked(adaptation, found, n, seed, history)
    assert history.design is not None  # noqa: S101 - it was just made
    files = (*history.design.files, str(out))
    to_come = max(len(history.design.picked), (last.n_rows if last else 0) + len(places))
    history = replace(history, design=replace(history.design, files=files))
    with unbroken():
        write_table(out, _listed(found, places, stands_for, outcome))
        try:
            save_history(history, result, adaptation)
        except OSError:  # a list whose design is lost would have no weights
            out.unlink(missing_ok=True)
            raise
    content = {
        "file": str(out),
        "rows": len(places),
        "of": len(found.X),
        "outcome": outcome,
        "row_number": found.key == ROW_NUMBER,
        "lists": [*files],
        "known": 0 if last is None else last.n_rows,
        "expected": expected_intervals(adaptation, last, {*SIZES, to_come}),
    }
    output.answer(content, lambda screen: _show(screen, content, adaptation.plan, result), out)


def _picked(
    adaptation: Adaptation, found: NamedRows, n: int, seed: int, history: History
) -> tuple[Labels, Array, History]:
    """Rows that are drawn; a refusal names the option of the command line."""
    from fedcsa.outcomes import pick_rows

    try:
        return pick_rows(
            adaptation, found.X, found.keys, n, seed=seed, history=history,
            predicted=found.predicted,
        )  # fmt: skip
    except ParameterError as error:
        raise ParameterError(_PARAMETER.sub(r"--\1", str(error))) from None


#: Why outcomes can widen an interval.
_WIDER = (
    "The promised interval holds if this site is like the sources. With outcomes it also holds if "
    "it is not, so the first ones can widen it."
)


def _listed(found: NamedRows, places: Any, stands_for: Array, outcome: str) -> dict[str, Any]:
    """The columns of the list: whom, outcome, what a row stands for, and what the model sees."""
    whom = [*filter(None, [found.key, found.group])]
    names = [name for name in found.table.column_names if name not in (*whom, outcome)]
    table = found.table.take(places)
    return {
        **{name: table.column(name) for name in whom},
        outcome: [""] * len(places),
        "stands for": stands_for,
        **{name: table.column(name) for name in names},
    }


def _show(screen: Screen, content: dict[str, Any], plan: Plan, result: Path) -> None:
    """Where the list is, and how wide the interval will be."""
    from fedcsa.answer.measure_words import loss_words_of
    from fedcsa.answer.result_tables import Table
    from fedcsa.answer.terminal import print_table

    screen.say(f"{content['rows']} of {content['of']} rows, drawn at random, in {content['file']}")
    screen.say(f"Fill in the column {content['outcome']!r}; leave it empty where it is not known.")
    if content["row_number"]:
        screen.say("Row number 1 is the first row below the header.")
    if content["expected"]:
        words = loss_words_of(plan)
        rows, before = [], content["known"]
        width = content["expected"][0]["upper"] - content["expected"][0]["lower"]
        for line in content["expected"]:
            ends = words.between(line["lower"], line["upper"])
            share = number((line["upper"] - line["lower"]) / width if width > 0.0 else None)
            n = line["outcomes"]
            when = f"{n}, now" if n and n == before else f"{n}" if n else "none, as promised"
            rows.append((when, ends, share))
        screen.print()
        title = f"How wide the interval will be: {words.title}"
        print_table(screen, Table(title, ("outcomes", "interval", "of the promised"), rows, ()))
        if any(line["upper"] - line["lower"] > width for line in content["expected"]):
            screen.say(_WIDER)
    then = " ".join(["fedcsa update", str(result), *content["lists"]])
    screen.say(f"\nThen: {then}")

"""``fedcsa followup RESULT ROWS``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from fedcsa.cli.common import (
    Json,
    Output,
    Quiet,
    ResultFolder,
    RowsPlace,
    RowsQuery,
    RowsSheet,
    named_errors,
    out_option,
    place_of,
    shown_place,
    unbroken,
    working,
)
from fedcsa.cli.predict_command import result_study
from fedcsa.errors import TableError

if TYPE_CHECKING:
    from fedcsa.core.arrays import Array
    from fedcsa.study.outcome_tables import NamedRows

#: Outcomes for which the width of the interval is told, as people plan them.
SIZES = (20, 50, 100)


@named_errors
def followup(
    result: ResultFolder,
    rows: RowsPlace,
    n: Annotated[int, typer.Option("--n", metavar="N", min=1, help="How many rows to draw.")] = 30,
    out: Annotated[Path, out_option("FILE", "The list, CSV or Parquet.")] = Path("followup.csv"),
    seed: Annotated[int, typer.Option(metavar="SEED", help="Another one draws other rows.")] = 0,
    anew: Annotated[
        bool, typer.Option("--anew", help="Forget earlier lists and updates of this result.")
    ] = False,
    query: RowsQuery = "",
    sheet: RowsSheet = "",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw rows of the target whose outcomes are worth finding out, and say what they will tell.

    Draws at random among rows with similar predictions, so that the rows stand for all. Reads the
    result folder and a table; writes a list with the id, an empty column for the outcome, how many
    rows each stands for, and what the model sees. The folder keeps digests of the ids. A second
    call draws further rows. Work down the list: its beginning is a random sample as well.

    Examples
    --------
    fedcsa followup result new.csv --n 30 --out charts.csv
    """
    from fedcsa.answer.store import load_history, load_result, save_history
    from fedcsa.data.tables import write_table
    from fedcsa.outcomes import History, pick_rows
    from fedcsa.study.outcome_tables import read_target_rows

    if out.exists():
        raise TableError(f"{str(out)!r} already exists. Delete it or choose another name: --out")
    with working(f"reading {shown_place(rows)}", quiet=quiet):
        adaptation = load_result(result)
        study = result_study(result, adaptation)
        found = read_target_rows(study, place_of(rows, query, sheet))
    history = History() if anew else load_history(result, adaptation)
    places, stands_for, history = pick_rows(
        adaptation, found.X, found.keys, n, seed=seed, history=history, predicted=found.predicted
    )
    with unbroken():
        write_table(out, _listed(found, places, stands_for, study.outcome.name))
        try:
            save_history(history, result, adaptation)
        except OSError:  # a list whose design is lost would have no weights
            out.unlink(missing_ok=True)
            raise
    content = {
        "file": str(out),
        "rows": len(places),
        "of": len(found.X),
        "outcome": study.outcome.name,
        "expected": _expected(adaptation),
    }
    Output(json, quiet).answer(content, lambda screen: _show(screen, content, result), out)


def _listed(found: NamedRows, places: Any, stands_for: Array, outcome: str) -> dict[str, Any]:
    """The columns of the list: id, outcome, what a row stands for, and what the model sees."""
    names = [name for name in found.table.column_names if name not in (found.key, outcome)]
    table = found.table.take(places)
    return {
        found.key: table.column(found.key),
        outcome: [""] * len(places),
        "stands for": stands_for,
        **{name: table.column(name) for name in names},
    }


def _expected(adaptation: Any) -> list[dict[str, float]]:
    """The interval of the loss, as people read it, for a few numbers of outcomes."""
    from fedcsa.target.realised_measures import in_units
    from fedcsa.update import expected_interval

    if adaptation.promise is None:
        return []
    found = []
    promise = adaptation.promise
    spans = {0: (promise.risk, promise.lower, promise.upper)}
    spans |= {n: expected_interval(adaptation, float(n)) for n in SIZES}
    for n, three in spans.items():
        estimate, lower, upper = (in_units(adaptation.plan, value) for value in three)
        found.append({"outcomes": n, "estimate": estimate, "lower": lower, "upper": upper})
    return found


def _show(screen: Console, content: dict[str, Any], result: Path) -> None:
    """Where the list is, and how narrow the interval will be."""
    from fedcsa.answer.result_tables import Table
    from fedcsa.answer.store import load_result
    from fedcsa.answer.terminal import print_table
    from fedcsa.answer.view import loss_words_of

    many = f"{content['rows']} of {content['of']} rows, drawn at random, in {content['file']}"
    screen.print(Text(many), soft_wrap=True)
    told = f"Fill in the column {content['outcome']!r}; leave it empty where nobody knows."
    screen.print(Text(told), soft_wrap=True)
    if content["expected"]:
        words = loss_words_of(load_result(result).plan)
        rows = []
        width = content["expected"][0]["upper"] - content["expected"][0]["lower"]
        for line in content["expected"]:
            ends = words.between(line["lower"], line["upper"])
            share = f"{(line['upper'] - line['lower']) / width:.2f}" if width > 0.0 else "—"
            rows.append((f"{line['outcomes']}" if line["outcomes"] else "none yet", ends, share))
        screen.print()
        title = f"How narrow the interval will be: {words.title}"
        print_table(screen, Table(title, ("outcomes", "interval", "of the promised"), rows, ()))
    screen.print(Text(f"\nThen: fedcsa update {result} {content['file']}"), soft_wrap=True)

"""``fedcsa predict RESULT ROWS``."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import click

from fedcsa.cli.common import (
    Output,
    ResultFolder,
    RowsPlace,
    RowsQuery,
    RowsSheet,
    open_result,
    option,
    out_option,
    place_of,
    print_json,
    shown_place,
    warn,
)
from fedcsa.words import count, counted

#: Features that lie far outside are named up to so many: a table in other units would have all.
MOST_WARNED = 3


def predict(
    output: Output,
    result: ResultFolder,
    rows: RowsPlace,
    out: Annotated[
        Path | None, out_option("FILE", "CSV or Parquet file; by default CSV on standard output.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        option(metavar="COLUMN", help="A column of ROWS to keep; repeat it, or say all."),
    ] = None,
    interval: Annotated[
        str | None,
        option(
            metavar="LEVEL",
            help="Add an interval, or a set of classes, that holds for this share of patients.",
        ),
    ] = None,
    query: RowsQuery = "",
    sheet: RowsSheet = "",
) -> None:
    """Predict new rows with the model of a result.

    Reads the result folder and a table; the columns may come in any order, among others. The
    table may be of any length. Predictions keep the order of the rows. They begin with the study's
    id and its group (such as a patient_id that repeats), where ROWS has one. A classifier adds
    a column of probabilities per class.
    With --interval 0.9, nine of ten outcomes lie between 'lower' and 'upper', and nine of ten
    patients of every class have 'possible=CLASS' true. An end is empty if too few rows of the
    sources stand behind it. A warning says so if the verdict is not to use the model, if outcomes
    contradicted the intervals at an update, or if rows lie far outside what the study saw.

    Examples
    --------
    fedcsa predict result new-patients.csv > predictions.csv
    fedcsa predict result new-patients.csv --interval 0.9
    fedcsa predict result new-patients.parquet --keep all --out p.parquet
    fedcsa predict result db.duckdb --query "SELECT * FROM t ORDER BY id"
    """
    from fedcsa.answer.store import load_history
    from fedcsa.data.tables import open_table
    from fedcsa.study.predicting import FAR_SDS, predicted_batches

    level = None if interval is None else _level_of(interval)
    where = place_of(rows, query, sheet)
    (adaptation, columns), far = open_result(result), Counter[str]()
    with output.working(f"predicting {shown_place(rows)}") as say:
        pieces = predicted_batches(
            columns, adaptation, where, keep=keep or (), level=level, far=far
        )
        with closing(pieces):
            told = _told(pieces, open_table(where).n_rows(), say)
            _write(output, told, out)
    last = load_history(result, adaptation).last
    verdict = adaptation.verdict if last is None else last.verdict
    if verdict.advice == "no":
        warn(f"The verdict on this model is 'do not use it': {verdict.sentence}.")
    for finding in last.findings if last is not None and level is not None else ():
        if finding.code == "intervals-narrow":
            warn(f"{finding}.")
    for feature, n_rows in far.most_common(MOST_WARNED):
        warn(
            f"{feature!r} lies more than {FAR_SDS:g} sds from the target's mean in "
            f"{counted(n_rows, 'row')}. Check its unit and these cells before you use the "
            "predictions."
        )


def _level_of(text: str) -> float:
    """The level of an interval."""
    try:
        level = float(text)
    except ValueError:
        level = math.nan
    if not 0.0 < level < 1.0:
        wrong = f"--interval must be between 0 and 1, such as 0.9; it is {text}."
        raise click.UsageError(wrong)
    return level


def _told(
    pieces: Iterable[Mapping[str, Any]], n_rows: int | None, say: Callable[[str], None]
) -> Iterator[Mapping[str, Any]]:
    """The same pieces, after each of which is said how many rows are done, and of how many."""
    done, of = 0, "" if n_rows is None else f" of {count(n_rows)}"
    for piece in pieces:
        yield piece
        done += len(piece["prediction"])
        say(f"{count(done)}{of} rows")


def _write(output: Output, pieces: Iterable[Mapping[str, Any]], out: Path | None) -> None:
    """Write predictions to a file, or all at once as JSON, or as CSV to standard output."""
    from fedcsa.data.tables import TableWriter, writing_table

    if out is None and output.json:
        print_json(_joined(pieces))
    elif out is None:
        with closing(TableWriter(sys.stdout.buffer, ".csv")) as writer:
            for piece in pieces:
                writer.write(piece)
    else:
        n_rows = 0
        with writing_table(out) as writer:
            for piece in pieces:
                writer.write(piece)
                n_rows += len(piece["prediction"])
        output.tell({"file": str(out), "rows": n_rows}, f"{n_rows} predictions in {out}", out)


def _joined(pieces: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """All pieces as lists of plain values."""
    columns: dict[str, list[Any]] = {}
    for piece in pieces:
        for name, values in piece.items():
            listed = values.tolist() if hasattr(values, "tolist") else values.to_pylist()
            columns.setdefault(name, []).extend(map(_plain, listed))
    return columns


def _plain(cell: Any) -> Any:
    """A cell as JSON has it: dates and times as ISO texts, decimal numbers as texts."""
    if hasattr(cell, "isoformat"):
        return cell.isoformat()
    return str(cell) if isinstance(cell, Decimal) else cell

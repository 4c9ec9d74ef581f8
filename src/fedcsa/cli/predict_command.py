"""``fedcsa predict RESULT ROWS``."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from fedcsa.cli.common import (
    Json,
    Output,
    Quiet,
    ResultFolder,
    named_errors,
    out_option,
    print_json,
    working,
)
from fedcsa.errors import ResultError

if TYPE_CHECKING:
    from fedcsa.study import Study
    from fedcsa.target.adaptation import Adaptation


@named_errors
def predict(
    result: ResultFolder,
    rows: Annotated[
        Path, typer.Argument(metavar="ROWS", help="A table with the study's features.")
    ],
    out: Annotated[
        Path | None, out_option("FILE", "CSV or Parquet file; by default CSV on standard output.")
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            metavar="LEVEL",
            help="Add an interval, or a set of classes, that holds for this part of patients.",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict new rows with the model of a result.

    Reads the result folder and a table; the columns may come in any order and in company.
    Predictions keep the order of the rows. A classifier adds a column of probabilities per class.
    With --interval 0.9, nine of ten outcomes lie between 'lower' and 'upper', and nine of ten
    patients of every class have 'possible=CLASS' true. An end is empty if too few rows of the
    sources stand behind it.

    Examples
    --------
    fedcsa predict result new-patients.csv > predictions.csv
    fedcsa predict result new-patients.csv --interval 0.9
    fedcsa predict result new-patients.parquet --out predictions.parquet
    """
    from fedcsa.answer.store import load_result
    from fedcsa.data.tables import write_table

    with working(f"reading {rows}", quiet=quiet):
        adaptation = load_result(result)
        X = result_study(result, adaptation).read_rows(rows)
    with working(f"predicting {len(X)} rows", quiet=quiet):
        columns = _predictions(adaptation, X, interval)
        if out is not None:
            write_table(out, columns)
    if out is not None:
        Output(json, quiet).answer(
            {"file": str(out), "rows": len(X)},
            lambda screen: screen.print(Text(f"{len(X)} predictions in {out}"), soft_wrap=True),
            out,
        )
    elif json:
        print_json(columns)
    else:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def _predictions(adaptation: Adaptation, X: Any, level: float | None) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {"prediction": adaptation.predict(X).tolist()}
    classes = adaptation.plan.classes
    if classes:
        columns |= _by_class("probability", classes, adaptation.predict_proba(X))
    if level is not None and classes:
        columns |= _by_class("possible", classes, adaptation.predict_set(X, level))
    elif level is not None:
        ends = adaptation.predict_interval(X, level).T.tolist()
        for name, values in zip(("lower", "upper"), ends, strict=True):
            columns[name] = [value if isfinite(value) else None for value in values]
    return columns


def _by_class(what: str, classes: Sequence[Any], values: Any) -> dict[str, list[Any]]:
    """One column a class."""
    columns = zip(classes, values.T.tolist(), strict=True)
    return {f"{what}={label}": column for label, column in columns}


def result_study(result: Path, adaptation: Adaptation) -> Study:
    """The study that a result came from: it knows how tables are read."""
    from fedcsa.study import Study

    path = result / "study.toml"
    if not path.is_file():
        raise ResultError(
            f"A result must hold the study it came from to read tables; {str(result)!r} does not. "
            "In Python: fedcsa.load_result(...).predict(X)."
        )
    study = Study.load(path)
    if study.coding.columns != adaptation.plan.features:
        raise ResultError(
            f"The result in {str(result)!r} is damaged: its study has other features. "
            "Run the study again."
        )
    return study

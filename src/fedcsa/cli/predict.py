"""``fedcsa predict RESULT ROWS``."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from fedcsa.cli.common import Json, Trust, named_errors, print_json
from fedcsa.data.tables import write_table
from fedcsa.errors import ResultError
from fedcsa.result import load_result
from fedcsa.roles.adaptation import Adaptation
from fedcsa.study import Study


@named_errors
def predict(
    result: Annotated[Path, typer.Argument(help="A result folder.")],
    rows: Annotated[Path, typer.Argument(help="A table with the study's features.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="CSV or Parquet file; by default standard output."),
    ] = None,
    trust: Trust = None,
    json: Json = False,
) -> None:
    """Predict new rows with the model of a result.

    Example: [bold]fedcsa predict result new-patients.csv --out predictions.csv[/bold]
    """
    adaptation = load_result(result, trust or ())
    X = result_study(result, adaptation).read_rows(rows)
    columns: dict[str, list[Any]] = {"prediction": adaptation.predict(X).tolist()}
    if adaptation.plan.classes:
        probabilities = adaptation.predict_proba(X)
        for position, label in enumerate(adaptation.plan.classes):
            columns[f"probability={label}"] = probabilities[:, position].tolist()
    if out is not None:
        write_table(out, columns)
    elif json:
        print_json(columns)
    else:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def result_study(result: Path, adaptation: Adaptation) -> Study:
    """The study that a result came from: it knows how tables are read."""
    path = result / "study.toml"
    if not path.is_file():
        raise ResultError(
            f"A result must hold the study it came from to read tables; {str(result)!r} does not. "
            "In Python: fedcsa.load_result(...).predict(X)."
        )
    study = Study.load(path)
    if study.coding.columns != adaptation.plan.features:
        raise ResultError(
            f"The result in {str(result)!r} is damaged: its study has other features."
        )
    return study

"""``fedcsa table ROWS``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedcsa.cli.common import Json, Output, Quiet, named_errors, working
from fedcsa.words import printable

if TYPE_CHECKING:
    from fedcsa.core.arrays import Array
    from fedcsa.core.table import Table1
    from fedcsa.data.coding import Coding


@named_errors
def table(
    rows: Annotated[
        Path, typer.Argument(metavar="ROWS", help="A table of the target's rows: CSV or Parquet.")
    ],
    study: Annotated[
        Path | None,
        typer.Option(
            metavar="STUDY", help="The study file that describes the columns; by default numbers."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="CSV file to write the table to."),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show the rounded Table 1 that a target tells the sources, and write it.

    Reads a table and, if given, a study file that describes its columns. A study may name the
    written file as the target's table1, in place of its rows.

    Examples
    --------
    fedcsa table patients.csv --study study.toml
    fedcsa table patients.csv --study study.toml --out table1.csv
    fedcsa table numbers.parquet --json   # every column a number, or 0 and 1
    """
    from fedcsa.core.table import Table1
    from fedcsa.data.table1 import write_table1

    with working(f"reading {rows}", quiet=quiet):
        coding, X = _read(rows, study)
    told = Table1.of(X, coding.columns, coding.flags, coding.public_sd)
    if out is not None:
        write_table1(out, told, coding)
    warnings = [*_warnings(X, coding)]
    content = {
        "n_rows": told.n_rows,
        "columns": [line.content for line in _lines(told, coding) if line.told],
        "correlations": _pairs(told),
        "n_numbers": told.n_numbers,
        "warnings": warnings,
        "file": None if out is None else str(out),
    }

    def show(screen: Console) -> None:
        _print(screen, told, coding)
        for warning in warnings:
            screen.print(Text.assemble(("warning: ", "yellow"), printable(warning)), soft_wrap=True)
        if out is not None:
            screen.print(Text(f"\nTable 1 in {out}"), soft_wrap=True)

    Output(json, quiet).answer(content, show, out)


def _read(rows: Path, study: Path | None) -> tuple[Coding, Array]:
    """How the columns are described, and the rows by it."""
    from fedcsa.data.coding import guess_columns
    from fedcsa.data.tables import read_table
    from fedcsa.study import Study

    if study is not None:
        loaded = Study.load(study)
        return loaded.coding, loaded.read_rows(rows)
    where = f"the table {str(rows)!r}"
    found = read_table(rows)
    coding = guess_columns(found, where)
    return coding, coding.encode(found, where, with_outcome=False)[0]


@dataclass(frozen=True)
class _Line:
    """One line of the printed table: a number, a flag, or a level below its feature."""

    label: str
    value: str
    content: dict[str, Any]
    told: bool = True  # the first level is not: it follows from the others


def _lines(told: Table1, coding: Coding) -> Iterator[_Line]:
    """The table in the order of the features."""
    values = dict(zip(told.features, zip(told.flags, told.mean, told.sd, strict=True), strict=True))
    for feature in coding.features:
        if feature.levels:
            first = max(0.0, 1.0 - sum(float(values[c][1]) for c in feature.columns))
            yield _Line(feature.name, "", {}, told=False)
            yield _Line(f"  {feature.levels[0]}", _percent(first), {}, told=False)
        for column in feature.columns:
            flag, mean, sd = values[column]
            level = column[len(feature.name) + 1 :]
            name = {"feature": feature.name, **({"level": level} if level else {})}
            label = f"  {level}" if level else feature.name
            if flag:
                yield _Line(label, _percent(mean), {**name, "share": round(float(mean), 2)})
            else:
                content = {**name, "mean": float(mean), "sd": float(sd)}
                yield _Line(label, f"{_to_step(mean, sd)} ({_plain(sd)})", content)


def _print(screen: Console, told: Table1, coding: Coding) -> None:
    shown = Table(title=f"Table 1, n = {told.n_rows}", title_justify="left", title_style="bold")
    shown.add_column("feature")
    shown.add_column("mean (sd) or share", justify="right")
    for line in _lines(told, coding):
        shown.add_row(Text(printable(line.label)), line.value)
    screen.print(shown)
    pairs = _pairs(told)
    if pairs:
        listed = "; ".join(f"{p['feature']} and {p['with']} {p['correlation']:.2f}" for p in pairs)
        screen.print(Text(printable(f"Correlations: {listed}.")), soft_wrap=True)
    else:
        screen.print(Text(f"Correlations are not told: {_reason(told)}."), soft_wrap=True)


def _pairs(told: Table1) -> list[dict[str, Any]]:
    if told.correlations is None:
        return []
    names, R = told.features, told.correlations
    return [
        {"feature": names[i], "with": names[j], "correlation": float(R[i, j])}
        for i in range(len(names))
        for j in range(i + 1, len(names))
    ]


def _reason(told: Table1) -> str:
    from fedcsa.core.table import MAX_CORRELATED

    if any(told.flags):
        return "not all columns are numbers"
    d = len(told.features)
    if d == 1:
        return "there is one column"
    return f"more than {MAX_CORRELATED} columns" if d > MAX_CORRELATED else "too few rows"


def _warnings(X: Array, coding: Coding) -> Iterator[str]:
    """A sentence for every flag or level that some, but few, patients have."""
    from fedcsa.target.announce import SMALL_LEVEL

    counts = dict(zip(coding.columns, X.sum(axis=0), strict=True))
    few = [c for c, flag in zip(coding.columns, coding.flags, strict=True) if flag]
    for feature in coding.features:
        if feature.levels:
            first = f"{feature.name}={feature.levels[0]}"
            counts[first] = len(X) - sum(counts[column] for column in feature.columns)
            few.append(first)
    for column in few:
        if 0 < counts[column] < SMALL_LEVEL:
            yield (
                f"Fewer than {SMALL_LEVEL} patients have {column!r}. Between sites it is not told: "
                "merge it with another level, or leave it out."
            )


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"


def _to_step(mean: float, sd: float) -> str:
    """A mean with as many digits as are told, a hundredth of the sd."""
    digits = max(0, math.ceil(-math.log10(0.01 * sd) - 1e-9))
    return f"{mean:.{digits}f}" if digits <= 12 and abs(mean) < 1e12 else f"{mean:.6g}"


def _plain(sd: float) -> str:
    """Two digits without an exponent, where that is short.

    >>> _plain(110.0), _plain(0.013), _plain(2.5e-9)
    ('110', '0.013', '2.5e-09')
    """
    return f"{sd:.0f}" if 10.0 <= sd < 1e12 else f"{sd:.2g}"

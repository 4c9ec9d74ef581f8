"""``fedcsa table ROWS``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table
from rich.text import Text

from fedcsa.cli.common import (
    Output,
    RowsPlace,
    RowsQuery,
    RowsSheet,
    Screen,
    option,
    out_option,
    place_of,
    shown_place,
)
from fedcsa.errors import StudyError
from fedcsa.words import listed, number, percent, printable

if TYPE_CHECKING:
    from fedcsa.core.table import Moments, Table1
    from fedcsa.data.coding import Columns
    from fedcsa.data.table_file import AnyTable
    from fedcsa.data.tables import Where

#: Rows that tell what the columns are: more would take memory, and seldom tell anything else.
FIRST_ROWS = 100_000
NO_CORRELATIONS = (
    "Correlations are not told: they need two to ten columns, all numbers, and ten rows for every "
    "told number."
)


def table(
    output: Output,
    rows: RowsPlace,
    study: Annotated[
        Path | None,
        option(
            metavar="STUDY",
            help="The study file that describes the columns; by default they are guessed.",
        ),
    ] = None,
    out: Annotated[Path | None, out_option("FILE", "CSV file to write the table to.")] = None,
    query: RowsQuery = "",
    sheet: RowsSheet = "",
) -> None:
    """Show the rounded Table 1 that a target tells the sources, and write it.

    Reads a table and, if given, a study file that describes its columns. Without one the first
    100,000 rows show what each column is, and notes say what they do not show; then no file that
    names levels is written. A study may name the written file as the target's table1, in place
    of its rows.

    Examples
    --------
    fedcsa table patients.csv --study study.toml
    fedcsa table patients.csv --study study.toml --out table1.csv
    fedcsa table patients.parquet --json   # columns are what they look like
    """
    from fedcsa.core.table import Table1
    from fedcsa.data.table1 import write_table1
    from fedcsa.messages.policy import Policy

    with output.working(f"reading {shown_place(rows)}"):
        coding, found = _read(place_of(rows, query, sheet), study)
    if out is not None and study is None:
        _require_no_own_levels(coding)
    columns, flags, public = coding.columns, coding.flags, coding.public_sd
    told = Table1.of(found, columns, flags, public, Policy.min_level_rows)
    if out is not None:
        write_table1(out, told, coding)
    content = {
        "n_rows": told.n_rows,
        "columns": _columns(told, coding),
        "correlations": _pairs(told),
        "n_numbers": told.n_numbers,
        "notes": list(coding.notes),
        "warnings": [*_warnings(found, coding)],
        "file": None if out is None else str(out),
    }
    output.answer(content, partial(_print, content, coding), out)


def _read(where: Where, study: Path | None) -> tuple[Columns, Moments]:
    """How the columns are described, by a study or by what they look like, and their sums."""
    from fedcsa.core.table import moments_of
    from fedcsa.data.streams import RowStream, TableStream
    from fedcsa.data.tables import open_table, words_of
    from fedcsa.study import Study

    described = None if study is None else Study.load(study).coding
    table = open_table(where)
    coding = described or _proposed(table, words_of(where))
    stream = TableStream(table, coding, where=words_of(where), with_outcome=False)
    return coding, moments_of(RowStream(stream), len(coding.columns))


def _require_no_own_levels(coding: Columns) -> None:
    """Raise a `StudyError` if a file would hold names of levels that nobody agreed on."""
    own = [repr(feature.name) for feature in coding.features if feature.levels]
    if own:
        raise StudyError(
            f"Describe the levels of {listed(own)} in a study file, and name it with --study: "
            "without one the file would hold names that come from patients' cells, and a rare one "
            "may reveal a patient."
        )


def _proposed(table: AnyTable, words: str) -> Columns:
    """What the columns look like in the first rows."""
    import pyarrow as pa

    from fedcsa.data.coding import Columns, no_rows

    first: list[pa.RecordBatch] = []
    with closing(table.pieces()) as pieces:
        for piece in pieces:
            first.append(piece)
            if sum(part.num_rows for part in first) >= FIRST_ROWS:
                break
    rows = pa.Table.from_batches(first)[:FIRST_ROWS] if first else None
    if not rows:
        raise no_rows(words)
    return Columns.infer({"the table": rows})


def _columns(told: Table1, coding: Columns) -> list[dict[str, Any]]:
    """Every told column: of which feature and level, and its share, or its mean and sd."""
    spots = [(f.name, column[len(f.name) + 1 :]) for f in coding.features for column in f.columns]
    return [
        {
            "feature": name,
            **({"level": level} if level else {}),
            **({"share": round(float(m), 2)} if flag else {"mean": float(m), "sd": float(s)}),
        }
        for (name, level), flag, m, s in zip(spots, told.flags, told.mean, told.sd, strict=True)
    ]


def _pairs(told: Table1) -> list[dict[str, Any]]:
    if told.correlations is None:
        return []
    names, R = told.features, told.correlations
    return [
        {"feature": names[i], "with": names[j], "correlation": float(R[i, j])}
        for i, j in combinations(range(len(names)), 2)
    ]


def _warnings(found: Moments, coding: Columns) -> Iterator[str]:
    """A sentence for every flag or level that some, but few, patients have."""
    from fedcsa.target.target_rows import SMALL_LEVEL

    counts = dict(zip(coding.columns, found.total, strict=True))
    for feature in coding.features:
        own = {c: counts[c] for c, flag in zip(feature.columns, feature.flags, strict=True) if flag}
        if feature.levels:
            own[f"{feature.name}={feature.levels[0]}"] = found.n_rows - sum(own.values())
        for column in (column for column, count in own.items() if 0 < count < SMALL_LEVEL):
            yield (
                f"Fewer than {SMALL_LEVEL} patients have {column!r}. It counts as having none"
                f"{': they are counted with another level' if feature.levels else ''}."
            )


def _print(content: dict[str, Any], coding: Columns, screen: Screen) -> None:
    title = f"Table 1, n = {content['n_rows']}"
    shown = Table(title=title, title_justify="left", title_style="bold")
    shown.add_column("feature")
    shown.add_column("mean (sd) or share", justify="right")
    for feature in coding.features:
        lines = [line for line in content["columns"] if line["feature"] == feature.name]
        if feature.levels:  # the first is not told: it follows from the others
            first = max(0.0, 1.0 - sum(line["share"] for line in lines))
            shown.add_row(Text(printable(feature.name)), "")
            shown.add_row(Text(printable(f"  {feature.levels[0]}")), percent(first))
        for line in lines:
            label = f"  {line['level']}" if "level" in line else feature.name
            shown.add_row(Text(printable(label)), _value(line))
    screen.print(shown)
    pairs = [
        f"{p['feature']} and {p['with']} {p['correlation']:.2f}" for p in content["correlations"]
    ]
    told = f"Correlations: {'; '.join(pairs)}." if pairs else NO_CORRELATIONS
    screen.say(printable(told))
    for note in content["notes"]:
        screen.say(printable(note), "note: ", "yellow")
    for warning in content["warnings"]:
        screen.say(printable(warning), "warning: ", "yellow")
    if content["file"] is not None:
        screen.say(f"\nTable 1 in {content['file']}")


def _value(line: dict[str, Any]) -> str:
    """A share, or a mean with as many digits as are told, a hundredth of the sd.

    >>> _value({"share": 0.4}), _value({"mean": 63.1415, "sd": 11.0})
    ('40 %', '63.1 (11)')
    """
    if "share" in line:
        return percent(line["share"])
    mean, sd = line["mean"], line["sd"]
    digits = max(0, math.ceil(-math.log10(0.01 * sd) - 1e-9))
    short = digits <= 12 and abs(mean) < 1e12
    return f"{mean:.{digits}f} ({number(sd)})" if short else f"{mean:.6g} ({number(sd)})"

"""A Table 1 as a CSV file, typed in from a paper or written by a target.

::

    feature,level,mean,sd,n
    age,,63.2,11.4,1230
    smoker,,0.31,,
    stage,II,0.42,,
    stage,III,0.17,,

One line a number (mean and sd), one a flag (its share as the mean), one a level (its share). The
first level may be left out. The count of rows stands in the first line, or the same in several.
Correlations of numbers are optional, all pairs or none, in two further columns::

    feature,level,mean,sd,n,with,correlation
    age,,63.2,11.4,1230,,
    bmi,,26.1,4.3,,,
    age,,,,,bmi,0.24
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement
from pathlib import Path

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.table import TYPED_SLACK, Table1
from fedcsa.data.cells import number_of
from fedcsa.data.coding import Columns
from fedcsa.data.columns import Feature
from fedcsa.data.tables import write_table
from fedcsa.errors import DataError, TableError, hint, raise_all

COLUMNS = ("feature", "level", "mean", "sd", "n")
PAIR_COLUMNS = ("with", "correlation")
#: A Table 1 has a line a column; a longer file is something else.
MAX_TABLE_BYTES = 2**20


def read_table1(path: str | Path, coding: Columns) -> Table1:
    """The Table 1 in a CSV file, rounded and floored as a target's own.

    Parameters
    ----------
    path : str or Path
    coding : Columns
        How the study describes its columns.

    Raises
    ------
    TableError
        If the file is not there or not a text.
    DataError
        With one line for everything that is wrong with it; no cell is quoted.
    """
    where = f"The Table 1 {str(path)!r}"
    problems: list[str] = []
    numbers = {name for name, flag in zip(coding.columns, coding.flags, strict=True) if not flag}
    known = [column for f in coding.features for column in (*_first(f), *f.columns)]
    told: dict[str, tuple[float, float]] = {}
    counts: set[float] = set()
    pairs: dict[tuple[str, str], float] = {}
    for line in _lines(Path(path), where, problems):
        if line.has("n"):
            counts.add(line.number("n"))
        if line.has(*PAIR_COLUMNS):
            _take_pair(line, numbers, pairs)
        elif column := line.column(known):
            if column in told:
                line.say(f"{column!r} must have one line; it has two. Delete one.")
            if column not in numbers and line.has("sd"):
                line.say(f"The sd of {column!r} must be empty: a share determines it.")
            sd = line.number("sd") if column in numbers else 0.0
            told[column] = line.number("mean"), sd
    whole = [*_gaps(coding, told, counts)]
    correlations = _correlations(coding, pairs, whole)
    problems += [f"{where}: {problem}" for problem in whole]
    raise_all(problems, DataError)
    n = counts.pop()
    n_rows = int(n) if n == int(n) else 0  # which is refused
    columns, flags, public = coding.columns, coding.flags, coding.public_sd
    mean, sds = zip(*(told[column] for column in columns), strict=True)
    try:
        return Table1.typed(n_rows, columns, flags, mean, sds, public, correlations)
    except DataError as error:
        lines = str(error).splitlines()
        raise DataError("\n".join(f"{where}: {line}" for line in lines)) from None


def write_table1(path: str | Path, table: Table1, coding: Columns) -> None:
    """Write a CSV file that `read_table1` reads as `table`, to the bit.

    Parameters
    ----------
    path : str or Path
        Ends with .csv. An existing file is replaced, but only once the new one is whole.
    table : Table1
    coding : Columns
        How the columns of `table` are described.
    """
    if Path(path).suffix.lower() != ".csv":
        raise TableError(f"A Table 1 must be written as CSV; {str(path)!r} has another ending.")
    if coding.columns != table.features:
        raise DataError("A Table 1 must have the columns that are described; it has others.")
    spots = [(f.name, column[len(f.name) + 1 :]) for f in coding.features for column in f.columns]
    lines = [
        [*spot, _digits(mean, sd), "" if flag else _digits(sd, sd), "", "", ""]
        for spot, flag, mean, sd in zip(spots, table.flags, table.mean, table.sd, strict=True)
    ]
    lines[0][4] = str(table.n_rows)
    if table.correlations is not None:
        names, R = table.features, table.correlations
        # On the diagonal stands what rounding the sd does, so that all is as it was.
        pairs = combinations_with_replacement(range(len(names)), 2)
        lines += [[names[i], "", "", "", "", names[j], f"{R[i, j]:.2f}"] for i, j in pairs]
    header = COLUMNS if table.correlations is None else (*COLUMNS, *PAIR_COLUMNS)
    columns = {name: [line[place] for line in lines] for place, name in enumerate(header)}
    write_table(path, columns)


def _digits(value: float, sd: float) -> str:
    """`value` without the rounding error of its last bit, which rounding to the step gives back."""
    return f"{value:.15g}" if abs(value) < 1e10 * sd else repr(float(value))


def _first(feature: Feature) -> tuple[str, ...]:
    """The first level, which has no column and may be left out."""
    return tuple(f"{feature.name}={level}" for level in feature.levels[:1])


@dataclass(frozen=True)
class _Line:
    """The cells of a line by column, and the place to say what is wrong with them."""

    where: str
    cells: dict[str, str]
    problems: list[str]

    def say(self, problem: str) -> None:
        self.problems.append(f"{self.where}: {problem}")

    def has(self, *keys: str) -> bool:
        return any(self.cells.get(key, "").strip() for key in keys)

    def number(self, key: str) -> float:
        value = number_of(self.cells.get(key, ""))
        if value is not None:
            return value
        self.say(
            f"{key!r} must be a number with a point as the decimal sign, a share between 0 and 1 "
            f"without a percent sign; it is {'text' if self.has(key) else 'empty'}."
        )
        return math.nan

    def column(self, known: Collection[str]) -> str:
        """The column that the line is about, found with or without blanks around its name."""
        name, level = self.cells.get("feature", ""), self.cells.get("level", "")
        for own, its in ((name, level), (name.strip(), level.strip())):
            column = f"{own}={its}" if its else own
            if column in known:
                return column
        self.say(f"Feature and level must name a column of the study. {hint(column, known)}")
        return ""


def _lines(path: Path, where: str, problems: list[str]) -> list[_Line]:
    """Every line that holds something."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_TABLE_BYTES + 1)
        text = io.StringIO(content.decode("utf-8-sig"), newline="")
        header, *rows = csv.reader(text, strict=True)
        names = [cell.strip() for cell in header]
        known = sorted(names) in (sorted(COLUMNS), sorted(COLUMNS + PAIR_COLUMNS))
        if len(content) > MAX_TABLE_BYTES or not known:
            raise ValueError
        return [  # a line may end early, but not late
            _Line(
                f"{where}, line {number}",
                dict(zip(names, cells, strict=len(cells) > len(names))),
                problems,
            )
            for number, cells in enumerate(rows, start=2)
            if any(map(str.strip, cells))
        ]
    except (OSError, ValueError, csv.Error) as error:
        raise TableError(
            f"{where} must be a short CSV file in UTF-8 that begins with the line "
            f"{','.join(COLUMNS)} (and {','.join(PAIR_COLUMNS)} for correlations), no line longer "
            f"than that, quotation marks in pairs. It cannot be read ({type(error).__name__}). "
            "Correct it, or the path."
        ) from None


def _take_pair(line: _Line, numbers: set[str], pairs: dict[tuple[str, str], float]) -> None:
    """Add the correlation that a line gives, in both orders."""
    if line.has("level", "mean", "sd"):
        line.say("A correlation needs a line of its own, without level, mean and sd.")
    given = [line.cells.get(key, "") for key in ("feature", "with")]
    one, other = (name if name in numbers else name.strip() for name in given)
    if not {one, other} <= numbers:
        line.say("A correlation must name two columns of the study that are numbers.")
        return
    if (one, other) in pairs:
        line.say(f"The correlation of {one!r} and {other!r} is given twice.")
    pairs[one, other] = pairs[other, one] = line.number("correlation")


def _gaps(
    coding: Columns, told: dict[str, tuple[float, float]], counts: set[float]
) -> Iterator[str]:
    """A sentence for everything that the lines together lack."""
    lost = [repr(column) for column in coding.columns if column not in told]
    if lost:
        yield f"Every column needs a line. There is none for {', '.join(lost)}."
    if len(counts) != 1:
        yield "The number of rows must be in the column n, the same in every line that has it."
    for feature in coding.features:
        columns = (*_first(feature), *feature.columns)
        shares = [told.get(column, (math.nan, 0.0))[0] for column in columns]
        # Of a first level that is given; a sum of NaN is not compared.
        if feature.levels and abs(sum(shares) - 1.0) > TYPED_SLACK * len(shares) + 1e-9:
            yield f"The shares of all levels of {feature.name!r} must sum to 1."


def _correlations(
    coding: Columns, pairs: dict[tuple[str, str], float], problems: list[str]
) -> Array | None:
    if not pairs:
        return None
    columns = coding.columns
    if any(coding.flags):
        problems.append("Correlations must be left out: not all columns are numbers.")
        return None
    lost = [
        f"{one!r} with {other!r}"
        for one, other in combinations(columns, 2)
        if (one, other) not in pairs
    ]
    if lost:
        words = "Correlations must be given of all pairs, or of none"
        problems.append(f"{words}; missing: {', '.join(lost[:5])}.")
    return np.array([[pairs.get((a, b), float(a == b)) for b in columns] for a in columns])

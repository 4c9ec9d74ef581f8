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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.table import SLACK, Table1, value_problems
from fedcsa.data.cells import number_of
from fedcsa.data.coding import Coding
from fedcsa.data.tables import write_table
from fedcsa.errors import DataError, TableError, hint

COLUMNS = ("feature", "level", "mean", "sd", "n")
PAIR_COLUMNS = ("with", "correlation")
#: A Table 1 has a line a column; a longer file is something else.
MAX_BYTES = 2**20


def read_table1(path: str | Path, coding: Coding) -> Table1:
    """The Table 1 in a CSV file, rounded and floored as a target's own.

    Parameters
    ----------
    path : str or Path
    coding : Coding
        How the study describes its columns.

    Raises
    ------
    TableError
        If the file is not there or not a text.
    DataError
        With one line for everything that is wrong with it, by line number; no cell is quoted.
    """
    path = Path(path)
    read = _Reading(f"The Table 1 {str(path)!r}", coding)
    for number, cells in _lines(path):
        read.line(number, cells)
    return read.table()


def write_table1(path: str | Path, table: Table1, coding: Coding) -> None:
    """Write a CSV file that `read_table1` reads as `table`, to the bit.

    Parameters
    ----------
    path : str or Path
        Ends with .csv. An existing file is replaced, but only once the new one is whole.
    table : Table1
    coding : Coding
        How the columns of `table` are described.
    """
    if Path(path).suffix.lower() != ".csv":
        raise TableError(f"A Table 1 must be written as CSV; {str(path)!r} ends otherwise.")
    spots = _spots(coding)
    if tuple(spots.values()) != table.features:
        raise DataError("A Table 1 must have the columns that are described; it has others.")
    lines = [
        [*spot, _digits(mean, sd), "" if flag else _digits(sd, sd), "", "", ""]
        for spot, flag, mean, sd in zip(spots, table.flags, table.mean, table.sd, strict=True)
    ]
    lines[0][4] = str(table.n_rows)
    if table.correlations is not None:
        names, R = table.features, table.correlations
        # On the diagonal stands what rounding the sd does, so that all is as it was.
        pairs = [(i, j) for i in range(len(names)) for j in range(i, len(names))]
        lines += [[names[i], "", "", "", "", names[j], f"{R[i, j]:.2f}"] for i, j in pairs]
    header = COLUMNS if table.correlations is None else (*COLUMNS, *PAIR_COLUMNS)
    columns = {name: [line[place] for line in lines] for place, name in enumerate(header)}
    write_table(path, columns)


def _digits(value: float, sd: float) -> str:
    """`value` without the noise of its last bit, which rounding to the step gives back."""
    return f"{value:.15g}" if abs(value) < 1e10 * sd else repr(float(value))


def _spots(coding: Coding) -> dict[tuple[str, str], str]:
    """Of every (feature, level) that has a line of its own, the column of the matrix."""
    return {
        (feature.name, column[len(feature.name) + 1 :]): column
        for feature in coding.features
        for column in feature.columns
    }


def _lines(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number and cells of every line that holds something."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise TableError(
            f"The Table 1 {str(path)!r} must be there, a text in UTF-8; it is not "
            f"({type(error).__name__}). Check the path."
        ) from None
    if len(content) > MAX_BYTES:
        raise TableError(f"The Table 1 {str(path)!r} must be a short text; it is not.")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        wanted = [*COLUMNS, *PAIR_COLUMNS] if "with" in header else [*COLUMNS]
        if sorted(header) != sorted(wanted):
            raise TableError(
                f"The Table 1 {str(path)!r} must begin with the line {','.join(COLUMNS)} "
                f"(and {','.join(PAIR_COLUMNS)} for correlations), separated by commas; it does "
                "not."
            )
        for cells in reader:
            if any(map(str.strip, cells)):  # a line may end early, but not late
                yield reader.line_num, dict(zip(header, cells, strict=len(cells) > len(header)))
    except (csv.Error, ValueError):
        raise TableError(
            f"Line {reader.line_num} of the Table 1 {str(path)!r} must be as long as the first, "
            "quotation marks in pairs; it is not. Correct it."
        ) from None


@dataclass
class _Reading:
    """What has been read of a Table 1, and everything that is wrong with it."""

    where: str
    coding: Coding
    problems: list[str] = field(default_factory=list)
    means: dict[str, float] = field(default_factory=dict)
    sds: dict[str, float] = field(default_factory=dict)
    counts: list[float] = field(default_factory=list)
    pairs: dict[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.spots = _spots(self.coding)
        self.flags = dict(zip(self.coding.columns, self.coding.flags, strict=True))
        self.firsts = {f.name: f"{f.name}={f.levels[0]}" for f in self.coding.features if f.levels}

    def line(self, number: int, cells: Mapping[str, str]) -> None:
        """Take one line."""
        cells = {key: cells.get(key, "") for key in (*COLUMNS, *PAIR_COLUMNS)}
        given = {key for key, cell in cells.items() if cell.strip()}
        if "n" in given:
            self._count(number, cells["n"])
        if given & {"with", "correlation"}:
            if given & {"level", "mean", "sd"}:
                self._say(number, "A correlation must have a line of its own; it has not.")
            self._pair(number, cells)
            return
        column = self._column(number, cells["feature"], cells["level"])
        if column is None:
            return
        if column in self.means:
            self._say(number, f"{column!r} must have one line; it has two. Delete one.")
            return
        is_flag = self.flags.get(column, True)  # the first level has no column
        self.means[column] = mean = self._number(number, cells, "mean")
        sd = 0.5 if is_flag else self._number(number, cells, "sd")
        if is_flag and "sd" in given:
            self._say(number, f"The sd of {column!r} must be empty: a share tells its own.")
        self.sds[column] = sd
        if np.isfinite([mean, sd]).all():
            one = np.array([mean]), np.array([sd])
            for problem in value_problems([column], [is_flag], *one):
                self._say(number, problem)

    def table(self) -> Table1:
        """The whole table, or everything that is wrong with it."""
        columns = self.coding.columns
        lost = [repr(column) for column in columns if column not in self.means]
        if lost:
            self._say(0, f"A line must be there for every column; none for {', '.join(lost)}.")
        if not self.counts:
            self._say(0, "The number of rows must stand in the column n; it does not.")
        elif len(set(self.counts)) > 1:
            self._say(0, "The number of rows must be the same wherever it stands; it is not.")
        if not self.problems:
            self._check_firsts()
        correlations = self._correlations()
        if self.problems:
            raise DataError("\n".join(self.problems))
        return Table1.typed(
            int(self.counts[0]),
            columns,
            self.coding.flags,
            [self.means[column] for column in columns],
            [self.sds[column] for column in columns],
            self.coding.public_sd,
            correlations,
        )

    def _say(self, number: int, problem: str) -> None:
        place = f", line {number}" if number else ""
        self.problems.append(f"{self.where}{place}: {problem}")

    def _count(self, number: int, text: str) -> None:
        n = number_of(text)
        if n is None or n != int(n) or n < 2:
            self._say(number, "n must be a whole number of at least 2; it is not.")
            n = 2.0
        self.counts.append(n)

    def _column(self, number: int, name: str, level: str) -> str | None:
        """The column that a line is about; blanks around a name count only if it has some."""
        known = [feature for feature, _ in self.spots]
        name = name if name in known else name.strip()
        for own in (level, level.strip()):
            if (name, own) in self.spots:
                return self.spots[name, own]
            if self.firsts.get(name) == f"{name}={own}":
                return self.firsts[name]
        if name not in known:
            self._say(number, f"The feature must be one of the study's. {hint(name, known)}")
        elif (name, "") in self.spots:
            self._say(number, f"The level of {name!r} must be empty: it has none.")
        else:
            levels = [own for feature, own in self.spots if feature == name]
            self._say(number, f"The level must be one that {name!r} has. {hint(level, levels)}")
        return None

    def _number(self, number: int, cells: Mapping[str, str], key: str) -> float:
        value = number_of(cells[key])
        if value is not None:
            return value
        self._say(
            number,
            f"{key!r} must be a number with a point as the decimal sign, a share between 0 and 1 "
            f"without a percent sign; it is {'text' if cells[key].strip() else 'empty'}.",
        )
        return np.nan

    def _pair(self, number: int, cells: Mapping[str, str]) -> None:
        numbers = {name for name, flag in self.flags.items() if not flag}
        one, other = (
            cells[key] if cells[key] in numbers else cells[key].strip()
            for key in ("feature", "with")
        )
        pair = one, other
        if not set(pair) <= numbers:
            self._say(number, "A correlation must be one of two numbers of the study; it is not.")
            return
        if pair in self.pairs:
            self._say(number, f"The correlation of {one!r} and {other!r} must stand once.")
        self.pairs[pair] = self.pairs[pair[::-1]] = self._number(number, cells, "correlation")

    def _correlations(self) -> Array | None:
        if not self.pairs:
            return None
        columns = self.coding.columns
        if any(self.coding.flags):
            self._say(0, "Correlations must be left out: not all columns are numbers.")
            return None
        R = np.eye(len(columns))
        for i, one in enumerate(columns):
            for j, other in enumerate(columns):
                if (one, other) in self.pairs:
                    R[i, j] = self.pairs[one, other]
                elif i < j:
                    self._say(
                        0,
                        "Correlations must be given of all pairs, or of none; one is missing: "
                        f"{one!r} with {other!r}.",
                    )
        return R

    def _check_firsts(self) -> None:
        """Where the first level is given too, the shares of all levels must be all rows."""
        for feature in self.coding.features:
            first = self.firsts.get(feature.name)
            if first in self.means:
                shares = [self.means[column] for column in (str(first), *feature.columns)]
                if abs(sum(shares) - 1.0) > SLACK * len(shares) + 1e-9:
                    self._say(0, f"The shares of all levels of {feature.name!r} must sum to 1.")

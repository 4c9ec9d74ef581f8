"""Columns in another unit than the target's: recognised by their mean and sd, named by conversion.

If a source writes x' = c·x + o where the target writes x, then both its mean and its sd follow.
A site whose patients differ moves its mean by a few sds and its sd by a fraction; a conversion
moves the mean by many sds, and mean and sd come back to the target's once it is undone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedcsa.core.arrays import Array

#: Sites differ by less: beyond so many of the smaller sd, a mean asks for a reason. Where the
#: column's name speaks for the conversion fewer are enough. Measured on honest sites up to 2 sds
#: apart, with sds up to half as large again: less than one alarm in 1,000 columns.
_FAR, FAR_NAMED = 5.0, 3.5
#: Once the conversion is undone, the mean lies within so many sds of the target's, ...
_NEAR = 0.75
#: ... and the sd within this factor of it.
_SD_FACTOR = 1.5
#: A mean nearer to 0, in sds, says nothing about a factor: 0 is 0 in every unit.
_LEAST_MEAN = 0.5
#: Of fewer rows, mean and sd are too uncertain.
_FEWEST_ROWS = 10


@dataclass(frozen=True)
class Conversion:
    """Two units of one quantity: a value in `larger` is `factor` times the one in `smaller`.

    Attributes
    ----------
    larger, smaller : str
        The unit in which numbers are larger, and the other one; empty for a mere factor.
    factor, offset : float
        larger = factor × smaller + offset.
    words : tuple of str
        How names of such columns begin. A column that is named so is converted so first.
    only_named : bool
        Whether to think of it only where the column's name says so: its factor is too near to
        another one.
    """

    larger: str
    smaller: str
    factor: float
    offset: float = 0.0
    words: tuple[str, ...] = ()
    only_named: bool = False

    def is_named_by(self, column: str) -> bool:
        """Whether a column's name speaks for it.

        >>> CONVERSIONS["days"].is_named_by("hospital_stay"), CONVERSIONS["days"].is_named_by("x")
        (True, False)
        """
        parts = "".join(sign if sign.isalpha() else " " for sign in column.lower()).split()
        return any(part.startswith(self.words) for part in parts if self.words)

    def undone(self, mean: float, sd: float, *, divide: bool) -> tuple[float, float]:
        """Mean and sd of the column once it is converted into the target's unit.

        Parameters
        ----------
        mean, sd : float
            Of the column as it is.
        divide : bool
            Whether the column is in the larger unit; otherwise it is in the smaller one.
        """
        if divide:
            return (mean - self.offset) / self.factor, sd / self.factor
        return mean * self.factor + self.offset, sd * self.factor


#: name, as it travels -> the conversion
CONVERSIONS: Mapping[str, Conversion] = {
    "glucose": Conversion("mg/dL", "mmol/L", 18.02, words=("gluc", "sugar", "glyc")),
    "cholesterol": Conversion("mg/dL", "mmol/L", 38.67, words=("chol", "hdl", "ldl")),
    "creatinine": Conversion("µmol/L", "mg/dL", 88.4, words=("crea", "krea")),
    "triglycerides": Conversion("mg/dL", "mmol/L", 88.57, words=("trig", "tg"), only_named=True),
    "bilirubin": Conversion("µmol/L", "mg/dL", 17.1, words=("bili",), only_named=True),
    "urea": Conversion("mg/dL", "mmol/L", 2.8, words=("bun", "urea"), only_named=True),
    "lactate": Conversion("mg/dL", "mmol/L", 9.01, words=("lact",), only_named=True),
    "calcium": Conversion("mg/dL", "mmol/L", 4.008, words=("calc", "ca"), only_named=True),
    "temperature": Conversion("°F", "°C", 1.8, 32.0, words=("temp",)),
    "length": Conversion("cm", "inches", 2.54, words=("height", "length", "waist", "size")),
    "weight": Conversion("pounds", "kg", 1 / 0.4536, words=("weight", "mass", "wt")),
    "ounces": Conversion("g", "ounces", 28.35, words=("birth", "ounce")),
    "pressure": Conversion(
        "mmHg", "kPa", 7.5006, words=("pressure", "pco", "po2", "pao", "paco", "sbp", "dbp", "bp")
    ),
    "years": Conversion("days", "years", 365.25, words=("age", "year", "duration")),
    "months": Conversion("months", "years", 12.0, words=("age", "year", "duration", "month")),
    "hours": Conversion("minutes", "hours", 60.0, words=("hour", "minute", "time", "delay")),
    "days": Conversion("hours", "days", 24.0, words=("day", "stay", "los"), only_named=True),
    "weeks": Conversion("days", "weeks", 7.0, words=("week", "gest"), only_named=True),
    "ten": Conversion("", "", 10.0),
    "hundred": Conversion("", "", 100.0),
    "thousand": Conversion("", "", 1000.0),
    "million": Conversion("", "", 1e6),
}
#: What brings the source's column into the target's unit.
DIRECTIONS = ("divide", "multiply")


@dataclass(frozen=True)
class OtherUnit:
    """A column that looks as if it were in another unit than the target's.

    Attributes
    ----------
    column : int
        Its position among the study's columns.
    conversion : str
        A key of `CONVERSIONS`.
    direction : {"divide", "multiply"}
        What brings it into the target's unit.
    """

    column: int
    conversion: str
    direction: str

    @property
    def words(self) -> str:
        """What it looks like, and what to do.

        >>> OtherUnit(0, "creatinine", "divide").words
        "looks like µmol/L where the target's is mg/dL: divide by 88.4"
        >>> OtherUnit(0, "temperature", "multiply").words
        "looks like °C where the target's is °F: multiply by 1.8 and add 32"
        """
        return "looks " + self.beside("the target's")

    def beside(self, whose: str, *, units: bool = True) -> str:
        """The same of a column beside that of others.

        Parameters
        ----------
        whose : str
            The others' column.
        units : bool
            Whether to name units; otherwise only how many times as large it is.

        Examples
        --------
        >>> OtherUnit(0, "ounces", "divide").beside("the sources'", units=False)
        "28.35 times the sources': divide by 28.35"
        """
        known, divide = CONVERSIONS[self.conversion], self.direction == "divide"
        own, other = (known.larger, known.smaller) if divide else (known.smaller, known.larger)
        by = f"{self.direction} by {known.factor:.4g}"
        if known.offset:
            by = (
                f"take off {known.offset:g} and {by}"
                if divide
                else f"{by} and add {known.offset:g}"
            )
        size = f"{known.factor:,.0f}" if known.factor >= 1000.0 else f"{known.factor:.4g}"
        times = f"{size} times" if divide else f"1/{size} of"
        like = f"like {own} where {whose} is {other}" if own and units else f"{times} {whose}"
        return f"{like}: {by}"


def other_units(
    names: Sequence[str],
    flags: Sequence[bool],
    n_rows: int,
    own: tuple[Array, Array],
    target: tuple[Array, Array],
) -> list[OtherUnit]:
    """The columns that look as if they were in another unit than the target's.

    Parameters
    ----------
    names : sequence of str
        Of the columns.
    flags : sequence of bool
        Which of them hold zeros and ones: these have no unit.
    n_rows : int
        Of the source.
    own, target : tuple of two arrays of shape (columns,)
        Means and sds at the source, and as the target tells them.

    Examples
    --------
    >>> source = np.array([61.0, 97.0]), np.array([12.0, 31.0])
    >>> target = np.array([64.0, 1.1]), np.array([11.0, 0.4])
    >>> [found] = other_units(["age", "creatinine"], [False, False], 300, source, target)
    >>> found.column, found.words
    (1, "looks like µmol/L where the target's is mg/dL: divide by 88.4")
    """
    if n_rows < _FEWEST_ROWS:
        return []
    mean, sd = np.stack([own, target], axis=1)
    # Could a factor be seen? Constants and means about 0 are the same in every unit.
    seen = (sd > 0.0) & (sd < math.inf) & (np.abs(mean) >= _LEAST_MEAN * sd)
    found = []
    for column in np.flatnonzero(seen.all(axis=0) & ~np.asarray(flags, dtype=np.bool_)).tolist():
        here, there = zip(mean[:, column].tolist(), sd[:, column].tolist(), strict=True)
        likely = _best(names[column], here, there)
        if likely is not None:
            found.append(OtherUnit(column, *likely))
    return found


def of_known_cells(
    marks: Mapping[int, int], told: tuple[Array, Array], every: Array, known: Array
) -> tuple[Array, Array]:
    """Means and sds as the target tells them; of columns with gaps, those of the known cells.

    In place of a missing cell stands an agreed value v. With p the share of these cells, the told
    mean is (1 - p) m + p v, and the told variance (1 - p) (s² + p (m - v)²). The source knows v if
    it has gaps, too; otherwise, and where rounding leaves no s², the told numbers stay.

    Parameters
    ----------
    marks : mapping of int to int
        Position of a column with gaps -> of the one that is 1 where its cell is missing.
    told : tuple of two arrays of shape (columns,)
        Means and sds at the target, over all cells.
    every, known : array of shape (columns,)
        Means at the source, over all cells and over the known ones.

    Examples
    --------
    >>> told = np.array([0.75, 0.25]), np.array([0.5, 0.5])  # 1 ± 0.29, and 0 if missing
    >>> source = np.array([60.0, 0.4]), np.array([100.0, 0.4])
    >>> mean, sd = of_known_cells({0: 1}, told, *source)
    >>> mean.tolist(), sd.round(2).tolist()
    ([1.0, 0.25], [0.29, 0.5])
    """
    mean, sd = told[0].copy(), told[1].copy()
    for k, mark in marks.items():
        own, p = every[mark], mean[mark]
        if own <= 0.0 or not 0.0 < p < 1.0:
            continue
        v = known[k] + (every[k] - known[k]) / own
        m = (mean[k] - p * v) / (1.0 - p)
        variance = sd[k] ** 2 / (1.0 - p) - p * (m - v) ** 2
        if variance > 0.0:
            mean[k], sd[k] = m, math.sqrt(variance)
    return mean, sd


def _best(
    name: str, here: tuple[float, float], there: tuple[float, float]
) -> tuple[str, str] | None:
    """The conversion that brings mean and sd nearest to the target's.

    One that the column's name speaks for comes first, then powers of ten.

    Parameters
    ----------
    name : str
        Of the column.
    here, there : tuple of float
        Mean and sd at the source and at the target.
    """
    apart = abs(here[0] - there[0]) / min(here[1], there[1])
    fits = []
    for key, conversion in CONVERSIONS.items():
        named = conversion.is_named_by(name)
        if apart <= (FAR_NAMED if named else _FAR) or (conversion.only_named and not named):
            continue
        for direction in DIRECTIONS:
            mean, sd = conversion.undone(*here, divide=direction == "divide")
            off = abs(mean - there[0]) / max(sd, there[1])
            spread = abs(math.log(sd / there[1]))
            if off <= _NEAR and spread <= math.log(_SD_FACTOR):
                order = 0 if named else 1 if not conversion.larger else 2
                fits.append((order, math.hypot(off, spread), key, direction))
    return min(fits)[2:] if fits else None

"""From a cell to a number, one column at a time; what is wrong is counted, never shown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.core.folds import mixed_bits

if TYPE_CHECKING:
    import pyarrow as pa

#: Texts that stand for a missing cell, blanks around them aside.
MISSING_VALUES = (
    "", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null",
)  # fmt: skip
#: A float64 holds whole numbers of 53 bits. Of 10⁶ groups, two share one with chance 1 in 18,000.
GROUP_BITS = 53
#: Rows that a complaint names: enough to look, and still one line.
ROWS_NAMED = 3
#: What counts as a number in a text. Infinity is read as one, so that it is refused as one.
_NUMBER = r"^(?i:[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?)$"
_WHOLE = re.compile(r"(0|-?[1-9][0-9]*)")
_WHOLE_WITH_ZEROS = re.compile(r"(0|-?[1-9][0-9]*)\.0+")
#: A day of the calendar, and a time that may stand behind it; no zone, on which the day depends.
_DAY = r"^\d{4}-\d{2}-\d{2}$"
_MOMENT = (
    r"^\d{4}-\d{2}-\d{2}"
    r"([T ]([01]\d|2[0-4]):[0-5]\d(:[0-6]\d([.,]\d+)?)?)?$"
)
#: From the day that Python counts from to 1970-01-01, from which Arrow counts.
_EPOCH = date(1970, 1, 1).toordinal()
#: The days that a calendar has, counted from 1970-01-01.
_FIRST_DAY, _LAST_DAY = date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH
#: How many of Arrow's units a day has.
_UNITS_OF_A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
#: Words of flags in any case. A single y or n may stand for much else.
_FLAG_WORDS = {"false": "0", "true": "1", "no": "0", "yes": "1"}


@dataclass(frozen=True, repr=False)
class Cells:
    """The cells of one column, and how to speak of them.

    Attributes
    ----------
    column : pyarrow.ChunkedArray
    what : str
        For the sentences, such as ``"Column 'age' of the target"``.
    problems : list of str
        Gains a sentence for everything that is wrong.
    missing_values : collection of str
        Texts that stand for a missing cell, beside `MISSING_VALUES`.
    first_row : int, optional
        Number of the first cell's row, if these are not all rows of the table.
    """

    column: pa.ChunkedArray
    what: str
    problems: list[str]
    missing_values: Collection[str] = ()
    first_row: int | None = None

    def values(self, kind: str, levels: Sequence[str] = (), *, other: bool = False) -> Array:
        """One float64 per cell, NaN where it is missing. A new kind of column is read here.

        Parameters
        ----------
        kind : {"number", "flag", "levels", "date", "group"}
            A flag is 0 or 1 and may be written as false or true, or as no or yes. A date becomes
            the number of days from 1970-01-01 to the day that is written. A cell of a group
            becomes a hash of its text: a whole number below 2**53, the same at every reading.
        levels : sequence of str
            Of the kind ``"levels"``; a cell becomes its position among them. A cell that is no
            text compares by its text: 1 and 1.0 are the level ``"1"``, true is ``"true"`` or
            ``"True"``. Among texts, ``"01"`` is not ``"1"``; blanks around do not count. A level
            is never a missing cell, even if it is spelled like one: ``"NA"`` may be North America.
        other : bool
            Whether a cell that is none of the levels has the position behind the last one.
        """
        if not (self._is_readable() if kind != "date" else self._has_days()):
            return np.zeros(len(self.column))
        if kind == "date":
            return self._days()
        if kind == "number":
            return self._numbers()
        if kind == "flag":
            words = "0 and 1, or true and false, or yes and no"
            advice = "Correct them, or describe it as a number or by its levels."
            return self._positions(("0", "1"), words, advice, _as_flag)
        if kind == "levels":
            advice = "Check spelling and case, or agree on a further level."
            only = f"its {len(levels)} agreed level(s)"
            if other:
                only += " as they are spelled, or texts that are none of them"
            return self._positions(levels, only, advice, str, other=other)
        return self._hashes()

    def complain(self, rule: str, wrong: NDArray[np.bool_], state: str, advice: str) -> None:
        """Say how many cells break a rule, and in which rows the first of them are.

        Parameters
        ----------
        rule : str
            What the column must do.
        wrong : array of shape (rows,)
            Which cells do not.
        state : str
            What these are.
        advice : str
        """
        rows, count = len(self.column), int(wrong.sum())
        cells = f"{rows} cells"
        if self.first_row is not None:
            cells = f"cells in rows {self.first_row} to {self.first_row + rows - 1}"
        are = "is" if count == 1 else "are"
        self.problems.append(
            f"{self.what} must {rule}; {count} of its {cells} {are} {state}. "
            f"See {numbered_rows(wrong, self.first_row or 1)}. {advice}"
        )

    def _is_readable(self) -> bool:
        import pyarrow as pa

        kind = self.kind
        types = ("is_integer", "is_floating", "is_decimal", "is_boolean", "is_null")
        if is_text(kind) or any(getattr(pa.types, name)(kind) for name in types):
            return True
        # Words for a type; its own name could hold the names of fields inside it.
        words = "bytes or another type that is neither number nor text"
        advice = "Recode it by a rule that all sites share."
        if pa.types.is_temporal(kind):
            words = "dates or times"
            advice = 'Describe it as a date: kind = "date" with since = "2020-01-01" or at = "…".'
        elif pa.types.is_nested(kind):
            words = "lists or records"
        self.problems.append(
            f"{self.what} must hold numbers, texts, or true and false; it holds {words}. {advice}"
        )
        return False

    def _has_days(self) -> bool:
        """Whether the column may hold days: dates, moments without a time zone, or texts."""
        import pyarrow as pa

        types = pa.types
        words = "numbers or another type"
        advice = (
            "Write them like 2020-01-31, or give the column a type for dates. A number of days or "
            "an age is of kind number."
        )
        if types.is_timestamp(self.kind) and self.kind.tz is not None:
            words = "moments with a time zone, on which the day depends"
            advice = "Make days of them in the zone of the site, and keep only these."
        elif (
            is_text(self.kind)
            or types.is_null(self.kind)
            or types.is_date(self.kind)
            or types.is_timestamp(self.kind)
        ):
            return True
        self.problems.append(f"{self.what} must hold dates; it holds {words}. {advice}")
        return False

    def _days(self) -> Array:
        """Days since 1970-01-01; times of day are dropped."""
        if is_text(self.kind):
            return self._days_of_texts()
        days = _day_numbers(self._plain())
        strange = (days < _FIRST_DAY) | (days > _LAST_DAY)  # how databases write infinity
        if strange.any():
            advice = "Correct them or drop those rows."
            outside = "outside the years 1 to 9999"
            self.complain("hold dates", strange, outside, advice)
            days[strange] = 0.0
        codes = [day for text in self.missing_values if (day := day_number(text)) is not None]
        days[np.isin(days, codes)] = math.nan
        return days

    def _days_of_texts(self) -> Array:
        import pyarrow.compute as pc

        text = self.texts()
        readable = pc.match_substring_regex(text, _MOMENT)
        text = pc.if_else(readable, pc.utf8_slice_codeunits(text, 0, 10), "unreadable")
        encoded = text.combine_chunks().dictionary_encode()
        # Text by text, but every day once: a century has 36,525 of them.
        numbers = [day_number(day) for day in encoded.dictionary.to_pylist()]
        known = [math.inf if number is None else float(number) for number in numbers]
        days = np.array([*known, math.nan])[encoded.indices.fill_null(-1).to_numpy()]
        unreadable = np.isinf(days)
        if unreadable.any():
            advice = (
                "Write days like 2020-01-31, with or without a time behind them but without a "
                "zone, or list the spelling of a missing cell in missing_values."
            )
            self.complain("hold dates", unreadable, "no such date", advice)
        return np.where(unreadable, 0.0, days)

    @property
    def kind(self) -> pa.DataType:
        """The type of the cells, whether they are stored by a dictionary or not."""
        import pyarrow as pa

        kind = self.column.type
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    def _plain(self) -> pa.ChunkedArray:
        """The column without a dictionary, texts of one type."""
        import pyarrow as pa

        return self.column.cast(pa.large_string() if is_text(self.kind) else self.kind)

    def _numbers(self) -> Array:
        import pyarrow as pa

        if is_text(self.kind):
            values = self._parsed()
        else:
            # Not `safe`: that would refuse whole numbers above 2**53, in words that quote them.
            plain = self._plain()
            if pa.types.is_decimal(plain.type):  # its own cast is off by the last bit
                plain = plain.cast(pa.string())
            values = _floats(plain.cast(pa.float64(), safe=False))
            codes = [number_of(text) for text in self.missing_values]
            known = [code for code in codes if code is not None]
            if known:
                values = np.where(np.isin(values, known), math.nan, values)
        infinite = np.isinf(values)
        if not infinite.any():
            return values
        advice = "Correct them or drop those rows."
        self.complain("be finite", infinite, "infinite or too large", advice)
        return np.where(infinite, 0.0, values)

    def _parsed(self) -> Array:
        """Texts as numbers. A column of clean numbers is cast at once; others get a closer look."""
        numeric = any(number_of(text) is not None for text in self.missing_values)
        values = None if numeric else _cast(self.column)
        if values is not None:
            return values
        import pyarrow.compute as pc

        text = self.texts()
        values = _cast(text)
        if values is not None:
            return values
        number = are_numbers(text)
        is_word = ~number.fill_null(True).to_numpy().astype(bool)
        if is_word.any():
            advice = (
                "Correct them, with a point as the decimal sign, or list the spelling of a missing "
                "cell in missing_values."
            )
            self.complain("hold numbers", is_word, "text", advice)
        read: Array = pc.if_else(number.fill_null(False), text, "nan").to_numpy().astype(np.float64)
        read[is_word] = 0.0
        return read

    def texts(self) -> pa.ChunkedArray:
        """Texts without blanks around them, null where a cell is missing."""
        import pyarrow as pa
        import pyarrow.compute as pc

        text = pc.utf8_trim_whitespace(self._plain())
        spellings = pa.array([*MISSING_VALUES, *self.missing_values], pa.large_string())
        missing = pc.is_in(text, value_set=spellings)
        return pc.if_else(missing, pa.scalar(None, pa.large_string()), text)

    def _positions(
        self,
        levels: Sequence[str],
        only: str,
        advice: str,
        spelled: Callable[[str], str],
        *,
        other: bool = False,
    ) -> Array:
        """Positions among `levels` of what `spelled` makes of every cell's text."""
        find, missing = _finder(levels, other), {*MISSING_VALUES, *self.missing_values}

        def place(value: object) -> float:
            if value is None or value != value:
                return math.nan
            text = level_text(value)
            agreed = (value if isinstance(value, str) else text.strip()) in levels
            if not agreed and text.strip() in missing:
                return math.nan
            return find(spelled(text))

        parts = [_each_once(chunk, place) for chunk in self.column.chunks]
        positions = np.concatenate([np.empty(0), *parts])
        strange = positions < 0.0
        if strange.any():
            self.complain(f"hold only {only}", strange, "something else", advice)
        return np.where(strange, 0.0, positions)

    def _hashes(self) -> Array:
        """A text stands for itself without blanks around it; 1 and 1.0 are the text ``"1"``."""
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = self.kind
        if is_text(kind):
            texts = self.texts()
        else:
            texts = self._plain().cast(pa.large_string())
            if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
                texts = pc.replace_substring_regex(texts, r"\.0+$", "")
            codes = pa.array(["nan", *self.missing_values], pa.large_string())
            known = pc.is_in(texts, value_set=codes)
            texts = pc.if_else(known, pa.scalar(None, pa.large_string()), texts)
        texts = texts.combine_chunks()
        hashes = _hashes(texts.fill_null("")) >> np.uint64(64 - GROUP_BITS)
        missing = texts.is_null().to_numpy(zero_copy_only=False)
        return np.where(missing, math.nan, hashes.astype(np.float64))


def numbered_rows(wrong: NDArray[np.bool_], first_row: int = 1) -> str:
    """The numbers of rows, as words; only of the first few.

    Parameters
    ----------
    wrong : array of shape (rows,)
        Which rows to name.
    first_row : int
        Number of the first one. The first row after the header is row 1.

    Examples
    --------
    >>> numbered_rows(np.array([False, True])), numbered_rows(np.ones(9, dtype=bool))
    ('row 2 below the header', 'rows 1, 2, 3 and 6 more below the header')
    """
    numbers = np.flatnonzero(wrong) + first_row
    *most, last = map(str, numbers[: ROWS_NAMED + 1])
    if len(numbers) > ROWS_NAMED + 1:
        last = f"{len(numbers) - ROWS_NAMED} more"
    told = f"rows {', '.join(most)} and {last}" if most else f"row {last}"
    return f"{told} below the header"


def level_text(value: object) -> str:
    """The text by which a level and a cell are compared.

    >>> [level_text(value) for value in ("01", 1, 1.0, 1.5, True)]
    ['01', '1', '1', '1.5', 'true']
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | Decimal) and math.isfinite(value) and value == int(value):
        return str(int(value))
    return str(value)


def number_of(text: str) -> float | None:
    """The finite number that a text is, by the rule for cells; None if it is none.

    >>> number_of("1.5"), number_of("45 %"), number_of("inf")
    (1.5, None, None)
    """
    if not re.fullmatch(_NUMBER, text.strip(), re.ASCII):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def are_numbers(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which texts are numbers; null where one is missing."""
    import pyarrow.compute as pc

    return pc.match_substring_regex(texts, _NUMBER)


def day_number(text: str) -> int | None:
    """Days from 1970-01-01 to a day that is written like it; None if the text is no such day.

    >>> day_number("1970-03-01"), day_number("2023-02-29")
    (59, None)
    """
    if not re.fullmatch(_DAY, text, re.ASCII):
        return None
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH
    except ValueError:
        return None


def is_text(kind: pa.DataType) -> bool:
    """Whether cells of this type are texts."""
    return str(kind) in ("string", "large_string", "string_view")


def _as_flag(text: str) -> str:
    return _FLAG_WORDS.get(text.strip().lower(), text.strip())


def _cast(text: pa.ChunkedArray) -> Array | None:
    """Texts as numbers, or None if one that is not null is no finite number.

    Among finite numbers pyarrow knows no spelling that is not one of ours, and rounds as we do.
    """
    import pyarrow as pa

    try:
        values = _floats(text.cast(pa.float64()))
    except pa.ArrowException:  # its text quotes the cell
        return None
    return values if np.isfinite(values).sum() == len(text) - text.null_count else None


def _floats(column: pa.ChunkedArray) -> Array:
    """Cells that are float64, NaN where one is missing.

    Arrow's own way to numpy first loads pandas, if that is installed: as long as a whole study.
    """
    parts = [np.empty(0)]
    for chunk in filter(len, column.chunks):
        known, cells = chunk.buffers()
        values = np.frombuffer(cells, np.float64, len(chunk), 8 * chunk.offset)
        if chunk.null_count:
            bits = np.unpackbits(np.frombuffer(known, np.uint8), bitorder="little")
            there = bits[chunk.offset : chunk.offset + len(chunk)]
            values = np.where(there, values, math.nan)
        parts.append(values)
    return parts[1] if len(parts) == 2 else np.concatenate(parts)


def _day_numbers(column: pa.ChunkedArray) -> Array:
    """Days of a column of dates or moments, counted from 1970-01-01; NaN where it has none."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), math.nan)
    units = 1
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        units = _UNITS_OF_A_DAY[getattr(kind, "unit", "ms")]
    whole = column.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    days: Array = (whole.fill_null(0).to_numpy() // units).astype(np.float64)
    days[column.is_null().to_numpy().astype(bool)] = math.nan
    return days


def _each_once(cells: pa.Array, place: Callable[[object], float]) -> Array:
    """What `place` makes of every cell, asked once for each of the different ones."""
    import pyarrow as pa

    if pa.types.is_dictionary(cells.type) and len(cells.dictionary) > len(cells):
        cells = cells.dictionary_decode()
    if pa.types.is_floating(cells.type):
        cells = cells.cast(pa.float64())
    elif str(cells.type) in ("null", "string_view"):
        cells = cells.cast(pa.string())
    if not pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_encode()
    known = cells.dictionary
    if pa.types.is_floating(known.type):
        known = known.cast(pa.float64())
    # The entry appended last is the one that a null, at position -1, refers to.
    places = np.array([*map(place, known.to_pylist()), math.nan])
    found: Array = places[cells.indices.cast(pa.int64()).fill_null(-1).to_numpy()]
    return found


def _finder(levels: Sequence[str], other: bool) -> Callable[[str], float]:
    """A function that finds a text among `levels`, and gives -1 if it is none of them.

    With `other` it then gives the position behind the last level, unless the text is a level in
    another case: a site that writes ``"f"`` for ``"F"`` shall not have others only.
    """
    position = {level: float(index) for index, level in enumerate(levels)}
    lower = {level.lower(): float(index) for index, level in enumerate(levels)}
    if not set(lower) <= {"true", "false"} or len(lower) < len(levels):
        lower = {}
    whole = all(_WHOLE.fullmatch(level) for level in levels)
    folded = {level.casefold() for level in levels}

    def find(text: str) -> float:
        if text not in position:
            text = text.strip()
        # A whole number that went through a column with missing cells often comes out as 1.0.
        zeros = _WHOLE_WITH_ZEROS.fullmatch(text) if whole else None
        text = zeros[1] if zeros else text
        strange = float(len(levels)) if other and text.casefold() not in folded else -1.0
        return position.get(text, lower.get(text.lower(), strange))

    return find


def _hashes(texts: pa.LargeStringArray) -> NDArray[np.uint64]:
    """A hash of every text: the sum of a random number for each byte at its place.

    Tabulation hashing, with a mixed counter in place of a table (Zobrist 1970; Pătraşcu and
    Thorup 2012). All bytes at once: text by text, a million rows would take seconds a pass.
    """
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    lengths = np.diff(ends)
    letters = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]].astype(np.uint64)
    starts = ends[:-1] - ends[0]
    place = (np.arange(len(letters)) - np.repeat(starts, lengths)).astype(np.uint64)
    terms = mixed_bits(place * np.uint64(256) + letters)
    # Of no bytes the sum would not be 0 but the next text's first term.
    sums = np.add.reduceat(np.append(terms, np.uint64(0)), starts)
    return mixed_bits(np.where(lengths > 0, sums, 0).astype(np.uint64) ^ lengths.astype(np.uint64))

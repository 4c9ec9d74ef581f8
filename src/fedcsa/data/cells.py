"""One column of a table as numbers or as codes of levels; what is wrong is counted, never shown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.errors import MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa

#: What counts as a number in a text. Infinity is read as one, so that it is refused as one.
_NUMBER = r"^(?i:[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?)$"
_WHOLE = re.compile(r"(0|-?[1-9][0-9]*)")
_WHOLE_WITH_ZEROS = re.compile(r"(0|-?[1-9][0-9]*)\.0+")
MISSING = -1


def arrow(purpose: str) -> Any:
    """The package pyarrow, or the advice to install it."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError("pyarrow", "tables", purpose) from None
    return pyarrow


def quick_numbers(column: pa.ChunkedArray, *, texts: bool) -> Array | None:
    """What `numbers` gives, if every cell is a finite number and none needs a closer look.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
    texts : bool
        Whether texts may be tried as well. They may not where a number stands for a missing cell.
    """
    pa = arrow("Reading a table")
    kind = column.type
    if column.null_count:
        return None
    if is_text(kind):
        values = _cast(column) if texts else None
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        values = column.cast(pa.float64(), safe=False).to_numpy()
    else:
        values = None
    return values if values is not None and np.isfinite(values).all() else None


def numbers(
    column: pa.ChunkedArray, what: str, problems: list[str], first_row: int | None = None
) -> Array:
    """The cells of `column` as float64, NaN where one is missing.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
    what : str
        For the sentences, such as ``"Column 'age' of the target"``.
    problems : list of str
        Gains a sentence for everything that is wrong.
    first_row : int, optional
        Number of the first cell's row, if these are not all rows of the table.
    """
    pa = arrow("Reading a table")
    column = plain_column(column)
    rows, kind = len(column), column.type
    n_text = 0
    if is_text(kind):
        values, n_text = _parse(column)
    elif (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_null(kind)
    ):
        # Not `safe`: that would refuse whole numbers above 2**53, in words that quote them.
        values = column.cast(pa.float64(), safe=False).to_numpy().astype(np.float64)
    else:
        problems.append(f"{what} must hold numbers; it holds {_kind_of(kind)}. {_RECODE}")
        return np.zeros(rows)
    if n_text:
        problems.append(
            f"{what} must hold numbers; {of(n_text, rows, first_row)} text. Correct them, with a "
            "point as the decimal sign, or list the spelling of a missing cell in missing_values."
        )
    infinite = np.isinf(values)
    if infinite.any():
        problems.append(
            f"{what} must be finite; {of(int(infinite.sum()), rows, first_row)} infinite or too "
            "large. Correct them or drop those rows."
        )
    return np.where(infinite, 0.0, values)


def level_codes(
    column: pa.ChunkedArray,
    levels: Sequence[str],
    what: str,
    problems: list[str],
    first_row: int | None = None,
) -> NDArray[np.intp]:
    """The cells of `column` as positions in `levels`, `MISSING` where one is missing.

    Cells that are not text compare by their text: 1 is the level ``"1"`` and so is 1.0, true is
    ``"true"`` or ``"True"``. Among texts, ``"01"`` is not ``"1"``.

    Parameters
    ----------
    column, what, problems, first_row
        As for `numbers`.
    levels : sequence of str
    """
    wanted = (
        "texts, whole numbers or true and false, as its levels are",
        f"only its {len(levels)} agreed level(s)",
        "Check spelling, case and spaces, or agree on a further level.",
    )
    return _codes(column, _reader_of(levels), len(levels), wanted, what, problems, first_row)


def flag_codes(
    column: pa.ChunkedArray, what: str, problems: list[str], first_row: int | None = None
) -> NDArray[np.intp]:
    """The cells of `column` as 0 or 1, `MISSING` where one is missing.

    Numbers and texts may be 0 and 1 or true and false, in any case.

    Parameters
    ----------
    column, what, problems, first_row
        As for `numbers`.
    """
    of_number, of_word = _reader_of(("0", "1")), _reader_of(("false", "true"))
    words = "0 and 1, or true and false"
    wanted = (words, f"only {words}", "Correct them, or describe it as a number or by its levels.")

    def code_of(text: str, otherwise: int) -> int:
        text = text.strip()
        return of_number(text, of_word(text, otherwise))

    return _codes(column, code_of, 2, wanted, what, problems, first_row)


def _codes(
    column: pa.ChunkedArray,
    code_of: Callable[[str, int], int],
    count: int,
    wanted: tuple[str, str, str],
    what: str,
    problems: list[str],
    first_row: int | None,
) -> NDArray[np.intp]:
    """The cells of `column` by their texts, `MISSING` where one is missing.

    Parameters
    ----------
    code_of : function
        Of a text and of what to return for an unknown one.
    count : int
        Codes are below it.
    wanted : three str
        What the column's type must allow, what its cells must be, what to do.
    column, what, problems, first_row
        As for `numbers`.
    """
    encoded = _dictionary(column, wanted[0], what, problems)
    if encoded is None:
        return np.zeros(len(column), dtype=np.intp)
    code_of_entry = [
        MISSING if value != value else code_of(level_text(value), count)
        for value in encoded.dictionary.to_pylist()
    ]
    # The entry appended last is the one that a null, at position -1, refers to.
    codes = np.array([*code_of_entry, MISSING])[encoded.indices.fill_null(-1).to_numpy()]
    n_strangers = int((codes == count).sum())
    if n_strangers:
        problems.append(
            f"{what} must hold {wanted[1]}; "
            f"{of(n_strangers, len(codes), first_row, hold=True)} something else. {wanted[2]}"
        )
    return np.where(codes == count, 0, codes)


def _dictionary(
    column: pa.ChunkedArray, wanted: str, what: str, problems: list[str]
) -> pa.DictionaryArray | None:
    """`column` as distinct cells and their positions, or None for dates and other types."""
    pa = arrow("Reading a table")
    column = plain_column(column)
    kind = column.type
    if pa.types.is_null(kind):
        return pa.array([None] * len(column), pa.string()).dictionary_encode()
    if not has_levels(kind, wanted, what, problems):
        return None
    if pa.types.is_floating(kind):
        column = column.cast(pa.float64())
    return column.combine_chunks().dictionary_encode()


def has_levels(kind: pa.DataType, wanted: str, what: str, problems: list[str]) -> bool:
    """Whether cells of this type can be known by their texts.

    Parameters
    ----------
    kind : pyarrow.DataType
    wanted : str
        What the column must hold.
    what, problems
        As for `numbers`.
    """
    pa = arrow("Reading a table")
    if (
        is_text(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    ):
        return True
    problems.append(f"{what} must hold {wanted}; it holds {_kind_of(kind)}. {_RECODE}")
    return False


def plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """`column` without dictionary encoding, texts of one type."""
    pa = arrow("Reading a table")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.large_string()) if is_text(column.type) else column


def is_text(kind: pa.DataType) -> bool:
    """Whether cells of this type are texts."""
    return str(kind) in ("string", "large_string", "string_view")


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


def of(count: int, rows: int, first_row: int | None = None, *, hold: bool = False) -> str:
    """How many cells, of how many or of which rows.

    >>> of(1, 9)
    '1 of its 9 cells is'
    >>> of(2, 9, hold=True)
    '2 of its 9 cells hold'
    >>> of(3, 16_384, 16_385)
    '3 of its cells in rows 16385 to 32768 are'
    """
    one, many = ("holds", "hold") if hold else ("is", "are")
    cells = f"{rows} cells"
    if first_row is not None:
        cells = f"cells in rows {first_row} to {first_row + rows - 1}"
    return f"{count} of its {cells} {one if count == 1 else many}"


def number_of(text: str) -> float | None:
    """The finite number that a text is, by the rule for cells; None if it is none.

    >>> number_of("1.5"), number_of("45 %"), number_of("inf")
    (1.5, None, None)
    """
    if not re.fullmatch(_NUMBER, text.strip(), re.ASCII):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def _parse(column: pa.ChunkedArray) -> tuple[Array, int]:
    """Texts as numbers, NaN where a cell is missing, and how many of them are not numbers."""
    import pyarrow.compute as pc

    text = pc.utf8_trim_whitespace(column)
    values = _cast(text)
    if values is not None and np.isfinite(values).sum() == len(text) - text.null_count:
        return values, 0
    number = pc.match_substring_regex(text, _NUMBER)
    n_text = len(number) - number.null_count - (pc.sum(number).as_py() or 0)
    text = pc.if_else(number.fill_null(False), text, "nan")
    values = text.to_numpy().astype(np.float64)
    values[~number.fill_null(True).to_numpy().astype(bool)] = 0.0
    return values, n_text


def _cast(text: pa.ChunkedArray) -> Array | None:
    """Texts as numbers, or None if one cannot be read without a closer look.

    Among finite numbers pyarrow knows no spelling that is not one of ours, and rounds as we do.
    """
    pa = arrow("Reading a table")
    try:
        return np.asarray(text.cast(pa.float64()).to_numpy(), np.float64)
    except pa.ArrowException:  # its text quotes the cell
        return None


def _reader_of(levels: Sequence[str]) -> Callable[[str, int], int]:
    position = {level: index for index, level in enumerate(levels)}
    flags = {level.lower(): index for index, level in enumerate(levels)}
    if not set(flags) <= {"true", "false"} or len(flags) < len(levels):
        flags = {}
    whole = all(_WHOLE.fullmatch(level) for level in levels)

    def code_of(text: str, otherwise: int) -> int:
        if text in position:
            return position[text]
        # A whole number that went through a column with missing cells often comes out as 1.0.
        zeros = _WHOLE_WITH_ZEROS.fullmatch(text) if whole else None
        if zeros:
            return position.get(zeros[1], otherwise)
        return flags.get(text.lower(), otherwise)

    return code_of


def _kind_of(kind: pa.DataType) -> str:
    """Words for a type; its own name could hold the names of fields inside it."""
    pa = arrow("Reading a table")
    if pa.types.is_temporal(kind):
        return "dates or times"
    if pa.types.is_nested(kind):
        return "lists or records"
    return "bytes or another type that is neither number nor text"


_RECODE = "Recode it by a rule that all sites share, such as days since a fixed date."

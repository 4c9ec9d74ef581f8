"""Which rows belong together: the cells of a group as whole numbers, whatever they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.core.folds import mixed_bits
from fedcsa.data.cells import has_levels, of, plain_column

if TYPE_CHECKING:
    import pyarrow as pa

#: A float64 holds whole numbers of 53 bits. Of 10⁶ groups, two share one with chance 1 in 18,000.
BITS = 53


def group_numbers(
    column: pa.ChunkedArray, what: str, problems: list[str], first_row: int | None = None
) -> Array:
    """The cells of `column` as whole numbers below 2**53, equal where their texts are.

    A text stands for itself without blanks around it; 1 and 1.0 are the text ``"1"``. The number
    is a hash, the same at every reading.

    Parameters
    ----------
    column, what, problems, first_row
        As for `fedcsa.data.cells.numbers`.
    """
    column = plain_column(column)
    if not has_levels(column.type, "texts or whole numbers", what, problems):
        return np.zeros(len(column))
    texts = _texts(column)
    missing = texts.is_null().to_numpy(zero_copy_only=False)
    if missing.any():
        problems.append(
            f"{what} must be complete; {of(int(missing.sum()), len(missing), first_row)} missing. "
            "Drop those rows, or give each of them a group of its own."
        )
    hashes = _hashes(texts.fill_null(""))
    return (hashes >> np.uint64(64 - BITS)).astype(np.float64)


def _texts(column: pa.ChunkedArray) -> pa.LargeStringArray:
    """The texts that cells are known by, null where one is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
    texts = pc.utf8_trim_whitespace(column.cast(pa.large_string())).combine_chunks()
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        texts = pc.replace_substring_regex(texts, r"\.0+$", "")
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.large_string()), texts)


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

"""One column of one table at a glance: what its cells are, and how many differ."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedcsa.core.arrays import Array
from fedcsa.data.cells import Cells, are_numbers, is_text

#: More different texts are no agreed levels: a matrix of as many columns says little of each.
MOST_LEVELS = 20
#: Rows of one patient, at most: with more of them on average a column rather names wards.
MOST_ROWS_OF_ONE = 5
#: Words in the names of columns that name a row or a patient.
_PERSONS = {"patient", "pat", "subject", "person", "participant", "case", "record", "mrn", "pid"}
_NUMBERS = {"id", "no", "nr", "num", "number", "key", "code", "mrn", "uuid", "guid"}
#: Names that begin so count something, or stand for a place.
_COUNTS = {"n", "count", "total", "postal", "zip"}
#: What R, readr and pandas call a column of row names that had no name.
ROW_NAMES = {"x", "...1", "unnamed: 0", "row.names", "rownames"}
#: So many different texts are tried first.
_FEW = 100
#: A whole number as a table of numbers would write it; ``"01"`` and ``"+1"`` are rather codes.
_PLAIN_WHOLE = r"^(0|-?[1-9][0-9]*)(\.0+)?$"
#: A number with a decimal comma, perhaps with points between thousands.
_COMMA = r"[+-]?[0-9]+(\.[0-9]{3})*,[0-9]+"
#: A day in an order that differs between countries, or with signs that are not read.
_OTHER_DAY = (
    r"^([0-9]{1,2}[./-][0-9]{1,2}[./-]([0-9]{2}){1,2}"
    r"|[0-9]{4}[./][0-9]{1,2}[./][0-9]{1,2})([ T].*)?$"
)
#: What cells hold that are numbers or days, but cannot be used as they are.
COMMAS = "cells that look like numbers with decimal commas"
OTHER_DAYS = "cells that look like days that are not written like 2020-01-31"
INFINITE = "infinite numbers"
#: What some texts and what all must look like to be such.
_FOREIGN = {
    COMMAS: (f"^{_COMMA}$", rf"^({_COMMA}|[+-]?[0-9]+(\.[0-9]+)?)$"),
    OTHER_DAYS: (_OTHER_DAY, _OTHER_DAY),
}
_KINDS_OF_TEXTS: tuple[Literal["flag", "number", "date"], ...] = ("flag", "number", "date")

CellKind = Literal["empty", "number", "flag", "date", "zoned", "text", "other"]


@dataclass(frozen=True, repr=False)
class Glance:
    """What one column is at one site.

    Attributes
    ----------
    site : str
    cells : {"empty", "number", "flag", "date", "zoned", "text", "other"}
        Moments with a time zone are "zoned". Texts that are all numbers, flags or dates count
        as these.
    rows, missing : int
    distinct : int
        Different cells; 0 for numbers that are not whole, and for dates of a type.
    values : array of shape (cells that are not missing,)
        Numbers, zeros and ones, or days since 1970-01-01.
    levels : tuple of str
        The different texts, unless there are too many: sorted, or as an ordered category has them.
        Of flags, those of yes and no.
    ordered : bool
        Whether the table itself says their order.
    truths : bool
        Whether a flag is written in words: true and false, or yes and no.
    strange : int
        Of texts that are numbers for the most part: how many are not.
    foreign : str
        What it holds if that are numbers or days that cannot be used as they are.
    """

    site: str
    cells: CellKind
    rows: int
    missing: int
    distinct: int
    values: Array
    levels: tuple[str, ...] = ()
    truths: bool = False
    ordered: bool = False
    strange: int = 0
    foreign: str = ""

    @property
    def whole(self) -> bool:
        """Whether it holds whole numbers only."""
        return self.cells in ("number", "flag") and bool(np.all(self.values % 1 == 0))

    @property
    def unique(self) -> bool:
        """Whether all its cells differ and none is missing."""
        return self.distinct == self.rows

    @property
    def counts_rows(self) -> bool:
        """Whether it is 0, 1, 2 … or 1, 2, 3 …, row by row."""
        if not self.whole or self.missing or self.rows < MOST_LEVELS:
            return False
        first = self.values[0]
        return first in (0.0, 1.0) and bool(np.all(self.values == first + np.arange(self.rows)))

    @property
    def rises(self) -> bool:
        """Whether it holds whole numbers, each above the one before, as those of some rows do."""
        return self.whole and not self.missing and bool(np.all(np.diff(self.values) > 0))

    @property
    def repeats(self) -> bool:
        """Whether its cells could name patients with several rows."""
        return self.distinct < self.rows <= MOST_ROWS_OF_ONE * self.distinct


def glance_at(column: pa.ChunkedArray, site: str, missing_values: Collection[str] = ()) -> Glance:
    """What a column is.

    Parameters
    ----------
    column : pyarrow.ChunkedArray of shape (rows,)
    site : str
        Name of the table.
    missing_values : collection of str
        Further spellings of a missing cell.
    """
    cells = Cells(column, "", [], missing_values)
    kind, other = cells.kind, Glance(site, "other", len(column), column.null_count, 0, np.empty(0))
    if is_text(kind):
        return _glance_at_texts(cells, site)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return replace(other, cells="zoned")
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        days = cells.values("date")
        return other if cells.problems else _of_values(days, "date", site)  # infinite
    if pa.types.is_boolean(kind):
        return _of_values(cells.values("flag"), "flag", site, truths=True)
    if pa.types.is_null(kind):
        return replace(other, cells="empty")
    numbers = cells.values("number")
    if cells.problems:
        infinite = "infinite" in cells.problems[0]
        return replace(other, cells="number", foreign=INFINITE) if infinite else other
    glance = _of_values(numbers, "number", site)
    if not glance.whole:
        return glance
    plain = column.cast(kind).combine_chunks()  # without a dictionary
    distinct = pc.count_distinct(plain, mode="only_valid").as_py()
    flag = glance.cells == "number" and bool(np.isin(glance.values, (0.0, 1.0)).all())
    return replace(glance, cells="flag" if flag else glance.cells, distinct=distinct)


def _of_values(values: Array, cells: CellKind, site: str, *, truths: bool = False) -> Glance:
    known = values[~np.isnan(values)]
    missing = len(values) - len(known)
    cells = cells if len(known) else "empty"
    return Glance(site, cells, len(values), missing, 0, known, truths=truths)


def _glance_at_texts(cells: Cells, site: str) -> Glance:
    trimmed = cells.texts().combine_chunks()
    encoded = trimmed.dictionary_encode().dictionary
    rows, missing, distinct = len(trimmed), trimmed.null_count, len(encoded)
    if not distinct:
        return Glance(site, "empty", rows, missing, 0, np.empty(0))
    for kind in _KINDS_OF_TEXTS:
        # A few cells tell most columns apart; all are looked at only if these are of the kind.
        if all(_are(kind, part) for part in (encoded[:_FEW], encoded)):
            if kind == "number" and _are_codes(encoded):
                break
            values = Cells(pa.chunked_array([trimmed.drop_null()]), "", []).values(kind)
            return Glance(
                site, kind, rows, missing, distinct, values, *_words_of_flags(kind, encoded)
            )
    strange = rows - missing - (pc.sum(are_numbers(trimmed)).as_py() or 0)
    texts = encoded.to_pylist() if distinct <= MOST_LEVELS else []
    ordered = pa.types.is_dictionary(cells.column.type) and cells.column.type.ordered
    levels = _in_order(cells, texts) if ordered else sorted(texts)
    return Glance(
        site, "text", rows, missing, distinct, np.empty(0), tuple(levels),
        ordered=ordered, strange=strange if 2 * strange < rows - missing else 0,
        foreign=_looks_like(encoded),
    )  # fmt: skip


def _looks_like(different: pa.Array) -> str:
    """What the texts are, if they are numbers or days in a way that is not read."""
    for words, (some, every) in _FOREIGN.items():
        parts = (different[:_FEW], different)
        fits = all(pc.all(pc.match_substring_regex(part, every)).as_py() for part in parts)
        if fits and pc.any(pc.match_substring_regex(different, some)).as_py():
            return words
    return ""


def _words_of_flags(kind: str, different: pa.Array) -> tuple[tuple[str, ...], bool]:
    """How flags spell yes and no, and whether they are written in words at all."""
    texts = different.to_pylist() if kind == "flag" else []
    own = tuple(sorted(texts)) if {text.lower() for text in texts} <= {"yes", "no"} else ()
    return own, any(text.isalpha() for text in texts)


def _are(kind: str, texts: pa.Array) -> bool:
    """Whether all texts are of a kind."""
    cells = Cells(pa.chunked_array([texts]), "", [])
    cells.values(kind)
    return not cells.problems


def _are_codes(texts: pa.Array) -> bool:
    """Whether few texts are whole numbers, but not spelled as such."""
    if len(texts) > MOST_LEVELS or pc.all(pc.match_substring_regex(texts, _PLAIN_WHOLE)).as_py():
        return False
    return bool(np.all(Cells(pa.chunked_array([texts]), "", []).values("number") % 1 == 0))


def _in_order(cells: Cells, texts: list[str]) -> list[str]:
    """The texts in the order of an ordered category."""
    categories = cells.column.unify_dictionaries().chunk(0).dictionary.to_pylist()
    trimmed = dict.fromkeys(text.strip() for text in categories if text is not None)
    return [text for text in trimmed if text in texts]


def is_named_like_an_id(name: str) -> bool:
    """Whether a column's name says that it names rows, patients or wards.

    >>> [is_named_like_an_id(name) for name in ("patientID", "mrn", "visit_no", "age", "humid")]
    [True, True, True, False, False]
    """
    words = _words(name)
    if len(words) < 2:
        return bool(words) and (words[0] in _PERSONS or words[0] in ("id", "uuid", "guid"))
    return words[-1] in _NUMBERS and words[0] not in _COUNTS


def names_persons(name: str) -> bool:
    """Whether a column's name says that it names patients.

    >>> [names_persons(name) for name in ("patientID", "mrn", "ward_id")]
    [True, True, False]
    """
    return is_named_like_an_id(name) and bool(_PERSONS & set(_words(name)))


def _words(name: str) -> list[str]:
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return [word for word in re.split(r"[\W_]+", apart.lower()) if word]

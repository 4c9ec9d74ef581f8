"""One description of columns for Python, study files and sites; and whether a table has them."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.core.table import INDICATOR_SD
from fedcsa.data.cells import Cells, level_text
from fedcsa.errors import DataError, ParameterError, must, nearest, one_of, unknown

Label = str | int | bool
KINDS = ("number", "flag", "levels", "group")
#: A message names so many columns and counts the others.
_SHOWN = 5


@dataclass(frozen=True)
class Feature:
    """One column of the table and what becomes of it.

    A number or a flag becomes the column ``name``. Levels become one column of zeros and ones,
    ``name=level``, for every level but the first, in the agreed order. With
    ``missing="indicator"`` there is one more, ``name=missing``, which is 1 where the cell is
    missing. A group is no feature: it says which rows belong together.

    Attributes
    ----------
    name : str
    kind : {"number", "flag", "levels", "group"}
        A flag holds 0 and 1, or true and false.
    levels : tuple of str
        Two or more. Whole numbers, true and false stand for their text.
    missing : {"error", "indicator"}
    fill : float, optional
        The agreed number in place of a missing one; 0 unless told.
    sd : float, optional
        An agreed, public scale, see `fedcsa.core.table.Table1`. Zeros and ones have the scale
        0.5 unless told.

    Examples
    --------
    >>> Feature("stage", "levels", ("I", "II", "III")).columns
    ('stage=II', 'stage=III')
    """

    name: str
    kind: Literal["number", "flag", "levels", "group"] = "number"
    levels: tuple[str, ...] = ()
    missing: Literal["error", "indicator"] = "error"
    fill: float | None = None
    sd: float | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.kind not in KINDS:
            raise one_of("kind", KINDS, self.kind)
        object.__setattr__(self, "levels", _distinct(self.levels))
        if len(self.levels) < 2 if self.kind == "levels" else self.levels:
            count = len(self.levels)
            raise must("levels", "two or more if the kind is 'levels', and none otherwise", count)
        if self.missing not in ("error", "indicator"):
            raise one_of("missing", ("error", "indicator"), self.missing)
        if self.kind == "group" and (self.missing != "error" or self.sd is not None):
            raise must("kind", "all that is said of a group", "'missing' or 'sd' beside it")
        if self.fill is not None:
            if self.kind != "number" or self.missing != "indicator":
                raise must("fill", "left out, except for a number with missing='indicator'", "one")
            object.__setattr__(self, "fill", _finite("fill", self.fill, "a finite number"))
        if self.sd is not None:
            rule = "a positive number"
            object.__setattr__(self, "sd", _finite("sd", self.sd, rule, above=0.0))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that this feature becomes."""
        if self.kind == "group":
            return ()
        own = tuple(f"{self.name}={level}" for level in self.levels[1:]) or (self.name,)
        return (*own, f"{self.name}=missing") if self.missing == "indicator" else own

    @property
    def flags(self) -> tuple[bool, ...]:
        """Which of `columns` hold zeros and ones."""
        return tuple(self.kind != "number" or k > 0 for k in range(len(self.columns)))

    @property
    def public_sd(self) -> tuple[float, ...]:
        """The agreed scale of each of `columns`; NaN for a number without one."""
        own = self.sd or (math.nan if self.kind == "number" else INDICATOR_SD)
        marks = (INDICATOR_SD,) if self.missing == "indicator" else ()
        return (own,) * (len(self.columns) - len(marks)) + marks

    def encode(self, cells: Cells) -> Array:
        """The columns that `cells` become, of shape (rows, columns); of a group one of hashes."""
        values = cells.values(self.kind, self.levels)
        missing = np.isnan(values)
        if self.missing == "error" and missing.any():
            other = 'agree on missing = "indicator" for this feature'
            if self.kind == "group":
                other = "give each of them a group of its own"
            advice = f"Drop those rows, or {other}."
            cells.complain("be complete", int(missing.sum()), "missing", advice)
        blocks = [np.where(missing, self.fill or 0.0, values) if missing.any() else values]
        if self.kind == "levels":
            blocks = [values == place for place in range(1, len(self.levels))]
        if self.missing == "indicator":
            blocks.append(missing)
        return np.column_stack(blocks).astype(np.float64, copy=False)


@dataclass(frozen=True)
class Outcome:
    """The column with outcomes.

    Attributes
    ----------
    name : str
    levels : tuple of str, int or bool
        Labels of the classes in the agreed order, all of one type; empty for a number.
    """

    name: str
    levels: tuple[Label, ...] = ()

    def __post_init__(self) -> None:
        _check_name(self.name)
        object.__setattr__(self, "levels", tuple(self.levels))
        _distinct(self.levels)
        if len(self.levels) == 1:
            raise must("levels", "two or more, or left out for a number", 1)
        types = {type(level).__name__ for level in self.levels}
        if len(types) > 1:
            raise must("levels", "all of one type", sorted(types))

    def encode(self, cells: Cells) -> Array:
        """Numbers, or the positions of the labels in their agreed order, as float64."""
        texts = tuple(level_text(level) for level in self.levels)
        y = cells.values("levels" if self.levels else "number", texts)
        missing = np.isnan(y)
        if missing.any():
            advice = "Drop those rows: a row without its outcome teaches nothing."
            cells.complain("be complete", int(missing.sum()), "missing", advice)
        return np.where(missing, 0.0, y)

    def labelled(self, y: Array) -> NDArray[Any]:
        """What `encode` gives, positions as the labels that were declared."""
        return np.array(self.levels)[y.astype(np.intp)] if self.levels else y


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise must("name", "a text that is not empty", name)


def _distinct(levels: Sequence[Label]) -> tuple[str, ...]:
    """Levels as texts, or the reason why they cannot be."""
    if not isinstance(levels, list | tuple) or not all(
        isinstance(level, str | int | np.integer | np.bool_) for level in levels
    ):
        raise must("levels", "texts, whole numbers, or true and false", "something else")
    texts = tuple(
        level_text(level.item() if isinstance(level, np.generic) else level) for level in levels
    )
    doubled = [text for text, count in Counter(texts).items() if count > 1]
    if doubled:
        raise must("levels", "distinct", doubled[0])
    return texts


def _finite(name: str, value: object, rule: str, *, above: float = -math.inf) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not above < float(value) < math.inf:  # type: ignore[arg-type]
        raise must(name, rule, value)
    return float(value)  # type: ignore[arg-type]


# Short descriptions ---------------------------------------------------------------------------

#: What may be said of a column.
KEYS = tuple(item.name for item in dataclasses.fields(Feature) if item.name != "name")
_WORDS = '"number", "flag", "group", a list of levels, or a table with a kind'


def describe_column(name: str, value: Any) -> Feature:
    """The feature that a short or full description means.

    Parameters
    ----------
    name : str
        Of the column.
    value : str, sequence or mapping
        ``"number"``, ``"flag"`` or ``"group"``; or the levels in the agreed order; or a mapping
        with ``kind``, ``levels``, ``sd``, ``missing``, ``fill``, as in `Feature`.

    Raises
    ------
    ParameterError

    Examples
    --------
    >>> describe_column("sex", ["F", "M"]).columns
    ('sex=M',)
    """
    if isinstance(value, str) and value in KINDS and value != "levels":
        options: dict[str, Any] = {"kind": value}
    elif isinstance(value, list | tuple):
        options = {"kind": "levels", "levels": value}
    elif isinstance(value, Mapping):
        options = {"kind": "levels" if "levels" in value else "number", **value}
    else:
        got = value if isinstance(value, str) else type(value).__name__
        raise ParameterError(f"It must be {_WORDS}. Got {got!r} instead.")
    for key in options:
        if key not in KEYS:
            raise ParameterError(unknown("key", str(key), KEYS))
    return Feature(name, **options)


# Columns of a table ---------------------------------------------------------------------------


def require_columns(present: Sequence[str], needed: Sequence[str], where: str) -> None:
    """Raise a `DataError` unless every column of `needed` is in `present`, once.

    A near miss is suggested. In a file without a header, however, what looks like names are a
    patient's values: unless some needed column is there, only a name that differs in nothing
    but case and signs is shown.
    """
    counts = Counter(present)
    doubled = [name for name in needed if counts[name] > 1]
    missing = [name for name in needed if not counts[name]]
    problems, start = [], sentence_start(where)
    if doubled:
        names = first_few([repr(name) for name in doubled])
        problems.append(f"{start} must have every column once; twice or more: {names}.")
    if missing:
        are_names = len(missing) < len(needed)
        names = first_few([_with_hint(name, present, are_names) for name in missing])
        problems.append(
            f"{start} must have the {len(needed)} column(s) of the study; missing: {names}."
        )
        if not are_names:
            problems[-1] += " Does it begin with the names of its columns, separated as agreed?"
    if problems:
        raise DataError("\n".join(problems))


def _with_hint(name: str, present: Sequence[str], are_names: bool) -> str:
    printable = [other for other in present if other.isprintable()]
    near = [other for other in printable if _bare(other) == _bare(name)]
    found = near[0] if near else nearest(name, printable) if are_names else None
    return f"{name!r} (did you mean {found!r}?)" if found else repr(name)


def _bare(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def first_few(items: Sequence[str]) -> str:
    """The first few of `items`, and how many more there are.

    >>> first_few(["'a'", "'b'"]), first_few([])
    ("'a', 'b'", 'none')
    """
    more = len(items) - _SHOWN
    return (", ".join(items[:_SHOWN]) or "none") + (f" and {more} more" if more > 0 else "")


def sentence_start(text: str) -> str:
    """`text` with a capital letter at its beginning."""
    return text[:1].upper() + text[1:]

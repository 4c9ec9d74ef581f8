"""One description of columns for Python, study files and sites; and whether a table has them."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.core.table import INDICATOR_SD, MISSING_MARK
from fedcsa.data.cells import Cells, day_number, level_text
from fedcsa.errors import DataError, ParameterError, must, nearest, one_of, raise_all, unknown

Label = str | int | bool
ColumnKind = Literal["number", "flag", "levels", "date", "id", "group"]
MissingRule = Literal["error", "indicator", "model"]
KINDS: tuple[ColumnKind, ...] = ("number", "flag", "levels", "date", "id", "group")
#: A text that is none of the agreed levels becomes this one, where that is agreed.
OTHER = "other"
#: The mean year of the Julian calendar, in days; ages are told in it.
DAYS_A_YEAR = 365.25
#: A message names so many columns and counts the others.
_SHOWN = 5
#: Kinds that are features; the others say something about rows.
_FEATURES: tuple[ColumnKind, ...] = ("number", "flag", "levels", "date")
#: The kinds of which something may be said.
_SAID_OF: Mapping[str, tuple[ColumnKind, ...]] = {
    "levels": ("levels",),
    "other": ("levels",),
    "since": ("date",),
    "at": ("date",),
    "missing": _FEATURES,
    "fill": ("number", "date"),
    "sd": _FEATURES,
    "unit": ("number",),
}


@dataclass(frozen=True)
class Feature:
    """One column of the table and what becomes of it.

    A number, a flag or a date becomes the column ``name``. Levels become one column of zeros and
    ones, ``name=level``, for every level but the first, in the agreed order. Unless missing cells
    are an error there is one more, ``name=missing``, which is 1 where the cell is missing. An id
    and a group are no features. An id names the row and never leaves the site; a group says
    which rows belong to one patient.

    Attributes
    ----------
    name : str
    kind : {"number", "flag", "levels", "date", "id", "group"}
        A flag holds 0 and 1, or true and false, or yes and no.
    levels : tuple of str
        Two or more, or one beside `other`. Whole numbers, true and false stand for their text.
    other : bool
        Whether a text that is none of the levels becomes the last level, ``"other"``.
    since, at : str or date, optional
        One of them for a date: days since that day, or years of 365.25 days until it. A cell's
        time of day does not count. With a time zone it is refused: the day depends on that.
    missing : {"error", "indicator", "model"}
        With ``"model"`` the model sees the gap itself and must be one that can.
    fill : float, optional
        The agreed number in place of a missing number or date; 0 unless told.
    sd : float, optional
        An agreed, public scale, see `fedcsa.core.table.Table1`. Zeros and ones have the scale
        0.5 unless told.
    unit : str
        Of a number, in words.

    Examples
    --------
    >>> Feature("stage", "levels", ("I", "II", "III")).columns
    ('stage=II', 'stage=III')
    >>> Feature("born", "date", at="2024-06-30", missing="indicator").columns
    ('born', 'born=missing')
    """

    name: str
    kind: ColumnKind = "number"
    levels: tuple[str, ...] = ()
    other: bool = False
    since: str | None = None
    at: str | None = None
    missing: MissingRule = "error"
    fill: float | None = None
    sd: float | None = None
    unit: str = ""

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.kind not in KINDS:
            raise one_of("kind", KINDS, self.kind)
        object.__setattr__(self, "levels", _distinct(self.levels))
        if self.missing not in get_args(MissingRule):
            raise one_of("missing", get_args(MissingRule), self.missing)
        for option, kinds in _SAID_OF.items():
            said = getattr(self, option) != getattr(type(self), option)
            if said and self.kind not in kinds:
                words = " or ".join(map(repr, kinds))
                raise must(option, f"left out unless the kind is {words}", "one")
        self._check_levels()
        self._check_date()
        if self.fill is not None and self.missing == "error":
            raise must("fill", "left out unless missing cells are expected", "one")
        if self.fill is not None:
            object.__setattr__(self, "fill", _finite("fill", self.fill, "a finite number"))
        if self.sd is not None:
            rule = "a positive number"
            object.__setattr__(self, "sd", _finite("sd", self.sd, rule, above=0.0))
        if not isinstance(self.unit, str):
            raise must("unit", "a text", type(self.unit).__name__)

    def _check_levels(self) -> None:
        if not isinstance(self.other, bool):
            raise must("other", "true or false", type(self.other).__name__)
        if self.kind == "levels" and len(self.all_levels) < 2:
            raise must("levels", "two or more, or one beside other = true", len(self.levels))
        reserved = {OTHER} if self.other else set()
        if self.missing != "error":
            reserved.add("missing")
        taken = sorted(reserved & set(self.levels))
        if taken:
            raise must("levels", f"without {taken[0]!r}, which has a meaning of its own", taken[0])

    def _check_date(self) -> None:
        days = {name: getattr(self, name) for name in ("since", "at")}
        given = {name: day for name, day in days.items() if day is not None}
        if self.kind == "date" and len(given) != 1:
            raise must("a date", "described with one of 'since' and 'at'", sorted(given) or "none")
        for name, day in given.items():
            object.__setattr__(self, name, _iso_day(name, day))

    @property
    def is_feature(self) -> bool:
        """Whether it becomes columns of the matrix; an id and a group do not."""
        return self.kind in _FEATURES

    @property
    def all_levels(self) -> tuple[str, ...]:
        """The levels, with the one for all others."""
        return (*self.levels, OTHER) if self.other else self.levels

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that this feature becomes."""
        if not self.is_feature:
            return ()
        own = tuple(f"{self.name}={level}" for level in self.all_levels[1:]) or (self.name,)
        return own if self.missing == "error" else (*own, f"{self.name}{MISSING_MARK}")

    @property
    def flags(self) -> tuple[bool, ...]:
        """Which of `columns` hold zeros and ones."""
        measured = self.kind in ("number", "date")
        return tuple(not measured or k > 0 for k in range(len(self.columns)))

    @property
    def public_sd(self) -> tuple[float, ...]:
        """The agreed scale of each of `columns`; NaN for a number without one."""
        measured = self.kind in ("number", "date")
        own = self.sd or (math.nan if measured else INDICATOR_SD)
        marks = () if self.missing == "error" else (INDICATOR_SD,)
        return (own,) * (len(self.columns) - len(marks)) + marks

    def inputs(self, first: int) -> list[dict[str, Any]]:
        """How a model finds the table's own column in the matrix, see `Columns.inputs`.

        Parameters
        ----------
        first : int
            Position of the first of `columns`.
        """
        levels, places = list(self.all_levels), list(range(first, first + len(self.columns)))
        gaps = self.missing == "model"
        if self.missing == "indicator" and levels:
            levels.append("missing")
        own = {"name": self.name, "kind": self.kind, "levels": levels, "missing": gaps}
        if self.missing != "indicator" or levels:
            return [own | {"columns": places}] if places else []
        mark = {"name": self.columns[-1], "kind": "flag", "levels": [], "missing": False}
        return [own | {"columns": places[:-1]}, mark | {"columns": places[-1:]}]

    def encode(self, cells: Cells) -> Array:
        """The columns that `cells` become, of shape (rows, columns); of a group one of hashes."""
        values = cells.values(self.kind, self.levels, other=self.other)
        if self.kind == "date":
            values = self.measured(values)
        missing = np.isnan(values)
        if self.missing == "error" and missing.any():
            other = 'agree on missing = "indicator" for this feature'
            if self.kind == "group":
                other = "give each of them a group of its own"
            advice = f"Drop those rows, or {other}."
            cells.complain("be complete", missing, "missing", advice)
        blocks = [np.where(missing, self.fill or 0.0, values) if missing.any() else values]
        if self.kind == "levels":
            blocks = [values == place for place in range(1, len(self.all_levels))]
        if self.missing != "error":
            blocks.append(missing)
        return np.column_stack(blocks).astype(np.float64, copy=False)

    def measured(self, days: Array) -> Array:
        """Days since 1970 as days since the agreed day, or as years until it."""
        agreed = float(day_number(str(self.since or self.at)) or 0)
        return days - agreed if self.since else (agreed - days) / DAYS_A_YEAR

    @property
    def described(self) -> Any:
        """What `describe_column` reads as this column, as short as it can be."""
        options = said_of(self)
        del options["name"]
        if "levels" not in options:
            return self.kind if set(options) <= {"kind"} else options
        options["levels"] = list(self.levels)
        options.pop("kind")
        return options["levels"] if len(options) == 1 else options


@dataclass(frozen=True)
class Outcome:
    """The column with outcomes.

    Attributes
    ----------
    name : str
    levels : tuple of str, int or bool
        Labels of the classes in the agreed order, all of one type; empty for a number. Of
        ``(0, 1)`` and ``(False, True)`` a cell may be spelled as that of a flag.
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

    def read(self, cells: Cells) -> Array:
        """Numbers, or the positions of the labels in the agreed order; NaN where one is missing."""
        texts = tuple(level_text(level) for level in self.levels)
        if set(texts) not in ({"0", "1"}, {"false", "true"}):
            return cells.values("levels" if self.levels else "number", texts)
        y = cells.values("flag")
        return y if texts[0] in ("0", "false") else 1.0 - y

    def encode(self, cells: Cells) -> Array:
        """What `read` gives, as float64; a missing one is a problem."""
        y = self.read(cells)
        missing = np.isnan(y)
        if missing.any():
            advice = "Drop those rows: a row without its outcome teaches nothing."
            cells.complain("be complete", missing, "missing", advice)
        return np.where(missing, 0.0, y)

    def labelled(self, y: Array) -> NDArray[Any]:
        """What `encode` gives, positions as the labels that were declared."""
        return np.array(self.levels)[y.astype(np.intp)] if self.levels else y


def said_of(column: Feature | Outcome) -> dict[str, Any]:
    """What a description says of a column: all that is not as by default."""
    fields = {item.name: item.default for item in dataclasses.fields(column)}
    return {k: getattr(column, k) for k, usual in fields.items() if getattr(column, k) != usual}


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


def _iso_day(name: str, value: object) -> str:
    """An agreed day as an ISO text."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    if not isinstance(value, str) or day_number(value) is None:
        got = "another text" if isinstance(value, str) else type(value).__name__
        raise must(name, "a day, written like 2020-01-31", got)
    return value


# Short descriptions ---------------------------------------------------------------------------

#: What may be said of a column.
KEYS = tuple(item.name for item in dataclasses.fields(Feature) if item.name != "name")
_WORDS = '"number", "flag", "id", "group", a list of levels, or a table with a kind'


def describe_column(name: str, value: Any) -> Feature:
    """The feature that a short or full description means.

    Parameters
    ----------
    name : str
        Of the column.
    value : str, sequence or mapping
        ``"number"``, ``"flag"``, ``"id"`` or ``"group"``; or the levels in the agreed order; or a
        mapping with ``kind`` and whatever else `Feature` has.

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
    raise_all(problems, DataError)


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


def alone_with_classes(classes: Mapping[str, Collection[Any]]) -> list[str]:
    """Sites none of whose classes another site has: they rather spell them in another way.

    >>> alone_with_classes({"a": ["no", "yes"], "b": ["N", "Y"], "c": ["no"]})
    ['b']
    >>> alone_with_classes({"a": ["no"], "b": ["yes"]})  # two classes are no two spellings
    []
    """
    sites = Counter(label for own in classes.values() for label in set(own))
    if len(sites) <= 2 or len(classes) < 2:
        return []
    return [site for site, own in classes.items() if own and all(sites[x] == 1 for x in own)]


def sentence_start(text: str) -> str:
    """`text` with a capital letter at its beginning."""
    return text[:1].upper() + text[1:]

"""A proposal of what every column of one's own tables is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any, Literal

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.data.coding import Columns
from fedcsa.data.columns import (
    OTHER,
    Feature,
    Outcome,
    alone_with_classes,
    first_few,
    require_columns,
)
from fedcsa.data.frames import arrow_column, column_names, frame_series
from fedcsa.data.glance import (
    COMMAS,
    INFINITE,
    MOST_LEVELS,
    OTHER_DAYS,
    ROW_NAMES,
    Glance,
    glance_at,
    is_named_like_an_id,
    names_persons,
)
from fedcsa.errors import DataError, ParameterError, must, unknown

#: Words that have an order of their own.
_SCALES = (
    ("none", "minimal", "mild", "moderate", "severe", "critical"),
    ("very low", "low", "medium", "moderate", "normal", "high", "very high"),
    ("never", "former", "current"),
    ("negative", "positive"),
)
#: Up to so many different whole numbers may be codes, such as classes or regions.
_FEW_CODES = 6
#: Parts of names of columns that hold days of birth.
_BIRTH = ("birth", "born", "dob", "geb")
_TYPES = {
    "number": "numbers",
    "flag": "flags",
    "date": "dates",
    "zoned": "moments with a time zone",
    "text": "texts",
    "other": "something else",
}
#: What to do about marks among numbers.
_MISSING = "If they stand for missing, name them (missing_values, or study init --missing TEXT)"
#: What to do about cells that cannot be used as they are.
_MENDED = {
    COMMAS: "To use it, write them with points.",
    OTHER_DAYS: "To use it, write them in that way (ISO).",
    INFINITE: "To use it, correct them, or leave those cells empty.",
}


def infer_columns(
    frames: Mapping[str, Any], outcome: str | None = None, missing_values: Sequence[str] = ()
) -> Columns:
    """Propose what every column is; see `Columns.infer`.

    Parameters
    ----------
    frames : mapping of str to frame
    outcome : str, optional
    missing_values : sequence of str

    Raises
    ------
    ParameterError
        If `frames` are none, or the outcome is no column or none that could be one.
    DataError
        If a table has a column twice, no rows, or cells that cannot be read.
    """
    glances = _glances(frames, tuple(missing_values))
    if outcome is not None and outcome not in glances:
        raise ParameterError(unknown("column", outcome, list(glances)))
    notes: list[str] = []
    found, sources = None, list(frames)
    if outcome is not None:
        seen = glances.pop(outcome)
        found, sources = _outcome(outcome, seen, notes), [glance.site for glance in seen]
    features = _Proposal(list(frames), sources, notes).features(glances)
    if not any(feature.is_feature for feature in features):
        raise DataError("\n".join(["The tables must agree on at least one feature.", *notes]))
    return Columns(features, found, missing_values, notes=notes)


def _glances(frames: Mapping[str, Any], missing_values: tuple[str, ...]) -> dict[str, list[Glance]]:
    """Every column at every site that has it."""
    if not isinstance(frames, Mapping) or not frames:
        raise must("frames", "a mapping of names to frames", type(frames).__name__)
    glances: dict[str, list[Glance]] = {}
    for site, frame in frames.items():
        where = f"The table {site!r}"
        names = column_names(frame)
        if names is None:
            raise must("frames", "frames, whose columns have names", type(frame).__name__)
        require_columns(names, names, where)
        for name, column in frame_series(frame, names, where).items():
            if not len(column):
                raise DataError(f"{where} must have rows; it has none.")
            glances.setdefault(name, []).append(_glance(column, site, missing_values))
    return glances


def _glance(column: Any, site: str, missing_values: tuple[str, ...]) -> Glance:
    try:
        return glance_at(arrow_column(column, ""), site, missing_values)
    except DataError:  # objects of several types
        return Glance(site, "other", len(column), 0, 0, np.empty(0))


class _Proposal:
    """Feature by feature what can be agreed, and sentences about the rest.

    Parameters
    ----------
    sites, sources : list of str
        Names of all tables, and of those with outcomes: only they need a group.
    notes : list of str
        Gains the sentences.
    """

    def __init__(self, sites: list[str], sources: list[str], notes: list[str]) -> None:
        self._sites, self._sources, self._notes = sites, sources, notes
        self._taken: set[str] = set()  # of the kinds "id" and "group"

    def features(self, glances: Mapping[str, list[Glance]]) -> list[Feature]:
        """What all columns are, in their order."""
        last = _last_day(glances)
        every = (self._feature(name, seen, last) for name, seen in glances.items())
        found = self._told_apart([feature for feature in every if feature is not None])
        if any(feature.fill is not None for feature in found):
            self._notes.append(
                "Missing numbers become 'fill', the rounded median of these tables, and a flag "
                "says where. Change them if you know better."
            )
        return found

    def _told_apart(self, features: list[Feature]) -> list[Feature]:
        """Those whose columns of the matrix have no name that one before them has."""
        found: list[Feature] = []
        for feature in features:
            others = [k.name for k in found if set(k.columns) & set(feature.columns)]
            if others:
                why = f"has the name of a level, or of the gaps, of column {others[0]!r}"
                self._leave(feature.name, why, "To use it, rename it.")
            else:
                found.append(feature)
        return found

    def _feature(self, name: str, glances: list[Glance], last: date) -> Feature | None:
        known = [glance for glance in glances if glance.cells != "empty"]
        if not known or not name:
            return self._leave(name, "is empty" if name else "has no name")
        if any(glance.foreign for glance in known):
            return self._leave(name, *_unusable(known))
        present = {glance.site for glance in glances}
        kind = _names_rows(name, known)
        if kind:
            return self._row_names(name, kind, known)
        numbered = name.lower() in ROW_NAMES and all(glance.rises for glance in known)
        if numbered or all(glance.counts_rows for glance in known):
            return self._leave(name, "counts the rows")
        if names_persons(name):
            return self._leave(name, "names patients, but neither one nor a few rows of each")
        absent = [site for site in self._sites if site not in present]
        if absent:
            return self._leave(name, f"is not at {_names(absent)}")
        feature = self._of_cells(name, known, last)
        if feature is None or not any(glance.missing for glance in glances):
            return feature
        if "missing" in feature.levels:
            return self._leave(name, "has empty cells beside the level 'missing'", "Use one.")
        return replace(feature, missing="indicator", fill=_fill(feature, known))

    def _of_cells(self, name: str, glances: list[Glance], last: date) -> Feature | None:
        """What the cells of all tables are together."""
        kinds = {glance.cells for glance in glances}
        if kinds <= {"flag", "number"}:
            return self._number(name, glances)
        if kinds == {"date"}:
            return self._date(name, glances, last)
        # Words may be yes and no at one site, and have a third one at another.
        if kinds == {"text"} or ("text" in kinds and all(k.levels for k in glances)):
            return self._levels(name, glances)
        if all(glance.strange or glance.cells in ("number", "flag") for glance in glances):
            return self._spoiled(name, glances)
        return self._leave(name, f"holds {_forms(glances)}", "Bring it into one form to use it.")

    def _leave(self, name: str, why: str, advice: str = "") -> Feature | None:
        self._notes.append(f"Column {name!r} {why}. It is left out.{advice and ' '}{advice}")
        return None

    def _row_names(
        self, name: str, kind: Literal["id", "group"], glances: list[Glance]
    ) -> Feature | None:
        """The id or the group; there is one of each."""
        if kind in self._taken:
            return self._leave(name, f"looks like a second {kind}")
        whole = {glance.site for glance in glances if not glance.missing}
        without = [site for site in self._sources if site not in whole]
        if kind == "group" and without:
            why = f"looks like a group, but has gaps or is not there at {_names(without)}"
            return self._leave(name, why, "Fill it in if patients have several rows.")
        self._taken.add(kind)
        return Feature(name, kind)

    def _number(self, name: str, glances: list[Glance]) -> Feature | None:
        least = min(glance.values.min() for glance in glances)
        most = max(glance.values.max() for glance in glances)
        if least == most:
            return self._leave(name, "is the same in every row")
        flag = all(glance.cells == "flag" for glance in glances)
        if flag or most - least >= MOST_LEVELS or not all(k.whole for k in glances):
            return Feature(name, "flag" if flag else "number")
        return self._codes(name, np.unique(np.concatenate([glance.values for glance in glances])))

    def _codes(self, name: str, codes: Array) -> Feature:
        """Few whole numbers: codes if they are two or the name says so, and else perhaps."""
        levels = tuple(str(int(code)) for code in codes)
        if is_named_like_an_id(name) or len(levels) == 2:
            return Feature(name, "levels", levels)
        if len(levels) <= _FEW_CODES:
            self._notes.append(
                f"Column {name!r} has {len(levels)} different whole numbers and becomes a number. "
                f"If they are codes, write {list(levels)!r}."
            )
        return Feature(name)

    def _date(self, name: str, glances: list[Glance], last: date) -> Feature | None:
        days = np.concatenate([glance.values for glance in glances])
        if days.min() == days.max():
            return self._leave(name, "is the same in every row")
        if _is_birth(name):
            at = date(last.year, 12, 31)
            self._notes.append(f"Column {name!r} becomes the age in years at {at}: 'at' says so.")
            return Feature(name, "date", at=at.isoformat())
        since = date(_day(days.min()).year, 1, 1)
        self._notes.append(
            f"Column {name!r} becomes days since {since}: 'since' says so. Days of the calendar "
            "predict only within the time that the tables cover; drop it if patients come later."
        )
        return Feature(name, "date", since=since.isoformat())

    def _levels(self, name: str, glances: list[Glance]) -> Feature | None:
        many = [glance.site for glance in glances if glance.distinct > MOST_LEVELS]
        if many:
            if any(glance.strange for glance in glances):
                return self._spoiled(name, glances)
            advice = "To use it, list the levels that matter, with other = true."
            why = f"has more than {MOST_LEVELS} different texts at {_names(many)}"
            return self._leave(name, why, advice)
        every = set.union(*(set(glance.levels) for glance in glances))
        common = set.intersection(*(set(glance.levels) for glance in glances))
        some = sorted(every - common)
        alike = (frozenset(map(str.casefold, glance.levels)) for glance in glances)
        folded = frozenset.intersection(*alike)
        if not common and folded:
            why = "has levels that differ between the tables in case only"
            return self._leave(name, why, "Spell them alike.")
        if not common:
            return self._leave(name, "has no level that all tables have", "Check the spelling.")
        doubled = [level for level in some if level.casefold() in folded]
        if doubled:
            why = f"has {_names(doubled)} beside the same text in another case"
            return self._leave(name, why, "Spell it alike in all tables.")
        if any(glance.strange for glance in glances):
            self._notes.append(
                f"Column {name!r} has {_no_numbers(glances)}. It becomes levels. {_MISSING}, "
                "and it becomes a number."
            )
        if some:
            self._notes.append(
                f"Column {name!r}: not every table has {_names(some)}. They become the level "
                f"{OTHER!r}; list them if all sites should tell them apart."
            )
            common -= {OTHER}
        levels = self._ordered(name, glances, common)
        if len(levels) + bool(some) < 2:
            return self._leave(name, "is the same in every row")
        return Feature(name, "levels", levels, other=bool(some))

    def _ordered(self, name: str, glances: list[Glance], common: set[str]) -> tuple[str, ...]:
        """Levels as the tables' own categories or the words' meaning have them; else sorted."""
        orders = {tuple(x for x in k.levels if x in common) for k in glances if k.ordered}
        if len(orders) == 1:
            return orders.pop()
        if orders:
            self._notes.append(
                f"Column {name!r}: the tables order its levels differently. They "
                "are sorted; list them in their order."
            )
        for scale in _SCALES:
            if {level.lower() for level in common} <= set(scale):
                return tuple(sorted(common, key=lambda level: scale.index(level.lower())))
        return tuple(sorted(common))

    def _spoiled(self, name: str, glances: list[Glance]) -> Feature | None:
        return self._leave(name, f"has {_no_numbers(glances)}", f"{_MISSING}; else correct them.")


def _no_numbers(glances: Sequence[Glance]) -> str:
    """How many cells of a column of numbers are none, and where."""
    counts = [f"{g.strange} of {g.rows} at {g.site!r}" for g in glances if g.strange]
    return f"cells that are no numbers: {first_few(counts)}"


def _names_rows(name: str, glances: Sequence[Glance]) -> Literal["id", "group"] | None:
    """Whether a column names rows, or patients with several rows, or neither."""
    named = is_named_like_an_id(name) and all(k.cells == "text" or k.whole for k in glances)
    texts = all(k.cells == "text" and k.distinct > MOST_LEVELS for k in glances)
    if (named or texts) and all(glance.unique for glance in glances):
        return "id"
    # At some site every patient may have one row only.
    return "group" if named and all(glance.unique or glance.repeats for glance in glances) else None


def _outcome(name: str, glances: list[Glance], notes: list[str]) -> Outcome | None:
    known = [glance for glance in glances if glance.cells != "empty"]
    kinds = {glance.cells for glance in known}
    gaps = [glance.site for glance in known if glance.missing]
    if gaps:
        notes.append(f"Outcome {name!r} has gaps at {_names(gaps)}. Drop those rows.")
    if any(glance.foreign for glance in known):
        raise DataError(f"Outcome {name!r} {'. '.join(_unusable(known))}")
    every: set[str] = set().union(*(glance.levels for glance in known))
    words = all(glance.levels for glance in known)
    if words and ("text" in kinds or len(every) <= 2):
        alone = alone_with_classes({glance.site: glance.levels for glance in known})
        if alone:
            notes.append(
                f"Outcome {name!r} has at {_names(alone)} no class that another table has. If that "
                "is another spelling, spell them alike in all tables."
            )
        order = next((glance.levels for glance in known if glance.ordered), ())
        if len(every) == 1:
            notes.append(f"Outcome {name!r} is the same in every row. It is left out.")
            return None
        return Outcome(name, order if set(order) == every else tuple(sorted(every)))
    if kinds == {"flag"}:
        return Outcome(name, (False, True) if all(glance.truths for glance in known) else (0, 1))
    if kinds and kinds <= {"flag", "number"}:
        codes = {int(value) for g in known if g.whole for value in np.unique(g.values)}
        if all(glance.whole for glance in known) and len(codes) <= _FEW_CODES:
            notes.append(
                f"Outcome {name!r} has {len(codes)} different whole numbers and is a number. If "
                f"they are classes, write levels = {sorted(codes)!r}."
            )
        return Outcome(name)
    if len(kinds) > 1:
        raise DataError(f"Outcome {name!r} holds {_forms(known)}. Bring it into one form.")
    raise must("outcome", f"a column of numbers, flags or at most {MOST_LEVELS} classes", name)


def _unusable(glances: Sequence[Glance]) -> tuple[str, str]:
    """What a column has that cannot be used as it is, and where; and what to do."""
    words = next(glance.foreign for glance in glances if glance.foreign)
    sites = [glance.site for glance in glances if glance.foreign == words]
    return f"has {words} at {_names(sites)}", _MENDED[words]


def _forms(glances: Sequence[Glance]) -> str:
    """What a column holds, and where."""
    sites: dict[str, list[str]] = {}
    for glance in glances:
        sites.setdefault(_TYPES[glance.cells], []).append(glance.site)
    return "; ".join(f"{what} at {_names(where)}" for what, where in sites.items())


def _last_day(glances: Mapping[str, list[Glance]]) -> date:
    """The last day of any column of dates, rather not one of births."""
    dates: dict[bool, list[float]] = {True: [], False: []}
    for name, seen in glances.items():
        ends = [glance.values.max() for glance in seen if glance.cells == "date"]
        dates[_is_birth(name)] += ends
    return _day(max(dates[False] or dates[True], default=0.0))


def _is_birth(name: str) -> bool:
    return any(part in name.lower() for part in _BIRTH)


def _day(number: float) -> date:
    return date(1970, 1, 1) + timedelta(days=float(number))


def _fill(feature: Feature, glances: Sequence[Glance]) -> float | None:
    """The median of all tables with two digits, in the feature's own units."""
    if feature.kind not in ("number", "date"):
        return None
    values: Array = np.concatenate([glance.values for glance in glances])
    if feature.kind == "date":
        values = feature.measured(values)
    return float(f"{np.median(values):.2g}") or None


def _names(names: Sequence[str]) -> str:
    return first_few([repr(name) for name in names])

"""A proposal of what every column of one's own tables is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any, Literal

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.data.coding import Columns
from fedcsa.data.columns import OTHER, Feature, Outcome, first_few, require_columns
from fedcsa.data.frames import column_names, frame_columns
from fedcsa.data.look import MOST_LEVELS, Look, is_named_like_an_id, look_at
from fedcsa.errors import DataError, ParameterError, must, unknown

#: Words that have an order of their own.
_SCALES = (
    ("none", "minimal", "mild", "moderate", "severe", "critical"),
    ("very low", "low", "medium", "moderate", "normal", "high", "very high"),
    ("never", "former", "current"),
    ("negative", "positive"),
)
#: Parts of names of columns that hold days of birth.
_BIRTH = ("birth", "born", "dob", "geb")
_TYPES = {
    "number": "numbers",
    "flag": "flags",
    "date": "dates",
    "text": "texts",
    "other": "something else",
}


def infer_columns(frames: Mapping[str, Any], outcome: str | None = None) -> Columns:
    """Propose what every column is; see `Columns.infer`.

    Parameters
    ----------
    frames : mapping of str to frame
    outcome : str, optional

    Raises
    ------
    ParameterError
        If `frames` are none, or the outcome is no column or none that could be one.
    DataError
        If a table has a column twice, no rows, or cells that cannot be read.
    """
    looks = _looks(frames)
    if outcome is not None and outcome not in looks:
        raise ParameterError(unknown("column", outcome, list(looks)))
    notes: list[str] = []
    found, sources = None, list(frames)
    if outcome is not None:
        seen = looks.pop(outcome)
        found, sources = _outcome(outcome, seen, notes), [look.site for look in seen]
    features = _Proposal(list(frames), sources, notes).features(looks)
    if not any(feature.is_feature for feature in features):
        raise DataError("\n".join(["The tables must agree on at least one feature.", *notes]))
    return Columns(features, found, notes=notes)


def _looks(frames: Mapping[str, Any]) -> dict[str, list[Look]]:
    """Every column at every site that has it."""
    if not isinstance(frames, Mapping) or not frames:
        raise must("frames", "a mapping of names to frames", type(frames).__name__)
    looks: dict[str, list[Look]] = {}
    for site, frame in frames.items():
        where = f"The table {site!r}"
        names = column_names(frame)
        if names is None:
            raise must("frames", "frames, whose columns have names", type(frame).__name__)
        require_columns(names, names, where)
        for name, column in frame_columns(frame, names, where).items():
            if not len(column):
                raise DataError(f"{where} must have rows; it has none.")
            looks.setdefault(name, []).append(look_at(column, site))
    return looks


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

    def features(self, looks: Mapping[str, list[Look]]) -> list[Feature]:
        """What all columns are, in their order."""
        last = _last_day(looks)
        found = [self._feature(name, seen, last) for name, seen in looks.items()]
        if any(feature is not None and feature.fill is not None for feature in found):
            self._notes.append(
                "Missing numbers become 'fill', the rounded median of these tables, and a flag "
                "says where. Change them if you know better."
            )
        return [feature for feature in found if feature is not None]

    def _feature(self, name: str, looks: list[Look], last: date) -> Feature | None:
        known = [look for look in looks if look.cells != "empty"]
        if not known:
            return self._leave(name, "is empty")
        present = {look.site for look in looks}
        kind = _names_rows(name, known)
        if kind:
            return self._row_names(name, kind, known)
        absent = [site for site in self._sites if site not in present]
        if absent:
            return self._leave(name, f"is not at {_names(absent)}")
        kinds = {look.cells for look in known}
        if kinds <= {"flag", "number"}:
            feature = self._number(name, known)
        elif len(kinds) > 1 or kinds == {"other"}:
            return self._disagreed(name, known)
        elif kinds == {"date"}:
            feature = self._date(name, known, last)
        else:
            feature = self._levels(name, known)
        if feature is None or not any(look.missing for look in looks):
            return feature
        return replace(feature, missing="indicator", fill=_fill(feature, known))

    def _leave(self, name: str, why: str, advice: str = "") -> Feature | None:
        self._notes.append(f"Column {name!r} {why}. It is left out.{advice and ' '}{advice}")
        return None

    def _row_names(
        self, name: str, kind: Literal["id", "group"], looks: list[Look]
    ) -> Feature | None:
        """The id or the group; there is one of each."""
        if kind in self._taken:
            return self._leave(name, f"looks like a second {kind}")
        whole = {look.site for look in looks if not look.missing}
        without = [site for site in self._sources if site not in whole]
        if kind == "group" and without:
            why = f"looks like a group, but has gaps or is not there at {_names(without)}"
            return self._leave(name, why, "Fill it in if patients have several rows.")
        self._taken.add(kind)
        return Feature(name, kind)

    def _number(self, name: str, looks: list[Look]) -> Feature | None:
        values = np.unique(np.concatenate([np.unique(look.values) for look in looks]))
        if len(values) < 2:
            return self._leave(name, "is the same in every row")
        flag = all(look.cells == "flag" for look in looks)
        if is_named_like_an_id(name) and not flag and len(values) <= MOST_LEVELS:
            whole = all(look.whole for look in looks)
            if whole:
                return Feature(name, "levels", tuple(str(int(value)) for value in values))
        return Feature(name, "flag" if flag else "number")

    def _date(self, name: str, looks: list[Look], last: date) -> Feature | None:
        days = np.concatenate([look.values for look in looks])
        if days.min() == days.max():
            return self._leave(name, "is the same in every row")
        if any(part in name.lower() for part in _BIRTH):
            at = date(last.year, 12, 31)
            self._notes.append(f"Column {name!r} becomes the age in years at {at}: 'at' says so.")
            return Feature(name, "date", at=at.isoformat())
        since = date(_day(days.min()).year, 1, 1)
        self._notes.append(f"Column {name!r} becomes days since {since}: 'since' says so.")
        return Feature(name, "date", since=since.isoformat())

    def _levels(self, name: str, looks: list[Look]) -> Feature | None:
        many = [look.site for look in looks if look.distinct > MOST_LEVELS]
        if many:
            advice = "To use it, list the levels that matter, with other = true."
            if any(look.part_numbers for look in looks):
                advice = "Some of them are numbers: correct the others to use it as a number."
            why = f"has more than {MOST_LEVELS} different texts at {_names(many)}"
            return self._leave(name, why, advice)
        every = set.union(*(set(look.levels) for look in looks))
        common = set.intersection(*(set(look.levels) for look in looks))
        some = sorted(every - common)
        if not common:
            return self._leave(name, "has no level that all tables have", "Check the spelling.")
        if some:
            self._notes.append(
                f"Column {name!r}: not every table has {_names(some)}. They become the level "
                f"{OTHER!r}; list them if all sites should tell them apart."
            )
            common -= {OTHER}
        levels = self._ordered(name, looks, common)
        if len(levels) + bool(some) < 2:
            return self._leave(name, "is the same in every row")
        return Feature(name, "levels", levels, other=bool(some))

    def _ordered(self, name: str, looks: list[Look], common: set[str]) -> tuple[str, ...]:
        """Levels as the tables' own categories or the words' meaning have them; else sorted."""
        orders = {
            tuple(k.levels[i] for i in range(len(k.levels)) if k.levels[i] in common)
            for k in looks
            if k.ordered
        }
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

    def _disagreed(self, name: str, looks: list[Look]) -> Feature | None:
        sites: dict[str, list[str]] = {}
        for look in looks:
            sites.setdefault(_TYPES[look.cells], []).append(look.site)
        words = "; ".join(f"{what} at {_names(where)}" for what, where in sites.items())
        return self._leave(name, f"holds {words}", "Bring it into one form to use it.")


def _names_rows(name: str, looks: Sequence[Look]) -> Literal["id", "group"] | None:
    """Whether a column names rows, or patients with several rows, or neither."""
    named = is_named_like_an_id(name) and all(k.cells == "text" or k.whole for k in looks)
    texts = all(look.cells == "text" and look.distinct > MOST_LEVELS for look in looks)
    if (named or texts) and all(look.unique for look in looks):
        return "id"
    # At some site every patient may have one row only.
    return "group" if named and all(look.unique or look.repeats for look in looks) else None


def _outcome(name: str, looks: list[Look], notes: list[str]) -> Outcome:
    known = [look for look in looks if look.cells != "empty"]
    kinds = {look.cells for look in known}
    gaps = [look.site for look in known if look.missing]
    if gaps:
        notes.append(f"Outcome {name!r} has gaps at {_names(gaps)}. Drop those rows.")
    if kinds == {"text"} and all(look.levels for look in known):
        order = next((look.levels for look in known if look.ordered), ())
        every = set.union(*(set(look.levels) for look in known))
        return Outcome(name, order if set(order) == every else tuple(sorted(every)))
    if kinds == {"flag"}:
        return Outcome(name, (False, True) if all(look.truths for look in known) else (0, 1))
    if kinds and kinds <= {"flag", "number"}:
        return Outcome(name)
    raise must("outcome", f"a column of numbers, flags or at most {MOST_LEVELS} classes", name)


def _last_day(looks: Mapping[str, list[Look]]) -> date:
    """The last day of any column of dates, rather not one of births."""
    dates = {
        name: max(look.values.max() for look in seen if look.cells == "date")
        for name, seen in looks.items()
        if any(look.cells == "date" for look in seen)
    }
    others = [
        day for name, day in dates.items() if not any(part in name.lower() for part in _BIRTH)
    ]
    return _day(max(others or dates.values(), default=0.0))


def _day(number: float) -> date:
    return date(1970, 1, 1) + timedelta(days=float(number))


def _fill(feature: Feature, looks: Sequence[Look]) -> float | None:
    """The median of all tables with two digits, in the feature's own units."""
    if feature.kind not in ("number", "date"):
        return None
    values: Array = np.concatenate([look.values for look in looks])
    if feature.kind == "date":
        values = feature.measured(values)
    return float(f"{np.median(values):.2g}") or None


def _names(names: Sequence[str]) -> str:
    return first_few([repr(name) for name in names])

"""Subgroups that a study declares: a level of a column, or rows from a cut point up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.errors import must

#: Thresholds of risk that a study may declare: more are a curve, which is told anyway.
MOST_THRESHOLDS = 10
#: Subgroups that a study may declare: of more, some differ by chance alone.
MOST_SUBGROUPS = 6
_LARGEST = float(np.finfo(np.float64).max)


def subgroup_problems(subgroups: Any, features: Sequence[str]) -> list[str]:
    """What is wrong with declared subgroups, a clause each that follows "must be".

    Parameters
    ----------
    subgroups : sequence of mapping
        Each ``{"feature": …, "level": …}`` or ``{"feature": …, "cut": …}``, with or without a name.
    features : sequence of str
        Columns of the study; a level other than the first has its own, ``column=level``.

    Examples
    --------
    >>> subgroup_problems([{"feature": "age", "cut": 65}, {"feature": "sex"}], ["age", "sex=M"])
    ["each of a 'feature' with a 'level' or a 'cut', and perhaps a 'name'"]
    """
    if not isinstance(subgroups, list | tuple) or len(subgroups) > MOST_SUBGROUPS:
        return [f"a list of at most {MOST_SUBGROUPS}"]
    found = list(dict.fromkeys(filter(None, (_problem(item, features) for item in subgroups))))
    if not found and len({subgroup_name(item) for item in subgroups}) < len(subgroups):
        found.append("of distinct names")
    return found


def _problem(item: Any, features: Sequence[str]) -> str:
    """What is wrong with one subgroup, or nothing.

    Parameters
    ----------
    item : mapping
    features : sequence of str
    """
    keys = set(item) - {"name"} if isinstance(item, Mapping) else set()
    if keys not in ({"feature", "level"}, {"feature", "cut"}):
        return "each of a 'feature' with a 'level' or a 'cut', and perhaps a 'name'"
    feature, name = item["feature"], item.get("name", "subgroup")
    if not isinstance(feature, str) or not isinstance(name, str) or not 0 < len(name) <= 60:
        return "each with a feature and a name that are texts, the name of 60 letters at most"
    if "cut" in item:
        found = _is_number(item["cut"]) and feature in features
        return "" if found else "cut at a number, in a feature of numbers"
    level = item["level"]
    if not (isinstance(level, str | bool | np.bool_) or _is_number(level)):
        return "of levels that are texts or numbers"
    known = any(column.startswith(f"{feature}=") for column in features)
    if known or (feature in features and not isinstance(level, str)):
        return ""
    return "of features of the study, with a level that is a number where the feature is"


def _is_number(value: Any) -> bool:
    """Whether it is a number that fits a column: finite, also as a float."""
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= _LARGEST


def unknown_levels(
    subgroups: Sequence[Mapping[str, Any]], levels: Mapping[str, Sequence[Any]]
) -> list[str]:
    """Subgroups of levels that their column does not have: they would be the first level's.

    Parameters
    ----------
    subgroups : sequence of mapping
        As `subgroup_problems` finds nothing wrong with.
    levels : mapping of str to sequence
        Of every column that has some.

    Examples
    --------
    >>> unknown_levels([{"feature": "sex", "level": "m"}], {"sex": ("F", "M")})
    ["The 'subgroups' parameter must be of levels that 'sex' has. Got 'm' instead."]
    """
    return [
        str(must("subgroups", f"of levels that {item['feature']!r} has", item["level"]))
        for item in subgroups
        if "level" in item
        and item["feature"] in levels
        and str(item["level"]) not in levels[item["feature"]]
    ]


def subgroup_name(item: Mapping[str, Any]) -> str:
    """The name of a subgroup: as given, or made of its feature.

    >>> subgroup_name({"feature": "age", "cut": 65})
    'age ≥ 65'
    >>> subgroup_name({"feature": "sex", "level": "M"})
    'sex = M'
    """
    if "name" in item:
        return str(item["name"])
    how = f"≥ {item['cut']:g}" if "cut" in item else f"= {item['level']}"
    return f"{item['feature']} {how}"


def members_of_subgroups(
    subgroups: Sequence[Mapping[str, Any]],
    features: Sequence[str],
    z: Array,
    mean: Array,
    sd: Array,
) -> NDArray[np.bool_]:
    """Who belongs to which subgroup, shape (rows, 1 + subgroups); everybody to the first.

    Parameters
    ----------
    subgroups : sequence of mapping
        As `subgroup_problems` finds nothing wrong with.
    features : sequence of str
    z : array of shape (rows, features)
        In units of `mean` and `sd`. Values are compared in these units: subtracting and dividing
        keep the order.
    mean, sd : array of shape (features,)

    Examples
    --------
    >>> z = np.array([[50.0, 0.0], [70.0, 1.0]])
    >>> declared = [{"feature": "age", "cut": 65}, {"feature": "sex", "level": "F"}]
    >>> members_of_subgroups(declared, ["age", "sex=M"], z, np.zeros(2), np.ones(2))[:, 1:]
    array([[False,  True],
           [ True, False]])
    """
    inside = np.ones((len(z), 1 + len(subgroups)), dtype=bool)
    for k, item in enumerate(subgroups, start=1):
        for column, value in _tests(item, list(features)):
            at = (float(value) - mean[column]) / sd[column]
            inside[:, k] &= z[:, column] >= at if "cut" in item else z[:, column] == at
    return inside


def _tests(item: Mapping[str, Any], features: list[str]) -> Iterator[tuple[int, float]]:
    """The columns that decide, each with what its value must be, or reach: all must hold.

    Parameters
    ----------
    item : mapping
        A subgroup.
    features : list of str
    """
    feature = item["feature"]
    if "cut" in item:
        yield features.index(feature), item["cut"]
    elif feature in features:
        yield features.index(feature), item["level"]
    elif (own := f"{feature}={item['level']}") in features:
        yield features.index(own), 1.0
    else:  # the first level has no column of its own: whoever has none of the others
        for column, name in enumerate(features):
            if name.startswith(f"{feature}="):
                yield column, 0.0

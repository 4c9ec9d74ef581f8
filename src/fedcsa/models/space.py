"""Θ as a space: ranges, choices and distributions from which a search draws its candidates.

A space is a tuple of branches, each a mapping of parameters to plain values; a candidate is of one
branch. Drawing from it is for `fedcsa.target.search`: whoever only checks needs no other package.

==========================================  =====================================================
``{"low": 1e-4, "high": 1.0, "log": True}``  a range; whole numbers if both ends are; or a ``step``
``{"choices": [2, 4, 8]}``                   one of these
``{"distribution": "gamma", …}``             of scipy.stats, with its ``arguments``
``{"function": "space"}``                    the whole branch: a function of a trial, in Python only
==========================================  =====================================================
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedcsa.core.arrays import is_whole
from fedcsa.errors import ParameterError, must, unknown
from fedcsa.models.description import describe

#: How to search: where earlier candidates did well (Bergstra and others, 2011), or anywhere.
SEARCHES = ("tpe", "random")
#: Values of a range that is a grid, and candidates of a search: as many fit into a message.
LONGEST_GRID = 10_000
#: Rounds that any study may have: no target can ask forever.
MOST_ROUNDS = 1000
#: What a budget can limit, and by how much at most; more numbers than candidates have do no harm.
BUDGET: Mapping[str, float] = {
    "candidates": LONGEST_GRID, "rounds": MOST_ROUNDS, "numbers": math.inf,
}  # fmt: skip
#: Candidates of a search, unless told: about as many as ridge's own grid has.
USUAL_CANDIDATES = 40
#: Rounds of a search, unless told: the later ones learn from the earlier, and each is a question to
#: every source. A random search learns nothing and has one.
USUAL_ROUNDS = 6
#: Branches of a space.
Space = tuple[Mapping[str, Any], ...]
#: A user's own space: called with an Optuna trial, it returns a candidate, or None for what it
#: has asked the trial for.
SpaceFunction = Callable[[Any], Mapping[str, Any] | None]
_RANGE = ("low", "high", "log", "step", "points")
FUNCTION = "function"
#: The outer part of a range that is its edge: what is drawn seldom hits an end.
EDGE = 0.05
#: A step's multiple may be off by rounding.
_ROUNDING = 1e-9


def is_space(candidates: Any) -> bool:
    """Whether candidates are drawn, and not listed.

    >>> is_space({"C": [0.1, 1.0]}), is_space({"C": {"low": 0.1, "high": 1.0}})
    (False, True)
    >>> is_space({"C": {"low": 0.1, "high": 1.0, "points": 5}})
    False
    """
    if isinstance(candidates, Mapping):
        return any(_is_drawn(value) for value in candidates.values())
    if isinstance(candidates, str | np.ndarray) or not isinstance(candidates, Sequence):
        return callable(candidates)
    return any(isinstance(item, Mapping) and is_space(item) for item in candidates)


def _is_drawn(value: Any) -> bool:
    if isinstance(value, Mapping):
        return "points" not in value
    return _is_frozen(value) or _is_optuna(value)


def _is_frozen(value: Any) -> bool:
    """Whether `value` is a frozen distribution of scipy.stats."""
    return hasattr(value, "ppf") and hasattr(value, "dist") and hasattr(value, "kwds")


def _is_optuna(value: Any) -> bool:
    """Whether `value` is one of Optuna's distributions; nothing is imported to see."""
    names = [f"{cls.__module__}.{cls.__name__}" for cls in type(value).__mro__]
    return "optuna.distributions.BaseDistribution" in names


def spread_points(candidates: Any) -> Any:
    """`candidates` with a list in place of every range that tells how many points it has.

    Examples
    --------
    >>> spread_points({"penalty": {"low": 0.01, "high": 1.0, "log": True, "points": 3}})
    {'penalty': [0.01, 0.1, 1.0]}
    """
    if not isinstance(candidates, Mapping):
        return candidates
    return {
        name: _points(_checked_range(name, value))
        if isinstance(value, Mapping) and "points" in value
        else value
        for name, value in candidates.items()
    }


def _points(told: Mapping[str, Any]) -> list[Any]:
    """The values of a range with points: whole numbers if its ends are and all lie on them."""
    make = np.geomspace if told.get("log") else np.linspace
    values = make(told["low"], told["high"], told["points"])
    whole = is_whole_range(told) and bool((values == values.round()).all())
    listed: list[float] = values.tolist()
    return [int(value) for value in listed] if whole else listed


def described_space(candidates: Any) -> Space:
    """The branches of a space in plain values, or one `ParameterError`.

    Parameters
    ----------
    candidates : mapping, sequence of mappings or function
        Of which `is_space` is true.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> described_space({"C": loguniform(0.01, 10.0), "penalty": ["l1", "l2"]})
    ({'C': {'distribution': 'loguniform', 'arguments': [0.01, 10.0]},
      'penalty': {'choices': ['l1', 'l2']}},)
    """
    if callable(candidates):
        return ({FUNCTION: str(getattr(candidates, "__name__", "space"))},)
    branches = [candidates] if isinstance(candidates, Mapping) else list(candidates)
    if not all(isinstance(branch, Mapping) and branch for branch in branches):
        raise must("candidates", "a space, or a list of spaces, each a mapping", "something else")
    return tuple(
        {str(name): _described(str(name), spread_points({name: value})[name])
         for name, value in branch.items()}
        for branch in branches
    )  # fmt: skip


def _described(name: str, value: Any) -> dict[str, Any]:
    """One parameter of a space in plain values.

    Parameters
    ----------
    name : str
    value : list, mapping, distribution or a single value
    """
    if isinstance(value, Mapping):
        keys = set(value)
        if keys == {"choices"}:
            return _choices(name, value["choices"])
        if "distribution" in keys:
            return _checked_distribution(name, value)
        return _checked_range(name, value)
    if _is_optuna(value):
        if hasattr(value, "choices"):
            return _choices(name, value.choices)
        told = {"low": value.low, "high": value.high, "log": value.log, "step": value.step}
        if told["log"] or (told["step"] == 1 and isinstance(value.low, int)):
            del told["step"]
        return _checked_range(name, {k: v for k, v in told.items() if v is not None})
    if _is_frozen(value):
        arguments = [describe(item) for item in value.args]
        named = {"named": describe(dict(value.kwds))["dict"]} if value.kwds else {}
        told = {"distribution": value.dist.name, "arguments": arguments, **named}
        return _checked_distribution(name, told)
    many = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)
    return _choices(name, value if many else [value])


def _choices(name: str, values: Any) -> dict[str, Any]:
    """The choices of one parameter.

    Parameters
    ----------
    name : str
    values : sequence
    """
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or not len(values):
        raise _wrong(name, "a list of at least one choice")
    return {"choices": [describe(item) for item in values]}


def _wrong(name: str, rule: str) -> ParameterError:
    """The complaint about one parameter of a space.

    Parameters
    ----------
    name : str
    rule : str
        What its candidates must be.
    """
    return ParameterError(f"The candidates of {name!r} must be {rule}.")


def _checked_range(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """A range as plain values, without what is off, or a `ParameterError`.

    Parameters
    ----------
    name : str
    value : mapping
    """
    strange = [str(key) for key in value if key not in _RANGE]
    if strange:
        free = [key for key in _RANGE if key not in value]
        raise ParameterError(f"{name!r}: {unknown('key of a range', strange[0], free)}")
    plain: dict[str, Any] = {
        key: item.item() if isinstance(item, np.generic) else item for key, item in value.items()
    }
    low: Any = plain.get("low")
    high: Any = plain.get("high")
    log, step, points = plain.get("log", False), plain.get("step"), plain.get("points")
    if not (_is_number(low) and _is_number(high) and low < high):
        raise _wrong(name, "a list, or a range with two finite numbers, 'low' below 'high'")
    if not isinstance(log, bool) or (log and low <= 0):
        raise _wrong(name, "a range with 'log' true or false, and 'low' above 0 if it is true")
    if step is not None and not (_is_number(step) and 0 < step <= high - low and not log):
        raise _wrong(name, "a range whose 'step' is above 0 and fits into it, without 'log'")
    if points is not None and not (is_whole(points, 2) and points <= LONGEST_GRID):
        raise _wrong(name, f"a range whose 'points' are from 2 to {LONGEST_GRID}")
    if points is not None and step is not None:
        raise _wrong(name, "a range with 'points' or with a 'step', not both")
    return {k: v for k, v in plain.items() if v is not None and v is not False}


def _checked_distribution(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """A distribution of scipy.stats as plain values, or a `ParameterError`.

    Parameters
    ----------
    name : str
    value : mapping
    """
    try:
        lowest, median = float(frozen(value).support()[0]), float(frozen(value).ppf(0.5))
    except (ArithmeticError, AttributeError, TypeError, ValueError, KeyError, RuntimeError):
        lowest = median = math.nan
    if math.isnan(lowest) or not math.isfinite(median):
        rule = "a distribution of scipy.stats by its name, with quantiles and valid arguments"
        raise _wrong(name, rule)
    return dict(value)


def frozen(told: Mapping[str, Any]) -> Any:
    """The distribution of scipy.stats that plain values tell; of another name, a KeyError.

    It needs a quantile function of its own: scipy looks for others' quantiles step by step, which
    may never end, and every site reads the study.
    """
    from scipy import stats  # slow to load

    kinds = (stats.rv_continuous, stats.rv_discrete)
    if not set(told) <= {"distribution", "arguments", "named"}:
        raise KeyError
    found = getattr(stats, str(told["distribution"]), None)
    if not isinstance(found, kinds) or type(found)._ppf is stats.rv_continuous._ppf:
        raise KeyError
    return found(*told.get("arguments", ()), **told.get("named", {}))


def _is_number(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) <= sys.float_info.max  # neither NaN nor a number too long for it


def is_whole_range(told: Mapping[str, Any]) -> bool:
    """Whether a range has whole numbers only: its ends are, and its step, if it has one."""
    return all(isinstance(told[key], int) for key in ("low", "high", "step") if key in told)


def is_budget(value: Any) -> bool:
    """Whether `value` is a number of candidates, or a mapping of limits to numbers."""
    told = value if isinstance(value, Mapping) else {"candidates": value}
    known = bool(told) and set(told) <= set(BUDGET)
    return known and all(is_whole(n, 1) and n <= BUDGET[name] for name, n in told.items())


def whole_budget(budget: Any, search: str) -> dict[str, int]:
    """Every limit of a search.

    Parameters
    ----------
    budget : int, mapping or None
        Of which `is_budget` is true.
    search : str

    Examples
    --------
    >>> whole_budget(60, "tpe"), whole_budget({"numbers": 400}, "random")
    ({'candidates': 60, 'rounds': 6}, {'candidates': 40, 'rounds': 1, 'numbers': 400})
    """
    usual = {"candidates": USUAL_CANDIDATES, "rounds": 1 if search == "random" else USUAL_ROUNDS}
    told = budget if isinstance(budget, Mapping) else {} if budget is None else {
        "candidates": budget
    }  # fmt: skip
    return {name: int(value) for name, value in {**usual, **told}.items()}


# What lies in it ------------------------------------------------------------------------------


def corners(space: Space) -> list[dict[str, Any]]:
    """Candidates at the ends of every range and with every choice: none of a function's.

    Examples
    --------
    >>> corners(({"C": {"low": 1, "high": 9}, "kind": {"choices": ["a", "b", "c"]}},))
    [{'C': 1, 'kind': 'a'}, {'C': 9, 'kind': 'b'}, {'C': 9, 'kind': 'c'}]
    """
    found = []
    for branch in space:
        if is_function(space):
            return []
        ends = {name: _ends(told) for name, told in branch.items()}
        found += [
            {name: values[min(k, len(values) - 1)] for name, values in ends.items()}
            for k in range(max(map(len, ends.values())))
        ]
    return found


def _ends(told: Mapping[str, Any]) -> list[Any]:
    if "choices" in told:
        return list(told["choices"])
    if "distribution" in told:
        return [from_quantile(told, 0.5)]
    return [told["low"], told["high"]]


def is_function(space: Space) -> bool:
    """Whether a space is a function, which only Python can call."""
    return len(space) == 1 and set(space[0]) == {FUNCTION} and isinstance(space[0][FUNCTION], str)


def from_quantile(told: Mapping[str, Any], quantile: float) -> int | float:
    """The value of a distribution at a quantile: a whole number if it is one of those.

    Parameters
    ----------
    told : mapping
    quantile : float
        Between 0 and 1.
    """
    distribution = frozen(told)
    value = distribution.ppf(quantile)
    return int(value) if hasattr(distribution, "pmf") else float(value)


def at_edges(candidate: Mapping[str, Any], space: Space) -> dict[str, float]:
    """Parameters whose value lies at an edge of what a space has, with the edge.

    A function tells none.

    Parameters
    ----------
    candidate : mapping
        Of the space.
    space : Space

    Examples
    --------
    >>> at_edges({"C": 0.9, "D": 0.9}, ({"C": {"low": 0.01, "high": 1.0, "log": True},
    ...                                  "D": {"low": 0.01, "high": 1.0}},))
    {'C': 1.0}
    """
    own = [] if is_function(space) else [b for b in space if is_inside(candidate, (b,))]
    found = {
        name: _edge_near(candidate[name], told) for name, told in (own[0] if own else {}).items()
    }
    return {name: edge for name, edge in found.items() if edge is not None}


def _edge_near(value: Any, told: Mapping[str, Any]) -> float | None:
    """The first or last of three numbers or more that a value is, or the end of a range near it.

    Parameters
    ----------
    value : object
    told : mapping
        What a space says of the parameter.
    """
    if "choices" in told:
        numbers = sorted({item for item in told["choices"] if _is_number(item)})
        is_end = len(numbers) >= 3 and _is_number(value) and value in (numbers[0], numbers[-1])
        return float(value) if is_end else None
    if "distribution" in told:
        return None
    scale = math.log if told.get("log") else float
    low, high, here = scale(told["low"]), scale(told["high"]), scale(value)
    share = (here - low) / (high - low)
    if EDGE <= share <= 1.0 - EDGE:
        return None
    return float(told["low"] if share < EDGE else told["high"])


def is_inside(candidate: Mapping[str, Any], space: Space) -> bool:
    """Whether a space has this candidate; whatever a function draws is inside.

    Parameters
    ----------
    candidate : mapping
    space : Space

    Examples
    --------
    >>> space = ({"C": {"low": 1, "high": 9, "step": 2}},)
    >>> is_inside({"C": 5}, space), is_inside({"C": 4}, space), is_inside({"D": 5}, space)
    (True, False, False)
    """
    return is_function(space) or any(
        set(candidate) == set(branch)
        and all(_is_in(candidate[name], told) for name, told in branch.items())
        for branch in space
    )


def _is_in(value: Any, told: Mapping[str, Any]) -> bool:
    """Whether a parameter may have this value.

    Parameters
    ----------
    value : object
    told : mapping
        What a space says of the parameter.
    """
    if "choices" in told:
        truth = isinstance(value, bool)  # 1 is not True
        return any(value == c and truth == isinstance(c, bool) for c in told["choices"])
    if not _is_number(value):
        return False
    if "distribution" in told:
        distribution = frozen(told)
        low, high = distribution.support()
        whole = value == round(value) or not hasattr(distribution, "pmf")
        return whole and bool(low <= value <= high)
    if not told["low"] <= value <= told["high"]:
        return False
    step = told.get("step", 1 if is_whole_range(told) else None)
    if step is None:
        return True
    steps = (value - told["low"]) / step
    return bool(abs(steps - round(steps)) < _ROUNDING * max(1.0, abs(steps)))

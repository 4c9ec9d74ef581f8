"""Preprocessing as part of a model's format: steps made of parts, each a few plain arrays.

A step turns a matrix into a matrix. Its parts stand side by side: each takes some columns of what
came and gives columns of its own.

===========  ==========================================  =======================================
kind         gives                                       arrays
===========  ==========================================  =======================================
"keep"       the columns                                 none
"affine"     (x − shift) / scale                         shift, scale (columns,)
"powers"     products of powers                          powers (outputs, columns)
"levels"     a flag for every agreed level, or its code  levels, sizes (columns,), dropped
"spline"     B-splines on agreed knots, constant beyond  knots (columns, knots)
"clip"       x, not below low nor above high             low, high (columns,)
"log", …     a function of every cell, see `FUNCTIONS`   none
"bands"      of one column: a flag for every bound that  bounds (flags,)
             x reaches
"sum"        weighted sums of the columns                weights (outputs, columns)
"gaps"       the columns but the last, empty where that  none
             is 1
"places"     of the flags of one column of texts: the    none
             place of its level; with `marked` it is
             empty where the last flag is 1
"numbers"    the same of a column of whole numbers: the  levels (flags + 1,)
             level itself
"missing"    a flag of every empty cell                  none
"constant"   the columns, empty cells filled as agreed   constant (columns,)
"fill"       the same with numbers that were learnt      fill (columns,)
"mode"       the same with levels that were learnt       chosen, sizes (columns,), levels
===========  ==========================================  =======================================

An empty cell is NaN. None of these kinds holds one in its arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcsa.errors import ModelError
from fedcsa.models.description import (
    FUNCTIONS,
    damaged,
    exactly,
    must_agree,
    take,
    thaw,
    whole_numbers,
)

if TYPE_CHECKING:
    from fedcsa.core.arrays import Array

#: Columns after a step: all pairs of 100 features are 5,150.
MAX_COLUMNS = 10_000
#: Steps of a model: more than any pipeline by hand has. Parts of a step: every column of texts is
#: one, and no table has as many.
MAX_SEQUENCE, MAX_PARTS = 16, 1_000
#: Of a product, and of a spline: curves of a higher degree fit noise.
MAX_DEGREE = 5
#: Words and arrays of every kind besides its columns.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "keep": (), "affine": (), "powers": (), "levels": ("codes", "unknown"),
    "spline": ("degree", "bias"), "clip": (), "bands": (), "sum": (), "gaps": (),
    "places": ("marked",), "numbers": ("marked",), "missing": (), "constant": (),
    "fill": (), "mode": (),
    **dict.fromkeys(FUNCTIONS, ()),
}  # fmt: skip
_ARRAYS: Mapping[str, tuple[str, ...]] = {
    "affine": ("shift", "scale"), "powers": ("powers",),
    "levels": ("levels", "sizes", "dropped"), "spline": ("knots",), "clip": ("low", "high"),
    "bands": ("bounds",), "sum": ("weights",), "constant": ("constant",), "fill": ("fill",),
    "mode": ("chosen", "sizes", "levels"), "numbers": ("levels",),
}  # fmt: skip


@dataclass(frozen=True)
class Part:
    """Some columns, and what is made of them.

    Attributes
    ----------
    kind : str
    columns : tuple of int
        Of the matrix that came.
    words : mapping
        Options that are no arrays.
    arrays : mapping of str to array
    """

    kind: str
    columns: tuple[int, ...]
    words: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict, repr=False)

    @property
    def width(self) -> int:
        """How many columns it gives."""
        if self.kind in _ONE_A_ROW:
            return len(self.arrays[_ONE_A_ROW[self.kind]])
        if self.kind == "levels" and not self.words["codes"]:
            return int(self.arrays["sizes"].sum() - (self.arrays["dropped"] >= 0).sum())
        if self.kind == "spline":
            each = int(self.arrays["knots"].shape[1] - self.words["degree"] - 1)
            return len(self.columns) * (each if self.words["bias"] else each - 1)
        if self.kind in ("places", "numbers"):
            return 1
        return len(self.columns) - (self.kind == "gaps")

    @property
    def form(self) -> dict[str, Any]:
        """Its words."""
        return {"kind": self.kind, "columns": list(self.columns), **self.words}

    def apply(self, X: Array) -> Array:
        """Its columns, made of those of X of shape (rows, columns)."""
        own: Array = X[:, list(self.columns)]
        if self.kind == "levels":
            return self._levels(own)
        if self.kind in _SIMPLE:
            return np.asarray(_SIMPLE[self.kind](own, self.arrays))
        if self.kind in FUNCTIONS:
            return np.asarray(FUNCTIONS[self.kind](own))
        if self.kind == "places":
            return _place(own, marked=self.words["marked"])
        if self.kind == "numbers":
            place = _place(own, marked=self.words["marked"])
            known = np.where(np.isnan(place), 0.0, place).astype(np.intp)
            return np.where(np.isnan(place), np.nan, self.arrays["levels"][known])
        if self.kind == "spline":
            degree, end = self.words["degree"], None if self.words["bias"] else -1
            knots = self.arrays["knots"]
            made = [splines(x, t, degree)[:, :end] for x, t in zip(own.T, knots, strict=True)]
            return np.concatenate(made, axis=1)
        return own

    def _levels(self, own: Array) -> Array:
        """Flags or codes of levels; one that was not agreed is refused, or has no flag or code."""
        made = []
        ends = np.cumsum(self.arrays["sizes"])[:-1]
        for x, levels, dropped in zip(
            own.T, np.split(self.arrays["levels"], ends), self.arrays["dropped"], strict=True
        ):
            order = np.argsort(levels)
            place = np.searchsorted(levels, x, sorter=order)
            code = order[np.minimum(place, len(levels) - 1)]
            known = levels[code] == x
            if self.words["unknown"] == "error" and not known.all():
                raise ModelError("Rows must have the agreed levels only. Agree on all of them.")
            if self.words["codes"]:
                made.append(np.where(known, code, np.nan)[:, None])
                continue
            flags = (code[:, None] == np.arange(len(levels))) & known[:, None]
            kept = flags if dropped < 0 else np.delete(flags, dropped, axis=1)
            made.append(kept.astype(np.float64))
        return np.concatenate(made, axis=1)


#: Kinds that give a column for every entry of an array.
_ONE_A_ROW = {"powers": "powers", "bands": "bounds", "sum": "weights"}
#: Kinds whose columns follow from their arrays in a line.
_SIMPLE: Mapping[str, Callable[[Array, Mapping[str, NDArray[Any]]], Array]] = {
    "affine": lambda x, own: (x - own["shift"]) / own["scale"],
    "powers": lambda x, own: _products(x, own["powers"]),
    "clip": lambda x, own: np.clip(x, own["low"], own["high"]),
    "bands": lambda x, own: (x >= own["bounds"]).astype(np.float64),
    "sum": lambda x, own: x @ own["weights"].T,
    "gaps": lambda x, own: np.where(x[:, -1:] > _HALF, np.nan, x[:, :-1]),  # noqa: ARG005
    "missing": lambda x, own: np.isnan(x).astype(np.float64),  # noqa: ARG005 - no arrays
    "constant": lambda x, own: np.where(np.isnan(x), own["constant"], x),
    "fill": lambda x, own: np.where(np.isnan(x), own["fill"], x),
    "mode": lambda x, own: np.where(np.isnan(x), _commonest(own), x),
}
#: Flags are 0 and 1; a table's mean of one, which is asked for too, counts as what it is nearer to.
_HALF = 0.5
#: Steps one after the other, each of parts side by side.
Steps: TypeAlias = tuple[tuple[Part, ...], ...]


def _place(flags: Array, *, marked: bool) -> Array:
    """The place of the level whose flag is 1, the last of several; 0 where none is; (rows, 1).

    Parameters
    ----------
    flags : array of shape (rows, flags)
        Of every level but the first; with `marked`, that of an empty cell behind them.
    marked : bool
    """
    own = flags[:, :-1] if marked else flags
    found = ((own > _HALF) * np.arange(1.0, own.shape[1] + 1.0)).max(axis=1)
    found = np.where(flags[:, -1] > _HALF, np.nan, found) if marked else found
    return np.asarray(found[:, None])


def _commonest(arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """The level that was learnt of every column."""
    first = np.cumsum(arrays["sizes"]) - arrays["sizes"]
    return np.asarray(arrays["levels"][first + arrays["chosen"]])


def _products(X: Array, powers: NDArray[np.int32]) -> Array:
    """Products of the columns' powers, of shape (rows, products).

    Parameters
    ----------
    X : array of shape (rows, columns)
    powers : array of int32 of shape (products, columns)
    """
    found = np.ones((len(X), len(powers)))
    for column in range(X.shape[1]):
        raised = np.ones(len(X))
        for power in range(1, int(powers[:, column].max(initial=0)) + 1):
            raised = raised * X[:, column]
            found[:, powers[:, column] == power] *= raised[:, None]
    return found


def splines(x: Array, knots: Array, degree: int) -> Array:
    """All B-splines of a degree by the Cox–de Boor recursion, of shape (rows, splines).

    Parameters
    ----------
    x : array of shape (rows,)
        Beyond the inner knots, the splines keep their value there.
    knots : array of shape (knots,)
        Rising.
    degree : int
    """
    low, high = knots[degree], knots[len(knots) - degree - 1]
    x = np.clip(x, low, high)[:, None]
    inside = (knots[:-1] <= x) & (x < knots[1:])
    inside[x[:, 0] == high] = np.arange(len(knots) - 1) == len(knots) - degree - 2
    found: Array = inside.astype(np.float64)
    for k in range(1, degree + 1):
        rise = (x - knots[: -k - 1]) / (knots[k:-1] - knots[: -k - 1])
        fall = (knots[k + 1 :] - x) / (knots[k + 1 :] - knots[1:-k])
        found = rise * found[:, :-1] + fall * found[:, 1:]
    return found


def apply_steps(steps: Steps, X: Array) -> Array:
    """The design matrix that the steps make of X.

    Parameters
    ----------
    steps : Steps
    X : array of shape (rows, features)
    """
    for parts in steps:
        X = np.concatenate([part.apply(X) for part in parts], axis=1)
    return X


def width_of(steps: Steps, n_features: int) -> int:
    """How many columns the steps make.

    Parameters
    ----------
    steps : Steps
    n_features : int
    """
    return sum(part.width for part in steps[-1]) if steps else n_features


def widest_of(steps: Steps, n_features: int) -> int:
    """The most columns that there are on the way through `steps`.

    Parameters
    ----------
    steps : Steps
    n_features : int
    """
    return max(width_of(steps[:i], n_features) for i in range(len(steps) + 1))


def without_nothing(steps: Steps, n_features: int) -> Steps:
    """The steps without those that pass on all columns as they are.

    Parameters
    ----------
    steps : Steps
    n_features : int
    """
    found, width = list[tuple[Part, ...]](), n_features
    for parts in steps:
        columns = [column for part in parts for column in part.columns]
        if any(part.kind != "keep" for part in parts) or columns != list(range(width)):
            found.append(parts)
        width = sum(part.width for part in parts)
    return tuple(found)


def steps_form(steps: Steps) -> list[list[dict[str, Any]]]:
    """The words of all steps."""
    return [[part.form for part in parts] for parts in steps]


def steps_arrays(steps: Steps) -> dict[str, NDArray[Any]]:
    """The numbers of all steps, named by step, part and array."""
    return {
        f"step{i}.{j}.{name}": array
        for i, parts in enumerate(steps)
        for j, part in enumerate(parts)
        for name, array in part.arrays.items()
    }


def open_steps(form: Any, arrays: Mapping[str, Any], n_features: int) -> Steps:
    """The steps of a message, after everything has been checked.

    Parameters
    ----------
    form : list of lists of mappings
        Words, as `steps_form` gives them.
    arrays : mapping of str to array
        Numbers, as `steps_arrays` gives them, among others.
    n_features : int
    """
    if not isinstance(form, list | tuple) or len(form) > MAX_SEQUENCE:
        raise damaged(f"a list of at most {MAX_SEQUENCE} steps")
    found: list[tuple[Part, ...]] = []
    width = n_features
    for i, parts in enumerate(form):
        if not isinstance(parts, list | tuple) or not 1 <= len(parts) <= MAX_PARTS:
            raise damaged(f"steps of 1 to {MAX_PARTS} parts")
        opened = tuple(_open_part(p, arrays, f"step{i}.{j}", width) for j, p in enumerate(parts))
        width = sum(part.width for part in opened)
        if not 1 <= width <= MAX_COLUMNS:
            raise damaged(f"steps that give 1 to {MAX_COLUMNS} columns")
        found.append(opened)
    return tuple(found)


def _open_part(form: Any, arrays: Mapping[str, Any], prefix: str, width: int) -> Part:
    """One part, checked.

    Parameters
    ----------
    form : mapping
    arrays : mapping of str to array
    prefix : str
        Of its arrays' names.
    width : int
        Columns that come.
    """
    kind = form.get("kind") if isinstance(form, Mapping) else None
    if not isinstance(kind, str) or kind not in _WORDS:
        raise damaged("parts of a known kind")
    exactly(form, ("kind", "columns", *_WORDS[kind]), "words")
    columns = whole_numbers(form["columns"], width, "parts of columns that are there")
    if not 1 <= len(columns) <= MAX_COLUMNS:
        raise damaged(f"parts of 1 to {MAX_COLUMNS} columns")
    own = {name: arrays.get(f"{prefix}.{name}") for name in _ARRAYS.get(kind, ())}
    words = {name: form[name] for name in _WORDS[kind]}
    part = Part(kind, columns, words, own)  # type: ignore[arg-type]
    if kind in _CHECKS:
        _CHECKS[kind](part)
    return part


def _check_affine(part: Part) -> None:
    shape = (len(part.columns),)
    take(part.arrays, "shift", np.float64, shape)
    if not (take(part.arrays, "scale", np.float64, shape) != 0.0).all():
        raise damaged("scales that are not 0")


def _check_clip(part: Part) -> None:
    low, high = (take(part.arrays, n, np.float64, (len(part.columns),)) for n in ("low", "high"))
    if (low > high).any():
        raise damaged("caps of which the lower is not above the upper")


def _check_bands(part: Part) -> None:
    bounds = take(part.arrays, "bounds", np.float64, (None,))
    if len(part.columns) != 1 or not len(bounds) or (np.diff(bounds) <= 0.0).any():
        raise damaged("bounds of one column, at least one, that rise")


def _check_sum(part: Part) -> None:
    weights = take(part.arrays, "weights", np.float64, (None, len(part.columns)))
    if not 1 <= len(weights) <= MAX_COLUMNS:
        raise damaged(f"1 to {MAX_COLUMNS} sums")


def _check_powers(part: Part) -> None:
    powers = take(part.arrays, "powers", np.int32, (None, len(part.columns)))
    if (powers < 0).any() or (powers.sum(axis=1) > MAX_DEGREE).any() or len(powers) > MAX_COLUMNS:
        raise damaged(f"products of a degree from 0 to {MAX_DEGREE}")


def _check_levels(part: Part) -> None:
    words, shape = part.words, (len(part.columns),)
    if type(words["codes"]) is not bool or words["unknown"] not in ("error", "ignore"):
        raise damaged("levels as codes or flags, unknown ones refused or ignored")
    sizes = take(part.arrays, "sizes", np.int32, shape)
    if (sizes < 1).any() or (sizes > MAX_COLUMNS).any():
        raise damaged(f"1 to {MAX_COLUMNS} levels per column")
    levels = take(part.arrays, "levels", np.float64, (int(sizes.sum(dtype=np.int64)),))
    dropped = take(part.arrays, "dropped", np.int32, shape)
    if (dropped < -1).any() or (dropped >= sizes).any():
        raise damaged("dropped levels that are there")
    lists = np.split(levels, np.cumsum(sizes)[:-1])
    if any(len(np.unique(own)) < len(own) for own in lists):
        raise damaged("levels that differ")


def _check_gaps(part: Part) -> None:
    if len(part.columns) < 2:
        raise damaged("a column beside the flag of its empty cells")


def _check_places(part: Part) -> None:
    marked = part.words["marked"]
    if type(marked) is not bool or len(part.columns) < 1 + marked:
        raise damaged("flags of levels")


def _check_numbers(part: Part) -> None:
    _check_places(part)
    levels = take(
        part.arrays, "levels", np.float64, (1 + len(part.columns) - part.words["marked"],)
    )
    if len(np.unique(levels)) < len(levels):
        raise damaged("levels that differ")


def _check_constant(part: Part) -> None:
    take(part.arrays, part.kind, np.float64, (len(part.columns),))


def _check_mode(part: Part) -> None:
    shape = (len(part.columns),)
    chosen, sizes = (take(part.arrays, name, np.int32, shape) for name in ("chosen", "sizes"))
    if (chosen < 0).any() or (chosen >= sizes).any() or (sizes > MAX_COLUMNS).any():
        raise damaged("levels that are there")
    take(part.arrays, "levels", np.float64, (int(sizes.sum(dtype=np.int64)),))


def _check_spline(part: Part) -> None:
    degree, bias = part.words["degree"], part.words["bias"]
    if type(degree) is not int or not 1 <= degree <= MAX_DEGREE or type(bias) is not bool:
        raise damaged(f"splines of a degree from 1 to {MAX_DEGREE}")
    knots = take(part.arrays, "knots", np.float64, (len(part.columns), None))
    if not 2 * degree + 2 <= knots.shape[1] <= MAX_COLUMNS or (np.diff(knots) <= 0.0).any():
        raise damaged("knots that rise, two more than a spline's own")


#: How the arrays of every kind are checked that has some, or words.
_CHECKS = {
    "affine": _check_affine, "powers": _check_powers, "levels": _check_levels,
    "spline": _check_spline, "clip": _check_clip, "bands": _check_bands, "sum": _check_sum,
    "gaps": _check_gaps, "places": _check_places, "numbers": _check_numbers,
    "constant": _check_constant, "fill": _check_constant, "mode": _check_mode,
}  # fmt: skip


def steps_of_parts(branches: Sequence[Steps], widths: Sequence[int]) -> Steps:
    """Branches side by side as steps that end together: shorter ones keep their columns at first.

    Parameters
    ----------
    branches : sequence of Steps
        Each of them of columns of its own, counted from 0.
    widths : sequence of int
        How many columns go into every branch, one branch after the other.
    """
    found: list[tuple[Part, ...]] = []
    widths, longest = list(widths), max(map(len, branches), default=0)
    for level in range(longest):
        parts: list[Part] = []
        start = 0
        for b, branch in enumerate(branches):
            keep = (Part("keep", tuple(range(widths[b]))),) if widths[b] else ()
            turn = level - (longest - len(branch))
            own = branch[turn] if turn >= 0 else keep
            for part in own:
                moved = tuple(start + column for column in part.columns)
                parts.append(Part(part.kind, moved, part.words, part.arrays))
            start += widths[b]
            widths[b] = sum(part.width for part in own)
        found.append(tuple(parts))
    return tuple(found)


#: Arrays of steps that were learnt; all others were agreed.
_LEARNT = (".shift", ".scale", ".fill", ".chosen")


def check_steps(form: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], steps: Steps) -> None:
    """Compare steps with what was agreed.

    Parameters
    ----------
    form : mapping
    arrays : mapping of str to array
    steps : Steps
        That were agreed.
    """
    must_agree(thaw(form.get("steps", [])) == steps_form(steps), "steps")
    for name, array in steps_arrays(steps).items():
        same = name.endswith(_LEARNT) or np.array_equal(arrays[name], array)
        must_agree(same, f"array {name!r}")

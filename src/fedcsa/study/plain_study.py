"""A plain study of plain tables is seen to be sound without a library that computes.

`fedcsa check` asks here first. This module has no rules of its own about what is wrong, and no
sentences: it knows a narrow class of files in which nothing can be wrong, and leaves every other
one to `Study.check`, which loads numpy and pyarrow and says what it finds. Whatever is sound here
is sound there; a test holds the two against each other.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

#: Names of studies, sources and columns that no rule could mind.
_NAME = re.compile(r"[A-Za-z](?:[\w .()-]{0,58}[\w.)])?", re.ASCII)
#: What cells of numbers consist of; which of such texts are numbers, `float` says as our rule does.
_DIGITS = re.compile(r"[0-9eE+.,-]*")
#: A number beyond takes a closer look, and so does a column of numbers all nearer to 0.
_LARGEST, _SMALLEST = 1e30, 1e-30
#: Fewer rows may not suffice for folds.
_FEWEST_ROWS = 50
#: Of all tables. Reading takes up to 2.3 times as long here as by pyarrow, whose loading, with all
#: that comes with it, takes as long as 15 MB here; a closer look after all must not cost much more.
_LARGEST_BYTES = 1 << 22
#: Of the smaller sd. A mean farther off than 3.5 may be in another unit; told numbers are rounded.
_NEAR = 3.0
#: No more than this many columns, and sources, than what any message holds.
_MOST = 500
#: With fewer sources there is a warning.
_FEWEST = 3


class _Column(NamedTuple):
    mean: float
    sd: float


def unused_if_sound(path: Path) -> tuple[str, ...] | None:
    """The columns of the tables that a study does not use; None if it takes a closer look.

    Parameters
    ----------
    path : Path
        Of a study file. With None, `Study.check` must look: at what is wrong, or at a study with
        options, levels, missing cells, another model, other files than CSV, or long tables.
    """
    try:
        return _unused(path)
    except (OSError, ValueError, TypeError, AttributeError, LookupError, RecursionError):
        return None


def _need(plain: object) -> None:
    """Raise a `ValueError` at something that is not of the narrow class."""
    if not plain:
        raise ValueError


def _unused(path: Path) -> tuple[str, ...]:
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    _need(set(document) <= {"name", "seed", "outcome", "features", "model", "target", "sources"})
    seed = document.get("seed", 0)
    _need(type(seed) is int and 0 <= seed < 1 << 31)
    features, sources = document["features"], document["sources"]
    _need(document["model"] == {"name": "ridge"} and 0 < len(features) <= _MOST)
    _need(all(kind == "number" for kind in features.values()))
    _need(_FEWEST <= len(sources) <= _MOST)
    outcome = document["outcome"]["name"]
    _need(document["outcome"] == {"name": outcome} and outcome not in features)
    _need(_are_names([document["name"], outcome, *features, *sources]) and "target" not in sources)
    [target_path, *paths] = [_path(path.parent, t) for t in (document["target"], *sources.values())]
    _need(sum(table.stat().st_size for table in (target_path, *paths)) <= _LARGEST_BYTES)
    header, target = _read(target_path, [*features])
    _need(all(column.sd > 0.0 for column in target))
    every: dict[str, None] = {}
    for table in paths:
        names, columns = _read(table, [*features, outcome])
        every |= dict.fromkeys(names)
        # Nobody could think that a column is in another unit than the target's.
        for own, its in zip(columns[:-1], target, strict=True):
            _need(abs(own.mean - its.mean) <= _NEAR * min(own.sd, its.sd))
    return tuple(name for name in every | dict.fromkeys(header) if name not in {*features, outcome})


def _are_names(texts: Iterable[Any]) -> bool:
    return all(isinstance(text, str) and _NAME.fullmatch(text) for text in texts)


def _path(folder: Path, table: Any) -> Path:
    """Where a table is that the study file names, relative to its folder."""
    where = table["table"] if isinstance(table, dict) and set(table) == {"table"} else ""
    _need(isinstance(where, str) and where.endswith(".csv"))
    return folder / where


def _read(path: Path, wanted: Sequence[str]) -> tuple[list[str], list[_Column]]:
    """The header of a table, and of every column in `wanted` what a check of units needs.

    Parameters
    ----------
    path : Path
    wanted : sequence of str
        Names of columns, all of them numbers.
    """
    text = path.read_bytes().decode("utf-8")
    _need(text.isprintable() or not re.search(r'["\r\t\v\f\x00-\x08\x0e-\x1f\x7f-\x9f]', text))
    first, *lines = text.removesuffix("\n").split("\n")
    names = first.split(",")
    _need(";" not in first and _are_names(names) and len(set(names)) == len(names))
    rows = [line.split(",") for line in lines]
    _need(len(rows) >= _FEWEST_ROWS and set(map(len, rows)) == {len(names)})
    by_name = dict(zip(names, zip(*rows, strict=True), strict=True))
    _need(by_name.keys() >= set(wanted))
    return names, [_column(by_name[name]) for name in wanted]


def _column(cells: Sequence[str]) -> _Column:
    """Mean and sd of cells that are all numbers."""
    _need(_DIGITS.fullmatch(",".join(cells)))
    values = [*map(float, cells)]
    sizes = [*map(abs, values)]
    _need(_SMALLEST <= max(sizes) <= _LARGEST)  # an infinite number is no exception
    mean = math.fsum(values) / len(values)
    return _Column(mean, math.sqrt(math.fsum((x - mean) ** 2 for x in values) / len(values)))

"""Studies that go through the rows of Table 1 under both scales of the penalty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from common import run_all
from table1 import Sizes, printed

Found = TypeVar("Found")
Own = TypeVar("Own", bound="RowSettings")
SIZES = ("n_target", "n_1", "n_2")


class RowSettings(Protocol):
    """What such a study fixes."""

    @property
    def rows(self) -> int:
        """How many of the twenty."""

    @property
    def first_seed(self) -> int:
        """That of every row's first data set."""

    @property
    def seeds(self) -> int:
        """Data sets a row."""

    @property
    def penalty_scales(self) -> tuple[str, ...]:
        """Penalties beside a mean or a sum of squared errors."""


#: Scale of the penalty, sizes, seed, settings.
Task = tuple[str, Sizes, int, Own]
Row = tuple[dict[str, Any], list[Found]]


def run_rows(
    function: Callable[[Task[Own]], Found], settings: Own, workers: int, label: str
) -> list[Row[Found]]:
    """For every scale and row: what to say of it (scale, sizes) and what its seeds found."""
    heads = [
        {"penalty": scale, **{key: row[key] for key in SIZES}}
        for scale in settings.penalty_scales
        for row in printed()[: settings.rows]
    ]
    n = settings.seeds
    tasks = [
        (head["penalty"], sizes_of(head), settings.first_seed + index, settings)
        for head in heads
        for index in range(n)
    ]
    found = run_all(function, tasks, workers, label)
    return [(head, found[n * i : n * (i + 1)]) for i, head in enumerate(heads)]


def sizes_of(line: dict[str, Any]) -> Sizes:
    """(n_T, n_1, n_2)."""
    n_target, n_1, n_2 = (int(line[key]) for key in SIZES)
    return n_target, n_1, n_2


def show(lines: Sequence[dict[str, Any]], methods: Sequence[str], digits: int) -> None:
    """Print mean and spread of every method, row by row."""
    for told in lines:
        errors = ", ".join(
            f"{m} {told[f'{m}_mean']:.2f} ± {told[f'{m}_sd']:.{digits}f}" for m in methods
        )
        print(f"{told['penalty']} {sizes_of(told)}: {errors}")

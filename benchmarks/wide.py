"""One source with many features: the default study against one XᵀX a fold and power.

Each XᵀX is of the rows of one fold, so that all of them are three of all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.harness import (
    blas_threads,
    compared,
    interleaved,
    on_one_core,
    options,
    write_provenance,
    write_table,
)
from benchmarks.source import FOLDS, answer, brief_of
from benchmarks.studies import POWERS, outcomes, rows_of, source


@dataclass(frozen=True)
class Settings:
    """Sizes."""

    rows: int = 20_000
    features: tuple[int, ...] = (200, 1_000)
    repeats: int = 3


QUICK = Settings(rows=1_000, features=(20, 30), repeats=1)


def products(X: np.ndarray) -> None:
    """One XᵀX a fold and power: all rows, as often as there are powers."""
    for _ in POWERS:
        for part in np.array_split(X, FOLDS):
            part.T @ part


def many_features(settings: Settings, repeats: int) -> list[dict[str, Any]]:
    lines = []
    for features in settings.features:
        X, brief = rows_of(settings.rows, features, seed=1), brief_of(features)
        y = outcomes(X, seed=2)
        functions = {
            "products": on_one_core(lambda X=X: products(X)),
            "source": on_one_core(
                lambda X=X, y=y, brief=brief: answer(source("north", X, y), brief)
            ),
        }
        often = repeats if features < 1_000 else 1  # minutes of arithmetic tell enough
        with blas_threads(1):
            found = compared(interleaved(functions, often), "products")
        lines += [
            {"rows": settings.rows, "features": features, "what": what, **numbers}
            for what, numbers in found.items()
        ]
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else Settings()
    write_table(given.out, "wide", many_features(settings, given.repeats or settings.repeats))
    write_provenance(given.out, "wide", asdict(settings), quick=given.quick)


if __name__ == "__main__":
    main()

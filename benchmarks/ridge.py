"""Ridge regression for a thousand penalties against one: a path costs little more than a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.harness import (
    blas_threads,
    compared,
    interleaved,
    options,
    write_provenance,
    write_table,
)
from fedcsa.core.ridge import ridge_path
from fedcsa.models.model import LinearRegression


@dataclass(frozen=True)
class Settings:
    """Sizes; the last number of rows and of candidates are those that bars are about."""

    rows: tuple[int, ...] = (1_000, 10_000)
    features: int = 20
    candidates: tuple[int, ...] = (10, 100, 1_000)
    repeats: int = 21


QUICK = Settings(rows=(300,), candidates=(10,), repeats=3)


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else Settings()
    lines = []
    for rows in settings.rows:
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(rows, settings.features)), rng.normal(size=rows)
        ones = np.ones(rows)

        def path(count: int, X: np.ndarray = X, y: np.ndarray = y) -> None:
            ridge_path(X, y, np.linspace(0.01, 1.0, count))

        def models(count: int, X: np.ndarray = X, y: np.ndarray = y, r: np.ndarray = ones) -> None:
            candidates = [{"penalty": theta} for theta in np.linspace(0.01, 1.0, count)]
            LinearRegression().fit(X, y, r, candidates, np.random.default_rng(0))

        for what, function in (("path", path), ("models", models)):
            counts = (1, *settings.candidates)
            functions = {str(count): lambda c=count, f=function: f(c) for count in counts}
            with blas_threads(1):
                found = compared(interleaved(functions, given.repeats or settings.repeats), "1")
            lines += [
                {"rows": rows, "what": what, "candidates": count, **numbers}
                for count, numbers in found.items()
            ]
    write_table(given.out, "ridge", lines)
    write_provenance(given.out, "ridge", asdict(settings), quick=given.quick)


if __name__ == "__main__":
    main()

"""Trees as plain arrays, walked by our own code, against scikit-learn's own prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from benchmarks.harness import (
    blas_threads,
    compared,
    interleaved,
    options,
    write_provenance,
    write_table,
)
from fedcsa.models.convert import to_portable
from fedcsa.models.portable import agreed_grid
from fedcsa.models.trees import to_bins

OWN, OURS = "scikit-learn", "walk"


@dataclass(frozen=True)
class Settings:
    """Sizes; the bar is about the last number of rows."""

    rows: tuple[int, ...] = (1_000, 100_000)
    trained: int = 2_000
    features: int = 10
    trees: int = 100
    repeats: int = 5


QUICK = Settings(rows=(200,), trained=200, trees=5, repeats=3)


def estimators(trees: int) -> list[tuple[object, int]]:
    """Estimators, and how many classes they tell apart."""
    forest = {"n_estimators": trees, "min_samples_leaf": 10, "random_state": 0}
    return [
        (RandomForestRegressor(**forest), 0),
        (RandomForestClassifier(**forest), 3),
        (GradientBoostingRegressor(n_estimators=trees, random_state=0), 0),
        (HistGradientBoostingRegressor(max_iter=trees, random_state=0), 0),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else Settings()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(settings.trained, settings.features))
    y = X[:, 0] ** 2 + X[:, 1] * X[:, 2] + rng.normal(size=len(X))
    codes = np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))
    grid = agreed_grid(np.ones(settings.features), scale=True)
    lines = []
    for estimator, n_classes in estimators(settings.trees):
        estimator.fit(to_bins(X, grid).astype(float), codes if n_classes else y)
        model = to_portable(estimator, n_classes, grid)
        own = estimator.predict_proba if n_classes else estimator.predict
        for rows in settings.rows:
            new = rng.normal(size=(rows, settings.features))
            bins = to_bins(new, grid).astype(float)
            functions = {
                OWN: lambda f=own, b=bins: f(b),
                OURS: lambda m=model, b=new: m.predict(b),
            }
            with blas_threads(1):
                found = compared(interleaved(functions, given.repeats or settings.repeats), OWN)
            name = type(estimator).__name__
            lines += [
                {"rows": rows, "estimator": name, "what": what, **numbers}
                for what, numbers in found.items()
            ]
    write_table(given.out, "trees", lines)
    write_provenance(given.out, "trees", asdict(settings), quick=given.quick)


if __name__ == "__main__":
    main()

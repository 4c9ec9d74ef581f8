"""A back-test against the sum of its studies: every source in turn plays the target of the others.

Work is seconds of this process and of those that it started. The studies are the default ones,
run one by one as a user would; the back-test also realises every measure, and fits at every site
a model of its own for comparison. Libraries are loaded before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.fits import taken
from benchmarks.harness import blas_threads, options, write_provenance, write_table
from benchmarks.studies import outcomes, rows_of
from fedcsa import FedCSA


@dataclass(frozen=True)
class Settings:
    """Sizes; of the model that is slow to fit there are half as many sources."""

    sources: int = 24
    rows: int = 200
    features: int = 10


QUICK = Settings(sources=3, rows=60, features=3)


def measured(settings: Settings, name: str, model: Any, candidates: Any) -> dict[str, Any]:
    sources = {}
    for index in range(settings.sources):
        X = rows_of(settings.rows, settings.features, 1 + index, shift=0.1 * (index % 3))
        y = outcomes(X, seed=index)
        sources[f"s{index:02d}"] = X, (y if model == "ridge" else np.where(y > 0.0, 1, 0))
    study = FedCSA(model, candidates=candidates, random_state=0, on_no_overlap="predict")

    def one_by_one() -> None:
        for name in sources:
            others = {other: site for other, site in sources.items() if other != name}
            _ = study.fit(others, sources[name][0]).verdict_  # what nobody asks for is not made

    _, summed = taken(one_by_one)
    _, work = taken(lambda: study.backtest(sources))
    return {
        "model": name,
        "sources": settings.sources,
        "rows": settings.rows,
        "cpu_seconds": work,
        "sum_of_studies": summed,
        "cpu_ratio": work / summed,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else Settings()
    few = {"C": [1.0], "ratio_power": [0.0, 0.5, 1.0]}  # 15 fits a source and study
    with blas_threads(1):
        lines = [
            measured(settings, "ridge", "ridge", None),
            measured(
                replace(settings, sources=max(settings.sources // 2, 3)),
                "logistic regression",
                LogisticRegression(),
                few,
            ),
        ]
    write_table(given.out, "backtest", lines)
    write_provenance(given.out, "backtest", asdict(settings), quick=given.quick)


if __name__ == "__main__":
    main()

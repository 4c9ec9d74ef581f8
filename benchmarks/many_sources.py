"""What a source costs in a study of a thousand, against what it costs in a study of ten.

The default study in one process, from rows to verdict: every message is checked and stands in a
ledger, and the target's own work is included. Seconds of work on one core, so that they do not
depend on what else the machine does. Libraries are loaded before.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from benchmarks.harness import (
    blas_threads,
    exponent,
    options,
    timed,
    write_provenance,
    write_table,
)
from benchmarks.studies import outcomes, rows_of
from fedcsa import FedCSA


@dataclass(frozen=True)
class Settings:
    """Sizes; bars are about the last number of sources. Few sources are timed more often."""

    sources: tuple[int, ...] = (10, 100, 1_000)
    rows: int = 200
    features: int = 10


QUICK = Settings(sources=(3, 6), rows=60)


def seconds(settings: Settings, count: int) -> float:
    sources = {}
    for index in range(count):
        X = rows_of(settings.rows, settings.features, seed=1 + index)
        sources[f"s{index:05d}"] = X, outcomes(X, seed=index)
    target = rows_of(2_000, settings.features, seed=0, shift=0.2)
    return timed(lambda: FedCSA(random_state=0).fit(sources, target).verdict_).cpu


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else Settings()
    with blas_threads(1):
        seconds(settings, 3)  # warm
        taken = {}
        for count in settings.sources:
            usual = 1 if given.quick else max(1, min(5, 100 // count))
            repeats = given.repeats or usual
            taken[count] = statistics.median(seconds(settings, count) for _ in range(repeats))
    first, *_ = settings.sources
    lines = [
        {
            "sources": count,
            "rows": settings.rows,
            "features": settings.features,
            "cpu_seconds": taken[count],
            "per_source": taken[count] / count,
            "times_fewest": taken[count] / count / (taken[first] / first),
            "exponent": exponent(list(taken)[-2:], list(taken.values())[-2:]),  # the last decade
        }
        for count in settings.sources
    ]
    write_table(given.out, "many_sources", lines)
    write_provenance(given.out, "many_sources", asdict(settings), quick=given.quick)


if __name__ == "__main__":
    main()

"""What one source computes on its rows, against one pass over them with numpy.

The floor: what the table tells of every row (z, and z² − 1 of a number) and the second moments of
that, chunk by chunk: one step of the weights' Newton method. On top come its other steps, the
models of every candidate without each fold, and their losses on every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from benchmarks.harness import (
    Taken,
    blas_threads,
    compared,
    exponent,
    options,
    timed,
    write_provenance,
    write_table,
)
from benchmarks.studies import POWERS, outcomes, rows_of, source, target
from fedcsa.protocol.fields import Message
from fedcsa.protocol.messages import Brief, RiskReport

CHUNK = 16_384
KEYS = ("blas_threads", "candidates")


@dataclass(frozen=True)
class Settings:
    """Sizes; the last number of rows is the one that bars are about."""

    rows: tuple[int, ...] = (100_000, 1_000_000)
    features: int = 20
    penalties: int = 101
    repeats: int = 3


QUICK = Settings(rows=(500, 1_000), penalties=11, repeats=1)


def floor(X: np.ndarray, brief: Brief) -> np.ndarray:
    """Weighted second moments of the table's functions of every row, nothing else."""
    d = 2 * X.shape[1]
    slope, moments = np.zeros(d), np.zeros((d, d))
    for start in range(0, len(X), CHUNK):
        z = (X[start : start + CHUNK] - brief.mean) / brief.sd
        functions = np.hstack([z, z**2 - 1.0])
        weights = np.exp(functions @ slope)
        moments += functions.T @ (weights[:, None] * functions)
    return moments


def answer(X: np.ndarray, y: np.ndarray, brief: Brief) -> Taken:
    site = source("north", X, y)  # a fresh one each time: nothing is remembered
    reports: list[Message] = []
    taken = timed(lambda: reports.append(site.answer(brief)))
    if not isinstance(reports[0], RiskReport):
        raise SystemExit("The source must answer the brief; it refused.")
    return taken


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(
        __doc__,
        arguments,
        rows={"type": int, "nargs": "+", "help": "numbers of rows"},
        threads={
            "choices": ("one", "both"),
            "default": "both",
            "help": "BLAS threads: one, or one and then all (needs a machine of its own)",
        },
        powers={"type": int, "nargs": "+", "default": (1, 3), "help": "1, 3 or both"},
    )
    settings = QUICK if given.quick else Settings()
    sizes = given.rows or settings.rows
    settings = replace(settings, rows=tuple(sizes))
    briefs = {
        power: target(settings.features, settings.penalties, POWERS[:power]).brief(["north"])
        for power in given.powers
    }
    lines = []
    for rows in sizes:
        X = rows_of(rows, settings.features, seed=1)
        y = outcomes(X, seed=2)
        for threads in (1, None) if given.threads == "both" else (1,):
            times: dict[str, list[Taken]] = {"floor": []}
            with blas_threads(threads):
                for _ in range(given.repeats or settings.repeats):
                    times["floor"].append(timed(lambda X=X: floor(X, briefs[given.powers[0]])))
                    for power, brief in briefs.items():
                        times.setdefault(str(power), []).append(answer(X, y, brief))
            label = "all" if threads is None else str(threads)
            for what, numbers in compared(times, "floor").items():
                count = 0 if what == "floor" else int(what) * settings.penalties
                line = {"rows": rows, "blas_threads": label, "candidates": count}
                lines.append({**line, **numbers})
    for line in lines:
        same = [other for other in lines if all(line[k] == other[k] for k in KEYS)]
        several = len({other["rows"] for other in same}) > 1
        line["exponent"] = (
            exponent([o["rows"] for o in same], [o["seconds"] for o in same]) if several else None
        )
    write_table(given.out, "source", lines)
    write_provenance(given.out, "source", asdict(settings), quick=given.quick)


if __name__ == "__main__":
    main()

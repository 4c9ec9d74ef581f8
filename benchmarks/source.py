"""What one source computes on its rows, against the least arithmetic that this needs.

The floor, with numpy alone and chunk by chunk: the weighted second moments of what the table tells
of every row (z, and z² − 1 of a number), which is one step of the weights' Newton method; and the
prediction of every candidate for every row, with the weighted sums of its losses and their squares.
On top come the other steps, and the models of every candidate without each fold.
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
from fedcsa.messages.fields import Message
from fedcsa.messages.messages import Brief, RiskReport

CHUNK = 16_384
KEYS = ("blas_threads", "candidates", "what")


@dataclass(frozen=True)
class Settings:
    """Sizes; the last number of rows is the one that bars are about."""

    rows: tuple[int, ...] = (100_000, 1_000_000)
    features: int = 20
    penalties: int = 101
    repeats: int = 3


QUICK = Settings(rows=(500, 1_000), penalties=11, repeats=1)


def floor(X: np.ndarray, y: np.ndarray, brief: Brief) -> np.ndarray:
    """Moments of the table's functions and losses of every candidate, once each."""
    n, d = len(brief.candidates), X.shape[1]
    rng = np.random.default_rng(0)
    slopes, levels = rng.standard_normal((d, n)), rng.standard_normal(n)
    moments, losses = np.zeros((2 * d, 2 * d)), np.zeros((2, n))
    for start in range(0, len(X), CHUNK):
        z = (X[start : start + CHUNK] - brief.mean) / brief.sd
        functions = np.hstack([z, z**2 - 1.0])
        weights = np.exp(-functions[:, 0])
        moments += functions.T @ (weights[:, None] * functions)
        loss = (z @ slopes + levels - y[start : start + CHUNK, None]) ** 2
        losses += weights @ loss, weights @ loss**2
    return losses


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
            label = "all" if threads is None else str(threads)
            for brief in briefs.values():
                times: dict[str, list[Taken]] = {"floor": [], "source": []}
                with blas_threads(threads):
                    for _ in range(given.repeats or settings.repeats):
                        times["floor"].append(timed(lambda b=brief, X=X, y=y: floor(X, y, b)))
                        times["source"].append(answer(X, y, brief))
                shared = {"rows": rows, "blas_threads": label, "candidates": len(brief.candidates)}
                lines += [
                    {**shared, "what": what, **numbers}
                    for what, numbers in compared(times, "floor").items()
                ]
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

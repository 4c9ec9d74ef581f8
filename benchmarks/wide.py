"""One source with many features, and with many candidates.

Many features: the default study against one XᵀX a fold and power, each of the rows of its fold.
Many candidates: time and memory of the risk report, each number of them in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.harness import (
    blas_threads,
    compared,
    exponent,
    interleaved,
    options,
    peak_mb,
    timed,
    write_provenance,
    write_table,
)
from benchmarks.source import FOLDS, answer, brief_of
from benchmarks.studies import POWERS, outcomes, rows_of, source


@dataclass(frozen=True)
class Settings:
    """Sizes; exponents are fitted on the last two numbers of candidates."""

    rows: int = 20_000
    features: tuple[int, ...] = (200, 1_000)
    candidates: tuple[int, ...] = (60, 600, 6_000)
    candidate_features: int = 20
    repeats: int = 3


QUICK = Settings(rows=1_000, features=(20, 30), candidates=(6, 60), candidate_features=5, repeats=1)


def products(X: np.ndarray) -> None:
    """One XᵀX a fold and power: all rows, as often as there are powers."""
    for _ in POWERS:
        for part in np.array_split(X, FOLDS):
            part.T @ part


def child(rows: int, features: int, count: int) -> dict[str, float]:
    """What one process measures of a risk report on `count` candidates."""
    candidates = [
        {"penalty": float(penalty), "ratio_power": power}
        for power in POWERS
        for penalty in np.logspace(-4, 2, count // len(POWERS))
    ]
    brief = brief_of(features, candidates)
    X = rows_of(rows, features, seed=1)
    site = source("north", X, outcomes(X, seed=2))
    with blas_threads(1):
        taken = timed(lambda: site.answer(brief))
    return {"seconds": taken.wall, "cpu_seconds": taken.cpu, "peak_mb": peak_mb()}


def many_candidates(settings: Settings) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for count in settings.candidates:
        numbers = [str(settings.rows), str(settings.candidate_features), str(count)]
        command = [sys.executable, "-m", "benchmarks.wide", "--child", *numbers]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        told = json.loads(done.stdout.splitlines()[-1])
        lines.append({"rows": settings.rows, "candidates": count, **told})
    before, last = lines[-2:]
    for line in lines:
        line["exponent"] = exponent(
            [before["candidates"], last["candidates"]], [before["cpu_seconds"], last["cpu_seconds"]]
        )
        line["kb_per_candidate"] = (
            1e3
            * (last["peak_mb"] - before["peak_mb"])
            / (last["candidates"] - before["candidates"])
        )
    return lines


def many_features(settings: Settings, repeats: int) -> list[dict[str, Any]]:
    lines = []
    for features in settings.features:
        X, brief = rows_of(settings.rows, features, seed=1), brief_of(features)
        y = outcomes(X, seed=2)
        functions = {
            "products": lambda X=X: products(X),
            "source": lambda X=X, y=y, brief=brief: answer(source("north", X, y), brief),
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
    given = options(__doc__, arguments, child={"nargs": 3, "type": int, "help": argparse.SUPPRESS})
    if given.child:
        print(json.dumps(child(*given.child)))
        return
    settings = QUICK if given.quick else Settings()
    write_table(given.out, "candidates", many_candidates(settings))
    write_table(given.out, "wide", many_features(settings, given.repeats or settings.repeats))
    write_provenance(given.out, "wide", asdict(settings), quick=given.quick)


if __name__ == "__main__":
    main()

"""What one source computes on its rows, against the least arithmetic that this needs.

The source answers the default study: its weights, every candidate on every fold, its model, and
the examination of four others' models with all measures. The floor is numpy alone, block by block:
the weighted first and second moments of what the table tells of a row (z, and z² − 1), once; one
matrix of products a fold and power; the losses of all candidates with their weighted sums and
squares. Weights are made once and kept; folds are known.

Beside it stand the search for the weights alone, in passes of such moments, and the risk report on
many candidates, each number of them in a process of its own: its time and its memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from benchmarks.harness import (
    blas_threads,
    compared,
    interleaved,
    last_decade,
    on_one_core,
    options,
    peak_mb,
    timed,
    write_provenance,
    write_table,
)
from benchmarks.studies import POWERS, outcomes, rows_of, source
from fedcsa import Plan, Policy, Source, Target
from fedcsa.core.batches import HeldRows
from fedcsa.core.tilt import fit_tilt
from fedcsa.messages.codec import digest_of
from fedcsa.messages.messages import (
    Brief,
    Examination,
    ExaminationReport,
    ModelReport,
    ModelRequest,
    RiskReport,
)
from fedcsa.models.linear_format import LinearModel
from fedcsa.models.model import Candidate
from fedcsa.models.registry import default_candidates

#: Rows of a block: what is made of them stays in the processor's cache.
BLOCK = 2048
#: How far the target lies from the source, over all features; the same at any number of them.
SHIFT = 0.9
FOLDS = 5
MEMBERS = 4


@dataclass(frozen=True)
class Settings:
    """Sizes."""

    rows: int = 1_000_000
    features: int = 20
    candidates: tuple[int, ...] = (60, 600, 6_000)
    candidate_rows: int = 20_000
    repeats: int = 3


QUICK = Settings(rows=2_000, features=12, candidates=(6, 60), candidate_rows=1_000, repeats=1)

# The study ----------------------------------------------------------------------------------


def brief_of(features: int, candidates: Sequence[Candidate] | None = None) -> Brief:
    """The default study's brief: ridge regression, 13 penalties times three powers."""
    names, model = tuple(f"x{i}" for i in range(features)), {"name": "ridge"}
    asked = tuple(candidates or default_candidates(model, "validated"))
    plan = Plan(names, model, asked, seed=1, on_no_overlap="predict")
    X = rows_of(2_000, features, seed=0, shift=SHIFT / features**0.5)
    return Target(X, plan, policy=Policy.open()).brief(["north"])


def examination_of(brief: Brief) -> Examination:
    """Of four others' models."""
    d, rng = len(brief.features), np.random.default_rng(3)
    arrays = {}
    for member in range(MEMBERS):
        arrays[f"{member}.coefficients"] = 1.0 / d + rng.normal(0.0, 0.1 / d, d)
        arrays[f"{member}.intercept"] = np.array([0.2])
    return Examination(
        study=brief.study, brief=digest_of(brief), candidate=0, combine="mean", own_weight=0.0,
        weights=np.full(MEMBERS, 1.0 / MEMBERS), arrays=arrays,
        forms=[LinearModel(np.zeros(d), 0.0).form] * MEMBERS,
        constant=np.array([0.2]), again=False, centre=0.2, unit=0.6,
    )  # fmt: skip


def answer(site: Source, brief: Brief) -> None:
    """All that a source does in a study."""
    questions = brief, ModelRequest(brief.study, digest_of(brief), 0), examination_of(brief)
    kinds = RiskReport, ModelReport, ExaminationReport
    for question, kind in zip(questions, kinds, strict=True):
        if not isinstance(site.answer(question), kind):
            raise SystemExit(f"The source must answer a {question.name}; it refused.")


# The floor ----------------------------------------------------------------------------------


def moments(
    X: np.ndarray, mean: np.ndarray, sd: np.ndarray, at: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weighted moments of (1, z, z² − 1), and the weights. A function lies in one piece."""
    d = X.shape[1]
    total, weights, room = (
        np.zeros((2 * d + 1, 2 * d + 1)),
        np.empty(len(X)),
        np.empty((2 * d + 1, BLOCK)),
    )
    for start in range(0, len(X), BLOCK):
        rows = X[start : start + BLOCK]
        functions = room[:, : len(rows)]
        functions[0] = 1.0
        z = functions[1 : d + 1]
        np.subtract(rows.T, mean[:, None], out=z)
        z /= sd[:, None]
        np.multiply(z, z, out=functions[d + 1 :])
        functions[d + 1 :] -= 1.0
        w = np.exp(at @ functions[1:], out=weights[start : start + BLOCK])
        functions *= np.sqrt(w)
        total += functions @ functions.T
    return total, weights


def by_fold(
    X: np.ndarray, y: np.ndarray, labels: np.ndarray, start: int, brief: Brief
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(1, z, y) of a block, fold by fold, the order of its rows, and where folds end."""
    rows = slice(start, start + BLOCK)
    order = labels[rows].argsort(kind="stable")
    a = np.empty((X.shape[1] + 2, len(order)))
    a[0], a[-1] = 1.0, y[rows][order]
    np.subtract(X[rows][order].T, brief.mean[:, None], out=a[1:-1])
    a[1:-1] /= brief.sd[:, None]
    return a, order, np.bincount(labels[rows], minlength=FOLDS).cumsum()


def floor(X: np.ndarray, y: np.ndarray, labels: np.ndarray, brief: Brief) -> np.ndarray:
    """Moments, products and losses, each by one pass."""
    d, n = X.shape[1], len(brief.candidates)
    _, weights = moments(X, brief.mean, brief.sd, np.full(2 * d, -0.01))
    products = np.zeros((len(POWERS), FOLDS, d + 2, d + 2))
    for start in range(0, len(X), BLOCK):
        a, order, ends = by_fold(X, y, labels, start, brief)
        root = weights[start : start + BLOCK][order] ** 0.25
        for power in range(len(POWERS)):
            if power:
                a *= root
            for fold, stop in enumerate(ends):
                part = a[:, ends[fold - 1] if fold else 0 : stop]
                products[power, fold] += part @ part.T
    lines = np.random.default_rng(0).standard_normal((FOLDS, n, d + 2))
    lines[:, :, -1] = -1.0  # a prediction less the outcome
    sums = np.zeros((2, n))
    for start in range(0, len(X), BLOCK):
        a, order, ends = by_fold(X, y, labels, start, brief)
        w = weights[start : start + BLOCK][order]
        losses = np.empty((n, len(order)))
        for fold, stop in enumerate(ends):
            here = slice(ends[fold - 1] if fold else 0, stop)
            np.matmul(lines[fold], a[:, here], out=losses[:, here])
        losses *= losses
        sums[0] += losses @ w
        losses *= losses
        sums[1] += losses @ w
    return sums


# Many candidates ----------------------------------------------------------------------------


def many_penalties(count: int) -> list[Candidate]:
    """So many candidates: penalties times powers."""
    return [
        {"penalty": float(penalty), "ratio_power": power}
        for power in POWERS
        for penalty in np.logspace(-4, 2, count // len(POWERS))
    ]


def child(rows: int, features: int, count: int) -> dict[str, float]:
    """What one process measures of a risk report on `count` candidates."""
    brief, X = brief_of(features, many_penalties(count)), rows_of(rows, features, seed=1)
    site = source("north", X, outcomes(X, seed=2))
    with blas_threads(1):
        taken = timed(lambda: site.answer(brief))
    return {"seconds": taken.wall, "cpu_seconds": taken.cpu, "peak_mb": peak_mb()}


def many_candidates(settings: Settings) -> list[dict[str, Any]]:
    """Time and memory by number of candidates, and how they grow over the last tenfold."""
    lines: list[dict[str, Any]] = []
    for count in settings.candidates:
        numbers = [str(settings.candidate_rows), str(settings.features), str(count)]
        command = [sys.executable, "-m", "benchmarks.source", "--child", *numbers]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        told = json.loads(done.stdout.splitlines()[-1])
        shared = {"rows": settings.candidate_rows, "features": settings.features}
        lines.append({**shared, "candidates": count, "what": "candidates", "repeats": 1, **told})
    counts = [line["candidates"] for line in lines]
    for line in lines:
        line["exponent"] = last_decade(counts, [one["cpu_seconds"] for one in lines])
        line["memory_exponent"] = last_decade(counts, [one["peak_mb"] for one in lines])
    return lines


def against_floors(settings: Settings, repeats: int) -> list[dict[str, Any]]:
    """The whole source against its floor, and the search for the weights against one pass."""
    brief, d = brief_of(settings.features), settings.features
    X = rows_of(settings.rows, d, seed=1)
    y, z = outcomes(X, seed=2), (X - brief.mean) / brief.sd
    labels = np.random.default_rng(3).integers(0, FOLDS, settings.rows).astype(np.int16)
    pairs = {
        "floor": {
            "floor": on_one_core(lambda: floor(X, y, labels, brief)),
            # A fresh source each time: nothing is remembered.
            "source": on_one_core(lambda: answer(source("north", X, y), brief)),
            "source, all cores": lambda: answer(source("north", X, y), brief),
        },
        "pass": {
            "pass": on_one_core(lambda: moments(z, np.zeros(d), np.ones(d), np.full(2 * d, -0.01))),
            "tilt": on_one_core(lambda: fit_tilt(HeldRows(z), np.zeros(d, dtype=bool))),
        },
    }
    shared = {"rows": settings.rows, "features": d, "candidates": len(brief.candidates)}
    lines = []
    with blas_threads(1):
        for base, functions in pairs.items():
            found = compared(interleaved(functions, repeats), base)
            lines += [{**shared, "what": what, **numbers} for what, numbers in found.items()]
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(
        __doc__,
        arguments,
        child={"nargs": 3, "type": int, "help": argparse.SUPPRESS},
        rows={"type": int, "help": "number of rows"},
    )
    if given.child:
        print(json.dumps(child(*given.child)))
        return
    settings = QUICK if given.quick else Settings()
    settings = replace(settings, rows=given.rows or settings.rows)
    lines = many_candidates(settings)
    lines += against_floors(settings, given.repeats or settings.repeats)
    columns = {key: None for line in lines for key in line}
    write_table(given.out, "source", [{**columns, **line} for line in lines])
    write_provenance(given.out, "source", asdict(settings), quick=given.quick)


if __name__ == "__main__":
    main()

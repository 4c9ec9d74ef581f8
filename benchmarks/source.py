"""What one source computes on its rows, against the least arithmetic that this needs.

The source answers the default study: its weights, every candidate on every fold, its model, and
the examination of four others' models with all measures. The floor is numpy alone, block by block:
the weighted first and second moments of what the table tells of a row (z, and z² − 1), once; one
matrix of products a fold and power; the losses of all candidates with their weighted sums and
squares. Weights are made once and kept; folds are known.

Beside it stands the search for the weights alone, in passes of such moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from benchmarks.harness import (
    blas_threads,
    compared,
    interleaved,
    options,
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
from fedcsa.models.model import Candidate
from fedcsa.models.portable import LinearModel
from fedcsa.models.registry import default_candidates

#: Rows of a block: what is made of them stays in the processor's cache.
BLOCK = 2048
#: How far the target lies from the source, over all features; the same at any number of them.
SHIFT = 0.9
FOLDS = 5
MEMBERS = 4


@dataclass(frozen=True)
class Settings:
    """Sizes; the last number of rows is the one that bars are about."""

    rows: tuple[int, ...] = (100_000, 1_000_000)
    features: int = 20
    repeats: int = 3


QUICK = Settings(rows=(1_000, 2_000), features=12, repeats=1)

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


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments, rows={"type": int, "nargs": "+", "help": "numbers of rows"})
    settings = QUICK if given.quick else Settings()
    settings = replace(settings, rows=tuple(given.rows or settings.rows))
    repeats = given.repeats or settings.repeats
    brief = brief_of(settings.features)
    flags, still = np.zeros(settings.features, dtype=bool), np.full(2 * settings.features, -0.01)
    none, one = np.zeros(settings.features), np.ones(settings.features)
    lines = []
    for rows in settings.rows:
        X = rows_of(rows, settings.features, seed=1)
        y, z = outcomes(X, seed=2), (X - brief.mean) / brief.sd
        labels = np.random.default_rng(3).integers(0, FOLDS, rows).astype(np.int16)
        pairs = {
            "floor": {
                "floor": lambda X=X, y=y, labels=labels: floor(X, y, labels, brief),
                # A fresh source each time: nothing is remembered.
                "source": lambda X=X, y=y: answer(source("north", X, y), brief),
            },
            "pass": {
                "pass": lambda z=z: moments(z, none, one, still),
                "tilt": lambda z=z: fit_tilt(HeldRows(z), flags),
            },
        }
        shared = {"rows": rows, "features": settings.features, "blas_threads": 1}
        with blas_threads(1):
            for base, functions in pairs.items():
                lines += [
                    {**shared, "candidates": len(brief.candidates), "what": what, **numbers}
                    for what, numbers in compared(interleaved(functions, repeats), base).items()
                ]
    write_table(given.out, "source", lines)
    write_provenance(given.out, "source", asdict(settings), quick=given.quick)


if __name__ == "__main__":
    main()

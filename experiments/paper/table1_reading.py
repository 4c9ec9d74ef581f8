"""What the printed Table 1 tells about how its ridge regression is to be read.

The paper does not say whether its penalty stands beside a mean or a sum of squared errors, whether
there is an intercept, in which shares the folds are cut, or how Reference chooses its penalty. Two
columns of the table can tell, since no density ratio and no weight enters them: Naive and
Reference. Under every reading many data sets are drawn, as in ``table1`` each target is cut 7:3
again and again, and a data set gives a mean and a spread over its cuts. The density of these pairs,
in logarithms, at the printed pair is the likelihood of the entry; twenty entries make a column.

Tables: ``table1_reading`` (a line a column and reading), ``table1_penalty`` (a line a way to write
the ridge regression: both columns, averaged over what else is open, and how often a table that was
made so is recognised), ``table1_evidence`` (what speaks for a sum and against a mean: with other
kernels, without the rows that say it loudest, and by what is believed of Reference).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

import numpy as np
from lib.common import Array, options, run_all, write_provenance, write_table
from lib.families import Drawn, case1
from lib.paper_arrays import THIRDS, Ridge, held_out_ridge, own_ridge, split
from lib.paper_cases import Sizes, cut, printed, printed_sizes
from scipy.special import logsumexp

SHARES = {"thirds": THIRDS, "21/49/30": (0.21, 0.49, 0.30)}
#: Of Reference's penalty: leave one out, or seven rows in ten against the other three.
CHOICES = ("leave-one-out", "hold-out")
#: Ways to write the ridge regression: with a free intercept or none, and what stands beside θ.
WRITTEN = tuple(product((True, False), ("mean", "sum")))
WORDS = {True: "free", False: "none"}


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    rows: int = 20
    first_seed: int = 60_000
    data_sets: int = 200
    splits: int = 50
    n_penalties: int = 21
    tables: int = 50
    target_share: float = 0.7


FULL = Settings()
QUICK = Settings(rows=2, first_seed=0, data_sets=8, splits=4, n_penalties=5, tables=2)


class Reading(NamedTuple):
    """A column and how it came about."""

    column: str
    intercept: bool
    penalty: str
    choice: str


def readings() -> Iterator[Reading]:
    """All that are open, column by column."""
    for column, choices in (("naive", SHARES), ("reference", CHOICES)):
        for way, choice in product(WRITTEN, choices):
            yield Reading(column, *way, choice)


def run_one(task: tuple[Sizes, int, Settings]) -> dict[Reading, tuple[float, float]]:
    """Mean and standard deviation over the cuts of one data set, under every reading."""
    sizes, seed, settings = task
    drawn = case1(*sizes).draw(seed, n_truth=1)
    cuts = [
        cut(len(drawn.y_target), seed, index, settings.target_share)
        for index in range(settings.splits)
    ]
    found = {}
    for reading in readings():
        ridge = Ridge(
            np.linspace(0.0, 1.0, settings.n_penalties), reading.intercept, reading.penalty
        )
        if reading.column == "naive":
            model = naive(drawn, seed, ridge, SHARES[reading.choice])
            models = [model] * len(cuts)
        else:
            models = [
                reference(drawn.X_target[train], drawn.y_target[train], ridge, reading.choice)
                for train, _ in cuts
            ]
        errors = [
            np.abs(drawn.X_target[test] @ b + b0 - drawn.y_target[test]).mean()
            for (b, b0), (_, test) in zip(models, cuts, strict=True)
        ]
        found[reading] = (float(np.mean(errors)), float(np.std(errors, ddof=1)))
    return found


def naive(
    drawn: Drawn, seed: int, ridge: Ridge, shares: tuple[float, float, float]
) -> tuple[Array, float]:
    """The sources' models by their rows, at the penalty with the smallest plain risk."""
    fits, losses, rows = [], [], []
    for index, (X, y) in enumerate(drawn.sources.values()):
        rng = np.random.default_rng([1_000 * seed, index])
        _, train, validation = split(len(y), shares, rng)
        B, b0 = ridge.fit(X[train], y[train], np.ones(len(train)))
        fits.append((B, b0))
        losses.append(((X[validation] @ B + b0 - y[validation, None]) ** 2).mean(axis=0))
        rows.append(len(validation))
    weights = np.array(rows) / sum(rows)
    best = int((weights @ np.array(losses)).argmin())
    slopes = np.column_stack([B[:, best] for B, _ in fits])
    return slopes @ weights, float(weights @ [b0[best] for _, b0 in fits])


def reference(X: Array, y: Array, ridge: Ridge, choice: str) -> tuple[Array, float]:
    """A ridge regression on some of the target's rows and outcomes, in random order."""
    if choice == "hold-out":
        return held_out_ridge(X, y, ridge)
    return own_ridge(X, y, ridge.scaled(len(y)), intercept=ridge.intercept)


# Tables -------------------------------------------------------------------------------------

#: Mean and spread, shape (rows of the table, data sets, 2).
Runs = Mapping[Reading, Array]


def log_likelihoods(entries: Array, pairs: Array, width: float = 1.0) -> Array:
    """Of a column's entries, shape (rows, 2), by kernel densities of what a reading gives.

    In logarithms, with normal kernels of `width` times Scott's bandwidth, which is scipy's
    ``gaussian_kde``, all rows at once.
    """
    points = np.log(pairs)
    n, d = points.shape[1:]
    centred = points - points.mean(axis=1, keepdims=True)
    kernel = np.einsum("rni,rnj->rij", centred, centred) / (n - 1)
    kernel *= width**2 * n ** (-2.0 / (d + 4))
    away = points - np.log(entries)[:, None]
    distances = np.einsum("rni,rij,rnj->rn", away, np.linalg.inv(kernel), away)
    sizes = np.linalg.slogdet(2.0 * np.pi * kernel)[1]
    found: Array = logsumexp(-distances / 2.0, axis=1) - np.log(n) - sizes / 2.0
    return found


def both_columns(found: Mapping[Reading, float]) -> dict[tuple[bool, str], float]:
    """Of Naive and Reference together; what else is open is averaged over, all as likely."""
    told = {}
    for intercept, penalty in dict.fromkeys((r.intercept, r.penalty) for r in found):
        columns = [
            [value for r, value in found.items() if r[:3] == (column, intercept, penalty)]
            for column in ("naive", "reference")
        ]
        told[intercept, penalty] = sum(float(logsumexp(c) - np.log(len(c))) for c in columns)
    return told


def recognised(made: tuple[bool, str], runs: Runs, tables: int) -> float:
    """Share of tables, each of one data set a row, whose making is the likeliest of all four.

    They are made with thirds and leave-one-out, and not judged by their own data sets.
    """
    makers = Reading("naive", *made, "thirds"), Reading("reference", *made, "leave-one-out")
    right = 0
    for table in range(tables):
        entries = {maker.column: runs[maker][:, table] for maker in makers}
        found = {
            reading: log_likelihoods(entries[reading.column], np.delete(pairs, table, axis=1)).sum()
            for reading, pairs in runs.items()
        }
        told = both_columns(found)
        right += max(told, key=lambda way: told[way]) == made
    return right / tables


def evidence(columns: Mapping[str, Array], runs: Runs) -> Iterator[dict[str, Any]]:
    """Decades for a sum and against a mean, both with a free intercept."""
    for reference in ("either", *CHOICES):
        choices = CHOICES if reference == "either" else (reference,)
        free = {r: p for r, p in runs.items() if r.intercept and r.choice in (*SHARES, *choices)}
        for width, left_out in ((1.0, 0), (0.5, 0), (2.0, 0), (1.0, 1), (1.0, 3)):
            found = {r: log_likelihoods(columns[r.column], p, width) for r, p in free.items()}
            gain = sum(v if r.penalty == "sum" else -v for r, v in found.items())
            kept = np.argsort(gain)[: len(gain) - left_out]
            told = both_columns({r: float(values[kept].sum()) for r, values in found.items()})
            decades = (told[True, "sum"] - told[True, "mean"]) / np.log(10.0)
            yield {
                "reference": reference,
                "width": width,
                "left_out": left_out,
                "decades": decades,
            }


def line(reading: Reading, entries: Array, pairs: Array) -> dict[str, Any]:
    """How likely a printed column is under a reading, and how its sizes compare."""
    means, at = pairs[:, :, 0], entries[:, 0]
    return {
        "column": reading.column,
        "intercept": WORDS[reading.intercept],
        "penalty": reading.penalty,
        "choice": reading.choice,
        "log_likelihood": log_likelihoods(entries, pairs).sum(),
        "outside": int(((at < means.min(axis=1)) | (at > means.max(axis=1))).sum()),
        "mean": means.mean(),
        "printed_mean": at.mean(),
        "spread": pairs[:, :, 1].mean(),
        "printed_spread": entries[:, 1].mean(),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else FULL
    paper = printed()[: settings.rows]
    seeds = range(settings.first_seed, settings.first_seed + settings.data_sets)
    sizes = printed_sizes()[: settings.rows]
    tasks = [(size, seed, settings) for size in sizes for seed in seeds]
    found = run_all(run_one, tasks, given.workers, "readings of table 1")
    shape = (len(paper), settings.data_sets, 2)
    runs = {r: np.array([each[r] for each in found]).reshape(shape) for r in readings()}
    columns = {c: np.array([row[c] for row in paper]) for c in ("naive", "reference")}
    lines = [line(reading, columns[reading.column], pairs) for reading, pairs in runs.items()]
    write_table(given.out, "table1_reading", lines)
    likelihoods = [each["log_likelihood"] for each in lines]
    told = both_columns(dict(zip(runs, likelihoods, strict=True)))
    best = max(told.values())
    ways = [
        {
            "intercept": WORDS[way[0]],
            "penalty": way[1],
            "log_likelihood": value,
            "log10_below_best": (best - value) / np.log(10.0),
            "recognised": recognised(way, runs, settings.tables),
            "tables": settings.tables,
        }
        for way, value in told.items()
    ]
    write_table(given.out, "table1_penalty", ways)
    write_table(given.out, "table1_evidence", list(evidence(columns, runs)))
    write_provenance(given.out, __file__, settings, quick=given.quick)
    for way in ways:
        below = f"10^-{way['log10_below_best']:.1f} of the likeliest"
        print(f"intercept {way['intercept']}, penalty beside a {way['penalty']}: {below}")


if __name__ == "__main__":
    main()

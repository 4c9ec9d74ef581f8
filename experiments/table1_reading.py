"""What the printed Table 1 tells about how its ridge regression is to be read.

The paper does not say whether its penalty stands beside a mean or a sum of squared errors, whether
there is an intercept, in which shares the folds are cut, or how Reference chooses its penalty. Two
columns of the table can tell, since no density ratio and no weight enters them: Naive and
Reference. Under every reading many data sets are drawn, as in ``table1`` each target is cut 7:3
again and again, and a data set gives a mean and a spread over its cuts. The density of these pairs,
in logarithms, at the printed pair is the likelihood of the entry; twenty entries make a column.

Tables: ``table1_reading`` (a line a column and reading), ``table1_penalty`` (a line a way to write
the ridge regression: both columns, averaged over what else is open, and how often a table that was
made so is recognised).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from common import Array, options, run_all, write_provenance, write_table
from families import Drawn, case1
from paper_engine import THIRDS, Ridge, held_out_ridge, own_ridge, split
from scipy.special import logsumexp
from scipy.stats import gaussian_kde
from table1 import Sizes, cut, printed
from table1_rows import sizes_of

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

#: For every row of the table and every data set.
Runs = Sequence[Sequence[Mapping[Reading, tuple[float, float]]]]


def log_likelihood(
    reading: Reading, entries: Sequence[tuple[float, float]], runs: Runs, without: int | None = None
) -> float:
    """Of a column's means and spreads under a reading; a data set may be left out."""
    total = 0.0
    for entry, sets in zip(entries, runs, strict=True):
        pairs = np.log([each[reading] for i, each in enumerate(sets) if i != without])
        total += float(gaussian_kde(pairs.T).logpdf(np.log(entry))[0])
    return total


def both_columns(found: Mapping[Reading, float]) -> dict[tuple[bool, str], float]:
    """Of Naive and Reference together; what else is open is averaged over, all as likely."""
    told = {}
    for intercept, penalty in WRITTEN:
        columns = [
            [value for r, value in found.items() if r[:3] == (column, intercept, penalty)]
            for column in ("naive", "reference")
        ]
        told[intercept, penalty] = sum(float(logsumexp(c) - np.log(len(c))) for c in columns)
    return told


def recognised(made: tuple[bool, str], runs: Runs, tables: int) -> float:
    """Share of tables, each of one data set a row, whose making is the likeliest of all four.

    They are made with thirds and leave-one-out; nothing else than their own data set is left out.
    """
    makers = Reading("naive", *made, "thirds"), Reading("reference", *made, "leave-one-out")
    right = 0
    for table in range(tables):
        entries = {maker.column: [sets[table][maker] for sets in runs] for maker in makers}
        found = {r: log_likelihood(r, entries[r.column], runs, table) for r in readings()}
        told = both_columns(found)
        right += max(told, key=lambda way: told[way]) == made
    return right / tables


def line(reading: Reading, paper: Sequence[Mapping[str, Any]], runs: Runs) -> dict[str, Any]:
    """How likely a printed column is under a reading, and how its sizes compare."""
    entries = np.array([row[reading.column] for row in paper])
    sizes = np.array([[each[reading] for each in sets] for sets in runs])  # (rows, sets, 2)
    means, at = sizes[:, :, 0], entries[:, 0]
    return {
        "column": reading.column,
        "intercept": WORDS[reading.intercept],
        "penalty": reading.penalty,
        "choice": reading.choice,
        "log_likelihood": log_likelihood(reading, entries, runs),
        "outside": int(((at < means.min(axis=1)) | (at > means.max(axis=1))).sum()),
        "mean": means.mean(),
        "printed_mean": at.mean(),
        "spread": sizes[:, :, 1].mean(),
        "printed_spread": entries[:, 1].mean(),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else FULL
    paper = printed()[: settings.rows]
    seeds = range(settings.first_seed, settings.first_seed + settings.data_sets)
    tasks = [(sizes_of(row), seed, settings) for row in paper for seed in seeds]
    found = run_all(run_one, tasks, given.workers, "readings of table 1")
    runs = [found[i : i + settings.data_sets] for i in range(0, len(found), settings.data_sets)]
    lines = [line(reading, paper, runs) for reading in readings()]
    write_table(given.out, "table1_reading", lines)
    likelihoods = [each["log_likelihood"] for each in lines]
    told = both_columns(dict(zip(readings(), likelihoods, strict=True)))
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
    write_provenance(given.out, "table1_reading", settings, quick=given.quick)
    for way in ways:
        below = f"10^-{way['log10_below_best']:.1f} of the likeliest"
        print(f"intercept {way['intercept']}, penalty beside a {way['penalty']}: {below}")


if __name__ == "__main__":
    main()

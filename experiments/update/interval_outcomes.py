"""Intervals per patient after outcomes have come: how often they were contradicted, and hold then.

Sites draw their outcomes from one rule, from rules and noise of their own, or with heavy tails. The
new site is like them, or noisier, or shifted. Outcomes of some of its rows are brought in; rows
that nobody has seen tell how many outcomes lie in their interval, or classes in their set.

Table: ``update_intervals.csv``, a line a kind of outcome, new site and number of outcomes; the
tables of docs/per-patient.md are written from it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

from lib.common import RESULTS, ROOT, Array, options, run_all, write_provenance, write_table
from lib.page import Block, Results, number, render, table
from sklearn.linear_model import LogisticRegression

from fedcsa import FedCSA, FedCSAError

#: New site: noise times that of the sources, and shift in sds of the noise (half for log-odds).
SITES = {
    "as at the sources": (1.0, 0.0),
    "noise 1.5 times as large": (1.5, 0.0),
    "noise 3 times as large": (3.0, 0.0),
    "shifted by 2 sds of the noise": (1.0, 2.0),
    "both, noise 3 times as large": (3.0, 2.0),
}
FAMILIES = {
    "numbers": ("one rule", "sites differ", "heavy tails"),
    "classes": ("one rule", "sites differ"),
}
#: Rows of every source, of the target's table, and fresh ones that are the truth.
SOURCE_ROWS, TABLE_ROWS, FRESH_ROWS = 200, 100, 2000
LEVEL = 0.9


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    seed: int = 4000  # made on seeds below 1000, and changed once after a look at 2000 to 2019
    studies: int = 20  # of every family
    outcomes: tuple[int, ...] = (10, 25, 60)


FULL = Settings()
QUICK = Settings(seed=0, studies=1, outcomes=(25,))


def site(
    kind: str, family: str, n_rows: int, noise: float, shift: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Rows and outcomes of one site.

    Parameters
    ----------
    kind : str
        "numbers" or "classes"; of classes, noise divides the log-odds by its square.
    family : str
    n_rows : int
    noise, shift : float
        As in `SITES`.
    rng : Generator
    """
    X = rng.normal(rng.normal(0.0, 0.3, 3), 1.0, (n_rows, 3))
    slopes, intercept, own_noise = np.array([1.0, 0.5, -0.5]), 0.0, 1.0
    if family == "sites differ":
        slopes = slopes + rng.normal(0.0, 0.15, 3)
        intercept, own_noise = rng.normal(0.0, 0.3), np.exp(rng.normal(0.0, 0.15))
    if kind == "classes":
        line = intercept + shift / 2.0 + X @ slopes
        return X, (rng.random(n_rows) < expit(-0.5 + 2.0 * line / noise**2)).astype(float)
    heavy = family == "heavy tails"  # t with four degrees of freedom has a variance of two
    errors = rng.standard_t(4, n_rows) / np.sqrt(2.0) if heavy else rng.normal(size=n_rows)
    return X, intercept + shift + X @ slopes + own_noise * noise * errors


def run_one(task: tuple[str, str, str, int, tuple[int, ...]]) -> list[dict[str, Any]]:
    """One study with a new site, and an update for every number of outcomes.

    Parameters
    ----------
    task : tuple
        Kind, family, new site, seed, numbers of outcomes.
    """
    kind, family, where, seed, outcomes = task
    places = (FAMILIES[kind].index(family), list(SITES).index(where))
    rng = np.random.default_rng([seed, kind == "classes", *places])
    sources = {f"s{k}": site(kind, family, SOURCE_ROWS, 1.0, 0.0, rng) for k in range(5)}
    most = TABLE_ROWS + max(outcomes)
    X, y = site(kind, family, most + FRESH_ROWS, *SITES[where], rng)
    model = LogisticRegression() if kind == "classes" else "ridge"
    fitted = FedCSA(model, random_state=seed).fit(sources, X[:TABLE_ROWS])
    plain, found = fitted.adaptation_, []
    for n in outcomes:
        fitted.adaptation_, fitted.history_ = plain, None
        here = slice(TABLE_ROWS, TABLE_ROWS + n)
        line: dict[str, Any] = {"kind": kind, "site": where, "outcomes": n, "refused": 1}
        try:
            update = fitted.update(X[here], y[here])
        except FedCSAError:  # outcomes that look selective
            found.append(line)
            continue
        after, before = fitted.adaptation_, replace(fitted.adaptation_, intervals=())
        said = any(finding.code == "intervals-narrow" for finding in update.findings)
        (held, wide), (held_now, wide_now) = (
            _held(each, kind, X[most:], y[most:]) for each in (before, after)
        )
        line |= {"refused": 0, "finding": float(said), "before": held, "now": held_now}
        found.append(line | {"times": wide_now / wide})
    return found


def _held(adaptation: Any, kind: str, X: Array, y: Array) -> tuple[list[float], float]:
    """Shares of outcomes that were inside, one or one a class; and how wide, or how many classes.

    Parameters
    ----------
    adaptation : Adaptation
    kind : str
    X : array of shape (rows, features)
    y : array of shape (rows,)
    """
    if kind == "numbers":
        lower, upper = adaptation.predict_interval(X, LEVEL).T
        return [float(np.mean((lower <= y) & (y <= upper)))], float(np.median(upper - lower))
    possible = adaptation.predict_set(X, LEVEL)
    each = [float(possible[y == k, k].mean()) for k in (0, 1)]
    return each, float(possible.sum(axis=1).mean())


def summary(lines: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row a kind, new site and number of outcomes: means over studies that were not refused.

    Parameters
    ----------
    lines : sequence of mapping
        As `run_one` gives them.
    """
    for key in dict.fromkeys((x["kind"], x["site"], x["outcomes"]) for x in lines):
        every = [x for x in lines if (x["kind"], x["site"], x["outcomes"]) == key]
        kept = [x for x in every if not x["refused"]]
        row = {"kind": key[0], "site": key[1], "outcomes": key[2], "studies": len(kept)}
        row |= {"refused": len(every) - len(kept)}
        row |= {name: float(np.mean([x[name] for x in kept])) for name in ("finding", "times")}
        for name in ("before", "now"):
            shares = np.mean([x[name] for x in kept], axis=0).tolist()
            row |= {name: shares[0], f"{name}_event": shares[1] if len(shares) > 1 else None}
        yield row


# The page ---------------------------------------------------------------------------------------


def intervals(results: Results) -> str:
    """Numbers: how often the finding, and for which share intervals hold."""
    rows = [
        (x["site"], x["outcomes"], *(number(x[k]) for k in ("finding", "before", "now", "times")))
        for x in results("update_intervals", kind="numbers")
    ]
    head = ("the new site", "outcomes", "finding", "held for, before", "held for, now")
    return table((*head, "width, times"), rows)


def sets(results: Results) -> str:
    """Classes: the same, of rows without and with the event."""
    rows = [
        (
            x["site"],
            x["outcomes"],
            number(x["finding"]),
            *(f"{number(x[k])}, {number(x[f'{k}_event'])}" for k in ("before", "now")),
        )
        for x in results("update_intervals", kind="classes")
    ]
    head = ("the new site", "outcomes", "finding", "held for, before", "held for, now")
    return table(head, rows)


BLOCKS: dict[str, Block] = {"intervals-with-outcomes": intervals, "sets-with-outcomes": sets}


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings, name = QUICK if given.quick else FULL, "update_intervals"
    tasks = [
        (kind, family, where, settings.seed + k, settings.outcomes)
        for kind, families in FAMILIES.items()
        for where in SITES
        for family in families
        for k in range(settings.studies)
    ]
    found = run_all(run_one, tasks, given.workers, name)
    write_table(given.out, name, list(summary([line for lines in found for line in lines])))
    write_provenance(given.out, __file__, settings, quick=given.quick, name=name)
    if given.out == RESULTS:
        page = ROOT / "docs" / "per-patient.md"
        before = page.read_text(encoding="utf-8")
        page.write_text(render(before, BLOCKS, Results(given.out)), encoding="utf-8")


if __name__ == "__main__":
    main()

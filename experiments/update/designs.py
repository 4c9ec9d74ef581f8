"""Which patients to follow up: designs that know the prediction alone, compared by their errors.

Five kinds of predictions for 400 patients, two losses, 30 outcomes. Every design draws rows, weighs
them by the inverse of their chance, and estimates the mean loss and the mean residual (calibration
in the large). Told is the standard error over that of a simple random sample, over many draws of
rows and outcomes; below 1 is better. Effective rows are Kish's, which an update counts with.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

import numpy as np
from lib.common import Array, options, write_provenance, write_table
from scipy.special import expit

from fedcsa.core.strata import design_weights, strata_by


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    rows: int = 400
    outcomes: int = 30
    draws: int = 2_000
    seed: int = 90_000


FULL, QUICK = Settings(), Settings(draws=200)
#: kind -> mean and sd of the log-odds, then intercept and slope of the truth given these.
KINDS = {
    "rare": (-2.5, 1.2, 0.0, 1.0),
    "half": (0.0, 1.5, 0.0, 1.0),
    "rare, off": (-2.5, 1.2, 0.8, 1.0),
    "overfitted": (-1.0, 1.2, 0.0, 0.5),
    "narrow": (-1.0, 0.5, 0.0, 1.0),
}
LOSSES: dict[str, Callable[[Array, Array], Array]] = {
    "brier": lambda p, y: np.square(p - y),
    "log": lambda p, y: -np.log(np.maximum(np.where(y > 0.5, p, 1.0 - p), 1e-3)),
}
#: design -> strata, and the share of the list that goes where losses vary most (Neyman).
DESIGNS = {
    "simple random": (1, 0.0),
    "5 strata": (5, 0.0),
    "10 strata": (10, 0.0),
    "5 strata, half by spread": (5, 0.5),
    "5 strata, all by spread": (5, 1.0),
}


def spread(p: Array, loss: Callable[[Array, Array], Array]) -> Array:
    """Root mean squared deviation of every row's loss from the mean, if predictions are right."""
    ends = loss(p, np.ones_like(p)), loss(p, np.zeros_like(p))
    mean = float(np.mean(p * ends[0] + (1.0 - p) * ends[1]))
    return np.sqrt(p * (ends[0] - mean) ** 2 + (1.0 - p) * (ends[1] - mean) ** 2)


def counts(sizes: Array, spreads: Array, n: int, by_spread: float) -> Array:
    """How many rows of every stratum a list has: one after the other where most are owed."""
    share = (1.0 - by_spread) * sizes / sizes.sum()
    share += by_spread * sizes * spreads / (sizes @ spreads)
    taken = np.zeros(len(sizes), dtype=int)
    for _ in range(n):
        taken[np.argmax(share / (2 * taken + 1))] += 1
    return taken


def errors(p: Array, q: Array, loss: str, design: str, settings: Settings) -> tuple[Array, float]:
    """Standard errors of the mean loss and the mean residual, and the effective rows."""
    rng = np.random.default_rng(settings.seed)
    strata, by_spread = DESIGNS[design]
    labels = strata_by(p, strata)
    sizes = np.bincount(labels)
    spreads = np.sqrt(np.bincount(labels, np.square(spread(p, LOSSES[loss]))) / sizes)
    taken = counts(sizes, spreads, settings.outcomes, by_spread)
    off, effective = [], 0.0
    for _ in range(settings.draws):
        y = (rng.random(len(p)) < q).astype(float)
        order = rng.permutation(len(p))
        rows = np.concatenate([order[labels[order] == h][:n] for h, n in enumerate(taken)])
        w = design_weights(labels[rows], sizes)
        values = np.column_stack([LOSSES[loss](p, y), y - p])
        off.append(w @ values[rows] - values.mean(axis=0))
        effective = 1.0 / float(w @ w)
    return np.std(off, axis=0), effective


def compared(settings: Settings) -> Iterator[dict[str, Any]]:
    """One row a kind, loss and design."""
    rng = np.random.default_rng(settings.seed)
    for kind, (mean, sd, intercept, slope) in KINDS.items():
        line = rng.normal(mean, sd, settings.rows)
        p, q = expit(line), expit(intercept + slope * line)
        for loss in LOSSES:
            base = errors(p, q, loss, "simple random", settings)[0]
            for design in DESIGNS:
                found, effective = errors(p, q, loss, design, settings)
                yield {
                    "predictions": kind, "loss": loss, "design": design,
                    "error_of_loss": found[0] / base[0], "error_of_level": found[1] / base[1],
                    "effective_rows": effective,
                }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it, and write one table."""
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else FULL
    rows = list(compared(settings))
    write_table(given.out, "designs", rows)
    write_provenance(given.out, __file__, settings, quick=given.quick)
    for design in DESIGNS:
        of = [row for row in rows if row["design"] == design]
        told = [np.mean([row[key] for row in of]) for key in ("error_of_loss", "error_of_level")]
        effective = np.mean([row["effective_rows"] for row in of])
        print(f"{design:26} loss {told[0]:.3f}  level {told[1]:.3f}  rows {effective:.1f}")


if __name__ == "__main__":
    main()

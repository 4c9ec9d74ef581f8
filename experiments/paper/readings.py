"""What the paper leaves open, as a grid of readings, and the readings under which claims hold.

Open choices: an intercept or none; the penalty beside a mean or a sum of squares; folds of a third
each or 21, 49 and 30 %; uLSIF's bandwidth grid; what is clipped at zero. All readings see the same
data, seed by seed, on rows of Table 1 and values of c of Figure 2; errors are mean absolute errors
on fresh rows of the target.

Tables: ``readings`` (one line a reading), ``readings_claims`` (share of readings under which a
claim holds in every cell; clearly, if every 95 % interval agrees; refuted, if some interval says
the opposite).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

import numpy as np
from lib.common import Array, options, run_all, write_provenance, write_table
from lib.families import Drawn, case1, case2
from lib.paired import Interval, difference, ratio_slope, slope_over, spread_ratio
from lib.paper_arrays import (
    FIRST_SEED,
    GRIDS,
    THIRDS,
    RatioReading,
    Ridge,
    conclude,
    own_ridge,
    prepare,
)
from lib.paper_cases import PRINTED_METHODS as METHODS
from lib.paper_cases import SOME_SIZES

RIVALS = ("naive", "fediwe", "reference")


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    sizes: tuple[tuple[int, int, int], ...] = SOME_SIZES
    distances: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0, 5.0)
    first_seed: int = FIRST_SEED
    seeds: int = 30
    n_penalties: int = 31
    n_truth: int = 1_000
    other_shares: tuple[float, float, float] = (0.21, 0.49, 0.30)


FULL = Settings()
QUICK = Settings(
    sizes=((20, 30, 20),), distances=(1.0, 3.0), first_seed=0, seeds=3, n_penalties=7, n_truth=200
)


def ratio_readings(settings: Settings) -> list[RatioReading]:
    """Every way to read the density ratio."""
    kinds = product((THIRDS, settings.other_shares), GRIDS, ("coefficients", "ratio"))
    return [RatioReading(*kind) for kind in kinds]


def model_readings(settings: Settings) -> list[Ridge]:
    """Every way to read the ridge regression."""
    penalties = np.linspace(0.0, 1.0, settings.n_penalties)
    return [Ridge(penalties, *kind) for kind in product((True, False), ("mean", "sum"))]


Cell = tuple[str, Any]


def cells(settings: Settings) -> list[Cell]:
    """Rows of Table 1 and values of c."""
    return [("case1", size) for size in settings.sizes] + [("case2", c) for c in settings.distances]


def run_one(task: tuple[Cell, int, Settings]) -> Array:
    """Errors on one draw, shape (ratio readings, model readings, methods)."""
    (case, parameter), seed, settings = task
    family = case1(*parameter) if case == "case1" else case2(parameter)
    drawn = family.draw(seed, n_truth=settings.n_truth)
    return np.array(
        [
            [errors(drawn, prepared, model) for model in model_readings(settings)]
            for prepared in (
                prepare(drawn.sources, drawn.X_target, seed, reading)
                for reading in ratio_readings(settings)
            )
        ]
    )


def errors(drawn: Drawn, prepared: Any, model: Ridge) -> list[float]:
    """Mean absolute error of the paper's four methods under one reading."""
    X, y = drawn.X_truth, drawn.y_truth
    found = [mixture.predict(X) for mixture in conclude(prepared, model).values()]
    penalties = model.scaled(len(drawn.y_target))
    b, b0 = own_ridge(drawn.X_target, drawn.y_target, penalties, intercept=model.intercept)
    return [float(np.abs(p - y).mean()) for p in (*found, X @ b + b0)]


# Claims -------------------------------------------------------------------------------------


def judge(intervals: Sequence[Interval], null: float = 0.0) -> str:
    """Of intervals that the claim wants below the null: clearly, holds, fails or refuted."""
    sides = [interval.side(null) for interval in intervals]
    if all(side == "below" for side in sides):
        return "clearly"
    if all(interval.value < null for interval in intervals):
        return "holds"
    return "refuted" if "above" in sides else "fails"


def claims(found: Array, settings: Settings) -> dict[str, str]:
    """Verdict on every claim from errors of shape (cells, seeds, methods) under one reading."""
    by = {method: found[:, :, index] for index, method in enumerate(METHODS)}
    first, n = len(settings.sizes), len(found)

    def compare(rivals: Sequence[str], where: range) -> str:
        return judge([difference(by["feddae"][i], by[m][i]) for m in rivals for i in where])

    table, figure = range(first), range(first, n)
    told = {"table 1: best mean in each row": compare(RIVALS, table)}
    told["table 1: smallest spread in each row"] = judge(
        [spread_ratio(by["feddae"][i], by[m][i]) for m in RIVALS for i in table], 1.0
    )
    for rival in RIVALS:
        told[f"table 1: better than {rival} in each row"] = compare([rival], table)
    told["figure 2: better than naive and fediwe at each c"] = compare(RIVALS[:2], figure)
    at = settings.distances
    gain = [_turned(slope_over((by[m] - by["feddae"])[first:].T, at)) for m in RIVALS[:2]]
    told["figure 2a: advantage grows with c"] = judge(gain)
    ratio = ratio_slope(by["fediwe"][first:].T, by["feddae"][first:].T, at)
    told["figure 2b: FedIW / FedDA grows with c"] = judge([_turned(ratio)])
    return told


def _turned(interval: Interval) -> Interval:
    return Interval(-interval.value, -interval.upper, -interval.lower)


def describe(ratio: RatioReading, model: Ridge) -> dict[str, Any]:
    """The reading in words."""
    return {
        "intercept": "free" if model.intercept else "none",
        "penalty": model.penalty_scale,
        "folds": "thirds" if ratio.shares == THIRDS else "21/49/30",
        "grid": ratio.grid,
        "clip": ratio.clip,
    }


def claim_lines(lines: Sequence[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Share of readings by verdict."""
    told = []
    for name in names:
        verdicts = [line[name] for line in lines]
        share = {v: verdicts.count(v) / len(verdicts) for v in ("clearly", "holds", "refuted")}
        told.append(
            {
                "claim": name,
                "readings": len(verdicts),
                "holds": share["clearly"] + share["holds"],
                "clearly": share["clearly"],
                "refuted": share["refuted"],
            }
        )
    return told


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else FULL
    seeds = range(settings.first_seed, settings.first_seed + settings.seeds)
    tasks = [(cell, seed, settings) for cell in cells(settings) for seed in seeds]
    runs = np.array(run_all(run_one, tasks, given.workers, "readings"))
    runs = runs.reshape(len(cells(settings)), settings.seeds, *runs.shape[1:])
    lines = []
    for i, ratio in enumerate(ratio_readings(settings)):
        for j, model in enumerate(model_readings(settings)):
            mine = runs[:, :, i, j]
            means = dict(zip(METHODS, mine[: len(settings.sizes)].mean(axis=(0, 1)), strict=True))
            told = {f"mean_{method}": value for method, value in means.items()}
            lines.append({**describe(ratio, model), **told, **claims(mine, settings)})
    names = list(claims(runs[:, :, 0, 0], settings))
    shares = claim_lines(lines, names)
    write_table(given.out, "readings", lines)
    write_table(given.out, "readings_claims", shares)
    write_provenance(given.out, __file__, settings, quick=given.quick)


if __name__ == "__main__":
    main()

"""Figure 2 of the paper: both sources move away from the target, c from 1 to 5.

Fresh data for every seed and c; expected absolute error on fresh rows of the target, under every
reading of what the paper leaves open. Told at every c is the reading *as printed*, which is
``preset="paper"``: (a) the mean of every method with its 95 % interval, (b) mean FedIW over mean
FedDA. Beside the paper's four stands the default method, which refuses to answer where no source
resembles the target; what it would predict if one insisted is shown, and how often it refused.

Tables: ``figure2`` (a line a value of c), ``figure2_trend`` (slopes over c), ``figure2_claims`` (a
line a claim: under how many readings it comes out), ``claims_figure2``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

import numpy as np
from lib.claims import Claim, write_claims
from lib.common import Array, options, run_all, write_provenance, write_table
from lib.families import case2
from lib.paired import (
    Interval,
    difference,
    mean_interval,
    mean_ratio,
    mean_upper,
    ratio_slope,
    slope_over,
)
from lib.paper_cases import default_error
from lib.paper_readings import (
    AS_PRINTED,
    FACTORS,
    METHODS,
    all_readings,
    common_choices,
    distinct,
    run_readings,
)

OURS = METHODS.index("feddae")
RIVALS = ("naive", "fediwe", "reference")
WITHOUT_REFERENCE = tuple(FACTORS)[:6]


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    distances: tuple[float, ...] = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)
    first_seed: int = 80_000
    seeds: int = 40
    n_penalties: int = 51

    @property
    def penalties(self) -> Array:
        """Θ = [0, 1]."""
        return np.linspace(0.0, 1.0, self.n_penalties)


FULL = Settings()
QUICK = Settings(distances=(1.0, 3.0, 5.0), first_seed=0, seeds=3, n_penalties=5)


def run_one(task: tuple[float, int, Settings]) -> tuple[Array, float, bool]:
    """Errors under every reading, the default's error, and whether it refused."""
    c, seed, settings = task
    drawn = case2(c).draw(seed, n_truth=1)
    found = run_readings(drawn, seed, settings.penalties).methods
    return found, *default_error(drawn.sources, drawn.X_target, seed, settings.penalties)


# As printed ---------------------------------------------------------------------------------

Runs = Mapping[str, Array]  # errors (c, seeds) by method


def line(c: float, mine: Runs, refused: Array) -> dict[str, Any]:
    """All that the figures show at one c, and the paired differences."""
    told: dict[str, Any] = {"c": c, "seeds": len(refused)}
    for method in mine:
        told |= mean_interval(mine[method]).columns(f"{method}_mean")
    told |= mean_ratio(mine["fediwe"], mine["feddae"]).columns("ratio")
    for rival in RIVALS:
        told |= difference(mine["feddae"], mine[rival]).columns(f"feddae_minus_{rival}")
        told |= difference(mine["default"], mine[rival]).columns(f"default_minus_{rival}")
    return told | {"refused": refused.mean()}


def trends(mine: Runs, at: Sequence[float]) -> dict[str, Interval]:
    """Slopes over c: above 0 the advantage of FedDA grows."""
    by = {method: values.T for method, values in mine.items()}
    return {
        "naive - feddae": slope_over(by["naive"] - by["feddae"], at),
        "fediwe - feddae": slope_over(by["fediwe"] - by["feddae"], at),
        "fediwe / feddae": ratio_slope(by["fediwe"], by["feddae"], at),
    }


# All readings -------------------------------------------------------------------------------


def outcomes(found: Array, at: Sequence[float]) -> dict[str, Array]:
    """Which claims come out under which reading: arrays of bool, one a reading.

    Parameters
    ----------
    found : array of shape (c, seeds, readings, methods)
    at : sequence of float
        The values of c.
    """
    means = found.mean(axis=1)
    rivals = [METHODS.index(rival) for rival in RIVALS]
    better = np.stack([means[..., OURS] < means[..., r] for r in rivals], -1)
    clear = np.stack([mean_upper(found[..., OURS] - found[..., r], 1) < 0.0 for r in rivals], -1)
    x = np.asarray(at) - np.mean(at)
    gains = [np.tensordot(x, means[..., r] - means[..., OURS], 1) for r in rivals[:2]]
    ratio = np.tensordot(x, means[..., rivals[1]] / means[..., OURS], 1)
    return {
        "FedDA significantly outperforms all others at every c": clear.all(axis=(0, 2)),
        "FedDA is better than Naive and FedIW at every c": better[..., :2].all(axis=(0, 2)),
        "FedDA's advantage grows with c": (np.array(gains) > 0.0).all(axis=0),
        "FedIW / FedDA grows with c": ratio > 0.0,
    }


def claim_line(claim: str, comes_out: Array) -> dict[str, Any]:
    """Under how many readings a claim comes out, and what they share."""
    factors = tuple(FACTORS) if "all others" in claim else WITHOUT_REFERENCE
    lines = [r | {"out": bool(out)} for r, out in zip(all_readings(), comes_out, strict=True)]
    own = distinct(lines, factors)
    passed = [line for line in own if line["out"]]
    return {
        "claim": claim,
        "readings": len(own),
        "come_out": len(passed),
        "as_printed": "yes" if comes_out[all_readings().index(AS_PRINTED)] else "no",
        "all_with": common_choices(passed, factors),
    }


def claims(lines: Sequence[Mapping[str, Any]], slopes: Mapping[str, Interval]) -> list[Claim]:
    """What is said of every claim about Figure 2."""
    first, both, gain, ratio = lines
    told = ", ".join(f"{slopes[f'{m} - feddae'].value:.2f}" for m in RIVALS[:2])
    slope = slopes["fediwe / feddae"]
    sentences = (
        (
            "Figure 2a",
            first,
            (
                f"Better in the means than Naive and FedIW alone: {both['come_out']} of "
                f"{both['readings']}."
            ),
        ),
        ("Figure 2a", gain, f"Slope of the advantage over c, as printed: {told} (Naive, FedIW)."),
        (
            "Figure 2b",
            ratio,
            f"Slope as printed: {slope.value:.3f} [{slope.lower:.3f}, {slope.upper:.3f}].",
        ),
    )
    return [
        Claim(where, line["claim"], verdict(line), sentence, "figure2_claims")
        for where, line, sentence in sentences
    ]


def verdict(line: Mapping[str, Any]) -> str:
    """Under how many readings."""
    n, out = int(line["readings"]), int(line["come_out"])
    if not out:
        return f"comes out under none of {n} readings"
    shared = f" (only with {line['all_with']})" if line["all_with"] else ""
    return f"comes out under {out} of {n} readings{shared}, not under {n - out}"


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else FULL
    at = settings.distances
    seeds = range(settings.first_seed, settings.first_seed + settings.seeds)
    tasks = [(c, seed, settings) for c in at for seed in seeds]
    runs = run_all(run_one, tasks, given.workers, "figure 2")
    shape = (len(at), settings.seeds)
    found = np.array([run[0] for run in runs]).reshape(*shape, -1, len(METHODS))
    own = found[:, :, all_readings().index(AS_PRINTED)]
    mine = {method: own[..., index] for index, method in enumerate(METHODS)}
    mine["default"] = np.array([run[1] for run in runs]).reshape(shape)
    refused = np.array([run[2] for run in runs]).reshape(shape)
    rows = [line(c, {m: e[i] for m, e in mine.items()}, refused[i]) for i, c in enumerate(at)]
    slopes = trends(mine, at)
    lines = [claim_line(claim, out) for claim, out in outcomes(found, at).items()]
    write_table(given.out, "figure2", rows)
    told = [{"advantage": name, **slope.columns("slope")} for name, slope in slopes.items()]
    write_table(given.out, "figure2_trend", told)
    write_table(given.out, "figure2_claims", lines)
    write_claims(given.out, __file__, claims(lines, slopes))
    write_provenance(given.out, __file__, settings, quick=given.quick)


if __name__ == "__main__":
    main()

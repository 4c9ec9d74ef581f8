"""Searches at equal budgets: grid, random, Optuna's, a Gaussian process; and their optimism.

Three spaces: logistic regression (C, training weights w^γ) and a decision tree (depth, rows in a
leaf, γ) at countries of the stroke trial, ridge regression (penalty, γ) at Parkinson's patients.
Every target has a lattice of candidates, each evaluated once (`lib.search_surface`). A search may
ask for any point of the space and hears the risk of the nearest one, so that seeds cost nothing.

*Searches.* ``grid``: all its candidates. ``random`` and ``tpe``: the package's own, in rounds.
``gp``: what the predecessor (Nomura and Saito 2021) used, a Gaussian process with expected
improvement, a candidate a round; scikit-learn's, because Optuna's needs torch. A search finds the
candidate with the smallest estimated risk; its ``gap`` is that risk over the grid's best, less 1.

*Optimism.* Sources examine what they helped to choose. The candidate is chosen once with all
sources, and for every source j once more by a search that never hears of j. The promise is the
geometric mean of the sources' examinations, weighted by worth; ``optimism`` is the second promise
over the first, less 1: by so much does choosing make the promise too low.

Tables: ``search_gaps``, ``search_optimism``, ``search_spaces``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

import numpy as np
from lib.common import ROOT, Array, options, run_all, write_provenance, write_table
from lib.real_data import Sites, data_folder, parkinsons, stroke_trial
from lib.search_surface import Axis, Lattice, Surface, logistic, ridge, surface, tree
from lib.searches import NESTED, SEARCHES

POWERS = Axis("ratio_power", (0.0, 1 / 3, 2 / 3, 1.0))
#: Model -> data set, how it is fitted, and what is searched.
SPACES: dict[str, tuple[str, Callable[..., Any], Lattice]] = {
    "logistic": (
        "stroke",
        logistic,
        Lattice((Axis("C", tuple(np.geomspace(1e-4, 1e2, 17)), log=True, grid=2), POWERS)),
    ),
    "tree": (
        "stroke",
        tree,
        Lattice(
            (
                Axis("max_depth", (2.0, 3.0, 4.0, 5.0, 6.0), whole=True, grid=2),
                Axis("min_samples_leaf", tuple(5.0 * 2.0 ** np.arange(7)), True, True, grid=2),
                POWERS,
            )
        ),
    ),
    "ridge": (
        "parkinsons",
        ridge,
        Lattice((Axis("penalty", tuple(np.geomspace(1e-4, 1e3, 17)), log=True, grid=2), POWERS)),
    ),
}
#: A candidate is as good as the grid's best within this share of its risk.
CLOSE = 0.01
#: (search, budget) -> the points that every seed asked for.
Asked = dict[tuple[str, int], list[list[int]]]
READERS = {"stroke": stroke_trial, "parkinsons": parkinsons}


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    first_seed: int = 80_000
    seeds: int = 20
    budgets: tuple[float, ...] = (1 / 6, 1 / 3, 2 / 3, 1.0)  # over the grid's
    targets: int = 3  # sites of every data set, spread over its sizes
    max_rows: int = 400  # of a site, drawn once, so that a lattice takes half a minute
    max_sites: int | None = None
    spaces: tuple[str, ...] = tuple(SPACES)
    left_out: int = 1  # seeds for which Optuna's search is repeated without every source,
    repeated: tuple[float, ...] = (1 / 3, 1.0)  # with these budgets over the grid's


FULL = Settings()
QUICK = Settings(
    first_seed=0, seeds=2, budgets=(1 / 6, 1 / 3), targets=1, max_rows=40, max_sites=3,
    spaces=("ridge",), left_out=1,
)  # fmt: skip


# Surfaces -----------------------------------------------------------------------------------


def sites_of(data_set: str, folder: Path, settings: Settings) -> Sites:
    """From the smallest site to the largest, each with so many rows at most."""
    sites = READERS[data_set](folder)
    by_size = sorted(sites.rows, key=lambda name: (len(sites.rows[name][1]), name))
    rows = {}
    for name in by_size[: settings.max_sites]:
        X, y = sites.rows[name]
        kept = np.random.default_rng(settings.first_seed).permutation(len(y))[: settings.max_rows]
        rows[name] = X[kept], y[kept]
    return Sites(sites.columns, sites.public_sd, rows)


def targets_of(sites: Sites, settings: Settings) -> list[str]:
    """Names of the targets: the middles of as many groups of sites by size."""
    names = list(sites.rows)
    cuts = np.array_split(np.arange(len(names)), settings.targets)
    return [names[part[len(part) // 2]] for part in cuts]


def surface_of(task: tuple[str, str, Path, Path, Settings]) -> Surface:
    """The lattice of one space at one target; kept in a folder, so that it is computed once."""
    space, target, folder, kept, settings = task
    path = kept / f"{space}-{target}-{settings.max_rows}.npz"
    if path.is_file():
        return Surface.load(path)
    data_set, family, lattice = SPACES[space]
    sites = sites_of(data_set, folder, settings)
    rows = dict(sites.rows)
    own = rows.pop(target)
    flags = [
        all(set(np.unique(X[:, k])) <= {0.0, 1.0} for X, _ in sites.rows.values())
        for k in range(len(sites.columns))
    ]
    found = surface(rows, own, flags, sites.public_sd, lattice, family, settings.first_seed)
    found.save(path)
    return found


def estimated(found: Surface, without: int | None = None) -> Array:
    """Σμf + ½γ·se is what the target minimises; here without its caution: Σμf, μ by worth.

    Parameters
    ----------
    found : Surface
    without : int, optional
        A source that is not heard.
    """
    worth = found.worth.copy()
    if without is not None:
        worth[without] = 0.0
    risk: Array = found.risks @ (worth / worth.sum())
    return risk


# Searches -----------------------------------------------------------------------------------


def asked_for(space: str, risk: Array, settings: Settings) -> Asked:
    """What every search asks for, with every budget and seed.

    Parameters
    ----------
    space : str
    risk : array of shape (points,)
        What it hears.
    settings : Settings
    """
    lattice = SPACES[space][2]
    sizes = [round(share * len(lattice.grid)) for share in settings.budgets]
    seeds = range(settings.first_seed, settings.first_seed + settings.seeds)
    found: Asked = {}
    for how, search in SEARCHES.items():
        if how in NESTED:
            longest = [search(lattice, risk, seed, max(sizes)) for seed in seeds]
            found |= {(how, size): [points[:size] for points in longest] for size in sizes}
        else:
            found |= {
                (how, size): [search(lattice, risk, seed, size) for seed in seeds] for size in sizes
            }
    return found


def gap_lines(space: str, target: str, found: Surface, asked: Asked) -> list[dict[str, Any]]:
    """How far every search is from the grid's best, at every budget.

    Parameters
    ----------
    space, target : str
    found : Surface
    asked : Asked
    """
    risk, grid = estimated(found), SPACES[space][2].grid
    best = grid[int(risk[grid].argmin())]
    lines = []
    for (how, budget), runs in asked.items():
        picks = [min(points, key=risk.__getitem__) for points in runs]
        gaps = risk[picks] / risk[best] - 1.0
        lines.append(
            {
                "space": space,
                "target": target,
                "search": how,
                "budget": budget,
                "share": budget / len(grid),
                "seeds": len(runs),
                "gap_median": float(np.median(gaps)),
                "gap_worst": float(gaps.max()),
                "within": float((gaps <= CLOSE).mean()),
                "true_over_grid": float(np.median(found.true[picks]) / found.true[best] - 1.0),
            }
        )
    return lines


def space_line(space: str, target: str, found: Surface) -> dict[str, Any]:
    """How hard a space is: the share of it that is as good as the grid's best."""
    risk, grid = estimated(found), SPACES[space][2].grid
    best = risk[grid].min()
    return {
        "space": space,
        "target": target,
        "points": len(risk),
        "grid": len(grid),
        "sources": len(found.worth),
        "grid_best": float(best),
        "lattice_best": float(risk.min()),
        "share_within": float((risk <= (1.0 + CLOSE) * best).mean()),
        "worst": float(risk.max()),
    }


# Optimism -----------------------------------------------------------------------------------


def promise(found: Surface, chosen: Sequence[int]) -> float:
    """The examinations of source j at candidate chosen[j], as one number."""
    examined = found.examined[np.asarray(chosen), np.arange(len(found.worth))]
    return float(np.exp(np.average(np.log(examined), weights=found.worth)))


def optimism_lines(
    space: str, target: str, found: Surface, asked: Asked, settings: Settings
) -> list[dict[str, Any]]:
    """The promise at every budget: chosen with the examiner, and without.

    Parameters
    ----------
    space, target : str
    found : Surface
    asked : Asked
    settings : Settings
    """
    risk = estimated(found)
    alone = [estimated(found, j) for j in range(len(found.worth))]
    everything = {("all", len(risk)): [list(range(len(risk)))]}
    repeated = [round(share * len(SPACES[space][2].grid)) for share in settings.repeated]
    lines = []
    for (how, budget), runs in (asked | everything).items():
        if how == "gp" or (how == "tpe" and budget not in repeated):
            continue  # repeated without every source it would take too long
        # a random search asks for the same points whoever is heard
        repeats = len(runs) if how in ("random", "all") else settings.left_out
        optimism, above = [], []
        for index, points in enumerate(runs[:repeats]):
            chosen = min(points, key=risk.__getitem__)
            other = []
            for own in alone:
                seen = points
                if how == "tpe":
                    seed = settings.first_seed + index
                    seen = SEARCHES[how](SPACES[space][2], own, seed, budget)
                other.append(min(seen, key=own.__getitem__))
            told = promise(found, [chosen] * len(alone))
            optimism.append(promise(found, other) / told - 1.0)
            above.append(told / found.true[chosen] - 1.0)
        labels = {"space": space, "target": target, "search": how, "budget": budget}
        lines.append(
            {
                **labels,
                "seeds": len(optimism),
                "optimism": float(np.mean(optimism)),
                "optimism_worst": float(np.max(optimism)),
                "promise_over_truth": float(np.mean(above)),
            }
        )
    return lines


Lines = list[dict[str, Any]]


def studied(task: tuple[str, str, Path, Path, Settings]) -> tuple[Lines, Lines, Lines]:
    """Gaps, optimism and the space of one target."""
    space, target, *_, settings = task
    found = surface_of(task)
    asked = asked_for(space, estimated(found), settings)
    return (
        gap_lines(space, target, found, asked),
        optimism_lines(space, target, found, asked, settings),
        [space_line(space, target, found)],
    )


def main(arguments: Sequence[str] | None = None) -> None:
    kept = {"type": Path, "default": ROOT / "results" / "search", "help": "folder of lattices"}
    data = {"type": Path, "default": data_folder(), "help": "folder of the data"}
    given = options(__doc__, arguments, data=data, kept=kept)
    settings = QUICK if given.quick else FULL
    folder = given.out / "lattices" if given.quick else given.kept
    tasks = [
        (space, target, given.data, folder, settings)
        for space in settings.spaces
        for target in targets_of(sites_of(SPACES[space][0], given.data, settings), settings)
    ]
    found = run_all(studied, tasks, given.workers, "searches")
    for name, parts in zip(("gaps", "optimism", "spaces"), zip(*found, strict=True), strict=True):
        write_table(given.out, f"search_{name}", [line for lines in parts for line in lines])
    write_provenance(given.out, __file__, settings, quick=given.quick)


if __name__ == "__main__":
    main()

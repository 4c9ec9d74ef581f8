"""The promise on real data, leave one site out.

Every site in turn is the target of all others: promise, interval and verdict of the default, and
what came true at the site, with the sampling error of its own rows.

Data sets: International Stroke Trial by country, UCI Heart Disease by hospital (both Brier loss of
a logistic regression), Parkinsons Telemonitoring by patient (squared loss of a ridge regression).
They are read from the folder given with --data.

Every site is one line of ``results/promise_real_new.jsonl``; at the end they become the table
``promise_real_new.csv.gz``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

import numpy as np
from lib.common import ROOT, options, write_provenance
from lib.promise_runs import (
    Lines,
    Study,
    flags_of,
    guess,
    logistic,
    run_default,
    write_packed,
)
from lib.real_data import (
    Sites,
    data_folder,
    heart_disease,
    parkinsons,
    stroke_trial,
)

import fedcsa

READERS: dict[str, Callable[[Path], Sites]] = {
    "heart": heart_disease,
    "parkinsons": parkinsons,
    "stroke": stroke_trial,
}


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    data_sets: tuple[str, ...] = tuple(READERS)
    seed: int = 60_000
    inverse_penalties: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0)  # C of the logistic regression
    max_sites: int | None = None  # the smallest ones


FULL = Settings()
QUICK = Settings(data_sets=("heart",), seed=0, inverse_penalties=(0.1,))


@cache
def sites_of(data_set: str, folder: Path, max_sites: int | None) -> Sites:
    """The data set, read once a process."""
    sites = READERS[data_set](folder)
    smallest = sorted(sites.rows, key=lambda name: (len(sites.rows[name][1]), name))[:max_sites]
    return Sites(sites.columns, sites.public_sd, {name: sites.rows[name] for name in smallest})


def run_one(data_set: str, site: str, folder: Path, settings: Settings) -> dict[str, Any]:
    """One site as the target of all others.

    Parameters
    ----------
    data_set, site : str
    folder : Path
        Of the data.
    settings : Settings
    """
    sites = sites_of(data_set, folder, settings.max_sites)
    X, y = sites.rows[site]
    others = {name: pair for name, pair in sites.rows.items() if name != site}
    flags = flags_of(rows for rows, _ in sites.rows.values())
    study = Study(others, X, flags, sites.public_sd)
    used = {} if data_set == "parkinsons" else logistic(settings.inverse_penalties)
    pooled = np.concatenate([outcome for _, outcome in others.values()]).mean()
    found: dict[str, Any] = {
        "data_set": data_set,
        "site": site,
        "n_sources": len(others),
        "n_target": len(y),
        "constant": float(np.mean((y - pooled) ** 2)),
    }
    start = time.perf_counter()
    try:
        told, fitted = run_default(study, settings.seed, used)
    except fedcsa.FedCSAError as error:
        return {**found, "error": f"{type(error).__name__}: {error}"}
    found |= told
    found["seconds"] = time.perf_counter() - start
    losses = (guess(fitted, X) - y) ** 2
    found["realised"] = float(losses.mean())
    found["realised_se"] = float(losses.std(ddof=1) / np.sqrt(len(losses)))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(
        __doc__,
        arguments,
        lines={"type": Path, "help": "file of one line a site"},
        pack={"action": "store_true", "help": "run nothing; write the table"},
        data={"type": Path, "default": data_folder(), "help": "folder"},
    )
    settings = QUICK if given.quick else FULL
    name = "promise_real_new"
    folder = given.out if given.quick else ROOT / "results"
    lines = Lines(given.lines or folder / f"{name}.jsonl", ("data_set", "site"))
    if not given.pack:
        keys = [
            (data_set, site)
            for data_set in settings.data_sets
            for site in sites_of(data_set, given.data, settings.max_sites).rows
        ]
        lines.run(lambda key: run_one(*key, given.data, settings), ((key, key) for key in keys))
    write_packed(given.out / f"{name}.csv.gz", lines.read())
    write_provenance(given.out, __file__, settings, quick=given.quick, name=name)


if __name__ == "__main__":
    main()

"""Every promised measure at real sites: the stroke trial, each country the target of all others.

A country's own value has a sampling error of its own, by a jackknife over twenty groups of its
rows; the interval is widened by it when the tables are made. The data are read from the folder
given with --data.

Tables: ``validation_stroke_measures.csv.gz`` and ``validation_stroke_patients.csv.gz``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

from lib.common import ROOT, options, write_provenance
from lib.promise_runs import Lines, Study, flags_of, guess, run_default, write_packed
from lib.real_data import Sites, data_folder, stroke_trial
from lib.validation_runs import (
    LOGISTIC,
    exploded,
    measure_lines,
    patient_lines,
    realised,
    sampling_errors,
    unweighted,
)

import fedcsa


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    seed: int = 80_000
    thresholds: tuple[float, ...] = (0.3, 0.6)
    level: float = 0.9  # of the sets of classes
    max_sites: int | None = None  # the smallest ones


FULL = Settings()
QUICK = Settings(seed=0, max_sites=4)


def run_one(site: str, sites: Sites, settings: Settings) -> dict[str, Any]:
    """One country as the target of all others.

    Parameters
    ----------
    site : str
    sites : Sites
    settings : Settings
    """
    X, y = sites.rows[site]
    others = {name: pair for name, pair in sites.rows.items() if name != site}
    flags = flags_of(rows for rows, _ in sites.rows.values())
    study = Study(others, X, flags, sites.public_sd)
    learner = {**LOGISTIC, "thresholds": list(settings.thresholds)}
    found: dict[str, Any] = {"site": site, "n_target": len(y)}
    try:
        told, fitted = run_default(study, settings.seed, learner)
    except fedcsa.FedCSAError as error:
        return {**found, "error": f"{type(error).__name__}: {error}"}
    p = guess(fitted, X)
    true = realised(y, p, settings.thresholds)
    errors = sampling_errors(y, p, settings.thresholds, settings.seed)
    lines = measure_lines(fitted, true, unweighted(fitted, others, settings.thresholds))
    for line in lines:
        line["true_error"] = errors.get((line["measure"], line["threshold"]))
    return {
        **found,
        "verdict": told["verdict"],
        "reaching": len(fitted.adaptation_.reaching),
        "measures": lines,
        "patients": patient_lines(fitted, X, y, settings.level),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(
        __doc__,
        arguments,
        lines={"type": Path, "help": "file of one line a country"},
        data={"type": Path, "default": data_folder(), "help": "folder"},
    )
    settings, name = QUICK if given.quick else FULL, "validation_stroke"
    sites = stroke_trial(given.data)
    kept = sorted(sites.rows, key=lambda each: len(sites.rows[each][1]))[: settings.max_sites]
    sites = Sites(sites.columns, sites.public_sd, {each: sites.rows[each] for each in kept})
    folder = given.out if given.quick else ROOT / "results"
    lines = Lines(given.lines or folder / f"{name}.jsonl", ("site",))
    lines.run(lambda site: run_one(site, sites, settings), (((each,), each) for each in kept))
    for inner in ("measures", "patients"):
        write_packed(given.out / f"{name}_{inner}.csv.gz", exploded(lines.read(), inner))
    write_provenance(given.out, __file__, settings, quick=given.quick, name=name)


if __name__ == "__main__":
    main()

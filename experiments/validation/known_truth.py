"""Whether every promised measure holds: simulated sites, whose truth is known.

Six families, drawn once a seed with events (logistic regression, Brier loss) and, but for rare
events, with numbers (ridge regression, squared loss). Of one default study: every measure with its
interval, the same measure on fresh rows of the target's population, and the estimate without
weights; then an interval, or a set of classes, for every fresh row.

Seeds: 70 000 to 70 059 and 72 000 to 72 059 for development with a prototype, 73 000 on with the
package; 80 000 to 80 049 for the one confirmation.

Tables: ``validation_measures.csv.gz``, one line a measure and study; and
``validation_patients.csv.gz``, one line a study and part of the rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

from lib.common import ROOT, options, write_provenance
from lib.promise_runs import Lines, Study, flags_of, guess, run_default, write_packed
from lib.validation_families import VALIDATED
from lib.validation_runs import (
    LOGISTIC,
    exploded,
    measure_lines,
    patient_lines,
    realised,
    unweighted,
)

import fedcsa

#: Kinds of outcome, and what a family calls them.
PARTS = {"events": "classes", "numbers": "regression"}


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    families: tuple[str, ...] = tuple(VALIDATED)
    first_seed: int = 80_000
    seeds: int = 50
    n_truth: int = 20_000
    thresholds: tuple[float, ...] = (0.2, 0.5)
    rare_thresholds: tuple[float, ...] = (0.05, 0.1)
    level: float = 0.9  # of the intervals for patients


FULL = Settings()
QUICK = Settings(families=("covariate shift",), first_seed=0, seeds=1, n_truth=2_000)
DEVELOPMENT = 73_000


def run_one(part: str, name: str, seed: int, settings: Settings) -> dict[str, Any]:
    """One default study beside the truth; a study that failed says with which error.

    Parameters
    ----------
    part : {"events", "numbers"}
    name : str
        Of the family.
    seed : int
    settings : Settings
    """
    drawn = VALIDATED[name].draw(seed, classes=part == "events", n_truth=settings.n_truth)
    thresholds, learner = None, {}
    if part == "events":
        thresholds = settings.rare_thresholds if name == "rare events" else settings.thresholds
        learner = {**LOGISTIC, "thresholds": list(thresholds)}
    flags = flags_of([drawn.X_target, *(X for X, _ in drawn.sources.values())])
    found: dict[str, Any] = {"part": part, "family": name, "seed": seed}
    try:
        told, fitted = run_default(Study(drawn.sources, drawn.X_target, flags), seed, learner)
    except fedcsa.FedCSAError as error:
        return {**found, "error": f"{type(error).__name__}: {error}"}
    true = realised(drawn.y_truth, guess(fitted, drawn.X_truth), thresholds)
    plain = unweighted(fitted, drawn.sources, thresholds)
    return {
        **found,
        "verdict": told["verdict"],
        "reaching": len(fitted.adaptation_.reaching),
        "measures": measure_lines(fitted, true, plain),
        "patients": patient_lines(fitted, drawn.X_truth, drawn.y_truth, settings.level),
    }


def tasks(settings: Settings) -> Iterator[tuple[str, str, int]]:
    """All runs, seed by seed: whenever it stops, families have been run equally often."""
    for seed in range(settings.first_seed, settings.first_seed + settings.seeds):
        for part, kind in PARTS.items():
            for name in settings.families:
                if kind in VALIDATED[name].kinds:
                    yield part, name, seed


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(
        __doc__,
        arguments,
        development={"type": int, "help": "so many seeds to develop on"},
        lines={"type": Path, "help": "file of one line a run"},
    )
    settings, name = QUICK if given.quick else FULL, "validation"
    if given.development:
        settings = replace(settings, first_seed=DEVELOPMENT, seeds=given.development)
        name += "_development"
    folder = given.out if given.quick else ROOT / "results"
    lines = Lines(given.lines or folder / f"{name}.jsonl", ("part", "family", "seed"))
    lines.run(lambda task: run_one(*task, settings), ((task, task) for task in tasks(settings)))
    for inner in ("measures", "patients"):
        write_packed(given.out / f"{name}_{inner}.csv.gz", exploded(lines.read(), inner))
    write_provenance(given.out, __file__, settings, quick=given.quick, name=name)


if __name__ == "__main__":
    main()

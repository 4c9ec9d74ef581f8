"""Whether the promised interval holds: simulated families, half of which violate an assumption.

Every family is drawn once a seed, for regression (ridge, squared loss) and, some of them, for
classes (logistic regression, Brier loss). Of one default study: promise, interval, verdict, and the
true risk of the mixture on fresh rows of the target's population. Where sites have random effects,
that is the population of this very target.

Seeds: 50 000 to 50 009 for development, 60 000 to 60 049 for the one confirmation. The paper's
cases are run beside it for the weight of the far source and for refusals.

Every run is one line of ``results/promise_new.jsonl``; runs that are there are not run again. At
the end all lines become the table ``promise_new.csv.gz``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

import numpy as np
from lib.common import ROOT, options, risk, write_provenance
from lib.families import FAMILIES, Family, case1, case2, family
from lib.paper_cases import printed_sizes
from lib.promise_runs import (
    Lines,
    Study,
    flags_of,
    guess,
    logistic,
    run_default,
    write_packed,
)

import fedcsa

#: Families drawn with classes too. Logistic regression costs ten times as much as ridge, hence a
#: part: every kind of violation, every size, all families that exist for classes only.
CLASSIFIED = (
    "identical",
    "many-small",
    "unequal-rows",
    "binary-mixed",
    "mean-shift",
    "scale-shift",
    "bent-five",
    "threshold",
    "one-far-of-five",
    "mixture-bent",
    "one-odd-source",
    "clear-5x300",
    "clear-8x400-shift",
    "clear-flags-6x300",
    "no-signal-3x200",
    "no-signal-6x300",
    "forty-tiny",
    "all-flags",
    "levels-3x200",
    "levels-12x100",
    "slopes-8x200",
    "label-shift-6x200",
    "label-shift-4x300",
    "drift-5x300",
    "odd-target",
    "hidden-flags",
    "repeated-6x60x5",
    *(item.name for item in FAMILIES if item.kinds == ("classes",)),
)


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    regression: tuple[str, ...] = tuple(f.name for f in FAMILIES if "regression" in f.kinds)
    classes: tuple[str, ...] = CLASSIFIED
    first_seed: int = 60_000
    seeds: int = 50
    class_seeds: int = 50
    n_truth: int = 20_000
    inverse_penalties: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0)  # C of the logistic regression
    case1_rows: int = 20
    case2_places: tuple[float, ...] = (2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)


FULL = Settings()
QUICK = Settings(
    regression=("identical", "levels-3x200", "case2-c3", "no-signal-3x200"),
    classes=("rare-6x120",),
    first_seed=0,
    seeds=2,
    class_seeds=2,
    n_truth=2_000,
    inverse_penalties=(0.1, 1.0),
    case1_rows=1,
    case2_places=(3.0,),
)
DEVELOPMENT = 50_000
PARTS = ("regression", "classes", "cases")
Task = tuple[str, Family, int]

# One run --------------------------------------------------------------------------------------


def run_one(task: Task, settings: Settings) -> dict[str, Any]:
    """One default study beside the truth; a study that failed says with which error.

    Parameters
    ----------
    task : (part, family, seed)
    settings : Settings
    """
    part, item, seed = task
    drawn = item.draw(seed, classes=part == "classes", n_truth=settings.n_truth)
    found: dict[str, Any] = {
        "part": part,
        "family": item.name,
        "seed": seed,
        "n_sources": len(drawn.sources),
        "n_target": len(drawn.X_target),
    }
    pooled = np.concatenate([y for _, y in drawn.sources.values()])
    found["constant"] = risk(np.full(len(drawn.y_truth), pooled.mean()), drawn.y_truth)
    learner = logistic(settings.inverse_penalties) if part == "classes" else {}
    flags = flags_of([drawn.X_target, *(X for X, _ in drawn.sources.values())])
    study = Study(drawn.sources, drawn.X_target, flags, groups=drawn.groups)
    start = time.perf_counter()
    try:
        told, fitted = run_default(study, seed, learner)
    except fedcsa.FedCSAError as error:
        return {**found, "error": f"{type(error).__name__}: {error}"}
    found |= told
    found["seconds"] = time.perf_counter() - start
    found["true"] = risk(guess(fitted, drawn.X_truth), drawn.y_truth)
    return found


def tasks(
    settings: Settings, parts: Sequence[str], most_seeds: int | None = None
) -> Iterator[Task]:
    """All runs, seed by seed: whenever it stops, families have been run equally often.

    Parameters
    ----------
    settings : Settings
    parts : sequence of {"regression", "classes", "cases"}
    most_seeds : int, optional
        Of every part; by default as the settings say.
    """
    named = {"regression": settings.regression, "classes": settings.classes}
    families = {part: [family(name) for name in names] for part, names in named.items()}
    sizes = printed_sizes()[: settings.case1_rows]
    families["cases"] = [case1(*size) for size in sizes] + list(map(case2, settings.case2_places))
    for part in parts:
        count = settings.class_seeds if part == "classes" else settings.seeds
        for seed in range(settings.first_seed, settings.first_seed + (most_seeds or count)):
            for item in families[part]:
                yield part, item, seed


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(
        __doc__,
        arguments,
        parts={"nargs": "+", "choices": PARTS, "default": list(PARTS), "help": "what to run"},
        seeds={"type": int, "help": "how many, of every part"},
        development={"action": "store_true", "help": "ten other seeds, to develop on"},
        lines={"type": Path, "help": "file of one line a run"},
        pack={"action": "store_true", "help": "run nothing; write the table"},
    )
    settings = QUICK if given.quick else FULL
    if given.development:
        settings = replace(settings, first_seed=DEVELOPMENT, seeds=10, class_seeds=10)
    name = "promise_new" + ("_development" if given.development else "")
    folder = given.out if given.quick else ROOT / "results"
    lines = Lines(given.lines or folder / f"{name}.jsonl", ("part", "family", "seed"))
    if not given.pack:
        wanted = tasks(settings, given.parts, given.seeds)
        lines.run(
            lambda task: run_one(task, settings),
            (((part, item.name, seed), (part, item, seed)) for part, item, seed in wanted),
        )
    write_packed(given.out / f"{name}.csv.gz", lines.read())
    write_provenance(given.out, __file__, settings, quick=given.quick, name=name)


if __name__ == "__main__":
    main()

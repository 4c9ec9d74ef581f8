"""The interval under other losses and models than squared loss and ridge.

For the absolute, the log and the zero-one loss the risk of the mixture is only known up to a
bound; for the Brier loss it is exact. Whatever the loss, the interval promises to hold the true
risk, and its upper end not to lie below it, each at the level asked for. The true risk is that on
fresh rows of the target's population.

Tables: ``guard_losses`` (by loss, model, set of families and verdict), ``guard_losses_first`` (the
same under the method's first rule).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import (
    FIRST_SEED,
    STATUSES,
    first_rule,
    geometric_mean,
    options,
    run_all,
    write_provenance,
    write_table,
)
from families import Drawn, family
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fedcsa

PENALTIES = tuple(np.linspace(0.0, 1.0, 11).round(1).tolist())
#: name -> (outcome is a class, keyword arguments of the estimator)
MODELS: dict[str, tuple[bool, dict[str, Any]]] = {
    "ridge": (False, {"model": "ridge", "candidates": list(PENALTIES)}),
    "logistic": (
        True,
        {
            "model": make_pipeline(StandardScaler(), LogisticRegression()),
            "candidates": {"logisticregression__C": [0.1, 1.0]},
        },
    ),
    "forest": (
        False,
        {"model": RandomForestRegressor(10, max_depth=4, min_samples_leaf=5)},
    ),
    "forest-classifier": (
        True,
        {"model": RandomForestClassifier(10, max_depth=4, min_samples_leaf=5)},
    ),
}


@dataclass(frozen=True)
class Case:
    """One model under one loss, on some families with some seeds."""

    model: str
    loss: str
    families: tuple[str, ...]
    seeds: int


SMOOTH = (
    "identical", "small-shift", "unequal-rows", "binary-mixed", "mean-shift", "scale-shift",
    "skewed", "bent-five", "interactions", "site-levels",
)  # fmt: skip
CLASSIFIED = ("small-shift", "mean-shift", "scale-shift", "binary-mixed", "bent", "site-levels")
GROWN = ("small-shift", "scale-shift", "bent")


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    first_seed: int = FIRST_SEED
    n_truth: int = 20_000
    cases: tuple[Case, ...] = (
        Case("ridge", "absolute", SMOOTH, 40),
        Case("logistic", "log", CLASSIFIED, 15),
        Case("logistic", "zero-one", CLASSIFIED, 15),
        Case("logistic", "brier", CLASSIFIED, 15),
        Case("forest", "squared", GROWN, 10),
        Case("forest", "absolute", GROWN, 10),
        Case("forest-classifier", "log", GROWN, 10),
        Case("forest-classifier", "brier", GROWN, 10),
    )


FULL = Settings()
QUICK = Settings(
    first_seed=0,
    n_truth=2_000,
    cases=(
        Case("ridge", "absolute", ("small-shift", "site-levels"), 3),
        Case("logistic", "log", ("small-shift",), 1),
        Case("logistic", "brier", ("small-shift",), 1),
        Case("forest-classifier", "zero-one", ("small-shift",), 1),
    ),
)


def run_one(task: tuple[Case, str, int, Settings]) -> dict[str, Any]:
    """Promise and truth on one draw."""
    case, name, seed, settings = task
    classes, keywords = MODELS[case.model]
    drawn = family(name).draw(seed, classes=classes, n_truth=settings.n_truth)
    model = fedcsa.FedCSA(loss=case.loss, random_state=seed, on_no_overlap="predict", **keywords)
    found = judged(case, drawn, seed, model.fit(drawn.sources, drawn.X_target))
    with first_rule():
        first = judged(case, drawn, seed, model.fit(drawn.sources, drawn.X_target))
    return {**found, "family": name, "set": set_of(name), "first": first}


def set_of(name: str) -> str:
    return "violates" if family(name).tag == "violates" else "not violating"


def judged(case: Case, drawn: Drawn, seed: int, fitted: fedcsa.FedCSA) -> dict[str, Any]:
    told = fitted.adaptation_.risk
    lower, upper = fitted.interval_ or (None, None)
    return {
        "loss": case.loss,
        "model": case.model,
        "seed": seed,
        "kind": told.kind,
        "status": fitted.status_,
        "promised": told.risk,
        "lower": lower,
        "upper": upper,
        "true": fitted.reconcile(drawn.X_truth, drawn.y_truth).realised,
    }


def lines_of(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """How often the promise holds, by loss, model, set and verdict (and over all verdicts)."""
    lines = []
    for key in dict.fromkeys((run["loss"], run["model"], run["set"], run["kind"]) for run in runs):
        members = [
            run for run in runs if (run["loss"], run["model"], run["set"], run["kind"]) == key
        ]
        for status in ("all", *STATUSES):
            judged = [
                run
                for run in members
                if status in ("all", run["status"]) and run["lower"] is not None
            ]
            if not judged:
                continue
            lower, upper, true, promised = (
                np.array([run[name] for run in judged])
                for name in ("lower", "upper", "true", "promised")
            )
            lines.append(
                {
                    **dict(zip(("loss", "model", "set", "kind"), key, strict=True)),
                    "status": status,
                    "runs": len(judged),
                    "coverage": ((lower <= true) & (true <= upper)).mean(),
                    "below_upper": (true <= upper).mean(),
                    "promised_over_true": geometric_mean(promised / true),
                    "half_width_factor": geometric_mean(np.sqrt(upper / lower)),
                }
            )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else FULL
    tasks = [
        (case, name, settings.first_seed + index, settings)
        for case in settings.cases
        for name in case.families
        for index in range(case.seeds)
    ]
    runs = run_all(run_one, tasks, given.workers, "losses")
    lines = lines_of(runs)
    write_table(given.out, "guard_losses", lines)
    write_table(given.out, "guard_losses_first", lines_of([{**r, **r["first"]} for r in runs]))
    if given.runs:
        write_table(given.out, "guard_losses_runs", runs)
    write_provenance(given.out, "guard_losses", settings, quick=given.quick)
    for line in lines:
        if line["status"] in ("all", "ok"):
            print(
                f"{line['loss']:9} {line['model']:18} {line['set']:14} {line['status']:4} "
                f"{line['runs']:4} runs, coverage {line['coverage']:.3f}, "
                f"below the upper end {line['below_upper']:.3f}"
            )


if __name__ == "__main__":
    main()

"""Real data, leave one site out: the promised risk beside the one that comes true.

Every site in turn is the target of all others. Beside the guarded method stands the naive one,
cross-fitted with the same candidates, whose promise is the average of the sources' own
cross-validated risks. A model of the site's own, cross-validated, is the yardstick for regret.

Data sets: International Stroke Trial by country, UCI Heart Disease by hospital (both Brier loss
of a logistic regression), Parkinsons Telemonitoring by patient (squared loss of a ridge
regression). They are read from the folder given with --data.

Tables: ``guard_real`` (one line a data set) and ``guard_real_sites`` (one line a site); those with
``_first`` are the same under the guarded method's first rule.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    FIRST_SEED,
    ROOT,
    STATUSES,
    first_rule,
    geometric_mean,
    options,
    run_all,
    write_provenance,
    write_table,
)
from real_data import DataAbsentError, Sites, heart_disease, parkinsons, stroke_trial
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fedcsa

READERS: dict[str, Callable[[Path], Sites]] = {
    "stroke": stroke_trial,
    "heart": heart_disease,
    "parkinsons": parkinsons,
}


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    data_sets: tuple[str, ...] = ("stroke", "heart", "parkinsons")
    seed: int = FIRST_SEED
    inverse_penalties: tuple[float, ...] = (0.01, 0.1, 1.0)  # C of the logistic regression
    penalties: tuple[float, ...] = tuple(np.linspace(0.0, 1.0, 11).round(1).tolist())
    own_folds: int = 5
    level: float = 0.95
    max_sites: int | None = None  # the smallest ones


FULL = Settings()
QUICK = Settings(data_sets=("heart", "parkinsons"), seed=0, inverse_penalties=(0.1,), max_sites=3)


@cache
def sites_of(data_set: str, folder: Path, max_sites: int | None) -> Sites:
    """The data set, read once a process."""
    sites = READERS[data_set](folder)
    smallest = sorted(sites.rows, key=lambda name: (len(sites.rows[name][1]), name))[:max_sites]
    return Sites(sites.columns, sites.public_sd, {name: sites.rows[name] for name in smallest})


def learner(data_set: str, settings: Settings) -> dict[str, Any]:
    """Model, candidates and loss."""
    if data_set == "parkinsons":
        return {"model": "ridge", "candidates": list(settings.penalties), "loss": "squared"}
    return {
        "model": make_pipeline(StandardScaler(), LogisticRegression()),
        "candidates": {"logisticregression__C": list(settings.inverse_penalties)},
        "loss": "brier",
    }


def squared_errors(fitted: fedcsa.FedCSA, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(ŷ − y)², which is the Brier loss if ŷ is the probability of y = 1."""
    classes = hasattr(fitted, "classes_")
    guess = fitted.predict_proba(X)[:, 1] if classes else fitted.predict(X)
    return (guess - y) ** 2


def own_risk(data_set: str, X: np.ndarray, y: np.ndarray, settings: Settings) -> float:
    """Cross-validated risk of a model of the site's own, at its best candidate."""
    risks = []
    if data_set == "parkinsons":
        folds = KFold(settings.own_folds, shuffle=True, random_state=settings.seed)
        n_train = len(X) * (1.0 - 1.0 / settings.own_folds)
        for penalty in settings.penalties[1:]:
            model = make_pipeline(StandardScaler(), Ridge(alpha=n_train * penalty))
            risks.append(np.mean((cross_val_predict(model, X, y, cv=folds) - y) ** 2))
    else:
        rarer = int(min(y.sum(), (1.0 - y).sum()))  # every fold must know both classes
        n_folds = max(2, min(settings.own_folds, rarer))
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=settings.seed)
        for strength in settings.inverse_penalties:
            model = make_pipeline(StandardScaler(), LogisticRegression(C=strength))
            guess = cross_val_predict(model, X, y, cv=folds, method="predict_proba")[:, 1]
            risks.append(np.mean((guess - y) ** 2))
    return float(min(risks))


def run_one(task: tuple[str, str, Path, Settings]) -> dict[str, Any]:
    """One site as the target of all others."""
    data_set, site, folder, settings = task
    sites = sites_of(data_set, folder, settings.max_sites)
    X, y = sites.rows[site]
    others = {name: pair for name, pair in sites.rows.items() if name != site}
    common: dict[str, Any] = {
        **learner(data_set, settings),
        "random_state": settings.seed,
        "public_sd": sites.public_sd,
        "level": settings.level,
        "on_no_overlap": "predict",
    }
    own = own_risk(data_set, X, y, settings)
    naive = fedcsa.FedCSA(method="naive", scheme="cross-fit", **common).fit(others, X)
    rest = {
        "data_set": data_set,
        "naive_promised": naive.target_risk_,
        "naive_realised": float(squared_errors(naive, X, y).mean()),
        "constant": float(np.mean((y - _pooled_mean(others)) ** 2)),
    }
    found = {**rest, **guarded_row(site, X, y, fedcsa.FedCSA(**common).fit(others, X), own)}
    with first_rule():
        first = fedcsa.FedCSA(**common).fit(others, X)
    return {**found, "first": {**rest, **guarded_row(site, X, y, first, own)}}


def guarded_row(
    site: str, X: np.ndarray, y: np.ndarray, guarded: fedcsa.FedCSA, own: float
) -> dict[str, Any]:
    """What was promised for one site and what came true."""
    losses = squared_errors(guarded, X, y)
    lower, upper = guarded.interval_ or (None, None)
    told = fedcsa.BacktestRow(
        source=site,
        n_rows=len(y),
        status=guarded.status_,
        promised=guarded.target_risk_,
        lower=lower,
        upper=upper,
        realised=float(losses.mean()),
        standard_error=float(losses.std(ddof=1) / np.sqrt(len(losses))),
        reference=own,
        if_shared=guarded.adaptation_.risk.if_shared,
    )
    return {"row": told, "average": guarded.adaptation_.risk.average}


def _pooled_mean(others: dict[str, tuple[np.ndarray, np.ndarray]]) -> float:
    return float(np.concatenate([outcome for _, outcome in others.values()]).mean())


def site_line(found: dict[str, Any]) -> dict[str, Any]:
    row: fedcsa.BacktestRow = found["row"]
    return {
        "data_set": found["data_set"],
        "site": row.source,
        "rows": row.n_rows,
        "status": row.status,
        "promised": row.promised,
        "lower": row.lower,
        "upper": row.upper,
        "average": found["average"],
        "realised": row.realised,
        "naive_promised": found["naive_promised"],
        "naive_realised": found["naive_realised"],
        "own_model": row.reference,
        "constant": found["constant"],
    }


def set_line(data_set: str, found: Sequence[dict[str, Any]], level: float) -> dict[str, Any]:
    rows: list[fedcsa.BacktestRow] = [each["row"] for each in found]
    test = fedcsa.Backtest(tuple(rows), level)
    gap = np.mean([abs(row.promised - row.realised) for row in rows])
    naive_gap = np.mean([abs(each["naive_promised"] - each["naive_realised"]) for each in found])
    average_gap = np.mean([abs(each["average"] - each["row"].realised) for each in found])
    middles = [
        abs(np.sqrt(row.lower * row.upper) - row.realised) for row in rows if row.lower is not None
    ]
    verdicts = [row.status for row in rows]
    ok = [row for row in rows if row.status == "ok"]
    return {
        "data_set": data_set,
        "sites": len(rows),
        "rows": sum(row.n_rows for row in rows),
        "gap_guarded": gap,
        "gap_naive": naive_gap,
        "gap_ratio": gap / naive_gap,
        "gap_average": average_gap,  # had the average risk F of the single models been promised
        "gap_middle": np.mean(middles) if middles else None,  # … or the middle of the interval
        "realised_guarded": np.mean([row.realised for row in rows]),
        "realised_naive": np.mean([each["naive_realised"] for each in found]),
        "realised_own_model": np.mean([row.reference for row in rows]),
        "realised_constant": np.mean([each["constant"] for each in found]),
        "regret": geometric_mean(row.regret for row in rows),
        "judged": len(test.judged),
        "coverage": test.coverage,
        "kept": 1.0 - test.broken / len(test.judged) if test.judged else None,
        **{status.replace(" ", "_"): verdicts.count(status) for status in STATUSES},
        "ok_coverage": np.mean([row.covered for row in ok]) if ok else None,
        "backtest": test.verdict,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    where = {"type": Path, "default": ROOT.parent / "shared" / "data", "help": "folder of the data"}
    given = options(__doc__, arguments, data=where)
    settings = QUICK if given.quick else FULL
    try:
        tasks = [
            (name, site, given.data, settings)
            for name in settings.data_sets
            for site in sites_of(name, given.data, settings.max_sites).rows
        ]
    except DataAbsentError as error:
        sys.exit(str(error))
    # The largest data set first, its sites in turn: both workers stay busy to the end.
    found = run_all(run_one, tasks, given.workers, "sites")
    for rule, those in (("_first", [each["first"] for each in found]), ("", found)):
        lines = [
            set_line(name, [f for f in those if f["data_set"] == name], settings.level)
            for name in settings.data_sets
        ]
        write_table(given.out, f"guard_real{rule}", lines)
        write_table(given.out, f"guard_real_sites{rule}", [site_line(each) for each in those])
    write_provenance(given.out, "guard_real", settings, quick=given.quick)
    for line in lines:
        print(
            f"{line['data_set']:10} {line['sites']} sites: promise off by {line['gap_guarded']:.4f}"
            f" (naive {line['gap_naive']:.4f}), coverage {line['coverage']:.2f},"
            f" regret {line['regret']:.3f}"
        )


if __name__ == "__main__":
    main()

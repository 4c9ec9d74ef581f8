"""Three real studies, leave one site out: what was promised, and what came true.

Every site of sufficient size is the target of all others; its outcomes judge and do nothing else.
International Stroke Trial by country and Heart Disease by hospital (logistic regression, Brier
loss), Parkinson's telemonitoring by patient (ridge regression, squared loss). Beside the
default method: naive, FedIW and FedDA with the target's rows, uLSIF and thirds; all rows pooled,
which is not allowed; a model of the site's own outcomes (reference); a constant, the mean outcome
of all other sites.

*Regret* is realised risk over the smallest among the answers that are allowed. The verdict "use it"
is right if the outcome agrees with the interval and the constant is beaten; any other is right if
not. Where the default refuses it promises nothing; what it would predict if one insisted is judged.

Tables: ``real_sites`` (one line a site and loss), ``real_studies`` (one line a study and method).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

import numpy as np
from lib.common import (
    PAPER_METHODS,
    ROOT,
    Array,
    geometric_mean,
    options,
    run_all,
    write_provenance,
    write_table,
)
from lib.paired import difference, mean_interval
from lib.paper_arrays import FIRST_SEED
from lib.real_data import DataAbsentError, Sites, heart_disease, parkinsons, stroke_trial
from lib.real_methods import Learner, answers, own_risk

import fedcsa
from fedcsa.core.realised import standard_error

READERS = {"stroke": stroke_trial, "heart": heart_disease, "parkinsons": parkinsons}
PROMISING = ("default", *PAPER_METHODS)
ALLOWED = (*PROMISING, "constant")
METHODS = (*ALLOWED, "pooled", "reference")
USE = "use it"
#: A value and its 95 % interval, as columns.
ENDS = ("", "_lower", "_upper")


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    studies: tuple[tuple[str, str], ...] = (
        ("stroke", "brier"),
        ("heart", "brier"),
        ("parkinsons", "squared"),
    )
    seed: int = FIRST_SEED
    inverse_penalties: tuple[float, ...] = (0.1, 1.0)  # C of the logistic regression
    penalties: tuple[float, ...] = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
    n_centres: int = 50  # of uLSIF
    min_rows: int = 100
    level: float = 0.95
    max_sites: int | None = None  # the smallest ones

    def learner(self, loss: str) -> Learner:
        """What is fitted under this loss."""
        values = self.penalties if loss == "squared" else self.inverse_penalties
        return Learner(loss, values, self.n_centres)


FULL = Settings()
QUICK = Settings(
    studies=(("heart", "log"), ("parkinsons", "squared")),
    seed=0,
    inverse_penalties=(0.1,),
    max_sites=3,
)


@cache
def sites_of(data_set: str, folder: Path, min_rows: int, max_sites: int | None) -> Sites:
    """The data set, read once a process."""
    sites = READERS[data_set](folder)
    large = [name for name, (_, y) in sites.rows.items() if len(y) >= min_rows]
    smallest = sorted(large, key=lambda name: (len(sites.rows[name][1]), name))[:max_sites]
    return Sites(sites.columns, sites.public_sd, {name: sites.rows[name] for name in smallest})


def run_one(task: tuple[str, str, str, Path, Settings]) -> dict[str, Any]:
    """One site as the target of all others."""
    data_set, loss, site, folder, settings = task
    sites = sites_of(data_set, folder, settings.min_rows, settings.max_sites)
    X, y = sites.rows[site]
    others = {name: pair for name, pair in sites.rows.items() if name != site}
    learner = settings.learner(loss)
    found = answers(others, X, learner, settings.seed, sites.public_sd, settings.level)
    # Only from here on are outcomes of the target looked at.
    losses = {method: learner.losses(answer.prediction, y) for method, answer in found.items()}
    realised = {method: float(values.mean()) for method, values in losses.items()}
    realised["reference"] = own_risk(X, y, learner, settings.seed)
    ours = found["default"]
    lower, upper = ours.interval or (None, None)
    row = fedcsa.BacktestRow(
        source=site,
        n_rows=len(y),
        status=ours.verdict,
        promised=ours.promised,
        lower=lower,
        upper=upper,
        realised=realised["default"],
        standard_error=standard_error(losses["default"], loss),
    )
    kept = row.kept(settings.level)
    fine = kept is not False and realised["default"] < realised["constant"]
    return {
        "data_set": data_set,
        "loss": loss,
        "site": site,
        "rows": len(y),
        "verdict": ours.verdict,
        "lower": lower,
        "upper": upper,
        "covered": row.covered,
        "kept": kept,
        "right": (ours.verdict == USE) == fine,
        **{f"promised_{method}": found[method].promised for method in PROMISING},
        **{f"realised_{method}": realised[method] for method in METHODS},
    }


def study_lines(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One line a method: error and bias of its promise, realised risk, regret."""
    realised = {m: np.array([each[f"realised_{m}"] for each in found]) for m in METHODS}
    best = np.min([realised[m] for m in ALLOWED], axis=0)
    shared = {key: found[0][key] for key in ("data_set", "loss")} | {"sites": len(found)}
    # NaN where nothing was promised
    off = {m: column(found, f"promised_{m}") - realised[m] for m in PROMISING}
    lines = []
    for method in METHODS:
        told: dict[str, Any] = {**shared, "method": method, "realised": realised[method].mean()}
        told |= difference(realised[method], realised["default"]).columns("minus_default")
        told["regret"] = geometric_mean(realised[method] / best)
        told["best"] = int((realised[method] <= best).sum())
        told |= _promise(off["default"], off[method]) if method in off else NO_PROMISE
        told |= _judged(found) if method == "default" else dict.fromkeys(_judged(found))
        lines.append(told)
    return lines


def column(found: Sequence[Mapping[str, Any]], key: str) -> Array:
    """Values of all sites, NaN where there is none."""
    return np.array([np.nan if each[key] is None else each[key] for each in found], dtype=float)


#: Mean distance of the promise, its mean, and the distance of the default's less this one's.
_PROMISE = ("promise_off", *(f"{key}{end}" for key in ("promise_bias", "gap") for end in ENDS))
NO_PROMISE: dict[str, Any] = dict.fromkeys(_PROMISE)


def _promise(ours: Array, off: Array) -> dict[str, Any]:
    """How far promises were off, where there were any, and beside the default's."""
    made, both = off[~np.isnan(off)], ~np.isnan(ours + off)
    if not len(made):
        return NO_PROMISE
    told = {"promise_off": np.abs(made).mean(), **mean_interval(made).columns("promise_bias")}
    if not both.any():
        return {**NO_PROMISE, **told}
    return {**told, **difference(np.abs(ours[both]), np.abs(off[both])).columns("gap")}


def _judged(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Coverage of the interval and correctness of the verdict."""
    judged = [each for each in found if each["covered"] is not None]
    use = [each["right"] for each in found if each["verdict"] == USE]
    warned = [each["right"] for each in found if each["verdict"] != USE]
    return {
        "judged": len(judged),
        "coverage": np.mean([each["covered"] for each in judged]) if judged else None,
        "kept": np.mean([each["kept"] for each in judged]) if judged else None,
        "use": len(use),
        "use_right": sum(use),
        "warned": len(warned),
        "warned_right": sum(warned),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    where = {"type": Path, "default": ROOT.parent / "shared" / "data", "help": "folder of the data"}
    given = options(__doc__, arguments, data=where)
    settings = QUICK if given.quick else FULL
    tasks, absent = [], []
    for name, loss in settings.studies:
        try:
            sites = sites_of(name, given.data, settings.min_rows, settings.max_sites)
        except DataAbsentError as error:
            absent.append(str(error))
            continue
        largest_first = sorted(sites.rows, key=lambda site: len(sites.rows[site][1]))
        tasks += [(name, loss, site, given.data, settings) for site in largest_first]
    for reason in dict.fromkeys(absent):  # the others still run
        print(reason, file=sys.stderr)
    if not tasks:
        sys.exit("None of the data sets is at hand.")
    found = run_all(run_one, tasks, given.workers, "sites")
    lines = []
    for study in dict.fromkeys(task[:2] for task in tasks):
        lines += study_lines([x for x in found if (x["data_set"], x["loss"]) == study])
    write_table(given.out, "real_sites", found)
    write_table(given.out, "real_studies", lines)
    write_provenance(given.out, __file__, settings, quick=given.quick)


if __name__ == "__main__":
    main()

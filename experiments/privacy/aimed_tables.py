"""What a whole risk report tells about the outcome of a patient at whom the table is aimed.

The attacker knows the patient's features, the population and the true coefficients, but no other
row. They make many sources of their own with that patient in them, ask each the same question
under the strict policy, and learn to predict the patient's error from what is told: from the
weighted mean outcome alone, or from the losses of all candidates with their variances, too. An
error of 1 is that of the true model; with a leverage h of the patient, sqrt(1 − h) is the best that
the mean allows.

Table: ``aimed_tables`` (one line a patient and table).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

import numpy as np
from lib.common import Array, options, run_all, write_provenance, write_table
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedcsa.core.table import Table1
from fedcsa.messages.messages import Brief, RiskReport
from fedcsa.messages.policy import Policy
from fedcsa.plan import make_plan
from fedcsa.source.source import Source
from fedcsa.target.target import Target

#: Few and far apart, as an attacker would choose them: their losses differ most.
CANDIDATES = [
    {"penalty": penalty, "ratio_power": power}
    for penalty in (0.0, 0.3, 3.0, 1000.0)
    for power in (0.0, 1.0)
]


@dataclass(frozen=True)
class Settings:
    """What the study fixes.

    Attributes
    ----------
    cases : tuple
        Rows, features, the patient's distance in sds, how far the table goes towards the patient,
        and its sds.
    sources : int
        That the attacker makes; two thirds to learn from.
    """

    cases: tuple[tuple[int, int, float, float, float], ...] = (
        (200, 2, 4.0, 0.0, 1.0),
        (200, 2, 4.0, 0.3, 1.0),
        (200, 2, 1.5, 1.0, 0.5),
        (200, 5, 2.2, 0.5, 0.8),
        (1_000, 2, 5.0, 0.3, 1.0),
    )
    sources: int = 600
    seed: int = 8


FULL = Settings()
QUICK = Settings(cases=((200, 2, 4.0, 0.3, 1.0),), sources=60)


def aimed(patient: Array, towards: float, sd: float) -> Brief:
    """The brief of a target whose table goes towards the patient."""
    names = tuple(f"x{i}" for i in range(len(patient)))
    plan = make_plan("ridge", CANDIDATES, {"seed": 1}, features=names, study="aimed")
    table = Table1.typed(
        100, names, [False] * len(names), towards * patient, np.full(len(names), sd)
    )
    return Target(table, plan, policy=Policy.open()).brief(["a"])


def one_case(task: tuple[tuple[int, int, float, float, float], Settings]) -> dict[str, Any]:
    """One patient and one table, over many sources."""
    (n, d, away, towards, sd), settings = task
    rng = np.random.default_rng([settings.seed, n, d])
    patient = rng.normal(size=d)
    patient *= away / np.linalg.norm(patient)
    brief = aimed(patient, towards, sd)
    about, losses, errors, leverages = [], [], [], []
    for _ in range(settings.sources):
        X, error = rng.normal(size=(n, d)), rng.normal(size=n)
        X[0] = patient
        report = Source("a", X, X.sum(axis=1) + error).answer(brief)
        if isinstance(report, RiskReport):
            overlap = report.effective_rows, report.largest_share, *report.difference_before
            about.append([*overlap, *report.difference_after, *report.outcome_mean])
            losses.append([*report.risk, *np.log(report.variance)])
            errors.append(error[0])
            leverages.append(report.leverage)
    h = float(np.median(leverages))
    return {
        "rows": n, "features": d, "away": away, "towards": towards, "sd": sd,
        "answered": len(errors) / settings.sources, "leverage": h, "best": np.sqrt(1.0 - h),
        "from_mean": left(np.array(about), np.array(errors)),
        "from_all": left(np.hstack([about, losses]), np.array(errors)),
    }  # fmt: skip


def left(told: Array, errors: Array) -> float:
    """Error of a ridge regression on what is told, on sources that it has not seen."""
    cut = 2 * len(errors) // 3
    model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 15)))
    found = model.fit(told[:cut], errors[:cut]).predict(told[cut:])
    return float(np.sqrt(np.mean((found - errors[cut:]) ** 2) / np.mean(errors[cut:] ** 2)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study and write its table."""
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else FULL
    tasks = [(case, settings) for case in settings.cases]
    write_table(given.out, "aimed_tables", run_all(one_case, tasks, given.workers, "aimed tables"))
    write_provenance(given.out, __file__, settings, quick=given.quick)


if __name__ == "__main__":
    main()

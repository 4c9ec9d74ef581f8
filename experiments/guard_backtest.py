"""What a back-test adds: how often it warns where an assumption fails, and where none does.

For every draw: the guarded answer with its verdict, then a back-test in which every source plays
the target for the others. On honest families every warning is a false alarm; on those that
violate an assumption it is wanted.

Tables: ``guard_backtest`` (one line a family) and ``guard_backtest_sets``; those with ``_first``
are the same under the method's first rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import FIRST_SEED, first_rule, options, risk, run_all, write_provenance, write_table
from families import Drawn, family

import fedcsa

VERDICTS = ("passed", "failed", "untested")


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    honest: tuple[str, ...] = (
        "identical", "small-shift", "six-sources", "unequal-rows", "high-noise", "mean-shift",
        "scale-shift", "heavy-tails", "ring", "bent-five", "interactions", "threshold",
        "one-far-of-five",
    )  # fmt: skip
    violating: tuple[str, ...] = (
        "mixture-line", "mixture-bent", "site-levels", "site-slopes", "one-odd-source",
    )  # fmt: skip
    first_seed: int = FIRST_SEED
    seeds: int = 20
    penalties: tuple[float, ...] = tuple(np.linspace(0.0, 1.0, 11).round(1).tolist())
    n_truth: int = 20_000


FULL = Settings()
QUICK = Settings(
    honest=("identical",),
    violating=("site-slopes", "mixture-line"),
    first_seed=0,
    seeds=2,
    n_truth=2_000,
)


def run_one(task: tuple[str, int, Settings]) -> dict[str, Any]:
    """The guarded answer, and what the back-test says about it."""
    name, seed, settings = task
    drawn = family(name).draw(seed, n_truth=settings.n_truth)
    told = {
        "family": name,
        "seed": seed,
        "set": "honest" if name in settings.honest else "violating",
    }
    found = {**told, **answer(drawn, seed, settings)}
    with first_rule():
        return {**found, "first": {**told, **answer(drawn, seed, settings)}}


def answer(drawn: Drawn, seed: int, settings: Settings) -> dict[str, Any]:
    """Verdict, coverage and back-test of one draw."""
    fitted = fedcsa.FedCSA(
        candidates=list(settings.penalties), random_state=seed, on_no_overlap="predict"
    ).fit(drawn.sources, drawn.X_target)
    status, interval = fitted.status_, fitted.interval_
    true = risk(fitted.predict(drawn.X_truth), drawn.y_truth)
    found = fitted.backtest(drawn.sources)
    return {
        "status": status,
        "covered": interval is not None and interval[0] <= true <= interval[1],
        "verdict": found.verdict,
        "judged": len(found.judged),
        "broken": found.broken,
    }


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Shares of verdicts, and coverage of what passes as ok before and after the back-test."""
    ok = [run for run in runs if run["status"] == "ok"]
    passed = [run for run in ok if run["verdict"] == "passed"]
    return {
        "runs": len(runs),
        **{v: np.mean([run["verdict"] == v for run in runs]) for v in VERDICTS},
        "ok": len(ok) / len(runs),
        "ok_coverage": np.mean([run["covered"] for run in ok]) if ok else None,
        "ok_and_passed": len(passed) / len(runs),
        "ok_and_passed_coverage": np.mean([run["covered"] for run in passed]) if passed else None,
    }


def sets_of(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"set": kind, **summary([run for run in runs if run["set"] == kind])}
        for kind in ("honest", "violating")
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else FULL
    names = (*settings.honest, *settings.violating)
    seeds = range(settings.first_seed, settings.first_seed + settings.seeds)
    tasks = [(name, seed, settings) for name in names for seed in seeds]
    runs = run_all(run_one, tasks, given.workers, "back-tests")
    for rule, those in (("", runs), ("_first", [run["first"] for run in runs])):
        lines = []
        for name in names:
            members = [run for run in those if run["family"] == name]
            lines.append({"family": name, "set": members[0]["set"], **summary(members)})
        write_table(given.out, f"guard_backtest{rule}", lines)
        write_table(given.out, f"guard_backtest_sets{rule}", sets_of(those))
    if given.runs:
        write_table(given.out, "guard_backtest_runs", runs)
    write_provenance(given.out, "guard_backtest", settings, quick=given.quick)
    for line in sets_of(runs):
        shares = ", ".join(f"{verdict} {line[verdict]:.2f}" for verdict in VERDICTS)
        print(f"{line['set']:10} {line['runs']} runs: {shares}")


if __name__ == "__main__":
    main()

"""Whether the guarded method holds what it promises: simulated families, fresh seeds.

Every family is drawn once per seed. On the same data and folds: the guarded method, its first rule,
the same without importance-weighted training, the best single source, and the paper's three
methods. The paper's methods get the guarded method's footing (cross-fitted, models refitted on all
rows, the same penalties) and are also run with the paper's own split. The true risk is the mean
squared error on fresh rows of the target's population.

Tables: ``guard_families`` (one line a family), ``guard_sets`` (the claims), ``guard_coverage``
(the interval by verdict), ``guard_coverage_first`` (that of the first rule), ``guard_promises``
(how far the promised risk is off, under both rules), ``guard_case1`` (weight of the far source) and
``guard_case2`` (refusals).
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    FIRST_SEED,
    PAPER_METHODS,
    STATUSES,
    best_mixture,
    best_single,
    first_rule,
    geometric_mean,
    options,
    paper_methods,
    plain_training,
    ratio_of_means,
    risk,
    run_all,
    single_outputs,
    write_provenance,
    write_table,
)
from families import FAMILIES, TAGS, Drawn, case1, case2, family

import fedcsa


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    families: tuple[str, ...] = tuple(item.name for item in FAMILIES)
    first_seed: int = FIRST_SEED
    seeds: int = 50
    penalties: tuple[float, ...] = tuple(np.linspace(0.0, 1.0, 11).round(1).tolist())
    n_truth: int = 20_000
    case1_rows: int = 20
    case2_places: tuple[float, ...] = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)


FULL = Settings()
QUICK = Settings(
    families=(
        "identical",
        "one-source",
        "bent-narrow",
        "case1-50-100-90",
        "case2-c3",
        "site-levels",
    ),
    first_seed=0,
    seeds=2,
    n_truth=2_000,
    case1_rows=2,
    case2_places=(1.0, 3.0),
)

#: "The best of the four", on the guarded method's footing and with the paper's split.
COMPARED = (*PAPER_METHODS, "single")
COMPARED_SPLIT = (*(f"{method}-split" for method in PAPER_METHODS), "single")
METHODS = ("guarded", "guarded-first", "guarded-plain", *COMPARED, *COMPARED_SPLIT[:-1])
YARDSTICKS = ("constant", "oracle")
#: Sets of families for which something is claimed, beside one set for every tag.
ANSWERED = ("friendly", "shift", "wrong-model", "far")
SETS = {
    **{tag: (tag,) for tag in TAGS},
    "answered": ANSWERED,
    "not violating": (*ANSWERED, "no-overlap"),
    "all": TAGS,
}

# One run ------------------------------------------------------------------------------------


def guarded(drawn: Drawn, seed: int, settings: Settings) -> fedcsa.FedCSA:
    model = fedcsa.FedCSA(
        candidates=list(settings.penalties), random_state=seed, on_no_overlap="predict"
    )
    return model.fit(drawn.sources, drawn.X_target)


def run_family(task: tuple[str, int, Settings]) -> dict[str, Any]:
    """Every method on one draw of one family."""
    name, seed, settings = task
    drawn = family(name).draw(seed, n_truth=settings.n_truth)
    X, y = drawn.X_truth, drawn.y_truth
    fitted = guarded(drawn, seed, settings)
    common = {"candidates": list(settings.penalties)}
    crossed = paper_methods(drawn.sources, drawn.X_target, seed, scheme="cross-fit", **common)
    split = paper_methods(drawn.sources, drawn.X_target, seed, scheme="split", **common)

    found: dict[str, Any] = {"family": name, "seed": seed, **promise(fitted)}
    found["guarded"] = risk(fitted.predict(X), y)
    with first_rule():
        first = guarded(drawn, seed, settings)
    found["guarded-first"] = risk(first.predict(X), y)
    found |= {f"first_{key}": value for key, value in promise(first).items()}
    found["guarded-plain"] = risk(
        plain_training(fitted, drawn.sources, drawn.X_target).predict(X), y
    )
    found["single"] = risk(best_single(fitted, drawn.sources, drawn.X_target).predict(X), y)
    for method in PAPER_METHODS:
        found[method] = risk(crossed[method].output(X), y)
        found[f"{method}-split"] = risk(split[method].output(X), y)
    pooled = np.concatenate([outcome for _, outcome in drawn.sources.values()])
    found["constant"] = risk(np.full(len(y), pooled.mean()), y)
    sent = [fitted.adaptation_, *crossed.values()]
    outputs = np.column_stack([single_outputs(each, X) for each in sent])
    found["oracle"] = risk(outputs @ best_mixture(outputs, y), y)
    return found


def promise(fitted: fedcsa.FedCSA) -> dict[str, Any]:
    """What the guarded method says about its own risk."""
    told = fitted.adaptation_.risk
    lower, upper = fitted.interval_ or (None, None)
    return {"status": fitted.status_, "promised": told.risk, "lower": lower, "upper": upper}


def run_case(task: tuple[tuple[float, ...], int, Settings]) -> dict[str, Any]:
    """Verdict, and weight of the second source, in the paper's Case 1 (three sizes) or 2 (c)."""
    place, seed, settings = task
    drawn_from = case1(*map(int, place)) if len(place) == 3 else case2(*place)
    fitted = guarded(drawn_from.draw(seed, n_truth=10), seed, settings)
    return {"place": place, "status": fitted.status_, "weight": fitted.source_weights_["s02"]}


# Summaries ----------------------------------------------------------------------------------


def column(runs: Sequence[dict[str, Any]], name: str) -> np.ndarray:
    return np.array([run[name] for run in runs], dtype=np.float64)


def family_line(name: str, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean risks of every method, their ratios to the best of the four, verdicts, coverage."""
    means = {method: column(runs, method).mean() for method in (*METHODS, *YARDSTICKS)}
    best = min(COMPARED, key=lambda method: means[method])
    best_split = min(COMPARED_SPLIT, key=lambda method: means[method])
    ratio, error = ratio_of_means(column(runs, "guarded"), column(runs, best))
    judged = [run for run in runs if run["lower"] is not None]
    verdicts = [run["status"] for run in runs]
    return {
        "family": name,
        "tag": family(name).tag,
        "seeds": len(runs),
        "best": best,
        "ratio": ratio,
        "ratio_se": error,
        "ratio_plain": means["guarded-plain"] / means[best],
        "ratio_split": means["guarded"] / means[best_split],
        "over_oracle": means["guarded"] / means["oracle"],
        **{f"mse_{method}": means[method] for method in (*METHODS, *YARDSTICKS)},
        **{status.replace(" ", "_"): verdicts.count(status) for status in STATUSES},
        "covered": np.mean([covered(run) for run in judged]) if judged else None,
    }


def covered(run: dict[str, Any]) -> bool:
    return run["lower"] <= run["guarded"] <= run["upper"]


def under_first_rule(run: dict[str, Any]) -> dict[str, Any]:
    """The same run with the first rule's promise and risk in place of the guarded method's."""
    told = {key: run[f"first_{key}"] for key in ("status", "promised", "lower", "upper")}
    return {**run, **told, "guarded": run["guarded-first"]}


def promise_lines(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """How far the promised risk is off, as a factor, where an answer is given; family by family."""
    lines = []
    for name in dict.fromkeys(run["family"] for run in runs):
        members = [run for run in runs if run["family"] == name]
        line: dict[str, Any] = {"family": name, "tag": family(name).tag}
        for rule, those in (("", members), ("_first", list(map(under_first_rule, members)))):
            answered = [run for run in those if run["lower"] is not None]
            logs = [np.log(run["promised"] / run["guarded"]) for run in answered]
            line[f"answers{rule}"] = len(answered)
            line[f"promised_over_true{rule}"] = np.exp(np.mean(logs)) if logs else None
            line[f"off_by_factor{rule}"] = np.exp(np.mean(np.abs(logs))) if logs else None
            line[f"covered{rule}"] = np.mean([covered(r) for r in answered]) if answered else None
        lines.append(line)
    return lines


def set_lines(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Worst and average ratio of every method to the best of the four, over sets of families.

    Once with the paper's methods on the guarded method's footing, once with its own split.
    """
    found = []
    for name, tags in SETS.items():
        members = [line for line in lines if line["tag"] in tags]
        for method in METHODS if members else ():
            told: dict[str, Any] = {"set": name, "method": method, "families": len(members)}
            for footing, four in (("", COMPARED), ("_split", COMPARED_SPLIT)):
                ratios = {
                    line["family"]: line[f"mse_{method}"] / min(line[f"mse_{m}"] for m in four)
                    for line in members
                }
                worst = max(ratios, key=lambda member: ratios[member])
                told[f"worst{footing}"] = ratios[worst]
                told[f"worst_family{footing}"] = worst
                told[f"geometric_mean{footing}"] = geometric_mean(ratios.values())
            found.append(told)
    return found


def coverage_lines(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The interval by verdict: how often it holds the true risk, how wide it is."""
    found = []
    for name, tags in SETS.items():
        members = [run for run in runs if family(run["family"]).tag in tags]
        for status in STATUSES if members else ():
            those = [run for run in members if run["status"] == status]
            judged = [run for run in those if run["lower"] is not None]
            over = [run["guarded"] / run["oracle"] for run in those]
            found.append(
                {
                    "set": name,
                    "status": status,
                    "runs": len(those),
                    "share": len(those) / len(members),
                    "coverage": np.mean([covered(run) for run in judged]) if judged else None,
                    "too_low": sum(run["guarded"] > run["upper"] for run in judged),
                    "too_high": sum(run["guarded"] < run["lower"] for run in judged),
                    "half_width_factor": geometric_mean(
                        np.sqrt(run["upper"] / run["lower"]) for run in judged
                    )
                    if judged
                    else None,
                    "over_oracle_median": np.median(over) if over else None,
                    "over_oracle_p90": np.quantile(over, 0.9) if over else None,
                }
            )
    return found


def case1_lines(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = []
    for place in dict.fromkeys(run["place"] for run in found):
        weights = np.array([run["weight"] for run in found if run["place"] == place])
        lines.append(
            {
                **dict(zip(("n_target", "n_1", "n_2"), map(int, place), strict=True)),
                "seeds": len(weights),
                "far_weight_mean": weights.mean(),
                "far_weight_max": weights.max(),
                "below_5_percent": (weights < 0.05).mean(),
            }
        )
    return lines


def case2_lines(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = []
    for place in dict.fromkeys(run["place"] for run in found):
        verdicts = [run["status"] for run in found if run["place"] == place]
        shares = {s.replace(" ", "_"): verdicts.count(s) / len(verdicts) for s in STATUSES}
        lines.append({"c": place[0], "seeds": len(verdicts), **shares})
    return lines


def paper_sizes() -> list[tuple[int, int, int]]:
    """(n_target, n_1, n_2) of the paper's Table 1."""
    text = Path(__file__).with_name("paper_values.toml").read_text(encoding="utf-8")
    rows = tomllib.loads(text)["table1"]["rows"]
    return [(row["n_target"], row["n_1"], row["n_2"]) for row in rows]


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else FULL
    seeds = range(settings.first_seed, settings.first_seed + settings.seeds)

    tasks = [(name, seed, settings) for name in settings.families for seed in seeds]
    runs = run_all(run_family, tasks, given.workers, "families")
    lines = [
        family_line(name, [run for run in runs if run["family"] == name])
        for name in settings.families
    ]
    sizes = [tuple(map(float, size)) for size in paper_sizes()[: settings.case1_rows]]
    places = [*sizes, *((c,) for c in settings.case2_places)]
    cases = run_all(
        run_case, [(p, seed, settings) for p in places for seed in seeds], given.workers, "cases"
    )

    write_table(given.out, "guard_families", lines)
    write_table(given.out, "guard_sets", set_lines(lines))
    write_table(given.out, "guard_coverage", coverage_lines(runs))
    first = [under_first_rule(run) for run in runs]
    write_table(given.out, "guard_coverage_first", coverage_lines(first))
    write_table(given.out, "guard_promises", promise_lines(runs))
    write_table(given.out, "guard_case1", case1_lines([c for c in cases if len(c["place"]) == 3]))
    write_table(given.out, "guard_case2", case2_lines([c for c in cases if len(c["place"]) == 1]))
    if given.runs:
        write_table(given.out, "guard_study_runs", runs)
    write_provenance(given.out, "guard_study", settings, quick=given.quick)
    for line in set_lines(lines):
        if line["method"] in ("guarded", "guarded-first"):
            print(
                f"{line['set']:14} {line['method']:14} "
                f"worst {line['worst']:.3f} ({line['worst_family']}), "
                f"geometric mean {line['geometric_mean']:.3f}"
            )


if __name__ == "__main__":
    main()

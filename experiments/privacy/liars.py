"""How far one lying source of five moves the promised and the realised risk.

Seven families of five sources and one target. In every draw one source lies in one way; the other
four are honest. Beside the study without the lie: the promised risk, the upper end of its interval,
the true risk on fresh rows of the target's population, whether the liar's model lost its weight,
and whether a finding or an error names the liar. Where sites differ, even a source that takes no
part moves the risk; every run that moves by more than a tenth is told with that beside it.

Seeds: 70 000 and 170 000 on for development, 92 000 on for the one confirmation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

import numpy as np
from lib.common import Array, options, risk, run_all, write_provenance, write_table
from lib.families_hard import Effect, levels
from lib.promise_runs import guess, logistic
from lib.worlds import Drawn, Family, Site, Truth, World, direction, normal

import fedcsa
from fedcsa.messages.messages import ModelReport, RiskReport
from fedcsa.run import InProcess

#: A finding of one of these codes at a source names it.
NAMED = (
    "useless-model", "stands-out", "rows-claimed", "report-moves-choice", "weight-bounded",
)  # fmt: skip
#: What the bound is asked of: the promised and the realised risk.
BOUND = 0.1


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    families: tuple[str, ...] = (
        "clear", "strong", "weak", "unequal", "sites differ", "table alone", "classes",
    )  # fmt: skip
    first_seed: int = 92_000
    seeds: int = 5
    n_truth: int = 20_000
    inverse_penalties: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0)  # C of the logistic regression


FULL = Settings()
QUICK = Settings(("clear",), first_seed=0, seeds=1, n_truth=2_000, inverse_penalties=(0.1, 1.0))
DEVELOPMENT = 70_000

# Families --------------------------------------------------------------------------------------


def _five(
    rows: Sequence[int] = (150, 180, 200, 220, 250),
    signal: float = 0.5,
    shift: float = 0.3,
    effect: Effect | None = None,
) -> Callable[[np.random.Generator], World]:
    """Five sources and a target; `signal` is the sd of the truth in sds of the noise."""

    def build(rng: np.random.Generator) -> World:
        def truth(X: Array) -> Array:
            return signal * X @ np.array([1.0, -0.7, 0.5, 0.3]) / 1.35

        def own() -> Truth | None:
            return effect(rng) if effect else None

        sources = [Site(n, normal(shift * direction(rng, 4), 1.0, 4), own()) for n in rows]
        return World(sources, Site(120, normal(0.0, 1.0, 4), own()), truth)

    return build


#: name -> family, kind of outcome, whether the target tells only its table
FAMILIES: Mapping[str, tuple[Family, str, bool]] = {
    "clear": (Family("liars-clear", "friendly", _five(signal=1.0)), "numbers", False),
    "strong": (Family("liars-strong", "friendly", _five(signal=3.0)), "numbers", False),
    "weak": (Family("liars-weak", "friendly", _five(signal=0.4)), "numbers", False),
    "unequal": (
        Family("liars-unequal", "shift", _five((80, 100, 150, 300, 600), 1.0, 0.6)), "numbers",
        False,
    ),
    "sites differ": (
        Family("liars-levels", "violates", _five(signal=1.0, effect=levels(0.3))), "numbers",
        False,
    ),
    "table alone": (Family("liars-table", "friendly", _five(signal=1.0)), "numbers", True),
    "classes": (Family("liars-classes", "friendly", _five(signal=1.0)), "classes", False),
}  # fmt: skip

# Lies ------------------------------------------------------------------------------------------

#: From an honest answer of the liar and a generator to the forged one; by phase.
Forge = Callable[[Any, np.random.Generator], Any]


def changed_model(
    report: ModelReport, change: Callable[[Array, float], tuple[Array, float]]
) -> Any:
    """A model report with other coefficients and another intercept."""
    [intercept] = report.arrays["intercept"]
    coefficients, intercept = change(np.array(report.arrays["coefficients"]), float(intercept))
    arrays = {"coefficients": coefficients, "intercept": np.array([intercept])}
    return replace(report, arrays=arrays)


def model_lie(change: Callable[..., tuple[Array, float]]) -> dict[str, Forge]:
    """A lie in the model alone."""
    return {"model": lambda report, rng: changed_model(report, partial(change, rng))}


def _flipped(_: Any, b: Array, c: float) -> tuple[Array, float]:
    return -b, c


def _tenfold(_: Any, b: Array, c: float) -> tuple[Array, float]:
    return 10.0 * b, 10.0 * c


def _shifted(by: float, _: Any, b: Array, c: float) -> tuple[Array, float]:
    return b, c + by


def _noise(rng: np.random.Generator, b: Array, c: float) -> tuple[Array, float]:
    return np.linalg.norm(b) * direction(rng, len(b)), c


def _halved(_: Any, b: Array, c: float) -> tuple[Array, float]:
    return 0.5 * b, c + 0.3


def claim(rows: int, report: RiskReport, _: np.random.Generator) -> RiskReport:
    """As if the source had so many rows, all of them like the target's."""
    return replace(
        report,
        n_rows=rows,
        n_judged=rows,
        effective_rows=float(rows),
        largest_share=1.0 / rows,
        difference_after=0.0 * report.difference_after,
    )


def without_table(report: Any, _: np.random.Generator) -> Any:
    """An examination without a score table: it would contradict the rows that are claimed."""
    none = np.empty((0, 0))
    told = {"score_sums": none, "measure_variance": none, "residuals": none}
    return replace(report, scores=np.empty((0, 7)), **told)


def many_rows(rows: int) -> dict[str, Forge]:
    """A lie in the number of rows, in the report and in the model."""
    return {
        "risk": partial(claim, rows),
        "model": lambda report, _: replace(report, n_rows=rows),
        "examine": without_table,
    }


def both(rows: int, change: Callable[..., tuple[Array, float]]) -> dict[str, Forge]:
    """Many rows, and another model."""
    lie, forged = many_rows(rows), model_lie(change)
    return {**lie, "model": lambda report, rng: lie["model"](forged["model"](report, rng), rng)}


def worst_candidate(report: RiskReport, _: np.random.Generator) -> RiskReport:
    """As if the last candidate, the strongest penalty, were the only good one."""
    told = 1e4 * report.risk if report.risk.max() > 1.0 else np.full(len(report.risk), 0.9)
    told[-1] = 1e-4
    return replace(report, risk=told, variance=1e-6 * report.variance)


def one_candidate(report: RiskReport, _: np.random.Generator) -> RiskReport:
    """As if all candidates but the last, the strongest penalty, had failed."""
    failed = {str(k): "ModelFailed" for k in range(len(report.risk) - 1)}
    gone = np.arange(len(report.risk)) < len(failed)
    told = {"risk": np.where(gone, 0.0, report.risk)}
    return replace(report, failed=failed, **told, variance=np.where(gone, 0.0, report.variance))


def outcome(factor: float, report: RiskReport, _: np.random.Generator) -> RiskReport:
    """A mean outcome far off."""
    if len(report.outcome_mean) > 1:
        return replace(report, outcome_mean=np.array([0.0, 1.0]))
    return replace(report, outcome_mean=report.outcome_mean + factor)


def examined(factor: float, report: Any, _: np.random.Generator, **more: Any) -> Any:
    """A risk that is `factor` times the one found, at most 1 where it is bounded."""
    bounded = report.risk < 0.3 and report.constant_risk < 0.3
    told = min(factor * report.risk, 0.99) if bounded else factor * report.risk
    return replace(report, risk=told, **more)


def sure(factor: float, report: Any, rng: np.random.Generator) -> Any:
    """The same, as if it were known exactly."""
    exact = {"risk_variance": 1e-9, "ratio_variance": 1e-9, "explained": 0.0}
    return examined(factor, report, rng, **exact)


def unexplained(report: Any, _: np.random.Generator) -> Any:
    """An enormous variance of the loss."""
    return replace(report, risk_variance=1e6, explained=1e6)


def against_all(report: Any, _: np.random.Generator) -> Any:
    """As if every other model were useless."""
    told = {"member_risk": 1e3 * np.ones(len(report.member_risk))}
    return replace(report, **told, member_variance=1e-9 * np.ones(len(report.member_risk)))


def in_turn(forge: Forge) -> Forge:
    """A forged report, with a hundred million rows besides."""
    return lambda report, rng: claim(100_000_000, forge(report, rng), rng)


#: name -> (what is lied in, forged answers by phase)
LIES: Mapping[str, tuple[str, dict[str, Forge]]] = {
    "rows: a hundred million": ("worth", many_rows(100_000_000)),
    "rows: ten times": ("worth", many_rows(2_000)),
    "model: sign flipped": ("model", model_lie(_flipped)),
    "model: ten times": ("model", model_lie(_tenfold)),
    "model: shifted by 1": ("model", model_lie(partial(_shifted, 1.0))),
    "model: shifted by 3": ("model", model_lie(partial(_shifted, 3.0))),
    "model: noise": ("model", model_lie(_noise)),
    "model: halved and shifted by 0.3": ("model", model_lie(_halved)),
    "rows and sign flipped": ("both", both(100_000_000, _flipped)),
    "rows and shifted by 1": ("both", both(100_000_000, partial(_shifted, 1.0))),
    "rows and shifted by 3": ("both", both(100_000_000, partial(_shifted, 3.0))),
    "rows and halved": ("both", both(100_000_000, _halved)),
    "mean outcome off by 10, and sign flipped": (
        "both", {"risk": partial(outcome, 10.0), **model_lie(_flipped)},
    ),
    "report: the worst candidate": ("report", {"risk": worst_candidate}),
    "rows and the worst candidate": (
        "both", many_rows(100_000_000) | {"risk": in_turn(worst_candidate)},
    ),
    "rows, and all candidates failed but the last": (
        "both", many_rows(100_000_000) | {"risk": in_turn(one_candidate)},
    ),
    "report: mean outcome off by 10": ("report", {"risk": partial(outcome, 10.0)}),
    "examination: risk times 150": ("examination", {"examine": partial(examined, 150.0)}),
    "examination: risk times 2": ("examination", {"examine": partial(examined, 2.0)}),
    "examination: risk halved": ("examination", {"examine": partial(examined, 0.5)}),
    "examination: risk over 150": ("examination", {"examine": partial(examined, 1 / 150)}),
    "examination: times 1.5, and sure": ("examination", {"examine": partial(sure, 1.5)}),
    "examination: times 150, and sure": ("examination", {"examine": partial(sure, 150.0)}),
    "examination: variance": ("examination", {"examine": unexplained}),
    "examination: against all models": ("examination", {"examine": against_all}),
}  # fmt: skip


@contextmanager
def lying(liar: str, forged: Mapping[str, Forge], seed: int) -> Iterator[None]:
    """Studies in one process in which the source `liar` forges its answers."""
    honest, rng = InProcess.ask, np.random.default_rng([seed, 7])
    ways = {**forged, **({"again": forged["examine"]} if "examine" in forged else {})}

    def ask(courier: InProcess, messages: Any, phase: str) -> Any:
        answers = honest(courier, messages, phase)
        if phase in ways and liar in answers:
            answers[liar] = ways[phase](answers[liar], rng)
        return answers

    InProcess.ask = ask  # type: ignore[method-assign]
    try:
        yield
    finally:
        InProcess.ask = honest  # type: ignore[method-assign]


# One draw ----------------------------------------------------------------------------------------


def study_of(drawn: Drawn, kind: str, by_table: bool, seed: int, settings: Settings) -> Any:
    """The default study; an error of the package instead of it."""
    learner = logistic(settings.inverse_penalties) if kind == "classes" else {}
    told = drawn.X_target
    fitted = fedcsa.FedCSA(random_state=seed, on_no_overlap="predict", **learner)
    if by_table:
        names = [f"x{k}" for k in range(told.shape[1])]
        told = fedcsa.Table1.of(told, names, [False] * len(names))
    try:
        return fitted.fit(drawn.sources, told)
    except fedcsa.FedCSAError as error:
        return error


def run_one(task: tuple[str, int], settings: Settings) -> list[dict[str, Any]]:
    """All lies in one draw of a family, beside the study without one."""
    name, seed = task
    family, kind, by_table = FAMILIES[name]
    drawn = family.draw(seed, classes=kind == "classes", n_truth=settings.n_truth)
    honest = study_of(drawn, kind, by_table, seed, settings)
    true = risk(guess(honest, drawn.X_truth), drawn.y_truth)
    liar = sorted(drawn.sources)[seed % len(drawn.sources)]
    told = [f for f in honest.findings_ if f.source and f.code in NAMED]
    base = {"family": name, "seed": seed}
    rows = [{**base, "lie": "none", "in": "nothing", "named": bool(told), "true": true}]
    rows[0] |= {"promised": honest.target_risk_, "upper": honest.interval_[1]}
    others = {name: rest for name, rest in drawn.sources.items() if name != liar}
    silent = study_of(replace(drawn, sources=others), kind, by_table, seed, settings)
    without = risk(guess(silent, drawn.X_truth), drawn.y_truth) / true
    rows[0] |= {"without": without}
    for lie, (part, forged) in LIES.items():
        with lying(liar, forged, seed):
            found = study_of(drawn, kind, by_table, seed, settings)
        row = {**base, "lie": lie, "in": part, "without": without}
        if isinstance(found, fedcsa.FedCSAError):
            rows.append({**row, "named": f"'{liar}'" in str(found), "refused": True})
            continue
        codes = {f.code for f in found.findings_ if f.source == liar}
        inside = honest.interval_[0] <= found.target_risk_ <= honest.interval_[1]
        rows.append(
            {
                **row,
                "named": bool(codes & set(NAMED)),
                "refused": False,
                "dropped": "useless-model" in codes,
                "promised": found.target_risk_ / honest.target_risk_,
                "upper": found.interval_[1] / honest.interval_[1],
                "true": risk(guess(found, drawn.X_truth), drawn.y_truth) / true,
                "verdict": found.verdict_,
                "inside": inside,
            }
        )
    return rows


# Tables --------------------------------------------------------------------------------------


def summary(rows: Sequence[Mapping[str, Any]], by: Sequence[str]) -> list[dict[str, Any]]:
    """Of every lie: how far promise and risk move, typically, at worst, and how often too far."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(str(row[name]) for name in by), []).append(row)
    found = []
    for key, group in groups.items():
        line: dict[str, Any] = dict(zip(by, key, strict=True))
        line |= {"runs": len(group), "refused": _share(group, "refused")}
        line |= {"named": _share(group, "named"), "dropped": _share(group, "dropped")}
        for what in ("promised", "true", "upper"):
            moved = np.array([row[what] for row in group if row.get(what) is not None])
            off = np.abs(np.log(moved))
            line[f"{what} median"] = float(np.exp(np.median(np.log(moved)))) if len(off) else None
            line[f"{what} farthest"] = float(moved[off.argmax()]) if len(off) else None
            line[f"{what} moved 10 %"] = float((off > np.log1p(BOUND)).mean()) if len(off) else None
        found.append(line)
    return found


def _moved(row: Mapping[str, Any]) -> bool:
    """Whether the promised or the realised risk moved by more than a tenth."""
    return max(abs(np.log(row[what])) for what in ("promised", "true")) > np.log1p(BOUND)


def _share(group: Sequence[Mapping[str, Any]], name: str) -> float:
    return float(np.mean([bool(row.get(name)) for row in group]))


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(
        __doc__,
        arguments,
        development={"action": "store_true", "help": "other seeds, to develop on"},
        seeds={"type": int, "help": "how many of every family"},
    )
    settings = QUICK if given.quick else FULL
    if given.development:
        settings = replace(settings, first_seed=DEVELOPMENT)
    settings = replace(settings, seeds=given.seeds or settings.seeds)
    seeds = range(settings.first_seed, settings.first_seed + settings.seeds)
    tasks = [(name, seed) for seed in seeds for name in settings.families]
    found = run_all(partial(run_one, settings=settings), tasks, given.workers, "liars")
    rows = [row for part in found for row in part]
    lies = [row for row in rows if row["lie"] != "none"]
    named = {"family": "all", "lie": "none", "runs": len(rows) - len(lies)}
    named["named"] = _share([row for row in rows if row["lie"] == "none"], "named")
    stem = "liars" + ("_development" if given.development else "")
    write_table(given.out, stem, [*summary(lies, ("in", "lie"))])
    write_table(given.out, f"{stem}_families", summary(lies, ("family", "in", "lie")))
    far = [row for row in lies if row["in"] != "examination" and not row["refused"] and _moved(row)]
    told = ("family", "seed", "lie", "promised", "true", "without", "named", "dropped")
    if far:
        write_table(given.out, f"{stem}_moved", [{name: row[name] for name in told} for row in far])
    write_provenance(given.out, __file__, settings, quick=given.quick, name=stem)
    told = [abs(np.log(row["without"])) > np.log1p(BOUND) for row in rows if row["lie"] == "none"]
    print(named, {"moved by taking no part": sum(told), "of": len(told)})


if __name__ == "__main__":
    main()

"""Lemma 1, bound (13) of the paper, term by term: Case 1 and the stroke trial.

The bound is about classifiers and the share of wrong answers, which lies between 0 and 1. So the
outcome is two-valued here: above 0 or not in Case 1, dead or dependent in the stroke trial. The
model is Algorithm 1's mixture of ridge regressions. Above the middle (0, or ½) it says "yes": it is
a half-space of the features. H is all half-spaces.

*Divergence.* A classifier tells rows of source j from rows of the target: logistic regression on
standardised columns, both sides with the same total weight. Five folds; every row is judged by a
model that has not seen it. With e = mean of the two sides' error rates, the estimate is 2 (1 − 2e),
at least 0. Half-spaces are among the differences of two half-spaces, and no fitted one is better
than the best, so it estimates the divergence of H Δ H *from below*. The value in the sample itself
(``half_divergence_fitted``), which the hat in (13) asks for, is larger. From above, it is at most
twice the total variation (``half_divergence_most``), which is known in Case 1.

*Optimal model.* t_j needs outcomes of the target: nobody has them in the setting. In Case 1 the
best rule is known (mean of the features above 0) and t_j is an integral. In the stroke trial it is
the error of a logistic regression on source j and the target, each side half of the weight, in the
sample. Both are half of the usual sum of the two errors.

*Last term.* That of (13) as printed, and with the VC dimension d of half-spaces (``last_term_vc``)
where bounds of this kind have it; the printed one is that of d = 1.

Apart from chance, and from t_j in the stroke trial, which is a stand-in, no term is larger than in
(13): where their sum says nothing, (13) says nothing. Whatever the weights, (13) is at least
``least_for_any_weights`` = min over j of ½ divergence + t_j.

Tables: ``bound_terms``, ``claims_bound``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

import numpy as np
from lib.claims import Claim, write_claims
from lib.common import Array, options, run_all, write_provenance, write_table
from lib.families import Drawn, case1
from lib.paper_arrays import FIRST_SEED, Mixture, Ridge, conclude, prepare
from lib.paper_cases import SOME_SIZES
from lib.real_data import data_folder, stroke_trial
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

METHODS = ("feddae", "fediwe")
TERMS = ("empirical_error", "half_divergence", "optimal_error", "last_term")
Sources = Mapping[str, tuple[Array, Array]]


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    first_seed: int = FIRST_SEED
    seeds: int = 20
    sizes: tuple[tuple[int, int, int], ...] = SOME_SIZES
    n_truth: int = 20_000
    delta: float = 0.05
    countries: int | None = None  # the smallest ones; by default all
    every: int = 4  # of the countries by size, this many apart, are targets
    n_penalties: int = 11
    folds: int = 5


FULL = Settings()
QUICK = Settings(first_seed=0, seeds=2, sizes=SOME_SIZES[-1:], n_truth=2_000, countries=3)


# The terms ----------------------------------------------------------------------------------


def last_term(n: float, delta: float, dimension: int = 1) -> float:
    """4 √((2 d log 2n + log 4/δ)/n); (13) as printed has d = 1."""
    return float(4.0 * np.sqrt((2.0 * dimension * np.log(2.0 * n) + np.log(4.0 / delta)) / n))


def rows_needed(rest: float, ceiling: float, delta: float) -> int | None:
    """The fewest rows with which (13) is below the ceiling; None if no number is enough.

    Parameters
    ----------
    rest : float
        Sum of the three other terms, which more rows do not change.
    ceiling : float
    delta : float
    """
    if rest >= ceiling:
        return None
    low, high = 1, 2
    while rest + last_term(high, delta) >= ceiling:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if rest + last_term(middle, delta) < ceiling else (middle, high)
    return high


def divergence(X_source: Array, X_target: Array, seed: int, folds: int = 5) -> tuple[float, float]:
    """Of half-spaces, between 0 and 2: on rows not seen, and in the sample itself.

    Parameters
    ----------
    X_source, X_target : array of shape (rows, features)
    seed : int
        Deals the rows to folds.
    folds : int
    """
    X = np.vstack([X_source, X_target])
    side = np.repeat([0, 1], [len(X_source), len(X_target)])
    model = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced"))
    guess = np.empty(len(X))
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=seed).split(X, side):
        guess[test] = model.fit(X[train], side[train]).predict(X[test])
    fitted = model.fit(X, side).predict(X)
    return _from_errors(guess != side, side), _from_errors(fitted != side, side)


def _from_errors(wrong: Array, side: Array) -> float:
    rate = 0.5 * (wrong[side == 0].mean() + wrong[side == 1].mean())
    return max(0.0, 2.0 * (1.0 - 2.0 * float(rate)))


def sign_error(mean: float, sd: float) -> float:
    """P(y and m differ in sign), m ~ N(mean, sd²), y = m + N(0, 1): the best rule's error."""
    m = mean + sd * np.linspace(-9.0, 9.0, 20_001)
    density = norm.pdf(m, mean, sd) * (m[1] - m[0])
    return float(density @ norm.cdf(-np.abs(m)))


def total_variation(drawn: Drawn) -> list[float]:
    """Of Case 1's two sources from its target: E_T[(1 − p_j/p_T)₊] over the truth rows."""
    log_target = norm.logpdf(drawn.X_truth).sum(axis=1)
    found = []
    for mean, variance in ((1.0, 3.0), (5.0, 0.5)):
        log_source = norm.logpdf(drawn.X_truth, mean, np.sqrt(variance)).sum(axis=1)
        found.append(float(np.maximum(0.0, 1.0 - np.exp(log_source - log_target)).mean()))
    return found


def best_together(one: tuple[Array, Array], other: tuple[Array, Array]) -> float:
    """In-sample error of one logistic regression for both, each half of the weight."""
    X, y = (np.concatenate(pair) for pair in zip(one, other, strict=True))
    weights = np.repeat([0.5 / len(one[1]), 0.5 / len(other[1])], [len(one[1]), len(other[1])])
    model = make_pipeline(StandardScaler(), LogisticRegression())
    model.fit(X, y, logisticregression__sample_weight=weights * len(y))
    return float(weights @ (model.predict(X) != y))


def terms(
    sources: Sources, mixture: Mixture, middle: float, divergences: Sequence[tuple[float, float]],
    optimal: Sequence[float], delta: float,
) -> dict[str, float]:  # fmt: skip
    """Every term of (13), and their sum.

    Parameters
    ----------
    sources : mapping of str to (X, y)
    mixture : Mixture
        The model, and α.
    middle : float
        Outcomes and predictions above it are "yes".
    divergences : sequence of (not seen, in the sample), one a source
    optimal : sequence of float
        t_j.
    delta : float
    """
    X, y = (np.concatenate(pair) for pair in zip(*sources.values(), strict=True))
    alpha = mixture.source_weights
    unseen, fitted = 0.5 * alpha @ np.array(divergences)
    found = {
        "empirical_error": wrong(mixture, X, y, middle),
        "half_divergence": float(unseen),
        "optimal_error": float(alpha @ np.array(optimal)),
        "last_term": last_term(len(y), delta),
    }
    return found | {
        "bound": sum(found.values()),
        "half_divergence_fitted": float(fitted),
        "least_for_any_weights": float((0.5 * np.array(divergences)[:, 0] + optimal).min()),
        "last_term_vc": last_term(len(y), delta, X.shape[1] + 1),
    }


def wrong(mixture: Mixture, X: Array, y: Array, middle: float) -> float:
    """Share of rows on the other side of the middle than predicted."""
    return float(((mixture.predict(X) > middle) != (y > middle)).mean())


# The examples -------------------------------------------------------------------------------


def run_case1(task: tuple[tuple[int, int, int], int, Settings]) -> list[dict[str, Any]]:
    """One draw of Case 1, both weightings; a line each."""
    sizes, seed, settings = task
    drawn = case1(*sizes).draw(seed, n_truth=settings.n_truth)
    path = Ridge(np.linspace(0.0, 1.0, settings.n_penalties))
    mixtures = conclude(prepare(drawn.sources, drawn.X_target, seed), path)
    found = [divergence(X, drawn.X_target, seed, settings.folds) for X, _ in drawn.sources.values()]
    at_target = sign_error(0.0, np.sqrt(0.1))
    optimal = [
        0.5 * (sign_error(mean, np.sqrt(variance / 10.0)) + at_target)
        for mean, variance in ((1.0, 3.0), (5.0, 0.5))
    ]
    most = np.array(total_variation(drawn))
    return [
        {
            "example": "Case 1",
            "target": " ".join(map(str, sizes)),
            "weights": method,
            **terms(drawn.sources, mixtures[method], 0.0, found, optimal, settings.delta),
            "half_divergence_most": float(mixtures[method].source_weights @ most),
            "true_error": wrong(mixtures[method], drawn.X_truth, drawn.y_truth, 0.0),
            "constant_error": 0.5,
        }
        for method in METHODS
    ]


def countries(folder: Path, settings: Settings) -> dict[str, tuple[Array, Array]]:
    """The stroke trial from the smallest country to the largest, columns over their agreed sd."""
    sites = stroke_trial(folder)
    by_size = sorted(sites.rows, key=lambda name: (len(sites.rows[name][1]), name))
    sd = np.array(sites.public_sd)
    return {
        name: (sites.rows[name][0] / sd, sites.rows[name][1])
        for name in by_size[: settings.countries]
    }


def run_country(task: tuple[str, Path, Settings]) -> list[dict[str, Any]]:
    """One country of the stroke trial as the target of all others; a line a weighting."""
    country, folder, settings = task
    rows = countries(folder, settings)
    X, y = rows.pop(country)
    path = Ridge(np.linspace(0.0, 1.0, settings.n_penalties))
    mixtures = conclude(prepare(rows, X, settings.first_seed), path)
    found = [divergence(own, X, settings.first_seed, settings.folds) for own, _ in rows.values()]
    # Only from here on are outcomes of the target looked at.
    optimal = [best_together(pair, (X, y)) for pair in rows.values()]
    return [
        {
            "example": "stroke trial",
            "target": country,
            "weights": method,
            **terms(rows, mixtures[method], 0.5, found, optimal, settings.delta),
            "half_divergence_most": 1.0,
            "true_error": wrong(mixtures[method], X, y, 0.5),
            "constant_error": float(min(y.mean(), 1.0 - y.mean())),
        }
        for method in METHODS
    ]


def line_of(
    runs: Sequence[Mapping[str, Any]], n: int, n_target: int, delta: float
) -> dict[str, Any]:
    """The mean of every number over the runs, and how many rows would do.

    Parameters
    ----------
    runs : sequence of mapping
        Of the same example, target and weights.
    n, n_target : int
        Rows of all sources, and of the target.
    delta : float
    """
    told = {key: value for key, value in runs[0].items() if isinstance(value, str)}
    mean = {key: float(np.mean([run[key] for run in runs])) for key in runs[0] if key not in told}
    rest = mean["bound"] - mean["last_term"]
    return {
        **told,
        "runs": len(runs),
        "n": n,
        "n_target": n_target,
        **mean,
        "held": sum(run["bound"] >= run["true_error"] for run in runs),
        "rows_for_one": rows_needed(rest, 1.0, delta),
        "rows_for_constant": rows_needed(rest, mean["constant_error"], delta),
    }


def case1_lines(settings: Settings, workers: int) -> list[dict[str, Any]]:
    """A line a size and weighting."""
    seeds = range(settings.first_seed, settings.first_seed + settings.seeds)
    tasks = [(sizes, seed, settings) for sizes in settings.sizes for seed in seeds]
    runs = run_all(run_case1, tasks, workers, "bound, Case 1")
    lines = []
    for index, (n_target, *own) in enumerate(settings.sizes):
        mine = runs[index * settings.seeds : (index + 1) * settings.seeds]
        for each in zip(*mine, strict=True):
            lines.append(line_of(each, sum(own), n_target, settings.delta))
    return lines


def stroke_lines(settings: Settings, workers: int, folder: Path) -> list[dict[str, Any]]:
    """A line a country and weighting."""
    sizes = {name: len(y) for name, (_, y) in countries(folder, settings).items()}
    tasks = [(name, folder, settings) for name in list(sizes)[:: settings.every]]
    runs = run_all(run_country, tasks, workers, "bound, stroke trial")
    total = sum(sizes.values())
    return [
        line_of([line], total - sizes[line["target"]], sizes[line["target"]], settings.delta)
        for both in runs
        for line in both
    ]


# The claim ----------------------------------------------------------------------------------


def claims(lines: Sequence[Mapping[str, Any]], delta: float) -> list[Claim]:
    """One claim an example, judged at its smallest sum."""
    found = []
    for example in dict.fromkeys(line["example"] for line in lines):
        own = [line for line in lines if line["example"] == example]
        best = min(own, key=lambda line: line["bound"])
        told = " + ".join(f"{best[key]:.2f}" for key in TERMS)
        sentence = (
            f"At best {told} = {best['bound']:.2f} (n = {best['n']:,}) "
            f"for a true error of {best['true_error']:.2f}; {_enough(best, delta)}."
        )
        held = all(line["held"] == line["runs"] for line in own)
        verdict = "does not hold" if not held else f"true, {_worth(best)}"
        claim = f"(13) bounds the target's error, {example}"
        found.append(Claim("Lemma 1", claim, verdict, sentence, "bound_terms"))
    return found


def _worth(line: Mapping[str, Any]) -> str:
    """What the sum says beyond what is known without any data."""
    if line["bound"] >= 1.0:
        return "vacuous (above 1)"
    return "no better than a constant" if line["bound"] >= line["constant_error"] else "informative"


def _enough(line: Mapping[str, Any], delta: float) -> str:
    """How many rows would make the sum say something."""
    if line["rows_for_one"] is None:
        alone = rows_needed(0.0, 1.0, delta)
        return f"below {alone} rows the last term alone exceeds 1, and no n brings the sum below 1"
    if line["rows_for_constant"] is None:
        return f"{line['rows_for_one']:,} rows bring it below 1, none below a constant's error"
    return f"{line['rows_for_constant']:,} rows bring it below a constant's error"


def main(arguments: Sequence[str] | None = None) -> None:
    data = {"type": Path, "default": data_folder(), "help": "folder of the data"}
    given = options(__doc__, arguments, data=data)
    settings = QUICK if given.quick else FULL
    lines = stroke_lines(settings, given.workers, given.data)
    lines = case1_lines(settings, given.workers) + lines
    write_table(given.out, "bound_terms", lines)
    write_claims(given.out, __file__, claims(lines, settings.delta))
    write_provenance(given.out, __file__, settings, quick=given.quick)


if __name__ == "__main__":
    main()

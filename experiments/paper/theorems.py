"""The paper's theorems as Monte Carlo: known ratios, estimated ones, learnt models, a chosen θ.

One feature. The target is N(0, 1); the sources are wider, so that every ratio is bounded, as the
paper assumes. Outcomes are y = x + e, e ~ N(0, 1), and the model is the fixed wrong line
h(x) = 0.3 + 0.5 x: its target risk and all limits are integrals over one variable.

*Known ratios*: bias, and n times the variance beside the limit that the theory gives. This is the
limit of which the theorems speak: rows to fit the ratio without end, n rows to validate.

*Estimated ratios*, from n rows of either side. ``practical``: the package's uLSIF (fifty centres, σ
and λ by leave-one-out, λ at least 10⁻³), for one feature, and for ten of which nine do not matter.
``consistent``: the estimate that the cited proof is about (Kanamori, Suzuki, Sugiyama 2012,
Theorem 2): every row a centre, one bandwidth, λ = n^−0.9. Validation rows ``grow`` with n, or are
``fixed`` as the theorems have it.

*Learnt models*: each source fits ridge lines for eleven θ on rows of their own, and θ is chosen, as
in Algorithm 1; ratios are known. What is promised is compared with the risk of the mixture used.
For a bent truth each source converges to a line of its own: there is then no one f_T(θ).

A limit is judged by its rate: the slope of log |bias| over log n. Intervals of variances and slopes
are bootstraps over runs, because estimated ratios give estimates with heavy tails.

Tables: ``theorems_runs``, ``theorems_rates``, ``theorems_choice``, ``theorems_models``,
``claims_theorems``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

import numpy as np
from lib.claims import write_claims
from lib.common import Array, options, run_all, write_provenance, write_table
from lib.page import Results
from lib.paired import Interval, mean_interval, rate, variance_interval
from lib.paper_arrays import FIRST_SEED
from lib.paper_claims_theorems import claims
from scipy.stats import kurtosis, norm

import fedcsa
from fedcsa.core.ulsif import gaussian, squared_distances

NAMES = {"near": 0, "far": 1}
KINDS = ("known", "practical", "practical-ten", "consistent")
VALIDATIONS = ("grows", "fixed")
TRUTHS = ("straight", "bent")
ESTIMATES = ("iw_near", "cv_near", "iw_far", "cv_far", "fediwe", "equal", "feddae")
CHOOSERS = ("fediwe", "feddae")


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    first_seed: int = FIRST_SEED
    means: tuple[float, float] = (0.3, 1.6)  # of the two sources
    sds: tuple[float, float] = (1.3, 1.4)
    shares: tuple[float, float] = (1.0, 2.0)  # rows of the two sources, times n
    line: tuple[float, float] = (0.3, 0.5)  # h(x) = line[0] + line[1] x
    extra_features: int = 9
    extra_sd: float = 1.15  # of these at the sources; 1 at the target
    known: tuple[int, ...] = (25, 50, 100, 200, 400, 800, 1_600)
    known_runs: int = 2_000
    estimated: tuple[int, ...] = (25, 50, 100, 200, 400)
    estimated_runs: int = 150
    fixed: int = 100  # validation rows, times a source's share, where they do not grow
    n_centres: int = 50  # of the practical estimate
    score_rows: int = 50  # rows that it leaves out in turn to choose σ and λ
    bandwidth: float = 1.0  # of the consistent estimate: the true ratios lie in its space
    exponent: float = 0.9  # its λ is n^−exponent; the proof asks for less than 1
    n_penalties: int = 11
    choice: tuple[int, ...] = (25, 50, 100, 200, 400, 800)
    choice_runs: int = 1_000
    block: int = 50


FULL = Settings()
QUICK = Settings(
    first_seed=0,
    known=(25, 100),
    known_runs=100,
    estimated=(25, 50),
    estimated_runs=10,
    choice=(25, 50),
    choice_runs=50,
    block=10,
)


def true_ratio(x: Array, source: int, settings: Settings) -> Array:
    """p_T(x) / p_j(x) of the feature that matters."""
    ratio: Array = norm.pdf(x) / norm.pdf(x, settings.means[source], settings.sds[source])
    return ratio


# Limits -------------------------------------------------------------------------------------


def limits(settings: Settings, extra: int = 0) -> dict[str, float]:
    """Target risk, and n times the variance of every estimate, by quadrature."""
    wider = settings.extra_sd**2
    inflation = (wider / np.sqrt(2.0 * wider - 1.0)) ** extra  # E[r²] of the other features
    x = np.linspace(-12.0, 14.0, 40_001)
    step = x[1] - x[0]
    a = settings.line[0] + (settings.line[1] - 1.0) * x  # h(x) − E[y|x]
    loss, loss2 = a**2 + 1.0, a**4 + 6.0 * a**2 + 3.0  # E[L|x], E[L²|x], L = (a − e)²
    found = {"risk": float((norm.pdf(x) * loss).sum() * step)}
    f = found["risk"]
    div = {}
    for name, j in NAMES.items():
        r, p = true_ratio(x, j, settings), norm.pdf(x)  # E_j[r g] = E_T[g]
        p = p * step * inflation
        iw = float(p @ (r * loss2)) - f**2
        var_r = float(p @ r) - 1.0
        cov = float(p @ (r * loss)) - f
        found[f"iw_{name}"], div[name] = iw, iw - cov**2 / var_r
        found[f"cv_{name}"] = div[name]
    n = dict(zip(NAMES, settings.shares, strict=True))
    total = sum(n.values())
    found["fediwe"] = sum(n[j] * found[f"iw_{j}"] for j in NAMES) / total**2
    found["equal"] = sum(0.25 * div[j] / n[j] for j in NAMES)
    found["feddae"] = 1.0 / sum(n[j] / div[j] for j in NAMES)
    for name in NAMES:  # n counts the near source's rows; the far one has more
        found[f"iw_{name}"] /= n[name]
        found[f"cv_{name}"] /= n[name]
    return found


# One draw -----------------------------------------------------------------------------------


def run_block(task: tuple[str, int, int, Settings]) -> Array:
    """Estimates of a block of runs, shape (runs, validations, estimates)."""
    kind, n, block, settings = task
    rng = np.random.default_rng([settings.first_seed, n, block, KINDS.index(kind)])
    return np.array([one_run(kind, n, rng, settings) for _ in range(settings.block)])


def one_run(kind: str, n: int, rng: np.random.Generator, settings: Settings) -> list[list[float]]:
    """All estimates from one draw of both sources (and of the target, to estimate ratios).

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    n : int
    rng : Generator
    settings : Settings

    Returns
    -------
    list of list of float
        With n validation rows a share; unless ratios are known, with the fixed number, too.
    """
    sizes = [n] if kind == "known" else [n, settings.fixed]
    extra = settings.extra_features if kind == "practical-ten" else 0
    target = rng.normal(size=(n, 1 + extra))
    terms: list[list[fedcsa.RiskTerms]] = [[] for _ in sizes]
    for j, share in enumerate(settings.shares):
        ratio = _ratio(kind, j, round(n * share), target, rng, settings)
        for place, size in enumerate(sizes):
            rows = round(size * share)
            x = _features(rows, j, extra, rng, settings)
            y = x[:, 0] + rng.normal(size=rows)
            losses = (settings.line[0] + settings.line[1] * x[:, 0] - y) ** 2
            moments = fedcsa.RiskMoments.of(ratio(x), losses[:, None])
            terms[place].append(fedcsa.risk_terms(moments))
    return [_estimates(both) for both in terms]


def _ratio(
    kind: str, j: int, rows: int, target: Array, rng: np.random.Generator, settings: Settings
) -> Callable[[Array], Array]:
    """X -> r̂_j(x), fitted on fresh rows of source j unless it is known."""
    if kind == "known":
        return lambda x: true_ratio(x[:, 0], j, settings)
    density = _features(rows, j, target.shape[1] - 1, rng, settings)
    if kind == "consistent":
        ridge = min(len(density), len(target)) ** -settings.exponent
        return consistent_ratio(density, target, ridge, settings.bandwidth)
    practical = fedcsa.ULSIF(
        n_centres=settings.n_centres, score_rows=settings.score_rows, random_state=rng
    )
    return practical.fit(density, target).predict


def consistent_ratio(
    X_source: Array, X_target: Array, ridge: float, bandwidth: float
) -> Callable[[Array], Array]:
    """The minimiser w of ½ mean_S w² − mean_T w + ½ λ ‖w‖² over the kernel's whole space.

    w = Σ_i a_i k(·, x_i^S) + mean_T k(·, x^T)/λ, with (K_SS/n_S + λI) a = −K_ST 1/(n_S n_T λ).

    Parameters
    ----------
    X_source, X_target : array of shape (rows, features)
    ridge : float
        λ.
    bandwidth : float
    """

    def kernel(left: Array, right: Array) -> Array:
        return gaussian(squared_distances(left, right), bandwidth)

    n = len(X_source)
    left = kernel(X_source, X_source) / n
    left[np.diag_indices(n)] += ridge
    a = np.linalg.solve(left, -kernel(X_source, X_target).mean(axis=1) / (n * ridge))

    def ratio(X: Array) -> Array:
        found = kernel(X, X_source) @ a + kernel(X, X_target).mean(axis=1) / ridge
        return np.maximum(found, 0.0)

    return ratio


def _features(
    rows: int, source: int, extra: int, rng: np.random.Generator, settings: Settings
) -> Array:
    first = rng.normal(settings.means[source], settings.sds[source], (rows, 1))
    return np.hstack([first, rng.normal(0.0, settings.extra_sd, (rows, extra))])


def _estimates(terms: Sequence[fedcsa.RiskTerms]) -> list[float]:
    """In the order of `ESTIMATES`."""
    single = [value for s in terms for value in (s.importance_weighted[0], s.control_variate[0])]
    both = [
        fedcsa.estimate("fediwe", terms).risk[0],
        fedcsa.estimate("fedle", terms, [1.0, 1.0]).risk[0],
        fedcsa.estimate("feddae", terms).risk[0],
    ]
    return [float(value) for value in (*single, *both)]


# Learnt models, and the choice of θ ---------------------------------------------------------


def choice_block(task: tuple[str, int, int, Settings]) -> Array:
    """Runs of one truth, shape (runs, choosers, what): promised, true, at a fixed θ, regret."""
    truth, n, block, settings = task
    rng = np.random.default_rng([settings.first_seed, n, block, 10 + TRUTHS.index(truth)])
    return np.array([choice_run(truth, n, rng, settings) for _ in range(settings.block)])


def choice_run(
    truth: str, n: int, rng: np.random.Generator, settings: Settings
) -> list[list[float]]:
    """Both sources fit a line for every θ; every method chooses one and mixes the lines.

    Parameters
    ----------
    truth : {"straight", "bent"}
    n : int
    rng : Generator
    settings : Settings

    Returns
    -------
    list of list of float
        A method each: promised and true risk at the chosen θ, promised less true at θ = 0, and the
        true risk at the chosen θ less the smallest of all θ.
    """
    penalties = np.linspace(0.0, 1.0, settings.n_penalties)
    terms, lines = [], []
    for j, share in enumerate(settings.shares):
        rows = round(n * share)
        x = rng.normal(settings.means[j], settings.sds[j], 2 * rows)
        y = outcome(x, truth) + rng.normal(size=2 * rows)
        level, slope = ridge_lines(x[:rows], y[:rows], penalties)
        losses = (level + slope * x[rows:, None] - y[rows:, None]) ** 2
        moments = fedcsa.RiskMoments.of(true_ratio(x[rows:], j, settings), losses)
        terms.append(fedcsa.risk_terms(moments))
        lines.append((level, slope))
    found = []
    for method in CHOOSERS:
        told = fedcsa.estimate(method, terms)
        level, slope = np.einsum("tj,jkt->kt", told.weights, np.array(lines))
        true = line_risk(level, slope, truth)
        best = told.chosen
        found.append([told.risk[best], true[best], told.risk[0] - true[0], true[best] - true.min()])
    return found


def outcome(x: Array, truth: str) -> Array:
    """E[y|x]."""
    return x + 0.5 * x**2 if truth == "bent" else x


def ridge_lines(x: Array, y: Array, penalties: Array) -> tuple[Array, Array]:
    """Level and slope minimising mean squared error + θ slope², for every θ."""
    centred = x - x.mean()
    slope = centred @ y / len(x) / (centred @ centred / len(x) + penalties)
    return y.mean() - slope * x.mean(), slope


def line_risk(level: Array, slope: Array, truth: str) -> Array:
    """E (level + slope x − y)² at the target, x ~ N(0, 1), from the moments of a normal."""
    risk: Array = level**2 + (slope - 1.0) ** 2 + 1.0
    return risk - level + 0.75 if truth == "bent" else risk


def own_models(settings: Settings) -> list[dict[str, Any]]:
    """Bent truth: the target risk of each source's best line, and of the mixture, in the limit."""
    x = np.linspace(-14.0, 16.0, 40_001)
    step = x[1] - x[0]
    truth = outcome(x, "bent")
    best = {}
    for name, j in NAMES.items():
        p = norm.pdf(x, settings.means[j], settings.sds[j]) * step
        mean = float(p @ x)
        slope = float(p @ ((x - mean) * truth) / (p @ (x - mean) ** 2))
        best[name] = float(p @ truth) + slope * (x - mean)
    n = np.array(settings.shares) / sum(settings.shares)
    target = norm.pdf(x) * step
    risks = {name: float(target @ (h - truth) ** 2) + 1.0 for name, h in best.items()}
    mixture = n @ np.stack(list(best.values()))
    risks["what FedIWE converges to"] = float(n @ np.array([risks[name] for name in NAMES]))
    risks["the mixture that is used"] = float(target @ (mixture - truth) ** 2) + 1.0
    return [{"model": name, "target_risk": value} for name, value in risks.items()]


# Tables -------------------------------------------------------------------------------------

#: n -> runs of every estimate, shape (runs, estimates).
Sample = Mapping[int, Array]


def run_lines(
    labels: Mapping[str, str], sample: Sample, scale: Mapping[int, int], limit: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Bias, and variance times the validation rows, of every estimate at every n.

    Parameters
    ----------
    labels : mapping
        First columns of every line.
    sample : Sample
    scale : mapping
        n -> validation rows of the near source.
    limit : mapping
        As `limits` gives it.
    """
    lines = []
    for n, runs in sample.items():
        for index, name in enumerate(ESTIMATES):
            values = runs[:, index]
            errors = values - limit["risk"]
            lines.append(
                {
                    **labels,
                    "n": n,
                    "estimate": name,
                    "runs": len(runs),
                    **mean_interval(errors).columns("bias"),
                    **variance_interval(values, scale[n]).columns("n_variance"),
                    "limit": limit[name],
                    "bias_over_sd": errors.mean() / values.std(ddof=1),
                    "excess_kurtosis": float(kurtosis(values)),
                }
            )
    return lines


def rate_line(labels: Mapping[str, str], errors: Mapping[int, Array]) -> dict[str, Any]:
    """How fast a bias vanishes: its slope on logarithmic scales, and what is left of it.

    Parameters
    ----------
    labels : mapping
        First columns of the line.
    errors : mapping
        n -> estimate less truth of every run.
    """
    first, last = min(errors), max(errors)
    found: dict[str, Any] = {**labels, "n_first": first, "n_last": last, "sizes": len(errors)}
    found["clear"] = sum(mean_interval(each).side() != "unclear" for each in errors.values())
    found |= (rate(errors) or Interval(np.nan, np.nan, np.nan)).columns("slope")
    for word, n in (("first", first), ("last", last)):
        found |= mean_interval(errors[n]).columns(f"bias_{word}")
        found[f"over_sd_{word}"] = errors[n].mean() / errors[n].std(ddof=1)
    return found


def estimate_tables(settings: Settings, workers: int) -> tuple[list[dict[str, Any]], ...]:
    """Runs and rates of every kind of ratio."""
    lines: list[dict[str, Any]] = []
    rates: list[dict[str, Any]] = []
    for kind in KINDS:
        known = kind == "known"
        limit = limits(settings, settings.extra_features if kind == "practical-ten" else 0)
        ns = settings.known if known else settings.estimated
        runs = settings.known_runs if known else settings.estimated_runs
        samples = _collect(run_block, kind, ns, runs, settings, workers)
        for place, validation in enumerate(VALIDATIONS[: 1 if known else 2]):
            labels = {"ratios": kind, "validation": validation}
            sample = {n: each[:, place] for n, each in samples.items()}
            scale = {n: n if validation == "grows" else settings.fixed for n in ns}
            lines += run_lines(labels, sample, scale, limit)
            for index, name in enumerate(ESTIMATES):
                errors = {n: each[:, index] - limit["risk"] for n, each in sample.items()}
                rates.append(rate_line({**labels, "estimate": name}, errors))
    return lines, rates


def choice_table(settings: Settings, workers: int) -> list[dict[str, Any]]:
    """Promised less true risk, with learnt models: θ chosen, and θ = 0; and what choosing costs."""
    found = []
    for truth in TRUTHS:
        sample = _collect(
            choice_block, truth, settings.choice, settings.choice_runs, settings, workers
        )
        for place, method in enumerate(CHOOSERS):
            own = {n: runs[:, place] for n, runs in sample.items()}
            parts = {
                "promised less true, θ chosen": {n: x[:, 0] - x[:, 1] for n, x in own.items()},
                "promised less true, θ = 0": {n: x[:, 2] for n, x in own.items()},
                "true risk above that of the best θ": {n: x[:, 3] for n, x in own.items()},
            }
            for what, errors in parts.items():
                labels = {"truth": truth, "estimate": method, "what": what}
                found.append(rate_line(labels, errors))
    return found


def _collect(
    function: Any, kind: str, ns: Sequence[int], runs: int, settings: Settings, workers: int
) -> dict[int, Array]:
    """All runs of a kind, n by n."""
    blocks = runs // settings.block
    tasks = [(kind, n, block, settings) for n in ns for block in range(blocks)]
    found = run_all(function, tasks, workers, f"theorems, {kind}")
    return {
        n: np.concatenate(found[index * blocks : (index + 1) * blocks])
        for index, n in enumerate(ns)
    }


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else FULL
    lines, rates = estimate_tables(settings, given.workers)
    choice = choice_table(settings, given.workers)
    write_table(given.out, "theorems_runs", lines)
    write_table(given.out, "theorems_rates", rates)
    write_table(given.out, "theorems_choice", choice)
    write_table(given.out, "theorems_models", own_models(settings))
    write_claims(given.out, __file__, claims(Results(given.out)))
    write_provenance(given.out, __file__, settings, quick=given.quick)


if __name__ == "__main__":
    main()

"""The paper's theorems as Monte Carlo: known ratios first, then estimated ones.

One feature. The target is N(0, 1); the sources are wider, so that every ratio is bounded, as the
paper assumes. Outcomes are y = x + e, e ~ N(0, 1), and the model is the fixed wrong line
h(x) = 0.3 + 0.5 x: its target risk and all limits are integrals over one variable.

*Known ratios* (Theorem 1, Corollary 1, the theorem on FedDAE, Corollary 3): bias, and n times the
variance beside the limit that the theory gives, for growing n.
*Estimated ratios*: the same with uLSIF on n rows of either side, for one feature, and for ten of
which nine do not matter to the outcome and are only a little wider at the sources.
*Own models*: each source has its own best line for a bent truth. The theorems speak of one risk
f_T(θ); there are then as many as sources, and none is the risk of the mixture that is used.

Tables: ``theorems_runs``, ``theorems_models``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

import numpy as np
from lib.common import Array, options, run_all, write_provenance, write_table
from lib.paired import mean_interval
from lib.paper_arrays import FIRST_SEED
from scipy.stats import chi2, norm

import fedcsa

NAMES = {"near": 0, "far": 1}
KINDS = ("known", "estimated", "estimated-ten")
ESTIMATES = ("iw_near", "cv_near", "iw_far", "cv_far", "fediwe", "equal", "feddae")


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
    n_centres: int = 50
    block: int = 50


FULL = Settings()
QUICK = Settings(
    first_seed=0, known=(25, 100), known_runs=100, estimated=(25, 50), estimated_runs=10, block=10
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


# Monte Carlo --------------------------------------------------------------------------------


def run_block(task: tuple[str, int, int, Settings]) -> Array:
    """Estimates of a block of runs, shape (runs, estimates)."""
    kind, n, block, settings = task
    rng = np.random.default_rng([settings.first_seed, n, block, KINDS.index(kind)])
    return np.array([one_run(kind, n, rng, settings) for _ in range(settings.block)])


def one_run(kind: str, n: int, rng: np.random.Generator, settings: Settings) -> list[float]:
    """All estimates from one draw of both sources (and of the target, to estimate ratios)."""
    terms = []
    extra = settings.extra_features if kind == "estimated-ten" else 0
    target = rng.normal(size=(n, 1 + extra))
    for j, share in enumerate(settings.shares):
        rows = round(n * share)
        x = _features(rows, j, extra, rng, settings)
        y = x[:, 0] + rng.normal(size=rows)
        losses = (settings.line[0] + settings.line[1] * x[:, 0] - y) ** 2
        if kind == "known":
            ratios = true_ratio(x[:, 0], j, settings)
        else:
            density = _features(rows, j, extra, rng, settings)
            ulsif = fedcsa.ULSIF(n_centres=settings.n_centres, random_state=rng)
            ratios = ulsif.fit(density, target).predict(x)
        terms.append(fedcsa.risk_terms(fedcsa.RiskMoments.of(ratios, losses[:, None])))
    near, far = terms
    single = [t for s in (near, far) for t in (s.importance_weighted[0], s.control_variate[0])]
    both = [
        fedcsa.estimate("fediwe", terms).risk[0],
        fedcsa.estimate("fedle", terms, [1.0, 1.0]).risk[0],
        fedcsa.estimate("feddae", terms).risk[0],
    ]
    return [float(value) for value in (*single, *both)]


def _features(
    rows: int, source: int, extra: int, rng: np.random.Generator, settings: Settings
) -> Array:
    first = rng.normal(settings.means[source], settings.sds[source], (rows, 1))
    return np.hstack([first, rng.normal(0.0, settings.extra_sd, (rows, extra))])


def lines_of(kind: str, n: int, runs: Array, limit: Mapping[str, float]) -> list[dict[str, Any]]:
    """Bias and n times variance of every estimate, with 95 % intervals."""
    lines = []
    degrees = len(runs) - 1
    for index, name in enumerate(ESTIMATES):
        values = runs[:, index]
        scaled = n * float(values.var(ddof=1))
        low, high = degrees / chi2.ppf([0.975, 0.025], degrees)  # exact for normal estimates
        lines.append(
            {
                "ratios": kind,
                "n": n,
                "estimate": name,
                "runs": len(runs),
                **mean_interval(values - limit["risk"]).columns("bias"),
                "n_variance": scaled,
                "n_variance_lower": scaled * low,
                "n_variance_upper": scaled * high,
                "limit": limit[name],
                "bias_over_sd": (values.mean() - limit["risk"]) / values.std(ddof=1),
            }
        )
    return lines


def own_models(settings: Settings) -> list[dict[str, Any]]:
    """Bent truth y = x + x²/2: the target risk of each source's best line, and of the mixture."""
    x = np.linspace(-14.0, 16.0, 40_001)
    step = x[1] - x[0]
    truth = x + 0.5 * x**2
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


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else FULL
    lines: list[dict[str, Any]] = []
    for kind in KINDS:
        limit = limits(settings, settings.extra_features if kind == "estimated-ten" else 0)
        ns = settings.known if kind == "known" else settings.estimated
        runs = settings.known_runs if kind == "known" else settings.estimated_runs
        blocks = runs // settings.block
        tasks = [(kind, n, block, settings) for n in ns for block in range(blocks)]
        found = run_all(run_block, tasks, given.workers, f"theorems, {kind} ratios")
        for index, n in enumerate(ns):
            own = np.concatenate(found[index * blocks : (index + 1) * blocks])
            lines += lines_of(kind, n, own, limit)
    write_table(given.out, "theorems_runs", lines)
    write_table(given.out, "theorems_models", own_models(settings))
    write_provenance(given.out, __file__, settings, quick=given.quick)


if __name__ == "__main__":
    main()

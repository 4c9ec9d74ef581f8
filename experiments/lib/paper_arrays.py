"""The paper's three methods on arrays, for experiments that run them tens of thousands of times.

The formulas are the package's own (`fedcsa.ULSIF`, `fedcsa.RiskMoments`, `fedcsa.risk_terms`,
`fedcsa.estimate`); only messages, policies and ledgers are left out. A test shows that the answers
are those of `fedcsa.FedCSA`. Nothing here is ever given an outcome of the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from lib.common import PAPER_METHODS, Array
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

import fedcsa

Rows = NDArray[np.intp]
Folds = tuple[Rows, Rows, Rows]
THIRDS = (1 / 3, 1 / 3, 1 / 3)
#: Reported runs start here; development used seeds below 10 000.
FIRST_SEED = 20_000
#: σ of uLSIF. "grid": multiples of the median distance, the package's; "median": that distance
#: alone; "densratio": nine values from 10⁻³ to 10 whatever the data, that package's default.
BANDWIDTHS = ("grid", "median", "densratio")
#: What the ratio is of. The second is what a call with swapped arguments gives.
ORDERS = ("target/source", "source/target")


@dataclass(frozen=True)
class RatioReading:
    """How the density ratio is read: every open choice of the paper that touches it."""

    shares: tuple[float, float, float] = THIRDS
    bandwidth: str = "grid"
    order: str = "target/source"
    n_centres: int = 100


class ModelPath(Protocol):
    """Models of all candidates at one source."""

    def fit(self, X: Array, y: Array, ratios: Array) -> tuple[Array, Array]:
        """Coefficients (features, candidates) and intercepts (candidates,); NaN where it failed."""
        ...


@dataclass(frozen=True)
class Ridge:
    """Mean (or summed) squared error + θ‖b‖² for every θ."""

    penalties: Array = field(repr=False)
    intercept: bool = True
    penalty_scale: str = "mean"

    def fit(self, X: Array, y: Array, ratios: Array) -> tuple[Array, Array]:  # noqa: ARG002
        """All penalties from one decomposition."""
        return least_squares(X, y, np.ones(len(y)), self.scaled(len(y)), self.intercept)

    def scaled(self, n_rows: int) -> Array:
        """Penalties beside a mean."""
        return self.penalties / n_rows if self.penalty_scale == "sum" else self.penalties


@dataclass(frozen=True)
class WeightedLeastSquares:
    """Least squares with weights r^γ for every flattening parameter γ."""

    powers: Array = field(repr=False)

    def fit(self, X: Array, y: Array, ratios: Array) -> tuple[Array, Array]:
        """One decomposition a power; a power under which no row has weight fails."""
        B, b0 = np.full((X.shape[1], len(self.powers)), np.nan), np.full(len(self.powers), np.nan)
        for index, power in enumerate(self.powers):
            weights = ratios**power
            if weights.any():
                slope, level = least_squares(X, y, weights, np.zeros(1), True)
                B[:, index], b0[index] = slope[:, 0], level[0]
        return B, b0


def least_squares(
    X: Array, y: Array, weights: Array, penalties: Array, intercept: bool
) -> tuple[Array, Array]:
    """Minimise Σ w̃ (y − b₀ − xb)² + θ‖b‖², w̃ = w/Σw, for every θ; smallest norm where free."""
    share = weights / weights.sum()
    x_mean, y_mean = (share @ X, float(share @ y)) if intercept else (np.zeros(X.shape[1]), 0.0)
    root = np.sqrt(share)
    U, s, Vt = np.linalg.svd(root[:, None] * (X - x_mean), full_matrices=False)
    null = s <= s.max(initial=0.0) * max(X.shape) * np.finfo(np.float64).eps
    with np.errstate(divide="ignore", invalid="ignore"):
        shrunk = s[:, None] / (s[:, None] ** 2 + penalties)
    shrunk[null] = 0.0
    B = Vt.T @ (shrunk * (U.T @ (root * (y - y_mean)))[:, None])
    return B, y_mean - x_mean @ B


def own_ridge(
    X: Array, y: Array, penalties: Array, *, intercept: bool = True
) -> tuple[Array, float]:
    """Reference: a ridge regression on these rows, its penalty by leave-one-out in closed form."""
    n = len(y)
    x_mean, y_mean = (X.mean(axis=0), float(y.mean())) if intercept else (0.0, 0.0)
    U, s, _ = np.linalg.svd((X - x_mean) / np.sqrt(n), full_matrices=False)
    kept = s > s.max(initial=0.0) * max(X.shape) * np.finfo(np.float64).eps
    U, s = U[:, kept], s[kept]
    shrink = s[:, None] ** 2 / (s[:, None] ** 2 + penalties)  # (rank, candidates)
    leverage = (1.0 / n if intercept else 0.0) + (U**2) @ shrink
    fitted = y_mean + U @ (shrink * (U.T @ (y - y_mean))[:, None])
    residual = (y[:, None] - fitted) / np.maximum(1.0 - leverage, 1e-9)
    best = int((residual**2).mean(axis=0).argmin())
    B, b0 = least_squares(X, y, np.ones(n), penalties[[best]], intercept)
    return B[:, 0], float(b0[0])


def held_out_ridge(X: Array, y: Array, ridge: Ridge) -> tuple[Array, float]:
    """Reference, weaker: fitted on seven rows in ten, its penalty chosen on the others."""
    n = round(0.7 * len(y))
    B, b0 = ridge.fit(X[:n], y[:n], np.ones(n))
    best = int(((X[n:] @ B + b0 - y[n:, None]) ** 2).mean(axis=0).argmin())
    return B[:, best], float(b0[best])


# Folds and ratios ---------------------------------------------------------------------------


def split(n_rows: int, shares: Sequence[float], rng: np.random.Generator) -> Folds:
    """Density, train and validation rows."""
    cuts = np.round(np.cumsum(shares)[:2] * n_rows).astype(int)
    density, train, validation = np.split(rng.permutation(n_rows), cuts)
    return density, train, validation


def density_ratio(
    reading: RatioReading, density: Array, X_target: Array, rng: np.random.Generator
) -> fedcsa.ULSIF:
    """p_T/p_S (or p_S/p_T) from the density fold and the target's rows."""
    below, above = (density, X_target) if reading.order == ORDERS[0] else (X_target, density)
    grid: Array | None = None
    if reading.bandwidth == "densratio":
        grid = np.logspace(-3.0, 1.0, 9)
    elif reading.bandwidth == "median":
        grid = np.array([np.median(cdist(above, np.vstack([below, above])))])
    ulsif = fedcsa.ULSIF(grid, None, reading.n_centres, random_state=rng)
    return ulsif.fit(below, above)


# The methods --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mixture:
    """What a method concludes: a linear model, the weight of every source, the promised risk."""

    coefficients: Array = field(repr=False)
    intercept: float
    source_weights: Array
    risk: float
    chosen: int

    def predict(self, X: Array) -> Array:
        """The weighted model of all sources."""
        return X @ self.coefficients + self.intercept


@dataclass(frozen=True)
class Prepared:
    """A source's folds and its ratios on them: what no model reading touches."""

    train: tuple[Array, Array]
    validation: tuple[Array, Array]
    ratios_train: Array
    ratios_validation: Array


def prepare(
    sources: Mapping[str, tuple[Array, Array]],
    X_target: Array,
    seed: int,
    reading: RatioReading = RatioReading(),  # noqa: B008 - frozen
    folds: Mapping[str, Folds] | None = None,
) -> list[Prepared]:
    """Split every source and fit its ratio."""
    found = []
    for index, (name, (X, y)) in enumerate(sources.items()):
        rng = np.random.default_rng([seed, index])
        density, train, validation = folds[name] if folds else split(len(y), reading.shares, rng)
        ratio = density_ratio(reading, X[density], X_target, rng)
        found.append(
            Prepared(
                (X[train], y[train]),
                (X[validation], y[validation]),
                ratio.predict(X[train]),
                ratio.predict(X[validation]),
            )
        )
    return found


def conclude(
    prepared: Sequence[Prepared], path: ModelPath, methods: Sequence[str] = PAPER_METHODS
) -> dict[str, Mixture]:
    """Naive, FedIW and FedDA, squared loss."""
    fits = [path.fit(*each.train, each.ratios_train) for each in prepared]
    losses = [
        squared_losses(*each.validation, fit) for each, fit in zip(prepared, fits, strict=True)
    ]
    return combine(fits, losses, [each.ratios_validation for each in prepared], methods)


def squared_losses(X: Array, y: Array, fit: tuple[Array, Array]) -> Array:
    """Of every row and candidate."""
    losses: Array = (X @ fit[0] + fit[1] - y[:, None]) ** 2
    return losses


def combine(
    fits: Sequence[tuple[Array, Array]],
    losses: Sequence[Array],
    ratios: Sequence[Array],
    methods: Sequence[str] = PAPER_METHODS,
) -> dict[str, Mixture]:
    """Choose a candidate and weigh the sources, by the package's own formulas.

    Parameters
    ----------
    fits : sequence of (coefficients, intercepts)
        One a source, shapes (features, candidates) and (candidates,).
    losses : sequence of array of shape (rows, candidates)
        On validation rows; NaN where a candidate failed.
    ratios : sequence of array of shape (rows,)
        r̂ on the same rows.
    methods : sequence of str
    """
    kept = np.flatnonzero(~np.any([np.isnan(b0) for _, b0 in fits], axis=0))
    terms = [
        fedcsa.risk_terms(fedcsa.RiskMoments.of(r, own[:, kept]))
        for r, own in zip(ratios, losses, strict=True)
    ]
    found = {}
    for method in methods:
        estimate = fedcsa.estimate(method, terms)
        weights, best = estimate.source_weights, int(kept[estimate.chosen])
        found[method] = Mixture(
            np.column_stack([B[:, best] for B, _ in fits]) @ weights,
            float(np.array([b0[best] for _, b0 in fits]) @ weights),
            weights,
            float(estimate.risk[estimate.chosen]),
            best,
        )
    return found

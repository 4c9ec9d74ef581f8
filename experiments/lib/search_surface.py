"""What a search can find: the risk of every candidate of a lattice, at every source and in truth.

A candidate is evaluated as in the default method: rows weighted to the target's table, five folds,
training weights w^γ, the risk on held-out rows weighted by w. Beside it, what a search never sees:
each source's examination of the others' mixture, and the mixture's loss at the target. The lattice
is computed once; a search may ask for any point of the space, and hears of the nearest one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from lib.common import Array
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier

from fedcsa.core.table import Table1
from fedcsa.core.tilt import fit_tilt, target_equivalent_rows

FOLDS = 5
#: Training weights are at least this over n, as in the package: w^γ must not lose every row.
LEAST = 1e-3
Model = Callable[[Array, Array, Array], Callable[[Array], Array]]


@dataclass(frozen=True)
class Axis:
    """A parameter: its range, and the values that the lattice has.

    Parameters
    ----------
    name : str
    values : tuple of float
        In ascending order; the range is from the first to the last.
    log : bool
        Whether it is searched on a logarithmic scale.
    whole : bool
        Whether only whole numbers are asked for.
    grid : int
        Every so many values are those of the grid.
    """

    name: str
    values: tuple[float, ...]
    log: bool = False
    whole: bool = False
    grid: int = 1

    def position(self, value: float) -> float:
        """Between 0 and 1, on the scale of the search."""
        scale = np.log if self.log else np.asarray
        low, high = (float(scale(end)) for end in (self.values[0], self.values[-1]))
        return (float(scale(value)) - low) / (high - low)

    def told(self) -> dict[str, object]:
        """As `fedcsa.FedCSA` takes it."""
        low, high = self.values[0], self.values[-1]
        if self.whole:
            return {"low": int(low), "high": int(high), "log": self.log}
        return {"low": float(low), "high": float(high), "log": self.log}


@dataclass(frozen=True)
class Lattice:
    """All combinations of the axes' values, the last axis fastest."""

    axes: tuple[Axis, ...]

    @property
    def positions(self) -> Array:
        """Of every point, shape (points, axes)."""
        own = [[axis.position(value) for value in axis.values] for axis in self.axes]
        return np.array(list(product(*own)))

    @property
    def candidates(self) -> list[dict[str, float]]:
        """Every point as a candidate."""
        names = [axis.name for axis in self.axes]
        return [
            dict(zip(names, values, strict=True))
            for values in product(*(axis.values for axis in self.axes))
        ]

    @property
    def grid(self) -> list[int]:
        """The points of the grid."""
        kept = [set(axis.values[:: axis.grid]) for axis in self.axes]
        return [
            index
            for index, point in enumerate(self.candidates)
            if all(value in own for value, own in zip(point.values(), kept, strict=True))
        ]

    def nearest(self, candidate: Mapping[str, float]) -> int:
        """The lattice's point that is nearest to a candidate, on the scale of the search."""
        at = np.array([axis.position(candidate[axis.name]) for axis in self.axes])
        return int(((self.positions - at) ** 2).sum(axis=1).argmin())


@dataclass(frozen=True)
class Surface:
    """All that is known of every point of the lattice, for one target.

    Attributes
    ----------
    risks, variances : array of shape (points, sources)
        What a source reports: f_j and its squared standard error.
    examined : array of shape (points, sources)
        The risk of the mixture without its own model, on its weighted rows.
    true : array of shape (points,)
        Mean loss of the whole mixture at the target.
    worth : array of shape (sources,)
        m_j.
    """

    risks: Array
    variances: Array
    examined: Array
    true: Array
    worth: Array

    def save(self, path: Path) -> None:
        """Keep it, so that a second look costs nothing."""
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **vars(self))

    @classmethod
    def load(cls, path: Path) -> Surface:
        """What `save` kept."""
        with np.load(path, allow_pickle=False) as kept:
            return cls(**{name: kept[name] for name in kept.files})


# Models -------------------------------------------------------------------------------------


def logistic(candidate: Mapping[str, float]) -> Model:
    """Probability of 1 by a logistic regression."""

    def fit(X: Array, y: Array, weights: Array) -> Callable[[Array], Array]:
        model = LogisticRegression(C=candidate["C"], solver="newton-cholesky", tol=1e-3)
        model.fit(X, y, weights * (len(y) / weights.sum()))
        return lambda rows: model.predict_proba(rows)[:, 1]

    return fit


def tree(candidate: Mapping[str, float]) -> Model:
    """Probability of 1 by a decision tree."""

    def fit(X: Array, y: Array, weights: Array) -> Callable[[Array], Array]:
        model = DecisionTreeClassifier(
            max_depth=int(candidate["max_depth"]),
            min_samples_leaf=int(candidate["min_samples_leaf"]),
            random_state=0,
        )
        model.fit(X, y, weights)
        return lambda rows: model.predict_proba(rows)[:, -1]

    return fit


def ridge(candidate: Mapping[str, float]) -> Model:
    """A number by a ridge regression, its penalty beside a mean."""

    def fit(X: Array, y: Array, weights: Array) -> Callable[[Array], Array]:
        share = weights * (len(y) / weights.sum())
        return Ridge(alpha=candidate["penalty"] * len(y)).fit(X, y, share).predict

    return fit


# One target ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Site:
    """A source's rows in the target's units, their weights and folds."""

    z: Array
    y: Array
    weights: Array
    folds: Array

    @property
    def effective_rows(self) -> float:
        return float(1.0 / (self.weights**2).sum())

    def training_weights(self, power: float) -> Array:
        floored: Array = np.maximum(self.weights, LEAST / len(self.y)) ** power
        return floored


def surface(
    sources: Mapping[str, tuple[Array, Array]],
    target: tuple[Array, Array],
    flags: Sequence[bool],
    public_sd: Sequence[float] | None,
    lattice: Lattice,
    family: Callable[[Mapping[str, float]], Model],
    seed: int,
) -> Surface:
    """Evaluate every point; the target's outcomes serve the last column alone.

    Parameters
    ----------
    sources : mapping of str to (X, y)
    target : (X, y)
    flags : sequence of bool
        Columns of noughts and ones.
    public_sd : sequence of float, optional
        Agreed scales of the columns.
    lattice : Lattice
        One of its axes is ``ratio_power``.
    family : function of a candidate
        A model to fit: (X, y, weights) -> prediction.
    seed : int
        Deals rows to folds.
    """
    names = [f"x{place}" for place in range(len(flags))]
    table = Table1.of(target[0], names, flags, public_sd)
    sites = [
        _site(pair, table, np.array(flags), [seed, k]) for k, pair in enumerate(sources.values())
    ]
    imbalance = [float(((site.weights @ site.z) ** 2).mean()) for site in sites]
    effective = np.array([site.effective_rows for site in sites])
    worth = target_equivalent_rows(effective, np.array(imbalance))
    at_target = (target[0] - table.mean) / table.sd
    points = [
        _point(sites, worth, (at_target, target[1]), family(candidate), candidate["ratio_power"])
        for candidate in lattice.candidates
    ]
    risks, variances, examined, true = (np.array(part) for part in zip(*points, strict=True))
    return Surface(risks, variances, examined, true, worth)


def _site(pair: tuple[Array, Array], table: Table1, flags: Array, seed: Sequence[int]) -> _Site:
    z = (pair[0] - table.mean) / table.sd
    weights = fit_tilt([z], flags, table.correlations).weights(z)
    folds = np.random.default_rng(seed).permutation(len(z)) % FOLDS
    return _Site(z, pair[1], weights / weights.sum(), folds)


def _point(
    sites: Sequence[_Site], worth: Array, target: tuple[Array, Array], model: Model, power: float
) -> tuple[list[float], list[float], list[float], float]:
    """Risks, variances, examinations and the truth of one candidate."""
    risks, variances, fitted = [], [], []
    for site in sites:
        training = site.training_weights(power)
        losses = np.empty(len(site.y))
        for fold in range(FOLDS):
            held = site.folds == fold
            predict = model(site.z[~held], site.y[~held], training[~held])
            losses[held] = (predict(site.z[held]) - site.y[held]) ** 2
        f = float(site.weights @ losses)
        risks.append(f)
        variances.append(float((site.weights**2) @ (losses - f) ** 2))
        fitted.append(model(site.z, site.y, training))
    examined = []
    for j, site in enumerate(sites):
        others = np.where(np.arange(len(sites)) == j, 0.0, worth)
        mixture = _mixed(fitted, others, site.z)
        examined.append(float(site.weights @ (mixture - site.y) ** 2))
    mixture = _mixed(fitted, worth, target[0])
    return risks, variances, examined, float(((mixture - target[1]) ** 2).mean())


def _mixed(fitted: Sequence[Callable[[Array], Array]], worth: Array, rows: Array) -> Array:
    """The mixture's prediction, each model by its worth."""
    share = worth / worth.sum()
    told = [a * predict(rows) for a, predict in zip(share, fitted, strict=True) if a > 0.0]
    mixture: Array = np.sum(told, axis=0)
    return mixture

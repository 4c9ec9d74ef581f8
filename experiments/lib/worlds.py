"""How simulated studies are drawn: sites, the rule behind their outcomes, and what a family says.

A family is a recipe for studies of one kind. It says which promise may be asked of it: what it
violates, if anything, and whether its sites can be exchanged for each other (all have one rule, or
each has an effect of its own that is drawn alike for sources *and* target).

The same seed always gives the same study, and no two families share a stream of random numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

Array = NDArray[np.float64]
Sampler = Callable[[np.random.Generator, int], Array]
Truth = Callable[[Array], Array]
Sampler1 = Callable[[np.random.Generator, int], Array]

TAGS = ("friendly", "shift", "wrong-model", "far", "no-overlap", "violates")
KINDS = ("regression", "classes")
#: How the rule p(y|x) of the sites is related.
SHARED, RANDOM, UNLIKE = "shared rule", "random effects", "not exchangeable"
#: Slope of the log-odds, in standard deviations of the truth over the target's population.
CLASS_SLOPE = 1.5
#: How far the rows of one patient lie apart, in the units of the features.
WITHIN_PATIENT = 0.3


@dataclass(frozen=True)
class Site:
    """How one site draws its rows; `effect` is added to the truth there and nowhere else."""

    rows: int
    sample: Sampler
    effect: Truth | None = None
    noise: float = 1.0  # times the noise of the world
    repeats: int = 1  # rows of one patient
    select: Truth | None = None  # probability that a row with outcome y comes to the site


@dataclass(frozen=True)
class World:
    """All sites of one study and the rule by which outcomes arise."""

    sources: Sequence[Site]
    target: Site
    truth: Truth
    noise: Truth | float = 1.0
    errors: Sampler1 | None = None  # standardised errors; normal unless told
    base: float = 0.0  # added to the log-odds of a class
    patient_sd: float = 0.0  # of a patient's own level, where patients have several rows


@dataclass(frozen=True)
class Drawn:
    """One study. `y_target` and the truth rows are for judging only.

    `groups` names the patient of every row, source by source; it is there only where a patient has
    several rows. Truth rows come from the target's population, each from another patient.
    """

    sources: dict[str, tuple[Array, Array]]
    X_target: Array
    y_target: Array = field(repr=False)
    X_truth: Array = field(repr=False)
    y_truth: Array = field(repr=False)
    groups: dict[str, NDArray[np.int64]] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Family:
    """A recipe for studies of one kind."""

    name: str
    tag: str
    build: Callable[[np.random.Generator], World] = field(repr=False)
    violates: str = ""  # which assumption, in a few words
    sites: str = SHARED
    kinds: tuple[str, ...] = KINDS
    signal: str = ""  # "clear" or "none", where a verdict is asked for

    @property
    def exchangeable(self) -> bool:
        """Whether the target differs from the sources as they differ from each other."""
        return self.sites != UNLIKE

    @property
    def n_sources(self) -> int:
        """Sources of a study; the same in every draw."""
        return len(self.build(np.random.default_rng(0)).sources)

    def draw(self, seed: int, *, classes: bool = False, n_truth: int = 20_000) -> Drawn:
        """One study; with `classes` the outcome is 0 or 1, with log-odds that follow the truth."""
        streams = np.random.SeedSequence([seed, zlib.crc32(self.name.encode())]).spawn(4)
        layout, at_sources, at_target, judged = map(np.random.default_rng, streams)
        world = self.build(layout)
        X, own, _ = _features(world, world.target, judged, n_truth, alone=True)
        mean = world.truth(X)
        outcomes = _Outcomes(world, classes, float(mean.mean()), max(float(mean.std()), 1e-6))

        sources, groups = {}, {}
        for index, site in enumerate(world.sources):
            name = f"s{index + 1:02d}"
            *sources[name], groups[name] = outcomes.rows(site, at_sources, site.rows)
        repeated = any(site.repeats > 1 for site in world.sources)
        if world.target.select:
            X_truth, y_truth, _ = outcomes.rows(world.target, judged, n_truth)
        else:
            X_truth, y_truth = X, outcomes(world.target, X, judged, own)
        X_target, y_target, _ = outcomes.rows(world.target, at_target, world.target.rows)
        pairs = {name: (X, y) for name, (X, y) in sources.items()}
        return Drawn(pairs, X_target, y_target, X_truth, y_truth, groups if repeated else None)


@dataclass(frozen=True)
class _Outcomes:
    """The rule of a world, with the place and the unit of its truth at the target."""

    world: World
    classes: bool
    centre: float
    scale: float

    def __call__(self, site: Site, X: Array, rng: np.random.Generator, own: Array | float) -> Array:
        """Outcomes of rows; `own` is added to the truth."""
        world = self.world
        mean = world.truth(X) + (site.effect(X) if site.effect else 0.0) + own
        if self.classes:
            odds = world.base + CLASS_SLOPE * (mean - self.centre) / self.scale
            return (rng.random(len(X)) < expit(odds)).astype(np.float64)
        sd = world.noise(X) if callable(world.noise) else world.noise
        drawn = world.errors(rng, len(X)) if world.errors else rng.standard_normal(len(X))
        return mean + site.noise * sd * drawn

    def rows(
        self, site: Site, rng: np.random.Generator, n: int
    ) -> tuple[Array, Array, NDArray[np.int64]]:
        """`n` rows of a site: features, outcomes, patients."""
        if site.select is None:
            X, own, groups = _features(self.world, site, rng, n)
            return X, self(site, X, rng, own), groups
        kept: list[tuple[Array, Array]] = []
        while sum(len(y) for _, y in kept) < n:
            X, own, _ = _features(self.world, site, rng, n)
            y = self(site, X, rng, own)
            chosen = rng.random(n) < site.select(y)
            kept.append((X[chosen], y[chosen]))
        X, y = (np.concatenate(parts)[:n] for parts in zip(*kept, strict=True))
        return X, y, np.arange(n)


def _features(
    world: World, site: Site, rng: np.random.Generator, n: int, *, alone: bool = False
) -> tuple[Array, Array | float, NDArray[np.int64]]:
    """Features, every patient's own level, and the patient of every row."""
    groups = np.arange(n) // (1 if alone else site.repeats)
    patients = int(groups[-1]) + 1
    X = site.sample(rng, patients)[groups]
    if site.repeats == 1:
        return X, 0.0, groups
    X = X + WITHIN_PATIENT * rng.standard_normal(X.shape)
    return X, world.patient_sd * rng.standard_normal(patients)[groups], groups


# Pieces -------------------------------------------------------------------------------------


def normal(mean: float | Array, sd: float | Array, d: int, correlation: float = 0.0) -> Sampler:
    """Normal features; neighbours are correlated as in an autoregression."""
    lags = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    root = np.linalg.cholesky(correlation**lags if correlation else np.eye(d))

    def sample(rng: np.random.Generator, n: int) -> Array:
        return mean + sd * (rng.standard_normal((n, d)) @ root.T)

    return sample


def mixed(first: Sampler, second: Sampler, share: float) -> Sampler:
    """Rows of the first population with probability `share`, else of the second."""

    def sample(rng: np.random.Generator, n: int) -> Array:
        picked = rng.random(n) < share
        return np.where(picked[:, None], first(rng, n), second(rng, n))

    return sample


def coins(shares: Sequence[float] | Array, mean: float) -> Sampler:
    """Three normal features and one 0/1 column for every share."""

    def sample(rng: np.random.Generator, n: int) -> Array:
        thrown = rng.random((n, len(shares))) < np.asarray(shares)
        return np.column_stack([rng.normal(mean, 1.0, (n, 3)), thrown])

    return sample


def direction(rng: np.random.Generator, d: int) -> Array:
    """A random unit vector."""
    v = rng.standard_normal(d)
    return v / np.linalg.norm(v)


def linear(d: int, strong: int | None = None) -> Truth:
    """Sum of the first `strong` features (all of them unless told), with variance one."""
    strong = strong or d
    return lambda X: X[:, :strong].sum(axis=1) / np.sqrt(strong)


def shifted(
    rows: Sequence[int], n_target: int, d: int, shift: float, noise: Truth | float = 1.0
) -> Callable[[np.random.Generator], World]:
    """Normal sources whose means lie `shift` away from the target's, each in its own direction."""

    def build(rng: np.random.Generator) -> World:
        sources = [Site(n, normal(shift * direction(rng, d), 1.0, d)) for n in rows]
        return World(sources, Site(n_target, normal(0.0, 1.0, d)), linear(d), noise)

    return build


def with_errors(
    build: Callable[[np.random.Generator], World], errors: Sampler1
) -> Callable[[np.random.Generator], World]:
    """The same study with errors of another shape, still of mean zero and variance one."""
    return lambda rng: replace(build(rng), errors=errors)


def log_odds(rate: float, effects_sd: float = 0.0) -> float:
    """Base that gives about this event rate at the target, with effects of this sd in logits.

    A normal spread of the log-odds flattens the rate by about sqrt(1 + 0.346 variance).
    """
    return float(logit(rate) * np.sqrt(1.0 + 0.346 * (CLASS_SLOPE**2 + effects_sd**2)))


def student(rng: np.random.Generator, n: int) -> Array:
    """Heavy tails: three degrees of freedom."""
    return rng.standard_t(3.0, n) / np.sqrt(3.0)


def exponential(rng: np.random.Generator, n: int) -> Array:
    """Skewed, as waiting times and costs are."""
    return rng.standard_exponential(n) - 1.0


def contaminated(rng: np.random.Generator, n: int) -> Array:
    """One row in thirty is six times as noisy: slips of the pen."""
    size = np.where(rng.random(n) < 1 / 30, 6.0, 1.0)
    return size * rng.standard_normal(n) / np.sqrt(29 / 30 + 36 / 30)


def lognormal(rng: np.random.Generator, n: int) -> Array:
    """Skewed and heavy: most errors are small, a few are huge."""
    drawn = np.exp(rng.standard_normal(n)) - np.exp(0.5)
    return drawn / np.sqrt(np.exp(2.0) - np.exp(1.0))

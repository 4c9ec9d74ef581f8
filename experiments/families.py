"""Simulated families of studies: sources with outcomes, a target without, and the truth.

Every family says in its tag which promise may be asked of it:

============  ==================================================================================
friendly      sources resemble the target; the fitted model is right
shift         populations clearly differ but overlap; the fitted model is right
wrong-model   a line is fitted to a truth that is not one
far           at least one source is far away, at least one is not
no-overlap    no source resembles the target
violates      an assumption does not hold: p(y|x) differs by site, or the target is a mixture of
              populations each of which only one source knows
============  ==================================================================================

The same seed always gives the same study, and no two families share a stream of random numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[np.float64]
Sampler = Callable[[np.random.Generator, int], Array]
Truth = Callable[[Array], Array]
Sampler1 = Callable[[np.random.Generator, int], Array]

TAGS = ("friendly", "shift", "wrong-model", "far", "no-overlap", "violates")
#: Slope of the log-odds, in standard deviations of the truth over the target's population.
CLASS_SLOPE = 1.5


@dataclass(frozen=True)
class Site:
    """How one site draws its rows; `effect` is added to the truth there and nowhere else."""

    rows: int
    sample: Sampler
    effect: Truth | None = None


@dataclass(frozen=True)
class World:
    """All sites of one study and the rule by which outcomes arise."""

    sources: Sequence[Site]
    target: Site
    truth: Truth
    noise: Truth | float = 1.0
    errors: Sampler1 | None = None  # standardised errors; normal unless told


@dataclass(frozen=True)
class Drawn:
    """One study. `y_target` and the truth rows are for judging only."""

    sources: dict[str, tuple[Array, Array]]
    X_target: Array
    y_target: Array = field(repr=False)
    X_truth: Array = field(repr=False)
    y_truth: Array = field(repr=False)


@dataclass(frozen=True)
class Family:
    """A recipe for studies of one kind."""

    name: str
    tag: str
    build: Callable[[np.random.Generator], World] = field(repr=False)

    def draw(self, seed: int, *, classes: bool = False, n_truth: int = 20_000) -> Drawn:
        """One study; with `classes` the outcome is 0 or 1, with log-odds that follow the truth."""
        streams = np.random.SeedSequence([seed, zlib.crc32(self.name.encode())]).spawn(4)
        layout, at_sources, at_target, judged = map(np.random.default_rng, streams)
        world = self.build(layout)
        X_truth = world.target.sample(judged, n_truth)
        centre, scale = _centre_and_scale(world, X_truth)

        def outcomes(site: Site, X: Array, rng: np.random.Generator) -> Array:
            mean = world.truth(X) + (site.effect(X) if site.effect else 0.0)
            if classes:
                odds = CLASS_SLOPE * (mean - centre) / scale
                return (rng.random(len(X)) < expit(odds)).astype(np.float64)
            sd = world.noise(X) if callable(world.noise) else world.noise
            drawn = world.errors(rng, len(X)) if world.errors else rng.standard_normal(len(X))
            return mean + sd * drawn

        sources = {}
        for index, site in enumerate(world.sources):
            X = site.sample(at_sources, site.rows)
            sources[f"s{index + 1:02d}"] = (X, outcomes(site, X, at_sources))
        X_target = world.target.sample(at_target, world.target.rows)
        y_target = outcomes(world.target, X_target, at_target)
        return Drawn(sources, X_target, y_target, X_truth, outcomes(world.target, X_truth, judged))


def _centre_and_scale(world: World, X_truth: Array) -> tuple[float, float]:
    mean = world.truth(X_truth)
    return float(mean.mean()), max(float(mean.std()), 1e-6)


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


def direction(rng: np.random.Generator, d: int) -> Array:
    """A random unit vector."""
    v = rng.standard_normal(d)
    return v / np.linalg.norm(v)


def linear(d: int, strong: int | None = None) -> Truth:
    """Sum of the first `strong` features (all of them unless told), with variance one."""
    strong = strong or d
    return lambda X: X[:, :strong].sum(axis=1) / np.sqrt(strong)


def _shifted(
    rows: Sequence[int], n_target: int, d: int, shift: float, noise: Truth | float = 1.0
) -> Callable[[np.random.Generator], World]:
    """Normal sources whose means lie `shift` away from the target's, each in its own direction."""

    def build(rng: np.random.Generator) -> World:
        sources = [Site(n, normal(shift * direction(rng, d), 1.0, d)) for n in rows]
        return World(sources, Site(n_target, normal(0.0, 1.0, d)), linear(d), noise)

    return build


def _with_errors(
    build: Callable[[np.random.Generator], World], errors: Sampler1
) -> Callable[[np.random.Generator], World]:
    """The same study with errors of another shape, still of mean zero and variance one."""
    return lambda rng: replace(build(rng), errors=errors)


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


# Families -----------------------------------------------------------------------------------


def _correlated(rng: np.random.Generator) -> World:
    means = [0.6 * direction(rng, 8) for _ in range(3)]
    sources = [Site(150, normal(mean, 1.0, 8, 0.7)) for mean in means]
    return World(sources, Site(100, normal(0.0, 1.0, 8, 0.7)), linear(8))


def _binary(shares: Sequence[float], mean: float) -> Sampler:
    def sample(rng: np.random.Generator, n: int) -> Array:
        coins = rng.random((n, len(shares))) < np.asarray(shares)
        return np.column_stack([rng.normal(mean, 1.0, (n, 3)), coins])

    return sample


def _binary_mixed(rng: np.random.Generator) -> World:
    sources = [
        Site(n, _binary(rng.uniform(0.2, 0.6, 3), rng.normal(0.0, 0.2))) for n in (180, 140, 120)
    ]
    return World(sources, Site(120, _binary((0.4, 0.3, 0.5), 0.0)), linear(6))


def _sparse(rng: np.random.Generator) -> World:
    sources = [Site(200, normal(0.5 * direction(rng, 20), 1.0, 20)) for _ in range(4)]
    return World(sources, Site(100, normal(0.0, 1.0, 20)), linear(20, strong=2))


def _scale_shift(rng: np.random.Generator) -> World:
    sources = [Site(150, normal(0.3 * direction(rng, 4), sd, 4)) for sd in (0.7, 1.5, 2.0)]
    return World(sources, Site(100, normal(0.0, 1.0, 4)), linear(4))


def _narrow(rng: np.random.Generator) -> World:
    sources = [Site(200, normal(0.8 * direction(rng, 3), 1.0, 3)) for _ in range(3)]
    return World(sources, Site(80, normal(0.0, 0.3, 3)), linear(3))


def _wide(rng: np.random.Generator) -> World:
    sources = [Site(200, normal(0.5 * direction(rng, 3), 1.0, 3)) for _ in range(3)]
    return World(sources, Site(100, normal(0.0, 1.6, 3)), linear(3))


def _heavy_tails(rng: np.random.Generator) -> World:
    def student(mean: Array | float) -> Sampler:
        return lambda g, n: mean + g.standard_t(3.0, (n, 4)) / np.sqrt(3.0)

    sources = [Site(150, student(0.7 * direction(rng, 4))) for _ in range(3)]
    return World(sources, Site(100, student(0.0)), linear(4))


def _skewed(rng: np.random.Generator) -> World:
    def lognormal(mean: Array | float) -> Sampler:
        return lambda g, n: np.exp(mean + 0.6 * g.standard_normal((n, 3)))

    sources = [Site(150, lognormal(0.4 * direction(rng, 3))) for _ in range(3)]
    return World(sources, Site(100, lognormal(0.0)), linear(3))


def _between(_: np.random.Generator) -> World:
    sources = [Site(150, normal(side * 0.8, 1.0, 3)) for side in (-1.0, 1.0)]
    return World(sources, Site(100, normal(0.0, 1.0, 3)), linear(3))


def _ring(_: np.random.Generator) -> World:
    angles = 2.0 * np.pi * np.arange(5) / 5.0
    places = 1.5 * np.column_stack([np.cos(angles), np.sin(angles)])
    sources = [Site(120, normal(place, 1.0, 2)) for place in places]
    return World(sources, Site(80, normal(0.0, 1.0, 2)), linear(2))


def _bent(_: np.random.Generator) -> World:
    sources = [Site(n, normal(mean, 1.0, 1)) for mean, n in ((-1.5, 300), (0.0, 200), (1.5, 150))]
    return World(sources, Site(100, normal(1.0, 0.8, 1)), lambda X: X[:, 0] + X[:, 0] ** 2, 0.7)


def _bent_narrow(_: np.random.Generator) -> World:
    sources = [Site(250, normal(mean, 1.2, 2)) for mean in (-0.8, 0.0, 0.6)]
    return World(sources, Site(100, normal(0.8, 0.4, 2)), lambda X: (X**2).sum(axis=1), 0.7)


def _bent_five(rng: np.random.Generator) -> World:
    sources = [Site(150, normal(rng.normal(0.0, 0.8, 3), 1.0, 3)) for _ in range(5)]
    return World(
        sources,
        Site(100, normal(rng.normal(0.0, 0.4, 3), 0.8, 3)),
        lambda X: X.sum(axis=1) + 0.6 * X[:, 0] ** 2,
    )


def _interactions(rng: np.random.Generator) -> World:
    sources = [Site(180, normal(0.9 * direction(rng, 4), 1.0, 4)) for _ in range(4)]
    return World(
        sources,
        Site(100, normal(0.4, 0.8, 4)),
        lambda X: X[:, 0] + X[:, 1] + X[:, 0] * X[:, 1],
    )


def _wave(rng: np.random.Generator) -> World:
    sources = [Site(200, normal(rng.normal(0.0, 0.7, 2), 1.0, 2)) for _ in range(3)]
    return World(
        sources, Site(100, normal(0.0, 0.7, 2)), lambda X: 1.5 * np.sin(2.0 * X[:, 0]) + X[:, 1]
    )


def _threshold(rng: np.random.Generator) -> World:
    sources = [Site(120, normal(rng.normal(0.0, 0.6, 3), 1.0, 3)) for _ in range(6)]
    return World(sources, Site(100, normal(0.5, 0.8, 3)), lambda X: 2.0 * (X[:, 0] > 0.5) + X[:, 1])


def case1(n_target: int, n_1: int, n_2: int) -> Family:
    """The paper's Case 1: one source around the target, one far away."""
    name = f"case1-{n_target}-{n_1}-{n_2}"

    def build(_: np.random.Generator) -> World:
        near = Site(n_1, normal(1.0, np.sqrt(3.0), 10))
        far = Site(n_2, normal(5.0, np.sqrt(0.5), 10))
        return World([near, far], Site(n_target, normal(0.0, 1.0, 10)), lambda X: X.mean(axis=1))

    return Family(name, "far", build)


def case2(c: float) -> Family:
    """The paper's Case 2: both sources move away from the target with c."""

    def build(_: np.random.Generator) -> World:
        sources = [Site(50, normal(c, 1.0, 10)), Site(40, normal(c + 1.0, 1.0, 10))]
        return World(sources, Site(20, normal(0.0, 1.0, 10)), lambda X: X.mean(axis=1))

    return Family(f"case2-c{c:g}", "no-overlap" if c >= 2.0 else "far", build)


def _one_far(rng: np.random.Generator) -> World:
    near = [Site(120, normal(0.5 * direction(rng, 4), 1.0, 4)) for _ in range(4)]
    far = Site(300, normal(4.0, 0.6, 4))
    bent = lambda X: X.mean(axis=1) + 0.25 * (X**2).mean(axis=1)  # noqa: E731
    return World([*near, far], Site(100, normal(0.0, 1.0, 4)), bent)


def _two_far(rng: np.random.Generator) -> World:
    near = [Site(150, normal(0.4 * direction(rng, 5), 1.0, 5)) for _ in range(2)]
    far = [Site(200, normal(side * 4.0, 0.7, 5)) for side in (-1.0, 1.0)]
    return World([*near, *far], Site(100, normal(0.0, 1.0, 5)), linear(5))


def _apart(rng: np.random.Generator) -> World:
    sources = [Site(150, normal(rng.choice([-5.0, 5.0], 3), 1.0, 3)) for _ in range(3)]
    return World(sources, Site(80, normal(0.0, 1.0, 3)), lambda X: np.tanh(X).sum(axis=1))


def _mixture(truth: Truth, places: Sequence[float]) -> Callable[[np.random.Generator], World]:
    """Source j knows population j; the target is a mixture of the first and the last."""

    def build(_: np.random.Generator) -> World:
        populations = [normal(place, 0.8, 3) for place in places]
        target = mixed(populations[0], populations[-1], 0.5)
        return World([Site(200, p) for p in populations], Site(120, target), truth)

    return build


def _site_levels(rng: np.random.Generator) -> World:
    def level(size: float) -> Truth:
        return lambda X: np.full(len(X), size)

    sizes = rng.normal(0.0, 0.7, 6)
    sources = [
        Site(150, normal(0.6 * direction(rng, 4), 1.0, 4), level(size)) for size in sizes[:5]
    ]
    return World(sources, Site(100, normal(0.0, 1.0, 4), level(sizes[5])), linear(4))


def _site_slopes(rng: np.random.Generator) -> World:
    def slope(vector: Array) -> Truth:
        return lambda X: X @ vector

    sources = [
        Site(150, normal(0.6 * direction(rng, 4), 1.0, 4), slope(rng.normal(0.0, 0.35, 4)))
        for _ in range(4)
    ]
    return World(
        sources, Site(100, normal(0.0, 1.0, 4), slope(rng.normal(0.0, 0.35, 4))), linear(4)
    )


def _one_odd(rng: np.random.Generator) -> World:
    sources = [Site(150, normal(0.4 * direction(rng, 4), 1.0, 4)) for _ in range(3)]
    odd = Site(150, normal(0.0, 1.0, 4), lambda X: -1.5 * X[:, 0])
    return World([*sources, odd], Site(100, normal(0.0, 1.0, 4)), linear(4))


def _counts(rng: np.random.Generator) -> World:
    sources = [Site(180, normal(0.6 * direction(rng, 3), 1.0, 3)) for _ in range(4)]
    rate: Truth = lambda X: np.exp(0.5 + 0.4 * X.mean(axis=1))  # noqa: E731
    return World(sources, Site(100, normal(0.2, 1.0, 3)), rate, lambda X: np.sqrt(rate(X)))


def _saturating(rng: np.random.Generator) -> World:
    sources = [Site(150, normal(rng.normal(0.0, 0.8, 2), 1.0, 2)) for _ in range(4)]
    return World(
        sources, Site(100, normal(0.6, 0.8, 2)), lambda X: 2.0 * np.tanh(X.sum(axis=1)), 0.6
    )


def _quadratic(rows: int, d: int) -> Callable[[np.random.Generator], World]:
    def build(rng: np.random.Generator) -> World:
        sources = [Site(rows, normal(0.8 * direction(rng, d), 1.0, d)) for _ in range(4)]
        target = Site(80, normal(0.5 * direction(rng, d), 0.9, d))
        return World(sources, target, lambda X: X.sum(axis=1) / 2.0 + 0.5 * X[:, 0] ** 2)

    return build


def _steep(X: Array) -> Array:
    return np.exp(0.5 * X[:, 0])


def _spread(X: Array) -> Array:
    return 0.3 + 0.7 * np.abs(X[:, 0])


_BENT_MIXTURE: Truth = lambda X: X.mean(axis=1) + 0.35 * (X**2).mean(axis=1)  # noqa: E731

FAMILIES = (
    Family("identical", "friendly", _shifted((150, 150, 150), 100, 5, 0.0)),
    Family("small-shift", "friendly", _shifted((200, 150), 100, 5, 0.5)),
    Family("one-source", "friendly", _shifted((300,), 100, 3, 0.4)),
    Family("six-sources", "friendly", _shifted((120,) * 6, 150, 10, 0.6)),
    Family("many-small", "friendly", _shifted((40,) * 12, 60, 4, 0.5)),
    Family("unequal-rows", "friendly", _shifted((800, 200, 60, 30), 80, 5, 0.5)),
    Family("one-feature", "friendly", _shifted((150, 100), 80, 1, 0.4)),
    Family("low-noise", "friendly", _shifted((150, 150, 150), 100, 5, 0.5, 0.1)),
    Family("high-noise", "friendly", _shifted((150, 150, 150), 100, 5, 0.5, 3.0)),
    Family("correlated", "friendly", _correlated),
    Family("binary-mixed", "friendly", _binary_mixed),
    Family("sparse-truth", "friendly", _sparse),
    Family("mean-shift", "shift", _shifted((200, 150, 150), 100, 5, 1.3)),
    Family("few-target-rows", "shift", _shifted((150, 150, 150), 25, 4, 0.8)),
    Family("twenty-features", "shift", _shifted((250,) * 4, 150, 20, 1.2)),
    Family("scale-shift", "shift", _scale_shift),
    Family("narrow-target", "shift", _narrow),
    Family("wide-target", "shift", _wide),
    Family("heteroscedastic", "shift", _shifted((150, 150, 150), 100, 3, 0.9, _spread)),
    Family("heavy-tails", "shift", _heavy_tails),
    Family("skewed", "shift", _skewed),
    Family("between", "shift", _between),
    Family("ring", "shift", _ring),
    Family("small-sources", "shift", _shifted((45, 45, 45), 60, 5, 0.8)),
    Family("steep-noise", "shift", _shifted((150, 150, 150), 100, 3, 0.9, _steep)),
    Family("student-errors", "shift", _with_errors(_shifted((150,) * 3, 100, 4, 0.8), student)),
    Family("skewed-errors", "shift", _with_errors(_shifted((150,) * 3, 100, 4, 0.8), exponential)),
    Family("contaminated", "shift", _with_errors(_shifted((150,) * 3, 100, 4, 0.8), contaminated)),
    Family("bent", "wrong-model", _bent),
    Family("bent-student", "wrong-model", _with_errors(_bent_five, student)),
    Family("counts", "wrong-model", _counts),
    Family("saturating", "wrong-model", _saturating),
    Family("quadratic-eight", "wrong-model", _quadratic(150, 8)),
    Family("quadratic-few-rows", "wrong-model", _quadratic(50, 3)),
    Family("bent-narrow", "wrong-model", _bent_narrow),
    Family("bent-five", "wrong-model", _bent_five),
    Family("interactions", "wrong-model", _interactions),
    Family("wave", "wrong-model", _wave),
    Family("threshold", "wrong-model", _threshold),
    case1(20, 30, 20),
    case1(50, 100, 90),
    case2(1.0),
    Family("one-far-of-five", "far", _one_far),
    Family("two-far-of-four", "far", _two_far),
    case2(2.0),
    case2(3.0),
    case2(5.0),
    Family("apart", "no-overlap", _apart),
    Family("mixture-line", "violates", _mixture(linear(3), (-1.5, 1.5))),
    Family("mixture-bent", "violates", _mixture(_BENT_MIXTURE, (-1.5, 0.0, 1.5))),
    Family("site-levels", "violates", _site_levels),
    Family("site-slopes", "violates", _site_slopes),
    Family("one-odd-source", "violates", _one_odd),
)


def family(name: str) -> Family:
    """The family called `name`."""
    return {item.name: item for item in FAMILIES}[name]

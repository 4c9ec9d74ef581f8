"""The catalogue of simulated families: sources with outcomes, a target without, and the truth.

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

and in ``violates`` which assumption fails, in words. The harder half is in `families_hard`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from lib.families_hard import HARD
from lib.worlds import (
    KINDS,
    RANDOM,
    TAGS,
    UNLIKE,
    Array,
    Drawn,
    Family,
    Sampler,
    Site,
    Truth,
    World,
    coins,
    contaminated,
    direction,
    exponential,
    linear,
    mixed,
    normal,
    shifted,
    student,
    with_errors,
)

__all__ = ["FAMILIES", "KINDS", "TAGS", "Drawn", "Family", "case1", "case2", "family"]


def _correlated(rng: np.random.Generator) -> World:
    means = [0.6 * direction(rng, 8) for _ in range(3)]
    sources = [Site(150, normal(mean, 1.0, 8, 0.7)) for mean in means]
    return World(sources, Site(100, normal(0.0, 1.0, 8, 0.7)), linear(8))


def _binary_mixed(rng: np.random.Generator) -> World:
    sources = [
        Site(n, coins(rng.uniform(0.2, 0.6, 3), rng.normal(0.0, 0.2))) for n in (180, 140, 120)
    ]
    return World(sources, Site(120, coins((0.4, 0.3, 0.5), 0.0)), linear(6))


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

    away = c >= 2.0
    return Family(
        f"case2-c{c:g}", "no-overlap" if away else "far", build, "no overlap" if away else ""
    )


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
    Family("identical", "friendly", shifted((150, 150, 150), 100, 5, 0.0)),
    Family("small-shift", "friendly", shifted((200, 150), 100, 5, 0.5)),
    Family("one-source", "friendly", shifted((300,), 100, 3, 0.4)),
    Family("six-sources", "friendly", shifted((120,) * 6, 150, 10, 0.6)),
    Family("many-small", "friendly", shifted((40,) * 12, 60, 4, 0.5)),
    Family("unequal-rows", "friendly", shifted((800, 200, 60, 30), 80, 5, 0.5)),
    Family("one-feature", "friendly", shifted((150, 100), 80, 1, 0.4)),
    Family("low-noise", "friendly", shifted((150, 150, 150), 100, 5, 0.5, 0.1)),
    Family("high-noise", "friendly", shifted((150, 150, 150), 100, 5, 0.5, 3.0)),
    Family("correlated", "friendly", _correlated),
    Family("binary-mixed", "friendly", _binary_mixed),
    Family("sparse-truth", "friendly", _sparse),
    Family("mean-shift", "shift", shifted((200, 150, 150), 100, 5, 1.3)),
    Family("few-target-rows", "shift", shifted((150, 150, 150), 25, 4, 0.8)),
    Family("twenty-features", "shift", shifted((250,) * 4, 150, 20, 1.2)),
    Family("scale-shift", "shift", _scale_shift),
    Family("narrow-target", "shift", _narrow),
    Family("wide-target", "shift", _wide),
    Family("heteroscedastic", "shift", shifted((150, 150, 150), 100, 3, 0.9, _spread)),
    Family("heavy-tails", "shift", _heavy_tails, "heavy tails"),
    Family("skewed", "shift", _skewed),
    Family("between", "shift", _between),
    Family("ring", "shift", _ring),
    Family("small-sources", "shift", shifted((45, 45, 45), 60, 5, 0.8)),
    Family("steep-noise", "shift", shifted((150, 150, 150), 100, 3, 0.9, _steep)),
    Family(
        "student-errors",
        "shift",
        with_errors(shifted((150,) * 3, 100, 4, 0.8), student),
        "heavy tails",
    ),
    Family("skewed-errors", "shift", with_errors(shifted((150,) * 3, 100, 4, 0.8), exponential)),
    Family(
        "contaminated",
        "shift",
        with_errors(shifted((150,) * 3, 100, 4, 0.8), contaminated),
        "heavy tails",
    ),
    Family("bent", "wrong-model", _bent),
    Family("bent-student", "wrong-model", with_errors(_bent_five, student), "heavy tails"),
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
    Family("apart", "no-overlap", _apart, "no overlap"),
    Family("mixture-line", "violates", _mixture(linear(3), (-1.5, 1.5)), "mixed target"),
    Family("mixture-bent", "violates", _mixture(_BENT_MIXTURE, (-1.5, 0.0, 1.5)), "mixed target"),
    Family("site-levels", "violates", _site_levels, "site effects", RANDOM),
    Family("site-slopes", "violates", _site_slopes, "site effects", RANDOM),
    Family("one-odd-source", "violates", _one_odd, "odd source", UNLIKE),
    *HARD,
)


def family(name: str) -> Family:
    """The family called `name`."""
    return {item.name: item for item in FAMILIES}[name]

"""Families that are nastier than a well-behaved study, and those that the study's bars name.

About two thirds of them violate an assumption. Random effects are drawn for the target as they
are for the sources: a new site differs from the others as these differ from each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from lib.worlds import (
    CLASS_SLOPE,
    RANDOM,
    UNLIKE,
    Array,
    Family,
    Sampler,
    Site,
    Truth,
    World,
    coins,
    direction,
    linear,
    log_odds,
    lognormal,
    normal,
    shifted,
    student,
    with_errors,
)
from scipy.special import expit

Build = Callable[[np.random.Generator], World]
Effect = Callable[[np.random.Generator], Truth]

REGRESSION = ("regression",)
CLASSES = ("classes",)

# Random effects -----------------------------------------------------------------------------


def _level(size: float) -> Truth:
    return lambda X: np.full(len(X), size)


def levels(sd: float) -> Effect:
    """An intercept of the site's own; the noise has sd one, so that `sd` is in residual sds."""
    return lambda rng: _level(rng.normal(0.0, sd))


def logits(sd: float) -> Effect:
    """An intercept whose sd is told in logits; for a truth of variance one at the target."""
    return levels(sd / CLASS_SLOPE)


def slopes(sd: float, d: int, level_sd: float = 0.0) -> Effect:
    """Slopes of the site's own, and an intercept."""

    def draw(rng: np.random.Generator) -> Truth:
        vector, level = rng.normal(0.0, sd, d), rng.normal(0.0, level_sd)
        return lambda X: level + X @ vector

    return draw


def camps(size: float) -> Effect:
    """One of two rules: the first feature matters more, or less."""

    def draw(rng: np.random.Generator) -> Truth:
        side = rng.choice([-size, size])
        return lambda X: side * X[:, 0]

    return draw


def sites_differ(
    rows: Sequence[int],
    effect: Effect,
    *,
    d: int = 4,
    n_target: int = 200,
    shift: float = 0.5,
    strength: float = 1.0,
    base: float = 0.0,
) -> Build:
    """Normal sources around the target; every site, the target too, has an effect of its own."""
    truth = linear(d)

    def build(rng: np.random.Generator) -> World:
        sources = [Site(n, normal(shift * direction(rng, d), 1.0, d), effect(rng)) for n in rows]
        target = Site(n_target, normal(0.0, 1.0, d), effect(rng))
        return World(sources, target, lambda X: strength * truth(X), base=base)

    return build


def _noise_levels(rng: np.random.Generator) -> World:
    def site(rows: int, shift: float) -> Site:
        return Site(
            rows, normal(shift * direction(rng, 4), 1.0, 4), noise=np.exp(rng.normal(0, 0.2))
        )

    sources = [site(200, 0.5) for _ in range(6)]
    return World(sources, site(200, 0.0), linear(4))


# Sites that cannot be exchanged ---------------------------------------------------------------


def _prefers(strength: float) -> Truth:
    """Rows with large outcomes, or events, are more likely to be there."""
    return lambda y: expit(strength * (y - 0.5))


def _label_shift(rows: Sequence[int], strength: float) -> Build:
    """p(x|y) is shared; outcomes are larger, or more frequent, at the target."""

    def build(_: np.random.Generator) -> World:
        everyone = normal(0.0, 1.0, 4)
        target = Site(200, everyone, select=_prefers(strength))
        return World([Site(n, everyone) for n in rows], target, linear(4))

    return build


def _selected(rng: np.random.Generator) -> World:
    """Label shift the other way: who was worse off was more likely to enter the registries."""
    sources = [
        Site(250, normal(0.4 * direction(rng, 4), 1.0, 4), select=_prefers(1.5)) for _ in range(5)
    ]
    return World(sources, Site(200, normal(0.0, 1.0, 4)), linear(4))


def _drift(periods: int, rows: int, level: float, slope: float) -> Build:
    """The rule moves on from period to period; the target comes after all sources."""

    def build(rng: np.random.Generator) -> World:
        sources = []
        for ago in range(periods, 0, -1):
            then: Truth = partial(lambda X, ago: -ago * (level + slope * X[:, 0]), ago=ago)
            sources.append(Site(rows, normal(0.3 * direction(rng, 4), 1.0, 4), then))
        return World(sources, Site(200, normal(0.0, 1.0, 4)), linear(4))

    return build


def _noise_grows(sizes: Sequence[float], at_target: float) -> Build:
    """Sources are the noisier the nearer they are; the target is the noisiest."""

    def build(rng: np.random.Generator) -> World:
        far = np.linspace(1.0, 0.2, len(sizes))
        sources = [
            Site(200, normal(shift * direction(rng, 4), 1.0, 4), noise=size)
            for shift, size in zip(far, sizes, strict=True)
        ]
        return World(sources, Site(200, normal(0.0, 1.0, 4), noise=at_target), linear(4))

    return build


def _tied_to_place(_: np.random.Generator) -> World:
    """A site's level follows its mean, against the slope within sites; the target is at one end."""
    places = np.linspace(-1.0, 0.6, 6)
    at = [np.array([place, 0.0, 0.0]) for place in (*places, 0.9)]
    *sources, target = [
        Site(200, normal(mean, 1.0, 3), _level(-0.8 * float(mean[0]))) for mean in at
    ]
    return World(sources, target, linear(3))


def _odd_target(rng: np.random.Generator) -> World:
    """All sources have one rule, and the target has another."""
    sources = [Site(200, normal(0.5 * direction(rng, 4), 1.0, 4)) for _ in range(6)]
    return World(sources, Site(200, normal(0.0, 1.0, 4), lambda X: 0.5 - 0.5 * X[:, 0]), linear(4))


def _huge_odd(rng: np.random.Generator) -> World:
    """The one large source has another rule than the small ones and the target."""
    tiny = [Site(60, normal(0.3 * direction(rng, 4), 1.0, 4)) for _ in range(5)]
    huge = Site(2_000, normal(0.0, 1.0, 4), lambda X: -0.8 * X[:, 0])
    return World([huge, *tiny], Site(200, normal(0.0, 1.0, 4)), linear(4))


# Shifts that means and spreads do not show ------------------------------------------------------


def _crossed(X: Array) -> Array:
    return X[:, 0] + X[:, 1] + X[:, 0] * X[:, 1]


def _correlation_only(d: int, n_target: int, at_sources: Sequence[float]) -> Build:
    """Only correlations differ, and the truth has a product of two neighbours."""

    def build(_: np.random.Generator) -> World:
        sources = [Site(200, normal(0.0, 1.0, d, each)) for each in at_sources]
        return World(sources, Site(n_target, normal(0.0, 1.0, d, 0.3)), _crossed)

    return build


def _paired_coins(alike: float) -> Sampler:
    """Two features and two 0/1 columns of share one half that are `alike` in so many rows."""

    def sample(rng: np.random.Generator, n: int) -> Array:
        first = rng.random(n) < 0.5
        second = np.where(rng.random(n) < alike, first, ~first)
        return np.column_stack([rng.standard_normal((n, 2)), first, second])

    return sample


def _hidden_coins(_: np.random.Generator) -> World:
    def truth(X: Array) -> Array:
        return X[:, 0] + 2.0 * (X[:, 2] == X[:, 3])

    sources = [Site(200, _paired_coins(alike)) for alike in (0.2, 0.8, 0.3, 0.7, 0.2)]
    return World(sources, Site(150, _paired_coins(0.6)), truth)


# Sizes, rows, signals ---------------------------------------------------------------------------


def _repeated(patients: int, repeats: int, n_sources: int, patient_sd: float) -> Build:
    """A patient has several rows and a level of his own."""

    def build(rng: np.random.Generator) -> World:
        sources = [
            Site(patients * repeats, normal(0.4 * direction(rng, 4), 1.0, 4), repeats=repeats)
            for _ in range(n_sources)
        ]
        target = Site(40 * repeats, normal(0.0, 1.0, 4), repeats=repeats)
        return World(sources, target, linear(4), patient_sd=patient_sd)

    return build


def _no_signal(rows: Sequence[int], effect: Effect | None = None) -> Build:
    """Outcomes have nothing to do with the features."""

    def build(rng: np.random.Generator) -> World:
        sources = [
            Site(n, normal(0.5 * direction(rng, 5), 1.0, 5), effect(rng) if effect else None)
            for n in rows
        ]
        target = Site(200, normal(0.0, 1.0, 5), effect(rng) if effect else None)
        return World(sources, target, lambda X: np.zeros(len(X)))

    return build


def _events(rows: Sequence[int], rate: float) -> Build:
    """One rule; at the target about this share of rows has the event."""

    def build(rng: np.random.Generator) -> World:
        sources = [Site(n, normal(0.4 * direction(rng, 4), 1.0, 4)) for n in rows]
        return World(sources, Site(200, normal(0.0, 1.0, 4)), linear(4), base=log_odds(rate))

    return build


def _clear_flags(rng: np.random.Generator) -> World:
    sources = [Site(300, coins(rng.uniform(0.2, 0.6, 3), rng.normal(0.0, 0.3))) for _ in range(6)]
    return World(sources, Site(200, coins((0.4, 0.3, 0.5), 0.0)), linear(6))


def _clear_bent(rng: np.random.Generator) -> World:
    sources = [Site(400, normal(0.6 * direction(rng, 3), 1.0, 3)) for _ in range(6)]
    return World(
        sources, Site(200, normal(0.3, 0.9, 3)), lambda X: X.sum(axis=1) + 0.4 * X[:, 0] ** 2
    )


def _all_flags(rng: np.random.Generator) -> World:
    """Every column is 0 or 1, as in many registries."""

    def thrown(shares: Array) -> Sampler:
        return lambda g, n: (g.random((n, 8)) < shares).astype(np.float64)

    sources = [Site(200, thrown(rng.uniform(0.1, 0.6, 8))) for _ in range(5)]
    target = Site(150, thrown(rng.uniform(0.2, 0.5, 8)))
    return World(sources, target, lambda X: 1.5 * linear(8)(X))


def _corners(_: np.random.Generator) -> World:
    """A narrow target in the middle of four corners; no source is around it."""
    places = [np.array([a, b]) for a in (-1.2, 1.2) for b in (-1.2, 1.2)]
    bent: Truth = lambda X: X.sum(axis=1) + 0.3 * X[:, 0] ** 2  # noqa: E731
    return World(
        [Site(150, normal(p, 0.8, 2)) for p in places], Site(120, normal(0.0, 0.6, 2)), bent
    )


def _random(name: str, build: Build, **more: object) -> Family:
    return Family(name, "violates", build, "site effects", RANDOM, **more)  # type: ignore[arg-type]


HARD = (
    # Nothing is violated
    Family("clear-5x300", "friendly", shifted((300,) * 5, 200, 5, 0.4), signal="clear"),
    Family("clear-8x400-shift", "shift", shifted((400,) * 8, 200, 5, 1.0), signal="clear"),
    Family("clear-flags-6x300", "friendly", _clear_flags, signal="clear"),
    Family("clear-bent-6x400", "wrong-model", _clear_bent, signal="clear"),
    # One part in thirteen of the variance is explained.
    Family(
        "weak-signal-6x300", "friendly", shifted((300,) * 6, 200, 5, 0.4, 3.4), kinds=REGRESSION
    ),
    Family("no-signal-3x200", "friendly", _no_signal((200,) * 3), signal="none"),
    Family("no-signal-6x300", "friendly", _no_signal((300,) * 6), signal="none"),
    Family("no-signal-12x100", "friendly", _no_signal((100,) * 12), signal="none"),
    Family("huge-among-tiny", "friendly", shifted((3_000, *[40] * 6), 150, 5, 0.5)),
    Family("forty-tiny", "friendly", shifted((40,) * 40, 150, 4, 0.5)),
    Family("all-flags", "friendly", _all_flags),
    Family("corners", "shift", _corners),
    Family("told-correlation", "shift", _correlation_only(4, 300, (-0.5, 0.6, -0.3, 0.5, 0.0))),
    Family("rare-6x400", "friendly", _events((400,) * 6, 0.05), kinds=CLASSES),
    Family("rare-6x120", "friendly", _events((120,) * 6, 0.03), kinds=CLASSES),
    # Sites differ, the target as the sources
    _random("levels-3x200", sites_differ((200,) * 3, levels(0.3))),
    _random("levels-6x200", sites_differ((200,) * 6, levels(0.2))),
    _random("levels-8x400", sites_differ((400,) * 8, levels(0.4)), kinds=REGRESSION),
    _random("levels-12x100", sites_differ((100,) * 12, levels(0.5))),
    _random("levels-40x60", sites_differ((60,) * 40, levels(0.3))),
    _random("slopes-6x250", sites_differ((250,) * 6, slopes(0.2, 4))),
    _random("slopes-8x200", sites_differ((200,) * 8, slopes(0.4, 4))),
    _random("slopes-levels-5x300", sites_differ((300,) * 5, slopes(0.2, 4, 0.3), shift=0.8)),
    _random("two-camps", sites_differ((200,) * 8, camps(0.5))),
    _random("noise-levels-6x200", _noise_levels, kinds=REGRESSION),
    _random(
        "no-signal-levels-6x300",
        _no_signal((300,) * 6, levels(0.4)),
        kinds=REGRESSION,
        signal="none",
    ),
    _random(
        "logits-10-8x400",
        sites_differ((400,) * 8, logits(0.5), base=log_odds(0.10, 0.5)),
        kinds=CLASSES,
    ),
    _random(
        "logits-30-8x400",
        sites_differ((400,) * 8, logits(0.5), base=log_odds(0.30, 0.5)),
        kinds=CLASSES,
    ),
    _random(
        "logits-30-4x200",
        sites_differ((200,) * 4, logits(0.5), base=log_odds(0.30, 0.5)),
        kinds=CLASSES,
    ),
    _random(
        "rare-logits-6x500",
        sites_differ((500,) * 6, logits(0.4), base=log_odds(0.04, 0.4)),
        kinds=CLASSES,
    ),
    # The target is unlike the sources
    Family("label-shift-6x200", "violates", _label_shift((200,) * 6, 1.0), "label shift", UNLIKE),
    Family("label-shift-4x300", "violates", _label_shift((300,) * 4, 2.0), "label shift", UNLIKE),
    Family("selected", "violates", _selected, "label shift", UNLIKE),
    Family("drift-5x300", "violates", _drift(5, 300, 0.1, 0.1), "drift", UNLIKE),
    Family("drift-8x150", "violates", _drift(8, 150, 0.12, 0.0), "drift", UNLIKE),
    Family(
        "noise-grows-5x200",
        "violates",
        _noise_grows((0.6, 0.7, 0.8, 0.9, 1.0), 1.2),
        "noise differs",
        UNLIKE,
        REGRESSION,
    ),
    Family(
        "noise-jumps-6x200",
        "violates",
        _noise_grows((1.0,) * 6, 1.5),
        "noise differs",
        UNLIKE,
        REGRESSION,
    ),
    Family("tied-to-place", "violates", _tied_to_place, "site effects", UNLIKE),
    Family("odd-target", "violates", _odd_target, "odd target", UNLIKE),
    Family("huge-odd", "violates", _huge_odd, "odd source", UNLIKE),
    # What Table 1 does not show
    Family(
        "hidden-correlation",
        "violates",
        _correlation_only(6, 120, (-0.6, 0.6, -0.6, 0.6, -0.3)),
        "hidden shift",
    ),
    Family("hidden-flags", "violates", _hidden_coins, "hidden shift"),
    # Rows that hang together, and losses without a variance
    Family("repeated-6x60x5", "violates", _repeated(60, 5, 6, 0.7), "repeated rows"),
    Family("repeated-5x15x20", "violates", _repeated(15, 20, 5, 1.0), "repeated rows"),
    Family(
        "student-8x200",
        "violates",
        with_errors(shifted((200,) * 8, 200, 4, 0.6), student),
        "heavy tails",
        kinds=REGRESSION,
    ),
    Family(
        "lognormal-6x150",
        "violates",
        with_errors(shifted((150,) * 6, 150, 4, 0.6), lognormal),
        "heavy tails",
        kinds=REGRESSION,
    ),
)

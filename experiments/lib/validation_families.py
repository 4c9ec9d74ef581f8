"""Families of the validation study: what may differ between sites, with the truth known.

Every family exists for classes and, but for rare events, for numbers. Sites are drawn alike, the
target among them, so that it differs from the sources as they differ from each other. The one
exception is named: there the target alone has another share of events, which no method can see
without outcomes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from lib.families_hard import logits, slopes
from lib.worlds import (
    RANDOM,
    SHARED,
    UNLIKE,
    Array,
    Family,
    Site,
    Truth,
    World,
    direction,
    linear,
    log_odds,
    normal,
)
from scipy.special import expit

#: Features of every study, all of them numbers.
FEATURES = 4
#: Rows of the target: enough for a Table 1 with correlations, few enough for a ward.
TARGET_ROWS = 200

Build = Callable[[np.random.Generator], World]
Effect = Callable[[np.random.Generator], Truth]


def _sites(
    rows: int,
    count: int,
    *,
    shift: float = 0.6,
    spread: tuple[float, float] = (0.8, 1.25),
    effect: Effect | None = None,
    base: float = 0.0,
    selection_sd: float = 0.0,
    target_selects: float = 0.0,
) -> Build:
    """Sources around the target, each at its own place and with its own spread.

    Parameters
    ----------
    rows, count : int
        Rows of a source, and sources.
    shift : float
        How far the sources' means lie from the target's.
    spread : pair of float
        Smallest and largest sd of a source's features; the target's are 1.
    effect : function of a generator, optional
        Draws what a site, the target too, adds to the truth.
    base : float
        Added to the log-odds of an event.
    selection_sd : float
        How strongly rows with events come to a site, in logits; every site draws its own.
    target_selects : float
        The same at the target alone.
    """

    def build(rng: np.random.Generator) -> World:
        def site(n: int, place: Array | float, sd: float, selects: float) -> Site:
            chosen = _prefers(selects + rng.normal(0.0, selection_sd)) if labels else None
            return Site(n, normal(place, sd, FEATURES), effect and effect(rng), select=chosen)

        labels = selection_sd > 0.0 or target_selects != 0.0
        sources = [
            site(rows, shift * direction(rng, FEATURES), rng.uniform(*spread), 0.0)
            for _ in range(count)
        ]
        target = site(TARGET_ROWS, 0.0, 1.0, target_selects)
        return World(sources, target, linear(FEATURES), base=base)

    return build


def _prefers(strength: float) -> Truth:
    """Rows with large outcomes, or events, are the more likely to be there."""
    return lambda y: expit(strength * (np.clip(y, -3.0, 3.0) - 0.5))


#: By name; the names are those of the study's page.
VALIDATED = {
    item.name: item
    for item in (
        Family("covariate shift", "shift", _sites(400, 6, shift=0.8, spread=(1.2, 1.7))),
        Family(
            "random intercepts",
            "violates",
            _sites(300, 8, effect=logits(0.4)),
            "site effects",
            RANDOM,
        ),
        Family(
            "random slopes",
            "violates",
            _sites(300, 8, effect=slopes(0.2, FEATURES, 0.15)),
            "site effects",
            RANDOM,
        ),
        Family(
            "rare events",
            "shift",
            _sites(1_000, 6, shift=0.5, base=log_odds(0.05)),
            "",
            SHARED,
            ("classes",),
        ),
        Family("label shift", "violates", _sites(300, 8, selection_sd=0.8), "label shift", RANDOM),
        Family(
            "label shift at the target alone",
            "violates",
            _sites(300, 8, target_selects=1.5),
            "label shift",
            UNLIKE,
        ),
    )
}

"""Families of simulated sites for the study of a few outcomes, with the truth known.

Sites are alike in their patients but for a small shift. What differs is the rule by which outcomes
follow: nothing, an intercept or slopes at every site alike, or something at the target alone. Sizes
are such that a rule of its own adds a quarter to a half to the target's risk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from lib.common import Array
from scipy.special import expit

#: Coefficients of the rule for numbers, whose noise has an sd of 1.
RULE = np.array([1.0, -0.7, 0.5, 0.3])
#: Sources, their rows, the target's rows (outcomes of the first of them come in), and the rows on
#: which the truth is measured.
SOURCES, SOURCE_ROWS, TARGET_ROWS, TRUTH_ROWS = 6, 300, 150, 5_000
#: Log-odds have a noise sd of about 1.8, so that effects for classes are as many times larger.
TIMES = {"numbers": 1.0, "classes": 1.8}


@dataclass(frozen=True)
class Rule:
    """What is special at one site.

    Attributes
    ----------
    intercept : float
    slopes : array of shape (4,) or float
        Added to the rule's.
    selects : float
        How much more likely rows with large outcomes, or events, are to be there: label shift.
    offset, gain : float
        Of the device that measures the first feature.
    """

    intercept: float = 0.0
    slopes: Array | float = 0.0
    selects: float = 0.0
    offset: float = 0.0
    gain: float = 1.0


Draw = Callable[[np.random.Generator], Rule]


def _shared(rng: np.random.Generator) -> Rule:
    del rng
    return Rule()


@dataclass(frozen=True)
class UpdateFamily:
    """One family.

    Attributes
    ----------
    name : str
    exchangeable : bool
        Whether the target differs from the sources as they differ from each other.
    differs : bool
        Whether the target has a rule of its own.
    source, target : function
        Draw what is special at a source, and at the target.
    """

    name: str
    exchangeable: bool
    differs: bool
    source: Draw = _shared
    target: Draw = _shared


def _intercepts(rng: np.random.Generator) -> Rule:
    return Rule(intercept=rng.normal(0.0, 0.6))


def _slopes(rng: np.random.Generator) -> Rule:
    return Rule(intercept=rng.normal(0.0, 0.2), slopes=rng.normal(0.0, 0.3, len(RULE)))


def _always(rule: Rule) -> Draw:
    return lambda _: rule


FAMILIES: Mapping[str, UpdateFamily] = {
    family.name: family
    for family in (
        UpdateFamily("shared rule", True, False),
        UpdateFamily("random intercepts", True, True, _intercepts, _intercepts),
        UpdateFamily("random slopes", True, True, _slopes, _slopes),
        UpdateFamily("label shift", False, True, target=_always(Rule(selects=1.2))),
        UpdateFamily("drift", False, True, target=_always(Rule(0.5, -0.25 * RULE))),
        UpdateFamily(
            "miscalibrated device", False, True, target=_always(Rule(offset=0.5, gain=0.8))
        ),
    )
}


def site(kind: str, rows: int, centre: Array, sd: float, rule: Rule, rng: np.random.Generator):
    """Features and outcomes of one site.

    Parameters
    ----------
    kind : {"numbers", "classes"}
    rows : int
    centre : array of shape (4,)
    sd : float
        Of every feature.
    rule : Rule
    rng : Generator
    """
    X, y = np.empty((0, len(RULE))), np.empty(0)
    while len(y) < rows:
        x = centre + sd * rng.normal(size=(2 * rows, len(RULE)))
        line = TIMES[kind] * (rule.intercept + x @ (RULE + rule.slopes))
        if kind == "numbers":
            outcome = line + rng.normal(size=2 * rows)
        else:
            outcome = (rng.random(2 * rows) < expit(line - 0.5)).astype(float)
        chance = expit(rule.selects * (np.clip(outcome, -3.0, 3.0) - (kind == "classes") * 0.5))
        here = rng.random(2 * rows) < 2.0 * chance / (1.0 + float(rule.selects > 0.0))
        X, y = np.concatenate([X, x[here]]), np.concatenate([y, outcome[here]])
    X = X[:rows].copy()
    X[:, 0] = rule.offset + rule.gain * X[:, 0]
    return X, y[:rows] if kind == "numbers" else y[:rows].astype(int)


def world(family: UpdateFamily, kind: str, seed: int):
    """Sources by name, the target's rows, and rows of the target that show the truth.

    Parameters
    ----------
    family : UpdateFamily
    kind : {"numbers", "classes"}
    seed : int
    """
    rng = np.random.default_rng([seed, *family.name.encode(), *kind.encode()])
    sources = {}
    for k in range(SOURCES):
        towards = rng.normal(size=len(RULE))
        centre = 0.4 * towards / np.linalg.norm(towards)
        rule = family.source(rng)
        sources[f"source-{k}"] = site(kind, SOURCE_ROWS, centre, rng.uniform(0.9, 1.3), rule, rng)
    rule, centre = family.target(rng), np.zeros(len(RULE))
    target, truth = (site(kind, n, centre, 1.0, rule, rng) for n in (TARGET_ROWS, TRUTH_ROWS))
    return sources, target, truth

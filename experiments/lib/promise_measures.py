"""Runs of the promise study as records, and what is measured on sets of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from lib.common import Array, geometric_mean
from lib.families import Family, family
from lib.paired import LEVEL, N_BOOT, Interval
from scipy.special import ndtri

#: The rivals of the default; the last is the source that is worth most rows of the target, alone.
RIVALS = ("naive", "fediwe", "feddae", "single")
#: "use it" and "use it with care" let a promise stand; "do not use it" takes it back.
USE, CARE, NOT = "use it", "use it with care", "do not use it"


@dataclass(frozen=True)
class Run:
    """One study, or one real site: what was promised and what is true."""

    part: str
    family: str
    seed: str
    n_sources: int
    line: Mapping[str, str]
    lower: float | None
    upper: float | None
    true: float | None
    level: float = LEVEL

    @classmethod
    def of(cls, line: Mapping[str, str]) -> Run:
        """From a line of a table of simulated studies or of real sites."""
        simulated = "family" in line
        names = ("part", "family", "seed") if simulated else ("data_set", "data_set", "site")
        part, name, seed = (line[key] for key in names)
        lower, upper = (_number(line, key) for key in ("lower", "upper"))
        true = _number(line, "true" if simulated else "realised")
        run = cls(part, name, seed, int(line["n_sources"]), line, lower, upper, true)
        return run if simulated else run._widened()

    @property
    def key(self) -> tuple[str, str, str]:
        """The same for both code bases."""
        return self.part, self.family, self.seed

    @property
    def cluster(self) -> str:
        """What is drawn anew by a bootstrap: the family, or the site."""
        return f"{self.part} {self.family}" if "family" in self.line else f"{self.part} {self.seed}"

    @property
    def answered(self) -> bool:
        """Whether there is a promise."""
        return self.lower is not None and self.true is not None

    @property
    def verdict(self) -> str:
        """In the words of the code base; "failed" where the study ended with an error."""
        return self.line.get("verdict") or "failed"

    @property
    def covered(self) -> bool:
        """Whether the interval holds the true risk."""
        lower, true, upper = self._three
        return lower <= true <= upper

    @property
    def half_width(self) -> float:
        """Square root of upper over lower end: the factor by which it reaches up and down."""
        lower, _, upper = self._three
        return float(np.sqrt(upper / lower))

    @property
    def score(self) -> float:
        """Interval score on the log scale (Gneiting and Raftery 2007); lower is better."""
        lower, true, upper = np.log(self._three)
        miss = max(lower - true, 0.0) + max(true - upper, 0.0)
        return float(upper - lower + 2.0 / (1.0 - self.level) * miss)

    def number(self, name: str) -> float | None:
        """Another column of the line."""
        return _number(self.line, name)

    @property
    def _three(self) -> tuple[float, float, float]:
        if self.lower is None or self.upper is None or self.true is None:
            raise ValueError(f"There is no promise in {self.key}.")
        return max(self.lower, 1e-12), self.true, self.upper  # a lower end of 0 has no logarithm

    def _widened(self) -> Run:
        """Ends moved out by the sampling error of what was realised, in quadrature (log scale)."""
        if self.lower is None or self.upper is None or self.true is None:
            return self
        own = float(ndtri(0.5 + self.level / 2.0)) * float(self.line["realised_se"]) / self.true
        lower, upper = np.log([max(self.lower, 1e-12), self.upper])
        middle = np.clip(np.log(float(self.line["promised"])), lower, upper)
        ends = np.exp(
            [middle - np.hypot(middle - lower, own), middle + np.hypot(upper - middle, own)]
        )
        return replace(self, lower=float(ends[0]), upper=float(ends[1]))


def _number(line: Mapping[str, str], name: str) -> float | None:
    text = line.get(name, "")
    return float(text) if text else None


# Sets of runs -----------------------------------------------------------------------------------


def family_of(run: Run) -> Family:
    """What the family says of itself."""
    return _named(run.family)


_named = cache(family)


def answered(runs: Sequence[Run]) -> list[Run]:
    """Runs with a promise."""
    return [run for run in runs if run.answered]


def coverage(runs: Sequence[Run]) -> Interval:
    """How often the interval holds the true risk, with an interval by family."""
    return mean_by_cluster(runs, lambda run: float(run.covered))


def half_width(runs: Sequence[Run]) -> float:
    """Geometric mean of half the width, as a factor."""
    return geometric_mean(run.half_width for run in runs)


def score(runs: Sequence[Run]) -> float:
    """Mean interval score."""
    return float(np.mean([run.score for run in runs]))


def mean_by_cluster(runs: Sequence[Run], value: Callable[[Run], float]) -> Interval:
    """Mean over runs; the interval by a bootstrap that draws whole families (or sites).

    Parameters
    ----------
    runs : sequence of Run
    value : function of a run
    """
    names = {name: place for place, name in enumerate(dict.fromkeys(r.cluster for r in runs))}
    if not names:
        return Interval(np.nan, np.nan, np.nan)
    sums, counts = np.zeros(len(names)), np.zeros(len(names))
    for run in runs:
        sums[names[run.cluster]] += value(run)
        counts[names[run.cluster]] += 1.0
    picks = np.random.default_rng(0).integers(0, len(names), (N_BOOT, len(names)))
    drawn: Array = sums[picks].sum(axis=1) / counts[picks].sum(axis=1)
    tail = 50.0 * (1.0 - LEVEL)
    low, high = np.percentile(drawn, [tail, 100.0 - tail])
    return Interval(float(sums.sum() / counts.sum()), float(low), float(high))


def pairs(old: Sequence[Run], new: Sequence[Run]) -> list[tuple[Run, Run]]:
    """The runs that both code bases answered."""
    there = {run.key: run for run in answered(old)}
    return [(there[run.key], run) for run in answered(new) if run.key in there]


def score_difference(both: Sequence[tuple[Run, Run]]) -> Interval:
    """Mean of new − old interval score over pairs, with an interval by family."""
    before = {new.key: old for old, new in both}
    return mean_by_cluster([new for _, new in both], lambda run: run.score - before[run.key].score)


def score_ratio(both: Sequence[tuple[Run, Run]]) -> float:
    """Mean new over mean old interval score."""
    return score([new for _, new in both]) / score([old for old, _ in both])

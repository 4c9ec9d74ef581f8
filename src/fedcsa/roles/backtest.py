"""What a back-test found: every source in turn played the target for the others.

It is the only available check that p(y|x) is shared, and it sees what one round cannot: a target
that no single source resembles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import bdtrc, ndtri

from fedcsa.findings import Finding, number

#: The chance of so many broken promises, if every promise held at its level, below which the
#: back-test fails.
SIGNIFICANCE = 0.05

Verdict = Literal["passed", "failed", "untested"]
_MEANING: Mapping[Verdict, str] = {
    "passed": "the promises held as often as they should",
    "failed": "promises were broken too often: p(y|x) is probably not shared",
    "untested": "too few sources could play the target to tell",
}
#: A promised risk below this is none.
SMALLEST = 1e-300
#: Broken promises named in the sentence; the findings name all.
MOST_NAMED = 3


@dataclass(frozen=True)
class BacktestRow:
    """One source as the target: what was promised, and what came of it.

    Attributes
    ----------
    promised, lower, upper : float or None
        The estimate and its interval; None where the adaptation was refused.
    status : str
        The verdict of that adaptation, or the reason for its refusal.
    realised, standard_error : float or None
        Risk of the mixture on the source's own rows.
    reference : float or None
        Cross-validated risk of a model fitted on the source's own rows alone.
    if_shared : float or None
        What would have been promised on the assumption that p(y|x) is the same at all sites; the
        promise itself allows for differences. None where they are one.
    naive : float or None
        What the naive method would have promised.
    """

    source: str
    n_rows: int
    status: str
    promised: float | None = None
    lower: float | None = None
    upper: float | None = None
    realised: float | None = None
    standard_error: float | None = None
    reference: float | None = None
    if_shared: float | None = None
    naive: float | None = None

    @property
    def covered(self) -> bool | None:
        """Whether the realised risk lies in the interval; None where there is none."""
        if self.lower is None or self.upper is None or self.realised is None:
            return None
        return self.lower <= self.realised <= self.upper

    def kept(self, level: float) -> bool | None:
        """Whether promise and outcome are compatible, given the outcome's own sampling error."""
        if self.lower is None or self.upper is None:
            return None
        if self.realised is None:
            return None
        slack = self.slack(level)
        return self.lower - slack <= self.realised <= self.upper + slack

    def far_off(self, level: float) -> bool | None:
        """Whether a shared p(y|x) would make the estimate wrong by more than a factor of two."""
        expected = self.promised if self.if_shared is None else self.if_shared
        if expected is None or self.realised is None:
            return None
        slack = self.slack(level)
        return self.realised - slack > 2.0 * expected or self.realised + slack < 0.5 * expected

    def slack(self, level: float) -> float:
        """How far the realised risk may be off by the chance in its own rows."""
        return float(ndtri(0.5 + level / 2.0)) * (self.standard_error or 0.0)

    @property
    def factor(self) -> float | None:
        """Realised over promised risk; None where there is none, or none was promised."""
        if self.realised is None or self.promised is None or self.promised <= SMALLEST:
            return None
        factor = self.realised / self.promised
        return factor if math.isfinite(factor) else None

    def finding(self, level: float) -> Finding | None:
        """What is to be said of a broken promise; None where it was kept."""
        if self.kept(level) is not False:
            return None
        numbers = {
            "promised": self.promised,
            "lower": self.lower,
            "upper": self.upper,
            "realised": self.realised,
            "factor": self.factor,
        }
        known = {key: value for key, value in numbers.items() if value is not None}
        return Finding("promise-broken", self.source, known)

    @property
    def regret(self) -> float | None:
        """Realised risk over that of a model of the site's own."""
        if self.realised is None or not self.reference:
            return None
        return self.realised / self.reference


@dataclass(frozen=True)
class Backtest:
    """All sources as targets, and what follows for the study."""

    rows: tuple[BacktestRow, ...]
    level: float

    @property
    def judged(self) -> list[BacktestRow]:
        """Rows with a promise that could be kept or broken."""
        return [row for row in self.rows if row.covered is not None]

    @property
    def broken(self) -> int:
        """Promises that the outcome contradicts."""
        return sum(row.kept(self.level) is False for row in self.rows)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every broken promise by name, also where there are no more than chance would break."""
        found = [row.finding(self.level) for row in self.rows]
        return tuple(finding for finding in found if finding is not None)

    @property
    def sentence(self) -> str:
        """The verdict in words, and which promises were broken.

        A back-test may pass although one source's promise was worth nothing: it asks how often.
        """
        told = f"{self.verdict} — {_MEANING[self.verdict]}"
        if not self.broken or self.verdict == "failed":
            return told
        promises = "promise" if len(self.judged) == 1 else "promises"
        was = "was" if self.broken == 1 else "were"
        count = f"{self.broken} of {len(self.judged)} {promises} {was} broken: {self._named()}"
        return f"passed, but {count}" if self.verdict == "passed" else f"{told}; {count}"

    def _named(self) -> str:
        broken = [row for row in self.rows if row.kept(self.level) is False]
        shown = [
            row.source
            if row.factor is None
            else f"{row.source} (realised {number(row.factor)} times the promised risk)"
            for row in broken[:MOST_NAMED]
        ]
        more = len(broken) - len(shown)
        return ", ".join(shown) + (f" and {more} more" if more else "")

    @property
    def coverage(self) -> float | None:
        """Share of intervals that hold the realised risk."""
        judged = self.judged
        return sum(bool(row.covered) for row in judged) / len(judged) if judged else None

    @property
    def calibration(self) -> float | None:
        """Geometric mean of promised over realised risk; 1 is perfect, below 1 too hopeful."""
        return _typical([(row.promised, row.realised) for row in self.judged])

    @property
    def naive_calibration(self) -> float | None:
        """The same, had the naive estimate been promised."""
        return _typical([(row.naive, row.realised) for row in self.judged])

    @property
    def regret(self) -> float | None:
        """Geometric mean of realised risk over that of a model of the site's own."""
        return _typical([(row.realised, row.reference) for row in self.judged])

    @property
    def chance(self) -> float:
        """Chance of at least so many broken promises if each held with probability `level`."""
        if self.broken == 0:
            return 1.0
        return float(bdtrc(self.broken - 1, len(self.judged), 1.0 - self.level))

    @property
    def far_off(self) -> int:
        """Sites at which a shared p(y|x) is surely wrong by more than a factor of two in risk."""
        return sum(bool(row.far_off(self.level)) for row in self.judged)

    @property
    def verdict(self) -> Verdict:
        """The verdict on the study.

        ``"failed"``: too many broken promises, or p(y|x) is not shared: at more than half of the
        sites it would take more than a factor of two in the risk. ``"untested"``: fewer than half
        of the sites were judged.
        """
        if self.chance < SIGNIFICANCE or 2 * self.far_off > len(self.judged):
            return "failed"
        return "passed" if 2 * len(self.judged) >= len(self.rows) else "untested"


def _typical(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    """Geometric mean of ratios, of those pairs that have one above 0."""
    logs = [np.log(above / below) for above, below in pairs if above and below]
    return float(np.exp(np.mean(logs))) if logs else None

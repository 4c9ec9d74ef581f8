"""What a back-test found: every source in turn played the target for the others.

Only a back-test compares promises with outcomes before the target has any. It sees what
one study cannot: a site that differs from the others by more than they differ from each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedcsa.core.arrays import Array, bdtrc
from fedcsa.core.folds import fold_key, fold_labels, generator_for
from fedcsa.core.measures import (
    NOT_ESTIMABLE,
    from_link,
    measure_columns,
    measure_values,
    measure_variances,
)
from fedcsa.core.normal import normal_quantile
from fedcsa.core.realised import Place, place
from fedcsa.core.scores import JACKKNIFE_GROUPS, ScoreDesign, ScoreSums, told_by
from fedcsa.core.subgroups import members_of_subgroups
from fedcsa.findings import Finding
from fedcsa.target.risk_units import RiskScale, on_scale, ratio_on, risk_word
from fedcsa.words import number

if TYPE_CHECKING:
    from fedcsa.plan import Plan
    from fedcsa.target.promised_measures import MeasurePromise

#: The chance of so many broken promises, if every promise held at its level, below which the
#: back-test fails.
SIGNIFICANCE = 0.05
#: Broken promises named in a sentence; the findings name all.
MOST_NAMED = 3

# Every measure on rows whose outcomes are known, beside what was promised -----------------------


@dataclass(frozen=True)
class MeasureOutcome:
    """One measure: what was promised, and what came of it.

    Attributes
    ----------
    name, subgroup, threshold, of_class
        As in `MeasurePromise`.
    promised, lower, upper : float
        The promise and its prediction interval.
    realised, realised_lower, realised_upper : float
        The measure on rows whose outcomes are known, and its own interval at the same level.
    """

    name: str
    subgroup: str
    threshold: float | None
    of_class: str | None
    promised: float
    lower: float
    upper: float
    realised: float
    realised_lower: float
    realised_upper: float

    @property
    def covered(self) -> bool:
        """Whether the realised value lies in the promised interval."""
        return self.lower <= self.realised <= self.upper

    @property
    def kept(self) -> bool:
        """Whether the two intervals meet: the rows' own sampling error is allowed for."""
        return self.realised_lower <= self.upper and self.lower <= self.realised_upper


def realised_rows(
    plan: Plan,
    design: ScoreDesign,
    rows: tuple[Array, Array, Array],
    *,
    source: str = "",
    patients: Array | None = None,
    min_rows: int = 1,
) -> Array:
    """Every measure that the rows let estimate, (measures, 5).

    Its columns are the subgroup, the place among `measure_columns`, the value, and the ends of
    its interval at the study's level.

    Parameters
    ----------
    plan : Plan
    design : ScoreDesign
        Of the study whose promises they are held against.
    rows : (X, y, p)
        Features (rows, features), outcomes (rows,), predictions (rows,) or (rows, classes).
    source : str
        Name of the site, from which its jackknife groups follow.
    patients : array of shape (rows,), optional
        Which rows are of one patient.
    min_rows : int
        As for `ScoreSums.told`.
    """
    sums = score_sums(plan, design, rows, source=source, patients=patients)
    table, exact, parts = sums.told(min_rows)
    variances = measure_variances(parts, design)
    z, found = normal_quantile(0.5 + plan.level / 2.0), []
    for s, part in told_by(design, table, exact).items():
        values, _, x = measure_values(part)
        for k, column in enumerate(measure_columns(design)):
            if variances[s, k] != NOT_ESTIMABLE:
                slack = z * np.sqrt(variances[s, k])
                ends = np.sort(from_link(column.measure, x[k] + slack * np.array([-1.0, 1.0])))
                found.append([s, k, values[k], *ends.tolist()])
    return np.array(found, dtype=np.float64).reshape(-1, 5)


def score_sums(
    plan: Plan,
    design: ScoreDesign,
    rows: tuple[Array, Array, Array],
    row_weights: Array | None = None,
    *,
    source: str = "",
    patients: Array | None = None,
) -> ScoreSums:
    """What the rows tell of outcomes by score.

    Parameters
    ----------
    plan : Plan
    design : ScoreDesign
    rows : (X, y, p)
        As for `realised_rows`.
    row_weights : array of shape (rows,), optional
        They sum to one; by default all are alike.
    source : str
        As for `realised_rows`.
    patients : array of shape (rows,), optional
        Likewise.
    """
    X, y, p = rows
    n, d = X.shape
    key = fold_key(generator_for(plan.seed, source, "jackknife"))
    labels = fold_labels(0, n, JACKKNIFE_GROUPS, key, patients)
    inside = None
    if plan.subgroups:
        inside = members_of_subgroups(plan.subgroups, plan.features, X, np.zeros(d), np.ones(d))
    w = np.full(n, 1.0 / n) if row_weights is None else row_weights
    return ScoreSums.of_rows(design, y, p, w, labels, inside)


def outcomes_of(
    promises: Sequence[MeasurePromise], realised: Array, design: ScoreDesign
) -> tuple[MeasureOutcome, ...]:
    """Promised against realised, for every measure that has both.

    Parameters
    ----------
    promises : sequence of MeasurePromise
        For everybody, then for every subgroup; within each in the order of `measure_columns`.
    realised : array of shape (measures, 5)
        As `realised_rows` gives them.
    design : ScoreDesign
    """
    columns = len(measure_columns(design))
    found = []
    for s, k, value, lower, upper in realised.tolist():
        place = int(s) * columns + int(k)
        if place < len(promises) and not promises[place].why_not:  # else none was made
            told = promises[place]
            what = told.name, told.subgroup, told.threshold, told.of_class
            promised = told.estimate, told.lower, told.upper
            found.append(MeasureOutcome(*what, *promised, value, lower, upper))
    return tuple(found)


@dataclass(frozen=True)
class MeasureRecord:
    """How often the promises of one measure held, over sites that played the target.

    Attributes
    ----------
    name, subgroup, threshold, of_class
        As in `MeasurePromise`.
    judged : int
        Sites with a promise and an outcome.
    covered, kept : int
        Of these, how many realised values lie in the interval; and how many do not contradict it,
        the sampling error of the site's own rows allowed for.
    """

    name: str
    subgroup: str
    threshold: float | None
    of_class: str | None
    judged: int
    covered: int
    kept: int


def measure_records(outcomes: Sequence[MeasureOutcome]) -> tuple[MeasureRecord, ...]:
    """One record per measure, in the order in which they come."""
    by_place: dict[tuple[str, str, float | None, str | None], list[MeasureOutcome]] = {}
    for item in outcomes:
        place = item.name, item.subgroup, item.threshold, item.of_class
        by_place.setdefault(place, []).append(item)
    return tuple(
        MeasureRecord(*place, len(each), sum(x.covered for x in each), sum(x.kept for x in each))
        for place, each in by_place.items()
    )


# The back-test ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class BacktestRow:
    """One source as the target: what was promised, and what came of it.

    Attributes
    ----------
    source : str
    n_rows : int
    status : str
        The verdict of that study in words, "not reached", or the error that ended it.
    promised, lower, upper : float or None
        The promised risk and its prediction interval; None where nothing was promised.
    realised, standard_error : float or None
        Risk of the mixture on the source's own rows.
    reference : float or None
        Cross-validated risk of a model fitted on the source's own rows alone.
    held_for : tuple of float
        Share of its rows whose interval or set held, by quarter of their distance from its
        centre, nearest first; empty if there was none.
    measures : tuple of MeasureOutcome
        Every measure, promised and realised.
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
    held_for: tuple[float, ...] = ()
    measures: tuple[MeasureOutcome, ...] = ()

    @property
    def covered(self) -> bool | None:
        """Whether the realised risk lies in the interval; None where there is none."""
        if self.lower is None or self.upper is None or self.realised is None:
            return None
        return self.lower <= self.realised <= self.upper

    def slack(self, level: float) -> float:
        """How far the realised risk may be off by the chance in its own rows."""
        return normal_quantile(0.5 + level / 2.0) * (self.standard_error or 0.0)

    def place(self, level: float) -> Place | None:
        """Where the realised risk lies, its own sampling error allowed for; None without one."""
        if self.lower is None or self.upper is None or self.realised is None:
            return None
        slack = self.slack(level)
        return place(self.realised - slack, self.realised + slack, self.lower, self.upper)

    def kept(self, level: float) -> bool | None:
        """Whether the outcome does not contradict the promise; None where there is none."""
        found = self.place(level)
        return None if found is None else found == "inside"

    def far_off(self, level: float) -> bool:
        """Whether the realised risk lies beyond twice the nearer end of the interval."""
        return self.place(level) in ("far above", "far below")

    @property
    def factor(self) -> float | None:
        """Realised over promised risk; None where there is none, or none was promised."""
        if self.realised is None or not self.promised:
            return None
        factor = self.realised / self.promised
        return factor if math.isfinite(factor) else None

    def factor_on(self, scale: RiskScale) -> float | None:
        """The `factor` as people are told risks."""
        return None if self.factor is None else ratio_on(scale, self.factor)

    def finding(self, level: float, scale: RiskScale = "loss") -> Finding | None:
        """What is to be said of a broken promise; None where it was kept.

        Parameters
        ----------
        level : float
            Of the prediction interval.
        scale : {"loss", "root", "sum"}
            How people are told risks.
        """
        if self.kept(level) is not False:
            return None
        names = ("promised", "lower", "upper", "realised")
        risks = {name: value for name in names if (value := getattr(self, name)) is not None}
        told = {name: on_scale(scale, value) for name, value in risks.items()}
        factor = self.factor_on(scale)
        known = told if factor is None else {**told, "factor": factor}
        return Finding("promise-broken", self.source, known)

    @property
    def regret(self) -> float | None:
        """Realised risk over that of a model of the site's own."""
        if self.realised is None or not self.reference:
            return None
        return self.realised / self.reference

    def told(self, scale: RiskScale) -> str:
        """How the realised risk relates to the promised one, in words."""
        risk, factor = f"the {risk_word(scale)} at {self.source!r}", self.factor_on(scale)
        if factor is None:
            return f"{risk} was far from what was promised"
        return f"{risk} was {number(factor)} times what was promised"


@dataclass(frozen=True)
class Backtest:
    """All sources as targets, and what follows for the study.

    Attributes
    ----------
    rows : tuple of BacktestRow
    level : float
        Of the prediction intervals.
    scale : {"loss", "root", "sum"}
        How sentences, findings and screens tell risks: as they are, of a squared loss their
        root, of Brier scores of many classes their sum. `rows` and numbers have them as they are.

    Examples
    --------
    >>> kept = BacktestRow("a", 90, "use it", 1.0, 0.8, 1.2, realised=1.1, standard_error=0.1)
    >>> broken = BacktestRow("b", 90, "use it", 1.0, 0.8, 1.2, realised=675.0, standard_error=9.0)
    >>> Backtest((kept, kept, broken), 0.95).sentence
    "failed: the risk at 'b' was 675 times what was promised"
    """

    rows: tuple[BacktestRow, ...]
    level: float
    scale: RiskScale = "loss"

    @property
    def judged(self) -> list[BacktestRow]:
        """Rows with a promise that could be kept or broken."""
        return [row for row in self.rows if row.covered is not None]

    @property
    def _contradicted(self) -> list[BacktestRow]:
        return [row for row in self.rows if row.kept(self.level) is False]

    @property
    def broken(self) -> int:
        """Promises that the outcome contradicts."""
        return len(self._contradicted)

    @property
    def far_off(self) -> tuple[str, ...]:
        """The sources whose realised risk lies beyond twice the nearer end of the interval."""
        return tuple(row.source for row in self.rows if row.far_off(self.level))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every broken promise by name, also where there are no more than chance would break."""
        found = [row.finding(self.level, self.scale) for row in self.rows]
        return tuple(finding for finding in found if finding is not None)

    @property
    def chance(self) -> float:
        """Chance of at least so many broken promises if each held with probability `level`."""
        if self.broken == 0:
            return 1.0
        return float(bdtrc(self.broken - 1, len(self.judged), 1.0 - self.level))

    @property
    def verdict(self) -> Literal["passed", "failed", "untested"]:
        """The verdict on the study.

        ``"failed"``: a realised risk lies beyond twice the nearer end of its interval, whatever
        the count; or so many promises were broken as chance hardly breaks. ``"untested"``: fewer
        than half of the sites were judged.
        """
        if self.far_off or self.chance < SIGNIFICANCE:
            return "failed"
        return "passed" if 2 * len(self.judged) >= len(self.rows) else "untested"

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        if self.far_off:
            return self._named([row for row in self.rows if row.far_off(self.level)])
        if self.verdict == "failed":
            return f"{self._count}, where chance would break fewer"
        if self.verdict == "untested":
            return "too few sources could play the target to tell"
        return "the promises held as often as they should"

    @property
    def sentence(self) -> str:
        """The verdict and its reason; where it did not fail, also which promises were broken."""
        if not self.broken or self.verdict == "failed":
            return f"{self.verdict}: {self.reason}"
        broken = f"{self._count}: {self._named(self._contradicted)}"
        if self.verdict == "untested":
            return f"untested: {self.reason}; {broken}"
        return f"passed, but {broken}"

    @property
    def _count(self) -> str:
        promises = "promise" if len(self.judged) == 1 else "promises"
        was = "was" if self.broken == 1 else "were"
        return f"{self.broken} of {len(self.judged)} {promises} {was} broken"

    def _named(self, rows: Sequence[BacktestRow]) -> str:
        """What was broken where, the worst first."""

        def size(row: BacktestRow) -> float:
            return math.inf if not row.factor else abs(math.log(row.factor))

        worst = sorted(rows, key=size, reverse=True)[:MOST_NAMED]
        more = len(rows) - len(worst)
        shown = ", ".join(row.told(self.scale) for row in worst)
        return shown + (f", and so at {more} more" if more else "")

    @property
    def measures(self) -> tuple[MeasureRecord, ...]:
        """How often the promises of every measure held."""
        return measure_records([item for row in self.rows for item in row.measures])

    @property
    def coverage(self) -> float | None:
        """Share of intervals that hold the realised risk."""
        judged = self.judged
        return sum(bool(row.covered) for row in judged) / len(judged) if judged else None

    @property
    def held_for(self) -> tuple[float, ...]:
        """Share of patients whose interval or set held, by quarter of distance, nearest first."""
        told = [row for row in self.rows if row.held_for]
        if not told:
            return ()
        shares, rows = [row.held_for for row in told], [row.n_rows for row in told]
        return tuple(np.average(shares, axis=0, weights=rows).tolist())

    @property
    def calibration(self) -> float | None:
        """Geometric mean of promised over realised risk; 1 is perfect, below 1 too hopeful."""
        return _typical([(row.promised, row.realised) for row in self.judged])

    @property
    def regret(self) -> float | None:
        """Geometric mean of realised risk over that of a model of the site's own."""
        return _typical([(row.realised, row.reference) for row in self.judged])


def _typical(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    """Geometric mean of ratios, of those pairs that have one above 0."""
    logs = [np.log(above / below) for above, below in pairs if above and below]
    return float(np.exp(np.mean(logs))) if logs else None

"""The answer as it is shown: one typed view, which terminal, notebook, page and charts render."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedcsa.answer.measure_words import (
    WORDS,
    MeasureWords,
    loss_measure,
    loss_words_of,
    risk_name,
)
from fedcsa.answer.store import (
    HISTORY,
    backtest_to_json,
    findings_to_json,
    load_history,
    load_ledgers,
    plain,
    read_json,
    restore,
    whole,
)
from fedcsa.answer.updated import ShownUpdate
from fedcsa.core.losses import BOUNDED
from fedcsa.core.normal import normal_quantile
from fedcsa.core.table import Table1
from fedcsa.findings import ADVICE, REFUSALS, Advice, Finding, left_out
from fedcsa.messages.messages import ExaminationReport
from fedcsa.messages.policy import LedgerEntry
from fedcsa.plan import Plan
from fedcsa.target.adaptation import Adaptation
from fedcsa.target.backtest_result import Backtest
from fedcsa.target.promised_measures import (
    Calibration,
    DecisionCurve,
    MeasurePromise,
    Recalibration,
    RiskDistribution,
)
from fedcsa.target.risk_units import RiskScale, in_units, on_scale, risk_scale
from fedcsa.target.verdict import Leg, Promise
from fedcsa.update import Update
from fedcsa.words import percent

RESULT, FEDERATION = "adaptation.json", "federation.json"
#: Sources in a chart: more lines cannot be read.
MOST_SOURCES = 24
#: Features and sources in the Love plot, for the same reason.
MOST_FEATURES, MOST_PANELS = 20, 6
#: Why a source found nothing, in words; a rule of its policy is shown as it is.
_REASONS: Mapping[str, str] = {
    "outcomes_alike": "not estimable: its outcomes are all alike",
    "no_loss": "not estimable: no loss on any of its rows",
    "loss_not_positive": "not estimable: a loss is negative",
    "mixture_failed": "not estimable: the mixture cannot predict its rows",
    "missing": "no answer came",
}


@dataclass(frozen=True)
class SourceLine:
    """What is said of one source.

    Attributes
    ----------
    name : str
    weight : float or None
        Of its model; None if it sent none.
    n_rows : int
    effective_rows, imbalance : float
        After weighting to the target's table.
    reaches : bool
        Whether its weighted rows stand for the target's population.
    before, after : tuple of float
        Differences of means from the target's, one a feature, in the target's standard
        deviations, before and after weighting.
    found_text : str
        In words: the risk of the others' mixture on its rows, with its own interval; or why there
        is none.
    """

    name: str
    weight: float | None
    n_rows: int
    effective_rows: float
    imbalance: float
    reaches: bool
    before: tuple[float, ...] = field(repr=False)
    after: tuple[float, ...] = field(repr=False)
    found_text: str = "—"

    @property
    def weight_text(self) -> str:
        """Its weight, in words."""
        return "—" if self.weight is None else percent(self.weight)


@dataclass(frozen=True)
class Point:
    """One candidate: its estimated risk with a standard error, and whether it was chosen.

    Its `place` is its number in the order in which candidates were asked for, from 1.
    """

    candidate: Mapping[str, Any]
    risk: float
    error: float
    chosen: bool
    place: int = 0


@dataclass(frozen=True)
class MethodLine:
    """What one method says: its estimate, in units that people use, its choice, the weights.

    The title says on which weights of rows it runs.
    """

    method: str
    title: str
    risk: float
    candidate: Mapping[str, Any]
    weights: Mapping[str, float]


@dataclass(frozen=True)
class View:
    """All that is shown of an answer. `view_of` makes it.

    Attributes
    ----------
    study : str
    advice : {"use", "care", "none", "no"}
        Of the study, before outcomes arrived.
    why : str
        The reason for the verdict, with outcomes if there are any, in one line.
    legs : tuple of Leg
        What it stands on.
    plan, table : Plan, Table1, or None
        The study's design and the target's table; None if the target keeps its result to itself.
    has_model : bool
        Whether the study ended with one, or judged one.
    risk : float or None
        At the target; None if there is no model or no source resembles the target.
    promise : Promise or None
    measures : tuple of MeasurePromise
        What a new site may expect and what every source found; the study's own loss among them,
        in units that people use: the root of a squared one.
    differences : tuple of MeasurePromise
        Each subgroup less all others.
    calibration : tuple of Calibration
    risk_distributions : tuple of RiskDistribution
        One each for two classes and for numbers, one a class for more; none if not told.
    recalibration : Recalibration or None
    decision_curve : DecisionCurve or None
    half_widths : tuple of float
        Of the interval of nine of ten patients, by distance from the target's centre, nearest
        first, as outcomes widened it; none for classes, or if too few rows stand behind it.
    sources : tuple of SourceLine
        Those that reported, the heaviest first.
    points : tuple of Point
        The candidates that were chosen from; empty if there is no model.
    rounds : tuple of int
        How many candidates were asked for in every round.
    methods : tuple of MethodLine
        The study's own, and those that it compares.
    backtest : Backtest or None
    findings : tuple of Finding
    absent : mapping of str to str
        Sources that did not report, and what became of them.
    outcome : str
        How a study over a federation ended, in the folder of whoever submitted it.
    update : Update or None
        What outcomes at the target have changed since.
    ledgers : mapping of str to tuple of LedgerEntry
        What left each site, as far as is known here.
    hashes : mapping of str to str
        SHA-256 of the files, a ledger's under its site.
    made_with : str
        The version of fedcsa that computed it.
    """

    study: str
    advice: Advice
    why: str
    legs: tuple[Leg, ...] = ()
    plan: Plan | None = None
    table: Table1 | None = None
    has_model: bool = False
    risk: float | None = None
    promise: Promise | None = None
    measures: tuple[MeasurePromise, ...] = ()
    differences: tuple[MeasurePromise, ...] = ()
    calibration: tuple[Calibration, ...] = ()
    risk_distributions: tuple[RiskDistribution, ...] = ()
    recalibration: Recalibration | None = None
    decision_curve: DecisionCurve | None = None
    half_widths: tuple[float, ...] = ()
    sources: tuple[SourceLine, ...] = ()
    points: tuple[Point, ...] = ()
    rounds: tuple[int, ...] = ()
    methods: tuple[MethodLine, ...] = ()
    backtest: Backtest | None = None
    findings: tuple[Finding, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    outcome: str = ""
    update: Update | None = None
    ledgers: Mapping[str, tuple[LedgerEntry, ...]] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    made_with: str = ""

    def _repr_html_(self) -> str:
        from fedcsa.answer.notebook import view_html

        return view_html(self)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values; the ledgers have a command of their own."""
        told = plain(replace(self, ledgers={}))
        derived = {
            "words": ADVICE[self.advice][0].lower(),
            "findings": findings_to_json(self.findings),
            "backtest": None if self.backtest is None else backtest_to_json(self.backtest),
        }
        return {name: value for name, value in told.items() if name != "ledgers"} | derived

    @property
    def heading(self) -> tuple[str, str, str]:
        """What to do with the model: for a style sheet, in words, and as a sign."""
        if self.plan is None and self.outcome == "done":
            return "care", "Ask the target", "?"
        advice = self.advice if self.update is None else self.update.verdict.advice
        return (advice, *ADVICE[advice])

    @property
    def came(self) -> ShownUpdate | None:
        """What outcomes change, as people read it; None before any came."""
        if self.update is None or self.plan is None:
            return None
        return ShownUpdate(self.update, self.plan)

    @property
    def features(self) -> tuple[str, ...]:
        """Their names, in the order of every source's differences."""
        return () if self.plan is None else self.plan.features

    @property
    def classes(self) -> tuple[Any, ...]:
        """Of the outcome; none of a number."""
        return () if self.plan is None else self.plan.classes

    @property
    def is_given(self) -> bool:
        """Whether the study judges a model that was made elsewhere."""
        return self.plan is not None and self.plan.method == "given"

    @property
    def given_title(self) -> str:
        """What such a model is called."""
        return str((self.plan and self.plan.model.get("title")) or "a given model")

    @property
    def tells_rows(self) -> bool:
        """Whether the target tells its rows, not its Table 1."""
        return self.plan is not None and self.plan.exchange == "rows"

    @property
    def scale(self) -> RiskScale:
        """How people are told a risk."""
        return "loss" if self.plan is None else risk_scale(self.plan)

    @property
    def risk_name(self) -> str:
        """What a risk is called as people are told it."""
        return self.loss_words.title if self.plan is None else risk_name(self.plan)

    @property
    def told_points(self) -> tuple[Point, ...]:
        """The candidates with their risks as people are told them; errors to first order."""
        found = []
        for point in self.points:
            ends = [on_scale(self.scale, point.risk + s * point.error) for s in (-1.0, 1.0)]
            error = (ends[1] - ends[0]) / 2.0
            found.append(replace(point, risk=on_scale(self.scale, point.risk), error=error))
        return tuple(found)

    @property
    def round_ends(self) -> tuple[int, ...]:
        """The place of the last candidate of every round of a search; none if there was none."""
        searched = self.plan is not None and bool(self.plan.space)
        return tuple(itertools.accumulate(self.rounds)) if searched else ()

    def round_of(self, point: Point) -> int:
        """In which round of a search a candidate was asked for, from 1."""
        return 1 + sum(end < point.place for end in self.round_ends)

    @property
    def smallest_so_far(self) -> tuple[float, ...]:
        """The smallest risk up to every candidate, as people are told it."""
        return tuple(itertools.accumulate((point.risk for point in self.told_points), min))

    @property
    def loss_words(self) -> MeasureWords:
        """How the study's loss is told."""
        return WORDS["loss"] if self.plan is None else loss_words_of(self.plan)

    @property
    def loss(self) -> MeasurePromise | None:
        """What is promised of the study's own loss."""
        own = None if self.plan is None or self.promise is None else loss_measure(self.plan)
        return next((item for item in self.everybody if item.name == own), None)

    @property
    def headline(self) -> MeasurePromise | None:
        """The measure of the first screen: AUROC for two classes where known, else the loss."""
        ranked = [m for m in self.everybody if m.name == "auroc" and m.of_class is None]
        first = (*ranked, *([] if self.loss is None else [self.loss]))
        return next((m for m in first if not math.isnan(m.estimate)), None)

    @property
    def everybody(self) -> tuple[MeasurePromise, ...]:
        """The measures over all patients."""
        return tuple(item for item in self.measures if not item.subgroup)

    @property
    def subgroups(self) -> tuple[str, ...]:
        """Names of the subgroups that the study declares, in their order."""
        return tuple(dict.fromkeys(item.subgroup for item in self.measures if item.subgroup))

    @property
    def chosen(self) -> Mapping[str, Any] | None:
        """The chosen candidate; None if there is no model."""
        return next((point.candidate for point in self.points if point.chosen), None)

    @property
    def at_edge(self) -> bool:
        """Whether the chosen value of a parameter lies at the edge of its grid."""
        return any(item.code == "grid-edge" and not item.source for item in self.findings)

    @property
    def weights(self) -> dict[str, float]:
        """The weight of every model, by its source."""
        return {line.name: line.weight for line in self.sources if line.weight is not None}

    @property
    def n_fields(self) -> int:
        """Fields of the messages that left the sites, one message to many counted once."""
        sent = {e.sha256: len(e.fields) for entries in self.ledgers.values() for e in entries}
        return sum(sent.values())

    @property
    def apart(self) -> tuple[Finding, ...]:
        """Findings about sources on which the answer does not rest."""
        without = left_out(self.weights)
        return tuple(
            item for item in self.findings if item.source in without and item.severity != "note"
        )

    @property
    def in_chart(self) -> tuple[SourceLine, ...]:
        """Three quarters of the lines of a chart for the heaviest sources, one for the farthest."""
        return self._some(MOST_SOURCES, MOST_SOURCES // 4)

    @property
    def in_panels(self) -> tuple[SourceLine, ...]:
        """The heaviest sources and the farthest one, for the Love plot."""
        return self._some(MOST_PANELS, 1)

    def _some(self, most: int, n_far: int) -> tuple[SourceLine, ...]:
        """The heaviest sources, and the `n_far` farthest of the rest: the middle is left out."""
        head, rest = self.sources[: most - n_far], self.sources[most - n_far :]
        far = sorted(rest, key=lambda line: -line.imbalance)[:n_far]
        return (*head, *(line for line in rest if line in far))

    @property
    def most_different(self) -> list[int]:
        """Indices of the features that differ most before weighting, for the Love plot."""
        largest = [
            max(map(abs, values))
            for values in zip(*(line.before for line in self.in_panels), strict=True)
        ]
        return sorted(range(len(largest)), key=lambda i: (-largest[i], i))[:MOST_FEATURES]


# From an adaptation, or from a folder --------------------------------------------------------


def view_of(result: Adaptation | str | Path, update: Update | None = None) -> View:
    """The view of an answer.

    Parameters
    ----------
    result : Adaptation or path
        The answer itself; or a result folder, whose models are not needed.
    update : Update, optional
        What outcomes changed, if the answer is not a folder, which knows.
    """
    if isinstance(result, Adaptation):
        return _updated(result, update)
    with whole(Path(result), "something is missing or was changed"):
        return _of_folder(Path(result))


def _of(a: Adaptation) -> View:
    loss = tuple(_loss(a))
    others = (m for m in a.measures if (m.name, m.subgroup) != (loss_measure(a.plan), ""))
    order = list(WORDS)
    measures = sorted((*loss, *others), key=lambda m: order.index(m.name))
    view = View(
        study=a.plan.study,
        advice=a.verdict.advice,
        why=a.verdict.sentence,
        legs=a.verdict.legs,
        plan=a.plan,
        table=a.table,
        has_model=a.stopped is None,
        promise=a.promise,
        measures=tuple(measures),
        differences=a.differences,
        calibration=a.calibration,
        risk_distributions=a.risk_distributions,
        recalibration=a.recalibration,
        decision_curve=a.decision_curve,
        half_widths=a.half_widths,
        sources=_sources(a, loss[0].by_source if loss else {}),
        backtest=a.backtest,
        findings=a.findings,
        absent={
            item.source: f"refused: {item.evidence.get('rule', '')}"
            for item in a.findings
            if item.code == "source-refused" and item.source not in a.reports
        },
        ledgers=a.ledgers,
    )
    if a.stopped is not None:
        return view
    methods = tuple(
        MethodLine(
            method,
            a.plan.titled(method),
            in_units(a.plan, float(found.risk[found.chosen])),
            a.plan.candidates[a.kept[found.chosen]],
            dict(zip(a.sources, found.source_weights.tolist(), strict=True)),
        )
        for method, found in a.estimates.items()
    )
    risk = None if a.refused else in_units(a.plan, a.target_risk)
    return replace(view, risk=risk, points=_points(a), rounds=a.rounds, methods=methods)


def _updated(a: Adaptation, update: Update | None) -> View:
    """The view after outcomes came: verdict and legs are with them, their findings stand first.

    Parameters
    ----------
    a : Adaptation
    update : Update or None
    """
    view = _of(a)
    if update is None:
        return view
    verdict, findings = update.verdict, (*update.findings, *view.findings)
    legs = verdict.legs or view.legs
    return replace(
        view,
        update=update,
        why=verdict.sentence,
        legs=legs,
        findings=findings,
        half_widths=replace(a, intervals=update.intervals).half_widths,
    )


def _loss(a: Adaptation) -> Iterator[MeasurePromise]:
    """The promise as a measure like any other, if there is one."""
    if a.promise is None:
        return
    told = {
        name: found
        for name in a.reaching
        if (found := _found(a.examinations.get(name), a.plan)) is not None
    }
    p = a.promise
    estimate, lower, upper = (in_units(a.plan, x) for x in (p.risk, p.lower, p.upper))
    spread = p.between_sites / 2.0 if a.plan.loss == "squared" else p.between_sites
    name = loss_measure(a.plan)
    yield MeasurePromise(name, "", None, None, estimate, lower, upper, spread, told, "")


def _points(a: Adaptation) -> tuple[Point, ...]:
    """The candidates that were chosen from, in their order; none of a given model."""
    if not a.kept:
        return ()
    own = a.estimate
    return tuple(
        Point(
            a.plan.candidates[k],
            float(own.risk[index]),
            float(own.standard_errors[index]),
            index == own.chosen,
            k + 1,
        )
        for index, k in enumerate(a.kept)
    )


def _sources(
    a: Adaptation, found: Mapping[str, tuple[float, float, float]]
) -> tuple[SourceLine, ...]:
    """Every source that reported, the heaviest first; with what they found of the loss."""
    refused = {x.source: x.evidence for x in a.findings if x.code in REFUSALS}
    reasons = {x.source: x.evidence for x in a.findings if x.code == "not-examined"}
    words, lines = WORDS[loss_measure(a.plan)], []
    for name, report in a.reports.items():
        near, told = name in a.reaching, "—"
        if name in found:
            told = words.with_interval(*found[name])
        elif not near:
            told = "does not reach the target"
        elif name in reasons:
            reason = str(reasons[name].get("reason", ""))
            told = _REASONS.get(reason, reason)
        elif name in refused:
            told = f"refused: {refused[name].get('rule', '')}"
        lines.append(
            SourceLine(
                name=name,
                weight=a.source_weights.get(name),
                n_rows=report.n_rows,
                effective_rows=report.effective_rows,
                imbalance=report.imbalance,
                reaches=near,
                before=tuple(map(float, report.difference_before)),
                after=tuple(map(float, report.difference_after)),
                found_text=told,
            )
        )
    return tuple(sorted(lines, key=lambda x: (-(x.weight or 0.0), x.imbalance, x.name)))


def _found(examined: ExaminationReport | None, plan: Plan) -> tuple[float, float, float] | None:
    """Risk f and exp(log f ± z √v), with z = 1.96 at 95 %, in units that people use."""
    if examined is None or examined.reason:
        return None
    step = normal_quantile(0.5 + plan.level / 2.0) * math.sqrt(examined.risk_variance)
    step = math.exp(min(step, 300.0))  # a few rows may have a variance that overflows
    largest = 1.0 if plan.loss in BOUNDED else math.inf
    ends = examined.risk / step, min(examined.risk * step, largest)
    value, lower, upper = (in_units(plan, x) for x in (examined.risk, *ends))
    return value, lower, upper


def _of_folder(folder: Path) -> View:
    """What a result folder shows, or a `ResultError`."""

    def optional(name: str) -> dict[str, Any]:
        return read_json(folder / name) if (folder / name).is_file() else {}

    federation = optional(FEDERATION)
    content = optional(RESULT) if federation else read_json(folder / RESULT)
    ledgers: Mapping[str, tuple[LedgerEntry, ...]] = {}
    if content.get("sites") and (folder / "ledgers").is_dir():
        ledgers = load_ledgers(folder)
    files = [name for name in (RESULT, "study.toml", HISTORY) if (folder / name).is_file()]
    hashes = {name: _hash(folder / name) for name in files}
    for position, site in enumerate(ledgers):
        hashes[f"ledger of {site}"] = _hash(folder / "ledgers" / f"{position}.jsonl")
    outcome = str(federation.get("outcome", ""))
    why = f"there is no model: the study ended ({outcome})"
    view = View(str(federation.get("study", "")), "no", why)
    if content:
        adaptation = restore(content, folder)
        view = _updated(adaptation, load_history(folder, adaptation).last)
    fates = {**view.absent, **(federation.get("sources") or optional("sources.json"))}
    reported = {line.name for line in view.sources}
    return replace(
        view,
        absent={str(name): str(fates[name]) for name in sorted(fates) if name not in reported},
        outcome=outcome,
        ledgers=ledgers,
        hashes=hashes,
        made_with=str(content.get("fedcsa", "")),
    )


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

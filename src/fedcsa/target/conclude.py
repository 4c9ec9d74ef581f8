"""Named dangers: what a finished adaptation shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcsa.core.losses import risk_terms
from fedcsa.core.units import OtherUnit
from fedcsa.errors import NoOverlapError
from fedcsa.findings import CAUSES, Finding
from fedcsa.messages.messages import RiskReport
from fedcsa.models.description import PENALTY, RATIO_POWER, thaw
from fedcsa.models.registry import takes_weights
from fedcsa.models.space import at_edges
from fedcsa.target.estimate import (
    MAX_IMBALANCE,
    MIN_EFFECTIVE_ROWS,
    NO_OVERLAP,
    validated,
)
from fedcsa.target.verdict import far_examiners

if TYPE_CHECKING:
    from fedcsa.target.adaptation import Adaptation

#: The mean ratio must be 1; a good one is not off by a factor of two.
RATIO_MEAN = (0.5, 2.0)
#: The AUROC of a guess.
GUESSING = 0.5
#: With more of the weight, the answer is in effect that of one source.
DOMINANT = 0.9
#: A row with a larger share of the weight is named: five such rows would be the whole source.
HEAVY_ROW = 0.2
#: So is one that makes up more of the variance of a weighted mean than all others together.
HALF = 0.5
#: Correlations of two sources that differ by more, and by more than chance would explain among
#: many pairs (four standard errors), are named.
CORRELATION_GAP, CORRELATION_ERRORS = 0.4, 4.0
#: If so many outcomes of other classes are expected, chance alone seldom brings none: e⁻³ is 5 %.
MISSED = 3.0
#: Bounds that no wider grid could pass.
NATURAL_BOUNDS = {PENALTY: (0.0,), RATIO_POWER: (0.0, 1.0)}


def no_overlap(adaptation: Adaptation) -> NoOverlapError:
    """What a refusal says of the nearest source."""
    name = min(adaptation.sources, key=lambda name: adaptation.reports[name].imbalance)
    nearest = adaptation.reports[name]
    worst = int(np.argmax(np.abs(nearest.difference_after)))
    off = (
        f"still lies {abs(nearest.difference_after[worst]):.1f} standard deviations off in "
        f"{adaptation.plan.features[worst]!r} after weighting"
    )
    if nearest.imbalance <= MAX_IMBALANCE:
        off = (
            f"has {nearest.effective_rows:.1f} effective rows, fewer than {MIN_EFFECTIVE_ROWS:.0f}"
        )
    return NoOverlapError(
        f"At least one source must resemble the target; the nearest, {name!r}, {off}. Look for "
        "another source, or insist with on_no_overlap='predict' and get a model without an "
        "interval."
    )


def findings_of(adaptation: Adaptation) -> tuple[Finding, ...]:
    """All findings that the messages support, by source and then about the choice."""
    return tuple(finding for finder in FINDERS for finding in finder(adaptation))


def _sources(adaptation: Adaptation) -> Iterator[Finding]:
    """What a source said itself, how its ratio and its weights are, and how far off it lies."""
    for name in adaptation.sources:
        report = adaptation.reports[name]
        for item in sorted(report.findings, key=lambda item: item["code"] not in CAUSES):
            if item["code"] != "grid-edge" or not adaptation.plan.preset:  # which sets that grid
                yield _told(item, name, adaptation.plan.features)
        if report.failed:
            reasons = ", ".join(sorted(set(report.failed.values())))
            evidence = {"candidates": float(len(report.failed)), "of": float(len(report.risk))}
            yield Finding("candidate-failed", name, {**evidence, "reason": reasons})
        if len(report.loss_mean) and adaptation.plan.exchange == "rows":
            yield from _ratio(adaptation, name, report)
        yield from _weights(adaptation, name, report)
    yield from _claims(adaptation)


def _told(item: Mapping[str, Any], source: str, features: Sequence[str]) -> Finding:
    """A finding of a source's own; a column and a conversion get their words here.

    Parameters
    ----------
    item : mapping
        As in its report, accepted.
    source : str
    features : sequence of str
        Of the study.
    """
    code, evidence = str(item["code"]), item["evidence"]
    if code == "other-unit":
        unit = OtherUnit(int(evidence["column"]), evidence["conversion"], evidence["direction"])
        evidence = {features[unit.column]: unit.words}
    return Finding(code, source, evidence)


def _claims(adaptation: Adaptation) -> Iterator[Finding]:
    """What a source claims and does not count in full."""
    plan, reported = adaptation.plan, adaptation.reported
    if not plan.examined:
        return
    for name in reported.names:
        rows, most = reported.reports[name].effective_rows, reported.most_rows
        if rows > most:
            yield Finding("rows-claimed", name, {"effective rows": rows, "counted": most})
    if not adaptation.kept:  # of a given model
        return
    for name, times in validated(plan, reported, adaptation.kept)[1].items():
        yield Finding("report-moves-choice", name, {"risk for the others times": times})


def _ratio(adaptation: Adaptation, name: str, report: RiskReport) -> Iterator[Finding]:
    """Dangers of a density ratio.

    Parameters
    ----------
    adaptation : Adaptation
    name : str
        Of the source.
    report : RiskReport
        Its own.
    """
    terms = risk_terms(report.moments)
    if terms.outcome != "ok":
        yield Finding(terms.outcome, name)
    chosen = adaptation.kept[adaptation.estimate.chosen]
    if terms.divergence[chosen] == 0.0 and adaptation.plan.method == "feddae":
        yield Finding("zero-divergence", name)
    if not RATIO_MEAN[0] <= report.ratio_mean <= RATIO_MEAN[1]:
        yield Finding("ratio-mean-off", name, {"mean ratio": report.ratio_mean})


def _weights(adaptation: Adaptation, name: str, report: RiskReport) -> Iterator[Finding]:
    """Dangers of the weights: few rows, one heavy row, what is left of the imbalance.

    Parameters
    ----------
    adaptation : Adaptation
    name : str
        Of the source.
    report : RiskReport
        Its own.
    """
    if report.effective_rows < MIN_EFFECTIVE_ROWS:
        evidence = {"effective rows": report.effective_rows, "of": float(report.n_judged)}
        yield Finding("few-effective-rows", name, evidence)
    elif report.largest_share > HEAVY_ROW or report.leverage > HALF:
        yield Finding("heavy-row", name, {"share": report.largest_share})
    if report.imbalance > MAX_IMBALANCE:
        after = report.difference_after
        worst = np.argsort(-np.abs(after), kind="stable")[:3]
        off = {adaptation.plan.features[i]: float(after[i]) for i in worst}
        code = "no-overlap" if report.imbalance > NO_OVERLAP else "imbalance"
        yield Finding(code, name, {"imbalance": report.imbalance, **off})


def _examination(adaptation: Adaptation) -> Iterator[Finding]:
    """Who did not show its model, who could not examine, and whether anybody did."""
    examined = adaptation.plan.examined
    for name, report in adaptation.model_reports.items():
        if not report.show and examined:
            yield Finding("model-not-shown", name)
    for name, found in adaptation.examinations.items():
        if found.reason:
            yield Finding("not-examined", name, {"reason": found.reason})
            yield from _silent(adaptation, name)
    for name, (far, times) in far_examiners(adaptation.near_examinations).items():
        yield Finding("stands-out", name, {"standard deviations": far, "times the median": times})
    if examined and not adaptation.refused:
        if adaptation.promise is None:
            yield Finding("no-promise")
        elif adaptation.kept and len(adaptation.models) == 1:
            yield Finding("nothing-examined")


def _silent(adaptation: Adaptation, name: str) -> Iterator[Finding]:
    """A source all of whose outcomes are of one class, where the others' are not.

    Parameters
    ----------
    adaptation : Adaptation
    name : str
        Of a source that could not examine.
    """
    found, reports = adaptation.examinations[name], adaptation.reports
    others = [report for other, report in reports.items() if other != name]
    if found.reason != "outcomes_alike" or not adaptation.plan.classes or not others:
        return
    rows = np.array([report.effective_rows for report in others])
    shares = rows @ np.array([report.outcome_mean for report in others]) / rows.sum()
    own = reports[name]
    expected = own.effective_rows * (1.0 - float(shares[int(np.argmax(own.outcome_mean))]))
    if expected >= MISSED:
        evidence = {"effective rows": own.effective_rows, "expected of other classes": expected}
        yield Finding("only-one-class", name, evidence)


def _correlations(adaptation: Adaptation) -> Iterator[Finding]:
    """Pairs of features whose correlation at one source is far from that at another."""
    told = {
        name: report
        for name, report in adaptation.reports.items()
        if len(report.correlations) and report.effective_rows > MIN_EFFECTIVE_ROWS
    }
    pairs = list(combinations(adaptation.plan.features, 2))
    for first, second in combinations(sorted(told), 2):
        a, b = told[first].correlations, told[second].correlations
        z = np.arctanh(np.clip(a, -0.99, 0.99)) - np.arctanh(np.clip(b, -0.99, 0.99))
        error = np.sqrt(sum(1.0 / (told[name].effective_rows - 3.0) for name in (first, second)))
        far = (np.abs(a - b) > CORRELATION_GAP) & (np.abs(z) > CORRELATION_ERRORS * error)
        if far.any():
            worst = int(np.argmax(np.where(far, np.abs(a - b), 0.0)))
            evidence = {"other source": second, "features": ", ".join(pairs[worst])}
            numbers = {"here": float(a[worst]), "there": float(b[worst])}
            yield Finding("correlations-differ", first, {**evidence, **numbers})


def _dominant(adaptation: Adaptation) -> Iterator[Finding]:
    """One of several sources carries nearly all of the weight."""
    for name, weight in adaptation.source_weights.items():
        if weight > DOMINANT and len(adaptation.source_weights) > 1:
            yield Finding("dominant-source", name, {"weight": weight})


def _edges(adaptation: Adaptation) -> Iterator[Finding]:
    """The chosen value of a parameter lies at the edge of the values tried, or of its range."""
    chosen, space = _numbers_of(adaptation.candidate), adaptation.plan.space
    ends = at_edges(adaptation.candidate, space) if space else {}
    for parameter, value in chosen.items():
        tried = sorted(
            {
                numbers[parameter]
                for numbers in map(_numbers_of, adaptation.plan.candidates)
                if parameter in numbers
            }
        )
        of_grid = len(tried) >= 3 and value in (tried[0], tried[-1])
        end = ends.get(parameter) if space else value if of_grid else None
        if end is not None and end not in NATURAL_BOUNDS.get(parameter, ()):
            yield Finding("grid-edge", evidence={"parameter": parameter, "value": float(value)})


def _numbers_of(candidate: Mapping[str, Any]) -> dict[str, float]:
    """The parameters of a candidate that are numbers."""
    return {
        name: value
        for name, value in candidate.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _backwards(adaptation: Adaptation) -> Iterator[Finding]:
    """The AUROC is surely below one half: levels of the outcome are mixed up, or a sign is."""
    ranked = adaptation.measures if adaptation.plan.classes else ()  # numbers have no AUROC
    for measure in ranked:
        if measure.name == "auroc" and not measure.subgroup and measure.upper < GUESSING:
            of = {} if len(adaptation.plan.classes) == 2 else {"class": str(measure.of_class)}
            yield Finding("ranks-backwards", evidence={"auroc": measure.estimate, **of})


def _unweighted(adaptation: Adaptation) -> Iterator[Finding]:
    """Whether a model was fitted without weights because it takes none."""
    plan = adaptation.plan
    named = any(RATIO_POWER in candidate for candidate in plan.candidates)
    if plan.method != "validated" or plan.model.get("name") != "sklearn" or named:
        return
    if not takes_weights(thaw(plan.model)):
        yield Finding("no-training-weights")


#: What looks for dangers, in the order of the result; a finding of one's own is one line here.
FINDERS: list[Callable[[Adaptation], Iterable[Finding]]] = [
    _sources,
    _examination,
    _correlations,
    _backwards,
    _dominant,
    _edges,
    _unweighted,
]

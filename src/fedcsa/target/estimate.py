"""From the sources' answers to estimates of the risk, and to the mixture of their models."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.core.losses import RiskMoments, RiskTerms, risk_terms
from fedcsa.core.scores import ScoreDesign
from fedcsa.core.tilt import target_equivalent_rows
from fedcsa.core.weights import (
    MAX_WEIGHT,
    MEDIAN_MODELS,
    Estimate,
    capped,
    estimate,
    median_mixture,
    useless_votes,
    validated_estimate,
)
from fedcsa.errors import CandidatesError, MessageError, ModelError, must
from fedcsa.messages.messages import (
    Examination,
    ExaminationReport,
    ModelRequest,
    RiskReport,
)
from fedcsa.models.description import RATIO_POWER
from fedcsa.models.fitted import EstimatorModel, FittedModel
from fedcsa.models.linear_format import Lines

if TYPE_CHECKING:
    from fedcsa.plan import Plan

#: A source reaches the target if so many effective rows are left: from fewer, a variance is a
#: guess …
MIN_EFFECTIVE_ROWS = 10.0
#: … and the weighted means are off by no more: a quarter of an sd throughout, whose square is 0.06.
MAX_IMBALANCE = 0.06
#: Beyond this the weighted means lie a whole sd off throughout: nothing is told of the target.
NO_OVERLAP = 1.0
#: A model with more weight is examined together with the others': without it, little is left.
MOSTLY_OWN = 0.5
#: Effective rows count up to this many times the median source's rows: honest sites of thirty
#: times the usual size are rare, and whoever claims a million has no more weight than they would.
MOST_CLAIMED = 30.0
#: With fewer sources nobody can say which of them stands out.
FEWEST_TO_COMPARE = 3
#: With fewer sources one that lies would be half of the others.
FEWEST_FOR_MIDDLE = 4
#: The most by which one source's report may move the choice, in the risk that the others report.
MOST_REGRET = 0.1
#: A risk that is more times another is told as so many: nobody reads more, and it stays finite.
MOST_TIMES = 1e6
#: Typical errors by which a source's mean outcome may lie from the median one: weighted to the same
#: population, honest ones differ by less than one.
MOST_OFF = 2.0
#: Larger log ratios are all the same: nobody reads e to the 50.
FARTHEST_LOG = 50.0
#: Losses that are a power of the error, and the power that makes them one.
ERROR_POWERS = {"squared": 0.5, "absolute": 1.0}


# The risk of every candidate ----------------------------------------------------------------
#: Typical errors between a model's predictions and those of the median model. An honest model is
#: off by a few; farther than this it is no model.
MAX_ERRORS_OFF = 100.0


def reaches(report: RiskReport) -> bool:
    """Whether a source's weighted rows stand for the target's population."""
    return report.effective_rows >= MIN_EFFECTIVE_ROWS and report.imbalance <= MAX_IMBALANCE


def worth(reports: Mapping[str, RiskReport]) -> Array:
    """m_j of every source: how many rows of the target its weighted rows are worth.

    Effective rows beyond `MOST_CLAIMED` times the median source's rows do not count.
    """
    ordered = [reports[name] for name in sorted(reports)]
    rows = np.array([report.effective_rows for report in ordered])
    if len(ordered) >= FEWEST_TO_COMPARE:
        rows = np.minimum(rows, MOST_CLAIMED * np.median([r.n_judged for r in ordered]))
    return target_equivalent_rows(rows, np.array([report.imbalance for report in ordered]))


def eligible(plan: Plan, reports: Mapping[str, RiskReport]) -> tuple[int, ...]:
    """Indices of the candidates to choose from.

    A candidate that failed at one source is left out there. It stays in the choice if the
    sources that fitted it are worth at least half of those that fitted the most common one; of
    four or more that reach the target none counts for more than a third of them. Under a median
    it stays if enough sources fitted it.

    Parameters
    ----------
    plan : Plan
    reports : mapping of str to RiskReport
    """
    ordered = [reports[name] for name in sorted(reports)]
    every = range(len(plan.candidates))
    fitted = np.array([[str(k) not in report.failed for report in ordered] for k in every])
    value = worth(reports) if plan.method == "validated" else np.ones(len(reports))
    near = np.array([reaches(report) for report in ordered])
    if near.sum() >= FEWEST_FOR_MIDDLE:  # whoever claims many rows takes no candidate from all
        value[near] = value[near].sum() * capped(value[near], MAX_WEIGHT)
    weight = fitted @ value
    enough = fitted.sum(axis=1) >= (MEDIAN_MODELS if plan.combine == "median" else 1)
    kept = np.flatnonzero(enough & (weight > 0.0) & (weight >= 0.5 * weight.max(initial=0.0)))
    if not len(kept):
        names = [name for name in sorted(reports) if reports[name].failed]
        reasons = sorted({r for name in names for r in reports[name].failed.values()})
        raise CandidatesError(
            f"At least one candidate must be fitted; all {len(plan.candidates)} failed at "
            f"{', '.join(map(repr, names))} ({', '.join(reasons)}). "
            "Check the candidates' names and values."
        )
    return tuple(int(index) for index in kept)


def estimates(
    plan: Plan, reports: Mapping[str, RiskReport], kept: Sequence[int]
) -> dict[str, Estimate]:
    """Every method's estimate over the `kept` candidates, sources in alphabetical order.

    Parameters
    ----------
    plan : Plan
    reports : mapping of str to RiskReport
    kept : sequence of int
        Indices of candidates.
    """
    names, columns, found = sorted(reports), list(kept), {}
    if plan.method == "validated":
        found["validated"] = validated(plan, reports, kept)[0]
    if not plan.compared:
        return found
    fitted = np.array([[str(k) not in reports[name].failed for name in names] for k in columns])
    terms = [_terms(reports[name], columns) for name in names]
    for method in plan.compared:
        given = None
        if method == "fedle":
            given = [float((plan.fedle_weights or {})[name]) for name in names]
            if not any(given) and method != plan.method:
                continue  # what is only compared must not stop a study of which some refused
        how = plan.combine if method == plan.method else "mean"
        found[method] = estimate(method, terms, given, how, fitted)
    return found


def validated(
    plan: Plan, reports: Mapping[str, RiskReport], kept: Sequence[int]
) -> tuple[Estimate, dict[str, float]]:
    """The default method's estimate over the `kept` candidates, and whose risks it leaves out.

    It is the source that alone moves the choice to a candidate which most others find worse, with
    how many times larger their risk would be.

    Parameters
    ----------
    plan : Plan
    reports : mapping of str to RiskReport
    kept : sequence of int
        Indices of candidates.
    """
    names, columns = sorted(reports), list(kept)
    told = (
        np.column_stack([reports[name].risk[columns] for name in names]),
        worth(reports),
        np.array([float(plan.candidates[k].get(RATIO_POWER, 0.0)) for k in kept]),
        np.column_stack([reports[name].variance[columns] for name in names]),
        plan.combine,
    )
    fitted = np.array([[str(k) not in reports[name].failed for name in names] for k in columns])
    found, left_out = validated_estimate(*told, fitted), dict[str, float]()
    near = [name for name in names if reaches(reports[name])]
    if len(near) < FEWEST_TO_COMPARE or plan.combine == "median":
        return found, {}
    chosen, most = found.chosen, 1.0 + MOST_REGRET
    for index, name in enumerate(names):
        without = validated_estimate(*told, fitted & (np.arange(len(names)) != index))
        alone = fitted[:, index] & (fitted.sum(axis=1) == 1)
        if without.chosen == chosen or alone.any():
            continue
        asked = [reports[other] for other in near if other != name]
        times = _times_worse(asked, kept[chosen], kept[without.chosen])
        if times > most:
            found, left_out, most = without, {name: times}, times
    return found, left_out


def _times_worse(asked: Sequence[RiskReport], taken: int, best: int) -> float:
    """How many times larger sources find the risk of one candidate than of another, in the middle.

    Each that fitted both has one voice whatever its rows; two or more must be, and where only two
    are asked, both must find it worse.

    Parameters
    ----------
    asked : sequence of RiskReport
        Of sources that reach the target.
    taken, best : int
        The candidates.
    """
    both = [taken, best]
    told = [r.risk[both] for r in asked if not any(str(k) in r.failed for k in both)]
    if len(told) < FEWEST_TO_COMPARE - 1:
        return 1.0
    mine, theirs = np.transpose(told)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        times = np.where(theirs > 0.0, mine / theirs, np.where(mine > 0.0, np.inf, 1.0))
    times = np.minimum(times, MOST_TIMES)
    return float(np.median(times) if len(told) >= FEWEST_TO_COMPARE else times.min())


def _terms(report: RiskReport, columns: list[int]) -> RiskTerms:
    """What a source says about the candidates in `columns`.

    Parameters
    ----------
    report : RiskReport
    columns : list of int
        Candidates.
    """
    m = report.moments
    arrays = (m.loss_mean, m.loss_m2, m.product_mean, m.product_m2, m.co_moment)
    chosen = (array[columns] for array in arrays)
    return risk_terms(RiskMoments(m.n_rows, m.ratio_mean, m.ratio_m2, *chosen))


def require_median(n_sources: int, fewest: int) -> None:
    """Raise if there are sources, and too few of them for a median.

    Parameters
    ----------
    n_sources : int
    fewest : int
        That a median needs.
    """
    if 0 < n_sources < fewest:
        raise must("combine", f"'mean' with fewer than {fewest} sources", "median")


# The mixture of the models ------------------------------------------------------------------


def combine(
    models: Mapping[str, FittedModel], weights: Mapping[str, float], seen: Array, how: str
) -> Array:
    """Σ a_j h_j(x), or the weighted median of the predictions, rescaled for probabilities.

    Parameters
    ----------
    models : mapping of str to FittedModel
    weights : mapping of str to float
        a_j by name; a model without weight is not asked.
    seen : array of shape (rows, features)
        As the models see them.
    how : {"mean", "median"}
    """
    if not models:
        raise ModelError(
            "No source sent a model, so there is nothing to predict with. The findings say why."
        )
    names = [name for name in sorted(models) if weights.get(name, 0.0) > 0.0]
    if how == "median":
        outputs = np.stack([models[name].predict(seen) for name in names], axis=1)
        return median_mixture(outputs, np.array([weights[name] for name in names]))
    total: Array = weights[names[0]] * models[names[0]].predict(seen)
    for name in names[1:]:
        total = total + weights[name] * models[name].predict(seen)
    return total


def examinations(
    names: Collection[str],
    request: ModelRequest,
    plan: Plan,
    weights: Mapping[str, float],
    models: Mapping[str, FittedModel],
    outcomes: Mapping[str, Array],
    design: ScoreDesign,
    *,
    again: bool = False,
) -> Iterator[tuple[str, Examination | MessageError]]:
    """For every source the mixture without its model, or the whole of it where most is its own.

    Or the error, if the models have more bytes than a message may have.

    Parameters
    ----------
    names : collection of str
        Of the sources that are asked.
    request : ModelRequest
        Which candidate the models are of.
    plan : Plan
    weights : mapping of str to float
        a_j of every model.
    models : mapping of str to FittedModel
    outcomes : mapping of str to array
        Mean outcome of every source, or its share of every class: they make the constant that the
        mixture must beat.
    design : ScoreDesign
        Of the study, in whose units scores are counted.
    again : bool
        Whether it is the second one.
    """
    members = np.array([name for name, a in weights.items() if a > 0.0], dtype=object)
    a, each = np.array([weights[name] for name in members]), [models[name] for name in members]
    lines = Lines.of(each)
    means = np.array([np.atleast_1d(outcomes[name]) for name in members])
    for name in sorted(names):
        its: NDArray[np.bool_] = members == name
        own = float(a[its].sum())
        own = own if own > MOSTLY_OWN else 0.0
        others = its if its.all() else ~its  # alone, it makes its own constant
        shares = a[others] / a[others].sum()
        taken = ~its if own else others
        shown = [each[k] for k in np.flatnonzero(taken).tolist()]
        held: tuple[EstimatorModel | None, ...] = ()
        if lines is not None and len(shown) > 1:  # together they are one form and two arrays
            forms, intercepts = [shown[0].form], lines.intercepts[taken, None]
            arrays = {"0.coefficients": lines.coefficients[taken], "0.intercept": intercepts}
        else:
            forms = [model.form for model in shown]
            arrays = {f"{k}.{key}": v for k, m in enumerate(shown) for key, v in m.arrays.items()}
            held = tuple(m if isinstance(m, EstimatorModel) else None for m in shown)
        try:
            yield name, Examination(
                study=plan.study, brief=request.brief, candidate=request.candidate,
                combine=plan.combine, own_weight=own, weights=a[taken] if own else shares,
                forms=forms, arrays=arrays, constant=shares @ means[others],
                centre=design.centre, unit=design.unit, again=again,
                held=held if any(held) else (),
            )  # fmt: skip
        except MessageError as error:
            yield name, error


def score_design(plan: Plan, reports: Mapping[str, RiskReport]) -> ScoreDesign:
    """In which bins and units scores are counted; the same for all sources.

    Numbers are counted from the median of the sources' mean outcomes, in the median of their sds:
    one source alone moves neither far.

    Parameters
    ----------
    plan : Plan
    reports : mapping of str to RiskReport
    """
    centre, unit = 0.0, 1.0
    if reports and not plan.classes:
        centre = float(np.median([report.outcome_mean[0] for report in reports.values()]))
        unit = float(np.median([report.outcome_sd for report in reports.values()])) or 1.0
    return ScoreDesign(len(plan.classes), plan.thresholds, len(plan.subgroups), centre, unit)


def outcome_means(reports: Mapping[str, RiskReport], loss: str) -> dict[str, Array]:
    """Mean outcome of every source, or its share of every class: they make the constant.

    They are of weighted rows, so those of sources that reach the target differ by little. They
    count up to `MOST_OFF` typical errors from their median.

    Parameters
    ----------
    reports : mapping of str to RiskReport
    loss : str
    """
    means = {name: report.outcome_mean for name, report in reports.items()}
    near = [name for name in means if reaches(reports[name])]
    if loss not in ERROR_POWERS or len(near) < FEWEST_TO_COMPARE:
        return means
    middle = np.median([means[name] for name in near], axis=0)
    worst = [float(report.risk.max()) for report in reports.values() if report.risk.any()]
    errors = [risk ** ERROR_POWERS[loss] for risk in worst]
    far = MOST_OFF * float(np.median(errors or [np.inf]))
    return means | {name: np.clip(means[name], middle - far, middle + far) for name in near}


def wild_models(
    outputs: Mapping[str, Array], reports: Mapping[str, RiskReport], loss: str
) -> list[str]:
    """Sources whose model lies far from the others'.

    Model j is wild if s_j · median over rows |h_j(x) − med_k h_k(x)| > 100 e_j, with k over the
    sources that reach the target; s_j = 1, or a far source's worth over the largest: what it can
    weigh; e_j the largest of: the sources' median error (of the worst candidate), its own, and
    the distance of its mean outcome from the median one. With fewer than three sources near the
    target, nobody can say which is wild.

    Parameters
    ----------
    outputs : mapping of str to array of shape (rows,)
        What every source's model predicts for the target's rows.
    reports : mapping of str to RiskReport
    loss : str
    """
    near = [outputs[name] for name in outputs if reaches(reports[name])]
    if loss not in ERROR_POWERS or len(near) < FEWEST_TO_COMPARE:
        return []
    power = ERROR_POWERS[loss]
    error = {name: float(r.risk.max()) ** power for name, r in reports.items() if r.risk.any()}
    typical = float(np.median(list(error.values()) or [0.0]))
    centre = np.median(near, axis=0)
    middle = float(np.median([float(report.outcome_mean[0]) for report in reports.values()]))
    value, wild = worth(reports), []
    for name, worth_of in zip(sorted(reports), value, strict=True):
        if name in outputs:
            own = max(error.get(name, 0.0), abs(float(reports[name].outcome_mean[0]) - middle))
            share = 1.0 if reaches(reports[name]) else worth_of / value.max()
            off = np.median(np.abs(outputs[name] - centre))
            if share * off > MAX_ERRORS_OFF * max(own, typical) > 0.0:
                wild.append(name)
    return wild


def useless_models(
    found: Mapping[str, ExaminationReport], weights: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """Sources whose model most examiners find useless, with how many, and its risk to them.

    Two or more must have looked. Where four or more did and half of them find it useless, the
    middle of how much they find the mixture spoilt decides. Where half of the models are found
    useless, nobody can say which are: then none is.

    Parameters
    ----------
    found : mapping of str to ExaminationReport
        Of sources that reach the target, each on all models with weight but its own.
    weights : mapping of str to float
        a_j of every model.
    """
    members = np.array([name for name, a in weights.items() if a > 0.0], dtype=object)
    a = np.array([weights[name] for name in members])
    told = {name: report for name, report in found.items() if len(report.member_risk)}
    looked = np.array([members != name for name in told], bool).reshape(len(told), len(members))
    ratios, spoils, votes = (np.zeros(looked.shape) for _ in range(3))
    for row, report in enumerate(told.values()):
        at = looked[row]
        ratios[row, at], spoils[row, at], votes[row, at] = useless_votes(
            report.member_risk, report.member_variance, report.constant_risk, a[at]
        )
    named = {}
    for k in np.argsort(members):
        here = looked[:, k]
        of, against = int(here.sum()), int(votes[:, k].sum())
        outvoted = 2 * against > of
        if of >= FEWEST_FOR_MIDDLE and 2 * against == of:
            outvoted = float(np.median(spoils[here, k])) > 1.0
        if outvoted and of >= FEWEST_TO_COMPARE - 1:
            middle = min(float(np.median(ratios[here, k])), FARTHEST_LOG)
            named[members[k]] = {
                "examiners": float(against), "of": float(of),
                "times a constant's risk": float(np.exp(middle)),
            }  # fmt: skip
    return named if 2 * len(named) < len(members) else {}

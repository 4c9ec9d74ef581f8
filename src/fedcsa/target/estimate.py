"""From the sources' answers to estimates of the risk, and to the mixture of their models."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array, read_only
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
    times_worse,
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
#: Typical errors by which a source's mean outcome may lie from the median one: weighted to the same
#: population, honest ones differ by less than one.
MOST_OFF = 2.0
#: Larger log ratios are all the same: nobody reads e to the 50.
FARTHEST_LOG = 50.0
#: Losses that are a power of the error, and the power that makes them one.
ERROR_POWERS = {"squared": 0.5, "absolute": 1.0}

#: Typical errors between a model's predictions and those of the median model. An honest model is
#: off by a few; farther than this it is no model.
MAX_ERRORS_OFF = 100.0


# The risk of every candidate ----------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Reported:
    """The reports of all sources, stacked: every rule of the target is a function of these arrays.

    Sources are in alphabetical order.

    Attributes
    ----------
    names : tuple of str
    reports : mapping of str to RiskReport
        What was stacked.
    reaching : tuple of str
        The sources that reach the target: their weighted rows stand for its population.
    most_rows : float
        Effective rows of a source beyond these do not count: `MOST_CLAIMED` times the median
        source's rows.
    worth : array of shape (sources,)
        m_j: how many rows of the target the weighted rows of a source are worth.
    imbalance : array of shape (sources,)
    near : array of bool of shape (sources,)
        Whether a source reaches the target.
    risk, variance : array of shape (candidates, sources)
    fitted : array of bool of shape (candidates, sources)
        False where a source failed to fit a candidate.
    outcome_mean : array of shape (sources, 1 or classes)
    outcome_sd : array of shape (sources,)
    """

    names: tuple[str, ...]
    reports: Mapping[str, RiskReport]
    reaching: tuple[str, ...]
    most_rows: float
    worth: Array
    imbalance: Array
    near: NDArray[np.bool_]
    risk: Array
    variance: Array
    fitted: NDArray[np.bool_]
    outcome_mean: Array
    outcome_sd: Array

    @classmethod
    def of(cls, reports: Mapping[str, RiskReport]) -> Reported:
        """Stack reports on the same candidates; there may be none."""
        reports = dict(sorted(reports.items()))
        names = tuple(reports)
        numbers, risks, variances, means = np.empty((len(names), 4)), [], [], []
        for j, r in enumerate(reports.values()):
            numbers[j] = r.effective_rows, r.imbalance, r.n_judged, r.outcome_sd
            risks.append(r.risk)
            variances.append(r.variance)
            means.append(r.outcome_mean)
        rows, imbalance, judged, sd = numbers.T
        near = (rows >= MIN_EFFECTIVE_ROWS) & (imbalance <= MAX_IMBALANCE)
        comparable = len(names) >= FEWEST_TO_COMPARE
        most_rows = MOST_CLAIMED * float(np.median(judged)) if comparable else np.inf
        none = np.empty((len(risks[0]) if risks else 0, 0))
        risk, variance = np.column_stack([none, *risks]), np.column_stack([none, *variances])
        fitted = np.ones(risk.shape, bool)
        for j, r in enumerate(reports.values()):
            fitted[[*map(int, r.failed)], j] = False
        worth = target_equivalent_rows(np.minimum(rows, most_rows), imbalance)
        arrays = worth, imbalance, near, risk, variance, fitted, np.array(means), sd
        reaching = tuple(compress(names, near))
        return cls(names, reports, reaching, most_rows, *map(read_only, arrays))


def among(every: Sequence[str], names: Collection[str]) -> NDArray[np.bool_]:
    """Which of `every` are among `names`. To numpy, a NUL at the end of a name is nothing.

    Parameters
    ----------
    every : sequence of str
    names : collection of str

    Examples
    --------
    >>> among(("a", "b", "c"), ["c", "a"])
    array([ True, False,  True])
    """
    return np.fromiter(map(names.__contains__, every), np.bool_, len(every))


def eligible(plan: Plan, reported: Reported) -> tuple[int, ...]:
    """Indices of the candidates to choose from.

    A candidate that failed at one source is left out there. It stays in the choice if the
    sources that fitted it are worth at least half of those that fitted the most common one; of
    four or more that reach the target none counts for more than a third of them. Under a median
    it stays if enough sources fitted it.

    Parameters
    ----------
    plan : Plan
    reported : Reported
    """
    near, fitted = reported.near, reported.fitted
    value = np.array(reported.worth) if plan.method == "validated" else np.ones(len(near))
    if near.sum() >= FEWEST_FOR_MIDDLE:  # whoever claims many rows takes no candidate from all
        value[near] = value[near].sum() * capped(value[near], MAX_WEIGHT)
    weight = fitted @ value
    enough = fitted.sum(axis=1) >= (MEDIAN_MODELS if plan.combine == "median" else 1)
    kept = np.flatnonzero(enough & (weight > 0.0) & (weight >= 0.5 * weight.max(initial=0.0)))
    if not len(kept):
        names = [name for name in reported.names if reported.reports[name].failed]
        reasons = sorted({r for name in names for r in reported.reports[name].failed.values()})
        raise CandidatesError(
            f"At least one candidate must be fitted; all {len(plan.candidates)} failed at "
            f"{', '.join(map(repr, names))} ({', '.join(reasons)}). "
            "Check the candidates' names and values."
        )
    return tuple(kept.tolist())


def estimates(plan: Plan, reported: Reported, kept: Sequence[int]) -> dict[str, Estimate]:
    """Every method's estimate over the `kept` candidates.

    Parameters
    ----------
    plan : Plan
    reported : Reported
    kept : sequence of int
        Indices of candidates.
    """
    columns, found = list(kept), {}
    if plan.method == "validated":
        found["validated"] = validated(plan, reported, kept)[0]
    if not plan.compared:
        return found
    terms = [_terms(reported.reports[name], columns) for name in reported.names]
    for method in plan.compared:
        given = None
        if method == "fedle":
            given = [float((plan.fedle_weights or {})[name]) for name in reported.names]
            if not any(given) and method != plan.method:
                continue  # what is only compared must not stop a study of which some refused
        how = plan.combine if method == plan.method else "mean"
        found[method] = estimate(method, terms, given, how, reported.fitted[columns])
    return found


def validated(
    plan: Plan, reported: Reported, kept: Sequence[int]
) -> tuple[Estimate, dict[str, float]]:
    """The default method's estimate over the `kept` candidates, and whose risks it leaves out.

    It is the source that alone moves the choice to a candidate which most others find worse, with
    how many times larger their risk would be. Each that reaches the target and fitted both has
    one voice whatever its rows.

    Parameters
    ----------
    plan : Plan
    reported : Reported
    kept : sequence of int
        Indices of candidates.
    """
    columns, near = list(kept), reported.near
    risk, fitted = reported.risk[columns], reported.fitted[columns]
    powers = np.array([float(plan.candidates[k].get(RATIO_POWER, 0.0)) for k in kept])
    told = risk, reported.worth, powers, reported.variance[columns], plan.combine
    found, left_out = validated_estimate(*told, fitted), dict[str, float]()
    if near.sum() < FEWEST_TO_COMPARE or plan.combine == "median":
        return found, {}
    chosen, most = found.chosen, 1.0 + MOST_REGRET
    alone = fitted & (fitted.sum(axis=1, keepdims=True) == 1)
    for index, name in enumerate(reported.names):
        others = np.arange(len(near)) != index
        without = validated_estimate(*told, fitted & others)
        if without.chosen == chosen or alone[:, index].any():
            continue
        both = [chosen, without.chosen]
        times = times_worse(*risk[both][:, near & others & fitted[both].all(axis=0)])
        if times > most:
            found, left_out, most = without, {name: times}, times
    return found, left_out


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


def with_weight(
    models: Mapping[str, FittedModel], weights: Mapping[str, float]
) -> tuple[NDArray[np.object_], list[FittedModel], Array]:
    """Names, models and weights a_j of those that have weight, in alphabetical order.

    Parameters
    ----------
    models : mapping of str to FittedModel
    weights : mapping of str to float
        a_j by name; a model that is not among them has none.
    """
    names, members, a = [], [], []
    for name in sorted(models):
        if weights.get(name, 0.0) > 0.0:
            names.append(name)
            members.append(models[name])
            a.append(weights[name])
    return np.array(names, dtype=object), members, np.array(a)


def combine(members: Sequence[FittedModel], a: Array, seen: Array, how: str) -> Array:
    """Σ a_j h_j(x), or the weighted median of the predictions, rescaled for probabilities.

    Parameters
    ----------
    members : sequence of FittedModel
        The models with weight.
    a : array of shape (members,)
    seen : array of shape (rows, features)
        As the models see them.
    how : {"mean", "median"}
    """
    if not members:
        raise ModelError(
            "No source sent a model, so there is nothing to predict with. The findings say why."
        )
    if how == "median":
        return median_mixture(np.stack([model.predict(seen) for model in members], axis=1), a)
    total: Array = a[0] * members[0].predict(seen)
    for share, model in zip(a[1:], members[1:], strict=True):
        total = total + share * model.predict(seen)
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
    members, each, a = with_weight(models, weights)
    lines, means = Lines.of(each), np.array([outcomes[name] for name in members])
    for name in sorted(names):
        its: NDArray[np.bool_] = members == name
        own = float(a[its].sum())
        own = own if own > MOSTLY_OWN else 0.0
        others = its if its.all() else ~its  # alone, it makes its own constant
        shares = a[others] / a[others].sum()
        taken = ~its if own else others
        shown = list(compress(each, taken))
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


def score_design(plan: Plan, reported: Reported) -> ScoreDesign:
    """In which bins and units scores are counted; the same for all sources.

    Numbers are counted from the median of the sources' mean outcomes, in the median of their sds:
    one source alone moves neither far.

    Parameters
    ----------
    plan : Plan
    reported : Reported
    """
    centre, unit = 0.0, 1.0
    if reported.names and not plan.classes:
        centre = float(np.median(reported.outcome_mean[:, 0]))
        unit = float(np.median(reported.outcome_sd)) or 1.0
    return ScoreDesign(len(plan.classes), plan.thresholds, len(plan.subgroups), centre, unit)


def outcome_means(reported: Reported, loss: str) -> dict[str, Array]:
    """Mean outcome of every source, or its share of every class: they make the constant.

    They are of weighted rows, so those of sources that reach the target differ by little. They
    count up to `MOST_OFF` typical errors from their median.

    Parameters
    ----------
    reported : Reported
    loss : str
    """
    means, near = np.array(reported.outcome_mean), reported.near
    if loss in ERROR_POWERS and near.sum() >= FEWEST_TO_COMPARE:
        middle, errors = np.median(means[near], axis=0), _errors(reported, loss)
        far = MOST_OFF * float(np.median(errors[errors > 0.0])) if errors.any() else np.inf
        means[near] = np.clip(means[near], middle - far, middle + far)
    return dict(zip(reported.names, means, strict=True))


def _errors(reported: Reported, loss: str) -> Array:
    """The error of every source's worst candidate, in units of the outcome; 0 if there is none.

    Parameters
    ----------
    reported : Reported
    loss : str
        A power of the error.
    """
    worst = reported.risk.max(axis=0, initial=0.0)
    return np.array([risk ** ERROR_POWERS[loss] for risk in worst.tolist()])


def wild_models(outputs: Mapping[str, Array], reported: Reported, loss: str) -> list[str]:
    """Sources whose model lies far from the others'.

    Model j is wild if s_j · median over rows |h_j(x) − med_k h_k(x)| > 100 e_j, with k over the
    sources that reach the target; s_j = 1, or a far source's worth over the largest: what it can
    weigh; e_j the largest of: the sources' median error (of the worst candidate), its own, and
    the distance of its mean outcome from the median one. With fewer than three sources near the
    target, nobody can say which is wild.

    Parameters
    ----------
    outputs : mapping of str to array of shape (rows,)
        What every source's model predicts for the target's rows, in alphabetical order.
    reported : Reported
    loss : str
    """
    sent, near = among(reported.names, outputs), reported.near
    if loss not in ERROR_POWERS or (near & sent).sum() < FEWEST_TO_COMPARE:
        return []
    errors, means = _errors(reported, loss), reported.outcome_mean[:, 0]
    typical = float(np.median(errors[errors > 0.0])) if errors.any() else 0.0
    own = np.maximum(errors, np.abs(means - np.median(means)))
    most = MAX_ERRORS_OFF * np.maximum(own, typical)
    share = np.where(near, 1.0, reported.worth / reported.worth.max())
    centre, wild = np.median(list(compress(outputs.values(), near[sent])), axis=0), []
    for (name, output), s, far in zip(outputs.items(), share[sent], most[sent], strict=True):
        if s * np.median(np.abs(output - centre)) > far > 0.0:
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
        a_j of every model, in alphabetical order.
    """
    members, a = np.array(list(weights), dtype=object), np.array(list(weights.values()))
    members, a = members[a > 0.0], a[a > 0.0]
    looked = np.zeros((len(found), len(members)), bool)
    ratios, spoils, votes = np.zeros((3, *looked.shape))
    for row, (name, report) in enumerate(found.items()):
        if len(report.member_risk):
            at = looked[row] = members != name
            ratios[row, at], spoils[row, at], votes[row, at] = useless_votes(
                report.member_risk, report.member_variance, report.constant_risk, a[at]
            )
    named = {}
    for k, name in enumerate(members):
        here = looked[:, k]
        of, against = int(here.sum()), int(votes[:, k].sum())
        outvoted = 2 * against > of
        if of >= FEWEST_FOR_MIDDLE and 2 * against == of:
            outvoted = float(np.median(spoils[here, k])) > 1.0
        if outvoted and of >= FEWEST_TO_COMPARE - 1:
            middle = min(float(np.median(ratios[here, k])), FARTHEST_LOG)
            named[name] = {
                "examiners": float(against), "of": float(of),
                "times a constant's risk": float(np.exp(middle)),
            }  # fmt: skip
    return named if 2 * len(named) < len(members) else {}

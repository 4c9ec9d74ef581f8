"""The model corrected by some outcomes of the target, and what that gains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.losses import Loss, loss_named, row_losses
from fedcsa.core.random_effects import NewSite
from fedcsa.core.shrunk_line import LinePrior, shrunk_line
from fedcsa.models.correction import Correction, log_odds
from fedcsa.models.portable import LinearModel
from fedcsa.target.own_outcomes import Labelled, OwnOutcomes

if TYPE_CHECKING:
    from fedcsa.target.adaptation import Adaptation

#: Why the model stays as it was.
MANY_CLASSES = "with three classes or more, one line gives no probabilities"
ONE_NUMBER = "all outcomes are the same number, so nobody can see how they follow predictions"
NO_SLOPE = "the sources could not tell how its calibration differs between them"
#: Folds in which a correction is judged on rows that it has not seen.
FOLDS = 10


def line_prior(own: OwnOutcomes) -> LinePrior | None:
    """How sites differ, as the examinations saw it; None if they could not tell.

    Parameters
    ----------
    own : OwnOutcomes
    """
    if own.slope is None or not own.levels:
        return None
    noise = 1.0 if own.plan.classes else own.residual**2
    intercept, slope = between(own.levels[0].before) * noise, between(own.slope.before)
    return LinePrior(intercept, slope, coefficient_variances(own.adaptation, noise), noise)


def between(site: NewSite) -> float:
    """Mean of τ² given the estimates."""
    return float(site.probabilities @ site.taus**2)


def coefficient_variances(adaptation: Adaptation, noise: float) -> Array:
    """Variance of the models' coefficients between sites, sampling taken off, (features,).

    Features are in units of the target's sds. Of shape (0,) unless two or more models are linear.

    Parameters
    ----------
    adaptation : Adaptation
    noise : float
        Mean squared error; for classes 1.
    """
    lines = {n: m for n, m in adaptation.models.items() if isinstance(m, LinearModel)}
    rows = {n: adaptation.reports[n].effective_rows for n in lines if n in adaptation.reports}
    if len(lines) < len(adaptation.models) or len(rows) < 2:
        return np.empty(0)
    unit = np.ones(len(adaptation.plan.features)) if adaptation.plan.scale else adaptation.table.sd
    B = np.array([lines[n].coefficients * unit for n in rows])
    share = noise
    if adaptation.plan.classes:  # a row tells p(1 − p) of a log-odds
        rate = np.mean([adaptation.reports[n].outcome_mean[1] for n in rows])
        share = 1.0 / max(float(rate * (1.0 - rate)), 0.01)
    chance = share * float(np.mean([1.0 / max(n, 1.0) for n in rows.values()]))
    found: Array = np.maximum(B.var(axis=0, ddof=1) - chance, 0.0)
    return found


def correction_of(
    adaptation: Adaptation, rows: Labelled, prior: LinePrior, *, coefficients: bool = True
) -> Correction:
    """The correction from some labelled rows.

    Parameters
    ----------
    adaptation : Adaptation
    rows : Labelled
    prior : LinePrior
    coefficients : bool
        Whether the model's coefficients may change: not if only its predictions are known.
    """
    classes = bool(adaptation.plan.classes)
    line = log_odds(rows.output) if classes else rows.output
    if not coefficients:
        prior = LinePrior(prior.intercept, prior.slope, np.empty(0), prior.noise)
    z = adaptation.standardised(rows.X)
    weights = rows.weights * rows.effective_rows
    intercept, slope, delta = shrunk_line(rows.y, line, z, weights, prior, classes=classes)
    return Correction(intercept, slope, tuple(delta.tolist()))


def expected_gain(own: OwnOutcomes, correction: Correction, risk: float) -> float | None:
    """The corrected model's risk over that of the model as it was, as is to be expected here.

    The corrected prediction is what is expected of an outcome given all that is known. So the
    squared loss falls by the mean square of the change; a loss of classes by its mean difference
    if outcomes come as the corrected model says. None for other losses of numbers.

    Parameters
    ----------
    own : OwnOutcomes
    correction : Correction
    risk : float
        Of the model as it was, as outcomes and promise let expect it.
    """
    rows, loss = own.labelled, own.loss or loss_named(own.plan.loss)
    after = correction.corrected(rows.output, own.adaptation.standardised(rows.X))
    if own.plan.classes:
        saved = np.zeros(len(rows.y))
        for k in range(after.shape[1]):
            y = np.full(len(rows.y), float(k))
            before, now = (row_losses(loss, each, y) for each in (rows.output, after))
            saved += after[:, k] * (before - now)
    elif own.plan.loss == "squared" and own.loss is None:
        saved = (after - rows.output) ** 2
    else:
        return None
    return max(1.0 - float(rows.weights @ saved) / risk, 0.0) if risk > 0.0 else None


def gain_of(
    adaptation: Adaptation,
    rows: Labelled,
    prior: LinePrior,
    loss: Loss | None,
    *,
    coefficients: bool = True,
) -> float | None:
    """Risk of the corrected model over that of the model as it was, on rows it has not seen.

    Parameters
    ----------
    adaptation, rows, prior, coefficients
        As for `correction_of`.
    loss : function or None
        The study's own, if it is none of ours.
    """
    function, n = loss or loss_named(adaptation.plan.loss), len(rows.y)
    fold, z = np.arange(n) % FOLDS, adaptation.standardised(rows.X)
    output = rows.output.copy()
    for k in range(min(FOLDS, n)):
        here, rest = fold == k, fold != k
        w = rows.weights[rest]
        if not w.sum() > 0.0:
            return None
        seen = Labelled(rows.X[rest], rows.y[rest], rows.output[rest], w / w.sum())
        made = correction_of(adaptation, seen, prior, coefficients=coefficients)
        output[here] = made.corrected(rows.output[here], z[here])
    before, after = (
        float(rows.weights @ row_losses(function, each, rows.y)) for each in (rows.output, output)
    )
    return after / before if before > 0.0 else None

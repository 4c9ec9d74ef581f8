"""How much of a model's prediction for one patient is that patient's own outcome.

A patient who alone has a flag, a level or an extreme value decides a coefficient alone: whoever
knows the row reads the outcome off the model. In a linear fit that share is the leverage

    h_i = w_i a_iᵀ (Σ w a aᵀ + Σw θ J)⁻¹ a_i,       a = (1, columns), J without the intercept,

and the model's residual is 1 − h_i of what it would be had the row not been in it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.batches import in_order, one_blas_thread
from fedcsa.core.ridge import merge_triangles, triangle
from fedcsa.models.fitted import FittedModel
from fedcsa.models.model import Candidate, LinearRegression, Model, power_of
from fedcsa.models.portable import DesignModel, LinearModel
from fedcsa.models.steps import apply_steps
from fedcsa.source.measure import Work
from fedcsa.source.weigh import Batch

#: Directions in which the rows vary less, as a share of the most, are rounding.
_ROUNDING = 1e-10


def largest_outcome_share(
    work: Work, recipe: Model, candidate: Candidate, model: FittedModel, *, refit: bool
) -> float:
    """The largest leverage of a row in the fit of a linear model; 0 for other models.

    A penalty counts where the recipe is our own; elsewhere it is taken for none.

    Parameters
    ----------
    work : Work
        What the model was fitted from.
    recipe : Model
        What fitted it.
    candidate : Candidate
        At which it was fitted.
    model : FittedModel
        As it leaves.
    refit : bool
        Whether it was fitted on all rows, or on those of the first turn.

    Returns
    -------
    float
        Between 0 and 1.
    """
    if work.folds is None or not isinstance(model, LinearModel | DesignModel):
        return 0.0
    rooted = _rooted(work, candidate, model, refit=refit)
    with one_blas_thread():
        R = reduce(merge_triangles, in_order(lambda batch: triangle(rooted(batch)), work.rows))
        if isinstance(recipe, LinearRegression):
            total = float(R[0, 0] ** 2)  # the first column is √w
            [penalty] = recipe.penalties([candidate], total)
            slopes = np.arange(len(R)) > 0
            R = merge_triangles(R, np.diag(np.where(slopes, np.sqrt(total * penalty), 0.0)))
        whiten = _whitening(R)
        shares = in_order(lambda batch: np.square(rooted(batch) @ whiten).sum(axis=1), work.rows)
        return float(max(share.max(initial=0.0) for share in shares))


def _rooted(
    work: Work, candidate: Candidate, model: LinearModel | DesignModel, *, refit: bool
) -> Callable[[Batch], Array]:
    """Makes of a batch √w (1, columns) of the rows that the model was fitted on.

    Parameters
    ----------
    work : Work
    candidate : Candidate
    model : LinearModel or DesignModel
    refit : bool
    """
    folds, power = work.folds, power_of(candidate)
    assert folds is not None  # noqa: S101 - there is a model
    parts = range(folds.n_folds) if refit else folds.turns[0].train
    column = work.weighing.n_columns - 1 if refit else 0

    def rooted(batch: Batch) -> Array:
        here = np.isin(folds.labels(batch), parts)
        X = batch.seen[here]
        columns = apply_steps(model.steps, X) if isinstance(model, DesignModel) else X
        weights = work.weighing.training(batch)[here, column] ** power
        return np.sqrt(weights)[:, None] * np.column_stack([np.ones(len(X)), columns])

    return rooted


def _whitening(R: Array) -> Array:
    """W with WWᵀ = (RᵀR)⁻¹ on what R spans.

    Parameters
    ----------
    R : array of shape (columns, columns)

    Returns
    -------
    array of shape (columns, rank)
    """
    size = np.linalg.norm(R, axis=0)
    size[size == 0.0] = 1.0
    _, s, Vt = np.linalg.svd(R / size)
    real = s > _ROUNDING * s.max()
    return np.asarray(Vt[real].T / s[real] / size[:, None])

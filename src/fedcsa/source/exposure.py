"""How much of a model's prediction for one patient is that patient's own outcome.

A patient who alone has a flag, a level or an extreme value decides a coefficient alone: whoever
knows the row reads the outcome off the model. In a linear fit that share is the leverage

    h_i = w_i a_iᵀ (Σ w a aᵀ + Σw θ J)⁻¹ a_i,       a = (1, columns), J without the intercept,

and the model's residual is 1 − h_i of what it would be had the row not been in it. In a leaf of a
tree it is the row's share of the leaf's weight, w_i / Σ w.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.batches import in_order, one_blas_thread
from fedcsa.core.ridge import merge_triangles, triangle
from fedcsa.models.fitted import FittedModel
from fedcsa.models.leaving import rows_per_leaf
from fedcsa.models.model import Candidate, LinearRegression, Model, power_of
from fedcsa.models.portable import DesignModel, LinearModel, TreeModel
from fedcsa.models.steps import apply_steps
from fedcsa.source.measure import Work
from fedcsa.source.weigh import Batch

#: Directions in which the rows vary less, as a share of the most, are rounding.
_ROUNDING = 1e-10


def largest_outcome_share(
    work: Work, recipe: Model, candidate: Candidate, model: FittedModel, *, refit: bool
) -> float:
    """The largest leverage of a row in a linear model, or share of a row in a leaf.

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
    if work.folds is None or not isinstance(model, LinearModel | DesignModel | TreeModel):
        return 0.0
    if isinstance(model, TreeModel):
        return _largest_in_leaf(work, candidate, model, refit=refit)
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
    fitted_on = _training(work, candidate, refit=refit)

    def rooted(batch: Batch) -> Array:
        X, weights = fitted_on(batch)
        columns = apply_steps(model.steps, X) if isinstance(model, DesignModel) else X
        return np.sqrt(weights)[:, None] * np.column_stack([np.ones(len(X)), columns])

    return rooted


def _training(
    work: Work, candidate: Candidate, *, refit: bool
) -> Callable[[Batch], tuple[Array, Array]]:
    """Rows of a batch that the model was fitted on, and their training weights.

    Parameters
    ----------
    work : Work
    candidate : Candidate
    refit : bool
    """
    folds, power = work.folds, power_of(candidate)
    assert folds is not None  # noqa: S101 - there is a model
    parts = range(folds.n_folds) if refit else folds.turns[0].train
    column = work.weighing.n_columns - 1 if refit else 0

    def fitted_on(batch: Batch) -> tuple[Array, Array]:
        here = np.isin(folds.labels(batch), parts)
        return batch.seen[here], work.weighing.training(batch)[here, column] ** power

    return fitted_on


def _largest_in_leaf(work: Work, candidate: Candidate, model: TreeModel, *, refit: bool) -> float:
    """The largest share of one row in the weight of its leaf.

    Parameters
    ----------
    work : Work
    candidate : Candidate
    model : TreeModel
    refit : bool
    """
    fitted_on = _training(work, candidate, refit=refit)
    total = np.zeros(len(model.value))
    heaviest = np.zeros(len(model.value))
    for batch in work.rows:
        X, weights = fitted_on(batch)
        total += rows_per_leaf(model, X, weights)
        for leaf in model.leaves_of_rows(X):
            np.maximum.at(heaviest, leaf, weights)
    return float((heaviest / np.where(total > 0.0, total, 1.0)).max())


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

"""How much of a model's prediction for one patient is that patient's own outcome.

A patient who alone has a flag, a level or an extreme value decides a coefficient alone: whoever
knows the row reads the outcome off the model. In a linear fit that share is the leverage

    h_i = w_i a_iᵀ (Σ w a aᵀ + Σw θ J)⁻¹ a_i,       a = (1, columns), J without the intercept,

and the model's residual is 1 − h_i of what it would be had the row not been in it; with counts, w_i
times what the model expects of the row stands for w_i, with classes w_i p(1 − p). In a leaf of a
tree it is the row's share of the leaf's weight, w_i / Σ w. Which of them counts, the format of the
model says (`fedcsa.models.portable.Format.shares`).

A patient who alone has an extreme outcome, or nearly alone an event, decides where all slopes
point: to that patient's features. That share is the patient's in the variance of the outcomes,
w_i (y_i − ȳ)² / Σ w (y − ȳ)².

Rows of which either share is too large are left out of the fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import add
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.core.batches import over_blocks
from fedcsa.core.ridge import merge_triangles, triangle
from fedcsa.errors import PolicyError
from fedcsa.models.description import RATIO_POWER
from fedcsa.models.fitted import EstimatorModel, FittedModel
from fedcsa.models.formats import FORMATS
from fedcsa.models.linear_format import LinearModel
from fedcsa.models.model import Path
from fedcsa.source.fits import LinearFits
from fedcsa.source.measure import Work, held_out_losses
from fedcsa.source.weigh import Batch, weights_of

if TYPE_CHECKING:
    from fedcsa.source.examine import Predictor

#: Directions in which the rows vary less, as a share of the most, are rounding.
_ROUNDING = 1e-10
#: Without some rows others may decide: so often the fit is looked at again.
_MOST_ROUNDS = 10
#: A model without more of its rows would be about others than the report.
MOST_LEFT_OUT = 0.1


def fit_unexposed(path: Path, work: Work, most: float) -> tuple[Path, Work]:
    """The model that is sent, as a path of one, without rows that decide their own prediction.

    Parameters
    ----------
    path : Path
        With them.
    work : Work
        Of the chosen candidate.
    most : float
        The largest share that a row's outcome may have in its own prediction.

    Returns
    -------
    path : Path
    work : Work
        Which knows the rows that were left out.

    Raises
    ------
    PolicyError
        If too many rows would have to be left out.
    """
    n_rows = path.n_rows  # told as it was: an exact count would tell how many are left out
    for _ in range(_MOST_ROUNDS):
        [model] = path.models
        if most >= 1.0 or model is None:
            return path, work
        shares = exposures(work, model)
        if shares.max(initial=0.0) <= most:
            return replace(path, n_rows=n_rows), work
        out = shares > most if work.left_out is None else work.left_out | (shares > most)
        if out.sum() > MOST_LEFT_OUT * n_rows:
            break
        work = replace(work, left_out=out)
        path = _fit_without(work, out)
    raise PolicyError(
        "max_row_leverage",
        "This site's model stays here: single patients would decide too much of it. Use fewer "
        "features, merge rare levels, or use a stronger penalty.",
    )


def _fit_without(work: Work, out: NDArray[np.bool_]) -> Path:
    """The chosen candidate without the rows in `out`, which go to a part that nobody fits on.

    Parameters
    ----------
    work : Work
    out : array of bool of shape (rows,)
    """
    assert work.fits is not None  # noqa: S101 - there was a model
    folds = work.fits.folds
    labels = np.concatenate([folds.labels(batch) for [batch] in work.rows.by_batch])
    dealt = np.where(out, folds.n_folds, labels).astype(np.int16)
    inside = replace(folds, n_folds=folds.n_folds + 1, dealt=dealt)
    [path] = replace(work.fits, folds=inside).paths([work.fits.sent], [work.chosen])
    return path


def exposures(work: Work, model: FittedModel) -> Array:
    """How much of the model every row decides, as the model's format tells it.

    Parameters
    ----------
    work : Work
        What the model was fitted from.
    model : FittedModel

    Returns
    -------
    array of shape (rows,)
        Between 0 and 1: 1 for a format that does not tell, 0 for an object that leaves no process.
    """
    if isinstance(model, EstimatorModel):
        return np.zeros(work.rows.n_rows)
    shares = FORMATS[model.form["kind"]].shares
    return np.ones(work.rows.n_rows) if shares is None else shares(model, TrainingRows(work))


@dataclass(frozen=True)
class TrainingRows:
    """The rows that a model was fitted on, as `fedcsa.models.portable.FittedRows` says.

    Attributes
    ----------
    work : Work
        Of the chosen candidate.
    """

    work: Work

    def __iter__(self) -> Iterator[tuple[Array, Array, Array]]:
        """Of every batch features, outcomes and weights."""
        for [batch] in self.work.rows.by_batch:
            yield batch.seen, batch.y, _training_weights(self.work, batch)

    def leverages(
        self,
        columns: Callable[[Array], Array],
        varies: Callable[[Array], Array] | None = None,
    ) -> Array:
        """The leverage of every row. A penalty counts where the recipe is our own.

        Parameters
        ----------
        columns : function of features
        varies : function of features, optional
        """
        work = self.work

        def rooted(batch: Batch) -> Array:
            """√w times (1, columns) of a batch, of shape (rows, 1 + columns)."""
            X, weights = batch.seen, _training_weights(work, batch)
            if varies is not None:
                weights = weights * varies(X)
            return np.sqrt(weights)[:, None] * np.column_stack([np.ones(len(X)), columns(X)])

        return _shares_in_span(work, rooted, penalised=varies is None)

    def variance_shares(self) -> Array:
        """The share of every row in the variance of the outcomes that a model is fitted on.

        Of classes, the largest over the indicators of each; 0 where outcomes do not vary.
        """
        n_classes = len(self.work.rows.brief.classes)
        found = [(y, weights) for _, y, weights in self]
        y, w = (np.concatenate(parts) for parts in zip(*found, strict=True))
        outcomes = np.eye(n_classes)[y.astype(np.intp)] if n_classes else y[:, None]
        own = w[:, None] * np.square(outcomes - w @ outcomes / w.sum())
        total = own.sum(axis=0)
        shares: Array = (own / np.where(total > 0.0, total, np.inf)).max(axis=1)
        return shares


def largest_examined_share(work: Work, predict: Predictor, members: Sequence[FittedModel]) -> float:
    """The largest leverage of a row among the predictions whose risks an examination tells.

    A target may send whatever models are of the agreed kind. A tree that is constant but for the
    cell of a patient whom it knows, or a median of lines that bends before the outermost patient,
    would tell that patient's outcome by its risk; its leverage is nearly 1. Straight lines point
    at nobody: what they alone tell is taken off.

    Parameters
    ----------
    work : Work
    predict : Predictor
        The mixture and its members.
    members : sequence of FittedModel
    """
    straight = [isinstance(one, LinearModel) and one.link == "identity" for one in members]

    def rooted(batch: Batch, *, bent: bool) -> Array:
        """√w times (1, what is told of) every prediction of a batch.

        Parameters
        ----------
        batch : Batch
        bent : bool
            Whether predictions that are no lines count too, and the mixture.
        """
        mixed, each = predict(batch)
        told = [one for one, line in zip(each, straight, strict=True) if line or bent]
        told += [mixed] if bent else []
        columns = [np.reshape(one, (len(batch.y), -1)) for one in told if one is not None]
        design = np.concatenate([np.ones((len(batch.y), 1)), *columns], axis=1)
        return np.asarray(np.sqrt(weights_of(work.weighing, batch)[0])[:, None] * design)

    shares = _shares_in_span(work, partial(rooted, bent=True))
    shares = shares - _shares_in_span(work, partial(rooted, bent=False))
    return float(shares.max(initial=0.0))


def largest_losses(work: Work, alike: int) -> Array:
    """The `alike`-th largest weighted loss w L of every candidate on rows that it has not seen.

    Losses count no more than so: the largest few count alike. A target may aim its table at an
    outlying patient whom it knows, and ask for candidates that are far off there: their risks
    would be about that one outcome.

    Parameters
    ----------
    work : Work
        Of all candidates.
    alike : int
        How many rows count alike.

    Returns
    -------
    array of shape (candidates,)
        Infinite where there are fewer rows.
    """
    n_candidates = len(work.rows.brief.candidates)

    def largest(*found: Array) -> Array:
        return np.sort(np.concatenate(found), axis=0)[-alike:]

    def of_block(batch: Batch) -> Array:
        losses, rows, _ = held_out_losses(work, batch)
        return largest(weights_of(work.weighing, batch)[0][rows, None] * losses)

    found = over_blocks(work.rows, of_block, largest)
    return found[0] if len(found) == alike else np.full(n_candidates, np.inf)


def largest_column_share(work: Work) -> float:
    """The largest share of one row in the weighted variance of a column.

    Correlations with a flag that one patient alone has are that patient's other columns.

    Parameters
    ----------
    work : Work
        Whose weights match the target's Table 1.
    """

    def means(batch: Batch) -> Array:
        return weights_of(work.weighing, batch)[0] @ batch.z

    mean = over_blocks(work.rows.by_batch, means, np.add)

    def spread(batch: Batch) -> list[tuple[Array, Array]]:
        own = weights_of(work.weighing, batch)[0][:, None] * np.square(batch.z - mean)
        return [(own.sum(axis=0), own.max(axis=0, initial=0.0))]

    found = over_blocks(work.rows.by_batch, spread, add)
    total = np.sum([of_batch for of_batch, _ in found], axis=0)
    heaviest = np.max([of_batch for _, of_batch in found], axis=0)
    return float((heaviest / np.where(total > 0.0, total, np.inf)).max())


def _shares_in_span(
    work: Work, rooted: Callable[[Batch], Array], *, penalised: bool = False
) -> Array:
    """Leverage of every row in a fit on some columns, in two passes.

    Parameters
    ----------
    work : Work
    rooted : function of a batch
        √w (1, columns), shape (rows, columns + 1).
    penalised : bool
        Whether the fit has the penalty of the chosen candidate, where the recipe is our own.
    """
    rows = work.rows.by_batch
    R = over_blocks(rows, lambda batch: triangle(rooted(batch)), merge_triangles)
    total = float(R[0, 0] ** 2)  # the first column is √w
    if penalised and isinstance(work.fits, LinearFits):
        [theta] = work.fits.model.penalties([work.chosen], total)
        if theta and total:
            ridge = np.append(0.0, np.full(len(R) - 1, np.sqrt(total * theta)))
            R = merge_triangles(R, np.diag(ridge))
    whiten = _whitening(R)
    shares = over_blocks(rows, lambda batch: [np.square(rooted(batch) @ whiten).sum(axis=1)], add)
    return np.concatenate(shares)


def _training_weights(work: Work, batch: Batch) -> Array:
    """Training weights of a batch's rows; 0 for those that the model is not fitted on.

    Parameters
    ----------
    work : Work
    batch : Batch
    """
    assert work.fits is not None  # noqa: S101 - there is a model
    sent = work.fits.sent
    taken = np.isin(work.fits.folds.labels(batch), sent.parts)
    if work.left_out is not None:
        taken &= ~work.left_out[batch.place]
    weights: Array = weights_of(work.weighing, batch)[1][:, sent.column]
    weights = weights ** work.chosen.get(RATIO_POWER, 0.0)
    return taken * weights


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

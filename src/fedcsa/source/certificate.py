"""What an attacker would learn from a source's model, tried out before the model leaves.

The record stays at the site: its steward sees it in the preview, its log keeps it. Whatever lies
beyond the site's policy keeps the model here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.core.batches import in_order, one_blas_thread
from fedcsa.core.folds import fold_key, fold_labels, generator_for, turns
from fedcsa.core.membership import Attack, jackknife_variance, loss_attack, reference_attack
from fedcsa.errors import PolicyError
from fedcsa.messages.messages import Brief
from fedcsa.messages.policy import Policy
from fedcsa.models.fitted import FittedModel
from fedcsa.models.model import Candidate, Model
from fedcsa.source.exposure import largest_outcome_share
from fedcsa.source.measure import Job, Work, fits_of
from fedcsa.source.weigh import Batch, Folds

#: Rows that the attacks are tried on at most: the AUC is then known to 0.003.
MOST_ROWS = 20_000
#: With fewer folds nobody can tell how much predictions vary by chance.
FEWEST_FOLDS = 3
#: Folds of a study that has none of its own: as many as the default.
OWN_FOLDS = 5

#: Which rows of a batch to look at.
_Sample = Callable[[Batch], NDArray[np.bool_]]


@dataclass(frozen=True)
class Certificate:
    """What attacks on one model reach.

    Attributes
    ----------
    loss : Attack
        By the loss alone.
    reference : Attack
        With models of other rows to compare with.
    outcome_share : float
        How much of the prediction for the most exposed patient is that patient's own outcome.
    n_rows : int
        Rows that membership was tried on.
    """

    loss: Attack
    reference: Attack
    outcome_share: float
    n_rows: int

    @property
    def membership_auc(self) -> float:
        """What the better attack reaches; ½ is chance."""
        return max(self.loss.auc, self.reference.auc)

    def check(self, policy: Policy) -> None:
        """Raise a `PolicyError` if an attack reaches more than `policy` lets a model tell."""
        most = policy.max_membership_auc
        if self.membership_auc > most:
            raise PolicyError(
                "max_membership_auc",
                "This site's model stays here: whether a patient was in it can be told with an "
                f"AUC of {self.membership_auc:.3f}, above {most:g}. Use a stronger penalty, "
                "fewer features, or larger leaves.",
            )
        policy.check_leverage(self.outcome_share)

    def to_plain(self) -> dict[str, Any]:
        """The record as plain values, for the preview and the log."""
        return asdict(self)


def certify(
    brief: Brief, work: Work, recipe: Model, candidate: Candidate, model: FittedModel
) -> Certificate:
    """Attack `model`, which is about to leave.

    Parameters
    ----------
    brief : Brief
    work : Work
        Whose paths hold the chosen candidate alone.
    recipe : Model
        What fitted the model.
    candidate : Candidate
        At which it was fitted.
    model : FittedModel
        As it leaves.
    """
    with one_blas_thread():
        folds, models = _without_folds(brief, work, recipe, candidate)
        look = _looker(brief, model, models, folds, _sample(brief, work))
        found = list(in_order(look, work.rows))
    inside, outside, moved, variance = np.concatenate(found, axis=1)
    share = largest_outcome_share(work, recipe, candidate, model, refit=brief.refit)
    attacks = loss_attack(inside, outside), reference_attack(moved, variance)
    return Certificate(*attacks, share, len(inside))


def _looker(
    brief: Brief, model: FittedModel, models: Sequence[FittedModel], folds: Folds, sample: _Sample
) -> Callable[[Batch], Array]:
    """What the attacks need of the rows of a batch, shape (4, rows).

    Distance of the outcome from the prediction with and without the row, how far the prediction
    moved towards the outcome, and the variance of predictions of the row.

    Parameters
    ----------
    brief : Brief
    model : FittedModel
    models : sequence of FittedModel
        Without every fold.
    folds : Folds
    sample : function of a batch
        Which rows to look at.
    """
    n_folds = len(models)

    def look(batch: Batch) -> Array:
        labels = folds.labels(batch).astype(np.intp)
        here = np.flatnonzero(sample(batch) & (labels < n_folds))
        X, labels = batch.seen[here], labels[here]
        truth = np.ones(len(here)) if brief.classes else batch.y[here]
        codes = batch.y[here].astype(np.intp)

        def told(fitted: FittedModel) -> Array:
            prediction = fitted.predict(X)
            return prediction[np.arange(len(X)), codes] if brief.classes else prediction

        own, others = told(model), np.array([told(fitted) for fitted in models])
        without = others[labels, np.arange(len(X))]
        moved = (own - without) * np.sign(truth - without)
        variance = jackknife_variance(others, labels)
        return np.stack([np.abs(truth - own), np.abs(truth - without), moved, variance])

    return look


def _sample(brief: Brief, work: Work) -> _Sample:
    """Which rows to try the attacks on: one of so many neighbours, drawn by a keyed hash.

    Parameters
    ----------
    brief : Brief
    work : Work
    """
    step = -(-work.rows.n_rows // MOST_ROWS)
    key = fold_key(generator_for(brief.seed, work.rows.source, "certificate"))

    def picked(batch: Batch) -> NDArray[np.bool_]:
        chosen: NDArray[np.bool_] = fold_labels(batch.start, batch.stop, step, key) == 0
        return chosen

    return picked


def _without_folds(
    brief: Brief, work: Work, recipe: Model, candidate: Candidate
) -> tuple[Folds, Sequence[FittedModel]]:
    """Models without every fold: those of the report, or fitted anew where it has none.

    Parameters
    ----------
    brief : Brief
    work : Work
        Whose paths hold the chosen candidate alone.
    recipe : Model
    candidate : Candidate
    """
    folds, paths = work.folds, work.paths
    assert folds is not None  # noqa: S101 - without folds there is no model
    if brief.scheme != "cross-fit":
        parts = range(folds.n_folds) if brief.refit else folds.turns[0].train
        folds = _folds_inside(brief, work, folds, parts)
        fits = fits_of(brief, work.rows, work.weighing, folds, recipe, [candidate])
        last = work.weighing.n_columns - 1
        jobs = [Job(t.train, last, f"certificate-{k}") for k, t in enumerate(folds.turns)]
        paths = fits.paths(jobs, [candidate])
    models = [path.models[0] for path in paths if path.models[0] is not None]
    if len(models) < max(FEWEST_FOLDS, len(paths)):
        raise PolicyError(
            "max_membership_auc",
            "This site's model stays here: too few folds could be fitted to try out what it tells.",
        )
    return folds, models


def _folds_inside(brief: Brief, work: Work, folds: Folds, parts: Sequence[int]) -> Folds:
    """Folds of the rows in `parts`, on which the model was fitted; all others are in none.

    Parameters
    ----------
    brief : Brief
    work : Work
    folds : Folds
        Of the study.
    parts : sequence of int
        Of them.
    """
    key = fold_key(generator_for(brief.seed, work.rows.source, "certificate-folds"))
    own = Folds((), OWN_FOLDS, key)
    labels = [
        np.where(np.isin(folds.labels(batch), parts), own.labels(batch), OWN_FOLDS)
        for batch in work.rows
    ]
    dealt = np.concatenate(labels).astype(np.int16)
    return replace(own, turns=turns("cross-fit", OWN_FOLDS), n_folds=OWN_FOLDS + 1, dealt=dealt)

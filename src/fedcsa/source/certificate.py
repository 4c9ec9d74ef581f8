"""What an attacker would learn from a source's model, tried out before the model leaves.

The record stays at the site: its steward sees it in the preview, its log keeps it. Whatever lies
beyond the site's policy keeps the model here.

==========  ================================================================================
membership  by the loss, and with reference models: see `fedcsa.core.membership`
content     numbers that are a cell or an outcome, arrays as long as the table, leaves of few
            rows, more numbers than the rows can hide
==========  ================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import add
from typing import Any

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.batches import over_blocks
from fedcsa.core.folds import fold_key, fold_labels, generator_for, turns
from fedcsa.core.membership import Attack, jackknife_variance, loss_attack, reference_attack
from fedcsa.errors import PolicyError
from fedcsa.messages.messages import Brief, ModelReport
from fedcsa.messages.policy import Policy
from fedcsa.models.arrivals import open_agreed
from fedcsa.models.description import count_parameters, thaw
from fedcsa.models.fitted import FittedModel
from fedcsa.models.leaving import long_arrays, own_values, rows_behind, rows_per_mean
from fedcsa.models.model import Path
from fedcsa.models.portable import PortableModel
from fedcsa.source.exposure import exposures
from fedcsa.source.fits import Job
from fedcsa.source.measure import Work
from fedcsa.source.weigh import Batch, Folds, StudyRows

#: Rows that the attacks on membership are tried on at most: the AUC is then known to 0.003.
MOST_ROWS = 20_000
#: With fewer folds nobody can tell how much predictions vary by chance.
FEWEST_FOLDS = 3
#: Folds of a study that has none of its own: as many as the default.
OWN_FOLDS = 5


@dataclass(frozen=True)
class Certificate:
    """What attacks on one model reach.

    Attributes
    ----------
    loss, reference : Attack or None
        On membership: by the loss alone, and with models of other rows to compare with. None if
        too few folds could be fitted to try them.
    n_rows : int
        Rows that they were tried on.
    outcome_share : float
        How much of the prediction for the most exposed patient is that patient's own outcome, or
        of the variance of all outcomes.
    parameters_per_row : float
        Numbers of the model that were fitted, per row that it was fitted on.
    smallest_leaf : int or None
        Rows in the smallest leaf, or behind an imputer's or a scaler's mean; None if the model has
        neither.
    own_values : tuple of str
        Names of arrays that hold a cell or an outcome, or are as long as the table.
    """

    loss: Attack | None
    reference: Attack | None
    n_rows: int
    outcome_share: float
    parameters_per_row: float
    smallest_leaf: int | None
    own_values: tuple[str, ...]

    @property
    def membership_auc(self) -> float:
        """What the better attack on membership reaches; ½ is chance, 1 if none could be tried."""
        tried = [attack.auc for attack in (self.loss, self.reference) if attack is not None]
        return max(tried, default=1.0)

    def check(self, policy: Policy) -> None:
        """Raise a `PolicyError` if the model tells more than `policy` lets a model tell."""
        if policy.no_own_values and self.own_values:
            where = ", ".join(self.own_values)
            raise _stays("no_own_values", f"it holds cells or outcomes of its rows ({where})")
        fewest = policy.min_rows_per_leaf
        if self.smallest_leaf is not None and self.smallest_leaf < fewest:
            what = "every leaf, and every mean of an imputer or a scaler,"
            raise _stays("min_rows_per_leaf", f"{what} must be of {fewest} rows or more")
        most = policy.max_membership_auc
        if self.membership_auc > most:
            why = "too few folds could be fitted to try out what it tells"
            if self.loss is not None:
                why = (
                    "who was in it can be told with an AUC of "
                    f"{self.membership_auc:.3f}, above {most:g}. Use a stronger penalty, fewer "
                    "features or larger leaves"
                )
            raise _stays("max_membership_auc", why)
        policy.check_leverage(self.outcome_share)

    def to_plain(self) -> dict[str, Any]:
        """The record as plain values, for the preview and the log."""
        return {**asdict(self), "own_values": list(self.own_values)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Certificate:
        """The record that `to_plain` gave."""
        attacks = {
            name: None if plain[name] is None else Attack(**plain[name])
            for name in ("loss", "reference")
        }
        return cls(**{**plain, **attacks, "own_values": tuple(plain["own_values"])})


def _stays(rule: str, why: str) -> PolicyError:
    """The refusal to let a model leave.

    Parameters
    ----------
    rule : str
    why : str
    """
    return PolicyError(rule, f"This site's model stays here: {why}.")


def certify(report: ModelReport, fitted: FittedModel, work: Work) -> Certificate:
    """Attack the model that is about to leave.

    Parameters
    ----------
    report : ModelReport
        As it leaves.
    fitted : FittedModel
        The same before its numbers were rounded.
    work : Work
        Of the chosen candidate alone.
    """
    brief = work.rows.brief
    told = report.form, report.arrays, brief, report.candidate
    model = open_agreed(*told, brief.sd, report.held)  # as it arrives
    folds, models = _without_folds(work)
    loss, reference, n_rows = _membership(work, model, models, folds)
    held = _own_values(report, fitted, work.rows)
    smallest = None if report.is_held else _smallest_leaf(model, work.rows)
    per_row = count_parameters(report.arrays) / max(report.n_rows, 1)
    share = exposures(work, model).max(initial=0.0)
    return Certificate(loss, reference, n_rows, float(share), per_row, smallest, held)


# Content ------------------------------------------------------------------------------------


def _own_values(report: ModelReport, fitted: FittedModel, rows: StudyRows) -> tuple[str, ...]:
    """Names of arrays that hold a cell or an outcome, or are as long as the table.

    Numbers are looked at before they were rounded, since rounded ones meet cells by chance.

    Parameters
    ----------
    report : ModelReport
    fitted : FittedModel
    rows : StudyRows
    """
    if report.is_held:  # in one process, where nothing leaves
        return ()
    agreed = _agreed_constants(rows.brief)
    names = set(long_arrays(report.form, report.arrays, rows.n_rows))
    for [batch] in rows.by_batch:
        names.update(own_values(report.form, fitted.arrays, batch.seen, batch.y, agreed))
    return tuple(sorted(names))


def _smallest_leaf(model: PortableModel, rows: StudyRows) -> int | None:
    """Rows in the smallest leaf, or behind a mean of a step; None if it has neither.

    Parameters
    ----------
    model : PortableModel
    rows : StudyRows
    """
    counts = np.sum(
        [
            np.concatenate(
                [rows_behind(model, batch.seen, batch.y), rows_per_mean(model, batch.seen)]
            )
            for [batch] in rows.by_batch
        ],
        axis=0,
    )
    return int(counts.min()) if len(counts) else None


def _agreed_constants(brief: Brief) -> Array:
    """Numbers that every site knows: 0 and 1 of flags as models see them, and the model's own.

    Parameters
    ----------
    brief : Brief

    Returns
    -------
    array of shape (numbers,)
    """
    flags = np.array(brief.flags, dtype=bool)
    model = {key: value for key, value in thaw(brief.model).items() if key != "inputs"}
    levels = np.array([0.0, 1.0])[:, None]
    if brief.scale:
        levels = (levels - brief.mean[flags]) / brief.sd[flags]
    return np.concatenate([levels.ravel(), np.array(_numbers(model), dtype=float)])


def _numbers(value: object) -> list[float]:
    """Every number inside plain values."""
    if isinstance(value, bool):
        return []
    if isinstance(value, int | float):
        return [float(value)]
    if isinstance(value, dict):
        value = list(value.values())
    items = value if isinstance(value, list) else []
    return [number for item in items for number in _numbers(item)]


# Membership ---------------------------------------------------------------------------------


def _membership(
    work: Work, model: FittedModel, models: Sequence[FittedModel], folds: Folds
) -> tuple[Attack | None, Attack | None, int]:
    """What the two attacks reach, and on how many rows.

    Parameters
    ----------
    work : Work
    model : FittedModel
    models : sequence of FittedModel
        Without every fold; none if they could not be fitted.
    folds : Folds
    """
    if not models:
        return None, None, 0
    look = _looker(work, model, models, folds)
    found = over_blocks(work.rows.by_batch, look, add)
    inside, outside, moved, variance = np.concatenate(found, axis=1)
    return loss_attack(inside, outside), reference_attack(moved, variance), len(inside)


def _looker(
    work: Work, model: FittedModel, models: Sequence[FittedModel], folds: Folds
) -> Callable[[Batch], list[Array]]:
    """What the attacks need of the rows of a batch, shape (4, rows), as a list of one.

    Distance of the outcome from the prediction with and without the row, how far the prediction
    moved towards the outcome, and the variance of predictions of the row. Of so many neighbours
    one is looked at, drawn by a keyed hash.

    Parameters
    ----------
    work : Work
    model : FittedModel
    models : sequence of FittedModel
        Without every fold.
    folds : Folds
    """
    brief, n_folds = work.rows.brief, len(models)
    step = -(-work.rows.n_rows // MOST_ROWS)
    key = fold_key(generator_for(brief.seed, work.rows.source, "certificate"))

    def look(batch: Batch) -> list[Array]:
        labels = folds.labels(batch).astype(np.intp)
        picked = fold_labels(batch.place.start, batch.place.stop, step, key) == 0
        here = np.flatnonzero(picked & (labels < n_folds))
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
        return [np.stack([np.abs(truth - own), np.abs(truth - without), moved, variance])]

    return look


def _without_folds(work: Work) -> tuple[Folds, Sequence[FittedModel]]:
    """Models without every fold, the report's own or fitted anew; none if one is missing.

    Parameters
    ----------
    work : Work
        Of the chosen candidate alone.
    """
    fits = work.fits
    assert fits is not None  # noqa: S101 - the model is sent
    folds = fits.folds
    if work.rows.brief.scheme != "cross-fit":
        folds = _folds_inside(work, folds, fits.sent.parts)
        own = fits.sent.column
        jobs = [Job(t.train, own, f"certificate-{k}") for k, t in enumerate(folds.turns)]
        paths: Sequence[Path] = replace(fits, folds=folds).paths(jobs, [work.chosen])
    else:
        paths = work.turn_paths()
    models = [path.models[0] for path in paths if path.models[0] is not None]
    return folds, models if len(models) >= max(FEWEST_FOLDS, len(paths)) else ()


def _folds_inside(work: Work, folds: Folds, parts: Sequence[int]) -> Folds:
    """Folds of the rows in `parts`, on which the model was fitted; all others are in none.

    Parameters
    ----------
    work : Work
    folds : Folds
        Of the study.
    parts : sequence of int
        Of them.
    """
    key = fold_key(generator_for(work.rows.brief.seed, work.rows.source, "certificate-folds"))
    own = Folds(turns("cross-fit", OWN_FOLDS), OWN_FOLDS, key)
    labels = [
        np.where(np.isin(folds.labels(batch), parts), own.labels(batch), OWN_FOLDS)
        for [batch] in work.rows.by_batch
    ]
    dealt = np.concatenate(labels).astype(np.int16)
    return replace(own, n_folds=OWN_FOLDS + 1, dealt=dealt)

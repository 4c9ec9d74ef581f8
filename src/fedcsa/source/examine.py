"""The others' mixture, opened and bound to what was agreed; how it does on a source's own rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from fedcsa.core.arrays import Array, logit
from fedcsa.core.batches import CACHED_ROWS, over_blocks
from fedcsa.core.folds import fold_key, fold_labels, generator_for
from fedcsa.core.losses import REGRESSION, Loss, LossSpread, row_losses
from fedcsa.core.measures import measure_variances
from fedcsa.core.random_effects import SMALLEST_VARIANCE
from fedcsa.core.scores import JACKKNIFE_GROUPS, TABLE_COLUMNS, ScoreSums, told_residuals
from fedcsa.core.subgroups import members_of_subgroups
from fedcsa.core.tilt import Tilt, balanced
from fedcsa.core.weights import median_mixture, useless_votes
from fedcsa.errors import DataError, MessageError, ModelError, PolicyError
from fedcsa.messages.fields import Message, to_json
from fedcsa.messages.messages import FARTHEST, Brief, Examination, ExaminationReport
from fedcsa.messages.policy import Policy
from fedcsa.models.arrivals import open_agreed
from fedcsa.models.description import GIVEN, given_column
from fedcsa.models.fitted import FittedModel
from fedcsa.models.linear_format import LinearModel, Lines
from fedcsa.models.model import predicted_or_why_not
from fedcsa.source.exposure import largest_examined_share
from fedcsa.source.measure import Work
from fedcsa.source.weigh import Batch

#: Takes the place of a sum that is zero where one divides by it or takes its logarithm.
_TINY = 1e-300

#: Stands for the loss where a model cannot predict: it is finite, and worse than any real one.
FAILED = 1e300
#: Losses beyond it count alike where their spread is summed, so that squares are finite.
_LARGEST_LOSS = 1e130
#: Rows that are examined together: many small sums are made of them, which take a while to begin.
_EXAMINED_ROWS = 2 * CACHED_ROWS
#: A member's log ratio to the constant is off by a factor e where it is not known any better.
_UNKNOWN = 1.0

Number = TypeVar("Number", float, Array)


#: From a batch to what the mixture and its members predict, see `mixture_and_members`.
Predictor = Callable[[Batch], tuple[Array | None, "Array | list[Array | None]"]]
#: An `ExaminationReport` without scores and residuals.
NO_TABLE: dict[str, Any] = {
    "scores": np.empty((0, len(TABLE_COLUMNS))),
    **dict.fromkeys(("score_sums", "measure_variance", "residuals"), np.empty((0, 0))),
}


# The mixture ----------------------------------------------------------------------------------


def members_of(asked: Examination, brief: Brief) -> Sequence[FittedModel]:
    """The models in an examination, opened and bound to what was agreed.

    Parameters
    ----------
    asked : Examination
    brief : Brief
        Of the study, on which this site has reported.
    """
    n_classes = len(brief.classes)
    if brief.exchange != "table" or len(asked.constant) != max(n_classes, 1):
        raise MessageError("An examination must be of the study's features and outcome.")
    model, column = brief.model, given_column(brief.model)
    if asked.own_weight == 1.0 and not column and model.get("name") == GIVEN:
        raise MessageError("An examination of a given model must hold it.")
    if column and (asked.own_weight != 1.0 or len(asked.forms)):
        raise MessageError("An examination must be of the sites' own column of predictions.")
    together = asked.together
    if together and model.get("name") == GIVEN:
        raise MessageError("An examination of a given model must hold one.")
    held, found = asked.held or (None,) * len(asked.forms), []
    first = {name: rows[0] for name, rows in together.items()}
    members = [(asked.forms[0], first)] if together else asked.members
    try:
        for own, (form, arrays) in zip(held, members, strict=True):
            found.append(open_agreed(form, arrays, brief, asked.candidate, brief.sd, own))
    except ModelError as error:
        raise MessageError(f"An examination must hold models of the study. {error}") from None
    if not together:
        return found
    line = found[0]
    if not isinstance(line, LinearModel):
        raise MessageError("An examination must have a form for every model that is no line.")
    return Lines(together["coefficients"], together["intercept"][:, 0], line.link)


def check_second(asked: Examination, first: Message | None) -> None:
    """Refuse a second examination unless it is of some of the first one's models.

    Parameters
    ----------
    asked : Examination
        The second.
    first : Examination or None
        None if there was none.
    """
    known = _fingerprints(first) if isinstance(first, Examination) else []
    if first is None or not set(_fingerprints(asked)) <= set(known):
        raise PolicyError(
            "one_examination",
            "A second examination must be of models that were examined in the first.",
        )


def _fingerprints(asked: Examination) -> list[Hashable]:
    """What tells an examination's members apart: all their bytes, or which object they are."""
    held = asked.held or (None,) * len(asked.weights)
    return [
        (to_json(form), *((name, array.shape, array.tobytes()) for name, array in arrays.items()))
        if own is None
        else id(own)
        for own, (form, arrays) in zip(held, asked.members, strict=True)
    ]


def mixture_and_members(
    asked: Examination, members: Sequence[FittedModel], work: Work, batch: Batch
) -> tuple[Array | None, Array | list[Array | None]]:
    """What the mixture predicts for a batch, and what every member does.

    Where most of it is the source's own, that is held-out predictions.

    Parameters
    ----------
    asked : Examination
    members : sequence of FittedModel
    work : Work
        Whose paths hold the chosen candidate alone, if the source's own model takes part.
    batch : Batch

    Returns
    -------
    mixture : array of shape (rows,) or (rows, classes), or None
        None where a member cannot predict the rows.
    members : array of shape (members, rows), or list of arrays and None
        An array of lines.
    """
    X, lines, weights = batch.seen, Lines.of(members), asked.weights
    # A mean of lines is a line.
    one = lines.mean(weights) if lines is not None and asked.combine == "mean" else None
    each: Array | list[Array | None]
    if one is not None and lines is not None and lines.link == "identity":
        with np.errstate(all="ignore"):  # what is not finite is looked for
            each = (X @ lines.coefficients.T + lines.intercepts).T
    else:  # a model of another site may know nothing of a level that is only here
        each = [predicted_or_why_not(member, X)[0] for member in members]
    taken, outputs = each, list[Array]()
    if one is not None:
        taken, weights = [predicted_or_why_not(one, X)[0]], np.array([weights.sum()])
    for output in taken:
        if output is None:
            return None, each
        outputs.append(output)
    if asked.own_weight:
        outputs.append(_held_out(work, batch))
        weights = np.append(weights, asked.own_weight)
    if asked.combine == "median":
        return median_mixture(np.stack(outputs, axis=1), weights), each
    total: Array = weights[0] * outputs[0]
    for weight, output in zip(weights[1:], outputs[1:], strict=True):
        total = total + weight * output
    return total, each


def _held_out(work: Work, batch: Batch) -> Array:
    """The site's column of predictions, or those of its own models, each on rows it has not seen.

    Parameters
    ----------
    work : Work
        With fits, of one candidate: a source without them has no weight.
    batch : Batch
    """
    if batch.given is not None:
        p = batch.given
        return np.column_stack([1.0 - p, p]) if work.rows.brief.classes else p
    if work.outputs is not None:
        own: Array = work.outputs[0, batch.place]
        return own
    assert work.fits is not None  # noqa: S101 - see above
    folds = work.fits.folds
    labels = folds.labels(batch)
    found: Array | None = None
    for turn, path in zip(folds.turns, work.paths, strict=True):
        here, [model] = np.flatnonzero(labels == turn.judge), path.models
        if len(here) and model is not None:
            output = model.predict(batch.seen[here])
            found = np.zeros((len(labels), *output.shape[1:])) if found is None else found
            found[here] = output
    assert found is not None  # noqa: S101 - there is a row
    return found


# On the rows ----------------------------------------------------------------------------------


def finds_useless(found: ExaminationReport, weights: Array) -> bool:
    """Whether a second examination may follow, because a member is of no use here.

    Parameters
    ----------
    found : ExaminationReport
    weights : array of shape (members,)
        In the mixture.
    """
    if len(found.member_risk) == 0:
        return False
    *_, votes = useless_votes(
        found.member_risk, found.member_variance, found.constant_risk, weights
    )
    return bool(votes.any())


def examine(
    asked: Examination,
    members: Sequence[FittedModel],
    work: Work,
    policy: Policy,
    in_reply_to: str,
) -> ExaminationReport:
    """Risk, ratio to the constant, and level of the outcomes, each with its sampling variance.

    Of every member of the mixture the risk and the variance of its log ratio to the constant's.
    Then outcomes by score, from which all measures follow.

    Parameters
    ----------
    asked : Examination
        With the constant prediction, and the units of scores.
    members : sequence of FittedModel
        The models in it, opened.
    work : Work
        Of the chosen candidate. Its weights match the target's Table 1.
    policy : Policy
        How much one row may decide, and the fewest rows of a cell that is told.
    in_reply_to : str
        Hash of the examination.
    """
    assert isinstance(work.weighing, Tilt)  # noqa: S101 - checked by the source
    brief, tilt = work.rows.brief, work.weighing
    predict = partial(mixture_and_members, asked, members, work)
    if policy.max_row_leverage < 1.0:
        policy.check_leverage(largest_examined_share(work, predict, members))
    rng = generator_for(brief.seed, work.rows.source, "jackknife")
    of_block = partial(_First.of, work, tilt, predict, asked, fold_key(rng))
    rows = replace(work.rows, block_rows=_EXAMINED_ROWS)
    first = over_blocks(rows, of_block, _First.merge)
    report = partial(ExaminationReport, asked.study, work.rows.source, in_reply_to)
    ess, sums, rate = 1.0 / first.spread.squares, first.groups.sum(axis=0), brief.loss == "zero-one"
    risk, constant, each = float(sums[1]), float(sums[2]), sums[5 + 2 * len(brief.classes) :]
    if rate:  # no error in few rows does not mean none at all
        risk, constant, each = _smooth(risk, ess), _smooth(constant, ess), _smooth(each, ess)
    lowest, least, most = first.extremes
    if least == -most:
        return report("outcomes_alike")
    if min(lowest, constant) < 0.0:
        return report("loss_not_positive")
    if risk > FAILED**0.5:  # no real loss comes near; it matters the more whose fault that is
        unknown = np.full(len(each), _UNKNOWN)
        told = {"constant_risk": constant, "member_risk": each, "member_variance": unknown}
        return report("mixture_failed", **told)
    if not min(risk, constant) ** 2 > 0.0:  # squares are divided by, and that of 1e-200 is 0
        return report("no_loss")
    unit = float(np.sqrt(sums[4])) or 1.0  # of residuals; a level is told in shares of it
    explained, variances = first.spread.variances(unit, tilt.moments)
    if rate:
        variances[0] = max(variances[0], risk**2 * _log_rate_variance(risk, ess))
        if not (sums[1:3] > 0.0).all():
            variances[1] = sum(_log_rate_variance(p, ess) for p in (risk, constant))
    if brief.group:
        by_patient = _of_patients(first.without(sums), len(each), unit, ess if rate else None)
        variances = np.maximum(variances, by_patient)
    level, level_variance = np.array([sums[3] / unit]), variances[2:3]
    if brief.classes:
        level, level_variance = _rates(sums, first.without(sums), ess, len(brief.classes))
    imbalance = float(np.mean(np.minimum(np.abs(first.difference), FARTHEST) ** 2))
    return report(
        risk=risk,
        risk_variance=max(float(variances[0]) / risk**2 + imbalance**2, SMALLEST_VARIANCE),
        explained=explained / risk**2,
        constant_risk=constant,
        ratio_variance=max(float(variances[1]) + imbalance**2, SMALLEST_VARIANCE),
        level=level,
        level_variance=np.maximum(level_variance + imbalance, SMALLEST_VARIANCE),
        member_risk=each,
        member_variance=np.maximum(variances[3:] + imbalance**2, SMALLEST_VARIANCE),
        **first.told(policy.min_cell_rows, imbalance),
    )


def _losses(loss: Loss, outputs: Array | Sequence[Array | None], y: Array) -> Array:
    """Losses of every model, (models, rows); of lines all at once.

    `FAILED` where one cannot predict, or predicts what has no finite loss.

    Parameters
    ----------
    loss : Loss
    outputs : array of shape (models, rows), or sequence of arrays and None
        What they predict.
    y : array of shape (rows,)
    """
    if isinstance(outputs, np.ndarray) and loss in REGRESSION.values():
        with np.errstate(over="ignore", invalid="ignore"):
            losses: Array = loss(outputs, y)
        losses[~np.isfinite(losses).all(axis=1)] = FAILED
        return np.minimum(losses, FAILED)
    found = np.full((len(outputs), len(y)), FAILED)
    for k, output in enumerate(outputs):
        if output is not None:
            with suppress(DataError), np.errstate(over="ignore"):
                found[k] = np.minimum(row_losses(loss, output, y), FAILED)
    return found


@dataclass(frozen=True)
class _First:
    """What a pass finds: weighted sums in every group of the jackknife, extremes, spreads.

    Columns of `groups`: Σw, Σ w L, Σ w K, Σ w r, Σ w r², then for every class Σ w 1{y} and Σ w p,
    with losses L of the mixture and K of the constant, and residuals r of numbers, 0 for classes;
    at the end the losses of every member.
    """

    groups: Array  # (groups, columns)
    difference: Array  # Σ w z
    extremes: Array  # smallest loss, smallest outcome, largest outcome with its sign changed
    scores: ScoreSums
    spread: LossSpread

    @classmethod
    def of(
        cls,
        work: Work,
        tilt: Tilt,
        predict: Predictor,
        asked: Examination,
        key: int,
        batch: Batch,
    ) -> _First:
        """Sums over a block. The largest array is its C, on every core.

        Parameters
        ----------
        work, asked
            As for `examine`.
        tilt : Tilt
            The weights.
        predict : Predictor
            The mixture and its members.
        key : int
            Of the hash that deals rows to the groups of the jackknife.
        batch : Batch
            A few rows.
        """
        brief, y, (mixed, each) = work.rows.brief, batch.y, predict(batch)
        shape = (len(y), len(asked.constant)) if brief.classes else y.shape
        constant = np.broadcast_to(asked.constant, shape).copy()
        prediction = constant if mixed is None else mixed
        [L], members = _losses(work.loss, [mixed], y), _losses(work.loss, each, y)
        K = row_losses(work.loss, constant, y)
        functions = balanced(batch.z, tilt.flags, tilt.correlations)[1:].T
        w = tilt.weights(batch.z, functions)
        residual = np.zeros_like(w) if brief.classes else y - prediction
        columns = [w, w * L, w * K, w * residual, w * residual**2]
        for c in range(len(brief.classes)):
            columns += [w * (y == c), w * prediction[:, c]]
        place, inside = batch.place, None
        labels = fold_labels(place.start, place.stop, JACKKNIFE_GROUPS, key, batch.groups)
        sums = np.empty((len(columns) + len(members), JACKKNIFE_GROUPS))
        for k, column in enumerate(columns):
            sums[k] = np.bincount(labels, column, JACKKNIFE_GROUPS)
        by_group = np.zeros((len(w), JACKKNIFE_GROUPS))
        by_group[np.arange(len(w)), labels] = w
        sums[len(columns) :] = members @ by_group
        if brief.subgroups:
            declared = brief.subgroups
            inside = members_of_subgroups(declared, brief.features, batch.z, brief.mean, brief.sd)
        with np.errstate(over="ignore", invalid="ignore"):  # then no table is told
            design = brief.score_bins(asked.centre, asked.unit)
            scores = ScoreSums.of_rows(design, y, prediction, w, labels, inside, batch.z)
        values = np.minimum(np.vstack([L, K, residual, members]), _LARGEST_LOSS)
        return cls(
            sums.T,
            w @ batch.z,
            np.array([L.min(), y.min(), -y.max()]),
            scores,
            LossSpread.of(values, w, functions),
        )

    def merge(self, other: _First) -> _First:
        """Of both sets of rows."""
        return _First(
            self.groups + other.groups,
            self.difference + other.difference,
            np.minimum(self.extremes, other.extremes),
            self.scores.merge(other.scores),
            self.spread.merge(other.spread),
        )

    def told(self, min_rows: int, imbalance: float) -> dict[str, Any]:
        """Outcomes by score and what follows, if there are enough rows for one cell.

        Parameters
        ----------
        min_rows : int
            Fewest rows of a cell.
        imbalance : float
            ι, which adds to variances.
        """
        scores, score_sums, parts = self.scores.told(min_rows)
        variances = measure_variances(parts, self.scores.design, imbalance)
        found = {"scores": scores, "score_sums": score_sums, "measure_variance": variances}
        if self.scores.residuals.size:
            residuals = self.scores.residuals, self.scores.largest
            found["residuals"] = told_residuals(*residuals, min_rows)
        finite = np.isfinite(np.concatenate([*map(np.ravel, found.values())])).all()
        return found if finite and len(scores) else {}

    def without(self, sums: Array) -> Array:
        """The sums without each group that has weight, over what weight is left."""
        rest = sums - self.groups[self.groups[:, 0] > 0.0]
        found: Array = rest / np.maximum(rest[:, :1], _TINY)
        return found


# Variances ----------------------------------------------------------------------------------


def _jackknife(left_out: Array) -> float:
    """(G − 1)/G Σ (θ_−g − mean)² over groups left out in turn; 0 of fewer than two."""
    if len(left_out) < 2:
        return 0.0
    deviation = left_out - left_out.mean()
    return float((len(left_out) - 1.0) / len(left_out) * (deviation @ deviation))


def _of_patients(without: Array, n_members: int, unit: float, ess: float | None) -> Array:
    """Variances by leaving out groups of patients, whose rows are not independent.

    Parameters
    ----------
    without : array of shape (groups, columns)
        As in `_First`, members last.
    n_members : int
    unit : float
        Of residuals.
    ess : float or None
        Effective rows, if the loss is a rate.

    Returns
    -------
    array
        As `LossSpread.variances` gives them.
    """
    both = without[:, 1:3] if ess is None else _smooth(without[:, 1:3], ess)
    both, rest = np.maximum(both, _TINY), np.maximum(without, _TINY)
    members = np.log(rest[:, rest.shape[1] - n_members :] / rest[:, [2]]).T
    each = [without[:, 1], np.log(both[:, 0] / both[:, 1]), without[:, 3] / unit, *members]
    return np.array([_jackknife(x) for x in each])


def _rates(sums: Array, without: Array, ess: float, n_classes: int) -> tuple[Array, Array]:
    """Log-odds of the observed share less those of the expected one, by class, with variances.

    Parameters
    ----------
    sums : array of shape (columns,)
        As in `_First`.
    without : array of shape (groups, columns)
    ess : float
        Effective rows.
    n_classes : int
        Of two classes only the second is told.
    """

    def gaps(sums: Array) -> Array:
        """Log-odds of every class observed, minus those expected; the last axis is used up."""
        shares = np.clip(sums[..., 5 : 5 + 2 * n_classes], 0.0, 1.0)
        odds = logit(_smooth(shares, ess))
        found: Array = odds[..., ::2] - odds[..., 1::2]
        return found if n_classes > 2 else found[..., 1:]

    return gaps(sums), np.array([_jackknife(column) for column in gaps(without).T])


def _smooth(rate: Number, ess: float) -> Number:
    """(ESS·p + ½)/(ESS + 1): a rate that is neither 0 nor 1.

    Parameters
    ----------
    rate : float or array
        p.
    ess : float
        Effective rows.
    """
    return (ess * rate + 0.5) / (ess + 1.0)


def _log_rate_variance(rate: float, ess: float) -> float:
    """Variance of the logarithm of a binomial rate, (1 − p)/((ESS + 1) p).

    Parameters
    ----------
    rate : float
        p.
    ess : float
        Effective rows.
    """
    return (1.0 - rate) / ((ess + 1.0) * rate)

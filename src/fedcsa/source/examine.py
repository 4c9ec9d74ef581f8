"""How the others' mixture does on a source's own weighted rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TypeVar

import numpy as np
from scipy.special import logit

from fedcsa.core.arrays import Array
from fedcsa.core.batches import in_order, one_blas_thread
from fedcsa.core.folds import fold_key, generator_for
from fedcsa.core.losses import Loss, evaluate, sampling_variance
from fedcsa.core.scores import JACKKNIFE_GROUPS
from fedcsa.core.tilt import Tilt, balanced
from fedcsa.core.weights import median_mixture
from fedcsa.errors import DataError, MessageError, ModelError, PolicyError
from fedcsa.messages.fields import Message, thaw, to_json
from fedcsa.messages.messages import FARTHEST, Brief, Examination
from fedcsa.models.arrivals import open_agreed
from fedcsa.models.fitted import FittedModel, LinearModel
from fedcsa.source.measure import Work
from fedcsa.source.weigh import Batch, Folds, TableWeighing

#: From a batch to what the mixture predicts, (rows,) or (rows, classes), and what every member
#: does; None where it cannot predict the rows.
Predictor = Callable[[Batch], tuple[Array | None, list[Array | None]]]


def members_of(asked: Examination, brief: Brief) -> list[FittedModel]:
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
    model, candidate = thaw(brief.model), thaw(brief.candidates[asked.candidate])
    held = asked.held or (None,) * len(asked.forms)
    try:
        return [
            own
            if own is not None
            else open_agreed(
                form, arrays, model, candidate, brief.sd, scale=brief.scale, n_classes=n_classes
            )
            for own, (form, arrays) in zip(held, asked.members, strict=True)
        ]
    except ModelError as error:
        raise MessageError(f"An examination must hold models of the study. {error}") from None


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
    held = asked.held or (None,) * len(asked.forms)
    return [
        (to_json(form), *((name, array.shape, array.tobytes()) for name, array in arrays.items()))
        if own is None
        else id(own)
        for own, (form, arrays) in zip(held, asked.members, strict=True)
    ]


def mixture_of(asked: Examination, members: Sequence[FittedModel], work: Work) -> Predictor:
    """The mixture as a function of a batch; where most is the source's own, held-out predictions.

    Parameters
    ----------
    asked : Examination
    members : sequence of FittedModel
    work : Work
        Whose paths hold the chosen candidate alone, if the source's own model takes part.
    """
    mixed, weights = _shortened(asked, members)
    if asked.own_weight:
        weights = np.append(weights, asked.own_weight)

    def predict(batch: Batch) -> tuple[Array | None, list[Array | None]]:
        each = [_output(member, batch) for member in members]
        taken = each if mixed is members else [_output(member, batch) for member in mixed]
        outputs = [output for output in taken if output is not None]
        if len(outputs) < len(taken):
            return None, each
        if asked.own_weight:
            outputs.append(_held_out(work, batch))
        if asked.combine == "median":
            return median_mixture(np.stack(outputs, axis=1), weights), each
        total: Array = weights[0] * outputs[0]
        for weight, output in zip(weights[1:], outputs[1:], strict=True):
            total = total + weight * output
        return total, each

    return predict


def _shortened(
    asked: Examination, members: Sequence[FittedModel]
) -> tuple[Sequence[FittedModel], Array]:
    """The same mixture of as few models as possible, and their weights: a mean of lines is a line.

    Parameters
    ----------
    asked : Examination
    members : sequence of FittedModel
    """
    lines = [m for m in members if isinstance(m, LinearModel) and m.link == "identity"]
    if asked.combine != "mean" or len(lines) < max(len(members), 1):
        return members, asked.weights
    share = asked.weights / asked.weights.sum()
    coefficients = share @ np.array([line.coefficients for line in lines])
    intercept = share @ np.array([line.intercept for line in lines])
    one = LinearModel(coefficients, float(intercept), "identity")
    return [one], np.array([asked.weights.sum()])


def _output(member: FittedModel, batch: Batch) -> Array | None:
    """What a model of another site predicts; it may know nothing of a level that is only here.

    Parameters
    ----------
    member : FittedModel
    batch : Batch
    """
    try:
        output: Array = member.predict(batch.seen)
    except Exception:  # a foreign model may fail in any way, and its text may quote a cell
        return None
    return output if np.isfinite(output).all() else None


def _held_out(work: Work, batch: Batch) -> Array:
    """Predictions of the source's own models, each on the rows that it has not seen.

    Parameters
    ----------
    work : Work
        With folds and one model a path: a source without them has no weight.
    batch : Batch
    """
    assert work.folds is not None  # noqa: S101 - see above
    labels = work.folds.labels(batch)
    found: Array | None = None
    for turn, path in zip(work.folds.turns, work.paths, strict=True):
        here, [model] = np.flatnonzero(labels == turn.judge), path.models
        if len(here) and model is not None:
            output = model.predict(batch.seen[here])
            found = np.zeros((len(labels), *output.shape[1:])) if found is None else found
            found[here] = output
    assert found is not None  # noqa: S101 - there is a row
    return found


#: Ridge of the regression of the loss on the table's functions of x, whose variances are about 1:
#: too small to matter, large enough for functions that are nearly collinear.
EXPLAINED_RIDGE = 0.01
#: No variance on a log or logit scale is smaller: nothing is known better than to a millionth. An
#: exact zero would outweigh every other source.
SMALLEST_VARIANCE = 1e-12
#: Takes the place of a sum that is zero where one divides by it or takes its logarithm.
_TINY = 1e-300

#: Stands for the loss where a model cannot predict: it is finite, and worse than any real one.
FAILED = 1e300
#: A member's log ratio to the constant is off by a factor e where it is not known any better.
_UNKNOWN = 1.0

#: Weights, predictions, losses of the mixture, of the constant, and of every member (rows,
#: members), on the rows of a batch.
Look = tuple[Array, Array, Array, Array, Array]
Triple = tuple[Array, Array, Array]
Number = TypeVar("Number", float, Array)


@dataclass(frozen=True)
class Examined:
    """The numbers of an `ExaminationReport`."""

    reason: str = ""
    risk: float = 0.0
    risk_variance: float = 0.0
    explained: float = 0.0
    constant_risk: float = 0.0
    ratio_variance: float = 0.0
    level: Array = field(default_factory=lambda: np.empty(0))
    level_variance: Array = field(default_factory=lambda: np.empty(0))
    member_risk: Array = field(default_factory=lambda: np.empty(0))
    member_variance: Array = field(default_factory=lambda: np.empty(0))


def examine(brief: Brief, work: Work, predict: Predictor, constant: Array, loss: Loss) -> Examined:
    """Risk, ratio to the constant, and level of the outcomes, each with its sampling variance.

    Of every member of the mixture the risk and the variance of its log ratio to the constant's.

    Parameters
    ----------
    brief : Brief
    work : Work
        Its weights match the target's Table 1.
    predict : Predictor
        The mixture and its members.
    constant : array of shape (1,) or (classes,)
        The constant prediction.
    loss : Loss
    """
    assert isinstance(work.weighing, TableWeighing)  # noqa: S101 - checked by the source
    ess, rate = work.effective_rows, brief.loss == "zero-one"

    def look(batch: Batch) -> Look:
        w, y, (prediction, each) = work.weighing.judging(batch), batch.y, predict(batch)
        shape = (len(y), len(constant)) if brief.classes else y.shape
        same = np.broadcast_to(constant, shape).copy()
        members = np.array([_losses(loss, output, y) for output in each]).reshape(-1, len(y)).T
        losses, constants = _losses(loss, prediction, y), evaluate(loss, same, y)
        return w, same if prediction is None else prediction, losses, constants, members

    with one_blas_thread():
        first = _first_pass(brief, work, look)
        risk, constant_risk = float(first.sums[1]), float(first.sums[2])
        if rate:  # no error in few rows does not mean none at all
            risk, constant_risk = _smooth(risk, ess), _smooth(constant_risk, ess)
        member_risk = _smooth(first.members, ess) if rate else first.members
        reason = first.reason(risk, constant_risk)
        if reason == "mixture_failed":  # then it matters the more whose fault that is
            unknown = np.full(len(member_risk), _UNKNOWN)
            return Examined(
                reason,
                constant_risk=constant_risk,
                member_risk=member_risk,
                member_variance=unknown,
            )
        if reason:
            return Examined(reason)
        spread, squares, with_functions = _second_pass(brief, work, look, first)
    v, ratio, drift, *apart = sampling_variance(spread, squares, ess).tolist()
    without = first.without()
    if rate:
        v = max(v, risk**2 * _log_rate_variance(risk, ess))
        if not (first.sums[1:3] > 0.0).all():
            ratio = sum(_log_rate_variance(p, ess) for p in (risk, constant_risk))
    if brief.group:  # rows of one patient are not independent: leave out patients, not rows
        rest = _smooth(without[:, 1:3], ess) if rate else without[:, 1:3]
        rest = np.maximum(rest, _TINY)
        v = max(v, _jackknife(without[:, 1]))
        ratio = max(ratio, _jackknife(np.log(rest[:, 0] / rest[:, 1])))
        drift = max(drift, _jackknife(without[:, 3] / first.unit))
        apart = _left_out_ratios(without, apart)
    level, level_variance = np.array([first.sums[3] / first.unit]), np.array([drift])
    if brief.classes:
        level, level_variance = _rates(first.sums, without, ess, len(brief.classes))
    imbalance = float(np.mean(np.minimum(np.abs(first.difference), FARTHEST) ** 2))
    explained = _explained(work.weighing.tilt, with_functions, float(spread[0]))
    return Examined(
        risk=risk,
        risk_variance=max(v / risk**2 + imbalance**2, SMALLEST_VARIANCE),
        explained=explained / risk**2,
        constant_risk=constant_risk,
        ratio_variance=max(ratio + imbalance**2, SMALLEST_VARIANCE),
        level=level,
        level_variance=np.maximum(level_variance + imbalance, SMALLEST_VARIANCE),
        member_risk=member_risk,
        member_variance=np.maximum(np.array(apart) + imbalance**2, SMALLEST_VARIANCE),
    )


def _losses(loss: Loss, output: Array | None, y: Array) -> Array:
    """Losses; `FAILED` where a model cannot predict, or predicts what has no finite loss.

    Parameters
    ----------
    loss : Loss
    output : array of shape (rows,) or (rows, classes), or None
    y : array of shape (rows,)
    """
    if output is not None:
        try:
            with np.errstate(over="ignore"):
                return np.minimum(evaluate(loss, output, y), FAILED)
        except DataError:
            pass
    return np.full(len(y), FAILED)


@dataclass(frozen=True)
class _First:
    """What the first pass finds: weighted sums in every group of the jackknife, and extremes.

    Columns of `groups`: Σw, Σ w L, Σ w K, Σ w r, Σ w r², then for every class Σ w 1{y} and Σ w p,
    with losses L of the mixture and K of the constant, and residuals r of numbers, 0 for classes;
    at the end the losses of every member.
    """

    n_members: int
    groups: Array  # (groups, columns)
    difference: Array  # Σ w z
    extremes: Array  # smallest loss, smallest outcome, largest outcome with its sign changed

    def merge(self, other: _First) -> _First:
        """Of both sets of rows."""
        extremes = np.minimum(self.extremes, other.extremes)
        groups, difference = self.groups + other.groups, self.difference + other.difference
        return _First(self.n_members, groups, difference, extremes)

    @property
    def sums(self) -> Array:
        """Over all groups."""
        total: Array = self.groups.sum(axis=0)
        return total

    @property
    def members(self) -> Array:
        """Risk of every member."""
        return self.sums[len(self.sums) - self.n_members :]

    @property
    def unit(self) -> float:
        """Root mean square of the residuals, of which a level is told in shares; 1 if it is 0."""
        return float(np.sqrt(self.sums[4])) or 1.0

    def without(self) -> Array:
        """The sums without each group that has weight, over what weight is left."""
        rest = self.sums - self.groups[self.groups[:, 0] > 0.0]
        found: Array = rest / np.maximum(rest[:, :1], _TINY)
        return found

    def reason(self, risk: float, constant_risk: float) -> str:
        """Why nothing can be said, or nothing.

        Parameters
        ----------
        risk, constant_risk : float
            Of the mixture and of the constant.
        """
        lowest, least, most = self.extremes
        if least == -most:
            return "outcomes_alike"
        if min(lowest, constant_risk) < 0.0:
            return "loss_not_positive"
        if risk > FAILED**0.5:  # no real loss comes near
            return "mixture_failed"
        return "" if risk > 0.0 and constant_risk > 0.0 else "no_loss"


def _first_pass(brief: Brief, work: Work, look: Callable[[Batch], Look]) -> _First:
    """Sums of weights, losses, residuals and classes.

    Parameters
    ----------
    brief : Brief
    work : Work
    look : function of a batch
    """
    key = fold_key(generator_for(brief.seed, work.rows.source, "jackknife"))
    groups = Folds((), JACKKNIFE_GROUPS, key)

    def of_batch(batch: Batch) -> _First:
        y, (w, prediction, L, K, members) = batch.y, look(batch)
        residual = np.zeros_like(w) if brief.classes else y - prediction
        columns = [w, w * L, w * K, w * residual, w * residual**2]
        for c in range(len(brief.classes)):
            columns += [w * (y == c), w * prediction[:, c]]
        columns += list((w[:, None] * members).T)
        labels = groups.labels(batch)
        sums = [np.bincount(labels, column, JACKKNIFE_GROUPS) for column in columns]
        extremes = np.array([L.min(), y.min(), -y.max()])
        return _First(members.shape[1], np.column_stack(sums), w @ batch.z, extremes)

    return reduce(_First.merge, in_order(of_batch, work.rows))


def _second_pass(brief: Brief, work: Work, look: Callable[[Batch], Look], first: _First) -> Triple:
    """Σ w (·)² and Σ w² (·)² of L − f, L/f − K/f_K, r/unit, and Σ w C (L − f).

    After r/unit come the ratios L/f − K/f_K of every member.

    Parameters
    ----------
    brief : Brief
    work : Work
    look : function of a batch
    first : _First
    """
    _, f, fk, level, *_ = first.sums
    assert isinstance(work.weighing, TableWeighing)  # noqa: S101 - checked by the source
    tilt = work.weighing.tilt

    def of_batch(batch: Batch) -> Triple:
        w, prediction, L, K, members = look(batch)
        deviations = np.zeros((len(w), 3))
        deviations[:, 0] = L - f
        if f > 0.0 and fk > 0.0:
            deviations[:, 1] = L / f - K / fk
        if not brief.classes:
            deviations[:, 2] = (batch.y - prediction - level) / first.unit
        apart = members / np.maximum(first.members, _TINY) - (K / max(fk, _TINY))[:, None]
        squares = deviations**2, apart**2
        C = balanced(batch.z, tilt.flags, tilt.correlations)
        spread, squared = (np.concatenate([u @ x for x in squares]) for u in (w, w * w))
        return spread, squared, (w * deviations[:, 0]) @ C

    def added(a: Triple, b: Triple) -> Triple:
        """The sums of two batches.

        Parameters
        ----------
        a, b : Triple
        """
        return a[0] + b[0], a[1] + b[1], a[2] + b[2]

    return reduce(added, in_order(of_batch, work.rows))


# Variances ----------------------------------------------------------------------------------


def _jackknife(left_out: Array) -> float:
    """(G − 1)/G Σ (θ_−g − mean)² over groups left out in turn; 0 of fewer than two."""
    if len(left_out) < 2:
        return 0.0
    deviation = left_out - left_out.mean()
    return float((len(left_out) - 1.0) / len(left_out) * (deviation @ deviation))


def _left_out_ratios(without: Array, variances: list[float]) -> list[float]:
    """Variances of the members' log ratios, at least as large as the jackknife's.

    Parameters
    ----------
    without : array of shape (groups, columns)
        As in `_First`, members last.
    variances : list of float
        One a member.
    """
    start = without.shape[1] - len(variances)
    logs = np.log(np.maximum(without[:, start:], _TINY) / np.maximum(without[:, [2]], _TINY))
    return [max(v, _jackknife(column)) for v, column in zip(variances, logs.T, strict=True)]


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

    def gap(sums: Array, c: int) -> Array:
        """Log-odds of a class observed, minus those expected.

        Parameters
        ----------
        sums : array of shape (..., sums)
            As above; the last axis is used up.
        c : int
            The class.
        """
        shares = np.clip(sums[..., 5 + 2 * c : 7 + 2 * c], 0.0, 1.0)
        odds = logit(_smooth(shares, ess))
        found: Array = odds[..., 0] - odds[..., 1]
        return found

    classes = [1] if n_classes == 2 else range(n_classes)
    level = np.array([float(gap(sums, c)) for c in classes])
    return level, np.array([_jackknife(gap(without, c)) for c in classes])


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


def _explained(tilt: Tilt, with_functions: Array, spread: float) -> float:
    """The part of the loss's weighted variance that C explains, by a ridge regression.

    Parameters
    ----------
    tilt : Tilt
        With the weighted moments of C.
    with_functions : array of shape (functions,)
        Σ w C (L − f), which is Σ w (C − mean)(L − f) since Σ w (L − f) = 0.
    spread : float
        Σ w (L − f)².
    """
    mean = tilt.moments[0, 1:]
    G = tilt.moments[1:, 1:] - np.outer(mean, mean)
    b = np.linalg.solve(G + EXPLAINED_RIDGE * np.eye(len(G)), with_functions)
    # G of rows that are all alike is rounding error, of either sign.
    return min(max(float(b @ G @ b), 0.0), spread)

"""How the others' mixture does on a source's own weighted rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TypeVar

import numpy as np
from scipy.special import logit

from fedcsa.core.arrays import Array
from fedcsa.core.batches import in_order, one_blas_thread
from fedcsa.core.folds import fold_key, generator_for
from fedcsa.core.losses import Loss, evaluate, sampling_variance
from fedcsa.core.tilt import Tilt, balanced
from fedcsa.core.weights import median_mixture
from fedcsa.errors import MessageError, PolicyError
from fedcsa.messages.messages import FARTHEST, Brief, Examination
from fedcsa.models.fitted import EstimatorModel, FittedModel, LinearModel
from fedcsa.source.measure import Work
from fedcsa.source.weigh import Batch, Folds, TableWeighing

#: From a batch to predictions (rows,) or (rows, classes).
Predictor = Callable[[Batch], Array]


def check_examination(brief: Brief, asked: Examination, *, packed_models: bool) -> None:
    """Refuse models that this site does not open, or that are of another study.

    Parameters
    ----------
    brief : Brief
    asked : Examination
    packed_models : bool
        Whether this site opens models that are not linear.
    """
    n_classes, fits = len(brief.classes), True
    if asked.format == "linear":
        fits = asked.coefficients.shape[1] == len(brief.features)
        fits = fits and (asked.link == "logistic") == (n_classes == 2)
    elif not packed_models:
        raise PolicyError(
            "packed_models", "Models of other sites are opened here only if they are linear."
        )
    constant = len(asked.constant) == max(n_classes, 1)
    if brief.exchange != "table" or not (fits and constant):
        raise MessageError("An examination must be of the study's features and outcome.")


def members_of(asked: Examination, n_classes: int, trusted: Collection[str]) -> list[FittedModel]:
    """The models in an examination.

    Parameters
    ----------
    asked : Examination
    n_classes : int
    trusted : collection of str
        Types outside scikit-learn that a packed model may hold.
    """
    if asked.format == "linear":
        return [
            LinearModel(np.array(b), float(b0), asked.link)
            for b, b0 in zip(asked.coefficients, asked.intercepts, strict=True)
        ]
    ends = np.cumsum(asked.sizes.astype(np.intp))
    blobs = np.split(asked.packed, ends[:-1])
    return [EstimatorModel.unpack(blob, n_classes, trusted) for blob in blobs]


def mixture_of(asked: Examination, members: Sequence[FittedModel], work: Work) -> Predictor:
    """The mixture as a function of a batch; where most is the source's own, held-out predictions.

    Parameters
    ----------
    asked : Examination
    members : sequence of FittedModel
    work : Work
        Whose paths hold the chosen candidate alone, if the source's own model takes part.
    """
    weights = asked.weights
    if asked.own_weight:
        weights = np.append(weights, asked.own_weight)

    def predict(batch: Batch) -> Array:
        outputs = [_output(member, batch) for member in members]
        if asked.own_weight:
            outputs.append(_held_out(work, batch))
        if asked.combine == "median":
            return median_mixture(np.stack(outputs, axis=1), weights)
        total: Array = weights[0] * outputs[0]
        for weight, output in zip(weights[1:], outputs[1:], strict=True):
            total = total + weight * output
        return total

    return predict


def _output(member: FittedModel, batch: Batch) -> Array:
    """What a model of another site predicts; it may know nothing of a level that is only here.

    Parameters
    ----------
    member : FittedModel
    batch : Batch
    """
    try:
        output: Array = member.predict(batch.seen)
    except Exception:  # a foreign model may fail in any way, and its text may quote a cell
        output = np.full(1, np.nan)
    if not np.isfinite(output).all():
        raise PolicyError("mixture_failed", "The others' mixture cannot predict the rows here.")
    return output


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


#: Groups of the jackknife: as many as give a stable variance, few enough to hold events each.
JACKKNIFE_GROUPS = 20
#: Ridge of the regression of the loss on the table's functions of x, whose variances are about 1:
#: too small to matter, large enough for functions that are nearly collinear.
EXPLAINED_RIDGE = 0.01
#: No variance on a log or logit scale is smaller: nothing is known better than to a millionth. An
#: exact zero would outweigh every other source.
SMALLEST_VARIANCE = 1e-12
#: Takes the place of a sum that is zero where one divides by it or takes its logarithm.
_TINY = 1e-300

#: Weights, predictions, losses of the mixture and of the constant on the rows of a batch.
Look = tuple[Array, Array, Array, Array]
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


def examine(brief: Brief, work: Work, predict: Predictor, constant: Array, loss: Loss) -> Examined:
    """Risk, ratio to the constant, and level of the outcomes, each with its sampling variance.

    Parameters
    ----------
    brief : Brief
    work : Work
        Its weights match the target's Table 1.
    predict : Predictor
        The mixture.
    constant : array of shape (1,) or (classes,)
        The constant prediction.
    loss : Loss
    """
    assert isinstance(work.weighing, TableWeighing)  # noqa: S101 - checked by the source
    ess, rate = work.effective_rows, brief.loss == "zero-one"

    def look(batch: Batch) -> Look:
        w, y, prediction = work.weighing.judging(batch), batch.y, predict(batch)
        same = np.broadcast_to(constant, prediction.shape).copy()
        return w, prediction, evaluate(loss, prediction, y), evaluate(loss, same, y)

    with one_blas_thread():
        first = _first_pass(brief, work, look)
        risk, constant_risk = float(first.sums[1]), float(first.sums[2])
        if rate:  # no error in few rows does not mean none at all
            risk, constant_risk = _smooth(risk, ess), _smooth(constant_risk, ess)
        reason = first.reason(risk, constant_risk)
        if reason:
            return Examined(reason)
        spread, squares, with_functions = _second_pass(brief, work, look, first)
    v, ratio, drift = sampling_variance(spread, squares, ess).tolist()
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
    )


@dataclass(frozen=True)
class _First:
    """What the first pass finds: weighted sums in every group of the jackknife, and extremes.

    Columns of `groups`: Σw, Σ w L, Σ w K, Σ w r, Σ w r², then for every class Σ w 1{y} and Σ w p,
    with losses L of the mixture and K of the constant, and residuals r of numbers, 0 for classes.
    """

    groups: Array  # (groups, columns)
    difference: Array  # Σ w z
    extremes: Array  # smallest loss, smallest outcome, largest outcome with its sign changed

    def merge(self, other: _First) -> _First:
        """Of both sets of rows."""
        extremes = np.minimum(self.extremes, other.extremes)
        return _First(self.groups + other.groups, self.difference + other.difference, extremes)

    @property
    def sums(self) -> Array:
        """Over all groups."""
        total: Array = self.groups.sum(axis=0)
        return total

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
        y, (w, prediction, L, K) = batch.y, look(batch)
        residual = np.zeros_like(w) if brief.classes else y - prediction
        columns = [w, w * L, w * K, w * residual, w * residual**2]
        for c in range(len(brief.classes)):
            columns += [w * (y == c), w * prediction[:, c]]
        labels = groups.labels(batch)
        sums = [np.bincount(labels, column, JACKKNIFE_GROUPS) for column in columns]
        return _First(np.column_stack(sums), w @ batch.z, np.array([L.min(), y.min(), -y.max()]))

    return reduce(_First.merge, in_order(of_batch, work.rows))


def _second_pass(brief: Brief, work: Work, look: Callable[[Batch], Look], first: _First) -> Triple:
    """Σ w (·)² and Σ w² (·)² of L − f, L/f − K/f_K and r/unit, and Σ w C (L − f).

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
        w, prediction, L, K = look(batch)
        deviations = np.zeros((len(w), 3))
        deviations[:, 0] = L - f
        if f > 0.0 and fk > 0.0:
            deviations[:, 1] = L / f - K / fk
        if not brief.classes:
            deviations[:, 2] = (batch.y - prediction - level) / first.unit
        squares = deviations**2
        C = balanced(batch.z, tilt.flags, tilt.correlations)
        return w @ squares, (w * w) @ squares, (w * deviations[:, 0]) @ C

    def added(a: Triple, b: Triple) -> Triple:
        return a[0] + b[0], a[1] + b[1], a[2] + b[2]

    return reduce(added, in_order(of_batch, work.rows))


# Variances ----------------------------------------------------------------------------------


def _jackknife(left_out: Array) -> float:
    """(G − 1)/G Σ (θ_−g − mean)² over groups left out in turn; 0 of fewer than two."""
    if len(left_out) < 2:
        return 0.0
    deviation = left_out - left_out.mean()
    return float((len(left_out) - 1.0) / len(left_out) * (deviation @ deviation))


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

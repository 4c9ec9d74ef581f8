"""How the others' mixture does on a source's own weighted rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import logit

from fedcsa.core.arrays import Array
from fedcsa.core.batches import in_order, one_blas_thread
from fedcsa.core.folds import fold_key, fold_labels, generator_for, group_labels
from fedcsa.core.losses import Loss, evaluate
from fedcsa.core.risk import sampling_variance
from fedcsa.core.tilt import balanced
from fedcsa.core.weights import median_mixture
from fedcsa.errors import PolicyError
from fedcsa.messages.messages import FARTHEST, Brief, Examination
from fedcsa.models.fitted import EstimatorModel, FittedModel, LinearModel
from fedcsa.models.model import Path
from fedcsa.source.measure import Work
from fedcsa.source.site_rows import Batch
from fedcsa.source.weigh import TableWeighing

#: Groups of the jackknife: as many as give a stable variance, few enough to hold events each.
JACKKNIFE_GROUPS = 20
#: Ridge of the regression of the loss on the table's functions of x.
EXPLAINED_RIDGE = 0.01
#: No variance on a log or logit scale is smaller: nothing is known better than to a millionth. An
#: exact zero would outweigh every other source.
SMALLEST_VARIANCE = 1e-12

Predictor = Callable[[Batch], Array]


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
    """What a model of another site predicts; it may know nothing of a level that is only here."""
    try:
        output: Array = member.predict(batch.seen)
    except Exception:  # a foreign model may fail in any way, and its text may quote a cell
        output = np.full(1, np.nan)
    if not np.isfinite(output).all():
        raise PolicyError("mixture_failed", "The others' mixture cannot predict the rows here.")
    return output


def _held_out(work: Work, batch: Batch) -> Array:
    """Predictions of the source's own models, each on the rows that it has not seen."""
    assert work.folds is not None  # noqa: S101 - a source without folds has no model
    labels = work.folds.labels(batch)
    found: Array | None = None
    for turn, path in zip(work.folds.turns, work.paths, strict=True):
        here = np.flatnonzero(labels == turn.judge)
        model = _only(path)
        if len(here):
            output = model.predict(batch.seen[here])
            if found is None:
                found = np.zeros((len(batch.y), *output.shape[1:]))
            found[here] = output
    assert found is not None  # noqa: S101 - there is a row
    return found


def _only(path: Path) -> FittedModel:
    [model] = path.models
    assert model is not None  # noqa: S101 - a source whose model failed has no weight
    return model


def examine(
    brief: Brief, work: Work, predict: Predictor, constant: Array, loss: Loss, effective_rows: float
) -> Examined:
    """Risk, ratio to the constant, and level of the outcomes, each with its sampling variance.

    Parameters
    ----------
    brief : Brief
    work : Work
    predict : function
        From a batch to predictions (rows,) or (rows, classes).
    constant : array of shape (1,) or (classes,)
        The constant prediction.
    loss : Loss
    effective_rows : float
        ESS of the source's weights.
    """
    with one_blas_thread():
        first = _first_pass(brief, work, predict, constant, loss)
        if first.alike:
            return Examined("outcomes_alike")
        risk, constant_risk = first.risk, first.constant_risk
        if brief.loss == "zero-one":  # a rate: no error in few rows does not mean none at all
            risk = (effective_rows * risk + 0.5) / (effective_rows + 1.0)
            constant_risk = (effective_rows * constant_risk + 0.5) / (effective_rows + 1.0)
        if min(first.lowest, constant_risk) < 0.0:
            return Examined("loss_not_positive")
        if not (risk > 0.0 and constant_risk > 0.0):
            return Examined("no_loss")
        second = _second_pass(brief, work, predict, constant, loss, first)
    imbalance = float(np.mean(np.minimum(np.abs(first.difference), FARTHEST) ** 2))
    v = float(sampling_variance(second.spread[0], second.squares[0], effective_rows))
    ratio = float(sampling_variance(second.spread[1], second.squares[1], effective_rows))
    if brief.loss == "zero-one":
        v = max(v, risk**2 * _log_rate_variance(risk, effective_rows))
        if not (first.risk > 0.0 and first.constant_risk > 0.0):
            ratio = sum(_log_rate_variance(p, effective_rows) for p in (risk, constant_risk))
    if brief.group:  # rows of one patient are not independent: leave out patients, not rows
        v = max(v, _jackknife(first.without()[:, 1]))
        rate_of = effective_rows if brief.loss == "zero-one" else None
        ratio = max(ratio, _jackknife(first.group_ratios(rate_of)))
    if brief.classes:
        level, level_variance = _rates(first, effective_rows, len(brief.classes))
    else:
        level = np.array([first.residual / (first.residual_sd or 1.0)])
        level_variance = np.array(
            [float(sampling_variance(second.spread[2], second.squares[2], effective_rows))]
        )
        if brief.group:
            level_variance = np.maximum(level_variance, _jackknife(first.group_residuals()))
    return Examined(
        reason="",
        risk=risk,
        risk_variance=max(v / risk**2 + imbalance**2, SMALLEST_VARIANCE),
        explained=_explained(second, work) / risk**2,
        constant_risk=constant_risk,
        ratio_variance=max(ratio + imbalance**2, SMALLEST_VARIANCE),
        level=level,
        level_variance=np.maximum(level_variance + imbalance, SMALLEST_VARIANCE),
    )


# Passes -------------------------------------------------------------------------------------


@dataclass
class _First:
    """Weighted sums, in all and in every group of the jackknife.

    Columns of `groups`: Σw, Σ w L, Σ w K, Σ w r, Σ w r², then for every class Σ w 1{y} and Σ w p.
    """

    groups: Array  # (groups, columns)
    difference: Array  # Σ w z
    lowest: float  # smallest loss
    y_range: tuple[float, float]

    @property
    def sums(self) -> Array:
        total: Array = self.groups.sum(axis=0)
        return total

    @property
    def alike(self) -> bool:
        return self.y_range[0] == self.y_range[1]

    @property
    def risk(self) -> float:
        return float(self.sums[1])

    @property
    def constant_risk(self) -> float:
        return float(self.sums[2])

    @property
    def residual(self) -> float:
        return float(self.sums[3])

    @property
    def residual_sd(self) -> float:
        return float(np.sqrt(self.sums[4]))

    def without(self) -> Array:
        """The sums without each group that has weight, over what weight is left."""
        full = self.groups[:, 0] > 0.0
        rest = self.sums - self.groups[full]
        found: Array = rest / np.maximum(rest[:, :1], 1e-300)
        return found

    def group_ratios(self, effective_rows: float | None) -> Array:
        """Log of risk over the constant's without each group; of smoothed rates if asked for."""
        rest = self.without()[:, 1:3]
        if effective_rows is not None:
            rest = (effective_rows * rest + 0.5) / (effective_rows + 1.0)
        found: Array = np.log(np.maximum(rest[:, 0], 1e-300) / np.maximum(rest[:, 1], 1e-300))
        return found

    def group_residuals(self) -> Array:
        found: Array = self.without()[:, 3] / (self.residual_sd or 1.0)
        return found


@dataclass
class _Second:
    """Sums of squared deviations of L, of L/f − K/f_K and of r/sd, and of the loss with C."""

    spread: Array  # Σ w (·)², three entries
    squares: Array  # Σ w² (·)²
    with_functions: Array  # Σ w C (L − f)
    loss_spread: float  # Σ w (L − f)²


def _first_pass(
    brief: Brief, work: Work, predict: Predictor, constant: Array, loss: Loss
) -> _First:
    n_classes = len(brief.classes)
    key = fold_key(generator_for(brief.seed, work.rows.source, "jackknife"))

    def of_batch(batch: Batch) -> tuple[Array, Array, float, float, float]:
        w, prediction = work.weighing.judging(batch), predict(batch)
        L, K = _losses(brief, batch, prediction, constant, loss)
        columns = [w, w * L, w * K]
        if n_classes:
            columns += [np.zeros_like(w)] * 2
            codes = batch.y.astype(np.intp)
            for c in range(n_classes):
                columns += [w * (codes == c), w * prediction[:, c]]
        else:
            residual = batch.y - prediction
            columns += [w * residual, w * residual**2]
        labels = (
            group_labels(batch.groups, JACKKNIFE_GROUPS, key)
            if batch.groups is not None
            else fold_labels(batch.start, batch.stop, JACKKNIFE_GROUPS, key)
        )
        sums = [
            np.bincount(labels, weights=column, minlength=JACKKNIFE_GROUPS) for column in columns
        ]
        y = batch.y
        return np.column_stack(sums), w @ batch.z, float(L.min()), float(y.min()), float(y.max())

    groups = np.zeros((JACKKNIFE_GROUPS, 5 + 2 * n_classes))
    difference = np.zeros(len(brief.features))
    lowest, low, high = np.inf, np.inf, -np.inf
    for own, left, smallest, least, most in in_order(of_batch, work.rows):
        groups, difference = groups + own, difference + left
        lowest, low, high = min(lowest, smallest), min(low, least), max(high, most)
    return _First(groups, difference, lowest, (low, high))


def _second_pass(
    brief: Brief, work: Work, predict: Predictor, constant: Array, loss: Loss, first: _First
) -> _Second:
    f, fk = first.risk, first.constant_risk
    weighing = work.weighing
    assert isinstance(weighing, TableWeighing)  # noqa: S101 - checked by the source
    tilt = weighing.tilt

    def of_batch(batch: Batch) -> tuple[Array, Array, Array, float]:
        w, prediction = weighing.judging(batch), predict(batch)
        L, K = _losses(brief, batch, prediction, constant, loss)
        deviations = np.zeros((len(w), 3))
        deviations[:, 0] = L - f
        if f > 0.0 and fk > 0.0:
            deviations[:, 1] = L / f - K / fk
        if not brief.classes and first.residual_sd > 0.0:
            deviations[:, 2] = (batch.y - prediction - first.residual) / first.residual_sd
        squares = deviations**2
        C = balanced(batch.z, tilt.flags, tilt.correlations)
        return w @ squares, (w * w) @ squares, (w * deviations[:, 0]) @ C, float(w @ squares[:, 0])

    parts = zip(*in_order(of_batch, work.rows), strict=True)
    return _Second(*(sum(part[1:], part[0]) for part in parts))


def _losses(
    brief: Brief, batch: Batch, prediction: Array, constant: Array, loss: Loss
) -> tuple[Array, Array]:
    """Losses of the mixture and of the constant, one a row."""
    shape = (len(batch.y), len(constant)) if brief.classes else (len(batch.y),)
    same = np.broadcast_to(constant, shape).copy()
    return evaluate(loss, prediction, batch.y), evaluate(loss, same, batch.y)


# Variances ----------------------------------------------------------------------------------


def _jackknife(left_out: Array) -> float:
    """(G − 1)/G Σ (θ_−g − mean)² over groups left out in turn; 0 of fewer than two."""
    if len(left_out) < 2:
        return 0.0
    deviation = left_out - left_out.mean()
    return float((len(left_out) - 1.0) / len(left_out) * (deviation @ deviation))


def _rates(first: _First, effective_rows: float, n_classes: int) -> tuple[Array, Array]:
    """Log-odds of the observed share less those of the expected one, by class, with variances."""

    def gap(sums: Array, c: int) -> Array:
        observed, expected = sums[..., 5 + 2 * c], sums[..., 6 + 2 * c]
        found: Array = _log_odds(observed, effective_rows) - _log_odds(expected, effective_rows)
        return found

    classes = [1] if n_classes == 2 else range(n_classes)
    without = first.without()
    level = np.array([float(gap(first.sums, c)) for c in classes])
    return level, np.array([_jackknife(gap(without, c)) for c in classes])


def _log_odds(rate: Array, effective_rows: float) -> Array:
    """Log-odds of (ESS·p + ½)/(ESS + 1): those of 0 and 1 are finite."""
    smooth = (effective_rows * np.clip(rate, 0.0, 1.0) + 0.5) / (effective_rows + 1.0)
    odds: Array = logit(smooth)
    return odds


def _log_rate_variance(rate: float, effective_rows: float) -> float:
    """Variance of the logarithm of a binomial rate."""
    return (1.0 - rate) / ((effective_rows + 1.0) * rate)


def _explained(second: _Second, work: Work) -> float:
    """The part of the loss's weighted variance that C explains, by a ridge regression."""
    assert isinstance(work.weighing, TableWeighing)  # noqa: S101 - checked by the source
    moments = work.weighing.tilt.moments
    mean = moments[0, 1:]
    G = moments[1:, 1:] - np.outer(mean, mean)
    # Σ w (C − mean)(L − f) = Σ w C (L − f), since Σ w (L − f) = 0
    b = np.linalg.solve(G + EXPLAINED_RIDGE * np.eye(len(G)), second.with_functions)
    # G of rows that are all alike is rounding error, of either sign.
    return min(max(float(b @ G @ b), 0.0), second.loss_spread)

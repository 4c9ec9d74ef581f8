"""How the others' mixture does on a source's own weighted rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from fedcsa.core.arrays import Array, logit
from fedcsa.core.batches import CACHED_ROWS, over_blocks
from fedcsa.core.folds import fold_key, fold_labels, generator_for
from fedcsa.core.losses import REGRESSION, Loss, row_losses, sampling_variance
from fedcsa.core.measures import measure_variances
from fedcsa.core.random_effects import SMALLEST_VARIANCE
from fedcsa.core.scores import JACKKNIFE_GROUPS, TABLE_COLUMNS, ScoreSums, told_residuals
from fedcsa.core.subgroups import members_of_subgroups
from fedcsa.core.tilt import Tilt, balanced
from fedcsa.core.weights import useless_votes
from fedcsa.errors import DataError
from fedcsa.messages.messages import FARTHEST, Examination, ExaminationReport
from fedcsa.messages.policy import Policy
from fedcsa.models.fitted import FittedModel
from fedcsa.source.exposure import largest_examined_share
from fedcsa.source.measure import Work
from fedcsa.source.mixture import Predictor, mixture_and_members
from fedcsa.source.weigh import Batch

#: Ridge of the regression of the loss on the table's functions of x, whose variances are about 1:
#: too small to matter, large enough for functions that are nearly collinear.
EXPLAINED_RIDGE = 0.01
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


#: An `ExaminationReport` without scores and residuals.
NO_TABLE: dict[str, Any] = {
    "scores": np.empty((0, len(TABLE_COLUMNS))),
    **dict.fromkeys(("score_sums", "measure_variance", "residuals"), np.empty((0, 0))),
}


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
    explained, variances = first.spread.variances(unit, tilt)
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
class _Spread:
    """How losses of the mixture, of the constant K, residuals, and members' losses spread.

    Each is told as x = mean + slope (K − its mean) + rest, by a weighted regression: the ratio of
    two losses may vary far less than either. Sums merge block by block without cancelling.
    """

    total: float  # Σ w
    squares: float  # Σ w²
    mean: Array  # Σ w x / Σ w, of the mixture, K, residuals, members
    slope: Array
    rest: Array  # Σ w rest²
    constant: float  # Σ w k², k = K less its mean
    squared_sums: Array  # Σ w² k, Σ w² k²
    squared_rest: Array  # Σ w² rest, Σ w² rest², Σ w² rest k: shape (3, losses)
    functions: Array  # Σ w C
    with_functions: Array  # Σ w C (L − its mean)

    @classmethod
    def of(cls, values: Array, w: Array, functions: Array) -> _Spread:
        """Of a block.

        Parameters
        ----------
        values : array of shape (losses, rows)
            As above; they become what is left of them.
        w : array of shape (rows,)
        functions : array of shape (rows, functions)
            C.
        """
        total, w2 = float(w.sum()), w * w
        mean = values @ w / (total or 1.0)
        values -= mean[:, None]
        in_c = np.stack([w, w * values[0]]) @ functions
        k = values[1].copy()
        wk, w2k = w * k, w2 * k
        constant = float(wk @ k)
        slope = values @ wk / (constant or 1.0)
        values -= np.multiply.outer(slope, k)
        sums, cross = values @ w2, values @ w2k
        values *= values
        return cls(
            total=total,
            squares=float(w2.sum()),
            mean=mean,
            slope=slope,
            rest=values @ w,
            constant=constant,
            squared_sums=np.array([w2k.sum(), w2k @ k]),
            squared_rest=np.stack([sums, values @ w2, cross]),
            functions=in_c[0],
            with_functions=in_c[1],
        )

    def merge(self, other: _Spread) -> _Spread:
        """Of both sets of rows."""
        total = self.total + other.total
        mean = self.mean + (other.mean - self.mean) * (other.total / (total or 1.0))
        constant, cross = 0.0, np.zeros_like(mean)
        for part in (self, other):
            gap = part.mean - mean
            constant += part.constant + part.total * gap[1] ** 2
            cross += part.slope * part.constant + part.total * gap * gap[1]
        slope = cross / (constant or 1.0)
        a, b = self._about(mean, slope), other._about(mean, slope)
        added = [getattr(a, f.name) + getattr(b, f.name) for f in fields(self)]
        return replace(_Spread(*added), mean=mean, slope=slope)

    def _about(self, mean: Array, slope: Array) -> _Spread:
        """The same sums about another line.

        Parameters
        ----------
        mean, slope : array of shape (losses,)
        """
        gap, n, n2 = self.mean - mean, self.total, self.squares
        k, turn = gap[1], self.slope - slope
        off = gap - slope * k
        first, second = self.squared_sums
        sums, spread, cross = self.squared_rest
        moved = sums + turn * first + off * n2
        return replace(
            self,
            rest=self.rest + turn**2 * self.constant + off**2 * n,
            constant=self.constant + n * k**2,
            squared_sums=np.array([first + n2 * k, second + (2.0 * first + n2 * k) * k]),
            squared_rest=np.stack(
                [
                    moved,
                    spread
                    + turn * (turn * second + 2.0 * (cross + off * first))
                    + off * (off * n2 + 2.0 * sums),
                    cross + turn * second + off * first + k * moved,
                ]
            ),
            with_functions=self.with_functions + gap[0] * self.functions,
        )

    def variances(self, unit: float, tilt: Tilt) -> tuple[float, Array]:
        """How much C explains of Σ w (L − f)², and sampling variances of means.

        Of L − f, L/f − K/f_K, r/unit, and the ratios of the members. C explains by a ridge
        regression; Σ w C (L − f) is Σ w (C − mean)(L − f), since Σ w (L − f) = 0.

        Parameters
        ----------
        unit : float
        tilt : Tilt
            With the weighted moments of C.
        """
        mean = self.mean
        each = np.divide(1.0, mean, out=np.zeros_like(mean), where=mean > 0.0)
        of = np.array([0, 0, *range(2, len(mean))])
        # scale · x − constant · K, less its mean, plus `off`
        scale, constant = each[of], np.full(len(of), each[1])
        off = each[of] * mean[of] - each[1] * mean[1]
        scale[[0, 2]], constant[[0, 2]], off[[0, 2]] = (1.0, 1.0 / unit), 0.0, 0.0
        slope = scale * self.slope[of] - constant
        (first, second), (sums, spread, cross) = self.squared_sums, self.squared_rest[:, of]
        squared = scale * (scale * spread + 2.0 * slope * cross) + slope**2 * second
        squared += off * (2.0 * (scale * sums + slope * first) + off * self.squares)
        plain = scale**2 * self.rest[of] + slope**2 * self.constant + off**2 * self.total
        found = sampling_variance(plain, np.maximum(squared, 0.0), 1.0 / self.squares)
        if not min(mean[:2]) > 0.0:
            found[1] = 0.0
        G = tilt.moments[1:, 1:] - np.outer(tilt.moments[0, 1:], tilt.moments[0, 1:])
        b = np.linalg.solve(G + EXPLAINED_RIDGE * np.eye(len(G)), self.with_functions)
        # G of rows that are all alike is rounding error, of either sign.
        return min(max(float(b @ G @ b), 0.0), float(plain[0])), found


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
    spread: _Spread

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
            _Spread.of(values, w, functions),
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
        As `_Spread.variances` gives them.
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

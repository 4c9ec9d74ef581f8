"""Losses, one value per row, and how sure their weighted means are.

A regressor predicts a vector (rows,); a classifier predicts probabilities (rows, classes), and
the outcome is then the index of the class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcsa.errors import DataError, ModelError, one_of

if TYPE_CHECKING:
    from fedcsa.core.arrays import Array

Loss: TypeAlias = "Callable[[Array, Array], Array]"

#: Probabilities are kept this far from 0 in the log loss, so that one row cannot make it infinite.
LOG_FLOOR = 1e-15


def squared(prediction: Array, y: Array) -> Array:
    """(ŷ − y)².

    Parameters
    ----------
    prediction : array of shape (rows,)
        ŷ; or (rows, candidates) with `y` as a column.
    y : array of shape (rows,)
    """
    error = prediction - y
    return np.multiply(error, error, out=error)


def absolute(prediction: Array, y: Array) -> Array:
    """|ŷ − y|.

    Parameters
    ----------
    prediction : array of shape (rows,)
        ŷ; or (rows, candidates) with `y` as a column.
    y : array of shape (rows,)
    """
    return np.abs(prediction - y)


def log(prediction: Array, y: Array) -> Array:
    """−log p̂(y).

    Parameters
    ----------
    prediction : array of shape (rows, classes)
        p̂, probabilities.
    y : array of shape (rows,)
        Codes of classes.
    """
    told = prediction[np.arange(len(y)), y.astype(np.intp)]
    values: Array = -np.log(np.maximum(told, LOG_FLOOR))
    return values


def brier(prediction: Array, y: Array) -> Array:
    """½ Σ_k (p̂_k − 1{y = k})², which is (p̂ − y)² for two classes and lies in [0, 1].

    Parameters
    ----------
    prediction : array of shape (rows, classes)
        p̂, probabilities.
    y : array of shape (rows,)
        Codes of classes.
    """
    error = prediction.copy()
    error[np.arange(len(y)), y.astype(np.intp)] -= 1.0
    halved: Array = 0.5 * np.einsum("ij,ij->i", error, error)
    return halved


def zero_one(prediction: Array, y: Array) -> Array:
    """1 where the most probable class is not y, else 0.

    Parameters
    ----------
    prediction : array of shape (rows, classes)
        p̂, probabilities.
    y : array of shape (rows,)
        Codes of classes.
    """
    wrong: Array = (prediction.argmax(axis=1) != y).astype(np.float64)
    return wrong


REGRESSION: dict[str, Loss] = {"squared": squared, "absolute": absolute}
CLASSIFICATION: dict[str, Loss] = {"log": log, "brier": brier, "zero-one": zero_one}
#: Losses in [0, 1].
BOUNDED = ("brier", "zero-one")


def loss_named(
    name: str, n_classes: int | None = None, own: Mapping[str, Loss] | None = None
) -> Loss:
    """The loss called `name`, or a `ParameterError` unless it judges the outcome at hand.

    Parameters
    ----------
    name : str
    n_classes : int, optional
        0 for an outcome of numbers; None if the loss was checked before.
    own : mapping of str to Loss, optional
        Losses that every source has been given; they judge what they like.

    Examples
    --------
    >>> loss_named("squared")(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    array([0., 4.])
    """
    if own and name in own:
        return own[name]
    known = {**REGRESSION, **CLASSIFICATION}
    if name not in known:
        raise one_of("loss", sorted(known), name, " or a function")
    fitting = known if n_classes is None else CLASSIFICATION if n_classes else REGRESSION
    if name not in fitting:
        kind = "classes" if n_classes else "numbers"
        raise one_of("loss", sorted(fitting), name, f" for an outcome of {kind}")
    return fitting[name]


def row_losses(loss: Loss, prediction: Array, y: Array) -> Array:
    """Losses of every row, checked: a user's own function must return one finite number per row.

    Parameters
    ----------
    loss : Loss
    prediction : array of shape (rows,) or (rows, classes)
    y : array of shape (rows,)
    """
    seen = y.view()
    seen.flags.writeable = False  # they are the user's own
    values: NDArray[Any] = np.asarray(loss(prediction, seen))
    if values.shape != y.shape or values.dtype.kind not in "fiub":
        raise ModelError(
            f"The loss must return one number per row, shape {y.shape}; "
            f"it returned shape {values.shape} of type {values.dtype}. "
            "Let it return an array of numbers like y."
        )
    values = values.astype(np.float64, copy=False)
    if not np.isfinite(values).all():
        raise DataError(
            "The loss must be finite on every row; it is NaN or infinite on some. "
            "Check it where predictions are extreme."
        )
    return values


#: Ridge of the regression of the loss on the table's functions of x, whose variances are about 1:
#: too small to matter, large enough for functions that are nearly collinear.
EXPLAINED_RIDGE = 0.01
#: A residual sum of squares below this share of the total is rounding, and counts as zero.
ROUNDING = 64 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class RiskMoments:
    """Centred moments of ratios and losses over validation rows; one entry per candidate in arrays.

    Attributes
    ----------
    n_rows : int
    ratio_mean, ratio_m2 : float
        Mean of r and Σ(r − mean)².
    loss_mean, loss_m2 : array of shape (candidates,)
        The same of L.
    product_mean, product_m2 : array of shape (candidates,)
        The same of rL.
    co_moment : array of shape (candidates,)
        Σ(rL − mean rL)(r − mean r).
    """

    n_rows: int
    ratio_mean: float
    ratio_m2: float
    loss_mean: Array = field(repr=False)
    loss_m2: Array = field(repr=False)
    product_mean: Array = field(repr=False)
    product_m2: Array = field(repr=False)
    co_moment: Array = field(repr=False)

    @classmethod
    def of(cls, ratios: Array, losses: Array) -> Self:
        """Moments of rows.

        Parameters
        ----------
        ratios : array of shape (rows,)
            Not negative.
        losses : array of shape (rows, candidates)
        """
        ratio_mean, ratio_deviation = _centre(ratios)
        loss_mean, loss_deviation = _centre(losses)
        loss_m2 = np.einsum("ij,ij->j", loss_deviation, loss_deviation)
        product_mean, product_deviation = _centre(ratios[:, None] * losses)
        return cls(
            n_rows=len(ratios),
            ratio_mean=float(ratio_mean),
            ratio_m2=float(ratio_deviation @ ratio_deviation),
            loss_mean=loss_mean,
            loss_m2=loss_m2,
            product_mean=product_mean,
            product_m2=np.einsum("ij,ij->j", product_deviation, product_deviation),
            co_moment=ratio_deviation @ product_deviation,
        )

    def merge(self, other: RiskMoments) -> RiskMoments:
        """Moments of both sets of rows together."""
        n = self.n_rows + other.n_rows
        share = other.n_rows / n
        between = self.n_rows * share  # n_a n_b / n
        d_ratio = other.ratio_mean - self.ratio_mean
        d_loss = other.loss_mean - self.loss_mean
        d_product = other.product_mean - self.product_mean
        return RiskMoments(
            n_rows=n,
            ratio_mean=self.ratio_mean + share * d_ratio,
            ratio_m2=self.ratio_m2 + other.ratio_m2 + between * d_ratio**2,
            loss_mean=self.loss_mean + share * d_loss,
            loss_m2=self.loss_m2 + other.loss_m2 + between * d_loss**2,
            product_mean=self.product_mean + share * d_product,
            product_m2=self.product_m2 + other.product_m2 + between * d_product**2,
            co_moment=self.co_moment + other.co_moment + between * d_ratio * d_product,
        )


@dataclass(frozen=True)
class RiskTerms:
    """What one source says about the target's risk; arrays have one entry per candidate.

    Attributes
    ----------
    outcome : {"ok", "constant-ratio", "zero-ratio"}
        ``"constant-ratio"``: Var(r) = 0, so that η = 0 and f_CV = f_IW. ``"zero-ratio"``: r ≡ 0,
        so that f_IW = 0 too.
    divergence : array of shape (candidates,)
        Exactly 0 where every term rL + η(r − 1) is the same.
    """

    n_rows: int
    importance_weighted: Array = field(repr=False)  # f_IW, eq. (03)
    eta: Array = field(repr=False)
    control_variate: Array = field(repr=False)  # f_CV, eq. (07)
    divergence: Array = field(repr=False)  # Div, definition 3
    plain: Array = field(repr=False)  # mean(L), as if r ≡ 1
    outcome: str
    plain_variance: Array = field(repr=False)  # Var(L)/n
    importance_variance: Array = field(repr=False)  # Var(rL)/n


def risk_terms(moments: RiskMoments) -> RiskTerms:
    """Every estimate that the moments determine.

    >>> moments = RiskMoments.of(np.array([0.5, 1.5, 1.0]), np.array([[1.0], [2.0], [3.0]]))
    >>> terms = risk_terms(moments)
    >>> terms.importance_weighted.round(4), terms.plain
    (array([2.1667]), array([2.]))
    """
    m = moments
    if m.ratio_m2 > 0.0:
        outcome = "ok"
        eta = -m.co_moment / m.ratio_m2
        # Var(rL + η(r − 1)) = Var(rL) − Cov(rL, r)²/Var(r), at the η above
        residual = m.product_m2 + eta * m.co_moment
    else:
        outcome = "zero-ratio" if m.ratio_mean == 0.0 else "constant-ratio"
        eta = np.zeros_like(m.product_mean)
        residual = m.product_m2.copy()
    residual = np.where(residual > ROUNDING * m.product_m2, residual, 0.0)
    return RiskTerms(
        n_rows=m.n_rows,
        importance_weighted=m.product_mean,
        eta=eta,
        control_variate=m.product_mean + eta * (m.ratio_mean - 1.0),
        divergence=residual / m.n_rows,
        plain=m.loss_mean,
        outcome=outcome,
        plain_variance=m.loss_m2 / m.n_rows**2,
        importance_variance=m.product_m2 / m.n_rows**2,
    )


def sampling_variance(spread: Array, squared_spread: Array, effective_rows: float) -> Array:
    """V = max(Σ w²(L − f)², V/ESS) · ESS/max(ESS − 1, ½).

    Parameters
    ----------
    spread : array
        V = Σ w (L − f)².
    squared_spread : array
        Σ w² (L − f)².
    effective_rows : float
        ESS.
    """
    ess = effective_rows
    variance: Array = np.maximum(squared_spread, spread / ess) * (ess / max(ess - 1.0, 0.5))
    return variance


@dataclass(frozen=True)
class LossSpread:
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
    def of(cls, values: Array, w: Array, functions: Array) -> LossSpread:
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

    def merge(self, other: LossSpread) -> LossSpread:
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
        return replace(LossSpread(*added), mean=mean, slope=slope)

    def _about(self, mean: Array, slope: Array) -> LossSpread:
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

    def variances(self, unit: float, moments: Array) -> tuple[float, Array]:
        """How much C explains of Σ w (L − f)², and sampling variances of means.

        Of L − f, L/f − K/f_K, r/unit, and the ratios of the members. C explains by a ridge
        regression; Σ w C (L − f) is Σ w (C − mean)(L − f), since Σ w (L − f) = 0.

        Parameters
        ----------
        unit : float
        moments : array of shape (functions + 1, functions + 1)
            Σ w (1, C)(1, C)ᵀ, see `fedcsa.core.tilt.Tilt`.
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
        G = moments[1:, 1:] - np.outer(moments[0, 1:], moments[0, 1:])
        b = np.linalg.solve(G + EXPLAINED_RIDGE * np.eye(len(G)), self.with_functions)
        # G of rows that are all alike is rounding error, of either sign.
        return min(max(float(b @ G @ b), 0.0), float(plain[0])), found


def _centre(values: Array) -> tuple[Array, Array]:
    """Mean and deviations, exact (deviation 0) for a constant column."""
    first = values[0]
    shifted = values - first
    shift = shifted.mean(axis=0)
    return first + shift, shifted - shift

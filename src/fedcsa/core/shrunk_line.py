"""A model corrected by a few outcomes: intercept first, then slope, then coefficients.

    numbers: y = p + a + b (p − c) + δᵀz + noise        classes: the same in log-odds

Every number of (a, b, δ) is normal around 0, where nothing changes, with the variance that was seen
between sites. A site may be unlike the others, in its intercept, in its slope as well, or in its
coefficients too: so four priors stand beside each other, the first three ever more often right, and
the outcomes say how much each counts (Hoeting et al. 1999, "Bayesian model averaging"). For numbers
everything is exact, with the noise's variance integrated out; for classes it is Laplace's
approximation.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fedcsa.core.arrays import Array, expit, softmax

#: Prior probabilities that a site is like the others, and unlike them in its intercept, in its
#: slope as well, in its coefficients too. Developed on simulated studies: more often unlike costs
#: more than 1 % of the risk where the rule is shared.
LIKELY = (0.85, 0.05, 0.05, 0.05)
#: How far an unlike site's intercept lies off, in sds of the noise, or in log-odds …
WIDE_INTERCEPT = 1.0
#: … its slope …
WIDE_SLOPE = 0.5
#: … and a coefficient, in sds of the noise over sds of the feature, or in log-odds.
WIDE_COEFFICIENT = 0.5
#: Rows that the sources' variance of the noise counts for.
RESIDUAL_ROWS = 10.0
#: No prior variance is smaller, in its units: a zero has no logarithm.
LEAST = 1e-10
#: Newton's steps, and when they have arrived.
LOGIT_STEPS, ARRIVED = 50, 1e-9


@dataclass(frozen=True)
class LinePrior:
    """How sites differ.

    Attributes
    ----------
    intercept, slope : float
        Variances between sites: of the level of outcomes given predictions, and of the calibration
        slope.
    coefficients : array of shape (features,)
        Of the models' coefficients, features in units of sds; of shape (0,) if the model has none.
    noise : float
        Mean squared error at a new site; 1 for classes.
    """

    intercept: float
    slope: float
    coefficients: Array = field(repr=False)
    noise: float = 1.0

    @property
    def variances(self) -> Array:
        """Prior variances of (a, b, δ) if the site is like the others, and unlike: (priors, k)."""
        seen = np.array([self.intercept, self.slope, *self.coefficients])
        wide = np.full(len(seen), WIDE_COEFFICIENT**2 * self.noise)
        wide[:2] = WIDE_INTERCEPT**2 * self.noise, WIDE_SLOPE**2
        unlike = (0, 1, 2, len(seen)) if len(self.coefficients) else (0, 1, 2)
        each = [np.where(np.arange(len(seen)) < k, np.maximum(seen, wide), seen) for k in unlike]
        found: Array = np.maximum(np.array(each), LEAST)
        return found


def shrunk_line(
    y: Array, line: Array, z: Array, weights: Array, prior: LinePrior, *, classes: bool
) -> tuple[float, float, Array]:
    """Intercept, slope and coefficients: p becomes intercept + slope · p + coefficients · z.

    Parameters
    ----------
    y : array of shape (rows,)
        Outcomes: numbers, or 0 and 1.
    line : array of shape (rows,)
        Predictions: numbers, or log-odds.
    z : array of shape (rows, features)
        In units of sds; the model's coefficients change only if the prior has some.
    weights : array of shape (rows,)
        They sum to the effective rows.
    prior : LinePrior
    classes : bool

    Examples
    --------
    >>> prior = LinePrior(0.01, 0.0, np.empty(0), noise=1.0)
    >>> y, ones = np.full(100, 0.1), np.ones(100)
    >>> a, b, _ = shrunk_line(y, np.zeros(100), np.empty((100, 0)), ones, prior, classes=False)
    >>> round(a, 2), b  # half of 0.1 if the site is like the others, and it may be unlike them
    (0.06, 1.0)
    """
    centre = float(weights @ line / weights.sum())
    columns = [np.ones_like(line), line - centre, *(z.T if len(prior.coefficients) else ())]
    A = np.column_stack(columns)
    fit = _of_classes if classes else _of_numbers
    found = [fit(y, line, A, weights, variances, prior.noise) for variances in prior.variances]
    log = np.array([evidence for _, evidence in found]) + np.log(LIKELY[: len(found)])
    mean = softmax(log) @ np.array([theta for theta, _ in found])
    intercept, slope = float(mean[0] - mean[1] * centre), float(1.0 + mean[1])
    return intercept, slope, mean[2:]


def _of_numbers(
    y: Array, line: Array, A: Array, weights: Array, variances: Array, noise: float
) -> tuple[Array, float]:
    """Posterior mean of (a, b, δ), and the log evidence up to a constant.

    θ ~ N(0, σ² V), σ² inverse gamma around `noise` as of `RESIDUAL_ROWS` rows.

    Parameters
    ----------
    y, line, weights : array of shape (rows,)
    A : array of shape (rows, k)
    variances : array of shape (k,)
        Prior variances if σ² is `noise`.
    noise : float
    """
    r, precision = y - line, noise / variances
    H = (A.T * weights) @ A + np.diag(precision)
    theta: Array = np.asarray(np.linalg.solve(H, A.T @ (weights * r)), dtype=np.float64)
    misfit = float(weights @ (r - A @ theta) ** 2 + precision @ theta**2)
    n = RESIDUAL_ROWS + float(weights.sum())
    evidence = 0.5 * np.log(precision).sum() - 0.5 * np.linalg.slogdet(H)[1]
    evidence -= 0.5 * n * np.log(RESIDUAL_ROWS * noise + misfit)
    return theta, float(evidence)


def _of_classes(
    y: Array, line: Array, A: Array, weights: Array, variances: Array, noise: float
) -> tuple[Array, float]:
    """Posterior mode of (a, b, δ), and the log evidence up to a constant.

    Parameters
    ----------
    y, line, weights : array of shape (rows,)
    A : array of shape (rows, k)
    variances : array of shape (k,)
    noise : float
        Not used.
    """
    del noise
    theta, precision, sign = np.zeros(A.shape[1]), 1.0 / variances, 2.0 * y - 1.0

    def objective(at: Array) -> float:
        return float(weights @ _softplus(-sign * (line + A @ at)) + 0.5 * precision @ at**2)

    value = objective(theta)
    for _ in range(LOGIT_STEPS):
        p = expit(line + A @ theta)
        H = (A.T * (weights * p * (1.0 - p))) @ A + np.diag(precision)
        step = np.linalg.solve(H, A.T @ (weights * (y - p)) - precision * theta)
        size = 1.0
        while objective(theta + size * step) > value and size > ARRIVED:
            size /= 2.0
        theta, before = theta + size * step, value
        value = objective(theta)
        if before - value <= ARRIVED * max(abs(value), 1.0):
            break
    p = expit(line + A @ theta)
    H = (A.T * (weights * p * (1.0 - p))) @ A + np.diag(precision)
    return theta, float(-value + 0.5 * np.log(precision).sum() - 0.5 * np.linalg.slogdet(H)[1])


def _softplus(x: Array) -> Array:
    """log(1 + eˣ), without overflow."""
    found: Array = np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))
    return found

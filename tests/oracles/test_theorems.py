"""The paper's theorems by Monte Carlo, with the true ratio of two Gaussians in closed form.

A source has x ~ N(m, s²), the target x ~ N(½, 0.8²), and everywhere y = x + ε, ε ~ N(0, ½²).
The model predicts 0, so that L = (x + ε)² and the target's risk is ½² + 0.8² + ½². Since s > 0.8
the ratio is bounded. Population moments E[r^a L^b (r − 1)^c] are one-dimensional integrals over x,
with the moments of ε by hand; nothing is estimated but what the theorems speak of.

A mean over R replications is compared within Z = 4 of its standard errors sd/√R, a variance
within 4 of sqrt((m4 − m2²)/R): a correct statement fails once in 16,000 times, and the seeds are
fixed.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from scipy.integrate import quad

from fedcsa.core.losses import RiskMoments, risk_terms
from fedcsa.core.weights import estimate

Z = 4.0
TARGET_MEAN, TARGET_SD, NOISE = 0.5, 0.8, 0.5
TARGET_RISK = TARGET_MEAN**2 + TARGET_SD**2 + NOISE**2


@dataclass(frozen=True)
class Normal:
    """A source's distribution of x."""

    mean: float
    sd: float

    def density(self, x):
        return np.exp(-0.5 * ((x - self.mean) / self.sd) ** 2) / (self.sd * math.sqrt(2 * math.pi))

    def ratio(self, x):
        """p_T/p_j in closed form."""
        return np.exp(
            0.5 * ((x - self.mean) / self.sd) ** 2
            - 0.5 * ((x - TARGET_MEAN) / TARGET_SD) ** 2
            + math.log(self.sd / TARGET_SD)
        )


NEAR, FAR = Normal(0.0, 1.0), Normal(-1.5, 1.5)
SOURCES = [pytest.param(NEAR, id="near"), pytest.param(FAR, id="far")]


def expectation(source, function):
    """E of function(r, E[L | x], E[L² | x]) over the source."""

    def integrand(x):
        first = x**2 + NOISE**2
        second = x**4 + 6 * x**2 * NOISE**2 + 3 * NOISE**4
        return function(source.ratio(x), first, second) * source.density(x)

    return quad(integrand, -15.0, 15.0, points=[-1.0, 0.5, 2.0], epsabs=1e-12, limit=200)[0]


@dataclass(frozen=True)
class Population:
    """What the estimates aim at."""

    iw_variance: float  # E[(rL)²] − f_T²
    eta: float
    divergence: float  # Var(rL + η(r − 1))
    cv_bias: float  # leading term of E[f_CV] − f_T, times n
    divergence_bias: float  # leading term of E[Div estimate] − Div, times n


@cache
def population(source):
    var_r = expectation(source, lambda r, _loss, _q: (r - 1) ** 2)
    iw_variance = expectation(source, lambda r, _loss, q: r**2 * q) - TARGET_RISK**2
    cov = expectation(source, lambda r, loss, _q: r * loss * (r - 1))  # E[r − 1] = 0
    eta = -cov / var_r

    # e = rL + η(r − 1) − f_T, the residual of rL on r
    def residual(r, loss):
        return r * loss + eta * (r - 1) - TARGET_RISK

    def residual_square(r, loss, q):
        return (
            r**2 * q
            + 2 * r * loss * (eta * (r - 1) - TARGET_RISK)
            + (eta * (r - 1) - TARGET_RISK) ** 2
        )

    divergence = expectation(source, residual_square)
    # f_CV − f_T = mean e + (η̂ − η)(mean r − 1), and η̂ − η ≈ −mean(e (r − 1))/Var r
    cv_bias = -expectation(source, lambda r, loss, _q: residual(r, loss) * (r - 1) ** 2) / var_r
    # mean e² loses (mean e)² to the mean and mean(e (r − 1))²/Var r to η̂
    lost = (
        expectation(source, lambda r, loss, q: residual_square(r, loss, q) * (r - 1) ** 2) / var_r
    )
    return Population(iw_variance, eta, divergence, cv_bias, -(divergence + lost))


def draw(source, n_rows, rng):
    x = rng.normal(source.mean, source.sd, n_rows)
    return source.ratio(x), (x + NOISE * rng.normal(size=n_rows)) ** 2


@cache
def replications(source, n_rows, n_replications, seed):
    """Risk terms of many validation folds, by the package; columns f_IW, f_CV, Div, plain."""
    rng = np.random.default_rng(seed)
    table = np.empty((n_replications, 4))
    for k in range(n_replications):
        ratios, losses = draw(source, n_rows, rng)
        terms = risk_terms(RiskMoments.of(ratios, losses[:, None]))
        table[k] = (
            terms.importance_weighted[0],
            terms.control_variate[0],
            terms.divergence[0],
            terms.plain[0],
        )
    return table.T


def standard_error(values):
    return values.std(ddof=1) / math.sqrt(len(values))


def variance_and_error(values):
    deviation = values - values.mean()
    m2, m4 = np.mean(deviation**2), np.mean(deviation**4)
    return m2, math.sqrt((m4 - m2**2) / len(values))


N_ROWS, N_REPLICATIONS = 400, 5000


@pytest.mark.parametrize("source", SOURCES)
def test_the_closed_forms_are_right(source):
    assert expectation(source, lambda r, _loss, _q: r) == pytest.approx(1.0, abs=1e-9)
    assert expectation(source, lambda r, loss, _q: r * loss) == pytest.approx(TARGET_RISK, abs=1e-9)
    # E_S[r²L²] is C times the fourth moment of N(m*, v* + NOISE²), p_T²/p_S = C N(m*, v*)
    v = 1.0 / (2 / TARGET_SD**2 - 1 / source.sd**2)
    m = v * (2 * TARGET_MEAN / TARGET_SD**2 - source.mean / source.sd**2)
    exponent = 2 * TARGET_MEAN**2 / TARGET_SD**2 - source.mean**2 / source.sd**2 - m**2 / v
    c = source.sd * math.sqrt(v) / TARGET_SD**2 * math.exp(-0.5 * exponent)
    w = v + NOISE**2
    by_hand = c * (m**4 + 6 * m**2 * w + 3 * w**2) - TARGET_RISK**2
    assert population(source).iw_variance == pytest.approx(by_hand, rel=1e-8)


@pytest.mark.parametrize("source", SOURCES)
def test_the_importance_weighted_risk_is_unbiased(source):
    f_iw, *_ = replications(source, N_ROWS, N_REPLICATIONS, 1)
    error = math.sqrt(population(source).iw_variance / N_ROWS / N_REPLICATIONS)
    assert abs(f_iw.mean() - TARGET_RISK) < Z * error


@pytest.mark.parametrize("source", SOURCES)
def test_the_plain_risk_is_biased_so_that_the_test_above_has_teeth(source):
    plain = replications(source, N_ROWS, N_REPLICATIONS, 1)[3]
    own_risk = source.mean**2 + source.sd**2 + NOISE**2
    assert abs(plain.mean() - own_risk) < Z * standard_error(plain)
    assert abs(plain.mean() - TARGET_RISK) > 10 * standard_error(plain)


@pytest.mark.parametrize("source", SOURCES)
def test_the_inverse_ratio_is_biased_so_that_the_tests_have_teeth(source):
    rng = np.random.default_rng(1)
    ratios, losses = draw(source, 20_000, rng)
    inverse = np.minimum(1.0 / ratios, 50.0) * losses
    assert abs(inverse.mean() - TARGET_RISK) > 10 * standard_error(inverse)


@pytest.mark.parametrize("source", SOURCES)
def test_the_variance_of_the_importance_weighted_risk_is_that_of_theorem_1_over_n(source):
    f_iw, *_ = replications(source, N_ROWS, N_REPLICATIONS, 1)
    variance, error = variance_and_error(f_iw)
    assert abs(variance - population(source).iw_variance / N_ROWS) < Z * error


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("n_rows", [100, N_ROWS])
def test_the_control_variate_risk_is_biased_by_its_leading_term_over_n_only(source, n_rows):
    f_cv = replications(source, n_rows, N_REPLICATIONS, 1)[1]
    bias = population(source).cv_bias / n_rows
    # what is left is of order n^−2: allow it the leading term over √n
    remainder = abs(bias) / math.sqrt(n_rows)
    assert abs(f_cv.mean() - TARGET_RISK - bias) < Z * standard_error(f_cv) + remainder


@pytest.mark.parametrize("source", SOURCES)
def test_the_control_variate_risk_has_the_variance_of_the_divergence_over_n(source):
    f_cv = replications(source, N_ROWS, N_REPLICATIONS, 1)[1]
    variance, error = variance_and_error(f_cv)
    assert abs(variance - population(source).divergence / N_ROWS) < Z * error


@pytest.mark.parametrize("source", SOURCES)
def test_the_control_variate_never_raises_the_variance(source):
    # corollary 1: in the population by Cauchy-Schwarz, in the sample beyond Monte Carlo error
    assert population(source).divergence < population(source).iw_variance
    f_iw, f_cv, *_ = replications(source, N_ROWS, N_REPLICATIONS, 1)
    a, b = (f_iw - f_iw.mean()) ** 2, (f_cv - f_cv.mean()) ** 2
    gain = a - b  # paired, same rows
    assert gain.mean() > Z * standard_error(gain)


@pytest.mark.parametrize("source", SOURCES)
def test_the_estimated_divergence_aims_at_its_definition(source):
    divergence = replications(source, N_ROWS, N_REPLICATIONS, 1)[2]
    aim = population(source).divergence + population(source).divergence_bias / N_ROWS
    remainder = abs(population(source).divergence_bias) / N_ROWS**1.5
    assert abs(divergence.mean() - aim) < Z * standard_error(divergence) + remainder


# --- two sources of unequal size ---------------------------------------------------------------


#: FedLE with fixed weights, of which the last are the numbers of rows.
FIXED = {"far": (0.1, 0.9), "near": (0.95, 0.05), "rows": (300, 600)}
ALL = ("fediwe", "feddae", *FIXED)


@cache
def federated(n_near, n_far, n_replications, seed, methods=ALL):
    """Some of FedIWE, FedDAE and three FedLE over replications; one row each."""
    rng = np.random.default_rng(seed)
    out = {name: np.empty(n_replications) for name in methods}
    for k in range(n_replications):
        sources = []
        for source, n_rows in ((NEAR, n_near), (FAR, n_far)):
            ratios, losses = draw(source, n_rows, rng)
            sources.append(risk_terms(RiskMoments.of(ratios, losses[:, None])))
        for name, row in out.items():
            method = ("fedle", sources, FIXED[name]) if name in FIXED else (name, sources)
            row[k] = estimate(*method).risk[0]
    return out


def test_fediwe_is_unbiased_and_has_the_variance_of_the_formula():
    values = federated(300, 600, 4000, 2)["fediwe"]
    near, far = (population(source).iw_variance for source in (NEAR, FAR))
    truth = (300 * near + 600 * far) / 900**2  # Σ (n_j/n)² V_j/n_j
    assert abs(values.mean() - TARGET_RISK) < Z * math.sqrt(truth / len(values))
    variance, error = variance_and_error(values)
    assert abs(variance - truth) < Z * error


def test_feddae_has_the_smallest_variance_that_weights_can_give():
    # 1/Σ(n_j/Div_j), for estimated Div_j up to terms of order 1/n relative
    values = federated(300, 600, 4000, 2)["feddae"]
    near, far = (population(source).divergence for source in (NEAR, FAR))
    truth = 1.0 / (300 / near + 600 / far)
    variance, error = variance_and_error(values)
    assert abs(variance - truth) < Z * error + truth / math.sqrt(300)


@pytest.mark.parametrize("other", ["fediwe", "far", "near", "rows"])
def test_feddae_varies_less_than_fediwe_and_other_weights(other):
    # corollaries 2 and 3; paired over the same rows
    table = federated(300, 600, 4000, 2)
    best, worse = ((values - values.mean()) ** 2 for values in (table["feddae"], table[other]))
    gain = worse - best
    assert gain.mean() > Z * standard_error(gain)


def test_the_bias_of_feddae_shrinks_with_the_rows():
    # of order 1/n: nine times the rows, a third of the bias at most
    few, many = (federated(50 * k, 100 * k, 2500, 3 + k, ("feddae",))["feddae"] for k in (1, 9))
    bias_few, bias_many = abs(few.mean() - TARGET_RISK), abs(many.mean() - TARGET_RISK)
    assert bias_many < bias_few / 3 + Z * standard_error(many)


@pytest.mark.parametrize("weights", ["far", "near", "rows"])
def test_fedle_with_fixed_weights_is_unbiased_up_to_its_leading_term(weights):
    values = federated(300, 600, 4000, 2)[weights]
    alpha = {"far": (0.1, 0.9), "near": (0.95, 0.05), "rows": (1 / 3, 2 / 3)}[weights]
    terms = (population(NEAR).cv_bias / 300, population(FAR).cv_bias / 600)
    bias = sum(a * t for a, t in zip(alpha, terms, strict=True))
    remainder = max(abs(t) for t in terms) / math.sqrt(300)
    assert abs(values.mean() - TARGET_RISK - bias) < Z * standard_error(values) + remainder

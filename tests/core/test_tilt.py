"""The tilt recovers density ratios, balances what Table 1 tells, and stays finite."""

import numpy as np
import pytest

from fedcsa.core.tilt import FARTHEST, balanced, fit_tilt, target_equivalent_rows

NUMBERS = np.array([False, False])


def objective(coefficients, C):
    """log mean exp(λᵀC) + 10⁻³|λ|², as the rule writes it."""
    u = C @ coefficients
    top = u.max()
    return top + np.log(np.mean(np.exp(u - top))) + 1e-3 * coefficients @ coefficients


def normal(n, mean=(0.4, -0.3), sd=(1.2, 0.9), seed=0):
    return np.random.default_rng(seed).normal(mean, sd, (n, len(mean)))


# What is balanced ----------------------------------------------------------------------------


def test_numbers_have_squares_flags_have_none_and_told_correlations_have_products():
    z, R = np.array([[2.0, -1.0, 3.0]]), np.full((3, 3), 0.25)
    assert balanced(z, np.zeros(3, bool)).tolist() == [[2.0, -1.0, 3.0, 3.0, 0.0, 8.0]]
    assert balanced(z, np.array([False, True, True])).tolist() == [[2.0, -1.0, 3.0, 3.0]]
    assert balanced(z, np.ones(3, bool)).tolist() == z.tolist()
    told = balanced(z, np.zeros(3, bool), R)
    assert told[0, 6:].tolist() == [-2.25, 5.75, -3.25]  # z0 z1, z0 z2, z1 z2, less R


@pytest.mark.parametrize("far", [31.0, -31.0, 1e200, -1e200])
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_nothing_that_is_balanced_exceeds_thirty(far):
    C = balanced(np.array([[far, 1.0]]), NUMBERS, np.eye(2))
    sign = np.sign(far) * FARTHEST
    assert FARTHEST == 30.0
    assert C.tolist() == [[sign, 1.0, 30.0, 0.0, sign]]


def test_rows_beyond_thirty_are_weighted_as_one_at_thirty():
    z = normal(200)
    z[0] = [1e3, 1e3]
    far = fit_tilt([z], NUMBERS)
    z[0] = [1e6, 1e6]
    farther = fit_tilt([z], NUMBERS)
    assert far.coefficients.tolist() == farther.coefficients.tolist()


# Closed forms --------------------------------------------------------------------------------


def test_two_gaussians_have_the_coefficients_of_their_density_ratio():
    # log of N(0, 1)/N(m, s²) is z m/s² · (−1) + z²(1/s² − 1)/2 and a constant; the penalty
    # moves it by 2·10⁻³ of itself over the smallest curvature, about a hundredth.
    mean, sd = np.array([0.4, -0.3]), np.array([1.2, 0.9])
    expected = np.concatenate([-mean / sd**2, 0.5 * (1.0 / sd**2 - 1.0)])
    gaps = [
        np.abs(fit_tilt([normal(n, mean, sd, seed=1)], NUMBERS).coefficients - expected).max()
        for n in (2_000, 400_000)
    ]
    assert gaps[1] < 0.01
    assert gaps[1] < gaps[0]


def test_the_weights_of_two_gaussians_are_their_density_ratio():
    mean, sd = np.array([0.4, -0.3]), np.array([1.2, 0.9])
    z = normal(400_000, mean, sd, seed=2)
    log_ratio = (0.5 * ((z - mean) / sd) ** 2 - 0.5 * z**2 + np.log(sd)).sum(axis=1)
    got = np.log(len(z) * fit_tilt([z], NUMBERS).weights(z))
    assert np.sqrt(np.mean((got - log_ratio) ** 2)) < 0.02


@pytest.mark.parametrize("told", [False, True])
def test_rows_that_match_the_table_exactly_have_equal_weights(told):
    z = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]] * 5)
    tilt = fit_tilt([z], NUMBERS, np.eye(2) if told else None)
    assert np.abs(tilt.coefficients).max() == 0.0
    np.testing.assert_allclose(tilt.weights(z), 1.0 / 20, rtol=1e-15)
    assert tilt.log_total == pytest.approx(np.log(20))


def test_one_flag_has_the_share_of_the_target_but_for_the_penalty():
    # z = ±1 with share p of +1: Σwz solves a scalar equation, tanh(λ + ½ logit p) = −2·10⁻³ λ.
    z = np.where(np.arange(100) < 80, 1.0, -1.0)[:, None]
    [coefficient] = fit_tilt([z], np.array([True])).coefficients
    assert np.tanh(coefficient + 0.5 * np.log(4.0)) == pytest.approx(-2e-3 * coefficient, abs=1e-12)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ((False, False), False),
        ((False, False), True),
        ((True, False), False),
        ((True, True), False),
    ],
)
@pytest.mark.parametrize("shift", [0.0, 0.5, 3.0])
def test_the_imbalance_that_remains_is_two_thousandths_of_the_coefficients(flags, told, shift):
    rng = np.random.default_rng(3)
    z = rng.normal(shift, 1.1, (300, 2))
    is_flag = np.array(flags)
    z[:, is_flag] = np.where(rng.random((300, is_flag.sum())) < 0.3, 1.0, -1.0)
    R = np.array([[1.0, 0.4], [0.4, 1.0]]) if told else None
    tilt = fit_tilt([z], is_flag, R)
    C, w = balanced(z, is_flag, R), tilt.weights(z)
    assert w.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(w @ C, -2e-3 * tilt.coefficients, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(tilt.difference, w @ z, rtol=0.0, atol=1e-12)
    # the objective is convex: no step away from λ lowers it
    rng_steps = rng.normal(0.0, 0.01, (50, len(tilt.coefficients)))
    least = objective(tilt.coefficients, C)
    assert min(objective(tilt.coefficients + step, C) for step in rng_steps) > least


def test_the_sources_own_correlations_are_those_under_the_weights():
    z = normal(500)
    z[:, 1] += 0.5 * z[:, 0]
    tilt = fit_tilt([z], NUMBERS)
    expected = np.cov(z.T, aweights=tilt.weights(z), ddof=0)
    expected /= np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose(tilt.own_correlations, expected, atol=1e-12)


def test_a_column_that_does_not_vary_has_no_correlations():
    z = normal(50)
    z[:, 1] = 0.25
    assert fit_tilt([z], NUMBERS).own_correlations[0, 1] == pytest.approx(0.0, abs=1e-9)


# Batches and far sources ---------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 100, 399, 400])
@pytest.mark.parametrize("told", [False, True])
def test_batches_give_the_weights_of_the_whole(size, told):
    z, R = normal(400), np.array([[1.0, 0.2], [0.2, 1.0]]) if told else None
    whole = fit_tilt([z], NUMBERS, R)
    batches = [z[i : i + size] for i in range(0, 400, size)]
    pieces = fit_tilt(batches, NUMBERS, R)
    np.testing.assert_allclose(pieces.coefficients, whole.coefficients, rtol=0.0, atol=1e-10)
    np.testing.assert_allclose(pieces.weights(z), whole.weights(z), rtol=1e-9)
    assert pieces.n_rows == whole.n_rows == 400
    assert pieces.log_total == pytest.approx(whole.log_total, abs=1e-10)


def test_the_order_of_rows_changes_nothing():
    z = normal(400)
    turned = fit_tilt([z[::-1]], NUMBERS).coefficients
    np.testing.assert_allclose(fit_tilt([z], NUMBERS).coefficients, turned, rtol=0, atol=1e-10)


@pytest.mark.parametrize("shift", [5.0, 20.0, 1e3, 1e8])
@pytest.mark.parametrize("n", [1, 2, 300])
def test_far_sources_stay_finite(shift, n):
    z = np.random.default_rng(4).normal(shift, 1.0, (n, 2))
    tilt = fit_tilt([z], NUMBERS)
    w = tilt.weights(z)
    assert np.isfinite(tilt.coefficients).all()
    assert np.isfinite(tilt.moments).all()
    assert w.sum() == pytest.approx(1.0, abs=1e-9)
    left = w @ balanced(z, NUMBERS)
    np.testing.assert_allclose(left, -2e-3 * tilt.coefficients, rtol=0.0, atol=1e-7)


# Worth ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ess", "iota"), [(50.0, 0.0), (20.0, 0.06), (3.0, 9.0)])
def test_worth_is_the_inverse_of_the_mean_squared_error(ess, iota):
    got = target_equivalent_rows(np.array([ess]), np.array([iota]))
    assert got[0] == pytest.approx(1.0 / (1.0 / ess + iota + iota**2 / 2.0), rel=1e-14)


def test_no_effective_row_is_worth_nothing():
    assert target_equivalent_rows(np.array([0.0]), np.array([0.0])).tolist() == [0.0]

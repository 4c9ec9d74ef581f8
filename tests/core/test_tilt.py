"""Weights that match a table: closed forms, an optimiser that knows nothing of ours, batches."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize, root
from scipy.stats import norm

from fedcsa.core.tilt import (
    TILT_PENALTY,
    balanced,
    fit_tilt,
    largest_leverage,
    target_equivalent_rows,
)


def no_flags(d):
    return np.zeros(d, dtype=bool)


def draws(n=300, d=3, seed=0, shift=0.4, flags=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(shift, 1.1, (n, d))
    marks = ((rng.random((n, flags)) < 0.3) - 0.4) / 0.5
    return np.column_stack([z, marks]), np.array([False] * d + [True] * flags)


# What is balanced ---------------------------------------------------------------------------


def test_numbers_have_squares_flags_have_none_and_pairs_come_last():
    z = np.array([[2.0, -1.0, 0.5]])
    R = np.array([[1.0, 0.2, 0.0], [0.2, 1.0, 0.1], [0.0, 0.1, 1.0]])
    found = balanced(z, np.array([False, False, True]))
    assert found.T.tolist() == [[1.0, 2.0, -1.0, 0.5, 3.0, 0.0]]
    found = balanced(z, no_flags(3), R)
    expected = [1.0, 2.0, -1.0, 0.5, 3.0, 0.0, -0.75, -2.0 - 0.2, 1.0, -0.5 - 0.1]
    np.testing.assert_allclose(found.T, [expected], rtol=1e-15)


def test_functions_are_clipped_on_both_sides():
    found = balanced(np.array([[100.0, -100.0]]), no_flags(2), np.eye(2))
    assert found.T.tolist() == [[1.0, 30.0, -30.0, 30.0, 30.0, -30.0]]


# Closed forms -------------------------------------------------------------------------------


def quantile_rows(means, sds, n):
    """A grid of normal quantiles: rows that have the distribution without its chance."""
    axes = [
        norm.ppf((np.arange(n) + 0.5) / n, mean, sd) for mean, sd in zip(means, sds, strict=True)
    ]
    return np.column_stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")])


def penalised(mean, sd):
    """λ of one number in the population, N(mean, sd²) to N(0, 1), with the penalty."""

    def left(lam):
        precision = 1.0 / sd**2 - 2.0 * lam[1]
        m, v = (mean / sd**2 + lam[0]) / precision, 1.0 / precision
        return [m + 2.0 * TILT_PENALTY * lam[0], m**2 + v - 1.0 + 2.0 * TILT_PENALTY * lam[1]]

    ratio = [-mean / sd**2, 0.5 / sd**2 - 0.5]  # of the densities' logarithms
    return root(left, ratio, tol=1e-13).x, ratio


@pytest.mark.parametrize(
    ("means", "sds", "n"), [((0.5,), (1.2,), 20_000), ((-0.4, 0.6), (1.0, 1.3), 250)]
)
def test_between_two_gaussians_the_tilt_is_the_density_ratio(means, sds, n):
    d = len(means)
    tilt = fit_tilt([quantile_rows(means, sds, n)], no_flags(d))
    for k, (mean, sd) in enumerate(zip(means, sds, strict=True)):
        found = tilt.coefficients[[k, d + k]]
        expected, ratio = penalised(mean, sd)
        np.testing.assert_allclose(found, expected, atol=1e-2)  # a grid is a little narrow
        np.testing.assert_allclose(found, ratio, atol=2e-2)  # the penalty costs little


def test_between_two_correlated_gaussians_the_tilt_is_the_density_ratio():
    rng = np.random.default_rng(1)
    S = np.array([[1.0, 0.2], [0.2, 1.2]])
    T = np.array([[1.0, 0.5], [0.5, 1.0]])
    z = rng.multivariate_normal([0.3, 0.0], S, 60_000)
    tilt = fit_tilt([z], no_flags(2), T)
    A = 0.5 * (np.linalg.inv(S) - np.linalg.inv(T))
    b = -np.linalg.solve(S, [0.3, 0.0])
    expected = [*b, A[0, 0], A[1, 1], 2.0 * A[0, 1]]
    np.testing.assert_allclose(tilt.coefficients, expected, atol=0.05)


def test_rows_with_the_tables_own_moments_weigh_the_same():
    z = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]] * 25)
    for correlations in (None, np.eye(2)):
        tilt = fit_tilt([z], no_flags(2), correlations)
        assert (tilt.coefficients == 0.0).all()
        np.testing.assert_allclose(tilt.weights(z), 0.01, rtol=1e-15)


def test_one_flag_has_the_share_of_the_target_but_for_the_penalty():
    # z = ±1 with four of five at +1: Σwz = tanh(λ + ½ log 4), and it must be −2·10⁻³ λ.
    z = np.where(np.arange(100) < 80, 1.0, -1.0)[:, None]
    [lam] = fit_tilt([z], np.array([True])).coefficients
    assert math.tanh(lam + 0.5 * math.log(4.0)) == pytest.approx(-2e-3 * lam, abs=1e-12)


def test_in_the_limit_rows_of_the_targets_population_weigh_the_same():
    worst = []
    for n in (400, 40_000):
        z, _ = draws(n, 2, shift=0.0)
        z = z / 1.1
        tilt = fit_tilt([z], no_flags(2))
        inside = np.abs(z).max(axis=1) < 2.0
        worst.append(np.abs(n * tilt.weights(z)[inside] - 1.0).max())
    assert worst[1] < 0.05
    assert worst[1] < 0.3 * worst[0]  # a tenth but for chance


@pytest.mark.parametrize("shift", [0.0, 0.5, 3.0, 20.0, -40.0])
@pytest.mark.parametrize(("d", "flags", "told"), [(1, 0, False), (3, 0, True), (2, 2, False)])
def test_what_is_left_of_the_imbalance_is_two_thousandths_of_lambda(shift, d, flags, told):
    z, marks = draws(150, d, flags=flags, shift=shift)
    R = np.eye(d) if told else None
    tilt = fit_tilt([z], marks, R)
    w = tilt.weights(z)
    left = balanced(z, marks, R)[1:] @ w
    np.testing.assert_allclose(left, -2e-3 * tilt.coefficients, atol=1e-9)
    assert w.sum() == pytest.approx(1.0, abs=1e-9)  # of exponents in the hundred thousands
    assert (w >= 0.0).all()


@pytest.mark.parametrize("shift", [0.3, 2.0])
def test_a_general_optimiser_finds_the_same_minimum(shift):
    z, marks = draws(120, 2, flags=1, shift=shift)
    C = balanced(z, marks)[1:].T

    def objective(lam):
        u = C @ lam
        top = u.max()
        e = np.exp(u - top)
        return (
            top + math.log(e.mean()) + TILT_PENALTY * lam @ lam,
            C.T @ (e / e.sum()) + 2.0 * TILT_PENALTY * lam,
        )

    slow = minimize(
        objective, np.zeros(C.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-10}
    )
    tilt = fit_tilt([z], marks)
    np.testing.assert_allclose(tilt.coefficients, slow.x, atol=1e-5)
    assert objective(tilt.coefficients)[0] <= slow.fun + 1e-13


# Batches and order --------------------------------------------------------------------------


@pytest.mark.parametrize("cuts", [(150,), (1,), (299,), (50, 51, 200), tuple(range(10, 300, 10))])
@pytest.mark.parametrize("shift", [0.4, 6.0])
def test_batches_change_nothing(cuts, shift):
    z, marks = draws(300, 2, flags=1, shift=shift)
    z[:60] += [5.0, -3.0, 0.0]  # the first batch is not like the others
    whole, pieces = fit_tilt([z], marks), fit_tilt(np.split(z, cuts), marks)
    assert pieces.n_rows == 300
    np.testing.assert_allclose(pieces.coefficients, whole.coefficients, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(pieces.weights(z), whole.weights(z), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(pieces.moments, whole.moments, rtol=1e-9, atol=1e-10)


def test_the_order_of_rows_and_their_repetition_change_nothing():
    z, marks = draws(200, 2, flags=1)
    tilt = fit_tilt([z], marks)
    turned, twice = fit_tilt([z[::-1]], marks), fit_tilt([np.vstack([z, z])], marks)
    np.testing.assert_allclose(turned.coefficients, tilt.coefficients, atol=1e-10)
    np.testing.assert_allclose(twice.coefficients, tilt.coefficients, atol=1e-10)
    np.testing.assert_allclose(2.0 * twice.weights(z), tilt.weights(z), rtol=1e-9)


# Rows that no weights bring there -----------------------------------------------------------


@pytest.mark.parametrize("far", [30.0, 1e3, 1e6, 1e12])
def test_rows_however_far_away_get_finite_weights(far):
    z, marks = draws(80, 2, shift=far)
    tilt = fit_tilt([z], marks)
    w = tilt.weights(z)
    assert np.isfinite(w).all()
    assert w.sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_handful_of_rows_gets_weights(n):
    z, marks = draws(n, 3)
    assert fit_tilt([z], marks).weights(z).sum() == pytest.approx(1.0, abs=1e-12)


def test_a_column_that_does_not_vary_is_balanced_as_well_as_it_can_be():
    z, marks = draws(100, 2)
    z[:, 1] = 0.7
    tilt = fit_tilt([z], marks)
    assert tilt.difference[1] == pytest.approx(0.7)
    assert abs(tilt.difference[0]) < 0.01


# What follows from the weights --------------------------------------------------------------


def test_correlations_under_the_weights_equal_a_loop_and_those_of_a_constant_are_none():
    z, marks = draws(90, 4, flags=1)
    z[:, 2], z[:, 3] = 0.25, -1.7
    tilt = fit_tilt([z], marks)
    w, found = tilt.weights(z), tilt.own_correlations
    mean = [math.fsum(w * z[:, k]) for k in range(5)]
    for i in range(5):
        for j in range(5):
            if {2, 3} & {i, j}:
                assert found[i, j] == 0.0
                continue
            products = [math.fsum(w * (z[:, a] - mean[a]) * (z[:, b] - mean[b]))
                        for a, b in ((i, j), (i, i), (j, j))]  # fmt: skip
            expected = products[0] / math.sqrt(products[1] * products[2])
            assert found[i, j] == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(tilt.difference, mean, atol=1e-12)


@pytest.mark.parametrize(
    ("ess", "iota", "rows"),
    [(50.0, 0.0, 50.0), (50.0, 0.1, 1.0 / (0.02 + 0.105)), (0.0, 0.0, 0.0), (10.0, 1e12, 2e-24)],
)
def test_the_worth_of_a_source_is_an_inverse_mean_squared_error(ess, iota, rows):
    [found] = target_equivalent_rows(np.array([ess]), np.array([iota]))
    assert found == pytest.approx(rows, rel=1e-9)


# What a single row makes up -----------------------------------------------------------------


@pytest.mark.parametrize("n_sums", [1, 2, 4])
def test_the_leverage_is_how_much_less_is_left_unknown_of_a_row(n_sums):
    """Of independent outcomes of variance 1, given the sums: 1 − wᵢᵀ(WWᵀ)⁻¹wᵢ."""
    W = np.random.default_rng(n_sums).dirichlet(np.ones(30), n_sums)
    left = [1.0 - w @ np.linalg.inv(W @ W.T) @ w for w in W.T]
    assert largest_leverage(W) == pytest.approx(1.0 - min(left), rel=1e-9)


def test_the_same_weights_twice_tell_nothing_more():
    w = np.random.default_rng(0).dirichlet(np.ones(30))
    alone = largest_leverage(w[None])
    assert alone == pytest.approx((w**2).max() / (w**2).sum())
    assert largest_leverage(np.stack([w, w, w * (1.0 + 1e-9)])) == pytest.approx(alone)


def test_two_sums_that_differ_in_one_row_tell_that_row():
    w = np.full(100, 0.01)
    other = w.copy()
    other[7] = 0.0
    assert largest_leverage(w[None]) == pytest.approx(0.01)
    assert largest_leverage(np.stack([w, other])) == pytest.approx(1.0)

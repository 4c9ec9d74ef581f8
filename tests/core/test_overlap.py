"""Overlap numbers against loops."""

import math

import numpy as np
import pytest

from fedcsa.core.overlap import normalised, overlap


def slow_overlap(r, Z):
    n, d = Z.shape
    total = math.fsum(r)
    w = [value / total for value in r]
    return {
        "mean_ratio": total / n,
        "effective_rows": total**2 / math.fsum(value**2 for value in r),
        "largest_share": max(w),
        "difference_before": [math.fsum(Z[i, k] for i in range(n)) / n for k in range(d)],
        "difference_after": [math.fsum(w[i] * Z[i, k] for i in range(n)) for k in range(d)],
    }


@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 1), (30, 1), (17, 4), (5, 10)])
def test_overlap_equals_a_loop(n, d):
    rng = np.random.default_rng(n * d)
    r, Z = rng.gamma(0.5, 2.0, n), rng.normal(0.5, 2.0, (n, d))
    got, expected = overlap(r, Z, 1.75), slow_overlap(r, Z)
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(got, name), value, rtol=1e-12, atol=1e-14, err_msg=name)
    assert got.target_mean_ratio == 1.75
    mean_square = sum(value**2 for value in expected["difference_after"]) / d
    assert got.imbalance == pytest.approx(mean_square, rel=1e-11)


def test_equal_ratios_change_nothing():
    Z = np.random.default_rng(0).normal(size=(8, 3))
    got = overlap(np.full(8, 0.3), Z, 1.0)
    assert got.effective_rows == pytest.approx(8.0, rel=1e-14)
    assert got.largest_share == pytest.approx(1 / 8, rel=1e-14)
    np.testing.assert_allclose(got.difference_after, got.difference_before, rtol=1e-13)


def test_one_row_that_carries_everything_is_one_effective_row():
    got = overlap(np.array([0.0, 5.0, 0.0]), np.array([[1.0], [-2.0], [4.0]]), 9.0)
    assert (got.effective_rows, got.largest_share) == (1.0, 1.0)
    assert got.difference_after.tolist() == [-2.0]
    assert got.imbalance == 4.0


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-160, 1e160, 1e300])
def test_effective_rows_and_balance_do_not_depend_on_the_scale_of_the_ratios(scale):
    # whole multiples, so that even subnormal ratios keep their proportions
    r = np.array([1.0, 2.0, 4.0, 1.0])
    Z = np.random.default_rng(1).normal(size=(4, 2))
    got, expected = overlap(scale * r, Z, 1.0), overlap(r, Z, 1.0)
    assert got.effective_rows == pytest.approx(expected.effective_rows, rel=1e-3)
    assert got.largest_share == pytest.approx(0.5, rel=1e-3)
    np.testing.assert_allclose(got.difference_after, expected.difference_after, rtol=1e-2)
    assert got.mean_ratio == pytest.approx(2.0 * scale, rel=1e-3)


def test_a_zero_ratio_has_no_effective_rows_and_the_plain_balance():
    got = overlap(np.zeros(3), np.array([[1.0], [2.0], [6.0]]), 0.0)
    assert (got.mean_ratio, got.effective_rows, got.largest_share) == (0.0, 0.0, 0.0)
    assert got.difference_before.tolist() == [3.0]
    assert got.difference_after.tolist() == [3.0]
    assert got.imbalance == 9.0


def test_effective_rows_lie_between_one_and_all():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 40))
        r = rng.gamma(rng.uniform(0.05, 3.0), size=n) * (rng.random(n) < 0.7)
        r[0] += 1e-3
        got = overlap(r, np.zeros((n, 1)), 1.0)
        assert 1.0 - 1e-12 <= got.effective_rows <= n * (1 + 1e-12)
        assert 1.0 / n - 1e-12 <= got.largest_share <= 1.0


def test_the_true_ratio_of_two_gaussians_brings_the_means_together():
    # source N(0, 1), target N(1, 0.6²): closed-form ratio, in the target's units
    rng = np.random.default_rng(0)
    x = rng.normal(size=4000)
    r = np.exp(0.5 * x**2 - 0.5 * ((x - 1.0) / 0.6) ** 2) / 0.6
    got = overlap(r, ((x - 1.0) / 0.6)[:, None], 1.0)
    w = r / r.sum()
    z = (x - 1.0) / 0.6
    standard_error = math.sqrt(float((w**2) @ z**2))  # delta method, true mean 0
    assert abs(got.difference_before[0] + 1.0 / 0.6) < 4 / 0.6 / math.sqrt(4000)
    assert abs(got.difference_after[0]) < 4 * standard_error
    assert abs(got.mean_ratio - 1.0) < 4 * r.std() / math.sqrt(4000)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_normalised_ratios_sum_to_one_and_keep_their_proportions(scale):
    got = normalised(scale * np.array([1.0, 0.0, 3.0]))
    np.testing.assert_allclose(got, [0.25, 0.0, 0.75], rtol=1e-14)


@pytest.mark.parametrize("n", [1, 4])
def test_normalised_ratios_of_zero_are_equal_weights(n):
    assert normalised(np.zeros(n)).tolist() == [1.0 / n] * n

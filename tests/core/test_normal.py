"""The normal distribution agrees with scipy's to rounding."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from fedcsa.core.normal import normal_below, normal_quantile

POINTS = np.concatenate(
    [np.random.default_rng(0).normal(0.0, 3.0, 20_000), np.arange(-9.0, 9.0, 1 / 256), [0.0, -0.0]]
)


def test_probabilities_are_those_of_scipy_to_rounding():
    assert np.abs(normal_below(POINTS) - ndtr(POINTS)).max() < 3e-16
    near = POINTS[np.abs(POINTS) < 5.0]
    assert np.abs(normal_below(near) / ndtr(near) - 1.0).max() < 1e-13


def test_far_off_they_are_small_and_never_below_0_or_above_1():
    far = np.linspace(5.0, 50.0, 9_001)
    below = normal_below(-far)
    assert (below >= 0.0).all()
    seen = far < 30.0
    assert np.abs(below[seen] / ndtr(-far[seen]) - 1.0).max() < 1e-8
    assert (np.abs(normal_below(far) - 1.0) < 3e-7).all()
    assert normal_below([math.inf, -math.inf]).round(15).tolist() == [1.0, 0.0]


def test_what_is_no_number_gives_none():
    assert np.isnan(normal_below([0.0, math.nan])).tolist() == [False, True]
    for wrong in (math.nan, -1.0, 2.0):
        assert math.isnan(normal_quantile(wrong))


def test_shapes_stay():
    assert normal_below(np.zeros((2, 3))).shape == (2, 3)
    assert float(normal_below(0.0)) == 0.5


@pytest.mark.parametrize("probability", [1e-300, 1e-12, 0.025, 0.5, 0.975, 1.0 - 1e-12])
def test_quantiles_are_those_of_scipy_to_rounding(probability):
    assert normal_quantile(probability) == pytest.approx(ndtri(probability), rel=1e-13, abs=1e-15)


def test_quantiles_of_nothing_and_all_are_infinite():
    assert (normal_quantile(0.0), normal_quantile(1.0)) == (-math.inf, math.inf)

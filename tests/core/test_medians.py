"""Weighted medians: what one source says cannot move them far."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedcsa.core.medians import capped, limited, median_mixture, weighted_median

FAST = settings(max_examples=60, deadline=None)
SEEDS = st.integers(0, 10**6)


# Weighted medians ---------------------------------------------------------------------------


@FAST
@given(SEEDS, st.integers(1, 8))
def test_the_weighted_median_leaves_at_most_half_of_the_weight_on_either_side(seed, K):
    rng = np.random.default_rng(seed)
    values, weights = rng.integers(0, 5, K).astype(float), rng.uniform(0.01, 1, K)
    middle = weighted_median(values, weights)
    assert middle in values
    half = 0.5 * weights.sum() * (1 + 1e-9)
    assert weights[values < middle].sum() <= half
    assert weights[values > middle].sum() <= half


@FAST
@given(SEEDS)
def test_the_median_of_equal_weights_is_the_lower_median(seed):
    rng = np.random.default_rng(seed)
    outputs = rng.normal(size=(9, int(rng.integers(1, 8))))
    expected = [sorted(row)[(len(row) - 1) // 2] for row in outputs.tolist()]
    K = outputs.shape[1]
    assert median_mixture(outputs, np.full(K, 1.0 / K)).tolist() == expected


@FAST
@given(SEEDS, st.sampled_from([1e-12, 0.3, 1.0, 50.0, 1e12]), st.floats(-1e12, 1e12))
def test_no_single_source_moves_the_median_outside_the_range_of_the_others(seed, claim, lie):
    rng = np.random.default_rng(seed)
    K = int(rng.integers(4, 8))
    outputs, worth = rng.normal(size=(10, K)), rng.uniform(0.1, 1, K)
    liar = int(rng.integers(K))
    outputs[:, liar], worth[liar] = lie, claim
    weights = capped(worth, 1.0 / 3.0)
    found = median_mixture(outputs, weights)
    honest = np.delete(outputs, liar, axis=1)
    assert (found >= honest.min(axis=1)).all()
    assert (found <= honest.max(axis=1)).all()


@FAST
@given(SEEDS, st.floats(0.0, 1e12))
def test_no_single_source_can_put_a_class_beyond_what_the_others_allow(seed, claim):
    rng = np.random.default_rng(seed)
    K, classes = int(rng.integers(4, 7)), 3
    outputs, worth = rng.dirichlet(np.ones(classes), (8, K)), rng.uniform(0.1, 1, K)
    outputs[:, 0], worth[0] = [1.0, 0.0, 0.0], claim
    found = median_mixture(outputs, capped(worth, 1.0 / 3.0))
    honest = outputs[:, 1:]
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    assert (found >= 0.0).all()
    # Before rescaling every class lies in the range of the others; rescaling keeps the odds.
    odds = found[:, 0] / found[:, 1]
    assert (odds <= honest[..., 0].max(axis=1) / honest[..., 1].min(axis=1) * (1 + 1e-9)).all()


def test_medians_that_are_all_zero_become_equal_probabilities():
    outputs = np.eye(4)[None]  # every class is believed by one of four, so every median is 0
    assert median_mixture(outputs, np.full(4, 0.25)).tolist() == [[0.25] * 4]


def test_the_median_of_one_model_is_that_model():
    outputs = np.array([[3.0], [4.0]])
    assert median_mixture(outputs, np.ones(1)).tolist() == [3.0, 4.0]


# The cap ------------------------------------------------------------------------------------


@FAST
@given(hnp.arrays(float, st.integers(2, 9), elements=st.floats(0.0, 1e12)), st.floats(0.0, 1.0))
def test_capped_weights_sum_to_one_below_the_cap_in_their_old_order(weights, slack):
    assume(weights.sum() > 0.0)
    K = len(weights)
    largest = 1.0 / K + slack * (1.0 - 1.0 / K)
    found = capped(weights, largest)
    assert found.sum() == pytest.approx(1.0, rel=1e-9)
    assert (found >= 0.0).all()
    assert (found <= largest * (1 + 1e-9)).all()
    for i, j in itertools.permutations(range(K), 2):
        if weights[i] >= weights[j]:
            assert found[i] >= found[j] - 1e-12


@FAST
@given(SEEDS)
def test_weights_below_the_cap_keep_their_proportions(seed):
    weights = np.random.default_rng(seed).uniform(0.0, 1.0, 6) ** 4
    found = capped(weights, 1.0 / 3.0)
    free = found < 1.0 / 3.0 - 1e-9
    assert free.any()
    share = found[free] / weights[free]
    np.testing.assert_allclose(share, share[0], rtol=1e-9)


def test_a_cap_that_nobody_reaches_changes_nothing():
    weights = np.array([0.2, 0.3, 0.25, 0.25])
    np.testing.assert_allclose(capped(weights, 0.4), weights, rtol=1e-15)


def test_weights_that_are_all_in_one_hand_are_spread_equally():
    np.testing.assert_allclose(
        capped(np.array([1.0, 0.0, 0.0, 0.0]), 1 / 3), [1 / 3, 2 / 9, 2 / 9, 2 / 9], rtol=1e-12
    )


def test_only_a_median_limits_weights():
    weights = np.array([0.9, 0.05, 0.03, 0.02])
    assert limited(weights, "mean") is weights
    assert limited(weights, "median").max() == pytest.approx(1.0 / 3.0, rel=1e-12)

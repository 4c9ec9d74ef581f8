"""The design of a follow-up: every possible list is counted, and its weights are unbiased."""

from itertools import combinations, product

import numpy as np
import pytest

from fedcsa.core.strata import design_weights, n_strata, review_order, strata_by


def every_sample(labels, picked):
    """All samples with so many rows of every stratum: each is as likely as any other."""
    pools = [np.flatnonzero(labels == h) for h in range(len(picked))]
    parts = [list(combinations(pool, n)) for pool, n in zip(pools, picked, strict=True)]
    return [np.concatenate(sample).astype(int) for sample in product(*parts)]


@pytest.mark.parametrize("picked", [(1, 1), (2, 1), (3, 2)])
def test_the_mean_over_all_possible_lists_is_the_mean_of_all_rows(picked):
    rng = np.random.default_rng(0)
    values, labels = rng.exponential(size=9), strata_by(rng.normal(size=9), 2)
    sizes = np.bincount(labels)
    found = [
        design_weights(labels[sample], sizes) @ values[sample]
        for sample in every_sample(labels, picked)
    ]
    assert np.mean(found) == pytest.approx(values.mean(), rel=1e-12)


def test_unweighted_the_same_lists_are_biased():
    rng = np.random.default_rng(0)
    score = rng.normal(size=9)
    labels = strata_by(score, 2)
    found = [score[sample].mean() for sample in every_sample(labels, (3, 1))]
    assert abs(np.mean(found) - score.mean()) > 0.1


def test_every_row_of_a_stratum_is_as_likely_to_be_on_the_list():
    labels = strata_by(np.arange(10.0), 2)
    rng, times = np.random.default_rng(1), np.zeros(10)
    for _ in range(4000):
        times[review_order(labels, rng)[:5]] += 1
    # 5 of 10 rows; 0.5 ± 4.5 standard errors of 4,000 draws
    np.testing.assert_allclose(times / 4000, 0.5, atol=4.5 * 0.5 / np.sqrt(4000))


def test_by_monte_carlo_the_loss_is_estimated_without_bias_also_if_answers_are_missing():
    """Answers are missing at random within strata, more often where predictions are high."""
    rng = np.random.default_rng(2)
    p = rng.beta(1.0, 3.0, 400)
    losses = np.square((rng.random(400) < p) - p)
    labels = strata_by(p, 5)
    sizes, found, plain = np.bincount(labels), [], []
    for _ in range(3000):
        listed = review_order(labels, rng)[:100]
        came = listed[rng.random(100) < 0.9 - 0.15 * labels[listed]]
        found.append(design_weights(labels[came], sizes) @ losses[came])
        plain.append(losses[came].mean())
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - losses.mean()) < 4.0 * error
    assert abs(np.mean(plain) - losses.mean()) > 20.0 * error


def test_a_list_may_be_cut_off_or_continued_anywhere():
    labels = strata_by(np.random.default_rng(3).normal(size=203), 5)
    order = review_order(labels, np.random.default_rng(4))
    assert sorted(order) == list(range(203))
    for n in (5, 17, 30, 50, 200):
        taken = np.bincount(labels[order[:n]], minlength=5)
        assert taken.max() - taken.min() <= 1
    assert np.array_equal(order, review_order(labels, np.random.default_rng(4)))


def test_strata_are_of_one_size_and_in_the_order_of_the_predictions():
    score = np.random.default_rng(5).normal(size=53)
    labels = strata_by(score, 5)
    sizes = np.bincount(labels)
    assert sizes.max() - sizes.min() <= 1
    for low, high in zip(range(4), range(1, 5), strict=True):
        assert score[labels == low].max() <= score[labels == high].min()


def test_equal_predictions_are_dealt_all_the_same():
    assert np.bincount(strata_by(np.ones(30), 5)).tolist() == [6] * 5


@pytest.mark.parametrize(("n", "rows", "expected"), [(30, 1000, 5), (30, 13, 2), (3, 1000, 1)])
def test_few_rows_have_few_strata(n, rows, expected):
    assert n_strata(n, rows) == expected


def test_a_stratum_without_answers_is_joined_with_its_neighbour():
    weights = design_weights(np.array([0, 1, 1, 4]), np.array([10, 10, 10, 10, 10]))
    # The middle one goes to the second, the fourth to the last.
    np.testing.assert_allclose(weights, np.array([10.0, 10.0, 10.0, 20.0]) / 50.0)

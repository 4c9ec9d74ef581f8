"""Leaving out some rows instead of all: the same formula, and the same choice."""

import numpy as np
import pytest

from fedcsa.core import ratio_scores
from fedcsa.core.kernels import gaussian, squared_distances
from fedcsa.core.ratio_scores import RatioSums, leave_one_out_scores, ratio_coefficients
from fedcsa.core.ulsif import SCORE_ROWS, ULSIF
from fedcsa.errors import ParameterError

GRID = np.array([1e-3, 0.1, 1.0])


def two_samples(n_source, n_target, d, seed=0):
    rng = np.random.default_rng([seed, n_source, n_target, d])
    return rng.normal(0.0, 1.0, (n_source, d)), rng.normal(0.4, 0.8, (n_target, d))


def two_bases(n_source, n_target, sigma=1.5):
    source, target = two_samples(n_source, n_target, 2)
    centres = target[:6]
    return tuple(gaussian(squared_distances(X, centres), sigma) for X in (source, target))


def refit_terms(phi, psi, lam, clip, left_out):
    """Terms of the score by fitting anew without each pair of `left_out`."""
    terms = []
    for i in left_out:
        a = ratio_coefficients(
            np.delete(phi, i, axis=0), np.delete(psi, i, axis=0), lam, clip_coefficients=clip
        )
        at_source, at_target = max(0.0, phi[i] @ a), max(0.0, psi[i] @ a)
        terms.append(0.5 * at_source**2 - at_target)
    return np.array(terms)


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize(("n_source", "n_target"), [(23, 15), (15, 23)])
def test_the_mean_of_capped_scores_is_the_exact_score(n_source, n_target, alpha, clip):
    # each pair left out alone, in turn: the corrections average to the exact one
    phi, psi = two_bases(n_source, n_target)
    n = min(n_source, n_target)
    options = {"alpha": alpha, "clip_coefficients": clip}
    exact = leave_one_out_scores(phi, psi, GRID, **options)
    alone = [leave_one_out_scores(phi, psi, GRID, **options, pairs=np.array([i])) for i in range(n)]
    np.testing.assert_allclose(np.mean(alone, axis=0), exact, rtol=1e-10)
    every = leave_one_out_scores(phi, psi, GRID, **options, pairs=np.arange(n))
    np.testing.assert_allclose(every, exact, rtol=1e-10)


@pytest.mark.parametrize("clip", [True, False])
def test_pairs_left_out_differ_by_what_fitting_anew_without_them_differs(clip):
    phi, psi = two_bases(12, 9)
    a, b = np.array([0, 3]), np.array([5, 7])
    options = {"clip_coefficients": clip}
    got = leave_one_out_scores(phi, psi, GRID, **options, pairs=a) - leave_one_out_scores(
        phi, psi, GRID, **options, pairs=b
    )
    for k, lam in enumerate(GRID):
        # α of all rows, with H over n_S − 1: what nothing left out means in the score
        H = phi.T @ phi / (len(phi) - 1) + lam * np.eye(phi.shape[1])
        whole = np.linalg.solve(H, psi.mean(axis=0))
        whole = np.maximum(whole, 0.0) if clip else whole
        plain = 0.5 * np.maximum(phi[:9] @ whole, 0.0) ** 2 - np.maximum(psi @ whole, 0.0)
        change = [
            (refit_terms(phi, psi, lam, clip, pairs) - plain[pairs]).mean() for pairs in (a, b)
        ]
        assert got[k] == pytest.approx(change[0] - change[1], rel=1e-8, abs=1e-10)


def test_blocks_of_rows_do_not_matter(monkeypatch):
    phi, psi = two_bases(40, 30)
    whole = leave_one_out_scores(phi, psi, GRID, alpha=0.2)
    monkeypatch.setattr(ratio_scores, "BLOCK_ROWS", 7)
    np.testing.assert_allclose(leave_one_out_scores(phi, psi, GRID, alpha=0.2), whole, rtol=1e-12)


def test_sums_that_are_known_need_not_be_made_again():
    phi, psi = two_bases(20, 25)
    sums = RatioSums.of(phi, psi, 0.0)
    np.testing.assert_array_equal(
        leave_one_out_scores(phi, psi, GRID, sums=sums), leave_one_out_scores(phi, psi, GRID)
    )
    np.testing.assert_array_equal(sums.coefficients(0.1), ratio_coefficients(phi, psi, 0.1))


# --- the cap of a fit ----------------------------------------------------------------------------


@pytest.mark.parametrize("nonnegative", ["coefficients", "ratio"])
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_the_cap_is_off_where_there_are_few_rows(nonnegative, alpha):
    source, target = two_samples(90, 60, 2)
    options = {"nonnegative": nonnegative, "alpha": alpha, "random_state": 0}
    capped, exact = (ULSIF(score_rows=rows, **options).fit(source, target) for rows in (60, None))
    np.testing.assert_array_equal(capped.cv_scores_, exact.cv_scores_)
    np.testing.assert_array_equal(capped.coefficients_, exact.coefficients_)


@pytest.mark.parametrize("nonnegative", ["coefficients", "ratio"])
@pytest.mark.parametrize(
    ("n_source", "n_target", "d"), [(4000, 3000, 1), (3000, 4000, 2), (5000, 5000, 10)]
)
def test_capped_and_exact_scores_choose_the_same(n_source, n_target, d, nonnegative):
    assert min(n_source, n_target) > SCORE_ROWS
    source, target = two_samples(n_source, n_target, d)
    options = {"nonnegative": nonnegative, "random_state": 0}
    capped = ULSIF(**options).fit(source, target)
    exact = ULSIF(**options, score_rows=None).fit(source, target)
    assert (capped.bandwidth_, capped.regularization_) == (
        exact.bandwidth_,
        exact.regularization_,
    )
    np.testing.assert_array_equal(capped.coefficients_, exact.coefficients_)
    assert not np.array_equal(capped.cv_scores_, exact.cv_scores_)  # the cap was on


@pytest.mark.parametrize("score_rows", [0, -1, 2.5, True])
def test_score_rows_must_be_a_whole_number_or_none(score_rows):
    with pytest.raises(ParameterError, match="score_rows"):
        ULSIF(score_rows=score_rows).fit(*two_samples(10, 10, 1))

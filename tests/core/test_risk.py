"""Risk terms against loops written from the paper: (03), (07), definition 3."""

import math
from functools import reduce

import numpy as np
import pytest

from fedcsa.core.losses import RiskMoments, risk_terms


def sample(n, n_candidates, seed=0):
    rng = np.random.default_rng([seed, n, n_candidates])
    return rng.gamma(0.7, 1.4, n), rng.gamma(2.0, 1.0, (n, n_candidates))


def slow_terms(r, L):
    """Every estimate of one candidate, term by term."""
    n = len(r)
    rL = [r[i] * L[i] for i in range(n)]
    mean_r, mean_rl = math.fsum(r) / n, math.fsum(rL) / n
    variance = math.fsum((r[i] - mean_r) ** 2 for i in range(n)) / n
    covariance = math.fsum((rL[i] - mean_rl) * (r[i] - mean_r) for i in range(n)) / n
    eta = -covariance / variance if variance > 0 else 0.0
    terms = [rL[i] + eta * (r[i] - 1.0) for i in range(n)]
    f_cv = math.fsum(terms) / n
    return {
        "importance_weighted": mean_rl,
        "eta": eta,
        "control_variate": f_cv,
        "divergence": math.fsum((term - f_cv) ** 2 for term in terms) / n,
        "plain": math.fsum(L) / n,
    }


@pytest.mark.parametrize("n", [2, 3, 7, 50, 400])
@pytest.mark.parametrize("n_candidates", [1, 3])
def test_every_term_equals_a_loop_from_the_paper(n, n_candidates):
    r, L = sample(n, n_candidates)
    got = risk_terms(RiskMoments.of(r, L))
    assert got.n_rows == n
    assert got.outcome == "ok"
    for c in range(n_candidates):
        for name, value in slow_terms(r, L[:, c]).items():
            actual = getattr(got, name)
            assert actual.shape == (n_candidates,)
            assert actual[c] == pytest.approx(value, rel=1e-12, abs=1e-12), name


def test_every_term_equals_the_five_uncentred_moments():
    # PRIVACY.md: η = −(s2 − s1 m1)/(m2 − m1²), f_CV = s1 + η(m1 − 1), Div = … + 2η … + η² …
    r, L = sample(60, 1, seed=3)
    loss = L[:, 0]
    m1, m2 = np.mean(r), np.mean(r**2)
    s1, s2, s3 = np.mean(r * loss), np.mean(r**2 * loss), np.mean(r**2 * loss**2)
    eta = -(s2 - s1 * m1) / (m2 - m1**2)
    div = (s3 - s1**2) + 2 * eta * (s2 - s1 * m1) + eta**2 * (m2 - m1**2)
    got = risk_terms(RiskMoments.of(r, L))
    assert got.eta[0] == pytest.approx(eta, rel=1e-11)
    assert got.control_variate[0] == pytest.approx(s1 + eta * (m1 - 1), rel=1e-11)
    assert got.divergence[0] == pytest.approx(div, rel=1e-11)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_moments_equal_loops(n):
    r, L = sample(n, 2, seed=1)
    got = RiskMoments.of(r, L)
    mean_r = math.fsum(r) / n
    assert got.n_rows == n
    assert got.ratio_mean == pytest.approx(mean_r, rel=1e-14)
    assert got.ratio_m2 == pytest.approx(math.fsum((r - mean_r) ** 2), rel=1e-12, abs=1e-300)
    for c in range(2):
        loss, product = L[:, c], r * L[:, c]
        mean_l, mean_p = math.fsum(loss) / n, math.fsum(product) / n
        for actual, value in (
            (got.loss_mean[c], mean_l),
            (got.loss_m2[c], math.fsum((loss - mean_l) ** 2)),
            (got.product_mean[c], mean_p),
            (got.product_m2[c], math.fsum((product - mean_p) ** 2)),
            (got.co_moment[c], math.fsum((product - mean_p) * (r - mean_r))),
        ):
            assert actual == pytest.approx(value, rel=1e-12, abs=1e-14)


def test_centred_moments_do_not_cancel_far_from_zero():
    # Σ(L − mean)² of 1e9 + {0, 1, 2} is 2; the difference of raw moments would be lost.
    moments = RiskMoments.of(np.ones(3), np.array([[1e9], [1e9 + 1], [1e9 + 2]]))
    assert moments.loss_m2.tolist() == [2.0]
    assert moments.ratio_m2 == 0.0


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_merged_parts_equal_the_whole(parts):
    r, L = sample(23, 2, seed=2)
    cuts = np.array_split(np.arange(23), parts)
    merged = reduce(RiskMoments.merge, [RiskMoments.of(r[rows], L[rows]) for rows in cuts])
    whole = RiskMoments.of(r, L)
    for name in RiskMoments.__dataclass_fields__:
        np.testing.assert_allclose(
            getattr(merged, name), getattr(whole, name), rtol=1e-12, err_msg=name
        )


@pytest.mark.parametrize("value", [0.1, 1.0, 1 / 3, 17.0])
@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_a_constant_ratio_switches_the_control_variate_off_exactly(value, n):
    L = np.random.default_rng(n).gamma(2.0, 1.0, (n, 2))
    got = risk_terms(RiskMoments.of(np.full(n, value), L))
    assert got.outcome == "constant-ratio"
    assert got.eta.tolist() == [0.0, 0.0]
    np.testing.assert_array_equal(got.control_variate, got.importance_weighted)
    np.testing.assert_allclose(got.importance_weighted, value * L.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(got.divergence, value**2 * L.var(axis=0), rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("parts", [2, 3])
def test_a_constant_ratio_is_recognised_after_merging(parts):
    L = np.random.default_rng(0).gamma(2.0, 1.0, (30, 1))
    pieces = [RiskMoments.of(np.full(len(piece), 0.1), piece) for piece in np.array_split(L, parts)]
    got = risk_terms(reduce(RiskMoments.merge, pieces))
    assert got.outcome == "constant-ratio"
    np.testing.assert_array_equal(got.control_variate, got.importance_weighted)


def test_two_constant_parts_that_differ_are_not_constant_together():
    parts = [RiskMoments.of(np.full(3, value), np.ones((3, 1))) for value in (0.5, 2.0)]
    assert risk_terms(parts[0].merge(parts[1])).outcome == "ok"


@pytest.mark.parametrize("n", [1, 5])
def test_a_zero_ratio_says_nothing(n):
    L = np.random.default_rng(n).gamma(2.0, 1.0, (n, 2))
    got = risk_terms(RiskMoments.of(np.zeros(n), L))
    assert got.outcome == "zero-ratio"
    for name in ("importance_weighted", "eta", "control_variate", "divergence"):
        assert getattr(got, name).tolist() == [0.0, 0.0], name


def test_one_row_has_no_spread():
    got = risk_terms(RiskMoments.of(np.array([2.0]), np.array([[3.0, 0.0]])))
    assert got.outcome == "constant-ratio"
    assert got.control_variate.tolist() == [6.0, 0.0]
    assert got.divergence.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("n", [2, 10, 1000])
def test_a_constant_loss_is_recovered_exactly_and_has_zero_divergence(n):
    # rL = c r, so that η = −c and every term is c, whatever the ratio's mean
    r, _ = sample(n, 1)
    got = risk_terms(RiskMoments.of(5.0 * r, np.full((n, 1), 0.7)))
    assert got.control_variate[0] == pytest.approx(0.7, rel=1e-12)
    assert got.eta[0] == pytest.approx(-0.7, rel=1e-12)
    assert got.divergence.tolist() == [0.0]


def test_a_small_divergence_is_not_taken_for_rounding():
    # losses 1 ± 1e-5: Div is about 1e-10 of Var(rL), far above rounding
    r, noise = sample(50, 1, seed=7)
    L = 1.0 + 1e-5 * noise
    got = risk_terms(RiskMoments.of(r, L))
    assert got.divergence[0] > 0.0
    assert got.divergence[0] == pytest.approx(slow_terms(r, L[:, 0])["divergence"], rel=1e-4)


def test_zero_divergence_is_told_per_candidate():
    r, L = sample(12, 2)
    L[:, 1] = 2.0
    got = risk_terms(RiskMoments.of(r, L))
    assert (got.divergence == 0.0).tolist() == [False, True]


def test_adding_a_constant_to_the_losses_moves_the_estimate_by_it():
    # η becomes η − c, hence f_CV + c and the same Div: f_IW has no such property.
    r, L = sample(40, 1, seed=5)
    before, after = (risk_terms(RiskMoments.of(r, L + c)) for c in (0.0, 3.0))
    assert after.control_variate[0] == pytest.approx(before.control_variate[0] + 3.0, rel=1e-12)
    assert after.eta[0] == pytest.approx(before.eta[0] - 3.0, rel=1e-12)
    assert after.divergence[0] == pytest.approx(before.divergence[0], rel=1e-9)


def test_candidates_do_not_influence_each_other():
    r, L = sample(30, 4, seed=6)
    together = risk_terms(RiskMoments.of(r, L))
    for c in range(4):
        alone = risk_terms(RiskMoments.of(r, L[:, [c]]))
        assert alone.divergence[0] == pytest.approx(together.divergence[c], rel=1e-12)
        assert alone.control_variate[0] == pytest.approx(together.control_variate[c], rel=1e-12)

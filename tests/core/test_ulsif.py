"""uLSIF: leave-one-out against brute force, two Gaussians against the closed form."""

import math

import numpy as np
import pytest

from fedcsa.core import ulsif
from fedcsa.core.ulsif import (
    BANDWIDTH_MULTIPLES,
    REGULARIZATIONS,
    SCORE_ROWS,
    ULSIF,
    gaussian,
    leave_one_out_scores,
    ratio_coefficients,
    squared_distances,
)
from fedcsa.errors import DataError, ParameterError

PLANTED = 123456.789


def kernel(X, centres, sigma):
    """The Gaussian basis, one cell at a time."""
    return np.array(
        [
            [
                math.exp(
                    -math.fsum((a - b) ** 2 for a, b in zip(x, c, strict=True)) / (2 * sigma**2)
                )
                for c in centres
            ]
            for x in X
        ]
    )


def refit(phi_source, phi_target, lam, alpha, clip):
    """Least squares from its definition: sums of outer products over the rows given."""
    k = phi_source.shape[1]
    H, h = np.zeros((k, k)), np.zeros(k)
    for phi in phi_source:
        H += (1 - alpha) * np.outer(phi, phi) / len(phi_source)
    for psi in phi_target:
        H += alpha * np.outer(psi, psi) / len(phi_target)
        h += psi / len(phi_target)
    a = np.linalg.solve(H + lam * np.eye(k), h)
    return np.maximum(a, 0.0) if clip else a


def brute_force_score(phi_source, phi_target, lam, alpha, clip):
    """Refit without row i of either side, and judge at that pair; the clip is inside."""
    n, total = min(len(phi_source), len(phi_target)), 0.0
    for i in range(n):
        a = refit(
            np.delete(phi_source, i, axis=0), np.delete(phi_target, i, axis=0), lam, alpha, clip
        )
        at_source, at_target = max(0.0, phi_source[i] @ a), max(0.0, phi_target[i] @ a)
        total += 0.5 * (1 - alpha) * at_source**2 + 0.5 * alpha * at_target**2 - at_target
    return total / n


def two_samples(n_source, n_target, d, seed=0):
    rng = np.random.default_rng([seed, n_source, n_target, d])
    return rng.normal(0.0, 1.0, (n_source, d)), rng.normal(0.4, 0.8, (n_target, d))


# --- leave-one-out -----------------------------------------------------------------------------


@pytest.mark.parametrize(("n_source", "n_target"), [(13, 8), (8, 13)])
@pytest.mark.parametrize("d", [1, 2, 10])
@pytest.mark.parametrize("nonnegative", ["coefficients", "ratio"])
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_leave_one_out_scores_equal_brute_force(n_source, n_target, d, nonnegative, alpha):
    source, target = two_samples(n_source, n_target, d)
    fitted = ULSIF(
        bandwidths=[0.5, 1.5, 4.0],
        regularizations=[1e-3, 0.1, 1.0],
        nonnegative=nonnegative,
        alpha=alpha,
        random_state=0,
    ).fit(source, target)
    assert fitted.cv_scores_.shape == (3, 3)
    for s, sigma in enumerate(fitted.bandwidths_):
        phi_source = kernel(source, fitted.centres_, sigma)
        phi_target = kernel(target, fitted.centres_, sigma)
        for k, lam in enumerate(fitted.regularizations_):
            expected = brute_force_score(
                phi_source, phi_target, lam, alpha, nonnegative == "coefficients"
            )
            # A score may reach 3e4, where doubles cannot agree in eight digits behind the point.
            assert fitted.cv_scores_[s, k] == pytest.approx(expected, rel=1e-11, abs=1e-8)


@pytest.mark.parametrize(("n_source", "n_target"), [(9, 9), (2, 5), (5, 2), (2, 2)])
@pytest.mark.parametrize("nonnegative", ["coefficients", "ratio"])
def test_leave_one_out_scores_equal_brute_force_on_the_default_grids(
    n_source, n_target, nonnegative
):
    source, target = two_samples(n_source, n_target, 2, seed=1)
    fitted = ULSIF(nonnegative=nonnegative, n_centres=4, random_state=1).fit(source, target)
    assert fitted.cv_scores_.shape == (9, 9)
    expected = [
        [
            brute_force_score(
                kernel(source, fitted.centres_, sigma),
                kernel(target, fitted.centres_, sigma),
                lam,
                0.0,
                nonnegative == "coefficients",
            )
            for lam in fitted.regularizations_
        ]
        for sigma in fitted.bandwidths_
    ]
    # two rows a side give scores of 1e5, hence relative there
    np.testing.assert_allclose(fitted.cv_scores_, expected, rtol=1e-8, atol=1e-8)


def test_the_clip_inside_the_score_matters_in_the_cases_above():
    # otherwise the two modes would be the same test twice
    source, target = two_samples(13, 8, 2)
    phi_source, phi_target = kernel(source, target, 1.5), kernel(target, target, 1.5)
    modes = [
        leave_one_out_scores(phi_source, phi_target, np.array([1e-3]), clip_coefficients=clip)[0]
        for clip in (True, False)
    ]
    assert abs(modes[0] - modes[1]) > 1e-3


# --- the fit -----------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("nonnegative", ["coefficients", "ratio"])
@pytest.mark.parametrize("d", [1, 3])
def test_coefficients_and_predictions_equal_the_definition(alpha, nonnegative, d):
    source, target = two_samples(20, 11, d, seed=2)
    fitted = ULSIF(nonnegative=nonnegative, alpha=alpha, n_centres=6, random_state=3)
    fitted.fit(source, target)
    sigma, lam, centres = fitted.bandwidth_, fitted.regularization_, fitted.centres_
    a = refit(
        kernel(source, centres, sigma),
        kernel(target, centres, sigma),
        lam,
        alpha,
        nonnegative == "coefficients",
    )
    np.testing.assert_allclose(fitted.coefficients_, a, rtol=1e-8, atol=1e-9)
    fresh = np.random.default_rng(9).normal(size=(15, d)) * 3.0
    expected = [max(0.0, float(phi @ a)) for phi in kernel(fresh, centres, sigma)]
    np.testing.assert_allclose(fitted.predict(fresh), expected, rtol=1e-7, atol=1e-9)


def test_ratio_coefficients_solve_the_least_squares_problem():
    # α minimises ½ mean_S (φ'α)² − mean_T φ'α + ½ λ|α|²: no direction goes down
    rng = np.random.default_rng(0)
    phi_source, phi_target = rng.random((30, 4)), rng.random((12, 4))
    a = ratio_coefficients(phi_source, phi_target, 0.2, clip_coefficients=False)

    def objective(b):
        return 0.5 * np.mean((phi_source @ b) ** 2) - np.mean(phi_target @ b) + 0.1 * b @ b

    assert all(objective(a) < objective(a + 1e-3 * step) for step in rng.normal(size=(50, 4)))


def test_predictions_are_never_negative():
    for nonnegative in ("coefficients", "ratio"):
        source, target = two_samples(40, 25, 2, seed=5)
        fitted = ULSIF(nonnegative=nonnegative, random_state=0).fit(source, target)
        grid = np.random.default_rng(0).normal(0, 4, (500, 2))
        assert (fitted.predict(grid) >= 0.0).all()


def test_the_pair_with_the_smallest_score_is_chosen():
    fitted = ULSIF(random_state=0).fit(*two_samples(30, 20, 2, seed=6))
    s, k = np.argwhere(fitted.cv_scores_ == fitted.cv_scores_.min())[0]
    assert fitted.bandwidth_ == fitted.bandwidths_[s]
    assert fitted.regularization_ == fitted.regularizations_[k]


def test_centres_are_distinct_rows_of_the_target():
    source, target = two_samples(30, 20, 2)
    fitted = ULSIF(n_centres=7, random_state=0).fit(source, target)
    rows = [target.tolist().index(centre) for centre in fitted.centres_.tolist()]
    assert len(set(rows)) == 7


@pytest.mark.parametrize("n_centres", [20, 21, 100])
def test_all_target_rows_are_centres_when_there_are_few(n_centres):
    source, target = two_samples(30, 20, 2)
    fitted = ULSIF(n_centres=n_centres, random_state=0).fit(source, target)
    assert sorted(fitted.centres_.tolist()) == sorted(target.tolist())


def test_there_are_a_hundred_centres_unless_told():
    assert ULSIF(random_state=0).fit(*two_samples(30, 120, 1)).centres_.shape == (100, 1)


def test_the_pure_functions_are_the_plain_clipped_ratio_unless_told():
    source, target = two_samples(13, 8, 2)
    phi_source, phi_target = kernel(source, target, 1.5), kernel(target, target, 1.5)
    expected = refit(phi_source, phi_target, 1e-3, alpha=0.0, clip=True)
    assert (expected == 0.0).any()  # the clip binds
    np.testing.assert_allclose(
        ratio_coefficients(phi_source, phi_target, 1e-3), expected, rtol=1e-8, atol=1e-9
    )
    [score] = leave_one_out_scores(phi_source, phi_target, np.array([1e-3]))
    assert score == pytest.approx(brute_force_score(phi_source, phi_target, 1e-3, 0.0, True))


def test_one_centre_is_enough():
    fitted = ULSIF(n_centres=1, random_state=0).fit(*two_samples(10, 6, 1))
    assert fitted.coefficients_.shape == (1,)


def test_a_seed_and_a_generator_of_that_seed_agree_and_repeat():
    source, target = two_samples(30, 40, 1)
    fits = [
        ULSIF(n_centres=5, random_state=state).fit(source, target)
        for state in (3, 3, np.random.default_rng(3), 4)
    ]
    np.testing.assert_array_equal(fits[0].coefficients_, fits[1].coefficients_)
    np.testing.assert_array_equal(fits[0].centres_, fits[2].centres_)
    assert fits[0].centres_.tolist() != fits[3].centres_.tolist()


def test_fitting_again_forgets_the_first_fit():
    first, second = two_samples(20, 10, 2), two_samples(15, 12, 1)
    fitted = ULSIF(random_state=0).fit(*first).fit(*second)
    np.testing.assert_array_equal(
        fitted.coefficients_, ULSIF(random_state=0).fit(*second).coefficients_
    )
    assert fitted.predict([[0.0]]).shape == (1,)


# --- grids -------------------------------------------------------------------------------------


def brute_force_median(source, target, centres):
    """Median distance between centres and all rows, a row at the centre itself left out."""
    distances = [math.dist(x, c) for x in np.vstack([source, target]) for c in centres]
    return float(np.median([distance for distance in distances if distance > 0.0]))


@pytest.mark.parametrize("d", [1, 2, 10])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_default_bandwidths_are_multiples_of_the_median_distance(d, offset):
    source, target = (rows + offset for rows in two_samples(12, 9, d, seed=7))
    fitted = ULSIF(random_state=0).fit(source, target)
    median = brute_force_median(source, target, fitted.centres_)
    np.testing.assert_allclose(fitted.bandwidths_, median * BANDWIDTH_MULTIPLES, rtol=1e-9)
    np.testing.assert_array_equal(fitted.regularizations_, REGULARIZATIONS)


@pytest.mark.parametrize("seed", range(4))
def test_repeated_rows_do_not_shrink_the_default_bandwidths(seed):
    # three rare yes/no columns, standardised: most pairs of rows are the same row
    rng = np.random.default_rng(seed)
    source, target = (1.0 * (rng.random((n, 3)) < [0.05, 0.1, 0.05]) for n in (150, 100))
    mean, sd = target.mean(axis=0), target.std(axis=0)
    source, target = (source - mean) / sd, (target - mean) / sd
    fitted = ULSIF(random_state=0).fit(source, target)
    median = brute_force_median(source, target, fitted.centres_)
    np.testing.assert_allclose(fitted.bandwidths_, median * BANDWIDTH_MULTIPLES, rtol=1e-9)


@pytest.mark.parametrize("d", [1, 2, 10])
def test_rows_that_are_all_the_same_give_a_ratio_near_one(d):
    # H = h = 1 for every bandwidth, so that r = D/(D + λ) with D equal centres
    fitted = ULSIF(random_state=0).fit(np.full((8, d), 0.1), np.full((6, d), 0.1))
    np.testing.assert_array_equal(fitted.bandwidths_, BANDWIDTH_MULTIPLES)
    expected = 6 / (6 + fitted.regularization_)
    np.testing.assert_allclose(fitted.predict(np.full((1, d), 0.1)), expected, rtol=1e-9)


def test_the_multiples_run_from_a_quarter_to_four():
    np.testing.assert_allclose(BANDWIDTH_MULTIPLES[[0, 4, 8]], [0.25, 1.0, 4.0])
    assert len(BANDWIDTH_MULTIPLES) == len(REGULARIZATIONS) == 9
    np.testing.assert_allclose(REGULARIZATIONS[[0, -1]], [1e-3, 10.0])


def test_the_order_of_a_grid_does_not_matter():
    source, target = two_samples(20, 15, 1)
    up, down = (
        ULSIF(bandwidths=b, regularizations=r, random_state=0).fit(source, target)
        for b, r in (([0.5, 1.0, 2.0], [0.01, 0.1, 1.0]), ([2.0, 0.5, 1.0], [1.0, 0.01, 0.1]))
    )
    np.testing.assert_array_equal(up.cv_scores_, down.cv_scores_)
    np.testing.assert_array_equal(up.coefficients_, down.coefficients_)


def test_a_choice_at_the_edge_of_a_grid_is_a_finding():
    source, target = two_samples(60, 50, 1)
    inner = ULSIF(random_state=0).fit(source, target)
    sigma, lam = inner.bandwidth_, inner.regularization_
    for bandwidths, edges in (
        ([sigma, 50 * sigma, 99 * sigma], ["bandwidth"]),
        ([sigma / 99, sigma / 50, sigma], ["bandwidth"]),
        ([sigma, 50 * sigma], ["bandwidth"]),
        ([sigma / 50, sigma, 50 * sigma], []),
        ([sigma], []),
    ):
        got = ULSIF(bandwidths=bandwidths, regularizations=[lam], random_state=0)
        got.fit(source, target)
        assert got.bandwidth_ == pytest.approx(sigma)
        assert [finding.code for finding in got.findings_] == ["grid-edge"] * len(edges)
        assert [finding.evidence["parameter"] for finding in got.findings_] == edges
        assert [finding.evidence["value"] for finding in got.findings_] == [
            pytest.approx(sigma) for _ in edges
        ]


def test_a_regularization_at_the_edge_of_its_grid_is_a_finding():
    source, target = two_samples(60, 50, 1)
    got = ULSIF(bandwidths=[1.0], regularizations=[10.0, 20.0], random_state=0).fit(source, target)
    [finding] = got.findings_
    assert dict(finding.evidence) == {"parameter": "regularization", "value": 10.0}


# --- two Gaussians -----------------------------------------------------------------------------

MEAN, SD = 0.7, 0.7  # of the target, in every coordinate; the source is N(0, I)


def true_ratio(X):
    """N(x; MEAN, SD²)/N(x; 0, 1), a product over coordinates."""
    log_ratio = 0.5 * X**2 - 0.5 * ((X - MEAN) / SD) ** 2 - math.log(SD)
    return np.exp(log_ratio.sum(axis=1))


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("n_source", "n_target"), [(900, 300), (300, 900)])
@pytest.mark.parametrize(
    ("d", "nonnegative"), [(1, "coefficients"), (2, "coefficients"), (1, "ratio"), (2, "ratio")]
)
def test_the_ratio_of_two_gaussians_is_recovered_and_not_its_inverse(
    d, nonnegative, n_source, n_target, seed
):
    rng = np.random.default_rng([seed, d])
    source = rng.normal(size=(n_source, d))
    target = rng.normal(MEAN, SD, (n_target, d))
    fresh = rng.normal(size=(2000, d))
    truth = true_ratio(fresh)
    got = ULSIF(nonnegative=nonnegative, random_state=seed).fit(source, target).predict(fresh)
    assert np.corrcoef(got, truth)[0, 1] > 0.9
    error = np.mean((got - truth) ** 2)
    assert error < 0.25 * np.mean((1.0 - truth) ** 2)
    assert error < np.mean((got - 1.0 / truth) ** 2)
    # E_S[r] = 1 and E_T[r] = E_S[r²] > 1, which the inverse would turn round
    assert abs(got.mean() - 1.0) < 0.2
    assert got @ truth / truth.sum() > 1.0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_relative_ratio_is_near_its_closed_form_and_its_bound(seed):
    # target N(1.5, 1) against N(0, 1): the plain ratio is unbounded, the relative one is not
    alpha = 0.3
    rng = np.random.default_rng(seed)
    source, target = rng.normal(size=(800, 1)), rng.normal(1.5, 1.0, (500, 1))
    grid = np.linspace(-3.0, 4.0, 200)[:, None]
    plain_truth = np.exp(1.5 * grid[:, 0] - 0.5 * 1.5**2)
    truth = plain_truth / (alpha * plain_truth + 1 - alpha)
    assert truth.max() < 1 / alpha < plain_truth.max()
    got = ULSIF(alpha=alpha, random_state=seed).fit(source, target).predict(grid)
    mixture = np.exp(-0.5 * grid[:, 0] ** 2) * (
        alpha * plain_truth + 1 - alpha
    )  # its norm's density
    weights = mixture / mixture.sum()
    assert weights @ (got - truth) ** 2 < 0.05 * (weights @ (1.0 - truth) ** 2)
    assert got.max() < 1.25 / alpha


def test_a_relative_ratio_is_not_a_plain_ratio():
    source, target = two_samples(200, 150, 1)
    plain, relative = (
        ULSIF(alpha=alpha, random_state=0).fit(source, target).predict(source)
        for alpha in (0.0, 0.5)
    )
    assert relative.max() < 2.0 * 1.25  # bound 1/alpha
    assert relative.std() < plain.std()


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("nonnegative", ["coefficients", "ratio"])
def test_a_target_like_the_source_gives_a_ratio_about_one(d, nonnegative, seed):
    X = np.random.default_rng(seed).normal(size=(500, d))
    got = ULSIF(nonnegative=nonnegative, random_state=seed).fit(X, X).predict(X)
    assert abs(got.mean() - 1.0) < 0.1
    assert np.sqrt(np.mean((got - 1.0) ** 2)) < 0.2


# --- what must not matter ----------------------------------------------------------------------


@pytest.mark.parametrize(("scale", "shift"), [(2.0, 0.0), (1e-3, 0.0), (3.7, -20.0), (1e3, 1e6)])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_shifting_and_scaling_all_data_leaves_the_ratio_unchanged(scale, shift, d):
    source, target = two_samples(40, 25, d, seed=8)
    original = ULSIF(random_state=0).fit(source, target)
    moved = ULSIF(random_state=0).fit(scale * source + shift, scale * target + shift)
    assert moved.bandwidth_ == pytest.approx(scale * original.bandwidth_, rel=1e-7)
    assert moved.regularization_ == original.regularization_
    np.testing.assert_allclose(
        moved.predict(scale * source + shift), original.predict(source), rtol=1e-6, atol=1e-8
    )


def test_rotating_all_data_leaves_the_ratio_unchanged():
    source, target = two_samples(40, 25, 3, seed=9)
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))
    original = ULSIF(random_state=0).fit(source, target).predict(source)
    turned = ULSIF(random_state=0).fit(source @ turn, target @ turn).predict(source @ turn)
    np.testing.assert_allclose(turned, original, rtol=1e-7, atol=1e-9)


def test_duplicating_every_row_leaves_the_coefficients_unchanged():
    source, target = two_samples(20, 12, 2)
    phi_source, phi_target = kernel(source, target, 1.0), kernel(target, target, 1.0)
    for alpha in (0.0, 0.3):
        once = ratio_coefficients(phi_source, phi_target, 0.1, alpha=alpha)
        twice = ratio_coefficients(
            np.repeat(phi_source, 2, axis=0), np.repeat(phi_target, 2, axis=0), 0.1, alpha=alpha
        )
        np.testing.assert_allclose(twice, once, rtol=1e-10, atol=1e-12)


def test_fit_and_predict_leave_their_arguments_alone():
    source, target = two_samples(12, 9, 2)
    copies = source.copy(), target.copy()
    ULSIF(random_state=0).fit(source, target).predict(source)
    np.testing.assert_array_equal(source, copies[0])
    np.testing.assert_array_equal(target, copies[1])


# --- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"nonnegative": "alpha"}, r"one of \['coefficients', 'ratio'\]. Got 'alpha'"),
        ({"alpha": -0.1}, r"'alpha' .* at least 0 and below 1\. Got -0\.1"),
        ({"alpha": 1.0}, r"'alpha' .* at least 0 and below 1\. Got 1\.0"),
        ({"alpha": math.nan}, r"'alpha' .* at least 0 and below 1\. Got nan"),
        ({"n_centres": 0}, r"'n_centres' .* whole number of at least 1\. Got 0"),
        ({"n_centres": 2.5}, r"'n_centres' .* whole number of at least 1\. Got 2\.5"),
        ({"bandwidths": []}, r"'bandwidths' .* non-empty sequence of positive numbers"),
        ({"bandwidths": [1.0, 0.0]}, r"'bandwidths' .* non-empty sequence of positive numbers"),
        ({"regularizations": []}, r"'regularizations' .* non-empty sequence of positive"),
        ({"regularizations": [0.1, -1.0]}, r"'regularizations' .* non-empty sequence of positive"),
    ],
)
def test_parameters_outside_their_range_are_refused(parameters, text):
    with pytest.raises(ParameterError, match=text):
        ULSIF(**parameters).fit(*two_samples(8, 6, 1))


@pytest.mark.parametrize("name", ["bandwidths", "regularizations"])
@pytest.mark.parametrize(
    ("grid", "text"),
    [
        ([1.0, math.nan], "must be finite"),
        (["wide"], "must hold numbers"),
        ([[1.0, 2.0], [3.0, 4.0]], "must be one column"),
        ([[1.0, 2.0], [3.0]], "must hold numbers"),
    ],
)
def test_grids_that_are_not_numbers_are_refused(name, grid, text):
    with pytest.raises(DataError, match=f"{name} {text}"):
        ULSIF(**{name: grid}).fit(*two_samples(8, 6, 1))


def test_a_number_of_centres_that_is_a_float_is_refused():
    with pytest.raises(ParameterError, match=r"'n_centres'.*whole number"):
        ULSIF(n_centres=3.0).fit(*two_samples(8, 6, 1))


def test_a_number_of_centres_that_is_not_a_number_is_refused():
    with pytest.raises(ParameterError, match="'n_centres'"):
        ULSIF(n_centres=math.nan).fit(*two_samples(8, 6, 1))


def test_each_side_needs_two_rows():
    many, one = np.full((5, 2), PLANTED), np.full((1, 2), PLANTED)
    for name, source, target in (("X_source", one, many), ("X_target", many, one)):
        with pytest.raises(
            DataError, match=rf"{name} must have at least 2 rows .* has 1"
        ) as caught:
            ULSIF().fit(source, target)
        assert "123456" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        (np.ones((5, 2)), np.ones((5, 3)), r"X_target must have 2 column\(s\) .* it has 3"),
        (np.ones(5), np.ones((5, 1)), "X_source must be a matrix"),
        ([[PLANTED], [math.nan]], [[1.0], [2.0]], "X_source must be finite, but 1 of its 2"),
        ([[1.0], [2.0]], [[PLANTED], [math.inf]], "X_target must be finite, but 1 of its 2"),
        ([[PLANTED], ["high"]], [[1.0], [2.0]], "X_source must hold numbers"),
    ],
)
def test_unusable_rows_are_refused_without_a_value(source, target, text):
    with pytest.raises(DataError, match=text) as caught:
        ULSIF().fit(source, target)
    assert "123456" not in str(caught.value)


def test_a_ratio_predicts_only_after_it_was_fitted():
    with pytest.raises(ParameterError, match=r"'ratio' .* fitted before it predicts.*Got ULSIF\("):
        ULSIF().predict([[0.0]])


def test_a_ratio_predicts_only_rows_with_its_columns():
    fitted = ULSIF(random_state=0).fit(*two_samples(8, 6, 2))
    with pytest.raises(DataError, match=r"X must have 2 column\(s\).*; it has 1") as caught:
        fitted.predict([[PLANTED]])
    assert "123456" not in str(caught.value)


def test_the_repr_names_parameters_and_no_data():
    fitted = ULSIF(n_centres=5, alpha=0.3, random_state=0)
    fitted.fit(np.full((4, 1), PLANTED), np.full((4, 1), PLANTED))
    assert repr(fitted) == "ULSIF(n_centres=5, nonnegative='coefficients', alpha=0.3)"


# --- distances and kernel ---------------------------------------------------------------------


def slow_squared_distances(X, C):
    return np.array(
        [[math.fsum((a - b) ** 2 for a, b in zip(x, c, strict=True)) for c in C] for x in X]
    )


@pytest.mark.parametrize("offset", [0.0, 1e3, -1e6, 1e6])
@pytest.mark.parametrize(("n", "k", "d"), [(7, 5, 1), (5, 7, 2), (6, 1, 10), (1, 1, 1), (1, 4, 3)])
def test_squared_distances_equal_a_loop_wherever_the_data_lie(n, k, d, offset):
    rng = np.random.default_rng(n + 10 * d)
    X, C = offset + rng.normal(size=(n, d)), offset + rng.normal(size=(k, d))
    got = squared_distances(X, C)
    assert got.shape == (n, k)
    np.testing.assert_allclose(got, slow_squared_distances(X, C), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("d", [1, 2, 10])
def test_squared_distances_are_never_negative(d):
    X = np.random.default_rng(d).normal(size=(200, d)) + 1e6
    distances = squared_distances(X, X)
    assert (distances >= 0.0).all()
    assert np.diag(distances).max() < 1e-12


def test_squared_distances_leave_their_arguments_alone():
    X, C = np.array([[1.0], [2.0]]), np.array([[4.0]])
    squared_distances(X, C)
    assert X.tolist() == [[1.0], [2.0]]
    assert C.tolist() == [[4.0]]


@pytest.mark.parametrize("bandwidth", [0.1, 1.0, 7.5])
def test_gaussian_equals_its_formula(bandwidth):
    distances = np.array([[0.0, 1.0, 2.5], [4.0, 0.01, 900.0]])
    expected = [[math.exp(-q / (2 * bandwidth**2)) for q in row] for row in distances]
    np.testing.assert_allclose(gaussian(distances, bandwidth), expected, rtol=1e-12)


# --- leaving out some rows instead of all ----------------------------------------------------

GRID = np.array([1e-3, 0.1, 1.0])


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
    monkeypatch.setattr(ulsif, "BLOCK_ROWS", 7)
    np.testing.assert_allclose(leave_one_out_scores(phi, psi, GRID, alpha=0.2), whole, rtol=1e-12)


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

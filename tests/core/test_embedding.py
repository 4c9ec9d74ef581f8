"""The mean embedding and the ratio built from it, against loops written from GUARD.md."""

import math

import numpy as np
import pytest

from fedcsa.core.embedding import (
    REGULARIZATIONS,
    RELEASE_SHARE,
    EmbeddingRatio,
    FoldGrams,
    MeanEmbedding,
    embedding_coefficients,
    embedding_scores,
    spectra,
)
from fedcsa.core.folds import split_evenly
from fedcsa.errors import DataError, ParameterError

PLANTED = 123456.789
KINDS = ["bumps", "fourier"]


def two_samples(n_source, n_target, d, seed=0):
    rng = np.random.default_rng([seed, n_source, n_target, d])
    return rng.normal(0.0, 1.0, (n_source, d)), rng.normal(0.4, 0.8, (n_target, d))


def slow_features(X, mean, sd, kind, seed, n_features, sigma):
    """ψ(x) row by row: bumps exp(−|z − c|²/2σ²)/√D, or cos and sin of ωᵀz over √(D/2)."""
    d = X.shape[1]
    draws = np.random.default_rng(seed).standard_normal(
        (n_features, d) if kind == "bumps" else (d, n_features // 2)
    )
    rows = []
    for x in X:
        z = (x - mean) / sd
        if kind == "bumps":
            row = [math.exp(-sum((z - c) ** 2) / (2 * sigma**2)) for c in draws]
            rows.append(np.array(row) / math.sqrt(n_features))
        else:
            angles = [sum(z * column) / sigma for column in draws.T]
            row = [math.cos(a) for a in angles] + [math.sin(a) for a in angles]
            rows.append(np.array(row) / math.sqrt(n_features // 2))
    return np.array(rows)


# --- the embedding -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "d"), [(2, 1), (30, 1), (25, 2), (40, 10)])
def test_the_announced_numbers_equal_loops(kind, n, d):
    _, X = two_samples(3, n, d)
    got = MeanEmbedding.of(X, kind=kind, seed=5)
    mean = np.array([math.fsum(X[:, k]) / n for k in range(d)])
    sd = np.array([math.sqrt(math.fsum((X[:, k] - mean[k]) ** 2) / n) for k in range(d)])
    np.testing.assert_allclose(got.basis.mean, mean, rtol=1e-13)
    np.testing.assert_allclose(got.basis.sd, sd, rtol=1e-13)
    sigma = (0.7 if kind == "bumps" else math.sqrt(2.0)) * math.sqrt(d)
    assert got.basis.bandwidth == pytest.approx(sigma, rel=1e-14)
    assert (got.basis.kind, got.basis.seed, got.n_rows) == (kind, 5, n)
    psi = slow_features(X, mean, sd, kind, 5, got.basis.n_features, sigma)
    h = [math.fsum(column) / n for column in psi.T]
    trace = sum(
        math.fsum((column - centre) ** 2) / (n - 1) for column, centre in zip(psi.T, h, strict=True)
    )
    np.testing.assert_allclose(got.mean_features, h, rtol=1e-10, atol=1e-14)
    assert got.trace == pytest.approx(trace, rel=1e-10)


SIZES = [(n, d) for n in (2, 12, 36, 60, 61, 62, 300, 1000) for d in (1, 2, 3, 10)]


@pytest.mark.parametrize(("n", "d"), SIZES)
def test_the_number_of_features_is_the_largest_that_a_third_of_the_cells_allows(n, d):
    got = MeanEmbedding.of(np.random.default_rng(0).normal(size=(n, d)))
    D = got.basis.n_features
    assert 10 <= D <= 100
    assert got.mean_features.shape == (D,)
    assert D == 100 or 3 * (got.n_released + 1) > n * d  # one more would be too many


@pytest.mark.parametrize(("n", "d"), SIZES)
def test_a_default_embedding_keeps_its_budget_unless_the_floor_of_features_binds(n, d):
    got = MeanEmbedding.of(np.random.default_rng(0).normal(size=(n, d)))
    if got.basis.n_features > 10:
        assert 3 * got.n_released <= n * d
        assert got.release_share <= 1 / 3


@pytest.mark.parametrize(("n", "d", "n_features"), [(50, 2, 20), (7, 3, 10), (90, 1, 27)])
def test_released_numbers_are_counted(n, d, n_features):
    X = np.random.default_rng(0).normal(size=(n, d))
    got = MeanEmbedding.of(X, n_features=n_features)
    # means, sds, features and their trace; that there are n_T rows says nothing about them
    sent = [*got.basis.mean, *got.basis.sd, *got.mean_features, got.trace]
    assert got.n_released == len(sent)
    assert got.release_share == pytest.approx(len(sent) / (n * d), rel=1e-15)


@pytest.mark.parametrize(
    ("asked", "got_bumps", "got_fourier"), [(2, 2, 2), (3, 3, 2), (15, 15, 14)]
)
def test_fourier_features_come_in_pairs(asked, got_bumps, got_fourier):
    X = np.random.default_rng(0).normal(size=(9, 2))
    for kind, expected in (("bumps", got_bumps), ("fourier", got_fourier)):
        got = MeanEmbedding.of(X, kind=kind, n_features=asked)
        assert got.basis.n_features == expected
        assert got.mean_features.shape == (expected,)


def test_the_share_that_may_be_released_is_a_third():
    assert pytest.approx(1 / 3, rel=1e-15) == RELEASE_SHARE


def test_a_bandwidth_is_used_as_given():
    X = np.random.default_rng(0).normal(size=(9, 2))
    got = MeanEmbedding.of(X, bandwidth=1.3, n_features=4)
    assert got.basis.bandwidth == 1.3
    psi = slow_features(X, X.mean(axis=0), X.std(axis=0), "bumps", 0, 4, 1.3)
    np.testing.assert_allclose(got.mean_features, psi.mean(axis=0), rtol=1e-11)


@pytest.mark.parametrize(
    ("own", "public", "expected"),
    [(1.0, 1.0, 1.0), (0.1, 1.0, 0.2), (0.1, 5.0, 1.0), (3.0, 5.0, 3.0)],
)
def test_the_sd_is_floored_at_a_fifth_of_the_public_one(own, public, expected):
    X = np.column_stack([own * np.tile([-1.0, 1.0], 10), np.tile([-2.0, 2.0], 10)])
    got = MeanEmbedding.of(X, public_sd=[public, 1.0])
    np.testing.assert_allclose(got.basis.sd, [expected, 2.0], rtol=1e-14)


def test_near_copies_of_one_patient_do_not_point_the_kernel_at_that_patient():
    patient = np.array([[3.0, -1.0]])
    target = patient + 1e-6 * np.random.default_rng(0).normal(size=(40, 2))
    other = patient + 0.05
    narrow, floored = MeanEmbedding.of(target), MeanEmbedding.of(target, public_sd=[1.0, 1.0])
    assert (narrow.basis(other) == 0.0).all()  # nobody but the patient is seen
    np.testing.assert_array_equal(floored.basis.sd, [0.2, 0.2])
    # a bump changes by e^(−½)/σ√D a unit of z at most, and the other is ¼ away in both columns
    distance = 0.25 * math.sqrt(2.0) + 1e-4
    gap = np.linalg.norm(floored.basis(other)[0] - floored.mean_features)
    assert gap <= distance * math.exp(-0.5) / floored.basis.bandwidth


@pytest.mark.parametrize("value", [0.0, 7.0, 0.1, 1e6 + 0.1])
@pytest.mark.parametrize("n", [7, 40])
def test_a_constant_column_is_left_in_its_own_units(value, n):
    X = np.column_stack([np.full(n, value), np.arange(float(n))])
    got = MeanEmbedding.of(X)
    assert got.basis.sd[0] == 1.0
    assert np.isfinite(got.mean_features).all()


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3])
def test_a_constant_column_gets_the_floor_of_its_public_sd(value):
    got = MeanEmbedding.of(np.full((10, 1), value), public_sd=[2.0])
    np.testing.assert_allclose(got.basis.sd, [0.4], rtol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_shifting_and_scaling_the_columns_leaves_the_mean_features_unchanged(kind):
    _, X = two_samples(3, 30, 2)
    once = MeanEmbedding.of(X, kind=kind)
    moved = MeanEmbedding.of(X * [3.0, 0.1] + [50.0, -7.0], kind=kind)
    np.testing.assert_allclose(moved.mean_features, once.mean_features, rtol=1e-10, atol=1e-13)
    assert moved.trace == pytest.approx(once.trace, rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_replacing_one_row_moves_the_mean_features_by_the_stated_sensitivity_at_most(kind):
    # features of norm ≤ 1: bumps are positive, so √2/n_T; Fourier pairs 2/n_T (PRIVACY.md)
    basis = MeanEmbedding.of(np.random.default_rng(0).normal(size=(20, 2)), kind=kind).basis
    psi = basis(np.random.default_rng(1).normal(0.0, 5.0, (400, 2)))
    gaps = psi[:200] - psi[200:]
    bound = math.sqrt(2.0) if kind == "bumps" else 2.0
    assert np.sqrt((gaps**2).sum(axis=1)).max() <= bound


def test_the_announced_arrays_are_read_only_and_the_features_not_in_the_repr():
    got = MeanEmbedding.of(np.random.default_rng(0).normal(size=(12, 2)))
    for array in (got.mean_features, got.basis.mean, got.basis.sd):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    assert "mean_features" not in repr(got)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kind": "wavelets"}, r"'kind' .* one of \['bumps', 'fourier'\]\. Got 'wavelets'"),
        ({"n_features": 1}, r"'n_features' .* whole number of at least 2\. Got 1"),
        ({"n_features": 4.5}, r"'n_features' .* whole number of at least 2\. Got 4\.5"),
        ({"bandwidth": 0.0}, r"'bandwidth' .* positive number\. Got 0\.0"),
        ({"bandwidth": -1.0}, r"'bandwidth' .* positive number\. Got -1\.0"),
        ({"bandwidth": math.nan}, r"'bandwidth' .* positive number\. Got nan"),
        ({"bandwidth": math.inf}, r"'bandwidth' .* positive number\. Got inf"),
        (
            {"public_sd": [1.0, 0.0]},
            r"'public_sd' .* positive in every column\. Got 'a value of zero",
        ),
        ({"public_sd": [1.0, -2.0]}, r"'public_sd' .* positive in every column"),
    ],
)
def test_options_outside_their_range_are_refused(options, text):
    with pytest.raises(ParameterError, match=text):
        MeanEmbedding.of(np.random.default_rng(0).normal(size=(9, 2)), **options)


def test_a_number_of_features_that_is_a_float_is_refused():
    X = np.random.default_rng(0).normal(size=(9, 2))
    with pytest.raises(ParameterError, match=r"'n_features'.*whole number"):
        MeanEmbedding.of(X, n_features=4.0)


@pytest.mark.parametrize(
    ("X", "options", "text"),
    [
        ([[PLANTED, 1.0]], {}, "X_target must have at least 2 rows .* it has 1"),
        ([[PLANTED], [math.nan]], {}, "X_target must be finite, but 1 of its 2"),
        ([[PLANTED], ["high"]], {}, "X_target must hold numbers"),
        ([PLANTED, 2.0], {}, "X_target must be a matrix"),
        (
            [[PLANTED], [1.0]],
            {"public_sd": [1.0, 1.0]},
            r"public_sd must have 1 row\(s\); it has 2",
        ),
        ([[PLANTED], [1.0]], {"public_sd": [math.nan]}, "public_sd must be finite"),
    ],
)
def test_unusable_target_rows_are_refused_without_a_value(X, options, text):
    with pytest.raises(DataError, match=text) as caught:
        MeanEmbedding.of(X, **options)
    assert "123456" not in str(caught.value)


# --- the ratio ---------------------------------------------------------------------------------


def slow_score(psi, embedding, folds, lam):
    """GUARD.md, step 1, with inverses and traces written out."""
    n, h, total = len(psi), embedding.mean_features, 0.0
    for fold in folds:
        inside = [i for i in range(n) if i not in set(fold.tolist())]
        H = sum(np.outer(psi[i], psi[i]) for i in inside) / len(inside)
        inverse = np.linalg.inv(H + lam * np.eye(len(h)))
        a = inverse @ h
        C = H / np.trace(H) * embedding.trace / embedding.n_rows
        held_out = sum(float(psi[i] @ a) ** 2 for i in fold) / len(fold)
        total += len(fold) / n * (0.5 * held_out - float(h @ a) + np.trace(inverse @ C))
    return total


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "d", "n_folds"), [(23, 1, 5), (17, 3, 2), (11, 10, 11), (2, 1, 2)])
def test_scores_equal_a_loop(kind, n, d, n_folds):
    source, target = two_samples(n, 30, d)
    embedding = MeanEmbedding.of(target, kind=kind, n_features=12)
    folds = split_evenly(n, n_folds, np.random.default_rng(1))
    psi = embedding.basis(source)
    grams = FoldGrams.of(psi, folds)
    got = embedding_scores(grams, embedding, spectra(grams), REGULARIZATIONS)
    expected = [slow_score(psi, embedding, folds, lam) for lam in REGULARIZATIONS]
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


def test_a_spectrum_rebuilds_the_matrix_of_the_rows_outside_its_fold():
    psi = np.random.default_rng(0).random((11, 4))
    folds = split_evenly(11, 3, np.random.default_rng(1))
    found = spectra(FoldGrams.of(psi, folds))
    for part, fold in zip(found, folds, strict=True):
        outside = [i for i in range(11) if i not in fold.tolist()]
        H = sum(np.outer(psi[i], psi[i]) for i in outside) / len(outside)
        rebuilt = part.vectors @ np.diag(part.eigenvalues) @ part.vectors.T
        np.testing.assert_allclose(rebuilt, H, rtol=1e-10, atol=1e-12)
        assert (part.eigenvalues >= 0.0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n_source", "n_target"), [(60, 25), (25, 60), (3, 40)])
def test_a_fit_equals_the_definition(kind, n_source, n_target):
    source, target = two_samples(n_source, n_target, 2, seed=1)
    embedding = MeanEmbedding.of(target, kind=kind)
    fitted = EmbeddingRatio(random_state=7).fit(source, embedding)
    psi, h = embedding.basis(source), embedding.mean_features
    folds = split_evenly(n_source, min(5, n_source), np.random.default_rng(7))
    scores = [slow_score(psi, embedding, folds, lam) for lam in REGULARIZATIONS]
    np.testing.assert_allclose(fitted.cv_scores_, scores, rtol=1e-8, atol=1e-8)
    lam = REGULARIZATIONS[int(np.argmin(scores))]
    assert fitted.regularization_ == lam
    H = sum(np.outer(row, row) for row in psi) / n_source
    a = np.linalg.inv(H + lam * np.eye(len(h))) @ h
    np.testing.assert_allclose(fitted.coefficients_, a, rtol=1e-7, atol=1e-8)
    assert fitted.target_mean_ == pytest.approx(float(h @ a), rel=1e-8)
    assert fitted.embedding_ is embedding
    fresh = np.random.default_rng(3).normal(0, 3, (30, 2))
    expected = [max(0.0, float(row @ a)) for row in embedding.basis(fresh)]
    np.testing.assert_allclose(fitted.predict(fresh), expected, rtol=1e-6, atol=1e-8)


def test_the_grid_is_that_of_the_guarded_rule():
    assert len(REGULARIZATIONS) == 10
    np.testing.assert_allclose(REGULARIZATIONS[[0, -1]], [1e-4, math.sqrt(10.0)])


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_never_negative(kind):
    source, target = two_samples(40, 30, 2)
    fitted = EmbeddingRatio(random_state=0).fit(source, MeanEmbedding.of(target, kind=kind))
    grid = np.random.default_rng(0).normal(0, 4, (500, 2))
    assert (fitted.predict(grid) >= 0.0).all()
    # the clip is needed: the linear form does go below zero
    assert (embedding_values(fitted, grid) < 0.0).any()


def embedding_values(fitted, X):
    return fitted.embedding_.basis(X) @ fitted.coefficients_


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("times", [2, 3])
def test_duplicating_every_row_leaves_the_coefficients_unchanged(kind, times):
    source, target = two_samples(20, 15, 2)
    once, more = (
        EmbeddingRatio(regularizations=[0.01], random_state=0).fit(
            np.repeat(source, k, axis=0),
            MeanEmbedding.of(np.repeat(target, k, axis=0), kind=kind, n_features=12),
        )
        for k in (1, times)
    )
    np.testing.assert_allclose(more.coefficients_, once.coefficients_, rtol=1e-8, atol=1e-10)


def test_the_order_of_the_rows_does_not_change_the_coefficients_at_one_regularization():
    source, target = two_samples(20, 15, 2)
    embedding = MeanEmbedding.of(target)
    psi = embedding.basis(source)
    np.testing.assert_allclose(
        embedding_coefficients(psi[::-1], embedding, 0.1),
        embedding_coefficients(psi, embedding, 0.1),
        rtol=1e-10,
    )


def test_shifting_and_scaling_both_sides_leaves_the_ratio_unchanged():
    source, target = two_samples(60, 40, 2)
    once = EmbeddingRatio(random_state=0).fit(source, MeanEmbedding.of(target))
    scale, shift = np.array([1e3, 0.02]), np.array([-5e3, 1.0])
    moved = EmbeddingRatio(random_state=0).fit(
        scale * source + shift, MeanEmbedding.of(scale * target + shift)
    )
    np.testing.assert_allclose(
        moved.predict(scale * source + shift), once.predict(source), rtol=1e-6, atol=1e-9
    )


def test_a_seed_and_a_generator_of_that_seed_agree():
    source, target = two_samples(33, 20, 1)
    embedding = MeanEmbedding.of(target)
    one, two, other = (
        EmbeddingRatio(random_state=state).fit(source, embedding).cv_scores_
        for state in (3, np.random.default_rng(3), 4)
    )
    np.testing.assert_array_equal(one, two)
    assert one.tolist() != other.tolist()


def test_two_rows_and_two_folds_are_enough():
    source, target = two_samples(2, 20, 1)
    embedding = MeanEmbedding.of(target)
    fitted = EmbeddingRatio(n_folds=2, random_state=0).fit(source, embedding)
    psi, folds = embedding.basis(source), [np.array([0]), np.array([1])]
    expected = [slow_score(psi, embedding, folds, lam) for lam in REGULARIZATIONS]
    np.testing.assert_allclose(fitted.cv_scores_, expected, rtol=1e-9)


def test_more_folds_than_rows_leave_one_row_out():
    source, target = two_samples(4, 20, 1)
    embedding = MeanEmbedding.of(target)
    many = EmbeddingRatio(n_folds=50, random_state=0).fit(source, embedding)
    folds = [np.array([i]) for i in range(4)]
    psi = embedding.basis(source)
    expected = [slow_score(psi, embedding, folds, lam) for lam in REGULARIZATIONS]
    np.testing.assert_allclose(many.cv_scores_, expected, rtol=1e-10)


# --- two Gaussians -----------------------------------------------------------------------------

MEAN, SD = 0.7, 0.7


def true_ratio(X):
    log_ratio = 0.5 * X**2 - 0.5 * ((X - MEAN) / SD) ** 2 - math.log(SD)
    return np.exp(log_ratio.sum(axis=1))


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("n_source", "n_target"), [(900, 300), (300, 900)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 2])
def test_the_ratio_of_two_gaussians_is_recovered_and_not_its_inverse(
    kind, d, n_source, n_target, seed
):
    rng = np.random.default_rng([seed, d])
    source, target = rng.normal(size=(n_source, d)), rng.normal(MEAN, SD, (n_target, d))
    fresh = rng.normal(size=(2000, d))
    truth = true_ratio(fresh)
    embedding = MeanEmbedding.of(target, kind=kind, seed=seed)
    fitted = EmbeddingRatio(random_state=seed).fit(source, embedding)
    got = fitted.predict(fresh)
    assert np.corrcoef(got, truth)[0, 1] > 0.9
    error = np.mean((got - truth) ** 2)
    assert error < 0.25 * np.mean((1.0 - truth) ** 2)
    assert error < np.mean((got - 1.0 / truth) ** 2)
    assert abs(got.mean() - 1.0) < 0.2
    # hᵀα estimates E_T[r] = E_S[r²] = Π 1/(SD √(2 − SD²)) exp(MEAN²/(2 − SD²))
    second_moment = (math.exp(MEAN**2 / (2 - SD**2)) / (SD * math.sqrt(2 - SD**2))) ** d
    assert fitted.target_mean_ == pytest.approx(second_moment, rel=0.25)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 2])
def test_a_target_like_the_source_gives_a_ratio_about_one(kind, d, seed):
    X = np.random.default_rng(seed).normal(size=(500, d))
    got = EmbeddingRatio(random_state=seed).fit(X, MeanEmbedding.of(X, kind=kind)).predict(X)
    assert abs(got.mean() - 1.0) < 0.1
    assert np.sqrt(np.mean((got - 1.0) ** 2)) < 0.2


def test_a_far_source_has_a_large_second_moment_seen_from_the_target():
    rng = np.random.default_rng(0)
    target = rng.normal(size=(200, 1))
    embedding = MeanEmbedding.of(target)
    near, far = (
        EmbeddingRatio(random_state=0).fit(rng.normal(shift, 1.0, (200, 1)), embedding).target_mean_
        for shift in (0.2, 3.0)
    )
    # E_S[r²] = exp(shift²) for equal sds: 1.04 and 8103
    assert near < 1.5 < far


# --- findings and refusals ---------------------------------------------------------------------


def test_a_choice_at_the_edge_of_the_grid_is_a_finding():
    source, target = two_samples(60, 40, 1)
    embedding = MeanEmbedding.of(target)
    best = EmbeddingRatio(random_state=0).fit(source, embedding).regularization_
    for grid, edge in (
        ([best, 100 * best, 1000 * best], True),
        ([best / 1000, best / 100, best], True),
        ([best, 100 * best], True),
        ([best / 100, best, 100 * best], False),
        ([best], False),
    ):
        fitted = EmbeddingRatio(regularizations=grid, random_state=0).fit(source, embedding)
        assert fitted.regularization_ == best
        assert [finding.code for finding in fitted.findings_] == ["grid-edge"] * edge
        for finding in fitted.findings_:
            assert dict(finding.evidence) == {"parameter": "regularization", "value": best}


def test_the_order_of_the_grid_does_not_change_the_findings():
    source, target = two_samples(60, 40, 1)
    embedding = MeanEmbedding.of(target)
    best = EmbeddingRatio(random_state=0).fit(source, embedding).regularization_
    for grid, edge in (
        ([100 * best, best, 1000 * best], True),  # the smallest value, written in the middle
        ([best, best / 100, 100 * best], False),  # the middle value, written first
    ):
        fitted = EmbeddingRatio(regularizations=grid, random_state=0).fit(source, embedding)
        assert fitted.regularization_ == best
        assert bool(fitted.findings_) == edge


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"regularizations": []}, r"'regularizations' .* non-empty sequence of positive numbers"),
        ({"regularizations": [0.1, 0.0]}, r"'regularizations' .* non-empty sequence of positive"),
        ({"regularizations": [-0.1]}, r"'regularizations' .* non-empty sequence of positive"),
        ({"n_folds": 1}, r"'n_folds' .* whole number of at least 2\. Got 1"),
        ({"n_folds": 2.5}, r"'n_folds' .* whole number of at least 2\. Got 2\.5"),
    ],
)
def test_parameters_outside_their_range_are_refused(options, text):
    source, target = two_samples(9, 9, 1)
    with pytest.raises(ParameterError, match=text):
        EmbeddingRatio(**options).fit(source, MeanEmbedding.of(target))


def test_a_grid_must_be_finite():
    source, target = two_samples(9, 9, 1)
    with pytest.raises(DataError, match="regularizations must be finite"):
        EmbeddingRatio(regularizations=[0.1, math.nan]).fit(source, MeanEmbedding.of(target))


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ([[PLANTED, 1.0]], "X_source must have at least 2 rows .* it has 1"),
        ([[PLANTED], [1.0]], r"X_source must have 2 column\(s\) .* it has 1"),
        ([[PLANTED, math.nan], [1.0, 2.0]], "X_source must be finite, but 1 of its 4"),
        ([[PLANTED, "high"], [1.0, 2.0]], "X_source must hold numbers"),
    ],
)
def test_unusable_source_rows_are_refused_without_a_value(source, text):
    embedding = MeanEmbedding.of(np.random.default_rng(0).normal(size=(9, 2)))
    with pytest.raises(DataError, match=text) as caught:
        EmbeddingRatio().fit(source, embedding)
    assert "123456" not in str(caught.value)


def test_a_ratio_predicts_only_after_it_was_fitted():
    with pytest.raises(ParameterError, match=r"'ratio' .* fitted before it predicts; call fit"):
        EmbeddingRatio().predict([[0.0]])


def test_a_ratio_predicts_only_rows_with_its_columns():
    source, target = two_samples(9, 9, 2)
    fitted = EmbeddingRatio(random_state=0).fit(source, MeanEmbedding.of(target))
    with pytest.raises(DataError, match=r"X must have 2 column\(s\).*; it has 3") as caught:
        fitted.predict([[PLANTED] * 3])
    assert "123456" not in str(caught.value)

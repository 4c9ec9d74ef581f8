"""The guarded rule at a source: what it says of a ratio, and what it can never say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedcsa.core.embedding import MeanEmbedding
from fedcsa.core.folds import split_evenly
from fedcsa.core.guard import (
    CrossFit,
    RatioFit,
    cross_fit_ratio,
    floored,
    guard_terms,
    kernel_imbalance,
    target_rows_worth,
)

FAST = settings(max_examples=60, deadline=None)


def setting(n=60, d=2, shift=0.5, n_target=50, seed=0):
    rng = np.random.default_rng(seed)
    target, source = rng.normal(shift, 1.0, (n_target, d)), rng.normal(0.0, 1.0, (n, d))
    embedding = MeanEmbedding.of(target, seed=4)
    folds = split_evenly(n, 5, rng)
    psi = embedding.basis(source)
    return embedding, psi, folds, cross_fit_ratio(psi, embedding, folds)


def weights_of(ratios):
    return ratios / ratios.sum()


# The cross-fitted ratio ---------------------------------------------------------------------


def test_every_row_is_judged_once_by_a_fit_of_all_the_others():
    _, psi, folds, fit = setting()
    held = np.concatenate(fit.folds)
    assert sorted(held.tolist()) == list(range(len(psi)))
    for fold, others, given_fold in zip(fit.folds, fit.others, folds, strict=True):
        assert fold.tolist() == given_fold.tolist()
        assert sorted([*others.tolist(), *fold.tolist()]) == list(range(len(psi)))


def test_a_rows_own_features_do_not_enter_the_fit_that_judges_it():
    embedding, psi, folds, fit = setting()
    row = int(folds[2][0])
    changed = psi.copy()
    changed[row] = 0.3
    again = cross_fit_ratio(changed, embedding, folds, np.array([fit.ratio.regularization])).ratio
    before, after = fit.ratio.coefficients, again.coefficients
    np.testing.assert_allclose(before[2], after[2], rtol=1e-9, atol=1e-11)
    assert not np.allclose(before[0], after[0])


def test_coefficients_solve_the_penalised_equations_of_the_other_rows():
    embedding, psi, _, fit = setting()
    for others, coefficients in zip(fit.others, fit.ratio.coefficients, strict=True):
        H = psi[others].T @ psi[others] / len(others)
        left = H @ coefficients + fit.ratio.regularization * coefficients
        np.testing.assert_allclose(left, embedding.mean_features, rtol=1e-8, atol=1e-12)


def test_a_ratio_is_never_negative_where_its_expansion_is():
    embedding, psi, _, fit = setting(shift=2.0)
    pairs = list(zip(fit.folds, fit.ratio.coefficients, strict=True))
    raw = np.concatenate([psi[rows] @ coefficients for rows, coefficients in pairs])
    assert (raw < 0.0).any()
    ratios = fit.held_out_ratios(psi)
    order = np.concatenate(fit.folds)
    assert (ratios[order] == np.where(raw > 0.0, raw, 0.0)).all()
    expected = np.mean([embedding.mean_features @ coefficients for _, coefficients in pairs])
    assert fit.ratio.target_mean(embedding) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("grid", "edge"), [([1e9], False), ([1e8, 1e9], True), ([1e-9, 1.0], True)]
)
def test_a_lone_regularisation_is_no_edge_of_its_grid(grid, edge):
    embedding, psi, folds, _ = setting()
    assert cross_fit_ratio(psi, embedding, folds, np.array(grid)).ratio.at_edge is edge


def test_a_known_ratio_is_found_up_to_sampling_error():
    # N(0, 1) to N(½, 1): r(x) = exp(x/2 − 1/8), and E_S[r²] = e^(1/4).
    rng = np.random.default_rng(1)
    source, target = rng.normal(0.0, 1.0, (2000, 1)), rng.normal(0.5, 1.0, (2000, 1))
    embedding = MeanEmbedding.of(target)
    psi = embedding.basis(source)
    fit = cross_fit_ratio(psi, embedding, split_evenly(2000, 5, rng))
    truth = np.exp(0.5 * source[:, 0] - 0.125)
    error = np.mean((fit.held_out_ratios(psi) - truth) ** 2) / np.mean(truth**2)
    of_a_constant = 1.0 - np.exp(-0.25)  # Var r / E r²: what r ≡ 1 would leave
    assert error < 0.25 * of_a_constant
    assert fit.ratio.target_mean(embedding) == pytest.approx(np.exp(0.25), rel=0.1)


# Training weights ---------------------------------------------------------------------------


@FAST
@given(hnp.arrays(float, st.integers(1, 20), elements=st.floats(0.0, 1e6)))
def test_no_training_ratio_is_below_a_thousandth_of_the_mean_and_none_is_lowered(ratios):
    lifted = floored(ratios)
    assert (lifted >= ratios).all()
    assert (lifted >= 1e-3 * ratios.mean()).all()
    assert (lifted > 0.0).all()
    above = ratios > 1e-3 * max(float(ratios.mean()), 1e-12)
    assert (lifted[above] == ratios[above]).all()


# The terms of a candidate -------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.1, 3.0))
def test_terms_obey_their_inequalities(seed, shift):
    rng = np.random.default_rng(seed)
    _, psi, _, fit = setting(n=int(rng.integers(10, 50)), shift=shift, seed=seed)
    ratios = fit.held_out_ratios(psi) + 1e-9
    w = weights_of(ratios)
    losses = rng.chisquare(1, (len(w), 3))
    terms = guard_terms(psi, losses, w, fit)
    effective = 1.0 / float(w @ w)
    assert (terms.risk >= losses.min(axis=0) - 1e-12).all()
    assert (terms.risk <= losses.max(axis=0) + 1e-12).all()
    assert (terms.spread >= 0.0).all()
    assert (terms.variance >= terms.spread / effective * (1 - 1e-12)).all()
    assert (terms.explained >= 0.0).all()
    assert (terms.explained <= terms.spread).all()


def test_a_loss_that_does_not_vary_has_no_spread_no_variance_and_nothing_explained():
    _, psi, _, fit = setting()
    w = weights_of(fit.held_out_ratios(psi))
    terms = guard_terms(psi, np.full((len(w), 2), 3.5), w, fit)
    np.testing.assert_allclose(terms.risk, 3.5, rtol=1e-14)
    for array in (terms.spread, terms.variance, terms.explained):
        np.testing.assert_allclose(array, 0.0, atol=1e-25)


def test_equal_weights_give_the_textbook_variance_of_a_mean():
    _, psi, _, fit = setting()
    n = len(psi)
    losses = np.random.default_rng(3).normal(size=(n, 1)) ** 2
    terms = guard_terms(psi, losses, np.full(n, 1.0 / n), fit)
    np.testing.assert_allclose(terms.variance, losses.var(axis=0, ddof=1) / n, rtol=1e-12)


def test_a_loss_that_x_determines_is_explained_and_pure_noise_is_not():
    rng = np.random.default_rng(5)
    _, psi, _, fit = setting(n=1500, n_target=400)
    direction = psi @ rng.normal(size=psi.shape[1])
    determined = 10.0 + 5.0 * (direction - direction.mean()) / direction.std()
    noise = 10.0 + 5.0 * rng.normal(size=len(psi))
    w = np.full(len(psi), 1.0 / len(psi))
    terms = guard_terms(psi, np.column_stack([determined, noise]), w, fit)
    share = terms.explained / terms.spread
    assert share[0] > 0.5
    assert share[1] < 0.05


def test_losses_are_explained_only_by_rows_of_other_folds():
    _, psi, folds, fit = setting()
    w = np.zeros(len(psi))
    w[folds[0]] = 1.0 / len(folds[0])
    losses = np.random.default_rng(0).normal(size=(len(psi), 1)) ** 2
    first = guard_terms(psi, losses, w, fit)
    # The judged fold's own losses reach "explained" only through their residuals: with the
    # others' losses constant nothing is expected but that constant.
    losses[np.setdiff1d(np.arange(len(psi)), folds[0])] = 0.0
    second = guard_terms(psi, losses, w, fit)
    assert second.risk == pytest.approx(first.risk)
    expected = max(0.0, float(second.spread[0] - w @ losses[:, 0] ** 2))
    assert second.explained[0] == pytest.approx(expected, abs=1e-12)


def test_one_row_with_all_the_weight_gives_finite_terms():
    _, psi, _, fit = setting()
    w = np.zeros(len(psi))
    w[7] = 1.0
    losses = np.random.default_rng(0).normal(size=(len(psi), 2)) ** 2
    terms = guard_terms(psi, losses, w, fit)
    np.testing.assert_allclose(terms.risk, losses[7], rtol=1e-14)
    for array in (terms.spread, terms.variance, terms.explained):
        assert np.isfinite(array).all()


# Imbalance ----------------------------------------------------------------------------------


def test_kernel_imbalance_is_the_distance_less_what_sampling_gives():
    embedding, psi, _, fit = setting(shift=2.5)
    w = weights_of(np.ones(len(psi)))
    distance = float(((w @ psi - embedding.mean_features) ** 2).sum())
    expected = distance / embedding.trace - 1.0 / len(psi) - 1.0 / embedding.n_rows
    assert expected > 0.0
    assert kernel_imbalance(psi, w, embedding) == pytest.approx(expected, rel=1e-12)
    near = weights_of(fit.held_out_ratios(psi))
    assert kernel_imbalance(psi, near, embedding) < expected


def test_kernel_imbalance_of_the_targets_own_rows_is_zero():
    target = np.random.default_rng(0).normal(size=(40, 2))
    embedding = MeanEmbedding.of(target)
    assert kernel_imbalance(embedding.basis(target), np.full(40, 1 / 40), embedding) == 0.0


def test_a_target_without_spread_has_no_kernel_imbalance():
    embedding = MeanEmbedding.of(np.ones((5, 2)))
    assert embedding.trace == 0.0
    psi = embedding.basis(np.zeros((4, 2)))
    assert kernel_imbalance(psi, np.full(4, 0.25), embedding) == 0.0


# Worth --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "kernel", "imbalance", "expected"),
    [
        (50.0, 0.0, 0.0, 50.0),
        (50.0, 0.2, 0.0, 1 / (0.02 + 0.04)),
        (50.0, 1.0, 0.0, 1 / (0.02 + 1.0)),
        (50.0, 7.0, 0.0, 1 / (0.02 + 1.0)),
        (50.0, 0.0, 2.0, 1 / (0.02 + 2.0)),
        (0.0, 0.0, 0.0, 0.0),
        (0.0, 0.5, 3.0, 0.0),
    ],
)
def test_worth_is_an_inverse_mean_squared_error(rows, kernel, imbalance, expected):
    worth = target_rows_worth(np.array([rows]), np.array([kernel]), np.array([imbalance]))
    assert worth[0] == pytest.approx(expected, rel=1e-14)


@FAST
@given(  # Kish's effective rows are at least 1, or 0 where the ratio vanishes
    hnp.arrays(float, 5, elements=st.one_of(st.just(0.0), st.floats(1.0, 1e9))),
    hnp.arrays(float, 5, elements=st.floats(0.0, 1e9)),
    hnp.arrays(float, 5, elements=st.floats(0.0, 1e9)),
)
def test_worth_is_finite_not_negative_and_never_above_the_effective_rows(rows, kernel, imbalance):
    worth = target_rows_worth(rows, kernel, imbalance)
    assert np.isfinite(worth).all()
    assert (worth >= 0.0).all()
    assert (worth <= rows * (1 + 1e-12)).all()


@FAST
@given(st.integers(0, 10**6))
def test_worth_falls_when_any_of_its_parts_gets_worse(seed):
    rng = np.random.default_rng(seed)
    rows, kernel, iota = rng.uniform(2, 100, 1), rng.uniform(0, 0.4, 1), rng.uniform(0, 2, 1)
    base = target_rows_worth(rows, kernel, iota)[0]
    assert target_rows_worth(rows / 2, kernel, iota)[0] < base
    assert target_rows_worth(rows, 2 * kernel + 0.1, iota)[0] < base
    assert target_rows_worth(rows, kernel, 2 * iota + 0.1)[0] < base


def test_a_vanishing_ratio_does_not_feign_worth():
    # What breaks FedDAE: a source 8 sd away has next to no ratio and next to no variance.
    near, far = setting(shift=0.3), setting(shift=8.0)
    worths = []
    for embedding, psi, _, fit in (near, far):
        ratios = fit.held_out_ratios(psi)
        w = weights_of(ratios) if ratios.any() else np.full(len(psi), 1.0 / len(psi))
        kernel = kernel_imbalance(psi, w, embedding)
        worths.append(
            target_rows_worth(np.array([1.0 / (w @ w)]), np.array([kernel]), np.zeros(1))[0]
        )
    assert worths[0] > 10.0 * worths[1]


def test_the_records_hold_what_they_say():
    _, psi, _, fit = setting()
    assert isinstance(fit, CrossFit)
    assert isinstance(fit.ratio, RatioFit)
    expected = np.maximum(psi @ fit.ratio.coefficients[0], 0.0)
    assert (fit.ratio.ratios(psi, 0) == expected).all()

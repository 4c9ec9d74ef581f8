"""An interval for a number and a set for a class, from what the sources told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

from fedcsa import FedCSA
from fedcsa.core.scores import distance_band
from fedcsa.errors import ModelError, ParameterError
from fedcsa.target.per_patient import (
    MOST_WIDER,
    PATIENT_LEVEL,
    IntervalCheck,
    Limits,
    check_of,
    coverage_by_distance,
)


def _site(rng, n, mean, *, classes, noise=1.0):
    X = rng.normal(mean, 1.0, (n, 3))
    y = X @ [1.0, 0.5, -0.5] + noise * rng.normal(size=n)
    return X, (y > 0.5).astype(int) if classes else y


def _fitted(classes, noises=(1.0, 1.0, 1.0, 1.0)):
    rng = np.random.default_rng(3)
    sources = {
        f"site-{k}": _site(rng, 200, 0.1 * k, classes=classes, noise=noise)
        for k, noise in enumerate(noises)
    }
    X, y = _site(rng, 800, 0.2, classes=classes)
    model = LogisticRegression() if classes else "ridge"
    candidates = None if classes else [0.0]
    loss = "brier" if classes else "squared"
    found = FedCSA(model, candidates=candidates, loss=loss, random_state=0).fit(sources, X[:200])
    return found, X[200:], y[200:]


@pytest.fixture(scope="module")
def numbers():
    return _fitted(classes=False)


@pytest.fixture(scope="module")
def classes():
    return _fitted(classes=True)


def test_intervals_lie_around_predictions_and_hold_for_as_many_as_asked(numbers):
    fedcsa, X, y = numbers
    lower, upper = fedcsa.predict_interval(X).T
    np.testing.assert_allclose((lower + upper) / 2.0, fedcsa.predict(X))
    half = fedcsa.adaptation_.patient_limits.values
    table = fedcsa.adaptation_.table
    np.testing.assert_allclose(
        upper - lower, 2.0 * half[distance_band((X - table.mean) / table.sd)]
    )
    inside = (lower <= y) & (y <= upper)
    assert 0.86 < inside.mean() < 0.95
    assert fedcsa.adaptation_.coverage(X, fedcsa.predict(X), y).mean() == pytest.approx(
        inside.mean()
    )


def test_half_widths_are_shown_for_numbers_with_enough_rows_only(numbers, classes):
    adaptation = numbers[0].adaptation_
    assert adaptation.half_widths == tuple(adaptation.patient_limits.values)
    assert classes[0].adaptation_.half_widths == ()
    assert replace(adaptation, examinations={}).half_widths == ()
    few = replace(adaptation)
    few.__dict__["patient_limits"] = Limits(0.9, np.full(4, np.inf), classes=False)
    assert few.half_widths == ()


def test_half_widths_are_those_of_the_intervals_after_outcomes_too(numbers):
    fedcsa, X, _ = numbers
    wide = replace(fedcsa.adaptation_, intervals=(IntervalCheck(None, 10, 2, True, np.log(3.0)),))
    half = np.diff(wide.predict_interval(X), axis=1)[:, 0] / 2.0
    np.testing.assert_allclose(
        half, np.array(wide.half_widths)[distance_band(wide.standardised(X))]
    )
    np.testing.assert_allclose(wide.half_widths, 3.0 * wide.patient_limits.values)


def test_a_higher_level_is_wider(numbers):
    fedcsa, X, _ = numbers
    widths = [np.diff(fedcsa.predict_interval(X, level)).mean() for level in (0.5, 0.8, 0.9, 0.95)]
    assert widths == sorted(widths)


def test_intervals_are_wider_where_sites_differ_in_noise(numbers):
    fedcsa, *_ = numbers
    apart, *_ = _fitted(classes=False, noises=(0.4, 1.0, 1.0, 2.5))
    assert (
        apart.adaptation_.patient_limits.values > 1.1 * fedcsa.adaptation_.patient_limits.values
    ).all()


def test_sets_hold_for_as_many_of_every_class_as_asked(classes):
    fedcsa, X, y = classes
    found = fedcsa.predict_set(X)
    assert found.any(axis=1).all()
    np.testing.assert_array_equal(found[np.arange(len(y)), fedcsa.predict(X)], True)
    for c in (0, 1):
        assert 0.84 < found[y == c, c].mean() < 0.97
    assert fedcsa.predict_set(X, 0.99).sum() > found.sum() > fedcsa.predict_set(X, 0.6).sum()


def test_a_probability_of_0_or_1_has_a_set():
    limits = Limits(0.9, np.array([0.5, 2.0]), classes=True)
    found = limits.sets(np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]))
    np.testing.assert_array_equal(found, [[False, True], [True, False], [True, True]])
    everything = Limits(0.9, np.full(2, np.inf), classes=True)
    assert everything.sets(np.array([[0.0, 1.0]])).all()


def test_numbers_have_no_sets_and_classes_no_intervals(numbers, classes):
    assert not hasattr(numbers[0], "predict_set")
    assert not hasattr(classes[0], "predict_interval")
    with pytest.raises(ModelError, match="Call predict_interval instead"):
        numbers[0].adaptation_.predict_set(numbers[1])
    with pytest.raises(ModelError, match="Call predict_set instead"):
        classes[0].adaptation_.predict_interval(classes[1])


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, 90.0, float("nan"), "0.9", None, [0.9]])
def test_a_level_must_lie_between_0_and_1(numbers, level):
    with pytest.raises(ParameterError, match="'level' parameter must be between 0 and 1"):
        numbers[0].predict_interval(numbers[1], level)


def test_without_an_examination_there_is_no_interval(numbers):
    fedcsa, X, y = numbers
    adaptation = fedcsa.adaptation_
    for nobody in (
        replace(adaptation, examinations={}),
        replace(
            adaptation,
            examinations={
                name: replace(report, residuals=np.empty((0, 0)))
                for name, report in adaptation.examinations.items()
            },
        ),
    ):
        assert nobody.patient_limits is None
        assert len(nobody.coverage(X, nobody.output(X), y)) == 0
        with pytest.raises(ModelError, match="no interval per patient"):
            nobody.predict_interval(X)


def test_a_source_that_does_not_reach_the_target_does_not_count(numbers):
    adaptation = numbers[0].adaptation_
    far = replace(adaptation.reports["site-0"], difference_after=np.full(3, 2.0))
    without = replace(adaptation, reports={**adaptation.reports, "site-0": far})
    rest = {n: e for n, e in adaptation.examinations.items() if n != "site-0"}
    np.testing.assert_array_equal(
        without.patient_limits.values, replace(without, examinations=rest).patient_limits.values
    )
    assert (without.patient_limits.values != adaptation.patient_limits.values).all()


def test_coverage_is_by_quarter_of_the_rows_from_near_to_far():
    z = np.array([[4.0], [1.0], [-3.0], [-2.0], [0.5], [5.0], [6.0], [-7.0]])
    inside = np.abs(z[:, 0]) < 4.5
    np.testing.assert_array_equal(coverage_by_distance(inside, z), [1.0, 1.0, 0.5, 0.0])
    assert len(coverage_by_distance(inside[:3], z[:3])) == 0


def test_the_default_level_is_nine_in_ten(numbers):
    fedcsa, X, _ = numbers
    assert PATIENT_LEVEL == 0.9
    np.testing.assert_array_equal(fedcsa.predict_interval(X), fedcsa.predict_interval(X, 0.9))


# Held against outcomes -----------------------------------------------------------------------


@pytest.mark.parametrize("n_rows", [1, 2, 5, 10, 25, 60])
def test_outcomes_contradict_as_an_exact_binomial_says(n_rows):
    for inside in range(n_rows + 1):
        beyond = np.where(np.arange(n_rows) < inside, 0.0, 1.0)
        found = check_of(None, beyond, np.ones(n_rows), 0.9, 0.01, widen=False)
        assert found.contradicted == (binom.cdf(inside, n_rows, 0.9) < 0.01)
        assert (found.n_rows, found.inside, found.wider) == (n_rows, inside, 0.0)


def rounded_up(wider):
    """The same, its factor rounded up to two digits."""
    step = 10.0 ** (np.floor(np.log10(np.exp(wider))) - 1.0)
    return pytest.approx(np.log(np.ceil(np.exp(wider) / step) * step), rel=1e-12)


@pytest.mark.parametrize(("n_rows", "rank"), [(8, 8), (9, 9), (10, 10), (25, 24), (60, 55)])
def test_limits_grow_to_the_split_conformal_rank_of_the_outcomes(n_rows, rank):
    beyond = np.random.default_rng(0).permutation(np.arange(1.0, n_rows + 1.0)) / 10.0
    found = check_of("ill", beyond, np.full(n_rows, 3.0), 0.9, 0.01, widen=True)
    assert found == IntervalCheck("ill", n_rows, 0, True, found.wider)
    assert found.wider == rounded_up(rank / 10.0)


def test_rows_of_more_weight_count_for_more_in_how_far_limits_grow():
    beyond, weights = np.arange(1.0, 31.0) / 10.0, np.ones(30)
    assert check_of(None, beyond, weights, 0.8, 0.01, widen=True).wider == rounded_up(2.5)
    weights[:10] = 2.0
    assert check_of(None, beyond, weights, 0.8, 0.01, widen=True).wider == rounded_up(2.4)


def test_how_far_limits_grow_is_no_single_outcome():
    for exact in np.random.default_rng(0).uniform(1e-12, 6.0, 200):
        wider = check_of(None, np.full(20, exact), np.ones(20), 0.9, 0.01, widen=True).wider
        assert wider == rounded_up(exact)
        assert wider > exact
        assert float(f"{np.exp(wider):.2g}") == pytest.approx(np.exp(wider), rel=1e-12)
    least, most = (
        check_of(None, np.full(20, x), np.ones(20), 0.9, 0.01, widen=True).wider
        for x in (np.finfo(float).eps, MOST_WIDER)
    )
    assert (np.exp(least), most) == (pytest.approx(1.1), MOST_WIDER)


def test_weighted_outcomes_count_as_effective_rows():
    # Ten rows outside; fifty inside have nine tenths, or half, of the weight.
    outside = np.arange(60) >= 50
    for share in (0.9, 0.8, 0.7, 0.6, 0.5):
        weights = np.where(outside, (1.0 - share) / 10.0, share / 50.0)
        effective = weights.sum() ** 2 / (weights**2).sum()
        counted = int(effective)
        missed = int(counted * (1.0 - share) + 1e-9)
        contradicted = bool(binom.sf(missed - 1, counted, 0.1) < 0.01)
        assert contradicted == (share < 0.8)
        for factor in (1.0, 7.0):
            found = check_of(None, 1.0 * outside, factor * weights, 0.9, 0.01, widen=True)
            assert (found.n_rows, found.inside, found.contradicted) == (60, 50, contradicted)
            assert (found.wider > 0.0) == contradicted


def test_a_few_heavy_rows_are_few_outcomes():
    # Of forty rows, four have nearly all the weight: three of them outside contradict nothing …
    beyond, weights = np.zeros(40), np.where(np.arange(40) < 4, 1.0, 1e-12)
    beyond[:3] = 0.5, 0.6, 0.7
    assert binom.sf(2, 4, 0.1) < 0.01 < binom.sf(1, 4, 0.1)
    assert not check_of(None, beyond * [0, *[1] * 39], weights, 0.9, 0.01, widen=True).contradicted
    found = check_of(None, beyond, weights, 0.9, 0.01, widen=True)
    assert (found.n_rows, found.inside, found.contradicted) == (40, 37, True)
    # … and tell nothing of nine in ten: limits hold the farthest row of all.
    beyond[20] = 2.0
    assert check_of(None, beyond, weights, 0.9, 0.01, widen=True).wider == rounded_up(2.0)


def test_rows_without_weight_are_no_outcomes():
    none = check_of(None, np.ones(5), np.zeros(5), 0.9, 0.01, widen=True)
    assert none == IntervalCheck(None, 5, 0, False, 0.0)
    assert check_of("a", np.empty(0), np.empty(0), 0.9, 0.01, widen=True).n_rows == 0


@pytest.mark.parametrize("n_rows", [3, 9, 10, 49, 60])
def test_equal_weights_count_every_row(n_rows):
    for outside in range(n_rows + 1):
        beyond = np.where(np.arange(n_rows) < outside, 1.0, 0.0)
        plain, shares = (
            check_of(None, beyond, np.full(n_rows, w), 0.9, 0.01, widen=True)
            for w in (1.0, 1.0 / n_rows)
        )
        assert plain == shares
        assert plain.contradicted == (binom.sf(outside - 1, n_rows, 0.1) < 0.01)


def test_limits_that_outcomes_do_not_contradict_stay_as_they_are():
    beyond = np.where(np.arange(25) < 19, 0.0, 5.0)
    found = check_of(None, beyond, np.ones(25), 0.9, 0.01, widen=True)
    assert found == IntervalCheck(None, 25, 19, False, 0.0)
    limits = Limits(0.9, np.ones(4), classes=False)
    assert limits.widened([found]) is limits
    assert limits.widened([]) is limits


def test_half_widths_grow_by_a_factor_and_limits_of_classes_by_log_odds():
    half = Limits(0.9, np.array([1.0, 2.0, 3.0, np.inf]), classes=False)
    wide = half.widened([IntervalCheck(None, 10, 2, True, np.log(3.0))])
    np.testing.assert_allclose(wide.values, [3.0, 6.0, 9.0, np.inf])
    sets = Limits(0.9, np.array([0.5, 2.0, 9.0]), classes=True)
    told = [IntervalCheck(c, 10, 2, x > 0, x) for c, x in zip("abc", (0.25, 0.0, 1.0), strict=True)]
    np.testing.assert_allclose(sets.widened(told).values, [0.75, 2.0, np.inf])


def test_widened_limits_hold_the_outcomes_up_to_the_rank(numbers, classes):
    for fedcsa, X, y in (numbers, classes):
        adaptation, X = fedcsa.adaptation_, X[:100]
        y = 1 - y[:100] if adaptation.plan.classes else 4.0 * y[:100]
        limits, z = adaptation.patient_limits, adaptation.standardised(X)
        output = adaptation.output(X)
        far = limits.beyond(output, z, y)
        np.testing.assert_array_equal(far == 0.0, limits.holds(output, z, y))
        parts = [y == k for k in (0, 1)] if limits.classes else [np.isfinite(y)]
        told = [check_of("", far[p], np.ones(p.sum()), 0.9, 0.01, widen=True) for p in parts]
        assert all(check.contradicted for check in told)
        held = limits.widened(told).holds(output, z, y)
        for here in parts:
            assert held[here].sum() >= np.ceil(0.9 * (here.sum() + 1))


def test_an_impossible_outcome_puts_its_class_into_every_set():
    limits = Limits(0.9, np.array([0.5, 2.0]), classes=True)
    far = limits.beyond(np.array([[0.0, 1.0]] * 12), np.zeros((12, 1)), np.zeros(12))
    np.testing.assert_array_equal(far, MOST_WIDER)
    found = check_of("a", far, np.ones(12), 0.9, 0.01, widen=True)
    wide = limits.widened([found, IntervalCheck("b", 0, 0, False, 0.0)])
    np.testing.assert_array_equal(wide.values, [np.inf, 2.0])


@pytest.mark.parametrize(
    ("inside", "contradicted", "wider"),
    [
        (11, True, 0.5),
        (10, True, 0.5),
        (11, False, 0.0),
        (2, True, -0.1),
        (2, True, MOST_WIDER + 1),
        (2, True, np.nan),
        (9, False, 1),
    ],
)
def test_a_check_that_cannot_be_is_refused(inside, contradicted, wider):
    with pytest.raises(ValueError, match=r"^$"):
        IntervalCheck(None, 10, inside, contradicted, wider)

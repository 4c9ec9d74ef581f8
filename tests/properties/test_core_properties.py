"""What holds for any finite input, checked against exact rational arithmetic where it can be."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from fedcsa.core.folds import dealt_labels, fold_labels
from fedcsa.core.losses import (
    CLASSIFICATION,
    REGRESSION,
    RiskMoments,
    RiskTerms,
    risk_terms,
    row_losses,
)
from fedcsa.core.random_effects import new_site
from fedcsa.core.ridge import ridge_path
from fedcsa.core.table import Table1
from fedcsa.core.tilt import balanced, fit_tilt, target_equivalent_rows
from fedcsa.core.ulsif import ULSIF, squared_distances
from fedcsa.core.weights import (
    divergence_weights,
    estimate,
    model_weights,
    validated_estimate,
)

# The same examples on every run: a failure here is a failure everywhere.
thorough = settings(deadline=None, derandomize=True, max_examples=150)
quick = settings(deadline=None, derandomize=True, max_examples=30)

LARGEST = float(np.finfo(np.float64).max)
TINIEST = 5e-324

#: Non-negative numbers over the whole range of a float, the extremes on purpose.
any_size = st.one_of(
    st.sampled_from([0.0, TINIEST, 1e-300, 1e-16, 1.0, 1e16, 1e300, LARGEST]),
    st.floats(0.0, LARGEST, allow_subnormal=True),
)
#: Eighths: exact in binary, so that a sum has no excuse.
eighths = st.integers(0, 8000).map(lambda k: k / 8)
#: Ratios as they occur, zeros and near-zeros included.
ratio_values = st.one_of(
    st.sampled_from([0.0, TINIEST, 1e-300, 1e-160, 1e-8, 1.0]), st.floats(0.0, 1e6)
)


def terms_with(n_rows, control_variate, divergence):
    zero = np.zeros_like(divergence)
    return RiskTerms(
        n_rows=n_rows,
        importance_weighted=zero,
        eta=zero,
        control_variate=control_variate,
        divergence=divergence,
        plain=zero,
        outcome="ok",
        plain_variance=zero,
        importance_variance=zero,
    )


# --- weights -----------------------------------------------------------------------------------


@st.composite
def rows_and_divergences(draw):
    n_sources, n_candidates = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    n_rows = draw(st.lists(st.integers(1, 10**9), min_size=n_sources, max_size=n_sources))
    cells = st.lists(any_size, min_size=n_sources, max_size=n_sources)
    return n_rows, draw(st.lists(cells, min_size=n_candidates, max_size=n_candidates))


def exact_weights(n_rows, divergence):
    """Eq. (10) in rational numbers; its limit where some divergence is zero."""
    exact = [Fraction(value) for value in divergence]
    if 0 in exact:
        shares = [n if value == 0 else 0 for n, value in zip(n_rows, exact, strict=True)]
    else:
        shares = [n / value for n, value in zip(n_rows, exact, strict=True)]
    return [float(share / sum(map(Fraction, shares))) for share in shares]


@thorough
@given(rows_and_divergences())
@example(([1, 10**9], [[TINIEST, LARGEST], [LARGEST, TINIEST], [0.0, 0.0]]))
@example(([3, 5], [[1e-300, 1e300], [1e300, 1e300], [1e-300, 1e-300]]))
@example(([7], [[0.0], [TINIEST], [LARGEST]]))
def test_divergence_weights_are_those_of_exact_arithmetic(case):
    n_rows, divergence = case
    got = divergence_weights(np.array(n_rows, dtype=float), np.array(divergence))
    assert (got >= 0.0).all()
    np.testing.assert_allclose(got.sum(axis=1), 1.0, rtol=1e-12)
    expected = [exact_weights(n_rows, row) for row in divergence]
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-15)


@thorough
@given(
    case=rows_and_divergences(),
    method=st.sampled_from(["naive", "fediwe", "feddae", "fedle"]),
    given_weights=st.lists(st.floats(0.0, 1e300), min_size=6, max_size=6),
    level=st.floats(-1e300, 1e300),
)
def test_every_method_gives_weights_that_sum_to_one_and_a_finite_risk(
    case, method, given_weights, level
):
    n_rows, divergence = case
    per_source = np.array(divergence).T
    sources = [
        terms_with(n, np.full(len(row), level), row)
        for n, row in zip(n_rows, per_source, strict=True)
    ]
    given_weights[0] += 1e-300  # not all zero
    chosen = given_weights[: len(sources)] if method == "fedle" else None
    got = estimate(method, sources, chosen)
    assert (got.weights >= 0.0).all()
    np.testing.assert_allclose(got.weights.sum(axis=1), 1.0, rtol=1e-12)
    assert np.isfinite(got.risk).all()
    if method in ("feddae", "fedle"):  # an average of equal numbers is that number
        np.testing.assert_allclose(got.risk, level, rtol=1e-12)
    assert got.risk[got.chosen] == got.risk.min()


worths = st.lists(st.floats(1e-300, 1e15), min_size=1, max_size=6)


@thorough
@given(worths, st.integers(1, 4), st.integers(0, 100))
def test_validated_weights_sum_to_one_for_any_worth(worth, n_candidates, seed):
    rng = np.random.default_rng(seed)
    risks = rng.gamma(1.0, size=(n_candidates, len(worth)))
    powers = rng.choice([0.0, 0.5, 1.0], n_candidates)
    got = validated_estimate(risks, np.array(worth), powers, 0.1 * risks)
    assert (got.weights >= 0.0).all()
    np.testing.assert_allclose(got.weights.sum(axis=1), 1.0, rtol=1e-12)
    assert (got.risk >= risks.min(axis=1) * (1 - 1e-12)).all()
    assert (got.risk <= risks.max(axis=1) * (1 + 1e-12)).all()
    handicapped = got.risk + 0.5 * powers * got.standard_errors
    if sum(worth) >= 10.0:
        assert handicapped[got.chosen] == handicapped.min()


@thorough
@given(worths, npst.arrays(float, (5, 6), elements=st.floats(-1e9, 1e9)))
def test_model_weights_sum_to_one_whatever_the_models_say(worth, outputs):
    a = model_weights(np.array(worth), outputs[:, : len(worth)])
    assert (a >= 0.0).all()
    assert a.sum() == pytest.approx(1.0, rel=1e-12)


@quick
@given(rows_and_divergences(), st.integers(1, 1000))
def test_more_rows_or_less_divergence_never_lower_a_weight(case, factor):
    n_rows, divergence = case
    before = divergence_weights(np.array(n_rows, dtype=float), np.array(divergence))
    more = divergence_weights(
        np.array([n_rows[0] * factor, *n_rows[1:]], float), np.array(divergence)
    )
    less = divergence_weights(
        np.array(n_rows, float), np.array([[row[0] / factor, *row[1:]] for row in divergence])
    )
    assert (more[:, 0] >= before[:, 0] - 1e-12).all()
    assert (less[:, 0] >= before[:, 0] - 1e-12).all()


# --- moments -----------------------------------------------------------------------------------


@st.composite
def ratios_and_losses(draw, values=eighths, min_rows=1, max_rows=8, n_candidates=None):
    n = draw(st.integers(min_rows, max_rows))
    m = draw(st.integers(1, 3)) if n_candidates is None else n_candidates
    ratios = draw(st.lists(values, min_size=n, max_size=n))
    losses = draw(st.lists(st.lists(eighths, min_size=m, max_size=m), min_size=n, max_size=n))
    return np.array(ratios), np.array(losses)


def exact_moments(ratios, losses):
    """Every field of RiskMoments, in rational numbers."""
    n = len(ratios)
    r = [Fraction(value) for value in ratios.tolist()]

    def mean(values):
        return sum(values) / n

    def co(a, b):
        return sum((x - mean(a)) * (y - mean(b)) for x, y in zip(a, b, strict=True))

    columns = [[Fraction(value) for value in column] for column in losses.T.tolist()]
    products = [[x * y for x, y in zip(r, column, strict=True)] for column in columns]
    return {
        "n_rows": n,
        "ratio_mean": mean(r),
        "ratio_m2": co(r, r),
        "loss_mean": [mean(column) for column in columns],
        "loss_m2": [co(column, column) for column in columns],
        "product_mean": [mean(column) for column in products],
        "product_m2": [co(column, column) for column in products],
        "co_moment": [co(column, r) for column in products],
    }


def assert_moments_are(got, exact):
    for name, value in exact.items():
        expected = np.array(value, dtype=float)
        scale = np.abs(expected)
        if name == "co_moment":  # a signed sum: relative to what Cauchy-Schwarz allows
            spread = np.array(exact["product_m2"], dtype=float) * float(exact["ratio_m2"])
            scale = np.sqrt(spread)
        gap = np.abs(np.asarray(getattr(got, name), dtype=float) - expected)
        assert (gap <= 1e-9 * scale).all(), name


@thorough
@given(ratios_and_losses())
def test_moments_are_those_of_exact_arithmetic(case):
    assert_moments_are(RiskMoments.of(*case), exact_moments(*case))


@thorough
@given(ratios_and_losses(n_candidates=2), ratios_and_losses(n_candidates=2))
def test_merged_moments_are_those_of_the_rows_together(a, b):
    merged = RiskMoments.of(*a).merge(RiskMoments.of(*b))
    together = np.concatenate([a[0], b[0]]), np.vstack([a[1], b[1]])
    assert_moments_are(merged, exact_moments(*together))


@thorough
@given(*[ratios_and_losses(n_candidates=1) for _ in range(3)])
def test_merging_is_associative_and_commutative(a, b, c):
    x, y, z = (RiskMoments.of(*case) for case in (a, b, c))
    exact = exact_moments(
        np.concatenate([a[0], b[0], c[0]]), np.vstack([case[1] for case in (a, b, c)])
    )
    for merged in (
        x.merge(y).merge(z),
        x.merge(y.merge(z)),
        z.merge(x).merge(y),
    ):
        assert_moments_are(merged, exact)


# --- risk terms --------------------------------------------------------------------------------

NUMBERS = (
    "importance_weighted",
    "eta",
    "control_variate",
    "divergence",
    "plain",
)


@thorough
@given(ratios_and_losses(values=ratio_values))
@example((np.zeros(1), np.zeros((1, 1))))
@example((np.array([TINIEST]), np.array([[1000.0]])))
@example((np.array([0.0, TINIEST]), np.array([[1000.0], [0.125]])))
@example((np.array([0.0, 1e-162]), np.array([[1000.0], [0.125]])))
@example((np.array([1e6, 0.0]), np.array([[1000.0], [1000.0]])))
def test_no_term_is_ever_nan_or_infinite(case):
    got = risk_terms(RiskMoments.of(*case))
    for name in NUMBERS:
        assert np.isfinite(getattr(got, name)).all(), name
    assert (got.divergence >= 0.0).all()
    assert got.outcome in ("ok", "constant-ratio", "zero-ratio")


@thorough
@given(ratios_and_losses())
def test_terms_are_those_of_exact_arithmetic(case):
    exact, n = exact_moments(*case), len(case[0])
    got = risk_terms(RiskMoments.of(*case))
    mean, m2 = exact["ratio_mean"], exact["ratio_m2"]
    assert got.outcome == ("ok" if m2 else "constant-ratio" if mean else "zero-ratio")
    for k in range(case[1].shape[1]):
        product, co = exact["product_mean"][k], exact["co_moment"][k]
        eta = -co / m2 if m2 else Fraction(0)
        divergence = (exact["product_m2"][k] + 2 * eta * co + eta**2 * m2) / n
        largest = max(1.0, float(product), abs(float(eta)) * max(1.0, float(mean)))
        assert got.importance_weighted[k] == pytest.approx(float(product), rel=1e-12)
        assert got.eta[k] == pytest.approx(float(eta), rel=1e-9, abs=1e-9 * largest)
        f_cv = float(product + eta * (mean - 1))
        assert got.control_variate[k] == pytest.approx(f_cv, abs=1e-9 * largest)
        # a difference of two sums: exact relative to the larger one
        total = float(exact["product_m2"][k]) / n
        assert got.divergence[k] == pytest.approx(float(divergence), abs=1e-12 * total)
        assert got.divergence[k] <= total * (1 + 1e-12)


@thorough
@given(ratios_and_losses(), st.floats(1e-6, 1e6))
def test_a_constant_ratio_gives_the_importance_weighted_risk_exactly(case, value):
    _, losses = case
    got = risk_terms(RiskMoments.of(np.full(len(losses), value), losses))
    assert got.outcome == "constant-ratio"
    np.testing.assert_array_equal(got.control_variate, got.importance_weighted)
    np.testing.assert_array_equal(got.eta, 0.0)


@thorough
@given(ratios_and_losses())
def test_a_zero_ratio_is_named(case):
    _, losses = case
    got = risk_terms(RiskMoments.of(np.zeros(len(losses)), losses))
    assert got.outcome == "zero-ratio"
    for name in ("importance_weighted", "control_variate", "divergence", "eta"):
        np.testing.assert_array_equal(getattr(got, name), 0.0)


@thorough
@given(ratios_and_losses(n_candidates=1), st.integers(1, 5), st.randoms(use_true_random=False))
def test_repeating_and_reordering_rows_changes_no_term(case, times, random):
    ratios, losses = case
    order = list(range(len(ratios))) * times
    random.shuffle(order)
    before = risk_terms(RiskMoments.of(ratios, losses))
    after = risk_terms(RiskMoments.of(ratios[order], losses[order]))
    assert after.outcome == before.outcome
    scale = max(1.0, np.abs(before.eta).max()) * max(1.0, ratios.max()) * max(1.0, losses.max())
    for name in ("importance_weighted", "control_variate", "plain"):
        np.testing.assert_allclose(getattr(after, name), getattr(before, name), atol=1e-9 * scale)
    np.testing.assert_allclose(after.divergence, before.divergence, atol=1e-12 * scale**2)


# --- tables, tilts, new sites --------------------------------------------------------------------


@st.composite
def small_tables(draw):
    d = draw(st.integers(1, 3))
    # few distinct values, so that repeated rows and constant columns are ordinary
    values = st.sampled_from([0.0, 0.1, 1.0, -2.0, 1 / 3])
    tables = [
        draw(npst.arrays(float, (draw(st.integers(2, 8)), d), elements=values)) for _ in range(2)
    ]
    return tables[0], tables[1]


@thorough
@given(small_tables(), st.floats(-1e6, 1e6), st.sampled_from([1e-6, 1.0, 1e6]))
def test_any_two_small_tables_give_weights_that_meet_their_condition(tables, origin, unit):
    source, target = (unit * table + origin for table in tables)
    d = source.shape[1]
    table = Table1.of(target, [f"x{k}" for k in range(d)], [False] * d)
    z = (source - table.mean) / table.sd
    flags = np.zeros(d, dtype=bool)
    tilt = fit_tilt([z], flags)
    w = tilt.weights(z)
    assert w.sum() == pytest.approx(1.0, abs=1e-8)
    left = balanced(z, flags)[1:] @ w
    np.testing.assert_allclose(left, -2e-3 * tilt.coefficients, atol=1e-7)
    iota = np.array([np.mean((w @ z) ** 2)])
    [worth] = target_equivalent_rows(np.array([1.0 / (w @ w)]), iota)
    assert 0.0 <= worth <= len(z) * (1 + 1e-8)


@quick
@given(
    st.lists(st.tuples(st.floats(-20.0, 20.0), st.floats(1e-12, 1e6)), min_size=1, max_size=8),
    st.sampled_from([0.2, 0.4]),
    st.floats(0.0, 10.0),
)
def test_a_new_site_has_an_ordered_finite_interval_for_any_examinations(found, scale, extra):
    y, v = (np.array(column) for column in zip(*found, strict=True))
    site = new_site(y, v, scale, extra)
    low, high = site.interval(0.95)
    assert np.isfinite([low, high]).all()
    assert low <= site.quantile(0.5) <= high
    assert 0.0 <= site.between_sites <= 6.0 * scale
    for value in (site.below(0.0), site.differs_by_more(0.2)):
        assert -1e-12 <= value <= 1.0 + 1e-12


# --- folds -------------------------------------------------------------------------------------


@thorough
@given(st.integers(6, 300), st.integers(0, 2**32))
def test_thirds_differ_by_one_row_at_most(n, seed):
    sizes = np.bincount(dealt_labels(n, np.random.default_rng(seed)), minlength=3)
    assert sizes.sum() == n
    assert sizes.max() - sizes.min() <= 1


@thorough
@given(st.integers(60, 500), st.tuples(*[st.integers(1, 20)] * 3), st.integers(0, 2**32))
def test_three_parts_are_within_one_row_of_their_shares(n, parts, seed):
    shares = [part / sum(parts) for part in parts]
    assume(min(shares) * n >= 2)
    labels = dealt_labels(n, np.random.default_rng(seed), shares)
    sizes = np.bincount(labels, minlength=3)
    assert sizes.sum() == n
    assert (np.abs(sizes - np.array(shares) * n) < 1.0 + 1e-9).all()


@thorough
@given(st.integers(1, 400), st.integers(2, 20), st.integers(0, 2**63 - 1), st.data())
def test_a_row_keeps_its_fold_however_the_table_is_read(n, k, key, data):
    whole = fold_labels(0, n, k, key)
    start = data.draw(st.integers(0, n - 1))
    stop = data.draw(st.integers(start + 1, n))
    assert fold_labels(start, stop, k, key).tolist() == whole[start:stop].tolist()
    sizes = np.bincount(whole, minlength=k)
    assert sizes.max() - sizes.min() <= 1


# --- losses ------------------------------------------------------------------------------------


@quick
@given(
    npst.arrays(float, (6, 3), elements=st.floats(0.0, 1.0)),
    st.lists(st.integers(0, 2), min_size=6, max_size=6),
)
def test_classification_losses_are_finite_not_negative_and_zero_one_and_brier_at_most_one(raw, y):
    raw = raw + 1e-9
    p, y = raw / raw.sum(axis=1, keepdims=True), np.array(y, dtype=float)
    for name, loss in CLASSIFICATION.items():
        values = row_losses(loss, p, y)
        assert (values >= -1e-12).all(), name
        if name != "log":
            assert (values <= 1.0 + 1e-12).all(), name


@quick
@given(npst.arrays(float, 5, elements=st.floats(-1e6, 1e6)))
def test_regression_losses_are_zero_at_the_outcome_and_grow_with_the_error(y):
    for loss in REGRESSION.values():
        np.testing.assert_array_equal(loss(y, y), 0.0)
        np.testing.assert_array_equal(loss(y + 1.0, y), loss(y, y + 1.0))
        assert (loss(y + 2.0, y) > loss(y + 1.0, y)).all()


# --- distances, ratios, ridge ------------------------------------------------------------------

coordinates = st.floats(-1e3, 1e3).map(lambda value: round(value, 3))


@thorough
@given(
    npst.arrays(float, (4, 2), elements=coordinates),
    npst.arrays(float, (3, 2), elements=coordinates),
    st.sampled_from([0.0, 1e6, -1e6]),
)
def test_squared_distances_are_those_of_a_loop(X, C, offset):
    X, C = X + offset, C + offset
    expected = [[sum((a - b) ** 2 for a, b in zip(x, c, strict=True)) for c in C] for x in X]
    # the expansion cancels at most to the rounding of the data's own extent
    extent = 1.0 + float(np.max(np.abs(np.vstack([X, C]) - C.mean(axis=0)))) ** 2
    got = squared_distances(X, C)
    assert (got >= 0.0).all()
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-13 * extent)


@quick
@given(small_tables(), st.sampled_from(["coefficients", "ratio"]), st.sampled_from([0.0, 0.5]))
def test_ulsif_is_finite_and_not_negative_on_any_small_table(tables, nonnegative, alpha):
    source, target = tables
    fitted = ULSIF(nonnegative=nonnegative, alpha=alpha, random_state=0).fit(source, target)
    assert np.isfinite(fitted.cv_scores_).all()
    for rows in tables:
        ratios = fitted.predict(rows)
        assert np.isfinite(ratios).all()
        assert (ratios >= 0.0).all()


@thorough
@given(small_tables(), st.sampled_from([1e-6, 0.1, 10.0]), st.integers(0, 100))
def test_the_ridge_path_solves_its_normal_equations_on_any_small_table(tables, theta, seed):
    X, _ = tables
    y = np.random.default_rng(seed).normal(size=len(X))
    coefficients, intercepts = ridge_path(X, y, np.array([theta]))
    residual = y - intercepts[0] - X @ coefficients[:, 0]
    # the gradient of mean(residual²) + θ|b|² in the intercept and in b is zero
    assert abs(residual.mean()) < 1e-9
    np.testing.assert_allclose(X.T @ residual / len(X), theta * coefficients[:, 0], atol=1e-8)

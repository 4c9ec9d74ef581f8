"""FedIWE, FedDAE, FedLE and naive against loops written from (04), (09), (10)."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedcsa.core.losses import RiskMoments, RiskTerms, risk_terms
from fedcsa.core.weights import (
    MOST_TIMES,
    WEIGHT_RULES,
    capped,
    divergence_weights,
    estimate,
    median_mixture,
    model_weights,
    times_worse,
    validated_estimate,
    weighted_median,
)
from fedcsa.errors import DataError, ParameterError

#: The four estimates of the paper; "validated" has a function of its own.
PAPER = ("naive", "fediwe", "feddae", "fedle")


def test_the_methods_are_the_papers_and_the_default():
    assert tuple(WEIGHT_RULES) == tuple(PAPER)


def raw_sources(sizes, n_candidates, seed=0):
    """Ratios and losses of sources that differ in size, spread and level."""
    rng = np.random.default_rng([seed, len(sizes), n_candidates])
    return [
        (rng.gamma(0.5 + j, 1.0, n), rng.gamma(1.0 + j, 1.0 + 0.3 * j, (n, n_candidates)))
        for j, n in enumerate(sizes)
    ]


def terms_of(raw):
    return [risk_terms(RiskMoments.of(r, L)) for r, L in raw]


def made_terms(n_rows, f_cv, divergence):
    """Terms with a given f_CV and Div, everything else zero."""
    f_cv, divergence = np.atleast_1d(f_cv).astype(float), np.atleast_1d(divergence).astype(float)
    zero = np.zeros_like(f_cv)
    return RiskTerms(n_rows, zero, zero, f_cv, divergence, zero, "ok", zero, zero)


def slow_estimate(method, raw, candidate, given=None):
    """Risk and weights of one candidate, from the rows, as the paper writes it."""
    values, precision, sizes = [], [], []
    for r, L in raw:
        n, loss = len(r), L[:, candidate]
        sizes.append(n)
        product = [r[i] * loss[i] for i in range(n)]
        mean_p, mean_r = math.fsum(product) / n, math.fsum(r) / n
        eta = -math.fsum((product[i] - mean_p) * (r[i] - mean_r) for i in range(n)) / math.fsum(
            (r[i] - mean_r) ** 2 for i in range(n)
        )
        adjusted = [product[i] + eta * (r[i] - 1.0) for i in range(n)]
        f_cv = math.fsum(adjusted) / n
        # definition 3: mean of the squares minus the square of the mean
        div = math.fsum(a * a for a in adjusted) / n - f_cv**2
        precision.append(n / div)
        values.append({"naive": math.fsum(loss) / n, "fediwe": mean_p}.get(method, f_cv))
    weights = {
        "naive": [n / sum(sizes) for n in sizes],
        "fediwe": [n / sum(sizes) for n in sizes],
        "feddae": [p / math.fsum(precision) for p in precision],
        "fedle": None if given is None else [g / math.fsum(given) for g in given],
    }[method]
    return math.fsum(w * v for w, v in zip(weights, values, strict=True)), weights


@pytest.mark.parametrize("method", PAPER)
@pytest.mark.parametrize("sizes", [(12,), (30, 9), (5, 40, 17, 8, 21)])
@pytest.mark.parametrize("n_candidates", [1, 4])
def test_every_estimate_equals_a_loop_from_the_paper(method, sizes, n_candidates):
    raw = raw_sources(sizes, n_candidates)
    given = [float(j + 1) for j in range(len(sizes))] if method == "fedle" else None
    got = estimate(method, terms_of(raw), given)
    assert got.method == method
    assert got.weights.shape == (n_candidates, len(sizes))
    risks = []
    for c in range(n_candidates):
        risk, weights = slow_estimate(method, raw, c, given)
        risks.append(risk)
        assert got.risk[c] == pytest.approx(risk, rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(got.weights[c], weights, rtol=1e-11)
    assert got.chosen == risks.index(min(risks))
    np.testing.assert_array_equal(got.source_weights, got.weights[got.chosen])


def test_a_ratio_of_one_makes_fediwe_naive():
    raw = [(np.ones(len(r)), L) for r, L in raw_sources((10, 25), 3)]
    fediwe, naive = (estimate(method, terms_of(raw)) for method in ("fediwe", "naive"))
    np.testing.assert_allclose(fediwe.risk, naive.risk, rtol=1e-14)
    np.testing.assert_array_equal(fediwe.weights, naive.weights)
    assert fediwe.chosen == naive.chosen


def test_one_source_has_all_the_weight_under_every_method():
    [terms] = terms_of(raw_sources((20,), 3))
    for method in PAPER:
        got = estimate(method, [terms], [0.2] if method == "fedle" else None)
        assert got.weights.tolist() == [[1.0]] * 3


@pytest.mark.parametrize("divergence", [1e-300, 0.3, 1e300])
def test_equal_divergences_give_weights_by_rows(divergence):
    sources = [made_terms(n, [0.0], [divergence]) for n in (10, 30, 60)]
    np.testing.assert_allclose(estimate("feddae", sources).weights, [[0.1, 0.3, 0.6]], rtol=1e-14)


def test_fedle_with_rows_over_divergence_is_feddae():
    sources = terms_of(raw_sources((15, 40, 8), 1, seed=2))
    given = [terms.n_rows / terms.divergence[0] for terms in sources]
    fedle, feddae = estimate("fedle", sources, given), estimate("feddae", sources)
    np.testing.assert_allclose(fedle.weights, feddae.weights, rtol=1e-13)
    np.testing.assert_allclose(fedle.risk, feddae.risk, rtol=1e-13)


def test_feddae_minimises_the_variance_among_all_fedle_weights():
    # Σ α_j² Div_j/n_j has its minimum at eq. (10): no other weights do better.
    n, div = np.array([10.0, 40.0, 25.0]), np.array([0.5, 3.0, 1.0])
    best = divergence_weights(n, div[None])[0]
    rng = np.random.default_rng(0)
    others = np.vstack([rng.dirichlet(np.ones(3), 500), n / n.sum(), np.full(3, 1 / 3)])
    assert (others**2 @ (div / n) >= best**2 @ (div / n)).all()
    assert best**2 @ (div / n) == pytest.approx(1.0 / (n / div).sum(), rel=1e-14)


@pytest.mark.parametrize(
    ("divergence", "expected"),
    [
        ([0.0, 1.0, 2.0], [1.0, 0.0, 0.0]),
        ([0.0, 1.0, 0.0], [0.25, 0.0, 0.75]),
        ([0.0, 0.0, 0.0], [10 / 60, 20 / 60, 30 / 60]),
        ([0.0, 5e-324, 1e308], [1.0, 0.0, 0.0]),
        ([5e-324, 1e308, 1e308], [1.0, 0.0, 0.0]),
        ([1e308, 1e308, 5e307], [10 / 90, 20 / 90, 60 / 90]),
        ([1.0, 2.0, 3.0], [1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_divergences_of_zero_share_all_the_weight_and_extremes_do_not_overflow(
    divergence, expected
):
    got = divergence_weights(np.array([10.0, 20.0, 30.0]), np.array([divergence]))
    np.testing.assert_allclose(got, [expected], rtol=1e-13, atol=1e-300)


def test_zero_divergence_under_one_candidate_does_not_touch_another():
    sources = [made_terms(10, [1.0, 1.0], [0.0, 1.0]), made_terms(10, [5.0, 5.0], [1.0, 1.0])]
    got = estimate("feddae", sources)
    assert got.weights.tolist() == [[1.0, 0.0], [0.5, 0.5]]
    assert got.risk.tolist() == [1.0, 3.0]


def test_the_first_of_equal_candidates_is_chosen():
    got = estimate("feddae", [made_terms(5, [2.0, 1.0, 1.0, 3.0], [1.0, 1.0, 1.0, 1.0])])
    assert got.chosen == 1
    assert got.source_weights.tolist() == [1.0]


@pytest.mark.parametrize("method", PAPER)
def test_permuting_the_sources_permutes_the_weights(method):
    sources, order = terms_of(raw_sources((12, 7, 30), 2, seed=4)), [2, 0, 1]
    given = np.array([0.5, 1.5, 3.0])
    first = estimate(method, sources, given if method == "fedle" else None)
    second = estimate(
        method, [sources[j] for j in order], given[order] if method == "fedle" else None
    )
    np.testing.assert_allclose(second.weights, first.weights[:, order], rtol=1e-14)
    np.testing.assert_allclose(second.risk, first.risk, rtol=1e-13)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_the_scale_of_fedle_weights_does_not_matter(scale):
    sources = terms_of(raw_sources((12, 7), 1))
    got = estimate("fedle", sources, [3.0 * scale, 1.0 * scale])
    np.testing.assert_allclose(got.weights, [[0.75, 0.25]], rtol=1e-14)


def test_the_largest_fedle_weights_still_sum_to_one():
    got = estimate("fedle", terms_of(raw_sources((12, 7), 1)), [1e308, 1e308])
    np.testing.assert_allclose(got.weights, [[0.5, 0.5]], rtol=1e-14)


def test_a_source_may_have_fedle_weight_zero():
    got = estimate("fedle", terms_of(raw_sources((12, 7), 1)), [0.0, 2.0])
    assert got.weights.tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize("given", [None, [], [1.0], [1.0, 1.0, 1.0], [1.0, -1.0], [0.0, 0.0]])
def test_fedle_needs_one_weight_per_source(given):
    with pytest.raises(ParameterError, match=r"'fedle_weights' .* one weight ≥ 0 per source"):
        estimate("fedle", terms_of(raw_sources((12, 7), 1)), given)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_fedle_weights_must_be_finite(bad):
    with pytest.raises(DataError, match="fedle_weights must be finite"):
        estimate("fedle", terms_of(raw_sources((12, 7), 1)), [1.0, bad])


@pytest.mark.parametrize("method", ["fedavg", "validated"])
def test_a_method_not_of_the_paper_is_refused_with_those_that_are(method):
    with pytest.raises(ParameterError, match=rf"'method' .*'naive', 'fediwe', .* Got '{method}'"):
        estimate(method, terms_of(raw_sources((12, 7), 1)))


@pytest.mark.parametrize("method", [*PAPER, "fedavg"])
def test_no_source_is_refused(method):
    with pytest.raises(ParameterError, match=r"'sources' .* at least one source\. Got 0"):
        estimate(method, [])


# --- validated ---------------------------------------------------------------------------------


def made_up(n_candidates=4, n_sources=3, seed=5):
    rng = np.random.default_rng(seed)
    return rng.gamma(2.0, 1.0, (n_candidates, n_sources)), rng.gamma(
        1.0, 0.1, (n_candidates, n_sources)
    )


@pytest.mark.parametrize("worth", [(3.0, 1.0, 6.0), (0.0, 20.0, 20.0), (1e-300, 3e-300, 0.0)])
def test_the_validated_risk_is_weighted_by_worth(worth):
    risks, variances = made_up()
    got = validated_estimate(risks, np.array(worth), np.zeros(4), variances)
    share = [value / math.fsum(worth) for value in worth]
    for c in range(4):
        expected = math.fsum(a * f for a, f in zip(share, risks[c], strict=True))
        error = math.fsum(a * a * v for a, v in zip(share, variances[c], strict=True))
        assert got.risk[c] == pytest.approx(expected, rel=1e-12)
        assert got.standard_errors[c] == pytest.approx(math.sqrt(error), rel=1e-12)
        np.testing.assert_allclose(got.weights[c], share, rtol=1e-12)
    assert got.method == "validated"
    assert got.chosen == int(got.risk.argmin())


@pytest.mark.parametrize(
    ("powers", "sd", "chosen"),
    [
        ((0.0, 0.5, 1.0), 0.0, 2),  # nothing is uncertain
        ((0.0, 0.5, 1.0), 0.55, 2),  # handicaps 0, 0.097, 0.194: 1, 0.997, 0.994
        ((0.0, 0.5, 1.0), 0.58, 0),  # 1, 1.003, 1.005
        ((1.0, 1.0, 1.0), 100.0, 2),  # all alike: nobody is handicapped
        ((0.5, 0.0, 0.0), 100.0, 2),
    ],
)
def test_training_weights_must_be_worth_half_a_standard_error(powers, sd, chosen):
    # two equal sources: the standard error of the combined risk is sd/√2
    risks = np.array([[1.0] * 2, [0.9] * 2, [0.8] * 2])
    variances = np.full((3, 2), sd**2)
    worth = np.array([50.0, 50.0])
    assert validated_estimate(risks, worth, np.array(powers), variances).chosen == chosen


@pytest.mark.parametrize(("worth", "chosen"), [(4.9, 0), (5.0, 2)])
def test_training_weights_are_not_chosen_where_sources_are_worth_little(worth, chosen):
    risks = np.array([[1.0] * 2, [0.9] * 2, [0.1] * 2])
    powers = np.array([0.0, 0.5, 1.0])
    found = validated_estimate(risks, np.full(2, worth), powers, np.zeros((3, 2)))
    assert found.chosen == chosen
    # … unless there is nothing else to choose
    only = validated_estimate(risks, np.full(2, worth), np.ones(3), np.zeros((3, 2)))
    assert only.chosen == 2


def test_a_source_that_did_not_fit_a_candidate_has_no_say_about_it():
    risks, variances = made_up()
    fitted = np.ones((4, 3), dtype=bool)
    fitted[1, 2] = fitted[3, :2] = False
    got = validated_estimate(
        risks, np.array([3.0, 1.0, 6.0]), np.zeros(4), variances, fitted=fitted
    )
    np.testing.assert_allclose(got.weights[1], [0.75, 0.25, 0.0])
    np.testing.assert_allclose(got.weights[3], [0.0, 0.0, 1.0])
    assert got.risk[1] == pytest.approx(0.75 * risks[1, 0] + 0.25 * risks[1, 1])
    assert got.risk[3] == risks[3, 2]


def test_models_that_agree_are_weighted_by_worth():
    worth = np.array([1.0, 2.0, 5.0])
    np.testing.assert_allclose(model_weights(worth, np.ones((4, 3))), worth / 8.0, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2])
def test_of_fewer_than_three_models_none_is_far_from_the_others(n):
    worth = np.arange(1.0, n + 1)
    outputs = np.column_stack([np.zeros(5), np.full(5, 1e9)])[:, :n]
    np.testing.assert_allclose(model_weights(worth, outputs), worth / worth.sum())


def test_a_source_of_most_of_the_worth_does_not_take_all():
    outputs = np.random.default_rng(0).normal(size=(40, 4))
    a = model_weights(np.array([90.0, 4.0, 3.0, 3.0]), outputs)
    assert a[0] < 0.99
    assert (a > 0.005).all()


def test_the_unit_of_predictions_does_not_matter():
    outputs = np.random.default_rng(0).normal([0, 0, 0, 5], 1.0, (40, 4))
    worth = np.array([1.0, 2.0, 3.0, 4.0])
    base = model_weights(worth, outputs)
    for unit in (1e-250, 1e-9, 1e9, 1e140):
        np.testing.assert_allclose(model_weights(worth, unit * outputs), base, rtol=1e-9)


# Medians ------------------------------------------------------------------------------------


def lower_median(values, weights):
    """The smallest value with at least half of the weight at or below it."""
    total = math.fsum(weights)
    for value in sorted(values):
        below = math.fsum(w for v, w in zip(values, weights, strict=True) if v <= value)
        if below >= 0.5 * total * (1 - 1e-12):
            return value
    raise AssertionError("no median")


@pytest.mark.parametrize("method", [*PAPER, "validated"])
def test_under_a_median_no_source_has_more_than_a_third_and_the_middle_counts(method):
    sizes = (40, 5, 30, 20, 25)
    sources = terms_of(raw_sources(sizes, 6))
    variances = np.random.default_rng(0).gamma(1.0, 1.0, (6, 5))
    given = [9.0, 1.0, 1.1, 0.9, 1.2]  # no half is reached exactly
    if method == "validated":
        risks = np.column_stack([source.plain for source in sources])
        found = validated_estimate(risks, np.array(given), np.zeros(6), variances, "median")
    else:
        found = estimate(method, sources, given, "median")
        told = {"naive": "plain_variance", "fediwe": "importance_variance"}.get(method)
        columns = [getattr(s, told) if told else s.divergence / s.n_rows for s in sources]
        variances = np.column_stack(columns)
    name = {"naive": "plain", "fediwe": "importance_weighted", "validated": "plain"}
    values = [getattr(source, name.get(method, "control_variate")) for source in sources]
    assert found.weights.max() <= 1.0 / 3.0 + 1e-12
    for c in range(6):
        column, a = [float(v[c]) for v in values], found.weights[c]
        assert found.risk[c] == lower_median(column, a)
        middle = lower_median(variances[c], a)
        expected = math.sqrt(middle * math.fsum(w * w for w in a))
        assert found.standard_errors[c] == pytest.approx(expected, rel=1e-12)


FAST = settings(max_examples=60, deadline=None)
SEEDS = st.integers(0, 10**6)


# Weighted medians ---------------------------------------------------------------------------


@FAST
@given(SEEDS, st.integers(1, 8))
def test_the_weighted_median_leaves_at_most_half_of_the_weight_on_either_side(seed, K):
    rng = np.random.default_rng(seed)
    values, weights = rng.integers(0, 5, K).astype(float), rng.uniform(0.01, 1, K)
    [middle] = weighted_median(values[None], weights)
    assert middle in values
    half = 0.5 * weights.sum() * (1 + 1e-9)
    assert weights[values < middle].sum() <= half
    assert weights[values > middle].sum() <= half


def test_weights_of_a_median_may_differ_by_row():
    rng = np.random.default_rng(3)
    values, weights = rng.normal(size=(6, 5)), rng.uniform(0.1, 1.0, (6, 5))
    alone = [weighted_median(v[None], w)[0] for v, w in zip(values, weights, strict=True)]
    assert weighted_median(values, weights).tolist() == alone


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
    for combine, largest in (("mean", 0.9), ("median", 1.0 / 3.0)):
        found = validated_estimate(np.ones((2, 4)), weights, np.zeros(2), np.ones((2, 4)), combine)
        assert found.weights.max(axis=1) == pytest.approx(largest, rel=1e-12)


@pytest.mark.parametrize(
    ("taken", "best", "times"),
    [
        ([], [], 1.0),
        ([9.0], [1.0], 1.0),  # one alone says nothing
        ([9.0, 2.0], [1.0, 1.0], 2.0),  # of two, both must find it worse
        ([9.0, 2.0, 3.0], [1.0, 1.0, 1.0], 3.0),
        ([1.0, 1.0, 0.0], [0.0, 0.0, 0.0], MOST_TIMES),
        ([0.0, 0.0, 1.0], [0.0, 0.0, 0.0], 1.0),  # no loss either way
    ],
)
def test_how_many_times_worse_a_candidate_is_the_middle_source_says(taken, best, times):
    assert times_worse(np.array(taken), np.array(best)) == times

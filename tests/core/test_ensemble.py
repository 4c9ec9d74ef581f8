"""The guarded rule at the target: identities of the mixture's risk, weights that withstand lies."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta
from scipy.stats import t as student

from fedcsa.core.ensemble import (
    MAX_LOG_WIDTH,
    SourceNumbers,
    ensemble_risk,
    mixture,
    model_weights,
)
from fedcsa.core.losses import absolute, brier, log, squared, zero_one

FAST = settings(max_examples=60, deadline=None)
SEEDS = st.integers(0, 10**6)
LOSSES = ("squared", "brier", "absolute", "log", "zero-one", "own:loss")


def numbers(K, **changes):
    """What K good sources say."""
    values = {
        "effective_rows": np.full(K, 100.0),
        "kernel": np.zeros(K),
        "imbalance": np.zeros(K),
        "risk": np.ones(K),
        "variance": np.full(K, 0.01),
        "spread": np.full(K, 1.0),
        "explained": np.full(K, 0.1),
    }
    for name, value in changes.items():
        values[name] = np.broadcast_to(np.asarray(value, dtype=float), K).copy()
    return SourceNumbers(**values)


def regressors(seed, scale=1.0):
    """Weights, predictions of K models and outcomes: nothing is related to anything."""
    rng = np.random.default_rng(seed)
    K, n = int(rng.integers(1, 6)), int(rng.integers(2, 30))
    return rng.dirichlet(np.ones(K)), scale * rng.normal(size=(n, K)), scale * rng.normal(size=n)


def classifiers(seed):
    rng = np.random.default_rng(seed)
    K, n, classes = int(rng.integers(1, 6)), int(rng.integers(2, 30)), int(rng.integers(2, 5))
    outputs = rng.dirichlet(np.full(classes, 0.5), (n, K))
    return rng.dirichlet(np.ones(K)), outputs, rng.integers(0, classes, n).astype(float)


def single_and_mixed(loss, a, outputs, y):
    """F and R as they really are, on labelled rows."""
    risks = np.array([loss(outputs[:, j], y).mean() for j in range(len(a))])
    return risks, float(a @ risks), float(loss(mixture(outputs, a), y).mean())


# R = F − ambiguity --------------------------------------------------------------------------


@FAST
@given(SEEDS, st.sampled_from([1e-3, 1.0, 1e4]))
def test_average_less_ambiguity_is_the_squared_risk_of_the_mixture(seed, scale):
    a, outputs, y = regressors(seed, scale)
    risks, average, true = single_and_mixed(squared, a, outputs, y)
    found = ensemble_risk(numbers(len(a), risk=risks), a, outputs, "squared")
    assert found.average == pytest.approx(average, rel=1e-12)
    assert found.average - found.ambiguity == pytest.approx(true, rel=1e-9, abs=1e-12 * scale**2)
    assert found.kind == "exact"
    assert found.risk == pytest.approx(max(true, average / 4, 1e-9), rel=1e-9)


@FAST
@given(SEEDS)
def test_average_less_ambiguity_is_the_brier_risk_of_the_mixture(seed):
    a, outputs, y = classifiers(seed)
    risks, average, true = single_and_mixed(brier, a, outputs, y)
    found = ensemble_risk(numbers(len(a), risk=risks), a, outputs, "brier")
    assert found.average == pytest.approx(average, rel=1e-12)
    assert found.average - found.ambiguity == pytest.approx(true, abs=1e-12)
    assert found.kind == "exact"


@FAST
@given(SEEDS)
def test_the_brier_ambiguity_of_two_classes_is_the_squared_one_of_the_probability(seed):
    rng = np.random.default_rng(seed)
    p, a = rng.uniform(size=(9, 3)), rng.dirichlet(np.ones(3))
    both = ensemble_risk(numbers(3), a, np.stack([1 - p, p], axis=2), "brier").ambiguity
    assert both == pytest.approx(ensemble_risk(numbers(3), a, p, "squared").ambiguity, rel=1e-12)


# Bounds hold for any labels -----------------------------------------------------------------


@FAST
@given(SEEDS)
def test_the_absolute_risk_of_the_mixture_lies_between_its_bounds(seed):
    a, outputs, y = regressors(seed)
    risks, average, true = single_and_mixed(absolute, a, outputs, y)
    found = ensemble_risk(numbers(len(a), risk=risks), a, outputs, "absolute")
    assert average - found.ambiguity - 1e-12 <= true <= average + 1e-12
    assert found.risk >= true - 1e-12
    assert (found.kind, found.risk) == ("bound", pytest.approx(average))


@FAST
@given(SEEDS, st.booleans())
def test_the_log_risk_of_the_mixture_lies_between_its_bounds(seed, certain):
    a, outputs, y = classifiers(seed)
    if certain:  # probabilities of 0 and 1, the log loss at its floor
        outputs = (outputs == outputs.max(axis=2, keepdims=True)).astype(float)
    risks, average, true = single_and_mixed(log, a, outputs, y)
    found = ensemble_risk(numbers(len(a), risk=risks), a, outputs, "log")
    assert average - found.ambiguity - 1e-9 <= true <= average + 1e-9
    assert (found.kind, found.risk) == ("bound", pytest.approx(average))


@FAST
@given(SEEDS)
def test_the_zero_one_risk_of_the_mixture_lies_between_its_bounds(seed):
    a, outputs, y = classifiers(seed)
    risks, average, true = single_and_mixed(zero_one, a, outputs, y)
    found = ensemble_risk(numbers(len(a), risk=risks), a, outputs, "zero-one")
    assert abs(true - average) <= found.ambiguity + 1e-12
    assert true - 1e-12 <= found.risk <= 1.0
    assert found.kind == "bound"


def test_the_log_bound_is_reached_by_the_label_that_disagreement_costs_most():
    outputs = np.array([[[0.9, 0.1], [0.5, 0.5]]])
    a = np.array([0.5, 0.5])
    gaps = [
        single_and_mixed(log, a, outputs, np.array([label]))[1]
        - single_and_mixed(log, a, outputs, np.array([label]))[2]
        for label in (0.0, 1.0)
    ]
    found = ensemble_risk(numbers(2), a, outputs, "log")
    assert found.ambiguity == pytest.approx(max(gaps), rel=1e-12)


@FAST
@given(SEEDS)
def test_no_disagreement_means_no_ambiguity_under_any_loss(seed):
    rng = np.random.default_rng(seed)
    K = int(rng.integers(1, 5))
    a = rng.dirichlet(np.ones(K))
    regression = np.repeat(rng.normal(size=(7, 1)), K, axis=1)
    classes = np.repeat(rng.dirichlet(np.ones(3), (7, 1)), K, axis=1)
    for loss in LOSSES:
        outputs = classes if loss in ("brier", "log", "zero-one") else regression
        found = ensemble_risk(numbers(K), a, outputs, loss)
        assert found.ambiguity == pytest.approx(0.0, abs=1e-12)
        assert found.risk == pytest.approx(1.0, rel=1e-9)


def test_a_loss_of_ones_own_has_no_interval():
    found = ensemble_risk(numbers(2), np.array([0.5, 0.5]), np.zeros((5, 2)), "own:loss")
    assert (found.kind, found.lower, found.upper) == ("none", None, None)


# The interval -------------------------------------------------------------------------------


@FAST
@given(SEEDS)
def test_an_interval_widens_with_its_level_and_holds_the_risk(seed):
    a, outputs, y = regressors(seed)
    risks, _, _ = single_and_mixed(squared, a, outputs, y)
    said = numbers(len(a), risk=risks, variance=0.05)
    narrow = ensemble_risk(said, a, outputs, "squared", 0.5)
    wide = ensemble_risk(said, a, outputs, "squared", 0.99)
    # The width is capped on the log scale: two hopeless intervals may be equally wide.
    assert wide.lower <= narrow.lower < narrow.risk <= narrow.worst < narrow.upper <= wide.upper
    if narrow.lower > 1.001 * np.exp(-MAX_LOG_WIDTH) * narrow.risk:
        assert wide.lower < narrow.lower
    if narrow.upper < 0.999 * np.exp(MAX_LOG_WIDTH) * narrow.worst:
        assert narrow.upper < wide.upper
    assert (narrow.risk, narrow.level) == (wide.risk, 0.5)


@FAST
@given(SEEDS)
def test_standard_error_and_ends_follow_their_formulas(seed):
    rng = np.random.default_rng(seed)
    a, outputs, _ = regressors(seed, scale=0.3)
    K, n = len(a), len(outputs)
    said = SourceNumbers(
        effective_rows=rng.uniform(2, 200, K),
        kernel=rng.uniform(0, 0.2, K),
        imbalance=rng.uniform(0, 0.5, K),
        risk=rng.uniform(0.5, 2, K),
        variance=rng.uniform(0, 0.1, K),
        spread=rng.uniform(0, 2, K),
        explained=rng.uniform(0, 1, K),
    )
    found = ensemble_risk(said, a, outputs, "squared", 0.9)
    per_row = [sum(a[j] * (row[j] - sum(a * row)) ** 2 for j in range(K)) for row in outputs]
    variance = (np.sum(a * said.explained) + np.var(per_row)) / n
    for j in range(K):
        variance += a[j] ** 2 * (said.variance[j] + said.spread[j] * (said.kernel[j] + 1 / n))
    assert found.standard_error == pytest.approx(np.sqrt(variance), rel=1e-10)
    own = a**2 * said.variance
    df = own.sum() ** 2 / sum(own[j] ** 2 / max(said.effective_rows[j] - 1, 1) for j in range(K))
    q = student.ppf(0.95, max(2.0, df))
    low = found.risk * np.exp(-min(6.0, q * found.standard_error / found.risk))
    high = found.worst * np.exp(min(6.0, q * found.standard_error / found.worst))
    assert (found.lower, found.upper) == pytest.approx((low, high), rel=1e-9)
    share = float(np.sum(a * a))
    factor = 3.0 if share > 0.9 else min(3.0, (1 + share) / (1 - share))
    assert found.worst == pytest.approx(found.average + found.ambiguity * factor, rel=1e-12)
    rows = 1 / sum(a[j] ** 2 * (1 / said.effective_rows[j] + said.kernel[j]) for j in range(K))
    assert found.target_rows == pytest.approx(rows, rel=1e-12)
    assert found.kernel_imbalance == pytest.approx(sum(a * said.kernel), rel=1e-12)
    assert found.mean_imbalance == pytest.approx(sum(a * said.imbalance), rel=1e-12)


@pytest.mark.parametrize("loss", ["brier", "zero-one"])
def test_a_loss_that_is_at_most_one_has_no_end_above_one(loss):
    outputs = np.zeros((20, 2, 2))
    outputs[:, 0, 0] = outputs[:, 1, 1] = 1.0
    said = numbers(2, risk=0.9, variance=4.0)
    found = ensemble_risk(said, np.array([0.5, 0.5]), outputs, loss)
    assert found.risk <= found.worst <= 1.0
    assert found.upper == 1.0


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_no_error_among_the_rows_does_not_mean_that_none_is_possible(level):
    outputs = np.zeros((30, 1, 2))
    outputs[..., 0] = 1.0
    said = numbers(1, effective_rows=40.0, risk=0.0, variance=0.0, spread=0.0, explained=0.0)
    found = ensemble_risk(said, np.ones(1), outputs, "zero-one", level)
    # Clopper and Pearson's upper end for no error in 40 rows
    assert found.upper == pytest.approx(beta.ppf(0.5 + level / 2, 1, 40), rel=1e-9)
    assert (found.lower, found.risk) == (0.0, 0.0)


@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("variance", [0.0, 1e-3])
def test_the_interval_of_no_risk_begins_at_zero(loss, variance):
    said = numbers(1, risk=0.0, variance=variance, spread=0.0, explained=0.0)
    assert ensemble_risk(said, np.ones(1), np.zeros((9, 1)), loss).lower == 0.0
    said = numbers(1, risk=1e-200, variance=0.0, spread=0.0, explained=0.0)
    found = ensemble_risk(said, np.ones(1), np.zeros((9, 1)), loss)
    assert found.lower == pytest.approx(1e-200, rel=1e-9)


def test_a_hopeless_interval_stays_finite():
    found = ensemble_risk(numbers(1, variance=1e30), np.ones(1), np.zeros((3, 1)), "squared")
    assert found.lower == pytest.approx(np.exp(-6.0))
    assert found.upper == pytest.approx(np.exp(6.0))


# The verdict --------------------------------------------------------------------------------


def verdict(ambiguity=0.0, **changes):
    """Status of one source, or of two that disagree by `ambiguity` on every row."""
    apart = np.sqrt(ambiguity)
    outputs = np.tile([[-apart, apart]], (50, 1))
    said = numbers(2, **{"effective_rows": 1e6, **changes})
    return ensemble_risk(said, np.array([0.5, 0.5]), outputs, "squared")


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "ok"),
        ({"imbalance": 1.0}, "ok"),
        ({"imbalance": 1.001}, "no overlap"),
        ({"imbalance": [0.0, 2.002]}, "no overlap"),
        ({"imbalance": [0.0, 1.998]}, "ok"),
        ({"ambiguity": 0.1499}, "ok"),
        ({"ambiguity": 0.1501}, "sources disagree"),
        ({"ambiguity": 0.29, "risk": 2.0}, "ok"),
        ({"ambiguity": 0.31, "risk": 2.0}, "sources disagree"),
        ({"kernel": 0.0999}, "ok"),
        ({"kernel": 0.1001}, "weak overlap"),
        ({"effective_rows": 5.001}, "ok"),
        ({"effective_rows": 4.999}, "weak overlap"),
        ({"imbalance": 1.1, "ambiguity": 0.5, "kernel": 1.0}, "no overlap"),
        ({"ambiguity": 0.5, "kernel": 1.0}, "sources disagree"),
    ],
)
def test_the_first_verdict_that_applies_is_given(changes, status):
    assert verdict(**changes).status == status


def test_only_no_overlap_takes_the_interval_away():
    for changes in ({}, {"ambiguity": 0.5}, {"kernel": 0.5}):
        found = verdict(**changes)
        assert found.lower < found.risk < found.upper
    found = verdict(imbalance=1.1)
    assert (found.lower, found.upper) == (None, None)
    assert found.risk == pytest.approx(1.0)


# Weights of the models ----------------------------------------------------------------------


@FAST
@given(SEEDS, st.integers(1, 7))
def test_model_weights_are_not_negative_and_sum_to_one(seed, K):
    rng = np.random.default_rng(seed)
    worth = rng.uniform(0, 100, K) + 1e-6
    outputs = rng.normal(size=(12, K)) * 10.0 ** rng.integers(-6, 7, K)
    a = model_weights(worth, outputs)
    assert a.shape == (K,)
    assert (a >= 0.0).all()
    assert a.sum() == pytest.approx(1.0, rel=1e-12)


@FAST
@given(SEEDS, st.permutations(range(5)))
def test_permuting_the_models_permutes_their_weights(seed, order):
    rng = np.random.default_rng(seed)
    worth, outputs = rng.uniform(1, 100, 5), rng.normal(size=(12, 5))
    order = np.array(order)
    np.testing.assert_allclose(
        model_weights(worth[order], outputs[:, order]), model_weights(worth, outputs)[order],
        rtol=1e-9,
    )  # fmt: skip


@pytest.mark.parametrize("K", [1, 2])
def test_one_or_two_models_weigh_as_much_as_they_are_worth(K):
    worth = np.array([3.0, 1.0])[:K]
    outputs = np.random.default_rng(0).normal(size=(9, K)) * 1e6
    np.testing.assert_allclose(model_weights(worth, outputs), worth / worth.sum(), rtol=1e-15)


@pytest.mark.parametrize("K", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_models_that_agree_weigh_as_much_as_they_are_worth(K, shape, scale):
    rng = np.random.default_rng(K)
    worth = rng.uniform(1, 100, K)
    outputs = np.repeat(scale * rng.uniform(size=(11, 1, *shape)), K, axis=1)
    np.testing.assert_allclose(model_weights(worth, outputs), worth / worth.sum(), rtol=1e-9)


def test_a_majority_that_agrees_to_the_bit_keeps_finite_weights():
    outputs = np.zeros((6, 4))
    outputs[:, 3] = 5.0
    a = model_weights(np.ones(4), outputs)
    assert np.isfinite(a).all()
    assert a.sum() == pytest.approx(1.0)
    assert a[3] < 0.01
    np.testing.assert_allclose(a[:3], a[0], rtol=1e-9)


def test_a_model_far_from_the_others_loses_weight_and_the_farther_the_more():
    rng = np.random.default_rng(0)
    honest = rng.normal(0.0, 0.1, (40, 4))
    lost = []
    for distance in (0.0, 1.0, 10.0, 1e6):
        outputs = np.column_stack([honest, distance + rng.normal(0.0, 0.1, 40)])
        lost.append(model_weights(np.ones(5), outputs)[4])
    assert lost[0] == pytest.approx(0.2, abs=0.05)
    assert lost[0] > lost[1] > lost[2] > lost[3]
    assert lost[3] < 1e-5


def test_a_source_without_worth_has_no_weight():
    a = model_weights(np.array([1.0, 0.0, 2.0]), np.random.default_rng(0).normal(size=(8, 3)))
    assert a[1] == 0.0


def test_distances_of_probabilities_are_those_of_the_brier_score():
    rng = np.random.default_rng(3)
    p, worth = rng.uniform(size=(20, 4)), rng.uniform(1, 5, 4)
    np.testing.assert_allclose(
        model_weights(worth, np.stack([1 - p, p], axis=2)), model_weights(worth, p), rtol=1e-9
    )


# Degenerate inputs --------------------------------------------------------------------------


def finite(found):
    values = [value for value in dataclasses.asdict(found).values() if value is not None]
    numeric = [np.asarray(value) for value in values if not isinstance(value, str)]
    return all(np.isfinite(value).all() for value in numeric)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("K", [1, 2, 3])
@pytest.mark.parametrize(
    "changes",
    [
        {"risk": 0.0, "variance": 0.0, "spread": 0.0, "explained": 0.0},
        {"risk": 0.0, "variance": 0.1},
        {"effective_rows": 0.0},
        {"effective_rows": 1.0, "variance": 0.0},
        {"kernel": 1e9, "imbalance": 1e9},
        {"variance": 1e140, "spread": 1e140, "explained": 1e140},
        {"variance": 1e-140, "spread": 1e-140, "risk": 1e-140},
    ],
    ids=lambda changes: "-".join(f"{key}={value}" for key, value in changes.items()),
)
def test_degenerate_reports_give_finite_numbers(loss, K, changes):
    outputs = np.zeros((4, K))
    if loss in ("brier", "log", "zero-one"):
        outputs = np.zeros((4, K, 2))
        outputs[..., 0] = 1.0  # all agree on one class
    found = ensemble_risk(numbers(K, **changes), np.full(K, 1.0 / K), outputs, loss)
    assert finite(found)
    if found.lower is not None:
        assert 0.0 <= found.lower <= found.risk * (1 + 1e-12) + 1e-9
        assert found.risk <= found.upper * (1 + 1e-12) + 1e-9


@pytest.mark.parametrize("n", [1, 2])
def test_one_target_row_gives_finite_numbers(n):
    found = ensemble_risk(
        numbers(3), np.full(3, 1 / 3), np.arange(3.0)[None].repeat(n, 0), "squared"
    )
    assert finite(found)


# Chance and sites -----------------------------------------------------------------------------


def test_chance_alone_makes_the_ambiguity_that_the_noise_numbers_announce():
    rng = np.random.default_rng(0)
    a, sd = np.array([0.5, 0.3, 0.2]), np.array([1.0, 0.5, 2.0])
    found = ensemble_risk(numbers(3), a, rng.normal(0.0, sd, (200_000, 3)), "squared")
    assert found.ambiguity == pytest.approx(float((a * (1 - a)) @ sd**2), rel=0.01)


@pytest.mark.parametrize("weights", [(0.2,) * 5, (0.4, 0.3, 0.1, 0.1, 0.1), (0.5, 0.5)])
def test_with_site_effects_the_promise_is_right_on_average_and_the_first_one_is_not(weights):
    # One row stands for all: h_j = b_j + e_j, judged at its own site, used at a new one.
    rng = np.random.default_rng(1)
    a, tau, chance, noise = np.array(weights), 1.0, 0.3, 0.5
    K, promised, first, true = len(a), [], [], []
    for _ in range(8000):
        b, e, new = rng.normal(0, tau, K), rng.normal(0, chance, K), rng.normal(0, tau)
        outputs, said = np.tile(b + e, (3, 1)), numbers(K, risk=noise + e**2)
        split = ensemble_risk(said, a, outputs, "squared", noise=np.full(K, chance**2))
        promised.append(split.risk)
        first.append(ensemble_risk(said, a, outputs, "squared").risk)
        true.append(noise + (a @ (b + e) - new) ** 2)
    error = np.hypot(np.std(promised), np.std(true)) / np.sqrt(len(true))
    # amb below its expectation is cut at none, and (1 + A)/(1 − A) at three: both are slight.
    assert np.mean(promised) == pytest.approx(np.mean(true), abs=4 * error, rel=0.03)
    assert np.mean(first) < 0.5 * np.mean(true)


def test_sources_that_differ_by_chance_promise_what_the_first_rule_does():
    rng = np.random.default_rng(2)
    a, sd = np.full(4, 0.25), 0.2
    outputs = rng.normal(0.0, sd, (50_000, 4))
    split = ensemble_risk(numbers(4), a, outputs, "squared", noise=np.full(4, sd**2))
    first = ensemble_risk(numbers(4), a, outputs, "squared")
    assert split.risk == pytest.approx(first.risk, rel=2e-3)
    assert split.site == pytest.approx(0.0, abs=5e-4)
    assert split.upper < first.upper


@FAST
@given(SEEDS, st.floats(0.0, 1e300))
def test_no_noise_number_moves_the_promise_out_of_the_two_readings(seed, claim):
    a, outputs, _ = regressors(seed, scale=0.3)
    K = len(a)
    first = ensemble_risk(numbers(K), a, outputs, "squared")
    split = ensemble_risk(numbers(K), a, outputs, "squared", noise=np.full(K, claim))
    assert first.risk <= split.risk <= first.worst * (1.0 + 1e-12)
    assert 0.0 <= split.site <= split.ambiguity
    assert (split.status, split.worst, split.ambiguity) == (
        first.status, first.worst, first.ambiguity,
    )  # fmt: skip
    if split.lower is not None:
        assert 0.0 < split.lower <= split.risk <= split.upper < np.inf


@FAST
@given(SEEDS)
def test_the_split_follows_its_formulas(seed):
    rng = np.random.default_rng(seed)
    a, outputs, _ = regressors(seed, scale=0.3)
    K, n = len(a), len(outputs)
    said = SourceNumbers(
        effective_rows=rng.uniform(0.5, 200, K),
        kernel=rng.uniform(0, 0.2, K),
        imbalance=rng.uniform(0, 0.5, K),
        risk=rng.uniform(0.5, 2, K),
        variance=rng.uniform(0, 0.1, K),
        spread=rng.uniform(0, 2, K),
        explained=rng.uniform(0, 1, K),
    )
    noise = rng.uniform(0, 0.1, K)
    found = ensemble_risk(said, a, outputs, "squared", 0.9, noise)
    first = ensemble_risk(said, a, outputs, "squared", 0.9)
    chance = min(found.ambiguity, sum(a[j] * (1 - a[j]) * noise[j] for j in range(K)))
    site, share = found.ambiguity - chance, float(np.sum(a * a))
    lift = site * min(3.0, (1 + share) / max(1 - share, 0.1))
    assert found.site == pytest.approx(site, rel=1e-9, abs=1e-15)
    expected = max(first.risk, found.average - chance + lift)
    assert found.risk == pytest.approx(expected, rel=1e-9)
    per_row = [sum(a[j] * (row[j] - sum(a * row)) ** 2 for j in range(K)) for row in outputs]
    variance = np.var(per_row) / n
    for j in range(K):
        variance += a[j] ** 2 * (said.variance[j] + said.spread[j] * said.kernel[j])
        most = said.explained[j] + said.spread[j] / np.sqrt(max(said.effective_rows[j], 1.0))
        variance += a[j] * min(said.spread[j], most) / n
    assert found.standard_error == pytest.approx(np.sqrt(variance), rel=1e-9)
    if found.lower is not None:
        own = a**2 * said.variance
        below = [own[j] ** 2 / max(said.effective_rows[j] - 1, 1) for j in range(K)]
        q = student.ppf(0.95, max(2.0, own.sum() ** 2 / sum(below)))
        low = first.risk * np.exp(-min(6.0, q * np.sqrt(variance) / first.risk))
        high = expected * np.exp(min(6.0, q * np.sqrt(variance + 2 * lift**2) / expected))
        assert (found.lower, found.upper) == pytest.approx((low, high), rel=1e-9)


@pytest.mark.parametrize("loss", ["absolute", "own:loss"])
def test_where_the_ambiguity_is_no_squared_one_noise_changes_nothing(loss):
    outputs = np.random.default_rng(5).normal(size=(9, 3))
    a, noise = np.full(3, 1.0 / 3.0), np.full(3, 0.5)
    without = ensemble_risk(numbers(3), a, outputs, loss)
    assert repr(ensemble_risk(numbers(3), a, outputs, loss, noise=noise)) == repr(without)
    assert without.site is None


def test_a_brier_promise_is_at_most_one():
    outputs = np.array([[[1.0, 0.0], [0.0, 1.0]]] * 4)
    found = ensemble_risk(
        numbers(2, risk=0.9), np.array([0.5, 0.5]), outputs, "brier", noise=np.zeros(2)
    )
    assert found.risk == found.upper == 1.0


# Medians and other losses -------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_the_verdict_does_not_depend_on_the_unit_of_the_outcome(loss, unit):
    rng = np.random.default_rng(0)
    outputs = rng.normal(size=(30, 1)) + rng.normal(0.0, 0.1, (30, 4))
    told = numbers(4, risk=np.full(4, unit ** (2 if loss == "squared" else 1)))
    found = ensemble_risk(told, np.full(4, 0.25), unit * outputs, loss, combine="median")
    assert found.status == "ok"
    assert found.kind == "none"
    assert found.lower is None


def test_disagreement_in_another_unit_than_the_risk_is_no_verdict():
    outputs = np.array([[0.0, 1000.0]] * 5)
    assert ensemble_risk(numbers(2), np.full(2, 0.5), outputs, "squared").status != "ok"
    assert ensemble_risk(numbers(2), np.full(2, 0.5), outputs, "own:loss").status == "ok"


def test_the_risk_of_a_median_is_the_median_of_the_risks():
    outputs = np.zeros((5, 4))
    told = numbers(4, risk=np.array([1.0, 2.0, 3.0, 1e9]))
    a = np.array([0.3, 0.3, 0.2, 0.2])
    for loss in ("squared", "zero-one"):
        found = ensemble_risk(told, a, outputs[..., None], loss, combine="median")
        assert found.average == 2.0
        assert found.risk == (2.0 if loss == "squared" else 1.0)


def test_a_source_with_most_of_the_worth_ends_up_with_nearly_all_of_it():
    """A limit of the rule: the median distance is then its own, and shrinks as its weight grows."""
    rng = np.random.default_rng(0)
    worth = np.array([700.0, 100.0, 100.0, 100.0])
    truth = rng.normal(size=(40, 1))
    alike = truth + rng.normal(size=(1, 4)) / np.sqrt(worth)  # chance alone
    assert model_weights(worth, alike)[0] > 0.99
    fair = np.array([400.0, 300.0, 200.0, 100.0])
    alike = truth + rng.normal(size=(1, 4)) / np.sqrt(fair)
    assert model_weights(fair, alike).max() < 0.6

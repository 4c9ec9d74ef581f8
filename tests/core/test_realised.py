"""How sure a mean of losses is: against the binomial distribution itself, and scipy's intervals."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedcsa.core.realised import mean_interval, place, standard_error

OTHER = ("squared", "absolute", "log", "")


def wrong(k, n):
    """Zero-one losses of n rows with k errors."""
    return np.r_[np.ones(k), np.zeros(n - k)]


def coverage(n, rate, error):
    """Chance, to the digit, that a share of errors is within 1.96 standard errors of its rate."""
    k = np.arange(n + 1)
    off = np.abs(k / n - rate)
    near = off <= 1.959964 * np.array([error(wrong(errors, n)) for errors in k])
    return stats.binom.pmf(k, n, rate)[near].sum()


ROWS = (20, 35, 50, 100, 200)


def plus_four(losses):
    return standard_error(losses, "zero-one")


@pytest.mark.parametrize("rate", [0.005, 0.01, 0.02, 0.05])
def test_a_small_rate_of_errors_is_compatible_with_itself(rate):
    assert min(coverage(n, rate, plus_four) for n in ROWS) > 0.93
    # The sample's own error is 0 where there is no error, and then even the truth contradicts it.
    assert min(coverage(n, rate, stats.sem) for n in ROWS) < 0.65


def test_any_rate_of_errors_is_compatible_with_itself():
    found = {
        (n, rate): coverage(n, rate, plus_four)
        for n, rate in itertools.product(ROWS, (0.005, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5))
    }
    assert np.mean(list(found.values())) > 0.95
    assert min(found.values()) > 0.88
    assert min(value for (n, _), value in found.items() if n >= 100) > 0.93


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 300), st.data())
def test_an_error_rate_has_the_error_of_two_more_of_either_kind(n, data):
    k = data.draw(st.integers(0, n))
    more = wrong(k + 2, n + 4)
    assert standard_error(wrong(k, n), "zero-one") == pytest.approx(more.std() / np.sqrt(n + 4))
    assert standard_error(wrong(k, n), "zero-one") > 0.0


@pytest.mark.parametrize("n", [2, 3, 7, 50])
def test_brier_scores_have_the_error_of_two_more_of_either_kind(n):
    for losses in (np.zeros(n), np.full(n, 1.0 + 1e-15), np.random.default_rng(n).uniform(size=n)):
        expected = stats.sem([*losses, 0.0, 0.0, 1.0, 1.0], ddof=0)
        assert standard_error(losses, "brier") == pytest.approx(expected, rel=1e-12)
        low, high = mean_interval(losses, "brier", 0.95)
        slack = stats.t.ppf(0.975, n - 1) * expected
        assert low == pytest.approx(max(losses.mean() - slack, 0.0), rel=1e-9)
        assert high == pytest.approx(min(losses.mean() + slack, 1.0), rel=1e-9)


@pytest.mark.parametrize("rate", [0.01, 0.02, 0.05, 0.2])
@pytest.mark.parametrize("n", [30, 60, 200])
def test_rows_without_the_rare_event_do_not_contradict_its_rate(n, rate):
    """Probabilities near the rate, that differ a little: their losses are nearly equal then."""
    rng = np.random.default_rng(0)
    held = {"brier": 0, "": 0}
    for _ in range(300):
        p = rate * rng.uniform(0.9, 1.1, n)
        truth = (rate * (1.0 - p) ** 2 + (1.0 - rate) * p**2).mean()
        losses = (p - (rng.uniform(size=n) < rate)) ** 2
        for loss in held:
            low, high = mean_interval(losses, loss, 0.95)
            held[loss] += low <= truth <= high
    assert held["brier"] >= 0.93 * 300
    if n * rate < 2.0:
        assert held[""] < 0.9 * 300  # by the sample's own error


@pytest.mark.parametrize("loss", ["squared", "brier", "zero-one"])
def test_rows_that_repeat_a_patient_are_no_more_certain_than_the_patient(loss):
    patients = (np.random.default_rng(0).uniform(size=40) < 0.4).astype(float)
    losses, groups = np.repeat(patients, 9), np.repeat(np.arange(40.0), 9)
    # Nine equal rows a patient: the error is that of forty rows.
    assert standard_error(losses, loss, groups) == pytest.approx(stats.sem(patients), rel=1e-12)
    assert standard_error(losses, loss) < 0.4 * stats.sem(patients)


@pytest.mark.parametrize("loss", ["squared", "brier"])
def test_groups_never_lower_an_error(loss):
    rng = np.random.default_rng(1)
    losses = rng.uniform(size=50)
    own = standard_error(losses, loss)
    apart = standard_error(losses, loss, np.arange(50.0))
    assert apart == pytest.approx(own, rel=1e-12)  # every row a patient of its own
    alternating = np.sort(losses)[np.r_[0:25, 49:24:-1]]  # a low row and a high one each
    assert standard_error(alternating, loss, np.tile(np.arange(25.0), 2)) == own
    assert standard_error(losses, loss, np.zeros(50)) == own


@pytest.mark.parametrize(
    ("lowest", "highest", "expected"),
    [
        (4.001, 9.0, "far above"),
        (4.0, 9.0, "above"),
        (2.001, 3.0, "above"),
        (2.0, 3.0, "inside"),
        (0.0, 1.0, "inside"),
        (0.0, 0.999, "below"),
        (0.0, 0.5, "below"),
        (0.0, 0.499, "far below"),
        (0.0, 9.0, "inside"),
    ],
)
def test_far_is_beyond_twice_the_nearer_end(lowest, highest, expected):
    assert place(lowest, highest, 1.0, 2.0) == expected


@pytest.mark.parametrize("loss", OTHER)
def test_losses_that_differ_have_the_samples_error_and_students_interval(loss):
    losses = np.random.default_rng(0).uniform(size=23)
    assert standard_error(losses, loss) == pytest.approx(stats.sem(losses), rel=1e-12)
    for level in (0.5, 0.95):
        expected = stats.t.interval(level, 22, loc=losses.mean(), scale=stats.sem(losses))
        assert mean_interval(losses, loss, level) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("loss", OTHER)
@pytest.mark.parametrize("value", [0.0, 0.1, 7.0])  # the mean of 3 × 0.1 is not 0.1
def test_of_equal_losses_without_a_bound_nothing_is_known(loss, value):
    assert mean_interval(np.full(3, value), loss, 0.95) is None


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 300), st.sampled_from([0.5, 0.9, 0.95, 0.99]), st.data())
def test_an_error_rate_has_clopper_and_pearsons_interval(n, level, data):
    k = data.draw(st.integers(0, n))
    low, high = stats.binomtest(k, n).proportion_ci(level, method="exact")
    found = mean_interval(wrong(k, n), "zero-one", level)
    assert found == pytest.approx((low, high), rel=1e-9, abs=1e-12)


def test_the_interval_of_a_share_between_two_counts_lies_between_theirs():
    ends = [mean_interval(np.full(8, value), "brier", 0.95) for value in (0.25, 0.3, 0.375)]
    assert ends == sorted(ends)
    assert [upper for _, upper in ends] == sorted(upper for _, upper in ends)

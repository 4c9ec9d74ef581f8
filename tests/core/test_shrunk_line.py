"""The corrected line: against brute-force posteriors, and its limits."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from fedcsa.core import few_outcomes
from fedcsa.core import shrunk_line as module
from fedcsa.core.shrunk_line import RESIDUAL_ROWS, LinePrior, shrunk_line

RNG = np.random.default_rng(0)
NONE = np.empty(0)


@pytest.fixture
def one_prior(monkeypatch):
    """Only sites like the others."""
    monkeypatch.setattr(module, "LIKELY", (1.0, 1e-300, 1e-300, 1e-300))


def grid(a_max, b_max, points=401):
    a, b = np.linspace(-a_max, a_max, points), np.linspace(-b_max, b_max, points)
    return np.meshgrid(a, b, indexing="ij")


@pytest.mark.usefixtures("one_prior")
def test_numbers_agree_with_a_brute_force_posterior():
    p = RNG.normal(size=15)
    y = 0.4 + 1.2 * p + RNG.normal(size=15)
    prior = LinePrior(0.05, 0.02, NONE, noise=1.3)
    A, B = grid(1.0, 0.7)
    r = (y - p)[:, None, None] - A - B * (p - p.mean())[:, None, None]
    misfit = (r**2).sum(axis=0) + 1.3 * (A**2 / 0.05 + B**2 / 0.02)
    # σ² integrated out: a t density in the misfit; two more rows for the two parameters
    log = -0.5 * (RESIDUAL_ROWS + 15 + 2) * np.log(RESIDUAL_ROWS * 1.3 + misfit)
    density = np.exp(log - log.max())
    density /= density.sum()
    intercept, slope, rest = shrunk_line(y, p, np.empty((15, 0)), np.ones(15), prior, classes=False)
    assert len(rest) == 0
    assert slope - 1.0 == pytest.approx((density * B).sum(), abs=2e-3)
    assert intercept + (slope - 1.0) * p.mean() == pytest.approx((density * A).sum(), abs=2e-3)


@pytest.mark.usefixtures("one_prior")
def test_classes_agree_with_a_brute_force_mode():
    line = RNG.normal(size=40)
    y = (RNG.random(40) < expit(0.7 + 1.4 * line)).astype(float)
    prior = LinePrior(0.2, 0.05, NONE)
    A, B = grid(1.5, 1.0, 301)
    log = np.zeros_like(A)
    for each, outcome in zip(line, y, strict=True):
        at = each + A + B * (each - line.mean())
        log += outcome * at - np.logaddexp(0.0, at)
    log += stats.norm.logpdf(A, 0, 0.2**0.5) + stats.norm.logpdf(B, 0, 0.05**0.5)
    best = np.unravel_index(log.argmax(), log.shape)
    intercept, slope, _ = shrunk_line(y, line, np.empty((40, 0)), np.ones(40), prior, classes=True)
    assert slope - 1.0 == pytest.approx(B[best], abs=7e-3)
    assert intercept + (slope - 1.0) * line.mean() == pytest.approx(A[best], abs=1e-2)


def test_the_four_priors_count_by_how_well_they_foretell_the_outcomes():
    p, z = np.zeros(30), np.empty((30, 0))
    prior = LinePrior(0.0, 0.0, NONE, noise=1.0)
    y = 1.5 + RNG.normal(size=30)
    alike = shrunk_line(y - y.mean(), p, z, np.ones(30), prior, classes=False)
    unlike = shrunk_line(y, p, z, np.ones(30), prior, classes=False)
    assert abs(alike[0]) < 1e-9
    assert unlike[0] == pytest.approx(y.mean(), abs=0.1)
    evidence = [
        module._of_numbers(y, p, np.ones((30, 1)), np.ones(30), np.array([v]), 1.0)[1]
        for v in (1e-10, 1.0)
    ]
    # the multivariate t density of y under both, up to the same constant
    direct = [
        stats.multivariate_t.logpdf(y, shape=np.eye(30) + v, df=RESIDUAL_ROWS) for v in (1e-10, 1.0)
    ]
    assert evidence[1] - evidence[0] == pytest.approx(direct[1] - direct[0], abs=1e-6)


def test_coefficients_change_only_if_the_prior_has_some():
    z = RNG.normal(size=(400, 2))
    y = z @ [1.0, 0.0] + 0.1 * RNG.normal(size=400)
    p, w = np.zeros(400), np.ones(400)
    with_some = shrunk_line(y, p, z, w, LinePrior(0, 0, np.zeros(2), 0.01), classes=False)
    without = shrunk_line(y, p, z, w, LinePrior(0, 0, NONE, 0.01), classes=False)
    assert with_some[2] == pytest.approx([1.0, 0.0], abs=0.05)
    assert len(without[2]) == 0


def test_infinitely_many_outcomes_give_least_squares():
    p = RNG.normal(size=20_000)
    y = 2.0 + 0.5 * p + RNG.normal(size=20_000)
    told = shrunk_line(
        y, p, np.empty((20_000, 0)), np.ones(20_000), LinePrior(0, 0, NONE), classes=False
    )
    assert told[:2] == pytest.approx(np.polyfit(p, y, 1)[::-1], abs=2e-3)


def test_a_weight_of_two_is_two_rows():
    p, y, w = RNG.normal(size=12), RNG.normal(size=12), np.ones(12)
    prior, none = LinePrior(0.1, 0.1, NONE), np.empty((12, 0))
    w[:3] = 2.0
    twice = np.r_[np.arange(12), :3]
    for classes in (False, True):
        outcome = (y > 0).astype(float) if classes else y
        one = shrunk_line(outcome, p, none, w, prior, classes=classes)
        other = shrunk_line(
            outcome[twice], p[twice], none[twice % 12], np.ones(15), prior, classes=classes
        )
        assert one[:2] == pytest.approx(other[:2], abs=1e-9)


def test_one_outcome_and_equal_outcomes_give_finite_numbers():
    for classes in (False, True):
        for y in (np.ones(1), np.ones(10)):
            line = np.linspace(-1.0, 40.0, len(y))
            told = shrunk_line(
                y,
                line,
                np.zeros((len(y), 0)),
                np.ones(len(y)),
                LinePrior(0.1, 0.1, NONE),
                classes=classes,
            )
            assert np.isfinite(told[:2]).all()


def test_the_rule_is_the_one_that_was_confirmed():
    # Whoever changes one of these confirms the rule on fresh seeds: experiments/update.
    assert (few_outcomes.UNLIKE, few_outcomes.WIDE, few_outcomes.WIDE_DF) == (0.25, 3.0, 3.0)
    assert (few_outcomes.LOSS_BELOW, few_outcomes.LOSS_ABOVE) == (1.0, 3.5)
    assert few_outcomes.LOSS_ROWS == 7.0
    assert module.LIKELY == (0.85, 0.05, 0.05, 0.05)
    assert (module.WIDE_INTERCEPT, module.WIDE_SLOPE, module.WIDE_COEFFICIENT) == (1.0, 0.5, 0.5)
    assert module.RESIDUAL_ROWS == 10.0

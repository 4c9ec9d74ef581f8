"""A measure at this site: grid against closed forms, martingales by Monte Carlo, limits."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

from fedcsa.core import few_outcomes
from fedcsa.core.few_outcomes import (
    LOSS_ABOVE,
    LOSS_BELOW,
    LOSS_ROWS,
    TOO_UNLIKE,
    VARIANCE_ROWS,
    WIDE,
    Alone,
    chance,
    pooled_variance,
    this_site,
    worth_rows,
)
from fedcsa.core.random_effects import NewSite, new_site

NORMAL = 1e9  # degrees of freedom


def one_normal(mean, sd):
    return NewSite(np.zeros(1), np.ones(1), np.array([mean]), np.array([sd]))


@pytest.fixture
def nobody_unlike(monkeypatch):
    monkeypatch.setattr(few_outcomes, "UNLIKE", 0.0)


@pytest.mark.usefixtures("nobody_unlike")
@pytest.mark.parametrize("variance", [4.0, 0.04, 0.0001])
def test_two_normals_give_the_conjugate_normal(variance):
    found = this_site(one_normal(0.3, 0.2), Alone(0.6, variance, NORMAL))
    precision = 1.0 / 0.04 + 1.0 / variance
    mean, sd = (0.3 / 0.04 + 0.6 / variance) / precision, precision**-0.5
    ends = mean + sd * ndtri([0.025, 0.5, 0.975])
    told = [found.interval(0.95)[0], found.quantile(0.5), found.interval(0.95)[1]]
    assert told == pytest.approx(ends.tolist(), abs=5e-3 * sd)
    assert found.below(mean + sd) == pytest.approx(stats.norm.cdf(1.0), abs=1e-3)
    assert found.farther_than(mean, sd) == pytest.approx(2 * stats.norm.sf(1.0), abs=2e-3)


@pytest.mark.usefixtures("nobody_unlike")
def test_without_outcomes_it_is_the_prior():
    site = new_site(np.array([0.1, 0.0, -0.2]), np.full(3, 0.01), 0.2)
    assert this_site(site, None).interval(0.95) == pytest.approx(site.interval(0.95), abs=1e-3)
    assert this_site(site, None).against == 1.0


def test_with_no_prior_information_it_is_the_classical_interval():
    found = Alone(1.0, 0.04, 9.0)
    wide = this_site(one_normal(0.0, 1e4), found).interval(0.95)
    slack = stats.t.ppf(0.975, 9) * 0.2
    assert found.interval(0.95) == pytest.approx((1.0 - slack, 1.0 + slack))
    assert wide == pytest.approx(found.interval(0.95), abs=5e-3)


def test_with_infinitely_many_outcomes_it_is_the_classical_interval():
    found = Alone(1.0, 1e-8, 1e8)
    told = this_site(one_normal(0.0, 0.3), found).interval(0.95)
    assert told == pytest.approx(found.interval(0.95), abs=1e-6)


def test_outcomes_that_contradict_the_promise_take_over():
    found = Alone(2.0, 0.04, 19.0)
    told = this_site(one_normal(0.0, 0.2), found)
    assert told.against > TOO_UNLIKE
    assert told.interval(0.95) == pytest.approx(found.interval(0.95), abs=0.15)


@pytest.mark.parametrize("loss", [False, True])
def test_the_density_is_prior_times_likelihood_over_a_fine_grid(loss):
    site, found = (
        new_site(np.array([0.3, 0.0]), np.full(2, 0.02), 0.2, points=101),
        Alone(0.5, 0.05, 12.0),
    )
    x = np.linspace(-8.0, 8.0, 8_001)
    p = site.probabilities @ stats.norm.pdf(x, site.means[:, None], site.sds[:, None])
    mean = site.probabilities @ site.means
    sd = np.sqrt(site.probabilities @ (site.sds**2 + (site.means - mean) ** 2))
    below, above = (LOSS_BELOW, LOSS_ABOVE) if loss else (WIDE, WIDE)
    z = np.where(x < mean, (x - mean) / (below * sd), (x - mean) / (above * sd))
    u = stats.t.pdf(z, few_outcomes.WIDE_DF) * 2.0 / ((below + above) * sd)
    assert np.trapezoid(u, x) == pytest.approx(1.0, abs=1e-2)  # what lies beyond the grid
    likelihood = stats.t.pdf((x - 0.5) / 0.05**0.5, 12.0)
    both = ((1 - few_outcomes.UNLIKE) * p + few_outcomes.UNLIKE * u) * likelihood
    cumulated = np.cumsum(both) / both.sum()
    told = this_site(site, found, loss=loss)
    for level in (0.5, 0.95):
        ends = np.interp([0.5 - level / 2, 0.5 + level / 2], cumulated, x)
        assert told.interval(level) == pytest.approx(ends, abs=2e-3)
    assert told.against == pytest.approx((u @ likelihood) / (p @ likelihood), rel=1e-3)


def test_of_lucky_outcomes_a_loss_may_still_be_large():
    site, lucky = one_normal(0.0, 0.1), Alone(-0.2, 0.09, 30.0)
    both, loss = this_site(site, lucky), this_site(site, lucky, loss=True)
    assert loss.interval(0.95)[1] > both.interval(0.95)[1] + 0.02
    assert loss.interval(0.95)[0] > both.interval(0.95)[0]


def test_the_p_value_is_uniform_at_sites_like_the_others():
    rng = np.random.default_rng(11)
    site = one_normal(0.0, 0.2)
    x = rng.normal(0.0, (0.04 + 0.01) ** 0.5, 400)
    told = [chance(site, Alone(each, 0.01, NORMAL)) for each in x]
    assert stats.kstest(told, "uniform").pvalue > 0.01
    assert chance(site, Alone(1.5, 0.01, NORMAL)) < 1e-6


def paths(rng, truth, n_rows):
    """Running means of rows with variance 1 around the truth."""
    return truth + np.cumsum(rng.normal(size=n_rows)) / np.arange(1, n_rows + 1)


@pytest.mark.no_cover
def test_whoever_looks_after_every_outcome_is_seldom_wrong():
    rng, site, sites, ever_out, ever_unlike = (
        np.random.default_rng(2),
        one_normal(0, 0.3),
        150,
        0,
        0,
    )
    for _ in range(sites):
        truth = rng.normal(0.0, 0.3)
        looks = [
            this_site(site, Alone(x, 1.0 / n, NORMAL))
            for n, x in enumerate(paths(rng, truth, 30), 1)
        ]
        ends = np.array([look.anytime(0.95) for look in looks])
        ever_out += bool(((ends[:, 0] > truth) | (truth > ends[:, 1])).any())
        ever_unlike += max(look.against for look in looks) >= TOO_UNLIKE
    assert ever_out <= 5
    assert ever_unlike <= 5


@pytest.mark.no_cover
def test_the_posterior_interval_is_right_whenever_one_stops():
    """Stop as soon as it lies above a bar, a rule by which a classical interval misses often."""
    rng, sd, sites, missed, together = np.random.default_rng(4), 0.3, 120, 0, 0
    site = one_normal(0.0, sd)
    for _ in range(sites):
        unlike = rng.random() < few_outcomes.UNLIKE
        truth = WIDE * sd * rng.standard_t(few_outcomes.WIDE_DF) if unlike else rng.normal(0.0, sd)
        ever, stopped = False, False
        for n, x in enumerate(paths(rng, truth, 20), 1):
            look = this_site(site, Alone(x, 1.0 / n, NORMAL))
            (lower, upper), ends = look.interval(0.95), look.anytime(0.95)
            ever = ever or not ends[0] <= truth <= ends[1]
            if not stopped and (lower > 0.05 or n == 20):
                stopped = True
                missed += not lower <= truth <= upper
        together += ever
    slack = 2.0 * (0.05 * 0.95 * sites) ** 0.5
    assert missed <= 0.05 * sites + slack
    assert together <= 0.05 * sites + slack


@pytest.mark.no_cover
@pytest.mark.parametrize("loss", [False, True])
def test_the_evidence_is_a_martingale_at_sites_like_the_others(loss):
    rng, site, told = np.random.default_rng(3), one_normal(0.0, 0.3), []
    for _ in range(800):
        x = rng.normal(0.0, (0.09 + 0.25) ** 0.5)
        told.append(this_site(site, Alone(x, 0.25, NORMAL), loss=loss).against)
    assert np.mean(told) == pytest.approx(1.0, abs=4 * np.std(told) / 800**0.5 + 0.02)


def test_the_sources_support_the_variance_of_few_rows():
    assert pooled_variance(11.0, 0.5, 11.0) == pytest.approx((0.75, VARIANCE_ROWS + 10.0))
    assert pooled_variance(1.0, float("nan"), 2.0) == (2.0, VARIANCE_ROWS)
    assert pooled_variance(1e6, 1e-6, 5.0)[0] == pytest.approx(1e-6, rel=1e-4)
    assert pooled_variance(8.0, 0.2, float("nan")) == (0.2, 7.0)


def test_rows_of_a_loss_tell_less_of_its_variance():
    """Satterthwaite's degrees of freedom, 2 E(v)² / Var(v), of squared normal residuals."""
    rng, n = np.random.default_rng(5), 200
    v = (rng.normal(size=(4_000, n)) ** 2).var(axis=1, ddof=1)
    assert 2.0 * v.mean() ** 2 / v.var() == pytest.approx((n - 1.0) / LOSS_ROWS, rel=0.1)
    variance, df = pooled_variance(LOSS_ROWS * 10.0 + 1.0, 0.02, 71.0 * 0.04, loss=True)
    assert (variance, df) == pytest.approx((0.03, VARIANCE_ROWS + 10.0))
    assert pooled_variance(8.0, 0.2, float("nan"), loss=True) == (0.2, 1.0)


def test_worth_is_how_many_rows_alone_have_that_interval():
    for rows in (5.0, 30.0, 400.0):
        width = 2 * stats.t.ppf(0.975, rows - 1) * (2.0 / rows) ** 0.5
        assert worth_rows(width, 2.0, 0.95) == pytest.approx(rows, rel=1e-6)
    assert worth_rows(0.0, 2.0, 0.95) == few_outcomes.MOST_OUTCOMES
    assert worth_rows(1e30, 2.0, 0.95) == 0.0


@pytest.mark.parametrize("far", [1e6, 1e12, 1e30, 1e60])
def test_outcomes_that_are_absurdly_far_off_leave_no_gap_in_the_grid(far):
    site = new_site(np.array([0.9, 1.0, 1.1]), np.full(3, 0.01), 0.1)
    found = this_site(site, Alone(far, (far / 3.0) ** 2, 20.0))
    assert np.trapezoid(found.wide, found.points) == pytest.approx(1.0, abs=0.01)
    lower, upper = found.anytime(0.95)
    assert lower < upper

"""What a new site may expect, against integrals by brute force and against simulation."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtri
from scipy.stats import halfnorm, kstest, norm

from fedcsa.core.random_effects import (
    FARTHEST_SITE,
    NewSite,
    held_in,
    new_site,
    power,
    standing_out,
)

Y = np.array([0.10, -0.25, 0.32, 0.05])
V = np.array([0.01, 0.02, 0.005, 0.08])


# Integrals ----------------------------------------------------------------------------------


def by_quadrature(y, v, scale, extra=0.0):
    """The distribution at a new site with τ and μ integrated out numerically, μ by brute force."""
    reach = (y.min() - 8.0 * (scale + v.max() ** 0.5), y.max() + 8.0 * (scale + v.max() ** 0.5))
    mus = np.linspace(*reach, 4001)

    def given(tau):
        """Likelihood of τ with μ integrated, and the weights of every μ."""
        sd = np.sqrt(v + tau**2)
        likelihood = np.exp(norm.logpdf(y[:, None], mus, sd[:, None]).sum(axis=0))
        return likelihood.sum() * (mus[1] - mus[0]), likelihood / likelihood.sum()

    def integral(of):
        return quad(of, 0.0, 8.0 * scale, limit=200, epsabs=1e-12)[0]

    total = integral(lambda tau: halfnorm.pdf(tau, scale=scale) * given(tau)[0])

    def below(x):
        def part(tau):
            mass, weight = given(tau)
            cdf = weight @ norm.cdf(x, mus, math.sqrt(tau**2 + extra))
            return halfnorm.pdf(tau, scale=scale) * mass * cdf

        return integral(part) / total

    def beyond(size):
        f = lambda tau: halfnorm.pdf(tau, scale=scale) * given(tau)[0]  # noqa: E731
        return quad(f, size, 8.0 * scale, limit=200)[0] / total

    mean = integral(lambda tau: tau * halfnorm.pdf(tau, scale=scale) * given(tau)[0]) / total
    return below, beyond, mean


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("sites", "scale", "extra"), [(4, 0.2, 0.0), (4, 0.5, 0.03), (2, 0.2, 0.0), (1, 0.2, 0.01)]
)
def test_the_distribution_is_that_of_brute_force(sites, scale, extra):
    y, v = Y[:sites], V[:sites]
    site = new_site(y, v, scale, extra)
    below, beyond, mean = by_quadrature(y, v, scale, extra)
    for x in (-0.4, 0.0, 0.2, 0.7):
        assert site.below(x) == pytest.approx(below(x), abs=2e-5)
    assert site.between_sites == pytest.approx(mean, rel=1e-4)
    for size in (0.1, 0.2, 0.3):
        # the trapezoid ends at a point, not between two
        assert site.differs_by_more(size) == pytest.approx(beyond(size), abs=3e-3)


def test_quantiles_invert_the_distribution_and_intervals_leave_as_much_on_either_side():
    site = new_site(Y, V, 0.2)
    for q in (0.001, 0.025, 0.5, 0.9, 0.975):
        assert site.below(site.quantile(q)) == pytest.approx(q, abs=1e-10)
    for level in (0.5, 0.95):
        low, high = site.interval(level)
        assert site.below(low) == pytest.approx(0.5 - level / 2.0, abs=1e-10)
        assert site.below(high) == pytest.approx(0.5 + level / 2.0, abs=1e-10)


def test_a_grid_point_that_equals_the_size_counts_half():
    scale = 0.5  # 0.3 is a point of its grid, but for rounding
    site = new_site(Y, V, scale)
    [here] = np.flatnonzero(np.isclose(site.taus, 0.3))
    expected = site.probabilities[here + 1 :].sum() + 0.5 * site.probabilities[here]
    assert site.differs_by_more(0.3) == pytest.approx(expected, abs=1e-12)
    assert site.differs_by_more(0.0) == pytest.approx(1.0, abs=site.probabilities[0])
    assert site.differs_by_more(10.0) == 0.0


# Simulation ---------------------------------------------------------------------------------


@pytest.mark.no_cover
@pytest.mark.parametrize("sites", [2, 6])
def test_new_sites_fall_where_they_should(sites):
    """With τ from its prior and any μ, the new site's place in its distribution is uniform."""
    rng = np.random.default_rng(sites)
    scale, places, covered = 0.2, [], []
    for _ in range(1500):
        tau, v = abs(rng.normal(0.0, scale)), rng.gamma(2.0, 0.01, sites)
        effects = 5.0 + tau * rng.normal(size=sites + 1)
        site = new_site(effects[:-1] + np.sqrt(v) * rng.normal(size=sites), v, scale)
        places.append(site.below(effects[-1]))
        covered.append(0.025 < places[-1] < 0.975)
    assert kstest(places, "uniform").pvalue > 1e-3
    assert abs(np.mean(covered) - 0.95) < 4.0 * math.sqrt(0.95 * 0.05 / 1500)


# Limits and symmetries ----------------------------------------------------------------------


def test_where_all_is_moved_the_distribution_moves():
    base, moved = new_site(Y, V, 0.2), new_site(Y + 7.0, V, 0.2)
    assert moved.quantile(0.9) == pytest.approx(base.quantile(0.9) + 7.0, abs=1e-9)
    assert moved.between_sites == pytest.approx(base.between_sites, rel=1e-9)


def test_the_order_of_sites_does_not_matter():
    order = [2, 0, 3, 1]
    one, other = new_site(Y, V, 0.2), new_site(Y[order], V[order], 0.2)
    assert other.interval(0.95) == pytest.approx(one.interval(0.95), abs=1e-12)


def test_many_exact_sites_say_how_sites_differ():
    rng = np.random.default_rng(0)
    y = 0.15 * rng.normal(size=2000)
    site = new_site(y, np.full(2000, 1e-6), 0.2)
    assert site.between_sites == pytest.approx(y.std(), rel=0.01)
    assert site.interval(0.95) == pytest.approx((-1.96 * 0.15, 1.96 * 0.15), abs=0.02)


def test_one_site_leaves_tau_to_its_prior():
    site = new_site(np.array([0.3]), np.array([0.01]), 0.2)
    assert site.between_sites == pytest.approx(0.2 * math.sqrt(2.0 / math.pi), rel=1e-3)
    assert site.quantile(0.5) == pytest.approx(0.3, abs=1e-9)


def test_more_variance_makes_no_interval_narrower():
    def width(v=V, extra=0.0, scale=0.2):
        low, high = new_site(Y, v, scale, extra).interval(0.95)
        return high - low

    assert width() < width(extra=0.05) < width(extra=0.5)
    assert width() < width(v=V + 0.5)
    assert width() < width(scale=0.5)


def test_a_site_far_off_widens_the_interval_and_raises_the_doubt():
    near, far = Y.copy(), Y.copy()
    far[2] += 3.0
    assert new_site(far, V, 0.2).differs_by_more(0.2) > 0.99
    assert new_site(near, V, 0.2).differs_by_more(0.2) < new_site(far, V, 0.2).differs_by_more(0.2)


# Power --------------------------------------------------------------------------------------


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("v", "scale", "size"), [(np.full(8, 0.004), 0.2, 0.2), (np.full(5, 0.05), 0.4, 0.3)]
)
def test_the_power_is_that_of_simulated_studies(v, scale, size):
    rng = np.random.default_rng(42)
    found = []
    for _ in range(1200):
        y = rng.normal(size=len(v)) * np.sqrt(v + size**2)
        found.append(new_site(y, v, scale).differs_by_more(size) >= 0.5)
    error = math.hypot(math.sqrt(0.25 / 1200), math.sqrt(0.25 / 400))
    assert power(v, scale, size) == pytest.approx(np.mean(found), abs=4.0 * error)


def test_more_sites_of_more_rows_see_more():
    few, noisy, many = (
        power(v, 0.2, 0.2) for v in (np.full(3, 0.01), np.full(3, 0.2), np.full(30, 0.01))
    )
    assert noisy <= few < many
    assert power(np.full(3, 0.01), 0.2, 0.2) == few  # nothing random is left in it


# A site that stands out ---------------------------------------------------------------------

AGREED = np.array([0.05, -0.02, 0.01, -0.04])


def test_estimates_of_sites_that_agree_are_kept_to_the_bit():
    kept = held_in(AGREED, np.full(4, 0.01), 0.2)
    assert kept.tobytes() == AGREED.tobytes()


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_of_fewer_than_five_sites_nobody_stands_out(n):
    far = np.array([0.0, 50.0, 0.1, -0.1])[:n]
    assert held_in(far, np.full(n, 0.01), 0.2).tobytes() == far.tobytes()
    assert standing_out(far, np.full(n, 0.01), 0.2).tolist() == [0.0] * n


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_site_that_stands_out_counts_up_to_a_bound_whatever_it_claims(sign):
    v = np.full(5, 0.01)
    claims = [held_in(np.append(AGREED, sign * claim), v, 0.2) for claim in (1.0, 5.0, 700.0)]
    for kept in claims:
        assert kept[:4].tobytes() == AGREED.tobytes()
        np.testing.assert_allclose(kept[4], claims[0][4], rtol=1e-9)
    # so many standard deviations of what the others let expect
    others = new_site(AGREED, v[:4], 0.2, extra=0.01)
    np.testing.assert_allclose(ndtri(others.below(claims[0][4])), sign * FARTHEST_SITE, rtol=1e-9)


@pytest.mark.parametrize("n", [5, 6, 7, 8, 11, 40])
@pytest.mark.parametrize("v", [1e-6, 1e-4, 0.01])
def test_a_claim_beyond_all_probability_is_bounded_too(n, v):
    claims = np.append(np.linspace(-0.1, 0.1, n - 1), 100.0)  # below it: 1, but for rounding
    assert standing_out(claims, np.full(n, v), 0.2)[-1] > FARTHEST_SITE
    assert held_in(claims, np.full(n, v), 0.2)[-1] < 2.0


def test_every_site_is_compared_with_the_others_pooled_anew():
    rng = np.random.default_rng(0)
    estimates, v = rng.normal(0.0, 0.2, 30), 10.0 ** rng.uniform(-10.0, -1.0, 30)
    for j, far in enumerate(standing_out(estimates, v, 0.2)):
        rest = np.arange(30) != j
        others = new_site(estimates[rest], v[rest], 0.2, extra=float(v[j]))
        np.testing.assert_allclose(far, ndtri(others.below(estimates[j])), rtol=1e-7)


def test_the_bound_is_met_without_a_jump():
    v = np.full(5, 0.01)
    [*_, end] = held_in(np.append(AGREED, 9.0), v, 0.2)
    inside = np.append(AGREED, end * 0.999)
    assert held_in(inside, v, 0.2).tobytes() == inside.tobytes()


def test_how_far_a_site_stands_out_follows_from_the_others_alone():
    v = np.array([0.01, 0.02, 0.005, 0.01, 0.03])
    estimates = np.append(AGREED, 0.6)
    far = standing_out(estimates, v, 0.2)
    others = new_site(AGREED, v[:4], 0.2, extra=0.03)
    np.testing.assert_allclose(far[4], ndtri(others.below(0.6)), rtol=1e-12)
    assert np.abs(far[:4]).max() < 1.0


@pytest.mark.parametrize("probability", [1e-9, 0.025, 0.5, 0.9, 1.0 - 1e-9])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("apart", [0.0, 3.0, 40.0])
def test_a_quantile_is_the_root_that_brent_finds(probability, unit, apart):
    """Also of two far humps with hardly any density between them."""
    from scipy.optimize import brentq

    site = NewSite(
        taus=np.array([0.1, 0.2]),
        probabilities=np.array([0.5, 0.5]),
        means=unit * np.array([1.0, 1.0 + apart]),
        sds=unit * np.array([0.7, 1.3]),
    )
    ends = ((site.means - 12.0 * site.sds).min(), (site.means + 12.0 * site.sds).max())
    root = brentq(lambda x: site.below(x) - probability, *ends, xtol=1e-13 * unit)
    if probability == 0.5 and apart == 40.0:  # between the humps everything is a median
        assert site.below(site.quantile(0.5)) == pytest.approx(0.5, abs=1e-12)
    else:
        far = 1e-6 if min(probability, 1.0 - probability) < 1e-3 else 1e-11
        near = max(far * unit, 2e-13)
        assert site.quantile(probability) == pytest.approx(root, rel=1e-12, abs=near)
    assert site.density(site.means[0]) == pytest.approx(
        (site.below(site.means[0] + 1e-4 * unit) - site.below(site.means[0] - 1e-4 * unit))
        / (2e-4 * unit),
        rel=1e-5,
    )

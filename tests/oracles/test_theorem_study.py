"""What the study of the theorems computes, against closed forms and plain solutions."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2, norm
from sklearn.linear_model import Ridge

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "experiments"))

from lib.claims import read_claims
from lib.common import RESULTS, write_table
from lib.page import Results
from lib.paired import rate, variance_interval
from lib.paper_claims_theorems import RATIOS, claims
from paper import theorems


def chi_square(values):
    degrees = len(values) - 1
    return values.var(ddof=1) * degrees / chi2.ppf([0.975, 0.025], degrees)


def test_the_bootstrap_of_a_variance_agrees_with_chi_square_for_normal_values():
    values = np.random.default_rng(1).normal(2.0, 3.0, 1_000)
    found = variance_interval(values, 10.0)
    assert found.value == pytest.approx(10.0 * values.var(ddof=1))
    np.testing.assert_allclose([found.lower, found.upper], 10.0 * chi_square(values), rtol=0.05)


def test_the_bootstrap_of_a_variance_is_wider_where_tails_are_heavy():
    values = np.random.default_rng(2).standard_t(5, 1_000)
    found, normal = variance_interval(values), chi_square(values)
    assert found.upper - found.lower > 1.3 * (normal[1] - normal[0])


@pytest.mark.parametrize("power", [-1.0, -0.5])
def test_the_rate_of_a_bias_is_found(power):
    rng = np.random.default_rng(3)
    errors = {n: -(n**power) + 0.2 * rng.normal(size=400) / np.sqrt(n) for n in (25, 50, 100, 200)}
    found = rate(errors)
    assert found.lower < power < found.upper
    assert found.upper - found.lower < 0.4


def test_no_rate_is_told_where_there_is_no_bias_or_no_spread():
    rng = np.random.default_rng(4)
    assert rate({n: rng.normal(size=50) for n in (25, 50, 100)}) is None
    assert rate({n: np.zeros(50) for n in (25, 50)}) is None


def test_the_proofs_ratio_is_the_minimum_over_all_kernels():
    rng = np.random.default_rng(5)
    source, target, fresh = (
        rng.normal(1.0, 1.5, (12, 1)),
        rng.normal(size=(9, 1)),
        rng.normal(size=(7, 1)),
    )
    ridge, bandwidth = 0.05, 0.8
    every = np.vstack([source, target])

    def kernel(left):
        return np.exp(-((left - every.T) ** 2) / (2.0 * bandwidth**2))

    # ½ mean_S w² − mean_T w + ½ λ cᵀKc, w = Σ c k(·, row) over rows of both sides
    K_source, K_target, K = kernel(source), kernel(target), kernel(every)
    left = K_source.T @ K_source / len(source) + ridge * K
    c = np.linalg.lstsq(left, K_target.mean(axis=0), rcond=1e-13)[0]
    found = theorems.consistent_ratio(source, target, ridge, bandwidth)(fresh)
    np.testing.assert_allclose(found, np.maximum(kernel(fresh) @ c, 0.0), rtol=1e-4, atol=1e-6)


def test_the_proofs_ratio_comes_near_the_true_one():
    settings, rng = theorems.FULL, np.random.default_rng(6)
    off = {}
    for n in (40, 320):
        squares = []
        for _ in range(6):
            source, target = rng.normal(1.6, 1.4, (2 * n, 1)), rng.normal(size=(n, 1))
            ridge = n**-settings.exponent
            found = theorems.consistent_ratio(source, target, ridge, settings.bandwidth)
            x = rng.normal(1.6, 1.4, 500)
            squares.append((found(x[:, None]) - theorems.true_ratio(x, 1, settings)) ** 2)
        off[n] = np.mean(squares)
    assert off[320] < 0.5 * off[40]


@pytest.mark.parametrize("truth", theorems.TRUTHS)
def test_the_risk_of_a_line_is_its_integral(truth):
    x = np.linspace(-10.0, 10.0, 20_001)
    density = norm.pdf(x) * (x[1] - x[0])
    error = 0.3 + 0.7 * x - theorems.outcome(x, truth)
    expected = float(density @ error**2) + 1.0
    assert theorems.line_risk(np.array(0.3), np.array(0.7), truth) == pytest.approx(expected)


def test_ridge_lines_are_scikit_learns():
    rng = np.random.default_rng(7)
    x, y = rng.normal(1.0, 2.0, 30), rng.normal(size=30)
    penalties = np.array([1e-12, 0.3, 1.0])
    level, slope = theorems.ridge_lines(x, y, penalties)
    for index, penalty in enumerate(penalties):
        model = Ridge(alpha=penalty * len(x)).fit(x[:, None], y)
        assert (level[index], slope[index]) == pytest.approx((model.intercept_, model.coef_[0]))


def test_what_is_chosen_is_promised_and_true_of_the_same_mixture():
    promised = np.array(
        [
            theorems.choice_run("straight", 400, np.random.default_rng(s), theorems.FULL)
            for s in range(5)
        ]
    )
    assert promised.shape == (5, len(theorems.CHOOSERS), 4)
    assert (promised[:, :, 1] >= 1.0).all()  # the noise
    assert (promised[:, :, 3] >= 0.0).all()
    np.testing.assert_allclose(promised[:, :, 0], promised[:, :, 1], atol=0.6)


# Verdicts -------------------------------------------------------------------------------------


@pytest.fixture
def told(tmp_path):
    """The committed tables, to be changed."""
    for name in ("runs", "rates", "choice"):
        write_table(tmp_path, f"theorems_{name}", Results(RESULTS)(f"theorems_{name}"))

    def change(table, wanted, **values):
        lines = Results(tmp_path)(f"theorems_{table}")
        for line in lines:
            if all(line[key] == value for key, value in wanted.items()):
                line |= values
        write_table(tmp_path, f"theorems_{table}", lines)
        return claims(Results(tmp_path))

    return change


def test_the_committed_claims_are_those_of_the_committed_tables(told):
    found = told("runs", {"n": "nothing"})
    assert found == read_claims(RESULTS, "theorems")
    assert len(found) == 6 + len(RATIOS) + 1 + len(theorems.TRUTHS)
    for claim in found:
        words = " ".join([claim.where, claim.claim, claim.verdict, claim.sentence]).split()
        assert len(words) <= 45, claim


def test_a_limit_is_not_refuted_at_one_n_but_by_its_rate(told):
    wanted = {"ratios": "practical", "validation": "grows", "estimate": "feddae"}
    bias = {"bias_last": "-0.5", "bias_last_lower": "-0.6", "bias_last_upper": "-0.4"}
    falls = {"slope": "-0.6", "slope_lower": "-0.7", "slope_upper": "-0.5"}
    text = f"FedDAE → f_T, {RATIOS['practical']}"
    [slow] = [
        c for c in told("rates", wanted, over_sd_last="-0.5", **bias, **falls) if c.claim == text
    ]
    assert slow.verdict == "holds by its rate, hardly faster than the sd"
    [fast] = [c for c in told("rates", wanted, over_sd_last="-0.1") if c.claim == text]
    assert fast.verdict == "holds, by its rate"
    [flat] = [c for c in told("rates", wanted, slope_upper="0.1") if c.claim == text]
    assert flat.verdict == "open: no rate can be told"


def test_two_variances_that_vanish_are_called_nought_and_nought(told):
    found = {c.where: c for c in told("runs", {"n": "nothing"})}
    assert found["Theorem 2 (ii)"].verdict.startswith("0 ≤ 0 as printed")
    assert found["Corollary 3"].verdict.startswith("0 ≤ 0 as printed")
    assert found["Corollary 1 (ii)"].verdict == "holds"
    large = {"n_variance_lower": "90", "n_variance": "95", "n_variance_upper": "99"}
    wanted = {"ratios": "known", "estimate": "feddae"}
    found = {c.where: c for c in told("runs", wanted, **large)}
    assert found["Corollary 3"].verdict == "does not hold"

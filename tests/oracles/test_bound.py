"""Every term of the paper's bound (13) against a closed form or a plain count."""

import math
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "experiments"))

from lib.common import ROOT, read_table
from lib.families import case1
from lib.paper_arrays import Mixture
from paper import bound

DATA = ROOT.parent / "shared" / "data"


def test_the_last_term_is_117_at_190_rows():
    by_hand = 4 * math.sqrt((2 * math.log(380) + math.log(80)) / 190)
    assert bound.last_term(190, 0.05) == pytest.approx(by_hand, rel=1e-12)
    assert round(by_hand, 2) == 1.17
    half_spaces = 4 * math.sqrt((2 * 11 * math.log(380) + math.log(80)) / 190)
    assert bound.last_term(190, 0.05, 11) == pytest.approx(half_spaces, rel=1e-12)


@pytest.mark.parametrize(("rest", "ceiling"), [(0.0, 1.0), (0.4, 1.0), (0.2, 0.25)])
def test_the_rows_needed_are_the_first_that_do(rest, ceiling):
    n = bound.rows_needed(rest, ceiling, 0.05)
    assert rest + bound.last_term(n, 0.05) < ceiling <= rest + bound.last_term(n - 1, 0.05)


def test_no_number_of_rows_helps_where_the_other_terms_are_too_large():
    assert bound.rows_needed(1.0, 1.0, 0.05) is None
    assert bound.rows_needed(0.0, 1.0, 0.05) == 272


@pytest.mark.parametrize("distance", [0.0, 1.0, 6.0])
def test_the_divergence_is_that_of_the_best_half_space(distance):
    # two normals at this distance: the best half-space gives 2 (2 Φ(distance/2) − 1)
    rng = np.random.default_rng(3)
    source, target = rng.normal(size=(4_000, 2)), rng.normal(size=(3_000, 2))
    target[:, 0] += distance
    unseen, fitted = bound.divergence(source, target, seed=1)
    best = 2.0 * (2.0 * norm.cdf(distance / 2.0) - 1.0)
    assert unseen == pytest.approx(best, abs=0.08)
    assert unseen <= fitted + 1e-9


def test_few_rows_in_many_features_look_apart_only_in_the_sample():
    rng = np.random.default_rng(4)
    unseen, fitted = bound.divergence(rng.normal(size=(20, 30)), rng.normal(size=(20, 30)), seed=1)
    assert fitted > unseen + 0.5
    assert unseen < 1.0


def test_sides_of_unequal_size_count_alike():
    side = np.repeat([0, 1], [90, 10])
    wrong = np.repeat([False, True], [90, 10])  # everything is called a source row
    assert bound._from_errors(wrong, side) == 0.0


@pytest.mark.parametrize("sd", [0.1, 1.0, 3.0])
def test_the_best_rule_errs_as_often_as_two_normals_differ_in_sign(sd):
    # corr(m, y) = sd/√(1 + sd²), and P(signs differ) = arccos(corr)/π
    expected = math.acos(sd / math.sqrt(1.0 + sd**2)) / math.pi
    assert bound.sign_error(0.0, sd) == pytest.approx(expected, abs=1e-6)


def test_the_best_rule_far_from_the_middle_errs_as_often_as_y_is_negative():
    below = norm.cdf(-5.0 / math.sqrt(1.05))
    assert bound.sign_error(5.0, math.sqrt(0.05)) == pytest.approx(below, rel=1e-6)


def test_the_total_variation_is_the_same_from_either_side():
    # E_T[(1 − p_j/p_T)₊] = E_j[(1 − p_T/p_j)₊]; the far source shares nothing with the target
    drawn = case1(20, 30, 20).draw(1, n_truth=20_000)
    near, far = bound.total_variation(drawn)
    rng = np.random.default_rng(5)
    X = rng.normal(1.0, math.sqrt(3.0), (50_000, 10))
    log_ratio = norm.logpdf(X).sum(axis=1) - norm.logpdf(X, 1.0, math.sqrt(3.0)).sum(axis=1)
    other_way = np.maximum(0.0, 1.0 - np.exp(log_ratio)).mean()
    assert near == pytest.approx(other_way, abs=0.01)
    assert far > 0.999999


def test_the_terms_are_counted_and_weighted():
    rng = np.random.default_rng(6)
    sources = {
        name: (rng.normal(size=(n, 3)), rng.normal(size=n)) for name, n in (("a", 7), ("b", 5))
    }
    mixture = Mixture(np.array([1.0, -1.0, 0.5]), 0.1, np.array([0.25, 0.75]), 0.0, 0)
    told = bound.terms(sources, mixture, 0.0, [(0.4, 0.8), (1.2, 2.0)], [0.1, 0.3], 0.05)
    wrong = 0
    for X, y in sources.values():
        for row, outcome in zip(X, y, strict=True):
            predicted = row[0] - row[1] + 0.5 * row[2] + 0.1
            wrong += (predicted > 0.0) != (outcome > 0.0)
    assert told["empirical_error"] == pytest.approx(wrong / 12)
    assert told["half_divergence"] == pytest.approx(0.25 * 0.2 + 0.75 * 0.6)
    assert told["half_divergence_fitted"] == pytest.approx(0.25 * 0.4 + 0.75 * 1.0)
    assert told["optimal_error"] == pytest.approx(0.25 * 0.1 + 0.75 * 0.3)
    assert told["least_for_any_weights"] == pytest.approx(0.2 + 0.1)
    assert told["bound"] == pytest.approx(sum(told[key] for key in bound.TERMS))


def test_both_sides_of_the_optimal_model_have_half_of_the_weight():
    # opposite labels: what a half-space gains at one it loses at the other, if both weigh the same
    X = np.array([[-1.0], [1.0]])
    one, other = (np.repeat(X, 50, axis=0), np.repeat([0.0, 1.0], 50)), (X, np.array([1.0, 0.0]))
    assert bound.best_together(one, other) == pytest.approx(0.5)
    assert bound.best_together(one, one) == 0.0


def line(**changed):
    told = {"example": "Case 1", "bound": 0.4, "true_error": 0.3, "constant_error": 0.5, "n": 900}
    told |= {"held": 2, "runs": 2, "rows_for_one": 10, "rows_for_constant": 20}
    return told | dict.fromkeys(bound.TERMS, 0.1) | changed


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({}, "true, informative"),
        ({"bound": 0.6, "rows_for_constant": None}, "true, no better than a constant"),
        ({"bound": 1.2, "rows_for_one": None}, "true, vacuous (above 1)"),
        ({"held": 1}, "does not hold"),
    ],
)
def test_the_verdict_says_what_the_bound_is_worth(changed, verdict):
    [claim] = bound.claims([line(**changed)], 0.05)
    assert claim.verdict == verdict
    assert claim.table == "bound_terms"


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="the real data are not beside the project")
def test_the_script_runs_and_the_bound_holds(tmp_path):
    bound.main(["--quick", "--workers", "1", "--out", str(tmp_path), "--data", str(DATA)])
    lines = read_table(tmp_path / "bound_terms.csv")
    assert {(x["example"], x["weights"]) for x in lines} == set(
        product(("Case 1", "stroke trial"), bound.METHODS)
    )
    for told in lines:
        assert float(told["bound"]) >= float(told["true_error"])
        assert float(told["half_divergence"]) <= float(told["half_divergence_most"]) + 0.05
    assert len(read_table(tmp_path / "claims_bound.csv")) == 2


def test_absent_data_are_named(tmp_path):
    with pytest.raises(SystemExit, match="Edinburgh DataShare"):
        bound.main(["--quick", "--out", str(tmp_path), "--data", str(tmp_path)])

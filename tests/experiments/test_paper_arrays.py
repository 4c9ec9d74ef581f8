import numpy as np
import pytest
from lib import paper_cases, paper_readings
from lib.claims import Claim, judge, read_claims, side, write_claims
from lib.families import case1
from lib.page import Results, interval, render
from lib.paired import difference, mean_interval, mean_ratio, ratio_slope, slope_over, spread_ratio
from lib.paper_arrays import (
    BANDWIDTHS,
    ORDERS,
    RatioReading,
    Ridge,
    WeightedLeastSquares,
    conclude,
    held_out_ridge,
    least_squares,
    own_ridge,
    prepare,
    split,
)
from lib.paper_cases import FLOOR, default_error
from lib.paper_readings import (
    AS_PRINTED,
    FACTORS,
    METHODS,
    all_readings,
    common_choices,
    mean_absolute_error,
    run_readings,
)
from scipy.stats import foldnorm
from sklearn.linear_model import RidgeCV

import fedcsa
from fedcsa.core.folds import dealt_labels, generator_for
from fedcsa.core.ridge import ridge_path

PENALTIES = np.linspace(0.0, 1.0, 11)


@pytest.fixture(scope="module")
def drawn():
    return case1(20, 60, 50).draw(3, n_truth=50)


def folds_of(drawn, seed):
    labels = {
        name: dealt_labels(len(y), generator_for(seed, name, "folds"))
        for name, (_, y) in drawn.sources.items()
    }
    return {
        name: tuple(np.flatnonzero(own == part) for part in range(3))
        for name, own in labels.items()
    }


@pytest.mark.parametrize(
    ("model", "candidates", "path"),
    [
        ("ridge", PENALTIES.tolist(), Ridge(PENALTIES)),
        (
            {"name": "ridge", "penalty_scale": "sklearn", "intercept": False},
            PENALTIES.tolist(),
            Ridge(PENALTIES, intercept=False, penalty_scale="sum"),
        ),
        ("weighted-least-squares", [0.0, 0.5, 1.0], WeightedLeastSquares(np.array([0, 0.5, 1.0]))),
    ],
    ids=["ridge", "sum-no-intercept", "weighted"],
)
def test_as_printed_is_what_the_preset_answers(drawn, model, candidates, path):
    folds = folds_of(drawn, 5)
    light = conclude(prepare(drawn.sources, drawn.X_target, 5, folds=folds), path)
    for method, mixture in light.items():
        full = fedcsa.FedCSA(
            preset="paper", model=model, candidates=candidates, method=method, random_state=5
        ).fit(drawn.sources, drawn.X_target)
        np.testing.assert_allclose(mixture.risk, full.target_risk_, rtol=1e-8)
        weights = list(full.source_weights_.values())
        np.testing.assert_allclose(mixture.source_weights, weights, rtol=1e-8, atol=1e-10)
        expected = full.predict(drawn.X_truth)
        np.testing.assert_allclose(mixture.predict(drawn.X_truth), expected, rtol=1e-8, atol=1e-8)


# All readings at once -----------------------------------------------------------------------


def slow_error(mixture):
    return mean_absolute_error(mixture.coefficients, mixture.intercept)


@pytest.mark.parametrize("folds", FACTORS["folds"])
def test_shared_fits_give_what_every_reading_gives_alone(drawn, folds):
    found = run_readings(drawn, 5, PENALTIES).methods
    shares = paper_readings.FOLDS[folds]
    kept = {"flat_ratio": "kept", "reference_rows": "70 %", "folds": folds}
    for index, reading in enumerate(all_readings()):
        if any(reading[key] != value for key, value in kept.items()):
            continue
        ridge = Ridge(PENALTIES, reading["intercept"] == "free", reading["penalty"])
        ratio = RatioReading(shares, reading["bandwidth"], reading["order"])
        alone = conclude(prepare(drawn.sources, drawn.X_target, 5, ratio), ridge)
        expected = [slow_error(alone[method]) for method in METHODS[:3]]
        np.testing.assert_allclose(found[index, :3], expected, rtol=1e-9)
        n = round(0.7 * len(drawn.y_target))
        X, y = drawn.X_target[:n], drawn.y_target[:n]
        if reading["reference_choice"] == "hold-out":
            rule = held_out_ridge(X, y, ridge)
        else:
            rule = own_ridge(X, y, ridge.scaled(n), intercept=ridge.intercept)
        assert found[index, 3] == pytest.approx(mean_absolute_error(*rule), rel=1e-9)


def test_a_source_with_a_flat_ratio_is_left_out_unless_all_are(drawn):
    rng = np.random.default_rng(0)
    (X, y), _ = drawn.sources.values()
    folds = [((X[:20], y[:20]), (X[20:30], y[20:30])), ((X[30:50], y[30:50]), (X[50:], y[50:]))]
    uneven, flat = rng.uniform(0.5, 2.0, 10), np.full(len(X) - 50, 0.1)
    ratios = {(0, 0): [uneven, flat + 1e-5 * rng.normal(size=len(flat))], (1, 0): [flat[:10], flat]}
    told = paper_readings.methods_under(folds, ratios, Ridge(PENALTIES))
    kept, zero, low = told[0, 0]
    assert kept[1] > 0.5  # its Div is as good as nothing
    assert (zero[1], low[1]) == (0.0, 0.0)
    assert zero[0][2] == pytest.approx(low[0][2])
    assert told[1, 0][0] == told[1, 0][1] == told[1, 0][2]


def test_the_expected_error_is_the_mean_of_a_folded_normal():
    drawn = case1(20, 30, 20).draw(1, n_truth=100_000)
    b, b0 = np.random.default_rng(0).normal(size=10), -0.7
    left = drawn.X_truth @ b + b0 - drawn.y_truth
    sd = np.sqrt(1.0 + ((b - 0.1) ** 2).sum())
    assert mean_absolute_error(b, b0) == pytest.approx(foldnorm(0.7 / sd, scale=sd).mean())
    assert mean_absolute_error(b, b0) == pytest.approx(np.abs(left).mean(), rel=0.015)
    assert mean_absolute_error(np.full(10, 0.1), 0.0) == pytest.approx(FLOOR)


def test_the_defaults_error_is_that_of_its_predictions():
    drawn = case1(20, 30, 20).draw(1, n_truth=100_000)
    error, refused = default_error(drawn.sources, drawn.X_target, 1, PENALTIES)
    fitted = paper_cases.default(drawn.sources, drawn.X_target, 1, PENALTIES)
    told = np.abs(fitted.predict(drawn.X_truth) - drawn.y_truth).mean()
    assert error == pytest.approx(told, rel=0.01)
    assert refused == fitted.adaptation_.refused


def test_what_readings_share_is_told_unless_it_is_everything():
    some = [r for r in all_readings() if r["penalty"] == "sum" and r["bandwidth"] != "grid"]
    assert common_choices(some) == "bandwidth median or densratio, penalty sum"
    assert common_choices(all_readings()) == common_choices([]) == ""
    assert all_readings().count(AS_PRINTED) == 1


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("rows", [6, 40])
def test_least_squares_is_the_packages(drawn, intercept, rows):
    X, y = (part[:rows] for part in drawn.sources["s01"])
    weights = np.linspace(0.1, 1.0, rows)
    mine = least_squares(X, y, weights, PENALTIES, intercept)
    theirs = ridge_path(X, y, PENALTIES, weights, intercept=intercept)
    for left, right in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(left, right, atol=1e-10)


@pytest.mark.parametrize("intercept", [True, False])
def test_the_reference_is_ridge_by_leave_one_out(drawn, intercept):
    X, y = drawn.X_target, drawn.y_target
    b, b0 = own_ridge(X, y, PENALTIES[1:], intercept=intercept)
    known = RidgeCV(alphas=len(y) * PENALTIES[1:], fit_intercept=intercept).fit(X, y)
    np.testing.assert_allclose(b, known.coef_, rtol=1e-8)
    np.testing.assert_allclose(b0, known.intercept_, rtol=1e-8)


def test_folds_are_disjoint_and_have_their_shares():
    folds = split(100, (0.21, 0.49, 0.30), np.random.default_rng(0))
    assert [len(fold) for fold in folds] == [21, 49, 30]
    assert sorted(np.concatenate(folds)) == list(range(100))


@pytest.mark.parametrize(
    "reading",
    [
        RatioReading(bandwidth=bandwidth, order=order)
        for bandwidth in BANDWIDTHS
        for order in ORDERS
    ],
    ids=str,
)
def test_every_reading_of_the_ratio_gives_ratios(drawn, reading):
    for each in prepare(drawn.sources, drawn.X_target, 1, reading):
        assert (each.ratios_validation >= 0.0).all()


def test_a_power_without_a_weighted_row_is_no_candidate():
    B, b0 = WeightedLeastSquares(np.array([0.0, 1.0])).fit(
        np.arange(4.0)[:, None], np.arange(4.0), np.zeros(4)
    )
    np.testing.assert_array_equal(np.isnan(b0), [False, True])
    np.testing.assert_allclose(B[0, 0], 1.0)


# Paired comparisons -------------------------------------------------------------------------


def test_intervals_hold_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(0)
    held = {"difference": [], "mean_ratio": [], "spread_ratio": []}
    for _ in range(150):
        noise = rng.normal(size=80)
        left, right = 2.0 + noise, 1.0 + 0.5 * noise + 0.1 * rng.normal(size=80)
        for name, found, truth in (
            ("difference", difference(left, right), 1.0),
            ("mean_ratio", mean_ratio(left, right), 2.0),
            ("spread_ratio", spread_ratio(left, right), 1.0 / np.sqrt(0.26)),
        ):
            held[name].append(found.lower <= truth <= found.upper)
    assert all(0.88 <= np.mean(values) <= 0.99 for values in held.values())


def test_slopes_are_those_of_a_line():
    at = [1.0, 2.0, 4.0]
    values = np.outer([1.0, 1.0, 1.0], at) * 0.5
    assert slope_over(values, at).value == pytest.approx(0.5)
    assert ratio_slope(values, np.ones_like(values), at).value == pytest.approx(0.5)


def test_one_value_has_no_finite_interval():
    assert mean_interval([1.0]).side() == "unclear"


# Verdicts -----------------------------------------------------------------------------------


def told(value, lower, upper):
    return {"d": str(value), "d_lower": str(lower), "d_upper": str(upper)}


def test_a_claim_holds_only_if_every_interval_agrees():
    clear, open_, against = told(-1, -2, -0.5), told(-1, -2, 0.5), told(1, 0.5, 2)
    assert [side(line, "d") for line in (clear, open_, against)] == ["below", "unclear", "above"]
    assert judge([clear, clear], "d") == "holds"
    assert judge([clear, open_], "d") == "holds in the means, not clearly"
    assert judge([clear, against], "d") == "does not hold"
    assert judge([against, against], "d") == "does not hold, the opposite is clear"


def test_claims_come_back_as_they_were_written(tmp_path):
    claim = Claim("Table 1", "best, always", "does not hold", "In 0 of 20.", "table1")
    write_claims(tmp_path, "somewhere/table1.py", [claim])
    assert read_claims(tmp_path, "table1") == [claim]


def test_a_page_without_a_block_is_refused(tmp_path):
    with pytest.raises(ValueError, match="one block 'x'"):
        render("nothing", {"x": lambda _: ""}, Results(tmp_path))


def test_an_interval_in_words():
    assert interval(told(1, 0.5, 2), "d", 1) == "1.0 [0.5, 2.0]"

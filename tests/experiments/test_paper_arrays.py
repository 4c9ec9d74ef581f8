import numpy as np
import pytest
from lib.common import write_table
from lib.families import case1
from lib.page import Results, interval, render
from lib.paired import difference, mean_interval, mean_ratio, ratio_slope, slope_over, spread_ratio
from lib.paper_arrays import (
    GRIDS,
    RatioReading,
    Ridge,
    WeightedLeastSquares,
    conclude,
    least_squares,
    own_ridge,
    prepare,
    split,
)
from lib.paper_verdicts import judge, side, tally, under_readings
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
        name: dealt_labels(len(y), "split", generator_for(seed, name, "folds"))
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
def test_the_light_engine_answers_as_the_package_does(drawn, model, candidates, path):
    folds = folds_of(drawn, 5)
    light = conclude(prepare(drawn.sources, drawn.X_target, 5, folds=folds), path)
    for method, mixture in light.items():
        full = fedcsa.FedCSA(
            model=model,
            candidates=candidates,
            method=method,
            exchange="rows",
            scale=False,
            random_state=5,
        ).fit(drawn.sources, drawn.X_target)
        np.testing.assert_allclose(mixture.risk, full.target_risk_, rtol=1e-8)
        weights = list(full.source_weights_.values())
        np.testing.assert_allclose(mixture.source_weights, weights, rtol=1e-6, atol=1e-9)
        expected = full.predict(drawn.X_truth)
        np.testing.assert_allclose(mixture.predict(drawn.X_truth), expected, rtol=1e-6, atol=1e-8)


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
    [RatioReading(grid=grid) for grid in GRIDS],
    ids=GRIDS,
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
    assert tally([clear, open_, against, against], "d") == "1 / 2 / 1"


def test_readings_widen_a_verdict_only_where_one_is_clear(tmp_path):
    line = {"claim": "c", "readings": 8, "holds": 0.5, "clearly": 0.25, "refuted": 0.125}
    write_table(tmp_path, "readings_claims", [line, {**line, "claim": "none", "clearly": 0.0}])
    reading = {"intercept": "free", "penalty": "mean", "folds": "thirds"}
    reading |= {"grid": "single", "clip": "ratio", "c": "clearly", "none": "fails"}
    write_table(tmp_path, "readings", [reading | {"penalty": "sum"}, reading | {"clip": "other"}])
    results = Results(tmp_path)
    assert under_readings(results, "does not hold", "c")[0] == (
        "holds under 2 of 8 readings, all with intercept free, folds thirds, grid single"
    )
    assert under_readings(results, "does not hold", "none")[0] == "does not hold"
    assert under_readings(results, "holds", "c")[0] == "holds"


def test_a_page_without_a_block_is_refused(tmp_path):
    with pytest.raises(ValueError, match="one block 'x'"):
        render("nothing", {"x": lambda _: ""}, Results(tmp_path))


def test_an_interval_in_words():
    assert interval(told(1, 0.5, 2), "d", 1) == "1.0 [0.5, 2.0]"

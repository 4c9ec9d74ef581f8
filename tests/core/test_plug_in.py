"""The target's own scores correct what a source found, and add their own sampling."""

import numpy as np
import pytest
from scipy.special import expit

from fedcsa.core.measures import left_out_variance, measure_columns, measure_values
from fedcsa.core.plug_in import expected_outcomes, lines_of, own_sampling, shifts, sums_of_cells
from fedcsa.core.scores import JACKKNIFE_GROUPS, OwnScores, ScoreDesign, ScoreSums, told_by

DESIGN = ScoreDesign(2, (0.2, 0.4))


def site(n, centre, seed, n_classes=2):
    rng = np.random.default_rng(seed)
    x = centre + rng.normal(size=n)
    odds = np.exp(np.column_stack([np.zeros(n), x, -x][:n_classes]))
    p = odds / odds.sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1).astype(float)
    return y, p


def told_of(design, y, p, min_rows=1):
    n = len(y)
    labels, inside = np.arange(n) % JACKKNIFE_GROUPS, np.ones((n, 1), bool)
    sums = ScoreSums.of_rows(design, y, p, np.full(n, 1.0 / n), labels, inside)
    return told_by(design, *sums.told(min_rows)[:2])[0]


def own_of(design, p):
    return OwnScores.of_rows(design, p, np.ones((len(p), 1), bool))


def linked(told):
    return measure_values(told)[2]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_that_spread_alike_change_nothing(n_classes):
    design = ScoreDesign(n_classes, (0.2,) if n_classes == 2 else ())
    y, p = site(400, -1.0, 0, n_classes)
    assert shifts(told_of(design, y, p), own_of(design, p), 0) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_other_scores_move_every_measure_towards_the_targets_own(n_classes):
    design = ScoreDesign(n_classes, (0.4,) if n_classes == 2 else ())
    there = site(20_000, 0.0, 2, n_classes)
    here = told_of(design, *site(20_000, -1.0, 1, n_classes))
    direct, truth = linked(here), linked(told_of(design, *there))
    corrected = direct + shifts(here, own_of(design, there[1]), 0)
    for k, column in enumerate(measure_columns(design)):
        if column.measure.plug_in and abs(direct[k] - truth[k]) > 0.1:
            assert abs(corrected[k] - truth[k]) < 0.5 * abs(direct[k] - truth[k]), column


def test_the_calibration_slope_and_numbers_are_not_corrected():
    told, own = told_of(DESIGN, *site(300, -1.0, 0)), own_of(DESIGN, site(300, 0.5, 1)[1])
    found = shifts(told, own, 0)
    names = [column.measure.name for column in measure_columns(DESIGN)]
    assert found[names.index("calibration_slope")] == 0.0
    assert abs(found[names.index("event_rate")]) > 0.5
    numbers = ScoreDesign(0)
    y, p = np.random.default_rng(0).normal(size=(2, 100))
    assert (shifts(told_of(numbers, y, p), own_of(numbers, p + 1.0), 0) == 0.0).all()
    assert (own_sampling(own_of(numbers, p), 0) == 0.0).all()


def test_without_a_line_or_rows_nothing_is_corrected():
    y, p = site(200, 0.0, 0)
    same = told_of(DESIGN, y, np.full_like(p, 0.5))
    assert lines_of(same) is None
    assert (shifts(same, own_of(DESIGN, p), 0) == 0.0).all()
    nobody = OwnScores.of_rows(DESIGN, p, np.zeros((200, 1), bool))
    assert (shifts(told_of(DESIGN, y, p), nobody, 0) == 0.0).all()
    assert (own_sampling(nobody, 0) == 0.0).all()


def test_own_sampling_is_a_jackknife_over_rows():
    n, columns = 60, measure_columns(DESIGN)
    x = np.random.default_rng(3).integers(-6, 4, n) / 3.0  # each value is alone in its bin
    p = np.column_stack([expit(-x), expit(x)])
    each = []
    for i in range(n):
        score = np.delete(p[:, 1], i)
        cells = np.zeros((DESIGN.n_bins, 2))
        np.add.at(cells, DESIGN.bins(score), np.column_stack([np.ones(n - 1), score]) / (n - 1))
        told = expected_outcomes([cells], [np.arange(DESIGN.n_bins)], [(0.0, 1.0)], DESIGN, n)
        each.append(linked(told))
    slow, found = left_out_variance(np.array(each)), own_sampling(own_of(DESIGN, p), 0)
    for k, column in enumerate(columns):
        if column.measure.plug_in:
            assert found[k] == pytest.approx(slow[k], rel=1e-6, abs=1e-14), column


def test_expected_outcomes_follow_the_line():
    x = np.array([-2.0, 0.0, 1.0])
    cells = np.column_stack([[0.2, 0.5, 0.3], [0.2, 0.5, 0.3] * expit(x)])
    ends = np.array([10, 20, 30])
    told = expected_outcomes([cells], [ends], [(0.3, 1.5)], DESIGN, 100.0)
    assert told.table_of(1)[1] == pytest.approx(cells[:, 0] * expit(0.3 + 1.5 * x))
    assert float(told.effective_rows) == pytest.approx(100.0)
    assert lines_of(told)[0] == pytest.approx((0.3, 1.5), abs=1e-8)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sums_of_cells_are_those_of_rows_with_a_cells_score(n_classes):
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, 300) / 2.0
    odds = np.exp(np.column_stack([np.zeros(300), 1.3 * x - 0.5, -0.3 * x][:n_classes]))
    p = odds / odds.sum(axis=1, keepdims=True)
    y = rng.integers(0, n_classes, 300).astype(float)
    told = told_of(ScoreDesign(n_classes), y, p)
    found = sums_of_cells(told.cells, told.design, 300.0)
    names = [n for n in told.design.sum_names if not n.startswith("event_squares")]
    for name in names:
        k = told.design.sum_names.index(name)
        assert found[k] == pytest.approx(told.exact[k], abs=1e-9), name

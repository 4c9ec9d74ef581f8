"""Score tables: bins, sums over batches, and what may be told."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from fedcsa.core.formulas import auroc
from fedcsa.core.scores import (
    JACKKNIFE_GROUPS,
    TABLE_COLUMNS,
    OwnScores,
    ScoreDesign,
    ScoreSums,
    complement,
    told_by,
)


def rows_of(n=600, seed=0, n_classes=2, spread=1.0, level=-1.0):
    """Outcomes, predictions, weights, jackknife groups of some rows."""
    rng = np.random.default_rng(seed)
    x = spread * rng.normal(size=n)
    w = rng.exponential(size=n)
    if n_classes == 0:
        y, p = 3.0 + 2.0 * x + rng.normal(size=n), 3.0 + 1.6 * x
    else:
        odds = np.exp(np.column_stack([np.zeros(n), x + level, -x][:n_classes]))
        p = odds / odds.sum(axis=1, keepdims=True)
        y = (p.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1).astype(float)
    return y, p, w / w.sum(), rng.integers(0, JACKKNIFE_GROUPS, n)


def everybody(n, *subgroups):
    return np.column_stack([np.ones(n, bool), *subgroups])


def sums_of(design, y, p, w, labels, inside=None):
    inside = everybody(len(y)) if inside is None else inside
    return ScoreSums.of_rows(design, y, p, w, labels, inside)


# Bins -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("thresholds", [(), (0.2,), (0.5,), (0.9, 0.1), (1e-6, 0.999999)])
def test_thresholds_are_edges_and_no_edge_is_there_twice(thresholds):
    design = ScoreDesign(2, thresholds)
    assert set(thresholds) <= set(design.edges.tolist())
    assert (np.diff(design.edges) > 1e-10).all()
    for t in thresholds:
        below, at = design.bins(np.array([np.nextafter(t, 0.0), t]))
        assert (below, at) == (at - 1, np.flatnonzero(design.edges == t)[0] + 1)


def test_probabilities_of_zero_and_one_have_bins():
    design = ScoreDesign(2)
    assert design.bins(np.array([0.0, 1.0])).tolist() == [0, design.n_bins - 1]


def test_of_two_classes_the_second_has_a_table_of_more_each():
    assert [ScoreDesign(k).classes for k in (0, 2, 3)] == [(0,), (1,), (0, 1, 2)]


@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("level", [-4.0, 0.0])
def test_the_auroc_of_a_told_table_is_near_that_of_the_rows(spread, level):
    y, p, w, labels = rows_of(4000, 1, spread=spread, level=level)
    design = ScoreDesign(2, (0.1,))
    sums = sums_of(design, y, p, w, labels)
    told = told_by(design, *sums.told()[:2])[0]
    exact = roc_auc_score(y, p[:, 1], sample_weight=w)
    assert float(auroc(told, 1)[0]) == pytest.approx(exact, abs=0.005)


# Batches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_batches_give_what_all_rows_give(n_classes):
    y, p, w, labels = rows_of(500, 2, n_classes)
    inside = everybody(500, y > 0)
    design = ScoreDesign(n_classes, (0.3,) if n_classes else (), 1, centre=3.0, unit=2.0)
    whole = ScoreSums.of_rows(design, y, p, w, labels, inside)
    parts = [slice(0, 90), slice(90, 91), slice(91, 500)]
    first, *rest = (
        ScoreSums.of_rows(design, y[i], p[i], w[i], labels[i], inside[i]) for i in parts
    )
    for part in rest:
        first = first.merge(part)
    for merged, at_once in zip(first.told()[:2], whole.told()[:2], strict=True):
        np.testing.assert_allclose(merged, at_once, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_a_table_adds_up_to_the_sums(n_classes):
    y, p, w, labels = rows_of(500, 3, n_classes)
    design = ScoreDesign(n_classes, centre=3.0, unit=2.0)
    sums = sums_of(design, y, p, w, labels)
    told = told_by(design, *sums.told()[:2])[0]
    for c in design.classes:
        weight, outcomes, predicted = (part.sum() for part in told.table_of(c))
        names = (f"events_{c}", f"expected_{c}") if n_classes else ("y", "p")
        assert weight == pytest.approx(float(told.sums["weight"]))
        assert outcomes == pytest.approx(float(told.sums[names[0]]))
        assert predicted == pytest.approx(float(told.sums[names[1]]))


# What may be told -----------------------------------------------------------------------------


def in_cells(design, table, s, scores):
    """The cell of every row, of class 1."""
    part = table[(table[:, 0] == s) & (table[:, 1] == 1)]
    return np.searchsorted(part[:, 2], design.bins(scores)), len(part)


@pytest.mark.parametrize("seed", range(4))
def test_no_cell_gives_a_patient_away(seed):
    y, p, w, labels = rows_of(300, seed)
    inside = everybody(300, np.random.default_rng(seed).random(300) < 0.3)
    design = ScoreDesign(2, (0.05, 0.3, 0.8), 1)
    table = ScoreSums.of_rows(design, y, p, w, labels, inside).told()[0]
    for s, members in ((0, inside[:, 0]), (1, inside[:, 1]), (1, ~inside[:, 1])):
        cell, n_cells = in_cells(design, table, s, p[:, 1])
        assert n_cells > 1
        for k in range(n_cells):
            here = members & (cell == k)
            if here.any():
                assert here.sum() >= 5
                assert (w[here] ** 2).max() <= 0.5 * (w[here] ** 2).sum() * (1 + 1e-9)
                assert y[here].min() == 0.0  # events are rarer here
    # a subgroup's cells are unions of everybody's
    ends = [set(table[table[:, 0] == s, 2]) for s in (0, 1)]
    assert ends[1] <= ends[0]


def test_with_one_row_a_cell_everything_is_told():
    y, p, w, labels = rows_of(50)
    design = ScoreDesign(2)
    table = sums_of(design, y, p, w, labels).told(1)[0]
    rows = table[:, TABLE_COLUMNS.index("rows")]
    counts = np.bincount(design.bins(p[:, 1]))
    assert rows.tolist() == counts[counts > 0].tolist()


def test_with_one_row_a_cell_every_threshold_lies_between_two_cells():
    y, p, w, labels = rows_of(50)
    design = ScoreDesign(2, (0.2, 0.9999, 1e-9), 1)
    inside = everybody(50, p[:, 1] > 0.3)
    table, _, parts = sums_of(design, y, p, w, labels, inside).told(1)
    walls = {*(design.bins(np.array(design.thresholds)) - 1).tolist(), design.n_bins - 1}
    for s in (0, 1):
        _, _, ends, rows, *_ = table[table[:, 0] == s].T
        assert walls <= set(ends)
        assert set(ends[rows == 0.0]) <= walls  # nobody is there, and that is known
        cell, n_cells = in_cells(design, table, s, p[inside[:, s], 1])
        assert np.bincount(cell, minlength=n_cells).tolist() == rows.tolist()
    assert np.isfinite([part.split(1, t) for part, _ in parts.values() for t in (0.2, 1e-9)]).all()


@pytest.mark.parametrize("few", [3, 97])
def test_a_subgroup_of_few_rows_or_with_a_small_rest_is_not_told(few):
    y, p, w, labels = rows_of(100)
    design = ScoreDesign(2, (), 1)
    sums = ScoreSums.of_rows(design, y, p, w, labels, everybody(100, np.arange(100) < few))
    table, exact, parts = sums.told()
    assert set(table[:, 0]) == {0.0}
    assert (exact[1] == 0.0).all()
    assert set(told_by(design, table, exact)) == set(parts) == {0}


@pytest.mark.parametrize("heavy", [False, True])
def test_of_four_rows_or_one_heavy_row_nothing_is_told(heavy):
    y, p, w, labels = rows_of(40 if heavy else 4)
    w[0] = 100.0 if heavy else w[0]
    sums = ScoreSums.of_rows(ScoreDesign(2, (), 1), y, p, w, labels, everybody(len(y), w < 0.02))
    table, exact, parts = sums.told()
    assert table.shape == (0, len(TABLE_COLUMNS))
    assert (exact == 0.0).all()
    assert not parts


@pytest.mark.parametrize("rare", [1.0, 0.0])
def test_rows_of_the_rarer_kind_are_never_a_cell_of_their_own(rare):
    _, _, w, labels = rows_of(200)
    y = np.where(np.arange(200) < 160, 1.0 - rare, rare)
    score = np.where(y == 1.0, 0.9, 0.1) + np.linspace(-0.09, 0.09, 200)
    p = np.column_stack([1.0 - score, score])
    table = sums_of(ScoreDesign(2), y, p, w, labels).told()[0]
    assert len(table) > 3
    of_rarer = table[:, 5] if rare else table[:, 4] - table[:, 5]
    assert (of_rarer < table[:, 4] - 1e-9).all()


def split(design, sums, threshold):
    return told_by(design, *sums.told()[:2])[0].split(1, threshold)


def test_rates_at_a_threshold_are_exact_or_not_told():
    y, p, w, labels = rows_of(600)
    score, few = p[:, 1], float(np.sort(p[:, 1])[-3])
    design = ScoreDesign(2, (0.2, few, 0.9999, 1e-9))
    sums = sums_of(design, y, p, w, labels)
    for t in (0.2, 0.9999, 1e-9):
        above = score >= t
        sides = [w[side & (y == k)].sum() for side in (above, ~above) for k in (1, 0)]
        assert [float(part) for part in split(design, sums, t)] == pytest.approx(sides)
    assert np.isnan(split(design, sums, few)).all()  # three rows lie above


def test_a_score_that_equals_the_threshold_lies_above():
    n = 40
    score = np.repeat([0.1, 0.2], n // 2)
    y, w = np.tile([0.0, 1.0], n // 2), np.full(n, 1.0 / n)
    design = ScoreDesign(2, (0.2,))
    p = np.column_stack([1.0 - score, score])
    sums = sums_of(design, y, p, w, np.arange(n) % JACKKNIFE_GROUPS)
    assert sum(map(float, split(design, sums, 0.2)[:2])) == pytest.approx(0.5)


# Subgroups and the target ---------------------------------------------------------------------


def test_the_rest_is_everybody_less_the_subgroup():
    y, p, w, labels = rows_of(400, 5)
    outside = np.arange(400) % 3 == 0
    design = ScoreDesign(2, (), 1)
    sums = ScoreSums.of_rows(design, y, p, w, labels, everybody(400, ~outside))
    told = told_by(design, *sums.told(1)[:2])
    rest = complement(told[0], told[1])
    [weight] = {float(rest.sums["weight"].round(12))}
    assert weight == pytest.approx(w[outside].sum())
    exact = roc_auc_score(y[outside], p[outside, 1], sample_weight=w[outside])
    assert float(auroc(rest, 1)[0]) == pytest.approx(exact, abs=0.005)


def test_own_scores_are_shares_of_the_rows():
    _, p, _, _ = rows_of(300, 6, 3)
    inside = everybody(300, p[:, 0] > 0.3, np.zeros(300, bool))
    own = OwnScores.of_rows(ScoreDesign(3, (), 2), p, inside)
    assert own.n_rows.tolist() == [300, inside[:, 1].sum(), 0]
    np.testing.assert_allclose(own.shares[:2, :, :, 0].sum(axis=-1), 1.0)
    np.testing.assert_allclose(own.shares[0, :, :, 1].sum(axis=-1), p.mean(axis=0))
    assert (own.shares[2] == 0.0).all()

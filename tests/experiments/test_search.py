"""The comparison of searches: lattices are those of the rule, and searches hear of them."""

from dataclasses import replace

import numpy as np
import pytest
from lib.common import ROOT, read_table
from lib.page import Results
from lib.search_figures import draw_search
from lib.search_surface import LEAST, Axis, Lattice, Surface, ridge, surface

pytest.importorskip("optuna")

from lib.searches import NESTED, SEARCHES
from search import compare, write_search

DATA = ROOT.parent / "shared" / "data"
SMALL = Lattice(
    (Axis("penalty", (0.01, 0.1, 1.0), log=True, grid=2), Axis("ratio_power", (0.0, 0.5, 1.0)))
)


def test_a_lattice_has_every_combination_and_its_grid_a_part():
    assert len(SMALL.candidates) == len(SMALL.positions) == 9
    assert SMALL.candidates[1] == {"penalty": 0.01, "ratio_power": 0.5}
    assert [SMALL.candidates[k]["penalty"] for k in SMALL.grid] == [0.01] * 3 + [1.0] * 3
    np.testing.assert_allclose(SMALL.positions[3], [0.5, 0.0])
    assert SMALL.nearest({"penalty": 0.2, "ratio_power": 0.9}) == 5
    for space in compare.SPACES.values():
        lattice = space[2]
        assert [lattice.nearest(point) for point in lattice.candidates] == list(
            range(len(lattice.candidates))
        )


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(1)

    def site(mean, rows):
        X = rng.normal(mean, 1.0, (rows, 2))
        return X, X @ [1.0, -0.5] + 0.3 * X[:, 0] ** 2 + rng.normal(0.0, 0.5, rows)

    sources = {"a": site(0.0, 60), "b": site(0.7, 50), "c": site(-0.5, 40)}
    target = site(0.4, 80)
    found = surface(sources, target, [False, False], None, SMALL, ridge, seed=3)
    return sources, target, found


def line(z, y, weights, penalty):
    """Weighted ridge by its normal equations."""
    share = weights / weights.sum()
    x_mean, y_mean = share @ z, share @ y
    left = (z - x_mean).T @ (share[:, None] * (z - x_mean)) + penalty * np.eye(z.shape[1])
    slope = np.linalg.solve(left, (z - x_mean).T @ (share * (y - y_mean)))
    return lambda rows: y_mean + (rows - x_mean) @ slope


def test_a_point_is_what_loops_over_the_rule_give(small):
    from fedcsa.core.table import Table1
    from fedcsa.core.tilt import fit_tilt

    sources, (X, y), found = small
    table = Table1.of(X, ["x0", "x1"], [False, False])
    k = 5  # penalty 0.1, ratio_power 1
    models, weights = [], []
    for j, (rows, outcome) in enumerate(sources.values()):
        z = (rows - table.mean) / table.sd
        w = fit_tilt([z], np.array([False, False]), table.correlations).weights(z)
        training = np.maximum(w, LEAST / len(w))
        folds = np.random.default_rng([3, j]).permutation(len(z)) % 5
        losses = np.zeros(len(z))
        for i in range(len(z)):
            rest = folds != folds[i]
            losses[i] = (line(z[rest], outcome[rest], training[rest], 0.1)(z[i]) - outcome[i]) ** 2
        assert found.risks[k, j] == pytest.approx(w @ losses, rel=1e-8)
        models.append(line(z, outcome, training, 0.1))
        weights.append(w)
    for j, (rows, outcome) in enumerate(sources.values()):
        z = (rows - table.mean) / table.sd
        others = [i for i in range(3) if i != j]
        share = found.worth[others] / found.worth[others].sum()
        mixture = sum(a * models[i](z) for a, i in zip(share, others, strict=True))
        assert found.examined[k, j] == pytest.approx(
            weights[j] @ (mixture - outcome) ** 2, rel=1e-8
        )
    share = found.worth / found.worth.sum()
    mixture = sum(a * h((X - table.mean) / table.sd) for a, h in zip(share, models, strict=True))
    assert found.true[k] == pytest.approx(np.mean((mixture - y) ** 2), rel=1e-8)


def test_outcomes_of_the_target_move_the_truth_alone(small):
    sources, (X, y), found = small
    other = surface(sources, (X, y + 100.0), [False, False], None, SMALL, ridge, seed=3)
    np.testing.assert_array_equal(other.risks, found.risks)
    np.testing.assert_array_equal(other.examined, found.examined)
    assert (other.true > found.true).all()


@pytest.mark.parametrize("how", SEARCHES)
def test_every_search_spends_its_budget_and_repeats(how):
    lattice = compare.SPACES["logistic"][2]
    risks = 0.2 + ((lattice.positions - 0.4) ** 2).sum(axis=1)
    first, again = (SEARCHES[how](lattice, risks, 4, 12) for _ in range(2))
    assert first == again
    assert len(first) == 12
    if how in NESTED:
        assert SEARCHES[how](lattice, risks, 4, 7) == first[:7]


@pytest.mark.parametrize("how", ["tpe", "gp"])
def test_a_search_that_listens_looks_where_risks_are_small(how):
    lattice = compare.SPACES["logistic"][2]
    risks = ((lattice.positions - 0.4) ** 2).sum(axis=1)
    late = [np.mean(risks[SEARCHES[how](lattice, risks, seed, 24)[12:]]) for seed in range(3)]
    assert np.median(late) < 0.7 * risks.mean()


def test_who_is_not_heard_does_not_choose():
    risks = np.array([[1.0, 9.0], [2.0, 1.0]])
    found = Surface(
        risks, risks, np.array([[4.0, 1.0], [2.0, 3.0]]), np.ones(2), np.array([1.0, 1.0])
    )
    np.testing.assert_allclose(compare.estimated(found), [5.0, 1.5])
    np.testing.assert_allclose(compare.estimated(found, 1), [1.0, 2.0])
    # with all, the second is chosen: √(2·3); without its examiner, source 1 chooses the first for
    # source 2, and source 2 the second for source 1: √(2·1)
    settings = replace(compare.QUICK, left_out=1)
    [told] = compare.optimism_lines("ridge", "t", found, {}, settings)
    assert told["optimism"] == pytest.approx(np.sqrt(2.0) / np.sqrt(6.0) - 1.0)
    assert told["promise_over_truth"] == pytest.approx(np.sqrt(6.0) - 1.0)


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="the real data are not beside the project")
def test_the_comparison_runs_and_its_page_is_written(tmp_path):
    compare.main(["--quick", "--workers", "1", "--out", str(tmp_path), "--data", str(DATA)])
    gaps = read_table(tmp_path / "search_gaps.csv")
    assert {x["search"] for x in gaps} == set(SEARCHES)
    assert all(float(x["gap_worst"]) >= float(x["gap_median"]) for x in gaps)
    results = Results(tmp_path)
    assert all(
        block(results)
        for name, block in write_search.BLOCKS.items()
        if name not in ("verdict", "truth")
    )
    draw_search(tmp_path, tmp_path)
    assert (tmp_path / "search.svg").is_file()


def test_absent_data_are_named(tmp_path):
    with pytest.raises(SystemExit, match="Get it from UCI"):
        compare.main(["--quick", "--out", str(tmp_path), "--data", str(tmp_path)])


def test_the_page_shows_the_results_as_they_are():
    write_search.main(["--check"])

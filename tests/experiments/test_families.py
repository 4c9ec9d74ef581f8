import numpy as np
import pytest
from families import FAMILIES, TAGS, case1, case2, family


def test_there_are_enough_families_of_every_tag():
    assert len(FAMILIES) >= 28
    assert len({item.name for item in FAMILIES}) == len(FAMILIES)
    assert {item.tag for item in FAMILIES} == set(TAGS)


@pytest.mark.parametrize("item", FAMILIES, ids=lambda item: item.name)
def test_a_seed_always_gives_the_same_study(item):
    first, again, other = (item.draw(seed, n_truth=50) for seed in (3, 3, 4))
    assert first.sources.keys() == again.sources.keys()
    for name in first.sources:
        np.testing.assert_array_equal(first.sources[name][0], again.sources[name][0])
        np.testing.assert_array_equal(first.sources[name][1], again.sources[name][1])
    np.testing.assert_array_equal(first.X_target, again.X_target)
    np.testing.assert_array_equal(first.y_truth, again.y_truth)
    assert not np.array_equal(first.X_target, other.X_target)


@pytest.mark.parametrize("item", FAMILIES, ids=lambda item: item.name)
def test_every_site_has_the_same_features_and_complete_outcomes(item):
    drawn = item.draw(0, n_truth=50)
    d = drawn.X_target.shape[1]
    assert drawn.X_truth.shape == (50, d)
    assert drawn.y_truth.shape == (50,)
    for X, y in drawn.sources.values():
        assert X.shape == (len(y), d)
        assert np.isfinite(X).all()
        assert np.isfinite(y).all()


def test_classes_are_zero_and_one_and_follow_the_same_rows():
    numbers = family("mean-shift").draw(0, n_truth=2_000)
    classes = family("mean-shift").draw(0, classes=True, n_truth=2_000)
    np.testing.assert_array_equal(numbers.X_truth, classes.X_truth)
    assert set(np.unique(classes.y_truth)) == {0.0, 1.0}
    assert 0.4 < classes.y_truth.mean() < 0.6


def test_the_papers_cases_have_its_means_variances_and_sizes():
    drawn = case1(20, 3_000, 2_000).draw(0, n_truth=20_000)
    near, far = (X for X, _ in drawn.sources.values())
    assert near.shape == (3_000, 10)
    assert far.shape == (2_000, 10)
    np.testing.assert_allclose(near.mean(), 1.0, atol=0.05)
    np.testing.assert_allclose(near.var(), 3.0, rtol=0.05)
    np.testing.assert_allclose(far.mean(), 5.0, atol=0.05)
    np.testing.assert_allclose(far.var(), 0.5, rtol=0.05)
    residual = drawn.y_truth - drawn.X_truth.mean(axis=1)
    np.testing.assert_allclose(residual.var(), 1.0, rtol=0.05)
    moved = case2(2.5).draw(0, n_truth=10)
    assert [len(y) for _, y in moved.sources.values()] == [50, 40]
    assert moved.X_target.shape == (20, 10)
    means = [X.mean() for X, _ in moved.sources.values()]
    np.testing.assert_allclose(means, [2.5, 3.5], atol=0.3)


def test_only_violating_families_give_a_site_an_effect_of_its_own():
    for item in FAMILIES:
        world = item.build(np.random.default_rng(0))
        own = any(site.effect for site in (*world.sources, world.target))
        assert not own or item.tag == "violates", item.name

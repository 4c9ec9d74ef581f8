import numpy as np
import pytest
from lib.families import FAMILIES, KINDS, TAGS, case1, case2, family
from lib.worlds import RANDOM, SHARED, UNLIKE, log_odds


def test_there_are_enough_families_of_every_tag():
    assert len(FAMILIES) >= 65
    assert 0.4 < np.mean([item.violates != "" for item in FAMILIES]) < 0.6
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
        assert item.violates or item.tag not in ("violates", "no-overlap"), item.name


def test_families_say_how_their_sites_are_related():
    for item in FAMILIES:
        world = item.build(np.random.default_rng(0))
        assert item.n_sources == len(item.build(np.random.default_rng(1)).sources)
        assert item.sites in (SHARED, RANDOM, UNLIKE)
        assert item.exchangeable == (item.sites != UNLIKE)
        assert set(item.kinds) <= set(KINDS)
        if item.sites == RANDOM:  # the target has an effect where the sources have one
            for own in ("effect", "noise"):
                alike = {getattr(site, own) in (None, 1.0) for site in world.sources}
                assert alike == {getattr(world.target, own) in (None, 1.0)}, item.name


def test_random_levels_have_the_spread_that_is_told_at_the_target_too():
    item = family("levels-8x400")
    X = np.zeros((1, 4))
    worlds = [item.build(np.random.default_rng(seed)) for seed in range(400)]
    at_target = [world.target.effect(X)[0] for world in worlds]
    at_source = [world.sources[0].effect(X)[0] for world in worlds]
    np.testing.assert_allclose(np.std(at_target), 0.4, rtol=0.15)
    np.testing.assert_allclose(np.std(at_source), 0.4, rtol=0.15)
    assert abs(np.corrcoef(at_target, at_source)[0, 1]) < 0.2


@pytest.mark.parametrize("rate", [0.04, 0.1, 0.3])
def test_the_base_of_the_log_odds_gives_about_the_event_rate(rate):
    odds = log_odds(rate, 0.5) + np.random.default_rng(0).normal(0.0, np.hypot(1.5, 0.5), 200_000)
    np.testing.assert_allclose((1.0 / (1.0 + np.exp(-odds))).mean(), rate, rtol=0.15)


def test_rows_of_one_patient_hang_together_and_are_named():
    drawn = family("repeated-6x60x5").draw(0, n_truth=2_000)
    assert drawn.groups.keys() == drawn.sources.keys()
    for name, (X, y) in drawn.sources.items():
        assert np.bincount(drawn.groups[name]).tolist() == [5] * 60
        left = y - X.sum(axis=1) / 2.0
        means = left.reshape(60, 5).mean(axis=1)
        assert means.var() > 0.4  # 0.2 were rows independent, 0.69 as they are
    np.testing.assert_allclose(
        (drawn.y_truth - drawn.X_truth.sum(axis=1) / 2).var(), 1.49, rtol=0.1
    )
    assert family("identical").draw(0, n_truth=10).groups is None


def test_selection_by_outcome_moves_outcomes_and_shares_what_is_given_them():
    drawn = family("label-shift-4x300").draw(0, n_truth=20_000)
    pooled = np.concatenate([y for _, y in drawn.sources.values()])
    assert drawn.y_truth.mean() > pooled.mean() + 0.8
    rows = np.concatenate([X for X, _ in drawn.sources.values()])
    near = np.abs(pooled - 1.0) < 0.4, np.abs(drawn.y_truth - 1.0) < 0.4
    given = [
        X[kept].sum(axis=1).mean() for X, kept in zip((rows, drawn.X_truth), near, strict=True)
    ]
    np.testing.assert_allclose(*given, atol=0.3)

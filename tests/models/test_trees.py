"""Trees of scikit-learn on the agreed grid: our walk against its own predictions."""

import numpy as np
import pytest
from sklearn import ensemble, tree

from fedcsa.core.arrays import read_only
from fedcsa.errors import ModelError
from fedcsa.models.convert import to_portable
from fedcsa.models.formats import open_model
from fedcsa.models.portable import agreed_grid
from fedcsa.models.tree_format import TREES, TreeModel
from fedcsa.models.trees import LEAF, MAX_BIN, MAX_TREE_DEPTH, Forest, to_bins

GRID = agreed_grid(np.array([1.0, 2.0, 0.5, 0.4]), scale=False)


def rows(n=240, seed=0):
    """Rows of numbers, some of them exactly on the grid, and a flag."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * [1.0, 2.0, 0.5, 1.0]
    X[: n // 2, 0] = rng.integers(-12, 12, n // 2) * GRID[0]
    X[n // 3 :, 1] = rng.integers(-12, 12, n - n // 3) * GRID[1]
    X[:, 3] = rng.random(n) < 0.3
    return X


def outcome(X, n_classes, rng):
    score = X[:, 0] * X[:, 1] + X[:, 3] + 0.3 * rng.normal(size=len(X))
    if not n_classes:
        return score
    return np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))


def named(name, **parameters):
    cls = getattr(ensemble, name, None) or getattr(tree, name)
    few = {"n_estimators": 12} if "n_estimators" in cls().get_params() else {}
    few = {"max_iter": 12} if name.startswith("Hist") else few
    return cls(**few, random_state=0, **parameters)


def fitted(estimator, X, y, weights=None):
    return estimator.fit(to_bins(X, GRID).astype(float), y, sample_weight=weights)


def own_predictions(estimator, X, n_classes):
    bins = to_bins(X, GRID).astype(float)
    if not n_classes:
        return estimator.predict(bins)
    full = np.zeros((len(X), n_classes))
    full[:, estimator.classes_] = estimator.predict_proba(bins)
    return full


def sent(model, n_classes):
    """The model as it arrives: read-only arrays, words as a message holds them."""
    arrays = {name: read_only(array.copy()) for name, array in model.arrays.items()}
    return open_model(dict(model.form), arrays, len(GRID), n_classes)


CASES = [
    (name, n_classes)
    for name in sorted(TREES)
    for n_classes in ((2, 3) if name.endswith("Classifier") else (0,))
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("name", "n_classes"), CASES)
def test_the_walk_gives_scikit_learns_own_predictions(name, n_classes, weighted):
    X, rng = rows(), np.random.default_rng(1)
    y = outcome(X, n_classes, rng)
    weights = rng.exponential(size=len(X)) if weighted else None
    estimator = fitted(named(name), X, y, weights)
    model = sent(to_portable(estimator, n_classes, GRID), n_classes)
    new = np.concatenate([X, rows(200, seed=9), 1e6 * rows(10, seed=3)])
    np.testing.assert_allclose(
        model.predict(new), own_predictions(estimator, new, n_classes), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize(("name", "n_classes"), [case for case in CASES if case[1] == 3])
def test_a_source_without_one_of_three_classes_gives_it_no_probability(name, n_classes):
    X, rng = rows(), np.random.default_rng(1)
    y = np.array([0, 2])[outcome(X, 2, rng)]
    estimator = fitted(named(name), X, y)
    found = sent(to_portable(estimator, n_classes, GRID), n_classes).predict(X)
    np.testing.assert_allclose(found, own_predictions(estimator, X, 3), rtol=1e-12, atol=1e-12)
    assert (found[:, 1] == 0.0).all()


@pytest.mark.parametrize(
    "parameters",
    [{"loss": "poisson"}, {"loss": "gamma"}, {"max_bins": 8}, {"max_leaf_nodes": 3}],
    ids=str,
)
def test_options_of_hist_gradient_boosting_are_kept(parameters):
    X, rng = rows(), np.random.default_rng(1)
    y = np.exp(outcome(X, 0, rng) / 4)
    estimator = fitted(named("HistGradientBoostingRegressor", **parameters), X, y)
    found = sent(to_portable(estimator, 0, GRID), 0).predict(X)
    np.testing.assert_allclose(found, own_predictions(estimator, X, 0), rtol=1e-12)


@pytest.mark.parametrize("name", ["GradientBoostingRegressor", "GradientBoostingClassifier"])
def test_boosting_may_begin_at_zero(name):
    X, rng = rows(), np.random.default_rng(1)
    n_classes = 3 if name.endswith("Classifier") else 0
    estimator = fitted(named(name, init="zero"), X, outcome(X, n_classes, rng))
    found = sent(to_portable(estimator, n_classes, GRID), n_classes).predict(X)
    own = own_predictions(estimator, X, n_classes)
    np.testing.assert_allclose(found, own, rtol=1e-12, atol=1e-12)


def test_leaves_that_are_grown_best_first_are_put_in_order():
    X, rng = rows(), np.random.default_rng(1)
    best_first = named("DecisionTreeRegressor", max_leaf_nodes=9)
    estimator = fitted(best_first, X, outcome(X, 0, rng))
    model = to_portable(estimator, 0, GRID)
    np.testing.assert_allclose(model.predict(X), own_predictions(estimator, X, 0), rtol=1e-12)
    assert model.forest.leaves.tolist() == [9]
    assert (np.diff(estimator.tree_.children_left[estimator.tree_.children_left > 0]) > 1).any()


@pytest.mark.parametrize("name", sorted(TREES))
def test_a_value_on_the_grid_goes_right_and_the_one_before_it_left(name):
    X = np.linspace(-2, 2, 400)[:, None]
    y = (X[:, 0] >= 0.25).astype(int)
    estimator = named(name).fit(to_bins(X, np.array([0.25])).astype(float), y)
    n_classes = 2 if name.endswith("Classifier") else 0
    model = to_portable(estimator, n_classes, np.array([0.25]))
    low, high = model.predict(np.array([[np.nextafter(0.25, 0.0)], [0.25]])).reshape(2, -1)
    assert abs(high[-1] - low[-1]) > 0.3


def test_bins_are_whole_and_bounded():
    X = np.array([[0.0, -0.125, 0.125, 1e300, -1e300, np.nextafter(0.125, 0.0)]]).T
    found = to_bins(X, np.array([0.125]))
    assert found.dtype == np.int32
    assert found[:, 0].tolist() == [0, -1, 1, MAX_BIN, -MAX_BIN, 0]
    assert np.float32(MAX_BIN) == MAX_BIN


def by_one(model, node, bins):
    """The leaf of one row, by following it through the flat arrays."""
    inner = np.cumsum(model.feature != LEAF) - 1
    while model.feature[node] != LEAF:
        left = bins[model.feature[node]] <= model.threshold[inner[node]]
        node += 1
        if not left:  # over the whole left branch: as many leaves as splits, and one more
            open_ends = 1
            while open_ends:
                open_ends += 1 if model.feature[node] != LEAF else -1
                node += 1
    return (model.feature[:node] == LEAF).sum()


def test_rows_that_walk_together_end_where_they_end_alone():
    X, rng = rows(), np.random.default_rng(1)
    model = to_portable(fitted(named("ExtraTreesRegressor"), X, outcome(X, 0, rng)), 0, GRID)
    bins = to_bins(X, GRID)
    for root, leaves in zip(model.forest.roots, model.leaves_of_rows(X), strict=True):
        assert leaves.tolist() == [by_one(model, root, row) for row in bins]


def test_more_rows_than_walk_at_a_time_and_none_at_all(monkeypatch):
    X, rng = rows(), np.random.default_rng(1)
    model = to_portable(fitted(named("RandomForestClassifier"), X, outcome(X, 3, rng)), 3, GRID)
    whole = model.predict(X)
    for most in (7, 1000):
        monkeypatch.setattr("fedcsa.models.tree_format.MAX_WALKERS", most)
        monkeypatch.setattr("fedcsa.models.trees.MAX_WALKERS", most)
        np.testing.assert_array_equal(model.predict(X), whole)
    assert model.predict(X[:0]).shape == (0, 3)


def test_probabilities_that_were_rounded_still_sum_to_one():
    X, rng = rows(), np.random.default_rng(1)
    model = to_portable(fitted(named("RandomForestClassifier"), X, outcome(X, 3, rng)), 3, GRID)
    rounded = {**model.arrays, "value": np.round(model.value, 3)}
    found = open_model(model.form, rounded, 4, 3).predict(X)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(found, model.predict(X), atol=2e-3)


# What cannot be a tree ----------------------------------------------------------------------


def damaged(**changes):
    arrays = {
        "step": np.ones(2),
        "feature": np.array([0, 1, -1, -1, -1, -1], np.int32),
        "threshold": np.array([3, 4], np.int32),
        "value": np.arange(4.0)[:, None],
        "base": np.zeros(1),
    }
    return {**arrays, **changes}


FORM = {"kind": "trees", "combine": "mean", "link": "identity", "classes": []}


def test_trees_follow_each_other_in_preorder():
    model = open_model(FORM, damaged(), 2, 0)
    assert isinstance(model, TreeModel)
    assert model.forest.roots.tolist() == [0, 5]
    assert model.forest.depths.tolist() == [2, 0]
    assert model.forest.leaves.tolist() == [3, 1]
    assert model.predict(np.array([[3.5, 4.5], [3.5, 5.0], [4.0, 0.0]])).tolist() == [1.5, 2.0, 2.5]


def ints(*values):
    return np.array(values, np.int32)


BROKEN = {
    "a split without branches": {"feature": ints(0, 1, -1, -1, -1, 0), "threshold": ints(1, 2, 3)},
    "a feature too many": {"feature": ints(0, 2, -1, -1, -1, -1)},
    "a negative feature": {"feature": ints(0, -2, -1, -1, -1, -1)},
    "no nodes": {"feature": ints(), "threshold": ints(), "value": np.empty((0, 1))},
    "a threshold too few": {"threshold": ints(1)},
    "a threshold too many": {"threshold": ints(1, 2, 3)},
    "a threshold off the grid's end": {"threshold": ints(1, MAX_BIN + 1)},
    "the least whole number": {"threshold": ints(1, -(2**31))},
    "a leaf too few": {"value": np.zeros((3, 1))},
    "a column too many": {"value": np.zeros((4, 2))},
    "an infinite leaf": {"value": np.array([[1.0], [np.inf], [0.0], [0.0]])},
    "a missing step": {"step": np.ones(1)},
    "a step of 0": {"step": np.array([1.0, 0.0])},
    "a base for nobody": {"base": np.zeros(2)},
    "something added to a mean": {"base": np.ones(1)},
    "features as numbers": {"feature": np.array([0.0, 1, -1, -1, -1, -1])},
    "wide whole numbers": {"threshold": np.array([3, 4], np.int64)},
    "no array": {"value": [1.0]},
    "an array too many": {"left": ints(1)},
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_no_tree_is_refused(what):
    with pytest.raises(ModelError, match=r"A received model must have .*\. Ask the source"):
        open_model(FORM, damaged(**BROKEN[what]), 2, 0)


@pytest.mark.parametrize(
    "words",
    [
        {"combine": "sum", "link": "probabilities"},
        {"combine": "max"},
        {"combine": "mean", "link": "log"},
        {"link": "logistic"},
        {"link": None},
        {"classes": [0]},
        {"classes": None},
        {"kind": "tree"},
        {"kind": ["trees"]},
        {"more": 1},
    ],
    ids=str,
)
def test_words_of_no_tree_are_refused(words):
    with pytest.raises(ModelError, match="A received model must have"):
        open_model({**FORM, **words}, damaged(), 2, 0)


@pytest.mark.parametrize("value", [[[0.5, 0.6]], [[-0.5, 1.5]], [[0.0, 0.0]]], ids=str)
def test_leaves_of_a_forest_of_classes_are_probabilities(value):
    form = {"kind": "trees", "combine": "mean", "link": "probabilities", "classes": []}
    arrays = damaged(feature=ints(-1), threshold=ints(), value=np.array(value), base=np.zeros(2))
    with pytest.raises(ModelError, match="probabilities in its leaves"):
        open_model(form, arrays, 2, 2)
    arrays["value"] = np.array([[0.25, 0.75]])
    assert open_model(form, arrays, 2, 2).predict(np.zeros((1, 2))).tolist() == [[0.25, 0.75]]


@pytest.mark.parametrize(
    "classes", [[0, 1], [0, 0, 1], [2, 1, 0], [0, 1, 3], [True, 1, 2]], ids=str
)
def test_classes_of_scores_are_distinct_and_known(classes):
    form = {"kind": "trees", "combine": "sum", "link": "softmax", "classes": classes}
    arrays = damaged(feature=ints(-1, -1, -1), threshold=ints(), value=np.zeros((3, 1)))
    arrays["base"] = np.zeros(3)
    with pytest.raises(ModelError, match="classes"):
        open_model(form, arrays, 2, 3)
    assert open_model({**form, "classes": [0, 1, 2]}, arrays, 2, 3).predict(np.zeros((1, 2))).shape


def test_a_round_of_boosting_has_a_tree_for_every_class():
    form = {"kind": "trees", "combine": "sum", "link": "softmax", "classes": [0, 1, 2]}
    arrays = damaged(feature=ints(-1, -1), threshold=ints(), value=np.zeros((2, 1)))
    with pytest.raises(ModelError, match="whole rounds"):
        open_model(form, {**arrays, "base": np.zeros(3)}, 2, 3)


def chain(depth):
    """Splits that lean to the left: as deep as a tree of so many nodes can be."""
    feature = ints(*[0] * depth, *[-1] * (depth + 1))
    return damaged(
        feature=feature, threshold=np.zeros(depth, np.int32), value=np.zeros((depth + 1, 1))
    )


def test_a_tree_is_not_too_deep():
    assert open_model(FORM, chain(MAX_TREE_DEPTH), 2, 0).forest.depths.max() == MAX_TREE_DEPTH
    with pytest.raises(ModelError, match="deep"):
        open_model(FORM, chain(MAX_TREE_DEPTH + 1), 2, 0)


def test_a_million_nodes_are_refused_or_walked_but_never_followed_in_a_circle(monkeypatch):
    monkeypatch.setattr("fedcsa.models.tree_format.MAX_NODES", 5)
    with pytest.raises(ModelError, match="nodes"):
        open_model(FORM, damaged(), 2, 0)


def test_random_nodes_are_trees_or_a_model_error():
    rng = np.random.default_rng(0)
    opened = 0
    for _ in range(300):
        feature = rng.integers(-1, 2, rng.integers(1, 12)).astype(np.int32)
        splits = int((feature >= 0).sum())
        arrays = damaged(
            feature=feature,
            threshold=rng.integers(-3, 3, splits).astype(np.int32),
            value=rng.normal(size=(len(feature) - splits, 1)),
        )
        try:
            model = open_model(FORM, arrays, 2, 0)
        except ModelError:
            continue
        opened += 1
        assert np.isfinite(model.predict(rng.normal(size=(5, 2)))).all()
        assert sum(model.forest.leaves) == len(feature) - splits
    assert opened > 10


def test_a_tree_that_is_too_large_or_too_deep_is_not_converted(monkeypatch):
    X, rng = rows(), np.random.default_rng(1)
    estimator = fitted(named("DecisionTreeRegressor"), X, outcome(X, 0, rng))
    with monkeypatch.context() as patch:
        patch.setattr("fedcsa.models.trees.MAX_NODES", 5)
        with pytest.raises(ModelError, match="nodes"):
            to_portable(estimator, 0, GRID)
    monkeypatch.setattr("fedcsa.models.trees.MAX_TREE_DEPTH", 2)
    with pytest.raises(ModelError, match="deep"):
        to_portable(estimator, 0, GRID)


def test_a_leaf_leads_to_itself():
    forest = Forest.of(ints(0, -1, -1), ints(4))
    assert forest.child.tolist() == [1, 2, 1, 1, 2, 2]
    assert forest.leaf.tolist() == [0, 0, 1]

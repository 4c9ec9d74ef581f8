"""Any estimator of scikit-learn can be the model: fitted per candidate, seeded, never fatal."""

import warnings

import numpy as np
import pytest
import sklearn.ensemble
import sklearn.tree
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    ElasticNet,
    HuberRegressor,
    Lasso,
    LassoCV,
    LinearRegression,
    LogisticRegression,
    Ridge,
    RidgeClassifier,
)
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from fedcsa.errors import ModelError
from fedcsa.models.convert import to_portable
from fedcsa.models.estimators import SklearnModel, weight_keyword
from fedcsa.models.fitted import EstimatorModel
from fedcsa.models.linear_format import LinearModel
from fedcsa.models.tree_format import TREES, TreeModel
from fedcsa.models.trees import to_bins


@pytest.fixture
def rows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3))
    return X, X @ [1.0, -2.0, 0.5] + 3.0 + 0.1 * rng.normal(size=40), rng.gamma(2.0, size=40)


@pytest.fixture
def labels(rows):
    X, y, ratios = rows
    return X, (y > np.median(y)).astype(float), ratios


def fit(estimator, rows, candidates=({},), n_classes=0, seed=0):
    X, y, ratios = rows
    generator = np.random.default_rng(seed)
    return SklearnModel(estimator, n_classes).fit(X, y, ratios, list(candidates), generator)


# Agreement with scikit-learn -----------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [
        Lasso(alpha=0.01),
        Ridge(alpha=2.0),
        ElasticNet(alpha=0.01),
        LinearRegression(),
        LinearRegression(fit_intercept=False),
        HuberRegressor(),
        LassoCV(cv=3),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_a_linear_regressor_travels_as_arrays_and_predicts_the_same(rows, estimator):
    X, y, _ = rows
    [model] = fit(estimator, rows).models
    assert isinstance(model, LinearModel)
    assert model.link == "identity"
    oracle = clone(estimator).fit(X, y)
    np.testing.assert_allclose(model.predict(X), oracle.predict(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "estimator",
    [
        DecisionTreeRegressor(random_state=0),
        RandomForestRegressor(5, random_state=0),
        SVR(),
        KNeighborsRegressor(3),
        make_pipeline(StandardScaler(), SVR()),
        RandomForestRegressor(5, criterion="absolute_error", random_state=0),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_any_other_regressor_is_wrapped_and_predicts_the_same(rows, estimator):
    X, y, _ = rows
    [model] = fit(estimator, rows).models
    assert isinstance(model, EstimatorModel)
    oracle = clone(estimator).fit(X, y)
    assert model.predict(X).tobytes() == oracle.predict(X).astype(float).tobytes()
    assert model.predict(X).shape == (40,)


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_a_logistic_regression_of_two_classes_travels_as_arrays(labels, C):
    X, y, _ = labels
    [model] = fit(LogisticRegression(), labels, [{"C": C}], n_classes=2).models
    assert isinstance(model, LinearModel)
    assert model.link == "logistic"
    oracle = LogisticRegression(C=C).fit(X, y)
    np.testing.assert_allclose(model.predict(X), oracle.predict_proba(X), rtol=1e-9, atol=1e-14)


def test_a_logistic_regression_of_three_classes_has_a_score_for_each(rows):
    X, y, ratios = rows
    codes = np.digitize(y, np.quantile(y, [1 / 3, 2 / 3])).astype(float)
    [model] = fit(LogisticRegression(), (X, codes, ratios), n_classes=3).models
    assert model.form["link"] == "softmax"
    oracle = LogisticRegression().fit(X, codes)
    np.testing.assert_allclose(model.predict(X), oracle.predict_proba(X), rtol=1e-12)


def test_other_linear_classifiers_are_wrapped(labels):
    [model] = fit(RidgeClassifier(), labels, n_classes=2).models
    assert isinstance(model, EstimatorModel)
    assert set(np.unique(model.predict(labels[0]))) == {0.0, 1.0}


@pytest.mark.parametrize(
    "estimator",
    [RandomForestClassifier(5), SVC(), LinearSVC(), DecisionTreeClassifier()],
    ids=lambda estimator: type(estimator).__name__,
)
def test_a_classifier_gives_probabilities_of_every_class(labels, estimator):
    X, *_ = labels
    [model] = fit(estimator, labels, n_classes=2).models
    output = model.predict(X)
    assert output.shape == (40, 2)
    np.testing.assert_allclose(output.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("estimator", [DecisionTreeClassifier(), LogisticRegression(), LinearSVC()])
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_class_missing_from_the_training_rows_has_probability_zero(rows, estimator, missing):
    X, y, ratios = rows
    codes = (y > np.median(y)).astype(float)
    present = [code for code in range(3) if code != missing]
    codes = np.array(present, dtype=float)[codes.astype(int)]
    [model] = fit(estimator, (X, codes, ratios), n_classes=3).models
    output = model.predict(X)
    assert output.shape == (40, 3)
    np.testing.assert_array_equal(output[:, missing], 0.0)
    np.testing.assert_allclose(output.sum(axis=1), 1.0, rtol=1e-12)
    assert (output.argmax(axis=1) == codes).mean() > 0.8


def test_a_linear_fit_of_two_classes_out_of_three_is_not_taken_for_a_study_of_two(rows):
    X, y, ratios = rows
    codes = 2.0 * (y > np.median(y))
    [model] = fit(LogisticRegression(), (X, codes, ratios), n_classes=3).models
    assert model.form["classes"] == [0, 2]


# On the grid -----------------------------------------------------------------------------------

GRID = np.full(3, 0.25)


@pytest.mark.parametrize("name", sorted(TREES))
def test_trees_are_fitted_on_the_agreed_grid_and_seeded_alike(rows, name):
    X, y, ratios = rows
    cls = getattr(sklearn.ensemble, name, None) or getattr(sklearn.tree, name)
    n_classes = 2 if name.endswith("Classifier") else 0
    y = (y > np.median(y)).astype(float) if n_classes else y
    few = {"n_estimators": 10} if "n_estimators" in cls().get_params() else {}
    estimator = cls(min_samples_leaf=4, **few)
    model = SklearnModel(estimator, n_classes, GRID)
    candidates = [{"ratio_power": 0.5}]
    [first] = model.fit(X, y, ratios, candidates, np.random.default_rng(0)).models
    [again] = model.fit(X, y, ratios, candidates, np.random.default_rng(0)).models
    assert isinstance(first, TreeModel)
    assert all((first.arrays[key] == again.arrays[key]).all() for key in first.arrays)
    seed = int(np.random.default_rng(0).integers(2**31 - 1))
    bins = to_bins(X, GRID).astype(float)
    oracle = clone(estimator).set_params(random_state=seed)
    oracle.fit(bins, y.astype(int) if n_classes else y, sample_weight=np.sqrt(ratios))
    own = oracle.predict_proba(bins) if n_classes else oracle.predict(bins)
    np.testing.assert_allclose(first.predict(X), own, rtol=1e-12, atol=1e-12)


def test_trees_that_are_too_large_to_travel_stay_what_they_are(rows, monkeypatch):
    X, y, ratios = rows
    monkeypatch.setattr("fedcsa.models.trees.MAX_NODES", 3)
    forest = SklearnModel(RandomForestRegressor(5), 0, GRID)
    [model] = forest.fit(X, y, ratios, [{}], np.random.default_rng(0)).models
    assert isinstance(model, EstimatorModel)
    bins = to_bins(X, GRID).astype(float)
    trees = model.estimator[-1]
    np.testing.assert_array_equal(model.predict(X), trees.predict(bins))


def test_an_estimator_that_may_not_travel_is_fitted_on_the_rows_themselves(rows):
    X, y, ratios = rows
    medians = RandomForestRegressor(5, criterion="absolute_error", random_state=0)
    [model] = (
        SklearnModel(medians, 0, GRID).fit(X, y, ratios, [{}], np.random.default_rng(0)).models
    )
    np.testing.assert_array_equal(model.predict(X), clone(medians).fit(X, y).predict(X))


# Candidates ----------------------------------------------------------------------------------


def test_every_candidate_is_fitted_with_its_own_parameters(rows):
    X, y, _ = rows
    depths = (1, 2, 5)
    path = fit(DecisionTreeRegressor(random_state=0), rows, [{"max_depth": d} for d in depths])
    for depth, model in zip(depths, path.models, strict=True):
        oracle = DecisionTreeRegressor(max_depth=depth, random_state=0).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), oracle.predict(X))


def test_a_parameter_inside_a_pipeline_is_named_with_two_underscores(rows):
    X, y, _ = rows
    pipeline = Pipeline([("scale", StandardScaler()), ("model", Lasso())])
    [model] = fit(pipeline, rows, [{"model__alpha": 0.05}]).models
    oracle = clone(pipeline).set_params(model__alpha=0.05).fit(X, y)
    np.testing.assert_allclose(model.predict(X), oracle.predict(X), rtol=1e-12)


def test_an_estimator_among_the_values_of_a_candidate_is_cloned(rows):
    X, y, _ = rows
    tree = DecisionTreeRegressor(max_depth=2, random_state=0)
    pipeline = Pipeline([("scale", StandardScaler()), ("model", Lasso())])
    candidates = [{"model": tree}, {"model": Ridge()}]
    path = fit(pipeline, rows, candidates)
    assert not hasattr(tree, "tree_")
    oracle = Pipeline([("scale", StandardScaler()), ("model", clone(tree))]).fit(X, y)
    np.testing.assert_array_equal(path.models[0].predict(X), oracle.predict(X))


def test_the_estimator_itself_is_never_changed(rows):
    estimator = RandomForestRegressor(3)
    before = repr(estimator.get_params())
    fit(estimator, rows, [{"max_depth": 1}, {"n_estimators": 2}])
    assert repr(estimator.get_params()) == before
    assert not hasattr(estimator, "estimators_")


# Weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [0.3, 1.0])
@pytest.mark.parametrize(
    "estimator",
    [Ridge(), DecisionTreeRegressor(random_state=0, max_depth=3), SVR()],
    ids=lambda estimator: type(estimator).__name__,
)
def test_a_ratio_power_becomes_sample_weights(rows, estimator, power):
    X, y, ratios = rows
    [model] = fit(estimator, rows, [{"ratio_power": power}]).models
    oracle = clone(estimator).fit(X, y, sample_weight=ratios**power)
    np.testing.assert_allclose(model.predict(X), oracle.predict(X), rtol=1e-12)


def test_sample_weights_reach_the_last_step_of_a_nested_pipeline(rows):
    X, y, ratios = rows
    inner = Pipeline([("again", StandardScaler()), ("model", Ridge())])
    outer = Pipeline([("scale", StandardScaler()), ("inner", inner)])
    assert weight_keyword(outer) == "inner__model__sample_weight"
    [model] = fit(outer, rows, [{"ratio_power": 1.0}]).models
    oracle = clone(outer).fit(X, y, inner__model__sample_weight=ratios)
    np.testing.assert_allclose(model.predict(X), oracle.predict(X), rtol=1e-12)


def test_power_zero_asks_for_no_weights(rows):
    path = fit(KNeighborsRegressor(), rows, [{"ratio_power": 0.0}])
    assert path.failures == {}


def test_an_estimator_without_weights_fails_the_weighted_candidates_only(rows):
    path = fit(KNeighborsRegressor(), rows, [{"ratio_power": 0.5}, {}])
    assert path.failures == {0: "ModelError"}
    assert path.models[0] is None
    assert path.models[1] is not None


def test_an_estimator_without_weights_is_named():
    with pytest.raises(ModelError, match="KNeighborsRegressor does not take sample weights"):
        weight_keyword(KNeighborsRegressor())


# Seeds ---------------------------------------------------------------------------------------

RANDOM = [
    RandomForestRegressor(4),
    make_pipeline(StandardScaler(), RandomForestRegressor(4)),
    GradientBoostingRegressor(n_estimators=4, subsample=0.5),
]


@pytest.mark.parametrize("estimator", RANDOM, ids=lambda estimator: type(estimator).__name__)
def test_the_same_generator_gives_the_same_model_and_another_another(rows, estimator):
    X, *_ = rows
    first, again, other = (fit(estimator, rows, seed=s).models[0] for s in (5, 5, 6))
    assert first.predict(X).tobytes() == again.predict(X).tobytes()
    assert first.predict(X).tobytes() != other.predict(X).tobytes()


def test_all_candidates_of_a_fit_share_one_seed(rows):
    X, *_ = rows
    path = fit(RandomForestRegressor(4), rows, [{}, {}])
    one, two = (model.predict(X) for model in path.models)
    assert one.tobytes() == two.tobytes()


def test_a_random_state_that_was_given_is_kept(rows):
    X, y, _ = rows
    [model] = fit(RandomForestRegressor(4, random_state=11), rows, seed=99).models
    oracle = RandomForestRegressor(4, random_state=11).fit(X, y)
    assert model.predict(X).tobytes() == oracle.predict(X).tobytes()


def test_the_global_generator_is_left_alone(rows):
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    fit(RandomForestRegressor(2), rows)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


# Failures and warnings -----------------------------------------------------------------------


def test_a_candidate_that_raises_is_a_failure_by_its_class_name_only(rows):
    candidates = [{"cv": 3}, {"cv": 41}, {"no_such_parameter": 1}, {"alphas": "text"}]
    path = fit(LassoCV(), rows, candidates)
    assert [model is None for model in path.models] == [False, True, True, True]
    assert path.failures == {1: "ValueError", 2: "ValueError", 3: "InvalidParameterError"}


def test_a_failure_never_holds_the_text_of_the_exception(rows):
    class Boom(Ridge):
        def fit(self, X, y, sample_weight=None):  # noqa: ARG002
            raise RuntimeError(f"row {X[0].tolist()} has outcome {y[0]}")

    path = fit(Boom(), rows)
    assert path.failures == {0: "RuntimeError"}


def test_warnings_are_counted_by_class_and_do_not_escape(rows):
    candidates = [{"max_iter": 1, "alpha": 1e-9}, {"max_iter": 2, "alpha": 1e-9}, {}]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = fit(Lasso(), rows, candidates)
    assert path.failures == {}
    assert path.warned == {ConvergenceWarning.__name__: 2}


def test_a_network_that_has_not_converged_is_a_warning_not_a_failure(rows):
    path = fit(MLPRegressor(hidden_layer_sizes=(3,), max_iter=2), rows)
    assert path.failures == {}
    assert path.warned == {"ConvergenceWarning": 1}


# Kinds ---------------------------------------------------------------------------------------


def test_a_classifier_cannot_predict_numbers():
    text = r"The model is a classifier \(SVC\), but the outcome is declared as numbers"
    with pytest.raises(ModelError, match=text):
        SklearnModel(SVC(), 0)


@pytest.mark.parametrize("estimator", [SVR(), make_pipeline(StandardScaler(), SVR())])
def test_a_regressor_cannot_predict_classes(estimator):
    text = r"The model is a regressor \(.*\), but the outcome is declared as classes"
    with pytest.raises(ModelError, match=text):
        SklearnModel(estimator, 2)


def test_a_linear_model_with_several_outputs_is_not_taken_for_one(rows):
    X, y, _ = rows
    both = LinearRegression().fit(X, np.column_stack([y, y]))
    with pytest.raises(ModelError, match="one outcome"):
        to_portable(both, 0, None)


def test_a_users_own_subclass_of_a_linear_model_is_not_taken_for_arrays(rows):
    class Clipped(Ridge):
        def predict(self, X):
            return np.maximum(super().predict(X), 0.0)

    X, y, ratios = rows
    path = SklearnModel(Clipped()).fit(X, y, ratios, [{}], np.random.default_rng(0))
    assert isinstance(path.models[0], EstimatorModel)


def test_a_column_transformer_may_be_the_first_step(rows):
    X, y, _ = rows
    columns = ColumnTransformer([("some", StandardScaler(), [0, 2])], remainder="passthrough")
    [model] = fit(make_pipeline(columns, Ridge()), rows).models
    own = make_pipeline(columns, Ridge()).fit(X, y).predict(X)
    np.testing.assert_allclose(model.predict(X), own, rtol=1e-12)


@pytest.mark.parametrize(
    "steps",
    [
        (SimpleImputer(), StandardScaler()),
        (SimpleImputer(missing_values=0.0),),
        (ColumnTransformer([("a", "passthrough", [2, 0])]),),
        ("passthrough", make_pipeline(SimpleImputer(), "passthrough")),
    ],
    ids=lambda steps: str(steps)[:40],
)
def test_trees_after_steps_predict_as_scikit_learn(rows, steps):
    X, y, ratios = rows
    grid = np.full(3, 0.125)
    pipeline = make_pipeline(*steps, DecisionTreeRegressor(random_state=0))
    [model] = (
        SklearnModel(pipeline, 0, grid).fit(X, y, ratios, [{}], np.random.default_rng(0)).models
    )
    alone = isinstance(model, TreeModel)
    assert alone == (steps[0] == "passthrough" or isinstance(steps[0], ColumnTransformer))
    seen = to_bins(X, grid).astype(float) if alone else X
    np.testing.assert_array_equal(model.predict(X), clone(pipeline).fit(seen, y).predict(seen))

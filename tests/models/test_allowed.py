"""The allow-list, and whether a model that came is the one that was agreed."""

import functools
import re

import numpy as np
import pytest
from sklearn import preprocessing
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_selection import SelectKBest
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import (
    HuberRegressor,
    Lasso,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    SGDRegressor,
    TheilSenRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeRegressor

from fedcsa.errors import ModelError
from fedcsa.models.allowed import (
    agreed_columns,
    agreed_rows_per_leaf,
    objection,
    refused_before_fitting,
)
from fedcsa.models.arrivals import check_agreed
from fedcsa.models.convert import to_portable
from fedcsa.models.formats import open_model
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.models.transformers import CELL_SCALERS
from fedcsa.models.tree_format import TREES
from fedcsa.models.trees import to_bins

rng = np.random.default_rng(0)
X = np.column_stack([rng.normal(size=(300, 2)), rng.integers(0, 3, 300)])
Y = X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=300)
GRID = np.full(3, 0.125)
KNOTS = [[-2.0] * 3, [0.0] * 3, [3.0] * 3]


@pytest.mark.parametrize("name", ["ridge", "weighted-least-squares"])
def test_our_own_models_may_leave(name):
    assert refused_before_fitting({"name": name}) == ""
    assert agreed_rows_per_leaf({"name": name}) is None


WEIGHTED = ColumnTransformer([("a", StandardScaler(), [0])], transformer_weights={"a": 3.0})
REFUSED = {
    SVR(): "SVR has no format in which it may leave a site. Use HistGradientBoostingRegressor",
    SVC(): "SVC has no format in which it may leave a site. Use HistGradientBoostingClassifier",
    make_pipeline(SelectKBest(), Ridge()): "SelectKBest has no .* Use Lasso",
    make_pipeline(KNNImputer(), Ridge()): "KNNImputer has no .* Use SimpleImputer",
    make_pipeline(preprocessing.TargetEncoder(), Ridge()): "TargetEncoder .* Use OneHotEncoder",
    make_pipeline(preprocessing.QuantileTransformer(), Ridge()): "Quantile.* Use StandardScaler",
    make_pipeline(OneHotEncoder(), Ridge()): "OneHotEncoder .* agreed lists",
    make_pipeline(OneHotEncoder(categories=[["a"]]), Ridge()): "OneHotEncoder .* agreed lists",
    make_pipeline(OneHotEncoder(categories=[[1]], min_frequency=2), Ridge()): "OneHotEncoder",
    make_pipeline(OneHotEncoder(categories=[[1]], drop=[1]), Ridge()): "OneHotEncoder",
    make_pipeline(OneHotEncoder(categories=[[1]], handle_unknown="warn"), Ridge()): "OneHot",
    make_pipeline(OrdinalEncoder(), Ridge()): "OrdinalEncoder .* agreed lists",
    make_pipeline(SplineTransformer(), Ridge()): "SplineTransformer .* knots as an agreed array",
    make_pipeline(SplineTransformer(knots="quantile"), Ridge()): "SplineTransformer .* knots",
    make_pipeline(SplineTransformer(knots=KNOTS, extrapolation="linear"), Ridge()): "constant",
    make_pipeline(PolynomialFeatures(9), Ridge()): "PolynomialFeatures .* at most 5",
    make_pipeline(SimpleImputer(missing_values=-1), Ridge()): "SimpleImputer .*=nan",
    make_pipeline(SimpleImputer(add_indicator=True), Ridge()): "SimpleImputer .* add_indicator",
    make_pipeline(MinMaxScaler(clip=True), Ridge()): "MinMaxScaler would carry a patient's value",
    make_pipeline(StandardScaler(), RandomForestRegressor()): "trees need no scaling",
    make_pipeline(SimpleImputer(), StandardScaler(), RandomForestRegressor()): "no scaling",
    make_pipeline(SimpleImputer(missing_values=0), RandomForestRegressor()): "SimpleImputer .*=nan",
    make_pipeline(WEIGHTED, Ridge()): "transformer_weights=None",
    make_pipeline(OneHotEncoder(categories=[[0.0, np.nan]]), Ridge()): "OneHotEncoder .* agreed",
    make_pipeline(ColumnTransformer([("a", "passthrough", ["x"])]), Ridge()): "their numbers",
    make_pipeline(ColumnTransformer([], remainder=StandardScaler()), Ridge()): "remainder",
    make_pipeline(ColumnTransformer([("a", KNNImputer(), [0])]), Ridge()): "KNNImputer",
    SGDRegressor(): "SGDRegressor has no .* Use Ridge",
    TheilSenRegressor(): "TheilSenRegressor has no .* Use Ridge",
    HuberRegressor(epsilon=1.0): "epsilon=1.35",
    LogisticRegressionCV(refit=False): "refit=True",
    RandomForestRegressor(max_samples=1): "half of the rows .* max_samples",
    RandomForestRegressor(max_samples=0.1): "half of the rows .* max_samples",
    GradientBoostingRegressor(subsample=0.01): "half of the rows .* subsample",
    GradientBoostingRegressor(validation_fraction=0.9): "half .* validation_fraction",
    HistGradientBoostingRegressor(validation_fraction=399): "half .* validation_fraction",
    RandomForestRegressor(criterion="absolute_error"): "criterion='squared_error'",
    GradientBoostingRegressor(loss="quantile"): "loss='squared_error'",
    GradientBoostingClassifier(loss="exponential"): "loss='log_loss'",
    HistGradientBoostingRegressor(loss="absolute_error"): "loss='squared_error'",
    GradientBoostingRegressor(init=Ridge()): "init=None",
    HistGradientBoostingRegressor(categorical_features=[0]): "categorical_features=None",
}


@pytest.mark.parametrize(("model", "why"), REFUSED.items(), ids=lambda case: str(case)[:40])
def test_what_may_not_leave_is_refused_with_the_nearest_that_may(model, why):
    with_words = refused_before_fitting(model_description(model))
    assert with_words.endswith("or run the study in one process.")
    assert re.search(why, with_words)


@pytest.mark.parametrize(
    "model",
    [
        RandomForestRegressor(max_samples=0.5),
        GradientBoostingRegressor(subsample=0.5, n_iter_no_change=3, validation_fraction=0.2),
        GradientBoostingRegressor(subsample=1),
        HistGradientBoostingRegressor(validation_fraction=None),
        HuberRegressor(),
        LogisticRegressionCV(),
    ],
    ids=lambda model: str(model)[:60],
)
def test_what_is_fitted_to_half_of_the_rows_or_more_may_leave(model):
    assert refused_before_fitting(model_description(model)) == ""


@pytest.mark.parametrize("scaler", [MinMaxScaler(), MaxAbsScaler(), RobustScaler()], ids=str)
def test_a_scaler_of_cells_leaves_only_inside_the_coefficients(scaler):
    assert type(scaler).__name__ in CELL_SCALERS
    assert objection(make_pipeline(PolynomialFeatures(), scaler, StandardScaler(), Ridge())) == ""
    for steps in (
        make_pipeline(scaler, PolynomialFeatures()),
        make_pipeline(ColumnTransformer([("a", scaler, [0])]), PolynomialFeatures()),
        make_pipeline(make_pipeline(StandardScaler(), scaler), PolynomialFeatures()),
    ):
        assert "carry a patient's value" in objection(make_pipeline(steps, Ridge()))


def test_the_list_of_scalers_of_cells_is_tested_as_a_whole():
    assert {"MinMaxScaler", "MaxAbsScaler", "RobustScaler"} == CELL_SCALERS


def test_a_candidate_that_brings_a_forbidden_part_is_refused():
    model = model_description(make_pipeline(StandardScaler(), Ridge()))
    candidates = expand_candidates(
        "sklearn", [{"ridge__alpha": 1.0}, {"standardscaler": MinMaxScaler(clip=True)}]
    )
    assert refused_before_fitting(model, candidates[:1]) == ""
    assert "MinMaxScaler" in refused_before_fitting(model, candidates)
    with pytest.raises(ModelError, match="parameters that the study's model has"):
        refused_before_fitting(model, [{"strange": 1}])


def test_a_class_outside_scikit_learn_has_no_format():
    model = {"name": "sklearn", "estimator": {"class": "os.Thing", "parameters": {}}}
    assert "outside scikit-learn" in refused_before_fitting(model)
    assert agreed_rows_per_leaf(model) is None


STRANGE = [
    (OneHotEncoder, {"categories": 5}),
    (OrdinalEncoder, {"categories": [[1, [2]]]}),
    (SplineTransformer, {"knots": [[1.0], [2.0, 3.0]]}),
    (SplineTransformer, {"knots": KNOTS, "degree": "many"}),
    (PolynomialFeatures, {"degree": []}),
    (PolynomialFeatures, {"degree": "x"}),
    (ColumnTransformer, {"transformers": 7}),
    (ColumnTransformer, {"transformers": [("a", "passthrough")]}),
]


@pytest.mark.parametrize(("cls", "parameters"), STRANGE, ids=str)
def test_parameters_of_any_kind_are_refused_and_never_followed(cls, parameters):
    reason = objection(make_pipeline(cls(**parameters), Ridge()))
    assert "wrong kind" in reason or cls.__name__ in reason
    with pytest.raises(ModelError):
        check_agreed({}, {}, model_description(Ridge()), {"estimator": parameters}, 3, 0)


@pytest.mark.parametrize(
    "parameters", [{"n_estimators": "many"}, {"max_depth": "deep", "n_estimators": 3}], ids=str
)
def test_trees_with_parameters_of_any_kind_were_not_agreed(parameters):
    with pytest.raises(ModelError, match="its estimator is another"):
        check(fitted("forest"), model_description(RandomForestRegressor(**parameters)), 0)


MISFITS = [
    make_pipeline(ColumnTransformer([("a", StandardScaler(), [9])]), Ridge()),
    make_pipeline(SplineTransformer(knots=[[0.0], [1.0]]), Ridge()),
    make_pipeline(PolynomialFeatures(5), PolynomialFeatures(5), Ridge()),
]


@pytest.mark.parametrize("model", MISFITS, ids=lambda model: str(model)[:50])
def test_steps_that_do_not_fit_the_features_were_not_agreed(model):
    with pytest.raises(ModelError, match="must"):
        check(fitted("ridge"), model_description(model), 0)


def test_columns_are_counted_before_anything_is_fitted():
    quartic = model_description(make_pipeline(PolynomialFeatures(4), Ridge()))
    assert agreed_columns(quartic, [], 6) == 210
    assert agreed_columns(quartic, [{"polynomialfeatures__degree": 2}, {}], 6) == 210
    assert agreed_columns({"name": "ridge"}, [{}], 6) == 6
    assert agreed_columns(model_description(RandomForestRegressor()), [{}], 6) == 0


def test_rows_per_leaf_are_read_from_the_study():
    forest = model_description(RandomForestRegressor())
    assert agreed_rows_per_leaf(forest) == 1
    assert agreed_rows_per_leaf(forest, [{"min_samples_leaf": 30}, {"min_samples_leaf": 12}]) == 12
    assert agreed_rows_per_leaf(forest, [{"min_samples_leaf": 0.1}]) == 1
    assert agreed_rows_per_leaf(model_description(HistGradientBoostingRegressor())) == 20
    assert agreed_rows_per_leaf(model_description(Ridge())) is None


# What was agreed --------------------------------------------------------------------------------

FEW = {"n_estimators": 3, "random_state": 0}
AGREED = {
    "ridge": (Ridge(), 0),
    "lasso": (Lasso(0.1), 0),
    "counts": (PoissonRegressor(), 0),
    "scaled": (make_pipeline(StandardScaler(), Ridge()), 0),
    "two classes": (LogisticRegression(), 2),
    "three classes": (LogisticRegression(), 3),
    "polynomials": (make_pipeline(StandardScaler(), PolynomialFeatures(2), Ridge()), 0),
    "splines": (make_pipeline(SplineTransformer(knots=KNOTS), Ridge()), 0),
    "levels": (
        make_pipeline(
            ColumnTransformer([("a", OneHotEncoder(categories=[[0, 1, 2]]), [2])]), Ridge()
        ),
        0,
    ),
    "tree": (DecisionTreeRegressor(max_depth=3), 0),
    "forest": (RandomForestRegressor(max_leaf_nodes=6, **FEW), 0),
    "forest of classes": (RandomForestClassifier(max_depth=4, **FEW), 3),
    "boosting": (GradientBoostingRegressor(**FEW), 0),
    "boosting of classes": (GradientBoostingClassifier(**FEW), 3),
    "hist": (HistGradientBoostingRegressor(max_iter=3), 0),
    "hist of counts": (HistGradientBoostingRegressor(max_iter=3, loss="poisson"), 0),
    "hist of classes": (HistGradientBoostingClassifier(max_iter=3), 2),
}


def outcome(n_classes):
    positive = np.exp(Y / 4)
    if not n_classes:
        return positive
    return np.digitize(Y, np.quantile(Y, np.arange(1, n_classes) / n_classes))


@functools.cache
def fitted(name):
    estimator, n_classes = AGREED[name]
    trees = type(estimator).__name__ in TREES
    estimator = estimator.fit(to_bins(X, GRID).astype(float) if trees else X, outcome(n_classes))
    return to_portable(estimator, n_classes, GRID)


def check(model, description, n_classes, candidate=None, grid=GRID):
    open_model(model.form, model.arrays, 3, n_classes)
    check_agreed(model.form, model.arrays, description, candidate or {}, 3, n_classes, grid)


@pytest.mark.parametrize("came", AGREED)
@pytest.mark.parametrize("agreed", AGREED)
def test_a_model_is_accepted_if_and_only_if_it_was_agreed(agreed, came):
    estimator, n_classes = AGREED[agreed]
    description = model_description(estimator)
    # The same format, of which only numbers differ; whoever may grow 31 leaves may grow 8.
    alike = [{"ridge", "lasso", "scaled"}, {"hist", "boosting"} if agreed == "hist" else set()]
    if agreed == came or any({agreed, came} <= names for names in alike):
        check(fitted(came), description, n_classes)
        return
    with pytest.raises(ModelError, match="must"):
        check(fitted(came), description, n_classes)


OTHERS = {
    "tree": [{"max_depth": 2}, {"max_leaf_nodes": 4}],
    "forest": [{"n_estimators": 2}, {"n_estimators": 4}, {"max_leaf_nodes": 5}, {"max_depth": 1}],
    "boosting": [{"n_estimators": 2}, {"n_estimators": 4}, {"max_depth": 2}],
    "boosting of classes": [{"n_estimators": 2}, {"n_estimators": 9}],
    "hist": [{"max_iter": 2}, {"max_leaf_nodes": 3}, {"loss": "gamma"}],
    "polynomials": [{"polynomialfeatures__degree": 1}, {"polynomialfeatures__degree": 3}],
    "splines": [
        {"splinetransformer__degree": 2},
        {"splinetransformer__include_bias": False},
        {"splinetransformer__knots": [[-2.0] * 3, [0.5] * 3, [3.0] * 3]},
    ],
    "levels": [
        {"columntransformer__a__categories": [[0, 1, 3]]},
        {"columntransformer__a__categories": [[0, 1]]},
        {"columntransformer__a__drop": "first"},
        {"columntransformer__a__handle_unknown": "ignore"},
    ],
}


@pytest.mark.parametrize(
    ("name", "other"), [(name, other) for name in OTHERS for other in OTHERS[name]], ids=str
)
def test_every_parameter_that_shapes_a_model_is_compared(name, other):
    estimator, n_classes = AGREED[name]
    model, description = fitted(name), model_description(estimator)
    check(model, description, n_classes)
    with pytest.raises(ModelError, match=r"must be the one that was agreed; its .* is another"):
        check(model, description, n_classes, other)


def test_boosting_that_may_stop_early_may_have_fewer_trees():
    model = fitted("boosting")
    patient = model_description(GradientBoostingRegressor(n_estimators=9, n_iter_no_change=2))
    check(model, patient, 0)
    check(fitted("hist"), model_description(HistGradientBoostingRegressor(max_iter=9)), 0)


def test_the_grid_is_the_agreed_one():
    model, description = fitted("tree"), model_description(AGREED["tree"][0])
    check(model, description, 0)
    with pytest.raises(ModelError, match="its grid is another"):
        check(model, description, 0, grid=GRID / 2)


def test_a_model_of_a_description_that_may_not_leave_is_never_agreed():
    for other in (SVR(), RandomForestRegressor(criterion="absolute_error")):
        with pytest.raises(ModelError, match="its estimator is another"):
            check(fitted("ridge"), model_description(other), 0)
    with pytest.raises(ModelError, match="its estimator is another"):
        check(fitted("ridge"), model_description(Ridge()), 0, {"strange": 1})


def test_a_source_without_a_class_is_agreed_only_among_three_or_more():
    estimator = LogisticRegression()
    model = to_portable(estimator.fit(X, 2 * outcome(2)), 3, None)
    check(model, model_description(estimator), 3)

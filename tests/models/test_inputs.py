"""A pipeline gets the table's own columns: predictions are scikit-learn's on the user's frame."""

import re
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeRegressor

from fedcsa import Columns, FedCSA
from fedcsa.data.frames import as_described_matrix
from fedcsa.errors import FedCSAError, MissingExtraError, ModelError
from fedcsa.messages.messages import Refusal
from fedcsa.messages.policy import Policy
from fedcsa.models.allowed import agreed_columns, refused_before_fitting
from fedcsa.models.arrivals import check_agreed
from fedcsa.models.chosen import chosen_by_name
from fedcsa.models.description import build
from fedcsa.models.estimators import Rounded, SklearnModel, weight_keyword
from fedcsa.models.fitted import EstimatorModel
from fedcsa.models.formats import open_model
from fedcsa.models.inputs import Inputs, begins_with_columns, plain_numbers
from fedcsa.models.leaving import own_values, rows_per_mean
from fedcsa.models.registry import model_description
from fedcsa.models.tree_format import TreeModel
from fedcsa.plan import make_plan
from fedcsa.source.source import Source
from fedcsa.target.target import Target

LEVELS = ("mild", "severe", "none")
COLUMNS = Columns(
    {
        "age": "number",
        "sbp": {"kind": "number", "missing": "model"},
        "smoker": "flag",
        "stage": {"levels": list(LEVELS), "missing": "model"},
        "sex": ["M", "F"],
    }
)
INPUTS = Inputs.from_plain(COLUMNS.inputs)
NUMBERS, TEXTS = ["age", "sbp", "smoker"], ["stage", "sex"]


def hospital(rows, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(60.0, 10.0, rows).round(1),
            "sbp": rng.normal(130.0, 15.0, rows),
            "smoker": rng.integers(0, 2, rows).astype(float),
            "stage": rng.choice(LEVELS, rows),
            "sex": rng.choice(["M", "F"], rows),
        }
    )
    y = 0.1 * frame.age + 0.02 * frame.sbp + (frame.stage == "severe") + frame.smoker
    y = y + rng.normal(0.0, 0.5, rows)
    frame.loc[rng.random(rows) < 0.2, "sbp"] = np.nan
    frame.loc[rng.random(rows) < 0.2, "stage"] = np.nan
    return frame, y.to_numpy()


FRAME, Y = hospital(300, 0)
NEW, _ = hospital(80, 1)
X = as_described_matrix(FRAME, "X", COLUMNS)[0]
X_NEW = as_described_matrix(NEW, "X", COLUMNS)[0]
RATIOS = np.random.default_rng(2).gamma(2.0, size=300)
GRID = np.full(X.shape[1], 0.5)


def by_kind(numbers, texts, names=(NUMBERS, TEXTS)):
    return ColumnTransformer([("n", numbers, names[0]), ("t", texts, names[1])])


filled = SimpleImputer()
commonest = SimpleImputer(strategy="most_frequent")
named = SimpleImputer(strategy="constant", fill_value="not known")
SELECTED = (
    make_column_selector(dtype_include="number"),
    make_column_selector(dtype_exclude="number"),
)
PORTABLE = {
    "the usual": make_pipeline(
        by_kind(make_pipeline(filled, StandardScaler()), OneHotEncoder(handle_unknown="ignore")),
        Ridge(),
    ),
    "indicators": make_pipeline(
        by_kind(SimpleImputer(add_indicator=True), OneHotEncoder(drop="first")), Ridge()
    ),
    "selectors": make_pipeline(
        by_kind(
            SimpleImputer(strategy="constant", fill_value=120.0),
            make_pipeline(commonest, OneHotEncoder(drop="if_binary")),
            SELECTED,
        ),
        StandardScaler(),
        Ridge(),
    ),
    "a new text": make_pipeline(by_kind(filled, make_pipeline(named, OneHotEncoder())), Ridge()),
    "codes": make_pipeline(
        by_kind(
            filled,
            OrdinalEncoder(
                encoded_missing_value=-1, handle_unknown="use_encoded_value", unknown_value=-2
            ),
        ),
        Ridge(),
    ),
    "codes in an order": make_pipeline(
        by_kind(
            filled,
            make_pipeline(
                commonest, OrdinalEncoder(categories=[["none", "mild", "severe"], ["F", "M"]])
            ),
        ),
        LinearRegression(),
    ),
    "some levels": make_pipeline(
        by_kind(
            filled,
            OneHotEncoder(categories=[["severe", "mild"], ["F"]], handle_unknown="ignore"),
        ),
        Ridge(),
    ),
    "scalers of cells": make_pipeline(
        by_kind(make_pipeline(filled, MinMaxScaler()), OneHotEncoder()), Ridge()
    ),
    "products": make_pipeline(
        by_kind(
            make_pipeline(filled, StandardScaler(), PolynomialFeatures(2)), OneHotEncoder()
        ),
        Lasso(0.01),
    ),
    "logarithms": make_pipeline(
        by_kind(make_pipeline(filled, FunctionTransformer(np.log1p)), OneHotEncoder()), Ridge()
    ),
    "branches": make_pipeline(
        by_kind(
            FeatureUnion([("a", filled), ("b", make_pipeline(filled, StandardScaler()))]),
            OneHotEncoder(),
        ),
        Ridge(),
    ),
    "the rest": make_pipeline(
        ColumnTransformer([("t", OneHotEncoder(), ["sex"]), ("d", "drop", ["stage", "sbp"])],
                          remainder="passthrough"),
        Ridge(),
    ),
    "by place": make_pipeline(
        ColumnTransformer([("n", filled, [0, 1]), ("t", OneHotEncoder(), slice(3, 5))]), Ridge()
    ),
}  # fmt: skip
HELD = {
    "medians": make_pipeline(by_kind(SimpleImputer(strategy="median"), OneHotEncoder()), Ridge()),
    "neighbours fill": make_pipeline(by_kind(KNNImputer(), OneHotEncoder()), Ridge()),
    "means of outcomes": make_pipeline(
        by_kind(filled, TargetEncoder(cv=3, random_state=0)), Ridge()
    ),
    "neighbours": make_pipeline(by_kind(filled, OneHotEncoder()), KNeighborsRegressor()),
    "a transformed outcome": TransformedTargetRegressor(
        PORTABLE["the usual"], func=np.log1p, inverse_func=np.expm1
    ),
}
TREES = {
    "boosting": make_pipeline(
        by_kind("passthrough", OrdinalEncoder()), HistGradientBoostingRegressor(max_iter=8)
    ),
    "forest": make_pipeline(
        by_kind("passthrough", OneHotEncoder()), RandomForestRegressor(4, min_samples_leaf=5)
    ),
    "extra trees": make_pipeline(
        by_kind("passthrough", OrdinalEncoder()), ExtraTreesRegressor(4, min_samples_leaf=5)
    ),
    "filled": make_pipeline(
        by_kind(SimpleImputer(add_indicator=True), OneHotEncoder(sparse_output=False)),
        DecisionTreeRegressor(min_samples_leaf=5),
    ),
}


def fitted(pipeline, candidate=(), grid=None, n_classes=0, y=Y):
    pipeline = chosen_by_name(pipeline, lambda: {"here": FRAME}, by_place=True)
    description = model_description(pipeline, COLUMNS.inputs)
    model = SklearnModel(build(description["estimator"]), n_classes, grid, INPUTS)
    path = model.fit(X, y, RATIOS, [dict(candidate)], np.random.default_rng(0))
    assert path.models[0] is not None, path.texts
    return path.models[0], description


def own(pipeline, weights=None):
    keywords = {} if weights is None else {weight_keyword(pipeline): weights}
    return clone(pipeline).fit(FRAME, Y, **keywords)


# What a model gets -----------------------------------------------------------------------------


def test_the_frame_is_the_table_again():
    pd.testing.assert_frame_equal(INPUTS.frame(X), FRAME)


def test_codes_are_places_of_the_agreed_levels_and_nan_where_a_cell_is_empty():
    codes = INPUTS.codes(X)
    places = FRAME.stage.map({level: k for k, level in enumerate(LEVELS)})
    np.testing.assert_array_equal(codes[:, 3], places.to_numpy(float))
    np.testing.assert_array_equal(codes[:, 1], FRAME.sbp)


def test_other_models_get_the_numbers_with_nan_and_without_the_flags_of_empty_cells():
    numbers = INPUTS.numbers(X)
    assert numbers.shape == (300, 6)  # age, sbp, smoker, two levels, one level
    assert (np.isnan(numbers[:, 3]) == FRAME.stage.isna()).all()
    np.testing.assert_array_equal(numbers[:, 1], FRAME.sbp)


@pytest.mark.parametrize(
    ("estimator", "begins"),
    [
        (make_pipeline("passthrough", SimpleImputer(), Ridge()), True),
        (make_pipeline(make_pipeline(OneHotEncoder()), Ridge()), True),
        (TransformedTargetRegressor(make_pipeline(OrdinalEncoder(), Ridge())), True),
        (GridSearchCV(make_pipeline(TargetEncoder(), Ridge()), {}), True),
        (VotingRegressor([("a", Ridge()), ("b", make_pipeline(KNNImputer(), Ridge()))]), True),
        (make_pipeline(StandardScaler(), SimpleImputer(), Ridge()), False),
        (HistGradientBoostingRegressor(), False),
        (RandomForestRegressor(), False),
    ],
)
def test_what_begins_with_columns_gets_a_frame(estimator, begins):
    assert begins_with_columns(estimator) == begins


@pytest.mark.parametrize(
    "changed",
    [
        {"name": 3},
        {"kind": "text"},
        {"columns": [0.5]},
        {"columns": [-1]},
        {"columns": [2**40]},
        {"columns": [0, 1]},
        {"columns": []},
        {"levels": ["a", "b"]},
        {"missing": 1},
        {"missing": True},
        {"kind": "levels", "levels": ["a", "a"]},
        {"kind": "levels", "levels": ["a"], "columns": []},
        {"levels": None},
    ],
)
def test_inputs_that_cannot_be_are_refused(changed):
    with pytest.raises(ModelError, match="inputs"):
        Inputs.from_plain([{**plain_numbers(["a"])[0], **changed}])
    with pytest.raises(ModelError, match="different names"):
        Inputs.from_plain(plain_numbers(["a"]) * 2)


def test_without_pandas_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"fedcsa\[pipelines\]"):
        SklearnModel(PORTABLE["the usual"], 0, None, INPUTS)
    SklearnModel(HistGradientBoostingRegressor(), 0, None, INPUTS)  # gets no frame


# Predictions -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*TargetEncoder:FutureWarning")
@pytest.mark.parametrize("power", [0.0, 1.0])
@pytest.mark.parametrize("name", [*PORTABLE, *HELD])
def test_predictions_are_those_of_the_same_pipeline_on_the_frame(name, power):
    pipeline = {**PORTABLE, **HELD}[name]
    if power and name == "neighbours":
        return  # which takes no weights
    model, _ = fitted(pipeline, {"ratio_power": power})
    assert isinstance(model, EstimatorModel) == (name in HELD)
    oracle = own(pipeline, RATIOS if power else None).predict(NEW)
    np.testing.assert_allclose(model.predict(X_NEW), oracle, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", TREES)
def test_trees_after_columns_predict_as_scikit_learn_on_the_same_rounded_columns(name):
    pipeline = clone(TREES[name])
    pipeline[-1].set_params(random_state=0)
    model, description = fitted(pipeline, grid=GRID)
    assert isinstance(model, TreeModel)
    assert (model.missing_left is not None) == (name != "filled")
    check_agreed(model.form, model.arrays, description, {}, X.shape[1], 0, GRID)
    *before, (last, trees) = pipeline.steps
    rounded = ("rounded", Rounded(model.cells.step))
    oracle = clone(pipeline).set_params(steps=[*before, rounded, (last, trees)]).fit(FRAME, Y)
    np.testing.assert_allclose(model.predict(X_NEW), oracle.predict(NEW), rtol=1e-12)


@pytest.mark.parametrize(
    "trees",
    [
        HistGradientBoostingRegressor(max_iter=8),
        DecisionTreeRegressor(min_samples_leaf=3, random_state=0),
        ExtraTreeRegressor(min_samples_leaf=3, random_state=0),
        RandomForestRegressor(4, random_state=0),
    ],
    ids=lambda trees: type(trees).__name__,
)
def test_empty_cells_go_where_the_estimator_sends_them(trees):
    model, description = fitted(trees, grid=GRID)
    assert set(model.missing_left.tolist()) == {0, 1}
    step = np.full(6, 0.5)
    oracle = make_pipeline(Rounded(step), clone(trees)).fit(INPUTS.numbers(X), Y)
    expected = oracle.predict(INPUTS.numbers(X_NEW))
    np.testing.assert_allclose(model.predict(X_NEW), expected, rtol=1e-12)
    opened = open_model(model.form, model.arrays, X.shape[1], 0)
    assert opened.predict(X_NEW).tobytes() == model.predict(X_NEW).tobytes()
    check_agreed(model.form, model.arrays, description, {}, X.shape[1], 0, GRID)


@pytest.mark.parametrize(
    "final",
    [
        HistGradientBoostingClassifier(max_iter=4),
        RandomForestClassifier(4, min_samples_leaf=5, random_state=0),
        DecisionTreeClassifier(min_samples_leaf=5, random_state=0),
        LogisticRegression(max_iter=500),
    ],
    ids=lambda final: type(final).__name__,
)
def test_classes_have_the_probabilities_of_scikit_learn(final):
    codes = np.digitize(Y, np.quantile(Y, [0.3, 0.6]))
    columns = by_kind(make_pipeline(filled, StandardScaler()), OneHotEncoder(sparse_output=False))
    if not isinstance(final, LogisticRegression):
        columns = by_kind(filled, OneHotEncoder(sparse_output=False))
    pipeline = make_pipeline(columns, final)
    grid = None if isinstance(final, LogisticRegression) else np.full(X.shape[1], 1e-3)
    model, _ = fitted(pipeline, grid=grid, n_classes=3, y=codes.astype(float))
    steps = list(clone(pipeline).steps)
    if grid is not None:
        steps.insert(1, ("rounded", Rounded(model.cells.step)))
    oracle = clone(pipeline).set_params(steps=steps).fit(FRAME, codes)
    np.testing.assert_allclose(model.predict(X_NEW), oracle.predict_proba(NEW), rtol=1e-9)


def test_a_level_that_a_site_does_not_have_fails_nowhere_and_is_not_told():
    here = (FRAME.stage != "severe").to_numpy()
    pipeline = make_pipeline(by_kind(filled, OneHotEncoder()), Ridge())
    description = model_description(pipeline, COLUMNS.inputs)
    model = SklearnModel(build(description["estimator"]), 0, None, INPUTS)
    [few] = model.fit(X[here], Y[here], RATIOS[here], [{}], np.random.default_rng(0)).models
    [all_] = model.fit(X, Y, RATIOS, [{}], np.random.default_rng(0)).models
    assert few.form == all_.form
    assert {n: a.shape for n, a in few.arrays.items()} == {
        n: a.shape for n, a in all_.arrays.items()
    }
    assert np.isfinite(few.predict(X_NEW)).all()


def test_a_column_without_empty_cells_at_a_site_has_its_flag_nevertheless():
    here = FRAME.sbp.notna().to_numpy()
    pipeline = PORTABLE["indicators"]
    description = model_description(pipeline, COLUMNS.inputs)
    model = SklearnModel(build(description["estimator"]), 0, None, INPUTS)
    [few] = model.fit(X[here], Y[here], RATIOS[here], [{}], np.random.default_rng(0)).models
    check_agreed(few.form, few.arrays, description, {}, X.shape[1], 0)
    oracle = clone(pipeline).fit(FRAME[here], Y[here]).predict(NEW)
    np.testing.assert_allclose(few.predict(X_NEW), oracle, rtol=1e-9)


# What leaves a site ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", PORTABLE)
def test_a_pipeline_arrives_as_it_was_agreed(name):
    model, description = fitted(PORTABLE[name])
    assert refused_before_fitting(description) == ""
    opened = open_model(model.form, model.arrays, X.shape[1], 0)
    assert opened.predict(X_NEW).tobytes() == model.predict(X_NEW).tobytes()
    check_agreed(model.form, model.arrays, description, {}, X.shape[1], 0)
    assert model.coefficients.shape[1] == agreed_columns(description, [], X.shape[1])


@pytest.mark.parametrize(
    ("pipeline", "words"),
    [
        (HELD["medians"], "SimpleImputer would carry a patient's value. Use strategy='mean'"),
        (HELD["neighbours fill"], "KNNImputer has no format .* Use SimpleImputer"),
        (HELD["means of outcomes"], "TargetEncoder has no format .* Use OneHotEncoder instead"),
        (HELD["neighbours"], "KNeighborsRegressor has no format"),
        (make_pipeline(by_kind(filled, "passthrough"), Ridge()), "Texts reach the model itself"),
        (make_pipeline(by_kind(filled, StandardScaler()), Ridge()), "StandardScaler gets texts"),
        (
            make_pipeline(by_kind(filled, SimpleImputer(strategy="most_frequent",
                                                        add_indicator=True)), Ridge()),
            "add_indicator=False for texts",
        ),
        (
            make_pipeline(by_kind(make_pipeline(MinMaxScaler(), SimpleImputer()), "drop"), Ridge()),
            "MinMaxScaler would carry",
        ),
        (
            make_pipeline(by_kind(StandardScaler(), OneHotEncoder()), RandomForestRegressor()),
            "only behind imputers and encoders: trees need no scaling",
        ),
        (
            make_pipeline(by_kind(filled, OneHotEncoder(min_frequency=5)), Ridge()),
            "OneHotEncoder may leave only with columns of agreed levels",
        ),
    ],
)  # fmt: skip
def test_what_has_no_format_is_named_with_the_nearest_that_has(pipeline, words):
    description = model_description(pipeline, COLUMNS.inputs)
    assert re.search(words, refused_before_fitting(description))


@pytest.mark.parametrize(
    ("array", "what"),
    [("step2.1.fill", None), ("step2.3.constant", "array"), ("step3.1.levels", "array")],
)
def test_learnt_numbers_may_differ_and_agreed_ones_may_not(array, what):
    model, description = fitted(PORTABLE["the usual"])
    changed = {**model.arrays, array: model.arrays[array] + 1}
    if what is None:
        check_agreed(model.form, changed, description, {}, X.shape[1], 0)
        return
    with pytest.raises(ModelError, match=what):
        check_agreed(model.form, changed, description, {}, X.shape[1], 0)


def mostly_empty(present):
    """The rows with a blood pressure of the first few patients alone."""
    rows = X.copy()
    rows[:, 2] = np.arange(len(rows)) >= present
    return rows


@pytest.mark.parametrize("present", [1, 4])
@pytest.mark.parametrize("name", ["the usual", "filled"])
def test_a_mean_of_few_patients_does_not_leave(name, present):
    rows = mostly_empty(present)
    description = model_description({**PORTABLE, **TREES}[name], COLUMNS.inputs)
    model = SklearnModel(build(description["estimator"]), 0, GRID, INPUTS)
    [sent] = model.fit(rows, Y, RATIOS, [{}], np.random.default_rng(0)).models
    assert rows_per_mean(sent, rows).tolist() == [present]
    held = own_values(sent.form, sent.arrays, rows, Y, np.empty(0))
    assert any(array.endswith(".fill") for array in held) == (present == 1)


def test_a_source_keeps_a_model_that_holds_a_mean_of_few():
    rows, plan = mostly_empty(4), planned(TREES["filled"])
    target = Target(rows, plan, policy=Policy.open())
    policy = Policy(max_membership_auc=1.0, max_parameters_per_row=10.0, max_row_leverage=1.0)
    source = Source("a", rows, Y, features=plan.features, policy=policy)
    report = source.answer(target.brief(["a"]))
    assert not isinstance(report, Refusal), source.refusal
    request = target.choose({"a": report})
    assert isinstance(source.answer(request), Refusal)
    assert source.refusal.rule == "min_rows_per_leaf"
    assert "every mean of an imputer or a scaler" in str(source.refusal)


def test_a_scaler_before_the_imputer_tells_no_mean_of_few():
    filled = make_pipeline(StandardScaler(), SimpleImputer(strategy="constant", fill_value=0.0))
    pipeline = make_pipeline(ColumnTransformer([("n", filled, ["sbp"])]), Ridge())
    description = model_description(pipeline, COLUMNS.inputs)
    model = SklearnModel(build(description["estimator"]), 0, GRID, INPUTS)
    rows = mostly_empty(4)
    [sent] = model.fit(rows, Y, RATIOS, [{}], np.random.default_rng(0)).models
    assert any(name.endswith(".shift") for name in sent.arrays)
    assert rows_per_mean(sent, rows).tolist() == [4]


def test_a_candidate_fails_where_a_scaled_column_has_no_cell():
    filled = make_pipeline(StandardScaler(), SimpleImputer(strategy="constant", fill_value=0.0))
    pipeline = make_pipeline(ColumnTransformer([("n", filled, ["sbp"])]), Ridge())
    model = SklearnModel(pipeline, 0, GRID, INPUTS)
    path = model.fit(mostly_empty(0), Y, RATIOS, [{}], np.random.default_rng(0))
    assert path.models == (None,)
    assert path.failures == {0: "ValueError"}


def planned(pipeline):
    trees = clone(pipeline).set_params(decisiontreeregressor__min_samples_leaf=20)
    described = {name: getattr(COLUMNS, name) for name in ("flags", "public_sd")}
    return make_plan(trees, [{}], {}, inputs=COLUMNS.inputs, features=COLUMNS.columns, **described)


def test_ways_of_empty_cells_are_there_where_they_were_agreed_and_are_ways():
    model, description = fitted(TREES["boosting"], grid=GRID)
    without = {name: a for name, a in model.arrays.items() if name != "missing_left"}
    with pytest.raises(ModelError, match="way of empty cells"):
        check_agreed(model.form, without, description, {}, X.shape[1], 0, GRID)
    wrong = {**model.arrays, "missing_left": model.arrays["missing_left"] + 1}
    with pytest.raises(ModelError, match="a way for empty cells"):
        open_model(model.form, wrong, X.shape[1], 0)


# Plans -----------------------------------------------------------------------------------------


def sources(n=3):
    return {f"site-{k}": hospital(150, 10 + k) for k in range(n)}


@pytest.mark.parametrize(
    "model",
    [
        "ridge",
        LinearRegression(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(by_kind(filled, OrdinalEncoder()), Ridge()),
        make_pipeline(by_kind("passthrough", OneHotEncoder()), KNeighborsRegressor()),
    ],
    ids=str,
)
def test_a_model_that_cannot_take_the_empty_cells_left_to_it_is_named_before_anything_is_fitted(
    model,
):
    sites = sources(2)
    if isinstance(model, str) or "Logistic" not in str(model):
        data = sites
    else:
        data = {name: (frame, (y > 9.0).astype(int)) for name, (frame, y) in sites.items()}
    with pytest.raises(FedCSAError, match=r"takes no missing cells, but those of 'sbp', 'stage'"):
        FedCSA(model, columns=COLUMNS, random_state=0).fit(data, NEW)


def test_a_column_that_is_not_there_is_named():
    model = make_pipeline(ColumnTransformer([("a", filled, ["agee"])]), Ridge())
    with pytest.raises(FedCSAError, match=r"'agee'.*Did you mean 'age'"):
        FedCSA(model, columns=COLUMNS, random_state=0).fit(sources(2), NEW)


def test_a_study_of_a_pipeline_predicts_as_its_own_models_on_frames():
    pipeline = PORTABLE["selectors"]
    sites = sources()
    found = FedCSA(pipeline, [{}], columns=COLUMNS, random_state=0).fit(sites, NEW)
    assert not found.adaptation_.plan.scale
    weights = found.source_weights_
    each = {name: clone(pipeline).fit(*sites[name]).predict(NEW) for name in weights}
    expected = sum(weight * each[name] for name, weight in weights.items())
    np.testing.assert_allclose(found.predict(NEW), expected, rtol=1e-12)


def test_a_fitted_pipeline_is_judged_on_the_table_as_it_was_fitted():
    sites = sources()
    pipeline = PORTABLE["the usual"]
    model = clone(pipeline).fit(*hospital(200, 30))
    found = FedCSA(columns=COLUMNS, random_state=0).evaluate(model, sites, NEW)
    np.testing.assert_allclose(found.predict(X_NEW), model.predict(NEW), rtol=1e-12)
    line = Ridge().fit(X, Y)
    with pytest.raises(ModelError, match="takes no missing cells"):
        FedCSA(columns=COLUMNS, random_state=0).evaluate(line, sites, NEW)


CODED = Columns({"a": "number", "sex": ["1", "2"], "stage": ["I", "II"]}).inputs


@pytest.mark.parametrize("listed", [[1, 2], ["1", "3"], ["1", "2", " 2"]])
def test_listed_levels_must_be_agreed_ones(listed):
    encoder = OneHotEncoder(categories=[listed], handle_unknown="ignore")
    model = make_pipeline(ColumnTransformer([("c", encoder, ["sex"])]), Ridge())
    with pytest.raises(ModelError, match="must list agreed levels of 'sex', as texts"):
        SklearnModel(model, 0, None, Inputs.from_plain(CODED)).check_columns()


@pytest.mark.parametrize("chosen", [[1, 2], 1, slice(1, 3), [False, True, True, False], np.r_[1:3]])
def test_places_in_a_frame_are_refused(chosen):
    branch = ColumnTransformer([("some", StandardScaler(), chosen)])
    columns = Columns({"pid": "id", "a": "number", "b": "number", "c": "number"})
    for first in (branch, FeatureUnion([("one", branch)])):
        model = SklearnModel(
            make_pipeline(first, Ridge()), 0, None, Inputs.from_plain(columns.inputs)
        )
        with pytest.raises(ModelError, match="must name the columns of 'some'"):
            model.check_columns()


def test_an_array_goes_to_a_pipeline_by_place():
    rng = np.random.default_rng(0)
    data = {k: (rng.normal(size=(80, 3)), rng.normal(size=80)) for k in ("a", "b")}
    model = make_pipeline(ColumnTransformer([("s", StandardScaler(), [0, 2])]), Ridge())
    found = FedCSA(model, [{}], random_state=0).fit(data, rng.normal(size=(40, 3)))
    inputs = found.adaptation_.plan.model["inputs"]
    assert [item["name"] for item in inputs] == ["x0", "x1", "x2"]


def test_a_model_that_gets_no_columns_is_not_told_of_them():
    description = model_description(Ridge(), Columns({"a": "number", "b": ["x", "y"]}).inputs)
    assert "inputs" not in description

"""Linear estimators and the steps before them: our formats against scikit-learn itself."""

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import Pipeline, make_pipeline
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

from fedcsa.errors import ModelError
from fedcsa.models.allowed import objection
from fedcsa.models.convert import to_portable
from fedcsa.models.formats import open_model
from fedcsa.models.linear_format import (
    LINEAR_CLASSIFIERS,
    LINEAR_REGRESSORS,
    DesignModel,
    LinearModel,
    agreed_steps,
)
from fedcsa.models.portable import Before
from fedcsa.models.settling import made_columns
from fedcsa.models.steps import steps_form

rng = np.random.default_rng(0)
X = np.column_stack([rng.normal(3, 2, 200), rng.normal(size=200), rng.integers(0, 3, 200)])
Y = X[:, 0] + X[:, 1] ** 2 + (X[:, 2] == 1) + rng.normal(size=200)
NEW = np.column_stack([rng.normal(3, 4, 300), 3 * rng.normal(size=300), rng.integers(0, 3, 300)])
KNOTS = np.linspace(-2, 6, 5)


def classes(n):
    return np.digitize(Y, np.quantile(Y, np.arange(1, n) / n))


def sent(model, n_classes=0):
    return open_model(model.form, model.arrays, 3, n_classes)


def close(found, own):
    np.testing.assert_allclose(found, own, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", sorted(LINEAR_REGRESSORS))
def test_every_linear_regressor_predicts_as_scikit_learn(name):
    estimator = getattr(linear_model, name)()
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=0)
    estimator.fit(StandardScaler().fit_transform(X), np.exp(Y / 5))
    assert objection(estimator) == ""
    model = sent(to_portable(estimator, 0, None))
    assert isinstance(model, LinearModel) == (LINEAR_REGRESSORS[name] == "identity")
    close(model.predict(NEW / 4), estimator.predict(NEW / 4))


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("name", sorted(LINEAR_CLASSIFIERS))
def test_every_linear_classifier_predicts_as_scikit_learn(name, n):
    estimator = getattr(linear_model, name)(max_iter=1000).fit(X, classes(n))
    model = sent(to_portable(estimator, n, None), n)
    assert isinstance(model, LinearModel) == (n == 2)
    close(model.predict(NEW), estimator.predict_proba(NEW))


def test_a_source_with_two_of_three_classes_gives_the_third_no_probability():
    estimator = LogisticRegression().fit(X, 2 * classes(2))
    model = sent(to_portable(estimator, 3, None), 3)
    assert model.form["classes"] == [0, 2]
    close(model.predict(NEW)[:, [0, 2]], estimator.predict_proba(NEW))
    assert not model.predict(NEW)[:, 1].any()


def test_a_line_without_an_intercept_stays_without():
    estimator = Ridge(fit_intercept=False).fit(X, Y)
    model = sent(to_portable(estimator, 0, None))
    assert model.intercept == 0.0
    close(model.predict(NEW), estimator.predict(NEW))


# Steps ----------------------------------------------------------------------------------------

levels = OneHotEncoder(categories=[[0, 1, 2]], sparse_output=False)
SCALERS = {
    "standard": StandardScaler(),
    "standard without means": StandardScaler(with_mean=False),
    "standard without sds": StandardScaler(with_std=False),
    "range": MinMaxScaler(),
    "range to others": MinMaxScaler((-2, 3)),
    "largest": MaxAbsScaler(),
    "robust": RobustScaler(),
    "robust without centre": RobustScaler(with_centering=False, with_scaling=True),
    "robust without scale": RobustScaler(with_scaling=False),
    "imputer": SimpleImputer(strategy="median"),
    "several": make_pipeline(SimpleImputer(), StandardScaler(), MinMaxScaler(), "passthrough"),
    "by column": ColumnTransformer(
        [("a", StandardScaler(), [0]), ("b", MinMaxScaler(), [2, 1]), ("c", "passthrough", [0])]
    ),
    "by column, rest kept": ColumnTransformer(
        [("a", RobustScaler(), slice(1, 2)), ("gone", "drop", [0])], remainder="passthrough"
    ),
}


@pytest.mark.parametrize("name", SCALERS)
def test_scalers_are_taken_into_the_coefficients(name):
    estimator = Pipeline([("made", SCALERS[name]), ("line", Lasso(0.01))]).fit(X, Y)
    assert objection(estimator) == ""
    model = sent(to_portable(estimator, 0, None))
    assert isinstance(model, LinearModel)
    assert set(model.arrays) == {"coefficients", "intercept"}
    close(model.predict(NEW), estimator.predict(NEW))


STEPS = {
    "polynomials": PolynomialFeatures(3),
    "interactions": PolynomialFeatures((2, 3), interaction_only=True, include_bias=False),
    "scaled polynomials": make_pipeline(StandardScaler(), PolynomialFeatures(2), StandardScaler()),
    "polynomials in a range": make_pipeline(PolynomialFeatures(2), MinMaxScaler()),
    "splines": SplineTransformer(knots=np.column_stack([KNOTS, KNOTS, KNOTS])),
    "splines without one": SplineTransformer(
        knots=np.column_stack([KNOTS, KNOTS - 2, KNOTS]), degree=2, include_bias=False
    ),
    "levels": ColumnTransformer([("l", levels, [2])], remainder="passthrough"),
    "levels but the first": ColumnTransformer(
        [("l", OneHotEncoder(categories=[[0, 1, 2]], drop="first"), [2])]
    ),
    "two levels": ColumnTransformer(
        [
            (
                "l",
                OneHotEncoder(
                    categories=[[0, 1], [0, 1, 2]], drop="if_binary", handle_unknown="ignore"
                ),
                [2, 2],
            )
        ]
    ),
    "codes": ColumnTransformer([("o", OrdinalEncoder(categories=[[0, 1, 2, 5]]), [2])]),
    "branches of unlike length": ColumnTransformer(
        [
            ("long", make_pipeline(SimpleImputer(), StandardScaler(), PolynomialFeatures(2)), [0]),
            ("short", levels, [2]),
            ("plain", "passthrough", [1]),
        ]
    ),
    "branches in branches": make_pipeline(
        ColumnTransformer(
            [("p", make_pipeline(PolynomialFeatures(2), StandardScaler()), [0, 1])],
            remainder="passthrough",
        ),
        ColumnTransformer([("q", PolynomialFeatures(2), [1, 6])], remainder="passthrough"),
        RobustScaler(),
    ),
}


@pytest.mark.filterwarnings("ignore:Found unknown categories")
@pytest.mark.parametrize("name", STEPS)
def test_steps_travel_with_the_line(name):
    estimator = Pipeline([("made", STEPS[name]), ("line", Ridge())]).fit(X, Y)
    assert objection(estimator) == ""
    fitted = to_portable(estimator, 0, None)
    model = sent(fitted)
    assert isinstance(model, DesignModel)
    np.testing.assert_allclose(
        model.predict(NEW), estimator.predict(NEW), rtol=1e-10, atol=1e-10 * np.ptp(Y)
    )
    before = Before(*made_columns(estimator, None, 3), 3)
    assert fitted.form["steps"] == steps_form(agreed_steps(before))


@pytest.mark.parametrize("n", [2, 3])
def test_steps_travel_with_classes_and_counts_too(n):
    steps = make_pipeline(StandardScaler(), PolynomialFeatures(2))
    estimator = make_pipeline(steps, LogisticRegression()).fit(X, classes(n))
    close(sent(to_portable(estimator, n, None), n).predict(NEW), estimator.predict_proba(NEW))
    estimator = make_pipeline(steps, PoissonRegressor()).fit(X, np.exp(Y / 5))
    close(sent(to_portable(estimator, 0, None)).predict(X), estimator.predict(X))


def test_a_level_that_was_not_agreed_is_an_error_or_no_level():
    def fitted(unknown):
        encoder = OneHotEncoder(categories=[[0, 1, 2]], handle_unknown=unknown)
        steps = ColumnTransformer([("l", encoder, [2])], remainder="passthrough")
        return make_pipeline(steps, Ridge()).fit(X, Y)

    strange = NEW.copy()
    strange[0, 2] = 7.0
    with pytest.raises(ModelError, match="agreed levels"):
        to_portable(fitted("error"), 0, None).predict(strange)
    estimator = fitted("ignore")
    close(to_portable(estimator, 0, None).predict(strange), estimator.predict(strange))


def test_a_design_is_made_a_bounded_number_of_rows_at_a_time(monkeypatch):
    estimator = make_pipeline(PolynomialFeatures(2), Ridge()).fit(X, Y)
    model = to_portable(estimator, 0, None)
    whole = model.predict(NEW)
    monkeypatch.setattr("fedcsa.models.portable.MAX_CELLS", 25)
    close(model.predict(NEW), whole)


def test_an_estimator_without_a_format_is_named():
    with pytest.raises(ModelError, match="RandomForestRegressor has a format of ours only"):
        to_portable(RandomForestRegressor(2).fit(X, Y), 0, None)
    with pytest.raises(ModelError, match="QuantileRegressor has no format"):
        to_portable(linear_model.QuantileRegressor().fit(X, Y), 0, None)


# What cannot be steps ---------------------------------------------------------------------------


def opened(part, arrays=None, width=1, **more):
    form = {"kind": "design", "link": "identity", "steps": [[part]], "classes": [], **more}
    own = {f"step0.0.{name}": array for name, array in (arrays or {}).items()}
    line = {"coefficients": np.ones((1, width)), "intercept": np.zeros(1)}
    return open_model(form, {**line, **own}, 2, 0)


def ints(*values):
    return np.array(values, np.int32)


KEEP = {"kind": "keep", "columns": [0]}
AFFINE = {"kind": "affine", "columns": [0]}
POWERS = {"kind": "powers", "columns": [0]}
LEVELS = {"kind": "levels", "columns": [0], "codes": False, "unknown": "error"}
SPLINE = {"kind": "spline", "columns": [0], "degree": 1, "bias": True}
SOUND = {
    "keep": (KEEP, {}, 1),
    "affine": (AFFINE, {"shift": np.zeros(1), "scale": np.ones(1)}, 1),
    "powers": (POWERS, {"powers": ints([1], [2])}, 2),
    "levels": (LEVELS, {"levels": np.arange(3.0), "sizes": ints(3), "dropped": ints(-1)}, 3),
    "spline": (SPLINE, {"knots": np.arange(5.0)[None]}, 3),
}


@pytest.mark.parametrize("kind", SOUND)
def test_every_kind_of_part_opens(kind):
    part, arrays, width = SOUND[kind]
    assert opened(part, arrays, width).predict(np.ones((2, 2))).shape == (2,)


BROKEN = [
    (KEEP, {"columns": [2]}, {}),
    (KEEP, {"columns": [-1]}, {}),
    (KEEP, {"columns": []}, {}),
    (KEEP, {"columns": [0.0]}, {}),
    (KEEP, {"columns": "0"}, {}),
    (KEEP, {"kind": "eval"}, {}),
    (KEEP, {"more": 1}, {}),
    (KEEP, {}, {"left": np.ones(1)}),
    (AFFINE, {}, {"scale": np.zeros(1)}),
    (AFFINE, {}, {"scale": np.ones(2)}),
    (AFFINE, {}, {"shift": np.array([np.nan])}),
    (AFFINE, {}, {"shift": None}),
    (POWERS, {}, {"powers": ints([-1], [2])}),
    (POWERS, {}, {"powers": ints([1], [2**31 - 1])}),
    (POWERS, {}, {"powers": np.ones((2, 1))}),
    (LEVELS, {"unknown": "guess"}, {}),
    (LEVELS, {"codes": 1}, {}),
    (LEVELS, {}, {"sizes": ints(2)}),
    (LEVELS, {}, {"sizes": ints(-3)}),
    (LEVELS, {}, {"dropped": ints(3)}),
    (LEVELS, {}, {"levels": np.array([0.0, 2.0, 2.0])}),
    (SPLINE, {"degree": 0}, {}),
    (SPLINE, {"degree": 9}, {}),
    (SPLINE, {"degree": True}, {}),
    (SPLINE, {"bias": 0}, {}),
    (SPLINE, {}, {"knots": np.zeros((1, 5))}),
    (SPLINE, {}, {"knots": np.arange(3.0)[None]}),
]


@pytest.mark.parametrize(("part", "words", "arrays"), BROKEN)
def test_what_is_no_part_is_refused(part, words, arrays):
    _, own, width = SOUND[part["kind"]]
    with pytest.raises(ModelError, match="A received model must have"):
        opened({**part, **words}, {**own, **arrays}, width)


@pytest.mark.parametrize(
    "words",
    [
        {"steps": [[]]},
        {"steps": None},
        {"steps": [KEEP]},
        {"steps": [[KEEP]] * 17},
        {"steps": [[KEEP] * 201]},
        {"link": "probabilities"},
        {"link": "softmax", "classes": [0, 1, 2]},
    ],
    ids=lambda words: str(words)[:40],
)
def test_words_of_no_design_are_refused(words):
    with pytest.raises(ModelError, match="A received model must have"):
        opened(KEEP, **words)


def test_a_bomb_of_columns_is_refused_before_it_is_made():
    doubling = [{"kind": "keep", "columns": list(range(100)) * 100}] * 2
    with pytest.raises(ModelError, match="columns"):
        open_model(
            {"kind": "design", "link": "identity", "steps": [doubling], "classes": []},
            {"coefficients": np.ones((1, 20_000)), "intercept": np.zeros(1)},
            100,
            0,
        )


def test_a_design_predicts_no_rows_too():
    pipeline = make_pipeline(PolynomialFeatures(2), Ridge()).fit(X, Y)
    assert to_portable(pipeline, 0, None).predict(X[:0]).shape == (0,)

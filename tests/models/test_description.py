"""An estimator becomes plain values and back; no name reaches beyond trusted classes."""

import builtins
import inspect
import json
import os
import re
import sys
import types

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingRegressor,
    RandomForestRegressor,
    StackingRegressor,
    VotingClassifier,
)
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import all_estimators

from fedcsa.errors import FedCSAError, ModelError, UntrustedError
from fedcsa.models.description import build, describe


class Custom(RegressorMixin, BaseEstimator):
    def __init__(self, strength=1.0):
        self.strength = strength

    def fit(self, X, y):  # noqa: ARG002
        return self

    def predict(self, X):
        return np.full(len(X), self.strength)


CUSTOM = f"{Custom.__module__}.{Custom.__qualname__}"

ESTIMATORS = [
    Lasso(),
    Lasso(alpha=0.5, positive=True),
    Ridge(alpha=np.float64(2.0), fit_intercept=np.bool_(False)),
    RandomForestRegressor(n_estimators=np.int64(7), max_features=None),
    MLPRegressor(hidden_layer_sizes=(5, 3)),
    SVR(kernel="poly", degree=4),
    LogisticRegression(class_weight={"0": 1.0, "1": 2.0}),
    make_pipeline(StandardScaler(with_mean=False), PolynomialFeatures(2), Lasso(0.1)),
    Pipeline([("a", "passthrough"), ("b", Ridge())]),
    make_pipeline(
        ColumnTransformer(
            [("n", make_pipeline(SimpleImputer(), StandardScaler()), [0, 1]), ("r", "drop", [2])],
            remainder="passthrough",
        ),
        Ridge(),
    ),
    ColumnTransformer([("n", StandardScaler(), ["age", "dose"]), ("c", OneHotEncoder(), ["sex"])]),
    FeatureUnion([("a", StandardScaler()), ("b", PolynomialFeatures(3))]),
    BaggingRegressor(estimator=DecisionTreeRegressor(max_depth=2), n_estimators=3),
    StackingRegressor([("l", Lasso()), ("t", DecisionTreeRegressor())], final_estimator=Ridge()),
    VotingClassifier([("l", LogisticRegression())], weights=[1.0]),
    TransformedTargetRegressor(regressor=Ridge(alpha=3.0)),
    GaussianProcessRegressor(kernel=ConstantKernel(2.0) * RBF(0.5, (1e-2, 1e2)) + WhiteKernel()),
    GaussianProcessRegressor(kernel=Matern(length_scale=[1.0, 2.0], nu=1.5)),
    GaussianProcessRegressor(kernel=RBF(1.0, "fixed"), alpha=1e-4),
]


def shown(value):
    """All parameters, however deep, in a form that can be compared."""
    if hasattr(value, "get_params"):
        inner = {key: shown(item) for key, item in sorted(value.get_params(deep=False).items())}
        return type(value), inner
    if isinstance(value, tuple | list):
        return type(value), [shown(item) for item in value]
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    return "nan" if value != value else value


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_an_estimator_survives_its_description(estimator):
    description = describe(estimator)
    assert shown(build(description)) == shown(estimator)
    assert describe(build(description)) == description


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_a_description_is_plain_json(estimator):
    description = describe(estimator)
    through_json = json.loads(json.dumps(description, allow_nan=False))
    assert through_json == description
    assert shown(build(through_json)) == shown(estimator)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (5, 5),
        (0.5, 0.5),
        ("text", "text"),
        (np.int64(5), 5),
        (np.float64(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("text"), "text"),
        ([1, (2, 3)], [1, (2, 3)]),
        ((), ()),
        ({"a": (1,)}, {"a": (1,)}),
        ({"class": "x", "parameters": {}}, {"class": "x", "parameters": {}}),
        ({"tuple": [1]}, {"tuple": [1]}),
        ({"dict": {}}, {"dict": {}}),
        (np.array([1.0, 2.0]), [1.0, 2.0]),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    ],
    ids=repr,
)
def test_plain_values_survive_their_description(value, expected):
    built = build(describe(value))
    assert built == expected
    assert type(built) is type(expected)


def test_parameters_at_their_defaults_are_left_out():
    assert describe(Lasso()) == {"class": "sklearn.linear_model.Lasso", "parameters": {}}
    # a function that is the default needs no description
    assert describe(SelectKBest(k=3))["parameters"] == {"k": 3}


def test_a_value_equal_to_its_default_but_of_another_type_is_kept():
    assert describe(Lasso(alpha=1))["parameters"] == {"alpha": 1}
    assert describe(Lasso(fit_intercept=1))["parameters"] == {"fit_intercept": 1}


def test_names_are_public_where_the_class_is_public():
    assert describe(KNeighborsRegressor())["class"] == "sklearn.neighbors.KNeighborsRegressor"
    kernel = describe(RBF(2.0))
    assert kernel["class"] == "sklearn.gaussian_process.kernels.RBF"


def predictors():
    for kind in ("regressor", "classifier"):
        for name, cls in all_estimators(type_filter=kind):
            required = [
                parameter
                for parameter in inspect.signature(cls).parameters.values()
                if parameter.default is parameter.empty and parameter.kind.name != "VAR_KEYWORD"
            ]
            if not required:
                yield pytest.param(cls, id=name)


@pytest.mark.filterwarnings("ignore:Class .* is deprecated:FutureWarning")
@pytest.mark.parametrize("cls", [*predictors()])
def test_every_predictor_of_scikit_learn_is_described_and_built_again(cls):
    description = describe(cls())
    assert type(build(description)) is cls
    assert not any(part.startswith("_") for part in description["class"].split("."))


@pytest.mark.parametrize("module", ["no.such._place", "_private", "json._no_such", "sklearn._x"])
def test_a_class_that_no_public_package_holds_keeps_its_full_name(module):
    cls = type("Odd", (Custom,), {"__module__": module})
    assert describe(cls())["class"] == f"{module}.Odd"


def test_a_package_that_fails_to_load_its_parts_when_asked_is_passed_over(monkeypatch):
    lazy = types.ModuleType("lazy")

    def fail(name):
        raise ImportError(name)

    lazy.__getattr__ = fail
    monkeypatch.setitem(sys.modules, "lazy", lazy)
    cls = type("Odd", (Custom,), {"__module__": "lazy._inner"})
    assert describe(cls())["class"] == "lazy._inner.Odd"


# What cannot be described ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        lambda x: x,
        len,
        os.system,
        Lasso,
        object(),
        {1: "a"},
        {1, 2},
        b"bytes",
        1j,
        np.random.default_rng(0),
        FunctionTransformer(np.sin),
        FunctionTransformer(func=lambda x: x),
        make_pipeline(FunctionTransformer(func=abs), Lasso()),
        SelectKBest(f_regression),
        OneHotEncoder(dtype=np.float32),
        KNeighborsRegressor(metric=max),
        [Lasso],
        np.array([object()]),
    ],
    ids=lambda value: re.sub(r"0x[0-9a-fA-F]+", "", repr(value))[:40],  # alike in all processes
)
def test_functions_classes_and_other_objects_cannot_be_sent(value):
    with pytest.raises(ModelError, match=r"numbers, texts, lists and estimators .* object of type"):
        describe(value)


def test_the_refusal_names_the_type_and_not_the_value():
    with pytest.raises(ModelError, match=r"builtins.set") as caught:
        describe({987654.321})
    assert "987654" not in str(caught.value)


# What cannot be built ----------------------------------------------------------------------------


def described(name, **parameters):
    return {"class": name, "parameters": parameters}


@pytest.mark.parametrize(
    "name",
    [
        "builtins.eval",
        "builtins.exec",
        "builtins.object",
        "os.system",
        "posix.system",
        "subprocess.Popen",
        "pickle.loads",
        "importlib.import_module",
        "numpy.load",
        "joblib.Memory",
        "sklearnx.linear_model.Lasso",
        "sklearn_evil.Lasso",
        "fedcsa.models.model.LinearRegression",
        "Lasso",
        "sklearn",
        "",
        ".",
        "..",
        ".sklearn.linear_model.Lasso",
        CUSTOM,
    ],
)
def test_a_class_outside_scikit_learn_is_refused_by_name(name):
    with pytest.raises(UntrustedError, match=r"is neither. Add it to trusted_types if you know it"):
        build(described(name))


@pytest.mark.parametrize(
    "name",
    [
        "sklearn.os",
        "sklearn.os.system",
        "sklearn.sys.modules",
        "sklearn.base.os",
        "sklearn.base.clone",
        "sklearn.linear_model.ridge_regression",
        "sklearn.datasets.load_iris",
        "sklearn.datasets.fetch_openml",
        "sklearn.utils.Bunch",
        "sklearn.utils.parallel.Parallel",
        "sklearn.linear_model",
        "sklearn.linear_model.__builtins__",
        "sklearn.__class__",
        "sklearn.linear_model.__dict__",
        "sklearn.pipeline.Memory",
        "sklearn.externals",
        "sklearn.linear_model.NoSuchModel",
        "sklearn.no_such_module.Lasso",
        "sklearn.",
        "sklearn..Lasso",
        "sklearn.linear_model.",
        "sklearn.linear_model.Lasso.fit",
        "sklearn.linear_model.Lasso.__init__",
        "sklearn\0.Lasso",
    ],
)
def test_what_is_not_the_class_of_an_estimator_in_scikit_learn_is_refused(name):
    with pytest.raises(ModelError, match=r"not installed|not the class of an estimator|neither"):
        build(described(name))


def test_a_long_name_is_cut_in_the_error():
    with pytest.raises(UntrustedError, match=r"x{100}'") as caught:
        build(described("x" * 10_000))
    assert len(str(caught.value)) < 400


def test_an_unknown_parameter_is_named():
    text = r"'sklearn\.linear_model\.Lasso' has no parameter 'alhpa'"
    with pytest.raises(ModelError, match=text):
        build(described("sklearn.linear_model.Lasso", alhpa=1.0))


@pytest.mark.parametrize(
    "description",
    [
        {"class": "sklearn.linear_model.Lasso"},
        {"parameters": {}},
        {"class": "sklearn.linear_model.Lasso", "parameters": {}, "more": 1},
        {"class": 5, "parameters": {}},
        {"class": ["sklearn.linear_model.Lasso"], "parameters": {}},
        {"class": "sklearn.linear_model.Lasso", "parameters": [1]},
        {"class": "sklearn.linear_model.Lasso", "parameters": None},
        {"list": [1]},
        {},
        {"tuple": [1], "dict": {}},
    ],
    ids=repr,
)
def test_a_mapping_that_describes_nothing_is_refused(description):
    with pytest.raises(ModelError, match="must name a class and its parameters"):
        build(description)


@pytest.mark.parametrize(
    "description",
    [
        {"tuple": 5},
        {"tuple": None},
        {"dict": 5},
        {"dict": [1]},
        {"class": "sklearn.linear_model.Lasso", "parameters": {"self": 1}},
        {"class": "sklearn.linear_model._base.LinearModel", "parameters": {}},
        {"class": "sklearn.pipeline.Pipeline", "parameters": {}},
    ],
    ids=repr,
)
def test_a_forged_description_is_refused_by_an_error_of_ours(description):
    with pytest.raises(FedCSAError, match=r"\w"):
        build(description)


def test_an_untrusted_class_is_found_however_deep_it_hides():
    deep = describe(make_pipeline(StandardScaler(), Lasso()))
    deep["parameters"]["steps"][1]["tuple"][1] = described("os.system")
    with pytest.raises(UntrustedError, match=r"'os\.system' is neither"):
        build(deep)
    with pytest.raises(UntrustedError, match=r"'builtins\.eval' is neither"):
        build([{"dict": {"a": {"tuple": [described("builtins.eval")]}}}])


def test_nothing_is_imported_for_an_untrusted_name(monkeypatch):
    def no_import(*_):
        raise AssertionError("imported")

    monkeypatch.setattr("importlib.import_module", no_import)
    with pytest.raises(UntrustedError, match="antigravity"):
        build(described("antigravity.Lasso"))


def test_a_trusted_class_is_built_and_only_under_its_full_name():
    description = describe(Custom(strength=3.0))
    assert description["class"] == CUSTOM
    with pytest.raises(UntrustedError, match="Custom"):
        build(description, trusted=("Custom", "sklearn.Custom"))


@pytest.mark.parametrize("trusted", [["pathlib.Path"], {"pathlib.Path": 1}, {"pathlib.Path"}])
def test_a_trusted_name_must_still_be_an_estimator(trusted):
    with pytest.raises(ModelError, match=r"'pathlib\.Path' is not the class of an estimator"):
        build(described("pathlib.Path"), trusted)


def test_a_trusted_class_that_is_not_installed_is_said_to_be_so():
    with pytest.raises(ModelError, match=r"'no_such_package\.Model' is not installed at this site"):
        build(described("no_such_package.Model"), ["no_such_package.Model"])


def test_a_trusted_estimator_is_built(monkeypatch):
    import fedcsa.models.model as place

    monkeypatch.setattr(place, "Custom", Custom, raising=False)
    name = "fedcsa.models.model.Custom"
    built = build(described(name, strength=4.0), [name])
    assert type(built) is Custom
    assert built.strength == 4.0


def test_building_evaluates_no_text():
    payload = "__import__('os').system('false')"
    assert build(describe(payload)) == payload
    lasso = build(described("sklearn.linear_model.Lasso", selection=payload))
    assert lasso.selection == payload
    assert builtins.eval is eval

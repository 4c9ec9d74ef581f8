"""A4: honest models that carry rows. What may leave is a short list; on it, no cell travels.

Before, ``PLSRegression`` carried all 200 rows to 1e-15 with their outcomes, kernel methods and
encoders every row or every distinct cell, ``RidgeCV(store_cv_results=True)`` outcomes to 0.005, and
``DummyRegressor(quantile=1)`` the largest outcome. Now every estimator of scikit-learn either
travels in a format of ours, with the same predictions and without a single cell, or is refused by
its name before it is fitted.
"""

import inspect
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import KernelPCA
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import HuberRegressor, LogisticRegression, RANSACRegressor, Ridge, RidgeCV
from sklearn.manifold import Isomap
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, TargetEncoder
from sklearn.utils import all_estimators

from fedcsa.messages.messages import Refusal
from fedcsa.models.allowed import objection, refused_before_fitting
from fedcsa.models.convert import to_portable
from fedcsa.models.description import describe
from fedcsa.models.formats import open_model
from fedcsa.models.leaving import own_values
from fedcsa.models.linear_format import LINEAR_CLASSIFIERS, LINEAR_REGRESSORS
from fedcsa.models.portable import agreed_grid
from fedcsa.models.registry import expand_candidates
from fedcsa.models.transformers import CELL_SCALERS, MEAN_SCALERS
from fedcsa.models.tree_format import TREES
from fedcsa.models.trees import to_bins
from fedcsa.plan import Plan
from fedcsa.source.source import Source
from fedcsa.target.target import Target

pytestmark = pytest.mark.filterwarnings("ignore:Class PassiveAggressive:FutureWarning")

N = 200
rng = np.random.default_rng(4)
X = rng.normal(size=(N, 4))
Y = np.exp(0.3 * (X @ [1.0, -1.0, 0.5, 0.0]) + 0.3 * rng.normal(size=N))
CODES = (np.median(Y) < Y).astype(int)
NEW = np.random.default_rng(5).normal(size=(100, 4))
GRID = agreed_grid(np.ones(4), scale=True)


def described(estimator):
    return {"name": "sklearn", "estimator": describe(estimator)}


def carried(model, y):
    """How many cells and outcomes stand in what leaves."""
    secret = np.concatenate([X.ravel(), y[(y != 0) & (y != 1)]])
    told = np.concatenate([np.ravel(a) for n, a in model.arrays.items() if a.dtype == float])
    nearest = np.abs(told[:, None] - secret).min(axis=0)
    return int((nearest < 1e-9 * np.abs(secret)).sum())


def sent(estimator, n_classes=0):
    """The fitted model as it arrives, and what the estimator itself predicts of new rows."""
    y = CODES if n_classes else Y
    trees = type(estimator).__name__ in TREES
    see = (lambda A: to_bins(A, GRID).astype(float)) if trees else (lambda A: A)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = clone(estimator).fit(see(X), y)
    model = to_portable(estimator, n_classes, GRID)
    arrived = open_model(model.form, model.arrays, 4, n_classes)
    own = estimator.predict_proba(see(NEW)) if n_classes else estimator.predict(see(NEW))
    return arrived, own


# The models that carried rows -------------------------------------------------------------------

CARRIERS = {
    "PLSRegression": PLSRegression(4),
    "KernelPCA": make_pipeline(KernelPCA(), Ridge()),
    "Isomap": make_pipeline(Isomap(), Ridge()),
    "OrdinalEncoder": make_pipeline(OrdinalEncoder(), Ridge()),
    "OneHotEncoder": make_pipeline(OneHotEncoder(handle_unknown="ignore"), Ridge()),
    "TargetEncoder": make_pipeline(TargetEncoder(smooth=1e-9), Ridge()),
    "DummyRegressor": DummyRegressor(strategy="quantile", quantile=1.0),
    "RANSACRegressor": RANSACRegressor(),
    "KMeans": make_pipeline(KMeans(), Ridge()),
}


@pytest.mark.parametrize("name", CARRIERS)
def test_a_model_that_carried_rows_is_refused_by_name_before_it_is_fitted(name):
    text = refused_before_fitting(described(CARRIERS[name]))
    assert text.startswith(name)
    assert ". Use " in text or ". Set " in text


def answers(estimator):
    """What a source with the strict policy answers to a brief that asks for this model."""
    plan = Plan(
        features=tuple("abcd"),
        model=described(estimator),
        candidates=expand_candidates("sklearn", [{}]),
    )
    brief = Target(NEW, plan).brief(["s"])
    return Source("s", X, Y, features=tuple("abcd")).answer(brief)


@pytest.mark.parametrize("name", CARRIERS)
def test_a_source_refuses_a_brief_that_asks_for_it(name):
    reply = answers(CARRIERS[name])
    assert isinstance(reply, Refusal)
    assert reply.rule == "portable_models"


LEAN = {
    "RidgeCV": RidgeCV(store_cv_results=True),
    "HuberRegressor": HuberRegressor(),
}


@pytest.mark.parametrize("name", LEAN)
def test_of_a_model_that_kept_rows_besides_only_its_coefficients_leave(name):
    assert refused_before_fitting(described(LEAN[name])) == ""
    model, own = sent(LEAN[name])
    assert {n: a.shape for n, a in model.arrays.items()} == {
        "coefficients": (4,),
        "intercept": (1,),
    }
    assert carried(model, Y) == 0
    np.testing.assert_allclose(model.predict(NEW), own, rtol=1e-12)


# Every estimator of scikit-learn ----------------------------------------------------------------

REGRESSORS, CLASSIFIERS, TRANSFORMERS = (
    dict(all_estimators(type_filter=kind)) for kind in ("regressor", "classifier", "transformer")
)
#: Transformers that may travel with their defaults, because nothing of them depends on levels.
PLAIN = {
    "ColumnTransformer", "FeatureUnion", "FunctionTransformer", "PolynomialFeatures",
    "SimpleImputer", *MEAN_SCALERS, *CELL_SCALERS,
}  # fmt: skip


def made(cls):
    """An estimator with its defaults, and Ridge or logistic regression where it needs one."""
    needed = {}
    for name, parameter in inspect.signature(cls.__init__).parameters.items():
        if name == "self" or parameter.default is not inspect.Parameter.empty:
            continue
        inner = LogisticRegression() if "Classif" in cls.__name__ else Ridge()
        if name in ("estimator", "base_estimator"):
            needed[name] = inner
        elif name == "estimators":
            needed[name] = [("a", inner)]
        elif name == "transformer_list":
            needed[name] = [("a", "passthrough")]
        elif name == "transformers":
            needed[name] = [("a", "passthrough", [0])]
        elif name in ("param_grid", "param_distributions"):
            needed[name] = {"alpha": [1.0]}
        elif name == "steps":
            needed[name] = [("a", inner)]
        elif parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            needed[name] = {"dictionary": [[1.0, 0.0]]}.get(name, 1)
    return cls(**needed)


def travels(estimator):
    """Whether it may leave; if not, the refusal says its name."""
    reason = objection(estimator)
    text = refused_before_fitting(described(estimator))
    assert bool(text) == bool(reason)
    return not text, text


@pytest.mark.parametrize("name", sorted(REGRESSORS))
def test_every_regressor_travels_with_equal_predictions_or_is_refused_by_name(name):
    estimator = made(REGRESSORS[name])
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=0)
    if "min_samples_leaf" in estimator.get_params():
        estimator.set_params(min_samples_leaf=10)
    may, text = travels(estimator)
    assert may == (name in LINEAR_REGRESSORS or name in TREES)
    if not may:
        assert text.startswith(f"{name} ")
        return
    model, own = sent(estimator)
    np.testing.assert_allclose(model.predict(NEW), own, rtol=1e-12)
    assert carried(model, Y) == 0
    assert own_values(model.form, model.arrays, X, Y, np.empty(0)) == []


@pytest.mark.parametrize("name", sorted(CLASSIFIERS))
def test_every_classifier_travels_with_equal_predictions_or_is_refused_by_name(name):
    estimator = made(CLASSIFIERS[name])
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=0)
    if "min_samples_leaf" in estimator.get_params():
        estimator.set_params(min_samples_leaf=10)
    may, text = travels(estimator)
    assert may == (name in LINEAR_CLASSIFIERS or name in TREES)
    if not may:
        assert text.startswith(f"{name} ")
        return
    model, own = sent(estimator, 2)
    np.testing.assert_allclose(model.predict(NEW), own, rtol=1e-12, atol=1e-12)
    assert carried(model, CODES.astype(float)) == 0


@pytest.mark.parametrize("name", sorted(TRANSFORMERS))
def test_every_transformer_travels_with_equal_predictions_or_is_refused_by_name(name):
    step = made(TRANSFORMERS[name])
    estimator = make_pipeline(step, Ridge())
    may, text = travels(estimator)
    assert may == (name in PLAIN)
    if not may:
        assert text.startswith(f"{name} ") or name in text
        return
    model, own = sent(estimator)
    np.testing.assert_allclose(model.predict(NEW), own, rtol=1e-9)
    assert carried(model, Y) == 0

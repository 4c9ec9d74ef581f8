"""A5: a model with more parameters than the study has columns. All that leave are counted.

Before, parameters were counted by the columns of the study: ``PolynomialFeatures(4)`` and least
squares on six of them counted as seven numbers, and whoever had the model knew with an AUC of 1.00
which patients it was fitted on. Now the numbers that leave are counted one by one, before anything
is fitted and again on the model itself.
"""

import numpy as np
import pytest
from sklearn import ensemble, linear_model, tree
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer, StandardScaler

from fedcsa.core.membership import loss_attack
from fedcsa.messages.messages import Refusal, RiskReport
from fedcsa.messages.policy import Policy
from fedcsa.models.allowed import agreed_columns
from fedcsa.models.convert import to_portable
from fedcsa.models.description import count_parameters
from fedcsa.models.linear_format import LINEAR_CLASSIFIERS, LINEAR_REGRESSORS
from fedcsa.models.portable import agreed_grid
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.models.tree_format import TREES
from fedcsa.models.trees import to_bins
from fedcsa.plan import Plan
from fedcsa.source.source import Source
from fedcsa.target.target import Target

N, D = 150, 6
#: Of the strict policy: three rows a number.
ALLOWED = Policy().max_parameters_per_row * N


def rows(seed, n=N):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    return X, X @ np.linspace(1, 0, D) + rng.normal(size=n)


def fitted(degree, seed=0):
    steps = make_pipeline(StandardScaler(), PolynomialFeatures(degree))
    return make_pipeline(steps, LinearRegression()).fit(*rows(seed))


def membership(model, seed=0):
    """AUC of telling patients of the source from new ones by how well the model fits them."""
    (X, y), (X_new, y_new) = rows(seed), rows(seed + 1000)
    inside, outside = (model.predict(X) - y) ** 2, (model.predict(X_new) - y_new) ** 2
    return loss_attack(inside, outside).auc


def test_polynomials_of_degree_4_would_tell_every_member_and_do_not_leave():
    estimator = fitted(4)
    model = to_portable(estimator, 0, None)
    assert membership(model) > 0.99, "what the attack reaches on the model itself"
    counted = count_parameters(model.arrays)
    assert counted == 210 + 1 + 2 * D
    assert agreed_columns(model_description(estimator), [{}], D) == 210
    assert D + 1 < ALLOWED < 210 < counted, "by columns it would have left"


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5])
def test_a_source_refuses_a_brief_that_asks_for_more_than_its_rows_bear(degree):
    steps = make_pipeline(StandardScaler(), PolynomialFeatures(degree))
    plan = Plan(
        features=tuple("abcdef"),
        model=model_description(make_pipeline(steps, LinearRegression())),
        candidates=expand_candidates("sklearn", [{}]),
    )
    X, y = rows(0, N + 10)  # the last few do not take part
    reply = Source("s", X, y, features=tuple("abcdef")).answer(
        Target(rows(1)[0], plan).brief(["s"])
    )
    assert isinstance(reply, RiskReport if degree <= 2 else Refusal)
    assert degree <= 2 or reply.rule == "max_parameters_per_row"


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5])
def test_what_the_count_lets_leave_tells_little_of_who_was_in_it(degree):
    """With p of n parameters, residuals inside and outside differ by a factor 1/(1 − p/n).

    At p = n/3 that is 1.5, and AUC = 2/π·atan(1.5) = 0.63; the mean of 20 draws is near it. The
    certificate of the source looks at the very model, and keeps it above 0.60.
    """
    model = to_portable(fitted(degree), 0, None)
    leaves = count_parameters(model.arrays) <= ALLOWED
    assert leaves == (degree <= 2)
    found = np.mean([membership(to_portable(fitted(degree, s), 0, None), s) for s in range(20)])
    assert found < 0.65 if leaves else found > 0.75


# Every format is counted to the last number -------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted([*LINEAR_REGRESSORS, *LINEAR_CLASSIFIERS]))
def test_every_linear_estimator_counts_coefficients_and_intercepts(name):
    X, y = rows(0)
    for n_classes in (2, 3) if name in LINEAR_CLASSIFIERS else (0,):
        own = np.digitize(y, [-0.5, 0.8][: n_classes - 1]) if n_classes else np.exp(y / 9)
        estimator = getattr(linear_model, name)().fit(X, own)
        model = to_portable(estimator, n_classes, None)
        wanted = np.size(estimator.coef_) + np.size(estimator.intercept_)
        assert count_parameters(model.arrays) == wanted


@pytest.mark.parametrize("name", sorted(TREES))
def test_every_estimator_of_trees_counts_thresholds_and_leaves(name):
    X, y = rows(0)
    cls = getattr(ensemble, name, None) or getattr(tree, name)
    n_classes = 3 if name.endswith("Classifier") else 0
    own = np.digitize(y, [-0.5, 0.8]) if n_classes else y
    few = {"n_estimators": 5} if "n_estimators" in cls().get_params() else {}
    few = {"max_iter": 5} if name.startswith("Hist") else few
    estimator = cls(**few, min_samples_leaf=10, random_state=0)
    grid = agreed_grid(np.ones(D), scale=True)
    estimator.fit(to_bins(X, grid).astype(float), own)
    if name.startswith("Hist"):
        sizes = [len(p.nodes) for turn in estimator._predictors for p in turn]
    else:
        members = np.ravel(getattr(estimator, "estimators_", [estimator]))
        sizes = [member.tree_.node_count for member in members]
    leaves = sum((size + 1) // 2 for size in sizes)
    columns = n_classes if n_classes and "Boosting" not in name else 1
    outputs = n_classes or 1
    wanted = sum(sizes) - leaves + columns * leaves + outputs
    assert count_parameters(to_portable(estimator, n_classes, grid).arrays) == wanted


def test_splines_count_every_column_that_they_make():
    knots = np.repeat(np.linspace(-2, 2, 6)[:, None], D, axis=1)
    estimator = make_pipeline(SplineTransformer(knots=knots), LinearRegression()).fit(*rows(0))
    assert count_parameters(to_portable(estimator, 0, None).arrays) == 8 * D + 1
    assert agreed_columns(model_description(estimator), [{}], D) == 8 * D

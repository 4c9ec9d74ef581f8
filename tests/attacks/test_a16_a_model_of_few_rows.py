"""A16: a target that asks for a model of the list, with parameters that fit it to single rows.

The certificate takes a linear model for one of all rows, and counts all rows in a leaf. Before,
``SGDRegressor`` told all features of the last patient of a table, ``TheilSenRegressor`` passed
through four patients, and forests of one row a tree held an outcome in every leaf.
"""

import numpy as np
import pytest
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import HuberRegressor, SGDRegressor, TheilSenRegressor

from fedcsa.messages.messages import Refusal
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.plan import Plan
from fedcsa.source.source import Source
from fedcsa.target.target import Target

N = 400
rng = np.random.default_rng(16)
X = rng.normal(size=(N, 3))
Y = np.round(50.0 + 5.0 * X.sum(axis=1) + 5.0 * rng.normal(size=N), 1)
#: Every step forgets all steps before it, so the last row alone is left.
FORGETS = SGDRegressor(
    max_iter=1, tol=None, learning_rate="constant", eta0=0.3, alpha=1 / 0.3, shuffle=False
)
FOUR = TheilSenRegressor(max_subpopulation=1, n_subsamples=4, random_state=1)
SINGLE = RandomForestRegressor(50, max_samples=1, min_samples_leaf=10, random_state=0)


def test_what_such_models_would_tell():
    told = FORGETS.fit(X, Y).coef_
    assert abs(told @ X[-1]) / np.linalg.norm(told) / np.linalg.norm(X[-1]) > 1.0 - 1e-6
    assert (np.abs(FOUR.fit(X, Y).predict(X) - Y) < 1e-9).sum() == 4
    leaves = [tree.tree_.value.item() for tree in SINGLE.fit(X, Y).estimators_]
    assert np.isin(np.round(leaves, 9), Y).all()


OF_FEW_ROWS = [
    FORGETS,
    FOUR,
    SINGLE,
    GradientBoostingRegressor(subsample=0.003, min_samples_leaf=10),
    HistGradientBoostingRegressor(early_stopping=True, validation_fraction=0.99),
    HuberRegressor(epsilon=1.0),
]


@pytest.mark.parametrize("model", OF_FEW_ROWS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("by_candidate", [False, True], ids=["in the model", "in a candidate"])
def test_a_source_refuses_a_brief_that_asks_for_a_model_of_few_rows(model, by_candidate):
    asked = type(model)() if by_candidate else model
    candidates = [model.get_params(deep=False) if by_candidate else {}]
    plan = Plan(
        features=("a", "b", "c"),
        model=model_description(asked),
        candidates=expand_candidates("sklearn", candidates),
    )
    brief = Target(rng.normal(size=(200, 3)), plan).brief(["s"])
    reply = Source("s", X, Y, features=("a", "b", "c")).answer(brief)
    assert isinstance(reply, Refusal)
    assert reply.rule == "portable_models"

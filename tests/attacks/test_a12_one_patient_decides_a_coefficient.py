"""A12: one patient alone has a flag or an extreme value; who knows the row wants the outcome.

An honest study suffices: least squares follows the outcome of a row that decides a coefficient
alone, to four digits. A target may also choose the agreed levels so. Membership is no use here:
one row of 300 moves no AUC. What counts is the leverage of the most exposed rows, which therefore
take no part in the model, see `fedcsa.source.exposure`.
"""

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer

from fedcsa.messages.codec import digest, encode
from fedcsa.messages.messages import ModelRequest
from fedcsa.messages.policy import Policy
from fedcsa.models.formats import open_model
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.plan import Plan
from fedcsa.source.source import Source
from fedcsa.target.target import Target

FEATURES = ("a", "b", "c", "rare")
ROWS, STUDIES = 300, 10
#: Leaves the patient's outcome half of the model's own error away, at the least.
MOST_LEVERAGE = 0.5


def table(rng, n, share):
    return np.column_stack([rng.normal(size=(n, 3)), rng.uniform(size=n) < share]).astype(float)


def asked(seed, rare=1, penalty=0.0, power=0.0, policy=None, outlier=0.0):
    """The source's answer in an honest study, patient 0 as models see it, and its outcome."""
    rng = np.random.default_rng(seed)
    X = table(rng, ROWS, 0.0)
    X[:rare, 3] = 1.0
    X[0, 0] += outlier
    y = X @ [1.0, 0.5, 0.2, 0.3] + rng.normal(size=ROWS)
    candidates = expand_candidates("ridge", [{"penalty": penalty, "ratio_power": power}])
    plan = Plan(features=FEATURES, model=model_description("ridge"), candidates=candidates)
    brief = Target(table(rng, 200, 0.03), plan).brief(["s"])
    source = Source("s", X, y, features=FEATURES, policy=policy)
    report = source.answer(brief)
    assert report.name == "risk-report"
    answer = source.answer(ModelRequest(brief.study, digest(encode(brief)), 0))
    return answer, (X[0] - brief.mean) / brief.sd, y[0]


def guessed(answer, x):
    return float(answer.arrays["intercept"][0] + x @ answer.arrays["coefficients"])


def test_without_the_rule_the_outcome_leaves_to_four_digits():
    """The attack works where a site switches the rule off: the test below tests something."""
    policy = Policy(max_row_leverage=float("inf"))
    errors = []
    for seed in range(STUDIES):
        answer, x, outcome = asked(seed, policy=policy)
        errors.append(abs(guessed(answer, x) - outcome))
    assert max(errors) < 0.005


def own_error(seed, outlier):
    """The error of least squares without patient 0, for that patient."""
    rng = np.random.default_rng(seed)
    X = table(rng, ROWS, 0.0)
    X[0, 0] += outlier
    y = X @ [1.0, 0.5, 0.2, 0.0] + rng.normal(size=ROWS)
    design = np.column_stack([np.ones(ROWS), X[:, :3]])
    beta, *_ = np.linalg.lstsq(design[1:], y[1:], rcond=None)
    return design[0] @ beta - y[0]


@pytest.mark.parametrize("penalty", [0.0, 0.001])
@pytest.mark.parametrize(
    ("power", "rare", "outlier"),
    [(0.0, 1, 0.0), (1.0, 1, 0.0), (0.0, 20, 40.0), (0.0, 5, 0.0), (0.0, 20, 0.0)],
)  # a flag of one patient, a number forty sds away, a flag of several
def test_a_known_outcome_is_no_nearer_than_half_the_models_own_error(penalty, power, rare, outlier):
    told, own = [], []
    for seed in range(STUDIES):
        answer, x, outcome = asked(seed, rare, penalty, power, outlier=outlier)
        assert answer.name == "model-report"
        told.append(guessed(answer, x) - outcome)
        own.append(own_error(seed, outlier))
    reached = np.sqrt(np.mean(np.square(told)) / np.mean(np.square(own)))
    assert reached > 1.0 - MOST_LEVERAGE


# Levels and knots that a target chooses ---------------------------------------------------------


def levels(cells):
    """A level for each of some cells, which only one patient has."""
    return OneHotEncoder(categories=[np.sort(cells)], handle_unknown="ignore")


def knots(cells):
    """Knots at the cells, and close beside each."""
    near = np.sort(np.concatenate([cells - 0.01, cells, cells + 0.01]))
    return SplineTransformer(degree=1, knots=near[:, None], extrapolation="constant")


@pytest.mark.parametrize("step", [levels, knots], ids=lambda step: step.__name__)
@pytest.mark.parametrize("off", [True, False])
def test_steps_that_pick_out_known_patients_are_no_way_to_their_outcomes(step, off):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(ROWS) / 100.0, rng.normal(size=ROWS)])
    y = X @ [1.0, 0.5] + rng.normal(size=ROWS)
    known = np.arange(10, ROWS, 30)  # rows whose features the target knows
    choose = ColumnTransformer([("pick", step(X[known, 0]), [0])], remainder="passthrough")
    description = model_description(make_pipeline(choose, LinearRegression()))
    plan = Plan(
        features=("a", "b"),
        model=description,
        candidates=expand_candidates(description["name"], None),
        scale=False,
    )
    brief = Target(X[::2], plan).brief(["s"])
    policy = Policy(max_row_leverage=float("inf"), max_membership_auc=1.0) if off else None
    source = Source("s", X, y, features=("a", "b"), policy=policy)
    assert source.answer(brief).name == "risk-report"
    answer = source.answer(ModelRequest(brief.study, digest(encode(brief)), 0))
    model = open_model(answer.form, answer.arrays, 2, 0)
    errors = np.abs(model.predict(X[known]) - y[known])
    if off:
        assert errors.max() < 0.02  # rounded to four digits
    else:
        assert np.sqrt(np.mean(errors**2)) > 0.5  # the outcomes' own noise is 1

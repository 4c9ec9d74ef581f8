"""A formula typed in predicts what its publication says."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit

from fedcsa import Formula, ModelError, Term
from fedcsa.models.arrivals import open_agreed
from fedcsa.models.description import given_column, given_description
from fedcsa.models.formats import open_model
from fedcsa.models.given import model_digest

rng = np.random.default_rng(0)
COLUMNS = ["age", "crp", "sex=M"]
X = np.column_stack([rng.uniform(20, 95, 200), rng.uniform(0.0, 300, 200), rng.integers(0, 2, 200)])
AGE, CRP, MALE = X.T


def predicted(formula, n_classes):
    model = formula.model(COLUMNS, n_classes)
    arrived = open_model(model.form, model.arrays, 3, n_classes)
    found = arrived.predict(X)
    return found[:, 1] if n_classes else found


@pytest.mark.parametrize(
    ("formula", "n_classes", "wanted"),
    [
        (Formula((Term("age", 0.1), Term("sex=M", -2.0)), 3.0), 0, 3.0 + 0.1 * AGE - 2.0 * MALE),
        (Formula((Term("age", 0.1),), -6.0, "logit"), 2, expit(0.1 * AGE - 6.0)),
        (Formula((Term("age", 0.01),), 1.0, "log"), 0, np.exp(1.0 + 0.01 * AGE)),
        (Formula((Term("age", 1.0), Term("age", 2.0)), 0.0), 0, 3.0 * AGE),
        (Formula((Term("age", 0.1, power=2),), 1.0), 0, 1.0 + 0.1 * AGE**2),
        (Formula((Term("crp", 2.0, plus=1.0, log=True),)), 0, 2.0 * np.log(CRP + 1.0)),
        (
            Formula((Term("crp", 2.0, low=5.0, log=True, power=2),)),
            0,
            2.0 * np.log(np.maximum(CRP, 5.0)) ** 2,
        ),
        (Formula((Term("age", 1.0, high=65.0), Term("crp", 0.0))), 0, np.minimum(AGE, 65.0)),
        (
            Formula((Term("age", bounds=(65.0, 75.0), points=(1.0, 2.0)), Term("sex=M", 0.5))),
            0,
            np.select([AGE >= 75.0, AGE >= 65.0], [2.0, 1.0], 0.0) + 0.5 * MALE,
        ),
    ],
    ids=range(9),
)
def test_a_formula_is_what_it_says(formula, n_classes, wanted):
    np.testing.assert_allclose(predicted(formula, n_classes), wanted, rtol=1e-12)


def test_a_total_of_points_is_looked_up_in_its_table():
    terms = (Term("age", bounds=(65.0, 75.0), points=(0.1, 0.3)), Term("sex=M", 0.2))
    formula = Formula(terms, totals=(0.0, 0.1, 0.3, 0.5), risks=(0.01, 0.05, 0.04, 0.4))
    total = np.select([AGE >= 75.0, AGE >= 65.0], [3, 1], 0) + 2 * MALE.astype(int)
    wanted = np.array([0.01, 0.05, 0.05, 0.04, 0.04, 0.4])[total]  # 0.1 + 0.2 counts as 0.3
    np.testing.assert_allclose(predicted(formula, 2), wanted, rtol=1e-9)
    alone = Formula((Term("sex=M"),), totals=(0.0,), risks=(0.25,))
    np.testing.assert_allclose(predicted(alone, 2), 0.25)


@pytest.mark.parametrize(
    ("formula", "n_classes", "words"),
    [
        (Formula((Term("agee"), Term("sex"))), 0, r"'agee'\. Did you mean 'age'\?\n.*'sex'"),
        (Formula(()), 0, "1 to 200 terms"),
        (Formula((Term("age"),)), 2, "use link = 'logit' or a table of risks"),
        (Formula((Term("age"),), link="logit"), 0, "use 'identity' or 'log'"),
        (Formula((Term("age"),), totals=(0.0,), risks=(0.1,)), 0, "use 'identity' or 'log'"),
        (Formula((Term("age"),), link="logit"), 3, "the outcome has 3"),
    ],
    ids=range(6),
)
def test_a_formula_that_does_not_suit_the_study_is_refused(formula, n_classes, words):
    with pytest.raises(ModelError, match=words):
        formula.model(COLUMNS, n_classes)


def test_another_model_has_another_digest():
    terms = (Term("age", 0.1), Term("crp", 0.2))
    models = [
        Formula(terms, 1.0).model(COLUMNS, 0),
        Formula(terms, 1.0 + 1e-15).model(COLUMNS, 0),
        Formula(terms, 1.0, "log").model(COLUMNS, 0),
        Formula(terms[::-1], 1.0).model(COLUMNS[::-1], 0),
        Formula((*terms[:1], Term("crp", 0.2, log=True)), 1.0).model(COLUMNS, 0),
        Formula((*terms[:1], Term("crp", 0.2, low=1.0)), 1.0).model(COLUMNS, 0),
    ]
    assert len({model_digest(model) for model in models}) == len(models)
    assert model_digest(Formula(terms, 1.0).model(COLUMNS, 0)) == model_digest(models[0])


def test_only_the_model_whose_digest_was_agreed_is_opened():
    one, other = (Formula((Term("age", b),)).model(COLUMNS, 0) for b in (0.1, 0.2))
    described = given_description(sha256=model_digest(one))
    agreed = SimpleNamespace(model=described, candidates=(), scale=False, classes=())
    sd = np.ones(3)
    open_agreed(one.form, one.arrays, agreed, 0, sd)
    with pytest.raises(ModelError, match="its digest is another"):
        open_agreed(other.form, other.arrays, agreed, 0, sd)


def test_only_a_given_column_is_one():
    assert given_column(given_description(column="ews")) == "ews"
    assert given_column(given_description(sha256="0")) == ""
    assert given_column({"name": "ridge", "column": "ews"}) == ""

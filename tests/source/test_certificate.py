"""The certificate: what a source finds on its own model, and what it then keeps."""

import dataclasses

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from fedcsa.core.batches import HeldBatches
from fedcsa.core.membership import Attack
from fedcsa.errors import PolicyError
from fedcsa.messages.codec import digest_of
from fedcsa.messages.messages import ModelReport, ModelRequest, Refusal
from fedcsa.messages.policy import Policy
from fedcsa.plan import make_plan
from fedcsa.source import certificate as module
from fedcsa.source.certificate import Certificate
from fedcsa.source.source import Source
from fedcsa.target.target import Target

OPEN = Policy.open()
MEMBERSHIP = dataclasses.replace(OPEN, max_membership_auc=0.6)


def rows(n, d, seed=0, classes=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = X[:, 0] + rng.normal(size=n)
    return X, (y > 0.0).astype(int) if classes else y


def answered(make_source, model, d, candidates=None, classes=(), **options):
    """What a source answers to a request for the first candidate, and its certificate."""
    options = {"seed": 1, "loss": "log" if classes else "squared", **options}
    names = tuple(f"x{i}" for i in range(d))
    plan = make_plan(model, candidates, options, features=names, classes=classes, study="s")
    brief = Target(rows(100, d, 9)[0], plan, policy=OPEN).brief(["a"])
    source = make_source()
    source.answer(brief)
    return source.answer(ModelRequest("s", digest_of(brief), 0)), source.certificate


def of(n, d, model="ridge", candidates=(0.0,), policy=MEMBERSHIP, classes=(), **options):
    X, y = rows(n, d, classes=bool(classes))
    given = list(candidates) if model == "ridge" else None
    return answered(lambda: Source("a", X, y, policy=policy), model, d, given, classes, **options)


DEGREE_4 = make_pipeline(PolynomialFeatures(4), LinearRegression())


def test_least_squares_with_fifty_rows_a_coefficient_leaves():
    answer, found = of(300, 5)
    assert isinstance(answer, ModelReport)
    assert 0.5 < found.loss.auc < found.reference.auc < 0.56
    assert 0.0 < found.reference.error < 0.03
    assert found.n_rows == 300
    assert found.parameters_per_row == pytest.approx(6 / 300)
    assert (found.smallest_leaf, found.own_values) == (None, ())


@pytest.mark.parametrize(
    ("model", "n", "d", "least"),
    [
        ("ridge", 60, 25, 0.65),
        (DEGREE_4, 150, 5, 0.95),
        (RandomForestRegressor(20), 200, 5, 0.75),
        (KNeighborsRegressor(2), 200, 5, 0.65),
    ],
    ids=["few rows", "degree 4", "forest", "neighbours"],
)
def test_a_model_that_remembers_its_rows_stays(model, n, d, least):
    answer, found = of(n, d, model)
    assert isinstance(answer, Refusal)
    assert answer.rule == "max_membership_auc"
    assert found.membership_auc > least


def test_classes_are_attacked_by_the_probability_of_what_came():
    few, many = (of(n, 10, LogisticRegression(C=10.0), classes=(0, 1))[1] for n in (60, 600))
    assert many.membership_auc < 0.56 < few.membership_auc


def test_a_penalty_lowers_what_is_found():
    found = [of(100, 20, candidates=[penalty])[1].loss.auc for penalty in (0.0, 10.0)]
    assert found[1] < found[0] - 0.03


def test_a_split_is_attacked_too():
    """The model has seen a third of the rows, and the attack asks about these."""
    _, found = of(300, 5, scheme="split", method="naive")
    assert found.n_rows == 100
    assert 0.5 < found.reference.auc < 0.65


def test_streamed_rows_give_the_certificate_of_held_ones_to_the_bit():
    X, y = rows(40_000, 3)
    held = answered(lambda: Source("a", X, y, policy=MEMBERSHIP), "ridge", 3, [0.01])
    batches = HeldBatches(("x0", "x1", "x2"), X, y)
    read = answered(lambda: Source.streaming("a", batches, policy=MEMBERSHIP), "ridge", 3, [0.01])
    assert held[1] == read[1]
    assert held[1].n_rows == module.MOST_ROWS
    assert abs(held[1].membership_auc - 0.5) < 0.01


def test_a_sample_finds_what_all_rows_find(monkeypatch):
    whole = of(4_000, 20)[1]
    monkeypatch.setattr(module, "MOST_ROWS", 1_000)
    part = of(4_000, 20)[1]
    assert (whole.n_rows, part.n_rows) == (4_000, 1_000)
    for name in ("loss", "reference"):
        one, other = getattr(whole, name), getattr(part, name)
        assert abs(one.auc - other.auc) < 4.0 * other.error


def test_the_attack_is_on_the_model_as_it_leaves():
    """Rounding to three digits changes the model, and with it what is found."""
    rounded = dataclasses.replace(MEMBERSHIP, significant_digits=3)
    assert of(300, 5)[1].loss != of(300, 5, policy=rounded)[1].loss


def test_where_no_rule_asks_no_attack_is_tried():
    assert of(100, 3, policy=OPEN)[1] is None


def test_a_model_whose_folds_are_too_few_stays():
    answer, found = of(100, 3, folds=2)
    assert answer.rule == "max_membership_auc"
    assert (found.loss, found.reference, found.membership_auc) == (None, None, 1.0)


# The rules ----------------------------------------------------------------------------------

FINE = Certificate(Attack(0.55, 0.01), Attack(0.58, 0.01), 100, 0.1, 0.02, 12, ())


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"loss": Attack(0.601, 0.05)}, "max_membership_auc"),
        ({"reference": Attack(0.601, 0.05)}, "max_membership_auc"),
        ({"loss": None, "reference": None}, "max_membership_auc"),
        ({"smallest_leaf": 9}, "min_rows_per_leaf"),
        ({"own_values": ("value",)}, "no_own_values"),
        ({"outcome_share": 0.51}, "max_row_leverage"),
    ],
)
def test_every_part_of_the_record_keeps_a_model_by_its_rule(change, rule):
    FINE.check(Policy())
    told = dataclasses.replace(FINE, **change)
    with pytest.raises(PolicyError) as caught:
        told.check(Policy())
    assert caught.value.rule == rule
    told.check(OPEN)


def test_the_estimate_is_compared_and_not_what_chance_allows_for():
    at_the_limit = dataclasses.replace(FINE, reference=Attack(0.6, 0.2))
    at_the_limit.check(Policy())
    above = dataclasses.replace(FINE, reference=Attack(np.nextafter(0.6, 1.0), 0.2))
    with pytest.raises(PolicyError, match="larger leaves"):
        above.check(Policy())


@pytest.mark.parametrize("told", [FINE, dataclasses.replace(FINE, loss=None, reference=None)])
def test_the_record_comes_back_from_plain_values(told):
    assert Certificate.from_plain(told.to_plain()) == told


def test_a_number_that_is_an_outcome_before_rounding_is_found():
    """With one row a leaf the leaf holds the outcome, whatever is rounded later."""
    policy = dataclasses.replace(OPEN, no_own_values=True, significant_digits=4)
    answer, found = of(60, 2, RandomForestRegressor(3, bootstrap=False), policy=policy)
    assert (answer.rule, found.own_values) == ("no_own_values", ("value",))
    assert found.smallest_leaf == 1

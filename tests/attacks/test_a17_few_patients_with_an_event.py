"""A17: few patients have an event, or one an extreme outcome; whoever has the model wants who.

An honest study suffices. The slopes of a strongly penalised model are about Σ (y − ȳ)(x − x̄): with
two events among 400 patients they are the mean of these two patients' features up to a factor, and
with one outcome far from all others that patient's features. Now a site has at least five rows of
a class, or none, and a row that makes up more than half of the outcomes' variance takes no part.

The figure is the squared cosine of the slopes and one such patient's features: 1 if all of them
are known up to a factor, one in `D` by chance.
"""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fedcsa.messages.codec import digest, encode
from fedcsa.messages.messages import ModelRequest
from fedcsa.messages.policy import Policy
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.plan import Plan
from fedcsa.source.source import Source
from fedcsa.target.target import Target

N, D, STUDIES = 400, 12, 6
NAMES = tuple(f"x{k}" for k in range(D))
OFF = Policy(min_class_rows=0, max_row_leverage=float("inf"), max_membership_auc=1.0)


def answered(X, y, model, candidate, policy, **options):
    """The source's model, or its refusal; and the rows as models see them."""
    description = model_description(model)
    candidates = expand_candidates(description["name"], [candidate])
    plan = Plan(features=NAMES, model=description, candidates=candidates, **options)
    brief = Target(np.random.default_rng(1).normal(size=(200, D)), plan).brief(["s"])
    source = Source("s", X, y, features=NAMES, policy=policy)
    answer = source.answer(brief)
    if answer.name == "risk-report":
        answer = source.answer(ModelRequest(brief.study, digest(encode(brief)), 0))
    return answer, (X - brief.mean) / brief.sd


def of_events(seed, events, policy=None):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(N, D)), np.zeros(N, dtype=int)
    y[:events] = 1
    labels = np.array(["no", "yes"])[y]
    model, candidate = LogisticRegression(C=0.001), {"ratio_power": 0.0}
    return answered(X, labels, model, candidate, policy, classes=("no", "yes"), loss="brier")


def of_an_outlier(seed, policy=None):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(N, D)), rng.normal(size=N)
    y[0] = 100.0
    return answered(X, y, "ridge", {"penalty": 1000.0, "ratio_power": 0.0}, policy)


def told(answer, seen, patients):
    """Squared cosine of the slopes and features of patients, which each had been centred."""
    slopes = np.ravel(answer.arrays["coefficients"])
    own = seen[:patients] - seen.mean(axis=0)
    size = np.linalg.norm(slopes) * np.linalg.norm(own, axis=1)
    return np.square(own @ slopes / size)


def test_without_the_rule_the_features_of_few_patients_leave():
    """The attack works where a site switches the rules off: the tests below test something."""
    one = [told(*of_an_outlier(seed, OFF), 1).mean() for seed in range(STUDIES)]
    assert min(one) > 0.9
    two = [told(*of_events(seed, 2, OFF), 2).mean() for seed in range(STUDIES)]
    assert np.mean(two) > 0.45


@pytest.mark.parametrize("events", [1, 2, 4, N - 4, N - 1])
def test_of_a_class_that_few_patients_have_no_number_leaves(events):
    answer, _ = of_events(0, events)
    assert (answer.name, answer.rule) == ("refusal", "row_floors")


def test_of_five_patients_with_an_event_none_is_known_by_more_than_a_third():
    found = [of_events(seed, 5) for seed in range(STUDIES)]
    assert all(answer.name == "model-report" for answer, _ in found)
    assert np.mean([told(*one, 5).mean() for one in found]) < 1 / 3


def test_a_patient_with_an_extreme_outcome_takes_no_part_in_the_model():
    found = [of_an_outlier(seed) for seed in range(STUDIES)]
    assert all(answer.name == "model-report" for answer, _ in found)
    assert np.mean([told(*one, 1).mean() for one in found]) < 3 / D  # one in D is chance

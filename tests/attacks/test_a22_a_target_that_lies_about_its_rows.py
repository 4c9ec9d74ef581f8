"""A22: a target claims rows that it has not, to tell correlations, and aims them at a patient.

With correlations the tilt has d(d − 1)/2 handles more: a table with the features of a patient whom
it knows as means, narrow sds and the patient's own products draws weight to that row. What the
source checks are its own weights, whatever the target claims.
"""

import numpy as np
import pytest

from fedcsa.messages.messages import RiskReport
from fedcsa.messages.policy import Policy
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.plan import Plan
from fedcsa.source.source import Source
from fedcsa.target.target import Target

N, D, CLAIMED = 300, 4, 2_000
FEATURES = tuple("abcd")


def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    return X, X.sum(axis=1) + rng.normal(size=N)


def aimed(patient, narrow, plan):
    """The brief of a target all of whose claimed rows are around one patient."""
    rng = np.random.default_rng(1)
    around = patient + narrow * (
        rng.normal(size=(CLAIMED, 1)) + 0.3 * rng.normal(size=(CLAIMED, D))
    )
    brief = Target(around, plan, policy=Policy.open()).brief(["s"])
    assert brief.correlations.size  # as many rows may tell
    return brief


@pytest.mark.parametrize("narrow", [0.3, 0.5, 0.8])
def test_no_row_is_a_fifth_of_what_is_answered(narrow):
    candidates = expand_candidates("ridge", None)
    plan = Plan(features=FEATURES, model=model_description("ridge"), candidates=candidates)
    X, y = rows()
    fates = []
    for patient in X[:10]:
        source = Source("s", X, y, features=FEATURES)
        answer = source.answer(aimed(patient, narrow, plan))
        fates.append(isinstance(answer, RiskReport))
        if fates[-1]:
            assert answer.largest_share <= 0.2
            assert answer.effective_rows >= 10.0
    assert not all(fates)  # those that would be are refused

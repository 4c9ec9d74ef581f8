"""A target looks for one patient's outcome in tables of outcomes by score.

It knows the patient's features, and may send any model of the agreed kind: one that gives this
patient the highest score. Or it asks for a subgroup of all but this patient, or for two tables of
nearly the same model, and subtracts.
"""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fedcsa.core.scores import ScoreDesign, complement, told_by
from fedcsa.messages.codec import digest, encode
from fedcsa.messages.messages import Examination
from fedcsa.messages.policy import Policy
from fedcsa.models.linear_format import LinearModel
from fedcsa.models.registry import model_description
from fedcsa.plan import Plan
from fedcsa.source.source import Source
from fedcsa.target.target import Target

FEATURES = ("x0", "x1")
#: The patient whom the target knows: farthest out in the direction of the model that it sends.
PATIENT = 17
#: Strict where scores are concerned.
CELLS = replace(Policy.open(), min_cell_rows=Policy().min_cell_rows)


def rows(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    X[PATIENT] = 2.6, 2.4
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(1.5 - X.sum(axis=1)))).astype(int)


def asked(policy, subgroups=()):
    """The source, what it was told, and a function that lets it examine a model."""
    plan = Plan(
        FEATURES, model_description(LogisticRegression()),
        ({"C": 1.0},), loss="brier", classes=(0, 1), subgroups=subgroups,
    )  # fmt: skip
    X, y = rows()
    brief = Target(rows(seed=1)[0], plan, policy=Policy.open()).brief(["a"])
    source = Source("a", X, y, features=FEATURES, policy=policy)
    source.answer(brief)

    def examine(*models, again=False):
        weights = np.full(len(models), 1.0 / len(models))
        return source.answer(
            Examination(
                brief.study, digest(encode(brief)), 0, "mean", 0.0, weights,
                [model.form for model in models],
                {f"{k}.{key}": a for k, m in enumerate(models) for key, a in m.arrays.items()},
                np.array([0.7, 0.3]), again,
            )
        )  # fmt: skip

    return examine


def line(slope=1.0, tilt=0.0):
    return LinearModel(np.array([slope + tilt, slope - tilt]), -1.0, "logistic")


def test_the_highest_score_is_never_told_alone():
    naked, strict = (asked(policy)(line()).scores for policy in (Policy.open(), CELLS))
    assert naked[-1, 3] == 1.0 or (naked[naked[:, 3] > 0][-1, 3] == 1.0)  # the attack, unopposed
    counts = strict[:, 3]
    assert (counts[counts > 0] >= 5).all()
    told = strict[counts > 0]
    assert (told[:, 5] < told[:, 4] * (1 - 1e-9)).all()  # nobody is known to have had the event


def without_the_patient():
    largest = np.sort(rows()[0][:, 0])[-2:].mean()
    return ({"name": "alone", "feature": "x0", "cut": float(largest)},)


def test_all_but_one_patient_are_no_subgroup():
    design = ScoreDesign(2, (), 1)
    found = asked(Policy.open(), without_the_patient())(line())
    naked = told_by(design, found.scores, found.score_sums)
    assert 1 in naked  # the attack, unopposed: one patient, or everybody else
    assert complement(naked[0], naked[1]).sums["weight"] > 0.5
    strict = asked(CELLS, without_the_patient())(line())
    assert set(told_by(design, strict.scores, strict.score_sums)) == {0}
    assert not strict.score_sums[1].any()
    assert (strict.measure_variance[1:] == -1.0).all()


@pytest.mark.parametrize(("policy", "told"), [(Policy.open(), True), (CELLS, False)])
def test_a_second_table_of_nearly_the_same_model_stays(policy, told):
    examine = asked(policy)
    first, other = line(), line(tilt=0.02)
    assert len(examine(first, other).scores) > 0
    second = examine(first, again=True)
    assert second.risk > 0.0
    assert (len(second.scores) > 0) == told


def test_a_site_that_finds_a_model_useless_keeps_its_one_table_for_the_second():
    examine = asked(CELLS)
    good, bad = line(), line(slope=-3.0)
    first = examine(good, bad)
    assert len(first.member_risk) == 2
    assert first.scores.shape == (0, 7)
    assert len(examine(good, again=True).scores) > 0

"""A20: a target has two models examined that predict the same for all patients but one.

Each splits the patients at a threshold with many on both sides, and points at nobody. Only one
patient lies between the two thresholds, so the difference of their risks is about that one: two
equations for its weight and its outcome. Within one study the two are seen together.
"""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from fedcsa.messages.codec import digest, encode
from fedcsa.messages.messages import Examination
from fedcsa.messages.policy import Policy
from fedcsa.models.portable import agreed_grid
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.models.tree_format import TreeModel
from fedcsa.models.trees import Grid, to_bins
from fedcsa.plan import Plan
from fedcsa.source.source import Source
from fedcsa.target.target import Target

TREE = model_description(DecisionTreeRegressor(min_samples_leaf=20))
#: Patients on either side of a threshold, at least; how far apart the two leaves predict.
ASIDE, STEP = 6, 30.0


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, X @ [0.8, 0.6] + rng.normal(size=n)


class Attack:
    """A source that has reported, and two trees between whose thresholds one patient lies."""

    def __init__(self, policy=None):
        candidates = expand_candidates(TREE["name"], None)
        plan = Plan(features=("a", "b"), model=TREE, candidates=candidates)
        X, self.y = rows(300, 0)
        self.brief = Target(rows(100, 1)[0], plan).brief(["s", "t", "u", "v"])
        self.source = Source("s", X, self.y, features=("a", "b"), policy=policy)
        self.mean = float(self.source.answer(self.brief).outcome_mean[0])
        self.grid = agreed_grid(self.brief.sd, scale=self.brief.scale)
        cells = to_bins((X - self.brief.mean) / self.brief.sd, self.grid)[:, 0]
        self.cell = next(
            c
            for c in range(int(cells.min()), int(cells.max()))
            if (cells == c).sum() == 1 and min((cells < c).sum(), (cells > c).sum()) >= ASIDE
        )
        [self.patient] = np.flatnonzero(cells == self.cell)

    def split(self, above):
        nodes = np.array([0, -1, -1], np.int32), np.array([above], np.int32)
        value = np.array([[self.mean], [self.mean + STEP]])
        return TreeModel(Grid(self.grid), *nodes, value, np.zeros(1), "mean", "identity")

    def examine(self, *above, again=False):
        models = [self.split(cell) for cell in above]
        arrays = {f"{k}.{name}": a for k, m in enumerate(models) for name, a in m.arrays.items()}
        weights, forms = np.full(len(models), 1.0 / len(models)), tuple(m.form for m in models)
        question = Examination(
            self.brief.study, digest(encode(self.brief)), 0, "mean", 0.0, weights, forms, arrays,
            np.array([self.mean]), again=again,
        )  # fmt: skip
        return self.source.answer(question)


def test_each_of_them_alone_points_at_nobody():
    attack = Attack()
    assert attack.examine(attack.cell).name == "examination-report"


def test_two_in_one_examination_are_refused():
    attack = Attack()
    found = attack.examine(attack.cell - 1, attack.cell)
    assert (found.name, found.rule) == ("refusal", "row_floors")


def test_where_the_rule_is_off_the_two_risks_tell_the_outcome():
    attack = Attack(Policy(max_row_leverage=float("inf")))
    found = attack.examine(attack.cell - 1, attack.cell)
    lower, upper = found.member_risk  # they differ in w ((y − mean − STEP)² − (y − mean)²)
    weight = attack.source.row_weights(attack.brief)[attack.patient]
    learnt = attack.mean + (STEP - (lower - upper) / (weight * STEP)) / 2.0
    assert learnt == pytest.approx(attack.y[attack.patient], abs=0.5)  # the model's own error: 1


def test_the_second_examination_of_a_study_is_of_no_other_model():
    attack = Attack()
    attack.examine(attack.cell - 1)
    found = attack.examine(attack.cell, again=True)
    assert (found.name, found.rule) == ("refusal", "one_examination")

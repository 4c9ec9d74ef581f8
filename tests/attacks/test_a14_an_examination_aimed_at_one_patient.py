"""A14: a target has models examined that are constant for all patients but one whom it knows.

What a source finds of it, risk and level beside those of the constant, then are two equations for
two unknowns: the patient's weight and outcome. A tree does it for anybody who is alone in a cell
of the grid, a median of lines for whoever lies outermost. Such a row has a large leverage among the
predictions whose risks are told, and the examination is refused. Straight lines point at nobody.
"""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from fedcsa.messages.codec import digest, encode
from fedcsa.messages.messages import Examination
from fedcsa.messages.policy import Policy
from fedcsa.models.convert import to_portable
from fedcsa.models.description import given_description
from fedcsa.models.given import Formula, Term, model_digest
from fedcsa.models.linear_format import LinearModel
from fedcsa.models.portable import agreed_grid
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.models.tree_format import TreeModel
from fedcsa.models.trees import Grid, to_bins
from fedcsa.plan import Plan, make_plan
from fedcsa.source.source import Source
from fedcsa.target.target import Target

ROWS, PATIENTS = 300, 4
#: How far the model lies above the constant in the patient's cell: the outcomes' sd is 1.4.
SPIKE = 30.0


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, X @ [0.8, 0.6] + rng.normal(size=n)


def asked(policy=None, model=None, combine="mean", seed=0):
    """A source that has reported, the brief, its report, its rows as models see them."""
    description = model_description(model or DecisionTreeRegressor(min_samples_leaf=20))
    candidates = expand_candidates(description["name"], None)
    plan = Plan(features=("a", "b"), model=description, candidates=candidates, combine=combine)
    X, y = rows(ROWS, seed)
    brief = Target(rows(100, 1)[0], plan).brief(["s", "t", "u", "v"])
    source = Source("s", X, y, features=("a", "b"), policy=policy)
    return source, brief, source.answer(brief), (X - brief.mean) / brief.sd, y


def examined(source, brief, models, constant, combine="mean"):
    arrays = {f"{k}.{name}": a for k, m in enumerate(models) for name, a in m.arrays.items()}
    weights = np.full(len(models), 1.0 / len(models))
    forms = tuple(model.form for model in models)
    question = Examination(
        brief.study, digest(encode(brief)), 0, combine, 0.0, weights, forms, arrays,
        np.array([constant]), again=False,
    )  # fmt: skip
    return source.answer(question)


def pointed_at(cell, constant, grid):
    """A tree that predicts the constant everywhere but in one cell of the grid."""
    a, b = cell
    feature = np.array([0, -1, 0, 1, -1, 1, -1, -1, -1], np.int32)
    threshold = np.array([a - 1, a, b - 1, b], np.int32)
    value = constant + SPIKE * np.array([0.0, 0.0, 1.0, 0.0, 0.0])[:, None]
    return TreeModel(Grid(grid), feature, threshold, value, np.zeros(1), "mean", "identity")


def solved(found, constant, mean):
    """Weight and outcome of whoever is in the cell."""
    shift = found.level[0] * np.sqrt(found.risk)  # Σ w (y − f)
    weight = (mean - constant - shift) / SPIKE
    apart = (found.risk - found.constant_risk) / (weight * SPIKE)
    return constant + (SPIKE - apart) / 2.0


def alone(cells):
    """Patients who are alone in their cell."""
    _, first, count = np.unique(cells, axis=0, return_index=True, return_counts=True)
    return first[count == 1][:PATIENTS]


@pytest.mark.parametrize("off", [True, False])
def test_a_model_that_points_at_one_patient_is_not_examined(off):
    policy = Policy(max_row_leverage=float("inf")) if off else Policy()
    errors = []
    for patient in alone(to_bins(asked()[3], agreed_grid(np.ones(2), scale=True))):
        source, brief, report, seen, y = asked(policy)
        grid = agreed_grid(brief.sd, scale=brief.scale)
        mean = float(report.outcome_mean[0])
        model = pointed_at(to_bins(seen, grid)[patient], mean, grid)
        found = examined(source, brief, [model], mean)
        if off:
            errors.append(solved(found, mean, mean) - y[patient])
        else:
            assert (found.name, found.rule) == ("refusal", "row_floors")
    if off:  # the attack works where a site switches the rule off: its own error would be 1
        assert np.median(np.abs(errors)) < 0.3


def fitted_elsewhere(brief, grid, seed):
    X, y = rows(ROWS, seed)
    cells = to_bins((X - brief.mean) / brief.sd, grid).astype(float)
    return to_portable(DecisionTreeRegressor(min_samples_leaf=20).fit(cells, y), 0, grid)


@pytest.mark.parametrize("pointed", [False, True])
def test_honest_models_are_examined_and_a_pointed_one_among_them_is_found(pointed):
    source, brief, _, seen, _ = asked()
    grid = agreed_grid(brief.sd, scale=brief.scale)
    models = [fitted_elsewhere(brief, grid, seed) for seed in (2, 3, 4)]
    if pointed:
        cells = to_bins(seen, grid)
        models.append(pointed_at(cells[alone(cells)[0]], 0.0, grid))
    told = examined(source, brief, models, 0.0)
    assert told.name == ("refusal" if pointed else "examination-report")


# A median of lines ------------------------------------------------------------------------------


def bent_before(z, mean):
    """Three lines whose median is constant up to the outermost patient, and rises beyond."""
    next_to_last, last = np.sort(z)[-2:]
    cut = (next_to_last + last) / 2.0
    slope = SPIKE / (last - cut)
    flat, far = LinearModel(np.zeros(2), mean), LinearModel(np.zeros(2), mean + 1e5)
    return [flat, LinearModel(np.array([slope, 0.0]), mean - slope * cut), far]


@pytest.mark.parametrize("off", [True, False])
def test_a_median_that_bends_before_the_outermost_patient_is_not_examined(off):
    policy = Policy(max_row_leverage=float("inf")) if off else Policy()
    errors = []
    for seed in range(PATIENTS):
        source, brief, report, seen, y = asked(policy, "ridge", "median", seed)
        mean = float(report.outcome_mean[0])
        found = examined(source, brief, bent_before(seen[:, 0], mean), mean, "median")
        if off:
            errors.append(solved(found, mean, mean) - y[np.argmax(seen[:, 0])])
        else:
            assert (found.name, found.rule) == ("refusal", "row_floors")
    if off:
        assert np.max(np.abs(errors)) < 0.05


@pytest.mark.parametrize("combine", ["mean", "median"])
def test_honest_lines_are_examined(combine):
    source, brief, _, _, _ = asked(None, "ridge", combine)
    lines = [LinearModel(np.array(b), 0.1) for b in ([0.8, 0.6], [0.7, 0.7], [0.9, 0.5])]
    assert examined(source, brief, lines, 0.0, combine).name == "examination-report"


# A given model ----------------------------------------------------------------------------------


def given_to(formula, off=False):
    """What a source with the strict rules finds of a formula that is handed to it; its rows."""
    model = formula.model(["a", "b"], 0)
    description = given_description(sha256=model_digest(model))
    plan = make_plan(description, None, {}, features=("a", "b"))
    X, y = rows(ROWS, 0)
    policy = Policy(max_row_leverage=float("inf")) if off else None
    source = Source("s", X, y, features=("a", "b"), policy=policy)
    brief = Target(rows(100, 1)[0], plan, given=model).brief(["s"])
    source.answer(brief)
    return examined(source, brief, [model], 0.0)


def test_a_formula_that_gives_points_to_one_patient_is_not_examined():
    ages = np.sort(rows(ROWS, 0)[0][:, 0])
    band = (ages[150] - 1e-9, ages[150] + 1e-9)
    aimed = Formula((Term("a", bounds=band, points=(SPIKE, 0.0)),))
    found = given_to(aimed)
    assert (found.name, found.rule) == ("refusal", "row_floors")
    assert given_to(aimed, off=True).name == "examination-report"
    honest = Formula((Term("a", bounds=(0.0, 1.0), points=(1.0, 2.0)), Term("b", 0.6)))
    assert given_to(honest).name == "examination-report"

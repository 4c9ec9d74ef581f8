"""Who belongs to a declared subgroup, and which declarations are refused."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedcsa import FedCSA, Formula, Term
from fedcsa.core.subgroups import (
    MOST_SUBGROUPS,
    members_of_subgroups,
    subgroup_name,
    subgroup_problems,
)
from fedcsa.errors import ParameterError
from fedcsa.study import Study

FEATURES = ("age", "smoker", "stage=II", "stage=III", "stage=missing")
ROWS = np.array(
    [[50.0, 0, 0, 0, 0], [65.0, 1, 1, 0, 0], [70.0, 1, 0, 1, 0], [64.9, 0, 0, 0, 1]]
)  # fmt: skip


@pytest.mark.parametrize(
    ("declared", "rows"),
    [
        ({"feature": "age", "cut": 65}, [1, 2]),
        ({"feature": "age", "cut": np.int64(65)}, [1, 2]),
        ({"feature": "age", "cut": np.float32(65)}, [1, 2]),
        ({"feature": "smoker", "level": 1}, [1, 2]),
        ({"feature": "smoker", "level": 0}, [0, 3]),
        ({"feature": "stage", "level": "II"}, [1]),
        ({"feature": "stage", "level": "I"}, [0]),  # the first level has no column of its own
    ],
)
def test_rows_of_a_subgroup(declared, rows):
    mean, sd = np.array([60.3, 0.4, 0.2, 0.1, 0.1]), np.array([11.7, 0.49, 0.4, 0.3, 0.3])
    inside = members_of_subgroups([declared], FEATURES, (ROWS - mean) / sd, mean, sd)
    assert inside[:, 0].all()
    assert np.flatnonzero(inside[:, 1]).tolist() == rows
    assert subgroup_problems([declared], FEATURES) == []


@pytest.mark.parametrize(
    "declared",
    [
        3,
        [3],
        [{}],
        [{"feature": "age"}],
        [{"feature": "age", "cut": 1, "level": 2}],
        [{"feature": "age", "cut": "65"}],
        [{"feature": "age", "cut": True}],
        [{"feature": "age", "cut": float("nan")}],
        [{"feature": "age", "cut": 10**400}],
        [{"feature": "smoker", "level": float("nan")}],
        [{"feature": "smoker", "level": 10**400}],
        [{"feature": "stage", "cut": 1.0}],
        [{"feature": "weight", "cut": 1.0}],
        [{"feature": "weight", "level": "I"}],
        [{"feature": "age", "level": "old"}],
        [{"feature": "age", "level": None}],
        [{"feature": "age", "cut": 1, "name": ""}],
        [{"feature": "age", "cut": 1, "name": "x" * 61}],
        [{"feature": "age", "cut": 1, "kind": "x"}],
        [{"feature": "age", "cut": 65}, {"feature": "age", "cut": 65.0}],
        [{"feature": "age", "cut": k} for k in range(MOST_SUBGROUPS + 1)],
    ],
)
def test_a_declaration_that_means_nothing_is_a_problem(declared):
    assert len(subgroup_problems(declared, FEATURES)) == 1


def test_a_name_is_kept_or_made():
    assert subgroup_name({"name": "old", "feature": "age", "cut": 65}) == "old"
    assert subgroup_name({"feature": "age", "cut": 65.5}) == "age ≥ 65.5"


STUDY = """
name = "s"
outcome = { name = "y", levels = ["no", "yes"] }
features = { age = "number", sex = ["F", "M"] }
model = { name = "sklearn.linear_model.LogisticRegression" }
target = { table = "t.csv" }
sources.a.table = "a.csv"
thresholds = [0.3, 0.1]
subgroups = [{ feature = "sex", level = "F" }, { name = "old", feature = "age", cut = 65 }]
"""


def test_a_study_file_declares_thresholds_and_subgroups():
    study = Study.parse(STUDY)
    plan = study.plan()
    assert plan.thresholds == (0.1, 0.3)
    assert [item["name"] for item in plan.subgroups] == ["sex = F", "old"]
    assert Study.parse(study.to_toml()) == study


def test_numbers_of_numpy_become_plain_ones():
    declared = [{"feature": "age", "cut": np.int64(65)}, {"feature": "sex", "level": np.bool_(1)}]
    options = {"subgroups": declared[:1], "thresholds": [np.float32(0.25)]}
    plan = replace(Study.parse(STUDY), options=options).plan()
    assert (plan.thresholds, type(plan.subgroups[0]["cut"])) == ((0.25,), int)
    assert subgroup_problems(declared, ("age", "sex")) == []


def test_a_level_that_the_column_does_not_have_is_no_subgroup():
    with pytest.raises(ParameterError, match="of levels that 'sex' has"):
        Study.parse(STUDY.replace('level = "F"', 'level = "woman"')).plan()


@pytest.mark.parametrize("call", ["fit", "evaluate"])
def test_in_python_such_a_level_is_no_subgroup_either(call):
    columns = {"age": "number", "stage": {"levels": [1, 2]}}
    rows = {"age": np.arange(60.0), "stage": np.tile([1, 2], 30)}
    frame, y = pd.DataFrame(rows), np.arange(60.0)
    for level, known in ((1, True), ("2", True), (3, False), ("one", False)):
        judge = FedCSA(columns=columns, subgroups=[{"feature": "stage", "level": level}])
        model = () if call == "fit" else (Formula((Term("age", 1.1),)),)
        with nullcontext() if known else pytest.raises(ParameterError, match="that 'stage' has"):
            getattr(judge, call)(*model, {"a": (frame, y)}, frame)

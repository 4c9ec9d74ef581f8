"""Pipelines on flags, whole numbers and gaps: scikit-learn's answer on the frame, or none."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)

from fedcsa import Columns, FedCSA
from fedcsa.data.frame_types import chosen_of_frames, in_own_order, typed_inputs
from fedcsa.data.frames import as_described_matrix
from fedcsa.errors import DataError, FedCSAError, ModelError
from fedcsa.models.allowed import refused_before_fitting
from fedcsa.models.arrivals import check_agreed
from fedcsa.models.chosen import chosen_by_name
from fedcsa.models.description import build
from fedcsa.models.estimators import SklearnModel
from fedcsa.models.fitted import EstimatorModel
from fedcsa.models.formats import open_model
from fedcsa.models.inputs import Inputs
from fedcsa.models.registry import model_description

COLUMNS = Columns(
    {
        "a": "number",
        "count": "number",
        "yes": "flag",
        "one": "flag",
        "code": ["2", "10", "1"],
        "text": ["u", "v", "w"],
        "kind": ["x", "y"],
        "truth": ["false", "true"],
        "gap": {"levels": ["3", "20", "-4"], "missing": "model"},
        "maybe": {"kind": "flag", "missing": "model"},
    }
)


def hospital(seed, rows=90):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "count": rng.integers(0, 5, rows),
            "a": rng.normal(size=rows),
            "yes": rng.random(rows) < 0.4,
            "code": rng.choice([2, 10, 1], rows),
            "one": rng.integers(0, 2, rows),
            "text": rng.choice(["u", "v", "w"], rows),
            "kind": pd.Categorical(rng.choice(["x", "y"], rows)),
            "truth": rng.random(rows) < 0.5,
            "gap": np.where(rng.random(rows) < 0.2, np.nan, rng.choice([3.0, 20.0, -4.0], rows)),
        }
    )
    maybe = pd.Series(rng.random(rows) < 0.5, dtype=object)
    frame["maybe"] = maybe.where(rng.random(rows) > 0.2, np.nan)
    y = frame.a + frame.yes + 2.0 * (frame.code == 10) + (frame.text == "v") + frame.gap.eq(3.0)
    return frame, (y + rng.normal(0.0, 0.1, rows)).to_numpy()


FRAME, Y = hospital(0)
NEW, _ = hospital(1)
LIBRARIES = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "duckdb": lambda frame: duckdb.connect().from_arrow(
        pa.Table.from_pandas(frame, preserve_index=False)
    ),
}
SELECTORS = {
    "numbers": make_column_selector(dtype_include="number"),
    "no numbers": make_column_selector(dtype_exclude="number"),
    "flags": make_column_selector(dtype_include="bool"),
    "flags and numbers": make_column_selector(dtype_include=["bool", "number"]),
    "whole numbers": make_column_selector(dtype_include="int64"),
    "floats": make_column_selector(dtype_include=float),
    "categories": make_column_selector(dtype_include="category"),
    "nothing": make_column_selector(dtype_include="datetime"),
    "a pattern": make_column_selector(pattern="^[cy]"),
    "a function": lambda frame: [name for name in frame if frame[name].dtype == bool],
    "a mask": lambda frame: (frame.dtypes == "int64").to_numpy(),
    "places of a function": lambda frame: [0, len(frame.columns) - 3],
    "cells": lambda frame: frame.columns[frame.nunique() < 3],
    "from to": slice("yes", "one"),
    "up to": slice(None, "a"),
    "names": ["code", "yes", "gap"],
    "a code": ["code"],
    "a gap": ["gap"],
    "a flag with gaps": ["maybe"],
    "places": [0, 1],
}
BRANCHES = {
    "flags": OneHotEncoder(handle_unknown="ignore"),
    "all but one": OneHotEncoder(drop="first"),
    "codes": OrdinalEncoder(encoded_missing_value=-7),
    "listed numbers": OneHotEncoder(categories=[[1, 2, 10]], handle_unknown="ignore"),
    "listed texts": OneHotEncoder(categories=[["1", "2", "10"]], handle_unknown="ignore"),
    "scaled": make_pipeline(SimpleImputer(), StandardScaler()),
    "commonest": make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()),
    "filled": make_pipeline(SimpleImputer(strategy="constant"), OrdinalEncoder()),
    "filled with 0": make_pipeline(
        SimpleImputer(strategy="constant", fill_value=0), OneHotEncoder()
    ),
    "as it is": "passthrough",
    "between 0 and 1": MinMaxScaler(),
    "exponentials": FunctionTransformer(np.exp),
    "products": make_pipeline(SimpleImputer(), PolynomialFeatures(2)),
}


def pipeline_of(selector, branch):
    chosen = [("own", clone_of(branch), selector), ("rest", "passthrough", ["a"])]
    return make_pipeline(ColumnTransformer(chosen), Ridge())


def clone_of(branch):
    return branch if isinstance(branch, str) else clone(branch)


def fitted_here(pipeline, make=LIBRARIES["pandas"], columns=COLUMNS, frame=FRAME):
    """The model that a source fits, and what a plan says of it; our error if there is none."""
    sources = {"here": make(frame)}
    inputs = in_own_order(typed_inputs(columns.inputs, sources), sources)
    description = model_description(chosen_of_frames(pipeline, inputs, sources), inputs)
    model = SklearnModel(build(description["estimator"]), 0, None, Inputs.from_plain(inputs))
    model.check_columns()
    X = as_described_matrix(make(frame), "X", columns)[0]
    path = model.fit(X, Y, np.ones(len(X)), [{}], np.random.default_rng(0))
    if path.models[0] is None:
        raise ModelError(path.texts[0])
    return path.models[0], description


def answers(pipeline, make=LIBRARIES["pandas"]):
    """Our predictions and scikit-learn's on the pandas frame, None for an error."""
    found = []
    try:
        model, _ = fitted_here(pipeline, make)
        found.append(model.predict(as_described_matrix(make(NEW), "X", COLUMNS)[0]))
    except (FedCSAError, ValueError):  # a level that was never seen
        found.append(None)
    try:
        found.append(clone(pipeline).fit(FRAME, Y).predict(NEW))
    except Exception:  # whatever scikit-learn says
        found.append(None)
    return found


#: For choices of several columns; a single column is tried with all.
FEW = ("flags", "codes", "scaled", "as it is", "exponentials")


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.filterwarnings("ignore")
def test_every_choice_of_columns_gives_scikit_learns_answer_or_our_error(selector):
    same = 0
    single = selector in ("a code", "a gap", "a flag with gaps")
    for branch in BRANCHES if single else FEW:
        ours, own = answers(pipeline_of(SELECTORS[selector], BRANCHES[branch]))
        if ours is not None:
            assert own is not None, "an answer where scikit-learn has none"
            np.testing.assert_allclose(ours, own, rtol=1e-8, atol=1e-10)
            same += 1
    assert same


@pytest.mark.parametrize("make", list(LIBRARIES.values())[1:], ids=list(LIBRARIES)[1:])
@pytest.mark.parametrize("selector", ["numbers", "no numbers", "flags", "a pattern", "from to"])
def test_every_library_gives_the_answer_of_pandas(selector, make):
    ours, own = answers(pipeline_of(SELECTORS[selector], BRANCHES["flags"]), make)
    np.testing.assert_allclose(ours, own, rtol=1e-8)


def test_the_frame_has_the_types_of_the_users_own():
    inputs = Inputs.from_plain(typed_inputs(COLUMNS.inputs, {"here": FRAME}))
    found = inputs.frame(as_described_matrix(FRAME, "X", COLUMNS)[0])
    names = ["yes", "code", "text", "truth", "gap", "maybe"]
    pd.testing.assert_frame_equal(found[names], FRAME[names])


#: scikit-learn imputes no bool.
IMPUTED = ("commonest", "filled with 0")
BOOLS = ("yes", "truth")


@pytest.mark.parametrize("branch", IMPUTED)
@pytest.mark.parametrize("name", BOOLS)
def test_flags_that_scikit_learn_does_not_impute_are_refused(branch, name):
    assert answers(pipeline_of([name], BRANCHES[branch])) == [None, None]


@pytest.mark.parametrize(
    ("name", "branch"),
    [
        (name, branch)
        for name in ("yes", "code", "gap", "truth")
        for branch in ("flags", "all but one", *IMPUTED)
        if not (name in BOOLS and branch in IMPUTED)
    ],
)
def test_flags_and_whole_numbers_leave_in_our_format(branch, name):
    rows = pipeline_of([name], BRANCHES[branch])
    model, description = fitted_here(rows)
    assert not isinstance(model, EstimatorModel)
    assert refused_before_fitting(description) == ""
    width = len(COLUMNS.columns)
    check_agreed(model.form, model.arrays, description, {}, width, 0)
    X = as_described_matrix(NEW, "X", COLUMNS)[0]
    opened = open_model(model.form, model.arrays, width, 0)
    assert opened.predict(X).tobytes() == model.predict(X).tobytes()


@pytest.mark.parametrize(
    ("array", "wrong"), [("step0.6.levels", [3.0, 3.0, -4.0]), ("step2.0.chosen", [3])]
)
def test_damaged_levels_are_refused(array, wrong):
    model, _ = fitted_here(pipeline_of(["gap"], BRANCHES["commonest"]))
    arrays = {**model.arrays, array: np.array(wrong, model.arrays[array].dtype)}
    with pytest.raises(ModelError, match="must have levels that"):
        open_model(model.form, arrays, len(COLUMNS.columns), 0)


def test_empty_cells_of_columns_that_are_not_chosen_do_not_matter():
    """They were multiplied by 0, and stayed empty."""
    ours, own = answers(pipeline_of(["count"], StandardScaler()))
    np.testing.assert_allclose(ours, own, rtol=1e-8)


# Sources that differ ---------------------------------------------------------------------------


def test_a_study_of_one_source_is_scikit_learns_pipeline_on_its_frame():
    pipeline = make_pipeline(
        ColumnTransformer(
            [
                ("n", make_pipeline(SimpleImputer(), StandardScaler()), SELECTORS["numbers"]),
                ("b", "passthrough", SELECTORS["flags"]),
                ("t", OneHotEncoder(), ["text", "maybe"]),
            ]
        ),
        Ridge(),
    )
    found = FedCSA(pipeline, [{}], columns=COLUMNS, random_state=0).fit({"one": (FRAME, Y)}, NEW)
    own = clone(pipeline).fit(FRAME, Y).predict(NEW)
    np.testing.assert_allclose(found.predict(NEW), own, rtol=1e-9)
    bare = ["a", "count", "yes", "one"]
    pipeline = make_pipeline(
        ColumnTransformer([("n", StandardScaler(), SELECTORS["numbers"])]), Ridge()
    )
    found = FedCSA(pipeline, [{}], random_state=0).fit({"one": (FRAME[bare], Y)}, NEW[bare])
    own = clone(pipeline).fit(FRAME[bare], Y).predict(NEW[bare])
    np.testing.assert_allclose(found.predict(NEW[bare]), own, rtol=1e-9)


def sites(**change):
    return {"north": FRAME, "south": FRAME.assign(**change)}


def test_sources_that_differ_in_types_are_named_where_it_matters():
    numbers = sites(yes=FRAME.yes.astype(int))
    inputs = typed_inputs(COLUMNS.inputs, numbers)
    by_type = pipeline_of(SELECTORS["numbers"], "passthrough")
    with pytest.raises(ModelError, match=r"same columns for 'own' at every source; .*'south'"):
        chosen_of_frames(by_type, inputs, numbers)
    by_name = pipeline_of(["yes"], OneHotEncoder())
    assert chosen_of_frames(by_name, inputs, numbers).steps[0][1].transformers[0][2] == ["yes"]
    cells = {item["name"]: item["cells"] for item in inputs}
    assert (cells["yes"], cells["truth"], cells["code"]) == ("", "truth", "whole")


def test_the_order_of_codes_that_may_be_texts_must_be_listed():
    texts = sites(code=FRAME.code.astype(str))
    for inputs in (COLUMNS.inputs, typed_inputs(COLUMNS.inputs, texts)):
        for encoder in (OrdinalEncoder(), OneHotEncoder(drop="first")):
            model = SklearnModel(pipeline_of(["code"], encoder), 0, None, Inputs.from_plain(inputs))
            with pytest.raises(ModelError, match="list the levels of 'code' in their order"):
                model.check_columns()
    inputs = typed_inputs(COLUMNS.inputs, {"south": texts["south"]})
    pipeline = pipeline_of(["code"], OrdinalEncoder())
    SklearnModel(pipeline, 0, None, Inputs.from_plain(inputs)).check_columns()


def test_functions_that_fail_and_arrays_are_named():
    failing = pipeline_of(lambda frame: frame["nowhere"], StandardScaler())
    with pytest.raises(ModelError, match=r"columns of 'own'; its function fails .*KeyError"):
        fitted_here(failing)
    with pytest.raises(ModelError, match="arrays have no types of columns"):
        chosen_by_name(pipeline_of(SELECTORS["numbers"], "drop"), dict)


def test_places_are_those_of_the_users_frame_or_refused():
    columns = Columns({"x0": "number", "x1": "number"})
    frame = pd.DataFrame({"x1": [0.0, 1.0], "x0": [1.0, 2.0]})
    first = make_pipeline(ColumnTransformer([("s", StandardScaler(), [0])]), Ridge())
    later = make_pipeline(SimpleImputer(), *(step for _, step in first.steps))
    inputs = in_own_order(columns.inputs, {"a": frame})
    assert [item["name"] for item in inputs] == ["x1", "x0"]
    named = chosen_of_frames(first, inputs, {"a": frame})
    assert named.steps[0][1].transformers[0][2] == ["x1"]
    chosen_of_frames(later, inputs, {"a": frame})
    others = [{"a": frame, "b": frame[["x0", "x1"]]}, {"a": frame.assign(pid=[1, 2])}]
    for sources in others:
        for pipeline in (first, later):
            with pytest.raises(ModelError, match="must name the columns of 's'"):
                chosen_of_frames(pipeline, inputs, sources)


def test_choices_inside_branches_are_of_what_the_branch_gets():
    inner = ColumnTransformer([("n", StandardScaler(), SELECTORS["numbers"])])
    outer = ColumnTransformer([("some", inner, ["code", "yes", "a"])])
    pipeline = make_pipeline(FeatureUnion([("one", outer)]), Ridge())
    ours, own = answers(pipeline)
    np.testing.assert_allclose(ours, own, rtol=1e-8)


def test_levels_that_are_other_numbers_are_refused():
    columns = Columns({"dose": ["0.5", "10"]})
    with pytest.raises(DataError, match="'dose' must have texts or small whole numbers"):
        typed_inputs(columns.inputs, {"a": pd.DataFrame({"dose": [0.5, 10.0]})})


def test_flags_of_empty_cells_stand_beside_their_columns():
    columns = Columns({"a": {"kind": "number", "missing": "indicator"}, "b": "number"})
    frame = pd.DataFrame({"a": [1.0, np.nan], "b": [1.0, 2.0]})
    pipeline = make_pipeline(ColumnTransformer([("s", StandardScaler(), slice("a", "b"))]), Ridge())
    found = chosen_of_frames(pipeline, columns.inputs, {"a": frame})
    assert found.steps[0][1].transformers[0][2] == ["a", "a=missing", "b"]


def test_a_given_pipeline_gets_the_types_on_which_it_was_fitted():
    encoder = OneHotEncoder(handle_unknown="ignore")
    model = pipeline_of(["code", "truth", "yes"], encoder).fit(FRAME, Y)
    data = {"a": (FRAME, Y), "b": hospital(2), "c": hospital(3)}
    judge = FedCSA(columns=COLUMNS, random_state=0)
    found = judge.evaluate(model, data, NEW)
    X = as_described_matrix(NEW, "X", COLUMNS)[0]
    np.testing.assert_allclose(found.predict(X), model.predict(NEW), rtol=1e-12)
    texts = {
        name: (frame.assign(code=frame.code.astype(str)), y) for name, (frame, y) in data.items()
    }
    with pytest.raises(ModelError, match="must list agreed levels of 'code', as texts"):
        judge.evaluate(model, texts, NEW)


def test_lists_of_an_encoder_are_in_the_order_of_the_users_frame():
    frame = FRAME[["code", "one"]]
    encoder = OneHotEncoder(categories=[[1, 2, 10], [0, 1]])
    columns = Columns({"one": "flag", "code": ["1", "2", "10"]})
    pipeline = make_pipeline(encoder, Ridge())
    model, _ = fitted_here(pipeline, columns=columns, frame=frame)
    X = as_described_matrix(NEW, "X", columns)[0]
    own = clone(pipeline).fit(frame, Y).predict(NEW[["code", "one"]])
    np.testing.assert_allclose(model.predict(X), own, rtol=1e-9)


def test_codes_beside_other_texts_have_no_order_of_their_own():
    columns = Columns({"code": {"levels": ["2", "10", "1"], "other": True}})
    inputs = typed_inputs(columns.inputs, {"here": FRAME})
    model = SklearnModel(
        make_pipeline(OrdinalEncoder(), Ridge()), 0, None, Inputs.from_plain(inputs)
    )
    with pytest.raises(ModelError, match="list the levels of 'code' in their order"):
        model.check_columns()


def test_what_candidates_bring_is_looked_at_too():
    by_place = ColumnTransformer([("s", StandardScaler(), [0])])
    pipeline = make_pipeline(ColumnTransformer([("s", StandardScaler(), ["a"])]), Ridge())
    inputs = Inputs.from_plain(COLUMNS.inputs)
    with pytest.raises(ModelError, match="must name the columns of 's'"):
        SklearnModel(pipeline, 0, None, inputs).check_columns([{"columntransformer": by_place}])

"""study.toml ⇄ Study, what it means, and what would go wrong."""

import dataclasses
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcsa.data.columns import Feature, Outcome
from fedcsa.data.table_file import TableFile
from fedcsa.data.tables import write_table
from fedcsa.errors import DataError, NoSourcesError, ParameterError, StudyError, TableError
from fedcsa.messages.policy import Policy
from fedcsa.models.registry import default_candidates
from fedcsa.plan import OPTIONS as PLAN_OPTIONS
from fedcsa.plan import Plan
from fedcsa.study import Study
from fedcsa.study.outcome_tables import read_labelled

PLANTED, SECRET = 4711.25, "SECRET"
TEXT = """
name = "stroke"
seed = 7
method = "feddae"
exchange = "rows"
loss = "log"
folds = [0.21, 0.49, 0.30]
refit = true
scale = false
missing_values = ["?"]

[outcome]
name = "outcome"
levels = ["no", "yes"]

[features]
age = "number"
sex = { levels = ["F", "M"] }
grade = { levels = [1, 2] }
sbp = { kind = "number", missing = "indicator", fill = 140, sd = 20 }

[model]
name = "sklearn.linear_model.LogisticRegression"
parameters = { max_iter = 500 }

[candidates]
C = { low = 0.01, high = 1.0, points = 3, log = true }
ratio_power = [0.0, 1.0]

[ratio]
n_centres = 12

[policy]
min_fold_rows = 5

[target]
table = "new.csv"

[sources.hospital_a]
table = "a.parquet"

[sources."St. Mary's"]
table = "tables/b.csv.gz"
"""
MINIMAL = """
name = "s"
outcome = { name = "y" }
features = { x = "number" }
model = { name = "ridge" }
target = { table = "t.csv" }
sources.a.table = "a.csv"
"""


def rows_of(n, seed, **changes):
    rng = np.random.default_rng(seed)
    columns = {
        "age": rng.normal(60, 10, n).tolist(),
        "sex": rng.choice(["F", "M"], n).tolist(),
        "grade": rng.choice([1, 2], n).tolist(),
        "sbp": [v if v > 120 else "?" for v in rng.normal(140, 20, n).round(1).tolist()],
        "outcome": rng.choice(["no", "yes"], n).tolist(),
    }
    return columns | changes


def as_texts(columns):
    return {name: [str(cell) for cell in cells] for name, cells in columns.items()}


@pytest.fixture
def folder(tmp_path):
    """A folder with the study and its tables; a Parquet column of mixed cells is one of texts."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "study.toml").write_text(TEXT, encoding="utf-8")
    new = rows_of(80, 0)
    new.pop("outcome")
    write_table(tmp_path / "new.csv", new)
    write_table(tmp_path / "a.parquet", as_texts(rows_of(90, 1)))
    write_table(tmp_path / "tables" / "b.csv.gz", rows_of(100, 2))
    return tmp_path


@pytest.fixture
def study(folder):
    return Study.load(folder / "study.toml")


# From the file --------------------------------------------------------------------------------


def test_a_study_is_what_its_file_says(study, folder):
    assert study.name == "stroke"
    assert study.features == (
        Feature("age"),
        Feature("sex", "levels", ("F", "M")),
        Feature("grade", "levels", ("1", "2")),
        Feature("sbp", missing="indicator", fill=140.0, sd=20.0),
    )
    assert study.outcome == Outcome("outcome", ("no", "yes"))
    assert study.sources == {"hospital_a": "a.parquet", "St. Mary's": "tables/b.csv.gz"}
    assert study.missing_values == ("?",)
    assert study.folder == folder


def test_the_plan_is_what_the_study_says(study):
    plan = study.plan()
    assert plan.study == "stroke"
    assert plan.features == ("age", "sex=M", "grade=2", "sbp", "sbp=missing")
    assert plan.classes == ("no", "yes")
    assert (plan.method, plan.exchange, plan.loss, plan.seed) == ("feddae", "rows", "log", 7)
    assert plan.folds == (0.21, 0.49, 0.30)
    assert (plan.refit, plan.scale) == (True, False)
    assert plan.ratio == {"n_centres": 12}
    np.testing.assert_array_equal(plan.public_sd, [np.nan, 0.5, 0.5, 20.0, 0.5])
    assert (plan.flags, plan.group) == ((False, True, True, False, True), "")
    assert [candidate["C"] for candidate in plan.candidates] == [0.01, 0.01, 0.1, 0.1, 1.0, 1.0]
    assert plan.model["estimator"]["parameters"] == {"max_iter": 500}


def test_what_a_study_leaves_out_is_as_in_the_plan():
    study = Study.parse(MINIMAL)
    model, plan = {"name": "ridge"}, study.plan()
    candidates = default_candidates(model, plan.method)
    assert replace(plan, public_sd=None) == Plan(("x",), model, candidates, study="s")
    np.testing.assert_array_equal(plan.public_sd, [np.nan])


def test_every_field_of_the_plan_can_be_said_in_a_study():
    said = {"study", "features", "flags", "group", "public_sd", "classes", "model", "candidates"}
    said |= {"space"}  # which candidates can be
    assert set(PLAN_OPTIONS) == {item.name for item in dataclasses.fields(Plan)} - said


@pytest.mark.parametrize(
    ("outcome", "loss"),
    [("", "squared"), (", levels = ['a', 'b']", "brier"), (", levels = [0, 1]", "brier")],
)
def test_the_loss_suits_the_outcome_unless_told(outcome, loss):
    text = MINIMAL.replace('"y"', f'"y"{outcome}')
    assert Study.parse(text).plan().loss == loss
    told = "zero-one" if outcome else "absolute"
    assert Study.parse(f"loss = '{told}'\n{text}").plan().loss == told


def test_the_public_scale_goes_into_the_plan():
    text = MINIMAL.replace('x = "number"', "x = { sd = 3 }, z = { levels = ['a', 'b'], sd = 0.5 }")
    np.testing.assert_array_equal(Study.parse(text).plan().public_sd, [3.0, 0.5])


def test_the_policy_of_a_simulation_is_open_unless_told(study):
    assert Study.parse(MINIMAL).policy() == Policy.open()
    assert study.policy() == dataclasses.replace(Policy.open(), min_fold_rows=5)
    site = "policy = { preset = 'site', significant_digits = 'none', models = ['ridge'] }\n"
    expected = dataclasses.replace(Policy(), significant_digits=None, models=("ridge",))
    assert Study.parse(site + MINIMAL).policy() == expected
    assert Study.parse("policy.preset = 'site'\n" + MINIMAL).policy() == Policy()


def test_candidates_may_be_listed_one_by_one():
    text = MINIMAL.replace('"ridge"', '"sklearn.linear_model.Lasso"')
    study = Study.parse(
        text + "[[candidates]]\nalpha = 1\n[[candidates]]\nalpha = 2.5\nratio_power = 0"
    )
    assert study.plan().candidates == ({"alpha": 1}, {"alpha": 2.5, "ratio_power": 0.0})


def test_a_study_file_may_begin_with_a_byte_order_mark(folder):
    (folder / "bom.toml").write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    assert Study.load(folder / "bom.toml") == Study.parse(TEXT)


COLUMNS = """
patient = "group"
age = { kind = "number", sd = 12 }
smoker = "flag"
stage = ["I", "II", "III"]
sex = { levels = ["F", "M"], sd = 0.4 }
"""


def test_columns_are_described_once():
    study = Study.parse(TEXT.replace('age = "number"\nsex = { levels = ["F", "M"] }', COLUMNS))
    assert study.features[:5] == (
        Feature("patient", "group"),
        Feature("age", sd=12.0),
        Feature("smoker", "flag"),
        Feature("stage", "levels", ("I", "II", "III")),
        Feature("sex", "levels", ("F", "M"), sd=0.4),
    )
    assert study.coding.group == "patient"
    assert study.coding.columns[:5] == ("age", "smoker", "stage=II", "stage=III", "sex=M")
    written = study.to_toml().splitlines()
    assert {'patient = "group"', 'smoker = "flag"', "age = { sd = 12.0 }"} <= set(written)
    assert Study.parse(study.to_toml()) == study


def test_a_group_comes_with_the_rows_of_sources_and_not_with_those_of_the_target(folder, study):
    path = folder / "study.toml"
    path.write_text(TEXT.replace('age = "number"', 'age = "number"\nid = "group"'))
    rows = rows_of(90, 1, id=[f"p{k // 3}" for k in range(90)])
    write_table(folder / "a.parquet", as_texts(rows))
    grouped = Study.load(path)
    np.testing.assert_array_equal(grouped.read_target(), study.read_target())
    X, _ = grouped.read_source("hospital_a")
    assert X.shape == (90, len(study.coding.columns) + 1)
    assert len(np.unique(X[:, -1])) == 30
    assert (X[0::3, -1] == X[2::3, -1]).all()
    stream = grouped.stream_source("hospital_a")
    assert stream.columns == grouped.coding.matrix_columns
    assert np.concatenate([part for part, _ in stream]).tobytes() == X.tobytes()
    came = read_labelled(grouped.target_columns, [folder / "a.parquet"])
    assert came.X.shape == (90, len(study.coding.columns))
    assert any("missing: 'id'" in line for line in grouped.problems())


# And back -------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [TEXT, MINIMAL, MINIMAL + "[[candidates]]\npenalty = 1\n"])
def test_a_study_is_read_from_what_it_writes(text):
    study = Study.parse(text)
    again = Study.parse(study.to_toml())
    assert again == study
    assert repr(again) == repr(study)
    assert again.to_toml() == study.to_toml()


def test_a_written_study_reads_well():
    expected = [line for line in TEXT.strip().splitlines() if "sbp" not in line]
    written = Study.parse(TEXT).to_toml().strip().splitlines()
    assert set(expected) - set(written) == {
        "folds = [0.21, 0.49, 0.30]",
        'sex = { levels = ["F", "M"] }',
        "grade = { levels = [1, 2] }",
    }
    assert 'sex = ["F", "M"]' in written
    assert 'sbp = { missing = "indicator", fill = 140.0, sd = 20.0 }' in written


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6) | st.sampled_from(
    ['"', "'", "\\", "a.b", "a b", "Größe", "#1", "年齢", "[x]", "=", "\n", "\x7f", "\t"]
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**9), 10**9)
DAYS = st.dates()
MISSING = st.sampled_from(["error", "indicator", "model"])
FEATURES = st.one_of(
    st.builds(Feature, NAMES, st.just("flag"), sd=st.none() | st.floats(0.1, 9)),
    st.builds(Feature, NAMES, st.just("group")),
    st.builds(Feature, NAMES, st.just("id")),
    st.builds(Feature, NAMES, st.just("date"), since=DAYS, missing=MISSING),
    st.builds(Feature, NAMES, st.just("date"), at=DAYS, sd=st.none() | st.floats(0.1, 9)),
    st.builds(Feature, NAMES, unit=NAMES, missing=MISSING),
    st.builds(Feature, NAMES, sd=st.none() | st.floats(0.1, 9)),
    st.builds(Feature, NAMES, missing=st.just("indicator"), fill=st.none() | NUMBERS),
    st.builds(
        Feature,
        NAMES,
        st.just("levels"),
        st.lists(NAMES, min_size=2, max_size=4, unique=True).map(tuple),
        other=st.booleans(),
        missing=MISSING,
    ),
)
LEVELS = st.one_of(
    st.just(()),
    st.just((True, False)),
    st.lists(st.integers(), min_size=2, max_size=3, unique=True).map(tuple),
    st.lists(NAMES, min_size=2, max_size=3, unique=True).map(tuple),
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "seed": st.integers(0, 2**63 - 1),
        "method": NAMES,
        "loss": NAMES,
        "scale": st.booleans(),
        "folds": st.integers() | st.tuples(NUMBERS, NUMBERS, NUMBERS),
        "ratio": st.dictionaries(NAMES, NUMBERS | NAMES | st.lists(NUMBERS), max_size=2),
        "fedle_weights": st.dictionaries(NAMES, NUMBERS, max_size=2),
    },
)
MODELS = st.one_of(
    st.just({"name": "ridge", "penalty_scale": "sklearn", "intercept": False}),
    st.builds(
        lambda parameters: {"name": "sklearn.svm.SVR", "parameters": parameters},
        st.dictionaries(NAMES, NUMBERS | NAMES | st.booleans(), max_size=3),
    ),
)
CANDIDATES = st.one_of(
    st.none(),
    st.dictionaries(NAMES, st.lists(NUMBERS | NAMES, max_size=3), max_size=3),
    st.lists(st.dictionaries(NAMES, NUMBERS | NAMES, max_size=2), max_size=3),
)


@given(
    name=NAMES,
    features=st.lists(FEATURES, min_size=1, max_size=4),
    outcome=st.builds(Outcome, NAMES, LEVELS),
    model=MODELS,
    target=st.just("") | NAMES,
    table1=st.just("") | NAMES,
    sources=st.dictionaries(NAMES, NAMES, min_size=1, max_size=3),
    candidates=CANDIDATES,
    options=OPTIONS,
    missing_values=st.lists(NAMES, max_size=3).map(tuple),
)
def test_any_study_is_read_from_what_it_writes(**values):
    try:
        study = Study(**values)
    except ParameterError:  # two features of one name, a source called "target", two targets
        return
    again = Study.parse(study.to_toml())
    assert again == study
    assert repr(again) == repr(study)  # 1, 1.0 and True are not the same, nor is the order


# What is not a study --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('name = "stroke"', "", "study.toml: 'name' must be given: a text."),
        ('name = "stroke"', "name = 1", "study.toml: 'name' must be a text; it is a whole number."),
        ('name = "stroke"', 'name = ""', "study.toml: The 'name' parameter must be a text that"),
        ("seed = 7", "seeds = 7", "study.toml: Unknown key 'seeds'. Did you mean 'seed'?"),
        ('missing_values = ["?"]', 'missing_values = "?"', "'missing_values' must be a list of te"),
        ('age = "number"', "age = 3", "study.toml: [features] Column 'age': It must be \"number\""),
        ('age = "number"', 'age = "levels"', "[features] Column 'age': It must be \"number\", \"f"),
        ('age = "number"', 'age = ["F"]', "[features] Column 'age': The 'levels' parameter must b"),
        ('age = "number"', 'age = { kind = "flg" }', "The 'kind' parameter must be one of ['numb"),
        ('age = "number"', 'a = "group"\nb = "group"', "described with at most one group"),
        ('["F", "M"]', '["F", "M"], level = 1', "[features] Column 'sex': Unknown key 'level'. Di"),
        ('["F", "M"]', '"FM"', "[features] Column 'sex': The 'levels' parameter must be texts, wh"),
        ('["F", "M"]', '["F", "F"]', "study.toml: [features] Column 'sex': The 'levels' parameter"),
        ('["F", "M"]', "[]", "study.toml: [features] Column 'sex': The 'levels' parameter must be"),
        ("fill = 140", 'fill = "140"', "[features] Column 'sbp': The 'fill' parameter must be a f"),
        ('"indicator"', '"mean"', "study.toml: [features] Column 'sbp': The 'missing' parameter m"),
        ("sd = 20", "sd = -1", "study.toml: [features] Column 'sbp': The 'sd' parameter must be a"),
        ('levels = ["no", "yes"]', "levels = []", "[outcome] 'levels' must be two or more, or lef"),
        ('levels = ["no", "yes"]', "levels = [1.5]", "[outcome] The 'levels' parameter must be te"),
        ('levels = ["no", "yes"]', "kind = 1", "study.toml: [outcome] Unknown key 'kind'. Known: "),
        ('levels = ["no", "yes"]', 'levels = ["no", 1]', "[outcome] The 'levels' parameter must b"),
        ('name = "outcome"', "", "study.toml: [outcome] 'name' must be given: a text."),
        ('name = "outcome"', 'name = "age"', "study.toml: The 'features' parameter must be column"),
        ("parameters = {", "params = {", "study.toml: [model] Unknown key 'params'."),
        ("ratio_power = [0.0, 1.0]", "C2 = 1", "study.toml: [candidates] 'C2' must be a list; it"),
        ("points = 3,", "point = 3,", "[candidates] 'C': Unknown key of a range 'point'"),
        ("min_fold_rows = 5", "min_fold_row = 5", "[policy] Unknown key 'min_fold_row'. Did you m"),
        ("min_fold_rows = 5", "min_fold_rows = '5'", "[policy] 'min_fold_rows' must be a whole n"),
        ("min_fold_rows = 5", "preset = 'strict'", "study.toml: [policy] The 'preset' parameter m"),
        ("min_fold_rows = 5", "min_fold_rows = 'none'", "[policy] 'min_fold_rows' must be a whole"),
        ('table = "new.csv"', 'tabel = "new.csv"', "[target] Unknown key 'tabel'. Did you mean 't"),
        ('table = "new.csv"', 'rows = "new.csv"', "study.toml: [target] must have 'table', its r"),
        ('table = "new.csv"', 'table = "a.csv"\ntable1 = "b.csv"', "[target] must have 'table', "),
        (
            'table = "new.csv"', 'table1 = "b.csv"\npredictions = "p"',
            "[target] must leave out 'predictions' beside 'table1', which has no rows",
        ),
        ('table = "new.csv"', "table1 = 1", "study.toml: [target] 'table1' must be a text; it is "),
        ('table = "a.parquet"', "", "study.toml: [sources] 'hospital_a' 'table' must be given: a "),
        ('table = "a.parquet"', "table = 1", "study.toml: [sources] 'hospital_a' 'table' must be "),
        ("[sources.hospital_a]", "[sources.target]", "at least one, and none named 'target'"),
        ("[ratio]", "[ratios]", "study.toml: Unknown key 'ratios'. Did you mean 'ratio'?"),
        ("[features]", "[feature]", "study.toml: 'features' must be given: a table of keys and v"),
    ],
)  # fmt: skip
def test_a_wrong_key_or_value_is_named(old, new, text):
    assert TEXT.count(old) == 1
    with pytest.raises(StudyError, match=re.escape(text)):
        Study.parse(TEXT.replace(old, new))


def test_all_that_is_wrong_with_a_file_is_said_at_once():
    text = TEXT.replace("seed = 7", "sed = 7").replace('"number"', "1", 1)
    text = text.replace("max_iter", "max_iter = 1, max_iter2").replace("points = 3", "points = 1")
    text = text.replace("min_fold_rows", "max_fold_rows").replace('"a.parquet"', "3")
    with pytest.raises(StudyError, match="sed") as caught:
        Study.parse(text)
    lines = str(caught.value).splitlines()
    assert len(lines) == 5
    assert all(line.startswith("study.toml: ") for line in lines)


@pytest.mark.parametrize("sources", ["sources = {}", "sources = []", "sources = { a = 1 }"])
def test_a_study_needs_sources_with_tables(sources):
    with pytest.raises(StudyError, match="sources"):
        Study.parse(MINIMAL.replace('sources.a.table = "a.csv"', sources))


def test_a_syntax_error_has_a_line_and_the_name_of_the_file(folder):
    (folder / "my.toml").write_text(f"name = 'x'\nseed = {SECRET}\n")
    with pytest.raises(StudyError, match=r"^my.toml: line 2 is not valid TOML") as caught:
        Study.load(folder / "my.toml")
    assert SECRET not in str(caught.value)


def test_a_study_file_that_cannot_be_read(folder):
    with pytest.raises(StudyError, match=r"none.toml' does not exist. Check the path."):
        Study.load(folder / "none.toml")
    with pytest.raises(StudyError, match="is a folder; it must be a study file"):
        Study.load(folder)
    (folder / "bad.toml").write_bytes(b"\xff\xfen\x00")
    with pytest.raises(StudyError, match=r"bad.toml' is not text in UTF-8"):
        Study.load(folder / "bad.toml")


def test_a_check_warns_of_classes_that_no_other_source_has(folder):
    path = folder / "study.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"no", "yes"', '"no", "yes", "N", "Y"'), encoding="utf-8")
    assert not [w for w in Study.load(path).check()[1] if "spelling" in w]
    spelt = np.random.default_rng(5).choice(["N", "Y"], 100).tolist()
    write_table(folder / "tables" / "b.csv.gz", rows_of(100, 2, outcome=spelt))
    found = [w for w in Study.load(path).check()[1] if "spelling" in w]
    assert [w.partition(":")[0] for w in found] == ["Source 'hospital_a'", 'Source "St. Mary\'s"']


def test_a_study_made_by_hand_is_checked_too(study):
    with pytest.raises(ParameterError, match=r"Unknown option 'sed'. Did you mean 'seed'\?"):
        dataclasses.replace(study, options={"sed": 1})
    with pytest.raises(ParameterError, match="'seed' parameter must be a whole number"):
        dataclasses.replace(study, options={"seed": "1"}).plan()
    with pytest.raises(ParameterError, match="at least one feature"):
        dataclasses.replace(study, features=())


# The target's Table 1 -------------------------------------------------------------------------

TABLE1 = """feature,level,mean,sd,n
age,,61.04,9.7,83
sex,M,0.4,,
grade,2,0.512,,
sbp,,141.2,19,
sbp,missing,0.1,,
"""


def test_a_table_can_stand_for_the_target_s_rows(folder):
    (folder / "table1.csv").write_text(TABLE1, encoding="utf-8")
    text = TEXT.replace('table = "new.csv"', 'table1 = "table1.csv"')
    text = text.replace('method = "feddae"\nexchange = "rows"', 'compare = ["naive", "feddae"]')
    text = text.replace("folds = [0.21, 0.49, 0.30]", "").replace("[ratio]\nn_centres = 12", "")
    study = Study.parse(text, folder=folder)
    assert study.plan().compare == ("naive", "feddae")
    assert (study.target, study.table1) == ("", "table1.csv")
    assert Study.parse(study.to_toml()) == study
    table = study.read_told()
    assert (table.n_rows, table.features) == (80, study.coding.columns)
    assert table.mean.tolist() == pytest.approx([61.013, 0.4, 0.51, 141.17, 0.1])
    assert table.sd.tolist() == [9.7, 0.5, 0.5, 19.0, 0.5]
    with pytest.raises(StudyError, match="must be a table of rows for that; it is a Table 1"):
        study.read_target()
    assert study.problems() == []
    (folder / "table1.csv").write_text(TABLE1.replace("0.4", "40"), encoding="utf-8")
    assert any("looks like percent" in line for line in study.problems())


def test_a_table_has_no_predictions(study):
    with pytest.raises(ParameterError, match="'target_predictions' parameter must be left out"):
        dataclasses.replace(study, target="", table1="t.csv", target_predictions="p")


@pytest.mark.parametrize(("target", "table1"), [("", ""), ("new.csv", "table1.csv")])
def test_a_target_has_rows_or_a_table(study, target, table1):
    with pytest.raises(ParameterError, match="'target' parameter must be the path of a table"):
        dataclasses.replace(study, target=target, table1=table1)


# The tables -----------------------------------------------------------------------------------


def test_tables_are_found_beside_the_study_file(study, monkeypatch, tmp_path_factory):
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert study.read_target().shape == (80, 5)
    X, y = study.read_source("St. Mary's")
    assert X.shape == (100, 5)
    assert set(y) == {"no", "yes"}
    expected = rows_of(100, 2)
    np.testing.assert_array_equal(X[:, 0], expected["age"])
    np.testing.assert_array_equal(X[:, 2], np.array(expected["grade"]) == 2)
    np.testing.assert_array_equal(X[:, 3], [140.0 if v == "?" else v for v in expected["sbp"]])
    assert y.tolist() == expected["outcome"]


def test_an_absolute_path_stays_one(study, folder):
    elsewhere = dataclasses.replace(study, target=str(folder / "new.csv"), folder="/nowhere")
    np.testing.assert_array_equal(elsewhere.read_target(), study.read_target())


def test_rows_of_another_table_are_coded_alike(study, folder, monkeypatch):
    monkeypatch.chdir(folder / "tables")
    np.testing.assert_array_equal(study.read_rows("../new.csv"), study.read_target())


def test_outcomes_that_arrive_later_are_coded_alike(study, folder):
    came = read_labelled(study.target_columns, [folder / "tables" / "b.csv.gz"])
    X_source, y_source = study.read_source("St. Mary's")
    np.testing.assert_array_equal(came.X, X_source)
    np.testing.assert_array_equal(came.y, y_source)
    with pytest.raises(DataError, match=r"The table .*new.csv' must have .* missing: 'outcome'"):
        read_labelled(study.target_columns, [folder / "new.csv"])


def test_a_source_that_is_not_in_the_study(study):
    with pytest.raises(StudyError, match=r"Unknown source 'hospital_b'. Did you mean 'hospital_a'"):
        study.read_source("hospital_b")


def test_outcomes_at_the_target_are_never_read(study, folder, monkeypatch):
    asked = []

    read = TableFile.pieces

    def spy(self, columns=None, *others):
        for piece in read(self, columns, *others):
            asked.append((self.path.name, piece.schema.names))
            yield piece

    monkeypatch.setattr(TableFile, "pieces", spy)
    before = study.read_target()
    write_table(folder / "new.csv", rows_of(80, 0, outcome=[SECRET] * 80))
    np.testing.assert_array_equal(study.read_target(), before)
    assert study.problems() == []
    study.read_rows(folder / "new.csv")
    columns = {name for file, names in asked if file == "new.csv" for name in names}
    assert columns == {"age", "sex", "grade", "sbp"}
    assert any("outcome" in names for file, names in asked if file == "a.parquet")


@pytest.mark.parametrize("name", ["hospital_a", "St. Mary's"])
def test_a_study_runs(study, name):
    told = []
    adaptation = study.run(progress=lambda *step: told.append(step))
    assert set(adaptation.predict(study.read_target())) <= {"no", "yes"}
    assert {*adaptation.ledgers} == {"target", *study.sources}
    assert ("risk", name, "done") in told


def test_what_is_left_of_a_study_without_a_model_comes_with_the_error(study):
    strict = dataclasses.replace(study, policy_rules={"min_fold_rows": 1000})
    with pytest.raises(NoSourcesError, match="0 of 2 answers") as caught:
        strict.run()
    left = caught.value.adaptation
    assert (left.status, left.stopped.rule) == ("no model", "min_sources")
    assert {*left.ledgers} == {"target", *study.sources}


# Looking ahead --------------------------------------------------------------------------------


def problems(study, **changes):
    return dataclasses.replace(study, **changes).problems()


def test_a_sound_study_has_no_problems(study):
    assert study.problems() == []


def test_problems_of_the_tables_are_all_found(study, folder):
    write_table(folder / "new.csv", rows_of(80, 0, age=[SECRET] * 3 + [1.0] * 77, sex=["?"] * 80))
    write_table(folder / "a.parquet", {"Age": [PLANTED], "sex": ["F"], "outcome": ["no"]})
    columns = rows_of(100, 2, outcome=["maybe", None] + ["no"] * 98, grade=[3] * 100)
    write_table(folder / "tables" / "b.csv.gz", columns)
    found = study.problems()
    for text in (
        "Column 'age' of the target must hold numbers; 3 of its 80 cells are text.",
        "Column 'sex' of the target must be complete; 80 of its 80 cells are missing.",
        "missing: 'age' (did you mean 'Age'?), 'grade', 'sbp'.",
        "Column 'grade' of source \"St. Mary's\" must hold only its 2 agreed level(s); 100 of",
        "Outcome 'outcome' of source \"St. Mary's\" must hold only its 2 agreed level(s); 1 of",
        "Outcome 'outcome' of source \"St. Mary's\" must be complete; 1 of its 100 cells is",
    ):
        assert sum(text in problem for problem in found) == 1, text
    assert len(found) == 6
    assert not any(str(PLANTED) in problem or SECRET in problem for problem in found)


def test_tables_with_a_header_alone_are_all_named(study, folder):
    names = ",".join(rows_of(1, 0))
    (folder / "new.csv").write_text(f"{names}\n", encoding="utf-8")
    write_table(folder / "a.parquet", {k: list(v)[:0] for k, v in rows_of(1, 0).items()})
    assert study.problems() == [
        "The target must have rows; its table has none. Check which file it names.",
        "Source 'hospital_a' must have rows; its table has none. Check which file it names.",
    ]


def test_tables_that_cannot_be_read_are_all_named(study, folder):
    (folder / "new.csv").unlink()
    (folder / "a.parquet").write_bytes(b"PAR1")
    found = study.problems()
    assert len(found) == 2
    assert "new.csv' does not exist" in found[0]
    assert "a.parquet' must be a whole Parquet file" in found[1]
    with pytest.raises(TableError, match="does not exist"):
        study.read_target()


def test_a_table_without_outcomes_is_no_source(study, folder):
    columns = rows_of(90, 1)
    columns.pop("outcome")
    write_table(folder / "a.parquet", as_texts(columns))
    [found] = study.problems()
    assert "missing: 'outcome'." in found
    with pytest.raises(DataError, match="missing: 'outcome'"):
        study.read_source("hospital_a")


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ({"method": "fedda"}, ["The 'method' parameter must be one of"]),
        ({"seed": -1, "method": "fedda"}, ["The 'method' parameter", "The 'seed' parameter"]),
        ({"exchange": "row", "level": 2.0}, ["The 'exchange' parameter", "The 'level' parameter"]),
        (
            {"ratio": {"n_feature": 3}, "seed": -1},
            ["The 'ratio' parameter must be left out", "The 'seed'"],
        ),
        ({"method": "fedle", "seed": -1}, ["The 'fedle_weights' parameter", "The 'seed'"]),
        (
            {"fedle_weights": {"hospital_a": 1.0}},
            ["The 'fedle_weights' parameter"],
        ),
        (
            {"method": "feddae", "exchange": "rows", "folds": (0.5, 0.2, 0.2)},
            ["The 'folds' parameter must be a whole nu"],
        ),
        (
            {"loss": "absolute"},
            ["The 'loss' parameter must be one of ['brier', 'log', 'zero-one']"],
        ),
        ({"loss": "mine", "seed": -1}, ["The 'seed' parameter", "The 'loss' parameter"]),
        (
            {"method": "naive", "exchange": "rows", "ratio": {"alpha": "wide"}},
            ["The \"ratio['alpha']\" parameter must be a num"],
        ),
        ({"combine": "median"}, ["The 'combine' parameter must be 'mean' with fewer than 4 sourc"]),
        ({"compare": ["naive", "fedda"]}, ["The 'compare' parameter must be a list of"]),
        ({"compare": ["fedle"]}, ["The 'fedle_weights' parameter must be given"]),
    ],
)
def test_problems_of_the_options_are_all_found(study, options, texts):
    found = problems(study, options=options)
    assert len(found) == len(texts)
    for text in texts:
        assert any(problem.startswith(text) for problem in found)


def test_weights_of_fedle_must_name_every_source(study):
    weights = {"hospital_a": 1.0, "St. Mary": 2.0}
    [found] = problems(study, options={"method": "fedle", "fedle_weights": weights})
    assert "one weight for every source. Got 'none for \"St. Mary\\'s\"'" in found
    assert (
        problems(
            study, options={"method": "fedle", "fedle_weights": dict.fromkeys(study.sources, 1.0)}
        )
        == []
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"model": {"name": "ridge"}, "candidates": None}, "'ridge' predicts numbers, but"),
        ({"model": {"name": "sklearn.svm.SCV"}}, "The class 'sklearn.svm.SCV' is not inst"),
        ({"model": {"name": "mine.Model"}}, "A model must be built from scikit-learn's"),
        ({"candidates": {"c": [1.0]}}, "Unknown candidate parameter 'c'."),
        ({"candidates": []}, "The 'candidates' parameter must be at least one"),
        ({"candidates": {"ratio_power": [2]}}, "The 'ratio_power' parameter must be"),
        ({"policy_rules": {"significant_digits": 99}}, "[policy] The 'significant_digits' paramet"),
        ({"policy_rules": {"exchanges": ["mail"]}}, "[policy] The 'exchanges' parameter must be"),
        (
            {"policy_rules": {"exchanges": ["table"]}},
            "The target: This site's policy refuses (excha",
        ),
    ],
)
def test_problems_of_model_candidates_and_policy(study, changes, text):
    [found] = problems(study, **changes)
    assert found.startswith(text)


def test_a_trusted_type_is_no_problem(study):
    model = {"name": "tests_nowhere.Model"}
    [found] = dataclasses.replace(study, model=model).problems(["tests_nowhere.Model"])
    assert "is not installed at this site" in found


def test_problems_of_all_kinds_are_found_together(study, folder):
    (folder / "new.csv").unlink()
    found = problems(
        study,
        options={"seed": -1},
        model={"name": "sklearn.svm.SCV"},
        policy_rules={"significant_digits": 99},
        sources={"a": "a.parquet", "b": "none.csv"},
    )
    assert len(found) == 5


def test_too_few_rows_are_a_problem(study, folder):
    write_table(folder / "new.csv", {name: cells[:1] for name, cells in rows_of(9, 0).items()})
    write_table(folder / "tables" / "b.csv.gz", rows_of(5, 2, outcome=["no", "yes"] * 2 + ["no"]))
    found = study.problems()
    assert any(text.startswith("The target: ") and "at least 2 rows" in text for text in found)
    assert any(text.startswith('Source "St. Mary\'s": A source must have at') for text in found)
    assert len(found) == 2


def test_too_few_rows_for_folds_at_every_source_are_a_problem(study, folder):
    few = rows_of(3, 1, outcome=["no", "yes", "no"])
    write_table(folder / "a.parquet", as_texts(few))
    assert problems(study, options={}, policy_rules={}) == []  # it can examine the other's model
    write_table(folder / "tables" / "b.csv.gz", few)
    [found] = problems(study, options={}, policy_rules={})
    assert "No source has enough rows to fit a model in folds" in found


def test_an_outcome_that_does_not_vary_is_a_problem_for_the_paper_s_methods(study, folder):
    write_table(folder / "a.parquet", as_texts(rows_of(90, 1, outcome=["no"] * 90)))
    assert problems(study, options={}) == []  # it examines, and says what it cannot
    assert study.problems() == [
        "Source 'hospital_a': The outcome must vary; it is the same in all 90 rows."
    ]


@pytest.mark.parametrize(
    ("rules", "rule", "who"),
    [
        ({"min_fold_rows": 20}, "min_fold_rows", ["Source 'hospital_a'"]),
        (
            {"min_target_rows": 81},
            "min_target_rows",
            ["Source 'hospital_a'", 'Source "St. Mary\'s"'],
        ),
        ({"exchanges": ["table"]}, "exchanges", ["The target"]),
        ({"models": ["ridge"]}, "models", ["Source 'hospital_a'", 'Source "St. Mary\'s"']),
    ],
)
def test_what_the_policy_would_refuse_is_a_problem(study, rules, rule, who):
    found = problems(study, policy_rules=rules)
    assert len(found) == len(who)
    for problem, site in zip(found, who, strict=True):
        assert problem.startswith(f"{site}: This site's policy refuses ({rule})")

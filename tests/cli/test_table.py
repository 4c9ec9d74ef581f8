"""`fedcsa table`: Table 1 for a person, a program and a study."""

import dataclasses
import json

import numpy as np
import pytest

from fedcsa.cli import table_command
from fedcsa.core.table import Table1
from fedcsa.data.table1 import read_table1
from fedcsa.data.tables import write_table
from fedcsa.study import Study

PLANTED = "4711.25"
STUDY = """
name = "s"
missing_values = ["?"]
[outcome]
name = "y"
[features]
patient = "group"
age = { sd = 12 }
smoker = "flag"
stage = ["I", "II", "III"]
sbp = { missing = "indicator", fill = 140 }
[model]
name = "ridge"
[target]
table = "rows.csv"
[sources.a]
table = "a.csv"
"""


def clinic(n=203, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "note": [PLANTED] * n,
        "age": rng.normal(63, 11, n).round(1).tolist(),
        "smoker": (rng.random(n) < 0.3).astype(int).tolist(),
        "stage": ["III"] * 3 + rng.choice(["I", "II"], n - 3).tolist(),
        "sbp": ["?" if k % 10 == 0 else v for k, v in enumerate(rng.normal(140, 20, n).round(1))],
    }


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    write_table(tmp_path / "rows.csv", clinic())
    return tmp_path


def test_a_person_sees_a_table_1(folder, invoke):
    result = invoke("table", folder / "rows.csv", "--study", folder / "study.toml", COLUMNS="80")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [line.strip("│ ") for line in result.stdout.splitlines()]
    assert lines[0] == "Table 1, n = 200"
    labels = [line.split("│")[0].strip() for line in lines]
    start = labels.index("age")
    assert labels[start : start + 8] == [
        "age", "smoker", "stage", "I", "II", "III", "sbp", "missing",
    ]  # fmt: skip
    told = Study.load(folder / "study.toml").read_target_table()
    assert f"{told.mean[0]:.1f} ({told.sd[0]:.0f})" in lines[start]
    assert f"{100 * told.mean[1]:.0f} %" in lines[start + 1]
    shares = [int(line.split("│")[1].strip(" %")) for line in lines[start + 3 : start + 6]]
    assert sum(shares) == 100
    assert "Correlations are not told: they need two to ten columns" in " ".join(lines)
    told = " ".join(result.stdout.split())
    assert "'stage=III'. It counts as having none: they are counted with another level." in told
    assert PLANTED not in result.stdout


def test_a_few_missing_numbers_are_counted_with_no_level(folder, invoke):
    columns = clinic()
    columns["sbp"] = ["?"] * 3 + [140.0 + k for k in range(len(columns["sbp"]) - 3)]
    write_table(folder / "rows.csv", columns)
    result = invoke("table", folder / "rows.csv", "--study", folder / "study.toml", "--json")
    [told] = [text for text in json.loads(result.stdout)["warnings"] if "sbp" in text]
    assert told == "Fewer than 5 patients have 'sbp=missing'. It counts as having none."


def test_the_written_table_is_the_target_s(folder, invoke):
    study, out = Study.load(folder / "study.toml"), folder / "table1.csv"
    words = ("table", folder / "rows.csv", "--study", folder / "study.toml", "--out", out)
    result = invoke(*words)
    assert f"Table 1 in {out}" in result.stdout
    rules = {"preset": "site"}  # levels of a few patients are merged, as between sites
    told = dataclasses.replace(study, policy_rules=rules).read_target_table()
    assert read_table1(out, study.coding) == told != study.read_target_table()
    assert invoke(*words, "--quiet").stdout == f"{out}\n"


def test_a_program_gets_every_told_number(folder, invoke):
    out = folder / "t.csv"
    words = ("table", folder / "rows.csv", "--study", folder / "study.toml", "--out", out)
    answer = json.loads(invoke(*words, "--json").stdout)
    study = Study.load(folder / "study.toml")
    told = dataclasses.replace(study, policy_rules={"preset": "site"}).read_target_table()
    assert answer["n_rows"] == told.n_rows
    assert answer["n_numbers"] == told.n_numbers
    means = [line["mean"] if "mean" in line else line["share"] for line in answer["columns"]]
    assert means == pytest.approx(told.mean.tolist())
    assert [line["sd"] for line in answer["columns"] if "sd" in line] == [told.sd[0], told.sd[4]]
    assert [line.get("level", "") for line in answer["columns"]] == [
        "",
        "",
        "II",
        "III",
        "",
        "missing",
    ]
    assert answer["correlations"] == []
    assert answer["file"] == str(out)
    assert len(answer["warnings"]) == 1


def test_without_a_study_columns_are_what_they_look_like(tmp_path, invoke):
    rows = {**clinic(), "id": [f"p{k}" for k in range(203)], "sbp": [None, *range(202)]}
    write_table(tmp_path / "rows.csv", rows)
    answer = json.loads(invoke("table", tmp_path / "rows.csv", "--json").stdout)
    told = [(line["feature"], line.get("level", "")) for line in answer["columns"]]
    assert told == [
        ("age", ""), ("smoker", ""), ("stage", "II"), ("stage", "III"), ("sbp", ""),
        ("sbp", "missing"),
    ]  # fmt: skip
    assert answer["notes"][0] == "Column 'note' is the same in every row. It is left out."
    shown = invoke("table", tmp_path / "rows.csv").stdout
    assert all(f"note: {note}" in shown for note in answer["notes"])
    assert PLANTED not in shown


def test_no_file_names_levels_that_nobody_agreed_on(tmp_path, invoke):
    write_table(tmp_path / "rows.csv", clinic())
    refused = invoke("table", tmp_path / "rows.csv", "--out", tmp_path / "t.csv")
    assert (refused.exit_code, (tmp_path / "t.csv").exists()) == (3, False)
    assert "Describe the levels of 'stage' in a study file" in refused.stderr
    assert PLANTED not in refused.stderr
    write_table(tmp_path / "numbers.csv", {"age": clinic()["age"]})
    assert invoke("table", tmp_path / "numbers.csv", "--out", tmp_path / "t.csv").exit_code == 0


@pytest.mark.parametrize("name", ["", "X", "...1", "Unnamed: 0"])
@pytest.mark.parametrize("step", [1, 3])
def test_row_names_of_r_are_no_feature(tmp_path, invoke, name, step):
    lines = [f'"{name}","age","died"']
    for row in range(60):
        lines.append(f'"{step * row + 1}",{40 + row * 17 % 41}.5,{row % 2}')
    for file in ("a", "b"):
        (tmp_path / f"{file}.csv").write_text("\n".join(lines), encoding="utf-8")
    new = [line.rpartition(",")[0] for line in lines]
    (tmp_path / "new.csv").write_text("\n".join(new), encoding="utf-8")
    told = json.loads(invoke("table", tmp_path / "new.csv", "--json").stdout)
    assert [line["feature"] for line in told["columns"]] == ["age"]
    files = [tmp_path / f"{file}.csv" for file in ("a", "b")]
    out = tmp_path / "study.toml"
    words = (*files, "--target", tmp_path / "new.csv", "--out", out)
    made = invoke("study", "init", *words, "--json")
    found = json.loads(made.stdout)
    assert (found["outcome"]["name"], [*found["features"]]) == ("died", ["age"])
    assert found["unused"] == [name]
    checked = invoke("check", out)
    assert f"1 column of your tables is not used: {name or '(no name)'}." in checked.stdout
    assert json.loads(invoke("check", out, "--json").stdout)["unused"] == [name]


def test_the_first_rows_tell_what_columns_are(tmp_path, invoke, monkeypatch):
    write_table(tmp_path / "rows.csv", {"a": [1.0, 2.0, 2.5, PLANTED + "x"]})
    monkeypatch.setattr(table_command, "FIRST_ROWS", 3)
    result = invoke("table", tmp_path / "rows.csv")
    assert result.exit_code == 3
    assert "must hold numbers; 1 of its cells in rows 1 to 4 is text" in result.stderr
    assert "4711" not in result.stderr


def test_without_a_study_columns_are_numbers_or_flags(tmp_path, invoke):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 2)).round(3)
    write_table(tmp_path / "rows.csv", {"a": X[:, 0], "b": X[:, 1]})
    answer = json.loads(invoke("table", tmp_path / "rows.csv", "--json").stdout)
    told = Table1.of(X, ["a", "b"], [False, False])
    assert [line["mean"] for line in answer["columns"]] == told.mean.tolist()
    assert answer["correlations"] == [
        {"feature": "a", "with": "b", "correlation": told.correlations[0, 1]}
    ]
    assert "Correlations: a and b " in invoke("table", tmp_path / "rows.csv").stdout
    write_table(tmp_path / "flags.parquet", {"a": X[:, 0], "b": X[:, 1] > 0})
    answer = json.loads(invoke("table", tmp_path / "flags.parquet", "--json").stdout)
    assert answer["columns"][1] == {"feature": "b", "share": round(float((X[:, 1] > 0).mean()), 2)}


@pytest.mark.parametrize(
    ("n", "columns", "told"), [(40, 2, False), (2000, 11, False), (50, 2, True), (650, 10, True)]
)
def test_it_says_what_correlations_need(tmp_path, invoke, n, columns, told):
    X = np.random.default_rng(2).normal(size=(n, columns))
    write_table(tmp_path / "rows.csv", {f"c{k}": X[:, k] for k in range(columns)})
    result = invoke("table", tmp_path / "rows.csv")
    assert ("Correlations are not told: they need two to ten columns" in result.stdout) != told
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"a": [*range(33), PLANTED + "x"] * 3}, "has cells that are no numbers: 3 of 102 at"),
        ({"a": [1.0]}, "Column 'a' is the same in every row"),
        ({"a": []}, "must have rows"),
    ],
)
def test_a_table_that_cannot_be_told_is_refused_without_a_cell(tmp_path, invoke, columns, text):
    write_table(tmp_path / "rows.csv", columns)
    result = invoke("table", tmp_path / "rows.csv")
    assert (result.exit_code, result.stdout) == (3, "")
    assert text in result.stderr
    assert "4711" not in result.stderr


@pytest.mark.parametrize("words", [("nowhere.csv",), ("rows.csv", "--study", "no.toml")])
def test_a_file_that_is_not_there_is_named(invoke, words):
    result = invoke("table", *words)
    assert result.exit_code == 3
    assert words[-1] in result.stderr

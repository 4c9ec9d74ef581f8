"""Every command does what Python does, and says it in the words of its help."""

import contextlib
import csv
import io
import json
import re
from dataclasses import fields
from html import unescape

import numpy as np
import pyarrow.parquet as pq
import pytest

from fedcsa import Study, load_result
from fedcsa.answer.sentences import promise_sentence, ratio_sentence
from fedcsa.answer.store import load_ledgers
from fedcsa.answer.view import view_of
from fedcsa.backtest import run_backtest
from fedcsa.cli.app import app
from fedcsa.cli.program import Command
from fedcsa.site.meanings import meaning_of
from fedcsa.words import number, percent

COMMANDS = [
    "demo", "run", "evaluate", "check", "table", "predict", "backtest", "followup", "update",
    "report", "explain", "ledger", "convert",
]  # fmt: skip


def no_constant(name):
    raise AssertionError(f"{name} is not JSON")


def strict(text):
    return json.loads(text, parse_constant=no_constant)


def columns_of(text):
    header, *rows = list(csv.reader(io.StringIO(text)))
    return {name: [row[index] for row in rows] for index, name in enumerate(header)}


# Help ---------------------------------------------------------------------------------------


def test_the_commands_are_those_that_the_tests_know():
    assert [name for name, one in app.commands.items() if isinstance(one, Command)] == COMMANDS


def test_the_help_lists_the_commands_and_the_exit_codes(invoke):
    result = invoke("--help")
    assert result.exit_code == 0
    assert all(re.search(rf"^\W*{command}\b", result.stdout, re.M) for command in COMMANDS)
    text = " ".join(result.stdout.split())
    assert all(f" {code} " in text for code in (0, 2, 3, 4, 5, 6, 7))


def test_the_version_is_that_of_the_package(invoke):
    import fedcsa

    for flag in ("--version", "-V"):
        assert invoke(flag).stdout == f"fedcsa {fedcsa.__version__}\n"


# demo ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Where the demo runs that was given no folder."""
    return tmp_path_factory.mktemp("here")


@pytest.fixture(scope="module")
def demo(invoke, tmp_path_factory, here):
    out = tmp_path_factory.mktemp("demo") / "out[final]"  # not a word of markup
    result = invoke("demo", "--out", out)
    with contextlib.chdir(here):
        told = invoke("demo", "--json")
    assert told.exit_code == 0
    return out, result, strict(told.stdout)


def test_the_demo_prints_every_method_beside_the_truth(demo):
    _, result, content = demo
    assert (result.exit_code, result.stderr) == (0, "")
    assert set(content) == {"validated", "naive", "fediwe", "feddae"}
    told = result.stdout[result.stdout.index("Beside the truth") :]
    for method, numbers in content.items():
        line = next(li for li in told.splitlines() if re.match(rf"\W*{method}\b", li))
        assert number(numbers["risk"]) in line
        assert number(numbers["true_risk"] ** 0.5) in line
        assert ("preset paper" in line) == (method != "validated")
        assert ("(default)" in line) == (method == "validated")
    elm = next(s for s in content["feddae"]["sources"] if s["name"] == "Elm (children)")
    said = " ".join(told.split())
    assert f"gives {percent(elm['weight'])} of the weight to Elm (children)" in said


def test_the_demo_leads_with_the_verdict_the_promise_and_its_legs(demo):
    _, result, content = demo
    told = content["validated"]
    [loss] = [measure for measure in told["measures"] if measure["name"] == "rmse"]
    lower, upper = loss["lower"], loss["upper"]
    assert f"✓ Use it — {told['why']}" in result.stdout
    between = f"{number(lower)} to {number(upper)} for a new site (95 %), if it differs from these"
    assert f"RMSE {number(told['risk'])}, {between}" in result.stdout
    for leg in told["legs"]:
        assert re.search(rf"✓ +{leg['name']} +{re.escape(leg['sentence'])}", result.stdout)
    assert "99%" not in result.stdout


def test_the_demo_replaces_nobody_elses_files(demo, invoke, tmp_path):
    mine = tmp_path / "study.toml"
    mine.write_text('name = "mine"')
    refused = invoke("demo", "--out", tmp_path)
    assert refused.exit_code == 3
    assert "holds something other than a demo" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["study.toml"]
    assert mine.read_text() == 'name = "mine"'
    # What `tests/cli/test_output.py` lets it replace is a study of this name.
    assert Study.load(demo[0] / "study.toml").name == "demo"


def test_the_demos_interval_holds_the_truth_and_its_weights_avoid_the_children(demo):
    told = demo[2]["validated"]
    assert told["promise"]["lower"] < told["true_risk"] < told["promise"]["upper"]
    assert {x["name"]: x["weight"] for x in told["sources"]}["Elm (children)"] < 0.01
    assert told["true_risk"] < 0.8 * demo[2]["naive"]["true_risk"]


def test_the_demo_writes_a_study_tables_and_a_result_with_the_same_numbers(demo, invoke):
    out, result, content = demo
    assert sorted(p.name for p in (out / "tables").iterdir()) == [
        "abbey.csv", "birch.csv", "castle.csv", "dunes.csv", "elm.csv", "new.csv",
    ]  # fmt: skip
    stored = load_result(out / "result")
    assert stored.target_risk == content["validated"]["promise"]["risk"]
    assert invoke("check", out / "study.toml").exit_code == 0
    again = strict(invoke("run", out / "study.toml", "--out", out / "again", "--json").stdout)
    assert again["promise"]["risk"] == stored.target_risk
    weights = {line["name"]: line["weight"] for line in again["sources"]}
    assert weights == dict(stored.source_weights)
    for command in ("run", "backtest", "predict", "update", "ledger"):
        assert f" {command} {out}" in result.stdout


def test_the_demo_names_the_folder_as_it_is_called_and_the_report_in_it(demo):
    out, result, _ = demo
    page = out / "result" / "report.html"
    said = result.stdout.replace("\n", "")
    assert f"Written to {out}" in said
    assert f"Report in {page}." in said
    assert "Elm (children)" in page.read_text(encoding="utf-8")


def test_another_seed_draws_other_patients(demo, invoke):
    other = strict(invoke("demo", "--json", "--seed", "2").stdout)
    assert other["validated"]["risk"] != demo[2]["validated"]["risk"]


@pytest.mark.usefixtures("demo")
def test_the_demo_without_a_folder_writes_nothing(here):
    assert list(here.iterdir()) == []


# run ----------------------------------------------------------------------------------------


def test_run_prints_the_verdict_and_writes_the_result(study_folder, invoke):
    result = invoke("run", study_folder / "study.toml", "--out", study_folder / "r2")
    stored = load_result(study_folder / "r2")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"! Use it with care — {stored.verdict.sentence}")
    assert promise_sentence(view_of(stored)) in result.stdout
    assert ratio_sentence(view_of(stored)) in result.stdout
    for leg in stored.verdict.legs:
        sign = "✓" if leg.passed else "✕"
        assert re.search(rf"^{sign} +{leg.name} +{re.escape(leg.sentence)}", result.stdout, re.M)
        assert leg.passed or f"What to do: {leg.advice}" in result.stdout
    failed = sum(not leg.passed for leg in stored.verdict.legs)
    assert result.stdout.count("What to do: ") == failed > 0
    assert all(name in result.stdout for name in stored.sources)
    assert str(study_folder / "r2") in result.stdout.replace("\n", "")
    assert (study_folder / "r2" / "study.toml").is_file()


def test_run_as_json_is_the_view_of_the_stored_result(study_folder, invoke):
    result = invoke("run", study_folder / "study.toml", "-o", study_folder / "r2", "--json")
    view = view_of(load_result(study_folder / "r2"))
    assert strict(result.stdout) == strict(json.dumps(view.to_json()))
    assert {item.name for item in fields(view)} - {"ledgers"} < set(strict(result.stdout))


def test_run_equals_python(finished):
    from fedcsa import FedCSA

    folder = finished()
    study = Study.load(folder / "study.toml")
    sources = {name: study.read_source(name) for name in study.sources}
    estimator = FedCSA(candidates=[0.0, 0.1], random_state=3).fit(sources, study.read_target())
    stored = load_result(folder / "result")
    assert stored.target_risk == estimator.target_risk_
    assert dict(stored.source_weights) == estimator.source_weights_
    assert stored.interval == estimator.interval_


def test_run_without_a_folder_names_one_after_the_study(
    study_folder, invoke, monkeypatch, tmp_path
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert invoke("run", study_folder / "study.toml", "--json").exit_code == 0
    assert [path.name for path in elsewhere.iterdir()] == ["study-result"]


def test_run_shows_the_paper_s_methods_only_where_asked(make_study, invoke, tmp_path):
    for top, shown in (("", False), ('compare = ["naive", "feddae"]', True)):
        study = make_study(tmp_path / str(shown), top=top)
        result = invoke("run", study, "--out", tmp_path / str(shown) / "r")
        assert ("Estimates by method" in result.stdout) == shown
        assert ("on the table's weights" in result.stdout) == shown
        assert bool(re.search(r"^ feddae, on the", result.stdout, re.M)) == shown
        page = (tmp_path / str(shown) / "r" / "report.html").read_text(encoding="utf-8")
        assert ("Beside other methods" in page) == shown


def test_the_preset_is_an_option_of_check_and_run(make_study, invoke, tmp_path):
    study = make_study(tmp_path, candidates="penalty = [0.0, 0.5]")
    checked = invoke("check", study, "--preset", "paper")
    assert checked.exit_code == 0
    assert f"fedcsa run {study} --preset paper" in checked.stdout
    result = invoke("run", study, "--preset", "paper", "--out", tmp_path / "r")
    assert result.exit_code == 0
    assert result.stdout.startswith("? Not judged — the paper's own estimate, feddae: ")
    assert load_result(tmp_path / "r").plan.preset == "paper"
    wrong = invoke("run", study, "--preset", "pape")
    assert (wrong.exit_code, "Did you mean 'paper'?" in wrong.stderr) == (2, True)


def test_sites_that_disagree_are_named_with_what_to_do(make_study, invoke, tmp_path):
    sizes = dict.fromkeys("abcd", 60)
    result = invoke("run", make_study(tmp_path, flipped=("a", "c"), sizes=sizes), "--json")
    told = strict(result.stdout)
    legs = {leg["name"]: leg for leg in told["legs"]}
    assert (told["advice"], told["words"]) == ("no", "do not use it")
    assert not legs["skill"]["passed"]
    assert legs["skill"]["advice"]
    assert legs["skill"]["value"] == told["promise"]["skill"] < legs["skill"]["bar"]


@pytest.mark.parametrize(("label", "kind"), [("promised", "plain"), ("estimated", "paper")])
def test_only_what_was_examined_is_promised(label, kind, finished, invoke):
    result = invoke("run", finished(kind) / "study.toml", "-o", finished(kind) / "again")
    stored = load_result(finished(kind) / "again")
    assert (stored.promise is None) == (label == "estimated")
    rmse = number(stored.target_risk**0.5)
    assert re.search(rf"^ +{label}  RMSE {rmse}", result.stdout, re.M)
    said = "! Use it with care — " if label == "promised" else "? Not judged — "
    assert result.stdout.startswith(said)


def test_a_forest_of_the_study_files_documentation_can_be_run(make_study, invoke, tmp_path):
    model = 'name = "sklearn.ensemble.RandomForestClassifier"\nparameters = { n_estimators = 3 }\n'
    options = {"model": model, "candidates": "max_depth = [2]\nratio_power = [0.0]"}
    study = make_study(tmp_path, labels=("ill", "well"), **options)
    assert invoke("run", study, "--out", tmp_path / "r").exit_code == 0
    assert invoke("predict", tmp_path / "r", tmp_path / "new.csv").exit_code == 0
    assert invoke("backtest", study).exit_code in (0, 7)


def test_a_run_says_if_its_model_cannot_be_kept(make_study, invoke, tmp_path):
    options = {"model": 'name = "sklearn.svm.SVR"', "candidates": "C = [1.0]"}
    study = make_study(tmp_path, **options)
    result = invoke("run", study, "--out", tmp_path / "r")
    assert result.exit_code in (0, 6)
    assert "The result keeps no models" in " ".join(result.stdout.split())
    refused = invoke("predict", tmp_path / "r", tmp_path / "new.csv")
    assert refused.exit_code != 0
    assert "SVR has no format" in " ".join(refused.stderr.split())


# check --------------------------------------------------------------------------------------


def test_check_finds_nothing_in_a_good_study(finished, invoke):
    study = finished() / "study.toml"
    result = invoke("check", study)
    told = f"Nothing stands in the way. Next: fedcsa run {study}\n"
    assert (result.exit_code, result.stdout) == (0, told)
    told = strict(invoke("check", finished() / "study.toml", "--json").stdout)
    assert told == {"problems": [], "warnings": [], "unused": []}


def test_check_warns_of_a_column_in_another_unit(make_study, invoke, tmp_path):
    def edit(name, table):
        factor = 1000.0 if name == "b" else 1.0
        return {**table, "bmi": [factor * (25.0 + x) for x in table["bmi"]]}

    study = make_study(tmp_path, edit=edit)
    (tmp_path / "new.csv").write_bytes((tmp_path / "a.csv").read_bytes())
    result = invoke("check", study)
    assert result.exit_code == 0
    told = "Source 'b': Column 'bmi' here looks 1,000 times the target's: divide by 1000."
    assert result.stdout.startswith(f"warning: {told}\nNothing stands in the way.")
    warned = {"problems": [], "warnings": [told], "unused": []}
    assert strict(invoke("check", study, "--json").stdout) == warned


def test_check_computes_and_writes_nothing(finished, invoke, monkeypatch, tmp_path):
    study = finished() / "study.toml"  # made before nobody can answer any more
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fedcsa.source.source.Source.answer", None)
    assert invoke("check", study).exit_code == 0
    assert list(tmp_path.iterdir()) == []


def test_check_lists_every_problem_at_once(make_study, invoke, tmp_path):
    def edit(name, table):
        if name == "a":
            table["outcome"][0] = "424242.125 days"
        if name == "b":
            table["bmi"][3] = "424242.125kg"
        return {key: values[:7] for key, values in table.items()} if name == "c" else table

    study = make_study(
        tmp_path,
        edit=edit,
        model='name = "sklearn.linear_model.Lasso"',
        candidates="alfa = [0.1]",
        top='level = 2.0\nmethod = "magic"',
    )
    (tmp_path / "new.csv").unlink()
    result = invoke("check", study)
    assert result.exit_code == 3
    lines = result.stdout.splitlines()
    assert all(line.startswith("problem: ") for line in lines)
    for expected in ("alfa", "'level'", "'method'", "new.csv", "bmi", "outcome"):
        assert any(expected in line for line in lines), expected
    assert "424242" not in result.stdout
    assert strict(invoke("check", study, "--json").stdout)["problems"] == [
        line.removeprefix("problem: ") for line in lines
    ]


def test_a_tiny_source_does_not_stop_a_study(make_study, invoke, tmp_path):
    study = make_study(tmp_path, sizes={"a": 50, "b": 60, "tiny": 6})
    assert invoke("check", study).exit_code == 0
    told = strict(invoke("run", study, "--out", tmp_path / "r", "--json").stdout)
    assert {line["name"] for line in told["sources"]} == {"a", "b", "tiny"}


def wide(name, table):
    return {**table, "bmi": [1e308, *table["bmi"][1:]]} if name == "a" else table


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"top": 'combine = "median"'}, "'combine' parameter must be 'mean' with fewer than 4"),
        (
            {"top": 'method = "feddae"\nexchange = "rows"', "extra": '[ratio]\nalpha = "a"'},
            "ratio['alpha']\" parameter must be a number",
        ),
        ({"top": "level = nan"}, "'level' parameter must be a number between 0 and 1"),
        ({"edit": wide}, "must hold numbers of at most 1e+150 in size, but 1 of its 100 cells is"),
        ({"extra": "[fedle_weights]\na = 1"}, "must be one weight for every source"),
    ],
    ids=["median", "ratio", "level", "large", "weights"],
)
def test_what_check_would_name_stops_a_run_too(options, text, make_study, invoke, tmp_path):
    study = make_study(tmp_path, **options)
    checked, ran = invoke("check", study), invoke("run", study, "--out", tmp_path / "r")
    assert (checked.exit_code, ran.exit_code) == (3, 3)
    assert text in checked.output
    assert text in ran.output
    assert "e+308" not in checked.output + ran.output
    assert not (tmp_path / "r").exists()


def test_a_study_compares_given_weights_beside_its_method(make_study, invoke, tmp_path):
    study = make_study(tmp_path, extra="[fedle_weights]\na = 1\nb = 2\nc = 1")
    assert invoke("check", study).exit_code == 0
    told = strict(invoke("run", study, "--out", tmp_path / "r", "--json").stdout)
    methods = {line["method"]: line["risk"] for line in told["methods"]}
    assert (told["plan"]["method"], "fedle" in methods) == ("validated", True)
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    title = "fedle, on the table&#39;s weights"
    assert f"{title}</th><td>{number(methods['fedle'])}</td>" in page


def test_check_finds_what_the_policy_of_a_site_would_refuse(make_study, invoke, tmp_path):
    study = make_study(tmp_path, extra='[policy]\npreset = "site"')
    result = invoke("check", study)
    assert result.exit_code == 3
    assert "min_fold_rows" in result.stdout


# predict ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "classes", "paper"])
def test_predictions_on_standard_output_are_those_of_python(kind, finished, invoke):
    folder = finished(kind)
    stored = load_result(folder / "result")
    X = Study.load(folder / "study.toml").read_rows(folder / "later.csv")
    result = invoke("predict", folder / "result", folder / "later.csv")
    assert (result.exit_code, result.stderr) == (0, "")
    columns = columns_of(result.stdout)
    if kind == "classes":
        assert columns["prediction"] == stored.predict(X).tolist()
        p = np.array([columns["probability=ill"], columns["probability=well"]], dtype=float).T
        assert np.array_equal(p, stored.predict_proba(X))
    else:
        assert [float(value) for value in columns["prediction"]] == stored.predict(X).tolist()
        assert list(columns) == ["prediction"]


@pytest.mark.parametrize("kind", ["plain", "classes"])
def test_intervals_and_sets_are_those_of_python(kind, finished, invoke):
    folder = finished(kind)
    stored = load_result(folder / "result")
    X = Study.load(folder / "study.toml").read_rows(folder / "later.csv")
    result = invoke("predict", folder / "result", folder / "later.csv", "--interval", "0.8")
    assert (result.exit_code, result.stderr) == (0, "")
    columns = columns_of(result.stdout)
    if kind == "classes":
        assert list(columns)[-2:] == ["possible=ill", "possible=well"]
        found = np.array([columns["possible=ill"], columns["possible=well"]]).T == "true"
        assert np.array_equal(found, stored.predict_set(X, 0.8))
    else:
        assert list(columns) == ["prediction", "lower", "upper"]
        found = np.array([columns["lower"], columns["upper"]], dtype=float).T
        assert np.array_equal(found, stored.predict_interval(X, 0.8))


def test_rows_far_outside_what_the_study_saw_are_counted(finished, invoke, tmp_path):
    folder = finished()
    table, rows = load_result(folder / "result").table, tmp_path / "rows.csv"
    edges = table.mean + np.array([[6.1], [-6.1], [5.9], [-5.9]]) * table.sd
    cells = [(edges[0, 0], 0.0), (edges[1, 0], 0.0), (edges[2, 0], edges[3, 1]), (0.0, edges[0, 1])]
    text = "".join(f"{age},{bmi}\n" for age, bmi in cells)
    rows.write_text(f"age,bmi\n{text}", encoding="utf-8")
    result = invoke("predict", folder / "result", rows)
    told = " ".join(result.stderr.split())
    assert result.exit_code == 0
    assert "'age' lies more than 6 sds from the target's mean in 2 rows. Check its unit" in told
    assert "'bmi' lies more than 6 sds from the target's mean in 1 row. Check its unit" in told
    assert len(columns_of(result.stdout)["prediction"]) == 4


def test_an_end_that_too_few_rows_stand_behind_is_empty(finished, invoke, tmp_path):
    folder = finished()
    words = ("predict", folder / "result", folder / "new.csv", "--interval", "0.9999")
    columns = columns_of(invoke(*words).stdout)
    assert set(columns["lower"]) == set(columns["upper"]) == {""}
    assert set(json.loads(invoke(*words, "--json").stdout)["lower"]) == {None}
    for name in ("p.csv", "p.parquet"):
        assert invoke(*words, "--out", tmp_path / name).exit_code == 0


@pytest.mark.parametrize("level", ["0", "1", "90", "90%", "nan"])
def test_the_level_of_an_interval_lies_between_0_and_1(level, finished, invoke):
    folder = finished()
    result = invoke("predict", folder / "result", folder / "new.csv", "--interval", level)
    assert result.exit_code == 2
    assert f"--interval must be between 0 and 1, such as 0.9; it is {level}." in result.stderr


def test_a_method_without_an_examination_has_no_interval(finished, invoke):
    folder = finished("paper")
    result = invoke("predict", folder / "result", folder / "new.csv", "--interval", "0.9")
    assert result.exit_code == 5
    assert "no interval per patient" in result.stderr


@pytest.mark.parametrize("options", [(), ("--json",), ("--quiet",)])
def test_predictions_of_a_model_not_to_use_come_with_a_warning(
    make_study, invoke, tmp_path, options
):
    study = make_study(tmp_path, sizes=dict.fromkeys("abcd", 60), flipped=("a", "c"))
    assert invoke("run", study, "-o", tmp_path / "r", "-q").exit_code == 6
    found = invoke("predict", tmp_path / "r", tmp_path / "new.csv", *options)
    assert found.exit_code == 0
    said = "warning: The verdict on this model is 'do not use it': "
    assert " ".join(found.stderr.split()).startswith(said)
    assert "warning" not in found.stdout


@pytest.mark.parametrize(("sources", "warned"), [("a", True), ("ab", True), ("abc", False)])
def test_check_says_that_fewer_than_three_sources_cannot_do(
    make_study, invoke, tmp_path, sources, warned
):
    study = make_study(tmp_path, sizes=dict.fromkeys(sources, 60))
    told = json.loads(invoke("check", study, "--json").stdout)["warnings"]
    text = (
        "The verdict can be 'use it' only if 3 sources or more reach the target; "
        f"this study has {len(sources)}."
    )
    assert told == ([text] if warned else [])


def test_predictions_as_json_and_in_files_are_the_same_bits(finished, invoke, tmp_path):
    folder = finished("classes")
    arguments = ("predict", folder / "result", folder / "new.csv")
    content = strict(invoke(*arguments, "--json").stdout)
    for name in ("p.csv", "p.csv.gz", "p.tsv", "p.parquet"):
        result = invoke(*arguments, "--out", tmp_path / name)
        told = f"{len(content['prediction'])} predictions in {tmp_path / name}\n"
        assert (result.exit_code, result.stdout) == (0, told)
    assert pq.read_table(tmp_path / "p.parquet").to_pydict() == content
    written = columns_of((tmp_path / "p.csv").read_text(encoding="utf-8"))
    assert written["prediction"] == content["prediction"]
    assert [float(v) for v in written["probability=ill"]] == content["probability=ill"]


def test_standard_output_and_a_csv_file_hold_the_same_bytes(finished, invoke, script, tmp_path):
    arguments = ("predict", finished() / "result", finished() / "new.csv")
    invoke(*arguments, "--out", tmp_path / "p.csv")
    printed = script(*arguments, text=False)
    assert printed.returncode == 0
    assert printed.stdout == (tmp_path / "p.csv").read_bytes()


def test_columns_may_come_in_another_order_and_in_company(study_folder, invoke):
    header, *rows = (study_folder / "new.csv").read_text(encoding="utf-8").splitlines()
    assert header == "age,bmi"
    turned = ["note,bmi,age"] + [",".join(["x", *row.split(",")[::-1]]) for row in rows]
    (study_folder / "turned.csv").write_text("\n".join(turned) + "\n", encoding="utf-8")
    first = invoke("predict", study_folder / "result", study_folder / "new.csv")
    second = invoke("predict", study_folder / "result", study_folder / "turned.csv")
    assert first.stdout == second.stdout


# backtest -----------------------------------------------------------------------------------


def test_backtest_says_what_python_says(study_folder, invoke):
    study = Study.load(study_folder / "study.toml")
    found = run_backtest({n: study.read_source(n) for n in study.sources}, study.plan())
    result = invoke("backtest", study_folder / "study.toml")
    assert "Each source as the target: RMSE" in result.stdout
    assert (result.exit_code, result.stderr) == (0, "")
    assert found.verdict == "passed"
    assert f"\n{found.sentence}\n" in result.stdout
    for row in found.rows:
        line = next(li for li in result.stdout.splitlines() if re.match(rf"\W*{row.source}\b", li))
        assert f"{row.promised**0.5:.3g}" in line
        assert f"{row.realised**0.5:.3g}" in line
    content = strict(invoke("backtest", study_folder / "study.toml", "--json").stdout)
    assert content["verdict"] == "passed"
    assert [row["promised"] for row in content["rows"]] == [row.promised for row in found.rows]
    assert load_result(study_folder / "result").backtest is None


def test_backtest_is_kept_with_a_result(study_folder, invoke):
    before = load_result(study_folder / "result")
    result = invoke("backtest", study_folder / "study.toml", "--result", study_folder / "result")
    assert result.exit_code == 0
    after = load_result(study_folder / "result")
    assert after.backtest.verdict == "passed"
    assert (after.target_risk, after.interval, after.status) == (
        before.target_risk, before.interval, before.status,
    )  # fmt: skip
    assert invoke("predict", study_folder / "result", study_folder / "new.csv").exit_code == 0


def test_a_failing_backtest_lowers_the_verdict_of_the_result(make_study, invoke, tmp_path):
    study = make_study(tmp_path, flipped=("b",), sizes=dict.fromkeys("abcdef", 120), n_target=60)
    invoke("run", study, "--out", tmp_path / "r")
    assert load_result(tmp_path / "r").verdict.advice == "care"
    result = invoke("backtest", study, "--result", tmp_path / "r")
    assert result.exit_code == 7
    assert re.search(
        r"^failed: the RMSE at 'b' was [\d.]+ times what was promised", result.stdout, re.M
    )
    assert re.search(r"promise-broken\)\s+b: promised [\d.]+, lower", result.stdout)
    lowered = load_result(tmp_path / "r")
    assert lowered.verdict.advice == "no"
    assert lowered.verdict.sentence == f"the back-test failed: {lowered.backtest.reason}"
    assert [f.source for f in lowered.findings if f.code == "promise-broken"] == ["b"]
    content = strict(invoke("backtest", study, "--json").stdout)
    [finding] = content["findings"]
    row = next(row for row in content["rows"] if row["source"] == "b")
    assert finding["evidence"]["factor"] == (row["realised"] / row["promised"]) ** 0.5 > 2.0
    html = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert f"{content['sentence'].replace('failed', 'Failed', 1)}." in unescape(html)
    assert re.search(r'promise-broken</span></p>\s*<p class="place">b: promised ', html)


def test_a_backtest_leaves_the_result_of_another_study_alone(study_folder, make_study, invoke):
    other = make_study(study_folder / "other")
    text = other.read_text(encoding="utf-8").replace('name = "small"', 'name = "another"')
    text = text.replace('[features]\nage = "number"\nbmi = "number"', '[features]\nage = "number"')
    other.write_text(text, encoding="utf-8")
    before = (study_folder / "result" / "adaptation.json").read_bytes()
    result = invoke("backtest", other, "--result", study_folder / "result")
    assert result.exit_code == 3
    assert result.stderr.startswith("error: ")
    assert (study_folder / "result" / "adaptation.json").read_bytes() == before
    assert invoke("predict", study_folder / "result", study_folder / "new.csv").exit_code == 0


# ledger -------------------------------------------------------------------------------------


def test_the_ledger_lists_every_message_of_every_site(finished, invoke):
    folder = finished() / "result"
    ledgers = load_ledgers(folder)
    result = invoke("ledger", folder)
    assert (result.exit_code, result.stderr) == (0, "")
    for site, entries in ledgers.items():
        assert f"What left {site}" in result.stdout
        for entry in entries:
            assert entry.sha256[:8] in result.stdout
            assert entry.recipient in result.stdout
            assert str(entry.n_numbers) in result.stdout
    content = strict(invoke("ledger", folder, "--json").stdout)
    assert sorted(content) == ["a", "b", "c", "target"]
    assert [e["message"] for e in content["a"]] == [
        "risk-report", "model-report", "examination-report",
    ]  # fmt: skip
    assert [e["recipient"] for e in content["target"]] == ["a", "b", "c"] * 3
    for site, entries in ledgers.items():
        assert [e["sha256"] for e in content[site]] == [entry.sha256 for entry in entries]


def test_the_ledger_of_one_site_with_every_field(finished, invoke):
    folder = finished() / "result"
    plain = invoke("ledger", folder, "--site", "b").stdout
    assert "What left b" in plain
    assert "What left a" not in plain
    assert "co_moment" not in plain
    full = invoke("ledger", folder, "--site", "b", "--fields").stdout
    report = load_ledgers(folder)["b"][0]
    for item in report.fields:
        assert item.name in full
        assert meaning_of(report.message, item.name).what.split()[0] in full
    assert set(strict(invoke("ledger", folder, "--site", "b", "--json").stdout)) == {"b"}


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_site_that_is_not_there_is_not_a_success(flags, finished, invoke):
    result = invoke("ledger", finished() / "result", "--site", "nowhere", *flags)
    assert result.exit_code != 0
    assert "nowhere" in result.stdout + result.stderr


def test_a_message_hash_of_the_ledger_is_that_of_the_stored_model(finished):
    import hashlib

    folder = finished() / "result"
    ledgers = load_ledgers(folder)
    for position, site in enumerate(("a", "b", "c")):
        sent = (folder / "models" / f"{position}.fcsa").read_bytes()
        assert ledgers[site][1].sha256 == hashlib.sha256(sent).hexdigest()
        assert ledgers[site][1].n_bytes == len(sent)


def test_text_from_elsewhere_cannot_command_the_terminal():
    from fedcsa.words import printable

    assert printable("a\x1b[2Jb\x07é") == "a\N{REPLACEMENT CHARACTER}[2Jb\N{REPLACEMENT CHARACTER}é"

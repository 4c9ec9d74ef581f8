"""Every command does what Python does, and says it in the words of its help."""

import csv
import io
import json
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

from fedcsa import Study, load_result
from fedcsa.backtest import run_backtest
from fedcsa.cli.app import app
from fedcsa.findings import number
from fedcsa.reconcile import reconcile
from fedcsa.result import load_ledgers, summary

COMMANDS = ["demo", "run", "check", "predict", "backtest", "reconcile", "report", "ledger"]


def no_constant(name):
    raise AssertionError(f"{name} is not JSON")


def strict(text):
    return json.loads(text, parse_constant=no_constant)


def columns_of(text):
    header, *rows = list(csv.reader(io.StringIO(text)))
    return {name: [row[index] for row in rows] for index, name in enumerate(header)}


# Help ---------------------------------------------------------------------------------------


def test_the_commands_are_those_that_the_tests_know():
    assert [command.callback.__name__ for command in app.registered_commands] == COMMANDS


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
def demo(invoke, tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "out[final]"  # not a word of markup
    return out, invoke("demo", "--out", out), strict(invoke("demo", "--json").stdout)


def test_the_demo_prints_every_method_beside_the_truth(demo):
    _, result, content = demo
    assert (result.exit_code, result.stderr) == (0, "")
    assert set(content) == {"naive", "fediwe", "feddae", "guarded"}
    for method, numbers in content.items():
        line = next(li for li in result.stdout.splitlines() if re.match(rf"\W*{method}\b", li))
        assert f"{numbers['target_risk']:.2f}" in line
        assert f"{numbers['true_risk']:.2f}" in line
    low, high = content["guarded"]["interval"]
    assert f"{low:.2f} to {high:.2f}" in result.stdout
    assert f"Verdict: {content['guarded']['status']}" in result.stdout


def test_the_demos_interval_holds_the_truth_and_its_weights_avoid_the_children(demo):
    guarded = demo[2]["guarded"]
    assert guarded["interval"][0] < guarded["true_risk"] < guarded["interval"][1]
    assert guarded["source_weights"]["Elm (children)"] < 0.01
    assert guarded["true_risk"] < 0.8 * demo[2]["naive"]["true_risk"]


def test_the_demo_writes_a_study_tables_and_a_result_with_the_same_numbers(demo, invoke):
    out, result, content = demo
    assert sorted(p.name for p in (out / "tables").iterdir()) == [
        "abbey.csv", "birch.csv", "castle.csv", "dunes.csv", "elm.csv", "new.csv",
        "outcomes-later.csv",
    ]  # fmt: skip
    stored = load_result(out / "result")
    assert stored.target_risk == content["guarded"]["target_risk"]
    assert invoke("check", out / "study.toml").exit_code == 0
    again = strict(invoke("run", out / "study.toml", "--out", out / "again", "--json").stdout)
    assert again["target_risk"] == stored.target_risk
    assert again["source_weights"] == dict(stored.source_weights)
    for command in ("run", "backtest", "predict", "reconcile", "ledger"):
        assert f" {command} {out}" in result.stdout


def test_the_suggestions_of_the_demo_work(demo, invoke):
    out = demo[0]
    assert invoke("reconcile", out / "result", out / "tables" / "outcomes-later.csv").exit_code == 0
    assert invoke("predict", out / "result", out / "tables" / "new.csv").exit_code == 0
    assert invoke("ledger", out / "result").exit_code == 0


def test_the_demo_names_the_folder_as_it_is_called(demo):
    out, result, _ = demo
    assert f"Written to {out}" in result.stdout.replace("\n", "")


def test_another_seed_draws_other_patients(demo, invoke):
    other = strict(invoke("demo", "--json", "--seed", "2").stdout)
    assert other["guarded"]["target_risk"] != demo[2]["guarded"]["target_risk"]


def test_the_demo_without_a_folder_writes_nothing(invoke, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert invoke("demo", "--json").exit_code == 0
    assert list(tmp_path.iterdir()) == []


# run ----------------------------------------------------------------------------------------


def test_run_prints_the_verdict_and_writes_the_result(study_folder, invoke):
    result = invoke("run", study_folder / "study.toml", "--out", study_folder / "r2")
    stored = load_result(study_folder / "r2")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"{stored.status} — ")
    assert f"{stored.target_risk:.3g}" in result.stdout
    assert "{:.3g} to {:.3g}".format(*stored.interval) in result.stdout
    assert "constant predictor" in result.stdout
    assert "naive estimate" in result.stdout
    assert all(name in result.stdout for name in stored.sources)
    assert str(study_folder / "r2") in result.stdout.replace("\n", "")
    assert (study_folder / "r2" / "study.toml").is_file()


def test_run_as_json_is_the_summary_of_the_stored_result(study_folder, invoke):
    result = invoke("run", study_folder / "study.toml", "-o", study_folder / "r2", "--json")
    assert strict(result.stdout) == strict(json.dumps(summary(load_result(study_folder / "r2"))))


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


def test_run_shows_both_readings_where_sources_disagree(make_study, invoke, tmp_path):
    sizes = {"a": 60, "b": 60, "c": 60, "d": 60}
    study = make_study(tmp_path, flipped=("a", "c"), sizes=sizes)
    result = invoke("run", study, "--out", tmp_path / "r")
    assert result.exit_code == 0
    assert result.stdout.startswith("sources disagree — ")
    found = json.loads((tmp_path / "r" / "adaptation.json").read_text())
    shared, differs, rows = (
        number(value)
        for value in (found["risk"]["if_shared"], found["risk"]["worst"], found["by_rows"]["risk"])
    )
    lines = [line.strip() for line in result.stdout.splitlines()]
    at = lines.index(f"if p(y|x) is shared  {shared}")
    assert lines[at + 1 : at + 3] == [
        f"if p(y|x) differs by site  {differs}", f"weighted by rows instead  {rows}",
    ]  # fmt: skip
    assert "sources-disagree" in result.stdout


@pytest.mark.parametrize(
    ("top", "why"),
    [
        ('loss = "absolute"', "not known for this loss"),
        ('combine = "median"', "not known for a median of the models"),
    ],
)
def test_a_reading_that_is_not_known_is_named(top, why, make_study, invoke, tmp_path):
    sizes = {"a": 60, "b": 60, "c": 60, "d": 60}
    study = make_study(tmp_path, flipped=("a", "c"), sizes=sizes, top=top)
    result = invoke("run", study, "--out", tmp_path / "r")
    assert f"if p(y|x) is shared  {why}" in result.stdout
    assert "both ends of the interval" not in " ".join(result.stdout.split())
    page = (tmp_path / "r" / "report.html").read_text()
    assert f"The risk if p(y|x) is shared is {why}." in page


def test_a_method_of_the_paper_is_not_judged(finished, invoke):
    result = invoke("run", finished("paper") / "study.toml", "-o", finished("paper") / "again")
    assert result.stdout.startswith("not judged — ")


def test_a_forest_of_the_study_files_documentation_can_be_run(make_study, invoke, tmp_path):
    model = (
        'name = "pipeline"\n'
        '[[model.steps]]\nname = "scale"\nclass = "sklearn.preprocessing.StandardScaler"\n'
        '[[model.steps]]\nname = "forest"\nclass = "sklearn.ensemble.RandomForestClassifier"\n'
        "parameters = { n_estimators = 3 }\n"
    )
    options = {"model": model, "candidates": "forest__max_depth = [2]\nratio_power = [0.0]"}
    study = make_study(tmp_path, labels=("ill", "well"), **options)
    result = invoke("run", study, "--out", tmp_path / "r")
    trust = ["--trust", "sklearn.tree._tree.Tree"]
    if result.exit_code == 5:  # if its trees must be trusted, there must be a way to say so
        result = invoke("run", study, "--out", tmp_path / "r", *trust)
    assert result.exit_code == 0
    assert invoke("predict", tmp_path / "r", tmp_path / "new.csv", *trust).exit_code == 0
    assert invoke("backtest", study, *trust).exit_code in (0, 7)


# check --------------------------------------------------------------------------------------


def test_check_finds_nothing_in_a_good_study(finished, invoke):
    result = invoke("check", finished() / "study.toml")
    assert (result.exit_code, result.stdout) == (0, "Nothing stands in the way.\n")
    assert strict(invoke("check", finished() / "study.toml", "--json").stdout) == {"problems": []}


def test_check_computes_and_writes_nothing(finished, invoke, monkeypatch, tmp_path):
    study = finished() / "study.toml"  # made before nobody can answer any more
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fedcsa.roles.source.Source.answer", None)
    assert invoke("check", study).exit_code == 0
    assert list(tmp_path.iterdir()) == []


def test_check_lists_every_problem_at_once(make_study, invoke, tmp_path):
    def edit(name, table):
        if name == "a":
            table["outcome"] = [424242.125] * len(table["outcome"])
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
    for expected in ("alfa", "'level'", "'method'", "new.csv", "bmi", "vary"):
        assert any(expected in line for line in lines), expected
    assert "424242" not in result.stdout
    assert strict(invoke("check", study, "--json").stdout)["problems"] == [
        line.removeprefix("problem: ") for line in lines
    ]


def test_check_names_a_source_with_too_few_rows(make_study, invoke, tmp_path):
    study = make_study(tmp_path, sizes={"a": 50, "tiny": 6})
    result = invoke("check", study)
    assert result.exit_code == 3
    assert re.search(r"^problem: Source 'tiny': A source must have at least 10 rows", result.stdout)


def wide(name, table):
    return {**table, "bmi": [1e308, *table["bmi"][1:]]} if name == "a" else table


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"top": 'combine = "median"'}, "'combine' parameter must be 'mean' with fewer than 4"),
        ({"extra": '[ratio]\nbandwidth = "a"'}, "ratio['bandwidth']\" parameter must be a number"),
        ({"top": "level = nan"}, "'level' must be a number; it is not finite"),
        ({"edit": wide}, "must hold numbers of at most 1e+150 in size, but 1 of its 100 cells is"),
        (
            {"extra": "[fedle_weights]\na = 1"},
            ("[fedle_weights] must name every source", "one weight for every source"),
        ),
    ],
    ids=["median", "ratio", "level", "large", "weights"],
)
def test_what_check_would_name_stops_a_run_too(options, text, make_study, invoke, tmp_path):
    study = make_study(tmp_path, **options)
    of_check, of_run = (text, text) if isinstance(text, str) else text
    checked, ran = invoke("check", study), invoke("run", study, "--out", tmp_path / "r")
    assert (checked.exit_code, ran.exit_code) == (3, 3)
    assert of_check in checked.output
    assert of_run in ran.output
    assert "e+308" not in checked.output + ran.output
    assert not (tmp_path / "r").exists()


def test_a_study_compares_given_weights_beside_its_method(make_study, invoke, tmp_path):
    study = make_study(tmp_path, extra="[fedle_weights]\na = 1\nb = 2\nc = 1")
    assert invoke("check", study).exit_code == 0
    told = strict(invoke("run", study, "--out", tmp_path / "r", "--json").stdout)
    assert (told["method"], "fedle" in told["estimates"]) == ("guarded", True)
    page = (tmp_path / "r" / "report.html").read_text()
    assert "the paper&#39;s estimate with the weights that the study gives" in page


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
    assert (result.exit_code, result.stderr) == (0, "")
    assert found.verdict == "passed"
    assert re.search(r"^passed — ", result.stdout, re.M)
    for row in found.rows:
        line = next(li for li in result.stdout.splitlines() if re.match(rf"\W*{row.source}\b", li))
        assert f"{row.promised:.3g}" in line
        assert f"{row.realised:.3g}" in line
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
    study = make_study(tmp_path, flipped=("a", "c"), sizes=dict.fromkeys("abcd", 150))
    invoke("run", study, "--out", tmp_path / "r")
    result = invoke("backtest", study, "--result", tmp_path / "r")
    assert result.exit_code == 7
    assert re.search(r"^failed — ", result.stdout, re.M)
    assert "broken" in result.stdout
    assert load_result(tmp_path / "r").status == "back-test failed"
    assert invoke("backtest", study, "--json").exit_code == 7


def test_a_backtest_that_passes_names_the_promise_that_was_broken(make_study, invoke, tmp_path):
    study = make_study(tmp_path, flipped=("b",), sizes=dict.fromkeys("abcdef", 120))
    invoke("run", study, "--out", tmp_path / "r")
    result = invoke("backtest", study, "--result", tmp_path / "r")
    assert (result.exit_code, result.stderr) == (0, "")
    assert re.search(r"^passed, but 1 of 6 promises was broken: b \(realised ", result.stdout, re.M)
    assert "promise-broken at source 'b'" in result.stdout
    assert re.search(r"^ *naive promise over realised risk  0\.\d+$", result.stdout, re.M)
    content = strict(invoke("backtest", study, "--json").stdout)
    assert content["sentence"].startswith("passed, but 1 of 6 promises was broken: b (")
    [finding] = content["findings"]
    assert (finding["code"], finding["source"]) == ("promise-broken", "b")
    row = next(row for row in content["rows"] if row["source"] == "b")
    assert finding["evidence"]["factor"] == row["realised"] / row["promised"] > 2.0
    loaded = load_result(tmp_path / "r")
    assert [f.source for f in loaded.findings if f.code == "promise-broken"] == ["b"]
    html = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert "Passed, but 1 of 6 promises was broken: b (realised " in html
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


# reconcile ----------------------------------------------------------------------------------


def test_reconcile_says_and_writes_what_python_says(study_folder, invoke):
    study = Study.load(study_folder / "study.toml")
    X, y = study.read_outcomes(study_folder / "later.csv")
    found = reconcile(load_result(study_folder / "result"), X, y)
    result = invoke("reconcile", study_folder / "result", study_folder / "later.csv")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("kept — ")
    assert f"{found.realised:.3g}  ({found.lower:.3g} to {found.upper:.3g})" in result.stdout
    text = (study_folder / "result" / "reconciliation.json").read_text(encoding="utf-8")
    content = strict(text)
    assert content["realised"] == found.realised
    assert (content["conclusion"], content["moved"]) == ("kept", False)
    arguments = ("reconcile", study_folder / "result", study_folder / "later.csv", "--json")
    assert strict(invoke(*arguments).stdout) == content


def test_reconcile_shows_the_naive_promise(study_folder, invoke):
    naive = load_result(study_folder / "result").naive_risk
    result = invoke("reconcile", study_folder / "result", study_folder / "later.csv")
    assert re.search(rf"^ +naive  {number(naive)}$", result.stdout, re.M)


def test_reconcile_says_why_equal_losses_conclude_nothing(study_folder, invoke):
    X, _ = Study.load(study_folder / "study.toml").read_outcomes(study_folder / "later.csv")
    right = load_result(study_folder / "result").predict(X[:2])
    rows = [
        f"{age!r},{bmi!r},{y!r}"
        for (age, bmi), y in zip(X[:2].tolist(), right.tolist(), strict=True)
    ]
    text = "\n".join(["age,bmi,outcome", *rows, ""])
    (study_folder / "two.csv").write_text(text, encoding="utf-8")
    result = invoke("reconcile", study_folder / "result", study_folder / "two.csv")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("no interval — the losses of all 2 rows are equal")
    assert re.search(r"^ +realised  0$", result.stdout, re.M)
    content = strict((study_folder / "result" / "reconciliation.json").read_text(encoding="utf-8"))
    assert (content["lower"], content["upper"], content["moved"]) == (None, None, None)
    html = (study_folder / "result" / "report.html").read_text(encoding="utf-8")
    assert "no interval, because the losses of all 2 rows are equal" in html


def test_reconcile_notices_another_rule(study_folder, invoke):
    result = invoke("reconcile", study_folder / "result", study_folder / "other.csv")
    assert result.exit_code == 7
    assert result.stdout.startswith("worse than promised — ")
    text = (study_folder / "result" / "reconciliation.json").read_text(encoding="utf-8")
    assert strict(text)["moved"] is True


def test_reconcile_with_a_method_of_the_paper_has_no_promise_to_keep(finished, invoke):
    folder = finished("paper")
    result = invoke("reconcile", folder / "result", folder / "other.csv")
    assert result.exit_code == 0
    assert result.stdout.startswith("no interval — ")


# ledger -------------------------------------------------------------------------------------


def test_the_ledger_lists_every_message_of_every_site(finished, invoke):
    folder = finished() / "result"
    ledgers = load_ledgers(folder)
    result = invoke("ledger", folder)
    assert (result.exit_code, result.stderr) == (0, "")
    for site, entries in ledgers.items():
        assert f"What left {site}" in result.stdout
        for entry in entries:
            assert entry.sha256[:12] in result.stdout
            assert str(entry.n_numbers) in result.stdout
    content = strict(invoke("ledger", folder, "--json").stdout)
    assert sorted(content) == ["a", "b", "c", "target"]
    assert [e["message"] for e in content["a"]] == ["risk-report", "model-report"]
    assert [e["recipient"] for e in content["target"]] == ["a", "b", "c"] * 2
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
        assert item.sha256[:12] in full
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
    from fedcsa.cli.common import printable

    assert printable("a\x1b[2Jb\x07é") == "a\N{REPLACEMENT CHARACTER}[2Jb\N{REPLACEMENT CHARACTER}é"

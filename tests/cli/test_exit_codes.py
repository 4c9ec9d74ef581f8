"""Every exit code by a real case; an error is one line on standard error, without data."""

import csv
import json
import re
import shutil

import pytest

from fedcsa.answer.view import view_of

PLANTED = "424242.125"


def failed(result, code, match):
    """One line on standard error, nothing on standard output, no value of any table."""
    assert result.exit_code == code
    assert result.stdout == ""
    assert re.fullmatch(r"error: [^\n]+\n", result.stderr), result.stderr
    assert re.search(match, result.stderr), result.stderr
    assert "Traceback" not in result.stderr
    assert "424242" not in result.stderr
    return True


# 2: wrong usage -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("run",),
        ("dmeo",),
        ("demo", "--seed", "-1"),
        ("demo", "--seed", "many"),
        ("predict", "result"),
        ("check", "study.toml", "--loud"),
        ("ledger",),
        ("predict", "result", "new.csv", "--interval", "90"),
        ("run", "study.toml", "--preset", "pape"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(arguments, invoke):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Usage" in result.stderr
    assert "Traceback" not in result.stderr


# 3: input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["run", "check", "backtest"])
def test_a_study_that_is_not_there_is_exit_code_3(command, invoke, tmp_path):
    assert failed(
        invoke(command, tmp_path / "no.toml"), 3, r"no\.toml' does not exist\. Check the path"
    )
    match = r"is a folder; it must be a study file\. .* fedcsa study init"
    assert failed(invoke(command, tmp_path), 3, match)
    (tmp_path / "north.csv").write_text(f"age,bmi\n{PLANTED},1\n", encoding="utf-8")
    match = r"looks like a table, not a study file\. Write one with: fedcsa study init"
    assert failed(invoke(command, tmp_path / "north.csv"), 3, match)


def test_a_study_that_is_not_toml_is_exit_code_3(invoke, tmp_path):
    path = tmp_path / "study.toml"
    path.write_text("name = ", encoding="utf-8")
    assert failed(invoke("run", path), 3, "study.toml")
    path.write_bytes(b"\xff\xfe")
    assert failed(invoke("run", path), 3, "UTF-8")


def test_a_study_with_slips_names_all_of_them(make_study, invoke, tmp_path):
    study = make_study(tmp_path, top='sead = 1\nlevel = "high"')
    for command in ("run", "check"):
        result = invoke(command, study)
        assert (result.exit_code, result.stdout) == (3, "")
        assert result.stderr.startswith("error: ")
        assert "Did you mean 'seed'" in result.stderr
        assert "'level'" in result.stderr


@pytest.mark.parametrize("name", ["a.csv", "new.csv"])
def test_a_table_that_is_not_there_is_exit_code_3(name, study_folder, invoke, tmp_path):
    (study_folder / name).unlink()
    result = invoke("run", study_folder / "study.toml", "--out", tmp_path / "r")
    assert failed(result, 3, rf"{name}' does not exist")
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda t: {**t, "bmi": [f"{PLANTED}kg", *t["bmi"][1:]]}, "Column 'bmi' of source 'b'"),
        (lambda t: {**t, "bmi": ["", *t["bmi"][1:]]}, "must be complete; 1 of its 64"),
        (lambda t: {"age": t["age"], "outcome": [PLANTED] * 64}, "missing: 'bmi'"),
        (lambda t: {k: [] for k in t}, "Source 'b' must have rows"),
    ],
    ids=["text", "missing cell", "missing column", "no rows"],
)
def test_a_table_that_cannot_be_used_is_exit_code_3(change, match, make_study, invoke, tmp_path):
    study = make_study(tmp_path, edit=lambda name, t: change(t) if name == "b" else t)
    assert failed(invoke("run", study, "--out", tmp_path / "r"), 3, match)


def test_an_option_that_does_not_suit_is_exit_code_3(make_study, invoke, tmp_path):
    study = make_study(tmp_path, top='exchange = "rows"')
    assert failed(invoke("run", study, "--out", tmp_path / "r"), 3, "default method must have")
    paper = make_study(tmp_path, top='method = "feddae"')
    assert failed(invoke("backtest", paper), 3, "'validated' for a back-test")


@pytest.mark.parametrize("command", ["report", "predict", "followup", "update", "ledger"])
def test_a_result_that_is_not_there_is_exit_code_3(command, invoke, tmp_path):
    rows = () if command in ("report", "ledger") else (tmp_path / "rows.csv",)
    assert failed(invoke(command, tmp_path, *rows), 3, r"must hold adaptation\.json")
    match = r"nowhere' does not exist\. Make one with: fedcsa run STUDY --out DIR"
    assert failed(invoke(command, tmp_path / "nowhere", *rows), 3, match)


@pytest.mark.parametrize("command", ["report", "predict", "followup", "update", "ledger"])
def test_a_file_in_place_of_a_result_says_what_makes_one(command, study_folder, invoke):
    rows = () if command in ("report", "ledger") else (study_folder / "new.csv",)
    study, table = study_folder / "study.toml", study_folder / "new.csv"
    for place, named in ((study, re.escape(str(study))), (table, "STUDY")):
        match = rf"RESULT must be a folder; .* is a file\. Make one with: fedcsa run {named} --out"
        assert failed(invoke(command, place, *rows), 3, match)


def test_a_back_test_under_a_preset_names_the_reason(study_folder, invoke):
    result = invoke("backtest", study_folder / "study.toml", "--preset", "paper")
    assert failed(result, result.exit_code, "for a back-test: only it promises an interval")


def test_a_result_that_is_damaged_is_exit_code_3(study_folder, invoke):
    (study_folder / "result" / "adaptation.json").write_text("{", encoding="utf-8")
    rows = study_folder / "new.csv"
    assert failed(invoke("predict", study_folder / "result", rows), 3, "damaged")
    assert failed(invoke("ledger", study_folder / "result"), 3, "damaged")


def test_a_result_without_its_columns_cannot_read_tables(study_folder, invoke):
    path = study_folder / "result" / "adaptation.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, "columns": None}), encoding="utf-8")
    result = invoke("predict", study_folder / "result", study_folder / "new.csv")
    assert failed(result, 3, r"must hold the columns of its tables .* FedCSA\.save")


def test_a_ledger_that_was_edited_is_not_a_traceback(study_folder, invoke):
    path = study_folder / "result" / "ledgers" / "0.jsonl"
    path.write_text('{"site": "a"}\n', encoding="utf-8")
    for command, rows in (("ledger", ()), ("predict", (study_folder / "new.csv",))):
        result = invoke(command, study_folder / "result", *rows)
        assert result.exit_code in (3, 4)
        assert failed(result, result.exit_code, "ledger")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (f"age\n{PLANTED}\n", "missing: 'bmi'"),
        (f"age,bmi\n{PLANTED},heavy\n", "'bmi' of the table .* must hold numbers"),
        (f"{PLANTED},1\n2,3\n", "must begin with a line of column names"),
        ("", "the file is empty"),
        ("age,bmi\n", "must have rows"),
    ],
    ids=["missing column", "text", "no header", "empty", "no rows"],
)
def test_rows_that_cannot_be_predicted_are_exit_code_3(text, match, finished, invoke, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(text, encoding="utf-8")
    assert failed(invoke("predict", finished() / "result", path), 3, match)


@pytest.mark.parametrize("command", ["predict", "update"])
@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("nope.csv", r"nope\.csv' does not exist\. Check the path\.\n"),
        ("tables", r"tables' must be one file; it is a folder\. .* such as .*tables/\*\.csv\.\n"),
    ],
)
def test_rows_that_are_no_file_are_exit_code_3(command, name, match, finished, invoke, tmp_path):
    (tmp_path / "tables").mkdir()
    assert failed(invoke(command, finished() / "result", tmp_path / name), 3, match)


def test_a_table_of_a_study_elsewhere_says_where_its_path_starts(study_folder, invoke):
    (study_folder / "a.csv").unlink()
    result = invoke("check", study_folder / "study.toml")
    assert "it starts from the folder of the file that names it" in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("name", "match"),
    [("p.xlsx", "must be written as CSV or Parquet"), ("no/such/p.csv", "folder that exists")],
)
def test_a_place_that_cannot_be_written_to_is_exit_code_3(name, match, finished, invoke, tmp_path):
    folder = finished()
    out = tmp_path / name
    assert failed(invoke("predict", folder / "result", folder / "new.csv", "-o", out), 3, match)


@pytest.mark.parametrize("command", ["run", "demo"])
@pytest.mark.parametrize("inside", [False, True])
def test_a_file_in_place_of_a_folder_is_exit_code_3(command, inside, finished, invoke, tmp_path):
    path = tmp_path / "taken"
    path.write_text("mine", encoding="utf-8")
    out = path / "inside" if inside else path
    arguments = (finished() / "study.toml",) if command == "run" else ()
    assert failed(invoke(command, *arguments, "--out", out), 3, "taken")
    assert path.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("command", ["run", "demo"])
def test_a_folder_with_something_else_is_exit_code_3(command, finished, invoke, tmp_path):
    target = tmp_path / "result" if command == "demo" else tmp_path
    target.mkdir(exist_ok=True)
    (target / "thesis.txt").write_text("mine", encoding="utf-8")
    arguments = (finished() / "study.toml",) if command == "run" else ()
    assert failed(invoke(command, *arguments, "--out", tmp_path), 3, "holds something other than")


def test_outcomes_without_an_outcome_column_are_exit_code_3(finished, invoke):
    folder = finished()
    result = invoke("update", folder / "result", folder / "new.csv")
    assert failed(result, 3, "missing: 'outcome'")


def test_a_result_folder_that_cannot_take_the_update_is_exit_code_3(study_folder, invoke):
    (study_folder / "result" / "updates.part").mkdir()
    result = invoke("update", study_folder / "result", study_folder / "later.csv")
    assert failed(result, 3, "updates")


# 4: the exchange ----------------------------------------------------------------------------


def test_sites_that_all_refuse_are_exit_code_4(make_study, invoke, tmp_path):
    study = make_study(tmp_path, extra="[policy]\nmin_fold_rows = 500")
    assert failed(invoke("run", study, "-o", tmp_path / "r"), 4, "0 of 3 answers were reports")


def test_a_target_that_refuses_is_exit_code_4(make_study, invoke, tmp_path):
    study = make_study(tmp_path, extra='[policy]\nfeatures = ["bmi"]')
    assert failed(invoke("run", study, "-o", tmp_path / "r"), 4, "features")


def test_a_model_message_that_was_changed_is_exit_code_4(study_folder, invoke):
    path = study_folder / "result" / "models" / "0.fcsa"
    path.write_bytes(path.read_bytes()[:-3])
    result = invoke("predict", study_folder / "result", study_folder / "new.csv")
    assert failed(result, 4, "message.*compare fedcsa --version at every site")


# 5: the model -------------------------------------------------------------------------------


def test_candidates_that_fail_everywhere_are_exit_code_5(make_study, invoke, tmp_path):
    model = 'name = "sklearn.linear_model.OrthogonalMatchingPursuit"'
    study = make_study(tmp_path, model=model, candidates="n_nonzero_coefs = [50]")
    assert failed(invoke("run", study, "-o", tmp_path / "r"), 5, "At least one candidate must be")


def test_a_class_that_nobody_trusts_is_exit_code_5(make_study, invoke, tmp_path):
    study = make_study(tmp_path, model='name = "os.path.Join"', candidates="")
    assert failed(invoke("run", study, "-o", tmp_path / "r"), 5, "trusted")


def test_a_classifier_for_numbers_is_exit_code_5(make_study, invoke, tmp_path):
    model = 'name = "sklearn.linear_model.LogisticRegression"'
    study = make_study(tmp_path, model=model, candidates="")
    assert failed(invoke("run", study, "-o", tmp_path / "r"), 5, "declared as numbers")


def test_an_option_without_a_value_is_wrong_usage(make_study, invoke, tmp_path):
    result = invoke("check", make_study(tmp_path), "--set", "level")
    assert result.exit_code == 2
    assert "--set must be NAME=VALUE" in " ".join(result.stderr.split())


def test_an_option_that_does_not_exist_is_wrong_usage(make_study, invoke, tmp_path):
    result = invoke("check", make_study(tmp_path), "--set", "levl=0.9")
    assert result.exit_code == 2
    assert "--set: Unknown option 'levl'. Did you mean 'level'?" in " ".join(result.stderr.split())


# 0 and 6: the verdict -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "advice", "code"),
    [
        ({"sizes": dict.fromkeys("abcd", 150), "n_target": 60}, "use", 0),
        ({"n_target": 40}, "care", 0),
        ({"sizes": dict.fromkeys("abcd", 60), "flipped": ("a", "c")}, "no", 6),
        ({"shift": 30.0, "top": 'on_no_overlap = "predict"'}, "no", 6),
    ],
    ids=["use it", "with care", "no better than a constant", "insisting"],
)
def test_the_exit_code_follows_the_verdict(options, advice, code, make_study, invoke, tmp_path):
    study = make_study(tmp_path, **options)
    result = invoke("run", study, "--out", tmp_path / "r", "--json")
    assert (result.exit_code, result.stderr) == (code, "")
    assert json.loads(result.stdout)["advice"] == advice
    assert (tmp_path / "r" / "report.html").is_file()


def test_a_target_that_nobody_resembles_is_exit_code_6(make_study, invoke, tmp_path):
    study = make_study(tmp_path, shift=30.0)
    result = invoke("run", study, "-o", tmp_path / "r")
    assert failed(result, 6, r"still lies [\d.]+ standard deviations off in '(age|bmi)'")
    assert (tmp_path / "r" / "report.html").is_file()
    assert failed(invoke("predict", tmp_path / "r", tmp_path / "later.csv"), 3, "ended without one")


def test_a_verdict_not_to_use_it_is_exit_code_6_though_a_promise_is_broken_too(
    study_folder, invoke
):
    arguments = ("update", study_folder / "result", study_folder / "other.csv", "--json")
    result = invoke(*arguments)
    content = json.loads(result.stdout)
    assert (content["kept"], content["verdict"]["advice"]) == (False, "no")
    assert (result.exit_code, result.stderr) == (6, "")


# 7: see test_commands: a back-test that fails


@pytest.mark.parametrize("options", [(), ("--json",), ("--quiet",)])
def test_a_promise_that_outcomes_break_is_exit_code_7(options, study_folder, invoke):
    with (study_folder / "later.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for i, row in enumerate(rows):  # noise of 2, where the sources have 1
        row["outcome"] = float(row["age"]) + float(row["bmi"]) + (2.0 if i % 2 else -2.0)
    with (study_folder / "noisy.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    result = invoke("update", study_folder / "result", study_folder / "noisy.csv", *options)
    assert (result.exit_code, result.stderr) == (7, "")
    last = view_of(study_folder / "result").update
    assert (last.kept, last.verdict.advice) == (False, "care")


# The program itself -------------------------------------------------------------------------


def test_the_program_and_the_module_are_the_same(script):
    import fedcsa

    for module in (False, True):
        result = script("--version", module=module)
        assert (result.returncode, result.stdout) == (0, f"fedcsa {fedcsa.__version__}\n")


def test_the_program_runs_a_study_without_progress_or_colour(finished, script, tmp_path):
    study = shutil.copytree(finished(), tmp_path / "s") / "study.toml"
    result = script("run", study, "--out", tmp_path / "r")
    assert result.returncode == 0
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    assert result.stdout.startswith("! Use it with care — ")


def test_the_program_fails_with_one_line_and_its_code(script, tmp_path):
    result = script("predict", tmp_path, tmp_path / "rows.csv")
    assert (result.returncode, result.stdout) == (3, "")
    assert re.fullmatch(r"error: [^\n]+\n", result.stderr)
    assert "Traceback" not in result.stderr

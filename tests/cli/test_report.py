"""The report from the command line: who writes it, and what is said where it cannot be made."""

import json
import re
import webbrowser

import pytest


@pytest.fixture
def finished(make_study, invoke, tmp_path):
    study = make_study(tmp_path)
    assert invoke("run", study, "-o", tmp_path / "r").exit_code == 0
    return tmp_path


def html_of(folder):
    return (folder / "report.html").read_text(encoding="utf-8")


def test_run_writes_a_report_and_says_where(make_study, invoke, tmp_path):
    result = invoke("run", make_study(tmp_path), "-o", tmp_path / "r")
    assert result.stdout.splitlines()[-1] == f"Report in {tmp_path / 'r' / 'report.html'}"
    assert "Risk against the candidates" in html_of(tmp_path / "r")


def test_it_goes_where_it_is_told_and_can_be_opened(finished, invoke, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    out = finished / "elsewhere.html"
    result = invoke("report", finished / "r", "--out", out, "--open")
    assert result.exit_code == 0
    beside = f"Model card, checklists and tables in {finished / 'r'}"
    assert result.stdout == f"Report in {out}\n{beside}\n"
    assert opened == [out.as_uri()]
    assert out.read_text(encoding="utf-8") == html_of(finished / "r")


def test_json_names_the_files(finished, invoke):
    result = invoke("report", finished / "r", "--json")
    names = {
        "report": "report.html", "card": "model-card.md", "checklists": "checklists.md",
        "tables": "tables",
    }  # fmt: skip
    assert json.loads(result.stdout) == {key: str(finished / "r" / x) for key, x in names.items()}
    assert all((finished / "r" / name).exists() for name in names.values())


def test_a_back_test_and_outcomes_are_added_to_it(finished, invoke):
    assert "No back-test was run" in html_of(finished / "r")
    invoke("backtest", finished / "study.toml", "--result", finished / "r", "-q")
    assert "Each source as the target" in html_of(finished / "r")
    assert "With outcomes from here" not in html_of(finished / "r")
    result = invoke("update", finished / "r", finished / "other.csv")
    assert result.exit_code == 6
    html = html_of(finished / "r")
    assert re.search(
        r"RMSE .* with 90 outcomes; the promise was .*: (far )?worse than promised", html
    )
    assert "With outcomes from here" in html
    assert "Each source as the target" in html


def test_sites_that_all_refuse_leave_a_report(make_study, invoke, tmp_path):
    study = make_study(tmp_path, extra="[policy]\nmin_fold_rows = 1000")
    result = invoke("run", study, "-o", tmp_path / "r")
    assert result.exit_code == 4
    assert f"Report in {tmp_path / 'r' / 'report.html'}." in result.stderr
    html = html_of(tmp_path / "r")
    assert html.count(">refused: min_fold_rows<") == 3
    ledger = invoke("ledger", tmp_path / "r", "--json")
    assert [e["message"] for e in json.loads(ledger.stdout)["a"]] == ["refusal"]


def test_a_folder_in_use_does_not_hide_why_a_study_ended(make_study, invoke, tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "notes.txt").write_text("mine", encoding="utf-8")
    result = invoke("run", make_study(tmp_path, shift=30.0), "-o", tmp_path / "r")
    assert result.exit_code == 6
    assert "must resemble the target" in result.stderr
    assert "holds something other than a result" in result.stderr


def test_a_result_that_outcomes_came_to_is_not_replaced(finished, invoke):
    invoke("update", finished / "r", finished / "later.csv")
    before = html_of(finished / "r")
    assert "with 90 outcomes; " in before
    again = invoke("run", finished / "study.toml", "-o", finished / "r")
    assert again.exit_code == 3
    assert "holds follow-up lists or outcomes" in again.stderr
    assert html_of(finished / "r") == before
    assert invoke("run", finished / "study.toml", "-o", finished / "new").exit_code == 0
    assert "with 90 outcomes" not in html_of(finished / "new")

"""A study without a model leaves a result and a report, at the target and with the lead."""

import json
import re
from pathlib import Path

import pytest

from fedcsa.answer.store import load_result
from fedcsa.cli.common import Output
from fedcsa.cli.study_screen import show_end
from fedcsa.errors import ResultError
from fedcsa.messages.codec import decode, digest
from fedcsa.site.desk import Desk

pytestmark = pytest.mark.usefixtures("reports")


def told_by(federation, **options):
    return decode(federation.attempt(**options).conclusion)


def finish(told, federation, out):
    """The exit code."""
    return show_end(federation.ended(told, out), Path("kit"), Output(json=False, quiet=False))


def refuse_everywhere(federation):
    for name in ("abbey", "birch", "castle"):
        federation.configure(name, "[policy]\nmin_fold_rows = 1000")


def test_a_finished_study_has_its_report_at_both_ends(federation, tmp_path):
    told = told_by(federation)
    assert (federation.target.result_folder / "report.html").is_file()
    finish(told, federation, tmp_path / "lead")
    html = (tmp_path / "lead" / "report.html").read_text(encoding="utf-8")
    assert "Risk against the candidates" in html
    assert "This folder holds no ledger" in html


def sources_of(html):
    """The section of a report that tells of the sources."""
    [section] = re.findall(r'<section[^>]* id="sources".*?</section>', html, re.DOTALL)
    return section


def test_when_every_source_refuses_the_report_says_who_and_why(federation, tmp_path):
    refuse_everywhere(federation)
    told = told_by(federation)
    assert told.outcome == "min_sources"
    folder = federation.target.result_folder
    assert finish(told, federation, tmp_path / "lead") == 9
    for place in (folder, tmp_path / "lead"):
        html = (place / "report.html").read_text(encoding="utf-8")
        assert "Do not use it" in html
        assert sources_of(html).count("refused: min_fold_rows") == 3  # and in the checklists
        with pytest.raises(ResultError, match="ended without one"):
            load_result(place)


def test_a_site_that_keeps_its_result_tells_only_that_there_is_none(federation, tmp_path):
    refuse_everywhere(federation)
    federation.configure("new", "share_result = false")
    told = told_by(federation)
    assert len(told.summary) == 0
    whole = (federation.target.result_folder / "adaptation.json").read_bytes()
    assert told.result == digest(whole)
    assert finish(told, federation, tmp_path / "lead") == 9
    assert not (tmp_path / "lead" / "adaptation.json").exists()
    html = (tmp_path / "lead" / "report.html").read_text(encoding="utf-8")
    assert "There is no model" in html
    assert html.count("refused: min_fold_rows") == 3


def test_a_later_failure_never_replaces_a_result(federation):
    federation.absent = {("model", "abbey")}
    told_by(federation)
    before = load_result(federation.target.result_folder).target_risk
    told = told_by(federation, min_sources=3)
    assert (told.outcome, told.result, len(told.summary)) == ("min_sources", "", 0)
    assert load_result(federation.target.result_folder).target_risk == before


def test_an_older_result_of_the_lead_does_not_outlive_a_failure(federation, tmp_path):
    federation.absent = {("model", "abbey")}
    assert finish(told_by(federation), federation, tmp_path / "lead") == 0
    assert finish(told_by(federation, min_sources=3), federation, tmp_path / "lead") == 4
    assert not (tmp_path / "lead" / "adaptation.json").exists()
    plain = json.loads((tmp_path / "lead" / "federation.json").read_text(encoding="utf-8"))
    assert plain["outcome"] == "min_sources"


def test_the_ledger_of_a_site_names_the_rules_that_a_message_passed(federation):
    told_by(federation)
    rules = {item.entry.message: item.entry.rules for item in federation.log("abbey").sent}
    assert "min_fold_rows 30" in rules["risk-report"]
    assert "significant_digits 4" in rules["model-report"]
    assert "significant_digits 4" in rules["examination-report"]
    target = {item.entry.message: item.entry.rules for item in federation.log("new").sent}
    assert "min_level_rows 5" in target["brief"]
    assert target["model-request"] == ""


def test_a_result_stands_where_its_report_fails(federation, monkeypatch):
    def fail(_):
        raise KeyError("4711")

    monkeypatch.setattr("fedcsa.answer.page.write_report", fail)
    said = []
    monkeypatch.setattr(Desk, "say", lambda _, text: said.append(text))
    assert told_by(federation).outcome == "done"
    assert load_result(federation.target.result_folder).models
    assert "wrote no report: KeyError" in said

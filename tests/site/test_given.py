"""A given model between desks: the numbers of one process; sites name columns themselves."""

import json
from dataclasses import fields

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from fedcsa import ModelError, PolicyError, StudyError, convert
from fedcsa.answer.store import load_result
from fedcsa.messages.codec import decode
from fedcsa.messages.messages import ExaminationReport
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.preview import preview
from fedcsa.study.model_section import agreed_text

SOURCES = ("abbey", "birch", "castle")
FORMULA = "formula = { intercept = 0.1, terms = { age = 0.9, bmi = 1.1 } }"


@pytest.fixture
def federation(make_federation):
    made = make_federation()
    for name in (*SOURCES, "new"):  # every table has a column of predictions, under its own name
        path = made.folder / name / "table.csv"
        head, *lines = path.read_text().splitlines()
        at = [head.split(",").index(c) for c in ("age", "bmi")]
        risk = [0.1 + 0.9 * float(r[at[0]]) + 1.1 * float(r[at[1]]) for r in map(_cells, lines)]
        rows = [f"{line},{p!r}" for line, p in zip(lines, risk, strict=True)]
        path.write_text("\n".join([f"{head},SCORE_{name}", *rows]) + "\n")
    return made


def _cells(line):
    return line.split(",")


def give(federation, line):
    """A study of a given model, the same for one process and for desks."""
    text = federation.study_file.read_text()
    start, end = text.index("[model]"), text.index("[policy]")
    text = f'{text[:start]}[model]\nname = "given"\n{line}\n{text[end:]}'
    if "column" in line:
        for name in SOURCES:
            old = f'table = "{name}/table.csv"\n'
            text = text.replace(old, f'{old}predictions = "SCORE_{name}"\n')
        old = 'table = "new/table.csv"\n'
        text = text.replace(old, f'{old}predictions = "SCORE_new"\n')
        for name in (*SOURCES, "new"):
            federation.configure(name, f'[predictions]\n"vendor score" = "SCORE_{name}"')
    federation.study_file.write_text(text)
    return federation


def told(federation):
    return decode(federation.board.conclusion)


def numbers(found):
    told = [field.name for field in fields(ExaminationReport) if field.name != "in_reply_to"]
    plain = {
        name: {field: getattr(item, field) for field in told}
        for name, item in found.examinations.items()
    }
    return json.dumps(plain, default=lambda array: array.tolist()), found.promise


@pytest.mark.parametrize("line", [FORMULA, 'column = "vendor score"'], ids=["formula", "column"])
def test_between_desks_a_given_model_is_judged_as_in_one_process(federation, line):
    give(federation, line).attempt(min_sources=3)
    assert (told(federation).outcome, set(told(federation).sources.values())) == (
        "done",
        {"answered"},
    )
    found = load_result(federation.target.result_folder)
    assert numbers(found) == numbers(federation.study.run())
    for name in SOURCES:
        left = [item.entry.message for item in federation.log(name).sent]
        assert left == ["risk-report", "examination-report"]


def test_a_converted_model_is_the_targets_own_file(federation):
    X = np.random.default_rng(0).normal(size=(50, 2))
    model = LinearRegression().fit(X, X.sum(axis=1))
    convert(model, federation.folder / "model.json", ["age", "bmi"])
    give(federation, 'file = "model.json"')
    federation.study_file.write_text(agreed_text(federation.study_file))
    assert federation.attempt().step == "done"
    assert told(federation).outcome != "done", "the target's own file names no model"
    convert(
        LinearRegression().fit(X, X[:, 0]), federation.folder / "new" / "m.json", ["age", "bmi"]
    )
    federation.configure("new", 'model = "m.json"')
    federation.attempt()
    assert told(federation).outcome != "done", "its digest is another"
    convert(model, federation.folder / "new" / "m.json", ["age", "bmi"])
    federation.attempt(min_sources=3)
    assert told(federation).outcome == "done"


def test_a_site_that_names_no_column_takes_no_part(federation):
    give(federation, 'column = "vendor score"')
    federation.configure("birch", '[predictions]\n"another score" = "SCORE_birch"')
    federation.attempt()
    assert told(federation).sources["birch"] == "refused: predictions"
    agreed = AgreedStudy(federation.study_file.read_text())
    with pytest.raises(PolicyError, match="must name its column of the predictions 'vendor score'"):
        federation.site("birch").source("birch", agreed.study)
    with pytest.raises(PolicyError, match="must name its column"):
        federation.site("birch").batches(agreed.study)


def test_a_target_needs_no_column_of_its_own(federation):
    give(federation, 'column = "vendor score"')
    federation.configure("new")
    federation.attempt(min_sources=3)
    assert told(federation).outcome == "done"


def test_where_its_table_is_read_in_batches_a_source_says_the_same(federation):
    give(federation, 'column = "vendor score"').attempt(min_sources=3)
    found = load_result(federation.target.result_folder)
    for name in SOURCES:
        federation.configure(
            name, f'stream = true\nstate = "again"\n[predictions]\n"vendor score" = "SCORE_{name}"'
        )
    federation.configure("new", 'state = "again"')
    federation.attempt(min_sources=3)
    again = load_result(federation.target.result_folder)
    assert again.promise.risk == pytest.approx(found.promise.risk, rel=1e-9)


@pytest.mark.parametrize("line", [FORMULA, 'column = "vendor score"'], ids=["formula", "column"])
@pytest.mark.parametrize("name", ["abbey", "new"])
def test_a_preview_shows_what_leaves_and_that_no_model_does(federation, line, name):
    give(federation, line)
    shown = preview(agreed_text(federation.study_file), federation.site(name))
    left = [message["message"] for message in shown["messages"]]
    assert left == (
        ["brief", "examination"] if name == "new" else ["risk-report", "examination-report"]
    )
    assert shown["refusals"] == []


def test_what_the_target_lacks_is_said(federation):
    give(federation, FORMULA)
    study = federation.study
    assert federation.site("new").given(study) is not None
    file = AgreedStudy(federation.study_file.read_text().replace(FORMULA, 'sha256 = "00"')).study
    with pytest.raises(StudyError, match="this site's file names none"):
        federation.site("new").given(file)
    federation.configure("new", 'model = "none.json"')
    with pytest.raises(ModelError, match="cannot be read"):
        federation.site("new").given(file)

"""``fedcsa run --stream``: the same answer from tables that are never held."""

import csv
import json
import re

import pytest

from fedcsa import Study
from fedcsa.source.source import Source

streaming = pytest.mark.skipif(
    not hasattr(Source, "streaming"), reason="Source.streaming is not there yet"
)


def test_the_help_says_when_to_use_it(invoke):
    text = re.sub(r"[\s│]+", " ", invoke("run", "--help").stdout)
    assert "--stream" in text
    assert "fedcsa run study.toml --stream # tables larger than memory" in text


def test_every_source_is_made_from_its_batches(study_folder, invoke, monkeypatch):
    made = {}

    class Recorded(Source):
        @classmethod
        def streaming(cls, name, rows, *, policy=None, trusted_types=()):
            made[name] = (rows.columns, policy, tuple(trusted_types))
            X, y = next(iter(rows))
            return Source(
                name, X, y, features=rows.columns, policy=policy, trusted_types=trusted_types
            )

    monkeypatch.setattr("fedcsa.study.study.Source", Recorded)
    study = study_folder / "study.toml"
    held = json.loads(invoke("run", study, "--out", study_folder / "held", "--json").stdout)
    assert made == {}
    monkeypatch.setattr(Study, "read_source", None)  # nobody holds a table
    options = ("--out", study_folder / "streamed", "--json", "--stream")
    streamed = json.loads(invoke("run", study, *options).stdout)
    loaded = Study.load(study)
    expected = (loaded.coding.columns, loaded.policy(), ())
    assert made == dict.fromkeys(loaded.sources, expected)
    assert streamed == held


@streaming
def test_a_streamed_study_gives_the_same_answer(study_folder, invoke):
    study = study_folder / "study.toml"
    held = json.loads(invoke("run", study, "--out", study_folder / "held", "--json").stdout)
    options = ("--out", study_folder / "streamed", "--json", "--stream")
    result = invoke("run", study, *options)
    assert result.exit_code == 0, result.stderr
    streamed = json.loads(result.stdout)
    assert streamed["advice"] == held["advice"]
    assert streamed["risk"] == pytest.approx(held["risk"], rel=1e-9)


@streaming
def test_a_damaged_table_is_named_and_not_quoted(study_folder, invoke):
    with (study_folder / "a.csv").open("a", newline="") as file:
        csv.writer(file).writerow(["SECRET"])
    result = invoke("run", study_folder / "study.toml", "--out", study_folder / "o", "--stream")
    assert result.exit_code == 3
    assert "must have 3 cells in every row" in result.stderr
    assert "SECRET" not in result.stderr

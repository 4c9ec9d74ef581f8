"""A search in one process that was interrupted goes on where it stopped."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from fedcsa.cli import run_command
from fedcsa.cli.app import app
from fedcsa.source.source import Source
from fedcsa.study import Study
from fedcsa.study.kept_answers import KeptAnswers

pytest.importorskip("optuna")
TEXT = """
name = "small"
seed = 3
budget = { candidates = 6, rounds = 3 }
[outcome]
name = "y"
[features]
x = "number"
z = "number"
[model]
name = "ridge"
[candidates]
penalty = { low = 1e-3, high = 10, log = true }
[target]
table = "new.csv"
"""


@pytest.fixture
def study_file(tmp_path):
    rng = np.random.default_rng(1)
    text = TEXT
    for name in ("a", "b", "new"):
        rows = rng.normal(size=(60, 2))
        y = rows.sum(axis=1) + rng.normal(size=60)
        lines = [f"{p!r},{q!r},{r!r}" for (p, q), r in zip(rows.tolist(), y.tolist(), strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,z,y", *lines]) + "\n")
        text += "" if name == "new" else f'[sources.{name}]\ntable = "{name}.csv"\n'
    path = tmp_path / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


def interrupting(at):
    """A progress that is cut off like a person's Ctrl-C, at the first source of a round."""

    def progress(phase, name, state):
        if f"round {at} of" in phase and (name, state) == ("b", "started"):
            raise KeyboardInterrupt

    return progress


def test_a_run_goes_on_where_it_stopped_and_nothing_is_computed_twice(
    study_file, tmp_path, monkeypatch
):
    study, kept, measured = Study.load(study_file), tmp_path / "out" / "rounds", []
    measure = Source._report

    def counted(self, brief, in_reply_to, *search):
        measured.append((self.name, in_reply_to))
        return measure(self, brief, in_reply_to, *search)

    whole = study.run()
    monkeypatch.setattr(Source, "_report", counted)
    with pytest.raises(KeyboardInterrupt):
        study.run(kept=kept, progress=interrupting(3))
    assert len(measured) == 5  # b has not answered the third round
    found = study.run(kept=kept)
    assert len(measured) == len(set(measured)) == 6
    assert found.plan.candidates == whole.plan.candidates
    assert found.promise == whole.promise
    assert found.reports == whole.reports
    for name in "ab":
        assert [e.sha256 for e in found.ledgers[name]] == [e.sha256 for e in whole.ledgers[name]]


def test_rows_or_rules_that_have_changed_begin_anew(study_file, tmp_path):
    study, kept = Study.load(study_file), tmp_path / "rounds"
    with pytest.raises(KeyboardInterrupt):
        study.run(kept=kept, progress=interrupting(3))
    table = study_file.parent / "a.csv"
    table.write_text(table.read_text() + "0.5,0.5,9.0\n")
    assert study.run(kept=kept).reports == study.run().reports


def test_a_damaged_or_mixed_up_answer_is_computed_again(study_file, tmp_path):
    study, kept = Study.load(study_file), tmp_path / "rounds"
    study.run(kept=kept)
    cut, flipped, other, last = sorted(kept.iterdir())[:4]
    cut.write_bytes(cut.read_bytes()[:-9])
    content = bytearray(flipped.read_bytes())
    content[-9] ^= 1  # of a number: it would still be a report
    flipped.write_bytes(bytes(content))
    for path in (cut, flipped):
        assert KeptAnswers(kept).find(path.stem) is None
    other.write_bytes(last.read_bytes())
    assert study.run(kept=kept).reports == study.run().reports


def test_the_command_goes_on_in_the_same_folder_and_clears_up(study_file, tmp_path, monkeypatch):
    out = tmp_path / "out"
    measure, calls = Source._report, []

    def interrupted(self, brief, in_reply_to, *search):
        calls.append(in_reply_to)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return measure(self, brief, in_reply_to, *search)

    monkeypatch.setattr(Source, "_report", interrupted)
    # The report takes longer than the study.
    monkeypatch.setattr(run_command, "report_line", lambda *_, **__: "")
    command = ["run", str(study_file), "--out", str(out), "--json"]
    assert CliRunner().invoke(app, command).exit_code == 130
    assert len(list((out / "rounds").iterdir())) == 3
    done = CliRunner().invoke(app, command)
    assert len(calls) == 7  # the fourth, once more, and two others
    assert json.loads((out / "adaptation.json").read_text())["rounds"] == [2, 2, 2]
    assert not (out / "rounds").exists()
    assert done.exit_code in (0, 6)


def test_a_list_keeps_nothing(study_file, tmp_path):
    text = study_file.read_text().replace("{ low = 1e-3, high = 10, log = true }", "[0.1, 1.0]")
    study_file.write_text(text.replace("budget = { candidates = 6, rounds = 3 }\n", ""))
    Study.load(study_file).run(kept=tmp_path / "rounds")
    assert not (tmp_path / "rounds").exists()

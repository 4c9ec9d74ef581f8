"""The study of lying sources runs, and the lies in it are told apart."""

import csv

import pytest
from privacy import liars

SOME = ("model: sign flipped", "examination: risk times 150")


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(liars, "LIES", {name: liars.LIES[name] for name in SOME})


def test_the_quick_study_writes_a_line_a_lie(few, tmp_path):  # noqa: ARG001
    liars.main(["--quick", "--workers", "1", "--out", str(tmp_path)])
    with (tmp_path / "liars.csv").open(encoding="utf-8") as file:
        flipped, examined = csv.DictReader(file)
    assert (flipped["lie"], examined["lie"]) == SOME
    assert (flipped["dropped"], examined["dropped"]) == ("1", "0")
    assert examined["named"] == "1"
    assert examined["true farthest"] == "1"  # it moves no model
    assert (tmp_path / "liars.provenance.json").is_file()


@pytest.mark.parametrize("name", liars.FAMILIES)
def test_every_family_has_five_sources(name):
    family, _, _ = liars.FAMILIES[name]
    assert family.n_sources == 5

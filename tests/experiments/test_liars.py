"""The study of lying sources runs, and the lies in it are told apart."""

import csv

import pytest
from lib.common import RESULTS, ROOT
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


# What the page says -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results():
    path = RESULTS / "liars.csv"
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def farthest(lines, what):
    """By how much a lie moves `what` at most, in per cent."""
    return f"{100 * max(abs(float(line[f'{what} farthest']) - 1.0) for line in lines):.0f} %"


def answered(line):
    """Runs that were not refused."""
    return round(int(line["runs"]) * (1.0 - float(line["refused"])))


def test_the_figures_of_the_page_are_those_of_the_study(results):
    of = {part: [line for line in results if line["in"] == part] for part, _ in liars.LIES.values()}
    lies = [line for part in ("model", "worth", "both", "report") for line in of[part]]
    for what in ("promised", "true"):
        assert max(float(line[f"{what} moved 10 %"]) for line in lies) == 0.0
    told = [float(line["promised farthest"]) for line in of["examination"]]
    upper = max(float(line["upper farthest"]) for line in of["examination"])
    assert max(abs(float(line["true farthest"]) - 1.0) for line in of["examination"]) < 0.01
    most = {part: [farthest(of[part], what) for what in ("promised", "true")] for part in of}
    expected = [
        f"in none of {sum(map(answered, lies))} answered runs",
        "moves the promised risk by at most {}, the realised one by {};".format(*most["model"]),
        "in the rows by at most {} and {};".format(*most["worth"]),
        "besides by at most {} and {};".format(*most["both"]),
        "in the risks by at most {} and {}.".format(*most["report"]),
        f"by × {min(told):.2f} to × {max(told):.2f}, the upper end up to × {upper:.1f}",
    ]
    page = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    text = " ".join(page.split())
    for sentence in expected:
        assert sentence in text

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


def too_far(line, what):
    """Runs in which `what` moves by more than a tenth, and all that were answered."""
    answered = round(int(line["runs"]) * (1.0 - float(line["refused"])))
    return round(answered * float(line[f"{what} moved 10 %"])), answered


def worst(lines, what):
    """The lie that moves `what` by more than a tenth most often, and then farthest."""
    return max(lines, key=lambda line: (too_far(line, what), float(line[f"{what} farthest"])))


def held(line):
    """In how many runs of all that were answered the realised risk stays within a tenth."""
    moved, runs = too_far(line, "true")
    return f"{runs - moved} of {runs}"


def test_the_figures_of_the_page_are_those_of_the_study(results):
    of = {part: [line for line in results if line["in"] == part] for part, _ in liars.LIES.values()}
    told = [float(line["promised farthest"]) for line in of["examination"]]
    upper = max(float(line["upper farthest"]) for line in of["examination"])
    in_model, in_rows = (worst(of[part], "true") for part in ("model", "worth"))
    assert max(too_far(line, "promised")[0] for line in of["model"] + of["worth"]) == 0
    assert max(too_far(line, "true")[0] for line in of["both"]) == 0
    report = worst(of["report"], "true")
    assert too_far(report, "promised") == too_far(report, "true") == (1, 35)
    limits = {part: farthest(of[part], "true") for part in of}
    expected = [
        f"moves the promised risk by at most {farthest(of['model'], 'promised')},",
        f"one by less than 10 % in {held(in_model)} runs (at most {limits['model']}): where",
        f"moves the promise by at most {farthest(of['worth'], 'promised')}, and the realised risk",
        f"risk by less than 10 % in {held(in_rows)} runs (at most {limits['worth']}). With",
        f"the realised risk moves by at most {limits['both']}",
        f"10 % in one run of 35 (the realised risk by {limits['report']})",
        f"by × {min(told):.2f} to × {max(told):.2f}, the upper end up to × {upper:.1f}",
    ]
    page = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    text = " ".join(page.split())
    for sentence in expected:
        assert sentence in text

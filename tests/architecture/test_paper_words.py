"""Nothing is called the paper's that is not: every such phrase is held against what runs there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from fedcsa.cli.demo_command import METHODS
from fedcsa.models.model import LinearRegression
from fedcsa.plan import Plan

ROOT = Path(__file__).parents[2]
PHRASE = re.compile(r"\bas printed\b(?! the help)|\bverbatim\b|\bthe paper's\b", re.IGNORECASE)
#: What "the paper's …" may be without a setting behind it: something that stands in its text.
IN_ITS_TEXT = re.compile(
    r"(?:own )?(?:eq(?:uation|\.)?s? ?\(?|formulas?|text|symbols?|Θ|models|theorems|tables?|Table|"
    r"Case|cases|simulat|setting|design|penalties|claims|numbers|assumption|figures?|bound|"
    r"ridge regression|Algorithm 1|algorithm\]|algorithm$)"
)
#: The word that names the setting.
PRESET = re.compile(r"\bpreset\b", re.IGNORECASE)
#: Experiments that run all readings of the paper; the one called "as printed" is the preset.
READINGS = re.compile(r"paper_readings")
#: Pages that a script writes from results; the script's own words are looked at.
WRITTEN = ("docs/reproduction", "docs/promise.md", "docs/validation.md", "docs/tutorials")


def texts():
    """Every file of code, documentation, examples and experiments that people read."""
    found = [ROOT / "README.md"]
    for folder in ("src", "docs", "examples", "experiments", "benchmarks"):
        for kind in ("py", "md", "rst", "jinja", "toml"):
            found += sorted((ROOT / folder).rglob(f"*.{kind}"))
    kept = [path for path in found if "_build" not in path.parts and "generated" not in path.parts]
    return [p for p in kept if not p.relative_to(ROOT).as_posix().startswith(WRITTEN)]


def paragraphs(text):
    """Paragraphs, docstrings and runs of code, each as one line; cells of tables line by line."""
    for block in re.split(r"\n[ #:>*]*\n|(?m:^(?=\| ))", text):
        yield " ".join(re.sub(r"^[ #:>]+", "", line) for line in block.splitlines())


def unexplained(text, allowed):
    """Phrases that neither stand for a part of the paper's text nor name the setting behind."""
    for paragraph in paragraphs(text):
        for found in PHRASE.finditer(paragraph):
            after = paragraph[found.end() :].lstrip(' "*[`')
            of_the_text = found[0].lower() == "the paper's" and IN_ITS_TEXT.match(after)
            of_an_equation = re.search(r"\(\d\d\) $", paragraph[: found.start()])
            if not (of_the_text or of_an_equation or allowed.search(paragraph)):
                yield paragraph[max(0, found.start() - 60) : found.end() + 60]


def test_what_is_called_the_papers_is_in_its_text_or_runs_with_the_preset():
    found = {}
    for path in texts():
        text = path.read_text(encoding="utf-8")
        if path.name.startswith("paper_") or READINGS.search(text):
            continue  # its reading "as printed" is looked at below
        found[path.relative_to(ROOT).as_posix()] = list(unexplained(text, PRESET))
    assert len(found) > 300
    assert {place: phrases for place, phrases in found.items() if phrases} == {}


@pytest.mark.parametrize(
    "claim",
    [
        "The paper's method gives 99 % to Elm.",
        "feddae, as printed",
        "Here are the paper's own weights.",
        "It is the algorithm verbatim.",
        "the paper's exchange",
    ],
)
def test_a_claim_without_the_preset_is_found(claim):
    assert list(unexplained(claim, PRESET))
    assert not list(unexplained(f"{claim} It runs with preset paper.", PRESET))


def test_a_part_of_the_text_needs_no_setting():
    said = "the paper's eq. (07), the paper's Table 1, the paper's formulas, (13) as printed"
    assert not list(unexplained(said, PRESET))


# The settings behind ------------------------------------------------------------------------------


def test_every_method_of_the_demo_but_the_default_runs_with_the_preset():
    assert METHODS["validated"] == {}
    assert {options["preset"] for name, options in METHODS.items() if name != "validated"} == {
        "paper"
    }


def test_examples_that_name_the_preset_run_with_it():
    for path in sorted((ROOT / "examples").rglob("*.py")):
        for title, call in re.findall(
            r'"([^"]*preset paper[^"]*)": (FedCSA\([^)]*\))', path.read_text()
        ):
            assert 'preset="paper"' in call, title


def test_the_reading_as_printed_of_the_experiments_is_the_preset(monkeypatch):
    """Their arithmetic is compared with the package's in tests/experiments."""
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    readings = importlib.import_module("lib.paper_readings")
    mine = readings.AS_PRINTED
    plan = Plan(("x",), {"name": "ridge"}, ({"penalty": 0.0},), preset="paper")
    assert readings.FOLDS[mine["folds"]] == pytest.approx(plan.design()["shares"])
    assert (mine["bandwidth"], "bandwidths" in plan.ratio) == ("grid", False)  # the package's own
    assert readings.INTERCEPTS[mine["intercept"]] is LinearRegression().intercept is True
    assert mine["penalty"] == LinearRegression().penalty_scale == "mean"
    assert readings.FLAT[mine["flat_ratio"]] == 0.0

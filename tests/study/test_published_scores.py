"""The scores on the page about given models are those that were published."""

import re
from math import exp, log
from pathlib import Path

import numpy as np
import pytest

from fedcsa.study.formula_file import parse_formula

PAGE = Path(__file__).parents[2] / "docs" / "given-models.md"
BLOCKS = re.findall(r"```toml\n(title.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
SCORES = {f.title: f for f in (parse_formula(text, "page") for text in BLOCKS)}


def risk_of(title, **row):
    formula = SCORES[title]
    columns = list(dict.fromkeys(term.column for term in formula.terms))
    known = {key.replace("female", "sex=F"): value for key, value in row.items()}
    assert set(known) <= set(columns)
    X = np.array([[float(known.get(column, 0.0)) for column in columns]])
    return formula.model(columns, 2).predict(X)[0, 1]


def test_the_page_has_three_scores_with_their_sources():
    assert list(SCORES) == ["Mayo Clinic model", "SAPS II", "CHA2DS2-VASc"]
    assert all(re.search(r"\b(19|20)\d\d;", formula.source) for formula in SCORES.values())


def test_a_nodule_of_a_smoker():
    odds = -6.8272 + 0.0391 * 65 + 0.7917 + 0.1274 * 20 + 1.0407
    found = risk_of("Mayo Clinic model", age=65, smoker=1, diameter=20, spiculation=1)
    assert found == pytest.approx(1.0 / (1.0 + exp(-odds)), rel=1e-12)


@pytest.mark.parametrize(("saps", "percent"), [(29, 9.7), (40, 24.7), (52, 50.7), (64, 75.3)])
def test_saps_gives_the_mortality_of_its_table(saps, percent):
    odds = -7.7631 + 0.0737 * saps + 0.9971 * log(saps + 1)
    assert risk_of("SAPS II", saps=saps) == pytest.approx(1.0 / (1.0 + exp(-odds)), rel=1e-12)
    assert 100.0 * risk_of("SAPS II", saps=saps) == pytest.approx(percent, abs=0.06)


@pytest.mark.parametrize(
    ("row", "total"),
    [
        ({"age": 64.9}, 0),
        ({"age": 65}, 1),
        ({"age": 75, "female": 1}, 3),
        ({"age": 50, "stroke": 1, "vascular": 1}, 3),
        (
            dict.fromkeys(
                ["heart_failure", "hypertension", "diabetes", "stroke", "vascular", "female"], 1
            )
            | {"age": 90},
            9,
        ),
    ],
    ids=range(5),
)
def test_points_are_added_and_looked_up(row, total):
    risks = (0.2, 0.6, 2.2, 3.2, 4.8, 7.2, 9.7, 11.2, 10.8, 12.2)
    assert 100.0 * risk_of("CHA2DS2-VASc", **row) == pytest.approx(risks[total], rel=1e-9)

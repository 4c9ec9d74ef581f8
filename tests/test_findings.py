"""Findings travel as codes and numbers; the words come from the table."""

import dataclasses

import numpy as np
import pytest

from fedcsa.errors import MessageError
from fedcsa.findings import CATALOGUE, Finding, left_out
from fedcsa.words import number


@pytest.mark.parametrize("code", CATALOGUE)
def test_every_code_has_a_severity_a_meaning_and_advice(code):
    severity, meaning, advice = CATALOGUE[code]
    assert severity in ("note", "warning", "danger")
    finding = Finding(code)
    assert (finding.severity, finding.advice) == (severity, advice)
    assert str(finding) == f"{code}: {meaning}; {advice}"
    assert code == code.lower()
    assert " " not in code


def test_a_finding_shows_its_source_and_evidence():
    finding = Finding("imbalance", "north", {"feature": "age", "difference": 0.123456, "rows": 7})
    _, meaning, advice = CATALOGUE["imbalance"]
    assert str(finding) == (
        f"imbalance at source 'north': {meaning} (feature age, difference 0.123, rows 7); {advice}"
    )


def test_a_numpy_number_is_shown_like_a_float():
    assert "(value 0.333)" in str(Finding("grid-edge", evidence={"value": np.float64(1 / 3)}))


@pytest.mark.parametrize(
    ("value", "shown"),
    [(999.4, "999"), (999.6, "1000"), (-12345.6, "-12346"), (9999999.4, "9999999"), (1e7, "1e+07")],
)
def test_a_number_keeps_all_its_digits_before_the_point(value, shown):
    assert number(value) == shown


def test_a_source_with_hardly_any_weight_was_left_out():
    assert left_out({"a": 0.5, "b": 0.4899, "c": 0.0101}) == ()
    assert left_out({"a": 0.5, "b": 0.4901, "c": 0.0099}) == ("c",)
    assert left_out({}) == ()


def test_among_many_sources_an_equal_share_is_not_left_out():
    assert left_out({str(index): 1 / 200 for index in range(200)}) == ()


@pytest.mark.parametrize("code", ["", "everything-fine", "No-Overlap", "no overlap"])
def test_an_unknown_code_is_refused(code):
    with pytest.raises(MessageError, match=f"must have a known code; '{code}' is not one"):
        Finding(code)


def test_a_long_code_from_elsewhere_is_cut():
    with pytest.raises(MessageError, match="known code") as caught:
        Finding("x" * 10_000)
    assert len(str(caught.value)) < 120


def test_a_finding_cannot_be_changed_and_does_not_share_its_evidence():
    first, second = Finding("no-overlap"), Finding("no-overlap")
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'code'"):
        first.code = "imbalance"
    assert first == second
    assert first.evidence is not second.evidence

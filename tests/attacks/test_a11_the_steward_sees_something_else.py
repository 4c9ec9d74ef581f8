"""A11: the person who approves is shown something else than what leaves.

Before, three fields computed from the site's rows were described "as agreed in the study", of a
packed model only its bytes were shown, and at 80 columns a ledger had no recipients. Now every
field says what it is computed from, and the fields are asked: whatever changes with the rows or
with the outcomes must say so.
"""

import dataclasses

import numpy as np
import pytest
from click.testing import CliRunner

from fedcsa.cli.app import app
from fedcsa.messages.codec import digest_of
from fedcsa.messages.messages import Examination, ModelRequest
from fedcsa.messages.policy import Policy, entries_of
from fedcsa.plan import make_plan
from fedcsa.site.meanings import meaning_of
from fedcsa.source.source import Source
from fedcsa.target.target import Target

FEATURES = ("age", "pressure", "dose")


def rows(seed):
    return np.random.default_rng(seed).normal(size=(200, 3))


def outcomes(seed):
    return rows(1).sum(axis=1) + np.random.default_rng(seed).normal(size=200)


PLAN = make_plan("ridge", [0.01, 0.1], {"seed": 1}, features=FEATURES, study="a11")


def answers(X, y, told=None):
    """What leaves a source: every line of its ledger with its hash, and the target's brief."""
    brief = Target(rows(9) if told is None else told, PLAN, policy=Policy.open()).brief(["a"])
    source = Source("a", X, y, features=FEATURES, policy=Policy.open())
    asked = digest_of(brief)
    mixture = Examination(
        study="a11", brief=asked, candidate=0, combine="mean", own_weight=0.0,
        weights=np.ones(1), forms=({"kind": "linear", "link": "identity"},),
        arrays={"0.coefficients": np.ones(3), "0.intercept": np.zeros(1)},
        constant=np.array([0.1]), again=False,
    )  # fmt: skip
    left = [brief, *map(source.answer, (brief, ModelRequest("a11", asked, 0), mixture))]
    return {
        (message.name, item.name): item.sha256
        for message in left
        for entry in entries_of(message, "a", ["b"])
        for item in entry.fields
        if item.name != "in_reply_to"  # a hash of the question
    }


def changed(one, other):
    assert set(one) == set(other)
    return {key for key in one if one[key] != other[key]}


BEFORE = answers(rows(1), outcomes(2))


def test_whatever_changes_with_the_outcomes_says_that_it_comes_from_them():
    found = changed(BEFORE, answers(rows(1), outcomes(3)))
    assert {name for name, _ in found} == {"risk-report", "model-report", "examination-report"}
    for key in found:
        assert "outcomes here" in meaning_of(*key).computed_from, key


@pytest.mark.parametrize("n_rows", [200, 150])
def test_whatever_changes_with_the_rows_says_that_it_comes_from_them(n_rows):
    found = changed(BEFORE, answers(rows(4)[:n_rows], outcomes(2)[:n_rows]))
    assert len(found) > 10
    for key in found:
        origin = meaning_of(*key).computed_from
        assert "rows here" in origin or "rows and outcomes here" in origin, key


def test_whatever_changes_with_the_targets_rows_says_so_at_either_site():
    found = changed(BEFORE, answers(rows(1), outcomes(2), 2.0 * rows(8)[:100] + 0.2))
    assert {"n_rows", "mean", "sd"} <= {field for name, field in found if name == "brief"}
    for name, field in found:
        origin = meaning_of(name, field).computed_from
        assert ("rows here" if name == "brief" else "target's table") in origin, (name, field)


@pytest.mark.parametrize("columns", ["80", "120"])
def test_recipients_arrays_and_attacks_are_to_be_seen_on_a_narrow_screen(federation, columns):
    federation.attempt()
    look = {"NO_COLOR": "1", "COLUMNS": columns}

    def call(*words):
        return CliRunner().invoke(app, list(map(str, words)), env=look).stdout

    told = call("ledger", federation.folder / "new" / "site.toml")
    for line in federation.log("new").sent:
        assert any(
            line.entry.message in row and line.entry.recipient in row for row in told.splitlines()
        )
    assert max(map(len, told.splitlines())) <= int(columns)
    site = federation.folder / "abbey" / "site.toml"
    for shown in (
        call("site", "preview", federation.study_file, "--data", site),
        call("ledger", site, "--fields"),
    ):
        assert "model-report to " in shown
        assert "arrays.coefficients" in shown
        assert "with an AUC of" in shown


def test_a_model_without_a_certificate_in_the_log_does_not_leave(federation):
    """The record is written before the answer is; a model that reaches more is refused by name."""
    federation.configure("abbey", "[policy]\nmax_membership_auc = 0.5")
    federation.attempt(min_sources=2)
    log = federation.log("abbey")
    assert "model-report" not in {line.entry.message for line in log.sent}
    for name in ("birch", "castle"):
        log = federation.log(name)
        [model] = [x.entry.sha256 for x in log.sent if x.entry.message == "model-report"]
        events = [event["event"] for event in log.events]
        assert log.find("certified", sha256=model)["certificate"]["reference"]["auc"] <= 0.6
        assert events.index("certified") < events.index("answered", events.index("accepted") + 2)


def test_the_record_holds_no_number_of_a_single_row():
    source = Source("a", rows(1), outcomes(2), features=FEATURES, policy=Policy(max_briefs=None))
    brief = Target(rows(9), PLAN, policy=Policy.open()).brief(["a"])
    source.answer(brief)
    source.answer(ModelRequest("a11", digest_of(brief), 0))
    told = dataclasses.asdict(source.certificate)
    assert set(told) == {
        "loss", "reference", "n_rows", "outcome_share", "parameters_per_row", "smallest_leaf",
        "own_values",
    }  # fmt: skip
    assert len(repr(source.certificate)) < 500

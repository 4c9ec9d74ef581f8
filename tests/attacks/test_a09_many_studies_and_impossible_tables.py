"""A9: a target asks thirty times for nearly the same thing, or for what cannot be.

Thirty studies that differed by a thousandth were all answered, because each had another name, and
so were briefs that no rows can have. Now a source counts the briefs of one target, refused ones
too, over all names and restarts, and five are answered in a quarter of a year.
"""

import dataclasses
from datetime import timedelta

import numpy as np
import pytest

from fedcsa.messages.codec import encode
from fedcsa.messages.messages import RiskReport
from fedcsa.messages.policy import Policy, utc_now
from fedcsa.target.target import Target

ASKED, ALLOWED = 30, 5
NUMBERS = {"age": "{ sd = 10.0 }", "bmi": "{ sd = 4.0 }"}


@pytest.fixture
def source(make_site):
    rng = np.random.default_rng(1)
    X = rng.normal([60.0, 26.0], [10.0, 4.0], (300, 2))
    site = make_site()
    site.write(X, ["age", "bmi"], outcome=X @ [0.1, 0.2] + rng.normal(size=300))
    return site


def honest(agreed, shift=0.0):
    """A brief that is rounded as agreed."""
    X = np.random.default_rng(2).normal([60.0 + shift, 26.0], [10.0, 4.0], (100, 2))
    return Target(X, agreed.study.plan(), policy=Policy.open()).brief(["abbey"])


def ask_all(source, shifts, of=lambda _: "new"):
    """What becomes of many studies, each with a name of its own and after a restart."""
    fates = []
    for k, shift in enumerate(shifts):
        agreed = source.study(f"study {k}", NUMBERS)
        answer = source.answer(agreed, honest(agreed, shift), target=of(k))
        fates.append("answered" if isinstance(answer, RiskReport) else answer.rule)
    return fates


def test_of_thirty_studies_that_differ_by_a_thousandth_five_are_answered(source):
    fates = ask_all(source, 0.1 * np.arange(ASKED))  # steps of a hundredth of an sd
    assert fates == ["answered"] * ALLOWED + ["max_briefs"] * (ASKED - ALLOWED)


def test_the_very_same_brief_counts_under_every_name(source):
    fates = ask_all(source, np.zeros(7))
    assert fates == ["answered"] * ALLOWED + ["max_briefs"] * 2


def test_a_refusal_is_an_answer_and_counts(source):
    """Where it begins tells the source's sd; its name tells no more than that a floor holds."""
    source.configure("[policy]\nmin_sd_share = 50.0")
    fates = ask_all(source, np.zeros(7))
    assert fates == ["row_floors"] * ALLOWED + ["max_briefs"] * 2


def test_another_target_is_counted_for_itself(source):
    fates = ask_all(source, np.zeros(8), of=lambda k: ("new", "other")[k % 2])
    assert fates == ["answered"] * 8


@pytest.mark.parametrize(("days", "fate"), [(89, "max_briefs"), (91, "answered")])
def test_after_the_period_a_target_may_ask_again(source, days, fate):
    ask_all(source, np.zeros(ALLOWED))
    source.clock = lambda: utc_now() + timedelta(days=days)
    agreed = source.study("much later", NUMBERS)
    answer = source.answer(agreed, honest(agreed))
    assert getattr(answer, "rule", "answered") == fate


# Impossible tables ---------------------------------------------------------------------------

FLAGS = {"smoker": '"flag"', "stage": '["I", "II", "III"]'}
#: What cannot be -> the columns of the study, and the change of an honest brief.
IMPOSSIBLE = {
    "a share above 1": (FLAGS, {"mean": np.array([1.2, 0.3, 0.3])}),
    "a share below 0": (FLAGS, {"mean": np.array([-0.1, 0.3, 0.3])}),
    "levels above 1 together": (FLAGS, {"mean": np.array([0.5, 0.7, 0.7])}),
    "an sd that contradicts its share": (FLAGS, {"sd": np.array([0.05, 0.5, 0.5])}),
    "an sd of 0": (NUMBERS, {"sd": np.array([0.0, 4.0])}),
    "a negative sd": (NUMBERS, {"sd": np.array([-10.0, 4.0])}),
    "an sd below the public floor": (NUMBERS, {"sd": np.array([2.9, 4.0])}),
    "a correlation above 1": (NUMBERS, {"correlations": np.array([[1.0, 1.4], [1.4, 1.0]])}),
    "correlations that are not positive definite": (
        {**NUMBERS, "sbp": "{ sd = 20.0 }"},
        {"correlations": np.array([[1.0, 0.9, 0.9], [0.9, 1.0, -0.9], [0.9, -0.9, 1.0]])},
    ),
    "correlations that differ on both sides": (
        NUMBERS, {"correlations": np.array([[1.0, 0.4], [0.1, 1.0]])},
    ),
    "more digits than a table has": (NUMBERS, {"mean": np.array([60.01234567, 26.0])}),
    "rows that are not in tens": (NUMBERS, {"n_rows": 101}),
    "one row": (NUMBERS, {"n_rows": 1}),
}  # fmt: skip


def forged(brief, changes):
    """A brief that was not checked when it was made."""
    lie = object.__new__(type(brief))
    for item in dataclasses.fields(brief):
        object.__setattr__(lie, item.name, changes.get(item.name, getattr(brief, item.name)))
    return encode(lie)


def brief_on(site, agreed):
    """An honest brief of a third of the rows."""
    rows = site.file.read_target(agreed.study)[:100]
    return Target(rows, agreed.study.plan(), policy=Policy.open()).brief(["abbey"])


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_a_table_that_cannot_be_is_not_answered(make_site, what):
    features, changes = IMPOSSIBLE[what]
    rng, site = np.random.default_rng(1), make_site()
    stage, smoker = rng.choice(["I", "II", "III"], 300), rng.integers(0, 2, 300)
    X = rng.normal([60.0, 26.0, 120.0], [10.0, 4.0, 20.0], (300, 3))
    names = ["age", "bmi", "sbp"]
    site.write(X, names, stage=stage, smoker=smoker, outcome=rng.normal(size=300))
    agreed, again = site.study("one", features), site.study("two", features)
    assert isinstance(site.answer(agreed, brief_on(site, agreed)), RiskReport)  # the honest one is
    answer = site.answer(again, forged(brief_on(site, again), changes))
    assert answer.rule in ("malformed", "not_as_agreed")
    assert not site.log.all("accepted", study="two", target="new", phase="risk")
    assert not site.log.all("answered", study="two", target="new", phase="risk")

"""The verdict stands on three legs: every one once passed and once failed, with its sentence."""

import dataclasses
import math
import re

import numpy as np
import pytest

from fedcsa.messages.messages import ExaminationReport
from fedcsa.plan import Plan
from fedcsa.target.backtest_result import Backtest
from fedcsa.target.verdict import Promise, promise_of, verdict_of

GOOD = Promise(
    risk=0.2, lower=0.15, upper=0.27, level=0.95, between_sites=0.05, ratio=0.6, skill=0.99,
    differs_risk=0.1, differs_level=0.05, power=0.8,
    examined_by=("a", "b", "c"),
)  # fmt: skip


def legs(n_reaching=3, n_target_rows=100, **changed):
    found = verdict_of(dataclasses.replace(GOOD, **changed), n_reaching, n_target_rows).legs
    assert [leg.name for leg in found] == ["reach", "agreement", "skill"]
    return {leg.name: leg for leg in found}


def verdict(n_reaching=3, n_target_rows=100, **changed):
    return verdict_of(dataclasses.replace(GOOD, **changed), n_reaching, n_target_rows)


# Legs ---------------------------------------------------------------------------------------

PASSED = {
    "reach": ({}, "3 sources reach the target"),
    "agreement": ({}, r"sites agree \(probability that they differ much: 0.1\)"),
    "skill": ({}, r"better than a constant at a new site with probability 0.99 \(risk 0.6 of"),
}
FAILED = [
    ("reach", {"n_reaching": 2}, "2 sources reach the target; it takes 3 to see how sites differ"),
    ("reach", {"n_reaching": 1}, "1 source reaches the target; it takes 3"),
    ("reach", {"n_reaching": 0}, "0 sources reach the target; it takes 3"),
    ("reach", {"n_target_rows": 40}, "the target has 40 rows, fewer than 50"),
    ("agreement", {"differs_risk": 0.5}, r"probably differ in their risk.*\(probability 0.5\)"),
    ("agreement", {"differs_level": 0.7}, r"differ in their level of outcomes.*\(probability 0.7"),
    ("agreement", {"examined_by": ("a",)}, "one site cannot show whether sites differ"),
    ("skill", {"skill": 0.89}, "better than a constant at a new site with probability 0.89"),
]


@pytest.mark.parametrize("name", PASSED)
def test_a_leg_that_holds_says_why_and_asks_for_nothing(name):
    changed, sentence = PASSED[name]
    leg = legs(**changed)[name]
    assert leg.passed
    assert leg.advice == ""
    assert leg.value is not None
    assert_matches(sentence, leg.sentence)


def assert_matches(pattern, text):
    assert re.search(pattern, text), text


@pytest.mark.parametrize(("name", "changed", "sentence"), FAILED, ids=str)
def test_a_leg_that_fails_says_why_and_what_to_do(name, changed, sentence):
    found = legs(**changed)
    assert [leg.name for leg in found.values() if not leg.passed] == [name]
    assert_matches(sentence, found[name].sentence)
    assert found[name].advice
    answer = verdict(**changed)
    assert (answer.advice, answer.words) == ("care", "use it with care")
    assert answer.sentence == found[name].sentence


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("reach", {"n_reaching": 3, "n_target_rows": 50}),
        ("agreement", {"differs_risk": 0.49, "differs_level": 0.49}),
        ("agreement", {"examined_by": ("a", "b")}),
        ("skill", {"skill": 0.9}),
    ],
    ids=str,
)
def test_a_leg_holds_up_to_its_bar(name, changed):
    assert legs(**changed)[name].passed


def test_a_low_power_to_see_that_sites_differ_is_said():
    assert "a difference would show" not in legs(power=0.5)["agreement"].sentence
    told = legs(power=0.31)["agreement"]
    assert told.passed
    assert "with so few rows, a difference would show in only 31 % of studies" in told.sentence


@pytest.mark.parametrize(
    ("scale", "told"), [("loss", "risk 0.25"), ("sum", "risk 0.25"), ("root", "RMSE 0.5")]
)
def test_the_skill_leg_tells_the_scale_of_the_report(scale, told):
    promise = dataclasses.replace(GOOD, ratio=0.25)
    skill = verdict_of(promise, 3, 100, scale).legs[2]
    assert skill.sentence.endswith(f"({told} of the constant's)")


def test_without_a_promise_only_reach_can_hold():
    answer = verdict_of(None, 3, 100)
    assert [leg.passed for leg in answer.legs] == [True, False, False]
    assert {leg.sentence for leg in answer.legs[1:]} == {"nobody could examine the model"}
    assert answer.advice == "care"
    assert "nobody could examine the model" in answer.sentence


# The verdict --------------------------------------------------------------------------------


def test_all_three_legs_carry_a_model():
    answer = verdict()
    assert (answer.advice, answer.words) == ("use", "use it")
    assert answer.sentence == "the sources reach the target, agree, and beat a constant"


@pytest.mark.parametrize(("ratio", "advice"), [(0.999, "use"), (1.0, "no"), (1.4, "no")])
def test_no_better_than_a_constant_is_no_use(ratio, advice):
    answer = verdict(ratio=ratio)
    assert answer.advice == advice
    if advice == "no":
        assert answer.words == "do not use it"
        assert answer.sentence == "it is no better than a constant prediction"


def test_every_failed_leg_is_named():
    answer = verdict(n_reaching=2, differs_risk=0.6, skill=0.5)
    for part in ("2 sources reach", "probably differ", "better than a constant"):
        assert part in answer.sentence


def trio(make):
    return [make.source(name, make.rows(150, i)) for i, name in enumerate("abc")]


def test_a_refused_study_is_not_to_be_used(make):
    far = [make.source(n, make.rows(60, i, shift=30.0)) for i, n in enumerate("abc")]
    adaptation = make.study(make.plan(on_no_overlap="predict"), far, n=60)
    assert adaptation.refused
    assert adaptation.verdict.words == "do not use it"
    assert adaptation.verdict.sentence == "no source resembles the target"
    assert (adaptation.promise, adaptation.interval) == (None, None)


def test_sites_that_differ_fail_the_agreement(make):
    data = [make.rows(200, i) for i in range(6)]
    sources = [
        make.source(name, (X, y + 3.0 * (-1) ** i))
        for i, (name, (X, y)) in enumerate(zip("abcdef", data, strict=True))
    ]
    adaptation = make.study(sources=sources, n=60)
    failed = [leg.name for leg in adaptation.verdict.legs if not leg.passed]
    assert "agreement" in failed
    assert adaptation.status != "use it"


def test_outcomes_without_signal_fail_the_skill(make):
    rng = np.random.default_rng(4)
    sources = [
        make.source(name, (make.rows(150, i)[0], rng.normal(size=150)))
        for i, name in enumerate("abc")
    ]
    adaptation = make.study(sources=sources, n=60)
    legs = {leg.name: leg.passed for leg in adaptation.verdict.legs}
    assert legs["reach"]
    assert not legs["skill"]


def test_a_back_test_that_failed_lowers_the_verdict(make):
    adaptation = make.study(sources=trio(make), n=60)
    assert adaptation.status == "use it"

    class Failed(Backtest):
        verdict, reason = "failed", "2 of 3 promises were broken"

    lowered = adaptation.with_backtest(Failed(rows=(), level=0.95))
    assert lowered.status == "do not use it"
    assert lowered.verdict.sentence == "the back-test failed: 2 of 3 promises were broken"
    assert lowered.verdict.legs == adaptation.verdict.legs


# The numbers --------------------------------------------------------------------------------


def report(name, risk=0.3, **changed):
    values = {
        "risk": risk, "risk_variance": 0.01, "explained": 0.5, "constant_risk": 0.5,
        "ratio_variance": 0.01, "level": np.zeros(1), "level_variance": np.full(1, 0.01),
        "member_risk": np.empty(0), "member_variance": np.empty(0),
    }  # fmt: skip
    return ExaminationReport("study", name, "0" * 64, "", **{**values, **changed})


def promise(found, weights=None, n_target_rows=100, n_classes=0, **design):
    plan = Plan(("x",), {"name": "ridge"}, ({},), classes=tuple(range(n_classes)), **design)
    given = weights or dict.fromkeys("abc", 1 / 3)
    return promise_of({item.source: item for item in found}, given, plan, n_target_rows)


def test_equal_sources_promise_what_they_found():
    found = promise([report(name) for name in "abc"])
    assert found.risk == pytest.approx(0.3)
    assert found.lower * found.upper == pytest.approx(0.3**2)  # symmetric on the log scale
    assert found.ratio == pytest.approx(0.6)
    assert found.examined_by == ("a", "b", "c")


def test_who_could_not_examine_has_no_part():
    reasons = dataclasses.replace(
        report("c"), reason="outcomes_alike", level=np.empty(0), level_variance=np.empty(0)
    )
    found = promise([report("a"), report("b", 0.4), reasons])
    assert found == promise([report("a"), report("b", 0.4)])
    assert promise([reasons]) is None
    assert promise([]) is None


@pytest.mark.parametrize("loss", ["brier", "zero-one"])
def test_a_loss_of_at_most_one_is_promised_at_most_one(loss):
    found = [report(name, risk=0.95, constant_risk=0.97) for name in "abc"]
    bounded = promise(found, loss=loss, n_classes=2)
    assert bounded.lower < bounded.risk < bounded.upper == 1.0
    assert promise(found, loss="log", n_classes=2).upper > 1.0


def test_a_wider_level_and_a_smaller_target_widen_the_interval():
    found = [report(name) for name in "abc"]
    widths = [
        math.log(p.upper / p.lower)
        for p in (promise(found), promise(found, level=0.99), promise(found, n_target_rows=5))
    ]
    assert widths[0] < widths[1]
    assert widths[0] < widths[2]


def test_who_sent_no_model_examines_with_the_same_right():
    found = [report("a"), report("b", 0.4), report("c", 0.5)]
    silent = promise(found, {"a": 0.5, "b": 0.5})
    assert silent.examined_by == ("a", "b", "c")
    assert promise(found, {}).risk == pytest.approx(silent.risk, rel=0.02)


@pytest.mark.parametrize(("n_classes", "levels"), [(0, 1), (2, 1), (3, 3)])
def test_the_level_that_differs_most_counts(n_classes, levels):
    found = [
        report(
            name,
            level=np.array([value] + [0.0] * (levels - 1)),
            level_variance=np.full(levels, 1e-4),
        )
        for name, value in zip("abc", (-1.0, 0.0, 1.0), strict=True)
    ]
    differing = promise(found, n_classes=n_classes)
    assert differing.differs_level > 0.9
    assert differing.differs_risk < 0.5

"""A search: rounds of candidates from a space, a grid being the case of one round."""

import dataclasses
import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import Lasso, Ridge
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeRegressor

from fedcsa import FedCSA
from fedcsa.errors import (
    MessageError,
    MissingExtraError,
    NoSourcesError,
    ParameterError,
    ProtocolError,
)
from fedcsa.messages.codec import decode, encode
from fedcsa.messages.messages import Examination, ModelRequest, MoreCandidates, Refusal
from fedcsa.messages.policy import Policy
from fedcsa.models.space import at_edges, described_space, is_inside, is_space
from fedcsa.plan import make_plan
from fedcsa.run import MOST_ROUNDS, InProcess, TargetTurn, carry_messages, run_study
from fedcsa.source.source import Source
from fedcsa.target.search import PER_CANDIDATE, Search, joined, numbers_told
from fedcsa.target.target import Target

optuna = pytest.importorskip("optuna")
SPACE = {"penalty": {"low": 1e-4, "high": 1, "log": True}, "ratio_power": [0.0, 0.5, 1.0]}
UNION = [
    {"kind": ["a"], "C": {"low": 0.1, "high": 10.0, "log": True}},
    {"kind": ["b", "c"], "depth": {"low": 2, "high": 9}, "rate": stats.gamma(2.0, scale=0.1)},
    {"leaf": {"low": 10, "high": 50, "step": 10}, "share": optuna.distributions.FloatDistribution(
        0.25, 1.0, step=0.25), "how": optuna.distributions.CategoricalDistribution(["x", None])},
    {"n": stats.randint(1, 5), "power": optuna.distributions.IntDistribution(1, 64, log=True)},
]  # fmt: skip


def drawn(space, seed=0, how="tpe", budget=12, rounds=3, own=None, risk=None):
    """All candidates of a search, round by round, with risks that depend on them alone."""
    found = Search(
        described_space(space), "sklearn", how, seed, {"candidates": budget, "rounds": rounds}, own
    )
    risk, rounds_found, risks = risk or (lambda c: len(repr(c)) % 7), [], []
    while batch := found.ask(risks):
        rounds_found.append(batch)
        risks += [risk(candidate) for candidate in batch]
    return rounds_found


# A space ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["tpe", "random"])
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 2**40), budget=st.integers(1, 25), rounds=st.integers(1, 5))
def test_every_candidate_lies_in_the_space_and_the_budget_is_never_passed(
    how, seed, budget, rounds
):
    space, found = described_space(UNION), drawn(UNION, seed, how, budget, rounds)
    every = [candidate for batch in found for candidate in batch]
    assert all(is_inside(candidate, space) for candidate in every)
    assert len(every) == budget
    assert len(found) == min(rounds, budget)
    assert all(every.count(candidate) == 1 for candidate in every)


def test_a_candidate_of_a_union_is_of_one_branch():
    names = {frozenset(branch) for branch in UNION}
    assert {frozenset(c) for batch in drawn(UNION, budget=40) for c in batch} == names


def test_the_same_seed_and_risks_give_the_same_rounds():
    assert drawn(UNION, 3) == drawn(UNION, 3) != drawn(UNION, 4)
    first, second = drawn(UNION, 3), drawn(UNION, 3, risk=lambda c: -len(repr(c)))
    assert first[0] == second[0]
    assert first != second  # later rounds learn from the risks


def test_a_function_of_a_trial_is_a_space():
    def space(trial):
        kind = trial.suggest_categorical("kind", ["flat", "deep"])
        return {"kind": kind, **({"depth": trial.suggest_int("d", 1, 9)} if kind == "deep" else {})}

    found = [c for batch in drawn(space, own=space, budget=6) for c in batch]
    assert all(("depth" in c) == (c["kind"] == "deep") for c in found)
    asked = lambda trial: trial.suggest_float("C", 0.0, 1.0) and None  # noqa: E731
    assert [set(c) for c in drawn(asked, own=asked, budget=2, rounds=1)[0]] == [{"C"}, {"C"}]
    with pytest.raises(ParameterError, match="must return a candidate"):
        drawn(int, own=lambda _: 3)
    with pytest.raises(ParameterError, match="only be searched in Python"):
        drawn(asked)


def test_a_condition_may_choose_another_estimator():
    """Its description is made once: it is inside the space, and can be fitted."""
    X = np.random.default_rng(6).normal(size=(120, 2))
    hospitals = {"a": (X[:60], X[:60, 0]), "b": (X[60:], X[60:, 0])}
    space = [
        {"model": [Ridge()], "model__alpha": stats.loguniform(1e-3, 10.0)},
        {"model": [DecisionTreeRegressor()], "model__max_depth": {"low": 2, "high": 4}},
    ]
    pipeline = Pipeline([("model", Ridge())])
    for candidates in (
        space,
        {"model": [Ridge(), Lasso()], "model__alpha": {"low": 0.1, "high": 1.0}},
    ):
        found = FedCSA(pipeline, candidates, budget=6, random_state=0).fit(hospitals, X).adaptation_
        assert all(is_inside(candidate, found.plan.space) for candidate in found.plan.candidates)
        assert not any(report.failed for report in found.reports.values())
        assert len({str(candidate["model"]) for candidate in found.plan.candidates}) == 2


def test_a_space_of_few_candidates_is_used_up():
    space = {"depth": {"low": 1, "high": 3}, "kind": ["a"]}
    every = [c for batch in drawn(space, budget=30) for c in batch]
    assert sorted(c["depth"] for c in every) == [1, 2, 3]


def test_a_favourite_that_comes_over_and_over_does_not_end_a_search():
    """Where the best branch has few choices, what else the space has is still drawn."""
    space = [{"C": {"low": 0.1, "high": 1.0}}, {"C": [2.0, 3.0], "kind": ["a", "b"]}]
    for seed in range(3):
        found = drawn(space, seed, budget=12, rounds=12, risk=lambda c: -len(c))
        assert len(found) == 12


def test_a_search_comes_nearer_to_the_best_than_chance():
    def risk(candidate):
        return (math.log10(candidate["C"]) + 2.0) ** 2 + candidate["kind"]

    space = {"C": {"low": 1e-6, "high": 1e2, "log": True}, "kind": [0.0, 0.3, 1.0]}

    def best(how, seed):
        return min(risk(c) for b in drawn(space, seed, how, 24, 6, risk=risk) for c in b)

    searched, by_chance = ([best(how, s) for s in range(5)] for how in ("tpe", "random"))
    assert np.median(searched) < 0.5 * np.median(by_chance)


@pytest.mark.parametrize(
    ("candidates", "space"),
    [
        ({"C": [1, 2]}, False),
        ({"C": {"low": 1, "high": 2, "points": 2}}, False),
        ([{"C": 1}, {"C": [1, 2]}], False),
        ([0.1, 0.2], False),
        (np.array([0.1, 0.2]), False),
        ("C", False),
        (None, False),
        ({"C": {"low": 1, "high": 2}}, True),
        ([{"C": 1}, {"C": stats.uniform()}], True),
        (print, True),
    ],
)
def test_a_space_has_something_to_draw(candidates, space):
    assert is_space(candidates) is space


@pytest.mark.parametrize(
    ("candidate", "inside"),
    [
        ({"a": 2, "b": 0.5, "c": "x", "d": True, "e": 0.75}, True),
        ({"a": 2.5, "b": 0.5, "c": "x", "d": True, "e": 0.75}, False),
        ({"a": 5, "b": 0.5, "c": "x", "d": True, "e": 0.75}, False),
        ({"a": 2, "b": 1.5, "c": "x", "d": True, "e": 0.75}, False),
        ({"a": 2, "b": "0.5", "c": "x", "d": True, "e": 0.75}, False),
        ({"a": 2, "b": True, "c": "x", "d": True, "e": 0.75}, False),
        ({"a": 2, "b": math.nan, "c": "x", "d": True, "e": 0.75}, False),
        ({"a": 2, "b": 0.5, "c": "y", "d": True, "e": 0.75}, False),
        ({"a": 2, "b": 0.5, "c": "x", "d": 1, "e": 0.75}, False),
        ({"a": 2, "b": 0.5, "c": "x", "d": True, "e": 0.8}, False),
        ({"a": 2, "b": 0.5, "c": "x", "d": True}, False),
        ({"a": 2, "b": 0.5, "c": "x", "d": True, "e": 0.75, "f": 1}, False),
    ],
)
def test_what_lies_in_a_space(candidate, inside):
    space = described_space(
        {"a": {"low": 1, "high": 4}, "b": stats.beta(2, 3), "c": ["x"], "d": [True],
         "e": {"low": 0.0, "high": 1.0, "step": 0.25}}
    )  # fmt: skip
    assert is_inside(candidate, space) is inside


@pytest.mark.parametrize(
    ("value", "edge"), [(0.5, None), (0.09, 0.08), (9.9, 10.0), (0.2, None), (7.0, None)]
)
def test_the_edge_of_a_search_is_that_of_its_range(value, edge):
    """The least that was drawn lies at no edge."""
    space = described_space(
        [{"C": {"low": 0.08, "high": 10.0, "log": True}, "kind": [1, 2]}, {"D": [1.0, 2.0, 3.0]}]
    )
    assert at_edges({"C": value, "kind": 1}, space) == ({"C": edge} if edge else {})
    assert at_edges({"D": 3.0}, space) == {"D": 3.0}
    assert at_edges({"D": 2.0}, space) == at_edges({"C": value}, ({"function": "f"},)) == {}


def test_a_search_whose_best_lies_well_inside_says_nothing_of_an_edge():
    X = np.random.default_rng(5).normal(size=(90, 2))
    hospitals = {"a": (X, X @ [1.0, -0.5]), "b": (X[::-1], X[::-1] @ [1.0, -0.5])}
    space = {"penalty": {"low": 1e-9, "high": 1e9, "log": True}}
    own = lambda trial: {"penalty": trial.suggest_float("p", 0.1, 10.0)}  # noqa: E731
    for candidates in (own, space):
        fitted = FedCSA(candidates=candidates, budget=3, random_state=0).fit(hospitals, X)
        assert "grid-edge" not in [item.code for item in fitted.adaptation_.findings]


def test_whole_numbers_of_a_distribution_are_whole():
    space = described_space({"depth": stats.randint(1, 5)})
    assert is_inside({"depth": 3}, space)
    assert not is_inside({"depth": 2.5}, space)


def test_a_range_with_whole_ends_may_have_a_step_that_is_none():
    space = {"share": {"low": 0, "high": 1, "step": 0.25}}
    every = [c["share"] for batch in drawn(space, budget=5) for c in batch]
    assert sorted(every) == [0.0, 0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize(
    "told",
    [
        {"low": 1, "high": 10**400},
        {"distribution": "uniform", "arguments": [[0.1, 0.2], 1]},
        {"distribution": "uniform", "arguments": [10**400, 1]},
        {"distribution": "uniform", "named": {"loc": [1, 2]}},
        {"distribution": "zipf", "arguments": [1.0001]},  # scipy would never end
        {"distribution": "yulesimon", "arguments": [0.01]},
    ],
)
def test_what_no_package_could_draw_from_is_refused_by_name(told):
    with pytest.raises(ParameterError, match="candidates of 'C' must be"):
        described_space({"C": told})


@pytest.mark.parametrize(
    "budget", [10**9, {"candidates": 10_001}, {"rounds": 1001}, {"candidates": 10, "rounds": 1.0}]
)
def test_a_budget_has_an_end(budget):
    with pytest.raises(ParameterError, match="from 1 to 10000"):
        make_plan("ridge", SPACE, {"budget": budget}, features=("x",))


def test_optuna_is_asked_for_by_name_only_where_something_is_drawn(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    plan = make_plan("ridge", SPACE, {"budget": 5}, features=("x", "z"))
    assert plan.limits == {"candidates": 5, "rounds": 6}
    with pytest.raises(MissingExtraError, match=r'pip install "fedcsa\[search\]"'):
        Target(np.eye(4, 2), plan, policy=Policy.open())
    Target(np.eye(4, 2), make_plan("ridge", None, {}, features=("x", "z")), policy=Policy.open())


@pytest.mark.parametrize(
    ("candidates", "text"),
    [
        (
            {"penalty": {"low": -1.0, "high": 1.0}},
            "'penalty' parameter must be a number at least 0",
        ),
        ({"C": {"low": 0.1, "high": 1.0}}, "Unknown candidate parameter 'C'"),
        ([SPACE, 3], "a list of spaces"),
    ],
)
def test_a_space_is_checked_before_anything_is_drawn(candidates, text):
    with pytest.raises(ParameterError, match=text):
        make_plan("ridge", candidates, {}, features=("x",))


# Rounds of messages ------------------------------------------------------------------------------


def hospital(name, n=80, shift=0.0, policy=None):
    rng = np.random.default_rng(len(name) + n)
    X = rng.normal(shift, 1.0, (n, 2))
    y = X @ [1.0, -0.5] + rng.normal(size=n)
    return Source(name, X, y, policy=policy or Policy.open())


def sources(**policies):
    return [
        hospital(name, 80 + 20 * k, 0.1 * k, policies.get(name)) for k, name in enumerate("abc")
    ]


def new_target(candidates=SPACE, policy=None, role=(), **options):
    plan = make_plan("ridge", candidates, {"seed": 5, **options}, features=("x0", "x1"))
    X = np.random.default_rng(9).normal(0.1, 1.0, (60, 2))
    return Target(X, plan, policy=policy or Policy.open(), **dict(role))


def run(target=None, among=None):
    return run_study(target or new_target(budget=8), InProcess(among or sources()))


def sent(adaptation, name="a"):
    return [entry.message for entry in adaptation.ledgers[name]]


def test_a_search_is_rounds_of_reports_and_then_as_ever():
    found = run()
    assert found.rounds == (2, 2, 1, 1, 1, 1)
    assert len(found.plan.candidates) == 8
    assert sent(found) == ["risk-report"] * 6 + ["model-report", "examination-report"]
    assert found.verdict.words
    assert found.candidate == found.plan.candidates[found.kept[found.estimate.chosen]]


def test_the_candidates_of_a_search_listed_give_the_same_answer_in_one_round():
    searched = run()
    listed = run(new_target(list(searched.plan.candidates)))
    assert listed.rounds == (8,)
    assert listed.candidate == searched.candidate
    assert listed.target_risk == pytest.approx(searched.target_risk, rel=1e-12)
    assert listed.interval == pytest.approx(searched.interval, rel=1e-9)
    for name, report in listed.reports.items():
        for field in report.kinds:
            one, other = getattr(report, field), getattr(searched.reports[name], field)
            if isinstance(one, np.ndarray):  # matrices of another width: the last bit may differ
                np.testing.assert_allclose(one, other, rtol=1e-12)
            else:
                assert field == "in_reply_to" or one == other


def test_a_restarted_source_answers_the_next_round_and_the_model_as_before():
    whole, again = sources(), sources()
    target = new_target(budget={"candidates": 6, "rounds": 3})
    brief = target.brief("abc")
    first = {s.name: s.answer(brief) for s in whole}
    more = target.choose(first)
    second = {s.name: s.answer(more) for s in whole}
    last = target.choose(second)
    third = {s.name: s.answer(last) for s in whole}
    request = target.choose(third)
    again[0].recall(brief, first["a"], [(more, second["a"])])
    assert again[0].answer(more) == second["a"]
    assert again[0].answer(last) == third["a"]
    assert isinstance(request, ModelRequest)
    assert again[0].answer(request) == whole[0].answer(request)


def asked_twice():
    """A source that has answered a brief, and the next round."""
    target, among = new_target(budget={"candidates": 6, "rounds": 3}), sources()
    brief = target.brief("abc")
    return among[0], target.choose({s.name: s.answer(brief) for s in among})


def test_a_round_is_answered_once_and_the_same_question_with_the_same_bytes():
    source, more = asked_twice()
    answer = source.answer(more)
    assert encode(source.answer(more)) == encode(answer)
    other = dataclasses.replace(more, candidates=[{"penalty": 0.3, "ratio_power": 0.0}])
    assert source.answer(other).rule == "one_round"


@pytest.mark.parametrize("change", [{"round": 3}, {"brief": "another"}])
def test_rounds_come_in_order_and_on_the_brief_that_was_answered(change):
    source, more = asked_twice()
    assert source.answer(dataclasses.replace(more, **change)).rule == "phase_order"


def test_nothing_is_searched_after_the_model_was_asked_for():
    source, more = asked_twice()
    source.answer(ModelRequest(more.study, more.brief, 0))
    assert source.answer(more).rule == "phase_order"


def test_nothing_is_searched_after_a_mixture_was_shown():
    """Where the chosen candidate failed, no model is asked for, and the search is over, too."""
    source, more = asked_twice()
    source._studies[more.study].asked[Examination.name, False] = more
    assert source.answer(more).rule == "phase_order"


def test_a_target_that_asks_for_too_many_candidates_is_refused_by_name():
    source, more = asked_twice()
    source._policy = dataclasses.replace(Policy.open(), max_candidates=5)
    assert source.answer(dataclasses.replace(more, candidates=more.candidates * 2)).rule == (
        "max_candidates"
    )
    many = [{"penalty": 0.1 * k} for k in range(121)]
    assert not hospital("a").refusals(new_target(many).brief([]))
    strict = hospital("a", 2000, policy=Policy())
    assert "max_candidates" in {r.rule for r in strict.refusals(new_target(many).brief([]))}


@pytest.mark.parametrize(
    "change",
    [{"round": 1}, {"round": -2}, {"candidates": []}, {"candidates": [3]}, {"candidates": {}}],
)
def test_a_malformed_round_is_no_message(change):
    _, more = asked_twice()
    with pytest.raises(MessageError):
        dataclasses.replace(more, **change)
    assert decode(encode(more)) == more


FEWER = dataclasses.replace(Policy.open(), max_candidates=5)


def test_a_site_that_allows_fewer_candidates_leaves_and_the_others_search_on():
    """One site, honest or not, cannot keep the search of the others short."""
    found = run(among=sources(b=FEWER))
    assert sum(found.rounds) == 8
    assert found.sources == ("a", "c")
    assert [(f.source, f.evidence["rule"]) for f in found.findings if f.code == "left-search"] == [
        ("b", "max_candidates")
    ]
    assert not [f for f in found.findings if f.code == "search-ended"]
    assert len(found.reports["a"].risk) == 8


def test_where_too_few_would_be_left_the_search_ends_and_says_at_whom():
    found = run(new_target(budget=8, role={"min_sources": 2}), sources(b=FEWER, c=FEWER))
    assert found.rounds == (2, 2, 1)
    assert [(f.source, f.evidence) for f in found.findings if f.code == "search-ended"] == [
        (name, {"candidates": 5.0, "of": 8.0, "reason": "max_candidates"}) for name in "bc"
    ]
    assert found.sources == ("a", "b", "c")


def test_the_target_asks_for_no_more_than_it_would_answer_for():
    strict = dataclasses.replace(Policy.open(), max_candidates=5)
    found = run(new_target(policy=strict, budget=8))
    assert found.rounds == (2, 2, 1)
    assert [f.evidence["reason"] for f in found.findings if f.code == "search-ended"] == [
        "max_candidates"
    ]


@pytest.mark.parametrize("compare", [[], ["naive"]])
@pytest.mark.parametrize("limit", [40, 60, 90])
def test_the_search_stops_before_more_numbers_leave_than_agreed(limit, compare):
    found = run(new_target(budget={"numbers": limit, "candidates": 40}, compare=compare))
    told = 0
    report = found.reports["a"]
    for size in found.rounds:
        told += numbers_told(size, 2, 0, moments=bool(compare))
    assert told + len(report.correlations) <= limit
    assert [f.evidence["reason"] for f in found.findings if f.code == "search-ended"] == ["numbers"]
    with pytest.raises(ParameterError, match=r"so many numbers .* at least \d+\. Got 5 instead"):
        run(new_target(budget={"numbers": 5}))


@pytest.mark.parametrize("moments", [True, False])
def test_the_numbers_of_a_report_are_counted_as_they_are(moments):
    found = run(new_target([0.1, 0.2, 0.3], compare=["naive"] if moments else []))
    report = found.reports["a"]
    single = [kind for kind in report.kinds.values() if kind in ("whole", "number")]
    arrays = sum(a.size for _, a in report.buffers()) - len(report.correlations)
    assert numbers_told(3, 2, 0, moments=moments) == len(single) + arrays


def test_a_source_that_misses_a_round_leaves_the_study():
    target, among = new_target(budget=4), sources()
    answers = {s.name: s.answer(target.brief("abc")) for s in among}
    more = target.choose(answers)
    answers = {s.name: s.answer(more) for s in among if s.name != "b"}
    answers["c"] = Refusal(more.study, "c", answers["c"].in_reply_to, "row_floors")
    target.choose(answers)
    assert target.asked == ["a"]
    left = {f.source: f.evidence for f in target._findings if f.code == "left-search"}
    assert left == {
        "b": {"round": 2.0, "rule": "no_answer"},
        "c": {"round": 2.0, "rule": "row_floors"},
    }


def test_a_source_whose_later_answer_is_not_accepted_is_not_told_as_silent():
    refused = []
    target = new_target(budget=4, role={"refuse": lambda name, _: refused.append(name)})
    among = sources()
    more = target.choose({s.name: s.answer(target.brief("abc")) for s in among})
    answers = {s.name: s.answer(more) for s in among}
    answers["b"] = dataclasses.replace(answers["b"], outcome_mean=answers["b"].outcome_mean * 2)
    target.choose(answers)
    [left] = [f for f in target._findings if f.code == "left-search"]
    assert (left.source, left.evidence["rule"], refused) == ("b", "malformed", ["b"])


def test_rounds_that_were_asked_for_stand_whatever_is_drawn_now():
    """After an upgrade of Optuna the same seed may draw others."""
    told = [{"penalty": 0.123, "ratio_power": 0.0}], [{"penalty": 0.456, "ratio_power": 0.5}]
    target, among = new_target(budget=6, role={"earlier": told}), sources()
    brief = target.brief("abc")
    more = target.choose({s.name: s.answer(brief) for s in among})
    assert ([dict(c) for c in brief.candidates], [dict(c) for c in more.candidates]) == told
    fresh = target.choose({s.name: s.answer(more) for s in among})
    assert isinstance(fresh, MoreCandidates)
    assert not any(dict(c) in told[0] + told[1] for c in fresh.candidates)


def test_too_few_sources_that_are_left_end_the_study():
    target, among = new_target(budget=4), sources()
    target.choose({s.name: s.answer(target.brief("abc")) for s in among})
    with pytest.raises(NoSourcesError):
        target.choose({})


@pytest.mark.parametrize("field", ["effective_rows", "difference_after", "outcome_mean"])
def test_a_source_that_says_otherwise_of_its_rows_in_a_later_round_is_refused(field):
    target, among = new_target(budget=4), sources()
    more = target.choose({s.name: s.answer(target.brief("abc")) for s in among})
    answer = among[0].answer(more)
    value = getattr(answer, field)
    lie = dataclasses.replace(answer, **{field: value * (0.9 if field == "effective_rows" else 2)})
    with pytest.raises(MessageError, match=f"say the same of its rows.*{field}"):
        target.choose({"a": lie})


def test_reports_are_joined_candidate_by_candidate():
    target, among = new_target(budget=4), sources()
    first = among[0].answer(target.brief("abc"))
    warned = {"code": "fit-warning", "evidence": {"warning": "W", "count": 2.0}}
    first = dataclasses.replace(first, failed={"0": "ValueError"}, findings=[warned])
    both = joined(first, first)
    assert dict(both.failed) == {"0": "ValueError", str(len(first.risk)): "ValueError"}
    assert [dict(item["evidence"]) for item in both.findings] == [{"warning": "W", "count": 4.0}]
    for name in PER_CANDIDATE:
        one = getattr(first, name)
        np.testing.assert_array_equal(getattr(both, name), np.concatenate([one, one]))


def test_candidates_that_fail_are_told_as_such_and_the_search_goes_on():
    from sklearn.linear_model import Ridge

    space = {"alpha": {"low": 0.1, "high": 1.0}, "solver": ["cholesky", "none of these"]}
    data = {
        s: (np.random.default_rng(k).normal(size=(60, 2)), np.arange(60.0))
        for k, s in enumerate("ab")
    }
    found = FedCSA(Ridge(), space, budget=8, random_state=0, on_no_overlap="predict")
    found.fit(data, data["a"][0])
    assert found.candidate_["solver"] == "cholesky"
    assert sum(found.adaptation_.rounds) == 8


def test_no_target_can_ask_forever():
    turns = []

    def ask_target(step, _):
        turns.append(step)
        return TargetTurn({}, more=True)

    with pytest.raises(ProtocolError, match=f"must end after {MOST_ROUNDS} rounds"):
        carry_messages(ask_target, lambda *_: {})
    assert len(turns) == MOST_ROUNDS + 1


def test_more_candidates_is_told_apart():
    _, more = asked_twice()
    assert isinstance(more, MoreCandidates)
    assert more.round == 2

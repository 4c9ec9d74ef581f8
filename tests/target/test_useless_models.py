"""Sources judge single models, not their owners; one source's claims count up to a bound."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from fedcsa.core.tilt import target_equivalent_rows
from fedcsa.errors import MessageError, NoSourcesError
from fedcsa.messages.messages import ExaminationReport
from fedcsa.run import InProcess, run_study
from fedcsa.target.accept import MAX_ROWS
from fedcsa.target.estimate import (
    MOST_CLAIMED,
    Reported,
    eligible,
    outcome_means,
    useless_models,
    validated,
)
from fedcsa.target.verdict import bounded_weights

NAMES = "abcde"


def examined(risks, constant=1.0, variance=0.01, **changed):
    """What an examiner finds of the others' models."""
    values = {
        "risk": 0.5, "risk_variance": 0.01, "explained": 0.5, "constant_risk": constant,
        "ratio_variance": 0.01, "level": np.zeros(1), "level_variance": np.full(1, 0.01),
        "member_risk": np.array(risks, float), "member_variance": np.full(len(risks), variance),
    }  # fmt: skip
    return ExaminationReport("study", "a", "0" * 64, **{"reason": "", **values, **changed})


def judged(risk_of, weights=None, names=NAMES, **changed):
    """`risk_of(examiner, owner)` is the risk that an examiner finds of an owner's model."""
    members = {n: [m for m in names if m != n] for n in names}
    found = {n: examined([risk_of(n, m) for m in members[n]], **changed) for n in names}
    given = weights or dict.fromkeys(names, 1.0 / len(names))
    return useless_models(found, given)


# Votes ---------------------------------------------------------------------------------------


def test_a_model_that_all_others_find_worse_than_a_constant_is_useless():
    found = judged(lambda _, owner: 2.0 if owner == "c" else 0.5)
    assert list(found) == ["c"]
    assert found["c"] == {"examiners": 4.0, "of": 4.0, "times a constant's risk": pytest.approx(2)}


def test_its_owner_has_no_vote_and_one_examiner_alone_condemns_nobody():
    assert judged(lambda examiner, _: 100.0 if examiner == "c" else 0.5) == {}


@pytest.mark.parametrize(("against", "useless"), [(2, []), (3, ["e"])])
def test_more_than_half_of_the_examiners_must_say_so(against, useless):
    assert list(judged(lambda j, i: 2.0 if i == "e" and j in NAMES[:against] else 0.5)) == useless


@pytest.mark.parametrize(
    ("names", "weight", "risk", "useless"),
    [
        (NAMES, 0.8, 2.0, ["e"]),  # the middle two find 60 and 0 times what may be
        (NAMES, 0.2, 2.0, []),  # 1.2 and 0 times
        (NAMES, 0.8, 0.54, []),  # 1.6 and 0 times
        ("ade", 0.8, 2.0, []),  # one of two examiners: it may be the one that lies
    ],
)
def test_where_half_of_the_examiners_say_so_the_middle_of_them_decides(
    names, weight, risk, useless
):
    """Sites that differ make half of them blind: a shifted model suits those that lie that way."""
    weights = {n: weight if n == "e" else (1.0 - weight) / (len(names) - 1) for n in names}
    found = judged(lambda j, i: risk if i == "e" and j in "ab" else 0.5, weights, names)
    assert list(found) == useless


@pytest.mark.parametrize(("ratio", "useless"), [(1.15, []), (1.3, ["b"])])
def test_a_constant_must_be_clearly_better(ratio, useless):
    """Two standard errors of 0.1: models without use come out on either side of 1."""
    assert list(judged(lambda _, owner: ratio if owner == "b" else 0.95)) == useless


@pytest.mark.parametrize(("names", "useless"), [("ab", []), ("abc", ["b"])])
def test_two_examiners_must_have_looked(names, useless):
    assert list(judged(lambda _, owner: 9.0 if owner == "b" else 0.5, names=names)) == useless


@pytest.mark.parametrize(("bad", "useless"), [("ab", ["a", "b"]), ("abc", [])])
def test_where_half_of_the_models_are_bad_nobody_can_say_which(bad, useless):
    assert list(judged(lambda _, owner: 2.0 if owner in bad else 0.5)) == useless


@pytest.mark.parametrize(("weight", "useless"), [(0.2, []), (0.5, ["d"])])
def test_a_model_that_spoils_the_mixture_by_its_weight_is_useless(weight, useless):
    """a²(r − 1) is 0.04 · 0.6 = 0.024 and 0.25 · 0.6 = 0.15; all are better than a constant."""
    weights = {n: weight if n == "d" else (1.0 - weight) / 4.0 for n in NAMES}
    found = judged(lambda _, owner: 0.64 if owner == "d" else 0.4, weights)
    assert list(found) == useless


@pytest.mark.parametrize(("weight", "useless"), [(0.005, []), (0.02, ["d"])])
def test_a_model_without_weight_may_be_worse_than_a_constant(weight, useless):
    """An honest source that is far from the target sends such a model."""
    weights = {n: weight if n == "d" else (1.0 - weight) / 4.0 for n in NAMES}
    assert list(judged(lambda _, owner: 3.0 if owner == "d" else 0.4, weights)) == useless


def test_a_model_with_little_weight_may_not_spoil_the_mixture():
    weights = {n: 0.005 if n == "d" else 0.995 / 4.0 for n in NAMES}
    assert list(judged(lambda _, owner: 1e5 if owner == "d" else 0.4, weights)) == ["d"]


def test_a_model_that_cannot_predict_elsewhere_is_useless():
    found = judged(
        lambda _, owner: 1e300 if owner == "a" else 0.5,
        variance=1.0, reason="mixture_failed", level=np.empty(0), level_variance=np.empty(0),
    )  # fmt: skip
    assert list(found) == ["a"]
    assert np.isfinite(found["a"]["times a constant's risk"])


def test_who_could_not_examine_has_no_vote():
    none = {"reason": "outcomes_alike", "level": np.empty(0), "level_variance": np.empty(0)}
    found = {n: examined([], **none) for n in "abc"}
    assert useless_models(found, dict.fromkeys("abc", 1 / 3)) == {}


# Claims ----------------------------------------------------------------------------------------


def claimed(rows, effective=None, mean=0.0, imbalance=0.0, risk=(1.0,), failed=()):
    """What the rules look at in a report; candidates that failed by their place."""
    return SimpleNamespace(
        n_judged=rows, effective_rows=rows if effective is None else effective,
        imbalance=imbalance, outcome_mean=np.array([mean]), outcome_sd=1.0,
        risk=np.array(risk, float), variance=np.full(len(risk), 1e-4),
        failed={str(k): "ModelFailed" for k in failed},
    )  # fmt: skip


def test_rows_count_up_to_thirty_times_the_median_sources():
    reports = {n: claimed(100.0) for n in "abcd"} | {"e": claimed(float(MAX_ROWS))}
    worth = Reported.of(reports).worth
    assert worth.tolist() == pytest.approx([100.0] * 4 + [MOST_CLAIMED * 100.0])


def test_claims_of_honest_sources_count_to_the_bit():
    reports = {n: claimed(rows, 0.7 * rows) for n, rows in zip("abc", (50, 200, 900), strict=True)}
    rows = np.array([r.effective_rows for r in reports.values()])
    worth = Reported.of(reports).worth
    assert worth.tobytes() == target_equivalent_rows(rows, np.zeros(3)).tobytes()


def test_of_two_sources_nobody_can_say_which_claims_too_much():
    reports = {"a": claimed(10.0), "b": claimed(1e6)}
    assert Reported.of(reports).worth.tolist() == pytest.approx([10.0, 1e6])


def test_a_mean_outcome_counts_up_to_two_errors_from_the_median():
    reports = {n: claimed(100.0, mean=0.1 * k) for k, n in enumerate("abcd")}
    reports["e"] = claimed(100.0, mean=1e6)
    means = outcome_means(Reported.of(reports), "squared")
    assert means["e"].tolist() == pytest.approx([0.2 + 2.0])
    for name in "abcd":
        assert means[name].tobytes() == reports[name].outcome_mean.tobytes()


@pytest.mark.parametrize("loss", ["brier", "own"])
def test_only_losses_in_units_of_the_outcome_bound_its_mean(loss):
    reports = {n: claimed(100.0) for n in "abcd"} | {"e": claimed(100.0, mean=1e6)}
    assert outcome_means(Reported.of(reports), loss)["e"].tolist() == [1e6]


def test_a_far_sources_mean_outcome_stays_as_it_is():
    """It has next to no weight, and may well differ."""
    reports = {n: claimed(100.0) for n in "abc"} | {"d": claimed(9.0, mean=50.0, imbalance=3.0)}
    assert outcome_means(Reported.of(reports), "squared")["d"].tolist() == [50.0]


# The choice ------------------------------------------------------------------------------------

PLAN = SimpleNamespace(method="validated", combine="mean", candidates=[{}, {}, {}])


def told(rows, risks, failed=()):
    """A report on three candidates."""
    return claimed(rows, risk=risks, failed=failed)


def moves_choice(reports):
    """Who alone moves the choice of three candidates, and by how much."""
    return validated(PLAN, Reported.of(reports), (0, 1, 2))[1]


def test_who_alone_moves_the_choice_is_found_by_one_voice_each():
    reports = {n: told(100.0, [1.0, 1.01, 1.3]) for n in "abcd"}
    reports["e"] = told(100.0, [1e4, 1e4, 1e-4])
    assert moves_choice(reports) == {"e": pytest.approx(1.3)}


def test_a_small_liar_does_not_have_a_large_honest_source_left_out():
    """Without the large one, the liar's candidate would be chosen: only the liar finds it good."""
    reports = {n: told(40.0, [1.0, 1.01, 1.3]) for n in "abc"}
    reports |= {"d": told(120.0, [0.9, 0.9, 1e-4]), "large": told(400.0, [1.0, 1.01, 1.3])}
    assert moves_choice(reports) == {}


def test_a_far_source_alone_moves_no_choice_either():
    reports = {n: told(100.0, [1.0, 1.01, 1.3]) for n in "abcd"} | {"e": told(5.0, [1e4, 1e4, 0])}
    assert moves_choice(reports) == {"e": pytest.approx(1.3)}


def test_whoever_failed_a_candidate_is_not_asked_about_it_and_does_not_end_the_asking():
    reports = {n: told(100.0, [1.0, 1.01, 1.2]) for n in "abc"}
    reports |= {"d": told(100.0, [0.0, 1.01, 1.2], failed=[0])}
    reports |= {"e": told(100.0, [1e4, 0.0, 1e-4], failed=[1])}
    assert list(moves_choice(reports)) == ["e"]


def test_a_claim_of_many_rows_takes_no_candidate_from_the_others():
    reports = {n: told(100.0, [1.0, 1.01, 1.3]) for n in "abcd"}
    reports["e"] = told(1e8, [0.0, 0.0, 1.3], failed=[0, 1])
    assert eligible(PLAN, Reported.of(reports)) == (0, 1, 2)


# The weights where sites differ ----------------------------------------------------------------


def test_where_sites_differ_a_model_with_more_than_half_of_the_weight_has_a_third():
    found = bounded_weights({"a": 0.7, "b": 0.1, "c": 0.1, "d": 0.1, "e": 0.0})
    assert found == pytest.approx({"a": 1 / 3, "b": 2 / 9, "c": 2 / 9, "d": 2 / 9, "e": 0.0})


@pytest.mark.parametrize("weights", [{"a": 0.8, "b": 0.1, "c": 0.1}, dict.fromkeys("abcd", 0.25)])
def test_of_three_models_or_without_such_a_weight_they_stay(weights):
    assert bounded_weights(weights) == weights


# In a study -----------------------------------------------------------------------------------


class Forging(InProcess):
    """Source 'b' changes its answers; the questions are kept."""

    forge: dict
    asked: dict

    def ask(self, messages, phase):
        self.asked[phase] = dict(messages)
        answers = super().ask(messages, phase)
        if phase in self.forge:
            answers["b"] = self.forge[phase](answers["b"])
        return answers


def flipped(report):
    arrays = {**report.arrays, "coefficients": -report.arrays["coefficients"]}
    return dataclasses.replace(report, arrays=arrays)


def study(make, design=None, **forge):
    sites = [make.source(n, make.rows(90 + 10 * k, k)) for k, n in enumerate(NAMES)]
    courier = Forging(sites)
    courier.forge, courier.asked = forge, {}
    return run_study(make.target(design, n=80), courier), courier


def test_a_useless_model_loses_its_weight_and_the_rest_is_examined_again(make):
    adaptation, courier = study(make, model=flipped)
    assert adaptation.source_weights["b"] == 0.0
    assert sum(adaptation.source_weights.values()) == pytest.approx(1.0, abs=1e-12)
    [finding] = [f for f in adaptation.findings if f.code == "useless-model"]
    assert (finding.source, finding.evidence["examiners"], finding.evidence["of"]) == ("b", 4, 4)
    for name, second in courier.asked["again"].items():
        first = courier.asked["examine"][name]
        assert second.again
        assert not first.again
        assert len(second.members) == len(first.members) - (name != "b")
        assert second.weights.sum() == pytest.approx(1.0, abs=1e-12)
    # What the promise rests on is the second examination.
    assert all(len(e.member_risk) in (3, 4) for e in adaptation.examinations.values())
    assert adaptation.promise.examined_by == tuple(NAMES)


def test_the_answer_is_that_of_a_study_whose_liar_only_examines(make):
    lied, _ = study(make, model=flipped)
    sites = [make.source(n, make.rows(90 + 10 * k, k)) for k, n in enumerate(NAMES)]
    target = make.target(n=80)
    request = target.choose({s.name: s.answer(target.brief(NAMES)) for s in sites})
    models = {s.name: s.answer(request) for s in sites}
    models["b"] = dataclasses.replace(models["b"], show=False)
    asked = target.mix(models)
    told = {s.name: s.answer(asked[s.name]) for s in sites}
    without = target.conclude(told)
    assert lied.source_weights == without.source_weights
    assert lied.promise == without.promise


def test_nothing_is_examined_again_where_no_model_is_useless(make):
    adaptation, courier = study(make)
    assert set(courier.asked) == {"risk", "model", "examine"}
    assert not [f for f in adaptation.findings if f.code == "useless-model"]


def test_under_a_median_a_useless_model_leaves_if_three_are_left(make):
    design = make.plan(combine="median")
    sites = [make.source(n, make.rows(90, k)) for k, n in enumerate("abcd")]
    courier = Forging(sites)
    courier.forge, courier.asked = {"model": flipped}, {}
    adaptation = run_study(make.target(design, n=80), courier)
    assert adaptation.source_weights["b"] == 0.0


def test_under_a_median_three_models_stay_whatever_they_are(make):
    design = make.plan(combine="median")
    sites = [make.source(n, make.rows(90, k)) for k, n in enumerate("abcd")]
    courier = Forging(sites)
    courier.forge, courier.asked = {"model": flipped}, {}
    sites[0]._policy = dataclasses.replace(sites[0]._policy, show_model=False)  # three are shown
    adaptation = run_study(make.target(design, n=80), courier)
    assert "again" not in courier.asked
    assert adaptation.source_weights["b"] > 0.0


def test_who_does_not_answer_the_second_time_is_named_and_has_no_part(make, monkeypatch):
    ask = Forging.ask

    def late(courier, messages, phase):
        answers = ask(courier, messages, phase)
        if phase == "again":
            del answers["d"]
        return answers

    monkeypatch.setattr(Forging, "ask", late)
    adaptation, _ = study(make, model=flipped)
    assert adaptation.promise.examined_by == ("a", "b", "c", "e")
    [finding] = [f for f in adaptation.findings if f.code == "not-examined"]
    assert (finding.source, finding.evidence["reason"]) == ("d", "missing")


def test_rows_claimed_beyond_the_bound_are_named(make):
    def claim(report):
        told = {"n_rows": 10**7}
        if hasattr(report, "n_judged"):
            told |= {"n_judged": 10**7, "effective_rows": 1e7, "largest_share": 1e-7}
        return dataclasses.replace(report, **told)

    # A score table would contradict the claim, so whoever lies tells none.
    adaptation, _ = study(make, risk=claim, model=claim, examine=make.without_tables)
    [finding] = [f for f in adaptation.findings if f.code == "rows-claimed"]
    assert finding.source == "b"
    assert finding.evidence == {"effective rows": 1e7, "counted": 120.0 * MOST_CLAIMED}


def test_a_report_that_alone_moves_the_choice_does_not_count_there(make):
    def worst(report):
        return dataclasses.replace(report, risk=np.array([1e4, 1e4, 1e-4]))

    honest, _ = study(make)
    adaptation, _ = study(make, risk=worst)
    assert adaptation.candidate == honest.candidate
    [finding] = [f for f in adaptation.findings if f.code == "report-moves-choice"]
    assert finding.source == "b"
    assert finding.evidence["risk for the others times"] > 1.1
    assert adaptation.estimate.source_weights[1] == 0.0


def test_many_rows_do_not_make_up_for_sites_that_differ(make):
    def differing(level):
        def site(k, name):
            X, y = make.rows(2_000 if name == "e" else 90 + 10 * k, k)
            return make.source(
                name, (X, y + level * {"a": -1, "b": -0.5, "c": 0.5, "d": 1}.get(name, 0))
            )

        sites = [site(k, name) for k, name in enumerate(NAMES)]
        courier = Forging(sites)
        courier.forge, courier.asked = {}, {}
        return run_study(make.target(None, n=80), courier), courier

    alike, courier = differing(0.0)
    assert alike.source_weights["e"] > 0.5  # rows count in full where sites agree
    assert "again" not in courier.asked
    apart, courier = differing(0.6)
    [finding] = [f for f in apart.findings if f.code == "weight-bounded"]
    assert (finding.source, finding.evidence["weight"] > 0.5) == ("e", True)
    assert apart.source_weights["e"] == pytest.approx(1 / 3)
    assert all(question.again for question in courier.asked["again"].values())


def test_an_examination_that_stands_out_is_named(make):
    adaptation, _ = study(make, examine=lambda r: dataclasses.replace(r, risk=50.0 * r.risk))
    [finding] = [f for f in adaptation.findings if f.code == "stands-out"]
    assert finding.source == "b"
    assert finding.evidence["times the median"] > 20.0
    assert finding.evidence["standard deviations"] > 3.0


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"member_risk": np.ones(3), "member_variance": np.ones(3)}, "of every single model"),
        ({"member_risk": np.array([1.0, 1.0, 1.0, -1.0])}, "an impossible risk"),
        ({"explained": 1e6}, "an impossible risk"),
    ],
)
def test_impossible_examinations_are_refused(make, changed, text):
    with pytest.raises(MessageError, match=text):
        study(make, examine=lambda r: dataclasses.replace(r, **changed))


# At a source ------------------------------------------------------------------------------------


@pytest.fixture
def second(make):
    """A source, and the second examination that it is asked for."""
    _, courier = study(make, model=flipped)
    return courier.sources["a"], courier.asked["examine"]["a"], courier.asked["again"]["a"]


def test_a_second_examination_is_of_the_first_ones_models_alone(make, second):
    source, _, again = second
    assert source.answer(again).name == "examination-report"
    site, first = study(make)[1].sources["a"], study(make)[1].asked["examine"]["a"]
    changed = {name: 1.01 * array for name, array in first.arrays.items()}
    other = dataclasses.replace(first, again=True, arrays=changed)
    assert site.answer(other).rule == "one_examination"


def test_a_source_examines_again_once(second):
    source, _, again = second
    other = dataclasses.replace(again, weights=np.roll(again.weights, 1))
    assert source.answer(other).rule == "one_examination"
    assert source.answer(again) == source.answer(again)


def test_a_source_examines_again_only_after_the_first_time(make):
    _, courier = study(make)
    first = dataclasses.replace(courier.asked["examine"]["a"], again=True)
    site = make.source("a", make.rows(90, 0))
    site.answer(courier.asked["risk"]["a"])
    assert site.answer(first).rule == "one_examination"


def test_without_any_model_left_to_show_there_is_no_answer(make):
    target = make.target(n=80)
    sites = [make.source(n, make.rows(90, k)) for k, n in enumerate("abc")]
    request = target.choose({s.name: s.answer(target.brief("abc")) for s in sites})
    hidden = {s.name: dataclasses.replace(s.answer(request), show=False) for s in sites}
    with pytest.raises(NoSourcesError, match="shown to the other sources"):
        target.mix(hidden)

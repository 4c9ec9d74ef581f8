"""The standard error of every candidate's risk, against loops over rows and sources."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest

from fedcsa.answer.store import summary
from fedcsa.core.weights import MOST_TIMES
from fedcsa.errors import CandidatesError
from fedcsa.target.estimate import Reported, among, eligible, validated, wild_models

RNG = np.random.default_rng(21)
SIZES = {"a": 40, "b": 25}
RATIOS = {name: RNG.gamma(4.0, 0.25, size=n) for name, n in SIZES.items()}
LOSSES = {name: RNG.gamma(1.0 + 0.1 * n, size=(n, 3)) for name, n in SIZES.items()}


def crafted_study(make, method, **options):
    target = make.target(make.plan(method=method, **options))
    brief = target.brief(sorted(SIZES))
    sources = {name: make.source(name) for name in SIZES}
    reports = {
        name: make.crafted(site.answer(brief), RATIOS[name], LOSSES[name])
        for name, site in sources.items()
    }
    request = target.choose(reports)
    return make.finish(target, sources, request, reports)


def terms(method, ratios, losses):
    """What a source averages over its rows, one number a row."""
    products = [r * loss for r, loss in zip(ratios, losses, strict=True)]
    if method == "naive":
        return list(losses)
    if method == "fediwe":
        return products
    n = len(ratios)
    mean_product, mean_ratio = math.fsum(products) / n, math.fsum(ratios) / n
    pairs = list(zip(products, ratios, strict=True))
    eta = -math.fsum((p - mean_product) * (r - mean_ratio) for p, r in pairs) / math.fsum(
        (r - mean_ratio) ** 2 for r in ratios
    )
    return [p + eta * (r - 1.0) for p, r in pairs]


@pytest.mark.parametrize("method", ["naive", "fediwe", "feddae"])
def test_the_error_of_a_weighted_mean_is_that_of_its_rows(make, method):
    found = crafted_study(make, method).estimates[method]
    for candidate in range(3):
        total = 0.0
        for position, name in enumerate(sorted(SIZES)):
            values = terms(method, RATIOS[name], LOSSES[name][:, candidate])
            n, mean = len(values), math.fsum(values) / len(values)
            variance = math.fsum((value - mean) ** 2 for value in values) / n
            total += found.weights[candidate, position] ** 2 * variance / n
        assert found.standard_errors[candidate] == pytest.approx(math.sqrt(total), rel=1e-10)


def test_given_weights_are_compared_beside_any_method(make):
    weights = {"a": 1.0, "b": 3.0, "absent": 5.0}
    adaptation = crafted_study(make, "naive", fedle_weights=weights)
    found = adaptation.estimates["fedle"]
    for candidate in range(3):
        values = {n: terms("fedle", RATIOS[n], LOSSES[n][:, candidate]) for n in SIZES}
        means = {name: math.fsum(value) / len(value) for name, value in values.items()}
        expected = 0.25 * means["a"] + 0.75 * means["b"]
        assert found.risk[candidate] == pytest.approx(expected, rel=1e-10)
    assert adaptation.target_risk == adaptation.estimates["naive"].risk.min()
    assert set(adaptation.estimates) == {"naive", "fedle"}


def test_given_weights_of_absent_sources_alone_stop_no_other_method(make):
    adaptation = crafted_study(make, "naive", fedle_weights={"a": 0, "b": 0, "absent": 1})
    assert "fedle" not in adaptation.estimates


def test_the_error_of_the_default_method_is_that_of_its_sources(make):
    adaptation = make.study()
    found = adaptation.estimate
    m = [worth_of(adaptation.reports[name]) for name in adaptation.sources]
    for candidate in range(len(found.risk)):
        pairs = [
            (value / math.fsum(m), adaptation.reports[name])
            for value, name in zip(m, adaptation.sources, strict=True)
        ]
        risk = math.fsum(mu * report.risk[candidate] for mu, report in pairs)
        variance = math.fsum(mu**2 * report.variance[candidate] for mu, report in pairs)
        assert found.risk[candidate] == pytest.approx(risk, rel=1e-12)
        assert found.standard_errors[candidate] == pytest.approx(math.sqrt(variance), rel=1e-12)


def worth_of(report):
    """1 / (1/ESS + ι + ι²/2)."""
    iota = math.fsum(value**2 for value in report.difference_after) / 2
    return 1.0 / (1.0 / report.effective_rows + iota + iota**2 / 2.0)


def test_the_errors_stand_in_the_result(make):
    adaptation = make.study(make.plan(compare=("naive", "fediwe", "feddae")))
    told = summary(adaptation)["estimates"]
    assert set(told) == {"naive", "fediwe", "feddae", "validated"}
    for method, item in told.items():
        assert item["standard_errors"] == adaptation.estimates[method].standard_errors.tolist()
        assert len(item["standard_errors"]) == len(item["risk"])


def test_the_papers_methods_are_estimated_only_where_a_study_asks(make):
    plain = make.study()
    assert set(plain.estimates) == {"validated"}
    assert all(len(report.loss_mean) == 0 for report in plain.reports.values())
    compared = make.study(make.plan(compare=("feddae",)))
    assert set(compared.estimates) == {"validated", "feddae"}
    assert compared.promise == plain.promise
    assert dict(compared.source_weights) == dict(plain.source_weights)


# A candidate that failed somewhere --------------------------------------------------------------


def failed_study(make, failed, **options):
    """The candidates that are kept if sources report failures: name -> indices."""
    target = make.target(make.plan(**options))
    sources = {name: make.source(name, make.rows(60, i)) for i, name in enumerate("abc")}
    brief = target.brief(sorted(sources))
    reports = {name: site.answer(brief) for name, site in sources.items()}
    for name, indices in failed.items():
        reasons = {str(index): "Boom" for index in indices}
        reports[name] = dataclasses.replace(reports[name], failed=reasons)
    return make.finish(target, sources, target.choose(reports))


def test_a_candidate_that_failed_at_one_source_stays_in_the_choice(make):
    adaptation = failed_study(make, {"a": [0, 1]})
    assert adaptation.kept == (0, 1, 2)
    weights = adaptation.estimate.weights
    assert weights[0, 0] == weights[1, 0] == 0.0 < weights[2, 0]
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-12)
    assert adaptation.candidate["penalty"] < 1.0
    assert "a" not in adaptation.models  # where it failed there is none to ask for
    assert "a" in adaptation.examinations  # but it examines the others'
    [finding] = [f for f in adaptation.findings if f.code == "candidate-failed"]
    assert dict(finding.evidence) == {"candidates": 2.0, "of": 3.0, "reason": "Boom"}


def test_a_candidate_that_failed_at_most_of_the_worth_is_dropped(make):
    assert failed_study(make, {"a": [0], "b": [0]}).kept == (1, 2)


# Models far from the others ------------------------------------------------------------------


def near(mean=0.0, risk=1.0):
    return SimpleNamespace(
        effective_rows=50.0, n_judged=50, imbalance=0.0, risk=np.array([risk]),
        variance=np.zeros(1), failed={}, outcome_mean=np.array([mean]), outcome_sd=1.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reports", "levels", "wild"),
    [
        ({name: near() for name in "abc"}, (0.0, 0.0, 1e6), ["c"]),
        ({name: near() for name in "ab"}, (0.0, 1e6), []),  # nobody can say which
        ({"a": near(risk=1e-9), "b": near(risk=1e-9), "c": near()}, (0.0, 0.0, 1.0), []),
        ({"a": near(risk=1e-9), "b": near(risk=1e-9), "c": near(1.0, 1e-9)}, (0, 0, 1.0), []),
        ({"a": near(risk=0.0), "b": near(risk=0.0), "c": near()}, (0.0, 0.0, 1e6), ["c"]),
    ],
    ids=["a lie", "two models", "a noisy site", "another level", "candidates that failed"],
)
def test_only_a_model_that_no_honest_site_could_send_is_wild(reports, levels, wild):
    outputs = {name: np.full(5, level) for name, level in zip(reports, levels, strict=True)}
    assert wild_models(outputs, Reported.of(reports), "squared") == wild


def claim(risk, rows=200, imbalance=0.0, failed=()):
    """What the choice looks at in a report."""
    risk = np.array(risk, dtype=float)
    return SimpleNamespace(
        risk=risk,
        variance=np.full(len(risk), 1e-4),
        effective_rows=float(rows),
        imbalance=imbalance,
        n_judged=300,
        failed={str(k): "ValueError" for k in failed},
        outcome_mean=np.zeros(1),
        outcome_sd=1.0,
    )


TWO = SimpleNamespace(
    method="validated", combine="mean", candidates=({"penalty": 0.0}, {"penalty": 1.0})
)


# Reports as arrays ------------------------------------------------------------------------------


def test_reports_are_stacked_by_name_and_cannot_be_changed():
    reports = {"b": claim([1.0, 2.0], rows=9, failed=[1]), "a": claim([3.0, 4.0], imbalance=0.05)}
    stacked = Reported.of(reports)
    assert stacked.names == tuple(stacked.reports) == ("a", "b")
    assert stacked.reaching == ("a",)  # nine effective rows are too few
    assert stacked.near.tolist() == [True, False]
    assert stacked.risk.tolist() == [[3.0, 1.0], [4.0, 2.0]]
    assert stacked.fitted.tolist() == [[True, True], [True, False]]
    assert stacked.worth.tolist() == pytest.approx([1 / (1 / 200 + 0.05 + 0.05**2 / 2), 9.0])
    assert stacked.most_rows == math.inf  # of two, nobody can say which claims too much
    arrays = [value for value in vars(stacked).values() if isinstance(value, np.ndarray)]
    assert len(arrays) == 8
    assert not any(array.flags.writeable for array in arrays)


def test_sources_are_told_apart_to_the_last_character():
    assert among(("a", "a\0", "b"), ["a\0", "b"]).tolist() == [False, True, True]
    assert among((), ["a"]).shape == (0,)


def test_without_any_report_nobody_reaches_the_target_and_nothing_can_be_chosen():
    none = Reported.of({})
    assert (none.names, none.reaching, none.risk.shape) == ((), (), (0, 0))
    with pytest.raises(CandidatesError, match="At least one candidate must be fitted"):
        eligible(TWO, none)


def test_sources_that_do_not_reach_the_target_keep_no_candidate_in_the_choice():
    far = {name: claim([1.5, 0.9], rows=12, imbalance=1.0) for name in "bcd"}
    reports = {"a": claim([1.0, 0.0], rows=300, failed=[1]), **far}
    assert eligible(TWO, Reported.of(reports)) == (0,)


def test_sources_that_do_not_reach_the_target_take_no_candidate_from_the_choice():
    far = {name: claim([1.5, 0.0], rows=12, imbalance=1.0, failed=[1]) for name in "bcd"}
    assert eligible(TWO, Reported.of({"a": claim([1.0, 0.2], rows=300), **far})) == (0, 1)


def test_whoever_claims_many_rows_takes_no_candidate_from_four_others():
    reports = {name: claim([1.0, 0.5]) for name in "abcd"}
    reports["e"] = claim([1.0, 0.0], rows=6000, failed=[1])
    assert eligible(TWO, Reported.of(reports)) == (0, 1)


def test_a_source_that_moves_the_choice_is_named_though_another_has_no_loss():
    honest = {"a": claim([1.0, 0.5]), "b": claim([1.0, 0.0]), "c": claim([1.0, 0.5])}
    reports = {**honest, "liar": claim([0.0, 1000.0])}
    assert validated(TWO, Reported.of(reports), (0, 1))[1] == {"liar": 2.0}
    without_loss = {name: claim([1.0, 0.0]) for name in "abc"}
    reports = {**without_loss, "liar": claim([0.0, 1000.0])}
    assert validated(TWO, Reported.of(reports), (0, 1))[1] == {"liar": MOST_TIMES}


def test_of_three_sources_one_that_lies_has_no_honest_one_named():
    reports = {"a": claim([1.0, 1.5], rows=600), "b": claim([1.0, 1.0]), "liar": claim([1.3, 1.0])}
    assert validated(TWO, Reported.of(reports), (0, 1))[1] == {}

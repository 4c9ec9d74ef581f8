"""The standard error of every candidate's risk, against loops over rows and sources."""

import math

import numpy as np
import pytest

from fedcsa.result import summary

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
    return target.conclude({name: site.answer(request) for name, site in sources.items()})


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
    assert set(adaptation.constant_risks) == {"naive", "fediwe", "feddae", "fedle"}


def test_given_weights_of_absent_sources_alone_stop_no_other_method(make):
    adaptation = crafted_study(make, "naive", fedle_weights={"a": 0, "b": 0, "absent": 1})
    assert "fedle" not in adaptation.estimates


def test_the_guarded_error_allows_for_the_imbalance(make):
    adaptation = make.study(make.plan(method="guarded"))
    found = adaptation.estimate
    for candidate in range(len(found.risk)):
        total = 0.0
        for position, name in enumerate(adaptation.sources):
            report = adaptation.reports[name]
            plain = report.loss_m2[candidate] / report.n_validation
            spread = min(plain, report.spread[candidate])
            variance = report.variance[candidate] + spread * report.kernel_imbalance
            total += found.weights[candidate, position] ** 2 * variance
        assert found.standard_errors[candidate] == pytest.approx(math.sqrt(total), rel=1e-12)


def test_the_errors_stand_in_the_result(make):
    adaptation = make.study(make.plan(method="guarded"))
    told = summary(adaptation)["estimates"]
    assert set(told) == {"naive", "fediwe", "feddae", "guarded"}
    for method, item in told.items():
        assert item["standard_errors"] == adaptation.estimates[method].standard_errors.tolist()
        assert len(item["standard_errors"]) == len(item["risk"])

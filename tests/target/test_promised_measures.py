"""Measures and pictures at the target: pooled, corrected, and named where there is none."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit, logit

from fedcsa.core.formulas import auroc
from fedcsa.core.measures import measure_columns, measure_values, measure_variances
from fedcsa.core.plug_in import lines_of, own_sampling, shifts
from fedcsa.core.random_effects import new_site
from fedcsa.core.scores import JACKKNIFE_GROUPS, OwnScores, ScoreDesign, ScoreSums, told_by
from fedcsa.target.promised_curves import (
    BARS,
    calibration_curves,
    decision_curve,
    recalibrated,
    recalibration,
    risk_distributions,
)
from fedcsa.target.promised_measures import (
    ALIKE,
    MERGED,
    NOBODY,
    NOT_TOLD,
    TOO_FEW,
    Evidence,
    measure_promises,
    promise_of_measure,
    site_estimates,
    subgroup_differences,
)
from fedcsa.target.risk_units import OF_LOSS

LEVEL = 0.95


def site_rows(rng, n=300, n_classes=2, centre=-1.0, level=0.0, noise=1.0):
    x = centre + rng.normal(size=n)
    if n_classes == 0:
        return 3.0 + 2.0 * x + level + noise * rng.normal(size=n), 3.0 + 1.8 * x
    odds = np.exp(np.column_stack([np.zeros(n), x, -x][:n_classes]))
    p = odds / odds.sum(axis=1, keepdims=True)
    odds[:, 1] *= np.exp(level)
    truth = odds / odds.sum(axis=1, keepdims=True)
    y = (truth.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1).astype(float)
    return y, p


def report_of(design, y, p, inside, min_rows=5):
    """The fields of an examination's report that measures need."""
    n, labels = len(y), np.arange(len(y)) % JACKKNIFE_GROUPS
    sums = ScoreSums.of_rows(design, y, p, np.full(n, 1.0 / n), labels, inside)
    table, exact, parts = sums.told(min_rows)
    return SimpleNamespace(
        reason="",
        scores=table,
        score_sums=exact,
        measure_variance=measure_variances(parts, design),
    )


def plan_of(n_classes, loss="", subgroups=("women",)):
    return SimpleNamespace(
        subgroups=[{"name": name} for name in subgroups],
        classes=tuple("abc"[:n_classes]),
        level=LEVEL,
        loss=loss,
    )


def design_of(n_classes, thresholds=(0.2, 0.4)):
    thresholds = thresholds if n_classes == 2 else ()
    return ScoreDesign(n_classes, thresholds, 1, *((3.0, 2.0) if n_classes == 0 else ()))


def halves(n):
    return np.column_stack([np.ones(n, bool), np.arange(n) % 2 == 0])


@cache
def evidence_of(n_classes=2, n_sources=4, own=True, seed=0, loss="", risk=None, **rows):
    rng, design = np.random.default_rng(seed), design_of(n_classes)
    found = {
        f"s{j}": report_of(design, *site_rows(rng, 300, n_classes, **rows), halves(300))
        for j in range(n_sources)
    }
    scores = None
    if own:
        scores = OwnScores.of_rows(design, site_rows(rng, 400, n_classes)[1], halves(400))
    return Evidence.of(found, {}, plan_of(n_classes, loss), design, scores, risk)


def named(evidence, name, subgroup="", threshold=None, of_class=None):
    wanted = name, subgroup, threshold, of_class
    places = [(s, k) for s in range(2) for k in range(len(evidence.columns))]
    [(s, k)] = [place for place in places if evidence.place(*place) == wanted]
    return promise_of_measure(evidence, s, k)


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_every_measure_is_promised_for_everybody_and_for_the_subgroup(n_classes):
    evidence = evidence_of(n_classes)
    promises = measure_promises(evidence)
    assert len(promises) == 2 * len(measure_columns(evidence.design))
    for item in promises:
        assert not item.why_not
        assert item.lower < item.estimate < item.upper
        assert item.between_sites > 0.0
        assert set(item.by_source) == set(evidence.names)
        for value, lower, upper in item.by_source.values():
            assert lower <= value <= upper


def test_a_promise_is_the_random_effects_prediction_on_its_scale():
    evidence = evidence_of(own=False)
    k = [c.measure.name for c in evidence.columns].index("log_loss")
    values = [measure_values(told[0])[0][k] for told in evidence.told]
    v = np.array([variances[0, k] for variances in evidence.variances])
    site = new_site(np.log(values), v, evidence.columns[k].measure.spread)
    found = named(evidence, "log_loss")
    assert found.estimate == pytest.approx(np.exp(site.quantile(0.5)))
    assert (found.lower, found.upper) == pytest.approx(np.exp(site.interval(LEVEL)))
    assert found.between_sites == pytest.approx(site.between_sites, rel=1e-3)
    for j, name in enumerate(evidence.names):
        assert found.by_source[name][0] == pytest.approx(values[j])


def test_the_targets_scores_correct_every_source_and_widen_the_interval():
    evidence = evidence_of()
    k = [c.measure.name for c in evidence.columns].index("auroc")
    plain = replace(evidence, own=None)
    own, told = evidence.own, [item[0] for item in evidence.told]
    extra = own_sampling(own, 0)[k]
    estimates = site_estimates(evidence, 0, k)
    site = new_site(estimates.estimates, estimates.variances, estimates.spread)
    assert named(plain, "auroc").estimate == pytest.approx(expit(site.quantile(0.5)), rel=1e-6)
    x = estimates.estimates + [shifts(item, own, 0)[k] for item in told]
    site = new_site(x, estimates.variances, estimates.spread, extra)
    found = named(evidence, "auroc")
    assert extra > 0.0
    assert found.estimate == pytest.approx(expit(site.quantile(0.5)), rel=1e-6)
    assert (found.lower, found.upper) == pytest.approx(expit(site.interval(LEVEL)), rel=1e-6)


@pytest.mark.parametrize(
    ("loss", "n_classes"),
    [("squared", 0), ("absolute", 0), ("brier", 2), ("brier", 3), ("log", 2), ("log", 3)],
)
def test_the_measure_that_is_the_loss_has_the_promise_of_the_risk(loss, n_classes):
    risk = (0.5, 0.4, 0.7, 0.1)
    evidence = evidence_of(n_classes, 2, own=False, loss=loss, risk=risk)
    item = named(evidence, OF_LOSS[loss])
    expected = np.array(risk)
    if loss == "squared":
        expected = np.append(np.sqrt(risk[:3]), risk[3] / 2.0)
    if loss == "brier" and n_classes == 3:  # the sum over classes, of which the loss is half
        expected[:3] *= 2.0
    numbers = (item.estimate, item.lower, item.upper, item.between_sites)
    assert numbers == pytest.approx(tuple(expected))


def test_the_promise_of_the_risk_is_for_everybody_and_for_predictions_as_they_are():
    risk = (0.5, 0.4, 0.7, 0.1)
    evidence = evidence_of(2, 2, own=False, loss="brier", risk=risk)
    assert named(evidence, "brier", "women").estimate != 0.5
    k = [c.measure.name for c in evidence.columns].index("brier")
    assert promise_of_measure(evidence, 0, k, np.full(2, 0.1)).estimate == pytest.approx(0.1)


def with_a_stranger(evidence, **rows):
    """The evidence and that of one more source."""
    report = report_of(evidence.design, *site_rows(np.random.default_rng(9), **rows), halves(300))
    told = told_by(evidence.design, report.scores, report.score_sums)
    n = len(evidence.names) + 1
    return replace(
        evidence,
        names=(*evidence.names, "stranger"),
        told=(*evidence.told, told),
        variances=(*evidence.variances, report.measure_variance),
        shares=np.full(n, 1.0 / n),
    )


def test_one_source_far_from_the_others_moves_a_promise_only_so_far():
    evidence = evidence_of(0, 6)
    far, farther = (
        named(with_a_stranger(evidence, n_classes=0, level=x), "rmse") for x in (40, 80)
    )
    assert far.estimate == pytest.approx(farther.estimate, rel=0.02)
    values = [value for value, *_ in farther.by_source.values()]
    assert far.estimate < 2.0 * np.median(values)


def test_a_variance_beyond_all_measure_counts_as_none():
    evidence = evidence_of(own=False)
    k = [c.measure.name for c in evidence.columns].index("log_loss")
    loud = [v.copy() for v in evidence.variances]
    loud[0][:, k] = 1e300
    found = promise_of_measure(replace(evidence, variances=tuple(loud)), 0, k)
    assert set(found.by_source) == set(evidence.names[1:])
    assert np.isfinite(found.upper)


def test_more_events_than_rows_by_rounding_are_all_rows():
    evidence = evidence_of(own=False)
    cells = tuple(
        {0: replace(t[0], cells=(t[0].cells[0] * [1.0, 0.0, 1.0],))} for t in evidence.told
    )
    for item in cells:
        item[0].cells[0][:, 1] = 1.05 * item[0].cells[0][:, 0]
    [curve] = calibration_curves(replace(evidence, told=cells))
    assert np.isfinite(curve.upper).all()
    assert max(curve.upper) <= 1.0


def test_sources_without_a_model_weigh_alike_where_no_other_is_there():
    assert evidence_of().shares.tolist() == [0.25] * 4


def test_sources_that_cannot_tell_are_left_out():
    more = with_a_stranger(evidence_of(), level=-40.0)
    assert "stranger" not in named(more, "auroc").by_source
    assert named(more, "event_rate").by_source["stranger"][0] == 0.0


# Where there is none --------------------------------------------------------------------------


def one_source(y, p, thresholds=(0.2, 0.4), inside=None):
    design = design_of(2, thresholds)
    inside = halves(len(y)) if inside is None else inside
    found = {"a": report_of(design, y, p, inside)}
    return Evidence.of(found, {"a": 1.0}, plan_of(2), design)


def test_without_events_there_is_no_auroc():
    _, p = site_rows(np.random.default_rng(0))
    evidence = one_source(np.zeros(300), p)
    assert named(evidence, "auroc").why_not == TOO_FEW
    assert not named(evidence, "event_rate").why_not
    assert named(evidence, "event_rate").upper < 0.1


def test_constant_predictions_have_no_slope_and_an_auroc_of_a_half():
    y, p = site_rows(np.random.default_rng(0))
    evidence = one_source(y, np.full_like(p, 0.5))
    assert named(evidence, "calibration_slope").why_not == ALIKE
    assert named(evidence, "auroc").estimate == pytest.approx(0.5)


def test_thresholds_that_nobody_or_hardly_anybody_reaches_are_named():
    y, p = site_rows(np.random.default_rng(0))
    few = float(np.sort(p[:, 1])[-3])
    evidence = one_source(y, p, (few, 0.9999))
    for name in ("sensitivity", "specificity", "ppv", "npv", "net_benefit"):
        assert named(evidence, name, threshold=few).why_not == MERGED
    assert named(evidence, "ppv", threshold=0.9999).why_not == NOBODY
    assert named(evidence, "sensitivity", threshold=0.9999).upper < 0.2
    assert not named(evidence, "net_benefit", threshold=0.9999).why_not


def test_a_subgroup_that_is_too_small_is_named():
    y, p = site_rows(np.random.default_rng(0))
    inside = np.column_stack([np.ones(300, bool), np.arange(300) < 4])
    evidence = one_source(y, p, inside=inside)
    assert named(evidence, "auroc", "women").why_not == NOT_TOLD
    assert {item.why_not for item in subgroup_differences(evidence)} == {NOT_TOLD}
    some = np.column_stack([np.ones(300, bool), np.arange(300) < 8])
    assert named(one_source(y, p, inside=some), "brier", "women").why_not == TOO_FEW


def test_without_sources_nothing_is_promised():
    evidence = Evidence.of({}, {}, plan_of(2), design_of(2))
    assert {item.why_not for item in measure_promises(evidence)} == {TOO_FEW, NOT_TOLD}
    failed = {"a": SimpleNamespace(reason="outcomes_alike")}
    assert Evidence.of(failed, {}, plan_of(2), design_of(2)).names == ()


# Differences ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_alike_subgroups_do_not_differ(n_classes):
    for item in subgroup_differences(evidence_of(n_classes, seed=3)):
        assert item.lower < 0.0 < item.upper, item.name
        assert item.subgroup == "women"


def test_a_subgroup_with_more_events_differs_in_its_rate():
    rng, design = np.random.default_rng(0), design_of(2)
    found = {}
    for j in range(4):
        y, p = site_rows(rng, 600)
        inside = halves(600)
        extra = inside[:, 1] & (rng.random(600) < 0.6)
        found[f"s{j}"] = report_of(design, np.maximum(y, extra), p, inside)
    evidence = Evidence.of(found, {}, plan_of(2), design)
    by_name = {item.name: item for item in subgroup_differences(evidence) if not item.threshold}
    assert by_name["event_rate"].lower > 0.1
    assert by_name["observed_expected"].lower > 0.3
    whole, rest = (measure_values(evidence.told[0][s])[0] for s in (1, 0))
    assert by_name["event_rate"].by_source["s0"][0] > whole[1] - rest[1]


def test_no_rate_no_difference_of_rates_and_no_net_benefit_is_beyond_one():
    evidence = evidence_of(n_sources=2)
    loud = [np.where(v > 0.0, 100.0, v) for v in evidence.variances]  # sure of nothing
    evidence = replace(evidence, variances=loud)
    shares = {c.measure.name for c in evidence.columns if c.measure.link == "logit"}
    assert "ppv" in shares
    for told in (*measure_promises(evidence), *subgroup_differences(evidence)):
        if told.name in shares or told.name == "net_benefit":
            ends = [(told.lower, told.upper), *(item[1:] for item in told.by_source.values())]
            assert all(upper <= 1.0 for _, upper in ends if told.name in shares)
            assert all(lower >= -1.0 for lower, _ in ends if told.name in shares)
    for told in measure_promises(evidence):
        if told.name == "net_benefit":
            assert told.upper <= 1.0


def test_values_that_take_the_place_of_the_sources_are_used():
    evidence = evidence_of(own=False)
    k = [c.measure.name for c in evidence.columns].index("brier")
    moved = promise_of_measure(evidence, 0, k, np.full(4, 0.1))
    assert moved.estimate == pytest.approx(0.1)


# Pictures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [0, 2, 3])
@pytest.mark.parametrize("own", [False, True])
def test_a_calibration_plot_has_a_band_and_shares_of_all_rows(n_classes, own):
    evidence = evidence_of(n_classes, own=own)
    curves = calibration_curves(evidence)
    assert [c.of_class for c in curves] == ([*"abc"] if n_classes == 3 else [None])
    for curve in curves:
        assert sum(curve.share) == pytest.approx(1.0)
        assert list(curve.predicted) == sorted(curve.predicted)
        assert len(curve.predicted) >= 3
        for lower, middle, upper in zip(curve.lower, curve.observed, curve.upper, strict=True):
            assert lower < middle < upper


def test_calibrated_predictions_lie_on_the_diagonal_within_the_band():
    [curve] = calibration_curves(evidence_of(2, n_sources=8))
    inside = [
        lower < p < upper
        for p, lower, upper in zip(curve.predicted, curve.lower, curve.upper, strict=True)
    ]
    assert np.mean(inside) > 0.7


def test_a_calibration_plot_of_numbers_is_in_the_outcomes_units():
    [curve] = calibration_curves(evidence_of(0, level=10.0))
    gaps = np.subtract(curve.observed, curve.predicted)
    assert gaps.mean() == pytest.approx(10.0, abs=0.6)


def test_no_events_still_make_a_calibration_plot():
    evidence = evidence_of(2, level=-30.0)
    [curve] = calibration_curves(evidence)
    assert np.isfinite(curve.upper).all()
    assert (np.array(curve.observed) < np.array(curve.predicted)).all()


def test_a_decision_curve_holds_the_declared_thresholds_and_their_promises():
    evidence = evidence_of(2)
    curve = decision_curve(evidence)
    assert set(evidence.design.thresholds) <= set(curve.thresholds)
    rate = named(evidence, "event_rate").estimate
    for t, model, lower, upper, treat_all in zip(
        curve.thresholds, curve.model, curve.lower, curve.upper, curve.treat_all, strict=True
    ):
        assert lower < model < upper
        assert treat_all == pytest.approx(rate - (1.0 - rate) * t / (1.0 - t))
        if t in evidence.design.thresholds:
            assert model == named(evidence, "net_benefit", threshold=t).estimate


def test_between_declared_thresholds_the_curve_is_the_formula_on_rows():
    rng, evidence = np.random.default_rng(5), evidence_of(2, n_sources=1, own=False)
    y, p = site_rows(rng, 3000)
    report = report_of(evidence.design, y, p, halves(3000), min_rows=1)
    told = told_by(evidence.design, report.scores, report.score_sums)
    alone = replace(evidence, told=(told,), variances=(report.measure_variance,))
    curve = decision_curve(alone)
    for t, model in zip(curve.thresholds, curve.model, strict=True):
        above = p[:, 1] >= t
        exact = (y[above].sum() - (1.0 - y[above]).sum() * t / (1.0 - t)) / len(y)
        assert model == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("n_classes", [0, 3])
def test_only_two_classes_have_a_decision_curve(n_classes):
    assert decision_curve(evidence_of(n_classes)) is None


@pytest.mark.parametrize("thresholds", [(), (0.2,)])
def test_constant_predictions_have_a_curve_at_declared_thresholds_only(thresholds):
    y, p = site_rows(np.random.default_rng(0))
    evidence = one_source(y, np.full_like(p, [0.49, 0.51]), thresholds)  # 0.5 is an edge
    curve = decision_curve(evidence)
    assert (() if curve is None else curve.thresholds) == thresholds
    [points] = calibration_curves(evidence)
    assert points.predicted == pytest.approx((0.51,))
    [bars] = risk_distributions(evidence)
    assert max(bars.with_event) == pytest.approx(1.0)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("own", [False, True])
def test_distributions_of_risk_sum_to_one_and_events_have_the_higher_risks(n_classes, own):
    for found in risk_distributions(evidence_of(n_classes, own=own)):
        assert len(found.edges) == BARS + 1
        assert list(found.edges) == sorted(found.edges)
        means = []
        for shares in (found.with_event, found.without_event):
            assert sum(shares) == pytest.approx(1.0)
            assert min(shares) >= 0.0
            means.append(np.dot(shares, found.edges[1:]))
        assert means[0] > means[1]


def test_numbers_have_no_distribution_of_risk():
    assert risk_distributions(evidence_of(0)) == ()


def test_without_sources_there_is_nothing_to_draw():
    nobody = replace(evidence_of(2), names=(), told=(), variances=(), shares=np.empty(0))
    assert calibration_curves(nobody) == ()
    assert risk_distributions(nobody) == ()
    assert decision_curve(nobody) is None
    assert recalibration(nobody) is None


# Recalibration --------------------------------------------------------------------------------


def test_a_recalibration_of_classes_finds_the_line():
    found = recalibration(evidence_of(2, n_sources=6, level=1.0))
    assert found.intercept == pytest.approx(1.0, abs=0.25)
    assert found.slope == pytest.approx(1.0, abs=0.15)
    before, after = ({item.name: item for item in items} for items in (found.before, found.after))
    assert set(before) == set(after)
    assert before["observed_expected"].estimate > 1.3
    assert after["observed_expected"].estimate == pytest.approx(1.0, abs=0.1)
    assert after["log_loss"].estimate < before["log_loss"].estimate


def test_a_recalibration_of_numbers_is_in_the_outcomes_units():
    found = recalibration(evidence_of(0, n_sources=6, level=5.0))
    # y = 3 + 2x + 5 and p = 3 + 1.8x
    slope = 2.0 / 1.8
    assert found.slope == pytest.approx(slope, abs=0.05)
    assert found.intercept == pytest.approx(8.0 - 3.0 * slope, abs=0.3)
    after = {item.name: item for item in found.after}
    assert after["rmse"].estimate == pytest.approx(1.0, abs=0.1)
    assert after["calibration_intercept"].estimate == pytest.approx(0.0, abs=0.1)


@pytest.mark.parametrize("evidence", [evidence_of(2, n_sources=1), evidence_of(3)])
def test_one_source_or_three_classes_offer_no_recalibration(evidence):
    assert recalibration(evidence) is None


def test_corrected_numbers_are_those_of_corrected_rows():
    evidence = evidence_of(0)
    design, (y, p) = evidence.design, site_rows(np.random.default_rng(1), 200, 0)
    report = report_of(design, y, p, halves(200), min_rows=1)
    told = told_by(design, report.scores, report.score_sums)[0]
    raw = design.centre + design.unit * (0.2 + 1.3 * (p - design.centre) / design.unit)
    other = report_of(design, y, raw, halves(200), min_rows=1)
    expected = told_by(design, other.scores, other.score_sums)[0]
    names = [column.measure.name for column in measure_columns(design)]
    found, exact = (measure_values(x)[0] for x in (recalibrated(told, (0.2, 1.3)), expected))
    for k, name in enumerate(names):
        if name != "mae":  # of which the sums do not tell
            assert found[k] == pytest.approx(exact[k], abs=1e-9), name


def test_corrected_probabilities_are_those_of_corrected_rows():
    rng = np.random.default_rng(2)
    score = rng.choice([0.05, 0.2, 0.35, 0.6], 400)
    y = (rng.random(400) < score**2).astype(float)
    design = evidence_of(2).design
    changed = expit(0.4 + 1.2 * logit(score))
    told = []
    for s in (score, changed):
        report = report_of(design, y, np.column_stack([1.0 - s, s]), halves(400), min_rows=1)
        told.append(told_by(design, report.scores, report.score_sums)[0])
    columns = measure_columns(design)
    found, exact = (measure_values(x)[0] for x in (recalibrated(told[0], (0.4, 1.2)), told[1]))
    for k, column in enumerate(columns):
        if column.threshold is None:
            assert found[k] == pytest.approx(exact[k], abs=1e-9), column.measure.name
    own_line = recalibrated(told[0], lines_of(told[0])[0])
    assert lines_of(own_line)[0] == pytest.approx((0.0, 1.0), abs=1e-7)
    assert auroc(own_line, 1)[0] == auroc(told[0], 1)[0]

"""Every danger has a name, shows up where it should, and does not where it should not."""

import dataclasses
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, Lasso, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from fedcsa.errors import NoOverlapError
from fedcsa.findings import CATALOGUE
from fedcsa.target.conclude import _edges, findings_of

N = 40
RNG = np.random.default_rng(8)
RATIOS = RNG.gamma(4.0, 0.25, size=N)
LOSSES = RNG.gamma(1.0, size=(N, 3))


def codes(findings, source=None):
    return [f.code for f in findings if source is None or f.source == source]


def one(findings, code):
    [finding] = [f for f in findings if f.code == code]
    return finding


def crafted_study(make, plan, **changed):
    """A study of two sources whose reports are replaced by those in `changed`.

    A value is (ratios, losses) or (ratios, losses, differences after weighting).
    """
    target = make.target(plan)
    brief = target.brief(["a", "b"])
    sources = {name: make.source(name) for name in ("a", "b")}
    calm = (RATIOS, LOSSES)
    reports = {
        name: make.crafted(site.answer(brief), *changed.get(name, calm))
        for name, site in sources.items()
    }
    request = target.choose(reports)
    return make.finish(target, sources, request, reports)


@pytest.mark.parametrize("method", ["validated", "fediwe"])
def test_a_calm_study_has_no_finding(make, method):
    plan = make.plan(candidates=({}, {"penalty": 0.5}, {}), method=method)
    adaptation = crafted_study(make, plan)
    assert adaptation.findings == ()


# Sources -------------------------------------------------------------------------------------


def trio(make, method="feddae", candidates=(0.0, 0.1, 1.0)):
    """The paper's exchange and folds, in which a ratio can be off."""
    return make.plan(method=method, candidates=candidates, exchange="rows")


def test_a_ratio_of_zero_everywhere_is_a_danger(make):
    adaptation = crafted_study(make, trio(make), a=(np.zeros(N), LOSSES))
    found = codes(adaptation.findings, "a")
    assert found == [
        "zero-ratio",
        "zero-divergence",
        "ratio-mean-off",
        "few-effective-rows",
        "dominant-source",
    ]
    assert one(adaptation.findings, "zero-ratio").severity == "danger"
    assert adaptation.source_weights["a"] == 1.0  # the collapse of the paper's method


def test_a_ratio_that_does_not_vary_is_a_note(make):
    adaptation = crafted_study(make, trio(make), a=(np.ones(N), LOSSES))
    assert codes(adaptation.findings, "a") == ["constant-ratio"]
    assert one(adaptation.findings, "constant-ratio").severity == "note"


@pytest.mark.parametrize(("method", "found"), [("feddae", True), ("fediwe", False)])
def test_a_divergence_of_zero_is_a_warning_under_feddae_only(make, method, found):
    adaptation = crafted_study(make, trio(make, method), a=(RATIOS, np.ones((N, 3))))
    assert ("zero-divergence" in codes(adaptation.findings, "a")) == found


def test_a_divergence_of_zero_is_judged_at_the_chosen_candidate(make):
    losses = LOSSES.copy()
    losses[:, 2] = 50.0  # constant, but never chosen
    adaptation = crafted_study(make, trio(make), a=(RATIOS, losses), b=(RATIOS, losses))
    assert "zero-divergence" not in codes(adaptation.findings)


@pytest.mark.parametrize(
    ("mean", "off"),
    [(0.2, True), (0.49, True), (0.51, False), (1.0, False), (1.99, False), (2.01, True)],
)
def test_a_mean_ratio_far_from_one_is_a_warning(make, mean, off):
    adaptation = crafted_study(make, trio(make), a=(mean * RATIOS / RATIOS.mean(), LOSSES))
    assert ("ratio-mean-off" in codes(adaptation.findings, "a")) == off
    if off:
        finding = one(adaptation.findings, "ratio-mean-off")
        assert finding.evidence["mean ratio"] == pytest.approx(mean)


@pytest.mark.parametrize(("rows", "few"), [(5, True), (9, True), (11, False)])
def test_few_effective_rows_are_a_warning(make, rows, few):
    ratios = np.zeros(N)
    ratios[:rows] = N / rows
    adaptation = crafted_study(make, trio(make), a=(ratios, LOSSES))
    assert ("few-effective-rows" in codes(adaptation.findings, "a")) == few
    if few:
        evidence = dict(one(adaptation.findings, "few-effective-rows").evidence)
        assert evidence == {"effective rows": pytest.approx(rows), "of": 40.0}


@pytest.mark.parametrize(
    ("after", "code"),
    [
        ((0.2, 0.2), None),
        ((0.24, -0.24), None),
        ((0.3, -0.3), "imbalance"),
        ((0.0, 1.3), "imbalance"),
        ((1.1, -1.1), "no-overlap"),
        ((0.0, -30.0), "no-overlap"),
    ],
)
def test_means_that_weighting_does_not_match_are_named_with_their_features(make, after, code):
    adaptation = crafted_study(make, trio(make), a=(RATIOS, LOSSES, after))
    found = [c for c in codes(adaptation.findings, "a") if c in ("imbalance", "no-overlap")]
    assert found == ([] if code is None else [code])
    if code:
        evidence = dict(one(adaptation.findings, code).evidence)
        largest_first = sorted(zip(("x0", "x1"), after, strict=True), key=lambda p: -abs(p[1]))
        assert list(evidence) == ["imbalance", *(name for name, _ in largest_first)]
        assert evidence["imbalance"] == pytest.approx(np.mean(np.square(after)))


def test_a_source_that_carries_most_of_the_weight_is_a_note(make):
    big, small = (np.ones(1000), np.ones((1000, 3))), (np.ones(10), np.ones((10, 3)))
    adaptation = crafted_study(make, trio(make, "fediwe"), a=big, b=small)
    finding = one(adaptation.findings, "dominant-source")
    assert finding.source == "a"
    assert finding.evidence["weight"] == pytest.approx(1000 / 1010)


def test_no_source_is_dominant_at_nine_tenths(make):
    big, small = (np.ones(900), np.ones((900, 3))), (np.ones(100), np.ones((100, 3)))
    adaptation = crafted_study(make, trio(make, "fediwe"), a=big, b=small)
    assert "dominant-source" not in codes(adaptation.findings)


# The choice ----------------------------------------------------------------------------------


def best(index, count=3):
    """Losses under which the candidate `index` is chosen."""
    losses = np.full((N, count), 2.0) + 0.1 * RNG.normal(size=(N, 1))
    losses[:, index] -= 1.0
    return RATIOS, losses


def edge_findings(make, plan, index):
    losses = best(index, len(plan.candidates))
    adaptation = crafted_study(make, plan, a=losses, b=losses)
    assert adaptation.kept[adaptation.estimate.chosen] == index
    return [dict(f.evidence) for f in adaptation.findings if f.code == "grid-edge"]


@pytest.mark.parametrize(
    ("candidates", "index", "edge"),
    [
        ((0.1, 0.5, 1.0), 0, 0.1),
        ((0.1, 0.5, 1.0), 1, None),
        ((0.1, 0.5, 1.0), 2, 1.0),
        ((1.0, 0.1, 0.5), 0, 1.0),
        ((0.0, 0.5, 1.0), 0, None),  # no penalty is smaller
        ((0.0, 0.5, 1.0), 2, 1.0),
        ((0.1, 1.0), 1, None),  # two values are no grid
        ((0.1, 0.1, 0.1), 2, None),
    ],
)
def test_a_penalty_at_the_edge_of_its_grid_is_a_note_unless_nature_sets_it(
    make, candidates, index, edge
):
    plan = trio(make, "naive", candidates)
    expected = [] if edge is None else [{"parameter": "penalty", "value": edge}]
    assert edge_findings(make, plan, index) == expected


@pytest.mark.parametrize(
    ("powers", "index", "edge"),
    [
        ((0.0, 0.5, 1.0), 0, None),
        ((0.0, 0.5, 1.0), 2, None),
        ((0.2, 0.5, 0.8), 0, 0.2),
        ((0.2, 0.5, 0.8), 2, 0.8),
        ((0.2, 0.5, 0.8), 1, None),
    ],
)
def test_a_ratio_power_has_natural_bounds_at_both_ends(make, powers, index, edge):
    plan = make.plan("weighted-least-squares", powers, method="naive", exchange="rows")
    expected = [] if edge is None else [{"parameter": "ratio_power", "value": edge}]
    assert edge_findings(make, plan, index) == expected


@pytest.mark.parametrize(("low", "edge"), [(0.0, None), (0.03, 0.04)])
def test_near_an_end_of_a_search_that_nature_sets_there_is_no_note(make, low, edge):
    plan = make.plan("weighted-least-squares", (0.04, 0.5, 0.7), method="naive", exchange="rows")
    object.__setattr__(plan, "space", ({"ratio_power": {"low": low, "high": 1.0}},))
    expected = [] if edge is None else [{"parameter": "ratio_power", "value": edge}]
    assert [
        dict(f.evidence) for f in _edges(SimpleNamespace(plan=plan, candidate=plan.candidates[0]))
    ] == expected


def test_under_a_preset_nobody_is_asked_to_widen_the_grid_of_its_ratio(make):
    item = {"code": "grid-edge", "evidence": {"parameter": "bandwidth", "value": 4.0}}
    for preset, said in ((None, True), ("paper", False)):
        adaptation = make.study(make.plan(method="naive", exchange="rows"), [make.source("a")])
        report = replace(adaptation.reports["a"], findings=(item,))
        object.__setattr__(adaptation.plan, "preset", preset)
        found = codes(findings_of(replace(adaptation, reports={"a": report})), "a")
        assert ("grid-edge" in found) == said


def test_every_parameter_of_the_candidate_is_looked_at(make):
    plan = make.plan(
        ElasticNet(), {"alpha": [0.1, 0.2, 0.3], "l1_ratio": [0.2, 0.5, 0.7]}, method="naive",
        exchange="rows",
    )  # fmt: skip
    assert edge_findings(make, plan, 0) == [
        {"parameter": "alpha", "value": 0.1},
        {"parameter": "l1_ratio", "value": 0.2},
    ]
    assert edge_findings(make, plan, 4) == []


def test_texts_truth_values_and_nothing_are_no_grid(make):
    plan = make.plan(
        DecisionTreeRegressor(),
        [{"max_depth": None, "criterion": "poisson"}, {"max_depth": 2}, {"max_depth": 3}],
        method="naive",
        exchange="rows",
    )
    assert edge_findings_of_trees(make, plan, 0) == []
    assert edge_findings_of_trees(make, plan, 2) == []  # two numbers are no grid


def edge_findings_of_trees(make, plan, index):
    target = make.target(plan)
    brief = target.brief(["a"])
    X, y = make.rows(30)
    site = make.source("a", (X, y - y.min() + 1.0))
    report = make.crafted(site.answer(brief), *best(index))
    adaptation = make.finish(target, {"a": site}, target.choose({"a": report}))
    return [f for f in adaptation.findings if f.code == "grid-edge"]


def test_truth_values_are_not_numbers_on_a_grid(make):
    plan = make.plan(
        Lasso(0.01), [{"fit_intercept": True}, {"fit_intercept": False}, {}], method="naive",
        exchange="rows",
    )  # fmt: skip
    assert edge_findings(make, plan, 0) == []


@pytest.mark.parametrize(
    ("model", "candidates", "method", "said"),
    [
        (KNeighborsRegressor(3), [{}], "validated", True),
        (Ridge(), [{}], "validated", False),  # which takes weights, and was told to have none
        (Ridge(), [{"ratio_power": 1.0}], "validated", False),
        (KNeighborsRegressor(3), [{}], "naive", False),
    ],
)
def test_a_model_that_takes_no_weights_is_said(make, model, candidates, method, said):
    adaptation = make.study(make.plan(model, candidates, method=method), [make.source("a")])
    assert ("no-training-weights" in codes(adaptation.findings)) == said


# Findings that come from elsewhere -----------------------------------------------------------


def test_a_warning_of_the_library_reaches_the_result(make):
    design = make.plan(Lasso(), {"alpha": [1e-9], "max_iter": [1]})
    adaptation = make.study(design, [make.source("a")])
    finding = one(adaptation.findings, "fit-warning")
    assert finding.source == "a"
    assert dict(finding.evidence) == {"warning": "ConvergenceWarning", "count": 5.0}


def test_a_ratio_at_the_edge_of_its_grid_reaches_the_result(make):
    ratio = {"regularizations": [1e3, 1e4, 1e5], "n_centres": 5, "bandwidths": [1.0]}
    design = make.plan(method="naive", exchange="rows", ratio=ratio, candidates=(0.0, 0.5))
    adaptation = make.study(design, [make.source("a")])
    edges = [dict(f.evidence) for f in adaptation.findings if f.code == "grid-edge"]
    assert {"parameter": "regularization", "value": 1e3} in edges


def test_a_source_far_away_is_called_so(make):
    def sources():
        return [make.source("near"), make.source("far", make.rows(60, 3, shift=40.0))]

    adaptation = make.study(sources=sources())
    assert "no-overlap" in codes(adaptation.findings, "far")
    assert "no-overlap" not in codes(adaptation.findings, "near")
    by_rows = make.study(make.plan(method="fediwe", exchange="rows"), sources())
    assert "ratio-mean-off" in codes(by_rows.findings, "far")
    assert "ratio-mean-off" not in codes(by_rows.findings, "near")


def test_where_no_source_overlaps_the_default_method_refuses_and_names_the_nearest(make):
    sources = [
        make.source("far", make.rows(60, 3, shift=9.0)),
        make.source("farther", make.rows(60, 4, shift=30.0)),
    ]
    with pytest.raises(NoOverlapError, match=r"the nearest, 'far', .*'x[01]'"):
        make.study(sources=sources)


def test_who_insists_gets_a_model_without_an_interval(make):
    sources = [make.source("far", make.rows(60, 3, shift=30.0))]
    adaptation = make.study(make.plan(on_no_overlap="predict"), sources)
    assert adaptation.status == "do not use it"
    assert (adaptation.promise, adaptation.interval) == (None, None)
    assert "no-overlap" in codes(adaptation.findings, "far")
    assert adaptation.predict(make.rows(3)[0]).shape == (3,)


def test_every_finding_can_be_read_aloud(make):
    sources = [make.source("near"), make.source("far", make.rows(60, 3, shift=40.0))]
    adaptation = make.study(make.plan(method="feddae", exchange="rows"), sources)
    assert len(adaptation.findings) > 4
    for finding in adaptation.findings:
        text = str(finding)
        assert text.startswith(finding.code)
        assert finding.advice in text
        assert finding.severity in ("note", "warning", "danger")


def test_judging_again_finds_the_same_and_changes_nothing(make):
    adaptation = crafted_study(make, trio(make), a=(np.zeros(N), LOSSES))
    assert findings_of(adaptation) == adaptation.findings
    assert findings_of(dataclasses.replace(adaptation, noted=())) == adaptation.findings


# Rows and tables ------------------------------------------------------------------------------


def test_a_row_of_a_fifth_of_the_weight_or_half_of_its_variance_is_named(make):
    """Among 99 equal others, a share of 0.1 has 0.55 of the variance, one of 0.08 has 0.43."""
    for share, heavy in ((0.08, False), (0.1, True), (0.22, True)):
        ratios = np.full(100, (1.0 - share) / 99)
        ratios[0] = share
        losses = RNG.gamma(1.0, size=(100, 3))
        adaptation = crafted_study(make, make.plan(), a=(ratios, losses))
        evidence = [dict(f.evidence) for f in adaptation.findings if f.code == "heavy-row"]
        assert evidence == ([{"share": pytest.approx(share)}] if heavy else [])


@pytest.mark.parametrize(("width", "narrow"), [(0.2, True), (0.5, False)])
def test_a_table_that_is_narrow_beside_a_source_is_named(make, width, narrow):
    X = make.rows(60, 5)[0] * [width, 1.0]
    sources = [make.source(name, make.rows(400, i)) for i, name in enumerate("abc")]
    adaptation = make.study(sources=sources, X=X)
    named = [f for f in adaptation.findings if f.code == "narrow-table"]
    assert [f.source for f in named] == (["a", "b", "c"] if narrow else [])
    assert all(dict(f.evidence) == {"features": 1.0} for f in named)


def test_a_column_in_another_unit_is_named_with_the_conversion(make):
    X, y = make.rows(200)
    plan = make.plan(on_no_overlap="predict")
    own = make.source("a", (X + 10.0, y)), make.source("b", ((X + 10.0) * [1.0, 88.4], y))
    adaptation = make.study(plan, sources=own, X=X[:60] + 10.0)
    [found] = [f for f in adaptation.findings if f.code == "other-unit"]
    words = "looks like µmol/L where the target's is mg/dL: divide by 88.4"
    assert (found.source, dict(found.evidence)) == ("b", {"x1": words})
    of_b = [f.code for f in adaptation.findings if f.source == "b"]
    assert (of_b[0], len(of_b) > 1) == ("other-unit", True)  # the cause of the others


@pytest.mark.parametrize(("patients", "small"), [(0, False), (3, True), (5, False), (60, False)])
def test_a_level_of_few_of_the_targets_patients_is_named(make, patients, small):
    def flagged(X, share):
        rows = X.copy()
        rows[:, 1] = np.arange(len(X)) < share * len(X)
        return rows

    X = flagged(make.rows(60, 5)[0], patients / 60)
    sources = []
    for i, name in enumerate("abc"):
        rows, y = make.rows(100, i)
        sources.append(make.source(name, (flagged(rows, 0.3), y)))
    plan = make.plan(flags=(False, True), on_no_overlap="predict")
    adaptation = make.study(plan, sources, X=X)
    found = [dict(f.evidence) for f in adaptation.findings if f.code == "small-level"]
    assert found == ([{"column": plan.features[1], "patients": 3.0}] if small else [])


def correlated(make, seed, rho, n=300):
    X, _ = make.rows(n, seed)
    X[:, 1] = rho * X[:, 0] + np.sqrt(1.0 - rho**2) * X[:, 1]
    return X, X.sum(axis=1) + np.random.default_rng(seed).normal(size=n)


@pytest.mark.parametrize(("other", "differ"), [(-0.6, True), (0.1, True), (0.5, False)])
def test_sources_whose_correlations_differ_are_named(make, other, differ):
    sources = [
        make.source("a", correlated(make, 1, 0.6)),
        make.source("b", correlated(make, 2, other)),
    ]
    adaptation = make.study(sources=sources, n=40)  # too few rows to tell correlations
    found = [f for f in adaptation.findings if f.code == "correlations-differ"]
    assert [f.source for f in found] == (["a"] if differ else [])
    if differ:
        evidence = dict(found[0].evidence)
        assert (evidence["other source"], evidence["features"]) == ("b", "x0, x1")
        assert evidence["here"] == pytest.approx(0.6, abs=0.15)
        assert evidence["there"] == pytest.approx(other, abs=0.15)


def test_correlations_that_the_target_tells_are_weighted_for_instead(make):
    sources = [
        make.source("a", correlated(make, 1, 0.6)),
        make.source("b", correlated(make, 2, -0.6)),
    ]
    adaptation = make.study(sources=sources, n=50)  # 2·2 + 1 numbers, ten rows each
    assert adaptation.table.correlations is not None
    assert all(len(report.correlations) == 0 for report in adaptation.reports.values())
    assert "correlations-differ" not in codes(adaptation.findings)


def test_few_rows_show_no_difference_of_correlations(make):
    sources = [
        make.source("a", correlated(make, 1, 0.6, 14)),
        make.source("b", correlated(make, 2, -0.3, 14)),
    ]
    adaptation = make.study(make.plan(on_no_overlap="predict"), sources, n=40)
    assert "correlations-differ" not in codes(adaptation.findings)


# All of them ----------------------------------------------------------------------------------

#: Raised by what a back-test or outcomes at the target show, and tested there.
ELSEWHERE = {
    "backtest-failed", "backtest-untested", "promise-broken", "ranks-backwards",
    "unlike-sources", "outcomes-worse", "outcomes-same", "few-outcomes",
    "outcomes-selective", "answers-missing", "beyond-list", "outcome-unit",
    "outcomes-far", "intervals-narrow",
}  # fmt: skip


def test_every_code_of_the_catalogue_is_raised_in_the_tests_of_source_and_target():
    tests = Path(__file__).parents[1]
    told = "".join(
        p.read_text() for d in ("source", "target") for p in (tests / d).glob("test_*.py")
    )
    assert set(CATALOGUE) >= ELSEWHERE
    for code in set(CATALOGUE) - ELSEWHERE:
        assert f'"{code}"' in told

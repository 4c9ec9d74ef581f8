"""Every danger has a name, shows up where it should, and does not where it should not."""

import dataclasses

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, Lasso
from sklearn.tree import DecisionTreeRegressor

from fedcsa.errors import NoOverlapError
from fedcsa.findings import CATALOGUE
from fedcsa.roles.judgement import judge

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
    return target.conclude({name: site.answer(request) for name, site in sources.items()})


def test_a_calm_study_has_no_finding(make):
    adaptation = crafted_study(make, make.plan(candidates=({}, {"penalty": 0.5}, {})))
    assert adaptation.findings == ()


# Sources -------------------------------------------------------------------------------------


def trio(make, method="feddae", candidates=(0.0, 0.1, 1.0)):
    return make.plan(method=method, candidates=candidates)


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
    plan = make.plan("weighted-least-squares", powers, method="naive")
    expected = [] if edge is None else [{"parameter": "ratio_power", "value": edge}]
    assert edge_findings(make, plan, index) == expected


def test_every_parameter_of_the_candidate_is_looked_at(make):
    plan = make.plan(
        ElasticNet(), {"alpha": [0.1, 0.2, 0.3], "l1_ratio": [0.2, 0.5, 0.7]}, method="naive"
    )
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
        exchange="embedding",
    )
    assert edge_findings_of_trees(make, plan, 0) == []
    assert edge_findings_of_trees(make, plan, 2) == []  # two numbers are no grid


def edge_findings_of_trees(make, plan, index):
    target = make.target(plan, trusted_types=("sklearn.tree._tree.Tree",))
    brief = target.brief(["a"])
    X, y = make.rows(30)
    site = make.source("a", (X, y - y.min() + 1.0))
    report = make.crafted(site.answer(brief), *best(index))
    adaptation = target.conclude({"a": site.answer(target.choose({"a": report}))})
    return [f for f in adaptation.findings if f.code == "grid-edge"]


def test_truth_values_are_not_numbers_on_a_grid(make):
    plan = make.plan(
        Lasso(0.01), [{"fit_intercept": True}, {"fit_intercept": False}, {}], method="naive"
    )
    assert edge_findings(make, plan, 0) == []


# Findings that come from elsewhere -----------------------------------------------------------


def test_a_warning_of_the_library_reaches_the_result(make):
    design = make.plan(Lasso(), {"alpha": [1e-9], "max_iter": [1]})
    adaptation = make.study(design, [make.source("a")])
    finding = one(adaptation.findings, "fit-warning")
    assert finding.source == "a"
    assert dict(finding.evidence) == {"warning": "ConvergenceWarning", "count": 1.0}


def test_a_ratio_at_the_edge_of_its_grid_reaches_the_result(make):
    design = make.plan(ratio={"regularizations": [1e3, 1e4]}, candidates=(0.0, 0.5))
    adaptation = make.study(design, [make.source("a")])
    edges = [dict(f.evidence) for f in adaptation.findings if f.code == "grid-edge"]
    assert {"parameter": "regularization", "value": 1e3} in edges


@pytest.mark.parametrize("model", ["ridge", Lasso()])
@pytest.mark.parametrize(
    ("grid", "told"), [(None, False), (np.logspace(-4.0, 0.5, 10).tolist(), True)]
)
def test_the_edge_of_the_rules_own_grid_is_not_told(make, model, grid, told, monkeypatch):
    """The same λ is chosen; only who chose the values differs."""
    candidates = (0.0, 0.5) if model == "ridge" else {"alpha": [0.1, 0.2]}
    options = {} if grid is None else {"ratio": {"regularizations": grid}}
    monkeypatch.setattr("fedcsa.core.guard.embedding_scores", lambda *_: np.arange(10.0))
    design = make.plan(model, candidates, method="guarded", **options)
    adaptation = make.study(design, [make.source("a")])
    edges = [dict(f.evidence) for f in adaptation.findings if f.code == "grid-edge"]
    assert ({"parameter": "regularization", "value": pytest.approx(1e-4)} in edges) == told


def test_a_target_that_announces_more_than_a_third_of_its_cells_is_warned(make):
    adaptation = make.study(n=10)
    finding = one(adaptation.findings, "release-budget")
    assert finding.evidence["cells"] == 20.0
    assert finding.evidence["numbers"] > 20.0 / 3.0
    assert finding.source == ""
    assert "release-budget" not in codes(make.study(n=40).findings)
    rows = make.study(make.plan(exchange="rows"), n=10)
    assert "release-budget" not in codes(rows.findings)


def test_a_source_far_away_is_called_so(make):
    sources = [make.source("near"), make.source("far", make.rows(60, 3, shift=40.0))]
    adaptation = make.study(make.plan(method="feddae"), sources)
    found = codes(adaptation.findings, "far")
    assert {"zero-ratio", "no-overlap", "few-effective-rows", "ratio-mean-off"} <= set(found)
    assert "zero-ratio" not in codes(adaptation.findings, "near")


def test_where_no_source_overlaps_the_guarded_method_refuses_and_names_the_nearest(make):
    sources = [
        make.source("far", make.rows(60, 3, shift=9.0)),
        make.source("farther", make.rows(60, 4, shift=30.0)),
    ]
    text = "the nearest, 'far', still lies .* standard deviations off in 'x[01]' after weighting"
    with pytest.raises(NoOverlapError, match=text):
        make.study(make.plan(method="guarded"), sources)


def test_who_insists_gets_a_model_without_an_interval(make):
    sources = [make.source("far", make.rows(60, 3, shift=30.0))]
    design = make.plan(method="guarded", on_no_overlap="predict")
    adaptation = make.study(design, sources)
    assert adaptation.status == "no overlap"
    assert adaptation.interval is None
    assert "no-overlap" in codes(adaptation.findings, "")
    assert adaptation.predict(make.rows(3)[0]).shape == (3,)


def test_every_finding_can_be_read_aloud(make):
    sources = [make.source("near"), make.source("far", make.rows(60, 3, shift=40.0))]
    adaptation = make.study(make.plan(method="feddae"), sources, n=10)
    assert len(adaptation.findings) > 4
    for finding in adaptation.findings:
        text = str(finding)
        assert text.startswith(finding.code)
        assert finding.advice in text
        assert finding.severity in ("note", "warning", "danger")


def test_judging_again_finds_the_same_and_changes_nothing(make):
    adaptation = crafted_study(make, trio(make), a=(np.zeros(N), LOSSES))
    assert judge(adaptation) == adaptation.findings
    assert judge(dataclasses.replace(adaptation, findings=())) == adaptation.findings


def test_the_codes_tested_here_are_all_in_the_catalogue():
    tested = {
        "zero-ratio", "constant-ratio", "zero-divergence", "ratio-mean-off", "few-effective-rows",
        "imbalance", "no-overlap", "dominant-source", "grid-edge", "candidate-failed",
        "fit-warning", "source-refused", "release-budget",
    }  # fmt: skip
    assert tested <= set(CATALOGUE)


# The verdict of the guarded method -----------------------------------------------------------


def test_sources_that_contradict_each_other_are_called_so(make):
    X, y = make.rows(120, 1)
    other, z = make.rows(120, 2)
    sources = [make.source("a", (X, y)), make.source("b", (other, 5.0 - 4.0 * z))]
    adaptation = make.study(make.plan(method="guarded"), sources, n=60)
    assert adaptation.status == "sources disagree"
    finding = one(adaptation.findings, "sources-disagree")
    assert set(finding.evidence) == {"ambiguity", "average risk"}


def test_sources_that_resemble_the_target_roughly_are_called_so(make):
    # of noisy rows, so that the sources' models differ by less than the noise
    sources = []
    for name in "ab":
        X, _ = make.rows(12, ord(name), shift=1.5)
        noise = np.random.default_rng(ord(name)).normal(size=12)
        sources.append(make.source(name, (X, 10.0 * noise)))
    design = make.plan(method="guarded", candidates=(50.0, 60.0))
    adaptation = make.study(design, sources, n=60)
    assert adaptation.status == "weak overlap"
    assert "weak-overlap" in codes(adaptation.findings, "")


def test_a_mixture_without_a_known_interval_is_called_so(make):
    sources = [make.source(name, make.rows(60, i)) for i, name in enumerate("abcd")]
    design = make.plan(method="guarded", combine="median")
    adaptation = make.study(design, sources, n=60)
    finding = one(adaptation.findings, "not-certified")
    assert dict(finding.evidence) == {"combine": "median"}
    assert adaptation.interval is None

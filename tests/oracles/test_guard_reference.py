"""The guarded rule agrees with a slow second writing of its formulas, to 1e-9."""

import importlib.util
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from fedcsa import FedCSA
from fedcsa.core.folds import fold_key, fold_labels, generator_for

HERE = Path(__file__).parent
REFERENCE = HERE.parents[2] / "shared" / "guard_reference.py"
THETAS = (0.0, 0.1, 1.0)
NINE = tuple((gamma, theta) for gamma in (0.0, 0.5, 1.0) for theta in THETAS)
SIZES = (47, 61, 40, 55, 44, 72)


def load(path):
    spec = importlib.util.spec_from_file_location(f"_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


loops = load(HERE / "guard_loops.py")


@cache
def consortium(K, d, shift=0.25, n_target=41, seed=3):
    """K sources of unequal size around the target, and a bent truth that no line fits."""
    rng = np.random.default_rng([seed, K, d])

    def site(mean, rows):
        X = 5.0 + 2.0 * rng.normal(mean, 1.0, (rows, d))
        bent = np.abs(X[:, 0] - 5.0)
        return X, X.sum(axis=1) + bent + rng.normal(size=rows)

    means = shift * (np.arange(K) - (K - 1) / 2.0)
    sources = {f"s{j}": site(means[j], SIZES[j]) for j in range(K)}
    return sources, site(0.0, n_target)[0]


def fitted(sources, target, candidates, seed=11, first=False, **options):
    """Our answer; the first rule is ours without caution and without noise numbers."""
    grid = [{"penalty": theta, "ratio_power": gamma} for gamma, theta in candidates]
    options = {"scale": False, "on_no_overlap": "predict", **options}
    with ExitStack() as stack:
        if first:
            stack.enter_context(patch("fedcsa.roles.estimation.CAUTION", 0.0))
            stack.enter_context(patch("fedcsa.roles.target.prediction_variances", lambda _: None))
        return FedCSA(candidates=grid, random_state=seed, **options).fit(sources, target)


def folds_of(sources, seed=11, n_folds=5):
    dealt = {}
    for name, (_, y) in sources.items():
        labels = fold_labels(0, len(y), n_folds, fold_key(generator_for(seed, name, "folds")))
        dealt[name] = [np.flatnonzero(labels == k) for k in range(n_folds)]
    return dealt


class Dealt:
    """For the reference, which shuffles rows and cuts: a shuffle that is cut into `folds`."""

    def __init__(self, folds):
        self.folds = sorted(folds, key=len, reverse=True)  # it cuts the larger folds first

    def permutation(self, n):
        order = np.concatenate(self.folds)
        assert len(order) == n
        return order


def assert_agrees(estimator, oracle, rows):
    """Everything the oracle knows, to nine digits."""
    result = estimator.adaptation_

    def close(ours, theirs):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)

    for name, theirs in oracle["reports"].items():
        ours = result.reports[name]
        assert ours.n_rows == theirs["n"]
        close(ours.effective_rows, theirs["ess"])
        close(ours.kernel_imbalance, theirs["delta2"])
        close(ours.imbalance, theirs["iota"])
        close(ours.ratio_mean, theirs["mean_ratio"])
        close(ours.product_mean[:-1] / ours.ratio_mean, theirs["f"])
        close(ours.variance[:-1], theirs["v"])
        close(np.minimum(ours.loss_m2 / ours.n_validation, ours.spread)[:-1], theirs["V"])
        close(ours.explained[:-1], theirs["Vx"])
    estimate, risk = result.estimates["guarded"], result.risk
    close(estimate.risk, oracle["curve"])
    assert estimate.chosen == oracle["chosen"]
    close(estimate.source_weights, np.array(oracle["m"]) / sum(oracle["m"]))
    close(list(estimator.source_weights_.values()), oracle["weights"])
    close(risk.risk, oracle["risk"])
    assert (risk.site is None) == (oracle["site"] is None)
    if risk.site is not None:
        close(risk.site, oracle["site"])
        sent = [result.model_reports[name].prediction_variance for name in sorted(result.models)]
        close(sent, [theirs["s2"][oracle["chosen"]] for theirs in oracle["reports"].values()])
    close(risk.average, oracle["average"])
    close(risk.ambiguity, oracle["ambiguity"])
    close(risk.standard_error, oracle["se"])
    close(risk.worst, oracle["worst"])
    close(risk.target_rows, oracle["target_rows"])
    close(risk.kernel_imbalance, oracle["kernel"])
    close(risk.mean_imbalance, oracle["iota"])
    assert estimator.status_ == oracle["status"]
    if estimator.status_ == "no overlap":
        assert estimator.interval_ is None
    else:
        close(estimator.interval_, (oracle["lower"], oracle["upper"]))
    close(estimator.predict(rows), oracle["predict"](rows))


@pytest.mark.parametrize("d", [1, 4, 10])
@pytest.mark.parametrize("K", [1, 2, 3, 6])
@pytest.mark.parametrize("first", [False, True])
def test_the_guarded_rule_equals_its_slow_loops(K, d, first):
    sources, target = consortium(K, d)
    oracle = loops.run(sources, target, NINE, folds_of(sources), seed=11, first=first)
    assert_agrees(fitted(sources, target, NINE, first=first), oracle, target[:7] + 0.3)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
def test_the_model_of_every_training_power_equals_that_of_the_loops(gamma):
    sources, target = consortium(3, 2, shift=0.8)
    candidates = [(gamma, theta) for theta in THETAS]
    oracle = loops.run(sources, target, candidates, folds_of(sources), seed=11)
    assert_agrees(fitted(sources, target, candidates), oracle, target[:7])


def test_a_scaled_study_equals_the_loops_on_standardised_columns():
    sources, target = consortium(3, 3)
    mean, sd = target.mean(axis=0), target.std(axis=0)
    seen = {name: ((X - mean) / sd, y) for name, (X, y) in sources.items()}
    oracle = loops.run(seen, (target - mean) / sd, NINE, folds_of(sources), seed=11)
    oracle["predict"] = lambda X, inner=oracle["predict"]: inner((X - mean) / sd)
    assert_agrees(fitted(sources, target, NINE, scale=True), oracle, target[:7])


@pytest.mark.parametrize(("level", "seed", "n_folds"), [(0.5, 2, 3), (0.99, 9, 7)])
def test_level_seed_and_number_of_folds_enter_as_in_the_loops(level, seed, n_folds):
    sources, target = consortium(2, 2)
    folds = folds_of(sources, seed, n_folds)
    oracle = loops.run(sources, target, NINE[:3], folds, seed=seed, level=level)
    ours = fitted(sources, target, NINE[:3], seed=seed, level=level, folds=n_folds)
    assert_agrees(ours, oracle, target[:7])


@pytest.mark.parametrize(
    ("shift", "tilt", "away", "expected"),
    [
        (0.1, 0.0, 0.0, "ok"),
        (0.1, 4.0, 0.0, "sources disagree"),
        (0.6, 0.0, 5.0, "weak overlap"),
        (0.6, 0.0, 30.0, "no overlap"),
    ],
)
@pytest.mark.parametrize("first", [False, True])
def test_every_verdict_is_that_of_the_loops(shift, tilt, away, expected, first):
    sources, target = consortium(4, 2, shift=shift, n_target=60)
    target = target + away
    signs = dict(zip(sources, (1.0, -1.0, 1.0, -1.0), strict=True))
    sources = {
        name: (X, y + tilt * signs[name] * (X[:, 1] - 5.0)) for name, (X, y) in sources.items()
    }
    oracle = loops.run(sources, target, NINE[:3], folds_of(sources), seed=11, first=first)
    ours = fitted(sources, target, NINE[:3], first=first)
    assert ours.status_ == expected
    assert_agrees(ours, oracle, target[:7])


@pytest.mark.parametrize(("K", "d"), [(1, 1), (2, 4), (4, 3)])
def test_without_caution_and_noise_the_rule_is_that_of_the_projects_reference_file(K, d):
    if not REFERENCE.is_file():
        pytest.skip("the reference implementation is not beside the project")
    reference = load(REFERENCE)
    sources, target = consortium(K, d)
    ours = fitted(sources, target, NINE, first=True)
    # Its ridge adds 1e-10 to every penalty.
    candidates = [(gamma, theta - 1e-10) for gamma, theta in NINE]
    brief = reference.make_brief(target, seed=11)
    sent = [
        reference.source_report(
            X, y, brief, candidates, reference.ridge, rng=Dealt(folds_of(sources)[name])
        )
        for name, (X, y) in sorted(sources.items())
    ]
    reports = [numbers for numbers, _ in sent]
    shares, curve, chosen = reference.choose(reports)
    models = [model(chosen) for _, model in sent]
    out = reference.conclude(reports, chosen, np.column_stack([h(target) for h in models]))
    oracle = {
        "reports": {
            name: {**numbers, "Vx": numbers["V_expl"]}
            for name, numbers in zip(sorted(sources), reports, strict=True)
        },
        "curve": curve, "chosen": chosen, "m": shares, "weights": out["weights"],
        "risk": out["risk"], "average": out["average_risk"], "ambiguity": out["ambiguity"],
        "se": out["se"], "worst": ours.adaptation_.risk.worst, "lower": out["interval"][0],
        "upper": out["interval"][1], "target_rows": out["target_rows"], "status": out["status"],
        "kernel": out["delta2"], "iota": out["iota"], "site": None,
        "predict": lambda X: np.column_stack([h(X) for h in models]) @ out["weights"],
    }  # fmt: skip
    assert_agrees(ours, oracle, target[:7])

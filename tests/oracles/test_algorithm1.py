"""``preset="paper"`` is Algorithm 1: a second writing of it chooses and predicts the same."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from fedcsa import FedCSA


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


oracle = load(Path(__file__).parent / "algorithm1.py")
algorithm1, ridge, flattened = oracle.algorithm1, oracle.ridge, oracle.flattened

MODELS = {"ridge": ridge, "weighted-least-squares": flattened}
THETA = [k / 100 for k in range(101)]


def study(seed):
    """Two to four sources of one to six features, and what else varies, by a seed alone."""
    rng = np.random.default_rng(1800 + seed)
    k, d = 2 + seed % 3, 1 + seed % 6
    n_target = 105 if seed == 19 else int(rng.integers(14, 26))  # more rows than centres, once
    units = rng.uniform(0.5, 3.0, d)
    slopes = rng.normal(size=d)

    def site(mean, rows):
        X = rng.normal(mean, rng.uniform(0.8, 1.6), (rows, d))
        y = X @ slopes + 0.3 * X[:, 0] ** 2 + rng.normal(size=rows)
        return X * units, y

    means = rng.uniform(-0.5, 1.5, k)
    sources = {
        f"site {'dbca'[j]}": site(mean, int(rng.integers(33, 60))) for j, mean in enumerate(means)
    }
    X_target, _ = site(0.3, n_target)
    model = list(MODELS)[seed % 2]
    shares = (1 / 3, 1 / 3, 1 / 3) if seed % 4 < 2 else (0.21, 0.49, 0.30)
    return sources, X_target, model, shares


@pytest.mark.parametrize("seed", range(20))
def test_the_preset_chooses_and_predicts_as_algorithm_1_written_again(seed):
    sources, X_target, model, shares = study(seed)
    expected = algorithm1(X_target, sources, THETA, MODELS[model], seed, shares)
    folds = {} if shares[0] == shares[1] else {"folds": shares}
    found = FedCSA(model, preset="paper", random_state=seed, **folds).fit(sources, X_target)
    [chosen] = found.candidate_.values()
    assert chosen == expected.theta
    np.testing.assert_allclose(found.adaptation_.estimate.risk, expected.risk, rtol=1e-8)
    weights = [found.source_weights_[name] for name in sorted(sources)]
    np.testing.assert_allclose(weights, expected.alpha, rtol=1e-8, atol=1e-12)
    rows = np.vstack([X_target, *(X for X, _ in sources.values())])
    np.testing.assert_allclose(found.predict(rows), expected.predict(rows), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("method", ["fediwe", "naive"])
@pytest.mark.parametrize("seed", [1, 4])
def test_the_other_estimates_of_the_paper_agree_as_well(seed, method):
    sources, X_target, model, shares = study(seed)
    expected = algorithm1(X_target, sources, THETA, MODELS[model], seed, shares, method)
    options = {"preset": "paper", "method": method, "folds": shares, "random_state": seed}
    found = FedCSA(model, **options).fit(sources, X_target)
    assert list(found.candidate_.values()) == [expected.theta]
    np.testing.assert_allclose(found.adaptation_.estimate.risk, expected.risk, rtol=1e-8)
    np.testing.assert_allclose(found.predict(X_target), expected.predict(X_target), rtol=1e-8)


def test_the_studies_are_not_all_decided_at_an_edge():
    chosen, weights = [], []
    for seed in range(6):
        sources, X_target, model, shares = study(seed)
        found = algorithm1(X_target, sources, THETA, MODELS[model], seed, shares)
        chosen.append(found.theta)
        weights.append(found.alpha.max())
    assert len(set(chosen)) > 2
    assert min(weights) < 0.9

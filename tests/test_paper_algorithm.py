"""The whole method of the paper, written again slowly, agrees with a run to the twelfth digit.

Only the folds and the density ratios are borrowed; every sum is a loop, every linear system is
solved in exact fractions.
"""

import itertools
import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest

from fedcsa.core.folds import dealt_labels, fold_key, fold_labels, generator_for, turns
from fedcsa.core.table import Table1
from fedcsa.core.tilt import fit_tilt
from fedcsa.core.ulsif import ULSIF
from fedcsa.messages.policy import Policy
from fedcsa.plan import Plan
from fedcsa.run import InProcess, run_study
from fedcsa.source.source import Source
from fedcsa.target.target import Target

SEED = 11
CANDIDATES = tuple(
    {"penalty": penalty, "ratio_power": power}
    for penalty, power in itertools.product((0.0, 0.05, 1.0), (0.0, 0.5))
)
EXACT = {"rtol": 1e-12, "atol": 1e-12}


# The data ----------------------------------------------------------------------------------------


def sites(sizes, d, seed=6):
    """Sources of unequal size and different means, and a target between them."""
    rng = np.random.default_rng(seed)
    sources = {}
    for index, n in enumerate(sizes):
        X = rng.normal(0.3 * index - 0.2, 1.2, size=(n, d)) * 3.0 + 10.0
        y = X @ np.linspace(1.0, -1.0, d) + 0.05 * (X[:, 0] - 10.0) ** 2 + rng.normal(size=n)
        sources[f"site-{'cab'[index]}"] = (X, y)
    return sources, rng.normal(0.2, 1.0, size=(17, d)) * 3.0 + 10.0


# The paper, slowly -------------------------------------------------------------------------------


def mean(values):
    values = list(values)
    return math.fsum(values) / len(values)


def solve(matrix, right):
    """Gauss and Jordan, in fractions."""
    rows = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    for column in range(len(rows)):
        pivot = max(range(column, len(rows)), key=lambda r: abs(rows[r][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [value / rows[column][column] for value in rows[column]]
        for other in range(len(rows)):
            if other != column:
                factor = rows[other][column]
                pairs = zip(rows[other], rows[column], strict=True)
                rows[other] = [a - factor * b for a, b in pairs]
    return [line[-1] for line in rows]


def ridge(X, y, weights, penalty):
    """argmin Σ w(y − b₀ − x'b)²/Σw + θ‖b‖², the intercept free: (02) with the paper's mean."""
    w = [Fraction(float(value)) for value in weights]
    total = sum(w)
    w = [value / total for value in w]
    rows = [[Fraction(1), *(Fraction(float(cell)) for cell in row)] for row in X]
    outcome = [Fraction(float(value)) for value in y]
    size = len(rows[0])
    matrix = [
        [sum(w[i] * rows[i][j] * rows[i][k] for i in range(len(w))) for k in range(size)]
        for j in range(size)
    ]
    for j in range(1, size):
        matrix[j][j] += Fraction(penalty)
    right = [sum(w[i] * rows[i][j] * outcome[i] for i in range(len(w))) for j in range(size)]
    return [float(value) for value in solve(matrix, right)]


def predict(model, row):
    return math.fsum([model[0], *(b * x for b, x in zip(model[1:], row, strict=True))])


class Fold(NamedTuple):
    density: np.ndarray
    train: np.ndarray
    validation: np.ndarray


def table_of(X_target, plan):
    return Table1.of(X_target, plan.features, plan.flags)


def units(X_target, plan):
    """Centre and spread: the target's own, or those of its table."""
    if plan.exchange == "rows":
        return X_target.mean(axis=0), X_target.std(axis=0)
    table = table_of(X_target, plan)
    return table.mean, table.sd


class SlowSource:
    """Steps 1 to 3 of the algorithm at one source."""

    def __init__(self, name, X, y, X_target, plan):
        self.name, self.y, self.plan = name, y, plan
        self.centre, self.spread = units(X_target, plan)
        self.z = (X - self.centre) / self.spread
        self.X = self.z if plan.scale else X
        self.X_target = X_target
        rng = generator_for(SEED, name, "folds")
        n_folds, shares = plan.design()["n_folds"], plan.design()["shares"]
        if plan.scheme == "cross-fit":
            labels = fold_labels(0, len(X), n_folds, fold_key(rng))
        else:
            labels = dealt_labels(len(X), rng, shares)
        self.folds = [
            Fold(*(np.flatnonzero(np.isin(labels, part)) for part in (t.density, t.train, t.judge)))
            for t in turns(plan.scheme, n_folds)
        ]
        self.ratios = [self.ratio(turn, fold.density) for turn, fold in enumerate(self.folds)]

    def ratio(self, turn, density):
        """r̂ of every row, learnt from the density fold; n·w of all rows with a table."""
        if self.plan.exchange == "table":
            table = table_of(self.X_target, self.plan)
            tilt = fit_tilt([self.z], np.array(table.flags), table.correlations)
            return len(self.z) * tilt.weights(self.z)
        rng = generator_for(SEED, self.name, f"ratio-{turn}")
        target = self.X_target
        if self.plan.scale:
            target = (target - self.centre) / self.spread
        fitted = ULSIF(**self.plan.ratio, random_state=rng).fit(self.X[density], target)
        return fitted.predict(self.X)

    def fit(self, rows, ratios, candidate):
        floor = 1e-3 if self.plan.exchange == "table" else 0.0
        weights = [max(r, floor) ** candidate["ratio_power"] for r in ratios]
        return ridge(self.X[rows], self.y[rows], weights, candidate["penalty"])

    def terms(self, candidate):
        """n, mean(L), f_IW, f_CV and Div over the validation rows."""
        r, losses = [], []
        for fold, ratios in zip(self.folds, self.ratios, strict=True):
            model = self.fit(fold.train, ratios[fold.train], candidate)
            for i in fold.validation:
                r.append(float(ratios[i]))
                losses.append((predict(model, self.X[i]) - float(self.y[i])) ** 2)
        product = [a * b for a, b in zip(r, losses, strict=True)]
        r_mean, product_mean = mean(r), mean(product)
        covariance = mean(
            (p - product_mean) * (x - r_mean) for p, x in zip(product, r, strict=True)
        )
        eta = -covariance / mean((x - r_mean) ** 2 for x in r)
        corrected = [p + eta * (x - 1.0) for p, x in zip(product, r, strict=True)]
        f_cv = mean(corrected)
        return {
            "n": len(r),
            "naive": mean(losses),
            "fediwe": product_mean,
            "f_cv": f_cv,
            "divergence": mean((value - f_cv) ** 2 for value in corrected),
        }

    def model(self, candidate):
        """What is sent at the chosen candidate."""
        if not self.plan.refit:
            train = self.folds[0].train
            return self.fit(train, self.ratios[0][train], candidate)
        everyone = np.arange(len(self.X))
        ratios = np.array(self.ratios[0])
        for fold, found in zip(self.folds, self.ratios, strict=True):
            if len(self.folds) > 1:  # every row by the ratio that has not seen it
                ratios[fold.validation] = found[fold.validation]
        return self.fit(everyone, ratios, candidate)


def slow_study(sources, X_target, plan):
    """Risk and weights of every candidate, the choice, and the combined prediction."""
    names = sorted(sources)
    slow = {name: SlowSource(name, *sources[name], X_target, plan) for name in names}
    risks, weights = [], []
    for candidate in plan.candidates:
        terms = {name: slow[name].terms(candidate) for name in names}
        if plan.method == "feddae":
            shares = [terms[name]["n"] / terms[name]["divergence"] for name in names]
        elif plan.method == "fedle":
            shares = [plan.fedle_weights[name] for name in names]
        else:
            shares = [terms[name]["n"] for name in names]
        alpha = [share / math.fsum(shares) for share in shares]
        key = plan.method if plan.method in ("naive", "fediwe") else "f_cv"
        risks.append(math.fsum(a * terms[name][key] for a, name in zip(alpha, names, strict=True)))
        weights.append(alpha)
    chosen = min(range(len(risks)), key=risks.__getitem__)
    models = [slow[name].model(plan.candidates[chosen]) for name in names]

    def combined(row):
        centre, spread = units(X_target, plan)
        seen = (row - centre) / spread if plan.scale else row
        parts = zip(weights[chosen], models, strict=True)
        return math.fsum(a * predict(model, seen) for a, model in parts)

    return risks, weights, chosen, models, combined


# The comparison ----------------------------------------------------------------------------------

OPTIONS = {
    "split": {},
    "split-refit": {"refit": True},
    "shares": {"folds": (0.25, 0.45, 0.3)},
}
ROWS = {"bandwidths": [2.0, 4.0], "regularizations": [0.01, 0.1], "n_centres": 9}


@pytest.mark.parametrize("method", ["naive", "fediwe", "feddae", "fedle"])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize(
    ("exchange", "folds"), [*(("rows", folds) for folds in OPTIONS), ("table", "cross-fit")]
)
def test_a_run_equals_the_paper_written_slowly(method, scale, exchange, folds):
    sources, X_target = sites((19, 34, 25), 2)
    given = {"site-a": 0.2, "site-b": 0.5, "site-c": 0.3} if method == "fedle" else None
    agrees(sources, X_target, method, scale, exchange, folds, given)


@pytest.mark.parametrize(("sizes", "d"), [((15,), 1), ((12, 40), 1), ((30, 21), 4)])
@pytest.mark.parametrize("method", ["naive", "fediwe", "feddae"])
@pytest.mark.parametrize(("exchange", "folds"), [("rows", "split-refit"), ("table", "cross-fit")])
def test_one_source_one_feature_and_few_rows_are_ordinary(method, exchange, folds, sizes, d):
    sources, X_target = sites(sizes, d, seed=4)
    agrees(sources, X_target, method, True, exchange, folds, None)


def agrees(sources, X_target, method, scale, exchange, folds, fedle_weights):
    plan = Plan(
        features=tuple(f"x{i}" for i in range(X_target.shape[1])),
        model={"name": "ridge"},
        candidates=CANDIDATES,
        method=method,
        fedle_weights=fedle_weights,
        exchange=exchange,
        scale=scale,
        ratio=ROWS if exchange == "rows" else {},
        seed=SEED,
        **OPTIONS.get(folds, {}),
    )
    risks, weights, chosen, models, combined = slow_study(sources, X_target, plan)
    target = Target(X_target, plan, policy=Policy.open())
    transport = InProcess(
        [Source(name, X, y, policy=Policy.open()) for name, (X, y) in sources.items()]
    )
    adaptation = run_study(target, transport)
    np.testing.assert_allclose(adaptation.estimate.risk, risks, **EXACT)
    np.testing.assert_allclose(adaptation.estimate.weights, weights, **EXACT)
    assert adaptation.estimate.chosen == chosen
    assert adaptation.candidate == plan.candidates[chosen]
    np.testing.assert_allclose(adaptation.target_risk, risks[chosen], **EXACT)
    for name, model in zip(sorted(sources), models, strict=True):
        sent = adaptation.models[name]
        told = [*sent.arrays["intercept"], *sent.arrays["coefficients"]]
        np.testing.assert_allclose(told, model, **EXACT)
    rows = np.random.default_rng(3).normal(10.0, 3.0, size=(6, X_target.shape[1]))
    by_hand = [combined(row) for row in rows]
    np.testing.assert_allclose(adaptation.predict(rows), by_hand, **EXACT)


def test_the_cases_are_not_trivial():
    sources, X_target = sites((19, 34, 25), 2)
    plan = Plan(
        features=("x0", "x1"),
        model={"name": "ridge"},
        candidates=CANDIDATES,
        method="feddae",
        exchange="rows",
        ratio=ROWS,
        seed=SEED,
    )
    risks, weights, *_ = slow_study(sources, X_target, plan)
    assert len(set(risks)) == len(risks)
    assert np.ptp(weights, axis=0).min() > 1e-3  # the weights depend on the candidate
    assert np.min(weights) > 1e-3  # and no source is out of the game

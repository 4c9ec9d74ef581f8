"""The default method agrees with its rule, written a second time in plain loops, to 1e-9."""

import importlib.util
import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsRegressor

from fedcsa import FedCSA, InProcess, Plan, Policy, Source, Table1, Target, run_study


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


loops = load(Path(__file__).parent / "rule_loops.py")
study, table_of = loops.study, loops.table_of

EXACT = {"rtol": 1e-9, "atol": 1e-9}
SEED = 3
GRID = [
    {"penalty": penalty, "ratio_power": power}
    for power in (0.0, 0.5, 1.0)
    for penalty in (0.0, 0.01, 0.3)
]
#: As deep as scikit-learn can: then nothing depends on where it stops.
LOGISTIC = {"solver": "newton-cholesky", "tol": 1e-13, "max_iter": 200}


# Consortia ----------------------------------------------------------------------------------


def population(rng, n, shift, d=2, flags=0, scale=1.0):
    """Numbers and flags, and an outcome that is nearly linear in them."""
    X = rng.normal(shift, scale, (n, d))
    marks = (rng.random((n, flags)) < 0.3 + 0.1 * np.tanh(shift)).astype(float)
    X = np.column_stack([X, marks])
    y = X @ np.linspace(1.0, -0.5, d + flags) + 0.3 * X[:, 0] ** 2 + rng.normal(size=n)
    return X, y


def consortium(sizes, shifts, *, n_target=60, seed=0, **options):
    rng = np.random.default_rng(seed)
    sources = {
        f"site-{k}": population(rng, n, shift, **options)
        for k, (n, shift) in enumerate(zip(sizes, shifts, strict=True))
    }
    return sources, population(rng, n_target, 0.2, **options)[0]


def levelled(rng, n, shift):
    """A number and a column of three levels, the first of which is the reference."""
    X = rng.normal(shift, 1.0, n)
    level = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    columns = np.column_stack([X, level == 1, level == 2]).astype(float)
    return columns, X + 0.5 * (level == 2) + rng.normal(size=n)


def level_consortium():
    rng = np.random.default_rng(4)
    sources = {f"site-{k}": levelled(rng, 40 + 9 * k, 0.3 * k) for k in range(3)}
    return sources, levelled(rng, 70, 0.3)[0]


def own_weight_consortium():
    """One source with far more than half of the worth."""
    return consortium((200, 25, 20, 30), (0.2, 0.6, -0.4, 0.1))


CASES = {
    "one source": lambda: consortium((50,), (0.0,)),
    "two sources": lambda: consortium((40, 70), (0.0, 0.5)),
    "two sources, one mostly its own": lambda: consortium((150, 30), (0.2, 0.5)),
    "many unequal sources": lambda: consortium(
        (60, 25, 90, 40, 31), (0.0, 0.4, -0.3, 0.8, 0.2), n_target=47
    ),
    "one source of most of the worth": own_weight_consortium,
    "flags": lambda: consortium((50, 64, 40), (0.0, 0.3, 0.5), flags=2),
    "flags alone": lambda: consortium((50, 64, 40), (0.0, 0.3, 0.5), d=0, flags=3),
    "levels": level_consortium,
    "correlations told": lambda: consortium((60, 45, 70), (0.1, 0.3, -0.2), d=3, n_target=120),
    "one number": lambda: consortium((30, 40, 35), (0.0, 0.4, 0.2), d=1),
    "a source out of reach": lambda: consortium((60, 50, 45, 55), (0.0, 0.3, 0.1, 4.0)),
    "rows beyond the clip": lambda: consortium((60, 50, 45, 40), (0.0, 0.3, 0.1, 36.0)),
}


def flags_in(sources, X_target):
    every = [*(X for X, *_ in sources.values()), X_target]
    return [
        bool(np.isin(np.vstack(every)[:, k], (0.0, 1.0)).all()) for k in range(X_target.shape[1])
    ]


@cache
def both(case):
    """The package's answer and the oracle's."""
    sources, X_target = CASES[case]()
    fitted = FedCSA(candidates=GRID, random_state=SEED).fit(sources, X_target)
    table = table_of(X_target.tolist(), flags_in(sources, X_target))
    slow = study(sources, table, GRID, rows=X_target, seed=SEED)
    return fitted.adaptation_, slow, table


# Comparison ---------------------------------------------------------------------------------


def close(got, expected, what):
    np.testing.assert_allclose(got, expected, **EXACT, err_msg=what)


def same_reports(adaptation, slow):
    for name, site in slow["sites"].items():
        report = adaptation.reports[name]
        close(report.effective_rows, site["ess"], "effective rows")
        close(report.largest_share, site["largest"], "largest share")
        close(report.difference_before, site["before"], "difference before")
        close(report.difference_after, site["left"], "difference after")
        close(report.imbalance, site["iota"], "imbalance")
        close(report.outcome_mean, np.atleast_1d(site["outcome"]), "outcome")
        for c, (f, v) in enumerate(zip(site["f"], site["v"], strict=True)):
            assert (f is None) == (str(c) in report.failed)
            if f is not None:
                close(report.risk[c], f, "risk")
                close(report.variance[c], v, "variance")


def same_choice(adaptation, slow):
    kept = [c for c, found in enumerate(slow["estimates"]) if found is not None]
    assert list(adaptation.kept) == kept
    close(adaptation.estimate.risk, [slow["estimates"][c][0] for c in kept], "estimate")
    close(adaptation.estimate.standard_errors, [slow["estimates"][c][1] for c in kept], "error")
    assert adaptation.kept[adaptation.estimate.chosen] == slow["chosen"]
    assert set(adaptation.source_weights) == set(slow["weights"])
    for name, weight in slow["weights"].items():
        close(adaptation.source_weights[name], weight, f"weight of {name}")


def same_examinations(adaptation, slow):
    assert set(adaptation.examinations) == set(slow["examined"])
    for name, found in slow["examined"].items():
        for field, value in found.items():
            close(getattr(adaptation.examinations[name], field), value, f"{field} at {name}")


def same_promise(adaptation, slow):
    assert list(adaptation.reaching) == slow["reaching"]
    if slow["promise"] is None:
        assert adaptation.promise is None
        return
    assert list(adaptation.promise.examined_by) == slow["reaching"]
    for field, value in slow["promise"].items():
        close(getattr(adaptation.promise, field), value, field)


def agree(adaptation, slow):
    same_reports(adaptation, slow)
    same_choice(adaptation, slow)
    same_examinations(adaptation, slow)
    same_promise(adaptation, slow)


# Ridge and squared loss ---------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_a_study_agrees_with_the_rule(case):
    adaptation, slow, table = both(case)
    told = adaptation.table
    assert told.n_rows == table["n"]
    close(told.mean, table["mean"], "means")
    close(told.sd, table["sd"], "sds")
    assert list(told.flags) == table["flags"]
    assert (told.correlations is None) == (table["R"] is None)
    if table["R"] is not None:
        close(told.correlations, table["R"], "correlations")
    agree(adaptation, slow)


def test_the_cases_are_what_they_are_called():
    asked = {case: both(case)[0] for case in CASES}
    assert asked["correlations told"].table.correlations is not None
    assert asked["many unequal sources"].table.correlations is None
    for case in ("one source of most of the worth", "two sources, one mostly its own"):
        assert max(asked[case].source_weights.values()) > 0.5
    assert max(asked["many unequal sources"].source_weights.values()) < 0.5
    assert "site-3" not in asked["a source out of reach"].reaching
    chosen = {both(case)[1]["chosen"] for case in CASES}
    assert len(chosen) > 2


@pytest.mark.parametrize("loss", ["absolute", "squared"])
def test_a_table_alone_gives_the_same_but_for_the_weights_of_models(loss):
    sources, X_target = CASES["many unequal sources"]()
    table = Table1.of(X_target, ["x0", "x1"], [False, False])
    fitted = FedCSA(candidates=GRID, random_state=SEED, loss=loss).fit(sources, table)
    told = table_of(X_target.tolist(), [False, False])
    slow = study(sources, told, GRID, seed=SEED, loss=loss)
    agree(fitted.adaptation_, slow)
    by_rows = FedCSA(candidates=GRID, random_state=SEED, loss=loss).fit(sources, X_target)
    for name, report in by_rows.adaptation_.reports.items():
        assert vars(fitted.adaptation_.reports[name]) is not vars(report)
        assert fitted.adaptation_.reports[name].risk.tolist() == report.risk.tolist()
    m = {name: site["worth"] for name, site in slow["sites"].items()}
    total = math.fsum(m.values())
    assert fitted.source_weights_ == pytest.approx({name: m[name] / total for name in m}, rel=1e-9)
    assert fitted.source_weights_ != pytest.approx(by_rows.source_weights_, rel=1e-3)
    assert fitted.predict(X_target).shape == (len(X_target),)


def test_the_medians_of_sources_agree_with_the_rule():
    sources, X_target = consortium((60, 25, 150, 40, 31), (0.0, 0.4, 0.2, 0.8, 0.2))
    fitted = FedCSA(candidates=GRID, random_state=SEED, combine="median").fit(sources, X_target)
    table = table_of(X_target.tolist(), [False, False])
    slow = study(sources, table, GRID, rows=X_target, seed=SEED, combine="median")
    assert max(slow["weights"].values()) == pytest.approx(1.0 / 3.0)
    agree(fitted.adaptation_, slow)


def test_rows_of_one_patient_stay_together():
    rng = np.random.default_rng(8)
    data, sources = {}, []
    names = ("x0", "x1", "patient")
    for k, patients in enumerate((30, 22, 41)):
        visits = rng.integers(1, 5, patients)
        ids = np.repeat(rng.choice(10_000, patients, replace=False), visits)
        X, y = population(rng, len(ids), 0.2 * k)
        y = y + np.repeat(2.0 * rng.normal(size=patients), visits)
        rows = np.column_stack([X, ids])
        sources.append(Source(f"site-{k}", rows, y, features=names, policy=Policy.open()))
        data[f"site-{k}"] = (X, y, ids)
    X_target = population(rng, 60, 0.2)[0]
    plan = Plan(("x0", "x1"), {"name": "ridge"}, tuple(GRID), seed=SEED, group="patient")
    target = Target(X_target, plan, policy=Policy.open())
    adaptation = run_study(target, InProcess(sources))
    table = table_of(X_target.tolist(), [False, False])
    slow = study(data, table, GRID, rows=X_target, seed=SEED)
    agree(adaptation, slow)
    apart = study({name: item[:2] for name, item in data.items()}, table, GRID, rows=X_target)
    for name, found in slow["examined"].items():  # patients are fewer than rows
        assert found["risk_variance"] > 1.1 * apart["examined"][name]["risk_variance"]


# Other models -------------------------------------------------------------------------------


def neighbours(z, y, _, candidate):
    model = KNeighborsRegressor(candidate["n_neighbors"]).fit(z, y)
    return lambda row: float(model.predict([row])[0])


def test_a_candidate_that_fails_at_one_source_is_left_out_there():
    sources, X_target = consortium((70, 24, 60), (0.0, 0.3, 0.5))
    grid = [{"n_neighbors": k} for k in (25, 3, 45, 59)]
    model = KNeighborsRegressor(algorithm="brute")
    fitted = FedCSA(model, candidates=grid, random_state=SEED).fit(sources, X_target)
    table = table_of(X_target.tolist(), [False, False])
    slow = study(sources, table, grid, rows=X_target, seed=SEED, fit=neighbours)
    assert [site["f"][2] is None for site in slow["sites"].values()] == [False, True, False]
    assert slow["estimates"][3] is None  # only one source, worth less than half, fitted it
    agree(fitted.adaptation_, slow)


def logistic(z, y, weights, candidate):
    model = LogisticRegression(C=candidate["C"], **LOGISTIC).fit(z, y, sample_weight=weights)
    lines = [[b0, *b] for b0, b in zip(model.intercept_, model.coef_, strict=True)]

    def probabilities(row):
        scores = [loops.dot(line, [1.0, *row]) for line in lines]
        scores = [0.0, *scores] if len(scores) == 1 else scores
        odds = [math.exp(score - max(scores)) for score in scores]
        return [value / math.fsum(odds) for value in odds]

    return probabilities


@pytest.mark.parametrize(
    ("loss", "n_classes", "combine"),
    [
        ("brier", 2, "mean"), ("brier", 3, "mean"), ("log", 2, "mean"), ("log", 3, "median"),
        ("zero-one", 2, "median"), ("zero-one", 3, "mean"),
    ],
)  # fmt: skip
def test_classes_agree_with_the_rule(loss, n_classes, combine):
    numbers, X_target = consortium((60, 46, 75, 50), (0.0, 0.4, 0.2, -0.1), seed=2)
    cuts = [0.6] if n_classes == 2 else [0.0, 1.2]
    sources = {name: (X, np.digitize(y, cuts)) for name, (X, y) in numbers.items()}
    grid = [{"C": 1.0, "ratio_power": power} for power in (0.0, 0.5, 1.0)]
    fitted = FedCSA(
        LogisticRegression(**LOGISTIC),
        candidates=grid,
        loss=loss,
        combine=combine,
        random_state=SEED,
    ).fit(sources, X_target)
    table = table_of(X_target.tolist(), [False, False])
    slow = study(
        sources, table, grid, rows=X_target, seed=SEED, fit=logistic, loss=loss,
        n_classes=n_classes, combine=combine,
    )  # fmt: skip
    agree(fitted.adaptation_, slow)


# Pieces -------------------------------------------------------------------------------------


def test_the_weight_of_a_far_model_is_that_of_the_rule():
    from fedcsa.core import weights as package

    rng = np.random.default_rng(1)
    worth = np.array([40.0, 5.0, 20.0, 9.0])
    outputs = rng.normal([0.0, 0.1, 0.0, 4.0], 1.0, (25, 4))
    models = [lambda row, k=k: float(row[k]) for k in range(4)]
    slow = loops.model_weights(worth.tolist(), models, outputs.tolist())
    close(package.model_weights(worth, outputs), slow, "weights")

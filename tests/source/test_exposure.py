"""The leverage of the most exposed row, against the formula in plain loops and against refits."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.tree import DecisionTreeRegressor

from fedcsa.errors import PolicyError
from fedcsa.models.convert import to_portable
from fedcsa.models.linear_format import DesignModel, LinearModel, outcome_shares
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.models.trees import to_bins
from fedcsa.plan import Plan
from fedcsa.source.exposure import TrainingRows, exposures, fit_unexposed, largest_losses
from fedcsa.source.fits import RowFits
from fedcsa.source.measure import held_out_losses, measure, prepare
from fedcsa.source.weigh import SiteRows, weights_of
from fedcsa.target.target import Target

FEATURES = ("a", "b", "flag")


def rows(n=120, rare=1, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 2)), np.zeros(n)])
    X[:rare, 2] = 1.0
    return X, X @ [1.0, 0.5, 0.3] + rng.normal(size=n)


def exposed(X, y, candidate, **options):
    """The share, the brief, and what the model was fitted from."""
    description = model_description("ridge")
    plan = Plan(
        features=FEATURES,
        model=description,
        candidates=expand_candidates("ridge", [candidate]),
        **options,
    )
    brief = Target(rows(100, 20, seed=1)[0], plan).brief(["s"])
    site = SiteRows.in_memory("s", X, y, FEATURES, 10)
    work = prepare(site.of(brief), 0)
    [model] = fitted(work).models
    return outcome_shares(model, TrainingRows(work)).max(), work, model


def fitted(work):
    [path] = work.fits.paths([work.fits.sent], [work.chosen])
    return path


def shares_in(work, candidate, model):
    """Of a linear model that a recipe of another library has fitted."""
    own = work.fits
    fits = RowFits(own.rows, own.weighing, own.folds, None, own.turns, own.sent)
    return outcome_shares(model, TrainingRows(replace(work, fits=fits, chosen=candidate)))


def by_the_formula(work, candidate):
    whole = work.rows.whole()
    w = weights_of(work.weighing, whole)[1][:, -1] ** candidate["ratio_power"]
    A = np.column_stack([np.ones(len(whole.y)), whole.seen])
    penalty = w.sum() * candidate["penalty"] * np.diag([0.0, 1.0, 1.0, 1.0])
    G = sum(w[i] * np.outer(A[i], A[i]) for i in range(len(A))) + penalty
    return max(w[i] * A[i] @ np.linalg.solve(G, A[i]) for i in range(len(A)))


@pytest.mark.parametrize("penalty", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_the_share_is_the_leverage_of_the_fit(penalty, power):
    candidate = {"penalty": penalty, "ratio_power": power}
    share, work, _ = exposed(*rows(), candidate)
    np.testing.assert_allclose(share, by_the_formula(work, candidate), rtol=1e-9)


@pytest.mark.parametrize("penalty", [0.0, 0.05])
def test_the_share_is_how_far_a_prediction_follows_its_own_outcome(penalty):
    X, y = rows()
    candidate = {"penalty": penalty, "ratio_power": 0.0}
    share, work, model = exposed(X, y, candidate)
    moved = y.copy()
    moved[0] += 1.0  # the one with the flag
    _, _, after = exposed(X, moved, candidate)
    seen = work.rows.whole().seen[:1]
    np.testing.assert_allclose(after.predict(seen) - model.predict(seen), share, rtol=1e-6)


def test_one_patient_with_a_flag_is_wholly_exposed_and_twenty_are_not():
    candidate = {"penalty": 0.0, "ratio_power": 0.0}
    assert exposed(*rows(rare=1), candidate)[0] == pytest.approx(1.0)
    assert exposed(*rows(rare=20), candidate)[0] < 0.2


def test_a_column_that_does_not_vary_exposes_nobody():
    assert exposed(*rows(rare=0), {"penalty": 0.0, "ratio_power": 0.0})[0] < 0.2


def test_columns_that_agreed_steps_make_count():
    X, y = rows(rare=20)
    _, work, _ = exposed(X, y, {"penalty": 0.0, "ratio_power": 0.0})
    seen = work.rows.whole().seen
    estimator = make_pipeline(PolynomialFeatures(3), LinearRegression()).fit(seen, y)
    model = to_portable(estimator, 0, None)
    design = np.column_stack([np.ones(len(y)), PolynomialFeatures(3).fit_transform(seen)])
    hat = design @ np.linalg.pinv(design)
    np.testing.assert_allclose(shares_in(work, {}, model), np.diag(hat), rtol=1e-6)


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_the_share_in_the_outcomes_variance_is_that_of_plain_sums(power):
    X, y = rows(rare=20)
    y[3] += 8.0
    candidate = {"penalty": 0.1, "ratio_power": power}
    _, work, _ = exposed(X, y, candidate)
    whole = work.rows.whole()
    w = weights_of(work.weighing, whole)[1][:, -1] ** power
    mean = sum(w * whole.y) / sum(w)
    own = [w[i] * (whole.y[i] - mean) ** 2 for i in range(len(w))]
    np.testing.assert_allclose(TrainingRows(work).variance_shares(), own / sum(own), rtol=1e-9)


def test_outcomes_that_do_not_vary_expose_nobody():
    X, _ = rows(rare=20)
    _, work, _ = exposed(X, np.full(len(X), 2.0), PLAIN)
    assert TrainingRows(work).variance_shares().max() == 0.0


# What is left out -------------------------------------------------------------------------------

PLAIN = {"penalty": 0.0, "ratio_power": 0.0}


def test_of_counts_the_row_of_the_largest_is_exposed():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=(200, 2)), np.zeros(200)])
    X[0] = 4.0, 1.0, 0.0  # not far among the rows, but where most is expected
    y = rng.poisson(np.exp(1.5 * X[:, 0])).astype(float)
    _, work, _ = exposed(X, y, {"penalty": 0.0})
    seen = work.rows.whole().seen
    fitted = PoissonRegressor(alpha=0.0, max_iter=1000, tol=1e-10).fit(seen[:, :2], y)
    model = DesignModel(np.append(fitted.coef_, 0.0)[None], np.array([fitted.intercept_]), "log")
    shares = shares_in(work, {}, model)
    A = np.column_stack([np.ones(200), seen[:, :2]])
    G = (A * fitted.predict(seen[:, :2])[:, None]).T @ A
    h = fitted.predict(seen[:, :2]) * np.einsum("ij,jk,ik->i", A, np.linalg.inv(G), A)
    assert h[0] > 0.5 > np.diag(A @ np.linalg.inv(A.T @ A) @ A.T)[0]
    assert shares.argmax() == 0
    np.testing.assert_allclose(shares[0], h[0], rtol=1e-6)


def test_of_rare_classes_the_row_of_the_largest_probability_is_exposed():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=(200, 2)), np.zeros(200)])
    X[0] = 4.0, 1.0, 0.0
    y = (rng.uniform(size=200) < 0.5).astype(float)
    labels = np.array(["no", "yes"])[y.astype(int)]
    plan = Plan(
        features=FEATURES,
        model=model_description(LogisticRegression()),
        candidates=expand_candidates("sklearn", [{"ratio_power": 0.0}]),
        classes=("no", "yes"),
        loss="brier",
    )
    brief = Target(rows(100, 20, seed=1)[0], plan).brief(["s"])
    site = SiteRows.in_memory("s", X, labels, FEATURES, 10)
    work = prepare(site.of(brief))
    seen = work.rows.whole().seen
    model = LinearModel(np.array([1.5, 0.0, 0.0]), -6.0, "logistic")
    p = model.predict(seen)[:, 1]
    A = np.column_stack([np.ones(200), seen[:, :2]])
    G = (A * (p * (1.0 - p))[:, None]).T @ A
    h = p * (1.0 - p) * np.einsum("ij,jk,ik->i", A, np.linalg.inv(G), A)
    assert h[0] > 0.5 > np.diag(A @ np.linalg.inv(A.T @ A) @ A.T)[0]
    shares = shares_in(work, work.candidates[0], model)
    np.testing.assert_allclose(shares[0], h[0], rtol=1e-6)


def test_a_model_without_the_exposed_rows_is_the_one_fitted_without_them():
    X, y = rows()
    _, work, _ = exposed(X, y, PLAIN)
    path, after = fit_unexposed(fitted(work), work, 0.5)
    assert np.flatnonzero(after.left_out).tolist() == [0]
    assert path.n_rows == len(y)  # as it was told before
    seen = work.rows.whole().seen[1:]
    centred = seen[:, :2] - seen[:, :2].mean(axis=0)
    slopes, *_ = np.linalg.lstsq(centred, y[1:] - y[1:].mean(), rcond=None)
    np.testing.assert_allclose(path.models[0].coefficients, [*slopes, 0.0], atol=1e-9)


@pytest.mark.parametrize("most", [1.0, float("inf")])
def test_without_the_rule_nobody_is_left_out(most):
    _, work, model = exposed(*rows(), PLAIN)
    path, after = fit_unexposed(fitted(work), work, most)
    assert after.left_out is None
    assert path.models[0].coefficients.tolist() == model.coefficients.tolist()


def test_where_nobody_is_exposed_the_model_is_the_same_to_the_bit():
    _, work, model = exposed(*rows(rare=20), PLAIN)
    path, after = fit_unexposed(fitted(work), work, 0.5)
    assert after.left_out is None
    assert path.models[0].coefficients.tolist() == model.coefficients.tolist()


def test_rows_that_hide_each_other_are_found_one_after_the_other():
    X, y = rows(rare=0)
    X[0, 0], X[1, 0] = 1e6, 1e3  # beside the first, the second is nothing
    _, work, _ = exposed(X, y, PLAIN)
    _, after = fit_unexposed(fitted(work), work, 0.5)
    assert np.flatnonzero(after.left_out).tolist() == [0, 1]


def test_a_model_without_many_of_its_rows_does_not_leave():
    X, y = rows(n=120, rare=0)
    _, work, _ = exposed(X, y, PLAIN)
    with pytest.raises(PolicyError, match="single patients"):
        fit_unexposed(fitted(work), work, 1.0 / 120 + 1e-6)


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_a_row_in_a_tree_is_exposed_by_its_share_of_its_leaf(power):
    X, y = rows(rare=20)
    candidate = {"penalty": 0.0, "ratio_power": power}
    _, work, _ = exposed(X, y, candidate)
    whole, grid = work.rows.whole(), np.full(3, 0.125)
    w = weights_of(work.weighing, whole)[1][:, -1] ** power
    estimator = DecisionTreeRegressor(min_samples_leaf=10, random_state=0)
    estimator.fit(to_bins(whole.seen, grid).astype(float), whole.y, sample_weight=w)
    model = to_portable(estimator, 0, grid)
    [leaf] = model.leaves_of_rows(whole.seen)
    wanted = max(w[i] / w[leaf == leaf[i]].sum() for i in range(len(w)))
    share = exposures(replace(work, chosen=candidate), model).max()
    np.testing.assert_allclose(share, wanted, rtol=1e-12)
    moved = whole.y.copy()
    one = int(np.argmax(w / np.array([w[leaf == k].sum() for k in leaf])))
    moved[one] += 1.0
    means = [
        np.average(other[leaf == leaf[one]], weights=w[leaf == leaf[one]])
        for other in (whole.y, moved)
    ]
    np.testing.assert_allclose(means[1] - means[0], share, rtol=1e-9)


# Losses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("alike", [2, 5])
def test_the_largest_losses_under_a_candidate_count_alike(alike):
    """Against plain loops, in one batch and in blocks."""
    asked = [{"penalty": penalty, "ratio_power": 1.0} for penalty in (0.0, 9.0)]
    candidates = expand_candidates("ridge", asked)
    plan = Plan(features=FEATURES, model=model_description("ridge"), candidates=candidates)
    brief = Target(rows(100, 20, seed=1)[0], plan).brief(["s"])
    site = SiteRows.in_memory("s", *rows(rare=20), FEATURES, 10)
    work = prepare(site.of(brief))
    batch = work.rows.whole()
    losses, judged, _ = held_out_losses(work, batch)
    w = weights_of(work.weighing, batch)[0][judged]
    work = replace(work, rows=replace(work.rows, block_rows=50))
    most = largest_losses(work, alike)
    report = measure(work, "", most=most)
    for k in range(2):
        weighted = sorted(w * losses[:, k])
        counted = [min(one, weighted[-alike]) for one in weighted]
        assert most[k] == weighted[-alike]
        assert report.risk[k] == pytest.approx(sum(counted) / w.sum(), rel=1e-12)
        assert max(counted) <= sum(counted) / alike


def test_where_rows_are_fewer_than_count_alike_losses_stay_as_they_are():
    _, work, _ = exposed(*rows(), PLAIN)
    assert largest_losses(work, 10_000).tolist() == [np.inf]

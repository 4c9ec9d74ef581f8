"""The scikit-learn face: conventions, what it takes, what it refuses, and whom it believes."""

import dataclasses
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import (
    Lars,
    Lasso,
    LogisticRegression,
    OrthogonalMatchingPursuit,
    Ridge,
    TheilSenRegressor,
)
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedcsa import (
    CandidatesError,
    DataError,
    FedCSA,
    FedCSAError,
    InProcessTransport,
    MessageError,
    ModelError,
    NoOverlapError,
    NoSourcesError,
    ParameterError,
    Plan,
    Policy,
    Source,
    Target,
    UntrustedError,
    run,
)
from fedcsa.core.folds import generator_for, rotations
from fedcsa.protocol.codec import decode, encode
from fedcsa.protocol.messages import ModelReport, RiskReport

PENALTIES = [0.0, 0.1, 1.0]
SIZES = {"north": 60, "south": 45, "west": 80, "east": 52}
PLANTED = 424242.125
TREE = "sklearn.tree._tree.Tree"


def hospital(rng, mean, rows, d=2, noise=1.0):
    X = rng.normal(mean, 1.0, (rows, d))
    return X, X.sum(axis=1) + noise * rng.normal(size=rows)


def consortium(seed=0, n_target=40, sizes=SIZES, step=0.2, d=2):
    rng = np.random.default_rng(seed)
    sources = {
        name: hospital(rng, step * index, rows, d)
        for index, (name, rows) in enumerate(sizes.items())
    }
    return sources, hospital(rng, 1.5 * step, n_target, d)[0]


def classes(sources, labels=("no", "yes")):
    """The same sites with labels: the outcome cut into bands."""
    cuts = np.linspace(-1.0, 1.5, len(labels) + 1)[1:-1]
    return {
        name: (X, np.array(labels)[np.searchsorted(cuts, y)]) for name, (X, y) in sources.items()
    }


SOURCES, X_TARGET = consortium()


def fit(sources=SOURCES, target=X_TARGET, **options):
    options = {"candidates": PENALTIES, "random_state": 0, **options}
    return FedCSA(**options).fit(sources, target)


@pytest.fixture(scope="module")
def fitted():
    return fit()


# scikit-learn's conventions -----------------------------------------------------------------


def test_a_clone_has_the_same_parameters_and_is_not_fitted(fitted):
    other = clone(fitted)
    assert other.get_params() == fitted.get_params()
    assert not hasattr(other, "adaptation_")


def test_parameters_are_got_and_set_by_name_also_inside_the_model():
    estimator = FedCSA(Lasso(alpha=0.5), level=0.9)
    assert estimator.get_params()["model__alpha"] == 0.5
    assert estimator.set_params(model__alpha=0.25, method="naive") is estimator
    assert (estimator.model.alpha, estimator.method) == (0.25, "naive")
    with pytest.raises(ValueError, match="Invalid parameter 'metod'"):
        estimator.set_params(metod="naive")


def test_init_stores_what_it_is_given_and_checks_nothing():
    policy, ratio = Policy(), {"bandwidth": 2.0}
    estimator = FedCSA(method="nonsense", policy=policy, ratio=ratio)
    assert estimator.method == "nonsense"
    assert estimator.policy is policy
    assert estimator.ratio is ratio


def test_the_repr_names_what_was_changed():
    assert repr(FedCSA()) == "FedCSA()"
    assert repr(FedCSA(loss="absolute", level=0.9)) == "FedCSA(level=0.9, loss='absolute')"


def test_fitting_returns_the_estimator_and_changes_neither_parameters_nor_data():
    sources, target = consortium()
    before = {name: (X.copy(), y.copy()) for name, (X, y) in sources.items()}
    estimator = FedCSA(candidates=PENALTIES, random_state=0)
    parameters = dict(estimator.get_params())
    assert estimator.fit(sources, target) is estimator
    assert estimator.get_params() == parameters
    assert (target == X_TARGET).all()
    for name, (X, y) in sources.items():
        assert np.array_equal(X, before[name][0])
        assert np.array_equal(y, before[name][1])


@pytest.mark.parametrize("call", ["predict", "predict_proba", "reconcile"])
def test_an_estimator_that_is_not_fitted_says_so(call):
    arguments = (X_TARGET, X_TARGET[:, 0]) if call == "reconcile" else (X_TARGET,)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(FedCSA(LogisticRegression()), call)(*arguments)


@pytest.mark.parametrize(
    ("model", "has"),
    [
        ("ridge", False),
        (Ridge(), False),
        (LogisticRegression(), True),
        (make_pipeline(StandardScaler(), LogisticRegression()), True),
        (make_pipeline(StandardScaler(), Lasso()), False),
        ({"name": "ridge"}, False),
    ],
)
def test_only_a_classifier_has_probabilities(model, has):
    assert hasattr(FedCSA(model), "predict_proba") is has


def test_the_fitted_attributes_are_those_of_the_adaptation(fitted):
    result = fitted.adaptation_
    assert fitted.candidate_ == dict(result.candidate)
    assert fitted.target_risk_ == result.target_risk == result.risk.risk
    assert fitted.interval_ == (result.risk.lower, result.risk.upper)
    assert fitted.status_ == result.status == "ok"
    assert fitted.source_weights_ == dict(result.source_weights)
    assert fitted.findings_ == result.findings
    assert fitted.feature_names_in_.tolist() == ["x0", "x1"]
    assert fitted.n_features_in_ == 2
    assert not hasattr(fitted, "classes_")
    assert sum(fitted.source_weights_.values()) == pytest.approx(1.0, rel=1e-12)
    assert list(fitted.source_weights_) == sorted(SIZES)


def test_a_prediction_is_the_weighted_mean_of_the_sources_models(fitted):
    result = fitted.adaptation_
    seen = (X_TARGET - X_TARGET.mean(axis=0)) / X_TARGET.std(axis=0)
    expected = sum(
        fitted.source_weights_[name]
        * (result.model_reports[name].intercept + seen @ result.model_reports[name].coefficients)
        for name in SIZES
    )
    np.testing.assert_allclose(fitted.predict(X_TARGET), expected, rtol=1e-12)


def test_fitting_again_forgets_the_first_fit():
    estimator = fit()
    labelled = classes(SOURCES)
    estimator.set_params(model=LogisticRegression(), candidates=[{"C": 1.0}])
    estimator.fit(labelled, X_TARGET)
    assert estimator.classes_.tolist() == ["no", "yes"]
    assert set(estimator.predict(X_TARGET)) <= {"no", "yes"}
    estimator.set_params(model="ridge", candidates=PENALTIES).fit(SOURCES, X_TARGET)
    assert estimator.predict(X_TARGET).dtype == np.float64
    assert not hasattr(estimator, "classes_")


# What it takes ------------------------------------------------------------------------------


def frames(library, reverse=False):
    columns = ["age", "bmi"]
    order = columns[::-1] if reverse else columns

    def frame(X):
        return library.DataFrame({name: X[:, columns.index(name)] for name in order})

    sources = {
        name: (frame(X), library.Series("y", y) if library is pl else library.Series(y, name="y"))
        for name, (X, y) in SOURCES.items()
    }
    return sources, frame


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
@pytest.mark.parametrize("reverse", [False, True], ids=["in order", "reordered"])
def test_frames_and_arrays_give_the_same_bits(library, reverse, fitted):
    sources, frame = frames(library, reverse)
    target = frames(library)[1](X_TARGET)
    estimator = fit(sources, target)
    assert estimator.feature_names_in_.tolist() == ["age", "bmi"]
    assert estimator.target_risk_ == fitted.target_risk_
    assert estimator.interval_ == fitted.interval_
    assert estimator.source_weights_ == fitted.source_weights_
    expected = fitted.predict(X_TARGET)
    assert (estimator.predict(frame(X_TARGET)) == expected).all()
    assert (estimator.predict(X_TARGET) == expected).all()


def test_arrays_of_sources_take_the_columns_names_from_a_frame_at_the_target(fitted):
    target = frames(pd)[1](X_TARGET)
    assert fit(SOURCES, target).target_risk_ == fitted.target_risk_


def test_a_list_of_sources_is_numbered_and_lists_of_lists_will_do():
    pairs = [(X.tolist(), y.tolist()) for X, y in SOURCES.values()]
    estimator = fit(pairs, X_TARGET.tolist())
    assert list(estimator.source_weights_) == ["source-1", "source-2", "source-3", "source-4"]
    renamed = {f"source-{i + 1}": pair for i, pair in enumerate(SOURCES.values())}
    assert estimator.source_weights_ == fit(renamed).source_weights_


def test_an_outcome_may_be_a_single_column_or_whole_numbers(fitted):
    column = {name: (X, y[:, None]) for name, (X, y) in SOURCES.items()}
    assert fit(column).target_risk_ == fitted.target_risk_
    whole = {name: (X, np.round(3 * y).astype(int)) for name, (X, y) in SOURCES.items()}
    as_float = {name: (X, y.astype(float)) for name, (X, y) in whole.items()}
    assert fit(whole).target_risk_ == fit(as_float).target_risk_


def test_boosted_trees_that_scikit_learn_keeps_in_a_private_package_take_part():
    model = HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=5)
    fitted = fit(classes(SOURCES), model=model, candidates={"max_depth": [1, 2]})
    assert set(fitted.predict(X_TARGET)) <= {"no", "yes"}
    assert fitted.target_risk_ < fitted.adaptation_.constant_risks["guarded"]


def test_one_source_and_one_feature_are_an_ordinary_case():
    sources, target = consortium(sizes={"only": 50}, d=1)
    estimator = fit(sources, target)
    assert estimator.source_weights_ == {"only": 1.0}
    lower, upper = estimator.interval_
    assert lower < estimator.target_risk_ < upper


def test_progress_is_told_of_every_source_in_both_phases():
    calls = []
    FedCSA(candidates=PENALTIES, random_state=0).fit(
        SOURCES, X_TARGET, progress=lambda *call: calls.append(call)
    )
    expected = [
        (phase, name, state)
        for phase in ("risk", "model")
        for name in sorted(SOURCES)
        for state in ("started", "done")
    ]
    assert calls == expected


# Reproducible to the bit --------------------------------------------------------------------


def same(first, second):
    assert first.source_weights_ == second.source_weights_
    assert first.target_risk_ == second.target_risk_
    assert first.interval_ == second.interval_
    assert (first.predict(X_TARGET) == second.predict(X_TARGET)).all()
    return True


@pytest.mark.parametrize(
    "state",
    [
        lambda: 7,
        lambda: np.int64(7),
        lambda: np.random.default_rng(7),
        lambda: np.random.RandomState(7),
    ],
    ids=["int", "numpy int", "Generator", "RandomState"],
)
def test_the_same_random_state_gives_the_same_bits(state):
    assert same(fit(random_state=state()), fit(random_state=state()))


def test_whole_numbers_of_python_and_numpy_are_the_same_seed():
    assert same(fit(random_state=7), fit(random_state=np.int64(7)))


def test_another_seed_gives_other_folds():
    assert fit(random_state=1).target_risk_ != fit(random_state=2).target_risk_


def test_no_random_state_draws_a_new_seed_every_time():
    seeds = {fit(random_state=None).adaptation_.plan.seed for _ in range(3)}
    assert len(seeds) == 3


@pytest.mark.parametrize("state", [True, 1.5, "7", [7], -1, 2**63])
def test_a_random_state_that_is_no_seed_is_refused(state):
    with pytest.raises(ParameterError, match=r"'(random_state|seed)' parameter must be a whole"):
        fit(random_state=state)


def test_the_order_of_the_sources_changes_no_bit(fitted):
    backwards = dict(reversed(SOURCES.items()))
    estimator = fit(backwards)
    assert same(estimator, fitted)
    assert estimator.adaptation_.reports == fitted.adaptation_.reports


def test_a_further_source_leaves_the_reports_of_the_others_as_they_are(fitted):
    rng = np.random.default_rng(9)
    more = fit({"another": hospital(rng, 0.0, 70), **SOURCES})
    for name in SOURCES:
        assert more.adaptation_.reports[name] == fitted.adaptation_.reports[name]
    assert more.source_weights_.keys() == {"another", *SOURCES}


def test_a_sources_rows_may_be_renamed_only_at_the_price_of_other_folds(fitted):
    renamed = fit({("alias" if name == "west" else name): pair for name, pair in SOURCES.items()})
    assert renamed.adaptation_.reports["south"] == fitted.adaptation_.reports["south"]
    ours, theirs = renamed.adaptation_.reports["alias"], fitted.adaptation_.reports["west"]
    assert (ours.loss_mean != theirs.loss_mean).any()


# What it refuses, without showing a value ---------------------------------------------------


def refused(error, match, sources=None, target=None, **options):
    with pytest.raises(error, match=match) as caught:
        fit(
            SOURCES if sources is None else sources,
            X_TARGET if target is None else target,
            **options,
        )
    assert "424242" not in str(caught.value)
    return str(caught.value)


def planted(X):
    changed = np.array(X, dtype=float)
    changed[0, 0] = PLANTED
    return changed


def broken_frame(how):
    frame = pd.DataFrame(planted(SOURCES["west"][0]), columns=["age", "bmi"])
    if how == "missing":
        return frame[["age"]]
    if how == "extra":
        return frame.assign(pulse=PLANTED)
    if how == "duplicate":
        return pd.DataFrame(frame.to_numpy(), columns=["age", "age"])
    if how == "text":
        return frame.assign(bmi=["424242.125kg"] * len(frame))
    bad = {"NaN": np.nan, "infinite": np.inf}[how]
    frame.loc[3, "bmi"] = bad
    return frame


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ("missing", r"Source 'west' must have the columns of the target.*missing: 'bmi'"),
        ("extra", r"Source 'west' must have the columns.*not at the target: 'pulse'"),
        ("duplicate", r"distinct names; 'age' stands twice"),
        ("text", r"Column 'bmi' of Source 'west' must hold numbers"),
        ("NaN", r"Column 'bmi' of Source 'west' must be finite, but 1 of its 80 cells is"),
        ("infinite", r"Column 'bmi' of Source 'west' must be finite, but 1 of its 80 cells is"),
    ],
)
def test_a_broken_frame_is_refused_by_its_own_name(how, match):
    sources, frame = frames(pd)
    sources["west"] = (broken_frame(how), sources["west"][1])
    refused(DataError, match, sources, frame(X_TARGET))


@pytest.mark.parametrize("how", ["missing", "extra", "duplicate", "text", "NaN", "infinite"])
def test_a_broken_frame_at_the_target_or_in_predict_is_refused_too(how):
    sources, frame = frames(pd)
    match = "must have the columns|stands twice|must hold numbers|must be finite"
    refused(DataError, match, sources, broken_frame(how))
    estimator = fit(sources, frame(X_TARGET))
    with pytest.raises(DataError, match=match) as caught:
        estimator.predict(broken_frame(how))
    assert "424242" not in str(caught.value)


@pytest.mark.parametrize(
    ("X", "match"),
    [
        (planted(X_TARGET)[:, :1], r"must have 2 column\(s\) like the data"),
        (planted(np.c_[X_TARGET, X_TARGET]), r"must have 2 column\(s\) like the data"),
        (planted(X_TARGET)[:, 0], "must be a matrix of rows and columns"),
        (X_TARGET[:0], "must have rows and columns"),
        (np.where(np.arange(80).reshape(40, 2) == 7, np.nan, X_TARGET), "must be finite"),
        (planted(X_TARGET).astype(str), "must hold numbers"),
        ([[PLANTED, 1.0], [2.0]], "must hold numbers"),
    ],
    ids=["few columns", "many columns", "one dimension", "empty", "nan", "text", "ragged"],
)
def test_a_broken_array_is_refused_by_the_sources_name(X, match):
    y = np.arange(float(len(X)))
    refused(DataError, rf"Source 'west'.*{match}", {**SOURCES, "west": (X, y)})


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (None, r"Source 'west' must have outcomes y; they are missing"),
        (np.full(80, PLANTED), r"outcome of source 'west' must vary; .* all 80 rows"),
        (np.full(79, PLANTED), r"outcome of source 'west' must have 80 rows like its features"),
        (np.r_[np.nan, np.full(79, PLANTED)], r"outcome of source 'west' must be finite"),
        (np.r_[np.inf, np.full(79, PLANTED)], r"outcome of source 'west' must be finite"),
        (["424242.125"] * 80, r"outcome of source 'west' must hold numbers"),
        (
            np.array([PLANTED, "x"] * 40, dtype=object),
            r"outcome of source 'west' must hold numbers",
        ),
        (np.array([PLANTED, None] * 40, dtype=object), r"outcome of source 'west' must"),
        (np.full((80, 2), PLANTED), r"outcome of source 'west' must be one column"),
        (PLANTED, r"outcome of source 'west' must have 80 rows"),
    ],
    ids=[
        "None",
        "constant",
        "short",
        "NaN",
        "infinite",
        "text",
        "mixed",
        "holes",
        "wide",
        "scalar",
    ],
)
def test_a_broken_outcome_is_refused_by_the_sources_name(y, match):
    refused(DataError, match, {**SOURCES, "west": (SOURCES["west"][0], y)})


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        (np.array(["yes"] * 80), r"outcome of source 'west' must vary"),
        (np.array(["yes", None] * 40, dtype=object), r"source 'west' must be complete"),
        (np.array([0.0, np.nan] * 40), r"source 'west' must be complete"),
        (np.array([0, 424242] * 40), "all be texts or all be numbers; they are mixed"),
        (np.array([("a",), "b"] * 40, dtype=object), "must be texts or numbers"),
        (np.array(["no", "yes"] * 39), r"outcome of source 'west' must have 80 rows"),
    ],
    ids=["constant", "None", "NaN", "mixed types", "tuples", "short"],
)
def test_broken_labels_are_refused(labels, match):
    sources = {**classes(SOURCES), "west": (SOURCES["west"][0], labels)}
    refused(DataError, match, sources, model=LogisticRegression(), candidates=None)


@pytest.mark.parametrize(
    ("sources", "match"),
    [
        ({}, "'sources' parameter must be at least one source"),
        ([], "'sources' parameter must be at least one source"),
        (None, "'sources' parameter must be a mapping"),
        ("north", "'sources' parameter must be a mapping"),
        (7, "'sources' parameter must be a mapping"),
        ({"a": SOURCES["west"][0]}, r"Source 'a' must be a pair"),
        ({"a": (*SOURCES["west"], 1)}, r"Source 'a' must be a pair"),
        ([SOURCES["west"][0].tolist()], r"Source 'source-1' must be a pair"),
    ],
)
def test_sources_that_are_none_are_refused(sources, match):
    with pytest.raises(FedCSAError, match=match):
        FedCSA(random_state=0).fit(sources, X_TARGET)


def test_two_sources_of_one_name_cannot_take_part():
    twins = [Source("a", *SOURCES["west"]), Source("a", *SOURCES["east"])]
    with pytest.raises(ParameterError, match=r"distinct names. Got 'a'"):
        InProcessTransport(twins)
    with pytest.raises(ParameterError, match="at least one source"):
        InProcessTransport([])


def test_names_that_become_one_text_cannot_take_part():
    with pytest.raises(FedCSAError, match="distinct"):
        FedCSA(random_state=0).fit({1: SOURCES["west"], "1": SOURCES["east"]}, X_TARGET)


def test_a_source_called_target_does_not_hide_what_left_the_target():
    sources = {"target": SOURCES["west"], "b": SOURCES["east"]}
    try:
        ledgers = fit(sources).adaptation_.ledgers
    except FedCSAError as error:
        assert "target" in str(error)  # noqa: PT017 - a study file refuses the name
    else:
        left = [entry.message for entries in ledgers.values() for entry in entries]
        assert sorted(set(left)) == ["brief", "model-report", "model-request", "risk-report"]


@pytest.mark.parametrize(
    ("target", "match"),
    [
        (X_TARGET[:0], "The target must have rows"),
        (X_TARGET[:1], "The target must have at least 2 rows"),
        (planted(X_TARGET)[0], "The target must be a matrix"),
        (np.where(np.arange(80).reshape(40, 2) == 7, np.nan, planted(X_TARGET)), "must be finite"),
    ],
    ids=["empty", "one row", "one dimension", "NaN"],
)
def test_a_target_that_says_nothing_is_refused(target, match):
    refused(DataError, match, target=target)


def test_two_rows_are_a_target_with_a_warning():
    estimator = fit(target=X_TARGET[:2])
    assert "release-budget" in [finding.code for finding in estimator.findings_]
    assert estimator.interval_[0] < estimator.target_risk_ < estimator.interval_[1]


def test_a_source_with_too_few_rows_for_its_folds_is_named():
    few = (SOURCES["west"][0][:9], SOURCES["west"][1][:9])
    refused(DataError, r"Source 'west': A source must have at least 10 rows", {"west": few})


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"method": "magic"}, "'method' parameter must be one of"),
        ({"exchange": "pigeon"}, "'exchange' parameter must be one of"),
        ({"combine": "mode"}, "'combine' parameter must be one of"),
        ({"on_no_overlap": "pray"}, "'on_no_overlap' parameter must be one of"),
        ({"scheme": "holdout"}, "'scheme' parameter must be one of"),
        ({"level": 0.0}, "'level' parameter must be between 0 and 1"),
        ({"level": 1.0}, "'level' parameter must be between 0 and 1"),
        ({"folds": 1}, "'folds' parameter must be a whole number of at least 2"),
        ({"folds": True}, "'folds' parameter"),
        ({"folds": "three"}, "'folds' parameter"),
        ({"folds": [0.5, 0.5, 0.5], "method": "naive"}, "three positive shares that sum to 1"),
        ({"folds": 4, "method": "naive"}, "'folds' parameter must be 3"),
        ({"refit": False}, "'refit' parameter must be on with scheme"),
        ({"candidates": []}, "at least one candidate"),
        ({"candidates": "0.1"}, "'candidates' parameter must be a list"),
        ({"candidates": [-0.1]}, "'penalty' parameter must be a number at least 0"),
        (
            {"candidates": [{"ratio_power": 1.1}]},
            "'ratio_power' parameter must be a number between",
        ),
        ({"candidates": [{"penalti": 0.1}]}, "Did you mean 'penalty'"),
        ({"model": "rigde"}, "'model' parameter must be"),
        ({"model": LogisticRegression}, "'model' parameter must be"),
        ({"model": {"name": "ridge", "penaltyscale": 1}}, "Did you mean 'penalty_scale'"),
        ({"loss": "huber"}, "'loss' parameter must be one of"),
        ({"loss": "brier"}, r"'loss' parameter must be one of \['absolute', 'squared'\]"),
        ({"ratio": {"bandwith": 1.0}}, "Did you mean 'bandwidth'"),
        ({"ratio": {"bandwidth": -1.0}}, "'bandwidth' parameter must be a positive number"),
        ({"ratio": {"regularizations": [-1.0]}}, "'regularizations' parameter must be"),
        ({"ratio": {"regularizations": []}}, "'regularizations' parameter must be"),
        ({"public_sd": [1.0]}, r"public_sd must have 2 row\(s\)"),
        ({"public_sd": [1.0, 0.0]}, "'public_sd' parameter must be positive"),
        ({"fedle_weights": {"north": 1.0}}, "one weight for every source. Got \"none for 'east'\""),
        ({"method": "fedle"}, "must be given if method is 'fedle'"),
        ({"ratio": [1]}, "'ratio' parameter must be a mapping of options to values. Got 'list'"),
        ({"ratio": {"bandwidth": "a"}}, r"ratio\['bandwidth'\]. parameter must be a number"),
        ({"level": "0.9"}, "'level' parameter must be a number between 0 and 1"),
        ({"level": np.array([0.9, 0.8])}, "'level' parameter must be a number .* Got 'ndarray'"),
        ({"policy": "x"}, "'policy' parameter must be a Policy or None. Got 'str'"),
        ({"trusted_types": 3}, "'trusted_types' parameter must be a list of full names"),
        ({"trusted_types": "a.B"}, "'trusted_types' parameter must be a list of full names"),
        ({"trusted_types": [3]}, "'trusted_types' parameter must be a list of full names"),
    ],
)
def test_an_option_outside_its_range_is_refused_by_name(options, match):
    with pytest.raises((ParameterError, DataError), match=match):
        fit(**options)


# Losses -------------------------------------------------------------------------------------


def twice_squared(prediction, y):
    return 2.0 * (prediction - y) ** 2


def test_a_loss_of_ones_own_is_estimated_without_an_interval():
    own, built_in = fit(loss=twice_squared), fit()
    assert own.adaptation_.plan.loss == "own:twice_squared"
    assert own.adaptation_.risk.average == pytest.approx(2 * built_in.adaptation_.risk.average)
    np.testing.assert_allclose(own.predict(X_TARGET), built_in.predict(X_TARGET), rtol=1e-10)
    assert own.interval_ is None
    assert "not-certified" in [finding.code for finding in own.findings_]
    assert own.reconcile(X_TARGET, X_TARGET.sum(axis=1)).conclusion == "no interval"


@pytest.mark.parametrize(
    ("loss", "error", "match"),
    [
        (lambda p, y: (p - y)[:, None], ModelError, "must return one number per row"),
        (lambda p, y: np.mean((p - y) ** 2), ModelError, "must return one number per row"),
        (lambda _, y: ["424242"] * len(y), ModelError, "must return one number per row"),
        (lambda _, y: np.full(len(y), np.nan), DataError, "must be finite on every row"),
        (lambda _, y: np.full(len(y), np.inf), DataError, "must be finite on every row"),
    ],
    ids=["matrix", "number", "texts", "NaN", "infinite"],
)  # fmt: skip
def test_a_loss_that_returns_something_else_is_refused(loss, error, match):
    refused(error, match, loss=loss)


def test_the_absolute_loss_is_bounded_by_the_average_of_the_models():
    estimator = fit(loss="absolute")
    risk = estimator.adaptation_.risk
    assert (risk.kind, estimator.target_risk_) == ("bound", risk.average)
    assert estimator.interval_[0] < estimator.target_risk_ < estimator.interval_[1]


# Classifiers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "loss"),
    [
        (("no", "yes"), "log"),
        ((0, 1), "zero-one"),
        ((False, True), "brier"),
        (("a", "b", "c"), "brier"),
        (("a", "b", "c"), "log"),
        ((3, 1, 2), "zero-one"),
    ],
)
def test_a_classifier_predicts_labels_and_probabilities(labels, loss):
    sources = classes({name: SOURCES[name] for name in ("north", "west")}, labels)
    estimator = fit(sources, model=LogisticRegression(), candidates=[{"C": 1.0}], loss=loss)
    assert estimator.classes_.tolist() == sorted(labels)
    p = estimator.predict_proba(X_TARGET)
    assert p.shape == (40, len(labels))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert (estimator.predict(X_TARGET) == estimator.classes_[p.argmax(axis=1)]).all()
    low, high = estimator.interval_
    assert 0.0 <= low <= estimator.target_risk_ <= high
    if loss != "log":
        assert high <= 1.0
    assert set(estimator.adaptation_.constant_risks) >= {"guarded", "naive"}


def test_the_squared_loss_of_a_classifier_is_the_brier_loss():
    sources = classes(SOURCES)
    options = {"model": LogisticRegression(), "candidates": [{"ratio_power": 0.0}]}
    plain, brier = fit(sources, **options), fit(sources, loss="brier", **options)
    assert plain.adaptation_.plan.loss == "brier"
    assert plain.target_risk_ == brier.target_risk_


def test_a_class_that_one_source_has_never_seen_is_still_a_class():
    sources = classes(SOURCES, ("a", "b", "c"))
    X, labels = sources["west"]
    sources["west"] = (X[labels != "c"], labels[labels != "c"])
    estimator = fit(sources, model=LogisticRegression(), candidates=[{"ratio_power": 0.0}])
    assert estimator.classes_.tolist() == ["a", "b", "c"]
    alone = estimator.adaptation_.models["west"].predict(X_TARGET)
    assert (alone[:, 2] == 0.0).all()
    assert (estimator.predict_proba(X_TARGET)[:, 2] > 0.0).any()


def test_a_source_with_a_single_case_is_named():
    sources = classes(SOURCES)
    labels = np.array(["no"] * 80)
    labels[17] = "yes"  # the fold that holds it out has nothing to learn from
    sources["west"] = (sources["west"][0], labels)
    with pytest.raises(CandidatesError, match=r"all 1 failed at 'west' \(ValueError\)"):
        fit(sources, model=LogisticRegression(), candidates=[{"ratio_power": 0.0}])


def test_classes_that_are_separated_without_error_have_a_risk_of_zero():
    rng = np.random.default_rng(0)

    def site(rows):
        X = rng.normal(size=(rows, 2))
        X[:, 0] = np.where(X[:, 0] > 0.0, 3.0, -3.0)
        return X, (X[:, 0] > 0.0).astype(int)

    sources = {name: site(40) for name in "abcd"}
    estimator = fit(
        sources, site(40)[0], model=LogisticRegression(), candidates=[{"C": 1.0}], loss="zero-one"
    )
    assert estimator.target_risk_ == pytest.approx(0.0, abs=1e-6)
    assert all(np.isfinite(end) for end in estimator.interval_)
    np.testing.assert_allclose(sum(estimator.source_weights_.values()), 1.0)


def test_sources_with_one_and_the_same_exact_rule_agree():
    rng = np.random.default_rng(0)
    sources = {name: hospital(rng, 0.0, rows, noise=0.0) for name, rows in SIZES.items()}
    estimator = fit(sources, rng.normal(size=(40, 2)), candidates=[0.0])
    X = rng.normal(size=(9, 2))
    np.testing.assert_allclose(estimator.predict(X), X.sum(axis=1), atol=1e-9)
    lower, upper = estimator.interval_
    assert 0.0 <= lower <= estimator.target_risk_ <= upper < 1e-8


def test_units_and_origin_of_a_column_that_all_sites_share_do_not_matter(fitted):
    def other(X):
        return X * [1e3, 0.1] + [5.0, -2.0]

    sources = {name: (other(X), y + 1e3) for name, (X, y) in SOURCES.items()}
    moved = fit(sources, other(X_TARGET))
    assert moved.target_risk_ == pytest.approx(fitted.target_risk_, rel=1e-9)
    assert moved.source_weights_ == pytest.approx(fitted.source_weights_, rel=1e-9)
    assert (moved.candidate_, moved.status_) == (fitted.candidate_, fitted.status_)
    np.testing.assert_allclose(
        moved.predict(other(X_TARGET)) - 1e3, fitted.predict(X_TARGET), atol=1e-9
    )


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_the_outcome_is_the_unit_of_the_risk(unit, fitted):
    other = fit({name: (X, unit * y) for name, (X, y) in SOURCES.items()})
    np.testing.assert_allclose(other.predict(X_TARGET), unit * fitted.predict(X_TARGET), rtol=1e-9)
    assert other.status_ == fitted.status_
    assert other.target_risk_ == pytest.approx(unit**2 * fitted.target_risk_, rel=1e-9, abs=0.0)
    expected = [unit**2 * end for end in fitted.interval_]
    assert other.interval_ == pytest.approx(expected, rel=1e-9, abs=0.0)


def test_pipelines_are_fitted_with_their_candidates_and_travel():
    model = make_pipeline(StandardScaler(), Lasso())
    estimator = fit(model=model, candidates={"lasso__alpha": [0.01, 1.0]})
    assert estimator.candidate_["lasso__alpha"] == 0.01
    assert estimator.target_risk_ == pytest.approx(fit(candidates=[0.0]).target_risk_, rel=0.2)


def test_a_model_that_is_not_fitted_anywhere_is_an_error_that_names_the_sources():
    with pytest.raises(CandidatesError, match=r"all 2 failed at 'east', 'north', 'south', 'west'"):
        fit(model=OrthogonalMatchingPursuit(), candidates={"n_nonzero_coefs": [50, 60]})


def test_a_candidate_that_fails_somewhere_is_dropped_everywhere_by_name():
    model = TheilSenRegressor(max_subpopulation=10, random_state=0)
    estimator = fit(model=model, candidates={"n_subsamples": [5, 45]})
    assert estimator.candidate_ == {"n_subsamples": 5}
    assert estimator.adaptation_.kept == (0,)
    dropped = {f.source for f in estimator.findings_ if f.code == "candidate-failed"}
    assert dropped == {"south", "east"}  # 36 training rows, and 41 or 42


def test_a_candidate_that_fits_but_cannot_predict_is_dropped_like_one_that_cannot_fit():
    model = KNeighborsRegressor(algorithm="brute")
    estimator = fit(model=model, candidates={"n_neighbors": [5, 45]})
    assert estimator.candidate_ == {"n_neighbors": 5}
    dropped = {f.source for f in estimator.findings_ if f.code == "candidate-failed"}
    assert dropped == {"south", "east"}


def test_a_forest_is_refused_by_type_until_its_trees_are_trusted():
    options = {
        "model": RandomForestClassifier(n_estimators=3, max_depth=2),
        "candidates": [{"ratio_power": 0.0}],
    }
    two = {name: classes(SOURCES)[name] for name in ("north", "west")}
    estimator = fit(two, trusted_types=[TREE], **options)
    assert estimator.predict_proba(X_TARGET).shape == (40, 2)
    try:
        again = fit(two, **options)  # a version of skops that trusts trees
    except UntrustedError as error:
        assert TREE in str(error)  # noqa: PT017 - either is right
    else:
        assert (again.predict_proba(X_TARGET) == estimator.predict_proba(X_TARGET)).all()


def test_a_class_of_ones_own_must_be_trusted_by_its_full_name(tmp_path, monkeypatch):
    (tmp_path / "fedcsa_test_own.py").write_text(
        "import numpy as np\n"
        "from sklearn.base import BaseEstimator, RegressorMixin\n\n\n"
        "class Halfway(RegressorMixin, BaseEstimator):\n"
        "    def __init__(self, share=0.5):\n"
        "        self.share = share\n\n"
        "    def fit(self, X, y):\n"
        "        self.middle_ = self.share * float(y.mean())\n"
        "        return self\n\n"
        "    def predict(self, X):\n"
        "        return np.full(len(X), self.middle_)\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    import fedcsa_test_own

    model, name = fedcsa_test_own.Halfway(), "fedcsa_test_own.Halfway"
    with pytest.raises(UntrustedError, match=r"'fedcsa_test_own.Halfway' is neither"):
        fit(model=model, candidates={"share": [0.5, 1.0]})
    estimator = fit(model=model, candidates={"share": [0.5, 1.0]}, trusted_types=[name])
    middles = {n: estimator.candidate_["share"] * SOURCES[n][1].mean() for n in SOURCES}
    expected = sum(estimator.source_weights_[n] * middles[n] for n in SOURCES)
    np.testing.assert_allclose(estimator.predict(X_TARGET), expected, rtol=1e-12)


# Candidates ---------------------------------------------------------------------------------


def powers(estimator):
    return [c.get("ratio_power") for c in estimator.adaptation_.plan.candidates]


def test_training_powers_are_tried_with_every_candidate():
    assert powers(fit(candidates=[0.0, 0.1])) == [0.0, 0.0, 0.5, 0.5, 1.0, 1.0]
    assert powers(fit(model=Ridge(), candidates={"alpha": [1.0]})) == [0.0, 0.5, 1.0]
    pipeline = make_pipeline(StandardScaler(), Ridge())
    assert powers(fit(model=pipeline, candidates=None)) == [0.0, 0.5, 1.0]


def test_training_powers_of_the_users_own_are_left_alone():
    assert powers(fit(candidates=[{"penalty": 0.1, "ratio_power": 0.3}, {"penalty": 0.2}])) == [
        0.3,
        None,
    ]
    assert powers(fit(model="weighted-least-squares", candidates=[0.2, 0.7])) == [0.2, 0.7]


def test_training_powers_are_not_tried_where_they_cannot_be_or_should_not():
    assert powers(fit(model=Lars(), candidates=[{}])) == [None]
    assert powers(fit(method="feddae", candidates=[0.0, 0.1])) == [None, None]
    with pytest.raises(CandidatesError, match="at 'east', 'north', 'south', 'west'"):
        fit(model=Lars(), candidates=[{"ratio_power": 1.0}])


def test_weighted_training_finds_the_best_line_of_the_target():
    # y = x²; under N(μ, 1) the best line has slope 2μ and intercept 1 − μ².
    rng = np.random.default_rng(4)
    X = rng.normal(0.0, 1.0, (2000, 1))
    sources, target = {"only": (X, X[:, 0] ** 2)}, rng.normal(0.5, 1.0, (1000, 1))
    for power, slope, intercept in ((0.0, 0.0, 1.0), (1.0, 1.0, 0.75)):
        candidates = [{"penalty": 0.0, "ratio_power": power}]
        line = fit(sources, target, candidates=candidates, scale=False)
        at = line.predict([[0.0], [1.0]])
        assert (at[1] - at[0], at[0]) == pytest.approx((slope, intercept), abs=0.15)
    chosen = fit(sources, target, candidates=[0.0])
    assert chosen.candidate_["ratio_power"] == 1.0


# The truth, where it is known ---------------------------------------------------------------


def test_numbers_of_a_known_shift_are_those_of_the_closed_form():
    # N(0, 1) to N(½, 1): E_S r² = e^¼, so ESS/n = e^(−¼); a constant 0 has risk E_T y².
    rng = np.random.default_rng(2)
    sources = {"a": hospital(rng, 0.0, 3000, d=1, noise=0.5)}
    estimator = fit(sources, rng.normal(0.5, 1.0, (2000, 1)))
    report = estimator.adaptation_.reports["a"]
    assert report.effective_rows / 3000 == pytest.approx(np.exp(-0.25), rel=0.1)
    assert report.target_mean_ratio == pytest.approx(np.exp(0.25), rel=0.1)
    assert report.ratio_mean == pytest.approx(1.0, abs=0.05)
    assert report.difference_before[0] == pytest.approx(-0.5, abs=0.1)
    assert report.difference_after[0] == pytest.approx(0.0, abs=0.05)
    constant = estimator.adaptation_.constant_risks
    error = np.sqrt(report.variance[-1] + report.spread[-1] / 2000)
    assert error < 0.08
    assert constant["guarded"] == pytest.approx(1.0 + 0.25 + 0.25, abs=3 * error)
    assert constant["naive"] == pytest.approx(1.0 + 0.25, rel=0.06)
    assert constant["guarded"] > 1.1 * constant["naive"]
    assert estimator.target_risk_ == pytest.approx(0.25, rel=0.1)
    assert estimator.interval_[0] < 0.25 < estimator.interval_[1]


def test_sources_of_one_population_weigh_as_much_as_their_rows():
    rng = np.random.default_rng(3)
    sizes = {"a": 600, "b": 250, "c": 1000}
    sources = {name: hospital(rng, 0.0, rows) for name, rows in sizes.items()}
    target = rng.normal(size=(400, 2))
    estimator = fit(sources, target)
    shares = np.array([*sizes.values()]) / sum(sizes.values())
    # The risk's weights; among three models or more, one that is far off loses some as a model.
    np.testing.assert_allclose(estimator.adaptation_.estimate.source_weights, shares, rtol=0.15)
    assert estimator.status_ == "ok"
    two = fit({name: sources[name] for name in "ab"}, target)
    assert two.source_weights_ == pytest.approx({"a": 600 / 850, "b": 250 / 850}, rel=0.15)


def test_a_study_names_the_constant_predictor_and_the_naive_estimate(fitted):
    result = fitted.adaptation_
    assert set(result.estimates) == {"guarded", "naive", "fediwe", "feddae"}
    assert set(result.constant_risks) == set(result.estimates)
    rows = {name: len(y) for name, (_, y) in SOURCES.items()}
    plain = sum(rows[n] * result.reports[n].loss_mean[-1] for n in rows) / sum(rows.values())
    assert result.constant_risks["naive"] == pytest.approx(plain, rel=1e-12)
    assert result.constant_risks["guarded"] > 1.5 * fitted.target_risk_


# Teeth: sources that are off ----------------------------------------------------------------


def test_a_source_in_other_units_is_left_out_and_named():
    X, y = SOURCES["west"]
    estimator = fit({**SOURCES, "west": (X * [1e3, 1.0], y)})
    assert estimator.source_weights_["west"] < 0.01
    named = {f.code for f in estimator.findings_ if f.source == "west"}
    assert "no-overlap" in named
    without = fit({name: pair for name, pair in SOURCES.items() if name != "west"})
    np.testing.assert_allclose(estimator.predict(X_TARGET), without.predict(X_TARGET), atol=0.1)


def test_a_source_with_flipped_outcomes_loses_weight_and_shows():
    rng = np.random.default_rng(6)
    sizes = {"a": 90, "b": 80, "c": 100, "d": 70, "flipped": 90}
    sources = {name: hospital(rng, 0.1, rows) for name, rows in sizes.items()}
    target = rng.normal(0.1, 1.0, (60, 2))
    honest = fit(sources, target)
    X, y = sources["flipped"]
    lying = fit({**sources, "flipped": (X, -y)}, target)
    assert honest.status_ == "ok"
    assert lying.source_weights_["flipped"] < 0.2 * honest.source_weights_["flipped"]
    assert lying.adaptation_.risk.ambiguity > 3.0 * honest.adaptation_.risk.ambiguity
    assert lying.adaptation_.by_rows.status == "sources disagree"
    assert lying.interval_[0] < honest.interval_[0]
    assert lying.interval_[1] > honest.interval_[1]
    naive = fit({**sources, "flipped": (X, -y)}, target, method="naive")
    truth = target.sum(axis=1)
    error = np.mean((lying.predict(target) - truth) ** 2)
    assert error < 0.5 * np.mean((naive.predict(target) - truth) ** 2)


def test_sources_that_disagree_give_both_readings_and_the_weights_by_rows():
    rng = np.random.default_rng(6)
    sources = {name: hospital(rng, 0.0, rows) for name, rows in SIZES.items()}
    for name in ("north", "east"):
        sources[name] = (sources[name][0], -sources[name][1])
    estimator = fit(sources, rng.normal(size=(60, 2)))
    risk, by_rows = estimator.adaptation_.risk, estimator.adaptation_.by_rows
    assert estimator.status_ == "sources disagree"
    assert "sources-disagree" in [f.code for f in estimator.findings_]
    assert 0.0 < risk.site < risk.ambiguity
    assert estimator.interval_[0] < risk.average < risk.risk < risk.worst
    assert risk.worst <= estimator.interval_[1]
    rows = np.array([SIZES[name] for name in sorted(SIZES)])
    np.testing.assert_allclose(by_rows.weights, rows / rows.sum(), rtol=1e-14)
    assert by_rows.average == pytest.approx(float(by_rows.weights @ _singles(estimator)), rel=1e-9)


def _singles(estimator):
    result = estimator.adaptation_
    chosen = result.kept[result.estimate.chosen]
    return [
        result.reports[name].product_mean[chosen] / result.reports[name].ratio_mean
        for name in result.sources
    ]


# Teeth: no overlap --------------------------------------------------------------------------


def test_a_target_that_nobody_resembles_is_refused_with_advice():
    with pytest.raises(NoOverlapError, match=r"on_no_overlap='predict'") as caught:
        fit(target=X_TARGET + 30.0)
    assert re.search(
        r"the nearest, '\w+', still lies [\d.]+ standard deviations", str(caught.value)
    )
    assert "Look for another source" in str(caught.value)


def test_who_insists_gets_a_model_without_an_interval():
    estimator = fit(target=X_TARGET + 30.0, on_no_overlap="predict")
    assert estimator.status_ == "no overlap"
    assert estimator.interval_ is None
    assert np.isfinite(estimator.predict(X_TARGET)).all()
    assert np.isfinite(estimator.target_risk_)
    assert "no-overlap" in [f.code for f in estimator.findings_ if not f.source]


def test_one_near_source_is_enough_to_answer():
    rng = np.random.default_rng(8)
    sources = {"near": hospital(rng, 0.0, 90), "far": hospital(rng, 9.0, 400)}
    estimator = fit(sources, rng.normal(size=(50, 2)))
    assert estimator.status_ in ("ok", "weak overlap")
    assert estimator.source_weights_["near"] > 0.99
    assert "dominant-source" in [f.code for f in estimator.findings_ if f.source == "near"]
    assert "no-overlap" in [f.code for f in estimator.findings_ if f.source == "far"]


@pytest.mark.parametrize("far", [50.0, 1e6])
def test_ratios_that_vanish_altogether_give_finite_answers(far):
    estimator = fit(target=X_TARGET + far, on_no_overlap="predict")
    assert estimator.status_ == "no overlap"
    assert np.isfinite(list(estimator.source_weights_.values())).all()
    assert sum(estimator.source_weights_.values()) == pytest.approx(1.0)
    assert np.isfinite(estimator.predict(X_TARGET)).all()


def test_columns_that_do_not_vary_at_the_target_are_an_ordinary_case():
    target = X_TARGET.copy()
    target[:, 1] = 0.5
    estimator = fit(target=target, on_no_overlap="predict")
    assert np.isfinite(estimator.predict(target)).all()
    with pytest.raises(DataError, match="at least 2 rows that differ"):
        fit(target=np.full((5, 2), 0.5), on_no_overlap="predict")


# Teeth: sources that lie --------------------------------------------------------------------


def small_study(**options):
    plan = Plan(
        features=("x0", "x1"),
        model={"name": "ridge"},
        candidates=({"penalty": 0.0}, {"penalty": 0.1}),
        **options,
    )
    sources = [Source(name, *pair, policy=Policy.open()) for name, pair in SOURCES.items()]
    return Target(X_TARGET, plan, policy=Policy.open()), sources


class Editing(InProcessTransport):
    """A transport on whose way something happens to the answers of one source."""

    def __init__(self, sources, edit, liar="west"):
        super().__init__(sources)
        self.edit, self.liar = edit, liar

    def ask(self, message, sources, phase):
        answers = super().ask(message, sources, phase)
        if self.liar in answers:
            answers[self.liar] = self.edit(answers[self.liar])
        return answers


def forged(message, **changes):
    """As if a site that does not run our checks had sent it."""
    liar = object.__new__(type(message))
    for item in dataclasses.fields(message):
        object.__setattr__(liar, item.name, changes.get(item.name, getattr(message, item.name)))
    return decode(encode(liar))


def shorter(report):
    return {
        item.name: getattr(report, item.name)[1:]
        for item in dataclasses.fields(report)
        if item.metadata["kind"] == "vector" and not item.name.startswith("difference")
    }


LIES = {
    "more effective rows than rows": (
        lambda r: {"effective_rows": r.n_validation * 1.2},
        "effective rows ≤ n_validation",
    ),
    "more effective rows than the ratio has": (
        lambda r: {"effective_rows": 0.99 * r.n_validation, "largest_share": 1.05 / r.n_validation},
        "effective rows that follow from the ratio's moments",
    ),
    "a negative risk": (
        lambda r: {"loss_mean": -r.loss_mean},
        "source 'west' has a negative risk",
    ),
    "a negative weighted risk": (
        lambda r: {"product_mean": -r.product_mean},
        "source 'west' has a negative risk",
    ),
    "a weighted risk that no weights give": (
        lambda r: {"product_mean": 1e6 * r.product_mean},
        "source 'west' has an impossible weighted risk",
    ),
    "a huge kernel imbalance": (
        lambda _: {"kernel_imbalance": 1e9},
        "source 'west' has an impossible kernel imbalance",
    ),
    "a negative kernel imbalance": (
        lambda _: {"kernel_imbalance": -0.1},
        "imbalance that are not negative",
    ),
    "a negative mean ratio": (
        lambda r: {"ratio_mean": -r.ratio_mean},
        "ratio moments, shares and imbalance that are not negative",
    ),
    "a broken Cauchy-Schwarz": (
        lambda r: {"co_moment": r.co_moment + 1.1 * np.sqrt(r.product_m2 * r.ratio_m2)},
        "obey Cauchy–Schwarz",
    ),
    "a negative second moment": (
        lambda r: {"loss_m2": -r.loss_m2},
        "second moments that are not negative",
    ),
    "not a number": (
        lambda r: {"loss_mean": np.full_like(r.loss_mean, np.nan)},
        "risk-report.loss_mean must be finite",
    ),
    "infinity": (
        lambda r: {"variance": np.full_like(r.variance, np.inf)},
        "risk-report.variance must be finite",
    ),
    "one array too short": (
        lambda r: {"loss_m2": r.loss_m2[1:]},
        "same number of candidates throughout",
    ),
    "all arrays too short": (shorter, "source 'west' must cover the study's 2 candidates"),
    "another number of features": (
        lambda r: {
            "difference_before": r.difference_before[1:],
            "difference_after": r.difference_after[1:],
        },
        "source 'west' must cover the study's 2 candidates and 2 features",
    ),
    "rows that were not judged": (
        lambda r: {"n_rows": 10 * r.n_rows},
        "source 'west' must judge every row once",
    ),
    "no guard terms": (
        lambda _: {"spread": np.empty(0), "variance": np.empty(0), "explained": np.empty(0)},
        "source 'west' must suit the study's scheme",
    ),
    "no variance": (
        lambda r: {"variance": np.zeros_like(r.variance)},
        "variances that fit the spread",
    ),
    "more explained than there is": (
        lambda r: {"explained": 2.0 * r.spread},
        "explained ≤ spread",
    ),
    "a largest share that is too small": (
        lambda r: {"largest_share": 0.5 / r.n_validation},
        "largest share of at least 1 / effective rows",
    ),
    "another source's name": (lambda _: {"source": "north"}, "source 'west' must be its own"),
    "an answer to another question": (
        lambda _: {"in_reply_to": "0" * 64},
        "source 'west' must be its own, and to this very question",
    ),
    "a finding that nobody knows": (
        lambda _: {"findings": [{"code": "all-is-well", "evidence": {}}]},
        "source 'west' must hold findings of a source's own",
    ),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_report_that_no_honest_source_could_send_is_refused(lie):
    changes, match = LIES[lie]

    def edit(message):
        if isinstance(message, RiskReport):
            return forged(message, **changes(message))
        return message

    target, sources = small_study()
    with pytest.raises(MessageError, match=re.escape(match)):
        run(target, Editing(sources, edit))


ENORMOUS = {
    "differences": lambda r: {"difference_after": np.full_like(r.difference_after, 1e200)},
    "differences before": lambda r: {"difference_before": np.full_like(r.difference_before, 1e300)},
    "spreads": lambda r: {
        "spread": np.full_like(r.spread, 1e300),
        "variance": np.full_like(r.spread, 1.02e300 / r.effective_rows),
    },
    "second moments": lambda r: {
        "loss_m2": np.full_like(r.spread, 1e300), "product_m2": np.full_like(r.spread, 1e300),
    },
    "risks": lambda r: {
        "loss_mean": np.full_like(r.spread, 1e300),
        "product_mean": np.full_like(r.spread, 1e300 * r.ratio_mean),
    },
    "means at the target": lambda _: {"target_mean_ratio": 1e300},
}  # fmt: skip


@pytest.mark.parametrize("what", ENORMOUS)
def test_enormous_numbers_are_refused_or_stay_finite(what):
    def edit(message):
        if isinstance(message, RiskReport):
            return forged(message, **ENORMOUS[what](message))
        return message

    target, sources = small_study()
    try:
        found = run(target, Editing(sources, edit))
    except MessageError:
        return
    assert np.isfinite(list(found.source_weights.values())).all()
    numbers = [value for value in vars(found.risk).values() if isinstance(value, float)]
    assert np.isfinite(numbers).all()
    assert np.isfinite(found.predict(X_TARGET)).all()


@pytest.mark.parametrize("lie", ["effective_rows", "ratio_mean", "kernel_imbalance"])
def test_a_number_that_is_none_does_not_even_become_a_message(lie):
    def edit(message):
        return dataclasses.replace(message, **{lie: float("nan")})

    target, sources = small_study()
    with pytest.raises(MessageError, match=rf"risk-report.{lie} must be a finite number"):
        run(target, Editing(sources, edit))


def test_a_risk_above_one_is_refused_where_the_loss_cannot_be():
    plan = Plan(
        features=("x0", "x1"),
        model={
            "name": "sklearn",
            "estimator": {"class": "sklearn.linear_model.LogisticRegression", "parameters": {}},
        },
        candidates=({"C": 1.0},),
        classes=("no", "yes"),
        loss="brier",
    )
    labelled = classes(SOURCES)
    sources = [Source(name, *pair, policy=Policy.open()) for name, pair in labelled.items()]

    def edit(message):
        if isinstance(message, RiskReport):
            return forged(message, loss_mean=message.loss_mean + 1.0)
        return message

    target = Target(X_TARGET, plan, policy=Policy.open())
    with pytest.raises(MessageError, match=r"source 'west' has a risk above 1"):
        run(target, Editing(sources, edit))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        (lambda m: {"candidate": (m.candidate + 1) % 2}, "must send the candidate asked for"),
        (lambda _: {"coefficients": np.ones(3)}, "must send one coefficient per feature"),
        (lambda _: {"link": "logistic"}, "must send a model of the study's outcome"),
        (lambda _: {"coefficients": np.array([np.nan, 1.0])}, "coefficients must be finite"),
        (lambda _: {"source": "north"}, "must be its own"),
    ],
)
def test_a_model_that_was_not_asked_for_is_refused(changes, match):
    def edit(message):
        return forged(message, **changes(message)) if isinstance(message, ModelReport) else message

    target, sources = small_study()
    with pytest.raises(MessageError, match=match):
        run(target, Editing(sources, edit))


def test_a_report_in_place_of_a_model_is_refused():
    kept = {}

    def edit(message):
        kept.setdefault("report", message)
        return kept["report"]

    target, sources = small_study()
    with pytest.raises(
        MessageError, match=r"'west' must answer with a model-report; a risk-report"
    ):
        run(target, Editing(sources, edit))


def boast(message):
    """A lie that contradicts nothing: I am the target, I never err, and everything is 50."""
    if isinstance(message, ModelReport):
        return forged(
            message, n_rows=10**9, coefficients=np.zeros(2), intercept=50.0, prediction_variance=0.0
        )
    count, n = len(message.loss_mean), 10**9
    small = np.full(count, 1e-6)
    return forged(
        message,
        n_rows=n, n_validation=n, ratio_mean=1.0, ratio_m2=0.0, effective_rows=float(n),
        largest_share=1.0 / n, kernel_imbalance=0.0, difference_after=np.zeros(2),
        loss_mean=small, product_mean=small, loss_m2=small, product_m2=small,
        co_moment=np.zeros(count), spread=small, variance=small / n, explained=np.zeros(count),
    )  # fmt: skip


def test_a_source_that_boasts_without_contradiction_owns_the_mean_but_not_the_median():
    target, sources = small_study()
    mean = run(target, Editing(sources, boast))
    assert mean.source_weights["west"] > 0.9
    assert np.abs(mean.predict(X_TARGET) - 50.0).max() < 5.0

    target, sources = small_study(combine="median")
    median = run(target, Editing(sources, boast))
    assert median.source_weights["west"] <= 1.0 / 3.0 + 1e-12
    target, sources = small_study()
    honest = np.column_stack(
        [
            model.predict((X_TARGET - median.mean) / median.sd)
            for name, model in sorted(run(target, InProcessTransport(sources)).models.items())
            if name != "west"
        ]
    )
    found = median.predict(X_TARGET)
    assert (found >= honest.min(axis=1) - 0.2).all()  # another candidate may have been chosen
    assert (found <= honest.max(axis=1) + 0.2).all()
    assert np.sqrt(np.mean((found - X_TARGET.sum(axis=1)) ** 2)) < 1.0
    assert median.interval is None
    assert "not-certified" in [finding.code for finding in median.findings]


@pytest.mark.parametrize("method", ["guarded", "naive"])
def test_a_median_of_three_sources_is_refused(method):
    three = {name: SOURCES[name] for name in ("north", "west", "east")}
    with pytest.raises(
        ParameterError, match=r"'combine' parameter must be 'mean' with fewer than 4"
    ):
        fit(three, combine="median", method=method)


def test_the_median_of_honest_sources_is_near_their_mean(fitted):
    median = fit(combine="median")
    assert max(median.source_weights_.values()) <= 1 / 3 + 1e-12
    np.testing.assert_allclose(median.predict(X_TARGET), fitted.predict(X_TARGET), atol=0.5)


@pytest.mark.parametrize("method", ["feddae", "naive"])
def test_the_median_is_for_the_papers_methods_too(method):
    estimator = fit(combine="median", method=method)
    assert sum(estimator.source_weights_.values()) == pytest.approx(1.0)
    assert max(estimator.source_weights_.values()) <= 1 / 3 + 1e-12


def test_the_median_of_probabilities_sums_to_one():
    estimator = fit(
        classes(SOURCES, ("a", "b", "c")),
        model=LogisticRegression(),
        candidates=[{"ratio_power": 0.0}],
        combine="median",
    )
    np.testing.assert_allclose(estimator.predict_proba(X_TARGET).sum(axis=1), 1.0, rtol=1e-12)


# Policies -----------------------------------------------------------------------------------


def test_a_site_that_refuses_is_named_with_its_rule_and_the_others_go_on():
    rng = np.random.default_rng(5)
    sources = {"big": hospital(rng, 0.0, 200), "small": hospital(rng, 0.0, 60)}
    estimator = fit(sources, rng.normal(size=(60, 2)), policy=Policy())
    assert estimator.source_weights_ == {"big": 1.0}
    refusals = [f for f in estimator.findings_ if f.code == "source-refused"]
    assert [(f.source, f.evidence["rule"]) for f in refusals] == [("small", "min_fold_rows")]


def test_nobody_left_is_an_error():
    with pytest.raises(NoSourcesError, match="4 were asked and all refused"):
        fit(policy=Policy(min_fold_rows=1000))


# The paper's methods ------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["feddae", "fediwe", "naive"])
@pytest.mark.parametrize("exchange", ["embedding", "rows"])
def test_the_papers_methods_split_in_thirds_and_send_the_training_folds_model(method, exchange):
    estimator = fit(method=method, exchange=exchange)
    result, plan = estimator.adaptation_, estimator.adaptation_.plan
    assert (plan.scheme, plan.folds, plan.refit) == ("split", 3, False)
    assert plan.candidates == tuple({"penalty": theta} for theta in PENALTIES)
    assert (estimator.interval_, estimator.status_, result.risk) == (None, "not judged", None)
    mean, sd = X_TARGET.mean(axis=0), X_TARGET.std(axis=0)
    for name, (X, y) in SOURCES.items():
        [turn] = rotations(len(y), "split", generator_for(plan.seed, name, "folds"))
        assert result.reports[name].n_validation == len(turn.validation)
        assert result.model_reports[name].n_rows == len(turn.train)
        seen, train = (X - mean) / sd, turn.train
        line = Ridge(alpha=len(train) * estimator.candidate_["penalty"], solver="cholesky")
        line.fit(seen[train], y[train])
        np.testing.assert_allclose(result.model_reports[name].coefficients, line.coef_, rtol=1e-8)
    if method != "feddae":
        rows = {name: result.reports[name].n_validation for name in SOURCES}
        for name, weight in estimator.source_weights_.items():
            assert weight == pytest.approx(rows[name] / sum(rows.values()), rel=1e-12)


@pytest.mark.parametrize("exchange", ["embedding", "rows"])
def test_rows_leave_the_target_only_when_the_exchange_says_so(exchange):
    entries = fit(method="naive", exchange=exchange).adaptation_.ledgers["target"]
    shapes = {record.name: record.shape for record in entries[0].fields}
    assert shapes["rows"] == ((40, 2) if exchange == "rows" else (0, 2))
    assert (shapes["embedding"] == (0,)) is (exchange == "rows")


def test_the_guarded_method_with_rows_is_refused_with_advice():
    with pytest.raises(ParameterError, match=r"name a method of the paper: 'naive', 'fediwe'"):
        fit(exchange="rows")


def test_given_weights_are_used_as_they_are():
    weights = {"north": 1.0, "south": 0.0, "west": 2.0, "east": 1.0}
    estimator = fit(method="fedle", fedle_weights=weights)
    expected = {name: weights[name] / 4.0 for name in sorted(weights)}
    assert estimator.source_weights_ == pytest.approx(expected)
    found = estimator.adaptation_.estimates["fedle"]
    np.testing.assert_allclose(found.weights, np.tile([*expected.values()], (3, 1)))


def test_a_median_of_three_sources_is_refused_before_any_is_asked():
    three, told = {name: SOURCES[name] for name in ("north", "west", "east")}, []
    with pytest.raises(ParameterError, match="'combine' parameter must be 'mean' with fewer"):
        FedCSA(combine="median").fit(three, X_TARGET, progress=lambda *step: told.append(step))
    assert told == []


def test_weights_missing_beside_another_method_are_named_before_any_source_is_asked():
    told = []
    with pytest.raises(ParameterError, match="one weight for every source"):
        FedCSA(fedle_weights={"north": 1.0}).fit(
            SOURCES, X_TARGET, progress=lambda *step: told.append(step)
        )
    assert told == []


def test_fedle_is_compared_beside_the_guarded_method(fitted):
    weights = dict.fromkeys(SOURCES, 2.0)
    compared = fit(fedle_weights=weights)
    assert compared.target_risk_ == fitted.target_risk_
    assert set(compared.adaptation_.estimates) == {*fitted.adaptation_.estimates, "fedle"}
    own = fit(method="fedle", fedle_weights=weights, scheme="cross-fit")
    single = [{**item, "ratio_power": 0.0} for item in own.adaptation_.plan.candidates]
    again = fit(fedle_weights=weights, candidates=single)
    np.testing.assert_allclose(
        again.adaptation_.estimates["fedle"].risk, own.adaptation_.estimate.risk, rtol=1e-10
    )


def test_a_tuple_of_regularizations_is_as_good_as_a_list():
    listed, tupled = (fit(ratio={"regularizations": kind([0.01, 0.1])}) for kind in (list, tuple))
    assert listed.target_risk_ == tupled.target_risk_


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ({"north": 1.0}, "one weight for every source. Got \"none for 'east'\""),
        (dict.fromkeys(SOURCES, 0.0), "one weight ≥ 0 per source, not all zero"),
        ({**dict.fromkeys(SOURCES, 1.0), "west": -1.0}, "one weight ≥ 0 per source"),
    ],
)
def test_given_weights_must_cover_the_sources(weights, match):
    with pytest.raises(ParameterError, match=match):
        fit(method="fedle", fedle_weights=weights)


def test_shares_and_schemes_of_the_paper_can_be_chosen():
    shared = fit(method="feddae", folds=(0.21, 0.49, 0.30))
    assert shared.adaptation_.reports["west"].n_validation == 24
    assert shared.adaptation_.model_reports["west"].n_rows == 39
    turned = fit(method="feddae", scheme="rotate")
    assert turned.adaptation_.reports["west"].n_validation == 80
    assert turned.adaptation_.model_reports["west"].n_rows == 80
    refitted = fit(method="feddae", refit=True)
    assert refitted.adaptation_.reports["west"].n_validation == 26
    assert refitted.adaptation_.model_reports["west"].n_rows == 80

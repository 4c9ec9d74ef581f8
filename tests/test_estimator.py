"""The scikit-learn face: conventions, what it takes, what it refuses, and whom it believes."""

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
    Adaptation,
    CandidatesError,
    DataError,
    FedCSA,
    FedCSAError,
    InProcess,
    ModelError,
    NoOverlapError,
    NoSourcesError,
    ParameterError,
    Policy,
    ProtocolError,
    Source,
    Table1,
    UntrustedError,
    load_result,
)
from fedcsa.core.folds import dealt_labels, generator_for

PENALTIES = [0.0, 0.1, 1.0]
ROWS = {"exchange": "rows", "method": "naive"}
SIZES = {"north": 60, "south": 45, "west": 80, "east": 52}
PLANTED = 424242.125


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


@pytest.mark.parametrize("call", ["predict", "predict_proba", "update"])
def test_an_estimator_that_is_not_fitted_says_so(call):
    arguments = (X_TARGET, X_TARGET[:, 0]) if call == "update" else (X_TARGET,)
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
    assert fitted.target_risk_ == result.target_risk == result.promise.risk
    assert fitted.interval_ == (result.promise.lower, result.promise.upper)
    assert fitted.between_sites_ == result.promise.between_sites
    assert fitted.verdict_ == result.verdict.words == result.status
    assert list(fitted.legs_) == ["reach", "agreement", "skill"]
    assert tuple(fitted.legs_.values()) == result.verdict.legs
    assert fitted.examinations_ == dict(result.examinations)
    assert set(fitted.examinations_) == set(SIZES)
    assert fitted.source_weights_ == dict(result.source_weights)
    assert fitted.findings_ == result.findings
    assert fitted.feature_names_in_.tolist() == ["x0", "x1"]
    assert fitted.n_features_in_ == 2
    assert not hasattr(fitted, "classes_")
    assert sum(fitted.source_weights_.values()) == pytest.approx(1.0, rel=1e-12)
    assert list(fitted.source_weights_) == sorted(SIZES)


def test_a_prediction_is_the_weighted_mean_of_the_sources_models(fitted):
    result = fitted.adaptation_
    seen = (X_TARGET - result.table.mean) / result.table.sd
    expected = sum(
        fitted.source_weights_[name]
        * (result.models[name].intercept + seen @ result.models[name].coefficients)
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
    assert fitted.adaptation_.promise.ratio < 1.0


def test_one_source_and_one_feature_are_an_ordinary_case():
    sources, target = consortium(sizes={"only": 50}, d=1)
    estimator = fit(sources, target)
    assert estimator.source_weights_ == {"only": 1.0}
    lower, upper = estimator.interval_
    assert lower < estimator.target_risk_ < upper


def test_progress_is_told_of_every_source_in_all_phases():
    calls = []
    FedCSA(candidates=PENALTIES, random_state=0).fit(
        SOURCES, X_TARGET, progress=lambda *call: calls.append(call)
    )
    expected = [
        (phase, name, state)
        for phase in ("risk", "model", "examine")
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
    one, two = (fit(random_state=seed).adaptation_.reports["north"] for seed in (1, 2))
    assert (one.risk != two.risk).any()


def test_no_random_state_draws_a_new_seed_every_time():
    seeds = {fit(random_state=None).adaptation_.plan.seed for _ in range(3)}
    assert len(seeds) == 3


@pytest.mark.parametrize("state", [True, 1.5, "7", [7], -1, 2**63])
def test_a_random_state_that_is_no_seed_is_refused(state):
    with pytest.raises(ParameterError, match="'random_state' parameter must be a whole"):
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
    assert (ours.risk != theirs.risk).any()


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
        ("duplicate", r"must have every column once; twice or more: 'age'"),
        ("text", r"Source 'west': column 'bmi' must hold numbers"),
        ("NaN", r"Source 'west': column 'bmi' must be finite, but 1 of its 80 cells is"),
        ("infinite", r"Source 'west': column 'bmi' must be finite, but 1 of its 80 cells is"),
    ],
)
def test_a_broken_frame_is_refused_by_its_own_name(how, match):
    sources, frame = frames(pd)
    sources["west"] = (broken_frame(how), sources["west"][1])
    refused(DataError, match, sources, frame(X_TARGET))


@pytest.mark.parametrize("how", ["missing", "extra", "duplicate", "text", "NaN", "infinite"])
def test_a_broken_frame_at_the_target_or_in_predict_is_refused_too(how):
    sources, frame = frames(pd)
    match = "must have the columns|column once|must hold numbers|must be finite"
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
        (None, r"Source 'west' must have outcomes y"),
        (np.full(79, PLANTED), r"outcome of source 'west' must have 80 rows like its features"),
        (np.r_[np.nan, np.full(79, PLANTED)], r"outcome of source 'west' must be finite"),
        (np.r_[np.inf, np.full(79, PLANTED)], r"outcome of source 'west' must be finite"),
        (["424242.125"] * 80, r"outcome of source 'west' must hold numbers"),
        (["no", "yes"] * 40, r"For classes give a classifier, .* FedCSA\(LogisticRegression\(\)\)"),
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
        "short",
        "NaN",
        "infinite",
        "text",
        "classes",
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
        (np.array(["yes", None] * 40, dtype=object), r"source 'west' has missing labels"),
        (np.array([0.0, np.nan] * 40), r"source 'west' has missing labels"),
        (pd.array(["yes", pd.NA] * 40, dtype="string"), r"source 'west' has missing labels"),
        (np.array([0, 424242] * 40), "all be texts or all be numbers"),
        (np.array([("a",), "b"] * 40, dtype=object), "must all be texts or all be numbers"),
        (np.array(["no", "yes"] * 39), r"outcome of source 'west' must have 80 rows"),
    ],
    ids=["None", "NaN", "NA", "mixed types", "tuples", "short"],
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
        InProcess(twins)
    with pytest.raises(ParameterError, match="at least one source"):
        InProcess([])


def test_a_source_is_named_by_a_text():
    with pytest.raises(FedCSAError, match="must be a mapping name"):
        FedCSA(random_state=0).fit({1: SOURCES["west"], "1": SOURCES["east"]}, X_TARGET)


def test_a_source_called_target_does_not_hide_what_left_the_target():
    sources = {"target": SOURCES["west"], "b": SOURCES["east"]}
    try:
        ledgers = fit(sources).adaptation_.ledgers
    except FedCSAError as error:
        assert "target" in str(error)  # noqa: PT017 - a study file refuses the name
    else:
        left = [entry.message for entries in ledgers.values() for entry in entries]
        assert {"brief", "examination", "model-request"} <= set(left)


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


def test_two_rows_are_a_target_that_the_reach_leg_calls_too_few():
    rng = np.random.default_rng(0)
    sources = {name: hospital(rng, 0.0, 200) for name in "abcd"}
    estimator = fit(sources, np.array([[1.0, -1.0], [-1.0, 1.0]]))
    assert estimator.interval_[0] < estimator.target_risk_ < estimator.interval_[1]
    assert not estimator.legs_["reach"].passed
    assert "the target has 2 rows, fewer than 50" in estimator.legs_["reach"].sentence


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"method": "magic"}, "'method' parameter must be one of"),
        ({"exchange": "pigeon"}, "'exchange' parameter must be one of"),
        ({"combine": "mode"}, "'combine' parameter must be one of"),
        ({"on_no_overlap": "pray"}, "'on_no_overlap' parameter must be one of"),
        ({"scheme": "holdout"}, "'scheme' parameter must be one of"),
        ({"level": 0.0}, "'level' parameter must be a number between 0 and 1"),
        ({"level": 1.0}, "'level' parameter must be a number between 0 and 1"),
        ({"folds": 1}, "'folds' parameter must be a whole number of at least 2"),
        ({"folds": True}, "'folds' parameter"),
        ({"folds": "three"}, "'folds' parameter"),
        ({"folds": [0.5, 0.5, 0.5], "method": "naive"}, "three positive shares that sum to 1"),
        ({"folds": 4, "method": "naive", "exchange": "rows"}, "'folds' parameter must be 3"),
        ({"compare": ("naive", "magic")}, "'compare' parameter must be a list of formulas"),
        ({"compare": ("validated",)}, "'compare' parameter must be a list of formulas"),
        ({"compare": ("fedle",)}, "must be given for the method 'fedle'"),
        ({"exchange": "rows"}, "Algorithm 1 of the paper choose preset='paper'"),
        ({"scheme": "split"}, "Algorithm 1 of the paper choose preset='paper'"),
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
        ({"ratio": {"bandwidths": [1.0]}}, "'ratio' parameter must be left out unless exchange is"),
        ({"ratio": Ridge()}, "'ratio' parameter must be left out unless exchange is 'rows'"),
        ({**ROWS, "ratio": {"bandwith": [1.0]}}, "Did you mean 'bandwidths'"),
        ({**ROWS, "ratio": {"bandwidths": [-1.0]}}, "'bandwidths' parameter must be"),
        ({**ROWS, "ratio": {"regularizations": []}}, "'regularizations' parameter must be"),
        (
            {**ROWS, "ratio": {"n_centres": "a"}},
            r"ratio\['n_centres'\]. .* a number",
        ),
        ({**ROWS, "ratio": [1]}, "a mapping of options to values, or an object .* Got 'list'"),
        ({"columns": {"x0": "number"}}, "must have the 1 described columns"),
        ({"columns": {"x0": "colour", "x1": "number"}}, "x0"),
        ({"fedle_weights": {"north": 1.0}}, "one weight for every source. Got \"none for 'east'\""),
        ({"method": "fedle"}, "must be given for the method 'fedle'"),
        ({"level": "0.9"}, "'level' parameter must be a number between 0 and 1"),
        ({"level": np.array([0.9, 0.8])}, "'level' parameter must be a number .* Got 'ndarray'"),
        ({"policy": "x"}, "'policy' parameter must be a Policy or None. Got 'str'"),
        ({"trusted_types": 3}, "'trusted_types' parameter must be a list of full names"),
        ({"trusted_types": "a.B"}, "'trusted_types' parameter must be a list of full names"),
        ({"trusted_types": [3]}, "'trusted_types' parameter must be a list of full names"),
        ({"trusted_types": np.array("a.B")}, "'trusted_types' parameter must be a list of full"),
    ],
)
def test_an_option_outside_its_range_is_refused_by_name(options, match):
    with pytest.raises((ParameterError, DataError), match=match):
        fit(**options)


STRANGE = {
    "texts": np.array(["a", "b"]),
    "one number": np.array(3.0),
    "object": object(),
    "mixed keys": {1: [0.5], "a": [0.5]},
}


@pytest.mark.parametrize("value", STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize("name", sorted(FedCSA().get_params(deep=False).keys() - {"trusted_types"}))
def test_what_no_parameter_can_be_is_refused_by_an_error_of_ours(name, value):
    with pytest.raises(FedCSAError, match=r"must|Unknown"):
        fit(**{name: value})


# Losses -------------------------------------------------------------------------------------


def twice_squared(prediction, y):
    return 2.0 * (prediction - y) ** 2


def test_a_positive_loss_of_ones_own_has_a_promise_like_any_other(fitted):
    own = fit(loss=twice_squared)
    assert own.adaptation_.plan.loss == "own:twice_squared"
    np.testing.assert_allclose(own.predict(X_TARGET), fitted.predict(X_TARGET), rtol=1e-10)
    assert own.target_risk_ == pytest.approx(2.0 * fitted.target_risk_, rel=1e-9)
    assert own.interval_ == pytest.approx([2.0 * end for end in fitted.interval_], rel=1e-9)
    assert own.verdict_ == fitted.verdict_


def test_a_loss_that_may_be_negative_has_an_estimate_and_no_promise():
    own = fit(loss=lambda prediction, y: (prediction - y) ** 2 - 0.5)
    assert own.interval_ is None
    assert own.between_sites_ is None
    assert own.target_risk_ == own.adaptation_.estimate.risk[own.adaptation_.estimate.chosen]
    assert own.verdict_ == "use it with care"
    codes = {(f.code, f.evidence.get("reason")) for f in own.findings_}
    assert {("no-promise", None), ("not-examined", "loss_not_positive")} <= codes


class OddError(Exception):
    """An error of a user's own."""


def test_what_a_loss_of_ones_own_says_when_it_fails_is_shown():
    def failing(prediction, y):  # noqa: ARG001
        raise OddError("the moon is not full")

    with pytest.raises(ProtocolError, match=r"Source 'east' .*OddError: the moon is not full"):
        fit(loss=failing)


def test_what_a_model_says_when_it_fails_everywhere_is_shown():
    with pytest.raises(CandidatesError, match=r"The model says: ValueError: The number of atoms"):
        fit(model=OrthogonalMatchingPursuit(), candidates={"n_nonzero_coefs": [50, 60]})


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


@pytest.mark.parametrize("level", [0.5, 0.8, 0.99])
def test_a_higher_level_gives_a_wider_interval_around_the_same_risk(level, fitted):
    other = fit(level=level)
    assert other.target_risk_ == fitted.target_risk_
    inner, outer = sorted([other.interval_, fitted.interval_], key=lambda ends: ends[1] - ends[0])
    assert outer[0] < inner[0] < inner[1] < outer[1]
    assert (inner == other.interval_) is (level < 0.95)


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


def test_classes_that_are_separated_without_error_have_a_rate_that_few_rows_cannot_rule_out():
    rng = np.random.default_rng(0)

    def site(rows):
        X = rng.normal(size=(rows, 2))
        X[:, 0] = np.where(X[:, 0] > 0.0, 3.0, -3.0)
        return X, (X[:, 0] > 0.0).astype(int)

    sources = {name: site(40) for name in "abcd"}
    estimator = fit(
        sources, site(40)[0], model=LogisticRegression(), candidates=[{"C": 1.0}], loss="zero-one"
    )
    for name, found in estimator.examinations_.items():
        ess = estimator.adaptation_.reports[name].effective_rows
        assert found.risk == pytest.approx(0.5 / (ess + 1.0), rel=1e-9)  # (ESS·0 + ½)/(ESS + 1)
    assert 0.0 < estimator.interval_[0] < estimator.target_risk_ < estimator.interval_[1] < 0.2
    assert estimator.verdict_ != "do not use it"


def test_sources_with_one_and_the_same_exact_rule_agree():
    rng = np.random.default_rng(0)
    sources = {name: hospital(rng, 0.0, rows, noise=0.0) for name, rows in SIZES.items()}
    estimator = fit(sources, rng.normal(size=(40, 2)), candidates=[0.0])
    X = rng.normal(size=(9, 2))
    np.testing.assert_allclose(estimator.predict(X), X.sum(axis=1), atol=1e-9)
    lower, upper = estimator.interval_
    assert 0.0 <= lower <= estimator.target_risk_ <= upper < 1e-8


def test_units_of_a_column_that_all_sites_share_do_not_matter(fitted):
    def other(X):
        return X * [1e3, 0.1]  # two digits of an sd are the same digits

    moved = fit({name: (other(X), y) for name, (X, y) in SOURCES.items()}, other(X_TARGET))
    assert moved.target_risk_ == pytest.approx(fitted.target_risk_, rel=1e-9)
    assert moved.interval_ == pytest.approx(fitted.interval_, rel=1e-9)
    assert moved.source_weights_ == pytest.approx(fitted.source_weights_, rel=1e-9)
    assert (moved.candidate_, moved.verdict_) == (fitted.candidate_, fitted.verdict_)
    np.testing.assert_allclose(moved.predict(other(X_TARGET)), fitted.predict(X_TARGET), atol=1e-9)


def test_origins_matter_no_more_than_the_rounding_of_means(fitted):
    origin = np.array([5.0, -2.0])
    sources = {name: (X + origin, y + 1e3) for name, (X, y) in SOURCES.items()}
    moved = fit(sources, X_TARGET + origin)
    assert moved.target_risk_ == pytest.approx(fitted.target_risk_, rel=0.02)
    expected = fitted.predict(X_TARGET)
    np.testing.assert_allclose(moved.predict(X_TARGET + origin) - 1e3, expected, atol=0.02)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_the_outcome_is_the_unit_of_the_risk(unit, fitted):
    other = fit({name: (X, unit * y) for name, (X, y) in SOURCES.items()})
    np.testing.assert_allclose(other.predict(X_TARGET), unit * fitted.predict(X_TARGET), rtol=1e-9)
    assert other.verdict_ == fitted.verdict_
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


@pytest.mark.parametrize(
    ("model", "parameter"),
    [
        (TheilSenRegressor(max_subpopulation=10, random_state=0), "n_subsamples"),  # cannot fit
        (KNeighborsRegressor(algorithm="brute"), "n_neighbors"),  # fits, but cannot predict
    ],
    ids=["fit", "predict"],
)
def test_a_candidate_that_fails_at_a_source_is_left_out_there_by_name(model, parameter):
    estimator = fit(model=model, candidates={parameter: [5, 45]})
    adaptation = estimator.adaptation_
    failed = {f.source for f in estimator.findings_ if f.code == "candidate-failed"}
    assert failed == {"south", "east"}  # 36 training rows, and 41 or 42
    for name, report in adaptation.reports.items():
        assert dict(report.failed) == ({"1": "ValueError"} if name in failed else {})
    senders = set(SIZES) if estimator.candidate_[parameter] == 5 else set(SIZES) - failed
    assert set(adaptation.models) == senders
    assert set(estimator.examinations_) == set(SIZES)  # who sends no model examines all the same


def test_a_forest_is_fitted_on_the_agreed_grid_and_travels_as_arrays():
    two = {name: classes(SOURCES)[name] for name in ("north", "west")}
    model = RandomForestClassifier(n_estimators=3, max_depth=2)
    estimator = fit(two, model=model, candidates=[{"ratio_power": 0.0}])
    assert estimator.predict_proba(X_TARGET).shape == (40, 2)
    reports = estimator.adaptation_.model_reports.values()
    assert {report.form["kind"] for report in reports} == {"trees"}


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


def test_training_powers_are_tried_with_every_candidate_of_the_default():
    assert powers(fit(candidates=None)) == [0.0] * 13 + [0.5] * 13 + [1.0] * 13
    pipeline = make_pipeline(StandardScaler(), Ridge())
    assert powers(fit(model=pipeline, candidates=None)) == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("model", "candidates", "expected"),
    [
        ("ridge", [0.0, 0.1], [None, None]),
        ("ridge", [{"penalty": 0.1, "ratio_power": 0.3}, {"penalty": 0.2}], [0.3, None]),
        (Ridge(), {"alpha": [1.0]}, [None]),
        ("weighted-least-squares", [0.2, 0.7], [0.2, 0.7]),
    ],
)
def test_a_list_of_candidates_is_taken_as_it_is(model, candidates, expected):
    assert powers(fit(model=model, candidates=candidates)) == expected


def test_training_powers_are_not_tried_where_they_cannot_be_or_should_not():
    assert powers(fit(model=Lars(), candidates=None)) == [None]
    assert powers(fit(method="feddae", candidates=None)) == [None] * 13
    with pytest.raises(ModelError, match="does not take sample weights"):
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
    chosen = fit(sources, target, candidates={"penalty": [0.0], "ratio_power": [0.0, 0.5, 1.0]})
    assert chosen.candidate_["ratio_power"] == 1.0


# The truth, where it is known ---------------------------------------------------------------


def test_numbers_of_a_known_shift_are_those_of_the_closed_form():
    # N(0, 1) to N(½, 1): E_S r² = e^¼, so ESS/n = e^(−¼); a constant 0 has risk E_T y².
    rng = np.random.default_rng(2)
    sources = {"a": hospital(rng, 0.0, 3000, d=1, noise=0.5)}
    estimator = fit(sources, rng.normal(0.5, 1.0, (2000, 1)), compare=("naive", "fediwe"))
    report = estimator.adaptation_.reports["a"]
    assert report.effective_rows / 3000 == pytest.approx(np.exp(-0.25), rel=0.1)
    assert report.ratio_mean == pytest.approx(1.0, abs=1e-9)
    assert report.difference_before[0] == pytest.approx(-0.5, abs=0.1)
    assert report.difference_after[0] == pytest.approx(0.0, abs=0.01)
    assert report.outcome_mean[0] == pytest.approx(0.5, abs=0.1)
    # the constant is E_T y = ½, and loses Var_T y = 1 + ¼
    found = estimator.examinations_["a"]
    assert found.constant_risk == pytest.approx(1.25, rel=0.1)
    assert found.risk == pytest.approx(0.25, rel=0.1)
    assert estimator.interval_[0] < 0.25 < estimator.interval_[1]
    # with r = n·w the mean ratio is 1, so that FedIWE's risk is the default's
    estimates = estimator.adaptation_.estimates
    np.testing.assert_allclose(estimates["fediwe"].risk, estimates["validated"].risk, rtol=1e-9)


def test_sources_of_one_population_weigh_as_much_as_their_rows():
    rng = np.random.default_rng(3)
    sizes = {"a": 600, "b": 250, "c": 1000}
    sources = {name: hospital(rng, 0.0, rows) for name, rows in sizes.items()}
    target = rng.normal(size=(400, 2))
    estimator = fit(sources, target)
    shares = np.array([*sizes.values()]) / sum(sizes.values())
    # The risk's weights; among three models or more, one that is far off loses some as a model.
    np.testing.assert_allclose(estimator.adaptation_.estimate.source_weights, shares, rtol=0.15)
    assert estimator.verdict_ == "use it"
    two = fit({name: sources[name] for name in "ab"}, target)
    assert two.source_weights_ == pytest.approx({"a": 600 / 850, "b": 250 / 850}, rel=0.15)


def test_methods_of_the_paper_are_estimated_only_where_a_study_asks(fitted):
    assert set(fitted.adaptation_.estimates) == {"validated"}
    assert len(fitted.adaptation_.reports["west"].loss_mean) == 0
    compared = fit(compare=("naive", "feddae"))
    assert set(compared.adaptation_.estimates) == {"validated", "naive", "feddae"}
    assert compared.target_risk_ == fitted.target_risk_
    rows = {name: len(y) for name, (_, y) in SOURCES.items()}
    plain = sum(rows[n] * compared.adaptation_.reports[n].loss_mean for n in rows) / sum(
        rows.values()
    )
    np.testing.assert_allclose(compared.adaptation_.estimates["naive"].risk, plain, rtol=1e-12)


# The verdict --------------------------------------------------------------------------------


def many(rng, rule, sites=6, rows=250):
    """Sites of one population whose outcomes follow `rule`(X, site's index)."""
    tables = {f"site-{k}": rng.normal(size=(rows, 2)) for k in range(sites)}
    sources = {
        name: (X, rule(X, k) + rng.normal(size=rows)) for k, (name, X) in enumerate(tables.items())
    }
    return sources, rng.normal(size=(200, 2))


@pytest.mark.parametrize(
    ("rule", "verdict", "failing"),
    [
        (lambda X, _: X.sum(axis=1), "use it", set()),
        (lambda X, k: X.sum(axis=1) + (-1.0) ** k, "use it with care", {"agreement"}),
        (lambda X, k: (-1.0) ** k * X.sum(axis=1), "do not use it", {"skill"}),
    ],
    ids=["a clear signal", "sites of another level", "sites that contradict each other"],
)
def test_a_verdict_names_the_leg_that_fails(rule, verdict, failing):
    estimator = fit(*many(np.random.default_rng(1), rule), candidates=None)
    assert estimator.verdict_ == verdict
    assert {name for name, leg in estimator.legs_.items() if not leg.passed} >= failing
    assert (estimator.verdict_ == "use it") is all(leg.passed for leg in estimator.legs_.values())
    for leg in estimator.legs_.values():
        assert bool(leg.advice) is not leg.passed


@pytest.mark.parametrize(("sites", "passed"), [(1, False), (2, False), (3, True)])
def test_three_sources_must_reach_the_target(sites, passed):
    sources, target = many(np.random.default_rng(2), lambda X, _: X.sum(axis=1), sites)
    estimator = fit(sources, target)
    assert estimator.legs_["reach"].passed is passed
    assert (estimator.verdict_ == "use it") is passed
    assert ("nothing-examined" in {f.code for f in estimator.findings_}) is (sites == 1)


def test_a_promise_is_kept_at_a_target_of_the_same_rule():
    rng = np.random.default_rng(5)
    sources, target = many(rng, lambda X, _: X.sum(axis=1))
    estimator = fit(sources, target)
    found = estimator.update(target, target.sum(axis=1) + rng.normal(size=len(target)))
    assert found.conclusion == "as promised"


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
    assert honest.verdict_ == "use it"
    assert lying.source_weights_["flipped"] < 0.2 * honest.source_weights_["flipped"]
    assert not lying.legs_["agreement"].passed
    assert lying.verdict_ != "use it"
    assert lying.between_sites_ > honest.between_sites_
    assert lying.interval_[1] > honest.interval_[1]
    naive = fit({**sources, "flipped": (X, -y)}, target, method="naive")
    truth = target.sum(axis=1)
    error = np.mean((lying.predict(target) - truth) ** 2)
    assert error < 0.5 * np.mean((naive.predict(target) - truth) ** 2)


def test_sources_whose_correlations_differ_are_named():
    rng = np.random.default_rng(0)

    def site(r, rows=300):
        X = rng.multivariate_normal([0.0, 0.0], [[1.0, r], [r, 1.0]], rows)
        return X, X.sum(axis=1) + rng.normal(size=rows)

    target = site(0.0, 40)[0]  # too few rows to tell its correlations
    alike = fit({name: site(0.6) for name in "abc"}, target)
    apart = fit({"a": site(0.6), "b": site(0.6), "c": site(-0.6)}, target)
    assert "correlations-differ" not in {f.code for f in alike.findings_}
    found = [f for f in apart.findings_ if f.code == "correlations-differ"]
    assert {(f.source, f.evidence["other source"]) for f in found} == {("a", "c"), ("b", "c")}
    assert {f.evidence["features"] for f in found} == {"x0, x1"}


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
    assert estimator.verdict_ == "do not use it"
    assert estimator.interval_ is None
    assert estimator.legs_ == {}
    assert np.isfinite(estimator.predict(X_TARGET)).all()
    assert np.isfinite(estimator.target_risk_)
    assert {f.source for f in estimator.findings_ if f.code == "no-overlap"} == set(SIZES)


def test_one_near_source_is_enough_to_answer():
    rng = np.random.default_rng(8)
    sources = {"near": hospital(rng, 0.0, 90), "far": hospital(rng, 9.0, 400)}
    estimator = fit(sources, rng.normal(size=(50, 2)))
    assert estimator.verdict_ == "use it with care"
    assert estimator.adaptation_.reaching == ("near",)
    assert estimator.source_weights_["near"] > 0.99
    assert "dominant-source" in [f.code for f in estimator.findings_ if f.source == "near"]
    assert "no-overlap" in [f.code for f in estimator.findings_ if f.source == "far"]


@pytest.mark.parametrize("far", [50.0, 1e6])
def test_sources_however_far_away_give_finite_answers(far):
    estimator = fit(target=X_TARGET + far, on_no_overlap="predict")
    assert estimator.verdict_ == "do not use it"
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


# Medians ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["validated", "naive"])
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
    with pytest.raises(NoSourcesError, match="0 of 4 answers were reports"):
        fit(policy=Policy(min_fold_rows=1000))


# The paper's methods ------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["feddae", "fediwe", "naive"])
def test_the_papers_methods_with_rows_split_in_thirds_and_send_the_training_folds_model(method):
    estimator = fit(method=method, exchange="rows")
    result, plan = estimator.adaptation_, estimator.adaptation_.plan
    assert (plan.scheme, plan.folds, plan.refit) == ("split", 3, False)
    assert plan.candidates == tuple({"penalty": theta} for theta in PENALTIES)
    assert (estimator.interval_, result.promise, estimator.legs_) == (None, None, {})
    assert result.verdict.words == "not judged"
    mean, sd = X_TARGET.mean(axis=0), X_TARGET.std(axis=0)
    for name, (X, y) in SOURCES.items():
        parts = dealt_labels(len(y), generator_for(plan.seed, name, "folds"))
        train = parts == 1
        assert result.reports[name].n_judged == (parts == 2).sum()
        assert result.model_reports[name].n_rows == train.sum()
        line = Ridge(alpha=train.sum() * estimator.candidate_["penalty"], solver="cholesky")
        line.fit(((X - mean) / sd)[train], y[train])
        np.testing.assert_allclose(result.models[name].coefficients, line.coef_, rtol=1e-8)
    if method != "feddae":
        rows = {name: result.reports[name].n_judged for name in SOURCES}
        for name, weight in estimator.source_weights_.items():
            assert weight == pytest.approx(rows[name] / sum(rows.values()), rel=1e-12)


@pytest.mark.parametrize("exchange", ["table", "rows"])
def test_rows_leave_the_target_only_when_the_exchange_says_so(exchange):
    entries = fit(method="naive", exchange=exchange).adaptation_.ledgers["target"]
    shapes = {record.name: record.shape for record in entries[0].fields}
    assert shapes["rows"] == ((40, 2) if exchange == "rows" else (0, 2))


class Halved:
    """A density ratio of one's own: the rows left of the target's mean count, the others half."""

    def fit(self, X_source, X_target):
        self.sizes = (len(X_source), len(X_target))
        self.middle = X_target[:, 0].mean()
        return self

    def predict(self, X):
        return np.where(X[:, 0] < self.middle, 1.0, 0.5)


def test_a_ratio_of_ones_own_takes_the_place_of_ulsif():
    ratio = Halved()
    estimator = fit(exchange="rows", method="fediwe", ratio=ratio)
    assert not hasattr(ratio, "middle")  # a copy is fitted, for every source
    report = estimator.adaptation_.reports["west"]
    X, _ = SOURCES["west"]
    parts = dealt_labels(80, generator_for(0, "west", "folds"))
    r = np.where(X[parts == 2][:, 0] < X_TARGET[:, 0].mean(), 1.0, 0.5)
    assert report.ratio_mean == pytest.approx(r.mean(), rel=1e-12)
    assert report.effective_rows == pytest.approx(r.sum() ** 2 / (r**2).sum(), rel=1e-12)


@pytest.mark.parametrize("bad", [np.nan, -1.0, np.inf])
def test_a_ratio_of_ones_own_must_be_finite_and_not_negative(bad):
    ratio = Halved()
    ratio.predict = lambda X: np.full(len(X), bad)
    with pytest.raises(DataError, match="one finite number ≥ 0 for each of the 52 rows"):
        fit(exchange="rows", method="fediwe", ratio=ratio)


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


def test_fedle_is_compared_beside_the_default(fitted):
    weights = dict.fromkeys(SOURCES, 2.0)
    compared = fit(fedle_weights=weights)
    assert compared.target_risk_ == fitted.target_risk_
    assert set(compared.adaptation_.estimates) == {*fitted.adaptation_.estimates, "fedle"}
    own = fit(method="fedle", fedle_weights=weights)
    np.testing.assert_allclose(
        compared.adaptation_.estimates["fedle"].risk, own.adaptation_.estimate.risk, rtol=1e-10
    )


def test_a_tuple_of_regularizations_is_as_good_as_a_list():
    listed, tupled = (
        fit(**ROWS, ratio={"regularizations": kind([0.01, 0.1])}) for kind in (list, tuple)
    )
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
    paper = {"method": "feddae", "exchange": "rows"}
    shared = fit(**paper, folds=(0.21, 0.49, 0.30))
    assert shared.adaptation_.reports["west"].n_judged == 24
    assert shared.adaptation_.model_reports["west"].n_rows == 39
    refitted = fit(**paper, refit=True)
    assert refitted.adaptation_.reports["west"].n_judged == 26
    assert refitted.adaptation_.model_reports["west"].n_rows == 80
    crossed = fit(method="feddae")
    assert crossed.adaptation_.reports["west"].n_judged == 80


# A table in place of rows -------------------------------------------------------------------


def test_a_table_alone_gives_the_answer_of_rows_but_for_the_weights_of_models(fitted):
    table = Table1.of(X_TARGET, ["x0", "x1"], [False, False])
    told = fit(target=table)
    for name in SIZES:
        ours, theirs = told.adaptation_.reports[name], fitted.adaptation_.reports[name]
        assert ours.risk.tolist() == theirs.risk.tolist()
    assert told.candidate_ == fitted.candidate_
    assert told.interval_ == pytest.approx(fitted.interval_, rel=0.05)
    assert told.predict(X_TARGET).shape == (40,)
    np.testing.assert_allclose(told.predict(X_TARGET), fitted.predict(X_TARGET), atol=0.3)


@pytest.mark.parametrize("use", [
    lambda table, _: fit(target=X_TARGET).predict(table),
    lambda table, y: fit(target=X_TARGET).update(table, y),
    lambda table, y: FedCSA().fit({**SOURCES, "table": (table, y)}, X_TARGET),
    lambda table, y: FedCSA().backtest({"a table": (table, y), **SOURCES}),
], ids=["predict", "update", "fit", "backtest"])  # fmt: skip
def test_a_table_cannot_take_the_place_of_rows(use):
    table = Table1.of(X_TARGET, ["x0", "x1"], [False, False])
    with pytest.raises(FedCSAError):
        use(table, np.zeros(40))


@pytest.mark.parametrize(
    ("table", "error", "match"),
    [
        (lambda: Table1(40, ("x0",), (False,), [0.0], [1.0]), DataError, "x1|column"),
        (
            lambda: Table1(40, ("x0", "age"), (False, False), [0.0, 0.0], [1.0, 1.0]),
            DataError,
            "column|missing",
        ),
        (
            lambda: Table1(40, ("x0", "x1"), (False, True), [0.0, 1.5], [1.0, 0.5]),
            DataError,
            "share of 'x1' must lie between 0 and 1",
        ),
        (
            lambda: Table1(40, ("x0", "x1"), (False, False), [0.0, 0.0], [1.0, 0.0]),
            DataError,
            "sd of 'x1' must be a positive number",
        ),
        (
            lambda: Table1(1, ("x0", "x1"), (False, False), [0.0, 0.0], [1.0, 1.0]),
            DataError,
            "whole number of at least 2",
        ),
        (
            lambda: Table1(
                200, ("x0", "x1"), (False, False), [0.0] * 2, [1.0] * 2, [[1.0, 1.0], [-1.0, 1.0]]
            ),
            DataError,
            "the same on both sides of the diagonal",
        ),
    ],
    ids=["few columns", "other columns", "share above 1", "no spread", "one row", "contradiction"],
)
def test_a_table_that_cannot_be_is_refused_by_name(table, error, match):
    frame = {name: (pd.DataFrame(X, columns=["x0", "x1"]), y) for name, (X, y) in SOURCES.items()}
    with pytest.raises(error, match=match):
        fit(frame, table())


def test_a_table_is_no_target_where_rows_are_exchanged():
    table = Table1.of(X_TARGET, ["x0", "x1"], [False, False])
    with pytest.raises(ParameterError, match="'X_target' parameter must be rows"):
        fit(target=table, **ROWS)


# Columns described --------------------------------------------------------------------------


def test_columns_of_zeros_and_ones_are_flags_unless_described_otherwise():
    rng = np.random.default_rng(0)

    def site(rows):
        X = np.column_stack([rng.normal(size=rows), rng.random(rows) < 0.4]).astype(float)
        return X, X.sum(axis=1) + rng.normal(size=rows)

    sources, target = {name: site(120) for name in "abc"}, site(60)[0]
    plain = fit(sources, target)
    assert plain.adaptation_.table.flags == (False, True)
    assert plain.adaptation_.table.sd[1] == 0.5
    described = fit(sources, target, columns={"x0": {"kind": "number", "sd": 4.0}, "x1": "number"})
    assert described.adaptation_.table.flags == (False, False)
    assert described.adaptation_.table.sd[0] == pytest.approx(1.2)  # 0.3 of the public one


# Columns described once ----------------------------------------------------------------------

COLUMNS = {
    "age": {"kind": "number", "sd": 12.0},
    "smoker": "flag",
    "stage": ["I", "II", "III"],
    "patient": "group",
}


def described(seed, patients):
    """A frame in which patients come two or three times, and an outcome of their own."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(patients), rng.integers(2, 4, patients))
    n = len(ids)
    frame = pd.DataFrame(
        {
            "stage": rng.choice(["I", "II", "III"], n, p=[0.5, 0.3, 0.2]),
            "patient": [f"P{i}" for i in ids],
            "age": rng.normal(60.0, 12.0, n),
            "smoker": rng.integers(0, 2, n),
        }
    )
    own = 2.0 * rng.normal(size=patients)[ids]
    return frame, 0.2 * frame["age"] + (frame["stage"] == "III") + own + rng.normal(size=n)


def test_columns_described_once_become_features_flags_and_groups():
    sources = {name: described(i, 60) for i, name in enumerate(("north", "south", "west"))}
    target = described(9, 50)[0].drop(columns="patient")
    fitted = fit(sources, target, columns=COLUMNS)
    plan = fitted.adaptation_.plan
    assert plan.features == ("age", "smoker", "stage=II", "stage=III")
    assert plan.flags == (False, True, True, True)
    assert plan.group == "patient"
    assert fitted.predict(target).shape == (len(target),)
    apart = fit(sources, target, columns={k: v for k, v in COLUMNS.items() if k != "patient"})
    for name, found in fitted.examinations_.items():  # patients are fewer than rows
        assert found.level_variance[0] > apart.examinations_[name].level_variance[0]


def test_save_writes_the_result_and_its_report(fitted, tmp_path):
    report = fitted.save(tmp_path / "result")
    assert report == tmp_path / "result" / "report.html"
    assert "<html" in report.read_text(encoding="utf-8")
    again = load_result(tmp_path / "result")
    np.testing.assert_array_equal(again.predict(X_TARGET), fitted.predict(X_TARGET))
    with pytest.raises(NotFittedError):
        FedCSA().save(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_the_scale_of_outcomes_changes_no_answer_or_is_refused(loss):
    rng = np.random.default_rng(0)
    rows = {name: rng.normal(size=(60, 2)) for name in "abc"}
    y = {name: X.sum(axis=1) + rng.normal(0.0, 0.5, 60) for name, X in rows.items()}
    X_target = rng.normal(size=(60, 2))
    risk, power = {}, 2 if loss == "squared" else 1
    for scale in (1e-150, 1e-120, 1e-59, 1e-30, 1.0, 1e30, 1e59, 1e120, 1e150):
        sources = {name: (rows[name], scale * y[name]) for name in rows}
        fedcsa = FedCSA(candidates=[0.1], loss=loss, random_state=0)
        if 1e-60 < scale < 1e60:
            risk[scale] = fedcsa.fit(sources, X_target).target_risk_ / scale**power
        else:
            with pytest.raises(DataError, match="Choose another unit"):
                fedcsa.fit(sources, X_target)
    np.testing.assert_allclose(list(risk.values()), risk[1.0], rtol=1e-9)


@pytest.mark.parametrize("name", ["measures", "verdict", "promise", "findings"])
def test_what_nobody_asks_for_is_not_computed(monkeypatch, name):
    asked = []
    whole = vars(Adaptation)[name].func
    made = property(lambda adaptation: asked.append(name) or whole(adaptation))
    monkeypatch.setattr(Adaptation, name, made)
    fitted = fit()
    assert not asked
    assert getattr(fitted.adaptation_, name) is not None
    assert asked[0] == name

"""A format that is registered in one line serves in every place; the one of docs/extend.md."""

import dataclasses
import importlib.util
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from fedcsa.errors import FedCSAError, ModelError, PolicyError
from fedcsa.messages.fields import HELD
from fedcsa.models.allowed import agreed_columns, agreed_rows_per_leaf, refused_before_fitting
from fedcsa.models.arrivals import check_agreed
from fedcsa.models.convert import to_portable
from fedcsa.models.description import another_model
from fedcsa.models.estimators import SklearnModel, needs_grid
from fedcsa.models.formats import FORMATS, open_model
from fedcsa.models.given import FileModel, for_columns, read_file_model, write_model
from fedcsa.models.leaving import long_arrays, own_values, rows_behind
from fedcsa.models.portable import Format
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.plan import Plan
from fedcsa.site.meanings import meaning_of
from fedcsa.source.exposure import exposures, fit_unexposed
from fedcsa.source.measure import prepare
from fedcsa.source.weigh import SiteRows
from fedcsa.target.target import Target

PAGE = Path(__file__).parents[2] / "docs" / "extend.md"
FILE = re.compile(r"\"gaussian_format\.py\"\)\.write_text\('''\n(.*?)\n\.\.\. '''\)", re.DOTALL)

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 2))
Y = (X[:, 0] + rng.normal(size=120) > 0.8).astype(float)
FITTED = GaussianNB().fit(X, Y)
ONLY_NB = model_description(GaussianNB())


@pytest.fixture(scope="module")
def page_format(tmp_path_factory):
    """The format that the page shows, from its own lines."""
    [lines] = FILE.findall(PAGE.read_text(encoding="utf-8"))
    path = tmp_path_factory.mktemp("page") / "gaussian_format.py"
    path.write_text(re.sub(r"^\.\.\. ?", "", lines, flags=re.M), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("format_of_the_page", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where a dataclass looks for its own
    spec.loader.exec_module(module)
    yield module.GAUSSIAN
    del sys.modules[spec.name]


@pytest.fixture
def registered(page_format, monkeypatch):
    monkeypatch.setitem(FORMATS, "gaussian", page_format)
    return page_format


def message(**changed):
    arrays = {
        "class_mean": FITTED.theta_,
        "class_variance": FITTED.var_,
        "class_share": FITTED.class_prior_,
    }
    return {"kind": "gaussian"}, {**arrays, **changed}


def opened(**changed):
    return open_model(*message(**changed), 2, 2)


def compared(estimator, **changed):
    check_agreed(*message(**changed), model_description(estimator), {}, 2, 2)
    return True


def work_of():
    """What a source fits a model of two classes from."""
    plan = Plan(
        features=("a", "b"), model=ONLY_NB, classes=("no", "yes"), loss="brier",
        candidates=expand_candidates("sklearn", [{"ratio_power": 0.0}]), scale=False,
    )  # fmt: skip
    brief = Target(rng.normal(size=(100, 2)), plan).brief(["s"])
    labels = np.array(["no", "yes"])[Y.astype(int)]
    return prepare(SiteRows.in_memory("s", X, labels, ("a", "b"), 10).of(brief))


def fitted(estimator=None, grid=None):
    model = SklearnModel(estimator or GaussianNB(), 2, grid)
    return model.fit(X, Y, np.ones(len(Y)), [{}], np.random.default_rng(0)).models[0]


def from_a_file(folder):
    path = folder / "model.json"
    write_model(path, FileModel(to_portable(FITTED, 2, None), ("a", "b"), 2))
    return read_file_model(path).model.predict(X)


# One line ---------------------------------------------------------------------------------------


def refused(estimator):
    return refused_before_fitting(model_description(estimator))


def same(found):
    np.testing.assert_allclose(found, FITTED.predict_proba(X), rtol=1e-9)
    return True


def share_by_the_formula():
    """Of every row in the weight of its class, and in every variance, in plain loops."""
    own = [np.equal(Y, y) for y in Y]
    apart = [(X[i] - X[own[i]].mean(axis=0)) ** 2 for i in range(len(Y))]
    spread = [((X[own[i]] - X[own[i]].mean(axis=0)) ** 2).sum(axis=0) for i in range(len(Y))]
    return [max(1 / own[i].sum(), *(apart[i] / spread[i])) for i in range(len(Y))]


def exposed_as_told(_):
    found = exposures(work_of(), to_portable(FITTED, 2, None))
    np.testing.assert_allclose(found, share_by_the_formula(), rtol=1e-9)
    return True


#: Every place through which a format goes, and what is seen there of one that is registered.
PLACES = {
    "may leave": lambda _: refused(GaussianNB()) == "",
    "objects": lambda _: "only without" in refused(make_pipeline(StandardScaler(), GaussianNB())),
    "converted": lambda _: same(to_portable(FITTED, 2, None).predict(X)),
    "fitted": lambda _: fitted().form["kind"] == "gaussian",
    "opened": lambda _: same(opened().predict(X)),
    "compared": lambda _: compared(GaussianNB()),
    "in a file": lambda folder: same(from_a_file(folder)),
    "exposed": exposed_as_told,
    "counted": lambda _: rows_behind(opened(), X, Y).tolist() == [sum(Y == 0), sum(Y == 1)],
    "looked through": lambda _: own_values(*message(class_mean=X[:2]), X, Y, np.empty(0))
    == ["class_mean"],
    "as long as rows": lambda _: "class_mean" in long_arrays(*message(), 2),
    "described": lambda _: "mean" in meaning_of("model-report", "arrays.class_mean").what,
}  # fmt: skip


def holds(place, folder):
    try:
        return bool(PLACES[place](folder))
    except (FedCSAError, KeyError):
        return False


@pytest.mark.parametrize("place", PLACES)
def test_one_line_is_enough_for_every_place(place, registered, tmp_path):  # noqa: ARG001
    assert holds(place, tmp_path)


@pytest.mark.parametrize("place", PLACES)
def test_without_the_line_no_place_knows_the_format(place, tmp_path):
    assert not holds(place, tmp_path)


FORGED = {
    "a negative variance": {"class_variance": -FITTED.var_},
    "a variance of 0": {"class_variance": np.zeros((2, 2))},
    "a share of 0": {"class_share": np.array([0.0, 1.0])},
    "a class too many": {"class_share": np.full(3, 1 / 3)},
    "a feature too many": {"class_mean": np.zeros((2, 3))},
    "no number": {"class_mean": np.full((2, 2), np.nan)},
    "whole numbers": {"class_mean": np.zeros((2, 2), np.int32)},
    "an array too many": {"rows": X},
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_model_of_the_page_is_refused(what, registered):  # noqa: ARG001
    with pytest.raises(ModelError):
        opened(**FORGED[what])


@pytest.mark.parametrize(("n_features", "n_classes"), [(3, 2), (2, 3), (2, 0)])
def test_the_page_refuses_a_model_of_another_study(n_features, n_classes, registered):  # noqa: ARG001
    with pytest.raises(ModelError):
        open_model(*message(), n_features, n_classes)


def test_a_model_is_taken_only_in_the_format_of_its_estimator(registered):  # noqa: ARG001
    for other in (LogisticRegression(), make_pipeline(StandardScaler(), GaussianNB())):
        with pytest.raises(ModelError, match="is another"):
            compared(other)
    line = {"kind": "linear", "link": "logistic"}
    arrays = {"coefficients": np.ones(2), "intercept": np.zeros(1)}
    with pytest.raises(ModelError, match="format is another"):
        check_agreed(line, arrays, ONLY_NB, {}, 2, 2)
    with pytest.raises(ModelError, match="shares is another"):
        compared(GaussianNB(priors=[0.9, 0.1]))


# Every part ---------------------------------------------------------------------------------------


def refuse(*_):
    raise another_model("colour")


def anything(*_):
    return ""


def columns_moved():
    return for_columns(to_portable(FITTED, 2, None), ("a", "b"), ("b", "a")).arrays["class_mean"]


def on_halves():
    means = fitted(grid=np.full(2, 0.5)).arrays["class_mean"]
    return needs_grid(SklearnModel(GaussianNB(), 2)), means.tolist()


def scaled():
    return refused(make_pipeline(MinMaxScaler(), GaussianNB()))


#: Part of a format -> another one, and where that is seen.
PARTS = {
    "estimators": (["BernoulliNB"], lambda: refused(GaussianNB())),
    "arrays": ({"class_mean": "another"}, lambda: meaning_of("model-report", "arrays.class_mean")),
    "objection": (lambda *_: "No. Use another", lambda: refused(GaussianNB())),
    "converted": (refuse, lambda: fitted().form["kind"]),
    "opened": (refuse, lambda: opened().form),
    "compared": (refuse, lambda: compared(GaussianNB())),
    "shares": (None, lambda: exposures(work_of(), opened()).min()),
    "rows_behind": (None, lambda: rows_behind(opened(), X, Y).tolist()),
    "least_rows": (lambda _: 3, lambda: agreed_rows_per_leaf(ONLY_NB)),
    "n_columns": (lambda _: 99, lambda: agreed_columns(ONLY_NB, [], 2)),
    "placed": (lambda model, *_: model, columns_moved),
    "of_leaves": (["class_mean"], lambda: long_arrays(*message(), 2)),
    "folds_scalers": (True, scaled),
    "on_grid": (True, on_halves),
}


def seen(look):
    try:
        return repr(look())
    except FedCSAError as error:
        return str(error)


def test_there_is_a_place_for_every_part():
    assert set(PARTS) == {item.name for item in dataclasses.fields(Format)}


@pytest.mark.parametrize("part", PARTS)
def test_another_part_is_seen_where_it_counts(part, registered, monkeypatch):
    if part == "folds_scalers":  # the page's own takes no steps at all
        registered = replace(registered, objection=anything)
        monkeypatch.setitem(FORMATS, "gaussian", registered)
    other, look = PARTS[part]
    before = seen(look)
    monkeypatch.setitem(FORMATS, "gaussian", replace(registered, **{part: other}))
    assert seen(look) != before


def test_a_format_that_does_not_tell_shares_is_wholly_exposed_and_stays(registered, monkeypatch):
    monkeypatch.setitem(FORMATS, "gaussian", replace(registered, shares=None))
    work = work_of()
    assert exposures(work, opened()).tolist() == [1.0] * len(Y)
    [path] = work.fits.paths([work.fits.sent], [work.chosen])
    with pytest.raises(PolicyError, match="single patients"):
        fit_unexposed(path, work, 0.5)


def test_one_patient_alone_in_a_class_is_wholly_exposed(registered):
    alone = (np.arange(120) == 7).astype(float)
    model = to_portable(GaussianNB().fit(X, alone), 2, None)
    shares = registered.shares(
        model, [(X[:50], alone[:50], np.ones(50)), (X[50:], alone[50:], np.ones(70))]
    )
    assert np.flatnonzero(shares > 0.5).tolist() == [7]
    assert shares[7] == 1.0


def test_our_own_formats_tell_shares_and_none_is_for_held_objects():
    assert set(FORMATS) == {"linear", "design", "trees"}
    assert all(own.shares is not None for own in FORMATS.values())
    assert HELD not in FORMATS


def test_a_name_that_was_given_without_its_list_carries_nothing(registered, monkeypatch):
    monkeypatch.setitem(FORMATS, "gaussian", replace(registered, estimators="GaussianNB"))
    assert "no format" in refused(GaussianNB())


def test_a_given_model_without_places_needs_the_columns_of_the_study(registered):  # noqa: ARG001
    model = to_portable(FITTED, 2, None)
    assert for_columns(model, ("a", "b"), ("a", "b")) is model
    with pytest.raises(ModelError, match="in their order"):
        columns_moved()

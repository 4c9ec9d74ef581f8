"""A fitted model travels without executing anything, and predicts the same bits on arrival."""

import dataclasses
import io
import pickle
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeRegressor

from fedcsa.errors import MissingExtraError, ModelError, UntrustedError
from fedcsa.models import fitted
from fedcsa.models.fitted import EstimatorModel, LinearModel

RNG = np.random.default_rng(4)
X = RNG.normal(size=(40, 3))
Y = X @ [1.0, 2.0, -1.0] + 0.1 * RNG.normal(size=40)
CODES = np.digitize(Y, np.quantile(Y, [1 / 3, 2 / 3]))


class Custom(RegressorMixin, BaseEstimator):
    def fit(self, X, y):  # noqa: ARG002
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def shift(values):
    return values + 1.0


CUSTOM = f"{Custom.__module__}.{Custom.__qualname__}"
DAMAGED = "A received model is damaged and cannot be read"


def pack(estimator):
    return EstimatorModel(estimator).pack()


@pytest.fixture(scope="module")
def blob():
    return pack(make_pipeline(StandardScaler(), Lasso(0.1)).fit(X, Y))


# Linear models -------------------------------------------------------------------------------


def test_a_linear_model_predicts_by_hand():
    model = LinearModel(np.array([1.0, -2.0, 0.5]), 3.0)
    expected = [sum(b * x for b, x in zip((1.0, -2.0, 0.5), row, strict=True)) + 3.0 for row in X]
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-12)


def test_a_logistic_model_gives_two_probabilities():
    model = LinearModel(np.array([1.0, -2.0, 0.5]), 3.0, "logistic")
    score = X @ [1.0, -2.0, 0.5] + 3.0
    np.testing.assert_allclose(model.predict(X)[:, 1], expit(score), rtol=1e-12)
    np.testing.assert_allclose(model.predict(X).sum(axis=1), 1.0, rtol=1e-14)


@pytest.mark.parametrize("score", [-800.0, -40.0, 40.0, 800.0])
def test_a_logistic_model_neither_overflows_nor_loses_the_small_side(score):
    [[no, yes]] = LinearModel(np.array([score]), 0.0, "logistic").predict(np.ones((1, 1)))
    np.testing.assert_allclose([no, yes], [expit(-score), expit(score)], rtol=1e-14)
    assert min(no, yes) == float(expit(-abs(score)))


@pytest.mark.parametrize("link", ["probit", "", "Identity"])
def test_an_unknown_link_is_an_error(link):
    with pytest.raises(ModelError, match="link must be 'identity' or 'logistic'"):
        LinearModel(np.zeros(1), 0.0, link)


def test_repr_holds_no_parameter():
    assert repr(LinearModel(np.array([0.123456]), 9.87)) == (
        "LinearModel(1 coefficients, link='identity')"
    )
    assert repr(EstimatorModel(Lasso(0.123456))) == "EstimatorModel(Lasso)"


# Packing -------------------------------------------------------------------------------------

REGRESSORS = [
    RandomForestRegressor(5, random_state=0),
    GradientBoostingRegressor(n_estimators=5, random_state=0),
    HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=5, random_state=0),
    KNeighborsRegressor(3),
    SVR(),
    MLPRegressor(hidden_layer_sizes=(4,), max_iter=2000, random_state=0, solver="lbfgs"),
    make_pipeline(StandardScaler(), Lasso(0.1)),
    make_pipeline(ColumnTransformer([("s", StandardScaler(), [0, 2])]), SVR()),
]
CLASSIFIERS = [
    RandomForestClassifier(5, random_state=0),
    GradientBoostingClassifier(n_estimators=3, random_state=0),
    HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=5, random_state=0),
    KNeighborsClassifier(3),
    SVC(),
    MLPClassifier(hidden_layer_sizes=(4,), max_iter=2000, random_state=0, solver="lbfgs"),
    make_pipeline(StandardScaler(), LogisticRegression()),
]
#: Compiled parts of scikit-learn that skops does not trust by itself.
COMPILED = (
    "sklearn.tree._tree.Tree",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.neighbors._kd_tree.KDTree",
)


@pytest.mark.parametrize("estimator", REGRESSORS, ids=lambda e: type(e).__name__)
def test_a_regressor_predicts_the_same_bits_after_its_journey(estimator):
    model = EstimatorModel(estimator.fit(X, Y))
    arrived = EstimatorModel.unpack(model.pack(), 0, COMPILED)
    assert arrived.predict(X).tobytes() == model.predict(X).tobytes()
    assert arrived.predict(X).tobytes() == estimator.predict(X).astype(float).tobytes()


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda e: type(e).__name__)
def test_a_classifier_predicts_the_same_bits_after_its_journey(estimator):
    model = EstimatorModel(estimator.fit(X, CODES), 3)
    arrived = EstimatorModel.unpack(model.pack(), 3, COMPILED)
    assert arrived.n_classes == 3
    assert arrived.predict(X).tobytes() == model.predict(X).tobytes()
    np.testing.assert_allclose(arrived.predict(X).sum(axis=1), 1.0, rtol=1e-12)


UNCHECKED = (KNeighborsRegressor,)


@pytest.mark.parametrize(
    "estimator",
    [estimator for estimator in REGRESSORS if not isinstance(estimator, UNCHECKED)],
    ids=lambda e: type(e).__name__,
)
def test_a_model_made_of_scikit_learn_alone_needs_no_further_trust(estimator):
    arrived = EstimatorModel.unpack(pack(estimator.fit(X, Y)), 0)
    assert arrived.predict(X).tobytes() == estimator.predict(X).astype(float).tobytes()


@pytest.mark.parametrize(
    "estimator",
    [estimator for estimator in REGRESSORS if isinstance(estimator, UNCHECKED)],
    ids=lambda e: type(e).__name__,
)
def test_compiled_parts_that_nobody_has_checked_must_be_declared(estimator):
    with pytest.raises(UntrustedError, match=r"not trusted here: sklearn\."):
        EstimatorModel.unpack(pack(estimator.fit(X, Y)), 0)


def with_nodes(change):
    """A fitted tree of three nodes or more, its nodes changed."""
    model = DecisionTreeRegressor(max_depth=2, random_state=0).fit(X, Y)
    state = model.tree_.__getstate__()
    nodes = state["nodes"].copy()
    assert nodes["left_child"][0] == 1
    change(nodes)
    model.tree_.__setstate__({**state, "nodes": nodes})
    return model


FORGED_NODES = {
    "a child beyond the last node": ("left_child", 10**6),
    "a child before the first node": ("right_child", -7),
    "a root that is its own child": ("left_child", 0),
    "a feature beyond the last": ("feature", 3),
    "a feature far beyond the last": ("feature", 10**9),
    "a feature before the first": ("feature", -(10**6)),
}


@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: make_pipeline(m)], ids=["bare", "piped"])
@pytest.mark.parametrize("forged", FORGED_NODES)
def test_a_tree_that_points_outside_itself_or_in_circles_is_refused(forged, wrap):
    field, value = FORGED_NODES[forged]

    def change(nodes):
        nodes[field][0] = value

    with pytest.raises(ModelError, match="damaged"):
        EstimatorModel.unpack(pack(wrap(with_nodes(change))), 0)


def test_a_packed_model_is_bytes(blob):
    assert blob.dtype == np.uint8
    assert blob.ndim == 1
    assert zipfile.is_zipfile(io.BytesIO(blob.tobytes()))


def test_packing_the_same_model_twice_gives_the_same_bytes():
    model = EstimatorModel(SVR().fit(X, Y))
    assert model.pack().tobytes() == model.pack().tobytes()


def test_a_column_of_predictions_becomes_a_vector():
    wide = KNeighborsRegressor(2).fit(X, Y[:, None])
    assert EstimatorModel(wide).predict(X).shape == (40,)


def test_a_single_row_is_predicted():
    model = EstimatorModel(SVR().fit(X, Y))
    assert model.predict(X[:1]).shape == (1,)


# Trust ---------------------------------------------------------------------------------------


def test_a_class_that_nobody_trusts_is_refused_by_name():
    packed = pack(Custom().fit(X, Y))
    with pytest.raises(UntrustedError, match=r"not trusted here: .*Custom.*trusted_types") as info:
        EstimatorModel.unpack(packed, 0)
    assert CUSTOM in str(info.value)


def test_a_class_is_refused_inside_a_pipeline_too():
    packed = pack(make_pipeline(StandardScaler(), Custom()).fit(X, Y))
    with pytest.raises(UntrustedError, match="Custom"):
        EstimatorModel.unpack(packed, 0)


def test_trusting_another_class_does_not_help():
    packed = pack(Custom().fit(X, Y))
    with pytest.raises(UntrustedError, match="Custom"):
        EstimatorModel.unpack(packed, 0, trusted=["another.Class"])


def test_a_function_that_nobody_trusts_is_refused_by_name():
    packed = pack(make_pipeline(FunctionTransformer(shift), Lasso(0.1)).fit(X, Y))
    with pytest.raises(UntrustedError, match="shift"):
        EstimatorModel.unpack(packed, 0)


@pytest.fixture
def importable(monkeypatch):
    """The classes of this file under a name that can be imported."""
    import types

    module = types.ModuleType("fedcsa_test_types")
    monkeypatch.setitem(sys.modules, "fedcsa_test_types", module)
    module.Custom = type("Custom", (Custom,), {"__module__": "fedcsa_test_types"})
    return module


def test_a_trusted_class_is_loaded(importable):
    packed = pack(importable.Custom().fit(X, Y))
    with pytest.raises(UntrustedError, match=r"fedcsa_test_types\.Custom"):
        EstimatorModel.unpack(packed, 0)
    arrived = EstimatorModel.unpack(packed, 0, trusted=["fedcsa_test_types.Custom"])
    np.testing.assert_array_equal(arrived.predict(X), np.full(40, np.mean(Y)))


def test_what_cannot_predict_is_not_a_model():
    with pytest.raises(ModelError, match="A received model cannot predict"):
        EstimatorModel.unpack(pack(StandardScaler().fit(X)), 0)


# Damage --------------------------------------------------------------------------------------


def as_blob(data):
    return np.frombuffer(data, dtype=np.uint8)


def zipped(**files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("_", "."), content)
    return as_blob(buffer.getvalue())


@pytest.mark.parametrize(
    "data",
    [b"", b"\0", b"PK", b"PK\3\4" + bytes(100), b"PK\5\6" + bytes(18), b"\x80\4K\1.", bytes(1000)],
)
def test_bytes_that_are_no_archive_are_refused(data):
    with pytest.raises(ModelError, match=DAMAGED):
        EstimatorModel.unpack(as_blob(data), 0)


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "{",
        "[]",
        "null",
        "5",
        "{}",
        '{"protocol": 1}',
        '{"__class__": "system", "__module__": "os", "__loader__": "FunctionNode"}',
        "[" * 100_000,
    ],
    ids=lambda text: text[:30],
)
def test_an_archive_that_is_no_model_is_refused(schema):
    with pytest.raises(ModelError, match=DAMAGED):
        EstimatorModel.unpack(zipped(schema_json=schema), 0)
    with pytest.raises(ModelError, match=DAMAGED):
        EstimatorModel.unpack(zipped(other_txt=schema), 0)


def test_a_model_cut_off_anywhere_is_refused(blob):
    for length in range(0, len(blob), 97):
        with pytest.raises(ModelError, match=DAMAGED):
            EstimatorModel.unpack(blob[:length], 0)


def test_any_byte_of_the_directory_may_flip_without_any_other_error(blob):
    start = blob.tobytes().index(b"PK\1\2")
    for index in range(start, len(blob)):
        for mask in (0x01, 0xFF):
            forged = blob.copy()
            forged[index] ^= mask
            try:
                model = EstimatorModel.unpack(forged, 0)
            except ModelError:
                continue
            assert hasattr(model.estimator, "predict")


def test_bytes_of_the_content_may_flip_without_any_other_error(blob):
    for index in range(0, len(blob), 29):
        forged = blob.copy()
        forged[index] ^= 0xFF
        try:
            EstimatorModel.unpack(forged, 0)
        except ModelError:
            continue


@given(data=st.binary(max_size=300))
@settings(max_examples=200, deadline=None, database=None, derandomize=True)
def test_random_bytes_are_refused(data):
    for wire in (data, b"PK\3\4" + data, data + b"PK\5\6" + bytes(18)):
        with pytest.raises(ModelError, match="A received model"):
            EstimatorModel.unpack(as_blob(wire), 0)


def test_a_bomb_is_refused_before_it_unfolds(monkeypatch):
    bomb = zipped(schema_json=bytes(5_000_000))
    assert len(bomb) < 50_000
    monkeypatch.setattr(fitted, "MAX_UNPACKED_BYTES", 1_000_000)
    monkeypatch.setattr(zipfile.ZipFile, "open", _never)
    with pytest.raises(ModelError, match="must unpack to at most 1000000 bytes"):
        EstimatorModel.unpack(bomb, 0)


def _never(*_args, **_options):
    raise AssertionError("unpacked")


def test_a_bomb_of_many_small_files_is_refused(monkeypatch):
    bomb = zipped(**{f"f{i}_npy": bytes(10_000) for i in range(150)})
    monkeypatch.setattr(fitted, "MAX_UNPACKED_BYTES", 1_000_000)
    with pytest.raises(ModelError, match="must unpack to at most 1000000 bytes"):
        EstimatorModel.unpack(bomb, 0)


def test_a_model_of_exactly_the_cap_passes(monkeypatch, blob):
    with zipfile.ZipFile(io.BytesIO(blob.tobytes())) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    monkeypatch.setattr(fitted, "MAX_UNPACKED_BYTES", size)
    assert EstimatorModel.unpack(blob, 0).predict(X).shape == (40,)
    monkeypatch.setattr(fitted, "MAX_UNPACKED_BYTES", size - 1)
    with pytest.raises(ModelError, match=f"must unpack to at most {size - 1} bytes"):
        EstimatorModel.unpack(blob, 0)


def test_a_bomb_that_lies_about_its_size_is_refused():
    content = bytes(3_000_000)
    data = bytearray(zipped(schema_json=content).tobytes())
    true_size, lie = len(content).to_bytes(4, "little"), (100).to_bytes(4, "little")
    forged = bytes(data).replace(true_size, lie)
    assert forged != bytes(data)
    with pytest.raises(ModelError, match=DAMAGED):
        EstimatorModel.unpack(as_blob(forged), 0)


# Nothing is executed -------------------------------------------------------------------------


@dataclasses.dataclass
class Bait:
    """Pickled, it creates a file when it is unpickled."""

    path: str

    def __reduce__(self):
        return (Path.touch, (Path(self.path),))


def test_a_pickle_is_never_loaded(tmp_path):
    trap = tmp_path / "unpickled"
    payload = pickle.dumps(Bait(str(trap)))
    with pytest.raises(ModelError, match=DAMAGED):
        EstimatorModel.unpack(as_blob(payload), 0)
    for name in ("schema_json", "object_pkl", "data_npy", "model_joblib"):
        with pytest.raises(ModelError, match=DAMAGED):
            EstimatorModel.unpack(zipped(**{name: payload}), 0)
    assert not trap.exists()
    pickle.loads(payload)  # noqa: S301 - the trap itself works
    assert trap.exists()


def test_an_array_of_pickled_objects_inside_a_model_is_never_loaded(tmp_path, blob):
    trap = tmp_path / "unpickled"
    buffer = io.BytesIO()
    np.save(buffer, np.array([Bait(str(trap))], dtype=object), allow_pickle=True)
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(blob.tobytes())) as source,
        zipfile.ZipFile(out, "w") as forged,
    ):
        names = source.namelist()
        assert any(name.endswith(".npy") for name in names)
        for name in names:
            content = buffer.getvalue() if name.endswith(".npy") else source.read(name)
            forged.writestr(name, content)
    with pytest.raises(ModelError, match="A received model"):
        EstimatorModel.unpack(as_blob(out.getvalue()), 0)
    assert not trap.exists()


def test_without_skops_the_extra_is_named(monkeypatch, blob):
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(MissingExtraError, match=r"'skops'.*pip install \"fedcsa\[models\]\""):
        EstimatorModel.unpack(blob, 0)
    with pytest.raises(MissingExtraError, match=r"not linear needs the package 'skops'"):
        pack(SVR().fit(X, Y))

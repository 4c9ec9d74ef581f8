"""Models that were fitted elsewhere predict the same in our format."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from fedcsa import ModelError, convert
from fedcsa.models.foreign_trees import from_estimator, last_below, read_foreign
from fedcsa.models.given import for_columns, read_file_model, write_model

#: Saved by XGBoost 3.2 and LightGBM 4.7, with what they predict themselves.
FOREIGN = Path(__file__).parent / "foreign"
TOLD = json.loads((FOREIGN / "predictions.json").read_text())
ROWS = np.array(TOLD.pop("rows"))
rng = np.random.default_rng(1)
X = np.column_stack([rng.normal(size=(150, 2)), rng.integers(0, 3, 150)])
Y = X[:, 0] * X[:, 1] + X[:, 2]
FRESH = np.concatenate([X, rng.normal(size=(100, 3)), np.nextafter(X, 9.0)])


@pytest.mark.parametrize("name", TOLD)
def test_a_saved_booster_predicts_what_its_library_predicts(name):
    told = read_foreign(FOREIGN / name)
    assert told.columns == ("a", "b", "c")
    # XGBoost adds in 32 bits.
    np.testing.assert_allclose(told.model.predict(ROWS), TOLD[name], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "estimator",
    [
        DecisionTreeRegressor(max_depth=4),
        RandomForestRegressor(3, random_state=0),
        GradientBoostingRegressor(n_estimators=3),
        HistGradientBoostingRegressor(max_iter=3),
        HistGradientBoostingRegressor(max_iter=3, loss="poisson"),
        PoissonRegressor(),
    ],
    ids=repr,
)
def test_a_regressor_predicts_the_same_in_our_format(estimator):
    estimator.fit(X, np.abs(Y))
    model = from_estimator(estimator, 0)
    np.testing.assert_allclose(model.predict(FRESH), estimator.predict(FRESH), rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "estimator",
    [
        ExtraTreesClassifier(3, random_state=0),
        RandomForestClassifier(3, random_state=0),
        GradientBoostingClassifier(n_estimators=2),
        HistGradientBoostingClassifier(max_iter=2),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
    ids=lambda e: type(e).__name__,
)
def test_a_classifier_predicts_the_same_from_its_file(estimator, n_classes, tmp_path):
    labels = np.array(["mild", "no", "severe"])[np.digitize(Y, [0.5, 1.5][: n_classes - 1])]
    estimator.fit(X, labels)
    told = read_file_model(convert(estimator, tmp_path / "m.json", ["a", "b", "c"]))
    assert told.n_classes == n_classes
    np.testing.assert_allclose(
        told.model.predict(FRESH), estimator.predict_proba(FRESH), rtol=1e-9, atol=1e-12
    )
    assert set(estimator.classes_) == set(labels), "the estimator itself is left alone"


@pytest.mark.parametrize("estimator", [DecisionTreeRegressor(), LogisticRegression()], ids=repr)
def test_a_model_finds_its_columns_among_those_of_a_study(estimator):
    estimator.fit(X, np.digitize(Y, [0.5]))
    n_classes = 2 if hasattr(estimator, "classes_") else 0
    model = from_estimator(estimator, n_classes)
    wider = for_columns(model, ["a", "b", "c"], ["c", "other", "a", "b"])
    shuffled = np.column_stack([FRESH[:, 2], np.zeros(len(FRESH)), FRESH[:, :2]])
    np.testing.assert_allclose(wider.predict(shuffled), model.predict(FRESH), rtol=1e-12)
    with pytest.raises(ModelError, match=r"Unknown column 'b'\. Did you mean 'bb'\?"):
        for_columns(model, ["a", "b", "c"], ["a", "bb", "c"])


def test_thresholds_are_those_of_rows_that_are_rounded_to_32_bits():
    cuts = np.concatenate([rng.normal(size=200), [0.0, 1.0, -1.0, 0.1]])
    below = last_below(cuts)
    assert (below.astype(np.float32) <= cuts).all()
    assert (np.nextafter(below, np.inf).astype(np.float32) > cuts).all()


def test_what_has_no_format_is_refused_by_name(tmp_path):
    with pytest.raises(ModelError, match="SVR has no format"):
        from_estimator(SVR().fit(X, Y), 0)
    steps = make_pipeline(StandardScaler(), DecisionTreeRegressor()).fit(X, Y)
    with pytest.raises(ModelError, match="Trees must be fitted on the columns as they are"):
        from_estimator(steps, 0)
    levels = HistGradientBoostingRegressor(max_iter=1, categorical_features=[2]).fit(
        X, (X[:, 2] == 1).astype(float)
    )
    with pytest.raises(ModelError, match="by its levels"):
        from_estimator(levels, 0)
    with pytest.raises(ModelError, match="fitted on 3 columns, and 2 are named"):
        convert(DecisionTreeRegressor().fit(X, Y), tmp_path / "m.json", ["a", "b"])


@pytest.mark.parametrize("name", ["m.pkl", "m.joblib"])
def test_a_pickle_is_not_opened(name, tmp_path):
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    with pytest.raises(ModelError, match="is a pickle"):
        read_foreign(tmp_path / name)


def changed(name, old, new):
    text = (FOREIGN / name).read_text()
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is neither"),
        ("[]", "it is neither"),
        ("tree\nversion=v4\n", "it is neither"),
        ('{"learner": {}}', "it is neither"),
        (changed("xgboost-two.json", "binary:logistic", "rank:ndcg"), "objective 'rank:ndcg'"),
        (changed("xgboost-two.json", '"gbtree"', '"dart"'), "booster 'gbtree'"),
        (changed("lightgbm-two.txt", "binary sigmoid:1", "binary sigmoid:2"), "sigmoid"),
        (changed("lightgbm-two.txt", "decision_type=2", "decision_type=1"), "by its levels"),
        (changed("lightgbm-two.txt", "objective=binary", "objective=lambdarank"), "objective"),
        (changed("lightgbm-number.txt", "is_linear=0", "is_linear=1"), "linear trees"),
    ],
    ids=range(10),
)
def test_a_file_that_is_no_such_booster_is_refused(text, words, tmp_path):
    (tmp_path / "m.model").write_text(text)
    with pytest.raises(ModelError, match=words):
        read_foreign(tmp_path / "m.model")


def _doubling(tree):
    """Every node leads twice to the next: 2 to the 30 ways through 31 nodes."""
    child = [*range(1, 31), -1]
    tree |= {"left_children": child, "right_children": child, "split_indices": [0] * 31}
    tree |= {"split_conditions": [0.0] * 31, "split_type": [0] * 31, "default_left": [0] * 31}


@pytest.mark.parametrize("what", ["columns", "classes", "ways", "depth"])
def test_a_booster_that_claims_much_is_refused_before_anything_is_made_of_it(what, tmp_path):
    name = "xgboost-three.json" if what == "classes" else "xgboost-number.json"
    content = json.loads((FOREIGN / name).read_text())
    about = content["learner"]["learner_model_param"]
    if what == "ways":
        _doubling(content["learner"]["gradient_booster"]["model"]["trees"][0])
    else:
        about[{"columns": "num_feature", "classes": "num_class"}.get(what, "")] = "1000000000"
    text = "[" * 100_000 if what == "depth" else json.dumps(content)
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(ModelError, match=r"at most 10000|every node once|it is neither"):
        read_foreign(tmp_path / "m.json")


def test_columns_are_named_in_their_order(tmp_path):
    assert read_foreign(FOREIGN / "xgboost-two.json", ["x", "y", "z"]).columns == ("x", "y", "z")
    with pytest.raises(ModelError, match="uses 3 columns, but 2 are named"):
        read_foreign(FOREIGN / "xgboost-two.json", ["x", "y"])
    with pytest.raises(ModelError, match="cannot be read"):
        read_foreign(tmp_path / "none.json")


@pytest.mark.parametrize(
    "change",
    [
        {"fedcsa model": 2},
        {"columns": ["a", "a", "c"]},
        {"columns": "abc", "classes": 1},
        {"classes": "2"},
        {"arrays": {}},
        {"arrays": {"step": {"kind": "O", "shape": [1], "values": ["x"]}}},
        {"form": {"kind": "trees"}},
        {"form": None},
    ],
    ids=str,
)
def test_a_damaged_model_file_is_refused(change, tmp_path):
    path = tmp_path / "m.json"
    write_model(path, read_foreign(FOREIGN / "xgboost-two.json"))
    assert read_file_model(path).n_classes == 2
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ModelError):
        read_file_model(path)

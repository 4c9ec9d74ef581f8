"""Mutated words and arrays: opened or a `ModelError`, whatever was changed."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

from fedcsa.errors import ModelError
from fedcsa.models.arrivals import open_agreed
from fedcsa.models.convert import to_portable
from fedcsa.models.description import given_description
from fedcsa.models.formats import open_model
from fedcsa.models.given import Formula, Term, model_digest
from fedcsa.models.registry import instantiate, model_description
from fedcsa.models.trees import to_bins

GRID = np.full(3, 0.125)
data = np.random.default_rng(0)
X = np.column_stack([data.normal(size=(120, 2)), data.integers(0, 3, 120)])
Y = X[:, 0] * X[:, 1] + X[:, 2]
KNOTS = [[-2.0] * 3, [0.0] * 3, [3.0] * 3]
COLUMNS = ColumnTransformer(
    [
        ("l", OneHotEncoder(categories=[[0, 1, 2]]), [2]),
        ("p", make_pipeline(StandardScaler(), PolynomialFeatures(2)), [0, 1]),
    ]
)
MODELS = {
    "line": (Ridge(), 0),
    "classes": (LogisticRegression(), 3),
    "columns": (make_pipeline(COLUMNS, Ridge()), 0),
    "splines": (make_pipeline(SplineTransformer(knots=KNOTS), Ridge()), 0),
    "forest": (RandomForestRegressor(3, min_samples_leaf=10, random_state=0), 0),
    "boosting": (HistGradientBoostingClassifier(max_iter=3), 3),
}
NUMBER = {"name": "a", "kind": "number", "columns": [0], "levels": [], "missing": False}
TEXT = {"name": "b", "kind": "levels", "columns": [1], "levels": ["u", "v"], "missing": False}
EMPTY_NUMBER = [NUMBER | {"columns": [0, 2], "missing": True}, TEXT]
EMPTY_TEXT = [NUMBER, TEXT | {"columns": [1, 2], "missing": True}]


def by_name(number, text):
    return ColumnTransformer([("n", number, ["a"]), ("t", text, ["b"])])


#: Of models that get the table's own columns: the estimator, and its inputs.
OF_COLUMNS = {
    "filled": (
        make_pipeline(by_name(SimpleImputer(add_indicator=True), OneHotEncoder()), Ridge()),
        EMPTY_NUMBER,
    ),
    "commonest": (
        make_pipeline(
            by_name(
                FunctionTransformer(np.square),
                make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()),
            ),
            Ridge(),
        ),
        EMPTY_TEXT,
    ),
    "ways": (
        make_pipeline(
            by_name("passthrough", OrdinalEncoder()), HistGradientBoostingRegressor(max_iter=3)
        ),
        EMPTY_NUMBER,
    ),
}
SCORE = Formula(
    (
        Term("a", bounds=(-0.5, 0.7), points=(1.0, 2.0)),
        Term("b", 0.3, low=-1.0, plus=2.0, log=True),
        Term("c", 0.2, power=2),
    ),
    totals=(0.0, 1.0, 2.0),
    risks=(0.1, 0.2, 0.4),
)
WORDS = [
    None, True, 0, -1, 1.5, 2**40, "x", "softmax", "log", "mean", [], [0], [1, 0], (0, 1, 2), {},
    [[{}]], float("nan"),
]  # fmt: skip
WHOLE = [-1, 0, 1, -2, 2, 7, 2**24, 2**31 - 1, -(2**31)]
NUMBERS = [np.nan, np.inf, 0.0, -1.0, 1e308, -1e308, 1e-320]


def fitted(name):
    if name == "score":
        model = SCORE.model(["a", "b", "c"], 2)
        return model, 2, given_description(sha256=model_digest(model))
    if name in OF_COLUMNS:
        description = model_description(*OF_COLUMNS[name])
        model, [candidate] = instantiate(description, [{}], 0, (), GRID)
        path = model.fit(X, Y, np.ones(len(X)), [candidate], np.random.default_rng(0))
        return path.models[0], 0, description
    estimator, n_classes = MODELS[name]
    y = np.digitize(Y, [0.3, 1.5]) if n_classes else Y
    trees = name in ("forest", "boosting")
    estimator.fit(to_bins(X, GRID).astype(float) if trees else X, y)
    return to_portable(estimator, n_classes, GRID), n_classes, model_description(estimator)


def other_words(form, rng):
    """The same words but for one, somewhere inside."""
    changed = node = copy.deepcopy(dict(form))
    while node:
        keys = list(node) if isinstance(node, dict) else range(len(node))
        key = keys[rng.integers(len(keys))]
        if not isinstance(node[key], dict | list) or rng.random() < 0.4:
            if isinstance(node, dict) and rng.random() < 0.2:
                del node[key]
            else:
                node[key] = WORDS[rng.integers(len(WORDS))]
            break
        node = node[key]
    return changed


def other_arrays(arrays, rng):
    """The same arrays but for one."""
    changed = {name: array.copy() for name, array in arrays.items()}
    name = list(changed)[rng.integers(len(changed))]
    array = changed[name]
    turn = rng.integers(9)
    if turn < 3 and array.size:
        array.reshape(-1)[rng.integers(array.size)] = rng.choice(
            WHOLE if array.dtype == np.int32 else NUMBERS
        )
    elif turn == 3:
        del changed[name]
    else:
        changed[name] = (
            array[:-1], np.concatenate([array, array]), array.astype(np.float32),
            array.reshape(-1, 1) if array.ndim == 1 else array.ravel(), None,
            np.array(["x"], dtype=object),
        )[turn - 3]  # fmt: skip
    return changed


@pytest.mark.parametrize("name", [*MODELS, *OF_COLUMNS, "score"])
def test_a_mutated_model_is_opened_or_refused_by_name(name):
    model, n_classes, description = fitted(name)
    classes = range(n_classes)
    agreed = SimpleNamespace(model=description, candidates=(), scale=False, classes=classes)
    rng = np.random.default_rng(7)
    refused = 0
    for turn in range(400):
        form = other_words(model.form, rng) if turn % 2 else model.form
        arrays = model.arrays if turn % 4 == 1 else other_arrays(model.arrays, rng)
        try:
            opened = open_model(form, arrays, 3, n_classes)
            shape = opened.predict(X[:5]).shape
            open_agreed(form, arrays, agreed, 0, 8.0 * GRID)
        except ModelError:
            refused += 1
        else:
            assert shape == ((5, n_classes) if n_classes else (5,))
    assert refused > 200

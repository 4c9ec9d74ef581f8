"""A1: a source sends a model of another format, class or shape than was agreed. None is opened.

Before, the format was not bound to the study: in a study of ridge regression a source could send a
scikit-learn model whose compiled code wrote past its output, with values that the sender chose, and
the target's process died. Now a model is words and arrays of numbers that our own code walks. Every
index, length and value is checked before anything is built, and the model must be the one agreed.
"""

import dataclasses

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from fedcsa.errors import MessageError
from fedcsa.messages.codec import MAGIC, PROTOCOL_VERSION, decode, encode
from fedcsa.messages.fields import to_json
from fedcsa.messages.policy import Policy
from fedcsa.models.convert import to_portable
from fedcsa.models.fitted import EstimatorModel
from fedcsa.models.portable import agreed_grid
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.models.trees import MAX_BIN, to_bins
from fedcsa.plan import Plan
from fedcsa.source.source import Source
from fedcsa.target.accept import accept, open_models
from fedcsa.target.estimate import Reported
from fedcsa.target.target import Target

FEATURES = ("x0", "x1")
TREE = DecisionTreeRegressor(max_depth=2, min_samples_leaf=10, random_state=0)
BOOSTED = GradientBoostingRegressor(n_estimators=3, max_depth=2, min_samples_leaf=10)


def rows(seed, n=200):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, X @ [1.0, -0.5] + 0.5 * rng.normal(size=n)


def asked_for_a_model(model):
    """What the target holds the model of source 'a' against, and the honest one."""
    description = model_description(model)
    candidates = expand_candidates(description["name"], [{}])
    plan = Plan(features=FEATURES, model=description, candidates=candidates)
    target = Target(rows(99)[0], plan, policy=Policy.open())
    site = Source("a", *rows(1), policy=Policy())
    brief = target.brief(["a"])
    said = site.answer(brief)
    request = target.choose({"a": said})
    report = site.answer(request)
    asked = (request, brief, said), plan
    assert taken(report, *asked) == {}
    return asked, report


def taken(report, asked, plan):
    """What is wrong with a model that the target takes from source 'a', if anything."""
    _, brief, said = asked
    accept(report, "a", *asked)
    reported = Reported.of({"a": said})
    return open_models({"a": report}, reported, plan, [np.zeros((1, 2))], brief.sd)[2]


@pytest.fixture(scope="module")
def ridge():
    return asked_for_a_model("ridge")


@pytest.fixture(scope="module")
def tree():
    return asked_for_a_model(TREE)


@pytest.fixture(scope="module")
def boosted():
    return asked_for_a_model(BOOSTED)


def refused(study, **changes):
    """Whether the target refuses the changed model by its source's name, over its bytes too."""
    asked, report = study
    try:
        forged = decode(encode(dataclasses.replace(report, **changes)))
        wrong = [*taken(forged, *asked).values()]
    except MessageError as error:
        wrong = [error]
    assert all(isinstance(error, MessageError) for error in wrong)
    return any("model" in str(error) for error in wrong)


def portable(estimator):
    X, y = rows(5)
    grid = agreed_grid(np.ones(2), scale=True)
    trees = "Tree" in repr(estimator) or "Boosting" in repr(estimator)
    seen = to_bins(X, grid).astype(float) if trees else X
    y = np.abs(y) if isinstance(estimator, PoissonRegressor) else y
    return to_portable(estimator.fit(seen, y), 0, grid)


#: Honest models of every format, none of which is what the other studies agreed on.
OTHERS = {
    "trees": portable(TREE),
    "boosting": portable(GradientBoostingRegressor(n_estimators=40, random_state=0)),
    "histograms": portable(HistGradientBoostingRegressor(max_iter=5)),
    "another link": portable(PoissonRegressor()),
    "polynomials": portable(make_pipeline(PolynomialFeatures(3), Ridge())),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_ridge_study_takes_a_line_and_no_other_format(ridge, other):
    assert refused(ridge, form=other.form, arrays=other.arrays)


LINE = portable(LinearRegression())


@pytest.mark.parametrize("other", [LINE, *OTHERS.values()], ids=["line", *OTHERS])
def test_a_study_of_boosted_trees_takes_the_agreed_ones_alone(boosted, other):
    assert refused(boosted, form=other.form, arrays=other.arrays)


def test_an_object_of_another_process_has_no_way_in(ridge):
    _, report = ridge
    held = EstimatorModel(SVR().fit(*rows(1)))
    with pytest.raises(MessageError, match="cannot leave this process"):
        encode(dataclasses.replace(report, form=held.form, arrays={}, held=held))
    assert refused(ridge, form=held.form)


def test_a_packed_model_of_the_old_protocol_is_no_message(ridge):
    _, report = ridge
    kinds = report.kinds.items()
    values = {name: getattr(report, name) for name, kind in kinds if kind != "arrays"}
    values |= {"format": "skops", "link": "identity", "intercept": 0.0}
    header = {"kind": report.name, "shapes": {"packed": [9]}, "values": values}
    content = to_json(header).encode()
    for version in (PROTOCOL_VERSION - 1, PROTOCOL_VERSION):
        start = MAGIC + version.to_bytes(2, "little") + len(content).to_bytes(4, "little")
        with pytest.raises(MessageError, match=r"version|must have the arrays"):
            decode(start + content + bytes(9))


# Forged trees ----------------------------------------------------------------------------------


def whole(*values):
    return np.array(values, dtype=np.int32)


def with_node(arrays, value):
    """The first split on another feature."""
    feature = arrays["feature"].copy()
    feature[0] = value
    return {"feature": feature}


def deep(depth):
    """A chain of splits."""
    feature = np.append(np.tile(whole(0, -1), depth), whole(-1))
    return {
        "feature": feature.astype(np.int32),
        "threshold": np.zeros(depth, np.int32),
        "value": np.zeros((depth + 1, 1)),
    }


def times(arrays, count):
    """The same trees many times."""
    names = ("feature", "threshold", "value")
    return {name: np.concatenate([arrays[name]] * count) for name in names}


#: How arrays of a tree can lie; the sender chooses every one of them.
FORGED = {
    "a feature past the last": lambda a: with_node(a, 2),
    "a feature far out": lambda a: with_node(a, 2**31 - 1),
    "a negative feature": lambda a: with_node(a, -2),
    "a feature far below": lambda a: with_node(a, -(2**31)),
    "a leaf in place of a split": lambda a: with_node(a, -1),
    "no nodes": lambda _: {"feature": whole(), "threshold": whole(), "value": np.zeros((0, 1))},
    "splits only": lambda a: {"feature": np.zeros_like(a["feature"])},
    "leaves only": lambda a: {"feature": np.full_like(a["feature"], -1)},
    "backwards": lambda a: {"feature": a["feature"][::-1].copy()},
    "a node more": lambda a: {"feature": np.append(a["feature"], whole(-1))},
    "a node less": lambda a: {"feature": a["feature"][:-1]},
    "a threshold more": lambda a: {"threshold": np.append(a["threshold"], whole(0))},
    "a threshold less": lambda a: {"threshold": a["threshold"][:-1]},
    "a threshold past the bins": lambda a: {"threshold": a["threshold"] + whole(2 * MAX_BIN)},
    "the smallest threshold": lambda a: {"threshold": np.full_like(a["threshold"], -(2**31))},
    "real thresholds": lambda a: {"threshold": a["threshold"].astype(float)},
    "thresholds that are no numbers": lambda a: {"threshold": np.full(len(a["threshold"]), np.nan)},
    "a value more": lambda a: {"value": np.append(a["value"], [[0.0]], axis=0)},
    "a value less": lambda a: {"value": a["value"][:-1]},
    "a column of values more": lambda a: {"value": np.repeat(a["value"], 2, axis=1)},
    "flat values": lambda a: {"value": a["value"].ravel()},
    "values that are no numbers": lambda a: {"value": np.full_like(a["value"], np.nan)},
    "infinite values": lambda a: {"value": np.full_like(a["value"], np.inf)},
    "whole values": lambda a: {"value": a["value"].astype(np.int32)},
    "another grid": lambda a: {"step": 0.5 * a["step"]},
    "a grid of steps 0": lambda a: {"step": 0.0 * a["step"]},
    "a negative grid": lambda a: {"step": -a["step"]},
    "a grid of another table": lambda a: {"step": np.append(a["step"], 1.0)},
    "another base": lambda a: {"base": a["base"] + 1.0},
    "two bases": lambda _: {"base": np.zeros(2)},
    "no base": lambda _: {"base": np.zeros(0)},
    "two trees": lambda a: times(a, 2),
    "very many trees": lambda a: times(a, 10_000),
    "a level too deep": lambda _: deep(3),
    "as deep as the stack": lambda _: deep(5_000),
    "an array more": lambda _: {"left": whole(0, 0, 0)},
}  # fmt: skip


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_a_forged_tree_is_refused_before_anything_is_built(tree, forge):
    arrays = tree[1].arrays
    assert refused(tree, arrays={**arrays, **forge(arrays)})


@pytest.mark.parametrize("name", ["step", "feature", "threshold", "value", "base"])
def test_a_tree_without_one_of_its_arrays_is_refused(tree, name):
    arrays = tree[1].arrays
    assert refused(tree, arrays={key: arrays[key] for key in arrays if key != name})


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("kind", "linear"), ("kind", "forest"), ("kind", ["trees"]), ("combine", "sum"),
        ("combine", "max"), ("combine", None), ("link", "log"), ("link", "logistic"), ("link", 3),
        ("classes", [0, 1]), ("classes", None), ("classes", [[]]), ("more", 1),
    ],
)  # fmt: skip
def test_words_that_were_not_agreed_are_refused(tree, word, value):
    assert refused(tree, form={**tree[1].form, word: value})


def test_a_boosting_with_more_rounds_than_outputs_writes_nowhere(boosted):
    """The forged `estimators_` of shape (1, 40) wrote 39 doubles past a one-cell output."""
    arrays = boosted[1].arrays
    for count in (2, 40):
        assert refused(boosted, arrays={**arrays, "base": np.zeros(count)})
        assert refused(boosted, arrays={**arrays, **times(arrays, count)})


# What it costs ---------------------------------------------------------------------------------


def test_a_study_goes_on_without_the_source_that_forged():
    description = model_description(TREE)
    candidates = expand_candidates(description["name"], [{}])
    plan = Plan(features=FEATURES, model=description, candidates=candidates)
    named = {}
    target = Target(rows(99)[0], plan, policy=Policy.open(), refuse=named.__setitem__)
    sites = {name: Source(name, *rows(k), policy=Policy()) for k, name in enumerate("abcd")}
    brief = target.brief([*sites])
    request = target.choose({name: site.answer(brief) for name, site in sites.items()})
    models = {name: site.answer(request) for name, site in sites.items()}
    arrays = {**models["a"].arrays, **with_node(models["a"].arrays, 2)}
    models["a"] = dataclasses.replace(models["a"], arrays=arrays)
    examinations = target.mix(models)
    assert set(named) == {"a"}
    found = {name: sites[name].answer(asked) for name, asked in examinations.items()}
    assert set(target.conclude(found).models) == {"b", "c", "d"}

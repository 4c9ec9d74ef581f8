"""Trees that were fitted elsewhere in our format: scikit-learn's, XGBoost's, LightGBM's.

A fitted scikit-learn estimator is an object of Python. The others are files, which are read as
text: JSON, and LightGBM's own lines. Nothing is unpickled, and neither library is needed. Their
thresholds are kept as they are, so that predictions are the same but for rounding.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array, logit
from fedcsa.errors import ModelError
from fedcsa.models.chosen import sklearn_name, split_pipeline
from fedcsa.models.convert import to_portable
from fedcsa.models.given import FileModel
from fedcsa.models.portable import PortableModel
from fedcsa.models.steps import MAX_COLUMNS
from fedcsa.models.tree_format import TREES, TreeModel, read_trees
from fedcsa.models.trees import LEAF, Cuts, OneTree, joined_nodes

#: Endings of pickles, which run code when they are opened.
PICKLES = (".pkl", ".pickle", ".joblib", ".sav")
#: XGBoost's objectives, and LightGBM's, with the link of ours that they mean.
XGBOOST_LINKS = {
    "reg:squarederror": "identity", "reg:absoluteerror": "identity",
    "reg:pseudohubererror": "identity", "count:poisson": "log", "reg:gamma": "log",
    "reg:tweedie": "log", "binary:logistic": "logistic", "reg:logistic": "logistic",
    "multi:softprob": "softmax", "multi:softmax": "softmax",
}  # fmt: skip
LIGHTGBM_LINKS = {
    "regression": "identity", "regression_l1": "identity", "huber": "identity",
    "poisson": "log", "gamma": "log", "tweedie": "log", "binary": "logistic",
    "multiclass": "softmax",
}  # fmt: skip
#: Of LightGBM's `decision_type`: the bit of a split by levels.
_CATEGORICAL = 1


def joined_trees(
    trees: Iterable[OneTree],
    n_features: int,
    base: Array,
    combine: str,
    link: str,
    n_classes: int,
) -> TreeModel:
    """All trees on the cells between their own thresholds.

    Parameters
    ----------
    trees : iterable of OneTree
    n_features : int
    base : array of shape (outputs,)
        Added to the sum.
    combine : {"mean", "sum"}
    link : str
    n_classes : int
        Of the outcome; 0 for numbers.
    """
    feature, threshold, _, value = joined_nodes(trees)
    split = feature[feature != LEAF]
    own = [np.unique(threshold[split == k]) for k in range(n_features)]
    place = np.zeros(len(split), np.int32)
    for k, cuts in enumerate(own):
        place[split == k] = np.searchsorted(cuts, threshold[split == k])
    cells = Cuts(np.array([len(c) for c in own], np.int32), np.concatenate([*own, np.empty(0)]))
    classes = () if link == "probabilities" else tuple(range(n_classes))
    return TreeModel(
        cells, feature, place, value, np.asarray(base, dtype=np.float64), combine, link, classes,
        n_classes,
    )  # fmt: skip


def last_below(threshold: Array) -> Array:
    """The largest numbers that are at most `threshold` once they are rounded to 32 bits.

    Scikit-learn and XGBoost round a row to 32 bits before they compare it. So a row's own number
    may lie above the threshold by half a step and still go left.

    Parameters
    ----------
    threshold : array
        A value that is at most that, as 32 bits, goes left.
    """
    below = np.asarray(threshold, dtype=np.float32)
    below = np.where(below > threshold, np.nextafter(below, np.float32(-np.inf)), below)
    above = np.nextafter(below, np.float32(np.inf)).astype(np.float64)
    middle = (below.astype(np.float64) + above) / 2.0  # rounds to the one whose last bit is 0
    odd = below.view(np.uint32) & 1 == 1
    return np.where(odd, np.nextafter(middle, -np.inf), middle)


# Scikit-learn -------------------------------------------------------------------------------


def from_estimator(estimator: Any, n_classes: int) -> PortableModel:
    """A fitted scikit-learn estimator in our format; its classes are coded 0, 1 and so on.

    Parameters
    ----------
    estimator : fitted scikit-learn estimator
    n_classes : int
        Of its outcome; 0 for numbers.
    """
    transformers, final = split_pipeline(estimator)
    name = sklearn_name(final)
    if name not in TREES:
        return to_portable(estimator, n_classes, None)
    if transformers:
        raise ModelError("Trees must be fitted on the columns as they are. Leave steps out.")
    trees, base, combine, link, _ = read_trees(final, n_classes)
    if not name.startswith("Hist"):
        trees = (replace(tree, threshold=last_below(tree.threshold)) for tree in trees)
    elif any(p.nodes["is_categorical"].any() for turn in final._predictors for p in turn):
        raise _by_levels()
    return joined_trees(trees, int(final.n_features_in_), base, combine, link, n_classes)


def _by_levels() -> ModelError:
    return ModelError(
        "Trees that split a column by its levels cannot be converted. Code levels as zeros and "
        "ones, and fit the model on those."
    )


# Files --------------------------------------------------------------------------------------


def read_foreign(path: str | Path, columns: Sequence[str] | None = None) -> FileModel:
    """A model that XGBoost saved as JSON, or LightGBM as text.

    Parameters
    ----------
    path : path
    columns : sequence of str, optional
        Names of its columns, in their order; by default those that the file tells.
    """
    path = Path(path)
    if path.suffix.lower() in PICKLES:
        raise ModelError(
            f"{path.name!r} is a pickle, which can run any code when opened; fedcsa opens none. "
            "In Python, where the model was fitted, call fedcsa.convert(estimator, path, columns)."
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(
            f"The model {str(path)!r} cannot be read ({type(error).__name__}). Save it as JSON "
            "(XGBoost) or as text (LightGBM)."
        ) from None
    try:
        read = _lightgbm(text) if text.startswith("tree\n") else _xgboost(json.loads(text))
    except ModelError:
        raise
    except (
        ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError,
    ):  # fmt: skip
        raise ModelError(
            f"{path.name!r} must be a model that XGBoost saved as JSON (save_model('m.json')) or "
            "LightGBM as text (save_model('m.txt')); it is neither."
        ) from None
    model, told, n_classes = read
    names = tuple(columns or told)
    width = len(model.cells.cuts) if isinstance(model.cells, Cuts) else 0
    if len(names) != width:
        raise ModelError(
            f"The model uses {width} columns, but {len(names)} are named. Name all of them, in "
            "their order, with --columns."
        )
    return FileModel(model, names, n_classes)


#: A model, the names of its columns as the file tells them, and the number of classes.
_Read = tuple[TreeModel, Sequence[str], int]


def _xgboost(content: Mapping[str, Any]) -> _Read:
    """A booster of trees in XGBoost's JSON.

    Parameters
    ----------
    content : mapping
    """
    learner = content["learner"]
    booster = learner["gradient_booster"]
    if booster["name"] != "gbtree":
        raise ModelError("Only XGBoost models of the booster 'gbtree' can be converted.")
    link = _known_link(learner["objective"]["name"], XGBOOST_LINKS)
    about = learner["learner_model_param"]
    n_classes = {"softmax": _count(about["num_class"]), "logistic": 2}.get(link, 0)
    trees = [_xgboost_tree(tree) for tree in booster["model"]["trees"]]
    outputs = n_classes if link == "softmax" else 1
    told = str(about["base_score"]).strip("[]").split(",")
    base = np.resize(np.array([float(x) for x in told]), outputs)
    if link == "logistic":
        base = np.asarray(logit(base))
    elif link == "log":
        base = np.log(base)
    width = _count(about["num_feature"])
    if booster["model"]["gbtree_model_param"].get("num_parallel_tree", "1") != "1":
        raise ModelError("Forests of XGBoost (num_parallel_tree) cannot be converted.")
    model = joined_trees(trees, width, base, "sum", link, n_classes)
    return model, learner.get("feature_names", []), n_classes


def _xgboost_tree(tree: Mapping[str, Any]) -> OneTree:
    """One tree; a row goes left if its number is below the threshold.

    Parameters
    ----------
    tree : mapping
    """
    if any(tree.get("split_type", [])):
        raise _by_levels()
    left = np.array(tree["left_children"], dtype=np.int64)
    number = np.array(tree["split_conditions"], dtype=np.float32)
    below = np.nextafter(number, np.float32(-np.inf)).astype(np.float64)
    return OneTree(
        left, np.array(tree["right_children"], dtype=np.int64),
        np.array(tree["split_indices"], dtype=np.int64), last_below(below),
        number.astype(np.float64)[:, None],
    )  # fmt: skip


def _lightgbm(text: str) -> _Read:
    """A booster in LightGBM's text.

    Parameters
    ----------
    text : str
    """
    head, *blocks = text.split("\nTree=")
    about = _lines(head)
    words = about["objective"].split()
    link = _known_link(words[0], LIGHTGBM_LINKS)
    sigmoid = [float(word.partition(":")[2]) for word in words if word.startswith("sigmoid:")]
    if "sqrt" in words or sigmoid not in ([], [1.0]):
        raise ModelError("LightGBM's options 'reg_sqrt' and 'sigmoid' cannot be converted.")
    n_classes = {"softmax": _count(about["num_class"]), "logistic": 2}.get(link, 0)
    base = np.zeros(n_classes if link == "softmax" else 1)
    trees = [_lightgbm_tree(_lines(block)) for block in blocks]
    width = _count(about["max_feature_idx"]) + 1
    combine = "mean" if "average_output" in head.split("\n") else "sum"
    if combine == "mean" and link != "identity":
        raise ModelError("LightGBM's random forests of classes cannot be converted.")
    model = joined_trees(trees, width, base, combine, link, n_classes)
    return model, about["feature_names"].split(), n_classes


def _lines(block: str) -> dict[str, str]:
    """What a block of LightGBM's text sets."""
    pairs = (line.partition("=") for line in block.split("\n") if "=" in line)
    return {key: value for key, _, value in pairs}


def _lightgbm_tree(told: Mapping[str, str]) -> OneTree:
    """One tree, whose splits and leaves are numbered apart: leaf k stands as −k − 1.

    Parameters
    ----------
    told : mapping of str to str
    """
    value = np.array(told["leaf_value"].split(), dtype=np.float64)
    if len(value) == 1:
        leaf = np.array([LEAF])
        return OneTree(leaf, leaf, np.zeros(1, int), np.zeros(1), value[:, None])
    if (np.array(told["decision_type"].split(), dtype=int) & _CATEGORICAL).any():
        raise _by_levels()
    if told.get("is_linear", "0") != "0":
        raise ModelError("LightGBM's linear trees cannot be converted.")
    n_splits = len(value) - 1

    def nodes(key: str) -> NDArray[Any]:
        """Numbers of children, leaves after the splits."""
        child = np.array(told[key].split(), dtype=np.int64)
        return np.where(child < 0, n_splits - child - 1, child)

    none = np.full(len(value), LEAF)
    threshold = np.array(told["threshold"].split(), dtype=np.float64)
    feature = np.array(told["split_feature"].split(), dtype=np.int64)
    return OneTree(
        np.concatenate([nodes("left_child"), none]),
        np.concatenate([nodes("right_child"), none]),
        np.concatenate([feature, none]),
        np.concatenate([threshold, np.zeros(len(value))]),
        np.concatenate([np.zeros(n_splits), value])[:, None],
    )


def _count(told: str) -> int:
    """A number of columns or classes, before anything is made for each of them."""
    found = int(told)
    if not 0 <= found <= MAX_COLUMNS:
        raise ModelError(f"A model must have at most {MAX_COLUMNS} columns and classes.")
    return found


def _known_link(objective: str, links: Mapping[str, str]) -> str:
    """The link that an objective means.

    Parameters
    ----------
    objective : str
    links : mapping of str to str
    """
    if objective not in links:
        raise ModelError(
            f"The objective {objective[:40]!r} cannot be converted. Known: "
            f"{', '.join(sorted(links))}."
        )
    return links[objective]

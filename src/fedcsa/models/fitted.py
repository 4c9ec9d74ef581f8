"""Fitted models: what predicts at the target, and how it travels without executing anything."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.errors import MissingExtraError, ModelError, UntrustedError
from fedcsa.models.portable import LinearModel as LinearModel

#: A packed model may unfold to this many bytes at most.
MAX_UNPACKED_BYTES = 1 << 30
#: What to do about a source whose model cannot be used.
_ASK = "Ask the source which version of fedcsa it runs, or leave it out."
#: Compiled types of scikit-learn that are accepted once their content has been checked.
CHECKED_TYPES = (
    "sklearn.tree._tree.Tree",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
)


@dataclass(frozen=True)
class EstimatorModel:
    """A fitted scikit-learn estimator; for a classifier, codes 0…K−1 stand for the classes."""

    estimator: Any
    n_classes: int = 0

    def __repr__(self) -> str:
        return f"EstimatorModel({type(self.estimator).__name__})"

    def predict(self, X: Array) -> Array:
        """Predict every row."""
        if self.n_classes == 0:
            return np.asarray(self.estimator.predict(X), dtype=np.float64).reshape(len(X))
        full = np.zeros((len(X), self.n_classes))
        if hasattr(self.estimator, "predict_proba"):
            seen = np.asarray(self.estimator.classes_, dtype=np.intp)  # a fold may miss a class
            full[:, seen] = self.estimator.predict_proba(X)
        else:
            codes = np.asarray(self.estimator.predict(X), dtype=np.intp)
            full[np.arange(len(X)), codes] = 1.0
        return full

    def pack(self) -> NDArray[np.uint8]:
        """The estimator in skops' format: a zip of JSON and plain arrays."""
        return np.frombuffer(_repeatable(_skops().dumps(self.estimator)), dtype=np.uint8)

    @classmethod
    def unpack(
        cls, blob: NDArray[np.uint8], n_classes: int, trusted: Collection[str] = ()
    ) -> EstimatorModel:
        """Load a packed estimator, refusing by name every type that is not trusted.

        Parameters
        ----------
        blob : array of uint8
            As `pack` gives it.
        n_classes : int
            0 for a regressor.
        trusted : collection of str
            Full names of types, or of packages as in ``"sklearn.*"``.
        """
        data = blob.tobytes()
        _check_unpacked_size(data)
        skops = _skops()
        try:
            named = set(skops.get_untrusted_types(data=data))
            unknown = sorted(name for name in named if not _is_trusted(name, trusted))
        except Exception:
            raise ModelError(f"A received model is damaged and cannot be read. {_ASK}") from None
        if unknown:
            raise UntrustedError(
                f"A received model holds types that are not trusted here: {', '.join(unknown)}. "
                "Add them to trusted_types if you know what they do; otherwise refuse the source."
            )
        try:
            estimator = skops.loads(data, trusted=sorted(named))
        except Exception:
            raise ModelError(f"A received model is damaged and cannot be read. {_ASK}") from None
        if not hasattr(estimator, "predict"):
            raise ModelError(f"A received model cannot predict; it must. {_ASK}")
        _check_trees(estimator)
        classes = getattr(estimator, "classes_", None)
        if (classes is not None) != (n_classes > 0):
            raise ModelError(
                f"A received model must predict what the study asks for; it does not. {_ASK}"
            )
        if classes is not None and not set(np.ravel(classes).tolist()) <= set(range(n_classes)):
            raise ModelError(
                f"A received model must know the study's classes, and no others. {_ASK}"
            )
        return cls(estimator, n_classes)


#: Predicts a vector (rows,), or probabilities (rows, classes) if it is a classifier.
FittedModel: TypeAlias = LinearModel | EstimatorModel


def _is_trusted(name: str, trusted: Collection[str]) -> bool:
    """Whether a type may be loaded: trusted here, or compiled and checked afterwards.

    Parameters
    ----------
    name : str
        Full name of a type.
    trusted : collection of str
    """
    packages = tuple(item[:-1] for item in trusted if item.endswith(".*"))
    return name in trusted or name in CHECKED_TYPES or name.startswith(packages)


def _repeatable(data: bytes) -> bytes:
    """The same archive without times and memory addresses, so that equal models are equal bytes."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        contents = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    schema = contents.pop("schema.json").decode("utf-8")
    addresses = dict.fromkeys(re.findall(r'"__id__": (\d+)', schema))
    numbers = {address: str(position) for position, address in enumerate(addresses)}
    schema = re.sub(r"\d{6,}", lambda found: numbers.get(found[0], found[0]), schema)
    named = {
        re.sub(r"\d{6,}", lambda found: numbers.get(found[0], found[0]), name): content
        for name, content in contents.items()
    }
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in [*sorted(named.items()), ("schema.json", schema.encode("utf-8"))]:
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)
    return target.getvalue()


def _check_trees(estimator: Any) -> None:
    """Refuse a tree whose nodes point outside it: compiled code would follow them blindly."""
    todo, seen = [estimator], set()
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if type(value).__module__ == "sklearn.tree._tree" and hasattr(value, "children_left"):
            inner = value.children_left != -1
            _check_nodes(inner, value.children_left, value.children_right)
            feature = value.feature[inner]
            if ((feature < 0) | (feature >= value.n_features)).any():
                raise ModelError(f"A received model holds a damaged tree. {_ASK}")
        elif type(value).__name__ == "TreePredictor":
            nodes = value.nodes
            _check_nodes(nodes["is_leaf"] == 0, nodes["left"], nodes["right"])
        elif isinstance(value, dict):
            todo += value.values()
        elif isinstance(value, list | tuple):
            todo += value
        elif isinstance(value, np.ndarray) and value.dtype == object:
            todo += value.ravel().tolist()
        elif type(value).__module__.startswith("sklearn."):
            todo += vars(value).values() if hasattr(value, "__dict__") else ()


def _check_nodes(inner: NDArray[Any], left: NDArray[Any], right: NDArray[Any]) -> None:
    """Children of inner nodes come after their parent, inside the tree: no way out, no circle.

    Parameters
    ----------
    inner : array of bool of shape (nodes,)
        Which nodes have children.
    left, right : array of int of shape (nodes,)
        Their children.
    """
    place = np.flatnonzero(inner)
    for child in (left[inner].astype(np.int64), right[inner].astype(np.int64)):
        if ((child <= place) | (child >= len(inner))).any():
            raise ModelError(f"A received model holds a damaged tree. {_ASK}")


def _check_unpacked_size(data: bytes) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except Exception:
        raise ModelError(f"A received model is damaged and cannot be read. {_ASK}") from None
    if size > MAX_UNPACKED_BYTES:
        raise ModelError(
            f"A received model must unpack to at most {MAX_UNPACKED_BYTES} bytes; it has {size}. "
            "Use a smaller model."
        )


def _skops() -> Any:
    try:
        import skops.io
    except ImportError:
        raise MissingExtraError(
            "skops", "models", "Sending a scikit-learn model that is not linear"
        ) from None
    return skops.io

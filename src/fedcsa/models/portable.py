"""Fitted models as plain values and arrays: the only formats in which a model travels.

=========  ===================================================  ============================
kind       prediction                                           arrays
=========  ===================================================  ============================
"linear"   link(b₀ + xᵀb)                                       coefficients, intercept
"design"   link(b₀ + B s(x)), s the agreed steps                coefficients (outputs,
           (polynomials, splines, levels, bands, logarithms)    columns), intercept, step…
"trees"    link(base + sum or mean of the leaves' values)       step, or cuts and cut;
           of x, or of s(x)                                     feature, threshold, value, base;
                                                                step…; missing_left
=========  ===================================================  ============================

`form` holds the words, `arrays` every number; both are plain, and `open_model` makes the model
again after it has checked every length, index and value. Thresholds of trees that a source fits are
whole multiples of `step`, the agreed grid; those of a given model stand in `cut` as they are. Who
makes them: `fedcsa.models.convert.to_portable`, `fedcsa.models.given`; which may leave:
`fedcsa.models.allowed`; what is checked before one leaves: `fedcsa.models.leaving`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array, expit, softmax
from fedcsa.models.description import check_link, damaged, exactly, take
from fedcsa.models.steps import (
    Steps,
    apply_steps,
    open_steps,
    steps_arrays,
    steps_form,
    widest_of,
    width_of,
)
from fedcsa.models.trees import (
    LEAF,
    MAX_BIN,
    MAX_NODES,
    MAX_TREE_DEPTH,
    MAX_WALKERS,
    Forest,
    TreeCells,
    open_cells,
)

#: Whoever predicts looks for what is not finite; numpy need not warn of it besides.
_QUIET = np.errstate(all="ignore")
#: TreeCells of a design matrix at a time: 32 MB.
MAX_CELLS = 1 << 22
#: The words of a model: plain JSON values.
Form: TypeAlias = Mapping[str, Any]
#: Its numbers: float64 or int32 arrays by name.
Arrays: TypeAlias = Mapping[str, NDArray[Any]]


class PortableModel(Protocol):
    """A fitted model that may travel."""

    @property
    def form(self) -> Form:
        """Its words: kind, link, steps."""
        ...

    @property
    def arrays(self) -> Arrays:
        """Its numbers, read-only."""
        ...

    def predict(self, X: Array) -> Array:
        """Predict every row: numbers (rows,), or probabilities (rows, classes)."""
        ...


@dataclass(frozen=True)
class LinearModel:
    """b₀ + xᵀb, or for two classes the probability with that log-odds."""

    coefficients: Array
    intercept: float
    link: str = "identity"

    def __repr__(self) -> str:
        return f"LinearModel({len(self.coefficients)} coefficients, link={self.link!r})"

    @property
    def form(self) -> Form:
        """Its words."""
        return {"kind": "linear", "link": self.link}

    @property
    def arrays(self) -> Arrays:
        """Its numbers."""
        return {"coefficients": self.coefficients, "intercept": np.array([self.intercept])}

    @_QUIET
    def predict(self, X: Array) -> Array:
        """Predict every row."""
        score: Array = X @ self.coefficients + self.intercept
        return score if self.link == "identity" else linked(score[:, None], self.link, (0, 1), 2)

    @classmethod
    def opened(cls, form: Form, arrays: Arrays, n_features: int, n_classes: int) -> LinearModel:
        """The model of a message, checked.

        Parameters
        ----------
        form : mapping
        arrays : mapping of str to array
        n_features : int
        n_classes : int
        """
        exactly(form, ("kind", "link"), "words")
        exactly(arrays, ("coefficients", "intercept"), "arrays")
        if n_classes not in (0, 2) or form["link"] != ("logistic" if n_classes else "identity"):
            raise damaged("a link of the study's outcome")
        coefficients = take(arrays, "coefficients", np.float64, (n_features,))
        [intercept] = take(arrays, "intercept", np.float64, (1,))
        return cls(coefficients, float(intercept), form["link"])


@dataclass(frozen=True, eq=False)
class Lines(Sequence[LinearModel]):
    """Lines of one link, as two arrays: a thousand of them are handled at once.

    Attributes
    ----------
    coefficients : array of shape (lines, features)
    intercepts : array of shape (lines,)
    link : str
        As of `LinearModel`.
    """

    coefficients: Array = field(repr=False)
    intercepts: Array = field(repr=False)
    link: str = "identity"

    @classmethod
    def of(cls, models: Sequence[object]) -> Lines | None:
        """Models as lines; None if there is none, or they are not all lines of one link."""
        if isinstance(models, cls):
            return models
        lines = [model for model in models if isinstance(model, LinearModel)]
        if not lines or len(lines) < len(models) or len({line.link for line in lines}) > 1:
            return None
        slopes = np.array([line.coefficients for line in lines])
        return cls(slopes, np.array([line.intercept for line in lines]), lines[0].link)

    def __len__(self) -> int:
        return len(self.intercepts)

    @overload
    def __getitem__(self, index: int) -> LinearModel: ...
    @overload
    def __getitem__(self, index: slice) -> Lines: ...
    def __getitem__(self, index: int | slice) -> LinearModel | Lines:
        if isinstance(index, slice):
            return Lines(self.coefficients[index], self.intercepts[index], self.link)
        slopes = np.ascontiguousarray(self.coefficients[index])
        return LinearModel(slopes, float(self.intercepts[index]), self.link)

    def mean(self, weights: Array) -> LinearModel | None:
        """The line that predicts the weighted mean of what they predict; None if none does.

        Parameters
        ----------
        weights : array of shape (lines,)
            They need not sum to one. Of probabilities there may be one line alone.

        Examples
        --------
        >>> lines = Lines(np.array([[1.0], [3.0]]), np.array([0.0, 1.0]))
        >>> lines.mean(np.array([0.5, 0.5])).predict(np.array([[1.0]]))
        array([2.5])
        """
        if len(self.intercepts) > 1 and self.link != "identity":
            return None
        share = weights / weights.sum()
        intercept = float(share @ self.intercepts)
        return LinearModel(share @ self.coefficients, intercept, self.link)


@dataclass(frozen=True)
class DesignModel:
    """Linear in the columns that agreed steps make of the features, with a link.

    Attributes
    ----------
    coefficients : array of shape (outputs, columns)
    intercept : array of shape (outputs,)
    link : {"identity", "log", "logistic", "softmax"}
    steps : Steps
    classes : tuple of int
        Codes of the classes that the scores are about.
    n_classes : int
        Of the study's outcome; 0 for numbers.
    """

    coefficients: Array = field(repr=False)
    intercept: Array = field(repr=False)
    link: str
    steps: Steps = field(default=(), repr=False)
    classes: tuple[int, ...] = ()
    n_classes: int = 0

    @property
    def form(self) -> Form:
        """Its words."""
        steps, classes = steps_form(self.steps), list(self.classes)
        return {"kind": "design", "link": self.link, "steps": steps, "classes": classes}

    @property
    def arrays(self) -> Arrays:
        """Its numbers."""
        own = {"coefficients": self.coefficients, "intercept": self.intercept}
        return {**own, **steps_arrays(self.steps)}

    @_QUIET
    def predict(self, X: Array) -> Array:
        """Predict every row, as many at a time as make a design of bounded size."""
        scores = in_parts(self.scores, X, widest_of(self.steps, X.shape[1]))
        return linked(scores, self.link, self.classes, self.n_classes)

    def scores(self, X: Array) -> Array:
        """What the link is applied to, of shape (rows, outputs)."""
        scores: Array = apply_steps(self.steps, X) @ self.coefficients.T + self.intercept
        return scores

    @classmethod
    def opened(cls, form: Form, arrays: Arrays, n_features: int, n_classes: int) -> DesignModel:
        """The model of a message, checked.

        Parameters
        ----------
        form : mapping
        arrays : mapping of str to array
        n_features : int
        n_classes : int
        """
        exactly(form, ("kind", "link", "steps", "classes"), "words")
        link, classes = check_link(form, n_classes)
        if link == "probabilities":
            raise damaged("a link of its format")
        steps = open_steps(form["steps"], arrays, n_features)
        exactly(arrays, ("coefficients", "intercept", *steps_arrays(steps)), "arrays")
        outputs = len(classes) if link == "softmax" else 1
        shape = outputs, width_of(steps, n_features)
        coefficients = take(arrays, "coefficients", np.float64, shape)
        intercept = take(arrays, "intercept", np.float64, (outputs,))
        return cls(coefficients, intercept, link, steps, classes, n_classes)


@dataclass(frozen=True)
class TreeModel:
    """Trees on cells of every feature: their leaves' values, added or averaged, with a link.

    Attributes
    ----------
    cells : TreeCells
        The agreed grid, or the given model's own cuts.
    feature : array of int32 of shape (nodes,)
        In preorder, −1 for a leaf; see `fedcsa.models.trees`.
    threshold : array of int32 of shape (splits,)
        A row goes left if the cell of its feature is at most that.
    value : array of shape (leaves, 1), or (leaves, classes) where probabilities are averaged
    base : array of shape (outputs,)
        Added to the sum. Of several outputs, tree k adds to the one k modulo outputs.
    combine : {"mean", "sum"}
    link : {"identity", "log", "logistic", "softmax", "probabilities"}
    classes : tuple of int
        Codes of the classes that the scores are about.
    n_classes : int
        Of the study's outcome; 0 for numbers.
    steps : Steps
        What makes the columns that the trees split; none if these are the features.
    missing_left : array of int32 of shape (splits,), optional
        1 where an empty cell goes left; None where no cell is empty.
    """

    cells: TreeCells = field(repr=False)
    feature: NDArray[np.int32] = field(repr=False)
    threshold: NDArray[np.int32] = field(repr=False)
    value: Array = field(repr=False)
    base: Array = field(repr=False)
    combine: str
    link: str
    classes: tuple[int, ...] = ()
    n_classes: int = 0
    steps: Steps = field(default=(), repr=False)
    missing_left: NDArray[np.int32] | None = field(default=None, repr=False)

    @property
    def form(self) -> Form:
        """Its words; of steps only if there are some."""
        words: dict[str, Any] = {"kind": "trees", "combine": self.combine, "link": self.link}
        words["classes"] = list(self.classes)
        return {**words, "steps": steps_form(self.steps)} if self.steps else words

    @property
    def arrays(self) -> Arrays:
        """Its numbers."""
        own = {name: getattr(self, name) for name in _TREE_ARRAYS}
        if self.missing_left is not None:
            own["missing_left"] = self.missing_left
        return {**self.cells.arrays, **own, **steps_arrays(self.steps)}

    @cached_property
    def forest(self) -> Forest:
        """The trees, ready to be walked."""
        return Forest.of(self.feature, self.threshold, self.missing_left)

    def leaves_of_rows(self, X: Array) -> Iterator[NDArray[np.intp]]:
        """For every tree the leaf of every row of X of shape (rows, features)."""
        return self.forest.leaves_of_rows(self.cells.of_rows(apply_steps(self.steps, X)))

    @_QUIET
    def predict(self, X: Array) -> Array:
        """Predict every row, a bounded number at a time."""
        scores = in_parts(self.scores, X, widest_of(self.steps, X.shape[1]), MAX_WALKERS)
        return linked(scores, self.link, self.classes, self.n_classes)

    def scores(self, X: Array) -> Array:
        """What the link is applied to, of shape (rows, outputs)."""
        total: Array = np.tile(self.base, (len(X), 1))
        for tree, leaf in enumerate(self.leaves_of_rows(X)):
            if self.value.shape[1] == 1:
                total[:, tree % len(self.base)] += self.value[:, 0].take(leaf)
            else:
                total += self.value.take(leaf, axis=0)
        if self.combine == "mean":
            total /= len(self.forest.roots)
        return total

    @classmethod
    def opened(cls, form: Form, arrays: Arrays, n_features: int, n_classes: int) -> TreeModel:
        """The model of a message, checked.

        Parameters
        ----------
        form : mapping
        arrays : mapping of str to array
        n_features : int
        n_classes : int
        """
        words = ("kind", "combine", "link", "classes", *(["steps"] if "steps" in form else []))
        exactly(form, words, "words")
        steps = open_steps(form["steps"], arrays, n_features) if "steps" in form else ()
        width = width_of(steps, n_features)
        cells = open_cells(arrays, width)
        ways = ["missing_left"] if "missing_left" in arrays else []
        exactly(arrays, (*cells.arrays, *_TREE_ARRAYS, *steps_arrays(steps), *ways), "arrays")
        link, classes = check_link(form, n_classes)
        mean = link == "probabilities" or (link == "identity" and form["combine"] == "mean")
        if form["combine"] != ("mean" if mean else "sum"):
            raise damaged("leaves that are added or averaged, as its link needs")
        columns = n_classes if link == "probabilities" else 1
        outputs = {"softmax": len(classes), "probabilities": n_classes}.get(link, 1)
        feature, threshold = _nodes_in(arrays, width)
        value = take(arrays, "value", np.float64, (len(feature) - len(threshold), columns))
        base = take(arrays, "base", np.float64, (outputs,))
        if mean and base.any():
            raise damaged("nothing to add to a mean")
        if link == "probabilities" and not _are_probabilities(value):
            raise damaged("probabilities in its leaves")
        model = cls(
            cells, feature, threshold, value, base, form["combine"], link, classes, n_classes,
            steps, _ways_in(arrays, len(threshold)) if ways else None,
        )  # fmt: skip
        trees = model.forest
        if (len(trees.roots) % outputs and not mean) or trees.depths.max() > MAX_TREE_DEPTH:
            raise damaged(f"whole rounds of trees at most {MAX_TREE_DEPTH} deep")
        return model


_TREE_ARRAYS = ("feature", "threshold", "value", "base")


def _nodes_in(arrays: Arrays, n_features: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Features and thresholds of trees, if they are in range.

    Parameters
    ----------
    arrays : mapping of str to array
    n_features : int
    """
    feature = take(arrays, "feature", np.int32, (None,))
    if not 1 <= len(feature) <= MAX_NODES:
        raise damaged(f"1 to {MAX_NODES} nodes")
    if (feature < LEAF).any() or (feature >= n_features).any():
        raise damaged("splits on features of the study")
    threshold = take(arrays, "threshold", np.int32, (int((feature != LEAF).sum()),))
    if (np.abs(threshold.astype(np.int64)) > MAX_BIN).any():
        raise damaged("thresholds on the grid")
    return feature, threshold


def _ways_in(arrays: Arrays, n_splits: int) -> NDArray[np.int32]:
    """Where empty cells go at every split: 1 is left, 0 right.

    Parameters
    ----------
    arrays : mapping of str to array
    n_splits : int
    """
    ways = take(arrays, "missing_left", np.int32, (n_splits,))
    if not np.isin(ways, (0, 1)).all():
        raise damaged("a way for empty cells at every split")
    return ways


#: A site may round its shares to three digits before they leave.
_ROUNDING = 0.01


def _are_probabilities(value: Array) -> bool:
    """Whether every row of `value` is a distribution, up to rounding."""
    return bool((value >= 0.0).all() and (np.abs(value.sum(axis=1) - 1.0) < _ROUNDING).all())


def open_model(form: Form, arrays: Arrays, n_features: int, n_classes: int) -> PortableModel:
    """The model of a message, after every index, length, type and value has been checked.

    Parameters
    ----------
    form : mapping
        Words, as `PortableModel.form` gives them.
    arrays : mapping of str to array
        Numbers, as `PortableModel.arrays` gives them.
    n_features : int
        Of the study.
    n_classes : int
        Of the study's outcome; 0 for numbers.

    Raises
    ------
    ModelError
        Whatever is wrong with them; no value is quoted.

    Examples
    --------
    >>> line = LinearModel(np.ones(2), 0.0)
    >>> open_model(line.form, line.arrays, n_features=2, n_classes=0)
    LinearModel(2 coefficients, link='identity')
    """
    kind = form.get("kind") if isinstance(form, Mapping) else None
    known = isinstance(kind, str) and kind in _KINDS and isinstance(arrays, Mapping)
    if not known:
        raise damaged(f"one of the formats {', '.join(sorted(_KINDS))}")
    return _KINDS[kind].opened(form, arrays, n_features, n_classes)  # type: ignore[index]


_KINDS: Mapping[str, type[LinearModel | DesignModel | TreeModel]] = {
    "linear": LinearModel, "design": DesignModel, "trees": TreeModel
}  # fmt: skip


def in_parts(
    scores: Callable[[Array], Array], X: Array, widest: int, most_rows: int = MAX_CELLS
) -> Array:
    """Scores of all rows, so many at a time that no step makes more than `MAX_CELLS` cells.

    Parameters
    ----------
    scores : function of rows
        Of shape (rows, outputs).
    X : array of shape (rows, features)
    widest : int
        Columns that a step makes at most.
    most_rows : int
        At a time.
    """
    rows = max(1, min(most_rows, MAX_CELLS // widest))
    starts = range(0, max(len(X), 1), rows)
    return np.concatenate([scores(X[start : start + rows]) for start in starts])


def linked(scores: Array, link: str, classes: Sequence[int], n_classes: int) -> Array:
    """Predictions from scores: (rows,) or (rows, classes).

    Parameters
    ----------
    scores : array of shape (rows, outputs)
    link : str
    classes : sequence of int
        Codes of the classes that the scores are about.
    n_classes : int
        Of the study's outcome; 0 for numbers.

    Examples
    --------
    >>> linked(np.array([[0.0]]), "logistic", (0, 2), 3)
    array([[0.5, 0. , 0.5]])
    """
    if link == "identity":
        return scores[:, 0]
    if link == "log":
        return np.asarray(np.exp(scores[:, 0]))
    if link == "probabilities":  # of leaves that were rounded before they left
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))
    full = np.zeros((len(scores), n_classes))
    if link == "logistic":
        full[:, list(classes)] = np.column_stack([expit(-scores[:, 0]), expit(scores[:, 0])])
    else:
        full[:, list(classes)] = softmax(scores, axis=1)
    return full


#: Steps of the grid in a target's sd: far too coarse for a threshold to stand between two patients,
#: and fine enough to cost 1 to 4 % of the squared error on Friedman's functions, 300 to 1,000 rows.
STEPS_PER_SD = 8


def agreed_grid(sd: Array, *, scale: bool) -> Array:
    """The step of thresholds per feature, in the units in which models see the features.

    Follows from the brief alone (`brief.sd`, `brief.scale`).

    Parameters
    ----------
    sd : array of shape (features,)
        The target's standard deviations.
    scale : bool
        Whether models see features in units of the target's sds.

    Returns
    -------
    array of shape (features,)

    Examples
    --------
    >>> agreed_grid(np.array([4.0, 0.5]), scale=False)
    array([0.5   , 0.0625])
    >>> agreed_grid(np.array([4.0, 0.5]), scale=True)
    array([0.125, 0.125])
    """
    return np.asarray((np.ones(len(sd)) if scale else sd) / STEPS_PER_SD)

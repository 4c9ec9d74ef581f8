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

`form` holds the words, `arrays` every number; both are plain. Thresholds of trees that a source
fits are whole multiples of `step`, the agreed grid; those of a given model stand in `cut` as they
are. A `Format` says all that is particular to one of them; `fedcsa.models.formats` lists them. Who
makes models: `fedcsa.models.convert.to_portable`, `fedcsa.models.given`; which may leave:
`fedcsa.models.allowed`; what is checked before one leaves: `fedcsa.models.leaving`, and when one
arrives: `fedcsa.models.arrivals`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array, expit, softmax

if TYPE_CHECKING:
    from fedcsa.models.chosen import Seen
    from fedcsa.models.steps import Steps

#: Whoever predicts looks for what is not finite; numpy need not warn of it besides.
QUIET = np.errstate(all="ignore")
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


class FittedRows(Protocol):
    """The rows that a model was fitted on, as it saw them; every pass starts anew."""

    def __iter__(self) -> Iterator[tuple[Array, Array, Array]]:
        """Of every batch features, outcomes (of classes their codes) and weights.

        A row that the model was not fitted on weighs 0.
        """
        ...

    def leverages(
        self,
        columns: Callable[[Array], Array],
        varies: Callable[[Array], Array] | None = None,
    ) -> Array:
        """Share of every row in its own prediction by a linear fit, of shape (rows,).

        Parameters
        ----------
        columns : function of features
            What is fitted, of shape (rows, columns); an intercept is added.
        varies : function of features, optional
            By how much more a row counts than its weight, of shape (rows,). The penalty of the
            study's own recipe is then taken for none.
        """
        ...

    def variance_shares(self) -> Array:
        """Share of every row in the variance of the outcomes, of shape (rows,)."""
        ...


@dataclass(frozen=True)
class Before:
    """What stands before the last estimator of a pipeline.

    Attributes
    ----------
    steps : Steps
        From the study's matrix to what the estimator gets; a model must apply or refuse them.
    columns : tuple of Column
        That it gets.
    n_features : int
        Of the study.
    grid : array of shape (features,) or None
        As `agreed_grid` gives it.
    """

    steps: Steps
    columns: Seen
    n_features: int
    grid: Array | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Format:
    """How some of scikit-learn's estimators leave a site, and are opened and checked elsewhere.

    `fedcsa.models.formats.FORMATS` holds one for every kind of `form`. What a format does not say
    is taken at its worst: without `shares` every row counts as wholly exposed.

    Attributes
    ----------
    estimators : collection of str
        Names of the classes.
    arrays : mapping of str to str
        Names of the fitted arrays, and what each is, for the person who approves. Names that
        `fedcsa.models.description.is_agreed_array` knows are for arrays that hold nothing of rows.
    objection : function of (estimator, transformers before it)
        What keeps it from leaving, in two sentences without the last point; "" if nothing does.
    converted : function of (fitted estimator, Before, classes of the outcome or 0)
        The `PortableModel`, or a `ModelError`.
    opened : function of (form, arrays, features of the study, classes of the outcome or 0)
        The `PortableModel` after every word and array was checked, or a `ModelError`.
    compared : function of (form, arrays, estimator, Before, classes of the outcome or 0)
        Raises a `ModelError` unless this is the estimator that was agreed.
    shares : function of (model, FittedRows), optional
        How much of the model one row decides, between 0 and 1, of shape (rows,).
    rows_behind : function of (model, features, outcomes), optional
        Rows behind every mean in the model, those of one batch.
    least_rows : function of an estimator, optional
        Of these the fewest that its parameters allow.
    n_columns : function of Before, optional
        How many coefficients it has at least.
    placed : function of (model, places, features of the study), optional
        A given model for a study that has its columns in other places.
    of_leaves : collection of str
        Arrays whose length `rows_behind` looks after. They may hold a cell of few decimals.
    folds_scalers : bool
        Whether scalers before it are taken into its own numbers.
    on_grid : bool
        Whether it is fitted on columns that are rounded to the agreed grid.
    """

    estimators: Collection[str]
    arrays: Mapping[str, str]
    objection: Callable[[Any, Sequence[Any]], str]
    converted: Callable[[Any, Before, int], PortableModel]
    opened: Callable[[Form, Arrays, int, int], PortableModel]
    compared: Callable[[Form, Arrays, Any, Before, int], None]
    shares: Callable[[Any, FittedRows], Array] | None = None
    rows_behind: Callable[[Any, Array, Array], Array] | None = None
    least_rows: Callable[[Any], int] | None = None
    n_columns: Callable[[Before], int] | None = None
    placed: Callable[[Any, Sequence[int], int], PortableModel] | None = None
    of_leaves: Collection[str] = ()
    folds_scalers: bool = False
    on_grid: bool = False


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

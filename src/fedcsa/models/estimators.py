"""Any scikit-learn regressor, classifier or pipeline as the model of a study."""

from __future__ import annotations

import inspect
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import ThreadpoolController

from fedcsa.core.arrays import Array
from fedcsa.errors import ModelError
from fedcsa.models.allowed import objection
from fedcsa.models.chosen import Seen, check_named, sklearn_name, split_pipeline
from fedcsa.models.convert import to_portable
from fedcsa.models.description import RATIO_POWER, Candidate
from fedcsa.models.fitted import EstimatorModel, FittedModel
from fedcsa.models.formats import format_of
from fedcsa.models.inputs import Inputs, begins_with_columns, given_to, no_empty_cells, pandas
from fedcsa.models.model import Path
from fedcsa.models.portable import PortableModel
from fedcsa.models.settling import made_columns, seen_columns, settle_columns
from fedcsa.models.trees import on_grid


@dataclass(frozen=True)
class SklearnModel:
    """A scikit-learn estimator, cloned and fitted once per candidate.

    Attributes
    ----------
    estimator : scikit-learn estimator
        Not fitted; never changed.
    n_classes : int
        Of the outcome, 0 for a regressor.
    grid : array of shape (features,), optional
        The agreed grid, on which trees that may travel are fitted.
    inputs : Inputs, optional
        What the estimator gets of the study's matrix; by default all of it, as it is.
    """

    estimator: Any
    n_classes: int = 0
    grid: Array | None = field(default=None, repr=False)
    inputs: Inputs | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if is_classifier(self.estimator) != (self.n_classes > 0):
            kind, other = ("regressor", "classes") if self.n_classes else ("classifier", "numbers")
            raise ModelError(
                f"The model is a {kind} ({type(self.estimator).__name__}), but the outcome is "
                f"declared as {other}. Change the model or the outcome."
            )

        if self.inputs is not None and begins_with_columns(self.estimator):
            pandas()  # said before anything is fitted

    def check_columns(self, candidates: Sequence[Candidate] = ()) -> None:
        """Raise a `ModelError` if a ColumnTransformer does not name columns that the table has.

        Parameters
        ----------
        candidates : sequence of Candidate
            As the model takes them; those that bring estimators are looked at, too.
        """
        if self.inputs is None:
            return
        brought = [
            {key: clone(own) for key, own in candidate.items() if hasattr(own, "get_params")}
            for candidate in candidates
        ]
        for parts in [{}, *filter(None, brought)]:
            estimator = clone(self.estimator).set_params(**parts)
            columns = seen_columns(estimator, self.inputs, self.inputs.n_features)[1]
            if begins_with_columns(estimator):
                check_named(estimator, columns)
            settle_columns(estimator, columns)

    def fit(
        self,
        X: Array,
        y: Array,
        ratios: Array,
        candidates: Sequence[Candidate],
        rng: np.random.Generator,
    ) -> Path:
        """Fit all candidates; one that raises is a failure, not an error.

        Parameters
        ----------
        X : array of shape (rows, features)
        y : array of shape (rows,)
        ratios : array of shape (rows,)
        candidates : sequence of Candidate
        rng : Generator
        """
        models: list[FittedModel | None] = []
        failures: dict[int, str] = {}
        texts: dict[int, str] = {}
        warned: Counter[str] = Counter()
        seed = int(rng.integers(2**31 - 1))  # the same for all candidates: a fair comparison
        for index, candidate in enumerate(candidates):
            with warnings.catch_warnings(record=True) as caught, one_openmp_thread():
                warnings.simplefilter("always")
                try:
                    models.append(self._fit_one(X, y, ratios, candidate, seed))
                except Exception as error:
                    models.append(None)
                    failures[index] = type(error).__name__
                    texts[index] = f"{type(error).__name__}: {error}"
            warned.update(item.category.__name__ for item in caught)
        return Path(tuple(models), failures, dict(warned), texts, len(y))

    def _fit_one(
        self, X: Array, y: Array, ratios: Array, candidate: Candidate, seed: int
    ) -> FittedModel:
        """Fit one candidate.

        Parameters
        ----------
        X : array of shape (rows, features)
        y : array of shape (rows,)
        ratios : array of shape (rows,)
        candidate : Candidate
        seed : int
            For every random_state that was left open.
        """
        # Fitting must not change a candidate, so estimators among its values are copied.
        parameters = {
            key: clone(value) if hasattr(value, "get_params") else value
            for key, value in candidate.items()
            if key != RATIO_POWER
        }
        estimator = clone(self.estimator).set_params(**parameters)
        _seed(estimator, seed)
        y = y.astype(np.intp) if self.n_classes else y
        estimator, portable = self._ready(estimator, X.shape[1])
        keywords = {}
        if candidate.get(RATIO_POWER):
            keywords[weight_keyword(estimator)] = ratios ** candidate[RATIO_POWER]
        with config_context(enable_metadata_routing=False):  # weights go by the step's name
            estimator.fit(given_to(estimator, self.inputs, X), y, **keywords)
        if portable:
            try:
                return _finite(
                    to_portable(estimator, self.n_classes, self.grid, self.inputs, X.shape[1])
                )
            except ModelError:  # trees without a grid, and those that are too large to travel
                pass
        return EstimatorModel(estimator, self.n_classes, self.inputs)

    def _ready(self, estimator: Any, n_features: int) -> tuple[Any, bool]:
        """The estimator with all that was agreed, and whether it has a format of ours.

        Parameters
        ----------
        estimator : scikit-learn estimator
            Is changed.
        n_features : int
        """
        if self.inputs is not None:
            settle_columns(estimator, seen_columns(estimator, self.inputs, n_features)[1])
        if objection(estimator, self.inputs):
            return estimator, False
        if self.grid is not None and _is_on_grid(estimator):
            _, columns = made_columns(estimator, self.inputs, n_features, self.grid)
            estimator = rounded_pipeline(estimator, columns)
        return estimator, True


def one_openmp_thread() -> AbstractContextManager[Any]:
    """While it lasts, this thread's fits and predictions use no further threads of OpenMP.

    Sums over several would depend on their number, and a forked process that asks for the threads
    of its parent waits for ever.
    """
    limits: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="openmp")
    return limits


@cache
def _libraries() -> ThreadpoolController:
    """The libraries in this process, of which scikit-learn, loaded above, has brought OpenMP."""
    return ThreadpoolController()


def needs_grid(model: Any) -> bool:
    """Whether a model is fitted on the agreed grid, as trees are."""
    return isinstance(model, SklearnModel) and _is_on_grid(model.estimator)


def _is_on_grid(estimator: Any) -> bool:
    own = format_of(split_pipeline(estimator)[1])
    return own is not None and own.on_grid


def can_be_forked(model: Any, candidates: Sequence[Candidate]) -> bool:
    """Whether a forked process can fit: all is of scikit-learn, and no part has cores of its own.

    Other libraries with threads may wait for ever in a forked process.

    Parameters
    ----------
    model : Model
    candidates : sequence of Candidate
    """
    if not isinstance(model, SklearnModel):
        return False
    brought = [value for candidate in candidates for value in candidate.values()]
    roots = [own for own in (model.estimator, *brought) if hasattr(own, "get_params")]
    parameters = [pair for root in roots for pair in root.get_params(deep=True).items()]
    parameters += [pair for candidate in candidates for pair in candidate.items()]
    parts = [*roots, *(value for _, value in parameters if hasattr(value, "get_params"))]
    alone = all(own in (None, 1) for key, own in parameters if key.rpartition("__")[2] == "n_jobs")
    return alone and all(type(part).__module__.split(".")[0] == "sklearn" for part in parts)


def _finite(model: PortableModel) -> PortableModel:
    """The model, or a ValueError if a step of it has learnt nothing of a column without cells."""
    for name, array in model.arrays.items():
        if name.startswith("step") and "." in name and not np.isfinite(array).all():
            raise ValueError("A scaler must have a known cell in each of its columns.")
    return model


def weight_keyword(estimator: Any) -> str:
    """The name under which `estimator`.fit takes sample weights.

    >>> from sklearn.linear_model import Lasso
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> weight_keyword(make_pipeline(StandardScaler(), Lasso()))
    'lasso__sample_weight'
    """
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__{weight_keyword(last)}"
    if has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    for part in ("regressor", "estimator"):  # of a transformed outcome, of a search
        inner = getattr(estimator, part, None)
        if hasattr(inner, "get_params") and takes_others(estimator):
            return weight_keyword(inner)
    raise ModelError(
        f"{type(estimator).__name__} does not take sample weights; "
        f"leave {RATIO_POWER!r} out of its candidates."
    )


def takes_others(estimator: Any) -> bool:
    """Whether `fit` passes on keywords that it does not know itself."""
    parameters = inspect.signature(estimator.fit).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _seed(estimator: Any, seed: int) -> None:
    """Fix every random_state that was left open, so that a run can be repeated.

    Parameters
    ----------
    estimator : scikit-learn estimator
    seed : int
    """
    for key, value in estimator.get_params(deep=True).items():
        if (key == "random_state" or key.endswith("__random_state")) and value is None:
            estimator.set_params(**{key: seed})


# Rounding to the agreed grid before trees are fitted ------------------------------------------


class Rounded(BaseEstimator, TransformerMixin):  # type: ignore[misc]
    """The last transformer before trees: every column rounded down to its agreed grid.

    Parameters
    ----------
    step : array of shape (columns,)
    """

    def __init__(self, step: Array) -> None:
        self.step = step

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 - there is nothing to learn
        """Take note that a pipeline was fitted.

        Parameters
        ----------
        X : array of shape (rows, columns)
        y : array of shape (rows,), optional
        """
        self.n_features_in_ = len(self.step)
        return self

    def transform(self, X: Any) -> Array:
        """Numbers of cells as float64, NaN where a cell is empty."""
        dense = X.toarray() if hasattr(X, "toarray") else X
        return on_grid(np.asarray(dense, dtype=np.float64), self.step)


def rounded_pipeline(estimator: Any, columns: Seen) -> Any:
    """The estimator of trees with the rounding before its last step.

    Parameters
    ----------
    estimator : scikit-learn estimator
        A pipeline or trees alone; not fitted.
    columns : tuple of Column
        That the trees get.
    """
    step = np.array([column.step for column in columns])
    if sklearn_name(estimator) != "Pipeline":
        return Pipeline([("rounded", Rounded(step)), ("trees", estimator)])
    *steps, (name, last) = estimator.steps
    if sklearn_name(last) == "Pipeline":
        return Pipeline([*steps, (name, rounded_pipeline(last, columns))])
    return Pipeline([*steps, ("rounded", Rounded(step)), (name, last)])


# Whether a model takes the empty cells that are left to it, tried on rows that are made up ----

#: Enough for five folds of two classes, and for every level of most columns.
ROWS = 120
#: Of four cells one is empty.
EMPTY_SHARE = 0.25


def check_takes_empty(model: SklearnModel, candidates: Sequence[Candidate]) -> None:
    """Raise a `ModelError` if a candidate can be fitted on full rows, and not with empty cells.

    What fails on full rows too, made up as they are, is left to the study itself.

    Parameters
    ----------
    model : SklearnModel
    candidates : sequence of Candidate
        As the model takes them. Of those that differ in numbers alone, one is tried.
    """
    inputs = model.inputs
    if inputs is None or not inputs.missing:
        return
    y = np.arange(ROWS) % (model.n_classes or ROWS)
    for candidate in _unlike(candidates):
        fits = []
        for share in (0.0, EMPTY_SHARE):
            X, rng = made_up_rows(inputs, share), np.random.default_rng(0)
            [fitted] = model.fit(X, y.astype(float), np.ones(ROWS), [candidate], rng).models
            fits.append(fitted is not None)
        if fits == [True, False]:
            raise ModelError(no_empty_cells([item.name for item in inputs.items if item.missing]))


def made_up_rows(inputs: Inputs, share: float) -> Array:
    """Rows of the study's matrix with every level, and with empty cells.

    Parameters
    ----------
    inputs : Inputs
    share : float
        Of cells that are empty, where they may be.

    Returns
    -------
    array of shape (rows, features)
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, inputs.n_features))
    for item in inputs.items:
        if item.kind == "flag":
            X[:, item.own[0]] = rng.integers(0, 2, ROWS)
        if item.levels:
            place = np.arange(ROWS) % len(item.levels)
            X[:, list(item.own)] = rng.permutation(place)[:, None] == np.arange(1, len(item.levels))
        if item.missing:
            X[:, item.columns[-1]] = rng.random(ROWS) < share
    return X


def _unlike(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates that differ in more than numbers."""
    found: dict[str, Candidate] = {}
    for candidate in candidates:
        words = {k: repr(v) for k, v in candidate.items() if not isinstance(v, int | float)}
        found.setdefault(repr(sorted(words.items())), candidate)
    return list(found.values())

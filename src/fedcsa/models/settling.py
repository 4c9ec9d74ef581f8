"""What is agreed of a pipeline before it is fitted, so that its columns tell nothing of the rows.

Encoders take the agreed levels of their columns, in the order in which scikit-learn lists them. An
imputer's flags are those of all columns whose cells may be empty, and it keeps columns that are
empty everywhere. Predictions are scikit-learn's own wherever all levels occur.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.errors import ModelError
from fedcsa.models.chosen import (
    Column,
    Seen,
    branches_of,
    is_drop,
    is_nothing,
    positions,
    sklearn_name,
    split_pipeline,
)
from fedcsa.models.inputs import Inputs, are_whole, begins_with_columns
from fedcsa.models.steps import Steps
from fedcsa.models.transformers import in_sequence, leaf

#: Encoders whose levels were agreed.
ENCODERS = ("OneHotEncoder", "OrdinalEncoder", "TargetEncoder")


def settle_columns(estimator: Any, columns: Seen) -> None:
    """Give the transformers of an estimator what was agreed, wherever their columns are known.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Not fitted; is changed.
    columns : tuple of Column
        That it gets.
    """
    if sklearn_name(estimator) == "Pipeline":
        _settle(estimator, columns)
    for part in ("regressor", "estimator"):
        inner = getattr(estimator, part, None)
        if hasattr(inner, "get_params"):
            settle_columns(inner, columns)


def _settle(step: Any, columns: Seen | None) -> Seen | None:
    """Settle one transformer; the columns that it gives, None if that is not known.

    Parameters
    ----------
    step : scikit-learn transformer
        Is changed.
    columns : tuple of Column or None
    """
    name = sklearn_name(step)
    if columns is None or is_nothing(step):
        return columns
    if name == "Pipeline":
        for k, (own, inner) in enumerate(step.steps):
            step.steps[k] = own, _marked(inner, columns)
            columns = _settle(step.steps[k][1], columns)
        return columns
    if name in ("ColumnTransformer", "FeatureUnion"):
        return _settle_branches(step, columns)
    if name in ENCODERS and not isinstance(step.categories, str):
        check_listed(step, step.categories, columns, extra=False)
    elif name in ENCODERS and step.categories == "auto" and all(map(_agreed, columns)):
        _check_order(step, columns)
        # As scikit-learn would list them: sorted, an empty cell last.
        lists = [[*_sorted(column), *([np.nan] if column.missing else [])] for column in columns]
        step.set_params(categories=[np.array(own, dtype=object) for own in lists])
    try:
        return leaf(step, columns, fitted=False)[1]
    except (ModelError, IndexError, TypeError, ValueError):
        return None


def _settle_branches(step: Any, columns: Seen) -> Seen | None:
    """Settle the branches of a ColumnTransformer or FeatureUnion.

    Parameters
    ----------
    step : ColumnTransformer or FeatureUnion
        Is changed.
    columns : tuple of Column
    """
    given: Seen | None = ()
    listed = []
    for name, branch, places in branches_of(step, columns):
        own = tuple(columns[k] for k in places)
        new = branch if isinstance(branch, str) or not own else _marked(branch, own)
        made = () if is_drop(new) or not own else _settle(new, own)
        given = None if made is None or given is None else given + made
        listed.append((name, new))
    if sklearn_name(step) == "FeatureUnion":
        step.transformer_list = listed
    else:
        chosen = [own for _, _, own in step.transformers]
        step.transformers = [(*pair, c) for pair, c in zip(listed, chosen, strict=False)]
    return given


def _agreed(column: Column) -> tuple[Any, ...]:
    """The agreed levels of a column."""
    return column.texts or column.numbers


def _check_order(encoder: Any, columns: Seen) -> None:
    """Raise a `ModelError` if the order of levels matters, and depends on whether they are texts.

    Parameters
    ----------
    encoder : scikit-learn encoder
    columns : tuple of Column
    """
    ordered = sklearn_name(encoder) == "OrdinalEncoder" or getattr(encoder, "drop", None) == "first"
    for column in columns if ordered else ():
        codes = [text for text in column.texts if text not in ("other", "missing")]
        unsure = not column.cells and are_whole(codes)
        if unsure and sorted(codes) != sorted(codes, key=int):
            raise ModelError(
                f"{sklearn_name(encoder)} must list the levels of {column.name!r} in their order: "
                "they are whole numbers, and as texts they have another. Set categories."
            )


def check_listed(encoder: Any, categories: Any, columns: Seen, *, extra: bool) -> None:
    """Raise a `ModelError` if an encoder's levels of a column are not the agreed ones.

    Parameters
    ----------
    encoder : scikit-learn encoder
    categories : sequence of sequences
        Its levels of every column.
    columns : tuple of Column
    extra : bool
        Whether it may know further levels, as a model from elsewhere does; these never come. In a
        list that was written for the study they rather are misspelt, and are refused.
    """
    for column, listed in zip(columns, categories, strict=False):
        agreed = _agreed(column)
        own = {level for level in listed if level is not None and level == level}
        fits = set(agreed) & own if extra else own <= set(agreed)
        if agreed and not fits:
            words = "texts" if column.texts else "numbers"
            shown = ", ".join(repr(level) for level in _sorted(column)[:3])
            raise ModelError(
                f"{sklearn_name(encoder)} must list agreed levels of {column.name!r}, as {words} "
                f"({shown}); it lists {len(own - set(agreed))} others."
            )


def check_fitted(estimator: Any, columns: Seen) -> None:
    """Raise a `ModelError` if an encoder of a fitted pipeline knows no agreed level of a column.

    Parameters
    ----------
    estimator : fitted scikit-learn estimator
    columns : tuple of Column
        That it gets.
    """
    name = sklearn_name(estimator)
    if name in ENCODERS:
        check_listed(estimator, estimator.categories_, columns, extra=True)
    elif name == "Pipeline":
        for _, step in estimator.steps:
            check_fitted(step, columns)
            if not is_nothing(step) and sklearn_name(step) != "SimpleImputer":
                break
    elif name == "ColumnTransformer":
        names = [column.name for column in columns]
        for _, branch, chosen in estimator.transformers_:
            check_fitted(branch, tuple(columns[k] for k in positions(chosen, names)))
    elif name == "FeatureUnion":
        for _, branch in estimator.transformer_list:
            check_fitted(branch, columns)
    for part in ("regressor_", "estimator_", "best_estimator_"):
        if hasattr(estimator, part):
            check_fitted(getattr(estimator, part), columns)


def _sorted(column: Column) -> list[Any]:
    """The agreed levels of a column as its cells have them, in scikit-learn's order."""
    if column.texts:
        return sorted(column.texts)
    cell = bool if column.cells == "truth" else int if column.cells == "whole" else float
    return [cell(number) for number in sorted(column.numbers)]


def _marked(step: Any, columns: Seen | None) -> Any:
    """An imputer with flags as one that has them for every column whose cells may be empty.

    Scikit-learn's has flags only for columns that were empty somewhere when it was fitted, and
    leaves columns out that were empty everywhere.

    Parameters
    ----------
    step : scikit-learn transformer
    columns : tuple of Column or None
        That it gets.
    """
    if sklearn_name(step) != "SimpleImputer" or columns is None or not fills_nan(step):
        return step
    step.set_params(keep_empty_features=True)
    if not step.add_indicator or any(column.texts for column in columns):
        return step
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import MissingIndicator
    from sklearn.pipeline import FeatureUnion

    step.set_params(add_indicator=False)
    empty = [place for place, column in enumerate(columns) if column.missing]
    flags = ColumnTransformer([("flags", MissingIndicator(features="all"), empty)])
    return FeatureUnion([("filled", step), ("empty", flags)]) if empty else step


def fills_nan(imputer: Any) -> bool:
    """Whether NaN is missing to an imputer or indicator, and not some number that stands for it."""
    return isinstance(imputer.missing_values, float) and bool(np.isnan(imputer.missing_values))


def seen_columns(
    estimator: Any, inputs: Inputs | None, n_features: int, grid: Array | None = None
) -> tuple[Steps, Seen]:
    """From the study's matrix to what an estimator gets: the steps, and its columns.

    Parameters
    ----------
    estimator : scikit-learn estimator
    inputs : Inputs or None
        None if it gets the matrix as it is.
    n_features : int
        Of the study.
    grid : array of shape (features,), optional
        As `agreed_grid` gives it.
    """
    if inputs is None:
        steps = np.zeros(n_features) if grid is None else grid
        return (), tuple(Column(step=float(step)) for step in steps)
    texts = begins_with_columns(estimator)
    return inputs.steps(texts=texts), inputs.columns(grid, texts=texts)


def made_columns(
    estimator: Any, inputs: Inputs | None, n_features: int, grid: Array | None = None
) -> tuple[Steps, Seen]:
    """All steps before the last estimator, not fitted, and the columns that it gets.

    Parameters
    ----------
    estimator : scikit-learn estimator
        As `fedcsa.models.settling.settle_columns` leaves it.
    inputs : Inputs or None
    n_features : int
    grid : array of shape (features,), optional
    """
    before, columns = seen_columns(estimator, inputs, n_features, grid)
    try:
        steps, columns = in_sequence(split_pipeline(estimator)[0], columns, fitted=False)
    except ModelError:
        raise
    except (IndexError, TypeError, ValueError):
        raise ModelError(
            "A model's steps must fit the study's features. Check columns, levels and knots."
        ) from None
    return before + steps, columns

"""What is agreed of a pipeline before it is fitted, so that its columns tell nothing of the rows.

Encoders take the agreed levels of their columns, in the order in which scikit-learn lists them. An
imputer's flags are those of all columns whose cells may be empty, and it keeps columns that are
empty everywhere. Predictions are scikit-learn's own wherever all levels occur.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcsa.errors import ModelError
from fedcsa.models.chosen import Seen, branches_of, is_drop, is_nothing, sklearn_name
from fedcsa.models.inputs import Column
from fedcsa.models.transformers import leaf


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
    if name in ("OneHotEncoder", "OrdinalEncoder", "TargetEncoder") and _is_auto(step, columns):
        step.set_params(categories=[_categories(column) for column in columns])
    elif name in ("OneHotEncoder", "OrdinalEncoder", "TargetEncoder"):
        _check_listed(step, columns)
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


def _is_auto(encoder: Any, columns: Seen) -> bool:
    """Whether an encoder is to learn the levels of columns of which all were agreed.

    Parameters
    ----------
    encoder : scikit-learn encoder
    columns : tuple of Column
    """
    auto = isinstance(encoder.categories, str) and encoder.categories == "auto"
    return auto and all(column.texts for column in columns)


def _check_listed(encoder: Any, columns: Seen) -> None:
    """Raise a `ModelError` if none of an encoder's listed levels of a column is an agreed one.

    Parameters
    ----------
    encoder : scikit-learn encoder
    columns : tuple of Column
    """
    if isinstance(encoder.categories, str):
        return
    for column, listed in zip(columns, encoder.categories, strict=False):
        if column.texts and not set(column.texts) & {level for level in listed if level == level}:
            raise ModelError(
                f"{sklearn_name(encoder)} must list agreed levels of {column.name!r}, as texts "
                f"({', '.join(map(repr, column.texts[:3]))}); it lists others."
            )


def _categories(column: Column) -> NDArray[Any]:
    """The levels of a column as scikit-learn would list them: sorted, an empty cell last."""
    texts = sorted(column.texts)
    return np.array([*texts, np.nan] if column.missing else texts, dtype=object)


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
    if sklearn_name(step) != "SimpleImputer" or columns is None or not _is_plain(step):
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


def _is_plain(imputer: Any) -> bool:
    """Whether an imputer fills NaN, and not some number that stands for it."""
    return isinstance(imputer.missing_values, float) and bool(np.isnan(imputer.missing_values))

"""Which models may leave a site: a short list, and the rules for their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedcsa.errors import ModelError, UntrustedError
from fedcsa.models.chosen import HOLDERS, held_by, is_made_of, only, sklearn_name, split_pipeline
from fedcsa.models.description import FUNCTIONS, LINEAR, RATIO_POWER, build, function_name
from fedcsa.models.formats import format_of
from fedcsa.models.inputs import Inputs, inputs_of
from fedcsa.models.portable import Before
from fedcsa.models.settling import fills_nan, made_columns, seen_columns, settle_columns
from fedcsa.models.steps import MAX_DEGREE
from fedcsa.models.transformers import CELL_SCALERS, MEAN_SCALERS, NoFormatError

#: By the package of an estimator that is not allowed: the nearest that is, for numbers, classes.
_NEAREST = dict.fromkeys(
    ("linear_model", "cross_decomposition", "dummy", "discriminant_analysis", "naive_bayes"),
    ("Ridge", "LogisticRegression"),
)
_NEAREST_ELSE = ("HistGradientBoostingRegressor", "HistGradientBoostingClassifier")
#: The same for transformers, by their name or the package.
_INSTEAD = {
    "KBinsDiscretizer": "SplineTransformer with given knots",
    "TargetEncoder": "OneHotEncoder",
    "LabelBinarizer": "OneHotEncoder",
    "KNNImputer": "SimpleImputer",
    "IterativeImputer": "SimpleImputer",
    "decomposition": "PolynomialFeatures, or Ridge on the features themselves",
    "feature_selection": "Lasso, which selects by itself",
    "kernel_approximation": "SplineTransformer with given knots",
}
_INSTEAD_ELSE = "StandardScaler"


def refused_before_fitting(
    description: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]] = ()
) -> str:
    """Why models of this description never leave a site, or "" if they may.

    Parameters
    ----------
    description : mapping
        Of the study's model, as `fedcsa.models.registry.model_description` gives it.
    candidates : sequence of mapping
        Of the study, whose values may replace parts of the model.

    Returns
    -------
    str
        A sentence that names the estimator and the nearest thing that is allowed; or "".

    Examples
    --------
    >>> svr = {"name": "sklearn", "estimator": {"class": "sklearn.svm.SVR", "parameters": {}}}
    >>> print(refused_before_fitting(svr))
    SVR has no format in which it may leave a site. Use HistGradientBoostingRegressor instead, ...
    """
    if description.get("name") in LINEAR:
        return ""
    for candidate in candidates or [{}]:
        try:
            reason = objection(agreed_estimator(description, candidate), inputs_of(description))
        except UntrustedError:  # a class of a site's own: known by its name alone
            reason = f"A class outside scikit-learn has no format of ours. Use {_NEAREST_ELSE[0]}"
        if reason:
            return f"{reason}, or run the study in one process."
    return ""


def agreed_estimator(description: Mapping[str, Any], candidate: Mapping[str, Any]) -> Any:
    """The estimator of a study with the parameters of a candidate, and with all that was agreed.

    Parameters
    ----------
    description : mapping
    candidate : mapping
    """
    estimator = build(description.get("estimator"))
    own = {key: build(value) for key, value in candidate.items() if key != RATIO_POWER}
    inputs = inputs_of(description)
    try:
        estimator = estimator.set_params(**own)
        if inputs is not None:
            settle_columns(estimator, seen_columns(estimator, inputs, inputs.n_features)[1])
    except (AttributeError, TypeError, ValueError):
        raise ModelError(
            "A candidate must set parameters that the study's model has. Check their names."
        ) from None
    return estimator


# The allow-list -------------------------------------------------------------------------------


def objection(estimator: Any, inputs: Inputs | None = None) -> str:
    """What keeps an estimator from leaving, fitted or not; "" if nothing does.

    Parameters
    ----------
    estimator : scikit-learn estimator
        With inputs, as `fedcsa.models.settling.settle_columns` leaves it.
    inputs : Inputs, optional
        What it gets of the study's matrix.
    """
    try:
        return _objection(estimator, inputs) or _unheld(estimator, inputs)
    except NoFormatError as error:
        return str(error)
    except Exception:  # parameters are whatever a brief says, and may be of any kind
        return f"{type(estimator).__name__} has parameters of a wrong kind. Set others instead"


def _objection(estimator: Any, inputs: Inputs | None) -> str:
    """What keeps an estimator from leaving by its own words.

    Parameters
    ----------
    estimator : scikit-learn estimator
    inputs : Inputs or None
    """
    transformers, final = split_pipeline(estimator)
    own = format_of(final)
    if own is None:
        nearest = _NEAREST.get(_package(final), _NEAREST_ELSE)[int(_is_classifier(final))]
        return _never(final, nearest)
    found = own.objection(final, transformers)
    return found or _first(transformers, inputs, foldable=own.folds_scalers)


def _never(step: Any, instead: str) -> str:
    """The objection to an estimator that may not leave at all.

    Parameters
    ----------
    step : estimator
    instead : str
        The nearest that may.
    """
    name = type(step).__name__
    return f"{name} has no format in which it may leave a site. Use {instead} instead"


def _unheld(estimator: Any, inputs: Inputs | None) -> str:
    """What keeps an estimator from leaving by the columns that it gets.

    Parameters
    ----------
    estimator : scikit-learn estimator
    inputs : Inputs or None
    """
    if inputs is None:
        return ""
    n_features = inputs.n_features
    try:
        _, columns = made_columns(estimator, inputs, n_features, np.ones(n_features))
    except NoFormatError:
        raise
    except ModelError:  # columns that are not there: said when the model is built for use
        return ""
    if any(column.texts for column in columns):
        return "Texts reach the model itself. Use OneHotEncoder before it instead"
    return ""


def _is_classifier(estimator: Any) -> bool:
    from sklearn.base import is_classifier

    try:
        return bool(is_classifier(estimator))
    except AttributeError:  # it asks an estimator inside that was not given
        return type(estimator).__name__.endswith("Classifier")


def _package(estimator: Any) -> str:
    """``"svm"`` for an estimator of scikit-learn's package of that name."""
    return [*type(estimator).__module__.split("."), ""][1]


def _first(transformers: Sequence[Any], inputs: Inputs | None, *, foldable: bool) -> str:
    """The first objection to transformers one after the other.

    Parameters
    ----------
    transformers : sequence of scikit-learn transformers
    inputs : Inputs or None
    foldable : bool
        Whether only scalers come between them and the coefficients.
    """
    affine = MEAN_SCALERS | CELL_SCALERS | {"Pipeline", "ColumnTransformer"}
    if inputs is None or not inputs.missing:
        affine |= {"SimpleImputer"}  # which then does nothing
    for position, transformer in enumerate(transformers):
        later = transformers[position + 1 :]
        last = foldable and all(is_made_of(step, affine) for step in later)
        reason = _step_objection(transformer, inputs, foldable=last)
        if reason:
            return reason
    return ""


def _step_objection(step: Any, inputs: Inputs | None, *, foldable: bool) -> str:
    """What is wrong with one transformer.

    Parameters
    ----------
    step : scikit-learn transformer
    inputs : Inputs or None
    foldable : bool
        Whether only scalers come between it and the coefficients.
    """
    name = sklearn_name(step)
    if step is None or (isinstance(step, str) and step in ("passthrough", "drop")):
        return ""
    if name == "Pipeline":
        return _first(held_by(step, name), inputs, foldable=foldable)
    if name in HOLDERS:
        return _branches_objection(step, name, inputs, foldable=foldable)
    if name in MEAN_SCALERS:
        return ""
    if name in CELL_SCALERS:
        if foldable and not getattr(step, "clip", False):
            return ""
        return f"{name} would carry a patient's value. Use StandardScaler instead"
    if name in ("OneHotEncoder", "OrdinalEncoder") and inputs is not None:
        holds = _texts_hold(step)
    elif name in _STEP_RULES:
        holds = _STEP_RULES[name][0](step)
    else:
        return _never(step, _INSTEAD.get(name) or _INSTEAD.get(_package(step), _INSTEAD_ELSE))
    return "" if holds else only(name, f"with {_STEP_RULES[name][1]}", "Set that")


def _branches_objection(step: Any, name: str, inputs: Inputs | None, *, foldable: bool) -> str:
    """What is wrong with a ColumnTransformer or a FeatureUnion.

    Parameters
    ----------
    step : ColumnTransformer or FeatureUnion
    name : str
        Of its class.
    inputs : Inputs or None
    foldable : bool
    """
    if not isinstance(getattr(step, "remainder", "drop"), str):
        return only(name, "with remainder='drop' or 'passthrough'", "Set that")
    if step.transformer_weights:
        return only(name, "with transformer_weights=None", "Set that")
    chosen = [columns for _, _, columns in getattr(step, "transformers", ())]
    if inputs is None and not all(map(_are_positions, chosen)):
        return only(name, "with columns given by their numbers", "Set that")
    held = held_by(step, name)
    reasons = (_step_objection(inner, inputs, foldable=foldable) for inner in held)
    return next((reason for reason in reasons if reason), "")


def _are_positions(columns: Any) -> bool:
    """Whether columns are given by their numbers, a mask or a slice of numbers."""
    if isinstance(columns, slice):
        bounds = (columns.start, columns.stop, columns.step)
        return all(bound is None or isinstance(bound, int) for bound in bounds)
    return np.asarray(columns).dtype.kind in "biu" or np.size(columns) == 0


def _are_lists_of_numbers(values: Any) -> bool:
    """Whether `values` are lists of finite numbers, as agreed levels are."""
    if isinstance(values, str) or not len(values):
        return False
    lists = [np.asarray(item) for item in values]
    numbers = all(item.dtype.kind in "biuf" and item.ndim == 1 and item.size for item in lists)
    return numbers and all(bool(np.isfinite(item).all()) for item in lists)


def _is_plain(encoder: Any) -> bool:
    """Whether an encoder joins no levels, and drops none or by a rule."""
    drop = getattr(encoder, "drop", None)
    by_rule = drop is None or (isinstance(drop, str) and drop in ("first", "if_binary"))
    return by_rule and encoder.min_frequency is None and encoder.max_categories is None


def _texts_hold(step: Any) -> bool:
    """Whether an encoder's levels are agreed, numbers or texts, the last of them perhaps none."""
    lists = [] if isinstance(step.categories, str) else [list(own) for own in step.categories]
    texts = [own[:-1] if own and own[-1] != own[-1] else own for own in lists]
    known = all(
        own and (all(isinstance(level, str) for level in own) or _are_lists_of_numbers([own]))
        for own in texts
    )
    return bool(lists) and known and _is_plain(step)


def _spline_holds(step: Any) -> bool:
    given = not isinstance(step.knots, str) and np.asarray(step.knots).dtype.kind in "biuf"
    asked = step.extrapolation == "constant" and getattr(step, "handle_missing", "error") == "error"
    return given and asked and 1 <= step.degree <= MAX_DEGREE


_AGREED_LEVELS = "columns of agreed levels, or agreed lists of numbers as categories"
#: Of transformers with options: whether they are agreed, and what to set if not.
_STEP_RULES: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "SimpleImputer": (
        lambda step: fills_nan(step) and not step.add_indicator,
        "missing_values=nan, and add_indicator=False for texts",
    ),
    "OneHotEncoder": (
        lambda step: (
            _is_plain(step)
            and step.handle_unknown in ("error", "ignore")
            and _are_lists_of_numbers(step.categories)
        ),
        f"{_AGREED_LEVELS}, drop by rule, unknown levels an error or ignored",
    ),
    "OrdinalEncoder": (
        lambda step: (
            step.handle_unknown == "error"
            and _is_plain(step)
            and _are_lists_of_numbers(step.categories)
        ),
        f"{_AGREED_LEVELS}, unknown levels an error",
    ),
    "MissingIndicator": (
        lambda step: step.features == "all" and fills_nan(step),
        "missing_values=nan and features='all'",
    ),
    "FunctionTransformer": (
        lambda step: (step.func is None or function_name(step.func)) and not step.kw_args,
        f"one of numpy's functions {', '.join(FUNCTIONS)}",
    ),
    "PolynomialFeatures": (
        lambda step: (
            (step.degree if isinstance(step.degree, int) else max(step.degree)) <= MAX_DEGREE
        ),
        f"a degree of at most {MAX_DEGREE}",
    ),
    "SplineTransformer": (
        _spline_holds,
        f"knots as an agreed array, extrapolation='constant' and a degree from 1 to {MAX_DEGREE}",
    ),
}


def agreed_rows_per_leaf(
    description: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]] = ()
) -> int | None:
    """The fewest rows that a leaf may have by the study's own words; None if it has none.

    For the rule `min_rows_per_leaf` before anything is fitted.

    Parameters
    ----------
    description : mapping
        Of the study's model.
    candidates : sequence of mapping

    Examples
    --------
    >>> name = "sklearn.ensemble.RandomForestRegressor"
    >>> forest = {"name": "sklearn", "estimator": {"class": name, "parameters": {}}}
    >>> agreed_rows_per_leaf(forest), agreed_rows_per_leaf(forest, [{"min_samples_leaf": 20}])
    (1, 20)
    """
    if description.get("name") in LINEAR:
        return None
    fewest = []
    for candidate in candidates or [{}]:
        try:
            _, final = split_pipeline(agreed_estimator(description, candidate))
        except UntrustedError:  # refused before it matters
            return None
        own = format_of(final)
        if own is not None and own.least_rows is not None:
            fewest.append(own.least_rows(final))
    return min(fewest, default=None)


def agreed_columns(
    description: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]], n_features: int
) -> int:
    """Coefficients of the largest candidate by the study's own words; 0 if it has none.

    For the rule `max_parameters_per_row` before anything is fitted.

    Parameters
    ----------
    description : mapping
        Of the study's model, to which `refused_before_fitting` has no objection.
    candidates : sequence of mapping
    n_features : int

    Examples
    --------
    >>> from fedcsa.models.registry import model_description
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> quartic = model_description(make_pipeline(PolynomialFeatures(4), Ridge()))
    >>> agreed_columns(quartic, [], 6), agreed_columns({"name": "ridge"}, [], 6)
    (210, 6)
    """
    if description.get("name") in LINEAR:
        return n_features
    widest, inputs = 0, inputs_of(description)
    for candidate in candidates or [{}]:
        estimator = agreed_estimator(description, candidate)
        own = format_of(split_pipeline(estimator)[1])
        if own is not None and own.n_columns is not None:
            before = Before(*made_columns(estimator, inputs, n_features), n_features)
            widest = max(widest, own.n_columns(before))
    return widest

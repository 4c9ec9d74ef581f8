"""From the words of a study to a model and its candidates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.errors import ModelError, ParameterError, must, one_of, unknown
from fedcsa.models.description import (
    DESCRIBED,
    GIVEN,
    PENALTY,
    RATIO_POWER,
    RIDGE,
    WEIGHTED,
    Candidate,
    build,
    build_parameters,
    describe,
    given_column,
)
from fedcsa.models.inputs import Inputs, begins_with_columns, inputs_of, no_empty_cells
from fedcsa.models.model import LinearRegression, Model

#: The parameter that a bare number in `candidates` means.
_MAIN = {RIDGE: PENALTY, WEIGHTED: RATIO_POWER}
#: Penalties on the scale of a mean loss in target units: none, and twelve that shrink a slope by a
#: thousandth to a half. γ on the paper's Θ = [0, 1].
_DEFAULT: Mapping[str, Sequence[Candidate]] = {
    RIDGE: [{PENALTY: float(p)} for p in (0.0, *np.geomspace(1e-3, 1.0, 12))],
    WEIGHTED: [{RATIO_POWER: float(p)} for p in np.linspace(0.0, 1.0, 21)],
}
#: Training weights r^γ that the default method tries: none, half, full.
POWERS = (0.0, 0.5, 1.0)
_OPTIONS = ("name", "penalty_scale", "intercept")


def model_description(
    model: Any,
    inputs: Sequence[Mapping[str, Any]] | None = None,
    trusted: Collection[str] = (),
) -> dict[str, Any]:
    """Plain values that describe `model` to every site.

    Parameters
    ----------
    model : str, mapping or scikit-learn estimator
        ``"ridge"``, ``"weighted-least-squares"``, a mapping with one of these as its ``"name"``
        and the options ``penalty_scale`` and ``intercept``, or an estimator.
    inputs : sequence of mapping, optional
        The table's columns, as `fedcsa.models.inputs.Inputs.plain` gives them. They are told only
        to a model that gets them.
    trusted : collection of str
        Classes outside scikit-learn that the model may use.
    """
    if isinstance(model, str):
        model = {"name": model}
    if not isinstance(model, Mapping) or model.get("name") == "sklearn":
        return _described_estimator(model, inputs, trusted)
    name = model.get("name")
    if name == GIVEN:
        described = _given(model)
    elif name in _MAIN:
        for key in model:
            if key not in _OPTIONS:
                raise ParameterError(unknown("model option", str(key), _OPTIONS))
        described = dict(model)
        instantiate(described, (), n_classes=0)  # refuses wrong options
    else:
        raise one_of("model", sorted(_MAIN), name, " or a scikit-learn estimator")
    empty = [str(item["name"]) for item in inputs or () if item["missing"]]
    if empty and "class" not in described and not given_column(described):
        raise ModelError(no_empty_cells(empty))
    return described


def _described_estimator(
    model: Any, inputs: Sequence[Mapping[str, Any]] | None, trusted: Collection[str]
) -> dict[str, Any]:
    """The description of a model of scikit-learn, with the table's columns if it gets them.

    Parameters
    ----------
    model : estimator, or mapping that describes one
    inputs : sequence of mapping or None
    trusted : collection of str
    """
    described = {"name": "sklearn", "estimator": None}
    if isinstance(model, Mapping):
        described |= {key: model[key] for key in ("estimator", "inputs") if key in model}
    elif hasattr(model, "get_params") and hasattr(model, "fit") and not isinstance(model, type):
        described["estimator"] = describe(model)
    else:
        rule = f"one of {sorted(_MAIN)} or a scikit-learn estimator"
        raise must("model", rule, type(model).__name__)
    if inputs is None:
        return described
    table = Inputs.from_plain(inputs)
    try:
        told = table.missing or begins_with_columns(build(described["estimator"], trusted))
    except (ModelError, TypeError):  # what is wrong with it is said when it is built for use
        told = False
    return {**described, "inputs": table.plain} if told else described


def _given(model: Mapping[str, Any]) -> dict[str, Any]:
    """The description of a given model, checked."""
    for key in model:
        if key not in ("name", *DESCRIBED):
            raise ParameterError(unknown("model option", str(key), DESCRIBED))
    if len([key for key in DESCRIBED[1:] if model.get(key)]) != 1:
        raise must("model", "given as a model, or as one column of predictions", "neither or both")
    return dict(model)


def instantiate(
    description: Mapping[str, Any],
    candidates: Sequence[Candidate],
    n_classes: int,
    trusted: Collection[str] = (),
    grid: Array | None = None,
) -> tuple[Model, list[dict[str, Any]]]:
    """The model and the candidates that a plan or a brief describes.

    Parameters
    ----------
    description : mapping
        As `model_description` gives it.
    candidates : sequence of mapping
        They are checked: a brief's come from elsewhere. Estimators among their values are made
        again.
    n_classes : int
        Of the outcome; 0 for numbers.
    trusted : collection of str
        Classes outside scikit-learn that may be built.
    grid : array of shape (features,), optional
        The agreed grid, for trees.
    """
    name = description.get("name")
    if not isinstance(name, str):
        raise must("model", "described by its name", type(name).__name__)
    if name in _MAIN:
        if n_classes:
            raise ParameterError(
                f"{name!r} predicts numbers, but the outcome is declared as classes. "
                "Use a scikit-learn classifier, or code the outcome as numbers."
            )
        options = {key: value for key, value in description.items() if key in _OPTIONS[1:]}
        return LinearRegression(**options), [checked_candidate(name, c) for c in candidates]
    if name != "sklearn":
        raise one_of("model", sorted(_MAIN), name[:60], " or a scikit-learn estimator")
    from fedcsa.models.estimators import SklearnModel

    estimator = build(description.get("estimator"), trusted)
    if not all(hasattr(estimator, method) for method in ("get_params", "fit", "predict")):
        raise ModelError(
            f"{type(estimator).__name__} must be able to predict to be a model. "
            "Choose a regressor or a classifier."
        )
    model = SklearnModel(estimator, n_classes, grid, inputs_of(description))
    checked = [checked_candidate(name, candidate) for candidate in candidates]
    return model, [build_parameters(candidate, trusted) for candidate in checked]


def expand_candidates(model_name: str, candidates: Any) -> tuple[dict[str, Any], ...]:
    """All candidates as mappings of plain values.

    Parameters
    ----------
    model_name : str
        As in the model's description.
    candidates : None, sequence of numbers, mapping of lists, or sequence of mappings
        Numbers stand for the model's main parameter; a mapping stands for all combinations.

    Examples
    --------
    >>> expand_candidates("ridge", [0.0, 0.5])
    ({'penalty': 0.0}, {'penalty': 0.5})
    >>> expand_candidates("sklearn", {"max_depth": [2, 4], "ratio_power": [0.0]})
    ({'max_depth': 2, 'ratio_power': 0.0}, {'max_depth': 4, 'ratio_power': 0.0})
    """
    if candidates is None:
        candidates = _DEFAULT.get(model_name, ({},))
    if isinstance(candidates, Mapping):
        names = sorted(candidates, key=str)
        lists = [
            _as_list(f"candidates[{name!r}]", "a list of values", candidates[name])
            for name in names
        ]
        candidates = [dict(zip(names, row, strict=True)) for row in itertools.product(*lists)]
    rule = "a list of numbers, a list of mappings, or a mapping of lists"
    listed, found = _as_list("candidates", rule, candidates), []
    if not listed:
        raise must("candidates", "at least one candidate", 0)
    for candidate in listed:
        if not isinstance(candidate, Mapping):
            if model_name not in _MAIN or isinstance(candidate, bool):
                rule = "mappings of parameter names to values"
                raise must("candidates", rule, type(candidate).__name__)
            candidate = {_MAIN[model_name]: candidate}
        plain = {str(key): describe(value) for key, value in candidate.items()}
        found.append(checked_candidate(model_name, plain))
    return tuple(found)


def _as_list(name: str, rule: str, values: Any) -> list[Any]:
    """The values as a list, or the complaint that they are none.

    Parameters
    ----------
    name : str
        Of the parameter.
    rule : str
        What it must be.
    values : object
    """
    many = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
    if not many or getattr(values, "ndim", 1) == 0:
        raise must(name, rule, type(values).__name__)
    return list(values)


def checked_candidate(model_name: str, candidate: Mapping[str, Any]) -> dict[str, Any]:
    """A candidate of plain values, or a `ParameterError` for a name or value that none has.

    Parameters
    ----------
    model_name : str
        As in the model's description.
    candidate : mapping
        Whose values `describe` gave; they are not described a second time.
    """
    described = dict(candidate)
    if model_name in _MAIN:
        for key in described:
            if key not in (PENALTY, RATIO_POWER):
                raise ParameterError(unknown("candidate parameter", key, (PENALTY, RATIO_POWER)))
    for key, upper in ((PENALTY, math.inf), (RATIO_POWER, 1.0)):
        if key in described and (model_name in _MAIN or key == RATIO_POWER):
            value = described[key]
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (number and math.isfinite(value) and 0 <= value <= upper):
                bound = "at least 0" if math.isinf(upper) else "between 0 and 1"
                raise must(key, f"a number {bound}", value if number else type(value).__name__)
            described[key] = float(value)
    return described


def check_names(estimator: Any, candidates: Sequence[Mapping[str, Any]]) -> None:
    """Raise a `ParameterError`, one line per name, unless `estimator` has what candidates set.

    Parameters
    ----------
    estimator : scikit-learn estimator
    candidates : sequence of mappings
    """
    known = [*estimator.get_params(deep=True), RATIO_POWER]
    names = {key for candidate in candidates for key in candidate}
    replaced = tuple(f"{name}__" for name in names)  # parts of a part that a candidate brings
    strange = [n for n in sorted(names - set(known)) if not n.startswith(replaced)]
    if strange:
        raise ParameterError("\n".join(unknown("candidate parameter", n, known) for n in strange))


def default_candidates(
    description: Mapping[str, Any], method: str, trusted: Collection[str] = ()
) -> tuple[Candidate, ...]:
    """The model's own grid; under the default method also with training weights r^½ and r.

    Training weights are left out for a model that takes no sample weights.

    Parameters
    ----------
    description : mapping
        As `model_description` gives it.
    method : str
        Of the study.
    trusted : collection of str
        Classes outside scikit-learn that the model may use.

    Examples
    --------
    >>> len(default_candidates({"name": "ridge"}, "validated"))
    39
    >>> default_candidates({"name": "ridge"}, "naive")[0]
    {'penalty': 0.0}
    """
    name = description.get("name")
    own = _DEFAULT.get(str(name), ({},))
    weighted = name == RIDGE or (name == "sklearn" and takes_weights(description, trusted))
    if method != "validated" or not weighted:
        return tuple(map(dict, own))
    return tuple({**candidate, RATIO_POWER: power} for power in POWERS for candidate in own)


def takes_weights(description: Mapping[str, Any], trusted: Collection[str] = ()) -> bool:
    """Whether the model takes sample weights; False of a class that is not trusted.

    Parameters
    ----------
    description : mapping
        As `model_description` gives it.
    trusted : collection of str
    """
    if description.get("name") != "sklearn":
        return True
    from fedcsa.models.estimators import weight_keyword

    try:
        weight_keyword(build(description.get("estimator"), trusted))
    except (ModelError, TypeError):  # what is wrong with it is said when it is built for use
        return False
    return True


def title_of_model(description: Mapping[str, Any]) -> str:
    """What people call a model: its title, or its class; a pipeline by its last step, too.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> title_of_model(model_description(Ridge())), title_of_model({"name": "ridge"})
    ('Ridge', 'ridge')
    >>> title_of_model(model_description(make_pipeline(Ridge())))
    'Pipeline with Ridge'
    """
    estimator = description.get("estimator")
    if isinstance(estimator, Mapping):
        return title_of_model(estimator)
    name = next(str(description[key]) for key in ("title", "class", "name") if key in description)
    own = name.rpartition(".")[2] if name == description.get("class") else name
    steps = description.get("parameters", {}).get("steps")
    last = steps[-1]["tuple"][1] if steps else None
    return f"{own} with {title_of_model(last)}" if isinstance(last, Mapping) else own

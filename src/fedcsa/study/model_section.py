"""The part of a study file that describes the model and its candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedcsa.errors import StudyError, gathered, raise_all, unknown
from fedcsa.models.given import GIVEN
from fedcsa.models.registry import (
    RIDGE,
    WEIGHTED,
    model_description,
)
from fedcsa.study.given_section import check_given_section
from fedcsa.study.toml import Section

PIPELINE = "pipeline"
MAX_STEPS = 10_000


def describe_model(model: Mapping[str, Any]) -> dict[str, Any]:
    """The description that every site builds the model from.

    Parameters
    ----------
    model : mapping
        The section ``[model]``: a name of ours with its options, the full name of a class with
        its ``parameters``, or ``"pipeline"`` with its ``steps``.

    Examples
    --------
    >>> describe_model({"name": "sklearn.linear_model.Lasso", "parameters": {"alpha": 0.5}})
    {'name': 'sklearn', 'estimator': {'class': 'sklearn.linear_model.Lasso',
                                      'parameters': {'alpha': 0.5}}}
    """
    problems: list[str] = []
    section = Section(model, "[model]", problems)
    name = section.take("name", "str")
    if name == GIVEN:
        check_given_section(model)
        return dict(model)
    if name == PIPELINE:
        steps = section.take("steps", "list")
        section.close()
        estimator = _pipeline(steps or [], problems)
    elif isinstance(name, str) and "." in name:
        parameters = section.take("parameters", "Mapping[str, Any]", {})
        section.close()
        estimator = _estimator(name, parameters)
    else:
        if name is not None and name not in (RIDGE, WEIGHTED):
            known = (RIDGE, WEIGHTED, PIPELINE, GIVEN)
            full_name = "Otherwise write the full name of a scikit-learn class."
            section.say(f"{unknown('model', name, known)} {full_name}")
        section.take("intercept", "bool", True)
        if not problems:
            with gathered(problems, "[model] "):
                return model_description(model)
    raise_all(problems, StudyError)
    return {"name": "sklearn", "estimator": estimator}


def spread_ranges(candidates: Any) -> Any:
    """`candidates` with lists in place of ranges, or a `StudyError`.

    Parameters
    ----------
    candidates : None, mapping or sequence of mappings
        The section ``[candidates]``, whose values are lists or ranges, or ``[[candidates]]``.

    Examples
    --------
    >>> spread_ranges({"penalty": {"from": 0.01, "to": 1.0, "steps": 3, "scale": "log"}})
    {'penalty': [0.01, 0.1, 1.0]}
    """
    if not isinstance(candidates, Mapping):
        return candidates
    problems: list[str] = []
    section = Section(candidates, "[candidates]", problems)
    lists = {
        key: spread(value, f"[candidates] {key!r}", problems)
        if isinstance(value, Mapping)
        else section.take(key, "list")
        for key, value in candidates.items()
    }
    raise_all(problems, StudyError)
    return lists


def spread(range_: Mapping[str, Any], where: str, problems: list[str]) -> list[float] | list[int]:
    """The values of a range: whole numbers if its ends are and all lie on whole numbers.

    >>> spread({"from": 100, "to": 300, "steps": 3}, "n_estimators", [])
    [100, 200, 300]
    """
    before = len(problems)
    section = Section(range_, where, problems)
    start, stop = section.take("from", "float"), section.take("to", "float")
    steps, scale = section.take("steps", "int"), section.take("scale", "str", "linear")
    section.close()
    if len(problems) == before:
        if not 2 <= steps <= MAX_STEPS:
            section.say(f"'steps' must be from 2 to {MAX_STEPS}.")
        if scale not in ("linear", "log"):
            section.say('\'scale\' must be "linear" or "log".')
        if not np.isfinite([start, stop]).all() or (scale == "log" and min(start, stop) <= 0):
            section.say("'from' and 'to' must be finite, and above zero on a log scale.")
    if len(problems) > before:
        return []
    values = (np.geomspace if scale == "log" else np.linspace)(start, stop, steps)
    whole = isinstance(start, int) and isinstance(stop, int) and (values == values.round()).all()
    listed: list[float] = values.tolist()
    return [int(value) for value in listed] if whole else listed


def _pipeline(steps: Sequence[Any], problems: list[str]) -> dict[str, Any]:
    described = []
    for position, step in enumerate(steps, start=1):
        where = f"[[model.steps]] number {position}"
        section = Section(step if isinstance(step, dict) else {}, where, problems)
        name, cls = section.take("name", "str"), section.take("class", "str")
        parameters = section.take("parameters", "Mapping[str, Any]", {})
        section.close()
        described.append({"tuple": [name, _estimator(cls, parameters)]})
    if not steps:
        problems.append("[model] 'steps' must list at least one step.")
    return {"class": "sklearn.pipeline.Pipeline", "parameters": {"steps": described}}


def _estimator(name: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"class": name, "parameters": {key: _described(v) for key, v in parameters.items()}}


def _described(value: Any) -> Any:
    """A value of a parameter; a table with a class in it is an estimator."""
    if isinstance(value, Mapping):
        if "class" in value and set(value) <= {"class", "parameters"}:
            return _estimator(value["class"], value.get("parameters", {}))
        return {"dict": {key: _described(item) for key, item in value.items()}}
    return [_described(item) for item in value] if isinstance(value, list) else value

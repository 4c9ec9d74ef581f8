"""The part of a study file that describes the model and its candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedcsa.errors import StudyError, gathered, raise_all, unknown
from fedcsa.models.description import GIVEN, RIDGE, WEIGHTED
from fedcsa.models.registry import model_description
from fedcsa.models.space import described_space, is_space, spread_points
from fedcsa.study.given_section import check_given_section
from fedcsa.study.toml import Section

PIPELINE = "pipeline"


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


def check_candidates_section(candidates: Any) -> None:
    """Raise a `StudyError` unless every parameter has a list, a range or a distribution.

    Parameters
    ----------
    candidates : mapping or sequence of mappings
        The section ``[candidates]``, or ``[[candidates]]``: a list of candidates, or of spaces.
    """
    problems: list[str] = []
    if is_space(candidates):
        with gathered(problems, "[candidates] "):
            described_space(candidates)
    elif isinstance(candidates, Mapping):
        section = Section(candidates, "[candidates]", problems)
        for key, value in candidates.items():
            if isinstance(value, Mapping):
                with gathered(problems, "[candidates] "):
                    spread_points({key: value})
            else:
                section.take(key, "list")
    raise_all(problems, StudyError)


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

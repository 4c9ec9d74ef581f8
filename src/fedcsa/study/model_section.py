"""The parts of a study file on the model, fitted or given, and on its candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcsa.data.coding import Columns
from fedcsa.errors import ModelError, StudyError, gathered, unknown
from fedcsa.models.description import GIVEN, RIDGE, WEIGHTED, given_description
from fedcsa.models.given import for_columns, model_digest, read_file_model
from fedcsa.models.portable import PortableModel
from fedcsa.models.registry import model_description
from fedcsa.models.space import described_space, is_space, spread_points
from fedcsa.study.formula_file import formula_of, parse_formula
from fedcsa.study.toml import Section, format_toml, parse_toml, read_text

if TYPE_CHECKING:
    from fedcsa.study.study import Study

PIPELINE = "pipeline"
#: The ways to give a model, of which a study names one.
WAYS = ("formula", "file", "column")


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
    section = Section(model, "[model]")
    name = section.take("name", "str")
    if name == GIVEN:
        check_given_section(model)
        return dict(model)
    if name == PIPELINE:
        steps = section.take("steps", "list")
        section.close()
        estimator = _pipeline(steps or [], section)
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
        if not section.problems:
            with gathered(section.problems, "[model] "):
                return model_description(model)
    section.end()
    return {"name": "sklearn", "estimator": estimator}


def check_candidates_section(candidates: Any) -> None:
    """Raise a `StudyError` unless every parameter has a list, a range or a distribution.

    Parameters
    ----------
    candidates : mapping or sequence of mappings
        The section ``[candidates]``, or ``[[candidates]]``: a list of candidates, or of spaces.
    """
    section = Section(candidates, "[candidates]")
    if is_space(candidates):
        with gathered(section.problems, "[candidates] "):
            described_space(candidates)
    elif isinstance(candidates, Mapping):
        for key, value in candidates.items():
            if isinstance(value, Mapping):
                with gathered(section.problems, "[candidates] "):
                    spread_points({key: value})
            else:
                section.take(key, "list")
    section.end()


def _pipeline(steps: Sequence[Any], model: Section) -> dict[str, Any]:
    described = []
    for position, step in enumerate(steps, start=1):
        where = f"[[model.steps]] number {position}"
        section = Section(step if isinstance(step, dict) else {}, where, model.problems)
        name, cls = section.take("name", "str"), section.take("class", "str")
        parameters = section.take("parameters", "Mapping[str, Any]", {})
        section.close()
        described.append({"tuple": [name, _estimator(cls, parameters)]})
    if not steps:
        model.say("'steps' must list at least one step.")
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


# A given model: a formula, a file, or a column -----------------------------------------------


def is_given(model: Mapping[str, Any]) -> bool:
    """Whether the section names a given model."""
    return model.get("name") == GIVEN


def check_given_section(model: Mapping[str, Any]) -> None:
    """Raise a `StudyError`, a line a problem, unless the section gives a model in one way."""
    section = Section(model, "[model]")
    section.take("name", "str")
    section.take("title", "str", "")
    written_out = isinstance(model.get("formula"), dict)
    if written_out:
        with gathered(section.problems):
            formula_of(model["formula"], "[model] formula:")
    for way in ("file", "column", "sha256"):
        section.take(way, "str", "")
    section.take("formula", "Mapping[str, Any]" if written_out else "str", "")
    section.close()
    given = sum(way in model for way in WAYS)
    if given > 1 or not (given or "sha256" in model):
        section.say(
            "A given model must be one of 'formula' (a path, or a table of its own), 'file' (a "
            "model that fedcsa convert wrote) and 'column' (predictions that every site has)."
        )
    section.end()


def with_files(model: Mapping[str, Any], folder: Path, coding: Columns) -> dict[str, Any]:
    """The section with the formula in place of its path, and the digest of a file.

    So it says what is judged where the files are not.

    Parameters
    ----------
    model : mapping
    folder : Path
        What paths start from.
    coding : Columns
    """
    found = dict(model)
    if isinstance(model.get("formula"), str):
        path = folder / model["formula"]
        text = read_text(path, "formula", "Check the path.")
        formula = parse_formula(text, path.name)
        try:
            formula.model(coding.columns, coding.n_classes)
        except ModelError as error:
            raise StudyError(f"{path.name}: {error}") from None
        found["formula"] = parse_toml(text, path.name)
    elif "file" in model and "sha256" not in model:
        told = model_of_section(model, folder, coding)
        assert told is not None  # noqa: S101 - there is a file
        found["sha256"] = model_digest(told)
    return found


def model_of_section(
    model: Mapping[str, Any], folder: Path, coding: Columns
) -> PortableModel | None:
    """The given model itself; None for a column, and where only its digest is known.

    Parameters
    ----------
    model, folder, coding
        As for `with_files`.
    """
    if "formula" in model:
        section = with_files(model, folder, coding)["formula"]
        return formula_of(section, "[model] formula:").model(coding.columns, coding.n_classes)
    if "file" not in model:
        return None
    told = read_file_model(folder / model["file"])
    if told.n_classes != coding.n_classes:
        wanted = f"{coding.n_classes} classes" if coding.n_classes else "a number"
        raise ModelError(
            f"The given model does not predict the study's outcome, {wanted}. Check "
            "[outcome], and how the model was converted."
        )
    return for_columns(told.model, told.columns, coding.columns)


def describe_given(model: Mapping[str, Any], folder: Path, coding: Columns) -> dict[str, str]:
    """What the plan says of the given model.

    Parameters
    ----------
    model, folder, coding
        As for `with_files`.
    """
    if "column" in model:
        return given_description(model.get("title", ""), column=model["column"])
    section = with_files(model, folder, coding)
    title = model.get("title") or section.get("formula", {}).get("title", "")
    if "formula" in section:
        found = model_of_section(section, folder, coding)
        assert found is not None  # noqa: S101 - a formula is a model
        return given_description(title, sha256=model_digest(found))
    return given_description(title, sha256=section["sha256"])


def with_model(study: Study, path: Path) -> Study:
    """The study with the given model of a file in place of its own.

    Parameters
    ----------
    study : Study
    path : Path
        Of a formula (.toml) or of a converted model; taken as it is.
    """
    way = "formula" if path.suffix.lower() == ".toml" else "file"
    section = {"name": GIVEN, way: str(path.absolute())}
    changed = replace(study, model=section, candidates=None, target_predictions="")
    return replace(changed, model=with_files(section, changed.folder, changed.coding))


def agreed_text(path: str | Path) -> str:
    """The text of a study file that sites agree on, with the formula or the digest of its model."""
    from fedcsa.study.study import Study

    path = Path(path)
    text = read_text(path, "study file", "Check the path.")
    document = parse_toml(text, path.name)
    if not (isinstance(document.get("model"), dict) and is_given(document["model"])):
        return text
    document["model"] = Study.parse(text, folder=path.parent, origin=path.name).model
    return format_toml(document, nested=["sources"])

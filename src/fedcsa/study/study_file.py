"""The whole of a study file as the values of a study, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fedcsa.errors import StudyError
from fedcsa.study.model_section import describe_model, spread_ranges
from fedcsa.study.sections import (
    read_features,
    read_outcome,
    read_policy,
    write_features,
    write_outcome,
)
from fedcsa.study.source_section import read_sources, read_target, write_sources
from fedcsa.study.toml import Section, format_toml, parse_toml, raise_all

_CANDIDATES = "Mapping[str, Any] | list[Mapping[str, Any]]"
_SECTIONS: Mapping[str, Callable[[Mapping[str, Any], str, list[str]], Any]] = {
    "outcome": read_outcome,
    "features": read_features,
    "target": read_target,
    "sources": read_sources,
}
_CHECKS: Mapping[str, Callable[[Any], object]] = {
    "model": describe_model,
    "candidates": spread_ranges,
    "policy_rules": read_policy,
}


def read_study(text: str, origin: str, options: Mapping[str, str]) -> dict[str, Any]:
    """The values of a study by the names of its fields.

    Parameters
    ----------
    text : str
        In TOML.
    origin : str
        Name of the file, for the sentences.
    options : mapping of str to str
        Name and annotation of every option of a plan.

    Raises
    ------
    StudyError
        With one line for every unknown key and every value of the wrong type.
    """
    problems: list[str] = []
    top = Section(parse_toml(text, origin), f"{origin}:", problems)
    table = partial(top.take, rule="Mapping[str, Any]")
    values: dict[str, Any] = {
        "name": top.take("name", "str"),
        "missing_values": top.take("missing_values", "tuple[str, ...]", []),
        "options": _take_options(top, options),
        "model": table("model"),
        "candidates": top.take("candidates", _CANDIDATES, None),
        "policy_rules": table("policy", default={}),
    }
    for key, read in _SECTIONS.items():
        given = table(key)
        if given is not None:
            values[key] = read(given, f"{origin}: [{key}]", problems)
    top.close()
    for key, check in _CHECKS.items():
        if values[key] is not None:
            try:
                check(values[key])
            except StudyError as error:
                top.gather(error)
    raise_all(problems)
    target = values.pop("target")
    return {**values, "target": target["table"], "table1": target["table1"]}


def write_study(values: Mapping[str, Any]) -> str:
    """The text that `read_study` reads as `values`."""
    document: dict[str, Any] = {"name": values["name"], **values["options"]}
    if values["missing_values"]:
        document["missing_values"] = list(values["missing_values"])
    document["outcome"] = write_outcome(values["outcome"])
    document["features"] = write_features(values["features"])
    document["model"] = values["model"]
    if values["candidates"] is not None:
        document["candidates"] = values["candidates"]
    if values["policy_rules"]:
        document["policy"] = values["policy_rules"]
    rows, table1 = values["target"], values["table1"]
    document["target"] = {"table1": table1} if table1 else {"table": rows}
    document["sources"] = write_sources(values["sources"])
    return format_toml(document, nested=["sources"])


def check_options(given: Mapping[str, Any], options: Mapping[str, str]) -> None:
    """Raise a `StudyError` unless every option that is given exists and has its type."""
    problems: list[str] = []
    section = Section(given, "The options of a study:", problems)
    _take_options(section, options)
    section.close()
    raise_all(problems)


def _take_options(section: Section, options: Mapping[str, str]) -> dict[str, Any]:
    taken = {
        name: section.take(name, annotation.removesuffix(" | None"), None)
        for name, annotation in options.items()
    }
    return {name: value for name, value in taken.items() if value is not None}

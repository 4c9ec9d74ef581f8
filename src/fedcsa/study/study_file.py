"""The whole of a study file as the values of a study, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from fedcsa.data.coding import Columns
from fedcsa.data.columns import Outcome, said_of
from fedcsa.data.databases import place_problems
from fedcsa.errors import ParameterError, StudyError, gathered, one_of, raise_all
from fedcsa.messages.policy import Policy
from fedcsa.plan import OPTIONS
from fedcsa.study.model_section import check_candidates_section, describe_model
from fedcsa.study.toml import Section, format_toml, kind_of, parse_toml

#: The path of a table, or what is said of it: a table and its sheet, or a database and a query.
SourceTable = str | Mapping[str, str]
#: What tells where rows are.
_PLACE = ("table", "sheet", "database", "query")
_TABLE = "Mapping[str, Any]"


def read_study(text: str, origin: str) -> dict[str, Any]:
    """The values of a study by the names of its fields.

    Parameters
    ----------
    text : str
        In TOML.
    origin : str
        Name of the file, for the sentences.

    Raises
    ------
    StudyError
        With one line for every unknown key and every value of the wrong type. The values of
        options are judged by the plan.
    """
    document = parse_toml(text, origin)
    options = {name: document.pop(name) for name in OPTIONS if name in document}
    top = Section(document, f"{origin}:", known=OPTIONS)
    values: dict[str, Any] = {
        "name": top.take("name", "str"),
        "missing_values": top.take("missing_values", "tuple[str, ...]", []),
        "options": options,
        "model": top.take("model", _TABLE),
        "sources": top.take("sources", _TABLE),
        "candidates": top.take("candidates", f"{_TABLE} | list[{_TABLE}]", None),
        "policy_rules": top.take("policy", _TABLE, {}),
    }
    read = {key: top.take(key, _TABLE) for key in _READ}
    top.close()
    for key, check in _CHECKED.items():
        if values[key] is not None:
            with gathered(top.problems, f"{origin}: "):
                check(values[key])
    for key, section in read.items():
        if section is not None:
            with gathered(top.problems, f"{origin}: [{key}] "):
                values |= _READ[key](section)
    if top.problems:  # then the plan will not get to judge them
        for name, value in options.items():
            problem = OPTIONS[name].problem(name, value)
            if problem:
                top.say(str(problem))
    top.end()
    return values


def write_study(values: Mapping[str, Any]) -> str:
    """The text that `read_study` reads as `values`."""
    document: dict[str, Any] = {"name": values["name"], **values["options"]}
    if values["missing_values"]:
        document["missing_values"] = list(values["missing_values"])
    document["outcome"] = said_of(values["outcome"])
    document["features"] = Columns(values["features"]).described
    document["model"] = values["model"]
    if values["candidates"] is not None:
        document["candidates"] = values["candidates"]
    if values["policy_rules"]:
        document["policy"] = values["policy_rules"]
    table1 = values["table1"]
    document["target"] = {"table1": table1} if table1 else _written_table(values["target"])
    if values["target_predictions"]:
        document["target"]["predictions"] = values["target_predictions"]
    document["sources"] = {n: _written_table(table) for n, table in values["sources"].items()}
    return format_toml(document, nested=["sources"])


# Columns --------------------------------------------------------------------------------------


def _read_features(section: Mapping[str, Any]) -> dict[str, Any]:
    return {"features": Columns(section).features}


def _read_outcome(values: Mapping[str, Any]) -> dict[str, Any]:
    section = Section(values)
    name, levels = section.take("name", "str"), section.take("levels", "list", None)
    section.close()
    if levels == []:
        section.say("'levels' must be two or more, or left out for a number.")
    section.end()
    return {"outcome": Outcome(name, tuple(levels or ()))}


# The model, the sites and their rules ---------------------------------------------------------


def _read_target(values: Mapping[str, Any]) -> dict[str, Any]:
    """Where the target's rows are, or the Table 1 that stands for them; one of them is empty."""
    section = Section(values)
    table1 = section.take("table1", "str", "")
    rows: SourceTable = ""
    if {"table", "database", "query"} & set(values):
        rows = _take_table(section, values)
    else:
        for key in _PLACE:
            section.take(key, "str", "")
    if not section.problems and bool(rows) == bool(table1):
        section.say(
            "must have 'table', its rows (or 'database' and 'query'), or 'table1', a Table 1 "
            "instead, and not both."
        )
    predictions = section.take("predictions", "str", "")
    if predictions and table1:
        section.say("must leave out 'predictions' beside 'table1', which has no rows to predict.")
    section.close()
    section.end()
    return {"target": rows, "table1": table1, "target_predictions": predictions}


def check_sources(sources: Mapping[str, Any]) -> None:
    """Raise a `StudyError` unless every source is the path of a table or names a database."""
    problems: list[str] = []
    for name, table in sources.items():
        where = f"[sources] {name!r}"
        if isinstance(table, Mapping):
            section = Section(table, where, problems)
            section.take("predictions", "str", "")
            _take_table(section, table)
            section.close()
        elif not isinstance(table, str):
            problems.append(f"{where} must be a path or a table; it is {kind_of(table)}.")
    raise_all(problems, StudyError)


def _take_table(section: Section, values: Mapping[str, Any]) -> SourceTable:
    """Where rows are: the path of a table, or it and its sheet, or a database and a query."""
    if not {"database", "query"} & set(values) or "table" in values:
        section.take("table", "str")
        section.take("sheet", "str", "")
    else:
        query, database = section.take("query", "str"), section.take("database", "str")
        for problem in place_problems(database, query):
            section.say(problem)
    return plain_table({key: values[key] for key in _PLACE if key in values})


def plain_table(table: SourceTable) -> SourceTable:
    """The path alone, where nothing else is said."""
    if isinstance(table, Mapping) and set(table) == {"table"}:
        return table["table"]
    return table


def _written_table(table: SourceTable) -> dict[str, str]:
    return {"table": table} if isinstance(table, str) else dict(table)


def build_policy(rules: Mapping[str, Any]) -> Policy:
    """The policy of every site of a simulation.

    Parameters
    ----------
    rules : mapping
        The section ``[policy]``: ``preset``, ``"open"`` unless told, and fields of `Policy`
        to change. Where a field may be None, the text ``"none"`` says so.
    """
    section = Section(rules, "[policy]")
    preset = section.take("preset", "str", "open")
    changes = section.take_fields(Policy)
    section.close()
    if preset not in ("open", "site"):
        section.say(str(one_of("preset", ("open", "site"), preset)))
    section.end()
    try:
        return dataclasses.replace(Policy() if preset == "site" else Policy.open(), **changes)
    except ParameterError as error:
        raise StudyError(f"[policy] {error}") from None


#: Sections that become values of their own, and those that are kept as they are.
_READ = {"outcome": _read_outcome, "features": _read_features, "target": _read_target}
_CHECKED: Mapping[str, Callable[[Any], object]] = {
    "model": describe_model,
    "sources": check_sources,
    "candidates": check_candidates_section,
    "policy_rules": build_policy,
}

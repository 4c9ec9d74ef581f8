"""The part of a study file that says where each source's table is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedcsa.data.databases import AdbcDatabase, DuckDBFile, adbc_problem, query_problem
from fedcsa.study.toml import Section, kind_of, raise_all

#: The path of a table, or what is said of a database.
SourceTable = str | Mapping[str, str]


def read_sources(
    section: Mapping[str, Any], where: str, problems: list[str]
) -> dict[str, SourceTable]:
    """Where every source's table is."""
    here = Section(section, where, problems)
    found: dict[str, SourceTable] = {}
    for name in section:
        values = here.take(name, "Mapping[str, Any]")
        if values is not None:
            found[name] = _read_source(values, f"{where} {name!r}", problems)
    return found


def write_sources(sources: Mapping[str, SourceTable]) -> dict[str, dict[str, str]]:
    """What `read_sources` reads."""
    return {
        name: {"table": table} if isinstance(table, str) else dict(table)
        for name, table in sources.items()
    }


def check_sources(sources: Mapping[str, Any]) -> None:
    """Raise a `StudyError` unless every source is the path of a table or names a database."""
    problems: list[str] = []
    for name, table in sources.items():
        where = f"[sources] {name!r}"
        if isinstance(table, Mapping):
            _read_database(table, where, problems)
        elif not isinstance(table, str):
            problems.append(f"{where} must be a path or a table; it is {kind_of(table)}.")
    raise_all(problems)


def read_target(values: Mapping[str, Any], where: str, problems: list[str]) -> dict[str, str]:
    """Where the target's rows are, or the Table 1 that stands for them.

    Parameters
    ----------
    values : mapping
        The section ``[target]``.
    where : str
        Begins every sentence.
    problems : list of str
        Gains a sentence for everything that is wrong.

    Returns
    -------
    dict of str to str
        ``"table"`` and ``"table1"``, one of them empty.
    """
    section = Section(values, where, problems)
    before = len(problems)
    found = {key: section.take(key, "str", "") for key in ("table", "table1")}
    if len(problems) == before and bool(found["table"]) == bool(found["table1"]):
        section.say("must have 'table', its rows, or 'table1', a Table 1 instead, and not both.")
    section.close()
    return found


def database_of(table: Mapping[str, str], folder: Path) -> DuckDBFile | AdbcDatabase:
    """The database that a source names; its path is relative to `folder`."""
    if "database" in table:
        return DuckDBFile(folder / table["database"])
    return AdbcDatabase(table["adbc"], table["uri"], folder)


def _read_source(values: Mapping[str, Any], where: str, problems: list[str]) -> SourceTable:
    if "table" in values or not {"database", "adbc", "uri", "query"} & set(values):
        section = Section(values, where, problems)
        path: str = section.take("table", "str")
        for key in ("database", "adbc", "uri", "query"):
            if key in values:
                section.skip(key)
                section.say(f"{key!r} must not stand beside 'table': it is a file or a database.")
        section.close()
        return path
    _read_database(values, where, problems)
    return dict(values)


def _read_database(values: Mapping[str, Any], where: str, problems: list[str]) -> None:
    section = Section(values, where, problems)
    query = section.take("query", "str")
    adbc = uri = None
    if "adbc" in values or "uri" in values:
        adbc, uri = section.take("adbc", "str"), section.take("uri", "str")
    else:
        section.take("database", "str")
    section.close()
    wrong = [
        None if adbc is None or uri is None else adbc_problem(adbc, uri),
        None if query is None else query_problem(query),
    ]
    for problem in filter(None, wrong):
        section.say(problem)

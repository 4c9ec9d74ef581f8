"""The cohort query of docs/omop.md on a small made-up OMOP database, in PostgreSQL and DuckDB."""

import datetime as dt
import re
from pathlib import Path

import numpy as np
import pytest

from fedcsa.data.tables import open_table
from fedcsa.study import Study

duckdb = pytest.importorskip("duckdb")

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "omop.md").read_text(encoding="utf-8")
QUERY = re.search(r"```sql\n(.*?)```", PAGE, re.S)[1]
TABLES = {
    "person": "person_id INTEGER, gender_concept_id INTEGER, year_of_birth INTEGER",
    "visit_occurrence": "visit_occurrence_id INTEGER, person_id INTEGER, visit_concept_id INTEGER, "
    "visit_start_date DATE, visit_end_date DATE",
    "condition_occurrence": "condition_occurrence_id INTEGER, person_id INTEGER, "
    "condition_concept_id INTEGER, condition_start_date DATE",
    "measurement": "measurement_id INTEGER, person_id INTEGER, measurement_concept_id INTEGER, "
    "measurement_date DATE, value_as_number NUMERIC",
    "death": "person_id INTEGER, death_date DATE",
}
FAILURE, OTHER, STAY, WALK_IN, SBP, CREATININE, MAN, WOMAN = (
    316139, 201826, 9201, 9202, 3004249, 3016723, 8507, 8532,
)  # fmt: skip


def database(n=160):
    """Rows of every table: patients in and out of the cohort, measurements before and after."""
    rng = np.random.default_rng(2)
    found = {name: [] for name in TABLES}
    for person in range(1, n + 1):
        index = dt.date(2023, 1, 1) + dt.timedelta(days=int(rng.integers(0, 365)))
        found["person"].append((person, (MAN, WOMAN)[person % 2], 1930 + person % 50))
        kind = WALK_IN if person % 10 == 0 else STAY  # not in hospital: no row
        week = dt.timedelta(days=7)
        found["visit_occurrence"].append((person, person, kind, index, index + week))
        concept = OTHER if person % 7 == 0 else FAILURE  # another illness: no row
        later = index + dt.timedelta(days=400)  # a second diagnosis is not the first
        found["condition_occurrence"] += [
            (2 * person, person, concept, index),
            (2 * person + 1, person, concept, later),
        ]
        for number, (concept, days) in enumerate(
            [(SBP, -9), (SBP, -2), (SBP, 5), (CREATININE, -1)]
        ):
            if concept == CREATININE and person % 5 == 0:
                continue  # never measured
            value = round(float(rng.normal(130 if concept == SBP else 1.1, 0.2)), 2)
            date = index + dt.timedelta(days=days)
            found["measurement"].append((10 * person + number, person, concept, date, value))
        if person % 3 == 0:
            days = 30 if person % 2 else 200
            found["death"].append((person, index + dt.timedelta(days=days)))
    return found


def statements(rows):
    for name, columns in TABLES.items():
        yield f"CREATE TABLE {name} ({columns})"
        lines = ", ".join(
            "(" + ", ".join(f"'{v}'" if isinstance(v, dt.date) else str(v) for v in row) + ")"
            for row in rows[name]
        )
        yield f"INSERT INTO {name} VALUES {lines}"  # noqa: S608


@pytest.fixture(scope="module")
def places(tmp_path_factory, postgresql):
    import adbc_driver_postgresql.dbapi as driver

    path = tmp_path_factory.mktemp("omop") / "omop.duckdb"
    with duckdb.connect(str(path)) as connection:
        for statement in statements(database()):
            connection.execute(statement)
    with driver.connect(postgresql) as connection, connection.cursor() as cursor:
        for statement in statements(database()):
            cursor.execute(statement)
        connection.commit()
    return {"duckdb": str(path), "postgresql": postgresql}


def expected():
    """The cohort in plain loops: person, age, sex, last blood pressure and creatinine, outcome."""
    rows = database()
    stays = {
        person: start for _, person, kind, start, _ in rows["visit_occurrence"] if kind == STAY
    }
    first = {p: d for _, p, c, d in reversed(rows["condition_occurrence"]) if c == FAILURE}
    died = dict(rows["death"])
    for person, gender, born in rows["person"]:
        if person not in stays or person not in first:
            continue
        index = first[person]
        last = {
            concept: value
            for _, who, concept, date, value in sorted(rows["measurement"], key=lambda row: row[3])
            if who == person and date <= index
        }
        gone = person in died and (died[person] - index).days <= 90
        yield {
            "person_id": person,
            "age": index.year - born,
            "sex": "M" if gender == MAN else "F",
            "sbp": last.get(SBP),
            "creatinine": last.get(CREATININE),
            "died": "yes" if gone else "no",
        }


def number(value):
    return None if value is None else float(value)


@pytest.mark.parametrize("kind", ["duckdb", "postgresql"])
def test_the_query_gives_the_cohort_in_plain_loops(kind, places):
    found = open_table({"database": places[kind], "query": QUERY}).read().to_pylist()
    for row in found:
        for name in ("age", "sbp", "creatinine"):
            row[name] = number(row[name])
    assert found == [*expected()]
    assert len(found) > 100
    assert {row["died"] for row in found} == {"yes", "no"}


def test_both_databases_give_one_study(places):
    section = re.search(r"(\[features\].*?)\[sources.north\]", PAGE, re.S)[1]
    text = f'name = "omop"\n{section}[model]\nname = "sklearn.linear_model.LogisticRegression"\n'
    rows = []
    for where in places.values():
        entry = f'database = \'{where}\'\nquery = """{QUERY}"""\n'
        study = Study.parse(f"{text}[target]\n{entry}[sources.north]\n{entry}")
        X, y = study.read_source("north")
        rows.append((X.tobytes(), y.tolist()))
        assert study.coding.columns == (
            "age", "sex=M", "sbp", "sbp=missing", "creatinine", "creatinine=missing",
        )  # fmt: skip
    assert rows[0] == rows[1]

"""A first study file runs as it is, says why, and takes the right column for the outcome."""

import sqlite3
from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedcsa.data.columns import KINDS, Feature
from fedcsa.errors import StudyError
from fedcsa.study import Study
from fedcsa.study.new_study import draft_from_tables, why


def rows(seed, n=60, **more):
    rng = np.random.default_rng(seed)
    x = rng.normal(60.0, 9.0, n)
    table = {"age": x, "sex": rng.choice(["F", "M"], n), "cost": x + rng.normal(size=n)}
    return {**table, **{name: make(rng, n) for name, make in more.items()}}


@pytest.fixture
def write(tmp_path):
    def to(name, table):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(table), path)
        return path

    return to


def without(table, *names):
    return {name: column for name, column in table.items() if name not in names}


def drafted(tmp_path, *paths, target, outcome=None):
    draft = draft_from_tables(paths, target, outcome, tmp_path)
    return draft, Study.parse(draft.to_toml(), folder=tmp_path)


def test_a_number_gets_ridge_and_the_study_runs(tmp_path, write):
    sources = [write(f"{name}.parquet", rows(i)) for i, name in enumerate("abc")]
    target = write("sub/new.parquet", without(rows(9), "cost"))
    draft, study = drafted(tmp_path, *sources, target=target)
    assert (study.outcome.name, study.outcome.levels, study.model["name"]) == ("cost", (), "ridge")
    assert (study.name, study.target) == ("cost-at-new", "sub/new.parquet")
    assert draft.notes == ()
    assert study.problems() == []
    assert study.run().promise is not None


def test_what_is_commented_out_can_be_used(tmp_path, write):
    event = {"died": lambda rng, n: rng.choice(["no", "yes"], n)}
    source = write("a.parquet", rows(1, **event))
    target = write("new.parquet", rows(2))
    text = drafted(tmp_path, source, target=target)[0].to_toml()
    for line in ("thresholds", "[[subgroups]]", "feature =", "level ="):
        assert f"\n# {line}" in text
        text = text.replace(f"\n# {line}", f"\n{line}")
    plan = Study.parse(text, folder=tmp_path).plan()
    assert (plan.thresholds, len(plan.subgroups)) == ((0.1, 0.2), 1)


def test_an_empty_column_of_the_target_is_the_outcome(tmp_path, write):
    source = write("a.parquet", rows(1))
    for empty in (pa.nulls(60), [""] * 60, [None, " "] * 30):
        target = write("new.parquet", {**rows(2), "cost": empty})
        draft, study = drafted(tmp_path, source, target=target)
        assert study.outcome.name == "cost"
        assert draft.outcome_why == "every source has it, and the target does not"


def test_of_several_an_event_is_taken_and_the_others_are_said(tmp_path, write):
    events = {
        "died": lambda rng, n: rng.choice([0, 1], n),
        "days": lambda rng, n: rng.normal(9, 1, n),
        "empty": lambda _, n: pa.nulls(n),
    }
    source = write("a.parquet", rows(1, **events))
    target = write("new.parquet", {**without(rows(2), "cost"), "empty": pa.nulls(60)})
    draft, study = drafted(tmp_path, source, target=target)
    assert study.outcome.name == "died"
    assert "'died' was taken as the outcome; the target lacks cost, days too." in draft.notes[0]
    told = [line.removeprefix("# ") for line in draft.to_toml().splitlines()]
    assert f"note: {draft.notes[0]}" in " ".join(told)
    assert drafted(tmp_path, source, target=target, outcome="days")[1].outcome.name == "days"


def test_an_outcome_that_cannot_be_is_named(tmp_path, write):
    source, other = write("a.parquet", rows(1)), write("b.parquet", without(rows(2), "cost"))
    target = write("new.parquet", rows(3))
    with pytest.raises(StudyError, match="No column looks like the outcome"):
        drafted(tmp_path, source, target=target)
    with pytest.raises(StudyError, match=r"'cots'; it is not in .* 'a'\. Did you mean 'cost'"):
        drafted(tmp_path, source, target=target, outcome="cots")
    with pytest.raises(StudyError, match="Every source must have the outcome 'cost'"):
        drafted(tmp_path, source, other, target=target, outcome="cost")


def test_a_table_that_shares_no_column_is_named(tmp_path, write):
    source = write("a.parquet", {"age;sex;cost": ["61;F;3"]})
    target = write("new.parquet", without(rows(3), "cost"))
    with pytest.raises(StudyError, match="The table of 'a' must share columns with the target's"):
        drafted(tmp_path, source, target=target)


def test_outcomes_that_the_target_has_are_not_looked_at(tmp_path, write):
    source = write("a.parquet", rows(1))
    target = write("new.parquet", {**rows(2), "cost": ["what"] * 60})
    assert drafted(tmp_path, source, target=target, outcome="cost")[1].outcome.levels == ()


def test_sources_are_named_after_files_and_folders(tmp_path, write):
    paths = [
        write(name, rows(i)) for i, name in enumerate(["n/x.parquet", "s/x.parquet", "y.parquet"])
    ]
    target = write("t/target.parquet", without(rows(9), "cost"))
    _, study = drafted(tmp_path, *paths, target, target=target)
    assert [*study.sources] == ["n-x", "s-x", "y"]
    twin = write("k/target.parquet", rows(4))
    assert [*drafted(tmp_path, twin, target=target)[1].sources] == ["k-target"]
    twice = [write(name, rows(1)) for name in ("p/q/x.parquet", "r/q/x.parquet")]
    with pytest.raises(StudyError, match="both be the source 'q-x'"):
        drafted(tmp_path, *twice, target=target)


def test_what_is_not_agreed_is_said_and_left_out(tmp_path, write):
    first = write("a.parquet", rows(1))
    second = write("b.parquet", {**without(rows(2), "age"), "extra": np.arange(60.0)})
    target = write("new.parquet", without(rows(3), "cost"))
    draft, study = drafted(tmp_path, first, second, target=target, outcome="cost")
    assert [feature.name for feature in study.features] == ["sex"]
    assert any("'age'" in note for note in draft.notes)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("missing", ["error", "indicator", "model"])
def test_every_kind_says_why(kind, missing):
    more = {"levels": {"levels": ("a", "b"), "other": True}, "date": {"since": "2020-01-01"}}
    options = {} if kind in ("id", "group") else {"missing": missing}
    said = why(Feature("x", kind, **more.get(kind, {}), **options))
    assert ("may be missing" in said) == (options.get("missing", "error") != "error")
    assert ("'other'" in said) == (kind == "levels")


def test_a_source_without_the_outcome_is_named(tmp_path, write):
    first, second = write("a.parquet", rows(1)), write("b.parquet", without(rows(2), "cost"))
    target = write("new.parquet", without(rows(3), "cost"))
    with pytest.raises(StudyError, match=r"table of 'b' lacks 'cost', which every other source"):
        drafted(tmp_path, first, second, target=target)
    with pytest.raises(StudyError, match=r"'cost'; it is not in the table of 'b'\. Add it"):
        drafted(tmp_path, first, second, target=target, outcome="cost")


def test_columns_that_are_not_used_are_listed(tmp_path, write):
    source = write("a.parquet", {**rows(1), "left": [1.5] * 60})
    target = write("new.parquet", {**without(rows(2), "cost"), "nothing": pa.nulls(60)})
    draft, _ = drafted(tmp_path, source, target=target, outcome="cost")
    assert {"left", "nothing"} <= set(draft.unused)
    assert not {"cost", *(f.name for f in draft.columns.features)} & set(draft.unused)
    assert '\n# missing_values = ["unknown"]' in draft.to_toml()


def test_databases_are_asked_one_query_and_other_tables_none(tmp_path, write):
    query = "SELECT * FROM stays ORDER BY age"
    for name, table in {"a": rows(0), "new": without(rows(2), "cost")}.items():
        with closing(sqlite3.connect(tmp_path / f"{name}.sqlite")) as database:
            database.execute(f"CREATE TABLE stays ({', '.join(table)})")
            cells = zip(*(np.asarray(column).tolist() for column in table.values()), strict=True)
            marks = ", ".join("?" * len(table))
            database.executemany(f"INSERT INTO stays VALUES ({marks})", cells)  # noqa: S608
            database.commit()
    paths = [tmp_path / "a.sqlite", write("b.parquet", rows(1))]
    draft = draft_from_tables(paths, tmp_path / "new.sqlite", None, tmp_path, query=query)
    study = Study.parse(draft.to_toml(), folder=tmp_path)
    assert study.name == "cost-at-new"
    assert study.target == {"database": "new.sqlite", "query": query}
    assert dict(study.sources) == {
        "a": {"database": "a.sqlite", "query": query},
        "b": "b.parquet",
    }
    assert study.run().promise is not None
    with pytest.raises(StudyError, match="None of the tables takes a sheet"):
        draft_from_tables(paths, tmp_path / "new.sqlite", None, tmp_path, query=query, sheet="s")


def test_spellings_of_a_missing_cell_stand_in_the_file(tmp_path, write):
    def marked(table):
        return {**table, "age": ["?", *map(str, table["age"][1:])]}

    source = write("a.parquet", marked(rows(0)))
    target = write("new.parquet", marked(without(rows(1), "cost")))
    draft = draft_from_tables([source], target, None, tmp_path, missing_values=["?"])
    study = Study.parse(draft.to_toml(), folder=tmp_path)
    assert study.missing_values == ("?",)
    assert [f.missing for f in study.features if f.name == "age"] == ["indicator"]
    assert study.run().promise is not None

"""What is proposed for tables that nobody has described, and what is said of the rest."""

import datetime as dt
import math

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fedcsa.data.coding import Columns
from fedcsa.data.columns import Outcome
from fedcsa.data.frames import as_described_matrix
from fedcsa.data.glance import MOST_LEVELS, is_named_like_an_id
from fedcsa.errors import DataError, ParameterError

ROWS = 40
PATIENTS = [f"P{row // 2}" for row in range(ROWS)]


def table(seed, **changes):
    """A messy table of a hospital; a change replaces a column, None drops it."""
    rng = np.random.default_rng(seed)
    days = [dt.date(2021, 3, 1) + dt.timedelta(days=int(day)) for day in rng.integers(0, 700, ROWS)]
    born = [dt.date(1950, 3, 1) + dt.timedelta(days=int(day)) for day in rng.integers(0, 9e3, ROWS)]
    cells = {
        "visit_id": [f"V{seed}-{row}" for row in range(ROWS)],
        "patient": PATIENTS,
        "age": rng.normal(60, 10, ROWS).round(1),
        "sbp": [None if row % 9 == 0 else 100.0 + row for row in range(ROWS)],
        "sex": ["F", "M"] * (ROWS // 2),
        "smoker": [True, False] * (ROWS // 2),
        "dialysis": [0, 1, 0, 0] * (ROWS // 4),
        "pain": ["severe", "mild", "moderate", "mild"] * (ROWS // 4),
        "admitted": [str(day) for day in days],
        "born": born,
        "ward_id": [1, 2, 3, 4] * (ROWS // 4),
        "died": [0, 1] * (ROWS // 2),
    }
    cells |= changes
    return pa.table({name: column for name, column in cells.items() if column is not None})


def infer(north=None, south=None, new=None, outcome="died"):
    tables = {"north": table(1, **(north or {})), "south": table(2, **(south or {}))}
    tables["new"] = table(3, died=None, **(new or {}))
    return Columns.infer(tables, outcome)


PROPOSED = {
    "visit_id": "id",
    "patient": "group",
    "age": "number",
    "sbp": {"missing": "indicator", "fill": 120.0},
    "sex": ["F", "M"],
    "smoker": "flag",
    "dialysis": "flag",
    "pain": ["mild", "moderate", "severe"],
    "admitted": {"kind": "date", "since": "2021-01-01"},
    "born": {"kind": "date", "at": "2023-12-31"},
    "ward_id": ["1", "2", "3", "4"],
}


def test_a_messy_table_is_described():
    found = infer()
    assert found.described == PROPOSED
    assert found.outcome == Outcome("died", (0, 1))
    assert len(found.notes) == 3  # two dates and the fill
    for note in found.notes:
        assert f"# {note}" in repr(found)


def test_what_is_proposed_can_be_used():
    found = infer()
    for seed in (1, 2, 3):
        X, names = as_described_matrix(table(seed), "it", found, with_group=True)
        assert X.shape == (ROWS, len(names))
        assert np.isfinite(X).all()


def texts(column):
    return [None if cell is None else str(cell) for cell in column.to_pylist()]


FRAMES = {
    "pandas": lambda cells: cells.to_pandas(),
    "pandas of pyarrow": lambda cells: cells.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.from_arrow,
    "polars lazy": lambda cells: pl.from_arrow(cells).lazy(),
    "duckdb": lambda cells: duckdb.connect().from_arrow(cells),
    "texts": lambda cells: pa.table({name: texts(cells[name]) for name in cells.column_names}),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_every_frame_gives_the_same_proposal(make):
    found = Columns.infer({"north": make(table(1)), "south": make(table(2))}, "died")
    expected = Columns.infer({"north": table(1), "south": table(2)}, "died")
    assert (found, found.notes) == (expected, expected.notes)


def one_of_each(*items):
    return [items[row % len(items)] for row in range(ROWS)]


#: A change at one site; what the column becomes, None if it is left out; and what is said.
DIFFERENT = {
    "a level at one site": (
        {"pain": one_of_each("mild", "moderate", "severe", "unbearable")},
        "pain",
        {"levels": ["mild", "moderate", "severe"], "other": True},
        "not every table has 'unbearable'",
    ),
    "another case": ({"sex": one_of_each("f", "m")}, "sex", None, "the tables in case only"),
    "decimal commas": ({"age": [f"{row},5" for row in range(ROWS)]}, "age", None,
                       "cells that look like numbers with decimal commas at 'north'"),
    "few decimal commas": ({"age": one_of_each("1,5", "2", "7.5")}, "age", None,
                           "cells that look like numbers with decimal commas at 'north'"),
    "other days": ({"born": [f"{row % 28 + 1:02}.09.1944" for row in range(ROWS)]}, "born", None,
                   "days that are not written like 2020-01-31 at 'north'. It is left out. To use"),
    "infinite cells": ({"age": [*range(39), math.inf]}, "age", None, "infinite numbers at 'north'"),
    "infinite flags": ({"smoker": [0, 1, -math.inf, None] * 10}, "smoker", None,
                       "infinite numbers at 'north'. It is left out. To use it, correct them, or"),
    "other words": ({"sex": one_of_each("female", "male")}, "sex", None, "no level that all"),
    "words for numbers": ({"age": one_of_each("old", "young")}, "age", None,
                          "holds texts at 'north'; numbers at 'south', 'new'"),
    "numbers for words": ({"sex": one_of_each(1, 2)}, "sex", None, "numbers at 'north'; texts at"),
    "a flag with a two": ({"dialysis": one_of_each(0, 1, 2)}, "dialysis", "number",
                          "If they are codes, write"),
    "yes and no": ({"smoker": one_of_each("Yes", "no")}, "smoker", "flag", ""),
    "a third word": ({"smoker": one_of_each("yes", "no", "?")}, "smoker", None,
                     "texts at 'north'; flags"),
    "texts among numbers": ({"age": [*(f"{row}.5" for row in range(37)), *[">90"] * 3]}, "age",
                            None, "cells that are no numbers: 3 of 40 at 'north'"),
    "days for numbers": ({"age": [dt.date(2020, 1, 1)] * ROWS}, "age", None, "holds dates at"),
    "a zone": ({"born": pa.array([dt.datetime(1950, 1, 1)] * ROWS, pa.timestamp("us", "UTC"))},
               "born", None, "moments with a time zone at 'north'"),
    "not there": ({"age": None}, "age", None, "is not at 'north'"),
    "lists": ({"age": [[1]] * ROWS}, "age", None, "something else at 'north'"),
    "a new column": ({"bmi": [20.5, 30.5] * (ROWS // 2)}, "bmi", None, "is not at 'south', 'new'"),
    "empty there": ({"age": [None] * ROWS}, "age", {"missing": "indicator", "fill": 60.0}, "fill"),
    "whole texts": ({"age": [str(row) for row in range(ROWS)]}, "age", "number", ""),
    "a group with gaps": ({"patient": [None, *PATIENTS[1:]]}, "patient", None,
                          "has gaps or is not there at 'north'"),
    "two patients only": ({"patient": one_of_each("P1", "P2")}, "patient", None, "names patients"),
    "a group of single rows": ({"patient": [f"P{row}" for row in range(ROWS)]}, "patient", "group",
                               ""),
}  # fmt: skip


@pytest.mark.parametrize("case", DIFFERENT.values(), ids=DIFFERENT)
def test_what_differs_between_sites_is_agreed_or_said(case):
    change, name, expected, words = case
    found = infer(north=change)
    assert found.described.get(name) == expected
    notes = [note for note in found.notes if repr(name) in note]
    assert bool(notes) == (words not in ("", "fill"))
    assert words in " ".join(found.notes)
    others = {key: value for key, value in found.described.items() if key != name}
    assert others == {key: value for key, value in PROPOSED.items() if key != name}


#: Columns that all sites have alike: what they become, and what is said.
ALIKE = {
    "empty": ([None] * ROWS, None, "is empty"),
    "an index": (range(ROWS), None, "counts the rows"),
    "an index from one": (range(1, ROWS + 1), None, "counts the rows"),
    "an index backwards": (range(ROWS, 0, -1), "number", ""),
    "several types": (one_of_each(1, "a", 2.5), None, "holds something else"),
    "blanks around": (one_of_each("a ", " b", "a"), ["a", "b"], ""),
    "constant": ([7.5] * ROWS, None, "is the same in every row"),
    "one word": (["yes"] * ROWS, None, "is the same in every row"),
    "one day": ([dt.date(2020, 1, 1)] * ROWS, None, "is the same in every row"),
    "many words": ([f"w{row % 25}" for row in range(ROWS)], None, "more than 20 different texts"),
    "spoiled numbers": ([*map(str, range(30)), *["> 90"] * 10], None, "numbers: 10 of 40 at 'a'"),
    "two codes": (one_of_each(1, 2), ["1", "2"], ""),
    "four codes": (one_of_each(1, 2, 3, 4), "number", "codes, write ['1', '2', '3', '4']"),
    "counts": ([row % 12 for row in range(ROWS)], "number", ""),
    "a note": ([f"text {row}" for row in range(ROWS)], None, "looks like a second id"),
    "words that are ordered by nothing": (one_of_each("b", "c", "a"), ["a", "b", "c"], ""),
    "words with an order": (one_of_each("High", "Low", "Medium"), ["Low", "Medium", "High"], ""),
    "a category in order": (
        pd.Categorical(one_of_each("b", "c", "a"), ["c", "a", "b"], ordered=True),
        ["c", "a", "b"], "",
    ),
    "a category": (pd.Categorical(one_of_each("b", "a"), ["b", "a"]), ["a", "b"], ""),
    "gaps in words": (one_of_each("a", None, "b"),
                      {"levels": ["a", "b"], "missing": "indicator"}, ""),
    "gaps in flags": (one_of_each(True, None, False), {"kind": "flag", "missing": "indicator"}, ""),
    "true and false in words": (one_of_each("True", "false"), "flag", ""),
    "yes and no": (one_of_each("yes", "no"), "flag", ""),
    "spelled gaps": (one_of_each("1.5", "NA", "2.5"), {"missing": "indicator", "fill": 1.5}, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", ALIKE.values(), ids=ALIKE)
def test_every_column_becomes_what_it_is(case):
    cells, expected, words = case
    frames = {site: table(k).to_pandas().assign(extra=cells) for k, site in enumerate("ab")}
    found = Columns.infer(frames, "died")
    assert found.described.get("extra") == expected
    assert words in " ".join(note for note in found.notes if "'extra'" in note)


def test_a_column_without_a_name_is_left_out():
    found = Columns.infer({"a": pa.table({"": [0.5, 1.5], "x": [2.5, 3.5]})})
    assert found.described == {"x": "number"}
    assert found.notes == ("Column '' has no name. It is left out.",)


def test_at_one_site_an_order_is_another_order():
    orders = (["a", "b"], ["b", "a"])
    frames = {
        site: pd.DataFrame({"x": pd.Categorical(["a", "b"] * 9, order, ordered=True)})
        for site, order in zip("ns", orders, strict=True)
    }
    found = Columns.infer(frames)
    assert found.described == {"x": ["a", "b"]}
    assert "the tables order its levels differently" in found.notes[0]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (one_of_each(0, 1), Outcome("y", (0, 1))),
        (one_of_each("0", "1"), Outcome("y", (0, 1))),
        (one_of_each(True, False), Outcome("y", (False, True))),
        (one_of_each("true", "false"), Outcome("y", (False, True))),
        (one_of_each("yes", "no"), Outcome("y", ("no", "yes"))),
        (one_of_each("c", "a", "b"), Outcome("y", ("a", "b", "c"))),
        (one_of_each(0, 1, 2), Outcome("y")),
        (one_of_each(1.5, 2.5), Outcome("y")),
    ],
)
def test_outcomes_are_classes_or_numbers(cells, expected):
    found = Columns.infer({"a": table(1, y=cells), "b": table(2)}, "y")
    assert found.outcome == expected
    assert "y" not in found.described


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (("yes", "no"), ("true", "false"), (False, True)),
        (("yes", "no"), ("Yes", "No"), (False, True)),
        (("yes", "no"), ("no",), ("no", "yes")),
        (("yes", "no"), (1, 0), (0, 1)),
        (("true", "false"), (1, 0), (0, 1)),
        (("yes", "no"), ("yes", "no", "lost"), ("lost", "no", "yes")),
    ],
)
def test_spellings_of_an_outcome_that_differ_between_sites_are_read(one, other, expected):
    frames = {"a": table(1, y=one_of_each(*one)), "b": table(2, y=one_of_each(*other))}
    found = Columns.infer(frames, "y")
    assert found.outcome == Outcome("y", expected)
    for site, words in (("a", one), ("b", other)):
        _, y = found.encode(frames[site], site, with_outcome=True)
        events = [str(word).lower() in ("yes", "true", "1") for word in one_of_each(*words)]
        np.testing.assert_array_equal(y == len(expected) - 1, events)


def test_classes_that_no_other_site_has_are_said_to_be_perhaps_another_spelling():
    frames = {site: table(k, y=one_of_each("no", "yes")) for k, site in enumerate("abc")}
    assert "no class that another table has" not in " ".join(Columns.infer(frames, "y").notes)
    frames["d"] = table(4, y=one_of_each("N", "Y"))
    [note] = [n for n in Columns.infer(frames, "y").notes if "Outcome" in n]
    assert "has at 'd' no class that another table has" in note


def test_few_numbers_with_marks_among_them_come_with_a_hint_at_missing_values():
    marked = [str(k % 8) for k in range(len(one_of_each("a", "b")) - 1)] + ["?"]
    found = infer(*({"stage": marked},) * 3)
    [note] = [n for n in found.notes if "'stage'" in n and "no numbers" in n]
    assert "It becomes levels. If they stand for missing, name them (missing_values" in note


def test_marks_that_are_named_are_missing_cells():
    marked = [str(k % 8) for k in range(len(one_of_each("a", "b")) - 1)] + ["?"]
    coded = [float(k % 50) for k in range(len(marked) - 1)] + [-999.0]
    frames = {name: pd.DataFrame({"stage": marked, "days": coded}) for name in "abc"}
    found = Columns.infer(frames, missing_values=["?", "-999"])
    kinds = {f.name: (f.kind, f.missing) for f in found.features}
    assert kinds == {"stage": ("number", "indicator"), "days": ("number", "indicator")}
    assert found.missing_values == ("?", "-999")
    assert not any("no numbers" in note for note in found.notes)


def test_few_whole_numbers_as_outcomes_come_with_a_hint_at_classes():
    frames = {name: table(i, y=np.arange(ROWS) % 5) for i, name in enumerate("ab")}
    found = Columns.infer(frames, "y")
    assert found.outcome == Outcome("y")
    [note] = [n for n in found.notes if "Outcome" in n]
    assert note.endswith("If they are classes, write levels = [0, 1, 2, 3, 4].")
    many = {name: table(i, y=np.arange(ROWS)) for i, name in enumerate("ab")}
    assert not [n for n in Columns.infer(many, "y").notes if "Outcome" in n]


def test_third_words_of_a_column_of_yes_and_no_become_other():
    frames = {
        "a": table(1, x=one_of_each("yes", "no")),
        "b": table(2, x=one_of_each("yes", "no", "unknown")),
    }
    described = Columns.infer(frames, "died").described
    assert described["x"] == {"levels": ["no", "yes"], "other": True}


def test_an_outcome_of_two_forms_is_refused_by_its_forms():
    frames = {"a": table(1, y=one_of_each("yes", "lost")), "b": table(2, y=one_of_each(0.5, 1.5))}
    with pytest.raises(DataError, match=r"'y' holds texts at 'a'; numbers at 'b'\. Bring it into"):
        Columns.infer(frames, "y")


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (one_of_each("1,5", "2,5"), r"decimal commas at 'a'\. To use it, write them with points"),
        (one_of_each("1.2.2020", "2.2.2020"), r"like 2020-01-31 at 'a'\. To use it, write"),
        (one_of_each(0.0, math.inf), r"'y' has infinite numbers at 'a'\. To use it, correct them"),
    ],
)
def test_an_outcome_that_cannot_be_read_is_refused_by_name(cells, words):
    with pytest.raises(DataError, match=words):
        Columns.infer({"a": table(1, y=cells), "b": table(2, y=one_of_each(0, 1))}, "y")


def test_levels_that_differ_in_case_beside_common_ones_are_left_out_by_name():
    found = infer({"sex": one_of_each("f", "M")})
    assert "sex" not in found.described
    assert "has 'F', 'f' beside the same text in another case" in " ".join(found.notes)


def test_days_of_the_calendar_come_with_a_hint_and_days_of_birth_do_not():
    notes = infer().notes
    hints = [note for note in notes if "predict only within the time that the tables" in note]
    assert [note.split("'")[1] for note in hints] == ["admitted"]


def test_an_outcome_with_gaps_is_said():
    assert "Outcome 'died' has gaps at 'south'" in " ".join(
        infer(south={"died": one_of_each(0, 1, None)}).notes
    )


@pytest.mark.parametrize(
    ("frames", "outcome", "error", "words"),
    [
        ({}, None, ParameterError, "a mapping of names to frames"),
        ([table(1)], None, ParameterError, "a mapping of names to frames"),
        ({"a": np.zeros((2, 2))}, None, ParameterError, "whose columns have names"),
        ({"a": table(1)}, "dead", ParameterError, "Unknown column 'dead'"),
        ({"a": table(1)}, "admitted", ParameterError, "numbers, flags or at most 20 classes"),
        ({"a": table(1).slice(0, 0)}, None, DataError, "must have rows"),
        ({"a": pa.table({"x": ["a", "a"]})}, None, DataError, "agree on at least one feature"),
        ({"a": pa.table([[1], [2]], names=["x", "x"])}, None, DataError, "twice or more"),
    ],
)
def test_tables_of_which_nothing_can_be_proposed(frames, outcome, error, words):
    with pytest.raises(error, match=words):
        Columns.infer(frames, outcome)


@pytest.mark.parametrize(
    "name", ["id", "ID", "patient_id", "PatientID", "mrn", "Patient", "case_no"]
)
def test_names_of_ids(name):
    assert is_named_like_an_id(name)


@pytest.mark.parametrize("name", ["age", "humid", "n_no", "zip_code", "postal code", "covid", ""])
def test_names_of_other_columns(name):
    assert not is_named_like_an_id(name)


def test_more_levels_than_a_matrix_should_have_are_none():
    for count in (MOST_LEVELS, MOST_LEVELS + 1):
        words = [f"w{row % count}" for row in range(2 * count)]
        found = Columns.infer({"a": pa.table({"w": words, "x": [0.5, 1.5] * count})})
        assert ("w" in found.described) == (count == MOST_LEVELS)


def drawn(*cells):
    return lambda rng: list(rng.choice(np.array(cells, dtype=object), ROWS))


def category(*cells, **options):
    return lambda rng: pd.Categorical(drawn(*cells)(rng), **options)


NASTY = {
    "zeros": drawn("01", "02"), "code_no": drawn("01", "02", "03"), "signs": drawn("+1", "-1"),
    "powers": drawn("1e0", "2e0"), "minus zero": drawn("-0", "1"), "floats": drawn("0.0", "1.0"),
    "whole": drawn(1.0, 2.0), "negative": drawn(-1, 1), "gaps": drawn(1, 2, 3, None),
    "numbers": category(1, 2, 3), "truths": category(True, False),
    "days": category(dt.date(2020, 1, 1), dt.date(2020, 2, 2)),
    "blanks": category(" a", "a", "b ", categories=["b ", " a", "a"], ordered=True),
    "letters": drawn("F", "f", "M"), "words": drawn("True", "true", "FALSE"),
    "mixed": drawn("true", "false", "1"), "other": drawn("Other", "other", "a"),
    "Missing": drawn("Missing", "a", None), "missing": drawn("missing", "a", None),
    "commas": drawn("1,5", "2,5"), "NA": drawn("NA", "x", "y"), "empty": drawn("", "a", "b"),
    "n/a": drawn("n/a", "1", "2", "7.5"), "accents": drawn("\u00e9", "e\u0301"),
    "moments": drawn("2020-01-01", "2020-02-01 10:00"), "zones": drawn("2020-01-01T00:00:00Z", "x"),
    "equals": drawn("a=b", "c"), "sharp": drawn("stra\u00dfe", "STRASSE", "b"),
}  # fmt: skip


@pytest.mark.parametrize("name", NASTY)
def test_what_is_proposed_reads_the_same_tables(name):
    rng = np.random.default_rng(0)
    tables = {
        site: pd.DataFrame({"z": rng.normal(size=ROWS), name: NASTY[name](rng)}) for site in "ab"
    }
    short = tables["b"].iloc[:3].reset_index(drop=True)  # need not have every level
    for frames in (tables, {**tables, "c": short}):
        found = Columns.infer(frames)
        assert name in found.described or any(repr(name) in note for note in found.notes)
        for site, frame in frames.items():
            as_described_matrix(frame, site, found, with_group=True)


def test_codes_stay_as_they_are_spelled():
    found = infer(*[{"ward_id": ["01", "02"] * (ROWS // 2)}] * 3)
    assert found.described["ward_id"] == ["01", "02"]


@pytest.mark.parametrize(
    ("name", "cells", "words"),
    [
        ("lab", [f"{row},25" for row in range(ROWS)], "look like numbers with decimal commas at"),
        ("lab", [f"1.0{row:02},25" for row in range(ROWS)], "numbers with decimal commas at"),
        ("day", [f"{row % 28 + 1}.0{row // 28 + 1}.2020" for row in range(ROWS)], "days that are"),
        ("day", [f"2020/01/{row % 28 + 1} 12:30" for row in range(ROWS)], "days that are"),
        ("sex", ["F", "f", "M", "M"] * (ROWS // 4), "has 'f' beside the same text in another case"),
        ("sex=M", list(np.arange(ROWS) / 7), "has the name of a level"),
        ("pain", ["missing", None] * (ROWS // 2), "beside the level 'missing'"),
    ],
)
def test_what_would_not_fit_is_left_out_by_name(name, cells, words):
    rest = {} if name == "sex" else {name: cells}
    if name == "pain":
        rest = {name: ["missing", "mild"] * (ROWS // 2)}
        cells = ["missing", "mild", None, None] * (ROWS // 4)
    found = infer({name: cells}, rest, rest)
    assert name not in found.described
    assert any(f"Column {name!r}" in note and words in note for note in found.notes)


def test_an_outcome_of_one_class_is_left_out_by_name():
    found = infer({"died": ["no"] * ROWS}, {"died": ["no"] * ROWS})
    assert found.outcome is None
    assert "Outcome 'died' is the same in every row. It is left out." in found.notes

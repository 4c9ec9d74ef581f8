"""A Table 1 as a file: read as it was written, and every mistake named by its line."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedcsa.core.table import Table1
from fedcsa.data.coding import Columns
from fedcsa.data.columns import Feature
from fedcsa.data.table1 import read_table1, write_table1
from fedcsa.errors import DataError, TableError

PLANTED = "4711.25"
CODING = Columns(
    {
        "patient": "group",
        "age": {"kind": "number", "sd": 12},
        "smoker": "flag",
        "stage": ["I", "II", "III"],
        "sbp": {"kind": "number", "missing": "indicator"},
    }
)
TEXT = """feature,level,mean,sd,n
age,,63.21,11.4,1234
smoker,,0.305,,
stage,II,0.42,,
stage,III,0.17,,
sbp,,140,21,
sbp,missing,0.05,,
"""
NUMBERS = Columns({"age": "number", "bmi": "number", "sbp": "number"})
PAIRS = """feature,level,mean,sd,n,with,correlation
age,,63,11,500,,
bmi,,26,4,,,
sbp,,140,20,,,
age,,,,,bmi,0.241
bmi,,,,,sbp,0.3
sbp,,,,,age,-0.1
"""


def read(folder, text, coding=CODING):
    path = folder / "table1.csv"
    path.write_text(text, encoding="utf-8")
    return read_table1(path, coding)


def refusal(folder, text, coding=CODING, error=DataError):
    with pytest.raises(
        error, match=r"must |needs a line|is given twice|No data|sum to more"
    ) as caught:
        read(folder, text, coding)
    assert "4711" not in str(caught.value)
    assert caught.value.__cause__ is None
    return str(caught.value)


def test_a_published_table_is_rounded_and_floored_as_a_target_s_own(tmp_path):
    table = read(tmp_path, TEXT)
    assert table.n_rows == 1230
    assert table.features == ("age", "smoker", "stage=II", "stage=III", "sbp", "sbp=missing")
    assert table.flags == (False, True, True, True, False, True)
    assert table.mean.tolist() == pytest.approx([63.25, 0.3, 0.42, 0.17, 140.07, 0.05])
    assert table.sd.tolist() == [11.0, 0.5, 0.5, 0.5, 21.0, 0.5]
    assert table.correlations is None


def test_an_sd_is_raised_to_the_floor_of_the_public_one(tmp_path):
    assert read(tmp_path, TEXT.replace("11.4", "0.1")).sd[0] == 3.6


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("stage,II,", "stage,I,0.41,,\nstage,II,"),
        "\ufeff" + TEXT.replace("\n", "\r\n"),
        TEXT.replace(",,\n", "\n"),
        TEXT + "\n,,,,\n  \n",
        TEXT.replace("sbp,,140,21,", " sbp , , 1.4e2 ,+21 ,1234"),
        "\n".join([TEXT.splitlines()[0], *TEXT.splitlines()[:0:-1]]),
        "n,sd,mean,level,feature\n"
        + "\n".join(",".join(line.split(",")[::-1]) for line in TEXT.splitlines()[1:]),
    ],
    ids=["first level", "windows", "short lines", "empty lines", "blanks", "order", "columns"],
)
def test_what_does_not_matter_does_not_matter(tmp_path, text):
    assert read(tmp_path, text) == read(tmp_path, TEXT)


def test_correlations_stand_in_lines_of_their_own(tmp_path):
    table = read(tmp_path, PAIRS, NUMBERS)
    expected = [[1.0, 0.24, -0.1], [0.24, 1.0, 0.3], [-0.1, 0.3, 1.0]]
    np.testing.assert_allclose(table.correlations, expected)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (
            "smoker,,",
            "smokr,,",
            "line 3: Feature and level must name a column of the study. Did you mean 'sm",
        ),
        ("smoker,,", "patient,,", "line 3: Feature and level must name a column of the study."),
        (
            "stage,II,",
            "stage,IV,",
            "line 4: Feature and level must name a column of the study. Did you",
        ),
        ("stage,II,", "stage,,", "line 4: Feature and level must name"),
        ("smoker,,", "smoker,yes,", "line 3: Feature and level must name a column"),
        ("stage,III,", "stage,II,", "line 5: 'stage=II' must have one line; it has two."),
        ("sbp,missing,0.05,,\n", "", "column needs a line. There is none for 'sbp=missing'."),
        (
            "0.42",
            "42",
            "The share of 'stage=II' must lie between 0 and 1. It l",
        ),
        (
            "0.42",
            "42 %",
            "line 4: 'mean' must be a number with a point as the decimal sign, a share",
        ),
        (
            "0.42",
            "-0.1",
            "The share of 'stage=II' must lie between 0 and 1. C",
        ),
        ("63.21", PLANTED + " kg", "line 2: 'mean' must be a number"),
        ("63.21", "", "a percent sign; it is empty"),
        ("11.4", "", "line 2: 'sd' must be a number"),
        ("11.4", "0", "The sd of 'age' must be a positive number"),
        ("11.4", "inf", "line 2: 'sd' must be a number"),
        ("0.305,,", "0.305,0.4,", "line 3: The sd of 'smoker' must be empty"),
        ("1234", "", "The number of rows must be in the column n"),
        ("1234", "1", "must be a whole number of at least 2"),
        ("1234", "12.5", "must be a whole number"),
        ("1234", PLANTED + "x", "line 2: 'n' must be a number"),
        ("0.305,,", "0.305,,1235", "The number of rows must be in the column n, the same"),
        ("0.42", "0.94", "The shares of the levels of 'stage' sum to more than 1"),
        ("stage,II,", "stage,I,0.9,,\nstage,II,", "of all levels of 'stage' must sum to 1"),
    ],
)
def test_a_mistake_is_named_by_its_line_and_no_cell_is_shown(tmp_path, old, new, text):
    assert TEXT.count(old) == 1
    found = refusal(tmp_path, TEXT.replace(old, new))
    assert text in found
    assert all("table1.csv" in line for line in found.splitlines())


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("bmi,,,,,sbp,0.3\n", "", "all pairs, or of none; missing: 'bmi' with 'sbp'"),
        (
            "bmi,,,,,sbp,0.3",
            "bmi,,,,,age,0.3",
            "line 6: The correlation of 'bmi' and 'age' is given",
        ),
        ("bmi,,,,,sbp,0.3", "bmi,,,,,spb,0.3", "line 6: A correlation must name two columns"),
        (
            "bmi,,,,,sbp,0.3",
            "bmi,,2,,,sbp,0.3",
            "line 6: A correlation needs a line of its own",
        ),
        ("bmi,,,,,sbp,0.3", "bmi,,,,,sbp,x", "line 6: 'correlation' must be a number"),
        ("bmi,,,,,sbp,0.3", "bmi,,,,,,0.3", "line 6: A correlation must name two columns"),
        ("bmi,,,,,sbp,0.3", "bmi,,,,,sbp,3", "Correlations must lie between -1 and 1"),
        ("0.3", "0.99", "No data can have all these correlations"),
    ],
)
def test_a_wrong_correlation_is_named(tmp_path, old, new, text):
    lines = PAIRS.replace("0.241", "0.9").replace("-0.1", "-0.9") if "0.99" in new else PAIRS
    assert text in refusal(tmp_path, lines.replace(old, new), NUMBERS)


def test_correlations_beside_flags_are_refused(tmp_path):
    text = TEXT.replace("n\n", "n,with,correlation\n", 1) + "age,,,,,sbp,0.3\n"
    assert "not all columns are numbers" in refusal(tmp_path, text)


def test_all_mistakes_are_said_at_once(tmp_path):
    text = TEXT.replace("smoker", "smokr").replace("11.4", "").replace("0.42", "x")
    lines = refusal(tmp_path, text.replace("1234", "")).splitlines()
    assert len(lines) == 5  # and the lost line of 'smoker'


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"age,sex\n4711.25,F\n",
        TEXT.replace(",", ";").encode(),
        TEXT.encode("utf-16"),
        b"feature,level,mean,sd,n\nage,,1,2,3,4711.25\n",
        b'feature,level,mean,sd,n\n"age,,1\n',
        b"feature,level,mean,sd,n\n" + b"x" * 2**21,
    ],
)
def test_a_file_that_is_no_table_1_is_refused_without_a_cell(tmp_path, content):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(TableError, match="must ") as caught:
        read_table1(tmp_path / "t.csv", CODING)
    assert "4711" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(TableError, match=r"none\.csv"):
        read_table1(tmp_path / "none.csv", CODING)


NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\r"), min_size=1, max_size=5
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    names=st.lists(NAMES, min_size=1, max_size=5, unique=True),
    kinds=st.lists(st.sampled_from(["number", "flag", "levels"]), min_size=5, max_size=5),
    levels=st.lists(NAMES, min_size=2, max_size=4, unique=True),
    missing=st.sampled_from(["error", "indicator"]),
    n=st.integers(2, 400),
    sd=st.none() | st.floats(0.01, 100.0),
    seed=st.integers(0, 2**20),
)
def test_a_written_table_is_read_back_to_the_bit(
    tmp_path, names, kinds, levels, missing, n, sd, seed
):
    try:
        coding = Columns(
            tuple(
                Feature(name, kind, tuple(levels) if kind == "levels" else (), missing, sd=sd)
                for name, kind in zip(names, kinds, strict=False)
            )
        )
    except ValueError:  # two columns of one name
        return
    rng = np.random.default_rng(seed)
    flags = np.array(coding.flags)
    X = rng.normal(rng.normal(0, 50), np.exp(rng.normal(0, 2)), (n, len(flags)))
    X[:, flags] = 0.0
    for feature in coding.features:  # one level of a column at a time
        own = [k for k, c in enumerate(coding.columns) if c in feature.columns and flags[k]]
        if own:
            X[np.arange(n), rng.choice(own, n)] = 1.0
    table = Table1.of(X, coding.columns, coding.flags, coding.public_sd)
    write_table1(tmp_path / "t.csv", table, coding)
    assert read_table1(tmp_path / "t.csv", coding) == table


def test_a_written_table_keeps_its_correlations_to_the_bit(tmp_path):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(700, 3)) @ rng.normal(size=(3, 3)) * [1.0, 20.0, 0.01] + 5.0
    X[:, 2] = X[:, 0]
    for public in (None, [30.0, 1.0, 0.02]):
        coding = Columns(
            tuple(Feature(n, sd=sd) for n, sd in zip("abc", public or [None] * 3, strict=True))
        )
        table = Table1.of(X, coding.columns, coding.flags, coding.public_sd)
        assert table.correlations is not None
        write_table1(tmp_path / "t.csv", table, coding)
        assert read_table1(tmp_path / "t.csv", coding) == table


def test_only_a_table_of_the_described_columns_is_written_and_only_as_csv(tmp_path):
    table = read(tmp_path, TEXT)
    with pytest.raises(TableError, match="must be written as CSV"):
        write_table1(tmp_path / "t.parquet", table, CODING)
    with pytest.raises(DataError, match="must have the columns that are described"):
        write_table1(tmp_path / "t.csv", table, NUMBERS)

"""Files: what is read, what is refused, and that no refusal quotes a cell."""

import dataclasses
import gzip
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedcsa.data.cells import MISSING_VALUES
from fedcsa.data.coding import Columns
from fedcsa.data.columns import Feature, Outcome
from fedcsa.data.csv_text import TextFile, text_pieces
from fedcsa.data.table_file import FILE_KINDS as READ_KINDS
from fedcsa.data.tables import open_table, write_table
from fedcsa.errors import DataError, TableError

PLANTED, SECRET = "4711.25", "SECRET"
CODING = Columns(
    (
        Feature("age"),
        Feature("ward", "levels", ("01", "1")),
        Feature("sbp", missing="indicator", fill=140),
    ),
    Outcome("y", ("no", "yes")),
)
MANY = list(range(40))
COLUMNS = {
    "note": [f'{SECRET}, {PLANTED} "x"\nnext' for _ in MANY],
    "age": [math.sin(k) * 10.0 ** (k - 20) for k in MANY],
    "ward": ["01" if k % 3 else "1" for k in MANY],
    "sbp": [None if k % 7 == 0 else 100 + k / 3 for k in MANY],
    "y": ["yes" if k % 2 else "no" for k in MANY],
}
#: The outcomes as places in the agreed order of classes.
CODES = [float(k % 2) for k in MANY]


FILE_KINDS = tuple(kind for kind in READ_KINDS if kind != ".xlsx")


def read(path, columns=None):
    return open_table(path).read(columns)


def refusal(path, error=TableError, **options):
    """The text of the refusal, which names the path and shows no cell."""
    with pytest.raises(error, match=r"must |does not exist|cannot be read") as caught:
        read(path, **options)
    text = str(caught.value)
    assert str(path) in text
    for planted in (PLANTED, "4711", SECRET):
        assert planted not in text
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return text


def written(folder, content, name="t.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def cells(table):
    return {name: table.column(name).to_pylist() for name in table.column_names}


# What is read ---------------------------------------------------------------------------------


def encoded(path):
    table = read(path, CODING.needed(with_outcome=True))
    return CODING.encode(table, "source 'a'", with_outcome=True)


@pytest.mark.parametrize("kind", FILE_KINDS)
def test_every_kind_of_file_gives_the_same_bits(tmp_path, kind):
    path, reference = tmp_path / f"t{kind}", tmp_path / "reference.parquet"
    write_table(path, COLUMNS)
    pq.write_table(pa.table(COLUMNS), reference)
    X, y = encoded(path)
    X_reference, y_reference = encoded(reference)
    assert X.tobytes() == X_reference.tobytes()
    assert y.tolist() == y_reference.tolist() == CODES
    assert X[:, 0].tolist() == COLUMNS["age"]
    assert X[:, 3].tolist() == [float(cell is None) for cell in COLUMNS["sbp"]]


def test_a_table_that_pandas_wrote_gives_the_same_bits(tmp_path):
    pd.DataFrame(COLUMNS).to_csv(tmp_path / "t.csv")
    pd.DataFrame(COLUMNS).astype({"ward": "category"}).to_parquet(tmp_path / "t.parquet")
    for path in (tmp_path / "t.csv", tmp_path / "t.parquet"):
        assert encoded(path)[0][:, 0].tolist() == COLUMNS["age"]
        assert encoded(path)[1].tolist() == CODES


@given(
    numbers=st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.none(), min_size=1),
    data=st.data(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@pytest.mark.parametrize("kind", [".csv", ".tsv.gz", ".parquet"])
def test_what_is_written_is_read(tmp_path, kind, numbers, data):
    text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6)
    texts = [data.draw(text.map(lambda t: f"'{t}'")) for _ in numbers]
    columns = {"x": numbers, 'häufig, "t"': texts}
    if all(number is None for number in numbers):
        columns["x"] = numbers = [0.0] * len(numbers)
    write_table(tmp_path / f"t{kind}", columns)
    coding = Columns((Feature("x", missing="indicator", fill=-7.5),))
    table = read(tmp_path / f"t{kind}")
    assert table.column('häufig, "t"').to_pylist() == texts
    X, _ = coding.encode(table, "it", with_outcome=False)
    expected = np.array([-7.5 if number is None else number for number in numbers])
    assert X[:, 0].tobytes() == expected.tobytes()


def test_a_csv_keeps_its_cells_as_texts(tmp_path):
    path = written(tmp_path, "a,b\n01,2020-01-01\n1e3,true\n")
    assert cells(read(path)) == {"a": ["01", "1e3"], "b": ["2020-01-01", "true"]}


@pytest.mark.parametrize(
    "content",
    [
        "a,b\n1,x\n2,y\n",
        "a,b\n1,x\n2,y",
        "a,b\r\n1,x\r\n2,y\r\n",
        "\ufeffa,b\n1,x\n2,y\n",
        "\n\na,b\n\n1,x\n2,y\n\n",
        '"a","b"\n"1","x"\n"2","y"',
    ],
)
def test_line_ends_marks_and_blank_lines_do_not_matter(tmp_path, content):
    path = written(tmp_path, content)
    assert cells(read(path)) == {"a": ["1", "2"], "b": ["x", "y"]}


def test_a_quoted_cell_may_hold_separators_marks_and_lines(tmp_path):
    path = written(tmp_path, 'a,b\n"1,\n""2""",x\n')
    assert cells(read(path)) == {"a": ['1,\n"2"'], "b": ["x"]}


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"a;b\n1;x\n2;y\n", {"a": ["1", "2"], "b": ["x", "y"]}),
        (b'\xef\xbb\xbf"a,c";b\r\n7,2;"x;y"\r\n', {"a,c": ["7.2"], "b": ["x;y"]}),
        (b"a,b;c\n1,2\n", {"a": ["1"], "b;c": ["2"]}),
        (b'"a;b"\n1\n', {"a;b": ["1"]}),
    ],
)
def test_a_file_with_semicolons_is_read_by_them(tmp_path, content, found):
    assert cells(read(written(tmp_path, content))) == found


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (b"age;weight, kg\n50;70\n", ["age", "weight, kg"]),
        (b"age;weight, kg;y\n50;70,5;1\n", ["age", "weight, kg", "y"]),
        (b"age,a;b\n50,1\n", ["age", "a;b"]),
        (b"age,a;b\n", ["age", "a;b"]),
    ],
)
def test_the_second_line_tells_which_mark_of_the_header_separates(tmp_path, content, names):
    assert read(written(tmp_path, content)).column_names == names


def test_a_decimal_comma_is_named(tmp_path):
    path = written(tmp_path, b'age,y\n"7,2",1\n')
    with pytest.raises(DataError, match=r"must hold numbers; .* with a point as the decimal sign"):
        Columns({"age": "number"}).encode(read(path), "it", with_outcome=False)


def test_a_semicolon_in_the_only_name_is_written_and_read(tmp_path):
    write_table(tmp_path / "t.csv", {"a;b": [1]})
    assert cells(read(tmp_path / "t.csv")) == {"a;b": ["1"]}


def test_a_mark_inside_an_unquoted_cell_is_a_mark(tmp_path):
    path = written(tmp_path, 'a,b\n6" nail,x\n1,2\n')
    assert cells(read(path)) == {"a": ['6" nail', "1"], "b": ["x", "2"]}


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_only_the_columns_asked_for_are_read(tmp_path, kind):
    write_table(tmp_path / f"t{kind}", COLUMNS)
    table = read(tmp_path / f"t{kind}", columns=["y", "age"])
    assert table.column_names == ["y", "age"]


def test_a_header_without_rows_is_a_table_without_rows(tmp_path):
    for content in ("a,b\n", "a,b"):
        table = read(written(tmp_path, content))
        assert (table.column_names, table.num_rows) == (["a", "b"], 0)


@pytest.mark.parametrize("name", ["T.CSV", "t.Csv.GZ", "t.v2.csv"])
def test_the_case_of_the_ending_does_not_matter(tmp_path, name):
    write_table(tmp_path / name, {"a": [1.5]})
    assert cells(read(str(tmp_path / name))) == {"a": ["1.5"]}


def test_a_wide_table_is_read(tmp_path):
    columns = {f"x{index}": [index] for index in range(20_000)}
    write_table(tmp_path / "t.csv", columns)
    table = read(tmp_path / "t.csv", columns=["x19999", "x0"])
    assert cells(table) == {"x19999": ["19999"], "x0": ["0"]}


# Missing cells --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["number", "flag", "levels"])
@pytest.mark.parametrize("spelling", [*MISSING_VALUES, " ", " NA "])
def test_the_usual_spellings_of_a_missing_cell(kind, spelling):
    levels = ("1", "x") if kind == "levels" else ()
    coding = Columns((Feature("a", kind, levels, missing="indicator"),))
    X, _ = coding.encode({"a": ["1", spelling]}, "it", with_outcome=False)
    np.testing.assert_array_equal(X[:, 1], [0, 1])


@pytest.mark.parametrize("spelling", ["?", "none", "-", "missing", "0", "na", "-999", "Null"])
def test_other_spellings_are_values_unless_they_are_listed(spelling):
    values, levels = Feature("a", "levels", ("x", spelling)), Feature("b", "levels", ("x", "y"))
    unknown = Columns((levels,))
    known = Columns((dataclasses.replace(levels, missing="indicator"),))
    X, _ = Columns((values,)).encode({"a": ["x", spelling]}, "it", with_outcome=False)
    np.testing.assert_array_equal(X[:, 0], [0, 1])
    with pytest.raises(DataError, match="1 of its 2 cells is something else"):
        unknown.encode({"b": ["x", spelling]}, "it", with_outcome=False)
    known = dataclasses.replace(known, missing_values=(spelling,))
    X, _ = known.encode({"b": ["x", spelling]}, "it", with_outcome=False)
    np.testing.assert_array_equal(X[:, 1], [0, 1])


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_a_declared_level_is_never_a_missing_cell(tmp_path, kind):
    region = Feature("region", "levels", ("EU", "NA"), missing="indicator")
    coding = Columns((region, Feature("b", "levels", ("x", "y"), missing="indicator")))
    write_table(tmp_path / f"t{kind}", {"region": ["NA", "EU", ""], "b": ["x", "NA", "x"]})
    table = read(tmp_path / f"t{kind}")
    X, _ = coding.encode(table, "it", with_outcome=False)
    np.testing.assert_array_equal(X[:, :2], [[1, 0], [0, 0], [0, 1]])
    np.testing.assert_array_equal(X[:, 3], [0, 1, 0])


def test_a_column_of_numbers_with_texts_is_counted_by_the_coding(tmp_path):
    path = written(tmp_path, f"age\n50\n{SECRET}\nNA\n")
    coding = Columns((Feature("age", missing="indicator"),))
    with pytest.raises(DataError, match="1 of its 3 cells is text"):
        coding.encode(read(path), "it", with_outcome=False)


# What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FILE_KINDS)
def test_a_file_that_is_not_there(tmp_path, kind):
    assert "does not exist" in refusal(tmp_path / f"none{kind}")
    assert "does not exist" in refusal(tmp_path / "no" / f"none{kind}")


@pytest.mark.parametrize("kind", FILE_KINDS)
def test_a_folder(tmp_path, kind):
    (tmp_path / f"t{kind}").mkdir()
    assert "must be one file; it is a folder" in refusal(tmp_path / f"t{kind}")


@pytest.mark.parametrize("kind", FILE_KINDS)
def test_an_empty_file(tmp_path, kind):
    assert "the file is empty" in refusal(written(tmp_path, b"", f"t{kind}"))


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"\n \n", "t.csv"),
        (gzip.compress(b"", mtime=0), "t.csv.gz"),
        (gzip.compress(b"\n", mtime=0), "t.tsv.gz"),
    ],
)
def test_a_file_of_nothing_but_blanks_is_empty(tmp_path, content, name):
    assert "the file is empty" in refusal(written(tmp_path, content, name))


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    path = written(tmp_path, "a\n1\n")
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "cannot be read (PermissionError)" in refusal(path)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("t.parq", r"Unknown kind of table '.parq'. Did you mean '.parquet'\?"),
        ("t.cvs", r"Unknown kind of table '.cvs'. Did you mean '.csv'\?"),
        ("t.csv.zip", "Unknown kind of table '.zip'. Known: .csv, .csv.gz"),
        ("t.ods", "Unknown kind of table '.ods'. Known: .csv, .csv.gz, .parquet"),
        ("table", "Unknown kind of table ''. Known: .csv"),
        ("t.parquet.gz", r"Unknown kind of table '.parquet.gz'. Did you mean '.parquet'\?"),
    ],
)
def test_an_ending_that_says_nothing(tmp_path, name, hint):
    with pytest.raises(TableError, match=hint):
        read(tmp_path / name)
    with pytest.raises(TableError, match=hint):
        write_table(tmp_path / name, {"a": [1]})


def test_a_parquet_file_cut_off_anywhere_is_refused(tmp_path):
    pq.write_table(pa.table(COLUMNS), tmp_path / "whole.parquet")
    whole = (tmp_path / "whole.parquet").read_bytes()
    for end in range(1, len(whole), 61):
        text = refusal(written(tmp_path, whole[:end], "t.parquet"))
        assert "must be a whole Parquet file; it is cut off, damaged" in text


@pytest.mark.parametrize("kind", [".csv.gz", ".tsv.gz"])
def test_a_compressed_file_cut_off_anywhere_is_refused(tmp_path, kind):
    write_table(tmp_path / f"whole{kind}", COLUMNS)
    whole = (tmp_path / f"whole{kind}").read_bytes()
    for end in range(1, len(whole), 13):
        text = refusal(written(tmp_path, whole[:end], f"t{kind}"))
        assert "cut off, damaged or of another kind" in text


def test_a_text_file_cut_off_anywhere_but_in_its_last_column_is_refused(tmp_path):
    whole = "age,ward,y\n" + "".join(f"{k}.5,w{k},{PLANTED}\n" for k in range(20))
    for end in range(len(whole)):
        last_line = whole[:end].rpartition("\n")[2]
        if end > whole.index("\n") + 1 and last_line and last_line.count(",") < 2:
            text = refusal(written(tmp_path, whole[:end]))
            assert "must have 3 cells in every row" in text
            assert f"first is row {whole[:end].count(chr(10)) + 1} with" in text


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The bytes of the table in a file of every kind."""
    folder = tmp_path_factory.mktemp("sound")
    for kind in FILE_KINDS:
        write_table(folder / f"whole{kind}", COLUMNS)
    return {kind: (folder / f"whole{kind}").read_bytes() for kind in FILE_KINDS}


@given(
    flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), min_size=1, max_size=4)
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@pytest.mark.parametrize("kind", [".parquet", ".csv.gz", ".csv"])
def test_a_damaged_file_is_read_or_refused_but_never_quoted(tmp_path, sound, kind, flips):
    content = bytearray(sound[kind])
    for position, flip in flips:
        content[position % len(content)] ^= flip
    path = written(tmp_path, bytes(content), f"t{kind}")
    text = ""
    try:
        table = read(path, columns=CODING.needed(with_outcome=True))
        CODING.encode(table, "source 'a'", with_outcome=True)
    except DataError as error:
        text = str(error)
    assert PLANTED not in text
    assert SECRET not in text


@given(st.binary(min_size=1, max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("kind", FILE_KINDS)
def test_garbage_is_refused(tmp_path, kind, garbage):
    with pytest.raises(DataError, match=r"must (have|be|begin)"):
        read(written(tmp_path, garbage, f"t{kind}"), columns=["age", "sex"])


def test_a_spreadsheet_under_another_name_is_refused(tmp_path):
    content = b"PK\x03\x04\x14\x00\x06\x00\x08\x00\x00\x00!\x00" + bytes(range(256)) * 8
    for kind in FILE_KINDS:
        refusal(written(tmp_path, content, f"t{kind}"))


def test_text_in_another_encoding_is_refused(tmp_path):
    for encoding in ("utf-16", "utf-32", "latin-1", "shift-jis"):
        content = f"age,note\n1,{SECRET}\N{HIRAGANA LETTER A}\n" if encoding != "latin-1" else "ä\n"
        text = refusal(written(tmp_path, content.encode(encoding)), columns=["age"])
        assert "must be text in UTF-8" in text


@pytest.mark.parametrize("row", [f"{PLANTED}", f"{PLANTED},{SECRET},3", ",,,"])
def test_ragged_rows_are_counted_and_located(tmp_path, row):
    text = refusal(written(tmp_path, f"a,b\n1,2\n{row}\n3,4\n{row}\n"))
    found = row.count(",") + 1
    assert "must have 2 cells in every row, like its header; 2 row(s) have more or fewer" in text
    assert f"the first is row 3 with {found}, the header being row 1." in text


@pytest.mark.parametrize("tail", [f'"{SECRET}', f'"{SECRET}\n3,4\n', f'2\n3,"{SECRET}\n'])
def test_a_quotation_mark_left_open_is_refused(tmp_path, tail):
    text = refusal(written(tmp_path, f"a,b\n1,{tail}"))
    assert "must close every quotation mark that it opens" in text
    assert "close every" in refusal(tmp_path / "t.csv", columns=["a"])


@pytest.mark.parametrize(
    "content", ["63,F,140\n64,M,4711.25\n", "4711.25,1e5,-3\n", "4711.25\n1\n"]
)
def test_a_file_without_header_is_refused(tmp_path, content):
    text = refusal(written(tmp_path, content), columns=["age", "sex"])
    assert "must begin with a line of column names" in text


def test_a_first_line_of_numbers_is_no_header_unless_it_names_the_columns(tmp_path):
    path = written(tmp_path, "1,2\n5,6\n")
    assert "2 of the 2 cells in its first line are numbers" in refusal(path)
    assert cells(read(path, columns=["2", "1"])) == {"2": ["6"], "1": ["5"]}


def test_a_first_line_of_texts_in_place_of_names_is_not_quoted(tmp_path):
    path = written(tmp_path, f"{SECRET},ages\nx,y\n")
    text = refusal(path, columns=["age", "sex"], error=DataError)
    assert "ages" not in text
    assert "Does it begin with the names of its columns" in text


def test_the_wrong_separator_is_hinted_at(tmp_path):
    text = refusal(written(tmp_path, f"age|sex\n1|{SECRET}\n"), columns=["age"], error=DataError)
    assert "separated as agreed?" in text


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_a_missing_column_is_suggested(tmp_path, kind):
    path = tmp_path / f"t{kind}"
    write_table(path, {"age": [1.0], "creatinin": [float(PLANTED)]})
    text = refusal(path, columns=["age", "creatinine"], error=DataError)
    assert "missing: 'creatinine' (did you mean 'creatinin'?)" in text


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_a_doubled_column_is_refused_if_it_is_needed(tmp_path, kind):
    path = written(tmp_path, f"a,b,a\n1,2,{SECRET}\n")
    if kind == ".parquet":
        path = tmp_path / "t.parquet"
        arrays = [pa.array([1]), pa.array([2]), pa.array([SECRET])]
        pq.write_table(pa.Table.from_arrays(arrays, ["a", "b", "a"]), path)
    assert "every column once; twice or more: 'a'" in refusal(path, columns=["a"], error=DataError)
    assert read(path, columns=["b"]).column_names == ["b"]
    coding = Columns((Feature("a"),))
    with pytest.raises(DataError, match="every column once; twice or more: 'a'"):
        coding.encode(read(path), "it", with_outcome=False)


def test_a_parquet_text_that_is_not_utf_8_is_refused(tmp_path):
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe")]
    )
    pq.write_table(pa.table({"a": bad}), tmp_path / "t.parquet")
    assert "must be a whole Parquet file" in refusal(tmp_path / "t.parquet")


def test_pyarrow_is_imported_only_when_a_table_is_read():
    code = "import sys, fedcsa.study, fedcsa.data.tables; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603


# What is written ------------------------------------------------------------------------------


def test_a_written_csv_is_plain(tmp_path):
    write_table(
        tmp_path / "t.csv",
        {
            "id": np.array([1, 2]),
            "p": np.array([0.1, 1e-300]),
            "y": ["no", "a,b"],
            "z": [None, True],
        },
    )
    assert (tmp_path / "t.csv").read_text() == 'id,p,y,z\n1,0.1,"no",\n2,1e-300,"a,b",true\n'
    write_table(tmp_path / "t.csv", {"y": ["no", "yes"], "z": [1.0, None]})
    assert (tmp_path / "t.csv").read_text() == "y,z\nno,1\nyes,\n"


@pytest.mark.parametrize("kind", FILE_KINDS)
def test_writing_twice_gives_the_same_bytes_and_leaves_nothing_else(tmp_path, kind):
    contents = []
    for _ in range(2):
        write_table(tmp_path / f"t{kind}", COLUMNS)
        contents.append((tmp_path / f"t{kind}").read_bytes())
    assert contents[0] == contents[1]
    assert [path.name for path in tmp_path.iterdir()] == [f"t{kind}"]


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_columns_of_different_lengths_are_not_written(tmp_path, kind):
    with pytest.raises(DataError, match=r"columns of one length; it has 2 of lengths \[1, 2\]"):
        write_table(tmp_path / f"t{kind}", {"a": [1], "b": [1, 2]})
    with pytest.raises(DataError, match=r"columns of one length; it has 0 of lengths \[\]"):
        write_table(tmp_path / f"t{kind}", {})
    assert not list(tmp_path.iterdir())


def test_a_column_of_mixed_types_is_not_written_as_parquet_and_not_quoted(tmp_path):
    with pytest.raises(DataError, match="columns of one type each") as caught:
        write_table(tmp_path / "t.parquet", {"a": [1.5, SECRET]})
    assert SECRET not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_half_a_character_is_not_written(tmp_path, kind):
    with pytest.raises(DataError, match="must hold valid Unicode"):
        write_table(tmp_path / f"t{kind}", {"a": ["\ud800"]})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_a_folder_that_is_not_there_cannot_be_written_to(tmp_path, kind):
    with pytest.raises(TableError, match=r"must be written to a folder .*\(FileNotFoundError\)"):
        write_table(tmp_path / "none" / f"t{kind}", {"a": [1]})


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    write_table(path, {"a": [1]})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(TableError, match=r"this failed \(OSError\)"):
        write_table(path, {"a": [2]})
    assert path.read_text() == "a\n1\n"


def test_no_thread_of_the_parser_is_left_with_a_file(tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    path.write_text("age\n" + "50\n" * 20_000, encoding="utf-8")
    inside = []
    read = TextFile.read

    def slowly(self, size):
        inside.append(size)
        time.sleep(0.02)
        try:
            return read(self, size)
        finally:
            inside.pop()

    monkeypatch.setattr(TextFile, "read", slowly)
    pieces = text_pieces(path, ".csv", None, 1 << 13)
    next(pieces)
    pieces.close()  # abandoned while the parser reads ahead
    assert inside == []


@pytest.mark.parametrize("block", [1 << 20, 128])
def test_decimal_commas_between_semicolons_are_read_to_the_bit(tmp_path, block):
    numbers = [61.0, -0.1, 1 / 3, 2.5e-7, 1e300]
    path = tmp_path / "a.csv"
    lines = [f"{str(number).replace('.', ',')};a,b;1,2,3;2" for number in numbers]
    path.write_text("\n".join(["x;text;codes;whole", *lines]), encoding="utf-8")
    pieces = list(text_pieces(path, ".csv", None, block))
    found = pa.Table.from_batches(pieces).to_pydict()
    assert [float(cell) for cell in found["x"]] == numbers
    assert (found["text"], found["codes"]) == (["a,b"] * 5, ["1,2,3"] * 5)


THOUSANDS = {
    "commas": (
        "x;y\n" + 9 * "1,234;2\n999;3\n",
        "'x' .* its commas may be decimal signs or separate",
    ),
    "points beside decimal commas": (
        "x;y\n" + 9 * "1.234;2,5\n999;3,5\n",
        "'x' .* its points may be",
    ),
}


@pytest.mark.parametrize("block", [1 << 20, 64])
@pytest.mark.parametrize("kind", THOUSANDS)
def test_signs_that_may_separate_thousands_are_refused(tmp_path, kind, block):
    text, said = THOUSANDS[kind]
    path = written(tmp_path, text.encode())
    with pytest.raises(TableError, match=said):
        list(text_pieces(path, ".csv", None, block))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("x;y\n1,234;2\n0,999;3\n", [1.234, 0.999]),
        ("x;y\n1,234;2\n7,5;3\n", [1.234, 7.5]),
        ("x;y\n1.234;2\n7.555;3\n", [1.234, 7.555]),  # no comma: points are decimal signs
        ("x;y\n1.234;2,5\n7.5;3,5\n", [1.234, 7.5]),
    ],
)
def test_signs_that_cannot_separate_thousands_are_decimal(tmp_path, text, numbers):
    [piece] = text_pieces(written(tmp_path, text.encode()), ".csv", None, 1 << 20)
    assert [float(cell) for cell in piece.column("x").to_pylist()] == numbers


def test_commas_between_commas_stay_what_they_are(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('x,y\n"1,234",2\n', encoding="utf-8")
    assert open_table(path).read().to_pydict() == {"x": ["1,234"], "y": ["2"]}


@pytest.mark.parametrize("cells", [("1,5", "1.234"), ("1.234", "1,5")])
@pytest.mark.parametrize("block", [1 << 20, 64])
def test_two_decimal_signs_in_one_column_are_refused(tmp_path, cells, block):
    path = tmp_path / "a.csv"
    path.write_text("x;y\n" + "".join(f"{cell};2\n" * 9 for cell in cells), encoding="utf-8")
    with pytest.raises(TableError, match=r"Column 'x' .* decimal commas and points"):
        list(text_pieces(path, ".csv", None, block))

"""Rows in batches: the bits of the whole table, its complaints, and none of its size."""

import decimal
import gc
import gzip
import os
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from fedcsa.core.batches import BATCH_ROWS, HeldBatches
from fedcsa.data import streams, table_file
from fedcsa.data.coding import Columns
from fedcsa.data.columns import Feature, Outcome
from fedcsa.data.csv_text import text_pieces
from fedcsa.data.streams import AHEAD, DecodedOnce, TableStream, prefetched, read_rows
from fedcsa.data.table_file import FILE_KINDS as READ_KINDS
from fedcsa.data.tables import open_table, write_table
from fedcsa.errors import DataError, ParameterError, TableError

FILE_KINDS = tuple(kind for kind in READ_KINDS if kind != ".xlsx")
PLANTED, SECRET = "4711.25", "SECRET"
WHERE = "source 'a'"
N = 2 * BATCH_ROWS + 777
AGE = Columns((Feature("age"),), Outcome("y"))
CODING = Columns(
    (
        Feature("age"),
        Feature("region", "levels", ("EU", "NA"), missing="indicator"),
        Feature("flag", "flag"),
        Feature("patient", "group"),
        Feature("price"),
        Feature("sbp", missing="indicator", fill=140.5),
        Feature("ward", "levels", ("1", "2", "3")),
        Feature("count"),
        Feature("never", missing="indicator"),
        Feature("short"),
    ),
    Outcome("y"),
)


def random_table(n, seed=0):
    """Columns of every type that a coding reads, in another order, and some that it does not."""
    rng = np.random.default_rng(seed)
    missing = rng.random(n) < 0.1
    regions = np.array(["EU", "NA", "", " n/a "])[rng.integers(0, 4, n)]
    return pa.table(
        {
            "y": rng.normal(size=n) * 10.0 ** rng.integers(-300, 300, n),
            "short": rng.normal(size=n).astype(np.float32),
            "note": pa.array([f'{SECRET}, "{k}"\nnext' for k in range(n)]),
            "count": rng.integers(-(2**62), 2**62, n),
            "patient": rng.integers(0, n // 3, n),
            "ward": pa.array(rng.integers(1, 4, n).astype(str)).dictionary_encode(),
            "sbp": pa.array(rng.normal(140, 20, n), mask=missing),
            "region": regions,
            "never": pa.nulls(n),
            "price": pa.array([decimal.Decimal(int(k)) / 100 for k in rng.integers(0, 9**9, n)]),
            "flag": rng.random(n) < 0.5,
            "age": rng.integers(0, 2**64, n, dtype=np.uint64).view(np.float64),
        }
    )


def finite(table):
    age = np.nan_to_num(table["age"].to_numpy(), posinf=1.0, neginf=-0.0)
    return table.set_column(table.column_names.index("age"), "age", pa.array(age))


def whole(path, coding):
    table = open_table(path).read(coding.needed(with_outcome=True, with_group=True))
    return coding.encode(table, WHERE, with_outcome=True, with_group=True)


def stream(path, coding=AGE):
    return TableStream(path, coding, where=WHERE)


def assert_same_bits(rows, X, y):
    """Batches of the agreed size, equal to the bit."""
    batches = list(rows)
    sizes = [len(part) for _, part in batches]
    assert sizes == [len(part) for _, part in HeldBatches(rows.columns, X, y)]
    for part, outcomes in batches:
        assert part.dtype == outcomes.dtype == np.float64
        assert part.flags.c_contiguous
        assert part.flags.owndata
        assert part.flags.writeable
        assert outcomes.flags.owndata
    assert np.concatenate([part for part, _ in batches]).tobytes() == X.tobytes()
    assert np.concatenate([part for _, part in batches]).tobytes() == y.tobytes()


def written(folder, content, name="t.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_any(path, table):
    if path.name.endswith(".parquet"):
        pq.write_table(table, path, row_group_size=5_000, write_page_checksum=True)
    else:  # in a text, true is no number
        cells = {name: table[name].to_pylist() for name in table.column_names}
        write_table(path, {**cells, "flag": [int(cell) for cell in cells["flag"]]})


# The same bits --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table():
    return finite(random_table(N))


@pytest.mark.parametrize("kind", FILE_KINDS)
def test_a_stream_gives_the_bits_of_the_whole_table_at_every_pass(tmp_path, kind, table):
    path = tmp_path / f"t{kind}"
    write_any(path, table)
    rows = stream(path, CODING)
    assert rows.columns == CODING.matrix_columns
    X, y = whole(path, CODING)
    for _ in range(2):
        assert_same_bits(rows, X, y)
    X_held, y_held = read_rows(open_table(path), CODING, WHERE, with_outcome=True)
    assert X_held.flags.c_contiguous
    assert X_held.tobytes() == X.tobytes()
    assert y_held.tobytes() == y.tobytes()


def test_few_texts_of_a_parquet_file_come_by_their_dictionary(tmp_path):
    path = tmp_path / "t.parquet"
    sex, age = pa.array(["F", "M", None] * 5), pa.array([1.0, 0.0, 1.0] * 5)
    cells = {"sex": sex, "note": sex, "age": age, "bytes": sex.cast(pa.binary())}
    pq.write_table(pa.table(cells), path, row_group_size=4)
    table = open_table(path)
    (few,) = {piece.schema for piece in table.pieces(None, ["sex", "age", "bytes", "none"])}
    assert pa.types.is_dictionary(few.field("sex").type)
    assert few.remove(0) == table.read().schema.remove(0)
    coding = Columns({"sex": {"levels": ["F", "M"], "missing": "indicator"}, "age": "flag"})
    assert coding.with_few_texts == ("sex", "age")
    X, _ = read_rows(table, coding, WHERE, with_outcome=False)
    np.testing.assert_array_equal(X, [[0, 0, 1], [1, 0, 0], [0, 1, 1]] * 5)


def test_it_is_the_table_that_was_written(tmp_path, table):
    write_any(tmp_path / "t.parquet", table)
    X = np.concatenate([part for part, _ in stream(tmp_path / "t.parquet", CODING)])
    assert X[:, 0].tobytes() == table["age"].to_numpy().tobytes()
    missing = table["sbp"].is_null().to_numpy()
    column = CODING.columns.index("sbp")
    assert (X[missing, column] == 140.5).all()
    np.testing.assert_array_equal(X[:, column + 1], missing)


@pytest.mark.parametrize("n", [1, BATCH_ROWS - 1, BATCH_ROWS, BATCH_ROWS + 1, 3 * BATCH_ROWS])
@pytest.mark.parametrize("group", [1_000, BATCH_ROWS, 10**6])
def test_row_groups_do_not_show(tmp_path, n, group):
    rng = np.random.default_rng(n)
    path = tmp_path / "t.parquet"
    columns = {"age": rng.normal(size=n), "y": rng.normal(size=n)}
    pq.write_table(pa.table(columns), path, row_group_size=group, write_page_checksum=True)
    assert_same_bits(stream(path), columns["age"][:, None], columns["y"])


@pytest.mark.parametrize("block", [80, 100, 333, 4_096])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_blocks_of_a_text_file_do_not_show(tmp_path, block, ending):
    rng = np.random.default_rng(block)
    cells = [f'"{k},{ending}""ä{"x" * rng.integers(0, 9)}"' for k in range(200)]
    path = written(tmp_path, ending.join(["age,note", *(f"{k},{c}" for k, c in enumerate(cells))]))
    pieces = pa.Table.from_batches(list(text_pieces(path, ".csv", ["note", "age"], block)))
    assert pieces.equals(
        pa.Table.from_batches(list(text_pieces(path, ".csv", ["note", "age"], 1 << 20)))
    )
    assert pieces["age"].to_pylist() == [str(k) for k in range(200)]


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("levels", "cells"),
    [(("no", "yes"), ["no", "yes", "yes"]), ((1, 2, 10), [10, 1, 2]), ((False, True), [True] * 3)],
)
def test_classes_are_positions_in_the_agreed_order(tmp_path, kind, levels, cells):
    coding = Columns((Feature("age"),), Outcome("y", levels))
    write_table(tmp_path / f"t{kind}", {"age": [1, 2, 3], "y": cells})
    ((_, y),) = stream(tmp_path / f"t{kind}", coding)
    assert y.dtype == np.float64
    assert y.tobytes() == whole(tmp_path / f"t{kind}", coding)[1].tobytes()
    assert coding.outcome.labelled(y).tolist() == cells


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_a_number_may_stand_for_a_missing_cell(tmp_path, kind):
    coding = Columns((Feature("age", missing="indicator"),), Outcome("y"), ("-999",))
    write_table(tmp_path / f"t{kind}", {"age": ["50", "-999", " -999 "], "y": [1, 2, 3]})
    rows = stream(tmp_path / f"t{kind}", coding)
    assert_same_bits(rows, *whole(tmp_path / f"t{kind}", coding))
    ((X, _),) = rows
    np.testing.assert_array_equal(X, [[50, 0], [0, 1], [0, 1]])


def test_numbers_may_be_spelled_in_many_ways(tmp_path):
    spelled = ["+1", " 2 ", "3.", ".5", "1E5", "-0", "1e-400", "\t7", "0" * 400 + "1", "5e-324"]
    path = written(tmp_path, "age,y\n" + "".join(f"{cell},1\n" for cell in spelled))
    assert_same_bits(stream(path), *whole(path, AGE))
    ((X, _),) = stream(path)
    assert X[:, 0].tolist() == [float(cell) for cell in spelled]


def test_a_batch_is_the_callers_to_keep(tmp_path):
    write_table(tmp_path / "t.parquet", {"age": list(range(N)), "y": [0.5] * N})
    kept = list(stream(tmp_path / "t.parquet"))
    kept[0][0][:] = -1.0
    assert kept[1][0][0, 0] == BATCH_ROWS
    assert next(iter(stream(tmp_path / "t.parquet")))[0][0, 0] == 0.0


def test_passes_may_overlap(tmp_path):
    write_table(tmp_path / "t.csv", {"age": list(range(N)), "y": [0.5] * N})
    rows = stream(tmp_path / "t.csv")
    for (X, _), (X_again, _) in zip(rows, rows, strict=True):
        assert X.tobytes() == X_again.tobytes()


# What is refused ------------------------------------------------------------------------------


def complaint(action):
    """The text of a refusal, which shows no cell, not even through what caused it."""
    with pytest.raises(
        DataError, match=r"must |does not exist|cannot be read|Unknown kind"
    ) as caught:
        action()
    text = str(caught.value)
    for planted in (PLANTED, "4711", SECRET):
        assert planted not in text
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return type(caught.value), text


def complaints(path, coding=AGE):
    """What is said of the whole table, and of the stream."""
    streamed = complaint(lambda: list(stream(path, coding)))
    return complaint(lambda: whole(path, coding)), streamed


ROW = f"50,{SECRET},1\n"
DAMAGED = {
    "empty": (b"", "file is empty"),
    "blank": (b"\n \n", "file is empty"),
    "ragged": (f"age,note,y\n{ROW}{PLANTED}\n{ROW}{ROW[:-1]},2\n", "2 row(s) have more or fewer"),
    "open mark": (f'age,note,y\n{ROW}50,1,"{SECRET}\n{ROW}', "close every quotation mark"),
    "open mark in the first column": (f'age,y\n1,2\n"{SECRET}\n1,2\n', "cells in every row"),
    "latin-1": (b"age,note,y\n50,\xe4,1\n", "text in UTF-8"),
    "half a character": ("age,y\n1,ä".encode()[:-1], "text in UTF-8"),
    "utf-16": (f"age,note,y\n{ROW}".encode("utf-16"), "text in UTF-8"),
    "no header": (f"{PLANTED},1,2\n3,4,5\n", "begin with a line of column names"),
    "texts for names": (f"{SECRET},ages\nx,y\n", "Does it begin with the names"),
    "doubled": ("age,age,y\n1,2,3\n", "twice or more: 'age'"),
    "misspelt": ("Age,y\n1,2\n", "did you mean 'Age'?"),
    "no rows": ("age,y\n", "must have rows; its table has none"),
    "zeros": (bytes(200), "must have"),
}


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("zipped", [False, True])
def test_a_stream_complains_of_a_damaged_text_in_the_words_of_the_reader(tmp_path, name, zipped):
    content, words = DAMAGED[name]
    content = content if isinstance(content, bytes) else content.encode()
    path = written(
        tmp_path, gzip.compress(content) if zipped else content, f"t.csv{'.gz' * zipped}"
    )
    expected, streamed = complaints(path)
    assert streamed == expected
    assert words in streamed[1]


MANY = "".join(f"{k}.5,n{k},{k}\n" for k in range(3 * BATCH_ROWS))
LATE = {
    "ragged": (
        f"{PLANTED}\n" + MANY,
        f"2 row(s) have more or fewer, the first is row {3 * BATCH_ROWS + 2}",
    ),
    "open mark": (f'1,2,"{SECRET}\n2,3,4\n', "close every quotation mark"),
    "an open mark and much after it": (f'1,2,"{SECRET}\n' + 2 * MANY, "close every quotation mark"),
    "not UTF-8": (
        f"1,{SECRET}\N{LATIN SMALL LETTER A WITH DIAERESIS},2\n".encode("latin-1"),
        "text in UTF-8",
    ),
    "cut off": (PLANTED, "1 row(s) have more or fewer"),
}


@pytest.mark.parametrize(
    ("name", "zipped"), [*((name, False) for name in LATE), ("ragged", True), ("open mark", True)]
)
def test_damage_far_behind_is_found_in_the_pass_that_reaches_it(tmp_path, name, zipped):
    tail, words = LATE[name]
    again = f"{PLANTED}\n" if name == "ragged" else ""
    content = f"age,note,y\n{MANY}".encode() + (tail if isinstance(tail, bytes) else tail.encode())
    content += again.encode()
    path = written(
        tmp_path, gzip.compress(content) if zipped else content, f"t.csv{'.gz' * zipped}"
    )
    expected, streamed = complaints(path)
    assert streamed == expected
    assert words in streamed[1]


def test_a_row_longer_than_a_block_is_read_in_large_blocks(tmp_path):
    path = written(tmp_path, f'age,note,y\n{MANY}1,"{SECRET}{"x" * 3_000_000}",2\n5,,6\n')
    assert_same_bits(stream(path), *whole(path, AGE))


def test_a_row_longer_than_any_block_is_an_open_mark(tmp_path, monkeypatch):
    monkeypatch.setattr(table_file, "_LARGE_BLOCK_BYTES", 1 << 20)
    path = written(tmp_path, f'age,note,y\n1,"{SECRET}{"x" * 3_000_000}\n2,3,4\n')
    assert "close every quotation mark" in complaint(lambda: list(stream(path)))[1]


@pytest.mark.parametrize("share", [0.001, 0.3, 0.6, 0.9999])
def test_a_compressed_file_that_is_cut_off_is_refused(tmp_path, share):
    content = gzip.compress(f"age,note,y\n{MANY}".encode())
    path = written(tmp_path, content[: int(share * len(content))], "t.csv.gz")
    expected, streamed = complaints(path)
    assert streamed == expected
    assert "cut off, damaged or of another kind" in streamed[1]


def test_a_damaged_compressed_file_is_refused(tmp_path):
    content = bytearray(gzip.compress(f"age,note,y\n{MANY}".encode()))
    content[-6] ^= 1  # in the checksum
    path = written(tmp_path, bytes(content), "t.csv.gz")
    assert "cut off, damaged or of another kind" in complaint(lambda: list(stream(path)))[1]
    path = written(tmp_path, gzip.compress(b"age,y\n1,2\n") + b"tail", "u.csv.gz")
    expected, streamed = complaints(path)
    assert streamed == expected


def parquet(folder, n=3 * BATCH_ROWS, **columns):
    path = folder / "t.parquet"
    rng = np.random.default_rng(1)
    columns = {"age": rng.normal(size=n), "y": rng.normal(size=n), **columns}
    pq.write_table(pa.table(columns), path, row_group_size=10_000, write_page_checksum=True)
    return path


def test_a_parquet_file_cut_off_or_damaged_anywhere_is_refused(tmp_path):
    content = parquet(tmp_path).read_bytes()
    damage = []
    for share in (0.0001, 0.1, 0.5, 0.9, 0.9999):
        position = int(share * len(content))
        damage.append(content[: position + 1])
        damage.append(
            content[:position] + bytes([content[position] ^ 255]) + content[position + 1 :]
        )
    for damaged in damage:
        expected, streamed = complaints(written(tmp_path, damaged, "u.parquet"))
        assert streamed == expected
        assert "must be a whole Parquet file" in streamed[1]


def test_a_parquet_text_that_is_not_utf_8_is_refused(tmp_path):
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe")]
    )
    pq.write_table(pa.table({"age": bad, "y": [1.0]}), tmp_path / "t.parquet")
    expected, streamed = complaints(tmp_path / "t.parquet")
    assert streamed == expected


@pytest.mark.parametrize("kind", FILE_KINDS)
def test_what_is_no_file_is_refused_at_once(tmp_path, kind):
    path = tmp_path / f"t{kind}"
    assert "does not exist" in complaint(lambda: stream(path))[1]
    path.mkdir()
    assert "it is a folder" in complaint(lambda: stream(path))[1]
    assert "the file is empty" in complaint(lambda: stream(written(tmp_path, b"", f"u{kind}")))[1]
    assert "Unknown kind of table" in complaint(lambda: stream(tmp_path / "t.ods"))[1]


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    path = written(tmp_path, "age,y\n1,2\n")
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "cannot be read (PermissionError)" in complaint(lambda: stream(path))[1]


@pytest.mark.parametrize("columns", [{"age": pa.array([0] * 9, pa.date32())}, {"y": [[1.0]] * 9}])
def test_a_column_of_another_type_is_refused(tmp_path, columns):
    expected, streamed = complaints(parquet(tmp_path, 9, **columns))
    assert streamed == expected
    assert "must hold numbers, texts, or true and false; it holds" in streamed[1]


def test_missing_columns_are_suggested(tmp_path):
    coding = Columns((Feature("AGE"), Feature("y")), Outcome("z"))
    expected, streamed = complaints(parquet(tmp_path), coding)
    assert streamed == expected
    assert "missing: 'AGE' (did you mean 'age'?), 'z'" in streamed[1]


def test_a_coding_without_outcome_cannot_be_streamed(tmp_path):
    with pytest.raises(ParameterError, match="'with_outcome' parameter must be False"):
        stream(parquet(tmp_path), Columns((Feature("age"),)))


# What is wrong inside cells -------------------------------------------------------------------


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_cells_that_are_wrong_are_counted_with_the_rows_of_their_batch(tmp_path, kind):
    coding = Columns((Feature("age"), Feature("sex", "levels", ("F", "M"))), Outcome("y"))
    ages, sexes, outcomes = ["50"] * N, ["F"] * N, ["1"] * N
    for row in (BATCH_ROWS, BATCH_ROWS + 5, 2 * BATCH_ROWS - 1):
        ages[row] = ""
    ages[BATCH_ROWS + 7] = SECRET
    sexes[BATCH_ROWS + 1] = SECRET
    outcomes[2 * BATCH_ROWS - 1] = "inf"
    outcomes[2 * BATCH_ROWS] = ""  # in the next batch, which is not reached
    write_table(tmp_path / f"t{kind}", {"age": ages, "sex": sexes, "y": outcomes})
    rows = iter(stream(tmp_path / f"t{kind}", coding))
    assert len(next(rows)[1]) == BATCH_ROWS
    kind_of_error, text = complaint(lambda: next(rows))
    assert kind_of_error is DataError
    one = "1 of its cells in rows 16385 to 32768"
    assert [line.partition(". ")[0] for line in text.splitlines()] == [
        f"Column 'age' of {WHERE} must hold numbers; {one} is text",
        f"Column 'age' of {WHERE} must be complete; {one.replace('1 of', '3 of', 1)} are missing",
        f"Column 'sex' of {WHERE} must hold only its 2 agreed level(s); {one} is something else",
        f"Outcome 'y' of {WHERE} must be finite; {one} is infinite or too large",
    ]


def test_the_last_batch_names_its_own_rows(tmp_path):
    ages = np.ones(N)
    ages[-1] = np.nan
    path = parquet(tmp_path, N, age=ages)
    text = complaint(lambda: list(stream(path)))[1]
    where = f"1 of its cells in rows {2 * BATCH_ROWS + 1} to {N} is missing. See row {N} below"
    assert where in text


# A file that changes --------------------------------------------------------------------------


def test_a_file_that_changes_between_passes_is_refused(tmp_path):
    path = written(tmp_path, "age,y\n1,2\n3,4\n")
    rows = stream(path)
    list(rows)
    written(tmp_path, "age,y\n1,2\n3,4\n5,6\n")
    assert "must stay as it is while a study runs" in complaint(lambda: list(rows))[1]
    path.unlink()
    assert "does not exist" in complaint(lambda: list(rows))[1]


def test_a_time_that_changes_is_a_change(tmp_path):
    path = written(tmp_path, "age,y\n1,2\n3,4\n")
    rows = stream(path)
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    kind, text = complaint(lambda: next(iter(rows)))
    assert kind is TableError
    assert "its size or its time is another" in text


@pytest.mark.parametrize("content", ["age,y\n1,2\n", f"age,y\n{SECRET}"])
def test_a_file_that_changes_during_a_pass_is_refused(tmp_path, content, monkeypatch):
    path = written(tmp_path, f"age,note,y\n{MANY}")
    whole_pass = table_file.text_pieces

    def cut_short(*arguments):
        pieces = whole_pass(*arguments)
        yield next(pieces)
        written(tmp_path, content)
        if SECRET in content:
            raise TableError("It must be whole.")
        yield from pieces

    monkeypatch.setattr(table_file, "text_pieces", cut_short)
    assert "its size or its time is another" in complaint(lambda: list(stream(path)))[1]


def test_another_number_of_rows_is_a_change(tmp_path):
    path = written(tmp_path, "age,y\n1,2\n3,4\n")
    before = path.stat()
    rows = stream(path)
    list(rows)
    written(tmp_path, "age,y\n1,2\n3,45"[:14].ljust(14, "\n"))
    path.write_bytes(b"age,y\n11,22222\n"[: before.st_size - 1] + b"\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert "it had 2 rows and now has 1" in complaint(lambda: list(rows))[1]


# Decoded once ---------------------------------------------------------------------------------


@pytest.fixture
def decoded(monkeypatch):
    """How many passes were decoded so far."""
    passes = []
    real = streams.encoded_batches

    def counted(*arguments, **options):
        passes.append(None)
        return real(*arguments, **options)

    monkeypatch.setattr(streams, "encoded_batches", counted)
    return passes


def test_a_file_that_fits_is_decoded_once(tmp_path, decoded):
    path = parquet(tmp_path)
    rows = DecodedOnce(stream(path))
    expected = [(X.tobytes(), y.tobytes()) for X, y in stream(path)]
    decoded.clear()
    for _ in range(3):
        assert [(X.tobytes(), y.tobytes()) for X, y in rows] == expected
    assert len(decoded) == 1
    with pytest.raises(ValueError, match="read-only"):
        next(iter(rows))[0][:] = 0.0


def test_a_pass_that_was_left_keeps_nothing(tmp_path, decoded):
    rows = DecodedOnce(stream(parquet(tmp_path)))
    for _ in rows:
        break
    assert len(list(rows)) == len(list(rows)) == 3
    assert len(decoded) == 2


@pytest.mark.parametrize("room", [0, 2 * 16 * BATCH_ROWS, 3 * 16 * BATCH_ROWS - 1])
def test_a_file_that_does_not_fit_is_decoded_at_every_pass(tmp_path, decoded, room, monkeypatch):
    monkeypatch.setattr(streams, "KEPT_BYTES", room)
    rows = DecodedOnce(stream(parquet(tmp_path)))
    assert len(list(rows)) == len(list(rows)) == 3
    assert len(decoded) == 2


def test_all_tables_of_a_process_share_the_room(tmp_path, decoded, monkeypatch):
    monkeypatch.setattr(streams, "KEPT_BYTES", 3 * 16 * BATCH_ROWS)
    path = parquet(tmp_path)
    first, second = DecodedOnce(stream(path)), DecodedOnce(stream(path))
    for rows in (first, second, first, second):
        list(rows)
    assert len(decoded) == 3
    del first, rows
    gc.collect()
    for _ in range(2):
        list(second)
    assert len(decoded) == 4


def test_a_kept_file_that_changes_is_refused(tmp_path):
    path = parquet(tmp_path)
    rows = DecodedOnce(stream(path))
    list(rows)
    parquet(tmp_path, n=5)
    assert "its size or its time is another" in complaint(lambda: list(rows))[1]


# Memory and threads ---------------------------------------------------------------------------


def our_threads():
    return [thread for thread in threading.enumerate() if thread.name == "fedcsa-prefetch"]


def open_files():
    """How many, where this can be told."""
    return len(list(Path("/proc/self/fd").glob("*")))


@pytest.mark.parametrize("kind", [".parquet", ".csv"])
def test_the_memory_taken_does_not_grow_with_the_table(tmp_path, kind):
    features = [f"x{k}" for k in range(6)]
    coding = Columns(tuple(map(Feature, features)), Outcome("y"))
    taken = {}
    for n_batches in (10, 40):
        n = n_batches * BATCH_ROWS
        path = tmp_path / f"t{n_batches}{kind}"
        table = pa.table(dict.fromkeys([*features, "y"], np.arange(n) / 7))
        if kind == ".parquet":  # one row group, which must not be held either
            pq.write_table(table, path, row_group_size=n, use_dictionary=False)
        else:
            pa_csv.write_csv(table, path)
        del table
        gc.collect()
        before = pa.total_allocated_bytes()
        tracemalloc.start()
        peak = 0
        for _ in stream(path, coding):
            peak = max(peak, pa.total_allocated_bytes() - before)
        taken[n_batches] = peak + tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    batch = BATCH_ROWS * 7 * 8
    if kind == ".parquet":
        assert taken[40] < 14 * batch
        # How far it is read ahead when somebody looks is chance; the table grew by 30 batches.
        assert taken[40] < taken[10] + 6 * batch
    else:
        assert taken[40] < 60e6  # pyarrow reads blocks ahead, and no further
        assert taken[40] < path.stat().st_size


def test_an_abandoned_pass_ends_its_thread_and_closes_its_file(tmp_path):
    for kind in (".parquet", ".csv", ".csv.gz"):
        path = tmp_path / f"t{kind}"
        write_table(path, {"age": np.arange(8.0 * BATCH_ROWS), "y": np.full(8 * BATCH_ROWS, 0.5)})
        before = open_files()
        for rows in (iter(stream(path)), iter(stream(path))):
            next(rows)
            assert len(our_threads()) == 1
            rows.close()
            assert our_threads() == []
        for _ in stream(path):
            break
        gc.collect()
        assert our_threads() == []
        assert open_files() == before


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc/self/fd")
@pytest.mark.parametrize("kind", [".parquet", ".csv", ".csv.gz"])
def test_an_error_that_is_kept_keeps_no_file_open(tmp_path, kind):
    ages = [*[50.0] * BATCH_ROWS, *["missing"] * 7 * BATCH_ROWS]
    path = tmp_path / f"t{kind}"
    write_table(path, {"age": list(map(str, ages)), "y": [0.5] * len(ages)})
    with pytest.raises(DataError, match="must hold numbers") as kept:
        list(stream(path))
    links = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert path not in links
    del kept


def test_a_pass_that_is_not_begun_has_no_thread(tmp_path):
    rows = iter(stream(parquet(tmp_path)))
    assert our_threads() == []
    del rows


def test_a_finished_and_a_failed_pass_leave_no_thread(tmp_path):
    list(stream(parquet(tmp_path)))
    complaint(lambda: list(stream(parquet(tmp_path, 9, age=[np.nan] * 9))))
    assert our_threads() == []


def test_only_a_few_items_are_made_ahead():
    made, asked = [], threading.Event()

    def numbers():
        for number in range(20):
            made.append(number)
            if len(made) >= 1 + AHEAD:
                asked.set()
            yield number

    items = prefetched(numbers)
    assert next(items) == 0
    assert asked.wait(600)
    threading.Event().wait(0.05)
    assert len(made) <= 1 + AHEAD
    assert list(items) == list(range(1, 20))


def test_an_error_comes_after_the_items_before_it():
    def failing():
        yield 1
        raise ZeroDivisionError("here")

    items = prefetched(failing)
    assert next(items) == 1
    with pytest.raises(ZeroDivisionError, match="here"):
        next(items)
    with pytest.raises(ZeroDivisionError, match="division"):
        list(prefetched(lambda: (1 // 0 for _ in range(3))))
    with pytest.raises(TypeError, match="not iterable"):
        list(prefetched(lambda: iter(None)))
    assert our_threads() == []

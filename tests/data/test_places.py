"""The same rows as CSV, Parquet and Excel, in DuckDB, SQLite and PostgreSQL: one study result."""

import datetime as dt
import sqlite3
import zipfile
from decimal import Decimal
from xml.sax.saxutils import escape

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedcsa.data.coding import Columns
from fedcsa.data.databases import open_database
from fedcsa.data.streams import read_rows
from fedcsa.data.tables import open_table, write_table
from fedcsa.errors import DataError, ParameterError, TableError
from fedcsa.study import Study

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("adbc_driver_postgresql")
pytest.importorskip("fastexcel")

SECRET, N = "SECRET-4711", 240
QUERY = "SELECT * FROM stays ORDER BY id"
STUDY = """
name = "places"
[outcome]
name = "days"
[features]
id = "id"
age = "number"
dose = "number"
sex = {{ levels = ["F", "M"] }}
ward = {{ levels = ["01", "1", "2"] }}
smoker = "flag"
sbp = {{ kind = "number", missing = "indicator", fill = 130 }}
admitted = {{ kind = "date", since = "2020-01-01" }}
[model]
name = "ridge"
[target]
{place}
[sources.north]
{place}
[sources.south]
{place}
"""
PLACES = ("csv", "csv.gz", "tsv", "parquet", "xlsx", "duckdb", "sqlite", "postgresql")


def stays(n=N):
    """Rows of every kind of column, the outcome last; doses are numbers of two decimals."""
    rng = np.random.default_rng(5)
    age = rng.normal(60, 10, n)
    dose = [Decimal(int(value)) / 100 for value in rng.integers(1, 3000, n)]
    sex = [("F", "M")[int(value)] for value in rng.integers(0, 2, n)]
    return {
        "id": list(range(n)),
        "age": age.tolist(),
        "dose": dose,
        "sex": sex,
        "ward": [("01", "1", "2")[k % 3] for k in range(n)],
        "smoker": [k % 4 == 0 for k in range(n)],
        "sbp": [None if k % 9 == 0 else 100.0 + k % 50 for k in range(n)],
        "admitted": [dt.date(2021, 1, 1) + dt.timedelta(days=k) for k in range(n)],
        "days": (0.1 * age + np.array([float(d) for d in dose]) + rng.normal(size=n)).tolist(),
    }


def write_xlsx(path, sheets):
    """A workbook with one table a sheet, as spreadsheet programs write it."""

    def cell(value):
        if value is None:
            return "<c/>"
        if isinstance(value, bool):
            return f'<c t="b"><v>{int(value)}</v></c>'
        if isinstance(value, dt.date):
            return f'<c s="1"><v>{(value - dt.date(1899, 12, 30)).days}</v></c>'
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t>{escape(value)}</t></is></c>'
        return f"<c><v>{value!r}</v></c>" if isinstance(value, float) else f"<c><v>{value}</v></c>"

    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    names, targets = [], []
    with zipfile.ZipFile(path, "w") as book:
        for number, (name, columns) in enumerate(sheets.items(), start=1):
            lines = [list(columns), *zip(*columns.values(), strict=True)]
            rows = "".join(f"<row>{''.join(map(cell, line))}</row>" for line in lines)
            text = f'<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>'
            book.writestr(f"xl/worksheets/sheet{number}.xml", text)
            names.append(f'<sheet name="{name}" sheetId="{number}" r:id="rId{number}"/>')
            targets.append(
                f'<Relationship Id="rId{number}" Type="{office}/worksheet" '
                f'Target="worksheets/sheet{number}.xml"/>'
            )
        book.writestr(
            "xl/styles.xml",
            f'<styleSheet xmlns="{main}"><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>'
            "</styleSheet>",
        )
        book.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>{"".join(names)}</sheets>'
            "</workbook>",
        )
        styles = f'<Relationship Id="s" Type="{office}/styles" Target="styles.xml"/>'
        book.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{package}/relationships">{"".join(targets)}{styles}'
            "</Relationships>",
        )
        book.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="w" '
            f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        )
        book.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{package}/content-types"><Default Extension="xml" '
            'ContentType="application/xml"/></Types>',
        )


def run_sql(address, *statements):
    import adbc_driver_postgresql.dbapi as driver

    with driver.connect(address) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        connection.commit()


def literal(value):
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, bool | int | float | Decimal) else f"'{value}'"


def insert(table, columns):
    lines = zip(*columns.values(), strict=True)
    rows = ", ".join(f"({', '.join(map(literal, line))})" for line in lines)
    return f"INSERT INTO {table} VALUES {rows}"  # noqa: S608


TYPES = (
    "id INTEGER PRIMARY KEY, age DOUBLE PRECISION, dose NUMERIC(10, 2), sex TEXT, ward TEXT, "
    "smoker BOOLEAN, sbp DOUBLE PRECISION, admitted DATE, days DOUBLE PRECISION"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The stays as files and in the databases that are files."""
    folder = tmp_path_factory.mktemp("places")
    columns = stays()
    texts = {
        name: [None if c is None else str(c) for c in cells] for name, cells in columns.items()
    }
    for kind in ("csv", "csv.gz", "tsv"):
        write_table(folder / f"stays.{kind}", texts)
    pq.write_table(pa.table(columns), folder / "stays.parquet")
    numbers = {**columns, "dose": [float(dose) for dose in columns["dose"]]}
    write_xlsx(folder / "stays.xlsx", {"stays": numbers})
    with duckdb.connect(str(folder / "stays.duckdb")) as connection:
        connection.execute(f"CREATE TABLE stays ({TYPES})")
        connection.execute(insert("stays", columns))
    with sqlite3.connect(folder / "stays.sqlite") as connection:
        connection.execute(f"CREATE TABLE stays ({TYPES})")
        connection.execute(insert("stays", columns))
    connection.close()
    return folder


@pytest.fixture(scope="module")
def server(postgresql):
    run_sql(postgresql, f"CREATE TABLE stays ({TYPES})", insert("stays", stays()))
    return postgresql


def place_of(kind, request):
    if kind in ("duckdb", "sqlite"):
        return {"database": f"stays.{kind}", "query": QUERY}
    if kind == "postgresql":
        return {"database": request.getfixturevalue("server"), "query": QUERY}
    return {"table": f"stays.{kind}"}


def study_of(kind, folder, request):
    lines = "\n".join(f'{key} = "{value}"' for key, value in place_of(kind, request).items())
    return Study.parse(STUDY.format(place=lines), folder=folder)


def answer(study, *, stream):
    found = study.run(stream=stream)
    X = study.read_target()
    return found.predict(X).tobytes(), found.table.mean.tobytes(), found.source_weights


# One result -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def held(folder, request):
    return answer(study_of("csv", folder, request), stream=False)


@pytest.mark.parametrize("kind", PLACES)
def test_every_place_gives_the_same_bits(kind, folder, held, request):
    study = study_of(kind, folder, request)
    assert study.read_source("north")[0].shape == (N, 9)
    assert answer(study, stream=False) == held


@pytest.mark.parametrize("kind", ["csv", "parquet", "xlsx", "duckdb", "sqlite", "postgresql"])
def test_streamed_too(kind, folder, held, request):
    predicted, mean, weights = answer(study_of(kind, folder, request), stream=True)
    assert mean == held[1]
    assert weights == pytest.approx(held[2], rel=1e-12)
    np.testing.assert_allclose(np.frombuffer(predicted), np.frombuffer(held[0]), rtol=1e-12)


@pytest.mark.parametrize("kind", PLACES)
def test_every_place_tells_its_columns(kind, folder, request):
    assert open_table(place_of(kind, request), folder=folder).columns() == tuple(stays(1))


# Excel ------------------------------------------------------------------------------------------


def test_a_sheet_is_found_by_its_name(tmp_path):
    sheets = {"one": {"a": [1, 2]}, "two": {"a": [3.5], "b": ["x"]}}
    write_xlsx(tmp_path / "t.xlsx", sheets)
    table = open_table({"table": "t.xlsx", "sheet": "two"}, folder=tmp_path)
    assert table.read(["b", "a"]).to_pydict() == {"b": ["x"], "a": [3.5]}
    with pytest.raises(TableError, match=r"has 2 sheets; one must be named"):
        open_table(tmp_path / "t.xlsx").read()
    with pytest.raises(TableError, match=r"the sheet 'tow'\. Did you mean 'two'"):
        open_table({"table": "t.xlsx", "sheet": "tow"}, folder=tmp_path).read()
    write_table(tmp_path / "t.csv", {"a": [1]})
    with pytest.raises(ParameterError, match="Only an Excel workbook has sheets"):
        open_table({"table": "t.csv", "sheet": "two"}, folder=tmp_path)


def test_a_column_twice_in_a_sheet_is_refused(tmp_path):
    write_xlsx(tmp_path / "t.xlsx", {"s": {"a": [1], "b": [2]}})
    content = (tmp_path / "t.xlsx").read_bytes()
    with (
        zipfile.ZipFile(tmp_path / "t.xlsx") as old,
        zipfile.ZipFile(tmp_path / "u.xlsx", "w") as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b"<t>b</t>", b"<t>a</t>"))
    assert content
    with pytest.raises(DataError, match="must have every column once"):
        open_table(tmp_path / "u.xlsx").read(["a"])


def test_a_text_in_the_last_row_makes_a_column_of_texts(tmp_path):
    write_xlsx(tmp_path / "t.xlsx", {"s": {"a": [*range(1500), SECRET]}})
    coding = Columns({"a": "number"})
    with pytest.raises(DataError, match="1 of its 1501 cells is text") as caught:
        read_rows(open_table(tmp_path / "t.xlsx"), coding, "it", with_outcome=False)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("content", [b"PK\3\4 no book", SECRET.encode()])
def test_what_is_no_workbook_is_refused(tmp_path, content):
    (tmp_path / "t.xlsx").write_bytes(content)
    with pytest.raises(TableError, match="must be a whole Excel workbook") as caught:
        open_table(tmp_path / "t.xlsx").read()
    assert SECRET not in str(caught.value)
    with pytest.raises(TableError, match="is only read"):
        write_table(tmp_path / "u.xlsx", {"a": [1]})


# PostgreSQL -------------------------------------------------------------------------------------


def read(server, query, columns=None):
    return open_table({"database": server, "query": query}, whose="source 'a'").read(columns)


def test_the_types_of_a_server(server):
    query = """
        SELECT 1.10::numeric AS exact, 'NaN'::numeric AS nan, DATE '2020-02-03' AS day,
          TIMESTAMP '2020-02-03 04:05' AS moment, TRUE AS flag, NULL::text AS nothing,
          'ab'::char(4) AS padded, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid AS key,
          NULL::uuid AS no_key, 7::bigint AS whole ORDER BY 1
    """
    assert read(server, query).to_pylist() == [
        {
            "exact": "1.10",
            "nan": "nan",
            "day": dt.date(2020, 2, 3),
            "moment": dt.datetime(2020, 2, 3, 4, 5),
            "flag": True,
            "nothing": None,
            "padded": "ab",
            "key": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "no_key": None,
            "whole": 7,
        }
    ]


def test_an_enum_is_read_by_its_levels(server):
    run_sql(server, "CREATE TYPE sexes AS ENUM ('F', 'M')")
    rows = read(server, "SELECT sex::sexes AS sex FROM stays ORDER BY id")
    X, _ = Columns({"sex": ["F", "M"]}).encode(rows, "it", with_outcome=False)
    assert X[:, 0].tolist() == [float(sex == "M") for sex in stays()["sex"]]


@pytest.mark.parametrize("cell", ["ARRAY[1, 2]", "'{}'::jsonb", "'1 day'::interval", "'x'::bytea"])
def test_other_types_are_refused_by_the_column_s_name(server, cell):
    rows = read(server, f"SELECT {cell} AS odd ORDER BY 1")
    with pytest.raises(DataError, match="Column 'odd' of it must hold numbers"):
        Columns({"odd": "number"}).encode(rows, "it", with_outcome=False)


def test_money_is_refused_by_the_column_s_name(server):
    with pytest.raises(DataError, match="no column of the type money; 'price' is one"):
        read(server, "SELECT 12::money AS price ORDER BY 1")


@pytest.mark.parametrize(
    "query",
    [
        "WITH a AS (INSERT INTO stays (id) VALUES (-1) RETURNING id) SELECT * FROM a",
        "SELECT set_config('transaction_read_only', 'off', false)",
    ],
)
def test_the_server_itself_refuses_to_write(server, query):
    def ask():
        with open_database(server).reading(query) as reader:
            reader.read_all()

    with pytest.raises(Exception, match=r"read-only transaction|must be set before any query"):
        ask()
    assert read(server, "SELECT COUNT(*) AS n FROM stays ORDER BY 1").to_pydict() == {"n": [N]}


def test_an_error_of_the_server_shows_neither_cell_nor_address(server):
    for address, query in (
        (server, "SELECT CAST(sex AS INTEGER) AS age FROM stays ORDER BY 1"),
        (server, "SELECT * FROM nothing ORDER BY 1"),
        (server.replace("@", f"{SECRET}@"), QUERY.replace("stays", "pg_authid_")),
        (f"postgresql://{SECRET}@127.0.0.1:1/db", QUERY),
    ):
        with pytest.raises(
            TableError, match=r"^Source 'a' must have a query .* fails \("
        ) as caught:
            read(address, query)
        text = str(caught.value)
        assert "127.0.0.1" not in text
        assert SECRET not in text
        assert caught.value.__suppress_context__


def test_a_server_that_gives_other_rows_is_a_change(server, folder, request):
    study = study_of("postgresql", folder, request)
    rows = study.stream_source("north")
    assert sum(len(y) for _, y in rows) == N
    run_sql(server, "UPDATE stays SET days = days + 1e-9 WHERE id = 7")
    with pytest.raises(TableError, match="its rows are others than at the last pass"):
        list(rows)
    run_sql(server, "UPDATE stays SET days = days - 1e-9 WHERE id = 7")


# Decimals ---------------------------------------------------------------------------------------


def test_decimals_are_read_to_the_bit(tmp_path):
    rng = np.random.default_rng(1)
    numbers = [Decimal(int(value)).scaleb(-3) for value in rng.integers(-(10**12), 10**12, 3000)]
    pq.write_table(pa.table({"a": numbers}), tmp_path / "t.parquet")
    X, _ = read_rows(
        open_table(tmp_path / "t.parquet"), Columns({"a": "number"}), "it", with_outcome=False
    )
    assert X[:, 0].tolist() == [float(str(number)) for number in numbers]


def test_numbers_among_texts_of_a_sheet_keep_all_digits(tmp_path):
    cells = [1.2345678901234, "?", 17057012345, "007", 0.1 + 0.2, 1e-12, None, "1.50"]
    write_xlsx(tmp_path / "t.xlsx", {"t": {"n": [1.0] * len(cells), "x": cells}})
    found = open_table(tmp_path / "t.xlsx").read(["x"])["x"].to_pylist()
    assert found == [
        "1.2345678901234", "?", "17057012345", "007", "0.30000000000000004", "1e-12", None, "1.50",
    ]  # fmt: skip

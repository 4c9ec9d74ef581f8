"""A study that is seen to be sound without numpy is sound, too, where everything is looked at."""

import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedcsa.study import Study
from fedcsa.study.plain_study import unused_if_sound

NAMES = ("age", "bmi", "y")


def write_tables(folder, rows=60):
    for index, table in enumerate(("a", "b", "c", "new")):
        cells = np.random.default_rng(index).normal(5.0, 1.0, (rows, 3)).round(4)
        lines = [",".join(NAMES), *(",".join(map(str, row)) for row in cells)]
        (folder / f"{table}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


STUDY = """\
name = "plain"
seed = 1
[outcome]
name = "y"
[features]
age = "number"
bmi = "number"
[model]
name = "ridge"
[target]
table = "new.csv"
[sources.a]
table = "a.csv"
[sources.b]
table = "b.csv"
[sources.c]
table = "c.csv"
"""


@pytest.fixture
def study(tmp_path):
    write_tables(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    return tmp_path / "study.toml"


def looked_at(path):
    """What a closer look says: problems, warnings, unused columns."""
    study = Study.load(path)
    problems, warnings = study.check()
    return problems, warnings, () if problems else study.unused_columns()


def agree(path):
    """Whether the quick look claims nothing that the closer one does not find."""
    quick = unused_if_sound(path)
    return quick is None or looked_at(path) == ([], [], quick)


def test_a_plain_study_is_sound_and_loads_nothing_that_computes(study):
    assert unused_if_sound(study) == ()
    assert looked_at(study) == ([], [], ())
    code = "import sys; from fedcsa.cli.app import app\ntry: app()\nfinally: print(*sys.modules)"
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", code, "check", str(study)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("Nothing stands in the way.")
    loaded = set(done.stdout.split())
    assert not loaded & {"numpy", "scipy", "sklearn", "pandas", "pyarrow", "pydantic"}


def test_columns_that_are_not_used_are_named_in_the_same_order(study):
    for table, name in (("b", "zeta"), ("new", "alpha"), ("a", "mid")):
        path = study.with_name(f"{table}.csv")
        first, *lines = path.read_text().splitlines()
        lines = [f"text {index},{line}" for index, line in enumerate(lines)]
        path.write_text("\n".join([f"{name},{first}", *lines]) + "\n")
    assert unused_if_sound(study) == ("mid", "zeta", "alpha")
    assert looked_at(study) == ([], [], ("mid", "zeta", "alpha"))


CELLS = (
    "", " ", "NA", "nan", "-nan", "inf", "-Infinity", "1e999", "1e31", "1e61", "1_0", "٣", "１",
    "0x10", " 1", "1 ", "1e", "e5", ".", "-", "+1", "1.", ".5", "1E-3", "1e-400", "1,5", '"1"', '"',
    "1;2", "text", "\t1", "\x00", "\ufeff1", "1\r", "\x851", "1\u20282", "\n", "--1", "1e5.2",
)  # fmt: skip


@pytest.mark.parametrize("cell", CELLS, ids=ascii)
@pytest.mark.parametrize("table", ["a", "new"])
@pytest.mark.parametrize("row", [1, -1])
def test_a_strange_cell_is_left_to_the_closer_look_or_sound_in_both(cell, table, row, study):
    path = study.with_name(f"{table}.csv")
    lines = path.read_text().splitlines()
    lines[row] = ",".join([cell, *lines[row].split(",")[1:]])
    path.write_bytes(("\n".join(lines) + "\n").encode())
    assert agree(study)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    text=st.text(max_size=6),
    row=st.integers(0, 60),
    column=st.integers(0, 2),
    table=st.sampled_from(["a", "new"]),
)
def test_whatever_stands_in_a_cell(study, text, row, column, table):
    write_tables(study.parent)
    path = study.with_name(f"{table}.csv")
    lines = path.read_text().splitlines()
    cells = lines[row].split(",")
    cells[column] = text
    lines[row] = ",".join(cells)
    path.write_bytes(("\n".join(lines) + "\n").encode(errors="surrogatepass"))
    assert agree(study)


def of_lines(edit):
    """An edit of the lines of a table."""

    def change(folder):
        for table in ("a", "new"):
            path = folder / f"{table}.csv"
            path.write_text("\n".join(edit(path.read_text().splitlines())) + "\n")

    return change


def of_column(number, edit):
    """An edit of every cell of a column of source a."""

    def change(folder):
        path = folder / "a.csv"
        first, *lines = path.read_text().splitlines()
        rows = [line.split(",") for line in lines]
        for row in rows:
            row[number] = edit(row[number])
        path.write_text("\n".join([first, *(",".join(row) for row in rows)]) + "\n")

    return change


def of_study(old, new):
    """Another text in the study file."""

    def change(folder):
        path = folder / "study.toml"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return change


#: What a closer look must see, every one.
WRONG = {
    "a row is cut off": of_lines(lambda lines: [*lines[:-1], lines[-1].rpartition(",")[0]]),
    "a row is too long": of_lines(lambda lines: [*lines, lines[-1] + ",1"]),
    "a blank line": of_lines(lambda lines: [*lines[:5], "", *lines[5:]]),
    "no rows": of_lines(lambda lines: lines[:1]),
    "no header": of_lines(lambda lines: lines[1:]),
    "one row": of_lines(lambda lines: lines[:2]),
    "four rows": of_lines(lambda lines: lines[:5]),
    "semicolons": of_lines(lambda lines: [line.replace(",", ";") for line in lines]),
    "a column twice": of_lines(lambda lines: [f"{line},{line.split(',')[0]}" for line in lines]),
    "a column under another name": of_lines(lambda lines: ["Age,bmi,y", *lines[1:]]),
    "all rows alike": of_lines(lambda lines: [lines[0], *([lines[1]] * 60)]),
    "another unit": of_column(0, lambda cell: str(1000.0 * float(cell))),
    "a far site": of_column(0, lambda cell: str(40.0 + float(cell))),
    "a tiny outcome": of_column(2, lambda _: "1e-70"),
    "no table": lambda folder: (folder / "a.csv").unlink(),
    "an empty table": lambda folder: (folder / "a.csv").write_text(""),
    "a folder": lambda folder: ((folder / "a.csv").unlink(), (folder / "a.csv").mkdir()),
    "not UTF-8": lambda folder: (folder / "a.csv").write_bytes(b"age,bmi,y\n1,2,\xff\n"),
    "another feature": of_study('bmi = "number"', 'weight = "number"'),
    "a feature is the outcome": of_study('bmi = "number"', 'y = "number"'),
    "levels": of_study('bmi = "number"', 'bmi = ["a", "b"]'),
    "an unknown kind": of_study('bmi = "number"', 'bmi = "numbr"'),
    "an unknown key": of_study("seed = 1", "sead = 1"),
    "a wrong option": of_study("seed = 1", "level = 3"),
    "a wrong seed": of_study("seed = 1", "seed = -1"),
    "true is no seed": of_study("seed = 1", "seed = true"),
    "no name": of_study('name = "plain"', 'name = ""'),
    "an unknown model": of_study('name = "ridge"', 'name = "rigde"'),
    "a rule": of_study("[model]", "[policy]\nmin_fold_rows = 500\n[model]"),
    "a source called target": of_study("[sources.a]", "[sources.target]"),
    "two sources": of_study('[sources.c]\ntable = "c.csv"\n', ""),
    "no sources": of_study(STUDY[STUDY.index("[sources") :], ""),
    "a list of sources": of_study("[sources.a]", "[[sources]]\n[sources.a]"),
    "a path that is a number": of_study('table = "a.csv"', "table = 3"),
    "not TOML": of_study("[model]", "[model"),
    "brackets without end": of_study("[model]", "deep = " + "[" * 5000 + "\n[model]"),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_what_is_not_plain_takes_a_closer_look(change, study):
    change(study.parent)
    assert unused_if_sound(study) is None


def test_a_closer_look_is_taken_with_options_of_the_command(study, invoke_check):
    assert invoke_check(study, "--set", "level=3").returncode == 3
    assert invoke_check(study, "--preset", "paper").returncode == 0


@pytest.fixture
def invoke_check():
    def call(*arguments):
        command = [sys.executable, "-m", "fedcsa", "check", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603

    return call


def test_both_looks_answer_in_the_same_words(study, invoke_check):
    def said(done):
        return done.returncode, re.sub("study.*toml", "", done.stdout), done.stderr

    assert unused_if_sound(study) is not None
    quick = invoke_check(study)
    closer = study.with_name("study-2.toml")
    closer.write_text(STUDY.replace("seed = 1", "seed = 1\nlevel = 0.9"))
    assert unused_if_sound(closer) is None
    assert said(quick) == said(invoke_check(closer))

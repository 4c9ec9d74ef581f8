"""On a terminal: colour unless it is unwelcome, and progress that names the site."""

import contextlib
import io
import os
import re
import shutil
import sys
import threading
from pathlib import Path

import pytest

from fedcsa.cli.app import app

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")

COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7](;[0-9]+)*m")


@pytest.fixture
def on_a_terminal(monkeypatch):
    """What the program writes to `stream` if that is a terminal; it runs in this process."""

    def run(*arguments, stream="stdout", code=0, **environment):
        for name in ("NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name, raising=False)
        settings = {"TERM": "xterm-256color", "COLUMNS": "100", **environment}
        with monkeypatch.context() as patch:
            for name, value in settings.items():
                patch.setenv(name, value)
            other = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
            patch.setattr(sys, "stdout" if stream == "stderr" else "stderr", other)
            leader, follower = pty.openpty()
            pieces = []
            reader = threading.Thread(target=read_all, args=(leader, pieces))
            reader.start()
            with open(follower, "w", encoding="utf-8") as terminal:  # noqa: PTH123 - no path
                patch.setattr(sys, stream, terminal)
                with pytest.raises(SystemExit) as end:
                    app([str(word) for word in arguments])
            reader.join()
        shown = b"".join(pieces).decode("utf-8", "replace")
        assert (end.value.code or 0) == code, shown
        return shown

    return run


def read_all(leader, pieces):
    """Read what comes through a pseudo-terminal until its other end is closed."""
    with contextlib.suppress(OSError):  # it is closed
        while piece := os.read(leader, 4096):
            pieces.append(piece)
    os.close(leader)


@pytest.fixture
def study(finished) -> Path:
    return finished() / "study.toml"


PLAIN = [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}]


def test_colour_is_for_terminals(on_a_terminal, study):
    assert COLOUR.search(on_a_terminal("check", study))


@pytest.mark.parametrize("environment", PLAIN, ids=str)
@pytest.mark.parametrize(
    "arguments", [("check",), ("--help",), ("run", "--help"), ("site", "--help"), ()], ids=" ".join
)
def test_no_escape_code_where_they_are_unwelcome(on_a_terminal, arguments, environment, study):
    words = (*arguments, study) if arguments == ("check",) else arguments
    shown = on_a_terminal(*words, **environment)
    assert len(shown) > 20
    assert "\x1b" not in shown


@pytest.mark.parametrize("environment", PLAIN, ids=str)
def test_progress_without_escape_codes_is_lines(on_a_terminal, environment, study, tmp_path):
    shown = on_a_terminal("run", study, "-o", tmp_path / "r", stream="stderr", **environment)
    assert "\x1b" not in shown
    lines = shown.splitlines()
    assert lines[0] == "reading the tables"
    phases = ("1 of 3, risk numbers", "2 of 3, one model", "3 of 3, the others' models")
    assert lines[1:] == [f"phase {phase}: {name}" for phase in phases for name in "abc"]


@pytest.mark.parametrize(("every", "shown"), [(-1.0, True), (3600.0, False)])
def test_long_fits_of_a_source_are_lines_now_and_then(every, shown, monkeypatch, capsys):
    from fedcsa.cli import common

    monkeypatch.setattr(common, "_LINE_EVERY", every)
    monkeypatch.setattr(common.Output, "_progress_kind", lambda _: "lines")
    with common.Output(json=False, quiet=False).progress(2) as progress:
        for state in ("started", "12 of 400 fits", "done"):
            progress("risk", "north", state)
    lines = capsys.readouterr().err.splitlines()[1:]
    said = "phase 1 of 3, risk numbers: north"
    assert lines == [said, f"{said}, 12 of 400 fits"][: 1 + shown]


@pytest.mark.parametrize("environment", PLAIN, ids=str)
def test_an_error_without_escape_codes_is_a_line(on_a_terminal, environment, tmp_path):
    words = ("check", tmp_path / "no.toml")
    shown = on_a_terminal(*words, stream="stderr", code=3, **environment)
    assert shown.startswith("error: The study file")
    assert "\x1b" not in shown


def test_wrong_usage_is_coloured_on_a_terminal_only(on_a_terminal, script):
    assert COLOUR.search(on_a_terminal("rum", stream="stderr", code=2))
    assert "\x1b" not in script("rum").stderr


def test_progress_names_the_phase_on_standard_error(on_a_terminal, study, tmp_path):
    shown = on_a_terminal("run", study, "--out", tmp_path / "r", stream="stderr")
    assert "phase" in shown or "starting" in shown
    assert on_a_terminal("run", study, "-o", tmp_path / "r", "--quiet", stream="stderr") == ""


def test_progress_is_shown_beside_json_and_apart_from_it(on_a_terminal, study, tmp_path):
    words = ("run", study, "-o", tmp_path / "r", "--json")
    shown = on_a_terminal(*words, stream="stderr")
    assert "reading the tables" in shown
    assert "{" not in shown


@pytest.mark.parametrize("command", ["backtest", "predict", "check", "followup", "update"])
def test_long_work_says_what_it_does(on_a_terminal, command, study, tmp_path):
    folder = shutil.copytree(study.parent, tmp_path / "s")
    words = {
        "backtest": (folder / "study.toml",),
        "check": (folder / "study.toml",),
        "predict": (folder / "result", folder / "new.csv"),
        "followup": (folder / "result", folder / "new.csv", "--n", 5, "-o", tmp_path / "l.csv"),
        "update": (folder / "result", folder / "later.csv"),
    }[command]
    says = "predicting" if command == "predict" else "reading"
    assert says in on_a_terminal(command, *words, stream="stderr")
    (tmp_path / "l.csv").unlink(missing_ok=True)  # a list that exists is not written over
    assert on_a_terminal(command, *words, "-q", stream="stderr") == ""


def test_a_long_name_breaks_where_its_words_end_and_fits_eighty_columns():
    from rich.console import Console

    from fedcsa.cli.ledger_command import fields_table

    name = "model.standardscaler__polynomialfeatures__logisticregression.coefficients"
    row = (name, "120 × 3", "parameter of the model:\n[[1.0, 2.0, 3.123456789]]", "rows, outcomes")
    screen = Console(width=80, record=True, file=io.StringIO())
    title = "what left Saint_" + "Elizabeth" * 10 + "_East"
    screen.print(fields_table(title, [row, ("x" * 60, "1", "", "")]))
    lines = screen.export_text().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert "".join(lines).replace(" ", "").startswith(title.replace(" ", ""))
    words = " ".join("\n".join(lines).split())
    for part in ("model.standardscaler__", "polynomialfeatures__", "logisticregression."):
        assert f" {part} " in words
    assert "3.123456789]]" in words


def test_a_long_name_in_a_table_of_the_answer_is_folded_and_not_cut():
    from rich.console import Console

    from fedcsa.answer.result_tables import Table
    from fedcsa.answer.terminal import print_table

    name = "University_Hospital_" * 5
    screen = Console(width=80, record=True, file=io.StringIO())
    print_table(
        screen, Table("Sources", ("source", *"abc"), [(name, *["0.123 (0.1 to 0.2)"] * 3)], (0,))
    )
    lines = screen.export_text().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert "".join(line[:14].strip() for line in lines[2:]).startswith(name[:10])
    assert "…" not in "".join(lines)


def test_predicting_says_how_many_rows_are_done_and_of_how_many(finished, tmp_path):
    import pyarrow.csv
    import pyarrow.parquet

    from fedcsa.cli.predict_command import _told
    from fedcsa.data.tables import open_table

    pyarrow.parquet.write_table(
        pyarrow.csv.read_csv(finished() / "new.csv"), tmp_path / "new.parquet"
    )
    for table, words in (
        (tmp_path / "new.parquet", "40 of 40 rows"),
        (finished() / "new.csv", "40 rows"),
    ):
        told = []
        pieces = [{"prediction": [0.0] * 25}, {"prediction": [0.0] * 15}]
        assert [*_told(pieces, open_table(table).n_rows(), told.append)] == pieces
        assert told[-1] == words


def test_a_bar_counts_its_steps(on_a_terminal, study, tmp_path):
    shown = on_a_terminal("run", study, "-o", tmp_path / "r", stream="stderr")
    assert "of 9 steps" in shown

"""Every benchmark runs in its quick form and says what its table must say. No time is asserted."""

import contextlib
import functools
import importlib
import io
import json
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.__main__ import BUDGETS, ended  # noqa: E402
from benchmarks.bars import BARS  # noqa: E402
from benchmarks.harness import (  # noqa: E402
    Taken,
    compared,
    exponent,
    interleaved,
    last_decade,
    read_table,
)

from benchmarks import peers, profiles, stream  # noqa: E402
from fedcsa import Study  # noqa: E402
from fedcsa.cli.app import main as fedcsa_main  # noqa: E402


def in_this_process(command, cwd):
    """What a Python program would print and return in a process of its own."""
    _, way, program, *words = command
    came, code = io.StringIO(), 0
    with (
        contextlib.chdir(cwd),
        mock.patch.object(sys, "argv", [program, *words]),
        contextlib.redirect_stdout(came),
        warnings.catch_warnings(action="ignore"),
    ):
        try:
            if way == "-c":
                exec(program, {"__name__": "__main__"})  # noqa: S102 - of our own scripts
            elif program == "fedcsa":
                fedcsa_main()
            else:
                importlib.import_module(program).main(words)
        except SystemExit as ended:
            code = ended.code or 0
    assert not code or program != "fedcsa"
    return subprocess.CompletedProcess(command, code, came.getvalue(), "")


@pytest.fixture(scope="module", autouse=True)
def each_program_started_once():
    """Most of what a child takes is its start: of every program the first is a real one."""
    started, start = set(), subprocess.run

    def run(command, cwd=".", **options):
        program = tuple(command[:3])
        if program[0] != sys.executable or program not in started:
            started.add(program)
            return start(command, cwd=cwd, **options)
        return in_this_process(command, cwd)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "run", run)
        yield


def run(script, folder, *arguments):
    importlib.import_module(f"benchmarks.{script}").main(
        ["--quick", "--out", str(folder), *arguments]
    )


#: A federation needs an engine and minutes; its own tests are below, as that of profiles is.
APART = ("federation", "profiles")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Where a script has written what it makes; each runs once."""

    @functools.cache
    def folder(script):
        out = tmp_path_factory.mktemp(script)
        run(script, out, *(["--alone"] if script == "peers" else []))
        return out

    return folder


@pytest.mark.parametrize("script", [name for name in BUDGETS if name not in APART])
def test_a_benchmark_writes_its_tables_and_what_they_were_made_with(script, made):
    out = made(script)
    tables = {path.stem: read_table(path) for path in out.glob("*.csv")}
    assert all(tables.values())
    for bar in BARS:
        if bar.table == script:
            assert {bar.column, *bar.where} <= set(tables[script][0]), bar.what
    assert tables
    told = json.loads((out / f"{script}.provenance.json").read_text())
    assert told["mode"] == "quick"
    machine = {"processor", "cores", "python", "blas", "load_before", "load_average"}
    assert machine <= set(told["machine"])
    assert str(ROOT) not in json.dumps(told)


def test_a_script_that_fails_or_takes_too_long_is_named_and_the_others_run():
    python = [sys.executable, "-c"]
    assert ended([*python, "pass"], 60.0) == ""
    assert ended([*python, "raise SystemExit(3)"], 60.0) == "exit code 3"
    assert ended([*python, "import time; time.sleep(600)"], 0.5) == "longer than 0.5 s"


def test_every_bar_is_measured_by_a_script_of_the_run():
    assert {bar.table for bar in BARS} <= set(BUDGETS)


def test_all_scripts_together_take_at_most_half_an_hour():
    assert sum(BUDGETS.values()) <= 1800
    assert list(BUDGETS)[-1] == "profiles"  # it looks which bars are missed


def test_ratios_of_the_families_are_those_of_what_is_drawn():
    rng = np.random.default_rng(0)
    source = rng.normal(size=(400_000, peers.FEATURES))
    for draw, ratio in peers.FAMILIES.values():
        r = ratio(source)
        target = draw(rng, 400_000)
        assert r.mean() == pytest.approx(1.0, abs=0.02)
        for function in (lambda X: X[:, 0], lambda X: X[:, 0] ** 2, lambda X: X[:, 0] * X[:, 1]):
            assert (r * function(source)).mean() == pytest.approx(function(target).mean(), abs=0.03)


def test_the_truth_has_no_error():
    study = peers.draw("a step", 3000, 0)
    off = peers.errors(study, study.ratio)
    assert off["ratio_error"] == pytest.approx(0.0, abs=1e-12)
    assert off["auroc_error"] < 0.03
    assert off["risk_error"] < 0.1
    assert peers.errors(study, study.auroc) == {"auroc_error": 0.0}
    exact = {"auroc": study.auroc, "brier": study.brier}
    assert peers.errors(study, exact) == {"auroc_error": 0.0, "risk_error": 0.0}


def test_time_in_a_library_is_told_at_who_called_it():
    ours, numpy, sort = ("a/fedcsa/core/x.py", 1, "f"), ("np.py", 2, "g"), ("~", 0, "sort")
    other = ("a/fedcsa/cli/y.py", 3, "h")
    table = {
        ours: (1, 1, 1.0, 5.0, {}),
        other: (1, 1, 0.5, 1.5, {}),
        numpy: (1, 1, 1.0, 4.0, {ours: (1, 1, 0.8, 3.0), other: (1, 1, 0.2, 1.0)}),
        sort: (1, 1, 4.0, 4.0, {numpy: (1, 1, 4.0, 4.0)}),
        ("a/site-packages/b/c.py", 1, "<module>"): (1, 1, 2.0, 2.0, {}),
    }
    told = profiles.own_times(SimpleNamespace(stats=table))
    expected = {"core.x.f": 4.75, "cli.y.h": 1.75, "import of b": 2.0}
    assert {who: told[who] for who in expected} == pytest.approx(expected)
    assert told.total() == pytest.approx(8.5)


def test_the_profile_of_every_bar_can_be_taken(tmp_path):
    run("profiles", tmp_path)
    taken = {line["name"] for line in read_table(tmp_path / "profiles.csv")}
    assert {bar.profile for bar in BARS} - {"", "federation"} <= taken


def test_a_source_that_reads_in_batches_is_measured(made):
    lines = read_table(made("stream") / "stream.csv")
    assert {line["what"] for line in lines} == {"memory", "stream"}
    for line in lines:
        assert float(line["peak_mb"]) > 0.0
        assert float(line["microseconds_per_row"]) > 0.0


def test_where_no_source_reads_in_batches_the_script_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(stream, "available", lambda: False)
    run("stream", tmp_path)
    assert "not available" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.fixture
def federation():
    pytest.importorskip("nvflare", reason="the engine, nvflare, is not installed")
    return importlib.import_module("benchmarks.federation")


def test_a_federation_is_told_by_our_clock_and_by_the_servers(federation):
    seconds = dict(zip(federation.STEPS, (2.0, 2.2, 1.4, 0.4, 0.3, 0.2, 0.6, 1.8), strict=True))
    lead = {"connect": 1.5, "start": 3.0}
    told = {"seconds": {**lead, **seconds}, "bytes": {"announce": 20_000, "risk": 40_000}}
    line = federation.line_of(3, 4.0, 16.0, told, 0.4, 7.0)
    assert line.pop("engine_share") == pytest.approx(0.975)
    assert line.pop("rest") == pytest.approx(16.0 - 4.5 - 8.9)
    assert line == {
        "sources": 3, "connect": 4.0, "study": 16.0, "login": 1.5, "start": 3.0, **seconds,
        "empty_job": 7.0, "megabytes": 0.06, "in_process": 0.4,
    }  # fmt: skip


def test_a_federation_is_measured_for_every_number_of_sources(federation, tmp_path, monkeypatch):
    measured = []

    def measure(count, settings):
        measured.append(count)
        return {"sources": count, "study": 10.0 + settings.rows}

    monkeypatch.setattr(federation, "measure", measure)
    run("federation", tmp_path, "--sources", "2", "5")
    assert measured == [2, 5]
    assert [line["sources"] for line in read_table(tmp_path / "federation.csv")] == ["2", "5"]
    told = json.loads((tmp_path / "federation.provenance.json").read_text())
    assert told["mode"] == "quick"
    assert told["settings"]["sources"] == [2, 5]
    assert {"nvflare", "numpy"} <= set(told["packages"])


def test_the_study_of_a_federation_needs_no_engine_to_run(federation, tmp_path):
    study = Study.load(federation.write_study(tmp_path, 2, federation.QUICK))
    adaptation = study.run()
    assert adaptation.sources == ("s0", "s1")
    penalties = {candidate["penalty"] for candidate in adaptation.plan.candidates}
    assert penalties == set(federation.QUICK.penalties)
    assert adaptation.n_target_rows == federation.QUICK.rows


def test_rounds_are_interleaved():
    calls = []
    functions = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    times = interleaved(functions, 3)
    assert calls == ["a", "b"] * 3
    assert {name: len(taken) for name, taken in times.items()} == {"a": 3, "b": 3}


def test_a_ratio_is_the_median_over_rounds():
    floor = [Taken(1.0, 1.0), Taken(2.0, 1.0), Taken(10.0, 1.0)]
    other = [Taken(3.0, 2.0), Taken(8.0, 2.0), Taken(20.0, 3.0)]
    found = compared({"floor": floor, "other": other}, "floor")
    assert found["floor"]["ratio"] == 1.0
    assert found["other"]["ratio"] == 3.0  # of 3, 4 and 2
    assert found["other"]["cpu_ratio"] == 2.0
    assert found["other"]["seconds"] == 8.0


def test_the_exponent_of_a_power_is_that_power():
    assert exponent([1, 3, 10], [2.0, 18.0, 200.0]) == pytest.approx(2.0)


def test_sizes_before_the_last_tenfold_do_not_count():
    assert last_decade([1, 10, 100], [5.0, 1.0, 100.0]) == pytest.approx(2.0)
    assert last_decade([1, 100], [5.0, 1.0]) is None

"""Every benchmark runs in its quick form and says what its table must say. No time is asserted."""

import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.harness import (  # noqa: E402
    Taken,
    compared,
    exponent,
    interleaved,
    read_table,
)

from fedcsa import Study  # noqa: E402

#: script -> table -> columns whose numbers must be positive
TABLES = {
    "ratio": {"ratio": ("rows", "seconds", "ratio", "cpu_ratio")},
    "ridge": {"ridge": ("rows", "candidates", "seconds", "ratio")},
    "trees": {"trees": ("rows", "seconds", "ratio")},
    "source": {"source": ("rows", "seconds", "ratio")},
    "messages": {"messages": ("rows", "candidates", "bytes", "bytes_per_candidate")},
    "imports": {"imports": ("seconds", "ratio")},
    "many_sources": {
        "many_sources": ("sources", "seconds", "sum_of_own", "ratio"),
        "target": ("sources", "candidates", "seconds"),
    },
    "table1": {
        "table1": ("runs", "seconds", "cpu_seconds", "all_runs", "all_runs_on_two_cores"),
        "table1_profile": (),
    },
    "peers": {"peers": ("rows", "seconds", "times_ours", "times_exact")},
}


def run(script, folder, *arguments):
    importlib.import_module(f"benchmarks.{script}").main(
        ["--quick", "--out", str(folder), *arguments]
    )


@pytest.mark.parametrize("script", TABLES)
def test_a_benchmark_writes_its_tables_and_what_they_were_made_with(script, tmp_path):
    run(script, tmp_path, *(["--alone"] if script == "peers" else []))
    for name, columns in TABLES[script].items():
        lines = read_table(tmp_path / f"{name}.csv")
        assert lines
        for line in lines:
            for column in columns:
                assert float(line[column]) > 0.0, (name, column)
    told = json.loads((tmp_path / f"{script}.provenance.json").read_text())
    assert told["mode"] == "quick"
    machine = {"processor", "cores", "python", "blas", "load_before", "load_average"}
    assert machine <= set(told["machine"])
    assert str(ROOT) not in json.dumps(told)


def test_a_source_that_reads_in_batches_is_measured_where_there_is_one(tmp_path, capsys):
    from benchmarks import stream

    run("stream", tmp_path)
    if not stream.available():
        assert "not available" in capsys.readouterr().out
        assert not list(tmp_path.iterdir())
        return
    for line in read_table(tmp_path / "stream.csv"):
        assert float(line["peak_mb"]) > 0.0
        assert float(line["microseconds_per_row"]) > 0.0


def test_every_way_to_read_is_measured(tmp_path):
    from benchmarks import reading

    for content in ("numbers", "mixed"):
        reading.write_tables(tmp_path, content, reading.QUICK)
        for way in reading.WAYS:
            if way in ("polars", "duckdb"):
                pytest.importorskip(way)
            for kind in ("csv", "parquet"):
                told = reading.child(way, tmp_path / f"{content}.{kind}", reading.QUICK.columns)
                assert min(told.values()) > 0.0


def test_commands_on_long_tables_are_measured(tmp_path):
    from benchmarks import long_tables

    long_tables.write_rows(tmp_path / "rows.csv", 300, 2)
    told = long_tables.child(["table", str(tmp_path / "rows.csv"), "--quiet"])
    assert told["peak_mb"] > 0.0
    assert set(long_tables.commands(tmp_path, "csv")) >= {"table", "run --stream", "predict"}


@pytest.fixture
def federation():
    pytest.importorskip("nvflare", reason="the engine, nvflare, is not installed")
    return importlib.import_module("benchmarks.federation")


def test_a_federation_is_told_by_our_clock_and_by_the_servers(federation):
    seconds = dict(zip(federation.STEPS, (2.2, 1.4, 0.4, 0.3, 0.2, 0.6, 1.8), strict=True))
    told = {"seconds": seconds, "bytes": {"announce": 20_000, "risk": 40_000}}
    line = federation.line_of(3, 4.0, 16.0, told, 0.4)
    assert line.pop("engine_share") == pytest.approx(0.975)
    assert line == {
        "sources": 3, "connect": 4.0, "study": 16.0, **seconds, "megabytes": 0.06,
        "in_process": 0.4,
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


def test_bytes_for_a_candidate_do_not_depend_on_rows_or_candidates(tmp_path):
    run("messages", tmp_path)
    lines = read_table(tmp_path / "messages.csv")
    assert {line["bytes_per_candidate"] for line in lines} == {"16"}


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

import json
import re
from dataclasses import dataclass

import numpy as np
from lib import common
from lib.common import (
    ROOT,
    commit,
    geometric_mean,
    options,
    read_table,
    run_all,
    write_provenance,
    write_table,
)


def test_geometric_mean():
    np.testing.assert_allclose(geometric_mean([0.5, 2.0]), 1.0)


def test_processes_give_what_one_process_gives():
    values = [float(value) for value in range(20)]
    assert run_all(np.sqrt, values, 2, "roots") == run_all(np.sqrt, values, 1, "roots")


def test_a_table_reads_back_with_empty_cells_for_what_is_missing(tmp_path):
    path = write_table(tmp_path, "t", [{"a": 1.0 / 3.0, "b": None}, {"a": np.nan, "b": "x"}])
    assert read_table(path) == [{"a": "0.33333", "b": ""}, {"a": "", "b": "x"}]


def test_provenance_tells_versions_and_settings_and_no_path(tmp_path):
    @dataclass(frozen=True)
    class Settings:
        seeds: int = 3

    write_provenance(tmp_path, str(ROOT / "figure2.py"), Settings(), quick=True)
    text = (tmp_path / "figure2.provenance.json").read_text()
    told = json.loads(text)
    assert told["settings"] == {"seeds": 3}
    assert told["mode"] == "quick"
    assert set(told["packages"]) == {"fedcsa", "numpy", "scipy", "scikit-learn"}
    assert str(tmp_path) not in text


def test_provenance_names_the_commit_and_nothing_where_there_is_none(monkeypatch, tmp_path):
    assert all(re.fullmatch(r"[0-9a-f]{40}(-dirty)?", value) for value in commit().values())
    monkeypatch.setattr(common, "ROOT", tmp_path)
    assert commit() == {}


def test_quick_results_do_not_land_among_the_kept_ones():
    assert "experiments" not in options("x", ["--quick"]).out.parts[-2:]
    assert options("x", []).out.parts[-2:] == ("experiments", "results")

import json
import re
from dataclasses import dataclass

import numpy as np
import pytest
from lib import common
from lib.common import (
    PAPER_METHODS,
    ROOT,
    commit,
    geometric_mean,
    options,
    paper_methods,
    read_table,
    run_all,
    write_provenance,
    write_table,
)
from lib.families import family

import fedcsa

PENALTIES = [0.0, 0.1, 1.0]


@pytest.fixture(scope="module")
def drawn():
    return family("unequal-rows").draw(1, n_truth=500)


@pytest.mark.parametrize("scheme", ["split", "rotate"])
def test_sharing_models_between_the_papers_methods_changes_nothing(drawn, scheme):
    shared = paper_methods(drawn.sources, drawn.X_target, 1, scheme=scheme, candidates=PENALTIES)
    assert tuple(shared) == PAPER_METHODS
    for method, adaptation in shared.items():
        alone = fedcsa.FedCSA(
            method=method, exchange="rows", scheme=scheme, candidates=PENALTIES, random_state=1
        ).fit(drawn.sources, drawn.X_target)
        np.testing.assert_allclose(
            adaptation.output(drawn.X_truth), alone.predict(drawn.X_truth), rtol=1e-12
        )
        assert adaptation.target_risk == alone.target_risk_
        assert adaptation.candidate == alone.candidate_


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

import json
import re
from dataclasses import dataclass

import common
import numpy as np
import pytest
from common import (
    PAPER_METHODS,
    best_mixture,
    best_single,
    commit,
    first_choice,
    first_rule,
    geometric_mean,
    options,
    paper_methods,
    plain_training,
    ratio_of_means,
    read_table,
    run_all,
    single_outputs,
    write_provenance,
    write_table,
)
from families import case1, family

import fedcsa

PENALTIES = [0.0, 0.1, 1.0]


@pytest.fixture(scope="module")
def drawn():
    return family("unequal-rows").draw(1, n_truth=500)


@pytest.fixture(scope="module")
def guarded(drawn):
    model = fedcsa.FedCSA(candidates=PENALTIES, random_state=1)
    return model.fit(drawn.sources, drawn.X_target)


@pytest.mark.parametrize("scheme", ["cross-fit", "split"])
def test_sharing_models_between_the_papers_methods_changes_nothing(drawn, scheme):
    shared = paper_methods(drawn.sources, drawn.X_target, 1, scheme=scheme, candidates=PENALTIES)
    assert tuple(shared) == PAPER_METHODS
    for method, adaptation in shared.items():
        alone = fedcsa.FedCSA(
            method=method, scheme=scheme, candidates=PENALTIES, random_state=1
        ).fit(drawn.sources, drawn.X_target)
        np.testing.assert_allclose(
            adaptation.output(drawn.X_truth), alone.predict(drawn.X_truth), rtol=1e-12
        )
        assert adaptation.target_risk == alone.target_risk_
        assert adaptation.candidate == alone.candidate_


def test_the_best_single_source_is_the_one_worth_most(drawn, guarded):
    alone = best_single(guarded, drawn.sources, drawn.X_target)
    adaptation = guarded.adaptation_
    worth = adaptation.estimates["guarded"].source_weights
    assert alone.source_weights_ == {adaptation.sources[int(worth.argmax())]: 1.0}


def test_plain_training_never_weights_the_training_rows(drawn, guarded):
    assert plain_training(guarded, drawn.sources, drawn.X_target).candidate_["ratio_power"] == 0.0


def test_the_first_rules_model_needs_no_second_study():
    """On a draw where caution about training weights has changed the choice."""
    drawn = case1(20, 30, 20).draw(4, n_truth=50)
    guarded = fedcsa.FedCSA(candidates=PENALTIES, random_state=1, on_no_overlap="predict")
    guarded.fit(drawn.sources, drawn.X_target)
    with first_rule():
        first = fedcsa.FedCSA(**guarded.get_params()).fit(drawn.sources, drawn.X_target)
    assert first.candidate_ != guarded.candidate_
    quick = first_choice(guarded, drawn.sources, drawn.X_target)
    assert quick.candidate_ == first.candidate_
    assert quick.predict(drawn.X_truth).tolist() == first.predict(drawn.X_truth).tolist()


def test_the_mixture_is_the_weighted_sum_of_single_outputs(drawn, guarded):
    outputs = single_outputs(guarded.adaptation_, drawn.X_truth)
    weights = np.array(list(guarded.source_weights_.values()))
    np.testing.assert_allclose(outputs @ weights, guarded.predict(drawn.X_truth), rtol=1e-10)


def test_no_mixture_beats_the_oracles_weights(drawn, guarded):
    outputs = single_outputs(guarded.adaptation_, drawn.X_truth)
    best = best_mixture(outputs, drawn.y_truth)
    assert (best >= 0.0).all()
    np.testing.assert_allclose(best.sum(), 1.0)

    def loss(weights):
        return np.mean((outputs @ weights - drawn.y_truth) ** 2)

    tried = np.random.default_rng(0).dirichlet(np.ones(outputs.shape[1]), 300)
    assert loss(best) <= min(loss(weights) for weights in tried) + 1e-9


def test_ratio_of_means_knows_its_error():
    rng = np.random.default_rng(0)
    b = rng.uniform(1.0, 2.0, 400)
    ratio, error = ratio_of_means(0.5 * b + rng.normal(0.0, 0.1, 400), b)
    assert abs(ratio - 0.5) < 4.0 * error
    np.testing.assert_allclose(error, 0.1 / np.sqrt(400) / 1.5, rtol=0.15)


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

    write_provenance(tmp_path, "guard_study", Settings(), quick=True)
    text = (tmp_path / "guard_study.provenance.json").read_text()
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

"""A preset is a set of values of existing options, in one table; its answers say what they are."""

from dataclasses import fields

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from fedcsa import FedCSA, Plan, Policy
from fedcsa.answer.view import view_of
from fedcsa.core.weights import WEIGHT_RULES
from fedcsa.errors import FedCSAError, ParameterError, ProtocolError
from fedcsa.option_rules import EXAMINED, OPEN, PRESETS, THETA
from fedcsa.plan import OPTIONS, make_plan
from fedcsa.study import Study

PAPER = PRESETS["paper"]
FIXED = sorted(set(PAPER) - set(OPEN))
#: Another value than the preset's, of every option that it fixes.
OTHERS = {
    "exchange": "rows ",
    "scheme": "cross-fit",
    "refit": True,
    "scale": 1,
    "ratio": {"n_centres": 5},
    "combine": "median",
}


def plan(model="ridge", candidates=None, **options):
    return make_plan(model, candidates, options, features=("x",))


@pytest.fixture(scope="module")
def sites():
    rng = np.random.default_rng(5)

    def site(mean, n):
        X = rng.normal(mean, 1.0, (n, 2))
        return X, X.sum(axis=1) + rng.normal(size=n)

    return {"near": site(0.2, 45), "far": site(4.0, 45)}, site(0.0, 30)[0]


# The table ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_sets_options_that_exist_to_values_that_they_may_have(preset):
    for name, value in PRESETS[preset].items():
        assert OPTIONS[name].problem(name, value) is None
        assert value != getattr(Plan, name) or name == "combine"
    assert set(OPEN) <= set(PRESETS[preset])


@pytest.mark.parametrize("written", ['exchange = "table"', "scale = true", 'method = "validated"'])
def test_a_default_that_a_file_writes_out_beside_a_preset_is_not_passed_over(written):
    """Rows do not leave where the file says table."""
    sites = 'target = { table = "t.csv" }\nsources.a.table = "a.csv"\n'
    text = f"""name = "s"\noutcome = {{ name = "y" }}\nfeatures = {{ x = "number" }}
    model = {{ name = "ridge" }}\npreset = "paper"\n{sites}"""
    assert Study.parse(text + 'combine = "mean"').plan().exchange == "rows"
    with pytest.raises(FedCSAError, match="left out with the preset 'paper'"):
        Study.parse(text + written)


def test_a_study_with_the_preset_is_the_study_with_its_values():
    by_word, by_hand = plan(preset="paper"), plan("ridge", THETA, **PAPER)
    differ = [f.name for f in fields(Plan) if getattr(by_word, f.name) != getattr(by_hand, f.name)]
    assert differ == ["preset"]


@pytest.mark.parametrize("name", FIXED)
def test_what_the_preset_sets_cannot_be_given_otherwise(name):
    assert plan(preset="paper", **{name: PAPER[name]})
    with pytest.raises(ParameterError, match=f"The '{name}' parameter must be"):
        plan(preset="paper", **{name: OTHERS[name]})


@pytest.mark.parametrize("method", WEIGHT_RULES)
def test_the_papers_estimates_and_shares_may_be_chosen(method):
    weights = {"fedle_weights": {"a": 1.0}} if method == "fedle" else {}
    found = plan(preset="paper", method=method, folds=(0.21, 0.49, 0.3), **weights)
    assert (found.method, found.folds) == (method, (0.21, 0.49, 0.3))
    assert (found.exchange, found.scale, found.refit) == ("rows", False, False)


@pytest.mark.parametrize("model", ["ridge", "weighted-least-squares"])
def test_the_search_space_is_the_unit_interval_in_hundredths(model):
    values = [next(iter(c.values())) for c in plan(model, preset="paper").candidates]
    assert values == [k / 100 for k in range(101)]
    assert len(plan(model, [0.0, 0.5], preset="paper").candidates) == 2


def test_another_model_brings_its_own_candidates():
    assert plan(Ridge(), preset="paper").candidates == ({},)


def test_a_ratio_of_ones_own_is_not_the_papers(sites):
    class Ones:
        def fit(self, *_):
            return self

        def predict(self, X):
            return np.ones(len(X))

    for exchange in ("table", "rows"):
        with pytest.raises(ParameterError, match="and there is no preset"):
            FedCSA(preset="paper", exchange=exchange, ratio=Ones()).fit(*sites)


def test_a_given_model_has_no_preset(sites):
    given = Ridge().fit(*sites[0]["near"])
    with pytest.raises(ParameterError, match=r"'preset' .* must be left out with a given model"):
        FedCSA(preset="paper").evaluate(given, *sites)


# Rows leave only where the rules of both sides allow it ------------------------------------------


def test_the_targets_rows_are_in_its_brief_and_no_other_row_leaves(sites):
    found = FedCSA(preset="paper", random_state=1).fit(*sites).adaptation_
    messages = {(site, entry.message) for site, log in found.ledgers.items() for entry in log}
    assert {name for _, name in messages} == {
        "brief", "risk-report", "model-request", "model-report",
    }  # fmt: skip
    brief = next(entry for entry in found.ledgers["target"] if entry.message == "brief")
    told = {field.name: field for field in brief.fields}
    assert told["rows"].shape == sites[1].shape


def test_a_site_whose_rules_keep_rows_refuses_the_preset_by_name(sites):
    with pytest.raises(ProtocolError, match=r"\(exchanges\): exchange 'rows' is not allowed here"):
        FedCSA(preset="paper", policy=Policy()).fit(*sites)


# What is said of it -------------------------------------------------------------------------------


@pytest.mark.parametrize("exchange", ["table", "rows"])
@pytest.mark.parametrize("method", WEIGHT_RULES)
def test_a_formula_without_the_preset_says_on_which_weights_it_runs(method, exchange):
    said = plan(method="naive", exchange=exchange).titled(method)
    assert said.startswith(f"{method}, ")
    assert ("unweighted" in said) == (method == "naive")
    if method != "naive":
        assert ("the table's weights" in said) == (exchange == "table")
        assert ("a ratio fitted on rows" in said) == (exchange == "rows")
    assert "paper" not in said
    assert plan(preset="paper").titled(method) == f"{method}, preset paper"


@pytest.mark.parametrize("method", EXAMINED)
def test_a_method_of_ours_is_called_as_ever(method):
    assert plan().titled(method) == method


def test_the_answer_says_that_it_is_the_papers_and_not_judged(sites):
    fitted = FedCSA(preset="paper", compare=["naive"], random_state=1).fit(*sites)
    view = view_of(fitted.adaptation_)
    assert fitted.verdict_ == "not judged"
    assert (fitted.interval_, fitted.legs_, fitted.examinations_) == (None, {}, {})
    assert view.heading == ("none", "Not judged", "?")
    assert view.why.startswith("the paper's own estimate, feddae: no source examined the model")
    assert [line.title for line in view.methods] == ["feddae, preset paper", "naive, preset paper"]


def test_a_formula_on_the_table_does_not_claim_to_be_the_papers(sites):
    view = view_of(FedCSA(method="feddae", random_state=1).fit(*sites).adaptation_)
    assert view.why.startswith("an estimate by feddae, on the table's weights: no source examined")
    assert "paper" not in view.why

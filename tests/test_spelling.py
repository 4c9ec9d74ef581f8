"""A misspelt name is answered with the one that was probably meant, wherever it stands."""

import inspect
from pathlib import Path

import pytest
from sklearn.base import clone
from sklearn.linear_model import Lasso

from fedcsa import DataError, FedCSA, FedCSAError, ParameterError, StudyError
from fedcsa.core.losses import loss_named
from fedcsa.data.columns import Feature, require_columns
from fedcsa.errors import nearest, one_of, unknown
from fedcsa.federation.federation_file import FEDERATION_TEMPLATE as FEDERATION
from fedcsa.federation.federation_file import Federation
from fedcsa.models.description import build_parameters
from fedcsa.models.model import LinearRegression
from fedcsa.models.registry import instantiate, model_description
from fedcsa.site.site_file import SiteFile
from fedcsa.study.study_file import build_policy


def federation_with(old, new):
    text = FEDERATION.format(name="trial")
    assert old in text
    return Federation.parse(text.replace(old, new))


LASSO = {"class": "sklearn.linear_model.Lasso", "parameters": {"alhpa": 1.0}}
CASES = {
    "parameter of FedCSA": (lambda: FedCSA(metod="validated"), "method"),
    "method": (lambda: FedCSA(method="valdiated").fit({"a": ([[1.0]], [1.0])}, [[1.0], [2.0]]),
               "validated"),
    "candidate of an estimator": (
        lambda: FedCSA(Lasso(), {"alhpa": [1.0]}).fit({"a": ([[1.0]], [1.0])}, [[1.0], [2.0]]),
        "alpha"),
    "exchange": (lambda: FedCSA(exchange="tabel").fit({"a": ([[1.0]], [1.0])}, [[1.0], [2.0]]),
                 "table"),
    "loss": (lambda: loss_named("sqared"), "squared"),
    "model": (lambda: model_description("rigde"), "ridge"),
    "described model": (lambda: instantiate({"name": "rigde"}, (), 0), "ridge"),
    "option of a model": (lambda: model_description({"name": "ridge", "intercpt": 1}), "intercept"),
    "scale of a penalty": (lambda: LinearRegression("skleran"), "sklearn"),
    "parameter of an estimator": (lambda: build_parameters({"model": LASSO}), "alpha"),
    "kind of a feature": (lambda: Feature("age", kind="nubmer"), "number"),
    "column": (lambda: require_columns(["age", "bmii"], ["age", "bmi"], "the table"), "bmii"),
    "preset of a policy": (lambda: build_policy({"preset": "sites"}), "site"),
    "rule of a policy": (lambda: build_policy({"min_fold_row": 3}), "min_fold_rows"),
    "key of a site file": (lambda: SiteFile.parse('tabel = "a.csv"', folder=Path()), "table"),
    "key of a federation file": (lambda: federation_with("port =", "prot ="), "port"),
    "section of a federation file": (lambda: federation_with("[users.", "[user."), "users"),
    "role in a federation file": (lambda: federation_with('"source"', '"sorce"'), "source"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_near_miss_is_answered_with_what_was_meant(case):
    wrong, meant = CASES[case]
    with pytest.raises(FedCSAError, match=rf"[Dd]id you mean '{meant}'\?"):
        wrong()


def test_what_resembles_nothing_is_answered_with_all_that_is_known():
    assert unknown("loss", "zzz", ["b", "a"]) == "Unknown loss 'zzz'. Known: a, b."
    assert nearest("zzz", ["a", "b"]) is None
    text = str(one_of("loss", ["a", "b"], "zzz"))
    assert text == "The 'loss' parameter must be one of ['a', 'b']. Got 'zzz' instead."
    assert str(one_of("loss", ["a"], 3)).endswith("Got 3 instead.")


def test_case_is_no_reason_to_be_misunderstood():
    assert nearest("RIDGE", ["ridge", "lasso"]) == "ridge"
    assert nearest("age", ["AGE"]) == "AGE"


def test_the_estimator_keeps_its_signature_and_can_be_cloned():
    names = list(inspect.signature(FedCSA).parameters)
    assert names[:3] == ["model", "candidates", "loss"]
    assert set(FedCSA().get_params()) == set(names)
    assert clone(FedCSA(level=0.9)).level == 0.9


def test_the_errors_are_ours():
    with pytest.raises(ParameterError, match="Unknown parameter 'metod'"):
        FedCSA(metod="validated")
    with pytest.raises(StudyError, match="'role' must be one of"):
        federation_with('"source"', '"sorce"')
    with pytest.raises(DataError, match="missing: 'bmi'"):
        require_columns(["age", "bmii"], ["age", "bmi"], "the table")

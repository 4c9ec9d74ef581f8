"""What must not matter does not change a bit: order, company, columns, repetition, the wire."""

import dataclasses
import functools
import itertools

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression

from fedcsa.messages.codec import decode, encode, written
from fedcsa.messages.policy import Policy
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.plan import Plan
from fedcsa.run import InProcess, run_study
from fedcsa.source.source import Source
from fedcsa.target.target import Target

FEATURES = ("age", "dose", "pressure")
TREES = ("sklearn.tree._tree.Tree",)
NAMES = ("ulm", "bonn", "kiel", "Ärzte")


def rows(name, n=None, classes=()):
    seed = sum(map(ord, name))
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n or 24 + seed % 11, 3)) * [10.0, 1.0, 5.0] + [50.0, 2.0, 100.0]
    y = X @ [0.1, 1.0, -0.02] + rng.normal(size=len(X))
    if classes:
        return X, np.where(y > np.median(y), *classes)
    return X, y


CASES = {
    "ridge": {},
    "validated": {"method": "validated"},
    "validated-forest": {
        "method": "validated",
        "model": RandomForestRegressor(3),
        "candidates": {"max_depth": [2, 3]},
    },
    "validated-classes": {
        "method": "validated",
        "model": LogisticRegression(),
        "candidates": {"C": [0.1, 1.0]},
        "classes": ("no", "yes"),
        "loss": "brier",
    },
    "validated-median": {"method": "validated", "combine": "median"},
    "compared": {"method": "validated", "compare": ("naive", "fediwe")},
    "rows": {
        "exchange": "rows",
        "ratio": {"n_centres": 8, "bandwidths": [1.0, 2.0], "regularizations": [0.1, 1.0]},
    },
    "split": {"scheme": "split"},
    "unscaled": {"scale": False, "refit": True},
    "forest": {"model": RandomForestRegressor(3), "candidates": {"max_depth": [2, 3]}},
    "classes": {
        "model": LogisticRegression(),
        "candidates": {"C": [0.1, 1.0]},
        "classes": ("no", "yes"),
        "loss": "log",
    },
    "median": {"combine": "median", "method": "fediwe"},
}


def plan_of(case):
    options = {"model": "ridge", "candidates": [0.0, 0.1, 1.0], **CASES[case]}
    description = model_description(options.pop("model"))
    candidates = expand_candidates(description["name"], options.pop("candidates"))
    return Plan(
        features=FEATURES,
        model=description,
        candidates=candidates,
        seed=4,
        **{"method": "feddae", **options},
    )


def source_of(name, plan, order=None):
    X, y = rows(name, classes=plan.classes)
    if order is not None:
        X = X[:, order]
    features = FEATURES if order is None else tuple(FEATURES[i] for i in order)
    return Source(name, X, y, features=features, policy=Policy.open())


def study(case, names=NAMES, order=None, wrap=lambda transport: transport):
    plan = plan_of(case)
    target = Target(rows("target", 30)[0], plan, policy=Policy.open())
    transport = InProcess([source_of(name, plan, order) for name in names])
    return run_study(target, wrap(transport))


def found(report):
    """An examination without the digest of its question, which may hand over an object."""
    return encode(dataclasses.replace(report, in_reply_to=""))


def bits(adaptation):
    """Everything about a result, to the bit."""
    X, _ = rows("new rows", 9)
    estimates = [
        (method, found.risk.tobytes(), found.weights.tobytes(), found.chosen)
        for method, found in sorted(adaptation.estimates.items())
    ]
    return {
        "reports": {name: encode(report) for name, report in adaptation.reports.items()},
        "models": {name: written(m)[0] for name, m in adaptation.model_reports.items()},
        "examinations": {name: found(m) for name, m in adaptation.examinations.items()},
        "promise": adaptation.promise,
        "verdict": adaptation.verdict,
        "estimates": estimates,
        "weights": dict(adaptation.source_weights),
        "output": adaptation.output(X).tobytes(),
        "risk": adaptation.target_risk,
        "interval": adaptation.interval,
        "findings": [str(finding) for finding in adaptation.findings],
    }


@functools.cache
def usual(case):
    """A study as it runs without any change, once for all tests."""
    return study(case)


@pytest.mark.parametrize("case", CASES)
def test_neither_running_again_nor_the_order_of_the_sources_changes_a_bit(case):
    expected = bits(usual(case))
    for names in itertools.islice(itertools.permutations(NAMES), 5, None, 9):
        assert names != NAMES
        assert bits(study(case, names)) == expected


@pytest.mark.parametrize("case", CASES)
def test_the_order_of_a_sources_columns_changes_no_bit(case):
    expected = bits(usual(case))
    for order in ((2, 0, 1), (1, 0, 2)):
        assert bits(study(case, order=list(order))) == expected


@pytest.mark.parametrize("case", [case for case in CASES if not case.endswith("median")])
def test_adding_a_source_changes_no_bit_of_what_the_others_report(case):
    few, many = study(case, NAMES[:2]), usual(case)
    for name in NAMES[:2]:
        assert encode(few.reports[name]) == encode(many.reports[name])


def test_the_seed_matters_and_every_source_draws_its_own_folds():
    X, y = rows("ulm")
    brief = Target(rows("target", 30)[0], plan_of("ridge"), policy=Policy.open()).brief(["a", "b"])
    reports = [
        Source(name, X, y, features=FEATURES, policy=Policy.open()).answer(brief)
        for name in ("a", "b")
    ]
    assert reports[0].risk.tobytes() != reports[1].risk.tobytes()


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("validated")])
def test_a_validated_study_has_its_examinations_and_its_promise(case):
    """Else the comparisons above would compare nothing."""
    adaptation = usual(case)
    assert set(adaptation.examinations) == set(NAMES)
    assert adaptation.promise is not None


class AsBytes:
    """Carries bytes, and answers in the opposite order."""

    def __init__(self, inner):
        self.inner = inner

    @property
    def sources(self):
        return dict(sorted(self.inner.sources.items(), reverse=True))

    def ask(self, messages, phase):
        answers = {}
        for name in reversed(messages):
            came = decode(encode(messages[name]))
            [(_, answer)] = self.inner.ask({name: came}, phase).items()
            answers[name] = decode(encode(answer))
        return answers


@pytest.mark.parametrize("case", CASES)
def test_messages_that_are_carried_as_bytes_give_the_same_bits(case):
    assert bits(study(case, wrap=AsBytes)) == bits(usual(case))


def test_results_do_not_depend_on_the_global_generator():
    expected = bits(usual("forest"))
    np.random.seed(1)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    assert bits(study("forest")) == expected
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002

"""A study in one process: every message is handed over in order, and written down."""

import dataclasses

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from fedcsa import FedCSA
from fedcsa.errors import BindingError, NoSourcesError, ParameterError
from fedcsa.messages.codec import digest, encode
from fedcsa.messages.policy import Policy
from fedcsa.plan import Plan
from fedcsa.run import InProcess, run_study
from fedcsa.source.source import Source
from fedcsa.target.target import Target


def source(name, n=24, **options):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 2))
    y = X.sum(axis=1) + rng.normal(size=n)
    return Source(name, X, y, **{"policy": Policy.open(), **options})


def target(**options):
    plan = Plan(
        features=("x0", "x1"),
        model={"name": "ridge"},
        candidates=({"penalty": 0.0}, {"penalty": 0.5}),
        **{"method": "feddae", **options},
    )
    return Target(np.random.default_rng(1).normal(size=(20, 2)), plan, policy=Policy.open())


def test_no_sources_are_an_error():
    with pytest.raises(ParameterError, match="'sources' parameter must be at least one source"):
        InProcess([])


def test_two_sources_of_one_name_are_an_error():
    text = "'sources' parameter must be sources with distinct names. Got 'b' instead"
    with pytest.raises(ParameterError, match=text):
        InProcess([source("a"), source("b"), source("b")])


def test_the_sources_within_reach_are_named():
    assert set(InProcess([source("b"), source("a")]).sources) == {"a", "b"}


@pytest.mark.parametrize(
    ("method", "phases"),
    [("validated", ("risk", "model", "examine")), ("feddae", ("risk", "model"))],
)
def test_progress_is_told_phase_by_phase_and_source_by_source(method, phases):
    seen = []
    transport = InProcess([source("b"), source("a")], progress=lambda *event: seen.append(event))
    run_study(target(method=method), transport)
    assert seen == [
        (phase, name, state)
        for phase in phases
        for name in ("a", "b")
        for state in ("started", "done")
    ]


def test_long_fits_of_a_source_are_told_one_by_one(monkeypatch):
    monkeypatch.setattr("fedcsa.source.processes.TOLD_EVERY", 0.0)
    rng, seen = np.random.default_rng(0), []
    X = rng.normal(size=(60, 2))
    fedcsa = FedCSA(Lasso(), candidates={"alpha": [0.1, 0.2], "ratio_power": [0.0]})
    fedcsa.fit({"a": (X, X.sum(axis=1))}, X, progress=lambda *event: seen.append(event))
    fits = [event for event in seen if event[2] not in ("started", "done")]
    assert fits == [("risk", "a", f"{done} of 10 fits") for done in range(1, 11)]  # in five folds
    assert seen.index(fits[-1]) < seen.index(("risk", "a", "done"))


def test_a_source_that_refused_is_not_asked_for_its_model():
    asked = []
    strict = dataclasses.replace(Policy.open(), min_target_rows=21)
    transport = InProcess(
        [source("a", policy=strict), source("b")],
        progress=lambda *event: asked.append(event[:2]),
    )
    adaptation = run_study(target(), transport)
    assert ("model", "a") not in asked
    assert ("model", "b") in asked
    assert adaptation.sources == ("b",)


def test_if_all_refuse_no_model_is_asked_for():
    asked = []
    strict = dataclasses.replace(Policy.open(), min_target_rows=21)
    transport = InProcess(
        [source("a", policy=strict)], progress=lambda *event: asked.append(event[0])
    )
    with pytest.raises(NoSourcesError, match="0 of 1 answers were reports"):
        run_study(target(), transport)
    assert "model" not in asked


def test_the_result_holds_the_ledger_of_every_site():
    adaptation = run_study(target(method="validated"), InProcess([source("b"), source("a")]))
    assert set(adaptation.ledgers) == {"target", "a", "b"}
    sent = [(entry.message, entry.recipient) for entry in adaptation.ledgers["target"]]
    asked = ("brief", "model-request", "examination")
    assert sent == [(message, name) for message in asked for name in ("a", "b")]
    for name in ("a", "b"):
        entries = adaptation.ledgers[name]
        messages = (
            adaptation.reports[name], adaptation.model_reports[name], adaptation.examinations[name],
        )  # fmt: skip
        assert [entry.message for entry in entries] == [message.name for message in messages]
        assert {entry.recipient for entry in entries} == {"target"}
        assert [entry.sha256 for entry in entries] == [digest(encode(m)) for m in messages]


def test_no_source_may_be_called_target():
    with pytest.raises(ParameterError, match="sources with other names than the target's"):
        InProcess([source("target"), source("b")])


def test_an_answer_is_asked_for_message_by_message():
    transport = InProcess([source("a"), source("b")])
    brief = target().brief(["a", "b"])
    answers = transport.ask({"b": brief}, "risk")
    assert list(answers) == ["b"]
    assert answers["b"].in_reply_to == digest(encode(brief))


class Swapping(InProcess):
    """Delivers every answer of one phase under the name of the other source."""

    phase: str

    def ask(self, messages, phase):
        answers = super().ask(messages, phase)
        if phase != self.phase:
            return answers
        return dict(zip(answers, reversed(list(answers.values())), strict=True))


class Forgetful(InProcess):
    """Loses the last answer of one phase."""

    phase: str

    def ask(self, messages, phase):
        answers = super().ask(messages, phase)
        if phase == self.phase:
            answers.popitem()
        return answers


@pytest.mark.parametrize("phase", ["risk", "model", "examine"])
def test_answers_that_were_swapped_on_the_way_are_refused(phase):
    transport = Swapping([source("a"), source("b")])
    transport.phase = phase
    with pytest.raises(BindingError, match="must be its own"):
        run_study(target(method="validated"), transport)


def test_a_source_whose_model_was_lost_on_the_way_is_as_if_it_were_not_there():
    transport = Forgetful([source("a"), source("b")])
    transport.phase = "model"
    found, alone = run_study(target(), transport), run_study(target(), InProcess([source("a")]))
    assert found.sources == alone.sources == ("a",)
    assert found.target_risk == alone.target_risk


def test_an_examination_that_was_lost_on_the_way_is_named_and_the_others_count():
    transport = Forgetful([source("a"), source("b")])
    transport.phase = "examine"
    adaptation = run_study(target(method="validated"), transport)
    assert adaptation.promise.examined_by == ("a",)
    lost = [f.source for f in adaptation.findings if f.code == "not-examined"]
    assert lost == ["b"]


def test_every_source_examines_the_mixture_of_the_others():
    asked = {}

    class Listening(InProcess):
        def ask(self, messages, phase):
            asked[phase] = dict(messages)
            return super().ask(messages, phase)

    adaptation = run_study(
        target(method="validated"), Listening([source(n, 60 + k) for k, n in enumerate("abcd")])
    )
    models, weights = adaptation.models, adaptation.source_weights
    assert max(weights.values()) < 0.5
    for name, examination in asked["examine"].items():
        others = {n: a for n, a in weights.items() if n != name}
        total = sum(others.values())
        np.testing.assert_allclose(examination.weights * total, list(others.values()), rtol=1e-12)
        for (_, arrays), n in zip(examination.members, others, strict=True):
            np.testing.assert_array_equal(arrays["coefficients"], models[n].coefficients)
        assert examination.own_weight == 0.0
        constant = sum(a * adaptation.reports[n].outcome_mean for n, a in others.items()) / total
        np.testing.assert_allclose(examination.constant, constant, rtol=1e-12)

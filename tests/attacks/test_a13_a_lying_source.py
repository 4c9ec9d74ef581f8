"""A13: one source of five lies: in its rows, its model, its risks, or its examination.

Weights by claimed rows let one source take all of the weight, and a flipped model moved the promise
and the risk. An examination with an enormous risk moved the promise by a factor of 1.8. Now the
other sources judge every single model, claims count up to a bound, and whoever stands out is named.

``experiments/privacy/liars.py`` measures the same over more families and seeds.
"""

import dataclasses
from functools import cache, partial

import numpy as np
import pytest

from fedcsa import FedCSA
from fedcsa.run import InProcess

#: The most by which a lie in rows, model or risks may move the promised and the realised risk.
BOUND = 0.10
#: The most by which one in the examination may: its estimate counts up to three standard deviations
#: of what the others let expect, a fifth of which moves the middle.
EXAMINED_BOUND = 0.25
SLOPES = np.array([1.0, -0.7, 0.5, 0.3])
LIAR = "s3"
CANDIDATES = [
    {"penalty": p, "ratio_power": g} for p in (0.0, 0.01, 0.1, 1.0, 10.0) for g in (0.0, 1.0)
]


def draw(rng, n, shift):
    X = rng.normal(shift, 1.0, (n, 4))
    return X, X @ SLOPES + rng.normal(size=n)


@cache
def sites(seed):
    rng = np.random.default_rng(seed)
    sources = {f"s{k}": draw(rng, 150 + 25 * k, 0.15 * k - 0.3) for k in range(5)}
    return sources, draw(rng, 120, 0.0)[0], draw(rng, 20_000, 0.0)


def fit(seed):
    sources, X, (X_fresh, y_fresh) = sites(seed)
    fitted = FedCSA(candidates=CANDIDATES, random_state=1).fit(sources, X)
    return fitted, float(np.mean((fitted.predict(X_fresh) - y_fresh) ** 2))


@cache
def honest(seed):
    return fit(seed)


def rows(claimed, report):
    told = {"n_rows": claimed}
    if hasattr(report, "effective_rows"):
        told |= {
            "n_judged": claimed, "effective_rows": float(claimed), "largest_share": 1.0 / claimed,
            "difference_after": 0.0 * report.difference_after,
        }  # fmt: skip
    return dataclasses.replace(report, **told)


def without_table(report):
    """Its table would contradict the rows that it claims."""
    none = np.empty((0, 0))
    return dataclasses.replace(
        report, scores=np.empty((0, 7)), score_sums=none, measure_variance=none, residuals=none
    )


def model(factor, shift, report):
    arrays = {name: factor * array for name, array in report.arrays.items()}
    arrays["intercept"] = report.arrays["intercept"] + shift
    return dataclasses.replace(report, arrays=arrays)


def noise(report):
    arrays = dict(report.arrays)
    random = np.random.default_rng(3).normal(size=4)
    size = np.linalg.norm(arrays["coefficients"]) / np.linalg.norm(random)
    return dataclasses.replace(report, arrays={**arrays, "coefficients": size * random})


def strongest_penalty(report):
    risk = np.append(np.full(len(report.risk) - 1, 1e4), 1e-4)
    return dataclasses.replace(report, risk=risk, variance=1e-9 * risk)


def both(first, second):
    return lambda report: second(first(report))


MANY = partial(rows, 100_000_000)
#: lie -> forged answers by phase, findings of which one names the liar; none if it need not be
LIES = {
    "a hundred million rows": (
        {"risk": MANY, "model": MANY, "examine": without_table}, ["rows-claimed"],
    ),
    "a flipped model": ({"model": partial(model, -1.0, 0.0)}, ["useless-model"]),
    "a tenfold model": ({"model": partial(model, 10.0, 0.0)}, []),  # so far off: hardly a weight
    "a model shifted by 3": ({"model": partial(model, 1.0, 3.0)}, ["useless-model"]),
    "a model shifted by 1": ({"model": partial(model, 1.0, 1.0)}, []),
    "a halved model": ({"model": partial(model, 0.5, 0.3)}, []),
    "a model of noise": ({"model": noise}, []),
    "many rows and a flipped model": (
        {"risk": MANY, "model": both(partial(model, -1.0, 0.0), MANY)}, ["useless-model"],
    ),
    "many rows and a model shifted by 1": (
        {"risk": MANY, "model": both(partial(model, 1.0, 1.0), MANY)}, ["useless-model"],
    ),
    "risks that choose the worst candidate": (
        {"risk": strongest_penalty}, ["report-moves-choice"],
    ),
}  # fmt: skip


def examined(report, **changed):
    return dataclasses.replace(report, **changed)


#: lie in the examination -> forged answer
EXAMINED = {
    "times 1000": lambda r: examined(r, risk=1e3 * r.risk),
    "over 1000": lambda r: examined(r, risk=1e-3 * r.risk),
    "times 1000, and sure of it": lambda r: examined(
        r, risk=1e3 * r.risk, risk_variance=1e-9, explained=0.0
    ),
    "any variance": lambda r: examined(r, risk_variance=1e6, explained=1e6),
    "no model is any good": lambda r: examined(
        r, member_risk=1e3 + r.member_risk, member_variance=1e-9 * r.member_variance
    ),
}  # fmt: skip


@pytest.fixture
def lie(monkeypatch):
    ask = InProcess.ask

    def start(forged):
        def lying(courier, messages, phase):
            answers = ask(courier, messages, phase)
            if phase in forged:
                answers[LIAR] = forged[phase](answers[LIAR])
            return answers

        monkeypatch.setattr(InProcess, "ask", lying)

    return start


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", LIES)
def test_one_liar_of_five_moves_promise_and_risk_by_less_than_a_tenth(lie, kind, seed):
    before, risk_before = honest(seed)
    forged, names = LIES[kind]
    lie(forged)
    after, risk_after = fit(seed)
    assert abs(np.log(after.target_risk_ / before.target_risk_)) < np.log1p(BOUND)
    assert abs(np.log(risk_after / risk_before)) < np.log1p(BOUND)
    codes = {f.code for f in after.findings_ if f.source == LIAR}
    assert codes >= set(names)
    if "useless-model" in names:
        assert after.source_weights_[LIAR] == 0.0
    if kind == "a tenfold model":
        assert after.source_weights_[LIAR] < 0.01


@pytest.mark.parametrize("kind", EXAMINED)
def test_a_lie_in_the_examination_is_bounded_and_named(lie, kind):
    before, risk_before = honest(0)
    lie({"examine": EXAMINED[kind], "again": EXAMINED[kind]})
    after, risk_after = fit(0)
    assert abs(np.log(after.target_risk_ / before.target_risk_)) < np.log1p(EXAMINED_BOUND)
    assert after.interval_[1] < 2.0 * before.interval_[1]
    assert risk_after == risk_before  # it moves no model
    if "1000" in kind:
        assert [f.source for f in after.findings_ if f.code == "stands-out"] == [LIAR]


def test_nobody_is_named_and_nothing_asked_again_where_nobody_lies(monkeypatch):
    phases, ask = [], InProcess.ask

    def listening(courier, messages, phase):
        phases.append((phase, len(messages)))
        return ask(courier, messages, phase)

    monkeypatch.setattr(InProcess, "ask", listening)
    fitted, _ = fit(0)
    assert phases == [("risk", 5), ("model", 5), ("examine", 5)]
    named = {"useless-model", "stands-out", "rows-claimed", "report-moves-choice"}
    assert not named & {f.code for f in fitted.findings_}

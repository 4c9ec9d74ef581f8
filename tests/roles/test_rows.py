"""A source that reads batches says what one that holds its rows says."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

import fedcsa.core.parallel
import fedcsa.roles.rows
from fedcsa.core import batches
from fedcsa.core.batches import HeldBatches
from fedcsa.errors import DataError
from fedcsa.models.registry import model_description, with_ratio_powers
from fedcsa.protocol.codec import digest, encode
from fedcsa.protocol.messages import ModelRequest
from fedcsa.protocol.policy import Policy
from fedcsa.roles.plan import Plan
from fedcsa.roles.source import Source
from fedcsa.roles.target import Target
from fedcsa.transport.base import run
from fedcsa.transport.inprocess import InProcessTransport

OPEN = Policy.open()
PENALTIES = [0.0, 1e-3, 0.1, 1.0, 30.0]


def tables(kind, n=333, d=3, n_target=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    y = X @ rng.normal(size=d) + 0.5 * X[:, 0] ** 2 + rng.normal(size=n)
    X_target = rng.normal(0.5, 1.0, size=(n_target, d))
    if kind == "constant column":
        X[:, 1] = 3.7
    elif kind == "all levels as columns":
        level, of_target = rng.integers(0, 3, n), rng.integers(0, 3, n_target)
        X = np.column_stack([X, np.eye(3)[level]])
        X_target = np.column_stack([X_target, np.eye(3)[of_target]])
    elif kind == "a column twice":
        X[:, 2], X_target[:, 2] = X[:, 1], X_target[:, 1]
    elif kind == "far away":
        X_target += 40.0
    elif kind == "no noise":
        y = X @ rng.normal(size=d)
    elif kind == "nearly collinear":
        X[:, 2] = X[:, 1] + 1e-7 * rng.normal(size=n)
    elif kind == "wild scales":
        X *= np.logspace(-3, 3, d)
        X_target *= np.logspace(-3, 3, d)
    elif kind == "rare level":
        X = np.column_stack([X, np.arange(n) == 5])
        X_target = np.column_stack([X_target, np.arange(n_target) % 2])
    return X, y, X_target


def plan_for(X, model=None, penalties=PENALTIES, **options):
    model = model or {"name": "ridge"}
    candidates = with_ratio_powers(model, [{"penalty": p} for p in penalties], "guarded")
    features = tuple(f"x{i}" for i in range(X.shape[1]))
    return Plan(study="s", features=features, model=model, candidates=candidates, **options)


def asked(source, brief):
    """The report, and the models of three candidates with different ratio powers."""
    report = source.answer(brief)
    models = []
    for power in (0.0, 0.5, 1.0):
        index = [c["ratio_power"] for c in brief.candidates].index(power) + 2
        request = ModelRequest("s", digest(encode(brief)), index)
        source._requests.clear()  # a real source sends one model
        models.append(source.answer(request))
    return report, models


def held(monkeypatch, X, y, brief):
    monkeypatch.setattr(fedcsa.roles.rows, "SWEEP_ROWS", 10**9)
    return asked(Source("a", X, y, policy=OPEN), brief)


def streamed(monkeypatch, X, y, brief, size=64):
    monkeypatch.setattr(batches, "BATCH_ROWS", size)
    columns = tuple(f"x{i}" for i in range(X.shape[1]))
    return asked(Source.streaming("a", HeldBatches(columns, X, y), policy=OPEN), brief)


def assert_close(ours, theirs, rtol):
    """Every number of two messages, relative to the largest of its field where it is tiny."""
    for name in type(ours).__dataclass_fields__:
        a, b = getattr(ours, name), getattr(theirs, name)
        if isinstance(a, np.ndarray | float):
            a, b = np.atleast_1d(a), np.atleast_1d(b)
            scale = np.abs(b).max(initial=0.0)
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * scale, err_msg=name)
        else:
            assert a == b, name


KINDS = [
    "plain",
    "constant column",
    "all levels as columns",
    "a column twice",
    "far away",
    "no noise",
    "wild scales",
    "rare level",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("scale", [True, False])
def test_batches_give_the_numbers_of_the_whole_table(monkeypatch, kind, loss, scale):
    X, y, X_target = tables(kind)
    plan = plan_for(X, loss=loss, scale=scale)
    brief = Target(X_target, plan, policy=OPEN).brief(["a"])
    report, models = streamed(monkeypatch, X, y, brief)
    expected, expected_models = held(monkeypatch, X, y, brief)
    assert_close(report, expected, 1e-10)
    for model, other in zip(models, expected_models, strict=True):
        assert_close(model, other, 1e-9)


def test_nearly_collinear_columns_lose_no_digits(monkeypatch):
    # A Gram matrix would lose all of them: its condition number is 10^14 and more.
    X, y, X_target = tables("nearly collinear")
    brief = Target(X_target, plan_for(X, scale=False), policy=OPEN).brief(["a"])
    report, _ = streamed(monkeypatch, X, y, brief)
    expected, _ = held(monkeypatch, X, y, brief)
    assert_close(report, expected, 1e-6)


@pytest.mark.parametrize(
    "model",
    [
        {"name": "ridge", "intercept": False},
        {"name": "ridge", "penalty_scale": "sklearn"},
    ],
)
def test_the_models_options_hold_in_batches(monkeypatch, model):
    X, y, X_target = tables("plain")
    brief = Target(X_target, plan_for(X, model), policy=OPEN).brief(["a"])
    report, models = streamed(monkeypatch, X, y, brief)
    expected, expected_models = held(monkeypatch, X, y, brief)
    assert_close(report, expected, 1e-10)
    assert [m.intercept == 0.0 for m in models] == [m.intercept == 0.0 for m in expected_models]


@pytest.mark.parametrize("size", [5, 83, 332, 333, 334])
def test_the_size_of_batches_is_no_matter(monkeypatch, size):
    X, y, X_target = tables("plain")
    brief = Target(X_target, plan_for(X), policy=OPEN).brief(["a"])
    report, _ = streamed(monkeypatch, X, y, brief, size)
    expected, _ = held(monkeypatch, X, y, brief)
    assert_close(report, expected, 1e-10)


def test_neither_cores_nor_where_rows_are_kept_change_a_bit(monkeypatch):
    X, y, X_target = tables("plain", n=500)
    brief = Target(X_target, plan_for(X), policy=OPEN).brief(["a"])
    first = [encode(message) for message in flat(streamed(monkeypatch, X, y, brief))]
    monkeypatch.setattr(fedcsa.core.parallel, "available_cores", lambda: 1)
    alone = [encode(message) for message in flat(streamed(monkeypatch, X, y, brief))]
    assert alone == first
    monkeypatch.setattr(fedcsa.core.parallel, "available_cores", lambda: 4)
    monkeypatch.setattr(fedcsa.roles.rows, "SWEEP_ROWS", 1)
    swept = [encode(m) for m in flat(asked(Source("a", X, y, policy=OPEN), brief))]
    assert swept == first


def flat(answer):
    return [answer[0], *answer[1]]


def test_many_penalties_cost_few_evaluations_and_no_digits(monkeypatch):
    X, y, X_target = tables("plain")
    penalties = [0.0, *np.logspace(-6, 3, 400).tolist()]
    brief = Target(X_target, plan_for(X, penalties=penalties), policy=OPEN).brief(["a"])
    report, _ = streamed(monkeypatch, X, y, brief)
    expected, _ = held(monkeypatch, X, y, brief)
    assert_close(report, expected, 1e-10)
    assert (report.product_mean >= 0.0).all()


def test_a_study_over_streams_is_the_study_over_arrays(monkeypatch):
    rng = np.random.default_rng(4)
    plan = plan_for(np.zeros((1, 3)))
    data = {name: tables("plain", n=200 + 60 * j, seed=j)[:2] for j, name in enumerate("abc")}
    X_target = rng.normal(0.3, 1.0, (90, 3))
    arrays = [Source(name, X, y, policy=OPEN) for name, (X, y) in data.items()]
    expected = run(Target(X_target, plan, policy=OPEN), InProcessTransport(arrays))
    monkeypatch.setattr(batches, "BATCH_ROWS", 50)
    columns = ("x0", "x1", "x2")
    streams = [
        Source.streaming(name, HeldBatches(columns, X, y), policy=OPEN)
        for name, (X, y) in data.items()
    ]
    found = run(Target(X_target, plan, policy=OPEN), InProcessTransport(streams))
    assert found.candidate == expected.candidate
    assert found.target_risk == pytest.approx(expected.target_risk, rel=1e-10)
    np.testing.assert_allclose(found.output(X_target), expected.output(X_target), rtol=1e-9)


# What cannot be done in batches ---------------------------------------------------------------


def stream(X, y, **options):
    columns = tuple(f"x{i}" for i in range(X.shape[1]))
    return Source.streaming("a", HeldBatches(columns, X, y), policy=OPEN, **options)


def test_another_model_says_how_much_memory_it_needs_before_it_starts():
    X, y, X_target = tables("plain")
    plan = Plan(
        study="s",
        features=("x0", "x1", "x2"),
        model=model_description(DecisionTreeRegressor(random_state=0)),
        candidates=({"max_depth": 2},),
    )
    brief = Target(X_target, plan, policy=OPEN).brief(["a"])
    with pytest.raises(DataError, match=r"needs its 333 rows in memory, about 0\.0 GiB") as caught:
        stream(X, y).answer(brief)
    assert "linear model" in str(caught.value)


@pytest.mark.parametrize("options", [{}, {"scheme": "rotate"}])
def test_other_schemes_need_the_rows_in_memory(options):
    X, y, X_target = tables("plain")
    plan = plan_for(X, method="feddae", **options)
    brief = Target(X_target, plan, policy=OPEN).brief(["a"])
    with pytest.raises(DataError, match="rows in memory"):
        stream(X, y).answer(brief)


def test_too_few_rows_a_constant_outcome_and_missing_features_are_named():
    X, y, X_target = tables("plain")
    brief = Target(X_target, plan_for(X), policy=OPEN).brief(["a"])
    with pytest.raises(DataError, match=r"Source 'a': A source must have at least 10 rows"):
        stream(X[:9], y[:9]).answer(brief)
    with pytest.raises(DataError, match=r"source 'a' must vary; it is the same in all 333 rows"):
        stream(X, np.ones(333)).answer(brief)
    with pytest.raises(DataError, match=r"missing: 'x2'"):
        stream(X[:, :2], y).answer(brief)
    with pytest.raises(DataError, match=r"must have rows; its table has none"):
        stream(X[:0], y[:0]).answer(brief)


def test_a_source_in_batches_shows_no_row():
    X, y, _ = tables("plain")
    assert repr(stream(X, y)) == "Source('a', rows in batches, 3 features)"

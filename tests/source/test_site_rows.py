"""A source that reads batches says what one that holds its rows says."""
# ruff: noqa: ARG001, ARG005 - every change of a table takes the same arguments

import statistics
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

import fedcsa.core.batches
from fedcsa.core import batches
from fedcsa.core.batches import HeldBatches
from fedcsa.errors import DataError, ParameterError
from fedcsa.messages.codec import digest, encode
from fedcsa.messages.messages import Examination, ModelRequest
from fedcsa.messages.policy import Policy
from fedcsa.models.linear_format import LinearModel
from fedcsa.models.registry import model_description
from fedcsa.plan import Plan
from fedcsa.run import InProcess, run_study
from fedcsa.source.measure import _too_large
from fedcsa.source.source import Source
from fedcsa.source.weigh import SiteRows
from fedcsa.target.target import Target

OPEN = Policy.open()
PENALTIES = [0.0, 1e-3, 0.1, 1.0, 30.0]


def tables(kind, n=333, d=3, n_target=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    y = X @ rng.normal(size=d) + 0.5 * X[:, 0] ** 2 + rng.normal(size=n)
    X_target = rng.normal(0.5, 1.0, size=(n_target, d))
    return CHANGES.get(kind, lambda *given: given[1:])(rng, X, y, X_target)


def constant_column(rng, X, y, X_target):
    X[:, 1] = 3.7
    return X, y, X_target


def all_levels(rng, X, y, X_target):
    level, of_target = rng.integers(0, 3, len(X)), rng.integers(0, 3, len(X_target))
    return (
        np.column_stack([X, np.eye(3)[level]]),
        y,
        np.column_stack([X_target, np.eye(3)[of_target]]),
    )


def twice(rng, X, y, X_target):
    X[:, 2], X_target[:, 2] = X[:, 1], X_target[:, 1]
    return X, y, X_target


def collinear(rng, X, y, X_target):
    X[:, 2] = X[:, 1] + 1e-7 * rng.normal(size=len(X))
    return X, y, X_target


def outlier(rng, X, y, X_target):
    X[7], y[7] = 9.0, 1e6
    return X, y, X_target


def lone_row(rng, X, y, X_target):
    X = np.column_stack([1e-6 * X, np.zeros(len(X))])
    X[3, -1] = 1e4  # in the first batch, whose means are taken off
    return X, y, np.column_stack([1e-6 * X_target, np.arange(len(X_target)) % 2])


def rare(rng, X, y, X_target):
    level, of_target = np.arange(len(X)) == 5, np.arange(len(X_target)) % 2
    return np.column_stack([X, level]), y, np.column_stack([X_target, of_target])


SCALES = np.logspace(-3, 3, 3)
CHANGES = {
    "constant column": constant_column,
    "all levels as columns": all_levels,
    "a column twice": twice,
    "far away": lambda rng, X, y, X_target: (X, y, X_target + 40.0),
    "no noise": lambda rng, X, y, X_target: (X, X @ rng.normal(size=X.shape[1]), X_target),
    "nearly collinear": collinear,
    "wild scales": lambda rng, X, y, X_target: (X * SCALES, y, X_target * SCALES),
    "an outlier without weight": outlier,
    "heavy tails": lambda rng, X, y, X_target: (np.exp(2 * X), np.exp(4 * X[:, 0]), X_target),
    "a column that only one row has": lone_row,
    "tiny ratios": lambda rng, X, y, X_target: (0.3 * X + 22.0, y, X_target),
    "rare level": rare,
}


class Read:
    """Rows that are read anew for every pass, and not known to be in memory."""

    def __init__(self, columns, X, y):
        self.columns, self._rows = columns, HeldBatches(columns, X, y)

    def __iter__(self):
        return iter(self._rows)


def plan_for(X, model=None, penalties=PENALTIES, **options):
    model = model or {"name": "ridge"}
    candidates = tuple(
        {"penalty": p, "ratio_power": power} for power in (0.0, 0.5, 1.0) for p in penalties
    )
    features = tuple(f"x{i}" for i in range(X.shape[1]))
    return Plan(study="s", features=features, model=model, candidates=candidates, **options)


def asked(make_source, brief):
    """The report, and for three ratio powers the model and an examination of another."""
    answers = []
    for power in (0.0, 0.5, 1.0):
        source = make_source()  # a real source sends one model
        report = source.answer(brief)
        index = [c["ratio_power"] for c in brief.candidates].index(power) + 2
        told = digest(encode(brief))
        model = source.answer(ModelRequest("s", told, index))
        examination = examination_of(brief, index, 0.6 if power else 0.0)
        answers += [model, replace(source.answer(examination), in_reply_to="")]
    return report, answers


def examination_of(brief, candidate, own):
    d = len(brief.features)
    return Examination(
        study="s", brief=digest(encode(brief)), candidate=candidate, combine="mean",
        own_weight=own, weights=np.array([1.0 - own]), forms=[LinearModel(np.zeros(d), 0.0).form],
        arrays={"0.coefficients": np.full(d, 0.7), "0.intercept": np.array([0.3])},
        constant=np.array([0.1]), again=False,
    )  # fmt: skip


def held(monkeypatch, X, y, brief):
    monkeypatch.setattr(batches, "BATCH_ROWS", 10**6)
    return asked(lambda: Source("a", X, y, policy=OPEN), brief)


def streamed(monkeypatch, X, y, brief, size=64):
    monkeypatch.setattr(batches, "BATCH_ROWS", size)
    columns = tuple(f"x{i}" for i in range(X.shape[1]))
    return asked(lambda: Source.streaming("a", Read(columns, X, y), policy=OPEN), brief)


def assert_close(ours, theirs, rtol):
    """Every number of two messages, relative to the largest of its field where it is tiny."""
    assert type(ours) is type(theirs)
    for name in type(ours).__dataclass_fields__:
        a, b = getattr(ours, name), getattr(theirs, name)
        if name == "arrays":
            assert set(a) == set(b)
            for key in a:
                atol = rtol * np.abs(b[key]).max(initial=0.0)
                np.testing.assert_allclose(a[key], b[key], rtol=rtol, atol=atol, err_msg=key)
        elif isinstance(a, np.ndarray | float):
            a, b = np.atleast_1d(a), np.atleast_1d(b)
            scale = np.abs(b).max(initial=0.0)
            if name == "variance":  # losses that are all alike but for rounding
                scale = max(scale, 1e-16 * np.abs(theirs.risk).max() ** 2)
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
    "an outlier without weight",
    "heavy tails",
    "a column that only one row has",
    "tiny ratios",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("loss", "scale"), [("squared", True), ("absolute", False)])
def test_batches_give_the_numbers_of_the_whole_table(monkeypatch, kind, loss, scale):
    X, y, X_target = tables(kind)
    halves = ({"feature": "x0", "cut": 0.0},)
    plan = plan_for(X, loss=loss, scale=scale, subgroups=halves)
    brief = Target(X_target, plan, policy=OPEN).brief(["a"])
    report, models = streamed(monkeypatch, X, y, brief)
    expected, expected_models = held(monkeypatch, X, y, brief)
    # Columns in the ratio of 10^10 leave either way of computing ten digits and fewer.
    rtol = 1e-8 if kind == "a column that only one row has" and not scale else 1e-10
    assert_close(report, expected, rtol)
    for model, other in zip(models, expected_models, strict=True):
        assert_close(model, other, 10.0 * rtol)


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
    for model_sent, other in zip(models, expected_models, strict=True):
        assert_close(model_sent, other, 1e-9)


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_a_summary_is_that_of_the_whole_table(monkeypatch, offset):
    monkeypatch.setattr(batches, "BATCH_ROWS", 7)
    rng = np.random.default_rng(0)
    X = rng.normal(offset, [1.0, 100.0, 1e-3], size=(60, 3))
    X[:, 1] = 5.0
    rows = HeldBatches(("a", "b", "c"), X, rng.normal(size=60))
    n_rows, means, sds = SiteRows("s", rows).summary
    assert n_rows == 60
    assert sds[1] == 0.0
    for column, mean, sd in zip(X.T, means, sds, strict=True):
        assert mean == pytest.approx(float(np.mean(column)), rel=1e-12)
        exact = statistics.pstdev([Fraction(value) for value in column])
        assert sd == pytest.approx(float(exact), rel=1e-12, abs=0.0)


def test_the_size_of_batches_is_no_matter(monkeypatch):
    X, y, X_target = tables("plain", n=120)
    brief = Target(X_target, plan_for(X), policy=OPEN).brief(["a"])
    expected, _ = held(monkeypatch, X, y, brief)
    for size in (5, 83, len(X) - 1, len(X), len(X) + 1):
        report, _ = streamed(monkeypatch, X, y, brief, size)
        assert_close(report, expected, 1e-10)


def test_neither_cores_nor_where_rows_are_kept_change_a_bit(monkeypatch):
    X, y, X_target = tables("plain", n=500)
    brief = Target(X_target, plan_for(X), policy=OPEN).brief(["a"])
    first = [encode(message) for message in flat(streamed(monkeypatch, X, y, brief))]
    monkeypatch.setattr(fedcsa.core.batches, "available_cores", lambda: 1)
    alone = [encode(message) for message in flat(streamed(monkeypatch, X, y, brief))]
    assert alone == first
    monkeypatch.setattr(fedcsa.core.batches, "available_cores", lambda: 4)
    in_memory = asked(lambda: Source("a", X, y, policy=OPEN), brief)
    assert [encode(message) for message in flat(in_memory)] == first


def test_a_site_that_was_restarted_answers_as_before():
    X, y, X_target = tables("plain")
    brief = Target(X_target, plan_for(X), policy=OPEN).brief(["a"])
    report = Source("a", X, y, policy=OPEN).answer(brief)

    def restarted():
        source = Source("a", X, y, policy=OPEN)
        source.recall(brief, report)
        return source

    expected = flat(asked(lambda: Source("a", X, y, policy=OPEN), brief))
    for found, same in zip(flat(asked(restarted, brief)), expected, strict=True):
        assert_close(found, same, 1e-12)


def test_a_restarted_site_knows_two_candidates_apart():
    X, y, X_target = tables("plain")
    brief = Target(X_target, plan_for(X), policy=OPEN).brief(["a"])
    kept, restarted = (Source("a", X, y, policy=OPEN) for _ in range(2))
    restarted.recall(brief, kept.answer(brief))
    last = len(brief.candidates) - 1  # with another power than the first
    for question in (
        examination_of(brief, 0, 0.6),
        ModelRequest("s", digest(encode(brief)), last),
    ):
        assert_close(restarted.answer(question), kept.answer(question), 1e-12)


def flat(answer):
    return [answer[0], *answer[1]]


def test_a_study_over_streams_is_the_study_over_arrays(monkeypatch):
    rng = np.random.default_rng(4)
    plan = plan_for(np.zeros((1, 3)))
    data = {name: tables("plain", n=200 + 60 * j, seed=j)[:2] for j, name in enumerate("abc")}
    X_target = rng.normal(0.3, 1.0, (90, 3))
    arrays = [Source(name, X, y, policy=OPEN) for name, (X, y) in data.items()]
    expected = run_study(Target(X_target, plan, policy=OPEN), InProcess(arrays))
    monkeypatch.setattr(batches, "BATCH_ROWS", 50)
    columns = ("x0", "x1", "x2")
    streams = [
        Source.streaming(name, Read(columns, X, y), policy=OPEN) for name, (X, y) in data.items()
    ]
    found = run_study(Target(X_target, plan, policy=OPEN), InProcess(streams))
    assert found.candidate == expected.candidate
    assert found.target_risk == pytest.approx(expected.target_risk, rel=1e-10)
    np.testing.assert_allclose(found.output(X_target), expected.output(X_target), rtol=1e-9)
    np.testing.assert_allclose(found.interval, expected.interval, rtol=1e-10)
    for name, examined in expected.examinations.items():
        same = replace(found.examinations[name], in_reply_to=examined.in_reply_to)
        assert_close(same, examined, 1e-10)


# The smallest fold ---------------------------------------------------------------------------


@pytest.mark.parametrize("read", [False, True], ids=["held", "read"])
@pytest.mark.parametrize(("folds", "n_parts"), [({}, 5), ({"folds": 3}, 3)])
def test_the_smallest_fold_is_counted_to_the_row(monkeypatch, folds, n_parts, read):
    least = 6
    policy = replace(OPEN, min_fold_rows=least)
    for n in (least * n_parts - 1, least * n_parts, least * n_parts + n_parts - 1):
        X, y, X_target = tables("plain", n=n)
        brief = Target(X_target, plan_for(X, **folds), policy=OPEN).brief(["a"])
        monkeypatch.setattr(batches, "BATCH_ROWS", 7)
        source = Source("a", X, y, policy=policy)
        if read:
            source = Source.streaming("a", Read(("x0", "x1", "x2"), X, y), policy=policy)
        refused = [error.rule for error in source.refusals(brief)]
        assert refused == ([] if n // n_parts >= least else ["min_fold_rows"])


# What a forged brief cannot do ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("candidate", "rule"),
    [
        ({"penalty": 0.0, "ratio_power": 50.0}, "'ratio_power' .* between 0 and 1"),
        ({"penalty": 0.0, "ratio_power": -1.0}, "'ratio_power' .* between 0 and 1"),
        ({"penalty": -1.0, "ratio_power": 0.0}, "'penalty' .* at least 0"),
    ],
)
def test_training_weights_cannot_be_driven_onto_one_row(candidate, rule):
    X, y, X_target = tables("plain")
    plan = plan_for(X)
    honest = Target(X_target, plan, policy=OPEN).brief(["a"])
    forged = replace(honest, candidates=[candidate])
    for source in (stream(X, y), Source("a", X, y, policy=OPEN)):
        with pytest.raises(ParameterError, match=rule):
            source.answer(forged)


def test_whoever_asks_again_gets_the_same_again_though_rows_have_changed():
    X, y, X_target = tables("plain")
    y = y.copy()
    source = stream(X, y)
    brief = Target(X_target, plan_for(X), policy=OPEN).brief(["a"])
    first = encode(source.answer(brief))
    request = ModelRequest("s", digest(encode(brief)), 0)
    model = encode(source.answer(request))
    y[5] += 100.0
    assert encode(source.answer(brief)) == first
    assert encode(source.answer(request)) == model
    assert len(source.ledger.entries) == 4  # every time that something left


def test_a_refused_report_allows_no_model():
    X, y, X_target = tables("plain")
    strict = replace(OPEN, min_effective_rows=1e6)
    source = Source("a", X, y, policy=strict)
    brief = Target(X_target, plan_for(X), policy=OPEN).brief(["a"])
    assert source.answer(brief).rule == "row_floors"
    request = ModelRequest("s", digest(encode(brief)), 0)
    assert source.answer(request).rule == "phase_order"


# What cannot be done in batches ---------------------------------------------------------------


def stream(X, y, **options):
    columns = tuple(f"x{i}" for i in range(X.shape[1]))
    return Source.streaming("a", Read(columns, X, y), policy=OPEN, **options)


def test_another_model_says_how_much_memory_it_needs_before_it_starts():
    X, y, X_target = tables("plain")
    plan = Plan(
        study="s",
        features=("x0", "x1", "x2"),
        model=model_description(DecisionTreeRegressor(random_state=0)),
        candidates=({"max_depth": 2},),
    )
    brief = Target(X_target, plan, policy=OPEN).brief(["a"])
    with pytest.raises(DataError, match=r"needs its 333 rows in memory\. Read them") as caught:
        stream(X, y).answer(brief)
    assert str(caught.value).endswith("or choose ridge or weighted least squares.")


def test_much_memory_is_told_in_gib():
    rows = SimpleNamespace(source="a", n_rows=10**7, mean=np.zeros(1))
    assert "10000000 rows in memory, about 0.5 GiB. Read" in str(_too_large(rows, 1))


def test_an_exchange_of_rows_need_the_rows_in_memory():
    X, y, X_target = tables("plain")
    plan = plan_for(X, method="feddae", exchange="rows")
    brief = Target(X_target, plan, policy=OPEN).brief(["a"])
    with pytest.raises(DataError, match="rows in memory"):
        stream(X, y).answer(brief)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_cell_that_is_no_number_is_found_in_a_later_batch(monkeypatch, bad):
    monkeypatch.setattr(batches, "BATCH_ROWS", 100)
    X, y, X_target = tables("plain")
    brief = Target(X_target, plan_for(X), policy=OPEN).brief(["a"])
    for table, outcomes in ((X.copy(), y), (X, y.copy())):
        (table if table is not X else outcomes)[250] = bad
        with pytest.raises(DataError, match="must be finite"):
            stream(table, outcomes).answer(brief)


def test_missing_features_and_a_table_without_rows_are_named():
    X, y, X_target = tables("plain")
    brief = Target(X_target, plan_for(X), policy=OPEN).brief(["a"])
    with pytest.raises(DataError, match=r"missing: 'x2'"):
        stream(X[:, :2], y).answer(brief)
    with pytest.raises(DataError, match=r"must have rows; its table has none"):
        stream(X[:0], y[:0]).answer(brief)


def test_a_source_in_batches_shows_no_row():
    X, y, _ = tables("plain")
    assert repr(stream(X, y)) == "Source('a', rows in batches, 3 columns)"

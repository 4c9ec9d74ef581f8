"""A target whose rows come in batches: the same table, models, weights and own scores."""

import numpy as np
import pytest

from fedcsa import Policy, Source, Target
from fedcsa.core.batches import BATCH_ROWS, HeldRows, RowBatches
from fedcsa.core.scores import OwnScores
from fedcsa.errors import DataError, NoSourcesError
from fedcsa.plan import make_plan
from fedcsa.run import InProcess, run_study
from fedcsa.target import accept, target_rows


class Streamed(RowBatches):
    """Rows that are not held, as far as a target can see."""

    def __init__(self, X):
        self._X = X

    def __iter__(self):
        return iter(HeldRows(self._X))


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=n), rng.random(n) < 0.4])
    return X, X @ [1.0, 0.5] + rng.normal(size=n)


def adapted(X, monkeypatch, compared=10**9):
    monkeypatch.setattr(target_rows, "COMPARED_ROWS", compared)
    plan = make_plan(
        {"name": "ridge"}, None, {"seed": 1}, study="s", features=("a", "b"), flags=(False, True)
    )
    sources = [
        Source(name, *rows(300, seed), features=("a", "b"), policy=Policy.open())
        for seed, name in enumerate(("x", "y", "z"), start=1)
    ]
    return run_study(Target(X, plan, policy=Policy.open()), InProcess(sources))


N = 2 * BATCH_ROWS + 33


def test_streamed_rows_give_what_held_rows_give(monkeypatch):
    X = rows(N, 9)[0]
    held, streamed = adapted(X, monkeypatch), adapted(Streamed(X), monkeypatch)
    assert streamed.table == held.table
    assert streamed.source_weights == held.source_weights
    assert streamed.own_scores.shares.tobytes() == held.own_scores.shares.tobytes()
    assert streamed.promise == held.promise


def test_own_scores_of_batches_are_those_of_all_rows(monkeypatch):
    X = rows(N, 9)[0]
    found = adapted(X, monkeypatch)
    own = found.own_scores
    whole = OwnScores.of_rows(own.design, found.predict(X), np.ones((N, 1), bool))
    assert own.n_rows.tolist() == whole.n_rows.tolist() == [N]
    np.testing.assert_allclose(own.shares, whole.shares, rtol=1e-9, atol=1e-15)


def test_models_are_compared_on_rows_that_are_evenly_spread(monkeypatch):
    X = rows(N, 9)[0]
    monkeypatch.setattr(target_rows, "COMPARED_ROWS", 1000)
    every = -(-N // 1000)
    for given in (X, Streamed(X)):
        batches = HeldRows(X) if given is X else given
        found = target_rows.TargetRows(batches, target_rows.moments_of(batches, 2))
        assert found.sample.tobytes() == X[::every].tobytes()
    whole, few = adapted(X, monkeypatch), adapted(X, monkeypatch, compared=1000)
    for name, weight in whole.source_weights.items():
        assert few.source_weights[name] == pytest.approx(weight, abs=0.02)


def test_a_model_that_fails_on_one_row_beside_the_sample_is_left_out(monkeypatch):
    predicted = accept.predicted_or_why_not

    def only_short_batches_fail(model, seen):
        return (None, "ValueError") if len(seen) == 33 else predicted(model, seen)

    monkeypatch.setattr(accept, "predicted_or_why_not", only_short_batches_fail)
    with pytest.raises(NoSourcesError, match="must be able to predict the target's rows"):
        adapted(Streamed(rows(N, 9)[0]), monkeypatch, compared=1000)


def test_rows_that_do_not_differ_are_refused(monkeypatch):
    with pytest.raises(DataError, match="at least 2 rows that differ"):
        adapted(Streamed(np.ones((N, 2))), monkeypatch)
